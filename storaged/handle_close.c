/* SPDX-License-Identifier: Apache-2.0
 *
 * Close. A log is closed by its last frame, which goes through the append path like a record; when it is
 * confirmed, CloseTopic is proposed, and the close is answered when that is applied. A topic of several
 * partitions is `closing` from the first command; each log closes, and the last one makes the topic closed.
 * A start finds what a crash left half done (node.c) and goes on from there.
 */
#include <stdlib.h>

#include "storaged/expiry.h"
#include "storaged/handle.h"

int node_propose_close(struct node *n, const uint8_t topic_id[16], uint32_t partition, bool begin, meta_result_cb *cb,
		       void *arg)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__CloseTopic close = META__CLOSE_TOPIC__INIT;
	command.kind_case = META__COMMAND__KIND_CLOSE_TOPIC;
	command.close_topic = &close;
	close.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)topic_id };
	close.partition = partition;
	close.begin = begin;
	return meta_propose(n->meta, &command, cb, arg);
}

static void close_answer(struct op *op, bool was_closed)
{
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	if (op->call == NULL)
		return;
	if (t == NULL) {
		struct pico_error e;
		pico_error_set(&e, PICO_NOT_FOUND, "no such stream");
		op_fail(op, &e);
		return;
	}
	struct topic_message m;
	topic_message_fill(op->node, t, ALL_PARTITIONS, &m);
	Ipc__CloseAnswer a = IPC__CLOSE_ANSWER__INIT;
	a.topic = &m.m;
	a.was_closed = was_closed;
	op_answer(op, &a.base);
	topic_message_free(&m);
}

static void on_close_applied(void *arg, const Meta__Result__One *result)
{
	struct op *op = arg;
	must(op->magic == OP_MAGIC);
	if (result == NULL && op->call != NULL)
		op_deadline_unknown(op);
	else if (result != NULL && --op->n_open == 0)
		close_answer(op, false);
	op_unref(op);
}

static void close_throttled(struct op *op)
{
	struct pico_error e;
	pico_error_set(&e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
	if (op->call != NULL)
		op_fail(op, &e);
}

static void close_frame_done(struct op *op, uint32_t partition, const struct pico_error *error)
{
	if (error != NULL && error->kind != PICO_CLOSED) {
		if (op->call != NULL)
			op_fail(op, error);
		op_unref(op);
	} else if (node_propose_close(op->node, op->topic_id, partition, false, on_close_applied, op) < 0) {
		close_throttled(op);
		op_unref(op);
	}
}

static void on_partition_closed(struct engine_append *a, const struct pico_error *error)
{
	struct op *op = a->owner;
	must(op->magic == OP_MAGIC);
	close_frame_done(op, (uint32_t)(a - op->closes), error);
}

static void close_logs(struct op *op, const struct state_topic *t)
{
	struct node *n = op->node;
	op->closes = must_calloc(t->n_partitions, sizeof(*op->closes));
	op->n_open = t->n_partitions;
	op->refs += t->n_partitions;
	uint32_t n_partitions = t->n_partitions;
	for (uint32_t i = 0; i < n_partitions; i++) {
		t = state_topic_by_id(meta_state(n->meta), op->topic_id);
		struct log *log = t != NULL ? node_log(n, t, i) : NULL;
		op->closes[i] = (struct engine_append){
			.log = log,
			.close_after = true,
			.owner = op,
			.deadline_ms = op->call != NULL ? op->call->deadline_ms : UINT64_MAX,
			.on_done = on_partition_closed,
		};
		if (log != NULL)
			engine_append(n->engine, &op->closes[i]);
		else
			close_frame_done(op, i, &(struct pico_error){ .kind = PICO_NOT_OWNER, .message = "another node "
					 "serves a partition" });
	}
}

static void on_close_begun(void *arg, const Meta__Result__One *result)
{
	struct op *op = arg;
	must(op->magic == OP_MAGIC);
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	if (result == NULL && op->call != NULL) {
		op_deadline_unknown(op);
	} else if (result != NULL && (result->error != PICO_OK || t == NULL)) {
		close_answer(op, false);
	} else if (result != NULL && t->closed) {
		close_answer(op, true);
	} else if (result != NULL) {
		close_logs(op, t);
	}
	op_unref(op);
}

void node_resume_closing(struct node *n, const struct state_topic *t)
{
	struct op *op = op_new(n, NULL);
	memcpy(op->topic_id, t->id, sizeof(op->topic_id));
	op->refs = 1;
	close_logs(op, t);
	op_unref(op);
}

void handle_close(struct node *n, struct call *c)
{
	const Ipc__CloseRequest *r = (const Ipc__CloseRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->topic);
	if (t == NULL)
		return;
	expiry_touch(n, t);
	struct op *op = op_new(n, c);
	memcpy(op->topic_id, t->id, sizeof(op->topic_id));
	op->refs = 1;
	op_arm(op, op_deadline_unknown);
	if (t->closed) {
		close_answer(op, true);
		op_unref(op);
	} else if (t->n_partitions == 1) {
		close_logs(op, t);
		op_unref(op);
	} else if (node_propose_close(n, t->id, 0, true, on_close_begun, op) < 0) {
		close_throttled(op);
		op_unref(op);
	}
}
