/* SPDX-License-Identifier: Apache-2.0
 *
 * What a frame says about its log: everything but the records themselves. An append knows it before the frame is
 * written; recovery and the packer read it from the frame, and come to the same.
 */
#ifndef STORAGED_ENGINE_FRAME_FACTS_H
#define STORAGED_ENGINE_FRAME_FACTS_H

#include "proto/frame.pb-c.h"
#include "storaged/engine/kafka_producer.h"
#include "storaged/engine/wal_format.h"

struct frame_facts {
	uint64_t base, next;
	uint32_t bytes;                 /* of its batch */
	int64_t append_time;
	uint64_t ticket;                /* 0: durable */
	bool has_producer, has_stream_seq, closes, has_claim;
	struct slice producer_id, stream_seq;
	uint64_t producer_epoch, producer_seq;
	struct kafka_claim claim;       /* of the batch */
};

/*
 * Reads them from a frame that frame_next() gave. NULL, or what is wrong with it. Slices point into *ret_meta, which
 * is the caller's: frame__meta__free_unpacked(), also after a fault (NULL then, or not).
 */
const char *frame_facts_read(const struct frame *f, struct frame_facts *ret_facts, Frame__Meta **ret_meta);

#endif
