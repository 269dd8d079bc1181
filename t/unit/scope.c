/* SPDX-License-Identifier: Apache-2.0
 *
 * Scopes: what is refused as JSON, every operation allowed by its word and by its group and by nothing else, matchers, ends,
 * narrowing; and tokens to and from text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base64.h"
#include "common/must.h"
#include "worker-http/scope.h"
#include "worker-http/token.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define GOOD "\"audiences\":[\"pico\"],\"ops\":[\"read\"]"

static struct scope scope(const char *json)
{
	struct scope s;
	char fault[256];
	if (scope_parse(slice_str(json), &s, fault, sizeof(fault)) != 0)
		fail_msg("%s: %s", json, fault);
	return s;
}

static bool allows(const char *json, enum scope_op op, const char *resource)
{
	struct scope s = scope(json);
	bool allowed = scope_allows(&s, SCOPE_PICO, op, resource == NULL ? slice_of(NULL, 0) : slice_str(resource), 0);
	scope_done(&s);
	return allowed;
}

/* ------------------------------------------------------------------ JSON */

static const struct { const char *json, *word; } bad[] = {
	{ "", "JSON object" }, { "[]", "JSON object" }, { "{", "JSON object" }, { "{}x", "JSON object" },
	{ "{" GOOD "} {}", "JSON object" },
	{ "{}", "audience" },
	{ "{\"audiences\":[\"pico\"]}", "operation" },
	{ "{\"audiences\":[],\"ops\":[\"read\"]}", "audience" },
	{ "{\"audiences\":[\"pico\"],\"ops\":[]}", "operation" },
	{ "{\"audiences\":[\"pico\"],\"groups\":{\"stream\":{\"read\":false}}}", "operation" },
	{ "{" GOOD ",\"more\":1}", "no \"more\"" },
	{ "{" GOOD ",\"ops\":[\"read\"]}", "twice" },
	{ "{\"audiences\":[\"pico\"],\"ops\":[\"READ\"]}", "no operation" },
	{ "{\"audiences\":[\"pico\"],\"ops\":[1]}", "strings" },
	{ "{\"audiences\":[\"pico\"],\"ops\":\"read\"}", "array" },
	{ "{\"audiences\":[\"kafka\"],\"ops\":[\"read\"]}", "audiences are" },
	{ "{\"audiences\":[null],\"ops\":[\"read\"]}", "strings" },
	{ "{" GOOD ",\"streams\":{}}", "array" },
	{ "{" GOOD ",\"streams\":[\"/a\"]}", "entry of streams" },
	{ "{" GOOD ",\"streams\":[{}]}", "entry of streams" },
	{ "{" GOOD ",\"streams\":[{\"exact\":1}]}", "strings" },
	{ "{" GOOD ",\"streams\":[{\"exact\":\"\"}]}", "empty" },
	{ "{" GOOD ",\"streams\":[{\"exact\":\"/a\",\"prefix\":\"/\"}]}", "not both" },
	{ "{" GOOD ",\"streams\":[{\"glob\":\"/a\"}]}", "entry of streams" },
	{ "{" GOOD ",\"streams\":[{\"exact\":\"a\"}]}", "begins with /" },
	{ "{" GOOD ",\"tokens\":[{\"exact\":\"\"}]}", "empty" },
	{ "{" GOOD ",\"groups\":[]}", "object" },
	{ "{" GOOD ",\"groups\":{\"schema\":{}}}", "groups are" },
	{ "{" GOOD ",\"groups\":{\"stream\":true}}", "a group is" },
	{ "{" GOOD ",\"groups\":{\"stream\":{\"exec\":true}}}", "read and write" },
	{ "{" GOOD ",\"groups\":{\"stream\":{\"read\":1}}}", "true or false" },
	{ "{" GOOD ",\"autoPrefixStreams\":1}", "true or false" },
	{ "{" GOOD ",\"autoPrefixStreams\":true}", "one prefix" },
	{ "{" GOOD ",\"autoPrefixStreams\":true,\"streams\":[{\"exact\":\"/a\"}]}", "one prefix" },
	{ "{" GOOD ",\"autoPrefixStreams\":true,\"streams\":[{\"prefix\":\"\"}]}", "one prefix" },
	{ "{" GOOD ",\"autoPrefixStreams\":true,\"streams\":[{\"prefix\":\"/a\"},{\"prefix\":\"/b\"}]}", "one prefix" },
	{ "{" GOOD ",\"expiresAtMs\":\"1\"}", "milliseconds" },
	{ "{" GOOD ",\"expiresAtMs\":-1}", "milliseconds" },
	{ "{" GOOD ",\"expiresAtMs\":1.5}", "milliseconds" },
	{ "{" GOOD ",\"streams\":[{\"exact\":\"/\\ud800\"}]}", "strings" },
};

static void test_bad_json(void **state)
{
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct scope s;
		char fault[256];
		if (scope_parse(slice_str(bad[i].json), &s, fault, sizeof(fault)) != -EBADMSG ||
		    strstr(fault, bad[i].word) == NULL)
			fail_msg("%s: '%s' has no '%s'", bad[i].json, fault, bad[i].word);
	}
}

static void test_bounds(void **state)
{
	struct buf b;
	char fault[256];
	struct scope s;
	for (unsigned n = SCOPE_MATCHERS_MAX; n <= SCOPE_MATCHERS_MAX + 1; n++) {
		buf_init(&b, 1 << 20);
		buf_put_str(&b, "{" GOOD ",\"streams\":[");
		for (unsigned i = 0; i < n; i++)
			buf_printf(&b, "%s{\"exact\":\"/%u\"}", i > 0 ? "," : "", i);
		buf_put_str(&b, "]}");
		int err = scope_parse(buf_slice(&b), &s, fault, sizeof(fault));
		assert_int_equal(err, n == SCOPE_MATCHERS_MAX ? 0 : -EBADMSG);
		if (err == 0) {
			assert_true(scope_allows(&s, SCOPE_PICO, SCOPE_READ, slice_str("/999"), 0));
			scope_done(&s);
		}
		buf_done(&b);
	}
	buf_init(&b, 1 << 20);
	buf_put_str(&b, "{" GOOD "}");
	while (buf_len(&b) < SCOPE_JSON_MAX)
		buf_put_u8(&b, ' ');
	assert_int_equal(scope_parse(buf_slice(&b), &s, fault, sizeof(fault)), 0);
	scope_done(&s);
	buf_put_u8(&b, ' ');
	assert_int_equal(scope_parse(buf_slice(&b), &s, fault, sizeof(fault)), -EBADMSG);
	buf_done(&b);
}

/* ------------------------------------------------------------------ the decision */

/* Each operation, with the group that has it and a resource that it may be done to. */
static const struct { enum scope_op op; const char *group, *half, *resource; } rows[] = {
	{ SCOPE_READ, "stream", "read", "/a" }, { SCOPE_HEAD, "stream", "read", "/a" }, { SCOPE_LIST, "stream", "read", "/a" },
	{ SCOPE_CREATE, "stream", "write", "/a" }, { SCOPE_APPEND, "stream", "write", "/a" },
	{ SCOPE_TRIM, "stream", "write", "/a" }, { SCOPE_CLOSE, "stream", "write", "/a" },
	{ SCOPE_DELETE, "stream", "write", "/a" }, { SCOPE_LIST_TOKENS, "tokens", "read", "t" },
	{ SCOPE_ISSUE_TOKEN, "tokens", "write", "t" }, { SCOPE_REVOKE_TOKEN, "tokens", "write", "t" },
	{ SCOPE_CLUSTER_READ, "admin", "read", NULL }, { SCOPE_NODE_READ, "admin", "read", NULL },
	{ SCOPE_STREAM_INSPECT, "admin", "read", "/a" }, { SCOPE_TRANSFER_STREAM, "admin", "write", "/a" },
	{ SCOPE_UPDATE_NODE_SLOTS, "admin", "write", NULL },
};

/* Nothing but what is named is allowed: every operation against every word and every group. */
static void test_every_operation(void **state)
{
	static const char head[] = "{\"audiences\":[\"pico\"],\"streams\":[{\"prefix\":\"/a\"}],\"tokens\":[{\"exact\":\"t\"}],";
	char json[512];
	assert_int_equal(LENGTH(rows), SCOPE_OPS);
	for (size_t i = 0; i < LENGTH(rows); i++) {
		for (size_t k = 0; k < LENGTH(rows); k++) {
			snprintf(json, sizeof(json), "%s\"ops\":[\"%s\"]}", head, scope_op_word(rows[k].op));
			assert_int_equal(allows(json, rows[i].op, rows[i].resource), i == k);
			snprintf(json, sizeof(json), "%s\"groups\":{\"%s\":{\"%s\":true}}}", head, rows[k].group, rows[k].half);
			bool same = strcmp(rows[i].group, rows[k].group) == 0 && strcmp(rows[i].half, rows[k].half) == 0;
			assert_int_equal(allows(json, rows[i].op, rows[i].resource), same);
		}
		/* Without a matcher for it, and with a resource that none matches. */
		if (rows[i].resource == NULL)
			continue;
		snprintf(json, sizeof(json), "{\"audiences\":[\"pico\"],\"ops\":[\"%s\"]}", scope_op_word(rows[i].op));
		assert_false(allows(json, rows[i].op, rows[i].resource));
		snprintf(json, sizeof(json), "%s\"ops\":[\"%s\"]}", head, scope_op_word(rows[i].op));
		assert_false(allows(json, rows[i].op, "/b"));
		assert_false(allows(json, rows[i].op, NULL));
	}
}

static void test_matchers(void **state)
{
	static const char json[] = "{\"audiences\":[\"pico\"],\"ops\":[\"read\",\"list\"],\"streams\":"
				   "[{\"exact\":\"/one\"},{\"prefix\":\"/t/\"},{\"exact\":\"/\\u0061\\u00e4\"}]}";
	assert_true(allows(json, SCOPE_READ, "/one"));
	assert_false(allows(json, SCOPE_READ, "/one/"));
	assert_false(allows(json, SCOPE_READ, "/on"));
	assert_true(allows(json, SCOPE_READ, "/t/"));
	assert_true(allows(json, SCOPE_READ, "/t/x/y"));
	assert_false(allows(json, SCOPE_READ, "/t"));
	assert_false(allows(json, SCOPE_READ, ""));
	assert_true(allows(json, SCOPE_READ, "/a\xc3\xa4"));
	/* A list shows all that begins with its prefix. */
	assert_true(allows(json, SCOPE_LIST, "/t/"));
	assert_true(allows(json, SCOPE_LIST, "/t/x"));
	assert_false(allows(json, SCOPE_LIST, "/one"));
	assert_false(allows(json, SCOPE_LIST, "/t"));
	assert_false(allows(json, SCOPE_LIST, ""));
	assert_true(allows("{\"audiences\":[\"pico\"],\"ops\":[\"list\"],\"streams\":[{\"prefix\":\"\"}]}", SCOPE_LIST, ""));
}

static void test_audience_and_end(void **state)
{
	struct scope s = scope("{\"audiences\":[\"durable_streams\",\"admin\"],\"ops\":[\"read\"],\"streams\":[{\"prefix\":\"\"}],"
			       "\"expiresAtMs\":1000}");
	assert_false(scope_allows(&s, SCOPE_PICO, SCOPE_READ, slice_str("/a"), 0));
	assert_true(scope_allows(&s, SCOPE_DURABLE_STREAMS, SCOPE_READ, slice_str("/a"), 999));
	assert_true(scope_allows(&s, SCOPE_ADMIN, SCOPE_READ, slice_str("/a"), 999));
	assert_false(scope_allows(&s, SCOPE_ADMIN, SCOPE_READ, slice_str("/a"), 1000));
	assert_true(scope_is_over(&s, 1000) && !scope_is_over(&s, 999));
	scope_done(&s);
}

/* ------------------------------------------------------------------ narrowing */

#define PARENT "{\"audiences\":[\"pico\",\"admin\"],\"ops\":[\"read\",\"append\"],\"groups\":{\"tokens\":{\"read\":true}}," \
	"\"streams\":[{\"prefix\":\"/t/\"},{\"exact\":\"/one\"}],\"tokens\":[{\"prefix\":\"t-\"}],\"expiresAtMs\":1000}"
#define CHILD(audiences, ops, groups, streams, tokens, end) "{\"audiences\":[" audiences "],\"ops\":[" ops "],\"groups\":{" groups \
	"},\"streams\":[" streams "],\"tokens\":[" tokens "],\"expiresAtMs\":" end "}"

static const struct { const char *child, *word; } children[] = {
	{ PARENT, NULL },
	{ CHILD("\"pico\"", "\"read\"", "", "{\"exact\":\"/t/x\"}", "", "1"), NULL },
	{ CHILD("\"pico\"", "\"read\"", "", "{\"prefix\":\"/t/x\"}", "{\"exact\":\"t-1\"}", "1000"), NULL },
	{ CHILD("\"pico\"", "\"list_tokens\"", "", "", "", "1000"), NULL },       /* the group has it */
	{ CHILD("\"durable_streams\"", "\"read\"", "", "", "", "1"), "audience" },
	{ CHILD("\"pico\"", "\"delete\"", "", "", "", "1"), "may not delete" },
	{ CHILD("\"pico\"", "\"read\"", "\"stream\":{\"read\":true}", "", "", "1"), "group" },
	{ CHILD("\"pico\"", "\"read\"", "", "{\"prefix\":\"/t\"}", "", "1"), "streams of /t" },
	{ CHILD("\"pico\"", "\"read\"", "", "{\"prefix\":\"/one\"}", "", "1"), "streams of /one" },
	{ CHILD("\"pico\"", "\"read\"", "", "{\"prefix\":\"\"}", "", "1"), "streams of " },
	{ CHILD("\"pico\"", "\"read\"", "", "", "{\"exact\":\"t\"}", "1"), "tokens of t" },
	{ CHILD("\"pico\"", "\"read\"", "", "", "", "1001"), "later end" },
	{ CHILD("\"pico\"", "\"read\"", "", "", "", "null"), "later end" },
};

static void test_narrowing(void **state)
{
	struct scope parent = scope(PARENT);
	for (size_t i = 0; i < LENGTH(children); i++) {
		struct scope child = scope(children[i].child);
		char fault[256] = "";
		bool covered = scope_covers(&parent, &child, fault, sizeof(fault));
		if (covered != (children[i].word == NULL) || (!covered && strstr(fault, children[i].word) == NULL))
			fail_msg("%s: %d '%s'", children[i].child, covered, fault);
		scope_done(&child);
	}
	scope_done(&parent);
}

/* ------------------------------------------------------------------ tokens */

static void test_token_text(void **state)
{
	struct token t = { .id = "me" }, u;
	struct buf b;
	buf_init(&b, 1024);
	for (unsigned i = 0; i < TOKEN_SECRET; i++)
		t.secret[i] = (uint8_t)(0xf8 + i);
	token_print(&t, &b);
	assert_true(slice_is(buf_slice(&b), "bWU.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc"));
	assert_int_equal(token_parse(buf_slice(&b), &u), 0);
	assert_string_equal(u.id, "me");
	assert_memory_equal(u.secret, t.secret, TOKEN_SECRET);
	for (size_t n = 0; n < buf_len(&b); n++)        /* every cut is refused */
		assert_int_equal(token_parse(slice_of(buf_head(&b), n), &u), -EBADMSG);
	static const char *const wrong[] = {
		"bWU.+Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc", "bWU=.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc",
		".-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc", "bWU.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcY",
		"IA.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc",       /* a space as id */
	};
	for (size_t i = 0; i < LENGTH(wrong); i++)
		assert_int_equal(token_parse(slice_str(wrong[i]), &u), -EBADMSG);
	buf_done(&b);
}

static void test_token_field(void **state)
{
	struct token t;
	assert_int_equal(token_parse_field(slice_str("Bearer bWU.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc"), &t), 0);
	assert_int_equal(token_parse_field(slice_str("bEARER  bWU.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc"), &t), 0);
	assert_int_equal(token_parse_field(slice_str("Basic bWU.-Pn6-_z9_v8AAQIDBAUGBwgJCgsMDQ4PEBESExQVFhc"), &t), -EBADMSG);
	assert_int_equal(token_parse_field(slice_str("Bearer "), &t), -EBADMSG);
	assert_int_equal(token_parse_field(slice_str("Bearer"), &t), -EBADMSG);
	assert_int_equal(token_parse_field(slice_of(NULL, 0), &t), -EBADMSG);
}

static void test_token_hash(void **state)
{
	/* sha256("picomq-access-token" + 32 zero bytes), by another program. */
	static const uint8_t want[4] = { 0xd0, 0x65, 0x8d, 0xe1 };
	uint8_t secret[TOKEN_SECRET] = { 0 }, a[TOKEN_HASH], b[TOKEN_HASH];
	token_hash(secret, a);
	assert_memory_equal(a, want, sizeof(want));
	secret[31] = 1;
	token_hash(secret, b);
	assert_false(token_hash_equal(a, b));
	assert_true(token_hash_equal(a, a));
}

static void test_longest_id(void **state)
{
	struct token t = { 0 }, u;
	struct buf b;
	buf_init(&b, 1024);
	memset(t.id, 'x', TOKEN_ID_MAX);
	token_print(&t, &b);
	assert_int_equal(buf_len(&b), TOKEN_WIRE_MAX);
	assert_int_equal(token_parse(buf_slice(&b), &u), 0);
	assert_string_equal(u.id, t.id);
	buf_done(&b);
	assert_false(token_id_is_legal(slice_str("")));
	assert_false(token_id_is_legal(slice_str("a b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_json), cmocka_unit_test(test_bounds), cmocka_unit_test(test_every_operation),
		cmocka_unit_test(test_matchers), cmocka_unit_test(test_audience_and_end), cmocka_unit_test(test_narrowing),
		cmocka_unit_test(test_token_text), cmocka_unit_test(test_token_field), cmocka_unit_test(test_token_hash),
		cmocka_unit_test(test_longest_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
