/* SPDX-License-Identifier: Apache-2.0
 *
 * One data object as the input of a merge: read from front to back, log by log, through three windows (state pages,
 * index pages, blocks). Whatever is asked may have to be read first: then INPUT_WAIT is answered, and on_ready of
 * the merge runs when asking again makes sense.
 */
#ifndef STORAGED_ENGINE_MERGE_INPUT_H
#define STORAGED_ENGINE_MERGE_INPUT_H

#include "storaged/engine/engine_impl.h"

enum input_answer { INPUT_OK, INPUT_NONE, INPUT_WAIT, INPUT_FAILED };
enum input_window { WINDOW_STATE, WINDOW_INDEX, WINDOW_BLOCKS, N_WINDOWS };

struct merge_input {
	struct engine *engine;
	struct object_row row;          /* a copy */
	void (*on_ready)(void *arg);
	void *arg;
	char fault[300];                /* INPUT_FAILED: what is wrong, with the object's name */
	/* private */
	bool open;
	struct index_wait wait;
	struct data_page *state, *index;        /* copies of the top's */
	size_t n_state, n_index;
	size_t state_page, index_page;  /* at hand */
	size_t state_at, index_at;      /* in that page: position, entry */
	struct window {
		uint8_t *bytes;
		uint64_t position, length;
	} window[N_WINDOWS];
	enum input_window reading;
	uint64_t read_position, read_length;
	bool busy;
	uint32_t backoff_ms, n_faults;
	struct env_timer timer;
};

void merge_input_init(struct merge_input *in, struct engine *e, const struct object_row *row,
		      void (*on_ready)(void *arg), void *arg);
void merge_input_done(struct merge_input *in);

/* The lowest log id that it has not given out; NONE: it is through. */
enum input_answer merge_input_log(struct merge_input *in, uint64_t *ret_log_id);
/* The state entry of that log, and steps over it; the slice is valid until the next call. NONE: it has none. */
enum input_answer merge_input_state(struct merge_input *in, uint64_t log_id, struct slice *ret_entry);
/* The next index entry of that log, and steps over it. */
enum input_answer merge_input_index(struct merge_input *in, uint64_t log_id, struct data_index_entry *ret_entry);
/* A block, checked; valid until the next call. */
enum input_answer merge_input_block(struct merge_input *in, const struct data_index_entry *entry, struct slice *ret_block);

#endif
