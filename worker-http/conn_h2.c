/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/2 on a connection: streams are requests, independent of each other.
 *
 * Memory. A body holds a stream window, until the connection's queue has room or it is the oldest that is not whole:
 * then its window opens as it comes, so one body of any size always goes on. Answers are made in pieces of 32 KiB; those
 * that are made whole start few at a time and not while too many wait to be sent. Heads have a bound of their own.
 *
 * Time. A body that stops is 408; a stream whose client opens no window is reset; the connection goes on.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/conn_version.h"
#include "worker-http/http2.h"

#define PIECE_MAX 32768u                /* of an answer; a stream holds two */
#define HEADS_MAX (1u << 20)            /* of all streams together; REFUSED_STREAM beyond */
#define ANSWERS_MAX (16u << 20)         /* waiting answers of all streams, then none is started */
#define WHOLE_MAX 16                    /* requests under way that may be answered in one piece of any size */
#define WAITING_MAX 500                 /* control frames that the client does not take; it is not read beyond */
#define BLOCKED_TIMES 10u               /* body time-outs that one body waits for those before it */
#define ROUND_TRIP_MS 1000              /* how long a client that is told of the end may go on to begin streams */

struct h2 {
	struct http2 *http2;
	size_t heads;                   /* bytes of all heads */
	size_t answers;                 /* and of answers, when they were counted */
	uint64_t goaway_ms;             /* when the second GOAWAY is due at the latest; 0: there was no first */
	bool gone;                      /* it was sent */
};

/* ------------------------------------------------------------------ what http2 tells */

static void *on_head(void *arg, int32_t stream, const struct http1_head *head, int status, const char *reason)
{
	struct conn *c = arg;
	struct h2 *h = c->state;
	if (h->heads + head->bytes.n > HEADS_MAX)
		return NULL;
	struct request *r = conn_push(c, head);
	h->heads += head->bytes.n;
	r->stream.head_n = head->bytes.n;
	r->stream.id = stream;
	r->stream.since_ms = conn_now(c);
	if (r->piece_max > PIECE_MAX)
		r->piece_max = PIECE_MAX;
	c->route(r);
	must(r->route != NULL);
	if (status == 0)
		status = conn_head_fault(c, head, &reason);
	if (status != 0)
		conn_refuse_request(r, status, reason);
	else if (head->expect_continue)
		r->stream.expect = true;
	return r;
}

static void on_body(void *arg, void *owner, struct slice piece)
{
	struct conn *c = arg;
	struct request *r = owner;
	r->stream.since_ms = conn_now(c);
	r->stream.expect = false;
	if (r->route != NULL && conn_take_body(c, r, piece))
		r->stream.held += piece.n; /* of one that is refused the window stays shut */
}

static void on_last(void *arg, void *owner)
{
	struct conn *c = arg;
	conn_take_last(c, owner);
}

static void on_gone(void *arg, void *owner)
{
	struct conn *c = arg;
	struct h2 *h = c->state;
	struct request *r = owner;
	h->heads -= r->stream.head_n;
	conn_drop(c, r);
}

static struct slice body(void *arg, void *owner, bool *ret_ended)
{
	struct request *r = owner;
	*ret_ended = r->answer.ended;
	r->stream.waits = buf_len(&r->answer.body) == 0 && !r->answer.ended;
	return buf_slice(&r->answer.body);
}

static void on_sent(void *arg, void *owner, size_t n)
{
	struct conn *c = arg;
	struct request *r = owner;
	buf_consume(&r->answer.body, n);
	if (buf_len(&r->answer.body) == 0)
		buf_reset(&r->answer.body, r->answer.ended ? 0 : SIZE_MAX);
	r->stream.since_ms = conn_now(c);
}

/* ------------------------------------------------------------------ life */

static void h2_open(struct conn *c)
{
	static const struct http2_events events = { on_head, on_body, on_last, on_gone, body, on_sent };
	struct h2 *h = must_calloc(1, sizeof(*h));
	c->state = h;
	h->http2 = http2_new(&events, c, &c->out);
}

static void h2_done(struct conn *c)
{
	struct h2 *h = c->state;
	http2_free(h->http2);
	free(h);
}

/* ------------------------------------------------------------------ input */

static void h2_take(struct conn *c, struct slice bytes)
{
	struct h2 *h = c->state;
	if (!http2_input(h->http2, bytes, conn_now(c)))
		c->no_input = true;
}

/* It can open no window any more, and nobody reads what waits for one. */
static void h2_take_end(struct conn *c)
{
	conn_close(c);
}

static bool h2_has_room(const struct conn *c)
{
	const struct h2 *h = c->state;
	return http2_waiting(h->http2) < WAITING_MAX;
}

static bool h2_is_parked(const struct conn *c)
{
	return true;
}

/* ------------------------------------------------------------------ time */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Is a part of its answer there that the client has opened no window for? */
static bool is_unsent(const struct request *r)
{
	return r->stream.head_sent && !r->stream.reset && (buf_len(&r->answer.body) > 0 || r->answer.ended);
}

/* It is for us to open the window of its body. */
static bool is_shut(const struct request *r)
{
	return r->stream.held >= HTTP2_STREAM_WINDOW;
}

static uint64_t stream_deadline(const struct conn *c, const struct request *r)
{
	const struct conf *conf = c->server->conf;
	uint64_t since = r->stream.since_ms > c->kicked_ms ? r->stream.since_ms : c->kicked_ms;
	if (is_unsent(r))
		return r->stream.since_ms + conf->stall_timeout_ms;
	if (r->complete || r->route == NULL || c->server->full)
		return 0;
	return since + (is_shut(r) ? BLOCKED_TIMES * conf->body_timeout_ms : conf->body_timeout_ms);
}

static uint64_t head_deadline(const struct conn *c)
{
	const struct h2 *h = c->state;
	uint64_t since = http2_in_head_ms(h->http2);
	return since != 0 && !c->server->full && !c->no_input ? since + c->server->conf->header_timeout_ms : 0;
}

static uint64_t idle_deadline(const struct conn *c)
{
	return c->first == NULL && !c->server->full ? c->since_ms + c->server->conf->idle_timeout_ms : 0;
}

static uint64_t h2_deadline(const struct conn *c)
{
	const struct h2 *h = c->state;
	uint64_t at = earlier(head_deadline(c), idle_deadline(c));
	if (!h->gone)
		at = earlier(at, h->goaway_ms);
	for (const struct request *r = c->first; r != NULL; r = r->next)
		at = earlier(at, stream_deadline(c, r));
	return at;
}

static bool is_due(const struct conn *c, uint64_t at)
{
	return at != 0 && at <= conn_now(c);
}

static void h2_reset(struct conn *c, struct request *r, enum http2_code code)
{
	struct h2 *h = c->state;
	if (!r->stream.reset)
		http2_reset(h->http2, r->stream.id, code);
	r->stream.reset = true;
}

static void h2_late(struct conn *c)
{
	struct h2 *h = c->state;
	if (is_due(c, head_deadline(c)))
		http2_end(h->http2, HTTP2_ENHANCE_YOUR_CALM);
	else if (is_due(c, idle_deadline(c)))
		http2_end(h->http2, HTTP2_NO_ERROR);
	for (struct request *r = c->first; r != NULL; r = r->next) {
		if (!is_due(c, stream_deadline(c, r)))
			continue;
		if (is_unsent(r))
			h2_reset(c, r, HTTP2_CANCEL);
		else if (is_shut(r))
			conn_refuse_request(r, 503, "too many bodies at once");
		else
			conn_refuse_request(r, 408, "the request body stopped coming");
	}
}

/* ------------------------------------------------------------------ start */

/* What is under way; parked ones are not, they need nothing. */
static void count_started(const struct conn *c, unsigned *ret_all, unsigned *ret_whole)
{
	*ret_all = *ret_whole = 0;
	for (const struct request *r = c->first; r != NULL; r = r->next) {
		bool busy = r->started && r->answer.status == 0 && r->on_drain == NULL;
		*ret_all += busy;
		*ret_whole += busy && r->must_wait;
	}
}

/* Starts what may start, in order of arrival, but none waits for one before it. True when something was. */
static bool h2_start_ready(struct conn *c)
{
	const struct h2 *h = c->state;
	unsigned all, whole;
	bool progress = false;
	count_started(c, &all, &whole);
	for (struct request *r = c->first; r != NULL && all < c->server->conf->max_inflight; r = r->next) {
		if (!r->complete || r->started || r->route == NULL)
			continue;
		if (r->must_wait && (whole >= WHOLE_MAX || h->answers >= ANSWERS_MAX))
			continue;
		conn_start(r);
		all++;
		whole += r->must_wait;
		progress = true;
	}
	return progress;
}

/* ------------------------------------------------------------------ output */

static void put_head(struct conn *c, struct request *r)
{
	struct h2 *h = c->state;
	struct answer *a = &r->answer;
	struct buf lines;
	buf_init(&lines, ANSWER_FIELDS_MAX + 1024);
	answer_put_fields(r, &lines);
	if (a->has_length && !a->no_body)
		buf_printf(&lines, "Content-Length: %" PRIu64 "\r\n", a->length);
	must(!lines.failed);
	if (r->is_head || a->no_body) {
		buf_reset(&a->body, 0);
		a->ended = true;
	}
	bool empty = a->ended && buf_len(&a->body) == 0;
	http2_answer(h->http2, r->stream.id, a->status, buf_slice(&lines), !empty);
	buf_done(&lines);
	r->stream.head_sent = true;
	r->stream.since_ms = conn_now(c);
	conn_count_answer(r);
}

/* Brings one answer further. True when something was. */
static bool h2_answer(struct conn *c, struct request *r)
{
	struct h2 *h = c->state;
	struct answer *a = &r->answer;
	if (r->stream.reset || a->status == 0)
		return false;
	if (a->broken) {
		h2_reset(c, r, HTTP2_INTERNAL_ERROR);
		return true;
	}
	if (!r->stream.head_sent) {
		put_head(c, r);
		return true;
	}
	bool is_due_now = buf_len(&a->body) == 0 && !a->ended && !request_is_busy(r) && r->produce != NULL;
	if (is_due_now) {
		r->produce(r);
		must(request_is_busy(r) || buf_len(&a->body) > 0 || a->ended || a->broken);
	}
	if (r->stream.waits && (buf_len(&a->body) > 0 || a->ended)) {
		r->stream.waits = false;
		r->stream.since_ms = conn_now(c);
		http2_resume(h->http2, r->stream.id);
	}
	return is_due_now;
}

static void h2_continue(struct conn *c, struct request *r)
{
	struct h2 *h = c->state;
	if (r->stream.expect && !r->complete && r->answer.status == 0)
		http2_continue(h->http2, r->stream.id);
	r->stream.expect = false;
}

static bool h2_answers(struct conn *c)
{
	bool progress = false;
	for (struct request *r = c->first; r != NULL; r = r->next) {
		h2_continue(c, r);
		progress |= h2_answer(c, r);
	}
	return progress;
}

/* ------------------------------------------------------------------ windows */

/* Of bodies, the oldest first: of it, and of the others while there is room. */
static void h2_open_windows(struct conn *c)
{
	struct h2 *h = c->state;
	bool oldest = true;
	for (struct request *r = c->first; r != NULL; r = r->next) {
		if (r->complete || r->route == NULL)
			continue;
		if (r->stream.held > 0 && (oldest || c->queued < c->server->conf->conn_buffer_size)) {
			http2_open_window(h->http2, r->stream.id, r->stream.held);
			r->stream.held = 0;
			r->stream.since_ms = conn_now(c);
		}
		if (oldest && !r->stream.wide && buf_len(&r->body) > HTTP2_STREAM_WINDOW / 2) {
			http2_widen(h->http2, r->stream.id, HTTP2_CONN_WINDOW);
			r->stream.wide = true;
		}
		oldest = false;
	}
}

/* ------------------------------------------------------------------ end */

/* What the client sends before it hears of it is served: the last stream is named a round trip later (RFC 9113 6.8). */
static void h2_drain(struct conn *c)
{
	struct h2 *h = c->state;
	if (h->goaway_ms != 0)
		return;
	http2_notice(h->http2);
	h->goaway_ms = conn_now(c) + ROUND_TRIP_MS;
}

static void h2_end(struct conn *c)
{
	struct h2 *h = c->state;
	if (h->goaway_ms != 0 && !h->gone && (http2_is_quiet(h->http2) || is_due(c, h->goaway_ms))) {
		http2_goaway(h->http2);
		h->gone = true;
	}
}

/* ------------------------------------------------------------------ the turn */

static bool h2_turn(struct conn *c)
{
	struct h2 *h = c->state;
	bool progress = h2_start_ready(c);
	progress |= h2_answers(c);
	h2_open_windows(c);
	h2_end(c);
	progress |= http2_output(h->http2, &c->out, CONN_OUT_GATHER);
	if (http2_is_over(h->http2))
		c->closing = c->no_input = true;
	return progress;
}

static void h2_rest(struct conn *c)
{
	struct h2 *h = c->state;
	conn_count_queue(c);
	c->queued += h->heads;
	h->answers = 0;
	for (const struct request *r = c->first; r != NULL; r = r->next)
		h->answers += buf_len(&r->answer.body) + buf_len(&r->answer.ahead);
}

const struct conn_version conn_h2 = {
	.open = h2_open,
	.done = h2_done,
	.take = h2_take,
	.take_end = h2_take_end,
	.has_room = h2_has_room,
	.turn = h2_turn,
	.rest = h2_rest,
	.deadline = h2_deadline,
	.late = h2_late,
	.is_parked = h2_is_parked,
	.drain = h2_drain,
};
