/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces are noted as they come; pieces that lie behind each other in memory become one. Entries of blocks and of
 * states gather in memory of the builder, in the layout of their pages, and become pieces at the end.
 *
 * Invariant: the pieces follow each other without a gap from position 0, and no byte of one changes once it is noted.
 */
#include "storaged/data/data_builder.h"

#include <stdlib.h>

#include "common/buf.h"
#include "common/crc32c.h"
#include "common/must.h"
#include "storaged/bounds.h"
#include "storaged/engine/wal_format.h"

#define ENTRIES_MAX ((size_t)1 << 32)   /* bytes of entries: far above what an object may have */
#define OFFSET_END_MAX ((uint64_t)INT64_MAX + 1)

struct piece {
	const uint8_t *p;
	uint64_t position;              /* its length reaches to the next one's */
};

struct data_builder {
	struct object_id id;
	uint32_t origin, level;
	bool finishing, finished;
	struct data_top top;            /* finishing: its logs so far */
	size_t block_at, state_at;      /* of the index and of `logs`: taken into top.logs */
	struct piece *pieces;
	size_t n_pieces, pieces_capacity;
	uint64_t ready;                 /* bytes of the pieces */

	struct data_index_entry block;  /* being filled; length 0: none yet */
	uint64_t first_offset;          /* of the first block */
	int64_t oldest_ms, newest_ms;
	struct buf index;               /* entries of closed blocks */

	struct data_state_slot *slots;  /* of the state page being filled */
	uint32_t n_slots, slots_capacity;
	struct buf entries;             /* their bytes */
	struct buf state;               /* closed state pages */

	struct buf logs;                /* u64 each, ascending: those with a state entry */
	struct buf pages;               /* struct data_page: of `state`, positions from its begin */
	struct buf tail;                /* top and footer */
};

struct data_builder *data_builder_new(struct object_id id, uint32_t origin, uint32_t level)
{
	struct data_builder *b = must_calloc(1, sizeof(*b));
	must(level <= DATA_LEVEL_SINGLE);
	b->id = id;
	b->origin = origin;
	b->level = level;
	struct buf *bufs[] = { &b->index, &b->entries, &b->state, &b->logs, &b->pages, &b->tail };
	for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
		buf_init(bufs[i], ENTRIES_MAX);
	return b;
}

static void top_done(struct data_top *t)
{
	free(t->logs);
	free(t->state);
	free(t->index);
	*t = (struct data_top){ 0 };
}

void data_builder_free(struct data_builder *b)
{
	if (b == NULL)
		return;
	struct buf *bufs[] = { &b->index, &b->entries, &b->state, &b->logs, &b->pages, &b->tail };
	for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
		buf_done(bufs[i]);
	top_done(&b->top);
	free(b->pieces);
	free(b->slots);
	free(b);
}

/* Room for n bytes that are written at once; memory that is out is a bug of whoever bounded the object. */
static uint8_t *put_room(struct buf *to, size_t n)
{
	uint8_t *p = buf_reserve(to, n);
	must(p != NULL);
	buf_commit(to, n);
	return p;
}

static void piece_add(struct data_builder *b, const uint8_t *p, size_t n)
{
	struct piece *last = b->n_pieces > 0 ? &b->pieces[b->n_pieces - 1] : NULL;
	if (n == 0)
		return;
	if (last == NULL || last->p + (b->ready - last->position) != p) {
		if (b->n_pieces == b->pieces_capacity) {
			b->pieces_capacity = b->pieces_capacity == 0 ? 16 : b->pieces_capacity * 2;
			b->pieces = must_realloc(b->pieces, b->pieces_capacity * sizeof(*b->pieces));
		}
		b->pieces[b->n_pieces++] = (struct piece){ .p = p, .position = b->ready };
	}
	b->ready += n;
}

/* ------------------------------------------------------------------- blocks */

static bool has_block(const struct data_builder *b)
{
	return b->block.length > 0;
}

static void block_close(struct data_builder *b)
{
	if (has_block(b))
		data_index_entry_encode(put_room(&b->index, DATA_INDEX_ENTRY), &b->block);
}

static void block_begin(struct data_builder *b, const struct data_frame *f, uint64_t bytes_before)
{
	if (!has_block(b)) {
		b->first_offset = f->base;
		b->oldest_ms = b->newest_ms = f->append_ms;
	}
	block_close(b);
	b->block = (struct data_index_entry){
		.log_id = f->log_id, .base = f->base, .end = f->base, .max_timestamp = f->max_timestamp,
		.bytes_before = bytes_before, .position = b->ready,
	};
}

static void block_add(struct data_builder *b, const struct data_frame *f)
{
	struct data_index_entry *e = &b->block;
	must(f->bytes.n <= UINT32_MAX - e->length);
	e->end = f->end;
	e->length += (uint32_t)f->bytes.n;
	e->crc = crc32c_extend(e->crc, f->bytes.p, f->bytes.n);
	e->last_append_ms = f->append_ms;
	if (f->max_timestamp > e->max_timestamp)
		e->max_timestamp = f->max_timestamp;
	if (f->append_ms < b->oldest_ms)
		b->oldest_ms = f->append_ms;
	if (f->append_ms > b->newest_ms)
		b->newest_ms = f->append_ms;
}

void data_builder_frame(struct data_builder *b, const struct data_frame *f, uint64_t bytes_before)
{
	const struct data_index_entry *e = &b->block;
	must(!b->finishing && f->end > f->base && f->end <= OFFSET_END_MAX);
	must(f->batch_bytes > 0 && f->bytes.n >= frame_size(0, f->batch_bytes) && f->bytes.n % 8 == 0);
	must(!has_block(b) || f->log_id > e->log_id || (f->log_id == e->log_id && f->base >= e->end));
	must(!has_block(b) || b->level != DATA_LEVEL_SINGLE || f->log_id == e->log_id);
	if (!has_block(b) || f->log_id != e->log_id || f->base != e->end || e->length >= bounds.data_block)
		block_begin(b, f, bytes_before);
	block_add(b, f);
	piece_add(b, f->bytes.p, f->bytes.n);
}

/* ------------------------------------------------------------------- states */

static void state_page_close(struct data_builder *b)
{
	if (b->n_slots == 0)
		return;
	struct slice entries = buf_slice(&b->entries);
	size_t table = (size_t)data_state_page_size(b->n_slots, 0);
	struct data_page page = {
		.log_id = b->slots[b->n_slots - 1].log_id, .position = buf_len(&b->state),
		.length = (uint32_t)(table + entries.n),
	};
	uint8_t *p = put_room(&b->state, page.length);
	data_state_page_begin(p, b->slots, b->n_slots);
	memcpy(p + table, entries.p, entries.n);
	page.crc = crc32c(p, page.length);
	memcpy(put_room(&b->pages, sizeof(page)), &page, sizeof(page));
	buf_reset(&b->entries, bounds.data_page);
	b->n_slots = 0;
}

static void slot_add(struct data_builder *b, uint64_t log_id, struct slice entry)
{
	if (b->n_slots == b->slots_capacity) {
		b->slots_capacity = b->slots_capacity == 0 ? 16 : b->slots_capacity * 2;
		b->slots = must_realloc(b->slots, b->slots_capacity * sizeof(*b->slots));
	}
	b->slots[b->n_slots++] = (struct data_state_slot){
		.log_id = log_id, .position = (uint32_t)buf_len(&b->entries), .length = (uint32_t)entry.n,
	};
	memcpy(put_room(&b->entries, entry.n), entry.p, entry.n);
}

static size_t state_count(const struct data_builder *b)
{
	return buf_len(&b->logs) / sizeof(uint64_t);
}

/* The i-th log with a state entry. */
static uint64_t state_log(const struct data_builder *b, size_t i)
{
	uint64_t id;
	memcpy(&id, buf_head(&b->logs) + i * sizeof(id), sizeof(id));
	return id;
}

void data_builder_state(struct data_builder *b, uint64_t log_id, struct slice entry)
{
	size_t n = state_count(b);
	must(!b->finishing && entry.n > 0 && entry.n <= DATA_ENTRY_MAX);
	must(n == 0 || (log_id > state_log(b, n - 1) && b->level != DATA_LEVEL_SINGLE));
	if (data_state_page_size(b->n_slots + 1, buf_len(&b->entries) + entry.n) > bounds.data_page)
		state_page_close(b);
	slot_add(b, log_id, entry);
	memcpy(put_room(&b->logs, sizeof(log_id)), &log_id, sizeof(log_id));
}

/* ------------------------------------------------------------------- finish */

bool data_builder_is_empty(const struct data_builder *b)
{
	return !has_block(b) && state_count(b) == 0;
}

uint64_t data_builder_ready(const struct data_builder *b)
{
	return b->ready;
}

uint64_t data_builder_size(const struct data_builder *b)
{
	if (b->finished)
		return b->ready;
	return b->ready + buf_len(&b->index) + buf_len(&b->state) + DATA_INDEX_ENTRY + DATA_FOOTER +
	       data_state_page_size(b->n_slots, buf_len(&b->entries));
}

/* The pages' places in the object, which are known now. */
static void state_pages_get(struct data_builder *b, struct data_top *t)
{
	t->n_state = buf_len(&b->pages) / sizeof(struct data_page);
	t->state = must_calloc(t->n_state + 1, sizeof(*t->state));
	if (t->n_state > 0)
		memcpy(t->state, buf_head(&b->pages), t->n_state * sizeof(*t->state));
	for (size_t i = 0; i < t->n_state; i++)
		t->state[i].position += b->ready;
}

/* The entries of blocks, cut into pages. */
static void index_pages_get(struct data_builder *b, struct data_top *t)
{
	struct slice all = buf_slice(&b->index);
	uint64_t begin = b->ready + buf_len(&b->state);
	t->index = must_calloc(all.n / bounds.data_page + 1, sizeof(*t->index));
	for (size_t at = 0; at < all.n; at += bounds.data_page) {
		size_t n = all.n - at < bounds.data_page ? all.n - at : bounds.data_page;
		struct data_index_entry last;
		data_index_page_get(slice_of(all.p + at, n), n / DATA_INDEX_ENTRY - 1, &last);
		t->index[t->n_index++] = (struct data_page){
			.log_id = last.log_id, .end = last.end, .position = begin + at, .length = (uint32_t)n,
			.crc = crc32c(all.p + at, n),
		};
	}
}

/* Logs with a state entry and logs with a block, both ascending, as one list: n of the two more. true: that was all. */
static bool logs_get(struct data_builder *b, size_t n)
{
	struct data_top *t = &b->top;
	struct slice blocks = buf_slice(&b->index);
	size_t n_blocks = data_index_page_count(blocks), n_state = state_count(b);
	for (; n > 0 && (b->block_at < n_blocks || b->state_at < n_state); n--) {
		struct data_index_entry e;
		if (b->block_at < n_blocks)
			data_index_page_get(blocks, b->block_at, &e);
		bool take_block = b->block_at < n_blocks &&
				  (b->state_at == n_state || e.log_id <= state_log(b, b->state_at));
		uint64_t id = take_block ? e.log_id : state_log(b, b->state_at);
		if (take_block)
			b->block_at++;
		else
			b->state_at++;
		if (t->n_logs == 0 || t->logs[t->n_logs - 1] != id)
			t->logs[t->n_logs++] = id;
	}
	return b->block_at == n_blocks && b->state_at == n_state;
}

/* What stands behind the blocks; positions in t are final. */
static struct data_footer tail_put(struct data_builder *b, const struct data_top *t)
{
	size_t n = data_top_size(t);
	must(n <= DATA_TOP_MAX);
	uint8_t *p = put_room(&b->tail, n + DATA_FOOTER);
	data_top_encode(p, t);
	piece_add(b, buf_head(&b->state), buf_len(&b->state));
	piece_add(b, buf_head(&b->index), buf_len(&b->index));
	struct data_footer f = {
		.id = b->id, .origin = b->origin, .level = b->level,
		.first_log = t->n_logs > 0 ? t->logs[0] : 0, .last_log = t->n_logs > 0 ? t->logs[t->n_logs - 1] : 0,
		.oldest_ms = b->oldest_ms, .newest_ms = b->newest_ms,
		.top_position = b->ready, .top_length = (uint32_t)n, .top_crc = crc32c(p, n),
	};
	data_footer_encode(p + n, &f);
	piece_add(b, p, n + DATA_FOOTER);
	return f;
}

static void finish_begin(struct data_builder *b)
{
	b->finishing = true;
	block_close(b);
	state_page_close(b);
	b->top.logs = must_calloc(data_index_page_count(buf_slice(&b->index)) + state_count(b) + 1, sizeof(uint64_t));
}

static void finish_end(struct data_builder *b, struct object_row *ret_row)
{
	struct data_top *t = &b->top;
	state_pages_get(b, t);
	index_pages_get(b, t);
	must(b->level != DATA_LEVEL_SINGLE || t->n_logs <= 1);
	struct data_footer f = tail_put(b, t);
	top_done(t);
	b->finished = true;
	*ret_row = (struct object_row){
		.id = b->id, .origin = b->origin, .level = b->level, .first_log = f.first_log, .last_log = f.last_log,
		.bytes = b->ready, .oldest_ms = f.oldest_ms, .newest_ms = f.newest_ms,
	};
	if (b->level == DATA_LEVEL_SINGLE && has_block(b)) {
		ret_row->first_offset = b->first_offset;
		ret_row->end_offset = b->block.end;
	}
}

bool data_builder_finish_some(struct data_builder *b, size_t n, struct object_row *ret_row)
{
	must(!b->finished);
	if (!b->finishing)
		finish_begin(b);
	if (!logs_get(b, n))
		return false;
	finish_end(b, ret_row);
	return true;
}

void data_builder_finish(struct data_builder *b, struct object_row *ret_row)
{
	bool whole = data_builder_finish_some(b, SIZE_MAX, ret_row);
	must(whole);
}

/* ------------------------------------------------------------------- pieces */

static uint64_t piece_end(const struct data_builder *b, size_t i)
{
	return i + 1 < b->n_pieces ? b->pieces[i + 1].position : b->ready;
}

/* The piece that holds position, which is below ready. */
static size_t piece_find(const struct data_builder *b, uint64_t position)
{
	size_t low = 0, high = b->n_pieces;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (b->pieces[middle].position <= position)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

int data_builder_iovec(const struct data_builder *b, uint64_t position, uint64_t length, struct iovec *ret_iov,
		       int n_max, uint64_t *ret_length)
{
	uint64_t at = position, end = position + length;
	int n = 0;
	must(position <= b->ready && length <= b->ready - position);
	for (size_t i = length > 0 ? piece_find(b, position) : 0; at < end && n < n_max; i++, n++) {
		uint64_t to = piece_end(b, i) < end ? piece_end(b, i) : end;
		ret_iov[n].iov_base = (void *)(b->pieces[i].p + (at - b->pieces[i].position));
		ret_iov[n].iov_len = (size_t)(to - at);
		at = to;
	}
	*ret_length = at - position;
	return n;
}
