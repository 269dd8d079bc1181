/* SPDX-License-Identifier: Apache-2.0
 *
 * See node_world.h. Checks inside are assertions of the test that calls.
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
#include "storaged/meta/meta_priv.h"
#include "storaged/op.h"
#include "t/unit/node_world.h"

static uv_loop_t loop;
struct env *env;
static struct objstore *store;
static struct sql_log *sql;
struct node *node;
unsigned n_cuts;
static bool serving;
struct node_groups world_groups;
uint32_t world_max_message_size = 1u << 20;
void (*world_config)(struct node_config *c);

/* -------------------------------------------------------------------- the node */

struct objstore *world_store(void)
{
	return store;
}

static void on_serving(void *arg)
{
	serving = true;
}

static void on_fatal(void *arg, int code, const char *text)
{
	fprintf(stderr, "fatal %d: %s\n", code, text);
	abort();
}

static void on_cut(void *arg)
{
	n_cuts++;
}

void run_until(const bool *done)
{
	uint64_t end = env_now_ms(env) + 20000;
	while (!*done && env_now_ms(env) < end)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(*done);
}

struct tick {
	struct env_timer timer;
	struct env *env;
};

/* Again and again: one that fires in front of a poll does not end it. */
static void on_tick(void *arg)
{
	struct tick *t = arg;
	env_timer_start(t->env, &t->timer, env_now_ms(t->env) + 1);
}

bool run_for(const bool *done, uint64_t ms)
{
	uint64_t end = env_now_ms(env) + ms;
	struct tick tick = { { .on_fire = on_tick, .arg = &tick }, env };
	env_timer_start(env, &tick.timer, end);
	while (!*done && env_now_ms(env) < end)
		uv_run(&loop, UV_RUN_ONCE);
	env_timer_stop(env, &tick.timer);
	return *done;
}

void node_up(void)
{
	static const struct node_events events = { .on_serving = on_serving, .on_fatal = on_fatal, .on_cut = on_cut };
	struct node_config c = {
		.meta = { .node = 1, .host = "h", .cluster_id = "c", .slots = 1, .http_address = "",
			  .kafka_address = "h:9092" },
		.wal_cache_size = 128u << 20, .block_cache_size = 16u << 20, .max_message_size = world_max_message_size,
		.groups = world_groups,
		.max_partitions = 1024, .max_logs = 100000,
	};
	env_random(env, c.meta.boot_id, 16);
	memset(c.meta.instance, 7, 16);
	if (world_config != NULL)
		world_config(&c);
	serving = false;
	assert_int_equal(node_new(env, store, store, sql, &c, &events, NULL, &node), 0);
	node_start(node);
	run_until(&serving);
}

static void look_for_tasks(uv_handle_t *handle, void *arg)
{
	if (handle->type == UV_IDLE && uv_is_active(handle))
		*(bool *)arg = true;
}

/* Nothing is deferred, and neither the database nor the store has anything of the metadata's to answer: that cannot be taken
 * back. */
static bool is_quiet(void)
{
	bool has_tasks = false;
	uv_walk(&loop, look_for_tasks, &has_tasks);
	const struct meta *m = node->meta;
	return !has_tasks && !m->busy && !m->batch.active && m->snapshot.state == SNAPSHOT_IDLE &&
		m->export.state <= EXPORT_IDLE;
}

void node_down(void)
{
	bool never = false;
	uint64_t end = env_now_ms(env) + 20000;
	run_for(&never, 2);
	while (!is_quiet() && env_now_ms(env) < end)
		run_for(&never, 1);
	assert_true(is_quiet());
	node_free(node);
}

void world_database(const char *path)
{
	char url[4096], fault[256];
	sql->ops->free(sql);
	snprintf(url, sizeof(url), "sqlite:%s", path);
	if (sql_log_open(env, url, &sql, fault, sizeof(fault)) != 0)
		fail_msg("%s", fault);
}

int world_set_up(void **state)
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

int world_tear_down(void **state)
{
	node_down();
	sql->ops->free(sql);
	store->ops->free(store);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&loop) == 0);
	return 0;
}

/* ----------------------------------------------------------------------- calls */

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

uint64_t next_request, next_peer = 1;

void ask_start(struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload, uint64_t ms)
{
	*a = (struct asked){ .call = {
		.row = ipc_row(type), .request = request, .payload = payload, .worker_instance = 9, .peer = next_peer,
		.request_id = ++next_request, .deadline_ms = env_now_ms(env) + ms, .on_answer = on_answer, .owner = a } };
	node_call(node, &a->call);
}

void ask(struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload)
{
	ask_start(a, type, request, payload, 10000);
	run_until(&a->done);
}

void asked_done(struct asked *a)
{
	if (a->answer != NULL)
		protobuf_c_message_free_unpacked(a->answer, NULL);
	for (size_t i = 0; i < a->n_pieces; i++)
		pin_drop(a->pieces[i].pin);
	free(a->pieces);
}

/* Asks and expects that error. */
void refuse(enum ipc_type type, ProtobufCMessage *request, struct slice payload, enum pico_error_kind kind)
{
	struct asked a;
	ask(&a, type, request, payload);
	assert_int_equal(a.error.kind, kind);
	assert_true(a.error.message[0] != '\0');
	asked_done(&a);
}

struct slice batch(struct buf *b, unsigned n, const char *word)
{
	struct record_batch_writer w;
	buf_init(b, 4u << 20);
	record_batch_begin(&w, b);
	for (unsigned i = 0; i < n; i++)
		record_batch_add(&w, slice_of(NULL, 0), slice_str(word), NULL, 0);
	record_batch_end(&w);
	return buf_slice(b);
}

Ipc__Topic *create(struct asked *a, const char *name, uint32_t partitions)
{
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = (char *)name;
	r.content_type = "text/plain";
	r.partitions = partitions;
	ask(a, IPC_CREATE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a->error.kind, PICO_OK);
	return ((Ipc__CreateAnswer *)a->answer)->topic;
}

Ipc__LogRef *log_ref(struct log_name *n, const char *name, uint32_t partition)
{
	ipc__topic_ref__init(&n->topic);
	ipc__log_ref__init(&n->log);
	n->topic.name = (char *)name;
	n->log.topic = &n->topic;
	n->log.partition = partition;
	return &n->log;
}

/* n records; r may carry further fields. Returns the base offset. */
uint64_t append_with(Ipc__AppendRequest *r, const char *name, unsigned n)
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

uint64_t append(const char *name, unsigned n)
{
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	return append_with(&r, name, n);
}

void append_refused(Ipc__AppendRequest *r, const char *name, unsigned n, enum pico_error_kind kind,
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

Ipc__OffsetsAnswer offsets(const char *name, uint32_t partition)
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
