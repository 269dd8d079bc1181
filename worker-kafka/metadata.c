/* SPDX-License-Identifier: Apache-2.0
 *
 * Metadata: nodes, then topics (all that have a Kafka name, or those asked for), then those that are to be made by
 * being named. One bad topic does not fail the others. The controller is this node: it can do everything.
 */
#include "worker-kafka/api.h"
#include "worker-kafka/ask_topics.h"

#include "common/topic_name.h"

#define PAGE 1000

struct metadata {
	struct kmsg_metadata_response *response;
	struct brokers brokers;
	uint32_t capacity;              /* of response->topics: lists */
	uint32_t *missing;              /* topics to be made */
	uint32_t n_missing, next_missing, n_asked;
};

static bool wants_all(const struct request *r)
{
	const struct kmsg_metadata_request *q = r->message;
	return q->topics == NULL || (r->head.api_version == 0 && q->n_topics == 0);
}

/* ------------------------------------------------------------------ a topic */

static bool fill_partitions(struct request *r, const Ipc__Topic *topic, struct kmsg_metadata_response_topic *to)
{
	const struct metadata *d = r->state;
	struct kmsg_metadata_response_partition *p = KMSG_NEW(&r->region, metadata_response_partition, topic->n_partitions);
	int32_t *owner = REQUEST_NEW(r, int32_t, topic->n_partitions);
	if (p == NULL || owner == NULL)
		return false;
	for (size_t i = 0; i < topic->n_partitions; i++) {
		bool known = brokers_has(&d->brokers, topic->partitions[i]->owner);
		owner[i] = (int32_t)topic->partitions[i]->owner;
		p[i].partition_index = (int32_t)i;
		p[i].error_code = known ? KAFKA_NONE : KAFKA_LEADER_NOT_AVAILABLE;
		p[i].leader_id = known ? owner[i] : -1;
		p[i].leader_epoch = (int32_t)topic->partitions[i]->epoch;
		p[i].replica_nodes = p[i].isr_nodes = &owner[i];
		p[i].n_replica_nodes = p[i].n_isr_nodes = 1;
	}
	to->partitions = p;
	to->n_partitions = (uint32_t)topic->n_partitions;
	return true;
}

static bool fill_topic(struct request *r, const Ipc__Topic *topic, struct kmsg_metadata_response_topic *to)
{
	const struct kmsg_metadata_request *q = r->message;
	topic_cache_put(r->server->cache, topic);
	to->error_code = KAFKA_NONE;
	to->name = region_copy(&r->region, slice_str(topic->kafka_topic));
	if (topic->topic_id.len == sizeof(to->topic_id.bytes))
		memcpy(to->topic_id.bytes, topic->topic_id.data, sizeof(to->topic_id.bytes));
	to->is_internal = false;
	if (q->include_topic_authorized_operations)
		to->topic_authorized_operations = OPERATIONS_OF_TOPIC;
	return to->name.p != NULL && fill_partitions(r, topic, to);
}

/* ------------------------------------------------------------------ end */

static void metadata_end(struct request *r)
{
	const struct kmsg_metadata_request *q = r->message;
	struct metadata *d = r->state;
	struct kmsg_metadata_response_broker *b = KMSG_NEW(&r->region, metadata_response_broker, d->brokers.n);
	if (b == NULL) {
		request_close(r, "memory");
		return;
	}
	for (size_t i = 0; i < d->brokers.n; i++) {
		b[i].node_id = d->brokers.broker[i].id;
		b[i].host = d->brokers.broker[i].host;
		b[i].port = d->brokers.broker[i].port;
	}
	d->response->brokers = b;
	d->response->n_brokers = (uint32_t)d->brokers.n;
	d->response->cluster_id = d->brokers.cluster_id;
	d->response->controller_id = (int32_t)r->server->conf->node_id;
	if (q->include_cluster_authorized_operations)
		d->response->cluster_authorized_operations = OPERATIONS_OF_CLUSTER;
	request_answer(r, d->response);
}

/* ------------------------------------------------------------------ making topics */

static void make_missing(struct request *r);

static void on_made(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct metadata *d = r->state;
	const Ipc__CreateManyAnswer *a = (const Ipc__CreateManyAnswer *)m;
	for (uint32_t i = 0; i < d->n_asked; i++) {
		struct kmsg_metadata_response_topic *to = &d->response->topics[d->missing[d->next_missing + i]];
		const Ipc__CreateManyAnswer__One *one = a != NULL && i < a->n_one ? a->one[i] : NULL;
		enum pico_error_kind kind = one != NULL && one->error != NULL ? (enum pico_error_kind)one->error->kind : e->kind;
		if (one != NULL && one->ok != NULL && one->ok->topic != NULL) {
			if (!fill_topic(r, one->ok->topic, to)) {
				request_close(r, "memory");
				return;
			}
		} else if (kind == PICO_CONFLICT) {
			to->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION; /* the path is taken, without a Kafka name */
		} else {
			to->error_code = (int16_t)error_of(r, kind == PICO_OK ? PICO_UNAVAILABLE : kind, ERROR_OF_RECORDS);
			if (kind == PICO_UNAVAILABLE || kind == PICO_THROTTLED || kind == PICO_DURABILITY)
				to->error_code = KAFKA_LEADER_NOT_AVAILABLE;
		}
	}
	d->next_missing += d->n_asked;
	make_missing(r);
}

static void make_missing(struct request *r)
{
	struct metadata *d = r->state;
	uint32_t n = d->n_missing - d->next_missing;
	n = n < CREATES_MAX ? n : CREATES_MAX;
	if (n == 0) {
		metadata_end(r);
		return;
	}
	Ipc__CreateManyRequest m = IPC__CREATE_MANY_REQUEST__INIT;
	Ipc__CreateRequest *create = REQUEST_NEW(r, Ipc__CreateRequest, n), **list = REQUEST_NEW(r, Ipc__CreateRequest *, n);
	bool good = create != NULL && list != NULL;
	for (uint32_t i = 0; i < n && good; i++) {
		list[i] = &create[i];
		good = create_fill(r, d->response->topics[d->missing[d->next_missing + i]].name,
				   (uint32_t)r->server->conf->num_partitions, &create[i]);
	}
	if (!good) {
		request_close(r, "memory");
		return;
	}
	d->n_asked = n;
	m.n_create = n;
	m.create = list;
	request_call(r, IPC_CREATE_MANY, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_made);
}

/* ------------------------------------------------------------------ those asked for */

static bool may_make(const struct request *r)
{
	const struct kmsg_metadata_request *q = r->message;
	return r->server->conf->auto_create_topics && (r->head.api_version < 4 || q->allow_auto_topic_creation);
}

static void take_fault(struct request *r, uint32_t i, enum pico_error_kind kind)
{
	const struct kmsg_metadata_request *q = r->message;
	struct metadata *d = r->state;
	struct kmsg_metadata_response_topic *to = &d->response->topics[i];
	bool by_id = !uuid_is_zero(&q->topics[i].topic_id);
	to->error_code = (int16_t)error_of(r, kind, by_id ? ERROR_OF_RECORDS_BY_ID : ERROR_OF_RECORDS);
	if (kind == PICO_UNAVAILABLE || kind == PICO_THROTTLED)
		to->error_code = KAFKA_LEADER_NOT_AVAILABLE;
	if (!by_id && kind == PICO_NOT_FOUND && may_make(r))
		d->missing[d->n_missing++] = i;
}

static void topic_name(struct request *r, size_t i, struct slice *ret_name, const uint8_t **ret_id)
{
	const struct kmsg_metadata_request_topic *t = &((const struct kmsg_metadata_request *)r->message)->topics[i];
	*ret_name = t->name;
	*ret_id = uuid_is_zero(&t->topic_id) ? NULL : t->topic_id.bytes;
}

static bool topic_take(struct request *r, size_t i, enum pico_error_kind kind, const Ipc__Topic *topic)
{
	struct metadata *d = r->state;
	if (topic != NULL)
		return fill_topic(r, topic, &d->response->topics[i]);
	take_fault(r, (uint32_t)i, kind);
	return true;
}

static void begin_topics(struct request *r)
{
	static const struct topics_question question = { topic_name, topic_take, make_missing };
	const struct kmsg_metadata_request *q = r->message;
	struct metadata *d = r->state;
	size_t *asked = REQUEST_NEW(r, size_t, q->n_topics), n = 0;
	d->response->topics = KMSG_NEW(&r->region, metadata_response_topic, q->n_topics);
	d->missing = REQUEST_NEW(r, uint32_t, q->n_topics);
	if (d->response->topics == NULL || asked == NULL || d->missing == NULL) {
		request_close(r, "memory");
		return;
	}
	d->response->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics; i++) {
		d->response->topics[i].name = q->topics[i].name;
		d->response->topics[i].topic_id = q->topics[i].topic_id;
		if (uuid_is_zero(&q->topics[i].topic_id) && !topic_alias_is_legal(q->topics[i].name))
			d->response->topics[i].error_code = KAFKA_INVALID_TOPIC_EXCEPTION;
		else
			asked[n++] = i;
	}
	ask_topics(r, &question, asked, n);
}

/* ------------------------------------------------------------------ all */

static void ask_page(struct request *r, const char *start_after);

static bool make_room(struct request *r, uint32_t n)
{
	struct kmsg_metadata_response *m = ((struct metadata *)r->state)->response;
	struct metadata *d = r->state;
	if (m->n_topics + n <= d->capacity)
		return true;
	uint32_t capacity = 2 * (m->n_topics + n);
	struct kmsg_metadata_response_topic *topics = KMSG_NEW(&r->region, metadata_response_topic, capacity);
	if (topics == NULL)
		return false;
	if (m->n_topics > 0)
		memcpy(topics, m->topics, m->n_topics * sizeof(*topics));
	m->topics = topics;
	d->capacity = capacity;
	return true;
}

static void on_page(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct metadata *d = r->state;
	const Ipc__ListKafkaAnswer *a = (const Ipc__ListKafkaAnswer *)m;
	if (a == NULL) {
		request_close(r, "topics cannot be listed");
		return;
	}
	bool good = make_room(r, (uint32_t)a->n_topics);
	for (size_t i = 0; i < a->n_topics && good; i++)
		good = fill_topic(r, a->topics[i], &d->response->topics[d->response->n_topics++]);
	if (!good)
		request_close(r, "memory");
	else if (a->has_more && a->n_topics > 0)
		ask_page(r, request_string(r, slice_str(a->topics[a->n_topics - 1]->kafka_topic)));
	else
		metadata_end(r);
}

static void ask_page(struct request *r, const char *start_after)
{
	Ipc__ListKafkaRequest m = IPC__LIST_KAFKA_REQUEST__INIT;
	m.start_after = (char *)(uintptr_t)(start_after != NULL ? start_after : "");
	m.limit = PAGE;
	request_call(r, IPC_LIST_KAFKA, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_page);
}

/* ------------------------------------------------------------------ begin */

static void on_nodes(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct metadata *d = r->state;
	const struct kmsg_metadata_request *q = r->message;
	if (!brokers_take(r, (const Ipc__NodesAnswer *)m, &d->brokers))
		request_close(r, "memory");
	else if (wants_all(r))
		ask_page(r, "");
	else if (q->n_topics > 0)
		begin_topics(r);
	else
		metadata_end(r);
}

void metadata_handle(struct request *r)
{
	struct metadata *d = r->state = REQUEST_NEW(r, struct metadata, 1);
	if (d != NULL)
		d->response = KMSG_NEW(&r->region, metadata_response, 1);
	if (d == NULL || d->response == NULL) {
		request_close(r, "memory");
		return;
	}
	Ipc__NodesRequest m = IPC__NODES_REQUEST__INIT;
	request_call(r, IPC_NODES, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_nodes);
}
