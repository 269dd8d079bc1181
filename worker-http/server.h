/* SPDX-License-Identifier: Apache-2.0
 *
 * All connections of one worker-http: what they share, drain. One struct server a process.
 */
#ifndef WORKER_HTTP_SERVER_H
#define WORKER_HTTP_SERVER_H

#include "common/turns.h"
#include "common/worker.h"

struct conn;
struct request;

/* What a listener speaks: finds the route of a request whose head has come. Sets r->route (always) and r->must_wait. */
typedef void server_route_fn(struct request *r);

struct server {
	struct env *env;                /* borrowed, as all of these */
	uv_loop_t *loop;
	struct topics *topics;
	const struct conf *conf;
	const struct child *child;      /* its tables are the admin role's */
	struct tls_context *const *tls; /* what connections of TLS listeners begin with now */

	struct acceptor *acceptor;
	struct conn *conns;             /* all open ones */
	struct turns turns;             /* for what decompresses batches */
	uint64_t decoded;               /* bytes of batches, as the turns were told */
	size_t buffered;                /* bytes that all connections hold */
	bool draining;
	bool full;                      /* storaged takes nothing more: no socket is read until server_room() */

	time_t date_second;             /* of `date` */
	char date[32];                  /* the Date field */
};

/* Begins to accept on the worker's listeners. */
void server_init(struct server *s, struct worker *w);
/* Stops accepting, answers what is parked, closes each connection after its last answer; on_drained
 * once, when none is left. */
void server_drain(struct server *s, void (*on_drained)(void *arg), void *arg);
/* Closes everything at once; run the loop until it has nothing left. */
void server_close(struct server *s);

/* storaged takes calls again: all sockets are read. */
void server_room(struct server *s);

/* The value of Date now. */
const char *server_date(struct server *s);

#endif
