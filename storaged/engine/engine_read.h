/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a log and waiting for it: the part of engine.h that reads.
 */
#ifndef STORAGED_ENGINE_ENGINE_READ_H
#define STORAGED_ENGINE_ENGINE_READ_H

#include "common/pico_error.h"
#include "storaged/segment.h"

struct engine;
struct log;                             /* one partition of one topic */

struct engine_read {
	/* in */
	struct log *log;
	uint64_t from;                  /* start <= from <= confirm, checked by the caller */
	uint32_t max_bytes;             /* of batches; at least one batch comes if there is one */
	uint64_t deadline_ms;
	void (*on_done)(struct engine_read *r, const struct pico_error *error);
	/* out: pieces are heap; they and their pins are the receiver's */
	struct piece *pieces;
	size_t n_pieces;
	uint64_t end;                   /* offset after the last batch; == from when there is none */
	/* private */
	struct engine *engine;
	void *impl;
};

/* Whole batches from the one that holds `from` up to confirm. May call back before it returns (arena, cache). */
void engine_read(struct engine *e, struct engine_read *r);
void engine_read_cancel(struct engine *e, struct engine_read *r);   /* on_done will not run */

/* Parked until confirm > from, the log is closed (unless that does not matter), or removed (gone). */
struct engine_wait {
	struct log *log;
	uint64_t from;
	bool closed_too;                /* goes on waiting when the log is closed */
	void (*on_ready)(struct engine_wait *w, bool gone);
	struct engine_wait *next_in_list, **prev_in_list;   /* private */
};
/* true: ready now, nothing parked, no callback. */
bool engine_wait(struct engine *e, struct engine_wait *w);
void engine_wait_stop(struct engine_wait *w);   /* fine when not parked */

/* A confirmed batch and its maximum timestamp. */
struct log_time {
	uint64_t base;
	int64_t max_timestamp_ms;
};
/* The first batch, in the order of offsets, whose maximum timestamp is at or after that time; false: none. */
bool log_find_time(const struct log *log, int64_t timestamp_ms, struct log_time *ret);
/* The first batch with the largest maximum timestamp; false: there is no batch. */
bool log_find_latest(const struct log *log, struct log_time *ret);

/*
 * Bytes of the whole batches from the one that holds `from` up to confirm, counted until they exceed max_bytes; that
 * many batches as fit in, or the first one if none does. start <= from <= confirm. ret_first: the size of the first.
 */
uint64_t log_bytes_from(const struct log *log, uint64_t from, uint64_t max_bytes, uint32_t *ret_first);

#endif
