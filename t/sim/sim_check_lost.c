/* SPDX-License-Identifier: Apache-2.0
 *
 * Check 3 for a log that cannot be read to its end, so that it has no final log: whether the record at which the reads end was
 * acknowledged and nobody can have trimmed it, which makes it a lost record and not one that is late.
 */
#include <inttypes.h>
#include <stdio.h>

#include "t/sim/sim_check.h"

/* Where the log begins by what answers said. False: it may begin later by now. */
static bool start_of(const struct history *h, uint32_t log, uint64_t *ret_start)
{
	uint64_t start = h->logs[log].fork_start, may = 0;
	for (size_t i = 0; i < h->n_ops; i++) {
		const struct hist_op *op = &h->ops[i];
		if (op->log != log)
			continue;
		bool trimmed = op->kind == HIST_TRIM && op->outcome == HIST_OK;
		uint64_t shown = trimmed ? op->base : op->start;
		if (shown > start)
			start = shown;
		if (op->kind == HIST_TRIM && op->outcome == HIST_UNKNOWN && op->from > may)
			may = op->from;
	}
	*ret_start = start;
	return may <= start && h->topics[h->logs[log].topic].retention_ns == 0;
}

static const struct hist_op *acknowledged_at(const struct history *h, uint32_t log, uint64_t offset)
{
	while (h->logs[log].source != HIST_NONE && offset < h->logs[log].point)
		log = h->logs[log].source;
	for (size_t i = 0; i < h->n_ops; i++) {
		const struct hist_op *op = &h->ops[i];
		if (op->kind == HIST_APPEND && op->log == log && op->outcome == HIST_OK && op->base_known && !op->check_only &&
		    offset >= op->base && offset - op->base < op->n_records)
			return op;
	}
	return NULL;
}

bool sim_check_unread(const struct history *h, uint32_t log, uint64_t at, struct sim_fault_found *ret_found)
{
	uint64_t start;
	*ret_found = (struct sim_fault_found){ 0 };
	if (!start_of(h, log, &start))
		return true;
	if (at == HIST_END || at < start)
		at = start;
	const struct hist_op *op = acknowledged_at(h, log, at);
	if (op == NULL)
		return true;
	ret_found->check = 3;
	snprintf(ret_found->text, sizeof(ret_found->text),
		 "lost record: value %u was acknowledged at %" PRIu64 " of log %u, and log %u cannot be read at %" PRIu64, op->value,
		 op->base, op->log, log, at);
	return false;
}
