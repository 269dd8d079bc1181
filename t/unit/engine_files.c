/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine on real files, real time and real segments: what is answered is in a file, and what is in
 * files comes back after the process is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/engine/engine.h"
#include "storaged/objstore/url.h"

#define N_APPENDS 2000

struct node {
	uv_loop_t loop;
	struct env *env;
	struct objstore *store;
	struct engine *engine;
	struct log *log;
	bool serving, stopped;
	char fatal[512];
	struct engine_recovery_stats stats;
	struct engine_session ended[4];
};

static char dir[] = "/tmp/pico-engine-XXXXXX";

static void on_fatal(void *arg, int code, const char *text)
{
	struct node *n = arg;
	snprintf(n->fatal, sizeof(n->fatal), "%s", text);
	print_message("# %s\n", text);
}

static void on_segment(void *arg, struct segment *segment)
{
}

static void on_position(void *arg, uint64_t session, uint64_t seq)
{
}

/* Nothing is packed here. */
static const struct catalogue *on_catalogue(void *arg)
{
	static struct catalogue *none;
	if (none == NULL)
		none = catalogue_new();
	return none;
}

static void on_commit(void *arg, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg)
{
}

static enum engine_session_state on_session(void *arg, uint64_t session, uint64_t *ret_watermark)
{
	*ret_watermark = 0;
	return ENGINE_SESSION_ACTIVE;
}

static const struct engine_events events = {
	.on_fatal = on_fatal, .on_reclaim = on_segment, .on_segment_gone = on_segment, .on_wal_position = on_position,
	.catalogue = on_catalogue, .commit = on_commit, .session = on_session,
};

static void on_started(void *arg, const struct engine_recovery_stats *stats)
{
	struct node *n = arg;
	n->serving = true;
	n->stats = *stats;
}

static void run_until(struct node *n, const bool *flag)
{
	while (!*flag && n->fatal[0] == '\0')
		uv_run(&n->loop, UV_RUN_ONCE);
	assert_string_equal(n->fatal, "");
}

static void node_open(struct node *n, size_t n_ended)
{
	struct objstore_url url;
	char text[256], fault[256];
	struct engine_config config = {
		.node = 1, .wal_cache_size = 16u << 20, .segment_size = 1u << 20, .block_cache_size = 4u << 20,
		.max_message_size = 1u << 20, .max_inflight = 2,
	};
	memset(n, 0, sizeof(*n));
	snprintf(text, sizeof(text), "-1@file://%s", dir);
	memset(config.put_id, (int)n_ended + 1, sizeof(config.put_id));
	assert_int_equal(uv_loop_init(&n->loop), 0);
	assert_int_equal(env_uv_new(&n->loop, &n->env), 0);
	assert_int_equal(objstore_url_parse(text, &url, fault, sizeof(fault)), 0);
	assert_int_equal(objstore_open(n->env, &url, config.put_id, &n->store, fault, sizeof(fault)), 0);
	assert_int_equal(engine_new(n->env, n->store, n->store, &config, &events, n, &n->engine), 0);
	n->log = engine_log_add(n->engine, 5, 1, 0, false);
	for (size_t i = 0; i < n_ended; i++)
		n->ended[i] = (struct engine_session){ .session = i + 1 };
	engine_start(n->engine, n->ended, n_ended, n_ended + 1, on_started, n);
	run_until(n, &n->serving);
}

/* Without a stop: what is under way is lost, as with kill -9. */
static void node_close(struct node *n)
{
	n->store->ops->free(n->store);
	for (int i = 0; i < 10; i++)
		uv_run(&n->loop, UV_RUN_NOWAIT);
	engine_free(n->engine);
	env_uv_free(n->env);
	uv_run(&n->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&n->loop), 0);
}

/* ------------------------------------------------------------------ appends */

struct one {
	struct engine_append a;         /* first */
	struct node *node;
	uint8_t batch[256];
	unsigned number;
	bool done;
};

static unsigned n_done;
static uint64_t next_answered;

static void on_done(struct engine_append *a, const struct pico_error *error)
{
	struct one *x = (struct one *)a;
	assert_null(error);
	assert_int_equal(a->base_offset, next_answered++);
	x->done = true;
	n_done++;
}

static void one_send(struct node *n, struct one *x, unsigned number)
{
	struct buf b;
	struct record_batch_writer w;
	char text[32];
	snprintf(text, sizeof(text), "record %u", number);
	buf_init(&b, sizeof(x->batch));
	record_batch_begin(&w, &b);
	record_batch_add(&w, slice_of(NULL, 0), slice_str(text), NULL, 0);
	size_t size = record_batch_end(&w);
	assert_true(size > 0);
	memcpy(x->batch, buf_head(&b), size);
	buf_done(&b);
	x->number = number;
	x->a = (struct engine_append){ .log = n->log, .payload = slice_of(x->batch, size), .on_done = on_done };
	engine_append(n->engine, &x->a);
}

static size_t wal_files(const char *session)
{
	char path[256], command[400];
	unsigned long count = 0;
	snprintf(path, sizeof(path), "%s/wal/1/%s", dir, session);
	snprintf(command, sizeof(command), "ls %s | wc -l", path);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &count), 1);
	pclose(f);
	return count;
}

/* -------------------------------------------------------------------- reads */

static bool read_done;

static void on_read(struct engine_read *r, const struct pico_error *error)
{
	assert_null(error);
	read_done = true;
}

/* The records of a read are "record <from>", "record <from + 1>", ... Returns the offset behind them. */
static uint64_t read_check(struct node *n, uint64_t from)
{
	struct engine_read r = { .log = n->log, .from = from, .max_bytes = 65536, .on_done = on_read };
	struct buf all;
	buf_init(&all, 1 << 20);
	read_done = false;
	engine_read(n->engine, &r);
	run_until(n, &read_done);
	for (size_t i = 0; i < r.n_pieces; i++) {
		buf_put(&all, r.pieces[i].segment->mem.base + r.pieces[i].offset, r.pieces[i].length);
		pin_drop(r.pieces[i].pin);
	}
	free(r.pieces);
	uint64_t offset = from;
	while (buf_len(&all) > 0) {
		struct record_batch b;
		struct record_iter it;
		struct record record;
		char text[32];
		int64_t size = record_batch_size(buf_slice(&all));
		assert_true(size > 0);
		assert_int_equal(record_batch_read(slice_of(buf_head(&all), (size_t)size), &b), 0);
		assert_true(record_batch_crc_is_good(&b));
		assert_int_equal(b.base_offset, offset);
		assert_int_equal(record_iter_init(&it, &b), 0);
		assert_int_equal(record_iter_next(&it, &record), 1);
		snprintf(text, sizeof(text), "record %u", (unsigned)offset);
		assert_true(slice_is(record.value, text));
		offset++;
		buf_consume(&all, (size_t)size);
	}
	buf_done(&all);
	assert_int_equal(offset, r.end);
	return offset;
}

static void read_all(struct node *n, uint64_t end)
{
	uint64_t offset = 0;
	while (offset < end) {
		uint64_t next = read_check(n, offset);
		assert_true(next > offset);
		offset = next;
	}
	assert_int_equal(offset, log_confirm(n->log));
}

static void test_lone_append(void **state)
{
	struct node n;
	struct one x = { 0 };
	node_open(&n, 0);
	n_done = 0;
	next_answered = 0;
	assert_int_equal(wal_files("0000000000000001"), 1);
	one_send(&n, &x, 0);
	run_until(&n, &x.done);
	assert_int_equal(wal_files("0000000000000001"), 2);
	read_all(&n, 1);
	node_close(&n);
}

/* Group commit under load, killed in the middle, read back; then again in the next session. */
static void test_load_kill_recover(void **state)
{
	struct node n;
	static struct one ones[N_APPENDS];
	node_open(&n, 1);
	assert_int_equal(log_next(n.log), 1);
	n_done = 0;
	next_answered = 1;
	for (unsigned i = 0; i < N_APPENDS; i++) {
		one_send(&n, &ones[i], i + 1);
		if (i % 50 == 49)
			uv_run(&n.loop, UV_RUN_NOWAIT);
	}
	while (n_done < N_APPENDS / 2)
		uv_run(&n.loop, UV_RUN_ONCE);
	unsigned answered = n_done;
	node_close(&n);
	assert_true(wal_files("0000000000000002") < 500); /* appends share objects */

	node_open(&n, 2);
	uint64_t found = log_confirm(n.log);
	assert_in_range(found, answered + 1, N_APPENDS + 1);
	assert_int_equal(n.stats.frames, found);
	read_all(&n, found);
	struct one x = { 0 };
	next_answered = found;
	one_send(&n, &x, (unsigned)found);
	run_until(&n, &x.done);
	node_close(&n);

	node_open(&n, 3);
	read_all(&n, found + 1);
	node_close(&n);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	return mkdtemp(dir) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lone_append), cmocka_unit_test(test_load_kill_recover) };
	return cmocka_run_group_tests_name("engine-files", tests, setup, teardown);
}
