/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls about records against a whole node: every field of AppendCommand, close, read, wait, offsets; and what a
 * restart must remember of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/metrics.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "t/unit/node_world.h"

/* ---------------------------------------------------- created with records, or closed */

static void test_create_closed_and_initial(void **state)
{
	struct asked a;
	struct buf b;
	Ipc__CreateRequest r = IPC__CREATE_REQUEST__INIT;
	r.name = "/c/closed";
	r.content_type = "text/plain";
	r.closed = true;
	ask(&a, IPC_CREATE, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_true(((Ipc__CreateAnswer *)a.answer)->topic->closed);
	asked_done(&a);
	Ipc__AppendRequest append_request = IPC__APPEND_REQUEST__INIT;
	append_refused(&append_request, "/c/closed", 1, PICO_CLOSED, NULL);

	r.name = "/c/initial";
	r.closed = false;
	ask(&a, IPC_CREATE, &r.base, batch(&b, 5, "first"));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(((Ipc__CreateAnswer *)a.answer)->topic->partitions[0]->confirm, 5);
	asked_done(&a);
	assert_int_equal(append("/c/initial", 1), 5);

	r.name = "/c/initial-closed";
	r.closed = true;
	ask(&a, IPC_CREATE, &r.base, buf_slice(&b));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_true(((Ipc__CreateAnswer *)a.answer)->topic->closed);
	asked_done(&a);
	assert_int_equal(offsets("/c/initial-closed", 0).confirm, 5);
	append_refused(&append_request, "/c/initial-closed", 1, PICO_CLOSED, NULL);

	buf_head(&b)[70] ^= 1;
	r.name = "/c/damaged";
	refuse(IPC_CREATE, &r.base, buf_slice(&b), PICO_CORRUPT_BATCH);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__GetRequest get = IPC__GET_REQUEST__INIT;
	ref.name = r.name;
	get.topic = &ref;
	refuse(IPC_GET, &get.base, slice_of(NULL, 0), PICO_NOT_FOUND);
	buf_done(&b);
}

/* ---------------------------------------------------------------------- append */

static void test_append_checks(void **state)
{
	struct asked a;
	struct pico_error e;
	struct buf b;
	struct log_name l;
	struct slice none = slice_of(NULL, 0);
	create(&a, "/a", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	refuse(IPC_APPEND, &r.base, none, PICO_BAD_REQUEST);            /* no log */
	r.log = log_ref(&l, "/a", 0);
	refuse(IPC_APPEND, &r.base, none, PICO_BAD_REQUEST);            /* nothing */
	r.log = log_ref(&l, "/a", 1);
	refuse(IPC_APPEND, &r.base, batch(&b, 1, "x"), PICO_BAD_REQUEST); /* no such partition */
	buf_done(&b);
	r.log = log_ref(&l, "/none", 0);
	refuse(IPC_APPEND, &r.base, batch(&b, 1, "x"), PICO_NOT_FOUND);
	r.log = log_ref(&l, "/a", 0);
	buf_head(&b)[65] ^= 1;
	refuse(IPC_APPEND, &r.base, buf_slice(&b), PICO_CORRUPT_BATCH);
	refuse(IPC_APPEND, &r.base, slice_of(buf_head(&b), 60), PICO_CORRUPT_BATCH);
	buf_done(&b);
	uint8_t *large = must_calloc(1, (1u << 20) + 1);
	refuse(IPC_APPEND, &r.base, slice_of(large, (1u << 20) + 1), PICO_TOO_LARGE);
	free(large);
	r.content_type = "text/html";
	append_refused(&r, "/a", 1, PICO_CONFLICT, &e);
	assert_string_equal(e.content_type, "text/plain");
	r.content_type = "Text/Plain ; charset=utf-8";
	assert_int_equal(append_with(&r, "/a", 2), 0);
	r.content_type = "";
	r.settings_version = 1;
	append_with(&r, "/a", 1);
	r.settings_version = 0;
	r.has_match_seq = true;
	r.match_seq = 2;
	append_refused(&r, "/a", 1, PICO_MATCH_FAILED, &e);
	assert_true(e.has_next_offset);
	assert_int_equal(e.next_offset, 3);
	r.match_seq = 3;
	r.check_only = true;
	append_with(&r, "/a", 0);
	assert_int_equal(offsets("/a", 0).next, 3);
	r.check_only = false;
	assert_int_equal(append_with(&r, "/a", 1), 3);
}

static void test_producers(void **state)
{
	/* epoch, seq, expected kind, companion (expected seq or current epoch), duplicate */
	static const struct { uint64_t epoch, seq; enum pico_error_kind kind; uint64_t number; bool duplicate; } steps[] = {
		{ 0, 1, PICO_SEQUENCE_GAP, 0, false }, { 0, 0, PICO_OK, 0, false }, { 0, 0, PICO_OK, 0, true },
		{ 0, 1, PICO_OK, 0, false }, { 0, 0, PICO_OK, 0, true }, { 0, 3, PICO_SEQUENCE_GAP, 2, false },
		{ 2, 1, PICO_SEQUENCE_GAP, 0, false }, { 2, 0, PICO_OK, 0, false }, { 1, 0, PICO_FENCED, 2, false },
		{ 2, 1, PICO_OK, 0, false },
	};
	struct asked a;
	struct pico_error e;
	create(&a, "/p", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__Producer p = IPC__PRODUCER__INIT;
	r.producer = &p;
	append_refused(&r, "/p", 1, PICO_BAD_REQUEST, NULL);            /* no id */
	p.id = "till";
	uint64_t end = 0;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		p.epoch = steps[i].epoch;
		p.seq = steps[i].seq;
		if (steps[i].kind != PICO_OK) {
			append_refused(&r, "/p", 1, steps[i].kind, &e);
			assert_int_equal(steps[i].kind == PICO_FENCED ? e.producer_epoch : e.expected_seq,
					 steps[i].number);
		} else {
			append_with(&r, "/p", 1);
			end += !steps[i].duplicate;
		}
		assert_int_equal(offsets("/p", 0).next, end);
	}
}

static void test_stream_seq(void **state)
{
	struct asked a;
	create(&a, "/s", 1);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	r.has_stream_seq = true;
	r.order = IPC__APPEND_REQUEST__ORDER__CLOSED_FIRST;
	r.stream_seq = (ProtobufCBinaryData){ 2, (uint8_t *)"a1" };
	append_with(&r, "/s", 1);
	append_refused(&r, "/s", 1, PICO_CONFLICT, NULL);
	r.stream_seq = (ProtobufCBinaryData){ 1, (uint8_t *)"a" };
	append_refused(&r, "/s", 1, PICO_CONFLICT, NULL);
	r.stream_seq = (ProtobufCBinaryData){ 2, (uint8_t *)"a2" };
	append_with(&r, "/s", 1);
}

static void test_partitions(void **state)
{
	struct asked a;
	struct buf b;
	struct log_name l;
	create(&a, "/n", 3);
	asked_done(&a);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__ReadRequest read = IPC__READ_REQUEST__INIT;
	read.log = log_ref(&l, "/n", 0);
	refuse(IPC_READ, &read.base, slice_of(NULL, 0), PICO_PARTITION_REQUIRED);
	r.log = log_ref(&l, "/n", 0);
	r.any_partition = true;
	unsigned seen = 0;
	for (int i = 0; i < 3; i++) {
		ask(&a, IPC_APPEND, &r.base, batch(&b, 1, "x"));
		seen |= 1u << ((Ipc__AppendAnswer *)a.answer)->partition;
		assert_true(((Ipc__AppendAnswer *)a.answer)->multi_partition);
		asked_done(&a);
		buf_done(&b);
	}
	assert_int_equal(seen, 7);
	r.has_partition_key = true;
	r.partition_key = (ProtobufCBinaryData){ 2, (uint8_t *)"21" };  /* murmur2 -973932308: & 0x7fffffff, mod 3 */
	ask(&a, IPC_APPEND, &r.base, batch(&b, 1, "x"));
	assert_int_equal(((Ipc__AppendAnswer *)a.answer)->partition, ((uint32_t)-973932308 & 0x7fffffff) % 3);
	asked_done(&a);
	buf_done(&b);
}

/* ------------------------------------------------------------------------ close */

static void test_close(void **state)
{
	struct asked a;
	struct pico_error e;
	create(&a, "/k1", 1);
	asked_done(&a);
	create(&a, "/k3", 3);
	asked_done(&a);
	append("/k1", 2);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__CloseRequest close = IPC__CLOSE_REQUEST__INIT;
	close.topic = &ref;
	static const char *const names[] = { "/k1", "/k3" };
	for (int i = 0; i < 2; i++) {
		for (int again = 0; again < 2; again++) {
			ref.name = (char *)names[i];
			ask(&a, IPC_CLOSE, &close.base, slice_of(NULL, 0));
			assert_int_equal(a.error.kind, PICO_OK);
			assert_true(((Ipc__CloseAnswer *)a.answer)->topic->closed);
			assert_int_equal(((Ipc__CloseAnswer *)a.answer)->was_closed, again);
			asked_done(&a);
		}
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_true(offsets("/k3", i).closed);
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	append_refused(&r, "/k1", 1, PICO_CLOSED, &e);
	assert_int_equal(e.next_offset, 2);
	r.close_after = true;
	append_with(&r, "/k1", 0);                      /* closing what is closed is fine */

	create(&a, "/k2", 1);
	asked_done(&a);
	Ipc__Producer p = IPC__PRODUCER__INIT;
	p.id = "p";
	r.producer = &p;
	assert_int_equal(append_with(&r, "/k2", 2), 0); /* records and close in one */
	assert_true(offsets("/k2", 0).closed);
	assert_int_equal(offsets("/k2", 0).confirm, 2);
	append_with(&r, "/k2", 2);                      /* the same again is a duplicate */
	assert_int_equal(offsets("/k2", 0).next, 2);
	p.id = "q";
	append_refused(&r, "/k2", 0, PICO_CLOSED, NULL); /* another producer's close */
}

/* ------------------------------------------------------------------ read and wait */

static uint64_t bytes_of(const struct asked *a)
{
	uint64_t n = 0;
	for (size_t i = 0; i < a->n_pieces; i++)
		n += a->pieces[i].length;
	return n;
}

static void test_read(void **state)
{
	struct asked a;
	struct log_name l;
	struct slice none = slice_of(NULL, 0);
	create(&a, "/r", 1);
	asked_done(&a);
	for (int i = 0; i < 4; i++)
		append("/r", 10);
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	r.log = log_ref(&l, "/r", 0);
	r.from = -5;
	ask(&a, IPC_READ, &r.base, none);
	Ipc__ReadAnswer *x = (Ipc__ReadAnswer *)a.answer;
	assert_int_equal(x->from, 0);
	assert_int_equal(x->end, 40);
	assert_int_equal(x->confirm, 40);
	assert_false(x->closed);
	assert_string_equal(x->topic->content_type, "text/plain");
	struct record_batch b;
	assert_int_equal(record_batch_read(slice_of(a.pieces[0].segment->mem.base + a.pieces[0].offset,
						    (size_t)record_batch_size(slice_of(a.pieces[0].segment->mem.base +
									a.pieces[0].offset, 12))), &b), 0);
	assert_int_equal(b.base_offset, 0);
	assert_int_equal(b.record_count, 10);
	assert_true(record_batch_crc_is_good(&b));
	assert_true((b.attributes & BATCH_LOG_APPEND_TIME) != 0);
	assert_true(b.max_timestamp > 1600000000000);
	uint64_t whole = bytes_of(&a);
	asked_done(&a);
	r.from = 15;            /* in the middle of the second batch: that one comes whole */
	r.max_bytes = 1;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(((Ipc__ReadAnswer *)a.answer)->end, 20);
	assert_int_equal(bytes_of(&a), whole / 4);
	asked_done(&a);
	r.from_end = true;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(((Ipc__ReadAnswer *)a.answer)->from, 40);
	assert_int_equal(a.n_pieces, 0);
	asked_done(&a);
	r.from_end = false;
	r.from = 41;
	ask(&a, IPC_READ, &r.base, none);
	assert_int_equal(a.error.kind, PICO_OUT_OF_RANGE);
	assert_true(a.error.has_next_offset && !a.error.has_start_offset);
	assert_int_equal(a.error.next_offset, 40);
	asked_done(&a);
}

static void test_wait(void **state)
{
	struct asked a, w[4];
	struct log_name l;
	struct slice none = slice_of(NULL, 0);
	create(&a, "/w", 1);
	asked_done(&a);
	Ipc__WaitRequest r = IPC__WAIT_REQUEST__INIT;
	r.log = log_ref(&l, "/w", 0);
	ask_start(&w[0], IPC_WAIT, &r.base, none, 50);
	run_until(&w[0].done);                          /* its time is over */
	assert_int_equal(w[0].error.kind, PICO_OK);
	assert_false(((Ipc__WaitAnswer *)w[0].answer)->ready);
	asked_done(&w[0]);

	ask_start(&w[1], IPC_WAIT, &r.base, none, 10000);
	assert_false(w[1].done);
	assert_int_equal(metrics->value[METRIC_WAITERS], 1);
	append("/w", 1);
	run_until(&w[1].done);
	assert_int_equal(metrics->value[METRIC_WAITERS], 0);
	assert_true(((Ipc__WaitAnswer *)w[1].answer)->ready);
	assert_int_equal(((Ipc__WaitAnswer *)w[1].answer)->confirm, 1);
	asked_done(&w[1]);
	ask(&w[1], IPC_WAIT, &r.base, none);            /* there already */
	assert_true(((Ipc__WaitAnswer *)w[1].answer)->ready);
	asked_done(&w[1]);

	r.from_end = true;
	ask_start(&w[0], IPC_WAIT, &r.base, none, 10000);
	ask_start(&w[1], IPC_WAIT, &r.base, none, 10000);
	node_cancel(node, &w[0].call);
	assert_true(w[0].done);
	assert_int_equal(w[0].error.kind, PICO_CANCELLED);
	Ipc__TopicRef ref = IPC__TOPIC_REF__INIT;
	Ipc__CloseRequest close = IPC__CLOSE_REQUEST__INIT;
	ref.name = "/w";
	close.topic = &ref;
	ask(&a, IPC_CLOSE, &close.base, none);
	asked_done(&a);
	run_until(&w[1].done);
	assert_true(((Ipc__WaitAnswer *)w[1].answer)->closed);
	asked_done(&w[0]);
	asked_done(&w[1]);

	create(&a, "/w2", 1);
	asked_done(&a);
	r.log = log_ref(&l, "/w2", 0);
	ask_start(&w[0], IPC_WAIT, &r.base, none, 10000);
	Ipc__DeleteRequest delete = IPC__DELETE_REQUEST__INIT;
	ref.name = "/w2";
	delete.topic = &ref;
	ask(&a, IPC_DELETE, &delete.base, none);
	asked_done(&a);
	run_until(&w[0].done);
	assert_true(((Ipc__WaitAnswer *)w[0].answer)->ready);
	asked_done(&w[0]);
}

/* ---------------------------------------------------------------------- restart */

static void test_resume(void **state)
{
	struct asked a;
	Ipc__NodeStatusRequest status = IPC__NODE_STATUS_REQUEST__INIT;
	ask(&a, IPC_NODE_STATUS, &status.base, slice_of(NULL, 0));
	Ipc__NodeStatusAnswer *s = (Ipc__NodeStatusAnswer *)a.answer;
	assert_true(s->ready && s->serving && s->registered);
	assert_int_equal(s->node_id, 1);
	assert_int_equal(strlen(s->cluster_uuid), 32);
	uint64_t session, seq;
	node_wal_position(node, &session, &seq);
	assert_int_equal(session, s->session);
	asked_done(&a);
	create(&a, "/resume", 1);
	asked_done(&a);
	append("/resume", 4);
	uint64_t stored = next_request;

	node_down();
	node_up();
	Ipc__Resume__Sent sent[2], *pointer[] = { &sent[0], &sent[1] };
	for (int i = 0; i < 2; i++) {
		ipc__resume__sent__init(&sent[i]);
		sent[i].wal_session = session;
		sent[i].wal_seq = seq;
	}
	sent[0].request_id = stored;
	sent[1].request_id = 1u << 30;          /* never came */
	Ipc__Resume r = IPC__RESUME__INIT;
	r.sent = pointer;
	r.n_sent = 2;
	ask(&a, IPC_RESUME, &r.base, slice_of(NULL, 0));
	Ipc__ResumeAnswer *x = (Ipc__ResumeAnswer *)a.answer;
	assert_int_equal(x->n_found, 2);
	assert_int_equal(x->found[0]->state, IPC__RESUME_ANSWER__STATE__STORED);
	assert_int_equal(x->found[0]->append->base_offset, 0);
	assert_int_equal(x->found[0]->append->next_offset, 4);
	assert_int_equal(x->found[1]->state, IPC__RESUME_ANSWER__STATE__ABSENT);
	asked_done(&a);
}

static void test_after_restart(void **state)
{
	struct pico_error e;
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	Ipc__Producer p = IPC__PRODUCER__INIT;
	assert_int_equal(offsets("/r", 0).confirm, 40);
	{
		struct asked a;
		struct log_name l;
		Ipc__ReadRequest read = IPC__READ_REQUEST__INIT;
		read.log = log_ref(&l, "/r", 0);
		ask(&a, IPC_READ, &read.base, slice_of(NULL, 0));
		assert_int_equal(((Ipc__ReadAnswer *)a.answer)->end, 40);
		asked_done(&a);
	}
	append_refused(&r, "/k1", 1, PICO_CLOSED, NULL);
	append_refused(&r, "/c/initial-closed", 1, PICO_CLOSED, NULL);
	r.has_stream_seq = true;
	r.stream_seq = (ProtobufCBinaryData){ 2, (uint8_t *)"a2" };
	append_refused(&r, "/s", 1, PICO_CONFLICT, NULL);
	r.has_stream_seq = false;
	r.producer = &p;
	p.id = "till";
	p.epoch = 1;
	append_refused(&r, "/p", 1, PICO_FENCED, &e);
	assert_int_equal(e.producer_epoch, 2);
	p.epoch = 2;
	p.seq = 1;
	uint64_t end = offsets("/p", 0).next;
	append_with(&r, "/p", 1);               /* stored before the restart: a duplicate */
	assert_int_equal(offsets("/p", 0).next, end);
	p.seq = 2;
	assert_int_equal(append_with(&r, "/p", 1), end);
}

static void on_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void test_stop(void **state)
{
	struct asked w, a;
	struct log_name l, m;
	struct buf b;
	bool stopped = false;
	Ipc__WaitRequest wait = IPC__WAIT_REQUEST__INIT;
	Ipc__AppendRequest r = IPC__APPEND_REQUEST__INIT;
	wait.log = log_ref(&l, "/r", 0);
	wait.from_end = true;
	ask_start(&w, IPC_WAIT, &wait.base, slice_of(NULL, 0), 10000);
	r.log = log_ref(&m, "/r", 0);
	ask_start(&a, IPC_APPEND, &r.base, batch(&b, 1, "last"), 10000);
	node_stop(node, on_stopped, &stopped);
	run_until(&stopped);
	assert_true(w.done && a.done);
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(w.error.kind, PICO_OK);
	assert_false(((Ipc__WaitAnswer *)w.answer)->ready);
	asked_done(&w);
	asked_done(&a);
	refuse(IPC_APPEND, &r.base, buf_slice(&b), PICO_UNAVAILABLE);
	buf_done(&b);
}

/* ---------------------------------------------------------------------- trim */

static void trim_to(const char *name, int64_t offset, uint64_t start)
{
	struct asked a;
	struct log_name log;
	Ipc__TrimRequest r = IPC__TRIM_REQUEST__INIT;
	r.log = log_ref(&log, name, 0);
	r.offset = offset;
	ask(&a, IPC_TRIM, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OK);
	assert_int_equal(((Ipc__TrimAnswer *)a.answer)->start, start);
	asked_done(&a);
	assert_int_equal(offsets(name, 0).start, start);
}

static void trim_refused(const char *name, int64_t offset, enum pico_error_kind kind)
{
	struct log_name log;
	Ipc__TrimRequest r = IPC__TRIM_REQUEST__INIT;
	r.log = log_ref(&log, name, 0);
	r.offset = offset;
	refuse(IPC_TRIM, &r.base, slice_of(NULL, 0), kind);
}

static void read_below(const char *name, int64_t from, uint64_t start)
{
	struct asked a;
	struct log_name log;
	Ipc__ReadRequest r = IPC__READ_REQUEST__INIT;
	r.log = log_ref(&log, name, 0);
	r.from = from;
	ask(&a, IPC_READ, &r.base, slice_of(NULL, 0));
	assert_int_equal(a.error.kind, PICO_OUT_OF_RANGE);
	assert_true(a.error.has_start_offset);
	assert_int_equal(a.error.start_offset, start);
	asked_done(&a);
}

static void test_trim(void **state)
{
	struct asked a;
	create(&a, "/t/trim", 1);
	asked_done(&a);
	for (int i = 0; i < 5; i++)
		append("/t/trim", 2);
	trim_to("/t/trim", 0, 0);
	unsigned before = n_cuts;
	trim_to("/t/trim", 5, 5);       /* inside a batch */
	assert_int_equal(n_cuts, before + 1);
	read_below("/t/trim", 4, 5);
	trim_to("/t/trim", 3, 5);       /* never back */
	trim_refused("/t/trim", 11, PICO_OUT_OF_RANGE);
	trim_refused("/t/trim", -2, PICO_BAD_REQUEST);
	trim_refused("/t/none", 0, PICO_NOT_FOUND);
	node_down();
	node_up();
	assert_int_equal(offsets("/t/trim", 0).start, 5);
	read_below("/t/trim", 4, 5);
	assert_int_equal(append("/t/trim", 1), 10);
	trim_to("/t/trim", -1, 11);
	assert_int_equal(append("/t/trim", 1), 11);
	node_down();
	node_up();
	assert_int_equal(offsets("/t/trim", 0).start, 11);
	assert_int_equal(offsets("/t/trim", 0).confirm, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_closed_and_initial),
		cmocka_unit_test(test_append_checks),
		cmocka_unit_test(test_producers),
		cmocka_unit_test(test_stream_seq),
		cmocka_unit_test(test_partitions),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_after_restart),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_stop),
	};
	return cmocka_run_group_tests_name("node_records", tests, world_set_up, world_tear_down);
}
