/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "t/unit/meta_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlite3.h>

#include "common/must.h"
#include "storaged/meta/export_format.h"

/* ---------------------------------------------------------------- the store */

struct mem_op {
	struct mem_op *next;
	struct env_timer timer;
	struct mem_store *store;
	obj_done_cb *put;
	obj_get_cb *get;
	obj_list_cb *list;
	bool wal;                       /* list: of WAL objects under the prefix, not of exports */
	void *arg;
	struct obj_result result;
};

static void mem_op_free(struct mem_op *op)
{
	struct mem_op **p = &op->store->ops;
	while (*p != op)
		p = &(*p)->next;
	*p = op->next;
	free(op);
}

static void mem_list_answer(const struct mem_op *op)
{
	char key[EXPORT_KEY_MAX];
	struct obj_entry e = { .key = op->wal ? (char *)(uintptr_t)op->store->wal_object : key };
	export_key(key, op->store->export_idx);
	op->list(op->arg, op->result, &e, op->wal ? e.key != NULL : op->store->export_idx != 0, false);
}

static void mem_fire(void *arg)
{
	struct mem_op op = *(struct mem_op *)arg;
	mem_op_free(arg);
	const struct mem_object *o = &op.store->cluster;
	if (op.list != NULL)
		mem_list_answer(&op);
	else if (op.put != NULL)
		op.put(op.arg, op.result);
	else if (op.result.outcome == OUTCOME_OK)
		op.get(op.arg, op.result, slice_of(o->bytes, o->n), o->n);
	else
		op.get(op.arg, op.result, slice_of(NULL, 0), 0);
}

static struct mem_op *mem_op_new(struct mem_store *s, void *arg, struct obj_result result)
{
	struct mem_op *op = must_calloc(1, sizeof(*op));
	op->next = s->ops;
	s->ops = op;
	op->store = s;
	op->arg = arg;
	op->result = result;
	op->result.what = "cluster";
	op->timer = (struct env_timer){ .on_fire = mem_fire, .arg = op };
	env_timer_start(s->env, &op->timer, env_now_ms(s->env) + 1);
	return op;
}

static void mem_put(struct objstore *base, const char *key, const struct iovec *iov, int n_iov, bool if_absent,
		    obj_done_cb *cb, void *arg)
{
	struct mem_store *s = (struct mem_store *)base;
	struct obj_result r = { .outcome = s->put_outcome };
	must(strcmp(key, "cluster") == 0 && if_absent && n_iov == 1 && iov->iov_len <= sizeof(s->cluster.bytes));
	s->n_put++;
	if (s->put_err != 0) {
		r = (struct obj_result){ .outcome = OUTCOME_NOT_APPLIED, .err = s->put_err };
	} else if (s->cluster.there) {
		r = (struct obj_result){ .outcome = OUTCOME_NOT_APPLIED, .err = -EEXIST };
	} else {
		memcpy(s->cluster.bytes, iov->iov_base, iov->iov_len);
		s->cluster.n = iov->iov_len;
		s->cluster.there = true;
	}
	s->put_outcome = OUTCOME_OK;
	mem_op_new(s, arg, r)->put = cb;
}

static void mem_get(struct objstore *base, const char *key, uint64_t offset, uint64_t length, obj_get_cb *cb, void *arg)
{
	struct mem_store *s = (struct mem_store *)base;
	struct obj_result r = { .outcome = OUTCOME_OK };
	must(strcmp(key, "cluster") == 0 && offset == 0 && length == 0);
	s->n_get++;
	if (s->get_err != 0)
		r = (struct obj_result){ .outcome = OUTCOME_NOT_APPLIED, .err = s->get_err };
	else if (!s->cluster.there)
		r = (struct obj_result){ .outcome = OUTCOME_NOT_APPLIED, .err = -ENOENT };
	mem_op_new(s, arg, r)->get = cb;
}

static void mem_list(struct objstore *base, const char *prefix, const char *start_after, size_t limit, obj_list_cb *cb,
		     void *arg)
{
	struct mem_store *s = (struct mem_store *)base;
	struct obj_result r = { .outcome = s->get_err != 0 ? OUTCOME_NOT_APPLIED : OUTCOME_OK, .err = s->get_err };
	struct mem_op *op = mem_op_new(s, arg, r);
	op->list = cb;
	op->wal = strcmp(prefix, "meta/") != 0;
	must(!op->wal || strncmp(prefix, "wal/", 4) == 0);
}

static void mem_forget(struct mem_store *s)
{
	while (s->ops != NULL) {
		env_timer_stop(s->env, &s->ops->timer);
		mem_op_free(s->ops);
	}
}

static const struct objstore_ops mem_ops = { .put = mem_put, .get = mem_get, .list = mem_list };

static void mem_init(struct mem_store *s, struct env *env, const char *url)
{
	*s = (struct mem_store){ .base = { .ops = &mem_ops, .url = url }, .env = env };
}

/* ---------------------------------------------------------------- the database's faults */

struct faulty_op {
	struct faulty_sql *sql;
	struct env_timer timer;
	struct env *env;
	sql_done_cb *done;
	sql_rows_cb *rows;
	void *arg;
	enum outcome outcome;           /* told instead of the real one */
	struct sql_row row;             /* LATE: owned payload */
	bool freed;
};

static void on_lost(void *arg, struct sql_result result)
{
	struct faulty_op *op = arg;
	sql_done_cb *cb = op->done;
	void *cb_arg = op->arg;
	free(op);
	cb(cb_arg, (struct sql_result){ .outcome = OUTCOME_UNKNOWN, .err = -ECONNRESET, .text = "answer lost" });
}

static void on_told(void *arg)
{
	struct faulty_op op = *(struct faulty_op *)arg;
	free(arg);
	struct sql_result r = { .outcome = op.outcome, .err = -EIO, .text = "/meta.db: disk I/O error" };
	if (op.done != NULL)
		op.done(op.arg, r);
	else
		op.rows(op.arg, r, NULL, 0, 0, 0);
}

static struct env *faulty_env;          /* of the one world there is at a time */

static struct faulty_op *op_new(struct faulty_sql *s, sql_done_cb *done, void *arg)
{
	struct faulty_op *op = must_calloc(1, sizeof(*op));
	op->sql = s;
	op->done = done;
	op->arg = arg;
	op->timer = (struct env_timer){ .on_fire = on_told, .arg = op };
	return op;
}

static void tell(struct faulty_op *op, enum outcome outcome)
{
	op->outcome = outcome;
	env_timer_start(faulty_env, &op->timer, env_now_ms(faulty_env) + 1);
}

static void faulty_append(struct sql_log *base, const struct sql_row *row, sql_done_cb *cb, void *arg)
{
	struct faulty_sql *s = (struct faulty_sql *)base;
	enum sql_fault fault = s->append;
	s->n_append++;
	if (fault != FAULT_AWAY)
		s->append = FAULT_NONE;
	switch (fault) {
	case FAULT_NONE:
		s->real->ops->append(s->real, row, cb, arg);
		break;
	case FAULT_UNKNOWN_APPLIED:
		s->real->ops->append(s->real, row, on_lost, op_new(s, cb, arg));
		break;
	case FAULT_UNKNOWN_LATE:
		must(s->late == NULL);
		s->late = op_new(s, NULL, NULL);
		s->late->row = *row;
		s->late->row.payload.p = must_memdup(row->payload.p, row->payload.n);
		tell(op_new(s, cb, arg), OUTCOME_UNKNOWN);
		break;
	case FAULT_UNKNOWN_LOST:
		tell(op_new(s, cb, arg), OUTCOME_UNKNOWN);
		break;
	case FAULT_AWAY:
		tell(op_new(s, cb, arg), OUTCOME_NOT_APPLIED);
		break;
	}
}

static void on_late_done(void *arg, struct sql_result result)
{
	struct faulty_op *op = arg;
	free((void *)op->row.payload.p);
	free(op);
}

static void faulty_fetch(struct sql_log *base, uint64_t after, size_t max_rows, sql_rows_cb *cb, void *arg)
{
	struct faulty_sql *s = (struct faulty_sql *)base;
	s->n_fetch++;
	if (s->fetch_away) {
		struct faulty_op *op = op_new(s, NULL, arg);
		op->rows = cb;
		tell(op, OUTCOME_NOT_APPLIED);
		return;
	}
	s->real->ops->fetch(s->real, after, max_rows, cb, arg);
	struct faulty_op *late = s->late;
	s->late = NULL;
	if (late != NULL)
		s->real->ops->append(s->real, &late->row, on_late_done, late);
}

static void faulty_snapshot_read(struct sql_log *base, sql_snapshot_cb *cb, void *arg)
{
	struct faulty_sql *s = (struct faulty_sql *)base;
	s->n_read++;
	s->real->ops->snapshot_read(s->real, cb, arg);
}

static void faulty_snapshot_write(struct sql_log *base, uint64_t base_idx, uint64_t idx,
				  const struct sql_entity *changes, size_t n, uint64_t keep_from, sql_done_cb *cb,
				  void *arg)
{
	struct faulty_sql *s = (struct faulty_sql *)base;
	enum sql_fault fault = s->write;
	s->n_write++;
	s->write = FAULT_NONE;
	if (fault == FAULT_UNKNOWN_APPLIED)
		s->real->ops->snapshot_write(s->real, base_idx, idx, changes, n, keep_from, on_lost, op_new(s, cb, arg));
	else if (fault == FAULT_UNKNOWN_LOST)
		tell(op_new(s, cb, arg), OUTCOME_UNKNOWN);
	else
		s->real->ops->snapshot_write(s->real, base_idx, idx, changes, n, keep_from, cb, arg);
}

static const struct sql_log_ops faulty_ops = {
	.append = faulty_append,
	.fetch = faulty_fetch,
	.snapshot_read = faulty_snapshot_read,
	.snapshot_write = faulty_snapshot_write,
};

/* ---------------------------------------------------------------- the world */

static void on_applied(void *arg, const Meta__Command *command, const Meta__Result__One *result, uint64_t idx)
{
	struct world *w = arg;
	must(result != NULL && command != NULL && idx > 0);
	w->n_applied++;
}

static void on_session_ended(void *arg)
{
	((struct world *)arg)->ended = true;
}

static void on_refused(void *arg, const char *text)
{
	struct world *w = arg;
	w->refused = true;
	snprintf(w->text, sizeof(w->text), "%s", text);
}

static void on_registered(void *arg, uint64_t session)
{
	struct world *w = arg;
	w->registered = true;
	w->session = session;
}

static const struct meta_events events = {
	.on_applied = on_applied,
	.on_session_ended = on_session_ended,
	.on_refused = on_refused,
	.on_registered = on_registered,
};

void world_init(struct world *w)
{
	*w = (struct world){ 0 };
	must(uv_loop_init(&w->loop) == 0 && env_uv_new(&w->loop, &w->env) == 0);
	faulty_env = w->env;
	snprintf(w->dir, sizeof(w->dir), "/tmp/pico-meta-XXXXXX");
	must(mkdtemp(w->dir) != NULL);
	snprintf(w->url, sizeof(w->url), "sqlite:%s/sub/meta.db", w->dir);
	mem_init(&w->store, w->env, "mem://data");
	mem_init(&w->wal_store, w->env, "mem://wal");
	w->config = (struct meta_config){
		.node = 1, .host = "localhost", .cluster_id = "test", .slots = 1, .http_address = "127.0.0.1:4437",
	};
}

void world_start(struct world *w)
{
	char fault[256];
	env_random(w->env, w->config.boot_id, 16);
	w->registered = w->refused = w->ended = false;
	w->sql = must_calloc(1, sizeof(*w->sql));
	w->sql->base = (struct sql_log){ .ops = &faulty_ops, .url = w->url };
	w->sql->append = w->first_append;
	w->first_append = FAULT_NONE;
	w->sql->fetch_away = w->first_fetch_away;
	w->first_fetch_away = false;
	must(sql_log_open(w->env, w->url, &w->sql->real, fault, sizeof(fault)) == 0);
	must(meta_new(w->env, &w->sql->base, &w->store.base, w->two_stores ? &w->wal_store.base : NULL, &w->config,
		      &events, w, &w->meta) == 0);
	meta_start(w->meta);
}

void world_stop(struct world *w)
{
	meta_free(w->meta);
	w->meta = NULL;
	mem_forget(&w->store);
	mem_forget(&w->wal_store);
	w->sql->real->ops->free(w->sql->real);
	must(w->sql->late == NULL);
	free(w->sql);
	w->sql = NULL;
}

struct tick {
	struct env_timer timer;
	struct env *env;
};

/* Again and again: one that fires in front of a poll does not end it. */
static void on_tick(void *arg)
{
	struct tick *t = arg;
	env_timer_start(t->env, &t->timer, env_now_ms(t->env) + 1);
}

static bool run_until(struct world *w, const bool *flag, uint64_t ms)
{
	struct tick tick = { { .on_fire = on_tick, .arg = &tick }, w->env };
	uint64_t end = env_now_ms(w->env) + ms;
	env_timer_start(w->env, &tick.timer, end);
	while ((flag == NULL || !*flag) && env_now_ms(w->env) < end)
		uv_run(&w->loop, UV_RUN_ONCE);
	env_timer_stop(w->env, &tick.timer);
	return flag != NULL && *flag;
}

bool world_run(struct world *w, const bool *flag)
{
	return run_until(w, flag, 5000);
}

bool world_run_fault(struct world *w, const char *text)
{
	const char *fault;
	for (uint64_t end = env_now_ms(w->env) + 5000; env_now_ms(w->env) < end; run_until(w, NULL, 5))
		if ((fault = meta_fault(w->meta)) != NULL && strstr(fault, text) != NULL)
			return true;
	return false;
}

void world_run_ms(struct world *w, uint64_t ms)
{
	run_until(w, NULL, ms);
}

void world_done(struct world *w)
{
	char command[128];
	env_uv_free(w->env);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&w->loop) == 0);
	snprintf(command, sizeof(command), "rm -rf %s", w->dir);
	must(system(command) == 0);
}

static void on_created(void *arg, const Meta__Result__One *result)
{
	struct create *c = arg;
	must(!c->done);
	c->done = true;
	c->lost = result == NULL;
	if (result == NULL)
		return;
	c->created = result->created;
	c->error = result->error;
	snprintf(c->message, sizeof(c->message), "%s", result->message);
	if (result->topic_id.len == 16)
		memcpy(c->topic_id, result->topic_id.data, 16);
}

void world_create(struct world *w, struct create *c)
{
	uint8_t id[16];
	env_random(w->env, id, sizeof(id));
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	create.topic_id = (ProtobufCBinaryData){ .len = 16, .data = id };
	create.name = (char *)c->name;
	create.content_type = (char *)(c->content_type == NULL ? "text/plain" : c->content_type);
	create.partitions = c->partitions;
	Meta__Command command = META__COMMAND__INIT;
	command.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	command.create_topic = &create;
	must(meta_propose(w->meta, &command, on_created, c) == 0);
}

/* ---------------------------------------------------------------- somebody else */

static sqlite3 *open_file(struct world *w)
{
	sqlite3 *db;
	must(sqlite3_open(w->url + strlen("sqlite:"), &db) == SQLITE_OK);
	sqlite3_busy_timeout(db, 2000);
	return db;
}

void world_sql(struct world *w, const char *sql)
{
	sqlite3 *db = open_file(w);
	must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

int64_t world_query(struct world *w, const char *sql)
{
	sqlite3 *db = open_file(w);
	sqlite3_stmt *statement;
	must(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW);
	int64_t v = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return v;
}

static void insert_row(sqlite3 *db, const struct sql_row *row)
{
	sqlite3_stmt *statement;
	must(sqlite3_prepare_v2(db, "INSERT INTO pico_log VALUES (?1, ?2, ?3, ?4, ?5, ?6)", -1, &statement, NULL) ==
	     SQLITE_OK);
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)row->idx);
	sqlite3_bind_int64(statement, 2, row->node);
	sqlite3_bind_int64(statement, 3, (sqlite3_int64)row->session);
	sqlite3_bind_int64(statement, 4, (sqlite3_int64)row->proposal);
	sqlite3_bind_int64(statement, 5, (sqlite3_int64)row->chain);
	sqlite3_bind_blob(statement, 6, row->payload.p, (int)row->payload.n, SQLITE_STATIC);
	must(sqlite3_step(statement) == SQLITE_DONE);
	sqlite3_finalize(statement);
}

void world_row(struct world *w, Meta__Command *c, uint32_t node, uint64_t session, uint64_t proposal, bool spoil)
{
	uint8_t bytes[1024];
	Meta__Row decoded = META__ROW__INIT;
	decoded.commands = &c;
	decoded.n_commands = 1;
	must(meta__row__get_packed_size(&decoded) <= sizeof(bytes));
	struct slice payload = slice_of(bytes, meta__row__pack(&decoded, bytes));
	uint64_t last = (uint64_t)world_query(w, "SELECT max(idx) FROM pico_log");
	uint64_t chain = (uint64_t)world_query(w, "SELECT chain FROM pico_log ORDER BY idx DESC LIMIT 1");
	struct sql_row row = {
		.idx = last + 1, .node = node, .session = session, .proposal = proposal,
		.chain = state_chain_next(chain, payload) ^ (spoil ? 1 : 0), .payload = payload,
	};
	sqlite3 *db = open_file(w);
	insert_row(db, &row);
	sqlite3_close(db);
}

void world_register(struct world *w, uint32_t node)
{
	uint8_t boot[16], instance[16] = { 0 };
	env_random(w->env, boot, sizeof(boot));
	Meta__RegisterNode r = META__REGISTER_NODE__INIT;
	r.node = node;
	r.boot_id = (ProtobufCBinaryData){ .data = boot, .len = 16 };
	r.instance = (ProtobufCBinaryData){ .data = instance, .len = 16 };
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_REGISTER_NODE;
	c.register_node = &r;
	world_row(w, &c, node, 0, 0, false);
}
