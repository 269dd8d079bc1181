/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue: one small row a data object, nothing a log. It is part of the cluster's state and moves only by
 * applied commands; the engine reads it to find where frames of a log may stand. Each frame of a log stands in one
 * unmarked object only; marked ones wait for their deletion and may still be read by who found them before.
 *
 * Owned by the metadata state; loop thread only. Rows are valid until the next change.
 */
#ifndef STORAGED_DATA_CATALOGUE_H
#define STORAGED_DATA_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATA_LEVELS 3u                  /* 0, 1, 2: objects in runs */
#define DATA_LEVEL_SINGLE 3u            /* an object of one log alone, in no run */

struct object_id {
	uint32_t node;
	uint64_t session, number;
};

static inline bool object_id_is_equal(struct object_id a, struct object_id b)
{
	return a.node == b.node && a.session == b.session && a.number == b.number;
}

static inline int object_id_compare(struct object_id a, struct object_id b)
{
	if (a.node != b.node)
		return a.node < b.node ? -1 : 1;
	if (a.session != b.session)
		return a.session < b.session ? -1 : 1;
	return (a.number > b.number) - (a.number < b.number);
}

struct object_row {
	struct object_id id;
	uint32_t origin;                /* node whose logs it holds */
	uint32_t level;                 /* 0..DATA_LEVEL_SINGLE */
	uint64_t run;                   /* rises with the commands that added; DATA_LEVEL_SINGLE: of its addition, too */
	uint64_t first_log, last_log;
	uint64_t bytes;
	int64_t oldest_ms, newest_ms;   /* append times; both 0 without frames */
	uint64_t first_offset, end_offset;      /* DATA_LEVEL_SINGLE only */
	bool marked;                    /* removed by a command; deleted from the store later */
	int64_t marked_ms;              /* the state's clock then */
	uint64_t changed_idx;           /* row of the command log that changed it last */
};

struct catalogue;

struct catalogue *catalogue_new(void);
void catalogue_free(struct catalogue *c);

/* For apply and for loading a snapshot; idx only grows. Add: the id is not there, and no unmarked object of its run has
 * some of its log ids (must). Mark: it is there and unmarked (must). Drop: it is there and marked (must). */
void catalogue_add(struct catalogue *c, const struct object_row *row);
void catalogue_mark(struct catalogue *c, struct object_id id, int64_t now_ms, uint64_t idx);
void catalogue_drop(struct catalogue *c, struct object_id id);
/* What add demands, for rows of unknown make. */
bool catalogue_takes(const struct catalogue *c, const struct object_row *row);

size_t catalogue_count(const struct catalogue *c);              /* marked ones, too */
uint64_t catalogue_bytes(const struct catalogue *c);            /* of unmarked ones */
/* NULL: not there. */
const struct object_row *catalogue_find(const struct catalogue *c, struct object_id id);
/* All rows in order of id, the first one > after; begin with NULL, NULL at the end. */
const struct object_row *catalogue_next(const struct catalogue *c, const struct object_id *after);
/* The marked ones, the longest marked first; begin with NULL. */
const struct object_row *catalogue_next_marked(const struct catalogue *c, const struct object_row *after);
/* By last change: the oldest of those changed after row idx, at a cost of their number; the next newer one. NULL: none. */
const struct object_row *catalogue_changed_after(const struct catalogue *c, uint64_t idx);
const struct object_row *catalogue_newer(const struct object_row *row);

/*
 * Unmarked objects of an origin whose range of log ids holds log_id, the newest run first and within a run (of
 * DATA_LEVEL_SINGLE) the lowest first_offset: cursor begins zeroed. NULL at the end. O(runs + log objects) a whole walk,
 * a few binary searches each. A cursor holds no pointer: when the catalogue changed since, the walk goes on behind the
 * place where it stood.
 */
struct catalogue_cursor {               /* private: the key of the row given last */
	bool begun;
	uint32_t level;
	uint64_t run, first_offset;
	struct object_id id;
};
const struct object_row *catalogue_of_log(const struct catalogue *c, uint32_t origin, uint64_t log_id,
					  struct catalogue_cursor *cursor);

/* What a level of an origin holds: runs of unmarked objects, their number and bytes; the oldest run's number.
 * DATA_LEVEL_SINGLE has objects and bytes and no runs. */
struct catalogue_level {
	size_t n_runs, n_objects;
	uint64_t bytes;
	uint64_t oldest_run;            /* 0: none */
};
struct catalogue_level catalogue_level(const struct catalogue *c, uint32_t origin, uint32_t level);
/* Unmarked objects of one run, ascending by first_log: begin with NULL. level < DATA_LEVELS. */
const struct object_row *catalogue_of_run(const struct catalogue *c, uint32_t origin, uint32_t level, uint64_t run,
					  const struct object_row *after);
/* The next younger run of that level, 0: none. level < DATA_LEVELS. */
uint64_t catalogue_next_run(const struct catalogue *c, uint32_t origin, uint32_t level, uint64_t run);
/* Unmarked objects of single logs of an origin, logs in order from log_id on: begin with NULL. */
const struct object_row *catalogue_single_next(const struct catalogue *c, uint32_t origin, uint64_t log_id,
					       const struct object_row *after);

#endif
