/* SPDX-License-Identifier: Apache-2.0
 *
 * UpdateTopic and GrowTopic: every field, every refusal, second copies, what the indexes say afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "t/unit/meta_fixture.h"

static const struct state_topic *named(const struct fixture *f, const char *path)
{
	const struct state_topic *t = state_topic_by_name(f->s, slice_str(path));
	assert_non_null(t);
	return t;
}

static const char *text(const char *s)
{
	return s == NULL ? "" : s;
}

/* "name=value name=value" */
static const char *config_text(const struct state_topic *t)
{
	static char out[512];
	size_t n = 0;
	out[0] = '\0';
	for (uint16_t i = 0; i < t->n_config; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s=%s", i > 0 ? " " : "", t->config[i].name,
				      t->config[i].value);
	return out;
}

/* ---------------------------------------------------------------- update */

struct update_case {
	const char *name;
	struct update_args u;
	uint32_t error;
	const char *word;               /* in the message */
	/* of /own afterwards */
	const char *alias, *schema, *config;
	bool validate, changed;
};

#define SAME "own", "s", "k=v retention.ms=1", true, false

/* Of /own: alias own, schema s, validated, k=v, retention.ms=1. /other has the alias other. */
static const struct update_case update_cases[] = {
	{ "nothing", { 0 }, PICO_OK, NULL, SAME },
	{ "alias moved", { .alias = "new" }, PICO_OK, NULL, "new", "s", "k=v retention.ms=1", true, true },
	{ "alias taken away", { .alias = "" }, PICO_OK, NULL, "", "s", "k=v retention.ms=1", true, true },
	{ "alias as it is", { .alias = "own" }, PICO_OK, NULL, SAME },
	{ "alias of another", { .alias = "other" }, PICO_CONFLICT, "belongs to /other", SAME },
	{ "alias illegal", { .alias = "a/b" }, PICO_BAD_REQUEST, "Kafka name", SAME },
	{ "alias Kafka's own", { .alias = "__consumer_offsets" }, PICO_BAD_REQUEST, "Kafka name", SAME },
	{ "schema", { .schema = "t" }, PICO_OK, NULL, "own", "t", "k=v retention.ms=1", true, true },
	{ "schema taken away", { .schema = "" }, PICO_OK, NULL, "own", "", "k=v retention.ms=1", false, true },
	{ "schema away, validate", { .schema = "", .validate = 1 }, PICO_OK, NULL, "own", "", "k=v retention.ms=1", false,
	  true },
	{ "schema as it is", { .schema = "s" }, PICO_OK, NULL, SAME },
	{ "validation off", { .validate = -1 }, PICO_OK, NULL, "own", "s", "k=v retention.ms=1", false, true },
	{ "validation as it is", { .validate = 1 }, PICO_OK, NULL, SAME },
	{ "config set", { .config = { "x", "y" } }, PICO_OK, NULL, "own", "s", "k=v retention.ms=1 x=y", true, true },
	{ "config another value", { .config = { "k", "w" } }, PICO_OK, NULL, "own", "s", "k=w retention.ms=1", true, true },
	{ "config as it is", { .config = { "k", "v", "retention.ms", "1" } }, PICO_OK, NULL, SAME },
	{ "config deleted", { .config_delete = "k" }, PICO_OK, NULL, "own", "s", "retention.ms=1", true, true },
	{ "config deleted, not there", { .config_delete = "z" }, PICO_OK, NULL, SAME },
	{ "config deleted and set", { .config = { "k", "w" }, .config_delete = "k" }, PICO_OK, NULL, "own", "s",
	  "k=w retention.ms=1", true, true },
	{ "config empty value", { .config = { "k", "" } }, PICO_OK, NULL, "own", "s", "k= retention.ms=1", true, true },
	{ "config without name", { .config = { "", "1" } }, PICO_BAD_REQUEST, "config", SAME },
	{ "config twice", { .config = { "k", "1", "k", "2" } }, PICO_BAD_REQUEST, "twice", SAME },
	{ "all at once", { .alias = "new", .schema = "t", .validate = -1, .config = { "k", "w" },
	  .config_delete = "retention.ms" }, PICO_OK, NULL, "new", "t", "k=w", false, true },
	{ "a fault changes nothing", { .alias = "other", .config = { "k", "w" } }, PICO_CONFLICT, "", SAME },
};

static void own_and_other(struct fixture *f)
{
	fixture_new(f);
	struct create_args own = { .name = "/own", .schema = "s", .validate = true, .config = { "k", "v" }, .id = 'O' };
	must(fixture_create(f, &own) == PICO_OK && fixture_create_name(f, "/other") == PICO_OK);
	struct update_args retention = { .config = { "retention.ms", "1" } };
	uint8_t id[16];
	memset(id, 'O', 16);
	must(fixture_update(f, id, &retention) == PICO_OK);
}

static void check_updated(const struct fixture *f, const struct update_case *k, uint64_t version, uint64_t idx)
{
	const struct state_topic *t = named(f, "/own");
	if (strcmp(text(t->kafka_topic), k->alias) != 0 || strcmp(text(t->schema_name), k->schema) != 0 ||
	    strcmp(config_text(t), k->config) != 0 || t->schema_validate != k->validate)
		fail_msg("%s: alias '%s', schema '%s', config '%s'", k->name, text(t->kafka_topic), text(t->schema_name),
			 config_text(t));
	if (t->settings_version != version + k->changed || t->changed_idx != (k->changed ? state_idx(f->s) : idx))
		fail_msg("%s: settings version %d", k->name, (int)t->settings_version);
	assert_ptr_equal(state_topic_by_alias(f->s, slice_str("own")), strcmp(k->alias, "own") == 0 ? t : NULL);
	if (k->alias[0] != '\0')
		assert_ptr_equal(state_topic_by_alias(f->s, slice_str(k->alias)), t);
	uint32_t partition;
	assert_ptr_equal(state_topic_by_log(f->s, t->partition[0].log_id, &partition), t);
	assert_ptr_equal(state_topic_by_id(f->s, t->id), t);
}

static void test_update(void **arg)
{
	for (size_t i = 0; i < sizeof(update_cases) / sizeof(update_cases[0]); i++) {
		const struct update_case *k = &update_cases[i];
		struct fixture f;
		uint8_t id[16];
		own_and_other(&f);
		const struct state_topic *t = named(&f, "/own");
		uint64_t version = t->settings_version, idx = t->changed_idx;
		assert_int_equal(version, 2);
		memcpy(id, t->id, 16);
		uint32_t error = fixture_update(&f, id, &k->u);
		if (error != k->error || (k->word != NULL && strstr(f.message, k->word) == NULL))
			fail_msg("%s: error %u, message '%s'", k->name, error, f.message);
		assert_memory_equal(f.topic_id, id, 16);
		check_updated(&f, k, version, idx);
		/* The same proposal again is skipped; the same wish again changes nothing. */
		f.proposal--;
		fixture_update(&f, id, &k->u);
		assert_int_equal(f.err, -EALREADY);
		t = named(&f, "/own");
		version = t->settings_version;
		idx = t->changed_idx;
		assert_int_equal(fixture_update(&f, id, &k->u), k->error);
		assert_int_equal(named(&f, "/own")->settings_version, version);
		assert_int_equal(named(&f, "/own")->changed_idx, idx);
		fixture_done(&f);
	}
}

/* An alias that went away is free for others, and back. */
static void test_alias_moves(void **arg)
{
	struct fixture f;
	uint8_t own[16], other[16], nobody[16] = { 1 };
	struct update_args none = { .alias = "" }, is_own = { .alias = "own" };
	own_and_other(&f);
	memcpy(own, named(&f, "/own")->id, 16);
	memcpy(other, named(&f, "/other")->id, 16);
	assert_int_equal(fixture_update(&f, nobody, &none), PICO_NOT_FOUND);
	assert_int_equal(fixture_update(&f, other, &is_own), PICO_CONFLICT);
	assert_int_equal(fixture_update(&f, own, &none), PICO_OK);
	assert_int_equal(fixture_update(&f, other, &is_own), PICO_OK);
	assert_string_equal(state_topic_by_alias(f.s, slice_str("own"))->name, "/other");
	assert_null(state_topic_by_alias(f.s, slice_str("other")));
	assert_int_equal(fixture_update(&f, own, &is_own), PICO_CONFLICT);
	assert_int_equal(fixture_delete(&f, other), PICO_OK);
	assert_int_equal(fixture_update(&f, own, &is_own), PICO_OK);
	/* In order of alias, which is not that of names. */
	struct create_args z = { .name = "/a", .has_kafka = true, .kafka = "z" };
	fixture_create(&f, &z);
	struct create_args hidden = { .name = "/b", .has_kafka = true, .kafka = "" };
	fixture_create(&f, &hidden);
	const struct state_topic *t = state_topic_next_alias(f.s, slice_of("", 0));
	assert_string_equal(t->name, "/own");
	t = state_topic_next_alias(f.s, slice_str(t->kafka_topic));
	assert_string_equal(t->name, "/a");
	assert_null(state_topic_next_alias(f.s, slice_str(t->kafka_topic)));
	fixture_done(&f);
}

/* A create that names what is there already says why it cannot have it. */
static void test_create_conflicts(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_create_name(&f, "/orders/eu");
	fixture_create_name(&f, "/orders.eu");
	assert_null(named(&f, "/orders.eu")->kafka_topic);
	struct create_args c = { .name = "/orders.eu", .has_kafka = true, .kafka = "orders.eu" };
	assert_int_equal(fixture_create(&f, &c), PICO_CONFLICT);
	assert_string_equal(f.message, "Kafka name orders.eu belongs to /orders/eu");
	struct update_args none = { .alias = "" };
	uint8_t id[16];
	memcpy(id, named(&f, "/orders/eu")->id, 16);
	fixture_update(&f, id, &none);
	assert_int_equal(fixture_create(&f, &c), PICO_CONFLICT);
	assert_string_equal(f.message, "/orders.eu exists without a Kafka name; PATCH /_streams/orders.eu");
	fixture_done(&f);
}

/* ---------------------------------------------------------------- grow */

static const struct grow_case {
	const char *name;
	uint32_t partitions;
	size_t n_owners;
	uint32_t owner[3];
	uint32_t error;
	const char *word;
	uint32_t after[6];              /* owners; 0 ends */
} grow_cases[] = {
	{ "by placement", 4, 0, { 0 }, PICO_OK, NULL, { 1, 2, 1, 2 } },
	{ "owners given", 4, 2, { 2, 2 }, PICO_OK, NULL, { 1, 2, 2, 2 } },
	{ "as many as there are", 2, 0, { 0 }, PICO_OK, NULL, { 1, 2 } },
	{ "as they are", 2, 1, { 2 }, PICO_OK, NULL, { 1, 2 } },
	{ "as they are not", 2, 1, { 1 }, PICO_CONFLICT, "other owners", { 1, 2 } },
	{ "fewer", 1, 0, { 0 }, PICO_BAD_REQUEST, "cannot have fewer", { 1, 2 } },
	{ "none", 0, 0, { 0 }, PICO_BAD_REQUEST, "cannot have fewer", { 1, 2 } },
	{ "too many", 1025, 0, { 0 }, PICO_BAD_REQUEST, "1024", { 1, 2 } },
	{ "an owner unknown", 3, 1, { 9 }, PICO_BAD_REQUEST, "owner 9", { 1, 2 } },
	{ "owners too few", 4, 1, { 1 }, PICO_BAD_REQUEST, "1 owners for 2", { 1, 2 } },
	{ "owners too many", 3, 2, { 1, 1 }, PICO_BAD_REQUEST, "2 owners for 1", { 1, 2 } },
};

static void check_grown(const struct fixture *f, const struct grow_case *k, uint64_t first_new_log)
{
	const struct state_topic *t = named(f, "/g");
	uint32_t n = 0, partition = 0;
	while (n < 6 && k->after[n] != 0)
		n++;
	if (t->n_partitions != n)
		fail_msg("%s: %u partitions", k->name, t->n_partitions);
	for (uint32_t i = 0; i < n; i++) {
		if (t->partition[i].owner != k->after[i])
			fail_msg("%s: partition %u on node %u", k->name, i, t->partition[i].owner);
		assert_ptr_equal(state_topic_by_log(f->s, t->partition[i].log_id, &partition), t);
		assert_int_equal(partition, i);
		if (i >= 2)
			assert_int_equal(t->partition[i].log_id, first_new_log + i - 2);
	}
	assert_int_equal(t->settings_version, n > 2 ? 2 : 1);
}

static void test_grow(void **arg)
{
	for (size_t i = 0; i < sizeof(grow_cases) / sizeof(grow_cases[0]); i++) {
		const struct grow_case *k = &grow_cases[i];
		struct fixture f;
		uint8_t id[16];
		fixture_new(&f);
		fixture_register(&f, 2, 'n');
		struct create_args c = { .name = "/g", .partitions = 2 };
		fixture_create(&f, &c);
		memcpy(id, named(&f, "/g")->id, 16);
		uint64_t first = named(&f, "/g")->partition[1].log_id + 2;
		fixture_create_name(&f, "/between");            /* takes a log id, and a place on node 1 */
		fixture_delete(&f, f.topic_id);
		uint32_t error = fixture_grow(&f, id, k->partitions, k->owner, k->n_owners);
		if (error != k->error || (k->word != NULL && strstr(f.message, k->word) == NULL))
			fail_msg("%s: error %u, message '%s'", k->name, error, f.message);
		check_grown(&f, k, first);
		assert_int_equal(fixture_grow(&f, id, k->partitions, k->owner, k->n_owners), k->error);
		check_grown(&f, k, first);
		assert_int_equal(fixture_create_name(&f, "/after"), PICO_OK);
		assert_int_equal(named(&f, "/after")->partition[0].log_id, first + named(&f, "/g")->n_partitions - 2);
		fixture_done(&f);
	}
}

static void test_grow_refused(void **arg)
{
	struct fixture f;
	uint8_t id[16], nobody[16] = { 1 };
	fixture_new(&f);
	struct create_args c = { .name = "/g", .partitions = 2 };
	fixture_create(&f, &c);
	memcpy(id, named(&f, "/g")->id, 16);
	assert_int_equal(fixture_grow(&f, nobody, 3, NULL, 0), PICO_NOT_FOUND);
	fixture_close(&f, id, 0, true);
	assert_int_equal(fixture_grow(&f, id, 3, NULL, 0), PICO_CLOSED);
	assert_int_equal(fixture_grow(&f, id, 2, NULL, 0), PICO_OK);
	fixture_close(&f, id, 0, false);
	fixture_close(&f, id, 1, false);
	assert_true(named(&f, "/g")->closed);
	assert_int_equal(fixture_grow(&f, id, 3, NULL, 0), PICO_CLOSED);
	assert_int_equal(named(&f, "/g")->n_partitions, 2);
	fixture_done(&f);
	/* Nobody takes any; nothing is counted. */
	fixture_new(&f);
	fixture_create_name(&f, "/g");
	memcpy(id, named(&f, "/g")->id, 16);
	uint64_t log_id = named(&f, "/g")->partition[0].log_id;
	fixture_register_slots(&f, 1, 'b', 0);
	f.session = 2;
	f.proposal = 1;
	assert_int_equal(fixture_grow(&f, id, 2, NULL, 0), PICO_UNAVAILABLE);
	assert_int_equal(named(&f, "/g")->n_partitions, 1);
	uint32_t owner = 1;
	assert_int_equal(fixture_grow(&f, id, 2, &owner, 1), PICO_OK);
	assert_int_equal(named(&f, "/g")->partition[1].log_id, log_id + 1);
	fixture_done(&f);
}

/* What is asked beforehand is what apply says. */
static void test_check(void **arg)
{
	struct fixture f;
	struct pico_error e;
	own_and_other(&f);
	const struct state_topic *t = named(&f, "/own");
	Meta__UpdateTopic u = META__UPDATE_TOPIC__INIT;
	Meta__GrowTopic g = META__GROW_TOPIC__INIT;
	u.topic_id = g.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)t->id, .len = 16 };
	u.set_kafka_topic = true;
	u.kafka_topic = (char *)"other";
	state_check_update(f.s, &u, &e);
	assert_int_equal(e.kind, PICO_CONFLICT);
	assert_string_equal(e.message, "Kafka name other belongs to /other");
	u.kafka_topic = (char *)"new";
	state_check_update(f.s, &u, &e);
	assert_int_equal(e.kind, PICO_OK);
	state_check_grow(f.s, &g, &e);
	assert_int_equal(e.kind, PICO_BAD_REQUEST);
	g.partitions = 2;
	state_check_grow(f.s, &g, &e);
	assert_int_equal(e.kind, PICO_OK);
	g.topic_id.len = 15;
	state_check_grow(f.s, &g, &e);
	assert_int_equal(e.kind, PICO_NOT_FOUND);
	assert_string_equal(named(&f, "/own")->kafka_topic, "own");
	assert_int_equal(named(&f, "/own")->n_partitions, 1);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_update), cmocka_unit_test(test_alias_moves),
		cmocka_unit_test(test_create_conflicts), cmocka_unit_test(test_grow),
		cmocka_unit_test(test_grow_refused), cmocka_unit_test(test_check),
	};
	return cmocka_run_group_tests_name("meta_settings", tests, NULL, NULL);
}
