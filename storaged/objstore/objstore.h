/* SPDX-License-Identifier: Apache-2.0
 *
 * An object store: whole objects under keys, put once, never changed. One interface for files
 * (file.c), memory (mem.c), S3 (s3.c) and, in simulation, t/sim/. Everything is asynchronous; callbacks run on
 * the loop, never from inside the call.
 *
 * Keys are relative ("wal/1/0000000000000001/0000000000000000"): [0-9a-z/._-], no segment begins with '.'.
 */
#ifndef STORAGED_OBJSTORE_OBJSTORE_H
#define STORAGED_OBJSTORE_OBJSTORE_H

#include <sys/uio.h>

#include "common/env.h"
#include "common/slice.h"

#define OBJ_KEY_MAX 512         /* with its end */

struct objstore;

/*
 * What became of an operation. outcome OK: done. NOT_APPLIED: certainly not done, and err says why:
 *   -EEXIST   put with if_absent: the key is taken (412)
 *   -ENOENT   get: no such object; parts and finish: the upload is gone
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

struct obj_entry {
	char *key;
	uint64_t size;
};

/* An upload that was neither finished nor aborted, also one that is under way here. */
struct obj_upload_entry {
	char *key;
	char *id;                       /* the store's name for it */
};

typedef void obj_done_cb(void *arg, struct obj_result result);
/* data is valid in the callback; NULL unless OK. size: of the whole object. */
typedef void obj_get_cb(void *arg, struct obj_result result, struct slice data, uint64_t size);
/* Sorted by key, bytewise; valid in the callback. more: call again with start_after = last key. */
typedef void obj_list_cb(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more);
/* Sorted by key; valid in the callback. more: call again with `after` = the last. */
typedef void obj_uploads_cb(void *arg, struct obj_result result, const struct obj_upload_entry *entries, size_t n,
			    bool more);

/*
 * An upload in parts, for an object that is too large for one put. It is not conditional: only a key that is never
 * used twice is safe (if it is taken, finish may replace it or end in -EEXIST). Nothing is seen under the key before
 * finish. The handle is the store's from upload_finish or upload_abort on; freeing the store frees it, too, and
 * leaves the upload behind, as a crash does.
 */
struct obj_upload {
	struct objstore *store;         /* stores embed this as their first field */
};
#define OBJ_PART_MIN (5u << 20)         /* every part but the last is at least this long, and they are equally long */
#define OBJ_PARTS_MAX 10000u

struct objstore_ops {
	/* The iovec array is copied; the bytes it names stay untouched until the callback. */
	void (*put)(struct objstore *, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
		    obj_done_cb *, void *arg);
	/*
	 * length 0: to the end. A range past the end gives what there is. A whole object (offset 0, length 0) that is
	 * OK is durable: on files its directory is synced first, for the one who linked it may have been killed.
	 */
	void (*get)(struct objstore *, const char *key, uint64_t offset, uint64_t length, obj_get_cb *, void *arg);
	/* The last `length` (above 0) bytes, all of a shorter object. */
	void (*get_suffix)(struct objstore *, const char *key, uint64_t length, obj_get_cb *, void *arg);
	/* A key that is not there counts as deleted. UNKNOWN: some are, `what` is the first that is not. */
	void (*del)(struct objstore *, const char *const *keys, size_t n, obj_done_cb *, void *arg);
	void (*list)(struct objstore *, const char *prefix, const char *start_after, size_t limit, obj_list_cb *,
		     void *arg);

	/* Never fails; nothing is sent yet. */
	struct obj_upload *(*upload_new)(struct objstore *, const char *key);
	/* The next part, in order of calls; several may be out. After one that is not OK the upload can only be aborted. */
	void (*upload_part)(struct obj_upload *, const struct iovec *iov, int n_iov, obj_done_cb *, void *arg);
	/* When every part is answered, and there is one. OK: the whole object is durable. Else abort_upload() later. */
	void (*upload_finish)(struct obj_upload *, obj_done_cb *, void *arg);
	/* When every part is answered. Drops them; OK also if there is nothing to drop. */
	void (*upload_abort)(struct obj_upload *, obj_done_cb *, void *arg);
	void (*list_uploads)(struct objstore *, const char *prefix, const struct obj_upload_entry *after, size_t limit,
			     obj_uploads_cb *, void *arg);
	/* An upload of anybody's. One that is not there counts as aborted. */
	void (*abort_upload)(struct objstore *, const struct obj_upload_entry *, obj_done_cb *, void *arg);
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
static inline void objstore_get_suffix(struct objstore *s, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	s->ops->get_suffix(s, key, length, cb, arg);
}
static inline struct obj_upload *objstore_upload_new(struct objstore *s, const char *key)
{
	return s->ops->upload_new(s, key);
}
static inline void obj_upload_part(struct obj_upload *u, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg)
{
	u->store->ops->upload_part(u, iov, n_iov, cb, arg);
}
static inline void obj_upload_finish(struct obj_upload *u, obj_done_cb *cb, void *arg)
{
	u->store->ops->upload_finish(u, cb, arg);
}
static inline void obj_upload_abort(struct obj_upload *u, obj_done_cb *cb, void *arg)
{
	u->store->ops->upload_abort(u, cb, arg);
}

#endif
