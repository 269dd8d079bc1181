/* SPDX-License-Identifier: Apache-2.0
 *
 * Four characters for three bytes. One text has one decoding and one decoding one text: that is what
 * refusing loose padding and unused bits is for.
 */
#include "common/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *out, struct slice s)
{
	if (s.n > SIZE_MAX / 4) {
		out->failed = true;
		return;
	}
	size_t size = (s.n + 2) / 3 * 4;
	uint8_t *to = buf_reserve(out, size);
	if (to == NULL)
		return;
	for (size_t i = 0; i < s.n; i += 3) {
		size_t left = s.n - i;
		uint32_t v = (uint32_t)s.p[i] << 16 | (left > 1 ? (uint32_t)s.p[i + 1] << 8 : 0) |
			     (left > 2 ? s.p[i + 2] : 0);
		*to++ = (uint8_t)alphabet[v >> 18];
		*to++ = (uint8_t)alphabet[v >> 12 & 63];
		*to++ = left > 1 ? (uint8_t)alphabet[v >> 6 & 63] : '=';
		*to++ = left > 2 ? (uint8_t)alphabet[v & 63] : '=';
	}
	buf_commit(out, size);
}

/* 0 to 63, or -1. */
static int value_of(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* One group whose last `pad` characters are padding: its 24 bits, or -1. */
static int32_t group_bits(const uint8_t *p, unsigned pad)
{
	int32_t bits = 0;
	for (unsigned i = 0; i < 4; i++) {
		int v = i + pad >= 4 ? 0 : value_of(p[i]);
		if (v < 0)
			return -1;
		bits = bits << 6 | v;
	}
	int32_t unused = pad == 0 ? 0 : pad == 1 ? 0xff : 0xffff;
	return (bits & unused) == 0 ? bits : -1;
}

int base64_decode(struct slice text, struct buf *out)
{
	if (text.n % 4 != 0)
		return -EBADMSG;
	unsigned pad = 0;
	while (text.n > 0 && pad < 2 && text.p[text.n - 1 - pad] == '=')
		pad++;
	size_t size = text.n / 4 * 3 - pad;
	uint8_t *to = buf_reserve(out, size);
	if (to == NULL)
		return -ENOBUFS;
	for (size_t i = 0; i < text.n; i += 4) {
		unsigned group_pad = i + 4 == text.n ? pad : 0;
		int32_t bits = group_bits(text.p + i, group_pad);
		if (bits < 0)
			return -EBADMSG;
		for (unsigned k = 0; k < 3 - group_pad; k++)
			*to++ = (uint8_t)(bits >> (16 - 8 * k));
	}
	buf_commit(out, size);
	return 0;
}
