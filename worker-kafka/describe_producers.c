/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeProducers, version 0 (KIP-664): who writes to a partition with an idempotent producer, one partition after the
 * other. There are no transactions, so none is under way and nobody coordinates any.
 */
#include "worker-kafka/api.h"

struct part {
	struct kmsg_describe_producers_response_partition *out;
	const struct topic_want *want;
};

struct describe {
	struct kmsg_describe_producers_response *response;
	struct topic_want *want;
	struct part *parts;
	size_t n_parts, at;
};

static void ask_next(struct request *r);

static bool take_producers(struct request *r, const Ipc__DescribeLogsAnswer__Part *a,
			   struct kmsg_describe_producers_response_partition *out)
{
	struct kmsg_describe_producers_response_active_producer *p =
		KMSG_NEW(&r->region, describe_producers_response_active_producer, a->n_producer);
	if (p == NULL)
		return false;
	out->active_producers = p;
	out->n_active_producers = (uint32_t)a->n_producer;
	for (size_t i = 0; i < a->n_producer; i++) {
		p[i].producer_id = a->producer[i]->producer_id;
		p[i].producer_epoch = a->producer[i]->epoch;
		p[i].last_sequence = a->producer[i]->last_sequence;
		p[i].last_timestamp = a->producer[i]->last_ms;
		p[i].coordinator_epoch = -1;
	}
	return true;
}

static void on_described(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct describe *d = r->state;
	struct kmsg_describe_producers_response_partition *out = d->parts[d->at++].out;
	const Ipc__DescribeLogsAnswer *a = (const Ipc__DescribeLogsAnswer *)m;
	const Ipc__DescribeLogsAnswer__Part *part = a != NULL && a->n_part == 1 ? a->part[0] : NULL;
	if (part == NULL || part->error != NULL)
		out->error_code = (int16_t)error_of(r, part != NULL ? (enum pico_error_kind)part->error->kind
			: e->kind != PICO_OK ? e->kind : PICO_UNAVAILABLE, ERROR_OF_RECORDS);
	else if (!take_producers(r, part, out)) {
		request_close(r, "memory");
		return;
	}
	ask_next(r);
}

static enum kafka_error part_error(struct request *r, const struct part *p)
{
	if (p->want->info == NULL)
		return error_of(r, p->want->kind, ERROR_OF_RECORDS);
	bool there = p->out->partition_index >= 0 && (uint32_t)p->out->partition_index < p->want->info->n_partitions;
	return there ? KAFKA_NONE : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
}

static void ask_next(struct request *r)
{
	struct describe *d = r->state;
	Ipc__DescribeLogsRequest m = IPC__DESCRIBE_LOGS_REQUEST__INIT;
	Ipc__DescribeLogsRequest__Part part = IPC__DESCRIBE_LOGS_REQUEST__PART__INIT, *list = &part;
	for (; d->at < d->n_parts; d->at++) {
		d->parts[d->at].out->error_code = (int16_t)part_error(r, &d->parts[d->at]);
		if (d->parts[d->at].out->error_code == KAFKA_NONE)
			break;
	}
	if (d->at == d->n_parts) {
		request_answer(r, d->response);
		return;
	}
	part.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)d->parts[d->at].want->info->id };
	part.partition = (uint32_t)d->parts[d->at].out->partition_index;
	m.part = &list;
	m.n_part = 1;
	m.producers = true;
	request_call(r, IPC_DESCRIBE_LOGS, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_described);
}

static bool take_topic(struct request *r, uint32_t i)
{
	const struct kmsg_describe_producers_request *q = r->message;
	struct describe *d = r->state;
	struct kmsg_describe_producers_response_topic *to = &d->response->topics[i];
	to->partitions = KMSG_NEW(&r->region, describe_producers_response_partition, q->topics[i].n_partition_indexes);
	if (to->partitions == NULL)
		return false;
	to->name = d->want[i].name = q->topics[i].name;
	to->n_partitions = q->topics[i].n_partition_indexes;
	for (uint32_t k = 0; k < to->n_partitions; k++) {
		to->partitions[k].partition_index = q->topics[i].partition_indexes[k];
		d->parts[d->n_parts++] = (struct part){ &to->partitions[k], &d->want[i] };
	}
	return true;
}

void describe_producers_handle(struct request *r)
{
	const struct kmsg_describe_producers_request *q = r->message;
	struct describe *d = r->state = REQUEST_NEW(r, struct describe, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partition_indexes;
	bool room = d != NULL && (d->response = KMSG_NEW(&r->region, describe_producers_response, 1)) != NULL &&
		(d->response->topics = KMSG_NEW(&r->region, describe_producers_response_topic, q->n_topics)) != NULL &&
		(d->want = REQUEST_NEW(r, struct topic_want, q->n_topics)) != NULL &&
		(d->parts = REQUEST_NEW(r, struct part, n)) != NULL;
	if (room)
		d->response->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics && room; i++)
		room = take_topic(r, i);
	if (room)
		topic_cache_resolve(r, d->want, q->n_topics, ask_next);
	else
		request_close(r, "memory");
}
