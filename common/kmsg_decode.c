/* SPDX-License-Identifier: Apache-2.0
 *
 * From bytes to structs. Every length and count is compared with the bytes that are left before anything
 * is taken from the region: a count of n elements needs n times the least bytes of one. How deep this
 * recurses is how deep the .kmsg text nests (proto/kafka/gen.py has the bound), never what a peer sends.
 * The first failure sticks: `end` moves to `p`, so that nothing is read after it.
 */
#include "common/kmsg.h"

#include <errno.h>

#include "common/must.h"
#include "common/wire.h"

struct reader {
	const uint8_t *p;
	const uint8_t *end;
	struct region *region;
	int rc;
	int8_t version;
	bool flexible;
};

static const uint8_t least_on_wire[] = {
	[KMSG_BOOL] = 1, [KMSG_INT8] = 1, [KMSG_INT16] = 2, [KMSG_INT32] = 4, [KMSG_INT64] = 8,
	[KMSG_UINT16] = 2, [KMSG_UINT32] = 4, [KMSG_FLOAT64] = 8, [KMSG_UUID] = 16,
	[KMSG_STRING] = 1, [KMSG_STRING16] = 2, [KMSG_BYTES] = 1, [KMSG_RECORDS] = 1,
};

static void read_struct(struct reader *r, const struct kmsg_struct *of, uint8_t *to);

static void fail(struct reader *r, int rc)
{
	if (r->rc == 0)
		r->rc = rc;
	r->end = r->p;
}

static inline size_t left(const struct reader *r)
{
	return (size_t)(r->end - r->p);
}

static inline bool has(struct reader *r, size_t n)
{
	if (__builtin_expect(n <= left(r), 1))
		return true;
	fail(r, -EBADMSG);
	return false;
}

static uint32_t read_uvarint(struct reader *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 35; shift += 7) {
		if (!has(r, 1))
			return 0;
		uint8_t b = *r->p++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80 && v <= UINT32_MAX)
			return (uint32_t)v;
	}
	fail(r, -EBADMSG);
	return 0;
}

/* A length or count as the form has it; -1 is null. At most INT32_MAX. */
static int64_t read_length(struct reader *r, bool compact, unsigned width)
{
	if (compact) {
		uint32_t n = read_uvarint(r);
		if (n > INT32_MAX)
			fail(r, -EBADMSG);
		return (int64_t)n - 1;
	}
	if (!has(r, width))
		return 0;
	int64_t n = width == 2 ? (int16_t)get_be16(r->p) : (int32_t)get_be32(r->p);
	r->p += width;
	if (n < -1)
		fail(r, -EBADMSG);
	return n;
}

static struct slice read_bytes(struct reader *r, const struct kmsg_field *f)
{
	bool is_string = f->type == KMSG_STRING || f->type == KMSG_STRING16;
	int64_t n = read_length(r, r->flexible && f->type != KMSG_STRING16, is_string ? 2 : 4);
	if (n < 0 && r->rc == 0 && !f->is_array && r->version >= f->nullable_from)
		return slice_of(NULL, 0);
	if (n < 0 || (is_string && n > INT16_MAX))
		fail(r, -EBADMSG);
	if (r->rc != 0 || !has(r, (size_t)n))
		return slice_of(NULL, 0);
	struct slice s = slice_of(r->p, (size_t)n);
	r->p += n;
	return s;
}

/* One value of a simple type; there is room for it in `to`. */
static inline void read_value(struct reader *r, const struct kmsg_field *f, uint8_t *to)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;
	if (f->type < KMSG_STRING && !has(r, least_on_wire[f->type]))
		return;
	switch ((enum kmsg_type)f->type) {
	case KMSG_BOOL:
		*(bool *)to = *r->p++ != 0;
		return;
	case KMSG_INT8:
		*to = *r->p++;
		return;
	case KMSG_INT16:
	case KMSG_UINT16:
		v16 = get_be16(r->p);
		memcpy(to, &v16, 2);
		r->p += 2;
		return;
	case KMSG_INT32:
	case KMSG_UINT32:
		v32 = get_be32(r->p);
		memcpy(to, &v32, 4);
		r->p += 4;
		return;
	case KMSG_INT64:
	case KMSG_FLOAT64:
		v64 = get_be64(r->p);
		memcpy(to, &v64, 8);
		r->p += 8;
		return;
	case KMSG_UUID:
		memcpy(to, r->p, 16);
		r->p += 16;
		return;
	case KMSG_STRING:
	case KMSG_STRING16:
	case KMSG_BYTES:
		*(struct slice *)to = read_bytes(r, f);
		return;
	case KMSG_RECORDS:
		*(struct kmsg_records *)to = (struct kmsg_records){ .bytes = read_bytes(r, f) };
		return;
	case KMSG_STRUCT:
		read_struct(r, f->of, to);
		return;
	}
}

static size_t element_least(const struct reader *r, const struct kmsg_field *f)
{
	if (f->type == KMSG_STRUCT)
		return f->of->least[r->version];
	if (!r->flexible && f->type >= KMSG_STRING)
		return f->type <= KMSG_STRING16 ? 2 : 4;
	return least_on_wire[f->type];
}

static void read_array(struct reader *r, const struct kmsg_field *f, uint8_t *to)
{
	int64_t n = read_length(r, r->flexible, 4);
	size_t size = kmsg_element_size(f);
	void *items = n == 0 ? (void *)kmsg_nothing : NULL;
	uint32_t n_items = n < 0 ? 0 : (uint32_t)n;
	if (n < 0 && r->version < f->nullable_from)
		fail(r, -EBADMSG);
	if (r->rc != 0 || !has(r, (size_t)n_items * element_least(r, f)))
		return;
	if (n > 0 && (items = region_alloc(r->region, size * n_items)) == NULL) {
		fail(r, -ENOBUFS);
		return;
	}
	memcpy(to + f->at, &items, sizeof(items));
	memcpy(to + f->at_n, &n_items, sizeof(n_items));
	uint8_t *item = items;
	for (uint32_t i = 0; i < n_items && r->rc == 0; i++, item += size)
		read_value(r, f, item);
}

/* A struct that may be null: a byte, negative for null, then the struct (KIP-893). */
static void read_pointer(struct reader *r, const struct kmsg_field *f, uint8_t *to)
{
	uint8_t *p = NULL;
	bool is_null = false;
	if (r->version >= f->nullable_from) {
		if (!has(r, 1))
			return;
		is_null = (int8_t)*r->p++ < 0;
	}
	if (!is_null) {
		p = region_alloc(r->region, f->of->size);
		if (p == NULL) {
			fail(r, -ENOBUFS);
			return;
		}
		read_struct(r, f->of, p);
	}
	memcpy(to + f->at, &p, sizeof(p));
}

static inline void read_field(struct reader *r, const struct kmsg_field *f, uint8_t *to)
{
	if (f->is_array)
		read_array(r, f, to);
	else if (f->is_pointer)
		read_pointer(r, f, to);
	else
		read_value(r, f, to + f->at);
}

static const struct kmsg_field *find_tag(const struct reader *r, const struct kmsg_struct *of, uint32_t tag)
{
	const struct kmsg_field *f = of->fields + of->n_plain;
	for (unsigned i = 0; i < of->n_tagged; i++, f++)
		if (f->tag == tag)
			return r->version >= f->low && r->version <= f->high ? f : NULL;
	return NULL;
}

/* Tagged fields (KIP-482): rising tags, each with its size; what is unknown is passed over. */
static void read_tags(struct reader *r, const struct kmsg_struct *of, uint8_t *to)
{
	uint32_t n = read_uvarint(r);
	int64_t before = -1;
	for (uint32_t i = 0; i < n && r->rc == 0; i++) {
		uint32_t tag = read_uvarint(r), size = read_uvarint(r);
		if (tag <= before)
			fail(r, -EBADMSG);
		if (r->rc != 0 || !has(r, size))
			return;
		const struct kmsg_field *f = find_tag(r, of, tag);
		const uint8_t *end = r->end, *next = r->p + size;
		if (f != NULL) {
			r->end = next;
			read_field(r, f, to);
			if (r->p != next)
				fail(r, -EBADMSG);
		}
		if (r->rc != 0)
			return;
		r->p = next;
		r->end = end;
		before = tag;
	}
}

static void read_struct(struct reader *r, const struct kmsg_struct *of, uint8_t *to)
{
	memcpy(to, of->defaults, of->size);
	const struct kmsg_field *f = of->fields, *end = f + of->n_plain;
	for (; f < end; f++)
		if (r->version >= f->low && r->version <= f->high)
			read_field(r, f, to);
	if (r->flexible)
		read_tags(r, of, to);
}

int kmsg_decode_prefix(struct kmsg_form form, struct slice *bytes, struct region *region, void *ret_value)
{
	must(kmsg_knows(form.desc, form.version));
	const uint8_t *p = bytes->n > 0 ? bytes->p : kmsg_nothing;
	struct reader r = { .p = p, .end = p + bytes->n, .region = region,
			    .version = (int8_t)form.version,
			    .flexible = form.version >= form.desc->flexible_from };
	read_struct(&r, form.desc->of, ret_value);
	if (r.rc != 0)
		return r.rc;
	*bytes = slice_of(r.p, left(&r));
	return 0;
}

int kmsg_decode(struct kmsg_form form, struct slice bytes, struct region *region, void *ret_value)
{
	int rc = kmsg_decode_prefix(form, &bytes, region, ret_value);
	return rc == 0 && bytes.n > 0 ? -EBADMSG : rc;
}
