/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands inside the tokens of the scanner: strings decoded, compared and written, integers. A
 * span is taken as it is given: one that no scanner made is refused, never read past its end.
 */
#include <errno.h>

#include "common/json_scan.h"
#include "common/utf8.h"

static int hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* At p: XXXX. The value, or -1. */
static int32_t hex4(const uint8_t *p, const uint8_t *end)
{
	int32_t v = 0;
	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_value(p[i]);
		if (digit < 0)
			return -1;
		v = v << 4 | digit;
	}
	return v;
}

/* Behind a \u: one XXXX, or the XXXX\uXXXX of a surrogate pair. Moves *p; -1 for a lone surrogate. */
static int32_t unicode_escape(const uint8_t **p, const uint8_t *end)
{
	int32_t high = hex4(*p, end);
	if (high < 0 || (high >= 0xdc00 && high <= 0xdfff))
		return -1;
	*p += 4;
	if (high < 0xd800 || high > 0xdbff)
		return high;
	if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
		return -1;
	int32_t low = hex4(*p + 2, end);
	if (low < 0xdc00 || low > 0xdfff)
		return -1;
	*p += 6;
	return 0x10000 + ((high - 0xd800) << 10 | (low - 0xdc00));
}

/* Behind a backslash: the character that is meant, or -1. Moves *p. */
static int32_t escaped_char(const uint8_t **p, const uint8_t *end)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	if (*p == end)
		return -1;
	uint8_t c = *(*p)++;
	if (c == 'u')
		return unicode_escape(p, end);
	const char *at = c == 0 ? NULL : strchr(letters, c);
	return at == NULL ? -1 : meant[at - letters];
}

/* The next decoded character's bytes in `to`: how many, or 0 when there is none. Moves *p. */
static size_t next_unit(const uint8_t **p, const uint8_t *end, uint8_t to[4])
{
	if (**p != '\\') {
		to[0] = *(*p)++;
		return 1;
	}
	++*p;
	int32_t c = escaped_char(p, end);
	return c < 0 ? 0 : utf8_put(to, (uint32_t)c);
}

/* The inside of a string span; false when it has no quotes around it. */
static bool unquote(struct slice span, struct slice *ret_inside)
{
	if (span.n < 2 || span.p[0] != '"' || span.p[span.n - 1] != '"')
		return false;
	*ret_inside = slice_of(span.p + 1, span.n - 2);
	return true;
}

/* Decodes into `to`, or only measures when that is NULL. The length, or -EBADMSG. */
static int64_t decode(struct slice inside, uint8_t *to)
{
	const uint8_t *p = inside.p, *end = inside.p + inside.n;
	int64_t n = 0;
	while (p < end) {
		uint8_t unit[4];
		size_t k = next_unit(&p, end, unit);
		if (k == 0)
			return -EBADMSG;
		if (to != NULL)
			memcpy(to + n, unit, k);
		n += (int64_t)k;
	}
	return n;
}

int json_string(struct slice span, struct buf *out)
{
	struct slice inside;
	if (!unquote(span, &inside))
		return -EBADMSG;
	if (inside.n == 0 || memchr(inside.p, '\\', inside.n) == NULL) {
		buf_put_slice(out, inside);
		return out->failed ? -ENOBUFS : 0;
	}
	int64_t n = decode(inside, NULL);
	if (n < 0)
		return -EBADMSG;
	uint8_t *to = buf_reserve(out, (size_t)n);
	if (to == NULL)
		return -ENOBUFS;
	decode(inside, to);
	buf_commit(out, (size_t)n);
	return 0;
}

bool json_string_is(struct slice span, const char *text)
{
	struct slice inside;
	if (!unquote(span, &inside))
		return false;
	const uint8_t *p = inside.p, *end = inside.p + inside.n;
	size_t left = strlen(text);
	while (p < end) {
		uint8_t unit[4];
		size_t k = next_unit(&p, end, unit);
		if (k == 0 || k > left || memcmp(unit, text, k) != 0)
			return false;
		text += k;
		left -= k;
	}
	return left == 0;
}

int json_u64(struct slice span, uint64_t *ret_value)
{
	uint64_t v = 0;
	if (span.n == 0)
		return -ERANGE;
	for (size_t i = 0; i < span.n; i++) {
		uint8_t c = span.p[i];
		if (c < '0' || c > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(c - '0'), &v))
			return -ERANGE;
	}
	*ret_value = v;
	return 0;
}

static void put_escaped(struct buf *out, uint8_t c)
{
	static const char letters[] = "\"\\bfnrt", meant[] = "\"\\\b\f\n\r\t";
	const char *at = c == 0 ? NULL : strchr(meant, c);
	if (at != NULL) {
		char two[2] = { '\\', letters[at - meant] };
		buf_put(out, two, 2);
	} else {
		buf_printf(out, "\\u%04x", c);
	}
}

void json_put_string(struct buf *out, struct slice s)
{
	buf_put_u8(out, '"');
	size_t plain = 0; /* begin of what is not written yet */
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_put(out, s.p + plain, i - plain);
		put_escaped(out, c);
		plain = i + 1;
	}
	if (plain < s.n)
		buf_put(out, s.p + plain, s.n - plain);
	buf_put_u8(out, '"');
}
