/* SPDX-License-Identifier: Apache-2.0
 *
 * Stamp time: the only time that is stored or compared with stored times. The wall clock at start plus
 * the monotonic clock, pulled towards the wall clock by at most 1 s a minute; so it never jumps and
 * never runs backwards, whatever is done to the wall clock.
 */
#ifndef STORAGED_ENGINE_STAMP_H
#define STORAGED_ENGINE_STAMP_H

#include "common/env.h"

struct stamp {
	int64_t offset_ms;              /* stamp = monotonic + offset */
	uint64_t pulled_ms;             /* monotonic time of the last pull */
	uint64_t doubted_until_ms;      /* monotonic time; 0: the clock is not doubted */
};

void stamp_init(struct stamp *s, struct env *env);
int64_t stamp_now_ms(struct stamp *s, struct env *env);

/*
 * What time it is for whoever deletes what is old. The same; but when the clock stood unbelievably far ahead at the start,
 * nothing is due for the first ten minutes, in which somebody may set it right, and afterwards only what the clock on the
 * wall says is due, too.
 */
int64_t stamp_due_ms(struct stamp *s, struct env *env);
/* last_ms: the newest time known from before the start. leap_ms: where an earlier start found itself so far ahead, or 0: the doubt goes
 * on until its time is up, however often the process dies meanwhile. */
void stamp_doubt(struct stamp *s, struct env *env, int64_t last_ms, int64_t leap_ms);

#endif
