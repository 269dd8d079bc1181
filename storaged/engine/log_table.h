/* SPDX-License-Identifier: Apache-2.0
 *
 * The logs of a node by id: pages of 32 bytes a log, because ids come from a counter. And which of them have an open part:
 * one is opened when it is needed, and dropped when nothing needs it and more than `open_max` are open, the longest
 * unused first.
 *
 * Nothing needs an open part without refs, waits and frames that stand in no data object: all that it knows can then be
 * read from state entries again.
 *
 * A fork begins at its parent_end and shows its parent's offsets below.
 *
 * A log whose topic is gone is removed: it is found no more, and its place is free when the last ref goes.
 */
#ifndef STORAGED_ENGINE_LOG_TABLE_H
#define STORAGED_ENGINE_LOG_TABLE_H

#include <uthash.h>

#include "storaged/engine/log.h"

#define LOG_ID_BITS 40

struct log_page;

/* Of a fork: its offsets below `end` are read from the log `id`. */
struct log_parent {
	UT_hash_handle hh;
	uint64_t log_id;                /* the fork's */
	uint64_t id, end;
};

/* Offsets [from, to) that a log shows and that stand in one log: in itself, or in one that it was forked from. */
struct log_span {
	struct log *log;
	uint64_t from, to;
};

struct log_table {                      /* zero-initialised is empty; then set open_max */
	struct log_page **page;         /* owned; NULL: no log of it */
	uint64_t n_pages;
	uint64_t n;                     /* logs, removed ones too */
	uint64_t n_open, open_max;
	uint64_t n_unpacked;            /* logs with frames that stand in no data object */
	struct log_open *oldest, *newest;       /* those that may be dropped */
	struct log_parent *parents;     /* owned; uthash by log_id */
};

void log_table_done(struct log_table *t);       /* frees the logs, too */
/* NULL: it is not there, or removed. */
struct log *log_table_find(const struct log_table *t, uint64_t id);
/* Zeroed but for its id; no log of that id was ever there. */
struct log *log_table_add(struct log_table *t, uint64_t id);
/* The first open one from *id on, which moves up to it; removed ones, too. NULL: not in so many pages of the table, or there
 * is none. */
struct log *log_table_next_open(const struct log_table *t, uint64_t *id, unsigned n_pages);
void log_table_each(struct log_table *t, void (*each)(struct log *log));

/* Forks. What a log shows below its parent's end keeps the parent where it is. */
void log_table_set_parent(struct log_table *t, struct log *log, uint64_t parent_id, uint64_t parent_end);
/* NULL: it is none. */
const struct log_parent *log_table_parent(const struct log_table *t, const struct log *log);
/* The span around an offset between the log's start and confirm. */
struct log_span log_span_at(const struct log_table *t, struct log *log, uint64_t offset);

/* Its open part, made when there is none: not loaded. */
struct log_open *log_table_open(struct log_table *t, struct log *log);
/* One user more, of a log that is opened by that. */
void log_table_ref(struct log_table *t, struct log *log);
void log_unref(struct log *log);
/* What kept it open may have gone. It may be not open afterwards, or, when it is removed, nowhere. */
void log_release(struct log *log);
/* It was used. */
void log_touch(struct log_open *o);
/* So many frames more that stand in no data object; so many less. */
void log_unpacked_add(struct log_open *o, uint32_t n);
void log_unpacked_remove(struct log_open *o, uint32_t n);

#endif
