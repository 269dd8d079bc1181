/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 connection: socket, time-outs, order of answers, back-pressure.
 *
 * Requests of a connection are started in order. Appends that follow each other run side by side; any
 * other request starts when all before it are answered. Answers leave in order. Bounds: max-inflight
 * requests, conn-buffer-size of waiting bodies and answers; beyond either the socket is not read.
 */
#ifndef WORKER_HTTP_CONN_H
#define WORKER_HTTP_CONN_H

#include "worker-http/request.h"
#include "worker-http/server.h"

struct conn;

/* Takes the socket (non-blocking). */
void conn_new(struct server *s, int fd, const uint8_t address[16], server_route_fn *route);
struct conn *conn_next(const struct conn *c);
/* Room again, or a drain: reads on, starts what waits, sends. */
void conn_kick(struct conn *c);
/* Answers what is parked; the connection ends behind its last answer, at once when there is none. */
void conn_drain(struct conn *c);
/* Cuts it now. */
void conn_close(struct conn *c);

#endif
