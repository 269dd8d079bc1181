/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "storaged/meta/log_card.h"

#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state_priv.h"

/* One topic's part. */
struct draft {
	Meta__LogCard m;
	struct topic_entity topic;
};

static void draft_fill(struct draft *d, const struct state_topic *t, uint32_t partition)
{
	meta__log_card__init(&d->m);
	topic_entity_fill(&d->topic, t);
	d->m.partition = partition < t->n_partitions ? partition : 0;
	d->m.n_partitions = t->n_partitions;
	d->m.topic = &d->topic.e;
	if (t->n_partitions > LOG_CARD_PARTITIONS_MAX) {
		d->topic.e.partitions[0] = d->topic.e.partitions[d->m.partition];
		d->topic.e.n_partitions = 1;
	}
	if (meta__log_card__get_packed_size(&d->m) > LOG_CARD_MAX)
		d->topic.e.n_config = 0;
}

static void drafts_put(struct draft *d, size_t n, struct buf *ret)
{
	Meta__LogCard *sources[STATE_FORK_DEPTH_MAX];
	for (size_t i = 1; i < n; i++)
		sources[i - 1] = &d[i].m;
	d->m.n_sources = n - 1;
	d->m.sources = sources;
	size_t size = meta__log_card__get_packed_size(&d->m);
	uint8_t *to = buf_reserve(ret, size);
	if (to == NULL)
		return;
	meta__log_card__pack(&d->m, to);
	buf_commit(ret, size);
}

uint64_t log_card_encode(const struct state *s, uint64_t log_id, struct buf *ret)
{
	uint32_t partition;
	size_t n = 0;
	const struct state_topic *t = log_map_find(&s->by_log, log_id);
	if (t == NULL || ret == NULL)   /* each append asks that: without a look at the partitions */
		return t != NULL ? t->settings_version : 0;
	partition = state_partition_index(t, log_id);
	struct draft *d = must_calloc(state_fork_depth(t) + 1, sizeof(*d));
	for (const struct state_topic *x = t; x != NULL && n <= STATE_FORK_DEPTH_MAX; x = state_topic_source(x))
		draft_fill(&d[n++], x, partition);
	drafts_put(d, n, ret);
	while (n > 0)
		topic_entity_done(&d[--n].topic);
	free(d);
	return t->settings_version;
}

/* ------------------------------------------------------------------- reading */

static bool topic_is_sound(const Meta__TopicEntity *t)
{
	return t->topic_id.len == 16 && t->name[0] == '/' && t->settings_version > 0 && t->n_config <= STATE_CONFIG_MAX &&
	       (t->source.len == 0 || t->source.len == 16);
}

/* Every partition that it names stands in its place; the log's own is among them. */
static bool partitions_are_sound(const Meta__LogCard *c, uint64_t log_id)
{
	bool all = c->topic->n_partitions == c->n_partitions;
	if (c->n_partitions == 0 || c->n_partitions > STATE_PARTITIONS_MAX || c->partition >= c->n_partitions ||
	    (!all && c->topic->n_partitions != 1))
		return false;
	for (size_t i = 0; i < c->topic->n_partitions; i++) {
		const Meta__PartitionEntity *p = c->topic->partitions[i];
		if (p->log_id == 0 || (p->log_id == log_id) != (!all || i == c->partition) || p->parent_end > p->fork_offset)
			return false;
	}
	return true;
}

static bool card_is_sound(const Meta__LogCard *c, uint64_t log_id)
{
	return c->topic != NULL && topic_is_sound(c->topic) && partitions_are_sound(c, log_id);
}

uint64_t log_card_log(const Meta__LogCard *c)
{
	return c->topic->partitions[c->topic->n_partitions == 1 ? 0 : c->partition]->log_id;
}

static bool sources_are_sound(const Meta__LogCard *c)
{
	for (size_t i = 0; i < c->n_sources; i++) {
		const Meta__LogCard *s = c->sources[i];
		if (s->topic == NULL || s->topic->n_partitions == 0 || s->partition >= s->n_partitions || s->n_sources > 0 ||
		    (s->topic->n_partitions != 1 && s->topic->n_partitions != s->n_partitions) ||
		    !card_is_sound(s, log_card_log(s)))
			return false;
	}
	return true;
}

Meta__LogCard *log_card_decode(struct slice bytes, uint64_t log_id)
{
	Meta__LogCard *c = meta__log_card__unpack(NULL, bytes.n, bytes.p);
	if (c == NULL || (card_is_sound(c, log_id) && sources_are_sound(c)))
		return c;
	meta__log_card__free_unpacked(c, NULL);
	return NULL;
}
