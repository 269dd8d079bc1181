/* SPDX-License-Identifier: Apache-2.0
 *
 * Data objects for tests: frames with real batches, an object's bytes in one piece, and a reader that goes from the
 * footer down as the engine does.
 */
#ifndef T_UNIT_DATA_FIXTURE_H
#define T_UNIT_DATA_FIXTURE_H

#include "storaged/data/data_builder.h"

/* What frames begin with; offsets may be many, their batch holds one record. */
struct frame_spec {
	uint64_t log_id, base, end;
	int64_t append_ms, max_timestamp;
	size_t size;                    /* of the whole frame; at least FRAME_SPEC_MIN, a multiple of 8 */
};
#define FRAME_SPEC_MIN 144u

/* Its bytes are freed by fixture_free_all(). */
struct data_frame fixture_frame(const struct frame_spec *spec);
/* One per frame of a log, one record, 160 bytes. */
struct data_frame fixture_small(uint64_t log_id, uint64_t base, uint64_t end);
void fixture_free_all(void);

/* All bytes of a finished builder; heap, exactly that long. */
struct slice fixture_bytes(const struct data_builder *b);
/* Builds it (and frees the builder). ret_row may be NULL. */
struct slice fixture_finish(struct data_builder *b, struct object_row *ret_row);

/* An object opened by its footer and top. */
struct fixture_object {
	struct slice bytes;
	struct data_footer footer;
	struct data_top *top;
};
/* NULL or what is wrong. Free with fixture_close(). */
const char *fixture_open(struct slice bytes, struct object_id id, struct fixture_object *ret_object);
void fixture_close(struct fixture_object *o);
/* The page's bytes. */
struct slice fixture_page(const struct fixture_object *o, const struct data_page *p);

/* What a walk over everything found. */
struct fixture_total {
	size_t n_blocks, n_frames, n_states;
	uint64_t block_bytes;
};
/* Footer, top, every page, every block. NULL or the first fault. */
const char *fixture_check(struct slice bytes, struct object_id id, struct fixture_total *ret_total);

/* As the engine looks: top, one page. */
bool fixture_find(const struct fixture_object *o, uint64_t log_id, uint64_t offset, struct data_index_entry *ret_entry);

#endif
