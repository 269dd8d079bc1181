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
 *
 * A node that is killed again and again before it serves leaves a session each time. So some are searched side by
 * side, and what is not answered is asked a second time: neither many sessions nor a connection that hangs keeps a
 * node from serving for long.
 */
#include <errno.h>
#include <stdlib.h>

#include "storaged/engine/backoff.h"
#include "storaged/engine/recovery.h"
#include "storaged/planted.h"

/* What a window is for. */
enum cut_step { STEP_LOOK, STEP_PROBE, STEP_RECHECK, STEP_SEAL };

enum slot_found { FOUND_NOTHING_YET, FOUND_MISSING, FOUND_DATA, FOUND_SEAL, FOUND_BROKEN };

/* One question to the store. It outlives the use of its slot that asked it. */
struct cut_ask {
	struct cut_slot *slot;
	uint64_t question;              /* the slot's, when it was asked */
	bool busy;                      /* the store has it */
	uint8_t seal[WAL_HEADER];
};

struct cut_slot {
	struct cut_search *search;
	uint64_t seq;
	enum slot_found found;
	const char *broken;             /* what is wrong with it */
	uint64_t size;                  /* of the object */
	uint32_t backoff_ms, n_faults;
	bool sealing;                   /* put a seal, not only look */
	bool putting;                   /* the question is a put */
	bool waits;                     /* for one of the two to return */
	uint64_t question;              /* raised with each new one; answers to older ones are not looked at */
	struct cut_ask asks[2];         /* the second when the first hangs */
	struct env_timer timer;         /* asks again */
};

struct cut_search {
	struct recovery *recovery;
	size_t at;                      /* session at hand */
	struct cut_slot slots[RECOVERY_WINDOW];
	uint64_t window;                /* first seq of it */
	unsigned n_window, n_left;
	enum cut_step step;
	uint64_t missing;               /* probing: the first seq that is not there */
};

static void search_look(struct cut_search *c, uint64_t from);
static void search_seal(struct cut_search *c, uint64_t from);
static void search_probe(struct cut_search *c, uint64_t missing);
static void search_recheck(struct cut_search *c);
static void search_confirm(struct cut_search *c, uint64_t seq);
static void search_next(struct cut_search *c);
static void slot_look(struct cut_slot *s);
static void slot_seal(struct cut_slot *s);

/* --------------------------------------------------------------- what was found */

/* Notes the sizes of the data objects of a window, in order. */
static void sizes_note(struct cut_search *c, uint64_t seq, uint64_t size)
{
	struct recovery *r = c->recovery;
	uint64_t i = seq - r->ended[c->at].watermark, *n = &r->n_sizes[c->at];
	must(i <= *n);
	if (i < *n)
		return;
	if ((i & (i - 1)) == 0)
		r->sizes[c->at] = must_realloc(r->sizes[c->at], (i == 0 ? 1 : i * 2) * sizeof(uint32_t));
	r->sizes[c->at][(*n)++] = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static void session_cut(struct cut_search *c, uint64_t cut)
{
	struct recovery *r = c->recovery;
	r->ended[c->at].cut = cut;
	must(r->n_cut < r->n_ended);
	if (++r->n_cut == r->n_ended)
		recovery_scan(r);
	else
		search_next(c);
}

/* Whether anything stands where nothing can while the missing one was never stored. */
static void probe_decide(struct cut_search *c)
{
	for (unsigned i = 0; i < c->n_window; i++) {
		if (c->slots[i].found != FOUND_MISSING) {
			search_recheck(c);
			return;
		}
	}
	if (planted(PLANTED_CUT_WITHOUT_SEALS))
		session_cut(c, c->missing);
	else
		search_seal(c, c->missing);
}

/* It may have been stored between our look at it and the probe, by a process that did not know of its end. */
static void recheck_decide(struct cut_search *c)
{
	if (c->slots[0].found != FOUND_MISSING)
		search_look(c, c->missing);
	else
		recovery_fatal(c->recovery, c->at, c->missing, "it is missing, and objects far behind it show that it was "
			       "stored: somebody deleted it. Restore it from a backup");
}

/* The first that is not data decides. */
static void window_decide(struct cut_search *c)
{
	for (unsigned i = 0; i < c->n_window; i++) {
		struct cut_slot *s = &c->slots[i];
		switch (s->found) {
		case FOUND_DATA:
			sizes_note(c, s->seq, s->size);
			continue;
		case FOUND_SEAL:
			if (c->step == STEP_SEAL)
				session_cut(c, s->seq);
			else
				search_confirm(c, s->seq);
			return;
		case FOUND_MISSING:
			search_probe(c, s->seq);
			return;
		case FOUND_BROKEN:
			recovery_fatal(c->recovery, c->at, s->seq, s->broken);
			return;
		case FOUND_NOTHING_YET:
			must(false);
		}
	}
	search_look(c, c->window + c->n_window);
}

/* Every slot is known. */
static void search_decide(struct cut_search *c)
{
	if (c->step == STEP_PROBE)
		probe_decide(c);
	else if (c->step == STEP_RECHECK)
		recheck_decide(c);
	else
		window_decide(c);
}

static void slot_known(struct cut_slot *s, enum slot_found found)
{
	struct cut_search *c = s->search;
	must(s->found == FOUND_NOTHING_YET && c->n_left > 0);
	s->found = found;
	s->question++;
	env_timer_stop(c->recovery->engine->env, &s->timer);
	if (--c->n_left == 0)
		search_decide(c);
}

/* --------------------------------------------------------------------- questions */

static void slot_ask(struct cut_slot *s);

static void on_ask_again(void *arg)
{
	slot_ask(arg);
}

static void slot_wait(struct cut_slot *s)
{
	struct env *env = s->search->recovery->engine->env;
	s->timer.on_fire = on_ask_again;
	env_timer_start(env, &s->timer, backoff_next(env, &backoff_read, &s->backoff_ms));
}

/* Ends an ask. False: its answer is to an old question, or may not be looked at. */
static bool ask_end(struct cut_ask *a)
{
	struct cut_slot *s = a->slot;
	const bool waited = s->waits;
	must(a->busy);
	a->busy = s->waits = false;
	if (!wal_may_look(&s->search->recovery->engine->wal))
		return false;
	if (a->question == s->question)
		return true;
	if (waited)
		slot_ask(s);
	return false;
}

static void slot_fault(struct cut_slot *s, struct obj_result result)
{
	recovery_set_fault(s->search->recovery, result);
	slot_wait(s);
}

static void slot_look_ok(struct cut_slot *s, struct slice data, uint64_t size)
{
	struct wal_header h;
	s->broken = wal_header_decode(data, &h);
	if (s->broken == NULL) {
		s->size = size;
		slot_known(s, h.kind == WAL_SEAL ? FOUND_SEAL : FOUND_DATA);
	} else if (++s->n_faults < RECOVERY_FAULTS_MAX) {
		slot_wait(s);
	} else {
		slot_known(s, FOUND_BROKEN);
	}
}

static void on_looked(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct cut_ask *a = arg;
	struct cut_slot *s = a->slot;
	if (!ask_end(a))
		return;
	if (result.outcome == OUTCOME_OK) {
		s->search->recovery->fault[0] = '\0';
		slot_look_ok(s, data, size);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -ENOENT) {
		if (s->sealing)
			slot_seal(s);
		else
			slot_known(s, FOUND_MISSING);
	} else {
		slot_fault(s, result);
	}
}

static void on_sealed(void *arg, struct obj_result result)
{
	struct cut_ask *a = arg;
	struct cut_slot *s = a->slot;
	if (!ask_end(a))
		return;
	if (result.outcome == OUTCOME_OK) {
		s->search->recovery->fault[0] = '\0';
		slot_known(s, FOUND_SEAL);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -EEXIST) {
		slot_look(s);
	} else if (result.err == -EAGAIN) {
		slot_wait(s);
	} else {
		slot_fault(s, result);
	}
}

static void ask_send(struct cut_ask *a)
{
	struct cut_slot *s = a->slot;
	struct recovery *r = s->search->recovery;
	struct engine *e = r->engine;
	char key[WAL_KEY_MAX];
	recovery_key(r, s->search->at, s->seq, key);
	if (!s->putting) {
		objstore_get(e->store, key, 0, s->sealing ? 0 : WAL_HEADER, on_looked, a);
		return;
	}
	struct wal_header h = {
		.kind = WAL_SEAL, .node = e->config.node, .session = r->ended[s->search->at].session, .seq = s->seq,
	};
	memcpy(h.put_id, e->config.put_id, sizeof(h.put_id));
	wal_header_encode(a->seal, &h);
	struct iovec iov = { .iov_base = a->seal, .iov_len = WAL_HEADER };
	objstore_put(e->store, key, &iov, 1, true, on_sealed, a);
}

/* Asks, beside a question that hangs, too; with two of them out, waits for one. */
static void slot_ask(struct cut_slot *s)
{
	struct engine *e = s->search->recovery->engine;
	struct cut_ask *a = !s->asks[0].busy ? &s->asks[0] : &s->asks[1];
	if (e->dead)
		return;
	s->waits = a->busy;
	if (a->busy)
		return;
	a->busy = true;
	a->question = s->question;
	s->timer.on_fire = on_ask_again;
	env_timer_start(e->env, &s->timer, env_now_ms(e->env) + RECOVERY_HANGS_MS);
	ask_send(a);
}

static void slot_look(struct cut_slot *s)
{
	s->question++;
	s->putting = false;
	slot_ask(s);
}

static void slot_seal(struct cut_slot *s)
{
	s->question++;
	s->putting = true;
	slot_ask(s);
}

/* ----------------------------------------------------------------------- windows */

static void slot_begin(struct cut_slot *s, uint64_t seq, bool sealing)
{
	s->seq = seq;
	s->found = FOUND_NOTHING_YET;
	s->backoff_ms = s->n_faults = 0;
	s->sealing = sealing;
	s->waits = false;
}

static void window_begin(struct cut_search *c, uint64_t from, unsigned n, enum cut_step step,
			 void (*begin)(struct cut_slot *))
{
	must(n > 0 && n <= RECOVERY_WINDOW);
	c->step = step;
	c->window = from;
	c->n_window = c->n_left = n;
	for (unsigned i = 0; i < n; i++)
		slot_begin(&c->slots[i], from + i, step == STEP_SEAL);
	for (unsigned i = 0; i < n; i++)
		begin(&c->slots[i]);
}

static void search_look(struct cut_search *c, uint64_t from)
{
	window_begin(c, from, RECOVERY_WINDOW, STEP_LOOK, slot_look);
}

static void search_seal(struct cut_search *c, uint64_t from)
{
	window_begin(c, from, RECOVERY_WINDOW, STEP_SEAL, slot_seal);
}

static void search_probe(struct cut_search *c, uint64_t missing)
{
	c->missing = missing;
	window_begin(c, missing + WAL_REACH, RECOVERY_WINDOW, STEP_PROBE, slot_look);
}

static void search_recheck(struct cut_search *c)
{
	window_begin(c, c->missing, 1, STEP_RECHECK, slot_look);
}

static void search_confirm(struct cut_search *c, uint64_t seq)
{
	window_begin(c, seq, 1, STEP_SEAL, slot_look);
}

/* -------------------------------------------------------------------------- life */

/* The next session, if one is left. */
static void search_next(struct cut_search *c)
{
	struct recovery *r = c->recovery;
	if (r->n_searched == r->n_ended)
		return;
	c->at = r->n_searched++;
	search_look(c, r->ended[c->at].watermark);
}

static struct cut_search *search_new(struct recovery *r)
{
	struct cut_search *c = must_calloc(1, sizeof(*c));
	c->recovery = r;
	for (unsigned i = 0; i < RECOVERY_WINDOW; i++) {
		struct cut_slot *s = &c->slots[i];
		s->search = c;
		s->timer.arg = s;
		s->asks[0].slot = s->asks[1].slot = s;
	}
	return c;
}

void recovery_cut(struct recovery *r)
{
	for (unsigned i = 0; i < RECOVERY_SEARCHES && i < r->n_ended; i++)
		r->searches[i] = search_new(r);
	for (unsigned i = 0; i < RECOVERY_SEARCHES && i < r->n_ended; i++)
		search_next(r->searches[i]);
}

void recovery_cut_free(struct recovery *r)
{
	for (unsigned i = 0; i < RECOVERY_SEARCHES && r->searches[i] != NULL; i++) {
		for (unsigned k = 0; k < RECOVERY_WINDOW; k++)
			env_timer_stop(r->engine->env, &r->searches[i]->slots[k].timer);
		free(r->searches[i]);
	}
}
