/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches: neighbouring blocks of one log, read from a data object into one block of the page cache.
 *
 *   locating: newest to oldest object of the log's node whose range and top hold it, one index page each
 *   reading:  one GET; every block and batch is checked; one that stays wrong fails the reads that touch it, with the
 *             object's name, and nothing else
 *   needs room: complete, but all pages of the cache are pinned
 */
#include "storaged/engine/read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "common/record_batch.h"
#include "storaged/engine/ahead.h"
#include "storaged/engine/backoff.h"

#define FETCH_MIN (256u << 10)
#define FETCH_MAX (8u << 20)            /* of one GET, beyond one block */
#define TAKE_A_TURN (2u << 20)
#define BLOCKS_MAX 64u
#define FETCHES_BYTES_MAX (64u << 20)   /* of all fetches, beyond one */
#define FAULTS_MAX 5u
#define WALKS_MAX 3u                    /* a commit may move what is looked for behind a walk's back */

struct fetch {
	struct fetch *next;
	struct engine *engine;
	struct log *log;                /* one ref */
	uint64_t base, end;             /* offsets; while locating the one asked for */
	uint64_t asked;
	bool ahead;                     /* for who reads on: it goes on without a reader until something is in its way */
	uint64_t bytes;                 /* wanted; reading: of the GET */
	struct index_wait wait;         /* locating */
	struct catalogue_cursor cursor;
	bool looking, interrupted;      /* at the object `id`; since the walk began, others ran */
	unsigned n_walks;
	struct object_id id;            /* being looked at, then read */
	struct data_index_entry blocks[BLOCKS_MAX];
	uint32_t n_blocks, n_taken;     /* taken: checked, their batches noted */
	uint8_t *data;                  /* what was read */
	struct page_cache_batch *batches;       /* in data */
	uint32_t n_batches, batches_capacity;
	bool busy;                      /* the store has the GET */
	bool needs_room;
	uint64_t round;                 /* in which room was tried last */
	bool failed;                    /* nobody joins it any more */
	uint32_t backoff_ms, n_faults;
	struct env_timer timer;
};

static void fetch_locate(struct fetch *f);
static void fetch_get(struct fetch *f);

/* --------------------------------------------------------------------- ends */

static void fetch_free(struct fetch *f)
{
	struct engine *e = f->engine;
	struct fetch **at = &e->fetches;
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	e->fetch_bytes -= f->bytes;
	if (e->reads != NULL)
		env_defer(e->env, &e->read_task);
	env_timer_stop(e->env, &f->timer);
	index_wait_stop(&f->wait);
	log_unref(f->log);
	free(f->batches);
	free(f->data);
	free(f);
}

/* Its readers hear of it, or look again where it is said that they should (error NULL). */
static void fetch_end(struct fetch *f, const struct pico_error *error)
{
	f->failed = true;
	if (f->n_blocks == 0)
		ahead_located(f->engine, f->log, f->asked, f->asked);
	read_fetch_done(f->engine, f, error);
	if (!f->busy)
		fetch_free(f);
}

static void fetch_fail(struct fetch *f, const char *what, const char *fault)
{
	struct pico_error error;
	pico_error_set(&error, PICO_UNAVAILABLE, "%.120s: %.150s", what, fault);
	fetch_end(f, &error);
}

/* Puts what was read into the page cache. */
static void fetch_insert(struct fetch *f)
{
	struct engine *e = f->engine;
	struct block *block;
	int rc = f->log->removed ? 0
				 : page_cache_insert(e->cache, f->log->id, f->end, f->batches, f->n_batches, &block);
	f->needs_room = rc == -ENOBUFS;
	if (f->needs_room)
		return;
	metric_set(METRIC_CACHE_BYTES, page_cache_bytes_used(e->cache));
	if (rc < 0)
		fetch_fail(f, "a record", "it is larger than --block-cache-size allows");
	else
		fetch_end(f, NULL);
}

/* Each once a round; callbacks may begin and end others. */
void fetch_room(struct engine *e)
{
	struct fetch *f;
	do {
		for (f = e->fetches; f != NULL; f = f->next)
			if (f->needs_room && f->round != e->read_round)
				break;
		if (f == NULL)
			return;
		f->round = e->read_round;
		if (read_is_waiting_for(e, f))
			fetch_insert(f);
		else
			fetch_end(f, NULL);
	} while (true);
}

/* ------------------------------------------------------------------- reading */

static void on_get_again(void *arg)
{
	struct fetch *f = arg;
	if (read_is_waiting_for(f->engine, f))
		fetch_get(f);
	else
		fetch_end(f, NULL);
}

static void fetch_wait(struct fetch *f)
{
	struct env *env = f->engine->env;
	f->timer = (struct env_timer){ .on_fire = on_get_again, .arg = f };
	env_timer_start(env, &f->timer, backoff_next(env, &backoff_read, &f->backoff_ms));
}

static void batch_add(struct fetch *f, const struct frame *frame)
{
	if (f->n_batches == f->batches_capacity) {
		f->batches_capacity = f->batches_capacity == 0 ? 16 : f->batches_capacity * 2;
		f->batches = must_realloc(f->batches, f->batches_capacity * sizeof(*f->batches));
	}
	f->batches[f->n_batches++] = (struct page_cache_batch){
		.base_offset = frame->base_offset, .payload = frame->payload,
	};
}

/* One block's batches. NULL, or what is wrong with it. */
static const char *block_take(struct fetch *f, struct slice bytes, const struct data_index_entry *entry)
{
	const char *fault = data_block_check(bytes, entry);
	struct frame_iter it = { .body = bytes };
	struct frame frame;
	while (fault == NULL && frame_next(&it, &frame) == 1) {
		struct record_batch b;
		if (record_batch_read(frame.payload, &b) != 0 || !record_batch_crc_is_good(&b))
			fault = "a batch in it is damaged";
		else
			batch_add(f, &frame);
	}
	return fault;
}

/* A little of it. NULL, or what is wrong. */
static const char *fetch_take(struct fetch *f)
{
	const char *fault = NULL;
	uint64_t done = 0;
	for (; f->n_taken < f->n_blocks && fault == NULL && done < TAKE_A_TURN; f->n_taken++) {
		const struct data_index_entry *b = &f->blocks[f->n_taken];
		fault = block_take(f, slice_of(f->data + (b->position - f->blocks[0].position), b->length), b);
		done += b->length;
	}
	return fault;
}

static void fetch_damaged(struct fetch *f, const char *fault)
{
	char key[DATA_KEY_MAX];
	data_key(key, f->id);
	if (++f->n_faults < FAULTS_MAX)
		fetch_wait(f);
	else
		fetch_fail(f, key, fault);
}

/* One with 8 MiB takes several turns. */
static void on_take(void *arg)
{
	struct fetch *f = arg;
	const char *fault = fetch_take(f);
	if (fault != NULL) {
		fetch_damaged(f, fault);
	} else if (f->n_taken == f->n_blocks) {
		fetch_insert(f);
	} else {
		f->timer = (struct env_timer){ .on_fire = on_take, .arg = f };
		env_timer_start(f->engine->env, &f->timer, env_now_ms(f->engine->env));
	}
}

static void fetch_got(struct fetch *f, struct slice data)
{
	metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
	free(f->data);
	f->data = NULL;
	f->n_batches = f->n_taken = 0;
	if (data.n != f->bytes) {
		fetch_damaged(f, "it is shorter than it was");
		return;
	}
	f->data = must_memdup(data.p, data.n);
	on_take(f);
}

/* The object is gone: by a commit that happened meanwhile, or by damage. */
static void fetch_missing(struct fetch *f, const char *what)
{
	const struct object_row *row = catalogue_find(engine_catalogue(f->engine), f->id);
	if (row != NULL && !row->marked)
		fetch_fail(f, what, "it is missing or cut off");
	else
		fetch_end(f, NULL);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct fetch *f = arg;
	f->busy = false;
	if (!wal_may_look(&f->engine->wal))
		return;
	if (f->failed) {
		fetch_free(f);
	} else if (result.outcome == OUTCOME_OK) {
		fetch_got(f, data);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && (result.err == -ENOENT || result.err == -ERANGE)) {
		fetch_missing(f, result.what != NULL ? result.what : "an object");
	} else {
		fetch_wait(f);
	}
}

static void fetch_get(struct fetch *f)
{
	struct engine *e = f->engine;
	char key[DATA_KEY_MAX];
	data_key(key, f->id);
	f->busy = true;
	metric_add(METRIC_STORE_GETS, 1);
	objstore_get(e->data, key, f->blocks[0].position, f->bytes, on_got, f);
}

/* ------------------------------------------------------------------ locating */

/* The block of that entry and its neighbours in the object, as far as the page names them. */
static void fetch_plan(struct fetch *f, struct slice page, struct data_index_entry *entry)
{
	uint64_t target = f->bytes, length = 0;
	do {
		f->blocks[f->n_blocks++] = *entry;
		length += entry->length;
	} while (f->n_blocks < BLOCKS_MAX && data_index_page_find(page, f->log->id, f->blocks[f->n_blocks - 1].end, entry) &&
		 entry->base == f->blocks[f->n_blocks - 1].end && entry->base < log_confirm(f->log) &&
		 entry->position == f->blocks[0].position + length && length + entry->length <= target);
	f->base = f->blocks[0].base;
	f->end = f->blocks[f->n_blocks - 1].end;
	f->engine->fetch_bytes += length - f->bytes;
	f->bytes = length;
}

enum look { LOOK_FOUND, LOOK_NOT_HERE, LOOK_WAIT };

static enum look object_look(struct fetch *f, const struct object_row *row)
{
	struct engine *e = f->engine;
	uint64_t offset = f->base;
	if (row->level == DATA_LEVEL_SINGLE && (offset < row->first_offset || offset >= row->end_offset))
		return LOOK_NOT_HERE;
	f->id = row->id;
	const struct data_top *top = index_cache_top(e->index, row->id, &f->wait);
	if (top == NULL)
		return LOOK_WAIT;
	const struct data_page *p = data_top_has(top, f->log->id) ? data_top_index_page(top, f->log->id, offset) : NULL;
	if (p == NULL)
		return LOOK_NOT_HERE;
	struct slice page = index_cache_index_page(e->index, row->id, p, &f->wait);
	if (page.n == 0)
		return LOOK_WAIT;
	struct data_index_entry entry;
	if (!data_index_page_find(page, f->log->id, offset, &entry) || offset < entry.base || offset >= entry.end)
		return LOOK_NOT_HERE;
	fetch_plan(f, page, &entry);
	return LOOK_FOUND;
}

static const struct fetch *fetch_other(const struct fetch *f)
{
	const struct fetch *x = f->engine->fetches;
	while (x != NULL && (x == f || x->failed || x->n_blocks == 0 || x->log != f->log || f->base < x->base ||
			     f->base >= x->end))
		x = x->next;
	return x;
}

/* It is known how far it reaches: who reads ahead goes on from there. Where another one brings the same its readers join
 * that one. */
static void fetch_begin(struct fetch *f)
{
	struct engine *e = f->engine;
	struct log *log = f->log;
	const struct fetch *other = fetch_other(f);
	uint64_t asked = f->asked, end = other != NULL ? other->end : f->end;
	log_table_ref(&e->logs, log);
	if (other != NULL)
		fetch_end(f, NULL);
	else
		fetch_get(f);
	ahead_located(e, log, asked, end);
	log_unref(log);
}

/* The object being looked at, else the next one; NULL: the walk is over. */
static const struct object_row *fetch_row(struct fetch *f)
{
	const struct engine *e = f->engine;
	const struct catalogue *c = engine_catalogue(e);
	const struct object_row *row = f->looking ? catalogue_find(c, f->id) : NULL;
	f->looking = false;
	return row != NULL && !row->marked ? row : catalogue_of_log(c, e->config.node, f->log->id, &f->cursor);
}

static void fetch_locate(struct fetch *f)
{
	struct engine *e = f->engine;
	const struct object_row *row;
	while ((row = fetch_row(f)) != NULL) {
		switch (object_look(f, row)) {
		case LOOK_NOT_HERE:
			continue;
		case LOOK_WAIT:
			f->looking = f->interrupted = true;
			return;
		case LOOK_FOUND:
			fetch_begin(f);
			return;
		}
	}
	if (f->interrupted && ++f->n_walks < WALKS_MAX) {
		f->cursor = (struct catalogue_cursor){ 0 };
		f->interrupted = false;
		fetch_locate(f);
		return;
	}
	char text[100];
	snprintf(text, sizeof(text), "no object holds offset %llu of log %llu", (unsigned long long)f->base,
		 (unsigned long long)f->log->id);
	fetch_fail(f, e->data->url, text);
}

static void on_index(struct index_wait *w, const char *fault, bool missing)
{
	struct fetch *f = (struct fetch *)((char *)w - offsetof(struct fetch, wait));
	char key[DATA_KEY_MAX];
	data_key(key, f->id);
	if (fault == NULL && !f->ahead && !read_is_waiting_for(f->engine, f))
		fetch_end(f, NULL);
	else if (fault == NULL)
		fetch_locate(f);
	else if (missing)
		fetch_missing(f, key);
	else
		fetch_fail(f, key, fault);
}

/* -------------------------------------------------------------------- begin */

struct fetch *fetch_find(struct engine *e, const struct log *log, uint64_t offset)
{
	struct fetch *f = e->fetches;
	while (f != NULL && (f->failed || f->log != log || offset < f->base || offset >= f->end))
		f = f->next;
	return f;
}

static uint64_t fetch_target(const struct engine *e, uint64_t bytes)
{
	uint64_t target = bytes < FETCH_MIN ? FETCH_MIN : bytes > FETCH_MAX ? FETCH_MAX : bytes;
	return target > e->config.block_cache_size / 4 ? e->config.block_cache_size / 4 : target;
}

/* What it finds at once, its reader learns in a later turn: the caller has not noted it yet. */
static void on_begin(void *arg)
{
	struct fetch *f = arg;
	if (f->ahead || read_is_waiting_for(f->engine, f))
		fetch_locate(f);
	else
		fetch_end(f, NULL);
}

struct fetch *fetch_new(struct engine *e, struct log *log, uint64_t offset, uint64_t bytes)
{
	if (e->fetch_bytes > FETCHES_BYTES_MAX)
		return NULL;
	struct fetch *f = must_calloc(1, sizeof(*f));
	f->engine = e;
	f->log = log;
	log_table_ref(&e->logs, log);
	f->base = f->asked = offset;
	f->end = offset + 1;
	f->bytes = fetch_target(e, bytes);
	e->fetch_bytes += f->bytes;
	f->wait.on_ready = on_index;
	f->next = e->fetches;
	e->fetches = f;
	f->timer = (struct env_timer){ .on_fire = on_begin, .arg = f };
	env_timer_start(e->env, &f->timer, env_now_ms(e->env));
	return f;
}

struct fetch *fetch_ahead(struct engine *e, struct log *log, uint64_t offset, uint64_t bytes)
{
	struct fetch *f = e->fetch_bytes + bytes > FETCHES_BYTES_MAX / 2 ? NULL : fetch_new(e, log, offset, bytes);
	if (f != NULL) {
		f->ahead = true;
		metric_add(METRIC_FETCHES_AHEAD, 1);
	}
	return f;
}

uint64_t fetch_end_offset(const struct fetch *f)
{
	return f->n_blocks > 0 ? f->end : f->asked;
}

void fetch_forget_all(struct engine *e)
{
	while (e->fetches != NULL)
		fetch_free(e->fetches);
}
