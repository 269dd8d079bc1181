/* SPDX-License-Identifier: Apache-2.0
 *
 * Load over HTTP/1.1 for `pico bench`: some connections, each with several requests under way (pipelined; answers come
 * in order). What the requests are is the caller's business; here is when, and how long each took.
 */
#ifndef CLI_BENCH_HTTP_H
#define CLI_BENCH_HTTP_H

#include "common/buf.h"

struct bench_answer {
	unsigned status;
	uint64_t body_bytes;
	uint64_t next_seq;              /* Pico-Next-Seq, 0 without one */
	bool up_to_date;                /* Pico-Up-To-Date */
	uint64_t started_ns, took_ns;
};

enum bench_next { BENCH_REQUEST, BENCH_LATER, BENCH_END };

struct bench_load {
	const char *endpoint;           /* http://HOST:PORT */
	unsigned connections;
	unsigned depth;                 /* requests under way on each */
	/* Puts a whole request into out with a number to know it by; or says that none is due now, or ever, there. */
	enum bench_next (*next)(void *arg, unsigned connection, struct buf *out, uint32_t *ret_number);
	/* False ends the run at once. */
	bool (*on_answer)(void *arg, unsigned connection, uint32_t number, const struct bench_answer *a);
	void *arg;
};

uint64_t bench_now_ns(void);

/* Until every connection has come to BENCH_END and is answered. 0, or an exit code after one line that says why. */
int bench_run(const struct bench_load *load);

#endif
