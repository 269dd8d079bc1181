/* SPDX-License-Identifier: Apache-2.0
 *
 * sql_log.h over SQLite: jobs in a queue, one thread that runs them in order, results back through one
 * task on the loop. The connection belongs to the thread, everything else to the loop; what both touch stands
 * in struct hub under its mutex. The hub outlives the log when a task of it is still queued in the environment.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/sqlite_db.h"

struct sqlite_log;

struct sqlite_job {
	struct sqlite_job *next;
	void (*run)(struct sqlite_db *d, struct sqlite_job *j);         /* on the thread */
	void (*deliver)(struct sqlite_job *j, struct sql_result result); /* on the loop */
	union {
		sql_done_cb *done;
		sql_rows_cb *rows;
		sql_snapshot_cb *snapshot;
	} cb;
	void *arg;
	/* what to do */
	struct sql_row row;
	uint64_t after, base, idx, keep_from;
	size_t max_rows;
	struct sql_entity *change;
	size_t n_changes;
	uint8_t *bytes;                 /* owned: what row or changes name */
	/* what became of it */
	enum outcome outcome;
	int err;
	char text[SQLITE_DB_TEXT_MAX];
	struct sqlite_rows rows;
	struct sqlite_entities entities;
};

struct job_list {
	struct sqlite_job *first, **last;
};

struct hub {
	struct env_task task;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct job_list todo, done;     /* under the mutex */
	bool stop, posted;              /* under the mutex */
	bool dead, delivering;          /* the loop's */
};

struct sqlite_log {
	struct sql_log base;
	struct env *env;
	struct hub *hub;
	pthread_t thread;
	struct sqlite_db db;
	char *url;
};

static void list_init(struct job_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

static void list_add(struct job_list *l, struct sqlite_job *j)
{
	j->next = NULL;
	*l->last = j;
	l->last = &j->next;
}

static struct sqlite_job *list_take(struct job_list *l)
{
	struct sqlite_job *j = l->first;
	if (j != NULL) {
		l->first = j->next;
		if (l->first == NULL)
			l->last = &l->first;
	}
	return j;
}

static void job_free(struct sqlite_job *j)
{
	sqlite_rows_done(&j->rows);
	sqlite_entities_done(&j->entities);
	free(j->change);
	free(j->bytes);
	free(j);
}

static void list_done(struct job_list *l)
{
	struct sqlite_job *j;
	while ((j = list_take(l)) != NULL)
		job_free(j);
}

static void hub_free(struct hub *h)
{
	list_done(&h->todo);
	list_done(&h->done);
	pthread_mutex_destroy(&h->mutex);
	pthread_cond_destroy(&h->wake);
	free(h);
}

/* ---------------------------------------------------------------- the thread */

static struct sqlite_job *next_job(struct hub *h)
{
	pthread_mutex_lock(&h->mutex);
	while (!h->stop && h->todo.first == NULL)
		pthread_cond_wait(&h->wake, &h->mutex);
	struct sqlite_job *j = h->stop ? NULL : list_take(&h->todo);
	pthread_mutex_unlock(&h->mutex);
	return j;
}

static void give_back(struct sqlite_log *l, struct sqlite_job *j)
{
	struct hub *h = l->hub;
	pthread_mutex_lock(&h->mutex);
	list_add(&h->done, j);
	if (!h->posted) {
		h->posted = true;
		env_post(l->env, &h->task);
	}
	pthread_mutex_unlock(&h->mutex);
}

static void *thread_main(void *arg)
{
	struct sqlite_log *l = arg;
	struct sqlite_job *j;
	while ((j = next_job(l->hub)) != NULL) {
		j->run(&l->db, j);
		j->outcome = l->db.outcome;
		j->err = l->db.err;
		snprintf(j->text, sizeof(j->text), "%s", l->db.text);
		give_back(l, j);
	}
	return NULL;
}

/* ---------------------------------------------------------------- the loop */

static void deliver_all(void *arg)
{
	struct hub *h = arg;
	pthread_mutex_lock(&h->mutex);
	struct job_list list;
	list_init(&list);
	for (struct sqlite_job *j; (j = list_take(&h->done)) != NULL;)
		list_add(&list, j);
	h->posted = false;
	pthread_mutex_unlock(&h->mutex);
	h->delivering = true;
	struct sqlite_job *j;
	while (!h->dead && (j = list_take(&list)) != NULL) {
		struct sql_result result = { .outcome = j->outcome, .err = j->err, .text = j->text };
		j->deliver(j, result);
		job_free(j);
	}
	h->delivering = false;
	list_done(&list);
	if (h->dead)
		hub_free(h);
}

static struct sqlite_job *job_new(void *arg)
{
	struct sqlite_job *j = must_calloc(1, sizeof(*j));
	j->arg = arg;
	return j;
}

static void submit(struct sql_log *base, struct sqlite_job *j)
{
	struct hub *h = ((struct sqlite_log *)base)->hub;
	pthread_mutex_lock(&h->mutex);
	list_add(&h->todo, j);
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->mutex);
}

static void deliver_done(struct sqlite_job *j, struct sql_result result)
{
	j->cb.done(j->arg, result);
}

static void run_append(struct sqlite_db *d, struct sqlite_job *j)
{
	sqlite_db_append(d, &j->row);
}

static void sqlite_append(struct sql_log *base, const struct sql_row *row, sql_done_cb *cb, void *arg)
{
	struct sqlite_job *j = job_new(arg);
	j->run = run_append;
	j->deliver = deliver_done;
	j->cb.done = cb;
	j->row = *row;
	j->bytes = must_memdup(row->payload.n == 0 ? (const void *)"" : row->payload.p, row->payload.n);
	j->row.payload.p = j->bytes;
	submit(base, j);
}

static void run_fetch(struct sqlite_db *d, struct sqlite_job *j)
{
	sqlite_db_fetch(d, j->after, j->max_rows, &j->rows);
}

static void deliver_rows(struct sqlite_job *j, struct sql_result result)
{
	j->cb.rows(j->arg, result, j->rows.row, j->rows.n, j->rows.first_idx, j->rows.last_idx);
}

static void sqlite_fetch(struct sql_log *base, uint64_t after, size_t max_rows, sql_rows_cb *cb, void *arg)
{
	struct sqlite_job *j = job_new(arg);
	j->run = run_fetch;
	j->deliver = deliver_rows;
	j->cb.rows = cb;
	j->after = after;
	j->max_rows = max_rows;
	submit(base, j);
}

static void run_snapshot_read(struct sqlite_db *d, struct sqlite_job *j)
{
	sqlite_db_snapshot_read(d, &j->entities);
}

static void deliver_snapshot(struct sqlite_job *j, struct sql_result result)
{
	j->cb.snapshot(j->arg, result, j->entities.idx, j->entities.entity, j->entities.n);
}

static void sqlite_snapshot_read(struct sql_log *base, sql_snapshot_cb *cb, void *arg)
{
	struct sqlite_job *j = job_new(arg);
	j->run = run_snapshot_read;
	j->deliver = deliver_snapshot;
	j->cb.snapshot = cb;
	submit(base, j);
}

static void run_snapshot_write(struct sqlite_db *d, struct sqlite_job *j)
{
	sqlite_db_snapshot_write(d, j->base, j->idx, j->change, j->n_changes, j->keep_from);
}

/* One block for the bytes of all. */
static void copy_changes(struct sqlite_job *j, const struct sql_entity *changes, size_t n)
{
	size_t total = 1;
	for (size_t i = 0; i < n; i++)
		total += changes[i].key.n + changes[i].payload.n;
	uint8_t *p = j->bytes = must_calloc(1, total);
	j->change = must_calloc(n + 1, sizeof(j->change[0]));
	j->n_changes = n;
	for (size_t i = 0; i < n; i++) {
		j->change[i] = changes[i];
		memcpy(p, changes[i].key.p, changes[i].key.n);
		j->change[i].key.p = p;
		p += changes[i].key.n;
		if (changes[i].payload.p == NULL)
			continue;
		memcpy(p, changes[i].payload.p, changes[i].payload.n);
		j->change[i].payload.p = p;
		p += changes[i].payload.n;
	}
}

static void sqlite_snapshot_write(struct sql_log *base, uint64_t base_idx, uint64_t idx,
				  const struct sql_entity *changes, size_t n, uint64_t keep_from, sql_done_cb *cb,
				  void *arg)
{
	struct sqlite_job *j = job_new(arg);
	j->run = run_snapshot_write;
	j->deliver = deliver_done;
	j->cb.done = cb;
	j->base = base_idx;
	j->idx = idx;
	j->keep_from = keep_from;
	copy_changes(j, changes, n);
	submit(base, j);
}

static void sqlite_free(struct sql_log *base)
{
	struct sqlite_log *l = (struct sqlite_log *)base;
	struct hub *h = l->hub;
	pthread_mutex_lock(&h->mutex);
	h->stop = true;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->mutex);
	pthread_join(l->thread, NULL);
	h->dead = true;
	if (!h->posted && !h->delivering)
		hub_free(h);
	sqlite_db_done(&l->db);
	free(l->url);
	free(l);
}

static const struct sql_log_ops sqlite_ops = {
	.append = sqlite_append,
	.fetch = sqlite_fetch,
	.snapshot_read = sqlite_snapshot_read,
	.snapshot_write = sqlite_snapshot_write,
	.free = sqlite_free,
};

static int sqlite_new(struct env *env, const char *url, const char *path, struct sql_log **ret_sql)
{
	struct hub *h = must_calloc(1, sizeof(*h));
	h->task = (struct env_task){ .run = deliver_all, .arg = h };
	pthread_mutex_init(&h->mutex, NULL);
	pthread_cond_init(&h->wake, NULL);
	list_init(&h->todo);
	list_init(&h->done);
	struct sqlite_log *l = must_calloc(1, sizeof(*l));
	l->env = env;
	l->hub = h;
	l->url = must_strdup(url);
	l->base = (struct sql_log){ .ops = &sqlite_ops, .url = l->url };
	sqlite_db_init(&l->db, path);
	int err = -pthread_create(&l->thread, NULL, thread_main, l);
	if (err != 0) {
		hub_free(h);
		sqlite_db_done(&l->db);
		free(l->url);
		free(l);
		return err;
	}
	*ret_sql = &l->base;
	return 0;
}

int sql_log_open(struct env *env, const char *url, struct sql_log **ret_sql, char *fault, size_t fault_size)
{
	if (strncmp(url, "postgres://", 11) == 0 || strncmp(url, "postgresql://", 13) == 0) {
		snprintf(fault, fault_size, "metadata in PostgreSQL is not built yet: use sqlite:PATH");
		return -ENOTSUP;
	}
	const char *path = strncmp(url, "sqlite:", 7) == 0 ? url + 7 : "";
	if (strncmp(path, "//", 2) == 0)
		path += 2;
	if (path[0] == '\0') {
		snprintf(fault, fault_size, "%s is no metadata URL: sqlite:PATH or sqlite::memory:", url);
		return -EINVAL;
	}
	int err = sqlite_new(env, url, path, ret_sql);
	if (err != 0)
		snprintf(fault, fault_size, "no thread for %s: %s", url, strerror(-err));
	return err;
}
