/* SPDX-License-Identifier: Apache-2.0
 *
 * What a restore keeps while it goes on. Sources are what may hold records: data objects, then WAL objects; a live one is
 * in use in the state that comes out.
 */
#ifndef STORAGED_OFFLINE_RESTORE_TYPES_H
#define STORAGED_OFFLINE_RESTORE_TYPES_H

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

struct r_topic {
	Meta__TopicEntity *e;           /* owned */
	bool is_new, is_changed;        /* made, or grown or given settings, after the export */
	bool is_made_up;                /* a fork's source that nothing tells of */
	bool gone;                      /* deleted after the export, as it turned out */
	uint64_t youngest;              /* log id of those that told of it; 0: none did */
	uint32_t n_forks;
};

/* What a log says of its topic, in an entry or a frame that ends there. */
struct r_card {
	uint64_t log_id, end;
	Meta__LogCard *card;            /* owned */
};

struct r_log {
	uint64_t id;
	Meta__TopicEntity *topic;       /* NULL: none has it */
	uint32_t partition;
	uint32_t owner, epoch;          /* the highest seen */
	bool dead;                      /* deleted before the export, or gone */
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
	Meta__KvEntity **kv;
	size_t n_kv;
	struct r_topic *topic;          /* of the export, then with those that cards tell of, by id */
	size_t n_nodes, n_session_entities, n_topics;
	uint64_t exported_log_id;       /* logs from here on came after the export */
	struct state *topics_now;       /* the topics alone, as they will be */

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
	struct r_card *card;
	size_t n_cards;
	size_t n_foreign;               /* keys that are nothing of ours */
};

#endif
