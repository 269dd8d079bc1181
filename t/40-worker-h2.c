/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/2 connections of worker-http before a scripted storaged: streams side by side, what they hold, cancelled ones,
 * answers that cannot be completed, time-outs, drain. What a client must not do: t/50-http-h2.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/lib/http_world.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE };
#define END_STREAM 1
#define END_HEADERS 4
#define STREAMS 401

/* A client; heads of answers are not unpacked: HPACK is the node's own library's and other tests'. */
struct h2 {
	struct client c;
	struct { size_t body; bool head, ended; int reset; } stream[STREAMS];
	unsigned n_goaways, n_ended;
	uint32_t last_stream, code;     /* of the last GOAWAY */
};

/* ------------------------------------------------------------------ frames */

static void put_frame(struct buf *out, unsigned type, unsigned flags, uint32_t stream, struct slice payload)
{
	const uint8_t head[9] = { (uint8_t)(payload.n >> 16), (uint8_t)(payload.n >> 8), (uint8_t)payload.n, (uint8_t)type,
				  (uint8_t)flags, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),
				  (uint8_t)stream };
	buf_put(out, head, sizeof(head));
	buf_put_slice(out, payload);
}

static void send_frame(struct h2 *h, unsigned type, unsigned flags, uint32_t stream, struct slice payload)
{
	struct buf out;
	buf_init(&out, 1 << 20);
	put_frame(&out, type, flags, stream, payload);
	client_send(&h->c, buf_slice(&out));
	buf_done(&out);
}

static void send_u32(struct h2 *h, unsigned type, uint32_t stream, uint32_t v)
{
	const uint8_t p[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };
	send_frame(h, type, 0, stream, slice_of(p, 4));
}

static void put_field(struct buf *b, const char *name, const char *value)
{
	must(strlen(name) < 127 && strlen(value) < 127);
	buf_put_u8(b, 0);
	buf_put_u8(b, (uint8_t)strlen(name));
	buf_put_str(b, name);
	buf_put_u8(b, (uint8_t)strlen(value));
	buf_put_str(b, value);
}

static void ask(struct h2 *h, uint32_t stream, const char *method, const char *path, bool end)
{
	struct buf b;
	buf_init(&b, 4096);
	put_field(&b, ":method", method);
	put_field(&b, ":scheme", "http");
	put_field(&b, ":path", path);
	put_field(&b, ":authority", "x");
	send_frame(h, HEADERS, END_HEADERS | (end ? END_STREAM : 0), stream, buf_slice(&b));
	buf_done(&b);
}

static void h2_open(struct h2 *h, struct slice settings)
{
	memset(h, 0, sizeof(*h));
	client_open(&h->c, w.port);
	client_say(&h->c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	send_frame(h, SETTINGS, 0, 0, settings);
}

static uint32_t u32_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void note_frame(struct h2 *h, const uint8_t *head, struct slice payload)
{
	uint32_t stream = u32_at(head + 5);
	must(stream < STREAMS);
	if (head[3] == HEADERS)
		h->stream[stream].head = true;
	else if (head[3] == DATA)
		h->stream[stream].body += payload.n;
	else if (head[3] == RST_STREAM)
		h->stream[stream].reset = (int)u32_at(payload.p) + 1;
	if ((head[3] == HEADERS || head[3] == DATA) && (head[4] & END_STREAM) != 0) {
		h->stream[stream].ended = true;
		h->n_ended++;
	}
	if (head[3] == GOAWAY) {
		h->n_goaways++;
		h->last_stream = u32_at(payload.p);
		h->code = u32_at(payload.p + 4);
	} else if (head[3] == PING && (head[4] & 1) == 0) {
		send_frame(h, PING, 1, 0, payload);
	}
}

static void h2_pull(struct h2 *h)
{
	client_pull(&h->c);
	for (;;) {
		const uint8_t *p = buf_head(&h->c.in);
		size_t n = buf_len(&h->c.in) < 9 ? SIZE_MAX : 9 + (u32_at(p) >> 8);
		if (buf_len(&h->c.in) < n)
			return;
		note_frame(h, p, slice_of(p + 9, n - 9));
		buf_consume(&h->c.in, n);
	}
}

/* Runs the loop until it holds, pulling. */
#define WAIT_FOR(h, condition) do { \
	for (uint64_t began_ = env_now_ms(w.place.env); h2_pull(h), !(condition);) { \
		assert_true(env_now_ms(w.place.env) - began_ < SOON); \
		place_run_ms(&w.place, 1); \
	} \
} while (0)

/* ------------------------------------------------------------------ calls */

static void append_answer(struct seen *s, uint64_t base)
{
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	a.base_offset = base;
	a.next_offset = base + 1;
	give(s, &a.base);
}

/* A READ's answer: the first n bytes of the segment, one record. */
static void read_answer(struct seen *s, uint64_t from, uint64_t confirm, uint32_t n)
{
	struct node *node = &w.place.node;
	struct call *c = s->call;
	Ipc__Topic t = IPC__TOPIC__INIT;
	Ipc__ReadAnswer a = IPC__READ_ANSWER__INIT;
	t.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)"0123456789abcdef", .len = 16 };
	t.content_type = "text/plain";
	a.topic = &t;
	a.from = from;
	a.confirm = a.end = confirm;
	a.n_partitions = 1;
	if (n > 0) {
		c->n_pieces = 1;
		c->pieces = must_calloc(1, sizeof(struct piece));
		c->pieces[0] = (struct piece){ .segment = &node->segment, .pin = &node->pin, .length = n };
		pin_take(&node->pin);
	}
	give(s, &a.base);
}

static uint32_t store_large(size_t size)
{
	struct record_batch_writer writer;
	struct buf batch;
	char *value = must_calloc(1, size);
	buf_init(&batch, 1 << 20);
	record_batch_begin(&writer, &batch);
	record_batch_add(&writer, slice_of(NULL, 0), slice_of(value, size), NULL, 0);
	record_batch_end(&writer);
	record_batch_place(buf_head(&batch), 0, 1);
	record_batch_stamp(buf_head(&batch), buf_len(&batch), 99);
	uint32_t n = (uint32_t)buf_len(&batch);
	memcpy(w.place.node.segment.mem.base, buf_head(&batch), n);
	buf_done(&batch);
	free(value);
	return n;
}

static size_t n_parked(void)
{
	return node_parked(&w.place.node);
}

/* ------------------------------------------------------------------ streams */

/* No order: what is answered last was asked first; a long poll and a body under way are in nobody's way. */
static void test_independent(void **state)
{
	static struct h2 h;
	world_open(NULL);
	h2_open(&h, slice_of(NULL, 0));
	ask(&h, 1, "GET", "/t?seq=6&live=long-poll", true);
	read_answer(next_call(), 6, 6, 0);
	WAIT_FOR(&h, n_parked() == 1);
	ask(&h, 3, "POST", "/t", false);
	send_frame(&h, DATA, 0, 3, slice_str("half"));
	ask(&h, 5, "HEAD", "/t", true);
	ask(&h, 7, "POST", "/t", false);
	send_frame(&h, DATA, END_STREAM, 7, slice_str("whole"));
	WAIT_FOR(&h, n_parked() == 3);
	append_answer(node_seen(&w.place.node, IPC_APPEND, 0), 6);
	WAIT_FOR(&h, h.stream[7].ended);
	assert_false(h.stream[1].head || h.stream[3].head || h.stream[5].head);
	send_frame(&h, DATA, END_STREAM, 3, slice_str(" and half"));
	WAIT_FOR(&h, n_parked() == 3);
	struct seen *s = node_seen(&w.place.node, IPC_APPEND, 1);
	assert_string_equal(strstr(print_call(s), "|"), "|:'half and half'");
	append_answer(s, 7);
	WAIT_FOR(&h, h.stream[3].ended);
	client_close(&h.c);
	world_close();
}

static void few_in_flight(struct conf *conf)
{
	conf->max_inflight = 3;
}

static void test_max_inflight(void **state)
{
	static struct h2 h;
	world_open(few_in_flight);
	h2_open(&h, slice_of(NULL, 0));
	for (uint32_t s = 1; s < 17; s += 2) {
		ask(&h, s, "POST", "/t", false);
		send_frame(&h, DATA, END_STREAM, s, slice_str("x"));
	}
	WAIT_FOR(&h, n_parked() == 3);
	place_run_ms(&w.place, 20);
	assert_int_equal(n_parked(), 3);
	for (uint64_t i = 0; i < 8; i++)
		append_answer(next_call(), i);
	WAIT_FOR(&h, h.n_ended == 8);
	client_close(&h.c);
	world_close();
}

/* A stream that its client gives up abandons its call; an append goes on. */
static void test_cancel(void **state)
{
	static struct h2 h;
	world_open(NULL);
	h2_open(&h, slice_of(NULL, 0));
	ask(&h, 1, "GET", "/t?seq=6&live=long-poll", true);
	read_answer(next_call(), 6, 6, 0);
	struct seen *poll = next_call();
	size_t at = (size_t)(poll - w.place.node.seen);
	ask(&h, 3, "POST", "/t", false);
	send_frame(&h, DATA, END_STREAM, 3, slice_str("x"));
	WAIT_FOR(&h, n_parked() == 2);
	send_u32(&h, RST_STREAM, 1, 8);
	send_u32(&h, RST_STREAM, 3, 8);
	WAIT_FOR(&h, w.place.node.seen[at].cancelled);
	assert_false(node_seen(&w.place.node, IPC_APPEND, 0)->cancelled);
	append_answer(node_seen(&w.place.node, IPC_APPEND, 0), 6);
	ask(&h, 5, "OPTIONS", "/t", true);
	WAIT_FOR(&h, h.stream[5].ended);
	assert_false(h.stream[1].head || h.stream[3].head);
	client_close(&h.c);
	world_close();
}

/* ------------------------------------------------------------------ bodies in pieces */

static const uint8_t no_window[6] = { 0, 4, 0, 0, 0, 0 };

/* Streams without a window hold two pieces each, and no READ goes on; one with a window is served beside them. */
static void test_stalled_streams(void **state)
{
	static struct h2 h;
	world_open(NULL);
	uint32_t n = store_large(900000);
	h2_open(&h, slice_of(no_window, 6));
	send_u32(&h, WINDOW_UPDATE, 0, 1u << 30);
	for (uint32_t s = 1; s < 101; s += 2)
		ask(&h, s, "GET", "/t?format=raw", true);
	for (int turn = 0; turn < 300; turn++) {
		place_run_ms(&w.place, 1);
		while (parked() != NULL)
			read_answer(parked(), 0, 1, n);
	}
	h2_pull(&h);
	assert_int_equal(n_parked(), 0);
	assert_in_range(metrics->value[METRIC_HTTP_BUFFERED_BYTES], 50 * 2 * 32768, 50 * 2 * 36864 + 4096); /* pieces, ended at a block of the value */
	assert_true(h.stream[99].head && h.stream[99].body == 0);
	send_u32(&h, WINDOW_UPDATE, 51, 1u << 30);
	while (!h.stream[51].ended) {
		h2_pull(&h);
		place_run_ms(&w.place, 1);
		if (parked() != NULL)
			read_answer(parked(), 0, 1, n);
	}
	assert_int_equal(h.stream[51].body, 900000);
	client_close(&h.c);
	WAIT_FOR(&h, w.worker.acceptor.n_conns == 0);
	assert_int_equal(metrics->value[METRIC_HTTP_BUFFERED_BYTES], 0);
	world_close();
}

/* The records go away between two pieces: that stream is reset, its connection goes on. */
static void test_records_vanish(void **state)
{
	static struct h2 h;
	struct pico_error gone = { .kind = PICO_NOT_FOUND };
	world_open(NULL);
	uint32_t n = store_large(900000);
	h2_open(&h, slice_of(NULL, 0));
	ask(&h, 1, "GET", "/t?format=raw", true);
	read_answer(next_call(), 0, 1, n);
	give_error(next_call(), &gone);
	WAIT_FOR(&h, h.stream[1].reset != 0);
	assert_int_equal(h.stream[1].reset - 1, 2); /* INTERNAL_ERROR */
	assert_false(h.stream[1].ended);
	ask(&h, 3, "OPTIONS", "/t", true);
	WAIT_FOR(&h, h.stream[3].ended);
	client_close(&h.c);
	world_close();
}

static void small_bodies(struct conf *conf)
{
	conf->max_request_size = 65536;
	conf->max_message_size = 1 << 20;
}

/* At the limit it is taken; one byte more is answered before the body's end, and its rest not waited for. */
static void test_body_limit(void **state)
{
	static struct h2 h;
	static uint8_t body[16384];
	world_open(small_bodies);
	h2_open(&h, slice_of(NULL, 0));
	for (uint32_t s = 1; s <= 3; s += 2) {
		ask(&h, s, "POST", "/t", false);
		for (int i = 0; i < 4; i++)
			send_frame(&h, DATA, 0, s, slice_of(body, sizeof(body)));
		place_run_ms(&w.place, 5);
	}
	send_frame(&h, DATA, END_STREAM, 1, slice_of(NULL, 0));
	append_answer(next_call(), 0);
	send_frame(&h, DATA, 0, 3, slice_of(body, 1));
	WAIT_FOR(&h, h.stream[1].ended && h.stream[3].ended && h.stream[3].reset != 0);
	assert_int_equal(h.stream[3].reset - 1, 0); /* NO_ERROR, RFC 9113 8.1 */
	assert_int_equal(h.stream[1].reset, 0);
	assert_int_equal(n_parked(), 0);
	ask(&h, 5, "OPTIONS", "/t", true);
	WAIT_FOR(&h, h.stream[5].ended);
	client_close(&h.c);
	world_close();
}

/* ------------------------------------------------------------------ time */

static void hurried(struct conf *conf)
{
	conf->header_timeout_ms = 200;
	conf->body_timeout_ms = 200;
	conf->stall_timeout_ms = 300;
	conf->idle_timeout_ms = 600;
}

static void narrow(struct conf *conf)
{
	conf->conn_buffer_size = 8192;
	conf->body_timeout_ms = 100;
}

/* One body goes on, slowly; another has filled its window, waits for room, and is 503 when it has waited long enough. */
static void test_body_waits(void **state)
{
	static struct h2 h;
	static uint8_t body[13107];
	world_open(narrow);
	h2_open(&h, slice_of(NULL, 0));
	ask(&h, 1, "POST", "/t", false);
	send_frame(&h, DATA, 0, 1, slice_of(body, sizeof(body)));
	WAIT_FOR(&h, metrics->value[METRIC_HTTP_BUFFERED_BYTES] >= sizeof(body));
	ask(&h, 3, "POST", "/t", false);
	for (int i = 0; i < 5; i++)
		send_frame(&h, DATA, 0, 3, slice_of(body, sizeof(body))); /* 65535 */
	uint64_t began = env_now_ms(w.place.env);
	while (!h.stream[3].ended && env_now_ms(w.place.env) - began < SOON) {
		send_frame(&h, DATA, 0, 1, slice_of(body, 1));
		place_run_ms(&w.place, 10);
		h2_pull(&h);
	}
	assert_true(h.stream[3].ended && env_now_ms(w.place.env) - began >= 990);
	assert_false(h.stream[1].head);
	send_frame(&h, DATA, END_STREAM, 1, slice_of(NULL, 0));
	append_answer(next_call(), 0);
	WAIT_FOR(&h, h.stream[1].ended);
	client_close(&h.c);
	world_close();
}

static void test_timeouts(void **state)
{
	static struct h2 head, body, stalled, idle;
	world_open(hurried);
	uint32_t n = store_large(900000);
	h2_open(&head, slice_of(NULL, 0));
	h2_open(&body, slice_of(NULL, 0));
	h2_open(&stalled, slice_of(no_window, 6));
	h2_open(&idle, slice_of(NULL, 0));
	send_frame(&head, HEADERS, END_STREAM, 1, slice_of(NULL, 0)); /* and no END_HEADERS */
	ask(&body, 1, "POST", "/t", false);
	ask(&stalled, 1, "GET", "/t?format=raw", true);
	read_answer(next_call(), 0, 1, n);
	WAIT_FOR(&head, head.n_goaways == 1);
	assert_int_equal(head.code, 11); /* ENHANCE_YOUR_CALM */
	WAIT_FOR(&body, body.stream[1].ended && body.stream[1].reset == 1);
	WAIT_FOR(&stalled, stalled.stream[1].reset != 0);
	assert_int_equal(stalled.stream[1].reset - 1, 8); /* CANCEL */
	WAIT_FOR(&idle, idle.n_goaways == 1 && idle.c.ended);
	assert_int_equal(idle.code, 0);
	WAIT_FOR(&body, body.c.ended && body.n_goaways == 1);
	client_close(&head.c);
	client_close(&body.c);
	client_close(&stalled.c);
	client_close(&idle.c);
	world_close();
}

/* ------------------------------------------------------------------ drain */

static void on_drained(void *arg)
{
	w.drained = true;
}

/* What is under way finishes, what is on its way is taken, polls end at once, an idle connection goes. */
static void test_drain(void **state)
{
	static struct h2 busy, idle;
	world_open(NULL);
	h2_open(&busy, slice_of(NULL, 0));
	h2_open(&idle, slice_of(NULL, 0));
	ask(&busy, 1, "GET", "/t?seq=6&live=long-poll", true);
	read_answer(next_call(), 6, 6, 0);
	ask(&busy, 3, "POST", "/t", false);
	send_frame(&busy, DATA, END_STREAM, 3, slice_str("x"));
	WAIT_FOR(&busy, n_parked() == 2);
	ask(&idle, 1, "OPTIONS", "/t", true);
	WAIT_FOR(&idle, idle.stream[1].ended);
	server_drain(&w.server, on_drained, NULL);
	ask(&busy, 5, "OPTIONS", "/t", true); /* before it hears of the end */
	WAIT_FOR(&busy, busy.stream[1].ended && busy.stream[5].ended && busy.n_goaways == 2);
	assert_int_equal(busy.code, 0);
	assert_int_equal(busy.last_stream, 5);
	assert_false(busy.stream[3].head || busy.c.ended);
	WAIT_FOR(&idle, idle.n_goaways == 2 && idle.c.ended);
	client_close(&idle.c);
	assert_false(w.drained);
	append_answer(node_seen(&w.place.node, IPC_APPEND, 0), 6);
	WAIT_FOR(&busy, busy.stream[3].ended && busy.c.ended);
	client_close(&busy.c);
	WAIT_FOR(&busy, w.drained);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_independent), cmocka_unit_test(test_max_inflight), cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_stalled_streams), cmocka_unit_test(test_records_vanish),
		cmocka_unit_test(test_body_limit), cmocka_unit_test(test_body_waits), cmocka_unit_test(test_timeouts), cmocka_unit_test(test_drain),
	};
	return cmocka_run_group_tests_name("worker-h2", tests, NULL, NULL);
}
