/* SPDX-License-Identifier: Apache-2.0
 *
 * Load for `pico bench`: some connections, each with several requests under way (pipelined; answers come in order).
 * What requests are is the caller's business, what bytes make an answer is a struct bench_wire's; here is when, and how
 * long each took.
 */
#ifndef CLI_BENCH_LOOP_H
#define CLI_BENCH_LOOP_H

#include "common/buf.h"

/* How the bytes of a protocol become answers: a state a connection, which begins cleared. */
struct bench_wire {
	const char *name;               /* for "the answer is not ..." */
	size_t size;                    /* of the state */
	void (*init)(void *state);
	void (*done)(void *state);
	/* Where the next bytes go, and how many; NULL when memory is out. */
	uint8_t *(*room)(void *state, size_t *ret_n);
	/* n bytes came there. */
	void (*put)(void *state, size_t n);
	/* 1: an answer is whole, in the state until the next call; 0: it needs more bytes; -EBADMSG. */
	int (*answer)(void *state);
};

struct bench_address {
	char host[256], port[8];
};

struct bench_time {
	uint64_t started_ns, took_ns;
};

/* BENCH_SILENT: a request that is not answered. BENCH_LATER: none is due now; BENCH_END: nor ever. */
enum bench_next { BENCH_REQUEST, BENCH_SILENT, BENCH_LATER, BENCH_END };

struct bench_load {
	const struct bench_wire *wire;
	const struct bench_address *address;    /* connection i goes to address i % n_addresses */
	unsigned n_addresses;
	unsigned connections;
	unsigned depth;                 /* requests under way on each */
	/* Puts a whole request into out with a number to know it by, or says why not. */
	enum bench_next (*next)(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number);
	/* False ends the run at once. */
	bool (*on_answer)(void *arg, unsigned connection, uint64_t number, void *state, const struct bench_time *t);
	void *arg;
};

uint64_t bench_now_ns(void);

/* Until every connection has come to BENCH_END and is answered. 0, or an exit code after one line that says why. */
int bench_run(const struct bench_load *load);

#endif
