/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico bench` over Kafka: produces batches, one a request, and fetches all of it afterwards, or meanwhile (--tail). A
 * run in which one request failed, or whose records are not all there, each once, has no figures.
 *
 * Connection i talks to the node i % nodes; the partitions that a node leads are dealt to its connections. With --tail
 * as many connections again consume.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/kafka_topics.h"
#include "common/kafka_error.h"
#include "common/must.h"
#include "common/record_batch.h"

#define REGION_MAX (64u << 20)
#define PRODUCE_TIMEOUT_MS 30000
#define FETCH_WAIT_MS 500
#define FETCH_MAX_BYTES (50u << 20)
#define FETCH_PARTITION_BYTES (1u << 20)
#define FETCH_BY_ID 13
#define TIMES_MAX (1u << 30)            /* bytes: batches that are not read yet, of a partition */

/* One partition; the same index as in the topics. */
struct part {
	uint64_t sent, position;        /* records: all of them, and those that were read */
	uint64_t again;                 /* times that they are read once more from the start */
	struct buf times;               /* with --tail: when each batch was sent that is not read yet, u64 */
};

/* One connection that produces, or consumes, or both by turns. */
struct lane {
	unsigned *part;                 /* its partitions */
	unsigned n, n_own;              /* the first n_own it also reads; the others are another's, too */
	int32_t *sequence;              /* of each part */
	unsigned turn;                  /* which is next */
	bool fetching;
	struct kafka_producer producer;
};

struct bench {
	struct bench_run *run;
	const struct bench_options *o;
	struct kafka_client client;
	struct kafka_topics topics;
	struct buf batch;               /* of every request; its numbers are written anew */
	struct part *part;
	unsigned n_parts;
	struct lane *lane;
	unsigned n_lanes;
	unsigned producing;             /* lanes that have not ended */
	struct region region;           /* of one request or answer */
	unsigned topic_hint;            /* where the topic of an answer is looked for first */
	uint64_t now_ns, got;           /* of the answer being read: its time, its records */
	uint64_t read_ns;               /* something was read last */
	int code;
};

static struct slice part_topic(const struct bench *b, unsigned part)
{
	return b->topics.name[b->topics.part[part].topic];
}

/* One request was answered with an error: the run ends. */
static bool part_fail(struct bench *b, const char *what, unsigned part, int16_t error)
{
	struct slice name = part_topic(b, part);
	b->code = cli_fail(CLI_FAILED, "%.*s [%d]: %s was answered %s; this run has no figures", (int)name.n,
			   (const char *)name.p, b->topics.part[part].partition, what, kafka_error_name(error));
	return false;
}

static bool senseless(struct bench *b, const char *what)
{
	b->code = cli_fail(CLI_FAILED, "the answer to %s makes no sense; this run has no figures", what);
	return false;
}

/* -------------------------------------------------------------------- produce */

static void count_produced(struct bench *b, const struct bench_time *t)
{
	if (t->started_ns >= b->run->counted_ns)
		bench_stats_add(&b->run->write, t->started_ns, t->took_ns, b->o->batch, b->o->batch * b->o->record_size);
}

static void produce_put(struct bench *b, unsigned part, struct buf *out)
{
	struct kmsg_produce_request_partition partition = { .index = b->topics.part[part].partition,
							    .records = { .bytes = buf_slice(&b->batch) } };
	struct kmsg_produce_request_topic topic = { .name = part_topic(b, part), .partition_data = &partition,
						    .n_partition_data = 1 };
	struct kmsg_produce_request request = { .acks = b->o->acks_number, .timeout_ms = PRODUCE_TIMEOUT_MS,
						.topic_data = &topic, .n_topic_data = 1 };
	must(kafka_client_put(&b->client, KAFKA_PRODUCE, (int32_t)part, &request, out));
}

static enum bench_next next_produce(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number)
{
	struct bench *b = arg;
	struct lane *l = &b->lane[connection];
	uint64_t now = bench_now_ns();
	enum bench_next next = bench_due(b->run, now);
	b->producing -= next == BENCH_END;
	if (next != BENCH_REQUEST)
		return next;
	unsigned k = l->turn++ % l->n, part = l->part[k];
	kafka_batch_number(&b->batch, &l->producer, l->producer.id >= 0 ? l->sequence[k] : -1);
	l->sequence[k] = (int32_t)(((uint32_t)l->sequence[k] + (uint32_t)b->o->batch) & INT32_MAX);
	b->part[part].sent += b->o->batch;
	if (b->o->tail)
		buf_put(&b->part[part].times, &now, sizeof(now));
	produce_put(b, part, out);
	*ret_number = part;
	if (b->o->acks_number != 0)
		return BENCH_REQUEST;
	count_produced(b, &(struct bench_time){ now, 0 });
	return BENCH_SILENT;
}

static bool on_produced(void *arg, unsigned connection, uint64_t number, void *state, const struct bench_time *t)
{
	struct bench *b = arg;
	unsigned part = (unsigned)number;
	struct kmsg_produce_response a;
	struct kafka_call call = { KAFKA_PRODUCE, NULL, &b->region, &a };
	region_reset(&b->region);
	if (kafka_client_read(&b->client, &call, (int32_t)part, kafka_wire_frame(state)) != 0 || a.n_responses != 1 ||
	    a.responses->n_partition_responses != 1)
		return senseless(b, "Produce");
	if (a.responses->partition_responses->error_code != 0)
		return part_fail(b, "Produce", part, a.responses->partition_responses->error_code);
	count_produced(b, t);
	return true;
}

/* ---------------------------------------------------------------------- fetch */

static bool part_is_over(const struct bench *b, unsigned part)
{
	const struct part *p = &b->part[part];
	return b->producing == 0 && (p->sent == 0 || (p->again == 0 && p->position >= p->sent));
}

/* At the end it begins again, if it shall. */
static void part_again(const struct bench *b, struct part *p)
{
	if (b->producing > 0 || p->again == 0 || p->position < p->sent)
		return;
	p->again--;
	p->position = 0;
}

/* The partitions of one topic, of `n` that stand together in the lane, beginning with another one each time. */
static void fetch_topic(struct bench *b, const struct lane *l, unsigned first, unsigned n,
			struct kmsg_fetch_request_topic *to)
{
	to->topic = part_topic(b, l->part[first]);
	to->topic_id = b->topics.id[b->topics.part[l->part[first]].topic];
	to->partitions = KMSG_NEW(&b->region, fetch_request_partition, n);
	must(to->partitions != NULL);
	for (unsigned i = 0; i < n; i++) {
		unsigned part = l->part[first + (i + l->turn) % n];
		if (part_is_over(b, part))
			continue;
		struct kmsg_fetch_request_partition *p = &to->partitions[to->n_partitions++];
		p->partition = b->topics.part[part].partition;
		p->current_leader_epoch = b->topics.part[part].leader_epoch;
		p->fetch_offset = (int64_t)b->part[part].position;
		p->partition_max_bytes = FETCH_PARTITION_BYTES;
	}
}

/* False when nothing is to be read any more. */
static bool fetch_put(struct bench *b, struct lane *l, struct buf *out)
{
	region_reset(&b->region);
	struct kmsg_fetch_request *q = KMSG_NEW(&b->region, fetch_request, 1);
	must(q != NULL);
	q->topics = KMSG_NEW(&b->region, fetch_request_topic, l->n_own);
	must(q->topics != NULL);
	q->max_wait_ms = FETCH_WAIT_MS;
	q->min_bytes = 1;
	q->max_bytes = FETCH_MAX_BYTES;
	for (unsigned i = 0, n; i < l->n_own; i += n) {
		for (n = 1; i + n < l->n_own && b->topics.part[l->part[i + n]].topic == b->topics.part[l->part[i]].topic; )
			n++;
		fetch_topic(b, l, i, n, &q->topics[q->n_topics]);
		q->n_topics += q->topics[q->n_topics].n_partitions > 0;
	}
	l->turn++;
	if (q->n_topics > 0)
		must(kafka_client_put(&b->client, KAFKA_FETCH, (int32_t)l->turn, q, out));
	return q->n_topics > 0;
}

static enum bench_next next_fetch(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number)
{
	struct bench *b = arg;
	struct lane *l = &b->lane[connection];
	if (l->fetching)
		return BENCH_LATER;
	if (bench_is_interrupted() && !b->o->tail)
		return BENCH_END;
	if (!fetch_put(b, l, out))
		return BENCH_END;
	*ret_number = l->turn;
	l->fetching = true;
	return BENCH_REQUEST;
}

/* With --tail a batch counts by itself, from when it was sent. False when it was not. */
static bool count_batch(struct bench *b, struct part *p)
{
	uint64_t sent;
	if (!b->o->tail)
		return true;
	if (buf_len(&p->times) < sizeof(sent))
		return false;
	memcpy(&sent, buf_head(&p->times), sizeof(sent));
	buf_consume(&p->times, sizeof(sent));
	if (sent >= b->run->counted_ns)
		bench_stats_add(&b->run->read, sent, b->now_ns - sent, b->o->batch, b->o->batch * b->o->record_size);
	return true;
}

static bool out_of_order(struct bench *b, unsigned part, const struct record_batch *batch)
{
	struct slice name = part_topic(b, part);
	b->code = cli_fail(CLI_FAILED, "%.*s [%d]: %u records at %" PRIu64 " were read where %" PRIu64 " at %" PRIu64
			   " were sent; this run has no figures", (int)name.n, (const char *)name.p,
			   b->topics.part[part].partition, batch->record_count, batch->base_offset, b->o->batch,
			   b->part[part].position);
	return false;
}

/* The batches of one partition must be those that were sent, one behind the other. */
static bool take_batches(struct bench *b, unsigned part, struct slice bytes)
{
	struct part *p = &b->part[part];
	struct record_batch batch;
	while (bytes.n > 0) {
		int64_t size = record_batch_size(bytes);
		if (size == 0 || size > (int64_t)bytes.n)
			return true;    /* a node may cut the last one off */
		if (size < 0 || record_batch_read(slice_of(bytes.p, (size_t)size), &batch) != 0)
			return senseless(b, "Fetch");
		if (batch.base_offset != p->position || batch.record_count != b->o->batch ||
		    (size_t)size != buf_len(&b->batch) || !count_batch(b, p))
			return out_of_order(b, part, &batch);
		p->position += batch.record_count;
		b->got += batch.record_count;
		part_again(b, p);
		bytes = slice_of(bytes.p + size, bytes.n - (size_t)size);
	}
	return true;
}

/* Which partition an answer is about, or -1. Topics are answered in the order of the request: the next one is tried first. */
static int part_of(struct bench *b, const struct kmsg_fetch_response_topic *topic, int32_t partition)
{
	bool by_id = b->client.version[KAFKA_FETCH] >= FETCH_BY_ID;
	for (unsigned k = 0; k < b->topics.n; k++) {
		unsigned i = (b->topic_hint + k) % b->topics.n;
		if (by_id ? memcmp(&b->topics.id[i], &topic->topic_id, sizeof(topic->topic_id)) != 0
			  : !slice_eq(b->topics.name[i], topic->topic))
			continue;
		b->topic_hint = i;
		return partition >= 0 && (unsigned)partition < b->topics.partitions
			? (int)(i * b->topics.partitions + (unsigned)partition) : -1;
	}
	return -1;
}

static bool take_partition(struct bench *b, int part, const struct kmsg_fetch_response_partition *a)
{
	if (part < 0)
		return senseless(b, "Fetch");
	if (a->error_code != 0)
		return part_fail(b, "Fetch", (unsigned)part, a->error_code);
	if (!take_batches(b, (unsigned)part, a->records.bytes))
		return false;
	const struct part *p = &b->part[part];
	if (!part_is_over(b, (unsigned)part) || a->high_watermark <= (int64_t)p->sent)
		return true;
	b->code = cli_fail(CLI_FAILED, "%" PRIu64 " records were sent and %" PRId64 " are there; this run has no figures",
			   p->sent, a->high_watermark);
	return false;
}

static bool take_answer(struct bench *b, const struct kmsg_fetch_response *a)
{
	for (uint32_t i = 0; i < a->n_responses; i++) {
		const struct kmsg_fetch_response_topic *topic = &a->responses[i];
		for (uint32_t k = 0; k < topic->n_partitions; k++)
			if (!take_partition(b, part_of(b, topic, topic->partitions[k].partition_index), &topic->partitions[k]))
				return false;
	}
	return true;
}

static bool on_fetched(void *arg, unsigned connection, uint64_t number, void *state, const struct bench_time *t)
{
	struct bench *b = arg;
	struct kmsg_fetch_response a;
	struct kafka_call call = { KAFKA_FETCH, NULL, &b->region, &a };
	region_reset(&b->region);
	b->lane[connection].fetching = false;
	b->now_ns = t->started_ns + t->took_ns;
	b->got = 0;
	if (kafka_client_read(&b->client, &call, (int32_t)number, kafka_wire_frame(state)) != 0)
		return senseless(b, "Fetch");
	if (a.error_code != 0)
		return part_fail(b, "Fetch", b->lane[connection].part[0], a.error_code);
	if (!take_answer(b, &a))
		return false;
	if (b->got > 0)
		b->read_ns = b->now_ns;
	if (b->got > 0 && !b->o->tail)
		bench_stats_add(&b->run->read, t->started_ns, t->took_ns, b->got, b->got * b->o->record_size);
	if (b->producing > 0 || b->now_ns - b->read_ns < BENCH_PATIENCE_NS)
		return true;
	b->code = cli_fail(CLI_FAILED, "not all that was sent can be read; this run has no figures");
	return false;
}

/* ----------------------------------------------------------------- both at once */

/* With --tail the first half of the connections produces, the second consumes. */
static enum bench_next next_tail(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number)
{
	const struct bench *b = arg;
	return connection < b->n_lanes ? next_produce(arg, connection, out, ret_number)
		: next_fetch(arg, connection - b->n_lanes, out, ret_number);
}

static bool on_tail(void *arg, unsigned connection, uint64_t number, void *state, const struct bench_time *t)
{
	const struct bench *b = arg;
	return connection < b->n_lanes ? on_produced(arg, connection, number, state, t)
		: on_fetched(arg, connection - b->n_lanes, number, state, t);
}

static int run_load(struct bench *b, unsigned connections, enum bench_next (*next)(void *, unsigned, struct buf *, uint64_t *),
		    bool (*on_answer)(void *, unsigned, uint64_t, void *, const struct bench_time *))
{
	struct bench_load load = { .wire = &kafka_wire, .address = b->topics.node, .n_addresses = b->topics.n_nodes,
				   .connections = connections, .depth = bench_depth(b->o), .next = next,
				   .on_answer = on_answer, .arg = b };
	b->read_ns = bench_now_ns();
	int code = bench_run(&load);
	return code != CLI_OK ? code : b->code;
}

static int produce_and_fetch(struct bench *b)
{
	b->producing = b->n_lanes;
	bench_begin(b->run);
	if (b->o->tail)
		return run_load(b, 2 * b->n_lanes, next_tail, on_tail);
	int code = run_load(b, b->n_lanes, next_produce, on_produced);
	return code == CLI_OK && !b->o->no_read ? run_load(b, b->n_lanes, next_fetch, on_fetched) : code;
}

/* ---------------------------------------------------------------------- lanes */

static bool lane_leads(const struct bench *b, unsigned lane, unsigned part)
{
	return b->topics.part[part].node == lane % b->topics.n_nodes;
}

/* The partitions of lane i's node are dealt to its lanes; a lane for which none is left takes one that another has. */
static void lane_fill(struct bench *b, unsigned i)
{
	struct lane *l = &b->lane[i];
	unsigned nodes = b->topics.n_nodes, rank = i / nodes, of = (b->n_lanes - i % nodes + nodes - 1) / nodes, n_led = 0;
	for (unsigned p = 0; p < b->n_parts; p++)
		n_led += lane_leads(b, i, p);
	l->part = must_calloc(n_led / of + 1, sizeof(*l->part));
	l->sequence = must_calloc(n_led / of + 1, sizeof(*l->sequence));
	unsigned k = 0;
	for (unsigned p = 0; p < b->n_parts; p++) {
		if (!lane_leads(b, i, p))
			continue;
		if (rank < n_led ? k % of == rank : k == rank % n_led)
			l->part[l->n++] = p;
		k++;
	}
	l->n_own = rank < n_led ? l->n : 0;
	l->producer = (struct kafka_producer){ -1, -1 };
}

static int make_lanes(struct bench *b)
{
	if (b->n_lanes < b->topics.n_nodes)
		return cli_fail(CLI_FAILED, "%u nodes lead the partitions: --connections must be that many", b->topics.n_nodes);
	for (unsigned i = 0; i < b->n_lanes; i++)
		lane_fill(b, i);
	if (b->o->acks_number >= 0)
		return CLI_OK;
	struct kafka_producer *producers = must_calloc(b->n_lanes, sizeof(*producers));
	int code = kafka_producers_make(&b->client, producers, b->n_lanes);
	for (unsigned i = 0; i < b->n_lanes; i++)
		b->lane[i].producer = producers[i];
	free(producers);
	return code;
}

/* ------------------------------------------------------------- the whole of it */

static int bench_all(struct bench *b)
{
	int code = kafka_batch_make(b->o->batch, b->o->record_size, b->o->codec_number, &b->batch);
	if (code == CLI_OK)
		code = kafka_topics_make(&b->topics, &b->client, (unsigned)b->o->streams, (unsigned)b->o->partitions);
	if (code == CLI_OK)
		code = make_lanes(b);
	if (code == CLI_OK)
		code = produce_and_fetch(b);
	if (code == CLI_OK)
		code = bench_report(b->run);
	int deleted = b->topics.made && !b->o->keep ? kafka_topics_delete(&b->topics) : CLI_OK;
	return code != CLI_OK ? code : deleted;
}

int bench_kafka(struct bench_run *r)
{
	struct bench *b = must_calloc(1, sizeof(*b));
	b->run = r;
	b->o = r->o;
	b->n_parts = (unsigned)(b->o->streams * b->o->partitions);
	b->n_lanes = (unsigned)b->o->connections;
	b->part = must_calloc(b->n_parts, sizeof(*b->part));
	b->lane = must_calloc(b->n_lanes, sizeof(*b->lane));
	for (unsigned i = 0; i < b->n_parts; i++) {
		buf_init(&b->part[i].times, TIMES_MAX);
		b->part[i].again = b->o->replays - 1;
	}
	region_init(&b->region, REGION_MAX);
	int code = kafka_client_open(&b->client, b->o->bootstrap);
	if (code == CLI_OK)
		code = bench_all(b);
	for (unsigned i = 0; i < b->n_parts; i++)
		buf_done(&b->part[i].times);
	for (unsigned i = 0; i < b->n_lanes; i++) {
		free(b->lane[i].part);
		free(b->lane[i].sequence);
	}
	kafka_topics_done(&b->topics);
	buf_done(&b->batch);
	region_done(&b->region);
	free(b->part);
	free(b->lane);
	free(b);
	return code;
}
