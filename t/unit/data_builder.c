/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects built at every bound (blocks, pages, entries, few and many logs), read back from their footer, and looked up
 * at every offset beside a plain list of what went in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "t/unit/data_fixture.h"

static const struct object_id ID = { .node = 1, .session = 2, .number = 3 };

static int tear_down(void **state)
{
	fixture_free_all();
	return 0;
}

/* The object is whole, and holds so much. */
static struct slice finish(struct data_builder *b, size_t n_blocks, size_t n_frames, size_t n_states)
{
	struct object_row row;
	struct fixture_total total;
	struct slice bytes = fixture_finish(b, &row);
	const char *fault = fixture_check(bytes, ID, &total);
	if (fault != NULL)
		fail_msg("%s", fault);
	assert_int_equal(total.n_blocks, n_blocks);
	assert_int_equal(total.n_frames, n_frames);
	assert_int_equal(total.n_states, n_states);
	assert_int_equal(row.bytes, bytes.n);
	return bytes;
}

static struct data_frame sized(uint64_t log_id, uint64_t base, size_t size)
{
	struct frame_spec spec = {
		.log_id = log_id, .base = base, .end = base + 1, .append_ms = 1000 + (int64_t)base,
		.max_timestamp = 5000 - (int64_t)base, .size = size,
	};
	return fixture_frame(&spec);
}

static void add(struct data_builder *b, struct data_frame f, uint64_t bytes_before)
{
	data_builder_frame(b, &f, bytes_before);
}

static struct data_index_entry entry_of(struct slice bytes, uint64_t log_id, uint64_t offset)
{
	struct fixture_object o;
	struct data_index_entry e;
	assert_null(fixture_open(bytes, ID, &o));
	assert_true(fixture_find(&o, log_id, offset, &e));
	fixture_close(&o);
	return e;
}

/* ------------------------------------------------------------------- blocks */

/* Frames of a quarter MiB: four fill a block, the fifth begins the next. A byte less, and the fifth joins. */
static void test_block_closes_at_a_mebibyte(void **state)
{
	for (size_t less = 0; less <= 8; less += 8) {
		struct data_builder *b = data_builder_new(ID, 1, 0);
		for (uint64_t i = 0; i < 6; i++)
			add(b, sized(9, i, (DATA_BLOCK_MAX >> 2) - (i == 3 ? less : 0)), i * 10);
		uint64_t first = less > 0 ? 5 : 4;
		struct slice bytes = finish(b, 2, 6, 0);
		struct data_index_entry e = entry_of(bytes, 9, 0), second = entry_of(bytes, 9, first);
		assert_true(e.base == 0 && e.end == first && second.base == first && second.end == 6);
		assert_int_equal(e.length, (DATA_BLOCK_MAX >> 2) * first - less);
		assert_true(e.bytes_before == 0 && second.bytes_before == first * 10);
		assert_true(e.last_append_ms == 1000 + (int64_t)first - 1 && e.max_timestamp == 5000);
		assert_true(second.last_append_ms == 1005 && second.max_timestamp == 5000 - (int64_t)first);
		free((void *)bytes.p);
	}
}

/* One frame may be far larger than a block, at its begin or at its end. */
static void test_large_frames(void **state)
{
	struct data_builder *b = data_builder_new(ID, 1, 0);
	add(b, sized(9, 0, 9u << 20), 0);
	add(b, sized(9, 1, 144), 0);
	add(b, sized(9, 2, 3u << 20), 0);
	add(b, sized(9, 3, 144), 0);
	struct slice bytes = finish(b, 3, 4, 0);
	assert_int_equal(entry_of(bytes, 9, 0).length, 9u << 20);
	assert_int_equal(entry_of(bytes, 9, 2).length, (3u << 20) + 144);
	assert_int_equal(entry_of(bytes, 9, 3).length, 144);
	free((void *)bytes.p);
}

static void test_gaps_and_logs_begin_blocks(void **state)
{
	struct data_builder *b = data_builder_new(ID, 1, 0);
	add(b, fixture_small(1, 0, 5), 0);
	add(b, fixture_small(1, 5, 7), 100);
	add(b, fixture_small(1, 8, 9), 300);    /* offset 7 is missing */
	add(b, fixture_small(2, 9, 10), 7);     /* goes on where the other log ends */
	struct slice bytes = finish(b, 3, 4, 0);
	struct data_index_entry e = entry_of(bytes, 1, 7);
	assert_true(e.base == 8 && e.end == 9 && e.bytes_before == 300);
	e = entry_of(bytes, 1, 6);
	assert_true(e.base == 0 && e.end == 7 && e.bytes_before == 0 && e.length == 320);
	e = entry_of(bytes, 2, 0);
	assert_true(e.base == 9 && e.bytes_before == 7 && e.position == 480);
	free((void *)bytes.p);
}

/* -------------------------------------------------------------------- pages */

/* Of 65,536 bytes a page takes 8, and 16 an entry: entries of 2,040 - 16 fill it to the byte. */
static void test_state_page_closes_at_64_kib(void **state)
{
	static uint8_t entry[4096];
	enum { N = 32, SIZE = (DATA_PAGE_MAX - 8) / N - 16, REST = (DATA_PAGE_MAX - 8) % N };
	for (size_t more = 0; more < 2; more++) {
		struct data_builder *b = data_builder_new(ID, 1, 0);
		for (uint64_t log = 0; log < N; log++)
			data_builder_state(b, log, slice_of(entry, SIZE + (log == 0 ? REST + more : 0)));
		struct slice bytes = finish(b, 0, 0, N);
		struct fixture_object o;
		assert_null(fixture_open(bytes, ID, &o));
		assert_int_equal(o.top->n_state, 1 + more);
		assert_int_equal(o.top->state[0].length, DATA_PAGE_MAX - (more > 0 ? 16 + SIZE - 1 : 0));
		assert_int_equal(o.top->state[0].log_id, N - 1 - more);
		fixture_close(&o);
		free((void *)bytes.p);
	}
}

/* An entry that does not fit into any page has one of its own, and those around it stay apart from it. */
static void test_large_entries(void **state)
{
	static uint8_t large[1 << 20];
	memset(large, 7, sizeof(large));
	struct data_builder *b = data_builder_new(ID, 1, 0);
	data_builder_state(b, 1, slice_of(large, 10));
	data_builder_state(b, 2, slice_of(large, DATA_PAGE_MAX - 8 - 16));      /* just fills one */
	data_builder_state(b, 3, slice_of(large, DATA_PAGE_MAX - 8 - 15));
	data_builder_state(b, 4, slice_of(large, sizeof(large)));
	data_builder_state(b, 5, slice_of(large, 1));
	data_builder_state(b, 6, slice_of(large, 2));
	struct slice bytes = finish(b, 0, 0, 6), entry;
	struct fixture_object o;
	static const size_t lengths[] = { 10, DATA_PAGE_MAX - 24, DATA_PAGE_MAX - 23, 1 << 20, 1, 2 };
	assert_null(fixture_open(bytes, ID, &o));
	assert_int_equal(o.top->n_state, 5);
	for (uint64_t log = 1; log <= 6; log++) {
		const struct data_page *p = data_top_state_page(o.top, log);
		assert_true(p == &o.top->state[log < 6 ? log - 1 : 4]);
		assert_true(data_state_page_find(fixture_page(&o, p), log, &entry));
		assert_true(entry.n == lengths[log - 1] && memcmp(entry.p, large, entry.n) == 0);
	}
	assert_int_equal(o.top->state[1].length, DATA_PAGE_MAX);
	fixture_close(&o);
	free((void *)bytes.p);
}

/* 1,024 entries fill an index page. */
static void test_index_page_closes_at_64_kib(void **state)
{
	for (uint64_t n = 1023; n <= 1025; n++) {
		struct data_builder *b = data_builder_new(ID, 1, 0);
		struct data_frame f = fixture_small(0, 0, 1);
		for (uint64_t log = 0; log < n; log++) {
			f.log_id = log; /* the header says 0: nobody looks here */
			data_builder_frame(b, &f, 0);
		}
		struct slice bytes = fixture_finish(b, NULL);
		struct fixture_object o;
		assert_null(fixture_open(bytes, ID, &o));
		assert_int_equal(o.top->n_index, n > 1024 ? 2 : 1);
		assert_int_equal(o.top->index[0].length, n > 1024 ? DATA_PAGE_MAX : n * 64);
		assert_true(data_top_index_page(o.top, 1023, 0) == (n > 1023 ? &o.top->index[0] : NULL));
		assert_true(data_top_index_page(o.top, 1024, 0) == (n > 1024 ? &o.top->index[1] : NULL));
		fixture_close(&o);
		free((void *)bytes.p);
	}
}

/* A log over the edge of two pages: what stands in the second is found there, also from the gap before it. */
static void test_log_over_two_index_pages(void **state)
{
	struct data_builder *b = data_builder_new(ID, 1, 0);
	for (uint64_t i = 0; i < 1030; i++) /* gaps at every odd offset */
		add(b, fixture_small(5, 2 * i, 2 * i + 1), 0);
	struct slice bytes = finish(b, 1030, 1030, 0);
	struct fixture_object o;
	struct data_index_entry e;
	assert_null(fixture_open(bytes, ID, &o));
	for (uint64_t offset = 0; offset < 2059; offset++) {
		assert_true(fixture_find(&o, 5, offset, &e));
		assert_int_equal(e.base, (offset + 1) / 2 * 2);
		assert_true(data_top_index_page(o.top, 5, offset) == &o.top->index[offset > 2046]);
	}
	assert_false(fixture_find(&o, 5, 2059, &e));
	fixture_close(&o);
	free((void *)bytes.p);
}

/* --------------------------------------------------------------- few and many */

static void test_empty_object(void **state)
{
	struct data_builder *b = data_builder_new(ID, 1, 2);
	struct object_row row;
	struct fixture_object o;
	struct fixture_total total;
	assert_true(data_builder_is_empty(b));
	assert_int_equal(data_builder_ready(b), 0);
	struct slice bytes = fixture_finish(b, &row);
	assert_int_equal(bytes.n, 16 + DATA_FOOTER);
	assert_null(fixture_check(bytes, ID, &total));
	assert_null(fixture_open(bytes, ID, &o));
	assert_true(o.top->n_logs == 0 && !data_top_has(o.top, 0));
	assert_null(data_top_index_page(o.top, 0, 0));
	assert_null(data_top_state_page(o.top, 0));
	assert_true(row.first_log == 0 && row.last_log == 0 && row.oldest_ms == 0 && row.level == 2);
	fixture_close(&o);
	free((void *)bytes.p);
}

static void test_states_without_frames(void **state)
{
	struct data_builder *b = data_builder_new(ID, 1, 0);
	struct object_row row;
	struct fixture_object o;
	struct data_index_entry e;
	data_builder_state(b, 4, slice_str("four"));
	assert_false(data_builder_is_empty(b));
	data_builder_state(b, UINT64_MAX, slice_str("last"));
	struct slice bytes = fixture_finish(b, &row), entry;
	assert_true(row.first_log == 4 && row.last_log == UINT64_MAX && row.oldest_ms == 0 && row.newest_ms == 0);
	assert_null(fixture_open(bytes, ID, &o));
	assert_int_equal(o.top->state[0].position, 0);
	assert_false(fixture_find(&o, 4, 0, &e));
	const struct data_page *p = data_top_state_page(o.top, UINT64_MAX);
	assert_true(data_state_page_find(fixture_page(&o, p), UINT64_MAX, &entry) && slice_is(entry, "last"));
	fixture_close(&o);
	free((void *)bytes.p);
}

/* One log alone: its offsets are in the row. */
static void test_single(void **state)
{
	struct data_builder *b = data_builder_new(ID, 4, DATA_LEVEL_SINGLE);
	struct object_row row;
	add(b, sized(77, 10, 160), 0);
	add(b, sized(77, 11, 160), 0);
	add(b, sized(77, 20, 160), 0);
	struct slice bytes = fixture_finish(b, &row);
	assert_true(row.first_log == 77 && row.last_log == 77 && row.first_offset == 10 && row.end_offset == 21);
	assert_true(row.level == DATA_LEVEL_SINGLE && row.origin == 4 && row.bytes == bytes.n && row.run == 0);
	assert_true(row.oldest_ms == 1010 && row.newest_ms == 1020 && !row.marked && row.changed_idx == 0);
	free((void *)bytes.p);
}

/* A frame in every third log, a state entry in all but every fifth. */
static void test_100000_logs(void **state)
{
	enum { N = 100000, STEP = 1000003 };
	struct data_builder *b = data_builder_new(ID, 1, 0);
	struct data_frame f = fixture_small(0, 0, 1);
	uint8_t entry[8];
	size_t n_logs = 0;
	for (uint64_t i = 0; i < N; i++) {
		f.log_id = i * STEP;
		if (i % 3 == 0)
			data_builder_frame(b, &f, 0);
		memcpy(entry, &i, sizeof(i));
		if (i % 5 != 0)
			data_builder_state(b, i * STEP, slice_of(entry, sizeof(entry)));
		n_logs += i % 3 == 0 || i % 5 != 0;
	}
	struct slice bytes = fixture_finish(b, NULL), found;
	struct fixture_object o;
	assert_null(fixture_open(bytes, ID, &o));
	assert_int_equal(o.top->n_logs, n_logs);
	assert_true(data_top_memory(o.top) > n_logs * 8 && data_top_memory(o.top) < n_logs * 8 + 8192);
	for (size_t i = 0; i < o.top->n_state; i++)
		assert_null(data_state_page_check(fixture_page(&o, &o.top->state[i]), &o.top->state[i]));
	for (uint64_t i = 0; i < N; i++) {
		struct data_index_entry e;
		assert_int_equal(data_top_has(o.top, i * STEP), i % 3 == 0 || i % 5 != 0);
		assert_false(data_top_has(o.top, i * STEP + 1));
		assert_int_equal(fixture_find(&o, i * STEP, 0, &e), i % 3 == 0);
		assert_false(fixture_find(&o, i * STEP + 1, 0, &e));
		const struct data_page *p = data_top_state_page(o.top, i * STEP);
		bool has = p != NULL && data_state_page_find(fixture_page(&o, p), i * STEP, &found);
		assert_int_equal(has, i % 5 != 0);
		assert_true(!has || memcmp(found.p, &i, 8) == 0);
	}
	fixture_close(&o);
	free((void *)bytes.p);
}

/* ------------------------------------------------------------------- pieces */

/* What lies together in memory is one piece; every range of an object comes out as it is. */
static void test_pieces(void **state)
{
	struct data_builder *b = data_builder_new(ID, 1, 0);
	uint8_t together[480];
	struct iovec iov[16];
	struct object_row row;
	uint64_t length;
	for (uint64_t i = 0; i < 3; i++) {
		struct data_frame f = fixture_small(1, i, i + 1);
		memcpy(together + i * 160, f.bytes.p, 160);
		f.bytes.p = together + i * 160;
		data_builder_frame(b, &f, 0);
	}
	assert_true(data_builder_ready(b) == 480 && data_builder_size(b) > 480);
	assert_int_equal(data_builder_iovec(b, 0, 480, iov, 16, &length), 1);
	assert_true(iov[0].iov_base == together && iov[0].iov_len == 480 && length == 480);
	add(b, fixture_small(2, 0, 1), 0);
	data_builder_state(b, 1, slice_str("one"));
	assert_int_equal(data_builder_iovec(b, 470, 20, iov, 16, &length), 2);
	assert_true(iov[0].iov_base == together + 470 && iov[0].iov_len == 10 && iov[1].iov_len == 10 && length == 20);
	data_builder_finish(b, &row);
	struct slice bytes = fixture_bytes(b);
	assert_true(data_builder_size(b) == bytes.n && data_builder_ready(b) == bytes.n);
	for (uint64_t from = 0; from <= bytes.n; from++) {
		for (int n_max = 1; n_max < 6; n_max += 4) {
			int n = data_builder_iovec(b, from, bytes.n - from, iov, n_max, &length);
			uint64_t at = from;
			for (int i = 0; i < n; at += iov[i++].iov_len)
				assert_true(memcmp(iov[i].iov_base, bytes.p + at, iov[i].iov_len) == 0);
			assert_true(at == from + length && n <= n_max && (n == n_max || at == bytes.n));
		}
	}
	data_builder_free(b);
	free((void *)bytes.p);
}

/* Each third has a frame, each second a state. */
static struct data_builder *sixty_logs(void)
{
	struct data_builder *b = data_builder_new(ID, 1, 0);
	for (uint64_t id = 1; id <= 60; id++) {
		if (id % 3 == 0)
			add(b, fixture_small(id, 0, 1), 0);
		if (id % 2 == 0)
			data_builder_state(b, id, slice_str("state"));
	}
	return b;
}

/* A little at a time it comes to the same object. */
static void test_finish_in_steps(void **state)
{
	struct object_row row, other;
	struct data_builder *b = sixty_logs();
	struct slice at_once = fixture_finish(sixty_logs(), &row);
	unsigned n = 1;
	while (!data_builder_finish_some(b, 7, &other))
		n++;
	assert_int_equal(n, (20 + 30 + 6) / 7);
	struct slice bytes = fixture_bytes(b);
	assert_int_equal(bytes.n, at_once.n);
	assert_memory_equal(bytes.p, at_once.p, bytes.n);
	assert_true(row.bytes == other.bytes && row.first_log == other.first_log && row.last_log == other.last_log);
	data_builder_free(b);
	free((void *)bytes.p);
	free((void *)at_once.p);
}

/* -------------------------------------------------------------------- model */

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

struct model_frame {
	uint64_t log, base, end;
	int64_t append_ms, max_timestamp;
	size_t size;
};

#define MODEL_FRAMES 400
#define MODEL_LOGS 40

static struct model_frame model[MODEL_FRAMES];
static size_t n_model;
static bool model_state[MODEL_LOGS];

static void model_fill(void)
{
	uint64_t log = random_below(4), next = random_below(20);
	n_model = random_below(MODEL_FRAMES) + 1;
	for (size_t i = 0; i < n_model; i++) {
		if (random_below(10) == 0 && log + 4 < MODEL_LOGS) {
			log += 1 + random_below(3);
			next = random_below(20);
		}
		if (random_below(4) == 0)
			next += 1 + random_below(5);
		model[i] = (struct model_frame){
			.log = log, .base = next, .end = next + 1 + random_below(6), .append_ms = (int64_t)(100 + i),
			.max_timestamp = (int64_t)random_below(1000), .size = 144 + 8 * random_below(20),
		};
		if (random_below(40) == 0)
			model[i].size = DATA_BLOCK_MAX - 8 * random_below(40);
		next = model[i].end;
	}
	for (size_t i = 0; i < MODEL_LOGS; i++)
		model_state[i] = random_below(3) > 0;
}

static struct slice model_build(void)
{
	struct data_builder *b = data_builder_new(ID, 1, 1);
	size_t state = 0;
	for (size_t i = 0; i < n_model; i++) {
		struct model_frame *m = &model[i];
		struct frame_spec spec = { m->log, m->base, m->end, m->append_ms, m->max_timestamp, m->size };
		add(b, fixture_frame(&spec), 1000 * i);
		for (; state < MODEL_LOGS && random_below(3) == 0; state++) /* whenever it comes */
			if (model_state[state])
				data_builder_state(b, state, slice_of(&model[state], 8 + state));
	}
	for (; state < MODEL_LOGS; state++)
		if (model_state[state])
			data_builder_state(b, state, slice_of(&model[state], 8 + state));
	return fixture_finish(b, NULL);
}

/* The first frame of the log that ends behind offset; n_model: none. */
static size_t model_find(uint64_t log, uint64_t offset)
{
	for (size_t i = 0; i < n_model; i++)
		if (model[i].log == log && model[i].end > offset)
			return i;
	return n_model;
}

/* Frames [first, last] of the model make that block, to its neighbours. */
static void assert_block(const struct data_index_entry *e, size_t at)
{
	size_t first = at, last = at, bytes = 0;
	int64_t max_timestamp = INT64_MIN;
	while (model[first].base > e->base)
		first--;
	while (model[last].end < e->end)
		last++;
	for (size_t i = first; i <= last; i++) {
		assert_true(model[i].log == e->log_id && (i == first || model[i].base == model[i - 1].end));
		assert_true(i == last || bytes + model[i].size < DATA_BLOCK_MAX);
		bytes += model[i].size;
		if (model[i].max_timestamp > max_timestamp)
			max_timestamp = model[i].max_timestamp;
	}
	assert_true(e->base == model[first].base && e->end == model[last].end && e->length == bytes);
	assert_true(e->bytes_before == 1000 * first && e->last_append_ms == model[last].append_ms);
	assert_int_equal(e->max_timestamp, max_timestamp);
	/* Nothing that could have joined stands behind it. */
	assert_true(last + 1 == n_model || model[last + 1].log != e->log_id || model[last + 1].base != e->end ||
		    bytes >= DATA_BLOCK_MAX);
}

static void model_compare(const struct fixture_object *o)
{
	for (uint64_t log = 0; log < MODEL_LOGS; log++) {
		struct data_index_entry e;
		struct slice entry;
		uint64_t end = n_model > 0 ? 2500 : 0;
		for (uint64_t offset = 0; offset < end; offset++) {
			size_t want = model_find(log, offset);
			assert_int_equal(fixture_find(o, log, offset, &e), want < n_model);
			if (want == n_model)
				break;
			assert_true(offset < e.end && model[want].base >= e.base && model[want].end <= e.end);
			assert_block(&e, want);
		}
		assert_int_equal(data_top_has(o->top, log), model_state[log] || model_find(log, 0) < n_model);
		const struct data_page *p = data_top_state_page(o->top, log);
		bool has = p != NULL && data_state_page_find(fixture_page(o, p), log, &entry);
		assert_int_equal(has, model_state[log]);
		assert_true(!has || (entry.n == 8 + log && memcmp(entry.p, &model[log], entry.n) == 0));
	}
}

static void test_lookups_as_the_model_says(void **state)
{
	for (uint64_t run = 1; run <= 60; run++) {
		struct fixture_object o;
		struct fixture_total total;
		seed = run;
		model_fill();
		struct slice bytes = model_build();
		assert_null(fixture_check(bytes, ID, &total));
		assert_int_equal(total.n_frames, n_model);
		assert_null(fixture_open(bytes, ID, &o));
		model_compare(&o);
		fixture_close(&o);
		free((void *)bytes.p);
		fixture_free_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_block_closes_at_a_mebibyte, tear_down),
		cmocka_unit_test_teardown(test_large_frames, tear_down),
		cmocka_unit_test_teardown(test_gaps_and_logs_begin_blocks, tear_down),
		cmocka_unit_test(test_state_page_closes_at_64_kib), cmocka_unit_test(test_large_entries),
		cmocka_unit_test_teardown(test_index_page_closes_at_64_kib, tear_down),
		cmocka_unit_test_teardown(test_log_over_two_index_pages, tear_down),
		cmocka_unit_test(test_empty_object), cmocka_unit_test(test_states_without_frames),
		cmocka_unit_test_teardown(test_single, tear_down),
		cmocka_unit_test_teardown(test_100000_logs, tear_down),
		cmocka_unit_test_teardown(test_finish_in_steps, tear_down), cmocka_unit_test_teardown(test_pieces, tear_down),
		cmocka_unit_test_teardown(test_lookups_as_the_model_says, tear_down),
	};
	return cmocka_run_group_tests_name("data_builder", tests, NULL, NULL);
}
