/* SPDX-License-Identifier: Apache-2.0
 *
 * Data objects: those of the catalogue in every byte, the others by whose they are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "storaged/offline/fsck_priv.h"

/* What is lost with an object, in words. */
static void stake(const struct object_row *row, char ret[160])
{
	snprintf(ret, 160, "records and states of logs %" PRIu64 " to %" PRIu64 " of node %" PRIu32, row->first_log, row->last_log,
		 row->origin);
}

static const char *row_differs(const struct object_file *f, const struct object_row *row)
{
	struct object_row x = object_file_row(f);
	if (x.origin != row->origin || x.level != row->level)
		return "origin or level";
	if (x.first_log != row->first_log || x.last_log != row->last_log)
		return "its range of logs";
	if (x.oldest_ms != row->oldest_ms || x.newest_ms != row->newest_ms)
		return "its times";
	if (x.first_offset != row->first_offset || x.end_offset != row->end_offset)
		return "its offsets";
	return NULL;
}

/* ------------------------------------------------------------- catalogued objects */

static bool blocks_check(struct checking *c, const char *key, const struct object_file *f, const struct object_row *row)
{
	uint64_t position = 0;
	int err;
	char lost[160];
	stake(row, lost);
	const char *fault = object_file_check_blocks(c->data, f, &position, &err);
	if (err != 0 && err != -ENOENT)
		return false;
	if (fault != NULL && err == 0)
		fsck_say(c, row->marked ? FSCK_NOTE : FSCK_ERROR, "damaged", key, "block at %" PRIu64 ": %s. %s", position, fault,
			 row->marked ? "It was removed and will be deleted" : "Reads that touch it fail");
	const char *other = row_differs(f, row);
	if (other != NULL)
		fsck_say(c, FSCK_ERROR, "mismatch", key, "the catalogue has another word on %s: reads look in the wrong place", other);
	return true;
}

static bool known_check(struct checking *c, const struct shelf_key *key, const struct object_row *row)
{
	struct object_file f;
	char lost[160];
	int err;
	stake(row, lost);
	if (key->size != row->bytes) {
		fsck_say_again(c, row->marked ? FSCK_NOTE : FSCK_ERROR, key->size < row->bytes ? "truncated" : "damaged", key->key,
			       "%" PRIu64 " bytes, the catalogue has %" PRIu64 ": %s are not readable", key->size, row->bytes, lost);
		return true;
	}
	const char *fault = object_file_read(c->data, row->id, key->size, &f, &err);
	if (err == -ENOENT)
		return true;            /* said by fsck_data_missing(), or deleted meanwhile */
	if (err != 0)
		return false;
	if (fault != NULL) {
		fsck_say(c, row->marked ? FSCK_NOTE : FSCK_ERROR, "damaged", key->key, "%s: %s", fault, row->marked ?
			 "it was removed and will be deleted" : "a start is refused, or reads fail; restore it from a copy of the store");
		return true;
	}
	bool ok = blocks_check(c, key->key, &f, row);
	object_file_done(&f);
	return ok;
}

/* ------------------------------------------------------------------ the others */

static const struct state_session *session_of(const struct state *s, uint32_t node, uint64_t session)
{
	const struct state_session *x = session == 0 ? NULL : state_session_next(s, node, session - 1);
	return x != NULL && x->session == session ? x : NULL;
}

static void unknown_say(struct checking *c, const char *key, struct object_id id)
{
	const struct state_session *x = session_of(c->state, id.node, id.session);
	if (state_node(c->state, id.node) == NULL)
		fsck_say_again(c, FSCK_WARNING, "unknown_node", key, "no node %" PRIu32 " ever registered: the object is somebody "
			       "else's, or the database is older than the store. It is never deleted", id.node);
	else if (x == NULL)
		fsck_say_again(c, FSCK_WARNING, "unknown_session", key, "node %" PRIu32 " never had a session %" PRIu64 ": the "
			       "database is older than the store. It is never deleted", id.node, id.session);
	else if (x->state == SESSION_ACTIVE)
		fsck_say_again(c, FSCK_NOTE, "uncommitted", key, "it is in no catalogue: being written, or left by a commit that "
			       "failed; it goes when the session has ended");
	else
		fsck_say_again(c, FSCK_NOTE, "orphan", key, "it is in no catalogue and its session has ended: the sweep deletes it");
}

bool fsck_data_object(struct checking *c, const struct shelf_key *key)
{
	struct object_id id;
	bool ok = true;
	if (!data_key_parse(key->key, &id)) {
		fsck_say(c, FSCK_WARNING, "foreign", key->key, "no data object has such a name; nobody reads or deletes it");
		return true;
	}
	const struct object_row *row = catalogue_find(state_catalogue(c->state), id);
	if (row != NULL)
		ok = known_check(c, key, row);
	else
		unknown_say(c, key->key, id);
	c->out->n_data++;
	fsck_count(c, key->size);
	return ok;
}

static bool is_listed(const struct shelf_keys *keys, const char *key)
{
	size_t low = 0, high = keys->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(keys->key[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < keys->n && strcmp(keys->key[low].key, key) == 0;
}

void fsck_data_missing(struct checking *c)
{
	const struct catalogue *catalogue = state_catalogue(c->state);
	for (const struct object_row *x = catalogue_next(catalogue, NULL); x != NULL; x = catalogue_next(catalogue, &x->id)) {
		char key[DATA_KEY_MAX], lost[160];
		data_key(key, x->id);
		if (x->marked || is_listed(&c->data_keys, key))
			continue;
		stake(x, lost);
		fsck_say_again(c, c->from_export ? FSCK_NOTE : FSCK_ERROR, "missing", key, c->from_export ?
			       "the export has it and the store has not: merged or emptied since, or %s are lost" :
			       "the catalogue has it and the store has not: %s are lost; restore it from a copy of the store", lost);
	}
}

bool fsck_data_holds(const struct checking *c, const struct fsck_finding *f, const struct state *now)
{
	struct object_id id;
	struct slice bytes;
	if (!data_key_parse(f->key, &id))
		return true;
	const struct object_row *row = catalogue_find(state_catalogue(now), id);
	int err = shelf_get(c->data, f->key, 0, 1, &bytes);
	if (err == 0)
		free((void *)bytes.p);
	if (strcmp(f->kind, "missing") == 0)
		return row != NULL && !row->marked && err == -ENOENT;
	if (strcmp(f->kind, "truncated") == 0 || strcmp(f->kind, "damaged") == 0)
		return row != NULL && err == 0;
	return row == NULL && err == 0;         /* uncommitted, orphan, unknown */
}
