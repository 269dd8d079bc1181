/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeConfigs, versions 0 to 4 (1: source and synonyms in place of is_default; 3: type and documentation; 4: compact):
 * of a topic every config it may carry, with where its value comes from; of this node the options that clients and tools
 * ask every broker for. A resource has an error of its own.
 */
#include "worker-kafka/api.h"

#include <inttypes.h>

#include "common/topic_config.h"
#include "common/topic_name.h"
#include "worker-kafka/ask_topics.h"

enum source { SOURCE_TOPIC = 1, SOURCE_NODE = 4, SOURCE_DEFAULT = 5 };

struct describe {
	struct kmsg_describe_configs_response *response;
};

static void fail(struct kmsg_describe_configs_response_resource *to, enum kafka_error error, const char *text)
{
	to->error_code = (int16_t)error;
	to->error_message = slice_str(text);
}

/* ------------------------------------------------------------------ one config */

/* What a config is, and its values from the topic's own down to the default; absent ones are NULL. */
struct value {
	const char *name;
	enum topic_config_type type;
	const char *help;
	const char *topic;
	const char *node_name, *node;   /* the node's option under Kafka's name for it */
	const char *def;
	bool read_only;
};

static bool add_synonym(struct kmsg_describe_configs_response_config *c, const char *name, const char *value,
			enum source source)
{
	if (value == NULL)
		return false;
	c->synonyms[c->n_synonyms].name = slice_str(name);
	c->synonyms[c->n_synonyms].value = slice_str(value);
	c->synonyms[c->n_synonyms++].source = (int8_t)source;
	return true;
}

static bool add_config(struct request *r, const struct value *v, struct kmsg_describe_configs_response_resource *to)
{
	const struct kmsg_describe_configs_request *q = r->message;
	struct kmsg_describe_configs_response_config *c = &to->configs[to->n_configs];
	c->synonyms = KMSG_NEW(&r->region, describe_configs_response_synonym, 3);
	if (c->synonyms == NULL)
		return false;
	to->n_configs++;
	add_synonym(c, v->name, v->topic, SOURCE_TOPIC);
	add_synonym(c, v->node_name, v->node, SOURCE_NODE);
	add_synonym(c, v->node_name != NULL ? v->node_name : v->name, v->def, SOURCE_DEFAULT);
	c->name = slice_str(v->name);
	c->value = c->synonyms[0].value;
	c->config_source = c->synonyms[0].source;
	c->is_default = c->config_source != SOURCE_TOPIC;
	c->config_type = (int8_t)v->type;
	c->read_only = v->read_only;
	c->documentation = q->include_documentation ? slice_str(v->help) : slice_of(NULL, 0);
	if (!q->include_synonyms)
		c->n_synonyms = 0;
	return true;
}

/* No keys are all keys. */
static bool is_asked_for(const struct kmsg_describe_configs_request_resource *of, const char *name)
{
	for (uint32_t i = 0; i < of->n_configuration_keys; i++)
		if (slice_eq(of->configuration_keys[i], slice_str(name)))
			return true;
	return of->n_configuration_keys == 0;
}

/* ------------------------------------------------------------------ of a topic */

/* What an option of the node is called there. */
static const char *const node_names[] = {
	[TOPIC_CONFIG_NODE_RETENTION_MS] = "log.retention.ms",
	[TOPIC_CONFIG_NODE_RETENTION_BYTES] = "log.retention.bytes",
	[TOPIC_CONFIG_NODE_MAX_MESSAGE_SIZE] = "message.max.bytes",
};

static const char *own_value(struct request *r, const Ipc__Topic *topic, const char *name)
{
	if (strcmp(name, topic_configs[TOPIC_CONFIG_PICO_SCHEMA].name) == 0)
		return topic->schema_name[0] != '\0' ? request_string(r, slice_str(topic->schema_name)) : NULL;
	if (strcmp(name, topic_configs[TOPIC_CONFIG_PICO_SCHEMA_VALIDATE].name) == 0)
		return topic->schema_validate ? "true" : NULL;
	for (size_t i = 0; i < topic->n_config; i++)
		if (strcmp(topic->config[i]->name, name) == 0)
			return request_string(r, slice_str(topic->config[i]->value));
	return NULL;
}

static bool add_topic_config(struct request *r, const Ipc__Topic *topic, const struct topic_config *row,
			     struct kmsg_describe_configs_response_resource *to)
{
	char def[TOPIC_CONFIG_DEFAULT_MAX];
	struct value v = { .name = row->name, .type = row->type, .help = row->help, .def = row->def };
	topic_config_default(row, r->server->conf, def);
	v.topic = own_value(r, topic, row->name);
	v.node_name = node_names[row->node];
	if (row->node != TOPIC_CONFIG_NODE_NONE && strcmp(def, row->def) != 0)
		v.node = request_string(r, slice_str(def));
	return add_config(r, &v, to);
}

static bool fill_topic(struct request *r, const Ipc__Topic *topic, const struct kmsg_describe_configs_request_resource *of,
		       struct kmsg_describe_configs_response_resource *to)
{
	to->configs = KMSG_NEW(&r->region, describe_configs_response_config, TOPIC_CONFIG_N);
	bool good = to->configs != NULL;
	for (size_t i = 0; i < TOPIC_CONFIG_N && good; i++)
		if (is_asked_for(of, topic_configs[i].name))
			good = add_topic_config(r, topic, &topic_configs[i], to);
	return good && !r->region.failed;
}

static void topic_name(struct request *r, size_t i, struct slice *ret_name, const uint8_t **ret_id)
{
	*ret_name = ((const struct kmsg_describe_configs_request *)r->message)->resources[i].resource_name;
}

static bool topic_take(struct request *r, size_t i, enum pico_error_kind kind, const Ipc__Topic *topic)
{
	const struct kmsg_describe_configs_request *q = r->message;
	struct kmsg_describe_configs_response_resource *to = &((const struct describe *)r->state)->response->results[i];
	if (topic != NULL)
		return fill_topic(r, topic, &q->resources[i], to);
	fail(to, error_of(r, kind, ERROR_OF_TOPICS), kind == PICO_NOT_FOUND ? "no such topic" : "try again");
	return true;
}

/* ------------------------------------------------------------------ of this node */

static const char *number(struct request *r, int64_t v)
{
	struct slice s = region_printf(&r->region, "%" PRId64, v);
	return s.p != NULL ? request_string(r, s) : NULL;
}

static bool fill_node(struct request *r, const struct kmsg_describe_configs_request_resource *of,
		      struct kmsg_describe_configs_response_resource *to)
{
	const struct conf *conf = r->server->conf;
	const struct value rows[] = {
		{ "auto.create.topics.enable", TOPIC_CONFIG_BOOLEAN, "Clients create topics by naming them",
		  .node = conf->auto_create_topics ? "true" : "false" },
		{ "broker.id", TOPIC_CONFIG_INT, "Id of this node", .node = number(r, (int64_t)conf->node_id) },
		{ "default.replication.factor", TOPIC_CONFIG_INT, "Always one: storage is the object store's", .def = "1" },
		{ "log.retention.bytes", TOPIC_CONFIG_LONG, "Bytes of a partition that are kept; -1: all",
		  .node = number(r, conf->retention_bytes) },
		{ "log.retention.ms", TOPIC_CONFIG_LONG, "How long records are kept; -1: for ever",
		  .node = number(r, conf->retention_ms) },
		{ "message.max.bytes", TOPIC_CONFIG_INT, "Largest batch",
		  .node = number(r, (int64_t)conf->max_message_size) },
		{ "num.partitions", TOPIC_CONFIG_INT, "Partitions of a topic that is created without a number",
		  .node = number(r, (int64_t)conf->num_partitions) },
	};
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	to->configs = KMSG_NEW(&r->region, describe_configs_response_config, n);
	bool good = to->configs != NULL && !r->region.failed;
	for (size_t i = 0; i < n && good; i++) {
		struct value v = rows[i];
		v.node_name = v.node != NULL ? v.name : NULL;
		v.read_only = true;
		if (is_asked_for(of, v.name))
			good = add_config(r, &v, to);
	}
	return good;
}

/* ------------------------------------------------------------------ begin */

static void describe_end(struct request *r)
{
	request_answer(r, ((const struct describe *)r->state)->response);
}

/* Whether this is left for ask_topics(); *ret_room: false when there was no room. */
static bool is_for_storaged(struct request *r, uint32_t i, bool *ret_room)
{
	const struct kmsg_describe_configs_request_resource *of =
		&((const struct kmsg_describe_configs_request *)r->message)->resources[i];
	struct kmsg_describe_configs_response_resource *to = &((const struct describe *)r->state)->response->results[i];
	to->error_message = slice_of(NULL, 0);
	to->resource_type = of->resource_type;
	to->resource_name = of->resource_name;
	if (of->resource_type == KAFKA_RESOURCE_TOPIC && topic_alias_is_legal(of->resource_name))
		return true;
	if (of->resource_type == KAFKA_RESOURCE_TOPIC)
		fail(to, KAFKA_INVALID_TOPIC_EXCEPTION, "a topic name is 1 to 249 of A-Z a-z 0-9 . _ -");
	else if (of->resource_type != KAFKA_RESOURCE_BROKER)
		fail(to, KAFKA_INVALID_REQUEST, "topics and brokers have configs");
	else if (slice_eq(of->resource_name, slice_str("")))
		return false;           /* what holds for every broker, which is nothing */
	else if (!resource_is_this_node(r, of->resource_name))
		fail(to, KAFKA_INVALID_REQUEST, "each broker is asked for its own configs");
	else
		*ret_room = fill_node(r, of, to);
	return false;
}

void describe_configs_handle(struct request *r)
{
	static const struct topics_question question = { topic_name, topic_take, describe_end };
	const struct kmsg_describe_configs_request *q = r->message;
	struct describe *d = r->state = REQUEST_NEW(r, struct describe, 1);
	size_t *asked = REQUEST_NEW(r, size_t, q->n_resources), n = 0;
	struct kmsg_describe_configs_response *m = KMSG_NEW(&r->region, describe_configs_response, 1);
	bool room = d != NULL && asked != NULL && m != NULL &&
		(m->results = KMSG_NEW(&r->region, describe_configs_response_resource, q->n_resources)) != NULL;
	if (room) {
		d->response = m;
		m->n_results = q->n_resources;
	}
	for (uint32_t i = 0; i < q->n_resources && room; i++)
		if (is_for_storaged(r, i, &room))
			asked[n++] = i;
	if (room)
		ask_topics(r, &question, asked, n);
	else
		request_close(r, "memory");
}
