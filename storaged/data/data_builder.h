/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds one data object: frames in order of (log id, offset), state entries in order of log id, then finish. It
 * copies no frame: the object is a list of pieces, frames where the caller has them and the rest in memory of the
 * builder. Whoever stores it takes them part by part and says which are stored.
 */
#ifndef STORAGED_DATA_DATA_BUILDER_H
#define STORAGED_DATA_DATA_BUILDER_H

#include <sys/uio.h>

#include "storaged/data/data_format.h"

struct data_builder;

struct data_frame {
	uint64_t log_id, base, end;     /* end > base: frames without records are not kept, the state entry is */
	int64_t append_ms, max_timestamp;
	struct slice bytes;             /* header, meta, batch, paddings; stays until it is stored */
	uint32_t batch_bytes;           /* of the batch alone, more than 0 */
};

struct data_builder *data_builder_new(struct object_id id, uint32_t origin, uint32_t level);
void data_builder_free(struct data_builder *b);

/* bytes_before: of the log's batches before this frame; looked at where the frame begins a block. Begins a block at a
 * new log, where offsets have a gap, and behind 1 MiB. */
void data_builder_frame(struct data_builder *b, const struct data_frame *f, uint64_t bytes_before);
/* entry: an encoded frame.State; copied. Independent of the frames' order, but ascending by log id. */
void data_builder_state(struct data_builder *b, uint64_t log_id, struct slice entry);

bool data_builder_is_empty(const struct data_builder *b);
/* For whoever closes it at some size: blocks and entries so far, without the top; after finish the object's size. */
uint64_t data_builder_size(const struct data_builder *b);
/* The bytes that stand already: blocks so far; after finish the whole object. */
uint64_t data_builder_ready(const struct data_builder *b);

/* Appends pages, top and footer; nothing may be added any more. ret_row: all but run, marks and idx. */
void data_builder_finish(struct data_builder *b, struct object_row *ret_row);

/* The same, n blocks and entries a call. true: it is finished. */
bool data_builder_finish_some(struct data_builder *b, size_t n, struct object_row *ret_row);

/* The bytes [position, position + length) of those that stand, as pieces: at most n_max are written, their number is
 * returned and ret_length is what they cover. Valid until the next addition. */
int data_builder_iovec(const struct data_builder *b, uint64_t position, uint64_t length, struct iovec *ret_iov,
		       int n_max, uint64_t *ret_length);

#endif
