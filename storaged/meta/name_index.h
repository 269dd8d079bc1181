/* SPDX-License-Identifier: Apache-2.0
 *
 * Topics in order of a name: a sorted array of sorted blocks of pointers, 8 to 16 bytes a topic. A step
 * costs two binary searches; an insertion moves at most one block's pointers, and rarely the array of blocks
 * (8 KiB for 100,000 topics). Names are C strings in the topics; order is that of their bytes.
 */
#ifndef STORAGED_META_NAME_INDEX_H
#define STORAGED_META_NAME_INDEX_H

#include "common/slice.h"

struct state_topic;
struct name_block;

struct name_index {
	const char *(*name)(const struct state_topic *t);
	struct name_block **block;      /* owned, none empty */
	size_t n_blocks, capacity;
	size_t n;                       /* topics in all */
};

void name_index_init(struct name_index *x, const char *(*name)(const struct state_topic *t));
void name_index_done(struct name_index *x);

struct state_topic *name_index_find(const struct name_index *x, struct slice name);
/* The first topic whose name is greater; NULL at the end. */
struct state_topic *name_index_next(const struct name_index *x, struct slice after);

/* No topic of that name is in it. */
void name_index_add(struct name_index *x, struct state_topic *t);
/* t is in it. */
void name_index_remove(struct name_index *x, const struct state_topic *t);

#endif
