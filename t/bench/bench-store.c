/* SPDX-License-Identifier: Apache-2.0
 *
 * What an object store gives: bench-store URL PUTS BYTES LARGE prints one figure a line, `NAME got X`. PUTS conditional
 * puts of BYTES one after the other, as a lone append makes them; then LARGE objects of 8 MiB put and read back, with
 * IN_FLIGHT under way. Everything stands below bench/ and is deleted in the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/objstore/url.h"

#define LARGE_SIZE (8u << 20)
#define IN_FLIGHT 4u
#define KEY_SIZE 64

static uv_loop_t loop;
static struct env *env;
static struct objstore *store;
static uint8_t bytes[LARGE_SIZE];
static unsigned in_flight;

static void check(struct obj_result result)
{
	if (result.outcome == OUTCOME_OK)
		return;
	fprintf(stderr, "bench-store: %s: %s\n", result.what, strerror(-result.err));
	exit(1);
}

static void on_done(void *arg, struct obj_result result)
{
	check(result);
	in_flight--;
}

static void on_get(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	on_done(arg, result);
	must(data.n == LARGE_SIZE && memcmp(data.p, bytes, 64) == 0);
}

static void wait_below(unsigned n)
{
	while (in_flight >= n)
		uv_run(&loop, UV_RUN_ONCE);
}

static void key_of(char to[static KEY_SIZE], const char *kind, size_t i)
{
	snprintf(to, KEY_SIZE, "bench/%s/%016zx", kind, i);
}

static void put(const char *kind, size_t i, size_t size)
{
	char key[KEY_SIZE];
	struct iovec iov = { bytes, size };
	key_of(key, kind, i);
	in_flight++;
	objstore_put(store, key, &iov, 1, true, on_done, NULL);
}

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void lone_puts(size_t n, size_t size)
{
	double *ms = must_calloc(n + 1, sizeof(*ms));
	for (size_t i = 0; i < n; i++) {
		uint64_t began = env_now_ns(env);
		put("lone", i, size);
		wait_below(1);
		ms[i] = (double)(env_now_ns(env) - began) / 1e6;
	}
	qsort(ms, n, sizeof(*ms), double_compare);
	printf("put-p50-ms got %.3f\nput-p99-ms got %.3f\n", ms[n / 2], ms[n * 99 / 100]);
	free(ms);
}

static double rate(size_t n, uint64_t began)
{
	wait_below(1);
	return (double)n * LARGE_SIZE * 1000 / (double)(env_now_ns(env) - began);
}

static void large_objects(size_t n)
{
	char key[KEY_SIZE];
	uint64_t began = env_now_ns(env);
	for (size_t i = 0; i < n; i++) {
		wait_below(IN_FLIGHT);
		put("large", i, LARGE_SIZE);
	}
	printf("put-MBps got %.0f\n", rate(n, began));
	began = env_now_ns(env);
	for (size_t i = 0; i < n; i++) {
		wait_below(IN_FLIGHT);
		key_of(key, "large", i);
		in_flight++;
		objstore_get(store, key, 0, LARGE_SIZE, on_get, NULL);
	}
	printf("get-MBps got %.0f\n", rate(n, began));
}

static void delete(const char *kind, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char key[KEY_SIZE];
		const char *keys[] = { key };
		key_of(key, kind, i);
		in_flight++;
		store->ops->del(store, keys, 1, on_done, NULL);
		wait_below(1);
	}
}

static void open_store(const char *text)
{
	static const uint8_t put_id[16] = { 1 };
	char fault[5000];
	struct objstore_url url;
	must(uv_loop_init(&loop) == 0 && env_uv_new(&loop, &env) == 0);
	if (objstore_url_parse(text, &url, fault, sizeof(fault)) == 0 &&
	    objstore_open(env, &url, put_id, &store, fault, sizeof(fault)) == 0)
		return;
	fprintf(stderr, "bench-store: %s\n", fault);
	exit(1);
}

int main(int argc, char **argv)
{
	size_t n = argc == 5 ? strtoul(argv[2], NULL, 10) : 0, size = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
	size_t large = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	if (n == 0 || size == 0 || size > LARGE_SIZE) {
		fprintf(stderr, "usage: bench-store URL PUTS BYTES LARGE\n");
		return 2;
	}
	open_store(argv[1]);
	env_random(env, bytes, sizeof(bytes));
	lone_puts(n, size);
	large_objects(large);
	fflush(stdout);
	delete("lone", n);
	delete("large", large);
	store->ops->free(store);
	uv_run(&loop, UV_RUN_NOWAIT);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return 0;
}
