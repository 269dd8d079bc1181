/* SPDX-License-Identifier: Apache-2.0
 *
 * All connections of one worker-kafka: listeners, limits, drain, and what they share. One struct server a process.
 */
#ifndef WORKER_KAFKA_SERVER_H
#define WORKER_KAFKA_SERVER_H

#include "common/record_decode.h"
#include "common/worker.h"
#include "common/turns.h"

struct conn;
struct topic_cache;
struct fetch_sessions;

/* Where clients are told to find this node. */
struct advertised {
	char host[256];
	uint16_t port;
};

struct server {
	struct env *env;                /* borrowed, as all of these */
	uv_loop_t *loop;
	struct topics *topics;
	const struct conf *conf;
	struct tls_context *const *tls; /* what connections of TLS listeners begin with now */
	struct advertised plain, secure;        /* to those who speak TLS */

	struct acceptor *acceptor;
	struct conn *conns;             /* all open ones */
	struct topic_cache *cache;      /* owned */
	struct fetch_sessions *fetch_sessions;  /* owned */
	struct record_decoder decoder;  /* one batch at a time */
	struct turns turns;             /* what is decoded in a loop turn */
	bool draining;
	bool full;                      /* storaged takes nothing more: no socket is read until server_room() */
	size_t held;                    /* bytes that all connections hold */
	size_t wake_at;                 /* some of them wait until it is so much; 0: none */
};

/* Begins to accept on the worker's listeners, takes pieces back when storaged asks for them. */
void server_init(struct server *s, struct worker *w);
/* Stops accepting, answers what is parked, closes each connection after its last answer; on_drained
 * once, when none is left. */
void server_drain(struct server *s, void (*on_drained)(void *arg), void *arg);
/* Closes everything at once; run the loop until it has nothing left. */
void server_close(struct server *s);

/* storaged takes calls again: all sockets are read. */
void server_room(struct server *s);

#endif
