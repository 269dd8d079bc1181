/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue: each question by hand on a small one, then all of them against a plain list through thousands of random
 * changes, then as many objects as a large node has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/must.h"
#include "storaged/data/catalogue.h"
#include "storaged/data/sorted_index.h"

static struct object_row row_of(uint64_t number, uint32_t level, uint64_t run, uint64_t first, uint64_t last)
{
	return (struct object_row){
		.id = { 1, 1, number }, .origin = 1, .level = level, .run = run, .first_log = first, .last_log = last,
		.bytes = 100 + number, .changed_idx = number,
	};
}

static void add(struct catalogue *c, struct object_row row)
{
	catalogue_add(c, &row);
}

static void assert_walk(const struct catalogue *c, uint32_t origin, uint64_t log, const char *expected)
{
	char got[256] = "";
	struct catalogue_cursor at = { 0 };
	const struct object_row *row;
	while ((row = catalogue_of_log(c, origin, log, &at)) != NULL)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), " %llu", (unsigned long long)row->id.number);
	assert_string_equal(got, expected);
	assert_null(catalogue_of_log(c, origin, log, &at));     /* the end stays the end */
}

static void test_walk(void **arg)
{
	struct catalogue *c = catalogue_new();
	assert_walk(c, 1, 5, "");
	add(c, row_of(1, 1, 10, 1, 4));
	add(c, row_of(2, 1, 10, 5, 5));
	add(c, row_of(3, 0, 20, 1, 9));
	add(c, row_of(4, 0, 21, 6, 9));
	add(c, row_of(5, 2, 15, 0, 100));
	struct object_row single = row_of(6, DATA_LEVEL_SINGLE, 20, 5, 5);
	single.first_offset = 50;
	single.end_offset = 90;
	add(c, single);
	single = row_of(7, DATA_LEVEL_SINGLE, 20, 5, 5);
	single.first_offset = 10;
	single.end_offset = 50;
	add(c, single);
	single = row_of(8, DATA_LEVEL_SINGLE, 30, 5, 5);
	single.end_offset = 10;
	add(c, single);
	single = row_of(9, DATA_LEVEL_SINGLE, 12, 6, 6);
	single.end_offset = 10;
	add(c, single);
	struct object_row other = row_of(10, 0, 40, 1, 9);
	other.origin = 2;
	add(c, other);
	assert_walk(c, 1, 5, " 8 3 7 6 5 2");
	assert_walk(c, 1, 6, " 4 3 5 9");
	assert_walk(c, 1, 1, " 3 5 1");
	assert_walk(c, 1, 0, " 5");
	assert_walk(c, 1, 100, " 5");
	assert_walk(c, 1, 101, "");
	assert_walk(c, 2, 5, " 10");
	assert_walk(c, 3, 5, "");
	catalogue_mark(c, (struct object_id){ 1, 1, 3 }, 7, 11);
	catalogue_mark(c, (struct object_id){ 1, 1, 8 }, 7, 11);
	assert_walk(c, 1, 5, " 7 6 5 2");
	catalogue_free(c);
}

/* A walk that meets changes goes on behind the place where it stood. */
static void test_walk_goes_on(void **arg)
{
	struct catalogue *c = catalogue_new();
	for (uint64_t run = 1; run <= 4; run++)
		add(c, row_of(run, 0, run, 1, 9));
	struct catalogue_cursor at = { 0 };
	assert_int_equal(catalogue_of_log(c, 1, 5, &at)->id.number, 4);
	assert_int_equal(catalogue_of_log(c, 1, 5, &at)->id.number, 3);
	catalogue_mark(c, (struct object_id){ 1, 1, 3 }, 1, 10);        /* where it stands */
	catalogue_mark(c, (struct object_id){ 1, 1, 2 }, 1, 10);        /* the next one */
	catalogue_drop(c, (struct object_id){ 1, 1, 3 });
	struct object_row merged = row_of(20, 1, 5, 1, 9);
	add(c, merged);                                                 /* before it */
	assert_int_equal(catalogue_of_log(c, 1, 5, &at)->id.number, 1);
	assert_null(catalogue_of_log(c, 1, 5, &at));
	catalogue_free(c);
}

static void test_levels(void **arg)
{
	struct catalogue *c = catalogue_new();
	struct catalogue_level l = catalogue_level(c, 1, 0);
	assert_true(l.n_runs == 0 && l.n_objects == 0 && l.bytes == 0 && l.oldest_run == 0);
	add(c, row_of(1, 0, 3, 1, 1));
	add(c, row_of(2, 0, 3, 2, 2));
	add(c, row_of(3, 0, 5, 1, 9));
	add(c, row_of(4, 1, 4, 1, 9));
	struct object_row single = row_of(5, DATA_LEVEL_SINGLE, 4, 5, 5);
	single.end_offset = 1;
	add(c, single);
	l = catalogue_level(c, 1, 0);
	assert_true(l.n_runs == 2 && l.n_objects == 3 && l.bytes == 306 && l.oldest_run == 3);
	l = catalogue_level(c, 1, 1);
	assert_true(l.n_runs == 1 && l.n_objects == 1 && l.bytes == 104 && l.oldest_run == 4);
	l = catalogue_level(c, 1, DATA_LEVEL_SINGLE);
	assert_true(l.n_runs == 0 && l.n_objects == 1 && l.bytes == 105 && l.oldest_run == 0);
	assert_int_equal(catalogue_next_run(c, 1, 0, 3), 5);
	assert_int_equal(catalogue_next_run(c, 1, 0, 5), 0);
	assert_int_equal(catalogue_next_run(c, 1, 0, UINT64_MAX), 0);
	const struct object_row *row = catalogue_of_run(c, 1, 0, 3, NULL);
	assert_int_equal(row->id.number, 1);
	row = catalogue_of_run(c, 1, 0, 3, row);
	assert_int_equal(row->id.number, 2);
	assert_null(catalogue_of_run(c, 1, 0, 3, row));
	assert_null(catalogue_of_run(c, 1, 0, 4, NULL));
	assert_int_equal(catalogue_bytes(c), 515);
	catalogue_mark(c, (struct object_id){ 1, 1, 1 }, 9, 6);
	l = catalogue_level(c, 1, 0);
	assert_true(l.n_runs == 2 && l.n_objects == 2 && l.bytes == 205);
	catalogue_mark(c, (struct object_id){ 1, 1, 2 }, 8, 7);
	l = catalogue_level(c, 1, 0);
	assert_true(l.n_runs == 1 && l.n_objects == 1 && l.bytes == 103 && l.oldest_run == 5);
	assert_true(catalogue_bytes(c) == 312 && catalogue_count(c) == 5);
	/* The longest marked first. */
	row = catalogue_next_marked(c, NULL);
	assert_true(row->id.number == 2 && row->marked && row->marked_ms == 8 && row->changed_idx == 7);
	row = catalogue_next_marked(c, row);
	assert_true(row->id.number == 1 && row->marked_ms == 9);
	assert_null(catalogue_next_marked(c, row));
	catalogue_free(c);
}

static void test_takes(void **arg)
{
	struct catalogue *c = catalogue_new();
	add(c, row_of(1, 0, 3, 10, 19));
	add(c, row_of(2, 0, 3, 30, 39));
	static const struct { uint64_t number; uint32_t level; uint64_t run, first, last; bool takes; } cases[] = {
		{ 3, 0, 3, 20, 29, true },      /* exactly between */
		{ 3, 0, 3, 19, 29, false },     /* one log of each side */
		{ 3, 0, 3, 20, 30, false },
		{ 3, 0, 3, 0, 9, true },
		{ 3, 0, 3, 0, 10, false },
		{ 3, 0, 3, 0, 50, false },
		{ 3, 0, 3, 12, 13, false },
		{ 3, 0, 3, 39, 39, false },
		{ 3, 0, 3, 40, 40, true },
		{ 3, 0, 4, 12, 13, true },      /* another run, another level */
		{ 3, 1, 3, 12, 13, true },
		{ 3, 3, 3, 12, 12, true },
		{ 3, 4, 3, 12, 12, false },
		{ 3, 0, 3, 29, 20, false },
		{ 2, 0, 9, 20, 29, false },     /* the id is there */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct object_row row = row_of(cases[i].number, cases[i].level, cases[i].run, cases[i].first,
					       cases[i].last);
		if (catalogue_takes(c, &row) != cases[i].takes)
			fail_msg("case %zu", i);
	}
	struct object_row marked = row_of(3, 0, 3, 12, 13);
	marked.marked = true;
	assert_true(catalogue_takes(c, &marked));
	catalogue_free(c);
}

/* ---------------------------------------------------------------- against a plain list */

#define MODEL_MAX 4000

struct model {
	struct object_row row[MODEL_MAX];
	size_t n;
	uint64_t idx;
};

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % n;
}

static bool model_takes(const struct model *m, const struct object_row *row)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct object_row *x = &m->row[i];
		if (object_id_is_equal(x->id, row->id))
			return false;
		if (!x->marked && !row->marked && row->level < DATA_LEVELS && x->origin == row->origin && x->level == row->level &&
		    x->run == row->run && x->first_log <= row->last_log && row->first_log <= x->last_log)
			return false;
	}
	return row->first_log <= row->last_log;
}

/* In the order of a walk: newest run, lowest level, lowest offset, id. */
static bool stands_before(const struct object_row *a, const struct object_row *b)
{
	if (a->run != b->run)
		return a->run > b->run;
	if (a->level != b->level)
		return a->level < b->level;
	if (a->first_offset != b->first_offset)
		return a->first_offset < b->first_offset;
	return a->id.node != b->id.node ? a->id.node < b->id.node : a->id.number < b->id.number;
}

static const struct object_row *model_walk(const struct model *m, uint32_t origin, uint64_t log,
					   const struct object_row *after)
{
	const struct object_row *best = NULL;
	for (size_t i = 0; i < m->n; i++) {
		const struct object_row *x = &m->row[i];
		if (!x->marked && x->origin == origin && x->first_log <= log && x->last_log >= log &&
		    (after == NULL || stands_before(after, x)) && (best == NULL || stands_before(x, best)))
			best = x;
	}
	return best;
}

static void assert_same_row(const struct object_row *a, const struct object_row *b)
{
	assert_non_null(a);
	assert_true(object_id_is_equal(a->id, b->id) && a->origin == b->origin && a->level == b->level &&
		    a->run == b->run && a->first_log == b->first_log && a->last_log == b->last_log &&
		    a->bytes == b->bytes && a->oldest_ms == b->oldest_ms && a->newest_ms == b->newest_ms &&
		    a->first_offset == b->first_offset && a->end_offset == b->end_offset && a->marked == b->marked &&
		    a->marked_ms == b->marked_ms && a->changed_idx == b->changed_idx);
}

static void compare_walk(const struct model *m, const struct catalogue *c, uint32_t origin, uint64_t log)
{
	struct catalogue_cursor at = { 0 };
	const struct object_row *x = NULL, *got;
	while ((got = catalogue_of_log(c, origin, log, &at)) != NULL) {
		x = model_walk(m, origin, log, x);
		assert_non_null(x);
		assert_same_row(got, x);
	}
	assert_null(model_walk(m, origin, log, x));
}

static void compare_level(const struct model *m, const struct catalogue *c, uint32_t origin, uint32_t level)
{
	struct catalogue_level expected = { 0 };
	for (size_t i = 0; i < m->n; i++) {
		const struct object_row *x = &m->row[i];
		if (x->marked || x->origin != origin || x->level != level)
			continue;
		expected.n_objects++;
		expected.bytes += x->bytes;
	}
	struct catalogue_level got = catalogue_level(c, origin, level);
	assert_int_equal(got.n_objects, expected.n_objects);
	assert_int_equal(got.bytes, expected.bytes);
	if (level == DATA_LEVEL_SINGLE)
		return;
	size_t runs = 0, objects = 0;
	for (uint64_t run = got.oldest_run; run != 0; run = catalogue_next_run(c, origin, level, run), runs++) {
		uint64_t end = 0;
		const struct object_row *row = NULL;
		while ((row = catalogue_of_run(c, origin, level, run, row)) != NULL) {
			assert_true(row->run == run && row->level == level && row->origin == origin && !row->marked);
			assert_true(row->first_log >= end);
			end = row->last_log + 1;
			objects++;
		}
	}
	assert_int_equal(runs, got.n_runs);
	assert_int_equal(objects, got.n_objects);
}

static void compare_all(const struct model *m, const struct catalogue *c)
{
	assert_int_equal(catalogue_count(c), m->n);
	uint64_t bytes = 0;
	size_t n_marked = 0, n = 0;
	for (size_t i = 0; i < m->n; i++) {
		assert_same_row(catalogue_find(c, m->row[i].id), &m->row[i]);
		bytes += m->row[i].marked ? 0 : m->row[i].bytes;
		n_marked += m->row[i].marked;
	}
	assert_int_equal(catalogue_bytes(c), bytes);
	const struct object_row *x = catalogue_next(c, NULL);
	for (; x != NULL; x = catalogue_next(c, &x->id), n++) {
		const struct object_row *y = catalogue_next(c, &x->id);
		assert_true(y == NULL || x->id.node < y->id.node ||
			    (x->id.node == y->id.node && x->id.number < y->id.number));
	}
	assert_int_equal(n, m->n);
	int64_t marked_ms = INT64_MIN;
	for (x = catalogue_next_marked(c, NULL), n = 0; x != NULL; x = catalogue_next_marked(c, x), n++) {
		assert_true(x->marked && x->marked_ms >= marked_ms);
		marked_ms = x->marked_ms;
	}
	assert_int_equal(n, n_marked);
	uint64_t idx = m->idx / 2, changed = 0;
	for (size_t i = 0; i < m->n; i++)
		changed += m->row[i].changed_idx > idx;
	for (x = catalogue_changed_after(c, idx), n = 0; x != NULL; x = catalogue_newer(x), n++)
		assert_true(x->changed_idx > idx);
	assert_int_equal(n, changed);
	for (uint32_t origin = 1; origin <= 3; origin++)
		for (uint32_t level = 0; level <= DATA_LEVEL_SINGLE; level++)
			compare_level(m, c, origin, level);
}

static struct object_row random_row(struct model *m, uint64_t *seed)
{
	struct object_row row = {
		.id = { 1 + random_below(seed, 3), 1, ++m->idx }, .origin = 1 + random_below(seed, 3),
		.level = random_below(seed, 4), .run = 1 + random_below(seed, 25), .first_log = random_below(seed, 60),
		.bytes = random_below(seed, 1000), .changed_idx = m->idx,
		.marked = random_below(seed, 20) == 0,
	};
	row.last_log = row.first_log + (row.level == DATA_LEVEL_SINGLE ? 0 : random_below(seed, 8));
	row.first_offset = row.level == DATA_LEVEL_SINGLE ? random_below(seed, 100) : 0;
	row.end_offset = row.level == DATA_LEVEL_SINGLE ? row.first_offset + 1 : 0;
	row.marked_ms = row.marked ? (int64_t)random_below(seed, 50) : 0;
	return row;
}

static void random_step(struct model *m, struct catalogue *c, uint64_t *seed, uint32_t adds)
{
	struct object_row *x = m->n > 0 ? &m->row[random_below(seed, (uint32_t)m->n)] : NULL;
	if (random_below(seed, 10) < adds && m->n < MODEL_MAX) {
		struct object_row row = random_row(m, seed);
		assert_int_equal(catalogue_takes(c, &row), model_takes(m, &row));
		if (!catalogue_takes(c, &row))
			return;
		catalogue_add(c, &row);
		m->row[m->n++] = row;
	} else if (x != NULL && !x->marked) {
		x->marked = true;
		x->marked_ms = random_below(seed, 50);
		x->changed_idx = ++m->idx;
		catalogue_mark(c, x->id, x->marked_ms, x->changed_idx);
	} else if (x != NULL) {
		catalogue_drop(c, x->id);
		assert_null(catalogue_find(c, x->id));
		*x = m->row[--m->n];
	}
}

static void test_against_list(void **arg)
{
	static struct model m;
	for (uint64_t n = 1; n <= 4; n++) {
		uint64_t seed = n;
		m = (struct model){ 0 };
		struct catalogue *c = catalogue_new();
		for (int turn = 0; turn < 12000; turn++) {
			random_step(&m, c, &seed, turn / 3000 % 2 == 0 ? 9 : 3);
			if (turn % 25 == 0)
				compare_walk(&m, c, 1 + random_below(&seed, 3), random_below(&seed, 70));
			if (turn % 500 == 0)
				compare_all(&m, c);
		}
		compare_all(&m, c);
		catalogue_free(c);
	}
}

/* ---------------------------------------------------------------- the index alone */

static int by_bytes(const struct sorted_index *x, const void *probe, const void *item)
{
	const struct object_row *a = probe, *b = item;
	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

#define VALUES 3000u

/* Neighbours of every value, there or not, against a table of flags: over the seams between blocks, too. */
static void compare_index(const struct sorted_index *x, const struct object_row *row, const bool *there)
{
	uint64_t left = UINT64_MAX;             /* the nearest one there below v */
	for (uint64_t v = 0; v < VALUES; v++) {
		struct object_row probe = { .bytes = v };
		const struct object_row *below = sorted_index_before(x, &probe, false), *at = sorted_index_before(x, &probe, true);
		assert_ptr_equal(below, left == UINT64_MAX ? NULL : &row[left]);
		assert_ptr_equal(at, there[v] ? &row[v] : below);
		if (there[v]) {
			assert_ptr_equal(sorted_index_after(x, &probe, true), &row[v]);
			left = v;
		}
	}
	uint64_t right = UINT64_MAX;
	for (uint64_t v = VALUES; v-- > 0;) {
		struct object_row probe = { .bytes = v };
		assert_ptr_equal(sorted_index_after(x, &probe, false), right == UINT64_MAX ? NULL : &row[right]);
		right = there[v] ? v : right;
	}
}

static void test_index(void **arg)
{
	static struct object_row row[VALUES];
	static bool there[VALUES];
	struct sorted_index x;
	uint64_t seed = 7;
	sorted_index_init(&x, by_bytes);
	for (uint32_t v = 0; v < VALUES; v++)
		row[v].bytes = v;
	compare_index(&x, row, there);
	for (int turn = 0; turn < 20000; turn++) {
		uint32_t v = random_below(&seed, VALUES);
		bool fill = turn / 4000 % 2 == 0;
		if (!there[v] && (fill || turn % 4 == 0))
			sorted_index_add(&x, &row[v], &row[v]);
		else if (there[v] && (!fill || turn % 4 == 0))
			sorted_index_remove(&x, &row[v], &row[v]);
		else
			continue;
		there[v] = !there[v];
		if (turn % 1000 < 2)
			compare_index(&x, row, there);
	}
	for (uint32_t v = 0; v < VALUES; v++)   /* in order, empty and full */
		if (there[v])
			sorted_index_remove(&x, &row[v], &row[v]);
	assert_true(x.n == 0 && x.n_blocks == 0);
	for (uint32_t v = 0; v < VALUES; v++) {
		sorted_index_add(&x, &row[v], &row[v]);
		there[v] = true;
	}
	compare_index(&x, row, there);
	assert_true(x.n_blocks <= VALUES / 256 + 1);
	sorted_index_done(&x);
}

/* ---------------------------------------------------------------- many */

#define MANY 50000u

/* Each row's address at most once a walk, and every one that holds the log: counted by arithmetic. */
static void test_many(void **arg)
{
	struct catalogue *c = catalogue_new();
	clock_t began = clock();
	/* Ten runs of 5,000 objects of 10 logs each, and 10,000 objects of log 7. */
	for (uint32_t i = 0; i < MANY; i++)
		add(c, (struct object_row){ .id = { 1 + i % 7, 1, i }, .origin = 1, .level = i % 10 / 4,
			.run = 1 + i % 10, .first_log = i / 10 * 10, .last_log = i / 10 * 10 + 9, .bytes = 1,
			.changed_idx = i });
	for (uint32_t i = 0; i < 10000; i++)
		add(c, (struct object_row){ .id = { 9, 1, i }, .origin = 1, .level = DATA_LEVEL_SINGLE, .run = 20 + i,
			.first_log = 7, .last_log = 7, .first_offset = i, .end_offset = i + 1, .changed_idx = MANY });
	for (uint64_t log = 10; log < MANY; log += 7) {
		struct catalogue_cursor at = { 0 };
		size_t n = 0;
		while (catalogue_of_log(c, 1, log, &at) != NULL)
			n++;
		assert_int_equal(n, 10);
	}
	struct catalogue_cursor at = { 0 };
	size_t n = 0;
	while (catalogue_of_log(c, 1, 7, &at) != NULL)
		n++;
	assert_int_equal(n, 10010);
	for (uint32_t i = 0; i < MANY; i++)
		catalogue_mark(c, (struct object_id){ 1 + i % 7, 1, i }, i, MANY + i);
	for (uint32_t i = 0; i < MANY; i++)
		catalogue_drop(c, (struct object_id){ 1 + i % 7, 1, i });
	assert_true(catalogue_count(c) == 10000 && catalogue_bytes(c) == 0);
	print_message("# %u objects in, walked and out: %.0f ms\n", MANY, 1e3 * (double)(clock() - began) / CLOCKS_PER_SEC);
	catalogue_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk), cmocka_unit_test(test_walk_goes_on), cmocka_unit_test(test_levels),
		cmocka_unit_test(test_takes), cmocka_unit_test(test_against_list), cmocka_unit_test(test_index),
		cmocka_unit_test(test_many),
	};
	return cmocka_run_group_tests_name("data_catalogue", tests, NULL, NULL);
}
