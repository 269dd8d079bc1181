/* SPDX-License-Identifier: Apache-2.0
 *
 * Collect -> delete -> propose -> collect again. The delay is for readers that found the object before it was marked.
 */
#include "storaged/engine/gc_delete.h"

#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/bounds.h"

#define BACKOFF_MS 5000u

struct gc_delete {
	struct engine *engine;
	struct object_id *ids;          /* bounds.gc_keys */
	size_t n;
	bool busy;                      /* with these */
	struct env_timer timer;
};

static void on_timer(void *arg)
{
	gc_delete_consider(arg);
}

static void delete_wait(struct gc_delete *d, uint64_t ms)
{
	d->busy = false;
	env_timer_start(d->engine->env, &d->timer, env_now_ms(d->engine->env) + ms);
}

static void on_forgotten(void *arg, bool applied, const char *why)
{
	struct gc_delete *d = arg;
	if (d->engine->dead)
		return;
	if (!applied) {
		delete_wait(d, BACKOFF_MS);
		return;
	}
	metric_add(METRIC_GC_DELETED, (int64_t)d->n);
	d->busy = false;
	gc_delete_consider(d);
}

static void on_deleted(void *arg, struct obj_result result)
{
	struct gc_delete *d = arg;
	struct engine *e = d->engine;
	if (!wal_may_look(&e->wal))
		return;
	if (result.outcome == OUTCOME_OK)
		e->events.deleted(e->arg, d->ids, d->n, on_forgotten, d);
	else
		delete_wait(d, BACKOFF_MS);
}

static void delete_send(struct gc_delete *d)
{
	char (*text)[DATA_KEY_MAX] = must_calloc(d->n, sizeof(*text));
	const char **keys = must_calloc(d->n, sizeof(*keys));
	for (size_t i = 0; i < d->n; i++) {
		data_key(text[i], d->ids[i]);
		keys[i] = text[i];
	}
	d->busy = true;
	d->engine->data->ops->del(d->engine->data, keys, d->n, on_deleted, d);
	free(keys);
	free(text);
}

/* Those that are due. Returns the ms until the next one is, UINT64_MAX: none. */
static uint64_t collect(struct gc_delete *d)
{
	struct engine *e = d->engine;
	int64_t due = stamp_now_ms(&e->stamp, e->env) - (int64_t)e->config.gc_delay_ms;
	const struct object_row *row = NULL;
	d->n = 0;
	while ((row = catalogue_next_marked(engine_catalogue(e), row)) != NULL && d->n < bounds.gc_keys) {
		if (row->id.node != e->config.node)
			continue;
		if (row->marked_ms > due)
			return (uint64_t)(row->marked_ms - due);
		d->ids[d->n++] = row->id;
	}
	return UINT64_MAX;
}

void gc_delete_consider(struct gc_delete *d)
{
	const struct engine *e = d->engine;
	if (d->busy || !e->serving || e->dead || e->stopping)
		return;
	uint64_t ms = collect(d);
	env_timer_stop(e->env, &d->timer);
	if (d->n > 0)
		delete_send(d);
	else if (ms != UINT64_MAX)
		env_timer_start(e->env, &d->timer, env_now_ms(e->env) + ms);
}

struct gc_delete *gc_delete_new(struct engine *e)
{
	struct gc_delete *d = must_calloc(1, sizeof(*d));
	d->engine = e;
	d->ids = must_calloc(bounds.gc_keys, sizeof(*d->ids));
	d->timer = (struct env_timer){ .on_fire = on_timer, .arg = d };
	return d;
}

void gc_delete_free(struct gc_delete *d)
{
	env_timer_stop(d->engine->env, &d->timer);
	free(d->ids);
	free(d);
}
