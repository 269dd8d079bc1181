/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding and checking of WAL objects and frames. Each CRC is taken over its bytes with the CRC's own
 * field zero. What decodes was written by some release of this program, byte for byte: padding and
 * reserved fields are zero, and a frame's header agrees with its batch.
 */
#include "storaged/engine/wal_format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "common/wire.h"

#define WAL_MAGIC 0x4c415750u           /* "PWAL" */
#define FRAME_MAGIC 0x4d524650u         /* "PFRM" */

#define WAL_CRC_AT 60
#define FRAME_CRC_AT 4

void wal_key(char ret_key[WAL_KEY_MAX], uint32_t node, uint64_t session, uint64_t seq)
{
	int n = snprintf(ret_key, WAL_KEY_MAX, "wal/%" PRIu32 "/%016" PRIx64 "/%016" PRIx64, node, session, seq);
	must(n > 0 && n < WAL_KEY_MAX);
}

/* ------------------------------------------------------------------ objects */

void wal_header_encode(uint8_t ret_bytes[WAL_HEADER], const struct wal_header *h)
{
	uint8_t *p = ret_bytes;
	put_le32(p, WAL_MAGIC);
	put_le32(p + 4, WAL_FORMAT);
	put_le32(p + 8, h->node);
	put_le32(p + 12, h->kind);
	put_le64(p + 16, h->session);
	put_le64(p + 24, h->seq);
	memcpy(p + 32, h->put_id, 16);
	put_le64(p + 48, h->body_len);
	put_le32(p + 56, h->body_crc);
	put_le32(p + WAL_CRC_AT, 0);
	put_le32(p + WAL_CRC_AT, crc32c(p, WAL_HEADER));
}

static uint32_t crc_without(const uint8_t *p, size_t n, size_t crc_at)
{
	static const uint8_t zero[4];
	uint32_t crc = crc32c(p, crc_at);
	crc = crc32c_extend(crc, zero, 4);
	return crc32c_extend(crc, p + crc_at + 4, n - crc_at - 4);
}

const char *wal_header_decode(struct slice bytes, struct wal_header *ret_header)
{
	const uint8_t *p = bytes.p;
	if (bytes.n < WAL_HEADER)
		return "it is shorter than a header";
	if (get_le32(p) != WAL_MAGIC)
		return "it does not begin with the magic of a WAL object";
	if (get_le32(p + 4) > WAL_FORMAT)
		return "its format is newer than this program";
	if (get_le32(p + WAL_CRC_AT) != crc_without(p, WAL_HEADER, WAL_CRC_AT))
		return "the checksum of its header is wrong";
	uint32_t kind = get_le32(p + 12);
	if (get_le32(p + 4) != WAL_FORMAT || kind < WAL_OPEN || kind > WAL_SEAL)
		return "its format or kind is unknown";
	*ret_header = (struct wal_header){
		.kind = (enum wal_kind)kind,
		.node = get_le32(p + 8),
		.session = get_le64(p + 16),
		.seq = get_le64(p + 24),
		.body_len = get_le64(p + 48),
		.body_crc = get_le32(p + 56),
	};
	memcpy(ret_header->put_id, p + 32, 16);
	return NULL;
}

const char *wal_object_check(struct slice object, uint32_t node, uint64_t session, uint64_t seq,
			     struct wal_header *ret_header)
{
	struct wal_header h;
	const char *fault = wal_header_decode(object, &h);
	if (fault != NULL)
		return fault;
	if (h.node != node || h.session != session || h.seq != seq)
		return "it is not the object that its name says";
	if (h.body_len != object.n - WAL_HEADER)
		return "its length is not the one in its header";
	if ((h.kind == WAL_OPEN) != (seq == 0 && h.kind != WAL_SEAL) || (h.kind != WAL_DATA && h.body_len != 0))
		return "its kind does not fit its place";
	if (h.body_crc != crc32c(object.p + WAL_HEADER, object.n - WAL_HEADER))
		return "the checksum of its body is wrong";
	*ret_header = h;
	return NULL;
}

/* ------------------------------------------------------------------- frames */

static void zero_padding(uint8_t *at, size_t n)
{
	memset(at + n, 0, frame_pad(n) - n);
}

void frame_encode(uint8_t *at, const struct frame *f)
{
	must((f->record_count > 0) == (f->payload.n > 0));
	put_le32(at, FRAME_MAGIC);
	put_le32(at + FRAME_CRC_AT, 0);
	put_le64(at + 8, f->log_id);
	put_le64(at + 16, f->base_offset);
	put_le32(at + 24, f->epoch);
	put_le32(at + 28, f->record_count);
	put_le32(at + 32, (uint32_t)f->payload.n);
	put_le32(at + 36, (uint32_t)f->meta.n);
	put_le64(at + 40, (uint64_t)f->append_time);
	put_le64(at + 48, (uint64_t)f->max_timestamp);
	put_le64(at + 56, 0); /* flags, reserved */
	uint8_t *meta = at + FRAME_HEADER;
	zero_padding(meta, f->meta.n);
	zero_padding(meta + frame_pad(f->meta.n), f->payload.n);
	put_le32(at + FRAME_CRC_AT, crc32c(at, FRAME_HEADER + f->meta.n));
}

static bool padding_is_zero(const uint8_t *at, size_t n)
{
	for (size_t i = n; i < frame_pad(n); i++)
		if (at[i] != 0)
			return false;
	return true;
}

/* The batch behind a frame's header says the same as the header. */
static const char *frame_check_batch(const struct frame *f)
{
	struct record_batch b;
	if ((f->record_count > 0) != (f->payload.n > 0))
		return "its record count does not fit its length";
	if (f->payload.n == 0)
		return NULL;
	if (record_batch_read(f->payload, &b) != 0)
		return "its batch is malformed";
	if (b.base_offset != f->base_offset || b.last_offset_delta != f->record_count - 1 ||
	    b.leader_epoch != (int32_t)f->epoch || b.max_timestamp != f->max_timestamp)
		return "its batch is another one than its header says";
	if (!record_batch_crc_is_good(&b))
		return "the checksum of its batch is wrong";
	return NULL;
}

/* Lengths first: nothing is read behind the body's end. */
static const char *frame_decode(struct slice left, struct frame *f)
{
	const uint8_t *p = left.p;
	if (left.n < FRAME_HEADER)
		return "it ends inside a frame's header";
	if (get_le32(p) != FRAME_MAGIC)
		return "a frame does not begin with its magic";
	uint32_t payload_len = get_le32(p + 32), meta_len = get_le32(p + 36);
	if (frame_size(meta_len, payload_len) > left.n)
		return "it ends inside a frame";
	if (get_le32(p + FRAME_CRC_AT) != crc_without(p, FRAME_HEADER + meta_len, FRAME_CRC_AT))
		return "the checksum of a frame's header is wrong";
	if (get_le64(p + 56) != 0)
		return "a frame has flags of a newer program";
	*f = (struct frame){
		.log_id = get_le64(p + 8),
		.base_offset = get_le64(p + 16),
		.epoch = get_le32(p + 24),
		.record_count = get_le32(p + 28),
		.append_time = (int64_t)get_le64(p + 40),
		.max_timestamp = (int64_t)get_le64(p + 48),
		.meta = slice_of(p + FRAME_HEADER, meta_len),
		.payload = slice_of(p + FRAME_HEADER + frame_pad(meta_len), payload_len),
	};
	if (!padding_is_zero(f->meta.p, f->meta.n) || !padding_is_zero(f->payload.p, f->payload.n))
		return "a frame's padding is not zero";
	if (f->base_offset > INT64_MAX || f->record_count > INT32_MAX)
		return "a frame's offsets are out of range";
	return frame_check_batch(f);
}

int frame_next(struct frame_iter *it, struct frame *ret_frame)
{
	if (it->fault != NULL)
		return -EBADMSG;
	if (it->position == it->body.n)
		return 0;
	struct frame f;
	it->fault = frame_decode(slice_of(it->body.p + it->position, it->body.n - it->position), &f);
	if (it->fault != NULL)
		return -EBADMSG;
	it->position += frame_size(f.meta.n, f.payload.n);
	*ret_frame = f;
	return 1;
}
