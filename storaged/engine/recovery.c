/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding where ended sessions end, and making sure that they have ended. By name, never by listing:
 *
 *   look   64 seqs from the watermark on; the first that is missing begins the
 *   probe  of the 64 seqs that are 64 and more above it. Their writer, or the recoverer whose seals they are,
 *          saw the missing one stored (WAL_REACH): it is looked at again, and when it is missing still, it was
 *          deleted, and all above it would be lost silently. With nothing there begins the
 *   seal   seals on the missing one and the 63 after it, all conditional. Lost ones hold data of the old
 *          process. The lowest seal is the cut; when all 64 were lost, look behind them.
 *
 * What decides is read whole (a seal that was there, data that a seal lost to): a store on files makes
 * what is read whole durable in its directory first, even if its writer was killed before the fsync.
 */
#include "storaged/engine/recovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "storaged/engine/backoff.h"
#include "storaged/engine/load.h"


static void recovery_look(struct recovery *r, uint64_t from);
static void recovery_seal(struct recovery *r, uint64_t from);
static void recovery_probe(struct recovery *r, uint64_t missing);
static void recovery_recheck(struct recovery *r);
static void recovery_confirm(struct recovery *r, uint64_t seq);
static void slot_look(struct recovery_slot *s);
static void slot_seal(struct recovery_slot *s);

/* ------------------------------------------------------------------ helpers */

void recovery_key(const struct recovery *r, uint64_t seq, char ret_key[WAL_KEY_MAX])
{
	wal_key(ret_key, r->engine->config.node, r->ended[r->at].session, seq);
}

void recovery_fatal(struct recovery *r, uint64_t seq, const char *text)
{
	char key[WAL_KEY_MAX], whole[400];
	recovery_key(r, seq, key);
	snprintf(whole, sizeof(whole), "WAL object %s in %s: %s", key, r->engine->store->url, text);
	engine_fatal(r->engine, 1, whole);
}

void recovery_set_fault(struct recovery *r, struct obj_result result)
{
	snprintf(r->fault, sizeof(r->fault), "%s: %s", result.what != NULL ? result.what : r->engine->store->url,
		 strerror(-result.err));
}

void slot_wait(struct recovery_slot *s, void (*on_fire)(void *arg))
{
	struct env *env = s->recovery->engine->env;
	s->timer = (struct env_timer){ .on_fire = on_fire, .arg = s };
	env_timer_start(env, &s->timer, backoff_next(env, &backoff_read, &s->backoff_ms));
}

/* ------------------------------------------------------------------- slots */

/* Notes the sizes of the data objects of a window, in order. */
static void sizes_note(struct recovery *r, uint64_t seq, uint64_t size)
{
	uint64_t i = seq - r->ended[r->at].watermark, *n = &r->n_sizes[r->at];
	must(i <= *n);
	if (i < *n)
		return;
	if ((i & (i - 1)) == 0)
		r->sizes[r->at] = must_realloc(r->sizes[r->at], (i == 0 ? 1 : i * 2) * sizeof(uint32_t));
	r->sizes[r->at][(*n)++] = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static void on_loaded(struct engine *e)
{
	recovery_read(e->recovery);
}

/* Every cut is known: what is packed comes first, the WAL on top. */
static void recovery_load(struct recovery *r)
{
	r->engine->load = load_start(r->engine, on_loaded);
}

static void session_cut(struct recovery *r, uint64_t cut)
{
	r->ended[r->at].cut = cut;
	if (++r->at < r->n_ended) {
		recovery_look(r, r->ended[r->at].watermark);
		return;
	}
	recovery_load(r);
}

/* Whether anything stands where nothing can while the missing one was never stored. */
static void probe_decide(struct recovery *r)
{
	for (unsigned i = 0; i < r->n_window; i++) {
		if (r->slots[i].found != FOUND_MISSING) {
			recovery_recheck(r);
			return;
		}
	}
	recovery_seal(r, r->missing);
}

/* It may have been stored between our look at it and the probe, by a process that did not know of its end. */
static void recheck_decide(struct recovery *r)
{
	if (r->slots[0].found != FOUND_MISSING)
		recovery_look(r, r->missing);
	else
		recovery_fatal(r, r->missing, "it is missing, and objects far behind it show that it was stored: somebody "
			       "deleted it. Restore it from a backup");
}

/* Every slot is known. The first that is not data decides. */
static void window_decide(struct recovery *r)
{
	bool sealing = r->step == STEP_SEAL;
	if (r->step == STEP_PROBE) {
		probe_decide(r);
		return;
	}
	if (r->step == STEP_RECHECK) {
		recheck_decide(r);
		return;
	}
	for (unsigned i = 0; i < r->n_window; i++) {
		struct recovery_slot *s = &r->slots[i];
		switch (s->found) {
		case FOUND_DATA:
			sizes_note(r, s->seq, s->size);
			continue;
		case FOUND_SEAL:
			if (sealing)
				session_cut(r, s->seq);
			else
				recovery_confirm(r, s->seq);
			return;
		case FOUND_MISSING:
			recovery_probe(r, s->seq);
			return;
		case FOUND_BROKEN:
			recovery_fatal(r, s->seq, s->broken);
			return;
		case FOUND_NOTHING_YET:
			must(false);
		}
	}
	recovery_look(r, r->window + r->n_window);
}

static void slot_known(struct recovery_slot *s, enum slot_found found)
{
	struct recovery *r = s->recovery;
	must(s->found == FOUND_NOTHING_YET && r->n_left > 0);
	s->found = found;
	if (--r->n_left == 0)
		window_decide(r);
}

static void on_look_again(void *arg)
{
	slot_look(arg);
}

static void on_seal_again(void *arg)
{
	slot_seal(arg);
}

static void slot_look_ok(struct recovery_slot *s, struct slice data, uint64_t size)
{
	struct wal_header h;
	s->broken = wal_header_decode(data, &h);
	if (s->broken == NULL) {
		s->size = size;
		slot_known(s, h.kind == WAL_SEAL ? FOUND_SEAL : FOUND_DATA);
	} else if (++s->n_faults < RECOVERY_FAULTS_MAX) {
		slot_wait(s, on_look_again);
	} else {
		slot_known(s, FOUND_BROKEN);
	}
}

static void on_looked(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct recovery_slot *s = arg;
	struct recovery *r = s->recovery;
	if (!wal_may_look(&r->engine->wal))
		return;
	if (result.outcome == OUTCOME_OK) {
		r->fault[0] = '\0';
		slot_look_ok(s, data, size);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -ENOENT) {
		if (s->sealing)
			slot_seal(s);
		else
			slot_known(s, FOUND_MISSING);
	} else {
		recovery_set_fault(r, result);
		slot_wait(s, on_look_again);
	}
}

static void slot_look(struct recovery_slot *s)
{
	char key[WAL_KEY_MAX];
	if (s->recovery->engine->dead)
		return;
	recovery_key(s->recovery, s->seq, key);
	objstore_get(s->recovery->engine->store, key, 0, s->sealing ? 0 : WAL_HEADER, on_looked, s);
}

static void on_sealed(void *arg, struct obj_result result)
{
	struct recovery_slot *s = arg;
	struct recovery *r = s->recovery;
	if (!wal_may_look(&r->engine->wal))
		return;
	if (result.outcome == OUTCOME_OK) {
		r->fault[0] = '\0';
		slot_known(s, FOUND_SEAL);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -EEXIST) {
		slot_look(s);
	} else {
		if (result.err != -EAGAIN)
			recovery_set_fault(r, result);
		slot_wait(s, on_seal_again);
	}
}

static void slot_seal(struct recovery_slot *s)
{
	struct engine *e = s->recovery->engine;
	struct wal_header h = {
		.kind = WAL_SEAL, .node = e->config.node, .session = s->recovery->ended[s->recovery->at].session,
		.seq = s->seq,
	};
	char key[WAL_KEY_MAX];
	if (e->dead)
		return;
	memcpy(h.put_id, e->config.put_id, sizeof(h.put_id));
	wal_header_encode(s->seal, &h);
	recovery_key(s->recovery, s->seq, key);
	struct iovec iov = { .iov_base = s->seal, .iov_len = WAL_HEADER };
	objstore_put(e->store, key, &iov, 1, true, on_sealed, s);
}

/* ------------------------------------------------------------------ windows */

static void window_begin(struct recovery *r, uint64_t from, unsigned n, enum recovery_step step,
			 void (*begin)(struct recovery_slot *))
{
	const bool sealing = step == STEP_SEAL;
	must(n > 0 && n <= RECOVERY_WINDOW);
	r->step = step;
	r->window = from;
	r->n_window = r->n_left = n;
	for (unsigned i = 0; i < n; i++)
		r->slots[i] = (struct recovery_slot){ .recovery = r, .seq = from + i, .sealing = sealing };
	for (unsigned i = 0; i < n; i++)
		begin(&r->slots[i]);
}

static void recovery_look(struct recovery *r, uint64_t from)
{
	window_begin(r, from, RECOVERY_WINDOW, STEP_LOOK, slot_look);
}

static void recovery_seal(struct recovery *r, uint64_t from)
{
	window_begin(r, from, RECOVERY_WINDOW, STEP_SEAL, slot_seal);
}

static void recovery_probe(struct recovery *r, uint64_t missing)
{
	r->missing = missing;
	window_begin(r, missing + WAL_REACH, RECOVERY_WINDOW, STEP_PROBE, slot_look);
}

static void recovery_recheck(struct recovery *r)
{
	window_begin(r, r->missing, 1, STEP_RECHECK, slot_look);
}

static void recovery_confirm(struct recovery *r, uint64_t seq)
{
	window_begin(r, seq, 1, STEP_SEAL, slot_look);
}

/* --------------------------------------------------------------------- life */

struct recovery *recovery_start(struct engine *e, struct engine_session *ended, size_t n_ended,
				void (*on_read)(struct engine *e))
{
	struct recovery *r = must_calloc(1, sizeof(*r));
	r->engine = e;
	r->ended = ended;
	r->n_ended = n_ended;
	r->on_read = on_read;
	r->began_ms = env_now_ms(e->env);
	r->sizes = must_calloc(n_ended + 1, sizeof(*r->sizes));
	r->n_sizes = must_calloc(n_ended + 1, sizeof(*r->n_sizes));
	if (n_ended > 0)
		recovery_look(r, ended[0].watermark);
	else
		recovery_load(r);
	return r;
}

void recovery_free(struct recovery *r)
{
	if (r == NULL)
		return;
	for (unsigned i = 0; i < RECOVERY_WINDOW; i++) {
		env_timer_stop(r->engine->env, &r->slots[i].timer);
		free(r->slots[i].data);
	}
	for (size_t i = 0; i < r->n_ended; i++)
		free(r->sizes[i]);
	free(r->sizes);
	free(r->n_sizes);
	free(r);
}

const struct engine_recovery_stats *recovery_stats(const struct recovery *r)
{
	return &r->stats;
}

const char *recovery_fault(const struct recovery *r)
{
	return r->fault[0] != '\0' ? r->fault : NULL;
}
