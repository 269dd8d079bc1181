/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /admin/configs/NAME: every config that a topic may carry (common/topic_config.def), its value for this one, and where
 * that comes from. PATCH with an object of names and values changes some: null gives one its default again. All of them
 * are changed or none; storaged judges names and values. The answer is as GET's, after the change.
 */
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_config.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"
#include "worker-http/server.h"

/* ------------------------------------------------------------------ what a topic has */

static const char *type_name(enum topic_config_type type)
{
	switch (type) {
	case TOPIC_CONFIG_BOOLEAN:
		return "boolean";
	case TOPIC_CONFIG_STRING:
		return "string";
	case TOPIC_CONFIG_INT:
		return "int";
	case TOPIC_CONFIG_LONG:
		return "long";
	case TOPIC_CONFIG_DOUBLE:
		return "double";
	case TOPIC_CONFIG_LIST:
		return "list";
	}
	return "?";
}

/* NULL: it has none of its own. */
static const char *own_value(const Ipc__Topic *t, const struct topic_config *row)
{
	if (row == &topic_configs[TOPIC_CONFIG_PICO_SCHEMA])
		return t->schema_name[0] != '\0' ? t->schema_name : NULL;
	if (row == &topic_configs[TOPIC_CONFIG_PICO_SCHEMA_VALIDATE])
		return t->schema_validate ? "true" : NULL;
	for (size_t i = 0; i < t->n_config; i++)
		if (strcmp(t->config[i]->name, row->name) == 0)
			return t->config[i]->value;
	return NULL;
}

static void print_config(struct buf *out, const struct conf *conf, const Ipc__Topic *t, const struct topic_config *row)
{
	char def[TOPIC_CONFIG_DEFAULT_MAX];
	const char *own = own_value(t, row);
	topic_config_default(row, conf, def);
	bool of_node = row->node != TOPIC_CONFIG_NODE_NONE && strcmp(def, row->def) != 0;
	buf_printf(out, "{\"name\":\"%s\",\"value\":", row->name);
	admin_put_text(out, slice_str(own != NULL ? own : def));
	buf_printf(out, ",\"source\":\"%s\",\"default\":", own != NULL ? "topic" : of_node ? "node" : "default");
	json_put_string(out, slice_str(def));
	buf_printf(out, ",\"type\":\"%s\",\"acts\":%s,\"help\":", type_name(row->type), row->acts ? "true" : "false");
	json_put_string(out, slice_str(row->help));
	buf_put_u8(out, '}');
}

static void answer_configs(struct request *r, const Ipc__Topic *t)
{
	struct buf *out = &r->answer.body;
	buf_put_str(out, "{\"name\":");
	admin_put_text(out, slice_str(t->name));
	buf_put_str(out, ",\"configs\":[");
	for (size_t i = 0; i < TOPIC_CONFIG_N; i++) {
		buf_put_str(out, i > 0 ? "," : "");
		print_config(out, r->server->conf, t, &topic_configs[i]);
	}
	buf_put_str(out, "]}\n");
	admin_answer(r);
}

static void on_got(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	if (pico_is_good(arg, error))
		answer_configs(arg, ((const Ipc__GetAnswer *)m)->topic);
}

void admin_get_configs(struct request *r)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	char *name = admin_rest(r, ADMIN_CONFIGS);
	if (name == NULL)
		return;
	topic.name = name;
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, on_got);
	free(name);
}

/* ------------------------------------------------------------------ a change */

struct change {
	Ipc__ConfigEntry entry[TOPIC_CONFIG_N];
	Ipc__ConfigEntry *set[TOPIC_CONFIG_N];
	char *reset[TOPIC_CONFIG_N];
	size_t n_set, n_reset;
	char *text[2 * TOPIC_CONFIG_N];         /* owned: names and values */
	size_t n_text;
};

static void change_done(struct change *c)
{
	while (c->n_text > 0)
		free(c->text[--c->n_text]);
}

/* A value as text: a string's content, a number or a word as it stands. NULL: it cannot be one. */
static char *text_of(struct change *c, enum json_token token, struct slice span)
{
	struct buf text;
	bool is_string = token == JSON_KEY || token == JSON_STRING;
	buf_init(&text, TOPIC_CONFIG_VALUE_MAX + 1);
	bool good = is_string ? json_string(span, &text) == 0 : token == JSON_NUMBER || token == JSON_TRUE || token == JSON_FALSE;
	if (!is_string)
		buf_put_slice(&text, span);
	good = good && !text.failed && (buf_len(&text) == 0 || memchr(buf_head(&text), '\0', buf_len(&text)) == NULL);
	buf_put_u8(&text, '\0');
	char *copy = good && !text.failed ? must_strdup((char *)buf_head(&text)) : NULL;
	if (copy != NULL)
		c->text[c->n_text++] = copy;
	buf_done(&text);
	return copy;
}

/* NULL, or what is wrong with it. */
static const char *change_add(struct change *c, struct slice key, enum json_token token, struct slice value)
{
	if (c->n_set + c->n_reset == TOPIC_CONFIG_N)
		return "more configs than there are";
	char *name = text_of(c, JSON_KEY, key);
	if (name == NULL)
		return "a name is no config's";
	if (token == JSON_NULL) {
		c->reset[c->n_reset++] = name;
		return NULL;
	}
	Ipc__ConfigEntry *e = &c->entry[c->n_set];
	ipc__config_entry__init(e);
	e->name = name;
	e->value = text_of(c, token, value);
	if (e->value == NULL)
		return "a value is a string, a number, true, false, or null for the default; at most 4096 bytes";
	c->set[c->n_set++] = e;
	return NULL;
}

static const char *change_parse(struct change *c, struct slice body)
{
	struct json_scan j;
	const char *fault = NULL;
	enum json_token token;
	json_scan_init(&j, body);
	if (json_next(&j) != JSON_OBJECT)
		return "the body must be a JSON object of names and values";
	while (fault == NULL && (token = json_next(&j)) == JSON_KEY) {
		struct slice key = j.span;
		token = json_skip(&j);
		fault = token == JSON_ERROR ? j.error : change_add(c, key, token, j.span);
	}
	if (fault == NULL && json_next(&j) != JSON_END)
		fault = j.error != NULL ? j.error : "something stands behind the object";
	return fault != NULL ? fault : c->n_text == 0 ? "no config is named" : NULL;
}

static void on_updated(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	if (pico_is_good(arg, error))
		answer_configs(arg, ((const Ipc__UpdateAnswer *)m)->topic);
}

static void call_update(struct request *r, struct change *c, char *name)
{
	Ipc__UpdateRequest m = IPC__UPDATE_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = name;
	m.topic = &topic;
	m.config = c->set;
	m.n_config = c->n_set;
	m.config_delete = c->reset;
	m.n_config_delete = c->n_reset;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_UPDATE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_updated);
}

void admin_patch_configs(struct request *r)
{
	char *name = admin_rest(r, ADMIN_CONFIGS);
	if (name == NULL)
		return;
	struct change *c = must_calloc(1, sizeof(*c));
	const char *fault = change_parse(c, buf_slice(&r->body));
	if (fault != NULL)
		answer_bad_request(r, "%s", fault);
	else
		call_update(r, c, name);
	change_done(c);
	free(c);
	free(name);
}
