/* SPDX-License-Identifier: Apache-2.0
 *
 * JoinGroup, versions 0 to 9. It parks until the rebalance is over.
 *
 *   1 rebalance time-out beside the session's    6 flexible
 *   2 throttle time                              7 protocol type and a null protocol name in the answer
 *   4 a new member is told its id first          8 the reason, which is not kept
 *   5 static members                             9 a leader that may skip its assignment (KIP-814)
 */
#include "worker-kafka/group.h"

static void refuse(struct request *r, enum kafka_error error, struct slice id)
{
	const struct kmsg_join_group_request *q = r->message;
	struct kmsg_join_group_response *m = KMSG_NEW(&r->region, join_group_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)error;
	m->generation_id = -1;
	m->member_id = id.n > 0 ? id : q->member_id;
	request_answer(r, m);
}

static bool fill_members(struct request *r, const Ipc__GroupJoinAnswer *a, struct kmsg_join_group_response *m)
{
	m->members = KMSG_NEW(&r->region, join_group_response_member, a->n_member);
	if (m->members == NULL)
		return false;
	for (size_t i = 0; i < a->n_member; i++) {
		struct kmsg_join_group_response_member *to = &m->members[m->n_members++];
		to->member_id = group_copy(r, a->member[i]->member_id);
		to->metadata = group_copy(r, a->member[i]->metadata);
		if (a->member[i]->has_instance_id)
			to->group_instance_id = group_copy(r, a->member[i]->instance_id);
	}
	return true;
}

static void on_joined(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer,
		      struct topics_pieces *pieces)
{
	const Ipc__GroupJoinAnswer *a = (const Ipc__GroupJoinAnswer *)answer;
	enum kafka_error error = group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	if (error != KAFKA_NONE) {
		refuse(r, error, a != NULL ? group_copy(r, a->member_id) : slice_of(NULL, 0));
		return;
	}
	struct kmsg_join_group_response *m = KMSG_NEW(&r->region, join_group_response, 1);
	if (m == NULL || !fill_members(r, a, m)) {
		request_close(r, "memory");
		return;
	}
	m->generation_id = a->generation;
	m->protocol_type = group_copy(r, a->protocol_type);
	m->protocol_name = group_copy(r, a->protocol);
	m->leader = group_copy(r, a->leader);
	m->skip_assignment = a->skip_assignment;
	m->member_id = group_copy(r, a->member_id);
	request_answer(r, m);
}

static bool fill_protocols(struct request *r, Ipc__GroupJoinRequest *m)
{
	const struct kmsg_join_group_request *q = r->message;
	Ipc__GroupProtocol *p = REQUEST_NEW(r, Ipc__GroupProtocol, q->n_protocols);
	m->protocol = REQUEST_NEW(r, Ipc__GroupProtocol *, q->n_protocols);
	if (p == NULL || m->protocol == NULL)
		return false;
	for (uint32_t i = 0; i < q->n_protocols; i++) {
		ipc__group_protocol__init(&p[i]);
		p[i].name = group_bytes(q->protocols[i].name);
		p[i].metadata = group_bytes(q->protocols[i].metadata);
		m->protocol[m->n_protocol++] = &p[i];
	}
	return true;
}

void join_group_handle(struct request *r)
{
	const struct kmsg_join_group_request *q = r->message;
	Ipc__GroupJoinRequest m = IPC__GROUP_JOIN_REQUEST__INIT;
	if (!fill_protocols(r, &m)) {
		request_close(r, "memory");
		return;
	}
	m.group = group_bytes(q->group_id);
	m.member_id = group_bytes(q->member_id);
	m.has_instance_id = q->group_instance_id.p != NULL;
	m.instance_id = group_bytes(q->group_instance_id);
	m.client_id = group_bytes(r->head.client_id);
	m.client_host = group_bytes(group_client_host(r));
	m.protocol_type = group_bytes(q->protocol_type);
	m.session_timeout_ms = q->session_timeout_ms;
	m.rebalance_timeout_ms = q->rebalance_timeout_ms;
	m.needs_member_id = r->head.api_version >= 4;
	m.may_skip_assignment = r->head.api_version >= 9;
	request_call(r, IPC_GROUP_JOIN, &m.base, NO_PAYLOAD, env_now_ms(r->server->env) + GROUP_PARK_MS, on_joined);
}

void join_group_drain(struct request *r)
{
	group_unpark(r);
	refuse(r, KAFKA_COORDINATOR_NOT_AVAILABLE, slice_of(NULL, 0));
}
