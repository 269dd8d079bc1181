/* SPDX-License-Identifier: Apache-2.0
 *
 * The back-off of children that die, to the millisecond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "supervisor/restart.h"

static void test_at_once_ten_times(void **state)
{
	struct restart r = { 0 };
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(restart_after_death(&r, true, 1000 + i), 1000 + i);
	assert_int_equal(restart_after_death(&r, true, 1010), 1110);
	assert_int_equal(restart_after_death(&r, true, 1110), 1310);
	/* the first of the ten is 60 s old now */
	assert_int_equal(restart_after_death(&r, true, 61000), 61000);
	assert_int_equal(restart_after_death(&r, true, 61000), 61400);
	assert_int_equal(restart_after_death(&r, true, 61001), 61001);
}

static void test_doubling(void **state)
{
	static const uint64_t delays[] = { 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000 };
	struct restart r = { 0 };
	uint64_t now = 5;
	for (unsigned i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		assert_int_equal(restart_after_death(&r, false, now), now + delays[i]);
		now += delays[i];
	}
}

static void test_forgotten(void **state)
{
	struct restart r = { 0 };
	assert_int_equal(restart_after_death(&r, false, 1000), 1100);
	assert_int_equal(restart_after_death(&r, false, 1000 + 59999), 1000 + 59999 + 200);
	assert_int_equal(restart_after_death(&r, false, 61000 + 59999), 61000 + 59999 + 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_once_ten_times), cmocka_unit_test(test_doubling),
		cmocka_unit_test(test_forgotten),
	};
	return cmocka_run_group_tests_name("restart", tests, NULL, NULL);
}
