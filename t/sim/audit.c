/* SPDX-License-Identifier: Apache-2.0
 *
 * What is there at the end: every topic by list, every log by reads from its start, every WAL object of
 * the bucket. One step after the other, through the node that serves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/data/data_format.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/snapshot.h"
#include "storaged/op.h"
#include "t/sim/run.h"

#define STEP_NS (60 * SIM_S)
#define TIMEOUT_MS 30000

/* One call at a time; its answer is waited for. */
static struct {
	bool open, failed, begun;
	uint32_t hist;
	uint64_t next, confirm, start;
	bool closed, more, cut, final;
	char last[64];
} step;

static bool step_is_over(struct run *r)
{
	return !step.open;
}

static bool step_wait(struct run *r)
{
	return run_until(r, step_is_over, STEP_NS) && !step.failed;
}

static struct client *reader(struct run *r, struct sim_node *n)
{
	struct client *c = &r->clients[0];
	c->node = n;
	step.open = true;
	step.failed = false;
	return c;
}

static void on_list(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct run *r = call->client->run;
	const Ipc__ListAnswer *a = (const Ipc__ListAnswer *)answer;
	step.open = false;
	step.failed = a == NULL;
	for (size_t i = 0; a != NULL && i < a->n_topics; i++) {
		struct run_topic *t = topic_learn(r, a->topics[i]);
		if (t == NULL)
			continue;
		if (strcmp(a->topics[i]->name, step.last) <= 0)
			run_fault(r, "a list is out of order");
		snprintf(step.last, sizeof(step.last), "%s", a->topics[i]->name);
		r->history.topics[t->index].exists = true;
		if (t->ends && step.final)
			run_fault(r, "topic %s is there long after its TTL", t->name);
	}
	step.more = a != NULL && a->has_more;
}

static bool list_all(struct run *r, struct sim_node *n)
{
	for (size_t i = 0; i < r->history.n_topics; i++)
		r->history.topics[i].exists = false;
	step.last[0] = '\0';
	do {
		Ipc__ListRequest m = IPC__LIST_REQUEST__INIT;
		char after[64];
		snprintf(after, sizeof(after), "%s", step.last);
		m.start_after = after;
		m.limit = 3;
		call_send(reader(r, n), n, IPC_LIST, &m.base, slice_of(NULL, 0), TIMEOUT_MS, HIST_NONE, on_list);
		if (!step_wait(r))
			return false;
	} while (step.more && !r->failed);
	return true;
}

static void on_read(struct sim_call *call, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct run *r = call->client->run;
	const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)answer;
	step.open = false;
	step.failed = a == NULL;
	step.cut = error != NULL && error->kind == PICO_OUT_OF_RANGE && error->has_start_offset;
	if (a == NULL)
		return;
	if (!step.begun)
		r->history.ops[call->hist].from = step.start = a->from;
	step.begun = true;
	records_seen(r, call->hist, slice_of(call->bytes, call->n_bytes), a->from);
	step.next = a->end;
	step.confirm = a->confirm;
	step.closed = a->closed;
}

static bool read_some(struct run *r, struct sim_node *n, const struct run_topic *t, uint32_t partition)
{
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic;
	topic_ref(&topic, t);
	log.topic = &topic;
	log.partition = partition;
	m.log = &log;
	m.partition_given = true;
	m.from = step.begun ? (int64_t)step.next : -1;
	step.hist = history_op(&r->history, HIST_READ);
	struct hist_op *op = &r->history.ops[step.hist];
	op->log = t->log[partition];
	op->topic = t->index;
	op->from = step.next;
	call_send(reader(r, n), n, IPC_READ, &m.base, slice_of(NULL, 0), TIMEOUT_MS, step.hist, on_read);
	return step_wait(r);
}

/* A minute or two after the load: all of it was packed, is old, and was cut. */
static void check_cut(struct run *r, const struct run_topic *t)
{
	if (t->ages && r->config.wal_upload_interval_ms != 0 && step.start != step.confirm)
		run_fault(r, "topic %s has offsets %llu to %llu, which are older than is kept", t->name,
			  (unsigned long long)step.start, (unsigned long long)step.confirm);
}

/* false: not in time, or step.cut: what was old was cut meanwhile. */
static bool read_log(struct run *r, struct sim_node *n, const struct run_topic *t, uint32_t partition, bool final)
{
	uint32_t index = t->log[partition];
	size_t first = r->history.n_records;
	step.next = 0;
	step.begun = step.cut = false;
	uint64_t before;
	do {
		before = step.next;
		bool is_first = !step.begun;
		if (!read_some(r, n, t, partition))
			return false;
		if (is_first)
			before = step.start;
		if (step.next == before && step.next < step.confirm)
			run_fault(r, "a read shows nothing below the high watermark");
	} while (step.next < step.confirm && !r->failed);
	struct hist_log *log = &r->history.logs[index];
	if (final)
		check_cut(r, t);
	if (final)
		*log = (struct hist_log){ .topic = log->topic, .partition = partition, .source = log->source, .point = log->point,
					  .fork_start = log->fork_start, .read_back = true, .closed = step.closed, .start = step.start,
					  .confirm = step.confirm, .first_record = first,
					  .n_records = r->history.n_records - first };
	return true;
}

bool audit_read_log(struct run *r, struct sim_node *n, const struct run_topic *t, uint32_t partition)
{
	return read_log(r, n, t, partition, false);
}

bool audit_read_back(struct run *r, bool final)
{
	struct sim_node *n = nodes_serving(r);
	step.final = final;
	if (n == NULL || !list_all(r, n))
		return false;
	for (unsigned i = 0; i < r->n_topics && !r->failed; i++) {
		const struct run_topic *t = r->topics[i];
		for (uint32_t p = 0; p < t->n_partitions && r->history.topics[t->index].exists && !t->ends; p++)
			while (!read_log(r, n, t, p, final))
				if (!t->ages || !step.cut)
					return false;
	}
	return true;
}

/* ------------------------------------------------------------------------ bucket */

/* Header of a WAL object: magic, format, node, kind, each u32; session u64; seq u64. */
static enum hist_wal_kind wal_kind(const struct sim_object *o, uint64_t session, uint64_t seq)
{
	if (o->size < 64 || get_le64(o->data + 16) != session || get_le64(o->data + 24) != seq)
		return HIST_WAL_BROKEN;
	switch (get_le32(o->data + 12)) {
	case 1:
		return HIST_WAL_OPEN;
	case 2:
		return HIST_WAL_DATA;
	case 3:
		return HIST_WAL_SEAL;
	default:
		return HIST_WAL_BROKEN;
	}
}

static void audit_deleted(struct run *r, const struct sim_bucket *b)
{
	for (size_t i = 0; i < b->n_deleted; i++) {
		unsigned node;
		uint64_t session, seq;
		if (sscanf(b->deleted[i], "wal/%u/%16lx/%16lx", &node, &session, &seq) == 3)
			history_deleted(&r->history, session, seq);
	}
}

/* What the node that serves has applied. */
static void audit_sessions(struct run *r)
{
	const struct sim_node *n = nodes_serving(r);
	if (n == NULL)
		return;
	const struct state *state = meta_state(n->node->meta);
	const struct state_session *s = state_session_next(state, RUN_NODE_ID, 0);
	for (; s != NULL; s = state_session_next(state, RUN_NODE_ID, s->session))
		history_session(&r->history, &(struct hist_session){ s->session, s->watermark, s->state == SESSION_RECOVERED });
}

/* Nothing that the catalogue has in use is missing. */
static void audit_catalogue(struct run *r)
{
	const struct sim_node *n = nodes_serving(r);
	if (n == NULL)
		return;
	const struct catalogue *c = state_catalogue(meta_state(n->node->meta));
	for (const struct object_row *x = catalogue_next(c, NULL); x != NULL; x = catalogue_next(c, &x->id)) {
		char key[DATA_KEY_MAX];
		data_key(key, x->id);
		if (!x->marked && sim_bucket_find(&r->bucket, key) == NULL)
			run_fault(r, "object %s is in the catalogue and not in the bucket", key);
	}
}

/* Every export is whole and loads; at most the last two, and one that a death left, are there. */
static void audit_exports(struct run *r)
{
	size_t n;
	char **keys = sim_bucket_keys(&r->bucket, "meta/", &n);
	if (n == 0 || n > 3)
		run_fault(r, "%zu exports are there", n);
	for (size_t i = 0; i < n; i++) {
		const struct sim_object *o = sim_bucket_find(&r->bucket, keys[i]);
		struct export_header h;
		struct sql_entity *e = NULL;
		uint64_t idx = 0;
		size_t n_entities = 0;
		const char *fault = export_key_parse(keys[i], &idx) ?
			export_decode(slice_of(o->data, o->size), idx, &h, &e, &n_entities) : "it is no export's key";
		struct state *s = state_new();
		if (fault == NULL && state_load(s, idx, e, n_entities) != 0)
			fault = "its entities do not load";
		if (fault != NULL)
			run_fault(r, "export %.60s: %s", keys[i], fault);
		state_free(s);
		free(e);
	}
	free(keys);
}

void audit_bucket(struct run *r)
{
	audit_catalogue(r);
	audit_exports(r);
	if (r->has_aliens && r->options.faults)
		aliens_audit(r);
	size_t n;
	struct sim_bucket *b = r->two_buckets ? &r->wal_bucket : &r->bucket;
	char **keys = sim_bucket_keys(b, "wal/", &n);
	for (size_t i = 0; i < n; i++) {
		unsigned node;
		uint64_t session, seq;
		if ((r->has_impostor && strncmp(keys[i], "wal/2/", 6) == 0) || alien_is(r, keys[i]))
			continue;
		if (sscanf(keys[i], "wal/%u/%16lx/%16lx", &node, &session, &seq) != 3 || node != RUN_NODE_ID) {
			run_fault(r, "key %.60s is no WAL object's", keys[i]);
			break;
		}
		history_wal(&r->history, session, seq, wal_kind(sim_bucket_find(b, keys[i]), session, seq));
		if (session > r->history.last_session)
			r->history.last_session = session;
	}
	free(keys);
	audit_deleted(r, b);
	audit_sessions(r);
}
