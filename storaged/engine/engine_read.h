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
enum engine_lookup_what {
	LOOKUP_AT_OR_AFTER,             /* the first batch, by offset, whose maximum timestamp is at or after that time */
	LOOKUP_LATEST,                  /* the first batch with the largest maximum timestamp */
};
struct engine_lookup {
	/* in */
	struct log *log;
	enum engine_lookup_what what;
	int64_t timestamp_ms;
	void (*on_done)(struct engine_lookup *l, const struct pico_error *error);
	/* out */
	bool found;
	struct log_time at;
	/* private */
	struct engine *engine;
	void *impl;
};

/* Looks through what is packed, too. May call back before it returns. */
void engine_lookup(struct engine *e, struct engine_lookup *l);
void engine_lookup_cancel(struct engine_lookup *l);     /* on_done will not run; fine when it did */

/*
 * Bytes of the whole batches from the one that holds `from` up to confirm, counted until they exceed max_bytes; that
 * many batches as fit in, or the first one if none does. Where they are not in memory it is said that there are
 * max_bytes (at least 1). start <= from <= confirm.
 */
uint64_t log_bytes_from(const struct log *log, uint64_t from, uint64_t max_bytes);

/* Where the newest epoch of ownership up to this one ended (KIP-101): where the next began, or confirm. Below the first
 * one known it is the epoch itself, and where that one began. */
enum log_epoch_found {
	LOG_EPOCH_ENDS,
	LOG_EPOCH_TO_COME,
	LOG_EPOCH_NOT_LOADED,           /* an older one of a log that has had several, and was idle */
};
enum log_epoch_found log_epoch_end(const struct log *log, uint32_t epoch, uint32_t *ret_epoch, uint64_t *ret_end);

#endif
