/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of any RecordBatch v2, compressed or not, and the checks of a batch from outside.
 */
#ifndef COMMON_RECORD_DECODE_H
#define COMMON_RECORD_DECODE_H

#include "common/codec.h"
#include "common/record_batch.h"

#define RECORD_KEY_MAX (1u << 20)           /* limits of what producers may send */
#define RECORD_HEADER_NAME_MAX (64u << 10)

/* Goes through the records of one batch after the other. */
struct record_decoder {
	struct record_iter iter;            /* of the open batch */
	struct buf scratch;                 /* owned: its records, when they were compressed */
	size_t cap;
};

/* cap: the most bytes that a batch's records may decompress to. */
void record_decoder_init(struct record_decoder *d, size_t cap);
void record_decoder_done(struct record_decoder *d);

/*
 * Begins with a batch; one before it is forgotten with its records. 0; -EBADMSG when the compressed bytes
 * are broken or cannot hold its records, -E2BIG when they pass the cap, -ENOBUFS when memory is out.
 * Afterwards d->iter.batch has the header: producer fields, BATCH_TRANSACTIONAL, BATCH_CONTROL and so on.
 */
int record_decoder_open(struct record_decoder *d, const struct record_batch *b);

/* From the first record of the open batch again; b is the same batch, perhaps at another address. */
int record_decoder_again(struct record_decoder *d, const struct record_batch *b);

/*
 * As record_iter_next(): 1 and a record, 0, -EBADMSG. Under LogAppendTime its time is the batch's maximum
 * timestamp, else base timestamp plus its delta. Valid until the next open, and as long as the batch's bytes.
 */
int record_decoder_next(struct record_decoder *d, struct record *ret_record);

/* record_batch_validate() for every codec, with the errors of record_decoder_open(), too. */
int record_decoder_validate(struct record_decoder *d, const struct record_batch *b, uint64_t *ret_bytes);

/*
 * What a producer sends must be more than valid: one record an offset (record count = last offset delta + 1,
 * deltas 0, 1, 2 ...), keys and header names within their limits. Errors as above; -EBADMSG for these.
 */
int record_decoder_validate_produced(struct record_decoder *d, const struct record_batch *b, uint64_t *ret_bytes);

#endif
