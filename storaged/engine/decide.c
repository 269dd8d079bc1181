/* SPDX-License-Identifier: Apache-2.0
 *
 * May this append be written? A row of questions in the order of its protocol; the first that has an
 * answer ends it. Asked of the submitted log, so that appends in flight are seen; `ticket` is that of the
 * frame an answer rests on, and the answer is given when that frame is confirmed.
 */
#include "storaged/engine/append.h"

#include "common/metrics.h"

struct question {
	struct engine_append *a;
	struct log *log;
	int64_t now_ms;
	uint64_t ticket;
};

/* Answers, or -1 to go on. */
typedef int step_fn(struct question *q);

static int refuse(struct question *q, uint64_t ticket)
{
	q->ticket = ticket;
	return APPEND_REFUSE;
}

static int duplicate(struct question *q, uint64_t ticket)
{
	q->a->duplicate = true;
	q->ticket = ticket;
	return APPEND_ANSWER;
}

static int step_producer(struct question *q)
{
	struct engine_append *a = q->a;
	struct pico_error *e = &a->verdict;
	if (!a->has_producer)
		return -1;
	const struct producer *p = NULL;
	if (q->log->open->submitted.extra != NULL)
		p = producer_find(&q->log->open->submitted.extra->producers, a->producer_id, q->now_ms);
	uint64_t ticket = p != NULL ? p->ticket : 0, expected;
	switch (producer_decide(p, a->producer_epoch, a->producer_seq, &expected)) {
	case PRODUCER_ACCEPT:
		a->accepted_epoch = a->producer_epoch;
		a->accepted_seq = a->producer_seq;
		return -1;
	case PRODUCER_DUPLICATE:
		a->accepted_epoch = p->epoch;
		a->accepted_seq = p->seq;
		if (a->producer_seq == p->seq && p->next > p->base) {
			a->base_known = true;
			a->base_offset = p->base;
		}
		return duplicate(q, ticket);
	case PRODUCER_FENCED:
		pico_error_set(e, PICO_FENCED, "a newer epoch of this producer has written");
		e->producer_epoch = p->epoch;
		e->has_producer_epoch = true;
		return refuse(q, ticket);
	case PRODUCER_GAP:
		pico_error_set(e, PICO_SEQUENCE_GAP, expected == 0 ? "a new epoch must start with sequence 0" :
			       "a sequence number is missing before this one");
		e->expected_seq = expected;
		e->received_seq = a->producer_seq;
		e->has_gap = true;
		e->has_producer_epoch = p != NULL && expected == 0;     /* it is known: its epoch is a new one */
		e->producer_epoch = e->has_producer_epoch ? p->epoch : 0;
		return refuse(q, ticket);
	}
	return -1;
}

static void kafka_gap(struct engine_append *a, int32_t expected)
{
	struct pico_error *e = &a->verdict;
	pico_error_set(e, PICO_SEQUENCE_GAP, expected == 0 ? "a new epoch must start with sequence 0" :
		       "neither the next sequence number nor one of the last five batches");
	e->expected_seq = (uint64_t)expected;
	e->received_seq = (uint64_t)a->claim.first;
	e->has_gap = true;
}

/* The producer fields of a client's batch. */
static int step_claim(struct question *q)
{
	static const struct kafka_producers none;
	struct engine_append *a = q->a;
	if (!a->has_claim)
		return -1;
	const struct kafka_producers *t = q->log->open->submitted.extra != NULL ? &q->log->open->submitted.extra->kafka : &none;
	const struct kafka_producer *p = kafka_producer_find(t, a->claim.id, q->now_ms);
	const struct kafka_written *original;
	int32_t expected;
	switch (kafka_producer_decide(t, p, &a->claim, q->now_ms, &original, &expected)) {
	case KAFKA_ACCEPT:
		return -1;
	case KAFKA_DUPLICATE:
		a->base_known = true;
		a->base_offset = original->base;
		return duplicate(q, original->ticket);
	case KAFKA_FENCED:
		pico_error_set(&a->verdict, PICO_FENCED, "a newer epoch of this producer has written");
		a->verdict.producer_epoch = (uint64_t)p->epoch;
		a->verdict.has_producer_epoch = true;
		return refuse(q, kafka_producer_last(p)->ticket);
	case KAFKA_GAP:
		kafka_gap(a, expected);
		return refuse(q, kafka_producer_last(p)->ticket);
	case KAFKA_FULL:
		metric_add(METRIC_KAFKA_PRODUCERS_REFUSED, 1);
		pico_error_set(&a->verdict, PICO_THROTTLED, "too many producers wrote to this partition within an hour");
		return refuse(q, 0);
	}
	return -1;
}

static bool is_closer(const struct log *log, const struct engine_append *a)
{
	const struct log_extra *x = log->open->submitted.extra;
	return a->has_producer && x != NULL && x->has_closed_by &&
	       slice_eq(a->producer_id, slice_of(x->closed_by_id, x->closed_by_len)) &&
	       a->producer_epoch == x->closed_by_epoch && a->producer_seq == x->closed_by_seq;
}

static int step_closed(struct question *q)
{
	struct engine_append *a = q->a;
	struct log *log = q->log;
	if (!log->open->submitted.closed && (!log->closing || a->close_after))
		return -1;
	uint64_t ticket = log->open->submitted.closed ? log->open->submitted.close_ticket : log->open->submitted.last_ticket;
	if (log->open->submitted.closed) {
		a->accepted_epoch = a->producer_epoch;
		a->accepted_seq = a->producer_seq;
		if (is_closer(log, a))
			return duplicate(q, ticket);
		bool closer_known = log->open->submitted.extra != NULL && log->open->submitted.extra->has_closed_by;
		if (a->close_after && a->payload.n == 0 && (!a->has_producer || !closer_known)) {
			a->was_closed = true;
			q->ticket = ticket;
			return APPEND_ANSWER;
		}
	}
	pico_error_set(&a->verdict, PICO_CLOSED, "stream is closed");
	a->verdict.next_offset = log->open->submitted.next;
	a->verdict.has_next_offset = true;
	return refuse(q, ticket);
}

static int step_type(struct question *q)
{
	struct engine_append *a = q->a;
	if (!a->wrong_type)
		return -1;
	pico_error_set(&a->verdict, PICO_CONFLICT, "the stream has another content type");
	a->verdict.next_offset = log_confirm(q->log);
	a->verdict.has_next_offset = true;
	return refuse(q, 0);
}

static int step_match(struct question *q)
{
	struct engine_append *a = q->a;
	if (!a->has_match_seq || a->match_seq == q->log->open->submitted.next)
		return -1;
	pico_error_set(&a->verdict, PICO_MATCH_FAILED, "expected the next sequence to be %llu, it is %llu",
		       (unsigned long long)a->match_seq, (unsigned long long)q->log->open->submitted.next);
	a->verdict.next_offset = q->log->open->submitted.next;
	a->verdict.has_next_offset = true;
	return refuse(q, q->log->open->submitted.last_ticket);
}

static int step_stream_seq(struct question *q)
{
	struct engine_append *a = q->a;
	const struct log_extra *x = q->log->open->submitted.extra;
	if (!a->has_stream_seq || x == NULL || x->stream_seq == NULL ||
	    slice_cmp(a->stream_seq, slice_of(x->stream_seq, x->stream_seq_len)) > 0)
		return -1;
	pico_error_set(&a->verdict, PICO_CONFLICT, "the stream sequence does not advance");
	a->verdict.next_offset = q->log->open->submitted.next;
	a->verdict.has_next_offset = true;
	return refuse(q, q->log->open->submitted.last_ticket);
}

enum append_decision append_decide(struct engine_append *a, int64_t now_ms, uint64_t *ret_ticket)
{
	static step_fn *const orders[2][6] = {
		[APPEND_PRODUCER_FIRST] = { step_type, step_claim, step_producer, step_closed, step_match, step_stream_seq },
		[APPEND_CLOSED_FIRST] = { step_closed, step_type, step_claim, step_producer, step_stream_seq, step_match },
	};
	struct question q = { .a = a, .log = a->log, .now_ms = now_ms };
	must(a->order == APPEND_PRODUCER_FIRST || a->order == APPEND_CLOSED_FIRST);
	for (int i = 0; i < 6; i++) {
		int answer = orders[a->order][i](&q);
		if (answer >= 0) {
			*ret_ticket = q.ticket;
			return (enum append_decision)answer;
		}
	}
	*ret_ticket = a->log->open->submitted.last_ticket;
	return APPEND_TAKE;
}
