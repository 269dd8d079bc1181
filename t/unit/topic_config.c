/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of topic configs: its own order and defaults, and values good and bad of every type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/buf.h"
#include "common/conf.h"
#include "common/topic_config.h"

static bool check(const char *name, const char *value, char ret_fault[300])
{
	struct buf fault;
	buf_init(&fault, 65536);
	bool good = topic_config_check(name, value, &fault);
	strncpy(ret_fault, good ? "" : (char *)buf_head(&fault), 299);
	ret_fault[299] = '\0';
	buf_done(&fault);
	return good;
}

/* Every row is found by its name, stands in order, and may have its own default. */
static void test_rows(void **state)
{
	char fault[300];
	for (size_t i = 0; i < TOPIC_CONFIG_N; i++) {
		const struct topic_config *row = &topic_configs[i];
		assert_ptr_equal(topic_config_find(row->name), row);
		if (i > 0 && strcmp(topic_configs[i - 1].name, row->name) >= 0)
			fail_msg("%s stands behind %s", row->name, topic_configs[i - 1].name);
		if ((row->choices[0] != '\0' || row->def[0] != '\0') && !check(row->name, row->def, fault))
			fail_msg("%s", fault);
		if (row->help[0] == '\0' || strlen(row->def) >= TOPIC_CONFIG_DEFAULT_MAX)
			fail_msg("%s: help or default", row->name);
	}
	assert_null(topic_config_find("retention"));
	assert_null(topic_config_find(""));
	assert_null(topic_config_find("zzz"));
	assert_null(topic_config_find("a"));
}

static const struct value_case {
	const char *name, *value;
	const char *fault;              /* NULL: good */
} value_cases[] = {
	{ "retention.ms", "-1", NULL }, { "retention.ms", "0", NULL }, { "retention.ms", " 5 ", NULL },
	{ "retention.ms", "+5", NULL }, { "retention.ms", "9223372036854775807", NULL },
	{ "retention.ms", "9223372036854775808", "retention.ms is a number from -1" },
	{ "retention.ms", "-2", "retention.ms=-2" }, { "retention.ms", "", "number" }, { "retention.ms", "5x", "number" },
	{ "retention.ms", "1.5", "number" }, { "retention.ms", "0x10", "number" }, { "retention.ms", " ", "number" },
	{ "max.message.bytes", "2147483647", NULL }, { "max.message.bytes", "2147483648", "from 0 to 2147483647" },
	{ "min.insync.replicas", "0", "from 1" },
	{ "cleanup.policy", "compact", NULL }, { "cleanup.policy", "compact,delete", NULL },
	{ "cleanup.policy", "delete, compact", NULL }, { "cleanup.policy", "", NULL },
	{ "cleanup.policy", "compress", "delete|compact" }, { "cleanup.policy", "compact,,delete", "delete|compact" },
	{ "message.timestamp.type", "LogAppendTime", NULL }, { "message.timestamp.type", "logappendtime", "one of CreateTime" },
	{ "message.timestamp.type", "", "one of" },
	{ "compression.type", "zstd", NULL }, { "compression.type", "lzma", "one of producer" },
	{ "preallocate", "TRUE", NULL }, { "preallocate", "yes", "true or false" },
	{ "min.cleanable.dirty.ratio", "0.25", NULL }, { "min.cleanable.dirty.ratio", "1.01", "from 0 to 1" },
	{ "min.cleanable.dirty.ratio", "nan", "number" },
	{ "pico.schema", "orders", NULL }, { "pico.schema", "", NULL },
	{ "pico.schema.validate", "false", NULL }, { "pico.schema.validate", "true", "no schema registry" },
	{ "pico.schema.validate", "True", "no schema registry" },
	{ "retention", "1", "no topic has a config retention" }, { "", "1", "no topic has a config" },
	{ "Retention.ms", "1", "no topic has a config Retention.ms" },
};

static void test_values(void **state)
{
	for (size_t i = 0; i < sizeof(value_cases) / sizeof(value_cases[0]); i++) {
		const struct value_case *c = &value_cases[i];
		char fault[300];
		bool good = check(c->name, c->value, fault);
		if (good != (c->fault == NULL) || (!good && strstr(fault, c->fault) == NULL))
			fail_msg("%s=%s: '%s'", c->name, c->value, good ? "accepted" : fault);
	}
	static char big[TOPIC_CONFIG_VALUE_MAX + 2];
	char fault[300];
	memset(big, 'a', TOPIC_CONFIG_VALUE_MAX);
	assert_true(check("pico.schema", big, fault));
	big[TOPIC_CONFIG_VALUE_MAX] = 'a';
	assert_false(check("pico.schema", big, fault));
	assert_non_null(strstr(fault, "4096"));
	assert_false(check(big, "1", fault));
}

static void test_defaults(void **state)
{
	static struct conf conf;
	char value[TOPIC_CONFIG_DEFAULT_MAX];
	conf.retention_ms = 5000;
	conf.retention_bytes = -1;
	conf.max_message_size = 16777216;
	topic_config_default(topic_config_find("retention.ms"), &conf, value);
	assert_string_equal(value, "5000");
	topic_config_default(topic_config_find("retention.bytes"), &conf, value);
	assert_string_equal(value, "-1");
	topic_config_default(topic_config_find("max.message.bytes"), &conf, value);
	assert_string_equal(value, "16777216");
	topic_config_default(topic_config_find("segment.bytes"), &conf, value);
	assert_string_equal(value, "1073741824");
	assert_int_equal(topic_config_find("segment.bytes")->type, 3);          /* INT in DescribeConfigs */
	assert_true(topic_config_find("message.timestamp.type")->acts);
	assert_false(topic_config_find("segment.bytes")->acts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows), cmocka_unit_test(test_values), cmocka_unit_test(test_defaults),
	};
	return cmocka_run_group_tests_name("topic_config", tests, NULL, NULL);
}
