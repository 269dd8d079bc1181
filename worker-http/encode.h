/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of stored batches as a response body, in pieces of bounded size. An encoder can stop in the
 * middle of a record, at any byte of it, and go on later from other memory that holds the same records.
 */
#ifndef WORKER_HTTP_ENCODE_H
#define WORKER_HTTP_ENCODE_H

#include "common/topics.h"
#include "worker-http/batch_cache.h"

/* Where the records are. All borrowed for the call. */
struct encode_source {
	const struct topics_pieces *pieces;
	struct batch_cache *cache;
	struct batch_log log;           /* that the pieces are of */
};

enum record_format {
	FORMAT_JSON,                    /* an array of objects that show all of a record */
	FORMAT_RAW,                     /* values one behind the other */
	FORMAT_BINARY,
	FORMAT_VALUES,                  /* an array of the values that are JSON; of others as strings or {"body_b64": ...} */
};

struct encode_limits {
	uint64_t count;                 /* records; 0: no limit */
	uint64_t bytes;                 /* key, value and headers; one record is always taken */
	uint64_t decoded;               /* what all compressed batches of an answer decompress to; the same */
};

/* The records that are shown; gathered over several reads. */
struct encode_range {
	uint64_t n_records, bytes;
	uint64_t value_bytes;           /* a raw body's length */
	uint64_t end;                   /* offset after the last one, or of all batches looked at */
	uint64_t decoded;               /* bytes that were decompressed to find them */
	bool full;                      /* a limit was reached */
};

/* Whether a batch from that offset on would be decompressed for it. */
bool encode_must_decompress(const struct encode_source *source, uint64_t from);

/*
 * Adds the records from range->end on. batches_end is the offset after the last batch in pieces.
 * 0 or the errors of record_decoder_open().
 */
int encode_measure(const struct encode_source *source, uint64_t batches_end, const struct encode_limits *limits,
		   struct encode_range *range);

struct encoder {
	enum record_format format;
	uint64_t end;                   /* stop before this offset; may be moved on */
	uint64_t offset;                /* the record to go on with */
	bool any;                       /* one was begun already */
	/* private: where in that record */
	uint32_t field;                 /* first field that is not out completely */
	size_t byte;                    /* bytes of it that are out */
	unsigned as;                    /* how it is written, once it was begun */
};

void encoder_init(struct encoder *e, enum record_format format, uint64_t from);
/* What stands before the first record; in a binary body with n_records, which encoder_count() sets later. */
void encoder_begin(const struct encoder *e, struct buf *out);
/* out still begins with what encoder_begin() put. */
void encoder_count(const struct encoder *e, struct buf *out, uint64_t n_records);
/*
 * Appends to out until it holds `max` bytes (a little more: the rest of a small field) or the records up to `end`, or
 * those in pieces, are out. 1: all up to `end` is out; 0: call again; negative: broken.
 */
int encoder_run(struct encoder *e, const struct encode_source *source, struct buf *out, size_t max);
/* What stands behind the last record. */
void encoder_finish(const struct encoder *e, struct buf *out);

#endif
