/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignments of streams to members: the rule by tables, and what must hold for any members.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "worker-http/assign.h"

#define MEMBERS_MAX 8

struct row {
	const char *member[MEMBERS_MAX][2];     /* id, subscription */
	const char *want;                       /* "id=assignment ..." in order of id */
};

static void run_row(const struct row *row)
{
	struct assign_member m[MEMBERS_MAX] = { 0 };
	char got[1000] = "";
	size_t n = 0, used = 0;
	for (; n < MEMBERS_MAX && row->member[n][0] != NULL; n++) {
		m[n].id = slice_str(row->member[n][0]);
		m[n].subscription = slice_str(row->member[n][1]);
	}
	assign_streams(m, n);
	for (size_t i = 0; i < n; i++) {
		used += (size_t)snprintf(got + used, sizeof(got) - used, "%s%.*s=%.*s", i > 0 ? " " : "", (int)m[i].id.n,
					 (const char *)m[i].id.p, (int)buf_len(&m[i].assignment),
					 (const char *)buf_head(&m[i].assignment));
		buf_done(&m[i].assignment);
	}
	assert_string_equal(got, row->want);
}

static void test_rule(void **state)
{
	static const struct row rows[] = {
		{ { { "a", "[]" } }, "a=[]" },
		{ { { "a", "[\"/x\",\"/y\"]" } }, "a=[\"/x\",\"/y\"]" },
		/* One each, ties to the lowest id, whoever joined first. */
		{ { { "b", "[\"/x\",\"/y\"]" }, { "a", "[\"/y\",\"/x\"]" } }, "a=[\"/x\"] b=[\"/y\"]" },
		{ { { "a", "[\"/x\"]" }, { "b", "[\"/x\"]" }, { "c", "[\"/x\"]" } }, "a=[\"/x\"] b=[] c=[]" },
		/* Those that few can have come first: /z is only a's, so /x goes to b, though a comes before it. */
		{ { { "a", "[\"/x\",\"/z\"]" }, { "b", "[\"/x\"]" } }, "a=[\"/z\"] b=[\"/x\"]" },
		{ { { "a", "[\"/1\",\"/2\",\"/3\",\"/4\",\"/5\"]" }, { "b", "[\"/1\",\"/2\",\"/3\",\"/4\",\"/5\"]" } },
		  "a=[\"/1\",\"/3\",\"/5\"] b=[\"/2\",\"/4\"]" },
		/* A name that comes twice is one stream, however it is written; names are compared as bytes. */
		{ { { "a", "[\"/x\",\"/\\u0078\"]" }, { "b", "[\"/x/\"]" } }, "a=[\"/x\"] b=[\"/x/\"]" },
		{ { { "a", "[\"/\\\"\"]" } }, "a=[\"/\\\"\"]" },
		/* What is no subscription is one of nothing, and takes no part. */
		{ { { "a", "" }, { "b", "[\"/x\",1]" }, { "c", "{}" }, { "d", "[\"/x\"] " }, { "e", "[\"/x\"]]" } },
		  "a=[] b=[] c=[] d=[\"/x\"] e=[]" },
		{ { { "a", "\xff\x00" }, { "b", "[\"\\ud800\",\"/x\"]" } }, "a=[] b=[]" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	assign_streams(NULL, 0);
}

/* Every stream that is wanted has one owner, who wants it; two who want the same streams differ by at most one. */
static void test_any_members(void **state)
{
	enum { N = 7, STREAMS = 40 };
	for (unsigned seed = 1; seed <= 200; seed++) {
		bool wants[N][STREAMS];
		struct assign_member m[N] = { 0 };
		struct buf text[N];
		size_t owners[STREAMS] = { 0 }, has[N] = { 0 };
		char id[N][8];
		srand(seed);
		for (size_t i = 0; i < N; i++) {
			buf_init(&text[i], 4096);
			buf_put_str(&text[i], "[\"/all\"");
			for (size_t s = 0; s < STREAMS; s++) {
				wants[i][s] = i < 2 ? s % 2 == 0 : rand() % 3 == 0; /* 0 and 1 want the same */
				if (wants[i][s])
					buf_printf(&text[i], ",\"/%02zu\"", s);
			}
			buf_put_str(&text[i], "]");
			snprintf(id[i], sizeof(id[i]), "m%zu", i);
			m[i].id = slice_str(id[i]);
			m[i].subscription = buf_slice(&text[i]);
		}
		assign_streams(m, N);
		for (size_t i = 0; i < N; i++) {
			struct json_scan j;
			json_scan_init(&j, buf_slice(&m[i].assignment));
			assert_int_equal(json_next(&j), JSON_ARRAY);
			while (json_next(&j) == JSON_STRING) {
				has[i]++;
				if (slice_is(j.span, "\"/all\""))
					continue;
				size_t s = (size_t)(j.span.p[2] - '0') * 10 + (size_t)(j.span.p[3] - '0');
				assert_true(wants[i][s]);
				owners[s]++;
			}
			assert_int_equal(json_next(&j), JSON_END);
			buf_done(&m[i].assignment);
			buf_done(&text[i]);
		}
		for (size_t s = 0; s < STREAMS; s++) {
			bool wanted = false;
			for (size_t i = 0; i < N; i++)
				wanted |= wants[i][s];
			assert_int_equal(owners[s], wanted);
		}
		assert_true(has[0] <= has[1] + 1 && has[1] <= has[0] + 1);
	}
}

static void test_normalize(void **state)
{
	static const char *const rows[][2] = {
		{ "[\"/b\", \"/a\" ,\"/b\"]", "[\"/a\",\"/b\"]" }, { " [ ] ", "[]" }, { "[\"\\u002fa\"]", "[\"/a\"]" },
		{ "[1]", NULL }, { "{}", NULL }, { "[\"/a\"", NULL }, { "[\"/a\"] x", NULL }, { "", NULL }, { "[[\"/a\"]]", NULL },
		{ "[\"\\ud800\"]", NULL },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out;
		buf_init(&out, 1000);
		assert_int_equal(assign_normalize(slice_str(rows[i][0]), &out), rows[i][1] != NULL);
		assert_true(rows[i][1] == NULL || slice_is(buf_slice(&out), rows[i][1]));
		buf_done(&out);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule), cmocka_unit_test(test_any_members), cmocka_unit_test(test_normalize),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("assign", tests, NULL, NULL);
}
