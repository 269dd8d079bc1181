/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a data object, as they are and with every checksum made to fit; as a state entry; as two that fold; and
 * as a list of frames and entries that an object is built of. What is accepted lies inside, is found where it stands,
 * and is the same bytes when it is written again.
 */
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"
#include "storaged/data/data_builder.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/wal_format.h"
#include "t/fuzz/fuzz.h"

#define SIZE_MAX_HERE (1u << 20)

/* ------------------------------------------------------------------ reading */

struct object {
	struct slice bytes;
	struct data_footer footer;
	struct data_top *top;
};

static struct slice part(const struct object *o, uint64_t position, uint32_t length)
{
	must(position <= o->bytes.n && length <= o->bytes.n - position);
	return slice_of(o->bytes.p + position, length);
}

static void check_state(struct slice entry, uint64_t log_id);

static void check_state_page(const struct object *o, const struct data_page *p)
{
	struct slice page = part(o, p->position, p->length), entry, found;
	uint64_t log_id;
	size_t position = 0;
	if (data_state_page_check(page, p) != NULL)
		return;
	while (data_state_page_next(page, &position, &log_id, &entry)) {
		must(entry.p > page.p && entry.n > 0 && (size_t)(entry.p - page.p) <= page.n - entry.n);
		must(data_state_page_find(page, log_id, &found) && found.p == entry.p && found.n == entry.n);
		must(log_id <= p->log_id);
		check_state(entry, log_id);
	}
	must(log_id == p->log_id);
}

static void check_block(const struct object *o, const struct data_index_entry *e)
{
	struct slice block = part(o, e->position, e->length);
	struct frame_iter it = { .body = block };
	struct frame f;
	uint64_t next = e->base;
	if (data_block_check(block, e) != NULL)
		return;
	while (frame_next(&it, &f) == 1) {
		must(f.log_id == e->log_id && f.base_offset == next && f.payload.n > 0);
		next += f.record_count;
	}
	must(next == e->end && it.fault == NULL);
}

static void check_index_page(const struct object *o, const struct data_page *p)
{
	struct slice page = part(o, p->position, p->length);
	struct data_index_entry e, found;
	uint8_t again[DATA_INDEX_ENTRY];
	if (data_index_page_check(page, p) != NULL)
		return;
	for (size_t i = 0; i < data_index_page_count(page); i++) {
		data_index_page_get(page, i, &e);
		data_index_entry_encode(again, &e);
		must(memcmp(again, page.p + i * DATA_INDEX_ENTRY, sizeof(again)) == 0);
		must(data_index_page_find(page, e.log_id, e.base, &found) && found.position == e.position);
		must(data_index_page_find(page, e.log_id, e.end - 1, &found) && found.position == e.position);
		must(!data_index_page_find(page, e.log_id, e.end, &found) ||
		     (found.log_id == e.log_id && found.base >= e.end));
		check_block(o, &e);
	}
	must(e.log_id == p->log_id && e.end == p->end);
	must(data_top_index_page(o->top, e.log_id, e.end - 1) == p);
}

static void check_top(const struct object *o)
{
	const struct data_top *t = o->top;
	uint8_t *again = must_calloc(1, data_top_size(t));
	must(data_top_size(t) == o->footer.top_length);
	data_top_encode(again, t);
	must(memcmp(again, o->bytes.p + o->footer.top_position, o->footer.top_length) == 0);
	free(again);
	for (size_t i = 0; i < t->n_logs; i++)
		must(data_top_has(t, t->logs[i]));
	for (size_t i = 0; i < t->n_state; i++) {
		must(data_top_state_page(t, t->state[i].log_id) == &t->state[i]);
		check_state_page(o, &t->state[i]);
	}
	for (size_t i = 0; i < t->n_index; i++)
		check_index_page(o, &t->index[i]);
}

static struct object_id id_in(struct slice object)
{
	const uint8_t *p = object.p + object.n - DATA_FOOTER;
	return (struct object_id){ .node = get_le32(p + 8), .session = get_le64(p + 16), .number = get_le64(p + 24) };
}

/* Whether footer and top were accepted. */
static bool check_object(struct slice bytes)
{
	struct object o = { .bytes = bytes };
	uint8_t again[DATA_FOOTER];
	if (bytes.n < DATA_FOOTER)
		return false;
	struct slice footer = slice_of(bytes.p + bytes.n - DATA_FOOTER, DATA_FOOTER);
	struct object_id id = id_in(bytes);
	if (data_footer_decode(footer, bytes.n, id, &o.footer) != NULL)
		return false;
	data_footer_encode(again, &o.footer);
	must(memcmp(again, footer.p, DATA_FOOTER) == 0);
	id.number++;
	must(data_footer_decode(footer, bytes.n, id, &o.footer) != NULL);
	must(data_footer_decode(footer, bytes.n + 1, o.footer.id, &o.footer) != NULL);
	if (data_top_decode(part(&o, o.footer.top_position, o.footer.top_length), &o.footer, &o.top) != NULL)
		return false;
	check_top(&o);
	data_top_free(o.top);
	return true;
}

/* -------------------------------------------------------- checksums that fit */

static void fit_frames(uint8_t *block, size_t n)
{
	for (size_t at = 0; n - at >= FRAME_HEADER;) {
		uint8_t *p = block + at;
		uint32_t payload = get_le32(p + 32), meta = get_le32(p + 36);
		uint64_t size = frame_size(meta, payload);
		if (size > n - at)
			return;
		if (payload >= 61)
			put_be32(p + size - frame_pad(payload) + 17, crc32c(p + size - frame_pad(payload) + 21, payload - 21));
		put_le32(p + 4, 0);
		put_le32(p + 4, crc32c(p, FRAME_HEADER + meta));
		at += size;
	}
}

static void fit_index_page(uint8_t *object, size_t size, uint8_t *page, size_t n)
{
	for (; n >= DATA_INDEX_ENTRY; page += DATA_INDEX_ENTRY, n -= DATA_INDEX_ENTRY) {
		uint64_t position = get_le64(page + 48);
		uint32_t length = get_le32(page + 56);
		if (position > size || length > size - position)
			continue;
		fit_frames(object + position, length);
		put_le32(page + 60, crc32c(object + position, length));
	}
}

/* From the blocks up, each where the parts above say that it stands. */
static void fit(uint8_t *object, size_t size)
{
	uint8_t *footer = object + size - DATA_FOOTER;
	uint64_t top_at = get_le64(footer + 72);
	uint32_t top_length = get_le32(footer + 80);
	if (top_at <= size && top_length <= size - top_at && top_length >= 16) {
		uint8_t *top = object + top_at, *p = top + 16;
		uint64_t n_state = get_le32(top + 4), n = n_state + get_le32(top + 8);
		for (uint64_t i = 0; i < n && i < (top_length - 16) / 32; i++, p += 32) {
			uint64_t at = get_le64(p + 16);
			uint32_t length = get_le32(p + 24);
			if (at > size || length > size - at)
				continue;
			if (i >= n_state)
				fit_index_page(object, size, object + at, length);
			put_le32(p + 28, crc32c(object + at, length));
		}
		put_le32(footer + 84, crc32c(top, top_length));
	}
	put_le32(footer + 124, 0);
	put_le32(footer + 124, crc32c(footer, DATA_FOOTER));
}

/* ------------------------------------------------------------- state entries */

static uint8_t *pack(const Frame__State *s, size_t *ret_n)
{
	*ret_n = frame__state__get_packed_size(s);
	uint8_t *bytes = must_calloc(1, *ret_n + 1);
	must(frame__state__pack(s, bytes) == *ret_n);
	return bytes;
}

/* Written and read, it is accepted, and writes the same. */
static void check_again(const Frame__State *s)
{
	const char *fault;
	size_t n, n_again;
	uint8_t *bytes = pack(s, &n);
	Frame__State *again = data_state_decode(slice_of(bytes, n), s->log_id, &fault);
	must(again != NULL && fault == NULL && data_state_compare(s, again) == 0);
	uint8_t *same = pack(again, &n_again);
	must(n == n_again && memcmp(bytes, same, n) == 0);
	free(bytes);
	free(same);
	data_state_free(again);
}

static void check_state(struct slice entry, uint64_t log_id)
{
	const char *fault = NULL;
	Frame__State *s = data_state_decode(entry, log_id, &fault);
	must((s == NULL) == (fault != NULL));
	if (s == NULL)
		return;
	check_again(s);
	data_state_free(s);
	must(data_state_decode(entry, log_id + 1, &fault) == NULL && fault != NULL);
}

static Frame__State *state_in(struct slice bytes)
{
	const char *fault;
	Frame__State *s = frame__state__unpack(NULL, bytes.n, bytes.p);
	if (s == NULL)
		return NULL;
	uint64_t log_id = s->log_id;
	data_state_free(s);
	return data_state_decode(bytes, log_id, &fault);
}

/* The first byte says where one entry ends and the other begins. */
static void check_fold(struct slice bytes)
{
	size_t n = bytes.n > 0 ? bytes.p[0] % bytes.n : 0;
	Frame__State *a = state_in(slice_of(bytes.p + (n > 0), n > 0 ? n - 1 : 0));
	Frame__State *b = state_in(slice_of(bytes.p + n, bytes.n - n));
	if (a == NULL || b == NULL) {
		data_state_free(a);
		data_state_free(b);
		return;
	}
	b->log_id = a->log_id;
	Frame__State *newer = data_state_compare(a, b) >= 0 ? a : b, *older = newer == a ? b : a;
	bool complete = newer->complete || older->complete;
	size_t most = newer->n_producers + older->n_producers;
	must(data_state_compare(older, newer) <= 0);
	if (data_state_fold(newer, older) == NULL) {
		must(newer->complete == complete && newer->n_producers <= most);
		check_again(newer);
	}
	data_state_free(newer);
}

/* ------------------------------------------------------------------ building */

struct built {
	uint64_t log, base, end;
};

/* Three bytes a frame: a new log or a gap, offsets, size; some fill half a block. Entries in between. */
static size_t build(struct data_builder *b, struct slice program, struct built *frames)
{
	static const uint8_t zero[DATA_BLOCK_MAX];
	uint64_t log = 0, next = 0, state_log = 0;
	size_t n = 0, n_large = program.n > 0 && program.p[0] > 240 ? 0 : 3; /* seldom: they take time */
	for (size_t i = 0; i + 3 <= program.n && n < 64; i += 3) {
		uint8_t what = program.p[i], much = program.p[i + 1], size = program.p[i + 2];
		if (what > 200) {
			state_log += 1 + much;
			data_builder_state(b, state_log, slice_of(zero, 1 + size * (what > 250 && n_large++ < 3 ? 1024u : 1u)));
			continue;
		}
		log += what % 4 == 1 ? what : 0;
		next = (what % 4 == 1 ? 0 : next) + what / 8;
		bool large = what % 16 == 2 && n_large++ < 3;
		frames[n] = (struct built){ .log = log, .base = next, .end = next + 1 + much };
		struct data_frame f = {
			.log_id = log, .base = next, .end = frames[n].end, .append_ms = what, .max_timestamp = size,
			.bytes = slice_of(zero, 136 + 8 * size + (large ? DATA_BLOCK_MAX / 2 : 0)), .batch_bytes = 72,
		};
		data_builder_frame(b, &f, n);
		next = frames[n++].end;
	}
	return n;
}

/* Each first and last offset of a frame is found in a block that holds it, and an offset that no frame has in none. */
static void check_built(struct slice bytes, struct object_id id, const struct built *frames, size_t n)
{
	struct object o = { .bytes = bytes };
	struct data_index_entry e;
	struct slice footer = slice_of(bytes.p + bytes.n - DATA_FOOTER, DATA_FOOTER);
	must(data_footer_decode(footer, bytes.n, id, &o.footer) == NULL);
	must(data_top_decode(part(&o, o.footer.top_position, o.footer.top_length), &o.footer, &o.top) == NULL);
	for (size_t i = 0; i < n; i++) {
		for (int last = 0; last < 2; last++) {
			uint64_t offset = last ? frames[i].end - 1 : frames[i].base;
			const struct data_page *p = data_top_index_page(o.top, frames[i].log, offset);
			must(p != NULL && data_index_page_check(part(&o, p->position, p->length), p) == NULL);
			must(data_index_page_find(part(&o, p->position, p->length), frames[i].log, offset, &e));
			must(e.base <= frames[i].base && e.end >= frames[i].end && e.bytes_before <= i);
			bool gap = i > 0 && frames[i - 1].log == e.log_id && frames[i - 1].end < frames[i].base;
			must(!gap || e.base >= frames[i].base);
			must(offset != e.base || crc32c(part(&o, e.position, e.length).p, e.length) == e.crc);
		}
	}
	data_top_free(o.top);
}

static void check_program(struct slice program)
{
	struct object_id id = { 1, 2, 3 };
	struct built frames[64];
	struct object_row row;
	struct data_builder *b = data_builder_new(id, 1, 0);
	size_t n = build(b, program, frames);
	uint64_t at = 0, length;
	data_builder_finish(b, &row);
	uint8_t *bytes = must_calloc(1, row.bytes);
	must(row.bytes == data_builder_ready(b));
	while (at < row.bytes) {
		struct iovec iov[3];
		int pieces = data_builder_iovec(b, at, row.bytes - at, iov, 3, &length);
		must(pieces > 0 && length > 0);
		for (int i = 0; i < pieces; at += iov[i++].iov_len)
			memcpy(bytes + at, iov[i].iov_base, iov[i].iov_len);
	}
	must(check_object(slice_of(bytes, row.bytes)));
	check_built(slice_of(bytes, row.bytes), id, frames, n);
	free(bytes);
	data_builder_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > SIZE_MAX_HERE)
		return 0;
	check_object(slice_of(data, size));
	if (size >= DATA_FOOTER) {
		uint8_t *fitted = must_memdup(data, size);
		fit(fitted, size);
		check_object(slice_of(fitted, size));
		free(fitted);
	}
	Frame__State *s = state_in(slice_of(data, size));
	if (s != NULL)
		check_again(s);
	data_state_free(s);
	check_fold(slice_of(data, size));
	check_program(slice_of(data, size < 600 ? size : 600));
	return 0;
}
