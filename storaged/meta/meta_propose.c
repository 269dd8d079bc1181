/* SPDX-License-Identifier: Apache-2.0
 *
 * Proposals. Commands that come while a row is in flight share the next one. A row keeps its number and
 * its bytes until the state has a proposal of that number: every copy the database may still take is then
 * skipped by apply. The chain of a row sent again is made anew: it follows what was applied meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/meta_priv.h"
#include "storaged/planted.h"

/* ---------------------------------------------------------------- the queue */

/* The proposer's name in the command. */
static void sign(const struct meta *m, Meta__Command *c)
{
#define SIGN(KIND, field)                                \
	case META__COMMAND__KIND_##KIND:                 \
		c->field->node = m->config.node;         \
		c->field->session = m->session;          \
		break
	switch (c->kind_case) {
	SIGN(CREATE_TOPIC, create_topic);
	SIGN(CLOSE_TOPIC, close_topic);
	SIGN(DELETE_TOPIC, delete_topic);
	SIGN(UPDATE_TOPIC, update_topic);
	SIGN(GROW_TOPIC, grow_topic);
	SIGN(NOOP, noop);
	SIGN(ALLOCATE_PRODUCER_IDS, allocate_producer_ids);
	SIGN(COMMIT_OBJECTS, commit_objects);
	SIGN(OBJECTS_DELETED, objects_deleted);
	SIGN(TRIM_MANY, trim_many);
	SIGN(EXPIRE_TOPIC, expire_topic);
	SIGN(TOUCH_EXPIRY, touch_expiry);
	SIGN(PUT_KV, put_kv);
	SIGN(DELETE_KV, delete_kv);
	case META__COMMAND__KIND_SESSION_RECOVERED:
		c->session_recovered->by_session = m->session;
		break;
	default:
		must(c->kind_case != META__COMMAND__KIND_INIT_CLUSTER &&
		     c->kind_case != META__COMMAND__KIND_REGISTER_NODE);
	}
#undef SIGN
}

static Meta__Command *command_copy(const Meta__Command *c, size_t n)
{
	uint8_t *bytes = must_calloc(1, n + 1);
	meta__command__pack(c, bytes);
	Meta__Command *copy = meta__command__unpack(NULL, n, bytes);
	must(copy != NULL);
	free(bytes);
	return copy;
}

int meta_propose(struct meta *m, Meta__Command *command, meta_result_cb *cb, void *arg)
{
	if (m->n_pending >= META_PENDING_MAX || m->session == 0 || m->ended || m->refused)
		return -ENOBUFS;
	sign(m, command);
	struct proposal *p = must_calloc(1, sizeof(*p));
	p->size = meta__command__get_packed_size(command);
	p->command = command_copy(command, p->size);
	p->cb = cb;
	p->arg = arg;
	*m->pending_last = p;
	m->pending_last = &p->next;
	m->n_pending++;
	meta_kick(m);
	return 0;
}

static void proposal_free(struct proposal *p)
{
	meta__command__free_unpacked(p->command, NULL);
	free(p);
}

static void proposal_answer(struct proposal *p, const Meta__Result__One *result)
{
	meta_result_cb *cb = p->cb;
	p->cb = NULL;
	if (cb != NULL)
		cb(p->arg, result);
}

/* ---------------------------------------------------------------- the row in flight */

static void batch_done(struct meta *m)
{
	for (struct proposal *p = m->batch.first, *next; p != NULL; p = next) {
		next = p->next;
		proposal_free(p);
		m->n_pending--;
	}
	free(m->batch.payload);
	m->batch = (struct batch){ 0 };
}

static void batch_encode(struct meta *m, Meta__Command **commands, size_t n)
{
	Meta__Row row = META__ROW__INIT;
	row.commands = commands;
	row.n_commands = n;
	row.now_ms = meta_stamp_ms(m);
	m->batch.active = true;
	m->batch.payload_len = meta__row__get_packed_size(&row);
	m->batch.payload = must_calloc(1, m->batch.payload_len + 1);
	meta__row__pack(&row, m->batch.payload);
}

void batch_propose_init(struct meta *m)
{
	uint8_t uuid[16];
	env_random(m->env, uuid, sizeof(uuid));
	Meta__InitCluster init = META__INIT_CLUSTER__INIT;
	init.uuid = (ProtobufCBinaryData){ .len = 16, .data = uuid };
	init.format = STATE_FORMAT;
	init.cluster_id = m->cluster_id;
	Meta__Command c = META__COMMAND__INIT, *pointer = &c;
	c.kind_case = META__COMMAND__KIND_INIT_CLUSTER;
	c.init_cluster = &init;
	m->batch.init = true;
	batch_encode(m, &pointer, 1);
}

static void add_address(Meta__RegisterNode *r, Meta__Address *a, const char *protocol, char *address)
{
	if (address[0] == '\0')
		return;
	meta__address__init(a);
	a->protocol = (char *)protocol;
	a->address = address;
	r->addresses[r->n_addresses++] = a;
}

void batch_propose_register(struct meta *m)
{
	Meta__Address address[2], *addresses[2];
	Meta__RegisterNode r = META__REGISTER_NODE__INIT;
	r.node = m->config.node;
	r.boot_id = (ProtobufCBinaryData){ .len = 16, .data = m->config.boot_id };
	r.instance = (ProtobufCBinaryData){ .len = 16, .data = m->config.instance };
	r.host = m->host;
	r.addresses = addresses;
	add_address(&r, &address[0], "http", m->http_address);
	add_address(&r, &address[1], "kafka", m->kafka_address);
	r.slots = m->config.slots;
	Meta__Command c = META__COMMAND__INIT, *pointer = &c;
	c.kind_case = META__COMMAND__KIND_REGISTER_NODE;
	c.register_node = &r;
	m->clock_before_ms = state_clock_ms(m->state);
	batch_encode(m, &pointer, 1);
}

void batch_propose_pending(struct meta *m)
{
	Meta__Command *commands[META_ROW_COMMANDS_MAX];
	size_t n = 0, bytes = 0;
	struct proposal **p = &m->pending;
	for (; *p != NULL && n < META_ROW_COMMANDS_MAX && (n == 0 || bytes + (*p)->size <= META_ROW_BYTES_MAX);
	     p = &(*p)->next) {
		bytes += (*p)->size;
		commands[n++] = (*p)->command;
	}
	m->batch.first = m->pending;
	m->pending = *p;
	*p = NULL;
	if (m->pending == NULL)
		m->pending_last = &m->pending;
	uint64_t last;
	Meta__Result *results = NULL;
	must(state_last_proposal(m->state, m->config.node, m->session, &last, &results) == 0);
	if (results != NULL)
		meta__result__free_unpacked(results, NULL);
	m->batch.session = m->session;
	m->batch.proposal = last + 1;
	batch_encode(m, commands, n);
}

static struct sql_row batch_row(const struct meta *m)
{
	struct slice payload = slice_of(m->batch.payload, m->batch.payload_len);
	return (struct sql_row){
		.idx = state_idx(m->state) + 1, .node = m->config.node, .session = m->batch.session,
		.proposal = m->batch.proposal, .chain = state_chain_next(state_chain(m->state), payload),
		.payload = payload,
	};
}

/* The row stands in the log right behind the state. */
static void stored(struct meta *m)
{
	struct sql_row row = batch_row(m);
	m->faulty = false;
	m->backoff_ms = 0;
	if (meta_apply(m, &row)) {
		batch_look(m);
		must(!m->batch.active || m->ended);
	}
	meta_kick(m);
}

#ifdef PICO_PLANTED_BUGS
static void give_up(struct meta *m)
{
	Meta__Result__One refused = META__RESULT__ONE__INIT;
	refused.error = PICO_UNAVAILABLE;
	for (struct proposal *p = m->batch.first; p != NULL; p = p->next)
		proposal_answer(p, &refused);
	batch_done(m);
}
#endif

static void unknown(struct meta *m, struct sql_result result)
{
#ifdef PICO_PLANTED_BUGS
	if (planted(PLANTED_UNKNOWN_AS_SUCCESS)) {
		stored(m);
		return;
	}
	if (planted(PLANTED_UNKNOWN_AS_FAILURE) && m->batch.session != 0) {
		give_up(m);
		meta_back_off(m, result.text);
		return;
	}
#endif
	m->must_read = true;
	meta_back_off(m, result.text);
}

static void on_sent(void *arg, struct sql_result result)
{
	struct meta *m = arg;
	m->busy = false;
	switch (result.outcome) {
	case OUTCOME_OK:
		stored(m);
		break;
	case OUTCOME_NOT_APPLIED:
		m->must_read = true;
		if (result.err == -EEXIST)
			meta_kick(m);
		else
			meta_back_off(m, result.text);
		break;
	case OUTCOME_UNKNOWN:
		unknown(m, result);
		break;
	}
}

void batch_send(struct meta *m)
{
	struct sql_row row = batch_row(m);
	m->busy = true;
	m->sql->ops->append(m->sql, &row, on_sent, m);
}

/* ---------------------------------------------------------------- answers */

void batch_result(struct meta *m, const struct sql_row *row, size_t i, const Meta__Result__One *result)
{
	if (!m->batch.active || m->batch.session == 0 || row->node != m->config.node ||
	    row->session != m->batch.session || row->proposal != m->batch.proposal)
		return;
	struct proposal *p = m->batch.first;
	while (p != NULL && i-- > 0)
		p = p->next;
	if (p != NULL)
		proposal_answer(p, result);
}

/* A row whose answers nobody saw: the state keeps them for the newest proposal. */
static void answer_from_state(struct meta *m, const Meta__Result *results)
{
	size_t i = 0;
	for (struct proposal *p = m->batch.first; p != NULL; p = p->next, i++)
		proposal_answer(p, results != NULL && i < results->n_one ? results->one[i] : NULL);
}

void batch_look(struct meta *m)
{
	if (!m->batch.active)
		return;
	if (m->batch.session == 0) {
		if (m->batch.init ? state_cluster_uuid(m->state) != NULL : meta_is_registered(m))
			batch_done(m);
		return;
	}
	uint64_t last = 0;
	Meta__Result *results = NULL;
	int err = state_last_proposal(m->state, m->config.node, m->batch.session, &last, &results);
	if (err == 0 && last >= m->batch.proposal) {
		answer_from_state(m, results);
		batch_done(m);
	}
	if (results != NULL)
		meta__result__free_unpacked(results, NULL);
}

void proposals_abandon(struct meta *m)
{
	for (struct proposal *p = m->batch.first; p != NULL; p = p->next)
		proposal_answer(p, NULL);
	for (struct proposal *p = m->pending; p != NULL; p = p->next)
		proposal_answer(p, NULL);
}

void proposals_free(struct meta *m)
{
	batch_done(m);
	for (struct proposal *p = m->pending, *next; p != NULL; p = next) {
		next = p->next;
		proposal_free(p);
	}
}
