/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of a loop turn, for what may take long: the records of batches are decompressed and decoded on the loop's
 * thread, and one request can bring thousands of batches. Who has work asks before each piece of it, and waits where
 * the share of this turn is spent; what waits goes on in the order it came, after the sockets of all had theirs. After
 * a batch that is much larger than a share it goes on when others had the loop for as long as that batch.
 */
#ifndef WORKER_KAFKA_TURNS_H
#define WORKER_KAFKA_TURNS_H

#include "common/env.h"

#define TURNS_SHARE (4u << 20)          /* bytes decoded in a turn before others wait; some 10 ms */

/* One who waits. Embedded in its owner; zero-initialised but for run and arg. */
struct turn {
	struct turn *next, **prev;      /* private; prev is NULL when it does not wait */
	void (*run)(void *arg);
	void *arg;
};

struct turns {
	struct env *env;
	struct env_task task;
	struct env_timer timer;         /* a pause */
	struct turn *first, **last;     /* who waits */
	size_t spent;                   /* of the share, in this turn */
	bool running;                   /* those who waited have theirs */
};

void turns_init(struct turns *t, struct env *env);
/* Nobody waits any more. */
void turns_done(struct turns *t);

/* So many bytes were decoded. */
void turns_spend(struct turns *t, size_t bytes);

/* True when there is no share left: turn->run is called in a later turn, once, and asks again. */
bool turns_wait(struct turns *t, struct turn *turn);

/* It is not called any more. Fine when it does not wait. */
void turns_forget(struct turns *t, struct turn *turn);

#endif
