/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a facade's process, from the supervisor's hands to the end of a drain: child, loop, connection to
 * storaged, control socket. What it serves is its server's business. One struct worker a process.
 */
#ifndef COMMON_WORKER_H
#define COMMON_WORKER_H

#include "common/acceptor.h"
#include "common/tls.h"
#include "common/topics.h"

struct worker_events {
	void (*on_room)(void *arg);     /* storaged takes calls again: read the sockets */
	/* Finish: acceptor_stop(), answer what was taken, then worker_drained() once, at once or later. */
	void (*on_drain)(void *arg);
	void (*on_stop_ready)(void *arg);       /* readiness off; NULL: not this one's */
};

struct worker {
	struct child child;
	uv_loop_t *loop;                /* owned, as all of these */
	struct env *env;
	struct topics *topics;
	struct acceptor acceptor;       /* opened by the server */
	struct tls_context *tls;        /* what new connections of TLS listeners begin with; NULL: there are none */

	const struct worker_events *events;
	void *arg;
	uv_poll_t control;
	uv_timer_t drain_timer, log_timer;
	bool draining;
};

/* child_start(), the loop, the connection to storaged. Ends the process with one line when it cannot. */
void worker_init(struct worker *w, enum process_kind kind, int argc, char **argv);
/* READY; serves until a drain is over, or its time is; DONE. The caller leaves then, what is open is cut. */
void worker_run(struct worker *w, const struct worker_events *events, void *arg);
/* The answer to on_drain(); takes the struct worker. */
void worker_drained(void *worker);

#endif
