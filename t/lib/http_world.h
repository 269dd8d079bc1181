/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-http between real TCP clients and a scripted storaged, all in one loop: server, connections, handlers,
 * Topics client and peers are the real ones. Every call is parked until the test answers it.
 */
#ifndef T_LIB_HTTP_WORLD_H
#define T_LIB_HTTP_WORLD_H

#include "t/lib/scripted_node.h"
#include "worker-http/server.h"

#define SOON 5000       /* what takes longer has failed */

struct world {
	struct place place;
	struct worker worker;           /* its first half: child, loop, env, topics */
	struct process_table processes;
	struct server server;
	uv_timer_t tick;                /* so that the clients are looked at */
	uint16_t port, admin_port;
	bool drained;
};
extern struct world w;

/* `change` sets options before the server starts; may be NULL. */
void world_open(void (*change)(struct conf *c));
void world_close(void);

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

/* What came, without the lines that differ from run to run or stand in every answer, and without CR. Static. */
char *tidy(struct slice bytes);

/* The first call that is parked; NULL. next_call() waits for it. */
struct seen *parked(void);
struct seen *next_call(void);
/* Its name and fields that are set (but deadline and payload), and the records of an append. Static. */
const char *print_call(const struct seen *s);
void give(struct seen *s, ProtobufCMessage *answer);
void give_error(struct seen *s, const struct pico_error *e);

#endif
