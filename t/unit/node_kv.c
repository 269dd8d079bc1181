/* SPDX-License-Identifier: Apache-2.0
 *
 * Small values against a whole node: get, put, delete, list in pages, watches, over a restart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "t/unit/node_world.h"

static const struct slice none;

/* The new version. */
static uint64_t put(const char *key, const char *value)
{
	struct asked a;
	Ipc__KvPutRequest r = IPC__KV_PUT_REQUEST__INIT;
	r.key = (char *)key;
	r.value = (ProtobufCBinaryData){ .len = strlen(value), .data = (uint8_t *)value };
	ask(&a, IPC_KV_PUT, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	uint64_t version = ((Ipc__KvPutAnswer *)a.answer)->version;
	asked_done(&a);
	return version;
}

static bool delete(const char *key)
{
	struct asked a;
	Ipc__KvDeleteRequest r = IPC__KV_DELETE_REQUEST__INIT;
	r.key = (char *)key;
	ask(&a, IPC_KV_DELETE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	bool existed = ((Ipc__KvDeleteAnswer *)a.answer)->existed;
	asked_done(&a);
	return existed;
}

static void assert_value(const char *key, const char *value, uint64_t version)
{
	struct asked a;
	Ipc__KvGetRequest r = IPC__KV_GET_REQUEST__INIT;
	r.key = (char *)key;
	ask(&a, IPC_KV_GET, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__KvEntry *e = ((Ipc__KvGetAnswer *)a.answer)->entry;
	assert_string_equal(e->key, key);
	assert_int_equal(e->value.len, strlen(value));
	assert_memory_equal(e->value.data, value, strlen(value));
	assert_int_equal(e->version, version);
	asked_done(&a);
}

static void test_put_get_delete(void **state)
{
	uint64_t one = put("s/1", "one"), two = put("s/2", "");
	assert_true(two > one);
	assert_value("s/1", "one", one);
	assert_value("s/2", "", two);
	uint64_t three = put("s/1", "three");
	assert_value("s/1", "three", three);
	assert_true(delete("s/2"));
	assert_false(delete("s/2"));
	Ipc__KvGetRequest get = IPC__KV_GET_REQUEST__INIT;
	get.key = "s/2";
	refuse(IPC_KV_GET, &get.base, none, PICO_NOT_FOUND);
	node_down();
	node_up();
	assert_value("s/1", "three", three);
	refuse(IPC_KV_GET, &get.base, none, PICO_NOT_FOUND);
	assert_true(put("s/2", "back") > three + 1);
}

static void test_refusals(void **state)
{
	static uint8_t big[KV_VALUE_MAX + 1];
	uint64_t version = put("r", "x");
	Ipc__KvPutRequest p = IPC__KV_PUT_REQUEST__INIT;
	p.key = "r";
	p.check = true;
	refuse(IPC_KV_PUT, &p.base, none, PICO_CONFLICT);
	p.version = version + 1;
	refuse(IPC_KV_PUT, &p.base, none, PICO_CONFLICT);
	p.check = false;
	p.value = (ProtobufCBinaryData){ .len = sizeof(big), .data = big };
	refuse(IPC_KV_PUT, &p.base, none, PICO_TOO_LARGE);
	p.value.len = 0;
	p.key = "with space";
	refuse(IPC_KV_PUT, &p.base, none, PICO_BAD_REQUEST);
	Ipc__KvDeleteRequest d = IPC__KV_DELETE_REQUEST__INIT;
	d.key = "r";
	d.check = true;
	refuse(IPC_KV_DELETE, &d.base, none, PICO_CONFLICT);
	Ipc__KvWatchRequest w = IPC__KV_WATCH_REQUEST__INIT;
	w.prefix = "\x01";
	refuse(IPC_KV_WATCH, &w.base, none, PICO_BAD_REQUEST);
	assert_value("r", "x", version);
}

static void test_list(void **state)
{
	char key[32], last[32] = "";
	unsigned pages = 0, n = 0;
	put("l", "before");
	put("l0", "behind");            /* '0' comes after '/' */
	for (unsigned i = 0; i < 25; i++) {
		snprintf(key, sizeof(key), "l/%02u", i);
		put(key, key);
	}
	for (bool more = true; more; pages++) {
		struct asked a;
		Ipc__KvListRequest r = IPC__KV_LIST_REQUEST__INIT;
		r.prefix = "l/";
		r.start_after = last;
		r.limit = 10;
		ask(&a, IPC_KV_LIST, &r.base, none);
		assert_int_equal(a.error.kind, PICO_OK);
		const Ipc__KvListAnswer *l = (const Ipc__KvListAnswer *)a.answer;
		for (size_t i = 0; i < l->n_entry; i++, n++) {
			snprintf(key, sizeof(key), "l/%02u", n);
			assert_string_equal(l->entry[i]->key, key);
		}
		snprintf(last, sizeof(last), "%s", l->entry[l->n_entry - 1]->key);
		more = l->has_more;
		asked_done(&a);
	}
	assert_int_equal(n, 25);
	assert_int_equal(pages, 3);
	/* A prefix that is a key itself comes first. */
	struct asked a;
	Ipc__KvListRequest r = IPC__KV_LIST_REQUEST__INIT;
	r.prefix = "l";
	ask(&a, IPC_KV_LIST, &r.base, none);
	const Ipc__KvListAnswer *l = (const Ipc__KvListAnswer *)a.answer;
	assert_int_equal(l->n_entry, 27);
	assert_string_equal(l->entry[0]->key, "l");
	assert_string_equal(l->entry[26]->key, "l0");
	asked_done(&a);
}

/* ---------------------------------------------------------------------- watch */

static void watch_start(struct asked *a, Ipc__KvWatchRequest *r, const char *prefix, uint64_t after)
{
	ipc__kv_watch_request__init(r);
	r->prefix = (char *)prefix;
	r->after = after;
	ask_start(a, IPC_KV_WATCH, &r->base, none, 60000);
}

static const Ipc__KvWatchAnswer *watched(struct asked *a)
{
	run_until(&a->done);
	assert_int_equal(a->error.kind, PICO_OK);
	return (const Ipc__KvWatchAnswer *)a->answer;
}

static void test_watch(void **state)
{
	struct asked a;
	Ipc__KvWatchRequest r;
	uint64_t after = put("w/1", "one");
	watch_start(&a, &r, "w/", after);
	put("other", "x");
	assert_false(a.done);
	uint64_t two = put("w/2", "two");
	const Ipc__KvWatchAnswer *w = watched(&a);
	assert_false(w->reset);
	assert_int_equal(w->n_entry, 1);
	assert_int_equal(w->n_gone, 0);
	assert_string_equal(w->entry[0]->key, "w/2");
	assert_int_equal(w->version, two);
	asked_done(&a);
	/* At once, when something changed already. */
	delete("w/1");
	put("w/1", "again");
	delete("w/2");
	watch_start(&a, &r, "w/", two);
	w = watched(&a);
	assert_int_equal(w->n_entry, 1);
	assert_string_equal(w->entry[0]->key, "w/1");
	assert_int_equal(w->n_gone, 2);
	assert_string_equal(w->gone[0], "w/1");
	assert_string_equal(w->gone[1], "w/2");
	uint64_t now = w->version;
	asked_done(&a);
	/* A delete wakes, too; the deadline answers without changes. */
	watch_start(&a, &r, "w/", now);
	delete("w/1");
	w = watched(&a);
	assert_int_equal(w->n_gone, 1);
	now = w->version;
	asked_done(&a);
	ipc__kv_watch_request__init(&r);
	r.prefix = "w/";
	r.after = now;
	ask_start(&a, IPC_KV_WATCH, &r.base, none, 50);
	w = watched(&a);
	assert_true(!w->reset && w->n_entry == 0 && w->n_gone == 0 && w->version == now);
	asked_done(&a);
}

static void test_watch_resets(void **state)
{
	static char big[KV_VALUE_MAX];
	struct asked a;
	Ipc__KvWatchRequest r;
	char key[32];
	uint64_t after = put("z", "x");
	watch_start(&a, &r, "z", after + 1);    /* never given */
	assert_true(watched(&a)->reset);
	asked_done(&a);
	memset(big, 'b', sizeof(big) - 1);
	for (int i = 0; i < 9; i++) {
		snprintf(key, sizeof(key), "z/%d", i);
		put(key, big);
	}
	watch_start(&a, &r, "z", after);        /* over 1 MiB */
	assert_true(watched(&a)->reset);
	assert_int_equal(((const Ipc__KvWatchAnswer *)a.answer)->n_entry, 0);
	asked_done(&a);
	for (unsigned i = 0; i < KV_GONE_MAX + 1; i++) {
		put("z/gone", "");
		delete("z/gone");
	}
	uint64_t last = put("z", "x");
	watch_start(&a, &r, "none", after);     /* too many deletions ago */
	assert_true(watched(&a)->reset);
	asked_done(&a);
	watch_start(&a, &r, "z", last - 1);
	assert_false(watched(&a)->reset);
	asked_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_get_delete), cmocka_unit_test(test_refusals), cmocka_unit_test(test_list),
		cmocka_unit_test(test_watch), cmocka_unit_test(test_watch_resets),
	};
	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
