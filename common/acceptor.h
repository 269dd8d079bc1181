/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets of a worker and the limits on what they accept: connections in all and of one address
 * (loopback is not counted). Out of descriptors it pauses; the connections that are open go on.
 */
#ifndef COMMON_ACCEPTOR_H
#define COMMON_ACCEPTOR_H

#include <uv.h>

#include "common/child.h"

struct address_count;

struct acceptor_listener {
	struct acceptor *acceptor;
	uv_poll_t poll;
	int fd;                         /* inherited; borrowed */
};

struct acceptor_events {
	/* A connection, non-blocking; the receiver's. acceptor_gone(address) when it is closed. */
	void (*on_conn)(void *arg, int fd, const uint8_t address[16]);
	/* One over a limit; the receiver says so to the client and closes it. */
	void (*on_refused)(void *arg, int fd);
};

struct acceptor {
	uv_loop_t *loop;
	const struct acceptor_events *events;
	void *arg;
	struct acceptor_listener listener[CHILD_LISTENERS_MAX];
	unsigned n_listeners;
	unsigned n_conns, max_conns, max_conns_per_address;
	struct address_count *addresses;
	uv_timer_t pause;
	bool stopped;
};

/* Takes the configuration's limits; raises the descriptor limit. */
void acceptor_init(struct acceptor *a, uv_loop_t *loop, const struct conf *conf, const struct acceptor_events *events,
		   void *arg);
/* Begins to accept on fd (listening). 0 or a negative errno. */
int acceptor_listen(struct acceptor *a, int fd);
void acceptor_stop(struct acceptor *a);
/* Closes its handles; the loop must run once more. */
void acceptor_close(struct acceptor *a);
void acceptor_gone(struct acceptor *a, const uint8_t address[16]);

#endif
