/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "t/unit/meta_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/wire.h"

void fixture_empty(struct fixture *f)
{
	*f = (struct fixture){ .s = state_new(), .node = 1, .proposal = 1, .id = 1000 };
}

void fixture_new(struct fixture *f)
{
	fixture_empty(f);
	fixture_init_cluster(f, 7, 16);
	fixture_register(f, 1, 'a');
	f->session = 1;
	must(f->one.session == 1);
}

void fixture_done(struct fixture *f)
{
	state_free(f->s);
}

static void keep_one(struct fixture *f, const Meta__Result__One *one)
{
	f->one.error = one->error;
	f->one.created = one->created;
	f->one.session = one->session;
	f->one.first_producer_id = one->first_producer_id;
	f->one.kv_version = one->kv_version;
	snprintf(f->message, sizeof(f->message), "%s", one->message);
	memset(f->topic_id, 0, 16);
	if (one->topic_id.len == 16)
		memcpy(f->topic_id, one->topic_id.data, 16);
}

static uint32_t run_row(struct fixture *f, Meta__Command **c, size_t n, uint32_t node, uint64_t session,
			uint64_t proposal)
{
	Meta__Row row = META__ROW__INIT;
	row.commands = c;
	row.n_commands = n;
	row.now_ms = f->now_ms;
	f->payload_len = meta__row__get_packed_size(&row);
	must(f->payload_len <= sizeof(f->payload));
	meta__row__pack(&row, f->payload);
	struct slice payload = slice_of(f->payload, f->payload_len);
	struct sql_row r = {
		.idx = state_idx(f->s) + 1, .node = node, .session = session, .proposal = proposal,
		.chain = state_chain_next(state_chain(f->s), payload), .payload = payload,
	};
	Meta__Result *results;
	f->row = r;
	f->err = state_apply(f->s, &r, &results);
	if (f->err != 0)
		return UINT32_MAX;
	must(results->n_one == n);
	keep_one(f, results->one[0]);
	meta__result__free_unpacked(results, NULL);
	return f->one.error;
}

uint32_t fixture_run_as(struct fixture *f, Meta__Command *c, uint32_t node, uint64_t session, uint64_t proposal)
{
	return run_row(f, &c, 1, node, session, proposal);
}

uint32_t fixture_run(struct fixture *f, Meta__Command *c)
{
	return fixture_run_as(f, c, f->node, f->session, f->proposal++);
}

uint32_t fixture_init_cluster(struct fixture *f, uint8_t byte, size_t n)
{
	uint8_t uuid[16];
	memset(uuid, byte, sizeof(uuid));
	Meta__InitCluster init = META__INIT_CLUSTER__INIT;
	init.uuid = (ProtobufCBinaryData){ .data = uuid, .len = n };
	init.format = STATE_FORMAT;
	init.cluster_id = (char *)"c";
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_INIT_CLUSTER;
	c.init_cluster = &init;
	return fixture_run_as(f, &c, 1, 0, 0);
}

uint32_t fixture_register_slots(struct fixture *f, uint32_t node, uint8_t boot, uint32_t slots)
{
	uint8_t boot_id[16], instance[16] = { 9 };
	memset(boot_id, boot, sizeof(boot_id));
	Meta__RegisterNode r = META__REGISTER_NODE__INIT;
	r.node = node;
	r.boot_id = (ProtobufCBinaryData){ .data = boot_id, .len = 16 };
	r.instance = (ProtobufCBinaryData){ .data = instance, .len = 16 };
	r.host = (char *)"host";
	r.slots = slots;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_REGISTER_NODE;
	c.register_node = &r;
	return fixture_run_as(f, &c, node, 0, 0);
}

uint32_t fixture_register(struct fixture *f, uint32_t node, uint8_t boot)
{
	return fixture_register_slots(f, node, boot, 1);
}

uint32_t fixture_recovered(struct fixture *f, uint32_t node, uint64_t session, uint64_t cut)
{
	Meta__SessionRecovered r = META__SESSION_RECOVERED__INIT;
	r.node = node;
	r.session = session;
	r.cut = cut;
	r.by_session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_SESSION_RECOVERED;
	c.session_recovered = &r;
	return fixture_run(f, &c);
}

static void fill_create(Meta__CreateTopic *create, const struct create_args *a)
{
	create->name = (char *)a->name;
	create->content_type = (char *)(a->type == NULL ? "text/plain" : a->type);
	create->partitions = a->partitions;
	create->n_owners = a->n_owners;
	create->owners = (uint32_t *)a->owner;
	create->ttl_seconds = a->ttl;
	create->expires_at_ms = a->expires;
	create->closed = a->closed;
	create->schema_validate = a->validate;
	create->initial = a->initial;
	create->reserved_allowed = a->reserved;
	create->has_kafka_topic = a->has_kafka;
	if (a->schema != NULL)
		create->schema_name = (char *)a->schema;
	if (a->kafka != NULL)
		create->kafka_topic = (char *)a->kafka;
}

struct fork_message {
	Meta__Fork m;
	Meta__Fork__Point point[4], *pointer[4];
};

static void fill_fork(struct fork_message *x, const struct create_args *a)
{
	meta__fork__init(&x->m);
	x->m.source = (ProtobufCBinaryData){ .data = (uint8_t *)a->source, .len = a->source_len == 0 ? 16 : a->source_len };
	x->m.n_points = a->n_points == 0 ? 1 : a->n_points;
	x->m.points = x->pointer;
	x->m.sub_offset = a->sub_offset;
	x->m.at_tail = a->at_tail;
	for (size_t i = 0; i < x->m.n_points; i++) {
		meta__fork__point__init(&x->point[i]);
		x->point[i].offset = a->offset[i];
		x->point[i].parent_end = a->parent_end[i];
		x->pointer[i] = &x->point[i];
	}
}

uint32_t fixture_create(struct fixture *f, const struct create_args *a)
{
	uint8_t id[16] = { 0 };
	put_be64(id, f->id++ * UINT64_C(0x9e3779b97f4a7c15));
	put_be64(id + 8, f->id);
	if (a->id != 0)
		memset(id, a->id, sizeof(id));
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	struct fork_message fork;
	fill_create(&create, a);
	if (a->source != NULL) {
		fill_fork(&fork, a);
		create.fork = &fork.m;
	}
	create.topic_id = (ProtobufCBinaryData){ .data = id, .len = a->id_len == 0 ? 16 : a->id_len };
	create.node = f->node;
	create.session = f->session;
	Meta__Config config = META__CONFIG__INIT, *entry = &config;
	if (a->config[0] != NULL) {
		config.name = (char *)a->config[0];
		config.value = (char *)a->config[1];
		create.n_config = 1;
		create.config = &entry;
	}
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	c.create_topic = &create;
	return fixture_run(f, &c);
}

void fixture_taken(struct fixture *f)
{
	struct create_args taken = {
		.name = "/taken/name", .type = "text/plain; charset=utf-8", .ttl = 60, .closed = true, .schema = "s",
		.validate = true, .config = { "k", "v" }, .id = 'T',
	};
	fixture_register(f, 2, 'n');
	struct create_args first = taken;
	first.n_owners = 1;
	first.owner[0] = 1;
	must(fixture_create(f, &first) == PICO_OK && f->one.created);
}

uint32_t fixture_create_name(struct fixture *f, const char *name)
{
	struct create_args a = { .name = name };
	return fixture_create(f, &a);
}

uint32_t fixture_create_number(struct fixture *f, int i)
{
	char name[32];
	snprintf(name, sizeof(name), "/n/%d", i);
	struct create_args a = { .name = name, .partitions = 1 + (uint32_t)i % 3 };
	return fixture_create(f, &a);
}

uint32_t fixture_close(struct fixture *f, const uint8_t id[16], uint32_t partition, bool begin)
{
	Meta__CloseTopic close = META__CLOSE_TOPIC__INIT;
	close.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	close.partition = partition;
	close.begin = begin;
	close.node = f->node;
	close.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_CLOSE_TOPIC;
	c.close_topic = &close;
	return fixture_run(f, &c);
}

uint32_t fixture_delete(struct fixture *f, const uint8_t id[16])
{
	Meta__DeleteTopic delete = META__DELETE_TOPIC__INIT;
	delete.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	delete.node = f->node;
	delete.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	c.delete_topic = &delete;
	return fixture_run(f, &c);
}

uint32_t fixture_update(struct fixture *f, const uint8_t id[16], const struct update_args *a)
{
	Meta__UpdateTopic u = META__UPDATE_TOPIC__INIT;
	Meta__Config config[2] = { META__CONFIG__INIT, META__CONFIG__INIT }, *pointer[2];
	u.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	u.set_kafka_topic = a->alias != NULL;
	u.kafka_topic = (char *)(a->alias != NULL ? a->alias : "");
	u.set_schema = a->schema != NULL;
	u.schema_name = (char *)(a->schema != NULL ? a->schema : "");
	u.set_schema_validate = a->validate != 0;
	u.schema_validate = a->validate > 0;
	for (; u.n_config < 2 && a->config[2 * u.n_config] != NULL; u.n_config++) {
		config[u.n_config].name = (char *)a->config[2 * u.n_config];
		config[u.n_config].value = (char *)a->config[2 * u.n_config + 1];
		pointer[u.n_config] = &config[u.n_config];
	}
	u.config = pointer;
	u.config_delete = (char **)&a->config_delete;
	u.n_config_delete = a->config_delete != NULL;
	u.node = f->node;
	u.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_UPDATE_TOPIC;
	c.update_topic = &u;
	return fixture_run(f, &c);
}

uint32_t fixture_grow(struct fixture *f, const uint8_t id[16], uint32_t partitions, const uint32_t *owners, size_t n)
{
	Meta__GrowTopic g = META__GROW_TOPIC__INIT;
	g.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	g.partitions = partitions;
	g.owners = (uint32_t *)owners;
	g.n_owners = n;
	g.node = f->node;
	g.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_GROW_TOPIC;
	c.grow_topic = &g;
	return fixture_run(f, &c);
}

/* Some change of what may change; refused now and then. */
static void random_update(struct fixture *f, const uint8_t id[16], unsigned r)
{
	static const char *const alias[] = { NULL, "", "free", "other", "n.1" };
	struct update_args a = {
		.alias = alias[r % 5], .schema = r % 7 == 0 ? "s" : NULL, .validate = (int)(r % 3) - 1,
		.config = { r % 2 == 0 ? "retention.ms" : NULL, "7" }, .config_delete = r % 4 == 1 ? "retention.ms" : NULL,
	};
	fixture_update(f, id, &a);
}

void fixture_close_some(struct fixture *f, unsigned n)
{
	Meta__CloseTopic close[8];
	Meta__Command command[8], *pointer[8];
	unsigned k = 0;
	const struct state_topic *t = state_topic_next(f->s, slice_of("", 0));
	for (; t != NULL && k < n && k < 8; t = state_topic_next(f->s, slice_str(t->name)), k++) {
		meta__command__init(&command[k]);
		meta__close_topic__init(&close[k]);
		command[k].kind_case = META__COMMAND__KIND_CLOSE_TOPIC;
		command[k].close_topic = &close[k];
		close[k].topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)t->id, .len = 16 };
		close[k].begin = true;
		close[k].node = f->node;
		close[k].session = f->session;
		pointer[k] = &command[k];
	}
	if (k > 0)
		run_row(f, pointer, k, f->node, f->session, f->proposal++);
}

void fixture_random_row(struct fixture *f, unsigned *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	unsigned r = *seed >> 8;
	char name[32];
	snprintf(name, sizeof(name), "/n/%u", r / 8 % 30);
	const struct state_topic *t = state_topic_by_name(f->s, slice_str(name));
	f->now_ms += r % 5;
	if (r % 8 == 7) {
		fixture_register(f, 2, (uint8_t)(r / 8));
	} else if (t == NULL) {
		fixture_create_number(f, (int)(r / 8 % 30));
	} else {
		uint8_t id[16];
		memcpy(id, t->id, sizeof(id));
		if (r % 8 < 2)
			fixture_delete(f, id);
		else if (r % 8 == 4)
			random_update(f, id, r / 256);
		else if (r % 8 == 5)
			fixture_grow(f, id, t->n_partitions + r / 256 % 3, NULL, 0);
		else
			fixture_close(f, id, r % t->n_partitions, r % 8 == 3);
	}
}

/* ---------------------------------------------------------------- snapshots */

static void entity_done(struct sql_entity *e)
{
	free((void *)e->key.p);
	free((void *)e->payload.p);
}

void kept_add(void *arg, const struct sql_entity *e)
{
	struct kept *k = arg;
	size_t i = 0;
	while (i < k->n && !slice_eq(k->e[i].key, e->key))
		i++;
	if (i < k->n)
		entity_done(&k->e[i]);
	else
		k->e = must_realloc(k->e, ++k->n * sizeof(k->e[0]));
	if (e->payload.p == NULL) {
		k->e[i] = k->e[--k->n];
		return;
	}
	k->e[i] = *e;
	k->e[i].key.p = must_memdup(e->key.p, e->key.n);
	k->e[i].payload.p = must_memdup(e->payload.p, e->payload.n);
}

void fixture_keep(struct fixture *f, struct kept *k)
{
	state_snapshot_begin(f->s, 0, kept_add, k);
	while (state_snapshot_step(f->s, 1000))
		;
	state_snapshot_end(f->s);
}

static bool cluster_equal(struct slice a, struct slice b)
{
	Meta__ClusterEntity *x = meta__cluster_entity__unpack(NULL, a.n, a.p);
	Meta__ClusterEntity *y = meta__cluster_entity__unpack(NULL, b.n, b.p);
	must(x != NULL && y != NULL);
	bool same = x->next_log_id == y->next_log_id && x->next_producer_id == y->next_producer_id &&
		    x->next_run == y->next_run && x->format == y->format;
	meta__cluster_entity__free_unpacked(x, NULL);
	meta__cluster_entity__free_unpacked(y, NULL);
	return same;
}

static bool node_equal(struct slice a, struct slice b)
{
	Meta__NodeEntity *x = meta__node_entity__unpack(NULL, a.n, a.p), *y = meta__node_entity__unpack(NULL, b.n, b.p);
	must(x != NULL && y != NULL);
	bool same = x->session == y->session && x->slots == y->slots && x->boot_id.len == y->boot_id.len &&
		    memcmp(x->boot_id.data, y->boot_id.data, x->boot_id.len) == 0 && strcmp(x->host, y->host) == 0;
	meta__node_entity__free_unpacked(x, NULL);
	meta__node_entity__free_unpacked(y, NULL);
	return same;
}

static bool entity_equal(const struct sql_entity *a, const struct sql_entity *b)
{
	if (slice_is(a->key, "cluster"))
		return cluster_equal(a->payload, b->payload);
	if (memcmp(a->key.p, "node/", 5) == 0)
		return node_equal(a->payload, b->payload);
	return a->idx == b->idx && slice_eq(a->payload, b->payload);
}

bool kept_equal(const struct kept *a, const struct kept *b)
{
	size_t i = 0;
	for (; i < a->n; i++) {
		size_t k = 0;
		while (k < b->n && !slice_eq(a->e[i].key, b->e[k].key))
			k++;
		if (k == b->n || !entity_equal(&a->e[i], &b->e[k]))
			return false;
	}
	return a->n == b->n;
}

struct state *kept_load(const struct kept *k, uint64_t idx)
{
	struct state *s = state_new();
	if (state_load(s, idx, k->e, k->n) == 0)
		return s;
	state_free(s);
	return NULL;
}

void kept_done(struct kept *k)
{
	for (size_t i = 0; i < k->n; i++)
		entity_done(&k->e[i]);
	free(k->e);
	*k = (struct kept){ 0 };
}
