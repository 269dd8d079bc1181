/* SPDX-License-Identifier: Apache-2.0
 *
 * Get, list, delete: answered from the applied state, which a crash cannot take back.
 */
#include <stdlib.h>

#include "common/topic_name.h"
#include "storaged/op.h"

#define LIST_DEFAULT 1000
#define LIST_MAX 10000
#define LIST_BYTES_MAX (3u << 20)       /* of an answer, below IPC_MESSAGE_MAX */

void handle_get(struct node *n, struct call *c)
{
	const Ipc__GetRequest *r = (const Ipc__GetRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->topic);
	if (t == NULL)
		return;
	struct topic_message m;
	topic_message_fill(n, t, ALL_PARTITIONS, &m);
	Ipc__GetAnswer a = IPC__GET_ANSWER__INIT;
	a.topic = &m.m;
	call_answer(c, &a.base);
	topic_message_free(&m);
}

/* ---------------------------------------------------------------------- list */

struct listing {
	struct topic_message *topic;
	Ipc__Topic **pointer;
	size_t n, bytes;
	bool has_more;
};

static bool has_prefix(const struct state_topic *t, struct slice prefix)
{
	return strncmp(t->name, (const char *)prefix.p, prefix.n) == 0;
}

/* False when the answer is full. */
static bool list_add(struct node *n, const struct state_topic *t, size_t limit, struct listing *l)
{
	if (topic_path_is_reserved(slice_str(t->name)) || !node_topic_is_born(n, t))
		return true;
	l->has_more = l->n == limit || l->bytes > LIST_BYTES_MAX;
	if (l->has_more)
		return false;
	topic_message_fill(n, t, ALL_PARTITIONS, &l->topic[l->n]);
	l->bytes += ipc__topic__get_packed_size(&l->topic[l->n].m);
	l->n++;
	return true;
}

static void list_collect(struct node *n, struct slice prefix, struct slice start_after, size_t limit, struct listing *l)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = NULL;
	if (slice_cmp(start_after, prefix) < 0) {
		start_after = prefix;
		t = state_topic_by_name(s, prefix);
	}
	if (t == NULL)
		t = state_topic_next(s, start_after);
	while (t != NULL && has_prefix(t, prefix) && list_add(n, t, limit, l))
		t = state_topic_next(s, slice_str(t->name));
}

void handle_list(struct node *n, struct call *c)
{
	const Ipc__ListRequest *r = (const Ipc__ListRequest *)c->request;
	size_t limit = r->limit == 0 ? LIST_DEFAULT : r->limit > LIST_MAX ? LIST_MAX : r->limit;
	struct slice prefix = slice_str(r->prefix);
	Ipc__ListAnswer a = IPC__LIST_ANSWER__INIT;
	if (prefix.n > TOPIC_PATH_MAX) {
		call_answer(c, &a.base);
		return;
	}
	struct listing l = {
		.topic = must_calloc(limit, sizeof(*l.topic)),
		.pointer = must_calloc(limit, sizeof(*l.pointer)),
	};
	list_collect(n, prefix, slice_str(r->start_after), limit, &l);
	for (size_t i = 0; i < l.n; i++)
		l.pointer[i] = &l.topic[i].m;
	a.n_topics = l.n;
	a.topics = l.pointer;
	a.has_more = l.has_more;
	call_answer(c, &a.base);
	for (size_t i = 0; i < l.n; i++)
		topic_message_free(&l.topic[i]);
	free(l.topic);
	free(l.pointer);
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

void handle_delete(struct node *n, struct call *c)
{
	const Ipc__DeleteRequest *r = (const Ipc__DeleteRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->topic);
	if (t == NULL)
		return;
	Meta__Command command = META__COMMAND__INIT;
	Meta__DeleteTopic delete = META__DELETE_TOPIC__INIT;
	command.kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	command.delete_topic = &delete;
	delete.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)t->id };
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
