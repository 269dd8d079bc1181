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
	struct mem_upload *uploads;     /* by time */
	uint64_t n_uploads_ever;
};

/* Loop only. Its parts are one run of bytes that grows in order of calls. */
struct mem_upload {
	struct obj_upload upload;       /* first */
	struct mem_upload *next;
	struct mem_space *space;
	char *key;
	char id[24];
	uint8_t *data;
	size_t n;
	unsigned n_parts_out;
	bool owned;                     /* a caller has the handle */
	bool gone;                      /* somebody aborted it by its id */
};

enum mem_op_type { MEM_DONE, MEM_GET, MEM_LIST, MEM_UPLOADS };

struct mem_op {
	struct mem_op *next;
	enum mem_op_type type;
	struct obj_result result;
	char *what;
	void *arg;
	obj_done_cb *on_done;
	obj_get_cb *on_get;
	obj_list_cb *on_list;
	obj_uploads_cb *on_uploads;
	struct mem_upload *upload;      /* the part's */
	uint8_t *data;                  /* a copy */
	size_t n_data;
	uint64_t size;
	struct obj_entry *entries;      /* copies */
	struct obj_upload_entry *uploads;
	size_t n_entries;
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

static void mem_upload_remove(struct mem_upload *u)
{
	struct mem_upload **at = &u->space->uploads;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	free(u->key);
	free(u->data);
	free(u);
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
	while (sp->uploads != NULL)
		mem_upload_remove(sp->uploads);
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
	for (size_t i = 0; i < op->n_entries; i++) {
		free(op->entries != NULL ? op->entries[i].key : op->uploads[i].key);
		free(op->uploads != NULL ? op->uploads[i].id : NULL);
	}
	free(op->entries);
	free(op->uploads);
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
	if (op->upload != NULL)
		op->upload->n_parts_out--;
	if (op->type == MEM_GET)
		op->on_get(op->arg, op->result, slice_of(op->data, op->n_data), op->size);
	else if (op->type == MEM_LIST)
		op->on_list(op->arg, op->result, op->entries, op->n_entries, op->more);
	else if (op->type == MEM_UPLOADS)
		op->on_uploads(op->arg, op->result, op->uploads, op->n_entries, op->more);
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

/* Puts the bytes behind the *n of *data. */
static int bytes_append(uint8_t **data, size_t *n, const struct iovec *iov, int n_iov)
{
	size_t more = 0;
	for (int i = 0; i < n_iov; i++)
		more += iov[i].iov_len;
	uint8_t *grown = realloc(*data, *n + more > 0 ? *n + more : 1);
	if (grown == NULL)
		return -ENOMEM;
	*data = grown;
	for (int i = 0; i < n_iov; i++) {
		if (iov[i].iov_len > 0)
			memcpy(*data + *n, iov[i].iov_base, iov[i].iov_len);
		*n += iov[i].iov_len;
	}
	return 0;
}

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
	uint8_t *data = NULL;
	size_t n = 0;
	int r = bytes_append(&data, &n, iov, n_iov);
	if (r < 0) {
		mem_op_fail(op, r);
		return;
	}
	if (o == NULL)
		o = space_insert(ms->space, key);
	free(o->data);
	o->data = data;
	o->n = n;
}

static void mem_op_get(struct mem_op *op, const struct mem_object *o, uint64_t offset, uint64_t length)
{
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

static void mem_store_get(struct objstore *s, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb,
			  void *arg)
{
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_GET, key, arg);
	op->on_get = cb;
	const struct mem_object *o = space_find(ms->space, key);
	if (o == NULL)
		mem_op_fail(op, -ENOENT);
	else
		mem_op_get(op, o, offset, length);
}

static void mem_store_get_suffix(struct objstore *s, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	must(length > 0);
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_GET, key, arg);
	op->on_get = cb;
	const struct mem_object *o = space_find(ms->space, key);
	if (o == NULL)
		mem_op_fail(op, -ENOENT);
	else
		mem_op_get(op, o, length < o->n ? o->n - length : 0, 0);
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
	op->n_entries = op->more ? limit : end - i;
	op->entries = must_calloc(op->n_entries, sizeof(op->entries[0]));
	for (size_t k = 0; k < op->n_entries; k++)
		op->entries[k] = (struct obj_entry){ must_strdup(sp->object[i + k].key), sp->object[i + k].n };
}

/* Uploads */

static struct mem_upload *mem_upload_of(struct obj_upload *u)
{
	must(mem_store_of(u->store) != NULL);
	return (struct mem_upload *)u;
}

static struct obj_upload *mem_upload_new(struct objstore *s, const char *key)
{
	struct mem_space *sp = mem_store_of(s)->space;
	struct mem_upload *u = must_calloc(1, sizeof(*u)), **at = &sp->uploads;
	*u = (struct mem_upload){ .upload = { s }, .space = sp, .key = must_strdup(key), .owned = true };
	/* Ids are as long as each other: by id is by time. */
	snprintf(u->id, sizeof(u->id), "%016llx", (unsigned long long)++sp->n_uploads_ever);
	while (*at != NULL)
		at = &(*at)->next;
	*at = u;
	return &u->upload;
}

static struct mem_op *mem_op_new_done(struct obj_upload *handle, const char *key, obj_done_cb *cb, void *arg)
{
	struct mem_op *op = mem_op_new(mem_store_of(handle->store), MEM_DONE, key, arg);
	op->on_done = cb;
	return op;
}

static void mem_upload_part(struct obj_upload *handle, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg)
{
	struct mem_upload *u = mem_upload_of(handle);
	struct mem_op *op = mem_op_new_done(handle, u->key, cb, arg);
	op->upload = u;
	u->n_parts_out++;
	int r = u->gone ? -ENOENT : bytes_append(&u->data, &u->n, iov, n_iov);
	if (r < 0)
		mem_op_fail(op, r);
}

static void mem_upload_finish(struct obj_upload *handle, obj_done_cb *cb, void *arg)
{
	struct mem_upload *u = mem_upload_of(handle);
	must(u->n_parts_out == 0 && u->data != NULL);
	struct mem_op *op = mem_op_new_done(handle, u->key, cb, arg);
	if (u->gone || space_find(u->space, u->key) != NULL) {
		mem_op_fail(op, u->gone ? -ENOENT : -EEXIST);
		u->owned = false;
		if (u->gone)
			mem_upload_remove(u);
		return;
	}
	struct mem_object *o = space_insert(u->space, u->key);
	o->data = u->data;
	o->n = u->n;
	u->data = NULL;
	mem_upload_remove(u);
}

static void mem_upload_abort(struct obj_upload *handle, obj_done_cb *cb, void *arg)
{
	struct mem_upload *u = mem_upload_of(handle);
	must(u->n_parts_out == 0);
	mem_op_new_done(handle, u->key, cb, arg);
	mem_upload_remove(u);
}

/* The first of the prefix behind `after`, or NULL. */
static const struct mem_upload *mem_upload_next(const struct mem_space *sp, const char *prefix,
						const struct obj_upload_entry *after)
{
	const struct mem_upload *first = NULL;
	for (const struct mem_upload *u = sp->uploads; u != NULL; u = u->next) {
		int c = after != NULL ? strcmp(u->key, after->key) : 1;
		bool behind = c > 0 || (c == 0 && strcmp(u->id, after->id) > 0);
		if (u->data != NULL && !u->gone && strncmp(u->key, prefix, strlen(prefix)) == 0 && behind &&
		    (first == NULL || strcmp(u->key, first->key) < 0))
			first = u;
	}
	return first;
}

static void mem_store_list_uploads(struct objstore *s, const char *prefix, const struct obj_upload_entry *after,
				   size_t limit, obj_uploads_cb *cb, void *arg)
{
	must(limit > 0);
	struct mem_store *ms = mem_store_of(s);
	struct mem_op *op = mem_op_new(ms, MEM_UPLOADS, prefix, arg);
	const struct mem_upload *u;
	op->on_uploads = cb;
	uint64_t ever = ms->space->n_uploads_ever;
	op->uploads = must_calloc(limit < ever ? limit : ever, sizeof(op->uploads[0]));
	while (!op->more && (u = mem_upload_next(ms->space, prefix, after)) != NULL) {
		op->more = op->n_entries == limit;
		if (op->more)
			continue;
		after = &op->uploads[op->n_entries++];
		op->uploads[op->n_entries - 1] = (struct obj_upload_entry){ must_strdup(u->key), must_strdup(u->id) };
	}
}

static void mem_store_abort_upload(struct objstore *s, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg)
{
	struct mem_store *ms = mem_store_of(s);
	mem_op_new(ms, MEM_DONE, e->key, arg)->on_done = cb;
	struct mem_upload *u = ms->space->uploads;
	while (u != NULL && (strcmp(u->key, e->key) != 0 || strcmp(u->id, e->id) != 0))
		u = u->next;
	if (u != NULL && u->owned)
		u->gone = true;
	else if (u != NULL)
		mem_upload_remove(u);
}

static void mem_store_free(struct objstore *s)
{
	struct mem_store *ms = mem_store_of(s);
	must(!ms->freed);
	for (struct mem_op *op; (op = mem_op_take(ms)) != NULL;)
		mem_op_free(op);
	for (struct mem_upload *u = ms->space->uploads; u != NULL; u = u->next)
		u->owned = u->owned && u->upload.store != s;
	space_unref(ms->space);
	free(ms->url);
	ms->freed = true;
	if (!ms->running && !ms->task.queued)
		free(ms);
}

static const struct objstore_ops mem_store_ops = {
	.put = mem_store_put,
	.get = mem_store_get,
	.get_suffix = mem_store_get_suffix,
	.del = mem_store_delete,
	.list = mem_store_list,
	.upload_new = mem_upload_new,
	.upload_part = mem_upload_part,
	.upload_finish = mem_upload_finish,
	.upload_abort = mem_upload_abort,
	.list_uploads = mem_store_list_uploads,
	.abort_upload = mem_store_abort_upload,
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
