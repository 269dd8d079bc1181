/* SPDX-License-Identifier: Apache-2.0
 *
 * retention.ms and retention.bytes of a topic, with the node's options behind them. They act under cleanup.policy delete
 * alone: who asked for compaction wants the last record of each key for ever, so all are kept. What the node keeps for
 * itself below /_sys is never cut.
 */
#include "storaged/retention.h"

#include <stdlib.h>

#include "common/topic_config.h"
#include "storaged/proposals.h"

#define OWN_PREFIX "/_sys/"

/* NULL: the topic has none of its own. */
static const char *config_of(const struct state_topic *t, enum topic_config_id id)
{
	for (uint16_t i = 0; i < t->n_config; i++)
		if (strcmp(t->config[i].name, topic_configs[id].name) == 0)
			return t->config[i].value;
	return NULL;
}

static int64_t number_of(const struct state_topic *t, enum topic_config_id id, int64_t of_node)
{
	const char *value = config_of(t, id);
	return value != NULL ? strtoll(value, NULL, 10) : of_node;
}

/* false: all is kept. */
static bool rule_of(const struct node *n, const struct state_topic *t, struct engine_retention *ret)
{
	const char *policy = config_of(t, TOPIC_CONFIG_CLEANUP_POLICY);
	if (t->soft_deleted || strncmp(t->name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0 ||
	    (policy != NULL && strstr(policy, "delete") == NULL))
		return false;
	ret->ms = number_of(t, TOPIC_CONFIG_RETENTION_MS, n->config.retention_ms);
	ret->bytes = number_of(t, TOPIC_CONFIG_RETENTION_BYTES, n->config.retention_bytes);
	return ret->ms >= 0 || ret->bytes >= 0;
}

bool on_engine_retention(void *arg, uint64_t log_id, struct engine_retention *ret_rule)
{
	const struct node *n = arg;
	uint32_t partition;
	const struct state_topic *t = state_topic_by_log(meta_state(n->meta), log_id, &partition);
	if (t == NULL || t->partition[partition].owner != n->config.meta.node || !rule_of(n, t, ret_rule))
		return false;
	ret_rule->start = t->partition[partition].start;
	return true;
}

int64_t on_engine_retention_shortest(void *arg, bool *ret_by_size)
{
	const struct node *n = arg;
	*ret_by_size = n->retention.by_size;
	return n->retention.by_time ? n->retention.shortest_ms : -1;
}

void on_engine_trim(void *arg, const struct engine_trim *trims, size_t n_trims, engine_proposed_cb *done, void *done_arg)
{
	node_propose_trims(arg, trims, n_trims, done, done_arg);
}

/* The shortest time never rises again before the next start: it only says what need not be looked at. */
void node_retention_note(struct node *n, const struct state_topic *t)
{
	struct engine_retention rule;
	if (!rule_of(n, t, &rule))
		return;
	n->retention.by_size |= rule.bytes >= 0;
	if (rule.ms < 0 || (n->retention.by_time && n->retention.shortest_ms <= rule.ms))
		return;
	n->retention.by_time = true;
	n->retention.shortest_ms = rule.ms;
}

void node_retention_changed(struct node *n, const struct state_topic *t)
{
	node_retention_note(n, t);
	for (uint32_t i = 0; i < t->n_partitions; i++)
		if (t->partition[i].owner == n->config.meta.node)
			engine_retention_changed(n->engine, t->partition[i].log_id);
}
