/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings and names against a whole node: update and grow with every field, many topics at once, the list by Kafka
 * name, nodes; and that a restart finds them as they were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "t/unit/node_world.h"

static const struct slice none;

/* ---------------------------------------------------------------------- helpers */

/* GET; asked_done(a) frees it. */
static Ipc__Topic *get(struct asked *a, const char *name)
{
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__GetRequest r = IPC__GET_REQUEST__INIT;
	ref.name = (char *)name;
	r.topic = &ref;
	ask(a, IPC_GET, &r.base, none);
	assert_int_equal(a->error.kind, PICO_OK);
	return ((Ipc__GetAnswer *)a->answer)->topic;
}

static Ipc__TopicRef named_ref;

static Ipc__UpdateRequest update_of(const char *name)
{
	Ipc__UpdateRequest r = IPC__UPDATE_REQUEST__INIT;
	ipc__topic_ref__init(&named_ref);
	named_ref.name = (char *)name;
	r.topic = &named_ref;
	return r;
}

static Ipc__GrowRequest grow_of(const char *name, uint32_t partitions)
{
	Ipc__GrowRequest r = IPC__GROW_REQUEST__INIT;
	ipc__topic_ref__init(&named_ref);
	named_ref.name = (char *)name;
	r.topic = &named_ref;
	r.partitions = partitions;
	return r;
}

static void restart(void)
{
	node_down();
	node_up();
}

static void assert_message(enum ipc_type type, ProtobufCMessage *request, enum pico_error_kind kind, const char *word)
{
	struct asked a;
	ask(&a, type, request, none);
	if (a.error.kind != kind || strstr(a.error.message, word) == NULL)
		fail_msg("%d: %s", (int)a.error.kind, a.error.message);
	asked_done(&a);
}

/* ---------------------------------------------------------------------- update */

static void check_updated(const Ipc__Topic *t)
{
	assert_string_equal(t->kafka_topic, "moved");
	assert_string_equal(t->schema_name, "s2");
	assert_false(t->schema_validate);
	assert_int_equal(t->settings_version, 2);
	assert_int_equal(t->n_config, 2);
	assert_string_equal(t->config[0]->name, "retention.ms");
	assert_string_equal(t->config[0]->value, "1000");
	assert_string_equal(t->config[1]->name, "cleanup.policy");
	assert_string_equal(t->config[1]->value, "compact");
}

static void test_update_every_field(void **state)
{
	struct asked a, b;
	Ipc__UpdateRequest r = update_of("/u/one");
	Ipc__ConfigEntry entry[3], *config[] = { &entry[0], &entry[1], &entry[2] };
	static const char *const set[][2] = { { "retention.ms", "1000" }, { "cleanup.policy", "compact" }, { "pico.schema", "s2" } };
	Ipc__Topic *t = create(&a, "/u/one", 1);
	for (int i = 0; i < 3; i++) {
		ipc__config_entry__init(&entry[i]);
		entry[i].name = (char *)set[i][0];
		entry[i].value = (char *)set[i][1];
	}
	r.set_kafka_topic = true;
	r.kafka_topic = "moved";
	r.config = config;
	r.n_config = 3;
	r.validate_only = true;
	ask(&b, IPC_UPDATE, &r.base, none);
	assert_int_equal(b.error.kind, PICO_OK);
	assert_string_equal(((Ipc__UpdateAnswer *)b.answer)->topic->kafka_topic, "u.one");      /* nothing done */
	asked_done(&b);
	r.validate_only = false;
	ask(&b, IPC_UPDATE, &r.base, none);
	assert_int_equal(b.error.kind, PICO_OK);
	check_updated(((Ipc__UpdateAnswer *)b.answer)->topic);
	assert_memory_equal(((Ipc__UpdateAnswer *)b.answer)->topic->topic_id.data, t->topic_id.data, 16);
	asked_done(&b);
	/* The same again changes nothing, and nor does a restart. */
	ask(&b, IPC_UPDATE, &r.base, none);
	check_updated(((Ipc__UpdateAnswer *)b.answer)->topic);
	asked_done(&b);
	restart();
	check_updated(get(&b, "moved"));
	asked_done(&b);
	check_updated(get(&b, "/u/one"));
	asked_done(&b);
	/* Back to the defaults, under an id. */
	r = update_of("");
	named_ref.topic_id = t->topic_id;
	char *gone[] = { "retention.ms", "pico.schema" };
	r.config_delete = gone;
	r.n_config_delete = 2;
	r.set_kafka_topic = true;
	ask(&b, IPC_UPDATE, &r.base, none);
	assert_int_equal(b.error.kind, PICO_OK);
	Ipc__Topic *u = ((Ipc__UpdateAnswer *)b.answer)->topic;
	assert_string_equal(u->kafka_topic, "");
	assert_string_equal(u->schema_name, "");
	assert_int_equal(u->n_config, 1);
	assert_string_equal(u->config[0]->name, "cleanup.policy");
	asked_done(&b);
	asked_done(&a);
}

static void test_update_schema_fields(void **state)
{
	struct asked a;
	create(&a, "/u/schema", 1);
	asked_done(&a);
	Ipc__UpdateRequest r = update_of("/u/schema");
	r.set_schema = r.set_schema_validate = r.schema_validate = true;
	r.schema_name = "orders";
	ask(&a, IPC_UPDATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	assert_string_equal(((Ipc__UpdateAnswer *)a.answer)->topic->schema_name, "orders");
	assert_true(((Ipc__UpdateAnswer *)a.answer)->topic->schema_validate);
	asked_done(&a);
	r = update_of("/u/schema");
	r.set_schema = true;
	ask(&a, IPC_UPDATE, &r.base, none);
	assert_false(((Ipc__UpdateAnswer *)a.answer)->topic->schema_validate);
	asked_done(&a);
}

static void test_update_refusals(void **state)
{
	struct asked a;
	create(&a, "/u/two", 1);
	asked_done(&a);
	create(&a, "/u/three", 1);
	asked_done(&a);
	Ipc__ConfigEntry entry[2], *config[] = { &entry[0], &entry[1] };
	ipc__config_entry__init(&entry[0]);
	ipc__config_entry__init(&entry[1]);
	Ipc__UpdateRequest r = update_of("/u/two");
	r.set_kafka_topic = true;
	r.kafka_topic = "u.three";
	assert_message(IPC_UPDATE, &r.base, PICO_CONFLICT, "belongs to /u/three");
	r.validate_only = true;
	assert_message(IPC_UPDATE, &r.base, PICO_CONFLICT, "belongs to /u/three");
	r.kafka_topic = "a b";
	assert_message(IPC_UPDATE, &r.base, PICO_BAD_REQUEST, "Kafka name");
	r = update_of("/u/two");
	r.config = config;
	r.n_config = 1;
	entry[0].name = "retention.s";
	entry[0].value = "1";
	assert_message(IPC_UPDATE, &r.base, PICO_BAD_REQUEST, "retention.s");
	entry[0].name = "retention.ms";
	entry[0].value = "soon";
	assert_message(IPC_UPDATE, &r.base, PICO_BAD_REQUEST, "retention.ms=soon");
	entry[0].name = "pico.schema.validate";
	entry[0].value = "true";
	assert_message(IPC_UPDATE, &r.base, PICO_BAD_REQUEST, "schema registry");
	entry[0].name = entry[1].name = "segment.ms";
	entry[0].value = entry[1].value = "7";
	r.n_config = 2;
	assert_message(IPC_UPDATE, &r.base, PICO_BAD_REQUEST, "segment.ms is named twice");
	char *gone[] = { "nonsense" };
	r.n_config = 0;
	r.config_delete = gone;
	r.n_config_delete = 1;
	assert_message(IPC_UPDATE, &r.base, PICO_BAD_REQUEST, "nonsense");
	r = update_of("/u/nobody");
	refuse(IPC_UPDATE, &r.base, none, PICO_NOT_FOUND);
	r.topic = NULL;
	refuse(IPC_UPDATE, &r.base, none, PICO_BAD_REQUEST);
	assert_int_equal(get(&a, "/u/two")->settings_version, 1);
	asked_done(&a);
}

static void test_create_config(void **state)
{
	struct asked a;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	Ipc__ConfigEntry entry[2], *config[] = { &entry[0], &entry[1] };
	ipc__config_entry__init(&entry[0]);
	ipc__config_entry__init(&entry[1]);
	r.name = "/u/created";
	r.content_type = "text/plain";
	r.config = config;
	r.n_config = 2;
	entry[0].name = "segment.bytes";
	entry[0].value = "many";
	entry[1].name = "pico.schema";
	entry[1].value = "s3";
	assert_message(IPC_CREATE, &r.base, PICO_BAD_REQUEST, "segment.bytes=many");
	entry[0].value = "1048576";
	ask(&a, IPC_CREATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__Topic *t = ((Ipc__CreateAnswer *)a.answer)->topic;
	assert_int_equal(t->n_config, 1);
	assert_string_equal(t->config[0]->name, "segment.bytes");
	assert_string_equal(t->config[0]->value, "1048576");
	assert_string_equal(t->schema_name, "s3");
	asked_done(&a);
	ask(&a, IPC_CREATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	assert_false(((Ipc__CreateAnswer *)a.answer)->created);
	asked_done(&a);
	entry[0].value = "2097152";
	refuse(IPC_CREATE, &r.base, none, PICO_CONFLICT);
}

/* ---------------------------------------------------------------------- grow */

static void append_to(const char *name, uint32_t partition, uint64_t expected)
{
	struct log_name l;
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	r.log = log_ref(&l, name, partition);
	assert_int_equal(append_with(&r, name, 2), expected);
}

static void test_grow(void **state)
{
	struct asked a, b;
	Ipc__Topic *t = create(&a, "/g/one", 2);
	append_to("/g/one", 1, 0);
	Ipc__GrowRequest r = grow_of("g.one", 5);
	r.validate_only = true;
	ask(&b, IPC_GROW, &r.base, none);
	assert_int_equal(((Ipc__GrowAnswer *)b.answer)->topic->n_partitions, 2);
	asked_done(&b);
	r.validate_only = false;
	for (int copy = 0; copy < 2; copy++) {
		ask(&b, IPC_GROW, &r.base, none);
		assert_int_equal(b.error.kind, PICO_OK);
		Ipc__Topic *u = ((Ipc__GrowAnswer *)b.answer)->topic;
		assert_int_equal(u->n_partitions, 5);
		assert_int_equal(u->settings_version, 2);
		assert_int_equal(u->partitions[1]->log_id, t->partitions[1]->log_id);
		assert_int_equal(u->partitions[1]->confirm, 2);
		for (int i = 2; i < 5; i++)
			assert_true(u->partitions[i]->log_id > t->partitions[1]->log_id && u->partitions[i]->owner == 1);
		asked_done(&b);
	}
	/* Old and new partitions take records, and have them after a restart. */
	append_to("/g/one", 1, 2);
	append_to("/g/one", 4, 0);
	restart();
	assert_int_equal(offsets("/g/one", 1).confirm, 4);
	assert_int_equal(offsets("/g/one", 4).confirm, 2);
	assert_int_equal(offsets("/g/one", 3).confirm, 0);
	append_to("/g/one", 3, 0);
	asked_done(&a);
}

static void test_grow_owners_and_refusals(void **state)
{
	struct asked a;
	create(&a, "/g/two", 3);
	asked_done(&a);
	Ipc__GrowRequest r = grow_of("/g/two", 2);
	assert_message(IPC_GROW, &r.base, PICO_BAD_REQUEST, "cannot have fewer");
	r.partitions = 0;
	refuse(IPC_GROW, &r.base, none, PICO_BAD_REQUEST);
	r.partitions = 1025;
	assert_message(IPC_GROW, &r.base, PICO_BAD_REQUEST, "at most 1024");
	uint32_t owners[] = { 1, 7 };
	r.partitions = 5;
	r.owners = owners;
	r.n_owners = 1;
	refuse(IPC_GROW, &r.base, none, PICO_BAD_REQUEST);
	r.n_owners = 2;
	assert_message(IPC_GROW, &r.base, PICO_BAD_REQUEST, "owner 7");
	owners[1] = 1;
	ask(&a, IPC_GROW, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(((Ipc__GrowAnswer *)a.answer)->topic->n_partitions, 5);
	asked_done(&a);
	Ipc__CloseRequest close = IPC__CLOSE_REQUEST__INIT;
	close.topic = &named_ref;
	ask(&a, IPC_CLOSE, &close.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	r = grow_of("/g/two", 6);
	assert_message(IPC_GROW, &r.base, PICO_CLOSED, "closed");
	r = grow_of("/g/nobody", 6);
	refuse(IPC_GROW, &r.base, none, PICO_NOT_FOUND);
}

/* Appends to partitions that are there while others come. */
static void test_grow_under_appends(void **state)
{
	struct asked a;
	create(&a, "/g/busy", 1);
	asked_done(&a);
	for (uint32_t n = 2; n < 20; n++) {
		Ipc__GrowRequest r = grow_of("/g/busy", n);
		struct asked grow;
		ask_start(&grow, IPC_GROW, &r.base, none, 10000);
		append_to("/g/busy", 0, 2 * (n - 2));
		run_until(&grow.done);
		assert_int_equal(grow.error.kind, PICO_OK);
		asked_done(&grow);
		append_to("/g/busy", n - 1, 0);
	}
}

/* ---------------------------------------------------------------------- names */

static void test_get_many(void **state)
{
	enum { N = 6 };
	struct asked a, b;
	Ipc__Topic *t = create(&a, "/many/eu", 3);
	Ipc__TopicRef ref[N], *pointer[N];
	Ipc__GetManyRequest r = IPC__GET_MANY_REQUEST__INIT;
	for (int i = 0; i < N; i++) {
		ipc__topic_ref__init(&ref[i]);
		pointer[i] = &ref[i];
	}
	ref[0].name = "many.eu";
	ref[1].topic_id = t->topic_id;
	ref[2].name = "/many/eu";
	ref[3].name = "many/eu";
	ref[4].name = "nobody";
	ref[5].topic_id = (ProtobufCBinaryData){ .len = 3, .data = t->topic_id.data };
	r.topic = pointer;
	r.n_topic = N;
	for (int kafka = 0; kafka < 2; kafka++) {
		r.kafka_names = kafka;
		ask(&b, IPC_GET_MANY, &r.base, none);
		assert_int_equal(b.error.kind, PICO_OK);
		Ipc__GetManyAnswer *x = (Ipc__GetManyAnswer *)b.answer;
		assert_int_equal(x->n_one, N);
		for (int i = 0; i < 4; i++) {
			if (kafka && i >= 2) {
				assert_int_equal(x->one[i]->error->kind, PICO_NOT_FOUND);
				assert_null(x->one[i]->topic);
				continue;
			}
			assert_null(x->one[i]->error);
			assert_string_equal(x->one[i]->topic->name, "/many/eu");
			assert_int_equal(x->one[i]->topic->n_partitions, 3);
		}
		assert_int_equal(x->one[4]->error->kind, PICO_NOT_FOUND);
		assert_int_equal(x->one[5]->error->kind, PICO_BAD_REQUEST);
		asked_done(&b);
	}
	asked_done(&a);
	r.n_topic = 0;
	ask(&b, IPC_GET_MANY, &r.base, none);
	assert_int_equal(((Ipc__GetManyAnswer *)b.answer)->n_one, 0);
	asked_done(&b);
}

/* 10,000 references to a topic of 1,024 partitions do not fit one answer: those left out say so, and come when they
 * are asked for again. */
static void test_get_many_bounds(void **state)
{
	enum { N = 10001 };
	static Ipc__TopicRef ref[N];
	static Ipc__TopicRef *pointer[N];
	struct asked a, b;
	create(&a, "/many/wide", 1024);
	asked_done(&a);
	for (int i = 0; i < N; i++) {
		ipc__topic_ref__init(&ref[i]);
		ref[i].name = "many.wide";
		pointer[i] = &ref[i];
	}
	Ipc__GetManyRequest r = IPC__GET_MANY_REQUEST__INIT;
	r.topic = pointer;
	r.n_topic = N;
	refuse(IPC_GET_MANY, &r.base, none, PICO_TOO_LARGE);
	r.n_topic = N - 1;
	ask(&b, IPC_GET_MANY, &r.base, none);
	assert_int_equal(b.error.kind, PICO_OK);
	assert_true(protobuf_c_message_get_packed_size(b.answer) < IPC_MESSAGE_MAX);
	Ipc__GetManyAnswer *x = (Ipc__GetManyAnswer *)b.answer;
	assert_int_equal(x->n_one, N - 1);
	size_t n = 0;
	while (n < N - 1 && x->one[n]->topic != NULL)
		n++;
	assert_in_range(n, 50, 1000);
	for (size_t i = n; i < N - 1; i++)
		assert_int_equal(x->one[i]->error->kind, PICO_THROTTLED);
	asked_done(&b);
}

static void create_kafka(const char *name, const char *alias, bool reserved)
{
	struct asked a;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = (char *)name;
	r.content_type = "text/plain";
	r.kafka_topic = (char *)alias;
	r.has_kafka_topic = true;
	r.reserved_allowed = reserved;
	ask(&a, IPC_CREATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void test_list_kafka(void **state)
{
	struct asked a;
	create_kafka("/lk/b", "zz.1", false);
	create_kafka("/lk/a", "zz.3", false);
	create_kafka("/lk/hidden", "", false);
	create_kafka("/_kafka/_schemas", "zz._schemas", true);
	create_kafka("/lk/c", "zz.2", false);
	static const char *const expected[] = { "zz.1", "zz.2", "zz.3", "zz._schemas" };
	Ipc__ListKafkaRequest r = IPC__LIST_KAFKA_REQUEST__INIT;
	char after[16] = "zz";
	r.start_after = after;
	ask(&a, IPC_LIST_KAFKA, &r.base, none);
	Ipc__ListKafkaAnswer *x = (Ipc__ListKafkaAnswer *)a.answer;
	assert_int_equal(x->n_topics, 4);
	for (int i = 0; i < 4; i++)
		assert_string_equal(x->topics[i]->kafka_topic, expected[i]);
	assert_false(x->has_more);
	asked_done(&a);
	/* Page by page. */
	r.limit = 1;
	for (int i = 0; i < 4; i++) {
		ask(&a, IPC_LIST_KAFKA, &r.base, none);
		x = (Ipc__ListKafkaAnswer *)a.answer;
		assert_int_equal(x->n_topics, 1);
		assert_string_equal(x->topics[0]->kafka_topic, expected[i]);
		assert_int_equal(x->has_more, i < 3);
		snprintf(after, sizeof(after), "%s", x->topics[0]->kafka_topic);
		asked_done(&a);
	}
	/* The list by path hides what is reserved. */
	Ipc__ListRequest list = IPC__LIST_REQUEST__INIT;
	list.prefix = "/_kafka";
	ask(&a, IPC_LIST, &list.base, none);
	assert_int_equal(((Ipc__ListAnswer *)a.answer)->n_topics, 0);
	asked_done(&a);
}

static void test_nodes(void **state)
{
	struct asked a;
	Ipc__NodesRequest r = IPC__NODES_REQUEST__INIT;
	ask(&a, IPC_NODES, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__NodesAnswer *x = (Ipc__NodesAnswer *)a.answer;
	assert_string_equal(x->cluster_id, "c");
	assert_int_equal(x->n_nodes, 1);
	assert_int_equal(x->nodes[0]->id, 1);
	assert_true(x->nodes[0]->local);
	assert_string_equal(x->nodes[0]->host, "h");
	assert_int_equal(x->nodes[0]->n_addresses, 1);
	assert_string_equal(x->nodes[0]->addresses[0]->protocol, "kafka");
	assert_string_equal(x->nodes[0]->addresses[0]->address, "h:9092");
	asked_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_update_every_field), cmocka_unit_test(test_update_schema_fields),
		cmocka_unit_test(test_update_refusals), cmocka_unit_test(test_create_config),
		cmocka_unit_test(test_grow), cmocka_unit_test(test_grow_owners_and_refusals),
		cmocka_unit_test(test_grow_under_appends), cmocka_unit_test(test_get_many),
		cmocka_unit_test(test_get_many_bounds), cmocka_unit_test(test_list_kafka),
		cmocka_unit_test(test_nodes),
	};
	return cmocka_run_group_tests_name("node_settings", tests, world_set_up, world_tear_down);
}
