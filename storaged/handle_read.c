/* SPDX-License-Identifier: Apache-2.0
 *
 * Read, wait, offsets: what readers may see is what is durable, up to `confirm`.
 */
#include <stdlib.h>

#include "storaged/expiry.h"
#include "storaged/handle.h"

#define READ_BYTES_MAX (8u << 20)

struct position {
	const struct state_topic *topic;
	struct log *log;
	uint32_t partition;
	uint64_t from;
};

static void fail_out_of_range(struct call *c, const struct log *log, uint64_t from)
{
	struct pico_error e;
	bool below = from < log_start(log);
	pico_error_set(&e, PICO_OUT_OF_RANGE, below ? "offset %llu was trimmed" : "offset %llu is beyond the end",
		       (unsigned long long)from);
	e.has_start_offset = below;
	e.start_offset = log_start(log);
	e.has_next_offset = !below;
	e.next_offset = log_confirm(log);
	c->on_answer(c, &e, NULL);
}

/* What a request points at; false when the call was answered with what is wrong. */
static bool position_find(struct node *n, struct call *c, const Ipc__LogRef *ref, bool partition_given, bool from_end,
			  int64_t from, struct position *ret)
{
	ret->topic = node_find_topic(n, c, ref != NULL ? ref->topic : NULL);
	if (ret->topic == NULL)
		return false;
	if (!partition_given && ret->topic->n_partitions > 1) {
		call_fail(c, PICO_PARTITION_REQUIRED, "the stream has %u partitions: name one",
			  ret->topic->n_partitions);
		return false;
	}
	ret->partition = partition_given ? ref->partition : 0;
	ret->log = node_find_log(n, c, ret->topic, ret->partition);
	if (ret->log == NULL)
		return false;
	ret->from = from_end ? log_confirm(ret->log) : from < 0 ? log_start(ret->log) : (uint64_t)from;
	if (ret->from >= log_start(ret->log) && ret->from <= log_confirm(ret->log))
		return true;
	fail_out_of_range(c, ret->log, ret->from);
	return false;
}

/* ---------------------------------------------------------------------- read */

static void read_answer(struct op *op, const struct state_topic *t)
{
	struct engine_read *r = &op->read;
	struct topic_message m;
	topic_message_fill(op->node, t, op->partition, &m);
	Ipc__ReadAnswer a = IPC__READ_ANSWER__INIT;
	a.topic = &m.m;
	a.from = r->from;
	a.start = log_start(r->log);
	a.confirm = log_confirm(r->log);
	a.closed = log_is_closed(r->log);
	a.n_partitions = t->n_partitions;
	a.end = r->end;
	op->call->pieces = r->pieces;
	op->call->n_pieces = r->n_pieces;
	op_answer(op, &a.base);
	topic_message_free(&m);
}

static void on_read_done(struct engine_read *r, const struct pico_error *error)
{
	struct op *op = OP_OF(r, read);
	must(op->magic == OP_MAGIC);
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	struct pico_error gone;
	if (error == NULL && t == NULL) {
		pico_error_set(&gone, PICO_NOT_FOUND, "no such stream");
		error = &gone;
		for (size_t i = 0; i < r->n_pieces; i++)
			pin_drop(r->pieces[i].pin);
		free(r->pieces);
	}
	if (op->call != NULL && error != NULL)
		op_fail(op, error);
	else if (op->call != NULL)
		read_answer(op, t);
	op_unref(op);
}

static void read_cancel(struct op *op)
{
	struct pico_error e;
	pico_error_set(&e, PICO_CANCELLED, "cancelled");
	engine_read_cancel(op->node->engine, &op->read);
	op_fail(op, &e);
	op_unref(op);
}

void handle_read(struct node *n, struct call *c)
{
	const Ipc__ReadRequest *r = (const Ipc__ReadRequest *)c->request;
	struct position p;
	if (!position_find(n, c, r->log, r->partition_given, r->from_end, r->from, &p))
		return;
	expiry_touch(n, p.topic);
	struct op *op = op_new(n, c);
	op->refs = 1;
	op->partition = p.partition;
	op->on_cancel = read_cancel;
	memcpy(op->topic_id, p.topic->id, sizeof(op->topic_id));
	op->read = (struct engine_read){
		.log = p.log,
		.from = p.from,
		.max_bytes = r->max_bytes == 0 || r->max_bytes > READ_BYTES_MAX ? READ_BYTES_MAX : r->max_bytes,
		.deadline_ms = c->deadline_ms,
		.on_done = on_read_done,
	};
	engine_read(n->engine, &op->read);
}

/* ---------------------------------------------------------------------- wait */

static void wait_answer(struct op *op, bool ready, bool gone)
{
	Ipc__WaitAnswer a = IPC__WAIT_ANSWER__INIT;
	a.ready = ready;
	if (!gone) {
		a.confirm = log_confirm(op->wait.log);
		a.closed = log_is_closed(op->wait.log);
	}
	op_answer(op, &a.base);
}

static void on_wait_ready(struct engine_wait *w, bool gone)
{
	struct op *op = OP_OF(w, wait);
	must(op->magic == OP_MAGIC);
	wait_answer(op, true, gone);
}

static void wait_ends(struct op *op)
{
	engine_wait_stop(&op->wait);
	wait_answer(op, false, false);
}

static void wait_cancel(struct op *op)
{
	struct pico_error e;
	pico_error_set(&e, PICO_CANCELLED, "cancelled");
	engine_wait_stop(&op->wait);
	op_fail(op, &e);
}

void handle_wait(struct node *n, struct call *c)
{
	const Ipc__WaitRequest *r = (const Ipc__WaitRequest *)c->request;
	struct position p;
	if (!position_find(n, c, r->log, r->partition_given, r->from_end, r->from, &p))
		return;
	expiry_touch(n, p.topic);
	struct op *op = op_new(n, c);
	op->wait = (struct engine_wait){ .log = p.log, .from = p.from, .on_ready = on_wait_ready };
	op->on_cancel = wait_cancel;
	op->on_stop = wait_ends;
	op_arm(op, wait_ends);
	if (engine_wait(n->engine, &op->wait))
		wait_answer(op, true, false);
}

/* ------------------------------------------------------------------- offsets */

void handle_offsets(struct node *n, struct call *c)
{
	const Ipc__OffsetsRequest *r = (const Ipc__OffsetsRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->log != NULL ? r->log->topic : NULL);
	struct log *log = t != NULL ? node_find_log(n, c, t, r->log->partition) : NULL;
	if (log == NULL)
		return;
	Ipc__OffsetsAnswer a = IPC__OFFSETS_ANSWER__INIT;
	a.start = log_start(log);
	a.confirm = log_confirm(log);
	a.next = log_next(log);
	a.closed = log_is_closed(log);
	call_answer(c, &a.base);
}
