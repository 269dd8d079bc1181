/* SPDX-License-Identifier: Apache-2.0
 *
 * Append: who is meant, may it, how large; everything about order, producers and durability is the
 * engine's. An append that closes is answered when the metadata says closed, too.
 */
#include <stdio.h>
#include <strings.h>

#include "common/topic_name.h"
#include "storaged/expiry.h"
#include "storaged/handle.h"

#define PRODUCER_ID_MAX 256

static void append_answer(struct op *op)
{
	const struct engine_append *e = &op->append;
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	a.base_offset = e->base_offset;
	a.base_known = e->base_known;
	a.next_offset = e->next_offset;
	a.timestamp_ms = e->timestamp_ms;
	a.duplicate = e->duplicate;
	a.closed = e->closed;
	a.partition = op->partition;
	a.producer_epoch = e->accepted_epoch;
	a.producer_seq = e->accepted_seq;
	a.multi_partition = op->n_partitions > 1;
	op_answer(op, &a.base);
}

static void on_append_closed(void *arg, const Meta__Result__One *result)
{
	struct op *op = arg;
	must(op->magic == OP_MAGIC);
	if (op->call != NULL && result == NULL)
		op_deadline_unknown(op);
	else if (op->call != NULL)
		append_answer(op);
	op_unref(op);
}

/* Of a type that is wrong the right one is told. */
static void append_fail(struct op *op, const struct state_topic *t, const struct pico_error *error)
{
	struct pico_error e = *error;
	if (op->append.wrong_type && error->kind == PICO_CONFLICT && t != NULL)
		snprintf(e.content_type, sizeof(e.content_type), "%s", t->content_type);
	op_fail(op, &e);
}

static void on_append_done(struct engine_append *a, const struct pico_error *error)
{
	struct op *op = OP_OF(a, append);
	must(op->magic == OP_MAGIC);
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	bool must_close = error == NULL && a->closed && !a->check_only && t != NULL && !t->partition[op->partition].closed;
	if (must_close && node_propose_close(op->node, op->topic_id, op->partition, false, on_append_closed, op) == 0) {
		/* The frame is durable; if the metadata cannot say so in time, the outcome is not known. */
		if (op->call != NULL)
			op_arm(op, op_deadline_unknown);
		return;
	}
	if (op->call != NULL && must_close)     /* it is not proposed: closed here, and not yet for the metadata */
		op_deadline_unknown(op);
	else if (op->call != NULL && error != NULL)
		append_fail(op, t, error);
	else if (op->call != NULL)
		append_answer(op);
	op_unref(op);
}

/* Not in the arena: nothing happened. Else the frame goes on and nobody listens. */
static void append_cancel(struct op *op)
{
	struct pico_error e;
	pico_error_set(&e, PICO_CANCELLED, "cancelled");
	if (!engine_append_cancel(op->node->engine, &op->append))
		return;
	op_fail(op, &e);
	op_unref(op);
}

static bool append_check(struct node *n, struct call *c, const Ipc__AppendRequest *r, const struct state_topic *t)
{
	if (r->settings_version != 0 && r->settings_version < t->settings_version)
		call_fail(c, PICO_STALE_TOPIC, "the stream's settings changed");
	else if (c->payload.n > n->config.max_message_size)
		call_fail(c, PICO_TOO_LARGE, "a batch of %zu bytes; at most %u are taken", c->payload.n,
			  n->config.max_message_size);
	else if (r->producer != NULL && (r->producer->id[0] == '\0' || strlen(r->producer->id) > PRODUCER_ID_MAX))
		call_fail(c, PICO_BAD_REQUEST, "a producer id has 1 to %d bytes", PRODUCER_ID_MAX);
	else if (t->n_partitions > 1 && r->only_partition)
		call_fail(c, PICO_PARTITION_REQUIRED, "the stream has %u partitions", t->n_partitions);
	else if (t->n_partitions > 1 && r->any_partition && (r->has_match_seq || r->has_stream_seq || r->producer != NULL))
		call_fail(c, PICO_PARTITION_REQUIRED, "the stream has %u partitions: name one", t->n_partitions);
	else if (t->n_partitions > 1 && r->close_after)
		call_fail(c, PICO_BAD_REQUEST, "a stream of several partitions is closed by itself, without records");
	else if (c->payload.n == 0 && !r->close_after && !r->check_only)
		call_fail(c, PICO_BAD_REQUEST, "no records and no close");
	else
		return true;
	return false;
}

static bool same_media_type(const char *a, const char *b)
{
	size_t n = strcspn(a, ";"), m = strcspn(b, ";");
	while (n > 0 && (a[n - 1] == ' ' || a[n - 1] == '\t'))
		n--;
	while (m > 0 && (b[m - 1] == ' ' || b[m - 1] == '\t'))
		m--;
	return n == m && strncasecmp(a, b, n) == 0;
}

static uint32_t append_partition(struct node *n, const Ipc__AppendRequest *r, const struct state_topic *t)
{
	if (!r->any_partition)
		return r->log->partition;
	if (r->has_partition_key)
		return topic_partition_of(slice_of(r->partition_key.data, r->partition_key.len), t->n_partitions);
	return n->next_partition++ % t->n_partitions;
}

static void append_fill(struct engine_append *a, struct log *log, const struct call *c, const Ipc__AppendRequest *r)
{
	*a = (struct engine_append){
		.log = log,
		.payload = c->payload,
		.check_only = r->check_only,
		.close_after = r->close_after,
		.has_match_seq = r->has_match_seq,
		.match_seq = r->match_seq,
		.has_stream_seq = r->has_stream_seq,
		.stream_seq = slice_of(r->stream_seq.data, r->stream_seq.len),
		.order = r->order == IPC__APPEND_REQUEST__ORDER__CLOSED_FIRST ? APPEND_CLOSED_FIRST
									      : APPEND_PRODUCER_FIRST,
		.worker_instance = c->worker_instance,
		.request_id = c->request_id,
		.deadline_ms = c->deadline_ms,
		.on_done = on_append_done,
	};
	if (r->producer != NULL) {
		a->has_producer = true;
		a->producer_id = slice_str(r->producer->id);
		a->producer_epoch = r->producer->epoch;
		a->producer_seq = r->producer->seq;
	}
}

void handle_append(struct node *n, struct call *c)
{
	const Ipc__AppendRequest *r = (const Ipc__AppendRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->log != NULL ? r->log->topic : NULL);
	if (t == NULL || !append_check(n, c, r, t))
		return;
	uint32_t partition = append_partition(n, r, t);
	struct log *log = node_find_log(n, c, t, partition);
	if (log == NULL)
		return;
	expiry_touch(n, t);
	struct op *op = op_new(n, c);
	op->refs = 1;
	op->partition = partition;
	op->n_partitions = t->n_partitions;
	op->on_cancel = append_cancel;
	memcpy(op->topic_id, t->id, sizeof(op->topic_id));
	append_fill(&op->append, log, c, r);
	op->append.wrong_type = r->content_type[0] != '\0' && !same_media_type(r->content_type, t->content_type);
	engine_append(n->engine, &op->append);
}
