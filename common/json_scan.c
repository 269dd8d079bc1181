/* SPDX-License-Identifier: Apache-2.0
 *
 * The scanner: a state, and a stack of one bit a level that says whether the level is an object.
 * Invariant: `at` never passes the end of the document, and every byte before it belongs to a valid
 * beginning of a JSON text (RFC 8259). An error is final.
 */
#include "common/json_scan.h"

#include "common/must.h"
#include "common/utf8.h"
#include "common/wire.h"

enum state {
	STATE_VALUE,            /* a value must follow */
	STATE_FIRST_ELEMENT,    /* behind '[': a value or ']' */
	STATE_FIRST_KEY,        /* behind '{': a key or '}' */
	STATE_AFTER_VALUE,      /* ',' or the end of the level, or of the document */
	STATE_FAILED,
};

void json_scan_init(struct json_scan *j, struct slice doc)
{
	*j = (struct json_scan){ .doc = doc, .state = STATE_VALUE };
}

static enum json_token fail(struct json_scan *j, const char *error)
{
	j->state = STATE_FAILED;
	j->error = error;
	j->span = slice_of(NULL, 0);
	return JSON_ERROR;
}

/* The byte at `at`, or -1 at the end. */
static int peek(const struct json_scan *j)
{
	return j->at < j->doc.n ? j->doc.p[j->at] : -1;
}

static void skip_white(struct json_scan *j)
{
	int c;
	while ((c = peek(j)) == ' ' || c == '\n' || c == '\r' || c == '\t')
		j->at++;
}

static enum json_token token(struct json_scan *j, enum json_token type, size_t from, enum state next)
{
	must(from < j->at && j->at <= j->doc.n);
	j->span = slice_of(j->doc.p + from, j->at - from);
	j->state = next;
	return type;
}

/* ------------------------------------------------------------------ levels */

static bool in_object(const struct json_scan *j)
{
	unsigned level = j->depth - 1u;
	return (j->stack[level / 8] >> (level % 8) & 1) != 0;
}

static enum json_token open_level(struct json_scan *j, bool object)
{
	if (j->depth == JSON_DEPTH_MAX)
		return fail(j, "nested deeper than 512 levels");
	uint8_t bit = (uint8_t)(1u << (j->depth % 8));
	uint8_t *byte = &j->stack[j->depth / 8];
	*byte = object ? *byte | bit : *byte & (uint8_t)~bit;
	j->depth++;
	j->at++;
	return object ? token(j, JSON_OBJECT, j->at - 1, STATE_FIRST_KEY) :
			token(j, JSON_ARRAY, j->at - 1, STATE_FIRST_ELEMENT);
}

static enum json_token close_level(struct json_scan *j)
{
	must(j->depth > 0);
	enum json_token type = in_object(j) ? JSON_OBJECT_END : JSON_ARRAY_END;
	j->depth--;
	j->at++;
	return token(j, type, j->at - 1, STATE_AFTER_VALUE);
}

/* ------------------------------------------------------------------ scalars */

static bool is_hex(int c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind a backslash: takes the escape. A \u is judged by its form; pairs are json_string()'s. */
static bool take_escape(struct json_scan *j)
{
	int c = peek(j);
	j->at += c >= 0;
	if (c != 'u')
		return c > 0 && strchr("\"\\/bfnrt", c) != NULL;
	for (int i = 0; i < 4; i++, j->at++)
		if (!is_hex(peek(j)))
			return false;
	return true;
}

/*
 * Marks (high bit of the byte) each quote, backslash, control byte and byte >= 0x80. A borrow may mark
 * a byte too many, but only above one that is marked rightly.
 */
static uint64_t marked(uint64_t w)
{
	const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
	uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
	return (w | (w - ones * 0x20) | (quote - ones) | (slash - ones)) & high;
}

/* Goes on to the first byte that is not plain, or to the last 7 of the document. */
static void skip_plain(struct json_scan *j)
{
	while (j->doc.n - j->at >= 8) {
		uint64_t marks = marked(get_le64(j->doc.p + j->at));
		if (marks != 0) {
			j->at += (size_t)__builtin_ctzll(marks) / 8;
			return;
		}
		j->at += 8;
	}
}

/* At a quote: takes the string with both quotes. NULL, or what is wrong. */
static const char *take_string(struct json_scan *j)
{
	j->at++;
	for (;;) {
		skip_plain(j);
		int c = peek(j);
		if (c < 0)
			return "a string does not end";
		if (c < 0x20)
			return "a control byte in a string";
		if (c >= 0x80) {
			size_t n = utf8_sequence(j->doc.p + j->at, j->doc.p + j->doc.n);
			if (n == 0)
				return "a string is not UTF-8";
			j->at += n;
			continue;
		}
		j->at++;
		if (c == '"')
			return NULL;
		if (c == '\\' && !take_escape(j))
			return "a bad escape in a string";
	}
}

/* Takes digits; how many. */
static size_t take_digits(struct json_scan *j)
{
	size_t from = j->at;
	for (int c; (c = peek(j)) >= '0' && c <= '9';)
		j->at++;
	return j->at - from;
}

/* RFC 8259 section 6: [ minus ] int [ frac ] [ exp ]. False when it is none. */
static bool take_number(struct json_scan *j)
{
	j->at += peek(j) == '-';
	if (peek(j) == '0')
		j->at++;
	else if (take_digits(j) == 0)
		return false;
	if (peek(j) == '.') {
		j->at++;
		if (take_digits(j) == 0)
			return false;
	}
	if (peek(j) == 'e' || peek(j) == 'E') {
		j->at++;
		j->at += peek(j) == '+' || peek(j) == '-';
		return take_digits(j) > 0;
	}
	return true;
}

static enum json_token word(struct json_scan *j, const char *text, enum json_token type)
{
	size_t from = j->at, n = strlen(text);
	if (j->doc.n - j->at < n || memcmp(j->doc.p + j->at, text, n) != 0)
		return fail(j, "a word that is not true, false or null");
	j->at += n;
	return token(j, type, from, STATE_AFTER_VALUE);
}

/* ------------------------------------------------------------------ grammar */

static enum json_token value(struct json_scan *j)
{
	size_t from = j->at;
	int c = peek(j);
	const char *fault;
	switch (c) {
	case '{':
	case '[':
		return open_level(j, c == '{');
	case '"':
		fault = take_string(j);
		return fault != NULL ? fail(j, fault) : token(j, JSON_STRING, from, STATE_AFTER_VALUE);
	case 't':
		return word(j, "true", JSON_TRUE);
	case 'f':
		return word(j, "false", JSON_FALSE);
	case 'n':
		return word(j, "null", JSON_NULL);
	default:
		if (c != '-' && (c < '0' || c > '9'))
			return fail(j, c < 0 ? "a value is missing at the end" : "a value is missing");
		if (!take_number(j))
			return fail(j, "a bad number");
		return token(j, JSON_NUMBER, from, STATE_AFTER_VALUE);
	}
}

/* A key and the colon behind it; the span is the key's. */
static enum json_token key(struct json_scan *j)
{
	size_t from = j->at;
	if (peek(j) != '"')
		return fail(j, "a key is missing");
	const char *fault = take_string(j);
	if (fault != NULL)
		return fail(j, fault);
	enum json_token type = token(j, JSON_KEY, from, STATE_VALUE);
	skip_white(j);
	if (peek(j) != ':')
		return fail(j, "':' is missing behind a key");
	j->at++;
	return type;
}

static enum json_token after_value(struct json_scan *j)
{
	int c = peek(j);
	if (j->depth == 0) {
		j->span = slice_of(NULL, 0);
		return c < 0 ? JSON_END : fail(j, "something follows the document");
	}
	bool object = in_object(j);
	if (c == (object ? '}' : ']'))
		return close_level(j);
	if (c != ',')
		return fail(j, object ? "',' or '}' is missing" : "',' or ']' is missing");
	j->at++;
	skip_white(j);
	return object ? key(j) : value(j);
}

enum json_token json_next(struct json_scan *j)
{
	if (j->state == STATE_FAILED)
		return JSON_ERROR;
	skip_white(j);
	switch ((enum state)j->state) {
	case STATE_FIRST_ELEMENT:
		return peek(j) == ']' ? close_level(j) : value(j);
	case STATE_FIRST_KEY:
		return peek(j) == '}' ? close_level(j) : key(j);
	case STATE_AFTER_VALUE:
		return after_value(j);
	case STATE_VALUE:
	case STATE_FAILED:
		break;
	}
	return value(j);
}

bool json_is_valid(struct slice doc)
{
	struct json_scan j;
	enum json_token token;
	json_scan_init(&j, doc);
	do
		token = json_next(&j);
	while (token != JSON_END && token != JSON_ERROR);
	return token == JSON_END;
}

enum json_token json_skip(struct json_scan *j)
{
	enum json_token first = json_next(j);
	if (first != JSON_OBJECT && first != JSON_ARRAY)
		return first;
	const uint8_t *from = j->span.p;
	uint16_t outside = j->depth - 1;
	while (j->depth > outside)
		if (json_next(j) == JSON_ERROR)
			return JSON_ERROR;
	j->span = slice_of(from, (size_t)(j->doc.p + j->at - from));
	return first;
}
