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
#include "storaged/engine/log.h"
#include "storaged/engine/page_cache.h"
#include "storaged/engine/request.h"
#include "storaged/engine/stamp.h"
#include "storaged/engine/wal.h"

#define STREAM_SEQ_MAX 1024u
#define ROOM_APPENDS_MAX 65536u         /* appends that wait for room */

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
struct fetch;
struct read_op;

struct engine {
	struct env *env;
	struct objstore *store;
	struct engine_config config;
	struct engine_events events;
	void *arg;
	struct arena arena;
	struct wal wal;
	struct stamp stamp;
	struct log_table logs;
	struct page_cache *cache;
	struct request_table requests;
	uint64_t *sessions;             /* by frame_ref.session */
	uint32_t n_sessions;            /* the last is the running one, once serving */
	bool serving, stopping, dead;

	struct pending *pending;        /* ring */
	uint64_t pending_first, pending_end, pending_capacity;
	uint64_t published_end;         /* frames below it are confirmed; those from pending_first on wait for answers */
	struct env_task answer_task;

	struct engine_append *room_first, **room_tail;  /* wait for room, in order */
	uint32_t n_room;
	struct env_task room_task;
	struct env_timer room_timer;    /* while some wait: memory may have been short */

	struct read_op *reads, **reads_tail;    /* that wait for the store or for pages, in order */
	uint64_t read_round;
	struct fetch *fetches;
	uint64_t fetch_bytes;           /* of all fetches */
	struct env_task read_task;

	struct recovery *recovery;
	void (*on_started)(void *arg, const struct engine_recovery_stats *stats);
	void *started_arg;
	void (*on_stopped)(void *arg);
	void *stopped_arg;
	struct env_task stop_task;
};

enum append_state { APPEND_NEW, APPEND_ROOM, APPEND_ARENA, APPEND_VERDICT, APPEND_DONE };

/* engine.c */
void engine_fatal(struct engine *e, int code, const char *text);
void log_unref(struct log *log);

/* decide.c: what is to become of an append, on the submitted state. Changes nothing but outputs of `a`. */
enum append_decision {
	APPEND_TAKE,                    /* write it (check_only: it would be written) */
	APPEND_ANSWER,                  /* done already: duplicate or was_closed is set */
	APPEND_REFUSE,                  /* a->verdict says why */
};
/* ret_ticket: of the frame the answer rests on. */
enum append_decision append_decide(struct engine_append *a, int64_t now_ms, uint64_t *ret_ticket);

/* batch.c: judges and finishes the copy in the arena, which nobody else can change. */
/* f: payload, base_offset, epoch and append_time are set. Writes offset and epoch into the batch, by a->as_is and
 * a->log_append_time also the times; sets f's record_count and max_timestamp and a's claim. false: a->verdict says
 * why not; the copy is worthless then. */
bool batch_finish(struct engine_append *a, uint8_t *batch, struct frame *f);

/* append.c */
/* Frames below ticket_end are stored: publishes them, wakes and answers some now and the others in later turns. */
void append_confirm(struct engine *e, uint64_t ticket_end);
void append_answer(struct engine *e);
void append_answer_early(struct engine *e, uint64_t first, uint64_t end, bool stored);
void append_room(struct engine *e);
/* Answers those that wait for room; with a log: its own only. */
void append_fail_room(struct engine *e, const struct log *log, enum pico_error_kind kind, const char *text);
/* The session is over: everybody gets the answer that is still true. */
void append_fail_all(struct engine *e);
/* Stops the timers of all appends. */
void append_forget_all(struct engine *e);

/* wait.c */
void wait_wake(struct log *log);
void wait_end(struct log *log);         /* gone */

/* read.c */
void read_init(struct engine *e);
void read_log_removed(struct engine *e, struct log *log);
void read_forget_all(struct engine *e);

/* recovery.c */
/* Cuts, then frames; on_read once, never from inside. The array stays the caller's. */
struct recovery *recovery_start(struct engine *e, struct engine_session *ended, size_t n_ended,
				void (*on_read)(struct engine *e));
void recovery_free(struct recovery *r);
const struct engine_recovery_stats *recovery_stats(const struct recovery *r);
/* NULL, or what keeps the store from answering. */
const char *recovery_fault(const struct recovery *r);

#endif
