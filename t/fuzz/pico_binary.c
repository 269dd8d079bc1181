/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a binary batch of the Pico protocol. What is accepted is a valid record batch, and
 * read back as binary it is the same bytes with a position and a time before each record, however
 * small the pieces are.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "t/fuzz/fuzz.h"
#include "worker-http/pico.h"
#include "worker-http/encode.h"

#define BOUND (1u << 20)
#define BASE 7
#define BEGIN 5                 /* version and count */
#define PLACE 16                /* seq and timestamp */

/* Takes n bytes of the answer, which must stand in the request, too. */
static const uint8_t *take_same(struct wire_reader *answer, struct wire_reader *request, size_t n)
{
	struct slice a = wire_take(answer, n), b = wire_take(request, n);
	must(!answer->failed && !request->failed && slice_eq(a, b));
	return a.p;
}

static void take_same_counted(struct wire_reader *answer, struct wire_reader *request)
{
	take_same(answer, request, get_be32(take_same(answer, request, 4)));
}

static void compare(struct slice body, struct slice request, uint32_t count)
{
	struct wire_reader a = wire_reader(body), q = wire_reader(request);
	take_same(&a, &q, BEGIN);
	for (uint32_t i = 0; i < count; i++) {
		must(wire_be64(&a) == BASE + i && wire_be64(&a) == 1234);
		uint32_t key = get_be32(take_same(&a, &q, 4));
		take_same(&a, &q, key == UINT32_MAX ? 0 : key);
		uint32_t n = get_be32(take_same(&a, &q, 4));
		for (uint32_t h = 0; h < 2 * n; h++)
			take_same_counted(&a, &q);
		take_same_counted(&a, &q);
	}
	must(wire_left(&a) == 0 && wire_left(&q) == 0);
}

/* The answer to a read of that batch, encoded `max` bytes at a time. */
static void read_back(struct slice batch, uint32_t count, size_t max, struct buf *out)
{
	struct topics_pieces pieces = { .piece = &batch, .n_pieces = 1 };
	struct batch_cache cache;
	struct encode_source source = { .pieces = &pieces, .cache = &cache };
	struct encoder e;
	struct buf part;
	int r;
	batch_cache_init(&cache, BOUND);
	buf_init(&part, 4 * BOUND);
	encoder_init(&e, FORMAT_BINARY, BASE);
	e.end = BASE + count;
	encoder_begin(&e, out);
	encoder_count(&e, out, count);
	do {
		buf_reset(&part, BOUND);
		r = encoder_run(&e, &source, &part, max);
		must(r >= 0);
		buf_put_slice(out, buf_slice(&part));
	} while (r == 0);
	encoder_finish(&e, out);
	buf_done(&part);
	batch_cache_done(&cache);
}

static void check_accepted(struct slice request, struct buf *batch, uint32_t count)
{
	struct record_batch b;
	struct buf body;
	must(count > 0 && record_batch_read(buf_slice(batch), &b) == 0);
	must(b.record_count == count && record_batch_validate(&b, NULL) == 0);
	record_batch_place(buf_head(batch), BASE, 1);
	record_batch_stamp(buf_head(batch), buf_len(batch), 1234);
	for (size_t max = 1; max <= 4096; max *= 64) {
		buf_init(&body, 64 * BOUND);
		read_back(buf_slice(batch), count, max, &body);
		must(!body.failed && buf_len(&body) == request.n + (size_t)PLACE * count);
		compare(buf_slice(&body), request, count);
		buf_done(&body);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char fault[200] = "";
	uint32_t count = UINT32_MAX;
	struct buf batch;
	if (size > 65536)
		return 0;
	buf_init(&batch, size % 8 == 7 ? 200 : BOUND);
	int r = pico_binary_batch(slice_of(data, size), &batch, &count, fault, sizeof(fault));
	must(r == 0 || (r == -EBADMSG && fault[0] != '\0') || (r == -ENOBUFS && batch.failed));
	must((r == 0) == (count != UINT32_MAX));
	if (r == 0 && count > 0)
		check_accepted(slice_of(data, size), &batch, count);
	must(r != 0 || count > 0 || (size == BEGIN && buf_len(&batch) == 0));
	buf_done(&batch);
	return 0;
}
