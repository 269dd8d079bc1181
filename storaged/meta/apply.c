/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and the commands of nodes and sessions. A row is skipped when its number is not greater than
 * the last one applied of its session, and refused when that session is not ACTIVE; rows of session 0
 * (InitCluster, RegisterNode) recognise a second copy by what they carry. Nothing here looks at a clock,
 * at chance, or at anything but the state and the row.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/meta/apply.h"

#define PRODUCER_IDS_MAX 1000000u        /* of one block */

typedef void apply_fn(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);

void apply_refuse(Meta__Result__One *one, enum pico_error_kind kind, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	one->error = kind;
	one->message = must_strdup(text);
}

void apply_bytes(ProtobufCBinaryData *ret, const void *p, size_t n)
{
	ret->data = must_memdup(p, n);
	ret->len = n;
}

void apply_checked(Meta__Result__One *one, struct pico_error *ret_error)
{
	*ret_error = (struct pico_error){ 0 };
	if (one->error != PICO_OK) {
		pico_error_set(ret_error, (enum pico_error_kind)one->error, "%s", one->message);
		free(one->message);
	}
	free(one->topic_id.data);
}

/* ---------------------------------------------------------------- cluster and nodes */

static void apply_init_cluster(struct state *s, const struct sql_row *row, const Meta__Command *c,
			       Meta__Result__One *one)
{
	const Meta__InitCluster *init = c->init_cluster;
	if (init->uuid.len != 16) {
		apply_refuse(one, PICO_BAD_REQUEST, "a cluster's uuid has 16 bytes, not %zu", init->uuid.len);
	} else if (s->has_uuid) {
		one->created = false;
		if (memcmp(s->uuid, init->uuid.data, 16) != 0)
			apply_refuse(one, PICO_CONFLICT, "the cluster has a uuid already");
	} else {
		s->has_uuid = true;
		memcpy(s->uuid, init->uuid.data, 16);
		s->format = init->format;
		s->cluster_id = must_strdup(init->cluster_id);
		one->created = true;
	}
}

/* The node's ACTIVE session ends, with the node itself as recoverer. */
static void end_session(struct state *s, uint32_t node, uint64_t session, uint64_t idx)
{
	struct session_entry *e = state_session_find(s, node, session);
	if (e != NULL && e->s.state == SESSION_ACTIVE) {
		e->s.state = SESSION_ENDED;
		e->s.recoverer = node;
		e->changed_idx = idx;
	}
}

static void apply_register_node(struct state *s, const struct sql_row *row, const Meta__Command *c,
				Meta__Result__One *one)
{
	const Meta__RegisterNode *r = c->register_node;
	if (!s->has_uuid || r->boot_id.len != 16 || r->instance.len != 16 || r->node != row->node) {
		apply_refuse(one, PICO_BAD_REQUEST, "RegisterNode needs a cluster, a boot id and an instance id");
		return;
	}
	const struct state_node *old = state_node_find(s, r->node);
	if (old != NULL && memcmp(old->e->boot_id.data, r->boot_id.data, 16) == 0) {
		one->session = old->e->session;
		return;
	}
	uint64_t last = old == NULL ? 0 : old->e->session;
	end_session(s, r->node, last, row->idx);
	Meta__NodeEntity e = META__NODE_ENTITY__INIT;
	e.node = r->node;
	e.session = last + 1;
	e.boot_id = r->boot_id;
	e.instance = r->instance;
	e.host = r->host;
	e.n_addresses = r->n_addresses;
	e.addresses = r->addresses;
	e.slots = r->slots;
	state_node_put(s, &e, row->idx);
	struct state_session session = { .node = r->node, .session = last + 1, .state = SESSION_ACTIVE };
	state_session_put(s, &session, row->idx);
	one->session = last + 1;
	one->created = true;
}

static void apply_session_recovered(struct state *s, const struct sql_row *row, const Meta__Command *c,
				    Meta__Result__One *one)
{
	const Meta__SessionRecovered *r = c->session_recovered;
	struct session_entry *e = state_session_find(s, r->node, r->session);
	if (e == NULL) {
		apply_refuse(one, PICO_NOT_FOUND, "node %u has no session %llu", r->node, (unsigned long long)r->session);
	} else if (e->s.state == SESSION_RECOVERED && e->s.cut == r->cut) {
		one->session = r->session;
	} else if (e->s.state != SESSION_ENDED || e->s.recoverer != row->node) {
		apply_refuse(one, PICO_CONFLICT, "session %llu of node %u is not node %u's to recover",
			     (unsigned long long)r->session, r->node, row->node);
	} else if (!state_older_are_recovered(s, r->node, r->session)) {
		apply_refuse(one, PICO_CONFLICT, "an older session of node %u is not recovered yet", r->node);
	} else if (e->s.watermark != r->cut) {
		apply_refuse(one, PICO_CONFLICT, "session %llu of node %u is packed up to %llu, not to its cut %llu",
			     (unsigned long long)r->session, r->node, (unsigned long long)e->s.watermark,
			     (unsigned long long)r->cut);
	} else {
		e->s.state = SESSION_RECOVERED;
		e->s.cut = r->cut;
		e->s.recovered_ms = s->clock_ms;
		e->changed_idx = row->idx;
		one->session = r->session;
	}
}

/* A block of numbers that nobody else ever gets. */
static void apply_allocate_producer_ids(struct state *s, const struct sql_row *row, const Meta__Command *c,
					Meta__Result__One *one)
{
	uint32_t count = c->allocate_producer_ids->count;
	if (count == 0 || count > PRODUCER_IDS_MAX || s->next_producer_id > INT64_MAX - PRODUCER_IDS_MAX) {
		apply_refuse(one, PICO_BAD_REQUEST, "a block has 1 to %u producer ids, not %u", PRODUCER_IDS_MAX, count);
		return;
	}
	one->first_producer_id = s->next_producer_id;
	s->next_producer_id += count;
}

static void apply_noop(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one)
{
}

/* ---------------------------------------------------------------- rows */

struct command_name {
	uint32_t node;
	uint64_t session;
};

static struct command_name name_recovered(const Meta__Command *c)
{
	return (struct command_name){ 0, c->session_recovered->by_session };
}

#define NAME_OF(field)                                                                   \
	static struct command_name name_##field(const Meta__Command *c)                  \
	{                                                                                \
		return (struct command_name){ c->field->node, c->field->session };       \
	}
NAME_OF(create_topic)
NAME_OF(close_topic)
NAME_OF(delete_topic)
NAME_OF(noop)
NAME_OF(allocate_producer_ids)
NAME_OF(update_topic)
NAME_OF(grow_topic)
NAME_OF(commit_objects)
NAME_OF(objects_deleted)
NAME_OF(trim_many)
NAME_OF(expire_topic)
NAME_OF(touch_expiry)
NAME_OF(put_kv)
NAME_OF(delete_kv)
#undef NAME_OF

/* name: the node and session a command says it acts for (node 0: the row's); NULL: only in rows of session 0. */
static const struct apply_row {
	apply_fn *apply;
	struct command_name (*name)(const Meta__Command *c);
} apply_table[] = {
	[META__COMMAND__KIND_INIT_CLUSTER] = { apply_init_cluster, NULL },
	[META__COMMAND__KIND_REGISTER_NODE] = { apply_register_node, NULL },
	[META__COMMAND__KIND_SESSION_RECOVERED] = { apply_session_recovered, name_recovered },
	[META__COMMAND__KIND_CREATE_TOPIC] = { apply_create_topic, name_create_topic },
	[META__COMMAND__KIND_CLOSE_TOPIC] = { apply_close_topic, name_close_topic },
	[META__COMMAND__KIND_DELETE_TOPIC] = { apply_delete_topic, name_delete_topic },
	[META__COMMAND__KIND_NOOP] = { apply_noop, name_noop },
	[META__COMMAND__KIND_ALLOCATE_PRODUCER_IDS] = { apply_allocate_producer_ids, name_allocate_producer_ids },
	[META__COMMAND__KIND_UPDATE_TOPIC] = { apply_update_topic, name_update_topic },
	[META__COMMAND__KIND_GROW_TOPIC] = { apply_grow_topic, name_grow_topic },
	[META__COMMAND__KIND_COMMIT_OBJECTS] = { apply_commit_objects, name_commit_objects },
	[META__COMMAND__KIND_OBJECTS_DELETED] = { apply_objects_deleted, name_objects_deleted },
	[META__COMMAND__KIND_TRIM_MANY] = { apply_trim_many, name_trim_many },
	[META__COMMAND__KIND_EXPIRE_TOPIC] = { apply_expire_topic, name_expire_topic },
	[META__COMMAND__KIND_TOUCH_EXPIRY] = { apply_touch_expiry, name_touch_expiry },
	[META__COMMAND__KIND_PUT_KV] = { apply_put_kv, name_put_kv },
	[META__COMMAND__KIND_DELETE_KV] = { apply_delete_kv, name_delete_kv },
};

static void apply_command(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one)
{
	size_t kind = (size_t)c->kind_case;
	if (kind >= sizeof(apply_table) / sizeof(apply_table[0]) || apply_table[kind].apply == NULL) {
		apply_refuse(one, PICO_BAD_REQUEST, "this release knows no such command; upgrade every node first");
		return;
	}
	const struct apply_row *a = &apply_table[kind];
	struct command_name name = a->name == NULL ? (struct command_name){ 0 } : a->name(c);
	bool own = a->name == NULL ? row->session == 0 :
		   row->session != 0 && name.session == row->session && (name.node == 0 || name.node == row->node);
	if (own)
		a->apply(s, row, c, one);
	else
		apply_refuse(one, PICO_BAD_REQUEST, "a command acts for another session than its row's");
}

/* 0: take it. */
static int check_proposer(const struct state *s, const struct sql_row *row)
{
	if (row->session == 0)
		return 0;
	const struct session_entry *e = state_session_find(s, row->node, row->session);
	if (e == NULL || e->s.state != SESSION_ACTIVE)
		return -EPERM;
	const struct state_node *n = state_node_find(s, row->node);
	must(n != NULL && n->e->session == row->session);
	return row->proposal <= n->e->last_proposal ? -EALREADY : 0;
}

static void remember_result(struct state *s, const struct sql_row *row, const Meta__Result *results)
{
	if (row->session == 0)
		return;
	struct state_node *n = state_node_find(s, row->node);
	free(n->e->last_result.data);
	n->e->last_result.len = meta__result__get_packed_size(results);
	n->e->last_result.data = must_calloc(1, n->e->last_result.len + 1);
	meta__result__pack(results, n->e->last_result.data);
	n->e->last_proposal = row->proposal;
	n->changed_idx = row->idx;
}

static Meta__Result *results_new(size_t n)
{
	Meta__Result *results = must_calloc(1, sizeof(*results));
	meta__result__init(results);
	results->one = must_calloc(n, sizeof(results->one[0]));
	results->n_one = n;
	for (size_t i = 0; i < n; i++) {
		results->one[i] = must_calloc(1, sizeof(*results->one[i]));
		meta__result__one__init(results->one[i]);
	}
	return results;
}

int state_apply_decoded(struct state *s, const struct sql_row *row, const Meta__Row *decoded,
			state_command_cb *on_command, void *arg)
{
	must(row->idx == s->idx + 1);
	if (decoded->n_commands == 0 || decoded->n_commands > META_ROW_COMMANDS_MAX)
		return -EBADMSG;
	s->idx = row->idx;
	s->chain = row->chain;
	int err = check_proposer(s, row);
	if (err != 0)
		return err;
	if (s->clock_ms > 0 && decoded->now_ms - s->clock_ms > STATE_CLOCK_LEAP_MS)
		s->clock_leap_ms = decoded->now_ms;
	if (decoded->now_ms > s->clock_ms)
		s->clock_ms = decoded->now_ms;
	Meta__Result *results = results_new(decoded->n_commands);
	for (size_t i = 0; i < decoded->n_commands; i++) {
		apply_command(s, row, decoded->commands[i], results->one[i]);
		on_command(arg, i, decoded->commands[i], results->one[i]);
	}
	remember_result(s, row, results);
	meta__result__free_unpacked(results, NULL);
	return 0;
}

static void keep_result(void *arg, size_t i, const Meta__Command *command, const Meta__Result__One *result)
{
	Meta__Result *results = arg;
	size_t n = protobuf_c_message_get_packed_size(&result->base);
	uint8_t *bytes = must_calloc(1, n + 1);
	protobuf_c_message_pack(&result->base, bytes);
	ProtobufCMessage *copy = protobuf_c_message_unpack(&meta__result__one__descriptor, NULL, n, bytes);
	must(copy != NULL);
	results->one = must_realloc(results->one, (results->n_one + 1) * sizeof(results->one[0]));
	results->one[results->n_one++] = (Meta__Result__One *)copy;
	free(bytes);
}

int state_apply(struct state *s, const struct sql_row *row, Meta__Result **ret_results)
{
	Meta__Row *decoded = meta__row__unpack(NULL, row->payload.n, row->payload.p);
	if (decoded == NULL)
		return -EBADMSG;
	Meta__Result *results = results_new(0);
	int err = state_apply_decoded(s, row, decoded, keep_result, results);
	meta__row__free_unpacked(decoded, NULL);
	if (err == 0)
		*ret_results = results;
	else
		meta__result__free_unpacked(results, NULL);
	return err;
}

int state_last_proposal(const struct state *s, uint32_t node, uint64_t session, uint64_t *ret_proposal,
			Meta__Result **ret_results)
{
	const struct state_node *n = state_node_find(s, node);
	if (n == NULL || n->e->session != session)
		return -ENOENT;
	*ret_proposal = n->e->last_proposal;
	*ret_results = n->e->last_proposal == 0 ? NULL :
		       meta__result__unpack(NULL, n->e->last_result.len, n->e->last_result.data);
	return 0;
}

uint64_t state_chain_next(uint64_t chain, struct slice payload)
{
	uint8_t before[8], digest[32];
	put_be64(before, chain);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	must(ctx != NULL);
	must(EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
	must(EVP_DigestUpdate(ctx, before, sizeof(before)) == 1);
	must(EVP_DigestUpdate(ctx, payload.p, payload.n) == 1);
	must(EVP_DigestFinal_ex(ctx, digest, NULL) == 1);
	EVP_MD_CTX_free(ctx);
	return get_be64(digest);
}
