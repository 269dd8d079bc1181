/* SPDX-License-Identifier: Apache-2.0
 *
 * See node_forks.h. Checks inside are assertions of the test that calls.
 */
#include "t/unit/node_forks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/metrics.h"
#include "common/must.h"
#include "common/record_cut.h"
#include "storaged/engine/engine_impl.h"
#include "storaged/op.h"

#define BYTES_MAX (4u << 20)

static uint32_t next_number = 1;

/* ---------------------------------------------------------------------- batches */

static void batch_build(struct buf *out, uint32_t n, unsigned codec, int64_t ms)
{
	struct record_batch_writer w;
	struct buf plain;
	char value[200];
	buf_init(&plain, BYTES_MAX);
	buf_init(out, BYTES_MAX);
	record_batch_begin(&w, &plain);
	for (uint32_t i = 0; i < n; i++) {
		int length = snprintf(value, sizeof(value), "%010u %0*u", next_number + i, 10 + (int)(next_number % 90), 7);
		record_batch_add(&w, slice_of(NULL, 0), slice_of(value, (size_t)length), NULL, 0);
	}
	must(record_batch_end(&w) > 0);
	buf_put(out, buf_head(&plain), RECORD_BATCH_HEADER);
	must(codec_compress(codec, slice_of(buf_head(&plain) + RECORD_BATCH_HEADER, buf_len(&plain) - RECORD_BATCH_HEADER),
			    out) == 0);
	uint8_t *h = buf_head(out);
	put_be32(h + 8, (uint32_t)buf_len(out) - 12);
	put_be16(h + 21, (uint16_t)codec);
	put_be64(h + 27, (uint64_t)ms);
	put_be64(h + 35, (uint64_t)ms);
	put_be32(h + 17, crc32c(h + 21, buf_len(out) - 21));
	buf_done(&plain);
}

/* One read; the bytes of its pieces. */
static struct buf read_bytes(const struct model *m, uint64_t from, uint32_t max_bytes)
{
	struct log_name l;
	struct asked a;
	struct buf out;
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	r.log = log_ref(&l, m->name, 0);
	r.from = (int64_t)from;
	r.max_bytes = max_bytes;
	buf_init(&out, 64u << 20);
	ask(&a, IPC_READ, &r.base, slice_of(NULL, 0));
	if (a.error.kind != PICO_OK)
		fail_msg("%s from %llu: %s", m->name, (unsigned long long)from, a.error.message);
	for (size_t i = 0; i < a.n_pieces; i++)
		buf_put(&out, a.pieces[i].segment->mem.base + a.pieces[i].offset, a.pieces[i].length);
	asked_done(&a);
	return out;
}

/* ----------------------------------------------------------------------- streams */

void model_create(struct model *m, const char *name)
{
	struct asked a;
	char copy[sizeof(m->name)]; /* it may be m's own */
	snprintf(copy, sizeof(copy), "%s", name);
	*m = (struct model){ 0 };
	memcpy(m->name, copy, sizeof(copy));
	Ipc__Topic *t = create(&a, m->name, 1);
	assert_true(((Ipc__CreateAnswer *)a.answer)->created);
	memcpy(m->id, t->topic_id.data, sizeof(m->id));
	asked_done(&a);
}

void model_push(struct model *m, uint32_t n, unsigned codec, int64_t ms)
{
	struct buf b;
	struct asked a;
	Ipc__SubmitRequest r = IPC__SUBMIT_REQUEST__INIT;
	Ipc__SubmitRequest__Part part = IPC__SUBMIT_REQUEST__PART__INIT, *pointer = &part;
	must(m->end + n <= MODEL_MAX);
	batch_build(&b, n, codec, ms);
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = m->id };
	part.length = (uint32_t)buf_len(&b);
	r.part = &pointer;
	r.n_part = 1;
	ask(&a, IPC_SUBMIT, &r.base, buf_slice(&b));
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__SubmitAnswer__Part *got = ((Ipc__SubmitAnswer *)a.answer)->part[0];
	if (got->error != NULL)
		fail_msg("%s: %s", m->name, got->error->message);
	assert_int_equal(got->base_offset, m->end);
	for (uint32_t i = 0; i < n; i++)
		m->record[m->end + i] = (struct model_record){ .number = next_number + i, .ms = ms, .base = m->end };
	m->end += n;
	next_number += n;
	asked_done(&a);
	buf_done(&b);
}

/* What a fork there takes along; false: nothing. */
static bool copies_make(const struct model *source, uint64_t offset, bool piece, uint64_t *ret_parent_end, struct buf *ret)
{
	struct record_decoder d;
	struct record_batch b;
	*ret_parent_end = offset;
	if (offset >= source->end || offset < source->start)
		return false;
	struct buf bytes = read_bytes(source, offset, 1);
	record_decoder_init(&d, BYTES_MAX);
	assert_int_equal(record_batch_read(buf_slice(&bytes), &b), 0);
	uint32_t n = (uint32_t)(offset - b.base_offset) + piece;
	*ret_parent_end = b.base_offset;
	buf_init(ret, BYTES_MAX);
	if (n > 0)
		assert_int_equal(record_cut(&d, &b, n, ret), 0);
	record_decoder_done(&d);
	buf_done(&bytes);
	if (n == 0)
		buf_done(ret);
	return n > 0;
}

static void fork_call(struct asked *a, const char *name, const struct model *source, uint64_t offset, bool piece)
{
	Ipc__ForkRequest r = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest settings = IPC__CREATE_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	struct buf copies;
	uint64_t parent_end;
	bool has_copies = copies_make(source, offset, piece, &parent_end, &copies);
	ref.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)source->id };
	settings.name = (char *)name;
	r.create = &settings;
	r.source = &ref;
	if (offset != UINT64_MAX) {
		r.has_offset = r.has_parent_end = true;
		r.offset = offset;
		r.parent_end = parent_end;
		r.sub_offset = piece;
	}
	ask(a, IPC_FORK, &r.base, has_copies ? buf_slice(&copies) : slice_of(NULL, 0));
	if (has_copies)
		buf_done(&copies);
}

void model_fork(struct model *m, const char *name, const struct model *source, uint64_t offset, bool piece)
{
	struct asked a;
	fork_call(&a, name, source, offset, piece);
	if (a.error.kind != PICO_OK)
		fail_msg("fork %s of %s at %llu: %s", name, source->name, (unsigned long long)offset, a.error.message);
	const Ipc__ForkAnswer *f = (const Ipc__ForkAnswer *)a.answer;
	uint64_t point = offset == UINT64_MAX ? source->end : offset;
	assert_true(f->created);
	*m = *source;
	snprintf(m->name, sizeof(m->name), "%s", name);
	memcpy(m->id, f->topic->topic_id.data, sizeof(m->id));
	m->end = point + piece;
	assert_string_equal(f->topic->source_name, source->name);
	assert_memory_equal(f->topic->source_id.data, source->id, 16);
	assert_int_equal(f->topic->partitions[0]->fork_offset, point);
	assert_int_equal(f->topic->partitions[0]->start, m->start);
	assert_int_equal(f->topic->partitions[0]->confirm, m->end);
	asked_done(&a);
}

enum pico_error_kind fork_ask(const char *name, const struct model *source, uint64_t offset, bool piece)
{
	struct asked a;
	fork_call(&a, name, source, offset, piece);
	enum pico_error_kind kind = a.error.kind;
	if (kind == PICO_OK && ((const Ipc__ForkAnswer *)a.answer)->created)
		kind = FORK_CREATED;
	asked_done(&a);
	return kind;
}

void model_trim(struct model *m, uint64_t start)
{
	struct log_name l;
	struct asked a;
	Ipc__TrimRequest r = IPC__TRIM_REQUEST__INIT;
	r.log = log_ref(&l, m->name, 0);
	r.offset = (int64_t)start;
	ask(&a, IPC_TRIM, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	if (start > m->start)
		m->start = start;
	assert_int_equal(((Ipc__TrimAnswer *)a.answer)->start, m->start);
	asked_done(&a);
}

static void topic_delete(const uint8_t id[16])
{
	struct asked a;
	Ipc__DeleteRequest r = IPC__DELETE_REQUEST__INIT;
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	ref.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	r.topic = &ref;
	ask(&a, IPC_DELETE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_true(((Ipc__DeleteAnswer *)a.answer)->existed);
	asked_done(&a);
}

void model_delete(const struct model *m)
{
	topic_delete(m->id);
}

void topics_delete(void)
{
	const struct state_topic *t;
	while ((t = state_topic_next(meta_state(node->meta), slice_of("", 0))) != NULL) {
		uint8_t id[16];
		memcpy(id, t->id, sizeof(id));
		topic_delete(id);
	}
	assert_null(state_topic_next_any(meta_state(node->meta), slice_of("", 0)));
}

/* ------------------------------------------------------------------------ checks */

static void record_check(const struct model *m, const struct record *r, uint64_t base)
{
	const struct model_record *want = &m->record[r->offset];
	if (r->offset >= m->end || r->value.n < 10 || (uint32_t)strtoul((const char *)r->value.p, NULL, 10) != want->number ||
	    r->timestamp_ms != want->ms || base != want->base)
		fail_msg("%s: offset %llu holds %.10s, not %u", m->name, (unsigned long long)r->offset,
			 (const char *)r->value.p, want->number);
}

/* The batches follow each other from the one around `from` on. Returns where they end. */
static uint64_t batches_check(const struct model *m, uint64_t from, struct slice bytes)
{
	struct record_decoder d;
	uint64_t next = m->record[from].base;
	record_decoder_init(&d, BYTES_MAX);
	while (bytes.n > 0) {
		struct record_batch b;
		struct record r;
		int64_t size = record_batch_size(bytes);
		assert_true(size > 0 && (uint64_t)size <= bytes.n);
		assert_int_equal(record_batch_read(slice_of(bytes.p, (size_t)size), &b), 0);
		assert_true(record_batch_crc_is_good(&b));
		assert_int_equal(b.base_offset, next);
		assert_int_equal(record_decoder_open(&d, &b), 0);
		while (record_decoder_next(&d, &r) == 1)
			record_check(m, &r, b.base_offset);
		next = b.base_offset + b.record_count;
		bytes = slice_of(bytes.p + size, bytes.n - (size_t)size);
	}
	record_decoder_done(&d);
	return next;
}

static void whole_check(const struct model *m)
{
	for (uint64_t at = m->start; at < m->end;) {
		struct buf bytes = read_bytes(m, at, 0);
		uint64_t end = batches_check(m, at, buf_slice(&bytes));
		assert_true(end > at && end <= m->end);
		buf_done(&bytes);
		at = end;
	}
}

/* What a lookup has to name: the batch's base, or the start in it; false: none. */
static bool lookup_want(const struct model *m, bool latest, int64_t ms, struct log_time *ret)
{
	bool found = false;
	for (uint64_t i = m->start; i < m->end; i++) {
		const struct model_record *r = &m->record[i];
		if (latest ? found && r->ms <= ret->max_timestamp_ms : r->ms < ms)
			continue;
		*ret = (struct log_time){ .base = r->base > m->start ? r->base : m->start, .max_timestamp_ms = r->ms };
		found = true;
		if (!latest)
			break;
	}
	return found;
}

static void lookup_check(const struct model *m, bool latest, int64_t ms)
{
	struct asked a;
	struct log_time want = { 0 };
	Ipc__LookupRequest r = IPC__LOOKUP_REQUEST__INIT;
	Ipc__LookupRequest__Part part = IPC__LOOKUP_REQUEST__PART__INIT, *pointer = &part;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)m->id };
	part.what = latest ? IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP : IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER;
	part.timestamp_ms = ms;
	part.leader_epoch = -1;
	r.part = &pointer;
	r.n_part = 1;
	ask(&a, IPC_LOOKUP, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__LookupAnswer__Part *got = ((Ipc__LookupAnswer *)a.answer)->part[0];
	if (got->error != NULL)
		fail_msg("%s: %s", m->name, got->error->message);
	bool found = lookup_want(m, latest, ms, &want);
	if (got->found != found || (found && (got->offset != want.base || got->max_timestamp_ms != want.max_timestamp_ms)))
		fail_msg("%s: %s %lld is batch %lld at %lld, not %lld at %lld", m->name, latest ? "latest" : "time", (long long)ms,
			 got->found ? (long long)got->offset : -1, (long long)got->max_timestamp_ms,
			 found ? (long long)want.base : -1, (long long)want.max_timestamp_ms);
	asked_done(&a);
}

static void ends_check(const struct model *m)
{
	struct log_name l;
	struct asked a;
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	Ipc__OffsetsAnswer o = offsets(m->name, 0);
	assert_int_equal(o.start, m->start);
	assert_int_equal(o.confirm, m->end);
	assert_int_equal(o.next, m->end);
	r.log = log_ref(&l, m->name, 0);
	if (m->start > 0) {
		r.from = (int64_t)m->start - 1;
		refuse(IPC_READ, &r.base, slice_of(NULL, 0), PICO_OUT_OF_RANGE);
	}
	r.from = -1;
	ask(&a, IPC_READ, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(((Ipc__ReadAnswer *)a.answer)->from, m->start);
	asked_done(&a);
}

static void check(const struct model *m, uint64_t step)
{
	ends_check(m);
	whole_check(m);
	lookup_check(m, true, 0);
	lookup_check(m, false, INT64_MAX);
	for (uint64_t at = m->start; at < m->end; at += step) {
		struct buf bytes = read_bytes(m, at, 1);
		uint64_t end = batches_check(m, at, buf_slice(&bytes));
		assert_true(end > at && (end == m->end || m->record[end].base == end) && m->record[end - 1].base <= at);
		buf_done(&bytes);
		lookup_check(m, false, m->record[at].ms);
		lookup_check(m, false, m->record[at].ms + 1);
	}
}

void model_check(const struct model *m)
{
	check(m, 1);
}

void model_check_some(const struct model *m)
{
	check(m, (m->end - m->start) / 5 + 1);
}

/* ------------------------------------------------------------------------ objects */

void packs_wait(void)
{
	bool never = false;
	uint64_t end = env_now_ms(env) + 20000;
	while (env_now_ms(env) < end) {
		run_for(&never, 5);
		if (node->engine->arena.unpacked == 0)
			return;
	}
	fail_msg("nothing is packed");
}

size_t objects_count(unsigned *ret_level)
{
	const struct catalogue *c = state_catalogue(meta_state(node->meta));
	size_t n = 0;
	*ret_level = 0;
	for (const struct object_row *x = catalogue_next(c, NULL); x != NULL; x = catalogue_next(c, &x->id)) {
		if (x->marked)
			continue;
		n++;
		if (x->level < DATA_LEVELS && x->level > *ret_level)
			*ret_level = x->level;
	}
	return n;
}
