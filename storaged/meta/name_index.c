/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. Blocks are split in half when full; at the right end a new block is begun instead, so
 * that names created in order fill their blocks. A block that runs empty is freed, and one that fits into its
 * left neighbour is joined to it.
 */
#include "storaged/meta/name_index.h"

#include <stdlib.h>

#include "common/must.h"

#define BLOCK_TOPICS 128

struct name_block {
	size_t n;
	struct state_topic *topic[BLOCK_TOPICS];
};

void name_index_init(struct name_index *x, const char *(*name)(const struct state_topic *t))
{
	*x = (struct name_index){ .name = name };
}

void name_index_done(struct name_index *x)
{
	for (size_t i = 0; i < x->n_blocks; i++)
		free(x->block[i]);
	free(x->block);
	*x = (struct name_index){ .name = x->name };
}

static int compare(const struct name_index *x, struct slice name, const struct state_topic *t)
{
	return slice_cmp(name, slice_str(x->name(t)));
}

/* The last block whose first name is <= name; the first one when there is none. */
static size_t find_block(const struct name_index *x, struct slice name)
{
	size_t low = 0, high = x->n_blocks;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (compare(x, name, x->block[middle]->topic[0]) >= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The first place in b whose name is >= name (or > name). */
static size_t find_place(const struct name_index *x, const struct name_block *b, struct slice name, bool greater)
{
	size_t low = 0, high = b->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int c = compare(x, name, b->topic[middle]);
		if (c > 0 || (c == 0 && greater))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct state_topic *name_index_find(const struct name_index *x, struct slice name)
{
	if (x->n_blocks == 0)
		return NULL;
	const struct name_block *b = x->block[find_block(x, name)];
	size_t i = find_place(x, b, name, false);
	return i < b->n && compare(x, name, b->topic[i]) == 0 ? b->topic[i] : NULL;
}

struct state_topic *name_index_next(const struct name_index *x, struct slice after)
{
	if (x->n_blocks == 0)
		return NULL;
	size_t k = find_block(x, after);
	size_t i = find_place(x, x->block[k], after, true);
	if (i < x->block[k]->n)
		return x->block[k]->topic[i];
	return k + 1 < x->n_blocks ? x->block[k + 1]->topic[0] : NULL;
}

static struct name_block *insert_block(struct name_index *x, size_t k)
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

static void remove_block(struct name_index *x, size_t k)
{
	free(x->block[k]);
	x->n_blocks--;
	memmove(&x->block[k], &x->block[k + 1], (x->n_blocks - k) * sizeof(x->block[0]));
}

/* Makes room for place i of the full block k; says where it is now. */
static void split_block(struct name_index *x, size_t *k, size_t *i)
{
	struct name_block *left = x->block[*k];
	bool at_end = *k + 1 == x->n_blocks && *i == left->n;
	size_t keep = at_end ? left->n : left->n / 2;
	struct name_block *right = insert_block(x, *k + 1);
	right->n = left->n - keep;
	memcpy(right->topic, left->topic + keep, right->n * sizeof(right->topic[0]));
	left->n = keep;
	if (*i > keep || at_end) {
		*k += 1;
		*i -= keep;
	}
}

void name_index_add(struct name_index *x, struct state_topic *t)
{
	struct slice name = slice_str(x->name(t));
	if (x->n_blocks == 0)
		insert_block(x, 0);
	size_t k = find_block(x, name);
	size_t i = find_place(x, x->block[k], name, false);
	must(i == x->block[k]->n || compare(x, name, x->block[k]->topic[i]) != 0);
	if (x->block[k]->n == BLOCK_TOPICS)
		split_block(x, &k, &i);
	struct name_block *b = x->block[k];
	memmove(&b->topic[i + 1], &b->topic[i], (b->n - i) * sizeof(b->topic[0]));
	b->topic[i] = t;
	b->n++;
	x->n++;
}

static void join_block(struct name_index *x, size_t k)
{
	struct name_block *left = x->block[k - 1], *right = x->block[k];
	if (left->n + right->n > BLOCK_TOPICS / 2)
		return;
	memcpy(left->topic + left->n, right->topic, right->n * sizeof(right->topic[0]));
	left->n += right->n;
	remove_block(x, k);
}

void name_index_remove(struct name_index *x, const struct state_topic *t)
{
	struct slice name = slice_str(x->name(t));
	must(x->n_blocks > 0);
	size_t k = find_block(x, name);
	struct name_block *b = x->block[k];
	size_t i = find_place(x, b, name, false);
	must(i < b->n && b->topic[i] == t);
	b->n--;
	memmove(&b->topic[i], &b->topic[i + 1], (b->n - i) * sizeof(b->topic[0]));
	x->n--;
	if (b->n == 0)
		remove_block(x, k);
	else if (k > 0)
		join_block(x, k);
}
