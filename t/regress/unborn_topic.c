/* SPDX-License-Identifier: Apache-2.0
 *
 * A topic whose first records are not durable yet is nobody's business: a crash takes it back. A second
 * create of its name was answered "exists", a get showed it, and after the crash it was gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/record_batch.h"
#include "t/regress/scene.h"

static void batch(struct buf *out)
{
	struct record_batch_writer w;
	buf_init(out, 4096);
	record_batch_begin(&w, out);
	record_batch_add(&w, slice_of(NULL, 0), slice_str("first"), NULL, 0);
	assert_true(record_batch_end(&w) > 0);
}

static void test_unborn(void **state)
{
	struct scene s;
	struct asked first, second, got, listed;
	struct buf bytes;
	batch(&bytes);
	scene_begin(&s);
	scene_start(&s);

	Ipc__Payload payload = IPC__PAYLOAD__INIT;
	Ipc__CreateRequest with = IPC__CREATE_REQUEST__INIT, without = IPC__CREATE_REQUEST__INIT;
	with.name = without.name = (char *)"/t";
	with.content_type = without.content_type = (char *)"text/plain";
	with.initial = &payload;
	payload.length = (uint32_t)buf_len(&bytes);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	ref.name = (char *)"/t";
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	get.topic = &ref;
	Ipc__ListRequest list = IPC__LIST_REQUEST__INIT;

	sim_bucket_weather(&s.bucket, SIM_BURST);       /* no WAL object is stored */
	scene_ask(&s, &first, IPC_CREATE, &with.base, buf_slice(&bytes), 60000);
	scene_run(&s, 500);
	assert_false(first.done);
	scene_ask_and_wait(&s, &second, IPC_CREATE, &without.base, slice_of(NULL, 0));
	assert_int_equal(second.error.kind, PICO_UNAVAILABLE);
	scene_ask_and_wait(&s, &got, IPC_GET, &get.base, slice_of(NULL, 0));
	assert_int_equal(got.error.kind, PICO_NOT_FOUND);
	scene_ask_and_wait(&s, &listed, IPC_LIST, &list.base, slice_of(NULL, 0));
	assert_int_equal(((Ipc__ListAnswer *)listed.answer)->n_topics, 0);
	asked_done(&listed);

	scene_kill(&s);
	sim_bucket_weather(&s.bucket, SIM_FAIR);
	scene_start(&s);
	scene_ask_and_wait(&s, &got, IPC_GET, &get.base, slice_of(NULL, 0));
	assert_int_equal(got.error.kind, PICO_NOT_FOUND);
	scene_ask_and_wait(&s, &first, IPC_CREATE, &with.base, buf_slice(&bytes));
	assert_true(((Ipc__CreateAnswer *)first.answer)->created);
	scene_ask_and_wait(&s, &second, IPC_CREATE, &without.base, slice_of(NULL, 0));
	assert_false(((Ipc__CreateAnswer *)second.answer)->created);
	asked_done(&first);
	asked_done(&second);
	scene_end(&s);
	buf_done(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_unborn) };
	return cmocka_run_group_tests_name("unborn_topic", tests, NULL, NULL);
}
