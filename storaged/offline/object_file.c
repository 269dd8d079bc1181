/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "storaged/offline/object_file.h"

#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/data/data_state.h"

#define TAIL (256u << 10)               /* read first: footer and, mostly, top and pages */
#define BLOCKS_MAX (8u << 20)           /* read at a time */

/* A piece of the object that was read: [at, at + bytes.n). */
struct window {
	struct shelf *shelf;
	const char *key;
	uint64_t at, size;              /* size: of the object */
	struct slice bytes;             /* owned */
};

static void window_done(struct window *w)
{
	free((void *)w->bytes.p);
	w->bytes = slice_of(NULL, 0);
}

/* The bytes [position, position + length), read when they are not in the window. 0, or the store's errno. */
static int window_get(struct window *w, uint64_t position, uint64_t length, struct slice *ret)
{
	must(position + length <= w->size && length > 0);
	if (w->bytes.p == NULL || position < w->at || position + length > w->at + w->bytes.n) {
		struct slice bytes;
		int err = shelf_get(w->shelf, w->key, position, length, &bytes);
		if (err != 0)
			return err;
		window_done(w);
		w->bytes = bytes;
		w->at = position;
		if (bytes.n != length)
			return -EIO;
	}
	*ret = slice_of(w->bytes.p + (position - w->at), length);
	return 0;
}

/* The same of pages or blocks that follow each other: reads as many as BLOCKS_MAX holds, up to `end`. */
static int window_ahead(struct window *w, uint64_t position, uint64_t length, uint64_t end)
{
	struct slice bytes;
	if (w->bytes.p != NULL && position >= w->at && position + length <= w->at + w->bytes.n)
		return 0;
	uint64_t n = end - position < BLOCKS_MAX ? end - position : BLOCKS_MAX;
	return window_get(w, position, n > length ? n : length, &bytes);
}

/* ---------------------------------------------------------------------- parts */

static const char *states_read(struct window *w, const struct data_page *p, struct object_file *f, int *ret_err)
{
	struct slice page, entry;
	size_t position = 0;
	uint64_t log_id;
	*ret_err = window_ahead(w, p->position, p->length, f->footer.top_position);
	if (*ret_err == 0)
		*ret_err = window_get(w, p->position, p->length, &page);
	if (*ret_err != 0)
		return "a state page cannot be read";
	const char *fault = data_state_page_check(page, p);
	while (fault == NULL && data_state_page_next(page, &position, &log_id, &entry)) {
		Frame__State *s = data_state_decode(entry, log_id, &fault);
		if (s == NULL)
			break;
		if ((f->n_states & (f->n_states - 1)) == 0)
			f->state = must_realloc(f->state, (f->n_states == 0 ? 1 : 2 * f->n_states) * sizeof(*f->state));
		f->state[f->n_states++] = s;
	}
	return fault;
}

static const char *index_read(struct window *w, const struct data_page *p, struct object_file *f, int *ret_err)
{
	struct slice page;
	*ret_err = window_ahead(w, p->position, p->length, f->footer.top_position);
	if (*ret_err == 0)
		*ret_err = window_get(w, p->position, p->length, &page);
	if (*ret_err != 0)
		return "an index page cannot be read";
	const char *fault = data_index_page_check(page, p);
	size_t n = fault == NULL ? data_index_page_count(page) : 0;
	f->block = must_realloc(f->block, (f->n_blocks + n + 1) * sizeof(*f->block));
	for (size_t i = 0; i < n; i++)
		data_index_page_get(page, i, &f->block[f->n_blocks++]);
	return fault;
}

static const char *pages_read(struct window *w, const struct data_top *top, struct object_file *f, int *ret_err)
{
	const char *fault = NULL;
	for (size_t i = 0; i < top->n_state && fault == NULL; i++)
		fault = states_read(w, &top->state[i], f, ret_err);
	for (size_t i = 0; i < top->n_index && fault == NULL; i++)
		fault = index_read(w, &top->index[i], f, ret_err);
	return fault;
}

static const char *file_read(struct window *w, struct object_id id, struct object_file *f, int *ret_err)
{
	struct slice bytes;
	struct data_top *top = NULL;
	uint64_t tail = w->size < TAIL ? w->size : TAIL;
	if (w->size < DATA_FOOTER)
		return "it is shorter than its footer";
	*ret_err = window_get(w, w->size - tail, tail, &bytes);
	if (*ret_err != 0)
		return "its end cannot be read";
	const char *fault = data_footer_decode(slice_of(bytes.p + bytes.n - DATA_FOOTER, DATA_FOOTER), w->size, id, &f->footer);
	if (fault != NULL)
		return fault;
	*ret_err = window_get(w, f->footer.top_position, f->footer.top_length, &bytes);
	if (*ret_err != 0)
		return "its top cannot be read";
	fault = data_top_decode(bytes, &f->footer, &top);
	if (fault == NULL)
		fault = pages_read(w, top, f, ret_err);
	data_top_free(top);
	return fault;
}

const char *object_file_read(struct shelf *shelf, struct object_id id, uint64_t size, struct object_file *ret,
			     int *ret_err)
{
	char key[DATA_KEY_MAX];
	struct window w = { .shelf = shelf, .key = key, .size = size };
	data_key(key, id);
	*ret = (struct object_file){ .size = size };
	*ret_err = 0;
	const char *fault = file_read(&w, id, ret, ret_err);
	window_done(&w);
	if (fault != NULL)
		object_file_done(ret);
	return fault;
}

void object_file_done(struct object_file *f)
{
	for (size_t i = 0; i < f->n_states; i++)
		data_state_free(f->state[i]);
	free(f->state);
	free(f->block);
	*f = (struct object_file){ 0 };
}

struct object_row object_file_row(const struct object_file *f)
{
	const struct data_footer *x = &f->footer;
	struct object_row row = {
		.id = x->id, .origin = x->origin, .level = x->level, .first_log = x->first_log, .last_log = x->last_log,
		.bytes = f->size, .oldest_ms = x->oldest_ms, .newest_ms = x->newest_ms,
	};
	if (x->level == DATA_LEVEL_SINGLE && f->n_blocks > 0) {
		row.first_offset = f->block[0].base;
		row.end_offset = f->block[f->n_blocks - 1].end;
	}
	return row;
}

const char *object_file_check_blocks(struct shelf *shelf, const struct object_file *f, uint64_t *ret_position,
				     int *ret_err)
{
	char key[DATA_KEY_MAX];
	struct window w = { .shelf = shelf, .key = key, .size = f->size };
	const char *fault = NULL;
	data_key(key, f->footer.id);
	*ret_err = 0;
	for (size_t i = 0; i < f->n_blocks && fault == NULL; i++) {
		const struct data_index_entry *e = &f->block[i];
		struct slice bytes;
		*ret_position = e->position;
		*ret_err = window_ahead(&w, e->position, e->length, f->footer.top_position);
		if (*ret_err == 0)
			*ret_err = window_get(&w, e->position, e->length, &bytes);
		fault = *ret_err != 0 ? "a block cannot be read" : data_block_check(bytes, e);
	}
	window_done(&w);
	return fault;
}
