/* SPDX-License-Identifier: Apache-2.0
 *
 * Every listening socket: bound once, before the first child, and inherited by each; they outlive workers.
 */
#ifndef SUPERVISOR_LISTENERS_H
#define SUPERVISOR_LISTENERS_H

#include "common/child.h"
#include "supervisor/home.h"

struct listeners {
	struct child_listener item[CHILD_LISTENERS_MAX];        /* fd is owned; protocol "ipc" is storaged's socket */
	unsigned n;
	char socket_path[4200];
	char http_address[256];         /* advertised: --http-address, else the first of --listen */
	char ds_address[256];           /* the same of Durable Streams; "" without such a listener */
	char kafka_address[300];        /* the same as host:port: --kafka-advertise, else of the first kafka listener */
	char kafka_tls_address[300];    /* for clients that speak TLS: that host, the port of the first TLS listener */
};

/* Whether every address is one and may be bound, without binding: 0 or the exit code, after one line in the log. */
int listeners_check(const struct conf *conf);
/* 0 or the exit code, after one line in the log; nothing is bound then. */
int listeners_open(struct listeners *l, const struct conf *conf, const struct home *home);
/* No new connection from here on; storaged's socket stays. */
void listeners_close_tcp(struct listeners *l);
void listeners_close(struct listeners *l, const struct home *home);

#endif
