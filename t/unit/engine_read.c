/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and waiting: what is handed out, from where, and what becomes of it when memory is short, the
 * store fails or the log goes away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "common/metrics.h"
#include "storaged/engine/engine_impl.h"
#include "t/unit/engine.h"

/* ------------------------------------------------------------------- reading */

static void test_read_stops_at_confirm(void **state)
{
	process_serve(&process, &world, 0);
	append_now(&process, 0, "one", 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "two");
	world_run(&world);
	assert_records(&process, 0, 0, "one");
	assert_records(&process, 0, 1, "");
	world.hold_puts = false;
	world_run(&world);
	assert_records(&process, 0, 0, "one|two");
	append_free(a);
}

static void test_read_from_inside_a_batch(void **state)
{
	process_serve(&process, &world, 0);
	append_now(&process, 0, "zero", 0);
	struct append *a = append_do(&process, 0, "a|b|c");
	world_run(&world);
	assert_stored(a, 1, 4);
	append_now(&process, 0, "last", 4);
	for (int restarted = 0; restarted < 2; restarted++) {
		for (uint64_t from = 1; from <= 3; from++)
			assert_records(&process, 0, from, "a|b|c|last");
		assert_records(&process, 0, 4, "last");
		struct read *r = read_new(&process, 0, 2, 1);
		world_run(&world);
		assert_int_equal(r->r.end, 4);
		assert_string_equal(read_texts(r), "a|b|c"); /* at least one batch */
		read_free(r);
		process_kill(&process);
		process_serve(&process, &world, (size_t)restarted + 1);
	}
	append_free(a);
}

static void test_read_is_bounded(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 10);
	struct read *r = read_new(&process, 0, 2, 3 * 69);
	assert_int_equal(r->n_answers, 1);
	assert_int_equal(r->r.end, 5);
	assert_string_equal(read_texts(r), "2|3|4");
	read_free(r);
}

/* Through three times the arena: old segments leave, what was in them comes back through the page cache. */
static void test_evicted_records_are_read_back(void **state)
{
	static char text[3000], expected[3000 * 10];
	memset(text, 'x', sizeof(text) - 1);
	process_serve(&process, &world, 0);
	for (uint64_t i = 0; i < 100; i++) {
		memcpy(text, "record ", 7);
		text[7] = (char)('0' + i / 10);
		text[8] = (char)('0' + i % 10);
		append_now(&process, 0, text, i);
	}
	assert_true(process.n_gone >= 30);
	assert_true(world.n_segments <= 17);
	assert_int_equal(world.n_segments_made, world.n_segments);
	size_t gets = world.n_gets;
	struct read *r = read_new(&process, 0, 20, 5 * 3070);
	assert_int_equal(r->n_answers, 0);
	struct read *same = read_new(&process, 0, 22, 3100);
	world_run(&world);
	assert_int_equal(r->n_answers, 1);
	assert_int_equal(same->n_answers, 1);
	expected[0] = '\0';
	for (int i = 20; i < 25; i++) {
		text[7] = (char)('0' + i / 10);
		text[8] = (char)('0' + i % 10);
		strcat(expected, i > 20 ? "|" : "");
		strcat(expected, text);
	}
	assert_string_equal(read_texts(r), expected);
	size_t fetched = world.n_gets - gets;
	read_free(r), read_free(same);
	r = read_new(&process, 0, 21, 3100); /* cached now */
	assert_int_equal(r->n_answers, 1);
	assert_int_equal(world.n_gets - gets, fetched);
	read_free(r);
}

static void test_near_ranges_are_one_get(void **state)
{
	process_serve(&process, &world, 0);
	struct append *a[12];
	for (int i = 0; i < 12; i++)
		a[i] = append_do(&process, i % 3, "x");
	world_run(&world);
	for (int i = 0; i < 12; i++)
		append_free(a[i]);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	size_t gets = world.n_gets; /* the top was read at the start */
	assert_records(&process, 1, 0, "x|x|x|x");
	assert_int_equal(world.n_gets, gets + 2); /* an index page and the block */
	assert_records(&process, 2, 1, "x|x|x");
	assert_int_equal(world.n_gets, gets + 3);
	assert_records(&process, 2, 0, "x|x|x|x");
	assert_int_equal(world.n_gets, gets + 3);
}

static void test_reader_pins_hold_a_segment(void **state)
{
	static char text[3000];
	memset(text, 'y', sizeof(text) - 1);
	process_serve(&process, &world, 0);
	append_now(&process, 0, "pinned", 0);
	struct read *r = read_new(&process, 0, 0, 1 << 20);
	for (uint64_t i = 1; i < 60; i++)
		append_now(&process, 0, text, i);
	assert_string_equal(read_texts(r), "pinned");
	read_free(r);
	/* Everything pinned: the oldest is asked back, and the append waits for it. */
	struct read *all[60];
	for (uint64_t i = 0; i < 16; i++)
		all[i] = read_new(&process, 0, 59 - 2 * i, 1);
	struct append *a[8];
	for (int i = 0; i < 8; i++) {
		a[i] = append_do(&process, 1, text);
		world_run(&world);
	}
	assert_int_equal(a[7]->n_answers, 0);
	assert_true(process.n_reclaims >= 1);
	for (int i = 15; i >= 0; i--)
		read_free(all[i]);
	world_run(&world);
	for (int i = 0; i < 8; i++) {
		assert_stored(a[i], (uint64_t)i, (uint64_t)i + 1);
		append_free(a[i]);
	}
}

/* A reader that was given up may still look at what it was shown: that memory is not written again, all other is. */
static void test_abandoned_memory_is_not_used_again(void **state)
{
	static char text[3000];
	memset(text, 'z', sizeof(text) - 1);
	process_serve(&process, &world, 0);
	append_now(&process, 0, "seen", 0);
	struct read *r = read_new(&process, 0, 0, 1 << 20);
	r->r.pieces->pin->abandoned = true;
	assert_string_equal(read_texts(r), "seen");
	read_free(r);
	for (uint64_t i = 1; i < 100; i++)
		append_now(&process, 0, text, i);
	assert_true(process.n_gone >= 30);
	assert_int_equal(world.n_segments_made, world.n_segments + 1);
}

static void test_damage_fails_its_readers_only(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 3);
	append_now(&process, 1, "fine", 0);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	struct world_object *o = world_find(&world, "data/7/0000000000000001/0000000000000001");
	assert_non_null(o);
	o->data[200] ^= 1; /* in the block of the first log */
	struct read *r = read_new(&process, 0, 1, 1);
	world_advance(&world, 60000);
	assert_int_equal(r->n_answers, 1);
	assert_int_equal(r->error.kind, PICO_UNAVAILABLE);
	assert_non_null(strstr(r->error.message, o->key));
	read_free(r);
	assert_records(&process, 1, 0, "fine");
	o->data[200] ^= 1;
	assert_records(&process, 0, 1, "1|2");
}

static void test_read_waits_for_the_store_until_its_deadline(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 2);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	world.hold_gets = true;
	struct read *r = must_calloc(1, sizeof(*r)), *cancelled = read_new(&process, 0, 0, 1);
	*r = *cancelled;
	r->r.deadline_ms = world.now_ms + 100;
	engine_read(process.engine, &r->r);
	engine_read_cancel(process.engine, &cancelled->r);
	world_advance(&world, 99);
	assert_int_equal(r->n_answers, 0);
	world_advance(&world, 1);
	assert_int_equal(r->n_answers, 1);
	assert_int_equal(r->error.kind, PICO_UNAVAILABLE);
	assert_int_equal(cancelled->n_answers, 0);
	world.hold_gets = false;
	world_advance(&world, 1000);
	assert_records(&process, 0, 0, "0|1");
	read_free(r), read_free(cancelled);
}

/* Pinned pages are at most half: whoever finds none waits for them, the oldest first. */
#define READERS 12
static void test_reads_wait_for_pages(void **state)
{
	static char text[3000];
	memset(text, 'p', sizeof(text) - 1);
	test_config.block_cache_size = 40 * 65536;
	process_serve(&process, &world, 0);
	for (uint64_t i = 0; i < 500; i++)
		append_now(&process, 0, text, i);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	struct read *r[READERS]; /* each pins up to five pages */
	for (uint64_t i = 0; i < READERS; i++) {
		r[i] = read_new(&process, 0, i * (500 / READERS), 250000);
		world_run(&world);
	}
	assert_int_equal(r[0]->n_answers, 1);
	size_t done = 0;
	for (int i = 0; i < READERS; i++)
		done += r[i]->n_answers;
	assert_in_range(done, 1, READERS - 1);
	for (int left = READERS; left > 0;) { /* who has an answer gives its pages back: somebody gets on */
		int before = left;
		world_run(&world);
		for (int i = 0; i < READERS; i++) {
			if (r[i] == NULL || r[i]->n_answers == 0)
				continue;
			assert_int_equal(r[i]->error.kind, PICO_OK);
			assert_true(r[i]->r.end > r[i]->r.from);
			read_free(r[i]);
			r[i] = NULL;
			left--;
		}
		assert_true(left < before);
	}
}

static void test_store_errors_are_tried_again(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 3);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	world.hold_gets = true;
	world.error = -EIO;
	struct read *r = read_new(&process, 0, 0, 1 << 20);
	for (int i = 0; i < 5; i++) {
		while (world.n_ops > 0)
			world_end_op(&world, world.ops[0], i % 2 ? END_ERROR : END_LOST);
		world_advance(&world, 3000);
		assert_int_equal(r->n_answers, 0);
	}
	world.hold_gets = false;
	world_advance(&world, 3000);
	assert_string_equal(read_texts(r), "0|1|2");
	read_free(r);
	/* Nobody waits any more: it is not tried for ever. */
	process_kill(&process);
	process_serve(&process, &world, 2);
	world.hold_gets = true;
	r = read_new(&process, 0, 0, 1 << 20);
	engine_read_cancel(process.engine, &r->r);
	while (world.n_ops > 0)
		world_end_op(&world, world.ops[0], END_ERROR);
	size_t gets = world.n_gets;
	world_advance(&world, 10000);
	assert_in_range(world.n_gets, gets, gets + 1); /* one of the collector's */
	read_free(r);
}

static void test_missing_object_fails_the_read(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 3);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	world_remove(&world, "data/7/0000000000000001/0000000000000001");
	struct read *r = read_new(&process, 0, 0, 1 << 20);
	world_advance(&world, 10000);
	assert_int_equal(r->error.kind, PICO_UNAVAILABLE);
	assert_non_null(strstr(r->error.message, "missing"));
	read_free(r);
}

/* ------------------------------------------------------------------- waiting */

struct waiter {
	struct engine_wait w;           /* first */
	unsigned n_ready;
	bool gone, again;
};

static void on_ready(struct engine_wait *w, bool gone)
{
	struct waiter *x = (struct waiter *)w;
	x->n_ready++;
	x->gone = gone;
	if (x->again) {
		w->from = log_confirm(w->log);
		assert_false(engine_wait(process.engine, w));
	}
}

static struct waiter waiter_at(int i, uint64_t from)
{
	return (struct waiter){ .w = { .log = process.logs[i], .from = from, .on_ready = on_ready } };
}

static void test_waits(void **state)
{
	process_serve(&process, &world, 0);
	struct waiter zero = waiter_at(0, 0), one = waiter_at(0, 1), again = waiter_at(0, 0), stopped = waiter_at(0, 0);
	again.again = true;
	assert_false(engine_wait(process.engine, &zero.w));
	assert_false(engine_wait(process.engine, &again.w));
	assert_false(engine_wait(process.engine, &one.w));
	assert_false(engine_wait(process.engine, &stopped.w));
	engine_wait_stop(&stopped.w);
	engine_wait_stop(&stopped.w);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "x");
	world_run(&world);
	assert_int_equal(zero.n_ready, 0);
	struct waiter between = waiter_at(0, 0); /* submitted, not confirmed: must not be missed */
	assert_false(engine_wait(process.engine, &between.w));
	world.hold_puts = false;
	world_run(&world);
	assert_int_equal(zero.n_ready, 1);
	assert_int_equal(between.n_ready, 1);
	assert_int_equal(one.n_ready, 0);
	assert_int_equal(again.n_ready, 1);
	assert_int_equal(stopped.n_ready, 0);
	assert_true(engine_wait(process.engine, &zero.w));
	append_now(&process, 0, "y", 1);
	assert_int_equal(one.n_ready, 1);
	assert_int_equal(again.n_ready, 2);
	again.again = false;
	struct waiter closed = waiter_at(0, 2);
	assert_false(engine_wait(process.engine, &closed.w));
	struct append *c = append_new(&process, 0, NULL);
	c->a.close_after = true;
	append_send(&process, c);
	world_run(&world);
	assert_int_equal(closed.n_ready, 1);
	assert_false(closed.gone);
	assert_int_equal(again.n_ready, 3);
	append_free(a), append_free(c);
}

/* ------------------------------------------------------------------- removal */

/* The texts of one record each that are there without the store. */
static unsigned records_at_once(uint64_t from, uint64_t end)
{
	unsigned n = 0;
	for (; from < end; from++) {
		struct read *r = read_new(&process, 0, from, 1);
		n += r->n_answers;
		if (r->n_answers == 0) {
			engine_read_cancel(process.engine, &r->r);
			free(r);
			break;
		}
		assert_int_equal(r->r.end, from + 1);
		read_texts(r);
		read_free(r);
	}
	return n;
}

/* Five objects of three records. Who goes on where it ended has the two fetches behind it made; who begins, or jumps, has
 * not. */
static void test_reads_ahead(void **state)
{
	process_serve(&process, &world, 0);
	for (uint64_t i = 0; i < 15; i++) {
		append_now(&process, 0, "record", i);
		if (i % 3 == 2)
			process_pack(&process);
	}
	process_kill(&process);
	metadata.recovered[1] = true;
	process_serve(&process, &world, 1);
	int64_t ahead = metrics->value[METRIC_FETCHES_AHEAD];
	assert_records(&process, 0, 6, "record|record|record");
	assert_records(&process, 0, 12, "record|record|record");
	world_run(&world);
	assert_int_equal(metrics->value[METRIC_FETCHES_AHEAD], ahead);
	process_kill(&process);
	process_serve(&process, &world, 2);
	metadata.recovered[2] = true;
	struct read *first = read_new(&process, 0, 0, 1);
	world_run(&world);
	read_texts(first);
	read_free(first);
	assert_int_equal(records_at_once(1, 2), 1);
	world_run(&world);
	world.hold_gets = true;
	assert_int_equal(metrics->value[METRIC_FETCHES_AHEAD] - ahead, 1); /* what is there is one of the two */
	assert_int_equal(records_at_once(2, 15), 4);
	world.hold_gets = false;
	world_run(&world);
	assert_int_equal(records_at_once(6, 15), 6);
	world_run(&world);
	assert_int_equal(records_at_once(12, 15), 3);
	world_run(&world);
	assert_int_equal(metrics->value[METRIC_FETCHES_AHEAD] - ahead, 4);
}

static void test_removal_with_everything_under_way(void **state)
{
	static char text[3000];
	memset(text, 'z', sizeof(text) - 1);
	process_serve(&process, &world, 0);
	append_now(&process, 0, "x", 0);
	process_pack(&process);
	process_kill(&process);
	process_serve(&process, &world, 1);
	append_now(&process, 0, "y", 1); /* loads it */
	world.hold_puts = world.hold_gets = true;
	struct append *flying = append_do(&process, 0, "x"), *a[40];
	struct waiter w = waiter_at(0, 2);
	assert_false(engine_wait(process.engine, &w.w));
	struct read *r = read_new(&process, 0, 0, 1);
	for (int i = 0; i < 40; i++)
		a[i] = append_do(&process, 1, text);
	struct append *room = append_do(&process, 0, "y");
	world_run(&world);
	engine_log_remove(process.engine, process.logs[0]);
	assert_int_equal(w.n_ready, 1);
	assert_true(w.gone);
	assert_refused(room, PICO_NOT_FOUND);
	assert_int_equal(r->n_answers, 1);
	assert_int_equal(r->error.kind, PICO_NOT_FOUND);
	assert_open(flying);
	process.logs[0] = engine_log_add(process.engine, 300, 1, 0, false);
	world.hold_puts = world.hold_gets = false;
	world_run(&world);
	assert_stored(flying, 2, 3);
	append_now(&process, 0, "new", 0);
	assert_records(&process, 0, 0, "new");
	for (int i = 0; i < 40; i++)
		append_free(a[i]);
	append_free(room), append_free(flying), read_free(r);
}

/* Becomes logs[i]. */
static void fork_log(int i, uint64_t id, uint64_t start, uint64_t parent, uint64_t parent_end)
{
	process.logs[i] = engine_log_add(process.engine, id, 1, start, false);
	engine_log_set_parent(process.engine, process.logs[i], parent, parent_end);
	assert_int_equal(log_next(process.logs[i]), parent_end);
	assert_int_equal(log_confirm(process.logs[i]), parent_end);
}

/* Below its parent_end a fork reads its parent, up the chain, whatever the parent is trimmed by; hidden, a log is only there
 * for its forks. */
static void test_forks(void **state)
{
	process_serve(&process, &world, 0);
	append_now(&process, 0, "a", 0);
	append_now(&process, 0, "b", 1);
	append_now(&process, 0, "c", 2);
	append_now(&process, 0, "d", 3);
	fork_log(1, 400, 0, 100, 3);
	assert_records(&process, 1, 0, "a|b|c");
	append_now(&process, 1, "x", 3);
	fork_log(2, 401, 1, 400, 4);
	append_now(&process, 2, "y", 4);
	assert_records(&process, 0, 0, "a|b|c|d");
	assert_records(&process, 1, 2, "c|x");
	assert_records(&process, 2, 1, "b|c|x|y");
	assert_records(&process, 2, 3, "x|y");
	struct log_span span = log_span_at(&process.engine->logs, process.logs[2], 1);
	assert_ptr_equal(span.log, process.logs[0]);
	assert_int_equal(span.from, 1);
	assert_int_equal(span.to, 3);
	span = log_span_at(&process.engine->logs, process.logs[2], 3);
	assert_ptr_equal(span.log, process.logs[1]);
	assert_int_equal(span.from, 3);
	assert_int_equal(span.to, 4);
	span = log_span_at(&process.engine->logs, process.logs[2], 5);
	assert_ptr_equal(span.log, process.logs[2]);
	assert_int_equal(span.from, 4);
	assert_int_equal(span.to, 5);

	engine_log_trim(process.engine, process.logs[0], 4);    /* what lives begins at 0 still */
	assert_records(&process, 1, 0, "a|b|c|x");
	struct waiter w = waiter_at(0, 4);
	assert_false(engine_wait(process.engine, &w.w));
	engine_log_hide(process.engine, process.logs[0]);
	assert_int_equal(w.n_ready, 1);
	assert_true(w.gone);
	assert_records(&process, 2, 1, "b|c|x|y");
	process_pack(&process);
	assert_records(&process, 2, 1, "b|c|x|y");
	engine_log_trim(process.engine, process.logs[1], 3);
	engine_log_trim(process.engine, process.logs[2], 3);
	engine_log_remove(process.engine, process.logs[0]);
	assert_records(&process, 2, 3, "x|y");
	process.logs[0] = NULL;
}

/* Nor does time run backwards where a fork's own records begin, whatever the clock of a restart says, and through a parent that
 * has no records of its own. */
static void test_fork_after_a_clock_set_back(void **state)
{
	process_serve(&process, &world, 0);
	struct append *first = append_do(&process, 0, "a");
	world_run(&world);
	int64_t then = first->a.timestamp_ms;
	append_free(first);
	process_kill(&process);
	world.wall_offset_ms -= 3600000;
	process_serve(&process, &world, 1);
	fork_log(1, 400, 0, 100, 1);
	fork_log(2, 401, 0, 400, 1);
	struct append *own = append_do(&process, 2, "x");
	world_run(&world);
	assert_stored(own, 1, 2);
	assert_true(own->a.timestamp_ms >= then);
	append_free(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_read_stops_at_confirm), TEST(test_read_from_inside_a_batch), TEST(test_read_is_bounded),
		TEST(test_evicted_records_are_read_back), TEST(test_near_ranges_are_one_get),
		TEST(test_reader_pins_hold_a_segment), TEST(test_abandoned_memory_is_not_used_again),
		TEST(test_damage_fails_its_readers_only),
		TEST(test_read_waits_for_the_store_until_its_deadline), TEST(test_reads_wait_for_pages),
		TEST(test_store_errors_are_tried_again), TEST(test_missing_object_fails_the_read), TEST(test_waits),
		TEST(test_reads_ahead), TEST(test_removal_with_everything_under_way), TEST(test_forks), TEST(test_fork_after_a_clock_set_back),
	};
	return cmocka_run_group_tests_name("engine-read", tests, NULL, NULL);
}
