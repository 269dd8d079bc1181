/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. A topic that is a fork or has some owns a state_fork; these are linked among each other, so a topic that
 * is replaced takes its own along and nothing else changes. Partition i of a fork is forked from partition i of its
 * source; those it grew later have no parent.
 */
#include "storaged/meta/state_fork.h"

#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state_priv.h"

struct state_fork {
	struct state_topic *topic;      /* whose it is */
	struct state_fork *source;      /* NULL: no fork, or not linked yet */
	struct state_fork *first;       /* its forks */
	struct state_fork *next, *previous;     /* the source's other forks */
	uint32_t n_forks;
	uint32_t n_parents;             /* 0: no fork */
	uint8_t source_id[16];
	uint64_t sub_offset;
	bool at_tail;
	struct state_parent parent[];
};

/* ---------------------------------------------------------------- questions */

static bool is_fork(const struct state_topic *t)
{
	return t->fork != NULL && t->fork->n_parents > 0;
}

struct state_parent state_partition_parent(const struct state_topic *t, uint32_t partition)
{
	return is_fork(t) && partition < t->fork->n_parents ? t->fork->parent[partition] : (struct state_parent){ 0 };
}

const struct state_topic *state_topic_source(const struct state_topic *t)
{
	return t->fork != NULL && t->fork->source != NULL ? t->fork->source->topic : NULL;
}

uint32_t state_topic_n_forks(const struct state_topic *t)
{
	return t->fork != NULL ? t->fork->n_forks : 0;
}

const struct state_topic *state_topic_next_fork(const struct state_topic *t, const struct state_topic *after)
{
	must(after == NULL || state_topic_source(after) == t);
	const struct state_fork *f = after != NULL ? after->fork->next : t->fork != NULL ? t->fork->first : NULL;
	return f != NULL ? f->topic : NULL;
}

uint32_t state_fork_depth(const struct state_topic *t)
{
	uint32_t depth = 0;
	for (const struct state_topic *x = state_topic_source(t); x != NULL && depth <= STATE_FORK_DEPTH_MAX;
	     x = state_topic_source(x))
		depth++;
	return depth;
}

/* Adds what t and the forks of it show below `bound`. */
static void add_living(const struct state_topic *t, uint32_t partition, uint64_t bound, struct state_living *all)
{
	const uint64_t start = t->partition[partition].start;
	if (!t->soft_deleted && start < bound) {
		all->start = start < all->start ? start : all->start;
		all->end = bound > all->end ? bound : all->end;
	}
	for (const struct state_fork *f = t->fork != NULL ? t->fork->first : NULL; f != NULL; f = f->next)
		if (partition < f->n_parents)
			add_living(f->topic, partition,
				   f->parent[partition].end < bound ? f->parent[partition].end : bound, all);
}

struct state_living state_log_living(const struct state *s, uint64_t log_id)
{
	const struct state_topic *t = log_map_find(&s->by_log, log_id);
	struct state_living all = { UINT64_MAX, 0 };
	if (t != NULL)
		add_living(t, state_partition_index(t, log_id), UINT64_MAX, &all);
	return all;
}

uint64_t state_log_living_start(const struct state *s, uint64_t log_id)
{
	return state_log_living(s, log_id).start;
}

const struct state_topic *state_soft_deleted_by_id(const struct state *s, const uint8_t id[16])
{
	const struct state_topic *t = id_hash_find(&s->by_id, id);
	return t != NULL && t->soft_deleted ? t : NULL;
}

const struct state_topic *state_soft_deleted_find(const struct state *s, struct slice spelling)
{
	const struct state_topic *t = state_find_any(s, spelling);
	return t != NULL && t->soft_deleted ? t : NULL;
}

const struct state_topic *state_topic_next_any(const struct state *s, struct slice start_after)
{
	return name_index_next(&s->by_name, start_after);
}

/* ---------------------------------------------------------------- as messages */

void state_fork_attach(struct state_topic *t, const Meta__TopicEntity *e)
{
	must(t->fork == NULL);
	if (e->source.len == 0)
		return;
	must(e->source.len == 16);
	size_t n = 0;
	while (n < e->n_partitions && e->partitions[n]->parent_log != 0)
		n++;
	struct state_fork *f = must_calloc(1, sizeof(*f) + n * sizeof(f->parent[0]));
	f->topic = t;
	f->n_parents = (uint32_t)n;
	f->sub_offset = e->fork_sub_offset;
	f->at_tail = e->fork_at_tail;
	memcpy(f->source_id, e->source.data, 16);
	for (size_t i = 0; i < n; i++) {
		const Meta__PartitionEntity *p = e->partitions[i];
		f->parent[i] = (struct state_parent){ p->parent_log, p->parent_end, p->fork_offset };
	}
	t->fork = f;
}

void state_fork_fill(const struct state_topic *t, Meta__TopicEntity *e)
{
	if (!is_fork(t))
		return;
	e->source.data = t->fork->source_id;
	e->source.len = 16;
	e->fork_sub_offset = t->fork->sub_offset;
	e->fork_at_tail = t->fork->at_tail;
	for (uint32_t i = 0; i < t->fork->n_parents; i++) {
		e->partitions[i]->parent_log = t->fork->parent[i].log_id;
		e->partitions[i]->parent_end = t->fork->parent[i].end;
		e->partitions[i]->fork_offset = t->fork->parent[i].offset;
	}
}

bool state_fork_is_same(const struct state_topic *t, const Meta__Fork *fork)
{
	if (!is_fork(t) || fork->source.len != 16 || memcmp(t->fork->source_id, fork->source.data, 16) != 0 ||
	    t->fork->sub_offset != fork->sub_offset || t->fork->at_tail != (bool)fork->at_tail)
		return false;
	if (fork->at_tail)
		return true;
	for (size_t i = 0; i < fork->n_points; i++)
		if (i >= t->fork->n_parents || t->fork->parent[i].offset != fork->points[i]->offset)
			return false;
	return fork->n_points == t->fork->n_parents;
}

/* ---------------------------------------------------------------- links */

static struct state_fork *fork_get(struct state_topic *t)
{
	if (t->fork == NULL) {
		t->fork = must_calloc(1, sizeof(*t->fork));
		t->fork->topic = t;
	}
	return t->fork;
}

bool state_fork_link(struct state *s, struct state_topic *t)
{
	if (!is_fork(t))
		return true;
	struct state_topic *source = id_hash_find(&s->by_id, t->fork->source_id);
	if (source == NULL || source == t || source->n_partitions < t->fork->n_parents)
		return false;
	for (uint32_t i = 0; i < t->fork->n_parents; i++)
		if (source->partition[i].log_id != t->fork->parent[i].log_id)
			return false;
	struct state_fork *f = t->fork, *above = fork_get(source);
	must(f->source == NULL);
	f->source = above;
	f->next = above->first;
	if (f->next != NULL)
		f->next->previous = f;
	above->first = f;
	above->n_forks++;
	return true;
}

void state_fork_move(struct state_topic *from, struct state_topic *to)
{
	free(to->fork);
	to->fork = from->fork;
	from->fork = NULL;
	if (to->fork != NULL)
		to->fork->topic = to;
}

void state_fork_unlink(struct state_topic *t)
{
	struct state_fork *f = t->fork;
	if (f == NULL)
		return;
	must(f->n_forks == 0 && f->first == NULL);
	struct state_fork *above = f->source;
	if (above != NULL) {
		if (f->next != NULL)
			f->next->previous = f->previous;
		if (f->previous != NULL)
			f->previous->next = f->next;
		else
			above->first = f->next;
		if (--above->n_forks == 0 && above->n_parents == 0) {
			above->topic->fork = NULL;
			free(above);
		}
	}
	free(f);
	t->fork = NULL;
}

void state_topic_delete(struct state *s, struct state_topic *t, uint64_t idx)
{
	must(!t->soft_deleted);
	if (state_topic_n_forks(t) > 0) {
		state_topic_touch(s, t, idx);
		t->soft_deleted = true;
		s->n_soft_deleted++;
		return;
	}
	while (t != NULL) {
		struct state_topic *source = (struct state_topic *)state_topic_source(t);
		state_topic_drop(s, t, idx);
		t = source != NULL && source->soft_deleted && state_topic_n_forks(source) == 0 ? source : NULL;
	}
}
