/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON scanner on a pipe, for t/05-json-differential.py. Standard input: documents, each behind
 * its length as 4 bytes, little-endian. Standard output: a line a document, "-" when it is refused, else
 * the document without white space: strings decoded and written again ("?" where one does not
 * decode), numbers as they came.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/wire.h"

#define DOC_MAX (1u << 20)

static void put_string(struct buf *out, struct slice span)
{
	struct buf text;
	buf_init(&text, DOC_MAX);
	if (json_string(span, &text) == 0)
		json_put_string(out, buf_slice(&text));
	else
		buf_put_str(out, "?");
	buf_done(&text);
}

static bool begins_value(enum json_token t)
{
	return t != JSON_OBJECT_END && t != JSON_ARRAY_END;
}

/* Writes the document again; false when it is refused. */
static bool rewrite(struct slice doc, struct buf *out)
{
	struct json_scan j;
	enum json_token t, last = JSON_OBJECT;
	json_scan_init(&j, doc);
	while ((t = json_next(&j)) != JSON_END && t != JSON_ERROR) {
		if (begins_value(t) && last != JSON_OBJECT && last != JSON_ARRAY && last != JSON_KEY)
			buf_put_str(out, ",");
		if (t == JSON_STRING || t == JSON_KEY)
			put_string(out, j.span);
		else
			buf_put_slice(out, j.span);
		if (t == JSON_KEY)
			buf_put_str(out, ":");
		last = t;
	}
	must(!out->failed);
	return t == JSON_END;
}

int main(void)
{
	static uint8_t doc[DOC_MAX];
	uint8_t length[4];
	while (fread(length, 1, 4, stdin) == 4) {
		uint32_t n = get_le32(length);
		if (n > DOC_MAX || fread(doc, 1, n, stdin) != n)
			return EXIT_FAILURE;
		struct buf out;
		buf_init(&out, 8 * DOC_MAX);
		if (rewrite(slice_of(doc, n), &out))
			fwrite(buf_head(&out), 1, buf_len(&out), stdout);
		else
			putchar('-');
		putchar('\n');
		buf_done(&out);
	}
	return EXIT_SUCCESS;
}
