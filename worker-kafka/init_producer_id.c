/* SPDX-License-Identifier: Apache-2.0
 *
 * InitProducerId for idempotent producers. There are no transactions: an id for them is refused for good, because
 * with anything retriable clients would wait for ever.
 *
 * The id and epoch that a request may name since version 3 (KIP-360) belong to a transactional id. Without one they prove
 * nothing: there are clients that always name id 0, and two that got one id would pass for duplicates of each other. So
 * the answer is always a new id.
 */
#include "worker-kafka/api.h"

static void answer(struct request *r, enum kafka_error error, const Ipc__InitProducerAnswer *a)
{
	struct kmsg_init_producer_id_response *m = KMSG_NEW(&r->region, init_producer_id_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)error;
	m->producer_epoch = -1;
	if (a != NULL) {
		m->producer_id = a->producer_id;
		m->producer_epoch = (int16_t)a->producer_epoch;
	}
	request_answer(r, m);
}

static void on_id(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	answer(r, error_of(r, e->kind, ERROR_OF_TOPICS), (const Ipc__InitProducerAnswer *)m);
}

void init_producer_id_handle(struct request *r)
{
	const struct kmsg_init_producer_id_request *q = r->message;
	if (q->transactional_id.p != NULL) {
		answer(r, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NULL);
		return;
	}
	if (r->head.api_version >= 3 && (q->producer_id == -1) != (q->producer_epoch == -1)) {
		answer(r, KAFKA_INVALID_REQUEST, NULL);
		return;
	}
	Ipc__InitProducerRequest m = IPC__INIT_PRODUCER_REQUEST__INIT;
	request_call(r, IPC_INIT_PRODUCER, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_id);
}
