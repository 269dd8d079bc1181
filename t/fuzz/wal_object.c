/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a WAL object: as they are; with a header made to fit, so that frames are reached; and
 * with each frame's magic and checksums made to fit, too. What is accepted lies inside, and is the same
 * bytes when it is written again.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/wire.h"
#include "proto/frame.pb-c.h"
#include "storaged/engine/wal_format.h"
#include "t/fuzz/fuzz.h"

#define SIZE_MAX_HERE (1u << 20)

static void check_inside(struct slice part, struct slice whole)
{
	must(part.p >= whole.p && part.n <= whole.n && (size_t)(part.p - whole.p) <= whole.n - part.n);
}

static void check_frame(const struct frame *f, struct slice bytes)
{
	must(bytes.n == frame_size(f->meta.n, f->payload.n));
	check_inside(f->meta, bytes);
	check_inside(f->payload, bytes);
	must((f->record_count > 0) == (f->payload.n > 0));
	uint8_t *again = must_memdup(bytes.p, bytes.n);
	struct frame copy = *f;
	copy.meta.p = again + FRAME_HEADER;
	frame_encode(again, &copy);
	must(memcmp(again, bytes.p, bytes.n) == 0);
	free(again);
	Frame__Meta *m = frame__meta__unpack(NULL, f->meta.n, f->meta.p);
	if (m != NULL)
		frame__meta__free_unpacked(m, NULL);
}

static void check_body(struct slice body)
{
	struct frame_iter it = { .body = body };
	struct frame f;
	size_t at = 0;
	int rc;
	while ((rc = frame_next(&it, &f)) == 1) {
		must(it.position > at && it.position <= body.n);
		check_frame(&f, slice_of(body.p + at, it.position - at));
		at = it.position;
	}
	must(rc == 0 || rc == -EBADMSG);
	must((rc == 0) == (it.fault == NULL) && (rc != 0 || at == body.n));
	must(frame_next(&it, &f) == rc);
}

static void check_object(struct slice object)
{
	struct wal_header h;
	uint8_t again[WAL_HEADER];
	if (wal_header_decode(object, &h) != NULL)
		return;
	wal_header_encode(again, &h);
	must(memcmp(again, object.p, WAL_HEADER) == 0);
	if (wal_object_check(object, h.node, h.session, h.seq, &h) == NULL)
		check_body(slice_of(object.p + WAL_HEADER, object.n - WAL_HEADER));
	must(wal_object_check(object, h.node, h.session, h.seq + 1, &h) != NULL);
}

/* Makes the batch of a frame say what the frame's header says. */
static void fit_batch(uint8_t *at, uint8_t *batch, uint32_t n)
{
	if (n < 61)
		return;
	put_be64(batch, get_le64(at + 16));
	put_be32(batch + 8, n - 12);
	put_be32(batch + 12, get_le32(at + 24));
	batch[16] = 2;
	put_be16(batch + 21, get_be16(batch + 21) & 0x78);
	put_be32(batch + 23, get_le32(at + 28) - 1);
	put_be64(batch + 35, get_le64(at + 48));
	put_be32(batch + 57, get_le32(at + 28));
	put_be32(batch + 17, crc32c(batch + 21, n - 21));
}

static void fit_frames(uint8_t *body, size_t n)
{
	for (size_t at = 0; n - at >= FRAME_HEADER;) {
		uint8_t *p = body + at;
		put_le32(p, 0x4d524650);
		put_le32(p + 32, get_le32(p + 32) & 0x3ff);
		put_le32(p + 36, get_le32(p + 36) & 0xff);
		put_le64(p + 56, 0);
		uint32_t payload = get_le32(p + 32), meta = get_le32(p + 36);
		if (frame_size(meta, payload) > n - at)
			return;
		fit_batch(p, p + FRAME_HEADER + frame_pad(meta), payload);
		put_le32(p + 4, 0);
		put_le32(p + 4, crc32c(p, FRAME_HEADER + meta));
		at += frame_size(meta, payload);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > SIZE_MAX_HERE)
		return 0;
	check_object(slice_of(data, size));
	uint8_t *object = must_calloc(1, WAL_HEADER + size);
	if (size > 0)
		memcpy(object + WAL_HEADER, data, size);
	for (int fitted = 0; fitted < 2; fitted++) {
		struct wal_header h = {
			.kind = WAL_DATA, .node = 1, .session = 2, .seq = 3, .body_len = size,
			.body_crc = crc32c(object + WAL_HEADER, size),
		};
		wal_header_encode(object, &h);
		check_object(slice_of(object, WAL_HEADER + size));
		fit_frames(object + WAL_HEADER, size);
	}
	free(object);
	return 0;
}
