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

#include "storaged/data/catalogue.h"
#include "storaged/engine/engine_append.h"
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
	uint64_t pack_bytes;            /* unpacked WAL that is a reason to pack; 0: 2/5 of wal_cache_size */
	uint64_t pack_interval_ms;      /* its age that is one; 0: 600,000 */
	uint64_t gc_delay_ms;           /* between the mark of an object and its deletion */
	uint64_t sweep_interval_ms;     /* of the orphan sweep; 0: an hour */
	uint64_t retention_interval_ms; /* between two passes of retention; 0: a minute */
	uint32_t max_message_size;      /* stored batch */
	uint64_t batch_interval_ms;     /* PUT tokens: one each so often; 0: no limit */
	uint64_t max_bytes_in_batch;    /* seals a WAL object without a token; 0: 8 MiB */
	uint64_t max_unflushed_bytes;   /* at most 3/4 of wal_cache_size; 0: that */
	uint32_t max_inflight;          /* PUTs; 1..64 */
	bool allow_unfenced_store;
};

/* Objects that came and objects whose records stand in them now. Of a pack: the WAL objects [from, to) of a session
 * stand in what came. Valid in the call. */
struct engine_commit {
	uint64_t session, from, to;     /* session 0: no WAL was packed */
	const struct object_row *add;
	size_t n_add;
	const struct object_id *remove;
	size_t n_remove;
};
/* What of a log is kept; see retention.h. */
struct engine_retention {
	int64_t ms, bytes;              /* by time, by size; < 0: all */
	uint64_t start;                 /* its start in the metadata */
};
struct engine_trim {
	uint64_t log_id, start;
};
/* What became of a proposal, when that is known; why: of a refusal. */
typedef void engine_proposed_cb(void *arg, bool applied, const char *why);

/* Of a session of this node, in the applied state. */
enum engine_session_state { ENGINE_SESSION_UNKNOWN, ENGINE_SESSION_ACTIVE, ENGINE_SESSION_ENDED };

struct engine_events {
	/* The process must leave: fenced by a seal, a foreign put id, a store that ignores If-None-Match, a WAL PUT
	 * unanswered for a day. text says what to do. */
	void (*on_fatal)(void *arg, int code, const char *text);
	void (*on_reclaim)(void *arg, struct segment *segment);
	void (*on_segment_gone)(void *arg, struct segment *segment);
	void (*on_wal_position)(void *arg, uint64_t session, uint64_t seq);
	/* The catalogue as the metadata has it now. */
	const struct catalogue *(*catalogue)(void *arg);
	/* Propose to the metadata; done once and later, or never when this session ends before the outcome is known. */
	void (*commit)(void *arg, const struct engine_commit *commit, engine_proposed_cb *done, void *done_arg);
	void (*recovered)(void *arg, uint64_t session, uint64_t cut, engine_proposed_cb *done, void *done_arg);
	/* Marked objects are gone from the store. */
	void (*deleted)(void *arg, const struct object_id *ids, size_t n, engine_proposed_cb *done, void *done_arg);
	/* Nobody is shown offsets of the log below this; UINT64_MAX: none, the log is gone for ever. Never falls. */
	uint64_t (*living)(void *arg, uint64_t log_id);
	/* The log's rule; false: it is gone, or all of it is kept. NULL: of every log. */
	bool (*retention)(void *arg, uint64_t log_id, struct engine_retention *ret_rule);
	/* The shortest time of any rule in force, or a shorter one; < 0: none goes by time. by_size: one may go by size. */
	int64_t (*retention_shortest)(void *arg, bool *ret_by_size);
	void (*trim)(void *arg, const struct engine_trim *trims, size_t n, engine_proposed_cb *done, void *done_arg);
	/* ret_watermark: WAL objects below it are packed; untouched when UNKNOWN. */
	enum engine_session_state (*session)(void *arg, uint64_t session, uint64_t *ret_watermark);
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
/* The log begins at start now; a lower one changes nothing. Reads that wait below it are
 * OUT_OF_RANGE. */
void engine_log_trim(struct engine *e, struct log *log, uint64_t start);
/* Its rule of retention is another one now. */
void engine_retention_changed(struct engine *e, uint64_t log_id);
/* The topic is closing or closed: no more appends but closing ones. */
void engine_log_set_closing(struct log *log);

uint64_t log_id(const struct log *log);
uint32_t log_epoch(const struct log *log);
uint64_t log_start(const struct log *log);
uint64_t log_confirm(const struct log *log);
uint64_t log_next(const struct log *log);
bool log_is_closed(const struct log *log);      /* by a confirmed closing frame, or the metadata */

#endif
