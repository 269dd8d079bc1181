/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeLogs: how many bytes of each log are kept, and who writes to it. Logs that are idle are read for it, a few at a
 * time, so this is for people and not for programs that ask all the time.
 */
#include <stdlib.h>

#include "storaged/engine/engine_describe.h"
#include "storaged/parts.h"

#define PRODUCERS_MAX 100000u           /* of an answer; a message has room for them */

struct describe_part {
	struct op *op;
	struct engine_describe describe;
	bool looking;
	Ipc__DescribeLogsAnswer__Part answer;
	Ipc__DescribeLogsAnswer__Producer *producer;    /* owned, as the list in the answer is */
	struct part_error *error;
};

struct describe_op {
	size_t n, n_left;               /* left: looking, and one for the handler itself */
	size_t n_producers;
	bool producers;
	struct describe_part *part;
};

static void describe_free_own(struct op *op)
{
	struct describe_op *d = op->own;
	for (size_t i = 0; i < d->n; i++) {
		engine_describe_cancel(&d->part[i].describe);
		free(d->part[i].answer.producer);
		free(d->part[i].producer);
		free(d->part[i].error);
	}
	free(d->part);
	free(d);
}

static void describe_answer(struct op *op)
{
	struct describe_op *d = op->own;
	Ipc__DescribeLogsAnswer a = IPC__DESCRIBE_LOGS_ANSWER__INIT;
	a.n_part = d->n;
	a.part = must_calloc(d->n, sizeof(*a.part));
	for (size_t i = 0; i < d->n; i++) {
		struct describe_part *p = &d->part[i];
		p->answer.error = p->error != NULL ? &p->error->m : NULL;
		a.part[i] = &p->answer;
	}
	op_answer(op, &a.base);
	free(a.part);
}

static void describe_settle(struct op *op)
{
	struct describe_op *d = op->own;
	must(d->n_left > 0);
	if (--d->n_left > 0)
		return;
	if (op->call != NULL)
		describe_answer(op);
	op_unref(op);
}

static size_t count_writers(const struct log *log, int64_t now_ms)
{
	struct log_writer w;
	size_t n = 0, at = 0;
	while (log_kafka_writer(log, now_ms, &at, &w))
		n++;
	return n;
}

static void take_writers(struct describe_part *p, const struct log *log)
{
	struct describe_op *d = p->op->own;
	struct log_writer w;
	struct pico_error e;
	int64_t now_ms = env_wall_ms(p->op->node->env);
	size_t n = count_writers(log, now_ms), at = 0;
	if (d->n_producers + n > PRODUCERS_MAX) {
		pico_error_set(&e, PICO_THROTTLED, "the answer has no room for it; ask again");
		p->error = part_error_new(&e);
		return;
	}
	d->n_producers += n;
	p->producer = must_calloc(n, sizeof(*p->producer));
	p->answer.producer = must_calloc(n, sizeof(*p->answer.producer));
	while (log_kafka_writer(log, now_ms, &at, &w)) {
		Ipc__DescribeLogsAnswer__Producer *m = &p->producer[p->answer.n_producer];
		ipc__describe_logs_answer__producer__init(m);
		m->producer_id = w.id;
		m->epoch = w.epoch;
		m->last_sequence = w.last_sequence;
		m->last_ms = w.last_ms;
		p->answer.producer[p->answer.n_producer++] = m;
	}
}

static void on_described(struct engine_describe *x, const struct pico_error *error)
{
	struct describe_part *p = (struct describe_part *)((char *)x - offsetof(struct describe_part, describe));
	p->looking = false;
	if (error != NULL) {
		p->error = part_error_new(error);
	} else {
		p->answer.bytes = log_kept_bytes(x->log);
		if (((struct describe_op *)p->op->own)->producers)
			take_writers(p, x->log);
	}
	describe_settle(p->op);
}

static void give_up(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	struct describe_op *d = op->own;
	pico_error_set(&e, kind, "%s", text);
	for (size_t i = 0; i < d->n; i++) {
		d->n_left -= d->part[i].looking;
		d->part[i].looking = false;
		engine_describe_cancel(&d->part[i].describe);
	}
	op_fail(op, &e);
	must(d->n_left == 0);
	op_unref(op);
}

static void describe_cancel(struct op *op)
{
	give_up(op, PICO_CANCELLED, "cancelled");
}

static void describe_stop(struct op *op)
{
	give_up(op, PICO_UNAVAILABLE, "the node stops");
}

static void describe_deadline(struct op *op)
{
	give_up(op, PICO_UNAVAILABLE, "storage did not answer in time");
}

static void part_begin(struct node *n, const Ipc__DescribeLogsRequest__Part *r, struct describe_part *p)
{
	struct pico_error e;
	const struct state_topic *t;
	struct log *log = part_find_log(n, r->topic_id.data, r->topic_id.len, r->partition, &t, &e);
	ipc__describe_logs_answer__part__init(&p->answer);
	p->describe = (struct engine_describe){ .log = log, .on_done = on_described };
	p->looking = log != NULL;
	if (log == NULL)
		p->error = part_error_new(&e);
}

void handle_describe_logs(struct node *n, struct call *c)
{
	const Ipc__DescribeLogsRequest *r = (const Ipc__DescribeLogsRequest *)c->request;
	if (r->n_part > DESCRIBE_PARTS_MAX) {
		call_fail(c, PICO_BAD_REQUEST, "at most %u logs are described at once", DESCRIBE_PARTS_MAX);
		return;
	}
	struct op *op = op_new(n, c);
	struct describe_op *d = must_calloc(1, sizeof(*d));
	*d = (struct describe_op){ .n = r->n_part, .n_left = 1, .producers = r->producers };
	op->own = d;
	op->free_own = describe_free_own;
	op->on_cancel = describe_cancel;
	op->on_stop = describe_stop;
	op->refs = 1;
	d->part = must_calloc(d->n, sizeof(*d->part));
	for (size_t i = 0; i < d->n; i++) {
		d->part[i].op = op;
		part_begin(n, r->part[i], &d->part[i]);
		d->n_left += d->part[i].looking;
	}
	op_arm(op, describe_deadline);
	for (size_t i = 0; i < d->n; i++)
		if (d->part[i].looking)
			engine_describe(n->engine, &d->part[i].describe);
	describe_settle(op);
}
