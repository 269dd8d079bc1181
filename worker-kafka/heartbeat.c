/* SPDX-License-Identifier: Apache-2.0
 *
 * Heartbeat, versions 0 to 4: 1 throttle time, 3 static members, 4 flexible.
 */
#include "worker-kafka/group.h"

static void on_beat(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer,
		    struct topics_pieces *pieces)
{
	const Ipc__GroupHeartbeatAnswer *a = (const Ipc__GroupHeartbeatAnswer *)answer;
	struct kmsg_heartbeat_response *m = KMSG_NEW(&r->region, heartbeat_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	request_answer(r, m);
}

void heartbeat_handle(struct request *r)
{
	const struct kmsg_heartbeat_request *q = r->message;
	Ipc__GroupHeartbeatRequest m = IPC__GROUP_HEARTBEAT_REQUEST__INIT;
	m.group = group_bytes(q->group_id);
	m.member_id = group_bytes(q->member_id);
	m.has_instance_id = q->group_instance_id.p != NULL;
	m.instance_id = group_bytes(q->group_instance_id);
	m.generation = q->generation_id;
	request_call(r, IPC_GROUP_HEARTBEAT, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_beat);
}
