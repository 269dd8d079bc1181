/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in an array, found through an open hash of their indices. Taking one out moves the last into
 * its place; the hash is then built anew, which happens only at the bound.
 */
#include "storaged/engine/producer.h"

#include <stdlib.h>

#include "common/must.h"

static uint32_t hash_of(struct slice id)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	for (size_t i = 0; i < id.n; i++)
		h = (h ^ id.p[i]) * 16777619u;
	return h;
}

void producer_table_done(struct producer_table *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		free(t->entries[i].id);
	free(t->entries);
	free(t->slots);
	*t = (struct producer_table){ 0 };
}

static struct producer *table_get(const struct producer_table *t, struct slice id)
{
	uint32_t hash = hash_of(id);
	if (t->n == 0)
		return NULL;
	for (uint32_t at = hash & (t->n_slots - 1); t->slots[at] != 0; at = (at + 1) & (t->n_slots - 1)) {
		struct producer *p = &t->entries[t->slots[at] - 1];
		if (p->hash == hash && slice_eq(slice_of(p->id, p->id_len), id))
			return p;
	}
	return NULL;
}

const struct producer *producer_find(const struct producer_table *t, struct slice id, int64_t now_ms)
{
	const struct producer *p = table_get(t, id);
	return p != NULL && now_ms - p->used_ms < PRODUCER_IDLE_MS ? p : NULL;
}

enum producer_verdict producer_decide(const struct producer *p, uint64_t epoch, uint64_t seq, uint64_t *ret_expected)
{
	*ret_expected = 0;
	if (p == NULL || epoch > p->epoch)
		return seq == 0 ? PRODUCER_ACCEPT : PRODUCER_GAP;
	if (epoch < p->epoch)
		return PRODUCER_FENCED;
	if (seq <= p->seq)
		return PRODUCER_DUPLICATE;
	*ret_expected = p->seq + 1;
	return seq == p->seq + 1 ? PRODUCER_ACCEPT : PRODUCER_GAP;
}

static void slot_put(struct producer_table *t, uint32_t index)
{
	uint32_t at = t->entries[index].hash & (t->n_slots - 1);
	while (t->slots[at] != 0)
		at = (at + 1) & (t->n_slots - 1);
	t->slots[at] = index + 1;
}

static void slots_build(struct producer_table *t)
{
	free(t->slots);
	t->n_slots = 8;
	while (t->n_slots < t->capacity * 2)
		t->n_slots *= 2;
	t->slots = must_calloc(t->n_slots, sizeof(*t->slots));
	for (uint32_t i = 0; i < t->n; i++)
		slot_put(t, i);
}

static void drop_longest_idle(struct producer_table *t)
{
	uint32_t oldest = 0;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct producer *a = &t->entries[i], *b = &t->entries[oldest];
		if (a->used_ms < b->used_ms || (a->used_ms == b->used_ms && a->ticket < b->ticket))
			oldest = i;
	}
	free(t->entries[oldest].id);
	t->entries[oldest] = t->entries[--t->n];
	slots_build(t);
}

static struct producer *table_add(struct producer_table *t, struct slice id)
{
	must(id.n > 0 && id.n <= PRODUCER_ID_MAX);
	if (t->n == PRODUCERS_MAX)
		drop_longest_idle(t);
	if (t->n == t->capacity) {
		t->capacity = t->capacity == 0 ? 2 : t->capacity * 2;
		t->entries = must_realloc(t->entries, t->capacity * sizeof(*t->entries));
		slots_build(t);
	}
	struct producer *p = &t->entries[t->n++];
	*p = (struct producer){ .id = must_memdup(id.p, id.n), .id_len = (uint32_t)id.n, .hash = hash_of(id) };
	slot_put(t, t->n - 1);
	return p;
}

void producer_accept(struct producer_table *t, struct slice id, const struct producer *state)
{
	struct producer *p = table_get(t, id);
	if (p == NULL)
		p = table_add(t, id);
	p->epoch = state->epoch;
	p->seq = state->seq;
	p->base = state->base;
	p->next = state->next;
	p->used_ms = state->used_ms;
	p->ticket = state->ticket;
}
