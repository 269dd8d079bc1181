/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is taken piece by piece and given back at once: one region a request, for what is decoded,
 * for the answer and for scratch. Bounded; past the bound it becomes `failed` and gives NULL, so that
 * what a peer sends never takes more than its share.
 */
#ifndef COMMON_REGION_H
#define COMMON_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/slice.h"

struct region_chunk;

struct region {
	struct region_chunk *chunks;    /* owned; the newest first */
	uint8_t *p;                     /* free bytes of the newest chunk */
	uint8_t *end;
	size_t used;                    /* bytes in chunks */
	size_t max;                     /* bound of used */
	bool failed;
};

void region_init(struct region *r, size_t max);
void region_done(struct region *r);

/* Gives everything back but the oldest chunk, and forgets failure. What was taken is no longer valid. */
void region_reset(struct region *r);

/* The way region_alloc() goes when the newest chunk is full; not for callers. */
void *region_alloc_slow(struct region *r, size_t n);

#ifdef PICO_SANITIZE
#define REGION_FAST 0           /* each piece between poisoned bytes */
#else
#define REGION_FAST 1
#endif

/*
 * n bytes, aligned to 8, not cleared; valid until region_reset() or region_done(). NULL when the bound or
 * memory is reached, and `failed` says so. Not NULL for n = 0.
 */
static inline void *region_alloc(struct region *r, size_t n)
{
	size_t size = (n + 7) & ~(size_t)7;
	if (!REGION_FAST || r->failed || size < n || size > (size_t)(r->end - r->p) || r->p == NULL)
		return region_alloc_slow(r, n);
	void *p = r->p;
	r->p += size;
	return p;
}

/* The same, cleared, for n things; NULL also when n * size overflows. */
void *region_calloc(struct region *r, size_t n, size_t size);

/* A copy of s in the region; p == NULL stays NULL, and is NULL when there is no room (see `failed`). */
struct slice region_copy(struct region *r, struct slice s);

/* A formatted string in the region, an empty slice when there is no room. */
struct slice region_printf(struct region *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
