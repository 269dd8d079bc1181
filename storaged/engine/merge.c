/* SPDX-License-Identifier: Apache-2.0
 *
 * One merge goes from log to log, in order of id:
 *
 *   gather  the log's state entries and index entries of all inputs
 *   copy    its blocks by offset: into the object being filled, or into objects of its own when there is much
 *   settle  its folded state entry; then the next log
 *
 * A rewrite is a merge of one object, whose level and run its outputs keep; a join is one of objects of one log alone.
 *
 * Whatever must be read or stored first stops the step, which goes on where it was. An object closes at
 * bounds.merge_max, for its frames are kept in memory until it is stored.
 */
#include "storaged/engine/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/data/data_builder.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/damage.h"
#include "storaged/engine/gc.h"
#include "storaged/engine/join.h"
#include "storaged/engine/merge_input.h"
#include "storaged/engine/pack_store.h"
#include "storaged/engine/sweep.h"
#include "storaged/planted.h"

enum merge_phase { MERGE_IDLE, MERGE_GATHER, MERGE_COPY, MERGE_SETTLE, MERGE_COMMIT };

/* A block of the log at hand, and whose it is. */
struct merge_block {
	struct data_index_entry entry;
	uint32_t input;
};

/* An object being filled or stored, and the blocks it points into. */
struct merge_output {
	struct data_builder *builder;   /* NULL: there is none */
	uint8_t **copies;
	size_t n_copies, capacity;
};

struct merger {
	struct engine *engine;
	enum merge_phase phase;
	uint32_t level;                 /* of the outputs that are runs */
	bool rewriting;                 /* one object */
	struct merge_input *inputs;
	uint32_t n_inputs, input;       /* input: gathering from it */

	uint64_t log_id;                /* at hand */
	bool has_log;
	Frame__State **entries;
	size_t n_entries, entries_capacity;
	struct merge_block *blocks;
	size_t n_blocks, blocks_capacity, block;
	bool single;

	struct merge_output run, own;   /* being filled; own: of the log at hand alone */
	uint64_t copied;                /* offset behind the last frame of the log at hand that was copied */
	struct merge_output stored;     /* being stored */
	struct pack_store *store;
	struct object_row *rows;        /* stored */
	size_t n_rows;
	struct join join;
	struct env_task task, join_task;
	struct env_timer pause;
};

/* --------------------------------------------------------------------- begin */

static void on_input_ready(void *arg)
{
	struct merger *m = arg;
	if (m->phase != MERGE_IDLE)
		env_defer(m->engine->env, &m->task);
}

static void inputs_add_run(struct merger *m, uint32_t level, uint64_t run, size_t *n, size_t capacity)
{
	struct engine *e = m->engine;
	const struct catalogue *c = engine_catalogue(e);
	const struct object_row *row = NULL;
	while ((row = catalogue_of_run(c, e->config.node, level, run, row)) != NULL) {
		must(*n < capacity);
		merge_input_init(&m->inputs[(*n)++], e, row, on_input_ready, m);
	}
}

static bool run_is_damaged(const struct merger *m, uint32_t level, uint64_t run)
{
	const struct engine *e = m->engine;
	const struct object_row *row = NULL;
	while ((row = catalogue_of_run(engine_catalogue(e), e->config.node, level, run, row)) != NULL)
		if (damage_has(e->damage, row->id))
			return true;
	return false;
}

/* The oldest runs of the level, without those that have a damaged object. true: they are enough. */
static bool runs_choose(const struct merger *m, uint32_t level, uint64_t ret_run[MERGE_RUNS])
{
	const struct engine *e = m->engine;
	const struct catalogue *c = engine_catalogue(e);
	struct catalogue_level l = catalogue_level(c, e->config.node, level);
	unsigned n = 0;
	for (uint64_t run = l.oldest_run; l.n_runs >= MERGE_RUNS && run != 0 && n < MERGE_RUNS;
	     run = catalogue_next_run(c, e->config.node, level, run))
		if (!run_is_damaged(m, level, run))
			ret_run[n++] = run;
	return n == MERGE_RUNS;
}

static void merge_begin(struct merger *m, uint32_t level, const uint64_t run[MERGE_RUNS])
{
	struct engine *e = m->engine;
	struct catalogue_level l = catalogue_level(engine_catalogue(e), e->config.node, level);
	size_t n = 0;
	m->inputs = must_calloc(l.n_objects, sizeof(*m->inputs));
	for (unsigned i = 0; i < MERGE_RUNS; i++)
		inputs_add_run(m, level, run[i], &n, l.n_objects);
	m->n_inputs = (uint32_t)n;
	m->level = level + 1 < DATA_LEVELS ? level + 1 : level;
	m->phase = MERGE_GATHER;
	env_defer(e->env, &m->task);
}

static bool is_free(const struct merger *m)
{
	const struct engine *e = m->engine;
	return m->phase == MERGE_IDLE && e->serving && !e->dead && !e->stopping && m->pause.at_ms == 0;
}

/* Runs of levels come first; one step of the walk for singles to be joined follows. */
static void join_consider(struct merger *m)
{
	struct object_row row[JOIN_MAX];
	size_t n = join_look(&m->join, m->engine, row);
	if (n == 0) {
		if (!m->join.through)
			env_defer(m->engine->env, &m->join_task);
		return;
	}
	m->inputs = must_calloc(n, sizeof(*m->inputs));
	for (size_t i = 0; i < n; i++)
		merge_input_init(&m->inputs[i], m->engine, &row[i], on_input_ready, m);
	m->n_inputs = (uint32_t)n;
	m->level = DATA_LEVEL_SINGLE;
	m->phase = MERGE_GATHER;
	env_defer(m->engine->env, &m->task);
}

void merger_consider(struct merger *m)
{
	uint64_t run[MERGE_RUNS];
	for (uint32_t level = 0; level < DATA_LEVELS && is_free(m); level++)
		if (runs_choose(m, level, run))
			merge_begin(m, level, run);
	if (is_free(m))
		join_consider(m);
}

static void on_join_step(void *arg)
{
	merger_consider(arg);
}

bool merger_reads(const struct merger *m, struct object_id id)
{
	for (uint32_t i = 0; i < m->n_inputs; i++)
		if (object_id_is_equal(m->inputs[i].row.id, id))
			return true;
	return false;
}

void merger_rewrite(struct merger *m, const struct object_row *row)
{
	if (!is_free(m))
		return;
	m->inputs = must_calloc(1, sizeof(*m->inputs));
	merge_input_init(&m->inputs[0], m->engine, row, on_input_ready, m);
	m->n_inputs = 1;
	m->level = row->level;
	m->rewriting = true;
	m->phase = MERGE_GATHER;
	env_defer(m->engine->env, &m->task);
}

/* ----------------------------------------------------------------------- ends */

static void log_forget(struct merger *m)
{
	for (size_t i = 0; i < m->n_entries; i++)
		data_state_free(m->entries[i]);
	m->n_entries = m->n_blocks = m->block = 0;
	m->input = 0;
	m->copied = 0;
	m->has_log = false;
}

static void output_free(struct merge_output *o)
{
	data_builder_free(o->builder);
	while (o->n_copies > 0)
		free(o->copies[--o->n_copies]);
	free(o->copies);
	*o = (struct merge_output){ 0 };
}

static void merge_reset(struct merger *m)
{
	log_forget(m);
	for (uint32_t i = 0; i < m->n_inputs; i++)
		merge_input_done(&m->inputs[i]);
	pack_store_free(m->store);
	output_free(&m->stored);
	output_free(&m->run);
	output_free(&m->own);
	free(m->inputs);
	free(m->rows);
	m->inputs = NULL;
	m->rows = NULL;
	m->store = NULL;
	m->n_inputs = 0;
	m->n_rows = 0;
	m->rewriting = false;
	m->phase = MERGE_IDLE;
}

static void on_pause_end(void *arg)
{
	merger_consider(arg);
}

/* Given up; what it stored is nobody's and is swept. */
static void merge_fail(struct merger *m)
{
	metric_add(METRIC_MERGE_FAILURES, 1);
	for (uint32_t i = 0; i < m->n_inputs; i++)
		if (m->inputs[i].fault[0] != '\0')
			damage_note(m->engine->damage, m->inputs[i].row.id, m->inputs[i].fault, false);
	for (size_t i = 0; i < m->n_rows; i++)
		sweep_forget(m->engine->sweep, m->rows[i].id);
	merge_reset(m);
	join_again(&m->join);
	gc_consider(m->engine->gc);
	m->pause = (struct env_timer){ .on_fire = on_pause_end, .arg = m };
	env_timer_start(m->engine->env, &m->pause, env_now_ms(m->engine->env) + bounds.merge_pause_ms);
}

static void on_committed(void *arg, bool applied, const char *why)
{
	struct merger *m = arg;
	if (m->engine->dead)
		return;
	if (!applied) {
		merge_fail(m);
		return;
	}
	metric_add(m->rewriting ? METRIC_REWRITES : METRIC_MERGES, 1);
	merge_reset(m);
	gc_consider(m->engine->gc);
	merger_consider(m);
}

static void merge_commit(struct merger *m)
{
	struct engine *e = m->engine;
	struct object_id *gone = must_calloc(m->n_inputs, sizeof(*gone));
	for (uint32_t i = 0; i < m->n_inputs; i++)
		gone[i] = m->inputs[i].row.id;
	struct engine_commit c = { .add = m->rows, .n_add = m->n_rows, .remove = gone, .n_remove = m->n_inputs };
	m->phase = MERGE_COMMIT;
	e->events.commit(e->arg, &c, on_committed, m);
	free(gone);
}

/* -------------------------------------------------------------------- outputs */

static bool may_look(void *arg)
{
	struct merger *m = arg;
	return wal_may_look(&m->engine->wal);
}

static void on_stored(void *arg)
{
	struct merger *m = arg;
	env_defer(m->engine->env, &m->task);
	output_free(&m->stored);
}

/* Closes the object and begins to store it; nothing is added to any before that is done. */
static void output_close(struct merger *m, struct merge_output *o)
{
	must(m->stored.builder == NULL);
	m->stored = *o;
	*o = (struct merge_output){ 0 };
	m->rows = must_realloc(m->rows, (m->n_rows + 1) * sizeof(*m->rows));
	struct object_row *row = &m->rows[m->n_rows++];
	data_builder_finish(m->stored.builder, row);
	if (m->rewriting && row->level != DATA_LEVEL_SINGLE)
		row->run = m->inputs[0].row.run;
	pack_store_free(m->store);
	m->store = pack_store_begin(m->engine->env, m->engine->data, row->id, m->stored.builder, may_look, on_stored, m);
}

static struct merge_output output_new(struct merger *m, uint32_t level)
{
	struct engine *e = m->engine;
	struct object_id id = {
		.node = e->config.node, .session = e->sessions[e->n_sessions - 1].session, .number = e->next_object++,
	};
	return (struct merge_output){ .builder = data_builder_new(id, e->config.node, level) };
}

/* --------------------------------------------------------------------- gather */

static int compare_blocks(const void *a, const void *b)
{
	const struct merge_block *x = a, *y = b;
	return (x->entry.base > y->entry.base) - (x->entry.base < y->entry.base);
}

/* The lowest log id that any input still has. */
static enum input_answer next_log(struct merger *m, uint64_t *ret_log_id)
{
	bool found = false;
	for (uint32_t i = 0; i < m->n_inputs; i++) {
		uint64_t id;
		enum input_answer a = merge_input_log(&m->inputs[i], &id);
		if (a == INPUT_WAIT || a == INPUT_FAILED)
			return a;
		if (a == INPUT_OK && (!found || id < *ret_log_id)) {
			found = true;
			*ret_log_id = id;
		}
	}
	return found ? INPUT_OK : INPUT_NONE;
}

static bool entry_add(struct merger *m, struct slice bytes)
{
	const char *fault;
	Frame__State *entry = data_state_decode(bytes, m->log_id, &fault);
	if (entry == NULL)
		return false;
	if (m->n_entries == m->entries_capacity) {
		m->entries_capacity = m->entries_capacity == 0 ? 8 : m->entries_capacity * 2;
		m->entries = must_realloc(m->entries, m->entries_capacity * sizeof(*m->entries));
	}
	m->entries[m->n_entries++] = entry;
	return true;
}

static void block_add(struct merger *m, const struct data_index_entry *entry)
{
	if (m->n_blocks == m->blocks_capacity) {
		m->blocks_capacity = m->blocks_capacity == 0 ? 16 : m->blocks_capacity * 2;
		m->blocks = must_realloc(m->blocks, m->blocks_capacity * sizeof(*m->blocks));
	}
	m->blocks[m->n_blocks++] = (struct merge_block){ .entry = *entry, .input = m->input };
}

/* All that the input at hand says of the log. */
static enum input_answer gather_input(struct merger *m)
{
	struct merge_input *in = &m->inputs[m->input];
	uint64_t id;
	struct slice bytes;
	struct data_index_entry entry;
	enum input_answer a = merge_input_log(in, &id);
	if (a == INPUT_NONE || (a == INPUT_OK && id != m->log_id))
		return INPUT_OK;
	if (a == INPUT_OK)
		a = merge_input_state(in, m->log_id, &bytes);
	if (a == INPUT_OK && !entry_add(m, bytes))
		return INPUT_FAILED;
	while (a == INPUT_OK || a == INPUT_NONE) {
		a = merge_input_index(in, m->log_id, &entry);
		if (a == INPUT_NONE)
			return INPUT_OK;
		if (a == INPUT_OK)
			block_add(m, &entry);
	}
	return a;
}

static enum input_answer merge_gather(struct merger *m)
{
	if (!m->has_log) {
		enum input_answer a = next_log(m, &m->log_id);
		if (a != INPUT_OK)
			return a;
		m->has_log = true;
	}
	for (; m->input < m->n_inputs; m->input++) {
		enum input_answer a = gather_input(m);
		if (a != INPUT_OK)
			return a;
	}
	uint64_t size = 0;
	if (m->n_blocks > 1)
		qsort(m->blocks, m->n_blocks, sizeof(*m->blocks), compare_blocks);
	for (size_t i = 0; i < m->n_blocks; i++)
		size += m->blocks[i].entry.length;
	m->single = size >= bounds.single_min || m->level == DATA_LEVEL_SINGLE;
	m->phase = MERGE_COPY;
	return INPUT_OK;
}

/* ----------------------------------------------------------------------- copy */

static struct slice copy_keep(struct merge_output *o, struct slice bytes)
{
	if (o->n_copies == o->capacity) {
		o->capacity = o->capacity == 0 ? 64 : o->capacity * 2;
		o->copies = must_realloc(o->copies, o->capacity * sizeof(*o->copies));
	}
	uint8_t *copy = must_memdup(bytes.p, bytes.n);
	o->copies[o->n_copies++] = copy;
	return slice_of(copy, bytes.n);
}

static void block_frames(struct merger *m, struct merge_output *to, struct slice bytes, uint64_t bytes_before)
{
	const uint64_t living = engine_living(m->engine, m->log_id);
	struct frame_iter it = { .body = copy_keep(to, bytes) };
	struct frame f;
	const uint8_t *at = it.body.p;
	for (; frame_next(&it, &f) == 1; at = it.body.p + it.position) {
		uint64_t end = f.base_offset + f.record_count;
		struct data_frame x = {
			.log_id = f.log_id, .base = f.base_offset, .end = end, .append_ms = f.append_time,
			.max_timestamp = f.max_timestamp, .bytes = slice_of(at, (size_t)(it.body.p + it.position - at)),
			.batch_bytes = (uint32_t)f.payload.n,
		};
		/* After a restore of the metadata a frame may stand in two objects: both are one. */
		if (end > living && f.base_offset >= m->copied) {
			data_builder_frame(to->builder, &x, bytes_before);
			m->copied = end;
		}
		bytes_before += f.payload.n;
	}
}

static struct merge_output *output_of(struct merger *m)
{
	struct merge_output *to = m->single ? &m->own : &m->run;
	if (to->builder == NULL)
		*to = output_new(m, m->single ? DATA_LEVEL_SINGLE : m->level);
	return to;
}

/* NONE: an object is being stored first, or there was much to do in this turn. */
static enum input_answer merge_copy(struct merger *m, const struct log *log)
{
	uint64_t done = 0, living = engine_living(m->engine, m->log_id);
	for (; log != NULL && m->block < m->n_blocks; m->block++) {
		const struct merge_block *b = &m->blocks[m->block];
		struct slice bytes;
		if (b->entry.end <= living)
			continue;
		if (m->own.builder != NULL && data_builder_size(m->own.builder) >= bounds.merge_max) {
			output_close(m, &m->own);
			return INPUT_NONE;
		}
		if (done > bounds.merge_bytes) {
			env_defer(m->engine->env, &m->task);
			return INPUT_NONE;
		}
		enum input_answer a = merge_input_block(&m->inputs[b->input], &b->entry, &bytes);
		if (a != INPUT_OK)
			return a;
		block_frames(m, output_of(m), bytes, b->entry.bytes_before);
		done += bytes.n;
	}
	m->phase = MERGE_SETTLE;
	return INPUT_OK;
}

/* --------------------------------------------------------------------- settle */

/* false: the entries contradict each other. */
static bool entry_put(struct merger *m, struct log *log)
{
	bool good = data_state_fold_all(m->entries, m->n_entries) == NULL;
	const Frame__State *newest = m->entries[0];
	m->n_entries = 1;
	if (!good)
		return false;
	if (planted(PLANTED_NEWEST_BY_RUN) && newest->complete && log->is_open && log->open->loaded)
		log->open->complete_next = newest->next;
	size_t n = frame__state__get_packed_size(newest);
	uint8_t *bytes = must_calloc(1, n + 1);
	frame__state__pack(newest, bytes);
	if (m->run.builder == NULL)
		m->run = output_new(m, m->level);
	data_builder_state(m->run.builder, m->log_id, slice_of(bytes, n));
	free(bytes);
	return true;
}

/* NONE: an object is being stored first. */
static enum input_answer merge_settle(struct merger *m, struct log *log)
{
	if (m->own.builder != NULL) {
		if (!data_builder_is_empty(m->own.builder)) {
			output_close(m, &m->own);
			return INPUT_NONE;
		}
		output_free(&m->own);
	}
	bool keeps = log != NULL && m->n_entries > 0;
	if (planted(PLANTED_STATE_WITH_RECORDS))
		keeps = keeps && m->n_blocks > 0 && m->blocks[m->n_blocks - 1].entry.end > log->start;
	if (keeps && !entry_put(m, log))
		return INPUT_FAILED;
	log_forget(m);
	m->phase = MERGE_GATHER;
	if (m->run.builder == NULL || data_builder_size(m->run.builder) < bounds.merge_max)
		return INPUT_OK;
	output_close(m, &m->run);
	return INPUT_NONE;
}

/* ----------------------------------------------------------------------- step */

/* No log is left: what is open is closed, then all of it is committed. */
static void merge_end(struct merger *m)
{
	if (m->run.builder != NULL && !data_builder_is_empty(m->run.builder)) {
		output_close(m, &m->run);
		return;
	}
	merge_commit(m);
}

static enum input_answer merge_one(struct merger *m)
{
	struct log *log = m->has_log ? log_table_find(&m->engine->logs, m->log_id) : NULL;
	switch (m->phase) {
	case MERGE_GATHER:
		return merge_gather(m);
	case MERGE_COPY:
		return merge_copy(m, log);
	case MERGE_SETTLE:
		return merge_settle(m, log);
	case MERGE_IDLE:
	case MERGE_COMMIT:
		break;
	}
	return INPUT_WAIT;
}

static void on_step(void *arg)
{
	struct merger *m = arg;
	if (m->engine->dead || m->engine->stopping || m->stored.builder != NULL || m->phase == MERGE_IDLE || m->phase == MERGE_COMMIT)
		return;
	enum input_answer a;
	unsigned n = 0;
	while ((a = merge_one(m)) == INPUT_OK && ++n < bounds.merge_steps)
		;
	if (a == INPUT_FAILED)
		merge_fail(m);
	else if (a == INPUT_OK)
		env_defer(m->engine->env, &m->task);
	else if (a == INPUT_NONE && m->phase == MERGE_GATHER && !m->has_log && m->stored.builder == NULL)
		merge_end(m);
}

struct merger *merger_new(struct engine *e)
{
	struct merger *m = must_calloc(1, sizeof(*m));
	m->engine = e;
	m->task = (struct env_task){ .run = on_step, .arg = m };
	m->join_task = (struct env_task){ .run = on_join_step, .arg = m };
	return m;
}

void merger_free(struct merger *m)
{
	if (m == NULL)
		return;
	env_timer_stop(m->engine->env, &m->pause);
	merge_reset(m);
	free(m->entries);
	free(m->blocks);
	free(m);
}
