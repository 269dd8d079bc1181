/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of what ends by its age: retention and TTL. A history has no clock of the node, so they allow for what clocks
 * of two starts may differ by.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/pico_error.h"
#include "t/sim/sim_check.h"

struct age_judge {
	const struct history *h;
	struct sim_fault_found *found;
};

static bool fault(struct age_judge *j, int check, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault(struct age_judge *j, int check, const char *fmt, ...)
{
	va_list ap;
	j->found->check = check;
	va_start(ap, fmt);
	vsnprintf(j->found->text, sizeof(j->found->text), fmt, ap);
	va_end(ap);
	return false;
}

/* ------------------------------------------------------------- 15: retention */

/* Clocks of two starts stand up to 2 s apart, and each is pulled by a second a minute. */
#define CLOCKS_NS (7 * 1000000000ull)

/* What an answer did not show any more was old by then. */
static bool check_age(struct age_judge *j, const struct hist_op *shown, uint64_t retention_ns)
{
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->kind == HIST_APPEND && op->log == shown->log && op->outcome == HIST_OK && op->base_known &&
		    !op->duplicate && op->next <= shown->start && op->invoked_ns + retention_ns > shown->answered_ns + CLOCKS_NS)
			return fault(j, 15, "log %u: offset %" PRIu64 " was cut %.1f s after it was appended", op->log,
				     op->base, (double)(shown->answered_ns - op->invoked_ns) / 1e9);
	}
	return true;
}

static bool check_ages(struct age_judge *j)
{
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->log == HIST_NONE || op->start == 0 || op->answered_ns == 0)
			continue;
		uint64_t retention_ns = j->h->topics[j->h->logs[op->log].topic].retention_ns;
		if (retention_ns != 0 && !check_age(j, op, retention_ns))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------- 16: TTL */

/* It was not there; nobody had used it for so long, or somebody deleted it. A duplicate leaves no frame: as a read, it is a use
 * that a death in the next moment takes along. */
static bool check_end(struct age_judge *j, const struct hist_op *shown)
{
	uint64_t used_ns = 0;
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->topic != shown->topic)
			continue;
		if (op->kind == HIST_DELETE)
			return true;
		if (op->kind == HIST_APPEND && op->outcome == HIST_OK && !op->duplicate && op->answered_ns <= shown->invoked_ns &&
		    op->invoked_ns > used_ns)
			used_ns = op->invoked_ns;
	}
	if (used_ns == 0 || shown->answered_ns + CLOCKS_NS >= used_ns + j->h->topics[shown->topic].ttl_ns)
		return true;
	return fault(j, 16, "topic %u ended %.1f s after it was appended to", shown->topic,
		     (double)(shown->answered_ns - used_ns) / 1e9);
}

static bool check_ends(struct age_judge *j)
{
	for (size_t i = 0; i < j->h->n_ops; i++) {
		const struct hist_op *op = &j->h->ops[i];
		if (op->topic != HIST_NONE && j->h->topics[op->topic].ttl_ns != 0 && op->outcome == HIST_REFUSED &&
		    op->error == PICO_NOT_FOUND && !check_end(j, op))
			return false;
	}
	return true;
}

bool sim_check_ages(const struct history *h, struct sim_fault_found *ret_found)
{
	struct age_judge j = { h, ret_found };
	return check_ages(&j) && check_ends(&j);
}
