/* SPDX-License-Identifier: Apache-2.0
 *
 * Trim: a log begins later than it did. What lies below is unreachable at once; what it stood in goes with gc.c. Batches
 * that straddle the new start stay whole, and what forks of the log still show stays where it is.
 */
#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/engine/gc.h"
#include "storaged/engine/read.h"
#include "storaged/engine/rewrite.h"

int64_t frame_latest(struct engine *e, const struct frame_ref *ref)
{
	struct piece p;
	struct record_batch b;
	must(arena_find(&e->arena, frame_ref_place(ref), ref->length, &p));
	must(record_batch_read(slice_of(p.segment->mem.base + p.offset, ref->length), &b) == 0);
	return b.max_timestamp;
}

/* The running maximum begins anew at the first batch that is left; behind one that is greater than all before nothing
 * changes, which mostly is the first. */
static void index_times(struct engine *e, struct log *log)
{
	int64_t latest = INT64_MIN;
	const struct log_open *o = log->is_open ? log->open : NULL;
	for (uint32_t i = 0; o != NULL && i < o->n_frames; i++) {
		int64_t own = frame_latest(e, &o->frames[i]);
		latest = own > latest ? own : latest;
		if (o->frames[i].latest_ms == latest)
			return;
		o->frames[i].latest_ms = latest;
	}
}

void engine_log_trim(struct engine *e, struct log *log, uint64_t start)
{
	must(!log->removed);
	if (start <= log->start)
		return;
	if (e->serving && start > log_confirm(log))
		return; /* a successor's, who has served it: our session is over, as a row before this one says */
	log->start = start;
	uint64_t living = engine_living(e, log->id);
	log_index_drop(log, living < start ? living : start);
	index_times(e, log);
	read_log_trimmed(e, log);
	gc_consider(e->gc);
	rewriter_consider(e->rewriter);
}
