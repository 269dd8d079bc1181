/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything happens in conn_run(): take bytes apart, start what may start, send, again while there
 * is progress. Callbacks of sockets, timers and handlers only note what they saw and have it run at
 * the end of the loop turn, so answers that become ready together leave in one write.
 *
 * Input is refused rather than kept: the socket is read only while the queue has room. Output: `out`
 * holds heads, frames and small bodies; a large piece is written from its request's own buffer.
 */
#include "worker-http/conn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/must.h"
#include "common/sock.h"

#define CONN_MAGIC 0x434f4e4eu
#define BODY_ALWAYS 65536               /* of a body that is taken whatever other connections hold */
#define BODIES_A_SERVER 8u              /* bodies of max-request-size that all connections together may hold */
#define SMALL_BODY 16384                /* copied behind its head */
#define OUT_GATHER 65536                /* heads and small bodies put together before a write */
#define READS_A_TURN 4                  /* then others have their turn */

struct conn {
	unsigned magic;
	struct server *server;
	struct conn *prev, *next;       /* of the server's list */
	uint8_t address[16];
	server_route_fn *route;
	struct sock *sock;              /* owned */
	struct env_timer timer;
	struct env_task task;           /* conn_run() at the end of the turn */

	struct http1 http1;
	struct request *reading;        /* last in the queue, its body not whole yet */
	struct request *first, **last;  /* the queue, in order of arrival */
	unsigned n_requests;
	size_t queued;                  /* bytes of bodies and answers in the queue */

	struct buf out;
	bool head_sent;                 /* of first's answer */
	size_t framed;                  /* bytes of first's body whose chunk header is in out */
	bool any_chunk;
	size_t reported;                /* what HTTP_BUFFERED_BYTES counts of this connection */

	uint64_t since_ms;              /* of the last thing that the time-out of its state counts from */
	uint64_t sent_ms;               /* the socket took something */
	bool timing_head;               /* since_ms is the first byte of a head */
	bool no_input;                  /* no more requests are taken */
	bool closing;                   /* close when out is empty */
	bool lingering;
	bool dead;
	bool expect;                    /* 100 Continue is owed to `reading` */
};

static void conn_run(void *arg);
static void conn_wake(struct conn *c);

/* ------------------------------------------------------------------ life */

static void conn_free(struct conn *c)
{
	c->magic = 0;
	free(c);
}

static void conn_report(struct conn *c)
{
	size_t now = c->dead ? 0 : buf_len(&c->out) + c->queued;
	if (now != c->reported)
		metric_add(METRIC_HTTP_BUFFERED_BYTES, (int64_t)now - (int64_t)c->reported);
	c->server->buffered += now - c->reported;
	c->reported = now;
}

void conn_close(struct conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	while (c->first != NULL) {
		struct request *r = c->first;
		c->first = r->next;
		request_free(r);
	}
	c->last = &c->first;
	c->reading = NULL;
	conn_report(c);
	http1_done(&c->http1);
	buf_done(&c->out);
	env_timer_stop(c->server->env, &c->timer);
	sock_close(c->sock);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		c->server->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	acceptor_gone(c->server->acceptor, c->address);
	env_defer(c->server->env, &c->task); /* callers still look at it */
}

struct conn *conn_next(const struct conn *c)
{
	return c->next;
}

/* ------------------------------------------------------------------ time */

static uint64_t conn_now(const struct conn *c)
{
	return env_now_ms(c->server->env);
}

/* What the connection is waiting for, and until when. 0: for nothing that has an end. */
static uint64_t conn_deadline(const struct conn *c)
{
	const struct conf *conf = c->server->conf;
	if (c->lingering)
		return 0;
	if (buf_len(&c->out) > 0 || c->framed > 0)
		return c->sent_ms + conf->stall_timeout_ms;
	if (c->reading != NULL && !c->server->full)
		return c->since_ms + conf->body_timeout_ms;
	if (c->first != NULL || c->server->full)
		return 0;
	return c->since_ms + (c->timing_head ? conf->header_timeout_ms : conf->idle_timeout_ms);
}

static void conn_rearm(struct conn *c)
{
	uint64_t at = conn_deadline(c);
	if (at != 0 && (c->timer.at_ms == 0 || c->timer.at_ms > at)) /* an early firing looks again */
		env_timer_start(c->server->env, &c->timer, at);
}

static void conn_refuse(struct conn *c, int status, const char *reason);

static void on_timer(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	uint64_t at = conn_deadline(c);
	if (at == 0 || at > conn_now(c)) {
		conn_rearm(c);
		return;
	}
	bool waits_for_input = buf_len(&c->out) == 0 && c->framed == 0 &&
		(c->reading != NULL || c->timing_head);
	if (!waits_for_input) {
		conn_close(c);
		return;
	}
	conn_refuse(c, 408, c->reading != NULL ? "the request body stopped coming" : "the request head took too long");
	conn_run(c);
}

/* ------------------------------------------------------------------ the queue */

static void on_answer(struct request *r)
{
	struct conn *c = r->owner;
	must(c->magic == CONN_MAGIC);
	conn_wake(c);
}

static struct request *conn_push(struct conn *c, const struct http1_head *head)
{
	struct request *r = request_new(c->server, head);
	r->owner = c;
	r->on_answer = on_answer;
	*c->last = r;
	c->last = &r->next;
	c->n_requests++;
	return r;
}

static void count_answer(const struct request *r)
{
	static const enum metric by_class[] = { METRIC_HTTP_REQUESTS_2XX, METRIC_HTTP_REQUESTS_3XX,
						METRIC_HTTP_REQUESTS_4XX, METRIC_HTTP_REQUESTS_5XX };
	int class = r->answer.status / 100;
	must(class >= 2 && class <= 5);
	metric_add(by_class[class - 2], 1);
	if (r->complete_ns == 0)
		return;
	uint64_t ns = env_now_ns(r->server->env) - r->complete_ns;
	histogram_observe(HISTOGRAM_HTTP_SECONDS, ns);
	uint64_t slow = r->server->conf->slow_request_ms;
	if (slow > 0 && ns / 1000000 >= slow)
		log_warn("slow request method=%.*s path=%.*s status=%d ms=%" PRIu64, (int)r->method.n,
			 (const char *)r->method.p, (int)r->path.n, (const char *)r->path.p, r->answer.status,
			 ns / 1000000);
}

static void conn_pop(struct conn *c)
{
	struct request *r = c->first;
	must(r != NULL && r != c->reading);
	c->first = r->next;
	if (c->first == NULL)
		c->last = &c->first;
	c->n_requests--;
	c->head_sent = c->any_chunk = false;
	c->framed = 0;
	if (c->first == NULL)
		c->since_ms = conn_now(c);
	request_free(r);
}

static void conn_count_queue(struct conn *c)
{
	c->queued = 0;
	for (struct request *r = c->first; r != NULL; r = r->next)
		c->queued += buf_len(&r->body) + buf_len(&r->answer.body) + buf_len(&r->answer.ahead);
}

/* ------------------------------------------------------------------ input */

/* An answer of our own to what is not a request; nothing is taken behind it. */
static void conn_refuse(struct conn *c, int status, const char *reason)
{
	static const struct { int status; const char *word; } words[] = {
		{ 408, "timeout" }, { 413, "too_large" }, { 414, "uri_too_long" }, { 417, "expectation_failed" },
		{ 431, "headers_too_large" }, { 503, "overloaded" }, { 505, "version_not_supported" },
	};
	const char *word = "bad_request";
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].status == status)
			word = words[i].word;
	struct request *r = c->reading != NULL ? c->reading : conn_push(c, NULL);
	c->reading = NULL;
	c->no_input = true;
	c->expect = false;
	c->timing_head = false;
	r->route = NULL;
	r->answer.close = true;
	if (r->answer.status == 0)
		answer_error(r, status, word, reason, NULL);
}

static void take_head(struct conn *c, const struct http1_head *head)
{
	struct request *r = conn_push(c, head);
	c->reading = r;
	c->since_ms = conn_now(c);
	c->timing_head = false;
	r->answer.close = !head->keep_alive;
	r->answer.http10 = head->minor == 0;
	c->route(r);
	must(r->route != NULL);
	if (head->expect_unknown)
		conn_refuse(c, 417, "the only expectation known is 100-continue");
	else if (head->has_length && head->content_length > c->server->conf->max_request_size)
		conn_refuse(c, 413, "content too large");
	else
		c->expect = head->expect_continue && (head->chunked || head->content_length > 0);
}

static void take_body(struct conn *c)
{
	c->expect = false;
	buf_put_slice(&c->reading->body, c->http1.piece);
	if (c->reading->body.failed)
		conn_refuse(c, 413, "content too large");
	else if (buf_len(&c->reading->body) > BODY_ALWAYS &&
		 c->server->buffered > BODIES_A_SERVER * c->server->conf->max_request_size)
		conn_refuse(c, 503, "too many large requests at once");
}

static void take_end(struct conn *c)
{
	struct request *r = c->reading;
	c->reading = NULL;
	c->since_ms = conn_now(c);
	r->complete = true;
	r->complete_ns = env_now_ns(c->server->env);
	if (r->answer.close)
		c->no_input = true;
}

static bool conn_has_room(const struct conn *c)
{
	if (c->no_input || c->lingering || c->server->full)
		return false;
	if (c->reading != NULL)
		return true;
	return c->n_requests < c->server->conf->max_inflight && c->queued < c->server->conf->conn_buffer_size;
}

/* Takes apart what has been read. True when something was. */
static bool conn_parse(struct conn *c)
{
	struct http1_head head;
	bool progress = false;
	while (conn_has_room(c)) {
		switch (http1_next(&c->http1, &head)) {
		case HTTP1_MORE:
			if (!c->timing_head && http1_is_in_head(&c->http1)) {
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
			take_end(c);
			conn_count_queue(c);
			break;
		case HTTP1_ERROR:
			conn_refuse(c, c->http1.status, c->http1.reason);
			break;
		}
		progress = true;
	}
	return progress;
}

static bool conn_is_parked(const struct conn *c)
{
	return c->first != NULL && c->first->on_drain != NULL;
}

static void conn_end_of_input(struct conn *c)
{
	c->no_input = true;
	c->timing_head = false;
	/* Half a request, or one that waits for news: nobody is there for the answer. */
	if (c->reading != NULL || conn_is_parked(c))
		conn_close(c);
}

/* Reads once. True when bytes came. */
static bool conn_read(struct conn *c)
{
	static uint8_t bytes[HTTP1_READ_MAX]; /* an idle connection owns no such buffer */
	ssize_t n = sock_recv(c->sock, bytes, sizeof(bytes));
	if (n > 0) {
		buf_put(&c->http1.in, bytes, (size_t)n);
		must(!c->http1.in.failed); /* what was there is taken apart before a read */
		metric_add(METRIC_HTTP_BYTES_IN, n);
		if (c->reading != NULL)
			c->since_ms = conn_now(c);
		return true;
	}
	if (n == 0)
		conn_end_of_input(c);
	else if (n != -EAGAIN)
		conn_close(c);
	return false;
}

/* ------------------------------------------------------------------ start */

static void conn_start(struct conn *c, struct request *r)
{
	must(!r->started);
	r->started = true;
	r->route->handle(r);
}

/* Starts what may start: a first request, and appends behind appends. True when something was. */
static bool conn_start_ready(struct conn *c)
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
		conn_start(c, r);
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
	buf_printf(o, "HTTP/1.1 %d %s\r\nDate: %s\r\n", a->status, status_text(a->status), server_date(c->server));
	buf_put_slice(o, buf_slice(&a->fields));
	buf_printf(o, "Cache-Control: %s\r\nX-Content-Type-Options: nosniff\r\n"
		   "Cross-Origin-Resource-Policy: same-origin\r\nX-Request-Id: %s\r\n",
		   a->cache_control != NULL ? a->cache_control : "no-store", r->id);
	if (a->status == 429 || a->status == 503)
		buf_put_str(o, "Retry-After: 1\r\n");
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
	count_answer(r);
}

/* Frames what is in the body as one chunk; small ones are copied behind the frame. */
static void put_piece(struct conn *c, struct answer *a)
{
	size_t n = buf_len(&a->body);
	if (a->chunked)
		buf_printf(&c->out, "%s%zx\r\n", c->any_chunk ? "\r\n" : "", n);
	c->any_chunk = true;
	if (n <= SMALL_BODY) {
		buf_put_slice(&c->out, buf_slice(&a->body));
		buf_reset(&a->body, SMALL_BODY);
	} else {
		c->framed = n;
	}
}

static void put_end(struct conn *c, struct request *r)
{
	if (r->answer.chunked && !r->is_head)
		buf_put_str(&c->out, c->any_chunk ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
	if (r->answer.close)
		c->closing = c->no_input = true;
	conn_pop(c);
}

/* Moves answers into out, in order. True when something moved. */
static bool conn_fill(struct conn *c)
{
	bool progress = false;
	while (c->first != NULL && !c->closing && c->framed == 0 && buf_len(&c->out) < OUT_GATHER) {
		struct request *r = c->first;
		struct answer *a = &r->answer;
		if (a->broken) {
			conn_close(c);
			return false;
		}
		if (a->status == 0)
			break;
		if (!c->head_sent) {
			put_head(c, r);
			c->head_sent = true;
		} else if (buf_len(&a->body) > 0) {
			put_piece(c, a);
		} else if (a->ended) {
			put_end(c, r);
		} else if (buf_len(&c->out) == 0 && r->call == NULL && r->produce != NULL) {
			r->produce(r);
			must(r->call != NULL || buf_len(&a->body) > 0 || a->ended || a->broken);
		} else {
			break;
		}
		progress = true;
	}
	return progress;
}

/* Sends what stands in out and in the first body. True when the socket took something. */
static bool conn_write(struct conn *c)
{
	struct buf *body = c->framed > 0 ? &c->first->answer.body : NULL;
	struct iovec iov[2] = { { buf_head(&c->out), buf_len(&c->out) } };
	if (body != NULL)
		iov[1] = (struct iovec){ buf_head(body), c->framed };
	if (iov[0].iov_len + iov[1].iov_len == 0)
		return false;
	ssize_t n = sock_send(c->sock, iov, body != NULL ? 2 : 1);
	if (n < 0) {
		if (n != -EAGAIN)
			conn_close(c);
		return false;
	}
	metric_add(METRIC_HTTP_BYTES_OUT, n);
	c->sent_ms = conn_now(c);
	size_t from_out = (size_t)n < iov[0].iov_len ? (size_t)n : iov[0].iov_len;
	buf_consume(&c->out, from_out);
	if (body != NULL) {
		buf_consume(body, (size_t)n - from_out);
		c->framed -= (size_t)n - from_out;
	}
	return true;
}

static void conn_finish(struct conn *c)
{
	if (!sock_finish(c->sock, c->server->draining)) {
		conn_close(c);
		return;
	}
	buf_reset(&c->http1.in, 0);
	c->lingering = true;
}

/* ------------------------------------------------------------------ the turn */

static void conn_continue(struct conn *c)
{
	if (!c->expect || c->reading != c->first)
		return;
	buf_put_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	c->expect = false;
}

static bool conn_turn(struct conn *c)
{
	bool progress = conn_parse(c);
	progress |= conn_start_ready(c);
	conn_continue(c);
	bool was_empty = buf_len(&c->out) == 0 && c->framed == 0;
	progress |= conn_fill(c);
	if (c->dead)
		return false;
	if (was_empty && (buf_len(&c->out) > 0 || c->framed > 0))
		c->sent_ms = conn_now(c);
	progress |= conn_write(c);
	return progress && !c->dead;
}

static void conn_run(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC);
	if (c->dead) {
		conn_free(c);
		return;
	}
	for (int reads = 0; !c->lingering;) {
		if (conn_turn(c))
			continue;
		if (c->dead)
			return;
		if (!sock_is_readable(c->sock) || !conn_has_room(c) || reads++ == READS_A_TURN || !conn_read(c))
			break;
	}
	if (c->dead)
		return;
	if (buf_len(&c->out) == 0 && c->framed == 0 && !c->lingering &&
	    (c->closing || (c->no_input && c->first == NULL)))
		conn_finish(c);
	if (c->dead)
		return;
	if (buf_len(&c->out) == 0)
		buf_reset(&c->out, SMALL_BODY);
	if (http1_is_idle(&c->http1))
		http1_shrink(&c->http1);
	conn_count_queue(c);
	conn_report(c);
	sock_want(c->sock, conn_has_room(c), buf_len(&c->out) > 0 || c->framed > 0);
	conn_rearm(c);
}

static void conn_wake(struct conn *c)
{
	if (!c->dead && !c->task.queued)
		env_defer(c->server->env, &c->task);
}

void conn_kick(struct conn *c)
{
	c->since_ms = conn_now(c); /* the time not spent reading was ours */
	conn_wake(c);
}

static void on_ready(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	if (sock_is_hung_up(c->sock) && conn_is_parked(c))
		conn_close(c);
	else
		conn_run(c);
}

static void on_over(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	conn_close(c);
}

void conn_drain(struct conn *c)
{
	if (c->dead)
		return;
	if (c->lingering) {
		sock_finish(c->sock, true);
		return;
	}
	for (struct request *r = c->first, *next; r != NULL; r = next) {
		next = r->next;
		if (r->on_drain != NULL)
			r->on_drain(r);
	}
	sock_expect(c->sock); /* what has come already is served */
	conn_run(c);
	if (!c->dead && c->first == NULL && !http1_is_in_head(&c->http1)) {
		c->no_input = true;
		conn_run(c);
	}
}

void conn_new(struct server *s, int fd, const uint8_t address[16], server_route_fn *route)
{
	static const struct sock_events events = { on_ready, on_over };
	struct conn *c = must_calloc(1, sizeof(*c));
	*c = (struct conn){ .magic = CONN_MAGIC, .server = s, .route = route, .last = &c->first };
	int r = sock_open(&(struct sock_config){ .env = s->env, .events = &events, .arg = c }, fd, &c->sock);
	if (r < 0) {
		acceptor_failed(s->acceptor, address, r);
		conn_free(c);
		return;
	}
	memcpy(c->address, address, sizeof(c->address));
	http1_init(&c->http1);
	buf_init(&c->out, SIZE_MAX / 4);
	c->task = (struct env_task){ .run = conn_run, .arg = c };
	c->timer = (struct env_timer){ .on_fire = on_timer, .arg = c };
	c->since_ms = c->sent_ms = conn_now(c);
	c->next = s->conns;
	if (c->next != NULL)
		c->next->prev = c;
	s->conns = c;
	conn_run(c);
}
