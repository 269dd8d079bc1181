/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of a loop turn, for what may take long: the records of batches are decompressed and decoded on the loop's
 * thread, and one request can bring thousands of batches. Who has work asks before each piece of it, and waits where
 * the share of this turn is spent; what waits goes on in the order it came, after the sockets of all had theirs. After
 * a batch that is much larger than a share it goes on when others had the loop for about as long as that batch.
 *
 * What has to be read first is begun and ended: several reads are on their way while they turn out small, and one when
 * not, so that not many large ones come at once.
 */
#ifndef COMMON_TURNS_H
#define COMMON_TURNS_H

#include "common/env.h"

#define TURNS_SHARE (4u << 20)          /* bytes decoded in a turn before others wait; some 10 ms */

struct turn_list;

/* One who waits, or has begun. Embedded in its owner; zero-initialised but for run and arg. */
struct turn {
	struct turn *next, **prev;      /* private, as what follows */
	struct turn_list *list;         /* where it waits, or NULL */
	bool open;                      /* begun, not ended */
	void (*run)(void *arg);
	void *arg;
};

struct turn_list {
	struct turn *first, **last;
};

struct turns {
	struct env *env;
	struct env_task task;
	struct env_timer timer;         /* a pause */
	struct turn_list ready;         /* who waits for a share */
	struct turn_list closed;        /* who waits until another read has ended */
	unsigned n_open, open_max, open_most;
	size_t spent;                   /* of the share, in this turn */
	bool running;                   /* those who waited have theirs */
};

/* At most so many reads on their way; one at first. */
void turns_init(struct turns *t, struct env *env, unsigned open_most);
/* Nobody waits any more. */
void turns_done(struct turns *t);

/* So many bytes were decoded. */
void turns_spend(struct turns *t, size_t bytes);

/* True when there is no share left: turn->run is called in a later turn, once, and asks again. */
bool turns_wait(struct turns *t, struct turn *turn);

/* The same for a read. False: it has begun, until turns_end(). */
bool turns_begin(struct turns *t, struct turn *turn);
/* It has come, and so many bytes of it were decoded. */
void turns_end(struct turns *t, struct turn *turn, size_t bytes);

/* Whoever brings work now stands behind others, or has to wait for a share. */
bool turns_is_busy(const struct turns *t);

/* turn->run is still to be called. */
static inline bool turn_is_waiting(const struct turn *turn)
{
	return turn->list != NULL;
}

/* It is not called any more, and ends what it has begun. Fine when there is nothing. */
void turns_forget(struct turns *t, struct turn *turn);

#endif
