/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite under the command log: the guard of an append, the snapshot's transaction killed before each of
 * its statements, what a full or broken file gives, a second process on the same file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/meta/sqlite_db.h"

static char dir[64], path[128];

static int set_up(void **arg)
{
	snprintf(dir, sizeof(dir), "/tmp/pico-sqlite-XXXXXX");
	must(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/a/b/meta.db", dir);
	return 0;
}

static int tear_down(void **arg)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void append(struct sqlite_db *d, uint64_t idx, const char *payload)
{
	struct sql_row row = {
		.idx = idx, .node = 7, .session = UINT64_MAX, .proposal = 3, .chain = UINT64_MAX - idx,
		.payload = slice_str(payload),
	};
	sqlite_db_append(d, &row);
}

static void put(struct sql_entity *e, const char *key, uint64_t idx, const char *payload)
{
	*e = (struct sql_entity){ .key = slice_str(key), .idx = idx };
	if (payload != NULL)
		e->payload = slice_str(payload);
}

static void test_append_and_fetch(void **arg)
{
	struct sqlite_db d;
	struct sqlite_rows r = { 0 };
	sqlite_db_init(&d, path);
	sqlite_db_fetch(&d, 0, 10, &r);
	assert_int_equal(d.outcome, OUTCOME_OK);
	assert_true(r.n == 0 && r.first_idx == 0 && r.last_idx == 0);
	sqlite_rows_done(&r);
	static const struct { uint64_t idx; int err; } cases[] = {
		{ 2, -EEXIST }, { 1, 0 }, { 1, -EEXIST }, { 3, -EEXIST }, { 2, 0 }, { 3, 0 }, { 2, -EEXIST }, { 4, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		append(&d, cases[i].idx, cases[i].idx == 2 ? "" : "payload");
		assert_int_equal(d.err, cases[i].err);
		assert_int_equal(d.outcome, cases[i].err == 0 ? OUTCOME_OK : OUTCOME_NOT_APPLIED);
	}
	sqlite_db_fetch(&d, 1, 2, &r);
	assert_int_equal(d.outcome, OUTCOME_OK);
	assert_true(r.n == 2 && r.first_idx == 1 && r.last_idx == 4);
	assert_true(r.row[0].idx == 2 && r.row[0].node == 7 && r.row[0].session == UINT64_MAX &&
		    r.row[0].proposal == 3 && r.row[0].chain == UINT64_MAX - 2 && r.row[0].payload.n == 0);
	assert_true(slice_is(r.row[1].payload, "payload"));
	sqlite_rows_done(&r);
	sqlite_db_done(&d);
}

static int64_t pragma(struct sqlite_db *d, const char *sql)
{
	sqlite3_stmt *statement;
	must(sqlite3_prepare_v2(d->db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW);
	int64_t v = sqlite3_column_int64(statement, 0);
	bool wal = strcmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
	sqlite3_finalize(statement);
	return wal ? 99 : v;
}

static void test_durable_settings(void **arg)
{
	struct sqlite_db d;
	sqlite_db_init(&d, path);
	append(&d, 1, "x");
	assert_int_equal(pragma(&d, "PRAGMA synchronous"), 2);
	assert_int_equal(pragma(&d, "PRAGMA journal_mode"), 99);
	sqlite_db_done(&d);
}

static void test_snapshot(void **arg)
{
	struct sqlite_db d;
	struct sqlite_entities e = { 0 };
	struct sqlite_rows r = { 0 };
	struct sql_entity c[3];
	sqlite_db_init(&d, path);
	for (uint64_t i = 1; i <= 5; i++)
		append(&d, i, "x");
	put(&c[0], "a", 1, "one");
	put(&c[1], "b", 2, "");
	sqlite_db_snapshot_write(&d, 0, 3, c, 2, 3);
	assert_int_equal(d.outcome, OUTCOME_OK);
	/* Another base, or a step back: nothing changes. */
	put(&c[0], "a", 9, "nine");
	sqlite_db_snapshot_write(&d, 0, 4, c, 1, 5);
	assert_true(d.outcome == OUTCOME_NOT_APPLIED && d.err == -EEXIST);
	sqlite_db_snapshot_write(&d, 3, 2, c, 1, 5);
	assert_true(d.outcome == OUTCOME_NOT_APPLIED && d.err == -EEXIST);
	sqlite_db_snapshot_read(&d, &e);
	assert_true(d.outcome == OUTCOME_OK && e.idx == 3 && e.n == 2);
	assert_true(slice_is(e.entity[0].key, "a") && slice_is(e.entity[0].payload, "one") && e.entity[0].idx == 1);
	assert_true(slice_is(e.entity[1].key, "b") && e.entity[1].payload.n == 0 && e.entity[1].idx == 2);
	sqlite_entities_done(&e);
	/* Replaced, deleted, deleted though never there; the last row stays. */
	put(&c[0], "a", 4, "four");
	put(&c[1], "b", 5, NULL);
	put(&c[2], "c", 5, NULL);
	sqlite_db_snapshot_write(&d, 3, 5, c, 3, 100);
	assert_int_equal(d.outcome, OUTCOME_OK);
	sqlite_db_snapshot_read(&d, &e);
	assert_true(e.idx == 5 && e.n == 1 && slice_is(e.entity[0].payload, "four") && e.entity[0].idx == 4);
	sqlite_entities_done(&e);
	sqlite_db_fetch(&d, 0, 10, &r);
	assert_true(r.n == 1 && r.first_idx == 5 && r.last_idx == 5);
	sqlite_rows_done(&r);
	sqlite_db_done(&d);
}

/* ---------------------------------------------------------------- killed */

static int statements_left;

static int on_statement(unsigned kind, void *arg, void *p, void *x)
{
	if (statements_left-- == 0)
		_exit(9);
	return 0;
}

/* The child runs `work` and dies before its k-th statement. Whether it came to the end. */
static bool run_killed(void (*work)(struct sqlite_db *d), int k)
{
	fflush(NULL);
	pid_t pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		struct sqlite_db d;
		struct sqlite_rows r = { 0 };
		sqlite_db_init(&d, path);
		sqlite_db_fetch(&d, 0, 1, &r);
		statements_left = k;
		sqlite3_trace_v2(d.db, SQLITE_TRACE_STMT, on_statement, NULL);
		work(&d);
		_exit(d.outcome == OUTCOME_OK ? 0 : 1);
	}
	int status;
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
	return WEXITSTATUS(status) == 0;
}

static void snapshot_work(struct sqlite_db *d)
{
	struct sql_entity c[4];
	put(&c[0], "a", 4, "new");
	put(&c[1], "b", 4, NULL);
	put(&c[2], "c", 4, "new");
	put(&c[3], "d", 4, "new");
	sqlite_db_snapshot_write(d, 2, 4, c, 4, 4);
}

static void append_work(struct sqlite_db *d)
{
	append(d, 5, "killed");
}

/* Everything old or everything new. */
static bool snapshot_is_new(struct sqlite_db *d)
{
	struct sqlite_entities e = { 0 };
	struct sqlite_rows r = { 0 };
	sqlite_db_snapshot_read(d, &e);
	assert_int_equal(d->outcome, OUTCOME_OK);
	sqlite_db_fetch(d, 0, 10, &r);
	assert_int_equal(d->outcome, OUTCOME_OK);
	bool is_new = e.idx == 4;
	assert_int_equal(e.idx, is_new ? 4 : 2);
	assert_int_equal(e.n, is_new ? 3 : 2);
	for (size_t i = 0; i < e.n; i++)
		assert_true(slice_is(e.entity[i].payload, is_new ? "new" : "old"));
	assert_int_equal(r.first_idx, is_new ? 4 : 1);
	assert_int_equal(r.last_idx, 4);
	sqlite_entities_done(&e);
	sqlite_rows_done(&r);
	return is_new;
}

static void test_killed(void **arg)
{
	struct sqlite_db d;
	struct sql_entity c[2];
	sqlite_db_init(&d, path);
	for (uint64_t i = 1; i <= 4; i++)
		append(&d, i, "x");
	put(&c[0], "a", 1, "old");
	put(&c[1], "b", 1, "old");
	sqlite_db_snapshot_write(&d, 0, 2, c, 2, 0);
	assert_int_equal(d.outcome, OUTCOME_OK);
	sqlite_db_done(&d);
	int k = 0;
	bool ended = false;
	for (; !ended; k++) {
		assert_true(k < 30);
		ended = run_killed(snapshot_work, k);
		sqlite_db_init(&d, path);
		assert_int_equal(snapshot_is_new(&d), ended);
		sqlite_db_done(&d);
	}
	assert_true(k > 8);             /* begin, base, four changes, idx, truncation, commit */
	ended = false;
	for (k = 0; !ended; k++) {
		struct sqlite_rows r = { 0 };
		ended = run_killed(append_work, k);
		sqlite_db_init(&d, path);
		sqlite_db_fetch(&d, 4, 10, &r);
		assert_int_equal(d.outcome, OUTCOME_OK);
		assert_int_equal(r.n, ended ? 1 : 0);
		sqlite_rows_done(&r);
		sqlite_db_done(&d);
	}
	assert_int_equal(k, 4);         /* begin, insert, commit */
}

/* ---------------------------------------------------------------- faults */

static void test_second_process(void **arg)
{
	struct sqlite_db d, e;
	sqlite_db_init(&d, path);
	sqlite_db_init(&e, path);
	append(&d, 1, "x");
	append(&e, 2, "x");
	assert_true(e.outcome == OUTCOME_NOT_APPLIED && e.err == -EBUSY);
	assert_non_null(strstr(e.text, path));
	assert_non_null(strstr(e.text, "in use by another process"));
	sqlite_db_done(&d);
	append(&e, 2, "x");             /* it is free now */
	assert_int_equal(e.outcome, OUTCOME_OK);
	sqlite_db_done(&e);
}

/* Room runs out: no append is taken, reads go on, and it goes on by itself. */
static void test_full(void **arg)
{
	struct sqlite_db d;
	struct sqlite_rows r = { 0 };
	struct rlimit old, tight;
	static char big[20000];
	memset(big, 'b', sizeof(big) - 1);
	sqlite_db_init(&d, path);
	append(&d, 1, "x");
	signal(SIGXFSZ, SIG_IGN);
	must(getrlimit(RLIMIT_FSIZE, &old) == 0);
	tight = old;
	tight.rlim_cur = 40000;
	must(setrlimit(RLIMIT_FSIZE, &tight) == 0);
	uint64_t idx = 2;
	for (; idx < 10; idx++) {
		append(&d, idx, big);
		if (d.outcome != OUTCOME_OK)
			break;
	}
	assert_true(idx < 5);
	assert_true(d.err < 0 && d.err != -EEXIST);
	assert_non_null(strstr(d.text, path));
	char text[SQLITE_DB_TEXT_MAX];
	snprintf(text, sizeof(text), "%s", d.text);
	sqlite_db_fetch(&d, 0, 1, &r);
	bool readable = d.outcome == OUTCOME_OK;
	sqlite_rows_done(&r);
	must(setrlimit(RLIMIT_FSIZE, &old) == 0);
	if (!readable)
		fail_msg("cannot read while full: %s after %s", d.text, text);
	append(&d, idx, big);
	assert_int_equal(d.outcome, OUTCOME_OK);
	sqlite_db_fetch(&d, 0, 100, &r);
	assert_true(r.n == idx && r.last_idx == idx);
	sqlite_rows_done(&r);
	sqlite_db_done(&d);
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");
	must(f != NULL);
	for (int i = 0; i < 200; i++)
		fputs(text, f);
	fclose(f);
}

static void test_not_a_database(void **arg)
{
	char name[160];
	struct sqlite_db d;
	snprintf(name, sizeof(name), "%s/garbage", dir);
	write_file(name, "this is no database at all\n");
	sqlite_db_init(&d, name);
	append(&d, 1, "x");
	assert_true(d.outcome == OUTCOME_NOT_APPLIED && d.err == -EBADMSG);
	assert_non_null(strstr(d.text, name));
	assert_non_null(strstr(d.text, "not a database"));
	sqlite_db_done(&d);
	/* A directory that is a file. */
	snprintf(name, sizeof(name), "%s/garbage/meta.db", dir);
	sqlite_db_init(&d, name);
	append(&d, 1, "x");
	assert_true(d.outcome == OUTCOME_NOT_APPLIED && d.err == -ENOTDIR);
	assert_non_null(strstr(d.text, name));
	sqlite_db_done(&d);
	/* A database that is a directory. */
	sqlite_db_init(&d, dir);
	append(&d, 1, "x");
	assert_true(d.outcome == OUTCOME_NOT_APPLIED && d.err == -EISDIR);
	sqlite_db_done(&d);
}

/* ---------------------------------------------------------------- on its thread */

struct world {
	uv_loop_t loop;
	struct env *env;
	unsigned n_done;
	enum outcome outcome;
};

static void world_init(struct world *w)
{
	*w = (struct world){ 0 };
	must(uv_loop_init(&w->loop) == 0 && env_uv_new(&w->loop, &w->env) == 0);
}

static void world_done(struct world *w)
{
	env_uv_free(w->env);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&w->loop) == 0);
}

static void on_done(void *arg, struct sql_result result)
{
	struct world *w = arg;
	w->n_done++;
	w->outcome = result.outcome;
}

static void test_urls(void **arg)
{
	static const struct { const char *url; int err; const char *word; } cases[] = {
		{ "postgres://h/db", -ENOTSUP, "not built yet" }, { "postgresql://h/db", -ENOTSUP, "not built yet" },
		{ "mysql://h", -EINVAL, "mysql://h" }, { "sqlite:", -EINVAL, "sqlite:PATH" },
		{ "sqlite://", -EINVAL, "sqlite:PATH" }, { "", -EINVAL, "sqlite:PATH" },
		{ "sqlite::memory:", 0, NULL }, { "sqlite:PATH", 0, NULL }, { "sqlite://PATH", 0, NULL },
	};
	struct world w;
	world_init(&w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char fault[256] = "", url[256];
		struct sql_log *sql = NULL;
		const char *at = strstr(cases[i].url, "PATH");
		snprintf(url, sizeof(url), "%.*s%s", at == NULL ? 200 : (int)(at - cases[i].url), cases[i].url,
			 at == NULL ? "" : path);
		assert_int_equal(sql_log_open(w.env, url, &sql, fault, sizeof(fault)), cases[i].err);
		if (cases[i].err != 0) {
			assert_non_null(strstr(fault, cases[i].word));
			continue;
		}
		assert_string_equal(sql->url, url);
		struct sql_row row = { .idx = i == 8 ? 2 : 1, .payload = slice_str("x") };
		unsigned n = w.n_done;
		sql->ops->append(sql, &row, on_done, &w);
		while (w.n_done == n)
			uv_run(&w.loop, UV_RUN_ONCE);
		assert_int_equal(w.outcome, OUTCOME_OK);
		sql->ops->free(sql);
	}
	assert_int_equal(w.n_done, 3);
	world_done(&w);
}

/* Freed with work queued, running and answered: no callback comes any more. */
static void test_free_early(void **arg)
{
	for (int turn = 0; turn < 6; turn++) {
		struct world w;
		char fault[256], url[160];
		struct sql_log *sql;
		world_init(&w);
		snprintf(url, sizeof(url), "sqlite:%s", path);
		must(sql_log_open(w.env, url, &sql, fault, sizeof(fault)) == 0);
		for (uint64_t i = 1; i <= 20; i++) {
			struct sql_row row = { .idx = i, .payload = slice_str("x") };
			sql->ops->append(sql, &row, on_done, &w);
		}
		usleep((useconds_t)turn * 4000);
		sql->ops->free(sql);
		uv_run(&w.loop, UV_RUN_NOWAIT);
		assert_int_equal(w.n_done, 0);
		world_done(&w);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_append_and_fetch), T(test_durable_settings), T(test_snapshot), T(test_killed),
		T(test_second_process), T(test_full), T(test_not_a_database), T(test_urls), T(test_free_early),
	};
	return cmocka_run_group_tests_name("meta_sqlite", tests, NULL, NULL);
}
