/* SPDX-License-Identifier: Apache-2.0
 *
 * String producers of a log: what is decided about an epoch and a number, who is forgotten, and ids that look alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "storaged/engine/producer.h"

static void accept(struct producer_table *t, const char *id, int64_t used_ms, uint64_t ticket)
{
	struct producer p = { .epoch = 1, .seq = ticket, .base = ticket, .next = ticket + 1, .used_ms = used_ms, .ticket = ticket };
	producer_accept(t, slice_str(id), &p);
}

static void test_decisions(void **state)
{
	const struct producer p = { .epoch = 5, .seq = 7 };
	const struct {
		const struct producer *p;
		uint64_t epoch, seq;
		enum producer_verdict verdict;
		uint64_t expected;
	} cases[] = {
		{ NULL, 0, 0, PRODUCER_ACCEPT, 0 }, { NULL, 9, 0, PRODUCER_ACCEPT, 0 }, { NULL, 0, 1, PRODUCER_GAP, 0 },
		{ &p, 6, 0, PRODUCER_ACCEPT, 0 },   { &p, 6, 8, PRODUCER_GAP, 0 },      { &p, 4, 8, PRODUCER_FENCED, 0 },
		{ &p, 5, 0, PRODUCER_DUPLICATE, 0 }, { &p, 5, 7, PRODUCER_DUPLICATE, 0 }, { &p, 5, 8, PRODUCER_ACCEPT, 8 },
		{ &p, 5, 9, PRODUCER_GAP, 8 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t expected = 99;
		assert_int_equal(producer_decide(cases[i].p, cases[i].epoch, cases[i].seq, &expected), cases[i].verdict);
		assert_int_equal(expected, cases[i].expected);
	}
}

/* Two ids of one hash (FNV-1a, 32 bits). */
static void test_ids_of_one_hash(void **state)
{
	struct producer_table t = { 0 };
	accept(&t, "producer-4235", 10, 1);
	assert_null(producer_find(&t, slice_str("producer-1009400"), 10));
	accept(&t, "producer-1009400", 11, 2);
	assert_int_equal(t.n, 2);
	assert_int_equal(producer_find(&t, slice_str("producer-4235"), 11)->seq, 1);
	assert_int_equal(producer_find(&t, slice_str("producer-1009400"), 11)->seq, 2);
	producer_table_done(&t);
	assert_null(producer_find(&t, slice_str("producer-4235"), 11));
}

static void test_idle_for_seven_days(void **state)
{
	struct producer_table t = { 0 };
	accept(&t, "p", 1000, 1);
	assert_non_null(producer_find(&t, slice_str("p"), 999 + PRODUCER_IDLE_MS));
	assert_null(producer_find(&t, slice_str("p"), 1000 + PRODUCER_IDLE_MS));
	producer_table_done(&t);
}

/* At the bound the longest idle goes, of two used at one time the one of the older frame; all others stay. */
static void test_bound(void **state)
{
	struct producer_table t = { 0 };
	char id[24];
	for (uint32_t i = 0; i < PRODUCERS_MAX; i++) {
		snprintf(id, sizeof(id), "p%u", i);
		accept(&t, id, i == 77 || i == 300 || i == 555 ? 5 : 10 + i % 3, i == 300 ? 3 : 1000 + i);
	}
	accept(&t, "p77", 5, 1077);     /* known: nobody goes */
	assert_int_equal(t.n, PRODUCERS_MAX);
	static const char *const goes[] = { "p300", "p77", "p555", "p0" };
	for (unsigned i = 0; i < 4; i++) {
		assert_non_null(producer_find(&t, slice_str(goes[i]), 20));
		snprintf(id, sizeof(id), "new%u", i);
		accept(&t, id, 20, 5000 + i);
		assert_int_equal(t.n, PRODUCERS_MAX);
		assert_null(producer_find(&t, slice_str(goes[i]), 20));
		assert_int_equal(producer_find(&t, slice_str(id), 20)->seq, 5000 + i);
	}
	assert_int_equal(producer_find(&t, slice_str("p3"), 20)->seq, 1003);
	producer_table_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decisions), cmocka_unit_test(test_ids_of_one_hash),
		cmocka_unit_test(test_idle_for_seven_days), cmocka_unit_test(test_bound),
	};
	return cmocka_run_group_tests_name("producer", tests, NULL, NULL);
}
