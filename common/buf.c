/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes are added at `end` and taken at `begin`; room is made by moving them to the front when half
 * of the memory is free there, else by doubling. The memory never exceeds twice the bound.
 */
#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_done(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ .max = b->max };
}

void buf_reset(struct buf *b, size_t keep)
{
	if (b->capacity > keep)
		buf_done(b);
	b->begin = b->end = 0;
	b->failed = false;
}

static bool buf_grow(struct buf *b, size_t n)
{
	size_t len = buf_len(b);
	size_t want = b->capacity > 0 ? b->capacity : 256;
	while (want < len + n)
		want *= 2;
	uint8_t *p = malloc(want);
	if (p == NULL)
		return false;
	if (len > 0)
		memcpy(p, buf_head(b), len);
	free(b->p);
	b->p = p;
	b->capacity = want;
	b->begin = 0;
	b->end = len;
	return true;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	size_t len = buf_len(b);
	if (b->failed || n > b->max || len > b->max - n) {
		b->failed = true;
		return NULL;
	}
	if (b->capacity - b->end >= n && b->p != NULL)
		return b->p + b->end;
	if (b->p != NULL && b->begin >= b->capacity / 2 && b->capacity - len >= n) {
		memmove(b->p, buf_head(b), len);
		b->begin = 0;
		b->end = len;
	} else if (!buf_grow(b, n)) {
		b->failed = true;
		return NULL;
	}
	return b->p + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
	must(n <= b->capacity - b->end);
	b->end += n;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	uint8_t *to = buf_reserve(b, n);
	if (to == NULL)
		return;
	if (n > 0)
		memcpy(to, p, n);
	buf_commit(b, n);
}

void buf_put_slice(struct buf *b, struct slice s)
{
	buf_put(b, s.p, s.n);
}

void buf_put_str(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	buf_put(b, &v, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	must(n >= 0);
	char *to = (char *)buf_reserve(b, (size_t)n + 1); /* with its end byte, not committed */
	if (to == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	buf_commit(b, (size_t)n);
}

void buf_consume(struct buf *b, size_t n)
{
	must(n <= buf_len(b));
	b->begin += n;
	if (b->begin == b->end)
		b->begin = b->end = 0;
}
