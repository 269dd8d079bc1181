/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. A full block is split in half; at the right end a new one is begun instead, so that items that come in
 * order fill their blocks. A block that runs empty is freed, and one that fits into its left neighbour twice over is
 * joined to it.
 */
#include "storaged/data/sorted_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"

#define BLOCK_ITEMS 256

struct sorted_block {
	size_t n;
	void *item[BLOCK_ITEMS];
};

void sorted_index_init(struct sorted_index *x, sorted_compare *compare)
{
	*x = (struct sorted_index){ .compare = compare };
}

void sorted_index_done(struct sorted_index *x)
{
	for (size_t i = 0; i < x->n_blocks; i++)
		free(x->block[i]);
	free(x->block);
	*x = (struct sorted_index){ .compare = x->compare };
}

/* The last block whose first item is <= probe; the first one when there is none. */
static size_t find_block(const struct sorted_index *x, const void *probe)
{
	size_t low = 0, high = x->n_blocks;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (x->compare(x, probe, x->block[middle]->item[0]) >= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* How many items of b are < probe (or <= it). */
static size_t find_place(const struct sorted_index *x, const struct sorted_block *b, const void *probe,
			 bool or_equal)
{
	size_t low = 0, high = b->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int c = x->compare(x, probe, b->item[middle]);
		if (c > 0 || (c == 0 && or_equal))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void *sorted_index_after(const struct sorted_index *x, const void *probe, bool or_equal)
{
	if (x->n_blocks == 0)
		return NULL;
	size_t k = find_block(x, probe);
	size_t i = find_place(x, x->block[k], probe, !or_equal);
	if (i < x->block[k]->n)
		return x->block[k]->item[i];
	return k + 1 < x->n_blocks ? x->block[k + 1]->item[0] : NULL;
}

void *sorted_index_before(const struct sorted_index *x, const void *probe, bool or_equal)
{
	if (x->n_blocks == 0)
		return NULL;
	size_t k = find_block(x, probe);
	size_t i = find_place(x, x->block[k], probe, or_equal);
	if (i > 0)
		return x->block[k]->item[i - 1];
	return k > 0 ? x->block[k - 1]->item[x->block[k - 1]->n - 1] : NULL;
}

static struct sorted_block *insert_block(struct sorted_index *x, size_t k)
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

static void remove_block(struct sorted_index *x, size_t k)
{
	free(x->block[k]);
	x->n_blocks--;
	memmove(&x->block[k], &x->block[k + 1], (x->n_blocks - k) * sizeof(x->block[0]));
}

/* Makes room for place i of the full block k; says where it is now. */
static void split_block(struct sorted_index *x, size_t *k, size_t *i)
{
	struct sorted_block *left = x->block[*k];
	bool at_end = *k + 1 == x->n_blocks && *i == left->n;
	size_t keep = at_end ? left->n : left->n / 2;
	struct sorted_block *right = insert_block(x, *k + 1);
	right->n = left->n - keep;
	memcpy(right->item, left->item + keep, right->n * sizeof(right->item[0]));
	left->n = keep;
	if (*i > keep || at_end) {
		*k += 1;
		*i -= keep;
	}
}

void sorted_index_add(struct sorted_index *x, const void *probe, void *item)
{
	if (x->n_blocks == 0)
		insert_block(x, 0);
	size_t k = find_block(x, probe);
	size_t i = find_place(x, x->block[k], probe, false);
	must(i == x->block[k]->n || x->compare(x, probe, x->block[k]->item[i]) != 0);
	if (x->block[k]->n == BLOCK_ITEMS)
		split_block(x, &k, &i);
	struct sorted_block *b = x->block[k];
	memmove(&b->item[i + 1], &b->item[i], (b->n - i) * sizeof(b->item[0]));
	b->item[i] = item;
	b->n++;
	x->n++;
}

static void join_block(struct sorted_index *x, size_t k)
{
	struct sorted_block *left = x->block[k - 1], *right = x->block[k];
	if (left->n + right->n > BLOCK_ITEMS / 2)
		return;
	memcpy(left->item + left->n, right->item, right->n * sizeof(right->item[0]));
	left->n += right->n;
	remove_block(x, k);
}

void sorted_index_remove(struct sorted_index *x, const void *probe, const void *item)
{
	must(x->n_blocks > 0);
	size_t k = find_block(x, probe);
	struct sorted_block *b = x->block[k];
	size_t i = find_place(x, b, probe, false);
	must(i < b->n && b->item[i] == item);
	b->n--;
	memmove(&b->item[i], &b->item[i + 1], (b->n - i) * sizeof(b->item[0]));
	x->n--;
	if (b->n == 0)
		remove_block(x, k);
	else if (k > 0)
		join_block(x, k);
}
