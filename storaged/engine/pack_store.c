/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts are gathered into memory of their own, so that a store gets one piece however small the frames are: at most
 * PACK_PARTS_OUT parts, or one whole object, at a time. After a fault everything out is awaited, the upload is
 * aborted, and after a back-off it begins anew.
 */
#include "storaged/engine/pack_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "common/must.h"
#include "storaged/bounds.h"
#include "storaged/engine/backoff.h"

#define PIECES 64

struct part {
	struct pack_store *store;
	uint8_t *bytes;                 /* owned while it is out */
	size_t n;
};

struct pack_store {
	struct env *env;
	struct objstore *store;
	const struct data_builder *builder;
	bool (*may_look)(void *arg);
	void (*on_stored)(void *arg);
	void *arg;
	char key[DATA_KEY_MAX];
	struct obj_upload *upload;      /* NULL: a single put */
	struct part parts[PACK_PARTS_OUT];
	unsigned n_out;                 /* parts, put, finish or abort */
	uint64_t position;              /* of the next part */
	bool failed;
	uint32_t backoff_ms;
	struct env_timer timer;
	char fault[300];
};

static void store_go(struct pack_store *s);

static void on_again(void *arg)
{
	struct pack_store *s = arg;
	s->failed = false;
	s->position = 0;
	store_go(s);
}

static void store_wait(struct pack_store *s)
{
	s->timer = (struct env_timer){ .on_fire = on_again, .arg = s };
	env_timer_start(s->env, &s->timer, backoff_next(s->env, &backoff_write, &s->backoff_ms));
}

static void on_aborted(void *arg, struct obj_result result)
{
	struct pack_store *s = arg;
	s->n_out--;
	if (s->may_look(s->arg))
		store_wait(s); /* an upload that is left behind is swept */
}

static void store_failed(struct pack_store *s, struct obj_result result)
{
	s->failed = true;
	snprintf(s->fault, sizeof(s->fault), "%s: %s", result.what != NULL ? result.what : s->key, strerror(-result.err));
}

/* Everything that was out has come back, and something was wrong. */
static void store_begin_anew(struct pack_store *s)
{
	struct obj_upload *upload = s->upload;
	s->upload = NULL;
	if (upload == NULL) {
		store_wait(s);
		return;
	}
	s->n_out++;
	obj_upload_abort(upload, on_aborted, s);
}

static void store_done(struct pack_store *s)
{
	s->fault[0] = '\0';
	s->on_stored(s->arg);
}

static void on_whole(void *arg, struct obj_result result)
{
	struct pack_store *s = arg;
	s->n_out--;
	free(s->parts[0].bytes);
	s->parts[0].bytes = NULL;
	if (!s->may_look(s->arg))
		return;
	if (result.outcome == OUTCOME_OK || (result.outcome == OUTCOME_NOT_APPLIED && result.err == -EEXIST)) {
		store_done(s); /* taken: by a put of ours whose answer was lost */
		return;
	}
	store_failed(s, result);
	store_begin_anew(s);
}

static void on_part(void *arg, struct obj_result result)
{
	struct part *p = arg;
	struct pack_store *s = p->store;
	free(p->bytes);
	p->bytes = NULL;
	s->n_out--;
	if (!s->may_look(s->arg))
		return;
	if (result.outcome != OUTCOME_OK)
		store_failed(s, result);
	if (!s->failed)
		store_go(s);
	else if (s->n_out == 0)
		store_begin_anew(s);
}

/* The next n bytes of the object, in one piece. */
static void part_gather(struct pack_store *s, struct part *p, uint64_t n)
{
	struct iovec iov[PIECES];
	p->store = s;
	p->bytes = must_calloc(1, n);
	p->n = n;
	for (uint64_t done = 0; done < n;) {
		uint64_t length;
		int k = data_builder_iovec(s->builder, s->position, n - done, iov, PIECES, &length);
		must(k > 0 && length > 0 && length <= n - done);
		for (int i = 0; i < k; i++) {
			memcpy(p->bytes + done, iov[i].iov_base, iov[i].iov_len);
			done += iov[i].iov_len;
		}
		s->position += length;
	}
	metric_add(METRIC_PACK_PUT_BYTES, (int64_t)n);
}

static void store_put(struct pack_store *s, uint64_t size)
{
	part_gather(s, &s->parts[0], size);
	s->n_out++;
	struct iovec iov = { .iov_base = s->parts[0].bytes, .iov_len = s->parts[0].n };
	objstore_put(s->store, s->key, &iov, 1, false, on_whole, s);
}

static struct part *part_free(struct pack_store *s)
{
	for (unsigned i = 0; i < PACK_PARTS_OUT; i++)
		if (s->parts[i].bytes == NULL)
			return &s->parts[i];
	return NULL;
}

static void store_parts(struct pack_store *s, uint64_t size)
{
	struct part *p;
	if (s->upload == NULL)
		s->upload = objstore_upload_new(s->store, s->key);
	while (s->position < size && (p = part_free(s)) != NULL) {
		part_gather(s, p, size - s->position < bounds.put_part ? size - s->position : bounds.put_part);
		s->n_out++;
		struct iovec iov = { .iov_base = p->bytes, .iov_len = p->n };
		obj_upload_part(s->upload, &iov, 1, on_part, p);
	}
	if (s->position == size && s->n_out == 0) {
		struct obj_upload *upload = s->upload;
		s->upload = NULL; /* the store's from here on */
		s->n_out++;
		obj_upload_finish(upload, on_whole, s);
	}
}

static void store_go(struct pack_store *s)
{
	uint64_t size = data_builder_size(s->builder);
	if (size <= bounds.put_max)
		store_put(s, size);
	else
		store_parts(s, size);
}

struct pack_store *pack_store_begin(struct env *env, struct objstore *store, struct object_id id,
				    const struct data_builder *builder, bool (*may_look)(void *arg),
				    void (*on_stored)(void *arg), void *arg)
{
	struct pack_store *s = must_calloc(1, sizeof(*s));
	s->env = env;
	s->store = store;
	s->builder = builder;
	s->may_look = may_look;
	s->on_stored = on_stored;
	s->arg = arg;
	data_key(s->key, id);
	store_go(s);
	return s;
}

void pack_store_free(struct pack_store *s)
{
	if (s == NULL)
		return;
	env_timer_stop(s->env, &s->timer);
	for (unsigned i = 0; i < PACK_PARTS_OUT; i++)
		free(s->parts[i].bytes);
	free(s);
}

const char *pack_store_fault(const struct pack_store *s)
{
	return s != NULL && s->fault[0] != '\0' ? s->fault : NULL;
}
