/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports of the metadata: their bytes against a golden file that another program made, every damage refused; and when
 * they are written, by a command log on SQLite and a store in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/env_uv.h"
#include "common/must.h"
#include "common/wire.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/meta.h"
#include "storaged/meta/snapshot.h"
#include "storaged/objstore/mem.h"

/* --------------------------------------------------------------------- bytes */

static size_t read_golden(uint8_t *bytes, size_t size)
{
	char path[512];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/meta_export.bin", src == NULL ? "." : src);
	FILE *in = fopen(path, "rb");
	if (in == NULL)
		fail_msg("%s is missing", path);
	size_t n = fread(bytes, 1, size, in);
	fclose(in);
	return n;
}

static void test_golden(void **arg)
{
	uint8_t bytes[4096], again[4096] = { 0 };
	size_t n_bytes = read_golden(bytes, sizeof(bytes)), n, at = EXPORT_HEADER;
	struct export_header h;
	struct sql_entity *e;
	assert_null(export_decode(slice_of(bytes, n_bytes), 0x1234, &h, &e, &n));
	assert_int_equal(h.idx, 0x1234);
	assert_int_equal(h.n_entities, 3);
	assert_int_equal(n, 2);         /* one stands twice */
	assert_true(slice_is(e[0].key, "cluster"));
	assert_int_equal(e[0].idx, 0x1234);
	assert_int_equal(e[0].payload.n, 5);
	assert_true(slice_is(e[1].key, "node/1"));
	assert_int_equal(e[1].idx, 7);
	assert_int_equal(e[1].payload.n, 0);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(h.uuid[i], i);
	const size_t order[] = { 0, 1, 0 };
	export_header_encode(again, &h);
	for (size_t i = 0; i < 3; i++) {
		export_entity_encode(again + at, &e[order[i]]);
		at += export_entity_size(&e[order[i]]);
	}
	assert_int_equal(at, n_bytes);
	assert_memory_equal(again, bytes, n_bytes);
	free(e);
}

static const char *decode(const uint8_t *bytes, size_t n_bytes, uint64_t idx)
{
	struct export_header h;
	struct sql_entity *e = NULL;
	size_t n;
	const char *fault = export_decode(slice_of(bytes, n_bytes), idx, &h, &e, &n);
	if (fault == NULL)
		free(e);
	return fault;
}

static void test_damage(void **arg)
{
	uint8_t bytes[4096];
	size_t n = read_golden(bytes, sizeof(bytes));
	for (size_t bit = 0; bit < 8 * n; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_non_null(decode(bytes, n, 0x1234));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t cut = 0; cut < n; cut++)
		assert_non_null(decode(bytes, cut, 0x1234));
	assert_string_equal(decode(bytes, n, 0x1235), "it is that of another row than its key says");
	assert_null(decode(bytes, n, 0x1234));
}

/* With checksums made to fit, lengths are believed by nobody. */
static void test_lies(void **arg)
{
	uint8_t good[4096], bytes[4096];
	size_t n = read_golden(good, sizeof(good));
	const struct {
		size_t at;
		uint8_t value;
		const char *fault;
	} cases[] = {
		{ 4, 2, "its format is newer than this release" },
		{ 4, 0, "its header has values that cannot be" },
		{ 52, 1, "its header has values that cannot be" },
		{ 32, 2, "something stands behind its last entity" },
		{ 32, 4, "an entity of it is cut off" },
		{ 39, 1, "it has fewer entities than it says" },
		{ EXPORT_HEADER + 3, 1, "an entity of it is cut off" },
		{ EXPORT_HEADER, 0, "an entity of it is cut off" },
		{ EXPORT_HEADER + 8, 9, "it has an entity twice, with different content" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(bytes, good, n);
		bytes[cases[i].at] = cases[i].value;
		put_le32(bytes + 48, crc32c(bytes + EXPORT_HEADER, n - EXPORT_HEADER));
		put_le32(bytes + 60, 0);
		put_le32(bytes + 60, crc32c(bytes, EXPORT_HEADER));
		const char *fault = decode(bytes, n, 0x1234);
		if (fault == NULL)
			fail_msg("case %zu was taken", i);
		assert_string_equal(fault, cases[i].fault);
	}
}

static void test_keys(void **arg)
{
	char key[EXPORT_KEY_MAX];
	uint64_t idx = 0;
	export_key(key, 0xabc);
	assert_string_equal(key, "meta/0000000000000abc");
	assert_true(export_key_parse(key, &idx));
	assert_int_equal(idx, 0xabc);
	assert_false(export_key_parse("meta/0000000000000ABC", &idx));
	assert_false(export_key_parse("meta/abc", &idx));
	assert_false(export_key_parse("meta/0000000000000abc1", &idx));
	assert_false(export_key_parse("data/0000000000000abc", &idx));
}

/* ----------------------------------------------------------------- when, what */

struct world {
	uv_loop_t loop;
	struct env *env;
	struct objstore *store;
	struct sql_log *sql;
	struct meta *meta;
	bool registered, done;
	uint64_t idx, bytes;            /* of the export told last */
	char keys[4][EXPORT_KEY_MAX];
	size_t n_keys;
	uint8_t object[1u << 20];
	size_t n_object;
};

static void turn_until(struct world *w, const bool *flag)
{
	uint64_t end = env_now_ms(w->env) + 10000;
	while (!*flag && env_now_ms(w->env) < end)
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_true(*flag);
}

static void on_registered(void *arg, uint64_t session)
{
	((struct world *)arg)->registered = true;
}

static void on_refused(void *arg, const char *text)
{
	fail_msg("refused: %s", text);
}

static void world_up(struct world *w, uint64_t export_ms)
{
	static const struct meta_events events = { .on_registered = on_registered, .on_refused = on_refused };
	struct meta_config c = { .node = 1, .host = "h", .cluster_id = "c", .slots = 1, .export_ms = export_ms };
	char fault[256];
	memset(w, 0, sizeof(*w));
	must(uv_loop_init(&w->loop) == 0 && env_uv_new(&w->loop, &w->env) == 0);
	w->store = mem_store_open(w->env, "export");
	must(sql_log_open(w->env, "sqlite::memory:", &w->sql, fault, sizeof(fault)) == 0);
	must(meta_new(w->env, w->sql, w->store, NULL, &c, &events, w, &w->meta) == 0);
	meta_start(w->meta);
	turn_until(w, &w->registered);
}

static void world_down(struct world *w)
{
	meta_free(w->meta);
	w->sql->ops->free(w->sql);
	w->store->ops->free(w->store);
	env_uv_free(w->env);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&w->loop) == 0);
}

static void on_list(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct world *w = arg;
	assert_int_equal(result.outcome, OUTCOME_OK);
	w->n_keys = n;
	for (size_t i = 0; i < n && i < 4; i++)
		snprintf(w->keys[i], EXPORT_KEY_MAX, "%s", entries[i].key);
	w->done = true;
}

static void list(struct world *w)
{
	w->done = false;
	w->store->ops->list(w->store, "meta/", NULL, 10, on_list, w);
	turn_until(w, &w->done);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct world *w = arg;
	assert_int_equal(result.outcome, OUTCOME_OK);
	assert_in_range(data.n, EXPORT_HEADER, sizeof(w->object));
	memcpy(w->object, data.p, data.n);
	w->n_object = data.n;
	w->done = true;
}

/* The export of that row as a state of its own; freed by the caller. */
static struct state *load(struct world *w, uint64_t idx)
{
	char key[EXPORT_KEY_MAX];
	struct export_header h;
	struct sql_entity *e;
	size_t n;
	export_key(key, idx);
	w->done = false;
	objstore_get(w->store, key, 0, 0, on_got, w);
	turn_until(w, &w->done);
	assert_null(export_decode(slice_of(w->object, w->n_object), idx, &h, &e, &n));
	assert_memory_equal(h.uuid, state_cluster_uuid(meta_state(w->meta)), 16);
	struct state *s = state_new();
	assert_int_equal(state_load(s, idx, e, n), 0);
	free(e);
	return s;
}

static void on_proposed(void *arg, const Meta__Result__One *result)
{
	assert_int_equal(result->error, PICO_OK);
	((struct world *)arg)->done = true;
}

static void create(struct world *w, const char *name)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__CreateTopic t = META__CREATE_TOPIC__INIT;
	uint8_t id[16];
	env_random(w->env, id, sizeof(id));
	t.topic_id = (ProtobufCBinaryData){ .len = 16, .data = id };
	t.name = (char *)name;
	t.content_type = (char *)"text/plain";
	t.partitions = 3;
	command.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	command.create_topic = &t;
	w->done = false;
	assert_int_equal(meta_propose(w->meta, &command, on_proposed, w), 0);
	turn_until(w, &w->done);
}

static void on_export(void *arg, uint64_t idx, uint64_t bytes, const char *fault)
{
	struct world *w = arg;
	assert_null(fault);
	w->idx = idx;
	w->bytes = bytes;
	w->done = true;
}

static void export(struct world *w)
{
	w->done = false;
	assert_int_equal(meta_export_now(w->meta, on_export, w), 0);
	turn_until(w, &w->done);
}

static void test_asked_for(void **arg)
{
	static struct world w;
	char name[16];
	world_up(&w, 3600000);
	assert_int_equal(meta_export_now(w.meta, on_export, &w), -EBUSY);
	meta_export_start(w.meta);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "/t/%d", i);
		create(&w, name);
		if (i % 25 == 24)
			export(&w);
	}
	assert_int_equal(w.idx, state_idx(meta_state(w.meta)));
	struct state *s = load(&w, w.idx);
	assert_int_equal(w.bytes, w.n_object);
	assert_int_equal(state_n_topics(s), 100);
	assert_non_null(state_topic_by_name(s, slice_str("/t/99")));
	assert_int_equal(state_chain(s), state_chain(meta_state(w.meta)));
	state_free(s);
	list(&w);
	assert_int_equal(w.n_keys, 2);
	s = load(&w, w.idx - 25);
	assert_int_equal(state_n_topics(s), 75);
	state_free(s);
	world_down(&w);
}

/* While one is encoded commands are applied: it shows the row that it began with. */
static void test_under_load(void **arg)
{
	static struct world w;
	char name[16];
	world_up(&w, 3600000);
	meta_export_start(w.meta);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "/t/%d", i);
		create(&w, name);
	}
	w.idx = 0;
	assert_int_equal(meta_export_now(w.meta, on_export, &w), 0);
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "/late/%d", i);
		create(&w, name);
	}
	for (uint64_t end = env_now_ms(w.env) + 10000; w.idx == 0 && env_now_ms(w.env) < end;)
		uv_run(&w.loop, UV_RUN_ONCE);
	assert_in_range(w.idx, 1, state_idx(meta_state(w.meta)));
	struct state *s = load(&w, w.idx);
	assert_int_equal(state_n_topics(s), w.idx - 2);
	state_free(s);
	world_down(&w);
}

static void on_last(void *arg)
{
	((struct world *)arg)->done = true;
}

/* By itself when the state moved, and not when it did not; and before a stop. */
static void test_by_itself(void **arg)
{
	static struct world w;
	world_up(&w, 50);
	meta_export_start(w.meta);
	for (uint64_t end = env_now_ms(w.env) + 10000; w.n_keys == 0 && env_now_ms(w.env) < end;)
		list(&w);
	assert_int_equal(w.n_keys, 1);
	assert_string_equal(w.keys[0], "meta/0000000000000002");
	for (uint64_t end = env_now_ms(w.env) + 300; env_now_ms(w.env) < end;)
		list(&w);
	assert_int_equal(w.n_keys, 1);
	create(&w, "/a");
	for (uint64_t end = env_now_ms(w.env) + 10000; w.n_keys < 2 && env_now_ms(w.env) < end;)
		list(&w);
	assert_string_equal(w.keys[1], "meta/0000000000000003");
	create(&w, "/b");
	w.done = false;
	meta_export_last(w.meta, on_last, &w);
	turn_until(&w, &w.done);
	list(&w);
	assert_int_equal(w.n_keys, 2);
	assert_string_equal(w.keys[1], "meta/0000000000000004");
	world_down(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden), cmocka_unit_test(test_damage), cmocka_unit_test(test_lies),
		cmocka_unit_test(test_keys), cmocka_unit_test(test_asked_for), cmocka_unit_test(test_under_load),
		cmocka_unit_test(test_by_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
