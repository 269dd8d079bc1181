/* SPDX-License-Identifier: Apache-2.0
 *
 * Which appends are taken, what the others are told and when, and what waits for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/record_batch.h"
#include "t/unit/engine.h"

static struct append *producer_do(const char *text, const char *id, uint64_t epoch, uint64_t seq)
{
	struct append *a = append_new(&process, 0, text);
	append_producer(a, id, epoch, seq);
	append_send(&process, a);
	return a;
}

static void put_end(enum world_end how)
{
	world_end_op(&world, world_put_at(&world, 0), how);
	world_run(&world);
}

/* ---------------------------------------------------------------- producers */

struct producer_case {
	const char *id;
	uint64_t epoch, seq;
	enum pico_error_kind kind;
	bool duplicate;
	uint64_t expected, epoch_known, seq_known;
};

/* Each row follows those above it. */
static const struct producer_case producer_cases[] = {
	{ "p", 0, 1, PICO_SEQUENCE_GAP, .expected = 0 },
	{ "p", 0, 0, .kind = PICO_OK },
	{ "p", 0, 0, PICO_OK, .duplicate = true, .seq_known = 0 },
	{ "p", 0, 2, PICO_SEQUENCE_GAP, .expected = 1 },
	{ "p", 0, 1, .kind = PICO_OK },
	{ "p", 0, 2, .kind = PICO_OK },
	{ "p", 0, 1, PICO_OK, .duplicate = true, .seq_known = 2 },
	{ "q", 5, 0, .kind = PICO_OK },
	{ "p", 1, 3, PICO_SEQUENCE_GAP, .expected = 0 },
	{ "p", 1, 0, .kind = PICO_OK },
	{ "p", 0, 3, PICO_FENCED, .epoch_known = 1 },
	{ "p", 0, 0, PICO_FENCED, .epoch_known = 1 },
	{ "q", 4, 0, PICO_FENCED, .epoch_known = 5 },
	{ "q", 5, 1, .kind = PICO_OK },
};

static void check_case(const struct producer_case *c, uint64_t *next)
{
	struct append *a = producer_do("x", c->id, c->epoch, c->seq);
	world_run(&world);
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, c->kind);
	assert_int_equal(a->a.duplicate, c->duplicate);
	if (c->kind == PICO_SEQUENCE_GAP) {
		assert_true(a->error.has_gap);
		assert_int_equal(a->error.expected_seq, c->expected);
		assert_int_equal(a->error.received_seq, c->seq);
	} else if (c->kind == PICO_FENCED) {
		assert_true(a->error.has_producer_epoch);
		assert_int_equal(a->error.producer_epoch, c->epoch_known);
	} else if (c->duplicate) {
		assert_int_equal(a->a.accepted_seq, c->seq_known);
		assert_int_equal(a->a.accepted_epoch, c->epoch);
		assert_int_equal(a->a.next_offset, *next);
		assert_int_equal(a->a.base_known, c->seq == c->seq_known);
	} else {
		assert_stored(a, *next, *next + 1);
		assert_int_equal(a->a.accepted_seq, c->seq);
		(*next)++;
	}
	append_free(a);
}

static void test_producer_table(void **state)
{
	uint64_t next = 0;
	process_serve(&process, &world, 0);
	for (size_t i = 0; i < sizeof(producer_cases) / sizeof(producer_cases[0]); i++)
		check_case(&producer_cases[i], &next);
	assert_int_equal(log_next(process.logs[0]), next);
	/* The same answers after a restart. */
	process_kill(&process);
	process_serve(&process, &world, 1);
	static const struct producer_case after[] = {
		{ "p", 1, 0, PICO_OK, .duplicate = true, .seq_known = 0 },
		{ "q", 5, 0, PICO_OK, .duplicate = true, .seq_known = 1 },
		{ "p", 1, 2, PICO_SEQUENCE_GAP, .expected = 1 },
		{ "p", 0, 9, PICO_FENCED, .epoch_known = 1 },
		{ "p", 1, 1, .kind = PICO_OK },
		{ "r", 0, 1, PICO_SEQUENCE_GAP, .expected = 0 },
	};
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
		check_case(&after[i], &next);
}

static void test_duplicate_waits_for_its_original(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = producer_do("x", "p", 0, 0);
	world_run(&world);
	struct append *dup = producer_do("x", "p", 0, 0), *gap = producer_do("x", "p", 0, 5);
	struct append *fenced, *other = producer_do("x", "q", 0, 1);
	assert_refused(other, PICO_SEQUENCE_GAP); /* rests on nothing */
	world_run(&world);
	assert_open(dup);
	assert_open(gap);
	put_end(END_OK);
	assert_stored(a, 0, 1);
	assert_int_equal(dup->n_answers, 1);
	assert_true(dup->a.duplicate && dup->a.base_known);
	assert_int_equal(dup->a.base_offset, 0);
	assert_refused(gap, PICO_SEQUENCE_GAP);
	assert_true(a->order < dup->order && dup->order != 0);
	struct append *newer = producer_do("x", "p", 3, 0);
	world_run(&world);
	fenced = producer_do("x", "p", 0, 1);
	world_run(&world);
	assert_open(fenced);
	put_end(END_OK);
	assert_stored(newer, 1, 2);
	assert_refused(fenced, PICO_FENCED);
	append_free(a), append_free(dup), append_free(gap), append_free(other), append_free(newer), append_free(fenced);
}

static void test_producers_of_a_log_are_bounded(void **state)
{
	char id[16];
	process_serve(&process, &world, 0);
	for (int i = 0; i <= 2048; i++) {
		snprintf(id, sizeof(id), "p%d", i);
		struct append *a = producer_do("x", id, 0, 0);
		world_advance(&world, 1);
		assert_stored(a, (uint64_t)i, (uint64_t)i + 1);
		append_free(a);
	}
	struct append *first = producer_do("x", "p0", 0, 1), *second = producer_do("x", "p1", 0, 0);
	world_run(&world);
	assert_refused(first, PICO_SEQUENCE_GAP); /* the longest idle was forgotten */
	assert_true(second->a.duplicate);
	append_free(first), append_free(second);
	for (int day = 0; day < 7; day++) {
		world_advance(&world, 24 * 3600 * 1000 / 2);
		world_advance(&world, 24 * 3600 * 1000 / 2);
	}
	first = producer_do("x", "p2", 0, 1);
	assert_refused(first, PICO_SEQUENCE_GAP);
	append_free(first);
}

/* ------------------------------------------------------ conditions and closing */

static void test_match_seq(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_new(&process, 0, "one"), *b = append_new(&process, 0, "two");
	struct append *c = append_new(&process, 0, "three");
	a->a.has_match_seq = b->a.has_match_seq = c->a.has_match_seq = true;
	append_send(&process, a);
	append_send(&process, b); /* 0, but 1 is submitted: waits for that to be true for ever */
	c->a.match_seq = 1;
	append_send(&process, c);
	world_run(&world);
	assert_open(b);
	put_end(END_OK);
	world.hold_puts = false;
	world_run(&world);
	assert_stored(a, 0, 1);
	assert_refused(b, PICO_MATCH_FAILED);
	assert_true(b->error.has_next_offset);
	assert_int_equal(b->error.next_offset, 1);
	assert_stored(c, 1, 2);
	append_free(a), append_free(b), append_free(c);
}

static struct append *stream_seq_do(const char *seq)
{
	struct append *a = append_new(&process, 0, "x");
	a->a.has_stream_seq = true;
	a->a.stream_seq = slice_str(seq);
	a->a.order = APPEND_CLOSED_FIRST;
	append_send(&process, a);
	world_run(&world);
	return a;
}

static void test_stream_seq(void **state)
{
	static const struct { const char *seq; bool taken; } rows[] = {
		{ "a", true }, { "a", false }, { "B", false }, { "b", true }, { "b0", true }, { "10", false },
		{ "", false }, { "c", true },
	};
	process_serve(&process, &world, 0);
	uint64_t next = 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct append *a = stream_seq_do(rows[i].seq);
		if (rows[i].taken)
			assert_stored(a, next, next + 1);
		else
			assert_refused(a, PICO_CONFLICT);
		next += rows[i].taken;
		append_free(a);
	}
	process_kill(&process);
	process_serve(&process, &world, 1);
	struct append *a = stream_seq_do("c"), *b = stream_seq_do("d");
	assert_refused(a, PICO_CONFLICT);
	assert_stored(b, next, next + 1);
	append_free(a), append_free(b);
}

static struct append *close_do(const char *text, const char *id, uint64_t seq, enum append_order order)
{
	struct append *a = append_new(&process, 0, text);
	a->a.close_after = true;
	a->a.order = order;
	if (id != NULL)
		append_producer(a, id, 0, seq);
	append_send(&process, a);
	world_run(&world);
	return a;
}

static void check_was_closed(struct append *a)
{
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, PICO_OK);
	assert_true(a->a.was_closed && a->a.closed && !a->a.duplicate);
	append_free(a);
}

static void check_closed(struct append *a, uint64_t next)
{
	assert_refused(a, PICO_CLOSED);
	assert_true(a->error.has_next_offset);
	assert_int_equal(a->error.next_offset, next);
	append_free(a);
}

static void test_close_without_producer(void **state)
{
	process_serve(&process, &world, 0);
	append_now(&process, 0, "one", 0);
	struct append *a = close_do(NULL, NULL, 0, APPEND_PRODUCER_FIRST);
	assert_stored(a, 1, 1);
	assert_true(a->a.closed && !a->a.was_closed);
	assert_true(log_is_closed(process.logs[0]));
	append_free(a);
	for (int restarted = 0; restarted < 2; restarted++) {
		assert_int_equal(log_next(process.logs[0]), 1);
		check_was_closed(close_do(NULL, NULL, 0, APPEND_PRODUCER_FIRST));
		check_was_closed(close_do(NULL, NULL, 0, APPEND_CLOSED_FIRST));
		check_was_closed(close_do(NULL, "p", 0, APPEND_PRODUCER_FIRST)); /* who closed is not known */
		check_closed(close_do("x", NULL, 0, APPEND_PRODUCER_FIRST), 1);
		struct append *x = append_do(&process, 0, "x");
		check_closed(x, 1);
		x = append_new(&process, 0, "x");
		x->a.has_match_seq = true; /* closed comes before match */
		append_send(&process, x);
		check_closed(x, 1);
		process_kill(&process);
		process_serve(&process, &world, (size_t)restarted + 1);
		assert_true(log_is_closed(process.logs[0]));
	}
}

static void test_close_by_producer(void **state)
{
	process_serve(&process, &world, 0);
	struct append *a = producer_do("x", "p", 0, 0);
	world_run(&world);
	append_free(a);
	a = close_do("last", "p", 1, APPEND_PRODUCER_FIRST);
	assert_stored(a, 1, 2);
	assert_true(a->a.closed);
	append_free(a);
	for (int restarted = 0; restarted < 2; restarted++) {
		for (int order = 0; order < 2; order++) {
			a = close_do(restarted ? NULL : "last", "p", 1, order);
			assert_int_equal(a->error.kind, PICO_OK);
			assert_true(a->a.duplicate && a->a.closed);
			assert_int_equal(a->a.accepted_seq, 1);
			append_free(a);
			check_closed(close_do(NULL, "q", 0, order), 2);
			check_closed(close_do(NULL, "p", 2, order), 2);
			check_was_closed(close_do(NULL, NULL, 0, order));
		}
		/* An older number of the closer: a duplicate where producers come first, closed else. */
		a = close_do(NULL, "p", 0, APPEND_PRODUCER_FIRST);
		assert_true(a->a.duplicate);
		append_free(a);
		check_closed(close_do(NULL, "p", 0, APPEND_CLOSED_FIRST), 2);
		process_kill(&process);
		process_serve(&process, &world, (size_t)restarted + 1);
	}
}

static void test_close_in_flight(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *closer = close_do("last", NULL, 0, APPEND_PRODUCER_FIRST), *x = append_do(&process, 0, "x");
	struct append *again = close_do(NULL, NULL, 0, APPEND_PRODUCER_FIRST);
	world_run(&world);
	assert_open(x);
	assert_open(again);
	assert_false(log_is_closed(process.logs[0]));
	put_end(END_OK);
	assert_stored(closer, 0, 1);
	check_closed(x, 1);
	check_was_closed(again);
	append_free(closer);
}

static void test_closing_takes_only_closers(void **state)
{
	process_serve(&process, &world, 0);
	engine_log_set_closing(process.logs[0]);
	check_closed(append_do(&process, 0, "x"), 0);
	struct append *a = close_do(NULL, NULL, 0, APPEND_PRODUCER_FIRST);
	assert_stored(a, 0, 0);
	append_free(a);
}

static void test_created_closed(void **state)
{
	process_serve(&process, &world, 0);
	struct log *log = engine_log_add(process.engine, 200, 1, 0, true);
	process.logs[0] = log;
	check_closed(append_do(&process, 0, "x"), 0);
	check_was_closed(close_do(NULL, NULL, 0, APPEND_PRODUCER_FIRST));
	assert_true(log_is_closed(log));
}

static void test_check_only(void **state)
{
	process_serve(&process, &world, 0);
	size_t puts = world.n_puts;
	struct append *a = append_new(&process, 0, "x");
	append_producer(a, "p", 0, 0);
	a->a.check_only = true;
	append_send(&process, a);
	assert_int_equal(a->error.kind, PICO_OK);
	append_free(a);
	a = append_new(&process, 0, NULL);
	append_producer(a, "p", 0, 1);
	a->a.check_only = true;
	append_send(&process, a);
	assert_refused(a, PICO_SEQUENCE_GAP);
	append_free(a);
	world_run(&world);
	assert_int_equal(world.n_puts, puts);
	assert_int_equal(log_next(process.logs[0]), 0);
}

/* --------------------------------------------------------------- bad batches */

static void spoil(uint8_t *batch, size_t n, size_t at, uint8_t bits, bool crc)
{
	batch[at] ^= bits;
	if (crc)
		record_batch_stamp(batch, n, 0);
}

static void test_bad_batches_leave_nothing(void **state)
{
	static const struct { size_t at; uint8_t bits; bool crc; enum pico_error_kind kind; } rows[] = {
		{ 70, 1, false, PICO_CORRUPT_BATCH },           /* a record's byte */
		{ 16, 3, true, PICO_CORRUPT_BATCH },            /* magic */
		{ 11, 1, true, PICO_CORRUPT_BATCH },            /* length */
		{ 26, 1, true, PICO_CORRUPT_BATCH },            /* last offset delta */
		{ 60, 1, true, PICO_CORRUPT_BATCH },            /* count */
		{ 22, 4, true, PICO_BAD_REQUEST },              /* zstd */
		{ 22, 0x10, true, PICO_BAD_REQUEST },           /* transactional */
		{ 22, 0x20, true, PICO_BAD_REQUEST },           /* control */
		{ 43, 0x80, true, PICO_BAD_REQUEST },           /* a numeric producer id */
	};
	process_serve(&process, &world, 0);
	size_t puts = world.n_puts;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct append *a = append_new(&process, 0, "some text to be spoiled");
		append_producer(a, "p", 0, 0);
		spoil(a->batch, a->a.payload.n, rows[i].at, rows[i].bits, rows[i].crc);
		append_send(&process, a);
		assert_refused(a, rows[i].kind);
		append_free(a);
	}
	struct append *a = append_new(&process, 0, NULL);
	append_send(&process, a);
	assert_refused(a, PICO_BAD_REQUEST);
	append_free(a);
	a = append_new(&process, 0, NULL);
	static uint8_t large[4097];
	a->a.payload = slice_of(large, sizeof(large));
	append_send(&process, a);
	assert_refused(a, PICO_TOO_LARGE);
	append_free(a);
	world_run(&world);
	assert_int_equal(world.n_puts, puts);
	a = producer_do("good", "p", 0, 0);
	world_run(&world);
	assert_stored(a, 0, 1);
	append_free(a);
	assert_records(&process, 0, 0, "good");
}

/* --------------------------------------------------------- deadlines and room */

static void test_deadlines(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_new(&process, 0, "x"), *dup = append_new(&process, 0, "x");
	struct append *gap = append_new(&process, 0, "x"), *late = append_new(&process, 0, "x");
	append_producer(a, "p", 0, 0);
	append_producer(dup, "p", 0, 0);
	append_producer(gap, "p", 0, 9);
	a->a.deadline_ms = dup->a.deadline_ms = gap->a.deadline_ms = world.now_ms + 100;
	late->a.deadline_ms = world.now_ms;
	append_send(&process, a);
	append_send(&process, dup);
	append_send(&process, gap);
	append_send(&process, late);
	assert_refused(late, PICO_UNAVAILABLE);
	world_advance(&world, 99);
	assert_open(a);
	world_advance(&world, 1);
	assert_refused(a, PICO_DURABILITY);
	assert_refused(dup, PICO_DURABILITY);
	assert_refused(gap, PICO_UNAVAILABLE);
	put_end(END_OK);
	assert_int_equal(log_confirm(process.logs[0]), 1); /* it was in the arena all the same */
	append_free(a), append_free(dup), append_free(gap), append_free(late);
}

static void test_room_is_given_in_order(void **state)
{
	static char text[3000];
	memset(text, 'x', sizeof(text) - 1);
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	/* 3/4 of 16 segments of 8 KiB, two such frames a segment: 24 fit the segments that may be unstored */
	struct append *a[40];
	for (int i = 0; i < 40; i++) {
		a[i] = append_new(&process, 0, i == 39 ? "small" : text);
		a[i]->a.deadline_ms = world.now_ms + (i == 38 ? 50 : 100000);
		append_send(&process, a[i]);
	}
	world_run(&world);
	uint64_t placed = log_next(process.logs[0]);
	assert_in_range(placed, 24, 33);
	struct append *cancelled = append_do(&process, 1, "other log");
	assert_open(cancelled); /* behind them, though it would fit */
	assert_true(engine_append_cancel(process.engine, &cancelled->a));
	assert_false(engine_append_cancel(process.engine, &a[0]->a));
	world_advance(&world, 50);
	assert_refused(a[38], PICO_UNAVAILABLE);
	world.hold_puts = false;
	world_run(&world);
	uint64_t next = 0;
	for (int i = 0; i < 40; i++) {
		if (i == 38)
			continue;
		assert_stored(a[i], next, next + 1);
		next++;
	}
	assert_int_equal(log_confirm(process.logs[1]), 0);
	assert_int_equal(cancelled->n_answers, 0);
	for (int i = 0; i < 40; i++)
		append_free(a[i]);
	free(cancelled);
}

static void note_stopped(void *arg)
{
	*(bool *)arg = true;
}

/* An object of many frames: all is visible at once, answers come in order and a part each turn. */
static void test_many_answers_take_turns(void **state)
{
	enum { N = 600 };
	static struct append *a[N];
	test_config.max_bytes_in_batch = 97000;
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	for (int i = 0; i < N; i++)
		a[i] = append_do(&process, i % 2, "x");
	world_run(&world);
	assert_int_equal(world_puts(&world), 1);
	struct append *dup = producer_do("y", "p", 0, 7);
	assert_refused(dup, PICO_SEQUENCE_GAP);
	world_end_op(&world, world_put_at(&world, 0), END_OK);
	assert_int_equal(log_confirm(process.logs[0]), N / 2);
	assert_int_equal(log_confirm(process.logs[1]), N / 2);
	assert_in_range(answers, 2, N - 1);
	bool stopped = false;
	engine_stop(process.engine, note_stopped, &stopped);
	world_run(&world);
	assert_true(stopped);
	for (int i = 0; i < N; i++) {
		assert_stored(a[i], (uint64_t)i / 2, (uint64_t)i / 2 + 1);
		assert_int_equal(a[i]->order, i + 2);
		append_free(a[i]);
	}
	append_free(dup);
}

static void test_stop_answers_everything(void **state)
{
	test_config.batch_interval_ms = 100000;
	process_serve(&process, &world, 0);
	for (uint64_t i = 0; i < 10; i++)
		append_now(&process, 1, "x", i);
	struct append *a = append_do(&process, 0, "x"); /* no token is left: stopping needs none */
	bool stopped = false;
	world_run(&world);
	assert_open(a);
	engine_stop(process.engine, note_stopped, &stopped);
	struct append *late = append_do(&process, 0, "x");
	assert_refused(late, PICO_UNAVAILABLE);
	assert_false(stopped);
	world_run(&world);
	assert_stored(a, 0, 1);
	assert_true(stopped);
	append_free(a), append_free(late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_producer_table), TEST(test_duplicate_waits_for_its_original),
		TEST(test_producers_of_a_log_are_bounded), TEST(test_match_seq), TEST(test_stream_seq),
		TEST(test_close_without_producer), TEST(test_close_by_producer), TEST(test_close_in_flight),
		TEST(test_closing_takes_only_closers), TEST(test_created_closed), TEST(test_check_only),
		TEST(test_bad_batches_leave_nothing), TEST(test_deadlines), TEST(test_room_is_given_in_order),
		TEST(test_many_answers_take_turns), TEST(test_stop_answers_everything),
	};
	return cmocka_run_group_tests_name("engine-append", tests, NULL, NULL);
}
