/* SPDX-License-Identifier: Apache-2.0
 *
 * CommitObjects and ObjectsDeleted: the catalogue and the watermarks of sessions move by these alone. A commit is looked
 * at as a whole before anything of it is done. The rules keep each frame in one place: a WAL is packed once, in
 * the order of sessions, by the one who runs or recovers it; an object that others replace was there and unmarked.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/apply.h"
#include "storaged/meta/object_message.h"
#include "storaged/planted.h"

#define OBJECT "object %" PRIu32 "/%" PRIu64 "/%" PRIu64
#define OBJECT_ARGS(id) (id).node, (id).session, (id).number

/* ---------------------------------------------------------------- what is added */

static int compare_rows_by_id(const void *a, const void *b)
{
	const struct object_id x = ((const struct object_row *)a)->id, y = ((const struct object_row *)b)->id;
	if (x.node != y.node)
		return x.node > y.node ? 1 : -1;
	if (x.session != y.session)
		return x.session > y.session ? 1 : -1;
	return (x.number > y.number) - (x.number < y.number);
}

static int compare_rows_by_place(const void *a, const void *b)
{
	const struct object_row *x = a, *y = b;
	if (x->origin != y->origin)
		return x->origin > y->origin ? 1 : -1;
	if (x->level != y->level)
		return x->level > y->level ? 1 : -1;
	if (x->first_log != y->first_log)
		return x->first_log > y->first_log ? 1 : -1;
	return (x->first_offset > y->first_offset) - (x->first_offset < y->first_offset);
}

/* x stands before y. */
static bool overlap(const struct object_row *x, const struct object_row *y)
{
	if (x->origin != y->origin || x->level != y->level)
		return false;
	if (x->level == DATA_LEVEL_SINGLE)
		return x->first_log == y->first_log && x->end_offset > y->first_offset;
	return x->last_log >= y->first_log;
}

/* A row that names a run is what an object of that run, which goes, is rewritten to. */
static bool has_place(const struct state *s, const Meta__CommitObjects *c, const Meta__ObjectRow *m)
{
	for (size_t i = 0; i < c->n_remove; i++) {
		const struct object_row *x = catalogue_find(s->catalogue, object_message_id(c->remove[i]));
		if (x != NULL && x->origin == m->origin && x->level == m->level && x->run == m->run &&
		    x->first_log <= m->first_log && x->last_log >= m->last_log)
			return true;
	}
	return false;
}

static void check_row(const struct state *s, const Meta__CommitObjects *c, const Meta__ObjectRow *m, Meta__Result__One *one)
{
	const char *fault = object_message_fault(m);
	if (fault != NULL) {
		apply_refuse(one, PICO_BAD_REQUEST, "an object to add %s", fault);
		return;
	}
	struct object_id id = object_message_id(m->id);
	if (id.node != c->node || id.session != c->session)
		apply_refuse(one, PICO_BAD_REQUEST, OBJECT " was not written by session %" PRIu64 " of node %" PRIu32,
			     OBJECT_ARGS(id), c->session, c->node);
	else if (state_node_find(s, m->origin) == NULL)
		apply_refuse(one, PICO_BAD_REQUEST, OBJECT " holds logs of node %" PRIu32 ", which is none", OBJECT_ARGS(id),
			     m->origin);
	else if (c->wal != NULL && m->origin != c->wal->node)
		apply_refuse(one, PICO_BAD_REQUEST, OBJECT " holds logs of node %" PRIu32 " and comes from the WAL of node %"
			     PRIu32, OBJECT_ARGS(id), m->origin, c->wal->node);
	else if (m->run != 0 && (m->level == DATA_LEVEL_SINGLE || !has_place(s, c, m)))
		apply_refuse(one, PICO_BAD_REQUEST, OBJECT " has no place in run %" PRIu64, OBJECT_ARGS(id), m->run);
	else if (catalogue_find(s->catalogue, id) != NULL)
		apply_refuse(one, PICO_CONFLICT, OBJECT " is in the catalogue already", OBJECT_ARGS(id));
}

static void check_add(const struct state *s, const Meta__CommitObjects *c, Meta__Result__One *one)
{
	struct object_row *row = must_calloc(c->n_add + 1, sizeof(*row));
	for (size_t i = 0; i < c->n_add && one->error == PICO_OK; i++) {
		check_row(s, c, c->add[i], one);
		if (one->error == PICO_OK)
			row[i] = object_message_row(c->add[i]);
	}
	if (one->error == PICO_OK) {
		qsort(row, c->n_add, sizeof(*row), compare_rows_by_id);
		for (size_t i = 1; i < c->n_add && one->error == PICO_OK; i++)
			if (object_id_is_equal(row[i - 1].id, row[i].id))
				apply_refuse(one, PICO_BAD_REQUEST, OBJECT " is added twice", OBJECT_ARGS(row[i].id));
		qsort(row, c->n_add, sizeof(*row), compare_rows_by_place);
		for (size_t i = 1; i < c->n_add && one->error == PICO_OK; i++)
			if (overlap(&row[i - 1], &row[i]))
				apply_refuse(one, PICO_BAD_REQUEST, OBJECT " and " OBJECT " of one run overlap",
					     OBJECT_ARGS(row[i - 1].id), OBJECT_ARGS(row[i].id));
	}
	free(row);
}

/* ---------------------------------------------------------------- what is removed */

static void check_remove(const struct state *s, const Meta__CommitObjects *c, Meta__Result__One *one)
{
	struct object_row *seen = must_calloc(c->n_remove + 1, sizeof(*seen));
	for (size_t i = 0; i < c->n_remove && one->error == PICO_OK; i++) {
		seen[i].id = object_message_id(c->remove[i]);
		const struct object_row *row = catalogue_find(s->catalogue, seen[i].id);
		if (row == NULL)
			apply_refuse(one, PICO_NOT_FOUND, OBJECT " is not in the catalogue", OBJECT_ARGS(seen[i].id));
		else if (row->marked)
			apply_refuse(one, PICO_CONFLICT, OBJECT " was removed before", OBJECT_ARGS(seen[i].id));
	}
	qsort(seen, c->n_remove, sizeof(*seen), compare_rows_by_id);
	for (size_t i = 1; i < c->n_remove && one->error == PICO_OK; i++)
		if (object_id_is_equal(seen[i - 1].id, seen[i].id))
			apply_refuse(one, PICO_BAD_REQUEST, OBJECT " is removed twice", OBJECT_ARGS(seen[i].id));
	free(seen);
}

/* ---------------------------------------------------------------- what is packed */

static bool may_pack(const struct state_session *w, const Meta__CommitObjects *c)
{
	return w->state == SESSION_ACTIVE ? w->node == c->node && w->session == c->session :
	       w->state == SESSION_ENDED && w->recoverer == c->node;
}

static void check_wal(const struct state *s, const Meta__CommitObjects *c, Meta__Result__One *one)
{
	const Meta__CommitObjects__Wal *wal = c->wal;
	const struct session_entry *e = state_session_find(s, wal->node, wal->session);
	if (e == NULL)
		apply_refuse(one, PICO_NOT_FOUND, "node %" PRIu32 " has no session %" PRIu64, wal->node, wal->session);
	else if (!may_pack(&e->s, c))
		apply_refuse(one, PICO_NOT_OWNER, "session %" PRIu64 " of node %" PRIu32 " is not node %" PRIu32
			     "'s to pack", wal->session, wal->node, c->node);
	else if (!state_older_are_recovered(s, wal->node, wal->session))
		apply_refuse(one, PICO_CONFLICT, "a session of node %" PRIu32 " before %" PRIu64 " is not recovered yet",
			     wal->node, wal->session);
	else if (wal->to < wal->from)
		apply_refuse(one, PICO_BAD_REQUEST, "WAL objects from %" PRIu64 " to %" PRIu64 " are none", wal->from,
			     wal->to);
	else if (wal->from != e->s.watermark)
		apply_refuse(one, PICO_CONFLICT, "session %" PRIu64 " of node %" PRIu32 " is packed up to %" PRIu64
			     ", not %" PRIu64, wal->session, wal->node, e->s.watermark, wal->from);
}

static void check_proposer(const struct state *s, uint32_t node, uint64_t session, Meta__Result__One *one)
{
	const struct session_entry *e = state_session_find(s, node, session);
	if (e == NULL || e->s.state != SESSION_ACTIVE)
		apply_refuse(one, PICO_FENCED, "session %" PRIu64 " of node %" PRIu32 " is not running", session, node);
}

static void check_commit(const struct state *s, const Meta__CommitObjects *c, Meta__Result__One *one)
{
	if (planted(PLANTED_COMMIT_UNCHECKED))
		return;
	check_proposer(s, c->node, c->session, one);
	if (one->error == PICO_OK && c->wal != NULL)
		check_wal(s, c, one);
	if (one->error == PICO_OK)
		check_add(s, c, one);
	if (one->error == PICO_OK)
		check_remove(s, c, one);
}

void state_check_commit(const struct state *s, const Meta__CommitObjects *c, struct pico_error *ret_error)
{
	Meta__Result__One one = META__RESULT__ONE__INIT;
	check_commit(s, c, &one);
	apply_checked(&one, ret_error);
}

/* ---------------------------------------------------------------- done */

static void add_objects(struct state *s, const struct sql_row *row, const Meta__CommitObjects *c)
{
	uint64_t run[DATA_LEVELS + 1] = { 0 };
	for (uint32_t level = 0; level <= DATA_LEVEL_SINGLE; level++)
		for (size_t i = 0; i < c->n_add && run[level] == 0; i++)
			if (c->add[i]->level == level && c->add[i]->run == 0)
				run[level] = s->next_run++;
	for (size_t i = 0; i < c->n_add; i++) {
		struct object_row added = object_message_row(c->add[i]);
		if (added.run == 0)
			added.run = run[added.level];
		added.changed_idx = row->idx;
		catalogue_add(s->catalogue, &added);
	}
}

void apply_commit_objects(struct state *s, const struct sql_row *row, const Meta__Command *command,
			  Meta__Result__One *one)
{
	const Meta__CommitObjects *c = command->commit_objects;
	check_commit(s, c, one);
	if (one->error != PICO_OK)
		return;
	for (size_t i = 0; i < c->n_remove; i++) {
		struct object_id id = object_message_id(c->remove[i]);
		snapshot_save_object(s, catalogue_find(s->catalogue, id));
		catalogue_mark(s->catalogue, id, s->clock_ms, row->idx);
	}
	add_objects(s, row, c);
	if (c->wal != NULL) {
		struct session_entry *e = state_session_find(s, c->wal->node, c->wal->session);
		must(e != NULL && e->s.watermark <= c->wal->to);
		e->s.watermark = c->wal->to;
		e->changed_idx = row->idx;
	}
}

void apply_objects_deleted(struct state *s, const struct sql_row *row, const Meta__Command *command,
			   Meta__Result__One *one)
{
	const Meta__ObjectsDeleted *d = command->objects_deleted;
	for (size_t i = 0; i < d->n_id; i++) {
		struct object_id id = object_message_id(d->id[i]);
		const struct object_row *x = catalogue_find(s->catalogue, id);
		if (x != NULL && !x->marked) {
			apply_refuse(one, PICO_CONFLICT, OBJECT " is in use: it was not removed", OBJECT_ARGS(id));
			return;
		}
	}
	for (size_t i = 0; i < d->n_id; i++) {
		struct object_id id = object_message_id(d->id[i]);
		const struct object_row *x = catalogue_find(s->catalogue, id);
		if (x == NULL)
			continue;
		snapshot_save_object(s, x);
		state_remember_deleted(s, (struct state_deleted){ .idx = row->idx, .kind = DELETED_OBJECT, .object = id });
		catalogue_drop(s->catalogue, id);
	}
}
