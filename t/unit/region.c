/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions: alignment, growth, the bound, and what a reset gives back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/region.h"

static void test_pieces(void **state)
{
	struct region r;
	uint8_t *pieces[200];
	region_init(&r, 1u << 20);
	for (int i = 0; i < 200; i++) {
		pieces[i] = region_alloc(&r, (size_t)i * 7);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % 8, 0);
		memset(pieces[i], i, (size_t)i * 7);
	}
	for (int i = 0; i < 200; i++)
		for (int k = 0; k < i * 7; k++)
			assert_int_equal(pieces[i][k], (uint8_t)i);
	assert_true(r.used >= 199 * 200 / 2 * 7 && r.used <= r.max);
	region_done(&r);
	assert_int_equal(r.used, 0);
}

static void test_bound(void **state)
{
	struct region r;
	region_init(&r, 10000);
	assert_non_null(region_alloc(&r, 9000));
	assert_null(region_alloc(&r, 2000));
	assert_true(r.failed);
	assert_null(region_alloc(&r, 1));
	assert_true(r.used <= 10000);
	region_reset(&r);
	assert_false(r.failed);
	assert_non_null(region_alloc(&r, 1));
	assert_null(region_alloc(&r, SIZE_MAX));
	region_reset(&r);
	assert_null(region_alloc(&r, SIZE_MAX - 7));
	region_reset(&r);
	assert_null(region_calloc(&r, SIZE_MAX / 2, 4));
	region_done(&r);
}

static void test_reset_keeps_one_chunk(void **state)
{
	struct region r;
	region_init(&r, 1u << 20);
	void *first = region_alloc(&r, 100);
	for (int i = 0; i < 1000; i++)
		assert_non_null(region_calloc(&r, 10, 50));
	assert_true(r.used > 500000);
	region_reset(&r);
	assert_int_equal(r.used, 4096);
	assert_ptr_equal(region_alloc(&r, 100), first);
	region_done(&r);
}

static void test_nothing_fits_nothing(void **state)
{
	struct region r;
	region_init(&r, 0);
	assert_null(region_alloc(&r, 1));
	region_done(&r);
}

static void test_copies(void **state)
{
	struct region r;
	region_init(&r, 8192);
	struct slice s = region_copy(&r, slice_str("abc"));
	assert_true(slice_is(s, "abc"));
	assert_null(region_copy(&r, slice_of(NULL, 0)).p);
	assert_non_null(region_copy(&r, slice_of("", 0)).p);
	assert_true(slice_is(region_printf(&r, "%s-%d", "x", 7), "x-7"));
	uint64_t *numbers = region_calloc(&r, 20, sizeof(*numbers));
	for (int i = 0; i < 20; i++)
		assert_int_equal(numbers[i], 0);
	assert_null(region_copy(&r, slice_of(&r, 100000)).p);
	assert_int_equal(region_printf(&r, "%d", 1).n, 0);
	region_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_reset_keeps_one_chunk),
		cmocka_unit_test(test_nothing_fits_nothing),
		cmocka_unit_test(test_copies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
