/* SPDX-License-Identifier: Apache-2.0
 *
 * Percentiles of `pico bench` against sorted durations: never too small, at most 1/64 too large.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/bench_stats.h"

static void assert_percentile(const struct bench_stats *s, unsigned per_mille, uint64_t ns)
{
	double got = bench_stats_ms(s, per_mille) * 1e6;
	if (got < (double)ns - 0.5 || got > (double)ns * (1 + 1.0 / 64) + 0.5)
		fail_msg("%u per mille: got %.1f ns, expected %llu", per_mille, got, (unsigned long long)ns);
}

static void test_percentiles(void **state)
{
	static const uint64_t steps[] = { 1, 63, 1000, 123457, 86400ull * 1000000 };
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		static struct bench_stats s;
		s = (struct bench_stats){ 0 };
		for (uint64_t n = 1000; n > 0; n--) /* the order does not matter */
			bench_stats_add(&s, 5, n * steps[i], 2, 7);
		assert_percentile(&s, 500, 500 * steps[i]);
		assert_percentile(&s, 900, 900 * steps[i]);
		assert_percentile(&s, 990, 990 * steps[i]);
		assert_percentile(&s, 999, 999 * steps[i]);
		assert_int_equal(s.max_ns, 1000 * steps[i]);
		assert_int_equal(s.records, 2000);
		assert_int_equal(s.bytes, 7000);
	}
}

static void test_one_and_extremes(void **state)
{
	static struct bench_stats s;
	assert_true(bench_stats_ms(&s, 500) == 0);
	bench_stats_add(&s, 0, 3000001, 1, 1);
	assert_true(bench_stats_ms(&s, 500) == 3.000001); /* the longest is known exactly */
	assert_true(bench_stats_ms(&s, 999) == 3.000001);
	bench_stats_add(&s, 0, UINT64_MAX, 1, 1);
	assert_true(bench_stats_ms(&s, 1000) >= 1.8e13);
}

static void test_seconds_and_json(void **state)
{
	static struct bench_stats s;
	struct buf out;
	buf_init(&out, 4096);
	bench_stats_json(&s, &out);
	assert_true(slice_is(buf_slice(&out), "null"));
	buf_reset(&out, 0);
	bench_stats_add(&s, 2000000000, 500000000, 1, 1048576); /* answers come in any order over connections */
	bench_stats_add(&s, 1000000000, 1000000, 1, 1048576);
	bench_stats_add(&s, 1500000000, 1500000000, 2, 2097152);
	assert_true(bench_stats_seconds(&s) == 2);
	bench_stats_json(&s, &out);
	buf_put_u8(&out, 0);
	assert_non_null(strstr((char *)buf_head(&out), "{\"mib_per_sec\":2.000,\"records_per_sec\":2.0,\"bytes\":4194304,\"records\":4,"));
	assert_non_null(strstr((char *)buf_head(&out), "\"p999_ms\":1500.000,\"max_ms\":1500.000}"));
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentiles), cmocka_unit_test(test_one_and_extremes),
		cmocka_unit_test(test_seconds_and_json),
	};
	return cmocka_run_group_tests_name("bench-stats", tests, NULL, NULL);
}
