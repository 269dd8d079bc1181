/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the control plane out of JSON, and its answers. Members that nobody knows are passed over.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "worker-http/query.h"
#include "worker-http/sub.h"

#define TEXT_MAX 4096

/* ------------------------------------------------------------------ parsing */

static bool take_string(enum json_token token, struct slice span, char **ret)
{
	struct buf text;
	if (token != JSON_STRING)
		return false;
	buf_init(&text, TEXT_MAX);
	bool good = json_string(span, &text) == 0 && (buf_len(&text) == 0 || memchr(buf_head(&text), 0, buf_len(&text)) == NULL);
	if (good) {
		free(*ret);
		*ret = must_calloc(1, buf_len(&text) + 1);
		if (buf_len(&text) > 0)
			memcpy(*ret, buf_head(&text), buf_len(&text));
	}
	buf_done(&text);
	return good;
}

typedef bool element_fn(struct sub_body *b, enum json_token token, struct slice span);

/* Each element of an array whose '[' was not read yet. */
static bool take_array(struct sub_body *b, struct slice array, element_fn *element)
{
	struct json_scan j;
	enum json_token token;
	json_scan_init(&j, array);
	if (json_next(&j) != JSON_ARRAY)
		return false;
	while ((token = json_skip(&j)) != JSON_ARRAY_END)
		if (token == JSON_ERROR || !element(b, token, j.span))
			return false;
	return true;
}

static bool take_stream(struct sub_body *b, enum json_token token, struct slice span)
{
	if (b->n_streams == SUB_STREAMS_MAX)
		return false;
	b->stream = must_realloc(b->stream, (b->n_streams + 1) * sizeof(char *));
	b->stream[b->n_streams] = NULL;
	return take_string(token, span, &b->stream[b->n_streams++]);
}

typedef bool member_fn(struct sub_body *b, struct slice name, enum json_token token, struct slice span);

static bool take_object(struct sub_body *b, struct slice object, member_fn *member)
{
	struct json_scan j;
	enum json_token token;
	json_scan_init(&j, object);
	if (json_next(&j) != JSON_OBJECT)
		return false;
	while ((token = json_next(&j)) == JSON_KEY) {
		struct slice name = j.span;
		token = json_skip(&j);
		if (token == JSON_ERROR || !member(b, name, token, j.span))
			return false;
	}
	return token == JSON_OBJECT_END;
}

static bool ack_member(struct sub_body *b, struct slice name, enum json_token token, struct slice span)
{
	struct sub_ack *ack = &b->ack[b->n_acks - 1];
	char *text = NULL;
	if (json_string_is(name, "stream"))
		return take_string(token, span, &ack->stream);
	if (!json_string_is(name, "offset"))
		return true;
	struct position p;
	bool good = take_string(token, span, &text) && text[0] >= '0' && text[0] <= '9' && position_parse(slice_str(text), &p);
	if (good)
		ack->offset = (uint64_t)p.from;
	free(text);
	return good;
}

static bool take_ack(struct sub_body *b, enum json_token token, struct slice span)
{
	if (b->n_acks == SUB_STREAMS_MAX)
		return false;
	b->ack = must_realloc(b->ack, (b->n_acks + 1) * sizeof(b->ack[0]));
	b->ack[b->n_acks++] = (struct sub_ack){ 0 };
	return take_object(b, span, ack_member) && b->ack[b->n_acks - 1].stream != NULL;
}

static bool webhook_member(struct sub_body *b, struct slice name, enum json_token token, struct slice span)
{
	return !json_string_is(name, "url") || take_string(token, span, &b->url);
}

static bool take_u64(enum json_token token, struct slice span, bool *ret_has, uint64_t *ret)
{
	*ret_has = token == JSON_NUMBER && json_u64(span, ret) == 0;
	return *ret_has;
}

static bool member(struct sub_body *b, struct slice name, enum json_token token, struct slice span)
{
	const struct { const char *name; char **to; } strings[] = {
		{ "type", &b->type }, { "pattern", &b->pattern }, { "wake_stream", &b->wake_stream },
		{ "description", &b->description }, { "worker", &b->worker }, { "wake_id", &b->wake_id },
	};
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		if (json_string_is(name, strings[i].name))
			return token == JSON_NULL || take_string(token, span, strings[i].to);
	if (json_string_is(name, "lease_ttl_ms"))
		return take_u64(token, span, &b->has_lease_ttl, &b->lease_ttl_ms);
	if (json_string_is(name, "generation"))
		return take_u64(token, span, &b->has_generation, &b->generation);
	if (json_string_is(name, "streams"))
		return take_array(b, span, take_stream);
	if (json_string_is(name, "acks"))
		return take_array(b, span, take_ack);
	if (json_string_is(name, "webhook"))
		return take_object(b, span, webhook_member);
	if (json_string_is(name, "done")) {
		b->done = token == JSON_TRUE;
		return token == JSON_TRUE || token == JSON_FALSE;
	}
	return true;
}

bool sub_body_parse(struct slice json, struct sub_body *ret, const char **ret_fault)
{
	*ret = (struct sub_body){ 0 };
	*ret_fault = "the body must be a JSON object";
	if (json.n == 0)
		return true;
	if (!json_is_valid(json))
		return false;
	*ret_fault = "a member of the body has another type than it must, or too many elements";
	return take_object(ret, json, member);
}

void sub_body_free(struct sub_body *b)
{
	for (size_t i = 0; i < b->n_streams; i++)
		free(b->stream[i]);
	for (size_t i = 0; i < b->n_acks; i++)
		free(b->ack[i].stream);
	free(b->stream);
	free(b->ack);
	free(b->type);
	free(b->pattern);
	free(b->url);
	free(b->wake_stream);
	free(b->description);
	free(b->worker);
	free(b->wake_id);
}

/* ------------------------------------------------------------------ answers */

void sub_answer_error(struct request *r, int status, const char *code, const char *message, const char *holder)
{
	struct buf *out = &r->answer.body;
	buf_reset(out, 4096);
	buf_printf(out, "{\"error\":{\"code\":\"%s\",\"message\":", code);
	json_put_string(out, slice_str(message));
	if (holder != NULL) {
		buf_put_str(out, ",\"current_holder\":");
		json_put_string(out, slice_str(holder));
	}
	buf_put_str(out, "}}\n");
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, status);
}

static void put_text(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, ",\"%s\":", name);
	json_put_string(out, slice_str(text));
}

void sub_put_streams(struct buf *out, const Sub__Subscription *s)
{
	buf_put_str(out, ",\"streams\":[");
	for (size_t i = 0; i < s->n_link; i++) {
		const Sub__Link *l = s->link[i];
		buf_put_str(out, i > 0 ? ",{\"path\":" : "{\"path\":");
		json_put_string(out, slice_str(l->path));
		buf_printf(out, ",\"link_type\":\"%s\",\"acked_offset\":\"%020" PRIu64 "\"", l->named ? "explicit" : "glob", l->acked);
		if (l->exists)
			buf_printf(out, ",\"tail_offset\":\"%020" PRIu64 "\",\"has_pending\":%s", l->tail,
				   l->tail > l->acked ? "true" : "false");
		buf_put_u8(out, '}');
	}
	buf_put_u8(out, ']');
}

void sub_put_json(struct buf *out, const char *id, const Sub__Subscription *s, const char *kid)
{
	bool hook = s->type == SUB__TYPE__WEBHOOK;
	buf_put_str(out, "{\"id\":");
	json_put_string(out, slice_str(id));
	put_text(out, "type", hook ? "webhook" : "pull-wake");
	if (s->pattern[0] != '\0')
		put_text(out, "pattern", s->pattern);
	if (hook) {
		buf_put_str(out, ",\"webhook\":{\"url\":");
		json_put_string(out, slice_str(s->webhook_url));
		buf_printf(out, ",\"signing\":{\"alg\":\"ed25519\",\"kid\":\"%s\"", kid);
		buf_put_str(out, ",\"jwks_url\":");
		struct buf url;
		buf_init(&url, TEXT_MAX);
		buf_printf(&url, "%s/__ds/jwks.json", s->base_url);
		json_put_string(out, buf_slice(&url));
		buf_done(&url);
		buf_put_str(out, "}}");
	} else {
		put_text(out, "wake_stream", s->wake_stream);
	}
	buf_printf(out, ",\"lease_ttl_ms\":%" PRIu64, s->lease_ttl_ms);
	if (s->description[0] != '\0')
		put_text(out, "description", s->description);
	sub_put_streams(out, s);
	buf_put_str(out, "}\n");
}
