/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON batches into record batches and back out as JSON and raw bodies; the encoder stopped at every
 * size gives the same bytes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/json_scan.h"
#include "common/record_batch.h"
#include "worker-http/pico.h"
#include "worker-http/encode.h"

#define BOUND (1u << 20)

static struct batch_cache cache;

/* One stored batch of a JSON body, at an offset. */
static struct buf stored(const char *json, uint64_t base)
{
	struct buf batch;
	char fault[200];
	uint32_t count;
	buf_init(&batch, BOUND);
	assert_int_equal(pico_json_batch(slice_str(json), &batch, &count, fault, sizeof(fault)), 0);
	record_batch_place(buf_head(&batch), base, 1);
	record_batch_stamp(buf_head(&batch), buf_len(&batch), 77);
	return batch;
}

/* The body of records [from, end) of that memory, encoded `max` bytes at a time. */
static struct buf encoded(struct slice batches, size_t cut, enum record_format format, uint64_t from, uint64_t end,
			  size_t max)
{
	struct slice two[2] = { slice_of(batches.p, cut), slice_of(batches.p + cut, batches.n - cut) };
	struct topics_pieces pieces = { .piece = two, .n_pieces = 2 };
	struct encode_source source = { .pieces = &pieces, .cache = &cache };
	struct encoder e;
	struct buf all, part;
	int r;
	buf_init(&all, BOUND);
	buf_init(&part, BOUND);
	encoder_init(&e, format, from);
	e.end = end;
	do {
		buf_reset(&part, BOUND);
		r = encoder_run(&e, &source, &part, max);
		assert_true(r >= 0);
		buf_put_slice(&all, buf_slice(&part));
	} while (r == 0);
	encoder_finish(&e, &all);
	buf_done(&part);
	return all;
}

static void expect_body(const char *json, const char *want_json, const char *want_raw)
{
	struct buf batch = stored(json, 5);
	struct record_batch b;
	assert_int_equal(record_batch_read(buf_slice(&batch), &b), 0);
	for (size_t max = 1; max < 200; max += 13) {
		size_t cut = max * 7 % buf_len(&batch);
		struct buf body = encoded(buf_slice(&batch), cut, FORMAT_JSON, 5, 5 + b.record_count, max);
		buf_put_u8(&body, 0);
		assert_string_equal((const char *)buf_head(&body), want_json);
		buf_done(&body);
		body = encoded(buf_slice(&batch), cut, FORMAT_RAW, 5, 5 + b.record_count, max);
		assert_true(slice_is(buf_slice(&body), want_raw));
		buf_done(&body);
	}
	buf_done(&batch);
}

#define ONE(members) "{\"records\":[{" members "}]}"
#define SHOWN(members) "[{\"seq\":5,\"timestamp\":77" members "}]\n"

static void test_shapes(void **state)
{
	expect_body(ONE("\"body\":\"hi\""), SHOWN(",\"body\":\"hi\""), "hi");
	expect_body(ONE(""), SHOWN(",\"body\":\"\""), "");
	expect_body(ONE("\"body\":null"), SHOWN(",\"body\":null"), "");
	expect_body(ONE("\"body\":\"\""), SHOWN(",\"body\":\"\""), "");
	expect_body(ONE("\"key\":\"k\",\"body\":\"b\""), SHOWN(",\"key\":\"k\",\"body\":\"b\""), "b");
	expect_body(ONE("\"key\":\"\",\"body\":\"b\""), SHOWN(",\"key\":\"\",\"body\":\"b\""), "b");
	expect_body(ONE("\"key\":null,\"body\":\"b\""), SHOWN(",\"body\":\"b\""), "b");
	expect_body(ONE("\"body_b64\":\"/w==\""), SHOWN(",\"body_b64\":\"/w==\""), "\xff");
	expect_body(ONE("\"body_b64\":\"aGk=\""), SHOWN(",\"body\":\"hi\""), "hi");
	expect_body(ONE("\"body\":\"x\",\"body_b64\":\"aGk=\""), SHOWN(",\"body\":\"hi\""), "hi");
	expect_body(ONE("\"key_b64\":\"/w==\""), SHOWN(",\"key_b64\":\"/w==\",\"body\":\"\""), "");
	expect_body(ONE("\"body\":\"a\\\"\\\\\\n\\u0001\\u00e9\\ud83d\\ude00\""),
		    SHOWN(",\"body\":\"a\\\"\\\\\\n\\u0001\xc3\xa9\xf0\x9f\x98\x80\""), "a\"\\\n\x01\xc3\xa9\xf0\x9f\x98\x80");
	expect_body(ONE("\"seq\":7,\"timestamp\":[1],\"body\":\"x\""), SHOWN(",\"body\":\"x\""), "x");
}

static void test_header_shapes(void **state)
{
	expect_body(ONE("\"headers\":{\"a\":\"1\",\"b\":\"2\"}"),
		    SHOWN(",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"\""), "");
	expect_body(ONE("\"headers\":[[\"b\",\"1\"],[\"a\",\"2\"]]"),
		    SHOWN(",\"headers\":{\"b\":\"1\",\"a\":\"2\"},\"body\":\"\""), "");
	expect_body(ONE("\"headers\":[[\"a\",\"1\"],[\"a\",\"2\"]]"),
		    SHOWN(",\"headers\":[[\"a\",\"1\"],[\"a\",\"2\"]],\"body\":\"\""), "");
	expect_body(ONE("\"headers\":{\"a\":\"1\",\"a\":\"2\"}"),
		    SHOWN(",\"headers\":[[\"a\",\"1\"],[\"a\",\"2\"]],\"body\":\"\""), "");
	expect_body(ONE("\"headers\":[[\"a\",{\"b64\":\"/w==\"}],[\"b\",null]]"),
		    SHOWN(",\"headers\":[[\"a\",{\"b64\":\"/w==\"}],[\"b\",null]],\"body\":\"\""), "");
	expect_body(ONE("\"headers_b64\":{\"a\":\"aGk=\"}"), SHOWN(",\"headers\":{\"a\":\"hi\"},\"body\":\"\""), "");
	expect_body(ONE("\"headers\":{\"n\":12.50,\"o\":{\"x\": 1}}"),
		    SHOWN(",\"headers\":{\"n\":\"12.50\",\"o\":\"{\\\"x\\\": 1}\"},\"body\":\"\""), "");
	expect_body(ONE("\"headers\":{}"), SHOWN(",\"body\":\"\""), "");
	expect_body(ONE("\"headers\":null"), SHOWN(",\"body\":\"\""), "");
}

static void test_many_records(void **state)
{
	expect_body("{\"records\":[{\"body\":\"a\"},{\"key\":\"k\",\"body\":\"b\"},{\"body_b64\":\"/w==\"}]}",
		    "[{\"seq\":5,\"timestamp\":77,\"body\":\"a\"},\n{\"seq\":6,\"timestamp\":77,\"key\":\"k\",\"body\":\"b\"},\n"
		    "{\"seq\":7,\"timestamp\":77,\"body_b64\":\"/w==\"}]\n", "ab\xff");
}

static void test_refused(void **state)
{
	static const struct { const char *json, *fault; } rows[] = {
		{ "", "malformed JSON" }, { "{", "malformed JSON" }, { "[]", "the body must be" },
		{ ONE("\"bdy\":\"x\""), "record 0: \"bdy\" is no member of a record" },
		{ ONE("\"body\":\"x\",\"Key\":\"k\""), "record 0: \"Key\" is no member of a record" },
		{ "{\"record\":[{}]}", "nothing beside" }, { "{\"records\":[{}],\"more\":1}", "nothing beside" },
		{ "{}", "records is missing or empty" }, { "{\"records\":[]}", "records is missing or empty" },
		{ "{\"records\":{}}", "records must be an array" }, { "{\"records\":[1]}", "a record must be an object" },
		{ "{\"records\":[{},[]]}", "record 1: a record must be an object" },
		{ ONE("\"body\":1"), "body must be a string or null" }, { ONE("\"body\":{}"), "body must be" },
		{ ONE("\"key\":true"), "key must be a string or null" },
		{ ONE("\"body_b64\":\"a\""), "bad base64" }, { ONE("\"body_b64\":null"), "body_b64 must be a string" },
		{ ONE("\"body\":\"a\",\"body\":\"b\""), "body is given twice" },
		{ ONE("\"body\":\"\\ud800\""), "a string that is no text" },
		{ ONE("\"headers\":1"), "headers must be an object or an array" },
		{ ONE("\"headers\":[1]"), "a header is [name, value]" },
		{ ONE("\"headers\":[[\"a\"]]"), "a header is [name, value]" },
		{ ONE("\"headers\":[[1,\"a\"]]"), "a header is [name, value]" },
		{ ONE("\"headers\":[[\"a\",\"b\",\"c\"]]"), "a header is [name, value]" },
		{ ONE("\"headers_b64\":{\"a\":1}"), "must be a string" },
		{ "{\"records\":[{}]} x", "malformed JSON" }, { "{\"records\":[{}],\"records\":[{}]}", "given twice" },
		{ "{\"records\":[{}]", "malformed JSON" }, { "{\"records\":[{\"body\":\"\xff\"}]}", "malformed JSON" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out;
		char fault[200] = "";
		uint32_t count;
		buf_init(&out, BOUND);
		assert_int_equal(pico_json_batch(slice_str(rows[i].json), &out, &count, fault, sizeof(fault)), -EBADMSG);
		if (strstr(fault, rows[i].fault) == NULL)
			fail_msg("row %zu: '%s' does not say '%s'", i, fault, rows[i].fault);
		buf_done(&out);
	}
}

static void test_header_limit(void **state)
{
	for (int n = 1000; n <= 1001; n++) {
		struct buf json, out;
		char fault[200];
		uint32_t count;
		buf_init(&json, BOUND);
		buf_init(&out, BOUND);
		buf_put_str(&json, "{\"records\":[{\"headers\":{");
		for (int i = 0; i < n; i++)
			buf_printf(&json, "%s\"h%d\":\"v\"", i > 0 ? "," : "", i);
		buf_put_str(&json, "}}]}");
		int r = pico_json_batch(buf_slice(&json), &out, &count, fault, sizeof(fault));
		assert_int_equal(r, n <= 1000 ? 0 : -EBADMSG);
		buf_done(&json);
		buf_done(&out);
	}
}

static void test_too_large(void **state)
{
	struct buf out;
	char fault[200];
	uint32_t count;
	buf_init(&out, 100);
	assert_int_equal(pico_json_batch(slice_str(ONE("\"body\":\"0123456789012345678901234567890123456789\"")), &out,
					 &count, fault, sizeof(fault)), -ENOBUFS);
	buf_done(&out);
}

/* A body far larger than a piece: UTF-8, base64 and raw all resume inside one record. */
static void test_large_record(void **state)
{
	static const char *const units[] = { "\xc3\xa9\xf0\x9f\x98\x80\"\n", "\xff\x00\x01" };
	static const size_t lengths[] = { 8, 3 };
	for (size_t u = 0; u < 2; u++) {
		struct buf value, batch;
		buf_init(&value, BOUND);
		buf_init(&batch, BOUND);
		for (int i = 0; i < 20000; i++)
			buf_put(&value, units[u], lengths[u]);
		struct record_batch_writer w;
		record_batch_begin(&w, &batch);
		record_batch_add(&w, slice_of(NULL, 0), buf_slice(&value), NULL, 0);
		assert_true(record_batch_end(&w) > 0);
		struct slice whole_slice = buf_slice(&batch);
		struct buf whole = encoded(whole_slice, 70, FORMAT_JSON, 0, 1, BOUND);
		struct buf pieces = encoded(whole_slice, 70, FORMAT_JSON, 0, 1, 5000);
		assert_true(slice_eq(buf_slice(&whole), buf_slice(&pieces)));
		struct json_scan j;
		json_scan_init(&j, buf_slice(&whole));
		assert_int_equal(json_skip(&j), JSON_ARRAY);
		assert_int_equal(json_next(&j), JSON_END);
		struct buf raw = encoded(whole_slice, 70, FORMAT_RAW, 0, 1, 5000);
		assert_true(slice_eq(buf_slice(&raw), buf_slice(&value)));
		buf_done(&raw);
		buf_done(&whole);
		buf_done(&pieces);
		buf_done(&value);
		buf_done(&batch);
	}
}

static void test_measure(void **state)
{
	static const char json[] = "{\"records\":[{\"body\":\"aaaa\"},{\"key\":\"kk\",\"body\":\"bb\"},{\"body\":\"cccccc\"}]}";
	static const struct { uint64_t from, count, bytes, n, end, values; } rows[] = {
		{ 0, 0, 1000, 6, 6, 24 }, { 1, 0, 1000, 5, 6, 20 }, { 4, 0, 1000, 2, 6, 8 }, { 0, 2, 1000, 2, 2, 6 },
		{ 2, 3, 1000, 3, 5, 12 }, { 0, 0, 4, 1, 1, 4 }, { 0, 0, 7, 1, 1, 4 }, { 0, 0, 8, 2, 2, 6 },
		{ 0, 0, 1, 1, 1, 4 }, { 6, 0, 1000, 0, 6, 0 },
	};
	struct buf a = stored(json, 0), b = stored(json, 3);
	struct slice slices[2] = { buf_slice(&a), buf_slice(&b) };
	struct topics_pieces pieces = { .piece = slices, .n_pieces = 2 };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct encode_limits limits = { rows[i].count, rows[i].bytes, BOUND };
		struct encode_range range = { .end = rows[i].from }, two = range;
		assert_int_equal(encode_measure(&(struct encode_source){ .pieces = &pieces, .cache = &cache }, 6, &limits, &range), 0);
		assert_int_equal(range.n_records, rows[i].n);
		assert_int_equal(range.end, rows[i].end);
		assert_int_equal(range.value_bytes, rows[i].values);
		/* The same over two reads. */
		struct topics_pieces first = { .piece = slices, .n_pieces = 1 }, second = { .piece = slices + 1, .n_pieces = 1 };
		struct encode_source one = { .pieces = &first, .cache = &cache }, other = { .pieces = &second, .cache = &cache };
		assert_int_equal(encode_measure(&one, rows[i].from < 3 ? 3 : rows[i].from, &limits, &two), 0);
		if (!two.full)
			assert_int_equal(encode_measure(&other, 6, &limits, &two), 0);
		assert_int_equal(two.n_records, rows[i].n);
		assert_int_equal(two.end, rows[i].end);
		assert_int_equal(two.value_bytes, rows[i].values);
	}
	buf_done(&a);
	buf_done(&b);
}

static void test_empty(void **state)
{
	struct topics_pieces none = { 0 };
	struct encode_source source = { .pieces = &none, .cache = &cache };
	struct encoder e;
	struct buf out;
	buf_init(&out, BOUND);
	encoder_init(&e, FORMAT_JSON, 9);
	assert_int_equal(encoder_run(&e, &source, &out, 100), 1);
	encoder_finish(&e, &out);
	assert_true(slice_is(buf_slice(&out), "[]\n"));
	buf_done(&out);
}

int main(void)
{
	batch_cache_init(&cache, BOUND);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes), cmocka_unit_test(test_header_shapes), cmocka_unit_test(test_many_records),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_header_limit), cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_large_record), cmocka_unit_test(test_measure), cmocka_unit_test(test_empty),
	};
	return cmocka_run_group_tests_name("pico_records", tests, NULL, NULL);
}
