/* SPDX-License-Identifier: Apache-2.0
 *
 * A borrowed run of bytes. Owns nothing; whoever hands one out says how long it is valid.
 */
#ifndef COMMON_SLICE_H
#define COMMON_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
	const uint8_t *p;
	size_t n;
};

static inline struct slice slice_of(const void *p, size_t n)
{
	return (struct slice){ .p = p, .n = n };
}

static inline struct slice slice_str(const char *s)
{
	return slice_of(s, strlen(s));
}

static inline bool slice_eq(struct slice a, struct slice b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_is(struct slice a, const char *s)
{
	return slice_eq(a, slice_str(s));
}

/* memcmp order, the shorter first when one begins the other. */
static inline int slice_cmp(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n == 0 ? 0 : memcmp(a.p, b.p, n);
	return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

#endif
