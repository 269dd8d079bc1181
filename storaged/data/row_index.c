/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. A full block is split in half; at the right end a new one is begun instead, so that rows that come in
 * order fill their blocks. A block that runs empty is freed, and one that fits into its left neighbour twice over is
 * joined to it.
 */
#include "storaged/data/row_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"

#define BLOCK_ROWS 256

struct row_block {
	size_t n;
	struct object_row *row[BLOCK_ROWS];
};

void row_index_init(struct row_index *x, int (*compare)(const struct object_row *a, const struct object_row *b))
{
	*x = (struct row_index){ .compare = compare };
}

void row_index_done(struct row_index *x)
{
	for (size_t i = 0; i < x->n_blocks; i++)
		free(x->block[i]);
	free(x->block);
	*x = (struct row_index){ .compare = x->compare };
}

/* The last block whose first row is <= probe; the first one when there is none. */
static size_t find_block(const struct row_index *x, const struct object_row *probe)
{
	size_t low = 0, high = x->n_blocks;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (x->compare(probe, x->block[middle]->row[0]) >= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* How many rows of b are < probe (or <= it). */
static size_t find_place(const struct row_index *x, const struct row_block *b, const struct object_row *probe,
			 bool or_equal)
{
	size_t low = 0, high = b->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int c = x->compare(probe, b->row[middle]);
		if (c > 0 || (c == 0 && or_equal))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct object_row *row_index_after(const struct row_index *x, const struct object_row *probe, bool or_equal)
{
	if (x->n_blocks == 0)
		return NULL;
	size_t k = find_block(x, probe);
	size_t i = find_place(x, x->block[k], probe, !or_equal);
	if (i < x->block[k]->n)
		return x->block[k]->row[i];
	return k + 1 < x->n_blocks ? x->block[k + 1]->row[0] : NULL;
}

struct object_row *row_index_before(const struct row_index *x, const struct object_row *probe, bool or_equal)
{
	if (x->n_blocks == 0)
		return NULL;
	size_t k = find_block(x, probe);
	size_t i = find_place(x, x->block[k], probe, or_equal);
	if (i > 0)
		return x->block[k]->row[i - 1];
	return k > 0 ? x->block[k - 1]->row[x->block[k - 1]->n - 1] : NULL;
}

static struct row_block *insert_block(struct row_index *x, size_t k)
{
	if (x->n_blocks == x->capacity) {
		x->capacity = x->capacity == 0 ? 16 : 2 * x->capacity;
		x->block = must_realloc(x->block, x->capacity * sizeof(x->block[0]));
	}
	memmove(&x->block[k + 1], &x->block[k], (x->n_blocks - k) * sizeof(x->block[0]));
	x->block[k] = must_calloc(1, sizeof(*x->block[k]));
	x->n_blocks++;
	return x->block[k];
}

static void remove_block(struct row_index *x, size_t k)
{
	free(x->block[k]);
	x->n_blocks--;
	memmove(&x->block[k], &x->block[k + 1], (x->n_blocks - k) * sizeof(x->block[0]));
}

/* Makes room for place i of the full block k; says where it is now. */
static void split_block(struct row_index *x, size_t *k, size_t *i)
{
	struct row_block *left = x->block[*k];
	bool at_end = *k + 1 == x->n_blocks && *i == left->n;
	size_t keep = at_end ? left->n : left->n / 2;
	struct row_block *right = insert_block(x, *k + 1);
	right->n = left->n - keep;
	memcpy(right->row, left->row + keep, right->n * sizeof(right->row[0]));
	left->n = keep;
	if (*i > keep || at_end) {
		*k += 1;
		*i -= keep;
	}
}

void row_index_add(struct row_index *x, struct object_row *row)
{
	if (x->n_blocks == 0)
		insert_block(x, 0);
	size_t k = find_block(x, row);
	size_t i = find_place(x, x->block[k], row, false);
	must(i == x->block[k]->n || x->compare(row, x->block[k]->row[i]) != 0);
	if (x->block[k]->n == BLOCK_ROWS)
		split_block(x, &k, &i);
	struct row_block *b = x->block[k];
	memmove(&b->row[i + 1], &b->row[i], (b->n - i) * sizeof(b->row[0]));
	b->row[i] = row;
	b->n++;
	x->n++;
}

static void join_block(struct row_index *x, size_t k)
{
	struct row_block *left = x->block[k - 1], *right = x->block[k];
	if (left->n + right->n > BLOCK_ROWS / 2)
		return;
	memcpy(left->row + left->n, right->row, right->n * sizeof(right->row[0]));
	left->n += right->n;
	remove_block(x, k);
}

void row_index_remove(struct row_index *x, const struct object_row *row)
{
	must(x->n_blocks > 0);
	size_t k = find_block(x, row);
	struct row_block *b = x->block[k];
	size_t i = find_place(x, b, row, false);
	must(i < b->n && b->row[i] == row);
	b->n--;
	memmove(&b->row[i], &b->row[i + 1], (b->n - i) * sizeof(b->row[0]));
	x->n--;
	if (b->n == 0)
		remove_block(x, k);
	else if (k > 0)
		join_block(x, k);
}
