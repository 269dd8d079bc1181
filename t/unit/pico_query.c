/* SPDX-License-Identifier: Apache-2.0
 *
 * The small grammars of the Pico protocol, by tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "worker-http/query.h"

static void test_strict_u64(void **state)
{
	static const struct { const char *text; bool good; uint64_t value; } rows[] = {
		{ "0", true, 0 }, { "7", true, 7 }, { "18446744073709551615", true, UINT64_MAX },
		{ "18446744073709551616", false, 0 }, { "99999999999999999999", false, 0 }, { "", false, 0 },
		{ "00", false, 0 }, { "01", false, 0 }, { "+1", false, 0 }, { "-1", false, 0 }, { " 1", false, 0 },
		{ "1 ", false, 0 }, { "1.0", false, 0 }, { "0x1", false, 0 }, { "1e3", false, 0 },
		{ "100000000000000000000", false, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t v = 0;
		assert_int_equal(strict_u64(slice_str(rows[i].text), &v), rows[i].good);
		assert_true(v == rows[i].value);
	}
}

static void test_query(void **state)
{
	static const struct { const char *query, *key, *value; } rows[] = {
		{ "a=1&b=2", "a", "1" }, { "a=1&b=2", "b", "2" }, { "a=1&b=2", "c", NULL }, { "", "a", NULL },
		{ "a=1&a=2", "a", "1" }, { "a", "a", "" }, { "a=", "a", "" }, { "a=b=c", "a", "b=c" },
		{ "a=x%20y+z", "a", "x y z" }, { "a=%2", "a", "%2" }, { "a=%zz%4", "a", "%zz%4" },
		{ "a=%41%C3%A9", "a", "A\xc3\xa9" }, { "a=%FFx", "a", "\xef\xbf\xbdx" },
		{ "%61=1", "a", NULL }, { "ab=1&a=2", "a", "2" }, { "&&a=1", "a", "1" }, { "A=1", "a", NULL },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf value;
		buf_init(&value, 1000);
		bool found = query_find(slice_str(rows[i].query), rows[i].key, &value);
		assert_int_equal(found, rows[i].value != NULL);
		if (found)
			assert_true(slice_is(buf_slice(&value), rows[i].value));
		buf_done(&value);
	}
}

static void test_position(void **state)
{
	static const struct { const char *text; bool good, tail; int64_t from; } rows[] = {
		{ "0", true, false, 0 }, { "17", true, false, 17 }, { "-1", true, false, -1 }, { "-99", true, false, -99 },
		{ "00000000000000000042", true, false, 42 }, { "-0", true, false, 0 }, { "now", true, true, 0 },
		{ "NoW", true, true, 0 }, { "9223372036854775807", true, false, INT64_MAX },
		{ "9223372036854775808", false, false, 0 }, { "", false, false, 0 }, { "x", false, false, 0 },
		{ "1x", false, false, 0 }, { "-", false, false, 0 }, { "1.5", false, false, 0 }, { "nows", false, false, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct position p = { .from = 5 };
		assert_int_equal(position_parse(slice_str(rows[i].text), &p), rows[i].good);
		if (rows[i].good) {
			assert_int_equal(p.tail, rows[i].tail);
			assert_true(p.from == rows[i].from);
		}
	}
}

static void test_etag(void **state)
{
	static const struct { const char *list; bool match; } rows[] = {
		{ "\"a:1\"", true }, { "W/\"a:1\"", true }, { "*", true }, { "\"b\", \"a:1\"", true },
		{ "\"b\",W/\"a:1\" ", true }, { "\"a:1", false }, { "a:1", false }, { "\"a:2\"", false }, { "", false },
		{ "\"b\" , \"c\"", false }, { "\"a\"", false }, { ",,\"a:1\"", true }, { "w/\"a:1\"", false },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(etag_matches(slice_str(rows[i].list), slice_str("\"a:1\"")), rows[i].match);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strict_u64), cmocka_unit_test(test_query), cmocka_unit_test(test_position),
		cmocka_unit_test(test_etag),
	};
	return cmocka_run_group_tests_name("pico_query", tests, NULL, NULL);
}
