/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of a worker: accepting from inherited listeners, limits in all and for one address (loopback and
 * Unix sockets are not counted), and balance among the processes of one kind, which share the listeners.
 *
 * A process that holds 8 connections more than the mean of its kind waits 1 ms before it takes one, so another one
 * takes it. It never waits longer: one that hangs holds nobody up. Out of descriptors nothing is accepted for 100 ms;
 * the connections that are open go on.
 */
#ifndef COMMON_ACCEPTOR_H
#define COMMON_ACCEPTOR_H

#include <uv.h>

#include "common/child.h"

struct address_count;

/* What differs from protocol to protocol. */
struct acceptor_config {
	uv_loop_t *loop;                                /* borrowed, as all of these */
	const struct child *child;                      /* listeners, limits, and the processes of its kind */
	enum metric connections, accepted, refused;     /* the first is what is balanced */
	/* A connection, non-blocking; the receiver's. acceptor_gone(address) when it is closed. */
	void (*on_conn)(void *arg, int fd, const uint8_t address[16], const struct child_listener *from);
	/* One over a limit; the receiver says so to the client and closes it. */
	void (*on_refused)(void *arg, int fd, const struct child_listener *from);
	void *arg;
};

struct acceptor_listener {
	struct acceptor *acceptor;
	uv_poll_t poll;
	const struct child_listener *inherited;
};

struct acceptor {
	struct acceptor_config config;
	struct acceptor_listener listener[CHILD_LISTENERS_MAX];
	unsigned n_listeners;
	unsigned n_conns, max_conns, max_conns_per_address;
	unsigned n_conns_peak;          /* since memory was given back */
	struct address_count *addresses;
	uv_timer_t pause, trim;
	bool stopped;
	uint64_t said_ms;               /* when it last said that descriptors ran out; 0: never */
	void (*on_empty)(void *arg);
	void *on_empty_arg;
};

/* Takes the limits, raises the descriptor limit, begins to accept on all listeners of the child. Ends the process
 * with one line when one cannot be served. */
void acceptor_open(struct acceptor *a, const struct acceptor_config *config);
/* Accepts no more. */
void acceptor_stop(struct acceptor *a);
/* Calls on_empty once, when no connection is left; now when there is none. After acceptor_stop(). */
void acceptor_when_empty(struct acceptor *a, void (*on_empty)(void *arg), void *arg);
/* Closes its handles; the loop must run once more. No connection is left. */
void acceptor_close(struct acceptor *a);
/* The end of a connection that on_conn() was given. */
void acceptor_gone(struct acceptor *a, const uint8_t address[16]);
/* The same of one that could not be served, for that negative errno; says so. Its descriptor is closed. */
void acceptor_failed(struct acceptor *a, const uint8_t address[16], int err);

#endif
