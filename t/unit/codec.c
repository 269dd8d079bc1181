/* SPDX-License-Identifier: Apache-2.0
 *
 * Codecs: vectors of other implementations, round trips, caps to the byte, bombs, and that nothing
 * truncated, broken or followed by other bytes passes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/codec.h"

#define CAP (128u << 20)
#define VECTOR_MAX 65536

static struct buf text;                 /* what every vector decompresses to */

static const struct vector {
	const char *name;
	enum codec codec;
	bool parts;                     /* some shorter ones are whole, too */
	bool wide;                      /* its zstd window needs the largest cap */
} vectors[] = {
	{ "gzip", CODEC_GZIP, false, false }, { "gzip_tool", CODEC_GZIP, false, false },
	{ "gzip_members", CODEC_GZIP, true, false },
	{ "snappy_raw", CODEC_SNAPPY, false, false }, { "snappy_xerial", CODEC_SNAPPY, true, false },
	{ "lz4", CODEC_LZ4, false, false }, { "lz4_independent", CODEC_LZ4, false, false },
	{ "lz4_tool", CODEC_LZ4, false, false },
	{ "zstd", CODEC_ZSTD, false, false }, { "zstd_frames", CODEC_ZSTD, true, false },
	{ "zstd_stream", CODEC_ZSTD, false, false }, { "zstd_window_27", CODEC_ZSTD, false, true },
	{ "zstd_tool", CODEC_ZSTD, false, false },
};
#define N_VECTORS (sizeof(vectors) / sizeof(vectors[0]))
static uint8_t vector_bytes[N_VECTORS][VECTOR_MAX];
static struct slice vector[N_VECTORS];

static int load(void **state)
{
	const char *src = getenv("PICO_SRC");
	buf_init(&text, 1 << 20);
	for (int i = 0; i < 3000; i++)
		buf_printf(&text, "line %d of a text, %d times %d\n", i, i * 7 % 10, i * i % 1000);
	for (size_t i = 0; i < N_VECTORS; i++) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/t/golden/codec_%s.bin", src != NULL ? src : ".", vectors[i].name);
		FILE *f = fopen(path, "rb");
		if (f == NULL)
			return -1;
		vector[i] = slice_of(vector_bytes[i], fread(vector_bytes[i], 1, VECTOR_MAX, f));
		fclose(f);
	}
	return 0;
}

static int unload(void **state)
{
	buf_done(&text);
	return 0;
}

/* Decompresses a copy that ends where its memory ends, so that a sanitizer sees a read past it. */
static int decompress(unsigned codec, struct slice in, size_t cap, struct buf *out)
{
	uint8_t *copy = malloc(in.n > 0 ? in.n : 1);
	assert_non_null(copy);
	if (in.n > 0)
		memcpy(copy, in.p, in.n);
	buf_init(out, cap);
	int r = codec_decompress(codec, slice_of(copy, in.n), cap, out);
	assert_true(buf_len(out) <= cap && out->capacity <= 2 * cap + 512);
	free(copy);
	return r;
}

static int result_of(unsigned codec, struct slice in, size_t cap)
{
	struct buf out;
	int r = decompress(codec, in, cap, &out);
	buf_done(&out);
	return r;
}

static void assert_text(unsigned codec, struct slice in, size_t cap, struct slice want)
{
	struct buf out;
	assert_int_equal(decompress(codec, in, cap, &out), 0);
	assert_true(slice_eq(buf_slice(&out), want));
	buf_done(&out);
}

static struct buf compressed(unsigned codec, struct slice plain)
{
	struct buf out;
	buf_init(&out, plain.n + (1u << 20));
	assert_int_equal(codec_compress(codec, plain, &out), 0);
	return out;
}

/* ------------------------------------------------------------------ what is accepted */

static void test_vectors(void **state)
{
	for (size_t i = 0; i < N_VECTORS; i++)
		assert_text(vectors[i].codec, vector[i], CAP, buf_slice(&text));
}

static void test_round_trips(void **state)
{
	static const size_t sizes[] = { 1, 2, 61, 1000, 32767, 32768, 32769, 65536, 65537, 90000 };
	for (unsigned codec = CODEC_NONE; codec <= CODEC_ZSTD; codec++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct slice plain = slice_of(buf_head(&text), sizes[i]);
			struct buf packed = compressed(codec, plain);
			assert_text(codec, buf_slice(&packed), sizes[i], plain);
			buf_done(&packed);
		}
}

/* What is there stays, and room short of the worst case is an error and no overrun. */
static void test_appends(void **state)
{
	for (unsigned codec = CODEC_NONE; codec <= CODEC_ZSTD; codec++) {
		struct buf packed, plain, small;
		buf_init(&packed, 1 << 20);
		buf_init(&plain, 1 << 20);
		buf_init(&small, 20);
		buf_put_str(&packed, "head");
		buf_put_str(&plain, "head");
		assert_int_equal(codec_compress(codec, slice_str("tail of more than 20"), &packed), 0);
		buf_consume(&packed, 4);
		assert_int_equal(codec_decompress(codec, buf_slice(&packed), 20, &plain), 0);
		assert_true(slice_is(buf_slice(&plain), "headtail of more than 20"));
		assert_int_equal(codec_compress(codec, buf_slice(&text), &small), -ENOBUFS);
		buf_reset(&small, 0);
		buf_put_u8(&small, 'x');
		assert_int_equal(codec_decompress(codec, buf_slice(&packed), 20, &small), -ENOBUFS);
		buf_done(&packed);
		buf_done(&plain);
		buf_done(&small);
	}
}

/* Java's client begins its streams so, and reads no other. */
static void test_xerial_shape(void **state)
{
	static const uint8_t begin[] = { 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1 };
	struct buf packed = compressed(CODEC_SNAPPY, slice_of(buf_head(&text), 70000));
	assert_memory_equal(buf_head(&packed), begin, sizeof(begin));
	size_t at = sizeof(begin), blocks = 0;
	for (; at < buf_len(&packed); blocks++) {
		const uint8_t *p = buf_head(&packed) + at;
		at += 4 + ((size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
	}
	assert_int_equal(at, buf_len(&packed));
	assert_int_equal(blocks, 3);
	buf_head(&packed)[11] = 0; /* version 0 */
	assert_int_equal(result_of(CODEC_SNAPPY, buf_slice(&packed), CAP), -EBADMSG);
	buf_done(&packed);
}

static void test_names(void **state)
{
	static const char *const names[] = { "none", "gzip", "snappy", "lz4", "zstd" };
	for (unsigned codec = 0; codec < 5; codec++)
		assert_string_equal(codec_name(codec), names[codec]);
	struct buf out;
	buf_init(&out, 100);
	for (unsigned codec = 5; codec < 9; codec++) {
		assert_null(codec_name(codec));
		assert_int_equal(codec_decompress(codec, slice_str("x"), 100, &out), -ENOTSUP);
		assert_int_equal(codec_compress(codec, slice_str("x"), &out), -ENOTSUP);
	}
	buf_done(&out);
}

/* ------------------------------------------------------------------ caps */

static void test_cap(void **state)
{
	size_t n = buf_len(&text);
	for (size_t i = 0; i < N_VECTORS; i++) {
		size_t whole = vectors[i].wide ? CAP : n;
		assert_text(vectors[i].codec, vector[i], whole, buf_slice(&text));
		assert_int_equal(result_of(vectors[i].codec, vector[i], n - 1), -E2BIG);
		assert_int_equal(result_of(vectors[i].codec, vector[i], 1), -E2BIG);
		assert_int_equal(result_of(vectors[i].codec, vector[i], 0), -E2BIG);
	}
	assert_text(CODEC_NONE, slice_str("four"), 4, slice_str("four"));
	assert_int_equal(result_of(CODEC_NONE, slice_str("four"), 3), -E2BIG);
}

/* Little input, much output: stopped at the cap, with memory in proportion to it. */
static void test_bombs(void **state)
{
	size_t n = 32u << 20;
	uint8_t *zeros = calloc(1, n);
	assert_non_null(zeros);
	for (unsigned codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
		struct buf packed = compressed(codec, slice_of(zeros, n));
		assert_true(buf_len(&packed) < n / 15);
		assert_int_equal(result_of(codec, buf_slice(&packed), 1 << 20), -E2BIG);
		assert_int_equal(result_of(codec, buf_slice(&packed), n - 1), -E2BIG);
		assert_text(codec, buf_slice(&packed), n, slice_of(zeros, n));
		buf_done(&packed);
	}
	free(zeros);
}

/* Sizes that are claimed and not there. */
static void test_lies(void **state)
{
	static const uint8_t snappy_100m[] = { 0x80, 0xc2, 0xd7, 0x2f, 0x00, 'x' };
	static const uint8_t snappy_4g[] = { 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 'x' };
	static const uint8_t block_4g[] = { 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1,
					    0xff, 0xff, 0xff, 0xff, 1, 0, 'x' };
	/* Single segment, content of 2^40 bytes. */
	static const uint8_t zstd_1t[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 0x01, 0, 0 };
	/* The same with 100 bytes, and an empty last block. */
	static const uint8_t zstd_100[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x20, 100, 0x01, 0, 0 };
	struct buf out;
	assert_int_equal(decompress(CODEC_SNAPPY, slice_of(snappy_100m, sizeof(snappy_100m)), CAP, &out), -EBADMSG);
	assert_int_equal(out.capacity, 0); /* nothing was taken for the 100 MB that six bytes cannot hold */
	buf_done(&out);
	assert_int_equal(result_of(CODEC_SNAPPY, slice_of(snappy_4g, sizeof(snappy_4g)), CAP), -E2BIG);
	assert_int_equal(result_of(CODEC_SNAPPY, slice_of(block_4g, sizeof(block_4g)), CAP), -EBADMSG);
	assert_int_equal(result_of(CODEC_ZSTD, slice_of(zstd_1t, sizeof(zstd_1t)), CAP), -E2BIG);
	assert_int_equal(result_of(CODEC_ZSTD, slice_of(zstd_100, sizeof(zstd_100)), CAP), -EBADMSG);
}

/* ------------------------------------------------------------------ what is refused */

static void check_prefix(const struct vector *v, struct slice whole, size_t n)
{
	struct buf out;
	int r = decompress(v->codec, slice_of(whole.p, n), CAP, &out);
	if (r == 0 && v->parts) {
		assert_true(buf_len(&out) < buf_len(&text));
		assert_memory_equal(buf_len(&out) > 0 ? buf_head(&out) : buf_head(&text), buf_head(&text), buf_len(&out));
	} else if (r != -EBADMSG) {
		fail_msg("%s cut to %zu bytes gives %d", v->name, n, r);
	}
	buf_done(&out);
}

static void test_truncated_vectors(void **state)
{
	for (size_t i = 0; i < N_VECTORS; i++)
		for (size_t n = 0; n < vector[i].n; n += n < 40 || n + 40 > vector[i].n ? 1 : 251) {
			check_prefix(&vectors[i], vector[i], n);
			if (n + 251 > vector[i].n && n + 41 < vector[i].n)
				n = vector[i].n - 41;
		}
}

static void test_truncated_everywhere(void **state)
{
	for (unsigned codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
		struct buf packed = compressed(codec, slice_of(buf_head(&text), 2000));
		for (size_t n = 0; n < buf_len(&packed); n++) {
			int r = result_of(codec, slice_of(buf_head(&packed), n), CAP);
			if (r != -EBADMSG && !(codec == CODEC_SNAPPY && n == 16 && r == 0))
				fail_msg("%s cut to %zu of %zu bytes gives %d", codec_name(codec), n, buf_len(&packed), r);
		}
		buf_done(&packed);
	}
}

static void test_garbage_behind(void **state)
{
	static const struct slice garbage[] = {
		{ (const uint8_t *)"\0", 1 }, { (const uint8_t *)"x", 1 }, { (const uint8_t *)"\x1f\x8b", 2 },
		{ (const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\0\0", 12 }, { (const uint8_t *)"\x28\xb5\x2f\xfd\x20", 5 },
	};
	for (size_t i = 0; i < N_VECTORS; i++)
		for (size_t g = 0; g < sizeof(garbage) / sizeof(garbage[0]); g++) {
			struct buf in;
			buf_init(&in, 1 << 20);
			buf_put_slice(&in, vector[i]);
			buf_put_slice(&in, garbage[g]);
			int r = result_of(vectors[i].codec, buf_slice(&in), CAP);
			if (r != -EBADMSG)
				fail_msg("%s with garbage %zu gives %d", vectors[i].name, g, r);
			buf_done(&in);
		}
	struct buf frame = compressed(CODEC_LZ4, slice_str("x")), two;
	buf_init(&two, 1000);
	buf_put_slice(&two, buf_slice(&frame));
	buf_put_slice(&two, buf_slice(&frame));
	assert_int_equal(result_of(CODEC_LZ4, buf_slice(&two), CAP), -EBADMSG);
	buf_done(&frame);
	buf_done(&two);
}

/* Each bit of a small stream turned over: never more than the cap, never a read past the end. */
static void test_broken_bits(void **state)
{
	for (unsigned codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
		struct buf packed = compressed(codec, slice_of(buf_head(&text), 300));
		unsigned refused = 0;
		for (size_t bit = 0; bit < 8 * buf_len(&packed); bit++) {
			buf_head(&packed)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			int r = result_of(codec, buf_slice(&packed), 5000);
			assert_true(r == 0 || r == -EBADMSG || r == -E2BIG);
			refused += r != 0;
			buf_head(&packed)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		assert_true(refused > 100);
		buf_done(&packed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_round_trips), cmocka_unit_test(test_appends),
		cmocka_unit_test(test_xerial_shape), cmocka_unit_test(test_names), cmocka_unit_test(test_cap),
		cmocka_unit_test(test_bombs), cmocka_unit_test(test_lies), cmocka_unit_test(test_truncated_vectors),
		cmocka_unit_test(test_truncated_everywhere), cmocka_unit_test(test_garbage_behind),
		cmocka_unit_test(test_broken_bits),
	};
	return cmocka_run_group_tests_name("codec", tests, load, unload);
}
