/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a group's log against the golden file; every cut and every changed byte of them; the table beside a model; a
 * snapshot in pieces.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/group/offsets.h"

static uint8_t golden_bytes[8192];
static struct slice record[8];
static size_t n_records;

static int load(void **state)
{
	char path[4096];
	const char *src = getenv("PICO_SRC");
	snprintf(path, sizeof(path), "%s/t/golden/group_records.bin", src != NULL ? src : ".");
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return -1;
	struct wire_reader r = wire_reader(slice_of(golden_bytes, fread(golden_bytes, 1, sizeof(golden_bytes), f)));
	fclose(f);
	for (n_records = 0; wire_left(&r) > 0 && n_records < 8; n_records++)
		record[n_records] = wire_take(&r, wire_le32(&r));
	return r.failed || n_records != 5 ? -1 : 0;
}

static struct offset_key key(char topic, uint32_t partition)
{
	struct offset_key k = { .partition = partition };
	for (int i = 0; i < 16; i++)
		k.topic_id[i] = (uint8_t)(topic == 'a' ? i : 0xf0 + i);
	return k;
}

static void assert_entry(const struct offset_entry *e, int32_t epoch, int64_t offset, int64_t commit_ms, int64_t expires_ms,
			 size_t metadata_n)
{
	assert_non_null(e);
	assert_int_equal(e->leader_epoch, epoch);
	assert_int_equal(e->offset, offset);
	assert_int_equal(e->commit_ms, commit_ms);
	assert_int_equal(e->expires_ms, expires_ms);
	assert_int_equal(e->metadata.n, metadata_n);
}

static void test_golden(void **state)
{
	struct offsets o;
	struct offset_key a0 = key('a', 0), a1 = key('a', 1), b = key('b', UINT32_MAX);
	offsets_init(&o, NULL);
	assert_null(offsets_next(&o, NULL));
	assert_int_equal(offsets_fold(&o, record[0]), 0);
	assert_int_equal(o.past.generation, 7);
	assert_int_equal(o.past.n_members, 2);
	assert_int_equal(o.past_ms, 1700000000000);
	assert_true(slice_is(o.past.protocol_type, "consumer"));
	assert_int_equal(offsets_fold(&o, record[1]), 0);
	assert_entry(offsets_find(&o, &a0), -1, 10, 1700000000001, -1, 0);
	assert_entry(offsets_find(&o, &a1), 3, 1ll << 40, 1700000000002, 1700000009999, 5);
	assert_true(slice_is(offsets_find(&o, &a1)->metadata, "where"));
	assert_entry(offsets_find(&o, &b), 0, 5, 1700000000003, -1, 0);
	assert_int_equal(o.bytes, 3 * 50 + 5);
	assert_int_equal(offsets_fold(&o, record[2]), 0);
	assert_entry(offsets_find(&o, &a0), 4, 11, 1700000000004, -1, 4096);
	assert_int_equal(o.bytes, 3 * 50 + 5 + 4096);
	assert_int_equal(offsets_fold(&o, record[3]), 0);
	assert_null(offsets_find(&o, &b));
	assert_int_equal(offsets_fold(&o, record[4]), 0);
	assert_int_equal(o.past.generation, 8);
	assert_int_equal(o.past.n_members, 0);
	assert_int_equal(o.past.protocol_type.n, 0);
	assert_int_equal(o.bytes, 2 * 50 + 5 + 4096);
	offsets_done(&o);
}

/* Each entry counts for the node while it is there. */
static void test_memory(void **state)
{
	struct group_memory memory = { .used = 7, .max = 1 };
	struct offsets o;
	offsets_init(&o, &memory);
	for (size_t i = 0; i < n_records; i++)
		assert_int_equal(offsets_fold(&o, record[i]), 0);
	assert_in_range(memory.used, 7 + o.bytes, 7 + 3 * o.bytes);
	assert_int_equal(group_memory_left(&memory), 0);
	offsets_done(&o);
	assert_int_equal(memory.used, 7);
}

/* What we write is what the golden file has. */
static void test_writing(void **state)
{
	struct buf b;
	struct offset_entry e[] = {
		{ key('a', 0), -1, 10, 1700000000001, -1, slice_str("") },
		{ key('a', 1), 3, 1ll << 40, 1700000000002, 1700000009999, slice_str("where") },
		{ key('b', UINT32_MAX), 0, 5, 1700000000003, -1, slice_str("") },
	};
	struct offset_key gone[] = { key('b', UINT32_MAX), key('b', 1) };
	struct group_past past = { 7, 2, slice_str("consumer") };
	buf_init(&b, 1u << 20);
	offsets_write_past(&b, &past, 1700000000000);
	assert_true(slice_eq(buf_slice(&b), record[0]));
	buf_reset(&b, 0);
	offsets_write(&b, e, 3);
	assert_true(slice_eq(buf_slice(&b), record[1]));
	buf_reset(&b, 0);
	offsets_write_gone(&b, gone, 2);
	assert_true(slice_eq(buf_slice(&b), record[3]));
	buf_done(&b);
}

/* A refusal changes nothing. */
static void assert_refused(struct slice value, int error)
{
	struct offsets o;
	offsets_init(&o, NULL);
	assert_int_equal(offsets_fold(&o, value), error);
	assert_null(offsets_next(&o, NULL));
	assert_int_equal(o.past.generation, 0);
	offsets_done(&o);
}

static void test_damaged(void **state)
{
	for (size_t i = 0; i < n_records; i++) {
		for (size_t n = 0; n < record[i].n; n++) {
			uint8_t *cut = must_memdup(record[i].p, n);     /* exactly that long, for the sanitizer */
			assert_refused(slice_of(cut, n), -EBADMSG);
			free(cut);
		}
		uint8_t *more = must_calloc(1, record[i].n + 1);
		memcpy(more, record[i].p, record[i].n);
		assert_refused(slice_of(more, record[i].n + 1), -EBADMSG);
		more[0] = 2;
		assert_refused(slice_of(more, record[i].n), -ENOTSUP);
		more[0] = 0;
		assert_refused(slice_of(more, record[i].n), -EBADMSG);
		more[0] = 1;
		for (unsigned kind = 0; kind < 256; kind += kind == 0 ? 4 : 1) {
			more[1] = (uint8_t)kind;
			assert_refused(slice_of(more, record[i].n), -EBADMSG);
		}
		more[1] = record[i].p[1];
		more[2] = 1;
		assert_refused(slice_of(more, record[i].n), -EBADMSG);
		free(more);
	}
	/* Metadata of 4,097 bytes. */
	uint8_t *big = must_calloc(1, record[2].n + 1);
	memcpy(big, record[2].p, record[2].n);
	put_le16(big + 8 + 48, 4097);
	assert_refused(slice_of(big, record[2].n + 1), -EBADMSG);
	free(big);
}

/* ---------------------------------------------------------------- beside a model */

#define PARTITIONS 300
static int64_t model[PARTITIONS];

static uint32_t random_next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static bool keep_all(void *arg, const struct offset_entry *e)
{
	++*(size_t *)arg;
	return true;
}

static bool keep_even(void *arg, const struct offset_entry *e)
{
	return e->key.partition % 2 == 0;
}

static void assert_model(const struct offsets *o, unsigned step)
{
	const struct offset_entry *e = NULL;
	size_t bytes = 0;
	for (uint32_t i = 0; i < PARTITIONS; i += step) {
		if (model[i] < 0)
			continue;
		e = offsets_next(o, e != NULL ? &e->key : NULL);
		assert_non_null(e);
		assert_int_equal(e->key.partition, i);
		assert_int_equal(e->offset, model[i]);
		bytes += offset_entry_size(e);
	}
	assert_null(offsets_next(o, e != NULL ? &e->key : NULL));
	assert_int_equal(o->bytes, bytes);
}

/* All that stands in o, over records of at most max bytes, into another table. */
static unsigned copy(const struct offsets *o, struct offsets *to, size_t max, offsets_keep *keep)
{
	struct offset_key after;
	struct buf b;
	bool begun = false, more;
	unsigned n = 0;
	size_t seen = 0;
	offsets_init(to, NULL);
	do {
		buf_init(&b, 1u << 20);
		more = offsets_write_some(o, &after, &begun, max, keep, &seen, &b);
		assert_false(b.failed);
		if (buf_len(&b) > 0) {
			assert_true(buf_len(&b) <= max);
			assert_int_equal(offsets_fold(to, buf_slice(&b)), 0);
			n++;
		}
		buf_done(&b);
	} while (more);
	return n;
}

static void test_model(void **state)
{
	struct offsets o, again;
	struct buf b;
	uint32_t seed = 7;
	offsets_init(&o, NULL);
	buf_init(&b, 1u << 20);
	for (int i = 0; i < PARTITIONS; i++)
		model[i] = -1;
	for (int step = 0; step < 5000; step++) {
		uint32_t p = random_next(&seed) % PARTITIONS;
		struct offset_entry e = { key('a', p), -1, step, 0, -1, slice_of(golden_bytes, random_next(&seed) % 9) };
		buf_reset(&b, 4096);
		if (random_next(&seed) % 4 == 0) {
			offsets_write_gone(&b, &e.key, 1);
			model[p] = -1;
		} else {
			offsets_write(&b, &e, 1);
			model[p] = step;
		}
		assert_int_equal(offsets_fold(&o, buf_slice(&b)), 0);
	}
	buf_done(&b);
	assert_model(&o, 1);
	assert_true(copy(&o, &again, 1000, keep_all) > 10);
	assert_model(&again, 1);
	offsets_done(&again);
	assert_int_equal(copy(&o, &again, 1u << 20, keep_even), 1);
	assert_model(&again, 2);
	offsets_done(&again);
	offsets_done(&o);
	assert_int_equal(copy(&o, &again, 100, keep_all), 0);
	offsets_done(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_writing),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_model),
	};
	return cmocka_run_group_tests(tests, load, NULL);
}
