/* SPDX-License-Identifier: Apache-2.0
 *
 * Every message in every version that the tables know (and golden/kmsg_types.kmsg, for what no API uses), with random values: what was encoded decodes to
 * the same fields (those that the version lacks hold their defaults), encodes to the same bytes, is
 * refused cut anywhere and with a byte behind it, and survives mutation. Inputs stand in memory of exactly
 * their size. SEED= in the environment changes the values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/kafka_api.h"
#include "t/kmsg_types_gen.h"
#include "t/lib/kmsg_fill.h"

#define VALUES 20
#define MUTANTS 300
#define REGION_MAX (1u << 22)

struct world {
	struct region filled, decoded, again;
	struct buf bytes, other;
	uint64_t seed;
	unsigned n_forms, n_refused, n_mutants_taken, n_mutants_refused;
};

static uint64_t seed(void)
{
	const char *s = getenv("SEED");
	return s != NULL ? strtoull(s, NULL, 10) : 1;
}

static int world_open(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	region_init(&w->filled, REGION_MAX);
	region_init(&w->decoded, REGION_MAX);
	region_init(&w->again, REGION_MAX);
	buf_init(&w->bytes, 1u << 20);
	buf_init(&w->other, 1u << 20);
	w->seed = seed();
	*state = w;
	return 0;
}

static int world_close(void **state)
{
	struct world *w = *state;
	region_done(&w->filled);
	region_done(&w->decoded);
	region_done(&w->again);
	buf_done(&w->bytes);
	buf_done(&w->other);
	free(w);
	return 0;
}

/* Decodes from memory of exactly n bytes; a slice of the result must not be followed. */
static int decode_copy(struct world *w, struct kmsg_form form, const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);
	if (n > 0)
		memcpy(copy, p, n);
	region_reset(&w->decoded);
	void *value = kmsg_new(&w->decoded, form.desc->of, 1);
	int rc = kmsg_decode(form, slice_of(copy, n), &w->decoded, value);
	free(copy);
	return rc;
}

static const void *fill_and_encode(struct world *w, struct kmsg_form form, uint32_t items_max)
{
	struct kmsg_fill fill = { .region = &w->filled, .state = w->seed++, .version = form.version,
				  .items_max = items_max };
	region_reset(&w->filled);
	const void *value = kmsg_fill(&fill, form.desc->of);
	buf_reset(&w->bytes, SIZE_MAX);
	assert_int_equal(kmsg_encode(form, value, &w->bytes, NULL), 0);
	return value;
}

static void check_same(struct world *w, struct kmsg_form form, const void *value)
{
	region_reset(&w->decoded);
	void *got = kmsg_new(&w->decoded, form.desc->of, 1);
	assert_int_equal(kmsg_decode(form, buf_slice(&w->bytes), &w->decoded, got), 0);
	if (!kmsg_equal(form.desc->of, value, got))
		fail_msg("%s v%d differs after a round trip", form.desc->name, form.version);
	buf_reset(&w->other, SIZE_MAX);
	assert_int_equal(kmsg_encode(form, got, &w->other, NULL), 0);
	assert_true(slice_eq(buf_slice(&w->bytes), buf_slice(&w->other)));
}

static void each_form(struct world *w, void (*check)(struct world *w, struct kmsg_form form))
{
	const struct kmsg_desc *const *const lists[] = { kmsg_types_gen_all, kmsg_gen_all };
	for (int i = 0; i < 2; i++)
		for (const struct kmsg_desc *const *desc = lists[i]; *desc != NULL; desc++)
			for (int16_t version = (*desc)->low; version <= (*desc)->high; version++)
				check(w, (struct kmsg_form){ .desc = *desc, .version = version });
}

static void roundtrip(struct world *w, struct kmsg_form form)
{
	w->n_forms++;
	for (uint32_t i = 0; i < VALUES; i++)
		check_same(w, form, fill_and_encode(w, form, i));
}

static void test_roundtrip(void **state)
{
	struct world *w = *state;
	each_form(w, roundtrip);
	assert_true(w->n_forms > 250);
}

static void truncation(struct world *w, struct kmsg_form form)
{
	fill_and_encode(w, form, 2);
	size_t n = buf_len(&w->bytes);
	for (size_t cut = 0; cut < n; cut++, w->n_refused++)
		if (decode_copy(w, form, buf_head(&w->bytes), cut) != -EBADMSG)
			fail_msg("%s v%d is taken with %zu of %zu bytes", form.desc->name, form.version, cut, n);
	buf_put_u8(&w->bytes, 0);
	assert_int_equal(decode_copy(w, form, buf_head(&w->bytes), n + 1), -EBADMSG);
	assert_int_equal(decode_copy(w, form, buf_head(&w->bytes), n), 0);
}

static void test_every_truncation_is_refused(void **state)
{
	struct world *w = *state;
	each_form(w, truncation);
	assert_true(w->n_refused > 10000);
}

/* A few bytes changed, mostly to what a length or a tag is sensitive to. */
static size_t mutate(struct kmsg_fill *fill, uint8_t *p, size_t n)
{
	static const uint8_t edges[] = { 0x00, 0x01, 0x02, 0x7f, 0x80, 0xff };
	for (unsigned changes = 1 + kmsg_fill_next(fill) % 3; changes > 0 && n > 0; changes--) {
		uint64_t random = kmsg_fill_next(fill);
		p[random % n] = random & UINT64_C(1) << 40 ? (uint8_t)(random >> 48)
							   : edges[(random >> 48) % sizeof(edges)];
	}
	return kmsg_fill_next(fill) % 4 == 0 ? n - kmsg_fill_next(fill) % (n + 1) : n;
}

/* What a changed message decodes to is written and read again unchanged. */
static void check_mutant(struct world *w, struct kmsg_form form, struct slice bytes)
{
	region_reset(&w->decoded);
	void *value = kmsg_new(&w->decoded, form.desc->of, 1);
	int rc = kmsg_decode(form, bytes, &w->decoded, value);
	assert_true(rc == 0 || rc == -EBADMSG || rc == -ENOBUFS);
	w->n_mutants_refused += rc != 0;
	w->n_mutants_taken += rc == 0;
	if (rc != 0)
		return;
	buf_reset(&w->other, SIZE_MAX);
	assert_int_equal(kmsg_encode(form, value, &w->other, NULL), 0);
	region_reset(&w->again);
	void *again = kmsg_new(&w->again, form.desc->of, 1);
	assert_int_equal(kmsg_decode(form, buf_slice(&w->other), &w->again, again), 0);
	assert_true(kmsg_equal(form.desc->of, value, again));
}

static void mutation(struct world *w, struct kmsg_form form)
{
	struct kmsg_fill random = { .state = w->seed * 1000003 };
	fill_and_encode(w, form, 2);
	for (int i = 0; i < MUTANTS; i++) {
		size_t n = buf_len(&w->bytes);
		uint8_t *copy = malloc(n + 1);
		memcpy(copy, buf_head(&w->bytes), n);
		n = mutate(&random, copy, n);
		uint8_t *exact = malloc(n > 0 ? n : 1);
		memcpy(exact, copy, n);
		check_mutant(w, form, slice_of(exact, n));
		free(exact);
		free(copy);
	}
}

static void test_mutants(void **state)
{
	struct world *w = *state;
	each_form(w, mutation);
	print_message("# %u mutants taken, %u refused\n", w->n_mutants_taken, w->n_mutants_refused);
	assert_true(w->n_mutants_taken > 1000 && w->n_mutants_refused > 1000);
}

static void bounds(struct world *w, struct kmsg_form form)
{
	const void *value = fill_and_encode(w, form, 3);
	size_t n = buf_len(&w->bytes);
	struct slice bytes = buf_slice(&w->bytes);
	struct buf small;
	struct region none;
	buf_init(&small, n > 0 ? n - 1 : 0);
	assert_int_equal(kmsg_encode(form, value, &small, NULL), n > 0 ? -ENOBUFS : 0);
	assert_int_equal(buf_len(&small), 0);
	buf_done(&small);
	buf_init(&small, n);
	assert_int_equal(kmsg_encode(form, value, &small, NULL), 0);
	assert_true(slice_eq(buf_slice(&small), bytes));
	buf_done(&small);
	region_init(&none, 0);
	void *got = kmsg_new(&w->filled, form.desc->of, 1);
	int rc = kmsg_decode(form, bytes, &none, got);
	assert_true(rc == (none.failed ? -ENOBUFS : 0) && none.used == 0);
	region_done(&none);
}

static void test_bounds(void **state)
{
	each_form(*state, bounds);
}

/* Every field's name and no byte of what it holds. */
static void printing(struct world *w, struct kmsg_form form)
{
	const void *value = fill_and_encode(w, form, 2);
	buf_reset(&w->other, SIZE_MAX);
	kmsg_print(form, value, &w->other);
	assert_false(w->other.failed);
	char *text = strndup((char *)buf_head(&w->other), buf_len(&w->other));
	for (unsigned i = 0; i < form.desc->of->n_plain; i++) {
		const struct kmsg_field *f = &form.desc->of->fields[i];
		char name[80];
		snprintf(name, sizeof(name), "%s=", f->name);
		bool is_there = form.version >= f->low && form.version <= f->high;
		if (is_there)
			assert_non_null(strstr(text, name));
	}
	for (const char *p = text; *p != '\0'; p++)
		assert_true(*p >= ' ' && *p < 0x7f);
	free(text);
}

static void test_printing(void **state)
{
	each_form(*state, printing);
}

static void test_table_of_apis(void **state)
{
	int16_t before = -1;
	for (size_t i = 0; i < kafka_n_apis; i++) {
		const struct kafka_api *api = &kafka_apis[i];
		char name[80];
		assert_true(api->key > before);
		assert_ptr_equal(kafka_api_find(api->key), api);
		assert_true(api->low <= api->high && kafka_api_knows(api, api->low) && kafka_api_knows(api, api->high));
		assert_int_equal(api->request->api_key, api->key);
		assert_int_equal(api->response->api_key, api->key);
		assert_int_equal(api->request->flexible_from, api->response->flexible_from);
		snprintf(name, sizeof(name), "%sRequest", api->name);
		assert_string_equal(api->request->name, name);
		snprintf(name, sizeof(name), "%sResponse", api->name);
		assert_string_equal(api->response->name, name);
		before = api->key;
	}
	assert_null(kafka_api_find(-1));
	assert_null(kafka_api_find(4));
	assert_null(kafka_api_find(INT16_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_table_of_apis, world_open, world_close),
		cmocka_unit_test_setup_teardown(test_roundtrip, world_open, world_close),
		cmocka_unit_test_setup_teardown(test_every_truncation_is_refused, world_open, world_close),
		cmocka_unit_test_setup_teardown(test_mutants, world_open, world_close),
		cmocka_unit_test_setup_teardown(test_bounds, world_open, world_close),
		cmocka_unit_test_setup_teardown(test_printing, world_open, world_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
