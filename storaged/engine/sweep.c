/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists are walked page by page, each page judged by the state as it is when the page has come, and what may go of it is
 * deleted before the next page. An object that was listed before its commit and is judged after it is catalogued, or
 * was and is marked or forgotten: deleted twice does no harm.
 */
#include "storaged/engine/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/planted.h"

#define PAGE_MAX 1000u
#define RETRY_MS 60000u
#define FORGOTTEN_MS 10000u             /* what was given up goes that soon */
#define PREFIX_MAX 32u

enum sweep_phase { SWEEP_IDLE, SWEEP_DATA, SWEEP_UPLOADS, SWEEP_WAL };

struct sweep {
	struct engine *engine;
	enum sweep_phase phase;
	struct env_timer timer;
	uint64_t n_unknown;             /* in this round */
	char *after, *after_id;         /* last of the page; owned; NULL: the list begins */
	bool more;
	char *keys[PAGE_MAX], *ids[PAGE_MAX];   /* may go; ids: of uploads */
	size_t n, at;                   /* at: upload being aborted */
	struct object_id *forgotten;    /* kept: a put that is late comes after its delete */
	size_t n_forgotten;
	bool again;                     /* something was given up during this round */
};

static void sweep_page(struct sweep *s);

static void keys_free(struct sweep *s)
{
	while (s->n > 0) {
		s->n--;
		free(s->keys[s->n]);
		free(s->ids[s->n]);
		s->ids[s->n] = NULL;
	}
	s->at = 0;
}

static void cursor_set(struct sweep *s, const char *key, const char *id)
{
	free(s->after);
	free(s->after_id);
	s->after = key != NULL ? must_memdup(key, strlen(key) + 1) : NULL;
	s->after_id = id != NULL ? must_memdup(id, strlen(id) + 1) : NULL;
}

/* ------------------------------------------------------------------- judgement */

static bool is_forgotten(const struct sweep *s, struct object_id id)
{
	for (size_t i = 0; i < s->n_forgotten; i++)
		if (object_id_is_equal(s->forgotten[i], id))
			return true;
	return false;
}

static bool data_may_go(struct sweep *s, const char *key)
{
	struct engine *e = s->engine;
	struct object_id id;
	uint64_t watermark;
	if (!data_key_parse(key, &id) || id.node != e->config.node) {
		s->n_unknown++;
		return false;
	}
	if (catalogue_find(engine_catalogue(e), id) != NULL)
		return false;
	switch (e->events.session(e->arg, id.session, &watermark)) {
	case ENGINE_SESSION_UNKNOWN:
		s->n_unknown++;
		return false;
	case ENGINE_SESSION_ACTIVE:
		return is_forgotten(s, id) || planted(PLANTED_SWEEP_BY_AGE);
	case ENGINE_SESSION_ENDED:
	case ENGINE_SESSION_RECOVERED:
		return true;
	}
	return false;
}

/* Both kinds of keys name node, session and number in the same way. */
static bool wal_key_parse(const char *key, struct object_id *ret_id)
{
	char text[DATA_KEY_MAX];
	int n = snprintf(text, sizeof(text), "data%s", key + strlen("wal"));
	return n < (int)sizeof(text) && data_key_parse(text, ret_id);
}

static bool wal_may_go(struct sweep *s, const char *key)
{
	struct engine *e = s->engine;
	struct object_id id;            /* number: the seq */
	uint64_t watermark;
	if (!wal_key_parse(key, &id) || id.node != e->config.node) {
		s->n_unknown++;
		return false;
	}
	switch (e->events.session(e->arg, id.session, &watermark)) {
	case ENGINE_SESSION_UNKNOWN:
		s->n_unknown++;
		return false;
	case ENGINE_SESSION_ACTIVE:
		return id.number > 0 && id.number < watermark;
	case ENGINE_SESSION_ENDED:
		return id.number < watermark;
	case ENGINE_SESSION_RECOVERED:  /* whoever is late finds the cut; above it nothing is ever acknowledged or read */
		return id.number != watermark;
	}
	return false;
}

/* ----------------------------------------------------------------------- steps */

static void sweep_wait(struct sweep *s, uint64_t ms)
{
	s->phase = SWEEP_IDLE;
	cursor_set(s, NULL, NULL);
	if (s->again && ms > FORGOTTEN_MS)
		ms = FORGOTTEN_MS;
	s->again = false;
	env_timer_start(s->engine->env, &s->timer, env_now_ms(s->engine->env) + ms);
}

static void sweep_next(struct sweep *s)
{
	keys_free(s);
	if (s->more) {
		sweep_page(s);
		return;
	}
	cursor_set(s, NULL, NULL);
	if (s->phase == SWEEP_WAL) {
		metric_set(METRIC_ORPHANS_UNKNOWN, (int64_t)s->n_unknown);
		sweep_wait(s, s->engine->config.sweep_interval_ms);
		return;
	}
	s->phase++;
	sweep_page(s);
}

/* false: the process is leaving, or it is tried again later. */
static bool answer_is_good(struct sweep *s, struct obj_result result)
{
	if (!wal_may_look(&s->engine->wal))
		return false;
	if (result.outcome == OUTCOME_OK)
		return true;
	keys_free(s);
	sweep_wait(s, RETRY_MS < s->engine->config.sweep_interval_ms ? RETRY_MS : s->engine->config.sweep_interval_ms);
	return false;
}

static void on_deleted(void *arg, struct obj_result result)
{
	struct sweep *s = arg;
	if (!answer_is_good(s, result))
		return;
	metric_add(METRIC_ORPHANS_DELETED, (int64_t)s->n);
	sweep_next(s);
}

static void on_list(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct sweep *s = arg;
	if (!answer_is_good(s, result))
		return;
	bool is_wal = s->phase == SWEEP_WAL;
	struct objstore *store = is_wal ? s->engine->store : s->engine->data;
	for (size_t i = 0; i < n && i < PAGE_MAX; i++)
		if (is_wal ? wal_may_go(s, entries[i].key) : data_may_go(s, entries[i].key))
			s->keys[s->n++] = must_memdup(entries[i].key, strlen(entries[i].key) + 1);
	s->more = more && n > 0;
	if (n > 0)
		cursor_set(s, entries[n - 1].key, NULL);
	if (s->n > 0)
		store->ops->del(store, (const char *const *)s->keys, s->n, on_deleted, s);
	else
		sweep_next(s);
}

static void on_aborted(void *arg, struct obj_result result)
{
	struct sweep *s = arg;
	struct objstore *store = s->engine->data;
	if (s->at > 0 && !answer_is_good(s, result))
		return;
	if (s->at == s->n) {
		metric_add(METRIC_ORPHANS_DELETED, (int64_t)s->n);
		sweep_next(s);
		return;
	}
	struct obj_upload_entry x = { .key = s->keys[s->at], .id = s->ids[s->at] };
	s->at++;
	store->ops->abort_upload(store, &x, on_aborted, s);
}

static void on_uploads(void *arg, struct obj_result result, const struct obj_upload_entry *entries, size_t n, bool more)
{
	struct sweep *s = arg;
	if (!answer_is_good(s, result))
		return;
	for (size_t i = 0; i < n && i < PAGE_MAX; i++) {
		if (!data_may_go(s, entries[i].key))
			continue;
		s->keys[s->n] = must_memdup(entries[i].key, strlen(entries[i].key) + 1);
		s->ids[s->n++] = must_memdup(entries[i].id, strlen(entries[i].id) + 1);
	}
	s->more = more && n > 0;
	if (n > 0)
		cursor_set(s, entries[n - 1].key, entries[n - 1].id);
	on_aborted(s, (struct obj_result){ .outcome = OUTCOME_OK });
}

static void sweep_page(struct sweep *s)
{
	struct engine *e = s->engine;
	char prefix[PREFIX_MAX];
	if (e->dead || e->stopping)
		return;
	snprintf(prefix, sizeof(prefix), "%s/%" PRIu32 "/", s->phase == SWEEP_WAL ? "wal" : "data", e->config.node);
	struct objstore *store = s->phase == SWEEP_WAL ? e->store : e->data;
	struct obj_upload_entry after = { .key = s->after, .id = s->after_id };
	if (s->phase == SWEEP_UPLOADS)
		store->ops->list_uploads(store, prefix, s->after != NULL ? &after : NULL, bounds.sweep_page, on_uploads, s);
	else
		store->ops->list(store, prefix, s->after, bounds.sweep_page, on_list, s);
}

static void on_timer(void *arg)
{
	sweep_begin(arg);
}

void sweep_begin(struct sweep *s)
{
	if (s->phase != SWEEP_IDLE) {
		s->again = true;
		return;
	}
	env_timer_stop(s->engine->env, &s->timer);
	s->phase = SWEEP_DATA;
	s->n_unknown = 0;
	sweep_page(s);
}

void sweep_forget(struct sweep *s, struct object_id id)
{
	if (s->n_forgotten == bounds.sweep_forgotten)
		return;
	s->forgotten = must_realloc(s->forgotten, (s->n_forgotten + 1) * sizeof(*s->forgotten));
	s->forgotten[s->n_forgotten++] = id;
	uint64_t soon = env_now_ms(s->engine->env) + FORGOTTEN_MS;
	if (s->phase != SWEEP_IDLE)
		s->again = true;
	else if (s->timer.at_ms > soon)
		env_timer_start(s->engine->env, &s->timer, soon);
}

struct sweep *sweep_new(struct engine *e)
{
	struct sweep *s = must_calloc(1, sizeof(*s));
	s->engine = e;
	s->timer = (struct env_timer){ .on_fire = on_timer, .arg = s };
	return s;
}

void sweep_free(struct sweep *s)
{
	if (s == NULL)
		return;
	env_timer_stop(s->engine->env, &s->timer);
	keys_free(s);
	cursor_set(s, NULL, NULL);
	free(s->forgotten);
	free(s);
}
