/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a peer: a frame becomes a struct call whose payload lies in bounds, is paid for and is nobody else's; its
 * answer becomes a frame. What a call spent comes back with its answer, whether or not the peer is still there.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "storaged/peer_impl.h"

/* ------------------------------------------------------------------ the end */

static void call_move(struct peer_call *pc, struct peer_call **to)
{
	if (pc->list != NULL)
		DL_DELETE(*pc->list, pc);
	if (to != NULL)
		DL_APPEND(*to, pc);
	pc->list = to;
}

static void call_free(struct peer_call *pc)
{
	struct peer *peer = pc->peer;
	HASH_DEL(peer->calls, pc);
	call_move(pc, NULL);
	peer->n_calls--;
	peer->credit_used -= pc->credit;
	peer->memory_used -= pc->memory;
	if (pc->in_inbox)
		inbox_give(&peer->ranges, pc->inbox_offset);
	if (pc->request != NULL)
		protobuf_c_message_free_unpacked(pc->request, NULL);
	free(pc->inline_payload);
	pc->magic = 0;
	free(pc);
}

/* ------------------------------------------------------------------ answers */

static void write_error(struct peer *peer, struct peer_call *pc, const struct pico_error *e)
{
	Ipc__Error m;
	ipc_error_fill(&m, e);
	if (ipc_write(&peer->out.buf, pc->call.row->type, IPC_FLAG_ANSWER | IPC_FLAG_ERROR,
		      pc->call.request_id, &m.base, slice_of(NULL, 0)) < 0)
		peer_doom(peer, "does not read its answers");
}

static void write_answer(struct peer *peer, struct peer_call *pc, const ProtobufCMessage *answer)
{
	int r = ipc_write(&peer->out.buf, pc->call.row->type, IPC_FLAG_ANSWER, pc->call.request_id,
			  answer, slice_of(NULL, 0));
	if (r == -EMSGSIZE) {
		struct pico_error e;
		pico_error_set(&e, PICO_TOO_LARGE, "the answer is longer than 4 MiB; ask for less");
		write_error(peer, pc, &e);
	} else if (r < 0) {
		peer_doom(peer, "does not read its answers");
	}
}

/* The fields of an answer that name pieces. */
struct piece_fields {
	uint64_t *ref;
	size_t *n[3];                       /* of segments, offsets, lengths */
	uint32_t **number[3];
};

static struct piece_fields fields_of(ProtobufCMessage *m)
{
#define FIELDS(a) { &(a)->ref, { &(a)->n_piece_segment, &(a)->n_piece_offset, &(a)->n_piece_length },  \
		    { &(a)->piece_segment, &(a)->piece_offset, &(a)->piece_length } }
	if (m->descriptor == &ipc__fetch_answer__descriptor)
		return (struct piece_fields)FIELDS((Ipc__FetchAnswer *)m);
	must(m->descriptor == &ipc__read_answer__descriptor);
	return (struct piece_fields)FIELDS((Ipc__ReadAnswer *)m);
#undef FIELDS
}

/* The answer names the pieces and the reference that holds them. */
static void write_piece_answer(struct peer *peer, struct peer_call *pc, ProtobufCMessage *m)
{
	struct piece_fields fields = fields_of(m);
	size_t n = pc->call.n_pieces;
	struct piece *pieces = pc->call.pieces;
	uint32_t *number = must_calloc(3 * n, sizeof(number[0]));
	for (size_t i = 0; i < n; i++) {
		number[i] = pieces[i].segment->id;
		number[n + i] = pieces[i].offset;
		number[2 * n + i] = pieces[i].length;
	}
	if (peer_ref_give(peer, pieces, n, fields.ref) < 0) {
		struct pico_error e;
		pico_error_set(&e, PICO_THROTTLED, "this worker holds too many references");
		write_error(peer, pc, &e);
	} else {
		for (int i = 0; i < 3; i++) {
			*fields.n[i] = n;
			*fields.number[i] = number + (size_t)i * n;
		}
		write_answer(peer, pc, m);
		for (int i = 0; i < 3; i++) {
			*fields.n[i] = 0;
			*fields.number[i] = NULL;
		}
	}
	free(number);
}

static void on_answer(struct call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct peer_call *pc = call->owner;
	must(pc->magic == PEER_CALL_MAGIC);
	struct peer *peer = pc->peer;
	bool with_pieces = call->n_pieces > 0 && error == NULL && !peer->doomed;
	if (!with_pieces && call->pieces != NULL)
		pieces_drop(call->pieces, call->n_pieces);
	if (!peer->doomed) {
		peer_tell_wal_position(peer);
		if (error != NULL)
			write_error(peer, pc, error);
		else if (with_pieces)
			write_piece_answer(peer, pc, answer);
		else
			write_answer(peer, pc, answer);
		peer_wants_turn(peer);
	}
	call_free(pc);
	peer_free_if_unused(peer);
}

static void refuse(struct peer_call *pc, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	pico_error_set(&e, kind, "%s", text);
	on_answer(&pc->call, &e, NULL);
}

/* ------------------------------------------------------------------- a call */

static const Ipc__Payload *payload_of(enum ipc_type type, const ProtobufCMessage *m)
{
	if (type == IPC_APPEND)
		return ((const Ipc__AppendRequest *)m)->payload;
	if (type == IPC_SUBMIT)
		return ((const Ipc__SubmitRequest *)m)->payload;
	if (type == IPC_CREATE)
		return ((const Ipc__CreateRequest *)m)->initial;
	if (type == IPC_FORK)
		return ((const Ipc__ForkRequest *)m)->initial;
	return NULL;
}

static uint64_t deadline_of(const ProtobufCMessage *m)
{
	const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(m->descriptor, 15);
	must(f != NULL && f->type == PROTOBUF_C_TYPE_UINT64);
	uint64_t v;
	memcpy(&v, (const uint8_t *)m + f->offset, sizeof(v));
	return v;
}

/* Inbox ranges are read in place; an inline payload is copied, for the frame goes away. */
static const char *take_payload(struct peer *peer, struct peer_call *pc, const struct ipc_frame *f)
{
	const Ipc__Payload *p = payload_of(f->row->type, pc->request);
	bool in_inbox = p != NULL && p->in_inbox;
	if (f->payload.n != (in_inbox || p == NULL ? 0 : p->length))
		return "payload length does not match";
	pc->credit = in_inbox ? p->length : f->payload.n;
	if (pc->credit > IPC_CREDIT - peer->credit_used) {
		pc->credit = 0;
		return "credit is overspent";
	}
	peer->credit_used += pc->credit;
	if (!in_inbox) {
		pc->inline_payload = pc->credit > 0 ? must_memdup(f->payload.p, pc->credit) : NULL;
		pc->call.payload = slice_of(pc->inline_payload, pc->credit);
		return NULL;
	}
	int r = inbox_take(&peer->ranges, IPC_INBOX_SIZE, p->inbox_offset, p->length);
	if (r < 0)
		return r == -EBUSY ? "inbox range is in use" : "inbox range is outside the inbox";
	pc->in_inbox = true;
	pc->inbox_offset = p->inbox_offset;
	pc->call.payload = slice_of(peer->inbox.base + p->inbox_offset, p->length);
	return NULL;
}

static struct peer_call *call_new(struct peer *peer, const struct ipc_frame *f)
{
	struct peer_call *pc = must_calloc(1, sizeof(*pc));
	pc->magic = PEER_CALL_MAGIC;
	pc->peer = peer;
	pc->call = (struct call){
		.row = f->row, .worker_instance = peer->instance, .peer = peer->number, .request_id = f->request_id,
		.admin = peer->role == IPC_ROLE_ADMIN, .on_answer = on_answer, .owner = pc,
	};
	HASH_ADD(hh, peer->calls, call.request_id, sizeof(pc->call.request_id), pc);
	call_move(pc, &peer->waiting);
	peer->n_calls++;
	return pc;
}

/* NULL, or the rule that the frame breaks. */
static const char *call_fill(struct peer *peer, struct peer_call *pc, const struct ipc_frame *f)
{
	pc->request = ipc_frame_decode_within(f, PEER_CALLS_MEMORY_MAX - peer->memory_used, &pc->memory);
	if (pc->request == NULL)
		return "request does not decode";
	peer->memory_used += pc->memory;
	pc->call.request = pc->request;
	pc->call.deadline_ms = deadline_of(pc->request);
	return take_payload(peer, pc, f);
}

static void give(struct peer_call *pc)
{
	call_move(pc, &pc->peer->open);
	node_call(pc->peer->peers->node, &pc->call);
}

int peer_on_call(struct peer *peer, struct ipc_frame *f)
{
	struct peer_call *pc;
	HASH_FIND(hh, peer->calls, &f->request_id, sizeof(f->request_id), pc);
	if (pc != NULL || peer->n_calls >= PEER_CALLS_MAX) {
		peer_doom(peer, pc != NULL ? "request id is in use" : "too many calls outstanding");
		return 0;
	}
	pc = call_new(peer, f);
	const char *fault = call_fill(peer, pc, f);
	if (fault != NULL) {
		call_free(pc);
		peer_doom(peer, fault);
	} else if (peer->peers->serving || f->row->type == IPC_NODE_STATUS) {
		give(pc);
	}
	return 0;
}

/* -------------------------------------------------------- cancel, serve, end */

static void call_cancel(struct peer_call *pc)
{
	if (pc->list == &pc->peer->waiting)
		refuse(pc, PICO_CANCELLED, "cancelled");
	else
		node_cancel(pc->peer->peers->node, &pc->call);
}

int peer_on_cancel(struct peer *peer, struct ipc_frame *f)
{
	Ipc__Cancel *m = (Ipc__Cancel *)ipc_frame_decode(f);
	if (m == NULL)
		return -EBADMSG;
	struct peer_call *pc;
	HASH_FIND(hh, peer->calls, &m->request_id, sizeof(m->request_id), pc);
	protobuf_c_message_free_unpacked(&m->base, NULL);
	if (pc != NULL)     /* else its answer is on the way */
		call_cancel(pc);
	return 0;
}

void peer_serve(struct peer *peer)
{
	while (peer->waiting != NULL && !peer->doomed)
		give(peer->waiting);
}

void peer_cancel_all(struct peer *peer)
{
	while (peer->waiting != NULL)
		call_cancel(peer->waiting);
	for (struct peer_call *pc; (pc = peer->open) != NULL;) {
		call_move(pc, NULL);
		call_cancel(pc);
	}
}

void peer_forget_all(struct peer *peer)
{
	struct peer_call *pc, *next;
	HASH_ITER(hh, peer->calls, pc, next)
		call_free(pc);
}
