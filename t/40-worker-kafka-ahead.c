/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading ahead: what a consumer of one partition will ask next is asked while it takes what it got, and given to the
 * fetch that asks the same. Whatever else comes instead, the memory goes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>

#include "common/must.h"
#include "t/lib/kafka_world.h"
#include "worker-kafka/fetch_ahead.h"

#define V 12
#define MIB (1u << 20)

static struct client c;
static struct stock s;
static struct part part;                /* that is fetched next */
static const struct fetch_form form = { .max_wait_ms = 5000, .min_bytes = 1, .max_bytes = 30000 };

static bool is_unpinned(void *arg)
{
	return s.pin.count == 0;
}

static bool is_cancelled(void *arg)
{
	return ((struct seen *)arg)->cancelled;
}

static const Ipc__FetchRequest *asked(size_t index)
{
	return (const Ipc__FetchRequest *)nth(IPC_FETCH, index)->call->request;
}

/* The index-th call is answered with the bytes at offset 100 * index, of 10 records; the log has 100. */
static void bring(size_t index)
{
	struct seen *call = nth(IPC_FETCH, index);
	uint64_t from = asked(index)->part[0]->offset;
	struct found f = { .start = 1, .confirm = 100, .offset = 100 * (uint32_t)index, .length = 100, .end = from + 10 };
	give_fetched(call, &s, &f, 1);
}

static void fetch(int32_t correlation_id, int64_t offset)
{
	part = (struct part){ .topic = "t", .partition = 1, .offset = offset, .max_bytes = 20000 };
	ask_fetch(&c, V, correlation_id, form, &part, 1);
}

static void expect(int32_t correlation_id, size_t index)
{
	const struct kmsg_fetch_response_partition *p = fetched(answer(&c, FETCH, V, correlation_id), 0);
	assert_int_equal(p->error_code, 0);
	assert_int_equal(p->high_watermark, 100);
	assert_int_equal(p->log_start_offset, 1);
	assert_int_equal(p->records.bytes.n, 100);
	assert_memory_equal(p->records.bytes.p, s.segment.mem.base + 100 * index, 100);
}

/* Nothing more is asked. */
static void expect_calls(size_t n)
{
	place_run_ms(&k.place, 20);
	assert_int_equal(n_calls(IPC_FETCH), n);
}

static void open_world(void)
{
	world_open(NULL);
	stock_open(&s, 9, MIB);
	for (uint32_t i = 0; i < MIB; i++)
		s.segment.mem.base[i] = (uint8_t)(i / 100 + i);
	client_open(&c, k.port);
}

static void close_world(void)
{
	client_close(&c);
	wait_conns(0);
	assert_true(place_run(&k.place, is_unpinned, NULL, SOON));
	stock_close(&s);
	world_close();
}

/* A first fetch from 5, answered; the next one is asked for. */
static void begin(void)
{
	open_world();
	fetch(1, 5);
	bring(0);
	expect(1, 0);
	const Ipc__FetchRequest *m = asked(1);
	uint64_t now = env_now_ms(k.place.env);
	assert_int_equal(m->n_part, 1);
	assert_memory_equal(m->part[0]->topic_id.data, id_of("t"), 16);
	assert_int_equal(m->part[0]->partition, 1);
	assert_int_equal(m->part[0]->offset, 15);
	assert_int_equal(m->part[0]->max_bytes, 20000);
	assert_int_equal(m->part[0]->leader_epoch, -1);
	assert_int_equal(m->max_bytes, 30000);
	assert_int_equal(m->min_bytes, 0);
	assert_in_range(m->deadline_ms, now + 800, now + 1100);
}

/* Each fetch takes what was read for it, and nothing is asked twice; whether it came before the fetch or after. */
static void test_goes_on(void **state)
{
	begin();
	for (int32_t i = 2; i < 8; i++) {
		size_t index = (size_t)i - 1;
		if (i % 2) {
			bring(index);
			place_run_ms(&k.place, 5);
		}
		fetch(i, 5 + 10 * (i - 1));
		if (i % 2 == 0) {
			expect_calls(index + 1);
			bring(index);
		}
		expect(i, index);
		assert_int_equal(asked(index + 1)->part[0]->offset, 5 + 10 * i);
		expect_calls(index + 2);
	}
	assert_in_range(s.pin.count, 0, 1);
	close_world();
}

/* The last piece is read ahead, nothing behind it. */
static void test_end(void **state)
{
	begin();
	struct found last = { .start = 1, .confirm = 25, .offset = 100, .length = 100, .end = 25 };
	give_fetched(nth(IPC_FETCH, 1), &s, &last, 1);
	fetch(2, 15);
	assert_int_equal(fetched(answer(&c, FETCH, V, 2), 0)->high_watermark, 25);
	expect_calls(2);
	fetch(3, 25);
	assert_int_equal(asked(2)->min_bytes, 1);       /* this one waits in storaged */
	give_fetched(nth(IPC_FETCH, 2), &s, &(struct found){ .start = 1, .confirm = 25 }, 1);
	answer(&c, FETCH, V, 3);
	expect_calls(3);
	close_world();
}

/* A fetch that asks anything else is asked for itself, and what was read for nobody goes back. */
static void test_other_fetches(void **state)
{
	static const struct {
		const char *topic;
		int32_t partition, max_bytes;
		int64_t offset;
		struct fetch_form form;
	} rows[] = {
		{ "u", 1, 20000, 15, { 5000, 1, 30000 } }, { "t", 2, 20000, 15, { 5000, 1, 30000 } },
		{ "t", 1, 20001, 15, { 5000, 1, 30000 } }, { "t", 1, 20000, 14, { 5000, 1, 30000 } },
		{ "t", 1, 20000, 15, { 5000, 2, 30000 } }, { "t", 1, 20000, 15, { 5000, 1, 30001 } },
	};
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		bool came = i & 1;
		begin();
		if (came) {
			bring(1);
			place_run_ms(&k.place, 5);
			assert_int_equal(s.pin.count, 1);
		}
		part = (struct part){ .topic = rows[i / 2].topic, .partition = rows[i / 2].partition, .offset = rows[i / 2].offset,
				      .max_bytes = rows[i / 2].max_bytes };
		ask_fetch(&c, V, 2, rows[i / 2].form, &part, 1);
		assert_int_equal(asked(2)->part[0]->offset, rows[i / 2].offset);
		if (came)
			assert_true(place_run(&k.place, is_unpinned, NULL, SOON));
		else
			assert_true(place_run(&k.place, is_cancelled, nth(IPC_FETCH, 1), SOON));
		give_fetched(nth(IPC_FETCH, 2), &s, &(struct found){ .confirm = 7 }, 1);
		assert_int_equal(fetched(answer(&c, FETCH, V, 2), 0)->high_watermark, 7);
		expect_calls(3);
		close_world();
	}
}

/* Several partitions, an error, nothing found, a fetch that wants more than one byte: no reading ahead. */
static void test_none(void **state)
{
	struct part two[2] = { { .topic = "t" }, { .topic = "t", .partition = 1 } };
	struct found rich = { .start = 1, .confirm = 100, .length = 100, .end = 10 }, both[2] = { rich, rich };
	open_world();
	ask_fetch(&c, V, 1, form, two, 2);
	give_fetched(nth(IPC_FETCH, 0), &s, both, 2);
	answer(&c, FETCH, V, 1);
	expect_calls(1);
	ask_fetch(&c, V, 2, (struct fetch_form){ .max_wait_ms = 5000, .min_bytes = 2 }, two, 1);
	give_fetched(nth(IPC_FETCH, 1), &s, both, 1);
	answer(&c, FETCH, V, 2);
	expect_calls(2);
	two[0].topic = "nosuch";        /* one that is not asked for counts, too */
	ask_fetch(&c, V, 9, (struct fetch_form){ .max_wait_ms = 5000, .min_bytes = 1 }, two, 2);
	give_fetched(nth(IPC_FETCH, 2), &s, both, 1);
	answer(&c, FETCH, V, 9);
	expect_calls(3);
	fetch(3, 5);
	give_fetched(nth(IPC_FETCH, 3), &s, &(struct found){ .start = 1, .confirm = 100 }, 1);
	answer(&c, FETCH, V, 3);
	fetch(4, 5);
	give_fetched(nth(IPC_FETCH, 4), &s, &(struct found){ .error = PICO_OUT_OF_RANGE, .confirm = 100 }, 1);
	answer(&c, FETCH, V, 4);
	expect_calls(5);
	close_world();
}

/* What was read ahead with an error is nobody's answer: the fetch asks again. */
static void test_failed(void **state)
{
	begin();
	give_fetched(nth(IPC_FETCH, 1), &s, &(struct found){ .error = PICO_NOT_FOUND }, 1);
	place_run_ms(&k.place, 5);
	fetch(2, 15);
	assert_int_equal(asked(2)->part[0]->offset, 15);
	bring(2);
	expect(2, 2);
	give_kind(nth(IPC_FETCH, 3), PICO_UNAVAILABLE);
	place_run_ms(&k.place, 5);
	fetch(3, 25);
	bring(4);
	expect(3, 4);
	close_world();
}

/* Not asked for in time, or storaged wants it back: it goes, and a later fetch asks for itself. */
static void test_goes_back(void **state)
{
	for (int wanted = 0; wanted < 2; wanted++) {
		begin();
		uint64_t began = env_now_ms(k.place.env);
		bring(1);
		place_run_ms(&k.place, 5);
		assert_int_equal(s.pin.count, 1);
		if (wanted) {
			began = env_now_ms(k.place.env);
			peers_on_reclaim(k.place.peers, &s.segment);
		}
		assert_true(place_run(&k.place, is_unpinned, NULL, SOON));
		if (wanted)
			assert_in_range(env_now_ms(k.place.env) - began, 0, AHEAD_MS / 2);
		else
			assert_in_range(env_now_ms(k.place.env) - began, AHEAD_MS - 10, SOON);
		fetch(2, 15);
		bring(2);
		expect(2, 2);
		close_world();
	}
}

/* After a trim or a delete of whatever log, what was read or only asked before it answers no fetch. */
static void test_cut(void **state)
{
	for (int came = 0; came < 2; came++) {
		begin();
		if (came)
			bring(1);
		place_run_ms(&k.place, 5);
		peers_on_cut(k.place.peers);
		fetch(2, 15);
		if (!came)
			assert_true(place_run(&k.place, is_cancelled, nth(IPC_FETCH, 1), SOON));
		give_fetched(nth(IPC_FETCH, 2), &s, &(struct found){ .error = PICO_OUT_OF_RANGE, .start = 20, .confirm = 100 }, 1);
		const struct kmsg_fetch_response_partition *p = fetched(answer(&c, FETCH, V, 2), 0);
		assert_int_equal(p->error_code, KAFKA_OFFSET_OUT_OF_RANGE);
		assert_int_equal(p->log_start_offset, 20);
		assert_int_equal(p->records.bytes.n, 0);
		fetch(3, 20);           /* from then on it is read ahead again */
		bring(3);
		expect(3, 3);
		bring(4);
		fetch(4, 30);
		expect(4, 4);
		close_world();
	}
}

/* With the connection it goes, asked or come; who sends no more is asked nothing for. */
static void test_hang_up(void **state)
{
	for (int came = 0; came < 2; came++) {
		begin();
		if (came)
			bring(1);
		place_run_ms(&k.place, 5);
		shutdown(c.fd, SHUT_WR);
		uint64_t began = env_now_ms(k.place.env);
		client_wait_end(&c);
		assert_true(place_run(&k.place, came ? is_unpinned : is_cancelled, nth(IPC_FETCH, 1), SOON));
		assert_in_range(env_now_ms(k.place.env) - began, 0, AHEAD_MS / 2); /* not when its time is over */
		close_world();
	}
	open_world();
	fetch(1, 5);
	nth(IPC_FETCH, 0);
	fetch(2, 15);                   /* taken already when the end comes */
	place_run_ms(&k.place, 5);
	bring(0);
	expect(1, 0);
	client_close(&c);
	assert_true(place_run(&k.place, is_cancelled, nth(IPC_FETCH, 1), SOON));
	close_world();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_on), cmocka_unit_test(test_end), cmocka_unit_test(test_other_fetches),
		cmocka_unit_test(test_none), cmocka_unit_test(test_failed), cmocka_unit_test(test_goes_back),
		cmocka_unit_test(test_hang_up), cmocka_unit_test(test_cut),
	};
	return cmocka_run_group_tests_name("worker-kafka-ahead", tests, NULL, NULL);
}
