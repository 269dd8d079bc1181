/* SPDX-License-Identifier: Apache-2.0
 *
 * From the queues to the connection: what may be sent now, where payloads stand, and frames.
 *
 * Two queues, each in order of request ids: changes, which keep their order over everything, and the rest, which need
 * no credit and pass them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/topics_impl.h"

/* ----------------------------------------------------------------- payloads */

static void gather(uint8_t *to, struct topics_payload payload)
{
	for (size_t i = 0; i < payload.n_runs; i++) {
		if (payload.run[i].n > 0)
			memcpy(to, payload.run[i].p, payload.run[i].n);
		to += payload.run[i].n;
	}
}

static int to_inbox(struct op *op, struct topics_inbox *inbox, struct topics_payload payload, size_t n)
{
	uint64_t offset;
	if (inbox == NULL || topics_inbox_take(inbox, n, &offset) < 0)
		return -ENOSPC;
	gather(inbox->base + offset, payload);
	op_drop_payload(op);
	op->inbox = inbox;
	op->inbox_offset = offset;
	op->payload = slice_of(inbox->base + offset, n);
	return 0;
}

void op_keep_payload(struct op *op, struct topics_payload payload, size_t n, bool is_first)
{
	struct topics *t = op->topics;
	if (n == 0)
		return;
	if (n >= IPC_INLINE_MAX && is_first && to_inbox(op, t->inbox, payload, n) == 0)
		return;
	op->heap = must_calloc(1, n);
	gather(op->heap, payload);
	op->payload = slice_of(op->heap, n);
}

void op_drop_payload(struct op *op)
{
	if (op->inbox != NULL)
		topics_inbox_give(op->inbox, op->inbox_offset);
	free(op->heap);
	op->inbox = NULL;
	op->heap = NULL;
	op->payload = slice_of(NULL, 0);
}

/* ------------------------------------------------------------------- frames */

static uint8_t *put_uvarint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* The number of the Payload in its request. */
static int payload_number(enum ipc_type type)
{
	return type == IPC_APPEND ? 4 : type == IPC_CREATE ? 12 : type == IPC_FORK ? 6 : 1;
}

/* The fields that are not in op->message: 15 deadline_ms, and the Payload. Protobuf has no order of fields. */
static size_t encode_tail(const struct op *op, uint8_t *tail)
{
	uint8_t *p = tail;
	*p++ = 15 << 3;
	p = put_uvarint(p, op->deadline_ms);
	if (op->payload.n > 0) {
		Ipc__Payload m = IPC__PAYLOAD__INIT;
		m.inbox_offset = op->inbox_offset;
		m.length = (uint32_t)op->payload.n;
		m.in_inbox = op->inbox != NULL;
		if (!m.in_inbox)
			m.inbox_offset = 0;
		*p++ = (uint8_t)(payload_number(op->row->type) << 3 | 2);
		p = put_uvarint(p, protobuf_c_message_get_packed_size(&m.base));
		p += protobuf_c_message_pack(&m.base, p);
	}
	return (size_t)(p - tail);
}

/* Members of groups park for long, and must not keep back what would end their wait. */
static size_t *messages_of(struct op *op, size_t *ret_max)
{
	struct topics *t = op->topics;
	bool parks = op->row->type == IPC_GROUP_JOIN || op->row->type == IPC_GROUP_SYNC;
	*ret_max = parks ? TOPICS_PARKED_MAX : TOPICS_MESSAGES_MAX;
	return parks ? &t->parked_sent : &t->messages_sent;
}

static bool op_fits(struct op *op)
{
	struct topics *t = op->topics;
	size_t max, *used = messages_of(op, &max);
	if (buf_len(&t->out.buf) >= TOPICS_OUT_SOFT || t->n_sent >= TOPICS_CALLS_MAX)
		return false;
	if (*used > 0 && *used + op->message_len > max)
		return false;
	if (op->payload.n > t->credit - t->credit_used)
		return false;
	if (op->payload.n < IPC_INLINE_MAX || op->inbox == t->inbox)
		return true;
	struct slice kept = op->payload;
	return to_inbox(op, t->inbox, (struct topics_payload){ &kept, 1 }, kept.n) == 0;
}

static void op_send(struct op *op)
{
	struct topics *t = op->topics;
	uint8_t tail[64];
	size_t max;
	size_t n = encode_tail(op, tail);
	int r = ipc_write_encoded(&t->out.buf, op->row->type, 0, op->id, slice_of(op->message, op->message_len),
				  slice_of(tail, n), op->inbox != NULL ? slice_of(NULL, 0) : op->payload);
	must(r == 0);
	op_move(op, NULL);
	op->state = OP_SENT;
	op->out_end = ipc_out_end(&t->out);
	op->credit = op->payload.n;
	op->sent_boot = t->boot_id;
	op->wal_session = t->wal_session;
	op->wal_seq = t->wal_seq;
	t->credit_used += op->credit;
	*messages_of(op, &max) += op->message_len;
	t->n_sent++;
}

void op_unsend(struct op *op)
{
	struct topics *t = op->topics;
	size_t max;
	if (op->state != OP_SENT)
		return;
	t->credit_used -= op->credit;
	*messages_of(op, &max) -= op->message_len;
	t->n_sent--;
	op->credit = 0;
}

void op_cancel(struct op *op)
{
	struct topics *t = op->topics;
	Ipc__Cancel m = IPC__CANCEL__INIT;
	m.request_id = op->id;
	if (ipc_write(&t->out.buf, IPC_CANCEL, 0, 0, &m.base, slice_of(NULL, 0)) < 0)
		t->lost = true;
	topics_wants_turn(t);
}

static void write_release(struct topics *t)
{
	if (t->n_release == 0)
		return;
	Ipc__Release m = IPC__RELEASE__INIT;
	m.n_refs = t->n_release;
	m.refs = t->release;
	if (ipc_write(&t->out.buf, IPC_RELEASE, 0, 0, &m.base, slice_of(NULL, 0)) < 0)
		t->lost = true;
	t->n_release = 0;
}

void topics_pump(struct topics *t)
{
	struct op *op;
	write_release(t);
	while ((op = t->queue[QUEUE_READS]) != NULL && op_fits(op))
		op_send(op);
	if (t->resume_id != 0) /* older changes may have to go first */
		return;
	while ((op = t->queue[QUEUE_CHANGES]) != NULL && op_fits(op))
		op_send(op);
}
