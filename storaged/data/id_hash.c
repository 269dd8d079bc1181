/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. The table is at most three quarters full and deletes by shifting back, so a search ends
 * at the first free slot.
 */
#include "storaged/data/id_hash.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/wire.h"

void id_hash_done(struct id_hash *h)
{
	free(h->slot);
	*h = (struct id_hash){ 0 };
}

static size_t home(const struct id_hash *h, const uint8_t id[16])
{
	return get_le64(id) & (h->n_slots - 1);
}

/* The slot of that id, or the free one where it belongs. */
static size_t probe(const struct id_hash *h, const uint8_t id[16])
{
	size_t i = home(h, id);
	while (h->slot[i] != NULL && memcmp(h->slot[i], id, 16) != 0)
		i = (i + 1) & (h->n_slots - 1);
	return i;
}

void *id_hash_find(const struct id_hash *h, const uint8_t id[16])
{
	return h->n == 0 ? NULL : h->slot[probe(h, id)];
}

static void grow(struct id_hash *h)
{
	struct id_hash old = *h;
	h->n_slots = old.n_slots == 0 ? 64 : 2 * old.n_slots;
	h->slot = must_calloc(h->n_slots, sizeof(h->slot[0]));
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slot[i] != NULL)
			h->slot[probe(h, old.slot[i])] = old.slot[i];
	free(old.slot);
}

void id_hash_add(struct id_hash *h, void *item)
{
	if (4 * (h->n + 1) > 3 * h->n_slots)
		grow(h);
	size_t i = probe(h, item);
	must(h->slot[i] == NULL);
	h->slot[i] = item;
	h->n++;
}

void id_hash_remove(struct id_hash *h, const void *item)
{
	must(h->n > 0);
	size_t mask = h->n_slots - 1, hole = probe(h, item);
	must(h->slot[hole] == item);
	for (size_t i = (hole + 1) & mask; h->slot[i] != NULL; i = (i + 1) & mask) {
		size_t distance = (i - home(h, h->slot[i])) & mask;
		if (distance >= ((i - hole) & mask)) {
			h->slot[hole] = h->slot[i];
			hole = i;
		}
	}
	h->slot[hole] = NULL;
	h->n--;
}

void *id_hash_next(const struct id_hash *h, size_t *at)
{
	while (*at < h->n_slots && h->slot[*at] == NULL)
		++*at;
	return *at < h->n_slots ? h->slot[(*at)++] : NULL;
}
