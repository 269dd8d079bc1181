/* SPDX-License-Identifier: Apache-2.0
 *
 * A call: one request of the store's interface, tried as often as is useful, with at most two exchanges out at a
 * time. What the files of the S3 store share.
 *
 *      begin -> exchange -> answer --good, final--> end
 *                 ^  \--slow--> a second one beside it; the first good answer counts
 *                 +--- back-off <--- answer that may be better next time
 */
#ifndef STORAGED_OBJSTORE_S3_CALL_H
#define STORAGED_OBJSTORE_S3_CALL_H

#include "storaged/objstore/s3_error.h"
#include "storaged/objstore/s3_latency.h"
#include "storaged/objstore/s3_transport.h"

struct s3_upload;
struct s3_call;

struct s3_store {
	struct objstore store;          /* first */
	uint64_t magic;
	struct env *env;
	struct s3_config config;
	struct s3_credentials credentials;
	struct s3_transport *transport;
	char *url;                      /* owned; without parameters */
	struct env_task posted_task;    /* takes what is done */
	struct env_task start_task;     /* hands over what this turn has begun */
	struct env_task end_task;       /* ends calls that need no exchange */
	bool posted;                    /* under `lock` */
	bool stop;                      /* under `lock`: nothing is posted any more */
	pthread_mutex_t lock;
	bool start_queued, end_queued;
	char what[1400];                /* of the call that ends */
	struct s3_exchange *starting, **starting_tail;
	struct s3_call *calls;          /* all of them */
	struct s3_upload *uploads;      /* handles that are out */
	struct s3_latency reads;
	int64_t skew_ms;                /* the server's clock less ours */
	unsigned n_refs;                /* tasks queued, callback running */
	bool freed;
};

/* How a call ended. */
struct s3_end {
	enum outcome outcome;
	int err;
	const char *what;               /* where, and what was said; valid in the callback */
	const struct s3_exchange *x;    /* the answer; NULL unless there was a whole one */
};

struct s3_call {
	struct s3_call *prev, *next;    /* of the store's */
	struct s3_store *s;
	struct s3_request request;
	struct s3_exchange *out[2];     /* the second is a hedge */
	struct env_timer timer;         /* the end of the back-off; or time for a hedge */
	uint64_t began_ms;
	unsigned n_tries;
	bool maybe_applied;             /* an earlier try ended in UNKNOWN */
	bool skew_tried, ended, begun;
	struct s3_end given;            /* of a call without an exchange */

	/* The operation's; set before s3_call_begin(). */
	bool may_retry, may_hedge;
	const char *root;               /* of a good answer that is XML: its outermost element */
	void *op;
	void (*on_end)(void *op, const struct s3_call *call, const struct s3_end *end);
	void (*drop)(void *op);         /* instead of on_end, when the store is freed: frees op */
};

/* Freed by itself, after its end and when no exchange is out. */
struct s3_call *s3_call_new(struct s3_store *s, const char *method, const char *key);
void s3_call_begin(struct s3_call *c);
/* Ends without an exchange, at the end of this turn. */
void s3_call_end_later(struct s3_call *c, enum outcome outcome, int err);

struct s3_store *s3_store_of(struct objstore *s);
/* Tasks of the store; arg is the store. */
void s3_calls_on_posted(void *arg);
void s3_calls_on_start(void *arg);
void s3_calls_on_end(void *arg);
/* From a thread. */
void s3_calls_on_done(void *store);
/* The store's key of a name in the bucket, or NULL where that is none of ours. */
const char *s3_key_of(const struct s3_store *s, const char *name);
/* No callback runs any more; the transport is gone already. */
void s3_calls_free(struct s3_store *s);
void s3_store_unref(struct s3_store *s);

/* s3_upload.c: the interface's part of that name. */
struct obj_upload *s3_upload_new(struct objstore *s, const char *key);
void s3_upload_part(struct obj_upload *u, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg);
void s3_upload_finish(struct obj_upload *u, obj_done_cb *cb, void *arg);
void s3_upload_abort(struct obj_upload *u, obj_done_cb *cb, void *arg);
void s3_list_uploads(struct objstore *s, const char *prefix, const struct obj_upload_entry *after, size_t limit,
		     obj_uploads_cb *cb, void *arg);
void s3_abort_upload(struct objstore *s, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg);
void s3_uploads_free(struct s3_store *s);

#endif
