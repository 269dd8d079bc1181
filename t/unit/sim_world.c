/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated world keeps its promises: order of events, one seed one trace, what a dead or paused
 * process can do, conditional puts at their effect, and the command log's one row an index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "t/sim/sim_sql.h"
#include "t/sim/sim_store.h"

static unsigned fired[64], n_fired;
static struct sim_proc *victim;

static void note(void *arg)
{
	fired[n_fired++] = (unsigned)(uintptr_t)arg;
	if (victim != NULL)
		sim_kill(victim, "test");
}

static void run_all(struct sim *s)
{
	while (sim_turn(s))
		continue;
}

static void test_timers(void **state)
{
	struct sim s;
	sim_init(&s, 7);
	struct sim_proc *p = sim_proc_new(&s, NULL, NULL);
	struct env *e = &p->env;
	uint64_t now = env_now_ms(e);
	struct env_timer t[3] = { 0 };
	for (uintptr_t i = 0; i < 3; i++)
		t[i] = (struct env_timer){ .on_fire = note, .arg = (void *)i };
	n_fired = 0;
	env_timer_start(e, &t[0], now + 900);
	env_timer_start(e, &t[1], now + 100);
	env_timer_start(e, &t[2], now + 500);
	env_timer_start(e, &t[0], now + 300);
	env_timer_stop(e, &t[2]);
	env_timer_stop(e, &t[2]);
	run_all(&s);
	assert_int_equal(n_fired, 2);
	assert_int_equal(fired[0], 1);
	assert_int_equal(fired[1], 0);
	assert_true(env_now_ms(e) >= now + 300);
	sim_done(&s);
}

static void test_death_and_pause(void **state)
{
	struct sim s;
	sim_init(&s, 7);
	struct sim_proc *p = sim_proc_new(&s, NULL, NULL), *q = sim_proc_new(&s, NULL, NULL);
	struct env_timer a = { .on_fire = note, .arg = (void *)1 }, b = { .on_fire = note, .arg = (void *)2 };
	n_fired = 0;
	victim = q;
	env_timer_start(&p->env, &a, env_now_ms(&p->env) + 10);
	env_timer_start(&q->env, &b, env_now_ms(&q->env) + 1000);
	sim_pause(p);
	for (int i = 0; i < 5; i++)
		sim_turn(&s);
	assert_int_equal(n_fired, 1);
	assert_int_equal(fired[0], 2);
	sim_resume(p);
	run_all(&s);
	assert_int_equal(n_fired, 2);
	assert_int_equal(q->state, SIM_DEAD);
	env_timer_start(&q->env, &b, 5);
	run_all(&s);
	assert_int_equal(n_fired, 2);
	victim = NULL;
	sim_done(&s);
}

struct seen {
	unsigned n, ok, taken, unknown, other;
};

static void on_put(void *arg, struct obj_result r)
{
	struct seen *seen = arg;
	seen->n++;
	if (r.outcome == OUTCOME_OK)
		seen->ok++;
	else if (r.outcome == OUTCOME_UNKNOWN)
		seen->unknown++;
	else if (r.err == -EEXIST)
		seen->taken++;
	else
		seen->other++;
}

static uint64_t put_race(uint64_t seed, struct seen *ret_seen)
{
	struct sim s;
	struct sim_bucket bucket;
	*ret_seen = (struct seen){ 0 };
	sim_init(&s, seed);
	sim_bucket_init(&bucket, &s);
	s.faulty = true;
	struct sim_proc *p = sim_proc_new(&s, NULL, NULL), *q = sim_proc_new(&s, NULL, NULL);
	struct objstore *a = sim_store_new(&bucket, p), *b = sim_store_new(&bucket, q);
	char key[8];
	for (int i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k/%d", i);
		objstore_put(a, key, &(struct iovec){ "aa", 2 }, 1, true, on_put, ret_seen);
		objstore_put(b, key, &(struct iovec){ "bb", 2 }, 1, true, on_put, ret_seen);
	}
	run_all(&s);
	size_t n;
	char **keys = sim_bucket_keys(&bucket, "k/", &n);
	assert_true(n >= ret_seen->ok && n <= 200);
	assert_int_equal(bucket.n_puts, n);
	free(keys);
	uint64_t hash = s.hash;
	a->ops->free(a);
	b->ops->free(b);
	sim_done(&s);
	sim_bucket_done(&bucket);
	return hash;
}

static void test_conditional_puts(void **state)
{
	struct seen x, y;
	uint64_t one = put_race(3, &x), again = put_race(3, &y), other = put_race(4, &y);
	assert_true(one == again);
	assert_true(one != other);
	assert_int_equal(x.n, 400);
	assert_true(x.ok > 100 && x.taken > 100 && x.unknown > 0 && x.other > 0);
}

static void on_get(void *arg, struct obj_result r, struct slice data, uint64_t size)
{
	struct seen *seen = arg;
	seen->n++;
	if (r.outcome == OUTCOME_OK) {
		assert_int_equal(size, 10);
		assert_true(slice_is(data, "456"));
		seen->ok++;
	} else if (r.err == -ENOENT) {
		seen->taken++;
	}
}

static void test_get_list_delete(void **state)
{
	struct sim s;
	struct sim_bucket bucket;
	struct seen seen = { 0 };
	sim_init(&s, 1);
	sim_bucket_init(&bucket, &s);
	struct sim_proc *p = sim_proc_new(&s, NULL, NULL);
	struct objstore *a = sim_store_new(&bucket, p);
	objstore_put(a, "wal/x", &(struct iovec){ "0123456789", 10 }, 1, true, on_put, &seen);
	run_all(&s);
	objstore_get(a, "wal/x", 4, 3, on_get, &seen);
	objstore_get(a, "wal/y", 0, 0, on_get, &seen);
	run_all(&s);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.ok, 2);
	assert_int_equal(seen.taken, 1);
	const char *gone[] = { "wal/x", "wal/y" };
	a->ops->del(a, gone, 2, on_put, &seen);
	run_all(&s);
	assert_null(sim_bucket_find(&bucket, "wal/x"));
	assert_int_equal(bucket.n_deleted, 1);
	a->ops->free(a);
	sim_done(&s);
	sim_bucket_done(&bucket);
}

static void on_uploads(void *arg, struct obj_result r, const struct obj_upload_entry *entries, size_t n, bool more)
{
	struct seen *seen = arg;
	seen->n++;
	assert_int_equal(r.outcome, OUTCOME_OK);
	for (size_t i = 0; i < n; i++)
		seen->ok += strcmp(entries[i].key, "data/x") == 0;
}

/* Parts come together in order of calls, whichever arrived first, and only at the end. */
static void test_uploads(void **state)
{
	struct sim s;
	struct sim_bucket bucket;
	struct seen seen = { 0 }, listed = { 0 };
	sim_init(&s, 1);
	sim_bucket_init(&bucket, &s);
	struct sim_proc *p = sim_proc_new(&s, NULL, NULL);
	struct objstore *a = sim_store_new(&bucket, p);
	struct obj_upload *u = objstore_upload_new(a, "data/x"), *left = objstore_upload_new(a, "data/x");
	for (int i = 0; i < 5; i++)
		obj_upload_part(u, &(struct iovec){ (char *)(uintptr_t)"0123456789" + 2 * i, 2 }, 1, on_put, &seen);
	obj_upload_part(left, &(struct iovec){ "left", 4 }, 1, on_put, &seen);
	run_all(&s);
	assert_int_equal(seen.ok, 6);
	assert_null(sim_bucket_find(&bucket, "data/x"));
	obj_upload_finish(u, on_put, &seen);
	run_all(&s);
	assert_int_equal(seen.ok, 7);
	assert_int_equal(sim_bucket_find(&bucket, "data/x")->size, 10);
	assert_memory_equal(sim_bucket_find(&bucket, "data/x")->data, "0123456789", 10);
	a->ops->list_uploads(a, "data/", NULL, 10, on_uploads, &listed);
	obj_upload_finish(left, on_put, &seen);
	run_all(&s);
	assert_int_equal(listed.ok, 1);
	assert_int_equal(seen.taken, 1);
	a->ops->free(a);
	sim_done(&s);
	sim_bucket_done(&bucket);
}

static void on_row(void *arg, struct sql_result r)
{
	struct obj_result o = { .outcome = r.outcome, .err = r.err };
	on_put(arg, o);
}

static void test_rows(void **state)
{
	struct sim s;
	struct sim_db db;
	struct seen seen = { 0 };
	sim_init(&s, 5);
	sim_db_init(&db, &s);
	s.faulty = true;
	struct sim_proc *p = sim_proc_new(&s, NULL, NULL), *q = sim_proc_new(&s, NULL, NULL);
	struct sql_log *a = sim_sql_new(&db, p), *b = sim_sql_new(&db, q);
	for (unsigned i = 1; i <= 50; i++) {
		struct sql_row row = { .idx = i, .payload = slice_str("row") };
		a->ops->append(a, &row, on_row, &seen);
		b->ops->append(b, &row, on_row, &seen);
		run_all(&s);
	}
	assert_int_equal(seen.n, 100);
	assert_true(seen.ok > 0 && seen.taken > 0 && seen.ok <= db.n_rows);
	for (size_t i = 0; i < db.n_rows; i++)
		assert_int_equal(db.rows[i].idx, i + 1);
	s.faulty = false;
	struct sql_entity e[2] = { { .key = slice_str("a"), .idx = 1, .payload = slice_str("1") },
				   { .key = slice_str("b"), .idx = 2, .payload = slice_str("2") } };
	size_t rows = db.n_rows;
	seen = (struct seen){ 0 };
	a->ops->snapshot_write(a, 0, 2, e, 2, 3, on_row, &seen);
	run_all(&s);
	b->ops->snapshot_write(b, 0, 4, e, 2, 4, on_row, &seen);
	run_all(&s);
	assert_int_equal(seen.ok, 1);
	assert_int_equal(seen.taken, 1);
	assert_int_equal(db.n_rows, rows - 2);
	assert_int_equal(db.rows[0].idx, 3);
	e[0].payload = slice_of(NULL, 0);
	a->ops->snapshot_write(a, 2, 9, e, 1, 1000, on_row, &seen);
	run_all(&s);
	assert_int_equal(db.n_entities, 1);
	assert_int_equal(db.n_rows, 1);
	a->ops->free(a);
	b->ops->free(b);
	sim_done(&s);
	sim_db_done(&db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timers), cmocka_unit_test(test_death_and_pause),
		cmocka_unit_test(test_conditional_puts), cmocka_unit_test(test_get_list_delete), cmocka_unit_test(test_uploads),
		cmocka_unit_test(test_rows),
	};
	return cmocka_run_group_tests_name("sim_world", tests, NULL, NULL);
}
