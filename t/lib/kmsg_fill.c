/* SPDX-License-Identifier: Apache-2.0 */
#include "t/lib/kmsg_fill.h"

#include "common/must.h"

static void fill_struct(struct kmsg_fill *fill, const struct kmsg_struct *of, uint8_t *to);

/* splitmix64 */
uint64_t kmsg_fill_next(struct kmsg_fill *fill)
{
	uint64_t z = fill->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static bool one_in(struct kmsg_fill *fill, unsigned n)
{
	return kmsg_fill_next(fill) % n == 0;
}

static struct slice random_bytes(struct kmsg_fill *fill)
{
	size_t n = one_in(fill, 5) ? 0 : one_in(fill, 40) ? kmsg_fill_next(fill) % 300 : kmsg_fill_next(fill) % 12;
	uint8_t *p = region_alloc(fill->region, n);
	must(p != NULL);
	for (size_t i = 0; i < n; i++)
		p[i] = fill->is_text ? 'a' + kmsg_fill_next(fill) % 26 : (uint8_t)kmsg_fill_next(fill);
	return slice_of(p, n);
}

static void fill_value(struct kmsg_fill *fill, const struct kmsg_field *f, uint8_t *to)
{
	bool is_null = !f->is_array && fill->version >= f->nullable_from && one_in(fill, 3);
	uint64_t bits[2] = { kmsg_fill_next(fill), kmsg_fill_next(fill) };
	struct slice bytes = slice_of(NULL, 0);
	if (!is_null && f->type >= KMSG_STRING && f->type <= KMSG_RECORDS)
		bytes = random_bytes(fill);
	switch ((enum kmsg_type)f->type) {
	case KMSG_BOOL:
		*(bool *)to = bits[0] & 1;
		return;
	case KMSG_STRING:
	case KMSG_STRING16:
	case KMSG_BYTES:
		*(struct slice *)to = bytes;
		return;
	case KMSG_RECORDS:
		*(struct kmsg_records *)to = (struct kmsg_records){ .bytes = bytes };
		return;
	case KMSG_STRUCT:
		fill_struct(fill, f->of, to);
		return;
	default:
		memcpy(to, bits, kmsg_element_size(f));
	}
}

static void fill_array(struct kmsg_fill *fill, const struct kmsg_field *f, uint8_t *to)
{
	bool is_null = fill->version >= f->nullable_from && one_in(fill, 3);
	uint32_t n = is_null ? 0 : (uint32_t)(kmsg_fill_next(fill) % (fill->items_max + 1));
	size_t size = kmsg_element_size(f);
	uint8_t *items = is_null ? NULL : region_calloc(fill->region, n, size);
	memcpy(to + f->at, &items, sizeof(items));
	memcpy(to + f->at_n, &n, sizeof(n));
	for (uint32_t i = 0; i < n; i++)
		fill_value(fill, f, items + i * size);
}

static void fill_pointer(struct kmsg_fill *fill, const struct kmsg_field *f, uint8_t *to)
{
	bool is_null = fill->version >= f->nullable_from && one_in(fill, 3);
	void *p = is_null ? NULL : kmsg_fill(fill, f->of);
	memcpy(to + f->at, &p, sizeof(p));
}

static void fill_struct(struct kmsg_fill *fill, const struct kmsg_struct *of, uint8_t *to)
{
	memcpy(to, of->defaults, of->size);
	for (unsigned i = 0; i < of->n_plain + of->n_tagged; i++) {
		const struct kmsg_field *f = &of->fields[i];
		bool is_there = fill->version >= f->low && fill->version <= f->high;
		if (!is_there || (i >= of->n_plain && one_in(fill, 2)))
			continue;       /* a tagged field that holds its default is not written */
		if (f->is_array)
			fill_array(fill, f, to);
		else if (f->is_pointer)
			fill_pointer(fill, f, to);
		else
			fill_value(fill, f, to + f->at);
	}
}

void *kmsg_fill(struct kmsg_fill *fill, const struct kmsg_struct *of)
{
	uint8_t *p = kmsg_new(fill->region, of, 1);
	must(p != NULL);
	fill_struct(fill, of, p);
	return p;
}
