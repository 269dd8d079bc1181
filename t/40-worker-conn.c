/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of worker-http: order of pipelined requests, framing, limits, time-outs, long polls,
 * bodies in pieces, drain.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/metrics.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/lib/http_world.h"
#include "worker-http/conn.h"

#define HOST " HTTP/1.1\r\nHost: x\r\n"
#define GET(path) "GET " path HOST "\r\n"
#define POST(path, n, body) "POST " path HOST "Content-Length: " n "\r\n\r\n" body

/* ------------------------------------------------------------------ helpers */

static void append_answer(struct seen *s, uint64_t base)
{
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	a.base_offset = base;
	a.next_offset = base + 1;
	give(s, &a.base);
}

static void error_answer(struct seen *s, enum pico_error_kind kind)
{
	struct pico_error e = { .kind = kind };
	give_error(s, &e);
}

/* A READ's answer with n bytes of the segment; the batches in them end at `end`. */
static void read_answer_at(struct seen *s, uint64_t from, uint64_t end, uint64_t confirm, bool closed, uint32_t offset,
			   uint32_t n)
{
	struct node *node = &w.place.node;
	struct call *c = s->call;
	Ipc__Topic t = IPC__TOPIC__INIT;
	Ipc__ReadAnswer a = IPC__READ_ANSWER__INIT;
	t.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)"0123456789abcdef", .len = 16 };
	t.content_type = "text/plain";
	a.topic = &t;
	a.from = from;
	a.confirm = confirm;
	a.end = end;
	a.closed = closed;
	a.n_partitions = 1;
	if (n > 0) {
		c->n_pieces = 1;
		c->pieces = must_calloc(1, sizeof(struct piece));
		c->pieces[0] = (struct piece){ .segment = &node->segment, .pin = &node->pin, .offset = offset, .length = n };
		pin_take(&node->pin);
	}
	give(s, &a.base);
}

/* With the first n bytes of the segment. */
static void read_answer(struct seen *s, uint64_t from, uint64_t confirm, bool closed, uint32_t n)
{
	read_answer_at(s, from, confirm, confirm, closed, 0, n);
}

static void wait_answer(struct seen *s, bool ready)
{
	Ipc__WaitAnswer a = IPC__WAIT_ANSWER__INIT;
	a.ready = ready;
	give(s, &a.base);
}

static size_t n_parked(void)
{
	return node_parked(&w.place.node);
}

static bool has_parked(void *arg)
{
	return n_parked() >= *(size_t *)arg;
}

static void wait_parked(size_t n)
{
	assert_true(place_run(&w.place, has_parked, &n, SOON));
	assert_int_equal(n_parked(), n);
}

static bool has_conns(void *arg)
{
	return w.worker.acceptor.n_conns == *(unsigned *)arg;
}

static void wait_conns(unsigned n)
{
	assert_true(place_run(&w.place, has_conns, &n, SOON));
}

static bool contains(void *arg)
{
	void **two = arg;
	struct client *c = two[0];
	client_pull(c);
	return strstr(tidy(buf_slice(&c->in)), two[1]) != NULL || c->ended;
}

/* Until that text has come. */
static void expect(struct client *c, const char *text)
{
	void *two[2] = { c, (void *)text };
	place_run(&w.place, contains, two, SOON);
	char *got = tidy(buf_slice(&c->in));
	if (strstr(got, text) == NULL)
		fail_msg("no '%s' in:\n%s", text, got);
}

static void expect_end(struct client *c, const char *text)
{
	client_wait_end(c);
	expect(c, text);
	client_close(c);
}

static unsigned count(struct client *c, const char *text)
{
	unsigned n = 0;
	client_pull(c);
	for (char *at = tidy(buf_slice(&c->in)); (at = strstr(at, text)) != NULL; at++)
		n++;
	return n;
}

/* ------------------------------------------------------------------ order and framing */

static void test_pipelining(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, w.port);
	client_say(&c, POST("/t", "1", "a") POST("/t", "1", "b") POST("/t", "1", "c") "HEAD /t" HOST "\r\n" POST("/t", "1", "d"));
	wait_parked(3);
	place_run_ms(&w.place, 20);
	assert_int_equal(n_parked(), 3); /* appends run side by side, what follows waits */
	append_answer(node_seen(&w.place.node, IPC_APPEND, 2), 12);
	append_answer(node_seen(&w.place.node, IPC_APPEND, 1), 11);
	place_run_ms(&w.place, 20);
	client_pull(&c);
	assert_int_equal(buf_len(&c.in), 0); /* answers keep their order */
	append_answer(node_seen(&w.place.node, IPC_APPEND, 0), 10);
	error_answer(next_call(), PICO_NOT_FOUND);
	append_answer(next_call(), 13);
	expect(&c, "Pico-Start-Seq: 13");
	char *got = tidy(buf_slice(&c.in)), *at = got;
	static const char *const order[] = { "Start-Seq: 10", "Start-Seq: 11", "Start-Seq: 12", "404", "Start-Seq: 13" };
	for (size_t i = 0; i < 5; i++)
		assert_non_null(at = strstr(at, order[i]));
	client_close(&c);
	world_close();
}

static void test_keep_alive(void **state)
{
	static const struct { const char *request, *in_answer; bool closes; } rows[] = {
		{ "OPTIONS /x" HOST "\r\n", "HTTP/1.1 204 No Content\n", false },
		{ "OPTIONS /x" HOST "Connection: close\r\n\r\n", "Connection: close\n", true },
		{ "OPTIONS /x HTTP/1.0\r\n\r\n", "Connection: close\n", true },
		{ "OPTIONS /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "Connection: keep-alive\n", false },
		{ "POST /\r\n\r\n", "HTTP/1.1 400 Bad Request\n", true },
		{ "GET / HTTP/2.0\r\n\r\n", "\"error\":\"version_not_supported\"", true },
		{ "POST /t" HOST "Expect: x\r\n\r\n", "HTTP/1.1 417 Expectation Failed\n", true },
	};
	world_open(NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct client c;
		client_open(&c, w.port);
		client_say(&c, rows[i].request);
		expect(&c, rows[i].in_answer);
		if (rows[i].closes) {
			client_wait_end(&c);
		} else {
			client_say(&c, "OPTIONS /x" HOST "\r\nOPTIONS /x" HOST "\r\n");
			while (count(&c, "204 No Content") < 3)
				place_run_ms(&w.place, 1);
			assert_false(c.ended);
		}
		client_close(&c);
	}
	world_close();
}

static void test_bodies(void **state)
{
	struct client c;
	world_open(NULL);
	client_open(&c, w.port);
	client_say(&c, "POST /t" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	place_run_ms(&w.place, 10);
	client_say(&c, "2;x\r\nde\r\n0\r\nT: v\r\n\r\n");
	assert_string_equal(strstr(print_call(next_call()), "|"), "|:'abcde'");
	append_answer(parked(), 1);
	client_say(&c, "POST /t" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	expect(&c, "HTTP/1.1 100 Continue\n\n");
	client_say(&c, "xy");
	assert_string_equal(strstr(print_call(next_call()), "|"), "|:'xy'");
	append_answer(parked(), 2);
	expect(&c, "Pico-Start-Seq: 2");
	client_close(&c);
	world_close();
}

static void test_common_headers(void **state)
{
	static const char *const want[] = {
		"\r\nDate: ", " GMT\r\n", "\r\nX-Content-Type-Options: nosniff\r\n",
		"\r\nCross-Origin-Resource-Policy: same-origin\r\n", "\r\nX-Request-Id: my-id\r\n",
		"\r\nAllow: GET, PUT, POST, DELETE, HEAD, OPTIONS\r\n", "\r\nAccess-Control-Allow-Methods: ",
		"\r\nAccess-Control-Allow-Headers: ", "\r\nAccess-Control-Expose-Headers: ",
	};
	struct client c;
	world_open(NULL);
	client_open(&c, w.port);
	client_say(&c, "OPTIONS /x" HOST "Connection: close\r\nOrigin: http://a\r\nX-Request-Id: my-id\r\n\r\n");
	client_wait_end(&c);
	buf_put_u8(&c.in, '\0');
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_non_null(strstr((const char *)buf_head(&c.in), want[i]));
	assert_null(strstr((const char *)buf_head(&c.in), "Allow-Origin"));
	client_close(&c);
	client_open(&c, w.port);
	client_say(&c, "OPTIONS /x" HOST "Connection: close\r\nX-Request-Id: bad id\r\n\r\n");
	client_wait_end(&c);
	buf_put_u8(&c.in, '\0');
	const char *id = strstr((const char *)buf_head(&c.in), "X-Request-Id: ");
	assert_non_null(id);
	assert_int_equal(strspn(id + 14, "0123456789abcdef"), 16); /* made, as that one was not fit to echo */
	client_close(&c);
	world_close();
}

static void allow_origins(struct conf *conf)
{
	struct buf faults;
	buf_init(&faults, 1000);
	assert_int_equal(conf_set(conf, "cors-allow-origin", "http://a", true, &faults), 0);
	assert_int_equal(conf_set(conf, "cors-allow-origin", "http://b", false, &faults), 0);
	buf_done(&faults);
}

static void test_cors(void **state)
{
	struct client c;
	world_open(allow_origins);
	client_open(&c, w.port);
	client_say(&c, "OPTIONS /x" HOST "Origin: http://b\r\nConnection: close\r\n\r\n");
	client_wait_end(&c);
	expect(&c, "Vary: Origin\nAccess-Control-Allow-Origin: http://b\nAccess-Control-Expose-Headers: ");
	client_close(&c);
	client_open(&c, w.port);
	client_say(&c, "OPTIONS /x" HOST "Origin: http://c\r\nConnection: close\r\n\r\n");
	client_wait_end(&c);
	expect(&c, "Vary: Origin\n");
	assert_int_equal(count(&c, "Allow-Origin"), 0);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ limits */

static void few_in_flight(struct conf *conf)
{
	conf->max_inflight = 3;
}

static void test_max_inflight(void **state)
{
	struct client c;
	world_open(few_in_flight);
	client_open(&c, w.port);
	for (int i = 0; i < 8; i++)
		client_say(&c, POST("/t", "1", "x"));
	wait_parked(3);
	place_run_ms(&w.place, 20);
	assert_int_equal(n_parked(), 3);
	for (uint64_t i = 0; i < 8; i++)
		append_answer(next_call(), i);
	expect(&c, "Pico-Start-Seq: 7");
	client_close(&c);
	world_close();
}

static void small_bodies(struct conf *conf)
{
	conf->max_request_size = 65536;
	conf->max_message_size = 1024;
}

static void send_body(struct client *c, const char *head, size_t n)
{
	char *body = malloc(n);
	memset(body, 'x', n);
	client_say(c, head);
	client_send(c, slice_of(body, n));
	free(body);
}

static void test_body_limit(void **state)
{
	struct client c;
	world_open(small_bodies);
	client_open(&c, w.port);
	client_say(&c, "POST /t" HOST "Content-Length: 65537\r\nExpect: 100-continue\r\n\r\n");
	expect_end(&c, "HTTP/1.1 413 Content Too Large\n"); /* and no 100 Continue */
	client_open(&c, w.port);
	send_body(&c, "POST /t" HOST "Transfer-Encoding: chunked\r\n\r\n10001\r\n", 65537);
	expect_end(&c, "{\"error\":\"too_large\",\"message\":\"content too large\"}");
	/* A body at the limit is a record over the other limit: refused by name, and the connection is kept. */
	client_open(&c, w.port);
	send_body(&c, "POST /t" HOST "Content-Length: 65536\r\n\r\n", 65536);
	expect(&c, "HTTP/1.1 413 Content Too Large\n");
	client_say(&c, POST("/t", "1", "y"));
	append_answer(next_call(), 3);
	expect(&c, "Pico-Start-Seq: 3");
	client_close(&c);
	world_close();
}

/* 61 bytes of batch header and 8 of the record are added to a value of 955 to 1023 bytes. */
static void test_message_limit(void **state)
{
	struct client c;
	char head[100];
	world_open(small_bodies);
	for (size_t n = 953; n <= 956; n++) {
		client_open(&c, w.port);
		snprintf(head, sizeof(head), "POST /t" HOST "Connection: close\r\nContent-Length: %zu\r\n\r\n", n);
		send_body(&c, head, n);
		bool fits = 61 + 9 + n <= 1024;
		if (fits) {
			assert_int_equal(next_call()->payload_n, 61 + 9 + n);
			append_answer(parked(), 1);
		}
		expect_end(&c, fits ? "HTTP/1.1 200 OK" : "HTTP/1.1 413 Content Too Large");
	}
	world_close();
}

static void two_connections(struct conf *conf)
{
	conf->max_connections = 2;
}

static void test_max_connections(void **state)
{
	struct client a, b, c;
	uint64_t refused = metrics->value[METRIC_HTTP_REFUSED];
	world_open(two_connections);
	client_open(&a, w.port);
	client_open(&b, w.port);
	wait_conns(2);
	client_open(&c, w.port);
	expect_end(&c, "HTTP/1.1 503 Service Unavailable\n");
	assert_int_equal(metrics->value[METRIC_HTTP_REFUSED] - refused, 1);
	assert_int_equal(metrics->value[METRIC_HTTP_CONNECTIONS], 2);
	client_close(&a);
	wait_conns(1);
	client_open(&c, w.port);
	client_say(&c, "OPTIONS /x" HOST "\r\n");
	expect(&c, "204 No Content");
	client_close(&b);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ time-outs */

static void hurried(struct conf *conf)
{
	conf->header_timeout_ms = 100;
	conf->body_timeout_ms = 100;
	conf->idle_timeout_ms = 800;
}

static void test_timeouts(void **state)
{
	struct client head, body, idle, slow;
	world_open(hurried);
	client_open(&head, w.port);
	client_open(&body, w.port);
	uint64_t opened = env_now_ms(w.place.env);
	client_open(&idle, w.port);
	client_open(&slow, w.port);
	client_say(&head, "GET /t HTTP/1.1\r\n");
	client_say(&body, "POST /t" HOST "Content-Length: 10\r\n\r\nabc");
	client_say(&slow, POST("/t", "1", "x"));
	next_call();
	uint64_t began = env_now_ms(w.place.env);
	expect_end(&head, "HTTP/1.1 408 Request Timeout\n");
	expect_end(&body, "{\"error\":\"timeout\",\"message\":\"the request body stopped coming\"}");
	assert_true(env_now_ms(w.place.env) - began < 790);
	client_wait_end(&idle); /* nothing was asked: nothing is answered */
	assert_int_equal(buf_len(&idle.in), 0);
	assert_true(env_now_ms(w.place.env) - opened >= 790);
	append_answer(parked(), 1); /* a request in work is not idle */
	expect(&slow, "Pico-Start-Seq: 1");
	client_close(&idle);
	client_close(&slow);
	world_close();
}

/* A byte now and then keeps a body alive, but not a head. */
static void test_trickle(void **state)
{
	struct client body, head;
	world_open(hurried);
	client_open(&body, w.port);
	client_open(&head, w.port);
	client_say(&body, "POST /t" HOST "Content-Length: 5\r\n\r\n");
	client_say(&head, "GET /t" HOST);
	for (int i = 0; i < 5; i++) {
		place_run_ms(&w.place, 50);
		client_say(&body, "x");
		if (i < 2)
			client_say(&head, "A: b\r\n");
	}
	append_answer(next_call(), 4);
	expect(&body, "Pico-Start-Seq: 4");
	expect_end(&head, "408 Request Timeout");
	client_close(&body);
	world_close();
}

/* ------------------------------------------------------------------ long poll */

#define POLL GET("/t?live=long-poll&seq=6")

static void short_poll(struct conf *conf)
{
	conf->long_poll_timeout_ms = 150;
}

static void poll_parked(struct client *c)
{
	client_open(c, w.port);
	client_say(c, POLL);
	read_answer(next_call(), 6, 6, false, 0);
	struct seen *s = next_call();
	assert_string_equal(s->call->row->name, "WAIT");
	const Ipc__WaitRequest *m = (const Ipc__WaitRequest *)s->call->request;
	assert_int_equal(m->from, 6);
	assert_memory_equal(m->log->topic->topic_id.data, "0123456789abcdef", 16);
}

/* One record as a batch, at that place of the segment. Its size. */
static uint32_t store_at(const char *value, uint64_t base, uint32_t offset)
{
	struct record_batch_writer writer;
	struct buf batch;
	buf_init(&batch, 1 << 20);
	record_batch_begin(&writer, &batch);
	record_batch_add(&writer, slice_of(NULL, 0), slice_str(value), NULL, 0);
	record_batch_end(&writer);
	record_batch_place(buf_head(&batch), base, 1);
	record_batch_stamp(buf_head(&batch), buf_len(&batch), 99);
	uint32_t n = (uint32_t)buf_len(&batch);
	memcpy(w.place.node.segment.mem.base + offset, buf_head(&batch), n);
	buf_done(&batch);
	return n;
}

static uint32_t store_one(const char *value, uint64_t base)
{
	return store_at(value, base, 0);
}

static void test_long_poll(void **state)
{
	struct client c;
	world_open(NULL);
	poll_parked(&c);
	wait_answer(parked(), true);
	read_answer(next_call(), 6, 7, false, store_one("news", 6));
	expect(&c, "HTTP/1.1 200 OK\nPico-Next-Seq: 7\nPico-Up-To-Date: true\nPico-Cursor: ");
	expect(&c, "Content-Type: application/json\nCache-Control: no-store\n");
	expect(&c, "[{\"seq\":6,\"timestamp\":99,\"body\":\"news\"}]\n");
	assert_int_equal(count(&c, "ETag"), 0);
	client_close(&c);
	/* Closed and nothing left: at once. */
	client_open(&c, w.port);
	client_say(&c, POLL);
	read_answer(next_call(), 6, 6, true, 0);
	expect(&c, "HTTP/1.1 204 No Content\nPico-Next-Seq: 6\nPico-Up-To-Date: true\nPico-Closed: true\nPico-Cursor: ");
	client_close(&c);
	/* Deleted while it waits. */
	poll_parked(&c);
	error_answer(parked(), PICO_NOT_FOUND);
	expect(&c, "HTTP/1.1 404 Not Found\n");
	client_close(&c);
	world_close();
}

static void test_long_poll_ends(void **state)
{
	struct client c;
	world_open(short_poll);
	uint64_t began = env_now_ms(w.place.env);
	poll_parked(&c);
	uint64_t until = ((const Ipc__WaitRequest *)parked()->call->request)->deadline_ms;
	assert_in_range(until - began, 150, 250);
	wait_answer(parked(), false);
	expect(&c, "HTTP/1.1 204 No Content\nPico-Next-Seq: 6\nPico-Up-To-Date: true\nPico-Cursor: ");
	client_close(&c);
	/* Storaged says nothing at all: the same, a little later. */
	poll_parked(&c);
	expect(&c, "HTTP/1.1 204 No Content\n");
	client_close(&c);
	world_close();
}

static bool is_cancelled(void *arg)
{
	return ((struct seen *)arg)->cancelled;
}

static void test_hang_up(void **state)
{
	struct client c;
	world_open(NULL);
	poll_parked(&c);
	struct seen *s = parked();
	client_close(&c);
	assert_true(place_run(&w.place, is_cancelled, s, SOON));
	/* An append goes on without its client. */
	client_open(&c, w.port);
	client_say(&c, POST("/t", "1", "x"));
	s = next_call();
	struct linger hard = { .l_onoff = 1 };
	setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	client_close(&c);
	wait_conns(0);
	assert_false(s->cancelled);
	append_answer(s, 1);
	place_run_ms(&w.place, 10);
	world_close();
}

/* ------------------------------------------------------------------ bodies in pieces */

static void small_buffer(struct conf *conf)
{
	conf->conn_buffer_size = 65536;
	conf->stall_timeout_ms = 300;
}

/* One record of 900,000 bytes at offset 0 in the segment. */
static uint32_t store_large(void)
{
	char *value = malloc(900001);
	for (size_t i = 0; i < 900000; i++)
		value[i] = (char)('a' + i % 26);
	value[900000] = '\0';
	uint32_t n = store_one(value, 0);
	free(value);
	return n;
}

/* Answers every READ until the body is whole; the number of READs. */
static unsigned serve_reads(struct client *c, uint32_t n, size_t body)
{
	unsigned reads = 0;
	for (int turn = 0; turn < 20000 && buf_len(&c->in) < body; turn++) {
		client_pull(c);
		uv_run(&w.place.loop, UV_RUN_ONCE);
		assert_in_range(metrics->value[METRIC_HTTP_BUFFERED_BYTES], 0, 2 * 65536);
		if (parked() == NULL)
			continue;
		reads++;
		read_answer(parked(), 0, 1, false, n);
	}
	return reads;
}

static void test_large_raw(void **state)
{
	struct client c;
	world_open(small_buffer);
	uint32_t n = store_large();
	client_open(&c, w.port);
	client_say(&c, GET("/t?format=raw"));
	unsigned reads = serve_reads(&c, n, 900000 + 300);
	assert_in_range(reads, 900000 / 65536, 900000 / 65536 * 2);
	expect(&c, "Content-Length: 900000\n");
	const uint8_t *body = memmem(buf_head(&c.in), buf_len(&c.in), "\r\n\r\n", 4);
	assert_non_null(body);
	body += 4;
	assert_int_equal(buf_head(&c.in) + buf_len(&c.in) - body, 900000);
	for (size_t i = 0; i < 900000; i++)
		assert_int_equal(body[i], 'a' + i % 26);
	client_close(&c);
	world_close();
}

static void test_large_json(void **state)
{
	struct client c;
	world_open(small_buffer);
	uint32_t n = store_large();
	client_open(&c, w.port);
	client_say(&c, GET("/t"));
	serve_reads(&c, n, 900000 + 300);
	while (buf_len(&c.in) < 5 || memcmp(buf_head(&c.in) + buf_len(&c.in) - 5, "0\r\n\r\n", 5) != 0) {
		place_run_ms(&w.place, 1);
		if (parked() != NULL)
			read_answer(parked(), 0, 1, false, n);
		client_pull(&c);
	}
	expect(&c, "Transfer-Encoding: chunked\n");
	client_close(&c);
	world_close();
}

static char *text_of(char c, size_t n)
{
	char *text = must_calloc(1, n + 1);
	memset(text, c, n);
	return text;
}

/* Storaged gives the records one by one: the end is known when all were seen, the body comes in pieces meanwhile. */
static void run_gather(size_t each, const char *query)
{
	struct client c;
	uint32_t at[4] = { 0 };
	world_open(small_buffer);
	for (uint32_t i = 0; i < 3; i++) {
		char *text = text_of((char)('a' + i), each);
		at[i + 1] = at[i] + store_at(text, i, at[i]);
		free(text);
	}
	client_open(&c, w.port);
	client_say(&c, query);
	for (int turn = 0; turn < 20000 && buf_len(&c.in) < 3 * each + 250; turn++) {
		client_pull(&c);
		uv_run(&w.place.loop, UV_RUN_ONCE);
		if (parked() == NULL)
			continue;
		int64_t from = ((const Ipc__ReadRequest *)parked()->call->request)->from;
		uint64_t i = from < 0 ? 0 : (uint64_t)from;
		assert_in_range(i, 0, 2);
		read_answer_at(parked(), i, i + 1, 3, false, at[i], at[i + 1] - at[i]);
	}
	client_wait(&c, 3 * each + 250);
	const uint8_t *body = memmem(buf_head(&c.in), buf_len(&c.in), "\r\n\r\n", 4);
	assert_non_null(body);
	assert_int_equal(buf_head(&c.in) + buf_len(&c.in) - body - 4, 3 * each);
	for (size_t i = 0; i < 3 * each; i++)
		assert_int_equal(body[4 + i], 'a' + i / each);
	buf_put_u8(&c.in, '\0');
	assert_non_null(strstr((const char *)buf_head(&c.in), "Pico-Next-Seq: 3\r\nPico-Up-To-Date: true\r\n"));
	client_close(&c);
	world_close();
}

static void test_gather(void **state)
{
	run_gather(10, GET("/t?format=raw"));           /* all in the first piece */
	run_gather(30000, GET("/t?format=raw&bytes=0")); /* the second or third does not fit it */
	run_gather(300000, GET("/t?format=raw&bytes=0"));
}

/* The records go away between two pieces: the answer cannot be completed, so the connection ends without the rest. */
static void test_records_vanish(void **state)
{
	struct client c;
	world_open(small_buffer);
	uint32_t n = store_large();
	client_open(&c, w.port);
	client_say(&c, GET("/t?format=raw"));
	read_answer(next_call(), 0, 1, false, n);
	client_wait(&c, 30000);
	error_answer(next_call(), PICO_NOT_FOUND);
	client_wait_end(&c);
	assert_in_range(buf_len(&c.in), 30000, 200000);
	client_close(&c);
	world_close();
}

/* A client that reads nothing holds a buffer's worth and is dropped after the stall time-out. */
static void test_stalled_reader(void **state)
{
	struct client c;
	int small = 4096;
	world_open(small_buffer);
	uint32_t n = store_large();
	client_open(&c, w.port);
	setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	wait_conns(1);
	for (int i = 0; i < 12; i++) /* more than the kernel takes */
		client_say(&c, GET("/t?format=raw"));
	uint64_t began = env_now_ms(w.place.env), most = 0;
	while (w.worker.acceptor.n_conns > 0 && env_now_ms(w.place.env) - began < SOON) {
		uv_run(&w.place.loop, UV_RUN_ONCE);
		uint64_t now = metrics->value[METRIC_HTTP_BUFFERED_BYTES];
		most = now > most ? now : most;
		if (parked() != NULL)
			read_answer(parked(), 0, 1, false, n);
	}
	assert_int_equal(w.worker.acceptor.n_conns, 0);
	assert_in_range(most, 32768 + 1, 65536 + 4096); /* the piece that is sent, and the one after it */
	assert_in_range(env_now_ms(w.place.env) - began, 300, SOON);
	assert_int_equal(metrics->value[METRIC_HTTP_BUFFERED_BYTES], 0);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ drain */

static void on_drained(void *arg)
{
	w.drained = true;
}

static bool is_drained(void *arg)
{
	return w.drained;
}

static void test_drain(void **state)
{
	struct client poll, idle, busy, late;
	world_open(NULL);
	client_open(&idle, w.port);
	client_say(&idle, "OPTIONS /x" HOST "\r\n");
	expect(&idle, "204");
	poll_parked(&poll);
	client_open(&busy, w.port);
	client_say(&busy, POST("/t", "1", "x"));
	wait_parked(2);
	client_say(&idle, "OPTIONS /y" HOST "\r\n"); /* has come before the end: is answered */
	server_drain(&w.server, on_drained, NULL);
	expect_end(&poll, "HTTP/1.1 204 No Content\n");
	client_wait_end(&idle);
	assert_int_equal(count(&idle, "HTTP/1.1 204"), 2);
	assert_int_equal(count(&idle, "Connection: close"), 1);
	assert_false(w.drained);
	append_answer(node_seen(&w.place.node, IPC_APPEND, 0), 5);
	expect_end(&busy, "Pico-Start-Seq: 5");
	client_close(&idle);
	assert_true(place_run(&w.place, is_drained, NULL, SOON));
	client_open(&late, w.port); /* stays in the kernel's queue: nobody accepts */
	place_run_ms(&w.place, 20);
	assert_int_equal(w.worker.acceptor.n_conns, 0);
	client_close(&late);
	world_close();
}

/* A descriptor that the loop refuses, as it does when the kernel has no memory for one more: that connection is gone, the
 * worker goes on. */
static void test_unwatchable(void **state)
{
	static const uint8_t loopback[16];
	struct client c;
	world_open(NULL);
	w.worker.acceptor.n_conns++;
	conn_new(&w.server, memfd_create("no socket", MFD_CLOEXEC), loopback, &w.worker.child.listener[0]);
	assert_int_equal(w.worker.acceptor.n_conns, 0);
	assert_null(w.server.conns);
	client_open(&c, w.port);
	client_say(&c, "OPTIONS /x" HOST "Connection: close\r\n\r\n");
	expect_end(&c, "HTTP/1.1 204");
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipelining), cmocka_unit_test(test_keep_alive), cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_common_headers), cmocka_unit_test(test_cors), cmocka_unit_test(test_max_inflight),
		cmocka_unit_test(test_body_limit), cmocka_unit_test(test_message_limit),
		cmocka_unit_test(test_max_connections), cmocka_unit_test(test_timeouts), cmocka_unit_test(test_trickle),
		cmocka_unit_test(test_long_poll), cmocka_unit_test(test_long_poll_ends), cmocka_unit_test(test_hang_up),
		cmocka_unit_test(test_large_raw), cmocka_unit_test(test_large_json), cmocka_unit_test(test_gather),
		cmocka_unit_test(test_records_vanish),
		cmocka_unit_test(test_stalled_reader), cmocka_unit_test(test_drain),
		cmocka_unit_test(test_unwatchable),
	};
	return cmocka_run_group_tests_name("worker-conn", tests, NULL, NULL);
}
