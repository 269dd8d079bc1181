/* SPDX-License-Identifier: Apache-2.0
 *
 * OffsetDelete, version 0 (KIP-496): offsets of topics that no member of the group reads.
 */
#include "worker-kafka/group.h"

struct delete {
	struct kmsg_offset_delete_response *response;
	struct topic_want *want;
	struct kmsg_offset_delete_response_partition **asked;
	size_t n, n_asked;
};

static void on_deleted(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct delete *d = r->state;
	const Ipc__GroupOffsetDeleteAnswer *a = (const Ipc__GroupOffsetDeleteAnswer *)m;
	d->response->error_code = (int16_t)group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	if (d->response->error_code != KAFKA_NONE)
		d->response->n_topics = 0;
	for (size_t i = 0; a != NULL && i < d->n_asked && i < a->n_part; i++)
		d->asked[i]->error_code = (int16_t)group_error(r, e, a->part[i]);
	request_answer(r, d->response);
}

static bool fill_parts(struct request *r, Ipc__GroupOffsetDeleteRequest *m)
{
	struct delete *d = r->state;
	Ipc__GroupOffsetDeleteRequest__Part *part = REQUEST_NEW(r, Ipc__GroupOffsetDeleteRequest__Part, d->n);
	m->part = REQUEST_NEW(r, Ipc__GroupOffsetDeleteRequest__Part *, d->n);
	d->asked = REQUEST_NEW(r, struct kmsg_offset_delete_response_partition *, d->n);
	if (part == NULL || m->part == NULL || d->asked == NULL)
		return false;
	for (uint32_t t = 0; t < d->response->n_topics; t++) {
		const struct topic_want *want = &d->want[t];
		for (uint32_t i = 0; i < d->response->topics[t].n_partitions; i++) {
			struct kmsg_offset_delete_response_partition *out = &d->response->topics[t].partitions[i];
			if (want->info == NULL || out->partition_index < 0) {
				out->error_code = (int16_t)(want->info == NULL ? error_of(r, want->kind, ERROR_OF_GROUPS)
								: KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
				continue;
			}
			ipc__group_offset_delete_request__part__init(&part[m->n_part]);
			part[m->n_part].topic_id = group_bytes(slice_of(want->info->id, sizeof(want->info->id)));
			part[m->n_part].partition = (uint32_t)out->partition_index;
			m->part[m->n_part] = &part[m->n_part];
			d->asked[m->n_part++] = out;
		}
	}
	d->n_asked = m->n_part;
	return true;
}

/* The group's own error comes first, so it is asked even if no topic is known. */
static void delete_ask(struct request *r)
{
	const struct kmsg_offset_delete_request *q = r->message;
	Ipc__GroupOffsetDeleteRequest m = IPC__GROUP_OFFSET_DELETE_REQUEST__INIT;
	if (!fill_parts(r, &m)) {
		request_close(r, "memory");
		return;
	}
	m.group = group_bytes(q->group_id);
	request_call(r, IPC_GROUP_OFFSET_DELETE, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_deleted);
}

static bool delete_begin(struct request *r)
{
	const struct kmsg_offset_delete_request *q = r->message;
	struct delete *d = r->state = REQUEST_NEW(r, struct delete, 1);
	if (d == NULL)
		return false;
	d->response = KMSG_NEW(&r->region, offset_delete_response, 1);
	d->want = REQUEST_NEW(r, struct topic_want, q->n_topics);
	struct kmsg_offset_delete_response_topic *to = KMSG_NEW(&r->region, offset_delete_response_topic, q->n_topics);
	if (d->response == NULL || d->want == NULL || to == NULL)
		return false;
	d->response->topics = to;
	d->response->n_topics = q->n_topics;
	for (uint32_t t = 0; t < q->n_topics; t++) {
		to[t].name = d->want[t].name = q->topics[t].name;
		to[t].n_partitions = q->topics[t].n_partitions;
		to[t].partitions = KMSG_NEW(&r->region, offset_delete_response_partition, to[t].n_partitions);
		if (to[t].partitions == NULL)
			return false;
		for (uint32_t i = 0; i < to[t].n_partitions; i++)
			to[t].partitions[i].partition_index = q->topics[t].partitions[i].partition_index;
		d->n += to[t].n_partitions;
	}
	return true;
}

void offset_delete_handle(struct request *r)
{
	const struct kmsg_offset_delete_request *q = r->message;
	if (delete_begin(r))
		topic_cache_resolve_anew(r, ((struct delete *)r->state)->want, q->n_topics, delete_ask);
	else
		request_close(r, "memory");
}
