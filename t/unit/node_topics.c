/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls about topics against a whole node: every field of CreateCommand, also those that no facade uses yet; get,
 * list, delete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "storaged/op.h"
#include "t/unit/node_world.h"

/* ---------------------------------------------------------------------- create */

static void test_create_fields(void **state)
{
	struct asked a, b;
	Ipc__Topic *t = create(&a, "/c/one", 0);
	assert_string_equal(t->name, "/c/one");
	assert_string_equal(t->content_type, "text/plain");
	assert_string_equal(t->kafka_topic, "c.one");
	assert_int_equal(t->n_partitions, 1);
	assert_int_equal(t->partitions[0]->owner, 1);
	assert_int_equal(t->topic_id.len, 16);
	assert_true(((Ipc__CreateAnswer *)a.answer)->created);
	Ipc__Topic *again = create(&b, "/c/one", 0);
	assert_false(((Ipc__CreateAnswer *)b.answer)->created);
	assert_memory_equal(again->topic_id.data, t->topic_id.data, 16);
	asked_done(&a);
	asked_done(&b);
}

static void test_create_refusals(void **state)
{
	struct asked a;
	create(&a, "/c/taken", 0);
	asked_done(&a);
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	struct slice none = slice_of(NULL, 0);
	r.name = "/c/taken";
	r.content_type = "application/json";
	refuse(IPC_CREATE, &r.base, none, PICO_CONFLICT);
	r.content_type = "";
	refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);
	r.content_type = "text/plain";
	static const char *const bad[] = { "", "/", "c", "/a b", "/a/../b", "/a?b", "/\x80", "/_sys/x", "/_groups" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		r.name = (char *)bad[i];
		refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);
	}
	r.name = "/c/zwei";
	r.partitions = 1025;
	refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);
	r.partitions = 3;
	uint32_t owners[] = { 1, 1, 1, 1 };
	r.owners = owners;
	r.n_owners = 2;
	refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);
	r.n_owners = 3;
	r.ttl_seconds = 60;
	r.expires_at_ms = 1900000000000;
	refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);
}

static void test_create_every_field(void **state)
{
	struct asked a;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	struct slice none = slice_of(NULL, 0);
	uint32_t owners[] = { 1, 1, 1 };
	r.name = "/c/two";
	r.content_type = "text/plain";
	r.partitions = 3;
	r.owners = owners;
	r.n_owners = 3;
	r.ttl_seconds = 60;
	r.schema_name = "s";
	r.schema_validate = true;
	r.kafka_topic = "two";
	r.has_kafka_topic = true;
	Ipc__ConfigEntry entry = IPC__CONFIG_ENTRY__INIT, *config[] = { &entry };
	entry.name = "retention.ms";
	entry.value = "1000";
	r.config = config;
	r.n_config = 1;
	ask(&a, IPC_CREATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__Topic *t = ((Ipc__CreateAnswer *)a.answer)->topic;
	assert_int_equal(t->n_partitions, 3);
	assert_int_equal(t->ttl_seconds, 60);
	assert_string_equal(t->schema_name, "s");
	assert_true(t->schema_validate);
	assert_string_equal(t->kafka_topic, "two");
	assert_int_equal(t->partitions[2]->log_id, t->partitions[0]->log_id + 2);
	asked_done(&a);
	r.name = "/c/three";
	refuse(IPC_CREATE, &r.base, none, PICO_CONFLICT);       /* the alias is taken */
	r.kafka_topic = "not/legal";
	refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);
	owners[1] = 77;
	r.kafka_topic = "";
	refuse(IPC_CREATE, &r.base, none, PICO_BAD_REQUEST);    /* no node 77 */
}

/* Creates as in test_create_many(), of which 17 and 33 are bad. */
static void check_validated(Ipc__CreateManyRequest *r, bool created)
{
	struct asked a;
	r->validate_only = true;
	ask(&a, IPC_CREATE_MANY, &r->base, slice_of(NULL, 0));
	r->validate_only = false;
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__CreateManyAnswer *x = (Ipc__CreateManyAnswer *)a.answer;
	assert_int_equal(x->n_one, r->n_create);
	for (size_t i = 0; i < x->n_one; i++) {
		assert_int_equal(x->one[i]->error != NULL, i == 17 || i == 33);
		assert_int_equal(x->one[i]->ok != NULL && x->one[i]->ok->created, created && x->one[i]->error == NULL);
		assert_true(x->one[i]->ok == NULL || x->one[i]->ok->topic == NULL);
	}
	asked_done(&a);
}

static void test_create_many(void **state)
{
	enum { N = 256 };
	static Ipc__CreateRequest one[N + 1];
	static Ipc__CreateRequest *pointer[N + 1];
	static char name[N + 1][32];
	struct asked a;
	Ipc__CreateManyRequest r = IPC__CREATE_MANY_REQUEST__INIT;
	Ipc__Payload records = IPC__PAYLOAD__INIT;
	for (int i = 0; i <= N; i++) {
		ipc__create_request__init(&one[i]);
		snprintf(name[i], sizeof(name[i]), "/m/%03d", i == 9 ? 8 : i);
		one[i].name = name[i];
		one[i].content_type = i == 17 ? "" : "text/plain";
		pointer[i] = &one[i];
	}
	one[33].initial = &records;     /* a message has one payload: whose it is nobody can say */
	r.create = pointer;
	r.n_create = N + 1;
	refuse(IPC_CREATE_MANY, &r.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	r.n_create = N;
	check_validated(&r, true);      /* they are all still to be made, whatever was validated before */
	check_validated(&r, true);
	ask(&a, IPC_CREATE_MANY, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__CreateManyAnswer *x = (Ipc__CreateManyAnswer *)a.answer;
	assert_int_equal(x->n_one, N);
	for (int i = 0; i < N; i++) {
		if (i == 17 || i == 33) {
			assert_int_equal(x->one[i]->error->kind, PICO_BAD_REQUEST);
			continue;
		}
		assert_null(x->one[i]->error);
		assert_string_equal(x->one[i]->ok->topic->name, name[i]);
		assert_int_equal(x->one[i]->ok->created, i != 9);
	}
	asked_done(&a);
	check_validated(&r, false);
	one[0].content_type = "text/html";
	r.n_create = 1;
	r.validate_only = true;
	ask(&a, IPC_CREATE_MANY, &r.base, slice_of(NULL, 0));
	assert_int_equal(((Ipc__CreateManyAnswer *)a.answer)->one[0]->error->kind, PICO_CONFLICT);
	asked_done(&a);
}

/* --------------------------------------------------------------- get, list, delete */

static void test_spellings(void **state)
{
	struct asked a, b;
	Ipc__Topic *t = create(&a, "/orders/eu", 1);
	static const char *const spellings[] = { "/orders/eu", "orders/eu", "orders.eu" };
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	get.topic = &ref;
	for (int i = 0; i < 4; i++) {
		if (i < 3)
			ref.name = (char *)spellings[i];
		else
			ref.topic_id = t->topic_id;
		ask(&b, IPC_GET, &get.base, slice_of(NULL, 0));
		assert_int_equal(b.error.kind, PICO_OK);
		assert_memory_equal(((Ipc__GetAnswer *)b.answer)->topic->topic_id.data, t->topic_id.data, 16);
		asked_done(&b);
	}
	ref.topic_id.len = 15;
	refuse(IPC_GET, &get.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	ref.topic_id.len = 0;
	ref.name = "";
	refuse(IPC_GET, &get.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	get.topic = NULL;
	refuse(IPC_GET, &get.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	asked_done(&a);
}

static void test_list(void **state)
{
	static const char *const names[] = { "/l", "/l/a", "/l/b", "/l/b/c", "/lz" };
	struct asked a;
	for (int i = 0; i < 5; i++) {
		create(&a, names[i], 1);
		asked_done(&a);
	}
	Ipc__ListRequest r = IPC__LIST_REQUEST__INIT;
	r.prefix = "/l";
	ask(&a, IPC_LIST, &r.base, slice_of(NULL, 0));
	Ipc__ListAnswer *x = (Ipc__ListAnswer *)a.answer;
	assert_int_equal(x->n_topics, 5);
	for (int i = 0; i < 5; i++)
		assert_string_equal(x->topics[i]->name, names[i]);
	assert_false(x->has_more);
	asked_done(&a);
	r.prefix = "/l/";
	r.limit = 2;
	ask(&a, IPC_LIST, &r.base, slice_of(NULL, 0));
	x = (Ipc__ListAnswer *)a.answer;
	assert_int_equal(x->n_topics, 2);
	assert_true(x->has_more);
	assert_string_equal(x->topics[1]->name, "/l/b");
	asked_done(&a);
	r.start_after = "/l/b";
	ask(&a, IPC_LIST, &r.base, slice_of(NULL, 0));
	x = (Ipc__ListAnswer *)a.answer;
	assert_int_equal(x->n_topics, 1);
	assert_false(x->has_more);
	asked_done(&a);
	r.prefix = "/nothing";
	r.start_after = "";
	ask(&a, IPC_LIST, &r.base, slice_of(NULL, 0));
	assert_int_equal(((Ipc__ListAnswer *)a.answer)->n_topics, 0);
	asked_done(&a);
}

static void test_delete(void **state)
{
	struct asked a;
	uint8_t id[16];
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__DeleteRequest r = IPC__DELETE_REQUEST__INIT;
	create(&a, "/d", 2);
	asked_done(&a);
	append("/d", 3);
	ref.name = "/d";
	r.topic = &ref;
	ask(&a, IPC_DELETE, &r.base, slice_of(NULL, 0));
	assert_true(((Ipc__DeleteAnswer *)a.answer)->existed);
	asked_done(&a);
	refuse(IPC_DELETE, &r.base, slice_of(NULL, 0), PICO_NOT_FOUND);
	Ipc__Topic *t = create(&a, "/d", 1);
	memcpy(id, t->topic_id.data, sizeof(id));
	asked_done(&a);
	/* By id, as a client repeats it that lost its connection: the second time there is nothing to delete. */
	ref.topic_id = (ProtobufCBinaryData){ .len = sizeof(id), .data = id };
	for (int i = 0; i < 2; i++) {
		ask_start(&a, IPC_DELETE, &r.base, slice_of(NULL, 0), 10000);
		assert_false(a.done);           /* the command log's answer: this process's state may be older than the topic */
		run_until(&a.done);
		assert_int_equal(a.error.kind, PICO_OK);
		assert_int_equal(((Ipc__DeleteAnswer *)a.answer)->existed, i == 0);
		asked_done(&a);
	}
	create(&a, "/d", 1);
	asked_done(&a);
	assert_int_equal(offsets("/d", 0).next, 0);
	assert_int_equal(append("/d", 1), 0);
}

/* ---------------------------------------------------------------------- SOFT_DELETED */

static void on_forked(void *arg, const Meta__Result__One *result)
{
	assert_non_null(result);
	assert_int_equal(result->error, PICO_OK);
	*(bool *)arg = true;
}

/* No call forks yet: the command itself. */
static void fork_topic(const char *name, const Ipc__Topic *source)
{
	Meta__Command c = META__COMMAND__INIT;
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	Meta__Fork fork = META__FORK__INIT;
	Meta__Fork__Point point = META__FORK__POINT__INIT, *points[] = { &point };
	uint8_t id[16];
	bool done = false;
	env_random(env, id, sizeof(id));
	c.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	c.create_topic = &create;
	create.topic_id = (ProtobufCBinaryData){ .data = id, .len = 16 };
	create.name = (char *)name;
	create.content_type = (char *)"text/plain";
	create.fork = &fork;
	fork.source = source->topic_id;
	fork.points = points;
	fork.n_points = 1;
	assert_int_equal(meta_propose(node->meta, &c, on_forked, &done), 0);
	run_until(&done);
}

static void gone_in_many(Ipc__TopicRef *ref, bool kafka_names)
{
	Ipc__GetManyRequest r = IPC__GET_MANY_REQUEST__INIT;
	struct asked a;
	r.topic = &ref;
	r.n_topic = 1;
	r.kafka_names = kafka_names;
	ask(&a, IPC_GET_MANY, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GetManyAnswer *m = (Ipc__GetManyAnswer *)a.answer;
	assert_non_null(m->one[0]->error);
	assert_int_equal(m->one[0]->error->kind, PICO_GONE);
	asked_done(&a);
}

static void delete_topic(Ipc__TopicRef *ref)
{
	Ipc__DeleteRequest r = IPC__DELETE_REQUEST__INIT;
	struct asked a;
	r.topic = ref;
	ask(&a, IPC_DELETE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_true(((Ipc__DeleteAnswer *)a.answer)->existed);
	asked_done(&a);
}

/* GONE for every call, until the last fork goes. */
static void test_soft_deleted(void **state)
{
	struct slice none = slice_of(NULL, 0);
	struct asked a;
	Ipc__Topic *t = create(&a, "/soft/deleted", 1);
	Ipc__TopicRef path = IPC__TOPIC_REF__INIT, alias = IPC__TOPIC_REF__INIT, id = IPC__TOPIC_REF__INIT;
	Ipc__TopicRef fork = IPC__TOPIC_REF__INIT;
	path.name = "/soft/deleted";
	alias.name = "soft.deleted";
	id.topic_id = t->topic_id;
	fork.name = "/soft/fork";
	append("/soft/deleted", 3);
	fork_topic("/soft/fork", t);
	delete_topic(&path);
	Ipc__TopicRef *const refs[] = { &path, &alias, &id };
	for (size_t i = 0; i < 3; i++) {
		Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
		get.topic = refs[i];
		refuse(IPC_GET, &get.base, none, PICO_GONE);
		if (i != 0)
			gone_in_many(refs[i], i == 1);
		Ipc__UpdateRequest update = IPC__UPDATE_REQUEST__INIT;
		update.topic = refs[i];
		refuse(IPC_UPDATE, &update.base, none, PICO_GONE);
	}
	Ipc__DeleteRequest again = IPC__DELETE_REQUEST__INIT;
	again.topic = &path;
	refuse(IPC_DELETE, &again.base, none, PICO_GONE);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	append_refused(&r, "/soft/deleted", 1, PICO_GONE, NULL);
	Ipc__CreateRequest same = IPC__CREATE_REQUEST__INIT;
	same.name = "/soft/deleted";
	same.content_type = "text/plain";
	refuse(IPC_CREATE, &same.base, none, PICO_CONFLICT);
	delete_topic(&fork);
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	get.topic = &id;
	refuse(IPC_GET, &get.base, none, PICO_NOT_FOUND);
	asked_done(&a);
	create(&a, "/soft/deleted", 1);
	assert_true(((Ipc__CreateAnswer *)a.answer)->created);
	assert_int_equal(offsets("/soft/deleted", 0).next, 0);
	asked_done(&a);
}

/* What is for operators is refused to workers that serve clients. */
static void test_admin_alone(void **arg)
{
	Ipc__ObjectsRequest objects = IPC__OBJECTS_REQUEST__INIT;
	Ipc__LogsRequest logs = IPC__LOGS_REQUEST__INIT;
	Ipc__ExportRequest export = IPC__EXPORT_REQUEST__INIT;
	refuse(IPC_OBJECTS, &objects.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	refuse(IPC_LOGS, &logs.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	refuse(IPC_EXPORT, &export.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_fields),
		cmocka_unit_test(test_create_refusals),
		cmocka_unit_test(test_create_every_field),
		cmocka_unit_test(test_create_many),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_delete),
		cmocka_unit_test(test_soft_deleted),
		cmocka_unit_test(test_admin_alone),
	};
	return cmocka_run_group_tests_name("node_topics", tests, world_set_up, world_tear_down);
}
