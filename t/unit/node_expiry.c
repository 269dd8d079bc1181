/* SPDX-License-Identifier: Apache-2.0
 *
 * Topics that end by themselves, on a whole node: what counts as a use, what is seen from the deadline on, and what a
 * restart makes of it. TTLs count in seconds, so each test takes some.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "t/unit/node_kafka.h"

static const struct slice none;

static void pass(uint64_t ms)
{
	bool never = false;
	run_for(&never, ms);
}

static void create_with(const char *name, uint64_t ttl_seconds, int64_t expires_at_ms, uint8_t ret_id[16])
{
	struct asked a;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = (char *)name;
	r.content_type = "text/plain";
	r.partitions = 1;
	r.ttl_seconds = ttl_seconds;
	r.expires_at_ms = expires_at_ms;
	ask(&a, IPC_CREATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__CreateAnswer *answer = (Ipc__CreateAnswer *)a.answer;
	assert_true(answer->created);
	assert_int_equal(answer->topic->ttl_seconds, ttl_seconds);
	assert_int_equal(answer->topic->expires_at_ms, expires_at_ms);
	if (ret_id != NULL)
		memcpy(ret_id, answer->topic->topic_id.data, 16);
	asked_done(&a);
}

/* Looks, which is no use. */
static bool is_there(const char *name)
{
	struct asked a;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__GetRequest r = IPC__GET_REQUEST__INIT;
	ref.name = (char *)name;
	r.topic = &ref;
	ask(&a, IPC_GET, &r.base, none);
	bool found = a.error.kind == PICO_OK;
	assert_true(found || a.error.kind == PICO_NOT_FOUND);
	if (found && ((Ipc__GetAnswer *)a.answer)->topic->ttl_seconds != 0)
		assert_int_equal(((Ipc__GetAnswer *)a.answer)->topic->expires_at_ms, 0);
	asked_done(&a);
	return found;
}

static size_t listed(const char *prefix)
{
	struct asked a;
	Ipc__ListRequest r = IPC__LIST_REQUEST__INIT;
	r.prefix = (char *)prefix;
	ask(&a, IPC_LIST, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	size_t n = ((Ipc__ListAnswer *)a.answer)->n_topics;
	asked_done(&a);
	return n;
}

static void read_from(const char *name, bool from_end)
{
	struct asked a;
	struct log_name l;
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	r.log = log_ref(&l, name, 0);
	r.max_bytes = 1000;
	r.from_end = from_end;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void wait_on(const char *name)
{
	struct asked a;
	struct log_name l;
	Ipc__WaitRequest r = IPC__WAIT_REQUEST__INIT;
	r.log = log_ref(&l, name, 0);
	r.from_end = true;
	ask_start(&a, IPC_WAIT, &r.base, none, 20);
	run_until(&a.done);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

/* Each kind of use keeps one topic alive over twice its TTL; one that is only looked at goes. */
static void test_uses(void **state)
{
	uint8_t id[16];
	struct buf b;
	static const char *const names[] = { "/u/append", "/u/read", "/u/tail", "/u/wait" };
	for (size_t i = 0; i < 4; i++)
		create_with(names[i], 1, 0, NULL);
	create_with("/u/fetch", 1, 0, id);
	append("/u/fetch", 1);                          /* or a fetch waits for one */
	create_with("/u/look", 1, 0, NULL);
	assert_int_equal(listed("/u/"), 6);
	for (int i = 0; i < 5; i++) {
		pass(400);
		append("/u/append", 1);
		read_from("/u/read", false);
		read_from("/u/tail", true);
		wait_on("/u/wait");
		fetch_bytes(id, 0, 0, &b);
		buf_done(&b);
		is_there("/u/look");
	}
	assert_int_equal(listed("/u/"), 5);
	assert_false(is_there("/u/look"));
	for (size_t i = 0; i < 4; i++)
		assert_true(is_there(names[i]));
	pass(1500);
	assert_int_equal(listed("/u/"), 0);
}

static void test_the_deadline(void **state)
{
	create_with("/d", 2, 0, NULL);
	append("/d", 3);
	uint64_t at = env_now_ms(env);
	pass(1600);
	assert_true(is_there("/d") || env_now_ms(env) - at >= 2000);
	pass(at + 2050 - env_now_ms(env));
	assert_false(is_there("/d"));
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	append_refused(&r, "/d", 1, PICO_NOT_FOUND, NULL);
	create_with("/d", 60, 0, NULL);                         /* the name is free, whatever it was before */
	assert_int_equal(offsets("/d", 0).confirm, 0);
	assert_int_equal(append("/d", 1), 0);
}

/* Nobody asks for it: the sweep ends it, and whoever waits hears of it. */
static void test_the_sweep(void **state)
{
	struct asked w;
	struct log_name l;
	int64_t before = metrics->value[METRIC_TOPICS_EXPIRED];
	create_with("/s", 1, 0, NULL);
	Ipc__WaitRequest r = IPC__WAIT_REQUEST__INIT;
	r.log = log_ref(&l, "/s", 0);
	ask_start(&w, IPC_WAIT, &r.base, none, 15000);
	run_until(&w.done);
	assert_int_equal(w.error.kind, PICO_OK);
	asked_done(&w);
	assert_int_equal(metrics->value[METRIC_TOPICS_EXPIRED], before + 1);
}

static void test_a_fixed_time(void **state)
{
	create_with("/f", 0, env_wall_ms(env) + 900, NULL);
	append("/f", 1);
	pass(600);
	append("/f", 1);
	pass(350);
	assert_false(is_there("/f"));
}

static void test_by_id(void **state)
{
	uint8_t id[16];
	struct submit s;
	create_with("/k", 1, 0, id);
	pass(1100);
	submit_begin(&s);
	submit_add(&s, id, 0, &(struct client_batch){ .n = 1, .producer_id = -1 });
	submit_do(&s);
	assert_non_null(submit_part(&s, 0)->error);
	assert_int_equal(submit_part(&s, 0)->error->kind, PICO_NOT_FOUND);
	submit_done(&s);
}

/* What was used is there for its TTL and at most the slack more; what is due is gone at once. */
static void test_over_a_restart(void **state)
{
	create_with("/r/used", 3, 0, NULL);
	create_with("/r/due", 1, 0, NULL);
	pass(500);
	append("/r/used", 1);
	uint64_t at = env_now_ms(env);
	pass(100);                                              /* its TouchExpiry is through */
	node_down();
	pass(600);
	node_up();
	assert_false(is_there("/r/due"));
	pass(at + 2700 - env_now_ms(env));
	assert_true(is_there("/r/used") || env_now_ms(env) - at >= 3000);
	pass(at + 4100 - env_now_ms(env));
	assert_false(is_there("/r/used"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uses), cmocka_unit_test(test_the_deadline), cmocka_unit_test(test_the_sweep),
		cmocka_unit_test(test_a_fixed_time), cmocka_unit_test(test_by_id), cmocka_unit_test(test_over_a_restart),
	};
	return cmocka_run_group_tests(tests, world_set_up, world_tear_down);
}
