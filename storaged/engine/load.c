/* SPDX-License-Identifier: Apache-2.0
 *
 * Object by object: its top, then its state pages, which stand one behind the other, some mebibytes a GET. Entries
 * are kept decoded until all are there, then folded, a few logs a turn.
 */
#include "storaged/engine/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/backoff.h"
#include "storaged/engine/log_state.h"

#define GET_MAX (8u << 20)
#define FOLDS_A_TURN 4096u
#define FAULTS_MAX 5u

/* The entries of one log, as they came. */
struct loaded {
	struct log *log;
	Frame__State **entries;
	uint32_t n, capacity;
};

struct load {
	struct engine *engine;
	void (*on_loaded)(struct engine *e);
	struct object_id id;            /* at hand */
	bool has_id;
	struct index_wait wait;
	struct data_page *pages;        /* state pages of it; a copy */
	size_t n_pages, page, page_end; /* [page, page_end) are being read */
	struct loaded *logs;
	size_t n_logs, capacity, n_folded;
	uint32_t backoff_ms, n_faults;
	struct env_timer timer;
	struct env_task task;
	char fault[300];
};

static void load_next(struct load *l);
static void load_pages(struct load *l);

/* ------------------------------------------------------------------- trouble */

static void load_fatal(struct load *l, const char *fault)
{
	char key[DATA_KEY_MAX], text[400];
	data_key(key, l->id);
	snprintf(text, sizeof(text), "data object %s in %s: %s", key, l->engine->data->url, fault);
	engine_fatal(l->engine, 1, text);
}

static void on_again(void *arg)
{
	load_pages(arg);
}

static void load_wait(struct load *l)
{
	struct env *env = l->engine->env;
	l->timer = (struct env_timer){ .on_fire = on_again, .arg = l };
	env_timer_start(env, &l->timer, backoff_next(env, &backoff_read, &l->backoff_ms));
}

/* ---------------------------------------------------------------------- fold */

/* The newest complete entry; before folding makes more of them complete. */
static void note_complete(struct log *log, const struct loaded *x)
{
	const Frame__State *newest = NULL;
	for (uint32_t i = 0; i < x->n; i++)
		if (x->entries[i]->complete && (newest == NULL || data_state_compare(x->entries[i], newest) > 0))
			newest = x->entries[i];
	if (newest == NULL)
		return;
	log->complete_epoch = newest->epoch;
	log->complete_next = newest->next;
}

/* The newest entry with all that older ones add; NULL and what is wrong. Takes the entries. */
static Frame__State *entries_fold(struct loaded *x, const char **ret_fault)
{
	note_complete(x->log, x);
	*ret_fault = data_state_fold_all(x->entries, x->n);
	Frame__State *newest = x->entries[0];
	if (*ret_fault == NULL && !newest->complete)
		*ret_fault = "none of its state entries is complete";
	free(x->entries);
	x->entries = NULL;
	x->n = 0;
	if (*ret_fault == NULL)
		return newest;
	data_state_free(newest);
	return NULL;
}

/* How many entries in a row are not complete: what the newest one said before anything was folded into it. */
static uint32_t entries_incomplete(const struct loaded *x)
{
	const Frame__State *newest = x->entries[0];
	for (uint32_t i = 1; i < x->n; i++)
		if (data_state_compare(x->entries[i], newest) > 0)
			newest = x->entries[i];
	return newest->n_incomplete;
}

static const char *log_fold(struct loaded *x)
{
	struct log *log = x->log;
	const char *fault;
	log->n_incomplete = entries_incomplete(x);
	Frame__State *now = entries_fold(x, &fault);
	if (now == NULL)
		return fault;
	bool closed = log->submitted.closed || now->closed;
	log_state_load(&log->submitted, now, log->epoch);
	log_state_load(&log->packed, now, log->epoch);
	log->submitted.closed = log->closed = closed;
	log->confirm = log->submitted.next;
	log->has_entry = now->epoch == log->epoch;
	log->pack_slot = 0;
	data_state_free(now);
	return NULL;
}

static void fold_fatal(struct load *l, const struct log *log, const char *fault)
{
	char text[400];
	snprintf(text, sizeof(text), "data objects in %s, log %" PRIu64 ": %s", l->engine->data->url, log->id, fault);
	engine_fatal(l->engine, 1, text);
}

static void on_fold(void *arg)
{
	struct load *l = arg;
	for (unsigned n = 0; !l->engine->dead && n < FOLDS_A_TURN && l->n_folded < l->n_logs; n++) {
		struct loaded *x = &l->logs[l->n_folded++];
		const char *fault = log_fold(x);
		if (fault != NULL)
			fold_fatal(l, x->log, fault);
	}
	if (l->engine->dead)
		return;
	if (l->n_folded < l->n_logs)
		env_defer(l->engine->env, &l->task);
	else
		l->on_loaded(l->engine);
}

/* -------------------------------------------------------------------- entries */

/* pack_slot serves as the index: nothing is packed before everything is loaded. */
static struct loaded *loaded_of(struct load *l, struct log *log)
{
	if (log->pack_slot != 0)
		return &l->logs[log->pack_slot - 1];
	if (l->n_logs == l->capacity) {
		l->capacity = l->capacity == 0 ? 64 : l->capacity * 2;
		l->logs = must_realloc(l->logs, l->capacity * sizeof(*l->logs));
	}
	l->logs[l->n_logs++] = (struct loaded){ .log = log };
	log->pack_slot = (uint32_t)l->n_logs;
	return &l->logs[l->n_logs - 1];
}

static const char *entry_take(struct load *l, uint64_t log_id, struct slice bytes)
{
	struct log *log = log_table_find(&l->engine->logs, log_id);
	const char *fault;
	if (log == NULL)
		return NULL;
	Frame__State *entry = data_state_decode(bytes, log_id, &fault);
	if (entry == NULL)
		return fault;
	struct loaded *x = loaded_of(l, log);
	if (x->n == x->capacity) {
		x->capacity = x->capacity == 0 ? 2 : x->capacity * 2;
		x->entries = must_realloc(x->entries, x->capacity * sizeof(*x->entries));
	}
	x->entries[x->n++] = entry;
	return NULL;
}

static const char *page_take(struct load *l, struct slice bytes, const struct data_page *p)
{
	const char *fault = data_state_page_check(bytes, p);
	size_t position = 0;
	uint64_t log_id;
	struct slice entry;
	while (fault == NULL && data_state_page_next(bytes, &position, &log_id, &entry))
		fault = entry_take(l, log_id, entry);
	return fault;
}

/* ---------------------------------------------------------------------- pages */

static void load_damaged(struct load *l, const char *fault)
{
	if (++l->n_faults < FAULTS_MAX)
		load_wait(l);
	else
		load_fatal(l, fault);
}

/* Whole or not at all: a page is taken when all of the GET are good. */
static const char *pages_check(const struct load *l, struct slice data)
{
	uint64_t begin = l->pages[l->page].position;
	const struct data_page *last = &l->pages[l->page_end - 1];
	if (data.n != last->position + last->length - begin)
		return "it is shorter than it was";
	for (size_t i = l->page; i < l->page_end; i++) {
		const struct data_page *p = &l->pages[i];
		const char *fault = data_state_page_check(slice_of(data.p + (p->position - begin), p->length), p);
		if (fault != NULL)
			return fault;
	}
	return NULL;
}

static void pages_take(struct load *l, struct slice data)
{
	uint64_t begin = l->pages[l->page].position;
	for (; l->page < l->page_end; l->page++) {
		const struct data_page *p = &l->pages[l->page];
		const char *fault = page_take(l, slice_of(data.p + (p->position - begin), p->length), p);
		if (fault != NULL) {
			load_fatal(l, fault);
			return;
		}
	}
	l->n_faults = 0;
	l->backoff_ms = 0;
	load_pages(l);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct load *l = arg;
	if (!wal_may_look(&l->engine->wal))
		return;
	if (result.outcome == OUTCOME_OK) {
		l->fault[0] = '\0';
		metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
		const char *fault = pages_check(l, data);
		if (fault == NULL)
			pages_take(l, data);
		else
			load_damaged(l, fault);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && (result.err == -ENOENT || result.err == -ERANGE)) {
		load_fatal(l, "it is missing or cut off, but the catalogue holds it: somebody deleted it; restore it from a backup");
	} else {
		snprintf(l->fault, sizeof(l->fault), "%s: %s", result.what != NULL ? result.what : l->engine->data->url,
			 strerror(-result.err));
		load_wait(l);
	}
}

/* The next GET of state pages, or the next object. */
static void load_pages(struct load *l)
{
	char key[DATA_KEY_MAX];
	if (l->page == l->n_pages) {
		load_next(l);
		return;
	}
	uint64_t begin = l->pages[l->page].position, length = 0;
	for (l->page_end = l->page; l->page_end < l->n_pages; l->page_end++) {
		const struct data_page *p = &l->pages[l->page_end];
		if (length > 0 && p->position + p->length - begin > GET_MAX)
			break;
		length = p->position + p->length - begin;
	}
	data_key(key, l->id);
	metric_add(METRIC_STORE_GETS, 1);
	objstore_get(l->engine->data, key, begin, length, on_got, l);
}

/* -------------------------------------------------------------------- objects */

static void load_object(struct load *l)
{
	const struct data_top *top = index_cache_top(l->engine->index, l->id, &l->wait);
	if (top == NULL)
		return;
	free(l->pages);
	l->pages = must_memdup(top->state, top->n_state * sizeof(*l->pages));
	l->n_pages = top->n_state;
	l->page = 0;
	load_pages(l);
}

static void on_top(struct index_wait *w, const char *fault, bool missing)
{
	struct load *l = (struct load *)((char *)w - offsetof(struct load, wait));
	if (l->engine->dead)
		return;
	if (fault == NULL)
		load_object(l);
	else
		load_fatal(l, missing ? "it is missing, but the catalogue holds it: somebody deleted it; restore it from a backup"
				      : fault);
}

static void load_next(struct load *l)
{
	struct engine *e = l->engine;
	const struct object_row *row = catalogue_next(engine_catalogue(e), l->has_id ? &l->id : NULL);
	while (row != NULL && (row->marked || row->origin != e->config.node || row->level == DATA_LEVEL_SINGLE))
		row = catalogue_next(engine_catalogue(e), &row->id);
	if (row == NULL) {
		env_defer(e->env, &l->task);
		return;
	}
	l->id = row->id;
	l->has_id = true;
	load_object(l);
}

struct load *load_start(struct engine *e, void (*on_loaded)(struct engine *e))
{
	struct load *l = must_calloc(1, sizeof(*l));
	l->engine = e;
	l->on_loaded = on_loaded;
	l->wait.on_ready = on_top;
	l->task = (struct env_task){ .run = on_fold, .arg = l };
	load_next(l);
	return l;
}

void load_free(struct load *l)
{
	if (l == NULL)
		return;
	env_timer_stop(l->engine->env, &l->timer);
	index_wait_stop(&l->wait);
	for (size_t i = 0; i < l->n_logs; i++) {
		for (uint32_t k = 0; k < l->logs[i].n; k++)
			data_state_free(l->logs[i].entries[k]);
		free(l->logs[i].entries);
	}
	free(l->logs);
	free(l->pages);
	free(l);
}

const char *load_fault(const struct load *l)
{
	return l != NULL && l->fault[0] != '\0' ? l->fault : NULL;
}
