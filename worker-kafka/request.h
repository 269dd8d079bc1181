/* SPDX-License-Identifier: Apache-2.0
 *
 * One request from its frame to its answer. It belongs to its connection, which answers in order. Everything of
 * it lives in its region, or in its frame as slices, until the answer has left.
 */
#ifndef WORKER_KAFKA_REQUEST_H
#define WORKER_KAFKA_REQUEST_H

#include "common/kafka_error.h"
#include "common/kafka_frame.h"
#include "worker-kafka/server.h"

struct conn;
struct request;

/* What serves one API. */
struct handler {
	int16_t key;
	void (*handle)(struct request *r);      /* r->message is decoded; ends with request_answer() or request_close() */
	void (*on_drain)(struct request *r);    /* answers a parked one now; NULL: it does not park */
};
const struct handler *handler_find(int16_t key);        /* NULL: not served */
bool handler_is_served(int16_t key);

/* Where external bytes of the answer stand. */
struct answer_run {
	size_t at;                      /* in `out`, from its first byte: these come before it */
	struct slice bytes;
};

struct request {
	unsigned magic;
	struct server *server;
	struct conn *conn;
	struct request *next;           /* of the connection's queue */
	const struct handler *handler;
	struct buf frame;               /* without the length */
	uint32_t frame_size;
	size_t lodged;                  /* of the frame's bytes: storaged's credit counts them */
	struct kafka_request head;
	struct region region;
	void *message;                  /* the decoded request */
	void *state;                    /* the handler's, in the region */
	void *asking;                   /* ask_topics.c's, in the region */
	void *resolve;                  /* topic_cache.c's, in the region */
	struct topics_call *call;       /* under way, or NULL */
	struct turn turn;               /* waits for a share of the loop, or not */
	void (*on_call)(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer,
			struct topics_pieces *pieces);
	uint64_t began_ns;

	bool started;
	bool holds;                     /* later requests of the connection do not start */
	bool done;                      /* the answer stands */
	bool silent;                    /* acks=0: nothing is sent */
	bool close;                     /* the connection ends here */
	bool throttled;                 /* storaged has too much to do: the client pauses, and is not read meanwhile */

	struct buf out;                 /* the answer's frame, but for the runs */
	struct answer_run *runs;        /* in the region, in order */
	size_t n_runs;
	struct topics_pieces *pieces;   /* what the runs point into; NULL: `copy` */
	uint8_t *copy;                  /* owned */
	size_t n_copy;
	size_t sent, size;              /* of the whole answer */
};

struct request *request_new(struct conn *c, struct server *s, uint32_t frame_size);
void request_free(struct request *r);
/* Whether it may run beside others that may: a Produce, whose answer is small. Every other one runs alone. */
bool request_is_produce(const struct request *r);
/* The frame is whole: header and body are decoded and the handler starts. */
void request_start(struct request *r);

#define THROTTLE_MS 100

/* The answer: the struct of head.api->response. */
void request_answer(struct request *r, void *response);
/* The same with n_external records that come from elsewhere: `external` of each says which of the pieces, which are
 * taken over (NULL: none). */
struct external { uint32_t first_piece, n_pieces; };
void request_answer_pieces(struct request *r, void *response, size_t n_external, struct topics_pieces *pieces);
/* No answer can be framed, or none is wanted any more. why: for the log, NULL for none. */
void request_close(struct request *r, const char *why);
/* Done without an answer (acks=0). */
void request_finish_silent(struct request *r);

/* One call at a time. The callback gets the request; its answer is valid inside only. */
typedef void request_cb(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer,
			struct topics_pieces *pieces);
void request_call(struct request *r, enum ipc_type type, ProtobufCMessage *m, struct topics_payload payload,
		  uint64_t deadline_ms, request_cb *cb);
/* The same with a call that is under way. */
void request_take_call(struct request *r, struct topics_call *call, request_cb *cb);
#define NO_PAYLOAD ((struct topics_payload){ NULL, 0 })
/* The latest moment for a call of this request: now + --request-timeout-ms, or sooner. timeout_ms <= 0: not said. */
uint64_t request_deadline(const struct request *r, int32_t timeout_ms);

/* The frame's bytes are not needed any more; names that the answer repeats were copied. */
void request_drop_frame(struct request *r);

/* What is left to send, at most `max` runs. */
size_t request_iov(const struct request *r, struct slice *ret, size_t max);

/* Bytes of memory that it holds, but for what is lodged. */
size_t request_held(const struct request *r);

/* storaged wants the memory behind an answer back: what is not sent is copied, or the connection closed. */
void request_reclaim(struct topics_pieces *pieces);

/* n things in the region, cleared; NULL when there is no room: then the connection is closed by request_close(). */
void *request_alloc(struct request *r, size_t n, size_t size);
#define REQUEST_NEW(r, type, n) ((type *)request_alloc(r, n, sizeof(type)))

#endif
