/* SPDX-License-Identifier: Apache-2.0
 *
 * What trims and deletes make of reads at once, and of objects later: searched, removed by a commit, deleted after the
 * delay, forgotten; never one in which something lives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "storaged/bounds.h"
#include "storaged/data/data_format.h"
#include "t/unit/engine.h"

#define SOON 1100                       /* until the search has looked */
#define DELAY 20000

static size_t count(const char *prefix)
{
	size_t n = 0;
	for (size_t i = 0; i < world.n_objects; i++)
		n += strncmp(world.objects[i].key, prefix, strlen(prefix)) == 0;
	return n;
}

static size_t marked(void)
{
	size_t n = 0;
	const struct object_row *row = NULL;
	while ((row = catalogue_next_marked(metadata.catalogue, row)) != NULL)
		n++;
	return n;
}

static void serve(size_t n_ended)
{
	test_config.gc_delay_ms = DELAY;
	process_serve(&process, &world, n_ended);
}

/* One record and a pack of it: one object. */
static void object_of(int i, const char *text, uint64_t base)
{
	append_now(&process, i, text, base);
	process_pack(&process);
}

/* ---------------------------------------------------------------------- trim */

static void test_trim_of_what_is_in_the_arena(void **state)
{
	serve(0);
	append_fill(&process, 0, 5);
	log_trim(&process, 0, 3);
	assert_int_equal(log_start(process.logs[0]), 3);
	assert_int_equal(log_confirm(process.logs[0]), 5);
	assert_records(&process, 0, 3, "3|4");
	log_trim(&process, 0, 2);
	assert_int_equal(log_start(process.logs[0]), 3);
	log_trim(&process, 0, 5);
	assert_records(&process, 0, 5, "");
	append_now(&process, 0, "x", 5);
	assert_records(&process, 0, 5, "x");
	process_kill(&process);
	serve(1);
	assert_int_equal(log_start(process.logs[0]), 5);
	assert_records(&process, 0, 5, "x");
}

static void test_trim_inside_a_batch(void **state)
{
	serve(0);
	struct append *a = append_do(&process, 0, "a|b|c");
	world_run(&world);
	append_free(a);
	log_trim(&process, 0, 1);
	assert_records(&process, 0, 1, "a|b|c");        /* whole batches */
	process_pack(&process);
	process_kill(&process);
	serve(1);
	assert_records(&process, 0, 1, "a|b|c");
}

static void test_trim_under_a_read(void **state)
{
	serve(0);
	append_fill(&process, 0, 4);
	process_pack(&process);
	process_kill(&process);
	serve(1);
	world.hold_gets = true;
	struct read *below = read_new(&process, 0, 1, 100), *above = read_new(&process, 0, 2, 1000);
	world_run(&world);
	log_trim(&process, 0, 2);
	assert_int_equal(below->n_answers, 1);
	assert_int_equal(below->error.kind, PICO_OUT_OF_RANGE);
	assert_true(below->error.has_start_offset);
	assert_int_equal(below->error.start_offset, 2);
	assert_int_equal(above->n_answers, 0);
	world.hold_gets = false;
	world_run(&world);
	assert_int_equal(above->n_answers, 1);
	assert_string_equal(read_texts(above), "2|3");
	read_free(below), read_free(above);
}

/* -------------------------------------------------------------------- objects */

/* An object of one log alone goes when its last record does, and not one record before. */
static void test_object_of_one_log(void **state)
{
	char large[2000];
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	bounds.single_min = 8192;
	serve(0);
	for (uint64_t i = 0; i < 8; i++)
		object_of(0, large, i);
	bounds = bounds_default;
	assert_int_equal(catalogue_level(metadata.catalogue, 7, DATA_LEVEL_SINGLE).n_objects, 1);
	log_trim(&process, 0, 7);
	world_advance(&world, SOON);
	world_advance(&world, 2 * DELAY);
	assert_int_equal(catalogue_level(metadata.catalogue, 7, DATA_LEVEL_SINGLE).n_objects, 1);
	process_kill(&process);
	serve(1);
	assert_records(&process, 0, 7, large);
	log_trim(&process, 0, 8);
	world_advance(&world, SOON);
	world_advance(&world, 2 * DELAY);
	assert_int_equal(catalogue_level(metadata.catalogue, 7, DATA_LEVEL_SINGLE).n_objects, 0);
}


static void test_an_object_goes_with_its_last_log(void **state)
{
	serve(0);
	append_now(&process, 0, "a", 0);
	append_now(&process, 1, "b", 0);
	append_now(&process, 2, "c", 0);
	process_pack(&process);
	assert_int_equal(count("data/"), 1);
	log_delete(&process, 0);
	log_delete(&process, 2);
	world_advance(&world, SOON);
	assert_int_equal(marked(), 0);
	assert_records(&process, 1, 0, "b");
	log_delete(&process, 1);
	world_advance(&world, SOON);
	assert_int_equal(marked(), 1);
	assert_int_equal(count("data/"), 1);
	world_advance(&world, DELAY - SOON);
	assert_int_equal(count("data/"), 1);
	world_advance(&world, SOON);
	assert_int_equal(count("data/"), 0);
	assert_int_equal(catalogue_count(metadata.catalogue), 0);
	assert_int_equal(process.n_deleted, 1);
}

/* Records may be trimmed, the last complete entry is needed until there is a newer one. */
static void test_the_last_entry_is_kept(void **state)
{
	serve(0);
	object_of(0, "a", 0);
	object_of(0, "b", 1);
	assert_int_equal(count("data/"), 2);
	world_advance(&world, SOON);
	assert_int_equal(marked(), 0);
	log_trim(&process, 0, 2);
	world_advance(&world, DELAY + 2 * SOON);
	assert_int_equal(count("data/"), 1);
	object_of(0, "c", 2);
	world_advance(&world, DELAY + 2 * SOON);
	assert_int_equal(count("data/"), 1);
	process_kill(&process);
	serve(1);
	assert_records(&process, 0, 2, "c");
	append_now(&process, 0, "d", 3);
	assert_records(&process, 0, 2, "c|d");
}

/* An entry that leaves producers out does not stand for the ones before it. */
static void test_incomplete_entries_supersede_nothing(void **state)
{
	char id[64];
	serve(0);
	for (unsigned k = 0; k < 100; k++) {
		struct append *a = append_new(&process, 0, "x");
		snprintf(id, sizeof(id), "a producer whose name is rather long, number %u", k);
		append_producer(a, id, 0, 0);
		append_send(&process, a);
		world_run(&world);
		append_free(a);
	}
	process_pack(&process);
	object_of(0, "y", 100);
	log_trim(&process, 0, 101);
	world_advance(&world, DELAY + 2 * SOON);
	assert_int_equal(count("data/"), 2);    /* the first is complete, the second is not */
	for (unsigned k = 0; k < 6; k++)
		object_of(0, "z", 101 + k);             /* the eighth run: all merge into one */
	log_trim(&process, 0, 107);
	world_advance(&world, DELAY + 2 * SOON);
	assert_int_equal(process.n_merges, 1);
	assert_int_equal(count("data/"), 1);
	object_of(0, "z", 107);                 /* seven in a row were not, so this one is */
	world_advance(&world, DELAY + 2 * SOON);
	assert_int_equal(count("data/"), 1);
	process_kill(&process);
	serve(1);
	struct append *again = append_new(&process, 0, "x");
	append_producer(again, "a producer whose name is rather long, number 3", 0, 0);
	append_send(&process, again);
	world_run(&world);
	assert_true(again->a.duplicate);
	append_free(again);
}

static void test_after_a_restart(void **state)
{
	serve(0);
	object_of(0, "a", 0);
	object_of(1, "b", 0);
	metadata.start[0] = UINT64_MAX;         /* deleted, and nobody had time to look */
	process_kill(&process);
	serve(1);
	world_advance(&world, SOON);
	assert_int_equal(marked(), 1);
	process_kill(&process);
	serve(2);
	world_advance(&world, DELAY + SOON);
	assert_int_equal(count("data/"), 1);
	assert_records(&process, 1, 0, "b");
}

/* The objects are gone, and then the process before it could say so. */
static void test_killed_between_delete_and_command(void **state)
{
	serve(0);
	object_of(0, "a", 0);
	log_delete(&process, 0);
	metadata.forgets_nothing = true;
	world_advance(&world, DELAY + 2 * SOON);
	assert_int_equal(count("data/"), 0);
	assert_int_equal(marked(), 1);
	process_kill(&process);
	metadata.forgets_nothing = false;
	serve(1);
	world_run(&world);
	assert_int_equal(marked(), 0);
	assert_int_equal(catalogue_count(metadata.catalogue), 0);
}

/* What keeps an object is remembered: nothing is read as long as that lives, however little the cache holds. */
static void test_a_pass_reads_nothing_twice(void **state)
{
	test_config.index_cache_size = 1;
	test_config.rewrite_patience_ms = UINT64_MAX / 4;       /* nobody weighs */
	serve(0);
	append_fill(&process, 2, 6);
	for (unsigned k = 0; k < 7; k++) {
		append_now(&process, 0, "a", k);
		object_of(1, "b", k);
	}
	log_trim(&process, 0, 7);
	world_advance(&world, SOON);
	size_t n_gets = world.n_gets;
	for (uint64_t k = 1; k < 6; k++) {
		log_trim(&process, 2, k);
		world_advance(&world, SOON);
	}
	assert_int_equal(world.n_gets, n_gets);
	assert_int_equal(marked(), 0);
	log_trim(&process, 2, 6);
	log_trim(&process, 1, 6);
	world_advance(&world, SOON);
	assert_int_equal(marked(), 5);          /* the first has the last entry of log 2, the last one the others' */
	assert_records(&process, 1, 6, "b");
}

/* --------------------------------------------------------------------- orphans */

static void orphan(uint64_t session, uint64_t number, char ret_key[DATA_KEY_MAX])
{
	data_key(ret_key, (struct object_id){ .node = 7, .session = session, .number = number });
	world_store(&world, ret_key, "x", 1);
}

static void assert_there(const char *key, bool is_there)
{
	if ((world_find(&world, key) != NULL) != is_there)
		fail_msg("%s: %s", key, is_there ? "gone" : "still there");
}

/* Nothing is listed before the ended sessions are RECOVERED, which takes a second. */
static void test_orphans_go_by_session(void **state)
{
	char ended[DATA_KEY_MAX], running[DATA_KEY_MAX], unknown[DATA_KEY_MAX], open[WAL_KEY_MAX], cut[WAL_KEY_MAX], late[WAL_KEY_MAX];
	serve(0);
	object_of(0, "a", 0);
	append_now(&process, 1, "b", 0);
	process_kill(&process);
	orphan(1, 500, ended);
	orphan(2, 500, running);
	orphan(3, 1, unknown);
	world_store(&world, "data/7/strange", "x", 1);
	strcpy(world.upload, ended);
	wal_key(open, 7, 1, 0);
	assert_there(open, true);
	serve(1);
	wal_key(cut, 7, 1, process.ended[0].cut);
	assert_there(ended, true);
	world_advance(&world, 5000);
	assert_there(ended, false);
	assert_there(open, false);
	assert_there(cut, true);
	assert_there(running, true);
	assert_there(unknown, true);
	assert_there("data/7/strange", true);
	assert_string_equal(world.upload, "");
	assert_int_equal(count("wal/7/0000000000000001/"), 1); /* the seal at the cut */
	wal_key(open, 7, 2, 0);
	assert_there(open, true);
	assert_records(&process, 0, 0, "a");
	assert_records(&process, 1, 0, "b");
	strcpy(world.upload, running);
	orphan(1, 501, ended);
	wal_key(late, 7, 1, process.ended[0].cut + 3); /* a put of the dead process that was long under way */
	world_store(&world, late, "x", 1);
	world_advance(&world, 3600000);
	assert_there(ended, false);
	assert_there(late, false);
	assert_there(cut, true);
	assert_there(open, true);
	assert_there(running, true);
	assert_string_equal(world.upload, running);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_trim_of_what_is_in_the_arena), TEST(test_trim_inside_a_batch), TEST(test_trim_under_a_read), TEST(test_object_of_one_log),
		TEST(test_an_object_goes_with_its_last_log), TEST(test_the_last_entry_is_kept),
		TEST(test_incomplete_entries_supersede_nothing), TEST(test_after_a_restart),
		TEST(test_killed_between_delete_and_command), TEST(test_a_pass_reads_nothing_twice),
		TEST(test_orphans_go_by_session),
	};
	return cmocka_run_group_tests_name("engine-gc", tests, NULL, NULL);
}
