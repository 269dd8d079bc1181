/* SPDX-License-Identifier: Apache-2.0
 *
 * CreatePartitions, versions 0 to 3 (2: compact): a topic gets more partitions, never fewer, each with an owner by
 * placement or the one that its assignment names first. One topic after the other; each has an error of its own.
 */
#include "worker-kafka/api.h"

#include <stdlib.h>

struct grow {
	struct kmsg_create_partitions_response *response;
	struct topic_want *want;
	uint32_t at;
	uint64_t deadline_ms;
};

static void fail(struct kmsg_create_partitions_response_topic *to, enum kafka_error error, struct slice text)
{
	to->error_code = (int16_t)error;
	to->error_message = text;
}

/* ------------------------------------------------------------------ one topic */

static void grow_next(struct request *r);

static enum kafka_error grow_error(struct request *r, enum pico_error_kind kind, bool assigned)
{
	if (kind == PICO_BAD_REQUEST || kind == PICO_CONFLICT)
		return assigned ? KAFKA_INVALID_REPLICA_ASSIGNMENT : KAFKA_INVALID_PARTITIONS;
	return error_of(r, kind, ERROR_OF_TOPICS);
}

static void on_grown(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	const struct kmsg_create_partitions_request *q = r->message;
	struct grow *d = r->state;
	const Ipc__GrowAnswer *a = (const Ipc__GrowAnswer *)m;
	if (e->kind != PICO_OK)
		fail(&d->response->results[d->at], grow_error(r, e->kind, q->topics[d->at].n_assignments > 0),
		     region_copy(&r->region, slice_str(e->message)));
	else if (a->topic != NULL)
		topic_cache_put(r->server->cache, a->topic);
	d->at++;
	grow_next(r);
}

static bool assignments_are_good(const struct kmsg_create_partitions_request_topic *t, uint32_t n_now)
{
	for (uint32_t i = 0; i < t->n_assignments; i++)
		if (t->assignments[i].n_broker_ids == 0)
			return false;
	return t->n_assignments == (uint32_t)t->count - n_now;
}

/* Whether it is asked for; else the topic has its error. */
static bool check(struct request *r, uint32_t i)
{
	const struct kmsg_create_partitions_request_topic *t =
		&((const struct kmsg_create_partitions_request *)r->message)->topics[i];
	const struct grow *d = r->state;
	struct kmsg_create_partitions_response_topic *to = &d->response->results[i];
	const struct topic_info *info = d->want[i].info;
	if (to->error_code != KAFKA_NONE)
		return false;
	if (info == NULL)
		fail(to, error_of(r, d->want[i].kind, ERROR_OF_TOPICS), slice_str("no such topic"));
	else if (t->count < 1 || (uint32_t)t->count <= info->n_partitions)
		fail(to, KAFKA_INVALID_PARTITIONS,
		     region_printf(&r->region, "the topic has %u partitions, and never fewer or the same", info->n_partitions));
	else if ((uint32_t)t->count > r->server->conf->max_partitions)
		fail(to, KAFKA_INVALID_PARTITIONS, slice_str("the number of partitions is above --max-partitions"));
	else if (t->assignments != NULL && !assignments_are_good(t, info->n_partitions))
		fail(to, KAFKA_INVALID_REPLICA_ASSIGNMENT, slice_str("each new partition is assigned to a broker"));
	return to->error_code == KAFKA_NONE;
}

static bool fill_owners(struct request *r, const struct kmsg_create_partitions_request_topic *t, Ipc__GrowRequest *m)
{
	m->owners = REQUEST_NEW(r, uint32_t, t->n_assignments);
	for (uint32_t i = 0; m->owners != NULL && i < t->n_assignments; i++)
		m->owners[m->n_owners++] = (uint32_t)t->assignments[i].broker_ids[0];
	return m->owners != NULL;
}

static void grow_next(struct request *r)
{
	const struct kmsg_create_partitions_request *q = r->message;
	struct grow *d = r->state;
	Ipc__GrowRequest m = IPC__GROW_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	while (d->at < q->n_topics && !check(r, d->at))
		d->at++;
	if (d->at == q->n_topics) {
		request_answer(r, d->response);
		return;
	}
	topic.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)d->want[d->at].info->id };
	m.topic = &topic;
	m.partitions = (uint32_t)q->topics[d->at].count;
	m.validate_only = q->validate_only;
	if (fill_owners(r, &q->topics[d->at], &m))
		request_call(r, IPC_GROW, &m.base, NO_PAYLOAD, d->deadline_ms, on_grown);
	else
		request_close(r, "memory");
}

/* ------------------------------------------------------------------ begin */

static int by_name(const void *a, const void *b, void *arg)
{
	const struct kmsg_create_partitions_request *q = arg;
	return slice_cmp(q->topics[*(const uint32_t *)a].name, q->topics[*(const uint32_t *)b].name);
}

/* Topics that are named more than once are refused. */
static bool find_twice(struct request *r)
{
	struct kmsg_create_partitions_request *q = r->message;
	struct kmsg_create_partitions_response_topic *to = ((const struct grow *)r->state)->response->results;
	uint32_t *sorted = REQUEST_NEW(r, uint32_t, q->n_topics);
	if (sorted == NULL)
		return false;
	for (uint32_t i = 0; i < q->n_topics; i++)
		sorted[i] = i;
	qsort_r(sorted, q->n_topics, sizeof(sorted[0]), by_name, q);
	for (uint32_t i = 1; i < q->n_topics; i++) {
		if (by_name(&sorted[i - 1], &sorted[i], q) != 0)
			continue;
		fail(&to[sorted[i - 1]], KAFKA_INVALID_REQUEST, slice_str("the topic is named twice"));
		fail(&to[sorted[i]], KAFKA_INVALID_REQUEST, slice_str("the topic is named twice"));
	}
	return true;
}

void create_partitions_handle(struct request *r)
{
	const struct kmsg_create_partitions_request *q = r->message;
	struct grow *d = r->state = REQUEST_NEW(r, struct grow, 1);
	struct kmsg_create_partitions_response *m = KMSG_NEW(&r->region, create_partitions_response, 1);
	if (d == NULL || m == NULL || (d->want = REQUEST_NEW(r, struct topic_want, q->n_topics)) == NULL ||
	    (m->results = KMSG_NEW(&r->region, create_partitions_response_topic, q->n_topics)) == NULL) {
		request_close(r, "memory");
		return;
	}
	m->n_results = q->n_topics;
	d->response = m;
	d->deadline_ms = request_deadline(r, q->timeout_ms);
	for (uint32_t i = 0; i < q->n_topics; i++)
		m->results[i].name = d->want[i].name = q->topics[i].name;
	if (find_twice(r))
		topic_cache_resolve_anew(r, d->want, q->n_topics, grow_next);
	else
		request_close(r, "memory");
}
