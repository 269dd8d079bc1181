/* SPDX-License-Identifier: Apache-2.0
 *
 * Update and grow: one proposal each, answered with the topic as it stands once that is applied. What apply would
 * refuse is refused before anything is proposed, and validate_only ends there. Configs are judged here and not by
 * apply: the table of configs may change from release to release, what old rows mean may not.
 */
#include <stdlib.h>
#include <strings.h>

#include "common/topic_config.h"
#include "storaged/handle.h"

/* ---------------------------------------------------------------------- config */

static bool is_config(const char *name, enum topic_config_id id)
{
	return strcmp(name, topic_configs[id].name) == 0;
}

static bool named_before(Ipc__ConfigEntry *const *entry, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(entry[k]->name, entry[i]->name) == 0)
			return true;
	return false;
}

static bool config_check(Ipc__ConfigEntry *const *entry, size_t n, struct pico_error *e)
{
	struct buf fault;
	bool good = n <= TOPIC_CONFIG_N;
	*e = (struct pico_error){ 0 };
	buf_init(&fault, 65536);
	if (!good)
		pico_error_set(e, PICO_BAD_REQUEST, "%zu configs; there are %d", n, TOPIC_CONFIG_N);
	for (size_t i = 0; i < n && good; i++) {
		good = topic_config_check(entry[i]->name, entry[i]->value, &fault);
		if (!good)
			pico_error_set(e, PICO_BAD_REQUEST, "%.190s", (char *)buf_head(&fault));
		else if (named_before(entry, i))
			pico_error_set(e, PICO_BAD_REQUEST, "config %s is named twice", entry[i]->name);
		good = e->kind == PICO_OK;
	}
	buf_done(&fault);
	return good;
}

bool config_take(Ipc__ConfigEntry *const *entry, size_t n, struct config_taken *ret, struct pico_error *ret_error)
{
	*ret = (struct config_taken){ 0 };
	if (!config_check(entry, n, ret_error))
		return false;
	ret->config = must_calloc(n + 1, sizeof(*ret->config));
	ret->pointer = must_calloc(n + 1, sizeof(*ret->pointer));
	for (size_t i = 0; i < n; i++) {
		if (is_config(entry[i]->name, TOPIC_CONFIG_PICO_SCHEMA)) {
			ret->schema = entry[i]->value;
		} else if (is_config(entry[i]->name, TOPIC_CONFIG_PICO_SCHEMA_VALIDATE)) {
			ret->has_validate = true;
			ret->validate = strcasecmp(entry[i]->value, "true") == 0;
		} else {
			Meta__Config *c = &ret->config[ret->n];
			meta__config__init(c);
			c->name = entry[i]->name;
			c->value = entry[i]->value;
			ret->pointer[ret->n++] = c;
		}
	}
	return true;
}

void config_taken_done(struct config_taken *t)
{
	free(t->config);
	free(t->pointer);
}

/* ---------------------------------------------------------------------- answers */

static void settings_answer(struct op *op)
{
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	if (t == NULL) {
		struct pico_error e;
		pico_error_set(&e, PICO_NOT_FOUND, "no such stream");
		op_fail(op, &e);
		return;
	}
	struct topic_message m;
	topic_message_fill(op->node, t, ALL_PARTITIONS, &m);
	Ipc__UpdateAnswer update = IPC__UPDATE_ANSWER__INIT;
	Ipc__GrowAnswer grow = IPC__GROW_ANSWER__INIT;
	update.topic = grow.topic = &m.m;
	op_answer(op, op->call->row->type == IPC_UPDATE ? &update.base : &grow.base);
	topic_message_free(&m);
}

static void on_settings_applied(void *arg, const Meta__Result__One *result)
{
	op_applied(arg, result, settings_answer);
}

/* e: what apply would say. */
static void settings_start(struct node *n, struct call *c, const uint8_t topic_id[16], Meta__Command *command,
			   bool validate_only, struct pico_error *e)
{
	struct op *op = op_new(n, c);
	memcpy(op->topic_id, topic_id, sizeof(op->topic_id));
	op->refs = 1;
	op_arm(op, op_deadline_unknown);
	if (e->kind == PICO_OK && !validate_only) {
		if (meta_propose(n->meta, command, on_settings_applied, op) == 0)
			return;
		pico_error_set(e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
	}
	if (e->kind != PICO_OK)
		op_fail(op, e);
	else
		settings_answer(op);
	op_unref(op);
}

/* ---------------------------------------------------------------------- update */

/* A deleted config has its default again; unknown names are refused as everywhere. */
static bool delete_check(const Ipc__UpdateRequest *r, Meta__UpdateTopic *u, struct pico_error *e)
{
	for (size_t i = 0; i < r->n_config_delete; i++) {
		if (topic_config_find(r->config_delete[i]) == NULL) {
			pico_error_set(e, PICO_BAD_REQUEST, "no topic has a config %.64s", r->config_delete[i]);
			return false;
		}
		u->set_schema |= is_config(r->config_delete[i], TOPIC_CONFIG_PICO_SCHEMA);
		u->set_schema_validate |= is_config(r->config_delete[i], TOPIC_CONFIG_PICO_SCHEMA_VALIDATE);
	}
	u->config_delete = r->config_delete;
	u->n_config_delete = r->n_config_delete;
	return true;
}

static void update_fill(const Ipc__UpdateRequest *r, const struct config_taken *config, Meta__UpdateTopic *u)
{
	u->set_kafka_topic = r->set_kafka_topic;
	u->kafka_topic = r->kafka_topic;
	if (r->set_schema || config->schema != NULL) {
		u->set_schema = true;
		u->schema_name = config->schema != NULL ? config->schema : r->schema_name;
	}
	if (r->set_schema_validate || config->has_validate) {
		u->set_schema_validate = true;
		u->schema_validate = config->has_validate ? config->validate : r->schema_validate;
	}
	u->config = config->pointer;
	u->n_config = config->n;
}

void handle_update(struct node *n, struct call *c)
{
	const Ipc__UpdateRequest *r = (const Ipc__UpdateRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->topic);
	if (t == NULL)
		return;
	Meta__Command command = META__COMMAND__INIT;
	Meta__UpdateTopic u = META__UPDATE_TOPIC__INIT;
	struct config_taken config;
	struct pico_error e;
	command.kind_case = META__COMMAND__KIND_UPDATE_TOPIC;
	command.update_topic = &u;
	u.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)t->id };
	if (config_take(r->config, r->n_config, &config, &e) && delete_check(r, &u, &e)) {
		update_fill(r, &config, &u);
		state_check_update(meta_state(n->meta), &u, &e);
	}
	settings_start(n, c, t->id, &command, r->validate_only, &e);
	config_taken_done(&config);
}

/* ---------------------------------------------------------------------- grow */

void handle_grow(struct node *n, struct call *c)
{
	const Ipc__GrowRequest *r = (const Ipc__GrowRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->topic);
	if (t == NULL)
		return;
	Meta__Command command = META__COMMAND__INIT;
	Meta__GrowTopic g = META__GROW_TOPIC__INIT;
	struct pico_error e;
	command.kind_case = META__COMMAND__KIND_GROW_TOPIC;
	command.grow_topic = &g;
	g.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)t->id };
	g.partitions = r->partitions;
	g.owners = r->owners;
	g.n_owners = r->n_owners;
	if (r->partitions > n->config.max_partitions && r->partitions > t->n_partitions)
		pico_error_set(&e, PICO_BAD_REQUEST, "%u partitions; at most %u are allowed", r->partitions,
			       n->config.max_partitions);
	else
		state_check_grow(meta_state(n->meta), &g, &e);
	settings_start(n, c, t->id, &command, r->validate_only, &e);
}
