/* SPDX-License-Identifier: Apache-2.0
 *
 * A child that had become ready starts again at once, at most RESTART_BURST times in RESTART_WINDOW_MS.
 * Beyond that, and for one that died before it was ready, the delay doubles. RESTART_WINDOW_MS without a death
 * forget everything.
 */
#include "supervisor/restart.h"

static bool may_start_at_once(struct restart *r, uint64_t now_ms)
{
	uint64_t *oldest = &r->at_once_ms[r->n_at_once % RESTART_BURST];
	if (r->n_at_once >= RESTART_BURST && now_ms - *oldest < RESTART_WINDOW_MS)
		return false;
	*oldest = now_ms;
	r->n_at_once++;
	return true;
}

uint64_t restart_after_death(struct restart *r, bool was_ready, uint64_t now_ms)
{
	if (r->last_death_ms != 0 && now_ms - r->last_death_ms >= RESTART_WINDOW_MS)
		*r = (struct restart){ 0 };
	r->last_death_ms = now_ms;
	if (was_ready && may_start_at_once(r, now_ms))
		return now_ms;
	r->delay_ms = r->delay_ms == 0 ? RESTART_DELAY_MIN_MS : r->delay_ms * 2;
	if (r->delay_ms > RESTART_DELAY_MAX_MS)
		r->delay_ms = RESTART_DELAY_MAX_MS;
	return now_ms + r->delay_ms;
}
