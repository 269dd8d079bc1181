/* SPDX-License-Identifier: Apache-2.0
 *
 * OffsetForLeaderEpoch, versions 2 to 4 (2: the client's epoch of the leader, KIP-320; 3: replica id; 4: compact): where
 * an epoch of a partition ended. An epoch that was never one is answered by the one before it; one after the present has
 * no end (-1).
 */
#include "worker-kafka/api.h"

struct part {
	struct kmsg_offset_for_leader_epoch_response_partition *out;
	const struct kmsg_offset_for_leader_epoch_request_partition *in;
	const struct topic_want *want;
};

struct ends {
	struct kmsg_offset_for_leader_epoch_response *response;
	struct topic_want *want;
	struct part *parts;
	size_t n_parts;
	size_t *asked;
	size_t n_asked;
};

/* ------------------------------------------------------------------ answer */

static void take_answer(struct request *r, const struct part *p, const Ipc__LookupAnswer__Part *a)
{
	if (a->error == NULL) {
		p->out->leader_epoch = a->found ? a->leader_epoch : -1;
		p->out->end_offset = a->found ? (int64_t)a->offset : -1;
	} else {
		p->out->error_code = (int16_t)lookup_error_of(r, a, p->in->current_leader_epoch);
	}
}

static void on_looked_up(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
			 struct topics_pieces *pieces)
{
	const struct ends *d = r->state;
	const Ipc__LookupAnswer *a = (const Ipc__LookupAnswer *)m;
	for (size_t i = 0; i < d->n_asked; i++) {
		const struct part *p = &d->parts[d->asked[i]];
		if (a != NULL && i < a->n_part)
			take_answer(r, p, a->part[i]);
		else
			p->out->error_code = (int16_t)error_of(r, e->kind == PICO_OK ? PICO_UNAVAILABLE : e->kind, ERROR_OF_RECORDS);
	}
	request_answer(r, d->response);
}

/* ------------------------------------------------------------------ question */

static enum kafka_error part_error(struct request *r, const struct part *p)
{
	if (!kafka_api_serves(r->head.api, r->head.api_version))
		return KAFKA_UNSUPPORTED_VERSION;
	if (p->want->info == NULL)
		return error_of(r, p->want->kind, ERROR_OF_RECORDS);
	if (p->in->partition < 0 || (uint32_t)p->in->partition >= p->want->info->n_partitions)
		return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	return KAFKA_NONE;
}

static void fill_part(const struct part *p, Ipc__LookupRequest__Part *to)
{
	ipc__lookup_request__part__init(to);
	to->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)p->want->info->id };
	to->partition = (uint32_t)p->in->partition;
	to->leader_epoch = p->in->current_leader_epoch;
	to->what = IPC__LOOKUP_REQUEST__WHAT__EPOCH_END;
	to->epoch = p->in->leader_epoch;
}

static void ends_ask(struct request *r)
{
	struct ends *d = r->state;
	Ipc__LookupRequest m = IPC__LOOKUP_REQUEST__INIT;
	Ipc__LookupRequest__Part *part = REQUEST_NEW(r, Ipc__LookupRequest__Part, d->n_parts);
	m.part = REQUEST_NEW(r, Ipc__LookupRequest__Part *, d->n_parts);
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
		request_call(r, IPC_LOOKUP, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_looked_up);
	else
		request_answer(r, d->response);
}

/* ------------------------------------------------------------------ begin */

static bool take_topic(struct request *r, uint32_t i)
{
	const struct kmsg_offset_for_leader_epoch_request_topic *from =
		&((const struct kmsg_offset_for_leader_epoch_request *)r->message)->topics[i];
	struct ends *d = r->state;
	struct kmsg_offset_for_leader_epoch_response_topic *to = &d->response->topics[i];
	to->partitions = KMSG_NEW(&r->region, offset_for_leader_epoch_response_partition, from->n_partitions);
	if (to->partitions == NULL)
		return false;
	to->n_partitions = from->n_partitions;
	to->topic = d->want[i].name = from->topic;
	for (uint32_t k = 0; k < from->n_partitions; k++) {
		to->partitions[k].partition = from->partitions[k].partition;
		d->parts[d->n_parts++] = (struct part){ &to->partitions[k], &from->partitions[k], &d->want[i] };
	}
	return true;
}

void offset_for_leader_epoch_handle(struct request *r)
{
	const struct kmsg_offset_for_leader_epoch_request *q = r->message;
	struct ends *d = r->state = REQUEST_NEW(r, struct ends, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partitions;
	bool room = d != NULL && (d->response = KMSG_NEW(&r->region, offset_for_leader_epoch_response, 1)) != NULL &&
		(d->response->topics = KMSG_NEW(&r->region, offset_for_leader_epoch_response_topic, q->n_topics)) != NULL &&
		(d->want = REQUEST_NEW(r, struct topic_want, q->n_topics)) != NULL &&
		(d->parts = REQUEST_NEW(r, struct part, n)) != NULL && (d->asked = REQUEST_NEW(r, size_t, n)) != NULL;
	if (room)
		d->response->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics && room; i++)
		room = take_topic(r, i);
	if (!room)
		request_close(r, "memory");
	else if (kafka_api_serves(r->head.api, r->head.api_version))
		topic_cache_resolve(r, d->want, q->n_topics, ends_ask);
	else
		ends_ask(r);
}
