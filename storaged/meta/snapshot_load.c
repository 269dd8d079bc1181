/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities to state. The database may hold anything: what does not decode, does not fit to what was loaded before it, or
 * is of a kind that this release does not know makes the whole snapshot unreadable.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/object_message.h"
#include "storaged/meta/snapshot.h"
#include "storaged/meta/state_priv.h"

static int load_cluster(struct state *s, const struct sql_entity *entity)
{
	Meta__ClusterEntity *e = meta__cluster_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && (e->uuid.len == 0 || e->uuid.len == 16) && e->next_log_id > 0 &&
		  e->next_log_id < LOG_ID_MAX && e->next_producer_id <= INT64_MAX && s->cluster_id == NULL ? 0 : -EBADMSG;
	if (err == 0) {
		s->has_uuid = e->uuid.len == 16;
		if (s->has_uuid)
			memcpy(s->uuid, e->uuid.data, 16);
		s->cluster_id = must_strdup(e->cluster_id);
		s->format = e->format;
		s->next_log_id = e->next_log_id;
		s->next_producer_id = e->next_producer_id;
		s->next_run = e->next_run == 0 ? 1 : e->next_run;       /* 0: a release without data objects */
		s->kv.version = s->kv.gone_since = e->kv_version;
		s->clock_ms = e->clock_ms;
		s->clock_leap_ms = e->clock_leap_ms;
		s->chain = e->chain;
	}
	if (e != NULL)
		meta__cluster_entity__free_unpacked(e, NULL);
	return err;
}

static int load_node(struct state *s, const struct sql_entity *entity)
{
	Meta__NodeEntity *e = meta__node_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && e->boot_id.len == 16 && state_node_find(s, e->node) == NULL ? 0 : -EBADMSG;
	if (err == 0)
		state_node_put(s, e, entity->idx);
	if (e != NULL)
		meta__node_entity__free_unpacked(e, NULL);
	return err;
}

static int load_session(struct state *s, const struct sql_entity *entity)
{
	Meta__SessionEntity *e = meta__session_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && e->state <= META__SESSION_ENTITY__STATE__RECOVERED &&
		  state_session_find(s, e->node, e->session) == NULL ? 0 : -EBADMSG;
	if (err == 0) {
		struct state_session session = {
			.node = e->node, .session = e->session, .state = (enum state_session_state)e->state,
			.watermark = e->watermark, .recoverer = e->recoverer, .cut = e->cut,
			.recovered_ms = e->recovered_ms,
		};
		state_session_put(s, &session, entity->idx);
	}
	if (e != NULL)
		meta__session_entity__free_unpacked(e, NULL);
	return err;
}

static int load_object(struct state *s, const struct sql_entity *entity)
{
	Meta__ObjectEntity *e = meta__object_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = -EBADMSG;
	if (e != NULL && e->row != NULL && object_message_fault(e->row) == NULL && e->row->run > 0 &&
	    e->row->run < s->next_run) {
		struct object_row row = object_message_row(e->row);
		row.marked = e->marked;
		row.marked_ms = e->marked_ms;
		row.changed_idx = entity->idx;
		if (catalogue_takes(s->catalogue, &row)) {
			catalogue_add(s->catalogue, &row);
			err = 0;
		}
	}
	if (e != NULL)
		meta__object_entity__free_unpacked(e, NULL);
	return err;
}

/* A fork has a source and parents from partition 0 on; what is no fork has neither. */
static bool fork_is_sound(const Meta__TopicEntity *e)
{
	if (e->source.len != 0 && (e->source.len != 16 || e->partitions[0]->parent_log == 0))
		return false;
	for (size_t i = 0; i < e->n_partitions; i++) {
		const Meta__PartitionEntity *p = e->partitions[i];
		if (p->parent_log != 0 && (e->source.len == 0 || (i > 0 && e->partitions[i - 1]->parent_log == 0)))
			return false;
		if (p->parent_log != 0 && p->parent_end > p->fork_offset)
			return false;
	}
	return true;
}

/* A node's newest session is there, and none but it is ACTIVE: what every row rests on. */
static bool sessions_are_sound(const struct state *s)
{
	for (size_t i = 0; i < s->n_nodes; i++)
		if (state_session_find(s, s->node[i].e->node, s->node[i].e->session) == NULL)
			return false;
	for (size_t i = 0; i < s->n_sessions; i++) {
		const struct state_session *x = &s->session[i].s;
		const struct state_node *n = state_node_find(s, x->node);
		if (n == NULL || x->session > n->e->session ||
		    (x->state == SESSION_ACTIVE && x->session != n->e->session))
			return false;
	}
	return true;
}

/* All topics are there: their forks find them, in no circle; a SOFT_DELETED one has forks. */
static bool link_forks(struct state *s)
{
	struct state_topic *t;
	for (t = s->oldest; t != NULL; t = t->newer)
		if (!state_fork_link(s, t))
			return false;
	for (t = s->oldest; t != NULL; t = t->newer)
		if (state_fork_depth(t) > STATE_FORK_DEPTH_MAX || (t->soft_deleted && state_topic_n_forks(t) == 0))
			return false;
	return true;
}

static bool topic_is_sound(const struct state *s, const Meta__TopicEntity *e)
{
	if (e->topic_id.len != 16 || e->name[0] != '/' || e->n_config > STATE_CONFIG_MAX || e->n_partitions == 0 ||
	    e->n_partitions > STATE_PARTITIONS_MAX || id_hash_find(&s->by_id, e->topic_id.data) != NULL ||
	    name_index_find(&s->by_name, slice_str(e->name)) != NULL ||
	    (e->kafka_topic[0] != '\0' && name_index_find(&s->by_alias, slice_str(e->kafka_topic)) != NULL) ||
	    !fork_is_sound(e))
		return false;
	for (size_t i = 0; i < e->n_partitions; i++) {
		uint64_t log_id = e->partitions[i]->log_id;
		if (log_id >= s->next_log_id || log_map_find(&s->by_log, log_id) != NULL)
			return false;
		for (size_t k = 0; k < i; k++)
			if (e->partitions[k]->log_id == log_id)
				return false;
	}
	return true;
}

static int load_topic(struct state *s, const struct sql_entity *entity)
{
	Meta__TopicEntity *e = meta__topic_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && topic_is_sound(s, e) ? 0 : -EBADMSG;
	if (err == 0)
		state_topic_add(s, e, entity->idx);
	if (e != NULL)
		meta__topic_entity__free_unpacked(e, NULL);
	return err;
}

/* What was deleted before is not known any more. */
static int load_kv(struct state *s, const struct sql_entity *entity)
{
	Meta__KvEntity *e = meta__kv_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && kv_key_fault(e->key) == NULL && e->value.len <= KV_VALUE_MAX && e->version > 0 &&
		  e->version <= s->kv.version && kv_find(&s->kv, slice_str(e->key)) == NULL &&
		  kv_takes(&s->kv, e->key, e->value.len) ? 0 : -EBADMSG;
	if (err == 0)
		kv_put(&s->kv, e->key, slice_of(e->value.data, e->value.len), e->version, entity->idx);
	if (e != NULL)
		meta__kv_entity__free_unpacked(e, NULL);
	return err;
}

/* In order: what topics need stands before them. */
static const struct {
	const char *prefix;
	int (*load)(struct state *s, const struct sql_entity *entity);
} loaders[] = {
	{ "cluster", load_cluster }, { "node/", load_node }, { "session/", load_session },
	{ "object/", load_object }, { "topic/", load_topic }, { "kv/", load_kv },
};

#define N_KINDS (sizeof(loaders) / sizeof(loaders[0]))

/* An entity in the order of loading. A million are sorted by numbers that lie side by side, not by what they point to. */
struct place {
	uint64_t kind : 4;              /* index into loaders */
	uint64_t idx : 60;
	const struct sql_entity *entity;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->idx != y->idx)
		return x->idx < y->idx ? -1 : 1;
	return slice_cmp(x->entity->key, y->entity->key);
}

static unsigned kind_of(const struct sql_entity *e)
{
	unsigned kind = 0;
	for (; kind < N_KINDS; kind++) {
		size_t n = strlen(loaders[kind].prefix);
		if (e->key.n >= n && memcmp(e->key.p, loaders[kind].prefix, n) == 0)
			break;
	}
	return kind;
}

/* 0 or -EBADMSG: none of another kind, or of a row that is not there yet, may be lost. */
static int places_fill(struct place *place, const struct sql_entity *entities, size_t n, uint64_t idx)
{
	for (size_t i = 0; i < n; i++) {
		unsigned kind = kind_of(&entities[i]);
		if (kind == N_KINDS || entities[i].idx > idx || entities[i].idx >> 60 != 0)
			return -EBADMSG;
		place[i] = (struct place){ .kind = kind & 15, .idx = entities[i].idx & (UINT64_MAX >> 4), .entity = &entities[i] };
	}
	qsort(place, n, sizeof(*place), compare_places);
	return 0;
}

int state_load(struct state *s, uint64_t idx, const struct sql_entity *entities, size_t n)
{
	must(s->idx == 0 && s->n_nodes == 0 && s->by_name.topics.n == 0);
	struct place *place = must_calloc(n + 1, sizeof(*place));
	int err = places_fill(place, entities, n, idx);
	for (size_t i = 0; i < n && err == 0; i++)
		err = loaders[place[i].kind].load(s, place[i].entity);
	if (err == 0 && (s->cluster_id == NULL || !sessions_are_sound(s) || !link_forks(s)))
		err = -EBADMSG;
	s->idx = idx;
	free(place);
	return err;
}
