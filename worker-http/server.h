/* SPDX-License-Identifier: Apache-2.0
 *
 * All connections of one worker-http: listeners, limits, drain. One struct server a process.
 */
#ifndef WORKER_HTTP_SERVER_H
#define WORKER_HTTP_SERVER_H

#include <uv.h>

#include "common/child.h"
#include "common/topics.h"

struct conn;
struct request;
struct address_count;

/* What a listener speaks: finds the route of a request whose head has come. Sets r->route (always) and r->must_wait. */
typedef void server_route_fn(struct request *r);

struct server_listener {
	struct server *server;
	uv_poll_t poll;
	int fd;
	server_route_fn *route;
};

struct server {
	struct env *env;                /* borrowed, as all of these */
	uv_loop_t *loop;
	struct topics *topics;
	const struct conf *conf;
	const struct child *child;      /* the admin role's tables; NULL in tests of the other role */

	struct server_listener listener[CHILD_LISTENERS_MAX];
	unsigned n_listeners;
	struct conn *conns;             /* all open ones */
	unsigned n_conns;
	size_t buffered;                /* bytes that all connections hold */
	unsigned n_conns_peak;          /* since memory was given back */
	struct env_timer trim;
	unsigned max_conns, max_conns_per_address;
	struct address_count *addresses;
	uv_timer_t accept_pause;        /* descriptors ran out */
	bool draining;
	bool full;                      /* storaged takes nothing more: no socket is read until server_room() */
	void (*on_drained)(void *arg);
	void *on_drained_arg;

	time_t date_second;             /* of `date` */
	char date[32];                  /* the Date field */
};

/* Takes the configuration's limits; raises the descriptor limit. */
void server_init(struct server *s, uv_loop_t *loop, struct env *env, struct topics *topics, const struct conf *conf);
/* Begins to accept on fd (listening, inherited). 0 or a negative errno. */
int server_listen(struct server *s, int fd, server_route_fn *route);
/* Stops accepting, answers what is parked, closes each connection after its last answer; on_drained
 * once, when none is left. */
void server_drain(struct server *s, void (*on_drained)(void *arg), void *arg);
/* Closes everything at once; run the loop until it has nothing left. */
void server_close(struct server *s);

/* storaged takes calls again: all sockets are read. */
void server_room(struct server *s);

/* The value of Date now. */
const char *server_date(struct server *s);

/* For connections: the count of their address, and their end. */
void server_conn_gone(struct server *s, const uint8_t address[16]);

#endif
