/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of decompressed batches, and compressed batches of a Kafka client as answers. A batch whose
 * bytes were spoilt behind its header is readable only out of the cache: so a hit is told from a miss.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "worker-http/encode.h"

#define CAP (1u << 20)

static uint8_t bytes[16384];
static struct batch_cache cache;

static struct slice load(const char *name, uint64_t base)
{
	const char *src = getenv("PICO_SRC");
	char path[4096];
	snprintf(path, sizeof(path), "%s/t/golden/kafka_%s.bin", src != NULL ? src : ".", name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	struct slice s = slice_of(bytes, fread(bytes, 1, sizeof(bytes), f));
	fclose(f);
	record_batch_place(bytes, base, 1);
	return s;
}

static struct batch_log log_of(uint8_t topic, uint32_t partition)
{
	return (struct batch_log){ .topic_id = { topic }, .partition = partition };
}

/* Opens it and counts its records. */
static int open_batch(struct batch_log log, struct slice s)
{
	struct record_batch b;
	struct record_decoder *d;
	struct record record;
	assert_int_equal(record_batch_read(s, &b), 0);
	int r = batch_cache_open(&cache, &log, &b, &d);
	if (r != 0)
		return r;
	int n = 0;
	while ((r = record_decoder_next(d, &record)) == 1)
		assert_int_equal(record.offset, b.base_offset + (unsigned)n++);
	assert_int_equal(r, 0);
	return n;
}

static bool is_hit(struct batch_log log, const char *codec, uint64_t base)
{
	struct slice s = load(codec, base);
	memset(bytes + RECORD_BATCH_HEADER, 0x55, s.n - RECORD_BATCH_HEADER);
	int r = open_batch(log, s);
	assert_true(r == 4 || r == -EBADMSG);
	return r == 4;
}

static void test_hit(void **state)
{
	static const char *const codecs[] = { "gzip", "snappy", "snappy_raw", "lz4", "zstd" };
	for (size_t i = 0; i < 5; i++) {
		batch_cache_init(&cache, CAP);
		assert_false(is_hit(log_of(1, 0), codecs[i], 0));
		assert_int_equal(open_batch(log_of(1, 0), load(codecs[i], 0)), 4);
		assert_true(is_hit(log_of(1, 0), codecs[i], 0));
		assert_true(is_hit(log_of(1, 0), codecs[i], 0));
		batch_cache_done(&cache);
	}
}

/* Another topic, partition or offset is another batch, though its bytes are the same. */
static void test_identity(void **state)
{
	batch_cache_init(&cache, CAP);
	assert_int_equal(open_batch(log_of(1, 0), load("gzip", 7)), 4);
	assert_false(is_hit(log_of(2, 0), "gzip", 7));
	assert_false(is_hit(log_of(1, 1), "gzip", 7));
	assert_false(is_hit(log_of(1, 0), "gzip", 8));
	assert_false(is_hit(log_of(1, 0), "lz4", 7));
	assert_true(is_hit(log_of(1, 0), "gzip", 7));
	batch_cache_done(&cache);
}

static void test_uncompressed(void **state)
{
	batch_cache_init(&cache, CAP);
	assert_int_equal(open_batch(log_of(1, 0), load("none", 0)), 4);
	for (unsigned i = 0; i < BATCH_CACHE_SLOTS; i++)
		assert_int_equal(cache.slot[i].used, 0);
	batch_cache_done(&cache);
}

/* The longest unused one goes: 0 was used again, so 1 is it. */
static void test_slots(void **state)
{
	batch_cache_init(&cache, CAP);
	for (unsigned i = 0; i < BATCH_CACHE_SLOTS; i++)
		assert_int_equal(open_batch(log_of(1, 0), load("zstd", i)), 4);
	assert_true(is_hit(log_of(1, 0), "zstd", 0));
	assert_int_equal(open_batch(log_of(1, 0), load("zstd", 100)), 4);
	assert_true(is_hit(log_of(1, 0), "zstd", 0));
	for (unsigned i = 2; i < BATCH_CACHE_SLOTS; i++)
		assert_true(is_hit(log_of(1, 0), "zstd", i));
	assert_true(is_hit(log_of(1, 0), "zstd", 100));
	assert_false(is_hit(log_of(1, 0), "zstd", 1));
	batch_cache_done(&cache);
}

/* The four records take 8,071 bytes, the memory for them 8,192 or 16,384. */
static void test_memory(void **state)
{
	batch_cache_init(&cache, 8070);
	assert_int_equal(open_batch(log_of(1, 0), load("gzip", 0)), -E2BIG);
	batch_cache_done(&cache);
	batch_cache_init(&cache, 40000);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(open_batch(log_of(1, 0), load("gzip", i)), 4);
		size_t sum = 0;
		for (unsigned k = 0; k < BATCH_CACHE_SLOTS; k++)
			sum += cache.slot[k].decoder.scratch.capacity;
		assert_true(sum >= 8071 && sum <= 40000);
		assert_true(is_hit(log_of(1, 0), "gzip", i));
	}
	batch_cache_done(&cache);
}

/* ------------------------------------------------------------------ as answers */

static const char shown[] =
	"[{\"seq\":9,\"timestamp\":1700000000000,\"body\":\"first\"},\n"
	"{\"seq\":10,\"timestamp\":1700000000250,\"key\":\"\",\"headers\":[[\"trace\",{\"b64\":\"Af8=\"}],"
	"[\"trace\",null],[\"\",\"\"]],\"body\":\"\"},\n"
	"{\"seq\":11,\"timestamp\":1699999999960,\"key\":\"key\",\"body\":null},\n"
	"{\"seq\":12,\"timestamp\":1700000000001,\"key_b64\":\"//4=\",\"headers\":{\"n\xc3\xa4me\":\"v\\u0000lue\"},"
	"\"body\":\"the same again, the same again, ";

static struct buf body_of(struct slice batch, enum record_format format, size_t max)
{
	struct topics_pieces pieces = { .piece = &batch, .n_pieces = 1 };
	struct encode_source source = { .pieces = &pieces, .cache = &cache, .log = log_of(1, 0) };
	struct encode_limits limits = { 100, 1 << 20, CAP };
	struct encode_range range = { .end = 9 };
	struct encoder e;
	struct buf all, part;
	int r = encode_measure(&source, 13, &limits, &range);
	assert_int_equal(r, 0);
	assert_int_equal(range.n_records, 4);
	assert_int_equal(range.value_bytes, 8005);
	buf_init(&all, 1 << 20);
	buf_init(&part, 1 << 20);
	encoder_init(&e, format, 9);
	e.end = range.end;
	encoder_begin(&e, &all);
	encoder_count(&e, &all, range.n_records);
	do {
		buf_reset(&part, 1 << 20);
		r = encoder_run(&e, &source, &part, max);
		assert_true(r >= 0);
		buf_put_slice(&all, buf_slice(&part));
	} while (r == 0);
	encoder_finish(&e, &all);
	buf_done(&part);
	return all;
}

/* What a Kafka client sent, in every codec, as JSON, raw and binary; in pieces of any size the same. */
static void test_answers(void **state)
{
	static const char *const codecs[] = { "none", "gzip", "snappy", "snappy_raw", "lz4", "zstd" };
	static const size_t sizes[] = { 1, 7, 64, 3000, 1 << 19 };
	struct buf binary;
	buf_init(&binary, 0);
	for (size_t i = 0; i < 30; i++) {
		batch_cache_init(&cache, CAP);
		struct slice s = load(codecs[i / 5], 9);
		struct buf json = body_of(s, FORMAT_JSON, sizes[i % 5]);
		assert_true(buf_len(&json) > sizeof(shown));
		assert_memory_equal(buf_head(&json), shown, sizeof(shown) - 1);
		struct buf raw = body_of(s, FORMAT_RAW, sizes[i % 5]);
		assert_int_equal(buf_len(&raw), 8005);
		assert_memory_equal(buf_head(&raw), "firstthe same", 13);
		struct buf b = body_of(s, FORMAT_BINARY, sizes[i % 5]);
		if (i == 0) {
			assert_memory_equal(buf_head(&b), "\1\0\0\0\4\0\0\0\0\0\0\0\x09", 13);
			binary = b;
		} else {
			assert_true(slice_eq(buf_slice(&b), buf_slice(&binary)));
			buf_done(&b);
		}
		buf_done(&json);
		buf_done(&raw);
		batch_cache_done(&cache);
	}
	buf_done(&binary);
}

/* An answer ends where its batches would decompress to more than the limit, but not before one record. */
static void test_decoded_limit(void **state)
{
	uint8_t two[1024];
	batch_cache_init(&cache, CAP);
	struct slice s = load("zstd", 0);
	memcpy(two, s.p, s.n);
	load("zstd", 4);
	memcpy(two + s.n, s.p, s.n);
	struct slice both = slice_of(two, 2 * s.n);
	struct topics_pieces pieces = { .piece = &both, .n_pieces = 1 };
	struct encode_source source = { .pieces = &pieces, .cache = &cache, .log = log_of(1, 0) };
	static const struct { uint64_t decoded, n; } rows[] = { { 1, 1 }, { 8070, 1 }, { 8071, 4 }, { 16141, 4 }, { 16142, 8 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct encode_limits limits = { 100, 1 << 20, rows[i].decoded };
		struct encode_range range = { 0 };
		assert_int_equal(encode_measure(&source, 8, &limits, &range), 0);
		assert_int_equal(range.n_records, rows[i].n);
		assert_int_equal(range.end, rows[i].n);
		assert_int_equal(range.full, rows[i].n < 8);
	}
	batch_cache_done(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hit), cmocka_unit_test(test_identity), cmocka_unit_test(test_uncompressed),
		cmocka_unit_test(test_slots), cmocka_unit_test(test_memory), cmocka_unit_test(test_answers),
		cmocka_unit_test(test_decoded_limit),
	};
	return cmocka_run_group_tests_name("batch_cache", tests, NULL, NULL);
}
