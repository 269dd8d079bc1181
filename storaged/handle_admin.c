/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators ask: the catalogue of data objects, the logs, an export of the metadata. Refused to every worker but
 * the admin one. Lists are pages of what is applied; a page is bounded by number and bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "storaged/data/data_format.h"
#include "storaged/handle.h"

#define PAGE_DEFAULT 1000u
#define PAGE_MAX 10000u
#define LOG_BYTES 80u                   /* at most, of a log in an answer but its name */
#define ANSWER_BYTES_MAX (3u << 20)     /* below IPC_MESSAGE_MAX */

static bool may_ask(struct call *c)
{
	if (!c->admin)
		call_fail(c, PICO_BAD_REQUEST, "%s is for the admin listener's worker alone", c->row->name);
	return c->admin;
}

static size_t page_size(uint32_t limit)
{
	return limit == 0 ? PAGE_DEFAULT : limit > PAGE_MAX ? PAGE_MAX : limit;
}

/* -------------------------------------------------------------------- objects */

struct object_message_page {
	Ipc__ObjectsAnswer__Object m;
	char key[DATA_KEY_MAX];
};

static void object_fill(struct object_message_page *x, const struct object_row *row)
{
	ipc__objects_answer__object__init(&x->m);
	data_key(x->key, row->id);
	x->m.key = x->key;
	x->m.origin = row->origin;
	x->m.level = row->level;
	x->m.run = row->run;
	x->m.first_log = row->first_log;
	x->m.last_log = row->last_log;
	x->m.bytes = row->bytes;
	x->m.oldest_ms = row->oldest_ms;
	x->m.newest_ms = row->newest_ms;
	x->m.first_offset = row->first_offset;
	x->m.end_offset = row->end_offset;
	x->m.marked = row->marked;
	x->m.marked_ms = row->marked_ms;
}

void handle_objects(struct node *n, struct call *c)
{
	const Ipc__ObjectsRequest *r = (const Ipc__ObjectsRequest *)c->request;
	const struct catalogue *catalogue = state_catalogue(meta_state(n->meta));
	struct object_id after;
	if (!may_ask(c))
		return;
	if (r->start_after[0] != '\0' && !data_key_parse(r->start_after, &after)) {
		call_fail(c, PICO_BAD_REQUEST, "start_after is the key of a data object, as the list shows it");
		return;
	}
	size_t limit = page_size(r->limit);
	Ipc__ObjectsAnswer a = IPC__OBJECTS_ANSWER__INIT;
	struct object_message_page *page = must_calloc(limit, sizeof(*page));
	a.objects = must_calloc(limit, sizeof(*a.objects));
	const struct object_row *row = catalogue_next(catalogue, r->start_after[0] != '\0' ? &after : NULL);
	for (; row != NULL && a.n_objects < limit; row = catalogue_next(catalogue, &row->id)) {
		object_fill(&page[a.n_objects], row);
		a.objects[a.n_objects] = &page[a.n_objects].m;
		a.n_objects++;
	}
	a.has_more = row != NULL;
	a.n_catalogued = catalogue_count(catalogue);
	a.bytes = catalogue_bytes(catalogue);
	call_answer(c, &a.base);
	free(a.objects);
	free(page);
}

/* ----------------------------------------------------------------------- logs */

static void log_fill(const struct node *n, const struct state_topic *t, uint32_t partition, Ipc__LogsAnswer__Log *m)
{
	const struct state_partition *p = &t->partition[partition];
	const struct log *log = node_log(n, t, partition);
	ipc__logs_answer__log__init(m);
	m->log_id = p->log_id;
	m->topic = t->name;
	m->partition = partition;
	m->owner = p->owner;
	m->epoch = p->epoch;
	m->start = p->start;
	m->closed = p->closed;
	m->soft_deleted = t->soft_deleted;
	m->local = log != NULL;
	if (log == NULL)
		return;
	m->confirm = log_confirm(log);
	m->next = log_next(log);
	m->closed = log_is_closed(log);
}

void handle_logs(struct node *n, struct call *c)
{
	const Ipc__LogsRequest *r = (const Ipc__LogsRequest *)c->request;
	const struct state *s = meta_state(n->meta);
	if (!may_ask(c))
		return;
	size_t limit = page_size(r->limit), bytes = 0;
	uint64_t id = r->start_after;
	uint32_t partition;
	Ipc__LogsAnswer a = IPC__LOGS_ANSWER__INIT;
	Ipc__LogsAnswer__Log *page = must_calloc(limit, sizeof(*page));
	a.logs = must_calloc(limit, sizeof(*a.logs));
	const struct state_topic *t = state_topic_next_log(s, id, &id, &partition);
	for (; t != NULL && a.n_logs < limit && bytes < ANSWER_BYTES_MAX; t = state_topic_next_log(s, id, &id, &partition)) {
		log_fill(n, t, partition, &page[a.n_logs]);
		bytes += strlen(t->name) + LOG_BYTES;
		a.logs[a.n_logs] = &page[a.n_logs];
		a.n_logs++;
	}
	a.has_more = t != NULL;
	call_answer(c, &a.base);
	free(a.logs);
	free(page);
}

/* --------------------------------------------------------------------- export */

static void on_exported(void *arg, uint64_t idx, uint64_t bytes, const char *fault)
{
	struct op *op = arg;
	struct pico_error e;
	must(op->magic == OP_MAGIC);
	Ipc__ExportAnswer a = IPC__EXPORT_ANSWER__INIT;
	a.idx = idx;
	a.bytes = bytes;
	if (op->call != NULL && fault == NULL) {
		op_answer(op, &a.base);
	} else if (op->call != NULL) {
		pico_error_set(&e, PICO_UNAVAILABLE, "the export was not stored: %.150s", fault);
		op_fail(op, &e);
	}
	op_unref(op);
}

static void export_stop(struct op *op)
{
	struct pico_error e;
	meta_export_forget(op->node->meta);
	pico_error_set(&e, PICO_UNAVAILABLE, "stopping");
	if (op->call != NULL)
		op_fail(op, &e);
	op_unref(op);
}

void handle_export(struct node *n, struct call *c)
{
	struct pico_error e;
	if (!may_ask(c))
		return;
	struct op *op = op_new(n, c);
	op->on_stop = export_stop;
	op->refs++;
	if (meta_export_now(n->meta, on_exported, op) == 0) {
		op_arm(op, op_deadline_unknown);
		return;
	}
	pico_error_set(&e, PICO_THROTTLED, "an export is being written; ask again");
	op_fail(op, &e);
	op_unref(op);
}
