/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of every codec: those that a Kafka client made, those that lie about what is compressed in
 * them, and the cap.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/record_cut.h"
#include "common/record_decode.h"

#define CAP (16u << 20)
#define BASE 1700000000000
#define NONE slice_of(NULL, 0)
#define EMPTY slice_str("")
#define REPEATED "the same again, "
#define N_RECORDS 4

static uint8_t bytes[16384];

static struct slice load(const char *name)
{
	const char *src = getenv("PICO_SRC");
	char path[4096];
	snprintf(path, sizeof(path), "%s/t/golden/kafka_%s.bin", src != NULL ? src : ".", name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	struct slice s = slice_of(bytes, fread(bytes, 1, sizeof(bytes), f));
	fclose(f);
	return s;
}

static void assert_same(struct slice got, struct slice want)
{
	assert_int_equal(got.p == NULL, want.p == NULL);
	assert_true(slice_eq(got, want));
}

/* ------------------------------------------------------------------ batches of a Kafka client */

static void check_headers(const struct record *r, const struct record_header *want, uint32_t n)
{
	struct wire_reader reader = wire_reader(r->headers_raw);
	struct record_header h;
	assert_int_equal(r->n_headers, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(record_header_next(&reader, &h), 1);
		assert_same(h.name, want[i].name);
		assert_same(h.value, want[i].value);
	}
	assert_int_equal(record_header_next(&reader, &h), 0);
}

/* Placed at offset 1000; under LogAppendTime each record has the batch's time. */
static void check_records(struct record_decoder *d, bool log_append_time, int n_records)
{
	static const struct record_header second[] = {
		{ { (const uint8_t *)"trace", 5 }, { (const uint8_t *)"\x01\xff", 2 } },
		{ { (const uint8_t *)"trace", 5 }, { NULL, 0 } }, { { (const uint8_t *)"", 0 }, { (const uint8_t *)"", 0 } },
	};
	static const struct record_header fourth[] = {
		{ { (const uint8_t *)"n\xc3\xa4me", 5 }, { (const uint8_t *)"v\0lue", 5 } },
	};
	static char repeated[500 * sizeof(REPEATED)];
	static const int64_t times[N_RECORDS] = { BASE, BASE + 250, BASE - 40, BASE + 1 };
	size_t n = 0;
	for (int i = 0; i < 500; i++)
		n += (size_t)sprintf(repeated + n, "%s", REPEATED);
	const struct slice keys[N_RECORDS] = { NONE, EMPTY, slice_str("key"), slice_str("\xff\xfe") };
	const struct slice values[N_RECORDS] = { slice_str("first"), EMPTY, NONE, slice_of(repeated, n) };
	for (int i = 0; i < n_records; i++) {
		struct record r;
		assert_int_equal(record_decoder_next(d, &r), 1);
		assert_int_equal(r.offset, 1000 + i);
		assert_int_equal(r.timestamp_ms, log_append_time ? BASE + 250 : times[i]);
		assert_same(r.key, keys[i]);
		assert_same(r.value, values[i]);
		check_headers(&r, i == 1 ? second : fourth, i == 1 ? 3 : i == 3);
	}
	struct record r;
	assert_int_equal(record_decoder_next(d, &r), 0);
}

static void test_clients_batches(void **state)
{
	static const struct { const char *name; unsigned codec; } rows[] = {
		{ "none", CODEC_NONE }, { "gzip", CODEC_GZIP }, { "snappy", CODEC_SNAPPY },
		{ "snappy_raw", CODEC_SNAPPY }, { "lz4", CODEC_LZ4 }, { "zstd", CODEC_ZSTD },
	};
	struct record_decoder d;
	record_decoder_init(&d, CAP);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct slice s = load(rows[i].name);
		struct record_batch b;
		uint64_t sum = 0;
		record_batch_place(bytes, 1000, 7);
		assert_int_equal(record_batch_read(s, &b), 0);
		assert_true(record_batch_crc_is_good(&b));
		assert_int_equal(b.attributes, rows[i].codec);
		assert_int_equal(b.producer_id, 4711);
		assert_int_equal(b.producer_epoch, 3);
		assert_int_equal(b.base_sequence, 90);
		assert_int_equal(b.max_timestamp, BASE + 250);
		assert_int_equal(record_decoder_validate_produced(&d, &b, &sum), 0);
		assert_int_equal(sum, 5 + 5 + 2 + 5 + 3 + 2 + 500 * 16 + 10);
		assert_int_equal(record_decoder_open(&d, &b), 0);
		assert_int_equal(d.iter.batch.producer_id, 4711);
		check_records(&d, false, N_RECORDS);
		record_batch_stamp(bytes, s.n, BASE + 250);
		assert_int_equal(record_batch_read(s, &b), 0);
		assert_int_equal(record_decoder_open(&d, &b), 0);
		check_records(&d, true, N_RECORDS);
	}
	record_decoder_done(&d);
}

/* ------------------------------------------------------------------ batches made here */

/* A batch of those records' bytes, whatever they are, as it comes from a producer. */
static struct buf batch_of(unsigned codec, struct slice records, uint32_t count, uint32_t last_delta)
{
	struct buf out;
	buf_init(&out, CAP);
	uint8_t *h = buf_reserve(&out, RECORD_BATCH_HEADER);
	assert_non_null(h);
	memset(h, 0, RECORD_BATCH_HEADER);
	buf_commit(&out, RECORD_BATCH_HEADER);
	assert_int_equal(codec_compress(codec, records, &out), 0);
	h = buf_head(&out);
	put_be32(h + 8, (uint32_t)buf_len(&out) - 12);
	h[16] = 2;
	put_be16(h + 21, (uint16_t)codec);
	put_be32(h + 23, last_delta);
	put_be32(h + 57, count);
	put_be32(h + 17, crc32c(h + 21, buf_len(&out) - 21));
	return out;
}

/* The bytes of n records as the writer lays them out. */
static struct buf records_of(uint32_t n, struct slice key, struct slice value, struct slice name)
{
	struct buf out;
	struct record_batch_writer w;
	struct record_header h = { name, NONE };
	buf_init(&out, CAP);
	record_batch_begin(&w, &out);
	for (uint32_t i = 0; i < n; i++)
		record_batch_add(&w, key, value, &h, name.p != NULL);
	assert_true(record_batch_end(&w) > 0);
	buf_consume(&out, RECORD_BATCH_HEADER);
	return out;
}

struct verdict {
	int valid, produced;
};

static struct verdict judge(const struct buf *batch, size_t cap)
{
	struct record_batch b;
	struct record_decoder d;
	struct verdict v;
	record_decoder_init(&d, cap);
	assert_int_equal(record_batch_read(buf_slice(batch), &b), 0);
	v.valid = record_decoder_validate(&d, &b, NULL);
	v.produced = record_decoder_validate_produced(&d, &b, NULL);
	record_decoder_done(&d);
	return v;
}

static void expect(unsigned codec, struct slice records, uint32_t count, uint32_t last_delta, int valid, int produced)
{
	struct buf batch = batch_of(codec, records, count, last_delta);
	struct verdict v = judge(&batch, CAP);
	if (v.valid != valid || v.produced != produced)
		fail_msg("%s, count %u, last delta %u: %d and %d", codec_name(codec), count, last_delta, v.valid, v.produced);
	buf_done(&batch);
}

static void test_counts(void **state)
{
	struct buf three = records_of(3, slice_str("k"), slice_str("value"), slice_str("h"));
	struct slice all = buf_slice(&three);
	for (unsigned codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
		expect(codec, all, 3, 2, 0, 0);
		expect(codec, all, 3, 5, 0, -EBADMSG);           /* as compaction leaves it */
		expect(codec, all, 2, 1, -EBADMSG, -EBADMSG);    /* one more than counted */
		expect(codec, all, 2, 2, -EBADMSG, -EBADMSG);
		expect(codec, all, 4, 3, -EBADMSG, -EBADMSG);    /* one less */
		expect(codec, all, 1000000, 999999, -EBADMSG, -EBADMSG);
		expect(codec, slice_of(all.p, all.n - 1), 3, 2, -EBADMSG, -EBADMSG);
	}
	/* Deltas that leave one out are fine in the store, not from a producer. */
	uint8_t *third = buf_head(&three) + 2 * (all.n / 3);
	third[3] += 2;
	for (unsigned codec = CODEC_NONE; codec <= CODEC_ZSTD; codec++)
		expect(codec, all, 3, 3, 0, -EBADMSG);
	expect(CODEC_GZIP, all, 3, 2, -EBADMSG, -EBADMSG);
	buf_done(&three);
}

/* The right count and last delta, and yet not one record an offset. */
static void test_gaps_at_the_start(void **state)
{
	struct buf two = records_of(2, NONE, slice_str("v"), NONE);
	buf_head(&two)[buf_len(&two) / 2 + 3] = 2 << 1;
	expect(CODEC_ZSTD, buf_slice(&two), 2, 2, 0, -EBADMSG);
	buf_head(&two)[3] = 1 << 1;
	expect(CODEC_ZSTD, buf_slice(&two), 2, 2, 0, -EBADMSG);
	expect(CODEC_ZSTD, buf_slice(&two), 2, 1, -EBADMSG, -EBADMSG);
	buf_done(&two);
}

static void test_limits(void **state)
{
	static char big[RECORD_KEY_MAX + 1];
	static const struct { size_t key, name; int produced; } rows[] = {
		{ RECORD_KEY_MAX, 1, 0 }, { RECORD_KEY_MAX + 1, 1, -EBADMSG },
		{ 1, RECORD_HEADER_NAME_MAX, 0 }, { 1, RECORD_HEADER_NAME_MAX + 1, -EBADMSG },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf one = records_of(1, slice_of(big, rows[i].key), NONE, slice_of(big, rows[i].name));
		expect(CODEC_NONE, buf_slice(&one), 1, 0, 0, rows[i].produced);
		expect(CODEC_LZ4, buf_slice(&one), 1, 0, 0, rows[i].produced);
		buf_done(&one);
	}
}

static void test_cap(void **state)
{
	struct buf records = records_of(500, slice_str("key"), slice_str("a value of some length"), NONE);
	for (unsigned codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
		struct buf batch = batch_of(codec, buf_slice(&records), 500, 499);
		assert_int_equal(judge(&batch, buf_len(&records)).produced, 0);
		assert_int_equal(judge(&batch, buf_len(&records) - 1).valid, -E2BIG);
		assert_int_equal(judge(&batch, buf_len(&records) - 1).produced, -E2BIG);
		buf_head(&batch)[70] ^= 0x40;
		struct verdict v = judge(&batch, CAP);
		assert_true(v.valid == -EBADMSG || v.valid == 0 || v.valid == -E2BIG);
		buf_done(&batch);
	}
	struct buf plain = batch_of(CODEC_NONE, buf_slice(&records), 500, 499);
	assert_int_equal(judge(&plain, 1).produced, 0); /* it has no other size than its own */
	buf_done(&plain);
	buf_done(&records);
}

/* One decoder, batches in turn: nothing of the one before is left, whatever became of it. */
static void test_one_after_the_other(void **state)
{
	struct record_decoder d;
	struct record_batch b;
	struct record r;
	record_decoder_init(&d, CAP);
	struct buf records = records_of(2, slice_str("k"), slice_str("v"), NONE);
	struct buf good = batch_of(CODEC_SNAPPY, buf_slice(&records), 2, 1);
	struct buf bad = batch_of(CODEC_SNAPPY, slice_str("no records"), 1, 0);
	struct buf plain = batch_of(CODEC_NONE, buf_slice(&records), 2, 1);
	const struct buf *turns[] = { &good, &bad, &plain, &good, &plain, &bad, &good };
	for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		assert_int_equal(record_batch_read(buf_slice(turns[i]), &b), 0);
		assert_int_equal(record_decoder_open(&d, &b), 0);
		assert_int_equal(record_decoder_next(&d, &r), turns[i] == &bad ? -EBADMSG : 1);
		if (turns[i] != &bad)
			assert_same(r.value, slice_str("v"));
	}
	buf_done(&records);
	buf_done(&good);
	buf_done(&bad);
	buf_done(&plain);
	record_decoder_done(&d);
}

/* ------------------------------------------------------------------ the head of a batch */

static void check_cut(struct record_decoder *d, const struct record_batch *b, uint32_t n, bool log_append_time)
{
	struct buf out;
	struct record_batch cut;
	buf_init(&out, CAP);
	buf_put(&out, "before", 6);
	assert_int_equal(record_cut(d, b, n, &out), 0);
	assert_memory_equal(buf_head(&out), "before", 6);
	buf_consume(&out, 6);
	assert_int_equal(record_batch_read(buf_slice(&out), &cut), 0);
	assert_true(record_batch_crc_is_good(&cut));
	assert_int_equal(cut.record_count, n);
	assert_int_equal(cut.base_offset, 1000);
	assert_int_equal(cut.attributes, b->attributes);
	assert_int_equal(cut.producer_id, -1);
	assert_int_equal(cut.producer_epoch, -1);
	assert_int_equal(cut.base_sequence, -1);
	assert_int_equal(cut.base_timestamp, b->base_timestamp);
	assert_int_equal(cut.max_timestamp, BASE + (n > 1 || log_append_time ? 250 : 0));
	assert_int_equal(record_decoder_validate_produced(d, &cut, NULL), 0);
	assert_int_equal(record_decoder_open(d, &cut), 0);
	check_records(d, log_append_time, (int)n);
	buf_done(&out);
}

static void test_cut(void **state)
{
	static const char *const names[] = { "none", "gzip", "snappy", "snappy_raw", "lz4", "zstd" };
	struct record_decoder d;
	record_decoder_init(&d, CAP);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct slice s = load(names[i]);
		struct record_batch b;
		record_batch_place(bytes, 1000, 7);
		for (int stamped = 0; stamped < 2; stamped++) {
			assert_int_equal(record_batch_read(s, &b), 0);
			for (uint32_t n = 1; n <= N_RECORDS; n++)
				check_cut(&d, &b, n, stamped);
			record_batch_stamp(bytes, s.n, BASE + 250);
		}
	}
	struct buf out, records = records_of(3, slice_str("key"), slice_str("value"), NONE);
	struct buf fewer = batch_of(CODEC_NONE, slice_of(buf_head(&records), buf_len(&records) / 3), 1, 0);
	struct buf broken = batch_of(CODEC_ZSTD, slice_str("no records at all, but enough bytes"), 3, 2);
	struct record_batch b;
	assert_int_equal(record_batch_read(buf_slice(&fewer), &b), 0);
	buf_init(&out, RECORD_BATCH_HEADER + 1);
	assert_int_equal(record_cut(&d, &b, 1, &out), -ENOBUFS);
	buf_done(&out);
	buf_init(&out, CAP);
	assert_int_equal(record_batch_read(buf_slice(&broken), &b), 0);
	assert_int_equal(record_cut(&d, &b, 2, &out), -EBADMSG);
	buf_done(&out);
	buf_done(&records);
	buf_done(&fewer);
	buf_done(&broken);
	record_decoder_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clients_batches), cmocka_unit_test(test_counts), cmocka_unit_test(test_gaps_at_the_start),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_cap), cmocka_unit_test(test_one_after_the_other),
		cmocka_unit_test(test_cut),
	};
	return cmocka_run_group_tests_name("record_decode", tests, NULL, NULL);
}
