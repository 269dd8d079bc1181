/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers that create a stream, whatever the protocol calls them: its content type; when it ends by itself, a TTL in
 * seconds or an instant, never both.
 */
#ifndef WORKER_HTTP_CREATE_FIELDS_H
#define WORKER_HTTP_CREATE_FIELDS_H

#include "worker-http/request.h"

/*
 * Content-Type as it is stored; `absent` when there is none. NULL when it is refused (answered). Valid until the next call.
 */
char *create_content_type(struct request *r, const char *absent);

struct expiry_names {
	const char *ttl, *ttl_lower;
	const char *at, *at_lower;
};

/* Fills in TTL and expiry. An empty header counts as absent. False when refused (answered). */
bool create_take_expiry(struct request *r, const struct expiry_names *names, Ipc__CreateRequest *m);
/* Those of a topic that has them. */
void create_put_expiry(struct request *r, const struct expiry_names *names, const Ipc__Topic *topic);

#endif
