/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store on files: what its parts share. file.c talks to the loop, file_put.c is the
 * two threads that write and sync, file_read.c what runs as jobs (get, delete, list), file_upload.c uploads in parts.
 *
 * An operation is in one place at a time: queue -> a thread -> linked -> done -> its callback; or job ->
 * its callback (a get of a whole object and the end of an upload take `linked` on their way).
 */
#ifndef STORAGED_OBJSTORE_FILE_H
#define STORAGED_OBJSTORE_FILE_H

#include <pthread.h>

#include "storaged/objstore/objstore.h"

#define FILE_STORE_THREADS 2
#define FILE_STORE_KNOWN_DIRS 16
#define FILE_TMP_MAX 256                /* an upload's temporary has its key in its name */

/* FILE_PUT: also the end of an upload. FILE_DONE: whatever ends in an obj_done_cb and has no more to it. */
enum file_op_type { FILE_PUT, FILE_GET, FILE_DONE, FILE_LIST, FILE_UPLOADS };

struct file_store;
struct file_upload;

struct file_op {
	struct file_op *next;
	struct file_store *fs;
	enum file_op_type type;
	struct env_job job;
	void *arg;
	enum outcome outcome;
	int err;                        /* 0 or negative errno */
	char *key;                      /* owned; of a list: the prefix */
	int dir_fd;                     /* the key's directory while its entry is not synced; else -1 */
	int fd;                         /* an upload's temporary, while it ends; else -1 */

	obj_done_cb *on_done;           /* put, delete */
	struct iovec *iov;              /* put, part: owned array */
	int n_iov;
	bool if_absent;
	char tmp_name[FILE_TMP_MAX];    /* also of the upload that is aborted by its id */
	struct file_upload *upload;     /* of a part */

	obj_get_cb *on_get;
	uint64_t offset, length, size;  /* offset also: of a part */
	bool suffix;                    /* the last `length` bytes */
	uint8_t *data;                  /* owned */
	size_t n_data;

	obj_list_cb *on_list;
	obj_uploads_cb *on_uploads;
	char *start_after, *after_id;   /* owned, or NULL */
	size_t limit;
	char **keys;                    /* to delete, owned */
	size_t n_keys;
	struct obj_entry *entries;      /* found, owned */
	struct obj_upload_entry *uploads;
	size_t n_entries, capacity;
	bool more;
};

struct file_ops {
	struct file_op *head, **tail;
};

struct file_store {
	struct objstore store;          /* first */
	uint64_t magic;
	struct env *env;
	char *root, *url;               /* owned */
	char put_id[33];                /* hex */
	int root_fd, tmp_fd;
	pthread_t thread[FILE_STORE_THREADS];

	/* Loop only. */
	struct env_task task;           /* gives back what is done */
	unsigned n_refs;                /* jobs out, task posted, callback running */
	struct file_upload *uploads;    /* handles that are out */
	bool freed;
	char what[8192];                /* for results */

	/* Under lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct file_ops queue;          /* puts to write */
	struct file_ops linked;         /* complete when their directories are synced */
	struct file_ops done;
	bool syncing;                   /* a thread is in fsync of a directory */
	bool posted, stop;
	char fatal[8192];               /* not empty: the process must die */

	/* Directories that this process has synced into their parents. */
	pthread_mutex_t dir_lock;
	char *known_dir[FILE_STORE_KNOWN_DIRS];
	unsigned next_known_dir;
};

void file_ops_init(struct file_ops *l);
void file_ops_put(struct file_ops *l, struct file_op *op);
struct file_op *file_ops_take(struct file_ops *l);      /* the first, or NULL */

/* New operation; the caller starts it as a job. arg is the callback's. */
struct file_op *file_op_new(struct file_store *fs, enum file_op_type type, const char *key, void *arg);
void file_op_start_job(struct file_op *op, void (*work)(void *arg));

/* Sets outcome and err of an operation that failed before it had an effect. */
void file_op_fail(struct file_op *op, int err);

/* Call with the lock held: the loop looks at `done` and `fatal` soon. */
void file_store_post(struct file_store *fs);

/* From any thread: a directory could not be synced, so nobody knows what is durable. */
void file_store_fatal(struct file_store *fs, const char *dir, int err);

/* file_put.c */
void *file_put_thread(void *store);
/* Opens the directory of a key, or with `make` makes it durably. 0 or a negative errno. */
int file_dir_open(struct file_store *fs, const char *key, bool make, int *ret_fd);
/* link()s op->tmp_name to op->key, or with if_absent false renames it; op->dir_fd is set then. */
int file_tmp_publish(struct file_store *fs, struct file_op *op);
/* The next number of a temporary. */
uint64_t file_tmp_number(void);

/* file_read.c: the `work` of jobs; arg is a file_op. */
void file_get_work(void *arg);
void file_delete_work(void *arg);
void file_list_work(void *arg);

/* Asserts that s is one. */
struct file_store *file_store_of(struct objstore *s);

/* Opens the store `path`. As objstore_open(); put_id NULL: to read only, nothing is made or removed. */
int file_store_open(struct env *env, const char *path, const uint8_t put_id[16], struct objstore **ret_store,
		    char *fault, size_t fault_size);

#endif
