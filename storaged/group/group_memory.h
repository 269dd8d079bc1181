/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that all groups of a node hold: members, assignments, offsets. Each group has bounds of its own; a node may have
 * so many groups that these alone bound nothing.
 */
#ifndef STORAGED_GROUP_GROUP_MEMORY_H
#define STORAGED_GROUP_GROUP_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* What the groups of a node hold together. What would go beyond max is refused; what is read from a log never is. */
struct group_memory {
	size_t used, max;
};

/* NULL: no bound. */
static inline size_t group_memory_left(const struct group_memory *m)
{
	return m == NULL ? SIZE_MAX : m->used < m->max ? m->max - m->used : 0;
}

static inline void group_memory_change(struct group_memory *m, size_t before, size_t now)
{
	if (m != NULL)
		m->used += now - before;
}

#endif
