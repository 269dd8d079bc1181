/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane of Durable Streams, below __ds: subscriptions and the keys that sign their webhooks. Who tells
 * subscribers that there is something is worker-hook; this only reads and changes what is stored.
 */
#ifndef WORKER_HTTP_SUB_H
#define WORKER_HTTP_SUB_H

#include "common/subscription.h"
#include "worker-http/request.h"

#define SUB_STREAMS_MAX SUB_LINKS_MAX

/* Whatever is below __ds; r->name begins with it. */
void sub_route(struct request *r);

/* ------------------------------------------------------------------ bodies */

struct sub_ack {
	char *stream;
	uint64_t offset;
};

/* What the JSON of a request may say; strings are owned, NULL where absent. */
struct sub_body {
	char *type, *pattern, *url, *wake_stream, *description, *worker, *wake_id;
	char **stream;
	size_t n_streams;
	struct sub_ack *ack;
	size_t n_acks;
	uint64_t lease_ttl_ms, generation;
	bool has_lease_ttl, has_generation, done;
};

/* An empty body says nothing. False: it is not what it must be, *ret_fault says why (static text). */
bool sub_body_parse(struct slice json, struct sub_body *ret, const char **ret_fault);
void sub_body_free(struct sub_body *b);

/* ------------------------------------------------------------------ answers */

/* {"error": {"code": ..., "message": ...}}; holder may be NULL. */
void sub_answer_error(struct request *r, int status, const char *code, const char *message, const char *holder);
/* A subscription as JSON. kid: of the key that signs. */
void sub_put_json(struct buf *out, const char *id, const Sub__Subscription *s, const char *kid);
/* Its streams as a wake shows them. */
void sub_put_streams(struct buf *out, const Sub__Subscription *s);

#endif
