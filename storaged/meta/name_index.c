/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of names, and what makes of an index one by name.
 */
#include "storaged/meta/name_index.h"

static int compare(const struct sorted_index *x, const void *probe, const void *item)
{
	const struct name_index *names = (const struct name_index *)x;
	return slice_cmp(*(const struct slice *)probe, slice_str(names->name(item)));
}

void name_index_init(struct name_index *x, const char *(*name)(const struct state_topic *t))
{
	sorted_index_init(&x->topics, compare);
	x->name = name;
}

void name_index_done(struct name_index *x)
{
	sorted_index_done(&x->topics);
}

struct state_topic *name_index_find(const struct name_index *x, struct slice name)
{
	struct state_topic *t = sorted_index_after(&x->topics, &name, true);
	return t != NULL && compare(&x->topics, &name, t) == 0 ? t : NULL;
}

struct state_topic *name_index_next(const struct name_index *x, struct slice after)
{
	return sorted_index_after(&x->topics, &after, false);
}

void name_index_add(struct name_index *x, struct state_topic *t)
{
	struct slice name = slice_str(x->name(t));
	sorted_index_add(&x->topics, &name, t);
}

void name_index_remove(struct name_index *x, const struct state_topic *t)
{
	struct slice name = slice_str(x->name(t));
	sorted_index_remove(&x->topics, &name, t);
}
