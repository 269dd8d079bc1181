/* SPDX-License-Identifier: Apache-2.0
 *
 * Each check of the simulator catches a fabricated bad history, and lets the good one it was made from
 * pass: a check that cannot fail is a defect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/pico_error.h"
#include "t/sim/sim_check.h"

#define S 1000000000ull

/* An append of value v: two records in log 0, answered OK at `base`. */
static struct hist_op *append(struct history *h, uint32_t v, uint64_t at, uint64_t base)
{
	uint32_t index = history_op(h, HIST_APPEND);
	struct hist_op *op = &h->ops[index];
	op->outcome = HIST_OK;
	op->log = 0;
	op->topic = 0;
	op->value = v;
	op->attempt = 1;
	op->n_records = 2;
	op->proc = 1;
	op->client = op->stream = v;
	op->invoked_ns = at * S;
	op->answered_ns = at * S + S / 2;
	op->base = base;
	op->base_known = true;
	op->next = base + 2;
	if (v >= h->n_values)
		h->n_values = v + 1;
	return op;
}

static struct hist_op *call(struct history *h, enum hist_kind kind, uint64_t at)
{
	uint32_t index = history_op(h, kind);
	struct hist_op *op = &h->ops[index];
	op->outcome = HIST_OK;
	op->log = 0;
	op->topic = 0;
	op->proc = 1;
	op->client = op->stream = 99;
	op->invoked_ns = at * S;
	op->answered_ns = at * S + S / 2;
	return op;
}

static void record(struct history *h, uint64_t offset, uint32_t value, uint32_t index)
{
	history_record(h, &(struct hist_record){ .offset = offset, .value = value, .index = index,
						 .timestamp = (int64_t)offset, .crc = value });
}

/* Final log 0 of topic 0 with the values given, two records each. */
static void final_log(struct history *h, const uint32_t *values, size_t n)
{
	struct hist_log *log = &h->logs[0];
	log->read_back = true;
	log->first_record = h->n_records;
	log->n_records = 2 * n;
	log->confirm = 2 * n;
	for (size_t i = 0; i < 2 * n; i++)
		record(h, i, values[i / 2], i % 2);
	h->topics[0].exists = true;
}
#define FINAL(h, ...) \
	final_log(h, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static struct history begin(void)
{
	struct history h = { 0 };
	history_topic(&h);
	history_log(&h, 0, 0);
	return h;
}

static void expect_(struct history *h, int check, int line)
{
	struct sim_fault_found found;
	bool good = sim_check(h, &found);
	if (found.check != check || good != (check == 0))
		fail_msg("line %d: check %d expected, %d found: %s", line, check, found.check, found.text);
	history_done(h);
}
#define expect(h, check) expect_(h, check, __LINE__)

static void test_good(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	append(&h, 2, 3, 0)->outcome = HIST_UNKNOWN;
	append(&h, 3, 3, 0)->outcome = HIST_REFUSED;
	FINAL(&h, 0, 1);
	expect(&h, 0);
}

static void test_1_values(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	FINAL(&h, 0, 0);
	expect(&h, 1);

	h = begin();
	append(&h, 0, 1, 0);
	FINAL(&h, 0, 7);
	expect(&h, 1);

	h = begin();
	append(&h, 0, 1, 2);
	append(&h, 1, 2, 0)->outcome = HIST_UNKNOWN;
	FINAL(&h, 0, 1);
	expect(&h, 1);

	h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	FINAL(&h, 0, 1);
	h.records[2].offset = 3;
	expect(&h, 1);
}

static void test_2_order(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 2);
	append(&h, 1, 2, 0);
	FINAL(&h, 1, 0);
	expect(&h, 2);

	h = begin();
	append(&h, 0, 1, 2)->stream = 5;
	struct hist_op *b = append(&h, 1, 1, 0);
	b->stream = 5;
	b->invoked_ns += S / 10;
	FINAL(&h, 1, 0);
	expect(&h, 2);
}

static void test_3_presence(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	FINAL(&h, 0);
	expect(&h, 3);

	h = begin();
	append(&h, 0, 1, 0)->outcome = HIST_REFUSED;
	FINAL(&h, 0);
	expect(&h, 3);

	h = begin();
	append(&h, 0, 1, 0)->n_records = 3;
	FINAL(&h, 0);
	expect(&h, 3);

	h = begin();
	call(&h, HIST_CREATE, 1);
	expect(&h, 3);

	h = begin();
	h.topics[0].initial = true;
	final_log(&h, NULL, 0);
	expect(&h, 3);

	h = begin();
	h.topics[0].initial = true;
	append(&h, 0, 3, 0);
	call(&h, HIST_OFFSETS, 1);
	FINAL(&h, 0);
	expect(&h, 5);
}

static struct hist_op *read_of(struct history *h, uint64_t at, uint64_t from, uint32_t value)
{
	struct hist_op *op = call(h, HIST_READ, at);
	op->from = op->base = from;
	op->first_record = h->n_records;
	op->n_seen = 2;
	op->next = op->confirm = from + 2;
	record(h, from, value, 0);
	record(h, from + 1, value, 1);
	return op;
}

static void test_4_6_reads(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	read_of(&h, 2, 0, 0);
	FINAL(&h, 0);
	expect(&h, 0);

	h = begin();
	append(&h, 0, 1, 0);
	read_of(&h, 2, 0, 0);
	h.records[1].timestamp++;
	FINAL(&h, 0);
	expect(&h, 4);

	h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	read_of(&h, 3, 2, 1)->from = 0;
	FINAL(&h, 0, 1);
	expect(&h, 6);

	h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	read_of(&h, 3, 0, 0);
	h.records[1].offset = 2;
	FINAL(&h, 0, 1);
	expect(&h, 6);
}

static void test_5_watermark(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2)->outcome = HIST_UNKNOWN;
	read_of(&h, 3, 2, 1);
	FINAL(&h, 0);
	expect(&h, 5);

	h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	call(&h, HIST_OFFSETS, 3)->confirm = 2;
	FINAL(&h, 0, 1);
	expect(&h, 5);

	h = begin();
	append(&h, 0, 1, 0);
	struct hist_op *op = append(&h, 1, 2, 0);
	op->outcome = HIST_REFUSED;
	op->error = PICO_MATCH_FAILED;
	op->has_match = op->has_next = true;
	op->next = 4;
	FINAL(&h, 0);
	expect(&h, 5);

	h = begin();
	append(&h, 0, 1, 0);
	op = append(&h, 1, 2, 2);
	op->outcome = HIST_REFUSED;
	op->error = PICO_CLOSED;
	FINAL(&h, 0);
	expect(&h, 5);

	h = begin();
	op = append(&h, 0, 1, 0);
	op->has_match = true;
	op->match = 4;
	FINAL(&h, 0);
	expect(&h, 5);
}

static struct hist_op *produce(struct history *h, uint32_t v, uint64_t at, uint64_t base, uint64_t epoch, uint64_t seq)
{
	struct hist_op *op = append(h, v, at, base);
	op->producer = 0;
	op->epoch = epoch;
	op->seq = seq;
	return op;
}

static void test_5_7_producers(void **state)
{
	struct history h = begin();
	produce(&h, 0, 1, 0, 0, 0);
	produce(&h, 1, 2, 2, 0, 1);
	FINAL(&h, 0, 1);
	expect(&h, 0);

	h = begin();
	produce(&h, 0, 1, 0, 0, 0);
	produce(&h, 1, 2, 2, 0, 0);
	FINAL(&h, 0, 1);
	expect(&h, 7);

	h = begin();
	produce(&h, 0, 1, 0, 0, 0);
	struct hist_op *op = produce(&h, 1, 2, 0, 0, 1);
	op->outcome = HIST_REFUSED;
	op->error = PICO_SEQUENCE_GAP;
	FINAL(&h, 0);
	expect(&h, 7);

	h = begin();
	op = produce(&h, 0, 1, 0, 0, 5);
	op->outcome = HIST_REFUSED;
	op->error = PICO_SEQUENCE_GAP;
	op->expected = 3;
	append(&h, 1, 2, 0);
	FINAL(&h, 1);
	expect(&h, 5);

	h = begin();
	op = produce(&h, 0, 1, 0, 0, 0);
	op->outcome = HIST_REFUSED;
	op->error = PICO_FENCED;
	op->known_epoch = 4;
	append(&h, 1, 2, 0);
	FINAL(&h, 1);
	expect(&h, 5);

	h = begin();
	produce(&h, 0, 1, 0, 0, 0)->duplicate = true;
	append(&h, 1, 2, 0);
	FINAL(&h, 1);
	expect(&h, 3);
}

static void test_9_ends(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	call(&h, HIST_CLOSE, 2);
	append(&h, 1, 3, 2);
	FINAL(&h, 0, 1);
	h.logs[0].closed = true;
	expect(&h, 9);

	h = begin();
	append(&h, 0, 1, 0)->closes = true;
	FINAL(&h, 0);
	expect(&h, 9);

	h = begin();
	append(&h, 0, 1, 0);
	call(&h, HIST_DELETE, 2);
	h.topics[0].exists = true;
	expect(&h, 9);
}

static void test_7_9_closer(void **state)
{
	struct history h = begin();
	struct hist_op *op = append(&h, 0, 1, 0);
	op->closes = true;
	op->outcome = HIST_UNKNOWN;
	append(&h, 1, 1, 2)->outcome = HIST_UNKNOWN;
	FINAL(&h, 0, 1);
	h.logs[0].closed = true;
	expect(&h, 9);

	for (int first = 0; first < 2; first++) {
		h = begin();
		produce(&h, 0, 1, 0, 0, 0)->outcome = HIST_UNKNOWN;
		op = produce(&h, 0, 2, 0, 0, 0);
		op->outcome = HIST_REFUSED;
		op->error = PICO_CLOSED;
		op->closed_first = first == 1;
		FINAL(&h, 0);
		h.logs[0].closed = true;
		expect(&h, first == 1 ? 0 : 7);
	}

	h = begin();
	append(&h, 0, 1, 0);
	call(&h, HIST_CLOSE, 2);
	call(&h, HIST_OFFSETS, 3)->confirm = 2;
	FINAL(&h, 0);
	h.logs[0].closed = true;
	expect(&h, 9);
}

static void test_10_wal(void **state)
{
	for (int bad = 0; bad < 7; bad++) {
		struct history h = begin();
		if (bad < 5)
			history_wal(&h, 1, 0, HIST_WAL_OPEN);
		if (bad != 1)
			history_wal(&h, 1, 1, bad == 4 ? HIST_WAL_BROKEN : HIST_WAL_DATA);
		history_wal(&h, 1, 2, bad == 2 ? HIST_WAL_DATA : HIST_WAL_SEAL);
		history_wal(&h, 1, 4, HIST_WAL_DATA);
		history_wal(&h, 2, 0, HIST_WAL_OPEN);
		history_wal(&h, 2, 1, HIST_WAL_DATA);
		h.last_session = 2;
		history_session(&h, &(struct hist_session){ .session = 1, .watermark = bad == 5 ? 1 : 0 });
		if (bad == 3 || bad == 5)
			history_deleted(&h, 1, 0);
		expect(&h, bad == 0 || bad == 5 ? 0 : 10); /* 5: packed, so it may go */
	}
}

/* Only of a RECOVERED session, and never the seal at the cut. */
static void test_10_above_the_cut(void **state)
{
	for (uint64_t deleted = 1; deleted <= 3; deleted++)
		for (int recovered = 0; recovered < 2; recovered++) {
			struct history h = begin();
			history_wal(&h, 1, 2, HIST_WAL_SEAL);
			history_wal(&h, 2, 0, HIST_WAL_OPEN);
			h.last_session = 2;
			history_session(&h, &(struct hist_session){ .session = 1, .watermark = 2, .recovered = recovered });
			history_deleted(&h, 1, deleted);
			expect(&h, deleted == 1 || (deleted == 3 && recovered) ? 0 : 10);
		}
}

static void test_12_stamps(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	FINAL(&h, 0);
	h.records[1].timestamp = -5;
	expect(&h, 12);

	h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2)->timestamp = 77;
	FINAL(&h, 0, 1);
	expect(&h, 12);

	for (uint64_t seq = 4; seq <= 6; seq++) {
		h = begin();
		struct hist_op *op = append(&h, 0, 1, 0);
		op->has_stream_seq = true;
		op->stream_seq = 5;
		op = append(&h, 1, 2, 2);
		op->has_stream_seq = true;
		op->stream_seq = seq;
		FINAL(&h, 0, 1);
		expect(&h, seq == 6 ? 0 : 12);
	}
}

static void test_9_shown_closed(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	struct hist_op *op = read_of(&h, 2, 0, 0);
	op->closed = true;
	append(&h, 1, 1, 2)->outcome = HIST_UNKNOWN;
	FINAL(&h, 0, 1);
	h.logs[0].closed = true;
	expect(&h, 9);
}

static void test_11_wakeups(void **state)
{
	struct history h = begin();
	struct hist_op *w = call(&h, HIST_WAIT, 1);
	w->answered_ns = 20 * S;
	append(&h, 0, 2, 0);
	FINAL(&h, 0);
	expect(&h, 11);

	h = begin();
	w = call(&h, HIST_WAIT, 1);
	w->answered_ns = 20 * S;
	call(&h, HIST_DELETE, 2);
	expect(&h, 11);

	h = begin();
	append(&h, 0, 1, 0);
	w = call(&h, HIST_WAIT, 2);
	w->from = w->confirm = 2;
	w->ready = true;
	FINAL(&h, 0);
	expect(&h, 11);
}

static void test_13_trims(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	struct hist_op *t = call(&h, HIST_TRIM, 3);
	t->from = t->base = 1;
	FINAL(&h, 0, 1);
	h.logs[0].first_record++;
	h.logs[0].n_records--;
	h.logs[0].start = 1;
	struct history good = h;
	struct sim_fault_found found;
	assert_true(sim_check(&good, &found));
	t->base = 3;
	expect(&h, 13);         /* what was trimmed came back */

	h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	FINAL(&h, 0, 1);
	h.logs[0].first_record += 2;
	h.logs[0].n_records -= 2;
	h.logs[0].start = 2;
	expect(&h, 13);         /* nobody asked */

	h = begin();
	append(&h, 0, 1, 0);
	t = call(&h, HIST_TRIM, 3);
	t->from = 2;
	t->base = 1;
	FINAL(&h, 0);
	expect(&h, 13);         /* less than was asked */
}

/* Log 1 was forked from log 0 inside value 1, at offset 3, and got value 2; log 0 got value 3. */
static struct history forked(void)
{
	struct history h = begin();
	history_topic(&h);
	history_log(&h, 1, 0);
	append(&h, 0, 1, 0);
	append(&h, 1, 2, 2);
	struct hist_op *own = append(&h, 2, 3, 3);
	own->log = own->topic = 1;
	append(&h, 3, 4, 4);
	FINAL(&h, 0, 1, 3);
	struct hist_log *log = &h.logs[1];
	log->source = 0;
	log->point = 3;
	log->read_back = h.topics[1].exists = true;
	log->first_record = h.n_records;
	log->n_records = log->confirm = 5;
	for (uint64_t i = 0; i < 5; i++)
		record(&h, i, i < 2 ? 0 : i == 2 ? 1 : 2, i < 3 ? i % 2 : (uint32_t)i - 3);
	return h;
}

static void test_14_forks(void **state)
{
	struct history h = forked();
	expect(&h, 0);

	h = forked();                           /* another record than the source's */
	h.records[h.logs[1].first_record + 2].timestamp++;
	expect(&h, 14);

	h = forked();                           /* one that the source does not have */
	h.records[h.logs[1].first_record + 1].value = 2;
	expect(&h, 14);

	h = forked();                           /* what was acknowledged to a source that is gone */
	h.logs[0].read_back = h.topics[0].exists = false;
	call(&h, HIST_DELETE, 9);
	expect(&h, 0);

	h = forked();
	h.logs[0].read_back = h.topics[0].exists = false;
	call(&h, HIST_DELETE, 9);
	h.records[h.logs[1].first_record + 2].value = 0;
	expect(&h, 14);

	h = forked();
	h.logs[0].read_back = h.topics[0].exists = false;
	call(&h, HIST_DELETE, 9);
	h.ops[1].outcome = HIST_REFUSED;
	h.ops[1].base_known = false;
	expect(&h, 14);

	h = forked();                           /* it ends before the point */
	h.logs[1].n_records = h.logs[1].confirm = 2;
	h.ops[2].outcome = HIST_UNKNOWN;
	expect(&h, 14);

	h = forked();                           /* it begins later than it did */
	h.logs[1].start = 2;
	h.logs[1].first_record += 2;
	h.logs[1].n_records -= 2;
	expect(&h, 13);

	h = forked();
	h.logs[1].start = h.logs[1].fork_start = 2;
	h.logs[1].first_record += 2;
	h.logs[1].n_records -= 2;
	expect(&h, 0);
}

/* A record of second 1 that an answer of second 15 says is cut. */
static void test_15_retention(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 14, 2);
	h.topics[0].retention_ns = 14 * S;
	struct hist_op *o = call(&h, HIST_OFFSETS, 15);
	o->base = o->start = 2;
	o->next = o->confirm = 4;
	FINAL(&h, 0, 1);
	h.logs[0].first_record += 2;
	h.logs[0].n_records -= 2;
	h.logs[0].start = 2;
	struct history good = h;
	struct sim_fault_found found;
	assert_true(sim_check(&good, &found));
	h.topics[0].retention_ns = 30 * S;
	expect(&h, 15);
}

/* Gone in second 12, last appended to in second 10. */
static void test_16_ttl(void **state)
{
	struct history h = begin();
	append(&h, 0, 1, 0);
	append(&h, 1, 10, 2);
	struct hist_op *o = call(&h, HIST_GET, 12);
	o->log = HIST_NONE;
	o->outcome = HIST_REFUSED;
	o->error = PICO_NOT_FOUND;
	FINAL(&h, 0, 1);
	h.topics[0].ttl_ns = 2 * S;
	struct history good = h;
	struct sim_fault_found found;
	assert_true(sim_check(&good, &found));
	h.topics[0].ttl_ns = 20 * S;
	expect(&h, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_1_values), cmocka_unit_test(test_2_order),
		cmocka_unit_test(test_3_presence), cmocka_unit_test(test_4_6_reads), cmocka_unit_test(test_5_watermark),
		cmocka_unit_test(test_5_7_producers), cmocka_unit_test(test_9_ends), cmocka_unit_test(test_10_wal),
		cmocka_unit_test(test_10_above_the_cut),
		cmocka_unit_test(test_11_wakeups), cmocka_unit_test(test_12_stamps),
		cmocka_unit_test(test_9_shown_closed), cmocka_unit_test(test_7_9_closer),
		cmocka_unit_test(test_13_trims), cmocka_unit_test(test_14_forks),
		cmocka_unit_test(test_15_retention), cmocka_unit_test(test_16_ttl),
	};
	return cmocka_run_group_tests_name("sim_check", tests, NULL, NULL);
}
