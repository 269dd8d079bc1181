/* SPDX-License-Identifier: Apache-2.0
 *
 * Kafka's idempotent producers of one log (KIP-98): for each numeric id its epoch and its last five batches with
 * their sequence numbers and offsets. A batch is taken when it is the next one, answered as a duplicate when it is
 * one of the five, refused else. Sequence numbers run from 0 to 2^31-1 and begin again; a batch may cross that end.
 *
 * The state is that of the submitted log; the tickets say from when it is durable. Nothing but accepted frames moves
 * it, in their order and with their times, so recovery comes to the same table. At most KAFKA_PRODUCERS_MAX ids: the
 * least recently used goes, but none that wrote within KAFKA_PRODUCER_BUSY_MS; who is idle for KAFKA_PRODUCER_IDLE_MS
 * is unknown.
 */
#ifndef STORAGED_ENGINE_KAFKA_PRODUCER_H
#define STORAGED_ENGINE_KAFKA_PRODUCER_H

#include <stdbool.h>
#include <stdint.h>

#define KAFKA_PRODUCERS_MAX 65536u
#define KAFKA_PRODUCER_WINDOW 5u
#define KAFKA_PRODUCER_IDLE_MS (7 * 86400000ll)
#define KAFKA_PRODUCER_BUSY_MS 3600000ll

/* A batch that was accepted. */
struct kafka_written {
	int32_t first, last;            /* sequence numbers */
	uint64_t base;                  /* offset of its first record */
	uint64_t ticket;                /* of its frame */
};

struct kafka_producer {
	int64_t id;
	int64_t used_ms;                /* append time of its last frame */
	int16_t epoch;
	uint8_t n_written;              /* 1..5 */
	uint8_t newest;                 /* index into written */
	uint32_t older, newer;          /* by last use: index + 1, 0 is the end */
	struct kafka_written written[KAFKA_PRODUCER_WINDOW];
};

struct kafka_producers {                /* zero-initialised is empty */
	struct kafka_producer *entries; /* the first n are in use, unordered */
	uint32_t n, capacity;
	uint32_t oldest, newest;        /* index + 1; 0: empty */
	uint32_t *slots;                /* hash: index + 1, 0 is empty */
	uint32_t n_slots;               /* power of two, at least twice the capacity */
};

/* What a batch says about its producer. id, epoch and first are not negative. */
struct kafka_claim {
	int64_t id;
	int16_t epoch;
	int32_t first;                  /* base sequence */
	uint32_t count;                 /* records; at least 1 */
};

enum kafka_verdict {
	KAFKA_ACCEPT,
	KAFKA_DUPLICATE,                /* ret_written: the original */
	KAFKA_FENCED,                   /* of an older epoch than the producer's */
	KAFKA_GAP,                      /* ret_expected: the sequence number that would be taken */
	KAFKA_FULL,                     /* an unknown id, and every known one wrote not long ago */
};

void kafka_producers_done(struct kafka_producers *t);

/* NULL: unknown, or idle for too long at now_ms. Valid until the next accept. */
const struct kafka_producer *kafka_producer_find(const struct kafka_producers *t, int64_t id, int64_t now_ms);

/* Its last accepted batch. */
const struct kafka_written *kafka_producer_last(const struct kafka_producer *p);

/* The decision table. p is what find said of c->id: NULL is unknown. */
enum kafka_verdict kafka_producer_decide(const struct kafka_producers *t, const struct kafka_producer *p,
					 const struct kafka_claim *c, int64_t now_ms,
					 const struct kafka_written **ret_written, int32_t *ret_expected);

/* Notes the accepted frame of a claim; used_ms does not fall from call to call. Returns how many others, not idle for
 * long, had to go for it. */
unsigned kafka_producer_accept(struct kafka_producers *t, const struct kafka_claim *c, int64_t used_ms, uint64_t base,
			       uint64_t ticket);

#endif
