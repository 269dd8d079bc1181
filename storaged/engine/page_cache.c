/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of frames read back, in pages of one memfd:
 *
 *   log (hash by id) -> blocks, sorted by base offset, never overlapping
 *   block            -> page numbers, in the order of its bytes; base and position of each batch
 *   trial, kept      -> all blocks that can be found: those used once, the oldest first; those used again, the least
 *                       recently used first. Who reads through a log reads each byte once and leaves kept ones alone
 *
 * A block that is dropped while pinned is found no more and keeps its pages until its last pin goes.
 *
 * Invariant: a page is free, belongs to one block, or is lost; n_free + pages of all blocks + n_lost = n_pages.
 */
#include "storaged/engine/page_cache.h"

#include <errno.h>
#include <stdlib.h>

#include <uthash.h>

#include "common/must.h"

#define PAGE_CACHE_PAGES_MIN 16
#define SAME_USE_MS 1000                /* one reader may ask for the same bytes several times, or some readers at once */
#define TRIAL_SHARE 4                   /* a quarter of the pages, when others want them */
#define PAGE_CACHE_MAGIC 0x6361636865ull

struct batch_mark {
	uint32_t base_delta;            /* from the block's base offset */
	uint32_t position;
};

struct block {
	struct pin pin;                 /* first */
	struct page_cache *pc;
	struct cached_log *log;         /* NULL: dropped */
	struct block *older, *newer;    /* in one of three lists: trial, kept, dropped */
	uint64_t base_offset, end_offset;
	uint32_t length;
	uint32_t used;                  /* bytes up to here were read; below again, and not at once, is a second use */
	uint64_t used_ms;               /* when it was read first */
	bool is_kept;
	uint32_t n_pages, n_batches;
	uint32_t *page;
	struct batch_mark *batch;
};

struct cached_log {
	UT_hash_handle hh;
	uint64_t id;
	struct block **block;           /* by base offset */
	size_t n, capacity;
};

struct block_list {
	struct block *oldest, *newest;
};

struct page_cache {
	uint64_t magic;
	struct env *env;
	struct segment segment;
	uint32_t n_pages, n_free, n_pinned, n_lost;
	uint32_t *free_page;            /* a stack of n_free page numbers */
	struct cached_log *logs;
	struct block_list trial, kept, dropped;
	uint32_t n_trial;               /* pages of trial blocks */
	void (*on_unpinned)(void *arg);
	void *on_unpinned_arg;
};

/* Lists */

static void list_push(struct block_list *l, struct block *b)
{
	b->older = l->newest;
	b->newer = NULL;
	*(l->newest != NULL ? &l->newest->newer : &l->oldest) = b;
	l->newest = b;
}

static void list_remove(struct block_list *l, struct block *b)
{
	*(b->older != NULL ? &b->older->newer : &l->oldest) = b->newer;
	*(b->newer != NULL ? &b->newer->older : &l->newest) = b->older;
	b->older = b->newer = NULL;
}

/* Blocks of a log */

/* The first block that ends behind `offset`. */
static size_t log_bound(const struct cached_log *log, uint64_t offset)
{
	size_t low = 0, high = log->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (log->block[mid]->end_offset <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct cached_log *log_find(struct page_cache *pc, uint64_t log_id)
{
	struct cached_log *log;
	HASH_FIND(hh, pc->logs, &log_id, sizeof(log_id), log);
	return log;
}

static void log_add(struct page_cache *pc, uint64_t log_id, struct block *b)
{
	struct cached_log *log = log_find(pc, log_id);
	if (log == NULL) {
		log = must_calloc(1, sizeof(*log));
		log->id = log_id;
		HASH_ADD(hh, pc->logs, id, sizeof(log->id), log);
	}
	if (log->n == log->capacity) {
		log->capacity = log->capacity > 0 ? 2 * log->capacity : 4;
		log->block = must_realloc(log->block, log->capacity * sizeof(log->block[0]));
	}
	size_t i = log_bound(log, b->base_offset);
	must(i == log->n || log->block[i]->base_offset >= b->end_offset);
	memmove(&log->block[i + 1], &log->block[i], (log->n - i) * sizeof(log->block[0]));
	log->block[i] = b;
	log->n++;
	b->log = log;
}

static void log_remove(struct page_cache *pc, struct block *b)
{
	struct cached_log *log = b->log;
	size_t i = log_bound(log, b->base_offset);
	must(i < log->n && log->block[i] == b);
	memmove(&log->block[i], &log->block[i + 1], (log->n - i - 1) * sizeof(log->block[0]));
	b->log = NULL;
	if (--log->n > 0)
		return;
	HASH_DEL(pc->logs, log);
	free(log->block);
	free(log);
}

/* Life of a block */

static void block_free(struct block *b)
{
	free(b->page);
	free(b->batch);
	free(b);
}

/* Those that a reader may still look at are lost: they are found no more, and never written again. */
static void block_give_pages_back(struct page_cache *pc, struct block *b)
{
	if (b->pin.abandoned)
		pc->n_lost += b->n_pages;
	for (uint32_t i = b->n_pages; i-- > 0 && !b->pin.abandoned;)
		pc->free_page[pc->n_free++] = b->page[i];
	must(pc->n_free + pc->n_lost <= pc->n_pages);
	block_free(b);
}

/* Out of the list it can be found by. */
static void block_leave(struct page_cache *pc, struct block *b)
{
	list_remove(b->is_kept ? &pc->kept : &pc->trial, b);
	pc->n_trial -= b->is_kept ? 0 : b->n_pages;
}

static void block_drop(struct page_cache *pc, struct block *b)
{
	block_leave(pc, b);
	log_remove(pc, b);
	if (b->pin.count > 0)
		list_push(&pc->dropped, b);
	else
		block_give_pages_back(pc, b);
}

static void on_last_pin(struct pin *pin)
{
	struct block *b = (struct block *)pin;
	struct page_cache *pc = b->pc;
	must(pc->magic == PAGE_CACHE_MAGIC);
	must(pc->n_pinned >= b->n_pages);
	pc->n_pinned -= b->n_pages;
	if (b->log == NULL) {
		list_remove(&pc->dropped, b);
		block_give_pages_back(pc, b);
	}
	if (pc->on_unpinned != NULL)
		pc->on_unpinned(pc->on_unpinned_arg);
}

static struct block *first_unpinned(const struct block_list *l)
{
	struct block *b = l->oldest;
	while (b != NULL && b->pin.count > 0)
		b = b->newer;
	return b;
}

/* For a trial block of n pages: others on trial if they would have more than their quarter with it, else kept ones; what is
 * not pinned of the others if there is none. */
static struct block *block_to_drop(const struct page_cache *pc, uint32_t n)
{
	bool is_trial = pc->n_trial + n > (pc->n_pages - pc->n_lost) / TRIAL_SHARE;
	struct block *b = first_unpinned(is_trial ? &pc->trial : &pc->kept);
	return b != NULL ? b : first_unpinned(is_trial ? &pc->kept : &pc->trial);
}

/* Drops blocks until n pages are free; nothing is dropped when that cannot be. */
static int pages_free_up(struct page_cache *pc, uint32_t n)
{
	if (n > pc->n_pages - pc->n_lost - pc->n_pinned)
		return -ENOBUFS;
	while (pc->n_free < n) {
		struct block *b = block_to_drop(pc, n);
		must(b != NULL);
		block_drop(pc, b);
	}
	return 0;
}

static void drop_overlapping(struct page_cache *pc, uint64_t log_id, uint64_t base, uint64_t end)
{
	for (struct cached_log *log; (log = log_find(pc, log_id)) != NULL;) {
		size_t i = log_bound(log, base);
		if (i == log->n || log->block[i]->base_offset >= end)
			return;
		block_drop(pc, log->block[i]);
	}
}

static uint8_t *page_at(struct page_cache *pc, uint32_t page)
{
	return pc->segment.mem.base + (size_t)page * PAGE_CACHE_PAGE;
}

/* Copies bytes to the block's position, over page ends. */
static void block_write(struct block *b, uint32_t position, struct slice bytes)
{
	while (bytes.n > 0) {
		uint32_t in_page = position % PAGE_CACHE_PAGE, room = PAGE_CACHE_PAGE - in_page;
		uint32_t n = bytes.n < room ? (uint32_t)bytes.n : room;
		memcpy(page_at(b->pc, b->page[position / PAGE_CACHE_PAGE]) + in_page, bytes.p, n);
		position += n;
		bytes = slice_of(bytes.p + n, bytes.n - n);
	}
}

static struct block *block_new(struct page_cache *pc, uint64_t end, const struct page_cache_batch *batches, size_t n,
			       uint32_t length)
{
	struct block *b = must_calloc(1, sizeof(*b));
	*b = (struct block){
		.pin.on_free = on_last_pin, .pc = pc, .base_offset = batches[0].base_offset, .end_offset = end,
		.length = length, .n_pages = (length + PAGE_CACHE_PAGE - 1) / PAGE_CACHE_PAGE, .n_batches = (uint32_t)n,
	};
	b->page = must_calloc(b->n_pages, sizeof(b->page[0]));
	b->batch = must_calloc(n, sizeof(b->batch[0]));
	must(b->n_pages <= pc->n_free);
	for (uint32_t i = 0; i < b->n_pages; i++)
		b->page[i] = pc->free_page[--pc->n_free];
	uint32_t position = 0;
	for (size_t i = 0; i < n; i++) {
		must(batches[i].base_offset >= b->base_offset && batches[i].base_offset - b->base_offset <= UINT32_MAX);
		b->batch[i] = (struct batch_mark){ (uint32_t)(batches[i].base_offset - b->base_offset), position };
		block_write(b, position, batches[i].payload);
		position += (uint32_t)batches[i].payload.n;
	}
	return b;
}

/* The interface */

int page_cache_new(struct env *env, uint32_t segment_id, uint64_t bytes, struct page_cache **ret_pc)
{
	uint64_t n = bytes / PAGE_CACHE_PAGE + (bytes % PAGE_CACHE_PAGE > 0);
	if (n < PAGE_CACHE_PAGES_MIN)
		n = PAGE_CACHE_PAGES_MIN;
	/* Positions and ranges are 32 bits. */
	if (n > UINT32_MAX / PAGE_CACHE_PAGE)
		n = UINT32_MAX / PAGE_CACHE_PAGE;
	struct page_cache *pc = must_calloc(1, sizeof(*pc));
	pc->magic = PAGE_CACHE_MAGIC;
	pc->env = env;
	pc->segment.id = segment_id;
	int r = env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, n * PAGE_CACHE_PAGE, &pc->segment.mem);
	if (r < 0) {
		free(pc);
		return r;
	}
	pc->n_pages = pc->n_free = (uint32_t)n;
	pc->free_page = must_calloc(n, sizeof(pc->free_page[0]));
	/* Taken from the end: page 0 first. */
	for (uint32_t i = 0; i < pc->n_pages; i++)
		pc->free_page[i] = pc->n_pages - 1 - i;
	*ret_pc = pc;
	return 0;
}

void page_cache_free(struct page_cache *pc)
{
	if (pc == NULL)
		return;
	while (pc->trial.oldest != NULL || pc->kept.oldest != NULL) {
		struct block *b = pc->trial.oldest != NULL ? pc->trial.oldest : pc->kept.oldest;
		b->pin.count = 0;
		block_drop(pc, b);
	}
	while (pc->dropped.oldest != NULL) {
		struct block *b = pc->dropped.oldest;
		list_remove(&pc->dropped, b);
		block_give_pages_back(pc, b);
	}
	must(pc->n_free + pc->n_lost == pc->n_pages && pc->logs == NULL);
	pc->env->ops->segment_free(pc->env, &pc->segment.mem);
	free(pc->free_page);
	pc->magic = 0;
	free(pc);
}

struct segment *page_cache_segment(struct page_cache *pc)
{
	return &pc->segment;
}

struct block *page_cache_find(struct page_cache *pc, uint64_t log_id, uint64_t offset)
{
	struct cached_log *log = log_find(pc, log_id);
	if (log == NULL)
		return NULL;
	size_t i = log_bound(log, offset);
	if (i == log->n || log->block[i]->base_offset > offset)
		return NULL;
	return log->block[i];
}

int page_cache_insert(struct page_cache *pc, uint64_t log_id, uint64_t end, const struct page_cache_batch *batches,
		      size_t n, struct block **ret_block)
{
	must(n > 0 && batches[n - 1].base_offset < end);
	uint64_t length = 0;
	for (size_t i = 0; i < n; i++) {
		must(batches[i].payload.n > 0);
		must(i == 0 || batches[i].base_offset > batches[i - 1].base_offset);
		length += batches[i].payload.n;
	}
	if (length > (uint64_t)(pc->n_pages - pc->n_lost) * PAGE_CACHE_PAGE || n > UINT32_MAX)
		return -EFBIG;
	int r = pages_free_up(pc, (uint32_t)((length + PAGE_CACHE_PAGE - 1) / PAGE_CACHE_PAGE));
	if (r < 0)
		return r;
	drop_overlapping(pc, log_id, batches[0].base_offset, end);
	struct block *b = block_new(pc, end, batches, n, (uint32_t)length);
	log_add(pc, log_id, b);
	list_push(&pc->trial, b);
	pc->n_trial += b->n_pages;
	*ret_block = b;
	return 0;
}

uint64_t block_base_offset(const struct block *b)
{
	return b->base_offset;
}

uint64_t block_end_offset(const struct block *b)
{
	return b->end_offset;
}

uint32_t block_length(const struct block *b)
{
	return b->length;
}

static uint64_t batch_base(const struct block *b, uint32_t i)
{
	return i < b->n_batches ? b->base_offset + b->batch[i].base_delta : b->end_offset;
}

static uint32_t batch_position(const struct block *b, uint32_t i)
{
	return i < b->n_batches ? b->batch[i].position : b->length;
}

/* The last batch that begins at or before offset. */
static uint32_t batch_find(const struct block *b, uint64_t offset)
{
	uint32_t low = 0, high = b->n_batches;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (batch_base(b, mid) <= offset)
			low = mid;
		else
			high = mid;
	}
	return low;
}

struct page_cache_range block_range(const struct block *b, uint64_t offset, uint64_t max_bytes, uint64_t end_offset_max)
{
	must(offset >= b->base_offset && offset < b->end_offset);
	uint32_t first = batch_find(b, offset), end = first + 1, begin = batch_position(b, first);
	while (end < b->n_batches && batch_base(b, end) < end_offset_max &&
	       batch_position(b, end + 1) - begin <= max_bytes)
		end++;
	return (struct page_cache_range){
		.position = begin, .length = batch_position(b, end) - begin,
		.base_offset = batch_base(b, first), .end_offset = batch_base(b, end),
	};
}

/* A second use keeps it; further ones make it the most recently used. */
static void block_use(struct page_cache *pc, struct block *b, uint32_t position, uint32_t length)
{
	uint64_t now = env_now_ms(pc->env);
	bool again = position < b->used && now - b->used_ms >= SAME_USE_MS;
	if (b->used == 0)
		b->used_ms = now;
	if (position + length > b->used)
		b->used = position + length;
	if (b->log == NULL || (!again && !b->is_kept))
		return;
	block_leave(pc, b);
	b->is_kept = true;
	list_push(&pc->kept, b);
}

int page_cache_pieces(struct page_cache *pc, struct block *b, uint32_t position, uint32_t length,
		      struct piece *ret_pieces)
{
	must(length > 0 && position <= b->length && length <= b->length - position);
	/* One block alone may have more than half, else a large one could never be read. */
	bool fits = pc->n_pinned == 0 || pc->n_pinned + b->n_pages <= (pc->n_pages - pc->n_lost) / 2;
	if (b->pin.count == 0 && !fits)
		return -ENOBUFS;
	if (b->pin.count == 0)
		pc->n_pinned += b->n_pages;
	block_use(pc, b, position, length);
	int n = 0;
	while (length > 0) {
		uint32_t in_page = position % PAGE_CACHE_PAGE, room = PAGE_CACHE_PAGE - in_page;
		uint32_t part = length < room ? length : room;
		uint32_t at = b->page[position / PAGE_CACHE_PAGE] * PAGE_CACHE_PAGE + in_page;
		if (n > 0 && ret_pieces[n - 1].offset + ret_pieces[n - 1].length == at) {
			ret_pieces[n - 1].length += part;
		} else {
			pin_take(&b->pin);
			ret_pieces[n++] = (struct piece){ &pc->segment, &b->pin, at, part };
		}
		position += part;
		length -= part;
	}
	return n;
}

void page_cache_drop_log(struct page_cache *pc, uint64_t log_id)
{
	drop_overlapping(pc, log_id, 0, UINT64_MAX);
}

void page_cache_on_unpinned(struct page_cache *pc, void (*on_unpinned)(void *arg), void *arg)
{
	pc->on_unpinned = on_unpinned;
	pc->on_unpinned_arg = arg;
}

uint64_t page_cache_bytes_used(const struct page_cache *pc)
{
	return (uint64_t)(pc->n_pages - pc->n_free - pc->n_lost) * PAGE_CACHE_PAGE;
}

uint64_t page_cache_bytes_pinned(const struct page_cache *pc)
{
	return (uint64_t)pc->n_pinned * PAGE_CACHE_PAGE;
}
