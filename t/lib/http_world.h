/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-http between real TCP clients and a scripted storaged, all in one loop: server, connections, handlers,
 * Topics client and peers are the real ones. Every call is parked until the test answers it.
 */
#ifndef T_LIB_HTTP_WORLD_H
#define T_LIB_HTTP_WORLD_H

#include "t/lib/loopback.h"
#include "worker-http/server.h"

struct world {
	struct place place;
	struct worker worker;           /* its first half: child, loop, env, topics */
	struct process_table processes;
	struct server server;
	uint16_t port, admin_port, ds_port;
	bool drained;
};
extern struct world w;

/* `change` sets options before the server starts; may be NULL. */
void world_open(void (*change)(struct conf *c));
void world_close(void);

/* What came, without the lines that differ from run to run or stand in every answer, and without CR. Static. */
char *tidy(struct slice bytes);

/* A call's name and fields that are set (but deadline and payload), and the records of an append. Static. */
const char *print_call(const struct seen *s);

#endif
