/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges: eight runs of a level become one of the next (of level 2: one of level 2). Frames are copied and checked,
 * those wholly below their log's start are left out, as is everything of logs that are gone; the state entries of a log
 * fold into one. One merge at a time, one read at a time.
 *
 * Invariant: the commit adds and removes at once, so each frame stands in one unmarked object, whoever dies when.
 */
#ifndef STORAGED_ENGINE_MERGE_H
#define STORAGED_ENGINE_MERGE_H

#include "storaged/engine/engine_impl.h"

#define MERGE_RUNS 8u

struct merger *merger_new(struct engine *e);
void merger_free(struct merger *m);

/* Begins a merge where a level has runs enough. Cheap; called when runs came. */
void merger_consider(struct merger *m);
/* The merge under way reads it, and a commit that removes it would be in vain. */
bool merger_reads(const struct merger *m, struct object_id id);
/* Begins to rewrite this unmarked object to what lives in it, or does nothing: it is busy. */
void merger_rewrite(struct merger *m, const struct object_row *row);

#endif
