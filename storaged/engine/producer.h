/* SPDX-License-Identifier: Apache-2.0
 *
 * String producers of one log: for each id its epoch, its last sequence number and where that append
 * stands. The state is that of the submitted log; `ticket` says from when it is durable.
 *
 * Nothing but accepted frames moves it, in their order and with their times, so recovery comes to the same
 * table. At most PRODUCERS_MAX ids; the longest idle goes, and who is idle for PRODUCER_IDLE_MS is unknown.
 */
#ifndef STORAGED_ENGINE_PRODUCER_H
#define STORAGED_ENGINE_PRODUCER_H

#include "common/slice.h"

#define PRODUCERS_MAX 2048u
#define PRODUCER_ID_MAX 256u
#define PRODUCER_IDLE_MS (7 * 86400000ll)

struct producer {
	char *id;                       /* owned; not terminated */
	uint32_t id_len, hash;
	uint64_t epoch, seq;            /* last accepted */
	uint64_t base, next;            /* its records: [base, next); equal when it had none */
	int64_t used_ms;                /* append time of its last frame */
	uint64_t ticket;                /* of that frame */
};

struct producer_table {                 /* zero-initialised is empty */
	struct producer *entries;       /* unordered */
	uint32_t n, capacity;
	uint32_t *slots;                /* hash: index + 1, 0 is empty; twice the capacity or more */
	uint32_t n_slots;               /* power of two */
};

enum producer_verdict { PRODUCER_ACCEPT, PRODUCER_DUPLICATE, PRODUCER_FENCED, PRODUCER_GAP };

void producer_table_done(struct producer_table *t);

/* NULL: unknown, or idle for too long at now_ms. Valid until the next accept. */
const struct producer *producer_find(const struct producer_table *t, struct slice id, int64_t now_ms);

/*
 * The decision table. p may be NULL (unknown). For PRODUCER_GAP ret_expected is the sequence number
 * that would be taken.
 */
enum producer_verdict producer_decide(const struct producer *p, uint64_t epoch, uint64_t seq,
				      uint64_t *ret_expected);

/* Notes an accepted frame. */
void producer_accept(struct producer_table *t, struct slice id, const struct producer *state);

#endif
