/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranges of a worker's inbox are storaged's at this moment. At most PEER_CALLS_MAX, normally a handful: a
 * sorted array.
 */
#include <errno.h>
#include <stdlib.h>

#include "storaged/peer_impl.h"

void inbox_done(struct inbox_ranges *i)
{
	free(i->range);
	*i = (struct inbox_ranges){ .n = 0 };
}

/* Index of the first range at or behind offset. */
static size_t inbox_find(const struct inbox_ranges *i, uint64_t offset)
{
	size_t low = 0, high = i->n;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (i->range[mid].offset < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int inbox_take(struct inbox_ranges *i, uint64_t size, uint64_t offset, uint64_t length)
{
	if (length == 0 || offset > size || length > size - offset)
		return -ERANGE;
	size_t at = inbox_find(i, offset);
	if (at < i->n && i->range[at].offset < offset + length)
		return -EBUSY;
	if (at > 0 && i->range[at - 1].offset + i->range[at - 1].length > offset)
		return -EBUSY;
	if (i->n == i->capacity) {
		i->capacity = i->capacity > 0 ? 2 * i->capacity : 16;
		i->range = must_realloc(i->range, i->capacity * sizeof(i->range[0]));
	}
	memmove(&i->range[at + 1], &i->range[at], (i->n - at) * sizeof(i->range[0]));
	i->range[at] = (struct inbox_range){ .offset = offset, .length = length };
	i->n++;
	return 0;
}

void inbox_give(struct inbox_ranges *i, uint64_t offset)
{
	size_t at = inbox_find(i, offset);
	must(at < i->n && i->range[at].offset == offset);
	i->n--;
	memmove(&i->range[at], &i->range[at + 1], (i->n - at) * sizeof(i->range[0]));
}
