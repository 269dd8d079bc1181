/* SPDX-License-Identifier: Apache-2.0
 *
 * Incremental snapshots: every so many rows or commands, what changed since the last one is encoded a
 * slice a turn and written in one transaction. The encoded bytes stay until that transaction's outcome is known. When
 * the database stands at another base than ours, what was made is thrown away and the base is read anew.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/meta_priv.h"
#include "storaged/planted.h"

#define SNAPSHOT_SHARE 8                /* of the topics: so many commands are one, if they are more */

static void write_out(struct meta *m);

static void forget(struct meta_snapshot *s)
{
	free(s->entry);
	free(s->bytes);
	s->entry = NULL;
	s->bytes = NULL;
	s->n = s->capacity = s->n_bytes = s->bytes_capacity = 0;
	s->state = SNAPSHOT_IDLE;
	s->backoff_ms = 0;
}

/* ---------------------------------------------------------------- encode */

static size_t keep_bytes(struct meta_snapshot *s, struct slice bytes)
{
	size_t at = s->n_bytes;
	if (s->n_bytes + bytes.n > s->bytes_capacity) {
		s->bytes_capacity = 2 * (s->n_bytes + bytes.n) + 4096;
		s->bytes = must_realloc(s->bytes, s->bytes_capacity);
	}
	if (bytes.n > 0)
		memcpy(s->bytes + at, bytes.p, bytes.n);
	s->n_bytes += bytes.n;
	return at;
}

static void on_entity(void *arg, const struct sql_entity *e)
{
	struct meta_snapshot *s = &((struct meta *)arg)->snapshot;
	if (s->n == s->capacity) {
		s->capacity = s->capacity == 0 ? 256 : 2 * s->capacity;
		s->entry = must_realloc(s->entry, s->capacity * sizeof(s->entry[0]));
	}
	struct snapshot_entry *entry = &s->entry[s->n++];
	*entry = (struct snapshot_entry){ .idx = e->idx, .deleted = e->payload.p == NULL };
	entry->key_len = e->key.n;
	entry->key = keep_bytes(s, e->key);
	entry->payload_len = e->payload.n;
	entry->payload = keep_bytes(s, e->payload);
}

static void later(struct meta *m, uint64_t ms, void (*on_fire)(void *arg))
{
	m->snapshot.timer.on_fire = on_fire;
	m->snapshot.timer.arg = m;
	env_timer_start(m->env, &m->snapshot.timer, env_now_ms(m->env) + ms);
}

static void encode_slice(void *arg)
{
	struct meta *m = arg;
	if (state_snapshot_step(m->state, META_SNAPSHOT_SLICE)) {
		later(m, 1, encode_slice);
		return;
	}
	state_snapshot_end(m->state);
	m->snapshot.state = SNAPSHOT_WRITING;
	write_out(m);
}

/* Keys of topics are random, so a snapshot writes to most pages of the table: with many topics it comes less often, and what
 * it writes stays in proportion to what changed. */
static uint64_t commands_of_one(const struct meta *m)
{
	uint64_t share = state_n_topics(m->state) / SNAPSHOT_SHARE;
	return share > META_SNAPSHOT_COMMANDS ? share : META_SNAPSHOT_COMMANDS;
}

void meta_snapshot_look(struct meta *m)
{
	struct meta_snapshot *s = &m->snapshot;
	if (s->state != SNAPSHOT_IDLE || m->session == 0 || m->ended || m->refused || m->must_read ||
	    m->export.state == EXPORT_ENCODING)
		return;
	if (state_idx(m->state) - s->base < m->config.snapshot_rows && s->n_commands < commands_of_one(m))
		return;
	s->state = SNAPSHOT_ENCODING;
	s->idx = state_idx(m->state);
	s->n_commands = 0;
	state_snapshot_begin(m->state, s->base, on_entity, m);
	later(m, 1, encode_slice);
}

/* ---------------------------------------------------------------- write */

static void try_again(struct meta *m, void (*on_fire)(void *arg))
{
	struct meta_snapshot *s = &m->snapshot;
	s->backoff_ms = s->backoff_ms == 0 ? META_BACKOFF_MIN_MS : 2 * s->backoff_ms;
	if (s->backoff_ms > META_BACKOFF_MAX_MS)
		s->backoff_ms = META_BACKOFF_MAX_MS;
	later(m, s->backoff_ms, on_fire);
}

static void on_retry(void *arg)
{
	write_out(arg);
}

static void read_base(void *arg);

static void on_base(void *arg, struct sql_result result, uint64_t idx, const struct sql_entity *entities, size_t n)
{
	struct meta *m = arg;
	if (result.outcome != OUTCOME_OK) {
		try_again(m, read_base);
		return;
	}
	m->snapshot.base = idx;
	if (planted(PLANTED_SNAPSHOT_WITHOUT_BASE)) {
		write_out(m);
		return;
	}
	if (idx <= state_idx(m->state))
		state_covered(m->state, idx);
	else
		m->loaded = false;      /* a later snapshot than our state: take it */
	forget(&m->snapshot);
	meta_kick(m);
}

static void read_base(void *arg)
{
	struct meta *m = arg;
	m->sql->ops->snapshot_read(m->sql, on_base, m);
}

static void on_written(void *arg, struct sql_result result)
{
	struct meta *m = arg;
	struct meta_snapshot *s = &m->snapshot;
	switch (result.outcome) {
	case OUTCOME_OK:
		if (s->idx > s->base)
			s->base = s->idx;
		state_covered(m->state, s->idx);
		forget(s);
		meta_kick(m);
		break;
	case OUTCOME_NOT_APPLIED:
		if (result.err == -EEXIST)
			read_base(m);
		else
			try_again(m, on_retry);
		break;
	case OUTCOME_UNKNOWN:
		try_again(m, on_retry);
		break;
	}
}

static void write_out(struct meta *m)
{
	struct meta_snapshot *s = &m->snapshot;
	struct sql_entity *changes = must_calloc(s->n, sizeof(*changes));
	for (size_t i = 0; i < s->n; i++) {
		const struct snapshot_entry *e = &s->entry[i];
		changes[i] = (struct sql_entity){
			.key = slice_of(s->bytes + e->key, e->key_len), .idx = e->idx,
			.payload = slice_of(e->deleted ? NULL : s->bytes + e->payload, e->payload_len),
		};
	}
	uint64_t keep_from = s->idx > m->config.rows_kept ? s->idx - m->config.rows_kept : 0;
	m->sql->ops->snapshot_write(m->sql, s->base, s->idx, changes, s->n, keep_from, on_written, m);
	free(changes);
}

void meta_snapshot_cancel(struct meta *m)
{
	if (m->snapshot.state != SNAPSHOT_ENCODING)
		return;
	env_timer_stop(m->env, &m->snapshot.timer);
	state_snapshot_end(m->state);
	forget(&m->snapshot);
}

void meta_snapshot_free(struct meta *m)
{
	env_timer_stop(m->env, &m->snapshot.timer);
	forget(&m->snapshot);
}
