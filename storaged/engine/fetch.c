/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches: consecutive batches of one log, in one or several WAL objects, read back into one block of
 * the page cache. Batches of one object whose ranges lie near are one GET. Every batch is checked again;
 * one that stays wrong fails the reads that touch it, with the object's name, and nothing else.
 */
#include "storaged/engine/read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "common/record_batch.h"

#define FETCH_MIN (256u << 10)
#define FETCH_MAX (8u << 20)            /* of one GET, and of a fetch beyond one batch */
#define GAP_MAX (256u << 10)
#define RANGES_MAX 64u
#define FRAMES_MAX 65536u
#define FETCHES_BYTES_MAX (64u << 20)   /* of all fetches, beyond one */
#define FAULTS_MAX 5u
#define BACKOFF_MIN_MS 20u
#define BACKOFF_MAX_MS 2000u

/* One GET. */
struct fetch_range {
	struct fetch *fetch;
	uint64_t session, seq;
	uint64_t position, length;      /* in the object */
	uint32_t first, n;              /* frames */
	uint32_t backoff_ms, n_faults;
	struct env_timer timer;
	bool busy;                      /* the store has it */
};

struct fetch_frame {
	uint64_t base, end;
	uint32_t position, length;      /* in the object */
	uint64_t at;                    /* in data */
};

struct fetch {
	struct fetch *next;
	struct engine *engine;
	struct log *log;                /* one ref */
	uint64_t base, end;             /* offsets */
	struct fetch_frame *frames;
	uint32_t n_frames;
	struct fetch_range ranges[RANGES_MAX];
	uint32_t n_ranges, n_left;      /* left: not read yet */
	uint8_t *data;                  /* the payloads, one behind the other */
	uint64_t bytes;
	bool needs_room;                /* complete, but the page cache had none */
	uint64_t round;                 /* in which that was tried last */
	bool failed;
};

static void range_get(struct fetch_range *g);

/* --------------------------------------------------------------------- ends */

static bool fetch_is_free(const struct fetch *f)
{
	for (uint32_t i = 0; i < f->n_ranges; i++)
		if (f->ranges[i].busy)
			return false;
	return true;
}

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
	for (uint32_t i = 0; i < f->n_ranges; i++)
		env_timer_stop(f->engine->env, &f->ranges[i].timer);
	log_unref(f->log);
	free(f->frames);
	free(f->data);
	free(f);
}

/* Readers hear of it; the memory goes when the store has nothing of it any more. */
static void fetch_fail(struct fetch *f, const char *text)
{
	struct pico_error error;
	pico_error_set(&error, PICO_UNAVAILABLE, "%s", text);
	f->failed = true;
	read_fetch_done(f->engine, f, &error);
}

static void fetch_complete(struct fetch *f)
{
	struct engine *e = f->engine;
	struct page_cache_batch *batches = must_calloc(f->n_frames, sizeof(*batches));
	for (uint32_t i = 0; i < f->n_frames; i++) {
		batches[i].base_offset = f->frames[i].base;
		batches[i].payload = slice_of(f->data + f->frames[i].at, f->frames[i].length);
	}
	struct block *block;
	int rc = f->log->removed ? 0 : page_cache_insert(e->cache, f->log->id, f->end, batches, f->n_frames, &block);
	free(batches);
	f->needs_room = rc == -ENOBUFS;
	if (f->needs_room)
		return;
	metric_set(METRIC_CACHE_BYTES, page_cache_bytes_used(e->cache));
	f->failed = true; /* nobody joins it any more */
	if (rc < 0)
		fetch_fail(f, "a record is larger than --block-cache-size allows");
	else
		read_fetch_done(e, f, NULL);
}

static void fetch_settle(struct fetch *f)
{
	if (!f->failed && f->n_left == 0)
		fetch_complete(f);
	if (f->failed && fetch_is_free(f))
		fetch_free(f);
}

/* Each once a round; callbacks may begin and end others. */
void fetch_room(struct engine *e)
{
	struct fetch *f;
	do {
		for (f = e->fetches; f != NULL; f = f->next)
			if (f->needs_room && f->round != e->read_round)
				break;
		if (f != NULL) {
			f->round = e->read_round;
			f->failed = !read_is_waiting_for(e, f);
			fetch_settle(f);
		}
	} while (f != NULL);
}

/* ------------------------------------------------------------------ one GET */

static const char *frame_check(const struct fetch_frame *f, struct slice bytes)
{
	struct record_batch b;
	if (record_batch_read(bytes, &b) != 0 || !record_batch_crc_is_good(&b))
		return "a batch in it is damaged";
	if (b.base_offset != f->base || b.base_offset + b.last_offset_delta + 1 != f->end)
		return "a batch in it is another one than it was";
	return NULL;
}

static const char *range_take(struct fetch_range *g, struct slice data)
{
	struct fetch *f = g->fetch;
	if (data.n != g->length)
		return "it is shorter than it was";
	for (uint32_t i = g->first; i < g->first + g->n; i++) {
		struct fetch_frame *x = &f->frames[i];
		struct slice bytes = slice_of(data.p + (x->position - g->position), x->length);
		const char *fault = frame_check(x, bytes);
		if (fault != NULL)
			return fault;
		memcpy(f->data + x->at, bytes.p, bytes.n);
	}
	return NULL;
}

static void on_get_again(void *arg)
{
	struct fetch_range *g = arg;
	struct fetch *f = g->fetch;
	if (read_is_waiting_for(f->engine, f)) {
		range_get(g);
		return;
	}
	f->failed = true;
	fetch_settle(f);
}

static void range_wait(struct fetch_range *g)
{
	struct env *env = g->fetch->engine->env;
	uint32_t bound = g->backoff_ms == 0 ? BACKOFF_MIN_MS : g->backoff_ms, random;
	env_random(env, &random, sizeof(random));
	g->backoff_ms = bound * 2 < BACKOFF_MAX_MS ? bound * 2 : BACKOFF_MAX_MS;
	g->timer = (struct env_timer){ .on_fire = on_get_again, .arg = g };
	env_timer_start(env, &g->timer, env_now_ms(env) + bound / 2 + random % (bound / 2 + 1));
}

static void range_damaged(struct fetch_range *g, const char *what, const char *fault)
{
	char text[180];
	snprintf(text, sizeof(text), "%s: %s", what != NULL ? what : "an object", fault);
	fetch_fail(g->fetch, text);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct fetch_range *g = arg;
	struct fetch *f = g->fetch;
	g->busy = false;
	if (!wal_may_look(&f->engine->wal))
		return;
	if (f->failed) {
		fetch_settle(f);
		return;
	}
	if (result.outcome == OUTCOME_OK) {
		metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
		const char *fault = range_take(g, data);
		if (fault == NULL)
			f->n_left--;
		else if (++g->n_faults < FAULTS_MAX)
			range_wait(g);
		else
			range_damaged(g, result.what, fault);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && (result.err == -ENOENT || result.err == -ERANGE)) {
		range_damaged(g, result.what, "it is missing or cut off");
	} else {
		range_wait(g);
	}
	fetch_settle(f);
}

static void range_get(struct fetch_range *g)
{
	struct engine *e = g->fetch->engine;
	char key[WAL_KEY_MAX];
	wal_key(key, e->config.node, e->sessions[g->session], g->seq);
	g->busy = true;
	metric_add(METRIC_STORE_GETS, 1);
	objstore_get(e->store, key, g->position, g->length, on_got, g);
}

/* ----------------------------------------------------------------- planning */

/* Whether a frame is read with the range before it. */
static bool range_extends(const struct fetch_range *g, const struct frame_ref *ref)
{
	if (g->session != ref->session || g->seq != ref->seq || ref->position < g->position + g->length)
		return false;
	return ref->position - (g->position + g->length) <= GAP_MAX &&
	       ref->position + (uint64_t)ref->length - g->position <= FETCH_MAX;
}

/* Takes the frame into the plan. false: the plan is full. */
static bool fetch_plan(struct fetch *f, const struct frame_ref *ref, uint64_t end)
{
	struct fetch_range *g = f->n_ranges > 0 ? &f->ranges[f->n_ranges - 1] : NULL;
	if (g == NULL || !range_extends(g, ref)) {
		if (f->n_ranges == RANGES_MAX)
			return false;
		g = &f->ranges[f->n_ranges++];
		*g = (struct fetch_range){
			.fetch = f, .session = ref->session, .seq = ref->seq, .position = ref->position, .first = f->n_frames,
		};
	}
	g->length = ref->position + (uint64_t)ref->length - g->position;
	g->n++;
	if ((f->n_frames & (f->n_frames - 1)) == 0)
		f->frames = must_realloc(f->frames, (f->n_frames == 0 ? 1 : f->n_frames * 2) * sizeof(*f->frames));
	f->frames[f->n_frames++] = (struct fetch_frame){
		.base = ref->base, .end = end, .position = ref->position, .length = ref->length, .at = f->bytes,
	};
	f->bytes += ref->length;
	f->end = end;
	return true;
}

struct fetch *fetch_find(struct engine *e, const struct log *log, uint64_t offset)
{
	struct fetch *f = e->fetches;
	while (f != NULL && (f->failed || f->log != log || offset < f->base || offset >= f->end))
		f = f->next;
	return f;
}

struct fetch *fetch_new(struct engine *e, struct log *log, uint64_t offset, uint64_t bytes)
{
	if (e->fetch_bytes > FETCHES_BYTES_MAX)
		return NULL;
	struct fetch *f = must_calloc(1, sizeof(*f));
	struct piece piece;
	uint64_t target = bytes < FETCH_MIN ? FETCH_MIN : bytes > FETCH_MAX ? FETCH_MAX : bytes;
	if (target > e->config.block_cache_size / 4)
		target = e->config.block_cache_size / 4;
	f->engine = e;
	f->log = log;
	log->refs++;
	uint32_t i = log_index_find(log, offset);
	f->base = log->frames[i].base;
	for (; i < log->n_frames && log->frames[i].base < log->confirm && f->n_frames < FRAMES_MAX; i++) {
		const struct frame_ref *ref = &log->frames[i];
		if (f->n_frames > 0 && (f->bytes + ref->length > target || read_find_arena(e, ref, &piece) ||
					fetch_find(e, log, ref->base) != NULL ||
					page_cache_find(e->cache, log->id, ref->base) != NULL))
			break;
		if (!fetch_plan(f, ref, log_frame_end(log, i)))
			break;
	}
	f->data = must_calloc(1, f->bytes);
	e->fetch_bytes += f->bytes;
	f->n_left = f->n_ranges;
	f->next = e->fetches;
	e->fetches = f;
	for (uint32_t k = 0; k < f->n_ranges; k++)
		range_get(&f->ranges[k]);
	return f;
}

void fetch_forget_all(struct engine *e)
{
	while (e->fetches != NULL)
		fetch_free(e->fetches);
}
