/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. Numbers are judged as Kafka's brokers do: decimal, an optional sign, blanks around them
 * do not count, nothing behind.
 */
#include "common/topic_config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "common/buf.h"
#include "common/conf.h"

#define NODE(name) TOPIC_CONFIG_NODE_##name
#define EFFECT_ACTS true
#define EFFECT_STORED false

const struct topic_config topic_configs[TOPIC_CONFIG_N] = {
#define TOPIC_CONFIG(id, name, type, def, min, max, choices, node, effect, help)                   \
	{ name, TOPIC_CONFIG_##type, def, min, max, choices, NODE(node), EFFECT_##effect, help },
#include "common/topic_config.def"
#undef TOPIC_CONFIG
};

const struct topic_config *topic_config_find(const char *name)
{
	size_t low = 0, high = TOPIC_CONFIG_N;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int c = strcmp(topic_configs[middle].name, name);
		if (c == 0)
			return &topic_configs[middle];
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static struct slice trimmed(struct slice s)
{
	while (s.n > 0 && isspace(s.p[s.n - 1]))
		s.n--;
	for (; s.n > 0 && isspace(s.p[0]); s.n--)
		s.p++;
	return s;
}

static bool is_choice(const char *choices, struct slice word)
{
	if (choices[0] == '\0')
		return true;
	for (const char *p = choices; ; p++) {
		size_t n = strcspn(p, "|");
		if (slice_eq(word, slice_of(p, n)))
			return true;
		p += n;
		if (*p == '\0')
			return false;
	}
}

static bool list_is_good(const char *choices, struct slice list)
{
	while (list.n > 0) {
		const uint8_t *comma = memchr(list.p, ',', list.n);
		size_t n = comma != NULL ? (size_t)(comma - list.p) : list.n;
		if (!is_choice(choices, trimmed(slice_of(list.p, n))))
			return false;
		n += comma != NULL;
		list = slice_of(list.p + n, list.n - n);
	}
	return true;
}

static bool is_blank(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return *s == '\0';
}

static bool integer_is_good(const struct topic_config *row, const char *value)
{
	char *end;
	errno = 0;
	long long v = strtoll(value, &end, 10);
	return end != value && is_blank(end) && errno == 0 && v >= row->min && v <= row->max;
}

static bool double_is_good(const struct topic_config *row, const char *value)
{
	char *end;
	double v = strtod(value, &end);
	return end != value && is_blank(end) && isfinite(v) && v >= (double)row->min && v <= (double)row->max;
}

static bool value_is_good(const struct topic_config *row, const char *value)
{
	switch (row->type) {
	case TOPIC_CONFIG_BOOLEAN:
		return strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0;
	case TOPIC_CONFIG_STRING:
		return is_choice(row->choices, slice_str(value));
	case TOPIC_CONFIG_INT:
	case TOPIC_CONFIG_LONG:
		return integer_is_good(row, value);
	case TOPIC_CONFIG_DOUBLE:
		return double_is_good(row, value);
	case TOPIC_CONFIG_LIST:
		return list_is_good(row->choices, slice_str(value));
	}
	return false;
}

static void say_what_is_good(const struct topic_config *row, struct buf *fault)
{
	switch (row->type) {
	case TOPIC_CONFIG_BOOLEAN:
		buf_put_str(fault, "is true or false");
		break;
	case TOPIC_CONFIG_INT:
	case TOPIC_CONFIG_LONG:
	case TOPIC_CONFIG_DOUBLE:
		buf_printf(fault, "is a number from %" PRId64 " to %" PRId64, row->min, row->max);
		break;
	case TOPIC_CONFIG_STRING:
		buf_printf(fault, "is one of %s", row->choices);
		break;
	case TOPIC_CONFIG_LIST:
		buf_printf(fault, "has items of %s", row->choices);
		break;
	}
}

bool topic_config_check(const char *name, const char *value, struct buf *fault)
{
	const struct topic_config *row = topic_config_find(name);
	if (row == NULL) {
		buf_printf(fault, "no topic has a config %.64s", name);
	} else if (strlen(value) > TOPIC_CONFIG_VALUE_MAX) {
		buf_printf(fault, "%s has at most %d bytes", name, TOPIC_CONFIG_VALUE_MAX);
	} else if (!value_is_good(row, value)) {
		buf_printf(fault, "%s=%.32s: %s ", name, value, name);
		say_what_is_good(row, fault);
	} else if (row == &topic_configs[TOPIC_CONFIG_PICO_SCHEMA_VALIDATE] && strcasecmp(value, "true") == 0) {
		buf_printf(fault, "%s=true: this node has no schema registry to validate with", name);
	} else {
		return true;
	}
	buf_put_u8(fault, '\0');
	return false;
}

void topic_config_default(const struct topic_config *row, const struct conf *conf,
			  char ret_value[static TOPIC_CONFIG_DEFAULT_MAX])
{
	switch (row->node) {
	case TOPIC_CONFIG_NODE_NONE:
		snprintf(ret_value, TOPIC_CONFIG_DEFAULT_MAX, "%s", row->def);
		break;
	case TOPIC_CONFIG_NODE_RETENTION_MS:
		snprintf(ret_value, TOPIC_CONFIG_DEFAULT_MAX, "%" PRId64, conf->retention_ms);
		break;
	case TOPIC_CONFIG_NODE_RETENTION_BYTES:
		snprintf(ret_value, TOPIC_CONFIG_DEFAULT_MAX, "%" PRId64, conf->retention_bytes);
		break;
	case TOPIC_CONFIG_NODE_MAX_MESSAGE_SIZE:
		snprintf(ret_value, TOPIC_CONFIG_DEFAULT_MAX, "%" PRIu64, conf->max_message_size);
		break;
	}
}
