/* SPDX-License-Identifier: Apache-2.0
 *
 * Metadata, CreateTopics and DeleteTopics: what storaged is asked, how often, and one error a topic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <limits.h>
#include <stdio.h>

#include "common/kafka_error.h"
#include "common/must.h"
#include "t/lib/kafka_world.h"

#define V 12

/* ------------------------------------------------------------------ helpers */

/* This node and one more with a Kafka address; a third has none. */
static void give_nodes(struct seen *s)
{
	Ipc__NodesAnswer a = IPC__NODES_ANSWER__INIT;
	Ipc__NodesAnswer__Address address[3], *list[3];
	Ipc__NodesAnswer__Node node[3], *nodes[3];
	static const char *const where[3] = { "kafka.example:9192", "[2001:db8::7]:9093", "http://other.example" };
	for (size_t i = 0; i < 3; i++) {
		ipc__nodes_answer__address__init(&address[i]);
		ipc__nodes_answer__node__init(&node[i]);
		address[i].protocol = i < 2 ? "kafka" : "http";
		address[i].address = (char *)(uintptr_t)where[i];
		list[i] = &address[i];
		node[i].id = (uint32_t)i + 1;
		node[i].n_addresses = 1;
		node[i].addresses = &list[i];
		nodes[i] = &node[i];
	}
	a.n_nodes = 3;
	a.nodes = nodes;
	a.cluster_id = "elsewhere";
	give(s, &a.base);
}

static void ask_metadata(struct client *c, int32_t correlation_id, const char *const *names, size_t n, bool create)
{
	struct kmsg_metadata_request m = { .n_topics = (uint32_t)n, .allow_auto_topic_creation = create };
	m.topics = KMSG_NEW(&k.region, metadata_request_topic, n);
	for (size_t i = 0; i < n; i++)
		m.topics[i].name = slice_str(names[i]);
	ask(c, METADATA, V, correlation_id, &m);
	give_nodes(nth(IPC_NODES, (size_t)correlation_id));
}

/* Every topic of a CREATE_MANY made, but those whose name begins with "e": they have the error. */
static void give_created(struct seen *s, enum pico_error_kind kind)
{
	const Ipc__CreateManyRequest *r = (const Ipc__CreateManyRequest *)s->call->request;
	Ipc__CreateManyAnswer a = IPC__CREATE_MANY_ANSWER__INIT;
	a.n_one = r->n_create;
	a.one = region_calloc(&k.region, r->n_create, sizeof(*a.one));
	for (size_t i = 0; i < r->n_create; i++) {
		Ipc__CreateManyAnswer__One *one = a.one[i] = region_calloc(&k.region, 1, sizeof(*one));
		ipc__create_many_answer__one__init(one);
		if (r->create[i]->kafka_topic[0] == 'e') {
			struct pico_error *e = region_calloc(&k.region, 1, sizeof(*e));
			pico_error_set(e, kind, "scripted");
			one->error = region_calloc(&k.region, 1, sizeof(*one->error));
			ipc_error_fill(one->error, e);
			continue;
		}
		one->ok = region_calloc(&k.region, 1, sizeof(*one->ok));
		ipc__create_answer__init(one->ok);
		one->ok->created = true;
		one->ok->topic = topic_of_name(r->create[i]->kafka_topic);
	}
	give(s, &a.base);
}

/* ------------------------------------------------------------------ Metadata */

/* Nodes, topics and partitions as storaged has them; a partition whose owner nobody can reach has no leader. */
static void test_metadata(void **state)
{
	struct client c;
	static const char *const names[] = { "t", "nosuch", "bad name" };
	world_open(NULL);
	k.owner = 2;
	client_open(&c, k.port);
	ask_metadata(&c, 0, names, 3, false);
	const struct kmsg_metadata_response *a = answer(&c, METADATA, V, 0);
	assert_int_equal(a->n_brokers, 2);
	assert_int_equal(a->brokers[0].node_id, 1);
	assert_int_equal(a->brokers[0].port, 9192);
	assert_int_equal(a->brokers[1].node_id, 2);
	assert_true(slice_is(a->brokers[0].host, "kafka.example"));
	assert_true(slice_is(a->brokers[1].host, "2001:db8::7"));
	assert_int_equal(a->brokers[1].port, 9093);
	assert_true(slice_is(a->cluster_id, "picomq"));
	assert_int_equal(a->controller_id, 1);
	assert_int_equal(a->cluster_authorized_operations, INT32_MIN);
	assert_int_equal(a->n_topics, 3);
	const struct kmsg_metadata_response_topic *t = &a->topics[0];
	assert_int_equal(t->error_code, 0);
	assert_memory_equal(t->topic_id.bytes, id_of("t"), 16);
	assert_int_equal(t->topic_authorized_operations, INT32_MIN);
	assert_int_equal(t->n_partitions, 4);
	for (int32_t i = 0; i < 4; i++) {
		const struct kmsg_metadata_response_partition *p = &t->partitions[i];
		assert_int_equal(p->partition_index, i);
		assert_int_equal(p->error_code, 0);
		assert_int_equal(p->leader_id, 2);
		assert_int_equal(p->leader_epoch, 3);
		assert_int_equal(p->n_replica_nodes, 1);
		assert_int_equal(p->replica_nodes[0], 2);
		assert_int_equal(p->n_isr_nodes, 1);
		assert_int_equal(p->isr_nodes[0], 2);
		assert_int_equal(p->n_offline_replicas, 0);
	}
	assert_int_equal(a->topics[1].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	assert_true(slice_is(a->topics[1].name, "nosuch"));
	assert_int_equal(a->topics[2].error_code, KAFKA_INVALID_TOPIC_EXCEPTION);
	k.owner = 3;
	ask_metadata(&c, 1, names, 1, false);
	a = answer(&c, METADATA, V, 1);
	assert_int_equal(a->topics[0].error_code, 0);
	assert_int_equal(a->topics[0].partitions[2].error_code, KAFKA_LEADER_NOT_AVAILABLE);
	assert_int_equal(a->topics[0].partitions[2].leader_id, -1);
	assert_int_equal(n_calls(IPC_CREATE_MANY), 0);
	client_close(&c);
	world_close();
}

/* What a client may do is said when it asks, as bits of Kafka's operations. */
static void test_operations(void **state)
{
	enum { READ = 3, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE };
	static const int of_topic[] = { READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS };
	static const int of_cluster[] = { CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE };
	int32_t topic = 0, cluster = 0;
	struct client c;
	for (size_t i = 0; i < sizeof(of_topic) / sizeof(of_topic[0]); i++)
		topic |= 1 << of_topic[i];
	for (size_t i = 0; i < sizeof(of_cluster) / sizeof(of_cluster[0]); i++)
		cluster |= 1 << of_cluster[i];
	world_open(NULL);
	client_open(&c, k.port);
	struct kmsg_metadata_request_topic t = { .name = slice_str("t") };
	struct kmsg_metadata_request m = { .topics = &t, .n_topics = 1, .include_cluster_authorized_operations = true,
					   .include_topic_authorized_operations = true };
	for (int16_t version = 8; version <= V; version++) {
		ask(&c, METADATA, version, version, &m);
		give_nodes(nth(IPC_NODES, (size_t)version - 8));
		const struct kmsg_metadata_response *a = answer(&c, METADATA, version, version);
		assert_int_equal(a->topics[0].topic_authorized_operations, topic);
		assert_int_equal(a->cluster_authorized_operations, version <= 10 ? cluster : INT32_MIN);
	}
	client_close(&c);
	world_close();
}

/* More names than one question may have, or one answer has room for: all are answered, in their order. */
static void test_many_names(void **state)
{
	static const char *names[12000];
	static char text[12000][8];
	struct client c;
	world_open(NULL);
	k.n_partitions = 1;
	k.answer_max = 7000;
	for (size_t i = 0; i < 12000; i++) {
		snprintf(text[i], sizeof(text[i]), "%s%zu", i % 100 == 7 ? "no" : "t", i);
		names[i] = text[i];
	}
	client_open(&c, k.port);
	ask_metadata(&c, 0, names, 12000, false);
	const struct kmsg_metadata_response *a = answer(&c, METADATA, V, 0);
	assert_int_equal(a->n_topics, 12000);
	assert_int_equal(a->throttle_time_ms, 0); /* that two questions were needed is nobody's business */
	for (size_t i = 0; i < 12000; i++) {
		assert_true(slice_is(a->topics[i].name, names[i]));
		assert_int_equal(a->topics[i].error_code, i % 100 == 7 ? KAFKA_UNKNOWN_TOPIC_OR_PARTITION : 0);
		assert_int_equal(a->topics[i].n_partitions, i % 100 != 7);
	}
	assert_int_equal(n_calls(IPC_GET_MANY), 2);
	client_close(&c);
	/* Where no room is for any: said so, and not asked for ever. */
	k.answer_max = 0;
	client_open(&c, k.port);
	for (size_t i = 0; i < 12000; i++)
		names[i] = "t";
	ask_metadata(&c, 1, names, 12000, true);
	a = answer(&c, METADATA, V, 1);
	for (size_t i = 0; i < 12000; i++)
		assert_int_equal(a->topics[i].error_code, KAFKA_LEADER_NOT_AVAILABLE);
	assert_int_equal(a->throttle_time_ms, 100);
	assert_int_equal(n_calls(IPC_GET_MANY), 3);
	assert_int_equal(n_calls(IPC_CREATE_MANY), 0);
	client_close(&c);
	world_close();
}

/* Topics that are named are made where the client asks for it, 256 a call; one that cannot be fails alone. */
static void test_auto_create(void **state)
{
	static const char *names[300];
	static char text[300][8];
	struct client c;
	world_open(NULL);
	k.worker.child.conf.num_partitions = 6;
	for (size_t i = 0; i < 300; i++) {
		snprintf(text[i], sizeof(text[i]), "%s%zu", i == 299 ? "e" : "no", i);
		names[i] = text[i];
	}
	k.missing = "e299";
	client_open(&c, k.port);
	ask_metadata(&c, 0, names, 300, true);
	const Ipc__CreateManyRequest *m = (const Ipc__CreateManyRequest *)nth(IPC_CREATE_MANY, 0)->call->request;
	assert_int_equal(m->n_create, 256);
	assert_string_equal(m->create[3]->kafka_topic, "no3");
	assert_string_equal(m->create[3]->name, "/no3");
	assert_int_equal(m->create[3]->partitions, 6);
	assert_true(m->create[3]->has_kafka_topic);
	give_created(nth(IPC_CREATE_MANY, 0), PICO_OK);
	assert_int_equal(((const Ipc__CreateManyRequest *)nth(IPC_CREATE_MANY, 1)->call->request)->n_create, 44);
	give_created(nth(IPC_CREATE_MANY, 1), PICO_UNAVAILABLE);
	const struct kmsg_metadata_response *a = answer(&c, METADATA, V, 0);
	for (size_t i = 0; i < 299; i++) {
		assert_int_equal(a->topics[i].error_code, 0);
		assert_memory_equal(a->topics[i].topic_id.bytes, id_of(names[i]), 16);
	}
	assert_int_equal(a->topics[299].error_code, KAFKA_LEADER_NOT_AVAILABLE); /* clients ask again */
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ CreateTopics, DeleteTopics */

static void test_create(void **state)
{
	static const struct {
		const char *name;
		int32_t partitions;
		int16_t factor, error;
	} rows[] = {
		{ "good", 3, 2, 0 }, { "default", -1, -1, 0 }, { "bad name", 1, 1, KAFKA_INVALID_TOPIC_EXCEPTION },
		{ "none", 0, 1, KAFKA_INVALID_PARTITIONS }, { "minus", -2, 1, KAFKA_INVALID_PARTITIONS },
		{ "wide", 1025, 1, KAFKA_INVALID_PARTITIONS }, { "factor", 1, 0, KAFKA_INVALID_REPLICATION_FACTOR },
		{ "twice", 1, 1, KAFKA_INVALID_REQUEST }, { "twice", 1, 1, KAFKA_INVALID_REQUEST },
		{ "error", 1, 1, KAFKA_REQUEST_TIMED_OUT }, { "_schemas", 1, 1, 0 },
	};
	enum { N = sizeof(rows) / sizeof(rows[0]) };
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	struct kmsg_create_topics_request m = { .n_topics = N, .timeout_ms = 1000 };
	m.topics = KMSG_NEW(&k.region, create_topics_request_topic, N);
	for (size_t i = 0; i < N; i++) {
		m.topics[i].name = slice_str(rows[i].name);
		m.topics[i].num_partitions = rows[i].partitions;
		m.topics[i].replication_factor = rows[i].factor;
	}
	ask(&c, CREATE_TOPICS, 7, 1, &m);
	struct seen *s = nth(IPC_CREATE_MANY, 0);
	const Ipc__CreateManyRequest *r = (const Ipc__CreateManyRequest *)s->call->request;
	assert_int_equal(r->n_create, 4);
	assert_int_equal(r->create[0]->partitions, 3);
	assert_int_equal(r->create[1]->partitions, 1);
	assert_string_equal(r->create[3]->name, "/_kafka/_schemas");
	assert_true(r->create[3]->reserved_allowed);
	assert_false(r->create[0]->reserved_allowed);
	give_created(s, PICO_DURABILITY);
	const struct kmsg_create_topics_response *a = answer(&c, CREATE_TOPICS, 7, 1);
	assert_int_equal(a->n_topics, N);
	for (size_t i = 0; i < N; i++) {
		if (a->topics[i].error_code != rows[i].error)
			fail_msg("%s: %d, expected %d", rows[i].name, a->topics[i].error_code, rows[i].error);
		assert_int_equal(a->topics[i].error_message.p != NULL, rows[i].error != 0);
	}
	assert_memory_equal(a->topics[0].topic_id.bytes, id_of("good"), 16);
	client_close(&c);
	world_close();
}

/* By name and by id; what storaged did not find was not there. */
static void test_delete(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	struct kmsg_delete_topics_request_topic t[4] = { { .name = slice_str("t") }, { .name = slice_str("nosuch") } };
	struct kmsg_delete_topics_request m = { .topics = t, .n_topics = 4, .timeout_ms = 1000 };
	memcpy(t[2].topic_id.bytes, id_of("u"), 16);
	memcpy(t[3].topic_id.bytes, id_of("gone"), 16);
	ask(&c, DELETE_TOPICS, 6, 1, &m);
	static const char *const ids[] = { "t", "u", "gone" };
	for (size_t i = 0; i < 3; i++) {
		struct seen *s = nth(IPC_DELETE, i);
		assert_memory_equal(((const Ipc__DeleteRequest *)s->call->request)->topic->topic_id.data, id_of(ids[i]), 16);
		Ipc__DeleteAnswer a = IPC__DELETE_ANSWER__INIT;
		a.existed = i < 2;
		give(s, &a.base);
	}
	const struct kmsg_delete_topics_response *a = answer(&c, DELETE_TOPICS, 6, 1);
	static const int16_t codes[] = { 0, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, 0, KAFKA_UNKNOWN_TOPIC_ID };
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(a->responses[i].error_code, codes[i]);
	client_close(&c);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metadata), cmocka_unit_test(test_operations),
		cmocka_unit_test(test_many_names), cmocka_unit_test(test_auto_create),
		cmocka_unit_test(test_create), cmocka_unit_test(test_delete),
	};
	return cmocka_run_group_tests_name("worker-kafka-topics", tests, NULL, NULL);
}
