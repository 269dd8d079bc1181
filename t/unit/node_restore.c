/* SPDX-License-Identifier: Apache-2.0
 *
 * A node loses its database, and the only export is older than topics, forks, settings and partitions. What logs say of their
 * topics beside their records brings them back: under their names, with what they show of each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/codec.h"
#include "common/must.h"
#include "storaged/engine/engine_impl.h"
#include "storaged/offline/restore.h"
#include "storaged/op.h"
#include "t/unit/node_forks.h"

#define NOTHING slice_of(NULL, 0)

static bool packs;

static void configure(struct node_config *c)
{
	c->wal_upload_interval_ms = packs ? 1 : 3600000;
	c->gc_delay_ms = 0;
}

/* --------------------------------------------------------------------- the store */

struct got {
	bool done;
	int err;
	struct slice bytes;
	struct shelf_keys *keys;
};

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct got *g = arg;
	g->done = true;
	g->err = result.outcome == OUTCOME_OK ? 0 : result.err;
	if (g->err == 0)
		g->bytes = slice_of(must_memdup(data.p, data.n), data.n);
}

static int world_get(struct shelf *base, const char *key, uint64_t offset, uint64_t length, struct slice *ret_bytes)
{
	struct got g = { 0 };
	objstore_get(world_store(), key, offset, length, on_got, &g);
	run_until(&g.done);
	*ret_bytes = g.bytes;
	return g.err;
}

static void on_listed(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct got *g = arg;
	must(result.outcome == OUTCOME_OK && !more);
	for (size_t i = 0; i < n; i++)
		shelf_keys_add(g->keys, entries[i].key, entries[i].size);
	g->done = true;
}

static int world_list(struct shelf *base, const char *prefix, struct shelf_keys *ret_keys)
{
	struct got g = { .keys = ret_keys };
	*ret_keys = (struct shelf_keys){ 0 };
	world_store()->ops->list(world_store(), prefix, "", 100000, on_listed, &g);
	run_until(&g.done);
	return 0;
}

static const struct shelf_ops world_ops = { .get = world_get, .list = world_list };
static struct shelf shelf = { .ops = &world_ops, .url = "mem://t" };

struct exported {
	bool done;
	uint64_t idx;
};

static void on_exported(void *arg, uint64_t idx, uint64_t bytes, const char *fault)
{
	struct exported *x = arg;
	must(fault == NULL);
	x->idx = idx;
	x->done = true;
}

/* The bytes of an export that is made now. */
static struct slice export_now(void)
{
	struct exported x = { 0 };
	struct slice bytes;
	char key[64];
	while (meta_export_now(node->meta, on_exported, &x) != 0)
		run_for(&x.done, 1);
	run_until(&x.done);
	snprintf(key, sizeof(key), "meta/%016llx", (unsigned long long)x.idx);
	assert_int_equal(world_get(&shelf, key, 0, 0, &bytes), 0);
	return bytes;
}

/* The node dies, its database goes, and another one is built. The report is the caller's. */
static char *lose_all_but(struct slice export)
{
	static unsigned n_lost;
	char path[64];
	struct restored r;
	node_down();
	if (restore(&shelf, NULL, export, &r) != 0)
		fail_msg("%s", r.fault);
	snprintf(path, sizeof(path), "/tmp/pico-node-restore.%d.%u.db", (int)getpid(), n_lost++);
	if (restored_write(&r, path) != 0)
		fail_msg("%s", r.fault);
	char *report = must_calloc(1, buf_len(&r.report) + 1);
	memcpy(report, buf_head(&r.report), buf_len(&r.report));
	restored_done(&r);
	world_database(path);
	node_up();
	for (int i = 0; i < 3; i++) {
		char name[96];
		snprintf(name, sizeof(name), "%s%s", path, i == 0 ? "" : i == 1 ? "-wal" : "-shm");
		unlink(name);
	}
	return report;
}

static void expect(const char *report, const char *words)
{
	if (strstr(report, words) == NULL)
		fail_msg("the report says nothing of \"%s\":\n%s", words, report);
}

/* -------------------------------------------------------------------- topics */

static void append_to(const char *name, uint32_t partition, unsigned n)
{
	struct log_name l;
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	r.log = log_ref(&l, name, partition);
	append_with(&r, name, n);
}

static const Ipc__Topic *topic_get(struct asked *a, const char *name)
{
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	ref.name = (char *)name;
	get.topic = &ref;
	ask(a, IPC_GET, &get.base, NOTHING);
	return a->error.kind == PICO_OK ? ((const Ipc__GetAnswer *)a->answer)->topic : NULL;
}

static void config_set(const char *name, const char *key, const char *value)
{
	struct asked a;
	Ipc__UpdateRequest r = IPC__UPDATE_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__ConfigEntry entry = IPC__CONFIG_ENTRY__INIT, *config[] = { &entry };
	ref.name = (char *)name;
	r.topic = &ref;
	entry.name = (char *)key;
	entry.value = (char *)value;
	r.config = config;
	r.n_config = 1;
	ask(&a, IPC_UPDATE, &r.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void grow(const char *name, uint32_t partitions)
{
	struct asked a;
	Ipc__GrowRequest r = IPC__GROW_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	ref.name = (char *)name;
	r.topic = &ref;
	r.partitions = partitions;
	ask(&a, IPC_GROW, &r.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void late_create(void)
{
	struct asked a;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = "/late";
	r.content_type = "application/json";
	r.partitions = 3;
	r.ttl_seconds = 86400;
	ask(&a, IPC_CREATE, &r.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
	append_to("/late", 2, 5);
}

static void late_check(void)
{
	struct asked a;
	const Ipc__Topic *t = topic_get(&a, "/late");
	assert_non_null(t);
	assert_string_equal(t->content_type, "application/json");
	assert_string_equal(t->kafka_topic, "late");
	assert_int_equal(t->n_partitions, 3);
	assert_int_equal(t->ttl_seconds, 86400);
	assert_int_equal(t->partitions[2]->confirm, 5);
	assert_int_equal(t->partitions[0]->confirm, 0);
	asked_done(&a);
	append_to("/late", 0, 1);
	append_to("/late", 2, 1);
	assert_int_equal(offsets("/late", 2).confirm, 6);
}

/* A topic that the export has, with one setting and one partition more by now. */
static void old_change(void)
{
	config_set("/old", "retention.ms", "86400000");
	grow("/old", 2);
	append_to("/old", 1, 4);
}

static void old_check(void)
{
	struct asked a;
	const Ipc__Topic *t = topic_get(&a, "/old");
	assert_non_null(t);
	assert_int_equal(t->n_partitions, 2);
	assert_int_equal(t->n_config, 1);
	assert_string_equal(t->config[0]->name, "retention.ms");
	assert_string_equal(t->config[0]->value, "86400000");
	assert_int_equal(t->partitions[0]->confirm, 3);
	assert_int_equal(t->partitions[1]->confirm, 4);
	asked_done(&a);
}

/* A small value that the export has. */
static void value_put(void)
{
	struct asked a;
	Ipc__KvPutRequest r = IPC__KV_PUT_REQUEST__INIT;
	r.key = "tokens/one";
	r.value = (ProtobufCBinaryData){ .data = (uint8_t *)"value", .len = 5 };
	ask(&a, IPC_KV_PUT, &r.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void value_check(void)
{
	struct asked a;
	Ipc__KvGetRequest r = IPC__KV_GET_REQUEST__INIT;
	r.key = "tokens/one";
	ask(&a, IPC_KV_GET, &r.base, NOTHING);
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__KvGetAnswer *k = (const Ipc__KvGetAnswer *)a.answer;
	assert_int_equal(k->entry->value.len, 5);
	assert_memory_equal(k->entry->value.data, "value", 5);
	asked_done(&a);
}

/* Deleted and made again under the same name: the first one is known to be gone. */
static void again_change(struct model *again)
{
	model_delete(again);
	model_create(again, "/again");
	model_push(again, 2, CODEC_NONE, 10);
}

/* ----------------------------------------------------------------------- forks */

/* One below the other, between and within batches, each with records of its own; and a source that is deleted. */
static void forks_make(struct model *source, struct model fork[7])
{
	model_fork(&fork[0], "/fork/tail", source, UINT64_MAX, false);
	model_push(&fork[0], 3, CODEC_NONE, 50);
	model_fork(&fork[1], "/fork/within", source, 6, true);
	model_push(&fork[1], 4, CODEC_GZIP, 60);
	model_fork(&fork[2], "/fork/of-fork", &fork[1], UINT64_MAX, false);
	model_push(&fork[2], 2, CODEC_NONE, 70);
	model_create(&fork[3], "/mortal");
	model_push(&fork[3], 4, CODEC_NONE, 10);
	model_fork(&fork[4], "/fork/orphan", &fork[3], 2, false);
	model_push(&fork[4], 2, CODEC_NONE, 80);
	model_fork(&fork[5], "/fork/empty", source, 6, false); /* known by its own fork alone */
	model_fork(&fork[6], "/fork/of-empty", &fork[5], UINT64_MAX, false);
	model_push(&fork[6], 2, CODEC_NONE, 85);
	model_push(source, 2, CODEC_NONE, 90);
	model_delete(&fork[3]);
}

static void forks_check(struct model *source, struct model fork[7])
{
	model_check(source);
	for (int i = 0; i < 7; i++)
		if (i != 3)
			model_check(&fork[i]);
}

static void run(bool packed)
{
	static struct model source, again, fork[7];
	struct asked a;
	packs = packed;
	node_down();
	node_up();
	model_create(&source, "/source");
	model_create(&again, "/again");
	model_push(&source, 4, CODEC_NONE, 10);
	model_push(&source, 4, CODEC_GZIP, 20);
	model_push(&again, 7, CODEC_NONE, 10);
	create(&a, "/old", 1);
	asked_done(&a);
	append_to("/old", 0, 3);
	value_put();
	struct slice export = export_now();
	late_create();
	old_change();
	again_change(&again);
	forks_make(&source, fork);
	if (packed)
		packs_wait();
	char *report = lose_all_but(export);
	expect(report, "/fork/tail was made after the export, as a fork: 1 partition,");
	expect(report, "/late was made after the export: 3 partitions,");
	expect(report, "/old was changed after the export: 2 partitions,");
	expect(report, "an older /again was deleted after the export");
	forks_check(&source, fork);
	model_check(&again);
	late_check();
	old_check();
	value_check();
	for (int i = 0; i < 7; i++)     /* all of it goes on */
		if (i != 3)
			model_push(&fork[i], 2, CODEC_NONE, 100);
	node_down();
	node_up();
	forks_check(&source, fork);
	free(report);
	free((void *)export.p);
	topics_delete();
}

static void test_wal(void **state)
{
	run(false);
}

static void test_packed(void **state)
{
	run(true);
}

/* The next name in the report that was made up is the model's. */
static const char *model_rename(struct model *m, const char *report)
{
	struct asked a;
	const char *at = strstr(report, "/restored/log-");
	assert_non_null(at);
	snprintf(m->name, sizeof(m->name), "%.*s", (int)strlen("/restored/log-") + 16, at);
	const Ipc__Topic *t = topic_get(&a, m->name);
	assert_non_null(t);
	memcpy(m->id, t->topic_id.data, sizeof(m->id));
	asked_done(&a);
	return at + 1;
}

/* Written by a release that did not store whose records they are: the records are there, names are not; a fork's own, too. */
static void test_nameless(void **state)
{
	static struct model old, nameless, fork;
	packs = false;
	node_down();
	node_up();
	node->engine->events.card = NULL;
	model_create(&old, "/o/old");
	model_push(&old, 6, CODEC_NONE, 1);
	struct slice export = export_now();
	model_create(&nameless, "/o/new");
	model_push(&nameless, 2, CODEC_NONE, 2);
	model_fork(&fork, "/o/fork", &old, UINT64_MAX, false);
	model_push(&fork, 3, CODEC_NONE, 3);
	model_push(&old, 1, CODEC_NONE, 4);
	char *report = lose_all_but(export);
	model_rename(&fork, model_rename(&nameless, report));
	expect(report, ": offsets 6 to 9 of a topic made after the export, by a release that");
	fork.start = 6;
	model_check(&old);
	model_check(&nameless);
	model_check(&fork);
	model_push(&fork, 2, CODEC_NONE, 5);
	node_down();
	node_up();
	model_check(&fork);
	free(report);
	free((void *)export.p);
	topics_delete();
}

/* The newest word on a name counts, also where it is that of another topic. */
static void test_names(void **state)
{
	static struct model a, b;
	struct asked x;
	model_create(&a, "/n/a");
	model_push(&a, 1, CODEC_NONE, 1);
	struct slice export = export_now();
	Ipc__UpdateRequest r = IPC__UPDATE_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	ref.name = "/n/a";
	r.topic = &ref;
	r.set_kafka_topic = true;
	r.kafka_topic = "";
	ask(&x, IPC_UPDATE, &r.base, NOTHING);
	assert_int_equal(x.error.kind, PICO_OK);
	asked_done(&x);
	model_create(&b, "/n.a");
	model_push(&b, 2, CODEC_NONE, 2);
	char *report = lose_all_but(export);
	expect(report, "/n/a had the Kafka name n.a, which /n.a has now");
	model_check(&a);
	model_check(&b);
	assert_string_equal(topic_get(&x, "/n.a")->kafka_topic, "n.a");
	asked_done(&x);
	assert_string_equal(topic_get(&x, "/n/a")->kafka_topic, "");
	asked_done(&x);
	free(report);
	free((void *)export.p);
	topics_delete();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wal), cmocka_unit_test(test_packed), cmocka_unit_test(test_names),
		cmocka_unit_test(test_nameless),
	};
	world_config = configure;
	return cmocka_run_group_tests_name("node_restore", tests, world_set_up, world_tear_down);
}
