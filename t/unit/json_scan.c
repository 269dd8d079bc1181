/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON scanner: a table of documents with the tokens or the error they give, depth, spans,
 * strings, integers, writing; UTF-8 and base64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <cmocka.h>

#include "common/json_scan.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define D(literal) { (const uint8_t *)(literal), sizeof(literal) - 1 }

struct doc_case {
	struct slice doc;
	/* One letter a token: { } [ ] k s 0 t f n; or, behind a '!', words of the error. */
	const char *want;
};

static const struct doc_case doc_cases[] = {
	/* scalars alone */
	{ D("null"), "n" },
	{ D("true"), "t" },
	{ D("false"), "f" },
	{ D("0"), "0" },
	{ D("\"\""), "s" },
	{ D("\"a\""), "s" },
	{ D(" \t\r\n1 \t\r\n"), "0" },
	{ D("{}"), "{}" },
	{ D("[]"), "[]" },
	{ D(" [ ] "), "[]" },
	{ D(" { } "), "{}" },
	/* nothing, or not a value */
	{ D(""), "!missing at the end" },
	{ D(" "), "!missing at the end" },
	{ D("\0"), "!value is missing" },
	{ D("\f1"), "!value is missing" },
	{ D("\v1"), "!value is missing" },
	{ D("\xc2\xa0" "1"), "!value is missing" },             /* no-break space */
	{ D("\xef\xbb\xbf" "1"), "!value is missing" },         /* byte order mark */
	{ D("1\xef\xbb\xbf"), "!follows" },
	{ D("//x\n1"), "!value is missing" },
	{ D("/**/1"), "!value is missing" },
	{ D("1/**/"), "!follows" },
	{ D("1#"), "!follows" },
	{ D("'a'"), "!value is missing" },
	{ D("a"), "!value is missing" },
	{ D("\xff"), "!value is missing" },
	{ D(","), "!value is missing" },
	{ D(":"), "!value is missing" },
	{ D("]"), "!value is missing" },
	{ D("}"), "!value is missing" },
	/* words */
	{ D("nul"), "!word" },
	{ D("nulll"), "!follows" },
	{ D("null0"), "!follows" },
	{ D("Null"), "!value is missing" },
	{ D("NULL"), "!value is missing" },
	{ D("tru"), "!word" },
	{ D("True"), "!value is missing" },
	{ D("truE"), "!word" },
	{ D("fals"), "!word" },
	{ D("falsee"), "!follows" },
	{ D("t"), "!word" },
	{ D("nan"), "!word" },
	{ D("NaN"), "!value is missing" },
	{ D("Infinity"), "!value is missing" },
	{ D("-Infinity"), "!number" },
	{ D("undefined"), "!value is missing" },
	{ D("true false"), "!follows" },
	{ D("null\0"), "!follows" },
	/* numbers */
	{ D("-0"), "0" },
	{ D("10"), "0" },
	{ D("-12.50"), "0" },
	{ D("0.0"), "0" },
	{ D("0e0"), "0" },
	{ D("0E+00"), "0" },
	{ D("1e-7"), "0" },
	{ D("1.5E+300"), "0" },
	{ D("1e400"), "0" },
	{ D("-1e-400"), "0" },
	{ D("12345678901234567890123456789012345678901234567890"), "0" },
	{ D("0.00000000000000000000000000000000000000000000000001"), "0" },
	{ D("1e99999999999999999999"), "0" },
	{ D("00"), "!follows" },
	{ D("01"), "!follows" },
	{ D("-01"), "!follows" },
	{ D("-"), "!number" },
	{ D("--1"), "!number" },
	{ D("-a"), "!number" },
	{ D("- 1"), "!number" },
	{ D("+1"), "!value is missing" },
	{ D(".5"), "!value is missing" },
	{ D("-.5"), "!number" },
	{ D("5."), "!number" },
	{ D("5.e1"), "!number" },
	{ D("5.a"), "!number" },
	{ D("1e"), "!number" },
	{ D("1e+"), "!number" },
	{ D("1e-"), "!number" },
	{ D("1ea"), "!number" },
	{ D("1e1.5"), "!follows" },
	{ D("1.2.3"), "!follows" },
	{ D("1e5e5"), "!follows" },
	{ D("1+2"), "!follows" },
	{ D("0x10"), "!follows" },
	{ D("1_000"), "!follows" },
	{ D("1,000"), "!follows" },
	{ D("1 000"), "!follows" },
	{ D("1f"), "!follows" },
	{ D("1L"), "!follows" },
	{ D("\xef\xbc\x91"), "!value is missing" },             /* full-width one */
	{ D("1\xd9\xa1"), "!follows" },                         /* Arabic digit */
	/* strings */
	{ D("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "s" },
	{ D("\"\\u0000\""), "s" },
	{ D("\"\\uD83D\\uDE00\""), "s" },
	{ D("\"\\ud800\""), "s" },                              /* its decoding is refused */
	{ D("\"\\uABCD\\uabcd\\u01eF\""), "s" },
	{ D("\"\x7f\""), "s" },
	{ D("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""), "s" },
	{ D("\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\""), "s" },
	{ D("\"\xe2\x80\xa8\""), "s" },                         /* line separator */
	{ D("\"/* no comment */ // nor this\""), "s" },
	{ D("\""), "!does not end" },
	{ D("\"abcdefghijklmnop"), "!does not end" },
	{ D("\"\\\""), "!does not end" },
	{ D("\"\\"), "!escape" },
	{ D("\"\\x41\""), "!escape" },
	{ D("\"\\'\""), "!escape" },
	{ D("\"\\a\""), "!escape" },
	{ D("\"\\0\""), "!escape" },
	{ D("\"\\\0\""), "!escape" },
	{ D("\"\\\n\""), "!escape" },
	{ D("\"\\U0041\""), "!escape" },
	{ D("\"\\N\""), "!escape" },
	{ D("\"\\u\""), "!escape" },
	{ D("\"\\u004\""), "!escape" },
	{ D("\"\\u00g0\""), "!escape" },
	{ D("\"\\u 041\""), "!escape" },
	{ D("\"\\u+041\""), "!escape" },
	{ D("\"\\u-041\""), "!escape" },
	{ D("\"\\u{41}\""), "!escape" },
	{ D("\"\\u"), "!escape" },
	{ D("\"\\\xc3\xa9\""), "!escape" },
	{ D("\"a\nb\""), "!control" },
	{ D("\"a\tb\""), "!control" },
	{ D("\"a\0b\""), "!control" },
	{ D("\"12345678\x1f\""), "!control" },
	{ D("\"\xff\""), "!UTF-8" },
	{ D("\"\x80\""), "!UTF-8" },
	{ D("\"\xc3\""), "!UTF-8" },
	{ D("\"\xc3"), "!UTF-8" },
	{ D("\"\xe2\x82\""), "!UTF-8" },
	{ D("\"\xc0\x80\""), "!UTF-8" },                        /* overlong NUL */
	{ D("\"\xc1\xbf\""), "!UTF-8" },
	{ D("\"\xe0\x9f\xbf\""), "!UTF-8" },
	{ D("\"\xf0\x8f\xbf\xbf\""), "!UTF-8" },
	{ D("\"\xed\xa0\x80\""), "!UTF-8" },                    /* surrogate in UTF-8 */
	{ D("\"\xed\xbf\xbf\""), "!UTF-8" },
	{ D("\"\xf4\x90\x80\x80\""), "!UTF-8" },
	{ D("\"\xf5\x80\x80\x80\""), "!UTF-8" },
	{ D("\"\xf8\x88\x80\x80\x80\""), "!UTF-8" },
	{ D("\"a\"b"), "!follows" },
	{ D("\"a\"\"b\""), "!follows" },
	/* arrays */
	{ D("[1]"), "[0]" },
	{ D("[1,2 , 3]"), "[000]" },
	{ D("[[],[[]],{}]"), "[[][[]]{}]" },
	{ D("[null,true,false,\"\",-1]"), "[ntfs0]" },
	{ D("["), "!missing at the end" },
	{ D("[1"), "!',' or ']'" },
	{ D("[1,"), "!missing at the end" },
	{ D("[1,]"), "!value is missing" },
	{ D("[,1]"), "!value is missing" },
	{ D("[,]"), "!value is missing" },
	{ D("[1,,2]"), "!value is missing" },
	{ D("[1 2]"), "!',' or ']'" },
	{ D("[1;2]"), "!',' or ']'" },
	{ D("[1:2]"), "!',' or ']'" },
	{ D("[\"a\":1]"), "!',' or ']'" },
	{ D("[1}"), "!',' or ']'" },
	{ D("[}"), "!value is missing" },
	{ D("[]]"), "!follows" },
	{ D("[],"), "!follows" },
	{ D("[][]"), "!follows" },
	{ D("[01]"), "!',' or ']'" },
	{ D("[1.]"), "!number" },
	{ D("[*]"), "!value is missing" },
	{ D("[[]"), "!',' or ']'" },
	/* objects */
	{ D("{\"a\":1}"), "{k0}" },
	{ D("{ \"a\" : [ ] , \"b\" : { } }"), "{k[]k{}}" },
	{ D("{\"a\":1,\"a\":2,\"a\":3}"), "{k0k0k0}" },         /* duplicates stay */
	{ D("{\"\":null}"), "{kn}" },
	{ D("{\"\\u0000\":\"\\u0000\"}"), "{ks}" },
	{ D("{"), "!key is missing" },
	{ D("{\"a\""), "!':'" },
	{ D("{\"a\":"), "!missing at the end" },
	{ D("{\"a\":1"), "!',' or '}'" },
	{ D("{\"a\":1,"), "!key is missing" },
	{ D("{\"a\":1,}"), "!key is missing" },
	{ D("{,}"), "!key is missing" },
	{ D("{,\"a\":1}"), "!key is missing" },
	{ D("{\"a\":1,,\"b\":2}"), "!key is missing" },
	{ D("{\"a\" 1}"), "!':'" },
	{ D("{\"a\",1}"), "!':'" },
	{ D("{\"a\"}"), "!':'" },
	{ D("{\"a\"::1}"), "!value is missing" },
	{ D("{\"a\":}"), "!value is missing" },
	{ D("{\"a\":1 \"b\":2}"), "!',' or '}'" },
	{ D("{\"a\":1;\"b\":2}"), "!',' or '}'" },
	{ D("{\"a\":1]"), "!',' or '}'" },
	{ D("{]"), "!key is missing" },
	{ D("{}}"), "!follows" },
	{ D("{a:1}"), "!key is missing" },
	{ D("{'a':1}"), "!key is missing" },
	{ D("{1:1}"), "!key is missing" },
	{ D("{null:1}"), "!key is missing" },
	{ D("{[]:1}"), "!key is missing" },
	{ D("{{}:1}"), "!key is missing" },
	{ D("{\"a\n\":1}"), "!control" },
	{ D("{\"\xff\":1}"), "!UTF-8" },
	{ D("{\"a\\\":1}"), "!does not end" },
	{ D("{\"a\":b}"), "!value is missing" },
	{ D("{\"a\":1}{"), "!follows" },
	{ D("{\"a\":{\"b\":[{\"c\":[[1]]}]}}"), "{k{k[{k[[0]]}]}}" },
};

static const char letters[] = { [JSON_OBJECT] = '{', [JSON_OBJECT_END] = '}', [JSON_ARRAY] = '[',
	[JSON_ARRAY_END] = ']', [JSON_KEY] = 'k', [JSON_STRING] = 's', [JSON_NUMBER] = '0',
	[JSON_TRUE] = 't', [JSON_FALSE] = 'f', [JSON_NULL] = 'n' };

/* A copy on the heap of exactly these bytes, so that a read past the end is seen by the sanitizer. */
static struct slice exact_copy(struct slice s)
{
	uint8_t *copy = malloc(s.n > 0 ? s.n : 1);
	assert_non_null(copy);
	memcpy(copy, s.p, s.n);
	return slice_of(copy, s.n);
}

/* The tokens as letters, or '!' and the error. */
static void signature(struct slice doc, char *ret_text, size_t size)
{
	struct json_scan j;
	enum json_token t;
	size_t n = 0;
	json_scan_init(&j, doc);
	while ((t = json_next(&j)) != JSON_END && t != JSON_ERROR) {
		assert_true(n + 1 < size);
		assert_true(j.span.p >= doc.p && j.span.p + j.span.n <= doc.p + doc.n && j.span.n > 0);
		ret_text[n++] = letters[t];
	}
	ret_text[n] = '\0';
	if (t == JSON_ERROR)
		snprintf(ret_text, size, "!%s", j.error);
	assert_int_equal(json_next(&j), t); /* again and again */
	assert_true(j.at <= doc.n);
}

/* Skipping the document and looking at its end must come to the same judgement. */
static bool skip_accepts(struct slice doc)
{
	struct json_scan j;
	json_scan_init(&j, doc);
	return json_skip(&j) != JSON_ERROR && json_next(&j) == JSON_END;
}

static void test_documents(void **state)
{
	assert_true(LENGTH(doc_cases) >= 120);
	for (size_t i = 0; i < LENGTH(doc_cases); i++) {
		const struct doc_case *c = &doc_cases[i];
		struct slice doc = exact_copy(c->doc);
		char got[200];
		signature(doc, got, sizeof(got));
		bool same = c->want[0] == '!' ? got[0] == '!' && strstr(got, c->want + 1) != NULL :
						strcmp(got, c->want) == 0;
		if (!same)
			fail_msg("row %zu, %.*s: %s, not %s", i, (int)doc.n, (const char *)doc.p, got, c->want);
		assert_int_equal(skip_accepts(doc), c->want[0] != '!');
		free((void *)doc.p);
	}
}

/* No proper beginning of an array or object is a document. */
static void test_truncations(void **state)
{
	static const char text[] = "{\"k\\u00e9y\":[1.5e3,\"v\\n\xe2\x82\xac\",true,null,{\"a\":[[],{}]}],\"z\":-0}";
	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		struct slice cut = exact_copy(slice_of(text, n));
		assert_false(skip_accepts(cut));
		free((void *)cut.p);
	}
	assert_true(skip_accepts(slice_of(text, sizeof(text) - 1)));
}

/* `depth` levels, arrays and objects in turn where `mixed`. The caller frees p. */
static struct slice nested(unsigned depth, bool mixed)
{
	struct buf b;
	buf_init(&b, 1 << 20);
	for (unsigned i = 0; i < depth; i++)
		buf_put_str(&b, mixed && i % 3 == 0 ? "{\"k\":" : "[");
	buf_put_str(&b, "7");
	for (unsigned i = depth; i-- > 0;)
		buf_put_str(&b, mixed && i % 3 == 0 ? "}" : "]");
	assert_false(b.failed);
	return buf_slice(&b);
}

static void test_depth(void **state)
{
	for (int mixed = 0; mixed < 2; mixed++) {
		struct slice at = nested(JSON_DEPTH_MAX, mixed), over = nested(JSON_DEPTH_MAX + 1, mixed);
		struct json_scan j;
		assert_true(skip_accepts(at));
		assert_false(skip_accepts(over));
		json_scan_init(&j, over);
		assert_int_equal(json_skip(&j), JSON_ERROR);
		assert_non_null(strstr(j.error, "512"));
		assert_int_equal(j.depth, JSON_DEPTH_MAX);
		free((void *)at.p);
		free((void *)over.p);
	}
	/* wide is not deep */
	struct buf b;
	buf_init(&b, 1 << 20);
	buf_put_str(&b, "[[]");
	for (int i = 0; i < 5000; i++)
		buf_put_str(&b, ",[{}]");
	buf_put_str(&b, "]");
	assert_true(skip_accepts(buf_slice(&b)));
	buf_done(&b);
}

static void test_error_place(void **state)
{
	static const struct { struct slice doc; size_t at; } cases[] = {
		{ D("[1, x]"), 4 }, { D("{\"a\" 1}"), 5 }, { D("[1] 2"), 4 }, { D(""), 0 }, { D("[01]"), 2 },
		{ D("\"a\nb\""), 2 }, { D("\"abcdefgh\xff\""), 9 },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct json_scan j;
		enum json_token t;
		json_scan_init(&j, cases[i].doc);
		while ((t = json_next(&j)) != JSON_ERROR)
			assert_int_not_equal(t, JSON_END);
		assert_int_equal(j.at, cases[i].at);
	}
}

static void test_spans(void **state)
{
	struct json_scan j;
	json_scan_init(&j, slice_str(" { \"a\" : -1.5e2 , \"b\":[1,{\"c\" : \"]\"} ] } "));
	assert_int_equal(json_next(&j), JSON_OBJECT);
	assert_true(slice_is(j.span, "{"));
	assert_int_equal(json_next(&j), JSON_KEY);
	assert_true(slice_is(j.span, "\"a\""));
	assert_int_equal(json_next(&j), JSON_NUMBER);
	assert_true(slice_is(j.span, "-1.5e2"));
	assert_int_equal(json_next(&j), JSON_KEY);
	assert_int_equal(json_skip(&j), JSON_ARRAY);
	assert_true(slice_is(j.span, "[1,{\"c\" : \"]\"} ]"));
	assert_int_equal(j.depth, 1);
	assert_int_equal(json_next(&j), JSON_OBJECT_END);
	assert_int_equal(json_next(&j), JSON_END);
}

static void test_skip_elements(void **state)
{
	static const char *const want[] = { "1", "[2,[3]]", "{\"a\":{}}", "\"x\"", "null" };
	struct json_scan j;
	json_scan_init(&j, slice_str("[1, [2,[3]] ,{\"a\":{}},\"x\" , null]"));
	assert_int_equal(json_next(&j), JSON_ARRAY);
	for (size_t i = 0; i < LENGTH(want); i++) {
		assert_int_not_equal(json_skip(&j), JSON_ERROR);
		assert_true(slice_is(j.span, want[i]));
	}
	assert_int_equal(json_skip(&j), JSON_ARRAY_END);
	assert_int_equal(json_skip(&j), JSON_END);
	json_scan_init(&j, slice_str("[[1,2}]"));
	assert_int_equal(json_next(&j), JSON_ARRAY);
	assert_int_equal(json_skip(&j), JSON_ERROR);
}

/* ------------------------------------------------------------------ strings */

static const struct { struct slice span, text; int rc; } string_cases[] = {
	{ D("\"\""), D(""), 0 },
	{ D("\"abc\""), D("abc"), 0 },
	{ D("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), D("\"\\/\b\f\n\r\t"), 0 },
	{ D("\"a\\u0000b\""), D("a\0b"), 0 },
	{ D("\"\\u0041\\u00e9\\u20AC\""), D("A\xc3\xa9\xe2\x82\xac"), 0 },
	{ D("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\""), D("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"), 0 },
	{ D("\"\\ud83d\\ude00\""), D("\xf0\x9f\x98\x80"), 0 },
	{ D("\"\\uD800\\uDC00\\uDBFF\\uDFFF\""), D("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), 0 },
	{ D("\"\\ud7ff\\ue000\""), D("\xed\x9f\xbf\xee\x80\x80"), 0 },
	{ D("\"caf\xc3\xa9\\n\""), D("caf\xc3\xa9\n"), 0 },
	{ D("\"\\ud800\""), D(""), -EBADMSG },
	{ D("\"\\udc00\""), D(""), -EBADMSG },
	{ D("\"\\ud800a\""), D(""), -EBADMSG },
	{ D("\"\\ud800\\n\""), D(""), -EBADMSG },
	{ D("\"\\ud800\\u0041\""), D(""), -EBADMSG },
	{ D("\"\\ud800\\ud800\""), D(""), -EBADMSG },
	{ D("\"\\udc00\\ud800\""), D(""), -EBADMSG },
	{ D("\"\\ud800\\udbff\""), D(""), -EBADMSG },
	{ D("\"\\ud800\\ue000\""), D(""), -EBADMSG },
	{ D("\"\\ud800\\xdc00\""), D(""), -EBADMSG },
	{ D("\"abc\\udfff\""), D(""), -EBADMSG },
	/* spans that no scanner makes */
	{ D(""), D(""), -EBADMSG },
	{ D("\""), D(""), -EBADMSG },
	{ D("abc"), D(""), -EBADMSG },
	{ D("\"\\\""), D(""), -EBADMSG },
	{ D("\"\\u12\""), D(""), -EBADMSG },
	{ D("\"\\q\""), D(""), -EBADMSG },
};

static void test_strings(void **state)
{
	for (size_t i = 0; i < LENGTH(string_cases); i++) {
		struct slice span = exact_copy(string_cases[i].span), text = string_cases[i].text;
		struct buf out;
		buf_init(&out, 100);
		buf_put_str(&out, ">");
		if (json_string(span, &out) != string_cases[i].rc)
			fail_msg("row %zu", i);
		assert_int_equal(buf_len(&out), 1 + text.n);
		assert_memory_equal(buf_head(&out) + 1, text.p, text.n);
		bool is_text = string_cases[i].rc == 0 && memchr(text.p, 0, text.n) == NULL;
		assert_int_equal(json_string_is(span, (const char *)text.p), is_text);
		buf_done(&out);
		free((void *)span.p);
	}
}

static void test_string_is(void **state)
{
	assert_true(json_string_is(slice_str("\"k\\u0065y\""), "key"));
	assert_false(json_string_is(slice_str("\"key\""), "ke"));
	assert_false(json_string_is(slice_str("\"key\""), "keys"));
	assert_false(json_string_is(slice_str("\"key\""), "kez"));
	assert_false(json_string_is(slice_str("\"key\\u0000\""), "key"));
	assert_false(json_string_is(slice_str("\"\\u20ac\""), "\xe2\x82"));
	assert_true(json_string_is(slice_str("\"\\u20ac\""), "\xe2\x82\xac"));
}

/* A bound below the decoded length fails and adds nothing; that length is enough. */
static void test_string_bound(void **state)
{
	static const char *const spans[] = { "\"abcdef\"", "\"\\u0061bcd\\u0065f\"" };
	for (size_t i = 0; i < LENGTH(spans); i++)
		for (size_t max = 0; max <= 6; max++) {
			struct buf out;
			buf_init(&out, max);
			assert_int_equal(json_string(slice_str(spans[i]), &out), max == 6 ? 0 : -ENOBUFS);
			assert_int_equal(buf_len(&out), max == 6 ? 6 : 0);
			buf_done(&out);
		}
}

static void test_integers(void **state)
{
	static const struct { const char *span; int rc; uint64_t value; } cases[] = {
		{ "0", 0, 0 }, { "1", 0, 1 }, { "18446744073709551615", 0, UINT64_MAX },
		{ "9007199254740993", 0, 9007199254740993 }, { "18446744073709551616", -ERANGE, 7 },
		{ "18446744073709551620", -ERANGE, 7 }, { "99999999999999999999", -ERANGE, 7 },
		{ "-1", -ERANGE, 7 }, { "-0", -ERANGE, 7 }, { "1.0", -ERANGE, 7 }, { "1e3", -ERANGE, 7 },
		{ "", -ERANGE, 7 }, { "1 ", -ERANGE, 7 },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		uint64_t v = 7;
		assert_int_equal(json_u64(slice_str(cases[i].span), &v), cases[i].rc);
		assert_true(v == cases[i].value);
	}
}

static void test_put_string(void **state)
{
	static const struct { struct slice text, want; } cases[] = {
		{ D(""), D("\"\"") },
		{ D("abc"), D("\"abc\"") },
		{ D("a\"b\\c/"), D("\"a\\\"b\\\\c/\"") },
		{ D("\b\f\n\r\t"), D("\"\\b\\f\\n\\r\\t\"") },
		{ D("\0\x01\x1f\x7f"), D("\"\\u0000\\u0001\\u001f\x7f\"") },
		{ D("\xc3\xa9\n\xf0\x9f\x98\x80"), D("\"\xc3\xa9\\n\xf0\x9f\x98\x80\"") },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf out, back;
		buf_init(&out, 100);
		buf_init(&back, 100);
		json_put_string(&out, cases[i].text);
		assert_true(slice_eq(buf_slice(&out), cases[i].want));
		assert_int_equal(json_string(buf_slice(&out), &back), 0);
		assert_true(slice_eq(buf_slice(&back), cases[i].text));
		buf_done(&out);
		buf_done(&back);
	}
}

/* ------------------------------------------------------------------ UTF-8, base64 */

/* Every scalar value is written and read; every two-byte string is judged by the rule. */
static void test_utf8(void **state)
{
	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		uint8_t bytes[4];
		if (c == 0xd800)
			c = 0xe000;
		size_t n = utf8_put(bytes, c);
		if (!utf8_is_valid(slice_of(bytes, n)) || (n > 1 && utf8_sequence(bytes, bytes + n) != n))
			fail_msg("U+%04X", c);
		if (n > 1 && utf8_is_valid(slice_of(bytes, n - 1)))
			fail_msg("U+%04X cut", c);
	}
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++) {
			uint8_t two[] = { (uint8_t)a, (uint8_t)b };
			bool good = (a < 0x80 && b < 0x80) || (a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf);
			assert_int_equal(utf8_is_valid(slice_of(two, 2)), good);
		}
	assert_true(utf8_is_valid(slice_of(NULL, 0)));
	for (size_t at = 0; at < 20; at++) { /* anywhere in and around a word of eight */
		uint8_t text[20];
		memset(text, 'a', sizeof(text));
		assert_true(utf8_is_valid(slice_of(text, sizeof(text))));
		text[at] = 0x80;
		assert_false(utf8_is_valid(slice_of(text, sizeof(text))));
	}
}

static void test_utf8_bad(void **state)
{
	static const struct slice bad[] = {
		D("\x80"), D("\xbf"), D("\xc0\x80"), D("\xc1\xbf"), D("\xc2"), D("\xe0\x80\x80"), D("\xe0\x9f\xbf"),
		D("\xed\xa0\x80"), D("\xed\xbf\xbf"), D("\xe1\x80"), D("\xe1\x80\x7f"), D("\xe1\x80\xc0"),
		D("\xf0\x80\x80\x80"), D("\xf0\x8f\xbf\xbf"), D("\xf4\x90\x80\x80"), D("\xf5\x80\x80\x80"),
		D("\xf1\x80\x80"), D("\xf1\x80\x80\x7f"), D("\xfe"), D("\xff"), D("ok\xc3"),
	};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct slice s = exact_copy(bad[i]);
		assert_false(utf8_is_valid(s));
		free((void *)s.p);
	}
}

static void test_base64(void **state)
{
	/* RFC 4648 section 10, and what uses both last characters */
	static const struct { struct slice bytes; const char *text; } cases[] = {
		{ D(""), "" }, { D("f"), "Zg==" }, { D("fo"), "Zm8=" }, { D("foo"), "Zm9v" },
		{ D("foob"), "Zm9vYg==" }, { D("fooba"), "Zm9vYmE=" }, { D("foobar"), "Zm9vYmFy" },
		{ D("\xfb\xff\xbf"), "+/+/" }, { D("\0"), "AA==" }, { D("\xff\xff"), "//8=" },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf out;
		buf_init(&out, 100);
		base64_put(&out, cases[i].bytes);
		assert_true(slice_is(buf_slice(&out), cases[i].text));
		buf_reset(&out, 100);
		assert_int_equal(base64_decode(slice_str(cases[i].text), &out), 0);
		assert_true(slice_eq(buf_slice(&out), cases[i].bytes));
		buf_done(&out);
	}
}

static void test_base64_strict(void **state)
{
	static const char *const bad[] = {
		"A", "AA", "AAA", "AAAAA", "=", "==", "===", "====", "A===", "AA=A", "A=AA", "=AAA", "AA==AAAA",
		"AAA=AAAA", "AB==", "AAB=", "AA\n=", "AAA\n", " AAA", "AAAA\n", "AA-A", "AA_A", "AA.A", "AA\xc3\xa9",
		"AAAA====", "AAAAA===",
	};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct buf out;
		buf_init(&out, 100);
		if (base64_decode(slice_str(bad[i]), &out) != -EBADMSG)
			fail_msg("%s", bad[i]);
		assert_int_equal(buf_len(&out), 0);
		buf_done(&out);
	}
	struct buf small;
	buf_init(&small, 2);
	assert_int_equal(base64_decode(slice_str("AAAA"), &small), -ENOBUFS);
	buf_done(&small);
	for (unsigned c = 0; c < 256; c++) { /* each byte as the first of a group */
		uint8_t text[] = { (uint8_t)c, 'A', 'A', 'A' };
		struct buf out;
		buf_init(&out, 3);
		bool good = c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					     "0123456789+/", (int)c) != NULL;
		assert_int_equal(base64_decode(slice_of(text, 4), &out), good ? 0 : -EBADMSG);
		buf_done(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents), cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_depth), cmocka_unit_test(test_error_place),
		cmocka_unit_test(test_spans), cmocka_unit_test(test_skip_elements),
		cmocka_unit_test(test_strings), cmocka_unit_test(test_string_is),
		cmocka_unit_test(test_string_bound), cmocka_unit_test(test_integers),
		cmocka_unit_test(test_put_string), cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_utf8_bad), cmocka_unit_test(test_base64),
		cmocka_unit_test(test_base64_strict),
	};
	return cmocka_run_group_tests_name("json_scan", tests, NULL, NULL);
}
