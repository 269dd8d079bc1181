/* SPDX-License-Identifier: Apache-2.0
 *
 * What the disk gives: bench-disk [DIR [N [BYTES]]] prints one figure a line, `NAME got X`. N WAL-like
 * objects are put one after the other through the file store and, turn about, by the bare calls a put
 * cannot do without; then with two in flight; then a file is appended to with an fdatasync a MiB.
 *
 * The bare loop is the base line of "lone append: one WAL object + 1 ms".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/objstore/url.h"

#define ROUND 50                /* puts before the other side has its turn */
#define SEQUENTIAL_MIB 128

struct bench {
	uv_loop_t loop;
	struct env *env;
	struct objstore *store;
	char dir[4000];
	size_t n, size;
	uint8_t *bytes;
	double *store_ms, *bare_ms;
	unsigned in_flight;
	size_t done;
};

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench-disk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double ms_since(struct bench *b, uint64_t began_ns)
{
	return (double)(env_now_ns(b->env) - began_ns) / 1e6;
}

static void on_put(void *arg, struct obj_result result)
{
	struct bench *b = arg;
	errno = -result.err;
	check(result.outcome == OUTCOME_OK, result.what);
	b->in_flight--;
	b->done++;
}

static void store_put(struct bench *b, const char *prefix, size_t i)
{
	char key[100];
	snprintf(key, sizeof(key), "wal/1/%s/%016zx", prefix, i);
	struct iovec iov = { b->bytes, b->size };
	b->in_flight++;
	objstore_put(b->store, key, &iov, 1, true, on_put, b);
}

/* One put by the store, from the call to its callback. */
static double store_one(struct bench *b, size_t i)
{
	uint64_t began = env_now_ns(b->env);
	store_put(b, "lone", i);
	while (b->in_flight > 0)
		uv_run(&b->loop, UV_RUN_ONCE);
	return ms_since(b, began);
}

/* The same by hand. */
static double bare_one(struct bench *b, int dir_fd, int tmp_fd, size_t i)
{
	char name[40];
	snprintf(name, sizeof(name), "%016zx", i);
	uint64_t began = env_now_ns(b->env);
	int fd = openat(tmp_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0, "open");
	check(write(fd, b->bytes, b->size) == (ssize_t)b->size, "write");
	check(fdatasync(fd) == 0, "fdatasync");
	close(fd);
	check(linkat(tmp_fd, name, dir_fd, name, 0) == 0, "link");
	check(fsync(dir_fd) == 0, "fsync");
	check(unlinkat(tmp_fd, name, 0) == 0, "unlink");
	return ms_since(b, began);
}

static int make_dir(struct bench *b, const char *name)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/%s", b->dir, name);
	check(mkdir(path, 0700) == 0, path);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(fd >= 0, path);
	return fd;
}

static void lone_puts(struct bench *b)
{
	int dir_fd = make_dir(b, "bare"), tmp_fd = make_dir(b, "bare-tmp");
	/* The first ones make directories and threads. */
	store_put(b, "lone", b->n);
	while (b->in_flight > 0)
		uv_run(&b->loop, UV_RUN_ONCE);
	for (size_t i = 0; i < b->n; i += ROUND) {
		size_t end = i + ROUND < b->n ? i + ROUND : b->n;
		for (size_t k = i; k < end; k++)
			b->store_ms[k] = store_one(b, k);
		for (size_t k = i; k < end; k++)
			b->bare_ms[k] = bare_one(b, dir_fd, tmp_fd, k);
	}
	close(dir_fd);
	close(tmp_fd);
}

/* Puts a second with two in flight, as the WAL has them on files. */
static double pair_rate(struct bench *b)
{
	uint64_t began = env_now_ns(b->env);
	size_t started = 0;
	b->done = 0;
	while (b->done < b->n) {
		while (b->in_flight < 2 && started < b->n)
			store_put(b, "pair", started++);
		uv_run(&b->loop, UV_RUN_ONCE);
	}
	return (double)b->n * 1000 / ms_since(b, began);
}

/* MB a second of a file that is appended to and synced each MiB. */
static double sequential_rate(struct bench *b)
{
	static uint8_t mib[1 << 20];
	char path[4200];
	snprintf(path, sizeof(path), "%s/sequential", b->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0, path);
	env_random(b->env, mib, sizeof(mib));
	uint64_t began = env_now_ns(b->env);
	for (int i = 0; i < SEQUENTIAL_MIB; i++) {
		check(write(fd, mib, sizeof(mib)) == (ssize_t)sizeof(mib), "write");
		check(fdatasync(fd) == 0, "fdatasync");
	}
	double rate = SEQUENTIAL_MIB * 1048.576 / ms_since(b, began);
	close(fd);
	return rate;
}

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print_quantiles(const char *name, double *ms, size_t n)
{
	qsort(ms, n, sizeof(ms[0]), double_compare);
	printf("%s-p50-ms got %.3f\n", name, ms[n / 2]);
	printf("%s-p99-ms got %.3f\n", name, ms[n * 99 / 100]);
}

static void open_store(struct bench *b)
{
	static const uint8_t put_id[16] = { 1 };
	char text[4100], fault[5000];
	struct objstore_url url;
	snprintf(text, sizeof(text), "file://%s/objects", b->dir);
	must(uv_loop_init(&b->loop) == 0 && env_uv_new(&b->loop, &b->env) == 0);
	if (objstore_url_parse(text, &url, fault, sizeof(fault)) < 0 ||
	    objstore_open(b->env, &url, put_id, &b->store, fault, sizeof(fault)) < 0) {
		fprintf(stderr, "bench-disk: %s\n", fault);
		exit(1);
	}
}

static void close_store(struct bench *b)
{
	b->store->ops->free(b->store);
	uv_run(&b->loop, UV_RUN_NOWAIT);
	env_uv_free(b->env);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	uv_loop_close(&b->loop);
}

static void remove_files(struct bench *b)
{
	char *argv[] = { "rm", "-rf", "--", b->dir, NULL };
	execvp("rm", argv);
	check(false, "rm");
}

int main(int argc, char **argv)
{
	static struct bench b;
	snprintf(b.dir, sizeof(b.dir), "%s/bench-disk.XXXXXX", argc > 1 ? argv[1] : ".");
	b.n = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
	b.size = argc > 3 ? strtoul(argv[3], NULL, 10) : 512;
	if (argc > 4 || b.n == 0 || b.n > 1000000 || b.size == 0 || b.size > 1 << 26) {
		fprintf(stderr, "usage: bench-disk [DIR [N [BYTES]]]\n");
		return 2;
	}
	check(mkdtemp(b.dir) != NULL, b.dir);
	b.bytes = must_calloc(1, b.size);
	b.store_ms = must_calloc(b.n, sizeof(double));
	b.bare_ms = must_calloc(b.n, sizeof(double));
	open_store(&b);
	env_random(b.env, b.bytes, b.size);
	lone_puts(&b);
	print_quantiles("store-put", b.store_ms, b.n);
	print_quantiles("bare-loop-put", b.bare_ms, b.n);
	printf("store-over-bare-p50 got %.3f\n", b.store_ms[b.n / 2] / b.bare_ms[b.n / 2]);
	printf("store-puts-2-in-flight-per-s got %.0f\n", pair_rate(&b));
	printf("sequential-fsync-MBps got %.0f\n", sequential_rate(&b));
	fflush(stdout);
	close_store(&b);
	free(b.bytes);
	free(b.store_ms);
	free(b.bare_ms);
	remove_files(&b);
	return 1;
}
