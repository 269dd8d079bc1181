/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of topics. A create is idempotent: an existing topic with the same settings is the
 * answer, one with other settings is a CONFLICT that names the first that differs. Whatever is refused changes
 * nothing.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/topic_name.h"
#include "storaged/meta/apply.h"

#define CONTENT_TYPE_MAX 1024

static bool has_text(const char *text)
{
	return text != NULL && text[0] != '\0';
}

/* The part of a content type that is compared: before ';', trimmed. */
static struct slice media_type(const char *content_type)
{
	size_t n = strcspn(content_type, ";");
	while (n > 0 && (content_type[n - 1] == ' ' || content_type[n - 1] == '\t'))
		n--;
	size_t skip = strspn(content_type, " \t");
	return skip >= n ? slice_of(content_type, 0) : slice_of(content_type + skip, n - skip);
}

bool state_media_type_equal(const char *a, const char *b)
{
	struct slice x = media_type(a), y = media_type(b);
	if (x.n != y.n)
		return false;
	for (size_t i = 0; i < x.n; i++)
		if (tolower(x.p[i]) != tolower(y.p[i]))
			return false;
	return true;
}

/* ---------------------------------------------------------------- what a create may ask for */

const char *apply_config_fault(Meta__Config *const *config, size_t n)
{
	if (n > STATE_CONFIG_MAX)
		return "more than 256 config entries";
	for (size_t i = 0; i < n; i++) {
		if (!has_text(config[i]->name))
			return "a config entry has no name";
		if (strlen(config[i]->name) > STATE_CONFIG_TEXT_MAX || strlen(config[i]->value) > STATE_CONFIG_TEXT_MAX)
			return "a config entry is longer than 4096 bytes";
		for (size_t k = 0; k < i; k++)
			if (strcmp(config[k]->name, config[i]->name) == 0)
				return "a config is named twice";
	}
	return NULL;
}

const char *apply_alias_fault(const char *alias)
{
	if (!has_text(alias) || topic_alias_is_legal(slice_str(alias)))
		return NULL;
	return "a Kafka name is 1 to 249 of A-Z a-z 0-9 . _ - and neither . nor .. nor one of Kafka's own";
}

static const char *settings_fault(const Meta__CreateTopic *c)
{
	if (c->topic_id.len != 16)
		return "a topic id has 16 bytes";
	if (!has_text(c->content_type))
		return "a content type is required";
	if (strlen(c->content_type) > CONTENT_TYPE_MAX)
		return "the content type is longer than 1024 bytes";
	if (c->partitions > STATE_PARTITIONS_MAX)
		return "a topic has at most 1024 partitions";
	if (c->n_owners != 0 && c->n_owners != (c->partitions == 0 ? 1 : c->partitions))
		return "owners names one node a partition";
	if (c->ttl_seconds != 0 && c->expires_at_ms != 0)
		return "a topic has a TTL or an expiry time, not both";
	if (c->expires_at_ms < 0)
		return "the expiry time lies before 1970";
	if (strlen(c->schema_name) > TOPIC_PATH_MAX)
		return "the schema name is longer than 512 bytes";
	return apply_config_fault(c->config, c->n_config);
}

static const char *create_fault(const struct state *s, const Meta__CreateTopic *c)
{
	struct slice path = slice_str(c->name);
	const char *fault = topic_path_fault(path);
	if (fault != NULL)
		return fault;
	if (topic_path_is_reserved(path) && !c->reserved_allowed)
		return "names below /_sys, /_schemas, /_streams, /_groups, /_kafka and /__ds are reserved";
	fault = c->has_kafka_topic ? apply_alias_fault(c->kafka_topic) : NULL;
	if (fault != NULL)
		return fault;
	for (size_t i = 0; i < c->n_owners; i++)
		if (state_node_find(s, c->owners[i]) == NULL)
			return "an owner is not a node of this cluster";
	return settings_fault(c);
}

/* ---------------------------------------------------------------- a create of what exists */

static bool config_equal(const struct state_topic *t, const Meta__CreateTopic *c)
{
	size_t found = 0;
	for (size_t i = 0; i < c->n_config; i++)
		for (uint16_t k = 0; k < t->n_config; k++)
			if (strcmp(t->config[k].name, c->config[i]->name) == 0 &&
			    strcmp(t->config[k].value, c->config[i]->value) == 0) {
				found++;
				break;
			}
	return found == c->n_config;
}

static bool owners_equal(const struct state_topic *t, const Meta__CreateTopic *c)
{
	for (size_t i = 0; i < c->n_owners; i++)
		if (i >= t->n_partitions || t->partition[i].owner != c->owners[i])
			return false;
	return true;
}

static const char *or_none(const char *text)
{
	return has_text(text) ? text : "none";
}

static bool text_equal(const char *a, const char *b)
{
	return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

/* The topic has another alias than the one asked for. */
static void compare_alias(const struct state *s, const struct state_topic *t, const char *alias, Meta__Result__One *one)
{
	const struct state_topic *holder = name_index_find(&s->by_alias, slice_str(alias));
	if (holder != NULL)
		apply_refuse(one, PICO_CONFLICT, "Kafka name %s belongs to %s", alias, holder->name);
	else if (t->kafka_topic == NULL)
		apply_refuse(one, PICO_CONFLICT, "%s exists without a Kafka name; PATCH /_streams%s", t->name, t->name);
	else
		apply_refuse(one, PICO_CONFLICT, "%s exists with Kafka name %s, not %s", t->name, t->kafka_topic,
			     or_none(alias));
}

/* What the request names beyond the settings every request has. */
static void compare_named(const struct state *s, const struct state_topic *t, const Meta__CreateTopic *c,
			  Meta__Result__One *one)
{
	if (c->has_kafka_topic && !text_equal(c->kafka_topic, t->kafka_topic))
		compare_alias(s, t, c->kafka_topic, one);
	else if (has_text(c->schema_name) && !text_equal(c->schema_name, t->schema_name))
		apply_refuse(one, PICO_CONFLICT, "%s exists with schema %s, not %s", t->name, or_none(t->schema_name),
			     c->schema_name);
	else if (c->schema_validate && !t->schema_validate)
		apply_refuse(one, PICO_CONFLICT, "%s exists without schema validation", t->name);
	else if (c->partitions != 0 && c->partitions != t->n_partitions)
		apply_refuse(one, PICO_CONFLICT, "%s exists with %" PRIu32 " partitions, not %" PRIu32, t->name,
			     t->n_partitions, c->partitions);
	else if (!config_equal(t, c))
		apply_refuse(one, PICO_CONFLICT, "%s exists with another config", t->name);
	else if (!owners_equal(t, c))
		apply_refuse(one, PICO_CONFLICT, "%s exists with other owners", t->name);
	else
		apply_fork_compare(t, c, one);
}

static void compare_existing(const struct state *s, const struct state_topic *t, const Meta__CreateTopic *c,
			     Meta__Result__One *one)
{
	apply_bytes(&one->topic_id, t->id, 16);
	if (t->soft_deleted)
		apply_refuse(one, PICO_CONFLICT, "%s was deleted; its name is free when the last fork of it is gone",
			     t->name);
	else if (!state_media_type_equal(t->content_type, c->content_type))
		apply_refuse(one, PICO_CONFLICT, "%s exists with content type %s", t->name, t->content_type);
	else if (t->ttl_seconds != c->ttl_seconds)
		apply_refuse(one, PICO_CONFLICT, "%s exists with TTL %" PRIu64 " s, not %" PRIu64 " s (0: none)",
			     t->name, t->ttl_seconds, c->ttl_seconds);
	else if (t->ttl_seconds == 0 && t->expires_at_ms != c->expires_at_ms)
		apply_refuse(one, PICO_CONFLICT, "%s exists with expiry %" PRId64 " ms, not %" PRId64 " ms (0: none)",
			     t->name, t->expires_at_ms, c->expires_at_ms);
	else if (t->created_closed != (bool)c->closed)
		apply_refuse(one, PICO_CONFLICT, "%s was created %s", t->name, t->created_closed ? "closed" : "open");
	else
		compare_named(s, t, c, one);
}

/* ---------------------------------------------------------------- a new topic */

/* The alias it gets: explicit, derived when legal and free, or none. False: refused. */
static bool choose_alias(const struct state *s, const Meta__CreateTopic *c, char ret_alias[TOPIC_ALIAS_MAX + 1],
			 Meta__Result__One *one)
{
	ret_alias[0] = '\0';
	if (!c->has_kafka_topic) {
		size_t n = topic_alias_derive(slice_str(c->name), ret_alias);
		if (n == 0 || name_index_find(&s->by_alias, slice_of(ret_alias, n)) != NULL)
			ret_alias[0] = '\0';
		return true;
	}
	if (!has_text(c->kafka_topic))
		return true;
	const struct state_topic *holder = name_index_find(&s->by_alias, slice_str(c->kafka_topic));
	if (holder != NULL) {
		apply_refuse(one, PICO_CONFLICT, "Kafka name %s belongs to %s", c->kafka_topic, holder->name);
		return false;
	}
	snprintf(ret_alias, TOPIC_ALIAS_MAX + 1, "%s", c->kafka_topic);
	return true;
}

/* The node with the lowest logs/slots, ties to the lowest id; extra counts logs given in this command. NULL: none
 * takes any. */
static struct state_node *place(struct state *s, const uint32_t *extra)
{
	struct state_node *best = NULL;
	uint64_t best_logs = 0;
	for (size_t i = 0; i < s->n_nodes; i++) {
		struct state_node *n = &s->node[i];
		const struct session_entry *e = state_session_find(s, n->e->node, n->e->session);
		uint64_t logs = n->n_logs + extra[i];
		if (n->e->slots == 0 || e == NULL || e->s.state != SESSION_ACTIVE)
			continue;
		if (best == NULL || logs * best->e->slots < best_logs * n->e->slots) {
			best = n;
			best_logs = logs;
		}
	}
	return best;
}

bool apply_choose_owners(struct state *s, const uint32_t *given, struct state_node *first,
			 Meta__PartitionEntity *partition, size_t n)
{
	uint32_t *extra = must_calloc(s->n_nodes, sizeof(*extra));
	bool found = true;
	for (size_t i = 0; i < n && found; i++) {
		struct state_node *owner;
		if (given != NULL)
			owner = state_node_find(s, given[i]);
		else if (i == 0 && first != NULL)
			owner = first;
		else
			owner = place(s, extra);
		found = owner != NULL;
		if (found) {
			partition[i].owner = owner->e->node;
			extra[owner - s->node]++;
		}
	}
	free(extra);
	return found;
}

static void fill_entity(struct state *s, const Meta__CreateTopic *c, char *alias, Meta__TopicEntity *e)
{
	e->topic_id = c->topic_id;
	e->name = c->name;
	e->content_type = c->content_type;
	e->kafka_topic = alias;
	e->closed = e->created_closed = c->closed;
	e->settings_version = 1;
	e->created_ms = s->clock_ms;
	e->ttl_seconds = c->ttl_seconds;
	e->expires_at_ms = c->expires_at_ms;
	e->schema_name = c->schema_name;
	e->schema_validate = c->schema_validate;
	e->n_config = c->n_config;
	e->config = c->config;
	e->initial = c->initial;
}

/* False: no node takes new logs. */
static bool fill_partitions(struct state *s, const struct sql_row *row, const Meta__CreateTopic *c, Meta__TopicEntity *e)
{
	struct state_node *first = c->initial ? state_node_find(s, row->node) : NULL;
	for (size_t i = 0; i < e->n_partitions; i++) {
		Meta__PartitionEntity *p = e->partitions[i];
		p->log_id = s->next_log_id + i;
		/* First records are still to come; the log closes behind them. */
		p->closed = c->closed && !(c->initial && i == 0);
	}
	return c->fork != NULL || apply_choose_owners(s, c->n_owners != 0 ? c->owners : NULL, first, e->partitions[0],
						      e->n_partitions);
}

static void created(struct state *s, const struct sql_row *row, const Meta__TopicEntity *e, Meta__Result__One *one)
{
	struct state_topic *t = state_topic_add(s, e, row->idx);
	must(state_fork_link(s, t));
	s->next_log_id += e->n_partitions;
	apply_bytes(&one->topic_id, e->topic_id.data, 16);
	one->created = true;
}

static void create(struct state *s, const struct sql_row *row, const Meta__CreateTopic *c, char *alias,
		   Meta__Result__One *one)
{
	const struct state_topic *source = c->fork != NULL ? apply_fork_source(s, row, c, one) : NULL;
	if (one->error != PICO_OK)
		return;
	size_t n = source != NULL ? source->n_partitions : c->partitions == 0 ? 1 : c->partitions;
	Meta__PartitionEntity *partition = must_calloc(n, sizeof(*partition));
	Meta__TopicEntity e = META__TOPIC_ENTITY__INIT;
	fill_entity(s, c, alias, &e);
	e.n_partitions = n;
	e.partitions = must_calloc(n, sizeof(*e.partitions));
	for (size_t i = 0; i < n; i++) {
		meta__partition_entity__init(&partition[i]);
		e.partitions[i] = &partition[i];
	}
	if (!fill_partitions(s, row, c, &e)) {
		apply_refuse(one, PICO_UNAVAILABLE, "no node takes new logs: every node has 0 slots or is down");
	} else {
		if (source != NULL)
			apply_fork_fill(source, c, &e);
		created(s, row, &e, one);
	}
	free(e.partitions);
	free(partition);
}

/* True: nothing is in its way, and alias is what it gets. False: refused, or it is there already. */
static bool may_create(const struct state *s, const Meta__CreateTopic *c, char ret_alias[TOPIC_ALIAS_MAX + 1],
		       Meta__Result__One *one)
{
	const char *fault = create_fault(s, c);
	if (fault != NULL) {
		apply_refuse(one, PICO_BAD_REQUEST, "%s", fault);
		return false;
	}
	const struct state_topic *old = name_index_find(&s->by_name, slice_str(c->name));
	if (old != NULL)
		compare_existing(s, old, c, one);
	else if (id_hash_find(&s->by_id, c->topic_id.data) != NULL)
		apply_refuse(one, PICO_CONFLICT, "the topic id is taken");
	else
		return choose_alias(s, c, ret_alias, one);
	return false;
}

void apply_create_topic(struct state *s, const struct sql_row *row, const Meta__Command *command,
			Meta__Result__One *one)
{
	char alias[TOPIC_ALIAS_MAX + 1];
	if (may_create(s, command->create_topic, alias, one))
		create(s, row, command->create_topic, alias, one);
}

void state_check_create(const struct state *s, const Meta__CreateTopic *c, bool *ret_exists, struct pico_error *ret_error)
{
	Meta__Result__One one = META__RESULT__ONE__INIT;
	char alias[TOPIC_ALIAS_MAX + 1];
	*ret_exists = !may_create(s, c, alias, &one);
	apply_checked(&one, ret_error);
}

/* ---------------------------------------------------------------- close, delete */

struct state_topic *apply_named_topic(const struct state *s, const ProtobufCBinaryData *id, Meta__Result__One *one)
{
	struct state_topic *t = id->len == 16 ? id_hash_find(&s->by_id, id->data) : NULL;
	if (t == NULL) {
		apply_refuse(one, PICO_NOT_FOUND, "no topic has that id");
		return NULL;
	}
	apply_bytes(&one->topic_id, t->id, 16);
	if (!t->soft_deleted)
		return t;
	apply_refuse(one, PICO_GONE, "%s was deleted; it is kept for its forks", t->name);
	return NULL;
}

static bool all_closed(const struct state_topic *t)
{
	for (uint32_t i = 0; i < t->n_partitions; i++)
		if (!t->partition[i].closed)
			return false;
	return true;
}

void apply_close_topic(struct state *s, const struct sql_row *row, const Meta__Command *command,
		       Meta__Result__One *one)
{
	const Meta__CloseTopic *c = command->close_topic;
	struct state_topic *t = apply_named_topic(s, &c->topic_id, one);
	if (t == NULL)
		return;
	if (c->begin) {
		state_topic_touch(s, t, row->idx);
		t->closing = !t->closed;
	} else if (c->partition >= t->n_partitions) {
		apply_refuse(one, PICO_BAD_REQUEST, "%s has %" PRIu32 " partitions", t->name, t->n_partitions);
	} else if (t->partition[c->partition].owner != row->node) {
		apply_refuse(one, PICO_NOT_OWNER, "node %" PRIu32 " owns partition %" PRIu32 " of %s",
			     t->partition[c->partition].owner, c->partition, t->name);
	} else if (!t->partition[c->partition].closed) {
		state_topic_touch(s, t, row->idx);
		t->partition[c->partition].closed = true;
		t->closed = t->closed || all_closed(t);
		t->closing = t->closing && !t->closed;
	}
}

void apply_delete_topic(struct state *s, const struct sql_row *row, const Meta__Command *command,
			Meta__Result__One *one)
{
	struct state_topic *t = apply_named_topic(s, &command->delete_topic->topic_id, one);
	if (t != NULL)
		state_topic_delete(s, t, row->idx);
}
