/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects that are dead for the most part are rewritten to what lives in them; one that is damaged keeps nobody else, and
 * is told.
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

#define MINUTE 60000
#define LONG (25 * MINUTE)              /* patience, and rounds before and after it */

static char text[1901];

static void serve(size_t n_ended)
{
	memset(text, 'r', sizeof(text) - 1);
	test_config.gc_delay_ms = 20000;
	process_serve(&process, &world, n_ended);
}

/* One record each of logs 0 .. n - 1, in one object. */
static const struct object_row *object_of(int n, uint64_t base)
{
	const struct object_row *row = NULL, *newest = NULL;
	for (int i = 0; i < n; i++)
		append_now(&process, i, text, base);
	process_pack(&process);
	while ((row = catalogue_next(metadata.catalogue, row != NULL ? &row->id : NULL)) != NULL)
		newest = row;
	return newest;
}

static const struct object_row *only_object(void)
{
	const struct object_row *row = catalogue_next(metadata.catalogue, NULL);
	assert_int_equal(catalogue_count(metadata.catalogue), 1);
	return row;
}

static void test_mostly_dead(void **state)
{
	serve(0);
	struct object_row before = *object_of(4, 0);
	for (int i = 0; i < 3; i++)
		log_delete(&process, i);
	world_advance(&world, 9 * MINUTE);
	assert_int_equal(process.n_rewrites, 0);
	world_advance(&world, LONG);
	assert_int_equal(process.n_rewrites, 1);
	const struct object_row *after = only_object();
	assert_int_equal(after->first_log, 103);
	assert_int_equal(after->last_log, 103);
	assert_int_equal(after->run, before.run);
	assert_int_equal(after->level, 0);
	assert_true(after->bytes < before.bytes / 2);
	assert_records(&process, 3, 0, text);
	process_kill(&process);
	serve(1);
	assert_records(&process, 3, 0, text);
	append_now(&process, 3, "x", 1);
	world_advance(&world, 2 * LONG);
	assert_int_equal(process.n_rewrites, 0);
}

static void test_half_dead_stays(void **state)
{
	serve(0);
	object_of(4, 0);
	log_delete(&process, 0);
	log_delete(&process, 1);
	world_advance(&world, 4 * LONG);
	assert_int_equal(process.n_rewrites, 0);
	only_object();
}

/* Nothing lives in it but the entries that say where the logs go on. */
static void test_trimmed_to_its_entries(void **state)
{
	serve(0);
	uint64_t before = object_of(4, 0)->bytes;
	for (int i = 0; i < 4; i++)
		log_trim(&process, i, 1);
	world_advance(&world, LONG);
	assert_int_equal(process.n_rewrites, 1);
	assert_true(only_object()->bytes < before / 4);
	assert_int_equal(only_object()->newest_ms, 0);
	process_kill(&process);
	serve(1);
	for (int i = 0; i < 4; i++)
		append_now(&process, i, "next", 1);
	world_advance(&world, 4 * LONG);
	assert_int_equal(process.n_rewrites, 0);
}

/* As long as more dies in it, it waits, up to three quarters. Log 0 has two thirds of it, log 1 most of the rest. */
static void test_what_goes_on_dying_waits(void **state)
{
	serve(0);
	append_now(&process, 0, text, 0);
	append_now(&process, 0, text, 1);
	append_now(&process, 1, text, 0);
	append_now(&process, 2, "r", 0);
	append_now(&process, 3, "r", 0);
	process_pack(&process);
	log_delete(&process, 0);
	world_advance(&world, 9 * MINUTE);
	log_delete(&process, 2);
	world_advance(&world, 8 * MINUTE);
	assert_int_equal(process.n_rewrites, 0);
	world_advance(&world, 8 * MINUTE);
	assert_int_equal(process.n_rewrites, 1);
	assert_records(&process, 1, 0, text);
	assert_records(&process, 3, 0, "r");
}

static void test_killed_while_rewriting(void **state)
{
	serve(0);
	object_of(4, 0);
	for (int i = 0; i < 3; i++)
		log_delete(&process, i);
	world.hold_puts = true;
	world_advance(&world, LONG);
	assert_int_equal(world_puts(&world), 1);
	world_end_op(&world, world_put_at(&world, 0), END_OK);
	process_kill(&process);
	world.hold_puts = false;
	serve(1);
	world_advance(&world, LONG);
	assert_int_equal(process.n_rewrites, 1);
	assert_records(&process, 3, 0, text);
	only_object();
}

/* ------------------------------------------------------------------- damage */

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

/* Eight runs beside a damaged one are merged; it is told once, kept, and goes when its logs do. */
static void test_a_damaged_object(void **state)
{
	serve(0);
	struct object_id damaged = object_of(1, 0)->id;
	append_now(&process, 1, "b", 0);
	process_pack(&process);
	process_kill(&process);
	damage_index(damaged);
	serve(1);
	world_advance(&world, 2000);
	for (uint64_t k = 1; k < 8; k++) {
		append_now(&process, 1, "b", k);
		process_pack(&process);
	}
	assert_int_equal(process.n_merges, 1);
	assert_int_equal(process.n_warnings, 1);
	assert_non_null(strstr(process.warning, "data/7/0000000000000001/0000000000000001 is damaged: "));
	assert_records(&process, 1, 0, "b|b|b|b|b|b|b|b");
	world_advance(&world, MINUTE);
	assert_int_equal(catalogue_count(metadata.catalogue), 2);
	log_delete(&process, 0);
	world_advance(&world, MINUTE);
	assert_int_equal(catalogue_count(metadata.catalogue), 1);
	assert_null(catalogue_find(metadata.catalogue, damaged));
	assert_int_equal(process.n_warnings, 1);
}

static struct world_object *top_damage(struct object_id id)
{
	char key[DATA_KEY_MAX];
	data_key(key, id);
	struct world_object *o = world_find(&world, key);
	assert_non_null(o);
	o->data[o->n - DATA_FOOTER - 1] ^= 1;
	return o;
}

/* Nothing of an input can be read: the merge is given up. It took such an input for one that has nothing more, and the
 * commit removed it with all its records. */
static void test_an_unreadable_top(void **state)
{
	bounds.index_kept = 4;
	test_config.index_cache_size = 1;
	serve(0);
	struct object_id damaged = object_of(1, 0)->id;
	for (uint64_t k = 0; k < 6; k++) {
		append_now(&process, 1, "b", k);
		process_pack(&process);
	}
	world_advance(&world, MINUTE);          /* the collector has looked at all of them */
	struct world_object *o = top_damage(damaged);
	append_now(&process, 1, "b", 6);
	process_pack(&process);
	world_advance(&world, 2 * MINUTE);
	assert_int_equal(process.n_merges, 0);
	assert_int_equal(process.n_warnings, 1);
	assert_non_null(catalogue_find(metadata.catalogue, damaged));
	assert_false(catalogue_find(metadata.catalogue, damaged)->marked);
	o->data[o->n - DATA_FOOTER - 1] ^= 1;   /* put back */
	process_kill(&process);
	serve(1);
	assert_records(&process, 0, 0, text);
	assert_records(&process, 1, 0, "b|b|b|b|b|b|b");
	bounds = bounds_default;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_mostly_dead), TEST(test_half_dead_stays), TEST(test_trimmed_to_its_entries),
		TEST(test_what_goes_on_dying_waits), TEST(test_killed_while_rewriting), TEST(test_a_damaged_object),
		TEST(test_an_unreadable_top),
	};
	return cmocka_run_group_tests_name("engine-rewrite", tests, NULL, NULL);
}
