/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch: whole batches of many partitions in one answer.
 *
 *   parked: until enough is there, a part has an error, or the deadline -> reading: what fits is taken from memory
 *   or read back -> answered
 *
 * Wake-ups of one loop turn are looked at together, so that an object with batches for a thousand partitions makes
 * one answer. All pieces stand under one reference.
 */
#include <errno.h>
#include <stdlib.h>

#include "storaged/expiry.h"
#include "storaged/parts.h"
#include "storaged/watch.h"

#define FETCH_BYTES_MAX (55u << 20)     /* of batches in an answer, but for the first */
#define FETCH_PIECES_MAX 100000u        /* an answer must fit into a message */
#define FETCH_GRACE_MS 300u             /* after the deadline, for reads from the store */

/* A part of the answer. */
struct fetch_part {
	struct engine_read read;        /* pieces: taken over by the answer */
	struct op *op;
	struct watch_entry *entry;
	struct part_error *error;       /* owned */
	bool wanted, reading;
};

struct fetch_op {
	struct watch *watch;
	uint64_t deadline_ms;
	uint64_t min_bytes, max_bytes;
	bool reading;
	struct fetch_part *part;        /* owned */
	size_t n, n_left;
	size_t n_pieces;
};

static void fetch_parts_done(struct fetch_op *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->part[i].error);
		free(f->part[i].read.pieces);
	}
	free(f->part);
	f->part = NULL;
	f->n = 0;
}

/* The list is free for the next fetch; one without a number goes, and its entries with it. */
static void fetch_leave(struct fetch_op *f)
{
	struct watch *w = f->watch;
	f->watch = NULL;
	if (w == NULL)
		return;
	w->op = NULL;
	if (w->key.number == 0)
		watch_free(w);
}

static void fetch_free(struct op *op)
{
	fetch_leave(op->own);
	fetch_parts_done(op->own);
	free(op->own);
}

/* ------------------------------------------------------------------- answer */

static void pieces_give_up(struct engine_read *r)
{
	for (size_t i = 0; i < r->n_pieces; i++)
		pin_drop(r->pieces[i].pin);
	free(r->pieces);
	r->pieces = NULL;
	r->n_pieces = 0;
}

/* A log that went while its batches were read. */
static void parts_gone(struct fetch_op *f)
{
	struct pico_error e;
	pico_error_set(&e, PICO_NOT_FOUND, "no such stream");
	for (size_t i = 0; i < f->n; i++) {
		struct fetch_part *p = &f->part[i];
		if (p->error != NULL || p->entry->wait.log != NULL)
			continue;
		p->error = part_error_new(&e);
		pieces_give_up(&p->read);
	}
}

/* All pieces one behind the other; what does not fit is left for the next fetch. */
static void pieces_collect(struct fetch_op *f, struct call *c)
{
	size_t n = 0;
	c->pieces = must_calloc(f->n_pieces, sizeof(*c->pieces));
	for (size_t i = 0; i < f->n; i++) {
		struct engine_read *r = &f->part[i].read;
		if (n > 0 && n + r->n_pieces > FETCH_PIECES_MAX)
			pieces_give_up(r);
		if (r->n_pieces > 0)
			memcpy(c->pieces + n, r->pieces, r->n_pieces * sizeof(*r->pieces));
		n += r->n_pieces;
		free(r->pieces);
		r->pieces = NULL;
	}
	c->n_pieces = n;
	if (n > 0)
		return;
	free(c->pieces);
	c->pieces = NULL;
}

static void part_fill(struct fetch_part *p, uint32_t first_piece, Ipc__FetchAnswer__Part *ret)
{
	struct watch_entry *e = p->entry;
	ipc__fetch_answer__part__init(ret);
	ret->index = e->index;
	ret->error = p->error != NULL ? &p->error->m : NULL;
	if (e->wait.log == NULL)
		return;
	ret->start = log_start(e->wait.log);
	ret->confirm = log_confirm(e->wait.log);
	ret->leader_epoch = (int32_t)log_epoch(e->wait.log);
	if (p->error != NULL)
		return;
	ret->first_piece = first_piece;
	ret->n_pieces = (uint32_t)p->read.n_pieces;
	ret->end = p->read.n_pieces > 0 ? p->read.end : 0;
	e->told = ret->confirm;
}

static void fetch_answer(struct op *op)
{
	struct fetch_op *f = op->own;
	Ipc__FetchAnswer a = IPC__FETCH_ANSWER__INIT;
	Ipc__FetchAnswer__Part *part = must_calloc(f->n, sizeof(*part));
	Ipc__FetchAnswer__Part **pointer = must_calloc(f->n, sizeof(*pointer));
	uint32_t n_pieces = 0;
	parts_gone(f);
	pieces_collect(f, op->call);
	for (size_t i = 0; i < f->n; i++) {
		part_fill(&f->part[i], n_pieces, &part[i]);
		n_pieces += part[i].n_pieces;
		pointer[i] = &part[i];
		if (f->part[i].wanted)
			watch_answered(f->part[i].entry);
	}
	a.n_part = f->n;
	a.part = pointer;
	fetch_leave(f);
	op_answer(op, &a.base);
	free(part);
	free(pointer);
}

/* ------------------------------------------------------------------ reading */

static void fetch_settle(struct op *op)
{
	struct fetch_op *f = op->own;
	must(f->n_left > 0);
	if (--f->n_left == 0)
		fetch_answer(op);
}

static void on_read(struct engine_read *r, const struct pico_error *error)
{
	struct fetch_part *p = (struct fetch_part *)((char *)r - offsetof(struct fetch_part, read));
	struct op *op = p->op;
	must(op->magic == OP_MAGIC && p->reading);
	p->reading = false;
	if (error != NULL)
		p->error = part_error_new(error);
	((struct fetch_op *)op->own)->n_pieces += r->n_pieces;
	fetch_settle(op);
}

/* Reads that the store has not answered in time are left: their batches are in memory for a later fetch. */
static void fetch_hurry(struct op *op)
{
	struct fetch_op *f = op->own;
	for (size_t i = 0; i < f->n; i++) {
		if (!f->part[i].reading)
			continue;
		engine_read_cancel(op->node->engine, &f->part[i].read);
		f->part[i].reading = false;
	}
	f->n_left = 1;
	fetch_settle(op);
}

/* Whether it gets some of what is left; the first one that has a batch gets that in any case. */
static void part_want(struct fetch_part *p, uint64_t *left, bool *is_first)
{
	const struct watch_entry *e = p->entry;
	uint64_t bound = e->max_bytes < *left ? e->max_bytes : *left;
	if (e->bytes == 0)
		return;
	uint64_t bytes = log_bytes_from(e->wait.log, e->offset, bound);
	if (bytes > bound && !*is_first)
		return;
	*is_first = false;
	*left -= bytes < *left ? bytes : *left;
	p->wanted = true;
	p->read = (struct engine_read){
		.log = e->wait.log, .from = e->offset, .max_bytes = (uint32_t)bound, .on_done = on_read,
	};
}

static void part_add(struct op *op, struct watch_entry *e)
{
	struct fetch_op *f = op->own;
	struct fetch_part *p = &f->part[f->n++];
	struct pico_error error;
	p->op = op;
	p->entry = e;
	bool is_trimmed = e->wait.log != NULL && e->offset < log_start(e->wait.log);     /* since it was looked at */
	if ((e->failed || is_trimmed) && !watch_entry_check(e, &error))
		p->error = part_error_new(&error);
}

/* What the answer names: with a number what is news, else everything in its order. */
static void fetch_plan(struct op *op)
{
	struct fetch_op *f = op->own;
	struct watch *w = f->watch;
	f->part = must_calloc(w->n < PARTS_MAX ? w->n : PARTS_MAX, sizeof(*f->part));
	if (w->key.number == 0) {
		for (uint32_t i = 0; i < w->n; i++)
			part_add(op, w->entry[i]);
		return;
	}
	for (struct watch_entry *e = w->ready; e != NULL && f->n < PARTS_MAX; e = e->next)
		part_add(op, e);
}

static void fetch_read(struct op *op, bool with_data)
{
	struct fetch_op *f = op->own;
	uint64_t left = f->max_bytes, now = env_now_ms(op->node->env);
	bool is_first = true;
	f->reading = true;
	fetch_plan(op);
	f->n_left = 1;
	for (size_t i = 0; i < f->n && with_data; i++) {
		if (f->part[i].error == NULL)
			part_want(&f->part[i], &left, &is_first);
		f->part[i].reading = f->part[i].wanted;
		f->n_left += f->part[i].wanted;
	}
	env_timer_start(op->node->env, &op->timer, (f->deadline_ms > now ? f->deadline_ms : now) + FETCH_GRACE_MS);
	for (size_t i = 0; i < f->n; i++)
		if (f->part[i].wanted)
			engine_read(op->node->engine, &f->part[i].read);
	fetch_settle(op);
}

/* ------------------------------------------------------------------ parking */

static void fetch_try(struct op *op)
{
	struct fetch_op *f = op->own;
	struct watch *w = f->watch;
	watch_look(w);
	if (w->n_failed > 0 || w->bytes >= f->min_bytes || env_now_ms(op->node->env) >= f->deadline_ms)
		fetch_read(op, true);
	else
		env_timer_start(op->node->env, &op->timer, f->deadline_ms);
}

/* The deadline; or something changed in this turn. */
static void on_fetch_timer(struct op *op)
{
	if (((struct fetch_op *)op->own)->reading)
		fetch_hurry(op);
	else
		fetch_try(op);
}

static void on_change(struct op *op)
{
	if (!((struct fetch_op *)op->own)->reading)
		env_timer_start(op->node->env, &op->timer, env_now_ms(op->node->env));
}

static void fetch_stop(struct op *op)
{
	struct fetch_op *f = op->own;
	if (f->reading)
		return;
	watch_look(f->watch);
	fetch_read(op, false);
}

static void fetch_cancel(struct op *op)
{
	struct fetch_op *f = op->own;
	struct pico_error e;
	for (size_t i = 0; i < f->n; i++) {
		if (f->part[i].reading)
			engine_read_cancel(op->node->engine, &f->part[i].read);
		pieces_give_up(&f->part[i].read);
	}
	pico_error_set(&e, PICO_CANCELLED, "cancelled");
	fetch_leave(f);
	op_fail(op, &e);
}

/* --------------------------------------------------------------------- call */

static bool ids_are_good(Ipc__FetchRequest__Part *const *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (parts[i]->topic_id.len != 16)
			return false;
	return true;
}

/* The list of this fetch with the changes it brings; NULL when the call was answered. */
static struct watch *fetch_watch(struct node *n, struct call *c, const Ipc__FetchRequest *r)
{
	struct watch *w = r->watch != 0 ? watch_find(n, c->peer, r->watch) : NULL;
	if (w != NULL && w->op != NULL) {
		call_fail(c, PICO_BAD_REQUEST, "a fetch with this watch is under way");
		return NULL;
	}
	if (w != NULL && r->watch_new) {
		watch_free(w);
		w = NULL;
	}
	if (w == NULL && r->watch != 0 && !r->watch_new) {
		call_fail(c, PICO_NOT_FOUND, "no such watch: send all parts again");
		return NULL;
	}
	if (w == NULL)
		w = watch_new(n, c->peer, r->watch);
	if (w == NULL) {
		call_fail(c, PICO_THROTTLED, "too many watches; fetch without one");
		return NULL;
	}
	if (r->watch != 0)
		watch_forget(w, r->forget, r->n_forget);
	int rc = watch_add(w, r->part, r->n_part);
	if (rc == 0)
		return w;
	watch_free(w);
	if (rc == -ENOBUFS)
		call_fail(c, PICO_THROTTLED, "too many partitions are watched; fetch without a watch");
	else
		call_fail(c, PICO_NOT_FOUND, "much was forgotten: send all parts again");
	return NULL;
}

/* Whatever is asked for is used, whether there is something to read or not. */
static void fetch_touch(struct watch *w)
{
	struct node *n = w->node;
	for (uint32_t i = 0; i < w->n && n->expiry != NULL; i++)
		if (w->entry[i]->place != WATCH_FORGOTTEN)
			expiry_touch_id(n, w->entry[i]->topic_id);
}

void handle_fetch(struct node *n, struct call *c)
{
	const Ipc__FetchRequest *r = (const Ipc__FetchRequest *)c->request;
	if (r->n_part > PARTS_MAX || r->n_forget > PARTS_MAX) {
		call_fail(c, PICO_BAD_REQUEST, "a fetch has at most %u parts", PARTS_MAX);
		return;
	}
	if (!ids_are_good(r->part, r->n_part) || !ids_are_good(r->forget, r->n_forget)) {
		call_fail(c, PICO_BAD_REQUEST, "a topic id has 16 bytes");
		return;
	}
	struct watch *w = fetch_watch(n, c, r);
	if (w == NULL)
		return;
	struct fetch_op *f = must_calloc(1, sizeof(*f));
	f->watch = w;
	f->deadline_ms = c->deadline_ms;
	f->max_bytes = r->max_bytes == 0 || r->max_bytes > FETCH_BYTES_MAX ? FETCH_BYTES_MAX : r->max_bytes;
	f->min_bytes = r->min_bytes < f->max_bytes ? r->min_bytes : f->max_bytes;
	struct op *op = op_new(n, c);
	op->own = f;
	op->free_own = fetch_free;
	op->on_cancel = fetch_cancel;
	op->on_stop = fetch_stop;
	w->op = op;
	w->on_change = on_change;
	fetch_touch(w);
	watch_begin(w);
	op_arm(op, on_fetch_timer);
	fetch_try(op);
}
