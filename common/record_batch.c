/* SPDX-License-Identifier: Apache-2.0
 *
 * RecordBatch v2, read and written in place. Every number that comes out of a batch is compared
 * with the bytes that are left before it is used; what the iterator hands out lies inside the batch.
 * The layout is pictured in the header; one record behind it:
 *
 *   length varint | attributes i8 | timestampDelta varlong | offsetDelta varint
 *   keyLength varint (-1 null) key | valueLength varint (-1 null) value
 *   headerCount varint { nameLength varint name | valueLength varint (-1 null) value }
 */
#include "common/record_batch.h"

#include <errno.h>

#include "common/crc32c.h"
#include "common/must.h"

#define BATCH_LENGTH_AT 8
#define BATCH_COUNTED_FROM 12       /* batchLength counts from here */
#define BATCH_EPOCH_AT 12
#define BATCH_MAGIC_AT 16
#define BATCH_CRC_AT 17
#define BATCH_CRC_FROM 21
#define BATCH_ATTRIBUTES_AT 21
#define BATCH_LAST_DELTA_AT 23
#define BATCH_BASE_TIMESTAMP_AT 27
#define BATCH_MAX_TIMESTAMP_AT 35
#define BATCH_PRODUCER_ID_AT 43
#define BATCH_PRODUCER_EPOCH_AT 51
#define BATCH_BASE_SEQUENCE_AT 53
#define BATCH_COUNT_AT 57

#define BATCH_MAGIC 2
#define BATCH_CODEC_MAX 4           /* zstd */
#define RECORD_SIZE_MIN 7           /* seven fields of one byte each */
#define RECORD_HEADER_SIZE_MIN 2

/* ------------------------------------------------------------------ writing */

void record_batch_begin(struct record_batch_writer *w, struct buf *out)
{
	*w = (struct record_batch_writer){ .out = out, .start = buf_len(out) };
	uint8_t *header = buf_reserve(out, RECORD_BATCH_HEADER);
	if (header == NULL)
		return;
	memset(header, 0, RECORD_BATCH_HEADER);
	buf_commit(out, RECORD_BATCH_HEADER);
}

/* A length and its bytes; p == NULL is null, -1. */
static uint64_t bytes_size(struct slice s)
{
	return s.p == NULL ? 1 : wire_varlong_size((int64_t)s.n) + (uint64_t)s.n;
}

static uint8_t *put_bytes(uint8_t *p, struct slice s)
{
	must(s.p != NULL || s.n == 0);
	p = wire_put_varlong(p, s.p == NULL ? -1 : (int64_t)s.n);
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return p + s.n;
}

/* A name is never null. */
static struct slice header_name(const struct record_header *h)
{
	return h->name.p == NULL ? slice_str("") : h->name;
}

/* The size of a record behind its length, or UINT64_MAX when it cannot be one. */
static uint64_t record_size(const struct record_batch_writer *w, struct slice key, struct slice value,
			    const struct record_header *headers, uint32_t n_headers)
{
	if (n_headers > RECORD_BATCH_MAX_HEADERS || key.n > INT32_MAX || value.n > INT32_MAX)
		return UINT64_MAX;
	uint64_t size = 2 + wire_varlong_size(w->count) + bytes_size(key) + bytes_size(value) +
			wire_varlong_size(n_headers);
	for (uint32_t i = 0; i < n_headers; i++) {
		if (headers[i].name.n > INT32_MAX || headers[i].value.n > INT32_MAX)
			return UINT64_MAX;
		size += bytes_size(header_name(&headers[i])) + bytes_size(headers[i].value);
	}
	return size <= INT32_MAX ? size : UINT64_MAX;
}

void record_batch_add(struct record_batch_writer *w, struct slice key, struct slice value,
		      const struct record_header *headers, uint32_t n_headers)
{
	uint64_t size = record_size(w, key, value, headers, n_headers);
	if (size == UINT64_MAX || w->count == INT32_MAX)
		w->out->failed = true;
	if (w->out->failed)
		return;
	size_t whole = wire_varlong_size((int64_t)size) + (size_t)size;
	uint8_t *begin = buf_reserve(w->out, whole);
	if (begin == NULL)
		return;
	uint8_t *p = wire_put_varlong(begin, (int64_t)size);
	*p++ = 0; /* attributes */
	*p++ = 0; /* timestamp delta */
	p = wire_put_varlong(p, w->count);
	p = put_bytes(p, key);
	p = put_bytes(p, value);
	p = wire_put_varlong(p, n_headers);
	for (uint32_t i = 0; i < n_headers; i++) {
		p = put_bytes(p, header_name(&headers[i]));
		p = put_bytes(p, headers[i].value);
	}
	must((size_t)(p - begin) == whole);
	buf_commit(w->out, whole);
	w->count++;
}

/* The distance of a record's time from the first one's. False: it has none. */
static bool take_time(struct record_batch_writer *w, int64_t ms, int64_t *ret_delta)
{
	must(w->timed || w->count == 0);
	if (!w->timed)
		w->base_ms = w->max_ms = ms;
	w->timed = true;
	if (ms > w->max_ms)
		w->max_ms = ms;
	return !__builtin_sub_overflow(ms, w->base_ms, ret_delta);
}

void record_batch_add_record(struct record_batch_writer *w, const struct record *r)
{
	int64_t delta = 0;
	if (!take_time(w, r->timestamp_ms, &delta) || w->count == INT32_MAX)
		w->out->failed = true;
	if (w->out->failed)
		return;
	uint64_t size = 1 + wire_varlong_size(delta) + wire_varlong_size(w->count) + bytes_size(r->key) +
			bytes_size(r->value) + wire_varlong_size(r->n_headers) + r->headers_raw.n;
	size_t whole = wire_varlong_size((int64_t)size) + (size_t)size;
	uint8_t *begin = size <= INT32_MAX ? buf_reserve(w->out, whole) : NULL;
	if (begin == NULL) {
		w->out->failed = true;
		return;
	}
	uint8_t *p = wire_put_varlong(begin, (int64_t)size);
	*p++ = 0; /* attributes */
	p = wire_put_varlong(p, delta);
	p = wire_put_varlong(p, w->count);
	p = put_bytes(p, r->key);
	p = put_bytes(p, r->value);
	p = wire_put_varlong(p, r->n_headers);
	if (r->headers_raw.n > 0)
		memcpy(p, r->headers_raw.p, r->headers_raw.n);
	must((size_t)(p - begin) + r->headers_raw.n == whole);
	buf_commit(w->out, whole);
	w->count++;
}

static void put_crc(uint8_t *batch, size_t n)
{
	put_be32(batch + BATCH_CRC_AT, crc32c(batch + BATCH_CRC_FROM, n - BATCH_CRC_FROM));
}

size_t record_batch_end(struct record_batch_writer *w)
{
	struct buf *out = w->out;
	if (w->count == 0 || (!out->failed && buf_len(out) - w->start > INT32_MAX))
		out->failed = true;
	if (out->failed)
		return 0;
	uint8_t *batch = buf_head(out) + w->start;
	size_t n = buf_len(out) - w->start;
	must(n >= RECORD_BATCH_HEADER + RECORD_SIZE_MIN);
	put_be32(batch + BATCH_LENGTH_AT, (uint32_t)(n - BATCH_COUNTED_FROM));
	put_be32(batch + BATCH_EPOCH_AT, UINT32_MAX);
	batch[BATCH_MAGIC_AT] = BATCH_MAGIC;
	put_be16(batch + BATCH_ATTRIBUTES_AT, w->timed ? 0 : BATCH_LOG_APPEND_TIME);
	put_be32(batch + BATCH_LAST_DELTA_AT, w->count - 1);
	put_be64(batch + BATCH_BASE_TIMESTAMP_AT, (uint64_t)w->base_ms);
	put_be64(batch + BATCH_MAX_TIMESTAMP_AT, (uint64_t)w->max_ms);
	put_be64(batch + BATCH_PRODUCER_ID_AT, UINT64_MAX);
	put_be16(batch + BATCH_PRODUCER_EPOCH_AT, UINT16_MAX);
	put_be32(batch + BATCH_BASE_SEQUENCE_AT, UINT32_MAX);
	put_be32(batch + BATCH_COUNT_AT, w->count);
	put_crc(batch, n);
	return n;
}

void record_batch_place(uint8_t *batch, uint64_t base_offset, uint32_t leader_epoch)
{
	put_be64(batch, base_offset);
	put_be32(batch + BATCH_EPOCH_AT, leader_epoch);
}

void record_batch_stamp(uint8_t *batch, size_t n, int64_t timestamp_ms)
{
	must(n >= RECORD_BATCH_HEADER);
	put_be64(batch + BATCH_BASE_TIMESTAMP_AT, (uint64_t)timestamp_ms);
	record_batch_stamp_max(batch, n, timestamp_ms);
}

void record_batch_stamp_max(uint8_t *batch, size_t n, int64_t timestamp_ms)
{
	must(n >= RECORD_BATCH_HEADER);
	put_be16(batch + BATCH_ATTRIBUTES_AT,
		 get_be16(batch + BATCH_ATTRIBUTES_AT) | BATCH_LOG_APPEND_TIME);
	put_be64(batch + BATCH_MAX_TIMESTAMP_AT, (uint64_t)timestamp_ms);
	put_crc(batch, n);
}

/* ------------------------------------------------------------------ reading */

int64_t record_batch_size(struct slice bytes)
{
	if (bytes.n < BATCH_COUNTED_FROM)
		return 0;
	int32_t length = (int32_t)get_be32(bytes.p + BATCH_LENGTH_AT);
	if (length < RECORD_BATCH_HEADER - BATCH_COUNTED_FROM)
		return -EBADMSG;
	return (int64_t)length + BATCH_COUNTED_FROM;
}

/* Count, last delta and codec, against each other and against the bytes. */
static bool counts_are_good(const struct record_batch *b)
{
	if (b->record_count == 0 || b->record_count > INT32_MAX || b->last_offset_delta > INT32_MAX)
		return false;
	if (b->last_offset_delta < b->record_count - 1)
		return false;
	if (b->base_offset > (uint64_t)INT64_MAX - b->last_offset_delta)
		return false;
	unsigned codec = b->attributes & BATCH_CODEC_MASK;
	if (codec != 0)
		return codec <= BATCH_CODEC_MAX && b->bytes.n > RECORD_BATCH_HEADER;
	return b->record_count <= (b->bytes.n - RECORD_BATCH_HEADER) / RECORD_SIZE_MIN;
}

int record_batch_read(struct slice bytes, struct record_batch *ret_batch)
{
	const uint8_t *p = bytes.p;
	if (bytes.n < RECORD_BATCH_HEADER || record_batch_size(bytes) != (int64_t)bytes.n ||
	    p[BATCH_MAGIC_AT] != BATCH_MAGIC)
		return -EBADMSG;
	struct record_batch b = {
		.bytes = bytes,
		.base_offset = get_be64(p),
		.record_count = get_be32(p + BATCH_COUNT_AT),
		.last_offset_delta = get_be32(p + BATCH_LAST_DELTA_AT),
		.leader_epoch = (int32_t)get_be32(p + BATCH_EPOCH_AT),
		.crc = get_be32(p + BATCH_CRC_AT),
		.attributes = get_be16(p + BATCH_ATTRIBUTES_AT),
		.base_timestamp = (int64_t)get_be64(p + BATCH_BASE_TIMESTAMP_AT),
		.max_timestamp = (int64_t)get_be64(p + BATCH_MAX_TIMESTAMP_AT),
		.producer_id = (int64_t)get_be64(p + BATCH_PRODUCER_ID_AT),
		.producer_epoch = (int16_t)get_be16(p + BATCH_PRODUCER_EPOCH_AT),
		.base_sequence = (int32_t)get_be32(p + BATCH_BASE_SEQUENCE_AT),
	};
	if (!counts_are_good(&b))
		return -EBADMSG;
	*ret_batch = b;
	return 0;
}

bool record_batch_crc_is_good(const struct record_batch *b)
{
	must(b->bytes.n >= RECORD_BATCH_HEADER);
	return b->crc == crc32c(b->bytes.p + BATCH_CRC_FROM, b->bytes.n - BATCH_CRC_FROM);
}

int record_iter_init_records(struct record_iter *it, const struct record_batch *b, struct slice records)
{
	if (b->record_count > records.n / RECORD_SIZE_MIN)
		return -EBADMSG;
	*it = (struct record_iter){ .batch = *b, .r = wire_reader(records), .last_delta = -1 };
	return 0;
}

int record_iter_init(struct record_iter *it, const struct record_batch *b)
{
	if ((b->attributes & BATCH_CODEC_MASK) != 0)
		return -ENOTSUP;
	must(b->bytes.n >= RECORD_BATCH_HEADER);
	int r = record_iter_init_records(it, b, slice_of(b->bytes.p + RECORD_BATCH_HEADER,
							 b->bytes.n - RECORD_BATCH_HEADER));
	must(r == 0); /* record_batch_read() has counted them */
	return 0;
}

/* A length and its bytes; null where that is allowed, else the reader fails. */
static struct slice take_bytes(struct wire_reader *r, bool nullable)
{
	int32_t n = wire_varint(r);
	if (n < 0) {
		if (n != -1 || !nullable)
			r->failed = true;
		return slice_of(NULL, 0);
	}
	return wire_take(r, (size_t)n);
}

/* Base plus delta, or false when that is no int64. Under LogAppendTime the batch's time counts. */
static bool record_timestamp(const struct record_batch *b, int64_t delta, int64_t *ret_timestamp_ms)
{
	if (b->attributes & BATCH_LOG_APPEND_TIME) {
		*ret_timestamp_ms = b->max_timestamp;
		return true;
	}
	return !__builtin_add_overflow(b->base_timestamp, delta, ret_timestamp_ms);
}

/* One record out of exactly its own bytes. */
static int record_parse(struct record_iter *it, struct slice bytes, struct record *ret_record)
{
	struct wire_reader r = wire_reader(bytes);
	struct record record = { 0 };
	wire_u8(&r); /* attributes: none is defined */
	int64_t timestamp_delta = wire_varlong(&r);
	int32_t offset_delta = wire_varint(&r);
	record.key = take_bytes(&r, true);
	record.value = take_bytes(&r, true);
	int32_t n_headers = wire_varint(&r);
	if (r.failed || n_headers < 0 || n_headers > RECORD_BATCH_MAX_HEADERS ||
	    (size_t)n_headers > wire_left(&r) / RECORD_HEADER_SIZE_MIN)
		return -EBADMSG;
	if (offset_delta <= it->last_delta || (uint32_t)offset_delta > it->batch.last_offset_delta)
		return -EBADMSG;
	if (!record_timestamp(&it->batch, timestamp_delta, &record.timestamp_ms))
		return -EBADMSG;
	record.n_headers = (uint32_t)n_headers;
	record.headers_raw = slice_of(r.p, wire_left(&r));
	if (n_headers == 0 && record.headers_raw.n > 0)
		return -EBADMSG;
	record.offset = it->batch.base_offset + (uint32_t)offset_delta;
	it->last_delta = offset_delta;
	*ret_record = record;
	return 0;
}

int record_iter_next(struct record_iter *it, struct record *ret_record)
{
	if (it->r.failed)
		return -EBADMSG;
	if (it->index == it->batch.record_count) {
		it->r.failed = wire_left(&it->r) > 0;
		return it->r.failed ? -EBADMSG : 0;
	}
	struct slice bytes = take_bytes(&it->r, false);
	if (it->r.failed || record_parse(it, bytes, ret_record) != 0) {
		it->r.failed = true;
		return -EBADMSG;
	}
	it->index++;
	return 1;
}

int record_header_next(struct wire_reader *r, struct record_header *ret_header)
{
	if (!r->failed && wire_left(r) == 0)
		return 0;
	struct record_header h;
	h.name = take_bytes(r, false);
	h.value = take_bytes(r, true);
	if (r->failed)
		return -EBADMSG;
	*ret_header = h;
	return 1;
}

/* Walks the headers: their number and the bytes of names and values. */
static int headers_sum(const struct record *record, uint32_t *ret_n, uint64_t *ret_bytes)
{
	struct wire_reader r = wire_reader(record->headers_raw);
	struct record_header h;
	uint32_t n = 0;
	uint64_t bytes = 0;
	int rc;
	while ((rc = record_header_next(&r, &h)) == 1) {
		n++;
		bytes += (uint64_t)h.name.n + h.value.n;
	}
	*ret_n = n;
	*ret_bytes = bytes;
	return rc;
}

uint64_t record_bytes(const struct record *r)
{
	uint32_t n;
	uint64_t bytes = 0;
	if (r->n_headers > 0)
		headers_sum(r, &n, &bytes);
	return (uint64_t)r->key.n + r->value.n + bytes;
}

int record_iter_validate(struct record_iter *it, uint64_t *ret_bytes)
{
	struct record record;
	uint64_t sum = 0;
	int rc;
	while ((rc = record_iter_next(it, &record)) == 1) {
		uint32_t n;
		uint64_t bytes;
		if (headers_sum(&record, &n, &bytes) != 0 || n != record.n_headers)
			return -EBADMSG;
		sum += (uint64_t)record.key.n + record.value.n + bytes;
	}
	if (rc == 0 && ret_bytes != NULL)
		*ret_bytes = sum;
	return rc;
}

int record_batch_validate(const struct record_batch *b, uint64_t *ret_bytes)
{
	struct record_iter it;
	int rc = record_iter_init(&it, b);
	return rc != 0 ? rc : record_iter_validate(&it, ret_bytes);
}
