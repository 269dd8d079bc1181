/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of Durable Streams without a server: instants, events, offsets, bodies as batches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record_batch.h"
#include "worker-http/ds.h"
#include "worker-http/rfc3339.h"
#include "worker-http/sse.h"

/* ------------------------------------------------------------------ instants */

static void test_instants(void **state)
{
	static const struct { const char *text; int64_t ms; const char *shown; } good[] = {
		{ "1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z" },
		{ "1970-01-01t00:00:00.001z", 1, "1970-01-01T00:00:00.001Z" },
		{ "2000-02-29T23:59:59+00:00", 951868799000, "2000-02-29T23:59:59Z" },
		{ "2024-12-31T23:59:60Z", 1735689600000, "2025-01-01T00:00:00Z" },
		{ "2026-11-30T17:00:00.1234567-02:30", 1796067000123, "2026-11-30T19:30:00.123Z" },
		{ "2026-03-01T00:30:00.5+01:00", 1772321400500, "2026-02-28T23:30:00.500Z" },
		{ "9999-12-31T23:59:59.999Z", 253402300799999, "9999-12-31T23:59:59.999Z" },
	};
	static const char *const bad[] = {
		"", "2026", "2026-11-30", "2026-11-30T17:00Z", "2026-11-30T17:00:00", "2026-11-30 17:00:00Z", "2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-00T00:00:00Z",
		"2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00+24:00",
		"2026-01-01T00:00:00+0100", "2026-01-01T00:00:00Zx", "26-01-01T00:00:00Z", "+026-01-01T00:00:00Z",
	};
	int64_t ms = 0;
	char text[RFC3339_TEXT];
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(rfc3339_parse(slice_str(good[i].text), &ms));
		assert_int_equal(ms, good[i].ms);
		rfc3339_print(ms, text);
		assert_string_equal(text, good[i].shown);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (rfc3339_parse(slice_str(bad[i]), &ms))
			fail_msg("%s is an instant", bad[i]);
}

/* Each day of 400 years in its place: what is printed is read back. */
static void test_every_day(void **state)
{
	char text[RFC3339_TEXT], before[RFC3339_TEXT] = "";
	for (int64_t day = 0, back; day < 146097; day++) {
		rfc3339_print(day * 86400000, text);
		assert_true(strcmp(before, text) < 0);
		assert_true(rfc3339_parse(slice_str(text), &back));
		assert_int_equal(back, day * 86400000);
		memcpy(before, text, sizeof(before));
	}
}

/* ------------------------------------------------------------------ events */

/* Its bytes, however the text is cut in two and in single bytes. */
static void check_event(const char *text, size_t n, bool base64, const char *want)
{
	for (size_t cut = 0; cut <= n + 1; cut++) {
		struct sse_data d;
		struct buf out;
		buf_init(&out, 4096);
		sse_begin(&d, "data", base64, &out);
		for (size_t i = 0; cut == n + 1 && i < n; i++)
			sse_put(&d, slice_of(text + i, 1), &out);
		if (cut <= n) {
			sse_put(&d, slice_of(text, cut), &out);
			sse_put(&d, slice_of(text + cut, n - cut), &out);
		}
		sse_end(&d, NULL, &out);
		buf_put_u8(&out, '\0');
		assert_string_equal((char *)buf_head(&out), want);
		buf_done(&out);
	}
}

static void test_events(void **state)
{
#define TEXT_EVENT(text, want) check_event(text, sizeof(text) - 1, false, "event: data\ndata:" want "\n\n")
#define BYTES_EVENT(text, want) check_event(text, sizeof(text) - 1, true, "event: data\ndata:" want "\n\n")
	TEXT_EVENT("", "");
	TEXT_EVENT("abc", "abc");
	TEXT_EVENT(" a", "  a");
	TEXT_EVENT("a b", "a b");
	TEXT_EVENT("a\nb", "a\ndata:b");
	TEXT_EVENT("a\r\nb", "a\ndata:b");
	TEXT_EVENT("a\rb\r", "a\ndata:b\ndata:");
	TEXT_EVENT("\n\n", "\ndata:\ndata:");
	TEXT_EVENT("\n\r\n\r", "\ndata:\ndata:\ndata:");
	TEXT_EVENT("a\n b", "a\ndata:  b");
	TEXT_EVENT("a\n\nevent: x\ndata:y", "a\ndata:\ndata:event: x\ndata:data:y");
	BYTES_EVENT("", "");
	BYTES_EVENT("a", "YQ==");
	BYTES_EVENT("ab", "YWI=");
	BYTES_EVENT("abc", "YWJj");
	BYTES_EVENT("abcdefg\n", "YWJjZGVmZwo=");
	struct buf out;
	buf_init(&out, 100);
	struct sse_data d;
	sse_begin(&d, "x", false, &out);
	sse_end(&d, "17", &out);
	sse_keep_alive(&out);
	assert_true(slice_is(buf_slice(&out), "event: x\ndata:\nid: 17\n\n:\n\n"));
	buf_done(&out);
}

/* ------------------------------------------------------------------ offsets */

static void test_offsets(void **state)
{
	struct position p;
	assert_true(ds_offset_parse(slice_str("now"), &p) && p.tail);
	assert_true(ds_offset_parse(slice_str("-1"), &p) && !p.tail && p.from == -1);
	assert_true(ds_offset_parse(slice_str("00000000000000000042"), &p) && p.from == 42);
	assert_true(ds_offset_parse(slice_str("9223372036854775807"), &p) && p.from == INT64_MAX);
	assert_true(ds_offset_parse(slice_str("9223372036854775808"), &p) && p.from == INT64_MAX);
	assert_true(ds_offset_parse(slice_str("99999999999999999999"), &p) && p.from == INT64_MAX);
	static const char *const bad[] = { "", "NOW", "-2", "+1", "1 ", "000000000000000000000", "1_1", "0x1" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(ds_offset_parse(slice_str(bad[i]), &p));
	assert_int_equal(query_count(slice_str("offset=1&x&offset&y=offset&offset2=1"), "offset"), 2);
	assert_int_equal(query_count(slice_str(""), "offset"), 0);
}

/* ------------------------------------------------------------------ bodies */

/* The values of a batch, with '|' between; NULL when it was refused. */
static const char *values_of(const char *body, bool json)
{
	static char text[1000];
	char fault[200];
	uint32_t count;
	struct buf out;
	struct record_batch b;
	struct record_iter it;
	struct record record;
	size_t at = 0;
	buf_init(&out, 65536);
	text[0] = '\0';
	int r = ds_batch(slice_str(body), json, &out, &count, fault, sizeof(fault));
	if (r == 0 && count > 0) {
		assert_int_equal(record_batch_read(buf_slice(&out), &b), 0);
		assert_int_equal(b.record_count, count);
		assert_int_equal(record_iter_init(&it, &b), 0);
		while (record_iter_next(&it, &record) == 1)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", at > 0 ? "|" : "", (int)record.value.n,
					       (const char *)record.value.p);
	} else {
		assert_int_equal(buf_len(&out), 0);
		assert_int_equal(count, 0);
		assert_false(out.failed);
	}
	buf_done(&out);
	return r == 0 ? text : NULL;
}

static void test_bodies(void **state)
{
	static const struct { const char *body, *values; } rows[] = {
		{ "", "" }, { "[]", "" }, { " [ ] ", "" }, { "1", "1" }, { " {\"a\" : 1}\n", "{\"a\" : 1}" }, { "[1, [2] ,{}]", "1|[2]|{}" },
		{ "[[]]", "[]" }, { "[[[1]]]", "[[1]]" }, { "\"x\"", "\"x\"" }, { "[1.0,1.0]", "1.0|1.0" }, { "null", "null" },
		{ "[", NULL }, { "[1", NULL }, { "[1,]", NULL }, { "[1]2", NULL }, { "1 2", NULL }, { "{", NULL }, { " ", NULL }, { "x", NULL },
		{ "[1] ]", NULL }, { "[1,{\"a\"}]", NULL },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *got = values_of(rows[i].body, true);
		if ((got == NULL) != (rows[i].values == NULL) || (got != NULL && strcmp(got, rows[i].values) != 0))
			fail_msg("%s: got %s", rows[i].body, got != NULL ? got : "(refused)");
	}
	assert_string_equal(values_of("[1, {", false), "[1, {");
}

/* Records with times of their own: what a fork copies. */
static void test_timed_records(void **state)
{
	static const int64_t times[] = { 5000, 4990, INT32_MAX + 5000ll, 5001 };
	struct record_batch_writer w;
	struct record_batch b;
	struct record_iter it;
	struct record r;
	struct buf out;
	buf_init(&out, 65536);
	record_batch_begin(&w, &out);
	for (size_t i = 0; i < 4; i++) {
		r = (struct record){ .timestamp_ms = times[i], .key = i == 1 ? slice_of(NULL, 0) : slice_str("k"),
				     .value = slice_str("v"), .headers_raw = slice_of("\2h\1", i == 2 ? 3 : 0), .n_headers = i == 2 };
		record_batch_add_record(&w, &r);
	}
	assert_true(record_batch_end(&w) > 0);
	assert_int_equal(record_batch_read(buf_slice(&out), &b), 0);
	assert_true(record_batch_crc_is_good(&b));
	assert_int_equal(b.attributes, 0);
	assert_int_equal(b.base_timestamp, 5000);
	assert_int_equal(b.max_timestamp, INT32_MAX + 5000ll);
	assert_int_equal(record_batch_validate(&b, NULL), 0);
	assert_int_equal(record_iter_init(&it, &b), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(record_iter_next(&it, &r), 1);
		assert_int_equal(r.timestamp_ms, times[i]);
		assert_int_equal(r.key.p == NULL, i == 1);
		assert_int_equal(r.n_headers, i == 2);
	}
	buf_reset(&out, 0);
	record_batch_begin(&w, &out);
	record_batch_add_record(&w, &(struct record){ .timestamp_ms = INT64_MIN });
	record_batch_add_record(&w, &(struct record){ .timestamp_ms = INT64_MAX });
	assert_true(out.failed);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_instants), cmocka_unit_test(test_every_day), cmocka_unit_test(test_events),
		cmocka_unit_test(test_offsets), cmocka_unit_test(test_bodies), cmocka_unit_test(test_timed_records),
	};
	return cmocka_run_group_tests_name("ds", tests, NULL, NULL);
}
