/* SPDX-License-Identifier: Apache-2.0
 *
 * An APPEND in the making, as every protocol over HTTP makes it: the log, the batch, the producer. What is particular
 * to one protocol it sets in the message itself.
 */
#ifndef WORKER_HTTP_APPEND_H
#define WORKER_HTTP_APPEND_H

#include "worker-http/request.h"

#define PRODUCER_ID_MAX 256

struct append {
	Ipc__AppendRequest message;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	Ipc__Producer producer;
	char producer_id[PRODUCER_ID_MAX + 1];
	struct buf batch;               /* its bound is --max-message-size */
};

/* To the request's topic. Not to be moved afterwards: the message points inside. */
void append_init(struct append *a, struct request *r);
void append_done(struct append *a);

/* What three headers are called: "Producer" for Producer-Id, Producer-Epoch, Producer-Seq. */
struct producer_names {
	const char *prefix, *lower;
	uint64_t max;                   /* of epoch and seq */
};
/* All three or none. False when refused (answered). */
bool append_take_producer(struct append *a, struct request *r, const struct producer_names *names);

/* What is wrong when a batch passed --max-message-size. */
void append_too_large(const struct request *r, struct pico_error *ret_error);
/* Sends it with the request's deadline; the body goes, for it stands in the batch. */
void append_call(struct append *a, struct request *r, topics_cb *cb);

#endif
