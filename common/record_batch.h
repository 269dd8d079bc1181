/* SPDX-License-Identifier: Apache-2.0
 *
 * Kafka RecordBatch v2 (KIP-98; magic 2): the one stored format. Header of 61 bytes, big-endian:
 *
 *   0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
 *   21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
 *   43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32 | 57 recordCount i32
 *
 * then the records. batchLength counts from byte 12; the CRC covers byte 21 to the end, so base
 * offset and leader epoch may be patched without it.
 */
#ifndef COMMON_RECORD_BATCH_H
#define COMMON_RECORD_BATCH_H

#include "common/buf.h"
#include "common/slice.h"
#include "common/wire.h"

#define RECORD_BATCH_HEADER 61
#define RECORD_BATCH_MAX_HEADERS 1000       /* a record */

enum record_batch_attributes {
	BATCH_CODEC_MASK = 0x07,            /* 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd */
	BATCH_LOG_APPEND_TIME = 0x08,
	BATCH_TRANSACTIONAL = 0x10,
	BATCH_CONTROL = 0x20,
};

struct record_header {
	struct slice name;
	struct slice value;                 /* p == NULL: null */
};

/* Key and value with p == NULL are null; an empty one has p != NULL, n == 0. */
struct record {
	uint64_t offset;
	int64_t timestamp_ms;
	struct slice key;
	struct slice value;
	struct slice headers_raw;           /* the encoded headers behind the count */
	uint32_t n_headers;
};

/* The header fields of a batch, as they stand in the bytes. */
struct record_batch {
	struct slice bytes;                 /* the whole batch, borrowed */
	uint64_t base_offset;
	uint32_t record_count;
	uint32_t last_offset_delta;
	int32_t leader_epoch;
	uint32_t crc;
	uint16_t attributes;
	int64_t base_timestamp, max_timestamp;
	int64_t producer_id;
	int16_t producer_epoch;
	int32_t base_sequence;
};

/* ------------------------------------------------------------------ writing */

/*
 * Builds one uncompressed batch: LogAppendTime, timestamps 0, deltas 0, producer -1; of records with times CreateTime and
 * those. Offsets, times and CRC are storaged's to write (record_batch_stamp()).
 */
struct record_batch_writer {
	struct buf *out;                    /* borrowed; its bound is the batch's */
	size_t start;                       /* of this batch in out, from out->begin */
	uint32_t count;
	bool timed;                         /* the records have times of their own */
	int64_t base_ms, max_ms;            /* of those */
};

void record_batch_begin(struct record_batch_writer *w, struct buf *out);
/*
 * headers may be NULL with n_headers 0. Failure shows in out->failed: no room, more than
 * RECORD_BATCH_MAX_HEADERS, or 2 GiB passed. What was written of the batch is then worthless.
 */
void record_batch_add(struct record_batch_writer *w, struct slice key, struct slice value,
		      const struct record_header *headers, uint32_t n_headers);
/*
 * Adds a record that was read: its time, key, value and headers; the offset follows from its place. All records of a batch are
 * added so, or none. Fails as above, and for times too far from each other.
 */
void record_batch_add_record(struct record_batch_writer *w, const struct record *r);
/*
 * Fills in lengths, counts and a valid CRC. Returns the batch's size in bytes, 0 when out failed; a
 * batch without a record is a failure, too.
 */
size_t record_batch_end(struct record_batch_writer *w);

/* Patches base offset and leader epoch (no CRC needed). `batch` has at least the header. */
void record_batch_place(uint8_t *batch, uint64_t base_offset, uint32_t leader_epoch);
/* Sets both timestamps and LogAppendTime, and computes the CRC anew over batch[21..n). */
void record_batch_stamp(uint8_t *batch, size_t n, int64_t timestamp_ms);
/* The same, but the base timestamp and with it the deltas of the records stay. */
void record_batch_stamp_max(uint8_t *batch, size_t n, int64_t timestamp_ms);

/* ------------------------------------------------------------------ reading */

/*
 * Reads a header. 0, or -EBADMSG: shorter than a header, wrong magic, length field not exactly n,
 * count or last delta out of range (1 <= count <= last delta + 1; equality is not demanded, compaction
 * removes records), more records than its bytes can hold, a last offset past INT64_MAX, unknown codec.
 */
int record_batch_read(struct slice bytes, struct record_batch *ret_batch);

/* The size of the batch that begins here by its length field; 0 if p has under 12 bytes; -EBADMSG if absurd. */
int64_t record_batch_size(struct slice bytes);

bool record_batch_crc_is_good(const struct record_batch *b);

/*
 * Walks the records of an uncompressed batch and checks everything but the CRC: counts, lengths, offset
 * deltas rising, timestamps within int64, headers within bounds (a name is any bytes), nothing left
 * over. -EBADMSG otherwise, -ENOTSUP for a compressed batch. ret_bytes (may be NULL) is the sum of key,
 * value and header bytes.
 */
int record_batch_validate(const struct record_batch *b, uint64_t *ret_bytes);

/* Records in order; valid as long as the batch's bytes. */
struct record_iter {
	struct record_batch batch;
	struct wire_reader r;
	uint32_t index;
	int32_t last_delta;                 /* private: offset deltas rise */
};
/* -ENOTSUP for a compressed batch (record_decode.h reads those). */
int record_iter_init(struct record_iter *it, const struct record_batch *b);
/* Over what the batch's records decompressed to; -EBADMSG when that cannot hold so many. */
int record_iter_init_records(struct record_iter *it, const struct record_batch *b, struct slice records);
/* 1 and a record, 0 at the end, -EBADMSG (from then on). The inside of headers_raw is not checked. */
int record_iter_next(struct record_iter *it, struct record *ret_record);

/* The checks of record_batch_validate() on all that is left. */
int record_iter_validate(struct record_iter *it, uint64_t *ret_bytes);

/* Headers of one record: 1 and a header, 0 at the end, -EBADMSG. r begins as wire_reader(headers_raw). */
int record_header_next(struct wire_reader *r, struct record_header *ret_header);

/* What `bytes` limits count: key, value and headers of a record. */
uint64_t record_bytes(const struct record *r);

#endif
