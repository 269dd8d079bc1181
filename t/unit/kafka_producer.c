/* SPDX-License-Identifier: Apache-2.0
 *
 * Idempotent producers of one log: every row of the rules, and the table at its bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "storaged/engine/kafka_producer.h"

#define LAST INT32_MAX
#define HOUR 3600000ll

static struct kafka_producers table;
static uint64_t next_offset;

static int set_up(void **state)
{
	table = (struct kafka_producers){ 0 };
	next_offset = 100;
	return 0;
}

static int tear_down(void **state)
{
	kafka_producers_done(&table);
	return 0;
}

/* One batch at a time: decided, and noted when it is taken. */
struct step {
	int64_t now_ms;
	struct kafka_claim claim;
	enum kafka_verdict verdict;
	uint64_t base;                  /* DUPLICATE: the original's */
	int32_t expected;               /* GAP */
};

static void step_do(const struct step *s)
{
	const struct kafka_producer *p = kafka_producer_find(&table, s->claim.id, s->now_ms);
	const struct kafka_written *original = NULL;
	int32_t expected = -7;
	enum kafka_verdict v = kafka_producer_decide(&table, p, &s->claim, s->now_ms, &original, &expected);
	assert_int_equal(v, s->verdict);
	if (v == KAFKA_DUPLICATE) {
		assert_int_equal(original->base, s->base);
		assert_int_equal(original->ticket, s->base + 1000);
	} else if (v == KAFKA_GAP) {
		assert_int_equal(expected, s->expected);
	} else if (v == KAFKA_ACCEPT) {
		kafka_producer_accept(&table, &s->claim, s->now_ms, next_offset, next_offset + 1000);
		next_offset += s->claim.count;
	}
}

static void steps_do(const struct step *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		step_do(&s[i]);
}
#define STEPS(s) steps_do(s, sizeof(s) / sizeof((s)[0]))

static void test_order(void **state)
{
	static const struct step steps[] = {
		{ 1, { 7, 0, 42, 3 }, .verdict = KAFKA_ACCEPT },        /* unknown: anywhere; 100..102, 42..44 */
		{ 1, { 7, 0, 42, 3 }, KAFKA_DUPLICATE, .base = 100 },
		{ 1, { 7, 0, 46, 1 }, KAFKA_GAP, .expected = 45 },
		{ 1, { 7, 0, 44, 1 }, KAFKA_GAP, .expected = 45 },      /* inside a batch is not that batch */
		{ 1, { 7, 0, 42, 2 }, KAFKA_GAP, .expected = 45 },
		{ 1, { 7, 0, 45, 1 }, .verdict = KAFKA_ACCEPT },        /* 103 */
		{ 1, { 7, 0, 42, 3 }, KAFKA_DUPLICATE, .base = 100 },
		{ 1, { 7, 0, 45, 1 }, KAFKA_DUPLICATE, .base = 103 },
		{ 1, { 8, 5, 0, 1 }, .verdict = KAFKA_ACCEPT },         /* 104: another one */
		{ 1, { 7, 0, 46, 1 }, .verdict = KAFKA_ACCEPT },
	};
	STEPS(steps);
}

static void test_window_of_five(void **state)
{
	static const struct step steps[] = {
		{ 1, { 7, 0, 0, 1 }, .verdict = KAFKA_ACCEPT },         /* 100 */
		{ 1, { 7, 0, 1, 2 }, .verdict = KAFKA_ACCEPT },         /* 101 */
		{ 1, { 7, 0, 3, 1 }, .verdict = KAFKA_ACCEPT },         /* 103 */
		{ 1, { 7, 0, 4, 1 }, .verdict = KAFKA_ACCEPT },         /* 104 */
		{ 1, { 7, 0, 5, 1 }, .verdict = KAFKA_ACCEPT },         /* 105 */
		{ 1, { 7, 0, 0, 1 }, KAFKA_DUPLICATE, .base = 100 },
		{ 1, { 7, 0, 5, 1 }, KAFKA_DUPLICATE, .base = 105 },
		{ 1, { 7, 0, 6, 1 }, .verdict = KAFKA_ACCEPT },         /* 106: the first one is forgotten */
		{ 1, { 7, 0, 0, 1 }, KAFKA_GAP, .expected = 7 },
		{ 1, { 7, 0, 1, 2 }, KAFKA_DUPLICATE, .base = 101 },
		{ 1, { 7, 0, 3, 1 }, KAFKA_DUPLICATE, .base = 103 },
		{ 1, { 7, 0, 4, 1 }, KAFKA_DUPLICATE, .base = 104 },
		{ 1, { 7, 0, 6, 1 }, KAFKA_DUPLICATE, .base = 106 },
	};
	STEPS(steps);
}

static void test_epochs(void **state)
{
	static const struct step steps[] = {
		{ 1, { 7, 3, 10, 1 }, .verdict = KAFKA_ACCEPT },        /* 100 */
		{ 1, { 7, 2, 11, 1 }, .verdict = KAFKA_FENCED },
		{ 1, { 7, 2, 10, 1 }, .verdict = KAFKA_FENCED },
		{ 1, { 7, 4, 11, 1 }, KAFKA_GAP, .expected = 0 },       /* a new epoch begins at 0 */
		{ 1, { 7, 4, 10, 1 }, KAFKA_GAP, .expected = 0 },       /* and is no duplicate of the old one */
		{ 1, { 7, 4, 0, 1 }, .verdict = KAFKA_ACCEPT },         /* 101 */
		{ 1, { 7, 4, 0, 1 }, KAFKA_DUPLICATE, .base = 101 },
		{ 1, { 7, 4, 10, 1 }, KAFKA_GAP, .expected = 1 },       /* the old epoch's batches are none of it */
		{ 1, { 7, 3, 10, 1 }, .verdict = KAFKA_FENCED },
		{ 1, { 7, INT16_MAX, 0, 1 }, .verdict = KAFKA_ACCEPT },
		{ 1, { 7, 4, 1, 1 }, .verdict = KAFKA_FENCED },
	};
	STEPS(steps);
}

static void test_wrap(void **state)
{
	static const struct step steps[] = {
		{ 1, { 7, 0, LAST - 1, 1 }, .verdict = KAFKA_ACCEPT },  /* 100 */
		{ 1, { 7, 0, 0, 1 }, KAFKA_GAP, .expected = LAST },
		{ 1, { 7, 0, LAST, 1 }, .verdict = KAFKA_ACCEPT },      /* 101 */
		{ 1, { 7, 0, 1, 1 }, KAFKA_GAP, .expected = 0 },
		{ 1, { 7, 0, 0, 1 }, .verdict = KAFKA_ACCEPT },         /* 102 */
		{ 1, { 7, 0, LAST, 1 }, KAFKA_DUPLICATE, .base = 101 },
		{ 1, { 8, 0, LAST - 1, 5 }, .verdict = KAFKA_ACCEPT },  /* 103: LAST - 1, LAST, 0, 1, 2 */
		{ 1, { 8, 0, LAST - 1, 5 }, KAFKA_DUPLICATE, .base = 103 },
		{ 1, { 8, 0, LAST - 1, 4 }, KAFKA_GAP, .expected = 3 },
		{ 1, { 8, 0, 3, 1 }, .verdict = KAFKA_ACCEPT },
	};
	STEPS(steps);
}

static void test_idle(void **state)
{
	static const struct step steps[] = {
		{ 1, { 7, 3, 0, 1 }, .verdict = KAFKA_ACCEPT },                                 /* 100 */
		{ KAFKA_PRODUCER_IDLE_MS, { 7, 3, 0, 1 }, KAFKA_DUPLICATE, .base = 100 },       /* moves nothing */
		{ KAFKA_PRODUCER_IDLE_MS + 1, { 7, 1, 9, 1 }, .verdict = KAFKA_ACCEPT },        /* unknown by now */
		{ KAFKA_PRODUCER_IDLE_MS + 1, { 7, 1, 10, 1 }, .verdict = KAFKA_ACCEPT },
		{ KAFKA_PRODUCER_IDLE_MS + 1, { 7, 1, 0, 1 }, KAFKA_GAP, .expected = 11 },      /* with its window */
		{ 3 * KAFKA_PRODUCER_IDLE_MS, { 9, 0, 0, 1 }, .verdict = KAFKA_ACCEPT },
	};
	STEPS(steps);
	assert_int_equal(table.n, 1); /* the idle one went when another came */
	/* The same numbers as long ago are no duplicate of then, though the entry still stood. */
	static const struct step again[] = {
		{ 5 * KAFKA_PRODUCER_IDLE_MS, { 9, 0, 1, 1 }, .verdict = KAFKA_ACCEPT },
		{ 5 * KAFKA_PRODUCER_IDLE_MS, { 9, 0, 0, 1 }, KAFKA_GAP, .expected = 2 },
	};
	STEPS(again);
}

static void fill(int64_t first, uint32_t n, int64_t now_ms, int64_t step_ms)
{
	for (uint32_t i = 0; i < n; i++) {
		struct kafka_claim c = { .id = first + i, .first = 5, .count = 1 };
		assert_int_equal(kafka_producer_accept(&table, &c, now_ms + i * step_ms, i, i), 0);
	}
}

static void test_full(void **state)
{
	fill(1000, KAFKA_PRODUCERS_MAX, 0, 0);
	assert_int_equal(table.n, KAFKA_PRODUCERS_MAX);
	static const struct step steps[] = {
		{ HOUR - 1, { 7, 0, 0, 1 }, .verdict = KAFKA_FULL },
		{ HOUR - 1, { 1000, 0, 6, 1 }, .verdict = KAFKA_ACCEPT },       /* known ones go on */
		{ HOUR, { 1002, 0, 6, 1 }, .verdict = KAFKA_ACCEPT },
	};
	STEPS(steps);
	/* 1001 is the least recently used now; it goes, then 1003; 1000 and 1002 stay. */
	struct kafka_claim c = { .id = 7, .count = 1 };
	const struct kafka_written *w;
	int32_t expected;
	assert_int_equal(kafka_producer_decide(&table, NULL, &c, HOUR, &w, &expected), KAFKA_ACCEPT);
	assert_int_equal(kafka_producer_accept(&table, &c, HOUR, 1, 1), 1);
	c.id = 8;
	assert_int_equal(kafka_producer_accept(&table, &c, HOUR, 1, 1), 1);
	assert_int_equal(table.n, KAFKA_PRODUCERS_MAX);
	assert_null(kafka_producer_find(&table, 1001, HOUR));
	assert_null(kafka_producer_find(&table, 1003, HOUR));
	assert_non_null(kafka_producer_find(&table, 1000, HOUR));
	assert_non_null(kafka_producer_find(&table, 1002, HOUR));
	assert_non_null(kafka_producer_find(&table, 1004, HOUR));
	assert_non_null(kafka_producer_find(&table, 7, HOUR));
	for (int64_t id = 1004; id < 1000 + KAFKA_PRODUCERS_MAX; id++)
		assert_int_equal(kafka_producer_last(kafka_producer_find(&table, id, HOUR))->base, id - 1000);
}

/* Against a simple model: random ids come and go by idleness; each that lives is found, no other is. */
static void test_random(void **state)
{
	static int64_t used[200];
	uint32_t random = 12345;
	int64_t now = 1;
	for (int i = 0; i < 200; i++)
		used[i] = -2 * KAFKA_PRODUCER_IDLE_MS;
	for (int round = 0; round < 20000; round++) {
		random = random * 1103515245u + 12345u;
		int64_t id = (random >> 8) % 200;
		now += (random >> 20) % (KAFKA_PRODUCER_IDLE_MS / 100);
		struct kafka_claim c = { .id = id * 65536, .first = round, .count = 1 };
		kafka_producer_accept(&table, &c, now, (uint64_t)round, 0);
		used[id] = now;
		uint32_t alive = 0;
		for (int k = 0; k < 200; k++) {
			bool lives = now - used[k] < KAFKA_PRODUCER_IDLE_MS;
			const struct kafka_producer *p = kafka_producer_find(&table, k * 65536ll, now);
			assert_int_equal(p != NULL, lives);
			alive += lives;
		}
		assert_true(table.n >= alive && table.n <= 200);
		assert_int_equal(kafka_producer_last(kafka_producer_find(&table, c.id, now))->base, round);
	}
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_order), TEST(test_window_of_five), TEST(test_epochs), TEST(test_wrap), TEST(test_idle),
		TEST(test_full), TEST(test_random),
	};
	return cmocka_run_group_tests_name("kafka_producer", tests, NULL, NULL);
}
