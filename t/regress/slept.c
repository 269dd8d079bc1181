/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine that slept for hours wakes up with a process whose session may be over. Its first call found a topic whose time
 * to live had passed on the clock, and said that it was gone, though another process owned it by then and it lived there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/regress/scene.h"

#define HOUR_NS (3600 * SIM_S)

static void create(struct scene *s)
{
	struct asked made;
	Ipc__CreateRequest m = IPC__CREATE_REQUEST__INIT;
	m.name = (char *)"/t";
	m.content_type = (char *)"text/plain";
	m.ttl_seconds = 600;
	scene_ask_and_wait(s, &made, IPC_CREATE, &m.base, slice_of(NULL, 0));
	assert_true(((Ipc__CreateAnswer *)made.answer)->created);
	asked_done(&made);
}

/* The first call after a sleep of that length. */
static void get_after(struct scene *s, uint64_t slept_ns, struct asked *got)
{
	static Ipc__GetRequest m;
	static Ipc__TopicRef ref;
	ipc__get_request__init(&m);
	ipc__topic_ref__init(&ref);
	ref.name = (char *)"/t";
	m.topic = &ref;
	s->proc->boot_offset_ns += slept_ns;
	scene_ask(s, got, IPC_GET, &m.base, slice_of(NULL, 0), 60000);
	scene_run(s, 1);
}

static void test_slept_for_hours(void **state)
{
	struct scene s;
	struct asked got;
	scene_begin(&s);
	scene_start(&s);
	create(&s);
	get_after(&s, HOUR_NS / 60, &got);      /* a minute is nothing */
	assert_true(got.done);
	assert_int_equal(got.error.kind, PICO_OK);
	asked_done(&got);
	get_after(&s, 2 * HOUR_NS, &got);
	assert_false(got.done);
	assert_null(s.node);
	scene_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_slept_for_hours) };
	return cmocka_run_group_tests_name("slept", tests, NULL, NULL);
}
