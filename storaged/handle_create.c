/* SPDX-License-Identifier: Apache-2.0
 *
 * Create, one or many. A create with first records is answered when they are durable: CreateTopic carries
 * `initial`, the records enter partition 0 in the turn that applies it, before any other append, and a
 * topic whose first records never arrived is deleted by the next start (node.c). The batch is copied and
 * checked before anything is proposed, so that a bad one creates nothing.
 */
#include <stdlib.h>

#include "common/record_batch.h"
#include "common/topic_name.h"
#include "storaged/create.h"
#include "storaged/expiry.h"
#include "storaged/handle.h"

#define CONTENT_TYPE_MAX 1024
#define CREATE_MANY_MAX META_ROW_COMMANDS_MAX

struct op_many {
	struct op *op;                  /* of the CREATE_MANY call */
	Ipc__CreateManyAnswer__One *one;
	Ipc__CreateManyAnswer__One **pointer;
	struct {
		Ipc__CreateAnswer ok;
		Ipc__Error error;
		struct topic_message topic;
		struct pico_error words;
	} *body;
	size_t n, open;
};

/* -------------------------------------------------------------------- checks */

static bool create_check_name(const Ipc__CreateRequest *r, struct pico_error *e)
{
	struct slice name = slice_str(r->name);
	const char *fault = topic_path_fault(name);
	if (fault != NULL)
		pico_error_set(e, PICO_BAD_REQUEST, "%s", fault);
	else if (!r->reserved_allowed && topic_path_is_reserved(name))
		pico_error_set(e, PICO_BAD_REQUEST, "%.64s is reserved; choose a name outside /_sys, /_schemas, /_streams, "
			       "/_groups, /_kafka and /__ds", r->name);
	else if (r->has_kafka_topic && r->kafka_topic[0] != '\0' && !topic_alias_is_legal(slice_str(r->kafka_topic)))
		pico_error_set(e, PICO_BAD_REQUEST, "a Kafka topic name is 1 to 249 of A-Z a-z 0-9 . _ - and not . or ..");
	return e->kind == PICO_OK;
}

bool create_check(const struct op *op, const Ipc__CreateRequest *r, struct pico_error *e)
{
	uint32_t partitions_max = op->node->config.max_partitions;
	*e = (struct pico_error){ 0 };
	if (!create_check_name(r, e))
		return false;
	if (r->content_type[0] == '\0' || strlen(r->content_type) > CONTENT_TYPE_MAX)
		pico_error_set(e, PICO_BAD_REQUEST, "a content type of 1 to %d bytes is needed", CONTENT_TYPE_MAX);
	else if (r->partitions > partitions_max)
		pico_error_set(e, PICO_BAD_REQUEST, "%u partitions; at most %u are allowed", r->partitions, partitions_max);
	else if (r->n_owners != 0 && r->n_owners != (r->partitions == 0 ? 1 : r->partitions))
		pico_error_set(e, PICO_BAD_REQUEST, "%zu owners for %u partitions: name one each, or none", r->n_owners,
			       r->partitions);
	else if (r->ttl_seconds != 0 && r->expires_at_ms != 0)
		pico_error_set(e, PICO_BAD_REQUEST, "a TTL and an expiry exclude each other");
	else if (op->many != NULL && r->initial != NULL)
		pico_error_set(e, PICO_BAD_REQUEST, "first records go with a create of one stream, not of many");
	return e->kind == PICO_OK;
}

bool create_take_initial(struct op *op, const struct call *c, struct pico_error *e)
{
	if (c->payload.n > op->node->config.max_message_size) {
		pico_error_set(e, PICO_TOO_LARGE, "a batch of %zu bytes; at most %u are taken", c->payload.n,
			       op->node->config.max_message_size);
		return false;
	}
	op->initial = must_memdup(c->payload.p, c->payload.n);
	op->initial_len = c->payload.n;
	struct record_batch b;
	if (record_batch_read(slice_of(op->initial, op->initial_len), &b) < 0 || !record_batch_crc_is_good(&b)) {
		pico_error_set(e, PICO_CORRUPT_BATCH, "the first batch is damaged");
		return false;
	}
	return true;
}

/* ------------------------------------------------------------------- answers */

void op_many_free(struct op_many *m)
{
	for (size_t i = 0; i < m->n; i++)
		topic_message_free(&m->body[i].topic);
	free(m->one);
	free(m->pointer);
	free(m->body);
	free(m);
}

static void many_done(struct op_many *m)
{
	Ipc__CreateManyAnswer a = IPC__CREATE_MANY_ANSWER__INIT;
	a.n_one = m->n;
	a.one = m->pointer;
	if (m->op->call != NULL)
		op_answer(m->op, &a.base);
	op_unref(m->op);        /* frees m with it */
}

/* Without an error: t, or nothing when it was only validated. */
static void many_one_done(struct op *op, const struct pico_error *error, const struct state_topic *t, bool created)
{
	struct op_many *m = op->many;
	Ipc__CreateManyAnswer__One *one = &m->one[op->many_index];
	if (error != NULL) {
		m->body[op->many_index].words = *error;
		ipc_error_fill(&m->body[op->many_index].error, &m->body[op->many_index].words);
		one->error = &m->body[op->many_index].error;
	} else {
		ipc__create_answer__init(&m->body[op->many_index].ok);
		if (t != NULL) {
			topic_message_fill(op->node, t, ALL_PARTITIONS, &m->body[op->many_index].topic);
			m->body[op->many_index].ok.topic = &m->body[op->many_index].topic.m;
		}
		m->body[op->many_index].ok.created = created;
		one->ok = &m->body[op->many_index].ok;
	}
	if (--m->open == 0)
		many_done(m);
}

static void create_answer(struct op *op, Ipc__Topic *t, bool created)
{
	Ipc__CreateAnswer a = IPC__CREATE_ANSWER__INIT;
	Ipc__ForkAnswer f = IPC__FORK_ANSWER__INIT;
	a.topic = f.topic = t;
	a.created = f.created = created;
	op_answer(op, op->call->row->type == IPC_FORK ? &f.base : &a.base);
}

/* Answers whoever waits for this one topic; op keeps its ref. */
static void create_done(struct op *op, const struct pico_error *error, bool created)
{
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	struct pico_error gone;
	if (error == NULL && t == NULL) {
		pico_error_set(&gone, PICO_NOT_FOUND, "created, and deleted again meanwhile");
		error = &gone;
	}
	if (op->many != NULL) {
		many_one_done(op, error, t, created);
	} else if (op->call != NULL && error != NULL) {
		op_fail(op, error);
	} else if (op->call != NULL) {
		struct topic_message m;
		topic_message_fill(op->node, t, ALL_PARTITIONS, &m);
		create_answer(op, &m.m, created);
		topic_message_free(&m);
	}
}

/* -------------------------------------------------------------- first records */

static void on_removed(void *arg, const Meta__Result__One *result)
{
	op_unref(arg);
}

/* The first records certainly did not get in: the topic must not stay. */
static void create_undo(struct op *op)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__DeleteTopic delete = META__DELETE_TOPIC__INIT;
	command.kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	command.delete_topic = &delete;
	delete.topic_id = (ProtobufCBinaryData){ .len = 16, .data = op->topic_id };
	op->refs++;
	if (meta_propose(op->node->meta, &command, on_removed, op) < 0)
		op->refs--;
}

static void on_initial_done(struct engine_append *a, const struct pico_error *error)
{
	struct op *op = OP_OF(a, append);
	must(op->magic == OP_MAGIC);
	if (error != NULL && error->kind != PICO_DURABILITY)
		create_undo(op);
	create_done(op, error, true);
	op_unref(op);
}

static void create_append_initial(struct op *op, const struct state_topic *t)
{
	struct log *log = node_log(op->node, t, 0);
	must(log != NULL);
	op->append = (struct engine_append){
		.log = log,
		.payload = slice_of(op->initial, op->initial_len),
		.close_after = t->closed,
		.as_is = op->initial_as_is,
		.deadline_ms = op->call != NULL ? op->call->deadline_ms : env_now_ms(op->node->env),
		.on_done = on_initial_done,
	};
	op->refs++;
	engine_append(op->node->engine, &op->append);
}

/* -------------------------------------------------------------------- proposal */

/* The name is taken by a create whose first records are not durable: a crash may give it back. */
static bool rests_on_unborn(const struct node *n, const Meta__Result__One *result)
{
	if (result->created || result->topic_id.len != 16)
		return false;
	const struct state_topic *t = state_topic_by_id(meta_state(n->meta), result->topic_id.data);
	return t != NULL && !node_topic_is_born(n, t);
}

/* Where the topic that is in the way ends, as far as that is one position. */
static void conflict_position(const struct node *n, const Meta__Result__One *result, struct pico_error *e)
{
	if (e->kind != PICO_CONFLICT || result->topic_id.len != 16)
		return;
	const struct state_topic *t = state_topic_by_id(meta_state(n->meta), result->topic_id.data);
	struct log *log = t != NULL && t->n_partitions == 1 ? node_log(n, t, 0) : NULL;
	if (log == NULL)
		return;
	e->has_next_offset = true;
	e->next_offset = log_confirm(log);
}

static void on_created(void *arg, const Meta__Result__One *result)
{
	struct op *op = arg;
	must(op->magic == OP_MAGIC);
	struct pico_error e;
	if (result == NULL) {
		pico_error_set(&e, PICO_DURABILITY, "not known yet whether it was created; look, or do the same again");
		create_done(op, &e, false);
	} else if (rests_on_unborn(op->node, result)) {
		pico_error_set(&e, PICO_UNAVAILABLE, "the stream is just being created by somebody else; try again");
		create_done(op, &e, false);
	} else if (result->error != PICO_OK) {
		result_error(result, &e);
		conflict_position(op->node, result, &e);
		create_done(op, &e, false);
	} else {
		must(result->topic_id.len == sizeof(op->topic_id));
		memcpy(op->topic_id, result->topic_id.data, sizeof(op->topic_id));
		const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
		if (result->created && op->initial != NULL && t != NULL)
			create_append_initial(op, t);
		else
			create_done(op, NULL, result->created);
	}
	op_unref(op);
}

static void create_fill(struct op *op, const Ipc__CreateRequest *r, const struct config_taken *config,
			Meta__Fork *fork, Meta__CreateTopic *create)
{
	env_random(op->node->env, op->topic_id, sizeof(op->topic_id));
	create->topic_id = (ProtobufCBinaryData){ .len = 16, .data = op->topic_id };
	create->name = r->name;
	create->content_type = r->content_type;
	create->partitions = r->partitions;
	create->n_owners = r->n_owners;
	create->owners = r->owners;
	create->ttl_seconds = r->ttl_seconds;
	create->expires_at_ms = r->expires_at_ms;
	create->closed = r->closed;
	create->schema_name = config->schema != NULL ? config->schema : r->schema_name;
	create->schema_validate = config->has_validate ? config->validate : r->schema_validate;
	create->kafka_topic = r->kafka_topic;
	create->has_kafka_topic = r->has_kafka_topic;
	create->n_config = config->n;
	create->config = config->pointer;
	create->initial = op->initial != NULL;
	create->reserved_allowed = r->reserved_allowed;
	create->fork = fork;
}

/* A topic that is over gives its names back: the command that says so goes before this one's. */
static void make_way(struct node *n, const Ipc__CreateRequest *r)
{
	const struct state *s = meta_state(n->meta);
	const struct state_topic *named = state_topic_by_name(s, slice_str(r->name));
	const struct state_topic *aliased = state_topic_by_alias(s, slice_str(r->kafka_topic));
	if (named != NULL)
		expiry_is_over(n, named);
	if (aliased != NULL)
		expiry_is_over(n, aliased);
}

bool create_propose(struct op *op, const Ipc__CreateRequest *r, Meta__Fork *fork, struct pico_error *e)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	struct config_taken config;
	if (!config_take(r->config, r->n_config, &config, e))
		return false;
	command.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	command.create_topic = &create;
	create_fill(op, r, &config, fork, &create);
	make_way(op->node, r);
	op->refs++;
	if (meta_propose(op->node->meta, &command, on_created, op) < 0) {
		pico_error_set(e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
		op->refs--;
	}
	config_taken_done(&config);
	return e->kind == PICO_OK;
}

void create_refuse(struct op *op, const struct pico_error *e)
{
	op->refs++;
	create_done(op, e, false);
	op_unref(op);
}

static void create_start(struct op *op, const Ipc__CreateRequest *r, const struct call *c)
{
	struct pico_error e;
	bool good = create_check(op, r, &e);
	if (good && c != NULL && c->payload.n > 0)
		good = create_take_initial(op, c, &e);
	if (!good || !create_propose(op, r, NULL, &e))
		create_refuse(op, &e);
}

/* One of many, judged as it would be now. */
static void create_validate(struct op *op, const Ipc__CreateRequest *r)
{
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	struct config_taken config;
	struct pico_error e;
	bool exists = false;
	if (create_check(op, r, &e) && config_take(r->config, r->n_config, &config, &e)) {
		create_fill(op, r, &config, NULL, &create);
		state_check_create(meta_state(op->node->meta), &create, &exists, &e);
		config_taken_done(&config);
	}
	op->refs++;
	many_one_done(op, e.kind != PICO_OK ? &e : NULL, NULL, !exists);
	op_unref(op);
}

void handle_create(struct node *n, struct call *c)
{
	struct op *op = op_new(n, c);
	op_arm(op, op_deadline_unknown);
	create_start(op, (const Ipc__CreateRequest *)c->request, c);
}

void handle_create_many(struct node *n, struct call *c)
{
	const Ipc__CreateManyRequest *r = (const Ipc__CreateManyRequest *)c->request;
	if (r->n_create == 0 || r->n_create > CREATE_MANY_MAX) {
		call_fail(c, PICO_BAD_REQUEST, "1 to %d topics at once, not %zu", CREATE_MANY_MAX, r->n_create);
		return;
	}
	struct op_many *m = must_calloc(1, sizeof(*m));
	m->op = op_new(n, c);
	m->op->refs = 1;
	m->op->owns_many = m;
	op_arm(m->op, op_deadline_unknown);
	m->n = m->open = r->n_create;
	m->one = must_calloc(m->n, sizeof(*m->one));
	m->pointer = must_calloc(m->n, sizeof(*m->pointer));
	m->body = must_calloc(m->n, sizeof(*m->body));
	for (size_t i = 0; i < m->n; i++) {
		ipc__create_many_answer__one__init(&m->one[i]);
		m->pointer[i] = &m->one[i];
	}
	/* The last one answers, and r goes with its call. */
	for (size_t i = 0, count = r->n_create, validate_only = r->validate_only; i < count; i++) {
		struct op *op = op_new(n, NULL);
		op->many = m;
		op->many_index = (uint32_t)i;
		if (validate_only)
			create_validate(op, r->create[i]);
		else
			create_start(op, r->create[i], NULL);
	}
}
