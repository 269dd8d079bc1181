/* SPDX-License-Identifier: Apache-2.0
 *
 * One Kafka connection: frames in order, answers in the order of their requests.
 *
 * Requests are started in the order they came. Those to Produce that follow each other run side by side, but one that
 * `holds` (it looks its topics up) keeps later ones back; any other starts when all before it have been answered. Bounds:
 * max-inflight requests, conn-buffer-size of waiting frames and answers, and the one frame that is being read;
 * beyond either the socket is not read. All connections together hold at most eight frames of max-request-size, six of
 * which may be large ones that are being read.
 */
#ifndef WORKER_KAFKA_CONN_H
#define WORKER_KAFKA_CONN_H

#include "worker-kafka/server.h"

struct conn;
struct fetch_ahead;

/* Takes the socket (non-blocking), which that listener accepted. */
void conn_new(struct server *s, int fd, const uint8_t address[16], const struct child_listener *from);
struct conn *conn_next(const struct conn *c);
/* Something changed: reads on, starts what waits, sends; at the end of the loop's turn. */
void conn_wake(struct conn *c);
/* Room again: the time not spent reading was ours. */
void conn_kick(struct conn *c);
/* Answers what is parked; the connection ends behind its last answer, at once when there is none. */
void conn_drain(struct conn *c);
/* Whether n bytes more may be held for its client, as all connections stand. */
bool conn_may_hold(const struct conn *c, size_t n);
/* What its requests hold changed outside of its turn. */
void conn_account(struct conn *c);
/* What is read ahead for it. */
struct fetch_ahead *conn_ahead(struct conn *c);
/* The client's, IPv6; IPv4 as ::ffff:a.b.c.d, loopback as ::. */
const uint8_t *conn_address(const struct conn *c);
/* What its client is told of this node. */
const struct advertised *conn_advertised(const struct conn *c);
/* Cuts it now. */
void conn_close(struct conn *c);

#endif
