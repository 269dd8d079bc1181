/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/cursor.h"

#include "worker-http/server.h"

uint64_t cursor_next(const struct request *r, const struct cursor *cursor, uint64_t epoch_ms, unsigned spread)
{
	uint64_t now = (uint64_t)env_wall_ms(r->server->env);
	uint64_t interval = now > epoch_ms ? (now - epoch_ms) / CURSOR_INTERVAL_MS : 0;
	if (!cursor->given || cursor->client < interval || cursor->client >= UINT64_MAX - spread)
		return interval;
	uint32_t random;
	env_random(r->server->env, &random, sizeof(random));
	return cursor->client + 1 + random % spread;
}
