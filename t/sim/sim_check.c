/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks. They look at the history alone and know nothing of the node. The final log is what the
 * read-back at the end showed; a log whose topic may have been deleted has none, and what was read of it only has to
 * agree with itself.
 */
#include "t/sim/sim_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/pico_error.h"

/* A wait may be answered that much after the append that ends it: scheduling and injected delays. */
#define WAKE_NS 1000000000ull

/* What became of a value. */
struct value {
	uint32_t log;                   /* HIST_NONE: never appended */
	uint32_t n_records;
	uint32_t n_found;               /* records of it in final logs */
	uint64_t base;                  /* of its first record found */
	uint32_t found_log;
	bool acked, maybe, duplicate, broken, doubled;
	uint64_t acked_base;
	bool base_known;
	uint64_t acked_ns;              /* first acknowledgement */
	uint32_t acked_proc;            /* and whose */
};

struct judge {
	const struct history *h;
	struct value *values;
	struct sim_fault_found *found;
};

__attribute__((format(printf, 3, 4)))
static bool fault(struct judge *j, int check, const char *fmt, ...)
{
	if (j->found->check != 0)
		return false;
	j->found->check = check;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(j->found->text, sizeof(j->found->text), fmt, ap);
	va_end(ap);
	return false;
}

static bool is_final(const struct judge *j, uint32_t log)
{
	return log != HIST_NONE && j->h->logs[log].read_back;
}

/* It may stand below the start of its final log. */
static bool is_trimmed(const struct judge *j, const struct value *v)
{
	if (!is_final(j, v->log) || j->h->logs[v->log].start == 0)
		return false;
	return v->base_known ? v->acked_base + v->n_records <= j->h->logs[v->log].start : v->acked || v->maybe;
}

static bool is_there(const struct judge *j, const struct value *v)
{
	return v->n_found > 0 || is_trimmed(j, v);
}

/* ------------------------------------------------------------ 1, 3: values */

static void gather_attempt(struct judge *j, const struct hist_op *op)
{
	struct value *v = &j->values[op->value];
	v->log = op->log;
	v->n_records = op->n_records;
	if (op->outcome == HIST_UNKNOWN)
		v->maybe = true;
	if (op->outcome != HIST_OK || op->check_only)
		return;
	if (!v->acked || op->answered_ns < v->acked_ns) {
		v->acked_ns = op->answered_ns;
		v->acked_proc = op->proc;
	}
	v->acked = true;
	v->duplicate |= op->duplicate;
	if (op->base_known) {
		v->base_known = true;
		v->acked_base = op->base;
	}
}

static bool gather_final_log(struct judge *j, uint32_t index)
{
	const struct hist_log *log = &j->h->logs[index];
	for (size_t i = 0; i < log->n_records; i++) {
		const struct hist_record *r = &j->h->records[log->first_record + i];
		if (r->offset != log->start + i)
			return fault(j, 1, "log %u: offset %" PRIu64 " where %" PRIu64 " is due", index, r->offset,
				     log->start + i);
		if (r->value >= j->h->n_values)
			return fault(j, 1, "log %u offset %" PRIu64 " holds nobody's value", index, r->offset);
		if (i < history_inherited(log)) /* check 14 */
			continue;
		struct value *v = &j->values[r->value];
		if (r->index == 0 && v->n_found == 0) {
			v->base = r->offset;
			v->found_log = index;
		}
		if (i == 0 && log->start > 0 && r->index > 0 && r->index < v->n_records) { /* the start lies in it */
			v->n_found = r->index;
			v->base = r->offset - r->index;
			v->found_log = index;
		}
		if (r->index != v->n_found || v->found_log != index || r->offset != v->base + r->index)
			v->doubled = v->n_found >= v->n_records || r->index < v->n_found, v->broken = true;
		v->n_found++;
	}
	if (log->start + log->n_records != log->confirm)
		return fault(j, 1, "log %u: %zu records up to high watermark %" PRIu64, index, log->n_records,
			     log->confirm);
	return true;
}

static bool check_value(struct judge *j, uint32_t number)
{
	const struct value *v = &j->values[number];
	if (v->doubled)
		return fault(j, 1, "value %u is there twice", number);
	if (v->broken || (v->n_found > 0 && v->n_found != v->n_records))
		return fault(j, 3, "value %u: not a whole batch, %u of %u records", number, v->n_found, v->n_records);
	if (!is_final(j, v->log))
		return true;
	if (v->n_found > 0 && v->found_log != v->log)
		return fault(j, 1, "value %u of log %u is in log %u", number, v->log, v->found_log);
	if (v->acked && v->n_records > 0 && !is_there(j, v))
		return fault(j, 3, "value %u was acknowledged in log %u and is lost", number, v->log);
	if (!v->acked && !v->maybe && v->n_found > 0)
		return fault(j, 3, "value %u was refused and is there, log %u offset %" PRIu64, number, v->log, v->base);
	if (v->base_known && v->n_found > 0 && v->acked_base != v->base)
		return fault(j, 1, "value %u was acknowledged at %" PRIu64 " and is at %" PRIu64, number, v->acked_base,
			     v->base);
	return true;
}

static bool check_values(struct judge *j)
{
	for (size_t i = 0; i < j->h->n_ops; i++)
		if (j->h->ops[i].kind == HIST_APPEND && j->h->ops[i].value != HIST_NONE)
			gather_attempt(j, &j->h->ops[i]);
	for (uint32_t i = 0; i < j->h->n_logs; i++)
		if (j->h->logs[i].read_back && !gather_final_log(j, i))
			return false;
	for (uint32_t i = 0; i < j->h->n_values; i++)
		if (!check_value(j, i))
			return false;
	return true;
}

/* --------------------------------------------------------------- 2: order */

static int by_answer(const void *a, const void *b)
{
	const struct hist_op *x = *(const struct hist_op *const *)a, *y = *(const struct hist_op *const *)b;
	if (x->answered_ns != y->answered_ns)
		return x->answered_ns < y->answered_ns ? -1 : 1;
	return (x > y) - (x < y);
}

static int by_invoke(const void *a, const void *b)
{
	const struct hist_op *x = *(const struct hist_op *const *)a, *y = *(const struct hist_op *const *)b;
	if (x->invoked_ns != y->invoked_ns)
		return x->invoked_ns < y->invoked_ns ? -1 : 1;
	return (x > y) - (x < y);
}

static bool is_placed(const struct hist_op *op)
{
	return op->kind == HIST_APPEND && op->outcome == HIST_OK && !op->duplicate && op->n_records > 0 &&
	       op->base_known && !op->check_only;
}

/* Appends of one log in two orders: what was answered before an append was invoked must stand below it. */
static bool check_order_of(struct judge *j, const struct hist_op **by_a, const struct hist_op **by_i, size_t n)
{
	qsort(by_a, n, sizeof(*by_a), by_answer);
	qsort(by_i, n, sizeof(*by_i), by_invoke);
	uint64_t floor = 0;
	uint32_t who = 0;
	size_t a = 0;
	for (size_t i = 0; i < n; i++) {
		for (; a < n && by_a[a]->answered_ns < by_i[i]->invoked_ns; a++)
			if (by_a[a]->base + by_a[a]->n_records > floor) {
				floor = by_a[a]->base + by_a[a]->n_records;
				who = by_a[a]->value;
			}
		if (by_i[i]->base < floor)
			return fault(j, 2, "log %u: value %u at %" PRIu64 " was sent after value %u below %" PRIu64
				     " had been answered", by_i[i]->log, by_i[i]->value, by_i[i]->base, who, floor);
	}
	return true;
}

/* Pipelined appends of one connection are applied in the order they came. */
static bool check_pipeline(struct judge *j, const struct hist_op **by_i, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = i; k-- > 0 && i - k < 16;)
			if (by_i[k]->stream == by_i[i]->stream && by_i[k]->proc == by_i[i]->proc &&
			    by_i[k]->attempt == 1 && by_i[i]->attempt == 1 && by_i[k]->base > by_i[i]->base)
				return fault(j, 2, "log %u: value %u was sent before value %u and stands behind it",
					     by_i[i]->log, by_i[k]->value, by_i[i]->value);
	return true;
}

static bool check_order(struct judge *j)
{
	const struct history *h = j->h;
	const struct hist_op **a = must_calloc(h->n_ops, sizeof(*a)), **b = must_calloc(h->n_ops, sizeof(*b));
	bool good = true;
	for (uint32_t log = 0; log < h->n_logs && good; log++) {
		size_t n = 0;
		for (size_t i = 0; i < h->n_ops; i++)
			if (h->ops[i].log == log && is_placed(&h->ops[i]))
				a[n] = b[n] = &h->ops[i], n++;
		good = check_order_of(j, a, b, n) && check_pipeline(j, b, n);
	}
	free(a);
	free(b);
	return good;
}

/* -------------------------------------------------------------- 4, 6: reads */

static bool same_record(const struct hist_record *a, const struct hist_record *b)
{
	return a->value == b->value && a->index == b->index && a->timestamp == b->timestamp && a->crc == b->crc;
}

static bool check_read(struct judge *j, const struct hist_op *op)
{
	const struct hist_log *log = &j->h->logs[op->log];
	if (op->base != op->from)
		return fault(j, 6, "log %u: asked from %" PRIu64 ", read from %" PRIu64, op->log, op->from, op->base);
	for (size_t i = 0; i < op->n_seen; i++) {
		const struct hist_record *r = &j->h->records[op->first_record + i];
		if (i > 0 && r->offset != r[-1].offset + 1)
			return fault(j, 6, "log %u: a read goes from %" PRIu64 " to %" PRIu64, op->log, r[-1].offset,
				     r->offset);
		if (!log->read_back)
			continue;
		uint64_t at = r->offset - log->start;
		if (r->offset < log->start)
			continue; /* trimmed: check 13 says whether it might be */
		if (at >= log->n_records)
			return fault(j, 5, "log %u: offset %" PRIu64 " was read and is gone", op->log, r->offset);
		if (!same_record(r, &j->h->records[log->first_record + at]))
			return fault(j, 4, "log %u offset %" PRIu64 " was read as value %u, is value %u", op->log,
				     r->offset, r->value, j->h->records[log->first_record + at].value);
	}
	if (op->n_seen > 0 && j->h->records[op->first_record].offset > op->from)
		return fault(j, 6, "log %u: asked from %" PRIu64 ", first record %" PRIu64, op->log, op->from,
			     j->h->records[op->first_record].offset);
	if (op->n_seen > 0 && j->h->records[op->first_record + op->n_seen - 1].offset + 1 != op->next)
		return fault(j, 6, "log %u: a read that ends at %" PRIu64 " says %" PRIu64, op->log,
			     j->h->records[op->first_record + op->n_seen - 1].offset + 1, op->next);
	return true;
}

static bool check_reads(struct judge *j)
{
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->kind == HIST_READ && op->outcome == HIST_OK && !check_read(j, op))
			return false;
	}
	return true;
}

/* ------------------------------------------------- 12: stamps, stream sequences */

static bool check_stamps(struct judge *j, uint32_t index)
{
	const struct hist_log *log = &j->h->logs[index];
	const struct hist_record *r = &j->h->records[log->first_record];
	for (size_t i = 1; i < log->n_records; i++)
		if (r[i].timestamp < r[i - 1].timestamp)
			return fault(j, 12, "log %u offset %" PRIu64 ": the stamp runs backwards", index, r[i].offset);
	return true;
}

/* In the order of the final log the stream sequences of all values that had one advance. */
static bool check_stream(struct judge *j, uint32_t index, const struct hist_op **of_value)
{
	const struct hist_log *log = &j->h->logs[index];
	const struct hist_op *last = NULL;
	for (size_t i = history_inherited(log); i < log->n_records; i++) {
		const struct hist_op *op = of_value[j->h->records[log->first_record + i].value];
		if (op == NULL || op == last || !op->has_stream_seq)
			continue;
		if (last != NULL && op->stream_seq <= last->stream_seq)
			return fault(j, 12, "log %u: the stream sequence of value %u does not advance", index, op->value);
		last = op;
	}
	return true;
}

static bool check_told_stamp(struct judge *j, const struct hist_op *op)
{
	if (op->kind != HIST_APPEND || op->outcome != HIST_OK || op->duplicate || !op->base_known ||
	    !is_final(j, op->log) || op->timestamp == 0)
		return true;
	const struct hist_log *log = &j->h->logs[op->log];
	if (op->base >= log->start && op->base < log->confirm &&
	    j->h->records[log->first_record + (op->base - log->start)].timestamp != op->timestamp)
		return fault(j, 12, "value %u was told another stamp than it has", op->value);
	return true;
}

static bool check_stamps_and_streams(struct judge *j)
{
	const struct history *h = j->h;
	const struct hist_op **of_value = must_calloc(h->n_values, sizeof(*of_value));
	bool good = true;
	for (size_t i = 0; i < h->n_ops; i++)
		if (h->ops[i].kind == HIST_APPEND && h->ops[i].value != HIST_NONE)
			of_value[h->ops[i].value] = &h->ops[i];
	for (uint32_t i = 0; i < h->n_logs && good; i++)
		good = !h->logs[i].read_back || (check_stamps(j, i) && check_stream(j, i, of_value));
	for (size_t i = 0; i < h->n_ops && good; i++)
		good = check_told_stamp(j, &h->ops[i]);
	free(of_value);
	return good;
}

/* ------------------------------------------------------- 5: high watermark */

/* A wait that ends because its topic is gone shows no watermark. */
static bool is_gone(const struct hist_op *op)
{
	return op->kind == HIST_WAIT && op->ready && !op->closed && op->confirm <= op->from;
}

/* What an answer says about the high watermark: at least so much is durable. */
static bool watermark_of(const struct hist_op *op, uint64_t *ret_confirm)
{
	if (op->log == HIST_NONE || op->answered_ns == 0 || is_gone(op))
		return false;
	bool append = op->kind == HIST_APPEND && op->outcome == HIST_OK && !op->check_only && !op->duplicate;
	bool shown = (op->kind == HIST_OFFSETS || op->kind == HIST_READ || op->kind == HIST_WAIT) &&
		     op->outcome == HIST_OK;
	bool named = op->outcome == HIST_REFUSED && op->has_next;
	*ret_confirm = shown ? op->confirm : op->next;
	return append || shown || named;
}

/* An answer that says "closed" says that nothing follows. */
static bool check_closed_answer(struct judge *j, const struct hist_op *op)
{
	bool shown = op->kind == HIST_OFFSETS || op->kind == HIST_READ || (op->kind == HIST_WAIT && op->ready);
	if (!shown || !op->closed || op->outcome != HIST_OK || !is_final(j, op->log))
		return true;
	if (!j->h->logs[op->log].closed || j->h->logs[op->log].confirm != op->confirm)
		return fault(j, 9, "log %u was shown closed at %" PRIu64 ", and goes on", op->log, op->confirm);
	return true;
}

/* Every answer that shows the watermark, on the same start of the node or a newer one, must show at least
 * what an answer before its call showed; and nothing may be shown that is not there at the end. */
static bool check_watermark_of(struct judge *j, uint32_t number)
{
	const struct hist_op *op = &j->h->ops[number];
	uint64_t confirm, older;
	if (!watermark_of(op, &confirm))
		return true;
	if (!check_closed_answer(j, op))
		return false;
	if (confirm == 0 && op->topic != HIST_NONE && j->h->topics[op->topic].initial && op->kind != HIST_APPEND &&
	    op->outcome == HIST_OK && j->h->logs[op->log].partition == 0)
		return fault(j, 5, "log %u was shown before its first records", op->log);
	if (is_final(j, op->log) && confirm > j->h->logs[op->log].confirm)
		return fault(j, 5, "log %u: an answer rests on offset %" PRIu64 ", the log ends at %" PRIu64, op->log,
			     confirm, j->h->logs[op->log].confirm);
	if (op->has_next || op->kind == HIST_APPEND)
		return true;
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *b = &j->h->ops[i];
		if (b->log == op->log && b->proc <= op->proc && watermark_of(b, &older) &&
		    b->answered_ns < op->invoked_ns && older > confirm)
			return fault(j, 5, "log %u: high watermark %" PRIu64 " after %" PRIu64 " had been shown",
				     op->log, confirm, older);
	}
	return true;
}

/* A read that says it reached the end shows no less than what was known before. */
static bool check_watermarks(struct judge *j)
{
	for (uint32_t i = 0; i < j->h->n_ops; i++)
		if (!check_watermark_of(j, i))
			return false;
	return true;
}

/* ---------------------------------------------------------- 5, 7: producers */

/* Whether the record of (producer, epoch, seq) stands in the final log of op. */
static const struct hist_op *attempt_of(const struct judge *j, const struct hist_op *op, uint64_t epoch, uint64_t seq,
					bool present)
{
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *b = &j->h->ops[i];
		if (b->kind == HIST_APPEND && b->producer == op->producer && b->log == op->log && b->epoch == epoch &&
		    b->seq == seq && !b->check_only &&
		    (!present || is_there(j, &j->values[b->value]) || b->n_records == 0))
			return b;
	}
	return NULL;
}

static bool check_fenced(struct judge *j, const struct hist_op *op)
{
	if (op->known_epoch <= op->epoch)
		return fault(j, 5, "producer %u epoch %" PRIu64 " was fenced by epoch %" PRIu64, op->producer, op->epoch,
			     op->known_epoch);
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *b = &j->h->ops[i];
		if (b->kind == HIST_APPEND && b->producer == op->producer && b->log == op->log &&
		    b->epoch == op->known_epoch && (is_there(j, &j->values[b->value]) || b->n_records == 0))
			return true;
	}
	return fault(j, 5, "producer %u was fenced by epoch %" PRIu64 ", of which nothing is there", op->producer,
		     op->known_epoch);
}

static bool check_gap(struct judge *j, const struct hist_op *op)
{
	if (op->expected > 0 && attempt_of(j, op, op->epoch, op->expected - 1, true) == NULL)
		return fault(j, 5, "producer %u: seq %" PRIu64 " is expected, the one before it is not there", op->producer,
			     op->expected);
	for (uint64_t seq = op->expected; seq < op->seq; seq++) {
		const struct hist_op *b = attempt_of(j, op, op->epoch, seq, false);
		if (b != NULL && j->values[b->value].acked && j->values[b->value].acked_ns < op->invoked_ns &&
		    j->values[b->value].acked_proc <= op->proc)
			return fault(j, 7, "producer %u: seq %" PRIu64 " was acknowledged, later %" PRIu64
				     " is expected", op->producer, seq, op->expected);
	}
	return true;
}

static bool check_duplicate(struct judge *j, const struct hist_op *op)
{
	const struct value *v = &j->values[op->value];
	if (op->n_records > 0 && !is_there(j, v))
		return fault(j, 5, "producer %u seq %" PRIu64 " was called a duplicate and is not there", op->producer,
			     op->seq);
	return true;
}

/* Records of one producer stand in the final log in the order of (epoch, seq), each at most once. */
static bool check_producer_order(struct judge *j, uint32_t log)
{
	const struct history *h = j->h;
	const struct hist_op **last = NULL;
	uint32_t n_producers = 0;
	for (size_t i = 0; i < h->n_ops; i++)
		if (h->ops[i].producer != HIST_NONE && h->ops[i].producer >= n_producers)
			n_producers = h->ops[i].producer + 1;
	last = must_calloc(n_producers, sizeof(*last));
	const struct hist_op **of_value = must_calloc(h->n_values, sizeof(*of_value));
	for (size_t i = 0; i < h->n_ops; i++)
		if (h->ops[i].kind == HIST_APPEND && h->ops[i].value != HIST_NONE)
			of_value[h->ops[i].value] = &h->ops[i];
	bool good = true;
	for (size_t i = history_inherited(&h->logs[log]); i < h->logs[log].n_records && good; i++) {
		const struct hist_record *r = &h->records[h->logs[log].first_record + i];
		const struct hist_op *op = of_value[r->value];
		if (r->index != 0 || op == NULL || op->producer == HIST_NONE)
			continue;
		const struct hist_op *b = last[op->producer];
		if (b != NULL && (b->epoch > op->epoch || (b->epoch == op->epoch && b->seq >= op->seq)))
			good = fault(j, 7, "log %u: producer %u has (%" PRIu64 ", %" PRIu64 ") after (%" PRIu64 ", %" PRIu64
				     ")", log, op->producer, op->epoch, op->seq, b->epoch, b->seq);
		last[op->producer] = op;
	}
	free(of_value);
	free(last);
	return good;
}

static bool check_producers(struct judge *j)
{
	for (uint32_t i = 0; i < j->h->n_logs; i++)
		if (j->h->logs[i].read_back && !check_producer_order(j, i))
			return false;
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->kind != HIST_APPEND || op->producer == HIST_NONE || !is_final(j, op->log) || op->check_only)
			continue;
		bool refused = op->outcome == HIST_REFUSED;
		if (refused && op->error == PICO_FENCED && !check_fenced(j, op))
			return false;
		if (refused && op->error == PICO_SEQUENCE_GAP && !check_gap(j, op))
			return false;
		if (op->outcome == HIST_OK && op->duplicate && !check_duplicate(j, op))
			return false;
	}
	return true;
}

/* ------------------------------------------------- 5: other durable answers */

/* Whether a record boundary of the final log stands at `offset`. */
static bool is_boundary(const struct judge *j, uint32_t index, uint64_t offset)
{
	const struct hist_log *log = &j->h->logs[index];
	if (offset <= log->start || offset == log->confirm)
		return true;
	return offset > log->start && offset < log->confirm &&
	       j->h->records[log->first_record + (offset - log->start)].index == 0;
}

static bool check_answer(struct judge *j, const struct hist_op *op)
{
	if (op->outcome == HIST_OK && op->has_match && !op->duplicate && op->n_records > 0 && op->base_known &&
	    op->base != op->match)
		return fault(j, 5, "value %u asked for offset %" PRIu64 " and got %" PRIu64, op->value, op->match,
			     op->base);
	if (op->outcome != HIST_REFUSED)
		return true;
	if (op->error == PICO_MATCH_FAILED && op->has_next && op->next == op->match)
		return fault(j, 5, "log %u: %" PRIu64 " does not match %" PRIu64, op->log, op->match, op->next);
	if (op->has_next && is_final(j, op->log) && !is_boundary(j, op->log, op->next))
		return fault(j, 5, "log %u: an answer names %" PRIu64 " as the tail, which is inside a batch", op->log,
			     op->next);
	if (op->error == PICO_CLOSED && is_final(j, op->log) && !j->h->logs[op->log].closed)
		return fault(j, 5, "log %u was called closed and is open", op->log);
	return true;
}

/* ------------------------------------------------------ 9: close and delete */

static bool ends_log(const struct hist_op *op)
{
	return op->outcome == HIST_OK && !op->check_only &&
	       (op->kind == HIST_CLOSE || op->kind == HIST_DELETE || (op->kind == HIST_APPEND && op->closes));
}

/* What closes a log stands at its end. */
static bool check_last_value(struct judge *j, const struct hist_op *op)
{
	if (op->kind != HIST_APPEND || !op->closes || op->check_only || !is_final(j, op->log))
		return true;
	const struct value *v = &j->values[op->value];
	const struct hist_log *log = &j->h->logs[op->log];
	if (v->n_found > 0 && (!log->closed || v->base + v->n_records != log->confirm))
		return fault(j, 9, "log %u goes on behind value %u, which closes it", op->log, op->value);
	return true;
}

/* A producer's append that is there is a duplicate when it comes again, also when the log is closed. */
static bool check_closed_duplicate(struct judge *j, const struct hist_op *op)
{
	if (op->kind != HIST_APPEND || op->outcome != HIST_REFUSED || op->error != PICO_CLOSED ||
	    op->producer == HIST_NONE || j->values[op->value].n_found == 0)
		return true;
	if (op->closes || !op->closed_first)
		return fault(j, 7, "value %u is there, and was refused as closed when it came again", op->value);
	return true;
}

static bool is_about(const struct judge *j, const struct hist_op *end, const struct hist_op *op)
{
	if (op->log == HIST_NONE)
		return false;
	return end->kind == HIST_APPEND ? end->log == op->log : end->topic == j->h->logs[op->log].topic;
}

static bool check_closes(struct judge *j)
{
	const struct history *h = j->h;
	for (size_t i = 0; i < h->n_ops; i++)
		if (!check_last_value(j, &h->ops[i]) || !check_closed_duplicate(j, &h->ops[i]))
			return false;
	for (size_t i = 0; i < h->n_ops; i++) {
		const struct hist_op *end = &h->ops[i];
		if (!ends_log(end))
			continue;
		for (size_t k = 0; k < h->n_ops; k++) {
			const struct hist_op *op = &h->ops[k];
			bool acked = op->kind == HIST_APPEND && op->outcome == HIST_OK && !op->duplicate &&
				     op->n_records > 0 && !op->check_only;
			if (acked && op->invoked_ns > end->answered_ns && is_about(j, end, op) && op->proc >= end->proc)
				return fault(j, 9, "log %u: value %u was acknowledged after its end", op->log, op->value);
		}
		for (size_t k = 0; k < h->n_ops; k++) {
			const struct hist_op *op = &h->ops[k];
			bool shows = (op->kind == HIST_OFFSETS || op->kind == HIST_READ) && op->outcome == HIST_OK;
			if (shows && !op->closed && end->kind != HIST_DELETE && op->invoked_ns > end->answered_ns &&
			    is_about(j, end, op) && op->proc >= end->proc)
				return fault(j, 9, "log %u was shown open after a close was acknowledged", op->log);
		}
		for (uint32_t k = 0; k < h->n_logs; k++)
			if (h->logs[k].read_back && !h->logs[k].closed && end->kind != HIST_DELETE &&
			    (end->kind == HIST_APPEND ? end->log == k : end->topic == h->logs[k].topic))
				return fault(j, 9, "log %u was closed and is open", k);
	}
	return true;
}

static bool check_topic(struct judge *j, uint32_t topic)
{
	bool created = false, perhaps = false, deleted = false, gone = false;
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->topic != topic)
			continue;
		created |= op->kind == HIST_CREATE && op->outcome == HIST_OK;
		perhaps |= op->kind == HIST_CREATE && op->outcome == HIST_UNKNOWN;
		deleted |= op->kind == HIST_DELETE && op->outcome != HIST_REFUSED;
		gone |= op->kind == HIST_DELETE && op->outcome == HIST_OK;
	}
	if (created && !deleted && !j->h->topics[topic].exists && j->h->topics[topic].ttl_ns == 0)
		return fault(j, 3, "topic %u was created and is lost", topic);
	for (uint32_t i = 0; i < j->h->n_logs; i++) {
		const struct hist_log *log = &j->h->logs[i];
		if (log->topic == topic && log->read_back && log->partition == 0 && log->confirm == 0 &&
		    j->h->topics[topic].initial)
			return fault(j, 3, "topic %u was created with first records and has none", topic);
	}
	if (gone && j->h->topics[topic].exists)
		return fault(j, 9, "topic %u was deleted and is there", topic);
	return true;
}

/* ----------------------------------------------------------- 10: WAL objects */

/* From the watermark on. */
static bool check_session(struct judge *j, const struct hist_wal *w, size_t n)
{
	const struct hist_session *s = history_session_find(j->h, w[0].session);
	uint64_t seq = s != NULL ? s->watermark : 0;
	for (size_t i = 0; i < n; i++) {
		if (w[i].seq < seq)
			continue; /* packed, and not deleted yet */
		if (w[i].seq != seq++)
			return fault(j, 10, "session %" PRIu64 ": object %" PRIu64 " is missing below its cut", w[i].session,
				     seq - 1);
		if (w[i].kind == HIST_WAL_BROKEN)
			return fault(j, 10, "session %" PRIu64 ": object %" PRIu64 " is broken", w[i].session, w[i].seq);
		if (w[i].kind == HIST_WAL_SEAL)
			return true;
	}
	if (w[0].session != j->h->last_session)
		return fault(j, 10, "session %" PRIu64 " has ended and has no cut", w[0].session);
	return true;
}

static bool was_needed(const struct history *h, const struct hist_wal *deleted)
{
	const struct hist_session *s = history_session_find(h, deleted->session);
	return s == NULL || deleted->seq == s->watermark || (deleted->seq > s->watermark && !s->recovered);
}

static bool check_wal(struct judge *j)
{
	const struct history *h = j->h;
	for (size_t i = 0; i < h->n_deleted; i++)
		if (was_needed(h, &h->deleted[i]))
			return fault(j, 10, "session %" PRIu64 ": object %" PRIu64 " was deleted and is not packed",
				     h->deleted[i].session, h->deleted[i].seq);
	for (size_t i = 0, n; i < h->n_wal; i += n) {
		for (n = 1; i + n < h->n_wal && h->wal[i + n].session == h->wal[i].session;)
			n++;
		if (!check_session(j, &h->wal[i], n))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------- 11: wake-ups */

static bool check_wait(struct judge *j, const struct hist_op *w)
{
	if (is_gone(w) && is_final(j, w->log))
		return fault(j, 11, "log %u: a wait at %" PRIu64 " was ended for nothing", w->log, w->from);
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		bool wakes = op->kind == HIST_APPEND && op->log == w->log && !op->check_only && !op->duplicate &&
			     (op->next > w->from || op->closes);
		bool ends = (op->kind == HIST_DELETE || op->kind == HIST_CLOSE) && op->topic == w->topic;
		if (op->proc != w->proc || op->outcome != HIST_OK || (!wakes && !ends))
			continue;
		uint64_t known = op->answered_ns > w->invoked_ns ? op->answered_ns : w->invoked_ns;
		if (known + WAKE_NS < w->answered_ns)
			return fault(j, 11, "log %u: a wait at %" PRIu64 " slept on after %s had been acknowledged",
				     w->log, w->from, wakes ? "more" : "its end");
	}
	return true;
}

static bool check_waits(struct judge *j)
{
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *w = &j->h->ops[i];
		if (w->kind == HIST_WAIT && w->outcome == HIST_OK && !check_wait(j, w))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------- 13: trims */

static bool check_trim(struct judge *j, const struct hist_op *op)
{
	if (op->kind != HIST_TRIM || op->outcome != HIST_OK)
		return true;
	if (op->from != HIST_END && op->base < op->from)
		return fault(j, 13, "log %u: trimmed to %" PRIu64 ", and it begins at %" PRIu64, op->log, op->from, op->base);
	if (is_final(j, op->log) && j->h->logs[op->log].start < op->base)
		return fault(j, 13, "log %u began at %" PRIu64 ", and begins at %" PRIu64 " now", op->log, op->base,
			     j->h->logs[op->log].start);
	return true;
}

/* Somebody asked for it. */
static bool check_start(struct judge *j, uint32_t index)
{
	const struct hist_log *log = &j->h->logs[index];
	bool asked = !log->read_back || log->start == 0 || j->h->topics[log->topic].retention_ns != 0 ||
		     (log->source != HIST_NONE && log->start == log->fork_start);
	for (size_t i = 0; i < j->h->n_ops && !asked; i++) {
		const struct hist_op *op = &j->h->ops[i];
		asked = op->kind == HIST_TRIM && op->log == index && op->outcome != HIST_REFUSED &&
			(op->from == HIST_END || op->from == log->start);
	}
	return asked || fault(j, 13, "log %u begins at %" PRIu64 ", which nobody asked for", index, log->start);
}

static bool check_trims(struct judge *j)
{
	for (size_t i = 0; i < j->h->n_ops; i++)
		if (!check_trim(j, &j->h->ops[i]))
			return false;
	for (uint32_t i = 0; i < j->h->n_logs; i++)
		if (!check_start(j, i))
			return false;
	return true;
}

bool sim_check(const struct history *h, struct sim_fault_found *ret_found)
{
	struct judge j = { .h = h, .found = ret_found };
	*ret_found = (struct sim_fault_found){ 0 };
	j.values = must_calloc(h->n_values, sizeof(*j.values));
	for (uint32_t i = 0; i < h->n_values; i++)
		j.values[i].log = j.values[i].found_log = HIST_NONE;
	bool good = check_values(&j) && check_order(&j) && check_reads(&j) && check_watermarks(&j) &&
		    check_producers(&j) && check_closes(&j) && check_wal(&j) && check_waits(&j) && check_trims(&j) &&
		    check_stamps_and_streams(&j) && fork_check(h, ret_found) && sim_check_ages(h, ret_found);
	for (size_t i = 0; i < h->n_ops && good; i++)
		good = h->ops[i].kind != HIST_APPEND || check_answer(&j, &h->ops[i]);
	for (uint32_t i = 0; i < h->n_topics && good; i++)
		good = check_topic(&j, i);
	free(j.values);
	return good;
}
