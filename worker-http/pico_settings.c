/* SPDX-License-Identifier: Apache-2.0
 *
 * GET and PATCH /_streams/NAME: what of a stream may change while it lives. NAME is any spelling: a path when it begins
 * with '/', else a Kafka name if there is one, else the path without its '/'. So GET is also how a client finds the
 * path behind a spelling.
 *
 * A PATCH looks the stream up first and goes on with its id: what it changes is what it found. Alias and partitions are
 * two commands; the growth is judged before the alias is touched, so that a request that cannot be done does nothing.
 */
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/pico.h"
#include "worker-http/pico_retention.h"
#include "worker-http/pico_topic.h"
#include "worker-http/server.h"

#define PREFIX "/_streams/"

struct settings {
	bool set_alias, set_partitions, clear_schema, clear_validate;
	char alias[TOPIC_ALIAS_MAX + 1];        /* empty: taken away */
	uint32_t partitions;
	struct pico_retention retention;
	uint8_t topic_id[16];
};

/* ------------------------------------------------------------------ the answer */

static void put_text_or_null(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "\"%s\":", name);
	if (text[0] == '\0')
		buf_put_str(out, "null");
	else
		json_put_string(out, utf8_is_valid(slice_str(text)) ? slice_str(text) : slice_str("?"));
}

static void answer_settings(struct request *r, const Ipc__Topic *t)
{
	struct buf *out = &r->answer.body;
	answer_field(r, "Content-Type", "application/json");
	buf_put_u8(out, '{');
	put_text_or_null(out, "name", t->name);
	buf_put_u8(out, ',');
	put_text_or_null(out, "schema", t->schema_name);
	buf_printf(out, ",\"schemaValidate\":%s,", t->schema_validate ? "true" : "false");
	put_text_or_null(out, "kafkaTopic", t->kafka_topic);
	buf_printf(out, ",\"partitions\":%zu", t->n_partitions);
	pico_retention_settings(out, t);
	buf_put_str(out, "}\n");
	answer_send(r, 200);
}

/* ------------------------------------------------------------------ the name */

/* NULL when it is none (answered). Valid until the next call. */
static char *spelling(struct request *r)
{
	static char name[TOPIC_PATH_MAX + 1];
	const size_t n = sizeof(PREFIX) - 1;
	if (r->path.n <= n) {
		answer_bad_request(r, "name a stream: " PREFIX "NAME");
		return NULL;
	}
	struct slice rest = slice_of(r->path.p + n, r->path.n - n);
	/* With the '/' before it, where it has none of its own. */
	const char *fault = topic_path_fault(rest.p[0] == '/' ? rest : slice_of(rest.p - 1, rest.n + 1));
	if (fault != NULL) {
		answer_bad_request(r, "%s", fault);
		return NULL;
	}
	memcpy(name, rest.p, rest.n);
	name[rest.n] = '\0';
	return name;
}

static void call_get(struct request *r, topics_cb *cb)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = spelling(r);
	if (topic.name == NULL)
		return;
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

static void on_got(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind != PICO_OK)
		pico_answer_error(r, error);
	else
		answer_settings(r, ((const Ipc__GetAnswer *)m)->topic);
}

void pico_settings_get(struct request *r)
{
	call_get(r, on_got);
}

/* ------------------------------------------------------------------ what a PATCH asks for */

/* Each takes one value; false when it is refused (answered). */
typedef bool take_fn(struct request *r, struct settings *s, enum json_token token, struct slice value);

static bool take_kafka_topic(struct request *r, struct settings *s, enum json_token token, struct slice value)
{
	s->set_alias = true;
	s->alias[0] = '\0';
	if (token == JSON_NULL)
		return true;
	struct buf alias;
	buf_init(&alias, 4096);
	bool good = token == JSON_STRING && json_string(value, &alias) == 0 && topic_alias_is_legal(buf_slice(&alias));
	if (good) {
		memcpy(s->alias, buf_head(&alias), buf_len(&alias));
		s->alias[buf_len(&alias)] = '\0';
	} else {
		answer_bad_request(r, "kafkaTopic must be 1 to %d of A-Z a-z 0-9 . _ - and none of Kafka's own names, or null",
				 TOPIC_ALIAS_MAX);
	}
	buf_done(&alias);
	return good;
}

static bool take_partitions(struct request *r, struct settings *s, enum json_token token, struct slice value)
{
	uint64_t n = 0, most = r->server->conf->max_partitions;
	if (token != JSON_NUMBER || json_u64(value, &n) != 0 || n < 1 || n > most) {
		answer_bad_request(r, "partitions must be a whole number from 1 to %llu", (unsigned long long)most);
		return false;
	}
	s->set_partitions = true;
	s->partitions = (uint32_t)n;
	return true;
}

static bool take_schema(struct request *r, struct settings *s, enum json_token token, struct slice value)
{
	s->clear_schema = token == JSON_NULL;
	if (token == JSON_STRING)
		answer_not_supported(r, "schema");
	else if (token != JSON_NULL)
		answer_bad_request(r, "schema must be a string or null");
	return s->clear_schema;
}

static bool take_schema_validate(struct request *r, struct settings *s, enum json_token token, struct slice value)
{
	s->clear_validate = token == JSON_FALSE || token == JSON_NULL;
	if (token == JSON_TRUE)
		answer_not_supported(r, "schemaValidate");
	else if (!s->clear_validate)
		answer_bad_request(r, "schemaValidate must be true, false or null");
	return s->clear_validate;
}

static bool take_retention_ms(struct request *r, struct settings *s, enum json_token token, struct slice value)
{
	return pico_set_retention(r, &s->retention, PICO_RETENTION_MS, token, value);
}

static bool take_retention_bytes(struct request *r, struct settings *s, enum json_token token, struct slice value)
{
	return pico_set_retention(r, &s->retention, PICO_RETENTION_BYTES, token, value);
}

static const struct {
	const char *name;
	take_fn *take;
} fields[] = {
	{ "kafkaTopic", take_kafka_topic }, { "partitions", take_partitions }, { "schema", take_schema },
	{ "schemaValidate", take_schema_validate }, { "retentionMs", take_retention_ms },
	{ "retentionBytes", take_retention_bytes },
};

static bool take_field(struct request *r, struct settings *s, struct slice key, enum json_token token, struct slice value)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (json_string_is(key, fields[i].name))
			return fields[i].take(r, s, token, value);
	answer_bad_request(r, "%.*s is no setting; kafkaTopic, partitions, retentionMs, retentionBytes, schema, schemaValidate are",
			 (int)(key.n < 64 ? key.n : 64), (const char *)key.p);
	return false;
}

/* False when it is refused (answered). */
static bool take_settings(struct request *r, struct settings *s)
{
	struct json_scan j;
	enum json_token token, begin;
	json_scan_init(&j, buf_slice(&r->body));
	begin = json_next(&j);
	/* A first pass for the syntax: nothing is done of a document that turns out broken. */
	for (token = begin; token != JSON_END && token != JSON_ERROR; )
		token = json_next(&j);
	if (token == JSON_ERROR || begin != JSON_OBJECT) {
		answer_bad_request(r, "the body must be a JSON object%s%s", token == JSON_ERROR ? ": " : "",
				 token == JSON_ERROR ? j.error : "");
		return false;
	}
	json_scan_init(&j, buf_slice(&r->body));
	json_next(&j);
	while (json_next(&j) == JSON_KEY) {
		struct slice key = j.span;
		token = json_skip(&j);
		if (!take_field(r, s, key, token, j.span))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ PATCH */

static void call_grow(struct request *r, bool validate_only, topics_cb *cb)
{
	struct settings *s = r->state;
	Ipc__GrowRequest m = IPC__GROW_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.topic_id = (ProtobufCBinaryData){ .len = 16, .data = s->topic_id };
	m.topic = &topic;
	m.partitions = s->partitions;
	m.validate_only = validate_only;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROW, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

static void on_grown(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind != PICO_OK)
		pico_answer_error(r, error);
	else
		answer_settings(r, ((const Ipc__GrowAnswer *)m)->topic);
}

static void on_updated(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const struct settings *s = r->state;
	r->call = NULL;
	if (error->kind != PICO_OK)
		pico_answer_error(r, error);
	else if (s->set_partitions)
		call_grow(r, false, on_grown);
	else
		answer_settings(r, ((const Ipc__UpdateAnswer *)m)->topic);
}

static void call_update(struct request *r)
{
	struct settings *s = r->state;
	Ipc__UpdateRequest m = IPC__UPDATE_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.topic_id = (ProtobufCBinaryData){ .len = 16, .data = s->topic_id };
	m.topic = &topic;
	m.set_kafka_topic = s->set_alias;
	m.kafka_topic = s->alias;
	m.set_schema = s->clear_schema;
	m.set_schema_validate = s->clear_validate;
	pico_retention_update(&s->retention, &m);
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_UPDATE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_updated);
}

static void on_growth_judged(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
			     struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind != PICO_OK)
		pico_answer_error(r, error);
	else
		call_update(r);
}

static void on_found(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct settings *s = r->state;
	r->call = NULL;
	if (error->kind != PICO_OK) {
		pico_answer_error(r, error);
		return;
	}
	const Ipc__Topic *t = ((const Ipc__GetAnswer *)m)->topic;
	must(t->topic_id.len == sizeof(s->topic_id));
	memcpy(s->topic_id, t->topic_id.data, sizeof(s->topic_id));
	bool update = s->set_alias || s->clear_schema || s->clear_validate ||
		pico_sets_retention(&s->retention);
	if (topic_path_is_reserved(slice_str(t->name)))
		answer_error(r, 403, "permission_denied", "names of that kind are reserved", NULL);
	else if (update && s->set_partitions)
		call_grow(r, true, on_growth_judged);
	else if (update)
		call_update(r);
	else if (s->set_partitions)
		call_grow(r, false, on_grown);
	else
		answer_settings(r, t);
}

void pico_settings_patch(struct request *r)
{
	struct settings *s = must_calloc(1, sizeof(*s));
	r->state = s;
	r->state_free = free;
	if (take_settings(r, s))
		call_get(r, on_found);
}
