/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of a consumer group: join, sync, heartbeat, leave.
 *
 *   join    JOIN, which parks until the rebalance is over. Then SYNC: the leader's with everybody's assignment, the others'
 *           park until that has come. A rebalance that begins meanwhile starts it again with the id that it has
 *   sync    SYNC. Where the leader's worker died between the two, it works the assignment out from what DESCRIBE
 *           says; the coordinator takes it from the leader alone, and of that generation alone
 *
 * Nobody but the leader is told of the other members, so that a group of many is not told of all to all.
 */
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/admin.h"
#include "worker-http/assign.h"
#include "worker-http/pico_group.h"
#include "worker-http/server.h"

#define PARK_MS 86400000u               /* a join ends with its rebalance, not by a deadline of its own */
#define CLIENT_DEFAULT "pico"

/* Assignments on their way to the coordinator. */
struct dealt {
	struct assign_member *member;
	size_t n;
};

static void call_join(struct request *r);

/* ------------------------------------------------------------------ answers */

static void put_id(struct buf *out, const char *begin, const struct buf *id)
{
	buf_put_str(out, begin);
	admin_put_text(out, buf_slice(id));
}

static void answer_assignment(struct request *r, const Ipc__GroupSyncAnswer *a)
{
	struct group_request *g = r->state;
	struct buf *out = &r->answer.body;
	buf_printf(out, "{\"generation\":%d,\"assignment\":", g->generation);
	group_put_array(out, a->assignment);
	if (g->joins) {
		put_id(out, ",\"memberId\":", &g->member);
		buf_put_str(out, ",\"members\":[");
		buf_put_slice(out, buf_slice(&g->members));
		buf_put_u8(out, ']');
	}
	buf_put_str(out, "}\n");
	g->untold = false;
	admin_answer(r);
}

/* Any member is told its assignment by the next join. */
static void on_drain(struct request *r)
{
	if (r->call != NULL)
		topics_abandon(r->call);
	r->call = NULL;
	answer_error(r, 503, "coordinator_unavailable", "the process is about to end; join again", NULL);
}

/* ------------------------------------------------------------------ sync */

static void on_synced(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const struct group_request *g = r->state;
	const Ipc__GroupSyncAnswer *a = (const Ipc__GroupSyncAnswer *)m;
	r->call = NULL;
	r->on_drain = NULL;
	if (error->kind == PICO_OK && a->error == IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS && g->joins)
		call_join(r);
	else if (group_is_good(r, error, a != NULL ? a->error : IPC__GROUP_ERROR__NONE))
		answer_assignment(r, a);
}

static void fill_assignments(const struct dealt *dealt, Ipc__GroupSyncRequest *m)
{
	Ipc__GroupSyncRequest__Assignment *one = must_calloc(dealt->n + 1, sizeof(*one));
	m->assignment = must_calloc(dealt->n + 1, sizeof(*m->assignment));
	m->assignment[0] = one;
	for (size_t i = 0; i < dealt->n; i++, one++) {
		ipc__group_sync_request__assignment__init(one);
		one->member_id = group_bytes(dealt->member[i].id);
		one->assignment = group_bytes(buf_slice(&dealt->member[i].assignment));
		m->assignment[m->n_assignment++] = one;
	}
}

/* Empties dealt. */
static void call_sync(struct request *r, struct dealt *dealt)
{
	struct group_request *g = r->state;
	Ipc__GroupSyncRequest m = IPC__GROUP_SYNC_REQUEST__INIT;
	m.group = group_bytes(buf_slice(&g->group));
	m.member_id = group_bytes(buf_slice(&g->member));
	m.has_instance_id = (g->given & GROUP_INSTANCE_ID) != 0;
	m.instance_id = group_bytes(buf_slice(&g->instance));
	m.generation = g->generation;
	m.has_protocol_type = m.has_protocol = true;
	m.protocol_type = group_bytes(slice_str(GROUP_PROTOCOL_TYPE));
	m.protocol = group_bytes(slice_str(GROUP_PROTOCOL));
	fill_assignments(dealt, &m);
	m.deadline_ms = env_now_ms(r->server->env) + PARK_MS;
	r->on_drain = on_drain;
	request_call(r, IPC_GROUP_SYNC, &m.base, slice_of(NULL, 0), m.deadline_ms, on_synced);
	free(m.assignment[0]);
	free(m.assignment);
	for (size_t i = 0; i < dealt->n; i++)
		buf_done(&dealt->member[i].assignment);
	free(dealt->member);
}

/* ------------------------------------------------------------------ join */

/* As the answer shows them. */
static void print_members(struct buf *out, const struct dealt *dealt)
{
	buf_reset(out, 0);
	for (size_t i = 0; i < dealt->n; i++) {
		const struct assign_member *m = &dealt->member[i];
		buf_put_str(out, i > 0 ? ",{\"memberId\":" : "{\"memberId\":");
		admin_put_text(out, m->id);
		buf_put_str(out, ",\"subscription\":");
		group_put_array(out, group_bytes(m->subscription));
		buf_put_str(out, ",\"assignment\":");
		buf_put_slice(out, buf_slice(&m->assignment));
		buf_put_u8(out, '}');
	}
}

static void on_joined(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct group_request *g = r->state;
	const Ipc__GroupJoinAnswer *a = (const Ipc__GroupJoinAnswer *)m;
	if (!group_is_good(r, error, a != NULL ? a->error : IPC__GROUP_ERROR__NONE))
		return;
	if (buf_len(&g->member) == 0)
		g->untold = true;
	buf_reset(&g->member, a->member_id.len);
	buf_put_slice(&g->member, group_slice(a->member_id));
	g->generation = a->generation;
	struct dealt dealt = { must_calloc(a->n_member + 1, sizeof(*dealt.member)), a->n_member };
	for (size_t i = 0; i < dealt.n; i++) {
		dealt.member[i].id = group_slice(a->member[i]->member_id);
		dealt.member[i].subscription = group_slice(a->member[i]->metadata);
	}
	assign_streams(dealt.member, dealt.n);
	print_members(&g->members, &dealt);
	call_sync(r, &dealt);
}

static void call_join(struct request *r)
{
	struct group_request *g = r->state;
	Ipc__GroupJoinRequest m = IPC__GROUP_JOIN_REQUEST__INIT;
	Ipc__GroupProtocol protocol = IPC__GROUP_PROTOCOL__INIT, *list = &protocol;
	bool has_client = (g->given & GROUP_CLIENT_ID) != 0;
	protocol.name = group_bytes(slice_str(GROUP_PROTOCOL));
	protocol.metadata = group_bytes(buf_slice(&g->names));
	m.group = group_bytes(buf_slice(&g->group));
	m.member_id = group_bytes(buf_slice(&g->member));
	m.has_instance_id = (g->given & GROUP_INSTANCE_ID) != 0;
	m.instance_id = group_bytes(buf_slice(&g->instance));
	m.client_id = group_bytes(has_client ? buf_slice(&g->client) : slice_str(CLIENT_DEFAULT));
	m.protocol_type = group_bytes(slice_str(GROUP_PROTOCOL_TYPE));
	m.protocol = &list;
	m.n_protocol = 1;
	m.session_timeout_ms = g->session_ms;
	m.rebalance_timeout_ms = g->rebalance_ms;
	m.deadline_ms = env_now_ms(r->server->env) + PARK_MS;
	r->on_drain = on_drain;
	request_call(r, IPC_GROUP_JOIN, &m.base, slice_of(NULL, 0), m.deadline_ms, on_joined);
}

/* False when refused (answered). */
static bool take_subscription(struct request *r)
{
	struct group_request *g = r->state;
	struct json_scan j;
	struct buf name;
	const char *fault = assign_normalize(g->subscription, &g->names) ? NULL : "it is an array of strings";
	buf_init(&name, SIZE_MAX / 4);
	json_scan_init(&j, buf_slice(&g->names));
	json_next(&j);
	for (size_t n = 0; fault == NULL && json_next(&j) == JSON_STRING; n++) {
		buf_reset(&name, SIZE_MAX / 4);
		json_string(j.span, &name);
		fault = n == GROUP_LIST_MAX ? "at most 10000 streams" : topic_path_fault(buf_slice(&name));
	}
	buf_done(&name);
	if (fault != NULL)
		answer_bad_request(r, "subscription: %s", fault);
	return fault == NULL;
}

void group_join(struct request *r)
{
	struct group_request *g = r->state;
	g->joins = true;
	if (group_take_body(r, GROUP_MEMBER_ID | GROUP_INSTANCE_ID | GROUP_CLIENT_ID | GROUP_SESSION | GROUP_REBALANCE |
			    GROUP_SUBSCRIPTION, GROUP_SUBSCRIPTION) && take_subscription(r))
		call_join(r);
}

/* ------------------------------------------------------------------ GET of a member */

/* What a sync would be refused for, where it could do harm to ask: of a generation that is not there yet. */
static Ipc__GroupError sync_fault(const struct group_request *g, const Ipc__GroupDescribeAnswer *a)
{
	size_t i = 0;
	if (a->state == IPC__GROUP_STATE__STABLE)
		return IPC__GROUP_ERROR__NONE;
	while (i < a->n_member && !slice_eq(group_slice(a->member[i]->member_id), buf_slice(&g->member)))
		i++;
	if (i == a->n_member)
		return IPC__GROUP_ERROR__UNKNOWN_MEMBER;
	if (a->generation != g->generation)
		return IPC__GROUP_ERROR__ILLEGAL_GENERATION;
	return a->state == IPC__GROUP_STATE__COMPLETING_REBALANCE ? IPC__GROUP_ERROR__NONE
								  : IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS;
}

static void on_described(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const struct group_request *g = r->state;
	const Ipc__GroupDescribeAnswer *a = (const Ipc__GroupDescribeAnswer *)m;
	Ipc__GroupError e = a == NULL ? IPC__GROUP_ERROR__NONE : a->error != IPC__GROUP_ERROR__NONE ? a->error : sync_fault(g, a);
	if (!group_is_good(r, error, e))
		return;
	bool waits = a->state == IPC__GROUP_STATE__COMPLETING_REBALANCE;
	struct dealt dealt = { must_calloc(a->n_member + 1, sizeof(*dealt.member)), waits ? a->n_member : 0 };
	for (size_t i = 0; i < dealt.n; i++) {
		dealt.member[i].id = group_slice(a->member[i]->member_id);
		dealt.member[i].subscription = group_slice(a->member[i]->metadata);
	}
	assign_streams(dealt.member, dealt.n);
	call_sync(r, &dealt);
}

void group_sync(struct request *r)
{
	struct group_request *g = r->state;
	Ipc__GroupDescribeRequest m = IPC__GROUP_DESCRIBE_REQUEST__INIT;
	if (!group_take_query(r, true))
		return;
	m.group = group_bytes(buf_slice(&g->group));
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_DESCRIBE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_described);
}

/* ------------------------------------------------------------------ heartbeat, leave */

static void on_beaten(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	if (group_is_good(r, error, m != NULL ? ((const Ipc__GroupHeartbeatAnswer *)m)->error : IPC__GROUP_ERROR__NONE))
		answer_send_empty(r, 204);
}

void group_heartbeat(struct request *r)
{
	struct group_request *g = r->state;
	Ipc__GroupHeartbeatRequest m = IPC__GROUP_HEARTBEAT_REQUEST__INIT;
	if (!group_take_body(r, GROUP_GENERATION | GROUP_INSTANCE_ID, GROUP_GENERATION))
		return;
	m.group = group_bytes(buf_slice(&g->group));
	m.member_id = group_bytes(buf_slice(&g->member));
	m.has_instance_id = (g->given & GROUP_INSTANCE_ID) != 0;
	m.instance_id = group_bytes(buf_slice(&g->instance));
	m.generation = g->generation;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_HEARTBEAT, &m.base, slice_of(NULL, 0), m.deadline_ms, on_beaten);
}

static void on_left(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__GroupLeaveAnswer *a = (const Ipc__GroupLeaveAnswer *)m;
	Ipc__GroupError e = a != NULL ? a->error : IPC__GROUP_ERROR__NONE;
	if (a != NULL && e == IPC__GROUP_ERROR__NONE && a->n_member == 1)
		e = a->member[0];
	if (group_is_good(r, error, e))
		answer_send_empty(r, 204);
}

struct leave {
	Ipc__GroupLeaveRequest m;
	Ipc__GroupLeaveRequest__Member one, *list;
};

static void fill_leave(struct leave *l, const struct group_request *g)
{
	*l = (struct leave){ .m = IPC__GROUP_LEAVE_REQUEST__INIT, .one = IPC__GROUP_LEAVE_REQUEST__MEMBER__INIT };
	l->list = &l->one;
	l->one.member_id = group_bytes(buf_slice(&g->member));
	l->one.has_instance_id = (g->given & GROUP_INSTANCE_ID) != 0;
	l->one.instance_id = group_bytes(buf_slice(&g->instance));
	l->m.group = group_bytes(buf_slice(&g->group));
	l->m.member = &l->list;
	l->m.n_member = 1;
	l->m.deadline_ms = request_deadline(g->request);
}

void group_leave(struct request *r)
{
	struct leave l;
	if (!group_take_query(r, false))
		return;
	fill_leave(&l, r->state);
	request_call(r, IPC_GROUP_LEAVE, &l.m.base, slice_of(NULL, 0), l.m.deadline_ms, on_left);
}

static void on_forgotten(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
}

void group_forget_untold(struct group_request *g)
{
	struct leave l;
	if (!g->untold)
		return;
	fill_leave(&l, g);
	topics_call(g->request->server->topics, IPC_GROUP_LEAVE, &l.m.base, slice_of(NULL, 0), l.m.deadline_ms, on_forgotten, NULL);
}
