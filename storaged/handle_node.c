/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls about this node and the others, and Resume: what became of appends that carried no producer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "storaged/handle.h"

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

/* ---------------------------------------------------------------------- nodes */

struct node_message {
	Ipc__NodesAnswer__Node m;
	Ipc__NodesAnswer__Address *address;
	Ipc__NodesAnswer__Address **pointer;
};

static void node_message_fill(const struct node *n, const Meta__NodeEntity *e, struct node_message *ret)
{
	ipc__nodes_answer__node__init(&ret->m);
	ret->address = must_calloc(e->n_addresses + 1, sizeof(*ret->address));
	ret->pointer = must_calloc(e->n_addresses + 1, sizeof(*ret->pointer));
	for (size_t i = 0; i < e->n_addresses; i++) {
		ipc__nodes_answer__address__init(&ret->address[i]);
		ret->address[i].protocol = e->addresses[i]->protocol;
		ret->address[i].address = e->addresses[i]->address;
		ret->pointer[i] = &ret->address[i];
	}
	ret->m.id = e->node;
	ret->m.host = e->host;
	ret->m.local = e->node == n->config.meta.node;
	ret->m.addresses = ret->pointer;
	ret->m.n_addresses = e->n_addresses;
}

static void nodes_done(struct node_message *m, Ipc__NodesAnswer *a)
{
	for (size_t i = 0; i < a->n_nodes; i++) {
		free(m[i].address);
		free(m[i].pointer);
	}
	free(m);
	free(a->nodes);
}

/* Those whose newest session nobody has ended. */
void handle_nodes(struct node *n, struct call *c)
{
	const struct state *s = meta_state(n->meta);
	const Meta__NodeEntity *e;
	size_t count = 0;
	for (e = state_node_next(s, 0); e != NULL; e = state_node_next(s, e->node))
		count++;
	Ipc__NodesAnswer a = IPC__NODES_ANSWER__INIT;
	struct node_message *m = must_calloc(count + 1, sizeof(*m));
	a.nodes = must_calloc(count + 1, sizeof(*a.nodes));
	for (e = state_node_next(s, 0); e != NULL; e = state_node_next(s, e->node)) {
		if (!state_node_is_up(s, e->node))
			continue;
		node_message_fill(n, e, &m[a.n_nodes]);
		a.nodes[a.n_nodes] = &m[a.n_nodes].m;
		a.n_nodes++;
	}
	if (state_cluster_id(s) != NULL)
		a.cluster_id = (char *)state_cluster_id(s);
	call_answer(c, &a.base);
	nodes_done(m, &a);
}

/* ---------------------------------------------------------------------- resume */

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
