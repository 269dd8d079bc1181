/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports: all entities of the state as one object `meta/<idx>` beside the records, so that a lost database can be
 * built again from the store alone. The state is encoded in slices of EXPORT_SLICE_NS a turn; the object is put once,
 * under If-None-Match; then all exports but the last two are deleted. What fails is given up and tried again with a newer
 * state.
 *
 *   idle -> encode -> put -> list -> delete -> idle
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/crc32c.h"
#include "common/metrics.h"
#include "common/must.h"
#include "storaged/meta/meta_priv.h"

#define FIRST_MS 10000u                 /* after the node began to serve */
#define BYTES_A_SECOND (1u << 20)       /* on average, when a snapshot was written since the last; else a tenth */
#define LAST_MS 5000u                   /* what an ordered stop gives the last one */
#define LAST_TOPICS_MAX 50000u          /* a stop makes none of more */
#define TURN_MS 1u
#define EXPORT_SLICE_NS 1500000u
#define SLICE_STEPS 64u
#define STEP_ENTITIES 16u               /* each may have 1,024 partitions */
#define CHUNK (1u << 20)
#define KEPT 2u
#define LIST_MAX 1000u

static void look(void *arg);

/* ---------------------------------------------------------------------- end */

static void forget(struct meta_export *x)
{
	for (size_t i = 0; i < x->n_iov; i++)
		free(x->iov[i].iov_base);
	free(x->iov);
	x->iov = NULL;
	x->n_iov = x->capacity = x->room = 0;
}

static void later(struct meta *m, uint64_t ms, void (*on_fire)(void *arg))
{
	m->export.timer.on_fire = on_fire;
	m->export.timer.arg = m;
	env_timer_start(m->env, &m->export.timer, env_now_ms(m->env) + ms);
}

static void look_later(struct meta *m, uint64_t ms)
{
	later(m, ms, look);
}

static void tell(struct meta *m, const char *fault)
{
	struct meta_export *x = &m->export;
	meta_export_cb *cb = x->cb;
	x->cb = NULL;
	if (cb != NULL)
		cb(x->cb_arg, x->done_idx, x->done_bytes, fault);
}

/* Back to idle, with what went wrong or NULL. */
static void finish(struct meta *m, const char *fault)
{
	struct meta_export *x = &m->export;
	forget(x);
	x->state = EXPORT_IDLE;
	look_later(m, m->config.export_ms);
	tell(m, fault);
}

static void fail(struct meta *m, struct obj_result result)
{
	char text[CLUSTER_TEXT_MAX];
	metric_add(METRIC_META_EXPORT_FAILURES, 1);
	snprintf(text, sizeof(text), "%.500s: %s", result.what == NULL ? m->check.store[0]->url : result.what,
		 strerror(-result.err));
	finish(m, text);
}

/* -------------------------------------------------------- the ones before it */

static void on_deleted(void *arg, struct obj_result result)
{
	finish(arg, NULL);      /* those that are left go next time */
}

static void on_listed(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct meta *m = arg;
	const char *keys[LIST_MAX];
	size_t n_keys = 0, n_exports = 0;
	uint64_t idx;
	for (size_t i = 0; i < n; i++)
		n_exports += export_key_parse(entries[i].key, &idx);
	for (size_t i = 0; i < n && n_keys < LIST_MAX && n_exports - n_keys > KEPT; i++)
		if (export_key_parse(entries[i].key, &idx))
			keys[n_keys++] = entries[i].key;
	if (n_keys == 0) {
		finish(m, NULL);
		return;
	}
	m->export.state = EXPORT_DELETING;
	m->check.store[0]->ops->del(m->check.store[0], keys, n_keys, on_deleted, m);
}

/* ----------------------------------------------------------------------- put */

static void on_put(void *arg, struct obj_result result)
{
	struct meta *m = arg;
	struct meta_export *x = &m->export;
	/* The key names a row of our own session: what stands there is ours, of a put whose answer was lost. */
	bool stored = result.outcome == OUTCOME_OK || (result.outcome == OUTCOME_NOT_APPLIED && result.err == -EEXIST);
	if (!stored) {
		fail(m, result);
		return;
	}
	x->done_idx = x->idx;
	x->done_ms = env_now_ms(m->env);
	x->done_bytes = EXPORT_HEADER + x->n_bytes;
	metric_add(METRIC_META_EXPORTS, 1);
	metric_set(METRIC_META_EXPORT_BYTES, (int64_t)x->done_bytes);
	forget(x);
	x->state = EXPORT_LISTING;
	m->check.store[0]->ops->list(m->check.store[0], "meta/", NULL, LIST_MAX, on_listed, m);
}

static void put(struct meta *m)
{
	struct meta_export *x = &m->export;
	struct export_header h = {
		.idx = x->idx, .n_entities = x->n_entities, .body_len = x->n_bytes, .body_crc = x->crc,
	};
	memcpy(h.uuid, state_cluster_uuid(m->state), 16);
	export_header_encode(x->iov[0].iov_base, &h);
	export_key(x->key, x->idx);
	x->state = EXPORT_PUTTING;
	objstore_put(m->check.store[0], x->key, x->iov, (int)x->n_iov, true, on_put, m);
}

/* -------------------------------------------------------------------- encode */

/* Memory for n bytes behind what stands. */
static uint8_t *room_for(struct meta_export *x, size_t n)
{
	if (x->room < n) {
		if (x->n_iov == x->capacity) {
			x->capacity = x->capacity == 0 ? 16 : 2 * x->capacity;
			x->iov = must_realloc(x->iov, x->capacity * sizeof(*x->iov));
		}
		x->room = n > CHUNK ? n : CHUNK;
		x->iov[x->n_iov++] = (struct iovec){ .iov_base = must_calloc(1, x->room) };
	}
	struct iovec *last = &x->iov[x->n_iov - 1];
	uint8_t *p = (uint8_t *)last->iov_base + last->iov_len;
	last->iov_len += n;
	x->room -= n;
	return p;
}

static void on_entity(void *arg, const struct sql_entity *e)
{
	struct meta_export *x = &((struct meta *)arg)->export;
	if (e->payload.p == NULL)
		return;         /* a deleted key: an export has all that there is */
	size_t n = export_entity_size(e);
	uint8_t *p = room_for(x, n);
	export_entity_encode(p, e);
	x->crc = crc32c_extend(x->crc, p, n);
	x->n_bytes += n;
	x->n_entities++;
}

static void encode_slice(void *arg)
{
	struct meta *m = arg;
	uint64_t began = env_now_ns(m->env);
	for (unsigned i = 0; i < SLICE_STEPS && env_now_ns(m->env) - began < EXPORT_SLICE_NS; i++) {
		if (state_snapshot_step(m->state, STEP_ENTITIES))
			continue;
		state_snapshot_end(m->state);
		put(m);
		return;
	}
	later(m, TURN_MS, encode_slice);
}

static void begin(struct meta *m)
{
	struct meta_export *x = &m->export;
	x->state = EXPORT_ENCODING;
	x->idx = state_idx(m->state);
	x->n_entities = x->n_bytes = 0;
	x->crc = 0;
	room_for(x, EXPORT_HEADER);
	state_snapshot_begin(m->state, 0, on_entity, m);
	encode_slice(m);
}

/* -------------------------------------------------------------- when one is due */

static bool may_begin(const struct meta *m)
{
	return m->export.state == EXPORT_IDLE && !m->refused && !m->ended && !m->must_read && m->session != 0;
}

static bool is_due(const struct meta *m)
{
	const struct meta_export *x = &m->export;
	if (x->done_idx == 0)
		return true;
	uint64_t rate = m->snapshot.base > x->done_idx ? BYTES_A_SECOND : BYTES_A_SECOND / 10;
	uint64_t wait = x->done_bytes * 1000 / rate;
	if (wait < m->config.export_ms)
		wait = m->config.export_ms;
	return state_idx(m->state) > x->done_idx && env_now_ms(m->env) - x->done_ms >= wait;
}

static void look(void *arg)
{
	struct meta *m = arg;
	struct meta_export *x = &m->export;
	if (x->state != EXPORT_IDLE)
		return;
	bool wanted = x->cb != NULL || is_due(m);
	if (!wanted)
		look_later(m, m->config.export_ms);
	else if (!may_begin(m) || m->snapshot.state == SNAPSHOT_ENCODING)
		look_later(m, 100);
	else
		begin(m);
}

/* ----------------------------------------------------------------------- life */

void meta_export_start(struct meta *m)
{
	must(m->export.state == EXPORT_OFF);
	m->export.state = EXPORT_IDLE;
	look_later(m, FIRST_MS < m->config.export_ms ? FIRST_MS : m->config.export_ms);
}

int meta_export_now(struct meta *m, meta_export_cb *cb, void *arg)
{
	struct meta_export *x = &m->export;
	if (x->state != EXPORT_IDLE || x->cb != NULL)
		return -EBUSY;
	x->cb = cb;
	x->cb_arg = arg;
	look_later(m, 0);
	return 0;
}

void meta_export_forget(struct meta *m)
{
	m->export.cb = NULL;
}

static void on_last(void *arg, uint64_t idx, uint64_t bytes, const char *fault)
{
	struct meta *m = arg;
	void (*done)(void *arg) = m->export.on_last;
	m->export.on_last = NULL;
	env_timer_stop(m->env, &m->export.limit);
	if (done != NULL)
		done(m->export.last_arg);
}

static void on_limit(void *arg)
{
	on_last(arg, 0, 0, "it takes too long");
}

void meta_export_last(struct meta *m, void (*done)(void *arg), void *arg)
{
	struct meta_export *x = &m->export;
	if (!may_begin(m) || state_n_topics(m->state) > LAST_TOPICS_MAX || state_idx(m->state) == x->done_idx ||
	    meta_fault(m) != NULL || meta_export_now(m, on_last, m) != 0) {
		done(arg);
		return;
	}
	x->on_last = done;
	x->last_arg = arg;
	x->limit = (struct env_timer){ .on_fire = on_limit, .arg = m };
	env_timer_start(m->env, &x->limit, env_now_ms(m->env) + LAST_MS);
}

void meta_export_cancel(struct meta *m)
{
	struct meta_export *x = &m->export;
	if (x->state != EXPORT_ENCODING)
		return;
	state_snapshot_end(m->state);
	forget(x);
	x->state = EXPORT_IDLE;
	look_later(m, 100);
}

void meta_export_free(struct meta *m)
{
	env_timer_stop(m->env, &m->export.timer);
	env_timer_stop(m->env, &m->export.limit);
	forget(&m->export);
}
