/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's connection: Hello, frames from storaged, and what becomes of calls when it is lost.
 *
 * A frame whose last byte was not taken by the socket was never worked off: its op is queued again. Others return:
 *
 *                        storaged restarted            the same storaged
 *   reads, waits, lists  sent again                    sent again
 *   producer ids         sent again (one is lost)      sent again
 *   calls of groups      sent again                    sent again
 *   create               sent again (idempotent)       sent again
 *   delete, close,
 *   update, grow         sent again if by topic id, else DURABILITY
 *   append with producer sent again                    sent again
 *   submit               sent again if every batch has a producer, else DURABILITY
 *   append without       asked about (Resume)          DURABILITY: it may be under way
 *
 * Changes wait for Resume's answer; then all go in order of their ids, that is in first order.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "common/topics_impl.h"

#define BACKOFF_MIN_MS 10
#define BACKOFF_MAX_MS 500
#define STEADY_MS 1000          /* a connection that lived so long: the back-off starts anew */
#define RESUME_MS 60000
#define OUT_MAX (16u << 20)

/* --------------------------------------------------------------- connecting */

static void retry_later(struct topics *t)
{
	env_timer_start(t->env, &t->retry, env_now_ms(t->env) + t->backoff_ms);
	t->backoff_ms = t->backoff_ms * 2 < BACKOFF_MAX_MS ? t->backoff_ms * 2 : BACKOFF_MAX_MS;
}

static void say_hello(struct topics *t)
{
	Ipc__Hello m = IPC__HELLO__INIT;
	m.version_min = m.version_max = IPC_VERSION;
	m.role = t->config.role;
	m.instance = t->config.instance;
	m.proof = (ProtobufCBinaryData){ .data = t->config.proof, .len = sizeof(t->config.proof) };
	m.boot_id = t->boot_id;
	ipc_write(&t->out.buf, IPC_HELLO, 0, t->next_id++, &m.base, slice_of(NULL, 0));
}

static void on_retry(void *arg)
{
	struct topics *t = arg;
	must(t->conn == CONN_NONE);
	if (topics_edge_open(t) < 0) {
		retry_later(t);
		return;
	}
	t->generation++;
	t->stuck_at = UINT64_MAX;
	t->conn = CONN_HELLO;
	ipc_reader_init(&t->reader, IPC_FROM_STORAGED);
	ipc_out_init(&t->out, OUT_MAX);
	say_hello(t);
	topics_wants_turn(t);
}

void topics_conn_start(struct topics *t)
{
	t->backoff_ms = BACKOFF_MIN_MS;
	t->retry = (struct env_timer){ .on_fire = on_retry, .arg = t };
	env_timer_start(t->env, &t->retry, env_now_ms(t->env));
}

/* ------------------------------------------------------------------- losing */

static void op_return(struct op *op)
{
	bool left = op->out_end <= op->topics->out.sent;
	op_unsend(op);
	op->state = left ? OP_RETURNED : OP_QUEUED;
	if (left && op_is_change(op))
		op->in_doubt = true;
	if (op->calls == NULL)
		op_free(op);
}

void topics_conn_lost(struct topics *t)
{
	struct op *op, *next;
	t->lost = false;
	if (t->conn == CONN_NONE)
		return;
	HASH_ITER(hh, t->ops, op, next)
		if (op->state == OP_SENT)
			op_return(op);
	topics_edge_close(t);
	if (t->conn == CONN_READY && t->ready_ms + STEADY_MS <= env_now_ms(t->env))
		t->backoff_ms = BACKOFF_MIN_MS;
	t->conn = CONN_NONE;
	t->resume_id = 0;
	t->n_release = 0;
	topics_segments_forget(t);
	topics_inbox_retire(t->inbox);
	t->inbox = NULL;
	ipc_reader_done(&t->reader);
	ipc_out_done(&t->out);
	if (!t->closing)
		retry_later(t);
}

/* ---------------------------------------------------------------- returning */

enum fate { SEND_AGAIN, ASK, IN_DOUBT };

static enum fate fate_of(const struct op *op)
{
	bool restarted = op->sent_boot != op->topics->boot_id;
	switch (op->row->type) {
	case IPC_APPEND:
		if (op->producer)
			return SEND_AGAIN;
		return restarted ? ASK : IN_DOUBT;
	case IPC_KV_PUT:
	case IPC_KV_DELETE:
		return IN_DOUBT;
	case IPC_SUBMIT:
		return op->producer ? SEND_AGAIN : IN_DOUBT;
	case IPC_DELETE:
	case IPC_CLOSE:
	case IPC_UPDATE:
	case IPC_GROW:
	case IPC_TRIM:
	case IPC_DELETE_RECORDS:
		return op->by_id ? SEND_AGAIN : IN_DOUBT;
	default:
		return SEND_AGAIN;
	}
}

/* Everything that is QUEUED into the queues, in order of ids. */
static void queue_all(struct topics *t)
{
	struct op *op, *next;
	HASH_ITER(hh, t->ops, op, next)
		if (op->state == OP_QUEUED)
			op_move(op, &t->queue[op_is_change(op) ? QUEUE_CHANGES : QUEUE_READS]);
}

static void fail_in_doubt(struct topics *t)
{
	while (t->failing != NULL)
		op_fail(t->failing, PICO_DURABILITY, "storaged was lost while this was under way");
}

static void ask(struct topics *t, size_t n)
{
	Ipc__Resume__Sent *sent = must_calloc(n, sizeof(*sent)), **list = must_calloc(n, sizeof(*list));
	struct op *op, *next;
	size_t i = 0;
	HASH_ITER(hh, t->ops, op, next) {
		if (!op->asked)
			continue;
		ipc__resume__sent__init(&sent[i]);
		sent[i].request_id = op->id;
		sent[i].wal_session = op->wal_session;
		sent[i].wal_seq = op->wal_seq;
		list[i] = &sent[i];
		i++;
	}
	must(i == n);
	Ipc__Resume m = IPC__RESUME__INIT;
	m.deadline_ms = env_now_ms(t->env) + RESUME_MS;
	m.n_sent = n;
	m.sent = list;
	t->resume_id = t->next_id++;
	if (ipc_write(&t->out.buf, IPC_RESUME, 0, t->resume_id, &m.base, slice_of(NULL, 0)) < 0)
		t->lost = true;
	free(list);
	free(sent);
}

static void decide_returned(struct topics *t)
{
	struct op *op, *next;
	size_t n_asked = 0;
	HASH_ITER(hh, t->ops, op, next) {
		op->asked = false;
		if (op->state != OP_RETURNED)
			continue;
		switch (fate_of(op)) {
		case SEND_AGAIN:
			op->state = OP_QUEUED;
			break;
		case ASK:
			op->asked = true;
			n_asked++;
			break;
		case IN_DOUBT:
			op_move(op, &t->failing);
			break;
		}
	}
	queue_all(t);
	if (n_asked > 0)
		ask(t, n_asked);
	fail_in_doubt(t);
}

/* ------------------------------------------------------------------- frames */

static int on_hello_answer(struct topics *t, struct ipc_frame *f, const Ipc__HelloAnswer *m)
{
	if (m->version != IPC_VERSION || m->boot_id == 0 || m->credit == 0 || m->inbox_size == 0)
		return -EPROTO;
	int r = topics_inbox_new(f->fd, m->inbox_size, &t->inbox);
	if (r < 0)
		return r;
	t->conn = CONN_READY;
	t->reader.phase = IPC_PHASE_READY;
	t->ready_ms = env_now_ms(t->env);
	t->boot_id = m->boot_id;
	t->wal_session = m->wal_session;
	t->wal_seq = m->wal_seq;
	t->credit = m->credit;
	t->credit_used = 0;
	decide_returned(t);
	return 0;
}

static void found(struct topics *t, const Ipc__ResumeAnswer__Found *m)
{
	struct op *op;
	HASH_FIND(hh, t->ops, &m->request_id, sizeof(m->request_id), op);
	if (op == NULL || !op->asked)
		return;
	op->asked = false;
	if (m->state == IPC__RESUME_ANSWER__STATE__ABSENT) {
		op->state = OP_QUEUED;
		op->in_doubt = false;
	} else if (m->state == IPC__RESUME_ANSWER__STATE__STORED && m->append != NULL) {
		struct pico_error ok = { .kind = PICO_OK };
		op_finish(op, &ok, &m->append->base, NULL);
	} else {
		op_move(op, &t->failing);
	}
}

/* m is NULL when the question itself failed: then all of it is in doubt. */
static void on_resume_answer(struct topics *t, const Ipc__ResumeAnswer *m)
{
	struct op *op, *next;
	for (size_t i = 0; m != NULL && i < m->n_found; i++)
		found(t, m->found[i]);
	HASH_ITER(hh, t->ops, op, next) {
		if (op->asked)
			op_move(op, &t->failing);
		op->asked = false;
	}
	t->resume_id = 0;
	queue_all(t);
	fail_in_doubt(t);
}

static int take_pieces(struct topics *t, const ProtobufCMessage *m, struct topics_ref **ret_ref)
{
	struct topics_piece_list l;
	if (m->descriptor == &ipc__read_answer__descriptor) {
		const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)m;
		l = (struct topics_piece_list){ a->ref, a->n_piece_segment, a->n_piece_offset, a->n_piece_length,
						a->piece_segment, a->piece_offset, a->piece_length };
	} else if (m->descriptor == &ipc__fetch_answer__descriptor) {
		const Ipc__FetchAnswer *a = (const Ipc__FetchAnswer *)m;
		for (size_t i = 0; i < a->n_part; i++)
			if (a->part[i]->first_piece > a->n_piece_segment ||
			    a->part[i]->n_pieces > a->n_piece_segment - a->part[i]->first_piece)
				return -EPROTO;
		l = (struct topics_piece_list){ a->ref, a->n_piece_segment, a->n_piece_offset, a->n_piece_length,
						a->piece_segment, a->piece_offset, a->piece_length };
	} else {
		return 0;
	}
	return topics_ref_new(t, &l, ret_ref);
}

static bool says_nothing_was_written(enum pico_error_kind kind)
{
	return kind == PICO_UNAVAILABLE || kind == PICO_THROTTLED || kind == PICO_CANCELLED;
}

/* Of the answer to something that was sent twice: "nothing was written" is said of this copy only, and what we find done,
 * we did. */
static void doubt(struct pico_error *e, ProtobufCMessage *m)
{
	if (says_nothing_was_written(e->kind))
		e->kind = PICO_DURABILITY;
	if (m == NULL)
		return;
	if (m->descriptor == &ipc__delete_answer__descriptor)
		((Ipc__DeleteAnswer *)m)->existed = true;
	Ipc__GroupDeleteAnswer *g = (Ipc__GroupDeleteAnswer *)m;
	if (m->descriptor == &ipc__group_delete_answer__descriptor && g->error == IPC__GROUP_ERROR__GROUP_NOT_FOUND)
		g->error = IPC__GROUP_ERROR__NONE;
	if (m->descriptor != &ipc__submit_answer__descriptor)
		return;
	const Ipc__SubmitAnswer *a = (const Ipc__SubmitAnswer *)m;
	for (size_t i = 0; i < a->n_part; i++)
		if (a->part[i]->error != NULL && says_nothing_was_written((enum pico_error_kind)a->part[i]->error->kind))
			a->part[i]->error->kind = PICO_DURABILITY;
}

static int on_op_answer(struct topics *t, struct op *op, struct ipc_frame *f, ProtobufCMessage *m)
{
	struct pico_error e = { .kind = PICO_OK };
	struct topics_ref *ref = NULL;
	if (f->flags & IPC_FLAG_ERROR) {
		ipc_error_read((const Ipc__Error *)m, &e);
		if (e.kind == PICO_OK)
			return -EPROTO;
		m = NULL;
	} else if (take_pieces(t, m, &ref) < 0) {
		return -EPROTO;
	}
	if (op->in_doubt)
		doubt(&e, m);
	op_finish(op, &e, m, ref);
	topics_ref_drop(ref);
	return 0;
}

static int on_answer(struct topics *t, struct ipc_frame *f, ProtobufCMessage *m)
{
	bool failed = f->flags & IPC_FLAG_ERROR;
	if (f->row->type == IPC_HELLO)
		return failed ? -EPROTO : on_hello_answer(t, f, (const Ipc__HelloAnswer *)m);
	if (f->row->type == IPC_RESUME) {
		if (f->request_id != t->resume_id)
			return -EPROTO;
		on_resume_answer(t, failed ? NULL : (const Ipc__ResumeAnswer *)m);
		return 0;
	}
	struct op *op;
	HASH_FIND(hh, t->ops, &f->request_id, sizeof(f->request_id), op);
	if (op == NULL || op->row != f->row || op->state != OP_SENT)
		return -EPROTO;
	return on_op_answer(t, op, f, m);
}

static int on_frame(struct topics *t, struct ipc_frame *f, ProtobufCMessage *m)
{
	if (f->flags != 0)
		return on_answer(t, f, m);
	switch (f->row->type) {
	case IPC_SEGMENT:
		return topics_segment_add(t, ((Ipc__Segment *)m)->id, ((Ipc__Segment *)m)->size, f->fd);
	case IPC_SEGMENT_GONE:
		topics_segment_gone(t, ((Ipc__SegmentGone *)m)->id);
		return 0;
	case IPC_RECLAIM:
		topics_reclaim(t, ((Ipc__Reclaim *)m)->segment);
		return 0;
	case IPC_WAL_POSITION:
		t->wal_session = ((Ipc__WalPosition *)m)->session;
		t->wal_seq = ((Ipc__WalPosition *)m)->seq;
		return 0;
	default:
		return -EPROTO;
	}
}

void topics_conn_input(struct topics *t)
{
	struct ipc_frame f;
	int r = 0;
	while (!t->lost && (r = ipc_read(&t->reader, &f)) > 0) {
		ProtobufCMessage *m = ipc_frame_decode(&f);
		r = m != NULL ? on_frame(t, &f, m) : -EPROTO;
		if (m != NULL)
			protobuf_c_message_free_unpacked(m, NULL);
		if (f.fd >= 0)
			close(f.fd);
		if (r < 0)
			break;
	}
	if (r < 0)
		t->lost = true;
}
