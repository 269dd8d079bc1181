/* SPDX-License-Identifier: Apache-2.0
 *
 * One nghttp2_session. A header block is gathered in `block`, which exists only while one is under way (RFC 9113 4.3:
 * one at a time), so that an idle connection holds nothing of it.
 */
#include "worker-http/http2.h"

#include <inttypes.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"

#define CONTINUATIONS_MAX 8
#define SETTINGS_MAX 32
#define ACKS_MAX 200
#define RESETS_BURST 200                /* streams that end by a fault or a whim of the client */
#define RESETS_A_SECOND 20
#define IDLE_BURST 1000                 /* frames that bring nothing */
#define IDLE_A_SECOND 100
#define SENT_HEAD_MAX (1u << 18)        /* an answer's header lines and what packing adds */
#define METHOD_MAX 32
#define UNPACKED_MAX (4 * HTTP1_HEAD_MAX) /* of a header block; 431 below that, beyond it is no mistake */
#define ENDED_MAX 64

/* A header block under way. Slices are kept as offsets into `bytes`, which moves as it grows. */
struct span {
	uint32_t at, n;
};

struct block {
	int32_t stream;
	struct buf bytes;
	size_t size;                    /* as RFC 9113 6.5.2 counts */
	int status;                     /* of the answer that refuses it; 0 */
	const char *reason;
	struct span method, target, authority;
	struct { struct span name, value; } field[HTTP1_HEADERS_MAX];
	unsigned n_fields;
};

struct bucket {
	unsigned tokens;
	uint64_t since_ms;              /* when they were counted */
};

/* Where the input stands in its frames. */
struct scan {
	size_t preface_left;
	uint8_t head[9];
	unsigned n_head;                /* bytes of the head that have come */
	size_t left;                    /* of the payload */
};

/* Streams that were closed last: frames of them may still come, or must not. */
enum ending { ENDING_NONE, ENDING_CLIENT, ENDING_NEVER_BEGAN };
struct ended {
	int32_t stream;
	bool by_client;                 /* it said END_STREAM or RST_STREAM */
};

struct http2 {
	const struct http2_events *events;
	void *arg;
	nghttp2_session *session;       /* owned */
	struct block *block;            /* owned; NULL between header blocks */
	size_t unpacked;                /* bytes of the header block under way */
	unsigned n_streams;             /* those with an owner */
	struct scan scan;
	struct ended ended[ENDED_MAX];
	unsigned next_ended;
	int32_t last_stream;            /* that the client began */
	int32_t last_forgotten;         /* the highest that stands in `ended` no more */
	int32_t reset_stream;           /* the last that was closed by our RST_STREAM */
	uint64_t head_ms;               /* when a frame began to come, and no block was under way */
	uint64_t now_ms;
	struct bucket resets, idle;
	struct buf *out;                /* of http2_output(), while it runs */
	size_t enough;
	bool greeted;                   /* the client's SETTINGS have come */
	bool quiet;                     /* the ping of http2_notice() came back */
	bool over;                      /* nothing is taken */
};

/* ------------------------------------------------------------------ rates */

static bool bucket_take(struct bucket *b, unsigned burst, unsigned a_second, uint64_t now_ms)
{
	uint64_t grown = (now_ms - b->since_ms) * a_second / 1000;
	if (grown > 0) {
		b->tokens = b->tokens + grown < burst ? b->tokens + (unsigned)grown : burst;
		b->since_ms = now_ms;
	}
	if (b->tokens == 0)
		return false;
	b->tokens--;
	return true;
}

static void count_reset(struct http2 *h)
{
	if (!bucket_take(&h->resets, RESETS_BURST, RESETS_A_SECOND, h->now_ms))
		http2_end(h, HTTP2_ENHANCE_YOUR_CALM);
}

static void count_idle(struct http2 *h)
{
	if (!bucket_take(&h->idle, IDLE_BURST, IDLE_A_SECOND, h->now_ms))
		http2_end(h, HTTP2_ENHANCE_YOUR_CALM);
}

/* ------------------------------------------------------------------ a header block */

static void block_free(struct http2 *h)
{
	if (h->block != NULL)
		buf_done(&h->block->bytes);
	free(h->block);
	h->block = NULL;
}

static void block_begin(struct http2 *h, int32_t stream)
{
	block_free(h);
	h->block = must_calloc(1, sizeof(*h->block));
	h->block->stream = stream;
	buf_init(&h->block->bytes, HTTP1_HEAD_MAX);
}

static void block_refuse(struct block *b, int status, const char *reason)
{
	if (b->status != 0)
		return;
	b->status = status;
	b->reason = reason;
}

static struct span block_put(struct block *b, struct slice s)
{
	struct span at = { (uint32_t)buf_len(&b->bytes), (uint32_t)s.n };
	buf_put_slice(&b->bytes, s);
	return at;
}

static void block_put_field(struct block *b, struct slice name, struct slice value)
{
	if (b->n_fields == HTTP1_HEADERS_MAX) {
		block_refuse(b, 431, "more than 100 headers");
		return;
	}
	b->field[b->n_fields].name = block_put(b, name);
	b->field[b->n_fields++].value = block_put(b, value);
}

/* What is beyond a bound is not kept, but the rest of the block must be unpacked: it changes the tables. */
static void block_take(struct block *b, struct slice name, struct slice value)
{
	b->size += name.n + value.n + HTTP2_FIELD_OVERHEAD;
	if (b->size > HTTP1_HEAD_MAX)
		block_refuse(b, 431, "the request head is longer than 64 KiB");
	else if (slice_is(name, ":path") && value.n > HTTP1_TARGET_MAX)
		block_refuse(b, 414, "the request target is longer than 16 KiB");
	else if (slice_is(name, ":method"))
		b->method = block_put(b, value);
	else if (slice_is(name, ":path"))
		b->target = block_put(b, value);
	else if (slice_is(name, ":authority"))
		b->authority = block_put(b, value);
	else if (name.p[0] != ':')
		block_put_field(b, name, value);
}

static struct slice block_slice(const struct block *b, struct span s)
{
	static const uint8_t nothing;
	return s.n > 0 ? slice_of(buf_head(&b->bytes) + s.at, s.n) : slice_of(buf_len(&b->bytes) > 0 ? buf_head(&b->bytes) :
									      &nothing, 0);
}

/* RFC 9113 8.3.1: a Host that says another thing than :authority is a fault; alone, either is the host. */
static void block_host(struct block *b)
{
	struct slice authority = block_slice(b, b->authority);
	for (unsigned i = 0; i < b->n_fields; i++) {
		if (!slice_is(block_slice(b, b->field[i].name), "host"))
			continue;
		struct slice host = block_slice(b, b->field[i].value);
		if ((authority.n > 0 && !slice_eq(host, authority)) || !http1_is_host(host))
			block_refuse(b, 400, "malformed Host, or another than :authority");
		return;
	}
	if (!http1_is_host(authority))
		block_refuse(b, 400, "malformed :authority");
	else if (authority.n > 0 && b->n_fields < HTTP1_HEADERS_MAX) {
		b->field[b->n_fields].name = block_put(b, slice_str("host"));
		b->field[b->n_fields++].value = b->authority;
	}
}

static bool is_target(struct http1_head *head, struct slice target)
{
	return target.n > 0 && (target.p[0] == '/' || target.p[0] == '*') && http1_take_target(head, target);
}

static void head_field(struct http1_head *head, struct block *b, const struct http1_field *field)
{
	if (slice_is(field->name, "content-length")) {
		head->has_length = http1_take_length(field->value, &head->content_length);
		if (!head->has_length)
			block_refuse(b, 400, "malformed Content-Length");
	} else if (slice_is(field->name, "expect")) {
		head->expect_continue = http1_is_word(field->value, "100-continue");
		head->expect_unknown = !head->expect_continue;
	}
}

/* The block as a head of HTTP/1.1. Its faults are the block's. */
static void block_head(struct block *b, struct http1_head *head)
{
	*head = (struct http1_head){ .minor = 1, .keep_alive = true };
	block_host(b);
	if (b->bytes.failed)
		block_refuse(b, 431, "the request head is longer than 64 KiB");
	head->bytes = head->method = head->path = head->query = block_slice(b, (struct span){ 0 });
	if (b->status == 431 || b->status == 414)
		return; /* what was kept is not all of it */
	head->bytes = buf_slice(&b->bytes);
	head->method = block_slice(b, b->method);
	if (head->method.n > METHOD_MAX || !http1_is_token(head->method) || !is_target(head, block_slice(b, b->target)))
		block_refuse(b, 400, "malformed request target");
	for (unsigned i = 0; i < b->n_fields; i++) {
		head->field[i].name = block_slice(b, b->field[i].name);
		head->field[i].value = block_slice(b, b->field[i].value);
		head_field(head, b, &head->field[i]);
	}
	head->n_fields = b->n_fields;
}

static void block_end(struct http2 *h)
{
	static struct http1_head head;
	struct block *b = h->block;
	int32_t stream = b->stream;
	block_head(b, &head);
	void *owner = h->events->on_head(h->arg, stream, &head, b->status, b->reason);
	block_free(h);
	if (owner == NULL) {
		http2_reset(h, stream, HTTP2_REFUSED_STREAM);
		return;
	}
	must(nghttp2_session_set_stream_user_data(h->session, stream, owner) == 0);
	h->n_streams++;
}

/* ------------------------------------------------------------------ what nghttp2 tells of input */

static void *owner_of(const struct http2 *h, int32_t stream)
{
	return nghttp2_session_get_stream_user_data(h->session, stream);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2 *h = arg;
	h->unpacked = 0;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (h->n_streams >= HTTP2_STREAMS_MAX) {
		count_idle(h);
		http2_reset(h, frame->hd.stream_id, HTTP2_REFUSED_STREAM);
	} else if (!h->over) {
		block_begin(h, frame->hd.stream_id);
	}
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
		     const uint8_t *value, size_t value_n, uint8_t flags, void *arg)
{
	struct http2 *h = arg;
	if (h->block != NULL && h->block->stream == frame->hd.stream_id)
		block_take(h->block, slice_of(name, name_n), slice_of(value, value_n));
	/* Trailers, and what belongs to a stream that was refused, are unpacked and dropped. */
	h->unpacked += name_n + value_n + HTTP2_FIELD_OVERHEAD;
	if (h->unpacked <= UNPACKED_MAX)
		return 0;
	http2_end(h, HTTP2_ENHANCE_YOUR_CALM);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the rest is not looked at */
}

/* Characters that a field must not have make the request malformed (RFC 9113 8.2.1). */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
			     const uint8_t *value, size_t value_n, uint8_t flags, void *arg)
{
	struct http2 *h = arg;
	if (h->block != NULL && h->block->stream == frame->hd.stream_id)
		block_free(h);
	nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
	return 0;
}

static void on_headers(struct http2 *h, const nghttp2_frame *frame)
{
	if (h->block != NULL && h->block->stream == frame->hd.stream_id)
		block_end(h);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2 *h = arg;
	bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		on_headers(h, frame);
		break;
	case NGHTTP2_DATA:
		if (frame->hd.length == frame->data.padlen && !last)
			count_idle(h);
		break;
	case NGHTTP2_PING:
		h->quiet |= (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
		return 0;
	case NGHTTP2_SETTINGS:
		h->greeted = true;
		return 0;
	default:
		return 0;
	}
	void *owner = owner_of(h, frame->hd.stream_id);
	if (last && owner != NULL)
		h->events->on_last(h->arg, owner);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t n, void *arg)
{
	struct http2 *h = arg;
	void *owner = owner_of(h, stream);
	nghttp2_session_consume_connection(session, n); /* streams' own windows are what holds a client back */
	if (owner != NULL)
		h->events->on_body(h->arg, owner, slice_of(bytes, n));
	return 0;
}

static void remember_end(struct http2 *h, int32_t stream)
{
	struct ended *e = &h->ended[h->next_ended++ % ENDED_MAX];
	if (e->stream > h->last_forgotten)
		h->last_forgotten = e->stream;
	*e = (struct ended){ stream, stream != h->reset_stream };
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct http2 *h = arg;
	void *owner = owner_of(h, stream);
	remember_end(h, stream);
	if (h->block != NULL && h->block->stream == stream)
		block_free(h);
	if (owner == NULL)
		return 0;
	must(h->n_streams > 0);
	h->n_streams--;
	nghttp2_session_set_stream_user_data(session, stream, NULL);
	h->events->on_gone(h->arg, owner);
	return 0;
}

/* ------------------------------------------------------------------ where frames begin */

/* A frame that brings neither a request nor room for an answer; of empty DATA, see on_frame_recv(). */
static bool is_idle_frame(uint8_t type)
{
	switch (type) {
	case NGHTTP2_DATA:
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
	case NGHTTP2_WINDOW_UPDATE:
	case NGHTTP2_RST_STREAM:
		return false;
	}
	return true;
}

/* Is a stream that is closed still spoken of, and who is wrong then? */
static enum ending ending_of(const struct http2 *h, int32_t stream)
{
	if (nghttp2_session_find_stream(h->session, stream) != NULL)
		return ENDING_NONE;
	for (size_t i = 0; i < ENDED_MAX; i++)
		if (h->ended[i].stream == stream)
			return h->ended[i].by_client ? ENDING_CLIENT : ENDING_NONE;
	return stream > h->last_forgotten && stream <= h->last_stream ? ENDING_NEVER_BEGAN : ENDING_NONE;
}

/*
 * What nghttp2 lets pass in silence: DATA and HEADERS of a stream that the client itself has ended (RFC 9113 5.1), HEADERS
 * of one that it has skipped (5.1.1), PRIORITY of stream 0 (6.3).
 */
static void check_frame(struct http2 *h)
{
	const uint8_t *head = h->scan.head;
	int32_t stream = (int32_t)(((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) &
				   INT32_MAX);
	uint8_t type = head[3];
	if (is_idle_frame(type))
		count_idle(h);
	if (type == NGHTTP2_PRIORITY && stream == 0)
		http2_end(h, HTTP2_PROTOCOL_ERROR);
	if ((type != NGHTTP2_DATA && type != NGHTTP2_HEADERS) || stream == 0)
		return;
	enum ending ending = ending_of(h, stream);
	if (ending == ENDING_CLIENT)
		http2_end(h, HTTP2_STREAM_CLOSED);
	else if (ending == ENDING_NEVER_BEGAN && type == NGHTTP2_HEADERS)
		http2_end(h, HTTP2_PROTOCOL_ERROR);
	if (type == NGHTTP2_HEADERS && stream > h->last_stream)
		h->last_stream = stream;
}

uint64_t http2_in_head_ms(const struct http2 *h)
{
	bool in_frame = h->scan.n_head > 0 && (h->scan.n_head < sizeof(h->scan.head) || h->scan.head[3] != NGHTTP2_DATA);
	return !h->greeted || h->block != NULL || in_frame ? h->head_ms : 0;
}

static void feed(struct http2 *h, struct slice bytes)
{
	ssize_t n = nghttp2_session_mem_recv(h->session, bytes.p, bytes.n);
	if (n == NGHTTP2_ERR_BAD_CLIENT_MAGIC || n == NGHTTP2_ERR_PROTO)
		nghttp2_session_terminate_session(h->session, NGHTTP2_PROTOCOL_ERROR);
	else if (n < 0)
		nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
	h->over |= n < 0 || nghttp2_session_want_read(h->session) == 0;
}

static size_t take_preface(struct http2 *h, struct slice bytes)
{
	size_t n = bytes.n < h->scan.preface_left ? bytes.n : h->scan.preface_left;
	h->scan.preface_left -= n;
	feed(h, slice_of(bytes.p, n));
	return n;
}

/* nghttp2 gets it whole: 1.52 counts each part of the head of a CONTINUATION as one more of them. */
static size_t take_frame_head(struct http2 *h, struct slice bytes)
{
	struct scan *s = &h->scan;
	size_t n = 0;
	if (s->n_head == 0 && h->block == NULL)
		h->head_ms = h->now_ms;
	while (n < bytes.n && s->n_head < sizeof(s->head))
		s->head[s->n_head++] = bytes.p[n++];
	if (s->n_head < sizeof(s->head))
		return n;
	s->left = (size_t)s->head[0] << 16 | (size_t)s->head[1] << 8 | s->head[2];
	check_frame(h);
	if (!h->over)
		feed(h, slice_of(s->head, sizeof(s->head)));
	return n;
}

static size_t take_payload(struct http2 *h, struct slice bytes)
{
	size_t n = bytes.n < h->scan.left ? bytes.n : h->scan.left;
	h->scan.left -= n;
	if (n > 0)
		feed(h, slice_of(bytes.p, n));
	return n;
}

bool http2_input(struct http2 *h, struct slice bytes, uint64_t now_ms)
{
	struct scan *s = &h->scan;
	h->now_ms = now_ms;
	if (h->head_ms == 0)
		h->head_ms = now_ms;
	while (bytes.n > 0 && !h->over) {
		size_t n = s->preface_left > 0 ? take_preface(h, bytes) :
			s->n_head < sizeof(s->head) ? take_frame_head(h, bytes) : take_payload(h, bytes);
		if (s->n_head == sizeof(s->head) && s->left == 0)
			s->n_head = 0;
		bytes = slice_of(bytes.p + n, bytes.n - n);
	}
	return !h->over;
}

/* ------------------------------------------------------------------ output */

/* Of the answer's head, or of its last piece: what comes of the request is of no use any more. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct http2 *h = arg;
	int32_t stream = frame->hd.stream_id;
	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		h->reset_stream = stream;
		uint32_t code = frame->rst_stream.error_code;
		if (code != NGHTTP2_NO_ERROR && code != NGHTTP2_REFUSED_STREAM)
			count_reset(h);
	} else if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		   (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
		   nghttp2_session_get_stream_remote_close(session, stream) == 0) {
		http2_reset(h, stream, HTTP2_NO_ERROR); /* RFC 9113 8.1 */
	}
	return 0;
}

/* How much of a body the next frame has; the bytes are copied by on_send_data(). */
static ssize_t on_read_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t max, uint32_t *flags,
			    nghttp2_data_source *source, void *arg)
{
	struct http2 *h = arg;
	bool ended = true;
	void *owner = owner_of(h, stream);
	must(owner != NULL);
	struct slice body = h->events->body(h->arg, owner, &ended);
	if (body.n == 0 && !ended)
		return NGHTTP2_ERR_DEFERRED;
	if (body.n <= max && ended)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (body.n > 0)
		*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	return (ssize_t)(body.n < max ? body.n : max);
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
			nghttp2_data_source *source, void *arg)
{
	struct http2 *h = arg;
	bool ended;
	void *owner = owner_of(h, frame->hd.stream_id);
	must(owner != NULL && frame->data.padlen == 0);
	struct slice body = h->events->body(h->arg, owner, &ended);
	must(body.n >= n);
	buf_put(h->out, head, 9);
	buf_put(h->out, body.p, n);
	h->events->on_sent(h->arg, owner, n);
	return buf_len(h->out) >= h->enough ? NGHTTP2_ERR_PAUSE : 0;
}

bool http2_output(struct http2 *h, struct buf *out, size_t enough)
{
	size_t before = buf_len(out);
	h->out = out;
	h->enough = enough;
	while (buf_len(out) < enough) {
		const uint8_t *bytes;
		ssize_t n = nghttp2_session_mem_send(h->session, &bytes);
		must(n != NGHTTP2_ERR_NOMEM);
		if (n <= 0)
			break;
		buf_put(out, bytes, (size_t)n);
	}
	h->out = NULL;
	return buf_len(out) > before;
}

bool http2_is_over(const struct http2 *h)
{
	return (h->over || nghttp2_session_want_read(h->session) == 0) && nghttp2_session_want_write(h->session) == 0;
}

size_t http2_waiting(const struct http2 *h)
{
	return nghttp2_session_get_outbound_queue_size(h->session);
}

/* ------------------------------------------------------------------ answers */

/* The next line of a head as a name in lower case and a value; the name is changed in place. */
static bool next_field(struct slice *lines, nghttp2_nv *nv)
{
	if (lines->n == 0)
		return false;
	uint8_t *line = (uint8_t *)(uintptr_t)lines->p;
	uint8_t *colon = memchr(line, ':', lines->n), *lf = memchr(line, '\n', lines->n);
	must(colon != NULL && lf > colon && lf[-1] == '\r');
	for (uint8_t *p = line; p < colon; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p |= 0x20;
	uint8_t *value = colon + 1, *end = lf - 1;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t')) /* RFC 9113 8.2.1 */
		end--;
	*nv = (nghttp2_nv){ line, value, (size_t)(colon - line), (size_t)(end - value), NGHTTP2_NV_FLAG_NONE };
	*lines = slice_of(lf + 1, lines->n - (size_t)(lf + 1 - line));
	return true;
}

static nghttp2_nv status_field(int status, char text[16])
{
	snprintf(text, 16, "%d", status);
	return (nghttp2_nv){ (uint8_t *)":status", (uint8_t *)text, 7, strlen(text), NGHTTP2_NV_FLAG_NONE };
}

void http2_answer(struct http2 *h, int32_t stream, int status, struct slice lines, bool has_body)
{
	char text[16];
	size_t n_lines = 0, n = 1;
	nghttp2_data_provider body = { .read_callback = on_read_body };
	for (size_t i = 0; i < lines.n; i++)
		n_lines += lines.p[i] == '\n';
	nghttp2_nv *nv = must_calloc(n_lines + 1, sizeof(*nv));
	uint8_t *copy = must_memdup(lines.p, lines.n);
	struct slice left = slice_of(copy, lines.n);
	nv[0] = status_field(status, text);
	while (next_field(&left, &nv[n]))
		n++;
	must(n == n_lines + 1);
	int r = nghttp2_submit_response(h->session, stream, nv, n, has_body ? &body : NULL);
	must(r != NGHTTP2_ERR_NOMEM && r != NGHTTP2_ERR_INVALID_ARGUMENT);
	free(copy);
	free(nv);
}

void http2_continue(struct http2 *h, int32_t stream)
{
	char text[16];
	nghttp2_nv nv = status_field(100, text);
	nghttp2_submit_headers(h->session, NGHTTP2_FLAG_NONE, stream, NULL, &nv, 1, NULL);
}

void http2_resume(struct http2 *h, int32_t stream)
{
	nghttp2_session_resume_data(h->session, stream);
}

void http2_reset(struct http2 *h, int32_t stream, enum http2_code code)
{
	must(nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, stream, code) == 0);
}

/* ------------------------------------------------------------------ windows */

void http2_open_window(struct http2 *h, int32_t stream, size_t n)
{
	nghttp2_session_consume_stream(h->session, stream, n);
}

void http2_widen(struct http2 *h, int32_t stream, uint32_t window)
{
	nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, stream, (int32_t)window);
}

/* ------------------------------------------------------------------ end */

void http2_notice(struct http2 *h)
{
	static const uint8_t word[8] = "drained";
	nghttp2_submit_shutdown_notice(h->session);
	nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, word);
}

bool http2_is_quiet(const struct http2 *h)
{
	return h->quiet;
}

void http2_goaway(struct http2 *h)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(h->session);
	nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
}

void http2_end(struct http2 *h, enum http2_code code)
{
	if (h->over)
		return;
	nghttp2_session_terminate_session(h->session, code);
	h->over = true;
}

/* ------------------------------------------------------------------ life */

static nghttp2_option *options_new(void)
{
	nghttp2_option *o;
	must(nghttp2_option_new(&o) == 0);
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_max_continuations(o, CONTINUATIONS_MAX);
	nghttp2_option_set_stream_reset_rate_limit(o, RESETS_BURST, RESETS_A_SECOND);
	nghttp2_option_set_max_settings(o, SETTINGS_MAX);
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_max_send_header_block_length(o, SENT_HEAD_MAX);
	nghttp2_option_set_no_closed_streams(o, 1);
	return o;
}

static nghttp2_session_callbacks *callbacks_new(void)
{
	nghttp2_session_callbacks *c;
	must(nghttp2_session_callbacks_new(&c) == 0);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
	nghttp2_session_callbacks_set_send_data_callback(c, on_send_data);
	return c;
}

/*
 * Our SETTINGS. nghttp2 ends the connection of a client that goes over the number of streams it has acknowledged, where
 * RFC 9113 5.1.2 asks for a stream error: it is told a number that nobody reaches, on_begin_headers() counts, and the
 * client reads ours.
 */
static void put_settings(struct http2 *h, struct buf *out)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, INT32_MAX },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP1_HEAD_MAX },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
	};
	static const uint8_t asked[6] = { 0, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0x7f, 0xff, 0xff, 0xff };
	static const uint8_t sent[6] = { 0, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0, 0, 0, HTTP2_STREAMS_MAX };
	const size_t n_settings = sizeof(settings) / sizeof(settings[0]);
	const uint8_t *frame;
	must(nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, n_settings) == 0);
	ssize_t n = nghttp2_session_mem_send(h->session, &frame);
	must(n == (ssize_t)(9 + 6 * n_settings) && memcmp(frame + 9, asked, 6) == 0);
	buf_put(out, frame, 9);
	buf_put(out, sent, 6);
	buf_put(out, frame + 15, (size_t)n - 15);
}

struct http2 *http2_new(const struct http2_events *events, void *arg, struct buf *out)
{
	struct http2 *h = must_calloc(1, sizeof(*h));
	nghttp2_option *options = options_new();
	nghttp2_session_callbacks *callbacks = callbacks_new();
	*h = (struct http2){ .events = events, .arg = arg, .resets.tokens = RESETS_BURST, .idle.tokens = IDLE_BURST,
			     .scan.preface_left = NGHTTP2_CLIENT_MAGIC_LEN };
	must(nghttp2_session_server_new2(&h->session, callbacks, h, options) == 0);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(options);
	put_settings(h, out);
	must(nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, HTTP2_CONN_WINDOW) == 0);
	return h;
}

void http2_free(struct http2 *h)
{
	if (h == NULL)
		return;
	block_free(h);
	nghttp2_session_del(h->session);
	free(h);
}
