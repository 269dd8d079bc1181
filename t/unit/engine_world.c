/* SPDX-License-Identifier: Apache-2.0
 *
 * See engine_world.h. A put's bytes are compared at its end with those at its begin: whoever promised to
 * leave them alone must have.
 */
#include "t/unit/engine_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"

static struct world *world_of(struct env *e)
{
	return (struct world *)e;
}

static uint64_t w_now_ms(struct env *e)
{
	return world_of(e)->now_ms;
}

static uint64_t w_now_ns(struct env *e)
{
	return world_of(e)->now_ms * 1000000;
}

static int64_t w_wall_ms(struct env *e)
{
	return (int64_t)world_of(e)->now_ms + world_of(e)->wall_offset_ms;
}

static void w_random(struct env *e, void *p, size_t n)
{
	struct world *w = world_of(e);
	for (size_t i = 0; i < n; i++) {
		w->random = w->random * 6364136223846793005ull + 1442695040888963407ull;
		((uint8_t *)p)[i] = (uint8_t)(w->random >> 56);
	}
}

static void w_timer_stop(struct env *e, struct env_timer *t)
{
	struct world *w = world_of(e);
	for (size_t i = 0; i < w->n_timers; i++) {
		if (w->timers[i] == t) {
			w->timers[i] = w->timers[--w->n_timers];
			break;
		}
	}
	t->at_ms = 0;
}

static void w_timer_start(struct env *e, struct env_timer *t, uint64_t at_ms)
{
	struct world *w = world_of(e);
	w_timer_stop(e, t);
	must(w->n_timers < WORLD_OPS && t->on_fire != NULL);
	t->at_ms = at_ms;
	t->order = w->order++;
	w->timers[w->n_timers++] = t;
}

static void w_defer(struct env *e, struct env_task *t)
{
	struct world *w = world_of(e);
	if (t->queued)
		return;
	t->queued = true;
	t->next = NULL;
	*w->tasks_tail = t;
	w->tasks_tail = &t->next;
}

static int w_segment_new(struct env *e, enum env_segment_kind kind, size_t size, struct env_segment *ret)
{
	world_of(e)->n_segments++;
	world_of(e)->n_segments_made++;
	*ret = (struct env_segment){ .base = must_calloc(1, size), .size = size, .fd = -1 };
	return 0;
}

static void w_segment_free(struct env *e, struct env_segment *s)
{
	world_of(e)->n_segments--;
	free(s->base);
	s->base = NULL;
}

static void w_die(struct env *e, const char *why)
{
	must(false);
}

static const struct env_ops world_env_ops = {
	.now_ms = w_now_ms, .now_ns = w_now_ns, .wall_ms = w_wall_ms, .random = w_random,
	.timer_start = w_timer_start, .timer_stop = w_timer_stop, .defer = w_defer, .post = w_defer,
	.segment_new = w_segment_new, .segment_free = w_segment_free, .die = w_die,
};

/* -------------------------------------------------------------------- store */

static struct world *world_of_store(struct objstore *s)
{
	return (struct world *)((char *)s - offsetof(struct world, store));
}

struct world_object *world_find(struct world *w, const char *key)
{
	for (size_t i = 0; i < w->n_objects; i++)
		if (strcmp(w->objects[i].key, key) == 0)
			return &w->objects[i];
	return NULL;
}

void world_remove(struct world *w, const char *key)
{
	struct world_object *o = world_find(w, key);
	if (o == NULL)
		return;
	free(o->data);
	*o = w->objects[--w->n_objects];
}

void world_store(struct world *w, const char *key, const void *data, size_t n)
{
	world_remove(w, key);
	must(w->n_objects < WORLD_OPS && strlen(key) < sizeof(w->objects[0].key));
	struct world_object *o = &w->objects[w->n_objects++];
	strcpy(o->key, key);
	o->data = must_calloc(1, n + 1);
	memcpy(o->data, data, n);
	o->n = n;
}

static struct world_op *op_new(struct objstore *s, const char *key, void *arg)
{
	struct world *w = world_of_store(s);
	struct world_op *op = must_calloc(1, sizeof(*op));
	must(w->n_ops < WORLD_OPS && strlen(key) < sizeof(op->key));
	strcpy(op->key, key);
	op->arg = arg;
	w->ops[w->n_ops++] = op;
	return op;
}

static void w_put(struct objstore *s, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
		  obj_done_cb *cb, void *arg)
{
	struct world_op *op = op_new(s, key, arg);
	must(n_iov <= 64);
	op->is_put = true;
	op->if_absent = if_absent;
	op->on_done = cb;
	op->n_iov = n_iov;
	for (int i = 0; i < n_iov; i++) {
		op->iov[i] = iov[i];
		op->copy = must_realloc(op->copy, op->n + iov[i].iov_len);
		memcpy(op->copy + op->n, iov[i].iov_base, iov[i].iov_len);
		op->n += iov[i].iov_len;
	}
	world_of_store(s)->n_puts++;
}

static void w_get(struct objstore *s, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb, void *arg)
{
	struct world_op *op = op_new(s, key, arg);
	op->on_get = cb;
	op->offset = offset;
	op->length = length;
	world_of_store(s)->n_gets++;
}

static void w_get_suffix(struct objstore *s, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	w_get(s, key, 0, length, cb, arg);
	struct world *w = world_of_store(s);
	w->ops[w->n_ops - 1]->is_suffix = true;
}

/* Done at once, answered later. */
static void w_del(struct objstore *s, const char *const *keys, size_t n, obj_done_cb *cb, void *arg)
{
	struct world_op *op = op_new(s, n > 0 ? keys[0] : "", arg);
	op->on_done = cb;
	for (size_t i = 0; i < n; i++)
		world_remove(world_of_store(s), keys[i]);
}

/* All in one page, of what begins with prefix. */
static void w_list(struct objstore *s, const char *prefix, const char *start_after, size_t limit, obj_list_cb *cb, void *arg)
{
	must(start_after == NULL && limit == 1000);
	op_new(s, prefix, arg)->on_list = cb;
}

static void w_list_uploads(struct objstore *s, const char *prefix, const struct obj_upload_entry *after, size_t limit,
			   obj_uploads_cb *cb, void *arg)
{
	op_new(s, prefix, arg)->on_uploads = cb;
}

static void w_abort_upload(struct objstore *s, const struct obj_upload_entry *x, obj_done_cb *cb, void *arg)
{
	must(strcmp(x->key, world_of_store(s)->upload) == 0 && strcmp(x->id, "id") == 0);
	world_of_store(s)->upload[0] = '\0';
	op_new(s, x->key, arg)->on_done = cb;
}

static const struct objstore_ops world_store_ops = {
	.put = w_put, .get = w_get, .get_suffix = w_get_suffix, .del = w_del, .list = w_list,
	.list_uploads = w_list_uploads, .abort_upload = w_abort_upload,
};

static void op_take(struct world *w, struct world_op *op)
{
	size_t i = 0;
	while (w->ops[i] != op)
		i++;
	memmove(&w->ops[i], &w->ops[i + 1], (--w->n_ops - i) * sizeof(op));
}

static void op_free(struct world_op *op)
{
	free(op->copy);
	free(op);
}

static void end_get(struct world *w, struct world_op *op, enum world_end how)
{
	struct obj_result r = { .outcome = OUTCOME_OK, .what = op->key };
	struct world_object *o = world_find(w, op->key);
	if (how == END_ERROR || how == END_LOST)
		r = (struct obj_result){ how == END_ERROR ? OUTCOME_NOT_APPLIED : OUTCOME_UNKNOWN, w->error, op->key };
	else if (o == NULL)
		r = (struct obj_result){ OUTCOME_NOT_APPLIED, -ENOENT, op->key };
	if (r.outcome != OUTCOME_OK || o == NULL) {
		op->on_get(op->arg, r, slice_of(NULL, 0), 0);
		return;
	}
	must(op->offset <= o->n);
	if (op->is_suffix && op->length < o->n)
		op->offset = o->n - op->length;
	size_t left = o->n - op->offset, n = op->length == 0 || op->length > left ? left : op->length;
	op->on_get(op->arg, r, slice_of(o->data + op->offset, n), o->n);
}

static void end_put(struct world *w, struct world_op *op, enum world_end how)
{
	size_t at = 0;
	for (int i = 0; i < op->n_iov; i++) {
		must(memcmp(op->copy + at, op->iov[i].iov_base, op->iov[i].iov_len) == 0);
		at += op->iov[i].iov_len;
	}
	struct obj_result r = { .outcome = OUTCOME_OK, .what = op->key };
	bool taken = op->if_absent && world_find(w, op->key) != NULL;
	if (how == END_LOST || how == END_ANSWER_LOST)
		r = (struct obj_result){ OUTCOME_UNKNOWN, -ETIMEDOUT, op->key };
	else if (how == END_ERROR)
		r = (struct obj_result){ OUTCOME_NOT_APPLIED, w->error, op->key };
	else if (how == END_OK && taken)
		r = (struct obj_result){ OUTCOME_NOT_APPLIED, -EEXIST, op->key };
	bool effect = how == END_BLIND || (!taken && (how == END_OK || how == END_ANSWER_LOST));
	if (effect)
		world_store(w, op->key, op->copy, op->n);
	op->on_done(op->arg, r);
}

static void end_list(struct world *w, struct world_op *op)
{
	struct obj_entry entries[WORLD_OPS];
	size_t n = 0;
	for (size_t i = 0; i < w->n_objects; i++)
		if (strncmp(w->objects[i].key, op->key, strlen(op->key)) == 0)
			entries[n++] = (struct obj_entry){ .key = w->objects[i].key, .size = w->objects[i].n };
	op->on_list(op->arg, (struct obj_result){ .outcome = OUTCOME_OK }, entries, n, false);
}

static void end_uploads(struct world *w, struct world_op *op)
{
	struct obj_upload_entry x = { .key = w->upload, .id = "id" };
	op->on_uploads(op->arg, (struct obj_result){ .outcome = OUTCOME_OK }, &x, w->upload[0] != '\0', false);
}

void world_end_op(struct world *w, struct world_op *op, enum world_end how)
{
	op_take(w, op);
	if (op->on_list != NULL)
		end_list(w, op);
	else if (op->on_uploads != NULL)
		end_uploads(w, op);
	else if (op->is_put)
		end_put(w, op, how);
	else if (op->on_get != NULL)
		end_get(w, op, how);
	else
		op->on_done(op->arg, (struct obj_result){ .outcome = OUTCOME_OK });
	op_free(op);
}

struct world_op *world_put_at(struct world *w, size_t n)
{
	for (size_t i = 0; i < w->n_ops; i++)
		if (w->ops[i]->is_put && n-- == 0)
			return w->ops[i];
	return NULL;
}

size_t world_puts(struct world *w)
{
	size_t n = 0;
	while (world_put_at(w, n) != NULL)
		n++;
	return n;
}

/* --------------------------------------------------------------------- time */

static bool run_task(struct world *w)
{
	struct env_task *t = w->tasks;
	if (t == NULL)
		return false;
	w->tasks = t->next;
	if (w->tasks == NULL)
		w->tasks_tail = &w->tasks;
	t->queued = false;
	t->run(t->arg);
	return true;
}

static bool run_op(struct world *w)
{
	for (size_t i = 0; i < w->n_ops; i++) {
		const struct world_op *op = w->ops[i];
		if (op->is_put ? !w->hold_puts : op->on_get == NULL || !w->hold_gets) {
			world_end_op(w, w->ops[i], END_OK);
			return true;
		}
	}
	return false;
}

static bool run_timer(struct world *w)
{
	struct env_timer *first = NULL;
	for (size_t i = 0; i < w->n_timers; i++) {
		struct env_timer *t = w->timers[i];
		if (first == NULL || t->at_ms < first->at_ms || (t->at_ms == first->at_ms && t->order < first->order))
			first = t;
	}
	if (first == NULL || first->at_ms > w->now_ms)
		return false;
	w_timer_stop(&w->env, first);
	first->on_fire(first->arg);
	return true;
}

void world_run(struct world *w)
{
	while (run_task(w) || run_op(w) || run_timer(w))
		;
}

void world_advance(struct world *w, uint64_t ms)
{
	uint64_t to = w->now_ms + ms;
	world_run(w);
	for (;;) {
		uint64_t next = to;
		for (size_t i = 0; i < w->n_timers; i++)
			if (w->timers[i]->at_ms < next)
				next = w->timers[i]->at_ms;
		if (next > w->now_ms)
			w->now_ms = next;
		world_run(w);
		if (next == to)
			return;
	}
}

/* --------------------------------------------------------------------- life */

void world_init(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->env.ops = &world_env_ops;
	w->store = (struct objstore){ .ops = &world_store_ops, .url = "world", .max_inflight_default = 2 };
	w->now_ms = 1000000;
	w->wall_offset_ms = 1700000000000;
	w->tasks_tail = &w->tasks;
	w->random = 1;
}

void world_crash(struct world *w)
{
	while (w->n_ops > 0)
		op_free(w->ops[--w->n_ops]);
	w->n_timers = 0;
	w->tasks = NULL;
	w->tasks_tail = &w->tasks;
}

void world_done(struct world *w)
{
	world_crash(w);
	while (w->n_objects > 0)
		free(w->objects[--w->n_objects].data);
}
