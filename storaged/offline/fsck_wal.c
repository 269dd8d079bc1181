/* SPDX-License-Identifier: Apache-2.0
 *
 * WAL objects: each one's bytes and frames; that none is missing between a session's watermark and its end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "storaged/engine/wal.h"
#include "storaged/offline/fsck_priv.h"

/* The objects of one session, in order of seq. */
struct walking {
	uint32_t node;
	uint64_t session;
	const struct state_session *x;  /* NULL: nobody knows it */
	uint64_t next, last;            /* next: the seq that has to come; last: of the last data object seen */
	bool any, sealed;
	uint64_t cut;
};

bool fsck_wal_key(const char *key, uint32_t *ret_node, uint64_t *ret_session, uint64_t *ret_seq)
{
	char text[DATA_KEY_MAX];
	struct object_id id;
	if (strncmp(key, "wal/", 4) != 0 || snprintf(text, sizeof(text), "data%s", key + 3) >= (int)sizeof(text) ||
	    !data_key_parse(text, &id))
		return false;
	*ret_node = id.node;
	*ret_session = id.session;
	*ret_seq = id.number;
	return true;
}

static const struct state_session *session_of(const struct state *s, uint32_t node, uint64_t session)
{
	const struct state_session *x = session == 0 ? NULL : state_session_next(s, node, session - 1);
	return x != NULL && x->session == session ? x : NULL;
}

/* --------------------------------------------------------------------- one object */

static const char *frames_check(struct slice object)
{
	struct frame_iter it = { .body = slice_of(object.p + WAL_HEADER, object.n - WAL_HEADER) };
	struct frame f;
	int rc;
	while ((rc = frame_next(&it, &f)) == 1)
		;
	return rc < 0 ? it.fault : NULL;
}

/* Whether its records may still be needed. */
static bool is_needed(const struct walking *w, uint64_t seq)
{
	if (w->sealed && seq >= w->cut)
		return false;
	return w->x == NULL || (w->x->state != SESSION_RECOVERED && seq >= w->x->watermark);
}

static void hole_look(struct checking *c, const struct walking *w, uint64_t seq, bool sealed)
{
	char key[WAL_KEY_MAX];
	if (w->x == NULL || w->x->state == SESSION_RECOVERED || seq <= w->next || w->next < w->x->watermark)
		return;
	/* A put that was answered late leaves a hole below the last 64 at most, and only in a session that goes on or died. */
	bool deleted = sealed || seq - w->next > WAL_REACH;
	wal_key(key, w->node, w->session, w->next);
	fsck_say_again(c, deleted ? FSCK_ERROR : FSCK_WARNING, "missing", key, "WAL object%s is missing between the watermark and "
		       "the end of its session%s", seq - w->next > 1 ? " and those behind it" : "", deleted ?
		       ": records that were acknowledged are lost, and a start is refused; restore it from a copy of the store" :
		       ", or was never stored: a node that was killed leaves that, and nothing was acknowledged behind it");
}

static const char *object_check(struct checking *c, struct walking *w, uint64_t seq, struct slice bytes)
{
	struct wal_header h;
	const char *fault = wal_object_check(bytes, w->node, w->session, seq, &h);
	if (fault != NULL)
		return fault;
	if (!w->sealed)
		hole_look(c, w, seq, h.kind == WAL_SEAL);
	if (h.kind == WAL_SEAL) {
		w->cut = w->sealed ? w->cut : seq;
		w->sealed = true;
		return NULL;
	}
	w->next = seq + 1 > w->next ? seq + 1 : w->next;
	return frames_check(bytes);
}

static bool look(struct checking *c, struct walking *w, const struct shelf_key *key, uint64_t seq)
{
	struct slice bytes;
	int err = shelf_get(c->wal, key->key, 0, 0, &bytes);
	if (err == -ENOENT)
		return true;            /* packed meanwhile; if not, the next one tells */
	if (err != 0)
		return false;
	c->out->n_wal++;
	fsck_count(c, bytes.n);
	const char *fault = object_check(c, w, seq, bytes);
	free((void *)bytes.p);
	if (fault != NULL) {
		w->next = seq + 1 > w->next ? seq + 1 : w->next;
		fsck_say_again(c, is_needed(w, seq) ? FSCK_ERROR : FSCK_NOTE, "damaged", key->key, "%s: %s", fault, is_needed(w, seq) ?
			       "a start is refused; records in it may be lost. Restore it from a copy of the store" :
			       "nobody needs it any more");
	}
	return true;
}

/* -------------------------------------------------------------------- sessions */

static void session_begin(struct checking *c, struct walking *w, const char *key)
{
	w->x = session_of(c->state, w->node, w->session);
	w->next = w->x != NULL ? w->x->watermark : 0;
	if (w->x != NULL)
		return;
	if (state_node(c->state, w->node) == NULL)
		fsck_say_again(c, FSCK_WARNING, "unknown_node", key, "no node %" PRIu32 " ever registered: this and what stands "
			       "beside it is somebody else's, or the database is older than the store. It is never deleted", w->node);
	else
		fsck_say_again(c, FSCK_WARNING, "unknown_session", key, "node %" PRIu32 " never had a session %" PRIu64 ": the "
			       "database is older than the store. It is never deleted", w->node, w->session);
}

static void session_end(struct checking *c, const struct walking *w)
{
	char key[WAL_KEY_MAX];
	if (w->x == NULL || w->x->state != SESSION_RECOVERED || (w->sealed && w->cut <= w->x->cut))
		return;
	wal_key(key, w->node, w->session, w->x->cut);
	fsck_say(c, FSCK_WARNING, "missing", key, "the seal of an ended session is missing: a process of it that slept all the time "
		 "could write once more, and nobody would read it");
}

/* Sessions without any object: one that runs has its open object, one that ended its seal. */
static void sessions_missing(struct checking *c, const struct shelf_keys *keys)
{
	for (const Meta__NodeEntity *n = state_node_next(c->state, 0); n != NULL; n = state_node_next(c->state, n->node)) {
		const struct state_session *x = state_session_next(c->state, n->node, 0);
		for (; x != NULL; x = state_session_next(c->state, n->node, x->session)) {
			char prefix[WAL_KEY_MAX], key[WAL_KEY_MAX];
			bool any = false;
			wal_key(prefix, n->node, x->session, 0);
			prefix[strlen(prefix) - 16] = '\0';
			for (size_t i = 0; i < keys->n && !any; i++)
				any = strncmp(keys->key[i].key, prefix, strlen(prefix)) == 0;
			wal_key(key, n->node, x->session, x->state == SESSION_ACTIVE ? 0 : x->watermark);
			if (!any && !c->from_export)
				fsck_say_again(c, FSCK_WARNING, "missing", key, "nothing of session %" PRIu64 " is there, not even %s", x->session,
					       x->state == SESSION_ACTIVE ? "its open object" : "its seal");
		}
	}
}

bool fsck_wal(struct checking *c, const struct shelf_keys *keys)
{
	struct walking w = { 0 };
	uint32_t node;
	uint64_t session, seq;
	for (size_t i = 0; i < keys->n; i++) {
		const struct shelf_key *key = &keys->key[i];
		if (!fsck_wal_key(key->key, &node, &session, &seq)) {
			if (strncmp(key->key, "wal/", 4) == 0)
				fsck_say(c, FSCK_WARNING, "foreign", key->key, "no WAL object has such a name; nobody reads or deletes it");
			continue;
		}
		if (!w.any || node != w.node || session != w.session) {
			session_end(c, &w);
			w = (struct walking){ .node = node, .session = session, .any = true };
			session_begin(c, &w, key->key);
		}
		if (!look(c, &w, key, seq))
			return false;
	}
	session_end(c, &w);
	sessions_missing(c, keys);
	return true;
}

bool fsck_wal_holds(const struct checking *c, const struct fsck_finding *f, const struct state *now)
{
	uint32_t node;
	uint64_t session, seq;
	struct slice bytes;
	if (!fsck_wal_key(f->key, &node, &session, &seq))
		return true;
	const struct state_session *x = session_of(now, node, session);
	int err = shelf_get(c->wal, f->key, 0, 1, &bytes);
	if (err == 0)
		free((void *)bytes.p);
	if (strcmp(f->kind, "missing") == 0)
		return err == -ENOENT && x != NULL && (x->state == SESSION_ACTIVE ? seq == 0 || seq >= x->watermark : true);
	if (strcmp(f->kind, "damaged") == 0)
		return err == 0 && (x == NULL || seq >= x->watermark || f->severity == FSCK_NOTE);
	return x == NULL && err == 0;
}
