/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of one log alone beside runs of many: streams that write much have objects of their own in each pack, which are joined
 * once; those that write little go through three levels of merges. Trims inside blocks, forks within batches, deletes and
 * restarts on the way. Everything that lives is read back from every offset.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/codec.h"
#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/data/catalogue.h"
#include "storaged/op.h"
#include "t/unit/node_forks.h"

#define SINGLE_MIN 1500u
#define MERGE_MAX 12000u

static void configure(struct node_config *c)
{
	c->wal_upload_interval_ms = 1;
	c->gc_delay_ms = 0;
}

static uint64_t log_of(const struct model *m)
{
	return state_topic_by_id(meta_state(node->meta), m->id)->partition[0].log_id;
}

struct singles {
	size_t n, n_small;              /* small: not joined, by size */
	uint64_t largest;
};

static struct singles singles_of(const struct model *m)
{
	struct singles s = { 0 };
	const struct catalogue *c = state_catalogue(meta_state(node->meta));
	const uint64_t log_id = log_of(m);
	const struct object_row *row = NULL;
	while ((row = catalogue_single_next(c, 1, log_id, row)) != NULL && row->first_log == log_id) {
		s.n++;
		s.n_small += row->bytes < MERGE_MAX / 2;
		s.largest = row->bytes > s.largest ? row->bytes : s.largest;
	}
	return s;
}

/* Until what may be joined is: at most what fits into one object, and what is open at the end of it. */
static void joins_wait(const struct model *m)
{
	bool never = false;
	for (int i = 0; i < 2000 && singles_of(m).n_small >= 8; i++)
		run_for(&never, 5);
	assert_true(singles_of(m).n_small < 8);
}

/* One pack's share of a log that has objects of its own. */
static void push_much(struct model *m, unsigned round)
{
	for (unsigned i = 0; i < 3; i++)
		model_push(m, 6, round % 3 == 0 ? CODEC_GZIP : CODEC_NONE, (int64_t)round * 10 + i);
}

static void restart(void)
{
	node_down();
	node_up();
}

static void test_joined_once(void **state)
{
	static struct model m, fork;
	size_t n_packs = 40;
	model_create(&m, "/j/one");
	for (unsigned i = 0; i < n_packs; i++) {
		push_much(&m, i);
		packs_wait();
		if (i == 20)
			model_fork(&fork, "/j/fork", &m, m.end - 3, true); /* within the last batch */
		if (i == 25)
			model_trim(&m, m.end / 2 + 2); /* inside a block */
	}
	joins_wait(&m);
	struct singles s = singles_of(&m);
	assert_true(s.n > 1 && s.n < n_packs / 2);
	assert_true(s.largest >= MERGE_MAX / 2 && s.largest <= MERGE_MAX + 4096);
	model_check(&m);
	model_check(&fork);
	restart();
	model_check(&m);
	model_check(&fork);
	/* Nothing of it is copied again. */
	uint64_t merges = metrics->value[METRIC_MERGES];
	bool never = false;
	run_for(&never, 300);
	assert_int_equal(metrics->value[METRIC_MERGES], merges);
	model_delete(&m);
	model_check(&fork);
	topics_delete();
}

#define STREAMS 6
static struct model stream[STREAMS], forks[STREAMS];

/* Streams 0 and 1 write much, the others little; 520 packs are three levels of eight. */
static void test_levels(void **state)
{
	unsigned n_merges = 0;
	for (int i = 0; i < STREAMS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "/l/%d", i);
		model_create(&stream[i], name);
	}
	for (unsigned round = 0; round < 520; round++) {
		for (int i = 0; i < 2; i++)
			if (round % 8 == 0)
				push_much(&stream[i], round);
		model_push(&stream[2 + round % 4], 1 + round % 3, round % 5 == 0 ? CODEC_GZIP : CODEC_NONE, round);
		packs_wait();
		if (round % 100 == 50)
			model_trim(&stream[round / 100], stream[round / 100].start + 1 +
				   (stream[round / 100].end - stream[round / 100].start) / 3);
		if (round % 90 == 45) {
			int i = (int)(round / 90);
			char name[16];
			snprintf(name, sizeof(name), "/l/fork/%d", i);
			model_fork(&forks[i], name, &stream[i], stream[i].end - 1, round % 2 == 1);
			model_push(&forks[i], 2, CODEC_NONE, round);
		}
		if (round % 128 == 127)
			restart();
	}
	n_merges = (unsigned)metrics->value[METRIC_MERGES];
	assert_true(n_merges >= 64 + 8 + 1);
	struct catalogue_level two = catalogue_level(state_catalogue(meta_state(node->meta)), 1, 2);
	assert_true(two.n_runs >= 1 && two.n_runs < 8);
	for (int i = 0; i < STREAMS; i++) {
		model_check(&stream[i]);
		model_check(&forks[i]);
	}
	model_delete(&stream[0]);       /* its fork goes on */
	restart();
	for (int i = 0; i < STREAMS; i++) {
		model_check(&forks[i]);
		if (i > 0)
			model_check(&stream[i]);
	}
	topics_delete();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_joined_once), cmocka_unit_test(test_levels) };
	bounds.single_min = SINGLE_MIN;
	bounds.merge_max = MERGE_MAX;
	bounds.data_block = 700;
	world_config = configure;
	return cmocka_run_group_tests_name("node_joins", tests, world_set_up, world_tear_down);
}
