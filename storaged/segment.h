/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory whose ranges are handed to workers: an arena segment or the block cache. A pin keeps bytes
 * where they are; whoever holds one gives it back with pin_drop().
 */
#ifndef STORAGED_SEGMENT_H
#define STORAGED_SEGMENT_H

#include "common/env.h"
#include "common/must.h"

struct pin {
	uint32_t count;
	bool abandoned;                     /* one was dropped for a reader that may still look: never write here again */
	void (*on_free)(struct pin *pin);   /* count went to 0; may be NULL */
};

static inline void pin_take(struct pin *p)
{
	must(p->count < UINT32_MAX);
	p->count++;
}

static inline void pin_drop(struct pin *p)
{
	must(p->count > 0);
	if (--p->count == 0 && p->on_free != NULL)
		p->on_free(p);
}

struct segment {
	uint32_t id;                    /* unique in this process, from 1 */
	struct env_segment mem;
};

/* A range of a segment, kept by one count of its pin. */
struct piece {
	struct segment *segment;
	struct pin *pin;
	uint32_t offset, length;
};

#endif
