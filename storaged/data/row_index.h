/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the catalogue in some order: a sorted array of sorted blocks of pointers, one pointer a row. A step costs two
 * binary searches; an insertion moves at most one block's pointers, and rarely the array of blocks. It owns the
 * blocks, not the rows. No two rows in it compare as equal.
 */
#ifndef STORAGED_DATA_ROW_INDEX_H
#define STORAGED_DATA_ROW_INDEX_H

#include "storaged/data/catalogue.h"

struct row_block;

struct row_index {
	int (*compare)(const struct object_row *a, const struct object_row *b);
	struct row_block **block;       /* owned, none empty */
	size_t n_blocks, capacity;
	size_t n;                       /* rows in all */
};

void row_index_init(struct row_index *x, int (*compare)(const struct object_row *a, const struct object_row *b));
void row_index_done(struct row_index *x);

/* No row in it compares equal (must). */
void row_index_add(struct row_index *x, struct object_row *row);
/* row is in it (must). */
void row_index_remove(struct row_index *x, const struct object_row *row);

/* probe is a row of which only the fields that are compared count. The first row that is greater (or equal) / the last one
 * that is smaller (or equal); NULL: none. */
struct object_row *row_index_after(const struct row_index *x, const struct object_row *probe, bool or_equal);
struct object_row *row_index_before(const struct row_index *x, const struct object_row *probe, bool or_equal);

#endif
