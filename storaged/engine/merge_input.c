/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over an object: each read takes some more than was asked for, since what follows is asked for next.
 */
#include "storaged/engine/merge_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/bounds.h"
#include "storaged/engine/backoff.h"

#define FAULTS_MAX 5u

static void input_get(struct merge_input *in);

static void input_fail(struct merge_input *in, const char *fault)
{
	char key[DATA_KEY_MAX];
	data_key(key, in->row.id);
	snprintf(in->fault, sizeof(in->fault), "%s: %s", key, fault);
}

/* --------------------------------------------------------------------- reads */

static void on_get_again(void *arg)
{
	input_get(arg);
}

static void input_wait(struct merge_input *in)
{
	struct env *env = in->engine->env;
	in->timer = (struct env_timer){ .on_fire = on_get_again, .arg = in };
	env_timer_start(env, &in->timer, backoff_next(env, &backoff_write, &in->backoff_ms));
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct merge_input *in = arg;
	struct window *w = &in->window[in->reading];
	in->busy = false;
	if (!wal_may_look(&in->engine->wal))
		return;
	if (result.outcome == OUTCOME_OK) {
		metric_add(METRIC_STORE_GET_BYTES, (int64_t)data.n);
		free(w->bytes);
		*w = (struct window){ .bytes = must_memdup(data.p, data.n), .position = in->read_position, .length = data.n };
		in->backoff_ms = 0;
		in->on_ready(in->arg);
	} else if (result.outcome == OUTCOME_NOT_APPLIED && (result.err == -ENOENT || result.err == -ERANGE)) {
		input_fail(in, "it is missing or cut off");
		in->on_ready(in->arg);
	} else {
		input_wait(in);
	}
}

static void input_get(struct merge_input *in)
{
	char key[DATA_KEY_MAX];
	data_key(key, in->row.id);
	in->busy = true;
	metric_add(METRIC_STORE_GETS, 1);
	objstore_get(in->engine->data, key, in->read_position, in->read_length, on_got, in);
}

/* [position, position + length), which lies below end. */
static enum input_answer window_need(struct merge_input *in, enum input_window which, uint64_t position, uint64_t length,
				     uint64_t end, struct slice *ret)
{
	struct window *w = &in->window[which];
	uint64_t ahead = which == WINDOW_BLOCKS ? bounds.blocks_ahead : bounds.pages_ahead;
	if (in->fault[0] != '\0')
		return INPUT_FAILED;
	if (position >= w->position && position + length <= w->position + w->length) {
		*ret = slice_of(w->bytes + (position - w->position), length);
		return INPUT_OK;
	}
	must(!in->busy);
	in->reading = which;
	in->read_position = position;
	in->read_length = length > ahead ? length : end - position < ahead ? end - position : ahead;
	if (in->read_length < length)
		in->read_length = length;
	input_get(in);
	return INPUT_WAIT;
}

/* What was read is wrong: read again, or given up. */
static enum input_answer window_bad(struct merge_input *in, enum input_window which, const char *fault)
{
	struct window *w = &in->window[which];
	if (++in->n_faults >= FAULTS_MAX) {
		input_fail(in, fault);
		return INPUT_FAILED;
	}
	must(!in->busy);
	in->reading = which;
	in->read_position = w->position;
	in->read_length = w->length;
	w->length = 0;
	input_wait(in);
	return INPUT_WAIT;
}

/* ----------------------------------------------------------------------- open */

static void on_top(struct index_wait *w, const char *fault, bool missing)
{
	struct merge_input *in = (struct merge_input *)((char *)w - offsetof(struct merge_input, wait));
	if (fault != NULL)
		input_fail(in, fault);
	in->on_ready(in->arg);
}

static enum input_answer input_open(struct merge_input *in)
{
	if (in->fault[0] != '\0')
		return INPUT_FAILED;
	if (in->open)
		return INPUT_OK;
	const struct data_top *top = index_cache_top(in->engine->index, in->row.id, &in->wait);
	if (top == NULL)
		return INPUT_WAIT;
	in->n_state = top->n_state;
	in->n_index = top->n_index;
	in->state = must_memdup(top->state, in->n_state * sizeof(*in->state));
	in->index = must_memdup(top->index, in->n_index * sizeof(*in->index));
	in->open = true;
	return INPUT_OK;
}

void merge_input_init(struct merge_input *in, struct engine *e, const struct object_row *row,
		      void (*on_ready)(void *arg), void *arg)
{
	*in = (struct merge_input){ .engine = e, .row = *row, .on_ready = on_ready, .arg = arg };
	in->wait.on_ready = on_top;
}

void merge_input_done(struct merge_input *in)
{
	index_wait_stop(&in->wait);
	env_timer_stop(in->engine->env, &in->timer);
	for (unsigned i = 0; i < N_WINDOWS; i++)
		free(in->window[i].bytes);
	free(in->state);
	free(in->index);
}

/* ---------------------------------------------------------------------- pages */

static uint64_t pages_end(const struct data_page *p, size_t n)
{
	return p[n - 1].position + p[n - 1].length;
}

/* The state entry that is next. NONE: there is no more. */
static enum input_answer state_next(struct merge_input *in, uint64_t *ret_log_id, struct slice *ret_entry, size_t *ret_at)
{
	for (; in->state_page < in->n_state; in->state_page++, in->state_at = 0) {
		const struct data_page *p = &in->state[in->state_page];
		struct slice page;
		enum input_answer a = window_need(in, WINDOW_STATE, p->position, p->length, pages_end(in->state, in->n_state),
						  &page);
		if (a != INPUT_OK)
			return a;
		const char *fault = in->state_at == 0 ? data_state_page_check(page, p) : NULL;
		if (fault != NULL)
			return window_bad(in, WINDOW_STATE, fault);
		*ret_at = in->state_at;
		if (data_state_page_next(page, ret_at, ret_log_id, ret_entry))
			return INPUT_OK;
	}
	return INPUT_NONE;
}

static enum input_answer index_next(struct merge_input *in, struct data_index_entry *ret_entry)
{
	for (; in->index_page < in->n_index; in->index_page++, in->index_at = 0) {
		const struct data_page *p = &in->index[in->index_page];
		struct slice page;
		enum input_answer a = window_need(in, WINDOW_INDEX, p->position, p->length, pages_end(in->index, in->n_index),
						  &page);
		if (a != INPUT_OK)
			return a;
		const char *fault = in->index_at == 0 ? data_index_page_check(page, p) : NULL;
		if (fault != NULL)
			return window_bad(in, WINDOW_INDEX, fault);
		if (in->index_at < data_index_page_count(page)) {
			data_index_page_get(page, in->index_at, ret_entry);
			return INPUT_OK;
		}
	}
	return INPUT_NONE;
}

/* -------------------------------------------------------------------- answers */

enum input_answer merge_input_log(struct merge_input *in, uint64_t *ret_log_id)
{
	uint64_t state_log;
	struct slice entry;
	struct data_index_entry block;
	size_t at;
	if (in->fault[0] != '\0')
		return INPUT_FAILED;
	if (!in->open) {
		*ret_log_id = in->row.first_log;        /* exact: need not be read */
		return INPUT_OK;
	}
	enum input_answer s = state_next(in, &state_log, &entry, &at);
	if (s == INPUT_WAIT || s == INPUT_FAILED)
		return s;
	enum input_answer i = index_next(in, &block);
	if (i == INPUT_WAIT || i == INPUT_FAILED)
		return i;
	if (s == INPUT_NONE && i == INPUT_NONE)
		return INPUT_NONE;
	*ret_log_id = s == INPUT_NONE || (i == INPUT_OK && block.log_id < state_log) ? block.log_id : state_log;
	return INPUT_OK;
}

enum input_answer merge_input_state(struct merge_input *in, uint64_t log_id, struct slice *ret_entry)
{
	uint64_t found;
	size_t at;
	enum input_answer a = input_open(in);
	if (a == INPUT_OK)
		a = state_next(in, &found, ret_entry, &at);
	if (a != INPUT_OK)
		return a;
	if (found != log_id)
		return INPUT_NONE;
	in->state_at = at;
	return INPUT_OK;
}

enum input_answer merge_input_index(struct merge_input *in, uint64_t log_id, struct data_index_entry *ret_entry)
{
	enum input_answer a = input_open(in);
	if (a == INPUT_OK)
		a = index_next(in, ret_entry);
	if (a != INPUT_OK)
		return a;
	if (ret_entry->log_id != log_id)
		return INPUT_NONE;
	in->index_at++;
	return INPUT_OK;
}

enum input_answer merge_input_block(struct merge_input *in, const struct data_index_entry *entry, struct slice *ret_block)
{
	uint64_t end = in->n_state > 0 ? in->state[0].position : in->index[0].position;
	enum input_answer a = window_need(in, WINDOW_BLOCKS, entry->position, entry->length, end, ret_block);
	if (a != INPUT_OK)
		return a;
	const char *fault = data_block_check(*ret_block, entry);
	return fault != NULL ? window_bad(in, WINDOW_BLOCKS, fault) : INPUT_OK;
}
