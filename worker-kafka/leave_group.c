/* SPDX-License-Identifier: Apache-2.0
 *
 * LeaveGroup, versions 0 to 5.
 *
 *   1 throttle time      3 several members, also by instance id, each with its own error
 *   4 flexible           5 reasons, which are not kept
 */
#include "worker-kafka/group.h"

static bool fill_members(struct request *r, const Ipc__GroupLeaveAnswer *a, struct kmsg_leave_group_response *m)
{
	const struct kmsg_leave_group_request *q = r->message;
	const struct pico_error fine = { .kind = PICO_OK };
	m->members = KMSG_NEW(&r->region, leave_group_response_member, q->n_members);
	if (m->members == NULL)
		return false;
	for (uint32_t i = 0; i < q->n_members && i < a->n_member; i++) {
		struct kmsg_leave_group_response_member *to = &m->members[m->n_members++];
		to->member_id = q->members[i].member_id;
		to->group_instance_id = q->members[i].group_instance_id;
		to->error_code = (int16_t)group_error(r, &fine, a->member[i]);
	}
	return true;
}

static void on_left(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer,
		    struct topics_pieces *pieces)
{
	const Ipc__GroupLeaveAnswer *a = (const Ipc__GroupLeaveAnswer *)answer;
	struct kmsg_leave_group_response *m = KMSG_NEW(&r->region, leave_group_response, 1);
	enum kafka_error error = group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	bool one = r->head.api_version < 3;
	if (error == KAFKA_NONE && one && a->n_member > 0)
		error = group_error(r, e, a->member[0]);
	if (m == NULL || (error == KAFKA_NONE && !one && !fill_members(r, a, m))) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)error;
	request_answer(r, m);
}

static bool fill_request(struct request *r, Ipc__GroupLeaveRequest *m)
{
	const struct kmsg_leave_group_request *q = r->message;
	uint32_t n = r->head.api_version < 3 ? 1 : q->n_members;
	Ipc__GroupLeaveRequest__Member *to = REQUEST_NEW(r, Ipc__GroupLeaveRequest__Member, n);
	m->member = REQUEST_NEW(r, Ipc__GroupLeaveRequest__Member *, n);
	if (to == NULL || m->member == NULL)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		ipc__group_leave_request__member__init(&to[i]);
		m->member[m->n_member++] = &to[i];
		to[i].member_id = group_bytes(r->head.api_version < 3 ? q->member_id : q->members[i].member_id);
		if (r->head.api_version < 3 || q->members[i].group_instance_id.p == NULL)
			continue;
		to[i].has_instance_id = true;
		to[i].instance_id = group_bytes(q->members[i].group_instance_id);
	}
	return true;
}

void leave_group_handle(struct request *r)
{
	const struct kmsg_leave_group_request *q = r->message;
	Ipc__GroupLeaveRequest m = IPC__GROUP_LEAVE_REQUEST__INIT;
	if (!fill_request(r, &m)) {
		request_close(r, "memory");
		return;
	}
	m.group = group_bytes(q->group_id);
	request_call(r, IPC_GROUP_LEAVE, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_left);
}
