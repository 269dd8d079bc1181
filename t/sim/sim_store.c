/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated object store: if_absent is decided at the moment of the effect; what a put carries is
 * copied when it is sent, and compared at its effect while its sender lives, because the bytes must not change under
 * a put. Operations live until effect and answer have both happened.
 */
#include "t/sim/sim_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"

enum op_kind { OP_PUT, OP_GET, OP_DEL, OP_LIST, OP_PART, OP_FINISH, OP_ABORT, OP_LIST_UPLOADS };

struct sim_store {
	struct objstore base;           /* first */
	struct sim_bucket *bucket;
	struct sim_proc *proc;
	struct store_op *ops;           /* of this handle, newest first */
	uint64_t n_sent;
	uint64_t put_answered;          /* highest number of an answered put */
	struct sim_upload *uploads;     /* handles that are out */
};

/* A handle. What it has sent stands in the bucket under its id. */
struct sim_upload {
	struct obj_upload base;         /* first */
	struct sim_upload *next;
	char *key;
	uint64_t id;
	unsigned n_parts, n_parts_out;
};

struct store_op {
	struct sim_store *store;        /* NULL once the handle is freed */
	struct store_op *prev, *next;
	struct sim_bucket *bucket;
	struct sim_proc *proc;
	enum op_kind kind;
	uint64_t number;
	unsigned refs;                  /* events that will still look at it */
	bool sender_died_first;         /* a coin thrown when it is sent: does its death take the put along? */
	bool late;                      /* the answer does not wait for the effect */
	bool answer_lost;
	bool hangs;                     /* its answer takes long */
	bool if_absent;
	char *key, *start_after;
	size_t limit;
	uint64_t offset, length;
	bool suffix;
	uint64_t upload_id;             /* of parts and ends; of a list of uploads: begin behind it */
	unsigned part;
	struct sim_upload *upload;      /* a part's, while the handle lives */
	struct iovec *iov;
	int n_iov;
	uint8_t *data;
	size_t size;                    /* of data */
	uint64_t object_size;
	char **keys;                    /* to delete */
	size_t n_keys;
	struct obj_entry *entries;      /* found */
	struct obj_upload_entry *uploads;
	size_t n_entries;
	bool more;
	enum outcome outcome;
	int err;
	union {
		obj_done_cb *done;
		obj_get_cb *get;
		obj_list_cb *list;
		obj_uploads_cb *uploads;
	} cb;
	void *arg;
};

/* ------------------------------------------------------------------- bucket */

void sim_bucket_init(struct sim_bucket *b, struct sim *s)
{
	*b = (struct sim_bucket){ .sim = s, .get_ns_max = 1 };
}

static void object_free(struct sim_object *o)
{
	free(o->key);
	free(o->data);
	free(o->forged);
	free(o);
}

static void bucket_drop_upload(struct sim_bucket *b, uint64_t id)
{
	for (struct sim_part **at = &b->parts; *at != NULL;) {
		struct sim_part *p = *at;
		if (p->upload_id != id) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p->key);
		free(p->data);
		free(p);
	}
}

void sim_bucket_done(struct sim_bucket *b)
{
	struct sim_object *o, *next;
	HASH_ITER (hh, b->objects, o, next) {
		HASH_DEL(b->objects, o);
		object_free(o);
	}
	while (b->parts != NULL)
		bucket_drop_upload(b, b->parts->upload_id);
	while (b->n_exports > 0) {
		free(b->exports[--b->n_exports].key);
		free(b->exports[b->n_exports].data);
	}
	free(b->exports);
	while (b->n_deleted > 0)
		free(b->deleted[--b->n_deleted]);
	free(b->deleted);
}

const struct sim_object *sim_bucket_find(const struct sim_bucket *b, const char *key)
{
	struct sim_object *o;
	HASH_FIND_STR(b->objects, key, o);
	return o;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **sim_bucket_keys(const struct sim_bucket *b, const char *prefix, size_t *ret_n)
{
	char **keys = must_calloc(HASH_COUNT(b->objects), sizeof(char *));
	size_t n = 0;
	for (struct sim_object *o = b->objects; o != NULL; o = o->hh.next)
		if (strncmp(o->key, prefix, strlen(prefix)) == 0)
			keys[n++] = o->key;
	if (n > 0)
		qsort(keys, n, sizeof(char *), by_name);
	*ret_n = n;
	return keys;
}

void sim_bucket_weather(struct sim_bucket *b, enum sim_weather w)
{
	static const enum sim_fault counted[] = {
		[SIM_BURST] = SIM_STORE_BURST, [SIM_FULL] = SIM_STORE_FULL, [SIM_EIO] = SIM_STORE_EIO,
		[SIM_AWAY] = SIM_STORE_AWAY, [SIM_SLOW] = SIM_STORE_SLOW,
	};
	b->weather = w;
	if (w != SIM_FAIR)
		b->sim->faults[counted[w]]++;
	sim_trace(b->sim, "weather", w, 0);
}

uint64_t sim_bucket_rot(struct sim_bucket *b, const char *key, enum sim_rot rot)
{
	static const enum sim_fault counted[] = {
		[SIM_FLIPPED] = SIM_ROT_FLIPPED, [SIM_CUT_OFF] = SIM_ROT_CUT_OFF, [SIM_GONE] = SIM_ROT_GONE,
		[SIM_FORGED] = SIM_ROT_FORGED,
	};
	struct sim_object *o;
	HASH_FIND_STR(b->objects, key, o);
	if (o == NULL || o->rot != SIM_WHOLE || o->size == 0)
		return 0;
	o->rot = rot;
	o->rot_at = sim_below(b->sim, o->size);
	o->rot_number = ++b->n_rots;
	b->sim->faults[counted[rot]]++;
	sim_trace(b->sim, "rot", rot, o->rot_at);
	return o->rot_number;
}

uint64_t sim_bucket_forge(struct sim_bucket *b, const char *key, uint8_t *bytes)
{
	uint64_t number = sim_bucket_rot(b, key, SIM_FORGED);
	struct sim_object *o;
	HASH_FIND_STR(b->objects, key, o);
	if (number == 0) {
		free(bytes);
		return 0;
	}
	free(o->forged);
	o->forged = bytes;
	return number;
}

void sim_bucket_heal(struct sim_bucket *b, const char *key, uint64_t number)
{
	struct sim_object *o;
	HASH_FIND_STR(b->objects, key, o);
	if (o != NULL && o->rot_number == number)
		o->rot = SIM_WHOLE;
}

void sim_bucket_heal_all(struct sim_bucket *b)
{
	for (struct sim_object *o = b->objects; o != NULL; o = o->hh.next)
		o->rot = SIM_WHOLE;
}

static void bucket_put(struct sim_bucket *b, const char *key, const uint8_t *data, size_t size)
{
	struct sim_object *o;
	HASH_FIND_STR(b->objects, key, o);
	if (o == NULL) {
		o = must_calloc(1, sizeof(*o));
		o->key = must_strdup(key);
		HASH_ADD_KEYPTR(hh, b->objects, o->key, strlen(o->key), o);
	}
	free(o->data);
	o->data = must_memdup(data, size);
	o->size = size;
	o->rot = SIM_WHOLE;
	b->n_puts++;
}

void sim_bucket_add(struct sim_bucket *b, const char *key, struct slice bytes)
{
	bucket_put(b, key, bytes.p, bytes.n);
}

static void export_keep(struct sim_bucket *b, const char *key, const uint8_t *data, size_t size)
{
	if ((b->n_exports & (b->n_exports - 1)) == 0)
		b->exports = must_realloc(b->exports, (b->n_exports == 0 ? 1 : b->n_exports * 2) * sizeof(*b->exports));
	b->exports[b->n_exports++] = (struct sim_object){
		.key = must_strdup(key), .data = must_memdup(data, size), .size = size,
	};
}

static void bucket_del(struct sim_bucket *b, const char *key)
{
	struct sim_object *o;
	HASH_FIND_STR(b->objects, key, o);
	if (o == NULL)
		return;
	if ((b->n_deleted & (b->n_deleted - 1)) == 0)
		b->deleted = must_realloc(b->deleted, (b->n_deleted == 0 ? 1 : b->n_deleted * 2) * sizeof(*b->deleted));
	b->deleted[b->n_deleted++] = must_strdup(key);
	HASH_DEL(b->objects, o);
	object_free(o);
}

/* --------------------------------------------------------------- operations */

static void op_unlink(struct store_op *op)
{
	if (op->store == NULL)
		return;
	if (op->prev != NULL)
		op->prev->next = op->next;
	else
		op->store->ops = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	op->store = NULL;
}

static void op_unref(void *arg)
{
	struct store_op *op = arg;
	if (--op->refs > 0)
		return;
	op_unlink(op);
	for (size_t i = 0; i < op->n_keys; i++)
		free(op->keys[i]);
	for (size_t i = 0; i < op->n_entries; i++) {
		free(op->entries != NULL ? op->entries[i].key : op->uploads[i].key);
		free(op->uploads != NULL ? op->uploads[i].id : NULL);
	}
	free(op->entries);
	free(op->uploads);
	free(op->keys);
	free(op->key);
	free(op->start_after);
	free(op->iov);
	free(op->data);
	free(op);
}

static void run_callback(struct store_op *op)
{
	struct obj_result r = { .outcome = op->outcome, .err = op->err, .what = op->key };
	bool ok = op->outcome == OUTCOME_OK;
	switch (op->kind) {
	case OP_PART:
		op->upload->n_parts_out--;
		op->cb.done(op->arg, r);
		return;
	case OP_PUT:
	case OP_DEL:
	case OP_FINISH:
	case OP_ABORT:
		op->cb.done(op->arg, r);
		return;
	case OP_GET:
		op->cb.get(op->arg, r, ok ? slice_of(op->data, op->size) : slice_of(NULL, 0),
			   ok ? op->object_size : 0);
		return;
	case OP_LIST:
		op->cb.list(op->arg, r, op->entries, ok ? op->n_entries : 0, op->more);
		return;
	case OP_LIST_UPLOADS:
		op->cb.uploads(op->arg, r, op->uploads, ok ? op->n_entries : 0, op->more);
		return;
	}
}

static void op_answer(void *arg)
{
	struct store_op *op = arg;
	struct sim_store *store = op->store;
	if (store != NULL && sim_io_step(op->proc)) {
		if (op->kind == OP_PUT && op->number < store->put_answered)
			op->proc->sim->faults[SIM_PUT_REORDERED]++;
		if (op->kind == OP_PUT && op->number > store->put_answered)
			store->put_answered = op->number;
		sim_trace(op->proc->sim, "store answer", op->number, (uint64_t)op->outcome << 32 | (uint32_t)-op->err);
		op_unlink(op);
		run_callback(op);
	}
	op_unref(op);
}

static uint64_t latency(struct sim *s)
{
	if (sim_chance(s, 970))
		return sim_between(s, SIM_MS / 10, 4 * SIM_MS);
	return sim_chance(s, 900) ? sim_below(s, 300 * SIM_MS) : sim_below(s, 5 * SIM_S);
}

static void answer_after(struct store_op *op, uint64_t delay)
{
	op->refs++;
	sim_after(op->bucket->sim, delay, op->proc, "store", op_answer, op_unref, op);
}

static void must_be_unchanged(const struct store_op *op)
{
	size_t at = 0;
	for (int i = 0; i < op->n_iov; at += op->iov[i++].iov_len)
		must(memcmp(op->data + at, op->iov[i].iov_base, op->iov[i].iov_len) == 0);
}

static void put_effect(struct store_op *op)
{
	struct sim *s = op->bucket->sim;
	if (op->proc->state == SIM_DEAD) {
		if (op->sender_died_first) {
			s->faults[SIM_PUT_DIES_WITH]++;
			return;
		}
		s->faults[SIM_PUT_AFTER_DEATH]++;
	} else if (op->store != NULL) {
		must_be_unchanged(op);
	}
	if (op->if_absent && sim_bucket_find(op->bucket, op->key) != NULL) {
		s->faults[SIM_PUT_TAKEN]++;
		op->outcome = OUTCOME_NOT_APPLIED;
		op->err = -EEXIST;
		return;
	}
	bucket_put(op->bucket, op->key, op->data, op->size);
	if (strncmp(op->key, "meta/", 5) == 0)
		export_keep(op->bucket, op->key, op->data, op->size);
	sim_trace(s, "put effect", op->number, op->size);
}

/* What a get hands back: a copy, now and then not the whole truth. */
static void get_effect(struct store_op *op)
{
	struct sim *s = op->bucket->sim;
	const struct sim_object *o = sim_bucket_find(op->bucket, op->key);
	if (o != NULL && o->rot == SIM_GONE)
		o = NULL;
	size_t size = o == NULL ? 0 : o->rot == SIM_CUT_OFF ? o->rot_at : o->size;
	if (o != NULL && op->suffix) {
		op->offset = op->length < size ? size - op->length : 0;
		op->length = 0;
	}
	if (o == NULL || op->offset >= size) {
		op->outcome = OUTCOME_NOT_APPLIED;
		op->err = o == NULL ? -ENOENT : -ERANGE;
		return;
	}
	size_t n = size - op->offset;
	if (op->length > 0 && op->length < n)
		n = op->length;
	op->data = must_memdup((o->rot == SIM_FORGED ? o->forged : o->data) + op->offset, n);
	op->size = n;
	op->object_size = size;
	if (o->rot == SIM_FLIPPED && o->rot_at >= op->offset && o->rot_at - op->offset < n)
		op->data[o->rot_at - op->offset] ^= 0x10;
	if (n == 0 || op->bucket->no_corruption)
		return;
	if (sim_inject(s, SIM_GET_TRUNCATED, 4))
		op->size = sim_below(s, n);
	else if (sim_inject(s, SIM_GET_CORRUPT, 4))
		op->data[sim_below(s, n)] ^= (uint8_t)(1u << sim_below(s, 8));
}

static void list_effect(struct store_op *op)
{
	size_t n;
	char **all = sim_bucket_keys(op->bucket, op->key, &n);
	op->entries = must_calloc(n, sizeof(op->entries[0]));
	for (size_t i = 0; i < n && !op->more; i++) {
		if ((op->start_after != NULL && strcmp(all[i], op->start_after) <= 0) ||
		    sim_bucket_find(op->bucket, all[i])->rot == SIM_GONE)
			continue;
		op->more = op->n_entries == op->limit;
		if (!op->more)
			op->entries[op->n_entries++] = (struct obj_entry){
				must_strdup(all[i]), sim_bucket_find(op->bucket, all[i])->size };
	}
	free(all);
}

/* Parts and uploads */

static void part_effect(struct store_op *op)
{
	if (op->proc->state == SIM_DEAD && op->sender_died_first)
		return;
	if (op->store != NULL)
		must_be_unchanged(op);
	struct sim_part *p = must_calloc(1, sizeof(*p)), **at = &op->bucket->parts;
	*p = (struct sim_part){ .upload_id = op->upload_id, .part = op->part, .key = must_strdup(op->key),
				.data = must_memdup(op->data, op->size), .size = op->size };
	while (*at != NULL && ((*at)->upload_id < p->upload_id ||
			       ((*at)->upload_id == p->upload_id && (*at)->part < p->part)))
		at = &(*at)->next;
	p->next = *at;
	*at = p;
}

static void finish_effect(struct store_op *op)
{
	uint8_t *data = NULL;
	size_t size = 0;
	unsigned n = 0;
	bool whole = true;
	if (op->proc->state == SIM_DEAD && op->sender_died_first)
		return;
	for (const struct sim_part *p = op->bucket->parts; p != NULL; p = p->next) {
		if (p->upload_id != op->upload_id)
			continue;
		whole &= p->part == n++;        /* not: it was aborted, and parts came after that */
		data = must_realloc(data, size + p->size + 1);
		memcpy(data + size, p->data, p->size);
		size += p->size;
	}
	whole &= n == op->part;
	if (!whole || sim_bucket_find(op->bucket, op->key) != NULL) {
		op->outcome = OUTCOME_NOT_APPLIED;
		op->err = !whole ? -ENOENT : -EEXIST;
	} else {
		bucket_put(op->bucket, op->key, data, size);
		sim_trace(op->bucket->sim, "upload effect", op->number, size);
		bucket_drop_upload(op->bucket, op->upload_id);
	}
	free(data);
}

/* By id: the simulator's are in order of time, not of keys; nobody here relies on the order. */
static void list_uploads_effect(struct store_op *op)
{
	size_t n = 0;
	for (const struct sim_part *p = op->bucket->parts; p != NULL; p = p->next)
		n++;
	op->uploads = must_calloc(n, sizeof(op->uploads[0]));
	uint64_t last = op->upload_id;
	for (const struct sim_part *p = op->bucket->parts; p != NULL && !op->more; p = p->next) {
		char id[24];
		if (p->upload_id <= last || strncmp(p->key, op->key, strlen(op->key)) != 0)
			continue;
		op->more = op->n_entries == op->limit;
		if (op->more)
			continue;
		last = p->upload_id;
		snprintf(id, sizeof(id), "%016llx", (unsigned long long)last);
		op->uploads[op->n_entries++] = (struct obj_upload_entry){ must_strdup(p->key), must_strdup(id) };
	}
}

static void op_effect(void *arg)
{
	struct store_op *op = arg;
	switch (op->kind) {
	case OP_PUT:
		put_effect(op);
		break;
	case OP_GET:
		get_effect(op);
		break;
	case OP_DEL:
		for (size_t i = 0; i < op->n_keys; i++)
			bucket_del(op->bucket, op->keys[i]);
		break;
	case OP_LIST:
		list_effect(op);
		break;
	case OP_PART:
		part_effect(op);
		break;
	case OP_FINISH:
		finish_effect(op);
		break;
	case OP_ABORT:
		bucket_drop_upload(op->bucket, op->upload_id);
		break;
	case OP_LIST_UPLOADS:
		list_uploads_effect(op);
		break;
	}
	if (op->answer_lost) {
		op->outcome = OUTCOME_UNKNOWN;
		op->err = -ETIMEDOUT;
	}
	struct sim *s = op->bucket->sim;
	if (!op->late)
		answer_after(op, op->hangs ? sim_between(s, SIM_S, 60 * SIM_S) : latency(s) / 2);
	op_unref(op);
}

static void effect_after(struct store_op *op, uint64_t delay)
{
	op->refs++;
	sim_after(op->bucket->sim, delay, NULL, "effect", op_effect, op_unref, op);
}

static void fail(struct store_op *op, enum outcome outcome, int err, uint64_t delay)
{
	op->outcome = outcome;
	op->err = err;
	answer_after(op, delay);
}

/* Periods of bad weather. True when they decided the operation. */
static bool weathered(struct store_op *op)
{
	struct sim *s = op->bucket->sim;
	if (sim_io_fails(s)) {
		fail(op, OUTCOME_NOT_APPLIED, -EIO, latency(s));
		return true;
	}
	switch (op->bucket->weather) {
	case SIM_FAIR:
	case SIM_SLOW:
		return false;
	case SIM_BURST:
		fail(op, OUTCOME_NOT_APPLIED, -EAGAIN, latency(s));
		return true;
	case SIM_FULL:
		if (op->kind != OP_PUT && op->kind != OP_PART)
			return false;
		fail(op, OUTCOME_NOT_APPLIED, -ENOSPC, latency(s));
		return true;
	case SIM_EIO:
		fail(op, OUTCOME_NOT_APPLIED, -EIO, latency(s));
		return true;
	case SIM_AWAY:
		if ((op->kind == OP_PUT || op->kind == OP_FINISH) && sim_chance(s, 500)) {
			op->late = true;
			effect_after(op, sim_between(s, 10 * SIM_MS, 30 * SIM_S));
		}
		fail(op, OUTCOME_UNKNOWN, -ETIMEDOUT, sim_between(s, 100 * SIM_MS, 10 * SIM_S));
		return true;
	}
	return false;
}

static uint64_t slowness(const struct store_op *op, uint64_t most)
{
	return op->bucket->weather == SIM_SLOW ? sim_below(op->bucket->sim, most) : 0;
}

static void send_put(struct store_op *op)
{
	struct sim *s = op->bucket->sim;
	if (sim_inject(s, SIM_PUT_ERROR, 8)) {
		fail(op, OUTCOME_NOT_APPLIED, sim_chance(s, 500) ? -EIO : -ENOSPC, latency(s));
	} else if (sim_inject(s, SIM_PUT_THROTTLED, 12)) {
		fail(op, OUTCOME_NOT_APPLIED, -EAGAIN, latency(s));
	} else if (sim_inject(s, SIM_PUT_LOST, 10)) {
		fail(op, OUTCOME_UNKNOWN, -ETIMEDOUT, sim_below(s, 3 * SIM_S));
	} else if (sim_inject(s, SIM_PUT_LATE, 10)) {
		op->late = true;
		effect_after(op, sim_below(s, sim_chance(s, 800) ? 3 * SIM_S : 120 * SIM_S));
		fail(op, OUTCOME_UNKNOWN, -ETIMEDOUT, sim_below(s, SIM_S));
	} else {
		op->answer_lost = sim_inject(s, SIM_PUT_ANSWER_LOST, 15);
		op->hangs = sim_inject(s, SIM_PUT_HANG, 3);
		effect_after(op, latency(s) + slowness(op, 2 * SIM_S));
	}
}

/* Puts the operation on its way. Twice an I/O step: a process may die before and after sending. */
static void submit(struct store_op *op)
{
	struct sim *s = op->bucket->sim;
	op->refs = 1;
	bool sent = sim_io_step(op->proc);
	sim_trace(s, "store op", op->number, op->kind);
	if (sent && !weathered(op)) {
		if (op->kind == OP_PUT || op->kind == OP_FINISH)
			send_put(op);
		else if (sim_inject(s, SIM_GET_ERROR, 10))
			fail(op, sim_chance(s, 500) ? OUTCOME_UNKNOWN : OUTCOME_NOT_APPLIED,
			     sim_chance(s, 500) ? -EAGAIN : -EIO, latency(s));
		else
			effect_after(op, latency(s) + slowness(op, 200 * SIM_MS) + sim_below(s, op->bucket->get_ns_max));
	}
	if (sent)
		sim_io_step(op->proc);
	op_unref(op);
}

static struct store_op *op_new(struct objstore *base, enum op_kind kind, const char *key, void *arg)
{
	struct sim_store *store = (struct sim_store *)base;
	struct store_op *op = must_calloc(1, sizeof(*op));
	*op = (struct store_op){ .store = store, .bucket = store->bucket, .proc = store->proc, .kind = kind,
				 .number = ++store->n_sent, .key = must_strdup(key), .arg = arg };
	op->sender_died_first = sim_chance(store->bucket->sim, 500);
	op->next = store->ops;
	if (op->next != NULL)
		op->next->prev = op;
	store->ops = op;
	return op;
}

static void op_take_bytes(struct store_op *op, const struct iovec *iov, int n_iov)
{
	op->n_iov = n_iov;
	op->iov = must_memdup(iov, (size_t)n_iov * sizeof(*iov));
	for (int i = 0; i < n_iov; i++)
		op->size += iov[i].iov_len;
	op->data = must_calloc(1, op->size);
	size_t at = 0;
	for (int i = 0; i < n_iov; at += iov[i++].iov_len)
		if (iov[i].iov_len > 0)
			memcpy(op->data + at, iov[i].iov_base, iov[i].iov_len);
}

static void sim_put(struct objstore *base, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
		    obj_done_cb *cb, void *arg)
{
	struct store_op *op = op_new(base, OP_PUT, key, arg);
	op->cb.done = cb;
	op->if_absent = if_absent;
	op_take_bytes(op, iov, n_iov);
	submit(op);
}

static void sim_get(struct objstore *base, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb,
		    void *arg)
{
	struct store_op *op = op_new(base, OP_GET, key, arg);
	op->cb.get = cb;
	op->offset = offset;
	op->length = length;
	submit(op);
}

static void sim_get_suffix(struct objstore *base, const char *key, uint64_t length, obj_get_cb *cb, void *arg)
{
	struct store_op *op = op_new(base, OP_GET, key, arg);
	op->cb.get = cb;
	op->suffix = true;
	op->length = length;
	submit(op);
}

static void sim_del(struct objstore *base, const char *const *keys, size_t n, obj_done_cb *cb, void *arg)
{
	struct store_op *op = op_new(base, OP_DEL, n > 0 ? keys[0] : "", arg);
	op->cb.done = cb;
	op->keys = must_calloc(n, sizeof(char *));
	for (; op->n_keys < n; op->n_keys++)
		op->keys[op->n_keys] = must_strdup(keys[op->n_keys]);
	submit(op);
}

static void sim_list(struct objstore *base, const char *prefix, const char *start_after, size_t limit,
		     obj_list_cb *cb, void *arg)
{
	struct store_op *op = op_new(base, OP_LIST, prefix, arg);
	op->cb.list = cb;
	op->start_after = start_after != NULL ? must_strdup(start_after) : NULL;
	op->limit = limit;
	submit(op);
}

static struct obj_upload *sim_upload_new(struct objstore *base, const char *key)
{
	struct sim_store *store = (struct sim_store *)base;
	struct sim_upload *u = must_calloc(1, sizeof(*u));
	*u = (struct sim_upload){ .base = { base }, .key = must_strdup(key), .next = store->uploads,
				  .id = ++store->bucket->n_uploads_ever };
	store->uploads = u;
	return &u->base;
}

static void upload_free(struct sim_store *store, struct sim_upload *u)
{
	struct sim_upload **at = &store->uploads;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	free(u->key);
	free(u);
}

static void sim_upload_part(struct obj_upload *base, const struct iovec *iov, int n_iov, obj_done_cb *cb, void *arg)
{
	struct sim_upload *u = (struct sim_upload *)base;
	struct store_op *op = op_new(base->store, OP_PART, u->key, arg);
	op->cb.done = cb;
	op->upload = u;
	op->upload_id = u->id;
	op->part = u->n_parts++;
	u->n_parts_out++;
	op_take_bytes(op, iov, n_iov);
	submit(op);
}

static void upload_end(struct obj_upload *base, enum op_kind kind, obj_done_cb *cb, void *arg)
{
	struct sim_upload *u = (struct sim_upload *)base;
	struct store_op *op = op_new(base->store, kind, u->key, arg);
	must(u->n_parts_out == 0 && (kind == OP_ABORT || u->n_parts > 0));
	op->cb.done = cb;
	op->upload_id = u->id;
	op->part = u->n_parts;
	upload_free(op->store, u);
	submit(op);
}

static void sim_upload_finish(struct obj_upload *base, obj_done_cb *cb, void *arg)
{
	upload_end(base, OP_FINISH, cb, arg);
}

static void sim_upload_abort(struct obj_upload *base, obj_done_cb *cb, void *arg)
{
	upload_end(base, OP_ABORT, cb, arg);
}

static void sim_list_uploads(struct objstore *base, const char *prefix, const struct obj_upload_entry *after,
			     size_t limit, obj_uploads_cb *cb, void *arg)
{
	struct store_op *op = op_new(base, OP_LIST_UPLOADS, prefix, arg);
	op->cb.uploads = cb;
	op->upload_id = after != NULL ? strtoull(after->id, NULL, 16) : 0;
	op->limit = limit;
	submit(op);
}

static void sim_abort_upload(struct objstore *base, const struct obj_upload_entry *e, obj_done_cb *cb, void *arg)
{
	struct store_op *op = op_new(base, OP_ABORT, e->key, arg);
	op->cb.done = cb;
	op->upload_id = strtoull(e->id, NULL, 16);
	submit(op);
}

static void sim_store_free(struct objstore *base)
{
	struct sim_store *store = (struct sim_store *)base;
	while (store->ops != NULL)
		op_unlink(store->ops);
	while (store->uploads != NULL)
		upload_free(store, store->uploads);
	free(store);
}

struct objstore *sim_store_new(struct sim_bucket *b, struct sim_proc *p)
{
	static const struct objstore_ops ops = {
		.put = sim_put, .get = sim_get, .get_suffix = sim_get_suffix, .del = sim_del, .list = sim_list,
		.upload_new = sim_upload_new, .upload_part = sim_upload_part, .upload_finish = sim_upload_finish,
		.upload_abort = sim_upload_abort, .list_uploads = sim_list_uploads,
		.abort_upload = sim_abort_upload, .free = sim_store_free,
	};
	struct sim_store *store = must_calloc(1, sizeof(*store));
	*store = (struct sim_store){ .base = { .ops = &ops, .url = "sim://bucket", .max_inflight_default = 4 },
				     .bucket = b, .proc = p };
	return &store->base;
}
