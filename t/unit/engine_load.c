/* SPDX-License-Identifier: Apache-2.0
 *
 * States of logs at the start: what packed records left, over many packs and restarts, and state entries that do not
 * fit together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "proto/frame.pb-c.h"
#include "storaged/data/data_builder.h"
#include "storaged/data/data_state.h"
#include "t/unit/engine.h"

#define PRODUCERS 40            /* ids of 200 bytes: twice of what an entry is always complete with */

static const char *id_of(int i)
{
	static char id[201];
	memset(id, 'x', 200);
	id[0] = (char)('0' + i / 10);
	id[1] = (char)('0' + i % 10);
	return id;
}

static void producer_append(int i, uint64_t seq, bool duplicate)
{
	struct append *a = append_new(&process, 0, "record");
	append_producer(a, id_of(i), 1, seq);
	append_send(&process, a);
	world_run(&world);
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, PICO_OK);
	assert_int_equal(a->a.duplicate, duplicate);
	append_free(a);
}

/* What was written goes into an object: after ten minutes, and what the process found at its start was before. */
static void pack(void)
{
	unsigned n = process.n_commits;
	world_advance(&world, 2 * 600000);
	assert_true(process.n_commits > n);
}

/* The state entry of log 100 in the last object of the last session: of its last pack, or of the merge behind it. */
static Frame__State *newest_entry(void)
{
	const struct object_row *newest = NULL;
	for (const struct object_row *r = catalogue_next(metadata.catalogue, NULL); r != NULL;
	     r = catalogue_next(metadata.catalogue, &r->id))
		newest = r->marked ? newest : r;
	char key[DATA_KEY_MAX];
	data_key(key, newest->id);
	struct world_object *o = world_find(&world, key);
	struct data_footer f;
	struct data_top *top;
	struct slice entry;
	const char *fault;
	assert_null(data_footer_decode(slice_of(o->data + o->n - DATA_FOOTER, DATA_FOOTER), o->n, newest->id, &f));
	assert_null(data_top_decode(slice_of(o->data + f.top_position, f.top_length), &f, &top));
	const struct data_page *p = data_top_state_page(top, 100);
	assert_true(data_state_page_find(slice_of(o->data + p->position, p->length), 100, &entry));
	Frame__State *s = data_state_decode(entry, 100, &fault);
	assert_null(fault);
	data_top_free(top);
	return s;
}

/* How many entries in a row are not complete, as the last one says. A merge may have made it complete. */
static uint32_t incomplete_now(uint32_t expected)
{
	Frame__State *s = newest_entry();
	uint32_t n = s->n_incomplete;
	assert_true(n == expected || (n == 0 && process.n_merges > 0));
	assert_true(s->n_producers == PRODUCERS || (n > 0 && s->n_producers == 1));
	data_state_free(s);
	return n;
}

/* One producer of many writes between two packs; whatever the process forgets meanwhile, at most seven entries in a row
 * are not complete, and no producer is forgotten. */
static void test_producers_over_packs_and_restarts(void **state)
{
	uint64_t seq[PRODUCERS] = { 0 };
	size_t n_ended = 0, n_carried = 0;
	uint32_t n_incomplete = 0;
	process_serve(&process, &world, n_ended);
	for (int i = 0; i < PRODUCERS; i++)
		producer_append(i, 0, false);
	pack();
	for (unsigned n = 0; n < 40; n++) {
		uint32_t found = incomplete_now(n_incomplete);
		if (n % 5 == 4) {
			process_kill(&process);
			process_serve(&process, &world, ++n_ended);
			for (int i = 0; i < PRODUCERS; i++)
				producer_append(i, seq[i], true);
			n_incomplete = found;
			n_carried += found > 0;
		}
		int who = (int)(n * 7 % PRODUCERS);
		producer_append(who, ++seq[who], false);
		n_incomplete = (n_incomplete + 1) % 8;
		pack();
	}
	assert_true(n_carried > 3);
}

/* ----------------------------------------------------------- planted entries */

static void plant_object(uint64_t number, uint64_t next, int64_t last_ms, uint32_t n_incomplete)
{
	struct object_id id = { .node = 7, .session = 1, .number = number };
	Frame__State s = FRAME__STATE__INIT;
	struct object_row row;
	struct iovec iov[8];
	uint64_t length;
	uint8_t entry[100], bytes[1000];
	char key[DATA_KEY_MAX];
	s.log_id = 100;
	s.epoch = 1;
	s.next = next;
	s.last_append_ms = last_ms;
	s.complete = n_incomplete == 0;
	s.n_incomplete = n_incomplete;
	struct data_builder *b = data_builder_new(id, 7, 0);
	data_builder_state(b, 100, slice_of(entry, frame__state__pack(&s, entry)));
	data_builder_finish(b, &row);
	size_t at = 0;
	int n = data_builder_iovec(b, 0, row.bytes, iov, 8, &length);
	must(length == row.bytes && length <= sizeof(bytes));
	for (int i = 0; i < n; at += iov[i++].iov_len)
		memcpy(bytes + at, iov[i].iov_base, iov[i].iov_len);
	data_builder_free(b);
	data_key(key, id);
	world_store(&world, key, bytes, at);
	row.run = 1000000 + number;
	catalogue_add(metadata.catalogue, &row);
}

/* Not the youngest object says how far a log goes, but the entry with the highest offset. */
static void test_newest_by_offset(void **state)
{
	plant_object(1, 5, 1000, 0);
	plant_object(2, 9, 2000, 1);
	plant_object(3, 7, 1500, 0);
	metadata.recovered[1] = true;
	process_serve(&process, &world, 1);
	append_now(&process, 0, "x", 9);
	pack();
	Frame__State *s = newest_entry();
	assert_true(s->next == 10 && s->complete);
	data_state_free(s);
}

/* The node serves, that log can be read of and not be written to, another one can. */
static void assert_load_refused(const char *words)
{
	metadata.recovered[1] = true;
	process_serve(&process, &world, 1);
	struct append *a = append_new(&process, 0, "record");
	append_send(&process, a);
	world_run(&world);
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, PICO_UNAVAILABLE);
	if (strstr(a->error.message, words) == NULL || strstr(a->error.message, "log 100") == NULL)
		fail_msg("%s", a->error.message);
	append_free(a);
	append_now(&process, 1, "x", 0);
	assert_int_equal(process.fatal, 0);
}

static void test_no_complete_entry(void **state)
{
	plant_object(1, 5, 1000, 1);
	plant_object(2, 9, 2000, 2);
	assert_load_refused("none of its state entries is complete");
}

static void test_entries_that_contradict(void **state)
{
	plant_object(1, 5, 1000, 0);
	plant_object(2, 9, 999, 1);
	assert_load_refused("reaches farther");
}

static void serve_in_epoch(uint32_t epoch, size_t n_ended)
{
	process_new(&process, &world);
	process.logs[0] = engine_log_add(process.engine, 100, epoch, 0, false);
	process_go(&process, n_ended);
	world_run(&world);
	assert_true(process.serving);
}

static void assert_epoch_ends(uint32_t epoch, uint32_t ret, uint64_t end)
{
	uint32_t found;
	uint64_t at;
	assert_int_equal(log_epoch_end(process.logs[0], epoch, &found, &at), LOG_EPOCH_ENDS);
	assert_int_equal(found, ret);
	assert_int_equal(at, end);
}

/* A log whose owner changed: where each epoch ended is known after packs and restarts, and a frame of a former owner that
 * nobody packed is none of its records. */
static void test_rising_epochs(void **state)
{
	uint32_t found;
	uint64_t at;
	serve_in_epoch(3, 0);
	append_now(&process, 0, "a", 0);
	append_now(&process, 0, "b", 1);
	pack();
	append_now(&process, 0, "late", 2);
	process_kill(&process);
	serve_in_epoch(5, 1);
	assert_int_equal(log_next(process.logs[0]), 2);
	append_now(&process, 0, "c", 2);
	assert_records(&process, 0, 0, "a|b|c");
	assert_epoch_ends(5, 5, 3);
	assert_epoch_ends(4, 3, 2);
	assert_epoch_ends(3, 3, 2);
	assert_epoch_ends(2, 2, 0);
	assert_int_equal(log_epoch_end(process.logs[0], 6, &found, &at), LOG_EPOCH_TO_COME);
	pack();
	process_kill(&process);
	serve_in_epoch(6, 2);
	append_now(&process, 0, "d", 3);
	assert_records(&process, 0, 0, "a|b");
	assert_records(&process, 0, 2, "c|d");
	assert_epoch_ends(6, 6, 4);
	assert_epoch_ends(5, 5, 3);
	assert_epoch_ends(3, 3, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_producers_over_packs_and_restarts), TEST(test_newest_by_offset), TEST(test_no_complete_entry),
		TEST(test_entries_that_contradict), TEST(test_rising_epochs),
	};
	return cmocka_run_group_tests_name("engine_load", tests, NULL, NULL);
}
