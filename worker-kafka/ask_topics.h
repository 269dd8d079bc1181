/* SPDX-License-Identifier: Apache-2.0
 *
 * Many topics by name or id, as storaged has them now: asked for in pages, and those for which an answer had no room
 * again, as long as each answer brings something.
 */
#ifndef WORKER_KAFKA_ASK_TOPICS_H
#define WORKER_KAFKA_ASK_TOPICS_H

#include "worker-kafka/request.h"

struct topics_question {
	/* What topic i is called. The name is legal in Kafka, or there is an id. */
	void (*name)(struct request *r, size_t i, struct slice *ret_name, const uint8_t **ret_id);
	/* Topic i, valid in the call; NULL: kind says why. False: there is no room, and the request ends. */
	bool (*take)(struct request *r, size_t i, enum pico_error_kind kind, const Ipc__Topic *topic);
	void (*done)(struct request *r);
};

/* Asks for topics which[0..n). `q` stays. done runs at once when n is 0. Uses the request's call. */
void ask_topics(struct request *r, const struct topics_question *q, const size_t *which, size_t n);

#endif
