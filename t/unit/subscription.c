/* SPDX-License-Identifier: Apache-2.0
 *
 * Subscriptions without a node: patterns, where a webhook may go, tokens and phases, signatures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/env_uv.h"
#include "common/hook_url.h"
#include "common/subscription.h"
#include "worker-hook/sign.h"

static void test_patterns(void **state)
{
	static const struct { const char *pattern, *path; bool matches; } rows[] = {
		{ "a", "a", true }, { "a", "b", false }, { "a", "a/b", false }, { "a/b", "a", false },
		{ "e/*", "e/x", true }, { "e/*", "e/x/y", false }, { "e/*", "e", false }, { "*", "x", true }, { "*", "x/y", false },
		{ "e/*/z", "e/x/z", true }, { "e/*/z", "e/z", false }, { "e/a*c", "e/abbc", true }, { "e/a*c", "e/ab", false },
		{ "e/*b*", "e/abc", true }, { "e/**", "e/x", true }, { "e/**", "e/x/y/z", true }, { "**", "x/y", true },
		{ "**/z", "z", true }, { "**/z", "a/b/z", true }, { "**/z", "a/b/c", false }, { "a/**/z", "a/z", true },
		{ "a/**/z", "a/b/z/c/z", true }, { "a/**/z", "a/b/z/c", false }, { "a/**/b/**/c", "a/x/b/y/y/c", true },
		{ "a/**/b/**/c", "a/x/y/c", false }, { "e/**", "f/x", false }, { "a.b", "axb", false }, { "e/x", "e/X", false },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (sub_pattern_matches(slice_str(rows[i].pattern), slice_str(rows[i].path)) != rows[i].matches)
			fail_msg("%s on %s", rows[i].pattern, rows[i].path);
	assert_true(slice_is(sub_pattern_prefix(slice_str("e/a*/b")), "e/a"));
	assert_true(slice_is(sub_pattern_prefix(slice_str("e/a")), "e/a"));
	assert_true(sub_id_is_legal(slice_str("a-B.c_d~9")));
	assert_false(sub_id_is_legal(slice_str("")) || sub_id_is_legal(slice_str("a/b")) || sub_id_is_legal(slice_str("a b")));
}

static bool allowed(const char *text, bool loopback)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return hook_address_is_allowed((struct sockaddr *)&v4, loopback);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return hook_address_is_allowed((struct sockaddr *)&v6, loopback);
}

static void test_addresses(void **state)
{
	static const char *const closed[] = {
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1",
		"192.0.2.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "255.255.255.255", "::",
		"fe80::1", "fc00::1", "ff02::1", "2001:db8::1", "2002:a00:1::", "2001::1", "64:ff9b::a00:1", "::ffff:10.0.0.1",
		"::ffff:169.254.169.254", "::10.0.0.1",
	};
	static const char *const open[] = { "1.1.1.1", "100.63.0.1", "172.32.0.1", "192.169.0.1", "223.255.255.255", "2606:4700::1111",
					    "::ffff:1.1.1.1" };
	static const char *const here[] = { "127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1" };
	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
		if (allowed(closed[i], true))
			fail_msg("%s may be called", closed[i]);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		if (!allowed(open[i], false))
			fail_msg("%s may not be called", open[i]);
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		assert_true(allowed(here[i], true) && !allowed(here[i], false));
	struct sockaddr other = { .sa_family = AF_UNIX };
	assert_false(hook_address_is_allowed(&other, true));
}

static void test_urls(void **state)
{
	static const char *const good[] = { "https://example.com", "HTTPS://example.com:8443/a?b#c", "https://1.1.1.1/", "https://[2606:4700::1]:1/" };
	static const char *const here[] = { "http://localhost:1/x", "http://127.0.0.1", "https://127.1.2.3/", "http://[::1]:80/", "http://LOCALHOST" };
	static const char *const bad[] = { "", "example.com", "ftp://example.com", "http://example.com", "http://1.1.1.1/", "https://",
					   "https:///x", "https://a@b/", "https://10.0.0.1", "https://[fe80::1]", "https://[::1", "https://a b/",
					   "https://x/\x7f", "https://a\\@b/" };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_null(hook_url_fault(good[i], false));
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		assert_true(hook_url_fault(here[i], true) == NULL && hook_url_fault(here[i], false) != NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (hook_url_fault(bad[i], true) == NULL)
			fail_msg("%s is good", bad[i]);
}

static void test_wake(void **state)
{
	uv_loop_t loop;
	struct env *env;
	char token[SUB_TOKEN_TEXT], other[SUB_TOKEN_TEXT];
	struct buf packed;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(env_uv_new(&loop, &env), 0);
	Sub__Subscription *s = calloc(1, sizeof(*s));
	sub__subscription__init(s);
	Sub__Link *a = sub_link_add(s, slice_str("a"), true), *b = sub_link_add(s, slice_str("b"), false);
	assert_false(sub_is_pending(s));
	a->exists = true;
	a->tail = 5;
	assert_true(sub_is_pending(s) && sub_link_find(s, slice_str("b")) == b && sub_link_find(s, slice_str("c")) == NULL);
	sub_wake(s, env);
	sub_token(s, env, token);
	assert_true(s->phase == SUB__PHASE__WAKING && s->generation == 1 && strlen(s->wake_id) == 32 && a->snapshot == 5);
	assert_true(sub_token_is_good(s, slice_str(token)) && !sub_token_is_good(s, slice_str("")));
	a->tail = 9;
	sub_ack_snapshot(s);
	assert_true(a->acked == 5 && b->acked == 0 && sub_is_pending(s));
	sub_token(s, env, other);
	assert_false(sub_token_is_good(s, slice_str(token)));
	sub_idle(s);
	buf_init(&packed, SUB_PACKED_MAX);
	assert_int_equal(sub_pack(s, &packed), 0);
	Sub__Subscription *back = sub__subscription__unpack(NULL, buf_len(&packed), buf_head(&packed));
	assert_true(back != NULL && back->n_link == 2 && back->link[0]->acked == 5 && back->link[0]->tail == 0);
	assert_true(sub_token_is_good(back, slice_str(other)) && back->phase == SUB__PHASE__IDLE);
	sub_link_remove(back, back->link[0]);
	assert_true(back->n_link == 1 && strcmp(back->link[0]->path, "b") == 0);
	sub__subscription__free_unpacked(back, NULL);
	for (size_t i = s->n_link; i < SUB_LINKS_MAX; i++) {
		char path[200];
		snprintf(path, sizeof(path), "%0150zu", i);
		assert_non_null(sub_link_add(s, slice_str(path), false));
	}
	assert_null(sub_link_add(s, slice_str("one more"), false));
	assert_int_equal(sub_pack(s, &packed), -E2BIG);
	sub__subscription__free_unpacked(s, NULL);
	buf_done(&packed);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
}

/* As a subscriber checks it. */
static void test_signature(void **state)
{
	struct sign_pair pair;
	Sub__HookKey key = SUB__HOOK_KEY__INIT;
	char text[SIGN_TEXT];
	struct buf signature;
	assert_int_equal(sign_pair_new(&pair), 0);
	key.private_key = (ProtobufCBinaryData){ .data = pair.private_key, .len = SIGN_KEY };
	key.kid = pair.kid;
	assert_int_equal(sign_text(&key, 1700000000, slice_str("{}"), text), 0);
	char *at = strstr(text, ",ed25519=");
	assert_true(strncmp(text, "t=1700000000,kid=ds_", 20) == 0 && at != NULL);
	at += 9;
	assert_int_equal(strlen(at), 86);
	for (char *p = at; *p != '\0'; p++)
		*p = *p == '-' ? '+' : *p == '_' ? '/' : *p;
	buf_init(&signature, 128);
	assert_int_equal(base64_decode(slice_str(strcat(at, "==")), &signature), 0);
	EVP_PKEY *public = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, pair.public_key, SIGN_KEY);
	for (int i = 0; i < 2; i++) {
		const char *signed_text = i == 0 ? "1700000000.{}" : "1700000001.{}";
		EVP_MD_CTX *md = EVP_MD_CTX_new();
		assert_int_equal(EVP_DigestVerifyInit(md, NULL, NULL, NULL, public), 1);
		assert_int_equal(EVP_DigestVerify(md, buf_head(&signature), buf_len(&signature), (const uint8_t *)signed_text,
						  strlen(signed_text)) == 1, i == 0);
		EVP_MD_CTX_free(md);
	}
	EVP_PKEY_free(public);
	buf_done(&signature);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns), cmocka_unit_test(test_addresses), cmocka_unit_test(test_urls),
		cmocka_unit_test(test_wake), cmocka_unit_test(test_signature),
	};
	return cmocka_run_group_tests_name("subscription", tests, NULL, NULL);
}
