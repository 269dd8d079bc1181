/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and its answer, as handlers see them: nothing here knows the HTTP version or the socket. A connection makes a
 * request, calls its route's handler once the body is whole, and sends what the handler put into the answer.
 *
 * A handler answers at once or later, from a callback of the Topics API. Long bodies are produced in pieces of at most
 * request_piece_max() bytes: answer_begin_stream(), then `produce` is called each time everything before has left and the
 * request is not busy, and puts the next one into `body`. It may be made ahead, while the one before is sent. So what a
 * request holds is bounded however slowly its client reads.
 */
#ifndef WORKER_HTTP_REQUEST_H
#define WORKER_HTTP_REQUEST_H

#include "common/topics.h"
#include "common/turns.h"
#include "worker-http/http1.h"

#define REQUEST_MAGIC 0x52455155u
#define ANSWER_FIELDS_MAX 131072        /* bytes of header lines of an answer */

struct request;
struct server;

/* One row of a route table. */
struct route {
	const char *method;
	void (*handle)(struct request *r);
};

struct answer {
	int status;                     /* 0: not begun */
	struct buf fields;              /* whole header lines, each with CRLF */
	const char *cache_control;      /* static text; NULL: no-store */
	struct buf body;                /* what is to be sent next */
	struct buf ahead;               /* and after that, when answer_ahead() was called */
	bool has_length;                /* the body's whole length is known */
	uint64_t length;
	bool no_body;                   /* 204 and 304 */
	bool any_piece;                 /* answer_more() was called */
	bool ended;                     /* nothing follows what is in body */
	bool close;                     /* the connection ends behind this answer */
	bool broken;                    /* it cannot be completed: the connection is cut */
	bool http10, chunked;           /* the connection's: how the body is framed */
};

struct request {
	unsigned magic;
	struct server *server;          /* borrowed */

	/* The question; slices are valid as long as the request. */
	uint8_t *head_bytes;            /* owned copy of the head */
	struct slice method, path, query;
	struct slice name;              /* of the topic that the path means; the route function's, part of the path */
	struct http1_field *field;      /* owned */
	unsigned n_fields;
	struct buf body;                /* whole when the handler is called */
	bool is_head;
	bool secure;                    /* it came over TLS */
	bool must_wait;                 /* starts only when every earlier one of its connection is answered */
	char id[129];                   /* X-Request-Id */
	uint64_t complete_ns;           /* when its last byte came */

	struct answer answer;

	/* The handler's. */
	bool wrote_records;             /* an append with a body */
	void *state;
	void (*state_free)(void *state);        /* when the request goes */
	void (*produce)(struct request *r);     /* of a streamed answer */
	void (*on_drain)(struct request *r);    /* set while parked: answer now */
	struct topics_call *call;               /* abandoned when the client is gone */
	struct turn turn;                       /* waits to make one; of server->turns */

	/* The connection's. */
	const struct route *route;      /* NULL: refused before it was whole */
	bool complete;                  /* its body has come */
	bool started;                   /* its handler was called */
	void (*on_answer)(struct request *r);   /* there is something to send, or it waits for news */
	void *owner;
	struct request *next;
	size_t piece_max;
	struct request_stream {         /* of HTTP/2 */
		int32_t id;
		size_t head_n;          /* bytes of its head */
		size_t held;            /* of the body, for which the window was not opened again */
		uint64_t since_ms;      /* something of it came, or left */
		bool wide, expect, head_sent, waits, reset;
	} stream;
};

/* ------------------------------------------------------------------ the question */

/* First field of that name (lower case). p == NULL when absent. */
struct slice request_field(const struct request *r, const char *lower);
/* The n-th of that name, from 0. */
struct slice request_field_nth(const struct request *r, const char *lower, unsigned n);
/* Exactly `true` in any case. */
bool request_flag(const struct request *r, const char *lower);
/* Media type comparison: text before ';', trimmed, any case. */
bool request_has_type(const struct request *r, const char *lower);
bool media_type_same(struct slice a, struct slice b);
/* The topic's name as text for a protobuf string; valid until the next call. */
char *request_name(const struct request *r);

/* ------------------------------------------------------------------ calls */

/* Starts a Topics call, one at a time. Its own deadline_ms is the caller's to fill with request_deadline(). cb's arg is r. */
void request_call(struct request *r, enum ipc_type type, ProtobufCMessage *message, struct slice payload,
		  uint64_t deadline_ms, topics_cb *cb);
uint64_t request_deadline(const struct request *r);
bool request_is_busy(const struct request *r);   /* a call is under way or waits for its turn: no `produce` now */

/* ------------------------------------------------------------------ the answer */

void answer_field(struct request *r, const char *name, const char *value);
void answer_field_slice(struct request *r, const char *name, struct slice value);
void answer_field_u64(struct request *r, const char *name, uint64_t value);
/* The whole answer with what is in answer.body. */
void answer_send(struct request *r, int status);
/* No body and no length, as in 204 and 304; with another status a body of length 0. */
void answer_send_empty(struct request *r, int status);
/* {"error": word, "message": text, "next_seq": n}; message and next_seq may be NULL. */
void answer_error(struct request *r, int status, const char *word, const char *message, const uint64_t *next_seq);
/* 400 bad_request with that text. */
void answer_bad_request(struct request *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* 501 not_supported, naming what. */
void answer_not_supported(struct request *r, const char *what);
/* True when the body came with a Content-Encoding: 415 is answered. */
bool answer_encoded(struct request *r);
/* A body in pieces. length is used when has_length. Pieces go into answer.body; then answer_more(). */
void answer_begin_stream(struct request *r, int status, bool has_length, uint64_t length);
void answer_more(struct request *r, bool ended);
/* The next piece is in answer.ahead, or will never be: `produce` is called when it is due. */
void answer_ahead(struct request *r);
/* It cannot go on: the connection is closed without completing it. */
void answer_break(struct request *r);

/* A request holds two of these: one that is sent and one that is made. */
size_t request_piece_max(const struct request *r);

/* ------------------------------------------------------------------ the connection's side */

/* A request with a copy of that head; head may be NULL (a refused one). */
struct request *request_new(struct server *server, const struct http1_head *head);
/* Abandons its call. */
void request_free(struct request *r);
/* The answer's header lines, those that every answer has included, but for what frames the body. */
void answer_put_fields(struct request *r, struct buf *out);

#endif
