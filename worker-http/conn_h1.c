/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 and 1.0 on a connection: order and framing.
 *
 * Requests are started in order. Appends that follow each other run side by side; any other request starts when all
 * before it are answered. Answers leave in order, a body of unknown length in chunks. Bounds: max-inflight requests,
 * conn-buffer-size of waiting bodies and answers.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/must.h"
#include "worker-http/conn_version.h"

#define SMALL_BODY 16384                /* copied behind its head */
#define IN_KEPT 1024                    /* of the input buffer between requests */

struct h1 {
	struct http1 http1;
	struct request *reading;        /* last in the queue, its body not whole yet */
	bool head_sent;                 /* of the first answer */
	bool chunk_open;                /* its CRLF is to follow */
	bool expect;                    /* 100 Continue is owed to `reading` */
};

static void h1_open(struct conn *c)
{
	struct h1 *h = must_calloc(1, sizeof(*h));
	http1_init(&h->http1);
	c->state = h;
}

static void h1_done(struct conn *c)
{
	struct h1 *h = c->state;
	http1_done(&h->http1);
	free(h);
}

/* ------------------------------------------------------------------ time */

static uint64_t h1_deadline(const struct conn *c)
{
	const struct h1 *h = c->state;
	const struct conf *conf = c->server->conf;
	if (conn_is_sending(c))
		return 0;
	if (h->reading != NULL && !c->server->full)
		return c->since_ms + conf->body_timeout_ms;
	if (c->first != NULL || c->server->full)
		return 0;
	return c->since_ms + (c->timing_head ? conf->header_timeout_ms : conf->idle_timeout_ms);
}

/* ------------------------------------------------------------------ input */

/* An answer of our own to what is not a request, or only a part of one; nothing is taken behind it. */
static void h1_refuse(struct conn *c, int status, const char *reason)
{
	struct h1 *h = c->state;
	struct request *r = h->reading != NULL ? h->reading : conn_push(c, NULL);
	h->reading = NULL;
	h->expect = false;
	c->no_input = true;
	c->timing_head = false;
	r->answer.close = true;
	conn_refuse_request(r, status, reason);
}

static void h1_late(struct conn *c)
{
	struct h1 *h = c->state;
	if (h->reading != NULL)
		h1_refuse(c, 408, "the request body stopped coming");
	else if (c->timing_head)
		h1_refuse(c, 408, "the request head took too long");
	else
		conn_close(c);
}

static void take_head(struct conn *c, const struct http1_head *head)
{
	struct h1 *h = c->state;
	const char *reason;
	struct request *r = conn_push(c, head);
	h->reading = r;
	c->since_ms = conn_now(c);
	c->timing_head = false;
	r->answer.close = !head->keep_alive;
	r->answer.http10 = head->minor == 0;
	c->route(r);
	must(r->route != NULL);
	int status = conn_head_fault(c, head, &reason);
	if (status != 0)
		h1_refuse(c, status, reason);
	else
		h->expect = head->expect_continue && (head->chunked || head->content_length > 0);
}

static void take_body(struct conn *c)
{
	struct h1 *h = c->state;
	h->expect = false;
	if (conn_take_body(c, h->reading, h->http1.piece))
		return;
	h->reading->answer.close = c->no_input = true;
	h->reading = NULL;
}

static void take_last(struct conn *c)
{
	struct h1 *h = c->state;
	struct request *r = h->reading;
	h->reading = NULL;
	conn_take_last(c, r);
	if (r->answer.close)
		c->no_input = true;
	conn_count_queue(c);
}

static bool h1_has_room(const struct conn *c)
{
	const struct h1 *h = c->state;
	return h->reading != NULL ||
		(c->n_requests < c->server->conf->max_inflight && c->queued < c->server->conf->conn_buffer_size);
}

/* Takes apart what has been read. True when something was. */
static bool h1_parse(struct conn *c)
{
	struct h1 *h = c->state;
	struct http1_head head;
	bool progress = false;
	while (!c->no_input && !c->server->full && h1_has_room(c)) {
		switch (http1_next(&h->http1, &head)) {
		case HTTP1_MORE:
			if (!c->timing_head && http1_is_in_head(&h->http1)) {
				c->timing_head = true;
				c->since_ms = conn_now(c);
			}
			return progress;
		case HTTP1_HEAD:
			take_head(c, &head);
			break;
		case HTTP1_BODY:
			take_body(c);
			break;
		case HTTP1_END:
			take_last(c);
			break;
		case HTTP1_ERROR:
			h1_refuse(c, h->http1.status, h->http1.reason);
			break;
		}
		progress = true;
	}
	return progress;
}

static bool h1_is_parked(const struct conn *c)
{
	return c->first != NULL && c->first->on_drain != NULL;
}

/* No request begins so: a client that means another port. */
static bool is_tls(struct slice begin)
{
	return begin.p[0] == 0x16 && (begin.n == 1 || begin.p[1] == 3);
}

static void h1_take(struct conn *c, struct slice bytes)
{
	struct h1 *h = c->state;
	if (http1_is_idle(&h->http1) && is_tls(bytes)) {
		log_warn("this is no HTTP request, closing the connection reason=tls");
		conn_close(c);
		return;
	}
	buf_put_slice(&h->http1.in, bytes);
	must(!h->http1.in.failed); /* what was there is taken apart before a read */
	if (h->reading != NULL)
		c->since_ms = conn_now(c);
}

static void h1_take_end(struct conn *c)
{
	struct h1 *h = c->state;
	c->no_input = true;
	c->timing_head = false;
	/* Half a request, or one that waits for news: nobody is there for the answer. */
	if (h->reading != NULL || h1_is_parked(c))
		conn_close(c);
}

static void h1_drain(struct conn *c)
{
	const struct h1 *h = c->state;
	if (c->first == NULL && !http1_is_in_head(&h->http1))
		c->no_input = true;
}

/* ------------------------------------------------------------------ start */

/* Starts what may start: a first request, and appends behind appends. True when something was. */
static bool h1_start_ready(struct conn *c)
{
	bool progress = false;
	for (struct request *r = c->first; r != NULL; r = r->next) {
		if (r->started || r->route == NULL) {
			if (r->must_wait && r->answer.status == 0)
				break;
			continue;
		}
		if (!r->complete || (r->must_wait && r != c->first))
			break;
		conn_start(r);
		progress = true;
		if (r->must_wait)
			break;
	}
	return progress;
}

/* ------------------------------------------------------------------ output */

static const char *status_text(int status)
{
	switch (status) {
	case 200: return "OK";
	case 201: return "Created";
	case 204: return "No Content";
	case 304: return "Not Modified";
	case 307: return "Temporary Redirect";
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 409: return "Conflict";
	case 410: return "Gone";
	case 412: return "Precondition Failed";
	case 413: return "Content Too Large";
	case 414: return "URI Too Long";
	case 415: return "Unsupported Media Type";
	case 417: return "Expectation Failed";
	case 429: return "Too Many Requests";
	case 431: return "Request Header Fields Too Large";
	case 500: return "Internal Server Error";
	case 501: return "Not Implemented";
	case 503: return "Service Unavailable";
	case 505: return "HTTP Version Not Supported";
	}
	return "Status";
}

static void put_head(struct conn *c, struct request *r)
{
	struct answer *a = &r->answer;
	struct buf *o = &c->out;
	if (c->server->draining && r->next == NULL)
		a->close = true;
	a->chunked = !a->has_length && !a->http10;
	if (!a->has_length && a->http10)
		a->close = true; /* its end is the connection's */
	buf_printf(o, "HTTP/1.1 %d %s\r\n", a->status, status_text(a->status));
	answer_put_fields(r, o);
	if (a->close)
		buf_put_str(o, "Connection: close\r\n");
	else if (a->http10)
		buf_put_str(o, "Connection: keep-alive\r\n");
	if (a->chunked)
		buf_put_str(o, "Transfer-Encoding: chunked\r\n");
	else if (a->has_length && !a->no_body)
		buf_printf(o, "Content-Length: %" PRIu64 "\r\n", a->length);
	buf_put_str(o, "\r\n");
	if (r->is_head || a->no_body) {
		buf_reset(&a->body, 0);
		a->ended = true;
	}
	conn_count_answer(r);
}

/* Frames what is in the body as one chunk; small ones are copied behind the frame. */
static void put_piece(struct conn *c, struct answer *a)
{
	struct h1 *h = c->state;
	size_t n = buf_len(&a->body);
	if (a->chunked)
		buf_printf(&c->out, "%zx\r\n", n);
	h->chunk_open = a->chunked;
	if (n <= SMALL_BODY) {
		buf_put_slice(&c->out, buf_slice(&a->body));
		buf_reset(&a->body, SMALL_BODY);
	} else {
		c->behind = &a->body;
		c->n_behind = n;
	}
}

static void put_end(struct conn *c, struct request *r)
{
	struct h1 *h = c->state;
	if (r->answer.chunked && !r->is_head)
		buf_put_str(&c->out, "0\r\n\r\n");
	if (r->answer.close)
		c->closing = c->no_input = true;
	must(r != h->reading);
	h->head_sent = h->chunk_open = false;
	conn_drop(c, r);
}

/* Moves answers into out, in order. True when something moved. */
static bool h1_fill(struct conn *c)
{
	struct h1 *h = c->state;
	bool progress = false;
	while (c->first != NULL && !c->closing && c->n_behind == 0 && buf_len(&c->out) < CONN_OUT_GATHER) {
		struct request *r = c->first;
		struct answer *a = &r->answer;
		if (a->broken) {
			conn_close(c);
			return false;
		}
		if (a->status == 0)
			break;
		if (!h->head_sent) {
			put_head(c, r);
			h->head_sent = true;
		} else if (h->chunk_open) { /* at once: the next chunk may be long in coming */
			buf_put_str(&c->out, "\r\n");
			h->chunk_open = false;
		} else if (buf_len(&a->body) > 0) {
			put_piece(c, a);
		} else if (a->ended) {
			put_end(c, r);
		} else if (buf_len(&c->out) == 0 && !request_is_busy(r) && r->produce != NULL) {
			r->produce(r);
			must(request_is_busy(r) || buf_len(&a->body) > 0 || a->ended || a->broken);
		} else {
			break;
		}
		progress = true;
	}
	return progress;
}

static void h1_continue(struct conn *c)
{
	struct h1 *h = c->state;
	if (!h->expect || h->reading != c->first)
		return;
	buf_put_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	h->expect = false;
}

/* ------------------------------------------------------------------ the turn */

static bool h1_turn(struct conn *c)
{
	bool progress = h1_parse(c);
	progress |= h1_start_ready(c);
	h1_continue(c);
	return h1_fill(c) || progress;
}

static void h1_rest(struct conn *c)
{
	struct h1 *h = c->state;
	if (c->lingering)
		buf_reset(&h->http1.in, 0);
	else if (http1_is_idle(&h->http1))
		http1_shrink(&h->http1, IN_KEPT);
	conn_count_queue(c);
}

const struct conn_version conn_h1 = {
	.open = h1_open,
	.done = h1_done,
	.take = h1_take,
	.take_end = h1_take_end,
	.has_room = h1_has_room,
	.turn = h1_turn,
	.rest = h1_rest,
	.deadline = h1_deadline,
	.late = h1_late,
	.is_parked = h1_is_parked,
	.drain = h1_drain,
};
