/* SPDX-License-Identifier: Apache-2.0
 *
 * must(expr): a fact that only a bug can break. Always compiled in; prints the expression and
 * its place, then aborts, and the supervisor starts the process again. Never used on what a
 * peer, a file or the environment says.
 */
#ifndef COMMON_MUST_H
#define COMMON_MUST_H

#include <stddef.h>

_Noreturn void must_failed(const char *expr, const char *file, int line, const char *func);

#define must(expr) \
	((expr) ? (void)0 : must_failed(#expr, __FILE__, __LINE__, __func__))

/* Small fixed allocations that abort when memory is out. Free with free(). */
void *must_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *must_realloc(void *p, size_t size) __attribute__((returns_nonnull));
char *must_strdup(const char *s) __attribute__((malloc, returns_nonnull));
void *must_memdup(const void *p, size_t n) __attribute__((malloc, returns_nonnull));

#endif
