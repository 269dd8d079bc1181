/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of a loop turn: who waits, in which order they go on, the pause behind one that took much, and how many reads are
 * on their way. The loop and its clock are played by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/turns.h"

static struct env_task *deferred;
static struct env_timer *started;

static uint64_t now_ms(struct env *e)
{
	return 1000;
}

static void timer_start(struct env *e, struct env_timer *t, uint64_t at_ms)
{
	t->at_ms = at_ms;
	started = t;
}

static void timer_stop(struct env *e, struct env_timer *t)
{
	t->at_ms = 0;
	started = NULL;
}

static void defer(struct env *e, struct env_task *t)
{
	deferred = t;
}

static const struct env_ops ops = {
	.now_ms = now_ms, .timer_start = timer_start, .timer_stop = timer_stop, .defer = defer,
};
static struct env env = { &ops };
static struct turns turns;

#define OPEN_MOST 16u

/* One turn of the loop. False: nothing is to be done in it. */
static bool turn_loop(void)
{
	struct env_task *t = deferred;
	deferred = NULL;
	if (t != NULL)
		t->run(t->arg);
	return t != NULL;
}

/* Somebody with so many pieces of work of one size. */
struct worker {
	struct turn turn;
	char name;
	unsigned n_left;
	size_t bytes;
};

static char done[64];

static void work(void *arg)
{
	struct worker *w = arg;
	for (; w->n_left > 0; w->n_left--) {
		if (turns_wait(&turns, &w->turn))
			return;
		snprintf(done + strlen(done), sizeof(done) - strlen(done), "%c", w->name);
		turns_spend(&turns, w->bytes);
	}
}

static struct worker worker(char name, unsigned n, size_t bytes)
{
	return (struct worker){ .name = name, .n_left = n, .bytes = bytes };
}

static void begin(struct worker *w)
{
	w->turn = (struct turn){ .run = work, .arg = w };
	work(w);
}

static int set_up(void **state)
{
	deferred = NULL;
	started = NULL;
	done[0] = '\0';
	turns_init(&turns, &env, OPEN_MOST);
	return 0;
}

static void test_order(void **state)
{
	struct worker a = worker('a', 5, TURNS_SHARE / 2), b = worker('b', 3, TURNS_SHARE / 2), c = worker('c', 1, 1);
	begin(&a);
	begin(&b);
	begin(&c);              /* little work does not pass those who wait */
	assert_string_equal(done, "aa");
	assert_true(turn_loop());
	assert_string_equal(done, "aaaa");
	assert_true(turn_loop());
	assert_string_equal(done, "aaaabb");
	assert_true(turn_loop());
	assert_string_equal(done, "aaaabbcab");
	while (turn_loop())
		;
	assert_string_equal(done, "aaaabbcab");
	begin(&c);
	turns_done(&turns);
}

/* Nobody waits: the share is anew in each turn in which it was spent. */
static void test_alone(void **state)
{
	struct worker a = worker('a', 1, TURNS_SHARE), b = worker('b', 1, 1);
	begin(&a);
	assert_true(turn_loop());
	assert_false(turn_loop());
	begin(&b);
	assert_string_equal(done, "ab");
}

static void test_pause(void **state)
{
	struct worker a = worker('a', 3, 8 * TURNS_SHARE);
	begin(&a);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(strlen(done), i);
		assert_false(turn_loop());
		assert_non_null(started);
		assert_int_equal(started->at_ms, now_ms(&env) + 64);
		started->at_ms = 0;
		started->on_fire(started->arg);
	}
	turns_done(&turns);
	assert_null(started);
}

static void test_forget(void **state)
{
	struct worker a = worker('a', 1, TURNS_SHARE), w[3] = { worker('x', 1, 1), worker('y', 1, 1), worker('z', 1, 1) };
	begin(&a);
	for (int i = 0; i < 3; i++)
		begin(&w[i]);
	turns_forget(&turns, &w[1].turn);
	turns_forget(&turns, &w[1].turn);
	turns_forget(&turns, &w[2].turn);
	begin(&w[1]);
	while (turn_loop())
		;
	assert_string_equal(done, "axy");
	turns_done(&turns);
}

static void reader(void *arg)
{
	struct worker *w = arg;
	if (!turns_begin(&turns, &w->turn))
		snprintf(done + strlen(done), sizeof(done) - strlen(done), "%c", w->name);
}

/* One read, then more while they turn out small, and one again behind a large one. */
static void test_reads(void **state)
{
	struct worker w[6];
	for (int i = 0; i < 6; i++) {
		w[i] = worker((char)('a' + i), 1, 0);
		w[i].turn = (struct turn){ .run = reader, .arg = &w[i] };
		reader(&w[i]);
	}
	assert_string_equal(done, "a");
	turns_end(&turns, &w[0].turn, 1);
	assert_true(turn_loop());
	assert_string_equal(done, "abc");
	turns_end(&turns, &w[1].turn, TURNS_SHARE + 1);
	turn_loop();
	assert_string_equal(done, "abc");
	turns_forget(&turns, &w[3].turn);
	turns_forget(&turns, &w[2].turn);       /* its client is gone: so is its read */
	assert_true(turn_loop());
	assert_string_equal(done, "abce");
	turns_forget(&turns, &w[4].turn);
	turns_forget(&turns, &w[5].turn);
	turns_done(&turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_order, set_up), cmocka_unit_test_setup(test_alone, set_up),
		cmocka_unit_test_setup(test_pause, set_up), cmocka_unit_test_setup(test_forget, set_up),
		cmocka_unit_test_setup(test_reads, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
