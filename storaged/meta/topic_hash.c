/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. The table is at most three quarters full and deletes by shifting back, so a search ends
 * at the first free slot.
 */
#include "storaged/meta/topic_hash.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/meta/state.h"

#define PAGE_LOGS 512

struct log_page {
	size_t n;
	struct state_topic *topic[PAGE_LOGS];
};

void topic_hash_done(struct topic_hash *h)
{
	free(h->slot);
	*h = (struct topic_hash){ 0 };
}

static size_t home(const struct topic_hash *h, const uint8_t id[16])
{
	return get_le64(id) & (h->n_slots - 1);
}

/* The slot of that id, or the free one where it belongs. */
static size_t probe(const struct topic_hash *h, const uint8_t id[16])
{
	size_t i = home(h, id);
	while (h->slot[i] != NULL && memcmp(h->slot[i]->id, id, 16) != 0)
		i = (i + 1) & (h->n_slots - 1);
	return i;
}

struct state_topic *topic_hash_find(const struct topic_hash *h, const uint8_t id[16])
{
	return h->n == 0 ? NULL : h->slot[probe(h, id)];
}

static void grow(struct topic_hash *h)
{
	struct topic_hash old = *h;
	h->n_slots = old.n_slots == 0 ? 64 : 2 * old.n_slots;
	h->slot = must_calloc(h->n_slots, sizeof(h->slot[0]));
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slot[i] != NULL)
			h->slot[probe(h, old.slot[i]->id)] = old.slot[i];
	free(old.slot);
}

void topic_hash_add(struct topic_hash *h, struct state_topic *t)
{
	if (4 * (h->n + 1) > 3 * h->n_slots)
		grow(h);
	size_t i = probe(h, t->id);
	must(h->slot[i] == NULL);
	h->slot[i] = t;
	h->n++;
}

void topic_hash_remove(struct topic_hash *h, const struct state_topic *t)
{
	must(h->n > 0);
	size_t mask = h->n_slots - 1, hole = probe(h, t->id);
	must(h->slot[hole] == t);
	for (size_t i = (hole + 1) & mask; h->slot[i] != NULL; i = (i + 1) & mask) {
		size_t distance = (i - home(h, h->slot[i]->id)) & mask;
		if (distance >= ((i - hole) & mask)) {
			h->slot[hole] = h->slot[i];
			hole = i;
		}
	}
	h->slot[hole] = NULL;
	h->n--;
}

void log_map_done(struct log_map *x)
{
	for (size_t i = 0; i < x->n_pages; i++)
		free(x->page[i]);
	free(x->page);
	*x = (struct log_map){ 0 };
}

struct state_topic *log_map_find(const struct log_map *x, uint64_t log_id)
{
	uint64_t k = log_id / PAGE_LOGS;
	return k < x->n_pages && x->page[k] != NULL ? x->page[k]->topic[log_id % PAGE_LOGS] : NULL;
}

struct state_topic *log_map_next(const struct log_map *x, uint64_t after, uint64_t *ret_log_id)
{
	for (uint64_t id = after + 1; id > after && id / PAGE_LOGS < x->n_pages; id++) {
		const struct log_page *p = x->page[id / PAGE_LOGS];
		if (p == NULL) {
			id |= PAGE_LOGS - 1;    /* a page of none */
		} else if (p->topic[id % PAGE_LOGS] != NULL) {
			*ret_log_id = id;
			return p->topic[id % PAGE_LOGS];
		}
	}
	return NULL;
}

void log_map_add(struct log_map *x, uint64_t log_id, struct state_topic *t)
{
	must(log_id < LOG_ID_MAX);
	size_t k = log_id / PAGE_LOGS;
	if (k >= x->n_pages) {
		size_t n = k + 1 > 2 * x->n_pages ? k + 1 : 2 * x->n_pages;
		x->page = must_realloc(x->page, n * sizeof(x->page[0]));
		memset(x->page + x->n_pages, 0, (n - x->n_pages) * sizeof(x->page[0]));
		x->n_pages = n;
	}
	if (x->page[k] == NULL)
		x->page[k] = must_calloc(1, sizeof(*x->page[k]));
	must(x->page[k]->topic[log_id % PAGE_LOGS] == NULL);
	x->page[k]->topic[log_id % PAGE_LOGS] = t;
	x->page[k]->n++;
}

void log_map_remove(struct log_map *x, uint64_t log_id)
{
	struct log_page *p = x->page[log_id / PAGE_LOGS];
	must(p != NULL && p->topic[log_id % PAGE_LOGS] != NULL);
	p->topic[log_id % PAGE_LOGS] = NULL;
	if (--p->n == 0) {
		free(p);
		x->page[log_id / PAGE_LOGS] = NULL;
	}
}
