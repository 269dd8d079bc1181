/* SPDX-License-Identifier: Apache-2.0
 *
 * ListOffsets: what storaged is asked of each timestamp, and where a time is found in the batches that it names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/kafka_error.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/lib/kafka_world.h"

#define V 8
#define CONFIRM 100
#define RECORD 9                /* bytes of one with the value "v" */

enum { LATEST = -1, EARLIEST = -2, MAX_TIMESTAMP = -3, EARLIEST_LOCAL = -4 };

/* ------------------------------------------------------------------ helpers */

static void ask_offset(struct client *c, int16_t version, int32_t correlation_id, int64_t timestamp)
{
	struct kmsg_list_offsets_request_partition p = { .partition_index = 2, .timestamp = timestamp, .current_leader_epoch = 3 };
	struct kmsg_list_offsets_request_topic t = { .name = slice_str("t"), .partitions = &p, .n_partitions = 1 };
	struct kmsg_list_offsets_request m = { .replica_id = -1, .topics = &t, .n_topics = 1 };
	ask(c, LIST_OFFSETS, version, correlation_id, &m);
}

static void give_lookup(struct seen *s, bool found, uint64_t offset)
{
	Ipc__LookupAnswer a = IPC__LOOKUP_ANSWER__INIT;
	Ipc__LookupAnswer__Part part = IPC__LOOKUP_ANSWER__PART__INIT, *list = &part;
	part.found = found;
	part.offset = offset;
	part.leader_epoch = 3;
	a.n_part = 1;
	a.part = &list;
	give(s, &a.base);
}

/* Puts a batch whose records have these times into the stock; its end there. */
static uint32_t put_batch(struct stock *s, uint32_t at, uint64_t base, const uint8_t *times, unsigned n, int64_t max)
{
	struct slice b = batch_of(n, "v");
	uint8_t *p = bytes_of(b);
	must(b.n == RECORD_BATCH_HEADER + RECORD * n);
	for (unsigned i = 0; i < n; i++)
		p[RECORD_BATCH_HEADER + RECORD * i + 2] = (uint8_t)(2 * times[i]); /* zigzag */
	put_be64(p + 27, 0);
	put_be64(p + 35, (uint64_t)max);
	sealed(b);
	record_batch_place(p, base, 1);
	memcpy(s->segment.mem.base + at, p, b.n);
	return at + (uint32_t)b.n;
}

/* Answers a read with what lies in the stock from begin to end. */
static void give_read(struct seen *s, struct stock *stock, uint32_t begin, uint32_t end, uint64_t end_offset)
{
	Ipc__ReadAnswer a = IPC__READ_ANSWER__INIT;
	a.confirm = CONFIRM;
	a.end = end_offset;
	if (end > begin) {
		s->call->pieces = must_calloc(1, sizeof(struct piece));
		s->call->pieces[0] = (struct piece){ .segment = &stock->segment, .pin = &stock->pin, .offset = begin,
						     .length = end - begin };
		s->call->n_pieces = 1;
		pin_take(&stock->pin);
	}
	give(s, &a.base);
}

static void expect_read(size_t index, int64_t from, uint32_t max_bytes)
{
	const Ipc__ReadRequest *m = (const Ipc__ReadRequest *)nth(IPC_READ, index)->call->request;
	assert_memory_equal(m->log->topic->topic_id.data, id_of("t"), 16);
	assert_int_equal(m->log->partition, 2);
	assert_true(m->partition_given);
	assert_int_equal(m->from, from);
	assert_int_equal(m->max_bytes, max_bytes);
}

static void expect_offset(struct client *c, int32_t correlation_id, int64_t offset, int64_t timestamp, int32_t epoch)
{
	const struct kmsg_list_offsets_response *a = answer(c, LIST_OFFSETS, V, correlation_id);
	const struct kmsg_list_offsets_response_partition *p = &a->topics[0].partitions[0];
	assert_int_equal(p->partition_index, 2);
	assert_int_equal(p->error_code, 0);
	assert_int_equal(p->offset, offset);
	assert_int_equal(p->timestamp, timestamp);
	assert_int_equal(p->leader_epoch, epoch);
}

/* ------------------------------------------------------------------ questions */

static void test_questions(void **state)
{
	static const struct {
		int16_t version;
		int64_t timestamp;
		int what;               /* -1: refused */
	} rows[] = {
		{ 1, LATEST, IPC__LOOKUP_REQUEST__WHAT__END }, { 8, LATEST, IPC__LOOKUP_REQUEST__WHAT__END },
		{ 1, EARLIEST, IPC__LOOKUP_REQUEST__WHAT__START }, { 8, EARLIEST, IPC__LOOKUP_REQUEST__WHAT__START },
		{ 6, MAX_TIMESTAMP, -1 }, { 7, MAX_TIMESTAMP, IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP },
		{ 7, EARLIEST_LOCAL, -1 }, { 8, EARLIEST_LOCAL, IPC__LOOKUP_REQUEST__WHAT__START }, { 8, -5, -1 },
		{ 8, INT64_MIN, -1 }, { 1, 0, IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER },
		{ 8, INT64_MAX, IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER },
	};
	struct client c;
	size_t n = 0;
	world_open(NULL);
	client_open(&c, k.port);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ask_offset(&c, rows[i].version, (int32_t)i, rows[i].timestamp);
		if (rows[i].what >= 0) {
			struct seen *s = nth(IPC_LOOKUP, n++);
			const Ipc__LookupRequest__Part *p = ((const Ipc__LookupRequest *)s->call->request)->part[0];
			assert_int_equal(p->what, rows[i].what);
			assert_int_equal(p->partition, 2);
			assert_int_equal(p->leader_epoch, rows[i].version >= 4 ? 3 : -1);
			assert_int_equal(p->timestamp_ms, rows[i].timestamp >= 0 ? rows[i].timestamp : 0);
			give_lookup(s, false, 0);
		}
		const struct kmsg_list_offsets_response *a = answer(&c, LIST_OFFSETS, rows[i].version, (int32_t)i);
		assert_int_equal(a->topics[0].partitions[0].error_code, rows[i].what >= 0 ? 0 : KAFKA_INVALID_REQUEST);
		assert_int_equal(a->topics[0].partitions[0].offset, -1);
		assert_int_equal(a->topics[0].partitions[0].timestamp, -1);
	}
	assert_int_equal(n_calls(IPC_READ), 0);
	client_close(&c);
	world_close();
}

static void test_ends(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	ask_offset(&c, V, 1, LATEST);
	give_lookup(nth(IPC_LOOKUP, 0), true, 77);
	expect_offset(&c, 1, 77, -1, 3);
	ask_offset(&c, V, 2, EARLIEST);
	give_lookup(nth(IPC_LOOKUP, 1), true, 0);
	expect_offset(&c, 2, 0, -1, 3);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ times */

/* Records before the start of the log do not count, whatever they say; the epoch is the batch's. */
static void test_inside(void **state)
{
	static const uint8_t times[] = { 60, 50, 10, 20, 20, 5 };
	static const struct {
		int64_t timestamp;
		uint64_t from;
		int64_t offset, found;
	} rows[] = { { 55, 10, 10, 60 }, { 15, 10, 10, 60 }, { 15, 11, 11, 50 }, { 15, 12, 13, 20 }, { 0, 15, 15, 5 },
		     { MAX_TIMESTAMP, 10, 10, 60 }, { MAX_TIMESTAMP, 12, 13, 20 } };
	struct client c;
	struct stock s;
	world_open(NULL);
	stock_open(&s, 9, 4096);
	uint32_t end = put_batch(&s, 0, 10, times, 6, 60);
	client_open(&c, k.port);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ask_offset(&c, V, (int32_t)i, rows[i].timestamp);
		give_lookup(nth(IPC_LOOKUP, i), true, rows[i].from);
		expect_read(i, (int64_t)rows[i].from, 1);
		give_read(nth(IPC_READ, i), &s, 0, end, 16);
		expect_offset(&c, (int32_t)i, rows[i].offset, rows[i].found, 1);
	}
	assert_int_equal(n_calls(IPC_READ), 7);
	client_close(&c);
	stock_close(&s);
	world_close();
}

/* What the batch's header promises and no record in it keeps is looked for behind it. */
static void test_behind(void **state)
{
	static const uint8_t first[] = { 60, 10 }, second[] = { 20, 30 }, third[] = { 40, 50 };
	struct client c;
	struct stock s;
	world_open(NULL);
	stock_open(&s, 9, 4096);
	uint32_t a = put_batch(&s, 0, 10, first, 2, 60), b = put_batch(&s, a, 12, second, 2, 30);
	uint32_t end = put_batch(&s, b, 14, third, 2, 50);
	client_open(&c, k.port);
	ask_offset(&c, V, 1, 45);
	give_lookup(nth(IPC_LOOKUP, 0), true, 11);      /* 60 was trimmed */
	expect_read(0, 11, 1);
	give_read(nth(IPC_READ, 0), &s, 0, a, 12);
	expect_read(1, 12, 1 << 20);
	give_read(nth(IPC_READ, 1), &s, a, end, 16);
	expect_offset(&c, 1, 15, 50, 1);
	/* At the end of the log there is nothing. */
	ask_offset(&c, V, 2, 55);
	give_lookup(nth(IPC_LOOKUP, 1), true, 11);
	give_read(nth(IPC_READ, 2), &s, 0, a, 12);
	give_read(nth(IPC_READ, 3), &s, a, end, CONFIRM);
	expect_offset(&c, 2, -1, -1, 3);
	/* Where the end never comes, that is believed after a while. */
	ask_offset(&c, V, 3, 55);
	give_lookup(nth(IPC_LOOKUP, 2), true, 11);
	for (size_t i = 0; i < 16; i++)
		give_read(nth(IPC_READ, 4 + i), &s, a, b, 20 + i);
	expect_offset(&c, 3, -1, -1, 3);
	assert_int_equal(n_calls(IPC_READ), 20);
	client_close(&c);
	stock_close(&s);
	world_close();
}

/* A log that was trimmed between question and read is read from its start; other errors are the partition's. */
static void test_read_errors(void **state)
{
	static const uint8_t times[] = { 10, 20 };
	struct client c;
	struct stock s;
	world_open(NULL);
	stock_open(&s, 9, 4096);
	uint32_t end = put_batch(&s, 0, 50, times, 2, 20);
	client_open(&c, k.port);
	ask_offset(&c, V, 1, 5);
	give_lookup(nth(IPC_LOOKUP, 0), true, 10);
	struct pico_error e;
	pico_error_set(&e, PICO_OUT_OF_RANGE, "trimmed");
	e.has_start_offset = true;
	e.start_offset = 51;
	give_error(nth(IPC_READ, 0), &e);
	expect_read(1, 51, 1 << 20);
	give_read(nth(IPC_READ, 1), &s, 0, end, 52);
	expect_offset(&c, 1, 51, 20, 1);
	ask_offset(&c, V, 2, 5);
	give_lookup(nth(IPC_LOOKUP, 1), true, 10);
	give_kind(nth(IPC_READ, 2), PICO_UNAVAILABLE);
	const struct kmsg_list_offsets_response *a = answer(&c, LIST_OFFSETS, V, 2);
	assert_int_equal(a->topics[0].partitions[0].error_code, KAFKA_KAFKA_STORAGE_ERROR);
	assert_int_equal(a->topics[0].partitions[0].offset, -1);
	client_close(&c);
	stock_close(&s);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_questions), cmocka_unit_test(test_ends), cmocka_unit_test(test_inside),
		cmocka_unit_test(test_behind), cmocka_unit_test(test_read_errors),
	};
	return cmocka_run_group_tests_name("worker-kafka-offsets", tests, NULL, NULL);
}
