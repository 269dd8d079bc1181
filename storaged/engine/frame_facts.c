/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a frame's meta and the producer fields of its batch.
 */
#include "storaged/engine/frame_facts.h"

#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/engine/producer.h"
#include "storaged/planted.h"

static const char *facts_of_meta(const Frame__Meta *m, struct frame_facts *facts)
{
	facts->closes = m->closes;
	facts->has_stream_seq = m->has_stream_seq;
	facts->stream_seq = slice_of(m->stream_seq.data, m->stream_seq.len);
	if (m->producer != NULL && !planted(PLANTED_PRODUCER_FORGOTTEN)) {
		facts->has_producer = true;
		facts->producer_id = slice_str(m->producer->id);
		facts->producer_epoch = m->producer->epoch;
		facts->producer_seq = m->producer->seq;
		if (facts->producer_id.n == 0 || facts->producer_id.n > PRODUCER_ID_MAX)
			return "a frame's producer id is out of bounds";
	}
	return NULL;
}

static const char *facts_of_batch(const struct frame *f, struct frame_facts *facts)
{
	struct record_batch b;
	if (f->payload.n == 0)
		return NULL;
	must(record_batch_read(f->payload, &b) == 0); /* frame_next() did */
	if (b.producer_id < 0 || planted(PLANTED_PRODUCER_FORGOTTEN))
		return NULL;
	if (b.producer_epoch < 0 || b.base_sequence < 0)
		return "a batch's producer fields are out of bounds";
	facts->has_claim = true;
	facts->claim = (struct kafka_claim){
		.id = b.producer_id, .epoch = b.producer_epoch, .first = b.base_sequence, .count = b.record_count,
	};
	return NULL;
}

const char *frame_facts_read(const struct frame *f, struct frame_facts *ret_facts, Frame__Meta **ret_meta)
{
	*ret_facts = (struct frame_facts){
		.base = f->base_offset, .next = f->base_offset + f->record_count, .bytes = (uint32_t)f->payload.n,
		.append_time = f->append_time,
	};
	*ret_meta = frame__meta__unpack(NULL, f->meta.n, f->meta.p);
	if (*ret_meta == NULL)
		return "a frame's meta is malformed";
	const char *fault = facts_of_meta(*ret_meta, ret_facts);
	return fault != NULL ? fault : facts_of_batch(f, ret_facts);
}
