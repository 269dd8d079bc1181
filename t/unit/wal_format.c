/* SPDX-License-Identifier: Apache-2.0
 *
 * WAL objects against the golden file: every field read, every byte written, and every truncation and every
 * changed bit refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/crc32c.h"
#include "common/record_batch.h"
#include "proto/frame.pb-c.h"
#include "storaged/engine/wal_format.h"

#define NODE 7
#define SESSION 0x1234
#define SEQ 3

static uint8_t golden[4096];
static size_t n_golden;

static int load(void **state)
{
	char path[4096];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/wal_object.bin", src != NULL ? src : ".");
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return -1;
	n_golden = fread(golden, 1, sizeof(golden), f);
	fclose(f);
	return n_golden > WAL_HEADER ? 0 : -1;
}

/* An object and every frame of it. NULL or the first fault. */
static const char *check(struct slice object)
{
	struct wal_header h;
	struct frame f;
	const char *fault = wal_object_check(object, NODE, SESSION, SEQ, &h);
	if (fault != NULL)
		return fault;
	struct frame_iter it = { .body = slice_of(object.p + WAL_HEADER, object.n - WAL_HEADER) };
	while (frame_next(&it, &f) == 1)
		;
	return it.fault;
}

/* The frames alone: what finds damage when the object's checksum was computed over it. */
static const char *check_frames(struct slice body, unsigned *ret_n)
{
	struct frame_iter it = { .body = body };
	struct frame f;
	*ret_n = 0;
	while (frame_next(&it, &f) == 1)
		(*ret_n)++;
	return it.fault;
}

static void test_golden_header(void **state)
{
	struct wal_header h;
	assert_null(wal_object_check(slice_of(golden, n_golden), NODE, SESSION, SEQ, &h));
	assert_int_equal(h.kind, WAL_DATA);
	assert_int_equal(h.node, 7);
	assert_int_equal(h.session, 0x1234);
	assert_int_equal(h.seq, 3);
	assert_int_equal(h.body_len, n_golden - 64);
	for (int i = 0; i < 16; i++)
		assert_int_equal(h.put_id[i], i);
	uint8_t again[WAL_HEADER];
	wal_header_encode(again, &h);
	assert_memory_equal(again, golden, WAL_HEADER);
}

static void test_golden_frames(void **state)
{
	struct frame_iter it = { .body = slice_of(golden + WAL_HEADER, n_golden - WAL_HEADER) };
	struct frame f;
	assert_int_equal(frame_next(&it, &f), 1);
	assert_int_equal(f.log_id, 0xa1);
	assert_int_equal(f.base_offset, 41);
	assert_int_equal(f.epoch, 5);
	assert_int_equal(f.record_count, 2);
	assert_int_equal(f.append_time, 1700000000123);
	assert_int_equal(f.max_timestamp, 1700000000123);
	Frame__Meta *m = frame__meta__unpack(NULL, f.meta.n, f.meta.p);
	assert_non_null(m);
	assert_string_equal(m->producer->id, "sensor-7");
	assert_int_equal(m->producer->epoch, 3);
	assert_int_equal(m->producer->seq, 300);
	assert_true(m->has_stream_seq && !m->closes);
	assert_true(slice_is(slice_of(m->stream_seq.data, m->stream_seq.len), "0042"));
	frame__meta__free_unpacked(m, NULL);
	assert_int_equal(frame_next(&it, &f), 1);
	assert_int_equal(f.log_id, 0xb2);
	assert_int_equal(f.base_offset, 0);
	m = frame__meta__unpack(NULL, f.meta.n, f.meta.p);
	assert_non_null(m);
	assert_true(m->worker_instance == 0x1122334455667788 && m->request_id == 9 && m->producer == NULL);
	frame__meta__free_unpacked(m, NULL);
	assert_int_equal(frame_next(&it, &f), 1);
	assert_int_equal(f.base_offset, 43);
	assert_int_equal(f.record_count, 0);
	assert_int_equal(f.payload.n, 0);
	m = frame__meta__unpack(NULL, f.meta.n, f.meta.p);
	assert_non_null(m);
	assert_true(m->closes);
	frame__meta__free_unpacked(m, NULL);
	assert_int_equal(frame_next(&it, &f), 0);
	assert_int_equal(it.position, n_golden - WAL_HEADER);
}

/* Every frame encoded again gives the same bytes, whatever stood in the padding. */
static void test_golden_is_what_we_write(void **state)
{
	struct frame_iter it = { .body = slice_of(golden + WAL_HEADER, n_golden - WAL_HEADER) };
	struct frame f;
	uint8_t again[4096];
	size_t at = 0;
	while (frame_next(&it, &f) == 1) {
		memset(again, 0xee, sizeof(again));
		memcpy(again + FRAME_HEADER, f.meta.p, f.meta.n);
		memcpy(again + FRAME_HEADER + frame_pad(f.meta.n), f.payload.p, f.payload.n);
		f.meta.p = again + FRAME_HEADER;
		frame_encode(again, &f);
		assert_memory_equal(again, golden + WAL_HEADER + at, it.position - at);
		at = it.position;
	}
	assert_int_equal(at, n_golden - WAL_HEADER);
}

static void test_truncations(void **state)
{
	assert_null(check(slice_of(golden, n_golden)));
	for (size_t n = 0; n < n_golden; n++) {
		uint8_t *exact = malloc(n + 1); /* a sanitizer sees a byte read behind it */
		memcpy(exact, golden, n);
		uint8_t *end = realloc(exact, n > 0 ? n : 1);
		assert_non_null(check(slice_of(end, n)));
		free(end);
	}
}

/* The frames of a body cut off: all before the cut are there, and unless it lies between two it shows. */
static void test_truncated_bodies(void **state)
{
	size_t n_body = n_golden - WAL_HEADER, edges[4] = { 0 };
	struct frame_iter it = { .body = slice_of(golden + WAL_HEADER, n_body) };
	struct frame f;
	for (int i = 1; frame_next(&it, &f) == 1; i++)
		edges[i] = it.position;
	for (size_t n = 0; n < n_body; n++) {
		unsigned n_frames, expected = 0;
		bool is_edge = false;
		for (int i = 0; i < 4; i++) {
			is_edge |= edges[i] == n;
			expected += i > 0 && edges[i] <= n;
		}
		const char *fault = check_frames(slice_of(golden + WAL_HEADER, n), &n_frames);
		assert_int_equal(n_frames, expected);
		assert_int_equal(fault == NULL, is_edge);
	}
}

static void test_every_bit_is_guarded(void **state)
{
	uint8_t copy[sizeof(golden)];
	unsigned n_frames;
	memcpy(copy, golden, n_golden);
	for (size_t at = 0; at < n_golden; at++) {
		for (int bit = 0; bit < 8; bit++) {
			copy[at] ^= (uint8_t)(1 << bit);
			assert_non_null(check(slice_of(copy, n_golden)));
			if (at >= WAL_HEADER) /* and by the frame alone */
				assert_non_null(check_frames(slice_of(copy + WAL_HEADER, n_golden - WAL_HEADER), &n_frames));
			copy[at] ^= (uint8_t)(1 << bit);
		}
	}
	assert_null(check(slice_of(copy, n_golden)));
}

/* What a checksum does not see: fields that are right in themselves and wrong here. */
static void refuse_header(void (*change)(struct wal_header *h), const char *words)
{
	uint8_t copy[sizeof(golden)];
	struct wal_header h;
	memcpy(copy, golden, n_golden);
	assert_null(wal_header_decode(slice_of(copy, n_golden), &h));
	change(&h);
	wal_header_encode(copy, &h);
	const char *fault = wal_object_check(slice_of(copy, n_golden), NODE, SESSION, SEQ, &h);
	assert_non_null(fault);
	if (strstr(fault, words) == NULL)
		fail_msg("%s", fault);
}

static void other_node(struct wal_header *h) { h->node++; }
static void other_session(struct wal_header *h) { h->session++; }
static void other_seq(struct wal_header *h) { h->seq++; }
static void longer(struct wal_header *h) { h->body_len++; }
static void other_crc(struct wal_header *h) { h->body_crc++; }
static void open_kind(struct wal_header *h) { h->kind = WAL_OPEN; }
static void seal_kind(struct wal_header *h) { h->kind = WAL_SEAL; }
static void no_kind(struct wal_header *h) { h->kind = 4; }
static void kind_of_nothing(struct wal_header *h) { h->kind = 0; }

static void test_headers_that_do_not_fit(void **state)
{
	refuse_header(other_node, "its name");
	refuse_header(other_session, "its name");
	refuse_header(other_seq, "its name");
	refuse_header(longer, "length");
	refuse_header(other_crc, "body");
	refuse_header(open_kind, "its place");
	refuse_header(seal_kind, "its place");
	refuse_header(no_kind, "kind");
	refuse_header(kind_of_nothing, "kind");
	uint8_t newer[WAL_HEADER];
	struct wal_header h;
	memcpy(newer, golden, sizeof(newer));
	newer[4]++;
	assert_non_null(strstr(wal_header_decode(slice_of(newer, sizeof(newer)), &h), "newer"));
	put_le32(newer + 4, 0);
	put_le32(newer + WAL_HEADER - 4, 0);
	put_le32(newer + WAL_HEADER - 4, crc32c(newer, WAL_HEADER));
	assert_non_null(strstr(wal_header_decode(slice_of(newer, sizeof(newer)), &h), "unknown"));
}

/* A process that never put its open object is sealed there; data begins behind it. */
static void test_first_objects(void **state)
{
	uint8_t bytes[WAL_HEADER];
	struct wal_header h = { .kind = WAL_SEAL, .node = NODE, .session = SESSION }, read;
	wal_header_encode(bytes, &h);
	assert_null(wal_object_check(slice_of(bytes, sizeof(bytes)), NODE, SESSION, 0, &read));
	assert_int_equal(read.kind, WAL_SEAL);
	h.kind = WAL_OPEN;
	wal_header_encode(bytes, &h);
	assert_null(wal_object_check(slice_of(bytes, sizeof(bytes)), NODE, SESSION, 0, &read));
	h.kind = WAL_DATA;
	wal_header_encode(bytes, &h);
	assert_non_null(strstr(wal_object_check(slice_of(bytes, sizeof(bytes)), NODE, SESSION, 0, &read), "its place"));
}

/* Flags that this program does not know, in a frame that is whole. */
static void test_flags_of_a_newer_program(void **state)
{
	uint8_t copy[512];
	struct frame_iter it = { .body = slice_of(golden + WAL_HEADER, n_golden - WAL_HEADER) };
	struct frame f;
	unsigned n;
	assert_int_equal(frame_next(&it, &f), 1);
	memcpy(copy, golden + WAL_HEADER, it.position);
	for (uint8_t flags = 0; flags < 2; flags++) {
		copy[56] = flags;
		put_le32(copy + 4, 0);
		put_le32(copy + 4, crc32c(copy, FRAME_HEADER + f.meta.n));
		const char *fault = check_frames(slice_of(copy, it.position), &n);
		assert_int_equal(n, flags == 0);
		if (flags != 0)
			assert_non_null(strstr(fault, "flags of a newer program"));
	}
}

static void test_frames_that_do_not_fit(void **state)
{
	uint8_t copy[512];
	struct frame_iter it = { .body = slice_of(golden + WAL_HEADER, n_golden - WAL_HEADER) };
	struct frame f, changed;
	assert_int_equal(frame_next(&it, &f), 1);
	memcpy(copy, golden + WAL_HEADER, it.position);
	f.meta.p = copy + FRAME_HEADER;
	for (int i = 0; i < 6; i++) {
		changed = f;
		changed.base_offset += i == 1;
		changed.epoch += i == 2;
		changed.record_count += i == 3;
		changed.max_timestamp += i == 4;
		changed.base_offset = i == 5 ? (uint64_t)INT64_MAX + 1 : changed.base_offset;
		frame_encode(copy, &changed);
		unsigned n_frames;
		const char *fault = check_frames(slice_of(copy, it.position), &n_frames);
		assert_int_equal(fault == NULL, i == 0);
		assert_int_equal(n_frames, i == 0);
	}
}

static void test_keys(void **state)
{
	char key[WAL_KEY_MAX];
	wal_key(key, 7, 1, 0);
	assert_string_equal(key, "wal/7/0000000000000001/0000000000000000");
	wal_key(key, UINT32_MAX, UINT64_MAX, UINT64_MAX);
	assert_string_equal(key, "wal/4294967295/ffffffffffffffff/ffffffffffffffff");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_header), cmocka_unit_test(test_golden_frames),
		cmocka_unit_test(test_golden_is_what_we_write), cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_truncated_bodies), cmocka_unit_test(test_every_bit_is_guarded),
		cmocka_unit_test(test_headers_that_do_not_fit), cmocka_unit_test(test_frames_that_do_not_fit),
		cmocka_unit_test(test_keys), cmocka_unit_test(test_first_objects),
		cmocka_unit_test(test_flags_of_a_newer_program),
	};
	return cmocka_run_group_tests_name("wal_format", tests, load, NULL);
}
