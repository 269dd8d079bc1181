/* SPDX-License-Identifier: Apache-2.0
 *
 * CreateTopic of a fork. The proposer knows the source's batches and says where the fork begins; what may have changed
 * since, the source's start and whether it lives, is looked at here. A fork at or above the source's start of this very
 * moment shows nothing that a trim before it took away, and holds from now on what it shows.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "storaged/meta/apply.h"

static bool owns_all(const struct state_topic *t, uint32_t node)
{
	for (uint32_t i = 0; i < t->n_partitions; i++)
		if (t->partition[i].owner != node)
			return false;
	return true;
}

static void check_point(const struct state_topic *source, uint32_t partition, const Meta__CreateTopic *c,
			Meta__Result__One *one)
{
	const Meta__Fork__Point *p = c->fork->points[partition];
	const uint64_t start = source->partition[partition].start;
	if (p->offset < start)
		apply_refuse(one, PICO_OUT_OF_RANGE, "%s begins at offset %" PRIu64 "; %" PRIu64 " was trimmed", source->name,
			     start, p->offset);
	else if (p->parent_end == STATE_PARENT_END_UNKNOWN)
		apply_refuse(one, PICO_UNAVAILABLE, "%s was deleted just now; try again", c->name);
	else if (p->parent_end > p->offset)
		apply_refuse(one, PICO_BAD_REQUEST, "a fork at offset %" PRIu64 " reads its source below %" PRIu64,
			     p->offset, p->parent_end);
	else if (p->parent_end < p->offset && partition > 0)
		apply_refuse(one, PICO_BAD_REQUEST, "first records go to partition 0; another is forked between batches");
	else if (p->parent_end < p->offset && !c->initial)
		apply_refuse(one, PICO_BAD_REQUEST, "records [%" PRIu64 ", %" PRIu64 ") have to be copied as first records",
			     p->parent_end, p->offset);
}

static void check_points(const struct state_topic *source, const Meta__CreateTopic *c, Meta__Result__One *one)
{
	if (c->fork->sub_offset != 0 && !c->initial)
		apply_refuse(one, PICO_BAD_REQUEST, "the piece that a sub-offset names is copied as first records");
	else if (c->partitions != 0 && c->partitions != source->n_partitions)
		apply_refuse(one, PICO_BAD_REQUEST, "a fork of %s has its %" PRIu32 " partitions, not %" PRIu32, source->name,
			     source->n_partitions, c->partitions);
	else if (c->fork->n_points != source->n_partitions)
		apply_refuse(one, PICO_UNAVAILABLE, "%s has %" PRIu32 " partitions by now, not %zu; try again", source->name,
			     source->n_partitions, c->fork->n_points);
	for (uint32_t i = 0; i < c->fork->n_points && one->error == PICO_OK; i++)
		check_point(source, i, c, one);
}

const struct state_topic *apply_fork_source(const struct state *s, const struct sql_row *row, const Meta__CreateTopic *c,
					    Meta__Result__One *one)
{
	const ProtobufCBinaryData *id = &c->fork->source;
	const struct state_topic *t = id->len == 16 ? id_hash_find(&s->by_id, id->data) : NULL;
	if (t == NULL)
		apply_refuse(one, PICO_NOT_FOUND, "the stream to fork is not there");
	else if (t->soft_deleted)
		apply_refuse(one, PICO_CONFLICT, "%s was deleted; it is kept for the forks it has", t->name);
	else if (!state_media_type_equal(t->content_type, c->content_type))
		apply_refuse(one, PICO_CONFLICT, "%s holds %s; so does a fork of it, not %s", t->name, t->content_type,
			     c->content_type);
	else if (c->n_owners != 0)
		apply_refuse(one, PICO_BAD_REQUEST, "a fork lives where its source does; owners cannot be named");
	else if (!owns_all(t, row->node))
		apply_refuse(one, PICO_NOT_OWNER, "node %" PRIu32 " does not own all of %s", row->node, t->name);
	else if (state_fork_depth(t) >= STATE_FORK_DEPTH_MAX)
		apply_refuse(one, PICO_BAD_REQUEST, "a fork has at most %d sources above it", STATE_FORK_DEPTH_MAX);
	else
		check_points(t, c, one);
	return one->error == PICO_OK ? t : NULL;
}

void apply_fork_fill(const struct state_topic *source, const Meta__CreateTopic *c, Meta__TopicEntity *e)
{
	e->source = c->fork->source;
	e->fork_sub_offset = c->fork->sub_offset;
	e->fork_at_tail = c->fork->at_tail;
	for (uint32_t i = 0; i < source->n_partitions; i++) {
		e->partitions[i]->owner = source->partition[i].owner;
		e->partitions[i]->start = source->partition[i].start;
		e->partitions[i]->parent_log = source->partition[i].log_id;
		e->partitions[i]->parent_end = c->fork->points[i]->parent_end;
		e->partitions[i]->fork_offset = c->fork->points[i]->offset;
	}
}

void apply_fork_compare(const struct state_topic *t, const Meta__CreateTopic *c, Meta__Result__One *one)
{
	const struct state_topic *source = state_topic_source(t);
	if (source == NULL && c->fork != NULL)
		apply_refuse(one, PICO_CONFLICT, "%s exists and is no fork", t->name);
	else if (source != NULL && (c->fork == NULL || !state_fork_is_same(t, c->fork)))
		apply_refuse(one, PICO_CONFLICT, "%s exists as a fork of %s%s", t->name, source->name,
			     c->fork != NULL ? ", or at another offset" : "");
}
