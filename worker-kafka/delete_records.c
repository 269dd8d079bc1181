/* SPDX-License-Identifier: Apache-2.0
 *
 * DeleteRecords, versions 0 to 2 (2: compact): partitions begin later, at an offset or (-1) at the high watermark. All
 * of a request are one change of metadata, answered when it is applied. Each partition has an error of its own.
 */
#include "worker-kafka/api.h"

#define AT_THE_END (-1)

struct part {
	struct kmsg_delete_records_response_partition *out;
	const struct kmsg_delete_records_request_partition *in;
	const struct topic_want *want;
};

struct delete {
	struct kmsg_delete_records_response *response;
	struct topic_want *want;
	struct part *parts;
	size_t n_parts;
	size_t *asked;
	size_t n_asked;
};

/* ------------------------------------------------------------------ answer */

static void on_deleted(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	const struct delete *d = r->state;
	const Ipc__DeleteRecordsAnswer *a = (const Ipc__DeleteRecordsAnswer *)m;
	for (size_t i = 0; i < d->n_asked; i++) {
		struct kmsg_delete_records_response_partition *out = d->parts[d->asked[i]].out;
		const Ipc__DeleteRecordsAnswer__Part *part = a != NULL && i < a->n_part ? a->part[i] : NULL;
		if (part != NULL && part->error == NULL)
			out->low_watermark = (int64_t)part->start;
		else
			out->error_code = (int16_t)error_of(r, part != NULL ? (enum pico_error_kind)part->error->kind
				: e->kind != PICO_OK ? e->kind : PICO_UNAVAILABLE, ERROR_OF_TOPICS);
	}
	request_answer(r, d->response);
}

/* ------------------------------------------------------------------ question */

static enum kafka_error part_error(struct request *r, const struct part *p)
{
	if (p->want->info == NULL)
		return error_of(r, p->want->kind, ERROR_OF_TOPICS);
	if (p->in->partition_index < 0 || (uint32_t)p->in->partition_index >= p->want->info->n_partitions)
		return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	return p->in->offset < AT_THE_END ? KAFKA_OFFSET_OUT_OF_RANGE : KAFKA_NONE;
}

static void fill_part(const struct part *p, Ipc__DeleteRecordsRequest__Part *to)
{
	ipc__delete_records_request__part__init(to);
	to->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)p->want->info->id };
	to->partition = (uint32_t)p->in->partition_index;
	to->offset = p->in->offset;
}

static void delete_ask(struct request *r)
{
	const struct kmsg_delete_records_request *q = r->message;
	struct delete *d = r->state;
	Ipc__DeleteRecordsRequest m = IPC__DELETE_RECORDS_REQUEST__INIT;
	Ipc__DeleteRecordsRequest__Part *part = REQUEST_NEW(r, Ipc__DeleteRecordsRequest__Part, d->n_parts);
	m.part = REQUEST_NEW(r, Ipc__DeleteRecordsRequest__Part *, d->n_parts);
	if (part == NULL || m.part == NULL) {
		request_close(r, "memory");
		return;
	}
	for (size_t i = 0; i < d->n_parts; i++) {
		d->parts[i].out->error_code = (int16_t)part_error(r, &d->parts[i]);
		if (d->parts[i].out->error_code != KAFKA_NONE)
			continue;
		fill_part(&d->parts[i], &part[m.n_part]);
		m.part[m.n_part] = &part[m.n_part];
		d->asked[m.n_part++] = i;
	}
	d->n_asked = m.n_part;
	if (m.n_part > 0)
		request_call(r, IPC_DELETE_RECORDS, &m.base, NO_PAYLOAD, request_deadline(r, q->timeout_ms), on_deleted);
	else
		request_answer(r, d->response);
}

/* ------------------------------------------------------------------ begin */

static bool take_topic(struct request *r, uint32_t i)
{
	const struct kmsg_delete_records_request_topic *from =
		&((const struct kmsg_delete_records_request *)r->message)->topics[i];
	struct delete *d = r->state;
	struct kmsg_delete_records_response_topic *to = &d->response->topics[i];
	to->partitions = KMSG_NEW(&r->region, delete_records_response_partition, from->n_partitions);
	if (to->partitions == NULL)
		return false;
	to->n_partitions = from->n_partitions;
	to->name = d->want[i].name = from->name;
	for (uint32_t k = 0; k < from->n_partitions; k++) {
		to->partitions[k].partition_index = from->partitions[k].partition_index;
		to->partitions[k].low_watermark = -1;
		d->parts[d->n_parts++] = (struct part){ &to->partitions[k], &from->partitions[k], &d->want[i] };
	}
	return true;
}

void delete_records_handle(struct request *r)
{
	const struct kmsg_delete_records_request *q = r->message;
	struct delete *d = r->state = REQUEST_NEW(r, struct delete, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partitions;
	bool room = d != NULL && (d->response = KMSG_NEW(&r->region, delete_records_response, 1)) != NULL &&
		(d->response->topics = KMSG_NEW(&r->region, delete_records_response_topic, q->n_topics)) != NULL &&
		(d->want = REQUEST_NEW(r, struct topic_want, q->n_topics)) != NULL &&
		(d->parts = REQUEST_NEW(r, struct part, n)) != NULL && (d->asked = REQUEST_NEW(r, size_t, n)) != NULL;
	if (room)
		d->response->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics && room; i++)
		room = take_topic(r, i);
	if (room)
		topic_cache_resolve_anew(r, d->want, q->n_topics, delete_ask);
	else
		request_close(r, "memory");
}
