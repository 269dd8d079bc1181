/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a JSON document: pulling tokens and skipping agree, spans rise inside the document, and
 * what is accepted means the same when its tokens are written again without white space. Strings
 * decode to UTF-8 and come back; the same bytes go through base64.
 */
#include <errno.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "t/fuzz/fuzz.h"

#define SIZE_MAX_HERE (1u << 20)

static void check_string(struct slice span)
{
	struct buf text, written, again;
	buf_init(&text, SIZE_MAX_HERE);
	buf_init(&written, 8 * SIZE_MAX_HERE);
	buf_init(&again, SIZE_MAX_HERE);
	int rc = json_string(span, &text);
	must(rc == 0 || rc == -EBADMSG);
	if (rc == 0) {
		must(utf8_is_valid(buf_slice(&text)) && buf_len(&text) <= span.n - 2);
		json_put_string(&written, buf_slice(&text));
		must(json_string(buf_slice(&written), &again) == 0);
		must(slice_eq(buf_slice(&text), buf_slice(&again)));
		struct json_scan j;
		json_scan_init(&j, buf_slice(&written));
		must(json_next(&j) == JSON_STRING && json_next(&j) == JSON_END);
		bool has_nul = buf_len(&text) > 0 && memchr(buf_head(&text), 0, buf_len(&text)) != NULL;
		buf_put_u8(&text, 0);
		must(json_string_is(span, (const char *)buf_head(&text)) == !has_nul);
	}
	buf_done(&text);
	buf_done(&written);
	buf_done(&again);
}

static bool begins_value(enum json_token t)
{
	return t != JSON_OBJECT_END && t != JSON_ARRAY_END;
}

static void check_token(const struct json_scan *j, enum json_token t)
{
	uint64_t v;
	if (t == JSON_STRING || t == JSON_KEY)
		check_string(j->span);
	if (t == JSON_NUMBER) {
		int rc = json_u64(j->span, &v);
		must(rc == 0 || rc == -ERANGE);
	}
}

/* Pulls every token; true when the document was accepted. `out` gets it without white space. */
static bool walk(struct slice doc, struct buf *out)
{
	struct json_scan j;
	enum json_token t, last = JSON_OBJECT;
	size_t before = 0;
	json_scan_init(&j, doc);
	while ((t = json_next(&j)) != JSON_END && t != JSON_ERROR) {
		must(j.at > before && j.at <= doc.n && j.depth <= JSON_DEPTH_MAX);
		must(j.span.n > 0 && j.span.p >= doc.p + before && j.span.p + j.span.n <= doc.p + j.at);
		check_token(&j, t);
		if (begins_value(t) && last != JSON_OBJECT && last != JSON_ARRAY && last != JSON_KEY)
			buf_put_u8(out, ',');
		buf_put_slice(out, j.span);
		if (t == JSON_KEY)
			buf_put_u8(out, ':');
		before = j.at;
		last = t;
	}
	must(t == JSON_END || (j.error != NULL && j.at <= doc.n));
	must(json_next(&j) == t && json_skip(&j) == t);
	must(t == JSON_ERROR || j.depth == 0);
	return t == JSON_END;
}

static bool skip_accepts(struct slice doc)
{
	struct json_scan j;
	json_scan_init(&j, doc);
	return json_skip(&j) != JSON_ERROR && json_next(&j) == JSON_END;
}

static void check_base64(struct slice bytes)
{
	struct buf text, back;
	buf_init(&text, 2 * SIZE_MAX_HERE);
	buf_init(&back, 2 * SIZE_MAX_HERE);
	base64_put(&text, bytes);
	must(base64_decode(buf_slice(&text), &back) == 0);
	must(slice_eq(buf_slice(&back), bytes));
	buf_reset(&text, 0);
	buf_reset(&back, 0);
	if (base64_decode(bytes, &back) == 0) { /* one text a value: it comes back as it was */
		base64_put(&text, buf_slice(&back));
		must(slice_eq(buf_slice(&text), bytes));
	}
	buf_done(&text);
	buf_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > SIZE_MAX_HERE)
		return 0;
	struct slice doc = slice_of(data, size);
	struct buf first, second;
	buf_init(&first, 2 * SIZE_MAX_HERE);
	buf_init(&second, 2 * SIZE_MAX_HERE);
	bool accepted = walk(doc, &first);
	must(skip_accepts(doc) == accepted);
	must(!accepted || utf8_is_valid(doc));
	if (accepted) {
		must(walk(buf_slice(&first), &second));
		must(slice_eq(buf_slice(&first), buf_slice(&second)));
	}
	check_base64(doc);
	buf_done(&first);
	buf_done(&second);
	return 0;
}
