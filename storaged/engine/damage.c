/* SPDX-License-Identifier: Apache-2.0
 *
 * A list: there are none, mostly.
 */
#include "storaged/engine/damage.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/metrics.h"

#define DAMAGED_MAX 1000u               /* beyond that nobody counts */

struct damage {
	struct engine *engine;
	struct object_id *ids;
	size_t n;
};

struct damage *damage_new(struct engine *e)
{
	struct damage *d = must_calloc(1, sizeof(*d));
	d->engine = e;
	return d;
}

void damage_free(struct damage *d)
{
	if (d == NULL)
		return;
	free(d->ids);
	free(d);
}

bool damage_has(const struct damage *d, struct object_id id)
{
	for (size_t i = 0; i < d->n; i++)
		if (object_id_is_equal(d->ids[i], id))
			return true;
	return false;
}

void damage_note(struct damage *d, struct object_id id, const char *fault, bool missing)
{
	struct engine *e = d->engine;
	const struct object_row *row = catalogue_find(engine_catalogue(e), id);
	char key[DATA_KEY_MAX], text[400];
	if (row == NULL || row->marked || d->n == DAMAGED_MAX || damage_has(d, id))
		return;
	d->ids = must_realloc(d->ids, (d->n + 1) * sizeof(*d->ids));
	d->ids[d->n++] = id;
	metric_set(METRIC_OBJECTS_DAMAGED, (int64_t)d->n);
	data_key(key, id);
	snprintf(text, sizeof(text), "data object %s is %s: %.200s; it is kept and not merged, and reads of it fail", key,
		 missing ? "missing" : "damaged", fault);
	if (e->events.on_warning != NULL)
		e->events.on_warning(e->arg, text);
}
