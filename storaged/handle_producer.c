/* SPDX-License-Identifier: Apache-2.0
 *
 * InitProducer: numbers for idempotent producers. They come from blocks that the metadata gives to this node alone,
 * so no number is given twice, whatever dies; what is left of a block is lost with the process.
 */
#include <stdlib.h>
#include <utlist.h>

#include "storaged/parts.h"

#define BLOCK 1000u

struct init_wait {
	struct op *op;
	struct init_wait *prev, *next;
};

struct producer_ids {
	struct node *node;
	uint64_t next, end;             /* not given out: [next, end) */
	struct init_wait *waits;        /* for a block, in order */
	bool asked;                     /* a block is on its way */
};

void producer_ids_free(struct producer_ids *ids)
{
	free(ids);
}

static void init_answer(struct op *op, uint64_t id)
{
	Ipc__InitProducerAnswer a = IPC__INIT_PRODUCER_ANSWER__INIT;
	a.producer_id = (int64_t)id;
	a.producer_epoch = 0;
	op_answer(op, &a.base);
}

static void init_free(struct op *op)
{
	free(op->own);
}

static void init_fail(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	struct init_wait *w = op->own;
	DL_DELETE(op->node->producer_ids->waits, w);
	pico_error_set(&e, kind, "%s", text);
	op_fail(op, &e);
}

static void init_deadline(struct op *op)
{
	init_fail(op, PICO_UNAVAILABLE, "the metadata gave no producer ids in time; try again");
}

static void init_cancel(struct op *op)
{
	init_fail(op, PICO_CANCELLED, "cancelled");
}

static void init_stop(struct op *op)
{
	init_fail(op, PICO_UNAVAILABLE, "this node is stopping");
}

static void ids_ask(struct producer_ids *ids);

static void ids_give(struct producer_ids *ids)
{
	while (ids->waits != NULL && ids->next < ids->end) {
		struct op *op = ids->waits->op;
		DL_DELETE(ids->waits, ids->waits);
		init_answer(op, ids->next++);
	}
	if (ids->waits != NULL)
		ids_ask(ids);
}

static void on_block(void *arg, const Meta__Result__One *result)
{
	struct producer_ids *ids = arg;
	ids->asked = false;
	if (result != NULL && result->error == PICO_OK) {
		ids->next = result->first_producer_id;
		ids->end = ids->next + BLOCK;
		ids_give(ids);
		return;
	}
	while (ids->waits != NULL)
		init_fail(ids->waits->op, PICO_UNAVAILABLE, result == NULL ? "the metadata is not to be had; try again" :
			  "the metadata gives no more producer ids");
}

static void ids_ask(struct producer_ids *ids)
{
	if (ids->asked)
		return;
	Meta__Command command = META__COMMAND__INIT;
	Meta__AllocateProducerIds allocate = META__ALLOCATE_PRODUCER_IDS__INIT;
	command.kind_case = META__COMMAND__KIND_ALLOCATE_PRODUCER_IDS;
	command.allocate_producer_ids = &allocate;
	allocate.count = BLOCK;
	ids->asked = true;
	if (meta_propose(ids->node->meta, &command, on_block, ids) == 0)
		return;
	ids->asked = false;
	while (ids->waits != NULL)
		init_fail(ids->waits->op, PICO_THROTTLED, "too many metadata changes are waiting; try again");
}

void handle_init_producer(struct node *n, struct call *c)
{
	if (n->producer_ids == NULL) {
		n->producer_ids = must_calloc(1, sizeof(*n->producer_ids));
		n->producer_ids->node = n;
	}
	struct op *op = op_new(n, c);
	struct init_wait *w = must_calloc(1, sizeof(*w));
	w->op = op;
	op->own = w;
	op->free_own = init_free;
	op->on_cancel = init_cancel;
	op->on_stop = init_stop;
	DL_APPEND(n->producer_ids->waits, w);
	op_arm(op, init_deadline);
	ids_give(n->producer_ids);
}
