/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics: bucket borders, sums over pages of one kind, the text. With --print: the text of a page that has
 * everything, for promtool.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/metrics.h"

static struct metrics_page pages[3];

static const char *print(struct buf *out, const char *const *kinds, size_t n)
{
	const struct metrics_page *list[] = { &pages[0], &pages[1], &pages[2] };
	buf_init(out, 1 << 20);
	metrics_print(out, list, kinds, n);
	buf_put_u8(out, 0);
	assert_false(out->failed);
	return (const char *)buf_head(out);
}

static void test_buckets(void **state)
{
	static const struct {
		uint64_t ns;
		unsigned bucket;
	} rows[] = {
		{ 0, 0 }, { 2000, 0 }, { 2001, 1 }, { 3000, 1 }, { 3001, 2 }, { 4000, 2 }, { 4001, 3 }, { 6000, 3 },
		{ 6001, 4 }, { 8000, 4 }, { 8001, 5 }, { 1024000, 18 }, { 1024001, 19 }, { 4294967296000, 62 },
		{ 4294967296001, 63 }, { UINT64_MAX, 63 },
	};
	metrics_use(&pages[0]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(pages, 0, sizeof(pages));
		histogram_observe(HISTOGRAM_APPEND_SECONDS, rows[i].ns);
		for (unsigned b = 0; b < METRICS_BUCKETS; b++)
			assert_int_equal(pages[0].histogram[HISTOGRAM_APPEND_SECONDS].bucket[b], b == rows[i].bucket);
	}
}

static void test_print(void **state)
{
	static const char *const kinds[] = { "worker-http", "storaged", "worker-http" };
	struct buf out;
	memset(pages, 0, sizeof(pages));
	metrics_use(&pages[0]);
	metric_add(METRIC_HTTP_REQUESTS_2XX, 3);
	metric_add(METRIC_HTTP_CONNECTIONS, 2);
	metric_add(METRIC_HTTP_CONNECTIONS, -1);
	metrics_use(&pages[2]);
	metric_add(METRIC_HTTP_REQUESTS_2XX, 4);
	metrics_use(&pages[1]);
	metric_set(METRIC_TOPICS, 10000);
	histogram_observe(HISTOGRAM_WAL_PUT_SECONDS, 2500);
	histogram_observe(HISTOGRAM_WAL_PUT_SECONDS, 1500000000);
	const char *s = print(&out, kinds, 3);
	assert_non_null(strstr(s, "# HELP pico_http_requests_total HTTP requests answered\n"
				  "# TYPE pico_http_requests_total counter\n"
				  "pico_http_requests_total{process=\"worker-http\",code=\"2xx\"} 7\n"
				  "pico_http_requests_total{process=\"storaged\",code=\"2xx\"} 0\n"
				  "pico_http_requests_total{process=\"worker-http\",code=\"3xx\"} 0\n"));
	assert_non_null(strstr(s, "\npico_http_connections{process=\"worker-http\"} 1\n"));
	assert_non_null(strstr(s, "\npico_topics{process=\"storaged\"} 10000\n"));
	assert_non_null(strstr(s, "# TYPE pico_wal_put_seconds histogram\n"));
	assert_non_null(strstr(s, "pico_wal_put_seconds_bucket{process=\"storaged\",le=\"0.000002\"} 0\n"
				  "pico_wal_put_seconds_bucket{process=\"storaged\",le=\"0.000003\"} 1\n"));
	assert_non_null(strstr(s, "pico_wal_put_seconds_bucket{process=\"storaged\",le=\"+Inf\"} 2\n"
				  "pico_wal_put_seconds_sum{process=\"storaged\"} 1.500002500\n"
				  "pico_wal_put_seconds_count{process=\"storaged\"} 2\n"));
	buf_done(&out);
}

static void test_missing_page(void **state)
{
	static const char *const kinds[] = { "a", "a", "b" };
	const struct metrics_page *list[] = { NULL, &pages[1], NULL };
	struct buf out;
	memset(pages, 0, sizeof(pages));
	pages[1].value[METRIC_TOPICS] = 5;
	buf_init(&out, 1 << 20);
	metrics_print(&out, list, kinds, 3);
	buf_put_u8(&out, 0);
	assert_non_null(strstr((char *)buf_head(&out), "\npico_topics{process=\"a\"} 5\n"));
	assert_null(strstr((char *)buf_head(&out), "process=\"b\""));
	buf_done(&out);
}

static void test_reset_gauges(void **state)
{
	memset(pages, 0, sizeof(pages));
	metrics_use(&pages[0]);
	metric_set(METRIC_WAITERS, 9);
	metric_add(METRIC_APPENDS, 8);
	histogram_observe(HISTOGRAM_HTTP_SECONDS, 1);
	metrics_reset_gauges(&pages[0]);
	assert_int_equal(pages[0].value[METRIC_WAITERS], 0);
	assert_int_equal(pages[0].value[METRIC_APPENDS], 8);
	assert_int_equal(pages[0].histogram[HISTOGRAM_HTTP_SECONDS].count, 1);
}

static int print_for_promtool(void)
{
	static const char *const kinds[] = { "worker-http", "storaged", "admin" };
	struct buf out;
	for (unsigned p = 0; p < 3; p++) {
		metrics_use(&pages[p]);
		for (unsigned i = 0; i < 1000; i++)
			histogram_observe(HISTOGRAM_HTTP_SECONDS, (uint64_t)i * i * i * 1000);
		for (unsigned m = 0; m < METRIC_N; m++)
			metric_add((enum metric)m, m);
	}
	const char *s = print(&out, kinds, 3);
	fputs(s, stdout);
	buf_done(&out);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets), cmocka_unit_test(test_print), cmocka_unit_test(test_missing_page),
		cmocka_unit_test(test_reset_gauges),
	};
	if (argc > 1 && strcmp(argv[1], "--print") == 0)
		return print_for_promtool();
	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
