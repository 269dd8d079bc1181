/* SPDX-License-Identifier: Apache-2.0
 *
 * Each codec is its library's streaming decoder (snappy: block by block) writing into a sink. The sink
 * gives room in steps while there is any under the cap, and a single spare byte when there is none: a
 * stream that ends exactly at the cap leaves the spare alone, one that is longer by a byte does not.
 * Every turn of a decoder's loop takes input or gives output; one that does neither is the end of a
 * truncated stream.
 */
#include "common/codec.h"

#define ZLIB_CONST
#include <errno.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/wire.h"

#define STEP_MIN 16384u
#define STEP_MAX (1u << 20)
#define GZIP_WINDOW (15 + 16)           /* zlib: 32 KiB, gzip header and trailer */
#define SNAPPY_RATIO_MAX 22             /* a copy of 64 bytes takes 3 */
#define XERIAL_HEADER 16
#define XERIAL_BLOCK 32768
#define ZSTD_WINDOW_LOG_MIN 23          /* RFC 8878: every decoder should take 8 MiB */
#define ZSTD_WINDOW_LOG_MAX 27

static const uint8_t xerial_magic[8] = { 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0 };

/* ------------------------------------------------------------------ the sink */

struct sink {
	struct buf *out;
	size_t left;                    /* of the cap */
	size_t step;                    /* room asked for at a time */
	uint8_t spare;
};

/* Where the next bytes go, and how many; NULL when out fails. */
static uint8_t *sink_room(struct sink *s, size_t *ret_n)
{
	*ret_n = 1;
	if (s->left == 0)
		return &s->spare;
	*ret_n = s->left < s->step ? s->left : s->step;
	return buf_reserve(s->out, *ret_n);
}

/* n bytes were written there. */
static int sink_took(struct sink *s, size_t n)
{
	if (n == 0)
		return 0;
	if (s->left == 0)
		return -E2BIG;
	buf_commit(s->out, n);
	s->left -= n;
	return 0;
}

/* ------------------------------------------------------------------ gzip */

static int gzip_inflate(z_stream *z, struct sink *sink)
{
	for (;;) {
		size_t room;
		z->next_out = sink_room(sink, &room);
		if (z->next_out == NULL)
			return -ENOBUFS;
		z->avail_out = (uInt)room;
		int rc = inflate(z, Z_NO_FLUSH);
		int r = sink_took(sink, room - z->avail_out);
		if (r != 0)
			return r;
		if (rc == Z_STREAM_END && z->avail_in == 0)
			return 0;
		if (rc == Z_STREAM_END)
			rc = inflateReset(z); /* the next member */
		if (rc != Z_OK)
			return rc == Z_MEM_ERROR ? -ENOBUFS : -EBADMSG;
	}
}

static int gzip_decompress(struct slice in, struct sink *sink)
{
	z_stream z = { .next_in = in.p, .avail_in = (uInt)in.n };
	if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return -ENOBUFS;
	int r = gzip_inflate(&z, sink);
	inflateEnd(&z);
	return r;
}

static int gzip_compress(struct slice in, struct buf *out)
{
	z_stream z = { .next_in = in.p, .avail_in = (uInt)in.n };
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOBUFS;
	size_t room = deflateBound(&z, in.n);
	int r = -ENOBUFS;
	z.next_out = buf_reserve(out, room);
	z.avail_out = (uInt)room;
	if (z.next_out != NULL && deflate(&z, Z_FINISH) == Z_STREAM_END) {
		buf_commit(out, room - z.avail_out);
		r = 0;
	}
	deflateEnd(&z);
	return r;
}

/* ------------------------------------------------------------------ snappy */

static int snappy_block(struct slice in, struct sink *sink)
{
	size_t n;
	if (snappy_uncompressed_length((const char *)in.p, in.n, &n) != SNAPPY_OK)
		return -EBADMSG;
	if (n > sink->left)
		return -E2BIG;
	if (n / SNAPPY_RATIO_MAX > in.n)
		return -EBADMSG;
	uint8_t *p = buf_reserve(sink->out, n);
	if (p == NULL)
		return -ENOBUFS;
	if (snappy_uncompress((const char *)in.p, in.n, (char *)p, &n) != SNAPPY_OK)
		return -EBADMSG;
	return sink_took(sink, n);
}

static int xerial_decompress(struct slice in, struct sink *sink)
{
	struct wire_reader r = wire_reader(slice_of(in.p + sizeof(xerial_magic), in.n - sizeof(xerial_magic)));
	int32_t version = (int32_t)wire_be32(&r);
	wire_be32(&r); /* the oldest version that reads it: the same everywhere */
	if (r.failed || version < 1)
		return -EBADMSG;
	while (wire_left(&r) > 0) {
		struct slice block = wire_take(&r, wire_be32(&r));
		int rc = r.failed ? -EBADMSG : snappy_block(block, sink);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* No raw block begins like the magic: it would copy from before its own start. */
static int snappy_decompress(struct slice in, struct sink *sink)
{
	if (in.n >= sizeof(xerial_magic) && memcmp(in.p, xerial_magic, sizeof(xerial_magic)) == 0)
		return xerial_decompress(in, sink);
	return snappy_block(in, sink);
}

static int xerial_put_block(struct slice in, struct buf *out)
{
	size_t n = snappy_max_compressed_length(in.n);
	uint8_t *p = buf_reserve(out, 4 + n);
	if (p == NULL || snappy_compress((const char *)in.p, in.n, (char *)p + 4, &n) != SNAPPY_OK)
		return -ENOBUFS;
	put_be32(p, (uint32_t)n);
	buf_commit(out, 4 + n);
	return 0;
}

static int xerial_compress(struct slice in, struct buf *out)
{
	uint8_t *p = buf_reserve(out, XERIAL_HEADER);
	if (p == NULL)
		return -ENOBUFS;
	memcpy(p, xerial_magic, sizeof(xerial_magic));
	put_be32(p + 8, 1);
	put_be32(p + 12, 1);
	buf_commit(out, XERIAL_HEADER);
	int r = 0;
	for (size_t at = 0; at < in.n && r == 0; at += XERIAL_BLOCK)
		r = xerial_put_block(slice_of(in.p + at, in.n - at < XERIAL_BLOCK ? in.n - at : XERIAL_BLOCK), out);
	return r;
}

/* ------------------------------------------------------------------ lz4 */

static int lz4_fault(size_t code)
{
	return strcmp(LZ4F_getErrorName(code), "ERROR_allocation_failed") == 0 ? -ENOBUFS : -EBADMSG;
}

static int lz4_frame(LZ4F_dctx *ctx, struct slice in, struct sink *sink)
{
	for (;;) {
		size_t given, taken = in.n;
		uint8_t *p = sink_room(sink, &given);
		if (p == NULL)
			return -ENOBUFS;
		size_t rc = LZ4F_decompress(ctx, p, &given, in.p, &taken, NULL);
		if (LZ4F_isError(rc))
			return lz4_fault(rc);
		int r = sink_took(sink, given);
		if (r != 0)
			return r;
		in = slice_of(in.p + taken, in.n - taken);
		if (rc == 0) /* the frame's end */
			return in.n == 0 ? 0 : -EBADMSG;
		if (given == 0 && taken == 0)
			return -EBADMSG;
	}
}

static int lz4_decompress(struct slice in, struct sink *sink)
{
	LZ4F_dctx *ctx;
	if (LZ4F_isError(LZ4F_createDecompressionContext(&ctx, LZ4F_VERSION)))
		return -ENOBUFS;
	int r = lz4_frame(ctx, in, sink);
	LZ4F_freeDecompressionContext(ctx);
	return r;
}

/* Java's client reads independent blocks only. */
static int lz4_compress(struct slice in, struct buf *out)
{
	LZ4F_preferences_t how = {
		.frameInfo = { .blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent },
	};
	size_t room = LZ4F_compressFrameBound(in.n, &how);
	uint8_t *p = buf_reserve(out, room);
	if (p == NULL)
		return -ENOBUFS;
	size_t n = LZ4F_compressFrame(p, room, in.p, in.n, &how);
	if (LZ4F_isError(n))
		return -ENOBUFS;
	buf_commit(out, n);
	return 0;
}

/* ------------------------------------------------------------------ zstd */

static int zstd_fault(size_t code)
{
	switch (ZSTD_getErrorCode(code)) {
	case ZSTD_error_memory_allocation:
		return -ENOBUFS;
	case ZSTD_error_frameParameter_windowTooLarge:
		return -E2BIG;
	default:
		return -EBADMSG;
	}
}

static int zstd_window_log(size_t cap)
{
	int log = ZSTD_WINDOW_LOG_MIN;
	while (log < ZSTD_WINDOW_LOG_MAX && ((size_t)1 << log) < cap)
		log++;
	return log;
}

static int zstd_frames(ZSTD_DCtx *ctx, struct slice bytes, struct sink *sink)
{
	ZSTD_inBuffer in = { .src = bytes.p, .size = bytes.n };
	for (;;) {
		ZSTD_outBuffer out = { 0 };
		size_t before = in.pos;
		out.dst = sink_room(sink, &out.size);
		if (out.dst == NULL)
			return -ENOBUFS;
		size_t rc = ZSTD_decompressStream(ctx, &out, &in);
		if (ZSTD_isError(rc))
			return zstd_fault(rc);
		int r = sink_took(sink, out.pos);
		if (r != 0)
			return r;
		if (rc == 0 && in.pos == in.size) /* a frame's end, and no other follows */
			return 0;
		if (in.pos == before && out.pos == 0)
			return -EBADMSG;
	}
}

static int zstd_decompress(struct slice in, struct sink *sink)
{
	ZSTD_DCtx *ctx = ZSTD_createDCtx();
	if (ctx == NULL)
		return -ENOBUFS;
	unsigned long long size = ZSTD_getFrameContentSize(in.p, in.n);
	if (size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR && size > sink->step)
		sink->step = size < sink->left ? (size_t)size : sink->left; /* decoded in place, without a window */
	ZSTD_DCtx_setParameter(ctx, ZSTD_d_windowLogMax, zstd_window_log(sink->left));
	int r = zstd_frames(ctx, in, sink);
	ZSTD_freeDCtx(ctx);
	return r;
}

static int zstd_compress(struct slice in, struct buf *out)
{
	size_t room = ZSTD_compressBound(in.n);
	uint8_t *p = buf_reserve(out, room);
	if (p == NULL)
		return -ENOBUFS;
	size_t n = ZSTD_compress(p, room, in.p, in.n, ZSTD_CLEVEL_DEFAULT);
	if (ZSTD_isError(n))
		return -ENOBUFS;
	buf_commit(out, n);
	return 0;
}

/* ------------------------------------------------------------------ all of them */

static int none_decompress(struct slice in, struct sink *sink)
{
	if (in.n > sink->left)
		return -E2BIG;
	buf_put_slice(sink->out, in);
	return sink->out->failed ? -ENOBUFS : 0;
}

static int none_compress(struct slice in, struct buf *out)
{
	buf_put_slice(out, in);
	return out->failed ? -ENOBUFS : 0;
}

static const struct codec_row {
	const char *name;
	int (*decompress)(struct slice in, struct sink *sink);
	int (*compress)(struct slice in, struct buf *out);
} codecs[] = {
	[CODEC_NONE] = { "none", none_decompress, none_compress },
	[CODEC_GZIP] = { "gzip", gzip_decompress, gzip_compress },
	[CODEC_SNAPPY] = { "snappy", snappy_decompress, xerial_compress },
	[CODEC_LZ4] = { "lz4", lz4_decompress, lz4_compress },
	[CODEC_ZSTD] = { "zstd", zstd_decompress, zstd_compress },
};

static const struct codec_row *codec_find(unsigned codec)
{
	return codec < sizeof(codecs) / sizeof(codecs[0]) ? &codecs[codec] : NULL;
}

const char *codec_name(unsigned codec)
{
	const struct codec_row *row = codec_find(codec);
	return row != NULL ? row->name : NULL;
}

int codec_decompress(unsigned codec, struct slice in, size_t cap, struct buf *out)
{
	const struct codec_row *row = codec_find(codec);
	if (row == NULL)
		return -ENOTSUP;
	if (codec != CODEC_NONE && (in.n == 0 || in.n > INT32_MAX))
		return -EBADMSG;
	size_t step = in.n < STEP_MAX / 4 ? in.n * 4 : STEP_MAX;
	struct sink sink = { .out = out, .left = cap, .step = step < STEP_MIN ? STEP_MIN : step };
	return row->decompress(in, &sink);
}

int codec_compress(unsigned codec, struct slice in, struct buf *out)
{
	const struct codec_row *row = codec_find(codec);
	if (row == NULL)
		return -ENOTSUP;
	if (in.n > INT32_MAX)
		return -ENOBUFS;
	return row->compress(in, out);
}
