/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one log, and the table of logs.
 */
#include "storaged/engine/log.h"

#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "common/must.h"

struct log *log_new(uint64_t id, uint32_t epoch, uint64_t start, bool closed)
{
	struct log *log = must_calloc(1, sizeof(*log));
	log->id = id;
	log->epoch = epoch;
	log->start = start;
	log->closed = log->submitted.closed = closed;
	return log;
}

void log_free(struct log *log)
{
	must(log->refs == 0);
	log_state_done(&log->submitted);
	log_state_done(&log->packed);
	free(log->frames_memory);
	free(log);
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
static void index_room(struct log *log)
{
	size_t dropped = (size_t)(log->frames - log->frames_memory);
	if (dropped + log->n_frames < log->frames_capacity)
		return;
	if (dropped >= log->frames_capacity / 2 && dropped > 0) {
		memmove(log->frames_memory, log->frames, log->n_frames * sizeof(*log->frames));
		log->frames = log->frames_memory;
		return;
	}
	log->frames_capacity = log->frames_capacity == 0 ? 1 : log->frames_capacity * 2;
	log->frames_memory = must_realloc(log->frames_memory, log->frames_capacity * sizeof(*log->frames));
	log->frames = log->frames_memory + dropped;
}

void log_index_add(struct log *log, const struct frame_ref *ref)
{
	must(ref->base < log->submitted.next && (log->n_frames == 0 || log->frames[log->n_frames - 1].base < ref->base));
	index_room(log);
	struct frame_ref *to = &log->frames[log->n_frames++];
	*to = *ref;
	if (log->n_frames > 1 && to[-1].latest_ms > to->latest_ms)
		to->latest_ms = to[-1].latest_ms;
}

void log_index_drop(struct log *log, uint64_t end)
{
	while (log->n_frames > 0 && log_frame_end(log, 0) <= end) {
		log->frames++;
		log->n_frames--;
	}
	if (log->n_frames > 0)
		return;
	free(log->frames_memory);
	log->frames = log->frames_memory = NULL;
	log->frames_capacity = 0;
}

bool log_index_has(const struct log *log, uint64_t offset)
{
	return log->n_frames > 0 && offset >= log->frames[0].base && offset < log->submitted.next;
}

uint32_t log_index_find(const struct log *log, uint64_t offset)
{
	uint32_t low = 0, high = log->n_frames;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (log->frames[middle].base <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	must(low > 0 && offset < log_frame_end(log, low - 1));
	return low - 1;
}

uint64_t log_frame_end(const struct log *log, uint32_t i)
{
	must(i < log->n_frames);
	return i + 1 < log->n_frames ? log->frames[i + 1].base : log->submitted.next;
}

uint32_t log_index_visible(const struct log *log)
{
	if (log->n_frames == 0 || log->confirm <= log->frames[0].base)
		return 0;
	return log_index_find(log, log->confirm - 1) + 1;
}

bool log_find_time(const struct log *log, int64_t timestamp_ms, struct log_time *ret)
{
	uint32_t low = 0, high = log_index_visible(log), n = high;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (log->frames[middle].latest_ms < timestamp_ms)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == n)
		return false;
	*ret = (struct log_time){ .base = log->frames[low].base, .max_timestamp_ms = log->frames[low].latest_ms };
	return true;
}

bool log_find_latest(const struct log *log, struct log_time *ret)
{
	uint32_t n = log_index_visible(log);
	return n > 0 && log_find_time(log, log->frames[n - 1].latest_ms, ret);
}

/* -------------------------------------------------------------------- table */

static uint64_t slot_of(const struct log_table *t, uint64_t id)
{
	id ^= id >> 33;
	id *= 0xff51afd7ed558ccdull;
	id ^= id >> 33;
	return id & (t->n_slots - 1);
}

void log_table_done(struct log_table *t)
{
	for (uint64_t i = 0; i < t->n_slots; i++) {
		if (t->slots[i] != NULL) {
			t->slots[i]->refs = 0;
			log_free(t->slots[i]);
		}
	}
	free(t->slots);
	*t = (struct log_table){ 0 };
}

struct log *log_table_find(const struct log_table *t, uint64_t id)
{
	if (t->n == 0)
		return NULL;
	for (uint64_t i = slot_of(t, id); t->slots[i] != NULL; i = (i + 1) & (t->n_slots - 1))
		if (t->slots[i]->id == id)
			return t->slots[i];
	return NULL;
}

static void slot_put(struct log_table *t, struct log *log)
{
	uint64_t i = slot_of(t, log->id);
	while (t->slots[i] != NULL)
		i = (i + 1) & (t->n_slots - 1);
	t->slots[i] = log;
}

void log_table_add(struct log_table *t, struct log *log)
{
	must(log_table_find(t, log->id) == NULL);
	if (t->n * 3 >= t->n_slots * 2) {
		struct log_table wider = { .n_slots = t->n_slots == 0 ? 16 : t->n_slots * 2 };
		wider.slots = must_calloc(wider.n_slots, sizeof(*wider.slots));
		for (uint64_t i = 0; i < t->n_slots; i++)
			if (t->slots[i] != NULL)
				slot_put(&wider, t->slots[i]);
		free(t->slots);
		t->slots = wider.slots;
		t->n_slots = wider.n_slots;
	}
	slot_put(t, log);
	t->n++;
}

/* Those behind the gap that belong before it move up. */
void log_table_remove(struct log_table *t, struct log *log)
{
	uint64_t mask = t->n_slots - 1, gap = slot_of(t, log->id);
	while (t->slots[gap] != log) {
		must(t->slots[gap] != NULL);
		gap = (gap + 1) & mask;
	}
	t->slots[gap] = NULL;
	t->n--;
	for (uint64_t i = (gap + 1) & mask; t->slots[i] != NULL; i = (i + 1) & mask) {
		uint64_t home = slot_of(t, t->slots[i]->id);
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			t->slots[gap] = t->slots[i];
			t->slots[i] = NULL;
			gap = i;
		}
	}
}

void log_table_each(const struct log_table *t, void (*each)(struct log *log))
{
	for (uint64_t i = 0; i < t->n_slots; i++)
		if (t->slots[i] != NULL)
			each(t->slots[i]);
}
