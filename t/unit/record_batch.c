/* SPDX-License-Identifier: Apache-2.0
 *
 * RecordBatch v2: golden bytes, what the writer makes, and that broken batches are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/record_batch.h"

#define NONE slice_of(NULL, 0)
#define EMPTY slice_str("")
#define GOLDEN_BATCHES 3

static uint8_t golden[4096];
static struct slice golden_batch[GOLDEN_BATCHES];

static int read_golden(void **state)
{
	char path[4096];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/record_batch_v2.bin", src != NULL ? src : ".");
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return -1;
	struct slice left = slice_of(golden, fread(golden, 1, sizeof(golden), f));
	fclose(f);
	for (int i = 0; i < GOLDEN_BATCHES; i++) {
		int64_t size = record_batch_size(left);
		if (size <= 0 || (size_t)size > left.n)
			return -1;
		golden_batch[i] = slice_of(left.p, (size_t)size);
		left = slice_of(left.p + size, left.n - (size_t)size);
	}
	return left.n == 0 ? 0 : -1;
}

static bool slice_same(struct slice a, struct slice b)
{
	return slice_eq(a, b) && (a.p == NULL) == (b.p == NULL);
}

/* ------------------------------------------------------------------ golden bytes */

static void test_golden_header(void **state)
{
	struct record_batch b;
	assert_int_equal(record_batch_read(golden_batch[0], &b), 0);
	assert_int_equal(b.base_offset, 41);
	assert_int_equal(b.leader_epoch, 7);
	assert_int_equal(b.attributes, 0);
	assert_int_equal(b.last_offset_delta, 3);
	assert_int_equal(b.record_count, 3);
	assert_int_equal(b.base_timestamp, 1700000000000);
	assert_int_equal(b.max_timestamp, 1700000000300);
	assert_int_equal(b.producer_id, 4711);
	assert_int_equal(b.producer_epoch, 2);
	assert_int_equal(b.base_sequence, 90);
	assert_true(b.bytes.p == golden_batch[0].p && b.bytes.n == golden_batch[0].n);
	assert_true(record_batch_crc_is_good(&b));
	assert_int_equal(record_batch_read(golden_batch[1], &b), 0);
	assert_int_equal(b.leader_epoch, -1);
	assert_int_equal(b.producer_id, -1);
	assert_int_equal(b.producer_epoch, -1);
	assert_int_equal(b.base_sequence, -1);
	assert_int_equal(b.attributes, BATCH_LOG_APPEND_TIME);
	assert_true(record_batch_crc_is_good(&b));
}

static void test_golden_records(void **state)
{
	const struct record want[] = {
		{ 41, 1700000000000, NONE, slice_str("first"), EMPTY, 0 },
		{ 42, 1700000000300, EMPTY, EMPTY, EMPTY, 3 },
		{ 44, 1699999999750, slice_str("key"), NONE, EMPTY, 0 },
	};
	const uint64_t want_bytes[] = { 5, 5 + 2 + 5, 3 };
	struct record_batch b;
	struct record_iter it;
	struct record r;
	uint64_t bytes = 0;
	assert_int_equal(record_batch_read(golden_batch[0], &b), 0);
	assert_int_equal(record_batch_validate(&b, &bytes), 0);
	assert_int_equal(bytes, 5 + 12 + 3);
	assert_int_equal(record_iter_init(&it, &b), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(record_iter_next(&it, &r), 1);
		assert_int_equal(r.offset, want[i].offset);
		assert_int_equal(r.timestamp_ms, want[i].timestamp_ms);
		assert_true(slice_same(r.key, want[i].key));
		assert_true(slice_same(r.value, want[i].value));
		assert_int_equal(r.n_headers, want[i].n_headers);
		assert_int_equal(record_bytes(&r), want_bytes[i]);
	}
	assert_int_equal(record_iter_next(&it, &r), 0);
	assert_int_equal(record_iter_next(&it, &r), 0);
}

static void test_golden_headers(void **state)
{
	const struct record_header want[] = {
		{ slice_str("trace"), slice_of("\1\2", 2) }, { slice_str("trace"), NONE }, { EMPTY, EMPTY },
	};
	struct record_batch b;
	struct record_iter it;
	struct record r;
	struct record_header h;
	assert_int_equal(record_batch_read(golden_batch[1], &b), 0);
	assert_int_equal(record_iter_init(&it, &b), 0);
	assert_int_equal(record_iter_next(&it, &r), 1);
	struct wire_reader reader = wire_reader(r.headers_raw);
	assert_int_equal(record_header_next(&reader, &h), 0);
	assert_int_equal(record_iter_next(&it, &r), 1);
	reader = wire_reader(r.headers_raw);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(record_header_next(&reader, &h), 1);
		assert_true(slice_same(h.name, want[i].name));
		assert_true(slice_same(h.value, want[i].value));
	}
	assert_int_equal(record_header_next(&reader, &h), 0);
}

/* The bodies of the second golden batch. */
static void add_golden(struct record_batch_writer *w)
{
	const struct record_header headers[] = {
		{ slice_str("trace"), slice_of("\1\2", 2) }, { slice_str("trace"), NONE }, { NONE, EMPTY },
	};
	record_batch_add(w, NONE, slice_str("first"), NULL, 0);
	record_batch_add(w, EMPTY, EMPTY, headers, 3);
	record_batch_add(w, slice_str("key"), NONE, NULL, 0);
}

static void test_writer_golden(void **state)
{
	struct buf out;
	struct record_batch_writer w;
	buf_init(&out, 1000);
	buf_put_str(&out, "before");
	record_batch_begin(&w, &out);
	add_golden(&w);
	assert_int_equal(record_batch_end(&w), golden_batch[1].n);
	struct slice all = buf_slice(&out);
	assert_true(slice_eq(slice_of(all.p + 6, all.n - 6), golden_batch[1]));
	buf_done(&out);
}

static void test_place_and_stamp(void **state)
{
	struct buf out;
	struct record_batch_writer w;
	uint8_t key[200], value[100];
	memset(key, 'k', sizeof(key));
	memset(value, 'v', sizeof(value));
	buf_init(&out, 1000);
	record_batch_begin(&w, &out);
	record_batch_add(&w, slice_of(key, 200), slice_of(value, 100), NULL, 0);
	size_t n = record_batch_end(&w);
	record_batch_place(buf_head(&out), 1000, 3);
	struct record_batch b;
	assert_int_equal(record_batch_read(buf_slice(&out), &b), 0);
	assert_true(record_batch_crc_is_good(&b));
	record_batch_stamp(buf_head(&out), n, 1700000000123);
	assert_true(slice_eq(buf_slice(&out), golden_batch[2]));
	struct record_iter it;
	struct record r;
	assert_int_equal(record_batch_read(buf_slice(&out), &b), 0);
	assert_int_equal(record_iter_init(&it, &b), 0);
	assert_int_equal(record_iter_next(&it, &r), 1);
	assert_int_equal(r.offset, 1000);
	assert_int_equal(r.timestamp_ms, 1700000000123);
	buf_done(&out);
}

/* A batch of creation times gets LogAppendTime with the stamp, and keeps its other bits. */
static void test_stamp_sets_bit(void **state)
{
	uint8_t copy[512];
	struct record_batch b;
	struct record_iter it;
	struct record r;
	memcpy(copy, golden_batch[0].p, golden_batch[0].n);
	put_be16(copy + 21, BATCH_TRANSACTIONAL);
	record_batch_stamp(copy, golden_batch[0].n, 5);
	assert_int_equal(record_batch_read(slice_of(copy, golden_batch[0].n), &b), 0);
	assert_int_equal(b.attributes, BATCH_TRANSACTIONAL | BATCH_LOG_APPEND_TIME);
	assert_true(record_batch_crc_is_good(&b));
	assert_int_equal(record_iter_init(&it, &b), 0);
	while (record_iter_next(&it, &r) == 1)
		assert_int_equal(r.timestamp_ms, 5);
}

/* ------------------------------------------------------------------ the writer's bounds */

static void test_writer_bounds(void **state)
{
	static struct record_header many[RECORD_BATCH_MAX_HEADERS + 1];
	struct buf out;
	struct record_batch_writer w;
	struct record_batch b;
	buf_init(&out, 1 << 20);
	record_batch_begin(&w, &out);
	record_batch_add(&w, NONE, NONE, many, RECORD_BATCH_MAX_HEADERS);
	assert_true(record_batch_end(&w) > 0);
	assert_int_equal(record_batch_read(buf_slice(&out), &b), 0);
	assert_int_equal(record_batch_validate(&b, NULL), 0);
	record_batch_add(&w, NONE, NONE, many, RECORD_BATCH_MAX_HEADERS + 1);
	assert_true(out.failed);
	buf_reset(&out, 0);
	record_batch_begin(&w, &out);
	assert_int_equal(record_batch_end(&w), 0); /* no record */
	assert_true(out.failed);
	buf_reset(&out, 0);
	record_batch_begin(&w, &out);
	record_batch_add(&w, slice_of("x", (size_t)INT32_MAX + 1), NONE, NULL, 0);
	assert_true(out.failed);
	assert_int_equal(record_batch_end(&w), 0);
	buf_done(&out);
}

/* Lengths that no record can have; nothing is read of what they are of. */
static void test_writer_lengths(void **state)
{
	const struct slice huge = slice_of("x", (size_t)INT32_MAX + 1), most = slice_of("x", INT32_MAX - 10);
	const struct record_header long_name = { .name = huge, .value = NONE }, long_value = { .name = EMPTY, .value = huge };
	const struct {
		struct slice key, value;
		const struct record_header *header;
		uint32_t count;
	} cases[] = {
		{ NONE, huge, NULL, 0 }, { NONE, NONE, &long_name, 0 }, { NONE, NONE, &long_value, 0 },
		{ most, most, NULL, 0 }, { NONE, NONE, NULL, INT32_MAX },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out;
		struct record_batch_writer w;
		buf_init(&out, 1 << 20);
		record_batch_begin(&w, &out);
		w.count = cases[i].count;
		record_batch_add(&w, cases[i].key, cases[i].value, cases[i].header, cases[i].header != NULL);
		assert_true(out.failed);
		assert_int_equal(w.count, cases[i].count);
		buf_done(&out);
	}
}

/* Every bound of the buffer below the batch's size fails it, the size itself does not. */
static void test_writer_out_of_room(void **state)
{
	for (size_t max = 0; max <= golden_batch[1].n; max++) {
		struct buf out;
		struct record_batch_writer w;
		buf_init(&out, max);
		record_batch_begin(&w, &out);
		add_golden(&w);
		assert_int_equal(record_batch_end(&w), max == golden_batch[1].n ? max : 0);
		assert_int_equal(out.failed, max < golden_batch[1].n);
		buf_done(&out);
	}
}

static void test_many_records(void **state)
{
	enum { N = 20000 };
	static uint8_t bytes[N];
	struct buf out;
	struct record_batch_writer w;
	struct record_batch b;
	struct record_iter it;
	struct record r;
	uint64_t sum = 0, want_sum = 0;
	for (unsigned i = 0; i < N; i++)
		bytes[i] = (uint8_t)(i * 7);
	buf_init(&out, 8 << 20);
	record_batch_begin(&w, &out);
	for (unsigned i = 0; i < N; i++) {
		record_batch_add(&w, slice_of(bytes, i % 71), slice_of(bytes + i % 100, i % 211), NULL, 0);
		want_sum += i % 71 + i % 211;
	}
	size_t n = record_batch_end(&w);
	record_batch_place(buf_head(&out), INT64_MAX - (N - 1), 1);
	assert_int_equal(record_batch_size(buf_slice(&out)), n);
	assert_int_equal(record_batch_read(buf_slice(&out), &b), 0);
	assert_int_equal(record_batch_validate(&b, &sum), 0);
	assert_int_equal(sum, want_sum);
	assert_int_equal(record_iter_init(&it, &b), 0);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(record_iter_next(&it, &r), 1);
		assert_int_equal(r.offset, (uint64_t)INT64_MAX - (N - 1) + i);
		assert_true(slice_eq(r.key, slice_of(bytes, i % 71)));
		assert_true(slice_eq(r.value, slice_of(bytes + i % 100, i % 211)));
	}
	assert_int_equal(record_iter_next(&it, &r), 0);
	record_batch_place(buf_head(&out), INT64_MAX - (N - 2), 1); /* one too far */
	assert_int_equal(record_batch_read(buf_slice(&out), &b), -EBADMSG);
	buf_done(&out);
}

/* ------------------------------------------------------------------ broken batches */

/* A copy on the heap of exactly n bytes, so that a read past the end is seen by the sanitizer. */
static uint8_t *exact_copy(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);
	assert_non_null(copy);
	memcpy(copy, p, n);
	return copy;
}

/* 0 when all of a batch but its CRC is good. */
static int judge(const uint8_t *p, size_t n, struct record_batch *ret_b, uint64_t *ret_bytes)
{
	int rc = record_batch_read(slice_of(p, n), ret_b);
	return rc != 0 ? rc : record_batch_validate(ret_b, ret_bytes);
}

static void test_truncations(void **state)
{
	for (int i = 0; i < GOLDEN_BATCHES; i++)
		for (size_t n = 0; n < golden_batch[i].n; n++) {
			uint8_t *cut = exact_copy(golden_batch[i].p, n);
			struct record_batch b;
			assert_int_equal(judge(cut, n, &b, NULL), -EBADMSG);
			if (n >= RECORD_BATCH_HEADER) { /* with a length field that fits the cut, too */
				put_be32(cut + 8, (uint32_t)(n - 12));
				assert_int_equal(judge(cut, n, &b, NULL), -EBADMSG);
			}
			free(cut);
		}
	uint8_t *more = exact_copy(golden_batch[0].p, golden_batch[0].n + 1);
	struct record_batch b;
	assert_int_equal(judge(more, golden_batch[0].n + 1, &b, NULL), -EBADMSG);
	put_be32(more + 8, (uint32_t)(golden_batch[0].n + 1 - 12));
	assert_int_equal(judge(more, golden_batch[0].n + 1, &b, NULL), -EBADMSG);
	free(more);
}

/* What was accepted holds what it says: as many records, rising offsets, slices inside, sums equal. */
static void assert_consistent(const struct record_batch *b, uint64_t bytes)
{
	struct record_iter it;
	struct record r;
	uint64_t sum = 0, next = b->base_offset;
	uint32_t n = 0;
	int rc;
	assert_int_equal(record_iter_init(&it, b), 0);
	while ((rc = record_iter_next(&it, &r)) == 1) {
		assert_true(r.offset >= next && r.offset <= b->base_offset + b->last_offset_delta);
		assert_true(r.key.n + r.value.n + r.headers_raw.n <= b->bytes.n - RECORD_BATCH_HEADER);
		next = r.offset + 1;
		sum += record_bytes(&r);
		n++;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(n, b->record_count);
	assert_int_equal(sum, bytes);
}

static void mutate_everywhere(struct slice batch, unsigned *accepted, unsigned *refused)
{
	uint8_t *copy = exact_copy(batch.p, batch.n);
	for (size_t at = 0; at < batch.n; at++)
		for (unsigned x = 1; x < 256; x++) {
			struct record_batch b;
			uint64_t bytes = 0;
			copy[at] = (uint8_t)(batch.p[at] ^ x);
			int rc = judge(copy, batch.n, &b, &bytes);
			assert_true(rc == 0 || rc == -EBADMSG || rc == -ENOTSUP);
			if (rc != 0) {
				++*refused;
			} else {
				++*accepted;
				assert_consistent(&b, bytes);
				assert_int_equal(record_batch_crc_is_good(&b), at < 17);
			}
			copy[at] = batch.p[at];
		}
	free(copy);
}

static void test_mutations(void **state)
{
	unsigned accepted = 0, refused = 0;
	for (int i = 0; i < 2; i++)
		mutate_everywhere(golden_batch[i], &accepted, &refused);
	assert_true(accepted > 10000 && refused > 10000);
}

struct field_case {
	const char *what;
	size_t at;
	unsigned size;
	uint64_t value;
	int want;
};

/* Single fields of the first golden batch, whose records begin at 61. */
static const struct field_case field_cases[] = {
	{ "magic 1", 16, 1, 1, -EBADMSG },
	{ "magic 3", 16, 1, 3, -EBADMSG },
	{ "length one less", 8, 4, 0, -EBADMSG },
	{ "length negative", 8, 4, 0x80000000, -EBADMSG },
	{ "count 0", 57, 4, 0, -EBADMSG },
	{ "count negative", 57, 4, 0xffffffff, -EBADMSG },
	{ "count 2 of 3", 57, 4, 2, -EBADMSG },
	{ "count 4 of 3", 57, 4, 4, -EBADMSG },
	{ "count huge", 57, 4, 0x7fffffff, -EBADMSG },
	{ "last delta below the last record's", 23, 4, 2, -EBADMSG },
	{ "last delta negative", 23, 4, 0xffffffff, -EBADMSG },
	{ "last delta above", 23, 4, 1000, 0 },
	{ "base offset negative", 0, 8, UINT64_MAX, -EBADMSG },
	{ "base offset highest", 0, 8, INT64_MAX - 3, 0 },
	{ "base offset too high", 0, 8, INT64_MAX - 2, -EBADMSG },
	{ "codec gzip", 21, 2, 1, -ENOTSUP },
	{ "codec zstd", 21, 2, 4, -ENOTSUP },
	{ "codec 5", 21, 2, 5, -EBADMSG },
	{ "codec 7", 21, 2, 7, -EBADMSG },
	{ "control", 21, 2, BATCH_CONTROL, 0 },
	{ "time overflows", 27, 8, INT64_MAX - 299, -EBADMSG },
	{ "time at the top", 27, 8, INT64_MAX - 300, 0 },
	{ "time overflows below", 27, 8, (uint64_t)INT64_MIN + 249, -EBADMSG },
	{ "record length negative", 61, 1, 0x01, -EBADMSG },
	{ "record length past the end", 61, 1, 0x7e, -EBADMSG },
	{ "offset delta negative", 64, 1, 0x01, -EBADMSG },
	{ "key length -2", 65, 1, 0x03, -EBADMSG },
	{ "key length past the record", 65, 1, 0x7e, -EBADMSG },
	{ "header count 1 without one", 72, 1, 0x02, -EBADMSG },
	{ "header count negative", 72, 1, 0x01, -EBADMSG },
	{ "2 headers of 3", 80, 1, 0x04, -EBADMSG },
	{ "4 headers of 3", 80, 1, 0x08, -EBADMSG },
	{ "no header of 3", 80, 1, 0x00, -EBADMSG },
	{ "header name null", 81, 1, 0x01, -EBADMSG },
	{ "header value length -2", 87, 1, 0x03, -EBADMSG },
};

static void test_fields(void **state)
{
	for (size_t i = 0; i < sizeof(field_cases) / sizeof(field_cases[0]); i++) {
		const struct field_case *c = &field_cases[i];
		uint8_t *copy = exact_copy(golden_batch[0].p, golden_batch[0].n);
		uint8_t be[8];
		struct record_batch b;
		put_be64(be, c->value);
		memcpy(copy + c->at, be + 8 - c->size, c->size);
		int rc = judge(copy, golden_batch[0].n, &b, NULL);
		if (rc != c->want)
			fail_msg("%s: %d, not %d", c->what, rc, c->want);
		free(copy);
	}
}

/* Bytes behind a record's last field are refused by the iterator alone, too. */
static void test_iter_strict(void **state)
{
	uint8_t *copy = exact_copy(golden_batch[0].p, golden_batch[0].n);
	struct record_batch b;
	struct record_iter it;
	struct record r;
	copy[80] = 0; /* the second record's header count, with three headers behind */
	assert_int_equal(record_batch_read(slice_of(copy, golden_batch[0].n), &b), 0);
	assert_int_equal(record_iter_init(&it, &b), 0);
	assert_int_equal(record_iter_next(&it, &r), 1);
	assert_int_equal(record_iter_next(&it, &r), -EBADMSG);
	free(copy);
}

/* The writer refuses more headers than the bound; so this adds one by hand. */
static void test_too_many_headers(void **state)
{
	static struct record_header many[RECORD_BATCH_MAX_HEADERS];
	struct buf out;
	struct record_batch_writer w;
	struct record_batch b;
	buf_init(&out, 10000);
	record_batch_begin(&w, &out);
	record_batch_add(&w, NONE, NONE, many, RECORD_BATCH_MAX_HEADERS);
	size_t n = record_batch_end(&w);
	assert_int_equal(judge(buf_head(&out), n, &b, NULL), 0);
	buf_put(&out, "\0\1", 2); /* "" and null */
	uint8_t *p = buf_head(&out);
	put_be32(p + 8, (uint32_t)(n + 2 - 12));
	assert_true(wire_put_varlong(p + 61, (int64_t)n + 2 - 63) == p + 63);
	assert_true(wire_put_varlong(p + 68, RECORD_BATCH_MAX_HEADERS + 1) == p + 70);
	assert_int_equal(judge(p, n + 2, &b, NULL), -EBADMSG);
	buf_done(&out);
}

/* Failure leaves what it was to fill alone. */
/* Compressed records are some bytes at least. */
static void test_compressed_without_records(void **state)
{
	uint8_t bytes[RECORD_BATCH_HEADER];
	struct record_batch b;
	memcpy(bytes, golden_batch[0].p, sizeof(bytes));
	put_be32(bytes + 8, sizeof(bytes) - 12);
	put_be16(bytes + 21, 1);
	assert_int_equal(record_batch_read(slice_of(bytes, sizeof(bytes)), &b), -EBADMSG);
	uint8_t more[RECORD_BATCH_HEADER + 1] = { 0 };
	memcpy(more, bytes, sizeof(bytes));
	put_be32(more + 8, sizeof(more) - 12);
	assert_int_equal(record_batch_read(slice_of(more, sizeof(more)), &b), 0);
	assert_int_equal(b.attributes, 1);
}

/* A header that is cut off stays an error, however often it is asked for. */
static void test_header_cut_off(void **state)
{
	const uint8_t bytes[] = { 20, 'n' };    /* a name of ten bytes */
	struct wire_reader r = wire_reader(slice_of(bytes, sizeof(bytes)));
	struct record_header h = { .name = EMPTY };
	for (int i = 0; i < 3; i++)
		assert_int_equal(record_header_next(&r, &h), -EBADMSG);
	assert_int_equal(h.name.n, 0);
}

static void test_untouched_on_failure(void **state)
{
	struct record_batch b = { .record_count = 77 };
	assert_int_equal(record_batch_read(slice_of(golden_batch[0].p, 60), &b), -EBADMSG);
	assert_int_equal(b.record_count, 77);
	uint8_t *copy = exact_copy(golden_batch[0].p, golden_batch[0].n);
	copy[golden_batch[0].n - 1] ^= 2; /* the last record's header count */
	uint64_t bytes = 99;
	assert_int_equal(judge(copy, golden_batch[0].n, &b, &bytes), -EBADMSG);
	assert_int_equal(bytes, 99);
	struct record_iter it;
	struct record r;
	assert_int_equal(record_iter_init(&it, &b), 0);
	assert_int_equal(record_iter_next(&it, &r), 1);
	assert_int_equal(record_iter_next(&it, &r), 1);
	r.offset = 12345;
	assert_int_equal(record_iter_next(&it, &r), -EBADMSG);
	assert_int_equal(record_iter_next(&it, &r), -EBADMSG);
	assert_int_equal(r.offset, 12345);
	free(copy);
}

static void test_size(void **state)
{
	uint8_t p[12] = { 0 };
	for (size_t n = 0; n < 12; n++)
		assert_int_equal(record_batch_size(slice_of(p, n)), 0);
	const struct { uint32_t length; int64_t want; } cases[] = {
		{ 0, -EBADMSG }, { 48, -EBADMSG }, { 49, 61 }, { 50, 62 }, { INT32_MAX, 12 + (int64_t)INT32_MAX },
		{ 0x80000000, -EBADMSG }, { UINT32_MAX, -EBADMSG },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_be32(p + 8, cases[i].length);
		assert_true(record_batch_size(slice_of(p, 12)) == cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_header), cmocka_unit_test(test_golden_records),
		cmocka_unit_test(test_golden_headers), cmocka_unit_test(test_writer_golden),
		cmocka_unit_test(test_place_and_stamp), cmocka_unit_test(test_stamp_sets_bit),
		cmocka_unit_test(test_writer_bounds), cmocka_unit_test(test_writer_lengths),
		cmocka_unit_test(test_compressed_without_records), cmocka_unit_test(test_header_cut_off), cmocka_unit_test(test_writer_out_of_room),
		cmocka_unit_test(test_many_records), cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_mutations), cmocka_unit_test(test_fields),
		cmocka_unit_test(test_iter_strict), cmocka_unit_test(test_too_many_headers),
		cmocka_unit_test(test_untouched_on_failure), cmocka_unit_test(test_size),
	};
	return cmocka_run_group_tests_name("record_batch", tests, read_golden, NULL);
}
