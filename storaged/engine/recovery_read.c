/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading sessions back: up to 64 objects are asked for, and applied strictly in order, a little each
 * turn. A frame is taken only if its log was named and its epoch is the named one; within it offsets
 * must be dense. Anything that does not fit is damage and is refused with the object's name. What is taken stands in
 * the arena from then on; when that is full, a pack of what was read comes first.
 */
#include "storaged/bounds.h"
#include "storaged/engine/recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "storaged/engine/backoff.h"
#include "storaged/engine/gc.h"
#include "storaged/engine/log_load.h"
#include "storaged/engine/pack.h"
#include "storaged/planted.h"

static void slot_read(struct recovery_slot *s);
static void read_more(struct recovery *r);
static uint32_t size_of(const struct recovery *r, uint64_t seq);

/* ----------------------------------------------------------------- one frame */

static void note_request(struct recovery *r, const struct frame *f, const struct frame_facts *facts,
			 const Frame__Meta *m, uint64_t seq)
{
	if (m->worker_instance == 0 || m->producer != NULL || facts->has_claim)
		return;
	struct request q = {
		.instance = m->worker_instance, .id = m->request_id, .session = r->ended[r->at].session, .seq = seq,
		.append_time = f->append_time,
		.answer = {
			.base_offset = f->base_offset, .next_offset = f->base_offset + f->record_count,
			.timestamp_ms = f->append_time, .closed = m->closes,
		},
	};
	request_table_note(&r->engine->requests, &q);
}

static void frame_take(struct recovery *r, struct log *log, const struct frame_facts *facts, const struct frame *f,
		       struct arena_place at)
{
	log_load_frame(r->engine, log, facts, at, (uint32_t)frame_size(f->meta.n, f->payload.n));
	log->open->confirm = facts->next;
	if (facts->closes)
		log->closed = true;
	if (f->payload.n > 0 && (facts->next > log->start || facts->next > engine_living(r->engine, log->id))) {
		struct frame_ref ref = {
			.base = f->base_offset, .latest_ms = f->max_timestamp, .session = at.session, .seq = at.seq,
			.position = (uint32_t)(WAL_HEADER + at.body_position + FRAME_HEADER + frame_pad(f->meta.n)),
			.length = (uint32_t)f->payload.n,
		};
		log_index_add(log, &ref);
	}
	r->stats.frames++;
}

static const char *frame_apply(struct recovery *r, const struct frame *f, struct slice bytes, struct arena_place at)
{
	struct log *log = log_table_find(&r->engine->logs, f->log_id);
	if (log == NULL || (log->epoch != f->epoch && !planted(PLANTED_ANY_EPOCH))) {
		r->stats.skipped++;
		return NULL;
	}
	if (f->base_offset != log_next(log))
		return "records are missing before a frame of it, or are there twice";
	if (f->append_time < log_last_append_ms(log))
		return "time runs backwards in a frame of it";
	struct frame_facts facts;
	Frame__Meta *m;
	const char *fault = frame_facts_read(f, &facts, &m);
	if (fault == NULL) {
		memcpy(r->room, bytes.p, bytes.n);
		arena_commit(&r->engine->arena, (uint32_t)bytes.n, at, true);
		note_request(r, f, &facts, m, at.seq);
		frame_take(r, log, &facts, f, at);
	}
	frame__meta__free_unpacked(m, NULL);
	return fault;
}

/* Applies frames from r->position on. NULL: all of the object (*ret_whole), or as many as the arena has room for. */
static const char *object_apply(struct recovery *r, struct slice object, uint64_t seq, bool *ret_whole)
{
	struct frame_iter it = { .body = slice_of(object.p + WAL_HEADER, object.n - WAL_HEADER), .position = r->position };
	struct frame f;
	int rc;
	*ret_whole = false;
	while ((rc = frame_next(&it, &f)) == 1) {
		struct slice bytes = slice_of(it.body.p + r->position, it.position - r->position);
		r->room = arena_reserve(&r->engine->arena, (uint32_t)bytes.n);
		if (r->room == NULL)
			return NULL;
		struct arena_place at = { .session = (uint32_t)r->at, .seq = seq, .body_position = (uint32_t)r->position };
		const char *fault = frame_apply(r, &f, bytes, at);
		if (fault != NULL)
			return fault;
		r->position = it.position;
	}
	r->position = 0;
	r->stats.objects++;
	r->stats.bytes += object.n;
	*ret_whole = true;
	return rc == 0 ? NULL : it.fault;
}

/* The object at hand is done with: `end` of its session moves on. */
static void slot_applied(struct recovery *r, struct recovery_slot *s)
{
	r->read_bytes -= size_of(r, s->seq);
	free(s->data);
	s->data = NULL;
	s->busy = false;
	r->apply_next++;
	r->engine->sessions[r->at].end = r->apply_next;
	read_more(r);
}

/* What was read must be packed first. */
static void wait_for_room(struct recovery *r, uint64_t seq)
{
	struct engine *e = r->engine;
	e->recovery_wants_room = true;
	packer_consider(e->packer);
	if (packer_is_idle(e->packer))
		recovery_fatal(r, r->at, seq, "it does not fit into --wal-cache-size; give more");
}

void recovery_room(struct recovery *r)
{
	r->engine->recovery_wants_room = false;
	env_defer(r->engine->env, &r->task);
}

/* ------------------------------------------------------------------- reading */

static void on_read_again(void *arg)
{
	slot_read(arg);
}

static void slot_wait(struct recovery_slot *s)
{
	struct env *env = s->recovery->engine->env;
	s->timer = (struct env_timer){ .on_fire = on_read_again, .arg = s };
	env_timer_start(env, &s->timer, backoff_next(env, &backoff_read, &s->backoff_ms));
}

static void slot_read_ok(struct recovery_slot *s, struct slice data)
{
	struct recovery *r = s->recovery;
	struct engine *e = r->engine;
	struct wal_header h;
	const char *fault = wal_object_check(data, e->config.node, r->ended[r->at].session, s->seq, &h);
	if (fault == NULL && h.kind == WAL_SEAL)
		fault = "it is a seal below the cut: another process recovers this session, too";
	if (fault != NULL && ++s->n_faults < RECOVERY_FAULTS_MAX) {
		slot_wait(s);
		return;
	}
	if (fault != NULL) {
		recovery_fatal(r, r->at, s->seq, fault);
		return;
	}
	s->data = must_memdup(data.p, data.n);
	s->size = data.n;
	if (s->seq == r->apply_next)
		env_defer(e->env, &r->task);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct recovery_slot *s = arg;
	struct recovery *r = s->recovery;
	if (!wal_may_look(&r->engine->wal))
		return;
	if (result.outcome == OUTCOME_OK) {
		r->fault[0] = '\0';
		metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
		slot_read_ok(s, data);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -ENOENT) {
		recovery_fatal(r, r->at, s->seq, "it is missing below the end of its session: another process recovers this session, "
			       "too, or somebody deleted it");
	} else {
		recovery_set_fault(r, result);
		slot_wait(s);
	}
}

static void slot_read(struct recovery_slot *s)
{
	struct recovery *r = s->recovery;
	char key[WAL_KEY_MAX];
	if (r->engine->dead)
		return;
	recovery_key(r, r->at, s->seq, key);
	metric_add(METRIC_STORE_GETS, 1);
	objstore_get(r->engine->store, key, 0, 0, on_got, s);
}

static uint32_t size_of(const struct recovery *r, uint64_t seq)
{
	uint64_t i = seq - r->ended[r->at].watermark;
	must(i < r->n_sizes[r->at]);
	return r->sizes[r->at][i];
}

static void read_more(struct recovery *r)
{
	uint64_t cut = r->ended[r->at].cut;
	while (r->read_next < cut && r->read_next - r->apply_next < RECOVERY_WINDOW) {
		uint32_t size = size_of(r, r->read_next);
		if (r->read_bytes > 0 && r->read_bytes + size > bounds.recover_read)
			return;
		struct recovery_slot *s = &r->slots[r->read_next % RECOVERY_WINDOW];
		must(!s->busy && s->data == NULL);
		*s = (struct recovery_slot){ .recovery = r, .seq = r->read_next++, .busy = true };
		r->read_bytes += size;
		slot_read(s);
	}
}

static void session_read(struct recovery *r)
{
	r->read_next = r->apply_next = r->ended[r->at].watermark;
	r->read_bytes = 0;
	read_more(r);
	env_defer(r->engine->env, &r->task);
}

static void on_deleted(void *arg, struct obj_result result)
{
}

static void recovery_end(struct recovery *r)
{
	for (r->at = 0; r->at < r->n_ended && planted(PLANTED_SEAL_DELETED); r->at++) {
		char key[WAL_KEY_MAX];
		const char *keys[1] = { key };
		recovery_key(r, r->at, r->ended[r->at].cut, key);
		r->engine->store->ops->del(r->engine->store, keys, 1, on_deleted, r);
	}
	r->stats.elapsed_ms = env_now_ms(r->engine->env) - r->began_ms;
	r->on_read(r->engine);
}

/* Applies what is there in order, about a mebibyte a turn. true: and there may be more now. */
static bool apply_some(struct recovery *r)
{
	uint64_t done = 0;
	while (r->apply_next < r->ended[r->at].cut && done < bounds.recover_apply) {
		struct recovery_slot *s = &r->slots[r->apply_next % RECOVERY_WINDOW];
		bool whole;
		if (s->data == NULL)
			return false;
		const char *fault = object_apply(r, slice_of(s->data, s->size), s->seq, &whole);
		if (fault != NULL) {
			recovery_fatal(r, r->at, s->seq, fault);
			return false;
		}
		if (!whole) {
			wait_for_room(r, s->seq);
			return false;
		}
		done += s->size;
		slot_applied(r, s);
	}
	return true;
}

static void on_apply(void *arg)
{
	struct recovery *r = arg;
	if (r->engine->dead || r->engine->recovery_wants_room)
		return;
	if (r->at < r->n_ended && !apply_some(r))
		return;
	if (r->at == r->n_ended)
		recovery_end(r);
	else if (r->apply_next < r->ended[r->at].cut || ++r->at == r->n_ended)
		env_defer(r->engine->env, &r->task);
	else
		session_read(r);
}

void recovery_read(struct recovery *r)
{
	r->task = (struct env_task){ .run = on_apply, .arg = r };
	for (unsigned i = 0; i < RECOVERY_WINDOW; i++)
		r->slots[i] = (struct recovery_slot){ .recovery = r };
	for (r->at = 0; r->at < r->n_ended; r->at++) {
		r->engine->sessions[r->at].cut = r->ended[r->at].cut;
		r->engine->sessions[r->at].cut_known = true;
	}
	r->at = 0;
	if (r->n_ended > 0)
		session_read(r);
	else
		env_defer(r->engine->env, &r->task);
}

void recovery_read_free(struct recovery *r)
{
	for (unsigned i = 0; i < RECOVERY_WINDOW; i++) {
		env_timer_stop(r->engine->env, &r->slots[i].timer);
		free(r->slots[i].data);
	}
}
