/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done with decoded structs: made with their defaults, compared, printed. Printing follows the
 * tables, so that a log line and a failed test show the protocol's own names.
 */
#include "common/kmsg.h"

#include <inttypes.h>

_Alignas(8) const uint8_t kmsg_nothing[8];

void *kmsg_new(struct region *region, const struct kmsg_struct *of, size_t n)
{
	uint8_t *p = region_calloc(region, n, of->size);
	for (size_t i = 0; p != NULL && i < n; i++)
		memcpy(p + i * of->size, of->defaults, of->size);
	return p;
}

size_t kmsg_element_size(const struct kmsg_field *f)
{
	static const uint8_t sizes[] = {
		[KMSG_BOOL] = sizeof(bool), [KMSG_INT8] = 1, [KMSG_INT16] = 2, [KMSG_INT32] = 4,
		[KMSG_INT64] = 8, [KMSG_UINT16] = 2, [KMSG_UINT32] = 4, [KMSG_FLOAT64] = 8, [KMSG_UUID] = 16,
		[KMSG_STRING] = sizeof(struct slice), [KMSG_STRING16] = sizeof(struct slice),
		[KMSG_BYTES] = sizeof(struct slice), [KMSG_RECORDS] = sizeof(struct kmsg_records),
	};
	return f->type == KMSG_STRUCT ? f->of->size : sizes[f->type];
}

static const uint8_t *pointer_at(const void *value, uint16_t at)
{
	const uint8_t *p;
	memcpy(&p, (const uint8_t *)value + at, sizeof(p));
	return p;
}

static uint32_t count_at(const void *value, uint16_t at)
{
	uint32_t n;
	memcpy(&n, (const uint8_t *)value + at, sizeof(n));
	return n;
}

/* ------------------------------------------------------------------ equality */

static bool bytes_equal(const struct kmsg_field *f, struct slice a, struct slice b)
{
	bool may_be_null = f->nullable_from < INT8_MAX && !f->is_array;
	return slice_eq(a, b) && (!may_be_null || (a.p == NULL) == (b.p == NULL));
}

static bool records_equal(const struct kmsg_field *f, const struct kmsg_records *a, const struct kmsg_records *b)
{
	if (a->n_external > 0 || b->n_external > 0)
		return a->n_external == b->n_external;
	return bytes_equal(f, a->bytes, b->bytes);
}

static bool value_equal(const struct kmsg_field *f, const uint8_t *a, const uint8_t *b)
{
	switch ((enum kmsg_type)f->type) {
	case KMSG_STRING:
	case KMSG_STRING16:
	case KMSG_BYTES:
		return bytes_equal(f, *(const struct slice *)a, *(const struct slice *)b);
	case KMSG_RECORDS:
		return records_equal(f, (const struct kmsg_records *)a, (const struct kmsg_records *)b);
	case KMSG_STRUCT:
		return memcmp(a, b, f->of->size) == 0 || kmsg_equal(f->of, a, b);     /* mostly the defaults */
	default:
		return memcmp(a, b, kmsg_element_size(f)) == 0;
	}
}

static bool array_equal(const struct kmsg_field *f, const void *a, const void *b)
{
	const uint8_t *pa = pointer_at(a, f->at), *pb = pointer_at(b, f->at);
	uint32_t n = count_at(a, f->at_n);
	size_t size = kmsg_element_size(f);
	if (n != count_at(b, f->at_n) || (f->nullable_from < INT8_MAX && (pa == NULL) != (pb == NULL)))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!value_equal(f, pa + i * size, pb + i * size))
			return false;
	return true;
}

bool kmsg_field_equal(const struct kmsg_field *f, const void *a, const void *b)
{
	if (f->is_array)
		return array_equal(f, a, b);
	if (!f->is_pointer)
		return value_equal(f, (const uint8_t *)a + f->at, (const uint8_t *)b + f->at);
	const uint8_t *pa = pointer_at(a, f->at), *pb = pointer_at(b, f->at);
	return pa == NULL || pb == NULL ? pa == pb : kmsg_equal(f->of, pa, pb);
}

bool kmsg_equal(const struct kmsg_struct *of, const void *a, const void *b)
{
	for (unsigned i = 0; i < of->n_plain + of->n_tagged; i++)
		if (!kmsg_field_equal(&of->fields[i], a, b))
			return false;
	return true;
}

/* ------------------------------------------------------------------ printing */

static void print_struct(const struct kmsg_struct *of, const uint8_t *value, int version, struct buf *out);

static void print_string(struct slice s, struct buf *out)
{
	buf_put_u8(out, '"');
	for (size_t i = 0; i < s.n && !out->failed; i++) {
		uint8_t c = s.p[i];
		if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_put_u8(out, c);
	}
	buf_put_u8(out, '"');
}

static void print_slice(const struct kmsg_field *f, struct slice s, struct buf *out)
{
	bool may_be_null = f->nullable_from < INT8_MAX && !f->is_array;
	if (s.p == NULL && may_be_null)
		buf_put_str(out, "null");
	else if (f->type == KMSG_STRING || f->type == KMSG_STRING16)
		print_string(s, out);
	else
		buf_printf(out, "<%zu bytes>", s.n);
}

static void print_uuid(const uint8_t *b, struct buf *out)
{
	for (int i = 0; i < 16; i++)
		buf_printf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

static void print_number(const struct kmsg_field *f, const uint8_t *value, struct buf *out)
{
	union { int8_t i8; int16_t i16; uint16_t u16; int32_t i32; uint32_t u32; int64_t i64; double f64; } v;
	memcpy(&v, value, kmsg_element_size(f));
	switch ((enum kmsg_type)f->type) {
	case KMSG_INT8: buf_printf(out, "%d", v.i8); return;
	case KMSG_INT16: buf_printf(out, "%d", v.i16); return;
	case KMSG_UINT16: buf_printf(out, "%u", v.u16); return;
	case KMSG_INT32: buf_printf(out, "%" PRId32, v.i32); return;
	case KMSG_UINT32: buf_printf(out, "%" PRIu32, v.u32); return;
	case KMSG_INT64: buf_printf(out, "%" PRId64, v.i64); return;
	default: buf_printf(out, "%.17g", v.f64); return;
	}
}

static void print_value(const struct kmsg_field *f, const uint8_t *value, int version, struct buf *out)
{
	const struct kmsg_records *records = (const struct kmsg_records *)value;
	switch ((enum kmsg_type)f->type) {
	case KMSG_BOOL:
		buf_put_str(out, *(const bool *)value ? "true" : "false");
		return;
	case KMSG_UUID:
		print_uuid(value, out);
		return;
	case KMSG_STRING:
	case KMSG_STRING16:
	case KMSG_BYTES:
		print_slice(f, *(const struct slice *)value, out);
		return;
	case KMSG_RECORDS:
		if (records->n_external > 0)
			buf_printf(out, "<%" PRIu32 " bytes>", records->n_external);
		else
			print_slice(f, records->bytes, out);
		return;
	case KMSG_STRUCT:
		print_struct(f->of, value, version, out);
		return;
	default:
		print_number(f, value, out);
	}
}

static void print_array(const struct kmsg_field *f, const uint8_t *value, int version, struct buf *out)
{
	const uint8_t *item = pointer_at(value, f->at);
	uint32_t n = count_at(value, f->at_n);
	size_t size = kmsg_element_size(f);
	if (item == NULL && f->nullable_from < INT8_MAX) {
		buf_put_str(out, "null");
		return;
	}
	buf_put_u8(out, '[');
	for (uint32_t i = 0; i < n && !out->failed; i++) {
		if (i > 0)
			buf_put_u8(out, ' ');
		print_value(f, item + i * size, version, out);
	}
	buf_put_u8(out, ']');
}

static void print_field(const struct kmsg_field *f, const uint8_t *value, int version, struct buf *out)
{
	buf_put_str(out, f->name);
	buf_put_u8(out, '=');
	if (f->is_array)
		print_array(f, value, version, out);
	else if (!f->is_pointer)
		print_value(f, value + f->at, version, out);
	else if (pointer_at(value, f->at) == NULL)
		buf_put_str(out, "null");
	else
		print_struct(f->of, pointer_at(value, f->at), version, out);
}

static void print_struct(const struct kmsg_struct *of, const uint8_t *value, int version, struct buf *out)
{
	const char *before = "{";
	for (unsigned i = 0; i < of->n_plain + of->n_tagged && !out->failed; i++) {
		const struct kmsg_field *f = &of->fields[i];
		if (version < f->low || version > f->high)
			continue;
		buf_put_str(out, before);
		print_field(f, value, version, out);
		before = " ";
	}
	buf_put_str(out, *before == '{' ? "{}" : "}");
}

void kmsg_print(struct kmsg_form form, const void *value, struct buf *out)
{
	print_struct(form.desc->of, value, form.version, out);
}
