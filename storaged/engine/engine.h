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

#include "common/pico_error.h"
#include "common/slice.h"
#include "storaged/objstore/objstore.h"
#include "storaged/segment.h"

struct engine;
struct log;                             /* one partition of one topic */

struct engine_config {
	uint32_t node;
	uint8_t put_id[16];             /* random, of this process */
	uint64_t wal_cache_size;        /* bytes of arena segments in all */
	uint32_t segment_size;          /* 8 MiB; a larger frame gets a segment of its own */
	uint64_t block_cache_size;      /* bytes of the page cache */
	uint32_t max_message_size;      /* stored batch */
	uint64_t batch_interval_ms;     /* PUT tokens: one each so often; 0: no limit */
	uint64_t max_bytes_in_batch;    /* seals a WAL object without a token; 0: 8 MiB */
	uint64_t max_unflushed_bytes;   /* at most 3/4 of wal_cache_size; 0: that */
	uint32_t max_inflight;          /* PUTs; 1..64 */
	bool allow_unfenced_store;
};

struct engine_events {
	/* The process must leave: fenced by a seal, a foreign put id, a store that ignores If-None-Match, a WAL PUT
	 * unanswered for a day. text says what to do. */
	void (*on_fatal)(void *arg, int code, const char *text);
	void (*on_reclaim)(void *arg, struct segment *segment);
	void (*on_segment_gone)(void *arg, struct segment *segment);
	void (*on_wal_position)(void *arg, uint64_t session, uint64_t seq);
};

int engine_new(struct env *env, struct objstore *wal, const struct engine_config *config,
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
void engine_wal_position(const struct engine *e, uint64_t *ret_session, uint64_t *ret_seq);

/* -------------------------------------------------------------------- logs */

/* The log's topic was deleted: waits end (gone), appends not in the arena are NOT_FOUND, frames go when stored. The
 * pointer is dead for the caller afterwards. */
void engine_log_remove(struct engine *e, struct log *log);
/* The topic is closing or closed: no more appends but closing ones. */
void engine_log_set_closing(struct log *log);

uint64_t log_id(const struct log *log);
uint64_t log_start(const struct log *log);
uint64_t log_confirm(const struct log *log);
uint64_t log_next(const struct log *log);
bool log_is_closed(const struct log *log);      /* by a confirmed closing frame, or the metadata */

/* ------------------------------------------------------------------ append */

enum append_order { APPEND_PRODUCER_FIRST, APPEND_CLOSED_FIRST };

struct engine_append {
	/* in */
	struct log *log;
	struct slice payload;           /* one batch, n == 0: no records; read once, into the arena; stays until on_done */
	bool check_only;
	bool close_after;
	bool has_producer, has_match_seq, has_stream_seq;
	enum append_order order;
	struct slice producer_id;       /* 1..256 bytes; these slices stay until on_done */
	uint64_t producer_epoch, producer_seq;
	uint64_t match_seq;
	struct slice stream_seq;
	uint64_t worker_instance, request_id;   /* into FrameMeta, for Resume; 0: none */
	uint64_t deadline_ms;           /* not in the arena by then: UNAVAILABLE; not stored: DURABILITY */
	/* Once. error is NULL or says why; an answer that rests on frames not confirmed waits until they are. */
	void (*on_done)(struct engine_append *a, const struct pico_error *error);
	void *owner;                    /* the caller's */
	/* out, valid when error is NULL */
	uint64_t base_offset;           /* duplicate: of the original, if base_known */
	uint64_t next_offset;           /* duplicate, check_only, was_closed: the log's durable end */
	int64_t timestamp_ms;
	bool duplicate, base_known, closed;
	bool was_closed;                /* a close of a log that was closed already */
	uint64_t accepted_epoch, accepted_seq;  /* producer: what stands now */
	/* private */
	struct engine_append *next_in_list, **prev_in_list;
	struct env_timer timer;
	struct engine *engine;
	uint64_t waits_for;             /* ticket of a frame */
	uint64_t begun_ns;
	struct pico_error verdict;
	int state;
	bool has_verdict;
};

/* on_done may run before this returns. */
void engine_append(struct engine *e, struct engine_append *a);
/* true: it was not in the arena; nothing happened and on_done will not run. false: it goes on. */
bool engine_append_cancel(struct engine *e, struct engine_append *a);

/* What became of an append without producer (doc/ipc.md, Resume). */
enum engine_request_state { REQUEST_UNKNOWN, REQUEST_ABSENT, REQUEST_STORED };
struct engine_request {
	uint64_t log_id;
	uint64_t base_offset, next_offset;
	int64_t timestamp_ms;
	bool closed;
};
enum engine_request_state engine_request_find(struct engine *e, uint64_t worker_instance, uint64_t request_id,
					      uint64_t wal_session, uint64_t wal_seq,
					      struct engine_request *ret_request);

/* ----------------------------------------------------------------- reading */

struct engine_read {
	/* in */
	struct log *log;
	uint64_t from;                  /* start <= from <= confirm, checked by the caller */
	uint32_t max_bytes;             /* of batches; at least one batch comes if there is one */
	uint64_t deadline_ms;
	void (*on_done)(struct engine_read *r, const struct pico_error *error);
	/* out: pieces are heap; they and their pins are the receiver's */
	struct piece *pieces;
	size_t n_pieces;
	uint64_t end;                   /* offset after the last batch; == from when there is none */
	/* private */
	struct engine *engine;
	void *impl;
};

/* Whole batches from the one that holds `from` up to confirm. May call back before it returns (arena, cache). */
void engine_read(struct engine *e, struct engine_read *r);
void engine_read_cancel(struct engine *e, struct engine_read *r);   /* on_done will not run */

/* Parked until confirm > from, the log is closed, or removed (gone). */
struct engine_wait {
	struct log *log;
	uint64_t from;
	void (*on_ready)(struct engine_wait *w, bool gone);
	struct engine_wait *next_in_list, **prev_in_list;   /* private */
};
/* true: ready now, nothing parked, no callback. */
bool engine_wait(struct engine *e, struct engine_wait *w);
void engine_wait_stop(struct engine_wait *w);   /* fine when not parked */

#endif
