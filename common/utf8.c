/* SPDX-License-Identifier: Apache-2.0
 *
 * The well-formed byte sequences are those of RFC 3629 section 4; a second byte's range depends on
 * the first, which is what keeps overlong forms and surrogates out.
 */
#include "common/utf8.h"

#include "common/must.h"

static bool is_between(uint8_t c, uint8_t low, uint8_t high)
{
	return c >= low && c <= high;
}

/* The range of the second byte behind this first one. */
static bool second_is_good(uint8_t first, uint8_t second)
{
	switch (first) {
	case 0xe0:
		return is_between(second, 0xa0, 0xbf); /* below: overlong */
	case 0xed:
		return is_between(second, 0x80, 0x9f); /* above: surrogates */
	case 0xf0:
		return is_between(second, 0x90, 0xbf); /* below: overlong */
	case 0xf4:
		return is_between(second, 0x80, 0x8f); /* above: past U+10FFFF */
	default:
		return is_between(second, 0x80, 0xbf);
	}
}

size_t utf8_sequence(const uint8_t *p, const uint8_t *end)
{
	size_t n = is_between(p[0], 0xc2, 0xdf) ? 2 : is_between(p[0], 0xe0, 0xef) ? 3 :
		   is_between(p[0], 0xf0, 0xf4) ? 4 : 0;
	if (n == 0 || n > (size_t)(end - p) || !second_is_good(p[0], p[1]))
		return 0;
	for (size_t i = 2; i < n; i++)
		if (!is_between(p[i], 0x80, 0xbf))
			return 0;
	return n;
}

bool utf8_is_valid(struct slice s)
{
	const uint8_t *p = s.p, *end = s.n > 0 ? s.p + s.n : s.p;
	while (p < end) {
		uint64_t word;
		if (end - p >= 8 && (memcpy(&word, p, 8), (word & 0x8080808080808080) == 0)) {
			p += 8;
			continue;
		}
		size_t n = *p < 0x80 ? 1 : utf8_sequence(p, end);
		if (n == 0)
			return false;
		p += n;
	}
	return true;
}

size_t utf8_put(uint8_t to[4], uint32_t c)
{
	must(c <= 0x10ffff && (c < 0xd800 || c > 0xdfff));
	if (c < 0x80) {
		to[0] = (uint8_t)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		to[i] = (uint8_t)(0x80 | (c & 0x3f));
	static const uint8_t mark[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	to[0] = (uint8_t)(mark[n] | c);
	return n;
}
