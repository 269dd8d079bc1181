/* SPDX-License-Identifier: Apache-2.0
 *
 * DeleteTopics, by name or id, one after the other. Deletion is by topic id, so that it may be sent again when
 * storaged restarts and never hits a topic of the same name that was made meanwhile.
 */
#include "worker-kafka/api.h"

struct delete {
	struct kmsg_delete_topics_response *response;
	struct topic_want *want;        /* by name; of those by id: name.p == NULL */
	uint32_t n, at;
	uint64_t deadline_ms;
};

static void delete_next(struct request *r);

static void on_deleted(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct delete *d = r->state;
	struct kmsg_delete_topics_response_topic *to = &d->response->responses[d->at];
	bool by_id = to->name.p == NULL;
	const Ipc__DeleteAnswer *a = (const Ipc__DeleteAnswer *)m;
	enum pico_error_kind kind = a != NULL && !a->existed ? PICO_NOT_FOUND : e->kind;
	if ((kind == PICO_NOT_FOUND || kind == PICO_GONE) && by_id)
		to->error_code = KAFKA_UNKNOWN_TOPIC_ID;
	else
		to->error_code = (int16_t)error_of(r, kind, ERROR_OF_TOPICS);
	if (to->name.p != NULL)
		topic_cache_drop(r->server->cache, to->name);
	d->at++;
	delete_next(r);
}

static const uint8_t *id_of(struct request *r, struct kmsg_delete_topics_response_topic *to)
{
	const struct delete *d = r->state;
	if (to->name.p == NULL)
		return to->topic_id.bytes;
	const struct topic_want *w = &d->want[d->at];
	if (w->info == NULL) {
		to->error_code = (int16_t)error_of(r, w->kind, ERROR_OF_TOPICS);
		return NULL;
	}
	memcpy(to->topic_id.bytes, w->info->id, sizeof(to->topic_id.bytes));
	return w->info->id;
}

static void delete_next(struct request *r)
{
	struct delete *d = r->state;
	const uint8_t *id = NULL;
	while (d->at < d->n && (id = id_of(r, &d->response->responses[d->at])) == NULL)
		d->at++;
	if (d->at == d->n) {
		request_answer(r, d->response);
		return;
	}
	Ipc__DeleteRequest m = IPC__DELETE_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)id };
	m.topic = &topic;
	request_call(r, IPC_DELETE, &m.base, NO_PAYLOAD, d->deadline_ms, on_deleted);
}

void delete_topics_handle(struct request *r)
{
	const struct kmsg_delete_topics_request *q = r->message;
	bool newer = r->head.api_version >= 6;
	uint32_t n = newer ? q->n_topics : q->n_topic_names;
	struct delete *d = r->state = REQUEST_NEW(r, struct delete, 1);
	struct kmsg_delete_topics_response_topic *to = KMSG_NEW(&r->region, delete_topics_response_topic, n);
	if (d != NULL) {
		d->response = KMSG_NEW(&r->region, delete_topics_response, 1);
		d->want = REQUEST_NEW(r, struct topic_want, n);
	}
	if (d == NULL || to == NULL || d->response == NULL || d->want == NULL) {
		request_close(r, "memory");
		return;
	}
	d->n = n;
	d->deadline_ms = request_deadline(r, q->timeout_ms);
	d->response->responses = to;
	d->response->n_responses = n;
	for (uint32_t i = 0; i < n; i++) {
		to[i].name = d->want[i].name = newer ? q->topics[i].name : q->topic_names[i];
		if (newer)
			to[i].topic_id = q->topics[i].topic_id;
	}
	topic_cache_resolve_anew(r, d->want, n, delete_next);
}
