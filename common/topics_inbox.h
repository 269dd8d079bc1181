/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to common/topics*.c: ranges of the inbox that stand for payloads of open calls.
 */
#ifndef COMMON_TOPICS_INBOX_H
#define COMMON_TOPICS_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A worker's side of an inbox memfd; behind `size` bytes is the ipc_notice. Freed when it is not the current one and its last range is given back. */
struct topics_inbox {
	uint8_t *base;
	size_t size;
	bool current;
	struct topics_range {
		uint64_t offset, length;
	} *range;                           /* taken: sorted */
	size_t n, capacity;
};
int topics_inbox_new(int fd, size_t size, struct topics_inbox **ret_inbox);
/* First fit. -ENOSPC. */
int topics_inbox_take(struct topics_inbox *i, size_t length, uint64_t *ret_offset);
void topics_inbox_give(struct topics_inbox *i, uint64_t offset);
/* What the notice says. */
uint64_t topics_inbox_cuts(const struct topics_inbox *i);
void topics_inbox_retire(struct topics_inbox *i);   /* NULL is fine */

#endif
