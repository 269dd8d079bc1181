/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks against a whole node: what is answered to a fork, and that each shows exactly what it has to, for ever: in the
 * arena, packed, merged, while sources are trimmed, deleted and made anew, over restarts in every state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/codec.h"
#include "common/metrics.h"
#include "common/must.h"
#include "storaged/op.h"
#include "t/unit/node_forks.h"

#define TAIL UINT64_MAX
#define NOTHING slice_of(NULL, 0)

static void restart(void)
{
	node_down();
	node_up();
}

static void configure(struct node_config *c)
{
	c->wal_upload_interval_ms = 3600000;
	c->gc_delay_ms = 0;
}

/* Whatever is written is packed at once. */
static void configure_packing(struct node_config *c)
{
	c->wal_upload_interval_ms = 1;
	c->gc_delay_ms = 0;
}

/* ---------------------------------------------------------------- what is answered */

static void ask_topic(enum pico_error_kind kind, const char *name)
{
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	struct asked a;
	ref.name = (char *)name;
	get.topic = &ref;
	ask(&a, IPC_GET, &get.base, NOTHING);
	assert_int_equal(a.error.kind, kind);
	asked_done(&a);
}

static void test_answers(void **state)
{
	static struct model s, f, g;
	model_create(&s, "/a/source");
	model_push(&s, 4, CODEC_NONE, 10);
	model_push(&s, 4, CODEC_GZIP, 20);
	assert_int_equal(fork_ask("/a/beyond", &s, 9, false), PICO_OUT_OF_RANGE);
	assert_int_equal(fork_ask("/a/beyond", &s, 8, true), PICO_BAD_REQUEST);        /* no record to take a piece of */
	ask_topic(PICO_NOT_FOUND, "/a/beyond");
	model_fork(&f, "/a/fork", &s, 6, false);
	assert_int_equal(fork_ask("/a/fork", &s, 6, false), PICO_OK);
	assert_int_equal(fork_ask("/a/fork", &s, 6, true), PICO_CONFLICT);
	assert_int_equal(fork_ask("/a/fork", &s, 5, false), PICO_CONFLICT);
	assert_int_equal(fork_ask("/a/fork", &s, TAIL, false), PICO_CONFLICT);
	assert_int_equal(fork_ask("/a/source", &s, 6, false), PICO_CONFLICT);          /* no fork */
	model_fork(&g, "/a/tail", &s, TAIL, false);
	model_push(&s, 1, CODEC_NONE, 30);
	assert_int_equal(fork_ask("/a/tail", &s, TAIL, false), PICO_OK);
	model_trim(&s, 5);
	assert_int_equal(fork_ask("/a/low", &s, 4, false), PICO_OUT_OF_RANGE);
	model_trim(&s, 9);
	assert_int_equal(fork_ask("/a/fork", &s, 6, false), PICO_OK);                  /* also where nothing is left to fork */
	model_delete(&s);
	ask_topic(PICO_GONE, "/a/source");
	ask_topic(PICO_GONE, "a.source");
	assert_int_equal(fork_ask("/a/fork", &s, 6, false), PICO_OK);
	assert_int_equal(fork_ask("/a/new", &s, 6, false), PICO_CONFLICT);
	assert_int_equal(fork_ask("/a/new", &s, TAIL, false), PICO_CONFLICT);
	ask_topic(PICO_NOT_FOUND, "/a/new");
	model_check(&f);
	model_check(&g);
	model_delete(&f);
	ask_topic(PICO_GONE, "/a/source");
	model_delete(&g);
	ask_topic(PICO_NOT_FOUND, "/a/source");
	assert_int_equal(fork_ask("/a/new", &s, TAIL, false), PICO_NOT_FOUND);
}

/* What is wrong with a request, beyond what model_fork() can ask. */
static void test_requests(void **state)
{
	static struct model s;
	struct asked a;
	struct buf b;
	struct log_name l;
	model_create(&s, "/r/source");
	model_push(&s, 4, CODEC_NONE, 10);
	model_push(&s, 4, CODEC_NONE, 20);
	create(&a, "/r/wide", 3);
	asked_done(&a);
	Ipc__ForkRequest r = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest c = IPC__CREATE_REQUEST__INIT;
	refuse(IPC_FORK, &r.base, NOTHING, PICO_BAD_REQUEST);           /* no settings */
	r.create = &c;
	refuse(IPC_FORK, &r.base, NOTHING, PICO_BAD_REQUEST);           /* no source */
	r.source = log_ref(&l, "/r/none", 0)->topic;
	c.name = "/r/fork";
	refuse(IPC_FORK, &r.base, NOTHING, PICO_NOT_FOUND);
	r.source = log_ref(&l, "/r/wide", 0)->topic;
	r.has_offset = true;
	refuse(IPC_FORK, &r.base, NOTHING, PICO_BAD_REQUEST);           /* several partitions */
	r.source = log_ref(&l, "/r/source", 0)->topic;
	r.offset = 6;
	refuse(IPC_FORK, &r.base, NOTHING, PICO_BAD_REQUEST);           /* that is no batch's begin */
	r.has_parent_end = true;
	r.parent_end = 5;
	refuse(IPC_FORK, &r.base, batch(&b, 1, "x"), PICO_BAD_REQUEST); /* neither */
	r.parent_end = 0;
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_BAD_REQUEST);     /* fewer records than lie between */
	r.parent_end = 7;
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_BAD_REQUEST);     /* behind the point */
	r.parent_end = 4;
	refuse(IPC_FORK, &r.base, NOTHING, PICO_BAD_REQUEST);           /* copies are needed */
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_BAD_REQUEST);     /* two of them */
	buf_done(&b);
	batch(&b, 2, "x");
	buf_head(&b)[70] ^= 1;
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_CORRUPT_BATCH);
	buf_head(&b)[70] ^= 1;
	r.sub_offset = 1;
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_BAD_REQUEST);     /* and the piece */
	r.sub_offset = 0;
	c.content_type = "text/html";
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_CONFLICT);
	c.content_type = "";
	c.partitions = 2;
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_BAD_REQUEST);
	c.partitions = 0;
	r.has_offset = r.has_parent_end = false;
	r.sub_offset = 1;
	refuse(IPC_FORK, &r.base, buf_slice(&b), PICO_BAD_REQUEST);
	ask_topic(PICO_NOT_FOUND, "/r/fork");
	buf_done(&b);
}

/* Type and time to live come from the source; what is said is its own. First records may be the fork's alone. */
static void test_settings(void **state)
{
	struct asked a;
	struct buf b;
	struct log_name l;
	Ipc__CreateRequest s = IPC__CREATE_REQUEST__INIT, c = IPC__CREATE_REQUEST__INIT;
	s.name = "/s/source";
	s.content_type = "text/csv; header=present";
	s.ttl_seconds = 60;
	s.closed = true;
	ask(&a, IPC_CREATE, &s.base, batch(&b, 3, "x"));
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	Ipc__ForkRequest r = IPC__FORK_REQUEST__INIT;
	r.create = &c;
	c.name = "/s/fork";
	r.source = log_ref(&l, "/s/source", 0)->topic;
	ask(&a, IPC_FORK, &r.base, buf_slice(&b));
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__Topic *t = ((Ipc__ForkAnswer *)a.answer)->topic;
	assert_string_equal(t->content_type, s.content_type);
	assert_int_equal(t->ttl_seconds, 60);
	assert_false(t->closed);
	assert_string_equal(t->kafka_topic, "s.fork");
	assert_int_equal(t->partitions[0]->confirm, 6);
	asked_done(&a);
	c.name = "/s/own";
	c.content_type = "TEXT/CSV";
	c.expires_at_ms = INT64_MAX / 2;
	c.closed = true;
	c.has_kafka_topic = true;
	c.kafka_topic = "own";
	ask(&a, IPC_FORK, &r.base, buf_slice(&b));
	assert_int_equal(a.error.kind, PICO_OK);
	t = ((Ipc__ForkAnswer *)a.answer)->topic;
	assert_int_equal(t->ttl_seconds, 0);
	assert_int_equal(t->expires_at_ms, INT64_MAX / 2);
	assert_true(t->closed);
	assert_string_equal(t->kafka_topic, "own");
	asked_done(&a);
	assert_true(offsets("/s/own", 0).closed);
	restart();
	assert_true(offsets("/s/own", 0).closed);
	assert_int_equal(offsets("/s/own", 0).confirm, 6);
	assert_int_equal(append("/s/fork", 2), 6);
	buf_done(&b);
}

/* Nothing of who wrote is inherited, and nobody who waits at a fork is woken by its source. */
static void test_own(void **state)
{
	struct asked a, w;
	struct log_name l;
	create(&a, "/o/source", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__Producer p = IPC__PRODUCER__INIT;
	p.id = "p";
	p.epoch = 3;
	r.producer = &p;
	r.has_stream_seq = true;
	r.stream_seq = (ProtobufCBinaryData){ 1, (uint8_t *)"m" };
	assert_int_equal(append_with(&r, "/o/source", 2), 0);
	Ipc__ForkRequest fork = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest c = IPC__CREATE_REQUEST__INIT;
	fork.create = &c;
	c.name = "/o/fork";
	fork.source = log_ref(&l, "/o/source", 0)->topic;
	ask(&a, IPC_FORK, &fork.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	for (int turn = 0; turn < 2; turn++, restart()) {
		p.epoch = turn == 0 ? 1 : 2;
		r.stream_seq.data = (uint8_t *)(turn == 0 ? "a" : "b");
		assert_int_equal(append_with(&r, "/o/fork", 1), 2 + turn);
	}
	p.epoch = 2;
	p.seq = 1;
	append_refused(&r, "/o/source", 1, PICO_FENCED, NULL);
	Ipc__WaitRequest wait = IPC__WAIT_REQUEST__INIT;
	wait.log = log_ref(&l, "/o/fork", 0);
	wait.from = 4;
	ask_start(&w, IPC_WAIT, &wait.base, NOTHING, 10000);
	assert_int_equal(append("/o/source", 5), 2);
	assert_false(run_for(&w.done, 20));
	assert_int_equal(append("/o/fork", 1), 4);
	run_until(&w.done);
	assert_true(((Ipc__WaitAnswer *)w.answer)->ready);
	asked_done(&w);
}

/* Several partitions: each at its end; those that came later have no parent. */
static void test_partitions(void **state)
{
	struct asked a;
	struct log_name l;
	create(&a, "/p/source", 3);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	for (uint32_t i = 0; i < 3; i++) {
		r.log = log_ref(&l, "/p/source", i);
		append_with(&r, NULL, 2 + i);
	}
	Ipc__ForkRequest fork = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest c = IPC__CREATE_REQUEST__INIT;
	fork.create = &c;
	c.name = "/p/fork";
	fork.source = log_ref(&l, "/p/source", 0)->topic;
	ask(&a, IPC_FORK, &fork.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	Ipc__GrowRequest grow = IPC__GROW_REQUEST__INIT;
	grow.topic = log_ref(&l, "/p/fork", 0)->topic;
	grow.partitions = 4;
	ask(&a, IPC_GROW, &grow.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	Ipc__DeleteRequest delete = IPC__DELETE_REQUEST__INIT;
	delete.topic = log_ref(&l, "/p/source", 0)->topic;
	ask(&a, IPC_DELETE, &delete.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	for (int turn = 0; turn < 2; turn++, restart())
		for (uint32_t i = 0; i < 4; i++) {
			assert_int_equal(offsets("/p/fork", i).confirm, i < 3 ? 2 + i : 0);
			Ipc__ReadRequest read = IPC__READ_REQUEST__INIT;
			read.log = log_ref(&l, "/p/fork", i);
			read.partition_given = true;
			ask(&a, IPC_READ, &read.base, NOTHING);
			assert_int_equal(a.error.kind, PICO_OK);
			assert_int_equal(((Ipc__ReadAnswer *)a.answer)->end, i < 3 ? 2 + i : 0);
			asked_done(&a);
		}
}

/* ---------------------------------------------------------------- what is half done */

static void on_proposed(void *arg, const Meta__Result__One *result)
{
	assert_int_equal(result->error, PICO_OK);
	*(bool *)arg = true;
}

/* As a process leaves it that dies before the first records are stored. */
static void propose_unborn(const char *name, const struct model *source, uint64_t offset, uint64_t parent_end)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	Meta__Fork fork = META__FORK__INIT;
	Meta__Fork__Point point = META__FORK__POINT__INIT, *points = &point;
	uint8_t id[16];
	bool done = false;
	env_random(env, id, sizeof(id));
	command.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	command.create_topic = &create;
	create.topic_id = (ProtobufCBinaryData){ .len = 16, .data = id };
	create.name = (char *)name;
	create.content_type = "text/plain";
	create.initial = true;
	create.fork = &fork;
	fork.source = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)source->id };
	fork.points = &points;
	fork.n_points = 1;
	point.offset = offset;
	point.parent_end = parent_end;
	assert_int_equal(meta_propose(node->meta, &command, on_proposed, &done), 0);
	run_until(&done);
}

static void test_unborn(void **state)
{
	static struct model s, f;
	model_create(&s, "/u/source");
	model_push(&s, 4, CODEC_NONE, 10);
	model_push(&s, 6, CODEC_NONE, 20);
	propose_unborn("/u/before", &s, 6, 4);
	propose_unborn("/u/own", &s, 10, 10);
	model_trim(&s, 6);
	propose_unborn("/u/inside", &s, 7, 4);          /* the start lies inside the batch it would get */
	ask_topic(PICO_NOT_FOUND, "/u/inside");
	assert_int_equal(fork_ask("/u/inside", &s, 7, false), PICO_UNAVAILABLE);
	for (int turn = 0; turn < 2; turn++) {
		restart();
		ask_topic(PICO_NOT_FOUND, "/u/before");
		ask_topic(PICO_NOT_FOUND, "/u/own");
		ask_topic(PICO_NOT_FOUND, "/u/inside");
		packs_wait();
	}
	model_fork(&f, "/u/inside", &s, 7, false);
	model_check(&f);
	model_trim(&f, 7);
	restart();
	model_check(&f);
	model_delete(&s);
	restart();
	model_check(&f);
	model_delete(&f);
	ask_topic(PICO_NOT_FOUND, "/u/source");
}

/* ---------------------------------------------------------------- chains */

enum { P, F, G, H, FILLER, N_CHAIN };
static struct model chain[N_CHAIN];

static void chain_check(const bool *deleted)
{
	for (int i = 0; i < N_CHAIN; i++)
		if (!deleted[i])
			model_check(&chain[i]);
}

/* P <- F <- G <- H: forked inside a compressed batch, with a piece, at a batch's begin. Batches in all codecs. */
static void chain_make(const char *prefix)
{
	static const char *const names[] = { "P", "F", "G", "H", "filler" };
	char name[N_CHAIN][32];
	for (int i = 0; i < N_CHAIN; i++)
		snprintf(name[i], sizeof(name[i]), "/%s/%s", prefix, names[i]);
	model_create(&chain[FILLER], name[FILLER]);
	model_create(&chain[P], name[P]);
	for (unsigned i = 0; i < 10; i++)
		model_push(&chain[P], 3 + i % 4, i % 5, 100 + (i * 37) % 50);
	model_fork(&chain[F], name[F], &chain[P], chain[P].record[30].base + 2, false);
	model_push(&chain[P], 5, CODEC_ZSTD, 200);
	for (unsigned i = 0; i < 5; i++)
		model_push(&chain[F], 2 + i % 3, i % 5, 90 + i);
	model_fork(&chain[G], name[G], &chain[F], chain[F].end - 4, true);
	for (unsigned i = 0; i < 5; i++)
		model_push(&chain[G], 1 + i % 3, i % 5, 300 - i);
	model_fork(&chain[H], name[H], &chain[G], chain[G].record[chain[G].end - 3].base, false);
	model_push(&chain[H], 4, CODEC_SNAPPY, 120);
}

/* With a restart behind each step when `crash`. */
static void chain_step(const bool *deleted, bool crash)
{
	chain_check(deleted);
	if (!crash)
		return;
	restart();
	chain_check(deleted);
}

static void chain_run(const char *prefix, bool crash)
{
	bool deleted[N_CHAIN] = { false };
	chain_make(prefix);
	chain_step(deleted, crash);
	model_trim(&chain[P], chain[P].end - 2);
	chain_step(deleted, crash);
	model_trim(&chain[H], 7);
	model_push(&chain[F], 3, CODEC_LZ4, 95);
	chain_step(deleted, crash);
	model_delete(&chain[P]);
	deleted[P] = true;
	chain_step(deleted, crash);
	model_trim(&chain[F], chain[F].end);
	model_delete(&chain[G]);
	deleted[G] = true;
	chain_step(deleted, crash);
	model_push(&chain[H], 2, CODEC_GZIP, 130);
	model_delete(&chain[F]);
	deleted[F] = true;
	chain_step(deleted, crash);
	ask_topic(PICO_GONE, chain[P].name);
	model_delete(&chain[H]);
	deleted[H] = true;
	ask_topic(PICO_NOT_FOUND, chain[P].name);
	model_create(&chain[P], chain[P].name);
	deleted[P] = false;
	model_push(&chain[P], 2, CODEC_NONE, 1);
	chain_step(deleted, crash);
	model_delete(&chain[P]);
	model_delete(&chain[FILLER]);
}

static void test_chain_arena(void **state)
{
	chain_run("arena", false);
}

static void test_chain_restart(void **state)
{
	chain_run("restart", true);
}

static void test_chain_packed(void **state)
{
	world_config = configure_packing;
	restart();
	chain_run("packed", false);
	chain_run("packed-restart", true);
	world_config = configure;
	restart();
}

static void fill_until(unsigned level)
{
	unsigned now;
	for (int i = 0; i < 400; i++) {
		objects_count(&now);
		if (now >= level)
			return;
		model_push(&chain[FILLER], 1, CODEC_NONE, 5);
		packs_wait();
	}
	fail_msg("no object of level %u came", level);
}

/* The whole bucket of objects is gone in the end. */
static void objects_gone(void)
{
	bool never = false;
	unsigned level;
	uint64_t end = env_now_ms(env) + 20000;
	while (objects_count(&level) > 0 && env_now_ms(env) < end)
		run_for(&never, 20);
	assert_int_equal(objects_count(&level), 0);
}

/* Everything is in merged objects: level by level, with deletes and trims between. */
static void test_chain_merged(void **state)
{
	bool deleted[N_CHAIN] = { false };
	world_config = configure_packing;
	restart();
	chain_make("merged");
	packs_wait();
	model_trim(&chain[P], 12);
	fill_until(1);
	chain_step(deleted, true);
	model_trim(&chain[P], chain[P].end);
	model_delete(&chain[P]);
	deleted[P] = true;
	model_trim(&chain[H], 5);
	fill_until(2);
	chain_step(deleted, true);
	model_delete(&chain[F]);
	model_delete(&chain[G]);
	deleted[F] = deleted[G] = true;
	for (int i = 0; i < 3; i++)
		fill_until(0);
	model_push(&chain[H], 2, CODEC_NONE, 3);
	packs_wait();
	chain_step(deleted, true);
	model_trim(&chain[H], chain[H].end);
	chain_step(deleted, true);
	topics_delete();
	objects_gone();
	world_config = configure;
	restart();
}

/* ---------------------------------------------------------------- at random */

#define STREAMS 12
static struct model stream[STREAMS];
static bool lives[STREAMS];
static unsigned seed;

static unsigned below(unsigned n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % n;
}

static void random_fork(int i, unsigned number)
{
	int from = (int)below(STREAMS);
	char name[32];
	snprintf(name, sizeof(name), "/x/%u", number);
	if (!lives[from] || stream[from].end > MODEL_MAX / 2) {
		model_create(&stream[i], name);
	} else if (stream[from].end == stream[from].start || below(4) == 0) {
		model_fork(&stream[i], name, &stream[from], TAIL, false);
	} else {
		uint64_t offset = stream[from].start + below((unsigned)(stream[from].end - stream[from].start));
		model_fork(&stream[i], name, &stream[from], offset, below(4) == 0);
	}
	lives[i] = true;
}

static void random_step(unsigned number)
{
	int i = (int)below(STREAMS);
	unsigned what = below(100);
	struct model *m = &stream[i];
	if (!lives[i]) {
		random_fork(i, number);
	} else if (what < 60) {
		if (m->end < MODEL_MAX - 20)
			model_push(m, 1 + below(8), below(5), below(1000));
	} else if (what < 75) {
		model_trim(m, m->start + below((unsigned)(m->end - m->start) + 1));
	} else if (what < 88) {
		model_delete(m);
		lives[i] = false;
	} else if (what < 91) {
		restart();
	} else if (what < 93 && world_config == configure_packing) {
		packs_wait();
	} else {
		model_check_some(m);
	}
}

static void random_run(unsigned from, unsigned steps)
{
	seed = from;
	memset(lives, 0, sizeof(lives));
	for (unsigned i = 0; i < steps; i++)
		random_step(from * 100000 + i);
	for (int turn = 0; turn < 2; turn++, restart())
		for (int i = 0; i < STREAMS; i++)
			if (lives[i])
				model_check_some(&stream[i]);
	for (int i = 0; i < STREAMS; i++)
		if (lives[i])
			model_delete(&stream[i]);
}

static void test_random(void **state)
{
	for (unsigned i = 1; i <= 6; i++) {
		world_config = i % 2 == 0 ? configure_packing : configure;
		restart();
		random_run(i, 400);
	}
	world_config = configure;
	restart();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_requests), cmocka_unit_test(test_settings),
		cmocka_unit_test(test_own), cmocka_unit_test(test_partitions), cmocka_unit_test(test_unborn),
		cmocka_unit_test(test_chain_arena), cmocka_unit_test(test_chain_restart),
		cmocka_unit_test(test_chain_packed), cmocka_unit_test(test_chain_merged), cmocka_unit_test(test_random),
	};
	world_config = configure;
	return cmocka_run_group_tests_name("node_forks", tests, world_set_up, world_tear_down);
}
