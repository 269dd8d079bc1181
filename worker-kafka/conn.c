/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything happens in conn_run(): take frames apart, start what may start, send, again while there is progress.
 * Callbacks only note what they saw and have it run at the end of the loop turn, so answers that become ready
 * together leave in one write.
 *
 * A frame's length is judged before memory is taken, and its memory grows with what has come of it.
 */
#include "worker-kafka/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/must.h"
#include "common/sock.h"
#include "worker-kafka/fetch_ahead.h"
#include "worker-kafka/request.h"

#define CONN_MAGIC 0x4b434f4eu
#define READ_MAX 16384                  /* before a frame is known: what it has of one is copied */
#define FRAME_READ_MAX (1u << 20)       /* of one frame at once, straight into it */
#define READS_A_TURN 4                  /* then others have their turn */
#define RUNS_MAX 64
#define SMALL_FRAME 65536u              /* is taken whatever other connections hold */
#define FRAMES_HELD 8u                  /* of max-request-size, by all connections together */
#define FRAMES_READ 6u                  /* of them before a large frame is not begun: the others are for answers */

struct conn {
	unsigned magic;
	struct server *server;
	struct conn *prev, *next;       /* of the server's list */
	uint8_t address[16];
	struct sock *sock;              /* owned */
	bool secure;                    /* it came to a TLS listener */
	struct env_timer timer;
	struct env_task task;           /* conn_run() at the end of the turn */

	struct buf in;                  /* read, not taken apart */
	struct request *reading;        /* its frame is not whole; not in the queue */
	struct request *first, **last;  /* the queue, in order of arrival */
	unsigned n_requests;
	struct fetch_ahead ahead;
	size_t queued;                  /* bytes of frames and answers in the queue */
	size_t reported;                /* what server->held counts of this connection */

	uint64_t since_ms;              /* the last thing that came, or the last answer that left */
	uint64_t sent_ms;               /* the socket took something, or began to have something to take */
	uint64_t frame_ms;              /* the frame that is being read began */
	uint64_t answer_ms;             /* the answer that is being sent began */
	uint64_t muted_until_ms;        /* throttled: not read before; 0: not */
	bool starved;                   /* waits until all connections hold at most wake_at */
	size_t wake_at;
	bool sending;
	bool no_input;                  /* no more requests are taken */
	bool lingering;                 /* all is said: waits for the client to end, too */
	bool dead;
};

static void conn_run(void *arg);

/* ------------------------------------------------------------------ life */

static void conn_free(struct conn *c)
{
	c->magic = 0;
	free(c);
}

static size_t frames(const struct server *s, size_t n)
{
	return n * s->conf->max_request_size;
}

bool conn_may_hold(const struct conn *c, size_t n)
{
	return c->server->held + n <= frames(c->server, FRAMES_HELD);
}

static void conn_starve(struct conn *c, size_t wake_at)
{
	struct server *s = c->server;
	c->starved = true;
	c->wake_at = wake_at;
	s->wake_at = s->wake_at > wake_at ? s->wake_at : wake_at;
}

/* Some of those for which there is room again wait anew when they have their turn. */
static void wake_starved(struct server *s)
{
	if (s->wake_at == 0 || s->held > s->wake_at)
		return;
	s->wake_at = 0;
	for (struct conn *c = s->conns; c != NULL; c = conn_next(c)) {
		if (c->starved && s->held <= c->wake_at)
			conn_kick(c);
		else if (c->starved)
			conn_starve(c, c->wake_at);
	}
}

/* A frame that is being read counts as a whole: once begun it can be finished. */
static void conn_report(struct conn *c)
{
	size_t now = c->dead ? 0 : c->queued + (c->reading != NULL ? c->reading->frame_size : 0);
	if (now == c->reported)
		return;
	metric_add(METRIC_KAFKA_BUFFERED_BYTES, (int64_t)now - (int64_t)c->reported);
	c->server->held += now - c->reported;
	c->reported = now;
	wake_starved(c->server);
}

static void conn_count_queue(struct conn *c)
{
	c->queued = 0;
	for (struct request *r = c->first; r != NULL; r = r->next)
		c->queued += request_held(r);
}

void conn_account(struct conn *c)
{
	conn_count_queue(c);
	conn_report(c);
}

static void conn_drop_queue(struct conn *c)
{
	while (c->first != NULL) {
		struct request *r = c->first;
		c->first = r->next;
		request_free(r);
	}
	c->last = &c->first;
	if (c->reading != NULL)
		request_free(c->reading);
	c->reading = NULL;
}

void conn_close(struct conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	conn_drop_queue(c);
	fetch_ahead_drop(&c->ahead);
	conn_report(c);
	buf_done(&c->in);
	env_timer_stop(c->server->env, &c->timer);
	if (sock_why(c->sock) != NULL)
		log_warn("TLS failed: %s, closing the connection", sock_why(c->sock));
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

struct fetch_ahead *conn_ahead(struct conn *c)
{
	return &c->ahead;
}

const uint8_t *conn_address(const struct conn *c)
{
	return c->address;
}

const struct advertised *conn_advertised(const struct conn *c)
{
	return c->secure ? &c->server->secure : &c->server->plain;
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

/* Each byte is news that a client lives. While others wait for memory, it has to be through with what it holds in the
 * time that it may otherwise pause. */
static uint64_t conn_patience(const struct conn *c, uint64_t news_ms, uint64_t began_ms)
{
	return c->server->wake_at != 0 ? began_ms : news_ms;
}

/* Until when what it waits for must have come. 0: it waits for us. */
static uint64_t conn_deadline(const struct conn *c)
{
	const struct conf *conf = c->server->conf;
	if (c->lingering)
		return 0;
	if (c->sending)
		return conn_patience(c, c->sent_ms, c->answer_ms) + conf->stall_timeout_ms;
	if (c->server->full || c->first != NULL || c->starved || c->muted_until_ms != 0)
		return 0;
	if (c->reading != NULL)
		return conn_patience(c, c->since_ms, c->frame_ms) + conf->body_timeout_ms;
	if (buf_len(&c->in) > 0)
		return c->since_ms + conf->body_timeout_ms;
	return c->since_ms + conf->idle_timeout_ms;
}

static void conn_rearm(struct conn *c)
{
	uint64_t at = conn_deadline(c);
	if (c->muted_until_ms != 0 && (at == 0 || at > c->muted_until_ms))
		at = c->muted_until_ms;
	if (at != 0 && (c->timer.at_ms == 0 || c->timer.at_ms > at)) /* an early firing looks again */
		env_timer_start(c->server->env, &c->timer, at);
}

static void on_timer(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	uint64_t at = conn_deadline(c), now = conn_now(c);
	bool unmuted = c->muted_until_ms != 0 && c->muted_until_ms <= now;
	if (unmuted)
		c->muted_until_ms = 0;
	if (at != 0 && at <= now)
		conn_close(c);
	else if (unmuted)
		conn_kick(c);
	else
		conn_rearm(c);
}

/* ------------------------------------------------------------------ input */

static bool conn_has_room(const struct conn *c)
{
	if (c->no_input || c->server->full || c->starved || c->muted_until_ms != 0)
		return false;
	if (c->reading != NULL)
		return true;
	return c->n_requests < c->server->conf->max_inflight && c->queued < c->server->conf->conn_buffer_size;
}

static void conn_push(struct conn *c, struct request *r)
{
	*c->last = r;
	c->last = &r->next;
	c->n_requests++;
	c->queued += r->frame_size;
}

/* Moves what has come of the frame into it. */
static void conn_feed(struct conn *c)
{
	struct request *r = c->reading;
	size_t need = r->frame_size - buf_len(&r->frame), n = buf_len(&c->in);
	if (n > need)
		n = need;
	buf_put(&r->frame, buf_head(&c->in), n);
	buf_consume(&c->in, n);
	if (n < need)
		return;
	c->reading = NULL;
	conn_push(c, r);
}

/* Whether there is memory for a frame of that size, counted as a whole: else it waits. */
static bool conn_may_read(struct conn *c, size_t size)
{
	size_t most = frames(c->server, FRAMES_READ);
	if (size <= SMALL_FRAME || c->server->held + size <= most)
		return true;
	conn_starve(c, most - size);
	return false;
}

/* False when none begins now. */
static bool conn_begin_frame(struct conn *c)
{
	const char *why = NULL;
	int64_t size = kafka_frame_size(buf_slice(&c->in), (uint32_t)c->server->conf->max_request_size, &why);
	if (size < 0) {
		log_warn("this is no Kafka request, closing the connection reason=%s", why);
		conn_close(c);
		return false;
	}
	if (size == 0)
		return false;
	if (!conn_may_read(c, (size_t)size - KAFKA_FRAME_LENGTH))
		return false;
	buf_consume(&c->in, KAFKA_FRAME_LENGTH);
	c->reading = request_new(c, c->server, (uint32_t)size - KAFKA_FRAME_LENGTH);
	c->frame_ms = conn_now(c);
	conn_report(c);
	return true;
}

/* Takes apart what has been read. True when a frame is whole now. */
static bool conn_parse(struct conn *c)
{
	unsigned before = c->n_requests;
	c->starved = false;
	while (conn_has_room(c)) {
		if (c->reading == NULL && !conn_begin_frame(c))
			break;
		conn_feed(c);
		if (c->reading != NULL)
			break;
	}
	return c->n_requests != before;
}

/* What came before the end is done and answered; nobody waits for news any more. */
static void conn_end_of_input(struct conn *c)
{
	c->no_input = true;
	fetch_ahead_drop(&c->ahead);
	if (c->reading != NULL)
		request_free(c->reading);
	c->reading = NULL;
	buf_reset(&c->in, 0);
	for (struct request *r = c->first; r != NULL; r = r->next)
		if (r->started && !r->done && r->handler->on_drain != NULL)
			r->handler->on_drain(r);
}

/* Behind the last answer. */
static void conn_finish(struct conn *c)
{
	if (!sock_finish(c->sock, c->server->draining)) {
		conn_close(c);
		return;
	}
	conn_drop_queue(c);
	fetch_ahead_drop(&c->ahead);
	buf_reset(&c->in, 0);
	c->no_input = c->lingering = true;
	c->sending = false;
}

static ssize_t conn_recv(struct conn *c)
{
	struct buf *to = &c->in;
	size_t room = READ_MAX;
	if (c->reading != NULL) {
		size_t need = c->reading->frame_size - buf_len(&c->reading->frame);
		to = &c->reading->frame;
		room = need < FRAME_READ_MAX ? need : FRAME_READ_MAX;
	}
	uint8_t *p = buf_reserve(to, room);
	if (p == NULL)
		return -ENOMEM;
	ssize_t n = sock_recv(c->sock, p, room);
	if (n > 0)
		buf_commit(to, (size_t)n);
	return n;
}

/* Reads once. True when bytes came. */
static bool conn_read(struct conn *c)
{
	ssize_t n = conn_recv(c);
	if (n > 0) {
		metric_add(METRIC_KAFKA_BYTES_IN, n);
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

/* All before it are started, and run beside others. */
static bool conn_may_start(struct conn *c, const struct request *r)
{
	if (request_is_produce(r))
		return true;
	if (r != c->first)
		return false;
	if (!conn_may_hold(c, 0)) {
		conn_starve(c, frames(c->server, FRAMES_HELD - 1));
		return false;
	}
	return true;
}

static bool conn_start_ready(struct conn *c)
{
	bool progress = false;
	for (struct request *r = c->first; r != NULL; r = r->next) {
		if (!r->started) {
			if (!conn_may_start(c, r))
				break;
			request_start(r);
			progress = true;
			if (c->no_input && !r->done && r->handler->on_drain != NULL)
				r->handler->on_drain(r);
		}
		if (r->holds || r->close || !request_is_produce(r))
			break;
	}
	return progress;
}

/* ------------------------------------------------------------------ output */

static void conn_pop(struct conn *c)
{
	struct request *r = c->first;
	c->first = r->next;
	if (c->first == NULL)
		c->last = &c->first;
	c->n_requests--;
	c->since_ms = c->answer_ms = conn_now(c);
	if (r->throttled)
		c->muted_until_ms = c->since_ms + THROTTLE_MS;
	request_free(r);
}

/* Ends what is over at the head of the queue. True when there was something. */
static bool conn_pop_done(struct conn *c)
{
	bool progress = false;
	while (c->first != NULL && c->first->done) {
		if (c->first->close) {
			conn_finish(c);
			return false;
		}
		if (c->first->sent < c->first->size)
			break;
		conn_pop(c);
		progress = true;
	}
	return progress;
}

static size_t conn_gather(const struct conn *c, struct iovec iov[static RUNS_MAX])
{
	struct slice slices[RUNS_MAX];
	size_t n = 0;
	for (const struct request *r = c->first; r != NULL && r->done && !r->close && n < RUNS_MAX; r = r->next)
		n += request_iov(r, slices + n, RUNS_MAX - n);
	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){ (void *)(uintptr_t)slices[i].p, slices[i].n };
	return n;
}

static void conn_count_sent(struct conn *c, size_t n)
{
	for (struct request *r = c->first; n > 0; r = r->next) {
		size_t took = r->size - r->sent < n ? r->size - r->sent : n;
		r->sent += took;
		n -= took;
	}
}

/* Sends what stands at the head of the queue. True when the socket took something. */
static bool conn_write(struct conn *c)
{
	struct iovec iov[RUNS_MAX];
	size_t n_runs = conn_gather(c, iov);
	if (n_runs == 0) {
		c->sending = false;
		return false;
	}
	if (!c->sending)
		c->sent_ms = c->answer_ms = conn_now(c);
	c->sending = true;
	ssize_t n = sock_send(c->sock, iov, n_runs);
	if (n < 0) {
		if (n != -EAGAIN)
			conn_close(c);
		return false;
	}
	metric_add(METRIC_KAFKA_BYTES_OUT, n);
	c->sent_ms = conn_now(c);
	conn_count_sent(c, (size_t)n);
	return true;
}

/* ------------------------------------------------------------------ the turn */

static bool conn_turn(struct conn *c)
{
	bool progress = conn_parse(c);
	if (c->dead)
		return false;
	progress |= conn_start_ready(c);
	progress |= conn_pop_done(c);
	if (c->dead)
		return false;
	if (!c->task.queued) /* else at the end of the turn, behind what storaged is asked meanwhile */
		progress |= conn_write(c);
	if (c->dead)
		return false;
	progress |= conn_pop_done(c);
	if (!c->dead && progress)
		conn_count_queue(c);
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
	c->server->full = topics_is_full(c->server->topics);
	for (int reads = 0;;) {
		if (conn_turn(c))
			continue;
		if (c->dead)
			return;
		if (!sock_is_readable(c->sock) || !conn_has_room(c) || reads++ == READS_A_TURN || !conn_read(c))
			break;
	}
	if (c->dead)
		return;
	if (c->no_input && c->first == NULL && !c->lingering)
		conn_finish(c);
	if (c->dead)
		return;
	if (buf_len(&c->in) == 0)
		buf_reset(&c->in, 0);
	conn_account(c);
	sock_want(c->sock, conn_has_room(c), c->sending);
	conn_rearm(c);
}

void conn_wake(struct conn *c)
{
	if (!c->dead && !c->task.queued)
		env_defer(c->server->env, &c->task);
}

void conn_kick(struct conn *c)
{
	c->since_ms = conn_now(c);
	conn_wake(c);
}

static void on_ready(void *arg)
{
	struct conn *c = arg;
	must(c->magic == CONN_MAGIC && !c->dead);
	if (c->server->draining && !c->no_input)
		conn_drain(c);
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
	if (sock_is_opening(c->sock)) /* on_ready() comes back here */
		return;
	sock_expect(c->sock); /* what has come already is served */
	conn_run(c);
	if (c->dead)
		return;
	conn_end_of_input(c);
	conn_run(c);
}

static int open_sock(struct conn *c, int fd)
{
	static const struct sock_events events = { on_ready, on_over };
	const struct server *s = c->server;
	return sock_open(&(struct sock_config){
		.env = s->env,
		.events = &events,
		.arg = c,
		.tls = c->secure ? *s->tls : NULL,
		.handshake_ms = s->conf->header_timeout_ms,
	}, fd, &c->sock);
}

void conn_new(struct server *s, int fd, const uint8_t address[16], const struct child_listener *from)
{
	struct conn *c = must_calloc(1, sizeof(*c));
	*c = (struct conn){ .magic = CONN_MAGIC, .server = s, .secure = from->tls, .last = &c->first };
	int r = open_sock(c, fd);
	if (r < 0) {
		acceptor_failed(s->acceptor, address, r);
		conn_free(c);
		return;
	}
	memcpy(c->address, address, sizeof(c->address));
	buf_init(&c->in, 2 * READ_MAX);
	fetch_ahead_init(&c->ahead, s);
	c->task = (struct env_task){ .run = conn_run, .arg = c };
	c->timer = (struct env_timer){ .on_fire = on_timer, .arg = c };
	c->since_ms = c->sent_ms = conn_now(c);
	c->next = s->conns;
	if (c->next != NULL)
		c->next->prev = c;
	s->conns = c;
	conn_run(c);
}
