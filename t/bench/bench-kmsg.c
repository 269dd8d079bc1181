/* SPDX-License-Identifier: Apache-2.0
 *
 * What decoding and encoding Kafka messages costs, in ns a field, for the messages that matter: a field is
 * a number, a string, an array or a struct. `bench-kmsg` prints one line a message.
 */
#include <stdio.h>
#include <time.h>

#include "common/kmsg_gen.h"
#include "common/must.h"

#define PARTITIONS 100
#define BUDGET_NS 200000000u
#define TURNS 50

static struct region made, decoded;
static struct buf bytes;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *produce(void)
{
	static const uint8_t batch[1024];
	struct kmsg_produce_request *q = KMSG_NEW(&made, produce_request, 1);
	q->topic_data = KMSG_NEW(&made, produce_request_topic, 1);
	q->n_topic_data = 1;
	q->topic_data->name = slice_str("some.topic");
	q->topic_data->partition_data = KMSG_NEW(&made, produce_request_partition, PARTITIONS);
	q->topic_data->n_partition_data = PARTITIONS;
	for (int i = 0; i < PARTITIONS; i++)
		q->topic_data->partition_data[i].records.bytes = slice_of(batch, sizeof(batch));
	return q;
}

static void *fetch(void)
{
	struct kmsg_fetch_request *q = KMSG_NEW(&made, fetch_request, 1);
	q->topics = KMSG_NEW(&made, fetch_request_topic, 1);
	q->n_topics = 1;
	q->topics->partitions = KMSG_NEW(&made, fetch_request_partition, PARTITIONS);
	q->topics->n_partitions = PARTITIONS;
	return q;
}

static void *fetched(void)
{
	struct kmsg_fetch_response *a = KMSG_NEW(&made, fetch_response, 1);
	a->responses = KMSG_NEW(&made, fetch_response_topic, 1);
	a->n_responses = 1;
	a->responses->partitions = KMSG_NEW(&made, fetch_response_partition, PARTITIONS);
	a->responses->n_partitions = PARTITIONS;
	return a;
}

static void *metadata(void)
{
	struct kmsg_metadata_response *a = KMSG_NEW(&made, metadata_response, 1);
	struct kmsg_metadata_response_topic *t = KMSG_NEW(&made, metadata_response_topic, 1);
	a->topics = t;
	a->n_topics = 1;
	t->name = slice_str("some.topic");
	t->partitions = KMSG_NEW(&made, metadata_response_partition, PARTITIONS);
	t->n_partitions = PARTITIONS;
	for (int i = 0; i < PARTITIONS; i++) {
		t->partitions[i].replica_nodes = t->partitions[i].isr_nodes = &t->partitions[i].leader_id;
		t->partitions[i].n_replica_nodes = t->partitions[i].n_isr_nodes = 1;
	}
	return a;
}

static void turn(struct kmsg_form form, const void *value, void *to)
{
	if (to != NULL) {
		region_reset(&decoded);
		must(kmsg_decode(form, buf_slice(&bytes), &decoded, to) == 0);
	} else {
		buf_reset(&bytes, SIZE_MAX);
		must(kmsg_encode(form, value, &bytes, NULL) == 0);
	}
}

/* The best of many runs: what else the machine does is not the codec's. */
static double ns_a_turn(struct kmsg_form form, const void *value, void *to)
{
	uint64_t end = now_ns() + BUDGET_NS, best = UINT64_MAX;
	for (uint64_t began = now_ns(), took; began < end; began += took) {
		for (int i = 0; i < TURNS; i++)
			turn(form, value, to);
		took = now_ns() - began;
		best = took < best ? took : best;
	}
	return (double)best / TURNS;
}

static void measure(const struct kmsg_desc *desc, int16_t version, const void *value, unsigned fields)
{
	struct kmsg_form form = { .desc = desc, .version = version };
	void *to = kmsg_new(&made, desc->of, 1);
	double encode = ns_a_turn(form, value, NULL), decode = ns_a_turn(form, value, to);
	must(kmsg_equal(desc->of, value, to));
	printf("%s v%d, %d partitions, %zu bytes: decode %.1f ns a field (%.0f ns), encode %.1f ns a field\n",
	       desc->name, version, PARTITIONS, buf_len(&bytes), decode / fields, decode, encode / fields);
}

int main(void)
{
	region_init(&made, 1u << 22);
	region_init(&decoded, 1u << 22);
	buf_init(&bytes, 1u << 22);
	measure(&kmsg_produce_request_desc, 9, produce(), 6 + 3 * PARTITIONS);
	measure(&kmsg_fetch_request_desc, 4, fetch(), 8 + 4 * PARTITIONS);
	measure(&kmsg_fetch_request_desc, 13, fetch(), 13 + 7 * PARTITIONS);
	measure(&kmsg_fetch_response_desc, 13, fetched(), 6 + 9 * PARTITIONS);
	measure(&kmsg_metadata_response_desc, 12, metadata(), 10 + 10 * PARTITIONS);
	region_done(&made);
	region_done(&decoded);
	buf_done(&bytes);
	return 0;
}
