/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches as Kafka clients make them, and the calls that carry and bring them, for tests of a whole node.
 */
#ifndef T_UNIT_NODE_KAFKA_H
#define T_UNIT_NODE_KAFKA_H

#include "t/unit/node_world.h"

/* Zero is the default of every field but producer_id: say -1 for none. */
struct client_batch {
	uint32_t n;                     /* records in it */
	uint32_t count, last_delta;     /* what the header says; 0: the truth */
	uint16_t attributes;            /* codec bits: the inside stays as it is */
	int64_t base_ms, max_ms;
	int64_t producer_id;
	int16_t epoch;
	int32_t sequence;
	const char *word;
};

#define SUBMIT_PARTS 600
struct submit {
	Ipc__SubmitRequest m;
	Ipc__Payload payload;
	Ipc__SubmitRequest__Part part[SUBMIT_PARTS], *pointer[SUBMIT_PARTS];
	struct buf bytes;
	struct asked asked;
};

void submit_begin(struct submit *s);
/* id stays. Returns the batch's bytes in the payload, valid until the next call. */
struct slice submit_add(struct submit *s, const uint8_t id[16], uint32_t partition, const struct client_batch *b);
/* The message is complete; returns the payload. */
struct slice submit_request(struct submit *s);
void submit_do(struct submit *s);       /* and the answer is there */
const Ipc__SubmitAnswer__Part *submit_part(const struct submit *s, size_t i);
void submit_done(struct submit *s);

/* What one fetch from there brings; buf_done() by the caller. */
void fetch_bytes(const uint8_t id[16], uint32_t partition, uint64_t offset, struct buf *ret);

#endif
