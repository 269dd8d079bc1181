/* SPDX-License-Identifier: Apache-2.0
 *
 * An object store: whole objects under keys, put once, never changed. One interface for files
 * (file.c), memory (mem.c) and, in simulation, t/sim/. Everything is asynchronous; callbacks run on
 * the loop, never from inside the call.
 *
 * Keys are relative ("wal/1/0000000000000001/0000000000000000"): [0-9a-z/._-], no segment begins with '.'.
 */
#ifndef STORAGED_OBJSTORE_OBJSTORE_H
#define STORAGED_OBJSTORE_OBJSTORE_H

#include <sys/uio.h>

#include "common/env.h"
#include "common/slice.h"

struct objstore;

/*
 * What became of an operation. outcome OK: done. NOT_APPLIED: certainly not done, and err says why:
 *   -EEXIST   put with if_absent: the key is taken (412)
 *   -ENOENT   get: no such object
 *   -EAGAIN   conflict or throttled (409, 503 before effect): try again
 *   -ERANGE   get: the range begins at or behind the object's end
 *   else      the environment's errno (-ENOSPC, -EIO, -EROFS, -EACCES, ...)
 * UNKNOWN: it may have happened or may still happen; err as above.
 */
struct obj_result {
	enum outcome outcome;
	int err;                        /* 0 or negative errno */
	const char *what;               /* the path or key it concerns, valid in the callback; for messages */
};

typedef void obj_done_cb(void *arg, struct obj_result result);
/* data is valid in the callback; NULL unless OK. size: of the whole object. */
typedef void obj_get_cb(void *arg, struct obj_result result, struct slice data, uint64_t size);
/* keys are sorted bytewise; valid in the callback. more: call again with start_after = last key. */
typedef void obj_list_cb(void *arg, struct obj_result result, char *const *keys, size_t n, bool more);

struct objstore_ops {
	/* The iovec array is copied; the bytes it names stay untouched until the callback. */
	void (*put)(struct objstore *, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
		    obj_done_cb *, void *arg);
	/*
	 * length 0: to the end. A range past the end gives what there is. A whole object (offset 0, length 0) that is
	 * OK is durable: on files its directory is synced first, for the one who linked it may have been killed.
	 */
	void (*get)(struct objstore *, const char *key, uint64_t offset, uint64_t length, obj_get_cb *, void *arg);
	/* A key that is not there counts as deleted. UNKNOWN: some are, `what` is the first that is not. */
	void (*del)(struct objstore *, const char *const *keys, size_t n, obj_done_cb *, void *arg);
	void (*list)(struct objstore *, const char *prefix, const char *start_after, size_t limit, obj_list_cb *,
		     void *arg);
	/*
	 * Callbacks outstanding do not run any more; the memory of puts must stay until this returns. Fine from inside
	 * a callback. Run the loop once more before its env is freed.
	 */
	void (*free)(struct objstore *);
};

struct objstore {
	const struct objstore_ops *ops;
	const char *url;                /* for messages, without secrets */
	unsigned max_inflight_default;  /* maxInflightUploadCount where the URL has none: 2 or 16 */
	uint64_t batch_interval_ms_default;
};

/*
 * A storage URL: ID@SCHEME://PATH[?k=v&...]. WAL parameters (batchInterval, maxBytesInBatch,
 * maxUnflushedBytes, maxInflightUploadCount) are read here, too.
 */
struct objstore_url {
	int16_t bucket_id;
	char scheme[8];                 /* file, mem, s3 */
	char path[4096];
	uint64_t batch_interval_ms;     /* UINT64_MAX where not given */
	uint64_t max_bytes_in_batch;
	uint64_t max_unflushed_bytes;
	uint32_t max_inflight;          /* 0 where not given; 1..64 */
	bool has_batch_interval, has_max_bytes, has_max_unflushed;
};
/* 0 or -EINVAL with a sentence in fault. Without ID@ the bucket is -2. PATH is taken byte for byte, up to '?'. */
int objstore_url_parse(const char *url, struct objstore_url *ret_url, char *fault, size_t fault_size);

/*
 * Opens what the URL names (scheme s3 is -ENOTSUP until it is built). A directory is made if it is
 * missing, each new one fsynced into its parent before an object in it counts. `put_id` names temporary files of
 * this process; those of others are emptied. Files: two threads of its own for puts; the rest runs as env jobs.
 * mem: stores of one name share their content while one of them is open.
 */
int objstore_open(struct env *env, const struct objstore_url *url, const uint8_t put_id[16],
		  struct objstore **ret_store, char *fault, size_t fault_size);

static inline void objstore_put(struct objstore *s, const char *key, const struct iovec *iov, int n_iov,
				bool if_absent, obj_done_cb *cb, void *arg)
{
	s->ops->put(s, key, iov, n_iov, if_absent, cb, arg);
}
static inline void objstore_get(struct objstore *s, const char *key, uint64_t offset, uint64_t length,
				obj_get_cb *cb, void *arg)
{
	s->ops->get(s, key, offset, length, cb, arg);
}

#endif
