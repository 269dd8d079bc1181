/* SPDX-License-Identifier: Apache-2.0
 *
 * Uploads in parts on files: a temporary whose name ends with the key, written at each part's offset by jobs;
 * at the end fdatasync, link() to the name, and the directory's fsync on the put threads.
 *
 *      .tmp/<put id>.<n>@data@1@0000000000000001@0000000000000000
 *
 * Invariant: the temporary is not touched by a job once the upload has ended, and is synced at most once.
 */
#include "storaged/objstore/file_upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/must.h"
#include "storaged/objstore/url.h"

bool file_tmp_is_upload(const char *name)
{
	return strchr(name, '@') != NULL;
}

static void characters_swap(char *text, char from, char to)
{
	for (; *text != 0; text++)
		*text = *text == from ? to : *text;
}

/* The handle */

static struct file_upload *upload_of(struct obj_upload *u)
{
	must(file_store_of(u->store) != NULL);
	return (struct file_upload *)u;
}

struct obj_upload *file_upload_new(struct objstore *s, const char *key)
{
	struct file_store *fs = file_store_of(s);
	must(objstore_key_is_legal(key));
	struct file_upload *u = must_calloc(1, sizeof(*u));
	*u = (struct file_upload){ .upload = { s }, .key = must_strdup(key), .next = fs->uploads, .fd = -1 };
	must(pthread_mutex_init(&u->lock, NULL) == 0);
	int n = snprintf(u->tmp_name, sizeof(u->tmp_name), "%s.%llu@%s", fs->put_id,
			 (unsigned long long)file_tmp_number(), key);
	must(n < (int)sizeof(u->tmp_name));     /* keys of data objects are short */
	characters_swap(u->tmp_name, '/', '@');
	fs->uploads = u;
	return &u->upload;
}

void file_upload_free(struct file_store *fs, struct file_upload *u)
{
	struct file_upload **at = &fs->uploads;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	if (u->fd >= 0)
		close(u->fd);
	pthread_mutex_destroy(&u->lock);
	free(u->key);
	free(u);
}

/* Parts */

static int upload_fd(struct file_op *op)
{
	struct file_upload *u = op->upload;
	pthread_mutex_lock(&u->lock);
	if (u->fd < 0 && u->err == 0) {
		u->fd = openat(op->fs->tmp_fd, u->tmp_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		u->err = u->fd >= 0 ? 0 : -errno;
	}
	int fd = u->err == 0 ? u->fd : u->err;
	pthread_mutex_unlock(&u->lock);
	return fd;
}

static int write_at(int fd, struct iovec iov, uint64_t offset)
{
	while (iov.iov_len > 0) {
		ssize_t n = pwrite(fd, iov.iov_base, iov.iov_len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		iov.iov_base = (uint8_t *)iov.iov_base + n;
		iov.iov_len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static void part_work(void *arg)
{
	struct file_op *op = arg;
	uint64_t offset = op->offset;
	int fd = upload_fd(op), r = fd >= 0 ? 0 : fd;
	for (int i = 0; r == 0 && i < op->n_iov; offset += op->iov[i++].iov_len)
		r = write_at(fd, op->iov[i], offset);
	if (r == 0)
		return;
	file_op_fail(op, r);
	pthread_mutex_lock(&op->upload->lock);
	op->upload->err = op->upload->err == 0 ? r : op->upload->err;
	pthread_mutex_unlock(&op->upload->lock);
}

void file_upload_part(struct obj_upload *handle, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg)
{
	struct file_upload *u = upload_of(handle);
	struct file_op *op = file_op_new(file_store_of(handle->store), FILE_DONE, u->key, arg);
	op->on_done = cb;
	op->upload = u;
	op->offset = u->size;
	op->iov = must_memdup(iov, (size_t)n_iov * sizeof(*iov));
	op->n_iov = n_iov;
	for (int i = 0; i < n_iov; i++)
		u->size += iov[i].iov_len;
	u->n_parts_out++;
	file_op_start_job(op, part_work);
}

/* Ends */

/* The file is whole here; what follows link() is the put threads'. */
static void finish_work(void *arg)
{
	struct file_op *op = arg;
	int r = file_dir_open(op->fs, op->key, true, &op->dir_fd);
	if (r == 0 && fdatasync(op->fd) != 0) {
		r = -errno;
		unlinkat(op->fs->tmp_fd, op->tmp_name, 0);
	}
	if (r == 0)
		r = file_tmp_publish(op->fs, op);
	if (r < 0)
		file_op_fail(op, r);
}

static void failed_work(void *arg)
{
}

void file_upload_finish(struct obj_upload *handle, obj_done_cb *cb, void *arg)
{
	struct file_upload *u = upload_of(handle);
	struct file_store *fs = file_store_of(handle->store);
	must(u->n_parts_out == 0);
	struct file_op *op = file_op_new(fs, FILE_PUT, u->key, arg);
	op->on_done = cb;
	op->if_absent = true;
	memcpy(op->tmp_name, u->tmp_name, sizeof(op->tmp_name));
	must(u->err != 0 || u->fd >= 0);
	op->fd = u->fd; /* the one that was written through: it would tell of a failed write-back */
	u->fd = -1;
	if (u->err != 0)
		file_op_fail(op, u->err);
	file_op_start_job(op, u->err == 0 ? finish_work : failed_work);
	file_upload_free(fs, u);
}

static void abort_work(void *arg)
{
	struct file_op *op = arg;
	if (unlinkat(op->fs->tmp_fd, op->tmp_name, 0) != 0 && errno != ENOENT)
		file_op_fail(op, -errno);
}

static void abort_start(struct file_op *op, const char *tmp_name, obj_done_cb *cb)
{
	op->on_done = cb;
	snprintf(op->tmp_name, sizeof(op->tmp_name), "%s", tmp_name);
	file_op_start_job(op, abort_work);
}

void file_upload_abort(struct obj_upload *handle, obj_done_cb *cb, void *arg)
{
	struct file_upload *u = upload_of(handle);
	struct file_store *fs = file_store_of(handle->store);
	must(u->n_parts_out == 0);
	abort_start(file_op_new(fs, FILE_DONE, u->key, arg), u->tmp_name, cb);
	file_upload_free(fs, u);
}

void file_abort_upload(struct objstore *s, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg)
{
	must(file_tmp_is_upload(e->id) && strchr(e->id, '/') == NULL);
	abort_start(file_op_new(file_store_of(s), FILE_DONE, e->key, arg), e->id, cb);
}

/* List */

static int entry_compare(const void *a, const void *b)
{
	const struct obj_upload_entry *x = a, *y = b;
	int c = strcmp(x->key, y->key);
	return c != 0 ? c : strcmp(x->id, y->id);
}

/* Adds one whose name is that of an upload of the prefix, behind where the list starts. */
static void upload_add(struct file_op *op, const char *name)
{
	const char *at = strchr(name, '@');
	if (at == NULL)
		return;
	struct obj_upload_entry e = { must_strdup(at + 1), must_strdup(name) };
	characters_swap(e.key, '@', '/');
	struct obj_upload_entry after = { op->start_after, op->after_id };
	if (strncmp(e.key, op->key, strlen(op->key)) != 0 || (after.key != NULL && entry_compare(&e, &after) <= 0)) {
		free(e.key);
		free(e.id);
		return;
	}
	if (op->n_entries == op->capacity) {
		op->capacity = op->capacity > 0 ? 2 * op->capacity : 16;
		op->uploads = must_realloc(op->uploads, op->capacity * sizeof(op->uploads[0]));
	}
	op->uploads[op->n_entries++] = e;
}

static void uploads_work(void *arg)
{
	struct file_op *op = arg;
	int fd = openat(op->fs->tmp_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL) {
		file_op_fail(op, -errno);
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		upload_add(op, e->d_name);
	closedir(d);
	if (op->n_entries > 0)
		qsort(op->uploads, op->n_entries, sizeof(op->uploads[0]), entry_compare);
	op->more = op->n_entries > op->limit;
	for (; op->n_entries > op->limit; op->n_entries--) {
		free(op->uploads[op->n_entries - 1].key);
		free(op->uploads[op->n_entries - 1].id);
	}
}

void file_list_uploads(struct objstore *s, const char *prefix, const struct obj_upload_entry *after, size_t limit,
		       obj_uploads_cb *cb, void *arg)
{
	must(limit > 0);
	struct file_op *op = file_op_new(file_store_of(s), FILE_UPLOADS, prefix, arg);
	op->on_uploads = cb;
	op->limit = limit;
	op->start_after = after != NULL ? must_strdup(after->key) : NULL;
	op->after_id = after != NULL ? must_strdup(after->id) : NULL;
	file_op_start_job(op, uploads_work);
}
