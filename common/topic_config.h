/* SPDX-License-Identifier: Apache-2.0
 *
 * The configs of topics (topic_config.def): what a name means, whether a value is good, what stands when none is
 * set. Pure; who stores them asks here first, so that no topic carries a config nobody knows.
 */
#ifndef COMMON_TOPIC_CONFIG_H
#define COMMON_TOPIC_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct conf;

#define TOPIC_CONFIG_VALUE_MAX 4096     /* bytes of a value */
#define TOPIC_CONFIG_DEFAULT_MAX 64     /* of a default, with its end byte */

/* The numbers are those of DescribeConfigs (Kafka's ConfigType). */
enum topic_config_type {
	TOPIC_CONFIG_BOOLEAN = 1, TOPIC_CONFIG_STRING = 2, TOPIC_CONFIG_INT = 3, TOPIC_CONFIG_LONG = 5,
	TOPIC_CONFIG_DOUBLE = 6, TOPIC_CONFIG_LIST = 7,
};

/* The option of the node whose value is the default. */
enum topic_config_node {
	TOPIC_CONFIG_NODE_NONE, TOPIC_CONFIG_NODE_RETENTION_MS, TOPIC_CONFIG_NODE_RETENTION_BYTES,
	TOPIC_CONFIG_NODE_MAX_MESSAGE_SIZE,
};

enum topic_config_id {
#define TOPIC_CONFIG(id, name, type, def, min, max, choices, node, effect, help) TOPIC_CONFIG_##id,
#include "common/topic_config.def"
#undef TOPIC_CONFIG
	TOPIC_CONFIG_N
};

struct topic_config {
	const char *name;
	enum topic_config_type type;
	const char *def;                /* where the node has no say */
	int64_t min, max;               /* of numbers */
	const char *choices;            /* "a|b"; "": any */
	enum topic_config_node node;
	bool acts;                      /* false: stored and shown only */
	const char *help;
};

/* In order of name. */
extern const struct topic_config topic_configs[TOPIC_CONFIG_N];

/* NULL: no such config. */
const struct topic_config *topic_config_find(const char *name);

/* Whether a topic may carry this; else what is wrong, with the name in it and an end byte behind, is added to
 * fault. */
bool topic_config_check(const char *name, const char *value, struct buf *fault);

/* The value of a topic that has none of its own. */
void topic_config_default(const struct topic_config *row, const struct conf *conf,
			  char ret_value[static TOPIC_CONFIG_DEFAULT_MAX]);

#endif
