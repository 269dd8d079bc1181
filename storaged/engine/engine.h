/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs on object storage: arena, WAL, recovery, reading. The engine knows log ids, offsets and epochs;
 * topics and names are the node's. Everything runs on the loop; every request struct is embedded in its
 * owner, zero-initialised but for its inputs, and belongs to the engine from the call until its callback.
 *
 * Three numbers bound a log: start (trim point), confirm (durable end, what readers may see), next
 * (assigned end). start <= confirm <= next.
 */
#ifndef STORAGED_ENGINE_ENGINE_H
#define STORAGED_ENGINE_ENGINE_H

#include "storaged/engine/engine_append.h"
#include "storaged/engine/engine_events.h"
#include "storaged/engine/engine_log.h"
#include "storaged/engine/engine_read.h"
#include "storaged/objstore/objstore.h"
#include "storaged/segment.h"

struct engine_config {
	uint32_t node;
	uint8_t put_id[16];             /* random, of this process */
	uint64_t wal_cache_size;        /* bytes of arena segments in all */
	uint32_t segment_size;          /* 8 MiB; a larger frame gets a segment of its own */
	uint64_t block_cache_size;      /* bytes of the page cache */
	uint64_t index_cache_size;      /* bytes of tops and pages of data objects; 0: 64 MiB */
	uint64_t open_logs;             /* logs with more than 32 bytes in memory, beyond those in use; 0: 100,000 */
	uint64_t pack_bytes;            /* unpacked WAL that is a reason to pack; 0: 2/5 of wal_cache_size */
	uint64_t pack_interval_ms;      /* its age that is one; 0: 600,000 */
	uint64_t gc_delay_ms;           /* between the mark of an object and its deletion */
	uint64_t sweep_interval_ms;     /* of the orphan sweep; 0: an hour */
	uint64_t rewrite_patience_ms;   /* that an object is more than half dead before it is rewritten; 0: 600,000 */
	uint64_t retention_interval_ms; /* between two passes of retention; 0: a minute */
	uint32_t max_message_size;      /* stored batch */
	uint64_t batch_interval_ms;     /* PUT tokens: one each so often; 0: no limit */
	uint64_t max_bytes_in_batch;    /* seals a WAL object without a token; 0: 8 MiB */
	uint64_t max_unflushed_bytes;   /* at most 3/4 of wal_cache_size; 0: that */
	uint32_t max_inflight;          /* PUTs; 1..64 */
	bool allow_unfenced_store;
};

/* wal: where WAL objects go; data: data objects. They may be the same. Borrowed. */
int engine_new(struct env *env, struct objstore *wal, struct objstore *data, const struct engine_config *config,
	       const struct engine_events *events, void *arg, struct engine **ret_engine);
/*
 * No callback runs any more, and none of the appends, reads and waits outstanding. What the store still has of the
 * engine's must have come back, or the store is freed first; tasks deferred on env have run or never will.
 */
void engine_free(struct engine *e);

/* ------------------------------------------------------------------- start */

/*
 * Before recovery the node names every log it owns. closed: the metadata already says so. A frame whose log
 * was not named, or whose epoch is not the named one, is skipped by recovery. Later: a new topic's logs.
 */
struct log *engine_log_add(struct engine *e, uint64_t log_id, uint32_t epoch, uint64_t start, bool closed);
/* Right after it: the log is a fork. It begins to be written at parent_end; below, it shows what the parent has, which
 * must be named, too, as long as the fork's start lies below parent_end. */
void engine_log_set_parent(struct engine *e, struct log *log, uint64_t parent_id, uint64_t parent_end);

/* NULL: it was not named, or is removed. */
struct log *engine_log_find(const struct engine *e, uint64_t log_id);

struct engine_session {
	uint64_t session;
	uint64_t watermark;             /* objects below it are not looked for */
	uint64_t cut;                   /* out: the lowest seq that holds a seal */
};
struct engine_recovery_stats {
	uint64_t objects, frames, bytes, skipped, elapsed_ms;
};

/*
 * Seals, cuts and reads back these ended sessions (ascending), then stores the open object of `session` and serves.
 * Retries for ever while the store is away (engine_fault()). on_done once; failures go to on_fatal. The array is the
 * caller's and must stay.
 */
void engine_start(struct engine *e, struct engine_session *ended, size_t n_ended, uint64_t session,
		  void (*on_done)(void *arg, const struct engine_recovery_stats *stats), void *arg);

/* What has been submitted is stored and answered, then on_done; new appends are UNAVAILABLE. Waits and reads are
 * the node's to end. */
void engine_stop(struct engine *e, void (*on_done)(void *arg), void *arg);

/* NULL while WAL PUTs succeed (or none is waiting); else path and errno. Green by itself afterwards. */
const char *engine_fault(const struct engine *e);
/* False: this process stood still for too long to know anything of the present, and on_fatal has just run. */
bool engine_is_awake(struct engine *e);
/* Stamp time; and what of it counts for who deletes what is old (stamp.h). */
int64_t engine_stamp_ms(struct engine *e);
int64_t engine_due_ms(struct engine *e);
/* The newest time known from before the start, and stamp_doubt()'s leap; before engine_start(). True: the clock is doubted. */
bool engine_clock_before(struct engine *e, int64_t last_ms, int64_t leap_ms);
void engine_wal_position(const struct engine *e, uint64_t *ret_session, uint64_t *ret_seq);

#endif
