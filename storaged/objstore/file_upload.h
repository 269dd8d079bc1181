/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads in parts to the object store on files. Contracts of the interface's functions: objstore.h.
 */
#ifndef STORAGED_OBJSTORE_FILE_UPLOAD_H
#define STORAGED_OBJSTORE_FILE_UPLOAD_H

#include "storaged/objstore/file.h"

/* The loop's; `lock` and what is below it also the jobs'. */
struct file_upload {
	struct obj_upload upload;       /* first */
	char *key;                      /* owned */
	char tmp_name[FILE_TMP_MAX];
	struct file_upload *next;       /* of the store's */
	uint64_t size;                  /* of the parts that were given */
	unsigned n_parts_out;
	pthread_mutex_t lock;
	int fd;                         /* -1 until the first part makes the file */
	int err;                        /* of the first part that failed */
};

struct obj_upload *file_upload_new(struct objstore *s, const char *key);
void file_upload_part(struct obj_upload *u, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg);
void file_upload_finish(struct obj_upload *u, obj_done_cb *cb, void *arg);
void file_upload_abort(struct obj_upload *u, obj_done_cb *cb, void *arg);
void file_list_uploads(struct objstore *s, const char *prefix, const struct obj_upload_entry *after, size_t limit,
		       obj_uploads_cb *cb, void *arg);
void file_abort_upload(struct objstore *s, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg);
/* Frees the handle; its temporary stays. */
void file_upload_free(struct file_store *fs, struct file_upload *u);
/* Is this name in .tmp an upload's? */
bool file_tmp_is_upload(const char *name);

#endif
