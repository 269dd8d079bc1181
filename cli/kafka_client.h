/* SPDX-License-Identifier: Apache-2.0
 *
 * A small Kafka client for `pico bench`: requests and answers as bytes in versions that both sides know, one call at a
 * time over a connection of its own, and batches that an idempotent producer numbers. No SASL, no TLS.
 */
#ifndef CLI_KAFKA_CLIENT_H
#define CLI_KAFKA_CLIENT_H

#include "cli/bench_loop.h"
#include "common/kafka_frame.h"

#define KAFKA_CLIENT_KEYS 128

enum {
	KAFKA_PRODUCE = 0, KAFKA_FETCH = 1, KAFKA_METADATA = 3, KAFKA_API_VERSIONS = 18, KAFKA_CREATE_TOPICS = 19,
	KAFKA_DELETE_TOPICS = 20, KAFKA_INIT_PRODUCER_ID = 22,
};

struct kafka_client {
	struct bench_address bootstrap;
	int16_t version[KAFKA_CLIENT_KEYS];     /* by key; -1: the node does not serve it */
};

/* One request with its answer. */
struct kafka_call {
	int16_t key;
	const void *request;
	struct region *region;          /* where the answer goes */
	void *answer;                   /* its struct, filled */
};

/* HOST:PORT or [HOST]:PORT; asks the node which versions it serves. CLI_OK, or told. */
int kafka_client_open(struct kafka_client *k, const char *bootstrap);
/* Sends n requests of the client's own and waits for their answers. CLI_OK, or told. */
int kafka_client_call(const struct kafka_client *k, struct kafka_call *calls, unsigned n);
/* Says that `what` was answered with an error; the code to end with. text: what the node said, may be empty. */
int kafka_client_fail(const struct kafka_client *k, const char *what, int16_t error, struct slice text);

/* Encodes one request. False: there is no room, or the node does not serve it. */
bool kafka_client_put(const struct kafka_client *k, int16_t key, int32_t correlation_id, const void *request,
		      struct buf *out);
/* Decodes an answer; its arrays are in the region, its bytes stay in the frame. 0 or -EBADMSG. */
int kafka_client_read(const struct kafka_client *k, const struct kafka_call *call, int32_t correlation_id,
		      struct slice frame);

/* Frames for the loop, and the one that an answer is; valid until the state is asked for the next. */
extern const struct bench_wire kafka_wire;
struct slice kafka_wire_frame(const void *state);

/* ------------------------------------------------------------------- batches */

/* n records of record_size bytes of noise. CLI_OK with a batch to free with buf_done(), or told. */
int kafka_batch_make(uint64_t n, uint64_t record_size, unsigned codec, struct buf *ret_batch);

struct kafka_producer {
	int64_t id;                     /* -1: none */
	int16_t epoch;
};
/* Writes time, producer, sequence and CRC. */
void kafka_batch_number(struct buf *batch, const struct kafka_producer *p, int32_t base_sequence);

#endif
