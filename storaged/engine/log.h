/* SPDX-License-Identifier: Apache-2.0
 *
 * One log in memory. Of every log there are 32 bytes, which answer where it begins and ends; all else is its open part,
 * which is there while somebody needs it and for the logs used last (log_table.h). The open part is loaded or not: waits,
 * reads and frames that recovery found need none of what decides appends, which log_load.h reads from state entries.
 *
 * What stands in `submitted` is that of all frames written; the tickets beside it say from when it is durable.
 * confirm and closed are durable.
 */
#ifndef STORAGED_ENGINE_LOG_H
#define STORAGED_ENGINE_LOG_H

#include "storaged/engine/arena.h"
#include "storaged/engine/engine.h"
#include "storaged/engine/frame_facts.h"
#include "storaged/engine/producer.h"

/* Where a batch stands: bytes [position, position + length) of WAL object seq of a session, which is in the arena. latest_ms is
 * the maximum of all maximum timestamps up to this batch's: it rises whatever the order of times, so both questions about times
 * are a binary search. 32 bytes. */
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

/* A frame that is not in `submitted` yet: it was read back before its log was loaded. */
struct frame_place {
	uint64_t session : 16;
	uint64_t seq : 48;
	uint32_t body_position, length;
};

struct log_open {
	struct log *log;
	struct log_table *table;
	struct log_open *older, *newer; /* those that may be dropped, in order of last use */
	uint64_t confirm;
	struct log_state submitted;     /* by every frame written; before it is loaded next and last_time alone */
	struct log_state packed;        /* by the frames in data objects; its tickets mean nothing; likewise */
	uint32_t refs;                  /* frames in flight, appends that wait, reads, packs, loads */
	uint32_t n_unpacked;            /* frames in no data object */
	uint32_t n_incomplete;          /* state entries since the last complete one */
	uint32_t complete_epoch;        /* the newest complete entry in a committed object, by (epoch, next); 0, 0: none */
	uint64_t complete_next;
	uint32_t pack_slot;             /* index + 1 into the pack under way; 0: not in it */
	bool loaded;
	bool may_drop;                  /* is in the list of those */
	bool has_entry;                 /* a state entry of this epoch stands in a data object */
	bool wake;                      /* confirm moved and its waiters were not looked at yet */
	struct frame_ref *frames;       /* batches in the arena, in order of base, up to the log's end */
	uint32_t n_frames, frames_capacity;
	struct frame_ref *frames_memory;        /* frames points into it */
	struct frame_place *replay;     /* owned; in order */
	uint32_t n_replay, replay_capacity;
	struct log_load *load;          /* under way */
	uint64_t card;                  /* number of the card that was written last since it is open; 0: none */
	struct engine_wait *waits, *late_waits; /* late: planted bug */
};

struct log {
	union {
		uint64_t next;          /* not open: its end, assigned and confirmed */
		struct log_open *open;  /* owned */
	};
	uint64_t start;
	struct __attribute__((packed)) {
		uint64_t id : 40;       /* 0: nobody */
		int64_t last_ms : 48;   /* not open: append time of the last frame */
		uint32_t epoch : 32;
		bool is_open : 1;
		bool closing : 1, closed : 1, removed : 1;
		bool gone : 1;          /* its topic was deleted: it is removed, or kept for forks alone */
		bool is_fork : 1;       /* log_table_parent() knows of what */
		bool stored : 1;        /* a data object has a state entry of it */
		bool settled : 1;       /* it begins behind the end that its newest entry says */
	};
};
_Static_assert(sizeof(struct log) == 32, "what every log takes");

/* Frees what the open part owns. */
void log_open_done(struct log_open *o);

void log_state_done(struct log_state *s);
/* Moves it on by one frame, which begins at its end. */
void log_state_apply(struct log_state *s, const struct frame_facts *f);
struct log_extra *log_state_extra(struct log_state *s);

/* Notes where the batch of the frame just submitted stands; latest_ms is its own maximum timestamp. It is open. */
void log_index_add(struct log *log, const struct frame_ref *ref);
/* The number of the batch that holds offset, which lies in [frames[0].base, next). */
uint32_t log_index_find(const struct log *log, uint64_t offset);
/* One past the last offset of batch i. */
uint64_t log_frame_end(const struct log *log, uint32_t i);

/* Forgets the batches from the first one to the one that ends at `end`: they left the arena. */
void log_index_drop(struct log *log, uint64_t end);
/* The batch that holds offset is in the arena. */
bool log_index_has(const struct log *log, uint64_t offset);

/* Lookups by time among the batches in the arena, as engine_lookup() asks; false: none. */
bool log_find_time(const struct log *log, int64_t timestamp_ms, struct log_time *ret);
bool log_find_latest(const struct log *log, struct log_time *ret);

#endif
