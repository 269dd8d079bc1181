/* SPDX-License-Identifier: Apache-2.0
 *
 * The compressions of RecordBatch v2, by the number in a batch's attributes. Compressed bytes come from
 * clients: what they say of their size is believed up to the caller's cap and never beyond.
 *
 *   1 gzip    RFC 1952, one member or several
 *   2 snappy  raw, or the framing of xerial's SnappyOutputStream (Java):
 *             82 'SNAPPY' 00 | version i32 >= 1 | compatible i32 | { length i32 | raw block } ...
 *   3 lz4     one frame of the LZ4 frame format
 *   4 zstd    RFC 8878, one frame or several; windows up to 128 MiB, less with a smaller cap
 *
 * Bytes behind the end are refused: some clients stop there, others fail, so a batch with such bytes
 * would be read differently by each.
 */
#ifndef COMMON_CODEC_H
#define COMMON_CODEC_H

#include "common/buf.h"

enum codec { CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD };

/* "none", "gzip", ...; NULL when there is no such codec. */
const char *codec_name(unsigned codec);

/*
 * Appends what `in` decompresses to, whole, to out. 0, or with undefined content added to out:
 *   -EBADMSG  truncated, broken, or followed by other bytes
 *   -E2BIG    more than `cap` bytes, or a zstd window beyond what the cap allows
 *   -ENOTSUP  no such codec
 *   -ENOBUFS  out is at its own bound, or memory is out
 * Takes memory in proportion to the cap at most (8 MiB and a codec's tables come on top).
 */
int codec_decompress(unsigned codec, struct slice in, size_t cap, struct buf *out);

/*
 * Appends `in` compressed (snappy in xerial's framing, lz4 in independent blocks: what every client
 * reads). 0, -ENOTSUP, or -ENOBUFS: out has no room for the codec's worst case, a little above in.n.
 */
int codec_compress(unsigned codec, struct slice in, struct buf *out);

#endif
