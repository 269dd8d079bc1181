/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a RecordBatch: as they are, and with a header made to fit, so that the records are
 * reached. What is accepted walks twice alike, adds up, and survives being written again.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/fuzz/fuzz.h"

#define SIZE_MAX_HERE (1u << 20)

static bool slice_same(struct slice a, struct slice b)
{
	return slice_eq(a, b) && (a.p == NULL) == (b.p == NULL);
}

static bool is_inside(struct slice part, struct slice whole)
{
	return part.p == NULL || (part.p >= whole.p && part.n <= whole.n &&
				  (size_t)(part.p - whole.p) <= whole.n - part.n);
}

static uint32_t read_headers(const struct record *r, struct record_header headers[RECORD_BATCH_MAX_HEADERS])
{
	struct wire_reader reader = wire_reader(r->headers_raw);
	uint32_t n = 0;
	struct record_header h;
	int rc;
	while ((rc = record_header_next(&reader, &h)) == 1) {
		must(n < RECORD_BATCH_MAX_HEADERS);
		must(h.name.p != NULL && is_inside(h.name, r->headers_raw) && is_inside(h.value, r->headers_raw));
		headers[n++] = h;
	}
	must(rc == 0);
	must(n == r->n_headers);
	return n;
}

/* Writes the records of a valid batch again; offsets and times are not kept. */
static void write_again(const struct record_batch *b, struct buf *out)
{
	static struct record_header headers[RECORD_BATCH_MAX_HEADERS];
	struct record_batch_writer w;
	struct record_iter it;
	struct record r;
	must(record_iter_init(&it, b) == 0);
	record_batch_begin(&w, out);
	while (record_iter_next(&it, &r) == 1) {
		uint32_t n = read_headers(&r, headers);
		record_batch_add(&w, r.key, r.value, headers, n);
	}
	size_t size = record_batch_end(&w);
	must(size == buf_len(out) && size > 0);
}

static void check_same_records(const struct record_batch *a, const struct record_batch *b)
{
	static struct record_header ha[RECORD_BATCH_MAX_HEADERS], hb[RECORD_BATCH_MAX_HEADERS];
	struct record_iter ia, ib;
	struct record ra, rb;
	uint64_t next = a->base_offset;
	must(record_iter_init(&ia, a) == 0 && record_iter_init(&ib, b) == 0);
	for (uint32_t i = 0; i < a->record_count; i++) {
		must(record_iter_next(&ia, &ra) == 1 && record_iter_next(&ib, &rb) == 1);
		must(is_inside(ra.key, a->bytes) && is_inside(ra.value, a->bytes));
		must(ra.offset >= next && ra.offset <= a->base_offset + a->last_offset_delta);
		must(rb.offset == b->base_offset + i);
		must(slice_same(ra.key, rb.key) && slice_same(ra.value, rb.value));
		must(record_bytes(&ra) == record_bytes(&rb));
		uint32_t n = read_headers(&ra, ha);
		must(n == read_headers(&rb, hb));
		for (uint32_t k = 0; k < n; k++)
			must(slice_same(ha[k].name, hb[k].name) && slice_same(ha[k].value, hb[k].value));
		next = ra.offset + 1;
	}
	must(record_iter_next(&ia, &ra) == 0 && record_iter_next(&ib, &rb) == 0);
}

static void check_valid(const struct record_batch *b, uint64_t bytes)
{
	struct buf out;
	struct record_batch again;
	uint64_t bytes_again = 0;
	buf_init(&out, 4 * SIZE_MAX_HERE);
	write_again(b, &out);
	record_batch_place(buf_head(&out), 1000, 3);
	must(record_batch_read(buf_slice(&out), &again) == 0);
	must(record_batch_crc_is_good(&again));
	record_batch_stamp(buf_head(&out), buf_len(&out), 1234567890123);
	must(record_batch_read(buf_slice(&out), &again) == 0);
	must(record_batch_crc_is_good(&again));
	must(again.base_offset == 1000 && again.leader_epoch == 3 && again.max_timestamp == 1234567890123);
	must(again.record_count == b->record_count);
	must(record_batch_validate(&again, &bytes_again) == 0 && bytes_again == bytes);
	check_same_records(b, &again);
	buf_done(&out);
}

static void check(struct slice bytes)
{
	struct record_batch b;
	uint64_t sum = 0;
	int64_t size = record_batch_size(bytes);
	must(size == 0 || size == -EBADMSG || size >= RECORD_BATCH_HEADER);
	int rc = record_batch_read(bytes, &b);
	must(rc == 0 || rc == -EBADMSG);
	if (rc != 0)
		return;
	must(size == (int64_t)bytes.n && b.record_count > 0);
	must(record_batch_crc_is_good(&b) == (crc32c_table(0, bytes.p + 21, bytes.n - 21) == b.crc));
	rc = record_batch_validate(&b, &sum);
	must(rc == 0 || rc == -EBADMSG || rc == -ENOTSUP);
	must((rc == -ENOTSUP) == ((b.attributes & BATCH_CODEC_MASK) != 0));
	if (rc == 0)
		check_valid(&b, sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > SIZE_MAX_HERE)
		return 0;
	check(slice_of(data, size));
	if (size < RECORD_BATCH_HEADER)
		return 0;
	uint8_t *fitted = must_memdup(data, size);
	put_be32(fitted + 8, (uint32_t)(size - 12));
	fitted[16] = 2;
	fitted[0] &= 0x3f;      /* a base offset that leaves room */
	put_be16(fitted + 21, get_be16(fitted + 21) & (uint16_t)~BATCH_CODEC_MASK);
	put_be32(fitted + 23, get_be32(fitted + 23) & INT32_MAX);
	check(slice_of(fitted, size));
	free(fitted);
	return 0;
}
