/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeTopicPartitions, version 0 (KIP-966): topics in order of name, those asked for or all that have a Kafka name,
 * from a cursor on and at most so many partitions; the next cursor says where to go on.
 */
#include "worker-kafka/api.h"

#include <stdlib.h>

#include "common/must.h"
#include "common/topic_name.h"
#include "worker-kafka/ask_topics.h"

#define LIMIT_MAX 2000                  /* partitions of one answer */
#define PAGE 1000

struct describe {
	struct kmsg_describe_topic_partitions_response *response;
	struct brokers brokers;
	struct slice from;              /* topics before it are not wanted */
	uint32_t first;                 /* the partition of that topic that is next */
	uint32_t left;                  /* partitions that there is room for */
	struct slice *name;             /* asked for, in order, each once */
	uint32_t n_names, capacity;
};

typedef struct kmsg_describe_topic_partitions_response_partition partition_t;
typedef struct kmsg_describe_topic_partitions_response_topic topic_t;

/* ------------------------------------------------------------------ a topic */

static void fill_partition(const struct describe *d, const Ipc__Partition *p, uint32_t index, int32_t *owner, partition_t *to)
{
	bool known = brokers_has(&d->brokers, p->owner);
	*owner = (int32_t)p->owner;
	to->partition_index = (int32_t)index;
	to->error_code = known ? KAFKA_NONE : KAFKA_LEADER_NOT_AVAILABLE;
	to->leader_id = known ? *owner : -1;
	to->leader_epoch = (int32_t)p->epoch;
	to->replica_nodes = to->isr_nodes = owner;
	to->n_replica_nodes = to->n_isr_nodes = 1;
	to->eligible_leader_replicas = to->last_known_elr = owner; /* none, but not null: Java's Admin cannot take that */
}

static bool set_cursor(struct request *r, struct slice name, uint32_t partition)
{
	struct describe *d = r->state;
	d->left = 0;
	d->response->next_cursor = KMSG_NEW(&r->region, describe_topic_partitions_response_next_cursor, 1);
	if (d->response->next_cursor == NULL)
		return false;
	d->response->next_cursor->topic_name = name;
	d->response->next_cursor->partition_index = (int32_t)partition;
	return true;
}

/* As many of the partitions as there is room for; the cursor stands behind them. */
static bool fill_partitions(struct request *r, const Ipc__Topic *topic, topic_t *to)
{
	struct describe *d = r->state;
	uint32_t first = slice_eq(to->name, d->from) ? d->first : 0;
	uint32_t n = topic->n_partitions > first ? (uint32_t)topic->n_partitions - first : 0;
	n = n < d->left ? n : d->left;
	int32_t *owner = REQUEST_NEW(r, int32_t, n);
	to->partitions = KMSG_NEW(&r->region, describe_topic_partitions_response_partition, n);
	if (owner == NULL || to->partitions == NULL)
		return false;
	to->n_partitions = n;
	for (uint32_t i = 0; i < n; i++)
		fill_partition(d, topic->partitions[first + i], first + i, &owner[i], &to->partitions[i]);
	d->left -= n;
	return first + n >= topic->n_partitions || set_cursor(r, to->name, first + n);
}

static topic_t *add_topic(struct request *r, struct slice name)
{
	struct describe *d = r->state;
	topic_t *to = &d->response->topics[d->response->n_topics++];
	must(d->response->n_topics <= d->capacity);
	to->name = name;
	to->topic_authorized_operations = OPERATIONS_OF_TOPIC;
	return to;
}

static bool fill_topic(struct request *r, const Ipc__Topic *topic, struct slice name)
{
	const struct describe *d = r->state;
	if (d->response->next_cursor != NULL || name.p == NULL)
		return name.p != NULL;
	if (d->left == 0)
		return set_cursor(r, name, 0);
	topic_t *to = add_topic(r, name);
	if (topic->topic_id.len == sizeof(to->topic_id.bytes))
		memcpy(to->topic_id.bytes, topic->topic_id.data, sizeof(to->topic_id.bytes));
	return fill_partitions(r, topic, to);
}

static void describe_end(struct request *r)
{
	request_answer(r, ((const struct describe *)r->state)->response);
}

/* ------------------------------------------------------------------ those asked for */

static void topic_name(struct request *r, size_t i, struct slice *ret_name, const uint8_t **ret_id)
{
	*ret_name = ((const struct describe *)r->state)->name[i];
}

static bool topic_take(struct request *r, size_t i, enum pico_error_kind kind, const Ipc__Topic *topic)
{
	struct describe *d = r->state;
	if (topic != NULL)
		return fill_topic(r, topic, d->name[i]);
	if (d->response->next_cursor == NULL)
		add_topic(r, d->name[i])->error_code = (int16_t)error_of(r, kind, ERROR_OF_RECORDS);
	return true;
}

static int by_name(const void *a, const void *b)
{
	return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* In order, each once, from the cursor on; those that nobody can have are answered at once. */
static bool take_names(struct request *r)
{
	const struct kmsg_describe_topic_partitions_request *q = r->message;
	struct describe *d = r->state;
	struct slice *name = REQUEST_NEW(r, struct slice, q->n_topics);
	d->name = name;
	d->capacity = q->n_topics;
	d->response->topics = KMSG_NEW(&r->region, describe_topic_partitions_response_topic, q->n_topics);
	if (name == NULL || d->response->topics == NULL)
		return false;
	for (uint32_t i = 0; i < q->n_topics; i++)
		name[i] = q->topics[i].name;
	qsort(name, q->n_topics, sizeof(*name), by_name);
	for (uint32_t i = 0; i < q->n_topics; i++) {
		if (slice_cmp(name[i], d->from) < 0 || (i > 0 && slice_eq(name[i], name[i - 1])))
			continue;
		if (topic_alias_is_legal(name[i]))
			d->name[d->n_names++] = name[i];
		else
			add_topic(r, name[i])->error_code = KAFKA_INVALID_TOPIC_EXCEPTION;
	}
	return true;
}

static void ask_named(struct request *r)
{
	static const struct topics_question question = { topic_name, topic_take, describe_end };
	const struct kmsg_describe_topic_partitions_request *q = r->message;
	struct describe *d = r->state;
	size_t *asked = REQUEST_NEW(r, size_t, q->n_topics);
	if (asked == NULL || !take_names(r)) {
		request_close(r, "memory");
		return;
	}
	for (uint32_t i = 0; i < d->n_names; i++)
		asked[i] = i;
	ask_topics(r, &question, asked, d->n_names);
}

/* ------------------------------------------------------------------ all */

static void ask_all(struct request *r, const char *start_after);

/* Each topic but the first that is cut has a partition in the answer, so there is room for all of it. */
static void on_page(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct describe *d = r->state;
	const Ipc__ListKafkaAnswer *a = (const Ipc__ListKafkaAnswer *)m;
	if (a == NULL) {
		request_close(r, "topics cannot be listed");
		return;
	}
	bool good = true;
	for (size_t i = 0; i < a->n_topics && d->response->next_cursor == NULL && good; i++)
		good = fill_topic(r, a->topics[i], region_copy(&r->region, slice_str(a->topics[i]->kafka_topic)));
	if (!good)
		request_close(r, "memory");
	else if (a->has_more && a->n_topics > 0 && d->response->next_cursor == NULL)
		ask_all(r, a->topics[a->n_topics - 1]->kafka_topic);
	else
		describe_end(r);
}

static void ask_all(struct request *r, const char *start_after)
{
	Ipc__ListKafkaRequest m = IPC__LIST_KAFKA_REQUEST__INIT;
	m.start_after = (char *)(uintptr_t)start_after;
	m.limit = PAGE;
	request_call(r, IPC_LIST_KAFKA, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_page);
}

/* The list begins behind a name: this is the last one before `from` that no topic can have. */
static char *name_before(struct request *r, struct slice from)
{
	char *name = request_string(r, slice_of(from.p, from.n));
	if (name == NULL || from.n == 0)
		return name;
	struct slice before = region_printf(&r->region, "%.*s%c\x7f", (int)from.n - 1, name, name[from.n - 1] - 1);
	return before.p != NULL ? request_string(r, before) : NULL;
}

static void begin_all(struct request *r)
{
	struct describe *d = r->state;
	const char *start_after = name_before(r, d->from);
	d->capacity = d->left + 1;
	d->response->topics = KMSG_NEW(&r->region, describe_topic_partitions_response_topic, d->capacity);
	if (start_after != NULL && d->response->topics != NULL)
		ask_all(r, start_after);
	else
		request_close(r, "memory");
}

/* ------------------------------------------------------------------ begin */

/* A cursor or a limit that makes no sense: the answer has a place for errors in its topics only. */
static void refuse(struct request *r)
{
	const struct kmsg_describe_topic_partitions_request *q = r->message;
	struct describe *d = r->state;
	d->capacity = q->n_topics;
	d->response->topics = KMSG_NEW(&r->region, describe_topic_partitions_response_topic, q->n_topics);
	if (d->response->topics == NULL) {
		request_close(r, "memory");
		return;
	}
	for (uint32_t i = 0; i < q->n_topics; i++)
		add_topic(r, q->topics[i].name)->error_code = KAFKA_INVALID_REQUEST;
	describe_end(r);
}

static void on_nodes(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	const struct kmsg_describe_topic_partitions_request *q = r->message;
	struct describe *d = r->state;
	if (!brokers_take(r, (const Ipc__NodesAnswer *)m, &d->brokers))
		request_close(r, "memory");
	else if (q->n_topics > 0)
		ask_named(r);
	else
		begin_all(r);
}

void describe_topic_partitions_handle(struct request *r)
{
	const struct kmsg_describe_topic_partitions_request *q = r->message;
	struct describe *d = r->state = REQUEST_NEW(r, struct describe, 1);
	Ipc__NodesRequest nodes = IPC__NODES_REQUEST__INIT;
	bool has_cursor = q->cursor != NULL;
	if (d == NULL || (d->response = KMSG_NEW(&r->region, describe_topic_partitions_response, 1)) == NULL) {
		request_close(r, "memory");
		return;
	}
	if (q->response_partition_limit < 1 || (has_cursor && (q->cursor->partition_index < 0 ||
						!topic_alias_is_legal(q->cursor->topic_name)))) {
		refuse(r);
		return;
	}
	d->left = q->response_partition_limit < LIMIT_MAX ? (uint32_t)q->response_partition_limit : LIMIT_MAX;
	d->from = has_cursor ? q->cursor->topic_name : slice_str("");
	d->first = has_cursor ? (uint32_t)q->cursor->partition_index : 0;
	request_call(r, IPC_NODES, &nodes.base, NO_PAYLOAD, request_deadline(r, 0), on_nodes);
}
