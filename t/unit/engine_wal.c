/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's promises, one by one, in a world where the test decides when and how each put ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <cmocka.h>

#include "storaged/engine/wal_format.h"
#include "t/unit/engine.h"

static void test_append_and_read(void **state)
{
	process_serve(&process, &world, 0);
	assert_int_equal(process.position, 1);
	struct append *a = append_do(&process, 0, "one");
	assert_open(a);
	assert_int_equal(log_next(process.logs[0]), 1);
	assert_int_equal(log_confirm(process.logs[0]), 0);
	world_run(&world);
	assert_stored(a, 0, 1);
	assert_int_equal(log_confirm(process.logs[0]), 1);
	assert_int_equal(process.position, 2);
	assert_records(&process, 0, 0, "one");
	assert_int_equal(world.n_gets, 1); /* of the probe; the arena has the record */
	free(a);
}

static void test_recovery(void **state)
{
	process_serve(&process, &world, 0);
	struct append *a = append_do(&process, 0, "one"), *b = append_do(&process, 1, "other");
	world_run(&world);
	struct append *c = append_do(&process, 0, "two");
	world_run(&world);
	assert_stored(a, 0, 1);
	assert_stored(b, 0, 1);
	assert_stored(c, 1, 2);
	process_kill(&process);
	process_serve(&process, &world, 1);
	assert_int_equal(process.ended[0].cut, 3);
	assert_int_equal(process.stats.frames, 3);
	assert_int_equal(process.stats.objects, 3);
	assert_int_equal(log_next(process.logs[0]), 2);
	assert_records(&process, 0, 0, "one|two");
	assert_records(&process, 0, 1, "two");
	assert_records(&process, 1, 0, "other");
	struct append *d = append_do(&process, 0, "three");
	world_run(&world);
	assert_stored(d, 2, 3);
	assert_records(&process, 0, 1, "two|three");
	assert_records(&process, 0, 2, "three");
	process_kill(&process);
	process_serve(&process, &world, 2);
	assert_records(&process, 0, 0, "one|two|three");
	free(a), free(b), free(c), free(d);
}


/* ------------------------------------------------------------------- writing */

static void test_lone_append_is_one_put(void **state)
{
	process_serve(&process, &world, 0);
	size_t puts = world.n_puts;
	struct append *a = append_do(&process, 0, "one");
	world_run(&world); /* the clock stands still */
	assert_stored(a, 0, 1);
	assert_int_equal(world.n_puts, puts + 1);
	append_free(a);
}

static void test_appends_of_a_turn_share_an_object(void **state)
{
	process_serve(&process, &world, 0);
	size_t puts = world.n_puts;
	struct append *a[10];
	for (int i = 0; i < 10; i++)
		a[i] = append_do(&process, i % 2, "x");
	world_run(&world);
	assert_int_equal(world.n_puts, puts + 1);
	for (int i = 0; i < 10; i++) {
		assert_stored(a[i], (uint64_t)i / 2, (uint64_t)i / 2 + 1);
		assert_int_equal(a[i]->order, i + 1);
		append_free(a[i]);
	}
}

static void test_answers_in_order_of_seq(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a[4];
	for (int i = 0; i < 4; i++) {
		a[i] = append_do(&process, i, "x");
		world_run(&world);
	}
	assert_int_equal(world_puts(&world), 3); /* max_inflight; the fourth gathers */
	world_end_op(&world, world_put_at(&world, 2), END_OK);
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 1), END_OK);
	world_run(&world);
	for (int i = 0; i < 4; i++)
		assert_open(a[i]);
	assert_int_equal(log_confirm(process.logs[2]), 0);
	world_end_op(&world, world_put_at(&world, 0), END_OK);
	world_run(&world);
	for (int i = 0; i < 3; i++) {
		assert_stored(a[i], 0, 1);
		assert_int_equal(a[i]->order, i + 1);
	}
	assert_open(a[3]);
	world.hold_puts = false;
	world_run(&world);
	assert_stored(a[3], 0, 1);
	for (int i = 0; i < 4; i++)
		append_free(a[i]);
}

/* Recovery counts on it: nothing is put 64 seqs above one that is not stored. */
static void test_puts_reach_64_above_the_oldest(void **state)
{
	struct append *a[80];
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	for (int i = 0; i < 80; i++) {
		a[i] = append_do(&process, 0, "x");
		world_run(&world);
		if (world_puts(&world) > 1) {
			world_end_op(&world, world_put_at(&world, 1), END_OK);
			world_run(&world);
		}
	}
	assert_non_null(world_find(&world, "wal/7/0000000000000001/0000000000000040")); /* 64: seq 1 is the oldest */
	assert_null(world_find(&world, "wal/7/0000000000000001/0000000000000041"));
	assert_int_equal(world_puts(&world), 1);
	assert_open(a[63]);
	world_end_op(&world, world_put_at(&world, 0), END_OK);
	world.hold_puts = false;
	world_run(&world);
	for (int i = 0; i < 80; i++) {
		assert_stored(a[i], (uint64_t)i, (uint64_t)i + 1);
		append_free(a[i]);
	}
}

static void test_tokens_bound_the_puts(void **state)
{
	test_config.batch_interval_ms = 100;
	process_serve(&process, &world, 0);
	size_t puts = world.n_puts;
	unsigned done = 0;
	struct append *a[400];
	/* A closed loop of one client for two seconds. */
	for (uint64_t end = world.now_ms + 2000; world.now_ms < end;) {
		a[done] = append_do(&process, 0, "x");
		while (a[done]->n_answers == 0)
			world_advance(&world, 1);
		append_free(a[done++]);
		assert_true(done < 400);
	}
	/* 10 saved ones and one each interval */
	assert_in_range(world.n_puts - puts, 28, 31);
	assert_int_equal(done, world.n_puts - puts);
}

static void test_large_slices_need_no_token(void **state)
{
	static char text[1500];
	memset(text, 'x', sizeof(text) - 1);
	test_config.batch_interval_ms = 10000;
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a[30];
	for (int i = 0; i < 30; i++) {
		a[i] = append_do(&process, 0, text);
		world_run(&world);
	}
	/* The first took a token; two such frames fill an object of at most 4096 bytes. */
	assert_int_equal(world_puts(&world), 3);
	for (int round = 0; round < 20 && world_puts(&world) > 0; round++) {
		assert_true(world_put_at(&world, 0)->n <= 64 + 4096);
		world_end_op(&world, world_put_at(&world, 0), END_OK);
		world_run(&world);
	}
	for (int i = 0; i < 29; i++)
		append_free(a[i]);
	world.hold_puts = false;
	world_advance(&world, 10000);
	append_free(a[29]);
}

/* --------------------------------------------------------------- bad outcomes */

static void test_unknown_then_our_own(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 0), END_ANSWER_LOST);
	world_run(&world);
	assert_open(a);
	assert_non_null(engine_fault(process.engine));
	world.hold_puts = false;
	world_advance(&world, 100); /* again: 412, our put id */
	assert_stored(a, 0, 1);
	assert_null(engine_fault(process.engine));
	assert_int_equal(process.fatal, 0);
	append_free(a);
}

static void test_unknown_without_effect_is_put_again(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one"), *b;
	world_run(&world);
	b = append_do(&process, 0, "two");
	world_run(&world);
	for (int i = 0; i < 20; i++) {
		world_end_op(&world, world_put_at(&world, 0), END_LOST);
		world_advance(&world, 6000);
	}
	assert_open(a);
	assert_open(b);
	world.hold_puts = false;
	world_advance(&world, 6000);
	assert_stored(a, 0, 1);
	assert_stored(b, 1, 2);
	append_free(a), append_free(b);
}

static void test_full_disk_shows_and_heals(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	world.error = -ENOSPC;
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 0), END_ERROR);
	assert_non_null(strstr(engine_fault(process.engine), "wal/7/0000000000000001/0000000000000001"));
	assert_non_null(strstr(engine_fault(process.engine), "No space left"));
	assert_open(a);
	world.hold_puts = false;
	world_advance(&world, 200);
	assert_null(engine_fault(process.engine));
	assert_stored(a, 0, 1);
	append_free(a);
}

static void test_seal_is_the_end(void **state)
{
	process_serve(&process, &world, 0);
	struct append *before = append_do(&process, 0, "before");
	world_run(&world);
	plant(1, 2, WAL_SEAL, "somebody else id");
	struct append *a = append_do(&process, 0, "one"), *dup;
	append_free(before);
	before = append_new(&process, 0, "x");
	append_producer(before, "p", 0, 0);
	append_send(&process, before);
	dup = append_new(&process, 0, "x");
	append_producer(dup, "p", 0, 0);
	append_send(&process, dup);
	struct append *mismatch = append_new(&process, 0, "x");
	mismatch->a.has_match_seq = true;
	append_send(&process, mismatch);
	world_run(&world);
	assert_int_equal(process.fatal, 1);
	assert_non_null(strstr(process.fatal_text, "sealed"));
	assert_refused(a, PICO_DURABILITY);
	assert_refused(before, PICO_DURABILITY);
	assert_refused(dup, PICO_DURABILITY);
	assert_refused(mismatch, PICO_UNAVAILABLE);
	assert_int_equal(log_confirm(process.logs[0]), 1);
	struct append *late = append_do(&process, 0, "late");
	assert_refused(late, PICO_UNAVAILABLE);
	append_free(a), append_free(before), append_free(dup), append_free(mismatch), append_free(late);
}

static void test_silence_and_throttling_show(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one");
	world_advance(&world, 5000);
	assert_null(engine_fault(process.engine));
	world_advance(&world, 1);
	assert_non_null(strstr(engine_fault(process.engine), "has not answered"));
	world.error = -EAGAIN;
	world_end_op(&world, world_put_at(&world, 0), END_ERROR);
	assert_null(engine_fault(process.engine));
	for (int i = 0; i < 8; i++) {
		world_advance(&world, 5000);
		world_end_op(&world, world_put_at(&world, 0), END_ERROR);
	}
	assert_non_null(strstr(engine_fault(process.engine), "wal/7/0000000000000001/0000000000000001"));
	world.hold_puts = false;
	world_advance(&world, 5000);
	assert_null(engine_fault(process.engine));
	assert_stored(a, 0, 1);
	append_free(a);
}

/* The kind is looked at before the put id. */
static void test_seal_with_our_put_id_is_the_end(void **state)
{
	process_serve(&process, &world, 0);
	plant(1, 1, WAL_SEAL, (const char *)test_config.put_id);
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	assert_int_equal(process.fatal, 1);
	assert_refused(a, PICO_DURABILITY);
	append_free(a);
}

static void test_nothing_above_a_seal_is_acknowledged(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	struct append *b = append_do(&process, 0, "two");
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 1), END_OK);
	world_run(&world);
	plant(1, 1, WAL_SEAL, "somebody else id");
	world.hold_puts = false;
	world_run(&world);
	assert_int_equal(process.fatal, 1);
	assert_refused(a, PICO_DURABILITY);
	assert_refused(b, PICO_DURABILITY);
	append_free(a), append_free(b);
}

static void test_foreign_put_id_is_the_end(void **state)
{
	process_serve(&process, &world, 0);
	plant(1, 1, WAL_DATA, "somebody else id");
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	assert_int_equal(process.fatal, 3);
	assert_non_null(strstr(process.fatal_text, "two clusters"));
	assert_refused(a, PICO_DURABILITY);
	append_free(a);
}

/* Ends the only operation outstanding. */
static void end_only(enum world_end how)
{
	assert_int_equal(world.n_ops, 1);
	world_end_op(&world, world.ops[0], how);
	world_run(&world);
}

/* The look at a taken key may fail, be lost, or find nothing any more. */
static void test_look_at_a_taken_key(void **state)
{
	process_serve(&process, &world, 0);
	plant(1, 1, WAL_DATA, (const char *)test_config.put_id);
	struct append *a = append_do(&process, 0, "one");
	world.hold_puts = world.hold_gets = true;
	world_run(&world);
	end_only(END_OK); /* 412 */
	end_only(END_LOST);
	assert_int_equal(world.n_ops, 0);
	assert_non_null(engine_fault(process.engine));
	world_advance(&world, 100);
	world_remove(&world, "wal/7/0000000000000001/0000000000000001");
	end_only(END_OK); /* 404: put again */
	assert_open(a);
	end_only(END_OK);
	assert_stored(a, 0, 1);
	append_free(a);
}

static void test_rubbish_at_our_key_is_the_end(void **state)
{
	process_serve(&process, &world, 0);
	world_store(&world, "wal/7/0000000000000001/0000000000000001", "rubbish", 7);
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	assert_int_equal(process.fatal, 0); /* the answer may have been damaged on its way: looked at again */
	world_advance(&world, 60000);
	assert_int_equal(process.fatal, 1);
	assert_non_null(strstr(process.fatal_text, "stands where this process writes"));
	append_free(a);
}

static void test_open_object_taken(void **state)
{
	plant(1, 0, WAL_OPEN, "somebody else id");
	process_start(&process, &world, 0);
	world_run(&world);
	assert_int_equal(process.fatal, 3);
	assert_false(process.serving);
}

static void test_open_object_sealed(void **state)
{
	plant(1, 0, WAL_SEAL, "somebody else id");
	process_start(&process, &world, 0);
	world_run(&world);
	assert_int_equal(process.fatal, 1);
	assert_non_null(strstr(process.fatal_text, "sealed"));
}

static void test_store_without_condition_is_refused(void **state)
{
	for (int allowed = 0; allowed < 2; allowed++) {
		test_config.allow_unfenced_store = allowed;
		process_start(&process, &world, 0);
		world.hold_puts = true;
		world_run(&world);
		while (world_puts(&world) > 0) {
			world_end_op(&world, world_put_at(&world, 0), END_BLIND);
			world_run(&world);
		}
		assert_int_equal(process.fatal, allowed ? 0 : 1);
		assert_int_equal(process.serving, allowed);
		if (!allowed)
			assert_non_null(strstr(process.fatal_text, "If-None-Match"));
		process_kill(&process);
		world_done(&world);
		world_init(&world);
	}
}

static void test_pause_of_an_hour_is_the_end(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	world.now_ms += 3600 * 1000 + 1;
	world_end_op(&world, world_put_at(&world, 0), END_OK);
	assert_int_equal(process.fatal, 1);
	assert_refused(a, PICO_DURABILITY);
	append_free(a);
}

static void test_put_of_a_day_is_the_end(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one");
	world_advance(&world, 24 * 3600 * 1000 - 60000);
	assert_int_equal(process.fatal, 0);
	world_advance(&world, 120000);
	assert_int_equal(process.fatal, 1);
	assert_refused(a, PICO_DURABILITY);
	append_free(a);
}

static void test_slow_put_is_hedged(void **state)
{
	process_serve(&process, &world, 0);
	for (int i = 0; i < 40; i++) {
		struct append *x = append_do(&process, 0, "x");
		world_run(&world);
		append_free(x);
	}
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "slow");
	world_advance(&world, 50);
	assert_int_equal(world_puts(&world), 1);
	world_advance(&world, 100);
	assert_int_equal(world_puts(&world), 2);
	world_end_op(&world, world_put_at(&world, 1), END_OK);
	world_run(&world);
	assert_stored(a, 40, 41);
	/* The first is still out: its bytes must stay. Then it returns with 412, which changes nothing. */
	world_end_op(&world, world_put_at(&world, 0), END_OK);
	world_run(&world);
	assert_int_equal(process.fatal, 0);
	append_free(a);
}

/* ------------------------------------------------------------ what seldom happens */

/* Puts enough for the WAL to know how long one takes. */
static void learn(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct append *x = append_do(&process, 0, "x");
		world_run(&world);
		append_free(x);
	}
}

/* Puts header of an object, ours but for one field, under the key of seq 1. */
static void plant_ours(uint32_t node, uint64_t session, uint64_t seq)
{
	char key[WAL_KEY_MAX];
	uint8_t bytes[WAL_HEADER];
	struct wal_header h = { .kind = WAL_DATA, .node = node, .session = session, .seq = seq };
	memcpy(h.put_id, test_config.put_id, 16);
	wal_header_encode(bytes, &h);
	wal_key(key, 7, 1, 1);
	world_store(&world, key, bytes, sizeof(bytes));
}

static void test_our_put_id_elsewhere_is_the_end(void **state)
{
	static const struct { uint32_t node; uint64_t session, seq; } cases[] = { { 8, 1, 1 }, { 7, 2, 1 }, { 7, 1, 2 } };
	for (size_t i = 0; i < 3; i++) {
		process_serve(&process, &world, 0);
		plant_ours(cases[i].node, cases[i].session, cases[i].seq);
		struct append *a = append_do(&process, 0, "one");
		world_run(&world);
		assert_int_equal(process.fatal, 3);
		assert_non_null(strstr(process.fatal_text, "two clusters use this prefix"));
		assert_refused(a, PICO_DURABILITY);
		append_free(a);
		process_kill(&process);
		world_done(&world);
		world_init(&world);
	}
}

static void test_store_that_does_not_know_the_condition(void **state)
{
	world.hold_puts = true;
	world.error = -EOPNOTSUPP;
	process_start(&process, &world, 0);
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 0), END_ERROR);
	assert_int_equal(process.fatal, 1);
	assert_non_null(strstr(process.fatal_text, "does not know If-None-Match"));
	process_kill(&process);
	/* Later it is an error as others are. */
	world.hold_puts = false;
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "one");
	world_run(&world);
	world_end_op(&world, world_put_at(&world, 0), END_ERROR);
	assert_int_equal(process.fatal, 0);
	assert_non_null(engine_fault(process.engine));
	world.hold_puts = false;
	world_advance(&world, 5000);
	assert_stored(a, 0, 1);
	append_free(a);
}

/* The end of one object is the end of those that wait, are hedged or looked at: nothing more is sent. */
static void test_nothing_is_sent_after_the_end(void **state)
{
	process_serve(&process, &world, 0);
	learn(40);
	world.hold_puts = world.hold_gets = true;
	struct append *a[3];
	for (int i = 0; i < 3; i++) {
		a[i] = append_do(&process, i, "x");
		world_run(&world);
	}
	world_end_op(&world, world_put_at(&world, 0), END_LOST);        /* waits; the second would be hedged */
	plant(1, 43, WAL_SEAL, "somebody else id");
	world_end_op(&world, world_put_at(&world, 1), END_OK);          /* looked at */
	assert_int_equal(world_puts(&world), 1);
	size_t n_puts = world.n_puts;
	struct world_op *look = world.ops[world.n_ops - 1];
	assert_false(look->is_put);
	struct append *late = append_do(&process, 3, "x");              /* the pump is due when the end comes */
	world_end_op(&world, look, END_OK);
	assert_int_equal(process.fatal, 1);
	world_advance(&world, 60000);
	assert_int_equal(world.n_puts, n_puts);
	world_end_op(&world, world_put_at(&world, 0), END_OK);          /* an answer to a dead process */
	for (int i = 0; i < 3; i++) {
		assert_refused(a[i], PICO_DURABILITY);
		append_free(a[i]);
	}
	append_free(late);
}

/* A look under way when the end comes is not judged. */
static void test_look_after_the_end(void **state)
{
	process_serve(&process, &world, 0);
	plant(1, 1, WAL_DATA, "somebody else id");
	plant(1, 2, WAL_SEAL, "somebody else id");
	world.hold_gets = true;
	struct append *a = append_do(&process, 0, "x");
	world_run(&world);
	struct append *b = append_do(&process, 1, "x");
	world_run(&world);
	assert_int_equal(world.n_ops, 2);
	world_end_op(&world, world.ops[1], END_OK);
	assert_int_equal(process.fatal, 1);
	world_end_op(&world, world.ops[0], END_OK);     /* would have been the end of another kind */
	assert_int_equal(process.fatal, 1);
	append_free(a), append_free(b);
}

/* The first put hangs, its hedge finds the key taken, and while it looks whose the object is the first says: mine. */
static void test_first_put_answers_during_the_look(void **state)
{
	process_serve(&process, &world, 0);
	learn(40);
	world.hold_puts = world.hold_gets = true;
	struct append *a = append_do(&process, 0, "x");
	world_advance(&world, 200);
	assert_int_equal(world_puts(&world), 2);
	struct world_op *first = world_put_at(&world, 0);
	world_store(&world, first->key, first->copy, first->n);
	world_end_op(&world, world_put_at(&world, 1), END_OK);  /* 412 */
	world_end_op(&world, first, END_BLIND);                 /* OK */
	assert_stored(a, 40, 41);
	assert_int_equal(world.n_ops, 1);
	world_end_op(&world, world.ops[0], END_OK);
	assert_int_equal(process.fatal, 0);
	append_free(a);
}

/* Of two puts one is lost: a third goes out beside the one that hangs, and no fourth. */
static void test_no_more_than_two_puts(void **state)
{
	process_serve(&process, &world, 0);
	learn(40);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "x");
	world_advance(&world, 200);
	assert_int_equal(world_puts(&world), 2);
	world_end_op(&world, world_put_at(&world, 0), END_LOST);
	world_advance(&world, 200);
	assert_int_equal(world_puts(&world), 2);
	size_t n_puts = world.n_puts;
	world_advance(&world, 10000);
	assert_int_equal(world.n_puts, n_puts);
	world_end_op(&world, world_put_at(&world, 0), END_LOST);        /* the hedge, while another is out */
	world_end_op(&world, world_put_at(&world, 0), END_OK);          /* which is good news in the back-off */
	assert_stored(a, 40, 41);
	world.hold_puts = false;
	world_advance(&world, 60000);
	assert_int_equal(process.fatal, 0);
	append_free(a);
}

/* A hedge is a put, and waits for its token as any. */
static void test_hedge_waits_for_a_token(void **state)
{
	test_config.batch_interval_ms = 1000;
	process_serve(&process, &world, 0);
	for (int i = 0; i < 40; i++) {
		world_advance(&world, 1000);
		learn(1);
	}
	struct append *a = append_do(&process, 0, "x");
	for (world_run(&world); a->n_answers == 1; world_run(&world)) {
		append_free(a);                 /* the saved tokens */
		a = append_do(&process, 0, "x");
	}
	uint64_t base = log_next(process.logs[0]) - 1;
	assert_int_equal(base, 49);
	world.hold_puts = true;
	world_advance(&world, 1000);
	assert_int_equal(world_puts(&world), 1);
	world_advance(&world, 500);
	assert_int_equal(world_puts(&world), 1);        /* 4 x p95 are over, the token is not there */
	world_advance(&world, 500);
	assert_int_equal(world_puts(&world), 2);
	world.hold_puts = false;
	world_run(&world);
	assert_stored(a, base, base + 1);
	append_free(a);
}

/* Seventy-two minutes do not fit the microseconds of a sample. */
static void test_put_of_hours(void **state)
{
	process_serve(&process, &world, 0);
	world.hold_puts = true;
	struct append *a = append_do(&process, 0, "x");
	world_advance(&world, 72 * 60 * 1000);
	world.hold_puts = false;
	world_run(&world);
	assert_stored(a, 0, 1);
	learn(40);
	append_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_append_and_read), TEST(test_recovery), TEST(test_lone_append_is_one_put),
		TEST(test_appends_of_a_turn_share_an_object), TEST(test_answers_in_order_of_seq),
		TEST(test_puts_reach_64_above_the_oldest),
		TEST(test_tokens_bound_the_puts), TEST(test_large_slices_need_no_token), TEST(test_unknown_then_our_own),
		TEST(test_unknown_without_effect_is_put_again), TEST(test_full_disk_shows_and_heals),
		TEST(test_silence_and_throttling_show),
		TEST(test_seal_is_the_end), TEST(test_seal_with_our_put_id_is_the_end),
		TEST(test_nothing_above_a_seal_is_acknowledged), TEST(test_foreign_put_id_is_the_end),
		TEST(test_look_at_a_taken_key), TEST(test_rubbish_at_our_key_is_the_end), TEST(test_open_object_taken), TEST(test_open_object_sealed), TEST(test_store_without_condition_is_refused),
		TEST(test_pause_of_an_hour_is_the_end), TEST(test_put_of_a_day_is_the_end), TEST(test_slow_put_is_hedged),
		TEST(test_our_put_id_elsewhere_is_the_end), TEST(test_store_that_does_not_know_the_condition),
		TEST(test_nothing_is_sent_after_the_end), TEST(test_look_after_the_end),
		TEST(test_first_put_answers_during_the_look), TEST(test_no_more_than_two_puts),
		TEST(test_hedge_waits_for_a_token), TEST(test_put_of_hours),
	};
	return cmocka_run_group_tests_name("engine-wal", tests, NULL, NULL);
}
