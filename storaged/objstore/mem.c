/* SPDX-License-Identifier: Apache-2.0
 *
 * The object store in memory: a sorted array of objects. An operation takes effect when it is called;
 * its callback runs at the end of the loop's turn.
 *
 * Invariant: after free() no callback runs; a task that is queued by then keeps the empty struct.
 */
#include "storaged/objstore/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"

#define MEM_STORE_MAGIC 0x65726f74736d656dull

struct mem_object {
	char *key;
	uint8_t *data;
	size_t n;
};

/* What stores of one name share. Loop only. */
struct mem_space {
	struct mem_space *next;
	char *name;
	unsigned n_stores;
	struct mem_object *object;      /* by key */
	size_t n, capacity;
};

enum mem_op_type { MEM_DONE, MEM_GET, MEM_LIST };

struct mem_op {
	struct mem_op *next;
	enum mem_op_type type;
	struct obj_result result;
	char *what;
	void *arg;
	obj_done_cb *on_done;
	obj_get_cb *on_get;
	obj_list_cb *on_list;
	uint8_t *data;                  /* a copy */
	size_t n_data;
	uint64_t size;
	char **keys;                    /* copies */
	size_t n_keys;
	bool more;
};

struct mem_store {
	struct objstore store;          /* first */
	uint64_t magic;
	struct env *env;
	struct mem_space *space;
	char *url;
	struct env_task task;
	struct mem_op *head, **tail;    /* callbacks to come */
	bool running, freed;
};

static struct mem_space *spaces;

static struct mem_store *mem_store_of(struct objstore *s)
{
	struct mem_store *ms = (struct mem_store *)s;
	must(ms->magic == MEM_STORE_MAGIC);
	return ms;
}

/* The space */

static struct mem_space *space_ref(const char *name)
{
	struct mem_space *sp = spaces;
	while (sp != NULL && strcmp(sp->name, name) != 0)
		sp = sp->next;
	if (sp == NULL) {
		sp = must_calloc(1, sizeof(*sp));
		sp->name = must_strdup(name);
		sp->next = spaces;
		spaces = sp;
	}
	sp->n_stores++;
	return sp;
}

static void space_unref(struct mem_space *sp)
{
	if (--sp->n_stores > 0)
		return;
	struct mem_space **at = &spaces;
	while (*at != sp)
		at = &(*at)->next;
	*at = sp->next;
	for (size_t i = 0; i < sp->n; i++) {
		free(sp->object[i].key);
		free(sp->object[i].data);
	}
	free(sp->object);
	free(sp->name);
	free(sp);
}

/* The first object whose key is not below `key`. */
static size_t space_bound(const struct mem_space *sp, const char *key)
{
	size_t low = 0, high = sp->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (strcmp(sp->object[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct mem_object *space_find(const struct mem_space *sp, const char *key)
{
	size_t i = space_bound(sp, key);
	return i < sp->n && strcmp(sp->object[i].key, key) == 0 ? &sp->object[i] : NULL;
}

static struct mem_object *space_insert(struct mem_space *sp, const char *key)
{
	size_t i = space_bound(sp, key);
	if (sp->n == sp->capacity) {
		sp->capacity = sp->capacity > 0 ? 2 * sp->capacity : 64;
		sp->object = must_realloc(sp->object, sp->capacity * sizeof(sp->object[0]));
	}
	memmove(&sp->object[i + 1], &sp->object[i], (sp->n - i) * sizeof(sp->object[0]));
	sp->n++;
	sp->object[i] = (struct mem_object){ .key = must_strdup(key) };
	return &sp->object[i];
}

static void space_remove(struct mem_space *sp, struct mem_object *o)
{
	free(o->key);
	free(o->data);
	size_t i = (size_t)(o - sp->object);
	memmove(o, o + 1, (sp->n - i - 1) * sizeof(*o));
	sp->n--;
}

/* Results */

static void mem_op_free(struct mem_op *op)
{
	for (size_t i = 0; i < op->n_keys; i++)
		free(op->keys[i]);
	free(op->keys);
	free(op->data);
	free(op->what);
	free(op);
}

static struct mem_op *mem_op_new(struct mem_store *ms, enum mem_op_type type, const char *key, void *arg)
{
	struct mem_op *op = must_calloc(1, sizeof(*op));
	op->type = type;
	op->arg = arg;
	op->what = must_strdup(key);
	op->result = (struct obj_result){ .outcome = OUTCOME_OK, .what = op->what };
	*ms->tail = op;
	ms->tail = &op->next;
	env_defer(ms->env, &ms->task);
	return op;
}

static void mem_op_fail(struct mem_op *op, int err)
{
	op->result.outcome = OUTCOME_NOT_APPLIED;
	op->result.err = err;
}

static void mem_op_run(struct mem_op *op)
{
	if (op->type == MEM_GET)
		op->on_get(op->arg, op->result, slice_of(op->data, op->n_data), op->size);
	else if (op->type == MEM_LIST)
		op->on_list(op->arg, op->result, op->keys, op->n_keys, op->more);
	else
		op->on_done(op->arg, op->result);
}

static struct mem_op *mem_op_take(struct mem_store *ms)
{
	struct mem_op *op = ms->head;
	if (op != NULL && (ms->head = op->next) == NULL)
		ms->tail = &ms->head;
	return op;
}

static void on_task(void *arg)
{
	struct mem_store *ms = arg;
	ms->running = true;
	/* What callbacks start runs in the next turn. */
	struct mem_op *op, *end = NULL;
	for (struct mem_op *o = ms->head; o != NULL; o = o->next)
		end = o;
	while (!ms->freed && end != NULL && (op = mem_op_take(ms)) != NULL) {
		end = op == end ? NULL : end;
		mem_op_run(op);
		mem_op_free(op);
	}
	ms->running = false;
	if (ms->freed && !ms->task.queued)
		free(ms);
}

/* The interface */

static void mem_store_put(struct objstore *s, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
			  obj_done_cb *cb, void *arg)
{
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_DONE, key, arg);
	op->on_done = cb;
	struct mem_object *o = space_find(ms->space, key);
	if (o != NULL && if_absent) {
		mem_op_fail(op, -EEXIST);
		return;
	}
	size_t n = 0;
	for (int i = 0; i < n_iov; i++)
		n += iov[i].iov_len;
	uint8_t *data = malloc(n > 0 ? n : 1), *to = data;
	if (data == NULL) {
		mem_op_fail(op, -ENOMEM);
		return;
	}
	for (int i = 0; i < n_iov; i++) {
		if (iov[i].iov_len > 0)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	if (o == NULL)
		o = space_insert(ms->space, key);
	free(o->data);
	o->data = data;
	o->n = n;
}

static void mem_store_get(struct objstore *s, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb,
			  void *arg)
{
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_GET, key, arg);
	op->on_get = cb;
	const struct mem_object *o = space_find(ms->space, key);
	if (o == NULL) {
		mem_op_fail(op, -ENOENT);
		return;
	}
	if (offset > o->n || (offset == o->n && offset > 0)) {
		mem_op_fail(op, -ERANGE);
		return;
	}
	size_t n = o->n - offset;
	if (length > 0 && length < n)
		n = length;
	op->data = must_memdup(o->data + offset, n);
	op->n_data = n;
	op->size = o->n;
}

static void mem_store_delete(struct objstore *s, const char *const *keys, size_t n, obj_done_cb *cb, void *arg)
{
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_DONE, n > 0 ? keys[0] : "", arg);
	op->on_done = cb;
	for (size_t i = 0; i < n; i++) {
		struct mem_object *o = space_find(ms->space, keys[i]);
		if (o != NULL)
			space_remove(ms->space, o);
	}
}

static void mem_store_list(struct objstore *s, const char *prefix, const char *start_after, size_t limit,
			   obj_list_cb *cb, void *arg)
{
	must(limit > 0);
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_LIST, prefix, arg);
	op->on_list = cb;
	const struct mem_space *sp = ms->space;
	bool after = start_after != NULL && strcmp(start_after, prefix) > 0;
	size_t i = space_bound(sp, after ? start_after : prefix);
	if (start_after != NULL && i < sp->n && strcmp(sp->object[i].key, start_after) == 0)
		i++;
	size_t n_prefix = strlen(prefix), end = i;
	while (end < sp->n && end - i <= limit && strncmp(sp->object[end].key, prefix, n_prefix) == 0)
		end++;
	op->more = end - i > limit;
	op->n_keys = op->more ? limit : end - i;
	op->keys = must_calloc(op->n_keys, sizeof(op->keys[0]));
	for (size_t k = 0; k < op->n_keys; k++)
		op->keys[k] = must_strdup(sp->object[i + k].key);
}

static void mem_store_free(struct objstore *s)
{
	struct mem_store *ms = mem_store_of(s);
	must(!ms->freed);
	for (struct mem_op *op; (op = mem_op_take(ms)) != NULL;)
		mem_op_free(op);
	space_unref(ms->space);
	free(ms->url);
	ms->freed = true;
	if (!ms->running && !ms->task.queued)
		free(ms);
}

static const struct objstore_ops mem_store_ops = {
	.put = mem_store_put,
	.get = mem_store_get,
	.del = mem_store_delete,
	.list = mem_store_list,
	.free = mem_store_free,
};

struct objstore *mem_store_open(struct env *env, const char *name)
{
	struct mem_store *ms = must_calloc(1, sizeof(*ms));
	ms->magic = MEM_STORE_MAGIC;
	ms->env = env;
	ms->space = space_ref(name);
	ms->url = must_calloc(1, strlen(name) + sizeof("mem://"));
	sprintf(ms->url, "mem://%s", name);
	ms->store = (struct objstore){ .ops = &mem_store_ops, .url = ms->url, .max_inflight_default = 2 };
	ms->task = (struct env_task){ .run = on_task, .arg = ms };
	ms->tail = &ms->head;
	return &ms->store;
}
