/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of 4 KiB that double up to 64 KiB; a larger piece gets a chunk of its own size. In a sanitized
 * build what is not handed out is poisoned, with 16 bytes between two pieces, so that a step past the end
 * of one is seen like a step past the end of malloc()'s memory.
 */
#include "common/region.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"

#ifdef PICO_SANITIZE
#include <sanitizer/asan_interface.h>
#define REGION_GAP 16
#else
#define REGION_GAP 0
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define CHUNK_FIRST 4096u
#define CHUNK_MOST 65536u

struct region_chunk {
	struct region_chunk *older;
	size_t size;            /* of bytes[] */
	uint8_t bytes[];
};

void region_init(struct region *r, size_t max)
{
	*r = (struct region){ .max = max };
}

static void chunk_free(struct region_chunk *c)
{
	ASAN_UNPOISON_MEMORY_REGION(c->bytes, c->size);
	free(c);
}

void region_done(struct region *r)
{
	struct region_chunk *older;
	for (struct region_chunk *c = r->chunks; c != NULL; c = older) {
		older = c->older;
		chunk_free(c);
	}
	region_init(r, r->max);
}

static void chunk_use(struct region *r, struct region_chunk *c)
{
	r->p = c->bytes;
	r->end = c->bytes + c->size;
	ASAN_POISON_MEMORY_REGION(c->bytes, c->size);
}

void region_reset(struct region *r)
{
	r->failed = false;
	if (r->chunks == NULL)
		return;
	while (r->chunks->older != NULL) {
		struct region_chunk *c = r->chunks;
		r->chunks = c->older;
		r->used -= c->size;
		chunk_free(c);
	}
	must(r->used == r->chunks->size);
	chunk_use(r, r->chunks);
}

/* A new chunk with room for n bytes, as large as its turn says when the bound allows that. */
static bool region_grow(struct region *r, size_t n)
{
	size_t left = r->max - r->used;
	size_t turn = r->used < CHUNK_FIRST ? CHUNK_FIRST : r->used < CHUNK_MOST ? r->used : CHUNK_MOST;
	size_t size = n > turn ? n : turn < left ? turn : left;
	if (n > left)
		return false;
	struct region_chunk *c = malloc(sizeof(*c) + size);
	if (c == NULL)
		return false;
	c->size = size;
	c->older = r->chunks;
	r->chunks = c;
	r->used += size;
	chunk_use(r, c);
	return true;
}

void *region_alloc_slow(struct region *r, size_t n)
{
	size_t size = ((n + 7) & ~(size_t)7) + REGION_GAP;
	if (r->failed || size < n || r->used > r->max)
		goto fail;
	if ((r->p == NULL || size > (size_t)(r->end - r->p)) && !region_grow(r, size))
		goto fail;
	uint8_t *p = r->p;
	ASAN_UNPOISON_MEMORY_REGION(p, n);
	r->p += size;
	return p;
fail:
	r->failed = true;
	return NULL;
}

void *region_calloc(struct region *r, size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes)) {
		r->failed = true;
		return NULL;
	}
	void *p = region_alloc(r, bytes);
	return p == NULL ? NULL : memset(p, 0, bytes);
}

struct slice region_copy(struct region *r, struct slice s)
{
	if (s.p == NULL)
		return s;
	uint8_t *p = region_alloc(r, s.n);
	if (p == NULL)
		return slice_of(NULL, 0);
	memcpy(p, s.p, s.n);
	return slice_of(p, s.n);
}

struct slice region_printf(struct region *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	must(n >= 0);
	char *p = region_alloc(r, (size_t)n + 1);
	if (p == NULL)
		return slice_of("", 0);
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return slice_of(p, (size_t)n);
}
