/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store on files, its loop side: takes operations, hands them to the put threads or to jobs,
 * and gives results back. A key is the path of its file below the root; `.tmp` holds what is being written.
 *
 * Invariant: after free() no callback runs and no put's memory is read; what cannot be stopped (a job)
 * keeps the struct until it ends.
 */
#include "storaged/objstore/file_upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/must.h"
#include "storaged/objstore/url.h"

#define FILE_STORE_MAGIC 0x65726f7473656c66ull

/* Lists of operations */

void file_ops_init(struct file_ops *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

void file_ops_put(struct file_ops *l, struct file_op *op)
{
	op->next = NULL;
	*l->tail = op;
	l->tail = &op->next;
}

struct file_op *file_ops_take(struct file_ops *l)
{
	struct file_op *op = l->head;
	if (op == NULL)
		return NULL;
	l->head = op->next;
	if (l->head == NULL)
		l->tail = &l->head;
	op->next = NULL;
	return op;
}

void file_op_fail(struct file_op *op, int err)
{
	must(err < 0);
	op->outcome = OUTCOME_NOT_APPLIED;
	op->err = err;
}

static void file_op_free(struct file_op *op)
{
	if (op->dir_fd >= 0)
		close(op->dir_fd);
	if (op->fd >= 0)
		close(op->fd);
	for (size_t i = 0; i < op->n_keys; i++)
		free(op->keys[i]);
	free(op->keys);
	for (size_t i = 0; i < op->n_entries; i++) {
		free(op->entries != NULL ? op->entries[i].key : op->uploads[i].key);
		free(op->uploads != NULL ? op->uploads[i].id : NULL);
	}
	free(op->entries);
	free(op->uploads);
	free(op->start_after);
	free(op->after_id);
	free(op->data);
	free(op->iov);
	free(op->key);
	free(op);
}

static void file_ops_free(struct file_ops *l)
{
	for (struct file_op *op; (op = file_ops_take(l)) != NULL;)
		file_op_free(op);
}

struct file_store *file_store_of(struct objstore *s)
{
	struct file_store *fs = (struct file_store *)s;
	must(fs->magic == FILE_STORE_MAGIC);
	return fs;
}

struct file_op *file_op_new(struct file_store *fs, enum file_op_type type, const char *key, void *arg)
{
	struct file_op *op = must_calloc(1, sizeof(*op));
	*op = (struct file_op){ .fs = fs, .type = type, .key = must_strdup(key), .arg = arg, .dir_fd = -1, .fd = -1 };
	return op;
}

/* Results */

static void file_store_unref(struct file_store *fs)
{
	must(fs->n_refs > 0);
	if (--fs->n_refs > 0 || !fs->freed)
		return;
	while (fs->uploads != NULL)
		file_upload_free(fs, fs->uploads);
	for (unsigned i = 0; i < FILE_STORE_KNOWN_DIRS; i++)
		free(fs->known_dir[i]);
	pthread_mutex_destroy(&fs->lock);
	pthread_mutex_destroy(&fs->dir_lock);
	pthread_cond_destroy(&fs->wake);
	if (fs->tmp_fd >= 0)
		close(fs->tmp_fd);
	if (fs->root_fd >= 0)
		close(fs->root_fd);
	free(fs->root);
	free(fs->url);
	fs->magic = 0;
	free(fs);
}

/* Tells the caller, unless the store is freed, and frees the operation. */
static void file_op_finish(struct file_op *op)
{
	struct file_store *fs = op->fs;
	if (op->upload != NULL)
		op->upload->n_parts_out--;
	if (!fs->freed) {
		snprintf(fs->what, sizeof(fs->what), "%s/%s", fs->root, op->key);
		struct obj_result result = { .outcome = op->outcome, .err = op->err, .what = fs->what };
		bool ok = op->outcome == OUTCOME_OK;
		if (op->type == FILE_GET)
			op->on_get(op->arg, result, ok ? slice_of(op->data, op->n_data) : slice_of(NULL, 0),
				   ok ? op->size : 0);
		else if (op->type == FILE_LIST)
			op->on_list(op->arg, result, op->entries, ok ? op->n_entries : 0, ok && op->more);
		else if (op->type == FILE_UPLOADS)
			op->on_uploads(op->arg, result, op->uploads, ok ? op->n_entries : 0, ok && op->more);
		else
			op->on_done(op->arg, result);
	}
	file_op_free(op);
}

void file_store_post(struct file_store *fs)
{
	if (fs->posted || fs->stop)
		return;
	fs->posted = true;
	env_post(fs->env, &fs->task);
}

void file_store_fatal(struct file_store *fs, const char *dir, int err)
{
	pthread_mutex_lock(&fs->lock);
	if (fs->fatal[0] == 0)
		snprintf(fs->fatal, sizeof(fs->fatal),
			 "cannot sync the directory of %s/%s: %s: what is stored is not known any more", fs->root, dir,
			 strerror(-err));
	file_store_post(fs);
	pthread_mutex_unlock(&fs->lock);
}

static void die_if_fatal(struct file_store *fs)
{
	char why[sizeof(fs->fatal)];
	pthread_mutex_lock(&fs->lock);
	memcpy(why, fs->fatal, sizeof(why));
	pthread_mutex_unlock(&fs->lock);
	if (why[0] != 0)
		fs->env->ops->die(fs->env, why);
}

/* On the loop: what the threads have finished. */
static void on_posted(void *arg)
{
	struct file_store *fs = arg;
	if (fs->freed) {
		file_store_unref(fs);
		return;
	}
	fs->n_refs++;
	die_if_fatal(fs);
	struct file_ops done;
	file_ops_init(&done);
	pthread_mutex_lock(&fs->lock);
	fs->posted = false;
	while (fs->done.head != NULL)
		file_ops_put(&done, file_ops_take(&fs->done));
	pthread_mutex_unlock(&fs->lock);
	for (struct file_op *op; (op = file_ops_take(&done)) != NULL;)
		file_op_finish(op);
	file_store_unref(fs);
}

static void on_job_done(void *arg)
{
	struct file_op *op = arg;
	struct file_store *fs = op->fs;
	if (op->outcome == OUTCOME_OK && op->dir_fd >= 0 && !fs->freed) {
		pthread_mutex_lock(&fs->lock);
		file_ops_put(&fs->linked, op);
		pthread_mutex_unlock(&fs->lock);
		pthread_cond_signal(&fs->wake);
	} else {
		file_op_finish(op);
	}
	file_store_unref(fs);
}

void file_op_start_job(struct file_op *op, void (*work)(void *arg))
{
	op->fs->n_refs++;
	op->job = (struct env_job){ .work = work, .done = on_job_done, .arg = op };
	op->fs->env->ops->job(op->fs->env, &op->job);
}

/* The interface */

static void file_store_put(struct objstore *s, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
			   obj_done_cb *cb, void *arg)
{
	struct file_store *fs = file_store_of(s);
	must(objstore_key_is_legal(key));
	struct file_op *op = file_op_new(fs, FILE_PUT, key, arg);
	op->on_done = cb;
	op->if_absent = if_absent;
	op->iov = must_memdup(iov, (size_t)n_iov * sizeof(*iov));
	op->n_iov = n_iov;
	pthread_mutex_lock(&fs->lock);
	file_ops_put(&fs->queue, op);
	pthread_mutex_unlock(&fs->lock);
	pthread_cond_signal(&fs->wake); /* now: who wakes finds the lock free */
}

static void file_store_get(struct objstore *s, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb,
			   void *arg)
{
	must(objstore_key_is_legal(key));
	struct file_op *op = file_op_new(file_store_of(s), FILE_GET, key, arg);
	op->on_get = cb;
	op->offset = offset;
	op->length = length;
	file_op_start_job(op, file_get_work);
}

static void file_store_get_suffix(struct objstore *s, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	must(objstore_key_is_legal(key) && length > 0);
	struct file_op *op = file_op_new(file_store_of(s), FILE_GET, key, arg);
	op->on_get = cb;
	op->length = length;
	op->suffix = true;
	file_op_start_job(op, file_get_work);
}

static void file_store_delete(struct objstore *s, const char *const *keys, size_t n, obj_done_cb *cb, void *arg)
{
	struct file_op *op = file_op_new(file_store_of(s), FILE_DONE, n > 0 ? keys[0] : "", arg);
	op->on_done = cb;
	op->keys = must_calloc(n, sizeof(op->keys[0]));
	op->n_keys = n;
	for (size_t i = 0; i < n; i++) {
		must(objstore_key_is_legal(keys[i]));
		op->keys[i] = must_strdup(keys[i]);
	}
	file_op_start_job(op, file_delete_work);
}

static void file_store_list(struct objstore *s, const char *prefix, const char *start_after, size_t limit,
			    obj_list_cb *cb, void *arg)
{
	must(limit > 0);
	struct file_op *op = file_op_new(file_store_of(s), FILE_LIST, prefix, arg);
	op->on_list = cb;
	op->limit = limit;
	op->start_after = start_after != NULL ? must_strdup(start_after) : NULL;
	file_op_start_job(op, file_list_work);
}

static void file_store_free(struct objstore *s)
{
	struct file_store *fs = file_store_of(s);
	must(!fs->freed);
	pthread_mutex_lock(&fs->lock);
	fs->stop = true;
	pthread_cond_broadcast(&fs->wake);
	pthread_mutex_unlock(&fs->lock);
	for (unsigned i = 0; i < FILE_STORE_THREADS; i++)
		pthread_join(fs->thread[i], NULL);
	fs->freed = true;
	file_ops_free(&fs->queue);
	file_ops_free(&fs->linked);
	file_ops_free(&fs->done);
	/* A task that is on its way ends the struct, else this does. Nothing posts any more: stop is set. */
	fs->n_refs += fs->posted ? 2 : 1;
	file_store_unref(fs);
}

static const struct objstore_ops file_store_ops = {
	.put = file_store_put,
	.get = file_store_get,
	.get_suffix = file_store_get_suffix,
	.del = file_store_delete,
	.list = file_store_list,
	.upload_new = file_upload_new,
	.upload_part = file_upload_part,
	.upload_finish = file_upload_finish,
	.upload_abort = file_upload_abort,
	.list_uploads = file_list_uploads,
	.abort_upload = file_abort_upload,
	.free = file_store_free,
};

/* Opening */

static int sync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return r;
}

/* Makes `path` and what is missing above it, each synced into its parent. */
static int root_make(const char *path)
{
	char parent[4096];
	snprintf(parent, sizeof(parent), "%s", path);
	size_t n = strlen(parent);
	while (n > 1 && parent[n - 1] == '/')
		parent[--n] = 0;
	char *slash = strrchr(parent, '/');
	if (slash == NULL)
		snprintf(parent, sizeof(parent), ".");
	else
		slash[slash == parent ? 1 : 0] = 0;
	if (mkdir(path, 0700) == 0)
		return sync_path(parent);
	if (errno == ENOENT && strcmp(parent, path) != 0) {
		int r = root_make(parent);
		if (r < 0)
			return r;
		return mkdir(path, 0700) == 0 || errno == EEXIST ? sync_path(parent) : -errno;
	}
	if (errno != EEXIST)
		return -errno;
	/* It was there; whoever made it may not have come to sync it. Above it we may have no right to look. */
	int r = sync_path(parent);
	return r == -EACCES ? 0 : r;
}

/*
 * What other processes began to put and never will finish. Those that were linked have their name. Uploads in parts
 * stay: whether they may go is known only to who knows which sessions are over, on every store alike.
 */
static int tmp_empty(struct file_store *fs)
{
	int fd = openat(fs->tmp_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL) {
		int r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	int r = 0;
	for (struct dirent *e; r == 0 && (e = readdir(d)) != NULL;) {
		bool ours = strncmp(e->d_name, fs->put_id, 32) == 0 && e->d_name[32] == '.';
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || ours ||
		    file_tmp_is_upload(e->d_name))
			continue;
		if (unlinkat(fs->tmp_fd, e->d_name, 0) != 0 && errno != ENOENT)
			r = -errno;
	}
	closedir(d);
	return r;
}

static int directories_open(struct file_store *fs, bool read_only)
{
	int r = read_only ? 0 : root_make(fs->root);
	if (r < 0)
		return r;
	fs->root_fd = open(fs->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs->root_fd < 0)
		return -errno;
	if (read_only)
		return 0;
	if (mkdirat(fs->root_fd, ".tmp", 0700) != 0 && errno != EEXIST)
		return -errno;
	fs->tmp_fd = openat(fs->root_fd, ".tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs->tmp_fd < 0 || fsync(fs->root_fd) != 0)
		return -errno;
	return tmp_empty(fs);
}

/* Signals are the loop's. With SIGXFSZ blocked a file over its limit is an error like others. */
static int threads_start(struct file_store *fs)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = 0;
	for (unsigned i = 0; r == 0 && i < FILE_STORE_THREADS; i++) {
		r = -pthread_create(&fs->thread[i], NULL, file_put_thread, fs);
		must(r == 0 || i == 0);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static struct file_store *file_store_new(struct env *env, const char *path, const uint8_t put_id[16])
{
	struct file_store *fs = must_calloc(1, sizeof(*fs));
	fs->magic = FILE_STORE_MAGIC;
	fs->env = env;
	fs->root = must_strdup(path);
	fs->url = must_calloc(1, strlen(path) + sizeof("file://"));
	sprintf(fs->url, "file://%s", path);
	fs->store = (struct objstore){ .ops = &file_store_ops, .url = fs->url, .max_inflight_default = 2 };
	for (int i = 0; i < 16 && put_id != NULL; i++)
		snprintf(fs->put_id + 2 * i, 3, "%02x", put_id[i]);
	fs->root_fd = fs->tmp_fd = -1;
	fs->task = (struct env_task){ .run = on_posted, .arg = fs };
	pthread_mutex_init(&fs->lock, NULL);
	pthread_mutex_init(&fs->dir_lock, NULL);
	pthread_cond_init(&fs->wake, NULL);
	file_ops_init(&fs->queue);
	file_ops_init(&fs->linked);
	file_ops_init(&fs->done);
	return fs;
}

int file_store_open(struct env *env, const char *path, const uint8_t put_id[16], struct objstore **ret_store,
		    char *fault, size_t fault_size)
{
	struct file_store *fs = file_store_new(env, path, put_id);
	int r = directories_open(fs, put_id == NULL);
	if (r == 0)
		r = threads_start(fs);
	if (r < 0) {
		snprintf(fault, fault_size, "cannot open the object store in %s: %s", path, strerror(-r));
		fs->freed = true;
		fs->n_refs = 1;
		file_store_unref(fs);
		return r;
	}
	*ret_store = &fs->store;
	return 0;
}
