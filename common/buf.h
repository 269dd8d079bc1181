/* SPDX-License-Identifier: Apache-2.0
 *
 * A byte buffer that grows up to a bound and is consumed from the front. Past the bound, or when
 * memory is out, it becomes `failed` and takes nothing more: write many times, check once.
 */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include "common/slice.h"

struct buf {
	uint8_t *p;         /* owned */
	size_t begin;       /* first byte not yet consumed */
	size_t end;         /* one past the last byte */
	size_t capacity;
	size_t max;         /* bound of end - begin */
	bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);

/* Forgets content and failure, keeps the memory if it is at most `keep` bytes. */
void buf_reset(struct buf *b, size_t keep);

static inline size_t buf_len(const struct buf *b) { return b->end - b->begin; }
/* NULL while nothing was put. */
static inline uint8_t *buf_head(const struct buf *b) { return b->begin > 0 ? b->p + b->begin : b->p; }
static inline struct slice buf_slice(const struct buf *b) { return slice_of(buf_head(b), b->end - b->begin); }

/* Room for n more bytes at the end, NULL when failed. Follow with buf_commit(). */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_slice(struct buf *b, struct slice s);
void buf_put_str(struct buf *b, const char *s);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Drops n bytes from the front (n <= buf_len). */
void buf_consume(struct buf *b, size_t n);

#endif
