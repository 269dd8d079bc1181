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
};

void stamp_init(struct stamp *s, struct env *env);
int64_t stamp_now_ms(struct stamp *s, struct env *env);

#endif
