/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches against a whole node: what is answered at once, what parks and what wakes it, how much comes, what a part
 * of many is told, and the lists that are kept for later fetches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/unit/node_kafka.h"

#define PARTS 1024

/* One request with its parts; fetch_begin() makes it empty. */
struct fetching {
	Ipc__FetchRequest m;
	Ipc__FetchRequest__Part part[PARTS], *pointer[PARTS];
	Ipc__FetchRequest__Part forget[PARTS], *forget_pointer[PARTS];
	struct asked asked;
};
static struct fetching f;               /* large; most tests need one */

static void fetch_begin(struct fetching *x)
{
	memset(x, 0, sizeof(*x));
	ipc__fetch_request__init(&x->m);
	x->m.part = x->pointer;
	x->m.forget = x->forget_pointer;
	x->m.min_bytes = 1;
}

static Ipc__FetchRequest__Part *fetch_add(struct fetching *x, const uint8_t id[16], uint32_t partition, uint64_t offset)
{
	size_t i = x->m.n_part++;
	must(i < PARTS);
	Ipc__FetchRequest__Part *p = x->pointer[i] = &x->part[i];
	ipc__fetch_request__part__init(p);
	p->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	p->partition = partition;
	p->offset = offset;
	p->max_bytes = 1u << 20;
	p->leader_epoch = -1;
	return p;
}

static void fetch_forget(struct fetching *x, const uint8_t id[16], uint32_t partition)
{
	size_t i = x->m.n_forget++;
	x->forget_pointer[i] = &x->forget[i];
	ipc__fetch_request__part__init(&x->forget[i]);
	x->forget[i].topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	x->forget[i].partition = partition;
}

static void fetch_start(struct fetching *x, uint64_t ms)
{
	ask_start(&x->asked, IPC_FETCH, &x->m.base, slice_of(NULL, 0), ms);
}

static const Ipc__FetchAnswer *fetch_wait(struct fetching *x)
{
	run_until(&x->asked.done);
	if (x->asked.error.kind != PICO_OK)
		fail_msg("fetch: %s", x->asked.error.message);
	return (const Ipc__FetchAnswer *)x->asked.answer;
}

static const Ipc__FetchAnswer *fetch_do(struct fetching *x, uint64_t ms)
{
	fetch_start(x, ms);
	return fetch_wait(x);
}

static void fetch_refused(struct fetching *x, enum pico_error_kind kind)
{
	fetch_start(x, 1000);
	run_until(&x->asked.done);
	assert_int_equal(x->asked.error.kind, kind);
	asked_done(&x->asked);
}

static void topic_make(const char *name, uint32_t partitions, uint8_t ret_id[16])
{
	struct asked a;
	memcpy(ret_id, create(&a, name, partitions)->topic_id.data, 16);
	asked_done(&a);
}

/* A batch of n records; returns its size. */
static uint32_t put(const uint8_t id[16], uint32_t partition, uint32_t n)
{
	struct client_batch b = { .n = n, .producer_id = -1 };
	struct submit *s = must_calloc(1, sizeof(*s));
	submit_begin(s);
	uint32_t bytes = (uint32_t)submit_add(s, id, partition, &b).n;
	submit_do(s);
	assert_null(submit_part(s, 0)->error);
	submit_done(s);
	free(s);
	return bytes;
}

/* The part's batches: as many, from that offset on without gap, none behind its bound. Returns the bytes. */
static uint64_t check_part(const struct fetching *x, const Ipc__FetchAnswer__Part *p, uint64_t from, unsigned n_batches)
{
	struct buf all;
	buf_init(&all, 64u << 20);
	assert_null(p->error);
	for (uint32_t i = p->first_piece; i < p->first_piece + p->n_pieces; i++) {
		assert_true(i < x->asked.n_pieces);
		const struct piece *piece = &x->asked.pieces[i];
		buf_put(&all, piece->segment->mem.base + piece->offset, piece->length);
	}
	struct slice left = buf_slice(&all);
	for (unsigned i = 0; i < n_batches; i++) {
		struct record_batch b;
		int64_t size = record_batch_size(left);
		assert_true(size > 0 && (size_t)size <= left.n);
		assert_int_equal(record_batch_read(slice_of(left.p, (size_t)size), &b), 0);
		assert_int_equal(b.base_offset, from);
		from += b.record_count;
		left = slice_of(left.p + size, left.n - (size_t)size);
	}
	assert_int_equal(left.n, 0);
	assert_int_equal(p->end, n_batches > 0 ? from : 0);
	uint64_t bytes = buf_len(&all);
	buf_done(&all);
	return bytes;
}

/* -------------------------------------------------------------- answered at once */

static void test_at_once(void **state)
{
	uint8_t id[16], none[16] = { 5 };
	topic_make("/f/once", 3, id);
	put(id, 0, 2);
	put(id, 0, 3);
	put(id, 2, 1);
	fetch_begin(&f);
	fetch_add(&f, id, 0, 1);                /* the middle of the first batch: it comes whole */
	fetch_add(&f, id, 1, 0);
	fetch_add(&f, id, 2, 0);
	const Ipc__FetchAnswer *a = fetch_do(&f, 60000);
	assert_int_equal(a->n_part, 3);
	check_part(&f, a->part[0], 0, 2);
	check_part(&f, a->part[1], 0, 0);
	check_part(&f, a->part[2], 0, 1);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint64_t confirm[] = { 5, 0, 1 };
		assert_int_equal(a->part[i]->index, i);
		assert_int_equal(a->part[i]->start, 0);
		assert_int_equal(a->part[i]->confirm, confirm[i]);
		assert_int_equal(a->part[i]->leader_epoch, 0);
	}
	asked_done(&f.asked);

	/* An error of one is its own, and ends the wait of all. */
	fetch_begin(&f);
	fetch_add(&f, id, 0, 5);
	fetch_add(&f, id, 0, 6);
	fetch_add(&f, id, 3, 0);
	fetch_add(&f, none, 0, 0);
	fetch_add(&f, id, 1, 0)->leader_epoch = 0;
	fetch_add(&f, id, 1, 0)->leader_epoch = 1;
	fetch_add(&f, id, 1, 0)->leader_epoch = -2;
	a = fetch_do(&f, 60000);
	assert_int_equal(a->n_part, 7);
	check_part(&f, a->part[0], 5, 0);
	assert_int_equal(a->part[1]->error->kind, PICO_OUT_OF_RANGE);
	assert_true(a->part[1]->error->has_next_offset);
	assert_int_equal(a->part[1]->error->next_offset, 5);
	assert_int_equal(a->part[1]->confirm, 5);
	assert_int_equal(a->part[2]->error->kind, PICO_NO_PARTITION);
	assert_int_equal(a->part[3]->error->kind, PICO_NOT_FOUND);
	check_part(&f, a->part[4], 0, 0);
	assert_int_equal(a->part[5]->error->kind, PICO_UNAVAILABLE);
	assert_int_equal(a->part[6]->error->kind, PICO_FENCED);
	asked_done(&f.asked);

	/* min_bytes 0 waits for nothing. */
	fetch_begin(&f);
	f.m.min_bytes = 0;
	fetch_add(&f, id, 0, 5);
	check_part(&f, fetch_do(&f, 60000)->part[0], 5, 0);
	asked_done(&f.asked);
}

static void test_wrong_requests(void **state)
{
	uint8_t id[16];
	topic_make("/f/wrong", 1, id);
	fetch_begin(&f);
	fetch_add(&f, id, 0, 0)->topic_id.len = 15;
	fetch_refused(&f, PICO_BAD_REQUEST);
	fetch_begin(&f);
	Ipc__FetchRequest__Part **many = must_calloc(50001, sizeof(*many));
	fetch_add(&f, id, 0, 0);
	for (size_t i = 0; i < 50001; i++)
		many[i] = f.pointer[0];
	f.m.part = many;
	f.m.n_part = 50001;
	fetch_refused(&f, PICO_BAD_REQUEST);
	f.m.n_part = 50000;
	const Ipc__FetchAnswer *a = fetch_do(&f, 0);
	assert_int_equal(a->n_part, 50000);
	asked_done(&f.asked);
	free(many);
}

/* ---------------------------------------------------------------------- how much */

static void test_max_bytes(void **state)
{
	uint8_t id[16];
	topic_make("/f/max", 3, id);
	uint64_t one = put(id, 0, 10);
	for (int i = 0; i < 3; i++)
		put(id, 0, 10);
	for (uint32_t p = 1; p < 3; p++)
		for (int i = 0; i < 4; i++)
			put(id, p, 10);
	static const struct {
		uint64_t all, part[3];          /* bounds, in batches and a half */
		unsigned n[3];                  /* batches that come */
	} rows[] = {
		{ 100, { 100, 100, 100 }, { 4, 4, 4 } },
		{ 100, { 2, 1, 3 }, { 2, 1, 3 } },
		{ 100, { 0, 1, 0 }, { 1, 1, 0 } },      /* the first batch comes in any case, no other one */
		{ 0, { 100, 100, 100 }, { 1, 0, 0 } },
		{ 5, { 100, 100, 100 }, { 4, 1, 0 } },
		{ 5, { 2, 2, 2 }, { 2, 2, 1 } },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fetch_begin(&f);
		f.m.max_bytes = (uint32_t)(rows[i].all * one + one / 2);
		for (uint32_t p = 0; p < 3; p++)
			fetch_add(&f, id, p, 0)->max_bytes = (uint32_t)(rows[i].part[p] * one + one / 2);
		const Ipc__FetchAnswer *a = fetch_do(&f, 60000);
		for (uint32_t p = 0; p < 3; p++)
			assert_int_equal(check_part(&f, a->part[p], 0, rows[i].n[p]), rows[i].n[p] * one);
		asked_done(&f.asked);
	}
	/* The first part that has one, not the first part. */
	fetch_begin(&f);
	f.m.max_bytes = 1;
	fetch_add(&f, id, 0, 40);
	fetch_add(&f, id, 1, 39);
	fetch_add(&f, id, 2, 0);
	const Ipc__FetchAnswer *a = fetch_do(&f, 60000);
	check_part(&f, a->part[0], 40, 0);
	check_part(&f, a->part[1], 30, 1);
	check_part(&f, a->part[2], 0, 0);
	asked_done(&f.asked);
}

/* Batches that are in the store alone come with those in memory. */
static void test_read_back(void **state)
{
	uint8_t id[16];
	topic_make("/f/back", 40, id);
	for (uint32_t p = 0; p < 40; p++)
		put(id, p, p + 1);
	node_down();
	node_up();
	put(id, 7, 1);
	fetch_begin(&f);
	for (uint32_t p = 0; p < 40; p++)
		fetch_add(&f, id, p, 0);
	const Ipc__FetchAnswer *a = fetch_do(&f, 5000);
	for (uint32_t p = 0; p < 40; p++) {
		check_part(&f, a->part[p], 0, p == 7 && a->part[p]->n_pieces > 1 ? 2 : 1);
		assert_int_equal(a->part[p]->confirm, p == 7 ? p + 2 : p + 1);
	}
	asked_done(&f.asked);
}

/* ----------------------------------------------------------------------- parking */

/* Whether the answer came within that time. */
static bool turns(unsigned ms)
{
	return run_for(&f.asked.done, ms);
}

static void test_one_of_a_thousand(void **state)
{
	uint8_t id[16];
	topic_make("/f/thousand", 1024, id);
	uint64_t waiters = metrics->value[METRIC_WAITERS];
	fetch_begin(&f);
	for (uint32_t p = 0; p < 1024; p++)
		fetch_add(&f, id, p, 0);
	fetch_start(&f, 10000);
	assert_false(turns(20));
	assert_int_equal(metrics->value[METRIC_WAITERS] - waiters, 1024);
	put(id, 777, 2);
	assert_true(turns(5000));               /* at once, not at the deadline */
	const Ipc__FetchAnswer *a = fetch_wait(&f);
	assert_int_equal(a->n_part, 1024);
	for (uint32_t p = 0; p < 1024; p++) {
		check_part(&f, a->part[p], 0, p == 777);
		assert_int_equal(a->part[p]->confirm, p == 777 ? 2 : 0);
	}
	asked_done(&f.asked);
	assert_int_equal(metrics->value[METRIC_WAITERS], waiters);

	/* Many at once make one answer. */
	for (uint32_t p = 0; p < 1024; p++)
		f.part[p].offset = p == 777 ? 2 : 0;
	fetch_start(&f, 10000);
	struct client_batch b = { .n = 1, .producer_id = -1 };
	struct submit *s = must_calloc(1, sizeof(*s));
	submit_begin(s);
	for (uint32_t p = 0; p < 200; p++)
		submit_add(s, id, p, &b);
	submit_do(s);
	submit_done(s);
	free(s);
	a = fetch_wait(&f);
	for (uint32_t p = 0; p < 1024; p++)
		check_part(&f, a->part[p], 0, p < 200);
	asked_done(&f.asked);
}

static void test_min_bytes_and_deadline(void **state)
{
	uint8_t id[16];
	topic_make("/f/min", 3, id);
	uint32_t one = put(id, 0, 1);
	fetch_begin(&f);
	f.m.min_bytes = 3 * one;
	for (uint32_t p = 0; p < 3; p++)
		fetch_add(&f, id, p, 0);
	fetch_start(&f, 10000);
	assert_false(turns(10));
	put(id, 2, 1);
	assert_false(turns(10));
	put(id, 0, 1);                          /* 3: from two parts */
	assert_true(turns(5000));
	const Ipc__FetchAnswer *a = fetch_wait(&f);
	check_part(&f, a->part[0], 0, 2);
	check_part(&f, a->part[1], 0, 0);
	check_part(&f, a->part[2], 0, 1);
	asked_done(&f.asked);

	/* What is there at the deadline comes then, not before. */
	uint64_t begun = env_now_ms(env);
	f.m.min_bytes = 100 * one;
	a = fetch_do(&f, 40);
	assert_true(env_now_ms(env) - begun >= 40 && env_now_ms(env) - begun < 2000);
	check_part(&f, a->part[0], 0, 2);
	asked_done(&f.asked);

	/* More than max_bytes is not waited for. */
	f.m.max_bytes = 2 * one;
	a = fetch_do(&f, 60000);
	assert_int_equal(check_part(&f, a->part[0], 0, 2), 2 * one);
	asked_done(&f.asked);
}

static void delete_topic(const uint8_t id[16])
{
	struct asked a;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__DeleteRequest r = IPC__DELETE_REQUEST__INIT;
	ref.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	r.topic = &ref;
	ask(&a, IPC_DELETE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void close_topic(const char *name)
{
	struct asked a;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__CloseRequest r = IPC__CLOSE_REQUEST__INIT;
	ref.name = (char *)name;
	r.topic = &ref;
	ask(&a, IPC_CLOSE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void test_deleted_closed_cancelled(void **state)
{
	uint8_t id[16], other[16];
	topic_make("/f/gone", 2, id);
	topic_make("/f/stays", 1, other);
	fetch_begin(&f);
	fetch_add(&f, id, 1, 0);
	fetch_add(&f, other, 0, 0);
	fetch_start(&f, 10000);
	assert_false(turns(10));
	delete_topic(id);
	assert_true(turns(5000));
	const Ipc__FetchAnswer *a = fetch_wait(&f);
	assert_int_equal(a->part[0]->error->kind, PICO_NOT_FOUND);
	assert_null(a->part[1]->error);
	asked_done(&f.asked);

	/* A closed log has no more to say: no answer before the deadline, or clients would ask in a circle. */
	fetch_begin(&f);
	fetch_add(&f, other, 0, 0);
	fetch_start(&f, 100);
	close_topic("/f/stays");
	assert_false(turns(20));
	a = fetch_wait(&f);
	check_part(&f, a->part[0], 0, 0);
	asked_done(&f.asked);

	uint64_t waiters = metrics->value[METRIC_WAITERS];
	fetch_start(&f, 10000);
	node_cancel(node, &f.asked.call);
	assert_true(f.asked.done);
	assert_int_equal(f.asked.error.kind, PICO_CANCELLED);
	assert_int_equal(metrics->value[METRIC_WAITERS], waiters);
	asked_done(&f.asked);
}

/* ----------------------------------------------------------------------- watches */

static void again(struct fetching *x, uint64_t watch)
{
	asked_done(&x->asked);
	fetch_begin(x);
	x->m.watch = watch;
}

/* Opens watch 5 over the 10 partitions of a topic, with a batch of 2 in number 3. */
static void watch_open(const char *name, uint8_t id[16])
{
	topic_make(name, 10, id);
	put(id, 3, 2);
	fetch_begin(&f);
	f.m.watch = 5;
	fetch_refused(&f, PICO_NOT_FOUND);      /* not opened yet */
	f.m.watch_new = true;
	for (uint32_t p = 0; p < 10; p++)
		fetch_add(&f, id, p, 0);
	const Ipc__FetchAnswer *a = fetch_do(&f, 10000);
	assert_int_equal(a->n_part, 10);        /* each high watermark is new */
	for (uint32_t p = 0; p < 10; p++) {
		assert_int_equal(a->part[p]->index, p);
		check_part(&f, a->part[p], 0, p == 3);
	}
	assert_int_equal(metrics->value[METRIC_FETCH_WATCHES], 1);
	assert_int_equal(metrics->value[METRIC_FETCH_WATCHED], 10);
}

static void test_watch(void **state)
{
	uint8_t id[16];
	const Ipc__FetchAnswer *a;
	watch_open("/f/watch", id);
	/* Not taken yet: it comes again, alone. */
	again(&f, 5);
	a = fetch_do(&f, 10000);
	assert_int_equal(a->n_part, 1);
	assert_int_equal(a->part[0]->index, 3);
	check_part(&f, a->part[0], 0, 1);

	/* Nothing new; then something of another partition, and between two fetches of a third. */
	again(&f, 5);
	fetch_add(&f, id, 3, 2);
	fetch_start(&f, 10000);
	assert_false(turns(10));
	put(id, 8, 1);
	a = fetch_wait(&f);
	assert_int_equal(a->n_part, 1);
	assert_int_equal(a->part[0]->index, 8);
	check_part(&f, a->part[0], 0, 1);
	again(&f, 5);
	put(id, 9, 1);
	put(id, 4, 1);
	fetch_add(&f, id, 8, 1);
	a = fetch_do(&f, 10000);
	assert_int_equal(a->n_part, 2);
	check_part(&f, a->part[0], 0, 1);
	check_part(&f, a->part[1], 0, 1);
	assert_int_equal(a->part[0]->index + a->part[1]->index, 9 + 4);
	asked_done(&f.asked);
	node_peer_gone(node, next_peer);
}

static void test_watch_changes(void **state)
{
	uint8_t id[16];
	const Ipc__FetchAnswer *a;
	watch_open("/f/changes", id);
	/* One fetch at a time; another number, or another connection, is unknown. */
	again(&f, 5);
	fetch_add(&f, id, 3, 2);
	fetch_forget(&f, id, 4);
	fetch_start(&f, 50);
	static struct fetching second;
	fetch_begin(&second);
	second.m.watch = 5;
	fetch_refused(&second, PICO_BAD_REQUEST);
	second.m.watch = 6;
	fetch_refused(&second, PICO_NOT_FOUND);
	next_peer++;
	second.m.watch = 5;
	fetch_refused(&second, PICO_NOT_FOUND);
	next_peer--;
	assert_int_equal(fetch_wait(&f)->n_part, 0);

	/* Forgotten: not named any more; added again: a new index. */
	again(&f, 5);
	put(id, 4, 1);
	assert_int_equal(fetch_do(&f, 20)->n_part, 0);
	again(&f, 5);
	fetch_add(&f, id, 4, 0);
	a = fetch_do(&f, 10000);
	assert_int_equal(a->n_part, 1);
	assert_int_equal(a->part[0]->index, 10);
	check_part(&f, a->part[0], 0, 1);

	/* Deleted between two fetches: an error each time until it is forgotten. */
	delete_topic(id);
	again(&f, 5);
	a = fetch_do(&f, 10000);
	assert_int_equal(a->n_part, 10);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(a->part[i]->error->kind, PICO_NOT_FOUND);
	again(&f, 5);
	for (uint32_t p = 0; p < 10; p++)
		fetch_forget(&f, id, p);
	assert_int_equal(fetch_do(&f, 30)->n_part, 0);
	asked_done(&f.asked);
	node_peer_gone(node, next_peer);
	assert_int_equal(metrics->value[METRIC_FETCH_WATCHES], 0);
	assert_int_equal(metrics->value[METRIC_FETCH_WATCHED], 0);
	fetch_refused(&f, PICO_NOT_FOUND);
}

/* Those that had their turn stand behind the others. */
static void test_watch_is_fair(void **state)
{
	uint8_t id[16];
	topic_make("/f/fair", 3, id);
	for (uint32_t p = 0; p < 3; p++)
		put(id, p, 1);
	fetch_begin(&f);
	f.m.watch = 1;
	f.m.watch_new = true;
	for (uint32_t p = 0; p < 3; p++)
		fetch_add(&f, id, p, 0);
	for (int round = 0; round < 6; round++) {
		f.m.max_bytes = 1;
		const Ipc__FetchAnswer *a = fetch_do(&f, 10000);
		assert_int_equal(a->n_part, 3);
		unsigned with_data = 0;
		for (uint32_t i = 0; i < 3; i++) {
			if (a->part[i]->n_pieces == 0)
				continue;
			with_data++;
			assert_int_equal(a->part[i]->index, round % 3);
		}
		assert_int_equal(with_data, 1);
		again(&f, 1);
	}
	node_peer_gone(node, next_peer);
}

static void test_watch_bounds(void **state)
{
	uint8_t id[16];
	topic_make("/f/bounds", 1, id);
	for (uint64_t i = 1; i <= 10000; i++) {
		fetch_begin(&f);
		f.m.watch = i;
		f.m.watch_new = true;
		f.m.min_bytes = 0;
		fetch_add(&f, id, 0, 0);
		fetch_do(&f, 1000);
		asked_done(&f.asked);
	}
	fetch_begin(&f);
	f.m.watch = 10001;
	f.m.watch_new = true;
	fetch_add(&f, id, 0, 0);
	fetch_refused(&f, PICO_THROTTLED);
	f.m.watch = 0;                          /* without a watch it goes on */
	f.m.min_bytes = 0;
	fetch_do(&f, 1000);
	asked_done(&f.asked);
	assert_int_equal(metrics->value[METRIC_FETCH_WATCHED], 10000);
	node_peer_gone(node, next_peer);

	/* Who forgets and adds without end has to send the list anew. */
	fetch_begin(&f);
	f.m.watch = 1;
	f.m.watch_new = true;
	f.m.min_bytes = 0;
	unsigned rounds = 0;
	for (; rounds < 3000; rounds++) {
		fetch_add(&f, id, 0, 0);
		fetch_forget(&f, id, 0);
		fetch_start(&f, 1000);
		run_until(&f.asked.done);
		if (f.asked.error.kind != PICO_OK)
			break;
		again(&f, 1);
		f.m.min_bytes = 0;
	}
	assert_int_equal(f.asked.error.kind, PICO_NOT_FOUND);
	assert_true(rounds > 1000 && rounds < 1100);
	asked_done(&f.asked);
	assert_int_equal(metrics->value[METRIC_FETCH_WATCHED], 0);
}

/* A stop, and the end of a node with fetches and watches under way. */
static bool stopped;
static void on_stopped(void *arg)
{
	stopped = true;
}

static void test_stop(void **state)
{
	uint8_t id[16];
	topic_make("/f/stop", 1, id);
	static struct fetching second;
	fetch_begin(&second);
	second.m.watch = 3;
	second.m.watch_new = true;
	fetch_add(&second, id, 0, 0);
	fetch_start(&second, 10000);
	node_down();                        /* never answered */
	node_up();
	fetch_begin(&f);
	fetch_add(&f, id, 0, 0);
	fetch_start(&f, 10000);
	fetch_start(&second, 10000);
	node_stop(node, on_stopped, NULL);
	assert_true(f.asked.done && second.asked.done);
	assert_int_equal(fetch_wait(&f)->n_part, 1);
	assert_int_equal(fetch_wait(&second)->n_part, 1);
	run_until(&stopped);
	asked_done(&f.asked);
	asked_done(&second.asked);
	node_down();
	node_up();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_once), cmocka_unit_test(test_wrong_requests), cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_read_back), cmocka_unit_test(test_one_of_a_thousand),
		cmocka_unit_test(test_min_bytes_and_deadline), cmocka_unit_test(test_deleted_closed_cancelled),
		cmocka_unit_test(test_watch), cmocka_unit_test(test_watch_changes), cmocka_unit_test(test_watch_is_fair),
		cmocka_unit_test(test_watch_bounds),
		cmocka_unit_test(test_stop),
	};
	return cmocka_run_group_tests_name("node_fetch", tests, world_set_up, world_tear_down);
}
