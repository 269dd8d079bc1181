/* SPDX-License-Identifier: Apache-2.0
 *
 * What storaged demands of a batch and what it writes into it. Two kinds: one that a worker of ours encoded (no
 * codec, no producer, time is the append's), and one as a Kafka client made it, whose bytes stay: only base offset
 * and leader epoch, which its CRC does not cover, are changed, and under LogAppendTime the maximum timestamp. The
 * records inside are not looked at: they may be compressed.
 */
#include "storaged/engine/append.h"

#include "common/record_batch.h"

static bool refuse(struct engine_append *a, enum pico_error_kind kind, const char *text)
{
	pico_error_set(&a->verdict, kind, "%s", text);
	return false;
}

static bool encoded_is_good(struct engine_append *a, const struct record_batch *b)
{
	if ((b->attributes & BATCH_CODEC_MASK) != 0)
		return refuse(a, PICO_BAD_REQUEST, "compressed batches are not taken");
	if ((b->attributes & (BATCH_TRANSACTIONAL | BATCH_CONTROL)) != 0)
		return refuse(a, PICO_BAD_REQUEST, "transactional and control batches are not taken");
	if (b->producer_id >= 0)
		return refuse(a, PICO_BAD_REQUEST, "batches with a numeric producer id are not taken");
	return true;
}

static bool client_is_good(struct engine_append *a, const struct record_batch *b)
{
	if ((b->attributes & BATCH_CONTROL) != 0)
		return refuse(a, PICO_SCHEMA_VIOLATION, "control batches are not taken from clients");
	if ((b->attributes & BATCH_TRANSACTIONAL) != 0)
		return refuse(a, PICO_BAD_REQUEST, "transactions are not supported");
	a->has_claim = b->producer_id >= 0;
	a->claim = (struct kafka_claim){
		.id = b->producer_id, .epoch = b->producer_epoch, .first = b->base_sequence, .count = b->record_count,
	};
	if (a->has_claim && (b->producer_epoch < 0 || b->base_sequence < 0))
		return refuse(a, PICO_SCHEMA_VIOLATION, "a producer id without epoch or sequence number");
	return true;
}

bool batch_finish(struct engine_append *a, uint8_t *batch, struct frame *f)
{
	struct record_batch b;
	enum pico_error_kind malformed = a->as_is ? PICO_SCHEMA_VIOLATION : PICO_CORRUPT_BATCH;
	if (f->payload.n < RECORD_BATCH_HEADER)
		return refuse(a, malformed, "the batch is malformed");
	record_batch_place(batch, f->base_offset, f->epoch);
	if (record_batch_read(f->payload, &b) != 0 || b.last_offset_delta != b.record_count - 1)
		return refuse(a, malformed, "the batch is malformed");
	if (!record_batch_crc_is_good(&b))
		return refuse(a, PICO_CORRUPT_BATCH, "the checksum of the batch is wrong");
	if (!(a->as_is ? client_is_good(a, &b) : encoded_is_good(a, &b)))
		return false;
	f->record_count = b.record_count;
	if (!a->as_is)
		record_batch_stamp(batch, f->payload.n, f->append_time);
	else if (a->log_append_time)
		record_batch_stamp_max(batch, f->payload.n, f->append_time);
	else
		f->max_timestamp = b.max_timestamp;
	return true;
}
