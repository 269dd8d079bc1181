/* SPDX-License-Identifier: Apache-2.0
 *
 * Small values: PutKv and DeleteKv with every refusal, order of keys and of versions, what is remembered of deleted keys, and
 * snapshots.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "t/unit/meta_fixture.h"

#define ANY UINT64_MAX

static const struct kv_entry *entry(const struct fixture *f, const char *key)
{
	return kv_find(state_kv(f->s), slice_str(key));
}

static void test_versions(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	assert_null(entry(&f, "a"));
	assert_int_equal(fixture_put_kv(&f, "a", 3, 0), PICO_OK);
	assert_true(f.one.created && f.one.kv_version == 1);
	assert_int_equal(entry(&f, "a")->value.n, 3);
	assert_int_equal(fixture_put_kv(&f, "a", 4, 0), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "version 1, not 0"));
	assert_int_equal(entry(&f, "a")->value.n, 3);
	assert_int_equal(fixture_put_kv(&f, "a", 5, 1), PICO_OK);
	assert_true(!f.one.created && f.one.kv_version == 2);
	assert_int_equal(fixture_put_kv(&f, "b", 0, ANY), PICO_OK);
	assert_int_equal(entry(&f, "b")->version, 3);
	assert_int_equal(fixture_put_kv(&f, "b", 1, ANY), PICO_OK);
	assert_int_equal(entry(&f, "b")->version, 4);
	/* A key that comes back never has a version that it had. */
	assert_int_equal(fixture_delete_kv(&f, "a", 1), PICO_CONFLICT);
	assert_int_equal(fixture_delete_kv(&f, "a", 2), PICO_OK);
	assert_true(f.one.created && f.one.kv_version == 5);
	assert_int_equal(fixture_delete_kv(&f, "a", 2), PICO_OK);
	assert_true(!f.one.created && f.one.kv_version == 0);
	assert_int_equal(fixture_put_kv(&f, "a", 1, 2), PICO_CONFLICT);
	assert_int_equal(fixture_put_kv(&f, "a", 1, 0), PICO_OK);
	assert_int_equal(entry(&f, "a")->version, 6);
	assert_int_equal(state_kv(f.s)->bytes, 1 + 1 + 1 + 1);
	/* The same proposal again is skipped. */
	f.proposal--;
	fixture_put_kv(&f, "a", 9, ANY);
	assert_int_equal(f.err, -EALREADY);
	assert_int_equal(entry(&f, "a")->value.n, 1);
	fixture_done(&f);
}

static void test_keys(void **arg)
{
	char longest[KV_KEY_MAX + 2];
	memset(longest, 'k', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	static const char *const bad[] = { "", "a b", "a\n", "\x7f", "\xc3\xa4" };
	struct fixture f;
	fixture_new(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fixture_put_kv(&f, bad[i], 1, ANY), PICO_BAD_REQUEST);
	assert_int_equal(fixture_put_kv(&f, longest, 1, ANY), PICO_BAD_REQUEST);
	longest[KV_KEY_MAX] = '\0';
	assert_int_equal(fixture_put_kv(&f, longest, 1, ANY), PICO_OK);
	assert_int_equal(fixture_put_kv(&f, "!~/%", 1, ANY), PICO_OK);
	assert_string_equal(kv_next(state_kv(f.s), slice_of("", 0))->key, "!~/%");
	assert_string_equal(kv_next(state_kv(f.s), slice_str("!~/%"))->key, longest);
	assert_null(kv_next(state_kv(f.s), slice_str(longest)));
	fixture_done(&f);
}

static void test_bounds(void **arg)
{
	static struct kv kv;
	static uint8_t value[KV_VALUE_MAX];
	char key[16];
	uint64_t version = 0;
	for (unsigned i = 0; ; i++) {
		snprintf(key, sizeof(key), "%06u", i);
		if (!kv_takes(&kv, key, sizeof(value)))
			break;
		kv_put(&kv, key, slice_of(value, sizeof(value)), ++version, 1);
	}
	assert_true(kv.bytes <= KV_BYTES_MAX && kv.bytes + sizeof(value) + 6 > KV_BYTES_MAX);
	assert_true(kv_takes(&kv, "000000", sizeof(value)));    /* in its place */
	kv_delete(&kv, kv_find(&kv, slice_str("000001")), ++version);
	assert_true(kv_takes(&kv, key, sizeof(value)));
	kv_done(&kv);
}

/* What a load brings: entries of one row in order of key. */
static void test_order_of_versions(void **arg)
{
	static struct kv kv;
	static const uint64_t versions[] = { 5, 2, 9, 7, 8 };
	static const char *const keys[] = { "a", "b", "c", "d", "e" };
	for (size_t i = 0; i < 5; i++)
		kv_put(&kv, keys[i], slice_of("", 0), versions[i], 1);
	const char *order = "badec";
	for (const struct kv_entry *e = kv.oldest; e != NULL; e = e->newer)
		assert_int_equal(e->key[0], *order++);
	assert_int_equal(*order, '\0');
	assert_int_equal(kv.newest->version, 9);
	assert_int_equal(kv.version, 9);
	assert_string_equal(kv_changed_after(&kv, 0)->key, "b");
	assert_string_equal(kv_changed_after(&kv, 7)->key, "e");
	assert_null(kv_changed_after(&kv, 9));
	kv_done(&kv);
}

static void test_gone(void **arg)
{
	static struct kv kv;
	char key[16];
	uint64_t version = 0;
	for (unsigned i = 0; i < KV_GONE_MAX + 3; i++) {
		snprintf(key, sizeof(key), "%u", i);
		kv_put(&kv, key, slice_of("", 0), ++version, 1);
		kv_delete(&kv, kv_find(&kv, slice_str(key)), ++version);
	}
	assert_int_equal(kv.n_gone, KV_GONE_MAX);
	assert_string_equal(kv.gone[kv.first_gone].key, "3");
	assert_int_equal(kv.gone_since, kv.gone[kv.first_gone].version - 2);
	assert_int_equal(kv.n + kv.bytes, 0);
	kv_done(&kv);
}

/* Deleted keys leave a stored snapshot with the next one; a load knows nothing of those before it. */
static void test_snapshot(void **arg)
{
	struct fixture f;
	struct kept k = { 0 };
	fixture_new(&f);
	fixture_put_kv(&f, "a", 1, ANY);
	fixture_put_kv(&f, "b", 2, ANY);
	fixture_keep(&f, &k);
	uint64_t base = state_idx(f.s);
	fixture_delete_kv(&f, "a", ANY);
	fixture_put_kv(&f, "c", 3, ANY);
	state_snapshot_begin(f.s, base, kept_add, &k);
	while (state_snapshot_step(f.s, 1))
		;
	state_snapshot_end(f.s);
	struct state *s = kept_load(&k, state_idx(f.s));
	assert_non_null(s);
	const struct kv *kv = state_kv(s);
	assert_int_equal(kv->n, 2);
	assert_string_equal(kv->oldest->key, "b");
	assert_string_equal(kv->newest->key, "c");
	assert_int_equal(kv->version, 4);
	assert_int_equal(kv->gone_since, 4);
	state_free(s);
	/* A version that was never given. */
	for (size_t i = 0; i < k.n; i++)
		if (slice_is(k.e[i].key, "kv/c")) {
			Meta__KvEntity *e = meta__kv_entity__unpack(NULL, k.e[i].payload.n, k.e[i].payload.p);
			e->version = 5;
			must(meta__kv_entity__get_packed_size(e) == k.e[i].payload.n);
			meta__kv_entity__pack(e, (uint8_t *)k.e[i].payload.p);
			meta__kv_entity__free_unpacked(e, NULL);
		}
	assert_null(kept_load(&k, state_idx(f.s)));
	kept_done(&k);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions), cmocka_unit_test(test_keys), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_order_of_versions), cmocka_unit_test(test_gone), cmocka_unit_test(test_snapshot),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
