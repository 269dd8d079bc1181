/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of groups from their arrival to their end: they wait for their group, run, and perhaps park in it.
 */
#include <stdlib.h>
#include <utlist.h>

#include "storaged/coordinator_impl.h"

#define LOAD_WAIT_MS 1000u              /* then a waiting call is told that the group is loading */
#define CREATE_WAIT_MS 5000u

/* --------------------------------------------------------------------- waiting */

static void call_unwait(struct group_call *gc)
{
	DL_DELETE(gc->entry->waiting, gc);
	gc->entry = NULL;
	gc->waits = false;
}

void call_wait(struct group_call *gc, struct group_entry *entry)
{
	struct env *env = entry->coordinator->node->env;
	uint64_t ms = entry->state == ENTRY_LOADING ? LOAD_WAIT_MS : CREATE_WAIT_MS;
	if (entry->waiting == NULL)
		env_timer_start(env, &entry->timer, env_now_ms(env) + ms);
	DL_APPEND(entry->waiting, gc);
	gc->entry = entry;
	gc->waits = true;
}

void op_refuse(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	pico_error_set(&e, kind, "%s", text);
	op_fail(op, &e);
}

void run_waiting(struct group_entry *entry, struct group_entry *with)
{
	struct group_call *last = entry->waiting != NULL ? entry->waiting->prev : NULL;
	for (struct group_call *gc = NULL; gc != last && entry->waiting != NULL;) {
		gc = entry->waiting;
		call_unwait(gc);
		if (with == NULL || with->state == ENTRY_READY)
			gc->run(gc->op, with);
		else
			call_wait(gc, with);
	}
}

void fail_waiting(struct group_entry *entry, const struct pico_error *e)
{
	while (entry->waiting != NULL) {
		struct op *op = entry->waiting->op;
		call_unwait(entry->waiting);
		op_fail(op, e);
	}
}

void forget_waiting(struct group_entry *entry)
{
	while (entry->waiting != NULL)
		call_unwait(entry->waiting);
}

void waited_enough(struct group_entry *entry)
{
	struct pico_error e;
	pico_error_set(&e, PICO_UNAVAILABLE, "the group is being made or deleted; try again");
	if (entry->state != ENTRY_LOADING)
		fail_waiting(entry, &e);
	while (entry->waiting != NULL) {
		struct op *op = entry->waiting->op;
		call_unwait(entry->waiting);
		group_call_refuse(op, IPC__GROUP_ERROR__LOADING);
	}
}

/* ------------------------------------------------------------------------ ends */

/* The op ends here; its call may be one that the group has parked. */
static void call_end(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct group_call *gc = op->own;
	struct group_entry *entry = gc->entry;
	if (gc->waits) {
		call_unwait(gc);
	} else if (entry != NULL) {
		gc->entry = NULL;
		group_forget(entry->group, op, env_now_ms(op->node->env));
		op_refuse(op, kind, text);
		group_entry_after(entry);
		return;
	}
	op_refuse(op, kind, text);
}

static void call_cancel(struct op *op)
{
	call_end(op, PICO_CANCELLED, "cancelled");
}

static void call_deadline(struct op *op)
{
	call_end(op, PICO_UNAVAILABLE, "the group did not come that far in time; try again");
}

/* The groups stand still by now: what they have parked is theirs no more. */
static void call_stop(struct op *op)
{
	struct group_call *gc = op->own;
	must(op->node->coordinator->stopping);
	if (gc->waits)
		call_unwait(gc);
	gc->entry = NULL;
	op_refuse(op, PICO_UNAVAILABLE, "this node is stopping");
}

static void call_free(struct op *op)
{
	struct group_call *gc = op->own;
	must(!gc->waits);
	free(gc->part);
	free(gc);
}

/* ---------------------------------------------------------------------- start */

void group_call_start(struct node *n, struct call *c, ProtobufCBinaryData id, bool create,
		      void (*run)(struct op *op, struct group_entry *entry))
{
	struct op *op = op_new(n, c);
	struct group_call *gc = must_calloc(1, sizeof(*gc));
	gc->op = op;
	gc->run = run;
	op->own = gc;
	op->free_own = call_free;
	op->on_cancel = call_cancel;
	op->on_stop = call_stop;
	op_arm(op, call_deadline);
	if (id.len == 0 || id.len > GROUP_ID_MAX)
		group_call_refuse(op, IPC__GROUP_ERROR__INVALID_GROUP_ID);
	else
		coordinator_enter(n->coordinator, gc, slice_of(id.data, id.len), create);
}

/* The error is the first field of each answer of a group. */
void group_call_refuse(struct op *op, Ipc__GroupError error)
{
	union {
		ProtobufCMessage base;
		uint8_t bytes[256];
	} m;
	const ProtobufCMessageDescriptor *d = op->call->row->answer;
	const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(d, 1);
	must(d->sizeof_message <= sizeof(m) && f != NULL && f->descriptor == &ipc__group_error__descriptor);
	protobuf_c_message_init(d, &m.base);
	memcpy(m.bytes + f->offset, &error, sizeof(error));
	op_answer(op, &m.base);
}

void group_call_await_delete(struct op *op, struct group_entry *entry, void (*run)(struct op *op, struct group_entry *entry))
{
	struct group_call *gc = op->own;
	gc->run = run;
	call_wait(gc, entry);
}
