/* SPDX-License-Identifier: Apache-2.0
 *
 * Submit: Kafka clients' batches as they are, many partitions in one call. Every part is given to the engine before
 * any is awaited, so that they share a WAL object; the answer goes when the last one is durable or refused.
 */
#include <stdlib.h>

#include "storaged/expiry.h"
#include "storaged/parts.h"

#define SUBMIT_PARTS_MAX 10000u

struct submit_part {
	struct engine_append append;
	Ipc__SubmitAnswer__Part answer;
	struct part_error *error;       /* owned */
	bool under_way;
};

struct submit {
	size_t n, n_left;
	struct submit_part part[];
};

static void submit_free(struct op *op)
{
	struct submit *s = op->own;
	for (size_t i = 0; i < s->n; i++)
		free(s->part[i].error);
	free(s);
}

static void submit_answer(struct op *op)
{
	struct submit *s = op->own;
	Ipc__SubmitAnswer a = IPC__SUBMIT_ANSWER__INIT;
	a.n_part = s->n;
	a.part = must_calloc(s->n, sizeof(*a.part));
	for (size_t i = 0; i < s->n; i++) {
		a.part[i] = &s->part[i].answer;
		if (s->part[i].error != NULL)
			a.part[i]->error = &s->part[i].error->m;
	}
	Ipc__SubmitAnswer__Part **part = a.part;
	op_answer(op, &a.base);
	free(part);
}

/* One part less to wait for; the last one answers. */
static void submit_settle(struct op *op)
{
	struct submit *s = op->own;
	must(s->n_left > 0);
	if (--s->n_left == 0 && op->call != NULL)
		submit_answer(op);
	op_unref(op);
}

static void part_fail(struct submit_part *p, const struct pico_error *error)
{
	must(p->error == NULL);
	p->error = part_error_new(error);
}

static void on_part_done(struct engine_append *a, const struct pico_error *error)
{
	struct op *op = a->owner;
	must(op->magic == OP_MAGIC);
	struct submit_part *p = (struct submit_part *)((char *)a - offsetof(struct submit_part, append));
	p->under_way = false;
	if (error != NULL) {
		part_fail(p, error);
	} else {
		p->answer.base_offset = a->base_offset;
		p->answer.log_start = log_start(a->log);
		p->answer.duplicate = a->duplicate;
		if (a->log_append_time && !a->duplicate)
			p->answer.log_append_time_ms = a->timestamp_ms;
	}
	submit_settle(op);
}

static void part_submit(struct op *op, struct submit_part *p, const Ipc__SubmitRequest__Part *r, struct slice batch)
{
	struct node *n = op->node;
	struct pico_error e;
	const struct state_topic *t;
	struct log *log = part_find_log(n, r->topic_id.data, r->topic_id.len, r->partition, &t, &e);
	if (log != NULL && r->settings_version != 0 && r->settings_version < t->settings_version) {
		pico_error_set(&e, PICO_STALE_TOPIC, "the stream's settings changed");
		log = NULL;
	}
	if (log == NULL) {
		part_fail(p, &e);
		submit_settle(op);
		return;
	}
	expiry_touch(n, t);
	p->under_way = true;
	p->append = (struct engine_append){
		.log = log, .payload = batch, .as_is = true, .log_append_time = r->log_append_time,
		.worker_instance = op->call->worker_instance, .request_id = op->call->request_id,
		.deadline_ms = op->call->deadline_ms, .on_done = on_part_done, .owner = op,
	};
	engine_append(n->engine, &p->append);
}

/* What is not in the arena yet is given up; what is goes on, and is answered when it is stored. */
static void submit_cancel(struct op *op)
{
	struct submit *s = op->own;
	struct pico_error e;
	pico_error_set(&e, PICO_CANCELLED, "cancelled");
	op->refs++;
	for (size_t i = 0; i < s->n; i++) {
		struct submit_part *p = &s->part[i];
		if (!p->under_way || !engine_append_cancel(op->node->engine, &p->append))
			continue;
		p->under_way = false;
		part_fail(p, &e);
		submit_settle(op);
	}
	op_unref(op);
}

/* NULL, or what is wrong with the request as a whole. */
static const char *submit_fault(const Ipc__SubmitRequest *r, struct slice payload)
{
	uint64_t bytes = 0;
	if (r->n_part == 0 || r->n_part > SUBMIT_PARTS_MAX)
		return "a submit has 1 to 10,000 parts";
	for (size_t i = 0; i < r->n_part; i++) {
		if (r->part[i]->length == 0)
			return "a part without a batch";
		bytes += r->part[i]->length;
	}
	return bytes == payload.n ? NULL : "the parts are not as long as the payload";
}

void handle_submit(struct node *n, struct call *c)
{
	const Ipc__SubmitRequest *r = (const Ipc__SubmitRequest *)c->request;
	const char *fault = submit_fault(r, c->payload);
	if (fault != NULL) {
		call_fail(c, PICO_BAD_REQUEST, "%s", fault);
		return;
	}
	struct op *op = op_new(n, c);
	struct submit *s = must_calloc(1, sizeof(*s) + r->n_part * sizeof(s->part[0]));
	s->n = s->n_left = r->n_part;
	op->own = s;
	op->free_own = submit_free;
	op->on_cancel = submit_cancel;
	op->refs = (unsigned)r->n_part;
	for (size_t i = 0; i < s->n; i++) {
		ipc__submit_answer__part__init(&s->part[i].answer);
		s->part[i].answer.log_append_time_ms = -1;
	}
	/* The last settled part may free op: from then on nothing of it is looked at. */
	const uint8_t *at = c->payload.p;
	for (size_t i = 0, n_parts = s->n; i < n_parts; i++) {
		uint32_t length = r->part[i]->length;
		part_submit(op, &s->part[i], r->part[i], slice_of(at, length));
		at += length;
	}
}
