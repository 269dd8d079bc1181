/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a restore. Sources are what may hold records: data objects, then WAL objects; a live one is
 * in use in the state that comes out. Rules, of which everything follows:
 *
 *   A state entry that is stored says that all frames of its log below `next` stand in stored data objects, or lie below
 *   the log's start: the packer and merges store an entry after the frames.
 *   WAL is packed in order, and deleted only when it is packed. So below a session's watermark everything is packed,
 *   and above it everything is there up to the session's end.
 *   An object that was stored and never committed holds copies alone.
 */
#ifndef STORAGED_OFFLINE_RESTORE_PRIV_H
#define STORAGED_OFFLINE_RESTORE_PRIV_H

#include "proto/meta.pb-c.h"
#include "storaged/engine/wal_format.h"
#include "storaged/meta/state.h"
#include "storaged/offline/object_file.h"
#include "storaged/offline/restore.h"

#define NO_PARTITION UINT32_MAX

struct r_object {
	struct object_id id;
	struct object_file file;
	struct object_row row;          /* the export's, or what the object says */
	bool known, marked;             /* in the export */
	bool live;                      /* in use */
};

struct r_frame {
	uint64_t log_id, base, end;
	uint32_t epoch;
	int64_t append_ms;
	bool closes;
};

/* A data object of the WAL, or an open object (no frames). */
struct r_wal {
	uint64_t seq;
	size_t first_frame, n_frames;
	bool live;
};

struct r_session {
	uint32_t node;
	uint64_t session;
	Meta__SessionEntity *known;     /* the export's, or NULL */
	struct r_wal *wal;              /* owned; by seq, below the cut */
	size_t n_wal, n_real;           /* n_real: up to one that was never stored; what stands above it is rubbish */
	bool sealed;
	uint64_t cut, floor;            /* floor: the watermark is not below it */
	uint64_t watermark;             /* the result */
};

struct r_log {
	uint64_t id;
	Meta__TopicEntity *topic;       /* NULL: none has it */
	uint32_t partition;
	uint32_t owner, epoch;          /* the highest seen */
	bool dead;                      /* deleted before the export */
	bool contradicts;               /* its frames do not follow each other */
	bool has_entry, closed;         /* of the newest entry of that epoch among live objects */
	uint64_t next;                  /* its end in data objects */
	uint64_t end;                   /* with the WAL */
	uint64_t start;                 /* the result */
	int64_t first_ms;               /* earliest append time seen */
};

/* Records [base, end) of a log in a source: objects first, then WAL objects. */
struct r_span {
	uint64_t log_id, base, end;
	uint64_t reach;                 /* the highest end of the log's spans up to this one */
	size_t source;
};

struct restoring {
	struct shelf *data, *wal;
	struct restored *out;

	/* the export */
	uint64_t idx, last_idx;         /* last_idx: the highest that any export has */
	struct state *state;            /* as it was then */
	Meta__ClusterEntity *cluster;
	Meta__NodeEntity **node;
	Meta__SessionEntity **session_entity;
	Meta__TopicEntity **topic;
	size_t n_nodes, n_session_entities, n_topics;

	/* the store */
	struct r_object *object;        /* by node, session, number */
	size_t n_objects;
	struct r_session *session;      /* by node, session */
	size_t n_sessions;
	struct r_frame *frame;
	size_t n_frames;
	struct r_log *log;              /* by id */
	size_t n_logs;
	struct r_span *span;            /* by (log, base) */
	size_t n_spans;
	int64_t producer_id_max, newest_ms;
	size_t n_foreign;               /* keys that are nothing of ours */
};

/* restore.c: false, with words in out->fault. */
bool restore_fail(struct restoring *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line of the report. */
void restore_say(struct restoring *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct r_log *restore_log(const struct restoring *r, uint64_t id);

/* restore_export.c: the export and the cluster object. */
bool restore_export(struct restoring *r, struct slice bytes);
/* restore_read.c: data and WAL objects, then the logs that they name. */
bool restore_read(struct restoring *r);
/* restore_place.c: which objects are in use, where each session's watermark is. */
void restore_place(struct restoring *r);
/* All of [base, end) stands in live sources but `self` (SIZE_MAX: none). */
bool restore_has(const struct restoring *r, uint64_t log_id, uint64_t base, uint64_t end, size_t self);
/* The lowest offset from which on live sources have all of the log up to `end`. */
uint64_t restore_begin(const struct restoring *r, uint64_t log_id, uint64_t end);
bool frame_is_packed(const struct restoring *r, const struct r_frame *f);
/* restore_logs.c: where each log begins. */
void restore_logs(struct restoring *r);
/* restore_build.c: the entities. */
bool restore_build(struct restoring *r);

/* A frame of a log that lives and of its present epoch: recovery would take it. */
bool frame_counts(const struct restoring *r, const struct r_session *s, const struct r_frame *f);

#endif
