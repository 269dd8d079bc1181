/* SPDX-License-Identifier: Apache-2.0
 *
 * One pack: walk (frames of the WAL objects, in their order, are noted by log) -> build (logs by id: each is loaded if it
 * is not, its frames move its packed state and go into an object) -> store (objects one after the other) -> commit ->
 * release (the logs are let go) -> the next one. Each does a little a turn.
 *
 * A frame is taken only if its log is there and its epoch is the log's present one, as recovery takes it.
 */
#include "storaged/engine/pack.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/engine/gc.h"
#include "storaged/engine/log_load.h"
#include "storaged/engine/merge.h"
#include "storaged/engine/pack_store.h"
#include "storaged/engine/sweep.h"
#include "storaged/engine/wal_trash.h"
#include "storaged/planted.h"

#define ENDED_DELAY_MS 1000u

enum pack_phase { PACK_IDLE, PACK_WALK, PACK_BUILD, PACK_STORE, PACK_COMMIT, PACK_RELEASE, PACK_RECOVERED };

struct packer {
	struct engine *engine;
	enum pack_phase phase;
	uint32_t at;                    /* session whose WAL is packed next */
	uint64_t to;                    /* WAL objects [its watermark, to) */
	uint64_t extent;                /* walk: next */
	uint32_t extent_position;
	struct pack_log *logs;
	size_t n_logs, n_released, capacity;
	uint64_t build_id;              /* build: the next log is the first one of the pack from here on */
	size_t n_built;
	struct load_wait load;
	struct pack_build build;
	size_t n_stored;
	struct pack_store *store;
	uint64_t since_ms;              /* when the oldest object that is not packed was stored; 0: there is none */
	struct env_task task;
	struct env_timer age_timer;
	struct wal_trash *trash;
};

static void pack_step(void *arg);

static struct wal_session *session_at(const struct packer *p)
{
	return &p->engine->sessions[p->at];
}

/* ------------------------------------------------------------------- reasons */

static void on_age(void *arg)
{
	packer_consider(arg);
}

/* The running session: bytes, objects, logs, age, or appends that wait for room. */
static bool running_is_due(struct packer *p, const struct wal_session *s)
{
	struct engine *e = p->engine;
	uint64_t now = env_now_ms(e->env);
	if (s->end == s->watermark) {
		p->since_ms = 0;
		return false;
	}
	if (p->since_ms == 0)
		p->since_ms = now;
	if (e->arena.unpacked - e->arena.unstored >= e->config.pack_bytes || s->end - s->watermark >= bounds.pack_objects ||
	    e->logs.n_unpacked >= e->config.open_logs || e->room.first != NULL ||
	    now - p->since_ms >= e->config.pack_interval_ms)
		return true;
	if (p->age_timer.at_ms == 0)
		env_timer_start(e->env, &p->age_timer, p->since_ms + e->config.pack_interval_ms);
	return false;
}

/* Ended ones are packed a little after the start, which has other things to do, or when there is no room. */
static bool ended_is_due(struct packer *p)
{
	struct engine *e = p->engine;
	uint64_t now = env_now_ms(e->env);
	if (e->recovery_wants_room || e->room.first != NULL)
		return true;
	if (!e->serving)
		return false;
	if (p->since_ms == 0)
		p->since_ms = now;
	if (now - p->since_ms >= ENDED_DELAY_MS)
		return true;
	if (p->age_timer.at_ms == 0)
		env_timer_start(e->env, &p->age_timer, p->since_ms + ENDED_DELAY_MS);
	return false;
}

static bool is_running(const struct packer *p)
{
	return p->at + 1 == p->engine->n_sessions;
}

static bool pack_is_due(struct packer *p, const struct wal_session *s)
{
	if (is_running(p))
		return p->engine->serving && running_is_due(p, s);
	return (s->end > s->watermark || (s->cut_known && s->watermark == s->cut)) && ended_is_due(p);
}

/* -------------------------------------------------------------------- endings */

static void pack_log_done(struct pack_log *l)
{
	l->log->open->pack_slot = 0;
	log_unref(l->log);
	free(l->frames);
}

static void pack_reset(struct packer *p)
{
	for (size_t i = p->n_released; i < p->n_logs; i++)
		pack_log_done(&p->logs[i]);
	load_wait_stop(&p->load);
	p->n_logs = p->n_built = p->n_stored = p->n_released = 0;
	pack_build_done(&p->build);
	p->build = (struct pack_build){ 0 };
}

static void pack_refused(struct packer *p, const char *what, const char *why)
{
	char text[400];
	snprintf(text, sizeof(text), "the metadata refused %s: %s; leaving, the next start packs anew", what, why);
	engine_fatal(p->engine, 1, text);
}

static void on_recovered(void *arg, bool applied, const char *why)
{
	struct packer *p = arg;
	if (p->engine->dead)
		return;
	if (!applied) {
		pack_refused(p, "the end of a recovery", why);
		return;
	}
	p->phase = PACK_IDLE;
	p->at++;
	if (is_running(p)) {
		p->since_ms = 0;
		sweep_begin(p->engine->sweep);
	}
	packer_consider(p);
}

/* The ended session at hand is packed to its cut. */
static void pack_session_end(struct packer *p)
{
	struct wal_session *s = session_at(p);
	p->phase = PACK_RECOVERED;
	p->engine->events.recovered(p->engine->arg, s->session, s->cut, on_recovered, p);
}

/* Its entry is committed. */
static void log_note_entry(struct pack_log *l)
{
	struct log *log = l->log;
	struct log_open *o = log->open;
	log_unpacked_remove(o, l->n_frames);
	if (log->removed)
		return;
	log->stored = true;
	log->settled = false;
	if (o->n_incomplete != 0)
		return;
	o->complete_epoch = log->epoch;
	o->complete_next = o->packed.next;
}

static void pack_release_some(struct packer *p)
{
	struct engine *e = p->engine;
	for (unsigned n = 0; n < bounds.release_logs && p->n_released < p->n_logs; n++) {
		struct pack_log *l = &p->logs[p->n_released++];
		log_note_entry(l);
		pack_log_done(l);
	}
	if (p->n_released < p->n_logs) {
		env_defer(e->env, &p->task);
		return;
	}
	pack_reset(p);
	p->phase = PACK_IDLE;
	env_defer(e->env, &e->room_task);
	if (e->recovery_wants_room)
		recovery_room(e->recovery);
	merger_consider(e->merger);
	gc_consider(e->gc);
	packer_consider(p);
}

static void on_committed(void *arg, bool applied, const char *why)
{
	struct packer *p = arg;
	struct engine *e = p->engine;
	struct wal_session *s = session_at(p);
	if (e->dead)
		return;
	if (!applied) {
		pack_refused(p, "a commit of packed records", why);
		return;
	}
	metric_add(METRIC_PACKS, 1);
	/* The open object of the running session stays: it says that its number was used. */
	wal_trash_add(p->trash, s->session, is_running(p) && s->watermark == 0 ? 1 : s->watermark, p->to);
	s->watermark = p->to;
	if (is_running(p))
		p->since_ms = 0;
	arena_packed(&e->arena, p->at, s->watermark);
	p->phase = PACK_RELEASE;
	pack_release_some(p);
}

/* ------------------------------------------------------------ commit and store */

static void pack_commit(struct packer *p)
{
	struct engine *e = p->engine;
	const struct wal_session *s = session_at(p);
	size_t n = p->build.outputs.n;
	struct object_row *rows = must_calloc(n, sizeof(*rows));
	for (size_t i = 0; i < n; i++)
		rows[i] = p->build.outputs.output[i].row;
	struct engine_commit c = { .session = s->session, .from = s->watermark, .to = p->to, .add = rows, .n_add = n };
	p->phase = PACK_COMMIT;
	if (planted(PLANTED_TRASH_BEFORE_COMMIT))
		wal_trash_add(p->trash, s->session, s->watermark, p->to);
	e->events.commit(e->arg, &c, on_committed, p);
	free(rows);
}

static bool may_look(void *arg)
{
	struct packer *p = arg;
	return wal_may_look(&p->engine->wal);
}

static void on_stored(void *arg)
{
	struct packer *p = arg;
	p->n_stored++;
	env_defer(p->engine->env, &p->task);
}

static void pack_store_next(struct packer *p)
{
	struct engine *e = p->engine;
	pack_store_free(p->store);
	p->store = NULL;
	if (p->n_stored == p->build.outputs.n) {
		pack_commit(p);
		return;
	}
	struct pack_output *o = &p->build.outputs.output[p->n_stored];
	if (!data_builder_finish_some(o->builder, bounds.finish_items, &o->row)) {
		env_defer(e->env, &p->task);
		return;
	}
	p->store = pack_store_begin(e->env, e->data, o->row.id, o->builder, may_look, on_stored, p);
}

/* ---------------------------------------------------------------------- build */

static void build_begin(struct packer *p)
{
	struct engine *e = p->engine;
	p->build = (struct pack_build){
		.node = e->config.node, .session = e->sessions[e->n_sessions - 1].session, .number = &e->next_object,
		.events = &e->events, .arg = e->arg,
	};
	p->build_id = 0;
	p->phase = PACK_BUILD;
}

static void build_end(struct packer *p)
{
	pack_build_end(&p->build);
	p->phase = PACK_STORE;
}

/* The log of the pack that is next by id; NULL: look on in another turn. */
static struct pack_log *build_next(struct packer *p)
{
	const struct log *log = log_table_next_open(&p->engine->logs, &p->build_id, bounds.table_pages);
	while (log != NULL && log->open->pack_slot == 0) {
		p->build_id = log->id + 1;
		log = log_table_next_open(&p->engine->logs, &p->build_id, bounds.table_pages);
	}
	return log != NULL ? &p->logs[log->open->pack_slot - 1] : NULL;
}

/* true: it is through. */
static bool build_log(struct packer *p, struct pack_log *l, unsigned *frames, uint64_t *bytes)
{
	bool whole = l->log->removed && !p->build.in_log;
	if (!p->build.in_log)
		l->living = engine_living(p->engine, l->log->id);
	if (!whole) {
		uint32_t n = pack_build_log(&p->build, l, bounds.build_frames / 8, &whole);
		*frames += n + 1;
		*bytes += l->size / l->n_frames * n;
	}
	if (whole) {
		p->build_id = l->log->id + 1;
		p->n_built++;
	}
	return whole;
}

static void pack_build_some(struct packer *p)
{
	uint64_t bytes = 0;
	unsigned frames = 0;
	while (p->n_built < p->n_logs && frames < bounds.build_frames && bytes < bounds.build_bytes) {
		struct pack_log *l = build_next(p);
		if (l == NULL)
			break;
		if (!l->log->removed && !log_load(p->engine, l->log, &p->load))
			return;
		build_log(p, l, &frames, &bytes);
	}
	if (p->n_built == p->n_logs)
		build_end(p);
	env_defer(p->engine->env, &p->task);
}

/* Without its state nothing of the log can be packed, and no object behind it. */
static void on_loaded(struct load_wait *w, const struct pico_error *error)
{
	struct packer *p = (struct packer *)((char *)w - offsetof(struct packer, load));
	if (error != NULL)
		engine_fatal(p->engine, 1, error->message);
	else
		env_defer(p->engine->env, &p->task);
}

/* ----------------------------------------------------------------------- walk */

static struct pack_log *pack_log_of(struct packer *p, struct log *log)
{
	if (log->open->pack_slot != 0)
		return &p->logs[log->open->pack_slot - 1];
	if (p->n_logs == p->capacity) {
		p->capacity = p->capacity == 0 ? 16 : p->capacity * 2;
		p->logs = must_realloc(p->logs, p->capacity * sizeof(*p->logs));
	}
	struct pack_log *l = &p->logs[p->n_logs++];
	*l = (struct pack_log){ .log = log };
	log_table_ref(&p->engine->logs, log);
	log->open->pack_slot = (uint32_t)p->n_logs;
	return l;
}

static void pack_note(struct pack_log *l, const uint8_t *at, uint32_t size)
{
	if (l->n_frames == l->capacity) {
		l->capacity = l->capacity == 0 ? 4 : l->capacity * 2;
		l->frames = must_realloc(l->frames, l->capacity * sizeof(*l->frames));
	}
	l->frames[l->n_frames++] = (struct pack_frame){ .at = at, .size = size };
	l->size += size;
}

/* Frames that were not taken stay unnoted, too. */
static void walk_frame(struct packer *p, const struct frame *f, const uint8_t *at, uint32_t size)
{
	struct log *log = log_table_find(&p->engine->logs, f->log_id);
	if (log == NULL || log->epoch != f->epoch)
		return;
	pack_note(pack_log_of(p, log), at, size);
}

/* The extent that is next, or NULL when the WAL objects of this pack are through. */
static const struct extent *walk_extent(struct packer *p)
{
	struct arena *a = &p->engine->arena;
	const struct extent *x = p->extent < a->extent_end ? arena_extent(a, p->extent) : NULL;
	return x == NULL || x->session != p->at || x->seq >= p->to ? NULL : x;
}

static void pack_walk_some(struct packer *p)
{
	const struct extent *x;
	uint64_t done = 0;
	while (done < bounds.walk_bytes && (x = walk_extent(p)) != NULL) {
		struct frame_iter it = { .body = arena_bytes(x), .position = p->extent_position };
		struct frame f;
		const uint8_t *at = it.body.p + it.position;
		if (frame_next(&it, &f) != 1) {
			must(it.fault == NULL);
			p->extent++;
			p->extent_position = 0;
			continue;
		}
		uint32_t size = (uint32_t)(it.position - p->extent_position);
		walk_frame(p, &f, at, size);
		p->extent_position = (uint32_t)it.position;
		done += size;
	}
	if (walk_extent(p) == NULL)
		build_begin(p);
	env_defer(p->engine->env, &p->task);
}

/* ----------------------------------------------------------------------- life */

static void pack_step(void *arg)
{
	struct packer *p = arg;
	if (p->engine->dead)
		return;
	switch (p->phase) {
	case PACK_WALK:
		pack_walk_some(p);
		break;
	case PACK_BUILD:
		pack_build_some(p);
		break;
	case PACK_STORE:
		pack_store_next(p);
		break;
	case PACK_RELEASE:
		pack_release_some(p);
		break;
	case PACK_IDLE:
	case PACK_COMMIT:
	case PACK_RECOVERED:
		break;
	}
}

static void pack_begin(struct packer *p)
{
	p->phase = PACK_WALK;
	p->to = session_at(p)->end;
	p->extent = p->engine->arena.extent_packed;
	p->extent_position = 0;
	env_defer(p->engine->env, &p->task);
}

void packer_consider(struct packer *p)
{
	struct engine *e = p->engine;
	if (p->phase != PACK_IDLE || e->dead || e->stopping || e->n_sessions == 0)
		return;
	struct wal_session *s = session_at(p);
	if (is_running(p))
		s->end = e->wal.stored_end;
	if (!pack_is_due(p, s))
		return;
	env_timer_stop(e->env, &p->age_timer);
	if (s->watermark < s->end)
		pack_begin(p);
	else
		pack_session_end(p);
}

bool packer_is_idle(const struct packer *p)
{
	return p->phase == PACK_IDLE;
}

struct packer *packer_new(struct engine *e)
{
	struct packer *p = must_calloc(1, sizeof(*p));
	p->engine = e;
	p->task = (struct env_task){ .run = pack_step, .arg = p };
	p->load.on_loaded = on_loaded;
	p->age_timer = (struct env_timer){ .on_fire = on_age, .arg = p };
	p->trash = wal_trash_new(e->env, e->store, e->config.node);
	return p;
}

void packer_free(struct packer *p)
{
	if (p == NULL)
		return;
	env_timer_stop(p->engine->env, &p->age_timer);
	pack_store_free(p->store);
	pack_reset(p);
	free(p->logs);
	wal_trash_free(p->trash);
	free(p);
}

const char *packer_fault(const struct packer *p)
{
	return pack_store_fault(p->store);
}
