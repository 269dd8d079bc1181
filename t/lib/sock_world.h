/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop for tests of socks, which counts what each is told.
 */
#ifndef T_LIB_SOCK_WORLD_H
#define T_LIB_SOCK_WORLD_H

#include "common/env_uv.h"
#include "common/sock.h"

#define SOON_MS 30000                   /* what takes longer has failed */
#define QUIET_MS 30                     /* what would have been told by then was not to be told */

extern uv_loop_t loop;
extern struct env *env;

/* What a sock's owner is told; the sock's arg. */
struct told {
	struct sock *sock;
	unsigned n_ready, n_over;
	bool close_when_ready;
};
extern const struct sock_events told_events;

void sock_world_open(void);
void sock_world_close(void);
void run_once(void);                    /* a turn of the loop, a millisecond at most */
void run_until(const unsigned *count, unsigned n);      /* it is n, or more */
void run_quiet(void);

#endif
