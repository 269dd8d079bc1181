/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of worker-kafka: what is no request, versions, and every bound on what a client can make it hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/kafka_error.h"
#include "common/metrics.h"
#include "common/must.h"
#include "t/lib/kafka_world.h"
#include "worker-kafka/conn.h"
#include "worker-kafka/request.h"

#define V 9
#define MIB (1u << 20)
#define SLICE(s) { (const uint8_t *)(s), sizeof(s) - 1 }
#define BYTES(s) slice_of((const uint8_t *)(s), sizeof(s) - 1)

/* ------------------------------------------------------------------ helpers */

static void produce_one(struct client *c, int32_t correlation_id, struct slice batch)
{
	struct part part = { .topic = "t", .batch = batch };
	ask_produce(c, V, correlation_id, 1, &part, 1);
}

static void ask_versions(struct client *c, int16_t version, int32_t correlation_id)
{
	struct kmsg_api_versions_request m = { .client_software_name = slice_str("x"), .client_software_version = slice_str("1") };
	ask(c, API_VERSIONS, version, correlation_id, &m);
}

/* A frame with that header and body. */
static void send_frame(struct client *c, int16_t key, int16_t version, struct slice body)
{
	struct buf b;
	uint8_t head[14];
	buf_init(&b, 64 * MIB);
	put_be32(head, (uint32_t)(10 + body.n));
	put_be16(head + 4, (uint16_t)key);
	put_be16(head + 6, (uint16_t)version);
	put_be32(head + 8, 7);
	put_be16(head + 12, 0xffff);
	buf_put(&b, head, sizeof(head));
	buf_put_slice(&b, body);
	client_send(c, buf_slice(&b));
	buf_done(&b);
}

static void frame_head(struct client *c, uint32_t length)
{
	uint8_t head[4];
	put_be32(head, length);
	client_send(c, slice_of(head, 4));
}

static void on_drained(void *arg)
{
	k.drained = true;
}

/* ------------------------------------------------------------------ what is no request */

static void test_no_frames(void **state)
{
	static const struct {
		struct slice bytes;
		const char *word;
	} rows[] = {
		{ SLICE("\0\0\0\0"), "reason=empty" },
		{ SLICE("\xff\xff\xff\xff"), "reason=negative-length" },
		{ SLICE("\x80\0\0\0"), "reason=negative-length" },
		{ SLICE("\x02\0\0\1"), "reason=too-large" },            /* 32 MiB and a byte */
		{ SLICE("\x7f\xff\xff\xff"), "reason=too-large" },
		{ SLICE("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"), "reason=tls" },
		{ SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "reason=http" },
		{ SLICE("POST /x HTTP/1.1\r\n\r\n"), "reason=http" },
		{ SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "reason=http" },
		{ SLICE("SSH-2.0-OpenSSH\r\n"), "reason=too-large" },
		{ SLICE("\0\0\0\3abc"), "header, closing" },              /* shorter than a header */
		{ SLICE("\0\0\0\x0a\0\3\0\1\0\0\0\7\0\x40"), "header, closing" }, /* a client id beyond the frame */
		{ SLICE("\0\0\0\x0a\0\x4d\0\0\0\0\0\7\xff\xff"), "unknown api" },
		{ SLICE("\0\0\0\x0a\xff\xff\0\0\0\0\0\7\xff\xff"), "unknown api" },
		{ SLICE("\0\0\0\x0a\0\x1a\0\0\0\0\0\7\xff\xff"), "unknown api" },       /* EndTxn: there are no transactions */
		{ SLICE("\0\0\0\x0a\0\3\0\x3f\0\0\0\7\xff\xff"), "unknown version" },
		{ SLICE("\0\0\0\x0a\0\3\0\1\0\0\0\7\xff\xff"), "malformed request" },   /* Metadata without a body */
		{ SLICE("\0\0\0\x0e\0\3\0\1\0\0\0\7\xff\xff\x7f\xff\xff\xff"), "malformed request" }, /* 2^31 topics */
	};
	struct client c;
	world_open(NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		log_capture();
		client_open(&c, k.port);
		client_send(&c, rows[i].bytes);
		expect_cut(&c, rows[i].word, 1);
		client_close(&c);
	}
	wait_conns(0);
	world_close();
}

/* Behind good requests these are answered, and what follows is not looked at. */
static void test_no_frame_behind(void **state)
{
	struct client c;
	world_open(NULL);
	log_capture();
	client_open(&c, k.port);
	produce_one(&c, 1, batch_of(1, "x"));
	send_frame(&c, 77, 0, slice_str(""));
	produce_one(&c, 2, batch_of(1, "x"));
	expect_silence(&c);
	give_stored(nth(IPC_SUBMIT, 0), 3);
	assert_int_equal(produced(answer(&c, PRODUCE, V, 1), 0)->base_offset, 3);
	expect_cut(&c, "unknown api", 1);
	assert_int_equal(n_calls(IPC_SUBMIT), 1);
	client_close(&c);
	world_close();
}

static bool has_conns(void *arg)
{
	return k.server.acceptor->n_conns == *(unsigned *)arg;
}

static void few_quick(struct conf *c)
{
	c->max_inflight = 2;
}

/* A connection that ends while its client still sends: the answers arrive all the same, and it is waited for a while. */
static void test_end_under_input(void **state)
{
	struct client drained, refused;
	unsigned none = 0;
	world_open(few_quick);
	struct slice large = large_batch(300000);
	client_open(&drained, k.port);
	client_open(&refused, k.port);
	produce_one(&refused, 7, batch_of(1, "x"));
	send_frame(&refused, 77, 0, slice_str(""));
	nth(IPC_SUBMIT, 0);
	for (int32_t i = 0; i < 2; i++)
		produce_one(&drained, i, batch_of(1, "x"));
	nth(IPC_SUBMIT, 2);
	client_send(&drained, large);           /* not read: two requests are under way */
	client_send(&refused, large);
	give_stored(nth(IPC_SUBMIT, 0), 7);
	place_run_ms(&k.place, 30);
	assert_int_equal(k.server.acceptor->n_conns, 2);
	server_drain(&k.server, on_drained, NULL);
	give_stored(nth(IPC_SUBMIT, 1), 5);
	give_stored(nth(IPC_SUBMIT, 2), 6);
	uint64_t began = env_now_ms(k.place.env);
	place_run_ms(&k.place, 50);             /* the clients have not looked yet */
	for (int32_t i = 0; i < 2; i++)
		assert_int_equal(produced(answer(&drained, PRODUCE, V, i), 0)->base_offset, 5 + i);
	assert_int_equal(produced(answer(&refused, PRODUCE, V, 7), 0)->base_offset, 7);
	client_wait_end(&drained);
	client_wait_end(&refused);
	assert_int_equal(n_calls(IPC_SUBMIT), 3);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0);
	assert_false(k.drained);
	assert_true(place_run(&k.place, has_conns, &none, SOON)); /* though they stay open */
	assert_in_range(env_now_ms(k.place.env) - began, 290, SOON);
	assert_true(k.drained);
	client_close(&drained);
	client_close(&refused);
	world_close();
}

/* A frame may come in any pieces. */
static void test_pieces(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	static const char bytes[] = "\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4abcd\0\0\0\x0a\0\x12\0\0\0\0\0\2\xff\xff";
	for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
		client_send(&c, slice_of((const uint8_t *)bytes + i, 1));
		uv_run(&k.place.loop, UV_RUN_NOWAIT);
	}
	answer(&c, API_VERSIONS, 0, 1);
	answer(&c, API_VERSIONS, 0, 2);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ versions */

static uint32_t n_served(void)
{
	uint32_t n = 0;
	for (int16_t key = 0; key < 128; key++)
		n += handler_is_served(key);
	return n;
}

static void test_api_versions(void **state)
{
	static const int16_t refused[] = { 5, 99, INT16_MAX, -1, INT16_MIN };
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	for (int16_t version = 0; version <= 4; version++) {
		ask_versions(&c, version, version);
		const struct kmsg_api_versions_response *a = answer(&c, API_VERSIONS, version, version);
		assert_int_equal(a->error_code, 0);
		assert_int_equal(a->n_api_keys, n_served());
		for (size_t i = 0; i < a->n_api_keys; i++) {
			const struct kafka_api *api = kafka_api_find(a->api_keys[i].api_key);
			assert_true(handler_is_served(api->key));
			assert_true(i == 0 || api->key > a->api_keys[i - 1].api_key);
			assert_int_equal(a->api_keys[i].min_version, api->low);
			assert_int_equal(a->api_keys[i].max_version, api->high);
		}
	}
	/* A version that nobody knows: the answer of version 0 with the range of ApiVersions, byte by byte. */
	for (size_t i = 0; i < 5; i++) {
		static const char want[] = "\0\0\0\x10\0\0\0\7\0\x23\0\0\0\1\0\x12\0\0\0\4";
		send_frame(&c, API_VERSIONS, refused[i], slice_str("whatever"));
		client_wait(&c, sizeof(want) - 1);
		assert_int_equal(buf_len(&c.in), sizeof(want) - 1);
		assert_memory_equal(buf_head(&c.in), want, sizeof(want) - 1);
		buf_consume(&c.in, sizeof(want) - 1);
	}
	client_close(&c);
	world_close();
}

/* The request of one partition of one topic, where there are such. */
static struct slice body_of(const struct kafka_api *api, int16_t version)
{
	struct kmsg_fetch_request_partition fp = { .partition = 3, .current_leader_epoch = -1 };
	struct kmsg_fetch_request_topic ft = { .topic = slice_str("t"), .partitions = &fp, .n_partitions = 1 };
	struct kmsg_fetch_request fetch = { .replica_id = -1, .topics = &ft, .n_topics = 1, .session_epoch = -1 };
	struct kmsg_list_offsets_request_partition lp = { .partition_index = 3, .current_leader_epoch = -1 };
	struct kmsg_list_offsets_request_topic lt = { .name = slice_str("t"), .partitions = &lp, .n_partitions = 1 };
	struct kmsg_list_offsets_request list = { .replica_id = -1, .topics = &lt, .n_topics = 1 };
	const void *m = api->key == FETCH ? (const void *)&fetch : api->key == LIST_OFFSETS ? (const void *)&list
		: api->request->of->defaults;
	struct buf out;
	buf_init(&out, MIB);
	if (version >= api->request->flexible_from)
		buf_put_u8(&out, 0); /* the tags of the header */
	must(kmsg_encode((struct kmsg_form){ api->request, version }, m, &out, NULL) == 0);
	struct slice body = region_copy(&k.region, buf_slice(&out));
	buf_done(&out);
	return body;
}

/* Where the error stands in what the table knows and is not served. */
static int16_t error_in(const struct kafka_api *api, const void *response)
{
	const struct kmsg_fetch_response *f = response;
	const struct kmsg_list_offsets_response *l = response;
	if (api->key == LIST_OFFSETS)
		return l->topics[0].partitions[0].partition_index == 3 ? l->topics[0].partitions[0].error_code : -1;
	assert_int_equal(api->key, FETCH);
	if (f->n_responses == 0)
		return f->error_code;
	assert_non_null(f->responses[0].partitions[0].records.bytes.p);
	return f->responses[0].partitions[0].partition_index == 3 ? f->responses[0].partitions[0].error_code : -1;
}

/* Versions below and above the range of each API that is served: 35 where it can be said, else one line and the end. */
static void test_other_versions(void **state)
{
	static const int16_t keys[] = { 0, 1, 2, 3, 10, 19, 20, 22 };
	struct client c;
	unsigned n_said = 0, n_cut = 0;
	world_open(NULL);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct kafka_api *api = kafka_api_find(keys[i]);
		for (int16_t version = -1; version <= api->high + 5; version++) {
			if (kafka_api_serves(api, version))
				continue;
			log_capture();
			client_open(&c, k.port);
			if (!kafka_api_knows(api, version)) {
				send_frame(&c, api->key, version, slice_str("\0\0\0\0\0"));
				expect_cut(&c, "unknown version", 1);
				n_cut++;
			} else {
				send_frame(&c, api->key, version, body_of(api, version));
				assert_int_equal(error_in(api, answer(&c, api->key, version, 7)), KAFKA_UNSUPPORTED_VERSION);
				n_said++;
			}
			client_close(&c);
		}
	}
	assert_int_equal(n_said, 5 + 3); /* Fetch 0-3 and 17, ListOffsets 0, 9 and 10 */
	assert_true(n_cut >= 8 * 3);
	assert_int_equal(k.place.node.n_seen, 0); /* storaged is not asked for what is refused */
	world_close();
}

/* ------------------------------------------------------------------ bounds of one connection */

static void few(struct conf *c)
{
	c->max_inflight = 4;
	c->conn_buffer_size = 65536;
	c->stall_timeout_ms = 300;
}

/* So many requests are taken, and the next when the oldest has been answered. */
static void test_inflight(void **state)
{
	struct client c;
	world_open(few);
	client_open(&c, k.port);
	for (int32_t i = 0; i < 10; i++)
		produce_one(&c, i, batch_of(1, "x"));
	for (size_t i = 0; i < 10; i++) {
		size_t taken = i + 4 < 10 ? i + 4 : 10;
		nth(IPC_SUBMIT, taken - 1);
		place_run_ms(&k.place, 10);
		assert_int_equal(n_calls(IPC_SUBMIT), taken);
		give_stored(nth(IPC_SUBMIT, i), i);
		assert_int_equal(produced(answer(&c, PRODUCE, V, (int32_t)i), 0)->base_offset, i);
	}
	client_close(&c);
	world_close();
}

static void push(struct client *c, struct slice *left)
{
	ssize_t n = left->n > 0 ? send(c->fd, left->p, left->n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
	if (n > 0)
		*left = slice_of(left->p + n, left->n - (size_t)n);
}

/* 150,000 requests to ApiVersions of 214 bytes: 32 MB, for answers of well over 10 MB. More than the kernel takes. */
#define FLOOD 150000u
#define FLOOD_SIZE 214

static struct slice flood(void)
{
	uint8_t *bytes = region_calloc(&k.region, FLOOD, FLOOD_SIZE);
	for (uint32_t i = 0; i < FLOOD; i++) {
		uint8_t *p = bytes + (size_t)FLOOD_SIZE * i;
		put_be32(p, FLOOD_SIZE - 4);
		put_be16(p + 4, API_VERSIONS);
		put_be32(p + 8, i);
		put_be16(p + 12, FLOOD_SIZE - 14);
	}
	return slice_of(bytes, (size_t)FLOOD_SIZE * FLOOD);
}

/* Sends as much as goes and reads nothing, until nothing more goes. */
static struct slice push_until_full(struct client *c, struct slice left)
{
	for (int quiet = 0; quiet < 30; quiet++) {
		size_t before = left.n;
		push(c, &left);
		uv_run(&k.place.loop, UV_RUN_ONCE);
		assert_in_range(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0, 2 * 65536);
		if (left.n != before)
			quiet = 0;
	}
	return left;
}

/* A client that sends and does not read is not read any more; when it reads, it gets every answer in order. */
static void test_never_reads(void **state)
{
	const uint32_t length = 10 + 6 * n_served();    /* of an answer of ApiVersions 0 */
	struct client c;
	world_open(few);
	k.worker.child.conf.stall_timeout_ms = 60000;
	client_open(&c, k.port);
	struct slice left = push_until_full(&c, flood());
	assert_true(left.n > 0);
	for (uint32_t i = 0; i < FLOOD; i++) {
		while (buf_len(&c.in) < 4 + length) {
			push(&c, &left);
			uv_run(&k.place.loop, UV_RUN_ONCE);
			client_pull(&c);
			assert_false(c.ended);
		}
		if (get_be32(buf_head(&c.in)) != length || get_be32(buf_head(&c.in) + 4) != i)
			fail_msg("answer %u: length %u, correlation id %u", i, get_be32(buf_head(&c.in)), get_be32(buf_head(&c.in) + 4));
		buf_consume(&c.in, 4 + length);
	}
	client_close(&c);
	world_close();
}

static bool is_alone(void *arg)
{
	return k.server.acceptor->n_conns == 0;
}

/* And cut when it takes nothing for stall-timeout-ms. */
static void test_stalled(void **state)
{
	struct client c;
	world_open(few);
	client_open(&c, k.port);
	push_until_full(&c, flood());
	uint64_t began = env_now_ms(k.place.env);
	assert_true(place_run(&k.place, is_alone, NULL, SOON));
	assert_in_range(env_now_ms(k.place.env) - began, 200, SOON);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0);
	client_close(&c);
	world_close();
}

static void hurried(struct conf *c)
{
	c->body_timeout_ms = 150;
	c->idle_timeout_ms = 400;
}

static void test_timeouts(void **state)
{
	struct client part, length, idle, busy, trickle;
	world_open(hurried);
	client_open(&part, k.port);
	client_open(&length, k.port);
	client_open(&idle, k.port);
	client_open(&busy, k.port);
	client_open(&trickle, k.port);
	client_send(&part, BYTES("\0\0\0\x20\0\3\0\1"));
	client_send(&length, BYTES("\0\0"));
	produce_one(&busy, 1, batch_of(1, "x"));
	client_send(&trickle, BYTES("\0\0\0\x0a\0\x12\0\0"));
	struct seen *s = nth(IPC_SUBMIT, 0);
	uint64_t began = env_now_ms(k.place.env);
	for (int i = 0; i < 6; i++) {   /* 300 ms in all: each byte is news */
		place_run_ms(&k.place, 50);
		client_send(&trickle, slice_of((const uint8_t *)"\0\0\0\2\xff\xff" + i, 1));
	}
	answer(&trickle, API_VERSIONS, 0, 2);
	client_wait_end(&part);
	client_wait_end(&length);
	assert_true(env_now_ms(k.place.env) - began < 395);
	client_wait_end(&idle);
	assert_in_range(env_now_ms(k.place.env) - began, 380, SOON);
	give_stored(s, 5); /* one that waits for us is not idle */
	assert_int_equal(produced(answer(&busy, PRODUCE, V, 1), 0)->base_offset, 5);
	client_close(&part);
	client_close(&length);
	client_close(&idle);
	client_close(&busy);
	client_close(&trickle);
	world_close();
}

/* Frames that wait count, too: with 64 KiB of them the socket is not read, however few requests they are. */
static void test_waiting_frames(void **state)
{
	struct client c;
	world_open(few);
	k.topics_wait = true; /* so that they wait for their topic */
	client_open(&c, k.port);
	for (int32_t i = 0; i < 4; i++)
		produce_one(&c, i, large_batch(40000));
	nth(IPC_GET_MANY, 0);
	place_run_ms(&k.place, 30);
	assert_in_range(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 80000, 110000);
	k.topics_wait = false;
	for (int32_t i = 0; i < 4; i++) {
		give_stored(nth(IPC_SUBMIT, (size_t)i), 1);
		answer(&c, PRODUCE, V, i);
	}
	client_close(&c);
	world_close();
}

/* What storaged did not get of a frame is its connection's, also while the rest of it is being stored. */
static void test_refused_frames(void **state)
{
	struct client c;
	world_open(few);
	struct part parts[2] = { { .topic = "t", .partition = -1, .batch = large_batch(40000) },
				 { .topic = "t", .batch = batch_of(1, "x") } };
	client_open(&c, k.port);
	for (int32_t i = 0; i < 4; i++)
		ask_produce(&c, V, i, 1, parts, 2);
	nth(IPC_SUBMIT, 1);
	place_run_ms(&k.place, 30);
	assert_int_equal(n_calls(IPC_SUBMIT), 2);
	assert_in_range(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 80000, 110000);
	for (int32_t i = 0; i < 4; i++) {
		give_stored(nth(IPC_SUBMIT, (size_t)i), 1);
		assert_int_equal(produced(answer(&c, PRODUCE, V, i), 0)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	}
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ bounds of all connections */

static void two_connections(struct conf *c)
{
	c->max_connections = 2;
}

static void test_max_connections(void **state)
{
	struct client a, b, c;
	uint64_t refused = metrics->value[METRIC_KAFKA_REFUSED];
	world_open(two_connections);
	client_open(&a, k.port);
	client_open(&b, k.port);
	wait_conns(2);
	client_open(&c, k.port);
	client_wait_end(&c);
	assert_int_equal(metrics->value[METRIC_KAFKA_REFUSED] - refused, 1);
	client_close(&c);
	client_close(&a);
	wait_conns(1);
	client_open(&c, k.port);
	ask_versions(&c, 0, 1);
	answer(&c, API_VERSIONS, 0, 1);
	client_close(&b);
	client_close(&c);
	world_close();
}

static void small_frames(struct conf *c)
{
	c->max_request_size = MIB;      /* all connections hold 8 MiB */
	c->max_message_size = 900000;
	c->body_timeout_ms = 60000;
}

#define UPLOADS 20

/* Large frames on many connections: those for which there is memory are read, the others wait and none is lost; small
 * ones go on meanwhile, and there is room for answers. */
static void test_large_frames(void **state)
{
	static struct client c[UPLOADS];
	struct client small, waiting;
	struct part part = { .topic = "t" };
	world_open(small_frames);
	client_open(&small, k.port);
	client_open(&waiting, k.port);
	struct slice batch = large_batch(880000);
	for (int i = 0; i < UPLOADS; i++) {
		client_open(&c[i], k.port);
		frame_head(&c[i], MIB);
		client_send(&c[i], slice_of(batch.p, 100000));
	}
	place_run_ms(&k.place, 30);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 6 * MIB);
	produce_one(&small, 1, batch_of(1, "x"));
	give_stored(nth(IPC_SUBMIT, 0), 1);
	answer(&small, PRODUCE, V, 1);
	ask_fetch(&waiting, 12, 2, (struct fetch_form){ .max_wait_ms = 20000, .min_bytes = 1 }, &part, 1);
	nth(IPC_FETCH, 0);
	place_run_ms(&k.place, 10);
	assert_true(metrics->value[METRIC_KAFKA_BUFFERED_BYTES] > 6 * MIB);
	ask_versions(&small, 3, 3);
	answer(&small, API_VERSIONS, 3, 3);
	client_close(&waiting);
	for (int i = 0; i < UPLOADS; i++)
		client_close(&c[i]);
	wait_conns(1);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0);
	for (int i = 0; i < UPLOADS; i++) {
		client_open(&c[i], k.port);
		frame_head(&c[i], 1000000);
	}
	place_run_ms(&k.place, 30);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 6000000);
	client_close(&c[0]);    /* one that was begun ends, and makes room for the next */
	wait_conns(UPLOADS);
	place_run_ms(&k.place, 30);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 6000000);
	for (int i = 1; i < UPLOADS; i++)
		client_close(&c[i]);
	wait_conns(1);
	client_close(&small);
	world_close();
}

static bool is_full(void *arg)
{
	give_all_topics();
	return topics_is_full(k.worker.topics);
}

/* Storaged takes no more than its credit: then no socket is read until it has answered. */
static void test_storaged_full(void **state)
{
	struct client a, b;
	world_open(NULL);
	client_open(&a, k.port);
	client_open(&b, k.port);
	struct slice batch = large_batch(15 * MIB);
	produce_one(&a, 0, batch);
	nth(IPC_SUBMIT, 0);
	produce_one(&a, 1, batch);
	produce_one(&a, 2, batch);
	assert_true(place_run(&k.place, is_full, NULL, SOON));
	uint64_t taken = metrics->value[METRIC_KAFKA_BYTES_IN];
	produce_one(&b, 9, batch_of(1, "x"));
	place_run_ms(&k.place, 50);
	assert_int_equal(metrics->value[METRIC_KAFKA_BYTES_IN], taken);
	assert_int_equal(n_calls(IPC_SUBMIT), 2);
	give_stored(nth(IPC_SUBMIT, 0), 1);
	give_stored(nth(IPC_SUBMIT, 1), 2);
	give_stored(nth(IPC_SUBMIT, 2), 3);
	for (int32_t i = 0; i < 3; i++)
		assert_int_equal(produced(answer(&a, PRODUCE, V, i), 0)->base_offset, i + 1);
	give_stored(nth(IPC_SUBMIT, 3), 4);
	assert_int_equal(produced(answer(&b, PRODUCE, V, 9), 0)->base_offset, 4);
	assert_false(k.server.full);
	client_close(&a);
	client_close(&b);
	world_close();
}

/* A descriptor that the loop refuses, as it does when the kernel has no memory for one more. */
static void test_unwatchable(void **state)
{
	static const uint8_t loopback[16];
	struct client c;
	world_open(NULL);
	log_capture();
	k.server.acceptor->n_conns++;
	conn_new(&k.server, memfd_create("no socket", MFD_CLOEXEC), loopback, &k.worker.child.listener[0]);
	assert_int_equal(log_lines("cannot watch a connection"), 1);
	assert_int_equal(k.server.acceptor->n_conns, 0);
	assert_null(k.server.conns);
	client_open(&c, k.port);
	ask_versions(&c, 0, 1);
	assert_true(((const struct kmsg_api_versions_response *)answer(&c, API_VERSIONS, 0, 1))->n_api_keys > 0);
	client_close(&c);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_frames), cmocka_unit_test(test_no_frame_behind), cmocka_unit_test(test_end_under_input),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_api_versions), cmocka_unit_test(test_other_versions), cmocka_unit_test(test_inflight),
		cmocka_unit_test(test_waiting_frames), cmocka_unit_test(test_refused_frames),
		cmocka_unit_test(test_never_reads), cmocka_unit_test(test_stalled), cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_max_connections), cmocka_unit_test(test_large_frames), cmocka_unit_test(test_storaged_full),
		cmocka_unit_test(test_unwatchable),
	};
	return cmocka_run_group_tests_name("worker-kafka-conn", tests, NULL, NULL);
}
