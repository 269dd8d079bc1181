/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of options: what they stand for and which are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "supervisor/address.h"

static void test_forms(void **state)
{
	static const struct {
		const char *text, *each[2];
		unsigned n;
		bool loopback, wildcard;
	} rows[] = {
		{ "127.0.0.1:4437", { "127.0.0.1:4437" }, 1, true, false },
		{ "127.8.9.1:0", { "127.8.9.1:0" }, 1, true, false },
		{ "10.0.0.1:65535", { "10.0.0.1:65535" }, 1, false, false },
		{ "[::1]:80", { "[::1]:80" }, 1, true, false },
		{ "[2001:db8::7]:80", { "[2001:db8::7]:80" }, 1, false, false },
		{ ":80", { "[::]:80", "0.0.0.0:80" }, 2, false, true },
		{ "[::]:80", { "[::]:80" }, 1, false, true },
		{ "0.0.0.0:80", { "0.0.0.0:80" }, 1, false, true },
		{ "localhost:80", { "127.0.0.1:80", "[::1]:80" }, 2, true, false },
		{ "[::ffff:127.0.0.1]:1", { "[::ffff:127.0.0.1]:1" }, 1, true, false },
		{ "[::ffff:10.0.0.1]:1", { "[::ffff:10.0.0.1]:1" }, 1, false, false },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct address each[ADDRESS_EACH_MAX];
		char fault[256] = "", text[ADDRESS_TEXT_MAX];
		unsigned n;
		assert_int_equal(address_parse(rows[i].text, each, &n, fault, sizeof(fault)), 0);
		assert_int_equal(n, rows[i].n);
		for (unsigned k = 0; k < n; k++) {
			address_print(&each[k], text);
			assert_string_equal(text, rows[i].each[k]);
			assert_int_equal(address_is_loopback(&each[k]), rows[i].loopback);
			assert_int_equal(address_is_wildcard(&each[k]), rows[i].wildcard);
		}
	}
}

static void test_refused(void **state)
{
	static const char *const texts[] = {
		"", "4437", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1: 1", "127.0.0.1:65536", "::1:80",
		"[::1]", "[::1:80", "[]:80", "127.0.0.1:1x",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct address each[ADDRESS_EACH_MAX];
		char fault[256] = "";
		unsigned n;
		assert_true(address_parse(texts[i], each, &n, fault, sizeof(fault)) < 0);
		assert_non_null(strstr(fault, "is no address; give host:port, [v6]:port or :port"));
	}
}

static void test_unknown_name(void **state)
{
	struct address each[ADDRESS_EACH_MAX];
	char fault[256] = "";
	unsigned n;
	assert_true(address_parse("no-such-host.invalid:80", each, &n, fault, sizeof(fault)) < 0);
	assert_non_null(strstr(fault, "cannot resolve 'no-such-host.invalid': "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms), cmocka_unit_test(test_refused), cmocka_unit_test(test_unknown_name),
	};
	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
