/* SPDX-License-Identifier: Apache-2.0
 *
 * DATA/FORMAT    the number of the layout; a newer one is refused
 * DATA/instance  16 random bytes in hex: this directory and no copy of another
 * DATA/lock      flock of the supervisor, its pid inside; the same in the runtime directory
 * RUNTIME/pid    pid of the running supervisor; one that is left tells that the last end was no clean one
 */
#include "supervisor/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/must.h"

#define LOCK_LIVE_MS 250        /* for the holder to end if it is just being killed */
#define LOCK_DYING_MS 5000
#define LOCK_STEP_MS 20

/* mkdir -p; counts the directories it made. 0 or negative errno. */
static int make_path(const char *path, unsigned *ret_made)
{
	char *copy = must_strdup(path);
	int err = 0;
	for (char *p = copy + 1; err == 0; p++) {
		char c = *p;
		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, 0750) == 0)
			++*ret_made;
		else if (errno != EEXIST)
			err = -errno;
		*p = c;
		if (c == '\0')
			break;
	}
	free(copy);
	return err;
}

static int read_text(int dir, const char *name, char *ret_text, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, ret_text, size - 1);
	int err = n < 0 ? -errno : 0;
	close(fd);
	ret_text[n > 0 ? n : 0] = '\0';
	return err;
}

static int write_text(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, strlen(text));
	int err = n == (ssize_t)strlen(text) && fsync(fd) == 0 ? 0 : n >= 0 && errno == 0 ? -EIO : -errno;
	close(fd);
	return err < 0 || fsync(dir) == 0 ? err : -errno;
}

static int dir_open(struct home_dir *d, const char *option, const char *path)
{
	*d = (struct home_dir){ .path = must_strdup(path), .fd = -1, .lock_fd = -1 };
	int err = make_path(path, &d->n_made);
	if (err == 0) {
		d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = d->fd < 0 ? -errno : faccessat(d->fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
	}
	if (err == 0)
		return 0;
	log_error("--%s: cannot use the directory %s: %s", option, path, strerror(-err));
	return 1;
}

static bool is_alive(pid_t pid)
{
	return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

static pid_t lock_holder(const struct home_dir *d)
{
	char text[32];
	return read_text(d->fd, "lock", text, sizeof(text)) == 0 ? (pid_t)atoi(text) : 0;
}

/* Tries for as long as the holder may be one that is ending. */
static int try_lock(const struct home_dir *d)
{
	struct timespec step = { .tv_nsec = LOCK_STEP_MS * 1000000L };
	for (unsigned waited = 0; ; waited += LOCK_STEP_MS) {
		if (flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -errno;
		if (waited >= (is_alive(lock_holder(d)) ? LOCK_LIVE_MS : LOCK_DYING_MS))
			return -EWOULDBLOCK;
		nanosleep(&step, NULL);
	}
}

static int dir_lock(struct home_dir *d, const char *option)
{
	char text[32];
	d->lock_made = faccessat(d->fd, "lock", F_OK, 0) < 0;
	d->lock_fd = openat(d->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	int err = d->lock_fd < 0 ? -errno : try_lock(d);
	if (err == -EWOULDBLOCK) {
		d->lock_made = false;
		log_error("--%s: the node with pid %d runs on %s already", option, (int)lock_holder(d), d->path);
		return 1;
	}
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (err == 0 && (ftruncate(d->lock_fd, 0) < 0 || pwrite(d->lock_fd, text, (size_t)n, 0) != n))
		err = -errno;
	if (err == 0)
		return 0;
	log_error("--%s: cannot lock %s/lock: %s", option, d->path, strerror(-err));
	return 1;
}

static int check_format(struct home *h)
{
	char text[32], *end;
	int err = read_text(h->data.fd, "FORMAT", text, sizeof(text));
	if (err == -ENOENT) {
		snprintf(text, sizeof(text), "%d\n", HOME_FORMAT);
		err = write_text(h->data.fd, "FORMAT", text);
		h->format_made = err == 0;
	}
	if (err < 0) {
		log_error("--data-dir: %s/FORMAT: %s", h->data.path, strerror(-err));
		return 1;
	}
	long format = strtol(text, &end, 10);
	if (end == text || (*end != '\n' && *end != '\0') || format < 1) {
		log_error("--data-dir: %s/FORMAT holds no number: this is not a data directory", h->data.path);
		return 1;
	}
	if (format > HOME_FORMAT) {
		log_error("--data-dir: %s has format %ld, this program knows up to %d: use the newer release",
			  h->data.path, format, HOME_FORMAT);
		return 1;
	}
	return 0;
}

static int check_instance(struct home *h)
{
	uint8_t bytes[16];
	char text[40];
	int err = read_text(h->data.fd, "instance", text, sizeof(text));
	if (err == -ENOENT) {
		must(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes));
		for (size_t i = 0; i < sizeof(bytes); i++)
			snprintf(text + 2 * i, 3, "%02x", bytes[i]);
		strcat(text, "\n");
		err = write_text(h->data.fd, "instance", text);
		h->instance_made = err == 0;
	}
	if (err == 0)
		return 0;
	log_error("--data-dir: %s/instance: %s", h->data.path, strerror(-err));
	return 1;
}

static bool is_same_dir(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int runtime_open(struct home *h, const char *path)
{
	int code = dir_open(&h->runtime, "runtime-dir", path);
	if (code == 0 && !is_same_dir(h->data.fd, h->runtime.fd))
		code = dir_lock(&h->runtime, "runtime-dir");
	if (code == 0)
		h->stale = faccessat(h->runtime.fd, "pid", F_OK, 0) == 0;
	return code;
}

int home_open(struct home *h, const struct conf *conf)
{
	*h = (struct home){ .data.fd = -1, .data.lock_fd = -1, .runtime.fd = -1, .runtime.lock_fd = -1 };
	int code = dir_open(&h->data, "data-dir", conf->data_dir);
	if (code == 0)
		code = dir_lock(&h->data, "data-dir");
	if (code == 0)
		code = check_format(h);
	if (code == 0)
		code = check_instance(h);
	if (code == 0)
		code = runtime_open(h, conf->runtime_dir);
	if (code != 0)
		home_undo(h);
	return code;
}

int home_write_pid(struct home *h)
{
	char text[32];
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	int err = write_text(h->runtime.fd, "pid", text);
	h->pid_made = err == 0;
	if (err < 0)
		log_error("--runtime-dir: %s/pid: %s", h->runtime.path, strerror(-err));
	return err < 0;
}

static void dir_close(struct home_dir *d)
{
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	if (d->fd >= 0)
		close(d->fd);
	free(d->path);
	*d = (struct home_dir){ .fd = -1, .lock_fd = -1 };
}

/* The directories that were made, innermost first; one that holds something stays. */
static void dir_undo(struct home_dir *d)
{
	if (d->lock_made)
		unlinkat(d->fd, "lock", 0);
	for (; d->n_made > 0 && rmdir(d->path) == 0; d->n_made--) {
		char *slash = strrchr(d->path, '/');
		if (slash == NULL || slash == d->path)
			break;
		*slash = '\0';
	}
}

/* Whether the data directory holds nothing that a child made. */
static bool is_ours_alone(const struct home *h)
{
	static const char *const ours[] = { ".", "..", "FORMAT", "instance", "lock", "pid", "storaged.sock" };
	DIR *dir = h->data.path != NULL ? opendir(h->data.path) : NULL;
	bool alone = dir != NULL;
	for (struct dirent *e; alone && (e = readdir(dir)) != NULL; ) {
		alone = false;
		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]) && !alone; i++)
			alone = strcmp(e->d_name, ours[i]) == 0;
	}
	if (dir != NULL)
		closedir(dir);
	return alone;
}

void home_undo(struct home *h)
{
	if (h->pid_made)
		unlinkat(h->runtime.fd, "pid", 0);
	if (!is_ours_alone(h)) {
		home_close(h);
		return;
	}
	if (h->format_made)
		unlinkat(h->data.fd, "FORMAT", 0);
	if (h->instance_made)
		unlinkat(h->data.fd, "instance", 0);
	if (h->runtime.path != NULL)
		dir_undo(&h->runtime);
	if (h->data.path != NULL)
		dir_undo(&h->data);
	dir_close(&h->runtime);
	dir_close(&h->data);
}

void home_close(struct home *h)
{
	if (h->pid_made)
		unlinkat(h->runtime.fd, "pid", 0);
	dir_close(&h->runtime);
	dir_close(&h->data);
}
