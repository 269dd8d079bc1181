/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a compressed stream, the first byte choosing codec and cap; and as the records of a
 * batch. What is accepted is the same twice, stays under the cap, and survives being compressed again;
 * records lie inside of what was decompressed.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/record_decode.h"
#include "t/fuzz/fuzz.h"

#define CAP_MAX (1u << 20)

static const size_t caps[] = { 0, 1, 100, 4096, 65536, CAP_MAX };

static int decompress(unsigned codec, struct slice in, size_t cap, struct buf *out)
{
	buf_init(out, cap);
	int r = codec_decompress(codec, in, cap, out);
	must(r == 0 || r == -EBADMSG || r == -E2BIG || r == -ENOTSUP);
	must((r == -ENOTSUP) == (codec_name(codec) == NULL));
	must(buf_len(out) <= cap && out->capacity <= 2 * cap + 512);
	return r;
}

static void check_again(unsigned codec, struct slice plain)
{
	struct buf packed, back;
	buf_init(&packed, plain.n + CAP_MAX);
	must(codec_compress(codec, plain, &packed) == 0);
	must(decompress(codec, buf_slice(&packed), plain.n, &back) == 0);
	must(slice_eq(buf_slice(&back), plain));
	buf_done(&back);
	if (plain.n > 0) {
		must(decompress(codec, buf_slice(&packed), plain.n - 1, &back) == -E2BIG);
		buf_done(&back);
	}
	buf_done(&packed);
}

static void check_stream(unsigned codec, struct slice in, size_t cap)
{
	struct buf one, two;
	int r = decompress(codec, in, cap, &one);
	must(decompress(codec, in, cap, &two) == r);
	if (r == 0) {
		must(slice_eq(buf_slice(&one), buf_slice(&two)));
		if (codec != CODEC_SNAPPY || buf_len(&one) > 0) /* xerial of nothing is no block at all */
			check_again(codec, buf_slice(&one));
	}
	buf_done(&one);
	buf_done(&two);
}

static bool is_inside(struct slice part, struct slice whole)
{
	return part.p == NULL || (part.p >= whole.p && part.n <= whole.n &&
				  (size_t)(part.p - whole.p) <= whole.n - part.n);
}

static void check_records(struct record_decoder *d, const struct record_batch *b, uint64_t bytes)
{
	struct record r;
	uint64_t sum = 0;
	uint32_t n = 0;
	must(record_decoder_open(d, b) == 0);
	struct slice whole = (b->attributes & BATCH_CODEC_MASK) != 0 ? buf_slice(&d->scratch) : b->bytes;
	for (; record_decoder_next(d, &r) == 1; n++) {
		must(is_inside(r.key, whole) && is_inside(r.value, whole) && is_inside(r.headers_raw, whole));
		sum += record_bytes(&r);
	}
	must(n == b->record_count && sum == bytes);
}

/* A header that fits in front of those bytes; the count is the second byte's. */
static void check_batch(unsigned codec, struct slice in, size_t cap, uint8_t count)
{
	size_t n = RECORD_BATCH_HEADER + in.n;
	uint8_t *bytes = must_calloc(1, n);
	memcpy(bytes + RECORD_BATCH_HEADER, in.p, in.n);
	put_be32(bytes + 8, (uint32_t)(n - 12));
	bytes[16] = 2;
	put_be16(bytes + 21, (uint16_t)codec);
	put_be32(bytes + 23, count);
	put_be32(bytes + 57, count + 1u);
	struct record_batch b;
	struct record_decoder d;
	uint64_t sum = 0;
	record_decoder_init(&d, cap);
	if (record_batch_read(slice_of(bytes, n), &b) == 0) {
		int r = record_decoder_validate(&d, &b, &sum);
		must(r == 0 || r == -EBADMSG || r == -E2BIG);
		int produced = record_decoder_validate_produced(&d, &b, NULL);
		must(produced == r || (r == 0 && produced == -EBADMSG));
		if (r == 0)
			check_records(&d, &b, sum);
	}
	record_decoder_done(&d);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3 || size > CAP_MAX)
		return 0;
	unsigned codec = data[0] % 6;
	size_t cap = caps[data[0] / 6 % (sizeof(caps) / sizeof(caps[0]))];
	struct slice in = slice_of(data + 2, size - 2);
	check_stream(codec, in, cap);
	check_batch(codec, in, cap, data[1]);
	return 0;
}
