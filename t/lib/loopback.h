/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of a worker in process share: TCP clients on the loopback and the calls that a scripted storaged has
 * parked, all in the one loop of a place.
 */
#ifndef T_LIB_LOOPBACK_H
#define T_LIB_LOOPBACK_H

#include "t/lib/scripted_node.h"

#define SOON 30000      /* what takes longer has failed */

/* The place of everything below; its node parks every call from now on. Before place_up(). */
void loopback_open(struct place *p);
/* Run the loop once afterwards. */
void loopback_close(void);
/* A listening socket on a free port. */
int loopback_listen(uint16_t *ret_port);

/* A client: what came stands in `in`. */
struct client {
	int fd;
	struct buf in;
	bool ended;
};
void client_open(struct client *c, uint16_t port);
void client_close(struct client *c);
void client_pull(struct client *c);
void client_send(struct client *c, struct slice bytes);
void client_say(struct client *c, const char *text);
/* Waits for n bytes, or the end. */
void client_wait(struct client *c, size_t n);
/* Waits for the end. */
void client_wait_end(struct client *c);

/* The first call that is parked; NULL. next_call() waits for it. */
struct seen *parked(void);
struct seen *next_call(void);
void give(struct seen *s, ProtobufCMessage *answer);
void give_error(struct seen *s, const struct pico_error *e);

#endif
