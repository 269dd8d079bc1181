/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for a broker, which keeps nothing: the base line of producers, that is what a client reaches by itself.
 *
 *   bench-broker DELAY_US [PARTITIONS]   prints its port; answers each Produce DELAY_US after it has come
 *
 * Any topic has so many partitions, or one. Batches are not looked at but for their record count. It sleeps in ppoll() and is one
 * process, so it takes no more of the machine than it must.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/kafka_frame.h"
#include "common/must.h"
#include "common/record_batch.h"

#define CONNS_MAX 70
#define FRAME_MAX (32u << 20)
#define READ_MAX (256u << 10)
#define ANSWERS_MAX 1024
#define COUNT_AT 57             /* in a batch */

struct conn {
	int fd;                 /* -1: free */
	struct buf in, out;     /* out: answers, some not due yet */
	struct {
		uint64_t due_ns;
		size_t bytes;
	} answer[ANSWERS_MAX];  /* of out, a ring */
	size_t first, n;
};

static struct conn conns[CONNS_MAX];
static uint32_t n_partitions = 1;
static uint64_t delay_ns;
static int port;
static int64_t next_offset;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ answers */

static void *answer_metadata(struct region *region, const struct kmsg_metadata_request *q)
{
	static int32_t replica = 1;
	struct kmsg_metadata_response *a = KMSG_NEW(region, metadata_response, 1);
	a->brokers = KMSG_NEW(region, metadata_response_broker, 1);
	a->n_brokers = 1;
	a->brokers->node_id = a->controller_id = 1;
	a->brokers->host = slice_str("127.0.0.1");
	a->brokers->port = port;
	a->cluster_id = slice_str("none");
	a->topics = KMSG_NEW(region, metadata_response_topic, q->n_topics + 1);
	a->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics; i++) {
		struct kmsg_metadata_response_topic *t = &a->topics[i];
		t->name = q->topics[i].name;
		memset(t->topic_id.bytes, 7, sizeof(t->topic_id.bytes));
		t->partitions = KMSG_NEW(region, metadata_response_partition, n_partitions);
		t->n_partitions = n_partitions;
		for (uint32_t k = 0; k < n_partitions; k++) {
			struct kmsg_metadata_response_partition *p = &t->partitions[k];
			p->partition_index = (int32_t)k;
			p->leader_id = 1;
			p->leader_epoch = 0;
			p->replica_nodes = p->isr_nodes = &replica;
			p->n_replica_nodes = p->n_isr_nodes = 1;
		}
	}
	return a;
}

static void *answer_producer_id(struct region *region)
{
	struct kmsg_init_producer_id_response *a = KMSG_NEW(region, init_producer_id_response, 1);
	a->producer_id = 1;
	return a;
}

static void answer_topic(struct region *region, const struct kmsg_produce_request_topic *from,
			 struct kmsg_produce_response_topic *to)
{
	to->name = from->name;
	to->partition_responses = KMSG_NEW(region, produce_response_partition, from->n_partition_data);
	to->n_partition_responses = from->n_partition_data;
	for (uint32_t i = 0; i < from->n_partition_data; i++) {
		struct slice batch = from->partition_data[i].records.bytes;
		must(batch.n >= RECORD_BATCH_HEADER);
		to->partition_responses[i].index = from->partition_data[i].index;
		to->partition_responses[i].base_offset = next_offset;
		next_offset += get_be32(batch.p + COUNT_AT);
	}
}

static void *answer_produce(struct region *region, const struct kmsg_produce_request *q)
{
	struct kmsg_produce_response *a = KMSG_NEW(region, produce_response, 1);
	a->responses = KMSG_NEW(region, produce_response_topic, q->n_topic_data);
	a->n_responses = q->n_topic_data;
	for (uint32_t i = 0; i < q->n_topic_data; i++)
		answer_topic(region, &q->topic_data[i], &a->responses[i]);
	return a;
}

static void *answer_create(struct region *region, const struct kmsg_create_topics_request *q)
{
	struct kmsg_create_topics_response *a = KMSG_NEW(region, create_topics_response, 1);
	a->topics = KMSG_NEW(region, create_topics_response_topic, q->n_topics);
	a->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics; i++)
		a->topics[i].name = q->topics[i].name;
	return a;
}

static void *answer_delete(struct region *region, const struct kmsg_delete_topics_request *q)
{
	struct kmsg_delete_topics_response *a = KMSG_NEW(region, delete_topics_response, 1);
	a->responses = KMSG_NEW(region, delete_topics_response_topic, 1);
	a->n_responses = 1;
	a->responses->name = q->n_topic_names > 0 ? q->topic_names[0] : q->topics[0].name;
	return a;
}

static bool is_served(int16_t key)
{
	return key == 0 || key == 3 || (key >= 18 && key <= 20) || key == 22;
}

static void *answer_of(struct region *region, const struct kafka_request *head, const void *message)
{
	static struct kmsg_api_versions_response versions;
	switch (head->api_key) {
	case 0: return answer_produce(region, message);
	case 3: return answer_metadata(region, message);
	case 19: return answer_create(region, message);
	case 20: return answer_delete(region, message);
	case 22: return answer_producer_id(region);
	default:
		must(head->api_key == 18 && kafka_api_versions(region, is_served, &versions) == 0);
		return &versions;
	}
}

static void handle(struct conn *c, struct slice frame)
{
	struct kafka_request head;
	struct region region;
	size_t before = buf_len(&c->out);
	region_init(&region, 1u << 20);
	must(kafka_request_read(frame, &head) == 0 && head.api != NULL && c->n < ANSWERS_MAX);
	void *message = region_alloc(&region, head.api->request->of->size);
	if (!kafka_api_serves(head.api, head.api_version)) {
		struct kmsg_api_versions_response versions;
		head.api_version = 0;
		must(kafka_api_versions_refusal(&region, &versions) == 0);
		must(kafka_response_write(&c->out, &head, &versions, NULL) == 0);
	} else {
		struct kmsg_form form = { head.api->request, head.api_version };
		must(kmsg_decode(form, head.body, &region, message) == 0);
		must(kafka_response_write(&c->out, &head, answer_of(&region, &head, message), NULL) == 0);
	}
	size_t at = (c->first + c->n++) % ANSWERS_MAX;
	c->answer[at].due_ns = now_ns() + (head.api_key == 0 ? delay_ns : 0);
	c->answer[at].bytes = buf_len(&c->out) - before;
	region_done(&region);
}

/* -------------------------------------------------------------- connections */

static void conn_open(int fd)
{
	int one = 1;
	struct conn *c = conns;
	while (c < conns + CONNS_MAX && c->fd >= 0)
		c++;
	must(fd >= 0 && c < conns + CONNS_MAX);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->fd = fd;
	c->first = c->n = 0;
	buf_init(&c->in, 2 * FRAME_MAX);
	buf_init(&c->out, FRAME_MAX);
}

static void conn_close(struct conn *c)
{
	close(c->fd);
	buf_done(&c->in);
	buf_done(&c->out);
	c->fd = -1;
}

/* A frame at a time, so that none waits in memory for what has come behind it. */
static void conn_read(struct conn *c)
{
	const char *why;
	uint8_t *to = buf_reserve(&c->in, READ_MAX);
	must(to != NULL);
	ssize_t n = recv(c->fd, to, READ_MAX, MSG_DONTWAIT);
	if (n <= 0) {
		conn_close(c);
		return;
	}
	buf_commit(&c->in, (size_t)n);
	for (;;) {
		int64_t size = kafka_frame_size(buf_slice(&c->in), FRAME_MAX, &why);
		must(size >= 0);
		if (size == 0 || (size_t)size > buf_len(&c->in))
			return;
		handle(c, slice_of(buf_head(&c->in) + KAFKA_FRAME_LENGTH, (size_t)size - KAFKA_FRAME_LENGTH));
		buf_consume(&c->in, (size_t)size);
	}
}

/* Sends what is due; returns nanoseconds until the next answer is. */
static uint64_t conn_write(struct conn *c)
{
	uint64_t now = now_ns();
	size_t bytes = 0;
	while (c->n > 0 && c->answer[c->first].due_ns <= now) {
		bytes += c->answer[c->first].bytes;
		c->first = (c->first + 1) % ANSWERS_MAX;
		c->n--;
	}
	if (bytes > 0 && send(c->fd, buf_head(&c->out), bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
		conn_close(c);
		return UINT64_MAX;
	}
	buf_consume(&c->out, bytes);
	return c->n > 0 ? c->answer[c->first].due_ns - now : UINT64_MAX;
}

static void turn(int listener)
{
	struct pollfd p[CONNS_MAX + 1] = { { .fd = listener, .events = POLLIN } };
	uint64_t wait = UINT64_MAX;
	for (int i = 0; i < CONNS_MAX; i++) {
		if (conns[i].fd >= 0) {
			uint64_t w = conn_write(&conns[i]);
			wait = w < wait ? w : wait;
		}
		p[i + 1] = (struct pollfd){ .fd = conns[i].fd, .events = POLLIN };
	}
	struct timespec t = { (time_t)(wait / 1000000000u), (long)(wait % 1000000000u) };
	must(ppoll(p, CONNS_MAX + 1, wait == UINT64_MAX ? NULL : &t, NULL) >= 0);
	for (int i = 0; i < CONNS_MAX; i++)
		if (p[i + 1].revents != 0)
			conn_read(&conns[i]);
	if (p[0].revents != 0)
		conn_open(accept(listener, NULL, NULL));
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(a);
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: bench-broker DELAY_US [PARTITIONS]\n");
		return 2;
	}
	delay_ns = strtoull(argv[1], NULL, 10) * 1000;
	if (argc == 3)
		n_partitions = (uint32_t)strtoul(argv[2], NULL, 10);
	for (int i = 0; i < CONNS_MAX; i++)
		conns[i].fd = -1;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	must(bind(listener, (struct sockaddr *)&a, n) == 0 && listen(listener, 8) == 0);
	must(getsockname(listener, (struct sockaddr *)&a, &n) == 0);
	port = ntohs(a.sin_port);
	printf("%d\n", port);
	fflush(stdout);
	for (;;)
		turn(listener);
}
