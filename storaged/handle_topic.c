/* SPDX-License-Identifier: Apache-2.0
 *
 * Get and delete: answered from the applied state, which a crash cannot take back.
 */
#include "storaged/handle.h"

void topic_message_add_bytes(const struct node *n, const struct state_topic *t, struct topic_message *m)
{
	for (uint32_t i = 0; i < m->m.n_partitions; i++) {
		const struct log *log = node_log(n, t, i);
		m->partition[i].has_appended_bytes = log != NULL && log_appended_bytes(log, &m->partition[i].appended_bytes);
	}
}

void handle_get(struct node *n, struct call *c)
{
	const Ipc__GetRequest *r = (const Ipc__GetRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->topic);
	if (t == NULL)
		return;
	struct topic_message m;
	topic_message_fill(n, t, ALL_PARTITIONS, &m);
	if (c->admin)
		topic_message_add_bytes(n, t, &m);
	Ipc__GetAnswer a = IPC__GET_ANSWER__INIT;
	a.topic = &m.m;
	call_answer(c, &a.base);
	topic_message_free(&m);
}

/* -------------------------------------------------------------------- delete */

static void on_deleted(void *arg, const Meta__Result__One *result)
{
	struct op *op = arg;
	Ipc__DeleteAnswer a = IPC__DELETE_ANSWER__INIT;
	if (op->call != NULL && result == NULL) {
		op_deadline_unknown(op);
	} else if (op->call != NULL && result->error != PICO_OK && result->error != PICO_NOT_FOUND) {
		struct pico_error e;
		result_error(result, &e);
		op_fail(op, &e);
	} else if (op->call != NULL) {
		a.existed = result->error == PICO_OK;
		op_answer(op, &a.base);
	}
	op_unref(op);
}

/*
 * A topic that is not there by its id never comes again, so that is an answer, also to a delete that is sent twice. But
 * this state may be older than the topic: the command log's answer is given, not its own.
 */
static bool delete_looks_beyond_state(const struct node *n, const Ipc__TopicRef *ref)
{
	return ref != NULL && ref->topic_id.len == 16 && state_topic_by_id(meta_state(n->meta), ref->topic_id.data) == NULL;
}

void handle_delete(struct node *n, struct call *c)
{
	const Ipc__DeleteRequest *r = (const Ipc__DeleteRequest *)c->request;
	const uint8_t *id;
	if (delete_looks_beyond_state(n, r->topic)) {
		id = r->topic->topic_id.data;
	} else {
		const struct state_topic *t = node_find_topic(n, c, r->topic);
		if (t == NULL)
			return;
		id = t->id;
	}
	Meta__Command command = META__COMMAND__INIT;
	Meta__DeleteTopic delete = META__DELETE_TOPIC__INIT;
	command.kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	command.delete_topic = &delete;
	delete.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)id };
	struct op *op = op_new(n, c);
	op->refs = 1;
	op_arm(op, op_deadline_unknown);
	if (meta_propose(n->meta, &command, on_deleted, op) < 0) {
		struct pico_error e;
		pico_error_set(&e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
		op_fail(op, &e);
		op_unref(op);
	}
}
