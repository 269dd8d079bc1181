/* SPDX-License-Identifier: Apache-2.0
 *
 * Records from a position, at once or by long poll, whatever the protocol:
 *
 *   READ -> nothing there and live -> WAIT -> READ ...
 *        -> gather: the records are counted against the limits and encoded as long as they fit one piece; READ
 *           again while there is more and no limit is reached. Then the end is known and the head goes out
 *        -> each time the socket has taken all: READ again from where the body stands, next piece
 *
 * The mapped records are given back before a callback returns. When they are gone at a later READ (deleted, trimmed)
 * the answer cannot be completed and the connection is cut.
 *
 * With events (sse.h) the answer has no end of its own: what was gathered is one event; when it has left, the
 * same begins again behind it, and a wait for more is part of the answer. It ends behind an event, or while it waits:
 * at `until_ms`, at a drain, when the log is closed or gone.
 */
#ifndef WORKER_HTTP_READER_H
#define WORKER_HTTP_READER_H

#include "worker-http/encode.h"
#include "worker-http/query.h"
#include "worker-http/request.h"
#include "worker-http/sse.h"

#define READER_COUNT_MAX 1000000        /* records of no bytes count, too */

/* What a protocol says. None of them is called before reader_start() returned. */
struct reader_ops {
	/* The first answer has come; may set the format by the content type. NULL: nothing to do. */
	void (*opened)(struct request *r);
	/* What is shown is known: puts the header fields and calls reader_send(), or answers otherwise. */
	void (*records)(struct request *r);
	/* A long poll that ends without any: the whole answer. */
	void (*no_news)(struct request *r);
	void (*error)(struct request *r, const struct pico_error *e);
	/* With events: the one that follows records, or stands alone where there are none. */
	void (*control)(struct request *r, struct buf *out);
};

/* The first member of r->state; allocated, freed with reader_free(). */
struct reader {
	const struct reader_ops *ops;
	struct request *request;        /* whose state it is */

	/* Asked for. */
	enum record_format format;
	struct position position;
	struct encode_limits limits;
	bool live;                      /* waits for records */
	bool events;                    /* live, and the answer goes on behind them */
	bool base64;                    /* how an event shows FORMAT_RAW */
	bool event_ids;                 /* an event of records has an id: where the next one begins */
	bool partition_given;
	uint32_t partition;
	uint64_t until_ms;              /* of a live read */

	/* From the answers of storaged. */
	uint8_t topic_id[16];
	char content_type[256];
	uint32_t n_partitions;
	uint64_t from, confirm;
	bool closed;
	uint64_t ttl_seconds;           /* of the topic, as the next */
	int64_t expires_at_ms;
	struct encode_range range;

	/* private */
	struct { struct position from; uint32_t max_bytes; topics_cb *cb; } next;       /* READ */
	struct encoder encoder;
	unsigned n_gathers;
	bool is_gone;                   /* what was to follow */
	bool in_event;                  /* one was begun */
	bool is_parked;
	struct sse_data data;
	struct env_timer keep_alive;
};

/* The limits of a read that names none. */
void reader_limits(const struct request *r, struct encode_limits *ret_limits);

/* Begins; the ops answer. The rest of the struct is zero. */
void reader_start(struct request *r);
/* A request's state_free; also of a struct that begins with a reader. */
void reader_free(void *reader);

/* Nothing was behind the records shown. */
bool reader_is_up_to_date(const struct reader *reader);
/* And nothing will be. */
bool reader_is_at_end(const struct reader *reader);

/* From `records`: 200 with them. */
void reader_send(struct request *r, const char *content_type);

/*
 * From `records`, of a read that is none of a live one's: puts the ETag. It is made of topic, partition, format, start, end and
 * closed, never of the name: that may be another topic's tomorrow. True when the client has that already: 304 was sent.
 */
bool reader_not_modified(struct request *r);

#endif
