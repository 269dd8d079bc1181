/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 for the loop of `pico bench`: answers by length or in chunks. Bodies are counted and thrown away.
 */
#ifndef CLI_BENCH_HTTP_H
#define CLI_BENCH_HTTP_H

#include "cli/bench_loop.h"

struct bench_answer {
	unsigned status;
	uint64_t body_bytes;
	uint64_t next_seq;              /* Pico-Next-Seq, 0 without one */
	bool up_to_date;                /* Pico-Up-To-Date */
};

extern const struct bench_wire bench_http_wire;
const struct bench_answer *bench_http_answer(const void *state);

/* http://HOST[:PORT] and what follows. CLI_OK, or told. */
int bench_http_address(const char *endpoint, struct bench_address *ret);

#endif
