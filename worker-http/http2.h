/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/2 (RFC 9113) out of bytes and into bytes: libnghttp2 with our limits around it. No socket and no clock: the caller
 * gives what it read, hears of heads, bodies and ends, says what is answered, and takes frames to send.
 *
 * What a client violates ends its stream or the connection with the code that the RFC names. What costs us and brings
 * nothing (resets, ours because of its faults included, pings, settings, empty frames) has a rate; beyond, the connection
 * ends with ENHANCE_YOUR_CALM. Windows open only as the caller says, so a client sends no more than what is taken.
 */
#ifndef WORKER_HTTP_HTTP2_H
#define WORKER_HTTP_HTTP2_H

#include "worker-http/http1.h"

#define HTTP2_STREAMS_MAX 200           /* open at once; REFUSED_STREAM beyond */
#define HTTP2_STREAM_WINDOW 65535       /* bytes of a body before its window is opened */
#define HTTP2_CONN_WINDOW (1u << 20)
#define HTTP2_FIELD_OVERHEAD 32         /* what a header counts beside its bytes (RFC 9113 6.5.2) */

struct http2;

enum http2_code {                       /* RFC 9113 7 */
	HTTP2_NO_ERROR = 0,
	HTTP2_PROTOCOL_ERROR = 1,
	HTTP2_INTERNAL_ERROR = 2,
	HTTP2_STREAM_CLOSED = 5,
	HTTP2_REFUSED_STREAM = 7,
	HTTP2_CANCEL = 8,
	HTTP2_ENHANCE_YOUR_CALM = 11,
};

/* What is heard within http2_input() and http2_output(). None of these may free the http2. */
struct http2_events {
	/* A request's head, as one of HTTP/1.1; slices stay valid during the call. status is that of the answer that refuses
	 * it with `reason`, or 0. Returns the stream's owner; NULL: the stream is refused, and not heard of again. */
	void *(*on_head)(void *arg, int32_t stream, const struct http1_head *head, int status, const char *reason);
	void (*on_body)(void *arg, void *owner, struct slice piece);
	/* The request is complete. */
	void (*on_last)(void *arg, void *owner);
	/* The stream is closed, its answer sent or not. */
	void (*on_gone)(void *arg, void *owner);
	/* What of the answer's body may be sent now. */
	struct slice (*body)(void *arg, void *owner, bool *ret_ended);
	/* So much of that was put out. */
	void (*on_sent)(void *arg, void *owner, size_t n);
};

/* Puts the server's beginning into out. */
struct http2 *http2_new(const struct http2_events *events, void *arg, struct buf *out);
void http2_free(struct http2 *h);

/* Bytes from the connection preface on. False when the connection is over but for what is to be sent. */
bool http2_input(struct http2 *h, struct slice bytes, uint64_t now_ms);
/* Moves frames behind what stands in out, until that is `enough` bytes. True when some were. */
bool http2_output(struct http2 *h, struct buf *out, size_t enough);
/* Nothing more is taken, and all is put out. */
bool http2_is_over(const struct http2 *h);
/* Since when the client's beginning, or a header block, or a frame other than DATA has come in part; 0: none has. */
uint64_t http2_in_head_ms(const struct http2 *h);
/* Control frames that wait to be put out; the caller stops reading before there are too many. */
size_t http2_waiting(const struct http2 *h);

/* ------------------------------------------------------------------ answers */

/* The head of an answer: lines as in HTTP/1.1, each with CRLF. Without a body the stream ends with it. */
void http2_answer(struct http2 *h, int32_t stream, int status, struct slice lines, bool has_body);
/* 100 Continue. */
void http2_continue(struct http2 *h, int32_t stream);
/* body() has something again, or has ended. */
void http2_resume(struct http2 *h, int32_t stream);
void http2_reset(struct http2 *h, int32_t stream, enum http2_code code);

/* ------------------------------------------------------------------ windows */

/* The client may send n more bytes of that body. */
void http2_open_window(struct http2 *h, int32_t stream, size_t n);
/* And so much at a time. */
void http2_widen(struct http2 *h, int32_t stream, uint32_t window);

/* ------------------------------------------------------------------ end */

/* GOAWAY that takes what is on its way; then, a round trip later, http2_is_quiet(); then http2_goaway(). */
void http2_notice(struct http2 *h);
bool http2_is_quiet(const struct http2 *h);
/* GOAWAY: later streams are not taken, those that are there finish. */
void http2_goaway(struct http2 *h);
/* GOAWAY with that code, and nothing but what is to be sent. */
void http2_end(struct http2 *h, enum http2_code code);

#endif
