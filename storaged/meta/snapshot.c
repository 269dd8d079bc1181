/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities to bytes and back. The list of topics by last change makes "changed after row B" its tail.
 * While a snapshot is encoded in slices, a topic that a command is about to change is encoded first
 * (snapshot_save). One whose last change lies below the cursor's was encoded already; one of the very row the
 * cursor stands in may be encoded twice, to the same bytes. Everything but topics is little and is encoded when the
 * snapshot begins.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state_priv.h"

#define KEY_MAX 64

static void emit(const struct snapshot_cursor *c, const char *key, uint64_t idx, const ProtobufCMessage *message)
{
	struct sql_entity e = { .key = slice_str(key), .idx = idx };
	uint8_t *bytes = NULL;
	if (message != NULL) {
		size_t n = protobuf_c_message_get_packed_size(message);
		bytes = must_calloc(1, n + 1);
		protobuf_c_message_pack(message, bytes);
		e.payload = slice_of(bytes, n);
	}
	c->cb(c->arg, &e);
	free(bytes);
}

static void topic_key(char key[KEY_MAX], const uint8_t id[16])
{
	int n = snprintf(key, KEY_MAX, "topic/");
	for (int i = 0; i < 16; i++)
		n += snprintf(key + n, KEY_MAX - (size_t)n, "%02x", id[i]);
}

/* ---------------------------------------------------------------- encode */

static void emit_cluster(const struct state *s, const struct snapshot_cursor *c)
{
	Meta__ClusterEntity e = META__CLUSTER_ENTITY__INIT;
	if (s->has_uuid) {
		e.uuid.data = (uint8_t *)s->uuid;
		e.uuid.len = 16;
		e.cluster_id = s->cluster_id;
	}
	e.format = s->format;
	e.next_log_id = s->next_log_id;
	e.next_producer_id = s->next_producer_id;
	e.clock_ms = s->clock_ms;
	e.chain = s->chain;
	emit(c, "cluster", s->idx, &e.base);
}

static void emit_session(const struct session_entry *entry, const struct snapshot_cursor *c)
{
	Meta__SessionEntity e = META__SESSION_ENTITY__INIT;
	e.node = entry->s.node;
	e.session = entry->s.session;
	e.state = (Meta__SessionEntity__State)entry->s.state;
	e.watermark = entry->s.watermark;
	e.recoverer = entry->s.recoverer;
	e.recovered_ms = entry->s.recovered_ms;
	e.cut = entry->s.cut;
	char key[KEY_MAX];
	snprintf(key, sizeof(key), "session/%" PRIu32 "/%016" PRIx64, e.node, e.session);
	emit(c, key, entry->changed_idx, &e.base);
}

static void fill_partitions(const struct state_topic *t, Meta__PartitionEntity *p, Meta__PartitionEntity **pointer)
{
	for (uint32_t i = 0; i < t->n_partitions; i++) {
		meta__partition_entity__init(&p[i]);
		p[i].log_id = t->partition[i].log_id;
		p[i].owner = t->partition[i].owner;
		p[i].epoch = t->partition[i].epoch;
		p[i].start = t->partition[i].start;
		p[i].closed = t->partition[i].closed;
		pointer[i] = &p[i];
	}
}

static void fill_config(const struct state_topic *t, Meta__Config *config, Meta__Config **pointer)
{
	for (uint16_t i = 0; i < t->n_config; i++) {
		meta__config__init(&config[i]);
		config[i].name = (char *)t->config[i].name;
		config[i].value = t->config[i].value;
		pointer[i] = &config[i];
	}
}

static void fill_topic(const struct state_topic *t, Meta__TopicEntity *e)
{
	e->topic_id.data = (uint8_t *)t->id;
	e->topic_id.len = 16;
	e->name = t->name;
	e->content_type = t->content_type;
	if (t->kafka_topic != NULL)
		e->kafka_topic = t->kafka_topic;
	if (t->schema_name != NULL)
		e->schema_name = t->schema_name;
	e->schema_validate = t->schema_validate;
	e->closed = t->closed;
	e->closing = t->closing;
	e->settings_version = t->settings_version;
	e->created_ms = t->created_ms;
	e->ttl_seconds = t->ttl_seconds;
	e->expires_at_ms = t->expires_at_ms;
	e->initial = t->initial;
	e->created_closed = t->created_closed;
}

void topic_entity_fill(struct topic_entity *x, const struct state_topic *t)
{
	meta__topic_entity__init(&x->e);
	x->partition = must_calloc(t->n_partitions, sizeof(*x->partition));
	x->config = must_calloc((size_t)t->n_config + 1, sizeof(*x->config));
	x->e.n_partitions = t->n_partitions;
	x->e.partitions = must_calloc(t->n_partitions, sizeof(*x->e.partitions));
	x->e.n_config = t->n_config;
	x->e.config = must_calloc((size_t)t->n_config + 1, sizeof(*x->e.config));
	fill_topic(t, &x->e);
	fill_partitions(t, x->partition, x->e.partitions);
	fill_config(t, x->config, x->e.config);
}

void topic_entity_done(struct topic_entity *x)
{
	free(x->e.partitions);
	free(x->e.config);
	free(x->partition);
	free(x->config);
}

static void emit_topic(const struct state_topic *t, const struct snapshot_cursor *c)
{
	struct topic_entity x;
	char key[KEY_MAX];
	topic_entity_fill(&x, t);
	topic_key(key, t->id);
	emit(c, key, t->changed_idx, &x.e.base);
	topic_entity_done(&x);
}

/* ---------------------------------------------------------------- a snapshot in slices */

static void emit_deleted(const struct state *s, const struct snapshot_cursor *c)
{
	char key[KEY_MAX];
	for (size_t i = 0; i < s->n_deleted; i++) {
		if (s->deleted[i].idx <= c->base)
			continue;
		topic_key(key, s->deleted[i].topic_id);
		emit(c, key, s->deleted[i].idx, NULL);
	}
}

void state_snapshot_begin(struct state *s, uint64_t base, state_entity_cb *cb, void *arg)
{
	must(!s->cursor.active && base <= s->idx);
	struct snapshot_cursor *c = &s->cursor;
	*c = (struct snapshot_cursor){ .active = true, .base = base, .idx = s->idx, .cb = cb, .arg = arg };
	for (struct state_topic *t = s->newest; t != NULL && t->changed_idx > base; t = t->older)
		c->next = t;
	emit_cluster(s, c);
	for (size_t i = 0; i < s->n_nodes; i++) {
		char key[KEY_MAX];
		snprintf(key, sizeof(key), "node/%" PRIu32, s->node[i].e->node);
		if (s->node[i].changed_idx > base)
			emit(c, key, s->node[i].changed_idx, &s->node[i].e->base);
	}
	for (size_t i = 0; i < s->n_sessions; i++)
		if (s->session[i].changed_idx > base)
			emit_session(&s->session[i], c);
	emit_deleted(s, c);
}

static bool cursor_wants(const struct snapshot_cursor *c, const struct state_topic *t)
{
	return c->active && c->next != NULL && t->changed_idx >= c->next->changed_idx && t->changed_idx <= c->idx;
}

bool state_snapshot_step(struct state *s, size_t n_max)
{
	struct snapshot_cursor *c = &s->cursor;
	must(c->active);
	for (size_t n = 0; c->next != NULL && c->next->changed_idx <= c->idx && n < n_max; n++) {
		emit_topic(c->next, c);
		c->next = c->next->newer;
	}
	return c->next != NULL && c->next->changed_idx <= c->idx;
}

void snapshot_save(struct state *s, struct state_topic *t)
{
	struct snapshot_cursor *c = &s->cursor;
	if (cursor_wants(c, t))
		emit_topic(t, c);
	if (c->next == t)
		c->next = t->newer;
}

void state_snapshot_end(struct state *s)
{
	s->cursor.active = false;
}

void state_covered(struct state *s, uint64_t idx)
{
	size_t n = 0;
	while (n < s->n_deleted && s->deleted[n].idx <= idx)
		n++;
	if (n == 0)
		return;
	s->n_deleted -= n;
	if (s->n_deleted > 0)
		memmove(s->deleted, s->deleted + n, s->n_deleted * sizeof(s->deleted[0]));
}

/* ---------------------------------------------------------------- decode */

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
		s->clock_ms = e->clock_ms;
		s->chain = e->chain;
	}
	if (e != NULL)
		meta__cluster_entity__free_unpacked(e, NULL);
	return err;
}

static int load_node(struct state *s, const struct sql_entity *entity)
{
	Meta__NodeEntity *e = meta__node_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && e->boot_id.len == 16 ? 0 : -EBADMSG;
	if (err == 0)
		state_node_put(s, e, entity->idx);
	if (e != NULL)
		meta__node_entity__free_unpacked(e, NULL);
	return err;
}

static int load_session(struct state *s, const struct sql_entity *entity)
{
	Meta__SessionEntity *e = meta__session_entity__unpack(NULL, entity->payload.n, entity->payload.p);
	int err = e != NULL && e->state <= META__SESSION_ENTITY__STATE__RECOVERED ? 0 : -EBADMSG;
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

static bool topic_is_sound(const struct state *s, const Meta__TopicEntity *e)
{
	if (e->topic_id.len != 16 || e->name[0] != '/' || e->n_config > UINT16_MAX || e->n_partitions == 0 ||
	    e->n_partitions > STATE_PARTITIONS_MAX || state_topic_by_id(s, e->topic_id.data) != NULL ||
	    state_topic_by_name(s, slice_str(e->name)) != NULL ||
	    (e->kafka_topic[0] != '\0' && state_topic_by_alias(s, slice_str(e->kafka_topic)) != NULL))
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

/* In order: what topics need stands before them. */
static const struct {
	const char *prefix;
	int (*load)(struct state *s, const struct sql_entity *entity);
} loaders[] = {
	{ "cluster", load_cluster }, { "node/", load_node }, { "session/", load_session }, { "topic/", load_topic },
};

static int compare_idx(const void *a, const void *b)
{
	const struct sql_entity *x = *(const struct sql_entity *const *)a, *y = *(const struct sql_entity *const *)b;
	return x->idx != y->idx ? (x->idx > y->idx) - (x->idx < y->idx) : slice_cmp(x->key, y->key);
}

static int load_kind(struct state *s, const struct sql_entity **sorted, size_t n, size_t kind, size_t *ret_loaded)
{
	struct slice prefix = slice_str(loaders[kind].prefix);
	for (size_t i = 0; i < n; i++) {
		if (sorted[i]->key.n < prefix.n || memcmp(sorted[i]->key.p, prefix.p, prefix.n) != 0)
			continue;
		int err = loaders[kind].load(s, sorted[i]);
		if (err != 0)
			return err;
		++*ret_loaded;
	}
	return 0;
}

int state_load(struct state *s, uint64_t idx, const struct sql_entity *entities, size_t n)
{
	must(s->idx == 0 && s->n_nodes == 0 && s->by_name.n == 0);
	const struct sql_entity **sorted = must_calloc(n + 1, sizeof(*sorted));
	for (size_t i = 0; i < n; i++)
		sorted[i] = &entities[i];
	qsort(sorted, n, sizeof(*sorted), compare_idx);
	int err = n > 0 && sorted[n - 1]->idx > idx ? -EBADMSG : 0;
	size_t loaded = 0;
	for (size_t kind = 0; kind < sizeof(loaders) / sizeof(loaders[0]) && err == 0; kind++)
		err = load_kind(s, sorted, n, kind, &loaded);
	/* A kind of entity that only a newer release knows must not be lost. */
	if (err == 0 && (loaded != n || s->cluster_id == NULL))
		err = -EBADMSG;
	s->idx = idx;
	free(sorted);
	return err;
}
