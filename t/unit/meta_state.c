/* SPDX-License-Identifier: Apache-2.0
 *
 * Apply: every command, every refusal, second copies, sessions that ended; the indexes against a plain list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state.h"
#include "t/unit/meta_fixture.h"

/* ---------------------------------------------------------------- cluster, nodes, sessions */

static void test_init_cluster(void **arg)
{
	struct fixture f;
	fixture_empty(&f);
	assert_null(state_cluster_uuid(f.s));
	assert_int_equal(fixture_init_cluster(&f, 7, 16), PICO_OK);
	assert_true(f.one.created);
	assert_int_equal(state_cluster_uuid(f.s)[0], 7);
	assert_int_equal(state_format(f.s), STATE_FORMAT);
	assert_int_equal(fixture_init_cluster(&f, 7, 16), PICO_OK);
	assert_false(f.one.created);
	assert_int_equal(fixture_init_cluster(&f, 8, 16), PICO_CONFLICT);
	assert_int_equal(state_cluster_uuid(f.s)[0], 7);
	fixture_done(&f);
	fixture_empty(&f);
	assert_int_equal(fixture_init_cluster(&f, 7, 15), PICO_BAD_REQUEST);
	assert_null(state_cluster_uuid(f.s));
	fixture_done(&f);
}

static void test_register(void **arg)
{
	struct fixture f;
	fixture_empty(&f);
	assert_int_equal(fixture_register(&f, 1, 'a'), PICO_BAD_REQUEST);       /* no cluster yet */
	assert_false(state_was_registered(f.s));
	fixture_init_cluster(&f, 7, 16);
	assert_int_equal(fixture_register(&f, 1, 'a'), PICO_OK);
	assert_true(f.one.created);
	assert_int_equal(f.one.session, 1);
	/* A second copy is answered from the state and changes nothing. */
	assert_int_equal(fixture_register(&f, 1, 'a'), PICO_OK);
	assert_false(f.one.created);
	assert_int_equal(f.one.session, 1);
	assert_null(state_session_next(f.s, 1, 1));
	/* The next process. */
	assert_int_equal(fixture_register(&f, 1, 'b'), PICO_OK);
	assert_int_equal(f.one.session, 2);
	const struct state_session *s = state_session_next(f.s, 1, 0);
	assert_int_equal(s->session, 1);
	assert_int_equal(s->state, SESSION_ENDED);
	assert_int_equal(s->recoverer, 1);
	s = state_session_next(f.s, 1, 1);
	assert_int_equal(s->session, 2);
	assert_int_equal(s->state, SESSION_ACTIVE);
	/* Another node's sessions count on their own. */
	assert_int_equal(fixture_register(&f, 3, 'c'), PICO_OK);
	assert_int_equal(f.one.session, 1);
	assert_int_equal(state_session_next(f.s, 1, 0)->session, 1);
	assert_null(state_session_next(f.s, 1, 2));
	assert_null(state_session_next(f.s, 2, 0));
	assert_int_equal(state_node(f.s, 3)->slots, 1);
	assert_null(state_node(f.s, 2));
	fixture_done(&f);
}

static void test_proposals(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	assert_int_equal(fixture_create_name(&f, "/a"), PICO_OK);
	uint64_t idx = state_idx(f.s), last;
	Meta__Result *results;
	assert_int_equal(state_last_proposal(f.s, 1, 1, &last, &results), 0);
	assert_int_equal(last, 1);
	assert_int_equal(results->n_one, 1);
	assert_true(results->one[0]->created);
	meta__result__free_unpacked(results, NULL);
	/* A second copy, and one with an older number, are skipped. */
	f.proposal = 1;
	fixture_create_name(&f, "/b");
	assert_int_equal(f.err, -EALREADY);
	assert_int_equal(state_idx(f.s), idx + 1);
	assert_null(state_topic_by_name(f.s, slice_str("/b")));
	/* Numbers only grow; gaps are no fault. */
	f.proposal = 9;
	assert_int_equal(fixture_create_name(&f, "/b"), PICO_OK);
	assert_int_equal(state_last_proposal(f.s, 1, 1, &last, &results), 0);
	assert_int_equal(last, 9);
	meta__result__free_unpacked(results, NULL);
	/* The session ended. */
	fixture_register(&f, 1, 'b');
	f.proposal = 10;
	fixture_create_name(&f, "/c");
	assert_int_equal(f.err, -EPERM);
	assert_null(state_topic_by_name(f.s, slice_str("/c")));
	assert_int_equal(state_last_proposal(f.s, 1, 1, &last, &results), -ENOENT);
	/* A session that never was. */
	f.session = 7;
	fixture_create_name(&f, "/c");
	assert_int_equal(f.err, -EPERM);
	/* The new one counts from 1. */
	f.session = 2;
	f.proposal = 1;
	assert_int_equal(fixture_create_name(&f, "/c"), PICO_OK);
	fixture_done(&f);
}

static void test_wrong_rows(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	/* A command that names another session than its row's; one of a session in a row of none; and the reverse. */
	Meta__Noop noop = META__NOOP__INIT;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_NOOP;
	c.noop = &noop;
	noop.node = 1;
	noop.session = 2;
	assert_int_equal(fixture_run(&f, &c), PICO_BAD_REQUEST);
	noop.node = 2;
	noop.session = 1;
	assert_int_equal(fixture_run(&f, &c), PICO_BAD_REQUEST);
	noop.node = 1;
	assert_int_equal(fixture_run(&f, &c), PICO_OK);
	assert_int_equal(fixture_run_as(&f, &c, 1, 0, 0), PICO_BAD_REQUEST);
	Meta__InitCluster init = META__INIT_CLUSTER__INIT;
	c.kind_case = META__COMMAND__KIND_INIT_CLUSTER;
	c.init_cluster = &init;
	assert_int_equal(fixture_run(&f, &c), PICO_BAD_REQUEST);
	/* A command of a newer release. */
	c.kind_case = META__COMMAND__KIND__NOT_SET;
	assert_int_equal(fixture_run(&f, &c), PICO_BAD_REQUEST);
	/* Rows that are none. */
	uint64_t idx = state_idx(f.s);
	struct sql_row row = { .idx = idx + 1, .node = 1, .session = 1, .proposal = 100 };
	Meta__Result *results;
	row.payload = slice_str("\xff\xff\xff");
	assert_int_equal(state_apply(f.s, &row, &results), -EBADMSG);
	row.payload = slice_str("");
	assert_int_equal(state_apply(f.s, &row, &results), -EBADMSG);
	assert_int_equal(state_idx(f.s), idx);
	fixture_done(&f);
}

static void test_clock(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	f.now_ms = 5000;
	fixture_create_name(&f, "/a");
	assert_int_equal(state_clock_ms(f.s), 5000);
	assert_int_equal(state_topic_by_name(f.s, slice_str("/a"))->created_ms, 5000);
	f.now_ms = 4000;
	fixture_create_name(&f, "/b");
	assert_int_equal(state_clock_ms(f.s), 5000);
	assert_int_equal(state_topic_by_name(f.s, slice_str("/b"))->created_ms, 5000);
	f.now_ms = 5000 + STATE_CLOCK_LEAP_MS;
	fixture_create_name(&f, "/c");
	assert_int_equal(state_clock_leap_ms(f.s), 0);
	int64_t leap = f.now_ms += STATE_CLOCK_LEAP_MS + 1;
	fixture_create_name(&f, "/d");
	assert_int_equal(state_clock_leap_ms(f.s), leap);
	f.now_ms += 1000;
	fixture_create_name(&f, "/e");
	assert_int_equal(state_clock_leap_ms(f.s), leap);
	fixture_done(&f);
}

static void test_session_recovered(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	assert_int_equal(fixture_recovered(&f, 1, 9, 0), PICO_NOT_FOUND);
	assert_int_equal(fixture_recovered(&f, 1, 1, 0), PICO_CONFLICT);        /* ACTIVE */
	fixture_register(&f, 1, 'b');
	fixture_register(&f, 1, 'c');
	fixture_register(&f, 2, 'd');
	f.session = 3;
	f.proposal = 1;
	f.now_ms = 77;
	assert_int_equal(fixture_recovered(&f, 1, 2, 5), PICO_CONFLICT);        /* session 1 comes first */
	struct commit_args first = { .has_wal = true, .wal = { 1, 1, 0, 4 } }, second = { .has_wal = true, .wal = { 1, 2, 0, 5 } };
	assert_int_equal(fixture_recovered(&f, 1, 1, 4), PICO_CONFLICT);        /* not packed to its cut */
	assert_int_equal(fixture_commit(&f, &first), PICO_OK);
	assert_int_equal(fixture_recovered(&f, 1, 1, 4), PICO_OK);
	assert_int_equal(fixture_recovered(&f, 1, 1, 4), PICO_OK);              /* redundant */
	assert_int_equal(fixture_recovered(&f, 1, 1, 5), PICO_CONFLICT);        /* another cut */
	assert_int_equal(fixture_commit(&f, &second), PICO_OK);
	assert_int_equal(fixture_recovered(&f, 1, 2, 5), PICO_OK);
	const struct state_session *s = state_session_next(f.s, 1, 1);
	assert_int_equal(s->state, SESSION_RECOVERED);
	assert_int_equal(s->cut, 5);
	assert_int_equal(s->recovered_ms, 77);
	fixture_register(&f, 1, 'e');
	f.node = 2;
	f.session = 1;
	f.proposal = 1;
	assert_int_equal(fixture_recovered(&f, 1, 3, 5), PICO_CONFLICT);        /* node 1 is the recoverer */
	fixture_done(&f);
}

static uint32_t allocate(struct fixture *f, uint32_t count, uint32_t node, uint64_t session)
{
	Meta__Command c = META__COMMAND__INIT;
	Meta__AllocateProducerIds m = META__ALLOCATE_PRODUCER_IDS__INIT;
	c.kind_case = META__COMMAND__KIND_ALLOCATE_PRODUCER_IDS;
	c.allocate_producer_ids = &m;
	m.count = count;
	m.node = node;
	m.session = session;
	return fixture_run(f, &c);
}

static void test_producer_ids(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	static const uint32_t counts[] = { 1000, 1, 1000000, 7 };
	uint64_t next = 0;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(allocate(&f, counts[i], 1, 1), PICO_OK);
		assert_int_equal(f.one.first_producer_id, next);
		next += counts[i];
		assert_int_equal(state_next_producer_id(f.s), next);
	}
	assert_int_equal(allocate(&f, 0, 1, 1), PICO_BAD_REQUEST);
	assert_int_equal(allocate(&f, 1000001, 1, 1), PICO_BAD_REQUEST);
	assert_int_equal(allocate(&f, 1, 1, 2), PICO_BAD_REQUEST);      /* another session's, another node's */
	assert_int_equal(allocate(&f, 1, 2, 1), PICO_BAD_REQUEST);
	assert_int_equal(state_next_producer_id(f.s), next);
	fixture_done(&f);
}

/* ---------------------------------------------------------------- create */

static const char long_path[] = "/0123456789012345678901234567890123456789012345678901234567890123456789"
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

struct create_case {
	const char *name;
	struct create_args c;
	uint32_t error;
	const char *word;               /* in the message */
	const char *alias;              /* of what was created; NULL: none */
};

static const struct create_case create_cases[] = {
	{ "derived alias", { .name = "/orders/eu" }, PICO_OK, NULL, "orders.eu" },
	{ "alias as the path", { .name = "/plain" }, PICO_OK, NULL, "plain" },
	{ "alias taken", { .name = "/taken.name" }, PICO_OK, NULL, NULL },
	{ "alias not legal", { .name = "/with%20percent" }, PICO_OK, NULL, NULL },
	{ "alias too long", { .name = long_path }, PICO_OK, NULL, NULL },
	{ "explicit alias", { .name = "/x", .has_kafka = true, .kafka = "y" }, PICO_OK, NULL, "y" },
	{ "explicit none", { .name = "/x", .has_kafka = true, .kafka = "" }, PICO_OK, NULL, NULL },
	{ "explicit taken", { .name = "/x", .has_kafka = true, .kafka = "taken.name" }, PICO_CONFLICT,
	  "belongs to /taken/name", NULL },
	{ "explicit illegal", { .name = "/x", .has_kafka = true, .kafka = "a b" }, PICO_BAD_REQUEST, "Kafka name", NULL },
	{ "explicit ..", { .name = "/x", .has_kafka = true, .kafka = ".." }, PICO_BAD_REQUEST, "Kafka name", NULL },
	{ "no slash", { .name = "x" }, PICO_BAD_REQUEST, "", NULL },
	{ "empty", { .name = "" }, PICO_BAD_REQUEST, "", NULL },
	{ "root", { .name = "/" }, PICO_BAD_REQUEST, "", NULL },
	{ "space", { .name = "/a b" }, PICO_BAD_REQUEST, "", NULL },
	{ "dot dot", { .name = "/a/../b" }, PICO_BAD_REQUEST, "", NULL },
	{ "reserved", { .name = "/_sys/groups/00" }, PICO_BAD_REQUEST, "reserved", NULL },
	{ "reserved for us", { .name = "/_kafka/_schemas", .reserved = true }, PICO_OK, NULL, NULL },
	{ "no content type", { .name = "/x", .type = "" }, PICO_BAD_REQUEST, "content type", NULL },
	{ "short id", { .name = "/x", .id_len = 15 }, PICO_BAD_REQUEST, "16 bytes", NULL },
	{ "1024 partitions", { .name = "/x", .partitions = 1024 }, PICO_OK, NULL, "x" },
	{ "1025 partitions", { .name = "/x", .partitions = 1025 }, PICO_BAD_REQUEST, "1024", NULL },
	{ "owner unknown", { .name = "/x", .n_owners = 1, .owner = { 9 } }, PICO_BAD_REQUEST, "owner", NULL },
	{ "owners too few", { .name = "/x", .partitions = 2, .n_owners = 1, .owner = { 1 } }, PICO_BAD_REQUEST,
	  "owners", NULL },
	{ "owners too many", { .name = "/x", .n_owners = 2, .owner = { 1, 1 } }, PICO_BAD_REQUEST, "owners", NULL },
	{ "owner given", { .name = "/x", .n_owners = 1, .owner = { 1 } }, PICO_OK, NULL, "x" },
	{ "ttl and expiry", { .name = "/x", .ttl = 1, .expires = 1 }, PICO_BAD_REQUEST, "not both", NULL },
	{ "expiry before 1970", { .name = "/x", .expires = -1 }, PICO_BAD_REQUEST, "1970", NULL },
	{ "config without name", { .name = "/x", .config = { "", "1" } }, PICO_BAD_REQUEST, "config", NULL },
	{ "config", { .name = "/x", .config = { "retention.ms", "1" } }, PICO_OK, NULL, "x" },
	{ "id taken", { .name = "/x", .id = 'T' }, PICO_CONFLICT, "topic id", NULL },
	/* Of what exists: /taken/name, text/plain; charset=utf-8, TTL 60, closed, one partition. */
	{ "same", { .name = "/taken/name", .type = " Text/PLAIN ;charset=latin1", .ttl = 60, .closed = true }, PICO_OK,
	  NULL, "taken.name" },
	{ "same, all named", { .name = "/taken/name", .ttl = 60, .closed = true, .partitions = 1, .schema = "s",
	  .validate = true, .has_kafka = true, .kafka = "taken.name", .config = { "k", "v" }, .n_owners = 1,
	  .owner = { 1 } }, PICO_OK, NULL, "taken.name" },
	{ "type", { .name = "/taken/name", .type = "text/plainer", .ttl = 60, .closed = true }, PICO_CONFLICT,
	  "content type text/plain; charset=utf-8", NULL },
	{ "ttl", { .name = "/taken/name", .ttl = 61, .closed = true }, PICO_CONFLICT, "TTL 60", NULL },
	{ "no ttl", { .name = "/taken/name", .closed = true }, PICO_CONFLICT, "TTL 60", NULL },
	{ "expiry", { .name = "/taken/name", .expires = 5, .closed = true }, PICO_CONFLICT, "TTL 60", NULL },
	{ "closed", { .name = "/taken/name", .ttl = 60 }, PICO_CONFLICT, "created closed", NULL },
	{ "alias", { .name = "/taken/name", .ttl = 60, .closed = true, .has_kafka = true, .kafka = "z" },
	  PICO_CONFLICT, "Kafka name taken.name, not z", NULL },
	{ "no alias", { .name = "/taken/name", .ttl = 60, .closed = true, .has_kafka = true, .kafka = "" },
	  PICO_CONFLICT, "not none", NULL },
	{ "schema", { .name = "/taken/name", .ttl = 60, .closed = true, .schema = "t" }, PICO_CONFLICT,
	  "schema s, not t", NULL },
	{ "partitions", { .name = "/taken/name", .ttl = 60, .closed = true, .partitions = 2 }, PICO_CONFLICT,
	  "1 partitions, not 2", NULL },
	{ "config", { .name = "/taken/name", .ttl = 60, .closed = true, .config = { "k", "w" } }, PICO_CONFLICT,
	  "config", NULL },
	{ "owners", { .name = "/taken/name", .ttl = 60, .closed = true, .n_owners = 1, .owner = { 2 } },
	  PICO_CONFLICT, "owners", NULL },
};

static void test_create(void **arg)
{
	for (size_t i = 0; i < sizeof(create_cases) / sizeof(create_cases[0]); i++) {
		const struct create_case *k = &create_cases[i];
		struct fixture f;
		fixture_new(&f);
		fixture_taken(&f);
		size_t topics = state_n_topics(f.s);
		uint32_t error = fixture_create(&f, &k->c);
		if (error != k->error || (k->word != NULL && strstr(f.message, k->word) == NULL))
			fail_msg("%s: error %u, message '%s'", k->name, error, f.message);
		const struct state_topic *t = state_topic_by_name(f.s, slice_str(k->c.name));
		if (k->error != PICO_OK) {
			assert_int_equal(state_n_topics(f.s), topics);
			if (t != NULL)
				assert_memory_equal(f.topic_id, t->id, 16);
		} else {
			assert_non_null(t);
			assert_memory_equal(f.topic_id, t->id, 16);
			assert_int_equal(f.one.created, state_n_topics(f.s) == topics + 1);
			if (k->alias == NULL ? t->kafka_topic != NULL :
			    t->kafka_topic == NULL || strcmp(t->kafka_topic, k->alias) != 0)
				fail_msg("%s: alias %s", k->name, t->kafka_topic);
			if (k->alias != NULL)
				assert_ptr_equal(state_topic_by_alias(f.s, slice_str(k->alias)), t);
		}
		fixture_done(&f);
	}
}

static void test_create_settings(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	struct create_args c = {
		.name = "/n", .type = "a/b", .partitions = 3, .ttl = 9, .schema = "/s", .validate = true, .initial = true,
		.closed = true, .config = { "k", "v" }, .has_kafka = true, .kafka = "q",
	};
	f.now_ms = 1234;
	assert_int_equal(fixture_create(&f, &c), PICO_OK);
	const struct state_topic *t = state_topic_by_alias(f.s, slice_str("q"));
	assert_string_equal(t->name, "/n");
	assert_string_equal(t->content_type, "a/b");
	assert_string_equal(t->schema_name, "/s");
	assert_int_equal(t->ttl_seconds, 9);
	assert_int_equal(t->created_ms, 1234);
	assert_int_equal(t->settings_version, 1);
	assert_true(t->schema_validate && t->closed && t->created_closed && t->initial && !t->closing);
	assert_int_equal(t->n_config, 1);
	assert_string_equal(t->config[0].name, "k");
	assert_string_equal(t->config[0].value, "v");
	assert_int_equal(t->changed_idx, state_idx(f.s));
	/* First records are to come into partition 0: its log is not closed yet. */
	assert_int_equal(t->n_partitions, 3);
	assert_false(t->partition[0].closed);
	assert_true(t->partition[1].closed && t->partition[2].closed);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t partition = 99;
		assert_int_equal(t->partition[i].log_id, t->partition[0].log_id + i);
		assert_ptr_equal(state_topic_by_log(f.s, t->partition[i].log_id, &partition), t);
		assert_int_equal(partition, i);
	}
	uint64_t next = t->partition[2].log_id + 1;
	assert_int_equal(fixture_create_name(&f, "/m"), PICO_OK);
	assert_int_equal(state_topic_by_name(f.s, slice_str("/m"))->partition[0].log_id, next);
	assert_false(state_topic_by_name(f.s, slice_str("/m"))->partition[0].closed);
	fixture_done(&f);
}

static void test_find_spellings(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	struct create_args other = { .name = "/orders.us", .has_kafka = true, .kafka = "" };
	fixture_create_name(&f, "/orders/eu");
	fixture_create(&f, &other);
	const struct state_topic *eu = state_topic_by_name(f.s, slice_str("/orders/eu"));
	assert_ptr_equal(state_topic_find(f.s, slice_str("/orders/eu")), eu);
	assert_ptr_equal(state_topic_find(f.s, slice_str("orders/eu")), eu);
	assert_ptr_equal(state_topic_find(f.s, slice_str("orders.eu")), eu);
	assert_null(state_topic_find(f.s, slice_str("/orders.eu")));
	assert_ptr_equal(state_topic_find(f.s, slice_str("orders.us")), state_topic_by_name(f.s, slice_str("/orders.us")));
	assert_null(state_topic_find(f.s, slice_str("")));
	char big[600];
	memset(big, 'a', sizeof(big));
	assert_null(state_topic_find(f.s, slice_of(big, sizeof(big))));
	assert_null(state_topic_find(f.s, slice_of(big, 512)));
	fixture_done(&f);
}

static void test_placement(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_register_slots(&f, 2, 'd', 2);
	fixture_register_slots(&f, 3, 'e', 0);
	struct create_args c = { .name = "/p", .partitions = 6 };
	assert_int_equal(fixture_create(&f, &c), PICO_OK);
	const struct state_topic *t = state_topic_by_name(f.s, slice_str("/p"));
	static const uint32_t expected[] = { 1, 2, 2, 1, 2, 2 };        /* logs/slots; ties to the lowest id */
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(t->partition[i].owner, expected[i]);
	/* Deleting counts back: all to node 1 and gone again, and node 1 is the emptiest. */
	fixture_delete(&f, t->id);
	struct create_args heavy = { .name = "/heavy", .partitions = 4, .n_owners = 4, .owner = { 1, 1, 1, 1 } };
	fixture_create(&f, &heavy);
	fixture_delete(&f, f.topic_id);
	struct create_args first = { .name = "/q" };
	fixture_create(&f, &first);
	assert_int_equal(state_topic_by_name(f.s, slice_str("/q"))->partition[0].owner, 1);
	struct create_args second = { .name = "/r" };
	fixture_create(&f, &second);
	assert_int_equal(state_topic_by_name(f.s, slice_str("/r"))->partition[0].owner, 2);
	/* First records: the proposer has them. */
	struct create_args initial = { .name = "/s", .initial = true };
	fixture_create(&f, &initial);
	assert_int_equal(state_topic_by_name(f.s, slice_str("/s"))->partition[0].owner, 1);
	fixture_done(&f);
	/* Nobody takes any. */
	fixture_empty(&f);
	fixture_init_cluster(&f, 7, 16);
	fixture_register_slots(&f, 1, 'a', 0);
	f.session = 1;
	assert_int_equal(fixture_create_name(&f, "/p"), PICO_UNAVAILABLE);
	assert_int_equal(state_n_topics(f.s), 0);
	fixture_done(&f);
}

/* ---------------------------------------------------------------- close, delete */

static void test_close(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_register(&f, 2, 'd');
	uint8_t nobody[16] = { 1 };
	assert_int_equal(fixture_close(&f, nobody, 0, false), PICO_NOT_FOUND);
	struct create_args c = { .name = "/t", .partitions = 2, .n_owners = 2, .owner = { 1, 2 } };
	fixture_create(&f, &c);
	const struct state_topic *t = state_topic_by_name(f.s, slice_str("/t"));
	uint8_t id[16];
	memcpy(id, t->id, 16);
	assert_int_equal(fixture_close(&f, id, 2, false), PICO_BAD_REQUEST);
	assert_int_equal(fixture_close(&f, id, 1, false), PICO_NOT_OWNER);
	assert_int_equal(fixture_close(&f, id, 0, true), PICO_OK);
	assert_true(t->closing && !t->closed && !t->partition[0].closed);
	assert_int_equal(t->changed_idx, state_idx(f.s));
	assert_int_equal(fixture_close(&f, id, 0, false), PICO_OK);
	assert_true(t->closing && !t->closed && t->partition[0].closed);
	uint64_t changed = t->changed_idx;
	assert_int_equal(fixture_close(&f, id, 0, false), PICO_OK);     /* redundant: changes nothing */
	assert_int_equal(t->changed_idx, changed);
	f.node = 2;
	f.session = 1;
	f.proposal = 1;
	assert_int_equal(fixture_close(&f, id, 1, false), PICO_OK);
	assert_true(t->closed && !t->closing && !t->created_closed);
	assert_int_equal(fixture_close(&f, id, 0, true), PICO_OK);
	assert_true(t->closed && !t->closing);
	/* A create is compared with how the topic was created. */
	c.partitions = c.n_owners = 0;
	assert_int_equal(fixture_create(&f, &c), PICO_OK);
	assert_false(f.one.created);
	fixture_done(&f);
}

static void test_delete(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	uint8_t id[16] = { 1 }, again[16];
	assert_int_equal(fixture_delete(&f, id), PICO_NOT_FOUND);
	fixture_create_name(&f, "/a/b");
	const struct state_topic *t = state_topic_by_name(f.s, slice_str("/a/b"));
	uint64_t log_id = t->partition[0].log_id;
	uint32_t partition;
	memcpy(id, t->id, 16);
	assert_int_equal(fixture_delete(&f, id), PICO_OK);
	assert_null(state_topic_by_name(f.s, slice_str("/a/b")));
	assert_null(state_topic_by_alias(f.s, slice_str("a.b")));
	assert_null(state_topic_by_id(f.s, id));
	assert_null(state_topic_by_log(f.s, log_id, &partition));
	assert_int_equal(state_n_topics(f.s), 0);
	/* The name is free, the id and the log are new, and a late delete of the old one hits nothing. */
	assert_int_equal(fixture_create_name(&f, "/a/b"), PICO_OK);
	t = state_topic_by_name(f.s, slice_str("/a/b"));
	memcpy(again, t->id, 16);
	assert_memory_not_equal(again, id, 16);
	assert_int_equal(t->partition[0].log_id, log_id + 1);
	assert_int_equal(fixture_delete(&f, id), PICO_NOT_FOUND);
	assert_ptr_equal(state_topic_by_id(f.s, again), t);
	/* The alias is free again for another path. */
	fixture_delete(&f, again);
	fixture_create_name(&f, "/a.b");
	assert_string_equal(state_topic_by_alias(f.s, slice_str("a.b"))->name, "/a.b");
	fixture_done(&f);
}

/* ---------------------------------------------------------------- indexes */

static unsigned random_below(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % n;
}

static int compare_numbers(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

#define MODEL_NAMES 3000

/* Random creates and deletes against a table of what is there. */
static void test_indexes_random(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	static bool there[MODEL_NAMES];
	static char name[MODEL_NAMES][24];
	memset(there, 0, sizeof(there));
	unsigned seed = 4711;
	size_t count = 0;
	for (int i = 0; i < MODEL_NAMES; i++)
		snprintf(name[i], sizeof(name[i]), "/%s%d", i % 3 == 0 ? "a/" : "", i * 7919 % 100003);
	for (int turn = 0; turn < 12000; turn++) {
		unsigned i = random_below(&seed, MODEL_NAMES);
		const struct state_topic *t = state_topic_by_name(f.s, slice_str(name[i]));
		assert_int_equal(t != NULL, there[i]);
		if (!there[i] && (turn < 6000 || turn % 3 == 0)) {
			assert_int_equal(fixture_create_name(&f, name[i]), PICO_OK);
			there[i] = true;
			count++;
		} else if (there[i] && (turn >= 6000 || turn % 4 == 0)) {
			uint8_t id[16];
			memcpy(id, t->id, 16);
			assert_int_equal(fixture_delete(&f, id), PICO_OK);
			there[i] = false;
			count--;
		}
		assert_int_equal(state_n_topics(f.s), count);
	}
	char *sorted[MODEL_NAMES];
	size_t n = 0;
	for (int i = 0; i < MODEL_NAMES; i++)
		if (there[i])
			sorted[n++] = name[i];
	qsort(sorted, n, sizeof(sorted[0]), compare_numbers);
	assert_true(n == count && n > 300);
	const struct state_topic *t = state_topic_next(f.s, slice_of("", 0));
	for (size_t i = 0; i < n; i++) {
		assert_non_null(t);
		assert_string_equal(t->name, sorted[i]);
		assert_ptr_equal(state_topic_by_id(f.s, t->id), t);
		uint32_t partition;
		assert_ptr_equal(state_topic_by_log(f.s, t->partition[0].log_id, &partition), t);
		assert_ptr_equal(state_topic_by_alias(f.s, slice_str(t->kafka_topic)), t);
		t = state_topic_next(f.s, slice_str(t->name));
	}
	assert_null(t);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init_cluster), cmocka_unit_test(test_register),
		cmocka_unit_test(test_proposals), cmocka_unit_test(test_wrong_rows),
		cmocka_unit_test(test_clock), cmocka_unit_test(test_session_recovered),
		cmocka_unit_test(test_producer_ids),
		cmocka_unit_test(test_create), cmocka_unit_test(test_create_settings),
		cmocka_unit_test(test_find_spellings), cmocka_unit_test(test_placement),
		cmocka_unit_test(test_close), cmocka_unit_test(test_delete),
		cmocka_unit_test(test_indexes_random),
	};
	return cmocka_run_group_tests_name("meta_state", tests, NULL, NULL);
}
