/* SPDX-License-Identifier: Apache-2.0
 *
 * The command log on real SQLite files: start, proposals, restart, and everything that can come between a
 * proposal and its answer. Storage is a little store in memory; a wrapper around the database plays its faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/meta/meta.h"
#include "storaged/planted.h"
#include "t/unit/meta_world.h"

static void test_start_empty(void **arg)
{
	struct world w;
	world_init(&w);
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_int_equal(w.session, 1);
	assert_null(meta_fault(w.meta));
	assert_int_equal(state_idx(meta_state(w.meta)), 2);
	struct create c = { .name = "/orders/eu" };
	world_create(&w, &c);
	assert_true(world_run(&w, &c.done));
	assert_int_equal(c.error, PICO_OK);
	assert_true(c.created);
	const struct state_topic *t = state_topic_find(meta_state(w.meta), slice_str("orders.eu"));
	assert_non_null(t);
	assert_string_equal(t->name, "/orders/eu");
	assert_string_equal(t->kafka_topic, "orders.eu");
	assert_int_equal(t->partition[0].owner, 1);
	world_stop(&w);

	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_int_equal(w.session, 2);
	t = state_topic_by_name(meta_state(w.meta), slice_str("/orders/eu"));
	assert_non_null(t);
	const struct state_session *s = state_session_next(meta_state(w.meta), 1, 0);
	assert_int_equal(s->session, 1);
	assert_int_equal(s->state, SESSION_ENDED);
	assert_int_equal(s->recoverer, 1);
	world_stop(&w);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_empty),
	};
	return cmocka_run_group_tests_name("meta_log", tests, NULL, NULL);
}
