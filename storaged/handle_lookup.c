/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup: the ends of many logs, and where a time is. storaged does not decompress, so it names the batch; the
 * worker looks inside. Ends are answered from memory; a time may need the index of what is packed. Everything rests on
 * what is durable.
 */
#include <stdlib.h>

#include "storaged/parts.h"

struct lookup_part {
	struct op *op;
	struct engine_lookup lookup;
	bool looking;
	Ipc__LookupAnswer__Part answer;
	struct part_error *error;
};

struct lookup_op {
	size_t n, n_left;               /* left: looking, and one for the handler itself */
	struct lookup_part *part;
};

static void lookup_free_own(struct op *op)
{
	struct lookup_op *l = op->own;
	for (size_t i = 0; i < l->n; i++) {
		engine_lookup_cancel(&l->part[i].lookup);
		free(l->part[i].error);
	}
	free(l->part);
	free(l);
}

static void lookup_answer(struct op *op)
{
	struct lookup_op *l = op->own;
	Ipc__LookupAnswer a = IPC__LOOKUP_ANSWER__INIT;
	a.n_part = l->n;
	a.part = must_calloc(l->n, sizeof(*a.part));
	for (size_t i = 0; i < l->n; i++) {
		struct lookup_part *p = &l->part[i];
		p->answer.error = p->error != NULL ? &p->error->m : NULL;
		a.part[i] = &p->answer;
	}
	op_answer(op, &a.base);
	free(a.part);
}

static void lookup_settle(struct op *op)
{
	struct lookup_op *l = op->own;
	must(l->n_left > 0);
	if (--l->n_left > 0)
		return;
	if (op->call != NULL)
		lookup_answer(op);
	op_unref(op);
}

static void on_found(struct engine_lookup *x, const struct pico_error *error)
{
	struct lookup_part *p = (struct lookup_part *)((char *)x - offsetof(struct lookup_part, lookup));
	p->looking = false;
	if (error != NULL) {
		p->error = part_error_new(error);
	} else if (x->found) {
		uint64_t start = log_start(x->log);
		p->answer.found = true;
		p->answer.offset = x->at.base > start ? x->at.base : start;
		p->answer.max_timestamp_ms = x->at.max_timestamp_ms;
	}
	lookup_settle(p->op);
}

static void lookup_give_up(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	struct lookup_op *l = op->own;
	pico_error_set(&e, kind, "%s", text);
	for (size_t i = 0; i < l->n; i++) {
		l->n_left -= l->part[i].looking;
		l->part[i].looking = false;
		engine_lookup_cancel(&l->part[i].lookup);
	}
	op_fail(op, &e);
	must(l->n_left == 0);
	op_unref(op);
}

static void lookup_cancel(struct op *op)
{
	lookup_give_up(op, PICO_CANCELLED, "cancelled");
}

static void lookup_deadline(struct op *op)
{
	lookup_give_up(op, PICO_UNAVAILABLE, "storage did not answer in time");
}

static struct part_error *part_epoch_end(const struct log *log, int32_t epoch, Ipc__LookupAnswer__Part *a)
{
	struct pico_error e;
	uint32_t ended;
	enum log_epoch_found found =
		epoch < 0 ? LOG_EPOCH_TO_COME : log_epoch_end(log, (uint32_t)epoch, &ended, &a->offset);
	a->found = found == LOG_EPOCH_ENDS;
	if (a->found)
		a->leader_epoch = (int32_t)ended;
	if (found != LOG_EPOCH_NOT_LOADED)
		return NULL;
	pico_error_set(&e, PICO_UNAVAILABLE, "the log's former epochs are not in memory");
	return part_error_new(&e);
}

/* What is answered at once, or a lookup to begin. */
static struct part_error *part_look(struct node *n, const Ipc__LookupRequest__Part *r, struct lookup_part *p)
{
	struct pico_error e;
	const struct state_topic *t;
	Ipc__LookupAnswer__Part *a = &p->answer;
	struct log *log = part_find_log(n, r->topic_id.data, r->topic_id.len, r->partition, &t, &e);
	if (log == NULL || !part_epoch_is_good(log, r->leader_epoch, &e))
		return part_error_new(&e);
	a->leader_epoch = (int32_t)log_epoch(log);
	p->lookup = (struct engine_lookup){ .log = log, .timestamp_ms = r->timestamp_ms, .on_done = on_found };
	switch (r->what) {
	case IPC__LOOKUP_REQUEST__WHAT__START:
	case IPC__LOOKUP_REQUEST__WHAT__END:
		a->found = true;
		a->offset = r->what == IPC__LOOKUP_REQUEST__WHAT__START ? log_start(log) : log_confirm(log);
		return NULL;
	case IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER:
	case IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP:
		p->lookup.what = r->what == IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER ? LOOKUP_AT_OR_AFTER : LOOKUP_LATEST;
		p->looking = true;
		return NULL;
	case IPC__LOOKUP_REQUEST__WHAT__EPOCH_END:
		return part_epoch_end(log, r->epoch, a);
	default:
		pico_error_set(&e, PICO_BAD_REQUEST, "a lookup of something unknown");
		return part_error_new(&e);
	}
}

void handle_lookup(struct node *n, struct call *c)
{
	const Ipc__LookupRequest *r = (const Ipc__LookupRequest *)c->request;
	if (r->n_part > PARTS_MAX) {
		call_fail(c, PICO_BAD_REQUEST, "a lookup has at most %u parts", PARTS_MAX);
		return;
	}
	struct op *op = op_new(n, c);
	struct lookup_op *l = must_calloc(1, sizeof(*l));
	op->own = l;
	op->free_own = lookup_free_own;
	op->on_cancel = lookup_cancel;
	op->refs = 1;
	l->n = r->n_part;
	l->n_left = 1;
	l->part = must_calloc(l->n, sizeof(*l->part));
	for (size_t i = 0; i < l->n; i++) {
		struct lookup_part *p = &l->part[i];
		p->op = op;
		ipc__lookup_answer__part__init(&p->answer);
		p->error = part_look(n, r->part[i], p);
		l->n_left += p->looking;
	}
	op_arm(op, lookup_deadline);
	for (size_t i = 0; i < l->n; i++)
		if (l->part[i].looking)
			engine_lookup(n->engine, &l->part[i].lookup);
	lookup_settle(op);
}
