/* SPDX-License-Identifier: Apache-2.0
 *
 * Topics in order of a name: an index (storaged/data/sorted_index.h) by the bytes of C strings in the topics.
 */
#ifndef STORAGED_META_NAME_INDEX_H
#define STORAGED_META_NAME_INDEX_H

#include "common/slice.h"
#include "storaged/data/sorted_index.h"

struct state_topic;

struct name_index {
	struct sorted_index topics;     /* first */
	const char *(*name)(const struct state_topic *t);
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
