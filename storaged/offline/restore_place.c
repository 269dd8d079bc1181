/* SPDX-License-Identifier: Apache-2.0
 *
 * Which objects are in use, and from where on each session's WAL is. Repeated until nothing changes:
 *
 *   1  what is packed: state entries of the live objects
 *   2  a session's watermark: its first WAL object with a frame that counts and is not packed, above any that was
 *      deleted
 *   3  an object that the export does not know and that has frames from above a watermark is a pack that was never
 *      committed: it goes when all it has is found elsewhere; else it was committed, and the watermark rises
 *
 * Then, from old to new: objects all of whose records and entries stand in others are inputs of a merge, or outputs of one
 * that was never committed.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/wal.h"
#include "storaged/meta/state_fork.h"
#include "storaged/offline/restore_priv.h"

#define PRODUCER_IDLE 604800000ll       /* idle for longer, a producer is no longer named: as the engine has it */

bool frame_counts(const struct restoring *r, const struct r_session *s, const struct r_frame *f)
{
	const struct r_log *log = restore_log(r, f->log_id);
	return !log->dead && log->epoch == f->epoch && log->owner == s->node;
}

/* -------------------------------------------------------------- what is packed */

static void entries_look(struct restoring *r)
{
	for (size_t i = 0; i < r->n_logs; i++) {
		r->log[i].has_entry = r->log[i].closed = false;
		r->log[i].next = 0;
	}
	for (size_t i = 0; i < r->n_objects; i++) {
		const struct r_object *o = &r->object[i];
		for (size_t k = 0; o->live && k < o->file.n_states; k++) {
			const Frame__State *e = o->file.state[k];
			struct r_log *log = restore_log(r, e->log_id);
			if (e->epoch != log->epoch || (log->has_entry && log->next > e->next))
				continue;
			log->closed = e->closed || (log->has_entry && log->next == e->next && log->closed);
			log->has_entry = true;
			log->next = e->next;
		}
	}
}

bool frame_is_packed(const struct restoring *r, const struct r_frame *f)
{
	const struct r_log *log = restore_log(r, f->log_id);
	if (!log->has_entry)
		return false;
	return f->end > f->base ? f->end <= log->next : f->base < log->next || !f->closes || log->closed;
}

/* A frame that counts, and whether any of those is not packed. */
static void wal_look(const struct restoring *r, const struct r_session *s, const struct r_wal *w, bool *ret_counts,
		     const struct r_frame **ret_unpacked)
{
	*ret_counts = false;
	*ret_unpacked = NULL;
	for (size_t i = 0; i < w->n_frames; i++) {
		const struct r_frame *f = &r->frame[w->first_frame + i];
		if (!frame_counts(r, s, f))
			continue;
		*ret_counts = true;
		if (*ret_unpacked == NULL && !frame_is_packed(r, f))
			*ret_unpacked = f;
	}
}

/* ------------------------------------------------------------------ watermarks */

/* Every WAL object from i on: something is packed, so what is missing below it was packed, too. */
static bool packed_from(const struct restoring *r, const struct r_session *s, size_t i)
{
	for (; i < s->n_wal; i++) {
		bool counts;
		const struct r_frame *unpacked;
		wal_look(r, s, &s->wal[i], &counts, &unpacked);
		if (counts && unpacked == NULL)
			return true;
	}
	return false;
}

/* Below object i some are missing that were not deleted, or perhaps: does it go on where the packed records end? */
static bool goes_on(const struct restoring *r, const struct r_session *s, size_t i)
{
	for (; i < s->n_wal; i++) {
		bool counts;
		const struct r_frame *unpacked;
		wal_look(r, s, &s->wal[i], &counts, &unpacked);
		if (unpacked == NULL)
			continue;
		const struct r_log *log = restore_log(r, unpacked->log_id);
		return unpacked->base <= restore_frames_begin(r, log) ||
		       (log->topic != NULL && unpacked->base == log->topic->partitions[log->partition]->start);
	}
	return true;
}

/* Raises the floor over seqs that were deleted; cuts off what stands above one that was never stored. */
static void holes_look(struct restoring *r, struct r_session *s)
{
	s->n_real = s->n_wal;
	for (size_t i = 0; i < s->n_wal; i++) {
		uint64_t seq = s->wal[i].seq, expected = i == 0 ? s->floor : s->wal[i - 1].seq + 1;
		if (seq <= expected)
			continue;
		bool deleted = s->sealed || s->wal[s->n_wal - 1].seq >= seq - 1 + WAL_REACH || packed_from(r, s, i);
		if (deleted || goes_on(r, s, i)) {
			s->floor = seq > s->floor ? seq : s->floor;
		} else {
			s->n_real = i;
			return;
		}
	}
}

static void watermark_look(struct restoring *r, struct r_session *s)
{
	holes_look(r, s);
	s->watermark = s->floor;
	if (s->n_real > 0 && s->wal[s->n_real - 1].seq + 1 > s->watermark)
		s->watermark = s->wal[s->n_real - 1].seq + 1;
	if (s->sealed && s->cut > s->watermark)
		s->watermark = s->cut;
	for (size_t i = 0; i < s->n_real; i++) {
		bool counts;
		const struct r_frame *unpacked = NULL;
		if (s->wal[i].seq >= s->floor)
			wal_look(r, s, &s->wal[i], &counts, &unpacked);
		if (unpacked != NULL) {
			s->watermark = s->wal[i].seq;
			break;
		}
	}
	for (size_t i = 0; i < s->n_wal; i++)
		s->wal[i].live = i < s->n_real && s->wal[i].seq >= s->watermark;
}

/* ----------------------------------------------------------------------- spans */

static void span_add(struct restoring *r, struct r_span x, size_t *capacity)
{
	if (r->n_spans == *capacity) {
		*capacity = *capacity == 0 ? 1024 : 2 * *capacity;
		r->span = must_realloc(r->span, *capacity * sizeof(*r->span));
	}
	r->span[r->n_spans++] = x;
}

static int compare_spans(const void *a, const void *b)
{
	const struct r_span *x = a, *y = b;
	if (x->log_id != y->log_id)
		return x->log_id < y->log_id ? -1 : 1;
	return (x->base > y->base) - (x->base < y->base);
}

/* Only what lies in use may be needed: not below where a log's living records begin. */
static void spans_collect(struct restoring *r)
{
	size_t capacity = 0, source = 0;
	for (; source < r->n_objects; source++) {
		const struct object_file *f = &r->object[source].file;
		for (size_t k = 0; k < f->n_blocks; k++)
			span_add(r, (struct r_span){ .log_id = f->block[k].log_id, .base = f->block[k].base,
						     .end = f->block[k].end, .source = source }, &capacity);
	}
	for (size_t i = 0; i < r->n_sessions; i++) {
		const struct r_session *s = &r->session[i];
		for (size_t w = 0; w < s->n_wal; w++, source++)
			for (size_t k = 0; k < s->wal[w].n_frames; k++) {
				const struct r_frame *f = &r->frame[s->wal[w].first_frame + k];
				if (f->end > f->base && frame_counts(r, s, f))
					span_add(r, (struct r_span){ .log_id = f->log_id, .base = f->base, .end = f->end,
								     .source = source }, &capacity);
			}
	}
	if (r->n_spans > 0)
		qsort(r->span, r->n_spans, sizeof(*r->span), compare_spans);
	for (size_t i = 0; i < r->n_spans; i++) {
		struct r_span *x = &r->span[i], *before = i > 0 && x[-1].log_id == x->log_id ? x - 1 : NULL;
		x->reach = before != NULL && before->reach > x->end ? before->reach : x->end;
	}
}

static bool source_is_live(const struct restoring *r, size_t source)
{
	if (source < r->n_objects)
		return r->object[source].live;
	source -= r->n_objects;
	for (size_t i = 0; i < r->n_sessions; i++) {
		if (source < r->session[i].n_wal)
			return r->session[i].wal[source].live;
		source -= r->session[i].n_wal;
	}
	return false;
}

/* The first span of the log that may reach beyond offset. */
static size_t span_find(const struct restoring *r, uint64_t log_id, uint64_t offset)
{
	size_t low = 0, high = r->n_spans;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct r_span *x = &r->span[middle];
		if (x->log_id < log_id || (x->log_id == log_id && x->reach <= offset))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether all of [base, end) stands in live sources but `self`. */
bool restore_has(const struct restoring *r, uint64_t log_id, uint64_t base, uint64_t end, size_t self)
{
	for (size_t i = span_find(r, log_id, base); base < end && i < r->n_spans; i++) {
		const struct r_span *x = &r->span[i];
		if (x->log_id != log_id || x->base > base)
			return false;
		if (x->end > base && x->source != self && source_is_live(r, x->source))
			base = x->end;
	}
	return base >= end;
}

uint64_t restore_begin(const struct restoring *r, uint64_t log_id, uint64_t end)
{
	uint64_t from = 0, to = 0;
	bool any = false;
	for (size_t i = span_find(r, log_id, 0); i < r->n_spans && r->span[i].log_id == log_id; i++) {
		const struct r_span *x = &r->span[i];
		if (x->base >= end || !source_is_live(r, x->source))
			continue;
		if (!any || x->base > to)
			from = x->base;
		if (!any || x->end > to)
			to = x->end;
		any = true;
	}
	return any && to >= end ? from : end;
}

/* Every record of the object that may still be shown stands elsewhere. */
static bool records_are_elsewhere(const struct restoring *r, size_t self)
{
	const struct object_file *f = &r->object[self].file;
	for (size_t k = 0; k < f->n_blocks; k++) {
		const struct data_index_entry *b = &f->block[k];
		const struct r_log *log = restore_log(r, b->log_id);
		uint64_t start = log == NULL || log->topic == NULL ? 0 : state_log_living_start(r->topics_now, log->id);
		uint64_t base = b->base > start ? b->base : start;
		if (log != NULL && !log->dead && base < b->end && !restore_has(r, b->log_id, base, b->end, self))
			return false;
	}
	return true;
}

/* ------------------------------------------------------- packs without a commit */

/* Objects that hold a frame of a WAL object above the watermark. True: something changed. */
static bool overlaps_look(struct restoring *r, struct r_session *s, const struct r_wal *w)
{
	for (size_t k = 0; k < w->n_frames; k++) {
		const struct r_frame *f = &r->frame[w->first_frame + k];
		if (f->end <= f->base || !frame_counts(r, s, f))
			continue;
		for (size_t i = span_find(r, f->log_id, f->base); i < r->n_spans; i++) {
			const struct r_span *x = &r->span[i];
			if (x->log_id != f->log_id || x->base >= f->end)
				break;
			if (x->end <= f->base || x->source >= r->n_objects || !r->object[x->source].live)
				continue;
			if (!r->object[x->source].known && records_are_elsewhere(r, x->source))
				r->object[x->source].live = false;
			else
				s->floor = w->seq + 1;
			return true;
		}
	}
	return false;
}

static bool session_settle(struct restoring *r, struct r_session *s)
{
	for (size_t i = s->n_wal; i > 0; i--)
		if (s->wal[i - 1].live && overlaps_look(r, s, &s->wal[i - 1]))
			return true;
	return false;
}

/* ---------------------------------------------------------------------- merges */

static bool names_producers(const Frame__State *newer, const Frame__State *older)
{
	for (size_t i = 0; i < older->n_producers; i++) {
		bool found = newer->last_append_ms - older->producers[i]->used_ms >= PRODUCER_IDLE;
		for (size_t k = 0; k < newer->n_producers && !found; k++)
			found = strcmp(newer->producers[k]->id, older->producers[i]->id) == 0;
		if (!found)
			return false;
	}
	for (size_t i = 0; i < older->n_kafka; i++) {
		bool found = newer->last_append_ms - older->kafka[i]->used_ms >= PRODUCER_IDLE;
		for (size_t k = 0; k < newer->n_kafka && !found; k++)
			found = newer->kafka[k]->id == older->kafka[i]->id;
		if (!found)
			return false;
	}
	return true;
}

static bool entry_replaces(const Frame__State *newer, const Frame__State *older)
{
	return data_state_compare(newer, older) >= 0 && (newer->complete || (!older->complete && names_producers(newer, older)));
}

static const Frame__State *entry_of(const struct object_file *f, uint64_t log_id)
{
	size_t low = 0, high = f->n_states;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (f->state[middle]->log_id < log_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->n_states && f->state[low]->log_id == log_id ? f->state[low] : NULL;
}

static bool entry_is_elsewhere(const struct restoring *r, const Frame__State *e, size_t self)
{
	for (size_t i = 0; i < r->n_objects; i++) {
		const struct r_object *o = &r->object[i];
		if (i == self || !o->live || o->file.footer.first_log > e->log_id || o->file.footer.last_log < e->log_id)
			continue;
		const Frame__State *other = entry_of(&o->file, e->log_id);
		if (other != NULL && entry_replaces(other, e))
			return true;
	}
	return false;
}

static bool is_superseded(const struct restoring *r, size_t self)
{
	const struct object_file *f = &r->object[self].file;
	for (size_t k = 0; k < f->n_states; k++) {
		const struct r_log *log = restore_log(r, f->state[k]->log_id);
		if (!log->dead && !entry_is_elsewhere(r, f->state[k], self))
			return false;
	}
	return records_are_elsewhere(r, self);
}

void restore_place(struct restoring *r)
{
	spans_collect(r);
	bool changed = true;
	while (changed) {
		changed = false;
		entries_look(r);
		for (size_t i = 0; i < r->n_sessions; i++)
			watermark_look(r, &r->session[i]);
		for (size_t i = 0; i < r->n_sessions && !changed; i++)
			changed = session_settle(r, &r->session[i]);
	}
	for (size_t i = 0; i < r->n_objects; i++)
		if (r->object[i].live && is_superseded(r, i))
			r->object[i].live = false;
	entries_look(r);
}
