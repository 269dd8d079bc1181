/* SPDX-License-Identifier: Apache-2.0
 *
 * One log in memory: its bounds, where each of its batches stands in the WAL, who waits for it, and what
 * append decisions need. And the table of all logs by id.
 *
 * What stands in `submitted` is that of all frames written; the tickets beside it say from when it is durable.
 * confirm and closed are durable.
 *
 * Owned by the engine. refs counts frames in flight and reads; a removed log is freed when it is 0.
 */
#ifndef STORAGED_ENGINE_LOG_H
#define STORAGED_ENGINE_LOG_H

#include "storaged/engine/arena.h"
#include "storaged/engine/engine.h"
#include "storaged/engine/frame_facts.h"
#include "storaged/engine/producer.h"

/*
 * Where a batch stands: bytes [position, position + length) of WAL object seq of a session, which is in the arena. latest_ms is the maximum
 * of all maximum timestamps up to this batch's: it rises whatever the order of times, so both questions about
 * times are a binary search. 32 bytes.
 */
struct frame_ref {
	uint64_t base;
	int64_t latest_ms;
	uint64_t session : 16;          /* index into the engine's sessions */
	uint64_t seq : 48;
	uint32_t position, length;
};

static inline struct arena_place frame_ref_place(const struct frame_ref *ref)
{
	return (struct arena_place){
		.session = (uint32_t)ref->session, .seq = ref->seq, .body_position = ref->position - WAL_HEADER,
	};
}

/* Where an epoch of ownership began. */
struct log_epoch {
	uint32_t epoch;
	uint64_t first_offset;
};

/* What few logs have. */
struct log_extra {
	struct producer_table producers;
	struct kafka_producers kafka;
	uint8_t *stream_seq;            /* owned; NULL: none yet */
	uint32_t stream_seq_len;
	uint64_t stream_seq_ticket;
	bool has_closed_by;
	char *closed_by_id;             /* owned; not terminated */
	uint32_t closed_by_len;
	uint64_t closed_by_epoch, closed_by_seq;
	struct log_epoch *epochs;       /* owned; the last ones, ascending, at most DATA_STATE_EPOCHS_MAX */
	uint32_t n_epochs;              /* 0: it has had one */
};

/*
 * What frames make of a log, one after the other; moved by log_state_apply() alone. A log has two: that of all frames
 * written, which decides appends, and that of the frames that stand in data objects, which goes into state entries.
 */
struct log_state {
	uint64_t next;                  /* assigned end */
	uint64_t bytes;                 /* of all batches ever, trimmed ones too */
	int64_t last_time;              /* append time of the last frame */
	uint64_t last_ticket;           /* of the last frame; meaningful while next > confirm or a close is in flight */
	uint64_t close_ticket;
	bool closed;
	struct log_extra *extra;        /* owned; NULL until needed */
};

struct log {
	uint64_t id;
	uint32_t epoch, refs;
	uint64_t start, confirm;
	struct log_state submitted;     /* by every frame written */
	struct log_state packed;        /* by the frames in data objects; its tickets mean nothing */
	uint32_t n_incomplete;          /* state entries since the last complete one */
	uint32_t complete_epoch;        /* the newest complete entry in a committed object, by (epoch, next); 0, 0: none */
	uint64_t complete_next;
	uint32_t pack_slot;             /* index + 1 into the pack under way; 0: not in it */
	bool has_entry;                 /* a state entry of this epoch stands in a data object */
	bool closing, closed, removed;
	bool wake;                      /* confirm moved and its waiters were not looked at yet */
	struct frame_ref *frames;       /* batches in the arena, in order of base, up to the log's end */
	uint32_t n_frames, frames_capacity;
	struct frame_ref *frames_memory;        /* frames points into it */
	struct engine_wait *waits, *late_waits; /* late: planted bug */
};

struct log *log_new(uint64_t id, uint32_t epoch, uint64_t start, bool closed);
void log_free(struct log *log);

void log_state_done(struct log_state *s);
/* Moves it on by one frame, which begins at its end. */
void log_state_apply(struct log_state *s, const struct frame_facts *f);
struct log_extra *log_state_extra(struct log_state *s);

/* Notes where the batch of the frame just submitted stands; latest_ms is its own maximum timestamp. */
void log_index_add(struct log *log, const struct frame_ref *ref);
/* The number of the batch that holds offset, which lies in [frames[0].base, next). */
uint32_t log_index_find(const struct log *log, uint64_t offset);
/* One past the last offset of batch i. */
uint64_t log_frame_end(const struct log *log, uint32_t i);

/* Forgets the batches from the first one to the one that ends at `end`: they left the arena. */
void log_index_drop(struct log *log, uint64_t end);
/* The batch that holds offset is in the arena. */
bool log_index_has(const struct log *log, uint64_t offset);

/* How many batches lie below confirm, at least in part. */
uint32_t log_index_visible(const struct log *log);

/* Lookups by time among the batches in the arena, as engine_lookup() asks; false: none. */
bool log_find_time(const struct log *log, int64_t timestamp_ms, struct log_time *ret);
bool log_find_latest(const struct log *log, struct log_time *ret);

/* The logs of a node by id: an open hash of pointers. Zero-initialised is empty. */
struct log_table {
	struct log **slots;
	uint64_t n, n_slots;            /* n_slots: power of two, at least 1.5 n */
};
void log_table_done(struct log_table *t);       /* frees the logs, too */
struct log *log_table_find(const struct log_table *t, uint64_t id);
void log_table_add(struct log_table *t, struct log *log);
void log_table_remove(struct log_table *t, struct log *log);
void log_table_each(const struct log_table *t, void (*each)(struct log *log));

#endif
