/* SPDX-License-Identifier: Apache-2.0
 *
 * Thousands of rows of every command, most of them plausible, many refused. After each one: what was refused left the state
 * as it was, byte for byte of its snapshot; watermarks, sessions, marks, start offsets and the clock moved in their one
 * direction; ranges of a run are disjoint. What an incremental snapshot adds up to is the whole. Two other states are fed the same rows, one of them begun from a snapshot in
 * the middle: all three end as the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state_fork.h"
#include "t/unit/meta_fixture.h"

#define ROWS 1500
#define SESSIONS_MAX 400
#define OBJECTS_MAX 4000
#define LOGS_MAX 4000

/* What was seen before the last row. */
struct seen {
	struct state_session session[SESSIONS_MAX];
	size_t n_sessions;
	struct object_row object[OBJECTS_MAX];
	size_t n_objects;
	uint64_t start[LOGS_MAX];       /* by log id; of those that lived */
	bool lived[LOGS_MAX];
	int64_t clock_ms;
	size_t n_ok, n_refused, n_skipped;
	size_t n_recovered, n_marked, n_gone, n_soft;   /* summed over rows, but n_gone */
};

static unsigned random_below(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % n;
}

/* ---------------------------------------------------------------- rows */

static const struct state_topic *some_topic(struct fixture *f, unsigned *seed)
{
	const struct state_topic *t = NULL, *x = state_topic_next_any(f->s, slice_of("", 0));
	for (unsigned n = random_below(seed, 30); x != NULL && n > 0; n--) {
		t = x;
		x = state_topic_next_any(f->s, slice_str(x->name));
	}
	return t;
}

static void random_expiry(struct fixture *f, unsigned *seed)
{
	const struct state_topic *t = some_topic(f, seed);
	uint8_t id[16] = { 9 };
	int64_t at = 0;
	if (t != NULL) {
		memcpy(id, t->id, 16);
		at = t->expires_at_ms;
	}
	if (random_below(seed, 2) == 0)
		fixture_touch(f, id, at + (int64_t)random_below(seed, 3));
	else
		fixture_expire(f, id, at + (int64_t)(random_below(seed, 4) == 0));
}

static void random_recovered(struct fixture *f, unsigned *seed)
{
	const struct state_session *x = state_session_next(f->s, 1 + random_below(seed, 2), 0);
	while (x != NULL && x->state == SESSION_RECOVERED && random_below(seed, 20) != 0)
		x = state_session_next(f->s, x->node, x->session);
	if (x != NULL)
		fixture_recovered(f, x->node, x->session, x->watermark + (random_below(seed, 5) == 0));
	else
		fixture_recovered(f, 1, 77, 0);
}

/* The next process of node 1, and what the one before it still sends. */
static void random_restart(struct fixture *f, unsigned *seed)
{
	fixture_register(f, 1, (uint8_t)random_below(seed, 256));
	if (f->one.created) {
		f->session = f->one.session;
		f->proposal = 1;
	}
}

static void random_row(struct fixture *f, unsigned *seed)
{
	unsigned what = random_below(seed, 23);
	uint64_t session = f->session, proposal = f->proposal;
	bool stale = random_below(seed, 25) == 0;
	if (stale && session > 1) {
		f->session--;
	} else if (stale && proposal > 3) {
		f->proposal -= 2;
	}
	stale = f->session != session || f->proposal != proposal;
	f->now_ms += random_below(seed, 3) == 0 ? -5 : 7;
	if (what >= 20)
		fixture_random_kv(f, seed);
	else if (what < 8)
		fixture_random_objects(f, seed);
	else if (what < 11)
		fixture_random_row(f, seed);
	else if (what < 14)
		fixture_random_fork(f, seed);
	else if (what < 16)
		random_expiry(f, seed);
	else if (what < 19 || stale)
		random_recovered(f, seed);
	else if (random_below(seed, 4) == 0)
		random_restart(f, seed);
	else
		fixture_close_some(f, 3);
	if (stale) {
		f->session = session;
		f->proposal = proposal;
	}
}

/* ---------------------------------------------------------------- what has to hold */

static void look_at_sessions(const struct fixture *f, struct seen *seen)
{
	size_t n = 0;
	for (uint32_t node = 1; node <= 2; node++) {
		const struct state_session *x = state_session_next(f->s, node, 0);
		size_t n_active = 0;
		bool recovered = true;
		for (; x != NULL; x = state_session_next(f->s, node, x->session)) {
			n_active += x->state == SESSION_ACTIVE;
			/* None is recovered before an older one, or packed before it is its turn. */
			assert_true(recovered || (x->state != SESSION_RECOVERED && x->watermark == 0));
			recovered = x->state == SESSION_RECOVERED;
			seen->n_recovered += recovered && x->watermark > 0;
			assert_true(x->state != SESSION_RECOVERED || x->cut == x->watermark);
			for (size_t i = 0; i < seen->n_sessions; i++) {
				const struct state_session *old = &seen->session[i];
				if (old->node == x->node && old->session == x->session)
					assert_true(old->watermark <= x->watermark && old->state <= x->state &&
						    (old->state != SESSION_RECOVERED || old->cut == x->cut));
			}
		}
		assert_true(n_active <= 1);
	}
	for (uint32_t node = 1; node <= 2; node++)
		for (const struct state_session *x = state_session_next(f->s, node, 0); x != NULL;
		     x = state_session_next(f->s, node, x->session)) {
			must(n < SESSIONS_MAX);
			seen->session[n++] = *x;
		}
	assert_true(n >= seen->n_sessions);
	seen->n_sessions = n;
}

static void look_at_ranges(const struct catalogue *c)
{
	for (uint32_t level = 0; level < DATA_LEVELS; level++) {
		struct catalogue_level l = catalogue_level(c, 1, level);
		for (uint64_t run = l.oldest_run; run != 0; run = catalogue_next_run(c, 1, level, run)) {
			const struct object_row *x = NULL;
			uint64_t free_from = 0;
			while ((x = catalogue_of_run(c, 1, level, run, x)) != NULL) {
				assert_true(x->first_log >= free_from);
				free_from = x->last_log + 1;
			}
		}
	}
}

static void look_at_objects(const struct fixture *f, struct seen *seen)
{
	const struct catalogue *c = state_catalogue(f->s);
	for (size_t i = 0; i < seen->n_objects; i++) {
		const struct object_row *old = &seen->object[i], *x = catalogue_find(c, old->id);
		if (x == NULL) {
			assert_true(old->marked);               /* only what was marked goes */
			seen->n_gone++;
			continue;
		}
		assert_true(x->run == old->run && x->level == old->level && x->first_log == old->first_log);
		assert_true(!old->marked || (x->marked && x->marked_ms == old->marked_ms));
	}
	seen->n_objects = 0;
	for (const struct object_row *x = catalogue_next(c, NULL); x != NULL; x = catalogue_next(c, &x->id)) {
		must(seen->n_objects < OBJECTS_MAX);
		seen->n_marked += x->marked;
		seen->object[seen->n_objects++] = *x;
	}
	look_at_ranges(c);
}

static void look_at_logs(const struct fixture *f, struct seen *seen)
{
	for (uint64_t log = 0; log < LOGS_MAX; log++) {
		uint32_t i = 0;
		const struct state_topic *t = state_topic_by_log(f->s, log, &i);
		if (t == NULL) {
			assert_true(state_log_living_start(f->s, log) == UINT64_MAX);
			continue;
		}
		assert_true(!seen->lived[log] || t->partition[i].start >= seen->start[log]);
		seen->lived[log] = true;
		seen->start[log] = t->partition[i].start;
		assert_true(t->soft_deleted || state_log_living_start(f->s, log) <= t->partition[i].start);
		assert_true(!t->soft_deleted || state_topic_n_forks(t) > 0);
		seen->n_soft += t->soft_deleted;
	}
}

static bool changes_nothing(const struct fixture *f)
{
	return f->err != 0 || f->one.error != PICO_OK;
}

static void look(const struct fixture *f, struct seen *seen, const struct kept *before, const struct kept *after)
{
	if (f->err != 0)
		seen->n_skipped++;
	else if (f->one.error != PICO_OK)
		seen->n_refused++;
	else
		seen->n_ok++;
	if (changes_nothing(f) && !kept_equal(before, after))
		fail_msg("row %llu was refused and changed something: %s", (unsigned long long)f->row.idx, f->message);
	assert_true(state_clock_ms(f->s) >= seen->clock_ms);
	seen->clock_ms = state_clock_ms(f->s);
	look_at_sessions(f, seen);
	look_at_objects(f, seen);
	look_at_logs(f, seen);
}

/* ---------------------------------------------------------------- replicas */

/* All bytes and rows of change. */
static void assert_same_kept(const struct kept *a, const struct kept *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		size_t k = 0;
		while (k < b->n && !slice_eq(a->e[i].key, b->e[k].key))
			k++;
		if (k == b->n || a->e[i].idx != b->e[k].idx || !slice_eq(a->e[i].payload, b->e[k].payload))
			fail_msg("%.*s differs", (int)a->e[i].key.n, (const char *)a->e[i].key.p);
	}
}

static void feed(struct state *s, const struct sql_row *row, const struct fixture *f)
{
	Meta__Result *results;
	int err = state_apply(s, row, &results);
	assert_int_equal(err, f->err);
	if (err != 0)
		return;
	assert_int_equal(results->one[0]->error, f->one.error);
	assert_string_equal(results->one[0]->message, f->message);
	meta__result__free_unpacked(results, NULL);
}

static void compare_replica(struct fixture *f, struct state *replica, const struct kept *expected)
{
	struct state *own = f->s;
	struct kept k = { 0 };
	f->s = replica;
	fixture_keep(f, &k);
	f->s = own;
	assert_same_kept(expected, &k);
	kept_done(&k);
}

static struct state *replica_new(struct fixture *f)
{
	struct kept k = { 0 };
	fixture_keep(f, &k);
	struct state *s = kept_load(&k, state_idx(f->s));
	assert_non_null(s);
	kept_done(&k);
	return s;
}

/* What changed since the last time, as the database gets it. */
static void store_changes(struct fixture *f, uint64_t *base, struct kept *stored)
{
	state_snapshot_begin(f->s, *base, kept_add, stored);
	while (state_snapshot_step(f->s, 2))
		;
	state_snapshot_end(f->s);
	*base = state_idx(f->s);
	state_covered(f->s, *base);
}

static void run_seed(unsigned seed, struct seen *seen)
{
	struct fixture f;
	struct kept before = { 0 }, after = { 0 };
	*seen = (struct seen){ 0 };
	fixture_new(&f);
	f.now_ms = 1000;
	struct state *replica = replica_new(&f), *late = NULL;
	struct kept stored = { 0 };
	uint64_t base = 0;
	fixture_keep(&f, &before);
	for (int i = 0; i < ROWS; i++) {
		uint64_t idx = state_idx(f.s);
		random_row(&f, &seed);
		if (state_idx(f.s) == idx)
			continue;                       /* there was nothing to do it to */
		assert_int_equal(state_idx(f.s), idx + 1);
		fixture_keep(&f, &after);
		look(&f, seen, &before, &after);
		feed(replica, &f.row, &f);
		if (late != NULL)
			feed(late, &f.row, &f);
		if (i == ROWS / 2)
			late = replica_new(&f);
		if (i % 16 == 0) {
			store_changes(&f, &base, &stored);
			assert_same_kept(&after, &stored);
		}
		kept_done(&before);
		before = after;
		after = (struct kept){ 0 };
	}
	compare_replica(&f, replica, &before);
	compare_replica(&f, late, &before);
	state_free(replica);
	state_free(late);
	kept_done(&before);
	kept_done(&stored);
	fixture_done(&f);
}

static void test_random(void **arg)
{
	static struct seen seen;
	size_t n_ok = 0, n_refused = 0, n_skipped = 0, n_recovered = 0;
	for (unsigned seed = 1; seed <= 4; seed++) {
		run_seed(seed, &seen);
		n_ok += seen.n_ok;
		n_refused += seen.n_refused;
		n_skipped += seen.n_skipped;
		n_recovered += seen.n_recovered;
		assert_true(seen.n_marked > 0 && seen.n_gone > 0 && seen.n_soft > 0);
	}
	/* It gets everywhere. */
	assert_true(n_recovered > 0);
	print_message("# rows: %zu applied, %zu refused, %zu skipped\n", n_ok, n_refused, n_skipped);
	/* It tries both sides of the rules. */
	assert_true(n_ok > ROWS && n_refused > ROWS / 2 && n_skipped > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };
	return cmocka_run_group_tests_name("meta_random", tests, NULL, NULL);
}
