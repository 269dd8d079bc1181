/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/query.h"

#include "common/json_scan.h"
#include "worker-http/http1.h"

bool strict_u64(struct slice s, uint64_t *ret_value)
{
	uint64_t v = 0;
	if (s.n == 0 || s.n > 20 || (s.p[0] == '0' && s.n > 1))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		unsigned digit = s.p[i] - '0';
		if (v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*ret_value = v;
	return true;
}

/* ------------------------------------------------------------------ percent-encoding */

static int hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void percent_decode(struct slice s, bool plus_is_space, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];
		if (c == '%' && i + 2 < s.n && hex_value(s.p[i + 1]) >= 0 && hex_value(s.p[i + 2]) >= 0) {
			c = (uint8_t)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		buf_put_u8(out, c);
	}
}

/* How long the UTF-8 character at the begin of s is; 0 when it is none. */
static size_t character(struct slice s)
{
	for (size_t n = 1; n <= 4 && n <= s.n; n++)
		if (utf8_is_valid(slice_of(s.p, n)))
			return n;
	return 0;
}

static void replace_bad_utf8(struct buf *value)
{
	if (utf8_is_valid(buf_slice(value)))
		return;
	struct buf good;
	buf_init(&good, value->max * 3);
	struct slice s = buf_slice(value);
	while (s.n > 0) {
		size_t n = character(s);
		if (n > 0)
			buf_put(&good, s.p, n);
		else
			buf_put_str(&good, "\xef\xbf\xbd");
		s.p += n > 0 ? n : 1;
		s.n -= n > 0 ? n : 1;
	}
	good.max = value->max;
	buf_done(value);
	*value = good;
}

/* Takes the next `name=value` off *query: its name, and the value with p == NULL when there is no '='. False at the end. */
static bool query_next(struct slice *query, struct slice *ret_name, struct slice *ret_value)
{
	if (query->n == 0)
		return false;
	const uint8_t *end = memchr(query->p, '&', query->n);
	struct slice item = slice_of(query->p, end != NULL ? (size_t)(end - query->p) : query->n);
	size_t used = end != NULL ? item.n + 1 : item.n;
	*query = slice_of(query->p + used, query->n - used);
	const uint8_t *equals = item.n > 0 ? memchr(item.p, '=', item.n) : NULL;
	*ret_name = slice_of(item.p, equals != NULL ? (size_t)(equals - item.p) : item.n);
	*ret_value = equals != NULL ? slice_of(equals + 1, item.n - ret_name->n - 1) : slice_of(NULL, 0);
	return true;
}

bool query_find_nth(struct slice query, const char *key, unsigned n, struct buf *ret_value)
{
	struct slice name, value;
	while (query_next(&query, &name, &value)) {
		if (!slice_is(name, key) || n-- > 0)
			continue;
		buf_reset(ret_value, 4096);
		if (value.p != NULL)
			percent_decode(value, true, ret_value);
		replace_bad_utf8(ret_value);
		return true;
	}
	return false;
}

bool query_find(struct slice query, const char *key, struct buf *ret_value)
{
	return query_find_nth(query, key, 0, ret_value);
}

unsigned query_count(struct slice query, const char *key)
{
	struct slice name, value;
	unsigned n = 0;
	while (query_next(&query, &name, &value))
		n += slice_is(name, key);
	return n;
}

/* ------------------------------------------------------------------ positions and tags */

bool position_parse(struct slice s, struct position *ret_position)
{
	if (http1_is_word(s, "now")) {
		*ret_position = (struct position){ .tail = true };
		return true;
	}
	bool negative = s.n > 0 && s.p[0] == '-';
	if (negative || (s.n > 0 && s.p[0] == '+'))
		s = slice_of(s.p + 1, s.n - 1);
	if (s.n == 0)
		return false;
	int64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
			return false;
	}
	*ret_position = (struct position){ .from = negative && v > 0 ? -v : v };
	return true;
}

bool etag_matches(struct slice list, struct slice etag)
{
	size_t i = 0;
	while (i < list.n) {
		if (list.p[i] == ' ' || list.p[i] == '\t' || list.p[i] == ',') {
			i++;
			continue;
		}
		if (list.p[i] == '*')
			return true;
		if (list.n - i > 2 && list.p[i] == 'W' && list.p[i + 1] == '/')
			i += 2;
		if (list.p[i] != '"')
			return false;
		const uint8_t *end = memchr(list.p + i + 1, '"', list.n - i - 1);
		if (end == NULL)
			return false;
		size_t n = (size_t)(end - (list.p + i)) + 1;
		if (slice_eq(slice_of(list.p + i, n), etag))
			return true;
		i += n;
	}
	return false;
}
