/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads are waited for by somebody, so they come back sooner than writes, which the store may be too full for.
 */
#include "storaged/engine/backoff.h"

const struct backoff backoff_read = { .min_ms = 20, .max_ms = 2000 };
const struct backoff backoff_write = { .min_ms = 50, .max_ms = 5000 };

uint64_t backoff_next(struct env *env, const struct backoff *b, uint32_t *bound_ms)
{
	uint32_t bound = *bound_ms == 0 ? b->min_ms : *bound_ms, random;
	env_random(env, &random, sizeof(random));
	*bound_ms = bound * 2 < b->max_ms ? bound * 2 : b->max_ms;
	return env_now_ms(env) + bound / 2 + random % (bound / 2 + 1);
}
