/* SPDX-License-Identifier: Apache-2.0
 *
 * Object by object: its top, then its state pages, which stand one behind the other, some mebibytes a GET. Of an entry
 * only the end of the log is read; all else is when the log is loaded.
 */
#include "storaged/engine/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/backoff.h"

#define FAULTS_MAX 5u

struct scan {
	struct engine *engine;
	void (*on_scanned)(struct engine *e);
	struct object_id id;            /* at hand */
	bool has_id;
	struct index_wait wait;
	struct data_page *pages;        /* state pages of it; a copy */
	size_t n_pages, page, page_end; /* [page, page_end) are being read */
	uint32_t backoff_ms, n_faults;
	struct env_timer timer;
	struct env_task task;
	char fault[300];
};

static void scan_next(struct scan *s);
static void scan_pages(struct scan *s);

/* ------------------------------------------------------------------- trouble */

static void scan_fatal(struct scan *s, const char *fault)
{
	char key[DATA_KEY_MAX], text[400];
	data_key(key, s->id);
	snprintf(text, sizeof(text), "data object %s in %s: %s", key, s->engine->data->url, fault);
	engine_fatal(s->engine, 1, text);
}

static void on_again(void *arg)
{
	scan_pages(arg);
}

static void scan_wait(struct scan *s)
{
	struct env *env = s->engine->env;
	s->timer = (struct env_timer){ .on_fire = on_again, .arg = s };
	env_timer_start(env, &s->timer, backoff_next(env, &backoff_read, &s->backoff_ms));
}

/* -------------------------------------------------------------------- entries */

/* Entries come in any order. Offsets of a log rise over its epochs, so the one that reaches farthest is the newest. */
static const char *entry_take(struct scan *s, uint64_t log_id, struct slice bytes)
{
	struct log *log = log_table_find(&s->engine->logs, log_id);
	struct data_state_brief brief;
	if (log == NULL)
		return NULL;
	if (!data_state_peek(bytes, &brief))
		return "a state entry is malformed";
	must(!log->is_open);
	log->stored = true;
	log->closed |= brief.closed;
	if (brief.next > log->next)
		log->next = brief.next;
	if (brief.last_append_ms > log->last_ms)
		log->last_ms = brief.last_append_ms;
	return NULL;
}

static const char *page_take(struct scan *s, struct slice bytes, const struct data_page *p)
{
	const char *fault = data_state_page_check(bytes, p);
	size_t position = 0;
	uint64_t log_id;
	struct slice entry;
	while (fault == NULL && data_state_page_next(bytes, &position, &log_id, &entry))
		fault = entry_take(s, log_id, entry);
	return fault;
}

/* ---------------------------------------------------------------------- pages */

static void scan_damaged(struct scan *s, const char *fault)
{
	if (++s->n_faults < FAULTS_MAX)
		scan_wait(s);
	else
		scan_fatal(s, fault);
}

/* Whole or not at all: a page is taken when all of the GET are good. */
static const char *pages_check(const struct scan *s, struct slice data)
{
	uint64_t begin = s->pages[s->page].position;
	const struct data_page *last = &s->pages[s->page_end - 1];
	if (data.n != last->position + last->length - begin)
		return "it is shorter than it was";
	for (size_t i = s->page; i < s->page_end; i++) {
		const struct data_page *p = &s->pages[i];
		const char *fault = data_state_page_check(slice_of(data.p + (p->position - begin), p->length), p);
		if (fault != NULL)
			return fault;
	}
	return NULL;
}

static void pages_take(struct scan *s, struct slice data)
{
	uint64_t begin = s->pages[s->page].position;
	for (; s->page < s->page_end; s->page++) {
		const struct data_page *p = &s->pages[s->page];
		const char *fault = page_take(s, slice_of(data.p + (p->position - begin), p->length), p);
		if (fault != NULL) {
			scan_fatal(s, fault);
			return;
		}
	}
	s->n_faults = 0;
	s->backoff_ms = 0;
	scan_pages(s);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct scan *s = arg;
	if (!wal_may_look(&s->engine->wal))
		return;
	if (result.outcome == OUTCOME_OK) {
		s->fault[0] = '\0';
		metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
		const char *fault = pages_check(s, data);
		if (fault == NULL)
			pages_take(s, data);
		else
			scan_damaged(s, fault);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && (result.err == -ENOENT || result.err == -ERANGE)) {
		scan_fatal(s, "it is missing or cut off, but the catalogue holds it: somebody deleted it; restore it from a backup");
	} else {
		snprintf(s->fault, sizeof(s->fault), "%s: %s", result.what != NULL ? result.what : s->engine->data->url,
			 strerror(-result.err));
		scan_wait(s);
	}
}

/* The next GET of state pages, or the next object. */
static void scan_pages(struct scan *s)
{
	char key[DATA_KEY_MAX];
	if (s->page == s->n_pages) {
		scan_next(s);
		return;
	}
	uint64_t begin = s->pages[s->page].position, length = 0;
	for (s->page_end = s->page; s->page_end < s->n_pages; s->page_end++) {
		const struct data_page *p = &s->pages[s->page_end];
		if (length > 0 && p->position + p->length - begin > bounds.scan_bytes)
			break;
		length = p->position + p->length - begin;
	}
	data_key(key, s->id);
	metric_add(METRIC_STORE_GETS, 1);
	objstore_get(s->engine->data, key, begin, length, on_got, s);
}

/* -------------------------------------------------------------------- objects */

static void scan_object(struct scan *s)
{
	const struct data_top *top = index_cache_top(s->engine->index, s->id, &s->wait);
	if (top == NULL)
		return;
	free(s->pages);
	s->pages = must_memdup(top->state, top->n_state * sizeof(*s->pages));
	s->n_pages = top->n_state;
	s->page = 0;
	scan_pages(s);
}

static void on_top(struct index_wait *w, const char *fault, bool missing)
{
	struct scan *s = (struct scan *)((char *)w - offsetof(struct scan, wait));
	if (s->engine->dead)
		return;
	if (fault == NULL)
		scan_object(s);
	else
		scan_fatal(s, missing ? "it is missing, but the catalogue holds it: somebody deleted it; restore it from a backup"
				      : fault);
}

static void on_end(void *arg)
{
	struct scan *s = arg;
	if (!s->engine->dead)
		s->on_scanned(s->engine);
}

static void scan_next(struct scan *s)
{
	struct engine *e = s->engine;
	const struct object_row *row = catalogue_next(engine_catalogue(e), s->has_id ? &s->id : NULL);
	while (row != NULL && (row->marked || row->origin != e->config.node || row->level == DATA_LEVEL_SINGLE))
		row = catalogue_next(engine_catalogue(e), &row->id);
	if (row == NULL) {
		env_defer(e->env, &s->task);
		return;
	}
	s->id = row->id;
	s->has_id = true;
	scan_object(s);
}

struct scan *scan_start(struct engine *e, void (*on_scanned)(struct engine *e))
{
	struct scan *s = must_calloc(1, sizeof(*s));
	s->engine = e;
	s->on_scanned = on_scanned;
	s->wait.on_ready = on_top;
	s->task = (struct env_task){ .run = on_end, .arg = s };
	scan_next(s);
	return s;
}

void scan_free(struct scan *s)
{
	if (s == NULL)
		return;
	env_timer_stop(s->engine->env, &s->timer);
	index_wait_stop(&s->wait);
	free(s->pages);
	free(s);
}

const char *scan_fault(const struct scan *s)
{
	return s != NULL && s->fault[0] != '\0' ? s->fault : NULL;
}
