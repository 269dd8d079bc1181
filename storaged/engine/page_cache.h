/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames read back from the store: one memfd of 64 KiB pages that workers map read-only. A block is a
 * run of consecutive frames' payloads (batches) of one log; it stands in any free pages. Blocks of a log never
 * overlap: a newer one takes the place of those it covers.
 *
 * A block is on trial until bytes of it are read that were read a second before. When a new one needs pages, others on trial go,
 * the oldest first, as long as they would have more than a quarter of the pages together; else the least recently used of
 * the others. Pinned ones stay.
 *
 * Pages whose pins were dropped for a reader that may still look (pin.abandoned) are never used again.
 *
 * Bounds: the memfd; 8 bytes a batch beside it; pinned pages are at most half (one block alone may be
 * more). Owned by the engine, one a node; loop thread only.
 */
#ifndef STORAGED_ENGINE_PAGE_CACHE_H
#define STORAGED_ENGINE_PAGE_CACHE_H

#include "common/env.h"
#include "common/slice.h"
#include "storaged/segment.h"

#define PAGE_CACHE_PAGE 65536u

struct page_cache;
struct block;                   /* owned by the cache */

/* One batch of a block to be. */
struct page_cache_batch {
	uint64_t base_offset;
	struct slice payload;   /* not empty; copied */
};

/* Whole batches inside a block. */
struct page_cache_range {
	uint32_t position, length;      /* bytes, from the block's begin */
	uint64_t base_offset;           /* of the first batch */
	uint64_t end_offset;            /* one past the last record */
};

/* bytes is rounded up to whole pages, at least 16. segment_id is unique in the process. 0 or a negative errno. */
int page_cache_new(struct env *env, uint32_t segment_id, uint64_t bytes, struct page_cache **ret_pc);
/* Pins that are still out are gone, too: only when every holder is. */
void page_cache_free(struct page_cache *pc);
struct segment *page_cache_segment(struct page_cache *pc);

/* The block that holds `offset`, or NULL; that is no use of it. Valid until the next insert or drop_log. */
struct block *page_cache_find(struct page_cache *pc, uint64_t log_id, uint64_t offset);

/*
 * Copies batches (ascending, without gaps; the last ends before `end`) into pages and returns the block, with
 * no pin yet. -ENOBUFS: it would need pages that are pinned (try again when on_unpinned was called); -EFBIG:
 * it is larger than all pages.
 */
int page_cache_insert(struct page_cache *pc, uint64_t log_id, uint64_t end, const struct page_cache_batch *batches,
		      size_t n, struct block **ret_block);

uint64_t block_base_offset(const struct block *b);
uint64_t block_end_offset(const struct block *b);
uint32_t block_length(const struct block *b);

/*
 * The batches from the one that holds `offset` (which the block holds) on, together at most max_bytes, but
 * at least one and only records below end_offset_max: a batch that begins at or behind it is left out.
 */
struct page_cache_range block_range(const struct block *b, uint64_t offset, uint64_t max_bytes,
				    uint64_t end_offset_max);

/* How many pieces a range of that many bytes can take. */
static inline size_t page_cache_pieces_max(uint32_t length) { return length / PAGE_CACHE_PAGE + 2; }

/*
 * Writes the pieces of [position, position + length) to ret_pieces (page_cache_pieces_max() entries), neighbouring
 * pages as one, and takes a pin for each; the receiver drops them. It is a use of the block. Returns their number, or -ENOBUFS when
 * more than half of the pages would be pinned.
 */
int page_cache_pieces(struct page_cache *pc, struct block *b, uint32_t position, uint32_t length,
		      struct piece *ret_pieces);

/* Blocks of a deleted log are found no more; their pages are free when no pin holds them. */
void page_cache_drop_log(struct page_cache *pc, uint64_t log_id);

/* Called from inside pin_drop() when a block lost its last pin: env_defer() what waits for room. One listener. */
void page_cache_on_unpinned(struct page_cache *pc, void (*on_unpinned)(void *arg), void *arg);

/* For metrics and tests. */
uint64_t page_cache_bytes_used(const struct page_cache *pc);
uint64_t page_cache_bytes_pinned(const struct page_cache *pc);

#endif
