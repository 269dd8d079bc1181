/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets, deletes and lists on files: work of jobs on libuv's threads. None of it touches the store
 * beyond its descriptors, which stay open while a job is out.
 */
#include "storaged/objstore/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/must.h"

/* Get */

static int read_all(int fd, uint8_t *to, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t got = pread(fd, to, n, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		to += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

static int get_range(struct file_op *op, int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EISDIR;
	op->size = (uint64_t)st.st_size;
	if (op->suffix) {
		op->offset = op->length < op->size ? op->size - op->length : 0;
		op->length = 0;
	}
	if (op->offset > op->size || (op->offset == op->size && op->offset > 0))
		return -ERANGE;
	uint64_t n = op->size - op->offset;
	if (op->length > 0 && op->length < n)
		n = op->length;
	op->data = malloc(n > 0 ? n : 1);
	if (op->data == NULL)
		return -ENOMEM;
	op->n_data = n;
	return read_all(fd, op->data, n, op->offset);
}

void file_get_work(void *arg)
{
	struct file_op *op = arg;
	int fd = openat(op->fs->root_fd, op->key, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		file_op_fail(op, -errno);
		return;
	}
	bool whole = op->offset == 0 && op->length == 0 && !op->suffix;
	int r = get_range(op, fd);
	close(fd);
	/* Who reads a whole object builds on it: its entry is made durable first, on the put threads. */
	if (r == 0 && whole)
		r = file_dir_open(op->fs, op->key, false, &op->dir_fd);
	if (r < 0)
		file_op_fail(op, r);
}

/* Delete */

static int sync_parent(struct file_store *fs, const char *key)
{
	int fd = -1, r = file_dir_open(fs, key, false, &fd);
	if (r == -ENOENT)
		return 0;
	if (r == 0 && fsync(fd) != 0) {
		r = -errno;
		file_store_fatal(fs, key, r);
	}
	if (fd >= 0)
		close(fd);
	return r;
}

static bool same_parent(const char *a, const char *b)
{
	const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
	size_t n = x != NULL ? (size_t)(x - a) : 0, m = y != NULL ? (size_t)(y - b) : 0;
	return n == m && memcmp(a, b, n) == 0;
}

void file_delete_work(void *arg)
{
	struct file_op *op = arg;
	for (size_t i = 0; i < op->n_keys; i++) {
		int r = 0;
		if (unlinkat(op->fs->root_fd, op->keys[i], 0) != 0 && errno != ENOENT)
			r = -errno;
		/* One fsync for neighbours of a directory. */
		if (r == 0 && (i + 1 == op->n_keys || !same_parent(op->keys[i], op->keys[i + 1])))
			r = sync_parent(op->fs, op->keys[i]);
		if (r < 0) {
			op->outcome = i == 0 ? OUTCOME_NOT_APPLIED : OUTCOME_UNKNOWN;
			op->err = r;
			free(op->key);
			op->key = must_strdup(op->keys[i]);
			return;
		}
	}
}

/* List */

struct names {
	char **name;            /* directories end with '/' */
	size_t n, capacity;
};

static void names_add(struct names *names, const char *name)
{
	if (names->n == names->capacity) {
		names->capacity = names->capacity > 0 ? 2 * names->capacity : 64;
		names->name = must_realloc(names->name, names->capacity * sizeof(names->name[0]));
	}
	names->name[names->n++] = must_strdup(name);
}

/* One that vanished meanwhile is left out. */
static int entry_add(struct file_op *op, const char *key)
{
	struct stat st;
	if (fstatat(op->fs->root_fd, key, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -errno;
	op->more = op->n_entries == op->limit;
	if (op->more)
		return 0;
	if (op->n_entries == op->capacity) {
		op->capacity = op->capacity > 0 ? 2 * op->capacity : 64;
		op->entries = must_realloc(op->entries, op->capacity * sizeof(op->entries[0]));
	}
	op->entries[op->n_entries++] = (struct obj_entry){ must_strdup(key), (uint64_t)st.st_size };
	return 0;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_directory(int dir_fd, const struct dirent *d)
{
	struct stat st;
	if (d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int names_read(int root_fd, const char *dir, struct names *names)
{
	int fd = openat(root_fd, dir[0] != 0 ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	DIR *d = fdopendir(fd);
	if (d == NULL) {
		int r = -errno;
		close(fd);
		return r;
	}
	errno = 0;
	for (struct dirent *e; (e = readdir(d)) != NULL; errno = 0) {
		char name[300];
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s%s", e->d_name, is_directory(fd, e) ? "/" : "");
		names_add(names, name);
	}
	int r = -errno;
	closedir(d);
	/* With its '/' a directory stands where its keys stand among the others. */
	if (names->n > 0)
		qsort(names->name, names->n, sizeof(names->name[0]), name_compare);
	return r;
}

/* May a key that begins with `dir` ("a/b/") be wanted? */
static bool dir_is_wanted(const struct file_op *op, const char *dir)
{
	size_t n = strlen(dir), n_prefix = strlen(op->key);
	if (strncmp(dir, op->key, n < n_prefix ? n : n_prefix) != 0)
		return false;
	return op->start_after == NULL || strcmp(dir, op->start_after) > 0 || strncmp(dir, op->start_after, n) == 0;
}

static bool key_is_wanted(const struct file_op *op, const char *key)
{
	return strncmp(key, op->key, strlen(op->key)) == 0 &&
	       (op->start_after == NULL || strcmp(key, op->start_after) > 0);
}

/* Keys have few segments, so recursion is shallow; a directory that makes a longer one is not ours. */
static int list_dir(struct file_op *op, const char *dir)
{
	struct names names = { 0 };
	int r = names_read(op->fs->root_fd, dir, &names);
	for (size_t i = 0; i < names.n; i++) {
		char key[OBJ_KEY_MAX];
		const char *name = names.name[i];
		int n = snprintf(key, sizeof(key), "%s%s", dir, name);
		if (r < 0 || op->more || n >= (int)sizeof(key))
			continue;
		if (name[strlen(name) - 1] == '/') {
			if (dir_is_wanted(op, key))
				r = list_dir(op, key);
		} else if (key_is_wanted(op, key)) {
			r = entry_add(op, key);
		}
	}
	for (size_t i = 0; i < names.n; i++)
		free(names.name[i]);
	free(names.name);
	return r;
}

void file_list_work(void *arg)
{
	struct file_op *op = arg;
	int r = list_dir(op, "");
	if (r < 0)
		file_op_fail(op, r);
}
