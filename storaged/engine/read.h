/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads that wait, and the fetches they wait for. A fetch brings a run of batches of one log from the
 * store into the page cache; readers within its offsets share it.
 */
#ifndef STORAGED_ENGINE_READ_H
#define STORAGED_ENGINE_READ_H

#include "storaged/engine/engine_impl.h"

struct read_op {
	struct engine_read *read;
	struct engine *engine;
	struct log *log;                /* one ref; the fetch may be of one that it was forked from */
	struct fetch *fetch;            /* NULL: waits for pages, or for memory to fetch into */
	bool wants_pages;               /* no fetch would help: its block was there, too much is pinned */
	uint64_t round;                 /* in which it was tried last */
	struct env_timer timer;
	struct read_op *next, **prev;
};

/* The fetch under way that brings the batch that holds offset, or NULL. */
struct fetch *fetch_find(struct engine *e, const struct log *log, uint64_t offset);
/* Begins one there; at least that batch and, if they lie near, about `bytes`. NULL: too much is under way. */
struct fetch *fetch_new(struct engine *e, struct log *log, uint64_t offset, uint64_t bytes);
/* The same without a reader: NULL also when it should leave more to those with one. */
struct fetch *fetch_ahead(struct engine *e, struct log *log, uint64_t offset, uint64_t bytes);
/* Where what it brings ends; the offset it was begun with: that is not known yet. */
uint64_t fetch_end_offset(const struct fetch *f);
/* Tries the insertions again that found no page. */
void fetch_room(struct engine *e);
void fetch_forget_all(struct engine *e);

/* A fetch has ended: error is NULL or what its readers get. */
void read_fetch_done(struct engine *e, const struct fetch *f, const struct pico_error *error);
bool read_is_waiting_for(const struct engine *e, const struct fetch *f);

/* trim.c: the maximum timestamp of a batch that an index names. */
int64_t frame_latest(struct engine *e, const struct frame_ref *ref);

#endif
