/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a WAL object and of the frames in it (doc/disk-format.md). All integers little-endian.
 *
 *   object: header of 64 bytes, body            body: frame, frame, ...
 *   frame:  header of 64 bytes | meta, zero-padded to 8 | payload, zero-padded to 8
 *
 * Nothing here trusts a byte: every function says what is wrong in one short sentence.
 */
#ifndef STORAGED_ENGINE_WAL_FORMAT_H
#define STORAGED_ENGINE_WAL_FORMAT_H

#include <stdbool.h>

#include "common/slice.h"

#define WAL_HEADER 64u
#define WAL_FORMAT 1u
#define WAL_KEY_MAX 64          /* bytes of a key, its end byte included */
#define FRAME_HEADER 64u

enum wal_kind { WAL_OPEN = 1, WAL_DATA = 2, WAL_SEAL = 3 };

struct wal_header {
	enum wal_kind kind;
	uint32_t node;
	uint64_t session, seq;
	uint8_t put_id[16];             /* of the process that put it */
	uint64_t body_len;
	uint32_t body_crc;
};

/* "wal/<node>/<session>/<seq>": node decimal, the others 16 hex digits. */
void wal_key(char ret_key[WAL_KEY_MAX], uint32_t node, uint64_t session, uint64_t seq);

void wal_header_encode(uint8_t ret_bytes[WAL_HEADER], const struct wal_header *h);

/* Reads the first 64 of n >= 64 bytes. NULL, or what is wrong. */
const char *wal_header_decode(struct slice bytes, struct wal_header *ret_header);

/* Checks a whole object: header, that it is the one its name says, body length and CRC. NULL, or what is wrong. */
const char *wal_object_check(struct slice object, uint32_t node, uint64_t session, uint64_t seq,
			     struct wal_header *ret_header);

struct frame {
	uint64_t log_id, base_offset;
	uint32_t epoch, record_count;
	int64_t append_time, max_timestamp;
	struct slice meta, payload;     /* without padding */
};

static inline uint64_t frame_pad(uint64_t n) { return (n + 7) & ~(uint64_t)7; }
static inline uint64_t frame_size(uint64_t meta_len, uint64_t payload_len)
{
	return FRAME_HEADER + frame_pad(meta_len) + frame_pad(payload_len);
}

/*
 * Writes the header of f at `at`, where meta (at + 64) and payload (behind it) stand already, and zeroes
 * the padding. f->meta and f->payload give lengths; only meta is read.
 */
void frame_encode(uint8_t *at, const struct frame *f);

/* Frames of a body, in order. */
struct frame_iter {
	struct slice body;
	size_t position;                /* of the next frame */
	const char *fault;              /* after -EBADMSG: what is wrong with the frame at `position` */
};
/*
 * 1 and a frame whose slices lie in the body, 0 at the end, -EBADMSG (from then on). A frame's header, meta
 * and batch are checked against each other; the meta's protobuf is not parsed.
 */
int frame_next(struct frame_iter *it, struct frame *ret_frame);

#endif
