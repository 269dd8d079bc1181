/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeGroups, versions 0 to 5: one group after the other. A group that is not there is described as Dead.
 *
 *   1 throttle time      3 operations that are allowed, where asked for      4 instance ids      5 flexible
 */
#include "worker-kafka/group.h"

static void describe_next(struct request *r);

static bool fill_members(struct request *r, const Ipc__GroupDescribeAnswer *a, struct kmsg_describe_groups_response_group *to)
{
	bool stable = a->state == IPC__GROUP_STATE__STABLE;
	to->members = KMSG_NEW(&r->region, describe_groups_response_member, a->n_member);
	if (to->members == NULL)
		return false;
	for (size_t i = 0; i < a->n_member; i++) {
		struct kmsg_describe_groups_response_member *m = &to->members[to->n_members++];
		m->member_id = group_copy(r, a->member[i]->member_id);
		if (a->member[i]->has_instance_id)
			m->group_instance_id = group_copy(r, a->member[i]->instance_id);
		m->client_id = group_copy(r, a->member[i]->client_id);
		m->client_host = group_copy(r, a->member[i]->client_host);
		m->member_metadata = stable ? group_copy(r, a->member[i]->metadata) : slice_str("");
		m->member_assignment = stable ? group_copy(r, a->member[i]->assignment) : slice_str("");
	}
	return true;
}

static void on_described(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
			 struct topics_pieces *pieces)
{
	const struct kmsg_describe_groups_request *q = r->message;
	struct kmsg_describe_groups_response *d = r->state;
	struct kmsg_describe_groups_response_group *to = &d->groups[d->n_groups++];
	const Ipc__GroupDescribeAnswer *a = (const Ipc__GroupDescribeAnswer *)m;
	to->error_code = (int16_t)group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	if (to->error_code == KAFKA_NONE) {
		to->group_state = slice_str(ipc_group_state_name(a->state));
		to->protocol_type = group_copy(r, a->protocol_type);
		to->protocol_data = a->state == IPC__GROUP_STATE__STABLE ? group_copy(r, a->protocol) : slice_str("");
		if (q->include_authorized_operations)
			to->authorized_operations = OPERATIONS_OF_GROUP;
		if (!fill_members(r, a, to)) {
			request_close(r, "memory");
			return;
		}
	}
	describe_next(r);
}

/* n_groups are done. */
static void describe_next(struct request *r)
{
	const struct kmsg_describe_groups_request *q = r->message;
	struct kmsg_describe_groups_response *d = r->state;
	Ipc__GroupDescribeRequest m = IPC__GROUP_DESCRIBE_REQUEST__INIT;
	if (d->n_groups == q->n_groups) {
		request_answer(r, d);
		return;
	}
	d->groups[d->n_groups].group_id = q->groups[d->n_groups];
	m.group = group_bytes(q->groups[d->n_groups]);
	request_call(r, IPC_GROUP_DESCRIBE, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_described);
}

void describe_groups_handle(struct request *r)
{
	const struct kmsg_describe_groups_request *q = r->message;
	struct kmsg_describe_groups_response *d = r->state = KMSG_NEW(&r->region, describe_groups_response, 1);
	if (d != NULL)
		d->groups = KMSG_NEW(&r->region, describe_groups_response_group, q->n_groups);
	if (d == NULL || d->groups == NULL)
		request_close(r, "memory");
	else
		describe_next(r);
}
