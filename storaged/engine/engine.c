/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's life: new, start (recovery, open object), serve, stop, free; and its logs.
 */
#include "storaged/engine/append.h"

#include <errno.h>
#include <stdlib.h>

#include "storaged/engine/damage.h"
#include "storaged/engine/ahead.h"
#include "storaged/engine/gc.h"
#include "storaged/engine/log_load.h"
#include "storaged/engine/merge.h"
#include "storaged/engine/pack.h"
#include "storaged/engine/retention.h"
#include "storaged/engine/rewrite.h"
#include "storaged/engine/scan.h"
#include "storaged/engine/sweep.h"

#define SEGMENT_SIZE_DEFAULT (8u << 20)
#define SEGMENTS_MIN 16u
#define MAX_BYTES_IN_BATCH_DEFAULT (8u << 20)
#define META_MAX 2048u                  /* of one frame; ids and sequences are bounded */
#define PAGE_CACHE_SEGMENT_ID 1u
#define INFLIGHT_MAX WAL_REACH
#define ROOM_RETRY_MS 100u
#define INDEX_CACHE_DEFAULT (64u << 20)
#define PACK_INTERVAL_DEFAULT_MS 600000u
#define SWEEP_INTERVAL_DEFAULT_MS 3600000u
#define REWRITE_PATIENCE_DEFAULT_MS 600000u
#define RETENTION_INTERVAL_DEFAULT_MS 60000u
#define OPEN_LOGS_DEFAULT 100000u

/* ------------------------------------------------------------------- events */

void engine_fatal(struct engine *e, int code, const char *text)
{
	if (e->dead)
		return;
	e->dead = true;
	e->wal.dead = true;
	append_fail_all(e);
	e->events.on_fatal(e->arg, code, text);
}

static void on_wal_fatal(void *arg, int code, const char *text)
{
	engine_fatal(arg, code, text);
}

static void on_wal_stored(void *arg, uint64_t ticket_end)
{
	struct engine *e = arg;
	append_confirm(e, ticket_end);
	packer_consider(e->packer);
	if (e->stopping)
		env_defer(e->env, &e->stop_task);
}

static void on_wal_early(void *arg, uint64_t first, uint64_t end, bool stored)
{
	append_answer_early(arg, first, end, stored);
}

static void on_wal_position(void *arg, uint64_t seq)
{
	struct engine *e = arg;
	e->events.on_wal_position(e->arg, e->wal.session, seq);
}

static void on_arena_room(void *arg)
{
	struct engine *e = arg;
	env_defer(e->env, &e->room_task);
}

static void on_arena_reclaim(void *arg, struct segment *segment)
{
	struct engine *e = arg;
	e->events.on_reclaim(e->arg, segment);
}

static void on_arena_segment_gone(void *arg, struct segment *segment)
{
	struct engine *e = arg;
	e->events.on_segment_gone(e->arg, segment);
}

/* Segments leave oldest first, so what a log has before such a frame left, too, or is not worth keeping. */
static void on_frames_gone(void *arg, struct slice frames)
{
	struct engine *e = arg;
	struct frame_iter it = { .body = frames };
	struct frame f;
	while (frame_next(&it, &f) == 1) {
		struct log *log = log_table_find(&e->logs, f.log_id);
		if (log != NULL && log->epoch == f.epoch)
			log_index_drop(log, f.base_offset + f.record_count);
	}
}

static void on_room_task(void *arg)
{
	struct engine *e = arg;
	append_room(e);
	if (e->room.first != NULL)
		packer_consider(e->packer);
	if (e->room.first != NULL && e->room_timer.at_ms == 0)
		env_timer_start(e->env, &e->room_timer, env_now_ms(e->env) + ROOM_RETRY_MS);
}

static void on_answer_task(void *arg)
{
	struct engine *e = arg;
	if (e->dead)
		return;
	append_answer(e);
	if (e->stopping)
		env_defer(e->env, &e->stop_task);
}

static void on_stop_task(void *arg)
{
	struct engine *e = arg;
	bool is_idle = !e->serving || (wal_is_idle(&e->wal) && e->pending_first == e->pending_end);
	if (e->dead || e->on_stopped == NULL || !is_idle)
		return;
	void (*on_stopped)(void *) = e->on_stopped;
	e->on_stopped = NULL;
	on_stopped(e->stopped_arg);
}

/* -------------------------------------------------------------------- start */

static void on_wal_open(void *arg)
{
	struct engine *e = arg;
	const struct engine_recovery_stats *stats = recovery_stats(e->recovery);
	e->serving = true;
	packer_consider(e->packer);
	merger_consider(e->merger);
	gc_consider(e->gc);
	rewriter_consider(e->rewriter);
	retention_begin(e->retention);
	if (e->n_sessions == 1) /* else when the last one is RECOVERED */
		sweep_begin(e->sweep);
	e->events.on_wal_position(e->arg, e->wal.session, wal_seq(&e->wal));
	e->on_started(e->started_arg, stats);
}

static void on_requests_old(void *arg)
{
	struct engine *e = arg;
	request_table_done(&e->requests);
}

/* Whose frames are all gone and trimmed begins where the metadata says. */
static void log_settle(struct log *log)
{
	if (log_next(log) >= log->start)
		return;
	log->settled = true;
	if (!log->is_open)
		log->next = log->start;
	else
		log->open->submitted.next = log->open->packed.next = log->open->confirm = log->start;
}

static void log_settle_own(struct log *log)
{
	if (!log->is_fork)
		log_settle(log);
}

/* A fork without a frame that begins inside the batch it was to get first is not born, and goes. */
static void forks_settle(struct engine *e)
{
	for (const struct log_parent *x = e->logs.parents; x != NULL; x = x->hh.next) {
		struct log *log = log_table_find(&e->logs, x->log_id);
		if (log != NULL && log_next(log) > x->end)
			log_settle(log);
	}
}

static void on_recovered(struct engine *e)
{
	log_table_each(&e->logs, log_settle_own);
	forks_settle(e);
	request_table_ready(&e->requests, stamp_now_ms(&e->stamp, e->env));
	e->requests.timer = (struct env_timer){ .on_fire = on_requests_old, .arg = e };
	env_timer_start(e->env, &e->requests.timer, env_now_ms(e->env) + REQUEST_KEEP_MS);
	wal_open(&e->wal, e->sessions[e->n_sessions - 1].session, e->n_sessions - 1);
}

void engine_start(struct engine *e, struct engine_session *ended, size_t n_ended, uint64_t session,
		  void (*on_done)(void *arg, const struct engine_recovery_stats *stats), void *arg)
{
	must(e->recovery == NULL && e->sessions == NULL);
	e->on_started = on_done;
	e->started_arg = arg;
	if (n_ended > UINT16_MAX) {
		engine_fatal(e, 1, "more than 65,535 sessions are not packed; the WAL must be packed first");
		return;
	}
	e->sessions = must_calloc(n_ended + 1, sizeof(*e->sessions));
	for (size_t i = 0; i < n_ended; i++) {
		must(i == 0 || ended[i].session > ended[i - 1].session);
		e->sessions[i] = (struct wal_session){
			.session = ended[i].session, .watermark = ended[i].watermark, .end = ended[i].watermark,
		};
	}
	e->sessions[n_ended].session = session;
	e->n_sessions = (uint32_t)n_ended + 1;
	if (n_ended > 0)
		request_table_begin(&e->requests, ended[0].session, ended[0].watermark, ended[n_ended - 1].session);
	e->recovery = recovery_start(e, ended, n_ended, on_recovered);
}

void engine_stop(struct engine *e, void (*on_done)(void *arg), void *arg)
{
	must(e->on_stopped == NULL && !e->stopping);
	e->stopping = true;
	e->on_stopped = on_done;
	e->stopped_arg = arg;
	append_fail_waiting(e, NULL, PICO_UNAVAILABLE, "this node is stopping; nothing was written");
	if (e->serving)
		wal_flush(&e->wal);
	env_defer(e->env, &e->stop_task);
}

bool engine_is_awake(struct engine *e)
{
	return wal_may_look(&e->wal);
}

const char *engine_fault(const struct engine *e)
{
	if (!e->serving && e->recovery != NULL && recovery_fault(e->recovery) != NULL)
		return recovery_fault(e->recovery);
	if (!e->serving && scan_fault(e->scan) != NULL)
		return scan_fault(e->scan);
	return wal_fault(&e->wal) != NULL ? wal_fault(&e->wal) : packer_fault(e->packer);
}

int64_t engine_stamp_ms(struct engine *e)
{
	return stamp_now_ms(&e->stamp, e->env);
}

int64_t engine_due_ms(struct engine *e)
{
	return stamp_due_ms(&e->stamp, e->env);
}

bool engine_clock_before(struct engine *e, int64_t last_ms, int64_t leap_ms)
{
	stamp_doubt(&e->stamp, e->env, last_ms, leap_ms);
	return e->stamp.doubted_until_ms != 0;
}

void engine_wal_position(const struct engine *e, uint64_t *ret_session, uint64_t *ret_seq)
{
	*ret_session = e->wal.session;
	*ret_seq = wal_seq(&e->wal);
}

enum engine_request_state engine_request_find(struct engine *e, uint64_t worker_instance, uint64_t request_id,
					      uint64_t wal_session, uint64_t wal_seq_heard,
					      struct engine_request *ret_request)
{
	return request_table_find(&e->requests, worker_instance, request_id, wal_session, wal_seq_heard, ret_request);
}

/* ----------------------------------------------------------------- new, free */

static void engine_init_parts(struct engine *e)
{
	const struct engine_config *c = &e->config;
	struct arena_config arena = {
		.bytes_max = c->wal_cache_size, .unstored_max = c->max_unflushed_bytes, .segment_size = c->segment_size,
		.first_segment_id = PAGE_CACHE_SEGMENT_ID + 1, .on_room = on_arena_room, .on_reclaim = on_arena_reclaim,
		.on_segment_gone = on_arena_segment_gone, .on_frames_gone = on_frames_gone, .arg = e,
		.unpacked_max = c->wal_cache_size / 4 * 3,
	};
	struct wal_config wal = {
		.node = c->node, .batch_interval_ms = c->batch_interval_ms, .max_bytes = c->max_bytes_in_batch,
		.max_inflight = c->max_inflight, .allow_unfenced = c->allow_unfenced_store, .on_open = on_wal_open,
		.on_stored = on_wal_stored, .on_position = on_wal_position, .on_fatal = on_wal_fatal,
		.on_early = on_wal_early, .arg = e,
	};
	memcpy(wal.put_id, c->put_id, sizeof(wal.put_id));
	arena_init(&e->arena, e->env, &arena);
	wal_init(&e->wal, e->env, e->store, &e->arena, &wal);
	stamp_init(&e->stamp, e->env);
	e->logs.open_max = c->open_logs;
	read_init(e);
	e->pending_first = e->pending_end = e->published_end = 1;
	e->answer_task = (struct env_task){ .run = on_answer_task, .arg = e };
	append_queue_init(&e->room, &e->n_room);
	e->loads_tail = &e->loads;
	e->room_task = (struct env_task){ .run = on_room_task, .arg = e };
	e->room_timer = (struct env_timer){ .on_fire = on_room_task, .arg = e };
	e->stop_task = (struct env_task){ .run = on_stop_task, .arg = e };
}

static int engine_config_complete(struct engine_config *c)
{
	if (c->segment_size == 0)
		c->segment_size = SEGMENT_SIZE_DEFAULT;
	uint64_t bound = c->wal_cache_size / 4 * 3;
	if (c->max_unflushed_bytes == 0 || c->max_unflushed_bytes > bound)
		c->max_unflushed_bytes = bound;
	if (c->max_bytes_in_batch == 0)
		c->max_bytes_in_batch = MAX_BYTES_IN_BATCH_DEFAULT;
	if (c->max_inflight == 0)
		c->max_inflight = 1;
	if (c->index_cache_size == 0)
		c->index_cache_size = INDEX_CACHE_DEFAULT;
	if (c->pack_bytes == 0 || c->pack_bytes > bound)
		c->pack_bytes = c->wal_cache_size / 5 * 2;
	if (c->pack_interval_ms == 0)
		c->pack_interval_ms = PACK_INTERVAL_DEFAULT_MS;
	if (c->open_logs == 0)
		c->open_logs = OPEN_LOGS_DEFAULT;
	if (c->sweep_interval_ms == 0)
		c->sweep_interval_ms = SWEEP_INTERVAL_DEFAULT_MS;
	if (c->rewrite_patience_ms == 0)
		c->rewrite_patience_ms = REWRITE_PATIENCE_DEFAULT_MS;
	if (c->retention_interval_ms == 0)
		c->retention_interval_ms = RETENTION_INTERVAL_DEFAULT_MS;
	bool is_bad = c->wal_cache_size / c->segment_size < SEGMENTS_MIN || c->max_inflight > INFLIGHT_MAX ||
		      c->max_bytes_in_batch > INT32_MAX ||
		      c->max_unflushed_bytes < (uint64_t)c->max_message_size + FRAME_HEADER + META_MAX;
	return is_bad ? -EINVAL : 0;
}

static bool may_look(void *arg)
{
	struct engine *e = arg;
	return wal_may_look(&e->wal);
}

int engine_new(struct env *env, struct objstore *wal, struct objstore *data, const struct engine_config *config,
	       const struct engine_events *events, void *arg, struct engine **ret_engine)
{
	struct engine *e = must_calloc(1, sizeof(*e));
	e->env = env;
	e->store = wal;
	e->data = data;
	e->config = *config;
	e->events = *events;
	e->arg = arg;
	int rc = engine_config_complete(&e->config);
	if (rc == 0)
		rc = page_cache_new(env, PAGE_CACHE_SEGMENT_ID, config->block_cache_size, &e->cache);
	if (rc < 0) {
		free(e);
		return rc;
	}
	engine_init_parts(e);
	e->index = index_cache_new(env, data, e->config.index_cache_size, may_look, e);
	e->ahead = ahead_new();
	e->next_object = 1;
	e->damage = damage_new(e);
	e->rewriter = rewriter_new(e);
	e->packer = packer_new(e);
	e->merger = merger_new(e);
	e->gc = gc_new(e);
	e->sweep = sweep_new(e);
	e->retention = retention_new(e);
	*ret_engine = e;
	return 0;
}

void engine_free(struct engine *e)
{
	if (e == NULL)
		return;
	append_forget_all(e);
	lookup_forget_all(e);
	read_forget_all(e);
	recovery_free(e->recovery);
	scan_free(e->scan);
	packer_free(e->packer);
	merger_free(e->merger);
	gc_free(e->gc);
	sweep_free(e->sweep);
	rewriter_free(e->rewriter);
	damage_free(e->damage);
	retention_free(e->retention);
	log_load_forget_all(e);         /* when nobody waits for them any more */
	index_cache_free(e->index);
	env_timer_stop(e->env, &e->requests.timer);
	env_timer_stop(e->env, &e->room_timer);
	request_table_done(&e->requests);
	wal_done(&e->wal);
	arena_done(&e->arena);
	ahead_free(e->ahead);
	page_cache_free(e->cache);
	log_table_done(&e->logs);
	free(e->sessions);
	free(e);
}

/* --------------------------------------------------------------------- logs */

struct log *engine_log_add(struct engine *e, uint64_t log_id_, uint32_t epoch, uint64_t start, bool closed)
{
	struct log *log = log_table_add(&e->logs, log_id_);
	log->epoch = epoch;
	log->start = start;
	log->closed = closed;
	if (e->serving) /* a new one; else its end is yet to be read back */
		log_settle(log);
	return log;
}

void engine_log_set_parent(struct engine *e, struct log *log, uint64_t parent_id, uint64_t parent_end)
{
	must(parent_id != 0 && !log->is_open);
	log_table_set_parent(&e->logs, log, parent_id, parent_end);
	log->next = parent_end;
	log->settled = false;
}

struct log *engine_log_find(const struct engine *e, uint64_t log_id_)
{
	return log_table_find(&e->logs, log_id_);
}

/* Whoever waits for something of it hears that it is deleted. */
static void log_end(struct engine *e, struct log *log)
{
	log->gone = true;
	wait_end(log);
	append_fail_waiting(e, log, PICO_NOT_FOUND, "stream is deleted");
	read_log_removed(e, log);
	gc_consider(e->gc);
	rewriter_consider(e->rewriter);
}

void engine_log_hide(struct engine *e, struct log *log)
{
	must(!log->removed);
	log_table_ref(&e->logs, log);
	log_end(e, log);
	log_unref(log);
}

void engine_log_remove(struct engine *e, struct log *log)
{
	must(!log->removed);
	log_table_ref(&e->logs, log);
	log->removed = true;
	page_cache_drop_log(e->cache, log->id);
	log_end(e, log);
	log_unref(log);
}

void engine_log_set_closing(struct log *log)
{
	log->closing = true;
}

uint64_t log_id(const struct log *log)
{
	return log->id;
}

uint32_t log_epoch(const struct log *log)
{
	return log->epoch;
}

uint64_t log_start(const struct log *log)
{
	return log->start;
}

uint64_t log_confirm(const struct log *log)
{
	return log->is_open ? log->open->confirm : log->next;
}

uint64_t log_next(const struct log *log)
{
	return log->is_open ? log->open->submitted.next : log->next;
}

int64_t log_last_append_ms(const struct log *log)
{
	return log->is_open ? log->open->submitted.last_time : log->last_ms;
}

bool log_appended_bytes(const struct log *log, uint64_t *ret_bytes)
{
	bool empty = !log->is_open && log->next == 0;
	if (!empty && !log_is_ready(log))
		return false;
	*ret_bytes = empty ? 0 : log->open->submitted.bytes;
	return true;
}

bool log_is_closed(const struct log *log)
{
	return log->closed;
}
