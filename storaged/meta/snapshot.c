/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities to bytes. The lists of topics and of data objects by last change make "changed after row B" their tails.
 * While a snapshot is encoded in slices, a topic or object that a command is about to change is encoded first
 * (snapshot_save). One whose last change lies below the cursor's was encoded already; one of the very row the
 * cursor stands in may be encoded twice, to the same bytes. Everything else is little and is encoded when the
 * snapshot begins.
 */
#include "storaged/meta/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/object_message.h"
#include "storaged/meta/state_priv.h"

#define KEY_MAX 64
#define KV_KEY "kv/"

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

static void object_key(char key[KEY_MAX], struct object_id id)
{
	snprintf(key, KEY_MAX, "object/%" PRIu32 "/%016" PRIx64 "/%016" PRIx64, id.node, id.session, id.number);
}

static void kv_key(char key[sizeof(KV_KEY) + KV_KEY_MAX], const char *name)
{
	snprintf(key, sizeof(KV_KEY) + KV_KEY_MAX, KV_KEY "%s", name);
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
	e.next_run = s->next_run;
	e.kv_version = s->kv.version;
	e.clock_ms = s->clock_ms;
	e.clock_leap_ms = s->clock_leap_ms;
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
	e->soft_deleted = t->soft_deleted;
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
	state_fork_fill(t, &x->e);
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

static void emit_object(const struct object_row *row, const struct snapshot_cursor *c)
{
	struct object_message m;
	Meta__ObjectEntity e = META__OBJECT_ENTITY__INIT;
	char key[KEY_MAX];
	object_message_fill(&m, row);
	e.row = &m.m;
	e.marked = row->marked;
	e.marked_ms = row->marked_ms;
	object_key(key, row->id);
	emit(c, key, row->changed_idx, &e.base);
}

static void emit_kv(const struct kv_entry *entry, const struct snapshot_cursor *c)
{
	Meta__KvEntity e = META__KV_ENTITY__INIT;
	char key[sizeof(KV_KEY) + KV_KEY_MAX];
	e.key = (char *)entry->key;
	e.value = (ProtobufCBinaryData){ .len = entry->value.n, .data = (uint8_t *)entry->value.p };
	e.version = entry->version;
	kv_key(key, entry->key);
	emit(c, key, entry->changed_idx, &e.base);
}

/* ---------------------------------------------------------------- a snapshot in slices */

static void emit_deleted(const struct state *s, const struct snapshot_cursor *c)
{
	char key[sizeof(KV_KEY) + KV_KEY_MAX];
	for (size_t i = 0; i < s->n_deleted; i++) {
		const struct state_deleted *d = &s->deleted[i];
		if (d->idx <= c->base)
			continue;
		switch (d->kind) {
		case DELETED_TOPIC:
			topic_key(key, d->topic_id);
			break;
		case DELETED_OBJECT:
			object_key(key, d->object);
			break;
		case DELETED_KV:
			kv_key(key, d->kv_key);
			break;
		}
		emit(c, key, d->idx, NULL);
	}
}

void state_snapshot_begin(struct state *s, uint64_t base, state_entity_cb *cb, void *arg)
{
	must(!s->cursor.active && base <= s->idx);
	struct snapshot_cursor *c = &s->cursor;
	*c = (struct snapshot_cursor){ .active = true, .base = base, .idx = s->idx, .cb = cb, .arg = arg };
	if (base == 0)
		c->next = s->oldest;
	for (struct state_topic *t = s->newest; base > 0 && t != NULL && t->changed_idx > base; t = t->older)
		c->next = t;
	c->next_object = catalogue_changed_after(s->catalogue, base);
	if (base == 0)
		c->next_kv = s->kv.oldest;
	for (struct kv_entry *e = s->kv.newest; base > 0 && e != NULL && e->changed_idx > base; e = e->older)
		c->next_kv = e;
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

static bool topic_is_left(const struct snapshot_cursor *c)
{
	return c->next != NULL && c->next->changed_idx <= c->idx;
}

static bool object_is_left(const struct snapshot_cursor *c)
{
	return c->next_object != NULL && c->next_object->changed_idx <= c->idx;
}

static bool kv_is_left(const struct snapshot_cursor *c)
{
	return c->next_kv != NULL && c->next_kv->changed_idx <= c->idx;
}

bool state_snapshot_step(struct state *s, size_t n_max)
{
	struct snapshot_cursor *c = &s->cursor;
	must(c->active);
	size_t n = 0;
	for (; topic_is_left(c) && n < n_max; n++) {
		emit_topic(c->next, c);
		c->next = c->next->newer;
	}
	for (; object_is_left(c) && n < n_max; n++) {
		emit_object(c->next_object, c);
		c->next_object = catalogue_newer(c->next_object);
	}
	for (; kv_is_left(c) && n < n_max; n++) {
		emit_kv(c->next_kv, c);
		c->next_kv = c->next_kv->newer;
	}
	return topic_is_left(c) || object_is_left(c) || kv_is_left(c);
}

void snapshot_save(struct state *s, struct state_topic *t)
{
	struct snapshot_cursor *c = &s->cursor;
	if (c->active && topic_is_left(c) && t->changed_idx >= c->next->changed_idx && t->changed_idx <= c->idx)
		emit_topic(t, c);
	if (c->next == t)
		c->next = t->newer;
}

void snapshot_save_object(struct state *s, const struct object_row *row)
{
	struct snapshot_cursor *c = &s->cursor;
	if (c->active && object_is_left(c) && row->changed_idx >= c->next_object->changed_idx &&
	    row->changed_idx <= c->idx)
		emit_object(row, c);
	if (c->next_object == row)
		c->next_object = catalogue_newer(row);
}

void snapshot_save_kv(struct state *s, const struct kv_entry *e)
{
	struct snapshot_cursor *c = &s->cursor;
	if (c->active && kv_is_left(c) && e->version >= c->next_kv->version && e->changed_idx <= c->idx)
		emit_kv(e, c);
	if (c->next_kv == e)
		c->next_kv = e->newer;
}

void state_snapshot_end(struct state *s)
{
	s->cursor.active = false;
}

void state_covered(struct state *s, uint64_t idx)
{
	size_t n = 0;
	for (; n < s->n_deleted && s->deleted[n].idx <= idx; n++)
		if (s->deleted[n].kind == DELETED_KV)
			free(s->deleted[n].kv_key);
	if (n == 0)
		return;
	s->n_deleted -= n;
	if (s->n_deleted > 0)
		memmove(s->deleted, s->deleted + n, s->n_deleted * sizeof(s->deleted[0]));
}
