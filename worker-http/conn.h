/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP connection: socket, time-outs, memory, back-pressure. What is spoken on it: conn_version.h.
 */
#ifndef WORKER_HTTP_CONN_H
#define WORKER_HTTP_CONN_H

#include "worker-http/request.h"
#include "worker-http/server.h"

struct conn;

/* Takes the socket (non-blocking), which that listener accepted. */
void conn_new(struct server *s, int fd, const uint8_t address[16], const struct child_listener *from);
struct conn *conn_next(const struct conn *c);
/* Room again, or a drain: reads on, starts what waits, sends. */
void conn_kick(struct conn *c);
/* Answers what is parked; the connection ends behind its last answer, at once when there is none. */
void conn_drain(struct conn *c);
/* Cuts it now. */
void conn_close(struct conn *c);

#endif
