/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to common/topics*.c: mapped segments of storaged's and references into them.
 */
#ifndef COMMON_TOPICS_PIECES_H
#define COMMON_TOPICS_PIECES_H

#include <uthash.h>

#include "common/topics.h"

struct topics_segment {
	uint32_t id;
	uint8_t *base;
	size_t size;
	size_t n_refs;
	bool gone;                          /* out of the table; unmapped with its last reference */
	UT_hash_handle hh;
};

struct pieces_box {
	struct topics_pieces pub;
	bool reclaimed;
	struct pieces_box **list;           /* &ref->boxes or &topics->reclaimed */
	struct pieces_box *prev, *next;
};

/* One reference of storaged's, shared by the calls that got the answer. */
struct topics_ref {
	struct topics *topics;
	uint64_t id;
	uint64_t generation;                /* of the connection it came on */
	size_t n_users;
	struct pieces_box *boxes;
	struct topics_ref *prev, *next;     /* topics->refs */
	size_t n;
	struct slice *slice;
	struct topics_segment *segment[];   /* one a piece */
};

int topics_segment_add(struct topics *t, uint32_t id, uint64_t size, int fd);
void topics_segment_gone(struct topics *t, uint32_t id);
void topics_segments_forget(struct topics *t);
void topics_reclaim(struct topics *t, uint32_t segment);
/* The pieces of an answer, as they stand in it. */
struct topics_piece_list {
	uint64_t ref;
	size_t n_segment, n_offset, n_length;
	const uint32_t *segment, *offset, *length;
};
/* -EPROTO when the answer's pieces are not what they must be. NULL when there are none. */
int topics_ref_new(struct topics *t, const struct topics_piece_list *list, struct topics_ref **ret_ref);
struct topics_pieces *topics_ref_pieces(struct topics_ref *ref);
void topics_ref_drop(struct topics_ref *ref);   /* the maker's hold; NULL is fine */

#endif
