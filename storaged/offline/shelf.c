/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. Each call turns a loop of its own until its answer is there.
 */
#include "storaged/offline/shelf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/objstore/url.h"

#define TRIES 6
#define PAUSE_MS 200
#define LIST_PAGE 1000

struct store_shelf {
	struct shelf base;              /* first */
	uv_loop_t loop;
	struct env *env;
	struct objstore *store;
	char *url;
	/* the call under way */
	bool done, more;
	int err;
	struct slice bytes;
	struct shelf_keys *keys;
};

void shelf_keys_add(struct shelf_keys *keys, const char *key, uint64_t size)
{
	if ((keys->n & (keys->n - 1)) == 0)
		keys->key = must_realloc(keys->key, (keys->n == 0 ? 1 : 2 * keys->n) * sizeof(*keys->key));
	keys->key[keys->n++] = (struct shelf_key){ .key = must_strdup(key), .size = size };
}

void shelf_keys_done(struct shelf_keys *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		free(keys->key[i].key);
	free(keys->key);
	*keys = (struct shelf_keys){ 0 };
}

static void turn(struct store_shelf *s)
{
	while (!s->done)
		uv_run(&s->loop, UV_RUN_ONCE);
}

static void note(struct store_shelf *s, struct obj_result result)
{
	s->done = true;
	s->err = result.outcome == OUTCOME_OK ? 0 : result.err < 0 ? result.err : -EIO;
	if (s->err != 0)
		snprintf(s->base.fault, sizeof(s->base.fault), "%s: %s", result.what != NULL ? result.what : s->url,
			 strerror(-s->err));
}

/* Whether it is worth another try; waits before it. */
static bool try_again(const struct store_shelf *s, unsigned n_tries)
{
	if (s->err == 0 || s->err == -ENOENT || s->err == -ERANGE || s->err == -EACCES || n_tries >= TRIES)
		return false;
	struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	nanosleep(&pause, NULL);
	return true;
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct store_shelf *s = arg;
	note(s, result);
	if (s->err == 0)
		s->bytes = slice_of(must_memdup(data.n == 0 ? (const void *)"" : data.p, data.n == 0 ? 1 : data.n), data.n);
}

static int store_get(struct shelf *base, const char *key, uint64_t offset, uint64_t length, struct slice *ret_bytes)
{
	struct store_shelf *s = (struct store_shelf *)base;
	unsigned n = 0;
	do {
		s->done = false;
		objstore_get(s->store, key, offset, length, on_got, s);
		turn(s);
	} while (try_again(s, ++n));
	if (s->err == 0)
		*ret_bytes = s->bytes;
	return s->err;
}

static void on_list(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct store_shelf *s = arg;
	note(s, result);
	s->more = s->err == 0 && more && n > 0;
	for (size_t i = 0; s->err == 0 && i < n; i++)
		shelf_keys_add(s->keys, entries[i].key, entries[i].size);
}

static int store_list(struct shelf *base, const char *prefix, struct shelf_keys *ret_keys)
{
	struct store_shelf *s = (struct store_shelf *)base;
	unsigned n = 0;
	*ret_keys = (struct shelf_keys){ 0 };
	s->keys = ret_keys;
	do {
		const char *after = ret_keys->n > 0 ? ret_keys->key[ret_keys->n - 1].key : NULL;
		s->done = false;
		s->store->ops->list(s->store, prefix, after, LIST_PAGE, on_list, s);
		turn(s);
		if (s->err == 0)
			n = 0;
	} while (s->more || try_again(s, ++n));
	if (s->err != 0)
		shelf_keys_done(ret_keys);
	return s->err;
}

static void store_free(struct shelf *base)
{
	struct store_shelf *s = (struct store_shelf *)base;
	if (s->store != NULL)
		s->store->ops->free(s->store);
	env_uv_free(s->env);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	uv_loop_close(&s->loop);
	free(s->url);
	free(s);
}

static const struct shelf_ops store_ops = { .get = store_get, .list = store_list, .free = store_free };

int shelf_open(const char *url, struct shelf **ret_shelf, char *fault, size_t fault_size)
{
	struct objstore_url u;
	int err = objstore_url_parse(url, &u, fault, fault_size);
	if (err < 0)
		return err;
	if (strcmp(u.scheme, "mem") == 0) {
		snprintf(fault, fault_size, "%s: its content is gone with the node that had it", url);
		return -EINVAL;
	}
	struct store_shelf *s = must_calloc(1, sizeof(*s));
	s->base.ops = &store_ops;
	must(uv_loop_init(&s->loop) == 0 && env_uv_new(&s->loop, &s->env) == 0);
	err = objstore_open(s->env, &u, NULL, &s->store, fault, fault_size);
	if (err < 0) {
		store_free(&s->base);
		return err;
	}
	s->url = must_strdup(s->store->url);
	s->base.url = s->url;
	*ret_shelf = &s->base;
	return 0;
}
