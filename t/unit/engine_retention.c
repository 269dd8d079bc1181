/* SPDX-License-Identifier: Apache-2.0
 *
 * Retention: what is cut, when, and what decides. Each pack is one object with one block of each log in it; packs come
 * every ten minutes, passes every minute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/record_batch.h"
#include "storaged/data/data_format.h"
#include "t/unit/engine.h"

#define MINUTE 60000
#define HOUR 3600000

static void serve(size_t n_ended)
{
	test_config.gc_delay_ms = 20000;
	process_serve(&process, &world, n_ended);
}

/* One record of n bytes and a pack of it. */
static void object_of(int i, size_t n, uint64_t base)
{
	char text[2000];
	memset(text, 'r', n);
	text[n] = '\0';
	append_now(&process, i, text, base);
	process_pack(&process);
}

static void assert_start(int i, uint64_t start)
{
	assert_int_equal(log_start(process.logs[i]), start);
	assert_int_equal(metadata.start[i], start);
}

/* At 0 and 10 minutes one record each, in objects at 10 and 20 minutes; then the rule. */
static void two_objects(int i, int64_t ms)
{
	serve(0);
	object_of(i, 100, 0);
	object_of(i, 100, 1);
	metadata.rule[i].ms = ms;
	engine_retention_changed(process.engine, 100 + (uint64_t)i);
}

static void test_nothing_without_a_rule(void **state)
{
	two_objects(0, -1);
	world_advance(&world, 24 * HOUR);
	assert_start(0, 0);
	assert_int_equal(process.n_trims, 0);
}

static void test_by_time(void **state)
{
	two_objects(0, 30 * MINUTE);
	world_advance(&world, 9 * MINUTE);              /* 29 minutes */
	assert_start(0, 0);
	world_advance(&world, 4 * MINUTE);              /* 33 */
	assert_start(0, 1);
	world_advance(&world, 6 * MINUTE);
	assert_start(0, 1);
	world_advance(&world, 5 * MINUTE);              /* 44 */
	assert_start(0, 2);
	assert_int_equal(log_confirm(process.logs[0]), 2);
	assert_int_equal(process.n_trims, 2);
	append_now(&process, 0, "x", 2);
	assert_records(&process, 0, 2, "x");
}

/* The objects of what was cut go. */
static void test_objects_go(void **state)
{
	two_objects(0, 30 * MINUTE);
	object_of(0, 100, 2);
	assert_int_equal(catalogue_count(metadata.catalogue), 3);
	world_advance(&world, 14 * MINUTE);
	assert_start(0, 2);
	assert_int_equal(catalogue_count(metadata.catalogue), 1);
}

/* 0: what a producer says; each has its record stamped with a time of its own. */
static void timestamped(int i, int64_t timestamp_ms, uint64_t base)
{
	struct append *a = append_new(&process, i, "t");
	record_batch_stamp(a->batch, a->a.payload.n, timestamp_ms);
	a->a.as_is = true;
	append_send(&process, a);
	world_run(&world);
	assert_stored(a, base, base + 1);
	append_free(a);
}

static void test_producers_times_decide_nothing(void **state)
{
	serve(0);
	metadata.rule[0].ms = metadata.rule[1].ms = 30 * MINUTE;
	timestamped(0, 1, 0);                           /* 1970 */
	timestamped(1, 4070908800000, 0);               /* 2099 */
	process_pack(&process);
	world_advance(&world, 19 * MINUTE);
	assert_start(0, 0);
	assert_start(1, 0);
	world_advance(&world, 4 * MINUTE);
	assert_start(0, 1);
	assert_start(1, 1);
	assert_int_equal(process.n_trims, 1);           /* one command for both */
}

/* Stamp time goes on as it did, whatever the clock on the wall does. */
static void clock_step(int64_t ms)
{
	two_objects(0, 4 * HOUR);
	world.wall_offset_ms += ms;
	world_advance(&world, 4 * HOUR - 24 * MINUTE);          /* 4 minutes before its time, which those 4 hours pull by 4 */
	assert_start(0, 0);
	world_advance(&world, 8 * MINUTE + 4 * HOUR / 20);
	assert_true(log_start(process.logs[0]) >= 1);
	world_advance(&world, 10 * MINUTE + 4 * HOUR / 20);
	assert_start(0, 2);
}

static void test_clock_an_hour_ahead(void **state)
{
	clock_step(HOUR);
}

static void test_clock_an_hour_back(void **state)
{
	clock_step(-HOUR);
}

/* Frames in the arena wait for their pack. */
static void test_the_arena_is_not_cut(void **state)
{
	serve(0);
	metadata.rule[0].ms = 2 * MINUTE;
	append_now(&process, 0, "a", 0);
	world_advance(&world, 9 * MINUTE);
	assert_start(0, 0);
	world_advance(&world, 4 * MINUTE);
	assert_start(0, 1);
}

static void test_little_is_not_worth_a_trim(void **state)
{
	serve(0);
	metadata.rule[0].ms = 30 * MINUTE;
	object_of(0, 10, 0);
	object_of(0, 1900, 1);
	object_of(0, 1900, 2);
	world_advance(&world, 9 * MINUTE);              /* 39: of 10 bytes nobody speaks */
	assert_start(0, 0);
	world_advance(&world, 5 * MINUTE);              /* 44 */
	assert_start(0, 2);
	world_advance(&world, 10 * MINUTE);             /* all of it */
	assert_start(0, 3);
}

static void test_by_size(void **state)
{
	serve(0);
	metadata.rule[0].bytes = 2500;
	for (uint64_t k = 0; k < 2; k++)
		object_of(0, 1000, k);
	world_advance(&world, 2 * MINUTE);
	assert_start(0, 0);
	object_of(0, 1000, 2);                          /* some 3,200 bytes: the first block goes */
	world_advance(&world, 2 * MINUTE);
	assert_start(0, 1);
	object_of(0, 1000, 3);
	object_of(1, 1000, 0);                          /* others are not asked */
	world_advance(&world, 2 * MINUTE);
	assert_start(0, 2);
	assert_start(1, 0);
	world_advance(&world, HOUR);
	assert_start(0, 2);
}

/* What stands in the arena counts, and is not cut. */
static void test_size_counts_the_arena(void **state)
{
	char text[1901];
	memset(text, 'r', 1900);
	text[1900] = '\0';
	serve(0);
	object_of(0, 1000, 0);
	append_now(&process, 0, text, 1);
	metadata.rule[0].bytes = 1500;
	engine_retention_changed(process.engine, 100);
	world_advance(&world, 2 * MINUTE);
	assert_start(0, 1);
}

static void test_a_shorter_rule_acts_at_once(void **state)
{
	two_objects(0, 10 * HOUR);
	world_advance(&world, 5 * MINUTE);
	assert_start(0, 0);
	metadata.rule[0].ms = 20 * MINUTE;
	engine_retention_changed(process.engine, 100);
	world_advance(&world, MINUTE + 1);
	assert_start(0, 1);
	metadata.rule[0].ms = -1;
	engine_retention_changed(process.engine, 100);
	world_advance(&world, HOUR);
	assert_start(0, 1);
}

static void test_after_a_restart(void **state)
{
	two_objects(0, 30 * MINUTE);
	process_kill(&process);
	world.wall_offset_ms += 15 * MINUTE;            /* down for that long */
	serve(1);
	assert_start(0, 0);
	world_advance(&world, 2 * MINUTE);
	assert_start(0, 1);
	world_advance(&world, 10 * MINUTE);
	assert_start(0, 2);
}

/* Session 2 starts with a clock that far ahead of what is known. */
static void start_ahead(int64_t years)
{
	int64_t before = env_wall_ms(&world.env);
	process_kill(&process);
	world.wall_offset_ms += years * 365 * 24 * HOUR;
	process_new(&process, &world);
	process.logs[0] = engine_log_add(process.engine, 100, 1, metadata.start[0], false);
	assert_int_equal(engine_clock_before(process.engine, before, 0), years > 0);
	process_go(&process, 1);
	world_run(&world);
	assert_true(process.serving);
}

/* The next session begins in the same wrong year, which is known by now, and when it came. */
static void die_and_start(int64_t leap_ms, unsigned n_ended)
{
	process_kill(&process);
	process_new(&process, &world);
	process.logs[0] = engine_log_add(process.engine, 100, 1, metadata.start[0], false);
	assert_true(engine_clock_before(process.engine, env_wall_ms(&world.env), leap_ms));
	process_go(&process, n_ended);
	world_run(&world);
	assert_true(process.serving);
}

static void test_the_doubt_outlives_a_death(void **state)
{
	two_objects(0, 10 * HOUR);
	start_ahead(75);
	int64_t leap_ms = env_wall_ms(&world.env);
	world_advance(&world, 4 * MINUTE);
	die_and_start(leap_ms, 2);
	world_advance(&world, 4 * MINUTE);
	assert_start(0, 0);
	world_advance(&world, 4 * MINUTE);      /* ten since the leap, and it stays with what the clock says */
	assert_start(0, 2);
}

static void test_a_clock_in_2099(void **state)
{
	two_objects(0, 10 * HOUR);
	start_ahead(75);
	world_advance(&world, 9 * MINUTE);
	assert_start(0, 0);
	world.wall_offset_ms -= 75ll * 365 * 24 * HOUR;         /* somebody sets it right */
	world_advance(&world, 9 * HOUR);
	assert_start(0, 0);
	world_advance(&world, 2 * HOUR);
	assert_start(0, 2);
}

static void test_nobody_sets_it_right(void **state)
{
	two_objects(0, 10 * HOUR);
	start_ahead(75);
	world_advance(&world, 12 * MINUTE);
	assert_start(0, 2);
}

static void test_a_clock_in_1970(void **state)
{
	two_objects(0, 30 * MINUTE);
	start_ahead(-50);
	world_advance(&world, 2 * HOUR);
	assert_start(0, 0);
	process_kill(&process);
	world.wall_offset_ms += 50ll * 365 * 24 * HOUR;
	serve(2);
	world_advance(&world, 2 * MINUTE);
	assert_start(0, 2);
}

/* A merge makes one block of all; the cut is where the merged block begins. */
static void test_merged_objects(void **state)
{
	serve(0);
	metadata.rule[0].ms = 3 * HOUR;
	for (uint64_t k = 0; k < 10; k++)
		object_of(0, 100, k);
	assert_int_equal(process.n_merges, 1);
	world_advance(&world, 3 * HOUR - 31 * MINUTE);          /* eight are one block, the youngest is 2:59 old */
	assert_start(0, 0);
	world_advance(&world, 11 * MINUTE);
	assert_start(0, 8);
}

/* The last index page, which stands before the top. */
static void damage_index(struct object_id id)
{
	char key[DATA_KEY_MAX];
	struct data_footer f;
	data_key(key, id);
	struct world_object *o = world_find(&world, key);
	assert_non_null(o);
	assert_null(data_footer_decode(slice_of(o->data + o->n - DATA_FOOTER, DATA_FOOTER), o->n, id, &f));
	o->data[f.top_position - 1] ^= 1;
}

/* An object whose index cannot be read stops nobody else's retention. */
static void test_damage_is_passed_over(void **state)
{
	serve(0);
	object_of(0, 100, 0);
	object_of(1, 100, 0);
	process_kill(&process);
	damage_index(catalogue_next(metadata.catalogue, NULL)->id);
	serve(1);
	metadata.rule[0].ms = metadata.rule[1].ms = 30 * MINUTE;
	engine_retention_changed(process.engine, 100);
	world_advance(&world, HOUR);
	assert_start(0, 0);
	assert_start(1, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nothing_without_a_rule), TEST(test_by_time), TEST(test_objects_go),
		TEST(test_producers_times_decide_nothing), TEST(test_clock_an_hour_ahead), TEST(test_clock_an_hour_back),
		TEST(test_the_arena_is_not_cut), TEST(test_little_is_not_worth_a_trim), TEST(test_by_size),
		TEST(test_size_counts_the_arena), TEST(test_a_shorter_rule_acts_at_once), TEST(test_after_a_restart),
		TEST(test_merged_objects), TEST(test_damage_is_passed_over),
		TEST(test_a_clock_in_2099), TEST(test_nobody_sets_it_right), TEST(test_the_doubt_outlives_a_death), TEST(test_a_clock_in_1970),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
