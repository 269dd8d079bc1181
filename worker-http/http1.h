/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 requests out of bytes (RFC 9112, strict). No socket and no clock: the caller puts what it
 * read into `in` and pulls events. Where two parsers could read the same bytes differently this one
 * refuses: bare CR, bare LF, obs-fold, space before a colon, control bytes, any Transfer-Encoding
 * but `chunked`, Transfer-Encoding in HTTP/1.0 or next to Content-Length, repeated or missing Host,
 * repeated Content-Length, long chunk extensions.
 *
 * Where the bytes are cut between reads never changes the events, but for the cuts of body pieces.
 */
#ifndef WORKER_HTTP_HTTP1_H
#define WORKER_HTTP_HTTP1_H

#include "common/buf.h"
#include "common/slice.h"

#define HTTP1_HEAD_MAX 65536        /* request line and headers, 431 beyond */
#define HTTP1_TARGET_MAX 16384      /* 414 beyond */
#define HTTP1_HEADERS_MAX 100       /* 431 beyond */
#define HTTP1_CHUNK_LINE_MAX 256    /* size and extensions of one chunk */
#define HTTP1_CHUNK_EXT_MAX 16384   /* extensions of one body */
#define HTTP1_TRAILER_MAX 8192
#define HTTP1_READ_MAX 65536        /* what one read may add to `in` */

struct http1_field {
	struct slice name;
	struct slice value;             /* without white space around it */
};

/* One request head. Slices point into `bytes`. */
struct http1_head {
	struct slice bytes;             /* valid until something is added to `in` */
	struct slice method;
	struct slice path;              /* as received, without scheme and authority; "*" for OPTIONS * */
	struct slice query;             /* behind '?', empty without one */
	unsigned minor;                 /* HTTP/1.minor */
	struct http1_field field[HTTP1_HEADERS_MAX];
	unsigned n_fields;
	bool keep_alive;
	bool expect_continue;
	bool expect_unknown;            /* an expectation that is not 100-continue: 417 */
	bool chunked;
	bool has_length;
	uint64_t content_length;
};

enum http1_event {
	HTTP1_MORE,                     /* put more bytes into `in` */
	HTTP1_HEAD,                     /* head is filled in */
	HTTP1_BODY,                     /* piece is filled in */
	HTTP1_END,                      /* the request is complete */
	HTTP1_ERROR,                    /* answer status with reason and close; every later event is this one */
};

struct http1 {
	struct buf in;
	struct slice piece;             /* of HTTP1_BODY; valid until the next call */
	int status;                     /* of HTTP1_ERROR */
	const char *reason;

	/* private */
	unsigned state;
	size_t scan;                    /* bytes of `in` looked at */
	size_t line;                    /* where the line being scanned begins */
	size_t eat;                     /* bytes to drop before the next event */
	uint64_t left;                  /* of the body or chunk */
	size_t extensions;              /* bytes of chunk extensions so far */
	bool cr;                        /* the last byte scanned was CR */
	bool blank;                     /* one empty line before a request line was skipped */
};

void http1_init(struct http1 *p);
void http1_done(struct http1 *p);

/* head is written only when the result is HTTP1_HEAD. */
enum http1_event http1_next(struct http1 *p, struct http1_head *head);

/* Between requests: nothing of the next one has come. */
bool http1_is_idle(const struct http1 *p);
/* Some bytes of a head have come, but not all. */
bool http1_is_in_head(const struct http1 *p);

/* While idle: keeps so much memory at most. */
void http1_shrink(struct http1 *p, size_t keep);

/* Case-insensitive comparison with lower-case text. */
bool http1_is_word(struct slice s, const char *lower);
/* RFC 9110 token characters. */
bool http1_is_token(struct slice s);
/* A host with or without port; empty, too. */
bool http1_is_host(struct slice s);
/* Digits that fit. */
bool http1_take_length(struct slice s, uint64_t *ret_length);
/* Sets path and query; head->method stands already. */
bool http1_take_target(struct http1_head *head, struct slice target);

#endif
