/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a log only when it is loaded: the part of engine.h that may read the store for a description.
 */
#ifndef STORAGED_ENGINE_ENGINE_DESCRIBE_H
#define STORAGED_ENGINE_ENGINE_DESCRIBE_H

#include "storaged/engine/engine.h"

struct engine_describe {
	/* in */
	struct log *log;
	/* error: NULL, or why it cannot be loaded. Without one the functions below may be called, inside only. */
	void (*on_done)(struct engine_describe *d, const struct pico_error *error);
	/* private */
	struct engine *engine;
	void *impl;
};

/* May call back before it returns. */
void engine_describe(struct engine *e, struct engine_describe *d);
void engine_describe_cancel(struct engine_describe *d); /* on_done will not run; fine when it did */

/* Bytes of the batches from its start on. Where it was trimmed the share of them that their records are of all. */
uint64_t log_kept_bytes(const struct log *log);

/* A Kafka producer that wrote to it: what of its batches is durable. */
struct log_writer {
	int64_t id;
	int16_t epoch;
	int32_t last_sequence;
	int64_t last_ms;                /* append time */
};
/* The next one from *at, which begins with 0, that is known still; false: there is none. */
bool log_kafka_writer(const struct log *log, int64_t now_ms, size_t *at, struct log_writer *ret);

#endif
