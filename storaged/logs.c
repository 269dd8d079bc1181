/* SPDX-License-Identifier: Apache-2.0
 *
 * Which logs the engine has: those of the topics that live and are owned here, and those of SOFT_DELETED topics that a
 * fork still shows something of. What nobody can be shown any more goes in the turn in which that is applied, for its
 * objects go, too.
 */
#include "storaged/logs.h"

#include <stdlib.h>

#include "storaged/coordinator.h"
#include "storaged/expiry.h"
#include "storaged/planted.h"
#include "storaged/retention.h"

static struct node_topic *topic_find(const struct node *n, const uint8_t id[16])
{
	return id_hash_find(&n->topics, id);
}

struct log *node_log(const struct node *n, const struct state_topic *t, uint32_t partition)
{
	const struct node_topic *nt = topic_find(n, t->id);
	return nt != NULL && partition < nt->n_logs ? nt->log[partition] : NULL;
}

uint64_t node_log_living(const struct node *n, uint64_t log_id)
{
	const struct state *s = meta_state(n->meta);
	uint32_t partition;
	if (!planted(PLANTED_GC_WITHOUT_FORKS))
		return state_log_living_start(s, log_id);
	const struct state_topic *t = state_topic_by_log(s, log_id, &partition);
	return t == NULL || t->soft_deleted ? UINT64_MAX : t->partition[partition].start;
}

/* ----------------------------------------------------------------- more of them */

static struct node_topic *topic_new(const struct state_topic *t)
{
	struct node_topic *nt = must_calloc(1, sizeof(*nt) + t->n_partitions * sizeof(nt->log[0]));
	const struct state_topic *source = state_topic_source(t);
	memcpy(nt->id, t->id, sizeof(nt->id));
	nt->n_logs = t->n_partitions;
	nt->hidden = t->soft_deleted;
	nt->source = source != NULL ? must_memdup(source->id, sizeof(source->id)) : NULL;
	return nt;
}

static void topic_free(struct node_topic *nt)
{
	free(nt->source);
	free(nt);
}

void node_topics_free(struct node *n)
{
	struct node_topic *nt;
	for (size_t at = 0; (nt = id_hash_next(&n->topics, &at)) != NULL;)
		topic_free(nt);
	id_hash_done(&n->topics);
}

/* NULL: it is not ours, or nobody is shown anything of it. */
static struct log *log_add(struct node *n, const struct state_topic *t, uint32_t partition)
{
	const struct state_partition *p = &t->partition[partition];
	const struct state_parent parent = state_partition_parent(t, partition);
	/* A topic created closed with first records closes behind them. */
	bool closed = p->closed || (t->closed && !t->initial);
	if (p->owner != n->config.meta.node ||
	    (t->soft_deleted && state_log_living_start(meta_state(n->meta), p->log_id) == UINT64_MAX))
		return NULL;
	struct log *log = engine_log_add(n->engine, p->log_id, p->epoch, p->start, closed);
	if (parent.log_id != 0)
		engine_log_set_parent(n->engine, log, parent.log_id, parent.end);
	if (t->closing && !closed)
		engine_log_set_closing(log);
	return log;
}

void node_topic_add(struct node *n, const struct state_topic *t)
{
	struct node_topic *nt = topic_new(t);
	for (uint32_t i = 0; i < t->n_partitions; i++)
		nt->log[i] = log_add(n, t, i);
	id_hash_add(&n->topics, nt);
	if (t->soft_deleted)
		return;
	node_retention_note(n, t);
	expiry_add(n, t);
}

void node_topic_grow(struct node *n, const struct state_topic *t)
{
	struct node_topic *old = topic_find(n, t->id), *nt;
	if (old == NULL || old->n_logs >= t->n_partitions)
		return;
	id_hash_remove(&n->topics, old);
	nt = topic_new(t);
	memcpy(nt->log, old->log, old->n_logs * sizeof(nt->log[0]));
	for (uint32_t i = old->n_logs; i < t->n_partitions; i++)
		nt->log[i] = log_add(n, t, i);
	id_hash_add(&n->topics, nt);
	topic_free(old);
}

/* -------------------------------------------------------------------- fewer */

/* What workers have read ahead may be shown no more. */
static void tell_cut(struct node *n)
{
	if (n->events.on_cut != NULL)
		n->events.on_cut(n->arg);
}

static void topic_drop(struct node *n, struct node_topic *nt)
{
	id_hash_remove(&n->topics, nt);
	for (uint32_t i = 0; i < nt->n_logs; i++)
		if (nt->log[i] != NULL)
			engine_log_remove(n->engine, nt->log[i]);
	topic_free(nt);
}

/* Those of a hidden topic that are shown to nobody any more. */
static void hidden_logs_drop(struct node *n, struct node_topic *nt)
{
	for (uint32_t i = 0; i < nt->n_logs; i++) {
		if (nt->log[i] == NULL ||
		    state_log_living_start(meta_state(n->meta), log_id(nt->log[i])) != UINT64_MAX)
			continue;
		engine_log_remove(n->engine, nt->log[i]);
		nt->log[i] = NULL;
	}
}

/* Less is shown of what a topic was forked from: up the chain. NULL: it is no fork. */
static void sources_look(struct node *n, const uint8_t *source)
{
	uint8_t id[16];
	bool is_fork = source != NULL;
	if (is_fork)
		memcpy(id, source, sizeof(id));
	while (is_fork) {
		struct node_topic *nt = topic_find(n, id);
		if (nt == NULL)
			return;
		is_fork = nt->source != NULL;
		if (is_fork)
			memcpy(id, nt->source, sizeof(id));
		if (nt->hidden && state_soft_deleted_by_id(meta_state(n->meta), nt->id) == NULL)
			topic_drop(n, nt);
		else if (nt->hidden)
			hidden_logs_drop(n, nt);
	}
}

static void topic_hide(struct node *n, struct node_topic *nt)
{
	nt->hidden = true;
	for (uint32_t i = 0; i < nt->n_logs; i++)
		if (nt->log[i] != NULL)
			engine_log_hide(n->engine, nt->log[i]);
	hidden_logs_drop(n, nt);
}

void node_topic_remove(struct node *n, const uint8_t id[16])
{
	struct node_topic *nt = topic_find(n, id);
	if (nt == NULL)
		return;
	uint8_t source[16];
	bool is_fork = nt->source != NULL;
	if (is_fork)
		memcpy(source, nt->source, sizeof(source));
	expiry_remove(n, id);
	coordinator_topic_gone(n->coordinator, id);
	if (state_soft_deleted_by_id(meta_state(n->meta), id) != NULL)
		topic_hide(n, nt);
	else
		topic_drop(n, nt);
	sources_look(n, is_fork ? source : NULL);
	tell_cut(n);
}

static void log_trim(struct node *n, uint64_t log_id)
{
	uint32_t partition;
	const struct state_topic *t = state_topic_by_log(meta_state(n->meta), log_id, &partition);
	struct log *log = t != NULL && !t->soft_deleted ? node_log(n, t, partition) : NULL;
	if (log == NULL)
		return;
	engine_log_trim(n->engine, log, t->partition[partition].start);
	sources_look(n, topic_find(n, t->id)->source);
}

void node_logs_trim(struct node *n, const Meta__TrimMany *m)
{
	for (size_t i = 0; i < m->n_trim; i++)
		log_trim(n, m->trim[i]->log_id);
	tell_cut(n);
}
