/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in a hash by (object, position in it), and in a list by last use. An entry that is being read is one GET
 * with its back-off; it goes when nobody waits for it any more.
 */
#include "storaged/engine/index_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "common/metrics.h"
#include "common/must.h"
#include "storaged/bounds.h"
#include "storaged/engine/backoff.h"

#define FAULTS_MAX 5u
#define ENTRY_OVERHEAD 256u             /* bytes counted beside what an entry holds */
#define POSITION_TOP UINT64_MAX

struct entry_key {
	uint64_t session, number, position;
	uint32_t node, zero;
};

struct entry {
	struct entry_key key;
	UT_hash_handle hh;
	struct index_cache *cache;
	struct entry *older, *newer;    /* ready ones, by last use */
	struct index_wait *waits;
	struct data_top *top;           /* ready: one of the two */
	uint8_t *page;
	uint32_t page_length;
	struct data_page want;          /* a page: where, and its crc */
	bool is_state;                  /* a page: of states */
	uint64_t tail;                  /* a top: bytes to ask for from the end */
	uint64_t memory;                /* counted while it is ready */
	bool ready, busy;               /* busy: the store has the GET */
	uint32_t backoff_ms, n_faults;
	struct env_timer timer;
};

struct index_cache {
	struct env *env;
	struct objstore *store;
	uint64_t bytes_max, bytes;      /* of ready entries */
	size_t n_ready;
	bool (*may_look)(void *arg);
	void *arg;
	struct entry *entries;          /* hash */
	struct entry *oldest, *newest;
};

static void entry_get(struct entry *x);

struct index_cache *index_cache_new(struct env *env, struct objstore *store, uint64_t bytes_max,
				    bool (*may_look)(void *arg), void *arg)
{
	struct index_cache *c = must_calloc(1, sizeof(*c));
	*c = (struct index_cache){ .env = env, .store = store, .bytes_max = bytes_max, .may_look = may_look, .arg = arg };
	return c;
}

static struct object_id key_id(const struct entry_key *k)
{
	return (struct object_id){ .node = k->node, .session = k->session, .number = k->number };
}

/* ------------------------------------------------------------------ entries */

static void entry_unlink(struct entry *x)
{
	struct index_cache *c = x->cache;
	if (x->older != NULL)
		x->older->newer = x->newer;
	else
		c->oldest = x->newer;
	if (x->newer != NULL)
		x->newer->older = x->older;
	else
		c->newest = x->older;
	x->older = x->newer = NULL;
}

static void entry_push(struct entry *x)
{
	struct index_cache *c = x->cache;
	x->older = c->newest;
	x->newer = NULL;
	if (c->newest != NULL)
		c->newest->newer = x;
	else
		c->oldest = x;
	c->newest = x;
}

static void entry_free(struct entry *x)
{
	struct index_cache *c = x->cache;
	must(x->waits == NULL);
	env_timer_stop(c->env, &x->timer);
	if (x->ready) {
		entry_unlink(x);
		c->bytes -= x->memory;
		c->n_ready--;
	}
	HASH_DEL(c->entries, x);
	data_top_free(x->top);
	free(x->page);
	free(x);
}

void index_cache_free(struct index_cache *c)
{
	struct entry *x, *next;
	if (c == NULL)
		return;
	HASH_ITER(hh, c->entries, x, next)
		entry_free(x);
	free(c);
}

uint64_t index_cache_bytes(const struct index_cache *c)
{
	return c->bytes;
}

/* Never the last few: a lookup needs a top and a page of it at the same time, however large they are. */
static void cache_shrink(struct index_cache *c)
{
	while (c->bytes > c->bytes_max && c->n_ready > bounds.index_kept)
		entry_free(c->oldest);
}

void index_wait_stop(struct index_wait *w)
{
	if (w->prev == NULL)
		return;
	*w->prev = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	w->prev = NULL;
}

static void wait_link(struct index_wait **list, struct index_wait *w)
{
	must(w->prev == NULL);
	w->next = *list;
	w->prev = list;
	if (*list != NULL)
		(*list)->prev = &w->next;
	*list = w;
}

/* Those that wait now; who asks again from its callback waits anew. fault is final: the entry goes. */
static void entry_wake(struct entry *x, const char *fault, bool missing)
{
	struct index_wait *mine = x->waits;
	char text[300];
	x->waits = NULL;
	if (mine != NULL)
		mine->prev = &mine;
	if (fault != NULL) {
		snprintf(text, sizeof(text), "%s", fault);
		fault = text;
		entry_free(x);
	}
	while (mine != NULL) {
		struct index_wait *w = mine;
		index_wait_stop(w);
		w->on_ready(w, fault, missing);
	}
}

static void entry_ready(struct entry *x)
{
	struct index_cache *c = x->cache;
	x->ready = true;
	x->memory = ENTRY_OVERHEAD + x->page_length + (x->top != NULL ? data_top_memory(x->top) : 0);
	c->bytes += x->memory;
	c->n_ready++;
	entry_push(x);
	cache_shrink(c);
	entry_wake(x, NULL, false);
}

/* ---------------------------------------------------------------------- GET */

static void on_get_again(void *arg)
{
	struct entry *x = arg;
	if (x->waits == NULL)
		entry_free(x);
	else
		entry_get(x);
}

static void entry_again(struct entry *x)
{
	struct env *env = x->cache->env;
	x->timer = (struct env_timer){ .on_fire = on_get_again, .arg = x };
	env_timer_start(env, &x->timer, backoff_next(env, &backoff_read, &x->backoff_ms));
}

static void entry_damaged(struct entry *x, const char *what, const char *fault)
{
	char text[300];
	if (++x->n_faults < FAULTS_MAX) {
		entry_again(x);
		return;
	}
	snprintf(text, sizeof(text), "%s: %s", what, fault);
	entry_wake(x, text, false);
}

/* The object's end: decodes the top, or asks for more of it (*ret_more). NULL or a fault. */
static const char *top_take(struct entry *x, struct slice data, uint64_t size, bool *ret_more)
{
	struct data_footer f;
	*ret_more = false;
	if (data.n < DATA_FOOTER)
		return "it is shorter than a footer";
	const char *fault = data_footer_decode(slice_of(data.p + data.n - DATA_FOOTER, DATA_FOOTER), size, key_id(&x->key), &f);
	if (fault != NULL)
		return fault;
	uint64_t need = size - f.top_position;
	if (need > data.n) {
		x->tail = need;
		*ret_more = true;
		return NULL;
	}
	return data_top_decode(slice_of(data.p + data.n - need, f.top_length), &f, &x->top);
}

static const char *page_take(struct entry *x, struct slice data)
{
	const char *fault = x->is_state ? data_state_page_check(data, &x->want) : data_index_page_check(data, &x->want);
	if (fault != NULL)
		return fault;
	x->page = must_memdup(data.p, data.n);
	x->page_length = (uint32_t)data.n;
	return NULL;
}

static void entry_take(struct entry *x, const char *what, struct slice data, uint64_t size)
{
	bool more = false;
	const char *fault = x->key.position == POSITION_TOP ? top_take(x, data, size, &more) : page_take(x, data);
	metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
	if (fault != NULL)
		entry_damaged(x, what, fault);
	else if (more)
		entry_get(x);
	else
		entry_ready(x);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct entry *x = arg;
	x->busy = false;
	if (!x->cache->may_look(x->cache->arg))
		return;
	if (result.outcome == OUTCOME_OK)
		entry_take(x, result.what, data, size);
	else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -ENOENT)
		entry_wake(x, "it is missing", true);
	else
		entry_again(x);
}

static void entry_get(struct entry *x)
{
	char key[DATA_KEY_MAX];
	data_key(key, key_id(&x->key));
	x->busy = true;
	metric_add(METRIC_STORE_GETS, 1);
	if (x->key.position == POSITION_TOP)
		objstore_get_suffix(x->cache->store, key, x->tail, on_got, x);
	else
		objstore_get(x->cache->store, key, x->want.position, x->want.length, on_got, x);
}

/* ------------------------------------------------------------------- asking */

/* What is asked: a top, or a page of it. */
struct want {
	struct object_id id;
	const struct data_page *page;   /* NULL: the top */
	bool is_state;
};

static struct entry *entry_new(struct index_cache *c, const struct entry_key *key, const struct want *want)
{
	struct entry *x = must_calloc(1, sizeof(*x));
	x->key = *key;
	x->cache = c;
	x->tail = bounds.tail_guess;
	x->is_state = want->is_state;
	if (want->page != NULL)
		x->want = *want->page;
	HASH_ADD(hh, c->entries, key, sizeof(x->key), x);
	return x;
}

/* The entry, ready or now being read. */
static struct entry *entry_want(struct index_cache *c, const struct want *want, struct index_wait *w)
{
	struct entry_key key;
	struct entry *x;
	memset(&key, 0, sizeof(key));
	key.node = want->id.node;
	key.session = want->id.session;
	key.number = want->id.number;
	key.position = want->page != NULL ? want->page->position : POSITION_TOP;
	HASH_FIND(hh, c->entries, &key, sizeof(key), x);
	if (x != NULL && x->ready) {
		entry_unlink(x);
		entry_push(x);
		return x;
	}
	bool begins = x == NULL;
	if (begins)
		x = entry_new(c, &key, want);
	wait_link(&x->waits, w);
	if (begins)
		entry_get(x);
	return x;
}

const struct data_top *index_cache_top(struct index_cache *c, struct object_id id, struct index_wait *w)
{
	return entry_want(c, &(struct want){ .id = id }, w)->top;
}

struct slice index_cache_index_page(struct index_cache *c, struct object_id id, const struct data_page *p,
				    struct index_wait *w)
{
	struct entry *x = entry_want(c, &(struct want){ .id = id, .page = p }, w);
	return slice_of(x->page, x->page_length);
}

struct slice index_cache_state_page(struct index_cache *c, struct object_id id, const struct data_page *p,
				    struct index_wait *w)
{
	struct entry *x = entry_want(c, &(struct want){ .id = id, .page = p, .is_state = true }, w);
	return slice_of(x->page, x->page_length);
}
