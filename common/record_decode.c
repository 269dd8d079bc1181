/* SPDX-License-Identifier: Apache-2.0
 *
 * A compressed batch becomes readable by decompressing what stands behind its header: the bytes are
 * laid out as those of an uncompressed batch, so the iterator of record_batch.c walks both. The header
 * and its CRC stay those of the batch as it is stored.
 */
#include "common/record_decode.h"

#include <errno.h>

#include "common/must.h"

#define SCRATCH_KEPT (1u << 20)

void record_decoder_init(struct record_decoder *d, size_t cap)
{
	*d = (struct record_decoder){ .cap = cap };
	buf_init(&d->scratch, cap);
}

void record_decoder_done(struct record_decoder *d)
{
	buf_done(&d->scratch);
}

int record_decoder_open(struct record_decoder *d, const struct record_batch *b)
{
	buf_reset(&d->scratch, SCRATCH_KEPT);
	unsigned codec = b->attributes & BATCH_CODEC_MASK;
	struct slice bytes = slice_of(b->bytes.p + RECORD_BATCH_HEADER, b->bytes.n - RECORD_BATCH_HEADER);
	int r = codec == CODEC_NONE ? 0 : codec_decompress(codec, bytes, d->cap, &d->scratch);
	must(r != -ENOTSUP); /* record_batch_read() knows the codecs */
	return r != 0 ? r : record_decoder_again(d, b);
}

int record_decoder_again(struct record_decoder *d, const struct record_batch *b)
{
	if ((b->attributes & BATCH_CODEC_MASK) == CODEC_NONE)
		return record_iter_init(&d->iter, b);
	return record_iter_init_records(&d->iter, b, buf_slice(&d->scratch));
}

int record_decoder_next(struct record_decoder *d, struct record *ret_record)
{
	return record_iter_next(&d->iter, ret_record);
}

int record_decoder_validate(struct record_decoder *d, const struct record_batch *b, uint64_t *ret_bytes)
{
	int r = record_decoder_open(d, b);
	return r != 0 ? r : record_iter_validate(&d->iter, ret_bytes);
}

static bool is_within_limits(const struct record *record)
{
	struct wire_reader r = wire_reader(record->headers_raw);
	struct record_header h;
	if (record->key.n > RECORD_KEY_MAX)
		return false;
	while (record_header_next(&r, &h) == 1)
		if (h.name.n > RECORD_HEADER_NAME_MAX)
			return false;
	return true;
}

int record_decoder_validate_produced(struct record_decoder *d, const struct record_batch *b, uint64_t *ret_bytes)
{
	if (b->last_offset_delta != b->record_count - 1)
		return -EBADMSG;
	int r = record_decoder_open(d, b);
	struct record_iter again = d->iter;
	if (r == 0)
		r = record_iter_validate(&d->iter, ret_bytes);
	struct record record;
	while (r == 0 && record_iter_next(&again, &record) == 1)
		if (!is_within_limits(&record))
			r = -EBADMSG;
	return r;
}
