/* SPDX-License-Identifier: Apache-2.0
 *
 * The search. An object is kept by its keeper: the lowest of its logs that still needs it, for a living frame or because
 * its newest complete state entry stands nowhere else. While that log needs it nothing of the object is read; when it
 * no longer does, the next one is looked for, from there on. So each page of an object is read once in a process's life,
 * whatever dies in it in whatever order, and a pass over all objects is a look at one number each.
 */
#include "storaged/engine/gc.h"

#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/merge.h"
#include "storaged/engine/damage.h"
#include "storaged/engine/gc_delete.h"
#include "storaged/engine/log_load.h"
#include "storaged/planted.h"

#define DELAY_MS 1000u                  /* what comes in that time is one pass */
#define RETRY_MS 5000u
#define FAULT_STEPS 10000u

enum keeper {
	KEEPER_NONE,                    /* logs below log_id are dead; the others were not looked at */
	KEEPER_FRAME,                   /* the one that ends at `until` */
	KEEPER_ENTRY,                   /* the state entry (epoch, until) */
	KEEPER_FAULT,                   /* the object is damaged: it stays while this log is there */
};

struct gc_object {
	struct object_id id;
	enum keeper keeper;
	uint32_t epoch;
	uint64_t log_id, until;
};

enum gc_phase { GC_IDLE, GC_SEARCH, GC_COMMIT };
enum look { LOOK_KEPT, LOOK_DEAD, LOOK_WAIT };

struct gc {
	struct engine *engine;
	enum gc_phase phase;
	bool due;                       /* something may have died since the pass began */
	struct gc_object *known, *next; /* by id; next: of the pass under way */
	size_t n_known, n_next, capacity, at;
	struct gc_object object;        /* at hand */
	bool has_object, begun;         /* begun: object.id is the cursor */
	struct object_id *dead;         /* bounds.gc_remove */
	size_t n_dead;
	struct index_wait wait;
	struct load_wait load;
	struct log *log;                /* one ref: it is being loaded, or its entry is looked at */
	struct env_timer timer;
	struct env_task task;
	struct gc_delete *deletion;
};

/* ---------------------------------------------------------------- one log */

static uint64_t living_start(const struct gc *g, uint64_t log_id)
{
	return engine_living(g->engine, log_id);
}

enum superseded { SUPERSEDED_NO, SUPERSEDED_YES, SUPERSEDED_UNKNOWN };

/* Whether a complete entry above (epoch, next) stands in a committed object, so that nobody folds down to this one. Of a
 * log that is not loaded only its newest entry is known by its end. */
static enum superseded is_superseded(const struct gc *g, uint64_t log_id, uint32_t epoch, uint64_t next)
{
	const struct log *log = log_table_find(&g->engine->logs, log_id);
	if (log == NULL)
		return SUPERSEDED_NO;
	const struct log_open *o = log->is_open ? log->open : NULL;
	if (o == NULL || !o->loaded)
		return log->epoch == epoch && (o == NULL ? log->next : o->packed.next) == next ? SUPERSEDED_NO : SUPERSEDED_UNKNOWN;
	if (planted(PLANTED_NEWEST_BY_RUN))
		return o->complete_next != next ? SUPERSEDED_YES : SUPERSEDED_NO;
	bool above = o->complete_epoch != epoch ? o->complete_epoch > epoch : o->complete_next > next;
	return above ? SUPERSEDED_YES : SUPERSEDED_NO;
}

static void log_let_go(struct gc *g)
{
	if (g->log != NULL)
		log_unref(g->log);
	g->log = NULL;
}

/* true: the log is loaded, or gone, until it is let go. */
static bool log_hold(struct gc *g, uint64_t log_id)
{
	struct log *log = log_table_find(&g->engine->logs, log_id);
	if (log == NULL)
		return true;
	if (g->log != log) {
		log_let_go(g);
		g->log = log;
		log_table_ref(&g->engine->logs, log);
	}
	return log_load(g->engine, log, &g->load);
}

static bool keeper_is_good(const struct gc *g, const struct gc_object *o)
{
	switch (o->keeper) {
	case KEEPER_NONE:
		return false;
	case KEEPER_FRAME:
		return living_start(g, o->log_id) < o->until;
	case KEEPER_ENTRY:
		return living_start(g, o->log_id) != UINT64_MAX &&
		       is_superseded(g, o->log_id, o->epoch, o->until) == SUPERSEDED_NO;
	case KEEPER_FAULT:
		return living_start(g, o->log_id) != UINT64_MAX;
	}
	return true;
}

static enum look frames_look(struct gc *g, const struct data_top *top, uint64_t start)
{
	struct gc_object *o = &g->object;
	struct data_index_entry entry;
	const struct data_page *p = data_top_index_page(top, o->log_id, start);
	if (p == NULL)
		return LOOK_DEAD;
	struct slice page = index_cache_index_page(g->engine->index, o->id, p, &g->wait);
	if (page.n == 0)
		return LOOK_WAIT;
	if (!data_index_page_find(page, o->log_id, start, &entry))
		return LOOK_DEAD;
	o->keeper = KEEPER_FRAME;
	o->until = entry.end;
	return LOOK_KEPT;
}

static enum look entry_look(struct gc *g, const struct data_top *top)
{
	struct gc_object *o = &g->object;
	struct slice bytes;
	const char *fault;
	const struct data_page *p = data_top_state_page(top, o->log_id);
	if (p == NULL)
		return LOOK_DEAD;
	struct slice page = index_cache_state_page(g->engine->index, o->id, p, &g->wait);
	if (page.n == 0)
		return LOOK_WAIT;
	if (!data_state_page_find(page, o->log_id, &bytes))
		return LOOK_DEAD;
	Frame__State *entry = data_state_decode(bytes, o->log_id, &fault);
	if (entry == NULL) {
		o->keeper = KEEPER_FAULT;
		return LOOK_KEPT;
	}
	o->epoch = entry->epoch;
	o->until = entry->next;
	data_state_free(entry);
	enum superseded x = is_superseded(g, o->log_id, o->epoch, o->until);
	if (x == SUPERSEDED_UNKNOWN && !log_hold(g, o->log_id))
		return LOOK_WAIT;
	if (x == SUPERSEDED_UNKNOWN)
		x = is_superseded(g, o->log_id, o->epoch, o->until);
	log_let_go(g);
	o->keeper = x == SUPERSEDED_NO ? KEEPER_ENTRY : KEEPER_NONE;
	return x == SUPERSEDED_NO ? LOOK_KEPT : LOOK_DEAD;
}

/* The log object.log_id. What a cache gives out, as top, is good until it is asked again. */
static enum look log_look(struct gc *g, const struct data_top *top)
{
	uint64_t start = living_start(g, g->object.log_id);
	if (start == UINT64_MAX)
		return LOOK_DEAD;
	enum look found = frames_look(g, top, start);
	if (found != LOOK_DEAD)
		return found;
	top = index_cache_top(g->engine->index, g->object.id, &g->wait);
	return top != NULL ? entry_look(g, top) : LOOK_WAIT;
}

/* ---------------------------------------------------------------- one object */

static enum look object_search(struct gc *g, unsigned *steps)
{
	struct gc_object *o = &g->object;
	o->keeper = KEEPER_NONE;
	for (; *steps < bounds.gc_steps; ++*steps) {
		const struct data_top *top = index_cache_top(g->engine->index, o->id, &g->wait);
		if (top == NULL)
			return LOOK_WAIT;
		if (!data_top_next_log(top, o->log_id, &o->log_id))
			return LOOK_DEAD;
		enum look found = log_look(g, top);
		if (found != LOOK_DEAD)
			return found;
		if (o->log_id == UINT64_MAX)
			return LOOK_DEAD;
		o->log_id++;
	}
	env_defer(g->engine->env, &g->task);
	return LOOK_WAIT;
}

static enum look object_look(struct gc *g, const struct object_row *row, unsigned *steps)
{
	if (row->level == DATA_LEVEL_SINGLE)
		return living_start(g, row->first_log) >= row->end_offset ? LOOK_DEAD : LOOK_KEPT;
	if (keeper_is_good(g, &g->object))
		return LOOK_KEPT;
	if (g->object.keeper == KEEPER_FAULT && g->object.log_id == row->last_log)
		return LOOK_DEAD;
	return object_search(g, steps);
}

/* The next log that may need it, as far as ids say. One that is missing may be marked by now, which the next step sees. */
static void object_fault(struct gc *g, const struct object_row *row)
{
	struct gc_object *o = &g->object;
	o->keeper = KEEPER_FAULT;
	if (o->log_id < row->first_log)
		o->log_id = row->first_log;
	for (unsigned i = 0; i < FAULT_STEPS && o->log_id < row->last_log && living_start(g, o->log_id) == UINT64_MAX; i++)
		o->log_id++;
}

/* ------------------------------------------------------------------- a pass */

/* The object at hand becomes the next one of this node's; NULL: there is none. */
static const struct object_row *object_next(struct gc *g)
{
	const struct engine *e = g->engine;
	const struct object_row *row = catalogue_next(engine_catalogue(e), g->begun ? &g->object.id : NULL);
	while (row != NULL && (row->marked || row->origin != e->config.node))
		row = catalogue_next(engine_catalogue(e), &row->id);
	if (row == NULL)
		return NULL;
	while (g->at < g->n_known && object_id_compare(g->known[g->at].id, row->id) < 0)
		g->at++;
	bool is_known = g->at < g->n_known && object_id_is_equal(g->known[g->at].id, row->id);
	g->object = is_known ? g->known[g->at] : (struct gc_object){ .id = row->id };
	g->begun = g->has_object = true;
	return row;
}

/* The object at hand, if it is there still. */
static const struct object_row *object_now(struct gc *g)
{
	const struct object_row *row = g->has_object ? catalogue_find(engine_catalogue(g->engine), g->object.id) : NULL;
	g->has_object = row != NULL && !row->marked;
	return g->has_object ? row : object_next(g);
}

static void object_keep(struct gc *g)
{
	if (g->n_next == g->capacity) {
		g->capacity = g->capacity == 0 ? 16 : g->capacity * 2;
		g->next = must_realloc(g->next, g->capacity * sizeof(*g->next));
	}
	g->next[g->n_next++] = g->object;
}

static void pass_later(struct gc *g, uint64_t ms)
{
	if (g->timer.at_ms == 0)
		env_timer_start(g->engine->env, &g->timer, env_now_ms(g->engine->env) + ms);
}

static void on_committed(void *arg, bool applied, const char *why)
{
	struct gc *g = arg;
	if (g->engine->dead)
		return;
	g->phase = GC_IDLE;
	if (applied)
		metric_add(METRIC_GC_REMOVED, (int64_t)g->n_dead);
	gc_delete_consider(g->deletion);
	if (!applied || g->n_dead == bounds.gc_remove) /* refused: somebody removed one of them; look again */
		g->due = true;
	if (g->due)
		pass_later(g, applied ? DELAY_MS : RETRY_MS);
}

static void pass_end(struct gc *g)
{
	struct engine *e = g->engine;
	free(g->known);
	g->known = g->next;
	g->n_known = g->n_next;
	g->next = NULL;
	g->n_next = g->capacity = 0;
	g->phase = GC_IDLE;
	if (g->n_dead > 0) {
		struct engine_commit c = { .remove = g->dead, .n_remove = g->n_dead };
		g->phase = GC_COMMIT;
		e->events.commit(e->arg, &c, on_committed, g);
	} else if (g->due) {
		pass_later(g, DELAY_MS);
	}
}

static void on_step(void *arg)
{
	struct gc *g = arg;
	struct engine *e = g->engine;
	const struct object_row *row;
	if (g->phase != GC_SEARCH || e->dead || e->stopping || g->wait.prev != NULL || g->load.prev != NULL)
		return;
	for (unsigned steps = 0; steps < bounds.gc_steps; steps++) {
		row = g->n_dead < bounds.gc_remove ? object_now(g) : NULL;
		if (row == NULL) {
			pass_end(g);
			return;
		}
		enum look found = object_look(g, row, &steps);
		if (found == LOOK_WAIT)
			return;
		if (found == LOOK_KEPT || merger_reads(e->merger, g->object.id))
			object_keep(g);
		else
			g->dead[g->n_dead++] = g->object.id;
		g->has_object = false;
	}
	env_defer(e->env, &g->task);
}

static void on_index(struct index_wait *w, const char *fault, bool missing)
{
	struct gc *g = (struct gc *)((char *)w - offsetof(struct gc, wait));
	const struct object_row *row = catalogue_find(engine_catalogue(g->engine), g->object.id);
	if (fault != NULL && row != NULL) {
		damage_note(g->engine->damage, g->object.id, fault, missing);
		object_fault(g, row);
	}
	env_defer(g->engine->env, &g->task);
}

static void on_loaded(struct load_wait *w, const struct pico_error *error)
{
	struct gc *g = (struct gc *)((char *)w - offsetof(struct gc, load));
	if (error != NULL)
		g->object.keeper = KEEPER_FAULT;
	env_defer(g->engine->env, &g->task);
}

static void on_timer(void *arg)
{
	struct gc *g = arg;
	const struct engine *e = g->engine;
	if (g->phase != GC_IDLE || !g->due || e->dead || e->stopping)
		return;
	g->phase = GC_SEARCH;
	g->due = g->begun = g->has_object = false;
	g->n_dead = g->at = 0;
	on_step(g);
}

void gc_consider(struct gc *g)
{
	if (!g->engine->serving)
		return;
	g->due = true;
	gc_delete_consider(g->deletion);
	if (g->phase == GC_IDLE)
		pass_later(g, DELAY_MS);
}

struct gc *gc_new(struct engine *e)
{
	struct gc *g = must_calloc(1, sizeof(*g));
	g->engine = e;
	g->dead = must_calloc(bounds.gc_remove, sizeof(*g->dead));
	g->wait.on_ready = on_index;
	g->load.on_loaded = on_loaded;
	g->timer = (struct env_timer){ .on_fire = on_timer, .arg = g };
	g->task = (struct env_task){ .run = on_step, .arg = g };
	g->deletion = gc_delete_new(e);
	return g;
}

void gc_free(struct gc *g)
{
	if (g == NULL)
		return;
	env_timer_stop(g->engine->env, &g->timer);
	index_wait_stop(&g->wait);
	load_wait_stop(&g->load);
	log_let_go(g);
	gc_delete_free(g->deletion);
	free(g->known);
	free(g->next);
	free(g->dead);
	free(g);
}
