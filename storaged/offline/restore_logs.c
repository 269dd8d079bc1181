/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each log begins and ends in what is in use. A start is raised over records that are not there any more (trimmed
 * or deleted after the export), never lowered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/state_fork.h"
#include "storaged/offline/restore_priv.h"

#define SHOWN_MAX 100u          /* lines of one kind in the report */

static void name_of(const struct r_log *log, char ret[600])
{
	if (log->topic == NULL)
		snprintf(ret, 600, RESTORE_PREFIX "%016" PRIx64, log->id);
	else if (log->topic->n_partitions > 1)
		snprintf(ret, 600, "%s partition %" PRIu32, log->topic->name, log->partition);
	else
		snprintf(ret, 600, "%s", log->topic->name);
}

/* ------------------------------------------------------------------------ ends */

uint64_t restore_frames_begin(const struct restoring *r, const struct r_log *log)
{
	uint32_t partition;
	if (log->has_entry)
		return log->next;
	const struct state_topic *t = state_topic_by_log(r->topics_now, log->id, &partition);
	return t == NULL ? log->start : state_partition_parent(t, partition).end;
}

/* By sessions in order: what recovery will do. A fork that wrote nothing ends where its source's records do. */
static void ends_look(struct restoring *r)
{
	for (size_t i = 0; i < r->n_logs; i++)
		r->log[i].end = restore_frames_begin(r, &r->log[i]);
	for (size_t i = 0; i < r->n_sessions; i++) {
		const struct r_session *s = &r->session[i];
		for (size_t w = 0; w < s->n_wal; w++)
			for (size_t k = 0; s->wal[w].live && k < s->wal[w].n_frames; k++) {
				const struct r_frame *f = &r->frame[s->wal[w].first_frame + k];
				struct r_log *log = restore_log(r, f->log_id);
				if (frame_counts(r, s, f) && f->end > log->end)
					log->end = f->end;
			}
	}
}

/* ---------------------------------------------------------------------- starts */

/* The lowest offset from `floor` on from which all up to `end` can be read, in the log and the ones it was forked from. */
static uint64_t readable_from(const struct restoring *r, uint64_t log_id, uint64_t end, uint64_t floor)
{
	uint32_t partition;
	for (unsigned depth = 0; depth <= STATE_FORK_DEPTH_MAX && end > floor; depth++) {
		const struct state_topic *t = state_topic_by_log(r->topics_now, log_id, &partition);
		struct state_parent parent = { 0 };
		if (t != NULL)
			parent = state_partition_parent(t, partition);
		uint64_t begin = restore_begin(r, log_id, end);
		if (parent.log_id == 0 || begin > parent.end || begin <= floor)
			return begin > floor ? begin : floor;
		log_id = parent.log_id;
		end = begin < parent.end ? begin : parent.end;
	}
	return floor;
}

static void log_start(struct restoring *r, struct r_log *log, size_t *n_raised)
{
	uint64_t start = log->topic == NULL ? 0 : log->topic->partitions[log->partition]->start;
	char name[600];
	log->start = start;
	if (log->end > start)
		log->start = readable_from(r, log->id, log->end, start);
	else if (log->end < start)
		log->end = start;
	if (log->start == start || log->topic == NULL)
		return;
	name_of(log, name);
	if (++*n_raised <= SHOWN_MAX)
		restore_say(r, "%s begins at %" PRIu64 " now, not at %" PRIu64 ": what stood below is not in the store. It was "
			    "trimmed or deleted after the export", name, log->start, start);
}

/* ------------------------------------------------------------------ contradictions */

/* It takes a log's frames one behind the other. */
static void frames_walk(struct restoring *r)
{
	uint64_t *next = must_calloc(r->n_logs + 1, sizeof(*next));
	for (size_t i = 0; i < r->n_logs; i++)
		next[i] = restore_frames_begin(r, &r->log[i]);
	for (size_t i = 0; i < r->n_sessions; i++) {
		const struct r_session *s = &r->session[i];
		for (size_t w = 0; w < s->n_wal; w++)
			for (size_t k = 0; s->wal[w].live && k < s->wal[w].n_frames; k++) {
				const struct r_frame *f = &r->frame[s->wal[w].first_frame + k];
				struct r_log *log = restore_log(r, f->log_id);
				if (!frame_counts(r, s, f))
					continue;
				log->contradicts = log->contradicts || f->base != next[log - r->log];
				next[log - r->log] = f->end;
			}
	}
	free(next);
}

static void contradictions_say(struct restoring *r)
{
	char name[600];
	for (size_t i = 0; i < r->n_logs; i++) {
		if (!r->log[i].contradicts || r->log[i].dead)
			continue;
		name_of(&r->log[i], name);
		restore_say(r, "%s is left out: some of its records in the WAL are missing between others. It was deleted after "
			    "the export", name);
	}
}

/* Records below a watermark that no data object has: of topics that were deleted before they were packed. */
static void unpacked_say(struct restoring *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n_sessions; i++) {
		const struct r_session *s = &r->session[i];
		for (size_t w = 0; w < s->n_wal; w++)
			for (size_t k = 0; s->wal[w].seq < s->watermark && k < s->wal[w].n_frames; k++) {
				const struct r_frame *f = &r->frame[s->wal[w].first_frame + k];
				n += frame_counts(r, s, f) && f->end > f->base && !frame_is_packed(r, f);
			}
	}
	if (n > 0)
		restore_say(r, "%zu batches in WAL objects that were packed were packed without them: their topics had been "
			    "deleted or trimmed", n);
}

void restore_logs(struct restoring *r)
{
	size_t n_raised = 0;
	ends_look(r);
	for (size_t i = 0; i < r->n_logs; i++)
		if (!r->log[i].dead)
			log_start(r, &r->log[i], &n_raised);
	if (n_raised > SHOWN_MAX)
		restore_say(r, "and %zu more begin later than they did", n_raised - SHOWN_MAX);
	frames_walk(r);
	contradictions_say(r);
	unpacked_say(r);
}
