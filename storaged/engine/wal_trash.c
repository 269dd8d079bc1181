/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue of ranges and one delete under way. A range that is not deleted is asked for again after a back-off.
 */
#include "storaged/engine/wal_trash.h"

#include <stdlib.h>

#include "common/must.h"
#include "storaged/engine/wal_format.h"

#define KEYS_MAX 1000u
#define BACKOFF_MS 5000u

struct range {
	struct range *next;
	uint64_t session, from, to;
};

struct wal_trash {
	struct env *env;
	struct objstore *store;
	uint32_t node;
	struct range *first, **tail;
	uint64_t to;                    /* of the delete under way */
	bool busy;
	struct env_timer timer;
};

static void trash_go(struct wal_trash *t);

static void on_timer(void *arg)
{
	trash_go(arg);
}

static void range_pop(struct wal_trash *t)
{
	struct range *r = t->first;
	t->first = r->next;
	if (t->first == NULL)
		t->tail = &t->first;
	free(r);
}

static void on_deleted(void *arg, struct obj_result result)
{
	struct wal_trash *t = arg;
	t->busy = false;
	if (result.outcome != OUTCOME_OK) {
		env_timer_start(t->env, &t->timer, env_now_ms(t->env) + BACKOFF_MS);
		return;
	}
	t->first->from = t->to;
	if (t->first->from == t->first->to)
		range_pop(t);
	trash_go(t);
}

static void trash_go(struct wal_trash *t)
{
	if (t->busy || t->first == NULL)
		return;
	const struct range *r = t->first;
	t->to = r->to - r->from > KEYS_MAX ? r->from + KEYS_MAX : r->to;
	size_t n = (size_t)(t->to - r->from);
	char (*text)[WAL_KEY_MAX] = must_calloc(n, sizeof(*text));
	const char **keys = must_calloc(n, sizeof(*keys));
	for (size_t i = 0; i < n; i++) {
		wal_key(text[i], t->node, r->session, r->from + i);
		keys[i] = text[i];
	}
	t->busy = true;
	t->store->ops->del(t->store, keys, n, on_deleted, t);
	free(keys);
	free(text);
}

struct wal_trash *wal_trash_new(struct env *env, struct objstore *wal, uint32_t node)
{
	struct wal_trash *t = must_calloc(1, sizeof(*t));
	*t = (struct wal_trash){ .env = env, .store = wal, .node = node };
	t->tail = &t->first;
	t->timer = (struct env_timer){ .on_fire = on_timer, .arg = t };
	return t;
}

void wal_trash_free(struct wal_trash *t)
{
	env_timer_stop(t->env, &t->timer);
	while (t->first != NULL)
		range_pop(t);
	free(t);
}

void wal_trash_add(struct wal_trash *t, uint64_t session, uint64_t from, uint64_t to)
{
	if (from >= to)
		return;
	struct range *r = must_calloc(1, sizeof(*r));
	*r = (struct range){ .session = session, .from = from, .to = to };
	*t->tail = r;
	t->tail = &r->next;
	trash_go(t);
}
