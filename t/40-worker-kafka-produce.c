/* SPDX-License-Identifier: Apache-2.0
 *
 * Produce: order, acks, what is wrong with a batch and which answer of storaged becomes which code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#include "common/codec.h"
#include "common/kafka_error.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/lib/kafka_world.h"

#define V 9             /* where the version does not matter */

/* ------------------------------------------------------------------ helpers */

static const Ipc__SubmitRequest *submitted(size_t index)
{
	return (const Ipc__SubmitRequest *)nth(IPC_SUBMIT, index)->call->request;
}

static void produce_one(struct client *c, int32_t correlation_id, int16_t acks, struct slice batch)
{
	struct part part = { .topic = "t", .batch = batch };
	ask_produce(c, V, correlation_id, acks, &part, 1);
}

static void expect_error(const void *response, size_t i, int16_t error)
{
	const struct kmsg_produce_response_partition *p = produced(response, i);
	if (p->error_code != error)
		fail_msg("part %zu: error %d, expected %d", i, p->error_code, error);
	assert_int_equal(p->base_offset, -1);
	assert_int_equal(p->log_append_time_ms, -1);
	assert_int_equal(p->log_start_offset, -1);
}

/* ------------------------------------------------------------------ order */

/* Three requests run side by side; the answer of the first holds those behind it back. */
static void test_order(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	for (int i = 0; i < 3; i++)
		produce_one(&c, 10 + i, -1, batch_of(1, i == 0 ? "first" : i == 1 ? "second" : "third"));
	for (size_t i = 0; i < 3; i++) {
		struct seen *s = nth(IPC_SUBMIT, i);
		assert_memory_equal(s->payload + s->payload_n - 6, i == 0 ? "first" : i == 1 ? "econd" : "third", 5);
	}
	assert_int_equal(n_calls(IPC_GET_MANY), 1); /* the others knew it by then */
	give_stored(nth(IPC_SUBMIT, 2), 30);
	give_stored(nth(IPC_SUBMIT, 1), 20);
	expect_silence(&c);
	give_stored(nth(IPC_SUBMIT, 0), 10);
	for (int i = 0; i < 3; i++)
		assert_int_equal(produced(answer(&c, PRODUCE, V, 10 + i), 0)->base_offset, 10 * (i + 1));
	client_close(&c);
	world_close();
}

/* A request that has to look its topic up keeps a later one back that would not have to. */
static void test_order_of_lookups(void **state)
{
	struct client c;
	struct part known = { .topic = "t" }, fresh = { .topic = "u" };
	world_open(NULL);
	client_open(&c, k.port);
	known.batch = batch_of(1, "a");
	ask_produce(&c, V, 1, 1, &known, 1);
	give_stored(nth(IPC_SUBMIT, 0), 0);
	answer(&c, PRODUCE, V, 1);
	fresh.batch = batch_of(1, "b");
	ask_produce(&c, V, 2, 1, &fresh, 1);
	ask_produce(&c, V, 3, 1, &known, 1);
	struct seen *lookup = nth(IPC_GET_MANY, 1);
	place_run_ms(&k.place, 20);
	assert_int_equal(n_calls(IPC_SUBMIT), 1);
	give_topics(lookup);
	assert_memory_equal(submitted(1)->part[0]->topic_id.data, id_of("u"), 16);
	assert_memory_equal(submitted(2)->part[0]->topic_id.data, id_of("t"), 16);
	client_close(&c);
	world_close();
}

/* What storaged gets of a request with several topics, and 500 partitions in one call. */
static void test_one_call(void **state)
{
	static struct part parts[500];
	char name[8][8];
	struct client c;
	world_open(NULL);
	k.n_partitions = 100;
	for (size_t i = 0; i < 500; i++) {
		snprintf(name[i / 100], sizeof(name[0]), "topic%zu", i / 100);
		parts[i] = (struct part){ .topic = name[i / 100], .partition = (int32_t)(99 - i % 100), .batch = batch_of(1, "x") };
	}
	parts[7].batch = batch_of(2, "longer");
	client_open(&c, k.port);
	ask_produce(&c, V, 1, -1, parts, 500);
	const Ipc__SubmitRequest *m = submitted(0);
	const uint8_t *at = nth(IPC_SUBMIT, 0)->payload;
	assert_int_equal(m->n_part, 500);
	for (size_t i = 0; i < 500; i++) {
		assert_memory_equal(m->part[i]->topic_id.data, id_of(parts[i].topic), 16);
		assert_int_equal(m->part[i]->partition, parts[i].partition);
		assert_int_equal(m->part[i]->settings_version, 1);
		assert_int_equal(m->part[i]->length, parts[i].batch.n);
		assert_memory_equal(at, parts[i].batch.p, parts[i].batch.n);
		at += parts[i].batch.n;
	}
	give_stored(nth(IPC_SUBMIT, 0), 1000);
	const void *a = answer(&c, PRODUCE, V, 1);
	for (size_t i = 0; i < 500; i++) {
		assert_int_equal(produced(a, i)->index, parts[i].partition);
		assert_int_equal(produced(a, i)->error_code, 0);
		assert_int_equal(produced(a, i)->base_offset, 1000 + i);
		assert_int_equal(produced(a, i)->log_start_offset, 1);
		assert_int_equal(produced(a, i)->log_append_time_ms, -1);
	}
	assert_int_equal(n_calls(IPC_SUBMIT), 1);
	assert_int_equal(n_calls(IPC_GET_MANY), 1);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ acks */

static void test_acks(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	int32_t id = 0;
	for (int16_t acks = -1; acks <= 1; acks++) {
		produce_one(&c, ++id, acks, batch_of(1, "x"));
		struct seen *s = nth(IPC_SUBMIT, (size_t)id - 1);
		expect_silence(&c); /* also acks=1 waits until it is durable */
		give_stored(s, 5);
		if (acks != 0)
			assert_int_equal(produced(answer(&c, PRODUCE, V, id), 0)->base_offset, 5);
	}
	expect_silence(&c); /* acks=0 has no answer */
	static const int16_t others[] = { 2, -2, 127, INT16_MIN };
	for (size_t i = 0; i < 4; i++) {
		produce_one(&c, ++id, others[i], batch_of(1, "x"));
		expect_error(answer(&c, PRODUCE, V, id), 0, KAFKA_INVALID_REQUIRED_ACKS);
	}
	assert_int_equal(n_calls(IPC_SUBMIT), 3);
	client_close(&c);
	world_close();
}

/* Its errors end the connection, behind the answers before it and with one line. */
static void test_acks_none_fails(void **state)
{
	struct client c;
	world_open(NULL);
	log_capture();
	client_open(&c, k.port);
	produce_one(&c, 1, 1, batch_of(1, "x"));
	produce_one(&c, 2, 0, batch_of(1, "x"));
	produce_one(&c, 3, 1, batch_of(1, "x"));
	give_part_error(nth(IPC_SUBMIT, 1), 0, PICO_UNAVAILABLE);
	expect_silence(&c);
	give_stored(nth(IPC_SUBMIT, 0), 7);
	assert_int_equal(produced(answer(&c, PRODUCE, V, 1), 0)->base_offset, 7);
	expect_cut(&c, "KAFKA_STORAGE_ERROR, closing", 1);
	client_close(&c);
	/* Also what is refused here. */
	log_capture();
	client_open(&c, k.port);
	struct slice batch = batch_of(1, "x");
	bytes_of(batch)[16] = 1;
	produce_one(&c, 1, 0, batch);
	expect_cut(&c, "UNSUPPORTED_FOR_MESSAGE_FORMAT, closing", 1);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ batches that are refused */

static struct slice bad_crc(void)
{
	struct slice b = batch_of(3, "value");
	bytes_of(b)[61] ^= 1; /* the length of the first record */
	return b;
}

static struct slice bad_count_and_crc(void)
{
	struct slice b = batch_of(3, "value");
	put_be32(bytes_of(b) + 57, 4);
	return b;
}

static struct slice bad_codec_and_crc(void)
{
	struct slice b = batch_of(3, "value");
	bytes_of(b)[22] = 7;
	return b;
}

static struct slice patched(size_t at, uint64_t value, size_t size)
{
	struct slice b = batch_of(3, "value");
	for (size_t i = 0; i < size; i++)
		bytes_of(b)[at + i] = (uint8_t)(value >> (8 * (size - 1 - i)));
	return sealed(b);
}

static struct slice magic_0(void) { return patched(16, 0, 1); }
static struct slice magic_1(void) { return patched(16, 1, 1); }
static struct slice magic_3(void) { return patched(16, 3, 1); }
static struct slice transactional(void) { return patched(21, BATCH_TRANSACTIONAL, 2); }
static struct slice stamped(void) { return patched(21, BATCH_LOG_APPEND_TIME, 2); }
static struct slice control(void) { return patched(21, BATCH_CONTROL, 2); }
static struct slice control_of_transaction(void) { return patched(21, BATCH_CONTROL | BATCH_TRANSACTIONAL, 2); }
static struct slice codec_5(void) { return patched(21, 5, 2); }
static struct slice codec_7(void) { return patched(21, 7, 2); }
static struct slice no_records(void) { return patched(57, 0, 4); }
static struct slice too_few(void) { return patched(57, 2, 4); }
static struct slice too_many(void) { return patched(57, 4, 4); }
static struct slice negative_count(void) { return patched(57, 0x80000003, 4); }
static struct slice last_delta_above(void) { return patched(23, 3, 4); }
static struct slice last_delta_below(void) { return patched(23, 1, 4); }
static struct slice longer(void) { return patched(8, 1000, 4); }
static struct slice shorter(void) { return patched(8, 50, 4); }
static struct slice negative_length(void) { return patched(8, 0xffffffff, 4); }
static struct slice gzip_of_nothing(void) { return patched(21, 1, 2); }
static struct slice zstd_of_nothing(void) { return patched(21, 4, 2); }
static struct slice null_records(void) { return slice_of(NULL, 0); }
static struct slice no_bytes(void) { return slice_str(""); }
static struct slice only_a_header(void) { return slice_of(batch_of(1, "x").p, 61); }
static struct slice a_few_bytes(void) { return slice_of(batch_of(1, "x").p, 20); }
static struct slice large(void) { return large_batch(1100); }
static struct slice without_sequence(void) { return patched(43, 0, 8); } /* epoch -1, sequence -1 */

static struct slice two_batches(void)
{
	struct slice a = batch_of(1, "x");
	uint8_t *both = region_alloc(&k.region, 2 * a.n);
	memcpy(both, a.p, a.n);
	memcpy(both + a.n, a.p, a.n);
	return slice_of(both, 2 * a.n);
}

/* A record whose length goes beyond the batch; one whose second offset delta is the first's again. */
static struct slice long_record(void) { return patched(61, 120, 1); }
static struct slice same_delta(void)
{
	struct slice b = batch_of(2, "value");
	size_t record = (b.n - 61) / 2;
	must(bytes_of(b)[61 + record + 3] == 2);
	bytes_of(b)[61 + record + 3] = 0;
	return sealed(b);
}

/* 1,000,000 zeros in 1 KiB. */
static struct slice bomb(void)
{
	struct slice plain = large_batch(1000000);
	struct buf out;
	buf_init(&out, 4 << 20);
	memset(bytes_of(plain) + 80, 0, plain.n - 80);
	buf_put(&out, plain.p, 61);
	must(codec_compress(CODEC_GZIP, slice_of(plain.p + 61, plain.n - 61), &out) == 0);
	struct slice b = region_copy(&k.region, buf_slice(&out));
	buf_done(&out);
	put_be32(bytes_of(b) + 8, (uint32_t)b.n - 12);
	bytes_of(b)[22] = 1;
	return sealed(b);
}

static struct slice bomb_with_bad_crc(void)
{
	struct slice b = bomb();
	bytes_of(b)[17] ^= 1;
	return b;
}

static void small_batches(struct conf *c)
{
	c->max_decompressed_size = 100000;
}

/* One bad part among good ones: it alone has the error, and the others go to storaged. */
static void test_bad_batches(void **state)
{
	static const struct {
		struct slice (*make)(void);
		int16_t error;
	} rows[] = {
		{ bad_crc, KAFKA_CORRUPT_MESSAGE }, { bad_count_and_crc, KAFKA_CORRUPT_MESSAGE },
		{ bad_codec_and_crc, KAFKA_CORRUPT_MESSAGE }, { bomb_with_bad_crc, KAFKA_CORRUPT_MESSAGE },
		{ large, KAFKA_MESSAGE_TOO_LARGE }, { bomb, KAFKA_MESSAGE_TOO_LARGE },
		{ magic_0, KAFKA_UNSUPPORTED_FOR_MESSAGE_FORMAT }, { magic_1, KAFKA_UNSUPPORTED_FOR_MESSAGE_FORMAT },
		{ transactional, KAFKA_INVALID_TXN_STATE }, { stamped, KAFKA_INVALID_TIMESTAMP },
		{ codec_5, KAFKA_UNSUPPORTED_COMPRESSION_TYPE }, { codec_7, KAFKA_UNSUPPORTED_COMPRESSION_TYPE },
		{ control, KAFKA_INVALID_RECORD }, { control_of_transaction, KAFKA_INVALID_RECORD },
		{ no_records, KAFKA_INVALID_RECORD }, { too_few, KAFKA_INVALID_RECORD }, { too_many, KAFKA_INVALID_RECORD },
		{ negative_count, KAFKA_INVALID_RECORD }, { last_delta_above, KAFKA_INVALID_RECORD },
		{ last_delta_below, KAFKA_INVALID_RECORD }, { longer, KAFKA_INVALID_RECORD }, { shorter, KAFKA_INVALID_RECORD },
		{ negative_length, KAFKA_INVALID_RECORD }, { gzip_of_nothing, KAFKA_INVALID_RECORD },
		{ zstd_of_nothing, KAFKA_INVALID_RECORD }, { null_records, KAFKA_INVALID_RECORD },
		{ no_bytes, KAFKA_INVALID_RECORD }, { only_a_header, KAFKA_INVALID_RECORD }, { a_few_bytes, KAFKA_INVALID_RECORD },
		{ two_batches, KAFKA_INVALID_RECORD }, { long_record, KAFKA_INVALID_RECORD }, { same_delta, KAFKA_INVALID_RECORD },
		{ magic_3, KAFKA_INVALID_RECORD }, { without_sequence, KAFKA_INVALID_RECORD },
	};
	struct client c;
	world_open(small_batches);
	k.config[0] = "max.message.bytes";
	k.config[1] = "1100";
	client_open(&c, k.port);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct part parts[3] = { { .topic = "t", .batch = batch_of(1, "a") }, { .topic = "t", .partition = 1 },
					 { .topic = "u", .batch = batch_of(1, "c") } };
		parts[1].batch = rows[i].make();
		ask_produce(&c, V, (int32_t)i, -1, parts, 3);
		const Ipc__SubmitRequest *m = submitted(i);
		assert_int_equal(m->n_part, 2);
		assert_memory_equal(m->part[1]->topic_id.data, id_of("u"), 16);
		give_stored(nth(IPC_SUBMIT, i), 40);
		const void *a = answer(&c, PRODUCE, V, (int32_t)i);
		assert_int_equal(produced(a, 0)->base_offset, 40);
		if (produced(a, 1)->error_code != rows[i].error)
			fail_msg("row %zu: error %d, expected %d", i, produced(a, 1)->error_code, rows[i].error);
		expect_error(a, 1, rows[i].error);
		assert_int_equal(produced(a, 2)->base_offset, 41);
	}
	client_close(&c);
	world_close();
}

/* The size that max.message.bytes allows, every codec, and a producer's header are taken. */
static void test_good_batches(void **state)
{
	struct client c;
	world_open(NULL);
	k.config[0] = "max.message.bytes";
	k.config[1] = "1100";
	client_open(&c, k.port);
	struct slice exact = large_batch(1029), over = large_batch(1030);
	assert_int_equal(exact.n, 1100);
	produce_one(&c, 1, 1, over);
	expect_error(answer(&c, PRODUCE, V, 1), 0, KAFKA_MESSAGE_TOO_LARGE);
	produce_one(&c, 2, 1, exact);
	assert_int_equal(submitted(0)->part[0]->length, 1100);
	for (unsigned codec = 1; codec <= 4; codec++) {
		struct slice plain = batch_of(3, "value");
		struct buf out;
		buf_init(&out, 1 << 20);
		buf_put(&out, plain.p, 61);
		must(codec_compress(codec, slice_of(plain.p + 61, plain.n - 61), &out) == 0);
		struct slice b = region_copy(&k.region, buf_slice(&out));
		buf_done(&out);
		put_be32(bytes_of(b) + 8, (uint32_t)b.n - 12);
		bytes_of(b)[22] = (uint8_t)codec;
		put_be64(bytes_of(b) + 43, 9);
		put_be16(bytes_of(b) + 51, 2);
		put_be32(bytes_of(b) + 53, 0);
		produce_one(&c, 2 + (int32_t)codec, 1, sealed(b));
		assert_int_equal(submitted(codec)->part[0]->length, b.n);
		assert_memory_equal(nth(IPC_SUBMIT, codec)->payload, b.p, b.n);
	}
	client_close(&c);
	world_close();
}

/* Unknown topics and partitions, names that cannot be, among good ones. */
static void test_bad_topics(void **state)
{
	struct client c;
	world_open(NULL);
	struct slice b = batch_of(1, "x");
	struct part parts[] = { { "nosuch", 0, b, 0, 0 }, { "t", 3, b, 0, 0 }, { "t", 4, b, 0, 0 }, { "t", -1, b, 0, 0 },
				{ "bad name", 0, b, 0, 0 }, { "", 0, b, 0, 0 } };
	client_open(&c, k.port);
	ask_produce(&c, V, 1, 1, parts, 6);
	assert_int_equal(submitted(0)->n_part, 1);
	give_stored(nth(IPC_SUBMIT, 0), 11);
	const void *a = answer(&c, PRODUCE, V, 1);
	assert_int_equal(produced(a, 1)->base_offset, 11);
	for (size_t i = 0; i < 6; i++)
		if (i != 1)
			expect_error(a, i, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	client_close(&c);
	world_close();
}

/* A request can name more topics than one answer of storaged has room for, and than one question may have. */
static void test_many_topics(void **state)
{
	static struct part parts[12000];
	static char name[12000][8];
	struct client c;
	world_open(NULL);
	k.n_partitions = 1;
	k.answer_max = 7000;
	struct slice b = batch_of(1, "x");
	for (size_t i = 0; i < 12000; i++) {
		snprintf(name[i], sizeof(name[i]), "t%zu", i);
		parts[i] = (struct part){ .topic = name[i], .batch = b };
	}
	client_open(&c, k.port);
	ask_produce(&c, V, 1, 1, parts, 9000);
	assert_int_equal(submitted(0)->n_part, 9000);
	assert_int_equal(n_calls(IPC_GET_MANY), 2);
	assert_memory_equal(submitted(0)->part[8999]->topic_id.data, id_of("t8999"), 16);
	give_stored(nth(IPC_SUBMIT, 0), 0);
	answer(&c, PRODUCE, V, 1);
	client_close(&c);
	/* Where no room is for any, none is said not to exist. */
	k.answer_max = 0;
	client_open(&c, k.port);
	for (size_t i = 0; i < 12000; i++)
		parts[i].topic = "u";
	ask_produce(&c, V, 2, 1, parts, 12000);
	const void *a = answer(&c, PRODUCE, V, 2);
	for (size_t i = 0; i < 12000; i++)
		expect_error(a, i, KAFKA_KAFKA_STORAGE_ERROR);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ refused as a whole */

static void test_transactional_id(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	struct kmsg_produce_request_partition p = { .records.bytes = batch_of(1, "x") };
	struct kmsg_produce_request_topic t = { .name = slice_str("t"), .partition_data = &p, .n_partition_data = 1 };
	struct kmsg_produce_request m = { .transactional_id = slice_str("tx"), .acks = -1, .topic_data = &t, .n_topic_data = 1 };
	ask(&c, PRODUCE, V, 1, &m);
	const void *a = answer(&c, PRODUCE, V, 1);
	expect_error(a, 0, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
	assert_int_equal(produced(a, 0)->error_message.n, strlen("transactions are not supported"));
	m.transactional_id = slice_str(""); /* is one, too */
	ask(&c, PRODUCE, V, 2, &m);
	expect_error(answer(&c, PRODUCE, V, 2), 0, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
	assert_int_equal(n_calls(IPC_SUBMIT) + n_calls(IPC_GET_MANY), 0);
	client_close(&c);
	world_close();
}

/* 0 to 2 are offered and refused; all others are served. */
static void test_versions(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	for (int16_t version = 0; version <= 11; version++) {
		struct part part = { .topic = "t", .partition = 1, .batch = batch_of(1, "x") };
		ask_produce(&c, version, 100 + version, 1, &part, 1);
		if (version >= 3)
			give_stored(nth(IPC_SUBMIT, (size_t)version - 3), 50);
		const void *a = answer(&c, PRODUCE, version, 100 + version);
		assert_int_equal(produced(a, 0)->error_code, version < 3 ? KAFKA_UNSUPPORTED_VERSION : 0);
		assert_int_equal(produced(a, 0)->base_offset, version < 3 ? -1 : 50);
		assert_int_equal(produced(a, 0)->index, 1);
	}
	assert_int_equal(n_calls(IPC_SUBMIT), 9);
	client_close(&c);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order), cmocka_unit_test(test_order_of_lookups), cmocka_unit_test(test_one_call),
		cmocka_unit_test(test_acks), cmocka_unit_test(test_acks_none_fails), cmocka_unit_test(test_bad_batches),
		cmocka_unit_test(test_good_batches), cmocka_unit_test(test_bad_topics), cmocka_unit_test(test_many_topics),
		cmocka_unit_test(test_transactional_id), cmocka_unit_test(test_versions),
	};
	return cmocka_run_group_tests_name("worker-kafka-produce", tests, NULL, NULL);
}
