/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of the Topics API: calls, their sharing, deadlines and ends. Every callback runs exactly once, from the
 * loop: out of an answer, a timer, a turn or topics_free().
 */
#include "common/topics.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "common/record_batch.h"
#include "common/topics_impl.h"

/* --------------------------------------------------------------------- calls */

static void call_free(struct topics_call *c)
{
	env_timer_stop(c->topics->env, &c->timer);
	c->topics->n_calls--;
	c->magic = 0;
	free(c);
}

static void call_finish(struct topics_call *c, const struct pico_error *e, const ProtobufCMessage *answer,
			struct topics_ref *ref)
{
	topics_cb *cb = c->cb;
	void *arg = c->arg;
	if (c->op != NULL)
		DL_DELETE(c->op->calls, c);
	else
		DL_DELETE(c->topics->refused, c);
	call_free(c);
	cb(arg, e, answer, ref != NULL ? topics_ref_pieces(ref) : NULL);
}

/* ----------------------------------------------------------------------- ops */

bool op_is_change(const struct op *op)
{
	switch (op->row->type) {
	case IPC_APPEND:
	case IPC_CREATE:
	case IPC_CREATE_MANY:
	case IPC_FORK:
	case IPC_DELETE:
	case IPC_CLOSE:
	case IPC_SUBMIT:
	case IPC_UPDATE:
	case IPC_GROW:
	case IPC_TRIM:
	case IPC_GROUP_LEAVE:
	case IPC_GROUP_COMMIT:
	case IPC_GROUP_DELETE:
	case IPC_GROUP_OFFSET_DELETE:
	case IPC_DELETE_RECORDS:
	case IPC_KV_PUT:
	case IPC_KV_DELETE:
		return true;
	default:
		return false;
	}
}

void op_move(struct op *op, struct op **to)
{
	if (op->list != NULL)
		DL_DELETE(*op->list, op);
	if (to != NULL)
		DL_APPEND(*to, op);
	op->list = to;
}

static struct op **shared_table(struct topics *t, enum ipc_type type)
{
	return type == IPC_WAIT ? &t->shared_waits : &t->shared_reads;
}

static void op_unshare(struct op *op)
{
	struct op **table = shared_table(op->topics, op->row->type);
	if (op->shared)
		HASH_DELETE(hh_shared, *table, op);
	op->shared = false;
}

static void op_detach(struct op *op)
{
	struct topics *t = op->topics;
	op_move(op, NULL);
	op_unshare(op);
	op_unsend(op);
	HASH_DEL(t->ops, op);
	t->payload_bytes -= op->payload.n;
	op_drop_payload(op);
}

static void op_release(struct op *op)
{
	must(op->calls == NULL);
	free(op->message);
	op->magic = 0;
	free(op);
}

void op_free(struct op *op)
{
	op_detach(op);
	op_release(op);
}

void op_finish(struct op *op, const struct pico_error *e, const ProtobufCMessage *answer, struct topics_ref *ref)
{
	must(op->magic == OP_MAGIC);
	topics_wants_turn(op->topics);
	op->finishing = true;
	op_detach(op);
	while (op->calls != NULL)
		call_finish(op->calls, e, answer, ref);
	op_release(op);
}

void op_fail(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	pico_error_set(&e, kind, "%s", text);
	op_finish(op, &e, NULL, NULL);
}

/* Nobody listens any more. What was sent stays until its answer: storaged may still read its payload. */
static void op_orphaned(struct op *op)
{
	if (op->finishing)
		return;
	op_unshare(op);
	if (op->state != OP_SENT)
		op_free(op);
	else if (!op_is_change(op))
		op_cancel(op);
}

/* ------------------------------------------------------------------ deadlines */

static bool may_have_happened(const struct op *op)
{
	return op->in_doubt ||
	       (op_is_change(op) && op->state == OP_SENT && op->out_end <= op->topics->out.sent);
}

/* A wait that is under way and not answered has nothing to tell: confirm is at most where it waits. */
static void wait_ended(struct topics_call *c, int64_t from)
{
	struct pico_error ok = { .kind = PICO_OK };
	Ipc__WaitAnswer a = IPC__WAIT_ANSWER__INIT;
	a.confirm = (uint64_t)from;
	call_finish(c, &ok, &a.base, NULL);
}

static void on_deadline(void *arg)
{
	struct topics_call *c = arg;
	struct op *op = c->op;
	must(c->magic == CALL_MAGIC && op != NULL);
	bool live = op->state == OP_SENT;
	if (live && !c->graced && op->deadline_ms <= c->deadline_ms) {
		c->graced = true;
		env_timer_start(c->topics->env, &c->timer, c->deadline_ms + TOPICS_GRACE_MS);
		return;
	}
	if (live && op->row->type == IPC_WAIT && op->shareable) {
		wait_ended(c, op->wait_from);
	} else {
		struct pico_error e;
		pico_error_set(&e, may_have_happened(op) ? PICO_DURABILITY : PICO_UNAVAILABLE,
			       "storaged did not answer in time");
		call_finish(c, &e, NULL, NULL);
	}
	if (op->calls == NULL)
		op_orphaned(op);
}

/* ------------------------------------------------------------------ beginning */

static uint64_t *deadline_field(ProtobufCMessage *m)
{
	const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, 15);
	must(f != NULL && f->type == PROTOBUF_C_TYPE_UINT64);
	return (uint64_t *)(void *)((uint8_t *)m + f->offset);
}

static Ipc__Payload **payload_field(enum ipc_type type, ProtobufCMessage *m)
{
	if (type == IPC_APPEND)
		return &((Ipc__AppendRequest *)m)->payload;
	if (type == IPC_CREATE)
		return &((Ipc__CreateRequest *)m)->initial;
	if (type == IPC_FORK)
		return &((Ipc__ForkRequest *)m)->initial;
	if (type == IPC_SUBMIT)
		return &((Ipc__SubmitRequest *)m)->payload;
	return NULL;
}

/* The request's bytes without deadline and payload. */
static uint8_t *encode(enum ipc_type type, ProtobufCMessage *m, size_t *ret_n)
{
	uint64_t *deadline = deadline_field(m), was = *deadline;
	Ipc__Payload **payload = payload_field(type, m), *had = payload != NULL ? *payload : NULL;
	*deadline = 0;
	if (payload != NULL)
		*payload = NULL;
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = n + 64 <= IPC_MESSAGE_MAX ? must_calloc(1, n) : NULL;
	if (bytes != NULL)
		protobuf_c_message_pack(m, bytes);
	*deadline = was;
	if (payload != NULL)
		*payload = had;
	*ret_n = n;
	return bytes;
}

/* Twice is as once. "The end" may be another one by then. */
static bool trim_is_by_id(const Ipc__TrimRequest *m)
{
	return m->log != NULL && m->log->topic != NULL && m->log->topic->topic_id.len > 0 && m->offset >= 0;
}

/* The end of a log may be another one when it is asked for again. */
static bool delete_is_by_offset(const Ipc__DeleteRecordsRequest *m)
{
	for (size_t i = 0; i < m->n_part; i++)
		if (m->part[i]->offset < 0)
			return false;
	return true;
}

static bool is_by_id(enum ipc_type type, const ProtobufCMessage *m)
{
	if (type == IPC_TRIM)
		return trim_is_by_id((const Ipc__TrimRequest *)m);
	if (type == IPC_DELETE_RECORDS)
		return delete_is_by_offset((const Ipc__DeleteRecordsRequest *)m);
	const Ipc__TopicRef *ref = type == IPC_DELETE ? ((const Ipc__DeleteRequest *)m)->topic
		: type == IPC_CLOSE ? ((const Ipc__CloseRequest *)m)->topic
		: type == IPC_UPDATE ? ((const Ipc__UpdateRequest *)m)->topic
		: type == IPC_GROW ? ((const Ipc__GrowRequest *)m)->topic : NULL;
	return ref != NULL && ref->topic_id.len > 0;
}

/* The batches of a submit follow each other; producer -1 is none. */
static bool submit_has_producers(const Ipc__SubmitRequest *m, struct slice payload)
{
	for (size_t i = 0; i < m->n_part; i++) {
		size_t n = m->part[i]->length;
		if (n > payload.n || n < RECORD_BATCH_HEADER || (int64_t)get_be64(payload.p + 43) < 0)
			return false;
		payload = slice_of(payload.p + n, payload.n - n);
	}
	return m->n_part > 0;
}

static bool has_producer(enum ipc_type type, const ProtobufCMessage *m, struct slice payload)
{
	const Ipc__AppendRequest *a = (const Ipc__AppendRequest *)m;
	if (type == IPC_SUBMIT)
		return submit_has_producers((const Ipc__SubmitRequest *)m, payload);
	return type == IPC_APPEND && ((a->producer != NULL && a->producer->id[0] != 0) || a->check_only);
}

static bool is_shareable(enum ipc_type type, const ProtobufCMessage *m)
{
	const Ipc__WaitRequest *w = (const Ipc__WaitRequest *)m;
	return type == IPC_READ || (type == IPC_WAIT && !w->from_end && w->from >= 0);
}

static struct op *op_new(struct topics *t, enum ipc_type type, ProtobufCMessage *m, uint8_t *bytes, size_t n)
{
	struct op *op = must_calloc(1, sizeof(*op));
	op->magic = OP_MAGIC;
	op->topics = t;
	op->row = ipc_row(type);
	op->id = t->next_id++;
	op->message = bytes;
	op->message_len = n;
	op->by_id = is_by_id(type, m);
	if (type == IPC_WAIT)
		op->wait_from = ((const Ipc__WaitRequest *)m)->from;
	HASH_ADD(hh, t->ops, id, sizeof(op->id), op);
	op_move(op, &t->queue[op_is_change(op) ? QUEUE_CHANGES : QUEUE_READS]);
	return op;
}

/* An op of the same request that this call may listen to: see the head of topics.h. */
static struct op *op_to_share(struct topics *t, enum ipc_type type, const uint8_t *bytes, size_t n, uint64_t deadline_ms)
{
	struct op *op, **table = shared_table(t, type);
	HASH_FIND(hh_shared, *table, bytes, n, op);
	if (op == NULL || op->deadline_ms < deadline_ms)
		return NULL;
	if (type == IPC_READ && op->state == OP_SENT && op->out_end <= t->out.sent)
		return NULL;
	return op;
}

static void op_share(struct op *op)
{
	struct op *old, **table = shared_table(op->topics, op->row->type);
	HASH_FIND(hh_shared, *table, op->message, op->message_len, old);
	if (old != NULL)
		op_unshare(old);
	HASH_ADD_KEYPTR(hh_shared, *table, op->message, op->message_len, op);
	op->shared = true;
}

static size_t payload_size(struct topics_payload payload)
{
	size_t n = 0;
	for (size_t i = 0; i < payload.n_runs; i++)
		n += payload.run[i].n;
	return n;
}

static enum pico_error_kind refusal_of(const struct topics *t, size_t payload_n)
{
	return t->closing ? PICO_UNAVAILABLE
		: payload_n > IPC_CREDIT ? PICO_TOO_LARGE
		: t->n_calls > TOPICS_CALLS_MAX || t->payload_bytes + payload_n > TOPICS_PAYLOAD_MAX ? PICO_THROTTLED
		: PICO_OK;
}

static struct op *op_for(struct topics *t, enum ipc_type type, ProtobufCMessage *m, struct topics_payload payload,
			 uint64_t deadline_ms, enum pico_error_kind *ret_refusal)
{
	size_t n, payload_n = payload_size(payload);
	*ret_refusal = refusal_of(t, payload_n);
	if (*ret_refusal != PICO_OK)
		return NULL;
	uint8_t *bytes = encode(type, m, &n);
	if (bytes == NULL) {
		*ret_refusal = PICO_TOO_LARGE;
		return NULL;
	}
	bool shareable = is_shareable(type, m);
	struct op *op = shareable ? op_to_share(t, type, bytes, n, deadline_ms) : NULL;
	if (op != NULL) {
		free(bytes);
		return op;
	}
	bool first = t->queue[QUEUE_CHANGES] == NULL;
	op = op_new(t, type, m, bytes, n);
	op->deadline_ms = deadline_ms;
	op->shareable = shareable;
	op_keep_payload(op, payload, payload_n, first);
	op->producer = has_producer(type, m, op->payload);
	t->payload_bytes += payload_n;
	if (shareable)
		op_share(op);
	return op;
}

struct topics_call *topics_call(struct topics *t, enum ipc_type type, ProtobufCMessage *request,
				struct slice payload, uint64_t deadline_ms, topics_cb *cb, void *arg)
{
	return topics_callv(t, type, request, (struct topics_payload){ &payload, 1 }, deadline_ms, cb, arg);
}

struct topics_call *topics_callv(struct topics *t, enum ipc_type type, ProtobufCMessage *request,
				 struct topics_payload payload, uint64_t deadline_ms, topics_cb *cb, void *arg)
{
	must(t->magic == TOPICS_MAGIC && ipc_row(type) != NULL && request->descriptor == ipc_row(type)->request);
	must(payload_size(payload) == 0 || payload_field(type, request) != NULL);
	struct topics_call *c = must_calloc(1, sizeof(*c));
	c->magic = CALL_MAGIC;
	c->topics = t;
	c->cb = cb;
	c->arg = arg;
	c->deadline_ms = deadline_ms;
	t->n_calls++;
	c->op = op_for(t, type, request, payload, deadline_ms, &c->refusal);
	if (c->op != NULL) {
		DL_APPEND(c->op->calls, c);
		c->timer = (struct env_timer){ .on_fire = on_deadline, .arg = c };
		env_timer_start(t->env, &c->timer, deadline_ms);
	} else {
		DL_APPEND(t->refused, c);
	}
	topics_wants_turn(t);
	return c;
}

void topics_abandon(struct topics_call *c)
{
	must(c->magic == CALL_MAGIC);
	struct topics *t = c->topics;
	struct op *op = c->op;
	if (op != NULL)
		DL_DELETE(op->calls, c);
	else
		DL_DELETE(t->refused, c);
	call_free(c);
	if (op != NULL && op->calls == NULL)
		op_orphaned(op);
	topics_wants_turn(t);
}

void topics_hand_over(struct topics_call *c, topics_cb *cb, void *arg)
{
	must(c->magic == CALL_MAGIC);
	c->cb = cb;
	c->arg = arg;
}

/* ---------------------------------------------------------------------- turns */

static void finish_refused(struct topics *t)
{
	while (t->refused != NULL) {
		struct pico_error e;
		pico_error_set(&e, t->refused->refusal, "%s",
			       t->refused->refusal == PICO_TOO_LARGE ? "too large for one call"
			       : t->refused->refusal == PICO_THROTTLED ? "too many calls are under way"
			       : "shutting down");
		call_finish(t->refused, &e, NULL, NULL);
	}
}

/* Storaged's count, and with each connection another range of it. */
uint64_t topics_cuts(const struct topics *t)
{
	uint64_t count = t->inbox != NULL ? topics_inbox_cuts(t->inbox) : UINT32_MAX;
	return t->generation << 32 | (count & UINT32_MAX);
}

bool topics_is_full(const struct topics *t)
{
	return t->n_calls >= TOPICS_CALLS_MAX / 8 * 7 || t->payload_bytes >= IPC_CREDIT;
}

static void tell_room(struct topics *t)
{
	bool full = topics_is_full(t);
	if (t->was_full && !full && t->on_room != NULL)
		t->on_room(t->on_room_arg);
	t->was_full = topics_is_full(t);
}

static void connection_turn(struct topics *t)
{
	int r = 0;
	if (t->conn == CONN_READY && !t->lost)
		topics_pump(t);
	if (!t->lost)
		r = topics_edge_send(t);
	if (t->lost || (r < 0 && r != -EAGAIN)) {
		topics_conn_lost(t);
		return;
	}
	topics_edge_watch(t);
	if (r == 0 && (t->queue[QUEUE_READS] != NULL || t->queue[QUEUE_CHANGES] != NULL) && t->conn == CONN_READY &&
	    t->stuck_at != ipc_out_end(&t->out))
		topics_wants_turn(t); /* more fits now */
	t->stuck_at = ipc_out_end(&t->out);
}

static void on_turn(void *arg)
{
	struct topics *t = arg;
	must(t->magic == TOPICS_MAGIC);
	t->turn_queued = false;
	if (t->freed) {
		free(t);
		return;
	}
	finish_refused(t);
	if (t->conn != CONN_NONE)
		connection_turn(t);
	tell_room(t);
}

void topics_wants_turn(struct topics *t)
{
	if (topics_is_full(t))
		t->was_full = true;
	if (t->turn_queued)
		return;
	t->turn_queued = true;
	env_defer(t->env, &t->turn);
}

/* ----------------------------------------------------------------------- life */

int topics_new(struct env *env, const struct topics_config *config, struct topics **ret_topics)
{
	struct topics *t = must_calloc(1, sizeof(*t));
	t->magic = TOPICS_MAGIC;
	t->env = env;
	t->config = *config;
	t->next_id = 1;
	t->turn = (struct env_task){ .run = on_turn, .arg = t };
	topics_conn_start(t);
	*ret_topics = t;
	return 0;
}

void topics_free(struct topics *t)
{
	if (t == NULL)
		return;
	t->closing = true;
	topics_conn_lost(t);
	env_timer_stop(t->env, &t->retry);
	while (t->ops != NULL)
		op_fail(t->ops, t->ops->in_doubt ? PICO_DURABILITY : PICO_UNAVAILABLE, "shutting down");
	finish_refused(t);
	must(t->refs == NULL);
	free(t->release);
	t->freed = true;
	if (!t->turn_queued)
		free(t);
}

void topics_on_room(struct topics *t, void (*on_room)(void *arg), void *arg)
{
	t->on_room = on_room;
	t->on_room_arg = arg;
}

void topics_on_reclaim(struct topics *t, void (*on_reclaim)(void *arg, struct topics_pieces *pieces), void *arg)
{
	t->on_reclaim = on_reclaim;
	t->on_reclaim_arg = arg;
}

bool topics_is_connected(const struct topics *t)
{
	return t->conn == CONN_READY;
}
