/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls about the node itself, and Resume: what became of appends that carried no producer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "storaged/op.h"

static void uuid_print(const uint8_t uuid[16], char ret_hex[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", uuid[i]);
}

void handle_node_status(struct node *n, struct call *c)
{
	const struct state *s = meta_state(n->meta);
	const char *reason;
	Ipc__NodeStatusAnswer a = IPC__NODE_STATUS_ANSWER__INIT;
	a.ready = node_is_ready(n, &reason);
	a.reason = (char *)reason;
	a.serving = n->phase == NODE_SERVING;
	a.registered = n->session != 0;
	a.applied_index = state_idx(s);
	a.node_id = n->config.meta.node;
	a.session = n->session;
	a.n_topics = state_n_topics(s);
	if (state_cluster_uuid(s) != NULL) {
		uuid_print(state_cluster_uuid(s), n->uuid_hex);
		a.cluster_uuid = n->uuid_hex;
	}
	a.recovery_ms = n->recovery.elapsed_ms;
	a.recovered_objects = n->recovery.objects;
	a.recovered_frames = n->recovery.frames;
	call_answer(c, &a.base);
}

struct found {
	Ipc__ResumeAnswer__Found m;
	Ipc__AppendAnswer append;
};

static void resume_one(struct node *n, uint64_t worker_instance, const Ipc__Resume__Sent *sent, struct found *f)
{
	struct engine_request r;
	const struct state_topic *t;
	ipc__resume_answer__found__init(&f->m);
	f->m.request_id = sent->request_id;
	switch (engine_request_find(n->engine, worker_instance, sent->request_id, sent->wal_session, sent->wal_seq, &r)) {
	case REQUEST_UNKNOWN:
		f->m.state = IPC__RESUME_ANSWER__STATE__UNKNOWN;
		break;
	case REQUEST_ABSENT:
		f->m.state = IPC__RESUME_ANSWER__STATE__ABSENT;
		break;
	case REQUEST_STORED:
		f->m.state = IPC__RESUME_ANSWER__STATE__STORED;
		ipc__append_answer__init(&f->append);
		f->append.base_offset = r.base_offset;
		f->append.base_known = true;
		f->append.next_offset = r.next_offset;
		f->append.timestamp_ms = r.timestamp_ms;
		f->append.closed = r.closed;
		t = state_topic_by_log(meta_state(n->meta), r.log_id, &f->append.partition);
		f->append.multi_partition = t != NULL && t->n_partitions > 1;
		f->m.append = &f->append;
		break;
	}
}

void handle_resume(struct node *n, struct call *c)
{
	const Ipc__Resume *r = (const Ipc__Resume *)c->request;
	Ipc__ResumeAnswer a = IPC__RESUME_ANSWER__INIT;
	struct found *found = must_calloc(r->n_sent, sizeof(*found));
	a.n_found = r->n_sent;
	a.found = must_calloc(r->n_sent, sizeof(*a.found));
	for (size_t i = 0; i < r->n_sent; i++) {
		resume_one(n, c->worker_instance, r->sent[i], &found[i]);
		a.found[i] = &found[i].m;
	}
	call_answer(c, &a.base);
	free(a.found);
	free(found);
}
