/* SPDX-License-Identifier: Apache-2.0
 *
 * UpdateTopic and GrowTopic: what of a topic may change while it lives. Both say how it shall be, not what to do to
 * it, so a second copy finds it so already and changes nothing; whatever changes something raises the settings
 * version, by which workers know that what they remember is old.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/topic_name.h"
#include "storaged/meta/apply.h"

static const char *text(const char *s)
{
	return s == NULL ? "" : s;
}

/* ---------------------------------------------------------------- config */

struct merged {
	Meta__Config **entry;           /* owned array of borrowed entries */
	size_t n;
	bool changed;
};

static Meta__Config *config_named(Meta__Config *const *config, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(config[i]->name, name) == 0)
			return config[i];
	return NULL;
}

static bool is_deleted(const Meta__UpdateTopic *u, const char *name)
{
	for (size_t i = 0; i < u->n_config_delete; i++)
		if (strcmp(u->config_delete[i], name) == 0)
			return true;
	return false;
}

/* What x has, without what is deleted, with what is set: a name in both is set. */
static void config_merge(const struct topic_entity *x, const Meta__UpdateTopic *u, struct merged *m)
{
	*m = (struct merged){ .entry = must_calloc(x->e.n_config + u->n_config + 1, sizeof(*m->entry)) };
	for (size_t i = 0; i < x->e.n_config; i++) {
		Meta__Config *old = x->e.config[i], *set = config_named(u->config, u->n_config, old->name);
		if (set != NULL || !is_deleted(u, old->name))
			m->entry[m->n++] = set != NULL ? set : old;
		m->changed |= set != NULL ? strcmp(set->value, old->value) != 0 : is_deleted(u, old->name);
	}
	for (size_t i = 0; i < u->n_config; i++) {
		if (config_named(x->e.config, x->e.n_config, u->config[i]->name) != NULL)
			continue;
		m->entry[m->n++] = u->config[i];
		m->changed = true;
	}
}

/* ---------------------------------------------------------------- update */

static bool alias_is_free(const struct state *s, const struct state_topic *t, const Meta__UpdateTopic *u,
			  Meta__Result__One *one)
{
	const struct state_topic *holder = name_index_find(&s->by_alias, slice_str(u->kafka_topic));
	if (!u->set_kafka_topic || holder == NULL || holder == t)
		return true;
	apply_refuse(one, PICO_CONFLICT, "Kafka name %s belongs to %s", u->kafka_topic, holder->name);
	return false;
}

/* The topic, when the command may be done to it. */
static struct state_topic *check_update(const struct state *s, const Meta__UpdateTopic *u, Meta__Result__One *one)
{
	struct state_topic *t = apply_named_topic(s, &u->topic_id, one);
	if (t == NULL)
		return NULL;
	const char *fault = u->set_kafka_topic ? apply_alias_fault(u->kafka_topic) : NULL;
	if (fault == NULL)
		fault = apply_config_fault(u->config, u->n_config);
	if (fault == NULL && u->set_schema && strlen(u->schema_name) > TOPIC_PATH_MAX)
		fault = "the schema name is longer than 512 bytes";
	if (fault == NULL && t->n_config + u->n_config > STATE_CONFIG_MAX)
		fault = "more than 256 config entries";
	if (fault != NULL)
		apply_refuse(one, PICO_BAD_REQUEST, "%s", fault);
	return fault == NULL && alias_is_free(s, t, u, one) ? t : NULL;
}

/* Sets in e what is to change, of alias and schema. True when anything does. */
static bool set_fields(const struct state_topic *t, const Meta__UpdateTopic *u, Meta__TopicEntity *e)
{
	bool alias = u->set_kafka_topic && strcmp(u->kafka_topic, text(t->kafka_topic)) != 0;
	bool schema = u->set_schema && strcmp(u->schema_name, text(t->schema_name)) != 0;
	if (alias)
		e->kafka_topic = u->kafka_topic;
	if (schema)
		e->schema_name = u->schema_name;
	if (u->set_schema_validate)
		e->schema_validate = u->schema_validate;
	if ((u->set_schema || u->set_schema_validate) && e->schema_name[0] == '\0')
		e->schema_validate = false;     /* there is nothing to validate with */
	return alias || schema || (bool)e->schema_validate != t->schema_validate;
}

void apply_update_topic(struct state *s, const struct sql_row *row, const Meta__Command *command,
			Meta__Result__One *one)
{
	const Meta__UpdateTopic *u = command->update_topic;
	struct state_topic *t = check_update(s, u, one);
	struct topic_entity x;
	struct merged config;
	if (t == NULL)
		return;
	topic_entity_fill(&x, t);
	config_merge(&x, u, &config);
	Meta__TopicEntity e = x.e;
	e.config = config.entry;
	e.n_config = config.n;
	if (set_fields(t, u, &e) || config.changed) {
		e.settings_version++;
		state_topic_replace(s, t, &e, row->idx);
	}
	free(config.entry);
	topic_entity_done(&x);
}

/* ---------------------------------------------------------------- grow */

/* Asked for as many as there are: its owners must be those of the last ones, as in a second copy. */
static bool owners_are_so(const struct state_topic *t, const Meta__GrowTopic *g)
{
	if (g->n_owners >= t->n_partitions)
		return g->n_owners == 0;
	for (size_t i = 0; i < g->n_owners; i++)
		if (t->partition[t->n_partitions - g->n_owners + i].owner != g->owners[i])
			return false;
	return true;
}

static void check_owners(const struct state *s, const struct state_topic *t, const Meta__GrowTopic *g,
			 Meta__Result__One *one)
{
	size_t n = g->partitions - t->n_partitions;
	if (n == 0 && !owners_are_so(t, g))
		apply_refuse(one, PICO_CONFLICT, "%s has %" PRIu32 " partitions already, with other owners", t->name,
			     t->n_partitions);
	else if (n > 0 && g->n_owners != 0 && g->n_owners != n)
		apply_refuse(one, PICO_BAD_REQUEST, "%zu owners for %zu new partitions: name one each, or none",
			     g->n_owners, n);
	for (size_t i = 0; i < g->n_owners && one->error == PICO_OK; i++)
		if (state_node_find(s, g->owners[i]) == NULL)
			apply_refuse(one, PICO_BAD_REQUEST, "owner %" PRIu32 " is not a node of this cluster",
				     g->owners[i]);
}

static struct state_topic *check_grow(const struct state *s, const Meta__GrowTopic *g, Meta__Result__One *one)
{
	struct state_topic *t = apply_named_topic(s, &g->topic_id, one);
	if (t == NULL)
		return NULL;
	if (g->partitions < t->n_partitions)
		apply_refuse(one, PICO_BAD_REQUEST, "%s has %" PRIu32 " partitions; it cannot have fewer", t->name,
			     t->n_partitions);
	else if (g->partitions > STATE_PARTITIONS_MAX)
		apply_refuse(one, PICO_BAD_REQUEST, "a topic has at most %d partitions", STATE_PARTITIONS_MAX);
	else if (g->partitions > t->n_partitions && (t->closed || t->closing))
		apply_refuse(one, PICO_CLOSED, "%s is closed", t->name);
	else
		check_owners(s, t, g, one);
	return one->error == PICO_OK ? t : NULL;
}

static void grow(struct state *s, const struct sql_row *row, struct state_topic *t, const Meta__GrowTopic *g,
		 Meta__Result__One *one)
{
	size_t n = g->partitions - t->n_partitions;
	Meta__PartitionEntity *added = must_calloc(n, sizeof(*added));
	Meta__PartitionEntity **all = must_calloc(g->partitions, sizeof(*all));
	struct topic_entity x;
	topic_entity_fill(&x, t);
	memcpy(all, x.e.partitions, t->n_partitions * sizeof(*all));
	for (size_t i = 0; i < n; i++) {
		meta__partition_entity__init(&added[i]);
		added[i].log_id = s->next_log_id + i;
		all[t->n_partitions + i] = &added[i];
	}
	if (!apply_choose_owners(s, g->n_owners != 0 ? g->owners : NULL, NULL, added, n)) {
		apply_refuse(one, PICO_UNAVAILABLE, "no node takes new logs: every node has 0 slots or is down");
	} else {
		Meta__TopicEntity e = x.e;
		e.n_partitions = g->partitions;
		e.partitions = all;
		e.settings_version++;
		state_topic_replace(s, t, &e, row->idx);
		s->next_log_id += n;
	}
	topic_entity_done(&x);
	free(added);
	free(all);
}

void apply_grow_topic(struct state *s, const struct sql_row *row, const Meta__Command *command, Meta__Result__One *one)
{
	const Meta__GrowTopic *g = command->grow_topic;
	struct state_topic *t = check_grow(s, g, one);
	if (t != NULL && g->partitions > t->n_partitions)
		grow(s, row, t, g, one);
}

/* ---------------------------------------------------------------- asked beforehand */

void state_check_update(const struct state *s, const Meta__UpdateTopic *u, struct pico_error *ret_error)
{
	Meta__Result__One one = META__RESULT__ONE__INIT;
	check_update(s, u, &one);
	apply_checked(&one, ret_error);
}

void state_check_grow(const struct state *s, const Meta__GrowTopic *g, struct pico_error *ret_error)
{
	Meta__Result__One one = META__RESULT__ONE__INIT;
	check_grow(s, g, &one);
	apply_checked(&one, ret_error);
}
