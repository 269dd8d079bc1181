/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots in slices against the state they were begun at, what a load refuses, and the formats against
 * golden files, written and read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/cluster.h"
#include "storaged/meta/log_card.h"
#include "storaged/meta/snapshot.h"
#include "storaged/meta/state_fork.h"
#include "t/unit/meta_fixture.h"

#define FORK_LOG 4              /* of partition 1 of the golden fork */

static void assert_same_topic(const struct state_topic *a, const struct state_topic *b)
{
	assert_non_null(b);
	assert_memory_equal(a->id, b->id, 16);
	assert_string_equal(a->name, b->name);
	assert_string_equal(a->content_type, b->content_type);
	assert_string_equal(a->kafka_topic == NULL ? "" : a->kafka_topic, b->kafka_topic == NULL ? "" : b->kafka_topic);
	assert_string_equal(a->schema_name == NULL ? "" : a->schema_name, b->schema_name == NULL ? "" : b->schema_name);
	assert_true(a->settings_version == b->settings_version && a->created_ms == b->created_ms &&
		    a->ttl_seconds == b->ttl_seconds && a->expires_at_ms == b->expires_at_ms &&
		    a->changed_idx == b->changed_idx && a->closed == b->closed && a->closing == b->closing &&
		    a->initial == b->initial && a->created_closed == b->created_closed &&
		    a->schema_validate == b->schema_validate && a->n_config == b->n_config &&
		    a->n_partitions == b->n_partitions && a->soft_deleted == b->soft_deleted &&
		    state_topic_n_forks(a) == state_topic_n_forks(b));
	const struct state_topic *p = state_topic_source(a), *q = state_topic_source(b);
	assert_true(p == NULL ? q == NULL : q != NULL && memcmp(p->id, q->id, 16) == 0);
	for (uint16_t i = 0; i < a->n_config; i++) {
		assert_string_equal(a->config[i].name, b->config[i].name);
		assert_string_equal(a->config[i].value, b->config[i].value);
	}
	for (uint32_t i = 0; i < a->n_partitions; i++)
		assert_true(a->partition[i].log_id == b->partition[i].log_id &&
			    a->partition[i].owner == b->partition[i].owner &&
			    a->partition[i].epoch == b->partition[i].epoch &&
			    a->partition[i].start == b->partition[i].start &&
			    a->partition[i].closed == b->partition[i].closed);
}

static void assert_same_objects(const struct catalogue *a, const struct catalogue *b)
{
	assert_int_equal(catalogue_count(a), catalogue_count(b));
	assert_int_equal(catalogue_bytes(a), catalogue_bytes(b));
	const struct object_row *x = catalogue_next(a, NULL);
	for (; x != NULL; x = catalogue_next(a, &x->id)) {
		const struct object_row *y = catalogue_find(b, x->id);
		assert_non_null(y);
		assert_true(x->origin == y->origin && x->level == y->level && x->run == y->run &&
			    x->first_log == y->first_log && x->last_log == y->last_log && x->bytes == y->bytes &&
			    x->oldest_ms == y->oldest_ms && x->newest_ms == y->newest_ms &&
			    x->first_offset == y->first_offset && x->end_offset == y->end_offset &&
			    x->marked == y->marked && x->marked_ms == y->marked_ms && x->changed_idx == y->changed_idx);
	}
}

static void assert_same_kv(const struct kv *a, const struct kv *b)
{
	const struct kv_entry *x = a->oldest, *y = b->oldest;
	assert_true(a->n == b->n && a->bytes == b->bytes && a->version == b->version);
	for (; x != NULL && y != NULL; x = x->newer, y = y->newer) {
		assert_string_equal(x->key, y->key);
		assert_true(x->version == y->version && x->changed_idx == y->changed_idx && slice_eq(x->value, y->value));
		assert_ptr_equal(kv_find(b, slice_str(x->key)), y);
	}
	assert_true(x == NULL && y == NULL);
}

static void assert_same_state(const struct state *a, const struct state *b)
{
	assert_int_equal(state_next_producer_id(a), state_next_producer_id(b));
	assert_int_equal(state_idx(a), state_idx(b));
	assert_true(state_chain(a) == state_chain(b));
	assert_int_equal(state_clock_ms(a), state_clock_ms(b));
	assert_int_equal(state_clock_leap_ms(a), state_clock_leap_ms(b));
	assert_int_equal(state_format(a), state_format(b));
	assert_memory_equal(state_cluster_uuid(a), state_cluster_uuid(b), 16);
	assert_int_equal(state_n_topics(a), state_n_topics(b));
	assert_same_objects(state_catalogue(a), state_catalogue(b));
	assert_same_kv(state_kv(a), state_kv(b));
	const struct state_topic *t = state_topic_next_any(a, slice_of("", 0)), *u = state_topic_next_any(b, slice_of("", 0));
	for (; t != NULL && u != NULL; t = state_topic_next_any(a, slice_str(t->name)),
				       u = state_topic_next_any(b, slice_str(u->name)))
		assert_same_topic(t, u);
	assert_true(t == NULL && u == NULL);
	for (uint32_t node = 0; node < 5; node++) {
		uint64_t x = 0, y = 0;
		Meta__Result *p = NULL, *q = NULL;
		const struct state_session *s = state_session_next(a, node, 0), *r = state_session_next(b, node, 0);
		for (; s != NULL && r != NULL; s = state_session_next(a, node, s->session),
					       r = state_session_next(b, node, r->session)) {
			assert_true(s->session == r->session && s->state == r->state && s->watermark == r->watermark &&
				    s->recoverer == r->recoverer && s->cut == r->cut && s->recovered_ms == r->recovered_ms);
			assert_int_equal(state_last_proposal(a, node, s->session, &x, &p),
					 state_last_proposal(b, node, s->session, &y, &q));
			assert_int_equal(x, y);
			assert_int_equal(p == NULL, q == NULL);
			if (p != NULL) {
				assert_int_equal(p->n_one, q->n_one);
				meta__result__free_unpacked(p, NULL);
				meta__result__free_unpacked(q, NULL);
			}
			p = q = NULL;
		}
		assert_true(s == NULL && r == NULL);
	}
}

static void test_snapshot_whole(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_taken(&f);
	fixture_register(&f, 1, 'z');
	f.session = 2;
	f.proposal = 1;
	struct commit_args objects = {
		.has_wal = true, .wal = { 1, 1, 0, 17 },
		.add = { { .id = { 1, 2, 1 }, .origin = 1, .first_log = 1, .last_log = 5, .bytes = 9, .newest_ms = 7 },
			 { .id = { 1, 2, 2 }, .origin = 1, .level = 3, .first_log = 7, .last_log = 7, .bytes = 8,
			   .first_offset = 3, .end_offset = 4 } },
	}, marked = { .remove = { { 1, 2, 1 } } };
	assert_int_equal(fixture_commit(&f, &objects), PICO_OK);
	assert_int_equal(fixture_commit(&f, &marked), PICO_OK);
	assert_int_equal(fixture_recovered(&f, 1, 1, 17), PICO_OK);
	Meta__Command command = META__COMMAND__INIT;
	Meta__AllocateProducerIds ids = META__ALLOCATE_PRODUCER_IDS__INIT;
	command.kind_case = META__COMMAND__KIND_ALLOCATE_PRODUCER_IDS;
	command.allocate_producer_ids = &ids;
	ids.count = 1000;
	ids.node = 1;
	ids.session = 2;
	assert_int_equal(fixture_run(&f, &command), PICO_OK);
	for (int i = 0; i < 50; i++)
		fixture_create_number(&f, i);
	struct create_args c = { .name = "/exp", .expires = 99, .partitions = 5, .initial = true };
	fixture_create(&f, &c);
	fixture_close(&f, f.topic_id, 3, false);
	struct kept k = { 0 };
	state_snapshot_begin(f.s, 0, kept_add, &k);
	while (state_snapshot_step(f.s, 7))
		;
	state_snapshot_end(f.s);
	struct state *loaded = kept_load(&k, state_idx(f.s));
	assert_non_null(loaded);
	assert_same_state(f.s, loaded);
	/* Both go on alike: log ids, placement. */
	uint32_t before = f.proposal;
	fixture_create_name(&f, "/next");
	struct state *original = f.s;
	f.s = loaded;
	f.proposal = before;
	f.id--;
	fixture_create_name(&f, "/next");
	assert_same_state(original, loaded);
	f.s = original;
	state_free(loaded);
	kept_done(&k);
	fixture_done(&f);
}

/* A snapshot is of the moment it was begun, whatever commands come between its slices. */
static void test_snapshot_slices(void **arg)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct fixture f;
		fixture_new(&f);
		unsigned r = seed;
		struct kept base = { 0 }, all = { 0 };
		for (int i = 0; i < 40; i++) {
			fixture_random_row(&f, &r);
			fixture_random_objects(&f, &r);
			fixture_random_kv(&f, &r);
		}
		uint64_t base_idx = state_idx(f.s);
		state_snapshot_begin(f.s, 0, kept_add, &base);
		while (state_snapshot_step(f.s, 1000))
			;
		state_snapshot_end(f.s);
		state_covered(f.s, base_idx);
		for (int i = 0; i < 40; i++) {
			fixture_random_row(&f, &r);
			fixture_random_objects(&f, &r);
			fixture_random_kv(&f, &r);
			fixture_random_fork(&f, &r);
			if (i % 8 == 0)
				fixture_close_some(&f, 6);
		}
		/* What the state is now, taken at once. */
		state_snapshot_begin(f.s, 0, kept_add, &all);
		while (state_snapshot_step(f.s, 1000))
			;
		state_snapshot_end(f.s);
		uint64_t idx = state_idx(f.s);
		struct state *now = kept_load(&all, idx);
		/* The same in slices between commands, as changes to base. */
		state_snapshot_begin(f.s, base_idx, kept_add, &base);
		do {
			for (unsigned i = 0; i <= r % 4; i++) {
				fixture_random_row(&f, &r);
				fixture_random_objects(&f, &r);
				fixture_random_kv(&f, &r);
				fixture_random_fork(&f, &r);
			}
			fixture_close_some(&f, r % 3);
		} while (state_snapshot_step(f.s, 1 + r % 3));
		state_snapshot_end(f.s);
		struct state *then = kept_load(&base, idx);
		assert_non_null(then);
		assert_same_state(now, then);
		state_free(now);
		state_free(then);
		kept_done(&base);
		kept_done(&all);
		fixture_done(&f);
	}
}

/* The topic behind the last one to encode is dropped while the cursor stands at it. */
static void test_snapshot_cursor_dropped(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_create_name(&f, "/a");
	fixture_create_name(&f, "/b");
	uint8_t b[16];
	memcpy(b, f.topic_id, 16);
	struct kept k = { 0 };
	uint64_t idx = state_idx(f.s);
	state_snapshot_begin(f.s, 0, kept_add, &k);
	assert_true(state_snapshot_step(f.s, 1));
	fixture_create_name(&f, "/new");
	uint8_t new[16];
	memcpy(new, f.topic_id, 16);
	assert_int_equal(fixture_delete(&f, b), PICO_OK);
	assert_int_equal(fixture_delete(&f, new), PICO_OK);
	assert_false(state_snapshot_step(f.s, 1));
	state_snapshot_end(f.s);
	struct state *s = kept_load(&k, idx);
	assert_non_null(s);
	assert_int_equal(state_n_topics(s), 2);
	assert_memory_equal(state_topic_by_name(s, slice_str("/b"))->id, b, 16);
	state_free(s);
	kept_done(&k);
	fixture_done(&f);
}

static void test_load_refuses(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_create_name(&f, "/a");
	struct kept k = { 0 };
	state_snapshot_begin(f.s, 0, kept_add, &k);
	while (state_snapshot_step(f.s, 10))
		;
	state_snapshot_end(f.s);
	uint64_t idx = state_idx(f.s);
	struct state *s = kept_load(&k, idx);
	assert_non_null(s);
	state_free(s);
	assert_null(kept_load(&k, idx - 1));                    /* an entity from the future */
	for (size_t i = 0; i < k.n; i++) {                      /* each one broken */
		struct sql_entity whole = k.e[i];
		k.e[i].payload.n--;
		if (kept_load(&k, idx) != NULL)
			fail_msg("%.*s cut was loaded", (int)whole.key.n, (const char *)whole.key.p);
		k.e[i] = whole;
	}
	struct sql_entity other = { .key = slice_str("other/1"), .idx = 1, .payload = slice_str("x") };
	kept_add(&k, &other);                                   /* a kind only a newer release knows */
	assert_null(kept_load(&k, idx));
	kept_done(&k);
	fixture_done(&f);
}

/* Sessions that no sequence of rows leaves behind: a state that took them would trust a proposer it does not know. */
static void test_load_refuses_sessions(void **arg)
{
	static const struct { const char *key; uint32_t node; uint64_t session; int state; } cases[] = {
		{ "session/1/0000000000000001", 1, 1, SESSION_ACTIVE },         /* beside a newer one */
		{ "session/1/0000000000000002", 1, 3, SESSION_ACTIVE },         /* the newest is not there */
		{ "session/1/0000000000000001", 1, 2, SESSION_ENDED },          /* twice */
		{ "session/1/0000000000000001", 1, 9, SESSION_ENDED },          /* newer than the newest */
		{ "session/1/0000000000000001", 7, 1, SESSION_ACTIVE },         /* of no node */
		{ "session/1/0000000000000001", 7, 1, SESSION_ENDED },
		{ "node/1", 2, 1, -1 }, { "node/1", 5, 2, -1 }, { "node/1", 1, 1, -1 }, { "node/1", 1, 3, -1 },
		{ "node/9", 1, 2, -1 }, { "session/9/0000000000000001", 1, 1, SESSION_ENDED },  /* under a second key */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture f;
		fixture_new(&f);
		fixture_register(&f, 1, 'b');
		fixture_register(&f, 2, 'c');
		struct kept k = { 0 };
		fixture_keep(&f, &k);
		uint8_t boot_id[16] = { 1 }, bytes[256];
		Meta__NodeEntity node = META__NODE_ENTITY__INIT;
		Meta__SessionEntity session = META__SESSION_ENTITY__INIT;
		node.node = session.node = cases[i].node;
		node.session = session.session = cases[i].session;
		node.boot_id = (ProtobufCBinaryData){ .data = boot_id, .len = 16 };
		session.state = (Meta__SessionEntity__State)cases[i].state;
		size_t n = cases[i].state < 0 ? meta__node_entity__pack(&node, bytes) : meta__session_entity__pack(&session, bytes);
		struct sql_entity e = { .key = slice_str(cases[i].key), .idx = 1, .payload = slice_of(bytes, n) };
		kept_add(&k, &e);
		if (kept_load(&k, state_idx(f.s)) != NULL)
			fail_msg("case %zu was loaded", i);
		kept_done(&k);
		fixture_done(&f);
	}
}

/* ---------------------------------------------------------------- formats */

static void check_golden(const char *name, const void *bytes, size_t n)
{
	char path[512];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/%s", src == NULL ? "." : src, name);
	if (getenv("PICO_WRITE_GOLDEN") != NULL) {
		FILE *out = fopen(path, "wb");
		must(out != NULL && fwrite(bytes, 1, n, out) == n && fclose(out) == 0);
	}
	uint8_t golden[4096];
	FILE *in = fopen(path, "rb");
	if (in == NULL)
		fail_msg("%s is missing", path);
	size_t got = fread(golden, 1, sizeof(golden), in);
	fclose(in);
	assert_int_equal(got, n);
	assert_memory_equal(golden, bytes, n);
}

static struct slice read_golden(const char *name, uint8_t *bytes, size_t size)
{
	char path[512];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/%s", src == NULL ? "." : src, name);
	FILE *in = fopen(path, "rb");
	if (in == NULL)
		fail_msg("%s is missing", path);
	size_t n = fread(bytes, 1, size, in);
	fclose(in);
	return slice_of(bytes, n);
}

static void apply_golden(struct fixture *f, const char *name)
{
	uint8_t bytes[4096];
	struct sql_row row = {
		.idx = state_idx(f->s) + 1, .node = 1, .session = 1, .proposal = f->proposal++,
		.payload = read_golden(name, bytes, sizeof(bytes)),
	};
	Meta__Result *results;
	assert_int_equal(state_apply(f->s, &row, &results), 0);
	assert_int_equal(results->one[0]->error, PICO_OK);
	meta__result__free_unpacked(results, NULL);
}

static void check_golden_entity(const struct kept *k, const char *key, const char *name)
{
	size_t i = 0;
	while (i < k->n && !slice_is(k->e[i].key, key))
		i++;
	assert_true(i < k->n);
	check_golden(name, k->e[i].payload.p, k->e[i].payload.n);
}

static const struct commit_args golden_before = {
	.add = { { .id = { 1, 1, 7 }, .origin = 1, .first_log = 1, .last_log = 9, .bytes = 3 } },
};
static const struct commit_args golden_commit = {
	.has_wal = true, .wal = { 1, 1, 0, 300 },
	.add = { { .id = { 1, 1, 0 }, .origin = 1, .first_log = 1, .last_log = 2, .bytes = 70000, .oldest_ms = 1700000000000,
		   .newest_ms = 1700000000500 },
		 { .id = { 1, 1, 1 }, .origin = 1, .level = 3, .first_log = 2, .last_log = 2, .bytes = 5000000,
		   .oldest_ms = 1700000000000, .newest_ms = 1700000000500, .first_offset = 128, .end_offset = 5000 } },
	.remove = { { 1, 1, 7 } },
};

static void write_golden_objects(void)
{
	struct fixture f;
	fixture_new(&f);
	assert_int_equal(fixture_commit(&f, &golden_before), PICO_OK);
	f.now_ms = 1700000001000;
	assert_int_equal(fixture_commit(&f, &golden_commit), PICO_OK);
	check_golden("meta_row_commit.bin", f.payload, f.payload_len);
	struct commit_args mark = { .remove = { { 1, 1, 1 } } };
	assert_int_equal(fixture_commit(&f, &mark), PICO_OK);
	struct kept k = { 0 };
	fixture_keep(&f, &k);
	check_golden_entity(&k, "object/1/0000000000000001/0000000000000001", "meta_entity_object.bin");
	kept_done(&k);
	fixture_done(&f);
}

/* Of the topic of meta_row.bin: a fork, and the source when it was deleted. */
static void write_golden_fork(void)
{
	struct fixture f;
	fixture_new(&f);
	apply_golden(&f, "meta_row.bin");
	uint8_t source[16];
	memset(source, 'T', sizeof(source));
	struct create_args a = {
		.name = "/orders/fork", .source = source, .n_points = 2, .offset = { 300, 0 }, .parent_end = { 290, 0 },
		.sub_offset = 7, .initial = true, .id = 'F',
	};
	f.now_ms = 1700000002000;
	assert_int_equal(fixture_create(&f, &a), PICO_OK);
	check_golden("meta_row_fork.bin", f.payload, f.payload_len);
	assert_int_equal(fixture_delete(&f, source), PICO_OK);
	struct kept k = { 0 };
	fixture_keep(&f, &k);
	check_golden_entity(&k, "topic/46464646464646464646464646464646", "meta_entity_fork.bin");
	check_golden_entity(&k, "topic/54545454545454545454545454545454", "meta_entity_soft_deleted.bin");
	struct buf card;
	buf_init(&card, 4096);
	assert_int_equal(log_card_encode(f.s, FORK_LOG, &card), 1);
	check_golden("log_card.bin", buf_head(&card), buf_len(&card));
	assert_int_equal(log_card_encode(f.s, FORK_LOG, NULL), 1);
	assert_int_equal(log_card_encode(f.s, FORK_LOG + 1, &card), 0);        /* nobody's */
	buf_done(&card);
	kept_done(&k);
	fixture_done(&f);
}

/* A topic of more partitions than a card has room for names its own alone; configs that do not fit are left out. */
static void test_card_bounds(void **arg)
{
	struct fixture f;
	struct buf card;
	char value[4001];
	uint64_t log_id = 0;
	uint32_t partition = 0;
	fixture_new(&f);
	memset(value, 'v', 4000);
	value[4000] = '\0';
	struct create_args a = { .name = "/wide", .partitions = LOG_CARD_PARTITIONS_MAX + 1, .config = { "retention.ms", value },
				 .id = 'W' };
	assert_int_equal(fixture_create(&f, &a), PICO_OK);
	for (uint32_t i = 0; i <= LOG_CARD_PARTITIONS_MAX; i++) {
		const struct state_topic *t = state_topic_next_log(f.s, log_id, &log_id, &partition);
		assert_int_equal(t->n_partitions, LOG_CARD_PARTITIONS_MAX + 1);
		buf_init(&card, SIZE_MAX);
		log_card_encode(f.s, log_id, &card);
		assert_true(buf_len(&card) <= LOG_CARD_MAX);
		Meta__LogCard *c = log_card_decode(buf_slice(&card), log_id);
		assert_non_null(c);
		assert_int_equal(c->partition, i);
		assert_int_equal(c->topic->n_partitions, 1);
		assert_int_equal(c->topic->partitions[0]->log_id, log_id);
		assert_int_equal(c->topic->n_config, buf_len(&card) > 4000);
		assert_null(log_card_decode(buf_slice(&card), log_id + 1));
		meta__log_card__free_unpacked(c, NULL);
		buf_done(&card);
	}
	fixture_done(&f);
}

static void card_spoil(const uint8_t *good, size_t n, size_t at, uint8_t value)
{
	uint8_t bytes[512];
	memcpy(bytes, good, n);
	bytes[at] = value;
	assert_null(log_card_decode(slice_of(bytes, n), FORK_LOG));
}

static void test_golden_card(void **arg)
{
	uint8_t bytes[512];
	struct slice s = read_golden("log_card.bin", bytes, sizeof(bytes));
	Meta__LogCard *c = log_card_decode(s, FORK_LOG);
	assert_non_null(c);
	assert_true(c->partition == 1 && c->n_partitions == 2 && c->topic->n_partitions == 2);
	assert_string_equal(c->topic->name, "/orders/fork");
	assert_int_equal(c->topic->partitions[0]->parent_end, 290);
	assert_int_equal(c->n_sources, 1);
	assert_string_equal(c->sources[0]->topic->name, "/orders/eu");
	assert_int_equal(log_card_log(c->sources[0]), 2);
	meta__log_card__free_unpacked(c, NULL);
	assert_null(log_card_decode(s, FORK_LOG - 1));  /* the other partition's */
	assert_null(log_card_decode(slice_of(s.p, s.n - 1), FORK_LOG));
	assert_null(log_card_decode(slice_of(NULL, 0), FORK_LOG));
	card_spoil(bytes, s.n, 1, 0);
	card_spoil(bytes, s.n, 1, 2);
	card_spoil(bytes, s.n, 3, 3);
	card_spoil(bytes, s.n, 27, 'x');        /* the name's slash */
}

static void test_golden(void **arg)
{
	struct fixture f;
	fixture_empty(&f);
	f.now_ms = 1700000000000;
	fixture_init_cluster(&f, 7, 16);
	fixture_register(&f, 1, 'a');
	f.session = 1;
	struct create_args c = {
		.name = "/orders/eu", .type = "text/plain", .partitions = 2, .ttl = 60, .schema = "s", .validate = true,
		.config = { "retention.ms", "1000" }, .initial = true, .id = 'T',
	};
	fixture_create(&f, &c);
	check_golden("meta_row.bin", f.payload, f.payload_len);
	struct kept k = { 0 };
	state_snapshot_begin(f.s, 0, kept_add, &k);
	while (state_snapshot_step(f.s, 10))
		;
	state_snapshot_end(f.s);
	check_golden_entity(&k, "topic/54545454545454545454545454545454", "meta_entity_topic.bin");
	kept_done(&k);
	struct update_args u = {
		.alias = "eu", .schema = "t", .validate = -1, .config = { "retention.ms", "2000" },
		.config_delete = "segment.ms",
	};
	uint32_t owner = 1;
	uint8_t id[16];
	memset(id, 'T', sizeof(id));
	fixture_update(&f, id, &u);
	check_golden("meta_row_update.bin", f.payload, f.payload_len);
	fixture_grow(&f, id, 3, &owner, 1);
	check_golden("meta_row_grow.bin", f.payload, f.payload_len);
	fixture_done(&f);
	write_golden_objects();
	write_golden_fork();
	uint8_t uuid[16], object[64];
	memset(uuid, 7, sizeof(uuid));
	size_t n = cluster_object_encode(uuid, object);
	check_golden("cluster.bin", object, n);
}

static void check_golden_topic(const struct state_topic *t)
{
	assert_non_null(t);
	assert_memory_equal(t->id, "TTTTTTTTTTTTTTTT", 16);
	assert_string_equal(t->name, "/orders/eu");
	assert_string_equal(t->kafka_topic, "orders.eu");
	assert_string_equal(t->content_type, "text/plain");
	assert_string_equal(t->schema_name, "s");
	assert_string_equal(t->config[0].name, "retention.ms");
	assert_string_equal(t->config[0].value, "1000");
	assert_int_equal(t->created_ms, 1700000000000);
	assert_true(t->n_config == 1 && t->ttl_seconds == 60 && t->expires_at_ms == 0 && t->settings_version == 1);
	assert_true(t->schema_validate && t->initial && !t->closed && !t->closing && !t->created_closed);
	assert_true(t->n_partitions == 2 && t->partition[0].log_id == 1 && t->partition[1].log_id == 2);
	assert_true(t->partition[0].owner == 1 && t->partition[0].epoch == 0 && t->partition[0].start == 0 &&
		    !t->partition[0].closed);
}

static void test_golden_settings(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	apply_golden(&f, "meta_row.bin");
	apply_golden(&f, "meta_row_update.bin");
	apply_golden(&f, "meta_row_grow.bin");
	const struct state_topic *t = state_topic_by_alias(f.s, slice_str("eu"));
	assert_non_null(t);
	assert_string_equal(t->name, "/orders/eu");
	assert_string_equal(t->schema_name, "t");
	assert_true(!t->schema_validate && t->settings_version == 3 && t->n_partitions == 3);
	assert_true(t->n_config == 1 && strcmp(t->config[0].value, "2000") == 0);
	assert_true(t->partition[2].owner == 1 && t->partition[2].log_id == 3);
	fixture_done(&f);
}

static void test_golden_objects(void **arg)
{
	uint8_t bytes[4096];
	struct fixture f;
	fixture_new(&f);
	assert_int_equal(fixture_commit(&f, &golden_before), PICO_OK);
	apply_golden(&f, "meta_row_commit.bin");
	const struct catalogue *c = state_catalogue(f.s);
	const struct object_row *row = catalogue_find(c, (struct object_id){ 1, 1, 0 });
	assert_true(row != NULL && row->origin == 1 && row->level == 0 && row->run == 2 && row->first_log == 1 &&
		    row->last_log == 2 && row->bytes == 70000 && row->oldest_ms == 1700000000000 &&
		    row->newest_ms == 1700000000500 && row->first_offset == 0 && row->end_offset == 0 && !row->marked);
	row = catalogue_find(c, (struct object_id){ 1, 1, 7 });
	assert_true(row != NULL && row->marked && row->marked_ms == 1700000001000);
	assert_int_equal(state_session_next(f.s, 1, 0)->watermark, 300);
	struct kept k = { 0 };
	fixture_keep(&f, &k);
	struct sql_entity e = {
		.key = slice_str("object/1/0000000000000001/0000000000000001"), .idx = 2,
		.payload = read_golden("meta_entity_object.bin", bytes, sizeof(bytes)),
	};
	kept_add(&k, &e);
	struct state *s = kept_load(&k, state_idx(f.s));
	assert_non_null(s);
	row = catalogue_find(state_catalogue(s), (struct object_id){ 1, 1, 1 });
	assert_true(row != NULL && row->origin == 1 && row->level == 3 && row->run == 3 && row->first_log == 2 &&
		    row->last_log == 2 && row->bytes == 5000000 && row->first_offset == 128 && row->end_offset == 5000 &&
		    row->marked && row->marked_ms == 1700000001000 && row->changed_idx == 2);
	state_free(s);
	kept_done(&k);
	fixture_done(&f);
}

static void test_golden_fork(void **arg)
{
	uint8_t bytes[4096], more[4096], source[16];
	memset(source, 'T', sizeof(source));
	struct fixture f;
	fixture_new(&f);
	apply_golden(&f, "meta_row.bin");
	apply_golden(&f, "meta_row_fork.bin");
	assert_int_equal(state_topic_n_forks(state_topic_by_id(f.s, source)), 1);
	struct kept k = { 0 };
	fixture_keep(&f, &k);
	struct sql_entity fork = {
		.key = slice_str("topic/46464646464646464646464646464646"), .idx = 2,
		.payload = read_golden("meta_entity_fork.bin", bytes, sizeof(bytes)),
	}, soft = {
		.key = slice_str("topic/54545454545454545454545454545454"), .idx = 3,
		.payload = read_golden("meta_entity_soft_deleted.bin", more, sizeof(more)),
	};
	kept_add(&k, &fork);
	kept_add(&k, &soft);
	struct state *s = kept_load(&k, state_idx(f.s));
	assert_non_null(s);
	const struct state_topic *t = state_topic_by_name(s, slice_str("/orders/fork")), *p = state_topic_source(t);
	assert_true(p != NULL && p->soft_deleted && memcmp(p->id, source, 16) == 0 && state_n_topics(s) == 1);
	struct state_parent x = state_partition_parent(t, 0), y = state_partition_parent(t, 1);
	assert_true(x.log_id == 1 && x.end == 290 && x.offset == 300 && y.log_id == 2 && y.end == 0 && y.offset == 0);
	assert_true(t->initial && t->partition[0].log_id == 3 && t->partition[0].owner == 1 && t->n_partitions == 2);
	state_free(s);
	kept_done(&k);
	fixture_done(&f);
}

/* What an older release wrote is read by this one. */
static void test_golden_read(void **arg)
{
	uint8_t bytes[4096];
	struct fixture f;
	fixture_new(&f);
	apply_golden(&f, "meta_row.bin");
	check_golden_topic(state_topic_by_name(f.s, slice_str("/orders/eu")));
	struct kept k = { 0 };
	state_snapshot_begin(f.s, 0, kept_add, &k);     /* without the topic: not a step is made */
	state_snapshot_end(f.s);
	struct sql_entity e = {
		.key = slice_str("topic/54545454545454545454545454545454"), .idx = 2,
		.payload = read_golden("meta_entity_topic.bin", bytes, sizeof(bytes)),
	};
	kept_add(&k, &e);
	struct state *s = kept_load(&k, state_idx(f.s));
	assert_non_null(s);
	check_golden_topic(state_topic_by_name(s, slice_str("/orders/eu")));
	state_free(s);
	kept_done(&k);
	fixture_done(&f);
	Meta__ClusterObject *o;
	struct slice object = read_golden("cluster.bin", bytes, sizeof(bytes));
	o = meta__cluster_object__unpack(NULL, object.n, object.p);
	assert_non_null(o);
	assert_true(o->format == 1 && o->uuid.len == 16 && o->uuid.data[0] == 7 && o->uuid.data[15] == 7);
	meta__cluster_object__free_unpacked(o, NULL);
}

/* The chain of an empty payload after 0 is SHA-256 of 8 zero bytes; "abc" after 1 likewise, by another program. */
static void test_chain(void **arg)
{
	assert_true(state_chain_next(0, slice_of("", 0)) == UINT64_C(0xaf5570f5a1810b7a));
	assert_true(state_chain_next(1, slice_str("abc")) != state_chain_next(2, slice_str("abc")));
	assert_true(state_chain_next(1, slice_str("abc")) == UINT64_C(0xe98bc483cc6af9cc));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot_whole), cmocka_unit_test(test_snapshot_slices),
		cmocka_unit_test(test_snapshot_cursor_dropped), cmocka_unit_test(test_load_refuses),
		cmocka_unit_test(test_load_refuses_sessions),
		cmocka_unit_test(test_golden), cmocka_unit_test(test_golden_read), cmocka_unit_test(test_golden_settings),
		cmocka_unit_test(test_golden_objects), cmocka_unit_test(test_golden_fork),
		cmocka_unit_test(test_card_bounds), cmocka_unit_test(test_golden_card), cmocka_unit_test(test_chain),
	};
	return cmocka_run_group_tests_name("meta_snapshot", tests, NULL, NULL);
}
