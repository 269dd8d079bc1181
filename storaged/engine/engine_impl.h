/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's inside, shared by the files of this directory.
 *
 * Tickets number the frames of the running session in WAL order, from 1; 0 stands for "recovered, durable".
 * pending[] holds the frames that are not answered. Those below published_end are confirmed; an answer that
 * rests on a frame is given behind that frame's own.
 */
#ifndef STORAGED_ENGINE_ENGINE_IMPL_H
#define STORAGED_ENGINE_ENGINE_IMPL_H

#include "storaged/engine/arena.h"
#include "storaged/engine/engine.h"
#include "storaged/engine/index_cache.h"
#include "storaged/engine/log_table.h"
#include "storaged/engine/page_cache.h"
#include "storaged/engine/request.h"
#include "storaged/engine/stamp.h"
#include "storaged/engine/wal.h"

#define STREAM_SEQ_MAX 1024u
#define WAITING_APPENDS_MAX 65536u      /* appends that wait for room or for their log */

/* A frame in the arena that is not confirmed. */
struct pending {
	struct log *log;                /* one ref */
	struct engine_append *append;   /* NULL: answered (deadline) */
	struct engine_append *dependents;       /* answers that rest on this frame */
	uint64_t base, next;
	int64_t timestamp_ms;
	uint32_t bytes;                 /* of the batch */
	bool closes;
};

struct recovery;
struct scan;
struct log_load;
struct packer;
struct merger;
struct gc;
struct sweep;
struct retention;
struct rewriter;
struct damage;
struct fetch;
struct ahead;
struct lookup;
struct read_op;

struct engine {
	struct env *env;
	struct objstore *store;         /* of the WAL */
	struct objstore *data;
	struct engine_config config;
	struct engine_events events;
	void *arg;
	struct arena arena;
	struct wal wal;
	struct stamp stamp;
	struct log_table logs;
	struct page_cache *cache;
	struct request_table requests;
	struct wal_session *sessions;   /* by frame_ref.session */
	uint32_t n_sessions;            /* the last is the running one, once serving */
	struct index_cache *index;
	struct packer *packer;
	struct merger *merger;
	uint64_t next_object;           /* number of the next data object; never used twice in a session */
	struct gc *gc;
	struct sweep *sweep;
	struct retention *retention;
	struct rewriter *rewriter;
	struct damage *damage;
	struct scan *scan;
	struct log_load *loads, **loads_tail;   /* under way, in order; some of them run */
	uint32_t n_loads_running;
	uint32_t n_load_appends;        /* that wait for one */
	bool serving, stopping, dead;

	struct pending *pending;        /* ring */
	uint64_t pending_first, pending_end, pending_capacity;
	uint64_t published_end;         /* frames below it are confirmed; those from pending_first on wait for answers */
	struct env_task answer_task;

	struct append_queue room;       /* wait for room, each with a ref of its log */
	uint32_t n_room;
	struct env_task room_task;
	struct env_timer room_timer;    /* while some wait: memory may have been short */

	struct read_op *reads, **reads_tail;    /* that wait for the store or for pages, in order */
	uint64_t read_round;
	bool pages_came_free;           /* since the last round */
	struct fetch *fetches;
	struct ahead *ahead;
	uint64_t fetch_bytes;           /* of all fetches */
	struct env_task read_task;

	struct lookup *lookups;
	struct recovery *recovery;
	bool recovery_wants_room;       /* a pack must come first */
	void (*on_started)(void *arg, const struct engine_recovery_stats *stats);
	void *started_arg;
	void (*on_stopped)(void *arg);
	void *stopped_arg;
	struct env_task stop_task;
};

/* WAL objects of a session: below the watermark they are packed, below `end` their frames are whole in the arena. */
struct wal_session {
	uint64_t session;
	uint64_t watermark, end;
	uint64_t cut;                   /* of an ended one, when it is known */
	bool cut_known;
};

/* The catalogue as it is now. */
static inline const struct catalogue *engine_catalogue(const struct engine *e)
{
	return e->events.catalogue(e->arg);
}

/* engine.c */
void engine_fatal(struct engine *e, int code, const char *text);

/* wait.c */
void wait_wake(struct log *log);
void wait_end(struct log *log);         /* gone */

/* read.c */
void read_init(struct engine *e);
void read_log_removed(struct engine *e, struct log *log);
void read_log_trimmed(struct engine *e, struct log *log);
void read_forget_all(struct engine *e);

/* lookup.c */
void lookup_forget_all(struct engine *e);

/* recovery.c */
/* Cuts, then frames; on_read once, never from inside. The array stays the caller's. */
struct recovery *recovery_start(struct engine *e, struct engine_session *ended, size_t n_ended,
				void (*on_read)(struct engine *e));
void recovery_free(struct recovery *r);
const struct engine_recovery_stats *recovery_stats(const struct recovery *r);
/* NULL, or what keeps the store from answering. */
const char *recovery_fault(const struct recovery *r);
/* A pack made room. */
void recovery_room(struct recovery *r);

#endif
