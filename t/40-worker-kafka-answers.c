/* SPDX-License-Identifier: Apache-2.0
 *
 * What storaged answers, and what Kafka's clients hear of it: codes, pauses, second tries, and a storaged that goes
 * away and comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/kafka_error.h"
#include "common/must.h"
#include "t/lib/kafka_world.h"

#define V 9

/* ------------------------------------------------------------------ helpers */

static void produce_one(struct client *c, int32_t correlation_id, struct slice batch)
{
	struct part part = { .topic = "t", .batch = batch };
	ask_produce(c, V, correlation_id, -1, &part, 1);
}

static struct slice idempotent(int32_t sequence)
{
	struct slice b = batch_of(1, "x");
	put_be64(bytes_of(b) + 43, 4711);
	put_be16(bytes_of(b) + 51, 0);
	put_be32(bytes_of(b) + 53, (uint32_t)sequence);
	return sealed(b);
}

static const Ipc__SubmitRequest *submitted(size_t index)
{
	return (const Ipc__SubmitRequest *)nth(IPC_SUBMIT, index)->call->request;
}

static int32_t pause_of(const void *response)
{
	return ((const struct kmsg_produce_response *)response)->throttle_time_ms;
}

/* ------------------------------------------------------------------ codes */

/* Of one part, the others being stored; and of the call as a whole. */
static void test_codes(void **state)
{
	static const struct {
		enum pico_error_kind kind;
		int16_t error;
	} rows[] = {
		{ PICO_UNAVAILABLE, KAFKA_KAFKA_STORAGE_ERROR }, { PICO_DURABILITY, KAFKA_REQUEST_TIMED_OUT },
		{ PICO_CANCELLED, KAFKA_KAFKA_STORAGE_ERROR }, { PICO_SEQUENCE_GAP, KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER },
		{ PICO_FENCED, KAFKA_INVALID_PRODUCER_EPOCH }, { PICO_CORRUPT_BATCH, KAFKA_CORRUPT_MESSAGE },
		{ PICO_TOO_LARGE, KAFKA_MESSAGE_TOO_LARGE }, { PICO_NOT_OWNER, KAFKA_NOT_LEADER_OR_FOLLOWER },
		{ PICO_CLOSED, KAFKA_POLICY_VIOLATION }, { PICO_SCHEMA_VIOLATION, KAFKA_INVALID_RECORD },
		{ PICO_BAD_REQUEST, KAFKA_INVALID_REQUEST }, { PICO_GONE, KAFKA_UNKNOWN_TOPIC_OR_PARTITION },
		{ PICO_MATCH_FAILED, KAFKA_UNKNOWN_SERVER_ERROR },
	};
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct part parts[2] = { { .topic = "t", .batch = batch_of(1, "a") }, { .topic = "t", .batch = batch_of(1, "b") } };
		parts[1].partition = 1;
		ask_produce(&c, V, (int32_t)i, 1, parts, 2);
		bool whole = i & 1;
		if (whole)
			give_kind(nth(IPC_SUBMIT, i), rows[i / 2].kind);
		else
			give_part_error(nth(IPC_SUBMIT, i), 1, rows[i / 2].kind);
		const void *a = answer(&c, PRODUCE, V, (int32_t)i);
		assert_int_equal(produced(a, 0)->error_code, whole ? rows[i / 2].error : 0);
		assert_int_equal(produced(a, 0)->base_offset, whole ? -1 : 100);
		assert_int_equal(produced(a, 1)->error_code, rows[i / 2].error);
		assert_int_equal(produced(a, 1)->base_offset, -1);
		assert_memory_equal(produced(a, 1)->error_message.p, "scripted", 8);
		assert_int_equal(pause_of(a), 0);
	}
	client_close(&c);
	world_close();
}

/* A batch that was stored before is a success with the offset it has; one nobody speaks of may be stored. */
static void test_duplicates(void **state)
{
	struct client c;
	struct part parts[3] = { { .topic = "t" }, { .topic = "t", .partition = 1 }, { .topic = "t", .partition = 2 } };
	world_open(NULL);
	for (int i = 0; i < 3; i++)
		parts[i].batch = idempotent(5);
	client_open(&c, k.port);
	ask_produce(&c, V, 1, -1, parts, 3);
	Ipc__SubmitAnswer__Part part[2], *list[2] = { &part[0], &part[1] };
	Ipc__SubmitAnswer a = IPC__SUBMIT_ANSWER__INIT;
	ipc__submit_answer__part__init(&part[0]);
	ipc__submit_answer__part__init(&part[1]);
	part[0].duplicate = true;
	part[0].base_offset = 3;
	part[0].log_append_time_ms = -1;
	part[1].base_offset = 77;
	part[1].log_start = 12;
	part[1].log_append_time_ms = 1234;
	a.n_part = 2;
	a.part = list;
	give(nth(IPC_SUBMIT, 0), &a.base);
	const void *m = answer(&c, PRODUCE, V, 1);
	assert_int_equal(produced(m, 0)->error_code, 0);
	assert_int_equal(produced(m, 0)->base_offset, 3);
	assert_int_equal(produced(m, 0)->log_append_time_ms, -1);
	assert_int_equal(produced(m, 1)->base_offset, 77);
	assert_int_equal(produced(m, 1)->log_start_offset, 12);
	assert_int_equal(produced(m, 1)->log_append_time_ms, 1234);
	assert_int_equal(produced(m, 2)->error_code, KAFKA_REQUEST_TIMED_OUT);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ a pause */

static void expect_pause(struct client *c, size_t next)
{
	uint64_t began = env_now_ms(k.place.env);
	produce_one(c, 99, batch_of(1, "y"));
	place_run_ms(&k.place, 60);
	assert_int_equal(n_calls(IPC_SUBMIT), next); /* it has not been read */
	give_stored(nth(IPC_SUBMIT, next), 1);
	assert_in_range(env_now_ms(k.place.env) - began, 85, SOON);
	assert_int_equal(pause_of(answer(c, PRODUCE, V, 99)), 0);
}

/* THROTTLED is 56 and a pause, which the client is not read for either. */
static void test_throttled(void **state)
{
	struct client c, other;
	world_open(NULL);
	client_open(&c, k.port);
	client_open(&other, k.port);
	produce_one(&c, 1, batch_of(1, "x"));
	give_part_error(nth(IPC_SUBMIT, 0), 0, PICO_THROTTLED);
	const void *a = answer(&c, PRODUCE, V, 1);
	assert_int_equal(produced(a, 0)->error_code, KAFKA_KAFKA_STORAGE_ERROR);
	assert_int_equal(pause_of(a), 100);
	expect_pause(&c, 1);
	produce_one(&c, 2, batch_of(1, "x"));
	give_kind(nth(IPC_SUBMIT, 2), PICO_THROTTLED);
	assert_int_equal(pause_of(answer(&c, PRODUCE, V, 2)), 100);
	produce_one(&other, 3, batch_of(1, "x")); /* others are not meant */
	give_stored(nth(IPC_SUBMIT, 3), 1);
	assert_int_equal(pause_of(answer(&other, PRODUCE, V, 3)), 0);
	/* A look-up that is throttled, too. */
	struct part fresh = { .topic = "u", .batch = batch_of(1, "x") };
	ask_produce(&other, V, 4, 1, &fresh, 1);
	give_kind(nth(IPC_GET_MANY, 1), PICO_THROTTLED);
	a = answer(&other, PRODUCE, V, 4);
	assert_int_equal(produced(a, 0)->error_code, KAFKA_KAFKA_STORAGE_ERROR);
	assert_int_equal(pause_of(a), 100);
	expect_pause(&other, 4);
	client_close(&c);
	client_close(&other);
	world_close();
}

/* The word and the pause of the other APIs. */
static void test_throttled_elsewhere(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	struct kmsg_init_producer_id_request init = { .producer_id = -1, .producer_epoch = -1 };
	ask(&c, INIT_PRODUCER_ID, 4, 1, &init);
	give_kind(nth(IPC_INIT_PRODUCER, 0), PICO_THROTTLED);
	const struct kmsg_init_producer_id_response *i = answer(&c, INIT_PRODUCER_ID, 4, 1);
	assert_int_equal(i->error_code, KAFKA_REQUEST_TIMED_OUT);
	assert_int_equal(i->throttle_time_ms, 100);
	assert_int_equal(i->producer_id, -1);

	struct part part = { .topic = "t", .offset = 1 };
	ask_fetch(&c, 12, 2, (struct fetch_form){ 0 }, &part, 1);
	give_kind(nth(IPC_FETCH, 0), PICO_THROTTLED);
	const struct kmsg_fetch_response *f = answer(&c, FETCH, 12, 2);
	assert_int_equal(f->throttle_time_ms, 100);
	assert_int_equal(fetched(f, 0)->error_code, KAFKA_KAFKA_STORAGE_ERROR);

	struct kmsg_list_offsets_request_partition lp = { .timestamp = -1, .current_leader_epoch = -1 };
	struct kmsg_list_offsets_request_topic lt = { .name = slice_str("t"), .partitions = &lp, .n_partitions = 1 };
	struct kmsg_list_offsets_request list = { .replica_id = -1, .topics = &lt, .n_topics = 1 };
	ask(&c, LIST_OFFSETS, 7, 3, &list);
	give_kind(nth(IPC_LOOKUP, 0), PICO_THROTTLED);
	const struct kmsg_list_offsets_response *l = answer(&c, LIST_OFFSETS, 7, 3);
	assert_int_equal(l->throttle_time_ms, 100);
	assert_int_equal(l->topics[0].partitions[0].error_code, KAFKA_KAFKA_STORAGE_ERROR);
	assert_int_equal(l->topics[0].partitions[0].offset, -1);

	struct kmsg_create_topics_request_topic ct = { .name = slice_str("new"), .num_partitions = 1, .replication_factor = 1 };
	struct kmsg_create_topics_request create = { .topics = &ct, .n_topics = 1, .timeout_ms = 1000 };
	ask(&c, CREATE_TOPICS, 5, 4, &create);
	give_kind(nth(IPC_CREATE_MANY, 0), PICO_THROTTLED);
	const struct kmsg_create_topics_response *t = answer(&c, CREATE_TOPICS, 5, 4);
	assert_int_equal(t->throttle_time_ms, 100);
	assert_int_equal(t->topics[0].error_code, KAFKA_REQUEST_TIMED_OUT);

	struct slice name = slice_str("t");
	struct kmsg_delete_topics_request delete = { .topic_names = &name, .n_topic_names = 1, .timeout_ms = 1000 };
	ask(&c, DELETE_TOPICS, 4, 5, &delete);
	give_kind(nth(IPC_DELETE, 0), PICO_THROTTLED);
	const struct kmsg_delete_topics_response *d = answer(&c, DELETE_TOPICS, 4, 5);
	assert_int_equal(d->throttle_time_ms, 100);
	assert_int_equal(d->responses[0].error_code, KAFKA_REQUEST_TIMED_OUT);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ second tries */

/* The topic changed since it was looked up: it is looked up again, and only its part is submitted again. */
static void test_stale_topic(void **state)
{
	struct client c;
	struct part parts[3] = { { .topic = "t" }, { .topic = "u" }, { .topic = "u", .partition = 6 } };
	world_open(NULL);
	for (int i = 0; i < 3; i++)
		parts[i].batch = batch_of(1, i == 0 ? "first" : "other");
	client_open(&c, k.port);
	ask_produce(&c, V, 1, -1, parts, 3);
	assert_int_equal(submitted(0)->n_part, 2); /* partition 6 is not there yet */
	k.settings_version = 2;
	k.n_partitions = 8;
	give_part_error(nth(IPC_SUBMIT, 0), 1, PICO_STALE_TOPIC);
	const Ipc__SubmitRequest *m = submitted(1);
	assert_int_equal(n_calls(IPC_GET_MANY), 2);
	assert_int_equal(m->n_part, 1);
	assert_int_equal(m->part[0]->settings_version, 2);
	assert_memory_equal(m->part[0]->topic_id.data, id_of("u"), 16);
	assert_memory_equal(nth(IPC_SUBMIT, 1)->payload, parts[1].batch.p, parts[1].batch.n);
	give_stored(nth(IPC_SUBMIT, 1), 700);
	const void *a = answer(&c, PRODUCE, V, 1);
	assert_int_equal(produced(a, 0)->base_offset, 100);
	assert_int_equal(produced(a, 1)->base_offset, 700);
	assert_int_equal(produced(a, 2)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	client_close(&c);
	world_close();
}

/* A topic that changes all the time is given up after three more tries; one that went is asked for in the same way. */
static void test_stale_for_ever(void **state)
{
	static const struct {
		enum pico_error_kind kind;
		int16_t error;
	} rows[] = { { PICO_STALE_TOPIC, KAFKA_NOT_LEADER_OR_FOLLOWER }, { PICO_NOT_FOUND, KAFKA_UNKNOWN_TOPIC_OR_PARTITION } };
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	for (size_t i = 0; i < 2; i++) {
		produce_one(&c, (int32_t)i, batch_of(1, "x"));
		for (size_t n = 0; n < 4; n++)
			give_part_error(nth(IPC_SUBMIT, 4 * i + n), 0, rows[i].kind);
		assert_int_equal(produced(answer(&c, PRODUCE, V, (int32_t)i), 0)->error_code, rows[i].error);
		assert_int_equal(n_calls(IPC_SUBMIT), 4 * (i + 1));
	}
	client_close(&c);
	world_close();
}

/* Batches of a connection do not change places unseen. Two that are stale are submitted again in their order; one that a
 * later one has overtaken, or is about to, is for its client to send again. */
static void test_stale_in_order(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	produce_one(&c, 1, batch_of(1, "1"));
	produce_one(&c, 2, batch_of(1, "2"));
	nth(IPC_SUBMIT, 1);
	k.settings_version++;
	give_part_error(nth(IPC_SUBMIT, 0), 0, PICO_STALE_TOPIC);
	give_part_error(nth(IPC_SUBMIT, 1), 0, PICO_STALE_TOPIC);
	for (int32_t i = 0; i < 2; i++) {
		assert_int_equal(nth(IPC_SUBMIT, 2 + (size_t)i)->payload[nth(IPC_SUBMIT, 2)->payload_n - 2], '1' + i);
		give_stored(nth(IPC_SUBMIT, 2 + (size_t)i), 5);
		answer(&c, PRODUCE, V, 1 + i);
	}
	for (size_t late = 0; late < 2; late++) {
		produce_one(&c, 3, batch_of(1, "3"));
		struct seen *first = nth(IPC_SUBMIT, 4 + 2 * late);
		place_run_ms(&k.place, 1050); /* until what is known of the topic is too old */
		k.settings_version++;
		k.topics_wait = late == 1;
		size_t asked = n_calls(IPC_GET_MANY);
		produce_one(&c, 4, batch_of(1, "4"));
		nth(late ? IPC_GET_MANY : IPC_SUBMIT, late ? asked : 5);
		give_part_error(first, 0, PICO_STALE_TOPIC);
		k.topics_wait = false;
		assert_int_equal(produced(answer(&c, PRODUCE, V, 3), 0)->error_code, KAFKA_NOT_LEADER_OR_FOLLOWER);
		give_stored(nth(IPC_SUBMIT, 5 + 2 * late), 8);
		assert_int_equal(produced(answer(&c, PRODUCE, V, 4), 0)->base_offset, 8);
	}
	assert_int_equal(n_calls(IPC_SUBMIT), 8);
	client_close(&c);
	world_close();
}

static void test_log_append_time(void **state)
{
	struct client c;
	world_open(NULL);
	k.config[0] = "message.timestamp.type";
	k.config[1] = "LogAppendTime";
	client_open(&c, k.port);
	produce_one(&c, 1, batch_of(1, "x"));
	assert_true(submitted(0)->part[0]->log_append_time);
	k.config[1] = "CreateTime";
	k.settings_version++;
	give_part_error(nth(IPC_SUBMIT, 0), 0, PICO_STALE_TOPIC);
	assert_false(submitted(1)->part[0]->log_append_time);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ storaged goes away */

static bool is_away(void *arg)
{
	return !topics_is_connected(k.worker.topics);
}

static void restart(uint64_t boot_id)
{
	place_down(&k.place);
	assert_true(place_run(&k.place, is_away, NULL, SOON));
	place_up(&k.place, boot_id);
	peers_serve(k.place.peers);
}

/* Client connections stay. What may not be sent twice is answered: it may be stored; everything else is sent again. */
static void test_restart(void **state)
{
	struct client plain, safe, mixed, fetch, init;
	struct part known = { .topic = "t", .offset = 3 }, parts[2] = { { .topic = "t" }, { .topic = "t", .partition = 1 } };
	world_open(NULL);
	client_open(&plain, k.port);
	client_open(&safe, k.port);
	client_open(&mixed, k.port);
	client_open(&fetch, k.port);
	client_open(&init, k.port);
	produce_one(&plain, 1, batch_of(1, "x"));
	produce_one(&safe, 2, idempotent(0));
	produce_one(&safe, 3, idempotent(1));
	parts[0].batch = idempotent(7);
	parts[1].batch = batch_of(1, "x");
	ask_produce(&mixed, V, 4, -1, parts, 2);
	nth(IPC_SUBMIT, 3);
	ask_fetch(&fetch, 12, 5, (struct fetch_form){ .max_wait_ms = 20000, .min_bytes = 1 }, &known, 1);
	nth(IPC_FETCH, 0);
	struct kmsg_init_producer_id_request m = { .producer_id = -1, .producer_epoch = -1 };
	ask(&init, INIT_PRODUCER_ID, 4, 6, &m);
	nth(IPC_INIT_PRODUCER, 0);
	restart(2);
	assert_int_equal(produced(answer(&plain, PRODUCE, V, 1), 0)->error_code, KAFKA_REQUEST_TIMED_OUT);
	const void *a = answer(&mixed, PRODUCE, V, 4);
	assert_int_equal(produced(a, 0)->error_code, KAFKA_REQUEST_TIMED_OUT);
	assert_int_equal(produced(a, 1)->error_code, KAFKA_REQUEST_TIMED_OUT);
	nth(IPC_SUBMIT, 1);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(get_be32(nth(IPC_SUBMIT, i)->payload + 53), i); /* in their first order */
		give_stored(nth(IPC_SUBMIT, i), 50 + i);
		assert_int_equal(produced(answer(&safe, PRODUCE, V, 2 + (int32_t)i), 0)->base_offset, 50 + i);
	}
	struct found none = { .start = 1, .confirm = 3 };
	give_fetched(nth(IPC_FETCH, 0), NULL, &none, 1);
	assert_int_equal(fetched(answer(&fetch, FETCH, 12, 5), 0)->high_watermark, 3);
	Ipc__InitProducerAnswer id = IPC__INIT_PRODUCER_ANSWER__INIT;
	id.producer_id = 1000;
	give(nth(IPC_INIT_PRODUCER, 0), &id.base);
	assert_int_equal(((const struct kmsg_init_producer_id_response *)answer(&init, INIT_PRODUCER_ID, 4, 6))->producer_id, 1000);
	assert_int_equal(n_calls(IPC_SUBMIT), 2);
	/* And all of them go on. */
	struct client *all[] = { &plain, &safe, &mixed, &fetch, &init };
	for (size_t i = 0; i < 5; i++) {
		produce_one(all[i], 10, batch_of(1, "y"));
		give_stored(nth(IPC_SUBMIT, 2 + i), 60);
		assert_int_equal(produced(answer(all[i], PRODUCE, V, 10), 0)->base_offset, 60);
		client_close(all[i]);
	}
	world_close();
}

/* What refuses the second copy of a batch knows nothing of the first, which may be stored. */
static void test_second_copy_refused(void **state)
{
	static const struct {
		enum pico_error_kind kind;
		int16_t error;
	} rows[] = { { PICO_UNAVAILABLE, KAFKA_REQUEST_TIMED_OUT }, { PICO_THROTTLED, KAFKA_REQUEST_TIMED_OUT },
		     { PICO_CANCELLED, KAFKA_REQUEST_TIMED_OUT }, { PICO_FENCED, KAFKA_INVALID_PRODUCER_EPOCH } };
	struct client c;
	struct part parts[2] = { { .topic = "t" }, { .topic = "t", .partition = 1 } };
	world_open(NULL);
	client_open(&c, k.port);
	parts[0].batch = parts[1].batch = idempotent(0);
	for (int32_t i = 0; i < 4; i++)
		ask_produce(&c, V, i, -1, parts, 2);
	nth(IPC_SUBMIT, 3);
	restart(2);
	for (size_t i = 0; i < 4; i++) {
		give_part_error(nth(IPC_SUBMIT, i), 1, rows[i].kind);
		const void *a = answer(&c, PRODUCE, V, (int32_t)i);
		assert_int_equal(produced(a, 0)->base_offset, 100);
		assert_int_equal(produced(a, 1)->error_code, rows[i].error);
		assert_int_equal(pause_of(a), 0);
	}
	ask_produce(&c, V, 9, -1, parts, 2);
	give_part_error(nth(IPC_SUBMIT, 4), 1, PICO_UNAVAILABLE); /* of its only copy */
	assert_int_equal(produced(answer(&c, PRODUCE, V, 9), 1)->error_code, KAFKA_KAFKA_STORAGE_ERROR);
	client_close(&c);
	world_close();
}

/* What comes while storaged is away waits for it; over its deadline it was never sent, so nothing happened. */
static void test_away(void **state)
{
	struct client c, d;
	world_open(NULL);
	k.worker.child.conf.request_timeout_ms = 400;
	client_open(&c, k.port);
	client_open(&d, k.port);
	produce_one(&c, 1, batch_of(1, "x"));
	give_stored(nth(IPC_SUBMIT, 0), 1);
	answer(&c, PRODUCE, V, 1);
	place_down(&k.place);
	assert_true(place_run(&k.place, is_away, NULL, SOON));
	uint64_t began = env_now_ms(k.place.env);
	produce_one(&c, 2, batch_of(1, "late"));
	assert_int_equal(produced(answer(&c, PRODUCE, V, 2), 0)->error_code, KAFKA_KAFKA_STORAGE_ERROR);
	assert_in_range(env_now_ms(k.place.env) - began, 395, SOON);
	produce_one(&c, 3, batch_of(1, "soon"));
	produce_one(&d, 4, batch_of(1, "soon"));
	place_run_ms(&k.place, 20);
	place_up(&k.place, 2);
	peers_serve(k.place.peers);
	give_stored(nth(IPC_SUBMIT, 0), 5);
	give_stored(nth(IPC_SUBMIT, 1), 6);
	assert_int_equal(produced(answer(&c, PRODUCE, V, 3), 0)->base_offset, 5);
	assert_int_equal(produced(answer(&d, PRODUCE, V, 4), 0)->base_offset, 6);
	client_close(&c);
	client_close(&d);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes), cmocka_unit_test(test_duplicates), cmocka_unit_test(test_throttled),
		cmocka_unit_test(test_throttled_elsewhere), cmocka_unit_test(test_stale_topic),
		cmocka_unit_test(test_stale_for_ever), cmocka_unit_test(test_stale_in_order),
		cmocka_unit_test(test_log_append_time), cmocka_unit_test(test_restart), cmocka_unit_test(test_second_copy_refused),
		cmocka_unit_test(test_away),
	};
	return cmocka_run_group_tests_name("worker-kafka-answers", tests, NULL, NULL);
}
