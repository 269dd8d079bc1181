/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers in bytes, both orders, and a reader whose error sticks: read many fields, check
 * `failed` once. A read past the end gives 0 and an empty slice.
 */
#ifndef COMMON_WIRE_H
#define COMMON_WIRE_H

#include <endian.h>

#include "common/slice.h"

#define WIRE_ACCESS(order, bits)                                                         \
	static inline uint##bits##_t get_##order##bits(const void *p)                    \
	{                                                                                \
		uint##bits##_t v;                                                        \
		memcpy(&v, p, sizeof(v));                                                \
		return order##bits##toh(v);                                              \
	}                                                                                \
	static inline void put_##order##bits(void *p, uint##bits##_t v)                  \
	{                                                                                \
		v = hto##order##bits(v);                                                 \
		memcpy(p, &v, sizeof(v));                                                \
	}
WIRE_ACCESS(le, 16)
WIRE_ACCESS(le, 32)
WIRE_ACCESS(le, 64)
WIRE_ACCESS(be, 16)
WIRE_ACCESS(be, 32)
WIRE_ACCESS(be, 64)
#undef WIRE_ACCESS

struct wire_reader {
	const uint8_t *p;
	const uint8_t *end;
	bool failed;
};

static inline struct wire_reader wire_reader(struct slice s)
{
	return (struct wire_reader){ .p = s.p, .end = s.p + s.n };
}

static inline size_t wire_left(const struct wire_reader *r) { return (size_t)(r->end - r->p); }

static inline struct slice wire_take(struct wire_reader *r, size_t n)
{
	if (r->failed || n > wire_left(r)) {
		r->failed = true;
		return slice_of(NULL, 0);
	}
	struct slice s = slice_of(r->p, n);
	r->p += n;
	return s;
}

#define WIRE_TAKE(name, type, get)                                                       \
	static inline type wire_##name(struct wire_reader *r)                            \
	{                                                                                \
		struct slice s = wire_take(r, sizeof(type));                             \
		return s.p == NULL ? 0 : (type)get(s.p);                                 \
	}
WIRE_TAKE(be16, uint16_t, get_be16)
WIRE_TAKE(be32, uint32_t, get_be32)
WIRE_TAKE(be64, uint64_t, get_be64)
WIRE_TAKE(le32, uint32_t, get_le32)
WIRE_TAKE(le64, uint64_t, get_le64)
#undef WIRE_TAKE

static inline uint8_t wire_u8(struct wire_reader *r)
{
	struct slice s = wire_take(r, 1);
	return s.p == NULL ? 0 : s.p[0];
}

/* Zig-zag varints of Kafka records, at most 10 bytes (5 for what must fit an int32). */
int64_t wire_varlong(struct wire_reader *r);
int32_t wire_varint(struct wire_reader *r);

/* Bytes that v takes, and the writer: returns one past the last byte written. */
size_t wire_varlong_size(int64_t v);
uint8_t *wire_put_varlong(uint8_t *p, int64_t v);

#endif
