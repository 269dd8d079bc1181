/* SPDX-License-Identifier: Apache-2.0
 *
 * What a start knows of requests: at the bound it forgets the older half, and what it forgot is UNKNOWN from then on and
 * never ABSENT, up to the last request of the object in which it stopped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "storaged/bounds.h"
#include "storaged/engine/request.h"

#define WORKER 7
#define NOW 1000000000

static void note(struct request_table *t, uint64_t id, uint64_t session, uint64_t seq)
{
	request_table_note(t, &(struct request){ .instance = WORKER, .id = id, .session = session, .seq = seq,
						 .append_time = NOW, .answer = { .base_offset = id } });
}

static enum engine_request_state state_of(const struct request_table *t, uint64_t id, uint64_t session, uint64_t seq)
{
	struct engine_request answer;
	enum engine_request_state found = request_table_find(t, WORKER, id, session, seq, &answer);
	if (found == REQUEST_STORED)
		assert_int_equal(answer.base_offset, id);
	return found;
}

/* Sessions 3 and 4 were read, from (3, 10) on; two requests stand in each of the objects 10, 11 and 12. */
static void fill(struct request_table *t)
{
	request_table_begin(t, 3, 10, 4);
	for (uint64_t id = 0; id < 6; id++)
		note(t, id, 3, 10 + id / 2);
	request_table_ready(t, NOW);
}

static void test_all_noted(void **state)
{
	struct request_table t = { 0 };
	assert_int_equal(state_of(&t, 0, 3, 10), REQUEST_UNKNOWN);
	fill(&t);
	for (uint64_t id = 0; id < 6; id++)
		assert_int_equal(state_of(&t, id, 3, 10), REQUEST_STORED);
	assert_int_equal(state_of(&t, 6, 3, 9), REQUEST_UNKNOWN);
	assert_int_equal(state_of(&t, 6, 3, 10), REQUEST_ABSENT);
	assert_int_equal(state_of(&t, 6, 4, 0), REQUEST_ABSENT);
	assert_int_equal(state_of(&t, 6, 5, 0), REQUEST_UNKNOWN);
	request_table_done(&t);
}

/* With room for five, 0 and 1 go when 5 comes; with room for three or two one goes each time. */
static void test_forgotten(void **state)
{
	static const struct { uint32_t room; uint64_t n_gone, last_seq; } rows[] = { { 5, 2, 10 }, { 3, 3, 11 }, { 2, 4, 11 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_table t = { 0 };
		bounds.requests = rows[i].room;
		fill(&t);
		for (uint64_t id = 0; id < 6; id++)
			assert_int_equal(state_of(&t, id, 3, rows[i].last_seq),
					 id < rows[i].n_gone ? REQUEST_UNKNOWN : REQUEST_STORED);
		assert_int_equal(state_of(&t, 9, 3, rows[i].last_seq), REQUEST_UNKNOWN);
		assert_int_equal(state_of(&t, 9, 3, rows[i].last_seq + 1), REQUEST_ABSENT);
		request_table_done(&t);
	}
	bounds = bounds_default;
}

/* So do those that are too old when the start is done. */
static void test_old(void **state)
{
	struct request_table t = { 0 };
	request_table_begin(&t, 3, 10, 3);
	note(&t, 0, 3, 10);
	note(&t, 1, 3, 10);
	t.entries[0].append_time -= REQUEST_YOUNG_MS + 1;
	request_table_ready(&t, NOW);
	assert_int_equal(state_of(&t, 0, 3, 10), REQUEST_UNKNOWN);
	assert_int_equal(state_of(&t, 1, 3, 10), REQUEST_STORED);
	assert_int_equal(state_of(&t, 9, 3, 11), REQUEST_ABSENT);
	request_table_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_noted), cmocka_unit_test(test_forgotten), cmocka_unit_test(test_old),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
