/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing and merging: what is in data objects is what was in the WAL, with the states of the logs, over restarts and
 * levels; what may go goes, and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "storaged/bounds.h"
#include "storaged/data/data_format.h"
#include "t/unit/engine.h"

#define OTHERS 3u                       /* logs beside the first */

static size_t keys_with(const char *prefix)
{
	size_t n = 0;
	for (size_t i = 0; i < world.n_objects; i++)
		n += strncmp(world.objects[i].key, prefix, strlen(prefix)) == 0;
	return n;
}

static void again(size_t n_ended)
{
	process_kill(&process);
	process_serve(&process, &world, n_ended);
}

static void test_wal_objects_go_when_they_are_packed(void **state)
{
	process_serve(&process, &world, 0);
	append_fill(&process, 0, 5);
	assert_int_equal(keys_with("wal/7/0000000000000001/"), 6);
	process_pack(&process);
	assert_int_equal(process.n_commits, 1);
	assert_int_equal(keys_with("wal/7/0000000000000001/"), 1); /* the open object */
	assert_int_equal(keys_with("data/7/0000000000000001/"), 1);
	assert_int_equal(metadata.watermark[1], 6);
	again(1);
	world_advance(&world, 2000);
	assert_int_equal(process.n_recovered, 1);
	assert_int_equal(process.n_commits, 0); /* nothing was left to pack */
	assert_true(metadata.recovered[1]);
	assert_records(&process, 0, 0, "0|1|2|3|4");
}

/* Everything that decides appends: producers, sequences, the close and who closed. */
static void test_states_outlive_their_records(void **state)
{
	process_serve(&process, &world, 0);
	struct append *a = append_new(&process, 0, "x|y"), *c = append_new(&process, 1, "z");
	append_producer(a, "p", 3, 0);
	a->a.has_stream_seq = true;
	a->a.stream_seq = slice_str("0007");
	append_producer(c, "closer", 1, 0);
	c->a.close_after = true;
	append_send(&process, a), append_send(&process, c);
	world_run(&world);
	assert_stored(a, 0, 2), assert_stored(c, 0, 1);
	append_free(a), append_free(c);
	process_pack(&process);
	for (size_t n = 1; n <= 3; n++) {
		again(n);
		assert_int_equal(log_next(process.logs[0]), 2);
		assert_true(log_is_closed(process.logs[1]));
		struct append *twice = append_new(&process, 0, "x|y"), *gap = append_new(&process, 0, "w");
		struct append *old = append_new(&process, 0, "v"), *late = append_new(&process, 1, "u");
		struct append *closer = append_new(&process, 1, "z");
		append_producer(twice, "p", 3, 0);
		append_producer(gap, "p", 3, 2);
		old->a.has_stream_seq = true;
		old->a.stream_seq = slice_str("0007");
		append_producer(closer, "closer", 1, 0);
		closer->a.close_after = true;
		append_send(&process, twice), append_send(&process, gap), append_send(&process, old);
		append_send(&process, late), append_send(&process, closer);
		world_run(&world);
		assert_true(twice->a.duplicate && twice->a.base_known);
		assert_int_equal(twice->a.base_offset, 0);
		assert_refused(gap, PICO_SEQUENCE_GAP);
		assert_refused(old, PICO_CONFLICT);
		assert_refused(late, PICO_CLOSED);
		assert_true(closer->a.duplicate);
		append_free(twice), append_free(gap), append_free(old), append_free(late), append_free(closer);
		world_advance(&world, 2000); /* packs what the session before left: nothing but its open object */
	}
}

/* Records of n packs, the logs mixed; the last log goes away half way. */
static void fill_packs(unsigned n, uint64_t *next)
{
	char text[64];
	for (unsigned i = 0; i < n; i++) {
		for (int log = 0; log < 4; log++) {
			if (process.logs[log] == NULL)
				continue;
			snprintf(text, sizeof(text), "%d.%llu|%d.%llu", log, (unsigned long long)next[log], log,
				 (unsigned long long)next[log] + 1);
			struct append *a = append_do(&process, log, text);
			world_run(&world);
			assert_stored(a, next[log], next[log] + 2);
			append_free(a);
			next[log] += 2;
		}
		process_pack(&process);
	}
}

/* From that offset to the end, in as many reads as it takes. */
static void assert_rest(int log, uint64_t from, uint64_t next)
{
	char expected[64];
	for (uint64_t at = from & ~1ull; at < next;) {
		struct read *r = read_new(&process, log, from, 1);
		world_run(&world);
		assert_int_equal(r->error.kind, PICO_OK);
		snprintf(expected, sizeof(expected), "%d.%llu|%d.%llu", log, (unsigned long long)at, log,
			 (unsigned long long)at + 1);
		assert_string_equal(read_texts(r), expected);
		from = at = r->r.end;
		read_free(r);
	}
}

static void assert_all(const uint64_t *next)
{
	for (int log = 0; log < (int)OTHERS; log++)
		for (uint64_t from = 0; from < next[log]; from += 7)
			assert_rest(log, from, next[log]);
}

/* Index entries of a log in all objects that count, and the bytes of the batches in their blocks. */
struct entries {
	struct data_index_entry e[256];
	uint64_t batch_bytes[256];
	size_t n;
};

static void entry_note(struct entries *all, const struct world_object *o, const struct data_index_entry *e)
{
	struct frame_iter it = { .body = slice_of(o->data + e->position, e->length) };
	struct frame f;
	size_t i = all->n++;
	assert_true(i < 256);
	for (; i > 0 && all->e[i - 1].base > e->base; i--) {
		all->e[i] = all->e[i - 1];
		all->batch_bytes[i] = all->batch_bytes[i - 1];
	}
	all->e[i] = *e;
	all->batch_bytes[i] = 0;
	while (frame_next(&it, &f) == 1)
		all->batch_bytes[i] += f.payload.n;
}

static void entries_of_object(struct entries *all, const struct object_row *row, uint64_t log_id)
{
	char key[DATA_KEY_MAX];
	struct data_footer f;
	struct data_top *top;
	data_key(key, row->id);
	const struct world_object *o = world_find(&world, key);
	assert_non_null(o);
	assert_null(data_footer_decode(slice_of(o->data + o->n - DATA_FOOTER, DATA_FOOTER), o->n, row->id, &f));
	assert_null(data_top_decode(slice_of(o->data + f.top_position, f.top_length), &f, &top));
	for (size_t i = 0; i < top->n_index; i++) {
		struct slice page = slice_of(o->data + top->index[i].position, top->index[i].length);
		struct data_index_entry e;
		assert_null(data_index_page_check(page, &top->index[i]));
		for (size_t k = 0; k < data_index_page_count(page); k++) {
			data_index_page_get(page, k, &e);
			if (e.log_id == log_id)
				entry_note(all, o, &e);
		}
	}
	data_top_free(top);
}

/* Each block says how many bytes of batches its log had before it: retention by size rests on that. */
static void assert_bytes_before(uint64_t log_id, uint64_t next)
{
	static struct entries all;
	uint64_t bytes = 0, offset = 0;
	all.n = 0;
	const struct object_row *row = NULL;
	while ((row = catalogue_next(metadata.catalogue, row != NULL ? &row->id : NULL)) != NULL)
		if (!row->marked)
			entries_of_object(&all, row, log_id);
	assert_true(all.n > 1);
	for (size_t i = 0; i < all.n; i++) {
		assert_int_equal(all.e[i].base, offset);
		assert_int_equal(all.e[i].bytes_before, bytes);
		bytes += all.batch_bytes[i];
		offset = all.e[i].end;
	}
	assert_int_equal(offset, next);
}

static void test_three_levels(void **state)
{
	uint64_t next[4] = { 0 };
	process_serve(&process, &world, 0);
	fill_packs(40, next);
	engine_log_remove(process.engine, process.logs[3]);
	process.logs[3] = NULL;
	fill_packs(40, next);
	assert_int_equal(process.n_merges, 10 + 1); /* of 80 runs of level 0, and of the first 8 of level 1 */
	struct catalogue_level l0 = catalogue_level(metadata.catalogue, 7, 0), l1 = catalogue_level(metadata.catalogue, 7, 1),
			       l2 = catalogue_level(metadata.catalogue, 7, 2);
	assert_int_equal(l0.n_runs, 0);
	assert_int_equal(l1.n_runs, 2);
	assert_int_equal(l2.n_runs, 1);
	for (int i = 0; i < (int)OTHERS; i++)
		assert_bytes_before(100 + (uint64_t)i, next[i]);
	assert_all(next);
	process_kill(&process);
	process_new(&process, &world);
	for (int i = 0; i < (int)OTHERS; i++)
		process.logs[i] = engine_log_add(process.engine, 100 + (uint64_t)i, 1, 0, false);
	process_go(&process, 1);
	world_run(&world);
	assert_true(process.serving);
	for (int i = 0; i < (int)OTHERS; i++)
		assert_int_equal(log_next(process.logs[i]), next[i]);
	assert_all(next);
}

/* A log with much in a merge has an object of its own, which is stored while the run is still being filled: what the run holds of
 * the logs before it stood in memory that was freed by then. */
static void test_large_log_in_a_merge(void **state)
{
	char large[2000], expected[3][200] = { "", "", "" };
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	bounds.single_min = 8192;
	process_serve(&process, &world, 0);
	for (unsigned i = 0; i < 8; i++) {
		for (int log = 0; log < (int)OTHERS; log++) {
			char text[16];
			snprintf(text, sizeof(text), "%d.%u", log, i);
			append_now(&process, log, log == 1 ? large : text, i);
			strcat(strcat(expected[log], i > 0 ? "|" : ""), text);
		}
		process_pack(&process);
	}
	assert_int_equal(process.n_merges, 1);
	bounds = bounds_default;
	struct catalogue_level single = catalogue_level(metadata.catalogue, 7, DATA_LEVEL_SINGLE);
	assert_int_equal(single.n_objects, 1);
	again(1);
	assert_records(&process, 0, 0, expected[0]);
	assert_records(&process, 2, 0, expected[2]);
	struct read *r = read_new(&process, 1, 7, 1);
	world_run(&world);
	assert_string_equal(read_texts(r), large);
	read_free(r);
}

/* A log whose epoch was raised while its frames stood in the arena, as a transfer there and back does: they are in the object
 * of the transfer, and a pack takes none of them. */
static void test_frames_of_an_old_epoch(void **state)
{
	process_serve(&process, &world, 0);
	append_now(&process, 0, "old", 0);
	append_now(&process, 1, "kept", 0);
	engine_log_remove(process.engine, process.logs[0]);
	process.logs[0] = engine_log_add(process.engine, 100, 2, 0, false);
	process_pack(&process);
	const struct object_row *row = catalogue_next(metadata.catalogue, NULL);
	assert_non_null(row);
	assert_int_equal(row->first_log, 101);
	assert_int_equal(row->last_log, 101);
	assert_int_equal(log_next(process.logs[0]), 0);
}

/* Trimmed before it was packed: it is in no block, and counts in the bytes before. */
static void test_trimmed_before_it_is_packed(void **state)
{
	static struct entries all;
	process_serve(&process, &world, 0);
	append_now(&process, 0, "first", 0);
	append_now(&process, 0, "second", 1);
	append_now(&process, 0, "third", 2);
	uint64_t bytes = log_bytes_from(process.logs[0], 0, 1 << 20) - log_bytes_from(process.logs[0], 2, 1 << 20);
	log_trim(&process, 0, 2);
	process_pack(&process);
	all.n = 0;
	entries_of_object(&all, catalogue_next(metadata.catalogue, NULL), 100);
	assert_int_equal(all.n, 1);
	assert_int_equal(all.e[0].base, 2);
	assert_int_equal(all.e[0].bytes_before, bytes);
	again(1);
	assert_records(&process, 0, 2, "third");
}

/* A fork shows what its source was trimmed by: the pack has all of it. */
static void test_trimmed_beside_a_fork(void **state)
{
	static struct entries all;
	process_serve(&process, &world, 0);
	append_now(&process, 0, "first", 0);
	append_now(&process, 0, "second", 1);
	append_now(&process, 0, "third", 2);
	metadata.start[0] = 1;          /* what lives, of the log and of its forks */
	engine_log_trim(process.engine, process.logs[0], 2);
	process_pack(&process);
	all.n = 0;
	entries_of_object(&all, catalogue_next(metadata.catalogue, NULL), 100);
	assert_int_equal(all.n, 1);
	assert_int_equal(all.e[0].base, 1);
	assert_int_equal(all.e[0].end, 3);
	metadata.start[0] = 2;
	again(1);
	assert_records(&process, 0, 2, "third");
}

/* What a session left does not fit: recovery packs on its way. */
static void test_recovery_packs_when_there_is_no_room(void **state)
{
	static char text[3000];
	memset(text, 'r', sizeof(text) - 1);
	process_serve(&process, &world, 0);
	for (uint64_t i = 0; i < 16; i++)
		append_now(&process, 0, text, i);
	assert_int_equal(process.n_commits, 0);
	process_kill(&process);
	test_config.segment_size = 4096;
	test_config.max_message_size = 3500;
	test_config.wal_cache_size = 16 * 4096;
	process_serve(&process, &world, 1);
	assert_true(process.n_commits >= 1);
	assert_int_equal(log_next(process.logs[0]), 16);
	for (uint64_t i = 16; i < 40; i++)
		append_now(&process, 0, text, i);
	for (uint64_t i = 0; i < 40; i++) {
		struct read *r = read_new(&process, 0, i, 1);
		world_run(&world);
		assert_string_equal(read_texts(r), text);
		assert_int_equal(r->r.end, i + 1);
		read_free(r);
	}
}

/* Killed at every put on the way: before the commit the WAL is the truth, after it the object is. */
static void test_killed_while_packing(void **state)
{
	for (unsigned lost = 0; lost < 3; lost++) {
		if (lost > 0)
			test_teardown(NULL), test_setup(NULL);
		process_serve(&process, &world, 0);
		append_fill(&process, 0, 3);
		world.hold_puts = true;
		world_advance(&world, 600000);
		assert_int_equal(world_puts(&world), 1);
		assert_int_equal(process.n_commits, 0);
		if (lost == 1)
			world_end_op(&world, world_put_at(&world, 0), END_ANSWER_LOST);
		if (lost == 2)
			world_end_op(&world, world_put_at(&world, 0), END_OK); /* stored, and no turn to commit */
		assert_int_equal(process.n_commits, 0);
		world.hold_puts = false;
		again(1);
		assert_records(&process, 0, 0, "0|1|2");
		world_advance(&world, 2000);
		assert_int_equal(process.n_commits, 1);
		again(2);
		assert_records(&process, 0, 0, "0|1|2");
		append_now(&process, 0, "3", 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_wal_objects_go_when_they_are_packed), TEST(test_states_outlive_their_records), TEST(test_three_levels),
		TEST(test_large_log_in_a_merge), TEST(test_frames_of_an_old_epoch),
		TEST(test_trimmed_before_it_is_packed), TEST(test_trimmed_beside_a_fork),
		TEST(test_recovery_packs_when_there_is_no_room), TEST(test_killed_while_packing),
	};
	return cmocka_run_group_tests_name("engine-pack", tests, NULL, NULL);
}
