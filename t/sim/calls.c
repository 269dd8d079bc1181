/* SPDX-License-Identifier: Apache-2.0
 *
 * A call on its way to a node and back, as IPC would carry it: it takes time both ways, it is lost with the
 * node, and a client that waits in vain leaves. The answer's instant at the node is the one that counts. Pieces of
 * reads are held for a while, and must not change while they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/sim/run.h"

/* A client that nobody answers leaves that long after its deadline. */
#define GIVE_UP_MS 5000

struct held {
	struct held *next, **prev;
	struct sim_node *node;
	struct piece *pieces;
	size_t n_pieces;
	uint8_t *bytes;
};

static const struct ipc_row rows[] = {
#define IPC_MSG(id, NAME, req, ans, side, at) \
	{ .type = id, .name = #NAME, .request = &ipc__##req##__descriptor },
#include "common/ipc_msg.def"
#undef IPC_MSG
};

static const struct ipc_row *row_of(enum ipc_type type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].type == type)
			return &rows[i];
	must(!"a row of ipc_msg.def");
	return NULL;
}

static ProtobufCMessage *message_copy(const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = must_calloc(1, n);
	protobuf_c_message_pack(m, bytes);
	ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
	must(copy != NULL);
	free(bytes);
	return copy;
}

/* -------------------------------------------------------------------- pieces */

static void held_unlink(struct held *h)
{
	*h->prev = h->next;
	if (h->next != NULL)
		h->next->prev = h->prev;
	free(h->pieces);
	free(h->bytes);
	free(h);
}

static uint8_t *pieces_copy(const struct piece *p, size_t n, size_t *ret_size)
{
	size_t size = 0, at = 0;
	for (size_t i = 0; i < n; i++) {
		must((uint64_t)p[i].offset + p[i].length <= p[i].segment->mem.size);
		size += p[i].length;
	}
	uint8_t *bytes = must_calloc(1, size);
	for (size_t i = 0; i < n; at += p[i++].length)
		memcpy(bytes + at, p[i].segment->mem.base + p[i].offset, p[i].length);
	*ret_size = size;
	return bytes;
}

static void held_release(void *arg)
{
	struct held *h = arg;
	size_t size;
	uint8_t *now = pieces_copy(h->pieces, h->n_pieces, &size);
	if (memcmp(now, h->bytes, size) != 0)
		run_fault(h->node->run, "bytes under a reference changed");
	free(now);
	for (size_t i = 0; i < h->n_pieces; i++)
		pin_drop(h->pieces[i].pin);
	held_unlink(h);
}

static void hold_pieces(struct sim_node *n, struct piece *pieces, size_t n_pieces, const uint8_t *bytes, size_t size)
{
	struct sim *s = &n->run->sim;
	struct held *h = must_calloc(1, sizeof(*h));
	*h = (struct held){ .next = n->held, .prev = &n->held, .node = n, .pieces = pieces, .n_pieces = n_pieces,
			    .bytes = must_memdup(bytes, size) };
	if (n->held != NULL)
		n->held->prev = &h->next;
	n->held = h;
	uint64_t delay = sim_chance(s, 200) ? sim_below(s, 2 * SIM_S) : sim_below(s, 5 * SIM_MS);
	sim_after(s, delay, n->proc, "release", held_release, NULL, h);
}

void held_forget(struct sim_node *n)
{
	while (n->held != NULL)
		held_unlink(n->held);
}

void held_check_gone(struct sim_node *n, const struct segment *s)
{
	for (struct held *h = n->held; h != NULL; h = h->next)
		for (size_t i = 0; i < h->n_pieces; i++)
			if (h->pieces[i].segment == s)
				run_fault(n->run, "a segment went away under a reference");
}

/* ------------------------------------------------------------------- records */

static void record_seen(struct run *r, uint32_t hist, const struct record *rec, uint64_t from)
{
	struct hist_record seen = { .offset = rec->offset, .timestamp = rec->timestamp_ms, .value = HIST_NONE };
	if (rec->offset < from)
		return;
	seen.crc = crc32c_extend(crc32c(rec->key.p, rec->key.n), rec->value.p, rec->value.n);
	if (rec->value.n >= 8) {
		seen.value = get_le32(rec->value.p);
		seen.index = get_le32(rec->value.p + 4);
	}
	history_record(&r->history, &seen);
	r->history.ops[hist].n_seen++;
	r->result->n_read++;
}

void records_seen(struct run *r, uint32_t hist, struct slice bytes, uint64_t from)
{
	struct record_batch b;
	struct record_iter it;
	struct record rec;
	r->history.ops[hist].first_record = r->history.n_records;
	while (bytes.n > 0) {
		int64_t size = record_batch_size(bytes);
		if (size <= 0 || (uint64_t)size > bytes.n ||
		    record_batch_read(slice_of(bytes.p, (size_t)size), &b) != 0 || !record_batch_crc_is_good(&b) ||
		    record_iter_init(&it, &b) != 0) {
			run_fault(r, "a read shows bytes that are no batch");
			return;
		}
		while (record_iter_next(&it, &rec) == 1)
			record_seen(r, hist, &rec, from);
		bytes = slice_of(bytes.p + size, bytes.n - (size_t)size);
	}
}

/* --------------------------------------------------------------------- calls */

static void call_unlink(struct sim_call *c)
{
	if (c->prev == NULL)
		return;
	*c->prev = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->prev = NULL;
}

static void call_unref(void *arg)
{
	struct sim_call *c = arg;
	if (--c->refs > 0)
		return;
	must(c->prev == NULL && c->give_up == NULL);
	if (c->request != NULL)
		protobuf_c_message_free_unpacked(c->request, NULL);
	if (c->answer != NULL)
		protobuf_c_message_free_unpacked(c->answer, NULL);
	free(c->payload);
	free(c->bytes);
	free(c);
}

/* The client hears what became of it. */
static void tell(void *arg)
{
	struct sim_call *c = arg;
	c->on_result(c, c->refused ? &c->error : NULL, c->answer);
	call_unref(c);
}

static void tell_later(struct sim_call *c, uint64_t delay)
{
	struct sim *s = &c->client->run->sim;
	must(!c->told);
	c->told = true;
	if (c->give_up != NULL)
		sim_cancel(s, c->give_up);
	c->give_up = NULL;
	sim_after(s, delay, NULL, "answer", tell, call_unref, c);
}

static void give_up(void *arg)
{
	struct sim_call *c = arg;
	c->give_up = NULL;
	tell_later(c, 0);
}

/* At the end of a run. */
static void give_up_drop(void *arg)
{
	struct sim_call *c = arg;
	c->give_up = NULL;
	c->told = true;
	call_unref(c);
}

static bool is_unknown(enum pico_error_kind kind)
{
	return kind == PICO_DURABILITY;
}

static void note_error(struct hist_op *op, const struct pico_error *e)
{
	op->outcome = is_unknown(e->kind) ? HIST_UNKNOWN : HIST_REFUSED;
	op->error = e->kind;
	op->has_next = e->has_next_offset;
	op->next = e->next_offset;
	op->known_epoch = e->producer_epoch;
	op->expected = e->expected_seq;
	op->start = e->has_start_offset ? e->start_offset : 0;
}

static void note_answer(struct hist_op *op, const struct sim_call *c)
{
	op->outcome = HIST_OK;
	if (c->call.row->type == IPC_APPEND) {
		const Ipc__AppendAnswer *a = (const Ipc__AppendAnswer *)c->answer;
		op->base = a->base_offset;
		op->next = a->next_offset;
		op->timestamp = a->timestamp_ms;
		op->duplicate = a->duplicate;
		op->closed = a->closed;
		op->base_known = (a->base_known || !a->duplicate) && op->n_records > 0 && !op->check_only;
	} else if (c->call.row->type == IPC_SUBMIT) {
		const Ipc__SubmitAnswer__Part *a = ((const Ipc__SubmitAnswer *)c->answer)->part[0];
		op->base = a->base_offset;
		op->next = a->base_offset + op->n_records;
		op->timestamp = a->duplicate ? 0 : a->log_append_time_ms;
		op->duplicate = a->duplicate;
		op->base_known = true;
	} else if (c->call.row->type == IPC_READ) {
		const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)c->answer;
		op->base = a->from;
		op->next = a->end;
		op->closed = a->closed;
		op->confirm = a->confirm;
		op->start = a->start;
	} else if (c->call.row->type == IPC_WAIT) {
		const Ipc__WaitAnswer *a = (const Ipc__WaitAnswer *)c->answer;
		op->ready = a->ready;
		op->next = op->confirm = a->confirm;
		op->closed = a->closed;
	} else if (c->call.row->type == IPC_TRIM) {
		op->base = ((const Ipc__TrimAnswer *)c->answer)->start;
		c->client->run->sim.faults[SIM_TRIMMED]++;
	} else if (c->call.row->type == IPC_OFFSETS) {
		const Ipc__OffsetsAnswer *a = (const Ipc__OffsetsAnswer *)c->answer;
		op->base = op->start = a->start;
		op->next = op->confirm = a->confirm;
		op->closed = a->closed;
	}
}

static void note(struct sim_call *c, const struct pico_error *error)
{
	struct run *r = c->client->run;
	if (c->hist == HIST_NONE)
		return;
	struct hist_op *op = &r->history.ops[c->hist];
	op->answered_ns = r->sim.now_ns;
	op->proc = (uint32_t)c->node->session;
	if (error != NULL)
		note_error(op, error);
	else
		note_answer(op, c);
}

/* A submit of ours has one part: its error is the call's. */
static const struct pico_error *part_error(const struct call *call, const ProtobufCMessage *answer, struct pico_error *e)
{
	if (call->row->type != IPC_SUBMIT || answer == NULL)
		return NULL;
	const Ipc__SubmitAnswer *a = (const Ipc__SubmitAnswer *)answer;
	must(a->n_part == 1);
	if (a->part[0]->error == NULL)
		return NULL;
	ipc_error_read(a->part[0]->error, e);
	return e;
}

static void on_answer(struct call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct sim_call *c = call->owner;
	struct pico_error of_part;
	if (error == NULL)
		error = part_error(call, answer, &of_part);
	struct run *r = c->client->run;
	bool dead = c->node->proc->state == SIM_DEAD;
	if (error == NULL && !dead) {
		must(answer != NULL);
		c->answer = message_copy(answer);
	}
	if (call->n_pieces > 0 && !dead) {
		c->bytes = pieces_copy(call->pieces, call->n_pieces, &c->n_bytes);
		hold_pieces(c->node, call->pieces, call->n_pieces, c->bytes, c->n_bytes);
	} else {
		free(call->pieces);
	}
	if (dead)
		return;         /* the answer never left; the call is lost with the node */
	call_unlink(c);
	sim_trace(&r->sim, "answered", call->request_id, error != NULL ? error->kind : 0);
	if (!c->told) {
		note(c, error);
		c->refused = error != NULL;
		if (error != NULL)
			c->error = *error;
		tell_later(c, sim_between(&r->sim, SIM_MS / 50, SIM_MS));
	}
	call_unref(c);
}

/* The node is gone: nobody knows. */
static void lose(struct sim_call *c)
{
	call_unlink(c);
	if (!c->told)
		tell_later(c, sim_between(&c->client->run->sim, SIM_MS, 20 * SIM_MS));
	call_unref(c);
}

void calls_lost(struct sim_node *n)
{
	while (n->calls != NULL)
		lose(n->calls);
}

bool calls_are_open(const struct sim_node *n)
{
	for (const struct sim_call *c = n->calls; c != NULL; c = c->next)
		if (c->delivered)
			return true;
	return false;
}

bool calls_wait(const struct sim_node *n)
{
	for (const struct sim_call *c = n->calls; c != NULL; c = c->next)
		if (c->delivered && c->call.row->type == IPC_WAIT)
			return true;
	return false;
}

/* The worker does not want it any more: its client hung up. */
static void cancel(void *arg)
{
	struct sim_call *c = arg;
	if (c->prev != NULL) {
		c->client->run->sim.faults[SIM_CANCEL]++;
		node_cancel(c->node->node, &c->call);
	}
	call_unref(c);
}

static void deliver(void *arg)
{
	struct sim_call *c = arg;
	struct env *e = &c->node->proc->env;
	if (c->hist != HIST_NONE)
		c->client->run->history.ops[c->hist].invoked_ns = c->client->run->sim.now_ns;
	c->call.deadline_ms = env_now_ms(e) + c->timeout_ms;
	c->delivered = true;
	struct sim *s = &c->client->run->sim;
	if (sim_chance(s, 10) && !c->client->run->healed) {
		c->refs++;
		sim_after(s, sim_below(s, 50 * SIM_MS), c->node->proc, "cancel", cancel, call_unref, c);
	}
	node_call(c->node->node, &c->call);
}

struct sim_call *call_send(struct client *client, struct sim_node *n, enum ipc_type type, ProtobufCMessage *request,
			   struct slice payload, uint64_t timeout_ms, uint32_t hist, call_result_fn *on_result)
{
	struct run *r = client->run;
	struct sim_call *c = must_calloc(1, sizeof(*c));
	*c = (struct sim_call){ .node = n, .client = client, .hist = hist, .timeout_ms = timeout_ms,
				.on_result = on_result, .refs = 2 };
	c->request = message_copy(request);
	c->payload = payload.n > 0 ? must_memdup(payload.p, payload.n) : NULL;
	c->call = (struct call){ .row = row_of(type), .request = c->request, .payload = slice_of(c->payload, payload.n),
				 .worker_instance = client->instance, .request_id = ++r->next_request,
				 .on_answer = on_answer, .owner = c };
	if (hist != HIST_NONE) {
		struct hist_op *op = &r->history.ops[hist];
		op->client = client->index;
		op->stream = client->stream * RUN_CLIENTS + client->index;
		op->invoked_ns = r->sim.now_ns;
	}
	sim_trace(&r->sim, c->call.row->name, c->call.request_id, client->index);
	c->next = n->calls;
	c->prev = &n->calls;
	if (n->calls != NULL)
		n->calls->prev = &c->next;
	n->calls = c;
	if (n->node == NULL) {
		lose(c);
		return c;
	}
	c->give_up = sim_after(&r->sim, (timeout_ms + GIVE_UP_MS) * SIM_MS, NULL, "give up", give_up, give_up_drop, c);
	sim_after(&r->sim, SIM_MS / 20, n->proc, "call", deliver, NULL, c);
	return c;
}
