/* SPDX-License-Identifier: Apache-2.0
 *
 * A topic that was made is known everywhere a moment later: Metadata is asked until every partition has a leader.
 */
#include "cli/kafka_topics.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench.h"
#include "common/kafka_error.h"
#include "common/must.h"

#define REGION_MAX (256u << 20)
#define TIMEOUT_MS 60000
#define LEADER_WAIT_NS (30 * 1000000000ull)
#define LEADER_POLL_US 50000

static const struct slice no_text = { NULL, 0 };

/* ------------------------------------------------------------------- metadata */

/* The address of a node among those that lead something, which it joins. -1: the answer does not say where it is. */
static int node_index(struct kafka_topics *t, const struct kmsg_metadata_response *a, int32_t id)
{
	struct bench_address address = { 0 };
	for (uint32_t i = 0; i < a->n_brokers; i++) {
		if (a->brokers[i].node_id != id)
			continue;
		snprintf(address.host, sizeof(address.host), "%.*s", (int)a->brokers[i].host.n, (const char *)a->brokers[i].host.p);
		snprintf(address.port, sizeof(address.port), "%u", (unsigned)a->brokers[i].port & 0xffff);
	}
	if (address.host[0] == '\0')
		return -1;
	for (unsigned i = 0; i < t->n_nodes; i++)
		if (strcmp(t->node[i].host, address.host) == 0 && strcmp(t->node[i].port, address.port) == 0)
			return (int)i;
	t->node[t->n_nodes] = address;
	return (int)t->n_nodes++;
}

static int topic_index(const struct kafka_topics *t, struct slice name, unsigned likely)
{
	if (likely < t->n && slice_eq(t->name[likely], name))
		return (int)likely;
	for (unsigned i = 0; i < t->n; i++)
		if (slice_eq(t->name[i], name))
			return (int)i;
	return -1;
}

/* Partitions that have a leader, of this topic. */
static unsigned take_topic(struct kafka_topics *t, const struct kmsg_metadata_response *a, uint32_t at)
{
	const struct kmsg_metadata_response_topic *from = &a->topics[at];
	int index = topic_index(t, from->name, at);
	unsigned found = 0;
	for (uint32_t i = 0; index >= 0 && i < from->n_partitions; i++) {
		const struct kmsg_metadata_response_partition *p = &from->partitions[i];
		if (p->partition_index < 0 || (unsigned)p->partition_index >= t->partitions || p->leader_id < 0)
			continue;
		int node = node_index(t, a, p->leader_id);
		struct kafka_part *part = &t->part[(unsigned)index * t->partitions + (unsigned)p->partition_index];
		*part = (struct kafka_part){ (uint32_t)index, p->partition_index, (unsigned)node, p->leader_epoch };
		found += node >= 0;
	}
	if (index >= 0)
		t->id[index] = from->topic_id;
	return found;
}

/* Asks once. *ret_found: partitions that have a leader. */
static int metadata(struct kafka_topics *t, unsigned *ret_found)
{
	struct kmsg_metadata_request request = { .n_topics = t->n };
	struct kmsg_metadata_response answer;
	struct region region;
	region_init(&region, REGION_MAX);
	request.topics = KMSG_NEW(&region, metadata_request_topic, t->n);
	must(request.topics != NULL);
	for (unsigned i = 0; i < t->n; i++)
		request.topics[i].name = t->name[i];
	struct kafka_call call = { KAFKA_METADATA, &request, &region, &answer };
	int code = kafka_client_call(t->client, &call, 1);
	unsigned found = 0;
	t->n_nodes = 0;
	for (uint32_t i = 0; code == CLI_OK && i < answer.n_topics; i++)
		found += take_topic(t, &answer, i);
	region_done(&region);
	*ret_found = found;
	return code;
}

static int wait_for_leaders(struct kafka_topics *t)
{
	unsigned found = 0, all = t->n * t->partitions;
	uint64_t until = bench_now_ns() + LEADER_WAIT_NS;
	int code = metadata(t, &found);
	while (code == CLI_OK && found != all && bench_now_ns() < until && !bench_is_interrupted()) {
		usleep(LEADER_POLL_US);
		code = metadata(t, &found);
	}
	if (code == CLI_OK && found != all)
		code = cli_fail(CLI_FAILED, "%u of %u partitions have a leader", found, all);
	return code;
}

/* ------------------------------------------------------------- make and delete */

static int topics_create(struct kafka_topics *t)
{
	struct kmsg_create_topics_request request = { .n_topics = t->n, .timeout_ms = TIMEOUT_MS };
	struct kmsg_create_topics_response answer;
	struct region region;
	region_init(&region, REGION_MAX);
	request.topics = KMSG_NEW(&region, create_topics_request_topic, t->n);
	must(request.topics != NULL);
	for (unsigned i = 0; i < t->n; i++)
		request.topics[i] = (struct kmsg_create_topics_request_topic){
			.name = t->name[i], .num_partitions = (int32_t)t->partitions, .replication_factor = 1 };
	struct kafka_call call = { KAFKA_CREATE_TOPICS, &request, &region, &answer };
	t->made = true;
	int code = kafka_client_call(t->client, &call, 1);
	for (uint32_t i = 0; code == CLI_OK && i < answer.n_topics; i++)
		if (answer.topics[i].error_code != 0)
			code = kafka_client_fail(t->client, "CreateTopics", answer.topics[i].error_code,
						 answer.topics[i].error_message);
	region_done(&region);
	return code;
}

static void topics_init(struct kafka_topics *t, unsigned n, unsigned partitions)
{
	struct timespec now;
	t->n = n;
	t->partitions = partitions;
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(t->prefix, sizeof(t->prefix), "bench.%d-%lld-", (int)getpid(),
		 (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	region_init(&t->region, REGION_MAX);
	t->name = region_calloc(&t->region, n, sizeof(*t->name));
	t->id = region_calloc(&t->region, n, sizeof(*t->id));
	t->part = region_calloc(&t->region, (size_t)n * partitions, sizeof(*t->part));
	t->node = region_calloc(&t->region, (size_t)n * partitions, sizeof(*t->node));
	for (unsigned i = 0; i < n && !t->region.failed; i++)
		t->name[i] = region_printf(&t->region, "%s%u", t->prefix, i);
	must(!t->region.failed);
}

int kafka_topics_make(struct kafka_topics *t, const struct kafka_client *k, unsigned n, unsigned partitions)
{
	*t = (struct kafka_topics){ .client = k };
	topics_init(t, n, partitions);
	int code = topics_create(t);
	return code != CLI_OK ? code : wait_for_leaders(t);
}

int kafka_topics_delete(struct kafka_topics *t)
{
	struct kmsg_delete_topics_request request = { .n_topics = t->n, .topic_names = t->name, .n_topic_names = t->n,
						      .timeout_ms = TIMEOUT_MS };
	struct kmsg_delete_topics_response answer;
	struct region region;
	if (!t->made)
		return CLI_OK;
	region_init(&region, REGION_MAX);
	request.topics = KMSG_NEW(&region, delete_topics_request_topic, t->n);
	must(request.topics != NULL);
	for (unsigned i = 0; i < t->n; i++)
		request.topics[i].name = t->name[i];
	struct kafka_call call = { KAFKA_DELETE_TOPICS, &request, &region, &answer };
	int code = kafka_client_call(t->client, &call, 1);
	for (uint32_t i = 0; code == CLI_OK && i < answer.n_responses; i++)
		if (answer.responses[i].error_code != 0)
			code = kafka_client_fail(t->client, "DeleteTopics", answer.responses[i].error_code,
						 answer.responses[i].error_message);
	region_done(&region);
	return code;
}

void kafka_topics_done(struct kafka_topics *t)
{
	region_done(&t->region);
}

/* ------------------------------------------------------------------ producers */

int kafka_producers_make(const struct kafka_client *k, struct kafka_producer *producers, unsigned n)
{
	static const struct kmsg_init_producer_id_request request = { .transaction_timeout_ms = TIMEOUT_MS, .producer_id = -1,
								      .producer_epoch = -1 };
	struct region region;
	region_init(&region, REGION_MAX);
	struct kmsg_init_producer_id_response *answer = KMSG_NEW(&region, init_producer_id_response, n);
	struct kafka_call *call = region_calloc(&region, n, sizeof(*call));
	must(answer != NULL && call != NULL);
	for (unsigned i = 0; i < n; i++)
		call[i] = (struct kafka_call){ KAFKA_INIT_PRODUCER_ID, &request, &region, &answer[i] };
	int code = kafka_client_call(k, call, n);
	for (unsigned i = 0; i < n && code == CLI_OK; i++) {
		if (answer[i].error_code != 0)
			code = kafka_client_fail(k, "InitProducerId", answer[i].error_code, no_text);
		producers[i] = (struct kafka_producer){ answer[i].producer_id, answer[i].producer_epoch };
	}
	region_done(&region);
	return code;
}
