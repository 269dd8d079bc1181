/* SPDX-License-Identifier: Apache-2.0
 *
 * State entries made of a log's state and a state made of them: every field, which entries are complete, and that a
 * state folded from entries decides as the one that saw every frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/must.h"
#include "storaged/bounds.h"
#include "storaged/data/data_format.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/log_state.h"
#include "storaged/engine/log_table.h"

#define DAY 86400000ll
#define T0 (1000 * DAY)
#define ENTRIES_MAX 64

/* One log and the entries that were written of it, oldest first. */
static struct log_table table;
static struct log *log_;
static struct buf entries[ENTRIES_MAX];
static size_t n_entries;
static uint64_t since;                  /* end of the last entry */
static int64_t now_ms;

static int set_up(void **state)
{
	table.open_max = 1;
	log_ = log_table_add(&table, 42);
	log_->epoch = 1;
	log_table_ref(&table, log_);
	n_entries = 0;
	since = 0;
	now_ms = T0;
	return 0;
}

static int tear_down(void **state)
{
	log_table_done(&table);
	for (size_t i = 0; i < n_entries; i++)
		buf_done(&entries[i]);
	return 0;
}

/* ------------------------------------------------------------------- frames */

static struct frame_facts frame_of(uint32_t records)
{
	return (struct frame_facts){
		.base = log_->open->packed.next, .next = log_->open->packed.next + records, .bytes = records * 10, .append_time = now_ms,
		.ticket = 77,
	};
}

static void string_append(const char *id, uint64_t epoch, uint64_t seq, uint32_t records)
{
	struct frame_facts f = frame_of(records);
	f.has_producer = true;
	f.producer_id = slice_str(id);
	f.producer_epoch = epoch;
	f.producer_seq = seq;
	log_state_apply(&log_->open->packed, &f);
}

static void kafka_append(int64_t id, int16_t epoch, int32_t first, uint32_t count)
{
	struct frame_facts f = frame_of(count);
	f.has_claim = true;
	f.claim = (struct kafka_claim){ .id = id, .epoch = epoch, .first = first, .count = count };
	log_state_apply(&log_->open->packed, &f);
}

/* ------------------------------------------------------------------ entries */

/* The next entry, as it is read back; freed by the caller. */
static Frame__State *decoded(size_t i)
{
	const char *fault;
	Frame__State *s = data_state_decode(buf_slice(&entries[i]), 42, &fault);
	if (s == NULL)
		fail_msg("%s", fault);
	return s;
}

static Frame__State *write_entry(void)
{
	must(n_entries < ENTRIES_MAX);
	log_state_encode(log_, since, slice_of(NULL, 0), &entries[n_entries++]);
	since = log_->open->packed.next;
	return decoded(n_entries - 1);
}

/* The state that entries [0, end) add up to. */
static void load_folded(size_t end, struct log_state *ret)
{
	Frame__State *s = decoded(end - 1);
	for (size_t i = end - 1; !s->complete; i--) {
		must(i > 0);
		assert_null(data_state_fold(s, decoded(i - 1)));
	}
	*ret = (struct log_state){ 0 };
	log_state_load(ret, s, 1);
	data_state_free(s);
}

/* What one knows, the other knows. */
static void assert_strings(const struct log_extra *a, const struct log_extra *b, int64_t at_ms)
{
	for (uint32_t i = 0; i < a->producers.n; i++) {
		struct slice id = slice_of(a->producers.entries[i].id, a->producers.entries[i].id_len);
		const struct producer *p = producer_find(&a->producers, id, at_ms), *q = producer_find(&b->producers, id, at_ms);
		assert_int_equal(p == NULL, q == NULL);
		if (p != NULL)
			assert_true(p->epoch == q->epoch && p->seq == q->seq && p->base == q->base && p->next == q->next &&
				    p->used_ms == q->used_ms);
	}
}

static void assert_kafka(const struct log_extra *a, const struct log_extra *b, int64_t at_ms)
{
	for (uint32_t i = 0; i < a->kafka.n; i++) {
		int64_t id = a->kafka.entries[i].id;
		const struct kafka_producer *p = kafka_producer_find(&a->kafka, id, at_ms);
		const struct kafka_producer *q = kafka_producer_find(&b->kafka, id, at_ms);
		assert_int_equal(p == NULL, q == NULL);
		if (p == NULL)
			continue;
		assert_true(p->epoch == q->epoch && p->used_ms == q->used_ms && p->n_written == q->n_written);
		for (unsigned k = 0; k < p->n_written; k++) {
			const struct kafka_written *v = &p->written[(p->newest + k + 1) % p->n_written];
			const struct kafka_written *w = &q->written[(q->newest + k + 1) % q->n_written];
			assert_true(v->first == w->first && v->last == w->last && v->base == w->base);
		}
	}
}

static void assert_same(const struct log_state *live, const struct log_state *loaded, int64_t at_ms)
{
	static const struct log_extra none;
	const struct log_extra *a = live->extra != NULL ? live->extra : &none;
	const struct log_extra *b = loaded->extra != NULL ? loaded->extra : &none;
	assert_true(live->next == loaded->next && live->bytes == loaded->bytes && live->last_time == loaded->last_time);
	assert_int_equal(live->closed, loaded->closed);
	assert_int_equal(a->stream_seq != NULL, b->stream_seq != NULL);
	assert_true(slice_eq(slice_of(a->stream_seq, a->stream_seq_len), slice_of(b->stream_seq, b->stream_seq_len)));
	assert_int_equal(a->has_closed_by, b->has_closed_by);
	assert_true(slice_eq(slice_of(a->closed_by_id, a->closed_by_len), slice_of(b->closed_by_id, b->closed_by_len)));
	assert_true(a->closed_by_epoch == b->closed_by_epoch && a->closed_by_seq == b->closed_by_seq);
	assert_strings(a, b, at_ms);
	assert_strings(b, a, at_ms);
	assert_kafka(a, b, at_ms);
	assert_kafka(b, a, at_ms);
}

/* -------------------------------------------------------------------- fields */

static void test_every_field(void **state)
{
	struct frame_facts f = frame_of(3);
	struct log_state loaded;
	f.has_stream_seq = true;
	f.stream_seq = slice_str("0042");
	log_state_apply(&log_->open->packed, &f);
	for (int32_t i = 0; i < 7; i++)
		kafka_append(4000, 2, i * 2, 2);
	kafka_append(4001, 0, INT32_MAX - 1, 5); /* over the end of the numbers */
	now_ms += 5;
	string_append("sensor", 3, 0, 4);
	f = frame_of(0);
	f.closes = f.has_producer = true;
	f.producer_id = slice_str("closer");
	f.producer_epoch = 9;
	log_state_apply(&log_->open->packed, &f);
	Frame__State *s = write_entry();
	assert_true(s->log_id == 42 && s->epoch == 1 && s->next == 26 && s->last_append_ms == T0 + 5 && s->bytes == 260);
	assert_true(s->closed && s->has_closer && s->closer->epoch == 9 && s->closer->seq == 0 && s->complete);
	assert_string_equal(s->closer->id, "closer");
	assert_true(s->n_epochs == 1 && s->epochs[0]->epoch == 1 && s->epochs[0]->first_offset == 0);
	assert_true(s->n_producers == 2 && s->producers[0]->first_offset == 22 && s->producers[0]->next == 26);
	assert_true(s->n_kafka == 2 && s->kafka[0]->n_written == 5 && s->kafka[0]->written[0]->first == 4);
	assert_true(s->kafka[0]->written[4]->last == 13 && s->kafka[1]->written[0]->last == 2);
	load_folded(1, &loaded);
	assert_same(&log_->open->packed, &loaded, now_ms);
	assert_true(loaded.last_ticket == 0 && loaded.close_ticket == 0 && loaded.extra->stream_seq_ticket == 0);
	assert_int_equal(producer_find(&loaded.extra->producers, slice_str("sensor"), now_ms)->ticket, 0);
	const struct kafka_written *w;
	struct kafka_claim claim = { .id = 4001, .first = 3, .count = 1 };
	int32_t expected;
	const struct kafka_producer *p = kafka_producer_find(&loaded.extra->kafka, 4001, now_ms);
	assert_int_equal(kafka_producer_decide(&loaded.extra->kafka, p, &claim, now_ms, &w, &expected), KAFKA_ACCEPT);
	log_state_done(&loaded);
	data_state_free(s);
}

static void test_a_plain_log(void **state)
{
	struct frame_facts f = frame_of(2);
	struct log_state loaded;
	log_state_apply(&log_->open->packed, &f);
	Frame__State *s = write_entry();
	assert_true(s->complete && s->n_producers == 0 && s->n_kafka == 0 && !s->closed && !s->has_stream_seq);
	assert_true(buf_len(&entries[0]) < 40);
	load_folded(1, &loaded);
	assert_null(loaded.extra);
	assert_same(&log_->open->packed, &loaded, now_ms);
	data_state_free(s);
}

/* An empty stream sequence is one. */
static void test_empty_stream_seq(void **state)
{
	struct frame_facts f = frame_of(2);
	struct log_state loaded;
	f.has_stream_seq = true;
	log_state_apply(&log_->open->packed, &f);
	data_state_free(write_entry());
	load_folded(1, &loaded);
	assert_same(&log_->open->packed, &loaded, now_ms);
	log_state_done(&loaded);
}

/* ------------------------------------------------------------------- complete */

static void many_producers(uint32_t n)
{
	char id[32];
	for (uint32_t i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "p%u", i);
		string_append(id, 1, 0, 1);
	}
}

/* One is as long as its id makes it: the entry is complete up to 4,096 bytes of producers, and not with one more. */
static void test_complete_up_to_4_kib(void **state)
{
	char id[300];
	data_state_free(write_entry()); /* the first of its epoch */
	memset(id, 'x', sizeof(id));
	for (int i = 0; i < 16; i++) {
		snprintf(id, 4, "%03d", i);
		id[3] = 'x';
		id[PRODUCER_ID_MAX] = 0;
		id[i < 15 ? 237 : 219] = 0;
		string_append(id, 0, 0, 1); /* 237 + 2 + 3 + 2 of next + 8 of used_ms, and 2 or 0 of first_offset */
		id[i < 15 ? 237 : 219] = 'x';
	}
	Frame__State *s = write_entry(), without = *s;
	without.n_producers = 0;
	size_t n = frame__state__get_packed_size(s) - frame__state__get_packed_size(&without);
	assert_true(s->complete);
	data_state_free(s);
	kafka_append(1, 0, 0, 1);
	string_append("y", 0, 0, 1);
	for (;;) { /* by a byte at a time */
		log_->open->n_incomplete = 0;
		char *grown = must_realloc(log_->open->packed.extra->producers.entries[16].id, 300);
		log_->open->packed.extra->producers.entries[16].id = grown;
		grown[log_->open->packed.extra->producers.entries[16].id_len++] = 'y';
		struct buf one;
		const char *fault;
		log_state_encode(log_, since, slice_of(NULL, 0), &one);
		s = data_state_decode(buf_slice(&one), 42, &fault);
		assert_non_null(s);
		without = *s;
		without.n_producers = without.n_kafka = 0;
		size_t bytes = frame__state__get_packed_size(s) - frame__state__get_packed_size(&without);
		bool complete = s->complete;
		assert_int_equal(s->n_producers, complete ? 17 : 1);
		data_state_free(s);
		buf_done(&one);
		if (!complete)
			break;
		assert_true(bytes <= bounds.state_complete && bytes >= n);
		n = bytes;
	}
	assert_int_equal(n, bounds.state_complete);
}

/* Too many for that: seven in a row name only who wrote, the eighth names all. */
static void test_every_eighth_is_complete(void **state)
{
	many_producers(1000);
	for (uint32_t i = 0; i < 20; i++) {
		if (i > 0)
			string_append("p7", 1, i, 1);
		Frame__State *s = write_entry();
		assert_int_equal(s->complete, i % 8 == 0);
		assert_int_equal(s->n_incomplete, i % 8);
		assert_int_equal(s->n_producers, i % 8 == 0 ? 1000 : 1);
		assert_string_equal(s->producers[s->n_producers - 1]->id, i == 0 ? "p999" : "p7");
		data_state_free(s);
		assert_int_equal(log_->open->n_incomplete, i % 8);
	}
}

static void test_first_of_an_epoch_is_complete(void **state)
{
	many_producers(1000);
	data_state_free(write_entry());
	string_append("p7", 1, 1, 1);
	data_state_free(write_entry());
	assert_int_equal(log_->open->n_incomplete, 1);
	log_->epoch = 2;
	log_->open->has_entry = false;
	string_append("p8", 1, 1, 1);
	Frame__State *s = write_entry();
	assert_true(s->complete && s->epoch == 2 && s->n_producers == 1000 && s->n_incomplete == 0);
	data_state_free(s);
}

/* Who wrote are all there are: nothing is missing, so it is complete. */
static void test_all_of_many_is_complete(void **state)
{
	data_state_free(write_entry());
	many_producers(1000);
	Frame__State *s = write_entry();
	assert_true(s->complete && s->n_producers == 1000);
	data_state_free(s);
	for (int64_t id = 0; id < 1000; id++)
		kafka_append(id, 0, 0, 1);
	s = write_entry();
	assert_true(!s->complete && s->n_producers == 0 && s->n_kafka == 1000);
	data_state_free(s);
}

/* A window goes out whole, also with batches from before the entry before. */
static void test_whole_windows(void **state)
{
	many_producers(1000);
	for (int32_t i = 0; i < 8; i++)
		kafka_append(5, 0, i, 1);
	kafka_append(6, 0, 0, 1);
	data_state_free(write_entry());
	kafka_append(5, 0, 8, 1);
	Frame__State *s = write_entry();
	assert_true(!s->complete && s->n_kafka == 1 && s->kafka[0]->id == 5 && s->kafka[0]->n_written == 5);
	assert_true(s->kafka[0]->written[0]->first == 4 && s->kafka[0]->written[4]->first == 8);
	data_state_free(s);
	struct log_state loaded;
	load_folded(2, &loaded);
	assert_same(&log_->open->packed, &loaded, now_ms);
	log_state_done(&loaded);
}

static void test_idle_ones_are_not_named(void **state)
{
	string_append("old", 1, 0, 1);
	kafka_append(1, 0, 0, 1);
	now_ms += 1;
	string_append("less", 1, 0, 1);
	kafka_append(2, 0, 0, 1);
	now_ms += 7 * DAY - 1;
	string_append("new", 1, 0, 1);
	Frame__State *s = write_entry();
	assert_true(s->complete && s->n_producers == 2 && s->n_kafka == 1 && s->kafka[0]->id == 2);
	assert_string_equal(s->producers[0]->id, "less");
	data_state_free(s);
	struct log_state loaded;
	load_folded(1, &loaded);
	assert_same(&log_->open->packed, &loaded, now_ms);
	log_state_done(&loaded);
}

/* ------------------------------------------------------------------ bounds */

static void test_bounds(void **state)
{
	struct log_state loaded;
	char id[PRODUCER_ID_MAX + 1];
	memset(id, 'z', sizeof(id));
	id[PRODUCER_ID_MAX] = 0;
	for (uint32_t i = 0; i < PRODUCERS_MAX; i++) {
		memcpy(id, &(char[8]){ '0' + i / 1000 % 10, '0' + i / 100 % 10, '0' + i / 10 % 10, '0' + i % 10 }, 4);
		string_append(id, UINT64_MAX, UINT64_MAX, 1);
	}
	for (int32_t k = 0; k < 5; k++)
		for (int64_t p = 0; p < KAFKA_PRODUCERS_MAX; p++)
			kafka_append(INT64_MAX - p, INT16_MAX, INT32_MAX - 100 + k, 1);
	Frame__State *s = write_entry();
	assert_true(s->n_producers == PRODUCERS_MAX && s->n_kafka == KAFKA_PRODUCERS_MAX);
	assert_true(buf_len(&entries[0]) < DATA_ENTRY_MAX);
	data_state_free(s);
	load_folded(1, &loaded);
	assert_same(&log_->open->packed, &loaded, now_ms);
	/* Who goes next is the same: the one that wrote longest ago. */
	now_ms += DAY;
	struct kafka_claim claim = { .id = 1, .count = 1 };
	assert_int_equal(kafka_producer_accept(&loaded.extra->kafka, &claim, now_ms, loaded.next, 0), 1);
	assert_null(kafka_producer_find(&loaded.extra->kafka, INT64_MAX, now_ms));
	assert_non_null(kafka_producer_find(&loaded.extra->kafka, INT64_MAX - 1, now_ms));
	log_state_done(&loaded);
}

static void test_epochs(void **state)
{
	struct frame_facts f = frame_of(2);
	for (uint32_t epoch = 1; epoch <= 20; epoch++) {
		log_->epoch = epoch;
		f.base = log_->open->packed.next;
		f.next = f.base + 2;
		log_state_apply(&log_->open->packed, &f);
		Frame__State *s = write_entry();
		size_t n = epoch < 16 ? epoch : 16;
		assert_int_equal(s->n_epochs, n);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(s->epochs[i]->epoch, epoch - n + 1 + i);
			assert_int_equal(s->epochs[i]->first_offset, 2 * (epoch - n + i));
		}
		log_state_done(&log_->open->packed);
		log_state_load(&log_->open->packed, s, epoch + 1); /* the next owner */
		data_state_free(s);
		s = decoded(n_entries - 1);
		log_state_done(&log_->open->packed);
		log_state_load(&log_->open->packed, s, epoch); /* the same owner again: nothing is added */
		assert_int_equal(log_->open->packed.extra == NULL ? 1 : log_->open->packed.extra->n_epochs, n);
		log_state_done(&log_->open->packed);
		log_state_load(&log_->open->packed, s, epoch + 1);
		data_state_free(s);
	}
}

/* -------------------------------------------------------------------- model */

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* An append of some producer that is right for it: the next number, or any after it was forgotten. */
static void random_append(void)
{
	char id[48];
	now_ms += random_below(400) == 0 ? (int64_t)random_below(9 * DAY) : (int64_t)random_below(1000);
	uint64_t who = random_below(120);
	if (who % 2 == 0) {
		static const struct kafka_producers none;
		const struct kafka_producers *t = log_->open->packed.extra != NULL ? &log_->open->packed.extra->kafka : &none;
		const struct kafka_producer *p = kafka_producer_find(t, (int64_t)who, now_ms);
		bool newer = random_below(20) == 0;
		int32_t first = p == NULL || newer ? 0 : (kafka_producer_last(p)->last + 1) & INT32_MAX;
		kafka_append((int64_t)who, (int16_t)((p != NULL ? p->epoch : 0) + newer), first, 1 + (uint32_t)random_below(3));
	} else {
		snprintf(id, sizeof(id), "producer-with-a-long-name-to-be-many-bytes-%llu", (unsigned long long)who);
		string_append(id, 1, random_below(1000), (uint32_t)random_below(3));
	}
}

static void test_folded_is_as_live(void **state)
{
	size_t n_incomplete = 0;
	for (uint64_t run = 1; run <= 200; run++) {
		seed = run;
		for (size_t i = 0; i < 30; i++) {
			struct log_state loaded;
			for (uint64_t n = random_below(i == 0 ? 400 : 40); n > 0; n--)
				random_append();
			struct frame_facts f = frame_of(1); /* an entry is written when something was */
			log_state_apply(&log_->open->packed, &f);
			Frame__State *s = write_entry();
			n_incomplete += !s->complete;
			assert_true(s->n_incomplete == log_->open->n_incomplete && s->n_incomplete <= DATA_STATE_INCOMPLETE_MAX);
			data_state_free(s);
			load_folded(n_entries, &loaded);
			assert_same(&log_->open->packed, &loaded, now_ms);
			log_state_done(&loaded);
		}
		tear_down(state);
		set_up(state);
	}
	assert_true(n_incomplete > 1000 && n_incomplete < 6000);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_every_field), CASE(test_a_plain_log), CASE(test_empty_stream_seq),
		CASE(test_complete_up_to_4_kib), CASE(test_every_eighth_is_complete),
		CASE(test_first_of_an_epoch_is_complete), CASE(test_all_of_many_is_complete), CASE(test_whole_windows),
		CASE(test_idle_ones_are_not_named), CASE(test_bounds), CASE(test_epochs), CASE(test_folded_is_as_live),
	};
	return cmocka_run_group_tests_name("log_state", tests, NULL, NULL);
}
