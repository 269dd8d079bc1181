/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch: one call for any number of partitions, parking, bounds, errors a partition, and the memory behind an answer
 * that its client takes slowly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/kafka_error.h"
#include "common/metrics.h"
#include "common/must.h"
#include "t/lib/kafka_world.h"

#define V 12            /* by name */
#define BY_ID 16
#define MIB (1u << 20)

/* ------------------------------------------------------------------ helpers */

static const Ipc__FetchRequest *asked(size_t index)
{
	return (const Ipc__FetchRequest *)nth(IPC_FETCH, index)->call->request;
}

static void fetch_one(struct client *c, int16_t version, int32_t correlation_id, struct fetch_form form)
{
	struct part part = { .topic = "t", .partition = 1, .offset = 5 };
	ask_fetch(c, version, correlation_id, form, &part, 1);
}

/* Bytes that differ by place, in the stock. */
static void fill(struct stock *s, uint32_t offset, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		s->segment.mem.base[offset + i] = (uint8_t)((offset + i) * 31 + (offset + i) / 257);
}

static void expect_filled(struct slice bytes, uint32_t offset)
{
	for (uint32_t i = 0; i < bytes.n; i++)
		if (bytes.p[i] != (uint8_t)((offset + i) * 31 + (offset + i) / 257))
			fail_msg("byte %u of %zu", i, bytes.n);
}

static bool is_unpinned(void *arg)
{
	return ((struct stock *)arg)->pin.count == 0;
}

/* ------------------------------------------------------------------ asking */

/* Every version: what storaged is asked, and an answer with records for one and none for the other. */
static void test_versions(void **state)
{
	struct client c;
	struct stock s;
	world_open(NULL);
	stock_open(&s, 9, MIB);
	fill(&s, 1000, 300);
	client_open(&c, k.port);
	for (int16_t version = 4; version <= BY_ID; version++) {
		struct part parts[2] = { { .topic = "t", .partition = 2, .offset = 5, .max_bytes = 7000 },
					 { .topic = "u", .partition = 0, .offset = 8, .max_bytes = 9000 } };
		size_t i = (size_t)version - 4;
		ask_fetch(&c, version, version, (struct fetch_form){ .max_wait_ms = 3000, .min_bytes = 17, .max_bytes = 20000 }, parts, 2);
		uint64_t now = env_now_ms(k.place.env);
		const Ipc__FetchRequest *m = asked(i);
		assert_in_range(m->deadline_ms, now + 2800, now + 3100);
		assert_int_equal(m->min_bytes, 17);
		assert_int_equal(m->max_bytes, 20000);
		assert_int_equal(m->watch, 0);
		assert_int_equal(m->n_part, 2);
		assert_memory_equal(m->part[0]->topic_id.data, id_of("t"), 16);
		assert_int_equal(m->part[0]->partition, 2);
		assert_int_equal(m->part[0]->offset, 5);
		assert_int_equal(m->part[0]->max_bytes, 7000);
		assert_int_equal(m->part[0]->leader_epoch, -1);
		assert_memory_equal(m->part[1]->topic_id.data, id_of("u"), 16);
		assert_int_equal(m->part[1]->offset, 8);
		expect_silence(&c);
		struct found found[2] = { { .start = 2, .confirm = 9, .offset = 1000, .length = 300 }, { .start = 1, .confirm = 8 } };
		give_fetched(nth(IPC_FETCH, i), &s, found, 2);
		const void *a = answer(&c, FETCH, version, version);
		const struct kmsg_fetch_response_partition *p = fetched(a, 0), *q = fetched(a, 1);
		assert_int_equal(p->partition_index, 2);
		assert_int_equal(p->error_code, 0);
		assert_int_equal(p->high_watermark, 9);
		assert_int_equal(p->last_stable_offset, 9);
		assert_int_equal(p->log_start_offset, version >= 5 ? 2 : -1);
		assert_int_equal(p->records.bytes.n, 300);
		expect_filled(p->records.bytes, 1000);
		assert_int_equal(q->high_watermark, 8);
		assert_int_equal(q->records.bytes.n, 0);
		assert_non_null(q->records.bytes.p); /* empty, not null */
		assert_true(place_run(&k.place, is_unpinned, &s, SOON));
	}
	assert_int_equal(n_calls(IPC_GET_MANY), 1);
	client_close(&c);
	stock_close(&s);
	world_close();
}

/* 1,000 partitions of 20 topics: one question for the topics, one call. */
static void test_one_call(void **state)
{
	static struct part parts[1000];
	static struct found found[1000];
	char name[20][8];
	struct client c;
	struct stock s;
	world_open(NULL);
	k.n_partitions = 50;
	stock_open(&s, 9, MIB);
	fill(&s, 0, 64000);
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(name[i / 50], sizeof(name[0]), "t%u", i / 50);
		parts[i] = (struct part){ .topic = name[i / 50], .partition = (int32_t)(i % 50), .offset = i };
		found[i] = (struct found){ .confirm = i + 1, .offset = 64 * (999 - i), .length = i % 3 == 0 ? 64 : 0 };
	}
	client_open(&c, k.port);
	for (int16_t version = V; version <= 13; version++) {
		ask_fetch(&c, version, version, (struct fetch_form){ .max_wait_ms = 500, .min_bytes = 1 }, parts, 1000);
		size_t n = (size_t)(version - V);
		assert_int_equal(asked(n)->n_part, 1000);
		give_fetched(nth(IPC_FETCH, n), &s, found, 1000);
		const void *a = answer(&c, FETCH, version, version);
		for (uint32_t i = 0; i < 1000; i++) {
			const struct kmsg_fetch_response_partition *p = fetched(a, i);
			assert_int_equal(p->partition_index, i % 50);
			assert_int_equal(p->high_watermark, i + 1);
			assert_int_equal(p->records.bytes.n, found[i].length);
			expect_filled(p->records.bytes, found[i].offset);
		}
		assert_int_equal(n_calls(IPC_FETCH), n + 1);
		assert_int_equal(n_calls(IPC_GET_MANY), 1); /* none for version 13: by id */
	}
	assert_true(place_run(&k.place, is_unpinned, &s, SOON));
	client_close(&c);
	stock_close(&s);
	world_close();
}

static void wide(struct conf *c)
{
	c->conn_buffer_size = 64 * MIB;
}

/* min(client's, 55 MiB, conn-buffer-size); 0 and less: the first batch, which comes whatever it has. */
static void test_bounds(void **state)
{
	static const struct {
		int32_t max_bytes;
		uint32_t narrow, wide;
	} rows[] = { { INT32_MAX, MIB, 55 * MIB }, { 55 << 20, MIB, 55 * MIB }, { 54 << 20, MIB, 54 * MIB }, { 5000, 5000, 5000 },
		     { -1, 1, 1 } };
	struct client c;
	for (int is_wide = 0; is_wide < 2; is_wide++) {
		world_open(is_wide ? wide : NULL);
		client_open(&c, k.port);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			struct part part = { .topic = "t" };
			struct kmsg_fetch_request_partition p = { .current_leader_epoch = -1, .partition_max_bytes = part.max_bytes };
			struct kmsg_fetch_request_topic t = { .topic = slice_str("t"), .partitions = &p, .n_partitions = 1 };
			struct kmsg_fetch_request m = { .replica_id = -1, .max_bytes = rows[i].max_bytes, .topics = &t, .n_topics = 1,
							.session_epoch = -1 };
			ask(&c, FETCH, 11, (int32_t)i, &m);
			assert_int_equal(asked(i)->max_bytes, is_wide ? rows[i].wide : rows[i].narrow);
			assert_int_equal(asked(i)->part[0]->max_bytes, 0);
			give_fetched(nth(IPC_FETCH, i), NULL, &(struct found){ 0 }, 1);
			answer(&c, FETCH, 11, (int32_t)i);
		}
		client_close(&c);
		world_close();
	}
}

/* What does not wait: no max_wait, no min_bytes, or a partition that has an error already. */
static void test_no_parking(void **state)
{
	struct client c;
	struct part parts[2] = { { .topic = "t" }, { .topic = "nosuch" } };
	world_open(NULL);
	client_open(&c, k.port);
	struct fetch_form forms[] = { { .max_wait_ms = 0, .min_bytes = 5 }, { .max_wait_ms = 5000, .min_bytes = 0 },
				      { .max_wait_ms = -1, .min_bytes = 5 }, { .max_wait_ms = 5000, .min_bytes = 5 } };
	for (size_t i = 0; i < 4; i++) {
		ask_fetch(&c, V, (int32_t)i, forms[i], parts, i == 3 ? 2 : 1);
		assert_int_equal(asked(i)->min_bytes, 0);
		assert_int_equal(asked(i)->n_part, 1);
		give_fetched(nth(IPC_FETCH, i), NULL, &(struct found){ .confirm = 7 }, 1);
		const void *a = answer(&c, FETCH, V, (int32_t)i);
		assert_int_equal(fetched(a, 0)->high_watermark, 7);
		if (i < 3)
			continue;
		assert_int_equal(fetched(a, 1)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
		assert_int_equal(fetched(a, 1)->high_watermark, -1);
		assert_non_null(fetched(a, 1)->records.bytes.p);
	}
	/* Nothing that storaged would have to be asked about. */
	ask_fetch(&c, V, 9, forms[3], &parts[1], 1);
	assert_int_equal(fetched(answer(&c, FETCH, V, 9), 0)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	ask_fetch(&c, V, 10, forms[3], parts, 0);
	assert_int_equal(((const struct kmsg_fetch_response *)answer(&c, FETCH, V, 10))->n_responses, 0);
	assert_int_equal(n_calls(IPC_FETCH), 4);
	client_close(&c);
	world_close();
}

/* ------------------------------------------------------------------ errors */

static void test_errors(void **state)
{
	static const struct {
		enum pico_error_kind kind;
		int32_t epoch;          /* that storaged knows */
		int16_t by_name, by_id;
	} rows[] = {
		{ PICO_OUT_OF_RANGE, 3, KAFKA_OFFSET_OUT_OF_RANGE, KAFKA_OFFSET_OUT_OF_RANGE },
		{ PICO_NOT_FOUND, 0, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, KAFKA_UNKNOWN_TOPIC_ID },
		{ PICO_GONE, 0, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, KAFKA_UNKNOWN_TOPIC_ID },
		{ PICO_NOT_OWNER, 0, KAFKA_NOT_LEADER_OR_FOLLOWER, KAFKA_NOT_LEADER_OR_FOLLOWER },
		{ PICO_FENCED, 9, KAFKA_FENCED_LEADER_EPOCH, KAFKA_FENCED_LEADER_EPOCH },
		{ PICO_UNAVAILABLE, 3, KAFKA_UNKNOWN_LEADER_EPOCH, KAFKA_UNKNOWN_LEADER_EPOCH },
		{ PICO_UNAVAILABLE, 4, KAFKA_KAFKA_STORAGE_ERROR, KAFKA_KAFKA_STORAGE_ERROR },
		{ PICO_DURABILITY, 4, KAFKA_REQUEST_TIMED_OUT, KAFKA_REQUEST_TIMED_OUT },
	};
	struct client c;
	struct stock s;
	world_open(NULL);
	stock_open(&s, 9, MIB);
	fill(&s, 0, 100);
	client_open(&c, k.port);
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		bool by_id = i & 1;
		struct kmsg_fetch_request_partition p[2] = { { .current_leader_epoch = 4, .fetch_offset = 50, .partition_max_bytes = 1 },
							     { .partition = 1, .current_leader_epoch = -1, .partition_max_bytes = 1 } };
		struct kmsg_fetch_request_topic t = { .topic = slice_str("t"), .partitions = p, .n_partitions = 2 };
		struct kmsg_fetch_request m = { .replica_id = -1, .max_bytes = MIB, .topics = &t, .n_topics = 1, .session_epoch = -1 };
		memcpy(t.topic_id.bytes, id_of("t"), 16);
		ask(&c, FETCH, by_id ? BY_ID : V, (int32_t)i, &m);
		assert_int_equal(asked(i)->part[0]->leader_epoch, 4);
		struct found found[2] = { { .error = rows[i / 2].kind, .start = 10, .confirm = 40, .leader_epoch = rows[i / 2].epoch },
					  { .confirm = 2, .length = 100 } };
		give_fetched(nth(IPC_FETCH, i), &s, found, 2);
		const void *a = answer(&c, FETCH, by_id ? BY_ID : V, (int32_t)i);
		assert_int_equal(fetched(a, 0)->error_code, by_id ? rows[i / 2].by_id : rows[i / 2].by_name);
		assert_int_equal(fetched(a, 0)->high_watermark, 40);
		assert_int_equal(fetched(a, 0)->log_start_offset, 10);
		assert_non_null(fetched(a, 0)->records.bytes.p);
		assert_int_equal(fetched(a, 0)->records.bytes.n, 0);
		assert_int_equal(fetched(a, 1)->error_code, 0); /* the others have what they have */
		expect_filled(fetched(a, 1)->records.bytes, 0);
	}
	client_close(&c);
	stock_close(&s);
	world_close();
}

/* The call as a whole fails; positions and partitions that cannot be. */
static void test_whole_errors(void **state)
{
	struct client c;
	struct part parts[4] = { { .topic = "t" }, { .topic = "t", .partition = 4 }, { .topic = "t", .partition = -1 },
				 { .topic = "t", .offset = -1 } };
	world_open(NULL);
	client_open(&c, k.port);
	ask_fetch(&c, V, 1, (struct fetch_form){ 0 }, parts, 4);
	give_kind(nth(IPC_FETCH, 0), PICO_UNAVAILABLE);
	const void *a = answer(&c, FETCH, V, 1);
	assert_int_equal(fetched(a, 0)->error_code, KAFKA_KAFKA_STORAGE_ERROR);
	assert_int_equal(fetched(a, 1)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	assert_int_equal(fetched(a, 2)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
	assert_int_equal(fetched(a, 3)->error_code, KAFKA_OFFSET_OUT_OF_RANGE);
	for (size_t i = 0; i < 4; i++)
		assert_non_null(fetched(a, i)->records.bytes.p);
	client_close(&c);
	world_close();
}

/* A client may ask for less than two minutes, not for more. */
static void test_wait_is_capped(void **state)
{
	static const int32_t waits[] = { 119999, 120000, 120001, INT32_MAX };
	struct client c;
	world_open(NULL);
	client_open(&c, k.port);
	for (size_t i = 0; i < 4; i++) {
		fetch_one(&c, V, (int32_t)i, (struct fetch_form){ .max_wait_ms = waits[i], .min_bytes = 1 });
		uint64_t deadline = asked(i)->deadline_ms, now = env_now_ms(k.place.env);
		assert_in_range(deadline, now + 110000, now + 120000);
		give_fetched(nth(IPC_FETCH, i), NULL, &(struct found){ 0 }, 1);
		answer(&c, FETCH, V, (int32_t)i);
	}
	client_close(&c);
	world_close();
}

static void ask_session(struct client *c, int32_t correlation_id, int32_t id, int32_t epoch, bool named)
{
	struct kmsg_fetch_request_partition p = { .current_leader_epoch = -1, .partition_max_bytes = 1, .fetch_offset = 3 };
	struct kmsg_fetch_request_topic t = { .topic = slice_str("t"), .partitions = &p, .n_partitions = 1 };
	struct kmsg_fetch_request m = { .replica_id = -1, .max_bytes = MIB, .topics = &t, .n_topics = named };
	m.session_id = id;
	m.session_epoch = epoch;
	ask(c, FETCH, V, correlation_id, &m);
}

/* What is read stands in the session, whatever connection goes on with it; errors are of the whole answer. */
static void test_sessions(void **state)
{
	struct client c, d;
	struct found found = { .confirm = 4 };
	const struct kmsg_fetch_response *a;
	world_open(NULL);
	client_open(&c, k.port);
	client_open(&d, k.port);
	ask_session(&c, 1, 0, -1, true);
	give_fetched(nth(IPC_FETCH, 0), NULL, &found, 1);
	assert_int_equal(((const struct kmsg_fetch_response *)answer(&c, FETCH, V, 1))->session_id, 0);
	ask_session(&c, 2, 0, 0, true);
	give_fetched(nth(IPC_FETCH, 1), NULL, &found, 1);
	a = answer(&c, FETCH, V, 2);
	int32_t id = a->session_id;
	assert_true(id > 0 && a->n_responses == 1);
	ask_session(&d, 3, id, 1, false);
	assert_int_equal(asked(2)->n_part, 1);
	assert_int_equal(asked(2)->part[0]->offset, 3);
	give_fetched(nth(IPC_FETCH, 2), NULL, &found, 1);
	a = answer(&d, FETCH, V, 3);
	assert_int_equal(a->session_id, id);
	assert_int_equal(a->n_responses, 0);
	ask_session(&c, 4, id, 1, false);
	a = answer(&c, FETCH, V, 4);
	assert_int_equal(a->error_code, KAFKA_INVALID_FETCH_SESSION_EPOCH);
	ask_session(&c, 5, id + 1, 1, false);
	a = answer(&c, FETCH, V, 5);
	assert_int_equal(a->error_code, KAFKA_FETCH_SESSION_ID_NOT_FOUND);
	assert_int_equal(a->session_id, 0);
	assert_int_equal(a->n_responses, 0);
	client_close(&c);
	client_close(&d);
	world_close();
}

/* ------------------------------------------------------------------ behind each other */

/* A fetch runs alone: answers of many would have to be held, and what follows sees what came before it. */
static void test_alone(void **state)
{
	struct client c;
	struct part part = { .topic = "t" };
	world_open(NULL);
	part.batch = batch_of(1, "x");
	client_open(&c, k.port);
	ask_produce(&c, 9, 1, 1, &part, 1);
	fetch_one(&c, V, 2, (struct fetch_form){ 0 });
	fetch_one(&c, V, 3, (struct fetch_form){ 0 });
	ask_produce(&c, 9, 4, 1, &part, 1);
	ask_produce(&c, 9, 5, 1, &part, 1);
	struct seen *first = nth(IPC_SUBMIT, 0);
	place_run_ms(&k.place, 20);
	assert_int_equal(n_calls(IPC_FETCH), 0);
	give_stored(first, 5);
	answer(&c, PRODUCE, 9, 1);
	for (int32_t i = 0; i < 2; i++) {
		struct seen *s = nth(IPC_FETCH, (size_t)i);
		place_run_ms(&k.place, 20);
		assert_int_equal(n_calls(IPC_FETCH), i + 1);
		assert_int_equal(n_calls(IPC_SUBMIT), 1);
		give_fetched(s, NULL, &(struct found){ .confirm = 6 }, 1);
		assert_int_equal(fetched(answer(&c, FETCH, V, 2 + i), 0)->high_watermark, 6);
	}
	nth(IPC_SUBMIT, 2); /* both */
	client_close(&c);
	world_close();
}

static bool is_cancelled(void *arg)
{
	return ((struct seen *)arg)->cancelled;
}

/* Who hangs up, or sends no more, does not stay parked. */
static void test_hang_up(void **state)
{
	struct client c, half;
	world_open(NULL);
	client_open(&c, k.port);
	client_open(&half, k.port);
	fetch_one(&c, V, 1, (struct fetch_form){ .max_wait_ms = 20000, .min_bytes = 1 });
	struct seen *s = nth(IPC_FETCH, 0);
	client_close(&c);
	assert_true(place_run(&k.place, is_cancelled, s, SOON));
	fetch_one(&half, V, 2, (struct fetch_form){ .max_wait_ms = 20000, .min_bytes = 1 });
	s = nth(IPC_FETCH, 1);
	shutdown(half.fd, SHUT_WR);
	const void *a = answer(&half, FETCH, V, 2);
	assert_int_equal(fetched(a, 0)->error_code, 0);
	assert_non_null(fetched(a, 0)->records.bytes.p);
	client_wait_end(&half);
	assert_true(place_run(&k.place, is_cancelled, s, SOON));
	client_close(&half);
	wait_conns(0);
	world_close();
}

static void on_drained(void *arg)
{
	k.drained = true;
}

static bool is_drained(void *arg)
{
	return k.drained;
}

/* Draining answers what is parked and what has come; then the connections end. */
static void test_drain(void **state)
{
	struct client parked_one, idle, busy;
	struct part part = { .topic = "t" };
	world_open(NULL);
	part.batch = batch_of(1, "x");
	client_open(&parked_one, k.port);
	client_open(&idle, k.port);
	client_open(&busy, k.port);
	fetch_one(&parked_one, V, 1, (struct fetch_form){ .max_wait_ms = 20000, .min_bytes = 1 });
	nth(IPC_FETCH, 0);
	ask_produce(&busy, 9, 2, 1, &part, 1);
	nth(IPC_SUBMIT, 0);
	server_drain(&k.server, on_drained, NULL);
	assert_int_equal(fetched(answer(&parked_one, FETCH, V, 1), 0)->error_code, 0);
	client_wait_end(&parked_one);
	client_wait_end(&idle);
	assert_false(k.drained);
	give_stored(nth(IPC_SUBMIT, 0), 9);
	assert_int_equal(produced(answer(&busy, PRODUCE, 9, 2), 0)->base_offset, 9);
	client_wait_end(&busy);
	assert_true(place_run(&k.place, is_drained, NULL, SOON));
	client_close(&parked_one);
	client_close(&idle);
	client_close(&busy);
	world_close();
}

/* ------------------------------------------------------------------ slow clients */

/* A client that does not look at what came: the kernel takes a part. */

/* What storaged gave is written from its memory; when it wants that back, what has not left is copied, and the bytes are
 * right whatever storaged does with its memory then. */
static void test_reclaim(void **state)
{
	struct client c;
	struct stock s;
	struct part parts[3] = { { .topic = "t" }, { .topic = "t", .partition = 1 }, { .topic = "t", .partition = 2 } };
	struct found found[3] = { { .confirm = 1, .offset = 100, .length = 7 * MIB }, { .confirm = 1, .offset = 8 * MIB, .length = 6 * MIB },
				  { .confirm = 1, .offset = 15 * MIB, .length = 1000 } };
	world_open(NULL);
	stock_open(&s, 9, 16 * MIB);
	fill(&s, 0, 16 * MIB);
	client_open(&c, k.port);
	ask_fetch(&c, V, 1, (struct fetch_form){ .max_wait_ms = 0 }, parts, 3);
	give_fetched(nth(IPC_FETCH, 0), &s, found, 3);
	place_run_ms(&k.place, 50);
	uint64_t sent = metrics->value[METRIC_KAFKA_BYTES_OUT];
	assert_int_equal(s.pin.count, 3);
	assert_in_range(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0, 100000); /* none of it is held here */
	peers_on_reclaim(k.place.peers, &s.segment);
	assert_true(place_run(&k.place, is_unpinned, &s, SOON));
	memset(s.segment.mem.base, 0xee, 16 * MIB);
	assert_int_equal(metrics->value[METRIC_KAFKA_BYTES_OUT], sent); /* the socket was full, so it was copied */
	assert_in_range(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 6 * MIB, 13 * MIB + 100000);
	const void *a = answer(&c, FETCH, V, 1);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fetched(a, i)->records.bytes.n, found[i].length);
		expect_filled(fetched(a, i)->records.bytes, found[i].offset);
	}
	place_run_ms(&k.place, 5);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0);
	client_close(&c);
	stock_close(&s);
	world_close();
}

static void small_frames(struct conf *c)
{
	c->max_request_size = 5 * MIB / 2;      /* all connections hold 20 MiB */
	c->max_message_size = MIB;
}

static bool has_fewer_conns(void *arg)
{
	return k.server.acceptor->n_conns <= *(unsigned *)arg;
}

/* All copies together are bounded: beyond, slow readers are cut with a line each, and the others get theirs. */
static void test_reclaim_bound(void **state)
{
	static struct client c[5];
	struct stock s;
	unsigned left = 2, n_whole = 0;
	world_open(small_frames);
	stock_open(&s, 9, 10 * MIB);
	fill(&s, 0, 10 * MIB);
	for (int i = 0; i < 5; i++) {
		client_open(&c[i], k.port);
		fetch_one(&c[i], V, 1, (struct fetch_form){ .max_wait_ms = 0 });
		give_fetched(nth(IPC_FETCH, (size_t)i), &s, &(struct found){ .length = 9 * MIB, .confirm = 1 }, 1);
	}
	place_run_ms(&k.place, 50);
	log_capture();
	peers_on_reclaim(k.place.peers, &s.segment);
	assert_true(place_run(&k.place, is_unpinned, &s, SOON));
	memset(s.segment.mem.base, 0xee, 10 * MIB);
	assert_true(place_run(&k.place, has_fewer_conns, &left, SOON));
	assert_int_equal(k.server.acceptor->n_conns, 2);
	assert_int_equal(log_lines("no memory for the answers of slow readers"), 3);
	assert_in_range(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 18 * MIB, 20 * MIB);
	for (int i = 0; i < 5; i++) {
		client_wait(&c[i], 9 * MIB);
		if (!c[i].ended) {
			expect_filled(fetched(answer(&c[i], FETCH, V, 1), 0)->records.bytes, 0);
			n_whole++;
		}
		client_close(&c[i]);
	}
	assert_int_equal(n_whole, 2);
	wait_conns(0);
	assert_int_equal(metrics->value[METRIC_KAFKA_BUFFERED_BYTES], 0);
	stock_close(&s);
	world_close();
}

/* One that reads nothing is cut when its time is over. */
static void hurried(struct conf *c)
{
	c->stall_timeout_ms = 200;
}

static void test_stalled(void **state)
{
	struct client c;
	struct stock s;
	unsigned none = 0;
	world_open(hurried);
	stock_open(&s, 9, 8 * MIB);
	client_open(&c, k.port);
	fetch_one(&c, V, 1, (struct fetch_form){ .max_wait_ms = 0 });
	give_fetched(nth(IPC_FETCH, 0), &s, &(struct found){ .length = 7 * MIB, .confirm = 1 }, 1);
	uint64_t began = env_now_ms(k.place.env);
	assert_true(place_run(&k.place, has_fewer_conns, &none, SOON));
	assert_in_range(env_now_ms(k.place.env) - began, 195, SOON);
	assert_true(place_run(&k.place, is_unpinned, &s, SOON));
	client_close(&c);
	stock_close(&s);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions), cmocka_unit_test(test_one_call), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_no_parking), cmocka_unit_test(test_errors), cmocka_unit_test(test_whole_errors),
		cmocka_unit_test(test_sessions), cmocka_unit_test(test_wait_is_capped), cmocka_unit_test(test_alone), cmocka_unit_test(test_hang_up),
		cmocka_unit_test(test_drain), cmocka_unit_test(test_reclaim), cmocka_unit_test(test_reclaim_bound),
		cmocka_unit_test(test_stalled),
	};
	return cmocka_run_group_tests_name("worker-kafka-fetch", tests, NULL, NULL);
}
