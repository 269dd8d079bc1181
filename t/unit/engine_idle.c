/* SPDX-License-Identifier: Apache-2.0
 *
 * Idle logs: what is dropped and loaded again is as it was, appends wait for that in order, and what needs no state does
 * not wait for the store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "storaged/engine/log_table.h"
#include "t/unit/engine.h"

static int64_t counted(enum metric m)
{
	return metrics->value[m];
}

static struct append *producer_do(int i, uint64_t seq, const char *text)
{
	struct append *a = append_new(&process, i, text);
	append_producer(a, "p", 1, seq);
	append_send(&process, a);
	return a;
}

static void producer_now(int i, uint64_t seq, uint64_t base, bool duplicate)
{
	struct append *a = producer_do(i, seq, "record");
	world_run(&world);
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, PICO_OK);
	assert_int_equal(a->a.duplicate, duplicate);
	assert_int_equal(a->a.base_offset, base);
	append_free(a);
}

static unsigned n_open(void)
{
	unsigned n = 0;
	for (int i = 0; i < N_LOGS; i++)
		n += process.logs[i]->is_open;
	return n;
}

/* One log may stay open: of four that were written and packed three are dropped, and know their producers when they
 * are loaded. */
static void test_dropped_and_loaded(void **state)
{
	test_config.open_logs = 1;
	process_serve(&process, &world, 0);
	int64_t loaded = counted(METRIC_LOGS_LOADED);
	for (uint64_t seq = 0; seq < 3; seq++) {
		for (int i = 0; i < N_LOGS; i++)
			producer_now(i, seq, seq, false);
		process_pack(&process);
		assert_int_equal(n_open(), 1);
		for (int i = 0; i < N_LOGS; i++) {
			assert_int_equal(log_confirm(process.logs[i]), seq + 1);
			assert_int_equal(log_next(process.logs[i]), seq + 1);
			producer_now(i, seq, seq, true);
		}
		assert_int_equal(n_open(), 1);
	}
	assert_true(counted(METRIC_LOGS_LOADED) - loaded >= 9);
	assert_records(&process, 2, 2, "record");
}

/* What stands in no data object holds its log open; with as many as may be open of them, a pack begins. */
static void test_many_logs_are_a_reason_to_pack(void **state)
{
	test_config.open_logs = 3;
	process_serve(&process, &world, 0);
	append_now(&process, 0, "a", 0);
	append_now(&process, 1, "b", 0);
	world_advance(&world, 1000);
	assert_int_equal(process.n_commits, 0);
	append_now(&process, 2, "c", 0);
	world_run(&world);
	assert_int_equal(process.n_commits, 1);
	assert_int_equal(n_open(), 3);
}

static void idle_process(void)
{
	test_config.open_logs = 1;
	process_serve(&process, &world, 0);
	for (int i = 0; i < N_LOGS; i++)
		producer_now(i, 0, 0, false);
	process_pack(&process);
	process_kill(&process);
	metadata.recovered[1] = true;
	test_config.open_logs = 3;
	process_serve(&process, &world, 1);
	assert_int_equal(n_open(), 0);
}

/* Appends wait for the state in their order, whatever comes between; other logs go on. */
static void test_appends_wait_in_order(void **state)
{
	idle_process();
	producer_now(1, 1, 1, false);
	world.hold_gets = true;
	struct append *a[6];
	a[0] = producer_do(0, 1, "b");
	a[1] = producer_do(0, 0, "a");          /* a duplicate of an older one */
	a[2] = append_do(&process, 0, "c|d");
	a[3] = producer_do(0, 3, "x");          /* a gap */
	a[4] = append_new(&process, 0, "m");
	a[4]->a.has_match_seq = true;
	a[4]->a.match_seq = 4;
	append_send(&process, a[4]);
	a[5] = append_do(&process, 1, "other");
	world_run(&world);
	for (int i = 0; i < 5; i++)
		assert_open(a[i]);
	assert_stored(a[5], 2, 3);
	world.hold_gets = false;
	world_run(&world);
	assert_stored(a[0], 1, 2);
	assert_true(a[1]->a.duplicate && !a[1]->a.base_known);
	assert_stored(a[2], 2, 4);
	assert_refused(a[3], PICO_SEQUENCE_GAP);
	assert_stored(a[4], 4, 5);
	assert_records(&process, 0, 1, "b|c|d|m");
	for (int i = 0; i < 6; i++)
		append_free(a[i]);
}

/* The store does not answer: at its deadline an append was not written, and a cancelled one is never answered. */
static void test_deadline_cancel_delete(void **state)
{
	idle_process();
	world.hold_gets = true;
	struct append *late = append_new(&process, 0, "late"), *cancelled = append_new(&process, 0, "cancelled");
	struct append *patient = append_new(&process, 0, "patient"), *deleted = append_new(&process, 1, "deleted");
	late->a.deadline_ms = world.now_ms + 1000;
	append_send(&process, late);
	append_send(&process, cancelled);
	append_send(&process, patient);
	append_send(&process, deleted);
	world_advance(&world, 500);
	assert_true(engine_append_cancel(process.engine, &cancelled->a));
	log_delete(&process, 1);
	assert_refused(deleted, PICO_NOT_FOUND);
	world_advance(&world, 500);
	assert_refused(late, PICO_UNAVAILABLE);
	assert_open(patient);
	world.hold_gets = false;
	world_run(&world);
	assert_stored(patient, 1, 2);
	assert_int_equal(cancelled->n_answers, 0);
	free(cancelled);
	append_free(late), append_free(patient), append_free(deleted);
}

static void on_ready(struct engine_wait *w, bool gone)
{
}

/* Where it ends, that something comes, and its records: none of that needs the state. */
static void test_what_needs_no_state(void **state)
{
	idle_process();
	int64_t loaded = counted(METRIC_LOGS_LOADED);
	size_t n_gets = world.n_gets;
	struct engine_wait w = { .log = process.logs[3], .from = 1, .on_ready = on_ready };
	assert_int_equal(log_confirm(process.logs[3]), 1);
	assert_true(log_last_append_ms(process.logs[3]) > 0);
	assert_false(engine_wait(process.engine, &w));
	assert_int_equal(log_bytes_from(process.logs[3], 0, 77), 77);
	engine_wait_stop(&w);
	assert_int_equal(world.n_gets, n_gets);
	assert_records(&process, 3, 0, "record");
	assert_int_equal(counted(METRIC_LOGS_LOADED), loaded);
	assert_int_equal(n_open(), 0);
}

/* A waiter keeps its log, and hears of an append that loads it. */
static void test_wait_over_a_load(void **state)
{
	idle_process();
	struct engine_wait w = { .log = process.logs[2], .from = 1, .on_ready = on_ready };
	assert_false(engine_wait(process.engine, &w));
	producer_now(0, 1, 1, false);
	producer_now(2, 0, 0, true);
	assert_non_null(w.prev_in_list);
	producer_now(2, 1, 1, false);
	assert_null(w.prev_in_list);
}

/* Frames that recovery finds stand behind what was packed: a log that is loaded later knows both. */
static void test_recovered_frames(void **state)
{
	test_config.open_logs = 3;
	process_serve(&process, &world, 0);
	for (int i = 0; i < 2; i++)
		producer_now(i, 0, 0, false);
	process_pack(&process);
	for (uint64_t seq = 1; seq < 4; seq++)
		producer_now(0, seq, seq, false);
	struct append *close = append_new(&process, 1, NULL);
	close->a.close_after = true;
	append_send(&process, close);
	world_run(&world);
	assert_int_equal(close->error.kind, PICO_OK);
	append_free(close);
	process_kill(&process);
	process_serve(&process, &world, 1);
	assert_int_equal(log_next(process.logs[0]), 4);
	assert_true(log_is_closed(process.logs[1]));
	assert_false(process.logs[0]->open->loaded);
	assert_records(&process, 0, 1, "record|record|record");
	producer_now(0, 3, 3, true);
	producer_now(0, 4, 4, false);
	struct append *a = append_do(&process, 1, "x");
	world_run(&world);
	assert_refused(a, PICO_CLOSED);
	append_free(a);
	process_pack(&process);
	process_pack(&process);
	process_kill(&process);
	metadata.recovered[1] = true;
	process_serve(&process, &world, 2);
	producer_now(0, 4, 4, true);
	assert_true(log_is_closed(process.logs[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_dropped_and_loaded), TEST(test_many_logs_are_a_reason_to_pack), TEST(test_appends_wait_in_order),
		TEST(test_deadline_cancel_delete), TEST(test_what_needs_no_state), TEST(test_wait_over_a_load),
		TEST(test_recovered_frames),
	};
	return cmocka_run_group_tests_name("engine-idle", tests, NULL, NULL);
}
