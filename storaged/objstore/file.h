/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store on files: what its three parts share. file.c talks to the loop, file_put.c is the
 * two threads that write and sync, file_read.c what runs as jobs (get, delete, list).
 *
 * An operation is in one place at a time: queue -> a thread -> linked -> done -> its callback; or job ->
 * its callback (a get of a whole object takes `linked` on its way).
 */
#ifndef STORAGED_OBJSTORE_FILE_H
#define STORAGED_OBJSTORE_FILE_H

#include <pthread.h>

#include "storaged/objstore/objstore.h"

#define FILE_STORE_THREADS 2
#define FILE_STORE_KNOWN_DIRS 16
#define FILE_KEY_MAX 512

enum file_op_type { FILE_PUT, FILE_GET, FILE_DELETE, FILE_LIST };

struct file_store;

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

	obj_done_cb *on_done;           /* put, delete */
	struct iovec *iov;              /* put: owned array */
	int n_iov;
	bool if_absent;
	char tmp_name[64];

	obj_get_cb *on_get;
	uint64_t offset, length, size;
	uint8_t *data;                  /* owned */
	size_t n_data;

	obj_list_cb *on_list;
	char *start_after;              /* owned, or NULL */
	size_t limit;
	char **keys;                    /* list: found; delete: to delete; owned */
	size_t n_keys, keys_capacity;
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

/* file_read.c: the `work` of jobs; arg is a file_op. */
void file_get_work(void *arg);
void file_delete_work(void *arg);
void file_list_work(void *arg);

/* Opens the store `path`. As objstore_open(). */
int file_store_open(struct env *env, const char *path, const uint8_t put_id[16], struct objstore **ret_store,
		    char *fault, size_t fault_size);

#endif
