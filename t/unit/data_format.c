/* SPDX-License-Identifier: Apache-2.0
 *
 * Data objects against the golden file: every field read, every byte written, and every truncation, every changed bit
 * and every field that does not fit its neighbours refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/wal_format.h"
#include "t/unit/data_fixture.h"

#define T 1700000000000ll
#define LOG_C3 0x1000000c3ull
#define PAGES_AT (golden_object.top->state[0].position)

static const struct object_id ID = { .node = 7, .session = 0x1234, .number = 5 };
static uint8_t golden_bytes[4096];
static struct slice golden;
static struct fixture_object golden_object;

static int load(void **state)
{
	char path[4096];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/data_object.bin", src != NULL ? src : ".");
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return -1;
	golden = slice_of(golden_bytes, fread(golden_bytes, 1, sizeof(golden_bytes), f));
	fclose(f);
	return fixture_open(golden, ID, &golden_object) == NULL ? 0 : -1;
}

static int unload(void **state)
{
	fixture_close(&golden_object);
	fixture_free_all();
	return 0;
}

static void assert_fault(const char *fault, const char *words)
{
	if (fault == NULL || strstr(fault, words) == NULL)
		fail_msg("\"%s\" instead of \"%s\"", fault != NULL ? fault : "nothing", words);
}

/* ------------------------------------------------------------------- golden */

static void test_golden_footer(void **state)
{
	const struct data_footer *f = &golden_object.footer;
	assert_true(object_id_is_equal(f->id, ID));
	assert_int_equal(f->origin, 9);
	assert_int_equal(f->level, 0);
	assert_int_equal(f->first_log, 0xa1);
	assert_int_equal(f->last_log, LOG_C3);
	assert_int_equal(f->oldest_ms, T + 5);
	assert_int_equal(f->newest_ms, T + 30);
	assert_int_equal(f->top_position + f->top_length + DATA_FOOTER, golden.n);
	uint8_t again[DATA_FOOTER];
	data_footer_encode(again, f);
	assert_memory_equal(again, golden.p + golden.n - DATA_FOOTER, DATA_FOOTER);
}

static void test_golden_top(void **state)
{
	const struct data_top *t = golden_object.top;
	assert_int_equal(t->n_logs, 3);
	assert_int_equal(t->logs[0], 0xa1);
	assert_int_equal(t->logs[1], 0xb2);
	assert_int_equal(t->logs[2], LOG_C3);
	assert_int_equal(t->n_state, 1);
	assert_int_equal(t->n_index, 1);
	assert_true(t->state[0].log_id == LOG_C3 && t->state[0].end == 0);
	assert_true(t->index[0].log_id == 0xb2 && t->index[0].end == 1);
	assert_int_equal(t->index[0].position, PAGES_AT + t->state[0].length);
	assert_true(data_top_has(t, 0xa1) && data_top_has(t, 0xb2) && data_top_has(t, LOG_C3));
	assert_false(data_top_has(t, 0) || data_top_has(t, 0xb1) || data_top_has(t, UINT64_MAX));
	assert_true(data_top_memory(t) >= 3 * 8 + 2 * sizeof(struct data_page));
	uint8_t again[512];
	assert_int_equal(data_top_size(t), golden_object.footer.top_length);
	data_top_encode(again, t);
	assert_memory_equal(again, golden.p + golden_object.footer.top_position, data_top_size(t));
}

static void assert_entry(const struct data_index_entry *e, const struct data_index_entry *want)
{
	assert_int_equal(e->log_id, want->log_id);
	assert_int_equal(e->base, want->base);
	assert_int_equal(e->end, want->end);
	assert_int_equal(e->last_append_ms, want->last_append_ms);
	assert_int_equal(e->max_timestamp, want->max_timestamp);
	assert_int_equal(e->bytes_before, want->bytes_before);
}

static void test_golden_index(void **state)
{
	static const struct data_index_entry want[] = {
		{ 0xa1, 41, 44, T + 20, T + 900, 1000, 0, 0, 0 },
		{ 0xa1, 50, 51, T + 30, T + 30, 2000, 0, 0, 0 },
		{ 0xb2, 0, 1, T + 5, T + 5, 0, 0, 0, 0 },
	};
	struct slice page = fixture_page(&golden_object, &golden_object.top->index[0]);
	assert_int_equal(data_index_page_count(page), 3);
	uint64_t at = 0;
	for (size_t i = 0; i < 3; i++) {
		struct data_index_entry e;
		data_index_page_get(page, i, &e);
		assert_entry(&e, &want[i]);
		assert_int_equal(e.position, at);
		assert_null(data_block_check(slice_of(golden.p + at, e.length), &e));
		at += e.length;
	}
	assert_int_equal(at, PAGES_AT);
}

/* Where an offset is looked for, and which block's base it leads to; -1: none. */
static void test_golden_lookups(void **state)
{
	static const struct { uint64_t log, offset; int base; } rows[] = {
		{ 0xa1, 0, 41 }, { 0xa1, 41, 41 }, { 0xa1, 43, 41 }, { 0xa1, 44, 50 }, { 0xa1, 49, 50 }, { 0xa1, 50, 50 },
		{ 0xa1, 51, -1 }, { 0xa1, UINT64_MAX, -1 }, { 0xb2, 0, 0 }, { 0xb2, 1, -1 }, { 0, 0, -1 }, { 0xa2, 41, -1 },
		{ LOG_C3, 0, -1 }, { UINT64_MAX, 0, -1 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct data_index_entry e;
		bool found = fixture_find(&golden_object, rows[i].log, rows[i].offset, &e);
		assert_int_equal(found ? (int)e.base : -1, rows[i].base);
		assert_true(!found || e.log_id == rows[i].log);
	}
}

static Frame__State *golden_state(uint64_t log_id)
{
	const struct data_page *p = data_top_state_page(golden_object.top, log_id);
	struct slice entry;
	const char *fault;
	assert_non_null(p);
	assert_null(data_state_page_check(fixture_page(&golden_object, p), p));
	assert_true(data_state_page_find(fixture_page(&golden_object, p), log_id, &entry));
	Frame__State *s = data_state_decode(entry, log_id, &fault);
	assert_null(fault);
	uint8_t again[1024];
	assert_int_equal(frame__state__get_packed_size(s), entry.n);
	frame__state__pack(s, again);
	assert_memory_equal(again, entry.p, entry.n);
	return s;
}

static void test_golden_states(void **state)
{
	Frame__State *s = golden_state(0xa1);
	assert_true(s->epoch == 6 && s->next == 51 && s->last_append_ms == T + 30 && s->bytes == 2080);
	assert_true(s->closed && s->has_closer && s->closer->epoch == 3 && s->closer->seq == 301);
	assert_string_equal(s->closer->id, "sensor-7");
	assert_true(slice_is(slice_of(s->stream_seq.data, s->stream_seq.len), "0042") && s->has_stream_seq);
	assert_true(s->n_epochs == 2 && s->epochs[0]->epoch == 5 && s->epochs[0]->first_offset == 41);
	assert_true(s->epochs[1]->epoch == 6 && s->epochs[1]->first_offset == 50);
	assert_true(!s->complete && s->n_incomplete == 2 && s->n_producers == 1 && s->n_kafka == 1);
	assert_true(s->producers[0]->seq == 301 && s->producers[0]->first_offset == 50 && s->producers[0]->next == 51);
	const Frame__State__KafkaProducer *k = s->kafka[0];
	assert_true(k->id == 4000 && k->epoch == 1 && k->used_ms == T + 20 && k->n_written == 2);
	assert_true(k->written[0]->first == 0 && k->written[0]->last == 1 && k->written[0]->offset == 41);
	assert_true(k->written[1]->first == 2 && k->written[1]->last == 2 && k->written[1]->offset == 43);
	data_state_free(s);
	s = golden_state(LOG_C3);
	assert_true(s->epoch == 1 && s->next == 7 && s->bytes == 700 && s->complete && !s->closed);
	data_state_free(s);
	struct slice entry;
	const struct data_page *p = data_top_state_page(golden_object.top, 0xa1);
	assert_false(data_state_page_find(fixture_page(&golden_object, p), 0xb2, &entry));
	assert_null(data_top_state_page(golden_object.top, 0xb3));
}

/* The blocks' frames and the entries, put together again. */
static void add_golden_frames(struct data_builder *b, const struct data_index_entry *e)
{
	struct frame_iter it = { .body = slice_of(golden.p + e->position, e->length) };
	struct frame f;
	size_t at = 0;
	while (frame_next(&it, &f) == 1) {
		struct data_frame d = {
			.log_id = f.log_id, .base = f.base_offset, .end = f.base_offset + f.record_count,
			.append_ms = f.append_time, .max_timestamp = f.max_timestamp,
			.bytes = slice_of(it.body.p + at, it.position - at), .batch_bytes = (uint32_t)f.payload.n,
		};
		data_builder_frame(b, &d, e->bytes_before);
		at = it.position;
	}
	assert_null(it.fault);
}

static void test_golden_is_what_we_write(void **state)
{
	struct data_builder *b = data_builder_new(ID, 9, 0);
	struct slice page = fixture_page(&golden_object, &golden_object.top->state[0]), entry;
	size_t position = 0;
	uint64_t log_id;
	while (data_state_page_next(page, &position, &log_id, &entry))
		data_builder_state(b, log_id, entry);
	page = fixture_page(&golden_object, &golden_object.top->index[0]);
	for (size_t i = 0; i < data_index_page_count(page); i++) {
		struct data_index_entry e;
		data_index_page_get(page, i, &e);
		add_golden_frames(b, &e);
	}
	struct object_row row;
	struct slice again = fixture_finish(b, &row);
	assert_int_equal(again.n, golden.n);
	assert_memory_equal(again.p, golden.p, golden.n);
	assert_true(object_id_is_equal(row.id, ID) && row.origin == 9 && row.level == 0 && row.bytes == golden.n);
	assert_true(row.first_log == 0xa1 && row.last_log == LOG_C3);
	assert_true(row.oldest_ms == T + 5 && row.newest_ms == T + 30 && row.first_offset == 0 && row.end_offset == 0);
	free((void *)again.p);
}

/* ------------------------------------------------------------------- damage */

static void test_every_bit_is_guarded(void **state)
{
	uint8_t copy[sizeof(golden_bytes)];
	struct fixture_total total;
	memcpy(copy, golden.p, golden.n);
	for (size_t at = 0; at < golden.n; at++) {
		for (int bit = 0; bit < 8; bit++) {
			copy[at] ^= (uint8_t)(1 << bit);
			assert_non_null(fixture_check(slice_of(copy, golden.n), ID, &total));
			copy[at] ^= (uint8_t)(1 << bit);
		}
	}
	assert_null(fixture_check(slice_of(copy, golden.n), ID, &total));
	assert_true(total.n_blocks == 3 && total.n_frames == 4 && total.n_states == 2);
	assert_int_equal(total.block_bytes, PAGES_AT);
}

/* Cut at the end, and at the begin: the footer is whole then and nothing else stands where it says. */
static void test_truncations(void **state)
{
	struct fixture_total total;
	for (size_t n = 0; n < golden.n; n++) {
		uint8_t *exact = malloc(n > 0 ? n : 1); /* a sanitizer sees a byte read behind it */
		memcpy(exact, golden.p, n);
		assert_non_null(fixture_check(slice_of(exact, n), ID, &total));
		memcpy(exact, golden.p + golden.n - n, n);
		assert_non_null(fixture_check(slice_of(exact, n), ID, &total));
		free(exact);
	}
}

/* A part alone, cut: pages and blocks of a wrong length are not even summed. */
static void test_truncated_parts(void **state)
{
	const struct data_top *t = golden_object.top;
	struct slice page = fixture_page(&golden_object, &t->index[0]), states = fixture_page(&golden_object, &t->state[0]);
	struct data_index_entry e;
	data_index_page_get(page, 0, &e);
	for (size_t n = 0; n < page.n; n++)
		assert_fault(data_index_page_check(slice_of(page.p, n), &t->index[0]), "as long as");
	for (size_t n = 0; n < states.n; n++)
		assert_fault(data_state_page_check(slice_of(states.p, n), &t->state[0]), "as long as");
	for (size_t n = 0; n < e.length; n++)
		assert_fault(data_block_check(slice_of(golden.p, n), &e), "as long as");
	struct data_top *top = NULL;
	struct data_footer f = golden_object.footer;
	for (size_t n = 0; n < f.top_length; n++) {
		struct slice cut = slice_of(golden.p + f.top_position, n);
		assert_fault(data_top_decode(cut, &f, &top), "as long as");
		struct data_footer shorter = f;
		shorter.top_length = (uint32_t)n;
		shorter.top_crc = crc32c(cut.p, n);
		assert_non_null(data_top_decode(cut, &shorter, &top));
	}
	assert_null(top);
}

/* ------------------------------------------- what a checksum does not see */

static void refuse_footer(void (*change)(struct data_footer *f), const char *words)
{
	uint8_t bytes[DATA_FOOTER];
	struct data_footer f = golden_object.footer;
	change(&f);
	data_footer_encode(bytes, &f);
	assert_fault(data_footer_decode(slice_of(bytes, sizeof(bytes)), golden.n, ID, &f), words);
}

static void other_node(struct data_footer *f) { f->id.node++; }
static void other_session(struct data_footer *f) { f->id.session++; }
static void other_number(struct data_footer *f) { f->id.number++; }
static void high_level(struct data_footer *f) { f->level = DATA_LEVEL_SINGLE + 1; }
static void single_of_many(struct data_footer *f) { f->level = DATA_LEVEL_SINGLE; }
static void logs_turned(struct data_footer *f) { f->first_log = f->last_log + 1; }
static void times_turned(struct data_footer *f) { f->oldest_ms = f->newest_ms + 1; }
static void top_later(struct data_footer *f) { f->top_position++; }
static void top_earlier(struct data_footer *f) { f->top_position--; }
static void top_far(struct data_footer *f) { f->top_position = UINT64_MAX; }
static void top_longer(struct data_footer *f) { f->top_length++; }
static void top_huge(struct data_footer *f) { f->top_length = UINT32_MAX; f->top_position -= UINT32_MAX; }

static void test_footers_that_do_not_fit(void **state)
{
	refuse_footer(other_node, "its name");
	refuse_footer(other_session, "its name");
	refuse_footer(other_number, "its name");
	refuse_footer(high_level, "range");
	refuse_footer(single_of_many, "range");
	refuse_footer(logs_turned, "range");
	refuse_footer(times_turned, "range");
	refuse_footer(top_later, "length");
	refuse_footer(top_earlier, "length");
	refuse_footer(top_far, "length");
	refuse_footer(top_longer, "length");
	refuse_footer(top_huge, "length");
	uint8_t bytes[DATA_FOOTER];
	struct data_footer f;
	for (size_t at = 4; at < 124; at++) { /* format and reserved bytes, with a checksum that is right */
		memcpy(bytes, golden.p + golden.n - DATA_FOOTER, DATA_FOOTER);
		bytes[at] ^= 0x80;
		put_le32(bytes + 124, 0);
		put_le32(bytes + 124, crc32c(bytes, DATA_FOOTER));
		const char *fault = data_footer_decode(slice_of(bytes, DATA_FOOTER), golden.n, ID, &f);
		if (at < 8)
			assert_fault(fault, "newer");
		else if ((at >= 36 && at < 40) || at >= 88)
			assert_fault(fault, "unknown");
	}
}

/* A top that is changed and encoded again, under a footer that agrees. */
static const char *top_again(const struct data_top *t, const struct data_footer *footer)
{
	struct data_footer f = *footer;
	struct data_top *decoded = NULL;
	uint8_t bytes[1024];
	f.top_length = (uint32_t)data_top_size(t);
	data_top_encode(bytes, t);
	f.top_crc = crc32c(bytes, f.top_length);
	const char *fault = data_top_decode(slice_of(bytes, f.top_length), &f, &decoded);
	data_top_free(decoded);
	return fault;
}

struct top_copy {
	uint64_t logs[3];
	struct data_page state[2], index[2];
	struct data_top top;
	struct data_footer footer;
};

static struct top_copy *top_copy(struct top_copy *c)
{
	const struct data_top *t = golden_object.top;
	memcpy(c->logs, t->logs, sizeof(c->logs));
	c->state[0] = c->state[1] = t->state[0];
	c->index[0] = c->index[1] = t->index[0];
	c->top = (struct data_top){ .logs = c->logs, .n_logs = 3, .state = c->state, .n_state = 1, .index = c->index,
				    .n_index = 1 };
	c->footer = golden_object.footer;
	return c;
}

static void refuse_top(void (*change)(struct top_copy *c), const char *words)
{
	struct top_copy c;
	assert_null(top_again(&top_copy(&c)->top, &c.footer));
	change(&c);
	assert_fault(top_again(&c.top, &c.footer), words);
}

static void state_end(struct top_copy *c) { c->state[0].end = 1; }
static void state_short(struct top_copy *c) { c->state[0].length = 24; }
static void state_position(struct top_copy *c) { c->state[0].position++; }
static void state_huge(struct top_copy *c) { c->state[0].length = DATA_ENTRY_MAX + 25; }
static void state_alien(struct top_copy *c) { c->state[0].log_id--; }
static void state_twice(struct top_copy *c) { c->top.n_state = 2; }
static void index_end(struct top_copy *c) { c->index[0].end = 0; }
static void index_uneven(struct top_copy *c) { c->index[0].length++; }
static void index_empty(struct top_copy *c) { c->index[0].length = 0; }
static void index_huge(struct top_copy *c) { c->index[0].length = DATA_PAGE_MAX + DATA_INDEX_ENTRY; }
static void index_gap(struct top_copy *c) { c->index[0].position++; }
static void index_alien(struct top_copy *c) { c->index[0].log_id++; }
static void index_twice(struct top_copy *c) { c->top.n_index = 2; }
static void index_gone(struct top_copy *c) { c->top.n_index = 0; }
static void blocks_gone(struct top_copy *c) { c->state[0].position = 0; }
static void top_moved(struct top_copy *c) { c->footer.top_position++; }
static void first_log(struct top_copy *c) { c->footer.first_log--; }
static void last_log(struct top_copy *c) { c->footer.last_log++; }
static void no_logs(struct top_copy *c) { c->top.n_logs = 0; }
static void log_changed(struct top_copy *c) { c->logs[1]++; }

static void test_tops_that_do_not_fit(void **state)
{
	refuse_top(state_end, "out of order or of a wrong length");
	refuse_top(state_short, "out of order or of a wrong length");
	refuse_top(state_huge, "out of order or of a wrong length");
	refuse_top(state_twice, "out of order or of a wrong length");
	refuse_top(state_position, "one behind the other");
	refuse_top(state_alien, "a state page is of a log");
	refuse_top(index_end, "out of order or of a wrong length");
	refuse_top(index_uneven, "out of order or of a wrong length");
	refuse_top(index_empty, "out of order or of a wrong length");
	refuse_top(index_huge, "out of order or of a wrong length");
	refuse_top(index_twice, "out of order or of a wrong length");
	refuse_top(index_gap, "one behind the other");
	refuse_top(index_alien, "an index page is of a log");
	refuse_top(index_gone, "blocks without pages");
	refuse_top(blocks_gone, "blocks without pages");
	refuse_top(top_moved, "one behind the other");
	refuse_top(first_log, "other ones than in its footer");
	refuse_top(last_log, "other ones than in its footer");
	refuse_top(no_logs, "pages and no logs");
	refuse_top(log_changed, "an index page is of a log");
}

/* Log ids as bytes: the golden top with others in their place. */
static const char *top_with_logs(const uint8_t *logs, size_t n, uint32_t count)
{
	struct data_footer f = golden_object.footer;
	struct data_top *t = NULL;
	uint8_t bytes[256];
	memcpy(bytes, golden.p + f.top_position, 16 + 2 * 32);
	memcpy(bytes + 80, logs, n);
	put_le32(bytes, count);
	f.top_length = (uint32_t)(80 + n);
	f.top_crc = crc32c(bytes, f.top_length);
	const char *fault = data_top_decode(slice_of(bytes, f.top_length), &f, &t);
	data_top_free(t);
	return fault;
}

static void test_log_ids_that_are_malformed(void **state)
{
	static const uint8_t good[] = { 0xa1, 1, 0x11, 0x91, 0x80, 0x80, 0x80, 0x10 };
	static const uint8_t longer[] = { 0xa1, 1, 0x11, 0x91, 0x80, 0x80, 0x80, 0x90, 0 };
	static const uint8_t zero[] = { 0xa1, 1, 0, 0x11, 0x91, 0x80, 0x80, 0x80, 0x10 };
	static const uint8_t wide[] = { 0xa1, 1, 0x11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2 };
	static const uint8_t over[] = { 0xa1, 1, 0x11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };
	static const uint8_t open[] = { 0xa1, 1, 0x11, 0x91 };
	static const uint8_t many[200] = { 0xa1, 1, [2 ... 199] = 1 };
	assert_null(top_with_logs(good, sizeof(good), 3));
	assert_fault(top_with_logs(good, sizeof(good), 2), "malformed");
	assert_fault(top_with_logs(good, sizeof(good), 4), "malformed");
	assert_fault(top_with_logs(longer, sizeof(longer), 3), "malformed");
	assert_fault(top_with_logs(zero, sizeof(zero), 4), "malformed");
	assert_fault(top_with_logs(wide, sizeof(wide), 3), "malformed");
	assert_fault(top_with_logs(over, sizeof(over), 3), "malformed");
	assert_fault(top_with_logs(open, sizeof(open), 3), "malformed");
	assert_fault(top_with_logs(good, sizeof(good), 9), "counts more");
	assert_fault(top_with_logs(many, 170, 169), "more logs");
}

/* An index page changed in place, with the length and checksum that its top then gives. */
static const char *index_with(size_t at, uint64_t value, size_t size)
{
	struct data_page p = golden_object.top->index[0];
	uint8_t bytes[3 * DATA_INDEX_ENTRY];
	memcpy(bytes, golden.p + p.position, sizeof(bytes));
	if (size == 8)
		put_le64(bytes + at, value);
	else
		put_le32(bytes + at, (uint32_t)value);
	p.crc = crc32c(bytes, sizeof(bytes));
	return data_index_page_check(slice_of(bytes, sizeof(bytes)), &p);
}

static void test_index_pages_that_do_not_fit(void **state)
{
	uint64_t pages_at = golden_object.top->index[0].position;
	assert_null(index_with(0, 0xa1, 8));
	assert_fault(index_with(0, 0xa2, 8), "out of order");
	assert_fault(index_with(64 + 8, 43, 8), "out of order");        /* base in the block before */
	assert_null(index_with(64 + 8, 44, 8));
	assert_fault(index_with(8, 44, 8), "range");                    /* nothing in it */
	assert_fault(index_with(2 * 64 + 16, (uint64_t)INT64_MAX + 2, 8), "range");
	assert_fault(index_with(48, 8, 8), "out of order");             /* position */
	assert_fault(index_with(48, UINT64_MAX, 8), "range");
	assert_fault(index_with(2 * 64 + 48, pages_at, 8), "range");
	assert_fault(index_with(56, 0, 4), "range");                    /* length */
	assert_fault(index_with(56, 8, 4), "out of order");
	assert_fault(index_with(56, UINT32_MAX, 4), "range");
	assert_fault(index_with(2 * 64, 0xb3, 8), "another entry");
	assert_fault(index_with(2 * 64 + 16, 2, 8), "another entry");
	struct data_page p = { .position = 1 };
	assert_fault(data_index_page_check(slice_of(golden.p, 0), &p), "wrong length");
	p.length = 63;
	p.crc = crc32c(golden.p, 63);
	assert_fault(data_index_page_check(slice_of(golden.p, 63), &p), "wrong length");
}

static const char *states_with(size_t at, uint32_t value)
{
	struct data_page p = golden_object.top->state[0];
	uint8_t bytes[1024];
	memcpy(bytes, golden.p + p.position, p.length);
	put_le32(bytes + at, value);
	p.crc = crc32c(bytes, p.length);
	return data_state_page_check(slice_of(bytes, p.length), &p);
}

static void test_state_pages_that_do_not_fit(void **state)
{
	uint32_t length = golden_object.top->state[0].length;
	assert_null(states_with(0, 2));
	assert_fault(states_with(0, 0), "count");
	assert_fault(states_with(0, 1), "one behind the other");
	assert_fault(states_with(0, (length - 8) / 16 + 1), "count");
	assert_fault(states_with(0, UINT32_MAX), "count");
	assert_fault(states_with(4, 1), "count");
	assert_fault(states_with(8 + 4, 2), "out of order");            /* the first log id is the larger one */
	assert_fault(states_with(8 + 8, 41), "one behind the other");   /* position */
	assert_fault(states_with(8 + 12, 0), "one behind the other");   /* length */
	assert_fault(states_with(8 + 12, UINT32_MAX), "one behind the other");
	assert_fault(states_with(24 + 12, 1), "one behind the other");
	assert_fault(states_with(24, 0xc4), "another entry");
	struct data_page p = { .length = 7, .crc = crc32c(golden.p, 7) };
	assert_fault(data_state_page_check(slice_of(golden.p, 7), &p), "count");
	static uint8_t large[DATA_PAGE_MAX + 8]; /* two entries where only one may be */
	for (uint32_t less = 0; less <= 8; less += 8) {
		struct data_state_slot slots[] = { { 1, 0, 1 }, { 2, 1, DATA_PAGE_MAX + 8 - less - 41 } };
		data_state_page_begin(large, slots, 2);
		p = (struct data_page){ .log_id = 2, .length = DATA_PAGE_MAX + 8 - less };
		p.crc = crc32c(large, p.length);
		const char *fault = data_state_page_check(slice_of(large, p.length), &p);
		assert_int_equal(fault == NULL, less == 8);
	}
}

static void test_blocks_that_do_not_fit(void **state)
{
	struct data_index_entry e, changed;
	data_index_page_get(fixture_page(&golden_object, &golden_object.top->index[0]), 0, &e);
	struct slice block = slice_of(golden.p, e.length);
	assert_null(data_block_check(block, &e));
	for (int i = 0; i < 4; i++) {
		changed = e;
		changed.log_id += i == 0;
		changed.base -= i == 1;
		changed.end += i == 2;
		changed.end -= i == 3;
		assert_fault(data_block_check(block, &changed), "other frames");
	}
	changed = e;
	changed.crc++;
	assert_fault(data_block_check(block, &changed), "checksum of a block");
	uint8_t half[4096]; /* ends inside a frame */
	memcpy(half, block.p, block.n - 8);
	changed = e;
	changed.length -= 8;
	changed.crc = crc32c(half, changed.length);
	assert_fault(data_block_check(slice_of(half, changed.length), &changed), "inside a frame");
	memset(half, 0, sizeof(half)); /* a frame without records */
	struct frame empty = { .log_id = 0xa1, .base_offset = 41, .meta = slice_of(half + 64, 0) };
	frame_encode(half, &empty);
	changed = (struct data_index_entry){ .log_id = 0xa1, .base = 41, .end = 41, .length = 64, .crc = crc32c(half, 64) };
	assert_fault(data_block_check(slice_of(half, 64), &changed), "other frames");
}

/* --------------------------------------------------------------------- keys */

static void test_keys(void **state)
{
	static const char *const wrong[] = {
		"", "data/", "data/7", "data/7/0000000000000001", "wal/7/0000000000000001/0000000000000002",
		"data/07/0000000000000001/0000000000000002", "data//0000000000000001/0000000000000002",
		"data/4294967296/0000000000000001/0000000000000002", "data/7/000000000000001/0000000000000002",
		"data/7/0000000000000001/000000000000002", "data/7/0000000000000001/00000000000000020",
		"data/7/000000000000000A/0000000000000002", "data/7/0000000000000001/0000000000000002/",
		"data/-7/0000000000000001/0000000000000002", "data/7/0000000000000001-0000000000000002",
		"data/99999999999999999999999/0000000000000001/0000000000000002",
	};
	struct object_id id = { UINT32_MAX, UINT64_MAX, 0xabcdef }, parsed;
	char key[DATA_KEY_MAX];
	data_key(key, ID);
	assert_string_equal(key, "data/7/0000000000001234/0000000000000005");
	assert_true(data_key_parse(key, &parsed) && object_id_is_equal(parsed, ID));
	data_key(key, id);
	assert_string_equal(key, "data/4294967295/ffffffffffffffff/0000000000abcdef");
	assert_true(data_key_parse(key, &parsed) && object_id_is_equal(parsed, id));
	assert_true(data_key_parse("data/0/0000000000000000/0000000000000000", &parsed));
	assert_true(parsed.node == 0 && parsed.session == 0 && parsed.number == 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (data_key_parse(wrong[i], &parsed))
			fail_msg("%s was taken", wrong[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_footer), cmocka_unit_test(test_golden_top),
		cmocka_unit_test(test_golden_index), cmocka_unit_test(test_golden_lookups),
		cmocka_unit_test(test_golden_states), cmocka_unit_test(test_golden_is_what_we_write),
		cmocka_unit_test(test_every_bit_is_guarded), cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_truncated_parts), cmocka_unit_test(test_footers_that_do_not_fit),
		cmocka_unit_test(test_tops_that_do_not_fit), cmocka_unit_test(test_log_ids_that_are_malformed),
		cmocka_unit_test(test_index_pages_that_do_not_fit), cmocka_unit_test(test_state_pages_that_do_not_fit),
		cmocka_unit_test(test_blocks_that_do_not_fit), cmocka_unit_test(test_keys),
	};
	return cmocka_run_group_tests_name("data_format", tests, load, unload);
}
