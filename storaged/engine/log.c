/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one log, and the index of its batches.
 */
#include "storaged/engine/log.h"

#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "common/must.h"

void log_open_done(struct log_open *o)
{
	must(o->refs == 0 && o->load == NULL);
	log_state_done(&o->submitted);
	log_state_done(&o->packed);
	free(o->frames_memory);
	free(o->replay);
}

/* -------------------------------------------------------------------- state */

void log_state_done(struct log_state *s)
{
	if (s->extra == NULL)
		return;
	producer_table_done(&s->extra->producers);
	kafka_producers_done(&s->extra->kafka);
	free(s->extra->stream_seq);
	free(s->extra->closed_by_id);
	free(s->extra->epochs);
	free(s->extra);
	s->extra = NULL;
}

struct log_extra *log_state_extra(struct log_state *s)
{
	if (s->extra == NULL)
		s->extra = must_calloc(1, sizeof(*s->extra));
	return s->extra;
}

static void state_close(struct log_state *s, const struct frame_facts *f)
{
	s->closed = true;
	s->close_ticket = f->ticket;
	if (!f->has_producer)
		return;
	struct log_extra *x = log_state_extra(s);
	free(x->closed_by_id);
	x->has_closed_by = true;
	x->closed_by_id = must_memdup(f->producer_id.p, f->producer_id.n);
	x->closed_by_len = (uint32_t)f->producer_id.n;
	x->closed_by_epoch = f->producer_epoch;
	x->closed_by_seq = f->producer_seq;
}

static void state_producers(struct log_state *s, const struct frame_facts *f)
{
	if (f->has_producer) {
		struct producer state = {
			.epoch = f->producer_epoch, .seq = f->producer_seq, .base = f->base, .next = f->next,
			.used_ms = f->append_time, .ticket = f->ticket,
		};
		producer_accept(&log_state_extra(s)->producers, f->producer_id, &state);
	}
	if (f->has_claim)
		metric_add(METRIC_KAFKA_PRODUCERS_DROPPED, kafka_producer_accept(&log_state_extra(s)->kafka, &f->claim,
										 f->append_time, f->base, f->ticket));
}

void log_state_apply(struct log_state *s, const struct frame_facts *f)
{
	must(f->base == s->next && f->next >= f->base && f->append_time >= s->last_time);
	s->next = f->next;
	s->bytes += f->bytes;
	s->last_time = f->append_time;
	s->last_ticket = f->ticket;
	state_producers(s, f);
	if (f->has_stream_seq) {
		struct log_extra *x = log_state_extra(s);
		free(x->stream_seq);
		x->stream_seq = f->stream_seq.n > 0 ? must_memdup(f->stream_seq.p, f->stream_seq.n) : must_calloc(1, 1);
		x->stream_seq_len = (uint32_t)f->stream_seq.n;
		x->stream_seq_ticket = f->ticket;
	}
	if (f->closes)
		state_close(s, f);
}

/* -------------------------------------------------------------------- index */

/* Room for one more: what was dropped is used again, else the array doubles. */
static void index_room(struct log_open *o)
{
	size_t dropped = (size_t)(o->frames - o->frames_memory);
	if (dropped + o->n_frames < o->frames_capacity)
		return;
	if (dropped >= o->frames_capacity / 2 && dropped > 0) {
		memmove(o->frames_memory, o->frames, o->n_frames * sizeof(*o->frames));
		o->frames = o->frames_memory;
		return;
	}
	o->frames_capacity = o->frames_capacity == 0 ? 1 : o->frames_capacity * 2;
	o->frames_memory = must_realloc(o->frames_memory, o->frames_capacity * sizeof(*o->frames));
	o->frames = o->frames_memory + dropped;
}

void log_index_add(struct log *log, const struct frame_ref *ref)
{
	struct log_open *o = log->open;
	must(log->is_open && ref->base < o->submitted.next);
	must(o->n_frames == 0 || o->frames[o->n_frames - 1].base < ref->base);
	index_room(o);
	struct frame_ref *to = &o->frames[o->n_frames++];
	*to = *ref;
	if (o->n_frames > 1 && to[-1].latest_ms > to->latest_ms)
		to->latest_ms = to[-1].latest_ms;
}

void log_index_drop(struct log *log, uint64_t end)
{
	struct log_open *o = log->open;
	if (!log->is_open)
		return;
	while (o->n_frames > 0 && log_frame_end(log, 0) <= end) {
		o->frames++;
		o->n_frames--;
	}
	if (o->n_frames > 0)
		return;
	free(o->frames_memory);
	o->frames = o->frames_memory = NULL;
	o->frames_capacity = 0;
}

bool log_index_has(const struct log *log, uint64_t offset)
{
	if (!log->is_open)
		return false;
	const struct log_open *o = log->open;
	return o->n_frames > 0 && offset >= o->frames[0].base && offset < o->submitted.next;
}

uint32_t log_index_find(const struct log *log, uint64_t offset)
{
	const struct log_open *o = log->open;
	must(log->is_open);
	uint32_t low = 0, high = o->n_frames;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (o->frames[middle].base <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	must(low > 0 && offset < log_frame_end(log, low - 1));
	return low - 1;
}

uint64_t log_frame_end(const struct log *log, uint32_t i)
{
	const struct log_open *o = log->open;
	must(log->is_open && i < o->n_frames);
	return i + 1 < o->n_frames ? o->frames[i + 1].base : o->submitted.next;
}

/* How many batches lie below confirm, at least in part. */
static uint32_t index_visible(const struct log *log)
{
	if (!log->is_open || log->open->n_frames == 0 || log->open->confirm <= log->open->frames[0].base)
		return 0;
	return log_index_find(log, log->open->confirm - 1) + 1;
}

bool log_find_time(const struct log *log, int64_t timestamp_ms, struct log_time *ret)
{
	uint32_t low = 0, high = index_visible(log), n = high;
	const struct frame_ref *frames = n > 0 ? log->open->frames : NULL;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (frames[middle].latest_ms < timestamp_ms)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == n)
		return false;
	*ret = (struct log_time){ .base = frames[low].base, .max_timestamp_ms = frames[low].latest_ms };
	return true;
}

bool log_find_latest(const struct log *log, struct log_time *ret)
{
	uint32_t n = index_visible(log);
	return n > 0 && log_find_time(log, log->open->frames[n - 1].latest_ms, ret);
}

/* ---------------------------------------------------------------------- epochs */

enum log_epoch_found log_epoch_end(const struct log *log, uint32_t epoch, uint32_t *ret_epoch, uint64_t *ret_end)
{
	*ret_epoch = epoch;
	*ret_end = log_confirm(log);
	if (epoch >= log->epoch)
		return epoch == log->epoch ? LOG_EPOCH_ENDS : LOG_EPOCH_TO_COME;
	if (!log->is_open || !log->open->loaded)
		return LOG_EPOCH_NOT_LOADED;
	const struct log_extra *x = log->open->submitted.extra;
	const struct log_epoch *at = x != NULL ? x->epochs : NULL;
	uint32_t n = x != NULL ? x->n_epochs : 0, i = 0;
	while (i < n && at[i].epoch <= epoch)
		i++;
	if (i > 0)
		*ret_epoch = at[i - 1].epoch;
	*ret_end = i < n ? at[i].first_offset : 0;
	return LOG_EPOCH_ENDS;
}
