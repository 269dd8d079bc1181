/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts on files, on threads of their own: the bytes go to `.tmp/<put id>.<n>`, fdatasync, link() to the
 * name, fsync of the directory, unlink of the temporary. Two threads: while one is in a directory's
 * fsync the other writes on, and the next fsync serves all that were linked meanwhile.
 *
 * Invariants: a final name is never opened for writing; no file is synced twice; nothing is reported
 * done before the fsync of its directory that began after its link(), and of every new directory above.
 *
 * What need not be waited for is not: the temporary is made before its put comes, and goes when its put is answered.
 */
#include "storaged/objstore/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/must.h"

/* Directories */

static size_t dir_length(const char *key)
{
	const char *slash = strrchr(key, '/');
	return slash != NULL ? (size_t)(slash - key) : 0;
}

static const char *base_name(const char *key)
{
	const char *slash = strrchr(key, '/');
	return slash != NULL ? slash + 1 : key;
}

static bool same_dir(const struct file_op *a, const struct file_op *b)
{
	size_t n = dir_length(a->key);
	return n == dir_length(b->key) && memcmp(a->key, b->key, n) == 0;
}

static int dir_is_known(const struct file_store *fs, const char *dir)
{
	for (unsigned i = 0; i < FILE_STORE_KNOWN_DIRS; i++) {
		if (fs->known_dir[i] != NULL && strcmp(fs->known_dir[i], dir) == 0)
			return true;
	}
	return false;
}

static void dir_remember(struct file_store *fs, const char *dir)
{
	if (dir_is_known(fs, dir))
		return;
	char **slot = &fs->known_dir[fs->next_known_dir++ % FILE_STORE_KNOWN_DIRS];
	free(*slot);
	*slot = must_strdup(dir);
}

/* Goes one directory down from *fd, which it closes; makes it and syncs it into its parent. */
static int dir_descend(struct file_store *fs, const char *dir, const char *name, int *fd)
{
	int parent = *fd, r = 0;
	*fd = -1;
	if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
		r = -errno;
	/* Also when it was there: who made it may have been killed before this fsync. */
	if (r == 0 && fsync(parent) != 0) {
		r = -errno;
		file_store_fatal(fs, dir, r);
	}
	if (r == 0) {
		*fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = *fd >= 0 ? 0 : -errno;
	}
	close(parent);
	return r;
}

static int dir_make(struct file_store *fs, const char *dir, int *ret_fd)
{
	char names[OBJ_KEY_MAX], *rest = NULL;
	snprintf(names, sizeof(names), "%s", dir);
	int fd = openat(fs->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd >= 0 ? 0 : -errno;
	for (char *name = strtok_r(names, "/", &rest); r == 0 && name != NULL; name = strtok_r(NULL, "/", &rest))
		r = dir_descend(fs, dir, name, &fd);
	if (r == 0) {
		dir_remember(fs, dir);
		*ret_fd = fd;
	}
	return r;
}

int file_dir_open(struct file_store *fs, const char *key, bool make, int *ret_fd)
{
	char dir[OBJ_KEY_MAX] = ".";
	size_t n = dir_length(key);
	must(n < sizeof(dir));
	if (n > 0) {
		memcpy(dir, key, n);
		dir[n] = 0;
	}
	pthread_mutex_lock(&fs->dir_lock);
	int fd = -1, r = -ENOENT;
	if (!make || n == 0 || dir_is_known(fs, dir)) {
		fd = openat(fs->root_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd >= 0 ? 0 : -errno;
	}
	if (make && r == -ENOENT)
		r = dir_make(fs, dir, &fd);
	pthread_mutex_unlock(&fs->dir_lock);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

/* One file */

static int write_all(int fd, const struct iovec *iov, int n_iov)
{
	size_t skip = 0;        /* bytes of iov[0] that are written */
	while (n_iov > 0) {
		if (skip == iov->iov_len) {
			iov++;
			n_iov--;
			skip = 0;
			continue;
		}
		ssize_t n;
		if (skip > 0)
			n = write(fd, (const uint8_t *)iov->iov_base + skip, iov->iov_len - skip);
		else
			n = writev(fd, iov, n_iov < IOV_MAX ? n_iov : IOV_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		for (size_t left = (size_t)n; left > 0;) {
			size_t part = iov->iov_len - skip < left ? iov->iov_len - skip : left;
			skip += part;
			left -= part;
			if (skip == iov->iov_len && left > 0) {
				iov++;
				n_iov--;
				skip = 0;
			}
		}
	}
	return 0;
}

/* A number a process, not a store: two stores may stand on one directory. */
uint64_t file_tmp_number(void)
{
	static atomic_uint_fast64_t next;
	return atomic_fetch_add(&next, 1);
}

/* A thread's temporary for its next put. */
struct tmp {
	int fd;                         /* -1: none */
	char name[FILE_TMP_MAX];
};

static int tmp_make(struct file_store *fs, struct tmp *t)
{
	snprintf(t->name, sizeof(t->name), "%s.%llu", fs->put_id, (unsigned long long)file_tmp_number());
	t->fd = openat(fs->tmp_fd, t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return t->fd >= 0 ? 0 : errno != EEXIST ? -errno : -EBUSY;
}

static void tmp_drop(struct file_store *fs, struct tmp *t)
{
	if (t->fd < 0)
		return;
	close(t->fd);
	unlinkat(fs->tmp_fd, t->name, 0);
	t->fd = -1;
}

static int tmp_write(struct file_store *fs, struct file_op *op, struct tmp *t)
{
	int r = t->fd >= 0 ? 0 : tmp_make(fs, t);
	if (r < 0)
		return r;
	int fd = t->fd;
	t->fd = -1;
	memcpy(op->tmp_name, t->name, sizeof(op->tmp_name));
	r = write_all(fd, op->iov, op->n_iov);
	if (r == 0 && fdatasync(fd) != 0)
		r = -errno;
	close(fd);
	if (r < 0)
		unlinkat(fs->tmp_fd, op->tmp_name, 0);
	return r;
}

int file_tmp_publish(struct file_store *fs, struct file_op *op)
{
	const char *name = base_name(op->key);
	if (!op->if_absent)
		return renameat(fs->tmp_fd, op->tmp_name, op->dir_fd, name) == 0 ? 0 : -errno;
	return linkat(fs->tmp_fd, op->tmp_name, op->dir_fd, name, 0) == 0 ? 0 : -errno;
}

/* Up to and with link(). On failure nothing has happened. */
static int put_write(struct file_store *fs, struct file_op *op, struct tmp *t)
{
	int r = file_dir_open(fs, op->key, true, &op->dir_fd);
	if (r < 0)
		return r;
	r = tmp_write(fs, op, t);
	if (r == 0) {
		r = file_tmp_publish(fs, op);
		if (r < 0)
			unlinkat(fs->tmp_fd, op->tmp_name, 0);
	}
	if (r < 0) {
		close(op->dir_fd);
		op->dir_fd = -1;
	}
	return r;
}

/* The threads */

/* Temporaries that have their name, and the descriptor of its directory: what is left to do of puts that are answered. */
struct left {
	char (*tmp_name)[FILE_TMP_MAX];
	size_t n, capacity;
	int dir_fd;
};

static void left_add(struct left *l, const char *tmp_name)
{
	if (l->n == l->capacity) {
		l->capacity = l->capacity > 0 ? 2 * l->capacity : 8;
		l->tmp_name = must_realloc(l->tmp_name, l->capacity * sizeof(*l->tmp_name));
	}
	memcpy(l->tmp_name[l->n++], tmp_name, sizeof(*l->tmp_name));
}

static void left_do(struct file_store *fs, struct left *l)
{
	for (size_t i = 0; i < l->n; i++)
		unlinkat(fs->tmp_fd, l->tmp_name[i], 0);
	if (l->dir_fd >= 0)
		close(l->dir_fd);
	free(l->tmp_name);
	*l = (struct left){ .dir_fd = -1 };
}

/* Syncs the directory of the first and completes all of that directory; the others stay in `all`. */
static int sync_dir(struct file_store *fs, struct file_ops *all, struct file_ops *synced, struct left *left)
{
	struct file_ops others;
	file_ops_init(&others);
	struct file_op *first = all->head;
	if (fsync(first->dir_fd) != 0) {
		int r = -errno;
		file_store_fatal(fs, first->key, r);
		return r;
	}
	for (struct file_op *op; (op = file_ops_take(all)) != NULL;) {
		if (!same_dir(op, first)) {
			file_ops_put(&others, op);
			continue;
		}
		if (op->type == FILE_PUT && op->if_absent)
			left_add(left, op->tmp_name);
		if (op != first)
			close(op->dir_fd);
		file_ops_put(synced, op);
	}
	left->dir_fd = first->dir_fd;
	for (struct file_op *op = synced->head; op != NULL; op = op->next)
		op->dir_fd = -1;
	while (others.head != NULL)
		file_ops_put(all, file_ops_take(&others));
	return 0;
}

/* One round over what is linked now. The lock is held at entry and at return. Who waits for a put does not wait for its
 * temporary to go. */
static void sync_round(struct file_store *fs)
{
	struct file_ops all;
	file_ops_init(&all);
	while (fs->linked.head != NULL)
		file_ops_put(&all, file_ops_take(&fs->linked));
	fs->syncing = true;
	struct left left = { .dir_fd = -1 };
	int r = 0;
	while (r == 0 && all.head != NULL) {
		struct file_ops synced;
		file_ops_init(&synced);
		pthread_mutex_unlock(&fs->lock);
		left_do(fs, &left);
		r = sync_dir(fs, &all, &synced, &left);
		pthread_mutex_lock(&fs->lock);
		while (synced.head != NULL)
			file_ops_put(&fs->done, file_ops_take(&synced));
		file_store_post(fs);
	}
	/* After a failure these are neither done nor failed: the process dies. */
	while (all.head != NULL)
		file_ops_put(&fs->linked, file_ops_take(&all));
	fs->syncing = false;
	pthread_mutex_unlock(&fs->lock);
	left_do(fs, &left);
	pthread_mutex_lock(&fs->lock);
}

static void write_one(struct file_store *fs, struct tmp *t)
{
	struct file_op *op = file_ops_take(&fs->queue);
	pthread_mutex_unlock(&fs->lock);
	int r = put_write(fs, op, t);
	pthread_mutex_lock(&fs->lock);
	if (r == 0) {
		file_ops_put(&fs->linked, op);
		return;
	}
	file_op_fail(op, r);
	file_ops_put(&fs->done, op);
	file_store_post(fs);
}

void *file_put_thread(void *store)
{
	struct file_store *fs = store;
	struct tmp tmp = { .fd = -1 };
	pthread_mutex_lock(&fs->lock);
	while (!fs->stop) {
		if (fs->fatal[0] == 0 && fs->linked.head != NULL && !fs->syncing) {
			sync_round(fs);
		} else if (fs->fatal[0] == 0 && fs->queue.head != NULL) {
			write_one(fs, &tmp);
		} else {
			pthread_cond_wait(&fs->wake, &fs->lock);
		}
	}
	pthread_mutex_unlock(&fs->lock);
	tmp_drop(fs, &tmp);
	return NULL;
}
