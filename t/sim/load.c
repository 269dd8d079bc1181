/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that append, each in its own manner: plain ones that pipeline and ask by Resume what became of
 * lost appends, producers that send again under the same sequence number, string ones and Kafka's, conditional
 * ones, stream sequences.
 * They behave as workers do and believe nothing that was not answered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/sim/run.h"

#define TIMEOUT_MS 15000

/* -------------------------------------------------------------------- values */

static size_t value_encode(struct run *r, struct value *v)
{
	struct buf out;
	struct record_batch_writer w;
	static uint8_t body[7000];
	buf_init(&out, 1 << 20);
	record_batch_begin(&w, &out);
	for (uint32_t i = 0; i < v->n_records; i++) {
		size_t most = r->fat && v->n_records <= 3 ? sizeof(body) - 8 : 592;
		size_t n = 8 + (sim_chance(&r->sim, r->fat ? 300 : 950) ? sim_below(&r->sim, 60) : sim_below(&r->sim, most));
		put_le32(body, v->number);
		put_le32(body + 4, i);
		for (size_t k = 8; k < n; k++)
			body[k] = (uint8_t)(v->number * 31 + i * 7 + k);
		bool keyed = sim_chance(&r->sim, 300);
		record_batch_add(&w, keyed ? slice_str("key") : slice_of(NULL, 0), slice_of(body, n), NULL, 0);
	}
	size_t size = record_batch_end(&w);
	must(size > 0);
	v->payload = must_memdup(buf_head(&out), size);
	buf_done(&out);
	return size;
}

struct value *value_new(struct client *c, struct run_topic *t, uint32_t partition, uint32_t n_records)
{
	struct run *r = c->run;
	struct value *v = must_calloc(1, sizeof(*v));
	*v = (struct value){ .number = r->history.n_values++, .topic = t, .partition = partition,
			     .n_records = n_records, .producer = HIST_NONE };
	if (n_records > 0)
		v->size = value_encode(r, v);
	return v;
}

void value_free(struct value *v)
{
	if (v == NULL)
		return;
	free(v->payload);
	free(v);
}

static bool is_closed_first(const struct value *v)
{
	return v->number % 2 == 1;
}

uint32_t value_attempt(struct client *c, struct value *v)
{
	uint32_t hist = history_op(&c->run->history, HIST_APPEND);
	struct hist_op *op = &c->run->history.ops[hist];
	op->log = v->topic != NULL ? v->topic->log[v->partition] : HIST_NONE;
	op->topic = v->topic != NULL ? v->topic->index : HIST_NONE;
	op->value = v->number;
	op->attempt = ++v->attempts;
	op->n_records = v->n_records;
	op->producer = v->producer;
	op->epoch = v->epoch;
	op->seq = v->seq;
	op->has_match = v->has_match;
	op->match = v->match;
	op->has_stream_seq = v->has_stream_seq;
	op->stream_seq = v->stream_seq;
	op->closes = v->closes;
	op->closed_first = is_closed_first(v);
	op->check_only = v->check_only;
	v->hist = hist;
	return hist;
}

static void value_add(struct client *c, struct value *v)
{
	struct value **at = &c->values;
	while (*at != NULL)
		at = &(*at)->next;
	*at = v;
	c->n_values++;
}

/* A producer's last word, kept to be said again: what a node must know it still knows then. */
static void echo_keep(struct client *c, struct value *v)
{
	if (v == NULL || c->run->echoing) {
		value_free(v);
		return;
	}
	v->next = NULL;
	v->echo = true;
	unsigned at = c->n_echoes < CLIENT_ECHOES ? c->n_echoes++ : (unsigned)sim_below(&c->run->sim, CLIENT_ECHOES);
	value_free(c->echoes[at]);
	c->echoes[at] = v;
}

static struct value *echo_take(struct client *c)
{
	unsigned at = (unsigned)sim_below(&c->run->sim, c->n_echoes);
	struct value *v = c->echoes[at];
	c->echoes[at] = c->echoes[--c->n_echoes];
	c->echoes[c->n_echoes] = NULL;
	return v;
}

static void last_set(struct client *c, struct value *v)
{
	if (c->last != NULL && c->last->producer != v->producer)
		echo_keep(c, c->last);
	else
		value_free(c->last);
	v->next = NULL;
	c->last = v;
}

static void values_sweep(struct client *c)
{
	for (struct value **at = &c->values; *at != NULL;) {
		struct value *v = *at;
		if (v->state != VALUE_DONE) {
			at = &v->next;
			continue;
		}
		*at = v->next;
		c->n_values--;
		if (v->has_producer && v->attempts > 0 && c->run->history.ops[v->hist].outcome == HIST_OK) {
			if (v->echo)
				echo_keep(c, v);
			else
				last_set(c, v);
		} else {
			value_free(v);
		}
	}
}

/* ------------------------------------------------------------------- appends */

static bool is_superseded(const struct sim_node *n)
{
	return n->node == NULL || n->proc->state == SIM_DEAD || n != nodes_best(n->run);
}

static void value_lost(struct client *c, struct value *v)
{
	if (v->has_producer)
		v->state = v->once ? VALUE_DONE : VALUE_AGAIN;
	else
		v->state = is_superseded(v->sent_to) && sim_chance(&c->run->sim, 800) ? VALUE_ASK : VALUE_DONE;
	c->known = false;
}

/* A refusal: whether it is worth another attempt depends on who sent it and why. */
static void value_refused(struct client *c, struct value *v, const struct pico_error *e)
{
	bool older_open = false;
	for (struct value *o = c->values; o != v && o != NULL; o = o->next)
		older_open |= o->state != VALUE_DONE;
	v->state = VALUE_DONE;
	if (v->once)
		return;
	switch (e->kind) {
	case PICO_UNAVAILABLE:
	case PICO_THROTTLED:
		v->state = VALUE_AGAIN;
		break;
	case PICO_DURABILITY:
		v->state = v->has_producer ? VALUE_AGAIN : VALUE_DONE;
		c->known = false;
		break;
	case PICO_SEQUENCE_GAP:
		if (older_open)
			v->state = VALUE_AGAIN;
		break;
	case PICO_MATCH_FAILED:
		c->next = e->next_offset;
		c->n_done++;            /* others were faster, perhaps always */
		break;
	case PICO_CLOSED:
	case PICO_NOT_FOUND:
	case PICO_GONE:
		v->topic->ended[v->partition] = true;
		c->topic = NULL;
		break;
	default:
		break;
	}
}

static void on_append(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	struct value *v = call->value;
	if (error != NULL) {
		value_refused(c, v, error);
	} else if (answer == NULL) {
		value_lost(c, v);
	} else {
		v->state = VALUE_DONE;
		c->next = ((Ipc__AppendAnswer *)answer)->next_offset;
		c->n_done++;
		c->run->result->n_acked++;
	}
	if (v->closes && v->state == VALUE_DONE)
		v->topic->ended[v->partition] = true;
	values_sweep(c);
	client_wake(c, client_pause(c));
}

static void on_submit(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	struct value *v = call->value;
	if (error != NULL) {
		value_refused(c, v, error);
	} else if (answer == NULL) {
		value_lost(c, v);
	} else {
		v->state = VALUE_DONE;
		c->n_done++;
		c->run->result->n_acked++;
	}
	values_sweep(c);
	client_wake(c, client_pause(c));
}

/* The batch is the client's own: producer fields and checksum. seq is that of its last record. */
static void batch_sign(struct value *v)
{
	uint8_t *p = v->payload;
	put_be64(p + 43, v->producer);
	put_be16(p + 51, (uint16_t)v->epoch);
	put_be32(p + 53, (uint32_t)(v->seq + 1 - v->n_records));
	put_be32(p + 17, crc32c(p + 21, v->size - 21));
}

static void value_submit(struct client *c, struct value *v, uint64_t timeout)
{
	Ipc__SubmitRequest m = IPC__SUBMIT_REQUEST__INIT;
	Ipc__SubmitRequest__Part part = IPC__SUBMIT_REQUEST__PART__INIT, *pointer = &part;
	batch_sign(v);
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = v->topic->id };
	part.partition = v->partition;
	part.length = (uint32_t)v->size;
	part.log_append_time = true;
	m.part = &pointer;
	m.n_part = 1;
	struct sim_call *call = call_send(c, c->node, IPC_SUBMIT, &m.base, slice_of(v->payload, v->size), timeout,
					  value_attempt(c, v), on_submit);
	call->value = v;
}

static void value_append(struct client *c, struct value *v, uint64_t timeout)
{
	Ipc__AppendRequest m = IPC__APPEND_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic;
	Ipc__Producer producer = IPC__PRODUCER__INIT;
	char id[24];
	uint8_t stream_seq[8];
	topic_ref(&topic, v->topic);
	m.log = &log;
	log.topic = &topic;
	log.partition = v->partition;
	m.record_count = v->n_records;
	m.close_after = v->closes;
	m.check_only = v->check_only;
	m.has_match_seq = v->has_match;
	m.match_seq = v->match;
	m.has_stream_seq = v->has_stream_seq;
	put_be64(stream_seq, v->stream_seq);
	m.stream_seq = (ProtobufCBinaryData){ .len = 8, .data = stream_seq };
	m.order = is_closed_first(v) ? IPC__APPEND_REQUEST__ORDER__CLOSED_FIRST : IPC__APPEND_REQUEST__ORDER__PRODUCER_FIRST;
	if (v->has_producer) {
		snprintf(id, sizeof(id), "producer-%u", v->producer);
		producer.id = id;
		producer.epoch = v->epoch;
		producer.seq = v->seq;
		m.producer = &producer;
	}
	struct sim_call *call = call_send(c, c->node, IPC_APPEND, &m.base, slice_of(v->payload, v->size), timeout,
					  value_attempt(c, v), on_append);
	call->value = v;
	v->request_id = call->call.request_id;
}

static void value_send(struct client *c, struct value *v)
{
	uint64_t timeout = sim_chance(&c->run->sim, 900) ? TIMEOUT_MS : sim_between(&c->run->sim, 1, 500);
	node_wal_position(c->node->node, &v->wal_session, &v->wal_seq);
	v->state = VALUE_SENT;
	v->sent_to = c->node;
	if (c->kind == CLIENT_KAFKA)
		value_submit(c, v, timeout);
	else
		value_append(c, v, timeout);
}

/* -------------------------------------------------------------------- resume */

static void resume_found(struct client *c, struct value *v, const Ipc__ResumeAnswer__Found *f)
{
	struct hist_op *op = &c->run->history.ops[v->hist];
	switch (f->state) {
	case IPC__RESUME_ANSWER__STATE__ABSENT:
		op->outcome = HIST_REFUSED;
		op->error = PICO_UNAVAILABLE;
		op->answered_ns = c->run->sim.now_ns;
		v->state = VALUE_AGAIN;
		return;
	case IPC__RESUME_ANSWER__STATE__STORED:
		op->outcome = HIST_OK;
		op->answered_ns = c->run->sim.now_ns;
		op->proc = (uint32_t)c->node->session;
		op->base = f->append->base_offset;
		op->next = f->append->next_offset;
		op->timestamp = f->append->timestamp_ms;
		op->base_known = v->n_records > 0;
		v->state = VALUE_DONE;
		c->run->result->n_acked++;
		c->n_done++;
		return;
	default:
		v->state = VALUE_DONE;
		return;
	}
}

static void on_resume(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	const Ipc__ResumeAnswer *a = (const Ipc__ResumeAnswer *)answer;
	c->busy = false;
	for (struct value *v = c->values; v != NULL && a != NULL; v = v->next)
		for (size_t i = 0; v->state == VALUE_ASK && i < a->n_found; i++)
			if (a->found[i]->request_id == v->request_id)
				resume_found(c, v, a->found[i]);
	values_sweep(c);
	client_wake(c, client_pause(c));
}

/* Asks about every value whose connection broke. False when there is none. */
static bool resume_send(struct client *c)
{
	Ipc__Resume m = IPC__RESUME__INIT;
	Ipc__Resume__Sent sent[16], *pointer[16];
	m.sent = pointer;
	for (struct value *v = c->values; v != NULL && m.n_sent < 16; v = v->next) {
		if (v->state != VALUE_ASK)
			continue;
		if (v->sent_to == c->node) {    /* it has not restarted: nobody to ask */
			v->state = VALUE_DONE;
			continue;
		}
		ipc__resume__sent__init(&sent[m.n_sent]);
		sent[m.n_sent].request_id = v->request_id;
		sent[m.n_sent].wal_session = v->wal_session;
		sent[m.n_sent].wal_seq = v->wal_seq;
		pointer[m.n_sent] = &sent[m.n_sent];
		m.n_sent++;
	}
	values_sweep(c);
	if (m.n_sent == 0)
		return false;
	c->busy = true;
	call_send(c, c->node, IPC_RESUME, &m.base, slice_of(NULL, 0), TIMEOUT_MS, HIST_NONE, on_resume);
	return true;
}

/* --------------------------------------------------------------- new values */

static void shape_producer(struct client *c, struct value *v)
{
	struct sim *s = &c->run->sim;
	uint32_t step = c->kind == CLIENT_KAFKA ? v->n_records : 1;     /* Kafka counts records, the others requests */
	v->has_producer = true;
	v->producer = c->producer;
	if (c->n_values == 0 && sim_chance(s, 30)) {            /* a new epoch */
		c->epoch++;
		c->seq = 0;
	} else if (c->n_values == 0 && c->seq > 0 && sim_chance(s, 20)) {  /* a gap: refused */
		v->epoch = c->epoch;
		v->seq = c->seq + step + sim_below(s, 3);
		v->once = true;
		return;
	} else if (c->n_values == 0 && c->epoch > 0 && sim_chance(s, 20)) {    /* a stale epoch: refused */
		v->epoch = c->epoch - 1;
		v->seq = 1000 + c->seq + step;
		v->once = true;
		return;
	}
	v->epoch = c->epoch;
	v->seq = c->seq + step - 1;
	c->seq += step;
}

static void begin_value(struct client *c)
{
	struct sim *s = &c->run->sim;
	uint32_t n = (uint32_t)(sim_chance(s, 700) ? 1 + sim_below(s, 3) : 1 + sim_below(s, 12));
	if (sim_chance(s, 15))
		n = 40;         /* about half a segment, or more than one */
	struct value *v = value_new(c, c->topic, c->partition, n);
	if (c->kind == CLIENT_PRODUCER || c->kind == CLIENT_KAFKA) {
		shape_producer(c, v);
	} else if (c->kind == CLIENT_MATCH) {
		v->has_match = true;
		v->match = sim_chance(s, 950) ? c->next : c->next + sim_below(s, 4);
	} else if (c->kind == CLIENT_STREAM) {
		v->has_stream_seq = true;
		v->stream_seq = s->now_ns - (sim_chance(s, 900) ? 0 : sim_below(s, s->now_ns));
	} else if (sim_chance(s, 30)) {
		v->check_only = true;
	}
	v->closes = c->kind != CLIENT_KAFKA && c->topic->temporary && sim_chance(s, 40);
	value_add(c, v);
	value_send(c, v);
}

static void on_offsets(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	c->busy = false;
	if (answer != NULL) {
		c->known = true;
		c->next = ((Ipc__OffsetsAnswer *)answer)->next;
	} else if (error != NULL && error->kind == PICO_NOT_FOUND) {
		c->topic = NULL;
	}
	client_wake(c, client_pause(c));
}

static void ask_offsets(struct client *c)
{
	Ipc__OffsetsRequest m = IPC__OFFSETS_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic;
	topic_ref(&topic, c->topic);
	m.log = &log;
	log.topic = &topic;
	log.partition = c->partition;
	uint32_t hist = history_op(&c->run->history, HIST_OFFSETS);
	c->run->history.ops[hist].log = c->topic->log[c->partition];
	c->run->history.ops[hist].topic = c->topic->index;
	c->busy = true;
	call_send(c, c->node, IPC_OFFSETS, &m.base, slice_of(NULL, 0), TIMEOUT_MS, hist, on_offsets);
}

static void value_repeat(struct client *c, struct value *v)
{
	value_add(c, v);
	value_send(c, v);
}

/* A value that was acknowledged comes once more: a duplicate. More often when the node is not the one that said so. */
static bool send_again(struct client *c)
{
	struct value *v = c->last;
	bool doubts = c->doubts;
	c->doubts = false;
	if (doubts && c->n_values == 0 && c->n_echoes > 0 && sim_chance(&c->run->sim, 500)) {
		value_repeat(c, echo_take(c));
		return true;
	}
	if (v == NULL || c->n_values > 0 || v->epoch != c->epoch || v->topic != c->topic || v->closes ||
	    !sim_chance(&c->run->sim, doubts ? 700 : 60))
		return false;
	c->last = NULL;
	value_repeat(c, v);
	return true;
}

/* What is left of the client's echoes, one by one. */
static void echo_turn(struct client *c)
{
	if (c->n_values > 0 || c->n_echoes == 0)
		return;
	value_repeat(c, echo_take(c));
}

bool topic_choose(struct client *c, bool writable)
{
	struct run *r = c->run;
	unsigned first = r->n_topics > 0 ? (unsigned)sim_below(&r->sim, r->n_topics) : 0;
	for (unsigned i = 0; i < r->n_topics; i++) {
		struct run_topic *t = r->topics[(first + i) % r->n_topics];
		uint32_t p = (uint32_t)sim_below(&r->sim, t->n_partitions);
		if ((writable && t->ended[p]) || t->delete_sent)
			continue;
		c->topic = t;
		c->partition = p;
		c->known = false;
		c->next = 0;
		c->epoch = c->seq = 0;
		c->producer = r->n_producers++;
		return true;
	}
	return false;
}

static void appender_turn(struct client *c)
{
	struct sim *s = &c->run->sim;
	unsigned sent = 0;
	for (struct value *v = c->values; v != NULL; v = v->next)
		sent += v->state == VALUE_SENT;
	if (sent == 0 && c->n_values > 0) {
		if (resume_send(c))
			return;
		for (struct value *v = c->values; v != NULL; v = v->next)
			if (v->state == VALUE_AGAIN)
				value_send(c, v);
		return;
	}
	if (c->run->echoing)
		return echo_turn(c);
	if (!c->run->loading || c->n_values >= c->pipeline || sent < c->n_values)
		return;
	if (c->n_values == 0 && (c->topic == NULL || sim_chance(s, c->run->churn ? 100 : 20)) && !topic_choose(c, true))
		return client_wake(c, 200 * SIM_MS);
	if (c->topic == NULL)
		return;
	if (c->kind == CLIENT_MATCH && !c->known)
		return ask_offsets(c);
	if (!send_again(c))
		begin_value(c);
	client_wake(c, client_pause(c));
}

/* ------------------------------------------------------------------- clients */

uint64_t client_pause(struct client *c)
{
	struct sim *s = &c->run->sim;
	return sim_chance(s, 800) ? sim_below(s, 20 * SIM_MS) : sim_below(s, 800 * SIM_MS);
}

/* Connects to the newest start when its own is gone, and now and then when there is a newer one. */
bool client_has_node(struct client *c)
{
	struct run *r = c->run;
	bool gone = c->node == NULL || c->node->node == NULL;
	struct sim_node *best = nodes_best(r);
	bool leave = !gone && c->node != best && (r->healed || sim_chance(&r->sim, 200));
	if (gone || leave) {
		c->node = best != NULL && best->node != NULL ? best : NULL;
		c->stream++;
	}
	if (c->node == NULL || !c->node->serving || c->node->session < c->session)
		return false;
	c->doubts |= c->session != c->node->session;
	c->session = c->node->session;
	return true;
}

static void turn(void *arg)
{
	struct client *c = arg;
	c->woken = false;
	if (c->busy)
		return;
	if (!client_has_node(c))
		return client_wake(c, sim_between(&c->run->sim, 50 * SIM_MS, 200 * SIM_MS));
	if (c->kind == CLIENT_CONSUMER)
		consumer_turn(c);
	else if (c->kind == CLIENT_ADMIN)
		admin_turn(c);
	else
		appender_turn(c);
}

void client_wake(struct client *c, uint64_t delay_ns)
{
	if (c->woken)
		return;
	c->woken = true;
	sim_after(&c->run->sim, delay_ns, NULL, "client", turn, NULL, c);
}

void load_begin(struct run *r)
{
	static const enum client_kind kinds[RUN_CLIENTS] = {
		CLIENT_ADMIN, CLIENT_PLAIN, CLIENT_PRODUCER, CLIENT_CONSUMER, CLIENT_MATCH, CLIENT_STREAM,
		CLIENT_PRODUCER, CLIENT_CONSUMER, CLIENT_PLAIN, CLIENT_PRODUCER, CLIENT_CONSUMER, CLIENT_PLAIN,
		CLIENT_ADMIN, CLIENT_CONSUMER, CLIENT_KAFKA, CLIENT_KAFKA,
	};
	r->loading = true;
	for (unsigned i = 0; i < RUN_CLIENTS; i++) {
		struct client *c = &r->clients[i];
		*c = (struct client){ .run = r, .kind = kinds[i], .index = i, .pipeline = 1 };
		c->instance = sim_rand_next(&r->sim.rand);
		if (c->kind == CLIENT_PLAIN || c->kind == CLIENT_PRODUCER)
			c->pipeline = 1 + (unsigned)sim_below(&r->sim, r->fat ? 12 : 4);
		if (c->kind == CLIENT_KAFKA)    /* a broker knows the last five */
			c->pipeline = 1 + (unsigned)sim_below(&r->sim, 5);
		if (!r->options.small || i < 6)
			client_wake(c, sim_below(&r->sim, 100 * SIM_MS));
	}
}

bool load_is_quiet(struct run *r)
{
	for (unsigned i = 0; i < RUN_CLIENTS; i++)
		if (r->clients[i].n_values > 0 || r->clients[i].busy)
			return false;
	return true;
}

void load_echo(struct run *r)
{
	for (unsigned i = 0; i < RUN_CLIENTS; i++) {
		struct client *c = &r->clients[i];
		if (c->last != NULL && !c->last->closes)
			echo_keep(c, c->last);
		else
			value_free(c->last);
		c->last = NULL;
		client_wake(c, SIM_MS);
	}
	r->echoing = true;
}

bool load_is_echoed(struct run *r)
{
	for (unsigned i = 0; i < RUN_CLIENTS; i++)
		if (r->clients[i].n_echoes > 0)
			return false;
	return load_is_quiet(r);
}

void load_done(struct run *r)
{
	for (unsigned i = 0; i < RUN_CLIENTS; i++) {
		while (r->clients[i].values != NULL) {
			struct value *v = r->clients[i].values;
			r->clients[i].values = v->next;
			value_free(v);
		}
		value_free(r->clients[i].last);
		while (r->clients[i].n_echoes > 0)
			value_free(r->clients[i].echoes[--r->clients[i].n_echoes]);
	}
}
