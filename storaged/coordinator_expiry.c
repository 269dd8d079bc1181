/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets that have outlived their group: a pass over all groups, those not in memory are read for it. An offset goes when its
 * own time is over, when the group has been empty for long enough (KIP-211), or when its topic is gone; a group goes when
 * nothing is left of it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "storaged/coordinator_impl.h"

#define SWEEP_MAX_MS 86400000u
#define SWEEP_MIN_MS 1000u
#define SWEEP_STEP_MS 20u               /* between two groups of a pass */
#define GONE_MAX 1000u                  /* keys in a record, records a pass */

/* ------------------------------------------------------------------- one group */

static bool has_expired(const struct group_entry *entry, const struct offset_entry *e, int64_t now_ms)
{
	int64_t retention = (int64_t)entry->coordinator->retention_ms;
	int64_t since = e->commit_ms > entry->empty_since_ms ? e->commit_ms : entry->empty_since_ms;
	if (e->expires_ms >= 0)
		return e->expires_ms <= now_ms;
	return group_state(entry->group) == IPC__GROUP_STATE__EMPTY && since <= now_ms - retention;
}

static void write_gone(struct group_entry *entry, const struct offset_key *key, size_t n)
{
	struct buf b;
	buf_init(&b, 64 + n * sizeof(*key));
	offsets_write_gone(&b, key, n);
	must(!b.failed);
	entry_write(entry, slice_of(must_memdup(buf_head(&b), buf_len(&b)), buf_len(&b)), NULL, NULL);
	buf_done(&b);
}

/* The group itself: nobody is in it, nothing is kept, and nothing was lately. */
static bool is_over(const struct group_entry *entry, int64_t now_ms)
{
	return group_state(entry->group) == IPC__GROUP_STATE__EMPTY && offsets_next(&entry->offsets, NULL) == NULL &&
	       entry->queue == NULL && !entry->writing &&
	       entry->empty_since_ms <= now_ms - (int64_t)entry->coordinator->retention_ms;
}

void entry_expire(struct group_entry *entry)
{
	int64_t now_ms = group_entry_stamp_ms(entry);
	size_t n = 0, max = (entry_record_max(entry) - 64) / sizeof(struct offset_key);
	if (max > GONE_MAX)
		max = GONE_MAX;
	struct offset_key *gone = must_calloc(max, sizeof(*gone));
	const struct offset_entry *e = offsets_next(&entry->offsets, NULL);
	for (; e != NULL && n < max; e = offsets_next(&entry->offsets, &e->key))
		if (has_expired(entry, e, now_ms) || !entry_keeps(entry, e))
			gone[n++] = e->key;
	if (n > 0)
		write_gone(entry, gone, n);
	else if (is_over(entry, now_ms))
		group_entry_delete(entry);
	free(gone);
}

/* ---------------------------------------------------------------------- all of them */

static bool hex_read(const char *hex, uint8_t *ret, size_t *ret_n)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(hex) / 2;
	*ret_n = n;
	for (size_t i = 0; i < 2 * n; i++) {
		const char *d = strchr(digits, hex[i]);
		if (n > GROUP_ID_MAX || d == NULL)
			return false;
		ret[i / 2] = (uint8_t)(ret[i / 2] << 4 | (d - digits));
	}
	return n > 0 && strlen(hex) % 2 == 0;
}

const struct state_topic *coordinator_next(const struct coordinator *co, const char *after, uint8_t ret_id[static GROUP_ID_MAX],
					   size_t *ret_n)
{
	const struct state *s = meta_state(co->node->meta);
	const struct state_topic *t = state_topic_next(s, slice_str(after));
	for (; t != NULL && strncmp(t->name, GROUPS_PREFIX, strlen(GROUPS_PREFIX)) == 0; t = state_topic_next(s, slice_str(t->name)))
		if (hex_read(t->name + strlen(GROUPS_PREFIX), ret_id, ret_n))
			return t;
	return NULL;
}

static void sweep_later(struct coordinator *co, uint64_t ms)
{
	env_timer_start(co->node->env, &co->sweep, env_now_ms(co->node->env) + ms);
}

static uint64_t sweep_interval_ms(const struct coordinator *co)
{
	uint64_t ms = co->retention_ms / 8;
	return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms < SWEEP_MAX_MS ? ms : SWEEP_MAX_MS;
}

/* One that nobody uses was loaded for this alone. */
static bool is_idle(const struct group_entry *entry)
{
	return entry->state == ENTRY_READY && group_state(entry->group) == IPC__GROUP_STATE__EMPTY && entry->queue == NULL &&
	       !entry->writing && !entry->dirty && group_deadline(entry->group) == UINT64_MAX;
}

static void sweep_one(struct group_entry *entry)
{
	entry_expire(entry);
	if (!is_idle(entry))
		return;
	entry_forget(entry);
	entry_maybe_free(entry);
}

/* A group a step: those not in memory are read for it, and forgotten again. */
static void on_sweep(void *arg)
{
	struct coordinator *co = arg;
	uint8_t id[GROUP_ID_MAX];
	size_t n;
	const struct state_topic *t = coordinator_next(co, co->swept, id, &n);
	if (t == NULL) {
		strcpy(co->swept, GROUPS_PREFIX);
		sweep_later(co, sweep_interval_ms(co));
		return;
	}
	struct group_entry *entry = coordinator_find(co, slice_of(id, n));
	bool here = node_log(co->node, t, 0) != NULL;
	if (entry == NULL && here)
		entry = entry_open(co, slice_of(id, n), t->id);
	if (entry != NULL && entry->state == ENTRY_LOADING && co->sweep_waits++ < SWEEP_WAITS_MAX) {
		sweep_later(co, SWEEP_STEP_MS);
		return;
	}
	co->sweep_waits = 0;
	snprintf(co->swept, sizeof(co->swept), "%s", t->name);
	if (entry != NULL && entry->state == ENTRY_READY)
		sweep_one(entry);
	sweep_later(co, SWEEP_STEP_MS);
}

void coordinator_sweep_init(struct coordinator *co)
{
	co->sweep = (struct env_timer){ .on_fire = on_sweep, .arg = co };
	strcpy(co->swept, GROUPS_PREFIX);
}

void coordinator_start(struct coordinator *co)
{
	sweep_later(co, sweep_interval_ms(co));
}
