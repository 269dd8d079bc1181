/* SPDX-License-Identifier: Apache-2.0
 *
 * The offset moves by at most a sixtieth of the time that passed, so stamp time always rises: while it
 * is being pulled back it runs at 59/60 of the monotonic clock's pace.
 */
#include "storaged/engine/stamp.h"

#define PULL_EVERY_MS 60u
#define PULL_SHARE 60u                  /* 1 s a minute */
#define AHEAD_MAX_MS (90 * 24 * 3600000ll)      /* a node may have been off for so long; STATE_CLOCK_LEAP_MS is the same */
#define DOUBT_MS 600000ll

void stamp_init(struct stamp *s, struct env *env)
{
	s->pulled_ms = env_now_ms(env);
	s->offset_ms = env_wall_ms(env) - (int64_t)s->pulled_ms;
}

static int64_t clamp(int64_t v, int64_t bound)
{
	return v > bound ? bound : v < -bound ? -bound : v;
}

int64_t stamp_now_ms(struct stamp *s, struct env *env)
{
	uint64_t now = env_now_ms(env);
	uint64_t passed = now - s->pulled_ms;
	if (passed >= PULL_EVERY_MS) {
		int64_t away = env_wall_ms(env) - ((int64_t)now + s->offset_ms);
		s->offset_ms += clamp(away, (int64_t)(passed / PULL_SHARE));
		s->pulled_ms = now - passed % PULL_SHARE;
	}
	return (int64_t)now + s->offset_ms;
}

int64_t stamp_due_ms(struct stamp *s, struct env *env)
{
	int64_t now = stamp_now_ms(s, env), wall = env_wall_ms(env);
	if (s->doubted_until_ms == 0)
		return now;
	if (env_now_ms(env) < s->doubted_until_ms)
		return INT64_MIN;
	return wall < now ? wall : now;
}

void stamp_doubt(struct stamp *s, struct env *env, int64_t last_ms, int64_t leap_ms)
{
	int64_t now = stamp_now_ms(s, env);
	if (last_ms > 0 && now - last_ms > AHEAD_MAX_MS)
		s->doubted_until_ms = env_now_ms(env) + DOUBT_MS;
	else if (leap_ms > 0 && now >= leap_ms && now - leap_ms < DOUBT_MS)
		s->doubted_until_ms = env_now_ms(env) + DOUBT_MS - (uint64_t)(now - leap_ms);
}
