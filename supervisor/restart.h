/* SPDX-License-Identifier: Apache-2.0
 *
 * When a child that died may be started again. A pure function of its deaths and the clock.
 */
#ifndef SUPERVISOR_RESTART_H
#define SUPERVISOR_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#define RESTART_BURST 10                /* restarts at once ... */
#define RESTART_WINDOW_MS 60000         /* ... within this time; a pause this long forgets all */
#define RESTART_DELAY_MIN_MS 100
#define RESTART_DELAY_MAX_MS 30000

/* Zero-initialised. */
struct restart {
	uint64_t at_once_ms[RESTART_BURST];     /* the last restarts at once, a ring */
	unsigned n_at_once;
	uint64_t last_death_ms;
	uint64_t delay_ms;                      /* the last one; 0: none yet */
};

/* The child died at now_ms, after it had become ready or before. The result is when it may start again. */
uint64_t restart_after_death(struct restart *r, bool was_ready, uint64_t now_ms);

#endif
