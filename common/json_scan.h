/* SPDX-License-Identifier: Apache-2.0
 *
 * A scanner for JSON that clients send (RFC 8259): iterative, depth 512, any number, \u0000 kept,
 * duplicate keys kept, strict UTF-8, a byte span for every value. It allocates nothing: the caller
 * pulls tokens and skips what it does not want.
 */
#ifndef COMMON_JSON_SCAN_H
#define COMMON_JSON_SCAN_H

#include "common/base64.h"
#include "common/buf.h"
#include "common/slice.h"
#include "common/utf8.h"

#define JSON_DEPTH_MAX 512

enum json_token {
	JSON_END,               /* the document is complete and nothing follows */
	JSON_ERROR,             /* json->error says what, json->at where */
	JSON_OBJECT, JSON_OBJECT_END,
	JSON_ARRAY, JSON_ARRAY_END,
	JSON_KEY,               /* span: the string with its quotes */
	JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL,
};

struct json_scan {
	struct slice doc;
	size_t at;              /* next byte to look at */
	struct slice span;      /* of the last token; of a skipped value: the whole value */
	const char *error;
	uint16_t depth;
	uint8_t state;          /* private */
	uint8_t stack[JSON_DEPTH_MAX / 8];  /* private: one bit a level, object or array */
};

void json_scan_init(struct json_scan *j, struct slice doc);
/* JSON_END and JSON_ERROR come again and again; everything before JSON_END may yet turn out wrong. */
enum json_token json_next(struct json_scan *j);

/* Is it one value and nothing else? */
bool json_is_valid(struct slice doc);

/*
 * After JSON_KEY, or inside an array: takes one whole value of any kind without looking inside
 * further than its syntax; span is the value's bytes. Returns the token that began it; at the end
 * of the array JSON_ARRAY_END, as json_next() would.
 */
enum json_token json_skip(struct json_scan *j);

/*
 * Decodes a string span (quotes and all) to UTF-8 bytes. -EBADMSG for a lone surrogate (the scanner
 * lets it pass: RFC 8259 section 8.2), -ENOBUFS; on failure out has no byte more than before.
 */
int json_string(struct slice span, struct buf *out);
/* Is this string span, decoded, equal to that text? */
bool json_string_is(struct slice span, const char *text);
/* A number span that is digits alone ("1.0", "1e3" and "-0" are not) and fits: 0, else -ERANGE. */
int json_u64(struct slice span, uint64_t *ret_value);

/* Writes a string with its quotes, escaping what must be escaped; s must be UTF-8 (utf8_is_valid). */
void json_put_string(struct buf *out, struct slice s);

#endif
