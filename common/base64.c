/* SPDX-License-Identifier: Apache-2.0
 *
 * Four characters for three bytes. One text has one decoding and one decoding one text: that is what
 * refusing loose padding and unused bits is for.
 */
#include "common/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(struct buf *out, struct slice s, const char *letters, bool pad)
{
	if (s.n > SIZE_MAX / 4) {
		out->failed = true;
		return;
	}
	size_t whole = (s.n + 2) / 3 * 4, size = pad ? whole : (s.n * 4 + 2) / 3;
	uint8_t *to = buf_reserve(out, whole);
	if (to == NULL)
		return;
	for (size_t i = 0; i < s.n; i += 3) {
		size_t left = s.n - i;
		uint32_t v = (uint32_t)s.p[i] << 16 | (left > 1 ? (uint32_t)s.p[i + 1] << 8 : 0) |
			     (left > 2 ? s.p[i + 2] : 0);
		*to++ = (uint8_t)letters[v >> 18];
		*to++ = (uint8_t)letters[v >> 12 & 63];
		*to++ = left > 1 ? (uint8_t)letters[v >> 6 & 63] : '=';
		*to++ = left > 2 ? (uint8_t)letters[v & 63] : '=';
	}
	buf_commit(out, size);
}

void base64_put(struct buf *out, struct slice s)
{
	encode(out, s, alphabet, true);
}

void base64url_put(struct buf *out, struct slice s)
{
	encode(out, s, url_alphabet, false);
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

int base64url_decode(struct slice text, struct buf *out)
{
	struct buf padded;
	int err = -EBADMSG;
	buf_init(&padded, text.n + 4);
	buf_put_slice(&padded, text);
	while (buf_len(&padded) % 4 != 0)
		buf_put_u8(&padded, '=');
	uint8_t *p = buf_head(&padded);
	size_t i = 0;
	for (; i < text.n && p[i] != '+' && p[i] != '/' && p[i] != '='; i++)
		p[i] = p[i] == '-' ? '+' : p[i] == '_' ? '/' : p[i];
	if (i == text.n)
		err = base64_decode(buf_slice(&padded), out);
	buf_done(&padded);
	return err;
}
