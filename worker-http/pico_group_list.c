/* SPDX-License-Identifier: Apache-2.0
 *
 * All groups of the node, and one with its members, whatever protocol they speak. Subscription and assignment are shown of members
 * that speak HTTP.
 */
#include <stdlib.h>

#include "common/ipc.h"
#include "common/must.h"
#include "worker-http/admin.h"
#include "worker-http/pico_group.h"

/* ------------------------------------------------------------------ all of them */

struct listed {
	uint8_t *after;                 /* owned: id of the last one shown */
	size_t after_n;
	bool any;
};

static void listed_free(void *own)
{
	struct listed *l = own;
	free(l->after);
	free(l);
}

static void put_group(struct buf *out, const Ipc__GroupListAnswer__Group *g, bool first)
{
	buf_put_str(out, first ? "{\"group\":" : ",{\"group\":");
	admin_put_text(out, group_slice(g->group));
	buf_printf(out, ",\"state\":\"%s\"}", ipc_group_state_name(g->state));
}

static void list_page(struct request *r, const Ipc__GroupListAnswer *a)
{
	struct listed *l = ((struct group_request *)r->state)->own;
	struct buf *out = &r->answer.body;
	buf_reset(out, SIZE_MAX / 4);
	if (r->answer.status == 0) {
		answer_field(r, "Content-Type", "application/json");
		answer_begin_stream(r, 200, false, 0);
		buf_put_str(out, "{\"groups\":[");
	}
	for (size_t i = 0; i < a->n_group; i++) {
		put_group(out, a->group[i], !l->any);
		l->any = true;
	}
	bool ended = !a->has_more || a->n_group == 0;
	if (!ended) {
		struct slice last = group_slice(a->group[a->n_group - 1]->group);
		free(l->after);
		l->after = must_memdup(last.p, last.n);
		l->after_n = last.n;
	} else {
		buf_put_str(out, "]}\n");
	}
	answer_more(r, ended);
}

static void on_listed(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind == PICO_OK)
		list_page(r, (const Ipc__GroupListAnswer *)m);
	else if (r->answer.status == 0)
		group_is_good(r, error, IPC__GROUP_ERROR__NONE);
	else
		answer_break(r);
}

static void call_list(struct request *r)
{
	const struct listed *l = ((struct group_request *)r->state)->own;
	Ipc__GroupListRequest m = IPC__GROUP_LIST_REQUEST__INIT;
	m.after = (ProtobufCBinaryData){ .len = l->after_n, .data = l->after };
	m.limit = 1000;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_LIST, &m.base, slice_of(NULL, 0), m.deadline_ms, on_listed);
}

void group_list(struct request *r)
{
	struct group_request *g = r->state;
	g->own = must_calloc(1, sizeof(struct listed));
	g->own_free = listed_free;
	r->produce = call_list;
	call_list(r);
}

/* ------------------------------------------------------------------ one of them */

static void put_member(struct buf *out, const Ipc__GroupDescribeAnswer__Member *m, bool is_pico)
{
	buf_put_str(out, "{\"memberId\":");
	admin_put_text(out, group_slice(m->member_id));
	buf_put_str(out, ",\"instanceId\":");
	if (m->has_instance_id)
		admin_put_text(out, group_slice(m->instance_id));
	else
		buf_put_str(out, "null");
	buf_put_str(out, ",\"clientId\":");
	admin_put_text(out, group_slice(m->client_id));
	if (is_pico) {
		buf_put_str(out, ",\"subscription\":");
		group_put_array(out, m->metadata);
		buf_put_str(out, ",\"assignment\":");
		group_put_array(out, m->assignment);
	}
	buf_put_u8(out, '}');
}

static void put_described(struct buf *out, const struct group_request *g, const Ipc__GroupDescribeAnswer *a)
{
	struct slice type = group_slice(a->protocol_type);
	bool is_pico = slice_is(type, GROUP_PROTOCOL_TYPE);
	buf_put_str(out, "{\"group\":");
	admin_put_text(out, buf_slice(&g->group));
	buf_printf(out, ",\"state\":\"%s\",\"generation\":%d", ipc_group_state_name(a->state), a->generation);
	if (type.n > 0) {
		buf_put_str(out, ",\"protocolType\":");
		admin_put_text(out, type);
	}
	buf_put_str(out, ",\"members\":[");
	for (size_t i = 0; i < a->n_member; i++) {
		buf_put_str(out, i > 0 ? "," : "");
		put_member(out, a->member[i], is_pico);
	}
	buf_put_str(out, "]}\n");
}

static void on_described(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__GroupDescribeAnswer *a = (const Ipc__GroupDescribeAnswer *)m;
	Ipc__GroupError e = a != NULL ? a->error : IPC__GROUP_ERROR__NONE;
	if (a != NULL && e == IPC__GROUP_ERROR__NONE && a->state == IPC__GROUP_STATE__DEAD)
		e = IPC__GROUP_ERROR__GROUP_NOT_FOUND;
	if (!group_is_good(r, error, e))
		return;
	put_described(&r->answer.body, r->state, a);
	admin_answer(r);
}

void group_describe(struct request *r)
{
	const struct group_request *g = r->state;
	Ipc__GroupDescribeRequest m = IPC__GROUP_DESCRIBE_REQUEST__INIT;
	m.group = group_bytes(buf_slice(&g->group));
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_DESCRIBE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_described);
}
