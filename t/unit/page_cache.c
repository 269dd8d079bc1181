/* SPDX-License-Identifier: Apache-2.0
 *
 * The page cache: what is put in comes out byte for byte over any pages, the least recently used goes
 * first, pinned pages stay, and a random run agrees with a plain model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "storaged/engine/page_cache.h"

enum { N_PAGES = 16 };

static uv_loop_t loop;
static struct env *env;
static struct page_cache *pc;
static unsigned n_unpinned;

static void on_unpinned(void *arg)
{
	n_unpinned++;
}

static int setup(void **state)
{
	n_unpinned = 0;
	int r = uv_loop_init(&loop) == 0 && env_uv_new(&loop, &env) == 0 ? 0 : -1;
	r = r == 0 ? page_cache_new(env, 9, 1, &pc) : r;
	page_cache_on_unpinned(pc, on_unpinned, NULL);
	return r;
}

static int teardown(void **state)
{
	page_cache_free(pc);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

/* Byte i of batch `base` of a log: tells log, batch and place apart. */
static uint8_t byte_of(uint64_t log_id, uint64_t base, size_t i)
{
	return (uint8_t)(log_id * 31 + base * 7 + i + (i >> 8));
}

static uint8_t scratch[40 * PAGE_CACHE_PAGE];

/* A block of n batches of `size` bytes and `records` records each. */
static int insert(uint64_t log_id, uint64_t base, size_t n, size_t size, unsigned records, struct block **ret)
{
	struct page_cache_batch batch[64];
	assert_true(n <= 64 && n * size <= sizeof(scratch));
	for (size_t k = 0; k < n; k++) {
		uint64_t at = base + k * records;
		for (size_t i = 0; i < size; i++)
			scratch[k * size + i] = byte_of(log_id, at, i);
		batch[k] = (struct page_cache_batch){ at, slice_of(scratch + k * size, size) };
	}
	int r = page_cache_insert(pc, log_id, base + n * records, batch, n, ret);
	memset(scratch, 0xee, n * size);        /* the cache has its own copy */
	return r;
}

/* Takes pieces of a range of one-size batches, checks each byte; the pins stay. Returns the pieces' number. */
static int check_range(struct block *b, uint64_t log_id, struct page_cache_range range, size_t size, unsigned records,
		       struct piece *piece)
{
	int n = page_cache_pieces(pc, b, range.position, range.length, piece);
	size_t done = 0;
	for (int i = 0; i < n; i++) {
		assert_ptr_equal(piece[i].segment, page_cache_segment(pc));
		assert_true(piece[i].offset + (size_t)piece[i].length <= page_cache_segment(pc)->mem.size);
		for (uint32_t k = 0; k < piece[i].length; k++, done++) {
			uint8_t is = piece[i].segment->mem.base[piece[i].offset + k];
			uint64_t base = range.base_offset + done / size * records;
			if (is != byte_of(log_id, base, done % size))
				fail_msg("byte %zu of the range at %u is wrong", done, range.position);
		}
	}
	assert_true(n < 0 || done == range.length);
	return n;
}

static void drop_pieces(struct piece *piece, int n)
{
	for (int i = 0; i < n; i++)
		pin_drop(piece[i].pin);
}

static void test_round_trip(void **state)
{
	struct block *b;
	struct piece piece[40];
	/* Batches of 30,000 bytes straddle pages. */
	assert_int_equal(insert(5, 1000, 10, 30000, 3, &b), 0);
	assert_ptr_equal(page_cache_find(pc, 5, 1000), b);
	assert_ptr_equal(page_cache_find(pc, 5, 1029), b);
	assert_null(page_cache_find(pc, 5, 1030));
	assert_null(page_cache_find(pc, 5, 999));
	assert_null(page_cache_find(pc, 6, 1000));
	assert_int_equal(block_base_offset(b), 1000);
	assert_int_equal(block_end_offset(b), 1030);
	assert_int_equal(block_length(b), 300000);
	assert_int_equal(page_cache_bytes_used(pc), 5 * PAGE_CACHE_PAGE);
	struct page_cache_range all = block_range(b, 1000, UINT64_MAX, UINT64_MAX);
	assert_int_equal(all.length, 300000);
	int n = check_range(b, 5, all, 30000, 3, piece);
	assert_int_equal(n, 1);                 /* fresh pages are neighbours */
	assert_int_equal(page_cache_bytes_pinned(pc), 5 * PAGE_CACHE_PAGE);
	drop_pieces(piece, n);
	assert_int_equal(page_cache_bytes_pinned(pc), 0);
	assert_int_equal(n_unpinned, 1);
}

static void test_range(void **state)
{
	struct block *b;
	assert_int_equal(insert(5, 1000, 10, 100, 3, &b), 0);
	static const struct {
		uint64_t offset, max_bytes, end_max;
		uint32_t position, length;
		uint64_t base, end;
	} row[] = {
		{ 1000, 1000, UINT64_MAX, 0, 1000, 1000, 1030 },
		{ 1000, 0, UINT64_MAX, 0, 100, 1000, 1003 },            /* at least one */
		{ 1002, 199, UINT64_MAX, 0, 100, 1000, 1003 },          /* from the batch that holds it */
		{ 1003, 200, UINT64_MAX, 100, 200, 1003, 1009 },
		{ 1029, 5000, UINT64_MAX, 900, 100, 1027, 1030 },
		{ 1000, 5000, 1003, 0, 100, 1000, 1003 },               /* up to confirm */
		{ 1000, 5000, 1004, 0, 200, 1000, 1006 },
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct page_cache_range r = block_range(b, row[i].offset, row[i].max_bytes, row[i].end_max);
		assert_int_equal(r.position, row[i].position);
		assert_int_equal(r.length, row[i].length);
		assert_int_equal(r.base_offset, row[i].base);
		assert_int_equal(r.end_offset, row[i].end);
	}
}

/* Reads the first `length` bytes of the block that holds offset 0 of the log. */
static void use(uint64_t log_id, uint32_t length)
{
	struct piece piece[40];
	struct block *b = page_cache_find(pc, log_id, 0);
	assert_non_null(b);
	drop_pieces(piece, page_cache_pieces(pc, b, 0, length, piece));
}

static void use_later(uint64_t log_id)
{
	use(log_id, 10);
	usleep(1100000);
	use(log_id, 10);
}

static bool is_there(uint64_t log_id)
{
	return page_cache_find(pc, log_id, 0) != NULL;
}

static void test_order(void **state)
{
	struct block *b;
	for (uint64_t log = 1; log <= N_PAGES; log++)
		assert_int_equal(insert(log, 0, 1, PAGE_CACHE_PAGE, 1, &b), 0);
	assert_int_equal(page_cache_bytes_used(pc), N_PAGES * PAGE_CACHE_PAGE);
	use_later(1);                           /* a second time: kept */
	use(2, 10), use(2, 10);                 /* at once again: the oldest on trial all the same */
	assert_int_equal(insert(100, 0, 2, PAGE_CACHE_PAGE, 1, &b), 0);
	assert_true(is_there(1) && !is_there(2) && !is_there(3) && is_there(4));
	/* More than all pages can never be. */
	assert_int_equal(insert(101, 0, 4, N_PAGES * PAGE_CACHE_PAGE / 4 + 1, 1, &b), -EFBIG);
	assert_true(is_there(1));
	assert_int_equal(insert(101, 0, 1, N_PAGES * PAGE_CACHE_PAGE, 1, &b), 0);
	assert_true(!is_there(1) && is_there(101));
}

/* Who reads through large logs piece by piece takes nothing from what is read again and again: of 16 pages, 12 are that. */
static void test_scan(void **state)
{
	struct block *b;
	struct piece piece[40];
	for (uint64_t log = 1; log <= 12; log++) {
		assert_int_equal(insert(log, 0, 1, PAGE_CACHE_PAGE, 1, &b), 0);
		use(log, 10);
	}
	usleep(1100000);
	for (uint64_t log = 1; log <= 12; log++)
		use(log, 10);
	for (uint64_t k = 0; k < 100; k++) {
		assert_int_equal(insert(50, 2 * k, 2, PAGE_CACHE_PAGE, 1, &b), 0);
		for (uint32_t at = 0; at < 2 * PAGE_CACHE_PAGE; at += PAGE_CACHE_PAGE / 2)
			drop_pieces(piece, page_cache_pieces(pc, b, at, PAGE_CACHE_PAGE / 2, piece));
	}
	for (uint64_t log = 1; log <= 12; log++)
		assert_true(is_there(log));
	/* Among those kept the least recently used goes when those on trial have no more than their quarter. */
	use(1, 10);
	page_cache_drop_log(pc, 50);
	assert_int_equal(insert(60, 0, 1, 3 * PAGE_CACHE_PAGE, 1, &b), 0);
	use_later(60);
	assert_int_equal(insert(61, 0, 1, 3 * PAGE_CACHE_PAGE, 1, &b), 0);
	assert_true(is_there(1) && !is_there(2) && !is_there(3) && is_there(4) && is_there(60));
}

static void test_pins(void **state)
{
	struct block *b, *other;
	struct piece piece[4][40];
	int n[4];
	for (int i = 0; i < 4; i++) {
		assert_int_equal(insert((uint64_t)i, 0, 2, PAGE_CACHE_PAGE, 1, &b), 0);
		struct page_cache_range all = block_range(b, 0, UINT64_MAX, UINT64_MAX);
		n[i] = check_range(b, (uint64_t)i, all, PAGE_CACHE_PAGE, 1, piece[i]);
		assert_true(n[i] > 0);
	}
	/* Half is pinned: no other block can be, and what is pinned does not go. */
	assert_int_equal(insert(9, 0, 1, PAGE_CACHE_PAGE, 1, &b), 0);
	struct piece refused[2];
	assert_int_equal(page_cache_pieces(pc, b, 0, 10, refused), -ENOBUFS);
	assert_int_equal(page_cache_bytes_pinned(pc), 8 * PAGE_CACHE_PAGE);
	assert_int_equal(insert(10, 0, 9, PAGE_CACHE_PAGE, 1, &b), -ENOBUFS);
	assert_int_equal(insert(10, 0, 8, PAGE_CACHE_PAGE, 1, &b), 0);
	assert_null(page_cache_find(pc, 9, 0));
	assert_non_null(page_cache_find(pc, 0, 0));
	/* A second pin of a pinned block is no new page. */
	struct piece again[2];
	assert_int_equal(page_cache_pieces(pc, page_cache_find(pc, 0, 0), 0, 10, again), 1);
	/* A dropped log is not found, its bytes stay until the last pin. */
	page_cache_drop_log(pc, 0);
	assert_null(page_cache_find(pc, 0, 0));
	assert_int_equal(insert(0, 0, 1, 100, 1, &other), 0);
	for (uint32_t k = 0; k < 10; k++)
		assert_int_equal(again[0].segment->mem.base[again[0].offset + k], byte_of(0, 0, k));
	uint64_t used = page_cache_bytes_used(pc);
	assert_int_equal(n_unpinned, 0);
	drop_pieces(piece[0], n[0]);
	assert_int_equal(n_unpinned, 0);
	assert_int_equal(page_cache_bytes_used(pc), used);
	drop_pieces(again, 1);
	assert_int_equal(n_unpinned, 1);
	assert_int_equal(page_cache_bytes_used(pc), used - 2 * PAGE_CACHE_PAGE);
	drop_pieces(piece[1], n[1]);
	drop_pieces(piece[2], n[2]);
	assert_int_equal(page_cache_bytes_pinned(pc), 2 * PAGE_CACHE_PAGE);
	drop_pieces(piece[3], n[3]);
	assert_int_equal(page_cache_bytes_pinned(pc), 0);
}

static void test_large_block_alone(void **state)
{
	struct block *big, *small;
	struct piece piece[40];
	assert_int_equal(insert(1, 0, 1, 12 * PAGE_CACHE_PAGE, 1, &big), 0);
	assert_int_equal(insert(2, 0, 1, 100, 1, &small), 0);
	int n = page_cache_pieces(pc, small, 0, 100, piece);
	assert_int_equal(n, 1);
	assert_int_equal(page_cache_pieces(pc, big, 0, 100, piece + 1), -ENOBUFS);
	drop_pieces(piece, n);
	n = page_cache_pieces(pc, big, 0, 100, piece);
	assert_int_equal(n, 1);
	drop_pieces(piece, n);
}

static void test_overlap(void **state)
{
	struct block *b, *c;
	assert_int_equal(insert(1, 0, 10, 100, 1, &b), 0);
	assert_int_equal(insert(1, 10, 10, 100, 1, &b), 0);
	assert_int_equal(insert(1, 20, 10, 100, 1, &b), 0);
	assert_int_equal(insert(1, 5, 10, 100, 1, &c), 0);      /* takes the place of the first two */
	assert_null(page_cache_find(pc, 1, 4));
	assert_ptr_equal(page_cache_find(pc, 1, 5), c);
	assert_ptr_equal(page_cache_find(pc, 1, 14), c);
	assert_null(page_cache_find(pc, 1, 15));
	assert_non_null(page_cache_find(pc, 1, 20));
	assert_int_equal(page_cache_bytes_used(pc), 2 * PAGE_CACHE_PAGE);
}

/* Random inserts, reads and drops: what is found has the right bytes, counters agree, nothing is lost. */
static void test_random(void **state)
{
	enum { N_HELD = 6 };
	struct held {
		struct piece piece[40];
		int n;
		uint64_t log_id, base;
		size_t size;
	} held[N_HELD];
	memset(held, 0, sizeof(held));
	srandom(11);
	unsigned n_found = 0, n_refused = 0;
	for (int step = 0; step < 4000; step++) {
		uint64_t log_id = (uint64_t)random() % 4, base = (uint64_t)random() % 8 * 10;
		struct held *h = &held[random() % N_HELD];
		struct block *b = page_cache_find(pc, log_id, base);
		size_t size = (size_t)(1 + base) * 997 + log_id * 5000;         /* the same each time */
		if (b == NULL) {
			int r = insert(log_id, base, 1, size, 10, &b);
			assert_true(r == 0 || r == -ENOBUFS);
			n_refused += r != 0;
		} else if (h->n == 0) {
			n_found++;
			struct page_cache_range all = block_range(b, base, UINT64_MAX, UINT64_MAX);
			assert_int_equal(all.length, size);
			int n = check_range(b, log_id, all, size, 10, h->piece);
			h->n = n > 0 ? n : 0;
			h->log_id = log_id;
			h->base = base;
			h->size = size;
		} else {
			uint8_t *at = h->piece[0].segment->mem.base + h->piece[0].offset;
			for (size_t i = 0; i < h->piece[0].length; i += 101)
				assert_int_equal(at[i], byte_of(h->log_id, h->base, i));
			drop_pieces(h->piece, h->n);
			h->n = 0;
		}
		if (random() % 50 == 0)
			page_cache_drop_log(pc, log_id);
		assert_true(page_cache_bytes_pinned(pc) <= page_cache_bytes_used(pc));
		assert_true(page_cache_bytes_used(pc) <= N_PAGES * PAGE_CACHE_PAGE);
	}
	for (int i = 0; i < N_HELD; i++)
		drop_pieces(held[i].piece, held[i].n);
	assert_int_equal(page_cache_bytes_pinned(pc), 0);
	for (uint64_t log_id = 0; log_id < 4; log_id++)
		page_cache_drop_log(pc, log_id);
	assert_int_equal(page_cache_bytes_used(pc), 0);
	assert_true(n_found > 100);
	assert_true(n_refused < 2000);
}

#define CACHE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Pages that a reader may still look at, though its pins are gone, are never written again; all others are. */
static void test_abandoned_pages_are_lost(void **state)
{
	struct block *b;
	struct piece piece[4];
	uint8_t seen[3 * PAGE_CACHE_PAGE];
	assert_int_equal(insert(1, 0, 3, PAGE_CACHE_PAGE, 1, &b), 0);
	int n = page_cache_pieces(pc, b, 0, block_length(b), piece);
	assert_int_equal(n, 1);
	const uint8_t *at = page_cache_segment(pc)->mem.base + piece[0].offset;
	memcpy(seen, at, sizeof(seen));
	piece[0].pin->abandoned = true;
	pin_drop(piece[0].pin);
	assert_ptr_equal(page_cache_find(pc, 1, 2), b);
	for (uint64_t i = 0; i < 40; i++) {
		assert_int_equal(insert(2, i, 1, 2 * PAGE_CACHE_PAGE, 1, &b), 0);
		assert_memory_equal(at, seen, sizeof(seen));
	}
	assert_null(page_cache_find(pc, 1, 2));
	assert_int_equal(insert(3, 0, 1, (N_PAGES - 3) * PAGE_CACHE_PAGE, 1, &b), 0);
	assert_int_equal(insert(3, 0, 1, (N_PAGES - 2) * PAGE_CACHE_PAGE, 1, &b), -EFBIG);
	assert_memory_equal(at, seen, sizeof(seen));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(test_round_trip), CACHE_TEST(test_range), CACHE_TEST(test_order), CACHE_TEST(test_scan), CACHE_TEST(test_pins),
		CACHE_TEST(test_large_block_alone), CACHE_TEST(test_overlap), CACHE_TEST(test_random),
		CACHE_TEST(test_abandoned_pages_are_lost),
	};
	return cmocka_run_group_tests_name("page_cache", tests, NULL, NULL);
}
