/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries in an array, found through an open hash of their indices and chained by last use. The times of a log do
 * not fall, so the chain is in order of time, too, and what is idle stands at its old end.
 */
#include "storaged/engine/kafka_producer.h"

#include <stdlib.h>

#include "common/must.h"

#define SEQUENCE_MASK 0x7fffffffu       /* numbers are modulo 2^31 */

static int32_t sequence_add(int32_t sequence, uint32_t n)
{
	return (int32_t)(((uint32_t)sequence + n) & SEQUENCE_MASK);
}

void kafka_producers_done(struct kafka_producers *t)
{
	free(t->entries);
	free(t->slots);
	*t = (struct kafka_producers){ 0 };
}

/* --------------------------------------------------------------------- hash */

static uint32_t slot_of(const struct kafka_producers *t, int64_t id)
{
	uint64_t h = (uint64_t)id * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 32) & (t->n_slots - 1);
}

static void slot_put(struct kafka_producers *t, uint32_t index)
{
	uint32_t at = slot_of(t, t->entries[index].id);
	while (t->slots[at] != 0)
		at = (at + 1) & (t->n_slots - 1);
	t->slots[at] = index + 1;
}

static uint32_t slot_find(const struct kafka_producers *t, int64_t id)
{
	uint32_t at = slot_of(t, id);
	while (t->slots[at] != 0 && t->entries[t->slots[at] - 1].id != id)
		at = (at + 1) & (t->n_slots - 1);
	return at;
}

/* Those behind the gap that belong before it move up. */
static void slot_clear(struct kafka_producers *t, uint32_t gap)
{
	uint32_t mask = t->n_slots - 1;
	t->slots[gap] = 0;
	for (uint32_t at = (gap + 1) & mask; t->slots[at] != 0; at = (at + 1) & mask) {
		uint32_t home = slot_of(t, t->entries[t->slots[at] - 1].id);
		if (((at - home) & mask) >= ((at - gap) & mask)) {
			t->slots[gap] = t->slots[at];
			t->slots[at] = 0;
			gap = at;
		}
	}
}

static struct kafka_producer *table_get(const struct kafka_producers *t, int64_t id)
{
	if (t->n == 0)
		return NULL;
	uint32_t found = t->slots[slot_find(t, id)];
	return found != 0 ? &t->entries[found - 1] : NULL;
}

/* -------------------------------------------------------------------- chain */

static void chain_unlink(struct kafka_producers *t, struct kafka_producer *p)
{
	if (p->older != 0)
		t->entries[p->older - 1].newer = p->newer;
	else
		t->oldest = p->newer;
	if (p->newer != 0)
		t->entries[p->newer - 1].older = p->older;
	else
		t->newest = p->older;
}

static void chain_append(struct kafka_producers *t, struct kafka_producer *p)
{
	uint32_t number = (uint32_t)(p - t->entries) + 1;
	p->older = t->newest;
	p->newer = 0;
	if (t->newest != 0)
		t->entries[t->newest - 1].newer = number;
	else
		t->oldest = number;
	t->newest = number;
}

/* --------------------------------------------------------------- come and go */

/* The last entry takes its place. */
static void entry_drop(struct kafka_producers *t, struct kafka_producer *p)
{
	slot_clear(t, slot_find(t, p->id));
	chain_unlink(t, p);
	struct kafka_producer *last = &t->entries[t->n - 1];
	uint32_t number = (uint32_t)(p - t->entries) + 1;
	if (p != last) {
		t->slots[slot_find(t, last->id)] = number;
		if (last->older != 0)
			t->entries[last->older - 1].newer = number;
		else
			t->oldest = number;
		if (last->newer != 0)
			t->entries[last->newer - 1].older = number;
		else
			t->newest = number;
		*p = *last;
	}
	t->n--;
}

static void table_grow(struct kafka_producers *t)
{
	t->capacity = t->capacity == 0 ? 2 : t->capacity * 2;
	t->entries = must_realloc(t->entries, t->capacity * sizeof(*t->entries));
	free(t->slots);
	t->n_slots = t->capacity * 2;
	t->slots = must_calloc(t->n_slots, sizeof(*t->slots));
	for (uint32_t i = 0; i < t->n; i++)
		slot_put(t, i);
}

/* The new entry is not in the chain yet. */
static struct kafka_producer *entry_add(struct kafka_producers *t, int64_t id)
{
	if (t->n == t->capacity)
		table_grow(t);
	struct kafka_producer *p = &t->entries[t->n++];
	*p = (struct kafka_producer){ .id = id };
	slot_put(t, t->n - 1);
	return p;
}

/* Makes room for one more at that time. */
static unsigned table_make_room(struct kafka_producers *t, int64_t now_ms)
{
	while (t->oldest != 0 && now_ms - t->entries[t->oldest - 1].used_ms >= KAFKA_PRODUCER_IDLE_MS)
		entry_drop(t, &t->entries[t->oldest - 1]);
	if (t->n < KAFKA_PRODUCERS_MAX)
		return 0;
	entry_drop(t, &t->entries[t->oldest - 1]);
	return 1;
}

/* ----------------------------------------------------------------- decisions */

const struct kafka_producer *kafka_producer_find(const struct kafka_producers *t, int64_t id, int64_t now_ms)
{
	const struct kafka_producer *p = table_get(t, id);
	return p != NULL && now_ms - p->used_ms < KAFKA_PRODUCER_IDLE_MS ? p : NULL;
}

const struct kafka_written *kafka_producer_last(const struct kafka_producer *p)
{
	must(p->n_written > 0);
	return &p->written[p->newest];
}

static const struct kafka_written *window_find(const struct kafka_producer *p, const struct kafka_claim *c)
{
	int32_t last = sequence_add(c->first, c->count - 1);
	for (unsigned i = 0; i < p->n_written; i++)
		if (p->written[i].first == c->first && p->written[i].last == last)
			return &p->written[i];
	return NULL;
}

static bool is_full(const struct kafka_producers *t, int64_t now_ms)
{
	return t->n >= KAFKA_PRODUCERS_MAX && now_ms - t->entries[t->oldest - 1].used_ms < KAFKA_PRODUCER_BUSY_MS;
}

enum kafka_verdict kafka_producer_decide(const struct kafka_producers *t, const struct kafka_producer *p,
					 const struct kafka_claim *c, int64_t now_ms,
					 const struct kafka_written **ret_written, int32_t *ret_expected)
{
	must(c->id >= 0 && c->epoch >= 0 && c->first >= 0 && c->count > 0);
	if (p == NULL)
		return is_full(t, now_ms) ? KAFKA_FULL : KAFKA_ACCEPT;
	if (c->epoch < p->epoch)
		return KAFKA_FENCED;
	*ret_expected = c->epoch > p->epoch ? 0 : sequence_add(kafka_producer_last(p)->last, 1);
	if (c->first == *ret_expected)
		return KAFKA_ACCEPT;
	if (c->epoch == p->epoch && (*ret_written = window_find(p, c)) != NULL)
		return KAFKA_DUPLICATE;
	return KAFKA_GAP;
}

unsigned kafka_producer_accept(struct kafka_producers *t, const struct kafka_claim *c, int64_t used_ms, uint64_t base,
			       uint64_t ticket)
{
	unsigned dropped = 0;
	struct kafka_producer *p = table_get(t, c->id);
	if (p == NULL) {
		dropped = table_make_room(t, used_ms);
		p = entry_add(t, c->id);
	} else {
		chain_unlink(t, p);
	}
	if (p->n_written == 0 || p->epoch != c->epoch || used_ms - p->used_ms >= KAFKA_PRODUCER_IDLE_MS)
		p->n_written = p->newest = 0;
	p->epoch = c->epoch;
	p->used_ms = used_ms;
	p->newest = p->n_written == 0 ? 0 : (uint8_t)((p->newest + 1) % KAFKA_PRODUCER_WINDOW);
	if (p->n_written < KAFKA_PRODUCER_WINDOW)
		p->n_written++;
	p->written[p->newest] = (struct kafka_written){
		.first = c->first, .last = sequence_add(c->first, c->count - 1), .base = base, .ticket = ticket,
	};
	chain_append(t, p);
	return dropped;
}
