/* SPDX-License-Identifier: Apache-2.0
 *
 * The entities and their indexes. Every topic stands in all of them or in none: by id, by name, by log
 * id, by alias where it has one, and in the list by last change.
 */
#include "storaged/meta/state.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/topic_config.h"
#include "storaged/meta/state_priv.h"

static const char *topic_name(const struct state_topic *t)
{
	return t->name;
}

static const char *topic_alias(const struct state_topic *t)
{
	return t->kafka_topic;
}

struct state *state_new(void)
{
	struct state *s = must_calloc(1, sizeof(*s));
	s->next_log_id = 1;
	s->next_run = 1;
	s->catalogue = catalogue_new();
	name_index_init(&s->by_name, topic_name);
	name_index_init(&s->by_alias, topic_alias);
	return s;
}

void state_free(struct state *s)
{
	if (s == NULL)
		return;
	for (struct state_topic *t = s->oldest, *newer; t != NULL; t = newer) {
		newer = t->newer;
		free(t->fork);
		free(t);
	}
	for (size_t i = 0; i < s->n_nodes; i++)
		meta__node_entity__free_unpacked(s->node[i].e, NULL);
	id_hash_done(&s->by_id);
	log_map_done(&s->by_log);
	name_index_done(&s->by_name);
	name_index_done(&s->by_alias);
	free(s->node);
	catalogue_free(s->catalogue);
	free(s->session);
	for (size_t i = 0; i < s->n_deleted; i++)
		if (s->deleted[i].kind == DELETED_KV)
			free(s->deleted[i].kv_key);
	free(s->deleted);
	kv_done(&s->kv);
	free(s->cluster_id);
	free(s);
}

/* ---------------------------------------------------------------- nodes and sessions */

struct state_node *state_node_find(const struct state *s, uint32_t node)
{
	for (size_t i = 0; i < s->n_nodes; i++)
		if (s->node[i].e->node == node)
			return &s->node[i];
	return NULL;
}

static Meta__NodeEntity *node_copy(const Meta__NodeEntity *e)
{
	size_t n = meta__node_entity__get_packed_size(e);
	uint8_t *bytes = must_calloc(1, n + 1);
	meta__node_entity__pack(e, bytes);
	Meta__NodeEntity *copy = meta__node_entity__unpack(NULL, n, bytes);
	must(copy != NULL);
	free(bytes);
	return copy;
}

struct state_node *state_node_put(struct state *s, const Meta__NodeEntity *e, uint64_t idx)
{
	Meta__NodeEntity *copy = node_copy(e);
	struct state_node *n = state_node_find(s, e->node);
	if (n != NULL) {
		meta__node_entity__free_unpacked(n->e, NULL);
	} else {
		s->node = must_realloc(s->node, (s->n_nodes + 1) * sizeof(s->node[0]));
		size_t i = s->n_nodes++;
		for (; i > 0 && s->node[i - 1].e->node > e->node; i--)
			s->node[i] = s->node[i - 1];
		n = &s->node[i];
		n->n_logs = 0;
	}
	n->e = copy;
	n->changed_idx = idx;
	return n;
}

/* The first entry with (node, session) >= the given one. */
static size_t session_place(const struct state *s, uint32_t node, uint64_t session)
{
	size_t low = 0, high = s->n_sessions;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct state_session *e = &s->session[middle].s;
		if (e->node < node || (e->node == node && e->session < session))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct session_entry *state_session_find(const struct state *s, uint32_t node, uint64_t session)
{
	size_t i = session_place(s, node, session);
	if (i == s->n_sessions || s->session[i].s.node != node || s->session[i].s.session != session)
		return NULL;
	return &s->session[i];
}

struct session_entry *state_session_put(struct state *s, const struct state_session *entry, uint64_t idx)
{
	size_t i = session_place(s, entry->node, entry->session);
	if (state_session_find(s, entry->node, entry->session) == NULL) {
		s->session = must_realloc(s->session, (s->n_sessions + 1) * sizeof(s->session[0]));
		memmove(&s->session[i + 1], &s->session[i], (s->n_sessions - i) * sizeof(s->session[0]));
		s->n_sessions++;
	}
	s->session[i] = (struct session_entry){ .s = *entry, .changed_idx = idx };
	return &s->session[i];
}

const struct state_session *state_session_next(const struct state *s, uint32_t node, uint64_t after)
{
	if (after == UINT64_MAX)
		return NULL;
	size_t i = session_place(s, node, after + 1);
	return i < s->n_sessions && s->session[i].s.node == node ? &s->session[i].s : NULL;
}

bool state_older_are_recovered(const struct state *s, uint32_t node, uint64_t session)
{
	const struct state_session *e = state_session_next(s, node, 0);
	for (; e != NULL && e->session < session; e = state_session_next(s, node, e->session))
		if (e->state != SESSION_RECOVERED)
			return false;
	return true;
}

const Meta__NodeEntity *state_node(const struct state *s, uint32_t node)
{
	const struct state_node *n = state_node_find(s, node);
	return n == NULL ? NULL : n->e;
}

const Meta__NodeEntity *state_node_next(const struct state *s, uint32_t after)
{
	for (size_t i = 0; i < s->n_nodes; i++)
		if (s->node[i].e->node > after)
			return s->node[i].e;
	return NULL;
}

bool state_node_is_up(const struct state *s, uint32_t node)
{
	const struct state_node *n = state_node_find(s, node);
	const struct session_entry *e = n == NULL ? NULL : state_session_find(s, node, n->e->session);
	return e != NULL && e->s.state == SESSION_ACTIVE;
}

/* ---------------------------------------------------------------- topics */

static void list_append(struct state *s, struct state_topic *t, uint64_t idx)
{
	must(s->newest == NULL || s->newest->changed_idx <= idx);
	t->changed_idx = idx;
	t->older = s->newest;
	t->newer = NULL;
	if (s->newest != NULL)
		s->newest->newer = t;
	else
		s->oldest = t;
	s->newest = t;
}

static void list_remove(struct state *s, struct state_topic *t)
{
	if (t->older != NULL)
		t->older->newer = t->newer;
	else
		s->oldest = t->newer;
	if (t->newer != NULL)
		t->newer->older = t->older;
	else
		s->newest = t->older;
}

static bool has_text(const char *text)
{
	return text != NULL && text[0] != '\0';
}

/* Moves text behind the topic's structures; p is where it may stand. */
static char *place_text(char **p, const char *text)
{
	char *at = *p;
	*p = stpcpy(at, text) + 1;
	return at;
}

/* Types that most topics have stand once in the program; NULL: another one. */
static const char *common_type(const char *type)
{
	static const char *const types[] = { "application/octet-stream", "application/json", "text/plain" };
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i], type) == 0)
			return types[i];
	return NULL;
}

static size_t topic_text_size(const Meta__TopicEntity *e)
{
	size_t n = strlen(e->name) + 1 + (common_type(e->content_type) == NULL ? strlen(e->content_type) + 1 : 0);
	if (has_text(e->kafka_topic))
		n += strlen(e->kafka_topic) + 1;
	if (has_text(e->schema_name))
		n += strlen(e->schema_name) + 1;
	for (size_t i = 0; i < e->n_config; i++)
		n += strlen(e->config[i]->value) + 1 +
		     (topic_config_find(e->config[i]->name) == NULL ? strlen(e->config[i]->name) + 1 : 0);
	return n;
}

static void topic_place(struct state_topic *t, const Meta__TopicEntity *e)
{
	t->config = (struct state_config *)(t->partition + e->n_partitions);
	char *p = (char *)(t->config + e->n_config);
	t->name = place_text(&p, e->name);
	const char *type = common_type(e->content_type);
	t->content_type = type != NULL ? (char *)type : place_text(&p, e->content_type);
	if (has_text(e->kafka_topic))
		t->kafka_topic = strcmp(e->kafka_topic, e->name + 1) == 0 ? t->name + 1 : place_text(&p, e->kafka_topic);
	if (has_text(e->schema_name))
		t->schema_name = place_text(&p, e->schema_name);
	for (size_t i = 0; i < e->n_config; i++) {
		const struct topic_config *known = topic_config_find(e->config[i]->name);
		t->config[i].name = known != NULL ? known->name : place_text(&p, e->config[i]->name);
		t->config[i].value = place_text(&p, e->config[i]->value);
	}
}

static struct state_topic *topic_new(const Meta__TopicEntity *e)
{
	must(e->topic_id.len == 16 && e->n_partitions > 0 && e->n_partitions <= STATE_PARTITIONS_MAX && e->n_config <= STATE_CONFIG_MAX);
	struct state_topic *t = must_calloc(1, sizeof(*t) + e->n_partitions * sizeof(t->partition[0]) +
						   e->n_config * sizeof(t->config[0]) + topic_text_size(e));
	topic_place(t, e);
	memcpy(t->id, e->topic_id.data, 16);
	t->settings_version = e->settings_version;
	t->created_ms = e->created_ms;
	t->ttl_seconds = e->ttl_seconds;
	t->expires_at_ms = e->expires_at_ms;
	t->n_partitions = (uint32_t)e->n_partitions & 0x7ff;
	t->n_config = (uint32_t)e->n_config & 0x1ff;
	t->closed = e->closed;
	t->closing = e->closing;
	t->initial = e->initial;
	t->created_closed = e->created_closed;
	t->schema_validate = e->schema_validate;
	t->soft_deleted = e->soft_deleted;
	for (size_t i = 0; i < e->n_partitions; i++) {
		const Meta__PartitionEntity *p = e->partitions[i];
		t->partition[i] = (struct state_partition){
			.log_id = p->log_id, .start = p->start, .owner = p->owner, .epoch = p->epoch, .closed = p->closed,
		};
	}
	return t;
}

static void count_logs(struct state *s, const struct state_topic *t, int64_t step)
{
	for (uint32_t i = 0; i < t->n_partitions; i++) {
		struct state_node *n = state_node_find(s, t->partition[i].owner);
		if (n != NULL)
			n->n_logs = (uint64_t)((int64_t)n->n_logs + step);
	}
}

struct state_topic *state_topic_add(struct state *s, const Meta__TopicEntity *e, uint64_t idx)
{
	struct state_topic *t = topic_new(e);
	state_fork_attach(t, e);
	s->n_soft_deleted += t->soft_deleted;
	id_hash_add(&s->by_id, t);
	name_index_add(&s->by_name, t);
	if (t->kafka_topic != NULL)
		name_index_add(&s->by_alias, t);
	for (uint32_t i = 0; i < t->n_partitions; i++)
		log_map_add(&s->by_log, t->partition[i].log_id, t);
	count_logs(s, t, 1);
	list_append(s, t, idx);
	return t;
}

void state_remember_deleted(struct state *s, struct state_deleted d)
{
	if (s->n_deleted == s->deleted_capacity) {
		s->deleted_capacity = s->deleted_capacity == 0 ? 16 : 2 * s->deleted_capacity;
		s->deleted = must_realloc(s->deleted, s->deleted_capacity * sizeof(s->deleted[0]));
	}
	s->deleted[s->n_deleted++] = d;
}

/* Out of every index and the list. */
static void topic_leave(struct state *s, struct state_topic *t)
{
	count_logs(s, t, -1);
	for (uint32_t i = 0; i < t->n_partitions; i++)
		log_map_remove(&s->by_log, t->partition[i].log_id);
	if (t->kafka_topic != NULL)
		name_index_remove(&s->by_alias, t);
	name_index_remove(&s->by_name, t);
	id_hash_remove(&s->by_id, t);
	list_remove(s, t);
}

void state_topic_drop(struct state *s, struct state_topic *t, uint64_t idx)
{
	snapshot_save(s, t);
	struct state_deleted d = { .idx = idx, .kind = DELETED_TOPIC };
	memcpy(d.topic_id, t->id, 16);
	state_remember_deleted(s, d);
	topic_leave(s, t);
	s->n_soft_deleted -= t->soft_deleted;
	state_fork_unlink(t);
	free(t);
}

struct state_topic *state_topic_replace(struct state *s, struct state_topic *t, const Meta__TopicEntity *e, uint64_t idx)
{
	must(e->topic_id.len == 16 && memcmp(e->topic_id.data, t->id, 16) == 0 && strcmp(e->name, t->name) == 0);
	snapshot_save(s, t);
	topic_leave(s, t);
	struct state_topic *replaced = state_topic_add(s, e, idx);
	state_fork_move(t, replaced);
	free(t);
	return replaced;
}

void state_topic_touch(struct state *s, struct state_topic *t, uint64_t idx)
{
	snapshot_save(s, t);
	list_remove(s, t);
	list_append(s, t, idx);
}

static const struct state_topic *living(const struct state_topic *t)
{
	return t != NULL && !t->soft_deleted ? t : NULL;
}

static const struct state_topic *next_living(const struct name_index *x, struct slice after)
{
	const struct state_topic *t = name_index_next(x, after);
	while (t != NULL && t->soft_deleted)
		t = name_index_next(x, slice_str(x->name(t)));
	return t;
}

const struct state_topic *state_topic_by_id(const struct state *s, const uint8_t id[16])
{
	return living(id_hash_find(&s->by_id, id));
}

const struct state_topic *state_topic_by_name(const struct state *s, struct slice path)
{
	return living(name_index_find(&s->by_name, path));
}

const struct state_topic *state_topic_by_alias(const struct state *s, struct slice alias)
{
	return living(name_index_find(&s->by_alias, alias));
}

struct state_topic *state_find_any(const struct state *s, struct slice spelling)
{
	uint8_t path[513] = "/";
	if (spelling.n == 0 || spelling.n >= sizeof(path))
		return NULL;
	if (spelling.p[0] == '/')
		return name_index_find(&s->by_name, spelling);
	struct state_topic *t = name_index_find(&s->by_alias, spelling);
	if (t != NULL)
		return t;
	memcpy(path + 1, spelling.p, spelling.n);
	return name_index_find(&s->by_name, slice_of(path, spelling.n + 1));
}

const struct state_topic *state_topic_find(const struct state *s, struct slice spelling)
{
	return living(state_find_any(s, spelling));
}

uint32_t state_partition_index(const struct state_topic *t, uint64_t log_id)
{
	/* A topic's log ids follow each other as far as they were made together. */
	uint64_t i = log_id - t->partition[0].log_id;
	if (i >= t->n_partitions || t->partition[i].log_id != log_id)
		for (i = 0; i < t->n_partitions && t->partition[i].log_id != log_id; i++)
			;
	must(i < t->n_partitions);
	return (uint32_t)i;
}

const struct state_topic *state_topic_by_log(const struct state *s, uint64_t log_id, uint32_t *ret_partition)
{
	const struct state_topic *t = log_map_find(&s->by_log, log_id);
	if (t != NULL)
		*ret_partition = state_partition_index(t, log_id);
	return t;
}

const struct state_topic *state_topic_next_log(const struct state *s, uint64_t after, uint64_t *ret_log_id,
					       uint32_t *ret_partition)
{
	const struct state_topic *t = log_map_next(&s->by_log, after, ret_log_id);
	if (t != NULL)
		*ret_partition = state_partition_index(t, *ret_log_id);
	return t;
}

const struct state_topic *state_topic_next(const struct state *s, struct slice start_after)
{
	return next_living(&s->by_name, start_after);
}

const struct state_topic *state_topic_next_alias(const struct state *s, struct slice start_after)
{
	return next_living(&s->by_alias, start_after);
}

/* ---------------------------------------------------------------- small facts */

uint64_t state_idx(const struct state *s)
{
	return s->idx;
}

uint64_t state_chain(const struct state *s)
{
	return s->chain;
}

int64_t state_clock_leap_ms(const struct state *s)
{
	return s->clock_leap_ms;
}

int64_t state_clock_ms(const struct state *s)
{
	return s->clock_ms;
}

const uint8_t *state_cluster_uuid(const struct state *s)
{
	return s->has_uuid ? s->uuid : NULL;
}

const char *state_cluster_id(const struct state *s)
{
	return s->cluster_id;
}

uint32_t state_format(const struct state *s)
{
	return s->format;
}

size_t state_n_topics(const struct state *s)
{
	return s->by_name.topics.n - s->n_soft_deleted;
}

uint64_t state_next_producer_id(const struct state *s)
{
	return s->next_producer_id;
}

const struct kv *state_kv(const struct state *s)
{
	return &s->kv;
}

const struct catalogue *state_catalogue(const struct state *s)
{
	return s->catalogue;
}

bool state_was_registered(const struct state *s)
{
	return s->n_nodes > 0;
}
