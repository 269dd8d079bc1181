/* SPDX-License-Identifier: Apache-2.0
 *
 * Noted in WAL order into an array; at the bound the older half goes and the point from which the table is
 * complete moves up. The hash is built once, when recovery has ended.
 */
#include "storaged/engine/request.h"

#include <stdlib.h>

#include "common/must.h"

void request_table_begin(struct request_table *t, uint64_t session, uint64_t seq, uint64_t last_session)
{
	must(t->n == 0 && !t->ready);
	t->first_session = session;
	t->first_seq = seq;
	t->last_session = last_session;
}

/* Forgets the first n; frames of the last forgotten one's object may be forgotten, too. */
static void forget(struct request_table *t, uint32_t n)
{
	if (n == 0)
		return;
	t->first_session = t->entries[n - 1].session;
	t->first_seq = t->entries[n - 1].seq + 1;
	t->n -= n;
	memmove(t->entries, t->entries + n, t->n * sizeof(*t->entries));
}

void request_table_note(struct request_table *t, const struct request *r)
{
	if (t->n == REQUESTS_MAX)
		forget(t, REQUESTS_MAX / 2);
	if (t->n == t->capacity) {
		t->capacity = t->capacity == 0 ? 64 : t->capacity * 2;
		t->entries = must_realloc(t->entries, t->capacity * sizeof(*t->entries));
	}
	t->entries[t->n++] = *r;
}

static uint32_t slot_of(const struct request_table *t, uint64_t instance, uint64_t id)
{
	uint64_t h = (instance ^ (id * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
	return (uint32_t)(h >> 32) & (t->n_slots - 1);
}

void request_table_ready(struct request_table *t, int64_t now_ms)
{
	uint32_t old = 0;
	while (old < t->n && now_ms - t->entries[old].append_time > REQUEST_YOUNG_MS)
		old++;
	forget(t, old);
	t->n_slots = 16;
	while (t->n_slots < t->n * 2)
		t->n_slots *= 2;
	t->slots = must_calloc(t->n_slots, sizeof(*t->slots));
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t at = slot_of(t, t->entries[i].instance, t->entries[i].id);
		while (t->slots[at] != 0)
			at = (at + 1) & (t->n_slots - 1);
		t->slots[at] = i + 1;
	}
	t->ready = true;
}

void request_table_done(struct request_table *t)
{
	free(t->entries);
	free(t->slots);
	*t = (struct request_table){ 0 };
}

enum engine_request_state request_table_find(const struct request_table *t, uint64_t instance, uint64_t id,
					     uint64_t session, uint64_t seq, struct engine_request *ret)
{
	if (!t->ready)
		return REQUEST_UNKNOWN;
	for (uint32_t at = slot_of(t, instance, id); t->slots[at] != 0; at = (at + 1) & (t->n_slots - 1)) {
		const struct request *r = &t->entries[t->slots[at] - 1];
		if (r->instance == instance && r->id == id) {
			*ret = r->answer;
			return REQUEST_STORED;
		}
	}
	bool noted = session > t->first_session || (session == t->first_session && seq >= t->first_seq);
	return noted && session <= t->last_session ? REQUEST_ABSENT : REQUEST_UNKNOWN;
}
