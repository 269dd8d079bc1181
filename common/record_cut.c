/* SPDX-License-Identifier: Apache-2.0
 *
 * Records stand behind each other with deltas to the header's offset and time, so the bytes of the first n are the
 * records of the new batch; only the header's counts, greatest time and producer change.
 */
#include "common/record_cut.h"

#include <errno.h>

#include "common/crc32c.h"
#include "common/must.h"

/* The bytes of the first n records, and their greatest time. */
static int head_find(struct record_decoder *d, uint32_t n, struct slice *ret_bytes, int64_t *ret_max_ms)
{
	const uint8_t *begin = d->iter.r.p;
	struct record record;
	*ret_max_ms = INT64_MIN;
	for (uint32_t i = 0; i < n; i++) {
		if (record_decoder_next(d, &record) != 1 || record.offset != d->iter.batch.base_offset + i)
			return -EBADMSG;
		if (record.timestamp_ms > *ret_max_ms)
			*ret_max_ms = record.timestamp_ms;
	}
	*ret_bytes = slice_of(begin, (size_t)(d->iter.r.p - begin));
	return 0;
}

int record_cut(struct record_decoder *d, const struct record_batch *b, uint32_t n, struct buf *out)
{
	struct slice records;
	int64_t max_ms;
	size_t start = buf_len(out);
	must(n > 0 && n <= b->record_count);
	int rc = record_decoder_open(d, b);
	if (rc == 0)
		rc = head_find(d, n, &records, &max_ms);
	if (rc != 0)
		return rc;
	buf_put(out, b->bytes.p, RECORD_BATCH_HEADER);
	if (out->failed || codec_compress(b->attributes & BATCH_CODEC_MASK, records, out) != 0)
		return -ENOBUFS;
	uint8_t *h = buf_head(out) + start;
	size_t size = buf_len(out) - start;
	put_be32(h + 8, (uint32_t)size - 12);
	put_be32(h + 23, n - 1);
	put_be64(h + 35, (uint64_t)max_ms);
	put_be64(h + 43, UINT64_MAX);
	put_be16(h + 51, UINT16_MAX);
	put_be32(h + 53, UINT32_MAX);
	put_be32(h + 57, n);
	put_be32(h + 17, crc32c(h + 21, size - 21));
	return 0;
}
