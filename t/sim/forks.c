/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that forks: at the end, or somewhere in the log, which it reads around there first, as a worker does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/record_cut.h"
#include "t/sim/run.h"

#define TIMEOUT_MS 15000
#define NAMES 8u                        /* the same names again and again */
#define BYTES_MAX (1u << 20)

void topic_learn_fork(struct run *r, struct run_topic *t, const Ipc__Topic *m)
{
	const struct run_topic *source = m->source_id.len == 16 ? topic_by_id(r, &m->source_id) : NULL;
	for (uint32_t i = 0; source != NULL && i < t->n_partitions && i < source->n_partitions; i++) {
		struct hist_log *log = &r->history.logs[t->log[i]];
		log->source = source->log[i];
		log->point = m->partitions[i]->fork_offset;
		log->fork_start = m->partitions[i]->start;
		t->trimmed |= log->fork_start > 0;      /* who reads from 0 is told where it begins */
	}
}

static void on_forked(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	struct run *r = c->run;
	const Ipc__ForkAnswer *a = (const Ipc__ForkAnswer *)answer;
	c->busy = false;
	struct run_topic *t = a != NULL ? topic_learn(r, a->topic) : NULL;
	if (t != NULL) {
		r->history.ops[call->hist].topic = t->index;
		r->history.ops[call->hist].created = a->created;
		r->sim.faults[SIM_FORKED] += a->created;
		c->n_done++;
	}
	client_wake(c, client_pause(c));
}

/* offset UINT64_MAX: at the end. */
static void fork_send(struct client *c, uint64_t offset, uint64_t parent_end, struct slice copies)
{
	Ipc__ForkRequest m = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest create = IPC__CREATE_REQUEST__INIT;
	Ipc__TopicRef source;
	char name[32];
	snprintf(name, sizeof(name), "/fork/%u", (unsigned)sim_below(&c->run->sim, NAMES));
	topic_ref(&source, c->forked);
	create.name = name;
	m.create = &create;
	m.source = &source;
	m.has_offset = m.has_parent_end = offset != UINT64_MAX;
	m.offset = m.has_offset ? offset : 0;
	m.parent_end = m.has_offset ? parent_end : 0;
	c->busy = true;
	call_send(c, c->node, IPC_FORK, &m.base, copies, TIMEOUT_MS, history_op(&c->run->history, HIST_CREATE), on_forked);
}

/* The first batch that came holds the point. */
static void fork_around(struct client *c, uint64_t offset, struct slice bytes)
{
	struct record_decoder d;
	struct record_batch b;
	struct buf copies;
	int64_t size = record_batch_size(bytes);
	if (size <= 0 || (uint64_t)size > bytes.n || record_batch_read(slice_of(bytes.p, (size_t)size), &b) != 0) {
		run_fault(c->run, "a read before a fork shows bytes that are no batch");
		return;
	}
	buf_init(&copies, BYTES_MAX);
	record_decoder_init(&d, BYTES_MAX);
	if (offset > b.base_offset)
		must(record_cut(&d, &b, (uint32_t)(offset - b.base_offset), &copies) == 0);
	fork_send(c, offset, b.base_offset, buf_len(&copies) > 0 ? buf_slice(&copies) : slice_of(NULL, 0));
	record_decoder_done(&d);
	buf_done(&copies);
}

static void on_around(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct client *c = call->client;
	const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)answer;
	bool here = client_has_node(c);
	c->busy = false;
	if (a != NULL && here && call->n_bytes > 0)
		fork_around(c, a->from, slice_of(call->bytes, call->n_bytes));
	else if (a != NULL && here)
		fork_send(c, a->from, a->from, slice_of(NULL, 0));
	if (!c->busy)
		client_wake(c, client_pause(c));
}

void fork_topic(struct client *c, struct run_topic *t)
{
	struct sim *s = &c->run->sim;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic;
	c->forked = t;
	if (t->n_partitions > 1 || sim_chance(s, 250)) {
		fork_send(c, UINT64_MAX, 0, slice_of(NULL, 0));
		return;
	}
	topic_ref(&topic, t);
	log.topic = &topic;
	m.log = &log;
	m.from = (int64_t)sim_below(s, 80);
	m.max_bytes = 1;
	c->busy = true;
	call_send(c, c->node, IPC_READ, &m.base, slice_of(NULL, 0), TIMEOUT_MS, HIST_NONE, on_around);
}
