/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients saw, and nothing else: every attempt of every call with its times and its answer, every
 * record that a read showed, and what stood in the logs and in the bucket at the end. sim_check.c judges it.
 *
 * A value is one batch that a client wanted to append; its number is inside each record, so every record read says
 * which value and which place in it it is. A value may have several attempts.
 */
#ifndef T_SIM_HISTORY_H
#define T_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hist_kind { HIST_APPEND, HIST_READ, HIST_WAIT, HIST_OFFSETS, HIST_CREATE, HIST_DELETE, HIST_CLOSE, HIST_TRIM, HIST_GET };

enum hist_outcome {
	HIST_UNKNOWN,           /* not answered, or answered that nobody knows */
	HIST_OK,
	HIST_REFUSED,           /* answered with an error that says: nothing was done */
};

#define HIST_NONE UINT32_MAX
#define HIST_END UINT64_MAX             /* a trim to the high watermark */

struct hist_op {
	enum hist_kind kind;
	enum hist_outcome outcome;
	uint32_t error;                 /* enum pico_error_kind of an answer */
	uint32_t client;
	uint32_t stream;                /* calls of one connection: answers in order are owed within it */
	uint32_t proc;                  /* which start of the node; larger is newer */
	uint64_t invoked_ns, answered_ns;   /* answered_ns 0: never */
	uint32_t log;                   /* HIST_NONE: not about one log */
	uint32_t topic;
	/* append */
	uint32_t value;
	uint32_t attempt;               /* of the value, from 1 */
	uint32_t n_records;
	uint32_t producer;              /* HIST_NONE: without */
	uint64_t epoch, seq;
	bool has_match, has_stream_seq, closes, check_only;
	bool closed_first;              /* order of the questions: closed before producer */
	uint64_t match, stream_seq;
	/* answers */
	bool duplicate, closed, base_known, ready, created;
	uint64_t base, next;            /* append; read: from and end; wait, offsets: next is confirm; trim: base is the start */
	int64_t timestamp;
	bool has_next;                  /* an error that names the tail */
	uint64_t known_epoch, expected; /* FENCED; SEQUENCE_GAP */
	uint64_t confirm;               /* read, wait, offsets */
	uint64_t start;                 /* read, offsets, errors: where the log began; 0: at its start, or nothing said */
	uint64_t from;                  /* read, wait, trim: asked for */
	size_t first_record, n_seen;    /* read: in records[] */
};

struct hist_record {
	uint64_t offset;
	uint32_t value, index;          /* the index-th record of the value */
	int64_t timestamp;
	uint32_t crc;                   /* of key, value and headers */
};

struct hist_log {
	uint32_t topic, partition;
	uint32_t source;                /* HIST_NONE: no fork; else below `point` it shows what that log has */
	uint64_t point, fork_start;     /* fork_start: where it began when it was made */
	bool read_back;                 /* the end was read: records are the whole log */
	bool closed;
	uint64_t start, confirm;
	size_t first_record, n_records;
};

struct hist_topic {
	bool exists;                    /* listed at the end */
	bool initial;                   /* only ever created with first records */
	uint64_t retention_ns;          /* 0: nothing is cut for its age */
	uint64_t ttl_ns;                /* 0: it does not end by itself */
};

enum hist_wal_kind { HIST_WAL_OPEN, HIST_WAL_DATA, HIST_WAL_SEAL, HIST_WAL_BROKEN };
struct hist_wal {
	uint64_t session, seq;
	enum hist_wal_kind kind;
};

/* What the metadata says of a session at the end: objects below the watermark are packed and may go; of a RECOVERED one, those
 * above it, too. */
struct hist_session {
	uint64_t session, watermark;
	bool recovered;
};

struct history {
	struct hist_op *ops;
	size_t n_ops, ops_room;
	struct hist_record *records;
	size_t n_records, records_room;
	struct hist_log *logs;
	size_t n_logs, logs_room;
	struct hist_topic *topics;
	size_t n_topics, topics_room;
	struct hist_wal *wal;           /* sorted by session, seq */
	size_t n_wal, wal_room;
	struct hist_wal *deleted;       /* ever; kind means nothing */
	size_t n_deleted, deleted_room;
	struct hist_session *sessions;
	size_t n_sessions, sessions_room;
	uint64_t last_session;          /* still running when the bucket was looked at: it has no cut */
	uint32_t n_values;              /* numbers 0..n_values - 1 were used */
};

void history_done(struct history *h);
/* How many records of a final log are those of its source. */
size_t history_inherited(const struct hist_log *log);
/* Returned indexes stay; pointers move with the next of their kind. */
uint32_t history_op(struct history *h, enum hist_kind kind);
uint32_t history_log(struct history *h, uint32_t topic, uint32_t partition);
uint32_t history_topic(struct history *h);
void history_record(struct history *h, const struct hist_record *r);
void history_wal(struct history *h, uint64_t session, uint64_t seq, enum hist_wal_kind kind);
void history_deleted(struct history *h, uint64_t session, uint64_t seq);
void history_session(struct history *h, const struct hist_session *s);
/* NULL where nothing is known. */
const struct hist_session *history_session_find(const struct history *h, uint64_t session);
/* One line an op, for people. */
void history_print(const struct history *h);

#endif
