/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine asks of its owner and tells it: the third part of engine.h. The owner knows the metadata; whatever the
 * engine proposes goes through it.
 */
#ifndef STORAGED_ENGINE_ENGINE_EVENTS_H
#define STORAGED_ENGINE_ENGINE_EVENTS_H

#include "common/buf.h"
#include "storaged/data/catalogue.h"
#include "storaged/segment.h"

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
enum engine_session_state { ENGINE_SESSION_UNKNOWN, ENGINE_SESSION_ACTIVE, ENGINE_SESSION_ENDED, ENGINE_SESSION_RECOVERED };

struct engine_events {
	/* The process must leave: fenced by a seal, a foreign put id, a store that ignores If-None-Match, a WAL PUT
	 * unanswered for a day. text says what to do. */
	void (*on_fatal)(void *arg, int code, const char *text);
	/* Something that an operator should know. NULL: nobody listens. */
	void (*on_warning)(void *arg, const char *text);
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
	/* What the store is told of the log's topic, beside its records: appended to *ret unless that is NULL. What changed with the
	 * topic's settings has another number; 0: nothing is told. NULL: of no log. */
	uint64_t (*card)(void *arg, uint64_t log_id, struct buf *ret);
	/* The log's rule; false: it is gone, or all of it is kept. NULL: of every log. */
	bool (*retention)(void *arg, uint64_t log_id, struct engine_retention *ret_rule);
	/* The shortest time of any rule in force, or a shorter one; < 0: none goes by time. by_size: one may go by size. */
	int64_t (*retention_shortest)(void *arg, bool *ret_by_size);
	void (*trim)(void *arg, const struct engine_trim *trims, size_t n, engine_proposed_cb *done, void *done_arg);
	/* ret_watermark: WAL objects below it are packed, when RECOVERED it is the cut; untouched when UNKNOWN. */
	enum engine_session_state (*session)(void *arg, uint64_t session, uint64_t *ret_watermark);
};

#endif
