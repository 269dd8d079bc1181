/* SPDX-License-Identifier: Apache-2.0
 *
 * Check 14: below its point a fork shows what stands in the log it was forked from, or in the one that that was forked from,
 * record by record, for ever. What stood there is known from the answers to appends, and from the source's final log where
 * it has one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "t/sim/sim_check.h"

/* What the answers say of a value. */
struct value {
	uint32_t log, n_records;
	bool acked, maybe, base_known;
	uint64_t base;
};

struct judge {
	const struct history *h;
	struct value *values;
	struct sim_fault_found *found;
};

__attribute__((format(printf, 2, 3)))
static bool fault(struct judge *j, const char *fmt, ...)
{
	j->found->check = 14;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(j->found->text, sizeof(j->found->text), fmt, ap);
	va_end(ap);
	return false;
}

static void gather(struct judge *j, const struct hist_op *op)
{
	if (op->kind != HIST_APPEND || op->value == HIST_NONE || op->check_only)
		return;
	struct value *v = &j->values[op->value];
	v->log = op->log;
	v->n_records = op->n_records;
	v->maybe |= op->outcome == HIST_UNKNOWN;
	v->acked |= op->outcome == HIST_OK;
	if (op->outcome != HIST_OK || !op->base_known)
		return;
	v->base_known = true;
	v->base = op->base;
}

/* The log that an offset below the point stands in. */
static uint32_t holder_of(const struct history *h, uint32_t log, uint64_t offset)
{
	while (h->logs[log].source != HIST_NONE && offset < h->logs[log].point)
		log = h->logs[log].source;
	return log;
}

static bool same_record(const struct hist_record *a, const struct hist_record *b)
{
	return a->value == b->value && a->index == b->index && a->timestamp == b->timestamp && a->crc == b->crc;
}

/* Against the holder's final log, as far as there is one. */
static bool check_final(struct judge *j, uint32_t index, uint32_t holder, const struct hist_record *r)
{
	const struct hist_log *log = &j->h->logs[holder];
	if (!log->read_back || r->offset < log->start)
		return true;
	uint64_t at = r->offset - log->start;
	if (at >= log->n_records)
		return fault(j, "log %u shows offset %" PRIu64 ", which log %u does not have", index, r->offset, holder);
	const struct hist_record *own = &j->h->records[log->first_record + at];
	return same_record(own, r) || fault(j, "log %u offset %" PRIu64 " holds value %u, and value %u in log %u", index,
					    r->offset, r->value, own->value, holder);
}

static bool check_record(struct judge *j, uint32_t index, const struct hist_record *r)
{
	uint32_t holder = holder_of(j->h, index, r->offset);
	const struct value *v = &j->values[r->value];
	bool is_unborn = v->log == HIST_NONE && v->maybe;       /* first records of a create that nobody heard of */
	if ((v->log != holder && !is_unborn) || r->index >= v->n_records)
		return fault(j, "log %u offset %" PRIu64 " shows value %u, which is none of log %u", index, r->offset, r->value,
			     holder);
	if (!v->acked && !v->maybe)
		return fault(j, "log %u shows value %u, which was refused", index, r->value);
	if (v->base_known && v->base + r->index != r->offset)
		return fault(j, "log %u shows value %u at %" PRIu64 ", it was acknowledged at %" PRIu64, index, r->value,
			     r->offset - r->index, v->base);
	return check_final(j, index, holder, r);
}

/* Whatever was acknowledged at an offset that it shows. */
static bool check_acked(struct judge *j, uint32_t index, uint32_t number)
{
	const struct hist_log *log = &j->h->logs[index];
	const struct value *v = &j->values[number];
	uint64_t end = log->start + history_inherited(log);
	if (!v->acked || !v->base_known)
		return true;
	for (uint32_t i = 0; i < v->n_records; i++) {
		uint64_t offset = v->base + i;
		if (offset < log->start || offset >= end || holder_of(j->h, index, offset) != v->log)
			continue;
		if (j->h->records[log->first_record + (offset - log->start)].value != number)
			return fault(j, "value %u was acknowledged at %" PRIu64 " of log %u; log %u does not show it", number,
				     v->base, v->log, index);
	}
	return true;
}

static bool check_fork(struct judge *j, uint32_t index)
{
	const struct hist_log *log = &j->h->logs[index];
	size_t n = history_inherited(log);
	if (log->start < log->point && log->confirm < log->point)
		return fault(j, "log %u was forked at %" PRIu64 " and ends at %" PRIu64, index, log->point, log->confirm);
	for (size_t i = 0; i < n; i++)
		if (!check_record(j, index, &j->h->records[log->first_record + i]))
			return false;
	for (uint32_t i = 0; n > 0 && i < j->h->n_values; i++)
		if (!check_acked(j, index, i))
			return false;
	return true;
}

bool fork_check(const struct history *h, struct sim_fault_found *ret_found)
{
	struct judge j = { .h = h, .found = ret_found };
	bool good = true;
	j.values = must_calloc(h->n_values, sizeof(*j.values));
	for (uint32_t i = 0; i < h->n_values; i++)
		j.values[i].log = HIST_NONE;
	for (size_t i = 0; i < h->n_ops; i++)
		gather(&j, &h->ops[i]);
	for (uint32_t i = 0; i < h->n_logs && good; i++)
		if (h->logs[i].source != HIST_NONE && h->logs[i].read_back)
			good = check_fork(&j, i);
	free(j.values);
	return good;
}
