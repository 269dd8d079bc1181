/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups by time. Index entries know the maximum timestamp of their block, so all index pages of the log are looked
 * through, object by object in order of id: a commit meanwhile puts what it moves into objects that come later. The
 * block that wins is read, and in it the batch is found. Without one the batches in the arena are asked. Where the log's
 * start lies inside the block, what made it win may be trimmed: then the walk begins anew behind it; or before it, where
 * what is asked ends inside.
 *
 * Of a fork one span after the other is looked through, from its start on: what it shows of each log that it was forked
 * from, then itself.
 */
#include <stdlib.h>
#include <string.h>

#include "common/record_batch.h"
#include "storaged/engine/read.h"

struct lookup {
	struct engine_lookup *asked;
	struct engine *engine;
	struct lookup *next, **prev;
	struct log *log;                /* the one asked about; one ref */
	struct log_span span;           /* looked through; one ref, too */
	struct object_id id;            /* at hand, or the last one that is through */
	bool has_id, inside;            /* inside: the object is not through */
	uint64_t offset;                /* inside: entries that end behind it are next */
	struct index_wait wait;
	uint64_t floor, ceiling;        /* blocks that begin below, or there or above, were read in vain */
	bool found;
	struct data_index_entry best;
	bool has_other;                 /* LATEST: the best batch of blocks that were read in vain */
	struct log_time other;
	bool has_latest;                /* LATEST: of the spans that are through */
	struct log_time latest;
	struct engine_read read;        /* of the best block */
	bool reading;
};

static void lookup_go(struct lookup *l);

static void lookup_free(struct lookup *l)
{
	if (l->next != NULL)
		l->next->prev = l->prev;
	*l->prev = l->next;
	index_wait_stop(&l->wait);
	l->asked->impl = NULL;
	log_unref(l->span.log);
	log_unref(l->log);
	free(l);
}

static void lookup_end(struct lookup *l, const struct pico_error *error)
{
	struct engine_lookup *asked = l->asked;
	lookup_free(l);
	asked->on_done(asked, error);
}

static void lookup_fail(struct lookup *l, const char *what, const char *fault)
{
	struct pico_error error;
	pico_error_set(&error, PICO_UNAVAILABLE, "%.120s: %.150s", what, fault);
	lookup_end(l, &error);
}

/* ------------------------------------------------------------------- spans */

static bool is_own(const struct lookup *l)
{
	return l->span.log == l->log;
}

static void span_begin(struct lookup *l, uint64_t offset)
{
	if (l->span.log != NULL)
		log_unref(l->span.log);
	l->span = log_span_at(&l->engine->logs, l->log, offset);
	log_table_ref(&l->engine->logs, l->span.log);
	l->floor = 0;
	l->ceiling = is_own(l) ? UINT64_MAX : l->span.to;       /* what is appended meanwhile may be found */
	l->found = l->has_id = l->inside = l->has_other = false;
}

/* asked says what the span has. */
static void span_end(struct lookup *l)
{
	struct engine_lookup *asked = l->asked;
	bool is_latest = asked->what != LOOKUP_AT_OR_AFTER;
	if (is_latest && asked->found && (!l->has_latest || asked->at.max_timestamp_ms > l->latest.max_timestamp_ms)) {
		l->has_latest = true;
		l->latest = asked->at;
	}
	if (!is_own(l) && (is_latest || !asked->found)) {
		asked->found = false;
		span_begin(l, l->span.to > l->log->start ? l->span.to : l->log->start);
		lookup_go(l);
		return;
	}
	if (l->has_latest) {
		asked->found = true;
		asked->at = l->latest;
	}
	lookup_end(l, NULL);
}

static uint64_t span_from(const struct lookup *l)
{
	return l->span.from > l->log->start ? l->span.from : l->log->start;
}

/* The same in the arena, of a log whose index has batches before the span: its running maximum says nothing then. */
static bool arena_search(struct lookup *l, struct log_time *ret)
{
	const struct log *log = l->span.log;
	const struct log_open *o = log->open;   /* our ref keeps it so */
	bool found = false;
	for (uint32_t i = 0; i < o->n_frames && o->frames[i].base < l->span.to; i++) {
		if (log_frame_end(log, i) <= span_from(l))
			continue;
		struct log_time at = { o->frames[i].base, frame_latest(l->engine, &o->frames[i]) };
		bool is_at_or_after = l->asked->what == LOOKUP_AT_OR_AFTER && at.max_timestamp_ms >= l->asked->timestamp_ms;
		bool is_later = l->asked->what != LOOKUP_AT_OR_AFTER && (!found || at.max_timestamp_ms > ret->max_timestamp_ms);
		if (!is_at_or_after && !is_later)
			continue;
		*ret = at;
		found = true;
		if (is_at_or_after)
			break;
	}
	return found;
}

static bool arena_find_time(struct lookup *l, struct log_time *ret)
{
	const struct log *log = l->span.log;
	if (!is_own(l) || (log->open->n_frames > 0 && log_frame_end(log, 0) <= log->start))
		return arena_search(l, ret);
	if (l->asked->what == LOOKUP_AT_OR_AFTER)
		return log_find_time(log, l->asked->timestamp_ms, ret);
	return log_find_latest(log, ret);
}

/* ------------------------------------------------------------------ the block */

static bool is_wanted(const struct lookup *l, int64_t max_timestamp)
{
	if (l->asked->what == LOOKUP_AT_OR_AFTER)
		return max_timestamp >= l->asked->timestamp_ms;
	return max_timestamp == l->best.max_timestamp;
}

static void note_other(struct lookup *l, const struct record_batch *b)
{
	if (l->has_other && l->other.max_timestamp_ms >= b->max_timestamp)
		return;
	l->has_other = true;
	l->other = (struct log_time){ .base = (uint64_t)b->base_offset, .max_timestamp_ms = b->max_timestamp };
}

/* The first batch among those read that is wanted. */
static bool batches_search(struct lookup *l, const uint8_t *p, size_t n)
{
	struct record_batch b;
	for (size_t at = 0; at < n; at += b.bytes.n) {
		int64_t size = record_batch_size(slice_of(p + at, n - at));
		must(size > 0 && record_batch_read(slice_of(p + at, (size_t)size), &b) == 0);
		if (!is_wanted(l, b.max_timestamp)) {
			note_other(l, &b);
			continue;
		}
		l->asked->found = true;
		l->asked->at = (struct log_time){ .base = (uint64_t)b.base_offset, .max_timestamp_ms = b.max_timestamp };
		return true;
	}
	return false;
}

static bool pieces_search(struct lookup *l, struct engine_read *r)
{
	size_t n = 0, at = 0;
	for (size_t i = 0; i < r->n_pieces; i++)
		n += r->pieces[i].length;
	uint8_t *flat = must_calloc(1, n + 1);
	for (size_t i = 0; i < r->n_pieces; i++) {
		memcpy(flat + at, r->pieces[i].segment->mem.base + r->pieces[i].offset, r->pieces[i].length);
		at += r->pieces[i].length;
		pin_drop(r->pieces[i].pin);
	}
	free(r->pieces);
	bool found = batches_search(l, flat, n);
	free(flat);
	return found;
}

static void block_read(struct lookup *l, uint64_t from);

/* What made the block win is not shown: it lies before the span or behind it. */
static void lookup_anew(struct lookup *l)
{
	if (l->best.end > l->ceiling)
		l->ceiling = l->best.base;
	else
		l->floor = l->best.end;
	l->found = l->has_id = false;
	lookup_go(l);
}

static void on_read(struct engine_read *r, const struct pico_error *error)
{
	struct lookup *l = (struct lookup *)((char *)r - offsetof(struct lookup, read));
	l->reading = false;
	if (error != NULL)
		lookup_end(l, error);
	else if (pieces_search(l, r))
		span_end(l);
	else if (r->end < l->best.end && r->end < l->ceiling)
		block_read(l, r->end);
	else
		lookup_anew(l);
}

static void block_read(struct lookup *l, uint64_t from)
{
	if (from < span_from(l))
		from = span_from(l);
	l->read = (struct engine_read){
		.log = l->log, .from = from, .max_bytes = DATA_BLOCK_MAX, .on_done = on_read,
	};
	l->reading = true;
	engine_read(l->engine, &l->read);
}

/* -------------------------------------------------------------------- the walk */

static void entry_weigh(struct lookup *l, const struct data_index_entry *e)
{
	bool better;
	if (e->end <= span_from(l) || e->base < l->floor || e->base >= l->ceiling)
		return;
	if (l->asked->what == LOOKUP_AT_OR_AFTER)
		better = e->max_timestamp >= l->asked->timestamp_ms && (!l->found || e->base < l->best.base);
	else
		better = !l->found || e->max_timestamp > l->best.max_timestamp ||
			 (e->max_timestamp == l->best.max_timestamp && e->base < l->best.base);
	if (!better)
		return;
	l->found = true;
	l->best = *e;
}

/* false: something is being read. */
static bool object_walk(struct lookup *l)
{
	struct index_cache *index = l->engine->index;
	const uint64_t id = l->span.log->id;
	for (;;) {
		const struct data_top *top = index_cache_top(index, l->id, &l->wait);
		if (top == NULL)
			return false;
		const struct data_page *p = data_top_has(top, id) ? data_top_index_page(top, id, l->offset) : NULL;
		if (p == NULL)
			return true;
		struct slice page = index_cache_index_page(index, l->id, p, &l->wait);
		if (page.n == 0)
			return false;
		struct data_index_entry entry;
		uint64_t before = l->offset;
		while (data_index_page_find(page, id, l->offset, &entry)) {
			entry_weigh(l, &entry);
			l->offset = entry.end;
		}
		if (l->offset == before)
			return true;
	}
}

static bool may_hold(const struct lookup *l, const struct object_row *row)
{
	return !row->marked && row->origin == l->engine->config.node && row->first_log <= l->span.log->id &&
	       row->last_log >= l->span.log->id;
}

/* Every page was looked through. The largest time may also stand in the arena alone. */
static void lookup_settle(struct lookup *l)
{
	struct engine_lookup *asked = l->asked;
	bool is_latest = asked->what != LOOKUP_AT_OR_AFTER, is_best = l->found;
	asked->found = (is_latest || !is_best) && arena_find_time(l, &asked->at);
	if (is_best && is_latest && asked->found && asked->at.max_timestamp_ms > l->best.max_timestamp)
		is_best = false;
	if (is_best && is_latest && l->has_other && l->other.max_timestamp_ms >= l->best.max_timestamp)
		is_best = false;
	if (is_best) {
		asked->found = false;
		block_read(l, l->best.base);
		return;
	}
	if (is_latest && l->has_other && (!asked->found || l->other.max_timestamp_ms >= asked->at.max_timestamp_ms)) {
		asked->found = true;
		asked->at = l->other;
	}
	span_end(l);
}

static void lookup_gone(struct lookup *l)
{
	struct pico_error error;
	pico_error_set(&error, PICO_NOT_FOUND, "stream is deleted");
	lookup_end(l, &error);
}

static void lookup_go(struct lookup *l)
{
	const struct catalogue *c = engine_catalogue(l->engine);
	if (l->log->gone) {
		lookup_gone(l);
		return;
	}
	for (;;) {
		if (l->inside && !object_walk(l))
			return;
		l->inside = false;
		const struct object_row *row = catalogue_next(c, l->has_id ? &l->id : NULL);
		while (row != NULL && !may_hold(l, row))
			row = catalogue_next(c, &row->id);
		if (row == NULL)
			break;
		l->id = row->id;
		l->has_id = l->inside = true;
		l->offset = 0;
	}
	lookup_settle(l);
}

/* An object that went meanwhile was moved by a commit; its records come later in the walk. */
static void on_index(struct index_wait *w, const char *fault, bool missing)
{
	struct lookup *l = (struct lookup *)((char *)w - offsetof(struct lookup, wait));
	const struct object_row *row = catalogue_find(engine_catalogue(l->engine), l->id);
	char key[DATA_KEY_MAX];
	data_key(key, l->id);
	if (fault != NULL && (!missing || (row != NULL && !row->marked))) {
		lookup_fail(l, key, fault);
		return;
	}
	if (fault != NULL)
		l->inside = false;
	lookup_go(l);
}

void engine_lookup(struct engine *e, struct engine_lookup *asked)
{
	struct lookup *l = must_calloc(1, sizeof(*l));
	*l = (struct lookup){ .asked = asked, .engine = e, .log = asked->log, .wait = { .on_ready = on_index } };
	log_table_ref(&e->logs, l->log);
	l->next = e->lookups;
	l->prev = &e->lookups;
	if (e->lookups != NULL)
		e->lookups->prev = &l->next;
	e->lookups = l;
	asked->engine = e;
	asked->impl = l;
	asked->found = false;
	span_begin(l, l->log->start);
	lookup_go(l);
}

void engine_lookup_cancel(struct engine_lookup *asked)
{
	struct lookup *l = asked->impl;
	if (l == NULL)
		return;
	if (l->reading)
		engine_read_cancel(l->engine, &l->read);
	lookup_free(l);
}

void lookup_forget_all(struct engine *e)
{
	while (e->lookups != NULL)
		engine_lookup_cancel(e->lookups->asked);
}
