/* SPDX-License-Identifier: Apache-2.0
 *
 * A record is a fixed row of fields: literals and runs of bytes. To go on, the row is walked again
 * and what is out already is passed over; so all state is a field number and a byte count.
 */
#include "worker-http/pico_encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"

#define STEP 12288      /* bytes of a field between looks at the bound; a multiple of 3 for base64 */

/* ------------------------------------------------------------------ walking records */

struct walk {
	struct batch_cursor cursor;
	struct record_decoder *decoder;
	bool in_batch;
};

static void walk_init(struct walk *w, const struct encode_source *source)
{
	batch_cursor_init(&w->cursor, source->pieces);
	w->decoder = source->decoder;
	w->in_batch = false;
}

static void walk_done(struct walk *w)
{
	batch_cursor_done(&w->cursor);
}

/* Next record at or after `from`: 1, 0 at the end, negative. */
static int walk_next(struct walk *w, uint64_t from, struct record *ret)
{
	for (;;) {
		int r = w->in_batch ? record_decoder_next(w->decoder, ret) : 0;
		if (r < 0 || (r == 1 && ret->offset >= from))
			return r;
		if (r == 1)
			continue;
		struct slice bytes;
		struct record_batch batch;
		w->in_batch = false;
		r = batch_cursor_next(&w->cursor, &bytes);
		if (r <= 0)
			return r;
		r = record_batch_read(bytes, &batch);
		if (r == 0 && batch.base_offset + batch.last_offset_delta >= from) {
			r = record_decoder_open(w->decoder, &batch);
			w->in_batch = true;
		}
		if (r < 0)
			return r;
	}
}

/* Does one more record of n bytes go over a limit? */
static bool is_over(const struct encode_range *range, const struct encode_limits *limits, uint64_t n)
{
	return (limits->count > 0 && range->n_records == limits->count) ||
		(range->n_records > 0 && range->bytes + n > limits->bytes);
}

int encode_measure(const struct encode_source *source, uint64_t batches_end, const struct encode_limits *limits,
		   struct encode_range *range)
{
	struct record record;
	struct walk w;
	int r;
	walk_init(&w, source);
	while ((r = walk_next(&w, range->end, &record)) == 1) {
		uint64_t n = record_bytes(&record);
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

static void put_text(struct put *p, const char *text)
{
	if (!put_enter(p))
		return;
	buf_put_str(p->out, text);
	put_leave(p);
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

enum put_as { AS_RAW, AS_STRING, AS_BASE64 };

static void put_step(struct buf *out, struct slice s, enum put_as as)
{
	if (as == AS_STRING)
		put_escaped(out, s);
	else if (as == AS_BASE64)
		base64_put(out, s);
	else
		buf_put_slice(out, s);
}

/* A run of bytes, quotes around it unless raw; steps may end inside a UTF-8 character: they follow each other. */
static void put_bytes(struct put *p, struct slice s, enum put_as as)
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
		p->e->binary = !utf8_is_valid(s);
	put_text(p, p->e->binary ? b64_name : text_name);
	put_bytes(p, s, p->e->binary ? AS_BASE64 : AS_STRING);
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

/* True when all of it is out. */
static bool put_record(struct encoder *e, const struct record *record, struct buf *out, size_t max)
{
	struct put p = { .e = e, .out = out, .max = max };
	if (e->format == FORMAT_RAW)
		put_bytes(&p, record->value, AS_RAW);
	else
		put_json(&p, record);
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
}
