/* SPDX-License-Identifier: Apache-2.0
 *
 * What librdkafka's producer reaches:
 *
 *   bench-rdkafka HOST:PORT TOPIC SECONDS BATCH [BYTES [IDEMPOTENCE]]
 *
 * One partition, batches of at most BATCH records of BYTES (1024), IDEMPOTENCE true (as it is by default) or false, five
 * requests in flight allowed; an idempotent one of 2.0.2 uses one of them. Prints records and MB a
 * second of what was acknowledged; a record that was not ends it with an error.
 */
#include <librdkafka/rdkafka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLUSH_MS 60000
#define QUEUE_BATCHES 100               /* records waiting, in batches */

static uint64_t acknowledged;

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "bench-rdkafka: %s\n", what);
	exit(1);
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
	if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail(rd_kafka_err2str(m->err));
	acknowledged++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];
	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
		fail(why);
}

static rd_kafka_t *producer_new(const char *bootstrap, const char *batch, const char *idempotence)
{
	char why[256], queue[20];
	snprintf(queue, sizeof(queue), "%ld", QUEUE_BATCHES * atol(batch));
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	set(conf, "bootstrap.servers", bootstrap);
	set(conf, "enable.idempotence", idempotence);
	set(conf, "max.in.flight.requests.per.connection", "5");
	set(conf, "batch.num.messages", batch);
	set(conf, "batch.size", "10000000");
	set(conf, "linger.ms", "1");
	set(conf, "queue.buffering.max.messages", queue);
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (rk == NULL)
		fail(why);
	return rk;
}

/* Hands one record over (not copied: all have the same value), or lets the producer work while its queue is full. */
static void produce_one(rd_kafka_t *rk, rd_kafka_topic_t *topic, void *value, size_t n)
{
	while (rd_kafka_produce(topic, 0, 0, value, n, NULL, 0, NULL) != 0) {
		if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
			fail(rd_kafka_err2str(rd_kafka_last_error()));
		rd_kafka_poll(rk, 1);
	}
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 5 ? strtoul(argv[5], NULL, 10) : 1024;
	if (argc < 5 || argc > 7 || bytes == 0 || bytes > 1000000) {
		fprintf(stderr, "usage: bench-rdkafka HOST:PORT TOPIC SECONDS BATCH [BYTES [IDEMPOTENCE]]\n");
		return 2;
	}
	double seconds = atof(argv[3]);
	char *value = calloc(1, bytes);
	rd_kafka_t *rk = producer_new(argv[1], argv[4], argc > 6 ? argv[6] : "true");
	rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, argv[2], NULL);
	if (value == NULL || topic == NULL)
		fail("out of memory");
	memset(value, 'x', bytes);
	produce_one(rk, topic, value, bytes); /* what happens once: connection, metadata, producer id */
	if (rd_kafka_flush(rk, FLUSH_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("the first record was not acknowledged");
	acknowledged = 0;
	double began = now_s();
	for (uint64_t i = 0; now_s() - began < seconds; i++) {
		produce_one(rk, topic, value, bytes);
		if (i % 64 == 0)
			rd_kafka_poll(rk, 0);
	}
	if (rd_kafka_flush(rk, FLUSH_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("not all records were acknowledged");
	double took = now_s() - began;
	printf("records-per-s got %.0f\nMBps got %.1f\n", (double)acknowledged / took,
	       (double)acknowledged * (double)bytes / 1e6 / took);
	rd_kafka_topic_destroy(topic);
	rd_kafka_destroy(rk);
	free(value);
	return 0;
}
