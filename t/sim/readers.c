/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that read from the start of a log to its end and wait there, and the one that creates, closes,
 * lists and deletes topics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "t/sim/run.h"

#define TIMEOUT_MS 15000

/* --------------------------------------------------------------------- topics */

void topic_ref(Ipc__TopicRef *ref, const struct run_topic *t)
{
	ipc__topic_ref__init(ref);
	ref->topic_id = (ProtobufCBinaryData){ .len = sizeof(t->id), .data = (uint8_t *)(uintptr_t)t->id };
}

struct run_topic *topic_by_id(struct run *r, const ProtobufCBinaryData *id)
{
	for (unsigned i = 0; i < r->n_topics; i++)
		if (id->len == 16 && memcmp(r->topics[i]->id, id->data, 16) == 0)
			return r->topics[i];
	return NULL;
}

/* It ends by itself. */
static bool has_ttl(const struct run *r, const char *name)
{
	return r->ttl_s != 0 && (strcmp(name, "/temporary/2") == 0 || strcmp(name, "/temporary/4") == 0);
}

/* What becomes old in it is cut. */
static bool has_retention(const struct run *r, const char *name)
{
	return r->retention_ms != 0 && (strcmp(name, "/lasting/0") == 0 || strcmp(name, "/lasting/3") == 0);
}

/* Whether a name is only ever created with first records: the odd ones. */
static bool has_initial(const char *name)
{
	return strncmp(name, "/fork", 5) != 0 && (name[strlen(name) - 1] - '0') % 2 == 1;
}

struct run_topic *topic_learn(struct run *r, const Ipc__Topic *m)
{
	struct run_topic *t = topic_by_id(r, &m->topic_id);
	if (t != NULL)
		return t;
	if (m->topic_id.len != 16 || m->n_partitions < 1 || m->n_partitions > RUN_PARTITIONS ||
	    r->n_topics == RUN_TOPICS) {
		run_fault(r, "an answer names a topic that nobody can have made");
		return NULL;
	}
	t = must_calloc(1, sizeof(*t));
	memcpy(t->id, m->topic_id.data, 16);
	snprintf(t->name, sizeof(t->name), "%s", m->name);
	t->temporary = strncmp(m->name, "/lasting", 8) != 0;
	t->index = history_topic(&r->history);
	for (size_t i = 0; i < m->n_config; i++)
		t->ages |= strcmp(m->config[i]->name, "retention.ms") == 0;
	t->trimmed = t->ages;
	t->ends = m->ttl_seconds != 0;
	r->history.topics[t->index].ttl_ns = t->ends ? r->ttl_s * SIM_S : 0;
	r->history.topics[t->index].retention_ns = t->ages ? r->retention_ms * SIM_MS : 0;
	r->history.topics[t->index].initial = has_initial(t->name);
	t->n_partitions = (uint32_t)m->n_partitions;
	for (uint32_t i = 0; i < t->n_partitions; i++)
		t->log[i] = history_log(&r->history, t->index, i);
	topic_learn_fork(r, t, m);
	r->topics[r->n_topics++] = t;
	return t;
}

/* ------------------------------------------------------------------- consumer */

static void forget_topic(struct client *c, const struct pico_error *error)
{
	if (error->kind == PICO_NOT_FOUND || error->kind == PICO_GONE)
		c->topic = NULL;
	else if (error->kind == PICO_OUT_OF_RANGE && c->topic->trimmed && error->has_start_offset &&
		 error->start_offset > c->next)
		c->next = error->start_offset;
	else if (error->kind == PICO_OUT_OF_RANGE)
		run_fault(c->run, "a position that was read up to is out of range");
}

static void on_wait(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	const Ipc__WaitAnswer *a = (const Ipc__WaitAnswer *)answer;
	c->busy = false;
	if (error != NULL)
		forget_topic(c, error);
	if (a != NULL && a->closed && a->confirm == c->next)
		c->topic = NULL;
	client_wake(c, client_pause(c));
}

static void log_ref(Ipc__LogRef *ref, Ipc__TopicRef *topic, const struct client *c)
{
	ipc__log_ref__init(ref);
	topic_ref(topic, c->topic);
	ref->topic = topic;
	ref->partition = c->partition;
}

static void wait_at_end(struct client *c)
{
	struct sim *s = &c->run->sim;
	Ipc__WaitRequest m = IPC__WAIT_REQUEST__INIT;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	log_ref(&log, &topic, c);
	m.log = &log;
	m.partition_given = true;
	m.from = (int64_t)c->next;
	uint32_t hist = history_op(&c->run->history, HIST_WAIT);
	c->run->history.ops[hist].log = c->topic->log[c->partition];
	c->run->history.ops[hist].topic = c->topic->index;
	c->run->history.ops[hist].from = c->next;
	c->busy = true;
	call_send(c, c->node, IPC_WAIT, &m.base, slice_of(NULL, 0), c->run->loading ? sim_between(s, 1, 10000) : 1000,
		  hist, on_wait);
}

static void on_read(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)answer;
	c->busy = false;
	if (error != NULL) {
		forget_topic(c, error);
	} else if (a != NULL) {
		records_seen(c->run, call->hist, slice_of(call->bytes, call->n_bytes), c->next);
		c->known = a->end == a->confirm;        /* at the end */
		c->next = a->end;
		c->n_done++;
		if (a->closed && c->known && sim_chance(&c->run->sim, 300))
			c->topic = NULL;
	}
	client_wake(c, client_pause(c));
}

static void read_on(struct client *c)
{
	struct sim *s = &c->run->sim;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	log_ref(&log, &topic, c);
	m.log = &log;
	m.partition_given = true;
	m.from = (int64_t)c->next;
	m.max_bytes = sim_chance(s, 500) ? 0 : (uint32_t)sim_below(s, 3000);
	uint32_t hist = history_op(&c->run->history, HIST_READ);
	c->run->history.ops[hist].log = c->topic->log[c->partition];
	c->run->history.ops[hist].topic = c->topic->index;
	c->run->history.ops[hist].from = c->next;
	c->busy = true;
	call_send(c, c->node, IPC_READ, &m.base, slice_of(NULL, 0), TIMEOUT_MS, hist, on_read);
}

void consumer_turn(struct client *c)
{
	struct sim *s = &c->run->sim;
	if (!c->run->loading)
		return;
	if ((c->topic == NULL || sim_chance(s, 30)) && !topic_choose(c, false))
		return client_wake(c, 200 * SIM_MS);
	if (c->next > 0 && sim_chance(s, 30))
		c->next = sim_below(s, c->next), c->known = false;      /* from the middle, on purpose */
	if (c->known)
		wait_at_end(c);
	else
		read_on(c);
	c->known = false;
}

/* ---------------------------------------------------------------------- admin */

static void note_created(struct client *c, uint32_t hist, struct value *v, const Ipc__CreateAnswer *a, uint32_t value_hist)
{
	struct run *r = c->run;
	struct run_topic *t = topic_learn(r, a->topic);
	if (t == NULL)
		return;
	r->history.ops[hist].topic = t->index;
	r->history.ops[hist].created = a->created;
	if (v == NULL || !a->created)
		return;
	struct hist_op *op = &r->history.ops[value_hist];
	op->log = t->log[0];
	op->topic = t->index;
	op->outcome = HIST_OK;
	op->answered_ns = r->history.ops[hist].answered_ns;
	op->invoked_ns = r->history.ops[hist].invoked_ns;
	op->proc = r->history.ops[hist].proc;
	op->base_known = true;
	op->next = v->n_records;
	r->result->n_acked++;
}

static void on_create(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	c->busy = false;
	if (answer != NULL)
		note_created(c, call->hist, call->value, (const Ipc__CreateAnswer *)answer, c->probe_hist);
	else if (error != NULL && error->kind != PICO_DURABILITY && call->value != NULL)
		c->run->history.ops[c->probe_hist].outcome = HIST_REFUSED;
	if (answer != NULL)
		c->n_done++;
	value_free(call->value);
	client_wake(c, client_pause(c));
}

static void create_topic(struct client *c, const char *prefix, unsigned number, unsigned partitions)
{
	struct run *r = c->run;
	char name[32];
	Ipc__CreateRequest m = IPC__CREATE_REQUEST__INIT;
	Ipc__Payload initial = IPC__PAYLOAD__INIT;
	struct value *v = NULL;
	snprintf(name, sizeof(name), "/%s/%u", prefix, number);
	m.name = name;
	m.content_type = (char *)(uintptr_t)"text/plain";
	m.partitions = partitions;
	Ipc__ConfigEntry entry = IPC__CONFIG_ENTRY__INIT, *pointer = &entry;
	char ms[24];
	snprintf(ms, sizeof(ms), "%llu", (unsigned long long)r->retention_ms);
	entry.name = (char *)(uintptr_t)"retention.ms";
	entry.value = ms;
	m.config = &pointer;
	m.n_config = has_retention(r, name);
	m.ttl_seconds = has_ttl(r, name) ? r->ttl_s : 0;
	if (has_initial(name)) {
		v = value_new(c, NULL, 0, 1 + (uint32_t)sim_below(&r->sim, 3));
		c->probe_hist = value_attempt(c, v);
		initial.length = (uint32_t)v->size;
		m.initial = &initial;
	}
	c->busy = true;
	struct sim_call *call = call_send(c, c->node, IPC_CREATE, &m.base, v != NULL ? slice_of(v->payload, v->size) : slice_of(NULL, 0),
					  TIMEOUT_MS, history_op(&r->history, HIST_CREATE), on_create);
	call->value = v;
}

static void on_admin(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	c->busy = false;
	if (answer != NULL)
		c->n_done++;
	client_wake(c, client_pause(c));
}

static void end_topic(struct client *c, struct run_topic *t, bool delete)
{
	Ipc__TopicRef topic;
	topic_ref(&topic, t);
	Ipc__DeleteRequest d = IPC__DELETE_REQUEST__INIT;
	Ipc__CloseRequest x = IPC__CLOSE_REQUEST__INIT;
	d.topic = x.topic = &topic;
	uint32_t hist = history_op(&c->run->history, delete ? HIST_DELETE : HIST_CLOSE);
	c->run->history.ops[hist].topic = t->index;
	for (uint32_t i = 0; i < t->n_partitions; i++)
		t->ended[i] = true;
	t->delete_sent |= delete;
	c->busy = true;
	call_send(c, c->node, delete ? IPC_DELETE : IPC_CLOSE, delete ? &d.base : &x.base, slice_of(NULL, 0), TIMEOUT_MS,
		  hist, on_admin);
}

/* In most runs some topics are never trimmed, so that every record of them is judged; in the others whole objects die. */
static bool trim_is_due(struct run *r, const struct run_topic *t)
{
	bool may = !t->ages && (r->trims_all || (t->name[strlen(t->name) - 1] - '0') % 3 == 1);
	return may && !t->delete_sent && sim_chance(&r->sim, r->churn ? 900 : r->trims_all ? 700 : 300);
}

static void trim_topic(struct client *c, struct run_topic *t)
{
	struct sim *s = &c->run->sim;
	Ipc__TopicRef topic;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TrimRequest m = IPC__TRIM_REQUEST__INIT;
	topic_ref(&topic, t);
	log.topic = &topic;
	log.partition = (uint32_t)sim_below(s, t->n_partitions);
	m.log = &log;
	m.offset = sim_chance(s, c->run->trims_all ? 700 : 200) ? -1 : (int64_t)sim_below(s, 60);
	uint32_t hist = history_op(&c->run->history, HIST_TRIM);
	c->run->history.ops[hist].log = t->log[log.partition];
	c->run->history.ops[hist].topic = t->index;
	c->run->history.ops[hist].from = m.offset < 0 ? HIST_END : (uint64_t)m.offset;
	t->trimmed = true;
	c->busy = true;
	call_send(c, c->node, IPC_TRIM, &m.base, slice_of(NULL, 0), TIMEOUT_MS, hist, on_admin);
}

static void on_get(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	const Ipc__GetRequest *m = (const Ipc__GetRequest *)call->request;
	struct run_topic *t = topic_by_id(c->run, &m->topic->topic_id);
	if (error != NULL && error->kind == PICO_NOT_FOUND && !t->delete_sent && !t->ends)
		run_fault(c->run, "topic %s was shown and nobody deleted it, and it is gone", t->name);
	on_admin(call, error, answer);
}

static void get_topic(struct client *c, struct run_topic *t)
{
	Ipc__TopicRef topic;
	topic_ref(&topic, t);
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	m.topic = &topic;
	uint32_t hist = history_op(&c->run->history, HIST_GET);
	c->run->history.ops[hist].topic = t->index;
	c->busy = true;
	call_send(c, c->node, IPC_GET, &m.base, slice_of(NULL, 0), TIMEOUT_MS, hist, on_get);
}

void admin_turn(struct client *c)
{
	struct run *r = c->run;
	struct sim *s = &r->sim;
	if (!r->loading)
		return;
	unsigned lasting = 0;
	for (unsigned i = 0; i < r->n_topics; i++)
		lasting += !r->topics[i]->temporary;
	struct run_topic *t = r->n_topics > 0 ? r->topics[sim_below(s, r->n_topics)] : NULL;
	if (lasting < (r->churn ? 6 : 2) || (lasting < 4 && sim_chance(s, 200))) {
		create_topic(c, "lasting", lasting, 1 + (unsigned)sim_below(s, 2));
	} else if (r->n_topics < RUN_TOPICS / 2 && sim_chance(s, r->churn ? 60 : 300)) {
		unsigned number = (unsigned)sim_below(s, 6);    /* the same names again and again */
		create_topic(c, "temporary", number, number % RUN_PARTITIONS + 1);
	} else if (r->n_topics < RUN_TOPICS / 3 * 2 && !t->delete_sent && sim_chance(s, 350)) {
		fork_topic(c, t);       /* an export knows too little of what is forked after it */
	} else if (t->temporary && !t->delete_sent && sim_chance(s, r->churn ? 60 : 300)) {
		end_topic(c, t, sim_chance(s, 500));
	} else if (trim_is_due(r, t)) {
		trim_topic(c, t);
	} else if (sim_chance(s, 200)) {
		get_topic(c, t);
	} else {
		client_wake(c, sim_between(s, 100 * SIM_MS, SIM_S));
	}
}
