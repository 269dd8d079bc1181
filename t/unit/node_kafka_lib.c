/* SPDX-License-Identifier: Apache-2.0
 *
 * See node_kafka.h. Checks inside are assertions of the test that calls.
 */
#include "t/unit/node_kafka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/record_batch.h"

static void header_fill(uint8_t *p, size_t n, const struct client_batch *b)
{
	put_be16(p + 21, b->attributes);
	put_be32(p + 23, b->last_delta != 0 ? b->last_delta : b->n - 1);
	put_be64(p + 27, (uint64_t)b->base_ms);
	put_be64(p + 35, (uint64_t)b->max_ms);
	put_be64(p + 43, (uint64_t)b->producer_id);
	put_be16(p + 51, (uint16_t)b->epoch);
	put_be32(p + 53, (uint32_t)b->sequence);
	put_be32(p + 57, b->count != 0 ? b->count : b->n);
	put_be32(p + 17, crc32c(p + 21, n - 21));
}

void submit_begin(struct submit *s)
{
	memset(s, 0, sizeof(*s));
	ipc__submit_request__init(&s->m);
	ipc__payload__init(&s->payload);
	buf_init(&s->bytes, 64u << 20);
	s->m.payload = &s->payload;
	s->m.part = s->pointer;
}

struct slice submit_add(struct submit *s, const uint8_t id[16], uint32_t partition, const struct client_batch *b)
{
	struct buf one;
	struct slice bytes = batch(&one, b->n, b->word != NULL ? b->word : "word");
	header_fill(buf_head(&one), bytes.n, b);
	buf_put(&s->bytes, bytes.p, bytes.n);
	size_t i = s->m.n_part++;
	must(i < SUBMIT_PARTS && !s->bytes.failed);
	ipc__submit_request__part__init(&s->part[i]);
	s->part[i].topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	s->part[i].partition = partition;
	s->part[i].length = (uint32_t)bytes.n;
	s->pointer[i] = &s->part[i];
	buf_done(&one);
	return slice_of(buf_head(&s->bytes) + buf_len(&s->bytes) - bytes.n, bytes.n);
}

struct slice submit_request(struct submit *s)
{
	s->payload.length = (uint32_t)buf_len(&s->bytes);
	return buf_slice(&s->bytes);
}

void submit_do(struct submit *s)
{
	ask(&s->asked, IPC_SUBMIT, &s->m.base, submit_request(s));
	assert_int_equal(s->asked.error.kind, PICO_OK);
	assert_int_equal(((Ipc__SubmitAnswer *)s->asked.answer)->n_part, s->m.n_part);
}

const Ipc__SubmitAnswer__Part *submit_part(const struct submit *s, size_t i)
{
	const Ipc__SubmitAnswer *a = (const Ipc__SubmitAnswer *)s->asked.answer;
	must(i < a->n_part);
	return a->part[i];
}

void submit_done(struct submit *s)
{
	asked_done(&s->asked);
	buf_done(&s->bytes);
}

void fetch_bytes(const uint8_t id[16], uint32_t partition, uint64_t offset, struct buf *ret)
{
	struct asked a;
	Ipc__FetchRequest r = IPC__FETCH_REQUEST__INIT;
	Ipc__FetchRequest__Part part = IPC__FETCH_REQUEST__PART__INIT, *pointer = &part;
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	part.partition = partition;
	part.offset = offset;
	part.max_bytes = 1u << 20;
	part.leader_epoch = -1;
	r.part = &pointer;
	r.n_part = 1;
	r.min_bytes = 1;
	ask(&a, IPC_FETCH, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	const Ipc__FetchAnswer *f = (const Ipc__FetchAnswer *)a.answer;
	assert_int_equal(f->n_part, 1);
	assert_null(f->part[0]->error);
	assert_int_equal(f->part[0]->n_pieces, a.n_pieces);
	buf_init(ret, 64u << 20);
	for (size_t i = 0; i < a.n_pieces; i++)
		buf_put(ret, a.pieces[i].segment->mem.base + a.pieces[i].offset, a.pieces[i].length);
	asked_done(&a);
}
