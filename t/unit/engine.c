/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's promises, one by one, in a world where the test decides when and how each put ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "t/unit/engine.h"

static struct world world;
static struct process process;

static int setup(void **state)
{
	world_init(&world);
	answers = 0;
	return 0;
}

static int teardown(void **state)
{
	if (process.engine != NULL)
		process_kill(&process);
	world_done(&world);
	return 0;
}

static void test_append_and_read(void **state)
{
	process_serve(&process, &world, 0);
	assert_int_equal(process.position, 1);
	struct append *a = append_do(&process, 0, "one");
	assert_open(a);
	assert_int_equal(log_next(process.logs[0]), 1);
	assert_int_equal(log_confirm(process.logs[0]), 0);
	world_run(&world);
	assert_stored(a, 0, 1);
	assert_int_equal(log_confirm(process.logs[0]), 1);
	assert_int_equal(process.position, 2);
	assert_records(&process, 0, 0, "one");
	assert_int_equal(world.n_gets, 1); /* of the probe; the arena has the record */
	free(a);
}

static void test_recovery(void **state)
{
	process_serve(&process, &world, 0);
	struct append *a = append_do(&process, 0, "one"), *b = append_do(&process, 1, "other");
	world_run(&world);
	struct append *c = append_do(&process, 0, "two");
	world_run(&world);
	assert_stored(a, 0, 1);
	assert_stored(b, 0, 1);
	assert_stored(c, 1, 2);
	process_kill(&process);
	process_serve(&process, &world, 1);
	assert_int_equal(process.ended[0].cut, 3);
	assert_int_equal(process.stats.frames, 3);
	assert_int_equal(process.stats.objects, 3);
	assert_int_equal(log_next(process.logs[0]), 2);
	assert_records(&process, 0, 0, "one|two");
	assert_records(&process, 0, 1, "two");
	assert_records(&process, 1, 0, "other");
	struct append *d = append_do(&process, 0, "three");
	world_run(&world);
	assert_stored(d, 2, 3);
	assert_records(&process, 0, 1, "two|three");
	assert_records(&process, 0, 2, "three");
	process_kill(&process);
	process_serve(&process, &world, 2);
	assert_records(&process, 0, 0, "one|two|three");
	free(a), free(b), free(c), free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_append_and_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recovery, setup, teardown),
	};
	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
