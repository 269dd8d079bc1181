/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of topics by log id.
 */
#include "storaged/meta/log_map.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"

#define PAGE_LOGS 512

struct log_page {
	size_t n;
	struct state_topic *topic[PAGE_LOGS];
};

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
