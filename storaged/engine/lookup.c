/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups by time. Index entries know the maximum timestamp of their block, so all index pages of the log are looked
 * through, object by object in order of id: a commit meanwhile puts what it moves into objects that come later. The
 * block that wins is read, and in it the batch is found. Without one the batches in the arena are asked. Where the log's
 * start lies inside the block, what made it win may be trimmed: then the walk begins anew behind it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/record_batch.h"
#include "storaged/engine/engine_impl.h"

struct lookup {
	struct engine_lookup *asked;
	struct engine *engine;
	struct lookup *next, **prev;
	struct log *log;                /* one ref */
	struct object_id id;            /* at hand, or the last one that is through */
	bool has_id, inside;            /* inside: the object is not through */
	uint64_t offset;                /* inside: entries that end behind it are next */
	struct index_wait wait;
	uint64_t floor;                 /* blocks that begin below were read in vain */
	bool found;
	struct data_index_entry best;
	bool has_other;                 /* LATEST: the best batch of blocks that were read in vain */
	struct log_time other;
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

static void lookup_anew(struct lookup *l, uint64_t floor)
{
	l->floor = floor;
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
		lookup_end(l, NULL);
	else if (r->end < l->best.end)
		block_read(l, r->end);
	else
		lookup_anew(l, l->best.end);
}

static void block_read(struct lookup *l, uint64_t from)
{
	if (from < l->log->start)
		from = l->log->start;
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
	if (e->end <= l->log->start || e->base < l->floor)
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
	for (;;) {
		const struct data_top *top = index_cache_top(index, l->id, &l->wait);
		if (top == NULL)
			return false;
		const struct data_page *p = data_top_has(top, l->log->id) ? data_top_index_page(top, l->log->id, l->offset) : NULL;
		if (p == NULL)
			return true;
		struct slice page = index_cache_index_page(index, l->id, p, &l->wait);
		if (page.n == 0)
			return false;
		struct data_index_entry entry;
		uint64_t before = l->offset;
		while (data_index_page_find(page, l->log->id, l->offset, &entry)) {
			entry_weigh(l, &entry);
			l->offset = entry.end;
		}
		if (l->offset == before)
			return true;
	}
}

static bool may_hold(const struct lookup *l, const struct object_row *row)
{
	return !row->marked && row->origin == l->engine->config.node && row->first_log <= l->log->id &&
	       row->last_log >= l->log->id;
}

/* Every page was looked through. The largest time may also stand in the arena alone. */
static void lookup_settle(struct lookup *l)
{
	struct engine_lookup *asked = l->asked;
	bool is_latest = asked->what != LOOKUP_AT_OR_AFTER, is_best = l->found;
	asked->found = is_latest ? log_find_latest(l->log, &asked->at)
				 : !is_best && log_find_time(l->log, asked->timestamp_ms, &asked->at);
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
	lookup_end(l, NULL);
}

static void lookup_go(struct lookup *l)
{
	const struct catalogue *c = engine_catalogue(l->engine);
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
