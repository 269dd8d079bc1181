/* SPDX-License-Identifier: Apache-2.0
 *
 * What the routes of the admin listener share: parameters, names in paths, JSON of text that may not be UTF-8.
 */
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"

#define PARAM_MAX 1024

void admin_answer(struct request *r)
{
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, 200);
}

bool admin_number(struct request *r, const char *key, uint64_t *ret_value)
{
	struct buf value;
	*ret_value = 0;
	buf_init(&value, PARAM_MAX);
	bool good = !query_find(r->query, key, &value) || buf_len(&value) == 0 || strict_u64(buf_slice(&value), ret_value);
	buf_done(&value);
	if (!good)
		answer_bad_request(r, "%s is a number without sign or leading zeros", key);
	return good;
}

/* What was decoded as an owned string. */
static char *string_of(struct buf *value)
{
	buf_put_u8(value, '\0');
	char *text = value->failed || strlen((char *)buf_head(value)) + 1 != buf_len(value) ? NULL
											   : must_strdup((char *)buf_head(value));
	buf_done(value);
	return text;
}

bool admin_text(struct request *r, const char *key, char **ret_text)
{
	struct buf value;
	buf_init(&value, PARAM_MAX);
	if (!query_find(r->query, key, &value))
		buf_reset(&value, 0);
	*ret_text = string_of(&value);
	if (*ret_text == NULL)
		answer_bad_request(r, "%s is longer than %d bytes, or holds a NUL", key, PARAM_MAX);
	return *ret_text != NULL;
}

char *admin_rest(struct request *r, const char *prefix)
{
	struct buf name;
	size_t n = strlen(prefix);
	must(r->path.n >= n && memcmp(r->path.p, prefix, n) == 0);
	buf_init(&name, PARAM_MAX);
	percent_decode(slice_of(r->path.p + n, r->path.n - n), false, &name);
	char *text = string_of(&name);
	if (text != NULL && text[0] != '\0')
		return text;
	free(text);
	answer_bad_request(r, "give a name behind %s, of at most %d bytes", prefix, PARAM_MAX);
	return NULL;
}

void admin_put_hex(struct buf *out, const uint8_t *p, size_t n)
{
	buf_put_u8(out, '"');
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%02x", p[i]);
	buf_put_u8(out, '"');
}

void admin_put_text(struct buf *out, struct slice s)
{
	if (utf8_is_valid(s)) {
		json_put_string(out, s);
		return;
	}
	struct buf shown;
	buf_init(&shown, 3 * s.n);
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < 0x80)
			buf_put_u8(&shown, s.p[i]);
		else
			buf_put_str(&shown, "\xef\xbf\xbd");
	}
	json_put_string(out, buf_slice(&shown));
	buf_done(&shown);
}
