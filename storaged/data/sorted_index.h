/* SPDX-License-Identifier: Apache-2.0
 *
 * Items in some order: a sorted array of sorted blocks of pointers, 8 to 16 bytes an item. A step costs two binary
 * searches; an insertion moves at most one block's pointers, and rarely the array of blocks (8 KiB for 200,000 items). It
 * owns the blocks, not the items. No two items in it compare as equal.
 */
#ifndef STORAGED_DATA_SORTED_INDEX_H
#define STORAGED_DATA_SORTED_INDEX_H

#include <stdbool.h>
#include <stddef.h>

struct sorted_block;
struct sorted_index;

/* A probe is whatever names a place in the order: an item, or less. < 0, 0, > 0. */
typedef int sorted_compare(const struct sorted_index *x, const void *probe, const void *item);

struct sorted_index {
	sorted_compare *compare;
	struct sorted_block **block;    /* owned, none empty */
	size_t n_blocks, capacity;
	size_t n;                       /* items in all */
};

void sorted_index_init(struct sorted_index *x, sorted_compare *compare);
void sorted_index_done(struct sorted_index *x);

/* probe is the item's place; no item there (must). */
void sorted_index_add(struct sorted_index *x, const void *probe, void *item);
/* The item is there (must). */
void sorted_index_remove(struct sorted_index *x, const void *probe, const void *item);

/* The first item that is greater (or equal) / the last one that is smaller (or equal); NULL: none. */
void *sorted_index_after(const struct sorted_index *x, const void *probe, bool or_equal);
void *sorted_index_before(const struct sorted_index *x, const void *probe, bool or_equal);

#endif
