/* SPDX-License-Identifier: Apache-2.0
 *
 * Commits of data objects and what they may do, watermarks, trims and expiry: every rule with values. What is refused
 * leaves the state as it was, and the check beforehand says what apply says.
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

static struct object_row object(uint64_t number, uint32_t level, uint64_t first, uint64_t last)
{
	return (struct object_row){
		.id = { 1, 3, number }, .origin = 1, .level = level, .first_log = first, .last_log = last,
		.bytes = 1000 + number, .oldest_ms = 10, .newest_ms = 20,
		.end_offset = level == DATA_LEVEL_SINGLE ? 5 : 0,
	};
}

/*
 * Node 1: sessions 1 and 2 ENDED, 3 ACTIVE and the proposer; node 2: session 1 ENDED (recoverer itself), 2 ACTIVE. In the
 * catalogue: 1/3/1 (level 0), 1/3/2 (level 1), marked: 1/3/3.
 */
static void world(struct fixture *f)
{
	fixture_new(f);
	fixture_register(f, 1, 'b');
	fixture_register(f, 1, 'c');
	fixture_register(f, 2, 'd');
	fixture_register(f, 2, 'e');
	f->session = 3;
	f->proposal = 1;
	f->now_ms = 5000;
	struct commit_args a = { .add = { object(1, 0, 1, 9), object(2, 1, 1, 9), object(3, 0, 10, 19) } };
	must(fixture_commit(f, &a) == PICO_OK);
	struct commit_args b = { .remove = { { 1, 3, 3 } } };
	f->now_ms = 6000;
	must(fixture_commit(f, &b) == PICO_OK);
}

static uint64_t watermark(const struct fixture *f, uint32_t node, uint64_t session)
{
	return state_session_next(f->s, node, session - 1)->watermark;
}

static const struct object_row *find(const struct fixture *f, uint64_t number)
{
	return catalogue_find(state_catalogue(f->s), (struct object_id){ 1, 3, number });
}

/* ---------------------------------------------------------------- refusals */

struct commit_case {
	const char *name;
	struct commit_args a;
	uint32_t error;
	const char *word;
};

#define ROW(number_, level_, first_, last_)                                                          \
	{ .id = { 1, 3, number_ }, .origin = 1, .level = level_, .first_log = first_, .last_log = last_, .bytes = 1 }
#define SINGLE(number_, log_, from_, to_)                                                            \
	{ .id = { 1, 3, number_ }, .origin = 1, .level = 3, .first_log = log_, .last_log = log_, .bytes = 1, \
	  .first_offset = from_, .end_offset = to_ }

static const struct commit_case commit_cases[] = {
	{ "nothing at all", { 0 }, PICO_OK, NULL },
	{ "an object", { .add = { ROW(4, 0, 1, 9) } }, PICO_OK, NULL },
	{ "beside each other", { .add = { ROW(4, 0, 10, 19), ROW(5, 0, 1, 9), ROW(6, 0, 20, 20) } }, PICO_OK, NULL },
	{ "same logs, other levels", { .add = { ROW(4, 0, 1, 9), ROW(5, 1, 1, 9), ROW(6, 2, 1, 9) } }, PICO_OK, NULL },
	{ "of one log", { .add = { SINGLE(4, 5, 10, 20), SINGLE(5, 5, 0, 10), SINGLE(6, 6, 0, 10) } }, PICO_OK, NULL },
	{ "overlap", { .add = { ROW(4, 0, 5, 9), ROW(5, 0, 1, 5) } }, PICO_BAD_REQUEST,
	  "object 1/3/5 and object 1/3/4 of one run overlap" },
	{ "inside", { .add = { ROW(4, 1, 1, 9), ROW(5, 1, 3, 4) } }, PICO_BAD_REQUEST, "overlap" },
	{ "offsets overlap", { .add = { SINGLE(4, 5, 9, 20), SINGLE(5, 5, 0, 10) } }, PICO_BAD_REQUEST, "overlap" },
	{ "twice", { .add = { ROW(4, 0, 1, 9), ROW(5, 1, 1, 9), ROW(4, 2, 1, 9) } }, PICO_BAD_REQUEST,
	  "object 1/3/4 is added twice" },
	{ "known id", { .add = { ROW(4, 0, 1, 9), ROW(1, 1, 1, 9) } }, PICO_CONFLICT,
	  "object 1/3/1 is in the catalogue already" },
	{ "marked id", { .add = { ROW(3, 0, 1, 9) } }, PICO_CONFLICT, "object 1/3/3 is in the catalogue already" },
	{ "another node's", { .add = { { .id = { 2, 3, 4 }, .origin = 1, .bytes = 1 } } }, PICO_BAD_REQUEST,
	  "object 2/3/4 was not written by session 3 of node 1" },
	{ "another session's", { .add = { { .id = { 1, 2, 4 }, .origin = 1, .bytes = 1 } } }, PICO_BAD_REQUEST,
	  "not written by session 3" },
	{ "origin unknown", { .add = { { .id = { 1, 3, 4 }, .origin = 9, .bytes = 1 } } }, PICO_BAD_REQUEST,
	  "holds logs of node 9" },
	{ "of another node's logs", { .add = { { .id = { 1, 3, 4 }, .origin = 2, .bytes = 1 } } }, PICO_OK, NULL },
	{ "level 4", { .add = { ROW(4, 4, 1, 1) } }, PICO_BAD_REQUEST, "level" },
	{ "backwards", { .add = { ROW(4, 0, 2, 1) } }, PICO_BAD_REQUEST, "lower log" },
	{ "one of two logs", { .add = { { .id = { 1, 3, 4 }, .origin = 1, .level = 3, .last_log = 1, .end_offset = 1,
	  .bytes = 1 } } }, PICO_BAD_REQUEST, "names two" },
	{ "one log, no offsets", { .add = { SINGLE(4, 5, 0, 0) } }, PICO_BAD_REQUEST, "no offsets" },
	{ "offsets in a run", { .add = { { .id = { 1, 3, 4 }, .origin = 1, .end_offset = 1, .bytes = 1 } } },
	  PICO_BAD_REQUEST, "has offsets" },
	{ "times backwards", { .add = { { .id = { 1, 3, 4 }, .origin = 1, .oldest_ms = 1, .bytes = 1 } } },
	  PICO_BAD_REQUEST, "oldest" },
	{ "remove", { .remove = { { 1, 3, 1 }, { 1, 3, 2 } } }, PICO_OK, NULL },
	{ "remove unknown", { .remove = { { 1, 3, 1 }, { 1, 3, 9 } } }, PICO_NOT_FOUND,
	  "object 1/3/9 is not in the catalogue" },
	{ "remove marked", { .remove = { { 1, 3, 1 }, { 1, 3, 3 } } }, PICO_CONFLICT, "object 1/3/3 was removed before" },
	{ "remove twice", { .remove = { { 1, 3, 1 }, { 1, 3, 2 }, { 1, 3, 1 } } }, PICO_BAD_REQUEST,
	  "object 1/3/1 is removed twice" },
	{ "remove what is added", { .add = { ROW(4, 0, 1, 9) }, .remove = { { 1, 3, 4 } } }, PICO_NOT_FOUND, "1/3/4" },
	{ "good add, bad remove", { .has_wal = true, .wal = { 1, 1, 0, 5 }, .add = { ROW(4, 0, 1, 9) },
	  .remove = { { 1, 3, 1 }, { 1, 3, 9 } } }, PICO_NOT_FOUND, "1/3/9" },
	{ "oldest session", { .has_wal = true, .wal = { 1, 1, 0, 5 }, .add = { ROW(4, 0, 1, 9) } }, PICO_OK, NULL },
	{ "WAL without frames", { .has_wal = true, .wal = { 1, 1, 0, 5 } }, PICO_OK, NULL },
	{ "no WAL object", { .has_wal = true, .wal = { 1, 1, 0, 0 } }, PICO_OK, NULL },
	{ "WAL backwards", { .has_wal = true, .wal = { 1, 1, 1, 0 } }, PICO_BAD_REQUEST, "from 1 to 0 are none" },
	{ "above the watermark", { .has_wal = true, .wal = { 1, 1, 1, 5 } }, PICO_CONFLICT,
	  "session 1 of node 1 is packed up to 0, not 1" },
	{ "second ended session", { .has_wal = true, .wal = { 1, 2, 0, 5 } }, PICO_CONFLICT,
	  "a session of node 1 before 2 is not recovered" },
	{ "own session", { .has_wal = true, .wal = { 1, 3, 0, 5 } }, PICO_CONFLICT, "before 3 is not recovered" },
	{ "session unknown", { .has_wal = true, .wal = { 1, 4, 0, 5 } }, PICO_NOT_FOUND, "node 1 has no session 4" },
	{ "node unknown", { .has_wal = true, .wal = { 7, 1, 0, 5 } }, PICO_NOT_FOUND, "node 7 has no session 1" },
	{ "somebody else recovers", { .has_wal = true, .wal = { 2, 1, 0, 5 } }, PICO_NOT_OWNER,
	  "session 1 of node 2 is not node 1's to pack" },
	{ "somebody else runs", { .has_wal = true, .wal = { 2, 2, 0, 5 } }, PICO_NOT_OWNER, "not node 1's to pack" },
	{ "origin is not the WAL's", { .has_wal = true, .wal = { 1, 1, 0, 5 },
	  .add = { { .id = { 1, 3, 4 }, .origin = 2, .bytes = 1 } } }, PICO_BAD_REQUEST, "comes from the WAL of node 1" },
};

static size_t count_objects(const struct commit_args *a)
{
	size_t n = 0;
	while (n < 8 && a->add[n].bytes != 0)
		n++;
	return n;
}

static void run_case(const struct commit_case *k)
{
	struct fixture f;
	world(&f);
	const struct catalogue *c = state_catalogue(f.s);
	uint32_t error = fixture_check_commit(&f, &k->a);
	if (error != k->error || (k->word != NULL && strstr(f.message, k->word) == NULL))
		fail_msg("%s, checked: error %u, message '%s'", k->name, error, f.message);
	struct kept before = { 0 }, after = { 0 };
	fixture_keep(&f, &before);
	uint32_t applied = fixture_commit(&f, &k->a);
	if (applied != k->error || (k->word != NULL && strstr(f.message, k->word) == NULL))
		fail_msg("%s: error %u, message '%s'", k->name, applied, f.message);
	if (k->error != PICO_OK) {
		fixture_keep(&f, &after);
		if (!kept_equal(&before, &after))
			fail_msg("%s changed something", k->name);
	} else {
		assert_int_equal(catalogue_count(c), 3 + count_objects(&k->a));
		for (size_t i = 0; i < count_objects(&k->a); i++)
			assert_false(find(&f, k->a.add[i].id.number)->marked);
		for (size_t i = 0; i < 8 && k->a.remove[i].node != 0; i++)
			assert_true(find(&f, k->a.remove[i].number)->marked);
		if (k->a.has_wal)
			assert_int_equal(watermark(&f, k->a.wal.node, k->a.wal.session), k->a.wal.to);
	}
	kept_done(&before);
	kept_done(&after);
	fixture_done(&f);
}

static void test_commit_cases(void **arg)
{
	for (size_t i = 0; i < sizeof(commit_cases) / sizeof(commit_cases[0]); i++)
		run_case(&commit_cases[i]);
}

/* ---------------------------------------------------------------- what a commit does */

static void test_commit_rows(void **arg)
{
	struct fixture f;
	world(&f);
	struct object_row single = object(7, DATA_LEVEL_SINGLE, 4, 4);
	single.first_offset = 3;
	struct commit_args a = {
		.add = { object(4, 1, 1, 4), object(5, 0, 1, 9), object(6, 1, 5, 9), single }, .remove = { { 1, 3, 2 } },
	};
	f.now_ms = 9000;
	assert_int_equal(fixture_commit(&f, &a), PICO_OK);
	/* One run a level and command; numbers rise from command to command. */
	assert_int_equal(find(&f, 1)->run, 1);
	assert_int_equal(find(&f, 2)->run, 2);
	assert_int_equal(find(&f, 5)->run, 3);
	assert_int_equal(find(&f, 4)->run, 4);
	assert_int_equal(find(&f, 6)->run, 4);
	assert_int_equal(find(&f, 7)->run, 5);
	const struct object_row *row = find(&f, 7);
	assert_true(row->level == 3 && row->origin == 1 && row->first_log == 4 && row->last_log == 4 &&
		    row->bytes == 1007 && row->oldest_ms == 10 && row->newest_ms == 20 && row->first_offset == 3 &&
		    row->end_offset == 5 && !row->marked && row->changed_idx == state_idx(f.s));
	row = find(&f, 2);
	assert_true(row->marked && row->marked_ms == 9000 && row->run == 2 && row->changed_idx == state_idx(f.s));
	assert_true(find(&f, 3)->marked_ms == 6000 && find(&f, 3)->changed_idx < row->changed_idx);
	/* The state's clock, not the row's. */
	f.now_ms = 100;
	struct commit_args b = { .remove = { { 1, 3, 5 } } };
	assert_int_equal(fixture_commit(&f, &b), PICO_OK);
	assert_int_equal(find(&f, 5)->marked_ms, 9000);
	fixture_done(&f);
}

/* A row that names a run takes the place of one that goes; what is added beside it has a run of its own. */
static void test_rewritten_rows(void **state)
{
	struct fixture f;
	world(&f);
	struct commit_args a = { .add = { object(4, 1, 3, 6), object(5, 1, 7, 9) } };
	assert_int_equal(fixture_commit(&f, &a), PICO_OK);
	uint64_t run = find(&f, 4)->run;
	struct commit_args b = { .add = { object(6, 1, 4, 4), object(7, 1, 5, 6), object(8, 0, 5, 6) }, .remove = { { 1, 3, 4 } } };
	b.add[0].run = b.add[1].run = run;
	b.add[0].last_log = 7;                  /* beyond it */
	assert_int_equal(fixture_commit(&f, &b), PICO_BAD_REQUEST);
	b.add[0].last_log = 4;
	b.add[2].run = run;                     /* of another level */
	assert_int_equal(fixture_commit(&f, &b), PICO_BAD_REQUEST);
	b.add[2].run = 0;
	b.add[1].run = run + 1;
	assert_int_equal(fixture_commit(&f, &b), PICO_BAD_REQUEST);
	assert_false(find(&f, 4)->marked);
	b.add[1].run = run;
	assert_int_equal(fixture_commit(&f, &b), PICO_OK);
	assert_true(find(&f, 4)->marked);
	assert_true(find(&f, 6)->run == run && find(&f, 7)->run == run && find(&f, 8)->run == run + 1);
	struct commit_args c = { .add = { object(9, 1, 7, 8) } };       /* nothing goes */
	c.add[0].run = run;
	assert_int_equal(fixture_commit(&f, &c), PICO_BAD_REQUEST);
	fixture_done(&f);
}

static uint32_t pack(struct fixture *f, uint64_t session, uint64_t from, uint64_t to)
{
	struct commit_args a = { .has_wal = true, .wal = { 1, session, from, to } };
	return fixture_commit(f, &a);
}

/* Three sessions are packed and recovered in order; the running one last. */
static void test_watermarks(void **arg)
{
	struct fixture f;
	world(&f);
	assert_int_equal(pack(&f, 1, 0, 4), PICO_OK);
	assert_int_equal(watermark(&f, 1, 1), 4);
	assert_int_equal(pack(&f, 1, 0, 4), PICO_CONFLICT);             /* proposed again under another number */
	assert_int_equal(pack(&f, 1, 3, 9), PICO_CONFLICT);
	assert_int_equal(fixture_recovered(&f, 1, 1, 6), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "session 1 of node 1 is packed up to 4, not to its cut 6"));
	assert_int_equal(pack(&f, 1, 4, 6), PICO_OK);
	assert_int_equal(pack(&f, 2, 0, 1), PICO_CONFLICT);
	assert_int_equal(fixture_recovered(&f, 1, 2, 0), PICO_CONFLICT);
	assert_int_equal(fixture_recovered(&f, 1, 1, 6), PICO_OK);
	assert_int_equal(pack(&f, 1, 6, 7), PICO_NOT_OWNER);            /* nothing is above its cut */
	assert_int_equal(pack(&f, 3, 0, 1), PICO_CONFLICT);
	assert_int_equal(fixture_recovered(&f, 1, 2, 0), PICO_OK);      /* it never wrote */
	assert_int_equal(pack(&f, 3, 0, 1), PICO_OK);
	assert_int_equal(pack(&f, 3, 1, 1), PICO_OK);
	assert_int_equal(watermark(&f, 1, 1), 6);
	assert_int_equal(watermark(&f, 1, 2), 0);
	assert_int_equal(watermark(&f, 1, 3), 1);
	/* The session ends with a commit on its way. */
	fixture_register(&f, 1, 'f');
	struct commit_args late = { .has_wal = true, .wal = { 1, 3, 1, 2 }, .add = { object(9, 0, 1, 1) } };
	assert_int_equal(fixture_check_commit(&f, &late), PICO_FENCED);
	fixture_commit(&f, &late);
	assert_int_equal(f.err, -EPERM);
	assert_true(watermark(&f, 1, 3) == 1 && find(&f, 9) == NULL);
	/* Its recoverer packs on where it stood. */
	f.session = 4;
	f.proposal = 1;
	assert_int_equal(pack(&f, 3, 1, 2), PICO_OK);
	fixture_done(&f);
}

static void test_second_copy(void **arg)
{
	struct fixture f;
	world(&f);
	struct commit_args a = { .has_wal = true, .wal = { 1, 1, 0, 4 }, .add = { object(4, 0, 1, 9) } };
	assert_int_equal(fixture_commit(&f, &a), PICO_OK);
	f.proposal--;
	fixture_commit(&f, &a);
	assert_int_equal(f.err, -EALREADY);
	assert_int_equal(watermark(&f, 1, 1), 4);
	assert_int_equal(catalogue_count(state_catalogue(f.s)), 4);
	/* Another session's name in the command. */
	a.node = 2;
	assert_int_equal(fixture_commit(&f, &a), PICO_BAD_REQUEST);
	fixture_done(&f);
}

static void test_objects_deleted(void **arg)
{
	struct fixture f;
	world(&f);
	const struct catalogue *c = state_catalogue(f.s);
	struct object_id mixed[] = { { 1, 3, 3 }, { 1, 3, 1 } }, gone[] = { { 1, 3, 3 }, { 1, 3, 3 }, { 8, 8, 8 } };
	assert_int_equal(fixture_objects_deleted(&f, mixed, 2), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "object 1/3/1 is in use"));
	assert_non_null(find(&f, 3));
	assert_int_equal(fixture_objects_deleted(&f, gone, 3), PICO_OK);
	assert_null(find(&f, 3));
	assert_int_equal(catalogue_count(c), 2);
	assert_int_equal(fixture_objects_deleted(&f, gone, 3), PICO_OK);        /* redundant */
	assert_int_equal(catalogue_count(c), 2);
	assert_int_equal(catalogue_bytes(c), 2003);
	fixture_done(&f);
}

/* ---------------------------------------------------------------- trims, expiry */

static void test_trim(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	struct create_args two = { .name = "/two", .partitions = 2 };
	fixture_create(&f, &two);
	fixture_create_name(&f, "/one");
	const struct state_topic *t = state_topic_by_name(f.s, slice_str("/two"));
	const struct state_topic *one = state_topic_by_name(f.s, slice_str("/one"));
	uint64_t log[4] = { t->partition[1].log_id, 999, one->partition[0].log_id, t->partition[1].log_id };
	uint64_t start[4] = { 7, 5, 3, 6 };
	assert_int_equal(fixture_trim(&f, log, start, 4), PICO_OK);
	assert_int_equal(t->partition[0].start, 0);
	assert_int_equal(t->partition[1].start, 7);
	assert_int_equal(one->partition[0].start, 3);
	assert_int_equal(t->settings_version, 1);
	assert_int_equal(t->changed_idx, state_idx(f.s));
	uint64_t changed = state_idx(f.s);
	start[0] = start[3] = 7;
	start[2] = 2;
	assert_int_equal(fixture_trim(&f, log, start, 4), PICO_OK);             /* never lowers, changes nothing */
	assert_true(t->partition[1].start == 7 && one->partition[0].start == 3 && t->changed_idx == changed);
	assert_int_equal(fixture_trim(&f, log, start, 0), PICO_OK);
	fixture_done(&f);
}

static void test_expire(void **arg)
{
	struct fixture f;
	fixture_new(&f);
	uint8_t ttl[16], fixed[16], never[16], nobody[16] = { 1 };
	struct create_args a = { .name = "/ttl", .ttl = 60 }, b = { .name = "/fixed", .expires = 99 };
	fixture_create(&f, &a);
	memcpy(ttl, f.topic_id, 16);
	fixture_create(&f, &b);
	memcpy(fixed, f.topic_id, 16);
	fixture_create_name(&f, "/never");
	memcpy(never, f.topic_id, 16);
	/* The deadline of a TTL moves, that of a time does not. */
	assert_int_equal(fixture_touch(&f, ttl, 1000), PICO_OK);
	assert_int_equal(state_topic_by_id(f.s, ttl)->expires_at_ms, 1000);
	uint64_t changed = state_topic_by_id(f.s, ttl)->changed_idx;
	assert_int_equal(changed, state_idx(f.s));
	assert_int_equal(fixture_touch(&f, ttl, 1000), PICO_OK);
	assert_int_equal(state_topic_by_id(f.s, ttl)->changed_idx, changed);
	assert_int_equal(fixture_touch(&f, ttl, 0), PICO_BAD_REQUEST);
	assert_int_equal(fixture_touch(&f, fixed, 1000), PICO_BAD_REQUEST);
	assert_int_equal(fixture_touch(&f, never, 1000), PICO_BAD_REQUEST);
	assert_int_equal(fixture_touch(&f, nobody, 1000), PICO_NOT_FOUND);
	/* It is no setting: the same create finds the topic as it is. */
	assert_int_equal(fixture_create(&f, &a), PICO_OK);
	assert_false(f.one.created);
	/* An expiry that saw another deadline hits nothing. */
	assert_int_equal(fixture_expire(&f, ttl, 999), PICO_CONFLICT);
	assert_non_null(strstr(f.message, "expires at 1000 ms by now, not at 999 ms"));
	assert_int_equal(fixture_expire(&f, ttl, 0), PICO_CONFLICT);
	assert_int_equal(fixture_expire(&f, never, 0), PICO_BAD_REQUEST);
	assert_int_equal(state_n_topics(f.s), 3);
	assert_int_equal(fixture_expire(&f, ttl, 1000), PICO_OK);
	assert_null(state_topic_by_name(f.s, slice_str("/ttl")));
	assert_null(state_topic_by_alias(f.s, slice_str("ttl")));
	assert_int_equal(fixture_expire(&f, ttl, 1000), PICO_NOT_FOUND);
	assert_int_equal(fixture_expire(&f, fixed, 99), PICO_OK);
	assert_int_equal(state_n_topics(f.s), 1);
	fixture_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commit_cases), cmocka_unit_test(test_rewritten_rows), cmocka_unit_test(test_commit_rows), cmocka_unit_test(test_watermarks),
		cmocka_unit_test(test_second_copy), cmocka_unit_test(test_objects_deleted), cmocka_unit_test(test_trim),
		cmocka_unit_test(test_expire),
	};
	return cmocka_run_group_tests_name("meta_objects", tests, NULL, NULL);
}
