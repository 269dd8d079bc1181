/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of logs by id, and the list of open ones that may be dropped.
 */
#include "storaged/engine/log_table.h"

#include <stdlib.h>

#include "common/metrics.h"
#include "common/must.h"

#define PAGE_LOGS 512u

struct log_page {
	uint32_t n;
	struct log log[PAGE_LOGS];
};

/* -------------------------------------------------------------------- pages */

static struct log *slot_of(const struct log_table *t, uint64_t id)
{
	uint64_t k = id / PAGE_LOGS;
	return k < t->n_pages && t->page[k] != NULL ? &t->page[k]->log[id % PAGE_LOGS] : NULL;
}

struct log *log_table_find(const struct log_table *t, uint64_t id)
{
	struct log *log = slot_of(t, id);
	return log != NULL && log->id != 0 && !log->removed ? log : NULL;
}

struct log *log_table_add(struct log_table *t, uint64_t id)
{
	uint64_t k = id / PAGE_LOGS;
	must(id > 0 && id >> LOG_ID_BITS == 0);
	if (k >= t->n_pages) {
		uint64_t n = k + 1 > 2 * t->n_pages ? k + 1 : 2 * t->n_pages;
		t->page = must_realloc(t->page, n * sizeof(*t->page));
		memset(t->page + t->n_pages, 0, (n - t->n_pages) * sizeof(*t->page));
		t->n_pages = n;
	}
	if (t->page[k] == NULL)
		t->page[k] = must_calloc(1, sizeof(*t->page[k]));
	struct log *log = &t->page[k]->log[id % PAGE_LOGS];
	must(log->id == 0);
	log->id = id;
	t->page[k]->n++;
	t->n++;
	return log;
}

static struct log_parent *parent_find(const struct log_table *t, uint64_t id)
{
	struct log_parent *x;
	HASH_FIND(hh, t->parents, &id, sizeof(id), x);
	return x;
}

static void parent_forget(struct log_table *t, const struct log *log)
{
	struct log_parent *x = log->is_fork ? parent_find(t, log->id) : NULL;
	if (x == NULL)
		return;
	HASH_DEL(t->parents, x);
	free(x);
}

/* Its place is free. */
static void slot_clear(struct log_table *t, struct log *log)
{
	uint64_t k = log->id / PAGE_LOGS;
	must(!log->is_open);
	parent_forget(t, log);
	*log = (struct log){ 0 };
	t->n--;
	if (--t->page[k]->n > 0)
		return;
	free(t->page[k]);
	t->page[k] = NULL;
}

void log_table_each(struct log_table *t, void (*each)(struct log *log))
{
	for (uint64_t k = 0; k < t->n_pages; k++)
		for (uint32_t i = 0; t->page[k] != NULL && i < PAGE_LOGS; i++)
			if (t->page[k]->log[i].id != 0 && !t->page[k]->log[i].removed)
				each(&t->page[k]->log[i]);
}

struct log *log_table_next_open(const struct log_table *t, uint64_t *id, unsigned n_pages)
{
	for (uint64_t k = *id / PAGE_LOGS; k < t->n_pages && n_pages > 0; k++) {
		n_pages -= t->page[k] != NULL;
		for (uint32_t i = *id % PAGE_LOGS; t->page[k] != NULL && i < PAGE_LOGS; i++) {
			*id = k * PAGE_LOGS + i;
			if (t->page[k]->log[i].is_open)
				return &t->page[k]->log[i];
		}
		*id = (k + 1) * PAGE_LOGS;
	}
	return NULL;
}

void log_table_done(struct log_table *t)
{
	for (uint64_t k = 0; k < t->n_pages; k++) {
		for (uint32_t i = 0; t->page[k] != NULL && i < PAGE_LOGS; i++) {
			struct log *log = &t->page[k]->log[i];
			if (!log->is_open)
				continue;
			log->open->refs = 0;
			log_open_done(log->open);
			free(log->open);
		}
		free(t->page[k]);
	}
	free(t->page);
	while (t->parents != NULL) {
		struct log_parent *x = t->parents;
		HASH_DEL(t->parents, x);
		free(x);
	}
	*t = (struct log_table){ .open_max = t->open_max };
}

/* -------------------------------------------------------------------- forks */

void log_table_set_parent(struct log_table *t, struct log *log, uint64_t parent_id, uint64_t parent_end)
{
	must(!log->is_fork);
	struct log_parent *x = must_calloc(1, sizeof(*x));
	x->log_id = log->id;
	x->id = parent_id;
	x->end = parent_end;
	log->is_fork = true;
	HASH_ADD(hh, t->parents, log_id, sizeof(x->log_id), x);
}

const struct log_parent *log_table_parent(const struct log_table *t, const struct log *log)
{
	return log->is_fork ? parent_find(t, log->id) : NULL;
}

struct log_span log_span_at(const struct log_table *t, struct log *log, uint64_t offset)
{
	struct log_span s = { .log = log, .from = log->start, .to = log_confirm(log) };
	const struct log_parent *x = log_table_parent(t, log);
	must(offset >= log->start && offset <= s.to);
	for (; x != NULL && offset < x->end; x = log_table_parent(t, s.log)) {
		if (x->end < s.to)
			s.to = x->end;
		s.log = log_table_find(t, x->id);
		must(s.log != NULL);
	}
	if (x != NULL && s.from < x->end)
		s.from = x->end;
	return s;
}

/* ------------------------------------------------------------- open and dropped */

static void list_push(struct log_open *o)
{
	struct log_table *t = o->table;
	o->older = t->newest;
	o->newer = NULL;
	*(t->newest != NULL ? &t->newest->newer : &t->oldest) = o;
	t->newest = o;
	o->may_drop = true;
}

static void list_remove(struct log_open *o)
{
	struct log_table *t = o->table;
	*(o->older != NULL ? &o->older->newer : &t->oldest) = o->newer;
	*(o->newer != NULL ? &o->newer->older : &t->newest) = o->older;
	o->older = o->newer = NULL;
	o->may_drop = false;
}

static bool is_needed(const struct log_open *o)
{
	return o->refs > 0 || (o->n_unpacked > 0 && !o->log->removed) || o->waits != NULL || o->late_waits != NULL;
}

/* What is known of its end stays. */
static void log_drop(struct log_open *o)
{
	struct log *log = o->log;
	struct log_table *t = o->table;
	must(!is_needed(o));
	must(log->removed || (o->n_replay == 0 && o->confirm == o->submitted.next && o->packed.next == o->submitted.next));
	if (o->may_drop)
		list_remove(o);
	log_unpacked_remove(o, o->n_unpacked);
	metric_add(METRIC_LOGS_DROPPED, o->loaded && !log->removed);
	log->is_open = false;
	log->next = o->submitted.next;
	log->last_ms = o->submitted.last_time;
	must(log->last_ms == o->submitted.last_time);
	log_open_done(o);
	free(o);
	metric_set(METRIC_LOGS_OPEN, --t->n_open);
}

struct log_open *log_table_open(struct log_table *t, struct log *log)
{
	must(log->id != 0);
	if (log->is_open)
		return log->open;
	while (t->n_open >= t->open_max && t->oldest != NULL)
		log_drop(t->oldest);
	struct log_open *o = must_calloc(1, sizeof(*o));
	o->log = log;
	o->table = t;
	o->confirm = o->submitted.next = o->packed.next = log->next;
	o->submitted.last_time = o->packed.last_time = log->last_ms;
	log->open = o;
	log->is_open = true;
	metric_set(METRIC_LOGS_OPEN, ++t->n_open);
	return o;
}

/* A part without anything that was read for it is worth nothing. */
void log_release(struct log *log)
{
	struct log_open *o = log->open;
	if (!log->is_open || is_needed(o))
		return;
	struct log_table *t = o->table;
	if (log->removed) {
		log_drop(o);
		slot_clear(t, log);
	} else if (!o->loaded && o->n_frames == 0) {
		log_drop(o);
	} else {
		log_touch(o);
		if (t->n_open > t->open_max)
			log_drop(t->oldest);
	}
}

void log_touch(struct log_open *o)
{
	if (o->may_drop)
		list_remove(o);
	if (!is_needed(o))
		list_push(o);
}

void log_table_ref(struct log_table *t, struct log *log)
{
	struct log_open *o = log_table_open(t, log);
	must(o->refs < UINT32_MAX);
	o->refs++;
	if (o->may_drop)
		list_remove(o);
}

void log_unref(struct log *log)
{
	must(log->is_open && log->open->refs > 0);
	if (--log->open->refs == 0)
		log_release(log);
}

void log_unpacked_add(struct log_open *o, uint32_t n)
{
	o->table->n_unpacked += o->n_unpacked == 0 && n > 0;
	o->n_unpacked += n;
}

void log_unpacked_remove(struct log_open *o, uint32_t n)
{
	must(o->n_unpacked >= n);
	o->n_unpacked -= n;
	o->table->n_unpacked -= o->n_unpacked == 0 && n > 0;
}
