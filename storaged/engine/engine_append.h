/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends to a log, and what became of those that a worker does not know of: the part of engine.h that
 * writes.
 */
#ifndef STORAGED_ENGINE_ENGINE_APPEND_H
#define STORAGED_ENGINE_ENGINE_APPEND_H

#include "common/env.h"
#include "common/pico_error.h"
#include "common/slice.h"
#include "storaged/engine/kafka_producer.h"

struct engine;
struct log;                             /* one partition of one topic */

enum append_order { APPEND_PRODUCER_FIRST, APPEND_CLOSED_FIRST };

struct engine_append {
	/* in */
	struct log *log;
	struct slice payload;           /* one batch, n == 0: no records; read once, into the arena; stays until on_done */
	bool check_only;
	bool close_after;
	bool wrong_type;                /* its content type is not the stream's: CONFLICT, when it comes to that */
	/*
	 * The payload is a Kafka client's batch and is kept as it is, but for base offset and leader epoch; its own
	 * producer fields count (kafka_producer.h). With log_append_time it gets attribute, maximum timestamp and CRC
	 * of an append now. No field of the next two groups, no check_only.
	 */
	bool as_is, log_append_time;
	bool has_producer, has_match_seq, has_stream_seq;
	enum append_order order;
	struct slice producer_id;       /* 1..256 bytes; these slices stay until on_done */
	uint64_t producer_epoch, producer_seq;
	uint64_t match_seq;
	struct slice stream_seq;
	uint64_t worker_instance, request_id;   /* into FrameMeta, for Resume; 0: none */
	uint64_t deadline_ms;           /* not in the arena by then: UNAVAILABLE; not stored: DURABILITY */
	/* Once. error is NULL or says why; an answer that rests on frames not confirmed waits until they are. */
	void (*on_done)(struct engine_append *a, const struct pico_error *error);
	void *owner;                    /* the caller's */
	/* out, valid when error is NULL */
	uint64_t base_offset;           /* duplicate: of the original, if base_known */
	uint64_t next_offset;           /* duplicate, check_only, was_closed: the log's durable end */
	int64_t timestamp_ms;
	bool duplicate, base_known, closed;
	bool was_closed;                /* a close of a log that was closed already */
	uint64_t accepted_epoch, accepted_seq;  /* producer: what stands now; not as_is */
	/* private */
	struct engine_append *next_in_list, **prev_in_list;
	struct env_timer timer;
	struct engine *engine;
	uint64_t waits_for;             /* ticket of a frame */
	uint64_t begun_ns;
	struct pico_error verdict;
	struct kafka_claim claim;
	int state;
	bool has_verdict, has_claim;
};

/* Private: appends in order; n counts those of all queues of a kind. */
struct append_queue {
	struct engine_append *first, **tail;
	uint32_t *n;
};

static inline void append_queue_init(struct append_queue *q, uint32_t *n)
{
	*q = (struct append_queue){ .tail = &q->first, .n = n };
}

/* on_done may run before this returns. */
void engine_append(struct engine *e, struct engine_append *a);
/* true: it was not in the arena; nothing happened and on_done will not run. false: it goes on. */
bool engine_append_cancel(struct engine *e, struct engine_append *a);

/* What became of an append without producer (doc/ipc.md, Resume). */
enum engine_request_state { REQUEST_UNKNOWN, REQUEST_ABSENT, REQUEST_STORED };
struct engine_request {
	uint64_t log_id;
	uint64_t base_offset, next_offset;
	int64_t timestamp_ms;
	bool closed;
};
enum engine_request_state engine_request_find(struct engine *e, uint64_t worker_instance, uint64_t request_id,
					      uint64_t wal_session, uint64_t wal_seq,
					      struct engine_request *ret_request);

#endif
