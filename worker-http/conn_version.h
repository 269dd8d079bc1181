/* SPDX-License-Identifier: Apache-2.0
 *
 * What a connection is (conn.c) to the versions of HTTP that it may speak (conn_h1.c, conn_h2.c), and what a version is
 * to it. The connection has the socket, the queue of requests, output, time and memory; a version makes requests out of
 * bytes and bytes out of answers.
 *
 * Everything of a version is called from conn_run() or leads to it. Any call may close the connection (c->dead).
 */
#ifndef WORKER_HTTP_CONN_VERSION_H
#define WORKER_HTTP_CONN_VERSION_H

#include "common/sock.h"
#include "worker-http/conn.h"

#define CONN_OUT_GATHER 65536           /* heads and small bodies put together before a write */
#define CONN_BODY_ALWAYS 65536          /* of a body that is taken whatever other connections hold */

struct conn_version {
	void (*open)(struct conn *c);           /* sets c->state */
	void (*done)(struct conn *c);           /* the requests are gone */
	/* Input; only while there is room. At most HTTP1_READ_MAX bytes and a few. */
	void (*take)(struct conn *c, struct slice bytes);
	/* The peer has ended. */
	void (*take_end)(struct conn *c);
	bool (*has_room)(const struct conn *c);
	/* Takes input apart, starts what may start, moves answers into c->out. True when something moved. */
	bool (*turn)(struct conn *c);
	/* The end of the turns: counts what is held into c->queued, gives back what is not needed. */
	void (*rest)(struct conn *c);
	/* When late() is due; 0: never. That the socket takes nothing is not its business. */
	uint64_t (*deadline)(const struct conn *c);
	void (*late)(struct conn *c);
	/* The peer hung up while nothing was read: does anything but news for it keep the connection? */
	bool (*is_parked)(const struct conn *c);
	/* What had come before the drain is taken: nothing new is from now on. */
	void (*drain)(struct conn *c);
};
extern const struct conn_version conn_begin, conn_h1, conn_h2;

struct conn {
	unsigned magic;
	struct server *server;
	struct conn *prev, *next;       /* of the server's list */
	uint8_t address[16];
	server_route_fn *route;
	bool secure;                    /* it came over TLS */
	struct sock *sock;              /* owned */
	struct env_timer timer;
	struct env_task task;           /* conn_run() at the end of the turn */

	const struct conn_version *version;
	void *state;                    /* the version's */

	struct request *first, **last;  /* the queue, in order of arrival; owned */
	unsigned n_requests;
	unsigned n_preface;             /* bytes of HTTP/2's that have come, of conn_begin */
	size_t queued;                  /* bytes that requests and answers hold */

	struct buf out;                 /* what is sent next */
	struct buf *behind;             /* borrowed: n_behind bytes of it follow out */
	size_t n_behind;
	size_t reported;                /* what HTTP_BUFFERED_BYTES counts of this connection */

	uint64_t since_ms;              /* of the last thing that the time-out of its state counts from */
	uint64_t sent_ms;               /* the socket took something */
	uint64_t kicked_ms;             /* it was read again, storaged having had no room */
	bool timing_head;               /* since_ms is the first byte of a head */
	bool no_input;                  /* no more requests are taken */
	bool closing;                   /* close when all is sent */
	bool lingering;
	bool dead;
};

uint64_t conn_now(const struct conn *c);
/* The other version is spoken from now on; the one before had nothing. */
void conn_become(struct conn *c, const struct conn_version *version);
/* conn_run() at the end of the loop's turn. */
void conn_wake(struct conn *c);
static inline bool conn_is_sending(const struct conn *c) { return buf_len(&c->out) > 0 || c->n_behind > 0; }

/* A request at the end of the queue; head may be NULL (a refused one). */
struct request *conn_push(struct conn *c, const struct http1_head *head);
/* Takes it out of the queue and frees it. */
void conn_drop(struct conn *c, struct request *r);
/* Counts what the queue holds. */
void conn_count_queue(struct conn *c);

/* An answer of the connection's own, unless one has begun; the handler is not called. */
void conn_refuse_request(struct request *r, int status, const char *reason);
/* Why a request with that head is refused: its status, and the reason; 0 when it is not. */
int conn_head_fault(const struct conn *c, const struct http1_head *head, const char **ret_reason);
/* Adds to a request's body; false when it was refused. */
bool conn_take_body(struct conn *c, struct request *r, struct slice piece);
/* Its body is whole. */
void conn_take_last(struct conn *c, struct request *r);
void conn_start(struct request *r);
/* Metrics and the line of a slow one; when the head of its answer goes out. */
void conn_count_answer(const struct request *r);

#endif
