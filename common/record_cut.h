/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of a batch as a batch of its own: what a fork inside of it takes along.
 */
#ifndef COMMON_RECORD_CUT_H
#define COMMON_RECORD_CUT_H

#include "common/record_decode.h"

/*
 * Appends the first n records of b (1..count) to out: keys, values, headers, offset deltas and times as they are, in the
 * same codec, without a producer. 0; -EBADMSG when b is broken or holds no record an offset, -E2BIG and -ENOBUFS as
 * record_decoder_open(), the latter also when out is at its bound; out is undefined then. d forgets its batch.
 */
int record_cut(struct record_decoder *d, const struct record_batch *b, uint32_t n, struct buf *out);

#endif
