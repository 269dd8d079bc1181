/* SPDX-License-Identifier: Apache-2.0
 *
 * A consumer group whose log stands in a data object: what is said while the store is slow, and what it says then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "storaged/objstore/objstore.h"
#include "t/unit/node_world.h"

#define NO_BYTES slice_of(NULL, 0)
#define GROUP { .len = 4, .data = (uint8_t *)"cold" }

static uint8_t topic_id[16];

static Ipc__GroupError commit(int64_t offset)
{
	struct asked a;
	Ipc__GroupCommitRequest m = IPC__GROUP_COMMIT_REQUEST__INIT;
	Ipc__GroupCommitRequest__Part part = IPC__GROUP_COMMIT_REQUEST__PART__INIT, *pointer = &part;
	m.group = (ProtobufCBinaryData)GROUP;
	m.generation = -1;
	m.retention_ms = -1;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = topic_id };
	part.offset = offset;
	m.part = &pointer;
	m.n_part = 1;
	ask(&a, IPC_GROUP_COMMIT, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupError e = ((Ipc__GroupCommitAnswer *)a.answer)->error;
	asked_done(&a);
	return e;
}

static Ipc__GroupError fetch(int64_t *ret_offset)
{
	struct asked a;
	Ipc__GroupOffsetFetchRequest m = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	Ipc__GroupOffsetFetchRequest__Part part = IPC__GROUP_OFFSET_FETCH_REQUEST__PART__INIT, *pointer = &part;
	m.group = (ProtobufCBinaryData)GROUP;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = topic_id };
	m.part = &pointer;
	m.n_part = 1;
	ask(&a, IPC_GROUP_OFFSET_FETCH, &m.base, NO_BYTES);
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__GroupOffsetFetchAnswer *x = (Ipc__GroupOffsetFetchAnswer *)a.answer;
	Ipc__GroupError e = x->error;
	*ret_offset = e == IPC__GROUP_ERROR__NONE ? x->part[0]->offset : -2;
	asked_done(&a);
	return e;
}

/* Reads from the store that wait until they are let go. */
static struct held { char key[200]; uint64_t offset, length; bool suffix; obj_get_cb *cb; void *arg; } held[64];
static unsigned n_held;
static bool holds;
static const struct objstore_ops *real;

static void get_now(struct objstore *s, const struct held *h)
{
	if (h->suffix)
		real->get_suffix(s, h->key, h->length, h->cb, h->arg);
	else
		real->get(s, h->key, h->offset, h->length, h->cb, h->arg);
}

static void get_later(struct objstore *s, struct held h, const char *key)
{
	snprintf(h.key, sizeof(h.key), "%s", key);
	must(n_held < 64);
	if (holds)
		held[n_held++] = h;
	else
		get_now(s, &h);
}

static void slow_get(struct objstore *s, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb, void *arg)
{
	get_later(s, (struct held){ .offset = offset, .length = length, .cb = cb, .arg = arg }, key);
}

static void slow_get_suffix(struct objstore *s, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	get_later(s, (struct held){ .length = length, .suffix = true, .cb = cb, .arg = arg }, key);
}

static void pack_soon(struct node_config *c)
{
	c->wal_upload_interval_ms = 20;
}

/* The log stands in a data object, the store is slow: "loading" is said, and the offset when it has come. */
static void test_from_store(void **state)
{
	struct objstore *s = world_store();
	struct objstore_ops slow = *(real = s->ops);
	struct asked a;
	int64_t offset;
	bool never = false;
	node_down();
	world_config = pack_soon;
	node_up();
	memcpy(topic_id, create(&a, "/g/cold", 1)->topic_id.data, 16);
	asked_done(&a);
	uint64_t packs = metrics->value[METRIC_PACKS];
	assert_int_equal(commit(5), IPC__GROUP_ERROR__NONE);
	for (int i = 0; i < 500 && (metrics->value[METRIC_PACKS] == packs || metrics->value[METRIC_ARENA_UNPACKED_BYTES] > 0); i++)
		run_for(&never, 10);
	assert_true(metrics->value[METRIC_PACKS] > packs);
	node_down();
	node_up();
	slow.get = slow_get;
	slow.get_suffix = slow_get_suffix;
	s->ops = &slow;
	holds = true;
	assert_int_equal(fetch(&offset), IPC__GROUP_ERROR__LOADING);
	assert_true(n_held > 0);
	assert_int_equal(commit(6), IPC__GROUP_ERROR__LOADING);
	holds = false;
	for (unsigned i = 0; i < n_held; i++)
		get_now(s, &held[i]);
	assert_int_equal(fetch(&offset), IPC__GROUP_ERROR__NONE);
	assert_int_equal(offset, 5);
	assert_int_equal(commit(6), IPC__GROUP_ERROR__NONE);
	assert_int_equal(fetch(&offset), IPC__GROUP_ERROR__NONE);
	assert_int_equal(offset, 6);
	s->ops = real;
	world_config = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from_store),
	};
	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
