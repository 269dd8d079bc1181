/* SPDX-License-Identifier: Apache-2.0
 *
 * The last batches that were decompressed. A long answer is encoded in pieces, and each piece begins by
 * reading its batch again: without this, a batch of many pieces would be decompressed once a piece.
 */
#ifndef WORKER_HTTP_BATCH_CACHE_H
#define WORKER_HTTP_BATCH_CACHE_H

#include "common/record_decode.h"

#define BATCH_CACHE_SLOTS 8

/* Which log a batch is of: there, its header (base offset and CRC in it) never stands for two contents. */
struct batch_log {
	uint8_t topic_id[16];
	uint32_t partition;
};

/* Holds memory of at most the cap, or the batch in use alone. */
struct batch_cache {
	size_t cap;
	uint64_t clock;
	uint64_t decoded;               /* bytes that were decompressed so far */
	struct record_decoder plain;    /* of uncompressed batches */
	struct batch_slot {
		struct record_decoder decoder;
		struct batch_log log;
		uint8_t header[RECORD_BATCH_HEADER];
		uint64_t used;          /* when; 0: empty */
	} slot[BATCH_CACHE_SLOTS];
};

/* cap: --max-decompressed-size. */
void batch_cache_init(struct batch_cache *c, size_t cap);
void batch_cache_done(struct batch_cache *c);

/*
 * A decoder at the first record of a batch, valid until the next open. The errors of record_decoder_open().
 */
int batch_cache_open(struct batch_cache *c, const struct batch_log *log, const struct record_batch *b,
		     struct record_decoder **ret_decoder);

/* Whether to open it would decompress it. */
bool batch_cache_must_decompress(const struct batch_cache *c, const struct batch_log *log, const struct record_batch *b);

#endif
