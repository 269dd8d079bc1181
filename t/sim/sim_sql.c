/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated command-log database: append where last + 1 is the row's idx, fetch, and the snapshot's
 * two transactions. Injected: refused, hung, lost before and after COMMIT, committed later.
 */
#include "t/sim/sim_sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"

enum op_kind { SQL_APPEND, SQL_FETCH, SQL_READ, SQL_WRITE };

struct sim_sql {
	struct sql_log base;            /* first */
	struct sim_db *db;
	struct sim_proc *proc;
	struct sql_op *ops;
	uint64_t n_sent;
};

struct sql_op {
	struct sim_sql *sql;            /* NULL once answered, or its connection is freed */
	struct sql_op *prev, *next;
	struct sim_db *db;
	struct sim_proc *proc;
	enum op_kind kind;
	uint64_t number;
	unsigned refs;
	bool late, answer_lost, dies_with_sender;
	enum outcome outcome;
	int err;
	struct sql_row row;             /* append; payload owned */
	uint64_t after, base_idx, idx, keep_from, first_idx, last_idx;
	size_t max_rows;
	struct sql_row *rows;           /* fetched; payloads owned */
	size_t n_rows;
	struct sim_entity *entities;    /* snapshot; owned */
	size_t n_entities;
	union {
		sql_done_cb *done;
		sql_rows_cb *rows;
		sql_snapshot_cb *snapshot;
	} cb;
	void *arg;
};

/* ----------------------------------------------------------------- database */

void sim_db_init(struct sim_db *db, struct sim *s)
{
	*db = (struct sim_db){ .sim = s };
}

static void row_done(struct sql_row *r)
{
	free((void *)(uintptr_t)r->payload.p);
}

static struct sql_row row_copy(const struct sql_row *r)
{
	struct sql_row copy = *r;
	copy.payload.p = must_memdup(r->payload.p, r->payload.n);
	return copy;
}

static void entity_done(struct sim_entity *e)
{
	free(e->key);
	free(e->payload);
}

static struct sim_entity entity_copy(const struct sim_entity *e)
{
	struct sim_entity copy = *e;
	copy.key = must_memdup(e->key, e->key_len);
	copy.payload = e->payload != NULL ? must_memdup(e->payload, e->payload_len) : NULL;
	return copy;
}

void sim_db_done(struct sim_db *db)
{
	for (size_t i = 0; i < db->n_rows; i++)
		row_done(&db->rows[i]);
	for (size_t i = 0; i < db->n_entities; i++)
		entity_done(&db->entities[i]);
	free(db->rows);
	free(db->entities);
}

void sim_db_away(struct sim_db *db, bool away)
{
	if (away)
		db->sim->faults[SIM_SQL_AWAY]++;
	db->away = away;
	sim_trace(db->sim, "database away", away, 0);
}

static uint64_t db_last(const struct sim_db *db)
{
	return db->n_rows > 0 ? db->rows[db->n_rows - 1].idx : 0;
}

static void db_append(struct sim_db *db, const struct sql_row *row)
{
	if (db->n_rows == db->rows_room) {
		db->rows_room = db->rows_room > 0 ? 2 * db->rows_room : 64;
		db->rows = must_realloc(db->rows, db->rows_room * sizeof(*db->rows));
	}
	db->rows[db->n_rows++] = row_copy(row);
}

const struct sql_row *sim_db_last(const struct sim_db *db)
{
	return db->n_rows > 0 && !db->away ? &db->rows[db->n_rows - 1] : NULL;
}

void sim_db_push(struct sim_db *db, const struct sql_row *row)
{
	must(row->idx == db_last(db) + 1);
	db_append(db, row);
	sim_trace(db->sim, "foreign row", row->idx, row->proposal);
}

static void db_entity(struct sim_db *db, const struct sim_entity *e)
{
	size_t i = 0;
	while (i < db->n_entities && (db->entities[i].key_len != e->key_len ||
				      memcmp(db->entities[i].key, e->key, e->key_len) != 0))
		i++;
	if (i < db->n_entities) {
		entity_done(&db->entities[i]);
		db->entities[i] = db->entities[--db->n_entities];
	}
	if (e->payload == NULL)
		return;
	if (db->n_entities == db->entities_room) {
		db->entities_room = db->entities_room > 0 ? 2 * db->entities_room : 64;
		db->entities = must_realloc(db->entities, db->entities_room * sizeof(*db->entities));
	}
	db->entities[db->n_entities++] = entity_copy(e);
}

void sim_db_fill(struct sim_db *db, const struct sql_row *row, const struct sql_entity *entities, size_t n)
{
	must(db->n_rows == 0 && db->n_entities == 0);
	db_append(db, row);
	for (size_t i = 0; i < n; i++) {
		struct sim_entity e = {
			.key = (uint8_t *)(uintptr_t)entities[i].key.p, .key_len = entities[i].key.n, .idx = entities[i].idx,
			.payload = (uint8_t *)(uintptr_t)entities[i].payload.p, .payload_len = entities[i].payload.n,
		};
		db_entity(db, &e);
	}
	db->snapshot_idx = row->idx;
}

void sim_db_copy(struct sim_db *to, const struct sim_db *from)
{
	must(to->n_rows == 0 && to->n_entities == 0);
	for (size_t i = 0; i < from->n_rows; i++)
		db_append(to, &from->rows[i]);
	for (size_t i = 0; i < from->n_entities; i++)
		db_entity(to, &from->entities[i]);
	to->snapshot_idx = from->snapshot_idx;
}

static void db_truncate(struct sim_db *db, uint64_t keep_from)
{
	size_t gone = 0;
	while (gone + 1 < db->n_rows && db->rows[gone].idx < keep_from)
		row_done(&db->rows[gone++]);
	db->n_rows -= gone;
	memmove(db->rows, db->rows + gone, db->n_rows * sizeof(*db->rows));
}

/* --------------------------------------------------------------- statements */

static void op_unlink(struct sql_op *op)
{
	if (op->sql == NULL)
		return;
	if (op->prev != NULL)
		op->prev->next = op->next;
	else
		op->sql->ops = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	op->sql = NULL;
}

static void op_unref(void *arg)
{
	struct sql_op *op = arg;
	if (--op->refs > 0)
		return;
	op_unlink(op);
	row_done(&op->row);
	for (size_t i = 0; i < op->n_rows; i++)
		row_done(&op->rows[i]);
	for (size_t i = 0; i < op->n_entities; i++)
		entity_done(&op->entities[i]);
	free(op->rows);
	free(op->entities);
	free(op);
}

static void answer_snapshot(struct sql_op *op, struct sql_result r)
{
	struct sql_entity *e = must_calloc(op->n_entities, sizeof(*e));
	for (size_t i = 0; i < op->n_entities; i++)
		e[i] = (struct sql_entity){
			.key = slice_of(op->entities[i].key, op->entities[i].key_len),
			.idx = op->entities[i].idx,
			.payload = slice_of(op->entities[i].payload, op->entities[i].payload_len),
		};
	op->cb.snapshot(op->arg, r, op->idx, e, op->n_entities);
	free(e);
}

static void run_callback(struct sql_op *op)
{
	struct sql_result r = { .outcome = op->outcome, .err = op->err, .text = op->err != 0 ? "simulated" : "" };
	switch (op->kind) {
	case SQL_APPEND:
	case SQL_WRITE:
		op->cb.done(op->arg, r);
		return;
	case SQL_FETCH:
		op->cb.rows(op->arg, r, op->rows, op->n_rows, op->first_idx, op->last_idx);
		return;
	case SQL_READ:
		answer_snapshot(op, r);
		return;
	}
}

static void op_answer(void *arg)
{
	struct sql_op *op = arg;
	if (op->sql != NULL && sim_io_step(op->proc)) {
		sim_trace(op->proc->sim, "sql answer", op->number, (uint64_t)op->outcome << 32 | (uint32_t)-op->err);
		op_unlink(op);
		run_callback(op);
	}
	op_unref(op);
}

static uint64_t latency(struct sim *s)
{
	if (sim_chance(s, 970))
		return sim_between(s, SIM_MS / 10, 3 * SIM_MS);
	return sim_below(s, 200 * SIM_MS);
}

static void answer_after(struct sql_op *op, uint64_t delay)
{
	op->refs++;
	sim_after(op->db->sim, delay, op->proc, "sql", op_answer, op_unref, op);
}

static void append_effect(struct sql_op *op)
{
	struct sim_db *db = op->db;
	if (op->row.idx != db_last(db) + 1) {
		db->sim->faults[SIM_SQL_TAKEN]++;
		op->outcome = OUTCOME_NOT_APPLIED;
		op->err = -EEXIST;
		return;
	}
	db_append(db, &op->row);
	sim_trace(db->sim, "row", op->row.idx, op->row.proposal);
}

static void fetch_effect(struct sql_op *op)
{
	const struct sim_db *db = op->db;
	op->last_idx = db_last(db);
	op->first_idx = db->n_rows > 0 ? db->rows[0].idx : 0;
	op->rows = must_calloc(db->n_rows, sizeof(*op->rows));
	for (size_t i = 0; i < db->n_rows && op->n_rows < op->max_rows; i++)
		if (db->rows[i].idx > op->after)
			op->rows[op->n_rows++] = row_copy(&db->rows[i]);
}

static void read_effect(struct sql_op *op)
{
	const struct sim_db *db = op->db;
	op->idx = db->snapshot_idx;
	if (op->idx > 0)
		db->sim->faults[SIM_SQL_SNAPSHOT_READ]++;
	op->entities = must_calloc(db->n_entities, sizeof(*op->entities));
	for (; op->n_entities < db->n_entities; op->n_entities++)
		op->entities[op->n_entities] = entity_copy(&db->entities[op->n_entities]);
}

static void write_effect(struct sql_op *op)
{
	struct sim_db *db = op->db;
	if (db->snapshot_idx != op->base_idx) {
		op->outcome = OUTCOME_NOT_APPLIED;
		op->err = -EEXIST;
		return;
	}
	for (size_t i = 0; i < op->n_entities; i++)
		db_entity(db, &op->entities[i]);
	db->snapshot_idx = op->idx;
	db_truncate(db, op->keep_from);
	db->sim->faults[SIM_SQL_SNAPSHOT]++;
	sim_trace(db->sim, "snapshot", op->idx, op->n_entities);
}

static void op_effect(void *arg)
{
	struct sql_op *op = arg;
	bool gone = op->proc->state == SIM_DEAD && op->dies_with_sender;
	if (!gone && op->kind == SQL_APPEND)
		append_effect(op);
	else if (!gone && op->kind == SQL_FETCH)
		fetch_effect(op);
	else if (!gone && op->kind == SQL_READ)
		read_effect(op);
	else if (!gone)
		write_effect(op);
	if (op->answer_lost) {
		op->outcome = OUTCOME_UNKNOWN;
		op->err = -ETIMEDOUT;
	}
	if (!op->late)
		answer_after(op, latency(op->db->sim) / 2);
	op_unref(op);
}

static void effect_after(struct sql_op *op, uint64_t delay)
{
	op->refs++;
	sim_after(op->db->sim, delay, NULL, "commit", op_effect, op_unref, op);
}

static void fail(struct sql_op *op, enum outcome outcome, int err, uint64_t delay)
{
	op->outcome = outcome;
	op->err = err;
	answer_after(op, delay);
}

static void send(struct sql_op *op)
{
	struct sim *s = op->db->sim;
	bool writes = op->kind == SQL_APPEND || op->kind == SQL_WRITE;
	if (op->db->away || sim_io_fails(s) || sim_inject(s, SIM_SQL_REFUSED, 10)) {
		fail(op, OUTCOME_NOT_APPLIED, -EIO, latency(s));
	} else if (writes && sim_inject(s, SIM_SQL_LOST, 15)) {
		fail(op, OUTCOME_UNKNOWN, -ETIMEDOUT, sim_below(s, 2 * SIM_S));
	} else if (writes && sim_inject(s, SIM_SQL_LATE, 15)) {
		op->late = true;
		effect_after(op, sim_below(s, sim_chance(s, 800) ? 2 * SIM_S : 60 * SIM_S));
		fail(op, OUTCOME_UNKNOWN, -ETIMEDOUT, sim_below(s, SIM_S));
	} else {
		op->answer_lost = writes && sim_inject(s, SIM_SQL_ANSWER_LOST, 20);
		effect_after(op, latency(s) + (sim_inject(s, SIM_SQL_HANG, 5) ? sim_below(s, 10 * SIM_S) : 0));
	}
}

static void submit(struct sql_op *op)
{
	op->refs = 1;
	bool sent = sim_io_step(op->proc);
	sim_trace(op->db->sim, "sql op", op->number, op->kind);
	if (sent) {
		send(op);
		sim_io_step(op->proc);
	}
	op_unref(op);
}

static struct sql_op *op_new(struct sql_log *base, enum op_kind kind, void *arg)
{
	struct sim_sql *sql = (struct sim_sql *)base;
	struct sql_op *op = must_calloc(1, sizeof(*op));
	*op = (struct sql_op){ .sql = sql, .db = sql->db, .proc = sql->proc, .kind = kind, .number = ++sql->n_sent,
			       .arg = arg, .dies_with_sender = sim_chance(sql->db->sim, 500) };
	op->next = sql->ops;
	if (op->next != NULL)
		op->next->prev = op;
	sql->ops = op;
	return op;
}

static void sim_append(struct sql_log *base, const struct sql_row *row, sql_done_cb *cb, void *arg)
{
	struct sql_op *op = op_new(base, SQL_APPEND, arg);
	op->cb.done = cb;
	op->row = row_copy(row);
	submit(op);
}

static void sim_fetch(struct sql_log *base, uint64_t after, size_t max_rows, sql_rows_cb *cb, void *arg)
{
	struct sql_op *op = op_new(base, SQL_FETCH, arg);
	op->cb.rows = cb;
	op->after = after;
	op->max_rows = max_rows;
	submit(op);
}

static void sim_snapshot_read(struct sql_log *base, sql_snapshot_cb *cb, void *arg)
{
	struct sql_op *op = op_new(base, SQL_READ, arg);
	op->cb.snapshot = cb;
	submit(op);
}

static void sim_snapshot_write(struct sql_log *base, uint64_t base_idx, uint64_t idx, const struct sql_entity *changes,
			       size_t n, uint64_t keep_from, sql_done_cb *cb, void *arg)
{
	struct sql_op *op = op_new(base, SQL_WRITE, arg);
	op->cb.done = cb;
	op->base_idx = base_idx;
	op->idx = idx;
	op->keep_from = keep_from;
	op->entities = must_calloc(n, sizeof(*op->entities));
	for (; op->n_entities < n; op->n_entities++) {
		const struct sql_entity *c = &changes[op->n_entities];
		struct sim_entity view = { .key = (uint8_t *)(uintptr_t)c->key.p, .key_len = c->key.n, .idx = c->idx,
					   .payload = (uint8_t *)(uintptr_t)c->payload.p, .payload_len = c->payload.n };
		op->entities[op->n_entities] = entity_copy(&view);
	}
	submit(op);
}

static void sim_sql_free(struct sql_log *base)
{
	struct sim_sql *sql = (struct sim_sql *)base;
	while (sql->ops != NULL)
		op_unlink(sql->ops);
	free(sql);
}

struct sql_log *sim_sql_new(struct sim_db *db, struct sim_proc *p)
{
	static const struct sql_log_ops ops = {
		.append = sim_append, .fetch = sim_fetch, .snapshot_read = sim_snapshot_read,
		.snapshot_write = sim_snapshot_write, .free = sim_sql_free,
	};
	struct sim_sql *sql = must_calloc(1, sizeof(*sql));
	*sql = (struct sim_sql){ .base = { .ops = &ops, .url = "sim:db" }, .db = db, .proc = p };
	return &sql->base;
}
