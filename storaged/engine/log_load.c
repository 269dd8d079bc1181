/* SPDX-License-Identifier: Apache-2.0
 *
 * One load: the objects that may hold an entry of the log are listed once, as the catalogue has them now; their tops and one
 * state page each are looked at through the index cache; what is found is folded, and frames that recovery found are
 * played on top. A commit meanwhile may have taken objects away: then the list is made anew.
 *
 * A few loads run at a time, the others wait for their turn. The first step of a load is made at once, so what the cache
 * holds costs no turn of the loop.
 */
#include "storaged/engine/log_load.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/append.h"
#include "storaged/engine/log_state.h"
#include "storaged/planted.h"

struct log_load {
	struct log_load *next, **prev;  /* of the engine */
	struct engine *engine;
	struct log *log;                /* one ref */
	struct object_id *ids;          /* to look at; owned */
	size_t n_ids, at;
	struct object_id *done;         /* looked at before the list was made anew */
	size_t n_done;
	struct data_page page;          /* of the object at hand, once its top was looked at */
	bool has_page, running;
	struct index_wait wait;
	Frame__State **entries;         /* owned */
	size_t n_entries;
	struct append_queue appends;
	struct load_wait *waits;
	char fault[300];                /* "": none */
	struct env_task task;
};

static void load_run(struct log_load *l);

/* --------------------------------------------------------------------- waiters */

void load_wait_stop(struct load_wait *w)
{
	if (w->prev == NULL)
		return;
	*w->prev = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	w->prev = NULL;
}

static void wait_link(struct load_wait **list, struct load_wait *w)
{
	must(w->prev == NULL);
	w->next = *list;
	w->prev = list;
	if (*list != NULL)
		(*list)->prev = &w->next;
	*list = w;
}

void log_load_append(struct engine_append *a)
{
	append_queue_push(log_load_appends(a->log), a);
	a->state = APPEND_LOAD;
}

struct append_queue *log_load_appends(const struct log *log)
{
	must(log->is_open && log->open->load != NULL);
	return &log->open->load->appends;
}

struct append_queue *log_load_queue(struct log_load *l)
{
	return &l->appends;
}

struct log_load *log_load_next(const struct engine *e, const struct log_load *after)
{
	return after == NULL ? e->loads : after->next;
}

/* ------------------------------------------------------------------------ end */

static void entries_free(struct log_load *l)
{
	for (size_t i = 0; i < l->n_entries; i++)
		data_state_free(l->entries[i]);
	free(l->entries);
	l->entries = NULL;
	l->n_entries = 0;
}

static void load_free(struct log_load *l)
{
	struct engine *e = l->engine;
	*l->prev = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
	else
		e->loads_tail = l->prev;
	e->n_loads_running -= l->running;
	index_wait_stop(&l->wait);
	entries_free(l);
	free(l->ids);
	free(l->done);
	free(l);
}

/* One that waits for its turn has it. */
static void load_next(struct engine *e)
{
	struct log_load *l = e->loads;
	while (l != NULL && l->running)
		l = l->next;
	if (l == NULL || e->n_loads_running >= bounds.loads)
		return;
	l->running = true;
	e->n_loads_running++;
	env_defer(e->env, &l->task);
}

/* Appends go on first, in order, and those that come meanwhile behind them. */
static void load_end(struct log_load *l)
{
	struct engine *e = l->engine;
	struct log *log = l->log;
	struct pico_error error, *told = NULL;
	struct load_wait *waits = l->waits;
	if (l->fault[0] != '\0') {
		pico_error_set(&error, PICO_UNAVAILABLE, "%s", l->fault);
		told = &error;
	}
	append_queue_go(e, &l->appends, told);
	log->open->load = NULL;
	l->waits = NULL;
	if (waits != NULL)
		waits->prev = &waits;
	load_free(l);
	while (waits != NULL) {
		struct load_wait *w = waits;
		load_wait_stop(w);
		w->on_loaded(w, told);
	}
	log_unref(log);
	load_next(e);
}

/* ----------------------------------------------------------------------- fold */

static void load_fail(struct log_load *l, const char *fault)
{
	snprintf(l->fault, sizeof(l->fault), "log %llu: %s", (unsigned long long)l->log->id, fault);
}

static void note_entries(struct log_open *o, Frame__State *const *entries, size_t n)
{
	const Frame__State *newest = entries[0], *complete = NULL;
	for (size_t i = 0; i < n; i++) {
		if (data_state_compare(entries[i], newest) > 0)
			newest = entries[i];
		if (entries[i]->complete && (complete == NULL || data_state_compare(entries[i], complete) > 0))
			complete = entries[i];
	}
	o->n_incomplete = newest->n_incomplete;
	o->has_entry = newest->epoch == o->log->epoch;
	o->complete_epoch = complete != NULL ? complete->epoch : 0;
	o->complete_next = complete != NULL ? complete->next : 0;
}

/* The frames that stand in the arena and in no data object. */
static void replay(struct log_load *l)
{
	struct log_open *o = l->log->open;
	for (uint32_t i = 0; i < o->n_replay; i++) {
		const struct frame_place *x = &o->replay[i];
		struct arena_place at = { .session = (uint32_t)x->session, .seq = x->seq, .body_position = x->body_position };
		struct piece p;
		struct frame f;
		struct frame_facts facts;
		Frame__Meta *m;
		must(arena_find(&l->engine->arena, at, x->length, &p));
		struct frame_iter it = { .body = slice_of(p.segment->mem.base + p.offset, x->length) };
		must(frame_next(&it, &f) == 1 && f.log_id == l->log->id);
		must(frame_facts_read(&f, &facts, &m) == NULL);
		log_state_apply(&o->submitted, &facts);
		frame__meta__free_unpacked(m, NULL);
	}
	free(o->replay);
	o->replay = NULL;
	o->n_replay = o->replay_capacity = 0;
}

/* Where the log was packed to is known: what the entries say of that must agree. NULL, or what is wrong. */
static const char *entry_check(const struct log *log, const Frame__State *s)
{
	const struct log_state *packed = &log->open->packed;
	if (!s->complete && !s->whole)
		return "none of its state entries is complete";
	if (s->next > packed->next || s->last_append_ms > packed->last_time)
		return "a state entry reaches farther than it";
	if (!log->settled && (s->next != packed->next || s->last_append_ms != packed->last_time))
		return "its newest state entry is not there";
	return NULL;
}

static const char *load_fold(struct log_load *l)
{
	struct log *log = l->log;
	struct log_open *o = log->open;
	if (l->n_entries == 0)
		return "it has no state entry";
	note_entries(o, l->entries, l->n_entries);
	const char *fault = data_state_fold_all(l->entries, l->n_entries);
	l->n_entries = 1;
	const Frame__State *s = l->entries[0];
	fault = fault != NULL ? fault : entry_check(log, s);
	if (fault != NULL)
		return fault;
	struct log_state packed = o->packed;
	uint64_t next = o->submitted.next;
	log_state_load(&o->submitted, s, log->epoch);
	log_state_load(&o->packed, s, log->epoch);
	if (planted(PLANTED_LOAD_FORGETS))
		log_state_done(&o->submitted);
	o->submitted.next = o->packed.next = packed.next;
	o->submitted.last_time = o->packed.last_time = packed.last_time;
	replay(l);
	must(o->submitted.next == next);
	o->submitted.closed = log->closed;
	o->loaded = true;
	metric_add(METRIC_LOGS_LOADED, 1);
	return NULL;
}

/* It never was in a data object. */
static void load_empty(struct log *log)
{
	struct log_open *o = log->open;
	must(!o->loaded && o->n_replay == 0);
	o->submitted.closed = log->closed;
	o->loaded = true;
}

/* ----------------------------------------------------------------------- walk */

static bool is_done(const struct log_load *l, struct object_id id)
{
	for (size_t i = 0; i < l->n_done; i++)
		if (object_id_is_equal(l->done[i], id))
			return true;
	return false;
}

/* What was looked at stays known: however fast objects come and go, each is looked at once. */
static void list_objects(struct log_load *l)
{
	const struct engine *e = l->engine;
	struct catalogue_cursor cursor = { 0 };
	const struct object_row *row;
	size_t capacity = 0;
	l->done = must_realloc(l->done, (l->n_done + l->at + 1) * sizeof(*l->done));
	for (size_t i = 0; i < l->at; i++)
		l->done[l->n_done++] = l->ids[i];
	free(l->ids);
	l->ids = NULL;
	l->n_ids = l->at = 0;
	l->has_page = false;
	while ((row = catalogue_of_log(engine_catalogue(e), e->config.node, l->log->id, &cursor)) != NULL) {
		if (row->level == DATA_LEVEL_SINGLE || is_done(l, row->id))
			continue;
		if (l->n_ids == capacity) {
			capacity = capacity == 0 ? 16 : capacity * 2;
			l->ids = must_realloc(l->ids, capacity * sizeof(*l->ids));
		}
		l->ids[l->n_ids++] = row->id;
	}
	l->entries = must_realloc(l->entries, (l->n_entries + l->n_ids + 1) * sizeof(Frame__State *));
}

/* false: being read. */
static bool object_top(struct log_load *l)
{
	const struct data_top *top = index_cache_top(l->engine->index, l->ids[l->at], &l->wait);
	if (top == NULL)
		return false;
	const struct data_page *p = data_top_has(top, l->log->id) ? data_top_state_page(top, l->log->id) : NULL;
	l->has_page = p != NULL;
	if (p != NULL)
		l->page = *p;
	else
		l->at++;
	return true;
}

static bool object_page(struct log_load *l)
{
	struct slice page = index_cache_state_page(l->engine->index, l->ids[l->at], &l->page, &l->wait), bytes;
	const char *fault;
	if (page.n == 0)
		return false;
	if (data_state_page_find(page, l->log->id, &bytes)) {
		Frame__State *s = data_state_decode(bytes, l->log->id, &fault);
		if (s != NULL)
			l->entries[l->n_entries++] = s;
		else
			load_fail(l, fault);
	}
	l->has_page = false;
	l->at++;
	return true;
}

/* true: all of it was looked at, or it failed. */
static bool load_walk(struct log_load *l)
{
	while (l->at < l->n_ids && l->fault[0] == '\0')
		if (!(l->has_page ? object_page(l) : object_top(l)))
			return false;
	return true;
}

static void load_settle(struct log_load *l)
{
	const char *fault = NULL;
	if (l->fault[0] == '\0' && !l->log->removed)
		fault = load_fold(l);
	if (fault != NULL)
		load_fail(l, fault);
	entries_free(l);
}

static void load_run(struct log_load *l)
{
	if (l->engine->dead || !load_walk(l))
		return;
	load_settle(l);
	load_end(l);
}

/* An object that went by a commit: what it held stands elsewhere now. */
static void on_index(struct index_wait *w, const char *fault, bool missing)
{
	struct log_load *l = (struct log_load *)((char *)w - offsetof(struct log_load, wait));
	const struct object_row *row = catalogue_find(engine_catalogue(l->engine), l->ids[l->at]);
	char key[DATA_KEY_MAX], text[250];
	if (missing && (row == NULL || row->marked)) {
		list_objects(l);
	} else if (fault != NULL) {
		data_key(key, l->ids[l->at]);
		snprintf(text, sizeof(text), "data object %s: %.150s", key, fault);
		load_fail(l, text);
	}
	load_run(l);
}

static void on_turn(void *arg)
{
	struct log_load *l = arg;
	list_objects(l);
	load_run(l);
}

/* ---------------------------------------------------------------------- begin */

static struct log_load *load_new(struct engine *e, struct log *log)
{
	struct log_load *l = must_calloc(1, sizeof(*l));
	l->engine = e;
	l->log = log;
	log_table_ref(&e->logs, log);
	l->wait.on_ready = on_index;
	l->task = (struct env_task){ .run = on_turn, .arg = l };
	append_queue_init(&l->appends, &e->n_load_appends);
	l->prev = e->loads_tail;
	*e->loads_tail = l;
	e->loads_tail = &l->next;
	log->open->load = l;
	return l;
}

/* true: everything was in the cache. */
static bool load_at_once(struct log_load *l)
{
	struct engine *e = l->engine;
	struct log *log = l->log;
	l->running = true;
	e->n_loads_running++;
	list_objects(l);
	if (!load_walk(l))
		return false;
	load_settle(l);
	if (l->fault[0] != '\0') {
		l->task.run = (void (*)(void *))load_end;
		env_defer(e->env, &l->task);
		return false;
	}
	log->open->load = NULL;
	load_free(l);
	log_unref(log);
	return true;
}

bool log_load(struct engine *e, struct log *log, struct load_wait *w)
{
	if (log_is_ready(log))
		return true;
	struct log_open *o = log_table_open(&e->logs, log);
	if (o->load == NULL && !log->stored) {
		load_empty(log);
		return true;
	}
	if (o->load == NULL) {
		struct log_load *l = load_new(e, log);
		if (e->n_loads_running < bounds.loads && load_at_once(l))
			return true;
	}
	if (w != NULL)
		wait_link(&o->load->waits, w);
	return false;
}

void log_load_frame(struct engine *e, struct log *log, const struct frame_facts *facts, struct arena_place at,
		    uint32_t length)
{
	struct log_open *o = log_table_open(&e->logs, log);
	log_unpacked_add(o, 1);
	log_touch(o);
	if (!o->loaded && !log->stored)
		load_empty(log);
	if (o->loaded) {
		log_state_apply(&o->submitted, facts);
		return;
	}
	if (o->n_replay == o->replay_capacity) {
		o->replay_capacity = o->replay_capacity == 0 ? 1 : o->replay_capacity * 2;
		o->replay = must_realloc(o->replay, o->replay_capacity * sizeof(*o->replay));
	}
	o->replay[o->n_replay++] = (struct frame_place){
		.session = at.session, .seq = at.seq, .body_position = at.body_position, .length = length,
	};
	o->submitted.next = facts->next;
	o->submitted.last_time = facts->append_time;
}

void log_load_forget_all(struct engine *e)
{
	while (e->loads != NULL) {
		append_queue_forget(e, &e->loads->appends);
		e->loads->log->open->load = NULL;
		load_free(e->loads);
	}
}
