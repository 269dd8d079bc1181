/* SPDX-License-Identifier: Apache-2.0
 *
 * Any frames behind a client's beginning: what is understood does not depend on how the bytes were cut, heads are sound,
 * every stream that was heard of is heard to be gone or still there, and what is put out are whole frames.
 */
#include <stdlib.h>

#include "common/must.h"
#include "t/fuzz/fuzz.h"
#include "worker-http/http2.h"

#define STREAMS 1024

struct stream {
	int32_t id;
	size_t left;                    /* of the answer's body */
	uint32_t sum;                   /* of the request's; compared when it is whole, as a fault may cut it anywhere */
	bool gone, last;
};

struct side {
	struct http2 *http2;
	struct buf out, heard;
	struct stream stream[STREAMS];
	unsigned n_streams, n_open;
};

static void check_inside(struct slice s, struct slice bytes)
{
	must(s.n == 0 || (s.p >= bytes.p && s.p + s.n <= bytes.p + bytes.n));
}

static void *on_head(void *arg, int32_t stream, const struct http1_head *head, int status, const char *reason)
{
	struct side *s = arg;
	must(stream > 0 && stream % 2 == 1 && (status == 0) == (reason == NULL) && head->bytes.n <= HTTP1_HEAD_MAX);
	must(head->n_fields <= HTTP1_HEADERS_MAX && s->n_open < HTTP2_STREAMS_MAX);
	must(status != 0 || (http1_is_token(head->method) && head->path.n > 0 && head->path.n <= HTTP1_TARGET_MAX));
	check_inside(head->method, head->bytes);
	check_inside(head->path, head->bytes);
	check_inside(head->query, head->bytes);
	buf_printf(&s->heard, "HEAD %d %d length=%d:%llu expect=%d%d ", stream, status, head->has_length,
		   (unsigned long long)head->content_length, head->expect_continue, head->expect_unknown);
	buf_put_slice(&s->heard, head->method);
	buf_put_slice(&s->heard, head->path);
	for (unsigned i = 0; i < head->n_fields; i++) {
		check_inside(head->field[i].name, head->bytes);
		check_inside(head->field[i].value, head->bytes);
		buf_put_slice(&s->heard, head->field[i].name);
		buf_put_slice(&s->heard, head->field[i].value);
	}
	if (s->n_streams == STREAMS)
		return NULL;
	s->stream[s->n_streams] = (struct stream){ .id = stream, .left = (size_t)stream * 997 % 40000 };
	s->n_open++;
	return &s->stream[s->n_streams++];
}

static void on_body(void *arg, void *owner, struct slice piece)
{
	struct stream *stream = owner;
	must(!stream->gone && !stream->last);
	for (size_t i = 0; i < piece.n; i++)
		stream->sum = stream->sum * 31 + piece.p[i] + 1;
}

static void on_last(void *arg, void *owner)
{
	struct side *s = arg;
	struct stream *stream = owner;
	must(!stream->gone && !stream->last);
	stream->last = true;
	buf_printf(&s->heard, "LAST %d %u\n", stream->id, stream->sum);
}

static void on_gone(void *arg, void *owner)
{
	struct side *s = arg;
	struct stream *stream = owner;
	must(!stream->gone && s->n_open > 0);
	stream->gone = true;
	s->n_open--;
	buf_printf(&s->heard, "GONE %d\n", stream->id);
}

static struct slice body(void *arg, void *owner, bool *ret_ended)
{
	static const uint8_t bytes[40000];
	const struct stream *stream = owner;
	must(!stream->gone);
	*ret_ended = true;
	return slice_of(bytes, stream->left);
}

static void on_sent(void *arg, void *owner, size_t n)
{
	struct stream *stream = owner;
	must(n <= stream->left);
	stream->left -= n;
}

static void check_frames(struct slice bytes)
{
	while (bytes.n > 0) {
		must(bytes.n >= 9);
		size_t n = 9 + ((size_t)bytes.p[0] << 16 | (size_t)bytes.p[1] << 8 | bytes.p[2]);
		must(n <= bytes.n && n <= 9 + 16384);
		bytes = slice_of(bytes.p + n, bytes.n - n);
	}
}

/* Answers what is whole, and puts all out. */
static void answer(struct side *s)
{
	for (unsigned i = 0; i < s->n_streams; i++)
		if (s->stream[i].last && !s->stream[i].gone)
			http2_answer(s->http2, s->stream[i].id, 200, slice_str("X-Thing: a \r\nDate: b\r\n"),
				     s->stream[i].left > 0);
	while (http2_output(s->http2, &s->out, 65536)) {
		check_frames(buf_slice(&s->out));
		buf_reset(&s->out, 1 << 20);
	}
}

/* In pieces of `step`; what was heard. */
static void feed(const uint8_t *data, size_t size, size_t step, struct side *s)
{
	static const struct http2_events events = { on_head, on_body, on_last, on_gone, body, on_sent };
	static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	buf_init(&s->out, SIZE_MAX / 4);
	buf_init(&s->heard, SIZE_MAX / 4);
	s->n_streams = s->n_open = 0;
	s->http2 = http2_new(&events, s, &s->out);
	must(http2_input(s->http2, slice_of(begin, sizeof(begin)), 1));
	for (size_t at = 0; at < size; at += step)
		if (!http2_input(s->http2, slice_of(data + at, step < size - at ? step : size - at), 1))
			break;
	answer(s);
	http2_free(s->http2);
	buf_done(&s->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t steps[] = { 1, 7, 10 };
	static struct side whole, cut;
	feed(data, size, size + 1, &whole);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		feed(data, size, steps[i], &cut);
		must(slice_eq(buf_slice(&whole.heard), buf_slice(&cut.heard)));
		buf_done(&cut.heard);
	}
	buf_done(&whole.heard);
	return 0;
}
