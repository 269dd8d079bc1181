/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. A window of neighbours grows while it fits into one object; it is full when the next one does not fit, and closed
 * by one that is joined already or damaged. The last window of a log stays open: packs still add to it.
 */
#include "storaged/engine/join.h"

#include <stdlib.h>

#include "storaged/bounds.h"
#include "storaged/engine/damage.h"

struct neighbours {
	struct object_row *row;         /* of one log, by offset */
	size_t n, capacity;
};

static void neighbour_add(struct neighbours *l, const struct object_row *row)
{
	if (l->n == l->capacity) {
		l->capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
		l->row = must_realloc(l->row, l->capacity * sizeof(*l->row));
	}
	l->row[l->n++] = *row;
}

static int by_offset(const void *a, const void *b)
{
	const struct object_row *x = a, *y = b;
	return (x->first_offset > y->first_offset) - (x->first_offset < y->first_offset);
}

/* All of the first log from log_id on. */
static void neighbours_find(struct neighbours *l, const struct engine *e, uint64_t log_id)
{
	const struct catalogue *c = engine_catalogue(e);
	const struct object_row *row = catalogue_single_next(c, e->config.node, log_id, NULL);
	for (l->n = 0; row != NULL && (l->n == 0 || row->first_log == l->row[0].first_log);
	     row = catalogue_single_next(c, e->config.node, log_id, row))
		neighbour_add(l, row);
	if (l->n > 1)
		qsort(l->row, l->n, sizeof(*l->row), by_offset);
}

static bool is_closed(const struct engine *e, const struct object_row *row)
{
	return row->bytes >= bounds.merge_max / 2 || damage_has(e->damage, row->id);
}

/* The first window that is full or closed: its size, and where it begins. 0: there is none. */
static size_t window_find(const struct engine *e, const struct neighbours *l, size_t *ret_first)
{
	uint64_t bytes = 0;
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct object_row *row = &l->row[i];
		bool closed = is_closed(e, row);
		*ret_first = i - n;
		if (n > 1 && (closed || n == JOIN_MAX || bytes + row->bytes > bounds.merge_max))
			return n;
		if (closed || (n == 1 && bytes + row->bytes > bounds.merge_max))
			n = bytes = 0;
		if (!closed) {
			bytes += row->bytes;
			n++;
		}
	}
	*ret_first = l->n - n;
	return n == JOIN_MAX ? n : 0;
}

static void begin_if_due(struct join *j, const struct engine *e)
{
	struct catalogue_level l = catalogue_level(engine_catalogue(e), e->config.node, DATA_LEVEL_SINGLE);
	if (!j->through || (l.n_objects == j->n_objects && l.bytes == j->bytes))
		return;
	*j = (struct join){ .n_objects = l.n_objects, .bytes = l.bytes };
}

void join_again(struct join *j)
{
	*j = (struct join){ 0 };
}

size_t join_look(struct join *j, const struct engine *e, struct object_row ret[JOIN_MAX])
{
	struct neighbours l = { 0 };
	size_t n = 0, first;
	begin_if_due(j, e);
	for (size_t seen = 0; !j->through && n == 0 && seen < bounds.merge_steps; seen += l.n) {
		neighbours_find(&l, e, j->log_id);
		j->through = l.n == 0;
		if (j->through)
			break;
		n = window_find(e, &l, &first);
		for (size_t i = 0; i < n; i++)
			ret[i] = l.row[first + i];
		j->log_id = l.row[0].first_log + (n == 0);      /* there may be another window */
	}
	free(l.row);
	return n;
}
