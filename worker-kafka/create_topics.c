/* SPDX-License-Identifier: Apache-2.0
 *
 * CreateTopics: each topic has an error of its own. Replication is the object store's, so any factor is taken;
 * assignments name the owner of each partition, its first broker.
 */
#include "worker-kafka/api.h"

#include <stdlib.h>

#include "common/topic_config.h"
#include "common/topic_name.h"

#define FAULT_MAX 16384                 /* bytes of what is said of a config */

struct create {
	struct kmsg_create_topics_response *response;
	bool *twice;                    /* by topic: it is named more than once */
	uint32_t *asked;                /* topics without a fault */
	uint32_t n_asked, next, n_now;
	uint64_t deadline_ms;
};

static void topic_fail(struct kmsg_create_topics_response_topic *to, enum kafka_error error, const char *text)
{
	to->error_code = (int16_t)error;
	to->error_message = text != NULL ? slice_str(text) : slice_of(NULL, 0);
}

/* ------------------------------------------------------------------ checks */

/* Each partition from 0 up once, to a broker. */
static bool assignments_are_good(struct request *r, const struct kmsg_create_topics_request_topic *t)
{
	bool *seen = REQUEST_NEW(r, bool, t->n_assignments);
	for (uint32_t i = 0; seen != NULL && i < t->n_assignments; i++) {
		int32_t at = t->assignments[i].partition_index;
		if (at < 0 || (uint32_t)at >= t->n_assignments || seen[at] || t->assignments[i].n_broker_ids == 0)
			return false;
		seen[at] = true;
	}
	return seen != NULL;
}

/* False: to has the error and says which config, and why. */
static bool configs_are_good(struct request *r, const struct kmsg_create_topics_request_topic *t,
			     struct kmsg_create_topics_response_topic *to)
{
	struct buf fault;
	bool good = t->n_configs <= TOPIC_CONFIG_N;
	if (!good)
		topic_fail(to, KAFKA_INVALID_CONFIG, "there are not so many configs");
	buf_init(&fault, FAULT_MAX);
	for (uint32_t i = 0; i < t->n_configs && good; i++) {
		const char *name = request_string(r, t->configs[i].name), *value = request_string(r, t->configs[i].value);
		good = t->configs[i].value.p != NULL && name != NULL && value != NULL && topic_config_check(name, value, &fault);
		if (good)
			continue;
		to->error_code = KAFKA_INVALID_CONFIG;
		to->error_message = region_copy(&r->region, slice_str(buf_len(&fault) > 0 ? (char *)buf_head(&fault)
								      : "a config has no value"));
	}
	buf_done(&fault);
	return good;
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct kmsg_create_topics_request *q = arg;
	return slice_cmp(q->topics[*(const uint32_t *)a].name, q->topics[*(const uint32_t *)b].name);
}

/* By index, which topics are named more than once; NULL when there is no room. */
static bool *find_twice(struct request *r)
{
	struct kmsg_create_topics_request *q = r->message;
	uint32_t *sorted = REQUEST_NEW(r, uint32_t, q->n_topics);
	bool *twice = REQUEST_NEW(r, bool, q->n_topics);
	if (sorted == NULL || twice == NULL)
		return NULL;
	for (uint32_t i = 0; i < q->n_topics; i++)
		sorted[i] = i;
	qsort_r(sorted, q->n_topics, sizeof(sorted[0]), by_name, q);
	for (uint32_t i = 1; i < q->n_topics; i++)
		if (by_name(&sorted[i - 1], &sorted[i], q) == 0)
			twice[sorted[i - 1]] = twice[sorted[i]] = true;
	return twice;
}

static uint32_t n_partitions(const struct request *r, const struct kmsg_create_topics_request_topic *t)
{
	if (t->n_assignments > 0)
		return t->n_assignments;
	return t->num_partitions == -1 ? (uint32_t)r->server->conf->num_partitions : (uint32_t)t->num_partitions;
}

static bool check(struct request *r, uint32_t i, struct kmsg_create_topics_response_topic *to)
{
	const struct kmsg_create_topics_request *q = r->message;
	const struct kmsg_create_topics_request_topic *t = &q->topics[i];
	const struct create *d = r->state;
	if (!topic_alias_is_legal(t->name))
		topic_fail(to, KAFKA_INVALID_TOPIC_EXCEPTION, "a topic name is 1 to 249 of A-Z a-z 0-9 . _ -");
	else if (d->twice[i])
		topic_fail(to, KAFKA_INVALID_REQUEST, "the topic is named twice");
	else if (t->n_assignments > 0 && (t->num_partitions != -1 || t->replication_factor != -1))
		topic_fail(to, KAFKA_INVALID_REQUEST, "assignments exclude a number of partitions and a replication factor");
	else if (t->n_assignments == 0 && (t->num_partitions < -1 || t->num_partitions == 0))
		topic_fail(to, KAFKA_INVALID_PARTITIONS, "the number of partitions is -1 or above 0");
	else if (n_partitions(r, t) > r->server->conf->max_partitions)
		topic_fail(to, KAFKA_INVALID_PARTITIONS, "the number of partitions is above --max-partitions");
	else if (t->n_assignments == 0 && (t->replication_factor < -1 || t->replication_factor == 0))
		topic_fail(to, KAFKA_INVALID_REPLICATION_FACTOR, "the replication factor is -1 or above 0");
	else if (!assignments_are_good(r, t))
		topic_fail(to, KAFKA_INVALID_REPLICA_ASSIGNMENT, "each partition from 0 up is assigned to a broker once");
	return to->error_code == KAFKA_NONE && configs_are_good(r, t, to);
}

/* ------------------------------------------------------------------ create */

static void create_next(struct request *r);

/* topic: NULL when it was only validated. */
static void fill_made(struct request *r, const struct kmsg_create_topics_request_topic *t, const Ipc__Topic *topic,
		      struct kmsg_create_topics_response_topic *to)
{
	to->num_partitions = (int32_t)n_partitions(r, t);
	to->replication_factor = 1;
	if (topic == NULL)
		return;
	topic_cache_put(r->server->cache, topic);
	if (topic->topic_id.len == sizeof(to->topic_id.bytes))
		memcpy(to->topic_id.bytes, topic->topic_id.data, sizeof(to->topic_id.bytes));
}

/* Storaged alone knows which brokers there are, and some of what a config may be. */
static enum kafka_error create_error(struct request *r, const struct kmsg_create_topics_request_topic *t,
				     enum pico_error_kind kind)
{
	if (kind != PICO_BAD_REQUEST)
		return error_of(r, kind, ERROR_OF_TOPICS);
	return t->n_assignments > 0 ? KAFKA_INVALID_REPLICA_ASSIGNMENT : t->n_configs > 0 ? KAFKA_INVALID_CONFIG
		: KAFKA_INVALID_REQUEST;
}

static void take_answer(struct request *r, uint32_t i, const struct pico_error *e, const Ipc__CreateManyAnswer__One *one)
{
	const struct kmsg_create_topics_request *q = r->message;
	struct create *d = r->state;
	struct kmsg_create_topics_response_topic *to = &d->response->topics[i];
	if (one != NULL && one->ok != NULL && (one->ok->topic != NULL || q->validate_only)) {
		if (one->ok->created)
			fill_made(r, &q->topics[i], one->ok->topic, to);
		else
			topic_fail(to, KAFKA_TOPIC_ALREADY_EXISTS, "the topic exists");
		return;
	}
	enum pico_error_kind kind = e->kind != PICO_OK ? e->kind
		: one != NULL && one->error != NULL ? (enum pico_error_kind)one->error->kind : PICO_DURABILITY;
	const char *text = one != NULL && one->error != NULL ? one->error->message : e->message;
	to->error_code = (int16_t)create_error(r, &q->topics[i], kind);
	to->error_message = region_copy(&r->region, slice_str(text));
}

static void on_made(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct create *d = r->state;
	const Ipc__CreateManyAnswer *a = (const Ipc__CreateManyAnswer *)m;
	for (uint32_t i = 0; i < d->n_now; i++)
		take_answer(r, d->asked[d->next + i], e, a != NULL && i < a->n_one ? a->one[i] : NULL);
	d->next += d->n_now;
	create_next(r);
}

static bool fill_owners(struct request *r, const struct kmsg_create_topics_request_topic *t, Ipc__CreateRequest *m)
{
	if (t->n_assignments == 0)
		return true;
	m->n_owners = t->n_assignments;
	m->owners = REQUEST_NEW(r, uint32_t, t->n_assignments);
	for (uint32_t i = 0; m->owners != NULL && i < t->n_assignments; i++)
		m->owners[t->assignments[i].partition_index] = (uint32_t)t->assignments[i].broker_ids[0];
	return m->owners != NULL;
}

static bool fill_configs(struct request *r, const struct kmsg_create_topics_request_topic *t, Ipc__CreateRequest *m)
{
	Ipc__ConfigEntry *entry = REQUEST_NEW(r, Ipc__ConfigEntry, t->n_configs);
	m->config = REQUEST_NEW(r, Ipc__ConfigEntry *, t->n_configs);
	if (entry == NULL || m->config == NULL)
		return false;
	m->n_config = t->n_configs;
	for (uint32_t i = 0; i < t->n_configs; i++) {
		Ipc__ConfigEntry *c = m->config[i] = &entry[i];
		ipc__config_entry__init(c);
		c->name = request_string(r, t->configs[i].name);
		c->value = request_string(r, t->configs[i].value);
		if (c->name == NULL || c->value == NULL)
			return false;
	}
	return true;
}

static bool fill_create(struct request *r, const struct kmsg_create_topics_request_topic *t, Ipc__CreateRequest *m)
{
	return create_fill(r, t->name, n_partitions(r, t), m) && fill_owners(r, t, m) && fill_configs(r, t, m);
}

static void create_next(struct request *r)
{
	const struct kmsg_create_topics_request *q = r->message;
	struct create *d = r->state;
	uint32_t n = d->n_asked - d->next < CREATES_MAX ? d->n_asked - d->next : CREATES_MAX;
	if (n == 0) {
		request_answer(r, d->response);
		return;
	}
	Ipc__CreateManyRequest m = IPC__CREATE_MANY_REQUEST__INIT;
	Ipc__CreateRequest *create = REQUEST_NEW(r, Ipc__CreateRequest, n), **list = REQUEST_NEW(r, Ipc__CreateRequest *, n);
	bool good = create != NULL && list != NULL;
	for (uint32_t i = 0; i < n && good; i++) {
		list[i] = &create[i];
		good = fill_create(r, &q->topics[d->asked[d->next + i]], &create[i]);
	}
	if (!good) {
		request_close(r, "memory");
		return;
	}
	d->n_now = n;
	m.n_create = n;
	m.create = list;
	m.validate_only = q->validate_only;
	request_call(r, IPC_CREATE_MANY, &m.base, NO_PAYLOAD, d->deadline_ms, on_made);
}

/* ------------------------------------------------------------------ begin */

void create_topics_handle(struct request *r)
{
	const struct kmsg_create_topics_request *q = r->message;
	struct create *d = r->state = REQUEST_NEW(r, struct create, 1);
	struct kmsg_create_topics_response_topic *topics = KMSG_NEW(&r->region, create_topics_response_topic, q->n_topics);
	if (d != NULL) {
		d->response = KMSG_NEW(&r->region, create_topics_response, 1);
		d->asked = REQUEST_NEW(r, uint32_t, q->n_topics);
		d->twice = find_twice(r);
	}
	if (d == NULL || topics == NULL || d->response == NULL || d->asked == NULL || d->twice == NULL) {
		request_close(r, "memory");
		return;
	}
	d->response->topics = topics;
	d->response->n_topics = q->n_topics;
	d->deadline_ms = request_deadline(r, q->timeout_ms);
	for (uint32_t i = 0; i < q->n_topics; i++) {
		topics[i].name = q->topics[i].name;
		topics[i].error_message = slice_of(NULL, 0);
		if (check(r, i, &topics[i]))
			d->asked[d->n_asked++] = i;
	}
	create_next(r);
}
