/* SPDX-License-Identifier: Apache-2.0
 *
 * What members ask of their group: join, sync, heartbeat, leave. A join or a sync parks in the group until it has its
 * answer; it comes out of whatever event brings that about.
 */
#include <stdio.h>
#include <stdlib.h>

#include "storaged/coordinator.h"

static struct slice bytes_of(ProtobufCBinaryData b)
{
	return slice_of(b.data != NULL ? b.data : (const uint8_t *)"", b.len);
}

/* p NULL: it is not there. */
static struct slice optional_of(bool has, ProtobufCBinaryData b)
{
	return has ? bytes_of(b) : slice_of(NULL, 0);
}

static ProtobufCBinaryData data_of(struct slice s)
{
	return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)(uintptr_t)s.p };
}

static uint64_t now_of(const struct op *op)
{
	return env_now_ms(op->node->env);
}

/* The group has it from now on. */
static void park(struct op *op, struct group_entry *entry)
{
	((struct group_call *)op->own)->entry = entry;
}

/* ------------------------------------------------------------------------ join */

static void answer_members(const struct group *g, Ipc__GroupJoinAnswer *m)
{
	const struct group_member *x;
	size_t n = 0;
	for (x = group_member_next(g, NULL); x != NULL; x = group_member_next(g, x))
		n++;
	m->member = must_calloc(n, sizeof(*m->member));
	Ipc__GroupJoinAnswer__Member *one = must_calloc(n, sizeof(*one));
	for (x = group_member_next(g, NULL); x != NULL; x = group_member_next(g, x), one++) {
		ipc__group_join_answer__member__init(one);
		one->member_id = data_of(member_id(x));
		one->has_instance_id = member_instance_id(x).p != NULL;
		one->instance_id = data_of(member_instance_id(x));
		one->metadata = data_of(member_metadata(g, x));
		m->member[m->n_member++] = one;
	}
}

static void answer_join(struct op *op, const struct group *g, const struct group_answer *a)
{
	Ipc__GroupJoinAnswer m = IPC__GROUP_JOIN_ANSWER__INIT;
	m.error = a->error;
	m.member_id = data_of(a->member_id);
	if (a->error == IPC__GROUP_ERROR__NONE) {
		m.generation = group_generation(g);
		m.protocol_type = data_of(group_protocol_type(g));
		m.protocol = data_of(group_protocol(g));
		m.leader = data_of(a->leader);
		m.skip_assignment = a->skip_assignment;
	}
	if (a->is_leader)
		answer_members(g, &m);
	op_answer(op, &m.base);
	if (a->is_leader)
		free(m.member[0]);
	free(m.member);
}

static void answer_sync(struct op *op, const struct group *g, const struct group_answer *a)
{
	Ipc__GroupSyncAnswer m = IPC__GROUP_SYNC_ANSWER__INIT;
	m.error = a->error;
	if (a->error == IPC__GROUP_ERROR__NONE) {
		m.protocol_type = data_of(group_protocol_type(g));
		m.protocol = data_of(group_protocol(g));
		m.assignment = data_of(a->assignment);
	}
	op_answer(op, &m.base);
}

void group_call_answer(struct group_entry *entry, const struct group_answer *a)
{
	struct op *op = a->waiter;
	must(op->magic == OP_MAGIC && op->call != NULL);
	((struct group_call *)op->own)->entry = NULL;
	if (a->of_sync)
		answer_sync(op, entry->group, a);
	else
		answer_join(op, entry->group, a);
}

static struct group_protocol *protocols_of(const Ipc__GroupJoinRequest *r)
{
	struct group_protocol *p = must_calloc(r->n_protocol, sizeof(*p));
	for (size_t i = 0; i < r->n_protocol; i++) {
		p[i].name = bytes_of(r->protocol[i]->name);
		p[i].metadata = bytes_of(r->protocol[i]->metadata);
	}
	return p;
}

static void random_id(struct env *env, char ret_hex[33])
{
	uint8_t b[16];
	env_random(env, b, sizeof(b));
	for (int i = 0; i < 16; i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", b[i]);
}

static void run_join(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupJoinRequest *r = (const Ipc__GroupJoinRequest *)op->call->request;
	char id[33];
	if (entry == NULL) {
		group_call_refuse(op, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
		return;
	}
	random_id(op->node->env, id);
	struct group_protocol *protocols = protocols_of(r);
	struct group_join j = {
		.member_id = bytes_of(r->member_id),
		.instance_id = optional_of(r->has_instance_id, r->instance_id),
		.client_id = bytes_of(r->client_id),
		.client_host = bytes_of(r->client_host),
		.protocol_type = bytes_of(r->protocol_type),
		.protocol = protocols,
		.n_protocols = r->n_protocol,
		.session_ms = r->session_timeout_ms,
		.rebalance_ms = r->rebalance_timeout_ms,
		.needs_member_id = r->needs_member_id,
		.may_skip_assignment = r->may_skip_assignment,
		.new_id = id,
		.waiter = op,
	};
	park(op, entry);
	group_join(entry->group, &j, now_of(op));
	free(protocols);
	group_entry_after(entry);
}

/* A member of a group that is not there is none. */
void handle_group_join(struct node *n, struct call *c)
{
	const Ipc__GroupJoinRequest *r = (const Ipc__GroupJoinRequest *)c->request;
	group_call_start(n, c, r->group, r->member_id.len == 0, run_join);
}

/* ------------------------------------------------------------------------ sync */

static struct group_assignment *assignments_of(const Ipc__GroupSyncRequest *r)
{
	struct group_assignment *a = must_calloc(r->n_assignment, sizeof(*a));
	for (size_t i = 0; i < r->n_assignment; i++) {
		a[i].member_id = bytes_of(r->assignment[i]->member_id);
		a[i].assignment = bytes_of(r->assignment[i]->assignment);
	}
	return a;
}

static void run_sync(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupSyncRequest *r = (const Ipc__GroupSyncRequest *)op->call->request;
	if (entry == NULL) {
		group_call_refuse(op, IPC__GROUP_ERROR__UNKNOWN_MEMBER);
		return;
	}
	struct group_assignment *assignments = assignments_of(r);
	struct group_sync s = {
		.caller = { bytes_of(r->member_id), optional_of(r->has_instance_id, r->instance_id), r->generation },
		.protocol_type = optional_of(r->has_protocol_type, r->protocol_type),
		.protocol = optional_of(r->has_protocol, r->protocol),
		.assignment = assignments,
		.n_assignments = r->n_assignment,
		.waiter = op,
	};
	park(op, entry);
	group_sync(entry->group, &s, now_of(op));
	free(assignments);
	group_entry_after(entry);
}

void handle_group_sync(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupSyncRequest *)c->request)->group, false, run_sync);
}

/* ------------------------------------------------------------------- heartbeat */

static void run_heartbeat(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupHeartbeatRequest *r = (const Ipc__GroupHeartbeatRequest *)op->call->request;
	struct group_caller caller = { bytes_of(r->member_id), optional_of(r->has_instance_id, r->instance_id), r->generation };
	group_call_refuse(op, entry == NULL ? IPC__GROUP_ERROR__UNKNOWN_MEMBER
					    : group_heartbeat(entry->group, &caller, now_of(op)));
}

void handle_group_heartbeat(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupHeartbeatRequest *)c->request)->group, false, run_heartbeat);
}

/* ----------------------------------------------------------------------- leave */

static Ipc__GroupError leave_one(struct op *op, struct group_entry *entry, const Ipc__GroupLeaveRequest__Member *m)
{
	struct group_caller caller = { bytes_of(m->member_id), optional_of(m->has_instance_id, m->instance_id), -1 };
	if (entry == NULL)
		return IPC__GROUP_ERROR__UNKNOWN_MEMBER;
	Ipc__GroupError e = group_leave(entry->group, &caller, now_of(op));
	group_entry_after(entry);
	return e;
}

static void run_leave(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupLeaveRequest *r = (const Ipc__GroupLeaveRequest *)op->call->request;
	Ipc__GroupLeaveAnswer a = IPC__GROUP_LEAVE_ANSWER__INIT;
	a.member = must_calloc(r->n_member, sizeof(*a.member));
	for (size_t i = 0; i < r->n_member; i++)
		a.member[a.n_member++] = leave_one(op, entry, r->member[i]);
	op_answer(op, &a.base);
	free(a.member);
}

void handle_group_leave(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupLeaveRequest *)c->request)->group, false, run_leave);
}
