/* SPDX-License-Identifier: Apache-2.0
 *
 * One data object read from its footer on: what it is, which blocks and state entries it has. Blocks themselves are
 * read only when asked for.
 */
#ifndef STORAGED_OFFLINE_OBJECT_FILE_H
#define STORAGED_OFFLINE_OBJECT_FILE_H

#include "proto/frame.pb-c.h"
#include "storaged/data/data_format.h"
#include "storaged/offline/shelf.h"

struct object_file {
	struct data_footer footer;
	uint64_t size;
	struct data_index_entry *block; /* owned; by (log id, base) */
	size_t n_blocks;
	Frame__State **state;           /* owned; by log id */
	size_t n_states;
};

/*
 * Reads footer, top, state and index pages of an object of that size. NULL; or what is wrong with it, in static words:
 * then there is nothing to free. *ret_err is not 0 when the store did not answer (shelf->fault) or the object is not
 * there (-ENOENT).
 */
const char *object_file_read(struct shelf *shelf, struct object_id id, uint64_t size, struct object_file *ret,
			     int *ret_err);
void object_file_done(struct object_file *f);

/* A row of the catalogue from what the object says of itself; without run, marks and idx. */
struct object_row object_file_row(const struct object_file *f);

/* Reads and checks every block. NULL, or what is wrong with the block at *ret_position. */
const char *object_file_check_blocks(struct shelf *shelf, const struct object_file *f, uint64_t *ret_position,
				     int *ret_err);

#endif
