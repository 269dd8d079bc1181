/* SPDX-License-Identifier: Apache-2.0
 *
 * Fork. The points are found here, for the owner alone knows what is confirmed; apply looks at what may change until then.
 * Whether parent_end is where a batch begins is not believed: that batch is read. Then it goes the way of a create
 * with first records. A name that is taken is only compared: who asks again for a fork that he has does not hear that
 * its source was trimmed or deleted meanwhile.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/record_batch.h"
#include "common/wire.h"
#include "storaged/create.h"
#include "storaged/expiry.h"
#include "storaged/handle.h"

struct fork_op {
	uint8_t source[16];
	bool reading, compare_only;
	uint64_t offset, parent_end;    /* of partition 0, where an offset was named */
};

static void fork_free_own(struct op *op)
{
	free(op->own);
}

/* -------------------------------------------------------------------- proposal */

static bool refuse(struct pico_error *e, const char *text)
{
	pico_error_set(e, PICO_BAD_REQUEST, "%s", text);
	return false;
}

/* The confirmed end of a partition; its start when it is not ours, which apply refuses. */
static uint64_t tail_of(const struct node *n, const struct state_topic *source, uint32_t partition)
{
	const struct log *log = node_log(n, source, partition);
	return log != NULL && !source->soft_deleted ? log_confirm(log) : source->partition[partition].start;
}

/* What was not said is the source's. */
static void settings_fill(Ipc__CreateRequest *create, const struct state_topic *source)
{
	if (create->content_type[0] == '\0')
		create->content_type = source->content_type;
	if (create->ttl_seconds != 0 || create->expires_at_ms != 0)
		return;
	create->ttl_seconds = source->ttl_seconds;
	create->expires_at_ms = source->ttl_seconds == 0 ? source->expires_at_ms : 0;
}

static void point_fill(const struct op *op, const struct state_topic *source, const Ipc__ForkRequest *r, uint32_t partition,
		       Meta__Fork__Point *ret)
{
	const struct fork_op *f = op->own;
	meta__fork__point__init(ret);
	ret->offset = r->has_offset ? f->offset : tail_of(op->node, source, partition);
	ret->parent_end = f->compare_only ? STATE_PARENT_END_UNKNOWN : r->has_offset ? f->parent_end : ret->offset;
}

static bool fork_propose(struct op *op, const Ipc__ForkRequest *r, const struct state_topic *source, struct pico_error *e)
{
	struct fork_op *f = op->own;
	Ipc__CreateRequest create = *r->create;
	settings_fill(&create, source);
	if (!create_check(op, &create, e))
		return false;
	Meta__Fork fork = META__FORK__INIT;
	fork.source = (ProtobufCBinaryData){ .len = 16, .data = f->source };
	fork.sub_offset = r->sub_offset;
	fork.at_tail = !r->has_offset;
	fork.n_points = source->n_partitions;
	Meta__Fork__Point *point = must_calloc(fork.n_points, sizeof(*point));
	fork.points = must_calloc(fork.n_points, sizeof(*fork.points));
	for (uint32_t i = 0; i < fork.n_points; i++) {
		point_fill(op, source, r, i, &point[i]);
		fork.points[i] = &point[i];
	}
	bool good = create_propose(op, &create, &fork, e);
	free(fork.points);
	free(point);
	return good;
}

static void fork_go(struct op *op, const Ipc__ForkRequest *r)
{
	const struct fork_op *f = op->own;
	const struct state *s = meta_state(op->node->meta);
	const struct state_topic *source = state_topic_by_id(s, f->source);
	struct pico_error e = { 0 };
	op->on_cancel = NULL;
	op->on_deadline = op_deadline_unknown;
	if (source == NULL)
		source = state_soft_deleted_by_id(s, f->source);
	if (source == NULL)
		pico_error_set(&e, PICO_NOT_FOUND, "the stream to fork was deleted");
	if (source == NULL || !fork_propose(op, r, source, &e))
		create_refuse(op, &e);
}

/* ----------------------------------------------------------- the batch in question */

/* The base of the first batch among the pieces. */
static uint64_t first_base(const struct engine_read *r)
{
	uint8_t bytes[8];
	size_t n = 0;
	for (size_t i = 0; i < r->n_pieces; i++)
		for (size_t k = 0; k < r->pieces[i].length && n < sizeof(bytes); k++)
			bytes[n++] = r->pieces[i].segment->mem.base[r->pieces[i].offset + k];
	must(n == sizeof(bytes));
	return get_be64(bytes);
}

static void pieces_drop(struct engine_read *r)
{
	for (size_t i = 0; i < r->n_pieces; i++)
		pin_drop(r->pieces[i].pin);
	free(r->pieces);
}

static void on_read(struct engine_read *r, const struct pico_error *error)
{
	struct op *op = OP_OF(r, read);
	struct fork_op *f = op->own;
	struct pico_error e;
	must(op->magic == OP_MAGIC && f->reading && op->call != NULL);
	f->reading = false;
	if (error != NULL) {
		create_refuse(op, error);
		return;
	}
	uint64_t base = first_base(r), end = r->end;
	pieces_drop(r);
	if (base == f->parent_end && (f->parent_end == f->offset || f->offset < end)) {
		fork_go(op, (const Ipc__ForkRequest *)op->call->request);
		return;
	}
	pico_error_set(&e, PICO_BAD_REQUEST, "the batch at offset %" PRIu64 " is [%" PRIu64 ", %" PRIu64 "): a fork at %" PRIu64
		       " takes what lies before it there along", f->parent_end, base, end, f->offset);
	create_refuse(op, &e);
}

static void fork_give_up(struct op *op, enum pico_error_kind kind, const char *text)
{
	struct fork_op *f = op->own;
	struct pico_error e;
	pico_error_set(&e, kind, "%s", text);
	engine_read_cancel(op->node->engine, &op->read);
	f->reading = false;
	create_refuse(op, &e);
}

static void fork_deadline(struct op *op)
{
	fork_give_up(op, PICO_UNAVAILABLE, "storage did not answer in time");
}

static void fork_cancel(struct op *op)
{
	fork_give_up(op, PICO_CANCELLED, "cancelled");
}

static void batch_read(struct op *op, struct log *log)
{
	struct fork_op *f = op->own;
	op->on_deadline = fork_deadline;
	op->on_cancel = fork_cancel;
	op->read = (struct engine_read){
		.log = log, .from = f->parent_end > log_start(log) ? f->parent_end : log_start(log), .max_bytes = 1,
		.on_done = on_read,
	};
	f->reading = true;
	engine_read(op->node->engine, &op->read);
}

/* ---------------------------------------------------------------------- checks */

/* First records are there when they have to be; copies are no batch of a producer. */
static bool initial_check(struct op *op, const Ipc__ForkRequest *r, const struct call *c, struct pico_error *e)
{
	const struct fork_op *f = op->own;
	struct record_batch b;
	uint64_t n_copied = f->offset - f->parent_end + (r->sub_offset != 0);
	if (c->payload.n == 0)
		return n_copied == 0 || refuse(e, "what lies between parent_end and the point has to come along");
	if (!create_take_initial(op, c, e))
		return false;
	must(record_batch_read(slice_of(op->initial, op->initial_len), &b) == 0);
	op->initial_as_is = n_copied > 0;
	if (op->initial_as_is && (b.producer_id >= 0 || (b.attributes & (BATCH_TRANSACTIONAL | BATCH_CONTROL)) != 0))
		return refuse(e, "first records have no producer and no transaction");
	return b.record_count >= n_copied || refuse(e, "fewer first records than have to come along");
}

static bool point_check(const struct log *log, const Ipc__ForkRequest *r, struct pico_error *e)
{
	bool below = r->offset < log_start(log);
	if (!below && r->offset <= log_confirm(log))
		return r->sub_offset == 0 || r->offset < log_confirm(log) || refuse(e, "there is no record to take a piece of");
	pico_error_set(e, PICO_OUT_OF_RANGE, below ? "offset %" PRIu64 " was trimmed" : "offset %" PRIu64 " is beyond the end",
		       r->offset);
	e->has_start_offset = below;
	e->start_offset = log_start(log);
	e->has_next_offset = !below;
	e->next_offset = log_confirm(log);
	return false;
}

static const char *request_fault(const Ipc__ForkRequest *r)
{
	if (r->create == NULL || r->create->partitions != 0 || r->create->n_owners != 0 || r->create->initial != NULL)
		return "a fork has its source's partitions and owners, and first records beside the settings";
	if (!r->has_offset && (r->sub_offset != 0 || r->has_parent_end))
		return "a sub-offset goes with an offset";
	if (r->has_parent_end && r->parent_end > r->offset)
		return "parent_end lies behind the offset";
	return NULL;
}

/* ------------------------------------------------------------------------ call */

/* At an offset of a source that is there and ours. */
static void fork_at(struct op *op, const Ipc__ForkRequest *r, const struct call *c, struct log *log)
{
	struct fork_op *f = op->own;
	struct pico_error e = { 0 };
	f->parent_end = r->has_parent_end ? r->parent_end : r->offset;
	if ((r->has_offset && !point_check(log, r, &e)) || !initial_check(op, r, c, &e))
		create_refuse(op, &e);
	else if (r->has_offset && f->parent_end < log_confirm(log))
		batch_read(op, log);
	else
		fork_go(op, r);
}

static void fork_start(struct op *op, const struct state_topic *source, const Ipc__ForkRequest *r, const struct call *c)
{
	struct node *n = op->node;
	struct fork_op *f = op->own;
	struct pico_error e;
	const struct state_topic *named = state_topic_by_name(meta_state(n->meta), slice_str(r->create->name));
	f->offset = r->offset;
	f->compare_only = source->soft_deleted || (named != NULL && !expiry_is_over(n, named));
	for (uint32_t i = 0; i < source->n_partitions; i++)
		if (!f->compare_only && node_log(n, source, i) == NULL) {
			pico_error_set(&e, PICO_NOT_OWNER, "node %u serves what is to be forked", source->partition[i].owner);
			create_refuse(op, &e);
			return;
		}
	if (f->compare_only) {
		fork_go(op, r);
	} else if (source->n_partitions > 1 && r->has_offset) {
		pico_error_set(&e, PICO_BAD_REQUEST, "a stream of %u partitions is forked at its end", source->n_partitions);
		create_refuse(op, &e);
	} else {
		fork_at(op, r, c, node_log(n, source, 0));
	}
}

/* The source in any spelling, also one that is SOFT_DELETED; NULL, and the call is answered. */
static const struct state_topic *source_find(struct node *n, struct call *c, const Ipc__TopicRef *ref)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = NULL;
	if (ref != NULL && ref->topic_id.len == 16)
		t = state_soft_deleted_by_id(s, ref->topic_id.data);
	else if (ref != NULL && ref->topic_id.len == 0)
		t = state_soft_deleted_find(s, slice_str(ref->name));
	return t != NULL ? t : node_find_topic(n, c, ref);
}

void handle_fork(struct node *n, struct call *c)
{
	const Ipc__ForkRequest *r = (const Ipc__ForkRequest *)c->request;
	const char *fault = request_fault(r);
	if (fault != NULL) {
		call_fail(c, PICO_BAD_REQUEST, "%s", fault);
		return;
	}
	const struct state_topic *source = source_find(n, c, r->source);
	if (source == NULL)
		return;
	struct op *op = op_new(n, c);
	struct fork_op *f = must_calloc(1, sizeof(*f));
	op->own = f;
	op->free_own = fork_free_own;
	memcpy(f->source, source->id, sizeof(f->source));
	op_arm(op, op_deadline_unknown);
	fork_start(op, source, r, c);
}
