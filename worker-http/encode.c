/* SPDX-License-Identifier: Apache-2.0
 *
 * A record is a fixed row of fields: literals and runs of bytes. To go on, the row is walked again
 * and what is out already is passed over; so all state is a field number and a byte count.
 *
 * The binary body, all integers big-endian: version u8 = 1 | count u32 | count times
 * seq u64 | timestamp i64 | keyLen i32 (-1 no key) key | headerCount u32 { nameLen u32 name | valueLen u32 value }
 * | bodyLen u32 body. What is null, but for the key, reads as empty.
 */
#include "worker-http/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"

#define BINARY_VERSION 1
#define BINARY_HEADER 5
#define STEP 12288      /* bytes of a field between looks at the bound; a multiple of 3 for base64 */

/* ------------------------------------------------------------------ walking records */

struct walk {
	struct batch_cursor cursor;
	const struct encode_source *source;
	struct record_decoder *decoder; /* at the batch we are in; NULL between two */
	uint64_t decoded;
};

static void walk_init(struct walk *w, const struct encode_source *source)
{
	batch_cursor_init(&w->cursor, source->pieces);
	w->source = source;
	w->decoder = NULL;
	w->decoded = 0;
}

static void walk_done(struct walk *w)
{
	batch_cursor_done(&w->cursor);
}

/* Next record at or after `from`: 1, 0 at the end, negative. */
static int walk_next(struct walk *w, uint64_t from, struct record *ret)
{
	for (;;) {
		int r = w->decoder != NULL ? record_decoder_next(w->decoder, ret) : 0;
		if (r < 0 || (r == 1 && ret->offset >= from))
			return r;
		if (r == 1)
			continue;
		struct slice bytes;
		struct record_batch batch;
		w->decoder = NULL;
		r = batch_cursor_next(&w->cursor, &bytes);
		if (r <= 0)
			return r;
		r = record_batch_read(bytes, &batch);
		if (r == 0 && batch.base_offset + batch.last_offset_delta >= from) {
			r = batch_cache_open(w->source->cache, &w->source->log, &batch, &w->decoder);
			w->decoded += buf_len(&w->decoder->scratch);
		}
		if (r < 0)
			return r;
	}
}

bool encode_must_decompress(const struct encode_source *source, uint64_t from)
{
	struct batch_cursor cursor;
	struct slice bytes;
	struct record_batch batch;
	bool found = false;
	batch_cursor_init(&cursor, source->pieces);
	while (!found && batch_cursor_next(&cursor, &bytes) == 1 && record_batch_read(bytes, &batch) == 0)
		found = batch.base_offset + batch.last_offset_delta >= from &&
			batch_cache_must_decompress(source->cache, &source->log, &batch);
	batch_cursor_done(&cursor);
	return found;
}

/* Does one more record of n bytes go over a limit? */
static bool is_over(const struct encode_range *range, const struct encode_limits *limits, uint64_t n)
{
	return (limits->count > 0 && range->n_records == limits->count) ||
		(range->n_records > 0 && (range->bytes + n > limits->bytes || range->decoded > limits->decoded));
}

int encode_measure(const struct encode_source *source, uint64_t batches_end, const struct encode_limits *limits,
		   struct encode_range *range)
{
	struct record record;
	struct walk w;
	int r;
	walk_init(&w, source);
	w.decoded = range->decoded;
	while ((r = walk_next(&w, range->end, &record)) == 1) {
		uint64_t n = record_bytes(&record);
		range->decoded = w.decoded;
		range->full = is_over(range, limits, n);
		range->end = record.offset + !range->full;
		if (range->full)
			break;
		range->bytes += n;
		range->n_records++;
		range->value_bytes += record.value.n;
	}
	walk_done(&w);
	if (r == 0 && batches_end > range->end)
		range->end = batches_end;
	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------------ fields */

struct put {
	struct encoder *e;
	struct buf *out;
	size_t max;
	uint32_t index;         /* of the next field */
	bool full;
};

/* Is this field to be written now? Counts it. */
static bool put_enter(struct put *p)
{
	if (p->full || p->index++ < p->e->field)
		return false;
	p->full = buf_len(p->out) >= p->max;
	return !p->full;
}

static void put_leave(struct put *p)
{
	p->e->field = p->index;
	p->e->byte = 0;
}

/* A small field that goes out at once. */
static void put_small(struct put *p, struct slice s)
{
	if (!put_enter(p))
		return;
	buf_put_slice(p->out, s);
	put_leave(p);
}

static void put_text(struct put *p, const char *text)
{
	put_small(p, slice_str(text));
}

static void put_escaped(struct buf *out, struct slice s)
{
	static const char hex[] = "0123456789abcdef";
	size_t plain = 0;
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_put(out, s.p + plain, i - plain);
		plain = i + 1;
		char escape[6] = { '\\', (char)c, '0', '0', hex[c >> 4], hex[c & 15] };
		if (c == '"' || c == '\\') {
			buf_put(out, escape, 2);
		} else if (c == '\n' || c == '\r' || c == '\t') {
			escape[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
			buf_put(out, escape, 2);
		} else {
			escape[1] = 'u';
			buf_put(out, escape, 6);
		}
	}
	buf_put(out, s.p + plain, s.n - plain);
}

enum put_as { AS_RAW, AS_STRING, AS_BASE64, AS_NULL };

static void put_step(struct buf *out, struct slice s, unsigned as)
{
	if (as == AS_STRING)
		put_escaped(out, s);
	else if (as == AS_BASE64)
		base64_put(out, s);
	else
		buf_put_slice(out, s);
}

/* A run of bytes, quotes around it unless raw; steps may end inside a UTF-8 character: they follow each other. */
static void put_bytes(struct put *p, struct slice s, unsigned as)
{
	struct encoder *e = p->e;
	if (!put_enter(p))
		return;
	if (e->byte == 0 && as != AS_RAW)
		buf_put_u8(p->out, '"');
	while (e->byte < s.n) {
		if (buf_len(p->out) >= p->max && e->byte > 0) {
			p->full = true;
			return;
		}
		size_t n = s.n - e->byte < STEP ? s.n - e->byte : STEP;
		put_step(p->out, slice_of(s.p + e->byte, n), as);
		e->byte += n;
	}
	if (as != AS_RAW)
		buf_put_u8(p->out, '"');
	put_leave(p);
}

/* "name": string, or "name_b64": base64 when it is no text. What was chosen holds until the field is out. */
static void put_member(struct put *p, const char *text_name, const char *b64_name, struct slice s)
{
	if (!p->full && p->index >= p->e->field)
		p->e->as = utf8_is_valid(s) ? AS_STRING : AS_BASE64;
	put_text(p, p->e->as == AS_BASE64 ? b64_name : text_name);
	put_bytes(p, s, p->e->as);
}

/* ------------------------------------------------------------------ headers */

static int compare_slices(const void *a, const void *b)
{
	return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Text names, each once, with text values: then an object can hold them. */
static bool headers_fit_object(const struct record *record)
{
	static struct slice names[RECORD_BATCH_MAX_HEADERS];
	struct wire_reader r = wire_reader(record->headers_raw);
	struct record_header h;
	size_t n = 0;
	while (record_header_next(&r, &h) == 1) {
		if (n == RECORD_BATCH_MAX_HEADERS || h.value.p == NULL || !utf8_is_valid(h.name) ||
		    !utf8_is_valid(h.value))
			return false;
		names[n++] = h.name;
	}
	qsort(names, n, sizeof(names[0]), compare_slices);
	for (size_t i = 1; i < n; i++)
		if (slice_eq(names[i - 1], names[i]))
			return false;
	return true;
}

/* A name or value in the array form. */
static void put_element(struct put *p, struct slice s)
{
	bool null = s.p == NULL, text = !null && utf8_is_valid(s);
	if (null) {
		put_text(p, "null");
		return;
	}
	put_text(p, text ? "" : "{\"b64\":");
	put_bytes(p, s, text ? AS_STRING : AS_BASE64);
	put_text(p, text ? "" : "}");
}

static void put_headers(struct put *p, const struct record *record)
{
	bool object = headers_fit_object(record), first = true;
	struct wire_reader r = wire_reader(record->headers_raw);
	struct record_header h;
	put_text(p, object ? ",\"headers\":{" : ",\"headers\":[");
	for (; !p->full && record_header_next(&r, &h) == 1; first = false) {
		put_text(p, object ? (first ? "" : ",") : (first ? "[" : ",["));
		if (object)
			put_bytes(p, h.name, AS_STRING);
		else
			put_element(p, h.name);
		put_text(p, object ? ":" : ",");
		if (object)
			put_bytes(p, h.value, AS_STRING);
		else
			put_element(p, h.value);
		put_text(p, object ? "" : "]");
	}
	put_text(p, object ? "}" : "]");
}

/* ------------------------------------------------------------------ records */

static void put_json(struct put *p, const struct record *record)
{
	char begin[96];
	snprintf(begin, sizeof(begin), "%s{\"seq\":%" PRIu64 ",\"timestamp\":%" PRId64, p->e->any ? ",\n" : "[",
		 record->offset, record->timestamp_ms);
	put_text(p, begin);
	if (record->key.p != NULL)
		put_member(p, ",\"key\":", ",\"key_b64\":", record->key);
	if (record->n_headers > 0)
		put_headers(p, record);
	if (record->value.p != NULL)
		put_member(p, ",\"body\":", ",\"body_b64\":", record->value);
	else
		put_text(p, ",\"body\":null");
	put_text(p, "}");
}

static enum put_as value_as(struct slice value)
{
	if (value.p == NULL)
		return AS_NULL;
	if (json_is_valid(value))
		return AS_RAW;
	return utf8_is_valid(value) ? AS_STRING : AS_BASE64;
}

/* The bytes of a value stay as they are: numbers, spaces, names that come twice. */
static void put_value(struct put *p, const struct record *record)
{
	if (!p->full && p->index >= p->e->field)
		p->e->as = value_as(record->value);
	put_text(p, p->e->any ? "," : "[");
	put_text(p, p->e->as == AS_BASE64 ? "{\"body_b64\":" : p->e->as == AS_NULL ? "null" : "");
	if (p->e->as != AS_NULL)
		put_bytes(p, record->value, p->e->as);
	put_text(p, p->e->as == AS_BASE64 ? "}" : "");
}

static void put_u32(struct put *p, uint32_t v)
{
	uint8_t bytes[4];
	put_be32(bytes, v);
	put_small(p, slice_of(bytes, sizeof(bytes)));
}

/* A length and its bytes. */
static void put_counted(struct put *p, struct slice s)
{
	put_u32(p, (uint32_t)s.n);
	put_bytes(p, s, AS_RAW);
}

/* How many headers there are, whatever the record says of it. */
static uint32_t count_headers(const struct record *record)
{
	struct wire_reader r = wire_reader(record->headers_raw);
	struct record_header h;
	uint32_t n = 0;
	while (record_header_next(&r, &h) == 1)
		n++;
	return n;
}

static void put_binary(struct put *p, const struct record *record)
{
	uint8_t begin[20];
	struct wire_reader r = wire_reader(record->headers_raw);
	struct record_header h;
	put_be64(begin, record->offset);
	put_be64(begin + 8, (uint64_t)record->timestamp_ms);
	put_be32(begin + 16, record->key.p == NULL ? UINT32_MAX : (uint32_t)record->key.n);
	put_small(p, slice_of(begin, sizeof(begin)));
	put_bytes(p, record->key, AS_RAW);
	put_u32(p, record->n_headers == 0 ? 0 : count_headers(record));
	while (!p->full && record->n_headers > 0 && record_header_next(&r, &h) == 1) {
		put_counted(p, h.name);
		put_counted(p, h.value);
	}
	put_counted(p, record->value);
}

/* True when all of it is out. */
static bool put_record(struct encoder *e, const struct record *record, struct buf *out, size_t max)
{
	struct put p = { .e = e, .out = out, .max = max };
	switch (e->format) {
	case FORMAT_JSON:
		put_json(&p, record);
		break;
	case FORMAT_RAW:
		put_bytes(&p, record->value, AS_RAW);
		break;
	case FORMAT_BINARY:
		put_binary(&p, record);
		break;
	case FORMAT_VALUES:
		put_value(&p, record);
		break;
	}
	if (p.full)
		return false;
	e->any = true;
	e->offset = record->offset + 1;
	e->field = 0;
	e->byte = 0;
	return true;
}

void encoder_init(struct encoder *e, enum record_format format, uint64_t from)
{
	*e = (struct encoder){ .format = format, .offset = from, .end = from };
}

void encoder_begin(const struct encoder *e, struct buf *out)
{
	static const uint8_t none[BINARY_HEADER] = { BINARY_VERSION };
	if (e->format == FORMAT_BINARY)
		buf_put(out, none, sizeof(none));
}

void encoder_count(const struct encoder *e, struct buf *out, uint64_t n_records)
{
	if (e->format != FORMAT_BINARY || out->failed)
		return;
	must(buf_len(out) >= BINARY_HEADER && n_records <= UINT32_MAX);
	put_be32(buf_head(out) + 1, (uint32_t)n_records);
}

static int encode_records(struct encoder *e, struct walk *w, struct buf *out, size_t max)
{
	struct record record;
	int r;
	while (e->offset < e->end && buf_len(out) < max) {
		r = walk_next(w, e->offset, &record);
		if (r < 0)
			return r;
		if (r == 0)
			return 0;
		if (record.offset >= e->end)
			e->offset = e->end;
		else if (!put_record(e, &record, out, max))
			return 0;
	}
	return e->offset >= e->end;
}

int encoder_run(struct encoder *e, const struct encode_source *source, struct buf *out, size_t max)
{
	struct walk w;
	walk_init(&w, source);
	int r = encode_records(e, &w, out, max);
	walk_done(&w);
	return r < 0 ? r : out->failed ? -ENOBUFS : r;
}

void encoder_finish(const struct encoder *e, struct buf *out)
{
	if (e->format == FORMAT_JSON)
		buf_put_str(out, e->any ? "]\n" : "[]\n");
	if (e->format == FORMAT_VALUES)
		buf_put_str(out, e->any ? "]" : "[]");
}
