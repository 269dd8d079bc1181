/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds over all objects of this node, one object a tick. Of each some index pages are read, evenly spread when there are
 * many; what they say of dead and living blocks stands for the whole. Those found more than half dead are remembered.
 */
#include "storaged/engine/rewrite.h"

#include <stdlib.h>
#include <uthash.h>

#include "storaged/engine/damage.h"
#include "storaged/engine/merge.h"

#define PAGES_MAX 8u                   /* that are read of an object */
#define TICKS 600u                      /* within the patience */
#define TICK_MIN_MS 10u

struct suspect_key {
	uint64_t session, number;
	uint32_t node, zero;
};

struct suspect {
	UT_hash_handle hh;
	struct suspect_key key;
	uint64_t dead;                  /* bytes, when it was weighed last */
	uint64_t since_ms, same_since_ms;       /* monotonic: it is more than half dead; dead did not change */
	uint64_t round;                 /* in which it was seen last */
};

struct rewriter {
	struct engine *engine;
	struct object_id id;            /* at hand, or the last one that is through */
	bool begun, weighing;
	size_t page;                    /* of its index pages looked at */
	uint64_t dead, all;             /* bytes of blocks in these */
	uint64_t round;
	bool died, died_before;         /* something did in this round; in the one before */
	struct suspect *suspects;       /* hash */
	struct index_wait wait;
	struct env_timer timer;
};

static void tick_later(struct rewriter *r)
{
	struct engine *e = r->engine;
	uint64_t ms = e->config.rewrite_patience_ms / TICKS;
	env_timer_start(e->env, &r->timer, env_now_ms(e->env) + (ms > TICK_MIN_MS ? ms : TICK_MIN_MS));
}

/* ------------------------------------------------------------------ suspects */

static struct suspect *suspect_find(const struct rewriter *r)
{
	struct suspect *s;
	struct suspect_key key = { .session = r->id.session, .number = r->id.number, .node = r->id.node };
	HASH_FIND(hh, r->suspects, &key, sizeof(key), s);
	return s;
}

static void suspect_drop(struct rewriter *r, struct suspect *s)
{
	if (s == NULL)
		return;
	HASH_DEL(r->suspects, s);
	free(s);
}

static void suspect_note(struct rewriter *r)
{
	struct suspect *s = suspect_find(r);
	uint64_t now = env_now_ms(r->engine->env);
	if (s == NULL) {
		s = must_calloc(1, sizeof(*s));
		s->key = (struct suspect_key){ .session = r->id.session, .number = r->id.number, .node = r->id.node };
		s->since_ms = s->same_since_ms = now;
		s->dead = r->dead;
		HASH_ADD(hh, r->suspects, key, sizeof(s->key), s);
	}
	if (s->dead != r->dead)
		s->same_since_ms = now;
	s->dead = r->dead;
	s->round = r->round;
}

static bool is_ripe(const struct rewriter *r, const struct suspect *s, const struct object_row *row)
{
	uint64_t now = env_now_ms(r->engine->env), patience = r->engine->config.rewrite_patience_ms;
	if (now - s->same_since_ms >= patience)
		return true;
	return row->level != DATA_LEVEL_SINGLE && now - s->since_ms >= patience && r->dead / 3 > r->all - r->dead;
}

/* Objects that went take what was known of them along. */
static void suspects_sift(struct rewriter *r)
{
	struct suspect *s, *next;
	HASH_ITER(hh, r->suspects, s, next)
		if (s->round != r->round)
			suspect_drop(r, s);
}

/* -------------------------------------------------------------------- weigh */

static void page_weigh(struct rewriter *r, struct slice page)
{
	for (size_t i = 0; i < data_index_page_count(page); i++) {
		struct data_index_entry x;
		data_index_page_get(page, i, &x);
		r->all += x.length;
		if (x.end <= r->engine->events.living(r->engine->arg, x.log_id))
			r->dead += x.length;
	}
}

/* false: something is being read. */
static bool object_weigh(struct rewriter *r)
{
	struct index_cache *index = r->engine->index;
	for (;;) {
		const struct data_top *top = index_cache_top(index, r->id, &r->wait);
		if (top == NULL)
			return false;
		size_t n = top->n_index < PAGES_MAX ? top->n_index : PAGES_MAX;
		if (r->page == n)
			return true;
		struct slice page = index_cache_index_page(index, r->id, &top->index[r->page * top->n_index / n], &r->wait);
		if (page.n == 0)
			return false;
		page_weigh(r, page);
		r->page++;
	}
}

/* The object at hand is through; a merger that has other things to do is asked again. */
static void object_judge(struct rewriter *r)
{
	const struct object_row *row = catalogue_find(engine_catalogue(r->engine), r->id);
	r->weighing = false;
	if (row == NULL || row->marked)
		return;
	if (r->dead <= r->all - r->dead) {
		suspect_drop(r, suspect_find(r));
		return;
	}
	suspect_note(r);
	if (is_ripe(r, suspect_find(r), row))
		merger_rewrite(r->engine->merger, row);
}

/* -------------------------------------------------------------------- rounds */

/* false: the round is over. */
static bool object_next(struct rewriter *r)
{
	const struct engine *e = r->engine;
	const struct object_row *row = catalogue_next(engine_catalogue(e), r->begun ? &r->id : NULL);
	while (row != NULL && (row->marked || row->origin != e->config.node || row->newest_ms == 0 ||
			       damage_has(e->damage, row->id)))
		row = catalogue_next(engine_catalogue(e), &row->id);
	if (row == NULL)
		return false;
	r->id = row->id;
	r->begun = r->weighing = true;
	r->page = 0;
	r->dead = r->all = 0;
	return true;
}

/* The next one begins when there is a reason: something died, or a suspect waits for its time. */
static void round_end(struct rewriter *r)
{
	suspects_sift(r);
	r->begun = false;
	r->round++;
	r->died_before = r->died;
	r->died = false;
	if (r->died_before || r->suspects != NULL)
		tick_later(r);
}

static void step(struct rewriter *r)
{
	const struct engine *e = r->engine;
	if (e->dead || e->stopping || r->wait.prev != NULL)
		return;
	if (!r->weighing && !object_next(r)) {
		round_end(r);
		return;
	}
	if (!object_weigh(r))
		return;
	object_judge(r);
	tick_later(r);
}

static void on_timer(void *arg)
{
	step(arg);
}

static void on_index(struct index_wait *w, const char *fault, bool missing)
{
	struct rewriter *r = (struct rewriter *)((char *)w - offsetof(struct rewriter, wait));
	if (fault != NULL) {
		damage_note(r->engine->damage, r->id, fault, missing);
		r->weighing = false;
	}
	tick_later(r);
}

void rewriter_consider(struct rewriter *r)
{
	r->died = true;
	if (r->engine->serving && r->timer.at_ms == 0 && r->wait.prev == NULL)
		tick_later(r);
}

struct rewriter *rewriter_new(struct engine *e)
{
	struct rewriter *r = must_calloc(1, sizeof(*r));
	r->engine = e;
	r->wait.on_ready = on_index;
	r->timer = (struct env_timer){ .on_fire = on_timer, .arg = r };
	return r;
}

void rewriter_free(struct rewriter *r)
{
	struct suspect *s, *next;
	if (r == NULL)
		return;
	env_timer_stop(r->engine->env, &r->timer);
	index_wait_stop(&r->wait);
	HASH_ITER(hh, r->suspects, s, next)
		suspect_drop(r, s);
	free(r);
}
