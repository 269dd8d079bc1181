/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to storaged/peer*.c: which ranges of a worker's inbox are storaged's at this moment.
 */
#ifndef STORAGED_PEER_INBOX_H
#define STORAGED_PEER_INBOX_H

#include <stddef.h>
#include <stdint.h>

/* Ranges of an inbox that storaged may read: sorted, never overlapping. */
struct inbox_range {
	uint64_t offset, length;
};
struct inbox_ranges {
	struct inbox_range *range;
	size_t n, capacity;
};
void inbox_done(struct inbox_ranges *i);
/* -ERANGE: outside `size` or empty; -EBUSY: overlaps one that is taken. */
int inbox_take(struct inbox_ranges *i, uint64_t size, uint64_t offset, uint64_t length);
void inbox_give(struct inbox_ranges *i, uint64_t offset);

#endif
