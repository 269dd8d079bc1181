/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of topics: what is refused, what is reserved, which alias a path derives; Kafka's partitioner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/topic_name.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

struct path_case {
	const char *path;
	const char *fault;      /* a word of it, NULL: good */
	const char *alias;      /* that it derives, NULL: none */
	bool reserved;
};

static const struct path_case path_cases[] = {
	{ "/a", NULL, "a", false },
	{ "/orders/eu", NULL, "orders.eu", false },
	{ "/orders.eu", NULL, "orders.eu", false },
	{ "/a_b-C.9/z", NULL, "a_b-C.9.z", false },
	{ "/a//b", NULL, "a..b", false },
	{ "/a/", NULL, "a.", false },
	{ "//", NULL, NULL, false },                   /* alias "." */
	{ "///", NULL, NULL, false },                  /* alias ".." */
	{ "//a", NULL, ".a", false },
	{ "/...", NULL, "...", false },
	{ "/.a", NULL, ".a", false },
	{ "/a..", NULL, "a..", false },
	{ "/a%2fb", NULL, NULL, false },
	{ "/a%2Fb", NULL, NULL, false },
	{ "/a:b", NULL, NULL, false },
	{ "/a~b", NULL, NULL, false },
	{ "/a\\b", NULL, NULL, false },
	{ "/a\"b", NULL, NULL, false },
	{ "/*", NULL, NULL, false },
	{ "", "begins with", NULL, false },
	{ "a", "begins with", NULL, false },
	{ "a/b", "begins with", NULL, false },
	{ " /a", "begins with", NULL, false },
	{ "/", "root", NULL, false },
	{ "/.", "segment", NULL, false },
	{ "/..", "segment", NULL, false },
	{ "/./", "segment", NULL, false },
	{ "/../", "segment", NULL, false },
	{ "/a/.", "segment", NULL, false },
	{ "/a/..", "segment", NULL, false },
	{ "/a/./b", "segment", NULL, false },
	{ "/a/../b", "segment", NULL, false },
	{ "//..", "segment", NULL, false },
	{ "/a b", "printable", NULL, false },
	{ "/a?b", "printable", NULL, false },
	{ "/a#b", "printable", NULL, false },
	{ "/a\tb", "printable", NULL, false },
	{ "/a\nb", "printable", NULL, false },
	{ "/a\x01", "printable", NULL, false },
	{ "/a\x7f", "printable", NULL, false },
	{ "/a\x80", "printable", NULL, false },
	{ "/caf\xc3\xa9", "printable", NULL, false },
	{ "/a\xff", "printable", NULL, false },
	{ "/_sys", NULL, NULL, true },
	{ "/_sys/", NULL, NULL, true },
	{ "/_sys/groups/00", NULL, NULL, true },
	{ "/_schemas", NULL, NULL, true },
	{ "/_schemas/a/b", NULL, NULL, true },
	{ "/_streams/x", NULL, NULL, true },
	{ "/_groups/x", NULL, NULL, true },
	{ "/_kafka/_schemas", NULL, NULL, true },
	{ "/__ds", NULL, NULL, true },
	{ "/__ds/x", NULL, NULL, true },
	{ "/_system", NULL, "_system", false },
	{ "/__consumer_offsets", NULL, NULL, false },
	{ "/__transaction_state", NULL, NULL, false },
	{ "/_sy", NULL, "_sy", false },
	{ "/__dsx", NULL, "__dsx", false },
	{ "/_Sys", NULL, "_Sys", false },
	{ "/a/_sys", NULL, "a._sys", false },
	{ "//_sys", NULL, "._sys", false },
};

static void check_fault(const struct path_case *c)
{
	const char *fault = topic_path_fault(slice_str(c->path));
	if ((fault == NULL) != (c->fault == NULL))
		fail_msg("%s: %s", c->path, fault != NULL ? fault : "accepted");
	if (fault != NULL && strstr(fault, c->fault) == NULL)
		fail_msg("%s: '%s' does not say '%s'", c->path, fault, c->fault);
}

static void test_paths(void **state)
{
	for (size_t i = 0; i < LENGTH(path_cases); i++) {
		const struct path_case *c = &path_cases[i];
		char alias[TOPIC_ALIAS_MAX + 1] = "untouched";
		check_fault(c);
		if (topic_path_is_reserved(slice_str(c->path)) != c->reserved)
			fail_msg("%s: reserved is wrong", c->path);
		if (c->fault != NULL)
			continue;
		size_t n = topic_alias_derive(slice_str(c->path), alias);
		if (n != (c->alias == NULL ? 0 : strlen(c->alias)))
			fail_msg("%s: derives %zu bytes", c->path, n);
		assert_string_equal(alias, c->alias == NULL ? "untouched" : c->alias);
	}
	assert_non_null(topic_path_fault(slice_of("/a\0b", 4)));
	assert_false(topic_path_is_reserved(slice_str("_sys")));
}

/* Every byte alone in a path and in an alias. */
static void test_each_byte(void **state)
{
	for (unsigned c = 0; c < 256; c++) {
		uint8_t path[] = { '/', 'a', (uint8_t)c };
		bool good = c > 32 && c < 127 && c != '?' && c != '#';
		assert_int_equal(topic_path_fault(slice_of(path, 3)) == NULL, good);
		bool legal = c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					      "0123456789._-", (int)c) != NULL;
		assert_int_equal(topic_alias_is_legal(slice_of(path + 1, 2)), legal);
	}
}

static void test_lengths(void **state)
{
	char path[TOPIC_PATH_MAX + 1], alias[TOPIC_ALIAS_MAX + 1];
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	assert_null(topic_path_fault(slice_of(path, TOPIC_PATH_MAX)));
	assert_non_null(topic_path_fault(slice_of(path, TOPIC_PATH_MAX + 1)));
	assert_true(topic_alias_is_legal(slice_of(path + 1, TOPIC_ALIAS_MAX)));
	assert_false(topic_alias_is_legal(slice_of(path + 1, TOPIC_ALIAS_MAX + 1)));
	assert_int_equal(topic_alias_derive(slice_of(path, TOPIC_ALIAS_MAX + 1), alias), TOPIC_ALIAS_MAX);
	assert_int_equal(strlen(alias), TOPIC_ALIAS_MAX);
	assert_int_equal(topic_alias_derive(slice_of(path, TOPIC_ALIAS_MAX + 2), alias), 0);
}

static void test_aliases(void **state)
{
	static const char *const good[] = { "a", "...", ".a", "a.", "-", "_", "__consumer_offset", "__consumer_offsets_" };
	static const char *const bad[] = { "", ".", "..", "a/b", "/a", "a b", "\xc3\xa9", "__consumer_offsets", "__transaction_state" };
	for (size_t i = 0; i < LENGTH(good); i++)
		assert_true(topic_alias_is_legal(slice_str(good[i])));
	for (size_t i = 0; i < LENGTH(bad); i++)
		assert_false(topic_alias_is_legal(slice_str(bad[i])));
}

/* The values that Apache Kafka's own test of its hash has published. */
static void test_murmur2_vectors(void **state)
{
	static const struct { const char *key; int32_t hash; } cases[] = {
		{ "21", -973932308 },
		{ "foobar", -790332482 },
		{ "a-little-bit-long-string", -985981536 },
		{ "a-little-bit-longer-string", -1486304829 },
		{ "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971 },
		{ "abc", 479470107 },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		assert_int_equal((int32_t)murmur2(slice_str(cases[i].key)), cases[i].hash);
		assert_int_equal(topic_partition_of(slice_str(cases[i].key), 1000),
				 (cases[i].hash & 0x7fffffff) % 1000);
	}
	assert_int_equal(topic_partition_of(slice_str("foobar"), 1), 0);
	assert_int_equal(murmur2(slice_of(NULL, 0)), murmur2(slice_str("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths), cmocka_unit_test(test_each_byte),
		cmocka_unit_test(test_lengths), cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_murmur2_vectors),
	};
	return cmocka_run_group_tests_name("topic_name", tests, NULL, NULL);
}
