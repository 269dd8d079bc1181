/* SPDX-License-Identifier: Apache-2.0
 *
 * {"records":[{"key":..,"headers":..,"body":..}, ...]} straight from the scanner into the batch
 * writer: no tree is built. A record is gathered in one scratch buffer, as offsets because it moves.
 *
 *   body, key            string, or null for a null one; absent: an empty body, no key
 *   body_b64, key_b64    base64 of bytes; wins over the plain one
 *   headers              {"name": value} or [["name", value], ...]; a value is a string, {"b64": ..},
 *                        null; anything else is kept as its JSON text
 *   headers_b64          {"name": base64}
 *
 *   seq, timestamp       those of a read, ignored: what was read can be appended elsewhere
 *
 * A member of another name is refused: `bdy` would be stored, and acknowledged, as a record without a body.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/json_scan.h"
#include "common/record_batch.h"
#include "worker-http/pico.h"

#define KEY_MAX (1u << 20)
#define HEADER_NAME_MAX (64u << 10)

/* Bytes [begin, end) of the scratch buffer. */
struct span {
	size_t begin, end;
	bool is_null;
};

struct parser {
	struct json_scan json;
	struct buf scratch;
	char *fault;
	size_t fault_size;
	uint32_t index;                 /* of the record */
	struct span body, body_b64, key, key_b64;
	bool has_body, has_body_b64, has_key, has_key_b64;
	struct span name[RECORD_BATCH_MAX_HEADERS], value[RECORD_BATCH_MAX_HEADERS];
	uint32_t n_headers;
};

static bool parse_fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool parse_fail(struct parser *p, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(p->fault, p->fault_size, "record %u: ", p->index);
	va_start(ap, fmt);
	if (n > 0 && (size_t)n < p->fault_size)
		vsnprintf(p->fault + n, p->fault_size - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

/* What is wrong with the document, not with one of its records. */
static bool document_fail(struct parser *p, const char *what)
{
	snprintf(p->fault, p->fault_size, "%s", what);
	return false;
}

static bool parse_bad_json(struct parser *p)
{
	snprintf(p->fault, p->fault_size, "malformed JSON at byte %zu: %s", p->json.at,
		 p->json.error != NULL ? p->json.error : "unexpected value");
	return false;
}

/* ------------------------------------------------------------------ values */

static bool take_string(struct parser *p, struct slice text, struct span *ret)
{
	ret->begin = buf_len(&p->scratch);
	ret->is_null = false;
	if (json_string(text, &p->scratch) != 0)
		return parse_fail(p, "a string that is no text");
	ret->end = buf_len(&p->scratch);
	return true;
}

static bool take_base64(struct parser *p, struct slice text, struct span *ret)
{
	struct buf *s = &p->scratch;
	size_t begin = buf_len(s);
	if (json_string(text, s) != 0)
		return parse_fail(p, "a string that is no text");
	struct buf bytes;
	buf_init(&bytes, text.n);
	bool good = base64_decode(slice_of(buf_head(s) + begin, buf_len(s) - begin), &bytes) == 0;
	s->end -= buf_len(s) - begin;
	ret->begin = begin;
	ret->is_null = false;
	buf_put_slice(s, buf_slice(&bytes));
	ret->end = buf_len(s);
	buf_done(&bytes);
	return good || parse_fail(p, "bad base64");
}

/* The value behind a key that must be a string, or null where `null` is allowed. */
static bool take_member(struct parser *p, const char *what, bool base64, bool null, struct span *ret, bool *ret_has)
{
	enum json_token t = json_skip(&p->json);
	if (t == JSON_ERROR)
		return parse_bad_json(p);
	if (*ret_has)
		return parse_fail(p, "%s is given twice", what);
	*ret_has = true;
	if (t == JSON_NULL && null) {
		*ret = (struct span){ .is_null = true };
		return true;
	}
	if (t != JSON_STRING)
		return parse_fail(p, null ? "%s must be a string or null" : "%s must be a string", what);
	return base64 ? take_base64(p, p->json.span, ret) : take_string(p, p->json.span, ret);
}

/* ------------------------------------------------------------------ headers */

static bool take_name(struct parser *p, struct slice text)
{
	if (p->n_headers == RECORD_BATCH_MAX_HEADERS)
		return parse_fail(p, "more than %d headers", RECORD_BATCH_MAX_HEADERS);
	struct span *name = &p->name[p->n_headers];
	if (!take_string(p, text, name))
		return false;
	if (name->end - name->begin > HEADER_NAME_MAX)
		return parse_fail(p, "a header name is longer than 64 KiB");
	return true;
}

/* {"b64": "..."}: exactly that. */
static bool is_b64_object(struct slice text, struct slice *ret_string)
{
	struct json_scan j;
	json_scan_init(&j, text);
	if (json_next(&j) != JSON_OBJECT || json_next(&j) != JSON_KEY || !json_string_is(j.span, "b64") ||
	    json_next(&j) != JSON_STRING)
		return false;
	*ret_string = j.span;
	return json_next(&j) == JSON_OBJECT_END;
}

/* The value behind the name just taken. */
static bool take_value(struct parser *p, bool base64)
{
	struct span *value = &p->value[p->n_headers];
	enum json_token t = json_skip(&p->json);
	struct slice text = p->json.span, b64;
	if (t == JSON_ERROR || t == JSON_ARRAY_END)
		return t == JSON_ERROR ? parse_bad_json(p) : parse_fail(p, "a header is [name, value]");
	if (base64 && t != JSON_STRING)
		return parse_fail(p, "a value of headers_b64 must be a string");
	p->n_headers++;
	if (t == JSON_STRING)
		return base64 ? take_base64(p, text, value) : take_string(p, text, value);
	if (t == JSON_OBJECT && is_b64_object(text, &b64))
		return take_base64(p, b64, value);
	*value = (struct span){ .begin = buf_len(&p->scratch), .is_null = t == JSON_NULL };
	if (t != JSON_NULL)
		buf_put_slice(&p->scratch, text);
	value->end = buf_len(&p->scratch);
	return true;
}

static bool take_header_object(struct parser *p, bool base64)
{
	for (;;) {
		enum json_token t = json_next(&p->json);
		if (t == JSON_OBJECT_END)
			return true;
		if (t != JSON_KEY)
			return parse_bad_json(p);
		if (!take_name(p, p->json.span) || !take_value(p, base64))
			return false;
	}
}

static bool take_header_array(struct parser *p)
{
	for (;;) {
		enum json_token t = json_next(&p->json);
		if (t == JSON_ARRAY_END)
			return true;
		if (t == JSON_ERROR)
			return parse_bad_json(p);
		if (t != JSON_ARRAY || json_next(&p->json) != JSON_STRING)
			return parse_fail(p, "a header is [name, value]");
		if (!take_name(p, p->json.span) || !take_value(p, false))
			return false;
		if (json_next(&p->json) != JSON_ARRAY_END)
			return parse_fail(p, "a header is [name, value]");
	}
}

static bool take_headers(struct parser *p, bool base64)
{
	switch (json_next(&p->json)) {
	case JSON_OBJECT:
		return take_header_object(p, base64);
	case JSON_ARRAY:
		return base64 ? parse_fail(p, "headers_b64 must be an object") : take_header_array(p);
	case JSON_NULL:
		return true;
	case JSON_ERROR:
		return parse_bad_json(p);
	default:
		return parse_fail(p, "headers must be an object or an array");
	}
}

/* ------------------------------------------------------------------ records */

static bool take_record_member(struct parser *p)
{
	struct slice key = p->json.span;
	if (json_string_is(key, "body"))
		return take_member(p, "body", false, true, &p->body, &p->has_body);
	if (json_string_is(key, "body_b64"))
		return take_member(p, "body_b64", true, false, &p->body_b64, &p->has_body_b64);
	if (json_string_is(key, "key"))
		return take_member(p, "key", false, true, &p->key, &p->has_key);
	if (json_string_is(key, "key_b64"))
		return take_member(p, "key_b64", true, false, &p->key_b64, &p->has_key_b64);
	if (json_string_is(key, "headers"))
		return take_headers(p, false);
	if (json_string_is(key, "headers_b64"))
		return take_headers(p, true);
	if (!json_string_is(key, "seq") && !json_string_is(key, "timestamp"))
		return parse_fail(p, "%.*s is no member of a record; body, body_b64, key, key_b64, headers, headers_b64 are",
				  (int)(key.n < 60 ? key.n : 60), (const char *)key.p);
	return json_skip(&p->json) != JSON_ERROR || parse_bad_json(p);
}

static struct slice scratch_slice(const struct parser *p, struct span s)
{
	if (s.is_null)
		return slice_of(NULL, 0);
	return s.end > s.begin ? slice_of(buf_head(&p->scratch) + s.begin, s.end - s.begin) : slice_str("");
}

/* False when it is refused or does not fit. */
static bool write_record(struct parser *p, struct record_batch_writer *w)
{
	static struct record_header headers[RECORD_BATCH_MAX_HEADERS];
	struct span null = { .is_null = true }, empty = { 0 };
	struct span body = p->has_body_b64 ? p->body_b64 : p->has_body ? p->body : empty;
	struct span key = p->has_key_b64 ? p->key_b64 : p->has_key ? p->key : null;
	if (key.end - key.begin > KEY_MAX)
		return parse_fail(p, "the key is longer than 1 MiB");
	for (uint32_t i = 0; i < p->n_headers; i++)
		headers[i] = (struct record_header){ scratch_slice(p, p->name[i]), scratch_slice(p, p->value[i]) };
	record_batch_add(w, scratch_slice(p, key), scratch_slice(p, body), headers, p->n_headers);
	return !w->out->failed;
}

/* One record, behind its '{'. */
static bool take_record(struct parser *p, struct record_batch_writer *w)
{
	buf_reset(&p->scratch, 1 << 20);
	p->n_headers = 0;
	p->has_body = p->has_body_b64 = p->has_key = p->has_key_b64 = false;
	for (;;) {
		enum json_token t = json_next(&p->json);
		if (t == JSON_OBJECT_END)
			return write_record(p, w);
		if (t != JSON_KEY)
			return parse_bad_json(p);
		if (!take_record_member(p))
			return false;
	}
}

static bool take_records(struct parser *p, struct record_batch_writer *w)
{
	if (json_next(&p->json) != JSON_ARRAY)
		return p->json.error != NULL ? parse_bad_json(p) : document_fail(p, "records must be an array");
	for (;; p->index++) {
		enum json_token t = json_next(&p->json);
		if (t == JSON_ARRAY_END)
			return true;
		if (t == JSON_ERROR)
			return parse_bad_json(p);
		if (t != JSON_OBJECT)
			return parse_fail(p, "a record must be an object");
		if (!take_record(p, w))
			return false;
	}
}

static bool take_document(struct parser *p, struct record_batch_writer *w)
{
	bool seen = false;
	if (json_next(&p->json) != JSON_OBJECT)
		return p->json.error != NULL ? parse_bad_json(p) : document_fail(p, "the body must be {\"records\": [...]}");
	for (;;) {
		enum json_token t = json_next(&p->json);
		if (t == JSON_OBJECT_END)
			break;
		if (t != JSON_KEY)
			return parse_bad_json(p);
		if (!json_string_is(p->json.span, "records"))
			return document_fail(p, "the body must be {\"records\": [...]} and nothing beside");
		if (seen)
			return document_fail(p, "records is given twice");
		seen = true;
		if (!take_records(p, w))
			return false;
	}
	if (json_next(&p->json) != JSON_END)
		return parse_bad_json(p);
	return w->count > 0 || document_fail(p, "records is missing or empty");
}

int pico_json_batch(struct slice doc, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size)
{
	static struct parser p; /* 50 KB that one thread uses at a time */
	struct record_batch_writer w;
	p = (struct parser){ .fault = fault, .fault_size = fault_size };
	json_scan_init(&p.json, doc);
	buf_init(&p.scratch, doc.n + 1);
	record_batch_begin(&w, out);
	bool good = take_document(&p, &w);
	buf_done(&p.scratch);
	if (out->failed)
		return -ENOBUFS;
	if (!good)
		return -EBADMSG;
	*ret_count = w.count;
	return record_batch_end(&w) > 0 ? 0 : -ENOBUFS;
}
