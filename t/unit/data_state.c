/* SPDX-License-Identifier: Apache-2.0
 *
 * State entries: what is refused, which is newer, and how entries of one log fold: by hand at each rule, and beside a
 * plain table that hears of every append.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "storaged/data/data_format.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/kafka_producer.h"
#include "storaged/engine/producer.h"

#define DAY 86400000ll
#define LOG 42

/* ------------------------------------------------------------------ entries */

/* What the wire gives of a message: on the heap, as data_state_decode() leaves it. */
static Frame__State *decode(const Frame__State *s, const char **ret_fault)
{
	size_t n = frame__state__get_packed_size(s);
	uint8_t *bytes = malloc(n + 1);
	frame__state__pack(s, bytes);
	uint8_t *exact = realloc(bytes, n > 0 ? n : 1);
	Frame__State *decoded = data_state_decode(slice_of(exact, n), LOG, ret_fault);
	free(exact);
	return decoded;
}

static Frame__State *entry(uint32_t epoch, uint64_t next, bool complete)
{
	Frame__State *s = must_calloc(1, sizeof(*s));
	frame__state__init(s);
	s->log_id = LOG;
	s->epoch = epoch;
	s->next = next;
	s->last_append_ms = 100 * DAY;
	s->complete = complete;
	s->n_incomplete = complete ? 0 : 1;
	return s;
}

static void add_string(Frame__State *s, const char *id, uint64_t seq, int64_t used_ms)
{
	Frame__State__StringProducer *p = must_calloc(1, sizeof(*p));
	frame__state__string_producer__init(p);
	p->id = must_strdup(id);
	p->epoch = 1;
	p->seq = seq;
	p->used_ms = used_ms;
	s->producers = must_realloc(s->producers, (s->n_producers + 1) * sizeof(p));
	s->producers[s->n_producers++] = p;
}

/* With `n` batches of one record that end at `last`. */
static void add_kafka(Frame__State *s, int64_t id, int32_t last, size_t n, int64_t used_ms)
{
	Frame__State__KafkaProducer *p = must_calloc(1, sizeof(*p));
	frame__state__kafka_producer__init(p);
	p->id = id;
	p->used_ms = used_ms;
	p->n_written = n;
	p->written = must_calloc(n + 1, sizeof(*p->written));
	for (size_t i = 0; i < n; i++) {
		p->written[i] = must_calloc(1, sizeof(**p->written));
		frame__state__written__init(p->written[i]);
		p->written[i]->first = p->written[i]->last = last - (int32_t)(n - 1 - i);
		p->written[i]->offset = (uint64_t)(last - (int32_t)(n - 1 - i));
	}
	s->kafka = must_realloc(s->kafka, (s->n_kafka + 1) * sizeof(p));
	s->kafka[s->n_kafka++] = p;
}

/* ------------------------------------------------------------------ refusals */

static Frame__State *full_entry(void)
{
	Frame__State *s = entry(3, 50, false);
	add_string(s, "a", 1, 90 * DAY);
	add_string(s, "b", 2, 99 * DAY);
	add_kafka(s, 7, 20, 5, 98 * DAY);
	add_kafka(s, 8, 9, 2, 100 * DAY);
	s->epochs = must_calloc(2, sizeof(*s->epochs));
	for (; s->n_epochs < 2; s->n_epochs++) {
		s->epochs[s->n_epochs] = must_calloc(1, sizeof(**s->epochs));
		frame__state__epoch_start__init(s->epochs[s->n_epochs]);
		s->epochs[s->n_epochs]->epoch = 2 + (uint32_t)s->n_epochs;
		s->epochs[s->n_epochs]->first_offset = 10 * s->n_epochs;
	}
	s->closed = s->has_closer = 1;
	s->closer = must_calloc(1, sizeof(*s->closer));
	frame__state__closer__init(s->closer);
	s->closer->id = must_strdup("b");
	s->has_stream_seq = 1;
	s->stream_seq.data = must_calloc(1, 2000);
	s->stream_seq.len = 1024;
	return s;
}

static void refuse(void (*change)(Frame__State *s), const char *words)
{
	const char *fault = NULL;
	Frame__State *s = full_entry(), *decoded;
	decoded = decode(s, &fault);
	assert_non_null(decoded);
	assert_null(fault);
	data_state_free(decoded);
	change(s);
	decoded = decode(s, &fault);
	if (decoded != NULL || fault == NULL || strstr(fault, words) == NULL)
		fail_msg("\"%s\" instead of \"%s\"", fault != NULL ? fault : "nothing", words);
	data_state_free(s);
}

static void other_log(Frame__State *s) { s->log_id++; }
static void far_next(Frame__State *s) { s->next = (uint64_t)INT64_MAX + 2; }
static void negative_time(Frame__State *s) { s->last_append_ms = -1; }
static void counted_complete(Frame__State *s) { s->complete = 1; }
static void uncounted(Frame__State *s) { s->n_incomplete = 0; }
static void counted_8(Frame__State *s) { s->n_incomplete = 8; }
static void open_closer(Frame__State *s) { s->closed = 0; }
static void unsaid_closer(Frame__State *s) { s->has_closer = 0; }
static void nameless_closer(Frame__State *s) { s->closer->id[0] = 0; }
static void long_stream_seq(Frame__State *s) { s->stream_seq.len = 1025; }
static void unsaid_stream_seq(Frame__State *s) { s->has_stream_seq = 0; }
static void late_epoch(Frame__State *s) { s->epochs[1]->epoch = 4; }
static void same_epoch(Frame__State *s) { s->epochs[1]->epoch = 2; }
static void epoch_behind(Frame__State *s) { s->epochs[0]->first_offset = 11; }
static void epoch_far(Frame__State *s) { s->epochs[1]->first_offset = 51; }
static void no_id(Frame__State *s) { s->producers[0]->id[0] = 0; }
static void string_turned(Frame__State *s) { s->producers[0]->first_offset = 1; }
static void string_far(Frame__State *s) { s->producers[0]->next = 51; }
static void string_order(Frame__State *s) { s->producers[0]->used_ms = 99 * DAY + 1; }
static void string_late(Frame__State *s) { s->producers[1]->used_ms = 100 * DAY + 1; }
static void string_early(Frame__State *s) { s->producers[0]->used_ms = -1; }
static void kafka_id(Frame__State *s) { s->kafka[0]->id = -1; }
static void kafka_epoch(Frame__State *s) { s->kafka[0]->epoch = -1; }
static void kafka_epoch_wide(Frame__State *s) { s->kafka[0]->epoch = 32768; }
static void kafka_order(Frame__State *s) { s->kafka[0]->used_ms = 100 * DAY + 1; }
static void kafka_late(Frame__State *s) { s->kafka[1]->used_ms = 100 * DAY + 1; }
static void written_first(Frame__State *s) { s->kafka[1]->written[0]->first = -1; }
static void written_last(Frame__State *s) { s->kafka[1]->written[1]->last = -1; }
static void written_order(Frame__State *s) { s->kafka[1]->written[1]->offset = 8; }
static void written_far(Frame__State *s) { s->kafka[1]->written[1]->offset = 50; }

static void long_id(Frame__State *s)
{
	free(s->producers[1]->id);
	s->producers[1]->id = must_calloc(1, 258);
	memset(s->producers[1]->id, 'x', 257);
}

static void written_none(Frame__State *s)
{
	Frame__State__KafkaProducer *p = s->kafka[1];
	while (p->n_written > 0)
		protobuf_c_message_free_unpacked(&p->written[--p->n_written]->base, NULL);
}

static void written_six(Frame__State *s)
{
	add_kafka(s, 9, 40, 6, 100 * DAY);
}

static void test_refusals(void **state)
{
	refuse(other_log, "another log");
	refuse(far_next, "offset or time");
	refuse(negative_time, "offset or time");
	refuse(counted_complete, "count of incomplete");
	refuse(uncounted, "count of incomplete");
	refuse(counted_8, "count of incomplete");
	refuse(open_closer, "closed it");
	refuse(unsaid_closer, "closed it");
	refuse(nameless_closer, "closed it");
	refuse(long_stream_seq, "stream sequence");
	refuse(unsaid_stream_seq, "stream sequence");
	refuse(late_epoch, "epochs");
	refuse(same_epoch, "epochs");
	refuse(epoch_behind, "epochs");
	refuse(epoch_far, "epochs");
	refuse(no_id, "a producer is");
	refuse(long_id, "a producer is");
	refuse(string_turned, "a producer is");
	refuse(string_far, "a producer is");
	refuse(string_order, "its producers are not in order");
	refuse(string_late, "its producers are not in order");
	refuse(string_early, "its producers are not in order");
	refuse(kafka_id, "a Kafka producer");
	refuse(kafka_epoch, "a Kafka producer");
	refuse(kafka_epoch_wide, "a Kafka producer");
	refuse(kafka_order, "its Kafka producers are not in order");
	refuse(kafka_late, "its Kafka producers are not in order");
	refuse(written_first, "a Kafka producer");
	refuse(written_last, "a Kafka producer");
	refuse(written_order, "a Kafka producer");
	refuse(written_far, "a Kafka producer");
	refuse(written_none, "a Kafka producer");
	refuse(written_six, "a Kafka producer");
}

static void test_refused_counts(void **state)
{
	const char *fault;
	for (uint32_t more = 0; more < 2; more++) {
		Frame__State *s = entry(40, 10, false), *decoded;
		char id[16];
		for (uint32_t i = 0; i < PRODUCERS_MAX + more; i++) {
			snprintf(id, sizeof(id), "p%u", i);
			add_string(s, id, 0, DAY);
		}
		decoded = decode(s, &fault);
		assert_int_equal(decoded != NULL, more == 0);
		assert_true(more == 0 || strstr(fault, "too many producers") != NULL);
		data_state_free(decoded);
		data_state_free(s);
		s = entry(40, 10, false);
		s->epochs = must_calloc(17, sizeof(*s->epochs));
		for (; s->n_epochs < 16 + more; s->n_epochs++) {
			s->epochs[s->n_epochs] = must_calloc(1, sizeof(**s->epochs));
			frame__state__epoch_start__init(s->epochs[s->n_epochs]);
			s->epochs[s->n_epochs]->epoch = (uint32_t)s->n_epochs;
		}
		decoded = decode(s, &fault);
		assert_int_equal(decoded != NULL, more == 0);
		assert_true(more == 0 || strstr(fault, "too many epochs") != NULL);
		data_state_free(decoded);
		data_state_free(s);
	}
	uint8_t *huge = must_calloc(1, DATA_ENTRY_MAX + 1);
	assert_null(data_state_decode(slice_of(huge, DATA_ENTRY_MAX + 1), LOG, &fault));
	assert_non_null(strstr(fault, "longer"));
	assert_null(data_state_decode(slice_of(huge, 5), LOG, &fault));
	assert_non_null(strstr(fault, "not a state entry"));
	free(huge);
}

/* -------------------------------------------------------------------- newer */

static void test_which_is_newer(void **state)
{
	/* Ascending. */
	static const struct { uint32_t epoch; uint64_t next; bool closed, complete; } rows[] = {
		{ 1, 5, false, false }, { 1, 5, false, true }, { 1, 5, true, false }, { 1, 5, true, true },
		{ 1, 6, false, false }, { 2, 0, false, false }, { 2, 5, false, true }, { 3, 1, true, true },
	};
	size_t n = sizeof(rows) / sizeof(*rows);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < n; j++) {
			Frame__State *a = entry(rows[i].epoch, rows[i].next, rows[i].complete);
			Frame__State *b = entry(rows[j].epoch, rows[j].next, rows[j].complete);
			a->closed = rows[i].closed;
			b->closed = rows[j].closed;
			int c = data_state_compare(a, b);
			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
			data_state_free(a);
			data_state_free(b);
		}
	}
}

/* ------------------------------------------------------------------ folding */

static void test_complete_needs_nothing(void **state)
{
	Frame__State *newer = entry(1, 9, true), *older = entry(1, 8, false);
	add_string(newer, "a", 5, 99 * DAY);
	add_string(older, "b", 6, 99 * DAY);
	add_kafka(older, 1, 5, 1, 99 * DAY);
	assert_null(data_state_fold(newer, older));
	assert_true(newer->n_producers == 1 && newer->n_kafka == 0 && newer->complete && newer->n_incomplete == 0);
	data_state_free(newer);
}

/* Scalars are the newer one's whatever the older says; complete is the older one's. */
static void test_scalars(void **state)
{
	for (int complete = 0; complete < 2; complete++) {
		Frame__State *newer = entry(2, 59, false), *older = full_entry();
		older->epoch = 1;
		older->complete = complete;
		older->n_incomplete = complete ? 0 : 3;
		newer->n_incomplete = 4;
		newer->bytes = 77;
		newer->last_append_ms = 100 * DAY + 5;
		assert_null(data_state_fold(newer, older));
		assert_true(newer->epoch == 2 && newer->next == 59 && newer->bytes == 77 && !newer->closed);
		assert_true(newer->closer == NULL && !newer->has_stream_seq && newer->n_epochs == 0);
		assert_true(newer->last_append_ms == 100 * DAY + 5);
		assert_int_equal(newer->complete, complete);
		assert_int_equal(newer->n_incomplete, complete ? 0 : 4);
		assert_true(newer->n_producers == 1 && newer->n_kafka == 2); /* "a" was idle for 10 days */
		data_state_free(newer);
	}
}

/* An entry of an older epoch cannot have seen more than one of a newer. */
static void test_older_that_reaches_farther(void **state)
{
	for (int later = 0; later < 2; later++) {
		Frame__State *newer = entry(2, 9, false), *older = entry(1, 9, true);
		add_string(older, "a", 1, 99 * DAY);
		older->next += later == 0;
		older->last_append_ms += later;
		const char *fault = data_state_fold(newer, older);
		assert_true(fault != NULL && strstr(fault, "farther") != NULL);
		assert_true(newer->n_producers == 0 && !newer->complete && newer->n_incomplete == 1);
		data_state_free(newer);
	}
}

static void test_producers_are_united(void **state)
{
	Frame__State *newer = entry(1, 90, false), *older = entry(1, 60, true);
	add_string(newer, "both", 9, 98 * DAY);
	add_string(newer, "new", 1, 99 * DAY);
	add_string(older, "old", 4, 95 * DAY);
	add_string(older, "both", 5, 96 * DAY);
	add_string(older, "later", 6, 98 * DAY);
	add_kafka(newer, 5, 60, 5, 99 * DAY);
	add_kafka(older, 5, 57, 5, 97 * DAY);
	add_kafka(older, 4, 30, 3, 98 * DAY);
	assert_null(data_state_fold(newer, older));
	static const char *const ids[] = { "old", "later", "both", "new" };
	static const uint64_t seqs[] = { 4, 6, 9, 1 };
	assert_int_equal(newer->n_producers, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(newer->producers[i]->id, ids[i]);
		assert_int_equal(newer->producers[i]->seq, seqs[i]);
	}
	assert_int_equal(newer->n_kafka, 2);
	assert_true(newer->kafka[0]->id == 4 && newer->kafka[0]->n_written == 3);
	assert_true(newer->kafka[1]->id == 5 && newer->kafka[1]->n_written == 5);
	assert_true(newer->kafka[1]->written[0]->offset == 56 && newer->kafka[1]->written[4]->offset == 60);
	const char *fault;
	Frame__State *again = decode(newer, &fault); /* what a fold gives can be written and read */
	assert_null(fault);
	data_state_free(again);
	data_state_free(newer);
}

/* A producer that was forgotten and came back: its new window says nothing of the batches before. */
static void test_a_window_begins_anew(void **state)
{
	Frame__State *newer = entry(1, 90, false), *older = entry(1, 60, true);
	add_kafka(newer, 5, 60, 1, 99 * DAY);
	add_kafka(older, 5, 20, 5, 94 * DAY);
	assert_null(data_state_fold(newer, older));
	assert_true(newer->n_kafka == 1 && newer->kafka[0]->n_written == 1 && newer->kafka[0]->written[0]->offset == 60);
	data_state_free(newer);
}

static void test_idle_producers_go(void **state)
{
	Frame__State *newer = entry(1, 90, false), *older = entry(1, 60, true);
	add_string(older, "gone", 1, 93 * DAY);
	add_string(older, "here", 1, 93 * DAY + 1);
	add_kafka(older, 1, 1, 1, 93 * DAY);
	add_kafka(older, 2, 2, 1, 93 * DAY + 1);
	assert_null(data_state_fold(newer, older));
	assert_true(newer->n_producers == 1 && newer->n_kafka == 1 && newer->kafka[0]->id == 2);
	assert_string_equal(newer->producers[0]->id, "here");
	data_state_free(newer);
}

/* Bounds: the longest idle go, at equal times those of the older entry. */
static void test_string_bound(void **state)
{
	Frame__State *newer = entry(1, 90, false), *older = entry(1, 60, true);
	char id[16];
	for (uint32_t i = 0; i < 1500; i++) {
		snprintf(id, sizeof(id), "o%u", i);
		add_string(older, id, 1, 99 * DAY + i / 100);
		snprintf(id, sizeof(id), "n%u", i);
		add_string(newer, id, 1, 99 * DAY + 9);
	}
	assert_null(data_state_fold(newer, older));
	assert_int_equal(newer->n_producers, PRODUCERS_MAX);
	for (uint32_t i = 0; i < PRODUCERS_MAX; i++) {
		if (i < 48) /* of the time of all of newer's, and before them */
			snprintf(id, sizeof(id), "o%u", 952 + i);
		else
			snprintf(id, sizeof(id), i < 1548 ? "n%u" : "o%u", i < 1548 ? i - 48 : i - 548);
		assert_string_equal(newer->producers[i]->id, id);
	}
	data_state_free(newer);
}

static void test_kafka_bound(void **state)
{
	Frame__State *newer = entry(1, 90000, false), *older = entry(1, 80000, true);
	for (int32_t i = 0; i < 40000; i++) {
		add_kafka(older, i, i, 1, 99 * DAY + i);
		add_kafka(newer, i + 30000, i, 1, 99 * DAY + 40000 + i);
	}
	assert_null(data_state_fold(newer, older));
	assert_int_equal(newer->n_kafka, KAFKA_PRODUCERS_MAX); /* of 70,000 */
	assert_int_equal(newer->kafka[0]->id, 70000 - KAFKA_PRODUCERS_MAX);
	assert_int_equal(newer->kafka[KAFKA_PRODUCERS_MAX - 1]->id, 69999);
	for (size_t i = 0; i < newer->n_kafka; i++)
		assert_int_equal(newer->kafka[i]->id, 70000 - KAFKA_PRODUCERS_MAX + i);
	data_state_free(newer);
}

/* An entry between two that are folded was left out (its object was damaged): what comes is not complete, and the third one
 * brings its words when it is there again, also those about producers that the others name. */
static void test_a_gap(void **state)
{
	Frame__State *first = entry(1, 100, true), *second = entry(1, 200, false), *third = entry(1, 300, false);
	second->since = 100;
	third->since = 200;
	third->n_incomplete = 2;
	add_kafka(first, 7, 50, 1, 99 * DAY);
	add_kafka(first, 8, 60, 1, 99 * DAY);
	add_kafka(second, 7, 150, 1, 99 * DAY + 1);
	add_kafka(third, 9, 250, 1, 99 * DAY + 2);
	assert_null(data_state_fold(third, first));
	assert_true(!third->complete && third->whole && third->n_incomplete == 2 && third->since == 200 && third->n_kafka == 3);
	const char *fault;
	Frame__State *stored = decode(third, &fault);
	assert_non_null(stored);
	data_state_free(third);
	assert_null(data_state_fold(stored, second));
	assert_true(stored->whole && stored->since == 100 && stored->n_kafka == 3);
	for (size_t i = 0; i < 3; i++)
		if (stored->kafka[i]->id == 7)
			assert_int_equal(stored->kafka[i]->written[0]->offset, 150);
	data_state_free(stored);
}

/* -------------------------------------------------------------------- model */

/* Each of 40 producers has a counter. An entry names those that moved since the entry before, or all; folded from any
 * newest entry down to the first complete one, all that are not idle are there with their last number. */
#define PEOPLE 40
#define ENTRIES 12

struct moment {
	Frame__State *entry;
	uint64_t seq[PEOPLE];
	int64_t used_ms[PEOPLE];        /* 0: never */
	int64_t now_ms;
};

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static int by_time(const void *a, const void *b)
{
	const struct { int64_t ms; int who; } *x = a, *y = b;
	return x->ms != y->ms ? (x->ms > y->ms) - (x->ms < y->ms) : x->who - y->who;
}

/* Producers in order of last use, those that wrote after `since`; even ones are Kafka's. */
static void moment_name(struct moment *m, int64_t since)
{
	struct { int64_t ms; int who; } order[PEOPLE];
	for (int i = 0; i < PEOPLE; i++) {
		order[i].ms = m->used_ms[i];
		order[i].who = i;
	}
	qsort(order, PEOPLE, sizeof(*order), by_time);
	for (int i = 0; i < PEOPLE; i++) {
		int who = order[i].who;
		char id[8];
		snprintf(id, sizeof(id), "p%d", who);
		if (order[i].ms <= since)
			continue;
		if (who % 2 == 0)
			add_kafka(m->entry, who, (int32_t)m->seq[who] + 10, 2, order[i].ms);
		else
			add_string(m->entry, id, m->seq[who], order[i].ms);
	}
}

static void moments_make(struct moment *moments)
{
	struct moment now = { .now_ms = DAY };
	for (int k = 0; k < ENTRIES; k++) {
		int64_t before = now.now_ms;
		for (uint64_t n = random_below(12); n > 0; n--) {
			now.now_ms += 1 + (int64_t)random_below(DAY / 2);
			uint64_t who = random_below(PEOPLE);
			now.seq[who]++;
			now.used_ms[who] = now.now_ms;
		}
		bool complete = k == 0 || random_below(5) == 0;
		now.entry = entry(1 + (uint32_t)k / 6, 1000 + (uint64_t)k, complete);
		now.entry->last_append_ms = now.now_ms;
		moments[k] = now;
		moment_name(&moments[k], complete ? 0 : before);
	}
}

static const struct producer *find_seq(const Frame__State *s, int who, struct producer *ret)
{
	char id[8];
	snprintf(id, sizeof(id), "p%d", who);
	for (size_t i = 0; i < s->n_kafka; i++)
		if (who % 2 == 0 && s->kafka[i]->id == who) {
			ret->seq = (uint64_t)s->kafka[i]->written[1]->first - 10;
			ret->used_ms = s->kafka[i]->used_ms;
			return ret;
		}
	for (size_t i = 0; i < s->n_producers; i++)
		if (strcmp(s->producers[i]->id, id) == 0) {
			ret->seq = s->producers[i]->seq;
			ret->used_ms = s->producers[i]->used_ms;
			return ret;
		}
	return NULL;
}

static void assert_moment(const Frame__State *s, const struct moment *m)
{
	struct producer found;
	assert_true(s->complete && s->n_incomplete == 0 && s->last_append_ms == m->now_ms);
	for (int who = 0; who < PEOPLE; who++) {
		const struct producer *p = find_seq(s, who, &found);
		bool idle = m->used_ms[who] == 0 || m->now_ms - m->used_ms[who] >= PRODUCER_IDLE_MS;
		if (!idle)
			assert_true(p != NULL && p->seq == m->seq[who] && p->used_ms == m->used_ms[who]);
		else if (p != NULL) /* a complete entry may name it still, and nobody knows it by that time */
			assert_true(p->seq == m->seq[who] && p->used_ms == m->used_ms[who]);
	}
}

static Frame__State *copy_of(const Frame__State *s)
{
	const char *fault;
	Frame__State *copy = decode(s, &fault);
	assert_null(fault);
	return copy;
}

/* From the newest down one by one, and with a part in the middle folded before, as a merge does. */
static void test_folds_as_the_model_says(void **state)
{
	for (seed = 1; seed < 300; seed++) {
		struct moment moments[ENTRIES];
		uint64_t keep = seed;
		moments_make(moments);
		for (int k = 0; k < ENTRIES; k++) {
			Frame__State *s = copy_of(moments[k].entry);
			for (int i = k - 1; !s->complete; i--)
				assert_null(data_state_fold(s, copy_of(moments[i].entry)));
			assert_moment(s, &moments[k]);
			data_state_free(s);
			int from = (int)random_below((uint64_t)k + 1), to = (int)random_below((uint64_t)from + 1);
			Frame__State *merged = copy_of(moments[from].entry);
			for (int i = from - 1; i >= to; i--)
				assert_null(data_state_fold(merged, copy_of(moments[i].entry)));
			s = copy_of(moments[k].entry);
			for (int i = k - 1; i > from && !s->complete; i--)
				assert_null(data_state_fold(s, copy_of(moments[i].entry)));
			if (k > from)
				assert_null(data_state_fold(s, merged));
			else
				data_state_free(merged);
			for (int i = (k > from ? to : k) - 1; !s->complete; i--)
				assert_null(data_state_fold(s, copy_of(moments[i].entry)));
			assert_moment(s, &moments[k]);
			data_state_free(s);
		}
		for (int k = 0; k < ENTRIES; k++)
			data_state_free(moments[k].entry);
		seed = keep;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_refused_counts),
		cmocka_unit_test(test_which_is_newer), cmocka_unit_test(test_complete_needs_nothing),
		cmocka_unit_test(test_scalars), cmocka_unit_test(test_older_that_reaches_farther),
		cmocka_unit_test(test_producers_are_united),
		cmocka_unit_test(test_a_window_begins_anew), cmocka_unit_test(test_idle_producers_go),
		cmocka_unit_test(test_string_bound), cmocka_unit_test(test_kafka_bound),
		cmocka_unit_test(test_a_gap), cmocka_unit_test(test_folds_as_the_model_says),
	};
	return cmocka_run_group_tests_name("data_state", tests, NULL, NULL);
}
