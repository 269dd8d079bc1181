/* SPDX-License-Identifier: Apache-2.0
 *
 * SyncGroup, versions 0 to 5. It parks until the leader's assignments have come.
 *
 *   1 throttle time      3 static members      4 flexible      5 protocol type and name, checked and answered
 */
#include "worker-kafka/group.h"

static void answer(struct request *r, enum kafka_error error, const Ipc__GroupSyncAnswer *a)
{
	struct kmsg_sync_group_response *m = KMSG_NEW(&r->region, sync_group_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)error;
	m->assignment = slice_str("");
	if (a != NULL && error == KAFKA_NONE) {
		m->protocol_type = group_copy(r, a->protocol_type);
		m->protocol_name = group_copy(r, a->protocol);
		m->assignment = group_copy(r, a->assignment);
	}
	request_answer(r, m);
}

static void on_synced(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	const Ipc__GroupSyncAnswer *a = (const Ipc__GroupSyncAnswer *)m;
	answer(r, group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE), a);
}

static bool fill_assignments(struct request *r, Ipc__GroupSyncRequest *m)
{
	const struct kmsg_sync_group_request *q = r->message;
	Ipc__GroupSyncRequest__Assignment *a = REQUEST_NEW(r, Ipc__GroupSyncRequest__Assignment, q->n_assignments);
	m->assignment = REQUEST_NEW(r, Ipc__GroupSyncRequest__Assignment *, q->n_assignments);
	if (a == NULL || m->assignment == NULL)
		return false;
	for (uint32_t i = 0; i < q->n_assignments; i++) {
		ipc__group_sync_request__assignment__init(&a[i]);
		a[i].member_id = group_bytes(q->assignments[i].member_id);
		a[i].assignment = group_bytes(q->assignments[i].assignment);
		m->assignment[m->n_assignment++] = &a[i];
	}
	return true;
}

void sync_group_handle(struct request *r)
{
	const struct kmsg_sync_group_request *q = r->message;
	Ipc__GroupSyncRequest m = IPC__GROUP_SYNC_REQUEST__INIT;
	if (!fill_assignments(r, &m)) {
		request_close(r, "memory");
		return;
	}
	m.group = group_bytes(q->group_id);
	m.member_id = group_bytes(q->member_id);
	m.has_instance_id = q->group_instance_id.p != NULL;
	m.instance_id = group_bytes(q->group_instance_id);
	m.generation = q->generation_id;
	m.has_protocol_type = q->protocol_type.p != NULL;
	m.protocol_type = group_bytes(q->protocol_type);
	m.has_protocol = q->protocol_name.p != NULL;
	m.protocol = group_bytes(q->protocol_name);
	request_call(r, IPC_GROUP_SYNC, &m.base, NO_PAYLOAD, env_now_ms(r->server->env) + GROUP_PARK_MS, on_synced);
}

void sync_group_drain(struct request *r)
{
	group_unpark(r);
	answer(r, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
}
