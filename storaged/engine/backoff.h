/* SPDX-License-Identifier: Apache-2.0
 *
 * When a store is asked again: after half to all of a bound, by chance, which doubles from try to try.
 */
#ifndef STORAGED_ENGINE_BACKOFF_H
#define STORAGED_ENGINE_BACKOFF_H

#include "common/env.h"

/* The bound of the first try and of the last ones, milliseconds. */
struct backoff {
	uint32_t min_ms, max_ms;
};
extern const struct backoff backoff_read, backoff_write;

/* The time for env_timer_start(). bound_ms is the caller's, 0 before the first try and after a success. */
uint64_t backoff_next(struct env *env, const struct backoff *b, uint32_t *bound_ms);

#endif
