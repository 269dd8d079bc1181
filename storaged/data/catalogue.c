/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. Every row stands in the index by id and in the list by last change. An unmarked one stands in the
 * index by place, too: (origin, level, run, first log) for levels of runs, (origin, level, log, newest run first)
 * for objects of one log, so that each question is a binary search for a place. A marked one stands in the index by mark
 * instead. What a level holds is counted as rows come and go.
 */
#include "storaged/data/catalogue.h"

#include <stdlib.h>

#include "common/must.h"
#include "storaged/data/sorted_index.h"

struct entry {
	struct object_row row;          /* first: a row is its entry */
	struct entry *older, *newer;    /* by changed_idx */
};

/* Of one origin. */
struct level_counts {
	uint32_t origin;
	struct {
		size_t n_runs, n_objects;
		uint64_t bytes;
	} level[DATA_LEVELS + 1];
};

struct catalogue {
	struct sorted_index by_id;         /* all */
	struct sorted_index by_place;      /* unmarked */
	struct sorted_index by_mark;       /* marked */
	struct entry *oldest, *newest;  /* owned */
	struct level_counts *count;     /* owned; an origin that ever had a row */
	size_t n_counts;
	uint64_t bytes;
};

/* ---------------------------------------------------------------- orders */

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_ids(struct object_id a, struct object_id b)
{
	int c = order(a.node, b.node);
	if (c == 0)
		c = order(a.session, b.session);
	return c != 0 ? c : order(a.number, b.number);
}

static int by_id(const struct sorted_index *x, const void *probe, const void *item)
{
	const struct object_row *a = probe, *b = item;
	return compare_ids(a->id, b->id);
}

static int by_place(const struct sorted_index *x, const void *probe, const void *item)
{
	const struct object_row *a = probe, *b = item;
	int c = order(a->origin, b->origin);
	if (c == 0)
		c = order(a->level, b->level);
	if (c == 0 && a->level == DATA_LEVEL_SINGLE)
		c = order(a->first_log, b->first_log);
	if (c == 0)
		c = a->level == DATA_LEVEL_SINGLE ? order(b->run, a->run) : order(a->run, b->run);
	if (c == 0)
		c = order(a->first_log, b->first_log);
	if (c == 0)
		c = order(a->first_offset, b->first_offset);
	return c != 0 ? c : compare_ids(a->id, b->id);
}

static int by_mark(const struct sorted_index *x, const void *probe, const void *item)
{
	const struct object_row *a = probe, *b = item;
	int c = (a->marked_ms > b->marked_ms) - (a->marked_ms < b->marked_ms);
	return c != 0 ? c : compare_ids(a->id, b->id);
}

/* ---------------------------------------------------------------- life */

struct catalogue *catalogue_new(void)
{
	struct catalogue *c = must_calloc(1, sizeof(*c));
	sorted_index_init(&c->by_id, by_id);
	sorted_index_init(&c->by_place, by_place);
	sorted_index_init(&c->by_mark, by_mark);
	return c;
}

void catalogue_free(struct catalogue *c)
{
	if (c == NULL)
		return;
	for (struct entry *e = c->oldest, *newer; e != NULL; e = newer) {
		newer = e->newer;
		free(e);
	}
	sorted_index_done(&c->by_id);
	sorted_index_done(&c->by_place);
	sorted_index_done(&c->by_mark);
	free(c->count);
	free(c);
}

static void list_append(struct catalogue *c, struct entry *e, uint64_t idx)
{
	must(c->newest == NULL || c->newest->row.changed_idx <= idx);
	e->row.changed_idx = idx;
	e->older = c->newest;
	e->newer = NULL;
	if (c->newest != NULL)
		c->newest->newer = e;
	else
		c->oldest = e;
	c->newest = e;
}

static void list_remove(struct catalogue *c, struct entry *e)
{
	if (e->older != NULL)
		e->older->newer = e->newer;
	else
		c->oldest = e->newer;
	if (e->newer != NULL)
		e->newer->older = e->older;
	else
		c->newest = e->older;
}

static struct level_counts *counts_find(const struct catalogue *c, uint32_t origin)
{
	for (size_t i = 0; i < c->n_counts; i++)
		if (c->count[i].origin == origin)
			return &c->count[i];
	return NULL;
}

static struct level_counts *counts_get(struct catalogue *c, uint32_t origin)
{
	struct level_counts *n = counts_find(c, origin);
	if (n != NULL)
		return n;
	c->count = must_realloc(c->count, (c->n_counts + 1) * sizeof(c->count[0]));
	c->count[c->n_counts] = (struct level_counts){ .origin = origin };
	return &c->count[c->n_counts++];
}

/* The first row of that run; NULL: it has none. */
static struct object_row *run_first(const struct catalogue *c, uint32_t origin, uint32_t level, uint64_t run)
{
	struct object_row probe = { .origin = origin, .level = level, .run = run };
	struct object_row *row = sorted_index_after(&c->by_place, &probe, true);
	return row != NULL && row->origin == origin && row->level == level && row->run == run ? row : NULL;
}

static bool run_is_empty(const struct catalogue *c, const struct object_row *row)
{
	return row->level < DATA_LEVELS && run_first(c, row->origin, row->level, row->run) == NULL;
}

static void place_add(struct catalogue *c, struct object_row *row)
{
	struct level_counts *n = counts_get(c, row->origin);
	n->level[row->level].n_runs += run_is_empty(c, row);
	n->level[row->level].n_objects++;
	n->level[row->level].bytes += row->bytes;
	c->bytes += row->bytes;
	sorted_index_add(&c->by_place, row, row);
}

static void place_remove(struct catalogue *c, struct object_row *row)
{
	struct level_counts *n = counts_get(c, row->origin);
	sorted_index_remove(&c->by_place, row, row);
	n->level[row->level].n_runs -= run_is_empty(c, row);
	n->level[row->level].n_objects--;
	n->level[row->level].bytes -= row->bytes;
	c->bytes -= row->bytes;
}

/* Some unmarked object of the row's run has log ids of the row's range. */
static bool run_overlaps(const struct catalogue *c, const struct object_row *row)
{
	struct object_row probe = { .origin = row->origin, .level = row->level, .run = row->run, .first_log = row->last_log,
				    .first_offset = UINT64_MAX };
	const struct object_row *left = sorted_index_before(&c->by_place, &probe, true);
	return left != NULL && left->origin == row->origin && left->level == row->level && left->run == row->run &&
	       left->last_log >= row->first_log;
}

bool catalogue_takes(const struct catalogue *c, const struct object_row *row)
{
	return row->level <= DATA_LEVEL_SINGLE && row->first_log <= row->last_log && catalogue_find(c, row->id) == NULL &&
	       (row->marked || row->level == DATA_LEVEL_SINGLE || !run_overlaps(c, row));
}

void catalogue_add(struct catalogue *c, const struct object_row *row)
{
	must(catalogue_takes(c, row));
	struct entry *e = must_calloc(1, sizeof(*e));
	e->row = *row;
	sorted_index_add(&c->by_id, &e->row, &e->row);
	list_append(c, e, row->changed_idx);
	if (row->marked)
		sorted_index_add(&c->by_mark, &e->row, &e->row);
	else
		place_add(c, &e->row);
}

static struct object_row *find(const struct catalogue *c, struct object_id id)
{
	struct object_row probe = { .id = id };
	struct object_row *row = sorted_index_after(&c->by_id, &probe, true);
	return row != NULL && object_id_is_equal(row->id, id) ? row : NULL;
}

void catalogue_mark(struct catalogue *c, struct object_id id, int64_t now_ms, uint64_t idx)
{
	struct object_row *row = find(c, id);
	must(row != NULL && !row->marked);
	place_remove(c, row);
	row->marked = true;
	row->marked_ms = now_ms;
	sorted_index_add(&c->by_mark, row, row);
	list_remove(c, (struct entry *)row);
	list_append(c, (struct entry *)row, idx);
}

void catalogue_drop(struct catalogue *c, struct object_id id)
{
	struct object_row *row = find(c, id);
	must(row != NULL && row->marked);
	sorted_index_remove(&c->by_mark, row, row);
	sorted_index_remove(&c->by_id, row, row);
	list_remove(c, (struct entry *)row);
	free(row);
}

/* ---------------------------------------------------------------- all rows */

size_t catalogue_count(const struct catalogue *c)
{
	return c->by_id.n;
}

uint64_t catalogue_bytes(const struct catalogue *c)
{
	return c->bytes;
}

const struct object_row *catalogue_find(const struct catalogue *c, struct object_id id)
{
	return find(c, id);
}

const struct object_row *catalogue_next(const struct catalogue *c, const struct object_id *after)
{
	struct object_row probe = { 0 };
	if (after != NULL)
		probe.id = *after;
	return sorted_index_after(&c->by_id, &probe, after == NULL);
}

const struct object_row *catalogue_next_marked(const struct catalogue *c, const struct object_row *after)
{
	struct object_row first = { .marked_ms = INT64_MIN };
	return sorted_index_after(&c->by_mark, after != NULL ? after : &first, after == NULL);
}

const struct object_row *catalogue_changed_after(const struct catalogue *c, uint64_t idx)
{
	const struct entry *found = NULL;
	for (const struct entry *e = c->newest; e != NULL && e->row.changed_idx > idx; e = e->older)
		found = e;
	return found != NULL ? &found->row : NULL;
}

const struct object_row *catalogue_newer(const struct object_row *row)
{
	const struct entry *e = ((const struct entry *)row)->newer;
	return e != NULL ? &e->row : NULL;
}

/* ---------------------------------------------------------------- the objects of a log */

/* Of the runs of that level below `limit` and not below `least`: the newest one's object that holds the log. */
static const struct object_row *run_holding(const struct catalogue *c, const struct object_row *log, uint64_t limit,
					    uint64_t least)
{
	struct object_row probe = { .origin = log->origin, .level = log->level, .run = limit };
	const struct object_row *row;
	while ((row = sorted_index_before(&c->by_place, &probe, false)) != NULL && row->origin == log->origin &&
	       row->level == log->level && row->run >= least) {
		uint64_t run = row->run;
		struct object_row last = { .origin = log->origin, .level = log->level, .run = run,
					   .first_log = log->first_log, .first_offset = UINT64_MAX };
		row = sorted_index_before(&c->by_place, &last, true);
		if (row != NULL && row->origin == log->origin && row->level == log->level && row->run == run &&
		    row->last_log >= log->first_log)
			return row;
		probe.run = run;
	}
	return NULL;
}

/* The next object of the log alone. */
static const struct object_row *single_behind(const struct catalogue *c, const struct object_row *log,
					      const struct catalogue_cursor *at)
{
	struct object_row probe = *log;
	probe.run = UINT64_MAX;
	if (at->begun) {
		probe.run = at->run;
		probe.first_offset = at->level == DATA_LEVEL_SINGLE ? at->first_offset : 0;
		probe.id = at->level == DATA_LEVEL_SINGLE ? at->id : (struct object_id){ 0 };
	}
	const struct object_row *row = sorted_index_after(&c->by_place, &probe, !at->begun || at->level != DATA_LEVEL_SINGLE);
	return row != NULL && row->origin == log->origin && row->level == DATA_LEVEL_SINGLE &&
	       row->first_log == log->first_log ? row : NULL;
}

const struct object_row *catalogue_of_log(const struct catalogue *c, uint32_t origin, uint64_t log_id,
					  struct catalogue_cursor *at)
{
	struct object_row log = { .origin = origin, .level = DATA_LEVEL_SINGLE, .first_log = log_id };
	const struct object_row *best = single_behind(c, &log, at);
	/* Only runs newer than the best one so far are looked at, so none is in two steps of a walk. */
	for (uint32_t level = DATA_LEVELS; level-- > 0;) {
		uint64_t limit = !at->begun ? UINT64_MAX : at->run + (level > at->level);
		log.level = level;
		const struct object_row *row = run_holding(c, &log, limit, best == NULL ? 0 : best->run);
		if (row != NULL)
			best = row;
	}
	if (best != NULL)
		*at = (struct catalogue_cursor){ true, best->level, best->run, best->first_offset, best->id };
	return best;
}

/* ---------------------------------------------------------------- levels and runs */

uint64_t catalogue_next_run(const struct catalogue *c, uint32_t origin, uint32_t level, uint64_t run)
{
	must(level < DATA_LEVELS);
	struct object_row probe = { .origin = origin, .level = level, .run = run + 1 };
	const struct object_row *row = run == UINT64_MAX ? NULL : sorted_index_after(&c->by_place, &probe, true);
	return row != NULL && row->origin == origin && row->level == level ? row->run : 0;
}

struct catalogue_level catalogue_level(const struct catalogue *c, uint32_t origin, uint32_t level)
{
	must(level <= DATA_LEVEL_SINGLE);
	const struct level_counts *n = counts_find(c, origin);
	if (n == NULL)
		return (struct catalogue_level){ 0 };
	return (struct catalogue_level){
		.n_runs = n->level[level].n_runs, .n_objects = n->level[level].n_objects, .bytes = n->level[level].bytes,
		.oldest_run = level < DATA_LEVELS ? catalogue_next_run(c, origin, level, 0) : 0,
	};
}

const struct object_row *catalogue_of_run(const struct catalogue *c, uint32_t origin, uint32_t level, uint64_t run,
					  const struct object_row *after)
{
	must(level < DATA_LEVELS);
	if (after == NULL)
		return run_first(c, origin, level, run);
	const struct object_row *row = sorted_index_after(&c->by_place, after, false);
	return row != NULL && row->origin == origin && row->level == level && row->run == run ? row : NULL;
}

const struct object_row *catalogue_single_next(const struct catalogue *c, uint32_t origin, uint64_t log_id,
					       const struct object_row *after)
{
	struct object_row probe = { .origin = origin, .level = DATA_LEVEL_SINGLE, .first_log = log_id, .run = UINT64_MAX };
	const struct object_row *row = sorted_index_after(&c->by_place, after != NULL ? after : &probe, after == NULL);
	return row != NULL && row->origin == origin && row->level == DATA_LEVEL_SINGLE ? row : NULL;
}
