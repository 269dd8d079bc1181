/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls with many partitions against a whole node: batches as Kafka clients make them, idempotent producers over
 * restarts, lookups by time, producer ids. Fetches stand in node_fetch.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/parts.h"
#include "t/unit/node_kafka.h"
#include "t/unit/node_world.h"

static void restart(void)
{
	node_down();
	node_up();
}

static void topic_make(const char *name, uint32_t partitions, uint8_t ret_id[16])
{
	struct asked a;
	memcpy(ret_id, create(&a, name, partitions)->topic_id.data, 16);
	asked_done(&a);
}

/* -------------------------------------------------------------------- submit */

static void test_many_partitions(void **state)
{
	struct client_batch b = { .n = 3, .producer_id = -1 };
	struct submit s;
	uint8_t id[16];
	topic_make("/k/many", 500, id);
	submit_begin(&s);
	for (uint32_t i = 0; i < 500; i++)
		submit_add(&s, id, i, &b);
	uint64_t puts = metrics->value[METRIC_WAL_PUTS];
	submit_do(&s);
	assert_int_equal(metrics->value[METRIC_WAL_PUTS] - puts, 1);
	for (uint32_t i = 0; i < 500; i++) {
		assert_null(submit_part(&s, i)->error);
		assert_int_equal(submit_part(&s, i)->base_offset, 0);
		assert_int_equal(submit_part(&s, i)->log_append_time_ms, -1);
		assert_false(submit_part(&s, i)->duplicate);
	}
	submit_done(&s);
	assert_int_equal(offsets("/k/many", 0).confirm, 3);
	assert_int_equal(offsets("/k/many", 499).confirm, 3);
}

struct bad_batch {
	struct client_batch b;
	int flip;                       /* a byte that is changed behind the checksum */
	enum pico_error_kind kind;
};

static const struct bad_batch bad_batches[] = {
	{ { .n = 1, .producer_id = -1, .attributes = BATCH_TRANSACTIONAL }, 0, PICO_BAD_REQUEST },
	{ { .n = 1, .producer_id = 5, .attributes = BATCH_TRANSACTIONAL }, 0, PICO_BAD_REQUEST },
	{ { .n = 1, .producer_id = -1, .attributes = BATCH_CONTROL }, 0, PICO_SCHEMA_VIOLATION },
	{ { .n = 1, .producer_id = -1, .attributes = BATCH_CONTROL | BATCH_TRANSACTIONAL }, 0, PICO_SCHEMA_VIOLATION },
	{ { .n = 1, .producer_id = -1, .attributes = 5 }, 0, PICO_SCHEMA_VIOLATION },           /* no such codec */
	{ { .n = 2, .producer_id = -1, .last_delta = 2 }, 0, PICO_SCHEMA_VIOLATION },
	{ { .n = 1, .producer_id = -1, .count = 1000 }, 0, PICO_SCHEMA_VIOLATION },
	{ { .n = 1, .producer_id = 5, .epoch = -1 }, 0, PICO_SCHEMA_VIOLATION },
	{ { .n = 1, .producer_id = 5, .sequence = -1 }, 0, PICO_SCHEMA_VIOLATION },
	{ { .n = 1, .producer_id = -1 }, 64, PICO_CORRUPT_BATCH },
	{ { .n = 1, .producer_id = -1 }, 30, PICO_CORRUPT_BATCH },
	{ { .n = 1, .producer_id = -1 }, 16, PICO_SCHEMA_VIOLATION },                           /* magic */
	{ { .n = 1, .producer_id = -1 }, 11, PICO_SCHEMA_VIOLATION },                           /* length */
};
#define N_BAD (sizeof(bad_batches) / sizeof(bad_batches[0]))

static void test_errors_by_part(void **state)
{
	struct client_batch good = { .n = 1, .producer_id = -1 };
	struct submit s;
	uint8_t id[16], none[16] = { 9 };
	topic_make("/k/errors", 2, id);
	submit_begin(&s);
	for (size_t i = 0; i < N_BAD; i++) {
		struct slice at = submit_add(&s, id, 0, &bad_batches[i].b);
		if (bad_batches[i].flip != 0)
			((uint8_t *)at.p)[bad_batches[i].flip] ^= 1;
	}
	submit_add(&s, id, 1, &good);
	submit_add(&s, id, 2, &good);
	submit_add(&s, none, 0, &good);
	submit_add(&s, id, 1, &good);
	submit_do(&s);
	for (size_t i = 0; i < N_BAD; i++) {
		assert_non_null(submit_part(&s, i)->error);
		assert_int_equal(submit_part(&s, i)->error->kind, bad_batches[i].kind);
	}
	assert_int_equal(submit_part(&s, N_BAD)->base_offset, 0);
	assert_int_equal(submit_part(&s, N_BAD + 1)->error->kind, PICO_NO_PARTITION);
	assert_int_equal(submit_part(&s, N_BAD + 2)->error->kind, PICO_NOT_FOUND);
	assert_int_equal(submit_part(&s, N_BAD + 3)->base_offset, 1);
	submit_done(&s);
	assert_int_equal(offsets("/k/errors", 0).next, 0);
	assert_int_equal(offsets("/k/errors", 1).confirm, 2);
}

static void test_whole_request(void **state)
{
	struct client_batch good = { .n = 1, .producer_id = -1 };
	struct submit s;
	struct asked a;
	uint8_t id[16];
	topic_make("/k/whole", 1, id);
	submit_begin(&s);
	refuse(IPC_SUBMIT, &s.m.base, slice_of(NULL, 0), PICO_BAD_REQUEST);     /* no part */
	submit_add(&s, id, 0, &good);
	struct slice all = submit_request(&s);
	refuse(IPC_SUBMIT, &s.m.base, slice_of(all.p, all.n - 1), PICO_BAD_REQUEST);
	s.m.part[0]->length++;
	refuse(IPC_SUBMIT, &s.m.base, all, PICO_BAD_REQUEST);
	s.m.part[0]->length--;
	Ipc__SubmitRequest__Part empty = *s.m.part[0];
	empty.length = 0;
	s.m.part[s.m.n_part++] = &empty;
	refuse(IPC_SUBMIT, &s.m.base, all, PICO_BAD_REQUEST);
	s.m.n_part--;
	s.m.part[0]->settings_version = 1;
	ask(&a, IPC_SUBMIT, &s.m.base, all);
	assert_null(((Ipc__SubmitAnswer *)a.answer)->part[0]->error);
	asked_done(&a);
	submit_done(&s);
}

/* The bytes that come back are the client's, but for 0-7 and 12-15; whatever the codec bits say of the inside. */
static void test_bytes_stay(void **state)
{
	uint8_t id[16];
	topic_make("/k/bytes", 1, id);
	for (uint16_t codec = 0; codec <= 4; codec++) {
		struct client_batch b = {
			.n = 2, .attributes = codec, .producer_id = 77, .epoch = 3, .sequence = codec * 2, .base_ms = -5,
			.max_ms = 1234567 + codec, .word = "value",
		};
		struct submit s;
		submit_begin(&s);
		struct slice sent = submit_add(&s, id, 0, &b);
		sent = slice_of(must_memdup(sent.p, sent.n), sent.n);
		submit_do(&s);
		assert_int_equal(submit_part(&s, 0)->base_offset, codec * 2);
		submit_done(&s);
		struct buf got;
		fetch_bytes(id, 0, codec * 2, &got);
		assert_int_equal(buf_len(&got), sent.n);
		const uint8_t *p = buf_head(&got);
		assert_int_equal(get_be64(p), codec * 2);
		assert_int_equal(get_be32(p + 12), 0);                          /* the first epoch */
		assert_memory_equal(p + 8, sent.p + 8, 4);
		assert_memory_equal(p + 16, sent.p + 16, sent.n - 16);
		buf_done(&got);
		free((void *)sent.p);
	}
}

static void test_log_append_time(void **state)
{
	struct client_batch b = { .n = 2, .attributes = 2, .producer_id = -1, .base_ms = 1000, .max_ms = 1001 };
	struct submit s;
	uint8_t id[16];
	topic_make("/k/time", 1, id);
	submit_begin(&s);
	submit_add(&s, id, 0, &b);
	s.part[0].log_append_time = true;
	int64_t before = env_wall_ms(env);
	submit_do(&s);
	int64_t time = submit_part(&s, 0)->log_append_time_ms;
	assert_true(time >= before - 1000 && time <= env_wall_ms(env) + 1000);
	submit_done(&s);
	struct buf got;
	struct record_batch r;
	fetch_bytes(id, 0, 0, &got);
	assert_int_equal(record_batch_read(buf_slice(&got), &r), 0);
	assert_true(record_batch_crc_is_good(&r));
	assert_int_equal(r.attributes, 2 | BATCH_LOG_APPEND_TIME);
	assert_int_equal(r.base_timestamp, 1000);
	assert_int_equal(r.max_timestamp, time);
	buf_done(&got);
}

/* ----------------------------------------------------------------- producers */

/* One batch of n records; returns its base offset. */
static uint64_t produce(const uint8_t id[16], int64_t pid, int16_t epoch, int32_t sequence, uint32_t n, bool duplicate)
{
	struct client_batch b = { .n = n, .producer_id = pid, .epoch = epoch, .sequence = sequence };
	struct submit s;
	submit_begin(&s);
	submit_add(&s, id, 0, &b);
	submit_do(&s);
	const Ipc__SubmitAnswer__Part *p = submit_part(&s, 0);
	if (p->error != NULL)
		fail_msg("submit: %s", p->error->message);
	assert_int_equal(p->duplicate, duplicate);
	uint64_t base = p->base_offset;
	submit_done(&s);
	return base;
}

static void produce_refused(const uint8_t id[16], int64_t pid, int16_t epoch, int32_t sequence,
			    enum pico_error_kind kind, uint64_t detail)
{
	struct client_batch b = { .n = 1, .producer_id = pid, .epoch = epoch, .sequence = sequence };
	struct submit s;
	submit_begin(&s);
	submit_add(&s, id, 0, &b);
	submit_do(&s);
	const Ipc__Error *e = submit_part(&s, 0)->error;
	assert_non_null(e);
	assert_int_equal(e->kind, kind);
	if (kind == PICO_FENCED)
		assert_int_equal(e->producer_epoch, detail);
	else
		assert_int_equal(e->expected_seq, detail);
	submit_done(&s);
}

static void test_producers_over_restarts(void **state)
{
	uint8_t id[16];
	topic_make("/k/idem", 1, id);
	assert_int_equal(produce(id, 40, 0, 100, 2, false), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(produce(id, 40, 0, 102 + i, 1, false), 2 + i);
	assert_int_equal(produce(id, 41, 7, INT32_MAX, 2, false), 7);   /* over the end of the numbers */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5; i++)
			assert_int_equal(produce(id, 40, 0, 102 + i, 1, true), 2 + i);
		assert_int_equal(produce(id, 41, 7, INT32_MAX, 2, true), 7);
		produce_refused(id, 40, 0, 100, PICO_SEQUENCE_GAP, 107);
		produce_refused(id, 40, 0, 108, PICO_SEQUENCE_GAP, 107);
		produce_refused(id, 40, 1, 5, PICO_SEQUENCE_GAP, 0);
		produce_refused(id, 41, 6, 0, PICO_FENCED, 7);
		assert_int_equal(offsets("/k/idem", 0).next, 9);
		restart();
	}
	assert_int_equal(produce(id, 41, 7, 1, 1, false), 9);
	assert_int_equal(produce(id, 40, 1, 0, 1, false), 10);
	restart();
	produce_refused(id, 40, 0, 107, PICO_FENCED, 1);
	assert_int_equal(produce(id, 40, 1, 0, 1, true), 10);
}

/* Duplicates and refusals that rest on a batch in flight come behind it, not before. */
static void test_in_flight(void **state)
{
	struct submit s[4];
	uint8_t id[16];
	topic_make("/k/flight", 1, id);
	for (int i = 0; i < 4; i++) {
		/* the batch, itself again, the next, one too far */
		struct client_batch b = { .n = 1, .producer_id = 9, .sequence = i == 3 ? 7 : i / 2 };
		submit_begin(&s[i]);
		submit_add(&s[i], id, 0, &b);
		struct slice all = submit_request(&s[i]);
		ask_start(&s[i].asked, IPC_SUBMIT, &s[i].m.base, all, 10000);
	}
	for (int i = 0; i < 4; i++)
		assert_false(s[i].asked.done);
	for (int i = 0; i < 4; i++)
		run_until(&s[i].asked.done);
	assert_int_equal(submit_part(&s[0], 0)->base_offset, 0);
	assert_false(submit_part(&s[0], 0)->duplicate);
	assert_int_equal(submit_part(&s[1], 0)->base_offset, 0);
	assert_true(submit_part(&s[1], 0)->duplicate);
	assert_int_equal(submit_part(&s[2], 0)->base_offset, 1);
	assert_int_equal(submit_part(&s[3], 0)->error->kind, PICO_SEQUENCE_GAP);
	assert_int_equal(submit_part(&s[3], 0)->error->expected_seq, 2);
	for (int i = 0; i < 4; i++)
		submit_done(&s[i]);
}

/* -------------------------------------------------------------------- lookup */

static Ipc__LookupAnswer__Part lookup(const uint8_t id[16], Ipc__LookupRequest__What what, int64_t time, int32_t epoch)
{
	struct asked a;
	Ipc__LookupRequest r = IPC__LOOKUP_REQUEST__INIT;
	Ipc__LookupRequest__Part part = IPC__LOOKUP_REQUEST__PART__INIT, *pointer = &part;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	part.what = what;
	part.timestamp_ms = time;
	part.leader_epoch = epoch;
	r.n_part = 1;
	r.part = &pointer;
	ask(&a, IPC_LOOKUP, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__LookupAnswer__Part answer = *((Ipc__LookupAnswer *)a.answer)->part[0];
	if (answer.error != NULL) {
		answer.offset = answer.error->kind;
		answer.found = false;
	}
	answer.error = NULL;
	asked_done(&a);
	return answer;
}

static void assert_lookup(const uint8_t id[16], int64_t time, bool found, uint64_t offset, int64_t max)
{
	Ipc__LookupAnswer__Part a = lookup(id, IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER, time, -1);
	assert_int_equal(a.found, found);
	if (found) {
		assert_int_equal(a.offset, offset);
		assert_int_equal(a.max_timestamp_ms, max);
	}
}

static void check_lookups(const uint8_t id[16])
{
	static const uint64_t none[2] = { 8, 8 };
	assert_lookup(id, INT64_MIN, true, 0, 500);
	assert_lookup(id, 500, true, 0, 500);
	assert_lookup(id, 501, true, 4, 900);       /* 300 at 2 is skipped, 900 comes before 700 */
	assert_lookup(id, 701, true, 4, 900);
	assert_lookup(id, 900, true, 4, 900);
	assert_lookup(id, 901, false, 0, 0);
	Ipc__LookupAnswer__Part a = lookup(id, IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP, 0, 0);
	assert_true(a.found);
	assert_int_equal(a.offset, 4);              /* the first of the two with 900 */
	assert_int_equal(a.max_timestamp_ms, 900);
	assert_int_equal(a.leader_epoch, 0);
	assert_int_equal(lookup(id, IPC__LOOKUP_REQUEST__WHAT__START, 0, -1).offset, 0);
	assert_int_equal(lookup(id, IPC__LOOKUP_REQUEST__WHAT__END, 0, -1).offset, 10);
	assert_int_equal(lookup(id, IPC__LOOKUP_REQUEST__WHAT__END, 0, 1).offset, PICO_UNAVAILABLE);
	assert_int_equal(lookup((const uint8_t *)none, IPC__LOOKUP_REQUEST__WHAT__END, 0, 1).offset, PICO_NOT_FOUND);
}

static void test_lookup(void **state)
{
	static const int64_t times[] = { 500, 300, 900, 700, 900 };
	uint8_t id[16];
	topic_make("/k/lookup", 1, id);
	assert_lookup(id, 0, false, 0, 0);
	assert_false(lookup(id, IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP, 0, -1).found);
	for (size_t i = 0; i < 5; i++) {
		struct client_batch b = { .n = 2, .producer_id = -1, .max_ms = times[i] };
		struct submit s;
		submit_begin(&s);
		submit_add(&s, id, 0, &b);
		submit_do(&s);
		submit_done(&s);
	}
	check_lookups(id);
	restart();
	check_lookups(id);
}

static void times_append(const uint8_t id[16], const int64_t *times, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct client_batch b = { .n = 2, .producer_id = -1, .max_ms = times[i] };
		struct submit s;
		submit_begin(&s);
		submit_add(&s, id, 0, &b);
		submit_do(&s);
		submit_done(&s);
	}
}

static void trim(const char *name, int64_t offset)
{
	struct asked a;
	struct log_name log;
	Ipc__TrimRequest r = IPC__TRIM_REQUEST__INIT;
	r.log = log_ref(&log, name, 0);
	r.offset = offset;
	ask(&a, IPC_TRIM, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

static void assert_latest(const uint8_t id[16], uint64_t offset, int64_t max)
{
	Ipc__LookupAnswer__Part a = lookup(id, IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP, 0, -1);
	assert_true(a.found);
	assert_int_equal(a.offset, offset);
	assert_int_equal(a.max_timestamp_ms, max);
}

/* A time that is trimmed is found no more, whether it stood in the arena or in the same block as what is left. */
static void check_trimmed_lookups(const uint8_t id[16])
{
	assert_lookup(id, INT64_MIN, true, 2, 300);
	assert_lookup(id, 301, true, 4, 900);
	assert_lookup(id, 901, false, 0, 0);
	assert_latest(id, 4, 900);
}

static bool is_packed(uint64_t before)
{
	return metrics->value[METRIC_PACKS] > before && metrics->value[METRIC_ARENA_UNPACKED_BYTES] == 0;
}

/* What ended sessions wrote is packed soon after the start. */
static void restart_and_pack(void)
{
	bool never = false;
	uint64_t before = metrics->value[METRIC_PACKS];
	restart();
	for (int i = 0; i < 200 && !is_packed(before); i++)
		run_for(&never, 50);
	assert_true(is_packed(before));
}

static void test_lookup_after_trim(void **state)
{
	static const int64_t times[] = { 4070908800000, 300, 900, 0, 700 };     /* 2099, .. 1970 */
	static const int64_t later[] = { 950 };
	uint8_t early[16], late[16];    /* trimmed before the pack, after it */
	topic_make("/k/early", 1, early);
	topic_make("/k/late", 1, late);
	times_append(early, times, 5);
	times_append(late, times, 5);
	assert_lookup(early, 901, true, 0, 4070908800000);
	trim("/k/early", 2);
	check_trimmed_lookups(early);
	restart_and_pack();
	check_trimmed_lookups(early);
	assert_lookup(late, 901, true, 0, 4070908800000);
	trim("/k/late", 2);
	check_trimmed_lookups(late);
	restart();                      /* nothing of them stands in the arena any more */
	check_trimmed_lookups(late);
	times_append(early, later, 1);
	assert_latest(early, 10, 950);
	times_append(late, later, 1);
	assert_latest(late, 10, 950);
	assert_lookup(late, 901, true, 10, 950);
	assert_lookup(late, 301, true, 4, 900);
	trim("/k/late", 5);             /* inside of the batch with 900: where the log begins is where to look */
	assert_lookup(late, 301, true, 5, 900);
	assert_int_equal(lookup(late, IPC__LOOKUP_REQUEST__WHAT__START, 0, -1).offset, 5);
}

/* ---------------------------------------------------------------- descriptions */

static size_t append_as(const uint8_t id[16], uint32_t partition, int64_t producer_id, int32_t sequence)
{
	struct client_batch b = { .n = 2, .producer_id = producer_id, .sequence = sequence };
	struct submit s;
	submit_begin(&s);
	size_t n = submit_add(&s, id, partition, &b).n;
	submit_do(&s);
	assert_null(submit_part(&s, 0)->error);
	submit_done(&s);
	return n;
}

/* What is said of that partition and of one that is not there; the producers as "id/last", in that order. */
static void assert_described(const uint8_t id[16], uint32_t partition, uint64_t bytes, const char *producers)
{
	struct asked a;
	Ipc__DescribeLogsRequest r = IPC__DESCRIBE_LOGS_REQUEST__INIT;
	Ipc__DescribeLogsRequest__Part part[2] = { IPC__DESCRIBE_LOGS_REQUEST__PART__INIT, IPC__DESCRIBE_LOGS_REQUEST__PART__INIT };
	Ipc__DescribeLogsRequest__Part *list[2] = { &part[0], &part[1] };
	char text[200] = "";
	size_t n = 0;
	part[0].topic_id = part[1].topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	part[0].partition = partition;
	part[1].partition = 99;
	r.part = list;
	r.n_part = 2;
	r.producers = producers != NULL;
	ask(&a, IPC_DESCRIBE_LOGS, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__DescribeLogsAnswer *m = (const Ipc__DescribeLogsAnswer *)a.answer;
	assert_int_equal(m->n_part, 2);
	assert_null(m->part[0]->error);
	assert_int_equal(m->part[0]->bytes, bytes);
	for (size_t i = 0; i < m->part[0]->n_producer; i++) {
		const Ipc__DescribeLogsAnswer__Producer *p = m->part[0]->producer[i];
		n += (size_t)sprintf(text + n, "%s%d/%d", n > 0 ? " " : "", (int)p->producer_id, p->last_sequence);
		assert_true(p->last_ms > 0);
	}
	assert_string_equal(text, producers != NULL ? producers : "");
	assert_int_equal(m->part[1]->error->kind, PICO_NO_PARTITION);
	asked_done(&a);
}

static void test_describe(void **state)
{
	struct asked a;
	static Ipc__DescribeLogsRequest__Part part = IPC__DESCRIBE_LOGS_REQUEST__PART__INIT, *list[DESCRIBE_PARTS_MAX + 1];
	Ipc__DescribeLogsRequest r = IPC__DESCRIBE_LOGS_REQUEST__INIT;
	uint8_t id[16];
	topic_make("/k/described", 2, id);
	assert_described(id, 0, 0, "");
	size_t n = append_as(id, 0, -1, -1);
	for (int i = 0; i < 7; i++)
		n += append_as(id, 0, 40, 2 * i);
	n += append_as(id, 0, 41, 0);
	assert_described(id, 0, n, "40/13 41/1");
	assert_described(id, 0, n, NULL);
	assert_described(id, 1, 0, "");
	restart();
	assert_described(id, 0, n, "40/13 41/1");
	restart_and_pack();
	restart();                      /* its state is read from an object */
	assert_described(id, 0, n, "40/13 41/1");
	trim("/k/described", 9);        /* of 18 */
	assert_described(id, 0, n / 2, "40/13 41/1");
	trim("/k/described", 18);
	assert_described(id, 0, 0, "40/13 41/1");
	for (size_t i = 0; i <= DESCRIBE_PARTS_MAX; i++)
		list[i] = &part;
	r.part = list;
	r.n_part = DESCRIBE_PARTS_MAX + 1;
	ask(&a, IPC_DESCRIBE_LOGS, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_BAD_REQUEST);
	asked_done(&a);
	r.n_part--;
	ask(&a, IPC_DESCRIBE_LOGS, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	asked_done(&a);
}

/* ------------------------------------------------------------- producer ids */

static Ipc__InitProducerAnswer init_producer(void)
{
	struct asked a;
	Ipc__InitProducerRequest r = IPC__INIT_PRODUCER_REQUEST__INIT;
	ask(&a, IPC_INIT_PRODUCER, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	Ipc__InitProducerAnswer x = *(Ipc__InitProducerAnswer *)a.answer;
	asked_done(&a);
	return x;
}

static void test_init_producer(void **state)
{
	Ipc__InitProducerAnswer a = init_producer(), b;
	for (int i = 0; i < 2100; i++) {
		b = init_producer();
		assert_int_equal(b.producer_epoch, 0);
		assert_int_equal(b.producer_id, a.producer_id + 1);
		a = b;
	}
	restart();
	assert_true(init_producer().producer_id >= 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_partitions), cmocka_unit_test(test_errors_by_part),
		cmocka_unit_test(test_whole_request), cmocka_unit_test(test_bytes_stay),
		cmocka_unit_test(test_log_append_time), cmocka_unit_test(test_producers_over_restarts),
		cmocka_unit_test(test_in_flight), cmocka_unit_test(test_lookup), cmocka_unit_test(test_lookup_after_trim),
		cmocka_unit_test(test_init_producer), cmocka_unit_test(test_describe),
	};
	return cmocka_run_group_tests_name("node_kafka", tests, world_set_up, world_tear_down);
}
