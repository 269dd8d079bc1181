/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP for S3: two threads, each with a libcurl multi handle and connections of its own. The loop gives exchanges
 * and takes them back when they are over, whichever way.
 *
 * An exchange is in one place at a time: the loop -> a thread's queue -> a transfer -> done -> the loop.
 */
#ifndef STORAGED_OBJSTORE_S3_TRANSPORT_H
#define STORAGED_OBJSTORE_S3_TRANSPORT_H

#include <stdatomic.h>

#include "storaged/objstore/s3_request.h"
#include "storaged/objstore/s3_xml.h"

#define S3_THREADS 2
#define S3_TRANSFERS_MAX 64             /* of a thread; more wait in its queue */

struct s3_exchange {
	struct s3_exchange *next;               /* private but while the loop has it */
	const struct s3_request *request;       /* borrowed until it is done */
	int64_t wall_ms;                        /* time to sign with */
	void *owner;                            /* the caller's */
	atomic_bool cancelled;                  /* set by the loop, s3_transport_wake() behind it */
	atomic_bool has_begun_answer;           /* the first byte came */

	/* The answer; the loop's once it is done. */
	int status;                             /* 0: no whole answer, and err says why */
	int err;
	bool sent;                              /* some of the request may have been seen */
	char why[128];                          /* with err: words */
	struct buf body;
	struct s3_document document;            /* of an error, or of a good answer that is XML */
	int document_err;
	uint64_t range_begin, object_size;      /* Content-Range, else 0 and the body's length */
	int64_t server_ms;                      /* Date, 0 without one */
	char etag[128];
	uint64_t first_byte_ns;                 /* from its start to the answer's first byte; 0: none came */

	struct s3_transfer *transfer;           /* private */
	unsigned thread;                        /* private */
};

struct s3_transport;

/*
 * Borrows config and credentials. on_done is called from the threads, with a lock held, when something waits for
 * s3_transport_take() that did not before: it only posts a task. 0 or a negative errno.
 */
int s3_transport_open(const struct s3_config *config, struct s3_credentials *credentials, void (*on_done)(void *arg),
		      void *arg, struct s3_transport **ret);

/* Hands over a list. Call once a turn: it wakes the threads. */
void s3_transport_start(struct s3_transport *t, struct s3_exchange *list);
/* Looks at `cancelled` soon. */
void s3_transport_wake(struct s3_transport *t, const struct s3_exchange *x);
/* All that are done, in order, or NULL. */
struct s3_exchange *s3_transport_take(struct s3_transport *t);
/* No thread runs and no request or body is read when this returns. Exchanges that were out are the caller's. */
void s3_transport_free(struct s3_transport *t);

void s3_exchange_free(struct s3_exchange *x);

#endif
