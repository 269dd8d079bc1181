/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks in the state: what a create of one may ask, what it takes from its source, what SOFT_DELETED hides and keeps, how
 * much of a log lives; the latter against a plain model through random creates, trims and deletes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state_fork.h"
#include "t/unit/meta_fixture.h"

static const struct state_topic *named(const struct fixture *f, const char *name)
{
	return state_topic_by_name(f->s, slice_str(name));
}

static const struct state_topic *any(const struct fixture *f, const char *name)
{
	const struct state_topic *t = named(f, name);
	return t != NULL ? t : state_soft_deleted_find(f->s, slice_str(name));
}

static void id_of(const struct fixture *f, const char *name, uint8_t ret_id[16])
{
	const struct state_topic *t = any(f, name);
	must(t != NULL);
	memcpy(ret_id, t->id, 16);
}

/* Forks the first partition of `source`. */
static uint32_t fork_of(struct fixture *f, const char *name, const char *source, uint64_t offset, uint64_t end)
{
	uint8_t id[16];
	id_of(f, source, id);
	struct create_args a = {
		.name = name, .source = id, .offset = { offset }, .parent_end = { end }, .initial = end < offset,
	};
	return fixture_create(f, &a);
}

static uint32_t trim(struct fixture *f, const char *name, uint64_t start)
{
	uint64_t log = any(f, name)->partition[0].log_id;
	return fixture_trim(f, &log, &start, 1);
}

static uint32_t delete(struct fixture *f, const char *name)
{
	uint8_t id[16];
	id_of(f, name, id);
	return fixture_delete(f, id);
}

static void assert_living(const struct fixture *f, uint64_t log, uint64_t start, uint64_t end)
{
	struct state_living x = state_log_living(f->s, log);
	if (x.start != start || x.end != end)
		fail_msg("log %llu lives from %llu to %llu", (unsigned long long)log, (unsigned long long)x.start,
			 (unsigned long long)x.end);
	assert_true(state_log_living_start(f->s, log) == start);
}

/* ---------------------------------------------------------------- create */

/* /source: text/plain, TTL 60, two partitions on node 1, trimmed to 10 and 20. Node 2 has most of the room. */
static void world(struct fixture *f, uint8_t ret_id[16])
{
	fixture_new(f);
	fixture_register_slots(f, 2, 'n', 100);
	struct create_args a = {
		.name = "/source", .type = "text/plain; charset=utf-8", .ttl = 60, .partitions = 2, .n_owners = 2,
		.owner = { 1, 1 },
	};
	must(fixture_create(f, &a) == PICO_OK);
	memcpy(ret_id, f->topic_id, 16);
	const struct state_topic *t = named(f, "/source");
	uint64_t log[2] = { t->partition[0].log_id, t->partition[1].log_id }, start[2] = { 10, 20 };
	must(fixture_trim(f, log, start, 2) == PICO_OK);
	must(fixture_create_name(f, "/elsewhere") == PICO_OK && named(f, "/elsewhere")->partition[0].owner == 2);
	must(fixture_create_name(f, "/other") == PICO_OK);
}

static const uint8_t nobody[16] = { 1 };

static const struct fork_case {
	const char *name;
	struct create_args a;           /* source NULL: /source */
	const char *source;             /* another one's name */
	uint32_t error;
	const char *word;
} fork_cases[] = {
	{ "at the tail", { .n_points = 2, .offset = { 50, 60 }, .parent_end = { 50, 60 }, .at_tail = true }, NULL, PICO_OK,
	  NULL },
	{ "at the start", { .n_points = 2, .offset = { 10, 20 }, .parent_end = { 10, 20 } }, NULL, PICO_OK, NULL },
	{ "inside a batch", { .n_points = 2, .offset = { 12, 20 }, .parent_end = { 8, 20 }, .initial = true }, NULL, PICO_OK,
	  NULL },
	{ "below the start", { .n_points = 2, .offset = { 9, 20 }, .parent_end = { 9, 20 } }, NULL, PICO_OUT_OF_RANGE,
	  "/source begins at offset 10; 9 was trimmed" },
	{ "below the second start", { .n_points = 2, .offset = { 10, 19 }, .parent_end = { 10, 19 } }, NULL,
	  PICO_OUT_OF_RANGE, "begins at offset 20" },
	{ "reads too far", { .n_points = 2, .offset = { 10, 20 }, .parent_end = { 11, 20 } }, NULL, PICO_BAD_REQUEST,
	  "reads its source below 11" },
	{ "inside a batch of the second", { .n_points = 2, .offset = { 10, 22 }, .parent_end = { 10, 20 }, .initial = true }, NULL,
	  PICO_BAD_REQUEST, "partition 0" },
	{ "not looked up", { .n_points = 2, .offset = { 12, 20 }, .parent_end = { STATE_PARENT_END_UNKNOWN, 20 } }, NULL,
	  PICO_UNAVAILABLE, "try again" },
	{ "nothing copied", { .n_points = 2, .offset = { 12, 20 }, .parent_end = { 11, 20 } }, NULL, PICO_BAD_REQUEST,
	  "[11, 12) have to be copied" },
	{ "piece not copied", { .n_points = 2, .offset = { 12, 20 }, .parent_end = { 12, 20 }, .sub_offset = 3 }, NULL,
	  PICO_BAD_REQUEST, "sub-offset" },
	{ "no source", { .source = nobody, .offset = { 1 }, .parent_end = { 1 } }, NULL, PICO_NOT_FOUND, "not there" },
	{ "source id cut", { .source = nobody, .source_len = 15 }, NULL, PICO_NOT_FOUND, "not there" },
	{ "other type", { .type = "text/html", .n_points = 2, .offset = { 10, 20 }, .parent_end = { 10, 20 } }, NULL,
	  PICO_CONFLICT, "/source holds text/plain" },
	{ "owners", { .n_points = 2, .n_owners = 1, .owner = { 1 }, .offset = { 10, 20 }, .parent_end = { 10, 20 } }, NULL,
	  PICO_BAD_REQUEST, "owners cannot be named" },
	{ "not ours", { .offset = { 0 } }, "/elsewhere", PICO_NOT_OWNER, "node 1 does not own all of /elsewhere" },
	{ "grown meanwhile", { .n_points = 1, .offset = { 10 }, .parent_end = { 10 } }, NULL, PICO_UNAVAILABLE,
	  "has 2 partitions by now, not 1" },
	{ "other partitions", { .n_points = 2, .partitions = 3, .offset = { 10, 20 }, .parent_end = { 10, 20 } }, NULL,
	  PICO_BAD_REQUEST, "not 3" },
	{ "its own", { .n_points = 2, .partitions = 2, .ttl = 5, .schema = "s", .offset = { 11, 21 },
	  .parent_end = { 11, 21 }, .closed = true }, NULL, PICO_OK, NULL },
};

static void run_case(const struct fork_case *k)
{
	struct fixture f;
	uint8_t id[16], other[16];
	world(&f, id);
	struct kept before = { 0 }, after = { 0 };
	struct create_args a = k->a;
	a.name = "/fork";
	a.source = a.source != NULL ? a.source : id;
	if (k->source != NULL) {
		id_of(&f, k->source, other);
		a.source = other;
	}
	fixture_keep(&f, &before);
	uint32_t error = fixture_create(&f, &a);
	if (error != k->error || (k->word != NULL && strstr(f.message, k->word) == NULL))
		fail_msg("%s: error %u, message '%s'", k->name, error, f.message);
	const struct state_topic *t = named(&f, "/fork"), *source = named(&f, "/source");
	fixture_keep(&f, &after);
	if (k->error != PICO_OK) {
		assert_null(t);
		assert_true(kept_equal(&before, &after));
	} else {
		assert_true(f.one.created && t->n_partitions == 2 && state_topic_source(t) == source);
		assert_true(t->ttl_seconds == a.ttl && t->closed == a.closed && t->created_closed == a.closed);
		assert_int_equal(state_topic_n_forks(source), 1);
		assert_ptr_equal(state_topic_next_fork(source, NULL), t);
		assert_null(state_topic_next_fork(source, t));
		for (uint32_t i = 0; i < 2; i++) {
			struct state_parent p = state_partition_parent(t, i);
			assert_true(p.log_id == source->partition[i].log_id && p.end == a.parent_end[i] &&
				    p.offset == a.offset[i]);
			/* Its start is the source's, not the point; its owner, too. */
			assert_true(t->partition[i].start == source->partition[i].start && t->partition[i].owner == 1);
			assert_int_equal(state_partition_parent(source, i).log_id, 0);
		}
	}
	kept_done(&before);
	kept_done(&after);
	fixture_done(&f);
}

static void test_create_cases(void **arg)
{
	for (size_t i = 0; i < sizeof(fork_cases) / sizeof(fork_cases[0]); i++)
		run_case(&fork_cases[i]);
}

/* The same create again finds the fork; one that differs in a fork field does not. */
static void test_create_again(void **arg)
{
	struct fixture f;
	uint8_t id[16], other[16];
	world(&f, id);
	id_of(&f, "/other", other);
	struct create_args a = {
		.name = "/fork", .source = id, .n_points = 2, .offset = { 12, 20 }, .parent_end = { 8, 20 }, .initial = true,
		.sub_offset = 4,
	}, b = a;
	assert_int_equal(fixture_create(&f, &a), PICO_OK);
	trim(&f, "/source", 15);
	b.parent_end[0] = 12;                                   /* not what was asked for */
	assert_int_equal(fixture_create(&f, &b), PICO_OK);
	assert_false(f.one.created);
	delete(&f, "/source");
	assert_int_equal(fixture_create(&f, &a), PICO_OK);      /* whatever became of the source */
	assert_false(f.one.created);
	b = a;
	b.offset[0] = 13;
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "/fork exists as a fork of /source, or at another offset"));
	b = a;
	b.sub_offset = 5;
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	b = a;
	b.at_tail = true;
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	b = a;
	b.n_points = 1;
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	b = a;
	b.source = other;
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	b = a;
	b.source = NULL;
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "exists as a fork of /source"));
	b = a;
	b.name = "/other";
	assert_int_equal(fixture_create(&f, &b), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "/other exists and is no fork"));
	/* At the tail: wherever that was. */
	struct create_args tail = { .name = "/tail", .source = other, .offset = { 30 }, .parent_end = { 30 }, .at_tail = true };
	uint8_t owner1[16];
	struct create_args here = { .name = "/here", .n_owners = 1, .owner = { 1 } };
	assert_int_equal(fixture_create(&f, &here), PICO_OK);
	id_of(&f, "/here", owner1);
	tail.source = owner1;
	assert_int_equal(fixture_create(&f, &tail), PICO_OK);
	tail.offset[0] = tail.parent_end[0] = 31;
	assert_int_equal(fixture_create(&f, &tail), PICO_OK);
	assert_false(f.one.created);
	tail.at_tail = false;
	assert_int_equal(fixture_create(&f, &tail), PICO_CONFLICT);
	fixture_done(&f);
}

/* A chain as long as may be, and one more. */
static void test_chain(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	char name[16] = "/f0", next[16];
	fixture_create_name(&f, name);
	for (int i = 1; i <= 65; i++) {
		snprintf(next, sizeof(next), "/f%d", i);
		uint32_t error = fork_of(&f, next, name, (uint64_t)(100 - i), (uint64_t)(100 - i));
		assert_int_equal(error, i <= 64 ? PICO_OK : PICO_BAD_REQUEST);
		memcpy(name, next, sizeof(name));
	}
	assert_non_null(strstr(f.message, "at most 64 sources"));
	struct kept k = { 0 };
	fixture_keep(&f, &k);
	struct state *s = kept_load(&k, state_idx(f.s));
	assert_non_null(s);
	assert_int_equal(state_n_topics(s), 65);
	state_free(s);
	kept_done(&k);
	/* All but the last go; then that one, and everything with it. */
	uint64_t root = named(&f, "/f0")->partition[0].log_id, last = named(&f, "/f64")->partition[0].log_id;
	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "/f%d", i);
		assert_int_equal(delete(&f, name), PICO_OK);
	}
	assert_int_equal(state_n_topics(f.s), 1);
	assert_living(&f, root, 0, 36);                /* below every point on the way */
	assert_living(&f, last, 0, UINT64_MAX);
	assert_int_equal(delete(&f, "/f64"), PICO_OK);
	assert_int_equal(state_n_topics(f.s), 0);
	assert_null(state_topic_next_any(f.s, slice_of("", 0)));
	assert_living(&f, root, UINT64_MAX, 0);
	fixture_done(&f);
}

/* ---------------------------------------------------------------- SOFT_DELETED */

static void assert_hidden(const struct fixture *f, const uint8_t id[16], uint64_t log)
{
	uint32_t partition;
	assert_null(named(f, "/a/b"));
	assert_null(state_topic_by_id(f->s, id));
	assert_null(state_topic_by_alias(f->s, slice_str("a.b")));
	assert_null(state_topic_find(f->s, slice_str("a/b")));
	assert_null(state_topic_find(f->s, slice_str("a.b")));
	for (const struct state_topic *t = state_topic_next(f->s, slice_of("", 0)); t != NULL;
	     t = state_topic_next(f->s, slice_str(t->name)))
		assert_memory_not_equal(t->id, id, 16);
	for (const struct state_topic *t = state_topic_next_alias(f->s, slice_of("", 0)); t != NULL;
	     t = state_topic_next_alias(f->s, slice_str(t->kafka_topic)))
		assert_memory_not_equal(t->id, id, 16);
	/* Those who ask for it find it. */
	const struct state_topic *soft = state_soft_deleted_by_id(f->s, id);
	assert_true(soft != NULL && soft->soft_deleted);
	assert_ptr_equal(state_soft_deleted_find(f->s, slice_str("/a/b")), soft);
	assert_ptr_equal(state_soft_deleted_find(f->s, slice_str("a.b")), soft);
	assert_ptr_equal(state_topic_by_log(f->s, log, &partition), soft);
	assert_ptr_equal(state_topic_next_any(f->s, slice_str("/a/a")), soft);
}

/* Every row of names that a deleted topic with forks still holds. */
static void test_soft_deleted_names(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_create_name(&f, "/a/b");
	fixture_create_name(&f, "/z");
	uint8_t id[16], z[16];
	id_of(&f, "/a/b", id);
	id_of(&f, "/z", z);
	uint64_t log = named(&f, "/a/b")->partition[0].log_id;
	fork_of(&f, "/fork", "/a/b", 0, 0);
	assert_int_equal(fixture_delete(&f, id), PICO_OK);
	assert_int_equal(state_n_topics(f.s), 2);
	assert_hidden(&f, id, log);
	/* The path: 409. */
	assert_int_equal(fixture_create_name(&f, "/a/b"), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "/a/b was deleted; its name is free when the last fork of it is gone"));
	assert_memory_equal(f.topic_id, id, 16);
	/* The alias: 409, and 36 for who has no other name; derived, it is not given. */
	struct create_args asks = { .name = "/x", .has_kafka = true, .kafka = "a.b" }, derives = { .name = "/a.b" };
	assert_int_equal(fixture_create(&f, &asks), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "a.b belongs to /a/b"));
	assert_int_equal(fixture_create(&f, &derives), PICO_OK);
	assert_null(named(&f, "/a.b")->kafka_topic);
	/* Not even by its path without the slash: the name is the deleted one's. */
	assert_null(state_topic_find(f.s, slice_str("a.b")));
	struct update_args takes = { .alias = "a.b" };
	assert_int_equal(fixture_update(&f, z, &takes), PICO_CONFLICT);
	struct create_args again = { .name = "/a.b", .has_kafka = true, .kafka = "a.b" };
	assert_int_equal(fixture_create(&f, &again), PICO_CONFLICT);
	/* Commands that name it. */
	struct update_args none = { .alias = "" };
	assert_int_equal(fixture_update(&f, id, &none), PICO_GONE);
	assert_int_equal(fixture_grow(&f, id, 5, NULL, 0), PICO_GONE);
	assert_int_equal(fixture_close(&f, id, 0, false), PICO_GONE);
	assert_int_equal(fixture_delete(&f, id), PICO_GONE);
	assert_int_equal(fixture_touch(&f, id, 5), PICO_GONE);
	assert_int_equal(fixture_expire(&f, id, 0), PICO_GONE);
	assert_int_equal(fork_of(&f, "/late", "/a/b", 0, 0), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "/a/b was deleted; it is kept for the forks it has"));
	uint64_t start = state_soft_deleted_by_id(f.s, id)->partition[0].start;
	assert_int_equal(trim(&f, "/a/b", 50), PICO_OK);                /* skipped */
	assert_int_equal(state_soft_deleted_by_id(f.s, id)->partition[0].start, start);
	/* Free with the last fork. */
	assert_int_equal(delete(&f, "/fork"), PICO_OK);
	assert_null(any(&f, "/a/b"));
	assert_int_equal(fixture_update(&f, z, &takes), PICO_OK);
	assert_int_equal(fixture_create_name(&f, "/a/b"), PICO_OK);
	assert_true(f.one.created);
	assert_memory_not_equal(f.topic_id, id, 16);
	fixture_done(&f);
}

/* P <- F <- G and P <- H: deleted in every order, a topic goes when nothing is forked from it any more. */
static void test_soft_deleted_orders(void **arg)
{
	static const char *const name[4] = { "/P", "/F", "/G", "/H" };
	static const int source[4] = { -1, 0, 1, 0 };
	for (int order = 0; order < 24; order++) {
		int left[4] = { 0, 1, 2, 3 }, n = 4, k = order;
		bool deleted[4] = { false };
		struct fixture f;
		fixture_new(&f);
		fixture_create_name(&f, "/P");
		for (int i = 1; i < 4; i++)
			assert_int_equal(fork_of(&f, name[i], name[source[i]], 5, 5), PICO_OK);
		for (; n > 0; n--) {
			int i = k % n, x = left[i];
			k /= n;
			left[i] = left[n - 1];
			uint64_t log = any(&f, name[x])->partition[0].log_id;
			assert_int_equal(delete(&f, name[x]), PICO_OK);
			deleted[x] = true;
			bool kept[4];
			kept[2] = !deleted[2];
			kept[3] = !deleted[3];
			kept[1] = !deleted[1] || kept[2];
			kept[0] = !deleted[0] || kept[1] || kept[3];
			for (int y = 0; y < 4; y++) {
				assert_int_equal(named(&f, name[y]) != NULL, !deleted[y]);
				assert_int_equal(any(&f, name[y]) != NULL, kept[y]);
			}
			uint32_t partition;
			assert_int_equal(state_topic_by_log(f.s, log, &partition) != NULL, kept[x]);
		}
		assert_int_equal(state_n_topics(f.s), 0);
		assert_null(state_topic_next_any(f.s, slice_of("", 0)));
		fixture_done(&f);
	}
}

/* A source that expires is kept, too; settings and growth leave the family as it is. */
static void test_expiry_and_settings(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	struct create_args ttl = { .name = "/ttl", .ttl = 60 };
	fixture_create(&f, &ttl);
	assert_int_equal(fork_of(&f, "/fork", "/ttl", 7, 7), PICO_OK);
	assert_int_equal(fork_of(&f, "/fork/2", "/fork", 7, 7), PICO_OK);
	uint8_t id[16], fork[16];
	id_of(&f, "/ttl", id);
	id_of(&f, "/fork", fork);
	/* Both sides are replaced. */
	struct update_args u = { .alias = "renamed", .config = { "retention.ms", "5" } };
	assert_int_equal(fixture_update(&f, fork, &u), PICO_OK);
	u.alias = "source";
	assert_int_equal(fixture_update(&f, id, &u), PICO_OK);
	assert_int_equal(fixture_grow(&f, id, 3, NULL, 0), PICO_OK);
	assert_int_equal(fixture_grow(&f, fork, 2, NULL, 0), PICO_OK);
	const struct state_topic *source = named(&f, "/ttl"), *t = named(&f, "/fork");
	assert_ptr_equal(state_topic_source(t), source);
	assert_ptr_equal(state_topic_next_fork(source, NULL), t);
	assert_ptr_equal(state_topic_source(named(&f, "/fork/2")), t);
	assert_true(state_topic_n_forks(source) == 1 && state_topic_n_forks(t) == 1);
	assert_true(state_partition_parent(t, 0).end == 7 && state_partition_parent(t, 1).log_id == 0);
	assert_living(&f, t->partition[1].log_id, 0, UINT64_MAX);
	assert_int_equal(fixture_expire(&f, id, 0), PICO_OK);
	assert_true(state_soft_deleted_by_id(f.s, id) != NULL && named(&f, "/ttl") == NULL);
	assert_int_equal(delete(&f, "/fork"), PICO_OK);
	assert_int_equal(state_n_topics(f.s), 1);
	assert_int_equal(delete(&f, "/fork/2"), PICO_OK);
	assert_null(state_topic_next_any(f.s, slice_of("", 0)));
	fixture_done(&f);
}

/* ---------------------------------------------------------------- what lives */

static void test_living(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_create_name(&f, "/P");
	uint64_t p = named(&f, "/P")->partition[0].log_id;
	assert_living(&f, p, 0, UINT64_MAX);
	assert_living(&f, 999, UINT64_MAX, 0);
	trim(&f, "/P", 10);
	assert_living(&f, p, 10, UINT64_MAX);
	fork_of(&f, "/F", "/P", 50, 50);
	uint64_t of = named(&f, "/F")->partition[0].log_id;
	trim(&f, "/P", 40);
	assert_living(&f, p, 10, UINT64_MAX);           /* the fork still shows them */
	trim(&f, "/F", 20);
	assert_living(&f, p, 20, UINT64_MAX);
	fork_of(&f, "/G", "/F", 70, 70);                /* reads F below 70, P below 50 */
	trim(&f, "/F", 60);
	assert_living(&f, of, 20, UINT64_MAX);
	assert_living(&f, p, 20, UINT64_MAX);
	delete(&f, "/P");
	assert_living(&f, p, 20, 50);
	trim(&f, "/G", 49);
	assert_living(&f, p, 49, 50);
	assert_living(&f, of, 49, UINT64_MAX);
	trim(&f, "/G", 50);
	assert_living(&f, p, UINT64_MAX, 0);            /* kept by name, without a frame */
	assert_non_null(any(&f, "/P"));
	assert_living(&f, of, 50, UINT64_MAX);
	delete(&f, "/F");
	assert_living(&f, of, 50, 70);
	trim(&f, "/G", 70);
	assert_living(&f, of, UINT64_MAX, 0);
	assert_living(&f, named(&f, "/G")->partition[0].log_id, 70, UINT64_MAX);
	fixture_done(&f);
}

#define FAMILY 12

struct member {
	bool exists, soft;
	int source;                     /* -1: none */
	uint64_t log, start, end;       /* end: parent_end */
};

/* Whether some topic shows offset x of log `root`, read link by link. */
static bool model_shows(const struct member *m, int root, uint64_t x)
{
	for (int i = 0; i < FAMILY; i++) {
		if (!m[i].exists || m[i].soft || x < m[i].start)
			continue;
		int k = i;
		while (k != root && m[k].source >= 0 && x < m[k].end)
			k = m[k].source;
		if (k == root)
			return true;
	}
	return false;
}

static void model_delete(struct member *m, int i)
{
	m[i].soft = true;
	for (bool again = true; again;) {
		again = false;
		for (int k = 0; k < FAMILY; k++) {
			bool has_forks = false;
			for (int j = 0; j < FAMILY; j++)
				has_forks |= m[j].exists && m[j].source == k;
			if (m[k].exists && m[k].soft && !has_forks) {
				m[k].exists = false;
				again = true;
			}
		}
	}
}

static unsigned random_below(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % n;
}

static void random_step(struct fixture *f, struct member *m, unsigned *seed)
{
	int i = (int)random_below(seed, FAMILY), source = (int)random_below(seed, FAMILY);
	char name[16], source_name[16];
	snprintf(name, sizeof(name), "/m%d", i);
	snprintf(source_name, sizeof(source_name), "/m%d", source);
	if (!m[i].exists && (source == i || !m[source].exists)) {
		assert_int_equal(fixture_create_name(f, name), PICO_OK);
		m[i] = (struct member){ .exists = true, .source = -1, .log = named(f, name)->partition[0].log_id };
	} else if (!m[i].exists) {
		uint64_t offset = random_below(seed, 30), end = offset - random_below(seed, 3) % (offset + 1);
		uint32_t error = fork_of(f, name, source_name, offset, end);
		assert_int_equal(error, m[source].soft ? PICO_CONFLICT :
				 offset < m[source].start ? PICO_OUT_OF_RANGE : PICO_OK);
		if (error == PICO_OK)
			m[i] = (struct member){ .exists = true, .source = source, .start = m[source].start, .end = end,
						.log = named(f, name)->partition[0].log_id };
	} else if (random_below(seed, 3) == 0) {
		assert_int_equal(delete(f, name), m[i].soft ? PICO_GONE : PICO_OK);
		model_delete(m, i);
	} else {
		uint64_t start = random_below(seed, 35);
		trim(f, name, start);
		if (!m[i].soft && start > m[i].start)
			m[i].start = start;
	}
}

static void compare_family(const struct state *s, const struct member *m)
{
	for (int i = 0; i < FAMILY; i++) {
		struct state_living x = m[i].log == 0 ? (struct state_living){ UINT64_MAX, 0 } : state_log_living(s, m[i].log);
		uint64_t first = UINT64_MAX, behind = 0;
		for (uint64_t k = 0; k < 40; k++)
			if (m[i].exists && model_shows(m, i, k)) {
				first = first < k ? first : k;
				behind = k + 1;
			}
		assert_true(x.start == first);
		if (m[i].exists && !m[i].soft)
			assert_true(x.end == UINT64_MAX);
		else
			assert_true(x.end == behind);
	}
}

static void test_living_random(void **arg)
{
	for (unsigned n = 1; n <= 30; n++) {
		struct fixture f;
		struct member m[FAMILY] = { 0 };
		unsigned seed = n;
		fixture_new(&f);
		for (int turn = 0; turn < 400; turn++) {
			random_step(&f, m, &seed);
			if (turn % 4 == 0)
				compare_family(f.s, m);
			if (turn % 40 != 0)
				continue;
			struct kept k = { 0 };
			fixture_keep(&f, &k);
			struct state *loaded = kept_load(&k, state_idx(f.s));
			assert_non_null(loaded);
			assert_int_equal(state_n_topics(loaded), state_n_topics(f.s));
			compare_family(loaded, m);
			state_free(loaded);
			kept_done(&k);
		}
		fixture_done(&f);
	}
}

/* ---------------------------------------------------------------- snapshots */

static struct sql_entity *entity(struct kept *k, const char *name)
{
	for (size_t i = 0; i < k->n; i++) {
		Meta__TopicEntity *e = memcmp(k->e[i].key.p, "topic/", 6) != 0 ? NULL :
			meta__topic_entity__unpack(NULL, k->e[i].payload.n, k->e[i].payload.p);
		bool found = e != NULL && strcmp(e->name, name) == 0;
		if (e != NULL)
			meta__topic_entity__free_unpacked(e, NULL);
		if (found)
			return &k->e[i];
	}
	fail_msg("%s is not in the snapshot", name);
	return NULL;
}

enum breakage { NO_SOURCE, SHORT_SOURCE, OWN_SOURCE, CIRCLE, WRONG_PARENT, NO_PARENT, PARENT_ALONE, SOFT_ALONE, BREAKAGES };

static void break_entity(Meta__TopicEntity *e, const Meta__TopicEntity *source, enum breakage what)
{
	switch (what) {
	case NO_SOURCE: memset(e->source.data, 9, 16); break;
	case SHORT_SOURCE: e->source.len = 15; break;
	case OWN_SOURCE: memcpy(e->source.data, e->topic_id.data, 16); e->partitions[0]->parent_log = e->partitions[0]->log_id; break;
	case WRONG_PARENT: e->partitions[0]->parent_log = e->partitions[0]->log_id; break;
	case NO_PARENT: e->partitions[0]->parent_log = 0; break;
	case PARENT_ALONE: e->source.len = 0; break;
	case SOFT_ALONE: e->soft_deleted = true; break;
	case CIRCLE: case BREAKAGES: break;
	}
}

static void replace_entity(struct sql_entity *slot, const Meta__TopicEntity *e)
{
	free((void *)slot->payload.p);
	size_t n = meta__topic_entity__get_packed_size(e);
	uint8_t *bytes = must_calloc(1, n + 1);
	meta__topic_entity__pack(e, bytes);
	slot->payload = slice_of(bytes, n);
}

/* What no sequence of commands leaves behind is not loaded. */
static void test_load_refuses(void **arg)
{
	for (int what = 0; what < BREAKAGES; what++) {
		struct fixture f;
		fixture_new(&f);
		fixture_create_name(&f, "/P");
		fork_of(&f, "/F", "/P", 5, 3);
		fork_of(&f, "/G", "/F", 5, 5);
		struct kept k = { 0 };
		fixture_keep(&f, &k);
		struct state *s = kept_load(&k, state_idx(f.s));
		assert_non_null(s);
		state_free(s);
		struct sql_entity *slot = entity(&k, what == SOFT_ALONE ? "/G" : "/F"), *g = entity(&k, "/G");
		Meta__TopicEntity *e = meta__topic_entity__unpack(NULL, slot->payload.n, slot->payload.p);
		Meta__TopicEntity *other = meta__topic_entity__unpack(NULL, g->payload.n, g->payload.p);
		if (what == CIRCLE) {
			memcpy(e->source.data, other->topic_id.data, 16);
			e->partitions[0]->parent_log = other->partitions[0]->log_id;
		}
		break_entity(e, other, (enum breakage)what);
		replace_entity(slot, e);
		s = kept_load(&k, state_idx(f.s));
		if (s != NULL)
			fail_msg("breakage %d was loaded", what);
		meta__topic_entity__free_unpacked(e, NULL);
		meta__topic_entity__free_unpacked(other, NULL);
		kept_done(&k);
		fixture_done(&f);
	}
}

/* A cascade while a snapshot is being encoded: it holds the family as it was, the next one that it is gone. */
static void test_snapshot_cascade(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	fixture_create_name(&f, "/P");
	fork_of(&f, "/F", "/P", 5, 3);
	fork_of(&f, "/G", "/F", 5, 5);
	delete(&f, "/P");
	delete(&f, "/F");
	struct kept k = { 0 };
	uint64_t idx = state_idx(f.s);
	state_snapshot_begin(f.s, 0, kept_add, &k);
	delete(&f, "/G");
	assert_false(state_snapshot_step(f.s, 1));
	state_snapshot_end(f.s);
	struct state *s = kept_load(&k, idx);
	assert_non_null(s);
	assert_int_equal(state_n_topics(s), 1);
	const struct state_topic *p = state_soft_deleted_find(s, slice_str("/P"));
	assert_non_null(p);
	assert_int_equal(state_log_living_start(s, p->partition[0].log_id), 0);
	assert_int_equal(state_log_living(s, p->partition[0].log_id).end, 3);
	state_free(s);
	state_covered(f.s, idx);
	state_snapshot_begin(f.s, idx, kept_add, &k);
	assert_false(state_snapshot_step(f.s, 1));
	state_snapshot_end(f.s);
	s = kept_load(&k, state_idx(f.s));
	assert_non_null(s);
	assert_null(state_topic_next_any(s, slice_of("", 0)));
	state_free(s);
	kept_done(&k);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_cases), cmocka_unit_test(test_create_again), cmocka_unit_test(test_chain),
		cmocka_unit_test(test_soft_deleted_names), cmocka_unit_test(test_soft_deleted_orders),
		cmocka_unit_test(test_expiry_and_settings), cmocka_unit_test(test_living),
		cmocka_unit_test(test_living_random), cmocka_unit_test(test_load_refuses),
		cmocka_unit_test(test_snapshot_cascade),
	};
	return cmocka_run_group_tests_name("meta_forks", tests, NULL, NULL);
}
