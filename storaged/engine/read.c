/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads: whole batches from the arena, else from the page cache, else from the store through the page
 * cache. A read takes what is in memory; only when its first batch is not does it wait. Below a fork's parent_end
 * all this is asked of the log that it was forked from.
 *
 * Invariant: nothing at or behind confirm is handed out; each piece keeps a pin, which is the reader's.
 */
#include "storaged/engine/read.h"

#include <errno.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/engine/ahead.h"

#define PIECES_MAX 4096u                /* of one read */

enum gathered { GATHERED, NEEDS_STORE, NEEDS_PAGES };

/* What a read has so far. */
struct gather {
	struct piece *pieces;           /* heap */
	size_t n, capacity;
	uint64_t bytes, offset;
};

static struct piece *gather_room(struct gather *g, size_t n)
{
	if (g->capacity - g->n < n) {
		while (g->capacity - g->n < n)
			g->capacity = g->capacity == 0 ? 8 : g->capacity * 2;
		g->pieces = must_realloc(g->pieces, g->capacity * sizeof(*g->pieces));
	}
	return g->pieces + g->n;
}

/* A batch that the index names stands in the arena. */
static bool gather_arena(struct engine *e, const struct engine_read *r, const struct log *log, struct gather *g)
{
	uint32_t i = log_index_find(log, g->offset);
	const struct frame_ref *ref = &log->open->frames[i];
	struct piece *to = gather_room(g, 1);
	if (g->n > 0 && g->bytes + ref->length > r->max_bytes)
		return false;
	must(arena_find(&e->arena, frame_ref_place(ref), ref->length, to));
	pin_take(to->pin);
	g->n++;
	g->bytes += ref->length;
	g->offset = log_frame_end(log, i);
	return true;
}

/* The batches of a cached block. false: it is not cached, or its pages cannot be pinned now (*ret_why). */
static bool gather_block(struct engine *e, const struct engine_read *r, const struct log_span *s, struct gather *g,
			 enum gathered *ret_why)
{
	struct block *b = page_cache_find(e->cache, s->log->id, g->offset);
	*ret_why = NEEDS_STORE;
	if (b == NULL)
		return false;
	uint64_t left = r->max_bytes > g->bytes ? r->max_bytes - g->bytes : 1;
	struct page_cache_range range = block_range(b, g->offset, left, s->to);
	if (g->n > 0 && range.length > left)
		return false;
	struct piece *to = gather_room(g, page_cache_pieces_max(range.length));
	int n = page_cache_pieces(e->cache, b, range.position, range.length, to);
	*ret_why = NEEDS_PAGES;
	if (n < 0)
		return false;
	g->n += (size_t)n;
	g->bytes += range.length;
	g->offset = range.end_offset;
	return true;
}

static enum gathered read_gather(struct engine *e, const struct engine_read *r, struct gather *g)
{
	enum gathered why;
	struct log_span s = { 0 };
	g->offset = r->from;
	while (g->offset < log_confirm(r->log) && g->n < PIECES_MAX) {
		if (g->offset >= s.to)
			s = log_span_at(&e->logs, r->log, g->offset);
		if (log_index_has(s.log, g->offset)) {
			if (!gather_arena(e, r, s.log, g))
				break;
		} else if (g->n > 0 && g->bytes >= r->max_bytes) {
			break;
		} else if (!gather_block(e, r, &s, g, &why)) {
			return g->n > 0 ? GATHERED : why;
		}
	}
	return GATHERED;
}

uint64_t log_bytes_from(const struct log *log, uint64_t from, uint64_t max_bytes)
{
	uint64_t bytes = 0, confirm = log_confirm(log);
	must(from >= log->start && from <= confirm);
	if (from == confirm)
		return 0;
	if (!log_index_has(log, from))
		return max_bytes > 0 ? max_bytes : 1;
	const struct log_open *o = log->open;
	for (uint32_t i = log_index_find(log, from); i < o->n_frames && o->frames[i].base < confirm; i++) {
		if (bytes > 0 && bytes + o->frames[i].length > max_bytes)
			break;
		bytes += o->frames[i].length;
	}
	return bytes;
}

/* --------------------------------------------------------------------- waiting */

static void op_free(struct read_op *op)
{
	struct engine *e = op->engine;
	env_timer_stop(e->env, &op->timer);
	*op->prev = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	else
		e->reads_tail = op->prev;
	op->read->impl = NULL;
	log_unref(op->log);
	free(op);
}

static void op_fail(struct read_op *op, const struct pico_error *error)
{
	struct engine_read *r = op->read;
	op_free(op);
	r->on_done(r, error);
}

static void on_deadline(void *arg)
{
	struct pico_error error;
	pico_error_set(&error, PICO_UNAVAILABLE, "storage did not answer in time");
	op_fail(arg, &error);
}

static struct read_op *op_new(struct engine *e, struct engine_read *r)
{
	struct read_op *op = must_calloc(1, sizeof(*op));
	op->read = r;
	op->engine = e;
	op->log = r->log;
	log_table_ref(&e->logs, op->log);
	op->round = e->read_round;
	op->prev = e->reads_tail;
	*e->reads_tail = op;
	e->reads_tail = &op->next;
	op->timer = (struct env_timer){ .on_fire = on_deadline, .arg = op };
	if (r->deadline_ms != 0)
		env_timer_start(e->env, &op->timer, r->deadline_ms);
	r->impl = op;
	return op;
}

static uint64_t bytes_to_fetch(struct engine *e, const struct log *log, const struct engine_read *r)
{
	uint64_t window = ahead_window(e, log, r->from);
	return window > r->max_bytes ? window : r->max_bytes;
}

/* Answers now or waits. */
static void read_try(struct engine *e, struct engine_read *r)
{
	struct gather g = { 0 };
	struct read_op *op = r->impl;
	enum gathered got = read_gather(e, r, &g);
	if (got == GATHERED) {
		if (op != NULL)
			op_free(op);
		r->pieces = g.pieces;
		r->n_pieces = g.n;
		r->end = g.offset;
		metric_add(METRIC_READS, 1);
		metric_add(METRIC_READ_BYTES, (int64_t)g.bytes);
		const struct log_span span = log_span_at(&e->logs, r->log, r->from);
		if (r->end > r->from && (r->end < span.to || span.log == r->log) && !log_index_has(span.log, r->from))
			ahead_read(e, span.log, r->from, r->end);
		r->on_done(r, NULL);
		return;
	}
	free(g.pieces);
	if (op == NULL)
		op = op_new(e, r);
	op->fetch = NULL;
	op->wants_pages = got == NEEDS_PAGES;
	if (got == NEEDS_STORE) {
		struct log *log = log_span_at(&e->logs, r->log, r->from).log;
		op->fetch = fetch_find(e, log, r->from);
		if (op->fetch == NULL)
			op->fetch = fetch_new(e, log, r->from, bytes_to_fetch(e, log, r));
	}
}

void engine_read(struct engine *e, struct engine_read *r)
{
	must(r->from >= r->log->start && r->from <= log_confirm(r->log));
	r->engine = e;
	r->impl = NULL;
	r->pieces = NULL;
	r->n_pieces = 0;
	r->end = r->from;
	read_try(e, r);
}

void engine_read_cancel(struct engine *e, struct engine_read *r)
{
	if (r->impl != NULL)
		op_free(r->impl);
}

/* Callbacks may start and cancel reads: each round begins anew. */
static struct read_op *op_of_fetch(const struct engine *e, const struct fetch *f)
{
	struct read_op *op = e->reads;
	while (op != NULL && op->fetch != f)
		op = op->next;
	return op;
}

bool read_is_waiting_for(const struct engine *e, const struct fetch *f)
{
	return op_of_fetch(e, f) != NULL;
}

void read_fetch_done(struct engine *e, const struct fetch *f, const struct pico_error *error)
{
	struct read_op *op;
	while ((op = op_of_fetch(e, f)) != NULL) {
		op->fetch = NULL;
		if (error != NULL)
			op_fail(op, error);
		else
			read_try(e, op->read);
	}
}

/* Pages or memory came free: those that wait for them try again, each once, the oldest first. */
static void on_read_task(void *arg)
{
	struct engine *e = arg;
	struct read_op *op;
	bool pages = e->pages_came_free;
	e->pages_came_free = false;
	e->read_round++;
	fetch_room(e);
	do {
		for (op = e->reads; op != NULL; op = op->next)
			if (op->fetch == NULL && op->round != e->read_round && (pages || !op->wants_pages))
				break;
		if (op != NULL) {
			op->round = e->read_round;
			read_try(e, op->read);
		}
	} while (op != NULL);
}

static void on_unpinned(void *arg)
{
	struct engine *e = arg;
	e->pages_came_free = true;
	if (e->reads != NULL || e->fetches != NULL)
		env_defer(e->env, &e->read_task);
}

void read_init(struct engine *e)
{
	e->reads_tail = &e->reads;
	e->read_task = (struct env_task){ .run = on_read_task, .arg = e };
	page_cache_on_unpinned(e->cache, on_unpinned, e);
}

/* Those of a log that begin below an offset. */
static void reads_fail(struct engine *e, const struct log *log, uint64_t below, const struct pico_error *error)
{
	for (struct read_op *op = e->reads; op != NULL;) {
		if (op->log != log || op->read->from >= below) {
			op = op->next;
			continue;
		}
		op_fail(op, error);
		op = e->reads;
	}
}

void read_log_removed(struct engine *e, struct log *log)
{
	struct pico_error error;
	pico_error_set(&error, PICO_NOT_FOUND, "stream is deleted");
	reads_fail(e, log, UINT64_MAX, &error);
}

void read_log_trimmed(struct engine *e, struct log *log)
{
	struct pico_error error;
	pico_error_set(&error, PICO_OUT_OF_RANGE, "the offset was trimmed");
	error.has_start_offset = true;
	error.start_offset = log->start;
	reads_fail(e, log, log->start, &error);
}

void read_forget_all(struct engine *e)
{
	while (e->reads != NULL)
		op_free(e->reads);
	fetch_forget_all(e);
}
