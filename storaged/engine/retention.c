/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass. Of each object is known when something in it may be due: before that it is not read, and one whose oldest
 * frame is younger than the shortest retention in force is not read at all. An object that is new, or whose log has new
 * settings, is looked at once; that is also when logs that are kept by size are weighed, for only what has come in a
 * pack can be cut.
 */
#include "storaged/engine/retention.h"

#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/planted.h"
#include "storaged/engine/log_load.h"

#define STEPS_A_TURN 500u               /* logs of an object, or logs to cut: some 1 ms */
#define WALK_STEPS 25u                  /* what one log to cut counts for */
#define LOGS_MAX 16384u                 /* then these are cut, and the pass goes on */
#define TRIMS_MAX 1000u                 /* a command */
#define CHANGED_MAX 65536u
#define FAULT_PAUSE_MS 3600000
#define PATIENCE 20                     /* what is due and not worth a trim is looked at again after so much of its time */

struct known {
	struct object_id id;
	int64_t due_ms;                 /* stamp time; INT64_MIN: look now, INT64_MAX: nothing in it is ever due */
};

enum retention_phase { RETENTION_IDLE, RETENTION_OBJECTS, RETENTION_LOGS, RETENTION_TRIM };

struct retention {
	struct engine *engine;
	enum retention_phase phase;
	struct known *known, *next;     /* by id; next: of the pass under way */
	size_t n_known, n_next, capacity, at;
	struct known object;            /* at hand */
	int64_t looked_due_ms;          /* its due_ms before */
	uint64_t log_id;                /* in it: logs from here on are next */
	bool begun, has_object, through;        /* through: no object is left */
	int64_t now_ms;                 /* stamp time of the pass */
	uint64_t *changed;              /* logs with new settings, since the pass began */
	size_t n_changed, changed_capacity;
	uint64_t *logs;                 /* LOGS_MAX: to be cut, perhaps */
	size_t n_logs, log;
	struct cut cut;
	bool cutting;
	struct log *held;               /* the log being cut; one ref */
	struct load_wait load;
	struct engine_trim *trims;      /* TRIMS_MAX */
	size_t n_trims;
	struct index_wait wait;
	struct env_timer timer;
	struct env_task task;
};

/* a + b, b >= 0. */
static int64_t later(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static bool rule_of(const struct retention *r, uint64_t log_id, struct engine_retention *ret)
{
	return r->engine->events.retention(r->engine->arg, log_id, ret);
}

/* ---------------------------------------------------------------- one object */

/* It is cut if that is worth it; else, and for what follows, the object is looked at again. */
static void log_note(struct retention *r, const struct engine_retention *rule)
{
	must(r->n_logs < LOGS_MAX);
	r->logs[r->n_logs++] = r->log_id;
	if (rule->ms < 0)
		return;
	int64_t interval_ms = (int64_t)r->engine->config.retention_interval_ms, patience = rule->ms / PATIENCE;
	int64_t again = later(r->now_ms, patience > interval_ms ? patience : interval_ms);
	if (again < r->object.due_ms)
		r->object.due_ms = again;
}

/* Of a log that is not loaded the cut will say. */
static bool is_too_large(const struct retention *r, const struct engine_retention *rule)
{
	const struct log *log = log_table_find(&r->engine->logs, r->log_id);
	return rule->bytes >= 0 && r->looked_due_ms == INT64_MIN && log != NULL &&
	       (!log_is_ready(log) || log->open->submitted.bytes > (uint64_t)rule->bytes);
}

/* The log at hand in the object at hand. false: something is being read. */
static bool log_look(struct retention *r, const struct data_top *top, const struct engine_retention *rule)
{
	struct data_index_entry first;
	bool too_large = is_too_large(r, rule);
	const struct data_page *p = too_large || rule->ms < 0 ? NULL : data_top_index_page(top, r->log_id, rule->start);
	if (too_large)
		log_note(r, rule);
	if (p == NULL)
		return true;
	struct slice page = index_cache_index_page(r->engine->index, r->object.id, p, &r->wait);
	if (page.n == 0)
		return false;
	if (!data_index_page_find(page, r->log_id, rule->start, &first))
		return true;
	int64_t due = later(first.last_append_ms, rule->ms);
	if (due < r->now_ms)
		log_note(r, rule);
	else if (due < r->object.due_ms)
		r->object.due_ms = due;
	return true;
}

/* true: the object is through. false: something is read, or the turn or the list of logs is full. */
static bool object_look(struct retention *r, unsigned *steps)
{
	for (; *steps < STEPS_A_TURN && r->n_logs < LOGS_MAX; ++*steps) {
		struct engine_retention rule;
		const struct data_top *top = index_cache_top(r->engine->index, r->object.id, &r->wait);
		if (top == NULL)
			return false;
		if (!data_top_next_log(top, r->log_id, &r->log_id))
			return true;
		if (rule_of(r, r->log_id, &rule) && !log_look(r, top, &rule))
			return false;
		if (r->log_id++ == UINT64_MAX)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------ all of them */

static void object_keep(struct retention *r)
{
	if (r->n_next == r->capacity) {
		r->capacity = r->capacity == 0 ? 16 : r->capacity * 2;
		r->next = must_realloc(r->next, r->capacity * sizeof(*r->next));
	}
	r->next[r->n_next++] = r->object;
	r->has_object = false;
}

/* Nothing in it was due at its oldest frame's time, and nobody is kept by size. */
static bool is_young(const struct retention *r, const struct object_row *row, int64_t *ret_due_ms)
{
	bool by_size;
	int64_t shortest = r->engine->events.retention_shortest(r->engine->arg, &by_size);
	*ret_due_ms = row->newest_ms == 0 || shortest < 0 ? INT64_MAX : later(row->oldest_ms, shortest);
	return (!by_size || row->newest_ms == 0) && *ret_due_ms >= r->now_ms;
}

/* The next object that has to be looked at becomes the one at hand; false: there is none. */
static bool object_next(struct retention *r)
{
	const struct engine *e = r->engine;
	const struct object_row *row = catalogue_next(engine_catalogue(e), r->begun ? &r->object.id : NULL);
	r->begun = true;
	while (row != NULL && (row->marked || row->origin != e->config.node))
		row = catalogue_next(engine_catalogue(e), &row->id);
	if (row == NULL)
		return false;
	while (r->at < r->n_known && object_id_compare(r->known[r->at].id, row->id) < 0)
		r->at++;
	bool is_known = r->at < r->n_known && object_id_is_equal(r->known[r->at].id, row->id);
	r->object = is_known ? r->known[r->at] : (struct known){ .id = row->id, .due_ms = INT64_MIN };
	r->has_object = true;
	r->looked_due_ms = r->object.due_ms;
	r->log_id = 0;
	if (r->object.due_ms >= r->now_ms || (!is_known && is_young(r, row, &r->object.due_ms)))
		object_keep(r);
	else
		r->object.due_ms = INT64_MAX;
	return true;
}

/* It is there still. */
static bool object_is_there(const struct retention *r)
{
	const struct object_row *row = catalogue_find(engine_catalogue(r->engine), r->object.id);
	return row != NULL && !row->marked;
}

static int compare_log_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void objects_end(struct retention *r)
{
	free(r->known);
	r->known = r->next;
	r->n_known = r->n_next;
	r->next = NULL;
	r->n_next = r->capacity = 0;
	r->through = true;
}

static void logs_begin(struct retention *r)
{
	size_t n = 0;
	if (r->n_logs > 1)
		qsort(r->logs, r->n_logs, sizeof(*r->logs), compare_log_ids);
	for (size_t i = 0; i < r->n_logs; i++)
		if (n == 0 || r->logs[n - 1] != r->logs[i])
			r->logs[n++] = r->logs[i];
	r->n_logs = n;
	r->log = r->n_trims = 0;
	r->phase = RETENTION_LOGS;
}

static void objects_go(struct retention *r, unsigned *steps)
{
	for (; *steps < STEPS_A_TURN && r->n_logs < LOGS_MAX && !r->through; ++*steps) {
		if (r->has_object && !object_is_there(r))
			r->has_object = false;
		if (r->has_object && !object_look(r, steps))
			break;
		if (r->has_object)
			object_keep(r);
		else if (!object_next(r))
			objects_end(r);
	}
	if (r->n_logs == LOGS_MAX || r->through)
		logs_begin(r);
	else if (r->wait.prev == NULL)
		env_defer(r->engine->env, &r->task);
}

/* ------------------------------------------------------------------- logs */

static void pass_later(struct retention *r)
{
	struct engine *e = r->engine;
	r->phase = RETENTION_IDLE;
	env_timer_start(e->env, &r->timer, env_now_ms(e->env) + e->config.retention_interval_ms);
}

/* These logs are through. */
static void logs_end(struct retention *r)
{
	r->n_logs = 0;
	if (r->through) {
		pass_later(r);
		return;
	}
	r->phase = RETENTION_OBJECTS;
	env_defer(r->engine->env, &r->task);
}

static void on_trimmed(void *arg, bool applied, const char *why)
{
	struct retention *r = arg;
	if (r->engine->dead)
		return;
	if (applied)
		metric_add(METRIC_RETENTION_TRIMS, (int64_t)r->n_trims);
	r->n_trims = 0;
	if (r->log == r->n_logs) {
		logs_end(r);
		return;
	}
	r->phase = RETENTION_LOGS;
	env_defer(r->engine->env, &r->task);
}

static void trims_go(struct retention *r)
{
	struct engine *e = r->engine;
	r->phase = RETENTION_TRIM;
	e->events.trim(e->arg, r->trims, r->n_trims, on_trimmed, r);
}

static void log_let_go(struct retention *r)
{
	if (r->held != NULL)
		log_unref(r->held);
	r->held = NULL;
	r->cutting = false;
}

/* false: there is nothing to cut. */
static bool log_begin(struct retention *r)
{
	struct engine *e = r->engine;
	struct engine_retention rule;
	struct log *log = log_table_find(&e->logs, r->logs[r->log]);
	if (log == NULL || !rule_of(r, r->logs[r->log], &rule))
		return false;
	cut_begin(&r->cut, e, r->logs[r->log], &rule, r->now_ms);
	r->cutting = true;
	r->held = log;
	log_table_ref(&e->logs, log);
	return true;
}

/* true: the log at hand is through. Its bytes are known when it is loaded. */
static bool log_cut(struct retention *r)
{
	if (!r->cutting && !log_begin(r))
		return true;
	if (!r->held->removed && !log_load(r->engine, r->held, &r->load))
		return false;
	if (!cut_walk(&r->cut, &r->wait))
		return false;
	if (cut_is_worth(&r->cut))
		r->trims[r->n_trims++] = (struct engine_trim){ .log_id = r->cut.log_id, .start = r->cut.end };
	log_let_go(r);
	return true;
}

static void logs_go(struct retention *r, unsigned *steps)
{
	for (; *steps < STEPS_A_TURN && r->log < r->n_logs && r->n_trims < TRIMS_MAX; *steps += WALK_STEPS) {
		if (!log_cut(r))
			return;
		r->log++;
	}
	if (r->n_trims == TRIMS_MAX || (r->log == r->n_logs && r->n_trims > 0))
		trims_go(r);
	else if (r->log == r->n_logs)
		logs_end(r);
	else
		env_defer(r->engine->env, &r->task);
}

/* ------------------------------------------------------------------- a pass */

static void on_step(void *arg)
{
	struct retention *r = arg;
	unsigned steps = 0;
	if (r->engine->dead || r->engine->stopping || r->wait.prev != NULL || r->load.prev != NULL)
		return;
	if (r->phase == RETENTION_OBJECTS)
		objects_go(r, &steps);
	if (r->phase == RETENTION_LOGS)
		logs_go(r, &steps);
}

/* A fault is final; what is missing may have been moved by a commit, and is found where it is now in the next pass. */
static void on_index(struct index_wait *w, const char *fault, bool missing)
{
	struct retention *r = (struct retention *)((char *)w - offsetof(struct retention, wait));
	if (fault != NULL && r->phase == RETENTION_OBJECTS) {
		r->object.due_ms = later(r->now_ms, FAULT_PAUSE_MS);
		object_keep(r);
	} else if (fault != NULL) {
		cut_skip(&r->cut);
	}
	env_defer(r->engine->env, &r->task);
}

/* One that cannot be loaded is not cut. */
static void on_loaded(struct load_wait *w, const struct pico_error *error)
{
	struct retention *r = (struct retention *)((char *)w - offsetof(struct retention, load));
	if (error != NULL) {
		log_let_go(r);
		r->log++;
	}
	env_defer(r->engine->env, &r->task);
}

static struct known *known_find(struct retention *r, struct object_id id)
{
	size_t low = 0, high = r->n_known;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (object_id_compare(r->known[middle].id, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n_known && object_id_is_equal(r->known[low].id, id) ? &r->known[low] : NULL;
}

/* What was known of objects that hold the logs with new settings is not true any more. */
static void changed_take(struct retention *r)
{
	if (r->n_changed == CHANGED_MAX) /* and more */
		r->n_known = 0;
	for (size_t i = 0; i < r->n_changed; i++) {
		struct catalogue_cursor at = { 0 };
		const struct object_row *row;
		while ((row = catalogue_of_log(engine_catalogue(r->engine), r->engine->config.node, r->changed[i], &at)) != NULL) {
			struct known *k = known_find(r, row->id);
			if (k != NULL)
				k->due_ms = INT64_MIN;
		}
	}
	r->n_changed = 0;
}

static void on_timer(void *arg)
{
	struct retention *r = arg;
	struct engine *e = r->engine;
	bool by_size;
	if (r->phase != RETENTION_IDLE || e->dead || e->stopping || !wal_may_look(&e->wal))
		return;
	r->now_ms = planted(PLANTED_RETENTION_BY_WALL) ? env_wall_ms(e->env) : stamp_due_ms(&e->stamp, e->env);
	if (r->now_ms == INT64_MIN || (e->events.retention_shortest(e->arg, &by_size) < 0 && !by_size)) {
		r->n_known = r->n_changed = 0;
		pass_later(r);
		return;
	}
	changed_take(r);
	r->phase = RETENTION_OBJECTS;
	r->begun = r->has_object = r->through = false;
	r->at = r->n_logs = 0;
	on_step(r);
}

void retention_begin(struct retention *r)
{
	if (r->engine->events.retention != NULL)
		pass_later(r);
}

void engine_retention_changed(struct engine *e, uint64_t log_id_)
{
	struct retention *r = e->retention;
	if (r->n_changed == CHANGED_MAX)
		return;
	if (r->n_changed == r->changed_capacity) {
		r->changed_capacity = r->changed_capacity == 0 ? 16 : r->changed_capacity * 2;
		r->changed = must_realloc(r->changed, r->changed_capacity * sizeof(*r->changed));
	}
	r->changed[r->n_changed++] = log_id_;
}

struct retention *retention_new(struct engine *e)
{
	struct retention *r = must_calloc(1, sizeof(*r));
	r->engine = e;
	r->logs = must_calloc(LOGS_MAX, sizeof(*r->logs));
	r->trims = must_calloc(TRIMS_MAX, sizeof(*r->trims));
	r->wait.on_ready = on_index;
	r->load.on_loaded = on_loaded;
	r->timer = (struct env_timer){ .on_fire = on_timer, .arg = r };
	r->task = (struct env_task){ .run = on_step, .arg = r };
	return r;
}

void retention_free(struct retention *r)
{
	if (r == NULL)
		return;
	env_timer_stop(r->engine->env, &r->timer);
	index_wait_stop(&r->wait);
	load_wait_stop(&r->load);
	log_let_go(r);
	free(r->known);
	free(r->next);
	free(r->changed);
	free(r->logs);
	free(r->trims);
	free(r);
}
