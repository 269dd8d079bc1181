/* SPDX-License-Identifier: Apache-2.0
 *
 * Scopes: from JSON, the decision, and the comparison of two.
 */
#include "worker-http/scope.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"

enum resource_kind { NO_RESOURCE, STREAM, TOKEN };

static const struct {
	const char *word;
	enum scope_group group;
	enum resource_kind resource;
} ops[SCOPE_OPS] = {
	[SCOPE_READ] = { "read", SCOPE_STREAM_READS, STREAM },
	[SCOPE_HEAD] = { "head", SCOPE_STREAM_READS, STREAM },
	[SCOPE_LIST] = { "list", SCOPE_STREAM_READS, STREAM },
	[SCOPE_CREATE] = { "create", SCOPE_STREAM_WRITES, STREAM },
	[SCOPE_APPEND] = { "append", SCOPE_STREAM_WRITES, STREAM },
	[SCOPE_TRIM] = { "trim", SCOPE_STREAM_WRITES, STREAM },
	[SCOPE_CLOSE] = { "close", SCOPE_STREAM_WRITES, STREAM },
	[SCOPE_DELETE] = { "delete", SCOPE_STREAM_WRITES, STREAM },
	[SCOPE_LIST_TOKENS] = { "list_tokens", SCOPE_TOKEN_READS, TOKEN },
	[SCOPE_ISSUE_TOKEN] = { "issue_token", SCOPE_TOKEN_WRITES, TOKEN },
	[SCOPE_REVOKE_TOKEN] = { "revoke_token", SCOPE_TOKEN_WRITES, TOKEN },
	[SCOPE_CLUSTER_READ] = { "cluster_read", SCOPE_ADMIN_READS, NO_RESOURCE },
	[SCOPE_NODE_READ] = { "node_read", SCOPE_ADMIN_READS, NO_RESOURCE },
	[SCOPE_STREAM_INSPECT] = { "stream_inspect", SCOPE_ADMIN_READS, STREAM },
	[SCOPE_TRANSFER_STREAM] = { "transfer_stream", SCOPE_ADMIN_WRITES, STREAM },
	[SCOPE_UPDATE_NODE_SLOTS] = { "update_node_slots", SCOPE_ADMIN_WRITES, NO_RESOURCE },
};
static const char *const audiences[SCOPE_AUDIENCES] = { "pico", "durable_streams", "admin" };
/* In pairs, read and write, as enum scope_group has them. */
static const char *const groups[SCOPE_GROUPS / 2] = { "stream", "tokens", "admin" };

const char *scope_op_word(enum scope_op op)
{
	return ops[op].word;
}

/* ------------------------------------------------------------------ from JSON */

struct parse {
	struct json_scan j;
	struct scope *s;
	char *fault;
	size_t fault_size;
};

static bool refuse(struct parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Always false. */
static bool refuse(struct parse *p, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(p->fault, p->fault_size, fmt, args);
	va_end(args);
	return false;
}

/* A string's text, kept as an offset while `text` grows. */
static bool take_string(struct parse *p, struct slice *ret)
{
	size_t at = buf_len(&p->s->text);
	if (json_string(p->j.span, &p->s->text) != 0)
		return refuse(p, "a string is no Unicode text, or the scope is too long");
	*ret = slice_of((const uint8_t *)at, buf_len(&p->s->text) - at);
	return true;
}

static bool take_matcher(struct parse *p, struct scope_matchers *m, const char *what)
{
	if (m->n == SCOPE_MATCHERS_MAX)
		return refuse(p, "%s has more than %d entries", what, SCOPE_MATCHERS_MAX);
	if (json_next(&p->j) != JSON_KEY)
		return refuse(p, "an entry of %s is {\"exact\": NAME} or {\"prefix\": TEXT}", what);
	struct scope_matcher new = { .prefix = json_string_is(p->j.span, "prefix") };
	if (!new.prefix && !json_string_is(p->j.span, "exact"))
		return refuse(p, "an entry of %s is {\"exact\": NAME} or {\"prefix\": TEXT}", what);
	if (json_next(&p->j) != JSON_STRING || !take_string(p, &new.text))
		return refuse(p, "exact and prefix in %s are strings", what);
	if (!new.prefix && new.text.n == 0)
		return refuse(p, "an exact entry of %s is empty", what);
	if (json_next(&p->j) != JSON_OBJECT_END)
		return refuse(p, "an entry of %s is exact or a prefix, not both", what);
	m->item = must_realloc(m->item, (m->n + 1) * sizeof(m->item[0]));
	m->item[m->n++] = new;
	return true;
}

static bool take_matchers(struct parse *p, struct scope_matchers *m, const char *what)
{
	enum json_token token;
	if (json_next(&p->j) != JSON_ARRAY)
		return refuse(p, "%s must be an array", what);
	while ((token = json_next(&p->j)) == JSON_OBJECT)
		if (!take_matcher(p, m, what))
			return false;
	return token == JSON_ARRAY_END ||
	       refuse(p, "an entry of %s is {\"exact\": NAME} or {\"prefix\": TEXT}", what);
}

static bool take_streams(struct parse *p)
{
	return take_matchers(p, &p->s->streams, "streams");
}

static bool take_tokens(struct parse *p)
{
	return take_matchers(p, &p->s->tokens, "tokens");
}

/* {"read": bool, "write": bool} of group `which`. */
static bool take_group(struct parse *p, unsigned which)
{
	enum json_token token;
	if (json_next(&p->j) != JSON_OBJECT)
		return refuse(p, "a group is {\"read\": true or false, \"write\": true or false}");
	while ((token = json_next(&p->j)) == JSON_KEY) {
		bool write = json_string_is(p->j.span, "write");
		if (!write && !json_string_is(p->j.span, "read"))
			return refuse(p, "group %s has read and write, nothing else", groups[which]);
		token = json_next(&p->j);
		if (token != JSON_TRUE && token != JSON_FALSE)
			return refuse(p, "read and write of group %s are true or false", groups[which]);
		if (token == JSON_TRUE)
			p->s->groups |= (uint8_t)(1u << (2 * which + write));
	}
	return token == JSON_OBJECT_END;
}

static bool take_groups(struct parse *p)
{
	enum json_token token;
	if (json_next(&p->j) != JSON_OBJECT)
		return refuse(p, "groups must be an object");
	while ((token = json_next(&p->j)) == JSON_KEY) {
		unsigned which = 0;
		while (which < SCOPE_GROUPS / 2 && !json_string_is(p->j.span, groups[which]))
			which++;
		if (which == SCOPE_GROUPS / 2)
			return refuse(p, "groups are stream, tokens and admin");
		if (!take_group(p, which))
			return false;
	}
	return token == JSON_OBJECT_END;
}

static bool take_ops(struct parse *p)
{
	enum json_token token;
	if (json_next(&p->j) != JSON_ARRAY)
		return refuse(p, "ops must be an array");
	while ((token = json_next(&p->j)) == JSON_STRING) {
		unsigned op = 0;
		while (op < SCOPE_OPS && !json_string_is(p->j.span, ops[op].word))
			op++;
		if (op == SCOPE_OPS)
			return refuse(p, "%.*s is no operation", (int)(p->j.span.n < 64 ? p->j.span.n : 64),
				      (const char *)p->j.span.p);
		p->s->ops |= 1u << op;
	}
	return token == JSON_ARRAY_END || refuse(p, "ops are strings");
}

static bool take_audiences(struct parse *p)
{
	enum json_token token;
	if (json_next(&p->j) != JSON_ARRAY)
		return refuse(p, "audiences must be an array");
	while ((token = json_next(&p->j)) == JSON_STRING) {
		unsigned a = 0;
		while (a < SCOPE_AUDIENCES && !json_string_is(p->j.span, audiences[a]))
			a++;
		if (a == SCOPE_AUDIENCES)
			return refuse(p, "audiences are pico, durable_streams and admin");
		p->s->audiences |= (uint8_t)(1u << a);
	}
	return token == JSON_ARRAY_END || refuse(p, "audiences are strings");
}

static bool take_auto_prefix(struct parse *p)
{
	enum json_token token = json_next(&p->j);
	p->s->auto_prefix = token == JSON_TRUE;
	return token == JSON_TRUE || token == JSON_FALSE || refuse(p, "autoPrefixStreams is true or false");
}

static bool take_expires(struct parse *p)
{
	enum json_token token = json_next(&p->j);
	uint64_t ms = 0;
	if (token == JSON_NULL)
		return true;
	if (token != JSON_NUMBER || json_u64(p->j.span, &ms) != 0 || ms > INT64_MAX)
		return refuse(p, "expiresAtMs is milliseconds since 1970, or null");
	p->s->expires = true;
	p->s->expires_at_ms = (int64_t)ms;
	return true;
}

static const struct {
	const char *key;
	bool (*take)(struct parse *p);
} fields[] = {
	{ "streams", take_streams }, { "tokens", take_tokens }, { "groups", take_groups }, { "ops", take_ops },
	{ "audiences", take_audiences }, { "autoPrefixStreams", take_auto_prefix }, { "expiresAtMs", take_expires },
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool take_fields(struct parse *p)
{
	enum json_token token;
	unsigned seen = 0;
	while ((token = json_next(&p->j)) == JSON_KEY) {
		size_t i = 0;
		while (i < N_FIELDS && !json_string_is(p->j.span, fields[i].key))
			i++;
		if (i == N_FIELDS)
			return refuse(p, "a scope has no %.*s", (int)(p->j.span.n < 64 ? p->j.span.n : 64),
				      (const char *)p->j.span.p);
		if (seen & 1u << i)
			return refuse(p, "%s stands there twice", fields[i].key);
		seen |= 1u << i;
		if (!fields[i].take(p))
			return false;
	}
	return token == JSON_OBJECT_END && json_next(&p->j) == JSON_END;
}

static void place_texts(struct scope *s, struct scope_matchers *m)
{
	for (size_t i = 0; i < m->n; i++)
		m->item[i].text.p = (const uint8_t *)buf_head(&s->text) + (uintptr_t)m->item[i].text.p;
}

static bool whole_is_good(struct parse *p)
{
	const struct scope *s = p->s;
	for (size_t i = 0; i < s->streams.n; i++)
		if (s->streams.item[i].text.n > 0 && s->streams.item[i].text.p[0] != '/')
			return refuse(p, "an entry of streams begins with /");
	if (s->audiences == 0)
		return refuse(p, "name an audience: pico, durable_streams or admin");
	if (s->ops == 0 && s->groups == 0)
		return refuse(p, "name an operation, or a group of them");
	if (s->auto_prefix && (s->streams.n != 1 || !s->streams.item[0].prefix || s->streams.item[0].text.n == 0))
		return refuse(p, "autoPrefixStreams needs streams to be one prefix");
	return true;
}

int scope_parse(struct slice json, struct scope *ret, char *fault, size_t fault_size)
{
	struct parse p = { .s = ret, .fault = fault, .fault_size = fault_size };
	*ret = (struct scope){ 0 };
	buf_init(&ret->text, SCOPE_JSON_MAX);
	snprintf(fault, fault_size, "the scope is no JSON object, or has more than %d bytes", SCOPE_JSON_MAX);
	json_scan_init(&p.j, json);
	bool good = json.n <= SCOPE_JSON_MAX && json_next(&p.j) == JSON_OBJECT && take_fields(&p);
	if (good) {
		place_texts(ret, &ret->streams);
		place_texts(ret, &ret->tokens);
		good = whole_is_good(&p);
	}
	if (good)
		return 0;
	scope_done(ret);
	return -EBADMSG;
}

void scope_done(struct scope *s)
{
	free(s->streams.item);
	free(s->tokens.item);
	buf_done(&s->text);
	*s = (struct scope){ 0 };
}

/* ------------------------------------------------------------------ the decision */

static bool begins_with(struct slice text, struct slice prefix)
{
	return text.n >= prefix.n && (prefix.n == 0 || memcmp(text.p, prefix.p, prefix.n) == 0);
}

/* as_prefix: of everything that begins with it. */
static bool is_matched(const struct scope_matchers *m, struct slice resource, bool as_prefix)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->item[i].prefix ? begins_with(resource, m->item[i].text)
				      : !as_prefix && slice_eq(resource, m->item[i].text))
			return true;
	}
	return false;
}

static bool has_op(const struct scope *s, enum scope_op op)
{
	return (s->ops & 1u << op) != 0 || (s->groups & 1u << ops[op].group) != 0;
}

bool scope_is_over(const struct scope *s, int64_t now_ms)
{
	return s->expires && now_ms >= s->expires_at_ms;
}

bool scope_allows(const struct scope *s, enum scope_audience audience, enum scope_op op, struct slice resource, int64_t now_ms)
{
	if (scope_is_over(s, now_ms) || (s->audiences & 1u << audience) == 0 || !has_op(s, op))
		return false;
	if (ops[op].resource == NO_RESOURCE)
		return true;
	if (resource.p == NULL)
		return false;
	return is_matched(ops[op].resource == STREAM ? &s->streams : &s->tokens, resource, op == SCOPE_LIST);
}

/* ------------------------------------------------------------------ narrowing */

static bool matchers_cover(const struct scope_matchers *parent, const struct scope_matchers *child, struct slice *ret_beyond)
{
	for (size_t i = 0; i < child->n; i++) {
		*ret_beyond = child->item[i].text;
		if (!is_matched(parent, child->item[i].text, child->item[i].prefix))
			return false;
	}
	return true;
}

static bool ops_cover(const struct scope *parent, const struct scope *child, enum scope_op *ret_beyond)
{
	for (unsigned op = 0; op < SCOPE_OPS; op++) {
		*ret_beyond = (enum scope_op)op;
		if ((child->ops & 1u << op) != 0 && !has_op(parent, (enum scope_op)op))
			return false;
	}
	return true;
}

bool scope_covers(const struct scope *parent, const struct scope *child, char *fault, size_t fault_size)
{
	struct slice beyond;
	enum scope_op op;
	const char *what = NULL;
	if ((child->audiences & ~parent->audiences) != 0)
		what = "an audience that the issuer does not have";
	else if ((child->groups & ~parent->groups) != 0)
		what = "a group of operations that the issuer does not have";
	else if (parent->expires && (!child->expires || child->expires_at_ms > parent->expires_at_ms))
		what = "a later end than the issuer's";
	if (what != NULL)
		snprintf(fault, fault_size, "the scope has %s", what);
	else if (!ops_cover(parent, child, &op))
		snprintf(fault, fault_size, "the issuer may not %s", ops[op].word);
	else if (!matchers_cover(&parent->streams, &child->streams, &beyond))
		snprintf(fault, fault_size, "the issuer does not have all streams of %.*s", (int)(beyond.n < 200 ? beyond.n : 200),
			 (const char *)beyond.p);
	else if (!matchers_cover(&parent->tokens, &child->tokens, &beyond))
		snprintf(fault, fault_size, "the issuer does not have all tokens of %.*s", (int)(beyond.n < 200 ? beyond.n : 200),
			 (const char *)beyond.p);
	else
		return true;
	return false;
}
