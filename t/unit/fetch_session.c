/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch sessions by themselves, under a clock of the test's: what is planned, what is told, epochs, and who goes when
 * there is no room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "common/metrics.h"
#include "common/must.h"
#include "worker-kafka/fetch_session.h"

#define NAMES 12
#define IDS 13
#define SLOTS 4

static uint64_t clock_ms;
static struct conf conf;
static struct server server;
static struct request r;

static uint64_t now_ms(struct env *e)
{
	return clock_ms;
}

/* Each number twice, and 0 first. */
static void give_random(struct env *e, void *p, size_t n)
{
	static uint32_t next;
	uint32_t v = next++ / 2;
	must(n == sizeof(v));
	memcpy(p, &v, n);
}

static const struct env_ops ops = { .now_ms = now_ms, .random = give_random };
static struct env env = { &ops };

static int setup(void **state)
{
	clock_ms = 1000000;
	conf_init(&conf);
	conf.max_fetch_sessions = SLOTS;
	server = (struct server){ .env = &env, .conf = &conf };
	server.fetch_sessions = fetch_sessions_new(&server);
	r = (struct request){ .server = &server };
	region_init(&r.region, 256u << 20);
	return 0;
}

static int teardown(void **state)
{
	fetch_sessions_free(server.fetch_sessions);
	region_done(&r.region);
	conf_done(&conf);
	return 0;
}

static size_t n_sessions(void)
{
	return (size_t)metrics->value[METRIC_KAFKA_FETCH_SESSIONS];
}

/* ------------------------------------------------------------------ requests and answers as words */

/* "a0@5 a1 b0": partitions with offsets, topics by their letter. */
static void parse(const char *text, struct kmsg_fetch_request *q)
{
	size_t n = 0;
	struct kmsg_fetch_request_topic *t = KMSG_NEW(&r.region, fetch_request_topic, strlen(text) + 1);
	q->topics = t;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == ' ')
			continue;
		struct kmsg_fetch_request_partition *part = KMSG_NEW(&r.region, fetch_request_partition, 1);
		t[n].topic = region_copy(&r.region, slice_of(p, 1));
		memset(t[n].topic_id.bytes, *p++, 16);
		part->partition = *p - '0';
		part->partition_max_bytes = 1000;
		if (p[1] == '@') {
			part->fetch_offset = p[2] - '0';
			p += 2;
		}
		t[n].partitions = part;
		t[n++].n_partitions = 1;
	}
	q->n_topics = (uint32_t)n;
}

static void parse_forgotten(const char *text, struct kmsg_fetch_request *q)
{
	struct kmsg_fetch_request named;
	parse(text, &named);
	q->n_forgotten_topics_data = named.n_topics;
	q->forgotten_topics_data = KMSG_NEW(&r.region, fetch_request_forgotten_topic, named.n_topics + 1);
	for (uint32_t i = 0; i < named.n_topics; i++) {
		struct kmsg_fetch_request_forgotten_topic *f = &q->forgotten_topics_data[i];
		f->topic = named.topics[i].topic;
		f->topic_id = named.topics[i].topic_id;
		f->partitions = region_alloc(&r.region, sizeof(int32_t));
		f->partitions[0] = named.topics[i].partitions->partition;
		f->n_partitions = 1;
	}
}

static struct fetch_plan plan;

static enum kafka_error ask(int16_t version, int32_t id, int32_t epoch, const char *parts, const char *forgotten)
{
	struct kmsg_fetch_request *q = KMSG_NEW(&r.region, fetch_request, 1);
	q->session_id = id;
	q->session_epoch = epoch;
	parse(parts, q);
	parse_forgotten(forgotten, q);
	r.head.api_version = version;
	r.message = q;
	return fetch_session_plan(&r, &plan);
}

/* The plan in the form of parse(). */
static const char *planned(void)
{
	static char text[256];
	size_t n = 0;
	text[0] = '\0';
	for (uint32_t i = 0; i < plan.n_topics; i++) {
		for (uint32_t j = 0; j < plan.topics[i].n_partitions; j++) {
			const struct kmsg_fetch_request_partition *p = &plan.topics[i].partitions[j];
			char topic = r.head.api_version >= IDS ? (char)plan.topics[i].topic_id.bytes[15] : (char)plan.topics[i].topic.p[0];
			n += (size_t)sprintf(text + n, "%s%c%d@%d", n > 0 ? " " : "", topic, p->partition, (int)p->fetch_offset);
			assert_int_equal(p->partition_max_bytes, 1000);
		}
	}
	return text;
}

/* Answers each planned partition with that watermark, log start 0, and what `special` says: "a0!" an error, "a1+" records.
 * The result is what is left to be told. */
static int32_t told_id;
static int16_t told_error;
static const char *told(int64_t watermark, const char *special)
{
	static char text[256];
	size_t n = 0;
	struct kmsg_fetch_response *m = KMSG_NEW(&r.region, fetch_response, 1);
	m->responses = KMSG_NEW(&r.region, fetch_response_topic, plan.n_topics + 1);
	m->n_responses = plan.n_topics;
	for (uint32_t i = 0; i < plan.n_topics; i++) {
		struct kmsg_fetch_response_topic *t = &m->responses[i];
		t->topic = plan.topics[i].topic;
		t->topic_id = plan.topics[i].topic_id;
		t->n_partitions = plan.topics[i].n_partitions;
		t->partitions = KMSG_NEW(&r.region, fetch_response_partition, t->n_partitions);
		for (uint32_t j = 0; j < t->n_partitions; j++) {
			char word[4] = { (char)t->topic_id.bytes[0], (char)('0' + plan.topics[i].partitions[j].partition), '!', 0 };
			struct kmsg_fetch_response_partition *p = &t->partitions[j];
			if (r.head.api_version < IDS)
				word[0] = (char)t->topic.p[0];
			p->partition_index = plan.topics[i].partitions[j].partition;
			p->high_watermark = watermark;
			p->error_code = strstr(special, word) != NULL ? 1 : 0;
			word[2] = '+';
			p->records.n_external = strstr(special, word) != NULL ? 9 : 0;
		}
	}
	fetch_session_answer(&r, &plan, m);
	text[0] = '\0';
	for (uint32_t i = 0; i < m->n_responses; i++)
		for (uint32_t j = 0; j < m->responses[i].n_partitions; j++)
			n += (size_t)sprintf(text + n, "%s%c%d", n > 0 ? " " : "", r.head.api_version >= IDS ?
					     (char)m->responses[i].topic_id.bytes[0] : (char)m->responses[i].topic.p[0],
					     m->responses[i].partitions[j].partition_index);
	told_id = m->session_id;
	told_error = m->error_code;
	return text;
}

/* A session over these partitions, told of watermark 5; its id. */
static int32_t begin(int16_t version, const char *parts)
{
	assert_int_equal(ask(version, 0, 0, parts, ""), KAFKA_NONE);
	told(5, "");
	return told_id;
}

/* ------------------------------------------------------------------ */

static void only_news_is_told(void **state)
{
	static const int16_t versions[] = { 7, NAMES, IDS, 16 };
	for (size_t i = 0; i < 4; i++) {
		int16_t v = versions[i];
		assert_int_equal(ask(v, 0, 0, "a0@1 a1 b0@3", ""), KAFKA_NONE);
		assert_string_equal(planned(), "a0@1 a1@0 b0@3");
		assert_string_equal(told(5, "b0!"), "a0 a1 b0"); /* a first answer has all */
		int32_t id = told_id;
		assert_int_not_equal(id, 0);
		assert_int_equal(ask(v, id, 1, "", ""), KAFKA_NONE);
		assert_string_equal(planned(), "a0@1 a1@0 b0@3");
		assert_string_equal(told(5, ""), "b0"); /* its error is over */
		assert_int_equal(told_id, id);
		assert_int_equal(ask(v, id, 2, "", ""), KAFKA_NONE);
		assert_string_equal(told(5, ""), "");
		assert_int_equal(ask(v, id, 3, "a0@4", ""), KAFKA_NONE);
		assert_string_equal(planned(), "a0@4 a1@0 b0@3");
		assert_string_equal(told(5, "a1+"), "a1");
		assert_int_equal(ask(v, id, 4, "a1@7 c2", "b0 c9 z0"), KAFKA_NONE);
		assert_string_equal(planned(), "a0@4 a1@7 c2@0"); /* a1 had records: behind a0, as before; c2 is new */
		assert_string_equal(told(5, ""), "c2");
		assert_int_equal(ask(v, id, 5, "", ""), KAFKA_NONE);
		assert_string_equal(told(6, ""), "a0 a1 c2"); /* the watermark moved */
		assert_int_equal(ask(v, id, 6, "", ""), KAFKA_NONE);
		assert_string_equal(told(6, "c2! a0!"), "a0 c2");
		assert_int_equal(ask(v, id, 7, "", ""), KAFKA_NONE);
		assert_string_equal(told(6, "c2! a0!"), "a0 c2"); /* errors are told as long as they last */
		assert_int_equal(ask(v, id, -1, "a0", ""), KAFKA_NONE);
		assert_string_equal(told(6, ""), "a0");
		assert_int_equal(told_id, 0);
		assert_int_equal(ask(v, id, 8, "", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
		assert_int_equal(n_sessions(), 0);
	}
}

/* Else a bound on the answer's bytes would let the first partition starve the others. */
static void who_had_records_is_read_last(void **state)
{
	int32_t id = begin(NAMES, "a0 a1 a2 b0");
	ask(NAMES, id, 1, "", "");
	told(5, "a0+ a1+");
	ask(NAMES, id, 2, "a0@1 a1@1", "");
	assert_string_equal(planned(), "a2@0 b0@0 a0@1 a1@1");
	assert_int_equal(plan.n_topics, 3);
	assert_string_equal(told(5, "a2+"), "a2");
	ask(NAMES, id, 3, "a2@1", "");
	assert_string_equal(planned(), "b0@0 a0@1 a1@1 a2@1");
	assert_int_equal(plan.n_topics, 2);
}

static void epochs(void **state)
{
	int32_t id = begin(NAMES, "a0");
	assert_int_equal(ask(NAMES, id, 2, "", ""), KAFKA_INVALID_FETCH_SESSION_EPOCH);
	assert_int_equal(ask(NAMES, id, -2, "", ""), KAFKA_INVALID_FETCH_SESSION_EPOCH);
	assert_int_equal(ask(NAMES, id, INT32_MIN, "", ""), KAFKA_INVALID_FETCH_SESSION_EPOCH);
	assert_int_equal(ask(NAMES, id, 1, "", ""), KAFKA_NONE); /* what was refused changed nothing */
	assert_int_equal(ask(NAMES, id, 1, "", ""), KAFKA_INVALID_FETCH_SESSION_EPOCH);
	assert_int_equal(ask(NAMES, 0, 1, "", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
	assert_int_equal(ask(IDS, id, 2, "", ""), KAFKA_FETCH_SESSION_TOPIC_ID_ERROR);
	assert_int_equal(ask(NAMES, id, 2, "", ""), KAFKA_NONE);
	assert_int_equal(ask(NAMES, id, 0, "b0", ""), KAFKA_NONE); /* another one in its place */
	told(5, "");
	assert_int_not_equal(told_id, id);
	assert_int_equal(n_sessions(), 1);
	assert_int_equal(ask(NAMES, id, 3, "", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
	assert_int_equal(ask(6, told_id, 9, "a0", ""), KAFKA_NONE); /* versions without sessions do not look */
	assert_string_equal(told(5, ""), "a0");
}

static void an_answer_to_what_is_gone(void **state)
{
	int32_t id = begin(NAMES, "a0");
	ask(NAMES, id, 1, "", "");
	struct fetch_plan first = plan;
	ask(NAMES, id, 2, "", ""); /* from another connection */
	plan = first;
	assert_string_equal(told(9, "a0+"), "");
	assert_int_equal(told_error, KAFKA_INVALID_FETCH_SESSION_EPOCH);
	ask(NAMES, id, 3, "", "");
	first = plan;
	ask(NAMES, id, -1, "", "");
	plan = first;
	assert_string_equal(told(9, "a0+"), "");
	assert_int_equal(told_error, KAFKA_FETCH_SESSION_ID_NOT_FOUND);
}

static void without_partitions_it_ends(void **state)
{
	assert_int_equal(begin(NAMES, ""), 0);
	int32_t id = begin(NAMES, "a0 a1");
	assert_int_equal(ask(NAMES, id, 1, "", "a0 a1"), KAFKA_NONE);
	assert_string_equal(planned(), "");
	told(5, "");
	assert_int_equal(told_id, 0);
	assert_int_equal(n_sessions(), 0);
}

/* ------------------------------------------------------------------ room */

static bool is_there(int32_t id)
{
	enum kafka_error e = ask(NAMES, id, 100, "", "");
	assert_true(e == KAFKA_FETCH_SESSION_ID_NOT_FOUND || e == KAFKA_INVALID_FETCH_SESSION_EPOCH);
	return e == KAFKA_INVALID_FETCH_SESSION_EPOCH;
}

static void who_goes(void **state)
{
	int32_t id[SLOTS];
	uint64_t evicted = metrics->value[METRIC_KAFKA_FETCH_SESSIONS_EVICTED];
	for (int i = 0; i < SLOTS; i++)
		id[i] = begin(NAMES, i == 2 ? "a0" : "a0 a1 a2");
	assert_int_equal(begin(NAMES, "a0 a1 a2 a3"), 0); /* all are young */
	clock_ms += FETCH_SESSION_KEPT_MS;
	assert_int_equal(begin(NAMES, "a0 a1 a2 a3"), 0);
	for (int i = 0; i < SLOTS; i++)
		ask(NAMES, id[i], 1, "", "");
	clock_ms += 1;
	assert_int_equal(begin(NAMES, "a0"), 0); /* no larger than the smallest */
	int32_t larger = begin(NAMES, "a0 a1");
	assert_int_not_equal(larger, 0);
	assert_false(is_there(id[2]));
	assert_int_equal(begin(NAMES, "a0 a1 a2"), 0); /* the small one is young */
	clock_ms += FETCH_SESSION_KEPT_MS - 1;
	ask(NAMES, id[0], 2, "", "");
	ask(NAMES, id[1], 2, "", "");
	clock_ms += 2;
	assert_int_not_equal(begin(NAMES, "a0"), 0); /* one was not used for so long, however small the new one is */
	assert_false(is_there(id[3]));
	assert_true(is_there(id[0]) && is_there(id[1]) && is_there(larger));
	assert_int_equal(n_sessions(), SLOTS);
	assert_int_equal(metrics->value[METRIC_KAFKA_FETCH_SESSIONS_EVICTED] - evicted, 2);
	conf.max_fetch_sessions = 0;
	clock_ms += 10 * FETCH_SESSION_KEPT_MS;
	assert_int_equal(begin(NAMES, "a0 a1 a2 a3"), 0);
}

/* One topic with n partitions; the session's id. */
static int32_t begin_large(uint32_t n)
{
	struct kmsg_fetch_request *q = KMSG_NEW(&r.region, fetch_request, 1);
	struct kmsg_fetch_response *m = KMSG_NEW(&r.region, fetch_response, 1);
	q->session_epoch = 0;
	q->topics = KMSG_NEW(&r.region, fetch_request_topic, 1);
	q->n_topics = 1;
	q->topics->topic = slice_str("large");
	q->topics->partitions = KMSG_NEW(&r.region, fetch_request_partition, n);
	q->topics->n_partitions = n;
	for (uint32_t i = 0; i < n; i++)
		q->topics->partitions[i].partition = (int32_t)i;
	r.head.api_version = NAMES;
	r.message = q;
	assert_int_equal(fetch_session_plan(&r, &plan), KAFKA_NONE);
	fetch_session_answer(&r, &plan, m);
	return m->session_id;
}

static void partitions_in_all(void **state)
{
	int32_t one = begin_large(FETCH_SESSION_PARTS_MAX - 2);
	assert_int_not_equal(one, 0);
	assert_int_equal(begin_large(3), 0);
	int32_t two = begin_large(2);
	assert_int_not_equal(two, 0);
	assert_int_equal(begin(NAMES, "a0"), 0);
	assert_int_equal(ask(NAMES, two, 1, "a0", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND); /* it cannot grow, and goes */
	assert_int_equal(n_sessions(), 1);
	assert_int_not_equal(begin(NAMES, "a0 a1"), 0);
	assert_int_equal(begin_large(FETCH_SESSION_PARTS_MAX + 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_news_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(who_had_records_is_read_last, setup, teardown),
		cmocka_unit_test_setup_teardown(epochs, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answer_to_what_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(without_partitions_it_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(who_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(partitions_in_all, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
