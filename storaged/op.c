/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls in progress, and the small things that every handler needs: answers, failures, topics as messages.
 * Invariant: a call is answered exactly once, and an op is freed only when nothing refers to it.
 */
#include "storaged/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "storaged/expiry.h"
#include "storaged/retention.h"

/* ------------------------------------------------------------------ answers */

void call_answer(struct call *c, ProtobufCMessage *answer)
{
	c->on_answer(c, NULL, answer);
}

void call_fail(struct call *c, enum pico_error_kind kind, const char *fmt, ...)
{
	struct pico_error e = { .kind = kind };
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e.message, sizeof(e.message), fmt, ap);
	va_end(ap);
	c->on_answer(c, &e, NULL);
}

void result_error(const Meta__Result__One *r, struct pico_error *ret_error)
{
	pico_error_set(ret_error, (enum pico_error_kind)r->error, "%s", r->message);
}

/* ---------------------------------------------------------------------- ops */

struct op *op_new(struct node *n, struct call *call)
{
	struct op *op = must_calloc(1, sizeof(*op));
	op->magic = OP_MAGIC;
	op->node = n;
	op->call = call;
	if (call != NULL)
		call->handler = op;
	op->next = n->ops;
	op->prev = &n->ops;
	if (op->next != NULL)
		op->next->prev = &op->next;
	n->ops = op;
	return op;
}

void op_free(struct op *op)
{
	must(op->magic == OP_MAGIC);
	env_timer_stop(op->node->env, &op->timer);
	*op->prev = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	op->magic = 0;
	if (op->owns_many != NULL)
		op_many_free(op->owns_many);
	if (op->own != NULL)
		op->free_own(op);
	free(op->closes);
	free(op->initial);
	free(op);
}

static void op_maybe_free(struct op *op)
{
	struct node *n = op->node;
	if (op->refs == 0 && op->call == NULL) {
		op_free(op);
		node_maybe_stopped(n);
	}
}

void op_unref(struct op *op)
{
	must(op->magic == OP_MAGIC && op->refs > 0);
	op->refs--;
	op_maybe_free(op);
}

static void op_timer_fired(void *arg)
{
	struct op *op = arg;
	must(op->magic == OP_MAGIC);
	if (op->call != NULL)
		op->on_deadline(op);
}

void op_arm(struct op *op, void (*on_deadline)(struct op *op))
{
	op->on_deadline = on_deadline;
	op->timer.on_fire = op_timer_fired;
	op->timer.arg = op;
	env_timer_start(op->node->env, &op->timer, op->call->deadline_ms);
}

void op_deadline_unknown(struct op *op)
{
	struct pico_error e;
	pico_error_set(&e, PICO_DURABILITY, "not known yet whether it was done; look, or do the same again");
	op_fail(op, &e);
}

void op_applied(struct op *op, const Meta__Result__One *result, void (*answer)(struct op *op))
{
	struct pico_error e;
	must(op->magic == OP_MAGIC);
	if (op->call != NULL && result == NULL) {
		op_deadline_unknown(op);
	} else if (op->call != NULL && result->error != PICO_OK) {
		result_error(result, &e);
		op_fail(op, &e);
	} else if (op->call != NULL) {
		answer(op);
	}
	op_unref(op);
}

/* The call goes back to its owner; the op lives on while refs say so. */
static void op_finish(struct op *op, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct call *c = op->call;
	op->call = NULL;
	env_timer_stop(op->node->env, &op->timer);
	if (c != NULL) {
		c->handler = NULL;
		c->on_answer(c, error, answer);
	}
	op_maybe_free(op);
}

void op_answer(struct op *op, ProtobufCMessage *answer)
{
	op_finish(op, NULL, answer);
}

void op_fail(struct op *op, const struct pico_error *error)
{
	must(error->kind != PICO_OK);
	op_finish(op, error, NULL);
}

/* ------------------------------------------------------------------- topics */

bool node_topic_is_born(const struct node *n, const struct state_topic *t)
{
	const struct log *first = node_log(n, t, 0);
	const struct state_parent p = state_partition_parent(t, 0);     /* of no fork: zeroes */
	return !t->initial || first == NULL || t->partition[0].start > p.offset || log_confirm(first) > p.end;
}

bool node_topic_is_there(struct node *n, const struct state_topic *t)
{
	return node_topic_is_born(n, t) && !expiry_is_over(n, t);
}

const struct state_topic *node_find_topic(struct node *n, struct call *c, const Ipc__TopicRef *ref)
{
	bool by_id = ref != NULL && ref->topic_id.len == 16;
	if (!by_id && (ref == NULL || ref->topic_id.len != 0 || ref->name[0] == '\0')) {
		call_fail(c, PICO_BAD_REQUEST, "name a topic, or give its 16-byte id");
		return NULL;
	}
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = by_id ? state_topic_by_id(s, ref->topic_id.data)
					    : state_topic_find(s, slice_str(ref->name));
	if (t != NULL && node_topic_is_there(n, t))
		return t;
	struct pico_error e;
	node_no_topic(n, ref, &e);
	call_fail(c, e.kind, "%s", e.message);
	return NULL;
}

void node_no_topic(const struct node *n, const Ipc__TopicRef *ref, struct pico_error *ret_error)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *t = ref->topic_id.len == 16 ? state_soft_deleted_by_id(s, ref->topic_id.data)
							      : state_soft_deleted_find(s, slice_str(ref->name));
	if (t != NULL)
		pico_error_set(ret_error, PICO_GONE, "the stream was deleted");
	else
		pico_error_set(ret_error, PICO_NOT_FOUND, "no such stream");
}

struct log *node_find_log(struct node *n, struct call *c, const struct state_topic *t, uint32_t partition)
{
	if (partition >= t->n_partitions) {
		call_fail(c, PICO_BAD_REQUEST, "partition %u of a stream that has %u: they count from 0", partition,
			  t->n_partitions);
		return NULL;
	}
	struct log *log = node_log(n, t, partition);
	if (log == NULL)
		call_fail(c, PICO_NOT_OWNER, "node %u serves this partition", t->partition[partition].owner);
	return log;
}

static void partition_fill(const struct state_partition *p, const struct log *log, Ipc__Partition *ret)
{
	ipc__partition__init(ret);
	ret->log_id = p->log_id;
	ret->owner = p->owner;
	ret->epoch = p->epoch;
	ret->start = log != NULL ? log_start(log) : p->start;
	ret->confirm = log != NULL ? log_confirm(log) : p->start;
}

static void fork_fill(const struct state_topic *t, uint32_t first, struct topic_message *ret)
{
	const struct state_topic *source = state_topic_source(t);
	ret->m.n_forks = state_topic_n_forks(t);
	if (source == NULL)
		return;
	ret->m.source_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)source->id };
	ret->m.source_name = source->name;
	ret->m.source_deleted = source->soft_deleted;
	for (size_t i = 0; i < ret->m.n_partitions; i++)
		ret->partition[i].fork_offset = state_partition_parent(t, first + (uint32_t)i).offset;
}

static void config_fill(const struct state_topic *t, struct topic_message *ret)
{
	ret->config = t->n_config == 0 ? NULL : must_calloc(t->n_config, sizeof(*ret->config));
	ret->config_pointer = t->n_config == 0 ? NULL : must_calloc(t->n_config, sizeof(*ret->config_pointer));
	for (uint16_t i = 0; i < t->n_config; i++) {
		ipc__config_entry__init(&ret->config[i]);
		ret->config[i].name = (char *)t->config[i].name;
		ret->config[i].value = t->config[i].value;
		ret->config_pointer[i] = &ret->config[i];
	}
	ret->m.n_config = t->n_config;
	ret->m.config = ret->config_pointer;
}

void topic_message_fill(const struct node *n, const struct state_topic *t, uint32_t partition, struct topic_message *ret)
{
	uint32_t first = partition == ALL_PARTITIONS ? 0 : partition;
	uint32_t count = partition == ALL_PARTITIONS ? t->n_partitions : 1;
	ret->partition = must_calloc(count, sizeof(*ret->partition));
	ret->pointer = must_calloc(count, sizeof(*ret->pointer));
	for (uint32_t i = 0; i < count; i++) {
		partition_fill(&t->partition[first + i], node_log(n, t, first + i), &ret->partition[i]);
		ret->pointer[i] = &ret->partition[i];
	}
	ipc__topic__init(&ret->m);
	config_fill(t, ret);
	ret->m.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)t->id };
	ret->m.name = t->name;
	ret->m.content_type = t->content_type;
	if (t->kafka_topic != NULL)
		ret->m.kafka_topic = t->kafka_topic;
	if (t->schema_name != NULL)
		ret->m.schema_name = t->schema_name;
	ret->m.schema_validate = t->schema_validate;
	ret->m.closed = t->closed;
	ret->m.settings_version = t->settings_version;
	ret->m.created_ms = t->created_ms;
	ret->m.ttl_seconds = t->ttl_seconds;
	ret->m.expires_at_ms = t->ttl_seconds == 0 ? t->expires_at_ms : 0;
	ret->m.n_partitions = count;
	ret->m.partitions = ret->pointer;
	fork_fill(t, first, ret);
}

void topic_message_free(struct topic_message *t)
{
	free(t->partition);
	free(t->pointer);
	free(t->config);
	free(t->config_pointer);
}
