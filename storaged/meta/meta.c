/* SPDX-License-Identifier: Apache-2.0
 *
 * See meta.h. step() is the only place that decides: read the snapshot, read to the end, InitCluster,
 * cluster objects, RegisterNode, proposals - the first of these that is not done, one operation at a time. Every
 * answer changes a flag and calls it again. Nothing is sent while must_read is set, so an outcome that is
 * not known is always looked for before it is tried again.
 */
#include "storaged/meta/meta.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/meta_priv.h"

/* ---------------------------------------------------------------- faults, time */

void meta_kick(struct meta *m)
{
	if (m->kick.at_ms == 0)
		env_timer_start(m->env, &m->kick, env_now_ms(m->env));
}

void meta_back_off(struct meta *m, const char *fault)
{
	m->faulty = true;
	snprintf(m->fault, sizeof(m->fault), "%s", fault);
	m->backoff_ms = m->backoff_ms == 0 ? META_BACKOFF_MIN_MS : 2 * m->backoff_ms;
	if (m->backoff_ms > META_BACKOFF_MAX_MS)
		m->backoff_ms = META_BACKOFF_MAX_MS;
	env_timer_start(m->env, &m->retry, env_now_ms(m->env) + m->backoff_ms);
}

static void answered(struct meta *m)
{
	m->faulty = false;
	m->backoff_ms = 0;
}

void meta_refuse(struct meta *m, const char *fmt, ...)
{
	if (m->refused)
		return;
	va_list args;
	va_start(args, fmt);
	vsnprintf(m->fault, sizeof(m->fault), fmt, args);
	va_end(args);
	m->refused = m->faulty = true;
	m->events.on_refused(m->arg, m->fault);
}

/* Stamp time: the wall clock at the start plus monotonic time, pulled towards it by at most 1 s a minute. */
int64_t meta_stamp_ms(struct meta *m)
{
	uint64_t elapsed = env_now_ms(m->env) - m->stamp_at_ms;
	int64_t now = m->stamp_ms + (int64_t)elapsed;
	if (elapsed < 1000)
		return now;
	int64_t off = env_wall_ms(m->env) - now, most = (int64_t)(elapsed / 60);
	now += off > most ? most : off < -most ? -most : off;
	m->stamp_ms = now;
	m->stamp_at_ms += elapsed;
	return now;
}

/* ---------------------------------------------------------------- apply */

struct applying {
	struct meta *m;
	const struct sql_row *row;
};

static void on_command(void *arg, size_t i, const Meta__Command *command, const Meta__Result__One *result)
{
	struct applying *a = arg;
	struct meta *m = a->m;
	m->snapshot.n_commands++;
	if (m->events.on_applied != NULL)
		m->events.on_applied(m->arg, command, result, a->row->idx);
	batch_result(m, a->row, i, result);
}

/* Our own session is still the node's newest and ACTIVE, or the process has to leave. */
static void check_session(struct meta *m)
{
	if (m->session == 0 || m->ended)
		return;
	const struct state_session *e = state_session_next(m->state, m->config.node, m->session - 1);
	if (e != NULL && e->session == m->session && e->state == SESSION_ACTIVE)
		return;
	m->ended = true;
	proposals_abandon(m);
	m->events.on_session_ended(m->arg);
}

static bool apply_decoded(struct meta *m, const struct sql_row *row, const Meta__Row *decoded)
{
	struct applying a = { .m = m, .row = row };
	int err = state_apply_decoded(m->state, row, decoded, on_command, &a);
	if (err == -EBADMSG)
		meta_refuse(m, "%s: row %" PRIu64 " of the command log has no readable commands; restore the database "
			    "from a backup", m->sql->url, row->idx);
	else
		check_session(m);
	return err != -EBADMSG;
}

bool meta_apply(struct meta *m, const struct sql_row *row)
{
	if (row->chain != state_chain_next(state_chain(m->state), row->payload)) {
		meta_refuse(m, "%s: row %" PRIu64 " of the command log does not continue the row before it: the database "
			    "was changed or mixed with another. Restore it from a backup that belongs to this storage",
			    m->sql->url, row->idx);
		return false;
	}
	Meta__Row *decoded = meta__row__unpack(NULL, row->payload.n, row->payload.p);
	if (decoded == NULL) {
		meta_refuse(m, "%s: row %" PRIu64 " of the command log does not decode; restore the database from a "
			    "backup", m->sql->url, row->idx);
		return false;
	}
	bool applied = apply_decoded(m, row, decoded);
	meta__row__free_unpacked(decoded, NULL);
	return applied;
}

/* ---------------------------------------------------------------- read */

static void sql_failed(struct meta *m, struct sql_result result)
{
	if (!m->loaded && result.err == -EBUSY && env_now_ms(m->env) - m->started_ms >= META_BUSY_MS)
		meta_refuse(m, "%s: %s; stop the other one, or give this node a database of its own", m->sql->url,
			    result.text);
	else if (m->session == 0 && result.err == -EBADMSG)
		meta_refuse(m, "%s: %s: this is not the metadata of a node, or it is damaged; give another file, or restore "
			    "a backup", m->sql->url, result.text);
	else
		meta_back_off(m, result.text);
}

static void on_snapshot(void *arg, struct sql_result result, uint64_t idx, const struct sql_entity *entities, size_t n)
{
	struct meta *m = arg;
	m->busy = false;
	if (result.outcome != OUTCOME_OK) {
		sql_failed(m, result);
		return;
	}
	answered(m);
	if (idx < state_idx(m->state) || (idx == state_idx(m->state) && idx > 0)) {
		meta_refuse(m, "%s: row %" PRIu64 " of the command log is missing, and the snapshot stands at row %" PRIu64
			    "; restore the database from a backup", m->sql->url, state_idx(m->state) + 1, idx);
		return;
	}
	struct state *fresh = state_new();
	if (idx > 0 && state_load(fresh, idx, entities, n) != 0) {
		state_free(fresh);
		meta_refuse(m, "%s: the snapshot at row %" PRIu64 " is not readable by this release; start a newer one, "
			    "or restore the database from a backup", m->sql->url, idx);
		return;
	}
	meta_snapshot_cancel(m);
	meta_export_cancel(m);
	state_free(m->state);
	m->state = fresh;
	m->loaded = true;
	m->snapshot.base = idx;
	m->must_read = true;
	check_session(m);
	meta_kick(m);
}

/* Whether rows follow the state without a gap. */
static bool apply_rows(struct meta *m, const struct sql_row *rows, size_t n, uint64_t last_idx)
{
	for (size_t i = 0; i < n; i++) {
		if (rows[i].idx <= state_idx(m->state))
			continue;
		if (rows[i].idx != state_idx(m->state) + 1)
			return false;
		if (!meta_apply(m, &rows[i]))
			return true;
	}
	return n > 0 || last_idx <= state_idx(m->state);
}

static void on_rows(void *arg, struct sql_result result, const struct sql_row *rows, size_t n, uint64_t first_idx,
		    uint64_t last_idx)
{
	struct meta *m = arg;
	m->busy = false;
	if (result.outcome != OUTCOME_OK) {
		sql_failed(m, result);
		return;
	}
	if (last_idx < state_idx(m->state)) {
		meta_refuse(m, "%s: the command log ends at row %" PRIu64 ", but row %" PRIu64 " was applied here: the "
			    "database went back in time. Restore the newest backup that belongs to this storage",
			    m->sql->url, last_idx, state_idx(m->state));
		return;
	}
	if (!apply_rows(m, rows, n, last_idx)) {
		m->loaded = false;      /* rows are gone: a snapshot has them */
	} else if (!m->refused && state_idx(m->state) >= last_idx) {
		m->must_read = false;
		batch_look(m);
	}
	/* While a row waits to be stored, only its being stored is good news: a full disk can be read. */
	if (!m->refused && !m->batch.active)
		answered(m);
	meta_kick(m);
}

/* ---------------------------------------------------------------- what comes next */

static void on_checked(void *arg, enum cluster_verdict verdict, const char *text)
{
	struct meta *m = arg;
	m->busy = false;
	switch (verdict) {
	case CLUSTER_AGREES:
		answered(m);
		m->agreed = true;
		meta_kick(m);
		break;
	case CLUSTER_AWAY:
		meta_back_off(m, text);
		break;
	case CLUSTER_OLDER:     /* another process may have gone on since the database was read */
		if (m->older_idx == state_idx(m->state)) {
			meta_refuse(m, "%s", text);
			return;
		}
		m->older_idx = state_idx(m->state);
		m->must_read = true;
		meta_kick(m);
		break;
	case CLUSTER_REFUSED:
		meta_refuse(m, "%s", text);
		break;
	}
}

static void check_cluster(struct meta *m)
{
	m->busy = true;
	memcpy(m->check.uuid, state_cluster_uuid(m->state), 16);
	const Meta__NodeEntity *node = state_node(m->state, m->config.node);
	m->check.last_idx = state_idx(m->state);
	m->check.node = m->config.node;
	m->check.next_session = (node != NULL ? node->session : 0) + 1;
	m->check.put = !state_was_registered(m->state);
	m->check.database = m->sql->url;
	m->check.cb = on_checked;
	m->check.arg = m;
	cluster_check_start(&m->check);
}

static void registered(struct meta *m)
{
	const Meta__NodeEntity *e = state_node(m->state, m->config.node);
	m->session = e->session;
	check_session(m);
	if (!m->ended)
		m->events.on_registered(m->arg, m->session);
}

bool meta_is_registered(const struct meta *m)
{
	const Meta__NodeEntity *e = state_node(m->state, m->config.node);
	return e != NULL && e->boot_id.len == 16 && memcmp(e->boot_id.data, m->config.boot_id, 16) == 0;
}

/* A database file is of one node. With another id the node would serve nothing that is there: every topic stands at an owner
 * that nobody starts again. */
static bool is_of_another_node(struct meta *m)
{
	bool file = strncmp(m->sql->url, "sqlite:", 7) == 0 && strcmp(m->sql->url, "sqlite::memory:") != 0;
	const Meta__NodeEntity *other = file ? state_node_next(m->state, 0) : NULL;
	if (other == NULL || state_node(m->state, m->config.node) != NULL)
		return false;
	meta_refuse(m, "database %s is of node %" PRIu32 ", and --node-id is %" PRIu32 ": a SQLite database serves one node. Start "
		    "with --node-id %" PRIu32 ", or give the new node a database and a storage prefix of its own",
		    m->sql->url, other->node, m->config.node, other->node);
	return true;
}

/* The state stands at the log's end and nothing is in flight: what is to be proposed? */
static void choose_batch(struct meta *m)
{
	if (state_cluster_uuid(m->state) == NULL)
		batch_propose_init(m);
	else if (state_format(m->state) > STATE_FORMAT)
		meta_refuse(m, "database %s has FORMAT %u, this release reads up to %u: start a newer release", m->sql->url,
			    state_format(m->state), STATE_FORMAT);
	else if (!m->agreed)
		check_cluster(m);
	else if (!meta_is_registered(m) && !is_of_another_node(m))
		batch_propose_register(m);
	else if (m->session == 0)
		registered(m);
	if (m->session != 0 && !m->ended && !m->batch.active && m->pending != NULL)
		batch_propose_pending(m);
}

static void step(void *arg)
{
	struct meta *m = arg;
	if (m->refused || m->ended || m->busy || m->retry.at_ms != 0)
		return;
	if (!m->loaded) {
		m->busy = true;
		m->sql->ops->snapshot_read(m->sql, on_snapshot, m);
		return;
	}
	if (m->must_read) {
		m->busy = true;
		m->sql->ops->fetch(m->sql, state_idx(m->state), META_FETCH_ROWS, on_rows, m);
		return;
	}
	if (!m->batch.active)
		choose_batch(m);
	if (m->batch.active && !m->busy && !m->refused)
		batch_send(m);
	meta_snapshot_look(m);
}

/* ---------------------------------------------------------------- life */

int meta_new(struct env *env, struct sql_log *sql, struct objstore *store, struct objstore *wal_store,
	     const struct meta_config *config, const struct meta_events *events, void *arg, struct meta **ret_meta)
{
	if (config->node == 0 || store == NULL || sql == NULL)
		return -EINVAL;
	struct meta *m = must_calloc(1, sizeof(*m));
	m->env = env;
	m->sql = sql;
	m->config = *config;
	m->host = must_strdup(config->host == NULL ? "" : config->host);
	m->cluster_id = must_strdup(config->cluster_id == NULL ? "" : config->cluster_id);
	m->http_address = must_strdup(config->http_address == NULL ? "" : config->http_address);
	m->kafka_address = must_strdup(config->kafka_address == NULL ? "" : config->kafka_address);
	m->config.host = m->host;
	m->config.cluster_id = m->cluster_id;
	m->config.http_address = m->http_address;
	m->config.kafka_address = m->kafka_address;
	if (m->config.snapshot_rows == 0)
		m->config.snapshot_rows = META_SNAPSHOT_ROWS;
	if (m->config.rows_kept == 0)
		m->config.rows_kept = META_ROWS_KEPT;
	if (m->config.export_ms == 0)
		m->config.export_ms = META_EXPORT_MS;
	m->events = *events;
	m->arg = arg;
	m->state = state_new();
	m->check.store[0] = store;
	m->check.store[1] = wal_store;
	m->pending_last = &m->pending;
	m->kick = (struct env_timer){ .on_fire = step, .arg = m };
	m->retry = (struct env_timer){ .on_fire = step, .arg = m };
	*ret_meta = m;
	return 0;
}

void meta_start(struct meta *m)
{
	m->started_ms = m->stamp_at_ms = env_now_ms(m->env);
	m->stamp_ms = env_wall_ms(m->env);
	m->faulty = true;
	snprintf(m->fault, sizeof(m->fault), "%s: reading the command log", m->sql->url);
	meta_kick(m);
}

void meta_free(struct meta *m)
{
	if (m == NULL)
		return;
	env_timer_stop(m->env, &m->kick);
	env_timer_stop(m->env, &m->retry);
	meta_snapshot_free(m);
	meta_export_free(m);
	proposals_free(m);
	state_free(m->state);
	free(m->host);
	free(m->cluster_id);
	free(m->http_address);
	free(m->kafka_address);
	free(m);
}

const struct state *meta_state(const struct meta *m)
{
	return m->state;
}

int64_t meta_clock_before_ms(const struct meta *m)
{
	return m->clock_before_ms;
}

uint64_t meta_session(const struct meta *m)
{
	return m->session;
}

const char *meta_fault(const struct meta *m)
{
	return m->faulty ? m->fault : NULL;
}
