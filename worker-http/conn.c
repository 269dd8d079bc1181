/* SPDX-License-Identifier: Apache-2.0
 *
 * What connections of every version of HTTP have in common. Everything happens in conn_run(): take bytes apart, start
 * what may start, send, again while there is progress. Callbacks of sockets, timers and handlers only note what they
 * saw and have it run at the end of the loop turn, so answers that become ready together leave in one write.
 *
 * Input is refused rather than kept: the socket is read only while the version has room. Output: `out` holds heads,
 * frames and small bodies; a large piece may be written from where it is.
 */
#include "worker-http/conn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/must.h"
#include "worker-http/admin.h"
#include "worker-http/conn_version.h"
#include "worker-http/ds.h"
#include "worker-http/pico.h"

#define CONN_MAGIC 0x434f4e4eu
#define BODIES_A_SERVER 8u              /* bodies of max-request-size that all connections together may hold */
#define OUT_KEPT 16384                  /* of an empty `out` between requests under way */
#define OUT_KEPT_IDLE 1024
#define READS_A_TURN 4                  /* then others have their turn */

static void conn_run(void *arg);

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

static void conn_unlink(struct conn *c)
{
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		c->server->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
}

void conn_close(struct conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	while (c->first != NULL)
		conn_drop(c, c->first);
	c->version->done(c);
	conn_report(c);
	buf_done(&c->out);
	env_timer_stop(c->server->env, &c->timer);
	if (sock_why(c->sock) != NULL)
		log_warn("TLS failed: %s, closing the connection", sock_why(c->sock));
	sock_close(c->sock);
	conn_unlink(c);
	acceptor_gone(c->server->acceptor, c->address);
	env_defer(c->server->env, &c->task); /* callers still look at it */
}

struct conn *conn_next(const struct conn *c)
{
	return c->next;
}

void conn_become(struct conn *c, const struct conn_version *version)
{
	c->version->done(c);
	c->version = version;
	version->open(c);
}

/* ------------------------------------------------------------------ time */

uint64_t conn_now(const struct conn *c)
{
	return env_now_ms(c->server->env);
}

static uint64_t stalled_at(const struct conn *c)
{
	return conn_is_sending(c) ? c->sent_ms + c->server->conf->stall_timeout_ms : 0;
}

/* What the connection is waiting for, and until when. 0: for nothing that has an end. */
static uint64_t conn_deadline(const struct conn *c)
{
	if (c->lingering)
		return 0;
	uint64_t stalled = stalled_at(c), at = c->version->deadline(c);
	return stalled != 0 && (at == 0 || stalled < at) ? stalled : at;
}

static void conn_rearm(struct conn *c)
{
	uint64_t at = conn_deadline(c);
	if (at != 0 && (c->timer.at_ms == 0 || c->timer.at_ms > at)) /* an early firing looks again */
		env_timer_start(c->server->env, &c->timer, at);
}

static void on_timer(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	uint64_t at = conn_deadline(c), stalled = stalled_at(c), now = conn_now(c);
	if (at == 0 || at > now) {
		conn_rearm(c);
		return;
	}
	if (stalled != 0 && stalled <= now)
		conn_close(c);
	else
		c->version->late(c);
	if (!c->dead)
		conn_run(c);
}

/* ------------------------------------------------------------------ the queue */

static void on_answer(struct request *r)
{
	struct conn *c = r->owner;
	must(c->magic == CONN_MAGIC);
	conn_wake(c);
}

struct request *conn_push(struct conn *c, const struct http1_head *head)
{
	struct request *r = request_new(c->server, head);
	r->secure = c->secure;
	r->owner = c;
	r->on_answer = on_answer;
	*c->last = r;
	c->last = &r->next;
	c->n_requests++;
	return r;
}

void conn_drop(struct conn *c, struct request *r)
{
	struct request **at = &c->first;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (*at == NULL)
		c->last = at;
	c->n_requests--;
	if (c->first == NULL)
		c->since_ms = conn_now(c);
	request_free(r);
}

void conn_count_queue(struct conn *c)
{
	c->queued = 0;
	for (struct request *r = c->first; r != NULL; r = r->next)
		c->queued += buf_len(&r->body) + buf_len(&r->answer.body) + buf_len(&r->answer.ahead);
}

/* ------------------------------------------------------------------ requests */

void conn_refuse_request(struct request *r, int status, const char *reason)
{
	static const struct { int status; const char *word; } words[] = {
		{ 408, "timeout" }, { 413, "too_large" }, { 414, "uri_too_long" }, { 417, "expectation_failed" },
		{ 431, "headers_too_large" }, { 503, "overloaded" }, { 505, "version_not_supported" },
	};
	const char *word = "bad_request";
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].status == status)
			word = words[i].word;
	r->route = NULL;
	if (r->answer.status == 0)
		answer_error(r, status, word, reason, NULL);
}

int conn_head_fault(const struct conn *c, const struct http1_head *head, const char **ret_reason)
{
	if (head->expect_unknown) {
		*ret_reason = "the only expectation known is 100-continue";
		return 417;
	}
	if (head->has_length && head->content_length > c->server->conf->max_request_size) {
		*ret_reason = "content too large";
		return 413;
	}
	return 0;
}

bool conn_take_body(struct conn *c, struct request *r, struct slice piece)
{
	buf_put_slice(&r->body, piece);
	if (r->body.failed)
		conn_refuse_request(r, 413, "content too large");
	else if (buf_len(&r->body) > CONN_BODY_ALWAYS &&
		 c->server->buffered > BODIES_A_SERVER * c->server->conf->max_request_size)
		conn_refuse_request(r, 503, "too many large requests at once");
	return r->route != NULL;
}

void conn_take_last(struct conn *c, struct request *r)
{
	c->since_ms = conn_now(c);
	r->complete = true;
	r->complete_ns = env_now_ns(c->server->env);
}

void conn_start(struct request *r)
{
	must(!r->started && r->complete);
	r->started = true;
	r->route->handle(r);
}

void conn_count_answer(const struct request *r)
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

/* ------------------------------------------------------------------ input and output */

/* Reads once. True when bytes came. */
static bool conn_read(struct conn *c)
{
	static uint8_t bytes[HTTP1_READ_MAX]; /* an idle connection owns no such buffer */
	ssize_t n = sock_recv(c->sock, bytes, sizeof(bytes));
	if (n > 0) {
		metric_add(METRIC_HTTP_BYTES_IN, n);
		c->version->take(c, slice_of(bytes, (size_t)n));
		return !c->dead;
	}
	if (n == 0)
		c->version->take_end(c);
	else if (n != -EAGAIN)
		conn_close(c);
	return false;
}

/* Sends what stands in out and behind it. True when the socket took something. */
static bool conn_write(struct conn *c)
{
	struct iovec iov[2] = { { buf_head(&c->out), buf_len(&c->out) } };
	if (c->n_behind > 0)
		iov[1] = (struct iovec){ buf_head(c->behind), c->n_behind };
	if (!conn_is_sending(c))
		return false;
	ssize_t n = sock_send(c->sock, iov, c->n_behind > 0 ? 2 : 1);
	if (n < 0) {
		if (n != -EAGAIN)
			conn_close(c);
		return false;
	}
	metric_add(METRIC_HTTP_BYTES_OUT, n);
	c->sent_ms = conn_now(c);
	size_t from_out = (size_t)n < iov[0].iov_len ? (size_t)n : iov[0].iov_len;
	buf_consume(&c->out, from_out);
	if (c->n_behind > 0) {
		buf_consume(c->behind, (size_t)n - from_out);
		c->n_behind -= (size_t)n - from_out;
	}
	return true;
}

static void conn_finish(struct conn *c)
{
	if (!sock_finish(c->sock, c->server->draining))
		conn_close(c);
	else
		c->lingering = true;
}

/* ------------------------------------------------------------------ the turn */

static bool conn_turn(struct conn *c)
{
	bool was_sending = conn_is_sending(c);
	bool progress = c->version->turn(c);
	if (c->dead)
		return false;
	if (!was_sending && conn_is_sending(c))
		c->sent_ms = conn_now(c);
	progress |= conn_write(c);
	return progress && !c->dead;
}

static bool conn_has_room(const struct conn *c)
{
	return !c->no_input && !c->lingering && !c->server->full && c->version->has_room(c);
}

static void conn_turns(struct conn *c)
{
	for (int reads = 0; !c->lingering && !c->dead;) {
		if (conn_turn(c))
			continue;
		if (c->dead || !sock_is_readable(c->sock) || !conn_has_room(c) || reads++ == READS_A_TURN)
			return;
		if (!conn_read(c))
			return;
	}
}

static void conn_run(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC);
	if (c->dead) {
		conn_free(c);
		return;
	}
	conn_turns(c);
	if (!c->dead && !c->lingering && !conn_is_sending(c) && (c->closing || (c->no_input && c->first == NULL)))
		conn_finish(c);
	if (c->dead)
		return;
	if (buf_len(&c->out) == 0)
		buf_reset(&c->out, c->first != NULL ? OUT_KEPT : OUT_KEPT_IDLE);
	c->version->rest(c);
	conn_report(c);
	sock_want(c->sock, conn_has_room(c), conn_is_sending(c));
	conn_rearm(c);
}

void conn_wake(struct conn *c)
{
	if (!c->dead && !c->task.queued)
		env_defer(c->server->env, &c->task);
}

void conn_kick(struct conn *c)
{
	c->since_ms = c->kicked_ms = conn_now(c); /* the time not spent reading was ours */
	conn_wake(c);
}

/* Of one that was being opened when the drain began: its first bytes have come. */
static void conn_drain_late(struct conn *c)
{
	if (c->dead || c->lingering || !c->server->draining || c->version == &conn_begin)
		return;
	c->version->drain(c);
	if (!c->dead)
		conn_run(c);
}

static void on_ready(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	if (sock_is_hung_up(c->sock) && c->version->is_parked(c)) {
		conn_close(c);
		return;
	}
	conn_run(c);
	conn_drain_late(c);
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
	if (sock_is_opening(c->sock)) /* it was accepted: its first request is answered */
		return;
	for (struct request *r = c->first, *next; r != NULL; r = next) {
		next = r->next;
		if (r->on_drain != NULL)
			r->on_drain(r);
	}
	sock_expect(c->sock); /* what has come already is served */
	conn_run(c);
	if (c->dead || c->lingering)
		return;
	c->version->drain(c);
	if (!c->dead)
		conn_run(c);
}

static int open_sock(struct conn *c, int fd, bool tls)
{
	static const struct sock_events events = { on_ready, on_over };
	const struct server *s = c->server;
	return sock_open(&(struct sock_config){
		.env = s->env,
		.events = &events,
		.arg = c,
		.tls = tls ? *s->tls : NULL,
		.alpn = "h2,http/1.1",
		.handshake_ms = s->conf->header_timeout_ms,
	}, fd, &c->sock);
}

static server_route_fn *route_of(const char *protocol)
{
	if (strcmp(protocol, "admin") == 0)
		return admin_route;
	return strcmp(protocol, "ds") == 0 ? ds_route : pico_route;
}

void conn_new(struct server *s, int fd, const uint8_t address[16], const struct child_listener *from)
{
	struct conn *c = must_calloc(1, sizeof(*c));
	*c = (struct conn){ .magic = CONN_MAGIC, .server = s, .last = &c->first, .version = &conn_begin };
	c->route = route_of(from->protocol);
	c->secure = from->tls;
	int r = open_sock(c, fd, from->tls);
	if (r < 0) {
		acceptor_failed(s->acceptor, address, r);
		conn_free(c);
		return;
	}
	memcpy(c->address, address, sizeof(c->address));
	buf_init(&c->out, SIZE_MAX / 4);
	c->task = (struct env_task){ .run = conn_run, .arg = c };
	c->timer = (struct env_timer){ .on_fire = on_timer, .arg = c };
	c->since_ms = c->sent_ms = conn_now(c);
	c->version->open(c);
	c->next = s->conns;
	if (c->next != NULL)
		c->next->prev = c;
	s->conns = c;
	conn_run(c);
}
