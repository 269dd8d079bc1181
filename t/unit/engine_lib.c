/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "common/record_batch.h"
#include "storaged/data/data_format.h"
#include "t/unit/engine.h"

struct world world;
struct process process;
struct metadata metadata;
struct engine_config test_config;
unsigned answers;

static const struct engine_config defaults = {
	.node = 7,
	.put_id = "put id of proces",
	.wal_cache_size = 16 * 8192,
	.segment_size = 8192,
	.block_cache_size = 16 * 65536,
	.max_message_size = 4096,
	.max_bytes_in_batch = 4096,
	.max_inflight = 3,
};

int test_setup(void **state)
{
	test_config = defaults;
	world_init(&world);
	metadata = (struct metadata){ .catalogue = catalogue_new() };
	for (int i = 0; i < N_LOGS; i++)
		metadata.rule[i].ms = metadata.rule[i].bytes = -1;
	answers = 0;
	return 0;
}

int test_teardown(void **state)
{
	if (process.engine != NULL)
		process_kill(&process);
	world_done(&world);
	catalogue_free(metadata.catalogue);
	return 0;
}

void plant(uint64_t session, uint64_t seq, enum wal_kind kind, const char *put_id)
{
	char key[WAL_KEY_MAX];
	uint8_t bytes[WAL_HEADER];
	struct wal_header h = { .kind = kind, .node = 7, .session = session, .seq = seq };
	memcpy(h.put_id, put_id, 16);
	wal_header_encode(bytes, &h);
	wal_key(key, 7, session, seq);
	world_store(&world, key, bytes, sizeof(bytes));
}

static void on_fatal(void *arg, int code, const char *text)
{
	struct process *p = arg;
	p->fatal = code;
	snprintf(p->fatal_text, sizeof(p->fatal_text), "%s", text);
}

static void on_warning(void *arg, const char *text)
{
	struct process *p = arg;
	p->n_warnings++;
	snprintf(p->warning, sizeof(p->warning), "%s", text);
}

static void on_reclaim(void *arg, struct segment *segment)
{
	((struct process *)arg)->n_reclaims++;
}

static void on_segment_gone(void *arg, struct segment *segment)
{
	((struct process *)arg)->n_gone++;
}

static void on_wal_position(void *arg, uint64_t session, uint64_t seq)
{
	((struct process *)arg)->position = seq;
}

static const struct catalogue *on_catalogue(void *arg)
{
	return metadata.catalogue;
}

static void on_proposal(void *arg)
{
	struct proposal *x = arg;
	engine_proposed_cb *done = x->done;
	x->done = NULL;
	done(x->done_arg, true, NULL);
}

/* Applied at once, answered later. */
static void propose(struct process *p, engine_proposed_cb *done, void *done_arg)
{
	struct proposal *x = p->proposals;
	while (x->done != NULL)
		assert_true(++x < p->proposals + 4);
	*x = (struct proposal){ .task = { .run = on_proposal, .arg = x }, .done = done, .done_arg = done_arg };
	env_defer(&p->world->env, &x->task);
}

static void on_commit(void *arg, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg)
{
	struct process *p = arg;
	static uint64_t run;
	assert_true(c->session == 0 || (c->from == metadata.watermark[c->session] && c->to > c->from));
	for (uint64_t s = 1; s < c->session; s++)
		assert_true(metadata.recovered[s]);
	run++;
	for (size_t i = 0; i < c->n_remove; i++)
		catalogue_mark(metadata.catalogue, c->remove[i], env_wall_ms(&p->world->env), run);
	for (size_t i = 0; i < c->n_add; i++) {
		struct object_row row = c->add[i];
		row.changed_idx = run;
		if (row.run == 0)
			row.run = run;
		catalogue_add(metadata.catalogue, &row);
	}
	if (c->session != 0)
		metadata.watermark[c->session] = c->to;
	p->n_commits++;
	p->n_rewrites += c->session == 0 && c->n_remove == 1 && c->n_add > 0;
	p->n_merges += c->session == 0 && c->n_remove > 1 && c->n_add > 0;
	propose(p, done, done_arg);
}

static void on_recovered(void *arg, uint64_t session, uint64_t cut, engine_proposed_cb *done, void *done_arg)
{
	struct process *p = arg;
	assert_int_equal(metadata.watermark[session], cut);
	metadata.recovered[session] = true;
	p->n_recovered++;
	propose(p, done, done_arg);
}

static void on_deleted(void *arg, const struct object_id *ids, size_t n, engine_proposed_cb *done, void *done_arg)
{
	struct process *p = arg;
	if (metadata.forgets_nothing)
		return;
	for (size_t i = 0; i < n; i++) {
		char key[DATA_KEY_MAX];
		data_key(key, ids[i]);
		assert_null(world_find(p->world, key));
		catalogue_drop(metadata.catalogue, ids[i]);
	}
	p->n_deleted += n;
	propose(p, done, done_arg);
}

static uint64_t on_living(void *arg, uint64_t log_id)
{
	return log_id < 100 + N_LOGS ? metadata.start[log_id - 100] : 0;
}

static bool on_retention(void *arg, uint64_t log_id, struct engine_retention *ret)
{
	if (log_id >= 100 + N_LOGS || metadata.start[log_id - 100] == UINT64_MAX)
		return false;
	ret->ms = metadata.rule[log_id - 100].ms;
	ret->bytes = metadata.rule[log_id - 100].bytes;
	ret->start = metadata.start[log_id - 100];
	return ret->ms >= 0 || ret->bytes >= 0;
}

static int64_t on_retention_shortest(void *arg, bool *ret_by_size)
{
	int64_t shortest = -1;
	*ret_by_size = false;
	for (int i = 0; i < N_LOGS; i++) {
		*ret_by_size |= metadata.rule[i].bytes >= 0;
		if (metadata.rule[i].ms >= 0 && (shortest < 0 || metadata.rule[i].ms < shortest))
			shortest = metadata.rule[i].ms;
	}
	return shortest;
}

static void on_trim(void *arg, const struct engine_trim *trims, size_t n, engine_proposed_cb *done, void *done_arg)
{
	struct process *p = arg;
	for (size_t i = 0; i < n; i++)
		if (p->logs[trims[i].log_id - 100] != NULL)
			log_trim(p, (int)trims[i].log_id - 100, trims[i].start);
	p->n_trims++;
	propose(p, done, done_arg);
}

static enum engine_session_state on_session(void *arg, uint64_t session, uint64_t *ret_watermark)
{
	const struct process *p = arg;
	if (session == 0 || session > p->session)
		return ENGINE_SESSION_UNKNOWN;
	*ret_watermark = metadata.watermark[session];
	return session == p->session ? ENGINE_SESSION_ACTIVE :
	       metadata.recovered[session] ? ENGINE_SESSION_RECOVERED : ENGINE_SESSION_ENDED;
}

static const struct engine_events events = {
	.on_fatal = on_fatal, .on_warning = on_warning, .on_reclaim = on_reclaim, .on_segment_gone = on_segment_gone,
	.on_wal_position = on_wal_position, .catalogue = on_catalogue, .commit = on_commit,
	.recovered = on_recovered, .deleted = on_deleted, .living = on_living,
	.session = on_session, .retention = on_retention, .retention_shortest = on_retention_shortest, .trim = on_trim,
};

static void on_started(void *arg, const struct engine_recovery_stats *stats)
{
	struct process *p = arg;
	assert_false(p->serving);
	p->serving = true;
	p->stats = *stats;
}

void process_new(struct process *p, struct world *w)
{
	*p = (struct process){ .world = w };
	assert_int_equal(engine_new(&w->env, &w->store, &w->store, &test_config, &events, p, &p->engine), 0);
}

void process_start(struct process *p, struct world *w, size_t n_ended)
{
	process_new(p, w);
	for (int i = 0; i < N_LOGS; i++)
		if (metadata.start[i] != UINT64_MAX)
			p->logs[i] = engine_log_add(p->engine, 100 + (uint64_t)i, 1, metadata.start[i], false);
	process_go(p, n_ended);
}

void process_go(struct process *p, size_t n_ended)
{
	size_t n = 0;
	for (uint64_t s = 1; s <= n_ended; s++)
		if (!metadata.recovered[s])
			p->ended[n++] = (struct engine_session){ .session = s, .watermark = metadata.watermark[s] };
	p->session = n_ended + 1;
	engine_start(p->engine, p->ended, n, n_ended + 1, on_started, p);
}

void process_pack(struct process *p)
{
	world_advance(p->world, 600000);
	assert_true(p->n_commits > 0);
}

void log_trim(struct process *p, int i, uint64_t start)
{
	metadata.start[i] = start;
	engine_log_trim(p->engine, p->logs[i], start);
}

void log_delete(struct process *p, int i)
{
	metadata.start[i] = UINT64_MAX;
	engine_log_remove(p->engine, p->logs[i]);
	p->logs[i] = NULL;
}

void process_serve(struct process *p, struct world *w, size_t n_ended)
{
	process_start(p, w, n_ended);
	world_run(w);
	if (p->fatal)
		print_message("# %s\n", p->fatal_text);
	assert_true(p->serving);
}

void process_kill(struct process *p)
{
	world_crash(p->world);
	engine_free(p->engine);
	p->engine = NULL;
	assert_int_equal(p->world->n_segments, 0);
}

/* ------------------------------------------------------------------ appends */

static void on_done(struct engine_append *a, const struct pico_error *error)
{
	struct append *x = (struct append *)a;
	x->n_answers++;
	x->order = ++answers;
	if (error != NULL)
		x->error = *error;
}

static size_t batch_make(uint8_t *to, size_t size, const char *text)
{
	struct buf b;
	struct record_batch_writer writer;
	buf_init(&b, size);
	record_batch_begin(&writer, &b);
	for (const char *end = text; end != NULL; text = end + 1) {
		end = strchr(text, '|');
		size_t n_text = end != NULL ? (size_t)(end - text) : strlen(text);
		record_batch_add(&writer, slice_of(NULL, 0), slice_of(text, n_text), NULL, 0);
		if (end == NULL)
			break;
	}
	size_t n = record_batch_end(&writer);
	assert_true(n > 0);
	memcpy(to, buf_head(&b), n);
	buf_done(&b);
	return n;
}

struct append *append_new(struct process *p, int i, const char *text)
{
	struct append *a = must_calloc(1, sizeof(*a));
	a->a.log = p->logs[i];
	a->a.on_done = on_done;
	if (text != NULL)
		a->a.payload = slice_of(a->batch, batch_make(a->batch, sizeof(a->batch), text));
	return a;
}

void append_send(struct process *p, struct append *a)
{
	engine_append(p->engine, &a->a);
}

struct append *append_do(struct process *p, int i, const char *text)
{
	struct append *a = append_new(p, i, text);
	append_send(p, a);
	return a;
}

void append_producer(struct append *a, const char *id, uint64_t epoch, uint64_t seq)
{
	a->a.has_producer = true;
	a->a.producer_id = slice_str(id);
	a->a.producer_epoch = epoch;
	a->a.producer_seq = seq;
}

void append_free(struct append *a)
{
	assert_int_equal(a->n_answers, 1);
	free(a);
}

void append_now(struct process *p, int i, const char *text, uint64_t base)
{
	struct append *a = append_do(p, i, text);
	world_run(p->world);
	assert_stored(a, base, base + 1);
	append_free(a);
}

void append_fill(struct process *p, int i, unsigned n)
{
	char text[16];
	for (unsigned k = 0; k < n; k++) {
		snprintf(text, sizeof(text), "%u", k);
		append_now(p, i, text, k);
	}
}

void assert_stored(const struct append *a, uint64_t base, uint64_t next)
{
	if (a->error.kind != PICO_OK)
		print_message("# %s\n", a->error.message);
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, PICO_OK);
	assert_false(a->a.duplicate);
	assert_int_equal(a->a.base_offset, base);
	assert_int_equal(a->a.next_offset, next);
}

void assert_refused(const struct append *a, enum pico_error_kind kind)
{
	assert_int_equal(a->n_answers, 1);
	assert_int_equal(a->error.kind, kind);
}

void assert_open(const struct append *a)
{
	assert_int_equal(a->n_answers, 0);
}

/* -------------------------------------------------------------------- reads */

static void on_read(struct engine_read *r, const struct pico_error *error)
{
	struct read *x = (struct read *)r;
	x->n_answers++;
	if (error != NULL)
		x->error = *error;
}

struct read *read_new(struct process *p, int i, uint64_t from, uint32_t max_bytes)
{
	struct read *r = must_calloc(1, sizeof(*r));
	r->r = (struct engine_read){ .log = p->logs[i], .from = from, .max_bytes = max_bytes, .on_done = on_read };
	engine_read(p->engine, &r->r);
	return r;
}

/* Walks a run of whole batches that may cross pieces. */
const char *read_texts(struct read *r)
{
	static char texts[1 << 20];
	struct buf all;
	buf_init(&all, 1 << 24);
	for (size_t i = 0; i < r->r.n_pieces; i++) {
		const struct piece *x = &r->r.pieces[i];
		buf_put(&all, x->segment->mem.base + x->offset, x->length);
		pin_drop(x->pin);
	}
	r->r.n_pieces = 0;
	texts[0] = '\0';
	while (buf_len(&all) > 0) {
		struct record_batch b;
		struct record_iter it;
		struct record record;
		int64_t n = record_batch_size(buf_slice(&all));
		assert_true(n > 0 && (size_t)n <= buf_len(&all));
		assert_int_equal(record_batch_read(slice_of(buf_head(&all), (size_t)n), &b), 0);
		assert_true(record_batch_crc_is_good(&b));
		assert_int_equal(record_iter_init(&it, &b), 0);
		while (record_iter_next(&it, &record) == 1) {
			if (texts[0] != '\0')
				strcat(texts, "|");
			strncat(texts, (const char *)record.value.p, record.value.n);
		}
		buf_consume(&all, (size_t)n);
	}
	buf_done(&all);
	return texts;
}

void read_free(struct read *r)
{
	read_texts(r);
	free(r->r.pieces);
	free(r);
}

void assert_records(struct process *p, int i, uint64_t from, const char *texts)
{
	struct read *r = read_new(p, i, from, 1 << 20);
	world_run(p->world);
	assert_int_equal(r->n_answers, 1);
	if (r->error.kind != PICO_OK)
		print_message("# %s\n", r->error.message);
	assert_int_equal(r->error.kind, PICO_OK);
	assert_string_equal(read_texts(r), texts);
	read_free(r);
}
