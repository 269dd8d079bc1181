/* SPDX-License-Identifier: Apache-2.0
 *
 * The Topics calls against a whole node (engine, WAL, metadata) on mem:// and sqlite::memory:, as a worker's peer
 * makes them: every field of CreateCommand and AppendCommand, also those that no facade uses yet, and all of it once
 * more after a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/node.h"

static uv_loop_t loop;
static struct env *env;
static struct objstore *store;
static struct sql_log *sql;
static struct node *node;
static bool serving;

/* -------------------------------------------------------------------- the node */

static void on_serving(void *arg)
{
	serving = true;
}

static void on_fatal(void *arg, int code, const char *text)
{
	fprintf(stderr, "fatal %d: %s\n", code, text);
	abort();
}

static void run_until(const bool *done)
{
	uint64_t end = env_now_ms(env) + 20000;
	while (!*done && env_now_ms(env) < end)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(*done);
}

static void node_up(void)
{
	static const struct node_events events = { .on_serving = on_serving, .on_fatal = on_fatal };
	struct node_config c = {
		.meta = { .node = 1, .host = "h", .cluster_id = "c", .slots = 1, .http_address = "" },
		.wal_cache_size = 128u << 20, .block_cache_size = 16u << 20, .max_message_size = 1u << 20,
		.max_partitions = 1024, .max_logs = 100000,
	};
	env_random(env, c.meta.boot_id, 16);
	memset(c.meta.instance, 7, 16);
	serving = false;
	assert_int_equal(node_new(env, store, store, sql, &c, &events, NULL, &node), 0);
	node_start(node);
	run_until(&serving);
}

static int set_up(void **state)
{
	char fault[256];
	struct objstore_url url;
	uint8_t put_id[16] = { 1 };
	must(uv_loop_init(&loop) == 0 && env_uv_new(&loop, &env) == 0);
	must(objstore_url_parse("-2@mem://t", &url, fault, sizeof(fault)) == 0);
	must(objstore_open(env, &url, put_id, &store, fault, sizeof(fault)) == 0);
	must(sql_log_open(env, "sqlite::memory:", &sql, fault, sizeof(fault)) == 0);
	node_up();
	return 0;
}

static int tear_down(void **state)
{
	node_free(node);
	sql->ops->free(sql);
	store->ops->free(store);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&loop) == 0);
	return 0;
}

/* ----------------------------------------------------------------------- calls */

struct asked {
	struct call call;
	bool done;
	struct pico_error error;
	ProtobufCMessage *answer;       /* a copy */
	struct piece *pieces;
	size_t n_pieces;
};

static void on_answer(struct call *c, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct asked *a = c->owner;
	assert_false(a->done);
	a->done = true;
	a->pieces = c->pieces;
	a->n_pieces = c->n_pieces;
	if (error != NULL) {
		a->error = *error;
		return;
	}
	size_t n = protobuf_c_message_get_packed_size(answer);
	uint8_t *bytes = must_calloc(1, n);
	protobuf_c_message_pack(answer, bytes);
	a->answer = protobuf_c_message_unpack(c->row->answer, NULL, n, bytes);
	free(bytes);
}

static uint64_t next_request;

static void ask_start(struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload, uint64_t ms)
{
	*a = (struct asked){ .call = {
		.row = ipc_row(type), .request = request, .payload = payload, .worker_instance = 9,
		.request_id = ++next_request, .deadline_ms = env_now_ms(env) + ms, .on_answer = on_answer, .owner = a } };
	node_call(node, &a->call);
}

static void ask(struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload)
{
	ask_start(a, type, request, payload, 10000);
	run_until(&a->done);
}

static void asked_done(struct asked *a)
{
	if (a->answer != NULL)
		protobuf_c_message_free_unpacked(a->answer, NULL);
	for (size_t i = 0; i < a->n_pieces; i++)
		pin_drop(a->pieces[i].pin);
	free(a->pieces);
}

/* Asks and expects that error. */
static void refuse(enum ipc_type type, ProtobufCMessage *request, struct slice payload, enum pico_error_kind kind)
{
	struct asked a;
	ask(&a, type, request, payload);
	assert_int_equal(a.error.kind, kind);
	assert_true(a.error.message[0] != '\0');
	asked_done(&a);
}

static struct slice batch(struct buf *b, unsigned n, const char *word)
{
	struct record_batch_writer w;
	buf_init(b, 4u << 20);
	record_batch_begin(&w, b);
	for (unsigned i = 0; i < n; i++)
		record_batch_add(&w, slice_of(NULL, 0), slice_str(word), NULL, 0);
	record_batch_end(&w);
	return buf_slice(b);
}

static Ipc__Topic *create(struct asked *a, const char *name, uint32_t partitions)
{
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = (char *)name;
	r.content_type = "text/plain";
	r.partitions = partitions;
	ask(a, IPC_CREATE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a->error.kind, PICO_OK);
	return ((Ipc__CreateAnswer *)a->answer)->topic;
}

struct log_name {
	Ipc__TopicRef topic;
	Ipc__LogRef log;
};

static Ipc__LogRef *log_ref(struct log_name *n, const char *name, uint32_t partition)
{
	ipc__topic_ref__init(&n->topic);
	ipc__log_ref__init(&n->log);
	n->topic.name = (char *)name;
	n->log.topic = &n->topic;
	n->log.partition = partition;
	return &n->log;
}

/* n records; r may carry further fields. Returns the base offset. */
static uint64_t append_with(Ipc__AppendRequest *r, const char *name, unsigned n)
{
	struct log_name l;
	struct buf b = { 0 };
	struct asked a;
	if (r->log == NULL)
		r->log = log_ref(&l, name, 0);
	ask(&a, IPC_APPEND, &r->base, n > 0 ? batch(&b, n, "word") : slice_of(NULL, 0));
	r->log = r->log == &l.log ? NULL : r->log;
	if (a.error.kind != PICO_OK)
		fail_msg("append: %s", a.error.message);
	Ipc__AppendAnswer *x = (Ipc__AppendAnswer *)a.answer;
	uint64_t base = x->base_offset;
	if (n > 0 && !x->duplicate)
		assert_int_equal(x->next_offset, base + n);
	asked_done(&a);
	buf_done(&b);
	return base;
}

static uint64_t append(const char *name, unsigned n)
{
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	return append_with(&r, name, n);
}

static void append_refused(Ipc__AppendRequest *r, const char *name, unsigned n, enum pico_error_kind kind,
			   struct pico_error *ret_error)
{
	struct log_name l;
	struct buf b = { 0 };
	struct asked a;
	r->log = log_ref(&l, name, 0);
	ask(&a, IPC_APPEND, &r->base, n > 0 ? batch(&b, n, "word") : slice_of(NULL, 0));
	r->log = NULL;
	assert_int_equal(a.error.kind, kind);
	if (ret_error != NULL)
		*ret_error = a.error;
	asked_done(&a);
	buf_done(&b);
}

static Ipc__OffsetsAnswer offsets(const char *name, uint32_t partition)
{
	struct log_name l;
	struct asked a;
	Ipc__OffsetsRequest r = IPC__OFFSETS_REQUEST__INIT;
	r.log = log_ref(&l, name, partition);
	ask(&a, IPC_OFFSETS, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__OffsetsAnswer x = *(Ipc__OffsetsAnswer *)a.answer;
	asked_done(&a);
	return x;
}

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

	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	struct slice none = slice_of(NULL, 0);
	r.name = "/c/one";
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
	r.name = "/c/two";
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
	r.expires_at_ms = 0;
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
	t = ((Ipc__CreateAnswer *)a.answer)->topic;
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

static void test_create_closed_and_initial(void **state)
{
	struct asked a;
	struct buf b;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = "/c/closed";
	r.content_type = "text/plain";
	r.closed = true;
	ask(&a, IPC_CREATE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_true(((Ipc__CreateAnswer *)a.answer)->topic->closed);
	asked_done(&a);
	Ipc__AppendRequest append_request = IPC__APPEND_REQUEST__INIT;
	append_refused(&append_request, "/c/closed", 1, PICO_CLOSED, NULL);

	r.name = "/c/initial";
	r.closed = false;
	ask(&a, IPC_CREATE, &r.base, batch(&b, 5, "first"));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(((Ipc__CreateAnswer *)a.answer)->topic->partitions[0]->confirm, 5);
	asked_done(&a);
	assert_int_equal(append("/c/initial", 1), 5);

	r.name = "/c/initial-closed";
	r.closed = true;
	ask(&a, IPC_CREATE, &r.base, buf_slice(&b));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_true(((Ipc__CreateAnswer *)a.answer)->topic->closed);
	asked_done(&a);
	assert_int_equal(offsets("/c/initial-closed", 0).confirm, 5);
	append_refused(&append_request, "/c/initial-closed", 1, PICO_CLOSED, NULL);

	buf_head(&b)[70] ^= 1;
	r.name = "/c/damaged";
	refuse(IPC_CREATE, &r.base, buf_slice(&b), PICO_CORRUPT_BATCH);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	ref.name = r.name;
	get.topic = &ref;
	refuse(IPC_GET, &get.base, slice_of(NULL, 0), PICO_NOT_FOUND);
	buf_done(&b);
}

static void test_create_many(void **state)
{
	enum { N = 256 };
	static Ipc__CreateRequest one[N + 1];
	static Ipc__CreateRequest *pointer[N + 1];
	static char name[N + 1][32];
	struct asked a;
	Ipc__CreateManyRequest r = IPC__CREATE_MANY_REQUEST__INIT;
	for (int i = 0; i <= N; i++) {
		ipc__create_request__init(&one[i]);
		snprintf(name[i], sizeof(name[i]), "/m/%03d", i == 9 ? 8 : i);
		one[i].name = name[i];
		one[i].content_type = i == 17 ? "" : "text/plain";
		pointer[i] = &one[i];
	}
	r.create = pointer;
	r.n_create = N + 1;
	refuse(IPC_CREATE_MANY, &r.base, slice_of(NULL, 0), PICO_BAD_REQUEST);
	r.n_create = N;
	ask(&a, IPC_CREATE_MANY, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__CreateManyAnswer *x = (Ipc__CreateManyAnswer *)a.answer;
	assert_int_equal(x->n_one, N);
	for (int i = 0; i < N; i++) {
		if (i == 17) {
			assert_int_equal(x->one[i]->error->kind, PICO_BAD_REQUEST);
			continue;
		}
		assert_null(x->one[i]->error);
		assert_string_equal(x->one[i]->ok->topic->name, name[i]);
		assert_int_equal(x->one[i]->ok->created, i != 9);
	}
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
	create(&a, "/d", 1);
	asked_done(&a);
	assert_int_equal(offsets("/d", 0).next, 0);
	assert_int_equal(append("/d", 1), 0);
}

/* ---------------------------------------------------------------------- append */

static void test_append_checks(void **state)
{
	struct asked a;
	struct pico_error e;
	struct buf b;
	struct log_name l;
	struct slice none = slice_of(NULL, 0);
	create(&a, "/a", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	refuse(IPC_APPEND, &r.base, none, PICO_BAD_REQUEST);            /* no log */
	r.log = log_ref(&l, "/a", 0);
	refuse(IPC_APPEND, &r.base, none, PICO_BAD_REQUEST);            /* nothing */
	r.log = log_ref(&l, "/a", 1);
	refuse(IPC_APPEND, &r.base, batch(&b, 1, "x"), PICO_BAD_REQUEST); /* no such partition */
	buf_done(&b);
	r.log = log_ref(&l, "/none", 0);
	refuse(IPC_APPEND, &r.base, batch(&b, 1, "x"), PICO_NOT_FOUND);
	r.log = log_ref(&l, "/a", 0);
	buf_head(&b)[65] ^= 1;
	refuse(IPC_APPEND, &r.base, buf_slice(&b), PICO_CORRUPT_BATCH);
	refuse(IPC_APPEND, &r.base, slice_of(buf_head(&b), 60), PICO_CORRUPT_BATCH);
	buf_done(&b);
	uint8_t *large = must_calloc(1, (1u << 20) + 1);
	refuse(IPC_APPEND, &r.base, slice_of(large, (1u << 20) + 1), PICO_TOO_LARGE);
	free(large);
	r.content_type = "text/html";
	append_refused(&r, "/a", 1, PICO_CONFLICT, &e);
	assert_string_equal(e.content_type, "text/plain");
	r.content_type = "Text/Plain ; charset=utf-8";
	assert_int_equal(append_with(&r, "/a", 2), 0);
	r.content_type = "";
	r.settings_version = 1;
	append_with(&r, "/a", 1);
	r.settings_version = 0;
	r.has_match_seq = true;
	r.match_seq = 2;
	append_refused(&r, "/a", 1, PICO_MATCH_FAILED, &e);
	assert_true(e.has_next_offset);
	assert_int_equal(e.next_offset, 3);
	r.match_seq = 3;
	r.check_only = true;
	append_with(&r, "/a", 0);
	assert_int_equal(offsets("/a", 0).next, 3);
	r.check_only = false;
	assert_int_equal(append_with(&r, "/a", 1), 3);
}

static void test_producers(void **state)
{
	/* epoch, seq, expected kind, companion (expected seq or current epoch), duplicate */
	static const struct { uint64_t epoch, seq; enum pico_error_kind kind; uint64_t number; bool duplicate; } steps[] = {
		{ 0, 1, PICO_SEQUENCE_GAP, 0, false }, { 0, 0, PICO_OK, 0, false }, { 0, 0, PICO_OK, 0, true },
		{ 0, 1, PICO_OK, 0, false }, { 0, 0, PICO_OK, 0, true }, { 0, 3, PICO_SEQUENCE_GAP, 2, false },
		{ 2, 1, PICO_SEQUENCE_GAP, 0, false }, { 2, 0, PICO_OK, 0, false }, { 1, 0, PICO_FENCED, 2, false },
		{ 2, 1, PICO_OK, 0, false },
	};
	struct asked a;
	struct pico_error e;
	create(&a, "/p", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__Producer p = IPC__PRODUCER__INIT;
	r.producer = &p;
	append_refused(&r, "/p", 1, PICO_BAD_REQUEST, NULL);            /* no id */
	p.id = "till";
	uint64_t end = 0;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		p.epoch = steps[i].epoch;
		p.seq = steps[i].seq;
		if (steps[i].kind != PICO_OK) {
			append_refused(&r, "/p", 1, steps[i].kind, &e);
			assert_int_equal(steps[i].kind == PICO_FENCED ? e.producer_epoch : e.expected_seq,
					 steps[i].number);
		} else {
			append_with(&r, "/p", 1);
			end += !steps[i].duplicate;
		}
		assert_int_equal(offsets("/p", 0).next, end);
	}
}

static void test_stream_seq(void **state)
{
	struct asked a;
	create(&a, "/s", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	r.has_stream_seq = true;
	r.order = IPC__APPEND_REQUEST__ORDER__CLOSED_FIRST;
	r.stream_seq = (ProtobufCBinaryData){ 2, (uint8_t *)"a1" };
	append_with(&r, "/s", 1);
	append_refused(&r, "/s", 1, PICO_CONFLICT, NULL);
	r.stream_seq = (ProtobufCBinaryData){ 1, (uint8_t *)"a" };
	append_refused(&r, "/s", 1, PICO_CONFLICT, NULL);
	r.stream_seq = (ProtobufCBinaryData){ 2, (uint8_t *)"a2" };
	append_with(&r, "/s", 1);
}

static void test_partitions(void **state)
{
	struct asked a;
	struct buf b;
	struct log_name l;
	create(&a, "/n", 3);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__ReadRequest read = IPC__READ_REQUEST__INIT;
	read.log = log_ref(&l, "/n", 0);
	refuse(IPC_READ, &read.base, slice_of(NULL, 0), PICO_PARTITION_REQUIRED);
	r.log = log_ref(&l, "/n", 0);
	r.any_partition = true;
	unsigned seen = 0;
	for (int i = 0; i < 3; i++) {
		ask(&a, IPC_APPEND, &r.base, batch(&b, 1, "x"));
		seen |= 1u << ((Ipc__AppendAnswer *)a.answer)->partition;
		assert_true(((Ipc__AppendAnswer *)a.answer)->multi_partition);
		asked_done(&a);
		buf_done(&b);
	}
	assert_int_equal(seen, 7);
	r.has_partition_key = true;
	r.partition_key = (ProtobufCBinaryData){ 2, (uint8_t *)"21" };  /* murmur2 -973932308: & 0x7fffffff, mod 3 */
	ask(&a, IPC_APPEND, &r.base, batch(&b, 1, "x"));
	assert_int_equal(((Ipc__AppendAnswer *)a.answer)->partition, ((uint32_t)-973932308 & 0x7fffffff) % 3);
	asked_done(&a);
	buf_done(&b);
}

/* ------------------------------------------------------------------------ close */

static void test_close(void **state)
{
	struct asked a;
	struct pico_error e;
	create(&a, "/k1", 1);
	asked_done(&a);
	create(&a, "/k3", 3);
	asked_done(&a);
	append("/k1", 2);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__CloseRequest close = IPC__CLOSE_REQUEST__INIT;
	close.topic = &ref;
	static const char *const names[] = { "/k1", "/k3" };
	for (int i = 0; i < 2; i++) {
		for (int again = 0; again < 2; again++) {
			ref.name = (char *)names[i];
			ask(&a, IPC_CLOSE, &close.base, slice_of(NULL, 0));
			assert_int_equal(a.error.kind, PICO_OK);
			assert_true(((Ipc__CloseAnswer *)a.answer)->topic->closed);
			assert_int_equal(((Ipc__CloseAnswer *)a.answer)->was_closed, again);
			asked_done(&a);
		}
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_true(offsets("/k3", i).closed);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	append_refused(&r, "/k1", 1, PICO_CLOSED, &e);
	assert_int_equal(e.next_offset, 2);
	r.close_after = true;
	append_with(&r, "/k1", 0);                      /* closing what is closed is fine */

	create(&a, "/k2", 1);
	asked_done(&a);
	Ipc__Producer p = IPC__PRODUCER__INIT;
	p.id = "p";
	r.producer = &p;
	assert_int_equal(append_with(&r, "/k2", 2), 0); /* records and close in one */
	assert_true(offsets("/k2", 0).closed);
	assert_int_equal(offsets("/k2", 0).confirm, 2);
	append_with(&r, "/k2", 2);                      /* the same again is a duplicate */
	assert_int_equal(offsets("/k2", 0).next, 2);
	p.id = "q";
	append_refused(&r, "/k2", 0, PICO_CLOSED, NULL); /* another producer's close */
}

/* ------------------------------------------------------------------ read and wait */

static uint64_t bytes_of(const struct asked *a)
{
	uint64_t n = 0;
	for (size_t i = 0; i < a->n_pieces; i++)
		n += a->pieces[i].length;
	return n;
}

static void test_read(void **state)
{
	struct asked a;
	struct log_name l;
	struct slice none = slice_of(NULL, 0);
	create(&a, "/r", 1);
	asked_done(&a);
	for (int i = 0; i < 4; i++)
		append("/r", 10);
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	r.log = log_ref(&l, "/r", 0);
	r.from = -5;
	ask(&a, IPC_READ, &r.base, none);
	Ipc__ReadAnswer *x = (Ipc__ReadAnswer *)a.answer;
	assert_int_equal(x->from, 0);
	assert_int_equal(x->end, 40);
	assert_int_equal(x->confirm, 40);
	assert_false(x->closed);
	assert_string_equal(x->topic->content_type, "text/plain");
	struct record_batch b;
	assert_int_equal(record_batch_read(slice_of(a.pieces[0].segment->mem.base + a.pieces[0].offset,
						    (size_t)record_batch_size(slice_of(a.pieces[0].segment->mem.base +
									a.pieces[0].offset, 12))), &b), 0);
	assert_int_equal(b.base_offset, 0);
	assert_int_equal(b.record_count, 10);
	assert_true(record_batch_crc_is_good(&b));
	assert_true((b.attributes & BATCH_LOG_APPEND_TIME) != 0);
	assert_true(b.max_timestamp > 1600000000000);
	uint64_t whole = bytes_of(&a);
	asked_done(&a);
	r.from = 15;            /* in the middle of the second batch: that one comes whole */
	r.max_bytes = 1;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(((Ipc__ReadAnswer *)a.answer)->end, 20);
	assert_int_equal(bytes_of(&a), whole / 4);
	asked_done(&a);
	r.from_end = true;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(((Ipc__ReadAnswer *)a.answer)->from, 40);
	assert_int_equal(a.n_pieces, 0);
	asked_done(&a);
	r.from_end = false;
	r.from = 41;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OUT_OF_RANGE);
	assert_true(a.error.has_next_offset && !a.error.has_start_offset);
	assert_int_equal(a.error.next_offset, 40);
	asked_done(&a);
}

static void test_wait(void **state)
{
	struct asked a, w[4];
	struct log_name l;
	struct slice none = slice_of(NULL, 0);
	create(&a, "/w", 1);
	asked_done(&a);
	Ipc__WaitRequest r = IPC__WAIT_REQUEST__INIT;
	r.log = log_ref(&l, "/w", 0);
	ask_start(&w[0], IPC_WAIT, &r.base, none, 50);
	run_until(&w[0].done);                          /* its time is over */
	assert_int_equal(w[0].error.kind, PICO_OK);
	assert_false(((Ipc__WaitAnswer *)w[0].answer)->ready);
	asked_done(&w[0]);

	ask_start(&w[1], IPC_WAIT, &r.base, none, 10000);
	assert_false(w[1].done);
	append("/w", 1);
	run_until(&w[1].done);
	assert_true(((Ipc__WaitAnswer *)w[1].answer)->ready);
	assert_int_equal(((Ipc__WaitAnswer *)w[1].answer)->confirm, 1);
	asked_done(&w[1]);
	ask(&w[1], IPC_WAIT, &r.base, none);            /* there already */
	assert_true(((Ipc__WaitAnswer *)w[1].answer)->ready);
	asked_done(&w[1]);

	r.from_end = true;
	ask_start(&w[0], IPC_WAIT, &r.base, none, 10000);
	ask_start(&w[1], IPC_WAIT, &r.base, none, 10000);
	node_cancel(node, &w[0].call);
	assert_true(w[0].done);
	assert_int_equal(w[0].error.kind, PICO_CANCELLED);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__CloseRequest close = IPC__CLOSE_REQUEST__INIT;
	ref.name = "/w";
	close.topic = &ref;
	ask(&a, IPC_CLOSE, &close.base, none);
	asked_done(&a);
	run_until(&w[1].done);
	assert_true(((Ipc__WaitAnswer *)w[1].answer)->closed);
	asked_done(&w[0]);
	asked_done(&w[1]);

	create(&a, "/w2", 1);
	asked_done(&a);
	r.log = log_ref(&l, "/w2", 0);
	ask_start(&w[0], IPC_WAIT, &r.base, none, 10000);
	Ipc__DeleteRequest delete = IPC__DELETE_REQUEST__INIT;
	ref.name = "/w2";
	delete.topic = &ref;
	ask(&a, IPC_DELETE, &delete.base, none);
	asked_done(&a);
	run_until(&w[0].done);
	assert_true(((Ipc__WaitAnswer *)w[0].answer)->ready);
	asked_done(&w[0]);
}

/* ---------------------------------------------------------------------- restart */

static void test_resume(void **state)
{
	struct asked a;
	Ipc__NodeStatusRequest status = IPC__NODE_STATUS_REQUEST__INIT;
	ask(&a, IPC_NODE_STATUS, &status.base, slice_of(NULL, 0));
	Ipc__NodeStatusAnswer *s = (Ipc__NodeStatusAnswer *)a.answer;
	assert_true(s->ready && s->serving && s->registered);
	assert_int_equal(s->node_id, 1);
	assert_int_equal(strlen(s->cluster_uuid), 32);
	uint64_t session, seq;
	node_wal_position(node, &session, &seq);
	assert_int_equal(session, s->session);
	asked_done(&a);
	create(&a, "/resume", 1);
	asked_done(&a);
	append("/resume", 4);
	uint64_t stored = next_request;

	node_free(node);
	node_up();
	Ipc__Resume__Sent sent[2], *pointer[] = { &sent[0], &sent[1] };
	for (int i = 0; i < 2; i++) {
		ipc__resume__sent__init(&sent[i]);
		sent[i].wal_session = session;
		sent[i].wal_seq = seq;
	}
	sent[0].request_id = stored;
	sent[1].request_id = 1u << 30;          /* never came */
	Ipc__Resume r = IPC__RESUME__INIT;
	r.sent = pointer;
	r.n_sent = 2;
	ask(&a, IPC_RESUME, &r.base, slice_of(NULL, 0));
	Ipc__ResumeAnswer *x = (Ipc__ResumeAnswer *)a.answer;
	assert_int_equal(x->n_found, 2);
	assert_int_equal(x->found[0]->state, IPC__RESUME_ANSWER__STATE__STORED);
	assert_int_equal(x->found[0]->append->base_offset, 0);
	assert_int_equal(x->found[0]->append->next_offset, 4);
	assert_int_equal(x->found[1]->state, IPC__RESUME_ANSWER__STATE__ABSENT);
	asked_done(&a);
}

static void test_after_restart(void **state)
{
	struct pico_error e;
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__Producer p = IPC__PRODUCER__INIT;
	assert_int_equal(offsets("/r", 0).confirm, 40);
	{
		struct asked a;
		struct log_name l;
		Ipc__ReadRequest read = IPC__READ_REQUEST__INIT;
		read.log = log_ref(&l, "/r", 0);
		ask(&a, IPC_READ, &read.base, slice_of(NULL, 0));
		assert_int_equal(((Ipc__ReadAnswer *)a.answer)->end, 40);
		asked_done(&a);
	}
	append_refused(&r, "/k1", 1, PICO_CLOSED, NULL);
	append_refused(&r, "/c/initial-closed", 1, PICO_CLOSED, NULL);
	r.has_stream_seq = true;
	r.stream_seq = (ProtobufCBinaryData){ 2, (uint8_t *)"a2" };
	append_refused(&r, "/s", 1, PICO_CONFLICT, NULL);
	r.has_stream_seq = false;
	r.producer = &p;
	p.id = "till";
	p.epoch = 1;
	append_refused(&r, "/p", 1, PICO_FENCED, &e);
	assert_int_equal(e.producer_epoch, 2);
	p.epoch = 2;
	p.seq = 1;
	uint64_t end = offsets("/p", 0).next;
	append_with(&r, "/p", 1);               /* stored before the restart: a duplicate */
	assert_int_equal(offsets("/p", 0).next, end);
	p.seq = 2;
	assert_int_equal(append_with(&r, "/p", 1), end);
}

static void on_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void test_stop(void **state)
{
	struct asked w, a;
	struct log_name l, m;
	struct buf b;
	bool stopped = false;
	Ipc__WaitRequest wait = IPC__WAIT_REQUEST__INIT;
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	wait.log = log_ref(&l, "/r", 0);
	wait.from_end = true;
	ask_start(&w, IPC_WAIT, &wait.base, slice_of(NULL, 0), 10000);
	r.log = log_ref(&m, "/r", 0);
	ask_start(&a, IPC_APPEND, &r.base, batch(&b, 1, "last"), 10000);
	node_stop(node, on_stopped, &stopped);
	run_until(&stopped);
	assert_true(w.done && a.done);
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(w.error.kind, PICO_OK);
	assert_false(((Ipc__WaitAnswer *)w.answer)->ready);
	asked_done(&w);
	asked_done(&a);
	refuse(IPC_APPEND, &r.base, buf_slice(&b), PICO_UNAVAILABLE);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_fields), cmocka_unit_test(test_create_closed_and_initial),
		cmocka_unit_test(test_create_many), cmocka_unit_test(test_spellings), cmocka_unit_test(test_list),
		cmocka_unit_test(test_delete), cmocka_unit_test(test_append_checks), cmocka_unit_test(test_producers),
		cmocka_unit_test(test_stream_seq), cmocka_unit_test(test_partitions), cmocka_unit_test(test_close),
		cmocka_unit_test(test_read), cmocka_unit_test(test_wait), cmocka_unit_test(test_resume),
		cmocka_unit_test(test_after_restart), cmocka_unit_test(test_stop),
	};
	return cmocka_run_group_tests_name("node_topics", tests, set_up, tear_down);
}
