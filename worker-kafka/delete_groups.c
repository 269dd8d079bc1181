/* SPDX-License-Identifier: Apache-2.0
 *
 * DeleteGroups, versions 0 to 2 (2 is flexible): one group after the other.
 */
#include "worker-kafka/group.h"

static void delete_next(struct request *r);

static void on_deleted(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct kmsg_delete_groups_response *d = r->state;
	const Ipc__GroupDeleteAnswer *a = (const Ipc__GroupDeleteAnswer *)m;
	d->results[d->n_results++].error_code = (int16_t)group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	delete_next(r);
}

/* n_results are done. */
static void delete_next(struct request *r)
{
	const struct kmsg_delete_groups_request *q = r->message;
	struct kmsg_delete_groups_response *d = r->state;
	Ipc__GroupDeleteRequest m = IPC__GROUP_DELETE_REQUEST__INIT;
	if (d->n_results == q->n_groups_names) {
		request_answer(r, d);
		return;
	}
	d->results[d->n_results].group_id = q->groups_names[d->n_results];
	m.group = group_bytes(q->groups_names[d->n_results]);
	request_call(r, IPC_GROUP_DELETE, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_deleted);
}

void delete_groups_handle(struct request *r)
{
	const struct kmsg_delete_groups_request *q = r->message;
	struct kmsg_delete_groups_response *d = r->state = KMSG_NEW(&r->region, delete_groups_response, 1);
	if (d != NULL)
		d->results = KMSG_NEW(&r->region, delete_groups_response_group, q->n_groups_names);
	if (d == NULL || d->results == NULL)
		request_close(r, "memory");
	else
		delete_next(r);
}
