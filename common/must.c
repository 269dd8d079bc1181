/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a process that met its own bug, and allocations that cannot fail.
 */
#include "common/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void must_failed(const char *expr, const char *file, int line, const char *func)
{
	fprintf(stderr, "bug: must(%s) failed in %s() at %s:%d, aborting\n", expr, func, file, line);
	abort();
}

void *must_calloc(size_t n, size_t size)
{
	void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);
	must(p != NULL);
	return p;
}

void *must_realloc(void *p, size_t size)
{
	void *q = realloc(p, size > 0 ? size : 1);
	must(q != NULL);
	return q;
}

char *must_strdup(const char *s)
{
	return must_memdup(s, strlen(s) + 1);
}

void *must_memdup(const void *p, size_t n)
{
	void *q = must_calloc(1, n);
	if (n > 0)
		memcpy(q, p, n);
	return q;
}
