/* SPDX-License-Identifier: Apache-2.0
 *
 * An object store on a pipe, for t/30-objstore-*.py: t/objstore-tool URL reads commands, one a line,
 * and answers each with one line an operation:
 *
 *   put KEY BYTES | get KEY | range KEY OFFSET LENGTH | suffix KEY LENGTH | del KEY | list PREFIX | uploads PREFIX
 *   through KEY SIZE PIECE (gets of that many bytes, two at a time, not compared)
 *   puts PREFIX N BYTES | gets PREFIX N | dels PREFIX N (all at once) | upload KEY N BYTES (N parts, then the end)
 *
 *   KEY ok [bytes read] | KEY not-applied ERRNO PATH | KEY unknown ERRNO PATH
 *
 * A put's bytes are its key, again and again; a get checks them ("KEY wrong").
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/objstore/url.h"

static uv_loop_t loop;
static struct env *env;
static struct objstore *store;
static unsigned n_out;

struct request {
	char key[256];
	uint64_t offset;
	bool suffix;
	char *bytes;
};

static void fill(const char *key, uint64_t offset, char *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = key[(offset + i) % strlen(key)];
}

static void finish(struct request *r, struct obj_result result, const char *said)
{
	if (result.outcome == OUTCOME_OK)
		printf("%s ok%s\n", r->key, said);
	else
		printf("%s %s %s %s\n", r->key, result.outcome == OUTCOME_UNKNOWN ? "unknown" : "not-applied",
		       strerrorname_np(-result.err), result.what);
	fflush(stdout);
	free(r->bytes);
	free(r);
	n_out--;
}

static void on_done(void *arg, struct obj_result result)
{
	finish(arg, result, "");
}

static void on_get(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct request *r = arg;
	char said[40];
	r->bytes = must_calloc(1, data.n);
	fill(r->key, r->suffix ? size - data.n : r->offset, r->bytes, data.n);
	bool same = slice_eq(data, slice_of(r->bytes, data.n));
	snprintf(said, sizeof(said), same ? " %zu" : " wrong", data.n);
	finish(r, result, said);
}

static void on_list(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	char said[40];
	for (size_t i = 0; i < n; i++)
		printf("+ %s %llu\n", entries[i].key, (unsigned long long)entries[i].size);
	snprintf(said, sizeof(said), " %zu%s", n, more ? " more" : "");
	finish(arg, result, said);
}

static void on_uploads(void *arg, struct obj_result result, const struct obj_upload_entry *entries, size_t n, bool more)
{
	char said[40];
	for (size_t i = 0; i < n; i++)
		printf("+ %s %s\n", entries[i].key, entries[i].id);
	snprintf(said, sizeof(said), " %zu%s", n, more ? " more" : "");
	finish(arg, result, said);
}

static struct request *request_new(const char *key)
{
	struct request *r = must_calloc(1, sizeof(*r));
	snprintf(r->key, sizeof(r->key), "%s", key);
	n_out++;
	return r;
}

static void put(const char *key, size_t n)
{
	struct request *r = request_new(key);
	r->bytes = must_calloc(1, n);
	fill(key, 0, r->bytes, n);
	struct iovec iov = { r->bytes, n };
	objstore_put(store, key, &iov, 1, true, on_done, r);
}

static void get(const char *key, uint64_t offset, uint64_t length)
{
	struct request *r = request_new(key);
	r->offset = offset;
	objstore_get(store, key, offset, length, on_get, r);
}

static void get_suffix(const char *key, uint64_t length)
{
	struct request *r = request_new(key);
	r->suffix = true;
	objstore_get_suffix(store, key, length, on_get, r);
}

static void del_many(const char *prefix, size_t n)
{
	char **keys = must_calloc(n, sizeof(keys[0]));
	for (size_t i = 0; i < n; i++)
		must(asprintf(&keys[i], "%s%04zu", prefix, i) > 0);
	store->ops->del(store, (const char *const *)keys, n, on_done, request_new(prefix));
	for (size_t i = 0; i < n; i++)
		free(keys[i]);
	free(keys);
}

/* An upload: the parts at once, then its end, whose result is told; a part that fails ends it. */
static struct upload {
	struct obj_upload *handle;
	unsigned n_out;
	struct request *request;
	struct obj_result bad;
	char what[1000];
} up;

static void on_upload_part(void *arg, struct obj_result result)
{
	if (result.outcome != OUTCOME_OK) {
		up.bad = result;
		snprintf(up.what, sizeof(up.what), "%s", result.what);
		up.bad.what = up.what;
	}
	if (--up.n_out > 0)
		return;
	if (up.bad.outcome == OUTCOME_OK) {
		obj_upload_finish(up.handle, on_done, up.request);
		return;
	}
	finish(up.request, up.bad, "");
}

static void upload(const char *key, unsigned n, size_t bytes)
{
	up = (struct upload){ .handle = objstore_upload_new(store, key), .n_out = n, .request = request_new(key) };
	up.request->bytes = must_calloc(n, bytes);
	fill(key, 0, up.request->bytes, n * bytes);
	for (unsigned i = 0; i < n; i++)
		obj_upload_part(up.handle, &(struct iovec){ up.request->bytes + i * bytes, bytes }, 1, on_upload_part,
				NULL);
}

static struct walk {
	struct request *request;
	uint64_t at, size, piece;
	unsigned n_out;
	bool failed;
} walk;

static void walk_on(void);

static void on_piece(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	walk.n_out--;
	walk.failed |= result.outcome != OUTCOME_OK;
	walk_on();
	if (walk.n_out == 0)
		finish(walk.request, result, walk.failed ? " wrong" : "");
}

static void walk_on(void)
{
	while (walk.n_out < 2 && walk.at < walk.size && !walk.failed) {
		uint64_t at = walk.at, n = walk.size - at < walk.piece ? walk.size - at : walk.piece;
		walk.at += n;
		walk.n_out++;
		objstore_get(store, walk.request->key, at, n, on_piece, NULL);
	}
}

static void through(const char *key, uint64_t size, uint64_t piece)
{
	walk = (struct walk){ .request = request_new(key), .size = size, .piece = piece };
	walk_on();
}

/* Those that are of many keys, or of none. */
static bool command_of_many(const char *word, const char *key, unsigned long long a, unsigned long long b)
{
	if (strcmp(word, "dels") == 0)
		del_many(key, a);
	else if (strcmp(word, "through") == 0)
		through(key, a, b);
	else if (strcmp(word, "upload") == 0)
		upload(key, (unsigned)a, b);
	else if (strcmp(word, "suffix") == 0)
		get_suffix(key, a);
	else if (strcmp(word, "uploads") == 0)
		store->ops->list_uploads(store, key, NULL, 1000, on_uploads, request_new(key));
	else
		return false;
	return true;
}

static bool command(char *line)
{
	char word[16], key[200], one[256];
	unsigned long long a = 0, b = 0;
	int n = sscanf(line, "%15s %199s %llu %llu", word, key, &a, &b);
	const char *keys[] = { key };
	if (n == 3 && strcmp(word, "put") == 0) {
		put(key, a);
	} else if (n == 4 && strcmp(word, "puts") == 0) {
		for (unsigned i = 0; i < a; i++) {
			snprintf(one, sizeof(one), "%s%04u", key, i);
			put(one, b);
		}
	} else if (n >= 2 && (strcmp(word, "get") == 0 || strcmp(word, "range") == 0)) {
		get(key, a, b);
	} else if (n == 3 && strcmp(word, "gets") == 0) {
		for (unsigned i = 0; i < a; i++) {
			snprintf(one, sizeof(one), "%s%04u", key, i);
			get(one, 0, 0);
		}
	} else if (n == 2 && strcmp(word, "del") == 0) {
		store->ops->del(store, keys, 1, on_done, request_new(key));
	} else if (n == 2 && strcmp(word, "list") == 0) {
		store->ops->list(store, key, NULL, 1000, on_list, request_new(key));
	} else {
		return command_of_many(word, key, a, b);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct objstore_url url;
	char fault[5000], line[512];
	uint8_t put_id[16];
	must(argc == 2 && uv_loop_init(&loop) == 0 && env_uv_new(&loop, &env) == 0);
	env_random(env, put_id, sizeof(put_id));
	if (objstore_url_parse(argv[1], &url, fault, sizeof(fault)) < 0 ||
	    objstore_open(env, &url, put_id, &store, fault, sizeof(fault)) < 0) {
		fprintf(stderr, "%s\n", fault);
		return 1;
	}
	puts("open");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (!command(line)) {
			fprintf(stderr, "what is '%s'?\n", line);
			return 2;
		}
		while (n_out > 0)
			uv_run(&loop, UV_RUN_ONCE);
	}
	store->ops->free(store);
	uv_run(&loop, UV_RUN_NOWAIT);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}
