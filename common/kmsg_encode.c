/* SPDX-License-Identifier: Apache-2.0
 *
 * From structs to bytes, in one pass over a buffer that grows. Positions are counted from the buffer's
 * first byte, because growing moves it. A tagged field is written behind one byte for its size; when the
 * size needs more, its bytes move up. The first failure sticks and ends the writing.
 */
#include "common/kmsg.h"

#include <errno.h>

#include "common/must.h"
#include "common/wire.h"

#define GROW 256        /* bytes asked of the buffer at least, where its bound allows them */

struct writer {
	uint8_t *p;                     /* next byte */
	uint8_t *end;
	struct buf *out;
	struct kmsg_gaps *gaps;
	size_t start;                   /* of this encoding in out */
	int rc;
	int8_t version;
	bool flexible;
};

static void write_struct(struct writer *w, const struct kmsg_struct *of, const uint8_t *from);

static void fail(struct writer *w, int rc)
{
	if (w->rc == 0)
		w->rc = rc;
	w->end = w->p;
}

static size_t position(const struct writer *w)
{
	return (size_t)(w->p - w->out->p) - w->out->begin;
}

static bool grow(struct writer *w, size_t n)
{
	struct buf *out = w->out;
	if (w->rc != 0)
		return false;
	if (w->p != NULL)
		buf_commit(out, (size_t)(w->p - out->p) - out->end);
	size_t left = out->max - buf_len(out);
	size_t want = n > GROW ? n : GROW < left ? GROW : left;
	uint8_t *p = n > left ? NULL : buf_reserve(out, want);
	if (p == NULL) {
		fail(w, -ENOBUFS);
		return false;
	}
	size_t room = out->capacity - out->end;
	w->p = p;
	w->end = p + (room < left ? room : left);
	return true;
}

/* n bytes to write to, NULL after a failure. */
static inline uint8_t *take(struct writer *w, size_t n)
{
	if (__builtin_expect(n > (size_t)(w->end - w->p), 0) && !grow(w, n))
		return NULL;
	uint8_t *p = w->p;
	w->p += n;
	return p;
}

static unsigned uvarint_size(uint32_t v)
{
	unsigned n = 1;
	for (; v >= 0x80; v >>= 7)
		n++;
	return n;
}

static void put_uvarint(uint8_t *p, uint32_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)v | 0x80;
	*p = (uint8_t)v;
}

static void write_uvarint(struct writer *w, uint32_t v)
{
	uint8_t *p = take(w, uvarint_size(v));
	if (p != NULL)
		put_uvarint(p, v);
}

/* A length or count, -1 for null. */
static void write_length(struct writer *w, int64_t n, bool compact, unsigned width)
{
	if (n > (width == 2 ? INT16_MAX : INT32_MAX - 1)) {
		fail(w, -EMSGSIZE);
	} else if (compact) {
		write_uvarint(w, (uint32_t)(n + 1));
	} else {
		uint8_t *p = take(w, width);
		if (p != NULL && width == 2)
			put_be16(p, (uint16_t)n);
		else if (p != NULL)
			put_be32(p, (uint32_t)n);
	}
}

static void write_bytes(struct writer *w, const struct kmsg_field *f, struct slice s)
{
	bool is_string = f->type == KMSG_STRING || f->type == KMSG_STRING16;
	bool is_null = s.p == NULL && !f->is_array && w->version >= f->nullable_from;
	must(s.p != NULL || s.n == 0);
	write_length(w, is_null ? -1 : s.n > INT32_MAX ? INT32_MAX : (int64_t)s.n,
		     w->flexible && f->type != KMSG_STRING16, is_string ? 2 : 4);
	uint8_t *p = w->rc != 0 || s.n == 0 ? NULL : take(w, s.n);
	if (p != NULL)
		memcpy(p, s.p, s.n);
}

static void write_records(struct writer *w, const struct kmsg_field *f, const struct kmsg_records *records)
{
	if (records->n_external == 0) {
		write_bytes(w, f, records->bytes);
		return;
	}
	write_length(w, records->n_external, w->flexible, 4);
	must(w->gaps != NULL && w->gaps->n < w->gaps->max);
	w->gaps->gaps[w->gaps->n++] = (struct kmsg_gap){ .at = position(w) - w->start, .records = records };
	w->gaps->bytes += records->n_external;
}

static inline void write_value(struct writer *w, const struct kmsg_field *f, const uint8_t *from)
{
	static const uint8_t size[] = { [KMSG_BOOL] = 1, [KMSG_INT8] = 1, [KMSG_INT16] = 2, [KMSG_UINT16] = 2,
					[KMSG_INT32] = 4, [KMSG_UINT32] = 4, [KMSG_INT64] = 8,
					[KMSG_FLOAT64] = 8, [KMSG_UUID] = 16 };
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;
	uint8_t *p = f->type < KMSG_STRING ? take(w, size[f->type]) : NULL;
	if (f->type < KMSG_STRING && p == NULL)
		return;
	switch ((enum kmsg_type)f->type) {
	case KMSG_BOOL:
		*p = *(const bool *)from;
		return;
	case KMSG_INT8:
		*p = *from;
		return;
	case KMSG_INT16:
	case KMSG_UINT16:
		memcpy(&v16, from, 2);
		put_be16(p, v16);
		return;
	case KMSG_INT32:
	case KMSG_UINT32:
		memcpy(&v32, from, 4);
		put_be32(p, v32);
		return;
	case KMSG_INT64:
	case KMSG_FLOAT64:
		memcpy(&v64, from, 8);
		put_be64(p, v64);
		return;
	case KMSG_UUID:
		memcpy(p, from, 16);
		return;
	case KMSG_STRING:
	case KMSG_STRING16:
	case KMSG_BYTES:
		write_bytes(w, f, *(const struct slice *)from);
		return;
	case KMSG_RECORDS:
		write_records(w, f, (const struct kmsg_records *)from);
		return;
	case KMSG_STRUCT:
		write_struct(w, f->of, from);
		return;
	}
}

static void write_array(struct writer *w, const struct kmsg_field *f, const uint8_t *from)
{
	const uint8_t *item;
	uint32_t n;
	size_t size = kmsg_element_size(f);
	memcpy(&item, from + f->at, sizeof(item));
	memcpy(&n, from + f->at_n, sizeof(n));
	must(item != NULL || n == 0);
	write_length(w, item == NULL && w->version >= f->nullable_from ? -1 : (int64_t)n, w->flexible, 4);
	for (uint32_t i = 0; i < n && w->rc == 0; i++, item += size)
		write_value(w, f, item);
}

static void write_pointer(struct writer *w, const struct kmsg_field *f, const uint8_t *from)
{
	const uint8_t *of;
	memcpy(&of, from + f->at, sizeof(of));
	if (w->version >= f->nullable_from) {
		uint8_t *p = take(w, 1);
		if (p != NULL)
			*p = of == NULL ? 0xff : 1;
		if (of == NULL)
			return;
	}
	write_struct(w, f->of, of != NULL ? of : f->of->defaults);
}

static inline void write_field(struct writer *w, const struct kmsg_field *f, const uint8_t *from)
{
	if (f->is_array)
		write_array(w, f, from);
	else if (f->is_pointer)
		write_pointer(w, f, from);
	else
		write_value(w, f, from + f->at);
}

static void write_tag(struct writer *w, const struct kmsg_field *f, const uint8_t *from)
{
	size_t n_gaps = w->gaps != NULL ? w->gaps->n : 0;
	write_uvarint(w, f->tag);
	take(w, 1);
	size_t at = position(w);
	write_field(w, f, from);
	must(w->gaps == NULL || w->gaps->n == n_gaps);
	if (w->rc != 0)
		return;
	size_t size = position(w) - at;
	if (size > INT32_MAX) {
		fail(w, -EMSGSIZE);
		return;
	}
	unsigned more = uvarint_size((uint32_t)size) - 1;
	if (more > 0 && take(w, more) == NULL)
		return;
	uint8_t *p = w->p - size - more;
	if (more > 0)
		memmove(p + more, p, size);
	put_uvarint(p - 1, (uint32_t)size);
}

/* Only what differs from its default is written. */
static void write_tags(struct writer *w, const struct kmsg_struct *of, const uint8_t *from)
{
	const struct kmsg_field *first = of->fields + of->n_plain, *end = first + of->n_tagged;
	uint64_t there = 0;
	must(of->n_tagged <= 64);
	for (const struct kmsg_field *f = first; f < end; f++)
		if (w->version >= f->low && w->version <= f->high && !kmsg_field_equal(f, from, of->defaults))
			there |= UINT64_C(1) << (f - first);
	write_uvarint(w, (uint32_t)__builtin_popcountll(there));
	for (const struct kmsg_field *f = first; f < end && w->rc == 0; f++)
		if (there & UINT64_C(1) << (f - first))
			write_tag(w, f, from);
}

static void write_struct(struct writer *w, const struct kmsg_struct *of, const uint8_t *from)
{
	const struct kmsg_field *f = of->fields, *end = f + of->n_plain;
	for (; f < end; f++)
		if (w->version >= f->low && w->version <= f->high)
			write_field(w, f, from);
	if (w->flexible)
		write_tags(w, of, from);
}

int kmsg_encode(struct kmsg_form form, const void *value, struct buf *out, struct kmsg_gaps *gaps)
{
	must(kmsg_knows(form.desc, form.version));
	if (out->failed)
		return -ENOBUFS;
	size_t start = buf_len(out);
	struct writer w = { .out = out, .gaps = gaps, .start = start, .version = (int8_t)form.version,
			    .flexible = form.version >= form.desc->flexible_from };
	if (grow(&w, 0))
		write_struct(&w, form.desc->of, value);
	if (w.rc != 0) {
		out->end = out->begin + start;
		return w.rc;
	}
	buf_commit(out, (size_t)(w.p - out->p) - out->end);
	return 0;
}
