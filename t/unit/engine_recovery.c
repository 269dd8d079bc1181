/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery: where ended sessions end, what is read back, what refuses the start; and what is remembered
 * of requests and of time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "t/unit/engine.h"

static void test_many_sessions(void **state)
{
	char expected[200] = "", text[16];
	for (unsigned s = 0; s < 6; s++) {
		process_serve(&process, &world, s);
		for (unsigned k = 0; k < 3; k++) {
			snprintf(text, sizeof(text), "%u.%u", s, k);
			append_now(&process, 0, text, s * 3 + k);
			strcat(expected, *expected ? "|" : "");
			strcat(expected, text);
		}
		process_kill(&process);
	}
	process_serve(&process, &world, 6);
	assert_records(&process, 0, 0, expected);
	assert_int_equal(process.stats.frames, 18);
}

/* More objects than a window, so the search goes on; then a gap behind which there is rubbish. */
static void test_cut_is_the_lowest_seal(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 150);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "lost");
	world_run(&world);
	struct append *b = append_do(&process, 0, "rubbish");
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 1), END_OK); /* the second is stored, the first is not */
	world.hold_puts = false;
	process_kill(&process);
	free(a), free(b);
	process_serve(&process, &world, 1);
	assert_int_equal(process.ended[0].cut, 151);
	assert_int_equal(log_next(process.logs[0]), 150);
	append_now(&process, 0, "150", 150);
	process_kill(&process);
	process_serve(&process, &world, 2);
	assert_int_equal(process.ended[0].cut, 151);
	assert_int_equal(log_next(process.logs[0]), 151);
}

/* The old process puts on while it is being sealed. */
static void test_seals_that_lose(void **state)
{
	process_serve(&process, &world, 0);
	append_now(&process, 0, "one", 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "two");
	world_run(&world);
	struct world_op put = *world_put_at(&world, 0);
	put.copy = NULL;
	uint8_t bytes[1024];
	size_t n = world_put_at(&world, 0)->n;
	memcpy(bytes, world_put_at(&world, 0)->copy, n);
	process_kill(&process);
	free(a);
	process_start(&process, &world, 1);
	world_run(&world);
	assert_int_equal(world_puts(&world), 64);
	world_store(&world, put.key, bytes, n); /* takes effect before its seal */
	while (world_puts(&world) > 0) {
		world_end_op(&world, world_put_at(&world, world_puts(&world) - 1), END_OK);
		world_run(&world);
	}
	world.hold_puts = false;
	world_run(&world);
	assert_true(process.serving);
	assert_int_equal(process.ended[0].cut, 3);
	assert_records(&process, 0, 0, "one|two");
}

static void test_all_seals_before_any_read(void **state)
{
	for (size_t s = 0; s < 2; s++) {
		process_serve(&process, &world, s);
		append_now(&process, 0, "x", s);
		process_kill(&process);
	}
	/* Session 2's seals do not come through: nothing of session 1 may be read for its frames. */
	world.hold_puts = true;
	process_start(&process, &world, 2);
	world_run(&world);
	for (int i = 0; i < 64; i++) {
		assert_null(strstr(world_put_at(&world, 0)->key, "0000000000000001/"));
		world_end_op(&world, world_put_at(&world, 0), END_LOST);
		world_run(&world);
	}
	world_advance(&world, 4000);
	assert_int_equal(world_puts(&world), 64);
	assert_int_equal(log_next(process.logs[0]), 0);
	assert_non_null(engine_fault(process.engine));
	assert_false(process.serving);
	world.hold_puts = false;
	world_advance(&world, 10000);
	assert_true(process.serving);
	assert_int_equal(log_next(process.logs[0]), 2);
}

/* A node that was killed again and again while it started: one after the other would take ten times as long. */
static void test_cuts_are_searched_side_by_side(void **state)
{
	char key[WAL_KEY_MAX];
	world.hold_gets = true;
	process_start(&process, &world, 10);
	world_run(&world);
	assert_int_equal(world.n_ops, 8 * 64);
	for (int i = 0; i < 64; i++) {
		wal_key(key, 7, 8, (uint64_t)i);
		assert_string_equal(world.ops[7 * 64 + i]->key, key);
	}
	/* The first to be done goes on with the ninth; nothing is read for its frames. */
	for (int i = 0; i < 2 * 64; i++) { /* look and probe; seals are not held */
		struct world_op *op = world.ops[i < 64 ? 0 : 7 * 64];
		assert_non_null(strstr(op->key, "0000000000000001/"));
		world_end_op(&world, op, END_OK);
	}
	world_run(&world);
	assert_int_equal(process.ended[0].cut, 0);
	assert_int_equal(world.n_ops, 8 * 64);
	assert_non_null(strstr(world.ops[7 * 64]->key, "0000000000000009/"));
	world.hold_gets = false;
	world_run(&world);
	assert_true(process.serving);
	append_now(&process, 0, "x", 0);
}

/* The questions about the object of that seq that are out. */
static unsigned asked(uint64_t seq, struct world_op **ret_first)
{
	char key[WAL_KEY_MAX];
	unsigned n = 0;
	wal_key(key, 7, 1, seq);
	for (size_t i = world.n_ops; i > 0; i--)
		if (strcmp(world.ops[i - 1]->key, key) == 0) {
			*ret_first = world.ops[i - 1];
			n++;
		}
	return n;
}

/* A connection that hangs at one object: look, probe and seal are asked again after five seconds. */
static void test_what_hangs_is_asked_again(void **state)
{
	struct world_op *first = NULL, *op;
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 3);
	process_kill(&process);
	world.hold_gets = true;
	process_start(&process, &world, 1);
	world_run(&world);
	assert_int_equal(world.n_ops, 64);
	while (world.n_ops > 1)
		world_end_op(&world, world.ops[world.n_ops - 1], END_OK);
	assert_int_equal(asked(0, &first), 1);
	world_advance(&world, 4999);
	assert_int_equal(world.n_ops, 1);
	world_advance(&world, 1);
	assert_int_equal(asked(0, &op), 2);
	assert_ptr_equal(op, first);
	world_advance(&world, 60000);
	assert_int_equal(world.n_ops, 2); /* and no third beside them */
	world.hold_puts = true;
	world_end_op(&world, world.ops[1], END_OK); /* the search goes on; the first is still out, of another use */
	while (world.n_ops > 1 && !world.ops[world.n_ops - 1]->is_put)
		world_end_op(&world, world.ops[world.n_ops - 1], END_OK);
	assert_int_equal(world_puts(&world), 64);
	while (world_puts(&world) > 1)
		world_end_op(&world, world_put_at(&world, 1), END_OK);
	world_end_op(&world, first, END_OK); /* an answer to an old question */
	assert_false(process.serving);
	assert_int_equal(asked(4, &first), 1);
	world_advance(&world, 5000);
	assert_int_equal(asked(4, &op), 2);
	world_end_op(&world, world_put_at(&world, 1), END_OK);
	assert_int_equal(process.ended[0].cut, 4);
	world.hold_gets = false;
	world_run(&world);
	world_end_op(&world, first, END_OK); /* taken: by its own second */
	world.hold_puts = false;
	world_run(&world);
	assert_true(process.serving);
	assert_records(&process, 0, 0, "0|1|2");
	append_now(&process, 0, "3", 3);
}

static void check_refused_start(const char *words)
{
	process_start(&process, &world, 1);
	world_advance(&world, 600000);
	assert_int_equal(process.fatal, 1);
	assert_false(process.serving);
	assert_non_null(strstr(process.fatal_text, "wal/7/0000000000000001/0000000000000002"));
	if (strstr(process.fatal_text, words) == NULL)
		fail_msg("%s", process.fatal_text);
	process_kill(&process);
}

static void test_damage_refuses_the_start(void **state)
{
	const char *key = "wal/7/0000000000000001/0000000000000002";
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 3);
	process_kill(&process);
	process_serve(&process, &world, 1); /* seals */
	process_kill(&process);
	struct world_object *o = world_find(&world, key);
	for (size_t at = 0; at < o->n; at++) {
		o->data[at] ^= 0x40;
		check_refused_start(at < 64 ? "" : "checksum");
		o->data[at] ^= 0x40;
	}
	o->n--;
	check_refused_start("length");
	o->n++;
	/* An object of the same session in another's place; then with a header that says so. */
	for (int i = 0; i < 2; i++) {
		uint64_t from = i == 0 ? 3 : 1;
		char name[WAL_KEY_MAX];
		uint8_t copy[1024];
		struct wal_header h;
		wal_key(name, 7, 1, from);
		struct world_object *other = world_find(&world, name);
		size_t n = other->n;
		memcpy(copy, other->data, n);
		world_store(&world, key, copy, n);
		check_refused_start("its name");
		assert_null(wal_header_decode(slice_of(copy, n), &h));
		h.seq = 2;
		wal_header_encode(copy, &h);
		world_store(&world, key, copy, n);
		check_refused_start("records are missing before a frame of it, or are there twice");
	}
}

/* Removes the object, starts: refused by name, with nothing sealed; then puts it back. */
static void check_deleted(uint64_t seq, size_t at)
{
	char key[WAL_KEY_MAX];
	uint8_t copy[1024];
	wal_key(key, 7, 1, seq);
	struct world_object *o = world_find(&world, key);
	size_t n = o->n, n_objects;
	memcpy(copy, o->data, n);
	world_remove(&world, key);
	n_objects = world.n_objects;
	process_start(&process, &world, at);
	world_advance(&world, 60000);
	assert_int_equal(process.fatal, 1);
	assert_non_null(strstr(process.fatal_text, key));
	assert_non_null(strstr(process.fatal_text, "somebody deleted it"));
	assert_int_equal(world.n_objects, n_objects);
	process_kill(&process);
	world_store(&world, key, copy, n);
}

static void test_deleted_objects_refuse_the_start(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 150);
	process_kill(&process);
	check_deleted(0, 1);
	check_deleted(63, 1);
	check_deleted(86, 1); /* the last that one of the session's own shows */
	process_serve(&process, &world, 1);
	assert_int_equal(process.ended[0].cut, 151);
	assert_int_equal(log_next(process.logs[0]), 150);
	process_kill(&process);
	check_deleted(87, 1); /* from here on the seals show it */
	check_deleted(150, 1);
	process_serve(&process, &world, 2);
	assert_int_equal(log_next(process.logs[0]), 150);
}

/* The old process lives: what it puts between the look at an object and the probe is no deletion. */
static void test_probe_of_a_session_that_goes_on(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 90);
	process_kill(&process);
	char key[WAL_KEY_MAX];
	uint8_t copy[1024];
	wal_key(key, 7, 1, 20);
	struct world_object *o = world_find(&world, key);
	size_t n = o->n;
	memcpy(copy, o->data, n);
	world_remove(&world, key);
	world.hold_gets = true;
	process_start(&process, &world, 1);
	world_run(&world);
	for (int i = 0; i < 64; i++)
		world_end_op(&world, world.ops[0], END_OK); /* the look */
	world_store(&world, key, copy, n);
	world.hold_gets = false;
	world_advance(&world, 60000);
	assert_true(process.serving);
	assert_int_equal(process.ended[0].cut, 91);
	assert_int_equal(log_next(process.logs[0]), 90);
}

static void test_object_that_goes_missing(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 3);
	process_kill(&process);
	process_serve(&process, &world, 1);
	process_kill(&process);
	process_start(&process, &world, 1);
	world.hold_gets = true;
	while (world.n_ops > 0 && world.ops[0]->length == WAL_HEADER) /* the search for the end */
		world_end_op(&world, world.ops[0], END_OK);
	world_remove(&world, "wal/7/0000000000000001/0000000000000002");
	world.hold_gets = false;
	world_run(&world);
	assert_int_equal(process.fatal, 1);
	assert_non_null(strstr(process.fatal_text, "missing"));
}

/* The store fails and forgets during the whole recovery; it ends all the same, with the same log. */
static void test_recovery_through_errors(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 100);
	process_kill(&process);
	world.hold_puts = world.hold_gets = true;
	world.error = -5;
	process_start(&process, &world, 1);
	unsigned n = 0;
	bool was_red = false;
	for (int round = 0; round < 1000 && !process.serving; round++) {
		while (world.n_ops > 0 && !process.serving) {
			static const enum world_end ends[] = { END_LOST, END_OK, END_ERROR, END_OK, END_ANSWER_LOST };
			enum world_end how = ends[n++ % 5];
			struct world_op *op = world.ops[n % world.n_ops];
			world_end_op(&world, op, op->is_put || how != END_ANSWER_LOST ? how : END_OK);
			was_red |= engine_fault(process.engine) != NULL;
		}
		world_advance(&world, 500);
	}
	assert_true(process.serving);
	assert_true(was_red);
	assert_null(engine_fault(process.engine));
	assert_int_equal(process.ended[0].cut, 101);
	assert_int_equal(log_next(process.logs[0]), 100);
}

static void test_many_logs(void **state)
{
	enum { N = 3000 };
	static struct log *logs[N];
	for (size_t round = 0; round < 2; round++) {
		process_new(&process, &world);
		for (uint64_t i = 0; i < N; i++)
			logs[i] = engine_log_add(process.engine, i << 12 | 5, 1, 0, false);
		process_go(&process, round);
		world_run(&world);
		assert_true(process.serving);
		for (uint64_t i = 0; i < N; i += 100) {
			assert_int_equal(log_next(logs[i]), round);
			process.logs[0] = logs[i];
			append_now(&process, 0, "x", round);
		}
		for (uint64_t i = 0; i < N; i += 3)
			engine_log_remove(process.engine, logs[i]);
		for (uint64_t i = 0; i < N; i += 3)
			logs[i] = engine_log_add(process.engine, i << 12 | 5, 2, 0, false);
		for (uint64_t i = 0; i < N; i++) {
			assert_int_equal(log_id(logs[i]), i << 12 | 5);
			engine_log_remove(process.engine, logs[i]);
		}
		process_kill(&process);
	}
}

static void test_other_epochs_and_logs_are_skipped(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 2);
	append_now(&process, 1, "x", 0);
	process_kill(&process);
	/* Log 100 in a new epoch, 101 as it was, the others not at all. */
	process_new(&process, &world);
	process.logs[0] = engine_log_add(process.engine, 100, 2, 0, false);
	process.logs[1] = engine_log_add(process.engine, 101, 1, 0, false);
	process_go(&process, 1);
	world_run(&world);
	assert_true(process.serving);
	assert_int_equal(process.stats.frames, 1);
	assert_int_equal(process.stats.skipped, 2);
	assert_int_equal(log_next(process.logs[0]), 0);
	assert_records(&process, 1, 0, "x");
}

static void test_resume(void **state)
{
	struct engine_request q;
	process_serve(&process, &world, 0);
	struct append *a = append_new(&process, 0, "x"), *p = append_new(&process, 0, "y");
	a->a.worker_instance = p->a.worker_instance = 77;
	a->a.request_id = 5;
	p->a.request_id = 6;
	append_producer(p, "p", 0, 0);
	append_send(&process, a);
	append_send(&process, p);
	world_run(&world);
	append_free(a), append_free(p);
	process_kill(&process);
	process_serve(&process, &world, 1);
	assert_int_equal(engine_request_find(process.engine, 77, 5, 1, 1, &q), REQUEST_STORED);
	assert_int_equal(q.base_offset, 0);
	assert_int_equal(q.next_offset, 1);
	assert_int_equal(engine_request_find(process.engine, 77, 9, 1, 1, &q), REQUEST_ABSENT);
	assert_int_equal(engine_request_find(process.engine, 78, 5, 1, 0, &q), REQUEST_ABSENT);
	assert_int_equal(engine_request_find(process.engine, 77, 9, 2, 1, &q), REQUEST_UNKNOWN);
	assert_int_equal(engine_request_find(process.engine, 77, 9, 0, 1, &q), REQUEST_UNKNOWN);
	world_advance(&world, 120000);
	assert_int_equal(engine_request_find(process.engine, 77, 5, 1, 1, &q), REQUEST_UNKNOWN);
	/* What was packed is not read back: what could be among it is not known. */
	assert_int_equal(process.n_recovered, 1);
	a = append_new(&process, 1, "z");
	a->a.worker_instance = 77;
	a->a.request_id = 8;
	append_send(&process, a);
	world_run(&world);
	append_free(a);
	process_kill(&process);
	process_serve(&process, &world, 2);
	assert_int_equal(engine_request_find(process.engine, 77, 8, 2, 1, &q), REQUEST_STORED);
	assert_int_equal(engine_request_find(process.engine, 77, 5, 1, 1, &q), REQUEST_UNKNOWN);
	assert_int_equal(engine_request_find(process.engine, 77, 5, 1, 2, &q), REQUEST_UNKNOWN);
	assert_int_equal(engine_request_find(process.engine, 77, 5, 2, 1, &q), REQUEST_ABSENT);
	/* Frames older than ten minutes are not noted. */
	process_kill(&process);
	world.now_ms += 700000;
	process_serve(&process, &world, 3);
	assert_int_equal(engine_request_find(process.engine, 77, 8, 2, 1, &q), REQUEST_UNKNOWN);
	assert_int_equal(engine_request_find(process.engine, 77, 8, 2, 2, &q), REQUEST_ABSENT);
}

static void test_time_never_runs_backwards(void **state)
{
	process_serve(&process, &world, 0);
	struct append *a = append_do(&process, 0, "x");
	world_run(&world);
	int64_t first = a->a.timestamp_ms;
	assert_int_equal(first, (int64_t)world.now_ms + 1700000000000);
	world.wall_offset_ms -= 3600 * 1000; /* stepped back: the stamp follows by a second a minute */
	for (int i = 0; i < 600; i++)
		world_advance(&world, 100);
	struct append *b = append_do(&process, 0, "x");
	world_run(&world);
	assert_in_range(b->a.timestamp_ms - first, 58900, 59100);
	process_kill(&process);
	process_serve(&process, &world, 1); /* reads the wall clock anew, an hour behind */
	struct append *c = append_do(&process, 0, "x");
	world_run(&world);
	assert_int_equal(c->a.timestamp_ms, b->a.timestamp_ms);
	append_free(a), append_free(b), append_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_many_sessions), TEST(test_cut_is_the_lowest_seal), TEST(test_seals_that_lose), TEST(test_cuts_are_searched_side_by_side), TEST(test_what_hangs_is_asked_again),
		TEST(test_all_seals_before_any_read), TEST(test_damage_refuses_the_start),
		TEST(test_deleted_objects_refuse_the_start), TEST(test_probe_of_a_session_that_goes_on),
		TEST(test_recovery_through_errors), TEST(test_many_logs), TEST(test_object_that_goes_missing),
		TEST(test_other_epochs_and_logs_are_skipped), TEST(test_resume),
		TEST(test_time_never_runs_backwards),
	};
	return cmocka_run_group_tests_name("engine-recovery", tests, NULL, NULL);
}
