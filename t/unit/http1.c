/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP/1.1 parser by tables: what is understood, and every way two parsers could read the same
 * bytes differently. Each row is fed whole and byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "worker-http/http1.h"

#define HOST "Host: x\r\n"

/* Events as text: "POST /p?q [body] END", "400", joined by ' '. */
static void transcript(const char *bytes, size_t n, size_t step, struct buf *out)
{
	static struct http1_head h;
	struct http1 p;
	bool body = false;
	http1_init(&p);
	for (size_t at = 0; at < n; at += step) {
		buf_put(&p.in, bytes + at, step < n - at ? step : n - at);
		for (enum http1_event e; (e = http1_next(&p, &h)) != HTTP1_MORE;) {
			if (e == HTTP1_ERROR) {
				buf_printf(out, "%s%d", body ? "] " : "", p.status);
				http1_done(&p);
				buf_put_u8(out, '\0');
				return;
			}
			if (e == HTTP1_HEAD) {
				buf_printf(out, "%.*s %.*s", (int)h.method.n, (const char *)h.method.p, (int)h.path.n,
					   (const char *)h.path.p);
				if (h.query.n > 0)
					buf_printf(out, "?%.*s", (int)h.query.n, (const char *)h.query.p);
				buf_printf(out, "%s%s%s [", h.keep_alive ? "" : " close", h.expect_continue ? " 100" : "",
					   h.expect_unknown ? " 417" : "");
				body = true;
			}
			if (e == HTTP1_BODY)
				buf_put_slice(out, p.piece);
			if (e == HTTP1_END)
				buf_put_str(out, "] END ");
			body = body && e != HTTP1_END;
		}
	}
	buf_put_u8(out, '\0');
	http1_done(&p);
}

static void expect(const char *bytes, size_t n, const char *want)
{
	static const size_t steps[] = { 65536, 1, 3 };
	for (size_t i = 0; i < 3; i++) {
		struct buf out;
		buf_init(&out, 1 << 20);
		transcript(bytes, n, steps[i], &out);
		assert_string_equal((const char *)buf_head(&out), want);
		buf_done(&out);
	}
}

struct row {
	const char *bytes, *want;
};

static void run(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect(rows[i].bytes, strlen(rows[i].bytes), rows[i].want);
}

#define RUN(rows) run(rows, sizeof(rows) / sizeof((rows)[0]))

static void test_good(void **state)
{
	static const struct row rows[] = {
		{ "GET /a HTTP/1.1\r\n" HOST "\r\n", "GET /a [] END " },
		{ "GET /a?b=c&d HTTP/1.1\r\n" HOST "\r\n", "GET /a?b=c&d [] END " },
		{ "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "GET / [] END " },
		{ "GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / [] END " },
		{ "GET / HTTP/1.0\r\n\r\n", "GET / close [] END " },
		{ "GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", "GET / [] END " },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: foo,close\r\n\r\n", "GET / close [] END " },
		{ "GET http://h:80/p?q HTTP/1.1\r\n" HOST "\r\n", "GET /p?q [] END " },
		{ "GET http://h HTTP/1.1\r\n" HOST "\r\n", "GET  [] END " },
		{ "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * [] END " },
		{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", "POST / [hello] END " },
		{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\nGET /b HTTP/1.1\r\n" HOST "\r\n",
		  "POST / [] END GET /b [] END " },
		{ "POST / HTTP/1.1\r\n" HOST "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n01\r\n!\r\n0\r\n\r\n",
		  "POST / [hello!] END " },
		{ "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\na;x=\"y\"\r\n0123456789\r\n0;z\r\nT: v\r\n\r\n"
		  "GET /b HTTP/1.1\r\n" HOST "\r\n", "POST / [0123456789] END GET /b [] END " },
		{ "POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", "POST / 100 [x] END " },
		{ "POST / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", "POST / 417 [] END " },
		{ "POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "POST / close [] END " },
		{ "GET / HTTP/1.1\r\n" HOST "X:\t a\tb \t\r\nY: \xff\r\n\r\n", "GET / [] END " },
	};
	RUN(rows);
}

static void test_malformed(void **state)
{
	static const struct row rows[] = {
		{ "GET / HTTP/1.1\n" HOST "\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: x\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\rX", "400" },
		{ "GET / HTTP/1.1\r\r\n" HOST "\r\n", "400" },
		{ "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "\nGET / HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n Host: x\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost\t: x\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n" HOST "X\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n" HOST "X: a\x01\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n" HOST "X\x80: a\r\n\r\n", "400" },
		{ "GET  / HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET /  HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET / HTTP/1.1 \r\n" HOST "\r\n", "400" },
		{ "GET /\tHTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET /a#b HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET /\x80 HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET a HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET * HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "G(T / HTTP/1.1\r\n" HOST "\r\n", "400" },
		{ "GET /\r\n\r\n", "400" },
		{ "GET / http/1.1\r\n" HOST "\r\n", "400" },
		{ "GET / HTTP/1.10\r\n" HOST "\r\n", "400" },
		{ "GET / HTTP/1.2\r\n" HOST "\r\n", "505" },
		{ "PRI * HTTP/2.0\r\n\r\n", "505" },
		{ "GET / HTTP/0.9\r\n\r\n", "505" },
		{ "\x16\x03\x01\x02", "400" },
	};
	RUN(rows);
	expect("GET / HTTP/1.1\r\nHost: \0x\r\n\r\n", 29, "400");
}

#define POST "POST / HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

/* What front ends and back ends are known to disagree about. */
static void test_smuggling(void **state)
{
	static const struct row rows[] = {
		{ POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "400" },
		{ POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400" },
		{ POST "Content-Length: 5, 5\r\n\r\nhello", "400" },
		{ POST "Content-Length: +5\r\n\r\nhello", "400" },
		{ POST "Content-Length: -5\r\n\r\nhello", "400" },
		{ POST "Content-Length: 0x5\r\n\r\nhello", "400" },
		{ POST "Content-Length: 5 6\r\n\r\nhello", "400" },
		{ POST "Content-Length: \r\n\r\nhello", "400" },
		{ POST "Content-Length: 99999999999999999999\r\n\r\n", "400" },
		{ POST "Content-Length: 18446744073709551616\r\n\r\n", "400" },
		{ POST "Content-Length : 5\r\n\r\nhello", "400" },
		{ POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: \x0b" "chunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: identity\r\n\r\n", "400" },
		{ POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
		{ POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400" },
		{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400" },
		{ "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400" },
		{ CHUNKED "5\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "5\r\nhelloX\r\n0\r\n\r\n", "POST / [hello] 400" },
		{ CHUNKED "5\r\nhello\n0\r\n\r\n", "POST / [hello] 400" },
		{ CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "5 \r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED " 5\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "-5\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "ffffffffffffffff\r\n", "POST / [] 400" },
		{ CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "0\r\nT : v\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "0\r\n folded\r\n\r\n", "POST / [] 400" },
		{ CHUNKED "0\r\n\n", "POST / [] 400" },
	};
	RUN(rows);
}

/* A request whose head is `n` bytes long with one long header, or target. */
static char *padded(const char *before, size_t n, const char *after, size_t *ret_size)
{
	size_t a = strlen(before), b = strlen(after);
	char *s = malloc(a + n + b);
	memcpy(s, before, a);
	memset(s + a, 'a', n);
	memcpy(s + a + n, after, b);
	*ret_size = a + n + b;
	return s;
}

static int status_of(const char *bytes, size_t n)
{
	static struct http1_head h;
	struct http1 p;
	enum http1_event e = HTTP1_MORE;
	http1_init(&p);
	for (size_t at = 0; at < n && e == HTTP1_MORE; at += HTTP1_READ_MAX) {
		buf_put(&p.in, bytes + at, n - at < HTTP1_READ_MAX ? n - at : HTTP1_READ_MAX);
		e = http1_next(&p, &h);
	}
	int status = e == HTTP1_ERROR ? p.status : e == HTTP1_HEAD ? 200 : 0;
	http1_done(&p);
	return status;
}

static void check_padded(const char *before, size_t n, const char *after, int want)
{
	size_t size;
	char *s = padded(before, n, after, &size);
	assert_int_equal(status_of(s, size), want);
	free(s);
}

static void test_limits(void **state)
{
	check_padded("GET /", 16383, " HTTP/1.1\r\n" HOST "\r\n", 200);
	check_padded("GET /", 16384, " HTTP/1.1\r\n" HOST "\r\n", 414);
	check_padded("GET /", 20000, "", 414);
	size_t around = strlen("GET / HTTP/1.1\r\n" HOST "X: \r\n\r\n");
	check_padded("GET / HTTP/1.1\r\n" HOST "X: ", 65536 - around, "\r\n\r\n", 200);
	check_padded("GET / HTTP/1.1\r\n" HOST "X: ", 65536 - around + 1, "\r\n\r\n", 431);
	check_padded("GET / HTTP/1.1\r\n" HOST "X: ", 70000, "", 431);
	check_padded("", 33, " / HTTP/1.1\r\n" HOST "\r\n", 400);
}

static void test_header_count(void **state)
{
	for (int n = 98; n <= 101; n++) {
		struct buf b;
		buf_init(&b, 1 << 16);
		buf_put_str(&b, "GET / HTTP/1.1\r\n" HOST);
		for (int i = 0; i < n; i++)
			buf_put_str(&b, "A: b\r\n");
		buf_put_str(&b, "\r\n");
		assert_int_equal(status_of((const char *)buf_head(&b), buf_len(&b)), n + 1 <= 100 ? 200 : 431);
		buf_done(&b);
	}
}

static void test_chunk_extension_bounds(void **state)
{
	size_t size;
	char *s = padded(CHUNKED "1;", 252, "\r\nx\r\n0\r\n\r\n", &size);
	expect(s, size, "POST / [x] END ");
	free(s);
	s = padded(CHUNKED "1;", 253, "\r\nx\r\n0\r\n\r\n", &size);
	expect(s, size, "POST / [] 400");
	free(s);
	struct buf many;
	buf_init(&many, 1 << 20);
	buf_put_str(&many, CHUNKED);
	for (int i = 0; i < 83; i++) /* 200 bytes each: over 16 KiB in all */
		buf_printf(&many, "1;%0199d\r\nx\r\n", i);
	struct buf out;
	buf_init(&out, 1 << 20);
	transcript((const char *)buf_head(&many), buf_len(&many), 65536, &out);
	assert_string_equal((const char *)buf_head(&out) + buf_len(&out) - 4, "400");
	buf_done(&out);
	buf_done(&many);
}

static void test_idle(void **state)
{
	static struct http1_head h;
	struct http1 p;
	http1_init(&p);
	assert_true(http1_is_idle(&p));
	assert_false(http1_is_in_head(&p));
	buf_put_str(&p.in, "GET / HTTP/1.1\r\n" HOST);
	assert_int_equal(http1_next(&p, &h), HTTP1_MORE);
	assert_true(http1_is_in_head(&p));
	buf_put_str(&p.in, "Content-Length: 1\r\n\r\n");
	assert_int_equal(http1_next(&p, &h), HTTP1_HEAD);
	assert_int_equal(http1_next(&p, &h), HTTP1_MORE);
	assert_false(http1_is_idle(&p));
	assert_false(http1_is_in_head(&p));
	buf_put_str(&p.in, "x");
	assert_int_equal(http1_next(&p, &h), HTTP1_BODY);
	assert_int_equal(http1_next(&p, &h), HTTP1_END);
	assert_true(http1_is_idle(&p));
	http1_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_malformed), cmocka_unit_test(test_smuggling),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_header_count),
		cmocka_unit_test(test_chunk_extension_bounds), cmocka_unit_test(test_idle),
	};
	return cmocka_run_group_tests_name("http1", tests, NULL, NULL);
}
