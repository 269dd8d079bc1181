/* SPDX-License-Identifier: Apache-2.0
 *
 * isa-l keeps the register inverted: crc = ~crc32_iscsi(p, n, ~crc). Its length is an int, so long
 * runs go in pieces.
 */
#include "config.h"

#include "common/crc32c.h"

#include <stdbool.h>
#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#endif

#define PIECE (1u << 30)

uint32_t crc32c_table(uint32_t crc, const void *p, size_t n)
{
	static uint32_t table[256];
	static bool filled;
	if (!filled) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;
			for (int k = 0; k < 8; k++)
				c = c & 1 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
			__atomic_store_n(&table[i], c, __ATOMIC_RELAXED);
		}
		__atomic_store_n(&filled, true, __ATOMIC_RELEASE);
	}
	const uint8_t *b = p;
	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = table[(crc ^ b[i]) & 0xff] ^ (crc >> 8);
	return ~crc;
}

uint32_t crc32c_extend(uint32_t crc, const void *p, size_t n)
{
#ifdef HAVE_ISAL
	unsigned char *b = (unsigned char *)(uintptr_t)p; /* isa-l lacks the const */
	for (; n > 0; ) {
		int piece = n > PIECE ? (int)PIECE : (int)n;
		crc = ~crc32_iscsi(b, piece, ~crc);
		b += piece;
		n -= (size_t)piece;
	}
	return crc;
#else
	return crc32c_table(crc, p, n);
#endif
}

uint32_t crc32c(const void *p, size_t n)
{
	return crc32c_extend(0, p, n);
}
