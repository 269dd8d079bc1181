/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a restore. Rules, of which everything follows:
 *
 *   A state entry that is stored says that all frames of its log below `next` stand in stored data objects, or lie below
 *   the log's start: the packer and merges store an entry after the frames.
 *   WAL is packed in order, and deleted only when it is packed. So below a session's watermark everything is packed,
 *   and above it everything is there up to the session's end.
 *   An object that was stored and never committed holds copies alone.
 *   The first frame of a log since it was opened, the first one since its topic changed, and every entry carry a card: the topic
 *   as it was applied then.
 */
#ifndef STORAGED_OFFLINE_RESTORE_PRIV_H
#define STORAGED_OFFLINE_RESTORE_PRIV_H

#include "storaged/offline/restore_types.h"

/* restore.c: false, with words in out->fault. */
bool restore_fail(struct restoring *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line of the report. */
void restore_say(struct restoring *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct r_log *restore_log(const struct restoring *r, uint64_t id);

/* restore_export.c: the export and the cluster object. */
bool restore_export(struct restoring *r, struct slice bytes);
/* restore_read.c: data and WAL objects, then the logs that they name. */
bool restore_read(struct restoring *r);
/* restore_cards.c: what an entry or a frame says of its log's topic; NULL, or what is wrong. */
const char *restore_card_add(struct restoring *r, uint64_t log_id, uint64_t end, ProtobufCBinaryData bytes);
/* Once all that is stored was read: the topics, and the state of them. */
bool restore_cards(struct restoring *r);
/* NULL: none has this id. */
struct r_topic *restore_topic(const struct restoring *r, ProtobufCBinaryData id);
/* Forks of what is gone are gone, and what is kept for forks alone goes with the last. */
void restore_gone_spread(struct restoring *r);
/* restore_place.c: which objects are in use, where each session's watermark is. */
void restore_place(struct restoring *r);
/* All of [base, end) stands in live sources but `self` (SIZE_MAX: none). */
bool restore_has(const struct restoring *r, uint64_t log_id, uint64_t base, uint64_t end, size_t self);
/* The lowest offset from which on live sources have all of the log up to `end`. */
uint64_t restore_begin(const struct restoring *r, uint64_t log_id, uint64_t end);
bool frame_is_packed(const struct restoring *r, const struct r_frame *f);
/* restore_logs.c: where each log begins. */
void restore_logs(struct restoring *r);
/* Where recovery expects a log's first frame: at its end in data objects; without those a fork's where its own records
 * begin; one of a topic that nobody knows may be a fork's. */
uint64_t restore_frames_begin(const struct restoring *r, const struct r_log *log);
/* restore_build.c: the entities. */
bool restore_build(struct restoring *r);
void restore_emit_topic(struct restoring *r, const Meta__TopicEntity *t);
void restore_emit_cluster(struct restoring *r);

/* A frame of a log that lives and of its present epoch: recovery would take it. */
bool frame_counts(const struct restoring *r, const struct r_session *s, const struct r_frame *f);

#endif
