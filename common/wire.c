/* SPDX-License-Identifier: Apache-2.0
 *
 * Zig-zag varints as Kafka records use them: 7 bits a byte, low bits first.
 */
#include "common/wire.h"

static uint64_t wire_uvarint(struct wire_reader *r, unsigned bytes_max)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < bytes_max; i++) {
		uint8_t b = wire_u8(r);
		if (r->failed)
			return 0;
		if (i == 9 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << (7 * i);
		if (b < 0x80)
			return v;
	}
	r->failed = true;
	return 0;
}

int64_t wire_varlong(struct wire_reader *r)
{
	uint64_t v = wire_uvarint(r, 10);
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

int32_t wire_varint(struct wire_reader *r)
{
	uint64_t v = wire_uvarint(r, 5);
	if (v > UINT32_MAX)
		r->failed = true;
	return r->failed ? 0 : (int32_t)((uint32_t)v >> 1) ^ -(int32_t)(v & 1);
}

size_t wire_varlong_size(int64_t v)
{
	uint64_t u = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
	size_t n = 1;
	for (; u >= 0x80; u >>= 7)
		n++;
	return n;
}

uint8_t *wire_put_varlong(uint8_t *p, int64_t v)
{
	uint64_t u = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
	for (; u >= 0x80; u >>= 7)
		*p++ = (uint8_t)u | 0x80;
	*p++ = (uint8_t)u;
	return p;
}
