/* SPDX-License-Identifier: Apache-2.0
 *
 * Retention on a whole node that packs and looks all the time: whose rule a topic has, and what readers see of a cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "t/unit/node_world.h"

#define SHORT_MS "100"                  /* of retention */
#define LONG_MS 700                     /* in which what is short has long been cut */

static const struct slice none;
static int64_t node_ms = -1, node_bytes = -1;

static void config(struct node_config *c)
{
	c->wal_upload_interval_ms = c->retention_interval_ms = 20;
	c->retention_ms = node_ms;
	c->retention_bytes = node_bytes;
}

static int set_up(void **state)
{
	world_config = config;
	return world_set_up(state);
}

static void restart_with(int64_t ms, int64_t bytes)
{
	node_down();
	node_ms = ms;
	node_bytes = bytes;
	node_up();
}

static void topic(const char *name, const char *config_name, const char *value)
{
	struct asked a;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	Ipc__ConfigEntry entry = IPC__CONFIG_ENTRY__INIT, *pointer = &entry;
	entry.name = (char *)config_name;
	entry.value = (char *)value;
	r.name = (char *)name;
	r.content_type = "text/plain";
	r.partitions = 1;
	r.config = &pointer;
	r.n_config = config_name != NULL;
	ask(&a, IPC_CREATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void update(const char *name, const char *config_name, const char *value)
{
	struct asked a;
	Ipc__UpdateRequest r = IPC__UPDATE_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__ConfigEntry entry = IPC__CONFIG_ENTRY__INIT, *pointer = &entry;
	ref.name = (char *)name;
	entry.name = (char *)config_name;
	entry.value = (char *)value;
	r.topic = &ref;
	r.config = &pointer;
	r.n_config = 1;
	ask(&a, IPC_UPDATE, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static uint64_t start_of(const char *name)
{
	return offsets(name, 0).start;
}

static void await_start(const char *name, uint64_t start)
{
	bool never = false;
	uint64_t end = env_now_ms(env) + 20000;
	while (start_of(name) != start && env_now_ms(env) < end)
		run_for(&never, 10);
	assert_int_equal(start_of(name), start);
}

static void pass(uint64_t ms)
{
	bool never = false;
	run_for(&never, ms);
}

static void read_below(const char *name, uint64_t start)
{
	struct asked a;
	struct log_name l;
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	r.log = log_ref(&l, name, 0);
	r.max_bytes = 1000;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OUT_OF_RANGE);
	assert_true(a.error.has_start_offset);
	assert_int_equal(a.error.start_offset, start);
	asked_done(&a);
}

static void test_a_topic_of_its_own(void **state)
{
	topic("/own", "retention.ms", SHORT_MS);
	topic("/other", NULL, NULL);
	append("/own", 3);
	append("/other", 3);
	assert_int_equal(start_of("/own"), 0);
	await_start("/own", 3);
	read_below("/own", 3);
	assert_int_equal(append("/own", 2), 3);
	await_start("/own", 5);
	assert_int_equal(start_of("/other"), 0);
}

static void test_over_a_restart(void **state)
{
	append("/own", 1);
	restart_with(-1, -1);
	await_start("/own", 6);
	assert_int_equal(start_of("/other"), 0);
}

static void test_the_nodes_default(void **state)
{
	topic("/kept", "retention.ms", "-1");
	topic("/compacted", "cleanup.policy", "compact");
	topic("/both", "cleanup.policy", "compact,delete");
	restart_with(100, -1);
	topic("/new", NULL, NULL);
	append("/kept", 2);
	append("/compacted", 2);
	append("/both", 2);
	append("/new", 2);
	await_start("/both", 2);
	await_start("/new", 2);
	await_start("/other", 3);
	pass(LONG_MS);
	assert_int_equal(start_of("/kept"), 0);
	assert_int_equal(start_of("/compacted"), 0);
	restart_with(-1, -1);
}

static void test_updated(void **state)
{
	append("/other", 2);
	pass(LONG_MS);
	assert_int_equal(start_of("/other"), 3);
	update("/other", "retention.ms", SHORT_MS);
	await_start("/other", 5);
	update("/other", "retention.ms", "-1");
	append("/other", 2);
	pass(LONG_MS);
	assert_int_equal(start_of("/other"), 5);
}

static void test_by_size(void **state)
{
	topic("/size", "retention.bytes", "300");       /* a batch of one record has some 70 bytes */
	for (int i = 0; i < 8; i++) {
		append("/size", 1);
		pass(60);                               /* a pack of its own */
	}
	bool never = false;
	for (int i = 0; i < 1000 && start_of("/size") < 3; i++)
		run_for(&never, 10);
	assert_in_range(start_of("/size"), 3, 7);
	restart_with(-1, 0);
	append("/other", 1);
	await_start("/other", 8);
	assert_in_range(start_of("/size"), 3, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_topic_of_its_own), cmocka_unit_test(test_over_a_restart),
		cmocka_unit_test(test_the_nodes_default), cmocka_unit_test(test_updated), cmocka_unit_test(test_by_size),
	};
	return cmocka_run_group_tests(tests, set_up, world_tear_down);
}
