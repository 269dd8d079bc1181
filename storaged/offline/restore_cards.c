/* SPDX-License-Identifier: Apache-2.0
 *
 * What logs say of their topics, against what the export knows. Each frame and entry with a card was written by a node whose
 * state had that topic. So:
 *
 *   A topic that the export does not have was made after it; one that it has in an older version was changed after it.
 *   Of two topics of one name, which is never changed, the one whose logs are younger has it: the other was deleted.
 *   A fork's source was there when it was made. One that nothing else tells of is made up, for the logs that are read.
 *
 * Afterwards the state is the one with all of them: what follows asks it where logs begin and what they were forked from.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/log_card.h"
#include "storaged/meta/snapshot.h"
#include "storaged/offline/restore_priv.h"

static void card_add(struct restoring *r, uint64_t end, Meta__LogCard *card)
{
	if ((r->n_cards & (r->n_cards - 1)) == 0)
		r->card = must_realloc(r->card, (r->n_cards == 0 ? 1 : 2 * r->n_cards) * sizeof(*r->card));
	r->card[r->n_cards++] = (struct r_card){ .log_id = log_card_log(card), .end = end, .card = card };
	if (card->topic->created_ms > r->newest_ms)
		r->newest_ms = card->topic->created_ms;
}

/* Sources have cards of their own then: at the fork's end, of which nothing follows but an order. */
const char *restore_card_add(struct restoring *r, uint64_t log_id, uint64_t end, ProtobufCBinaryData bytes)
{
	if (bytes.len == 0)
		return NULL;
	Meta__LogCard *card = log_card_decode(slice_of(bytes.data, bytes.len), log_id);
	if (card == NULL)
		return "what it says of a log's topic is malformed";
	for (size_t i = 0; i < card->n_sources; i++)
		card_add(r, end, card->sources[i]);
	card->n_sources = 0;
	free(card->sources);
	card->sources = NULL;
	card_add(r, end, card);
	return NULL;
}

/* ------------------------------------------------------------------- topics */

/* Topics one behind the other; of one the newest word first. */
static int compare_cards(const void *a, const void *b)
{
	const struct r_card *x = a, *y = b;
	const Meta__TopicEntity *s = x->card->topic, *t = y->card->topic;
	int c = memcmp(s->topic_id.data, t->topic_id.data, 16);
	if (c != 0)
		return c;
	if (s->settings_version != t->settings_version)
		return s->settings_version > t->settings_version ? -1 : 1;
	if (s->soft_deleted != t->soft_deleted)
		return s->soft_deleted ? -1 : 1;
	if (x->log_id != y->log_id)
		return x->log_id < y->log_id ? -1 : 1;
	return (y->end > x->end) - (y->end < x->end);
}

static int compare_topics(const void *a, const void *b)
{
	const struct r_topic *x = a, *y = b;
	return memcmp(x->e->topic_id.data, y->e->topic_id.data, 16);
}

struct r_topic *restore_topic(const struct restoring *r, ProtobufCBinaryData id)
{
	size_t low = 0, high = r->n_topics;
	while (low < high && id.len == 16) {
		size_t middle = low + (high - low) / 2;
		int c = memcmp(r->topic[middle].e->topic_id.data, id.data, 16);
		if (c == 0)
			return &r->topic[middle];
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static void partitions_extend(Meta__TopicEntity *t, size_t n)
{
	if (n <= t->n_partitions)
		return;
	t->partitions = must_realloc(t->partitions, n * sizeof(*t->partitions));
	for (; t->n_partitions < n; t->n_partitions++) {
		Meta__PartitionEntity *p = must_calloc(1, sizeof(*p));
		meta__partition_entity__init(p);        /* log id 0: not known yet */
		t->partitions[t->n_partitions] = p;
	}
}

static void partition_take(Meta__PartitionEntity *to, const Meta__PartitionEntity *from)
{
	if (to->log_id == 0)
		*to = *from;
	if (to->log_id != from->log_id)
		return;
	to->start = to->start > from->start ? to->start : from->start;
	to->closed = to->closed || from->closed;
}

static void partitions_take(Meta__TopicEntity *t, const Meta__LogCard *card)
{
	bool all = card->topic->n_partitions == card->n_partitions;
	partitions_extend(t, card->n_partitions);
	for (size_t i = 0; i < card->topic->n_partitions; i++)
		partition_take(t->partitions[all ? i : card->partition], card->topic->partitions[i]);
}

/* Everything but the partitions changes hands. */
static void settings_swap(Meta__TopicEntity *a, Meta__TopicEntity *b)
{
	Meta__TopicEntity old = *a;
	*a = *b;
	a->n_partitions = old.n_partitions;
	a->partitions = old.partitions;
	old.n_partitions = b->n_partitions;
	old.partitions = b->partitions;
	*b = old;
}

/* At the end, out of order until all are taken. */
static struct r_topic *topic_new(struct restoring *r)
{
	r->topic = must_realloc(r->topic, (r->n_topics + 1) * sizeof(*r->topic));
	struct r_topic *t = &r->topic[r->n_topics++];
	*t = (struct r_topic){ .e = must_calloc(1, sizeof(*t->e)), .is_new = true };
	meta__topic_entity__init(t->e);
	return t;
}

/* All cards of one topic, the newest first; the topic of the export, or NULL. What was deleted before it stays so. */
static void topic_take(struct restoring *r, const struct r_card *c, size_t n, struct r_topic *t)
{
	Meta__TopicEntity *newest = c[0].card->topic;
	if (t == NULL && c[0].log_id < r->cluster->next_log_id)
		return;
	if (t == NULL)
		t = topic_new(r);
	size_t n_partitions = t->e->n_partitions;
	bool soft_deleted = t->e->soft_deleted || newest->soft_deleted;
	for (size_t i = 0; i < n; i++) {
		partitions_take(t->e, c[i].card);
		t->youngest = t->youngest > c[i].log_id ? t->youngest : c[i].log_id;
	}
	t->is_changed = t->e->n_partitions > n_partitions || t->e->settings_version < newest->settings_version;
	if (t->e->settings_version < newest->settings_version)
		settings_swap(t->e, newest);
	t->e->soft_deleted = soft_deleted;
}

static void topics_sort(struct restoring *r)
{
	if (r->n_topics > 0)
		qsort(r->topic, r->n_topics, sizeof(*r->topic), compare_topics);
}

static void topics_take(struct restoring *r)
{
	size_t n_exported = r->n_topics, n_all;
	topics_sort(r);
	if (r->n_cards > 0)
		qsort(r->card, r->n_cards, sizeof(*r->card), compare_cards);
	for (size_t i = 0, end; i < r->n_cards; i = end) {
		const ProtobufCBinaryData id = r->card[i].card->topic->topic_id;
		for (end = i + 1; end < r->n_cards && memcmp(id.data, r->card[end].card->topic->topic_id.data, 16) == 0; end++)
			;
		n_all = r->n_topics;
		r->n_topics = n_exported;       /* those are in order */
		struct r_topic *t = restore_topic(r, id);
		r->n_topics = n_all;
		topic_take(r, &r->card[i], end - i, t);
	}
	topics_sort(r);
}

/* --------------------------------------------------------------------- names */

/* Who came first after the export, and by youngest log: whose word of a name is the newer one stands in front. */
static int newer_first(const struct r_topic *x, const struct r_topic *y)
{
	bool a = x->is_new || x->is_changed, b = y->is_new || y->is_changed;
	if (a != b)
		return a ? -1 : 1;
	return (y->youngest > x->youngest) - (y->youngest < x->youngest);
}

static int compare_names(const void *a, const void *b)
{
	const struct r_topic *x = *(struct r_topic *const *)a, *y = *(struct r_topic *const *)b;
	int c = strcmp(x->e->name, y->e->name);
	return c != 0 ? c : newer_first(x, y);
}

static int compare_aliases(const void *a, const void *b)
{
	const struct r_topic *x = *(struct r_topic *const *)a, *y = *(struct r_topic *const *)b;
	int c = strcmp(x->e->kafka_topic, y->e->kafka_topic);
	return c != 0 ? c : newer_first(x, y);
}

static void names_settle(struct restoring *r)
{
	struct r_topic **sorted = must_calloc(r->n_topics + 1, sizeof(*sorted));
	size_t n = 0;
	for (size_t i = 0; i < r->n_topics; i++)
		sorted[i] = &r->topic[i];
	qsort(sorted, r->n_topics, sizeof(*sorted), compare_names);
	for (size_t i = 1; i < r->n_topics; i++) {
		sorted[i]->gone = strcmp(sorted[i]->e->name, sorted[i - 1]->e->name) == 0;
		if (sorted[i]->gone)
			restore_say(r, "an older %s was deleted after the export: there is a younger one", sorted[i]->e->name);
	}
	restore_gone_spread(r);
	for (size_t i = 0; i < r->n_topics; i++)
		if (!r->topic[i].gone && r->topic[i].e->kafka_topic[0] != '\0')
			sorted[n++] = &r->topic[i];
	qsort(sorted, n, sizeof(*sorted), compare_aliases);
	for (size_t i = n; i > 1; i--)
		if (strcmp(sorted[i - 1]->e->kafka_topic, sorted[i - 2]->e->kafka_topic) == 0) {
			restore_say(r, "%s had the Kafka name %s, which %s has now", sorted[i - 1]->e->name,
				    sorted[i - 1]->e->kafka_topic, sorted[i - 2]->e->name);
			sorted[i - 1]->e->kafka_topic[0] = '\0';
		}
	free(sorted);
}

/* ---------------------------------------------------------------------- forks */

void restore_gone_spread(struct restoring *r)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < r->n_topics; i++)
			r->topic[i].n_forks = 0;
		for (size_t i = 0; i < r->n_topics; i++) {
			struct r_topic *t = &r->topic[i], *source = restore_topic(r, t->e->source);
			if (!t->gone && source != NULL && source->gone)
				t->gone = changed = true;
			else if (!t->gone && source != NULL)
				source->n_forks++;
		}
		for (size_t i = 0; i < r->n_topics; i++) {
			struct r_topic *t = &r->topic[i];
			if (!t->gone && t->e->soft_deleted && t->n_forks == 0)
				t->gone = changed = true;
		}
	}
}

/* Its source, as far as its own partitions tell. */
static void source_make_up(struct restoring *r, const Meta__TopicEntity *fork)
{
	struct r_topic *t = topic_new(r);
	char name[64];
	snprintf(name, sizeof(name), RESTORE_PREFIX "%016" PRIx64, fork->partitions[0]->parent_log);
	t->e->topic_id = (ProtobufCBinaryData){ .len = 16, .data = must_memdup(fork->source.data, 16) };
	t->e->name = must_strdup(name);
	t->e->content_type = must_strdup(fork->content_type);
	t->e->settings_version = 1;
	t->e->created_ms = fork->created_ms;
	t->e->soft_deleted = t->is_made_up = true;
	restore_say(r, "%s was forked from a topic that nothing in the store names: it is %s", fork->name, name);
}

/* The logs that a fork reads are its source's. */
static void source_fill(const struct restoring *r, struct r_topic *source, const Meta__TopicEntity *fork)
{
	for (size_t i = 0; i < fork->n_partitions; i++) {
		const Meta__PartitionEntity *p = fork->partitions[i];
		if (p->parent_log == 0)
			continue;
		partitions_extend(source->e, i + 1);
		if (source->is_made_up && restore_log(r, p->parent_log) != NULL)
			source->e->soft_deleted = false;        /* there are records of it: somebody shall see them */
		if (source->e->partitions[i]->log_id == 0) {
			source->e->partitions[i]->log_id = p->parent_log;
			source->e->partitions[i]->owner = p->owner;
			source->e->partitions[i]->epoch = p->epoch;
		}
	}
}

static const Meta__TopicEntity *fork_without_source(const struct restoring *r)
{
	for (size_t i = 0; i < r->n_topics; i++) {
		const struct r_topic *t = &r->topic[i];
		if (!t->gone && t->e->source.len == 16 && restore_topic(r, t->e->source) == NULL)
			return t->e;
	}
	return NULL;
}

static void sources_find(struct restoring *r)
{
	const Meta__TopicEntity *fork;
	while ((fork = fork_without_source(r)) != NULL) {
		source_make_up(r, fork);
		topics_sort(r);
	}
	for (size_t i = 0; i < r->n_topics; i++) {
		struct r_topic *source = restore_topic(r, r->topic[i].e->source);
		if (!r->topic[i].gone && source != NULL)
			source_fill(r, source, r->topic[i].e);
	}
}

/* ----------------------------------------------------------------- partitions */

static uint64_t next_log_id(const struct restoring *r)
{
	uint64_t next = r->cluster->next_log_id;
	for (size_t i = 0; i < r->n_logs; i++)
		next = r->log[i].id >= next ? r->log[i].id + 1 : next;
	for (size_t i = 0; i < r->n_topics; i++)
		for (size_t p = 0; p < r->topic[i].e->n_partitions; p++)
			if (r->topic[i].e->partitions[p]->log_id >= next)
				next = r->topic[i].e->partitions[p]->log_id + 1;
	return next;
}

/* Partitions without a record have no log that anybody knows: a new one each. */
static void partitions_fill(struct restoring *r, Meta__TopicEntity *t)
{
	size_t n_parents = t->n_partitions, known = 0;
	const struct r_topic *source = restore_topic(r, t->source);
	if (source != NULL)
		partitions_fill(r, source->e);
	while (n_parents > 0 && t->partitions[n_parents - 1]->parent_log == 0)
		n_parents--;
	while (known + 1 < t->n_partitions && t->partitions[known]->log_id == 0)
		known++;
	for (size_t i = 0; i < t->n_partitions; i++) {
		Meta__PartitionEntity *p = t->partitions[i];
		if (p->log_id != 0)
			continue;
		p->log_id = r->cluster->next_log_id++;
		p->owner = t->partitions[known]->owner;
		if (i < n_parents)      /* where its point was is not known: it shows its own alone */
			p->parent_log = source->e->partitions[i]->log_id;
	}
}

/* ------------------------------------------------------------------------ all */

/* Cluster and topics alone: nobody asks it for more. */
static bool state_make(struct restoring *r)
{
	for (size_t i = 0; i < r->n_topics; i++)
		if (!r->topic[i].gone)
			restore_emit_topic(r, r->topic[i].e);
	restore_emit_cluster(r);
	r->topics_now = state_new();
	bool ok = state_load(r->topics_now, r->idx, r->out->entity, r->out->n_entities) == 0;
	restored_forget(r->out);
	return ok || restore_fail(r, "what logs say of their topics does not fit together; nothing was written. Please report "
				  "this, with the names of the objects in the store");
}

bool restore_cards(struct restoring *r)
{
	r->exported_log_id = r->cluster->next_log_id;
	topics_take(r);
	names_settle(r);
	sources_find(r);
	r->cluster->next_log_id = next_log_id(r);
	for (size_t i = 0; i < r->n_topics; i++)
		if (!r->topic[i].gone)
			partitions_fill(r, r->topic[i].e);
	return state_make(r);
}
