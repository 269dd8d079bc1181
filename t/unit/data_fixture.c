/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames and objects for the tests of storaged/data.
 */
#include "t/unit/data_fixture.h"

#include <stdlib.h>

#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/engine/wal_format.h"

static void **owned;
static size_t n_owned, owned_capacity;

static uint8_t *own(size_t n)
{
	if (n_owned == owned_capacity) {
		owned_capacity = owned_capacity == 0 ? 64 : owned_capacity * 2;
		owned = must_realloc(owned, owned_capacity * sizeof(*owned));
	}
	return owned[n_owned++] = must_calloc(1, n);
}

void fixture_free_all(void)
{
	for (size_t i = 0; i < n_owned; i++)
		free(owned[i]);
	free(owned);
	owned = NULL;
	n_owned = owned_capacity = 0;
}

/* A batch of one record that takes so many offsets, as compaction leaves them. */
static size_t batch_make(uint8_t *to, const struct frame_spec *spec, size_t size)
{
	struct record_batch_writer w;
	struct buf out;
	static uint8_t value[16 << 20];
	size_t n = 0, value_size = size - RECORD_BATCH_HEADER > 16 ? size - RECORD_BATCH_HEADER - 16 : 0;
	do { /* lengths are varints: a byte or two until it fits */
		buf_init(&out, 32 << 20);
		record_batch_begin(&w, &out);
		record_batch_add(&w, slice_of(NULL, 0), slice_of(value, value_size++), NULL, 0);
		n = record_batch_end(&w);
		must(n > 0);
		if (frame_pad(n) == frame_pad(size))
			memcpy(to, buf_head(&out), n);
		buf_done(&out);
	} while (frame_pad(n) < size);
	must(frame_pad(n) == size);
	put_be32(to + 23, (uint32_t)(spec->end - spec->base - 1));
	record_batch_place(to, spec->base, 1);
	record_batch_stamp(to, n, spec->max_timestamp);
	return n;
}

struct data_frame fixture_frame(const struct frame_spec *spec)
{
	uint8_t *at = own(spec->size);
	must(spec->size >= FRAME_SPEC_MIN && spec->size % 8 == 0);
	size_t n = batch_make(at + FRAME_HEADER, spec, spec->size - FRAME_HEADER);
	struct frame f = {
		.log_id = spec->log_id, .base_offset = spec->base, .epoch = 1,
		.record_count = (uint32_t)(spec->end - spec->base), .append_time = spec->append_ms,
		.max_timestamp = spec->max_timestamp, .meta = slice_of(at + FRAME_HEADER, 0),
		.payload = slice_of(at + FRAME_HEADER, n),
	};
	frame_encode(at, &f);
	return (struct data_frame){
		.log_id = spec->log_id, .base = spec->base, .end = spec->end, .append_ms = spec->append_ms,
		.max_timestamp = spec->max_timestamp, .bytes = slice_of(at, spec->size), .batch_bytes = (uint32_t)n,
	};
}

struct data_frame fixture_small(uint64_t log_id, uint64_t base, uint64_t end)
{
	struct frame_spec spec = {
		.log_id = log_id, .base = base, .end = end, .append_ms = 1000, .max_timestamp = 1000, .size = 160,
	};
	return fixture_frame(&spec);
}

struct slice fixture_bytes(const struct data_builder *b)
{
	uint64_t size = data_builder_ready(b), at = 0, length;
	uint8_t *bytes = malloc(size);
	must(bytes != NULL);
	while (at < size) {
		struct iovec iov[7];
		int n = data_builder_iovec(b, at, size - at, iov, 7, &length);
		must(n > 0);
		for (int i = 0; i < n; at += iov[i++].iov_len)
			memcpy(bytes + at, iov[i].iov_base, iov[i].iov_len);
	}
	return slice_of(bytes, size);
}

struct slice fixture_finish(struct data_builder *b, struct object_row *ret_row)
{
	struct object_row row;
	data_builder_finish(b, ret_row != NULL ? ret_row : &row);
	struct slice bytes = fixture_bytes(b);
	data_builder_free(b);
	return bytes;
}

/* ------------------------------------------------------------------ reading */

const char *fixture_open(struct slice bytes, struct object_id id, struct fixture_object *ret_object)
{
	struct fixture_object o = { .bytes = bytes };
	size_t n = bytes.n < DATA_FOOTER ? bytes.n : DATA_FOOTER;
	const char *fault = data_footer_decode(slice_of(bytes.p + bytes.n - n, n), bytes.n, id, &o.footer);
	if (fault != NULL)
		return fault;
	fault = data_top_decode(slice_of(bytes.p + o.footer.top_position, o.footer.top_length), &o.footer, &o.top);
	if (fault == NULL)
		*ret_object = o;
	return fault;
}

void fixture_close(struct fixture_object *o)
{
	data_top_free(o->top);
	o->top = NULL;
}

struct slice fixture_page(const struct fixture_object *o, const struct data_page *p)
{
	must(p->position + p->length <= o->bytes.n);
	return slice_of(o->bytes.p + p->position, p->length);
}

static const char *check_blocks(const struct fixture_object *o, struct slice page, struct fixture_total *total)
{
	for (size_t i = 0; i < data_index_page_count(page); i++) {
		struct data_index_entry e;
		struct frame f;
		data_index_page_get(page, i, &e);
		must(e.position + e.length <= o->bytes.n);
		struct slice block = slice_of(o->bytes.p + e.position, e.length);
		const char *fault = data_block_check(block, &e);
		if (fault != NULL)
			return fault;
		struct frame_iter it = { .body = block };
		while (frame_next(&it, &f) == 1)
			total->n_frames++;
		total->n_blocks++;
		total->block_bytes += e.length;
	}
	return NULL;
}

static const char *check_pages(const struct fixture_object *o, struct fixture_total *total)
{
	const char *fault = NULL;
	for (size_t i = 0; fault == NULL && i < o->top->n_state; i++) {
		struct slice page = fixture_page(o, &o->top->state[i]), entry;
		size_t position = 0;
		uint64_t log_id;
		fault = data_state_page_check(page, &o->top->state[i]);
		while (fault == NULL && data_state_page_next(page, &position, &log_id, &entry))
			total->n_states++;
	}
	for (size_t i = 0; fault == NULL && i < o->top->n_index; i++) {
		struct slice page = fixture_page(o, &o->top->index[i]);
		fault = data_index_page_check(page, &o->top->index[i]);
		if (fault == NULL)
			fault = check_blocks(o, page, total);
	}
	return fault;
}

const char *fixture_check(struct slice bytes, struct object_id id, struct fixture_total *ret_total)
{
	struct fixture_object o;
	const char *fault = fixture_open(bytes, id, &o);
	*ret_total = (struct fixture_total){ 0 };
	if (fault != NULL)
		return fault;
	fault = check_pages(&o, ret_total);
	fixture_close(&o);
	return fault;
}

bool fixture_find(const struct fixture_object *o, uint64_t log_id, uint64_t offset, struct data_index_entry *ret_entry)
{
	const struct data_page *p = data_top_index_page(o->top, log_id, offset);
	return p != NULL && data_index_page_find(fixture_page(o, p), log_id, offset, ret_entry);
}
