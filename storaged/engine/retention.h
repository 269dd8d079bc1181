/* SPDX-License-Identifier: Apache-2.0
 *
 * Retention: what is older than a log's time, or beyond its size, is cut off by a trim. A pass every --retention-interval-ms:
 *
 *   objects  which logs may have something to cut, object by object
 *   logs     where each of these is cut: behind the last block, in data objects, that is due
 *   trim     one command for all that is worth one
 *
 * Only append times decide, in stamp time; what producers say of time never does. Whole blocks only, and only what
 * stands in data objects: frames in the arena wait until they are packed.
 *
 * Invariant: nothing is cut before its time. It is cut at most an interval and a twentieth of its retention later, once
 * that is worth a trim: 1 MiB, a tenth of the log, or all of it.
 */
#ifndef STORAGED_ENGINE_RETENTION_H
#define STORAGED_ENGINE_RETENTION_H

#include "storaged/engine/engine_impl.h"

struct retention *retention_new(struct engine *e);
/* The store is freed already, or has nothing of it outstanding. */
void retention_free(struct retention *r);
/* Serving begins. */
void retention_begin(struct retention *r);

/* ------------------------------------------------------- cut.c: one log */

/* A walk through the objects that hold the log. */
struct cut {
	struct engine *engine;
	uint64_t log_id;
	struct engine_retention rule;
	int64_t now_ms;                 /* stamp time */
	uint64_t end;                   /* what ends at or below it is due; rule.start: nothing is */
	uint64_t bytes;                 /* of the log's batches before `end`, about */
	/* private */
	struct catalogue_cursor cursor;
	struct object_id id;
	uint64_t offset;                /* in the object `id`: blocks that end behind it are next */
	bool has_id, has_first;
	uint64_t first_base, first_bytes;       /* of the first block not trimmed, and bytes before it */
};

void cut_begin(struct cut *c, struct engine *e, uint64_t log_id, const struct engine_retention *rule, int64_t now_ms);
/* true: done. false: something is being read, w runs when asking again makes sense. A fault of the object at hand is
 * told by cut_skip(): it says nothing then. */
bool cut_walk(struct cut *c, struct index_wait *w);
void cut_skip(struct cut *c);
/* What was found is worth a trim. */
bool cut_is_worth(const struct cut *c);

#endif
