/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in the store: data objects by their pages, WAL objects by their frames; then every log that an
 * export, an object or a frame names. Damage ends a restore: nobody can tell what it hides.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/engine/frame_facts.h"
#include "storaged/offline/restore_priv.h"

/* ---------------------------------------------------------------- data objects */

static bool object_add(struct restoring *r, const struct shelf_key *key, struct object_id id)
{
	int err;
	if ((r->n_objects & (r->n_objects - 1)) == 0)
		r->object = must_realloc(r->object, (r->n_objects == 0 ? 1 : 2 * r->n_objects) * sizeof(*r->object));
	struct r_object *o = &r->object[r->n_objects];
	*o = (struct r_object){ .id = id };
	const char *fault = object_file_read(r->data, id, key->size, &o->file, &err);
	if (fault != NULL)
		return restore_fail(r, "%s in %s: %s%s%s. Put back a good copy of it, or move it away to go on without its "
				    "records", key->key, r->data->url, fault, err != 0 ? ": " : "", err != 0 ? r->data->fault : "");
	r->n_objects++;
	const struct object_row *row = catalogue_find(state_catalogue(r->state), id);
	o->row = row != NULL ? *row : object_file_row(&o->file);
	o->known = row != NULL;
	o->marked = row != NULL && row->marked;
	o->live = !o->marked;
	if (o->file.footer.newest_ms > r->newest_ms)
		r->newest_ms = o->file.footer.newest_ms;
	for (size_t i = 0; i < o->file.n_states && fault == NULL; i++) {
		const Frame__State *e = o->file.state[i];
		fault = restore_card_add(r, e->log_id, e->next, e->card);
	}
	if (fault != NULL)
		return restore_fail(r, "%s in %s: %s", key->key, r->data->url, fault);
	for (size_t i = 0; i < o->file.n_states; i++)
		for (size_t k = 0; k < o->file.state[i]->n_kafka; k++)
			if (o->file.state[i]->kafka[k]->id > r->producer_id_max)
				r->producer_id_max = o->file.state[i]->kafka[k]->id;
	return true;
}

static int compare_objects(const void *a, const void *b)
{
	const struct object_id x = ((const struct r_object *)a)->id, y = ((const struct r_object *)b)->id;
	if (x.node != y.node)
		return x.node < y.node ? -1 : 1;
	if (x.session != y.session)
		return x.session < y.session ? -1 : 1;
	return (x.number > y.number) - (x.number < y.number);
}

static bool objects_read(struct restoring *r)
{
	struct shelf_keys keys;
	struct object_id id;
	bool ok = true;
	if (shelf_list(r->data, "data/", &keys) != 0)
		return restore_fail(r, "%s", r->data->fault);
	for (size_t i = 0; i < keys.n && ok; i++) {
		if (data_key_parse(keys.key[i].key, &id))
			ok = object_add(r, &keys.key[i], id);
		else
			r->n_foreign++;
	}
	shelf_keys_done(&keys);
	if (r->n_objects > 0)
		qsort(r->object, r->n_objects, sizeof(*r->object), compare_objects);
	return ok;
}

/* ----------------------------------------------------------------------- WAL */

static struct r_session *session_of(struct restoring *r, uint32_t node, uint64_t session)
{
	for (size_t i = r->n_sessions; i > 0; i--)
		if (r->session[i - 1].node == node && r->session[i - 1].session == session)
			return &r->session[i - 1];
	if ((r->n_sessions & (r->n_sessions - 1)) == 0)
		r->session = must_realloc(r->session, (r->n_sessions == 0 ? 1 : 2 * r->n_sessions) * sizeof(*r->session));
	struct r_session *s = &r->session[r->n_sessions++];
	*s = (struct r_session){ .node = node, .session = session, .cut = UINT64_MAX };
	for (size_t i = 0; i < r->n_session_entities; i++)
		if (r->session_entity[i]->node == node && r->session_entity[i]->session == session)
			s->known = r->session_entity[i];
	s->floor = s->known != NULL ? s->known->watermark : 0;
	return s;
}

static const char *frame_add(struct restoring *r, const struct frame *f)
{
	struct frame_facts facts;
	Frame__Meta *m;
	const char *fault = frame_facts_read(f, &facts, &m);
	if (fault == NULL) {
		if ((r->n_frames & (r->n_frames - 1)) == 0)
			r->frame = must_realloc(r->frame, (r->n_frames == 0 ? 1 : 2 * r->n_frames) * sizeof(*r->frame));
		r->frame[r->n_frames++] = (struct r_frame){
			.log_id = f->log_id, .base = facts.base, .end = facts.next, .epoch = f->epoch,
			.append_ms = f->append_time, .closes = facts.closes,
		};
		if (f->append_time > r->newest_ms)
			r->newest_ms = f->append_time;
		if (facts.has_claim && facts.claim.id > r->producer_id_max)
			r->producer_id_max = facts.claim.id;
	}
	if (fault == NULL)
		fault = restore_card_add(r, f->log_id, facts.next, m->card);
	frame__meta__free_unpacked(m, NULL);
	return fault;
}

static const char *body_read(struct restoring *r, struct slice object, struct r_wal *w)
{
	struct frame_iter it = { .body = slice_of(object.p + WAL_HEADER, object.n - WAL_HEADER) };
	struct frame f;
	int rc = 0;
	const char *fault = NULL;
	w->first_frame = r->n_frames;
	while (fault == NULL && (rc = frame_next(&it, &f)) == 1)
		fault = frame_add(r, &f);
	w->n_frames = r->n_frames - w->first_frame;
	return fault != NULL ? fault : rc < 0 ? it.fault : NULL;
}

static bool wal_add(struct restoring *r, struct r_session *s, const char *key, uint64_t seq)
{
	struct wal_header h;
	struct slice bytes;
	if (s->sealed && seq > s->cut)
		return true;    /* rubbish, or one more seal */
	if (shelf_get(r->wal, key, 0, 0, &bytes) != 0)
		return restore_fail(r, "%s", r->wal->fault);
	const char *fault = wal_object_check(bytes, s->node, s->session, seq, &h);
	struct r_wal w = { .seq = seq };
	if (fault == NULL && h.kind != WAL_SEAL)
		fault = body_read(r, bytes, &w);
	free((void *)bytes.p);
	if (fault != NULL)
		return restore_fail(r, "%s in %s: %s. Put back a good copy of it", key, r->wal->url, fault);
	if (h.kind == WAL_SEAL) {
		s->sealed = true;
		s->cut = seq < s->cut ? seq : s->cut;
		return true;
	}
	if ((s->n_wal & (s->n_wal - 1)) == 0)
		s->wal = must_realloc(s->wal, (s->n_wal == 0 ? 1 : 2 * s->n_wal) * sizeof(*s->wal));
	s->wal[s->n_wal++] = w;
	return true;
}

/* Both kinds of keys name node, session and number in the same way. */
static bool wal_key_parse(const char *key, struct object_id *ret_id)
{
	char text[DATA_KEY_MAX];
	int n = snprintf(text, sizeof(text), "data%s", key + strlen("wal"));
	return n < (int)sizeof(text) && data_key_parse(text, ret_id);
}

/* Of a session that was recovered nothing is needed any more; of others, what is not packed. */
static bool wal_is_wanted(const struct r_session *s, uint64_t seq)
{
	return s->known == NULL ||
	       (s->known->state != META__SESSION_ENTITY__STATE__RECOVERED && seq >= s->known->watermark);
}

static bool wal_read(struct restoring *r)
{
	struct shelf_keys keys;
	struct object_id id;
	bool ok = true;
	for (size_t i = 0; i < r->n_session_entities; i++)
		session_of(r, r->session_entity[i]->node, r->session_entity[i]->session);
	for (size_t i = 0; i < r->n_objects; i++)
		session_of(r, r->object[i].id.node, r->object[i].id.session);
	if (shelf_list(r->wal, "wal/", &keys) != 0)
		return restore_fail(r, "%s", r->wal->fault);
	for (size_t i = 0; i < keys.n && ok; i++) {
		if (!wal_key_parse(keys.key[i].key, &id)) {
			r->n_foreign++;
			continue;
		}
		struct r_session *s = session_of(r, id.node, id.session);
		if (wal_is_wanted(s, id.number))
			ok = wal_add(r, s, keys.key[i].key, id.number);
	}
	shelf_keys_done(&keys);
	return ok;
}

static int compare_sessions(const void *a, const void *b)
{
	const struct r_session *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->session > y->session) - (x->session < y->session);
}

/* ---------------------------------------------------------------------- logs */

static void log_see(struct restoring *r, uint64_t id, uint32_t epoch, uint32_t node, int64_t ms)
{
	if ((r->n_logs & (r->n_logs - 1)) == 0)
		r->log = must_realloc(r->log, (r->n_logs == 0 ? 1 : 2 * r->n_logs) * sizeof(*r->log));
	r->log[r->n_logs++] = (struct r_log){
		.id = id, .epoch = epoch, .owner = node, .partition = NO_PARTITION, .first_ms = ms,
	};
}

static int compare_logs(const void *a, const void *b)
{
	const struct r_log *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (y->epoch > x->epoch) - (y->epoch < x->epoch);
}

/* One for each id, with the highest epoch; whose the log was in it. */
static void logs_unite(struct restoring *r)
{
	size_t n = 0;
	if (r->n_logs > 0)
		qsort(r->log, r->n_logs, sizeof(*r->log), compare_logs);
	for (size_t i = 0; i < r->n_logs; i++) {
		if (n == 0 || r->log[n - 1].id != r->log[i].id)
			r->log[n++] = r->log[i];
		else if (r->log[i].first_ms > 0 && (r->log[n - 1].first_ms == 0 || r->log[i].first_ms < r->log[n - 1].first_ms))
			r->log[n - 1].first_ms = r->log[i].first_ms;
	}
	r->n_logs = n;
}

static void logs_name(struct restoring *r)
{
	for (size_t i = 0; i < r->n_logs; i++)
		r->log[i].dead = r->log[i].id < r->exported_log_id;
	for (size_t i = 0; i < r->n_topics; i++) {
		Meta__TopicEntity *t = r->topic[i].e;
		for (uint32_t p = 0; p < t->n_partitions; p++) {
			struct r_log *log = restore_log(r, t->partitions[p]->log_id);
			if (log == NULL)
				continue;       /* of one that is gone */
			log->topic = r->topic[i].gone ? NULL : t;
			log->partition = p;
			log->dead = r->topic[i].gone;
		}
	}
}

static void logs_add_topics(struct restoring *r)
{
	for (size_t i = 0; i < r->n_topics; i++) {
		const Meta__TopicEntity *t = r->topic[i].e;
		for (size_t p = 0; !r->topic[i].gone && p < t->n_partitions; p++)
			log_see(r, t->partitions[p]->log_id, t->partitions[p]->epoch, t->partitions[p]->owner, 0);
	}
	logs_unite(r);
}

static void logs_collect(struct restoring *r)
{
	for (size_t i = 0; i < r->n_objects; i++) {
		const struct object_file *f = &r->object[i].file;
		for (size_t k = 0; k < f->n_states; k++)
			log_see(r, f->state[k]->log_id, f->state[k]->epoch, f->footer.origin, f->footer.oldest_ms);
		for (size_t k = 0; k < f->n_blocks; k++)
			if (k == 0 || f->block[k].log_id != f->block[k - 1].log_id)
				log_see(r, f->block[k].log_id, 0, f->footer.origin, 0);
	}
	for (size_t i = 0; i < r->n_sessions; i++) {
		const struct r_session *s = &r->session[i];
		for (size_t w = 0; w < s->n_wal; w++)
			for (size_t k = 0; k < s->wal[w].n_frames; k++) {
				const struct r_frame *f = &r->frame[s->wal[w].first_frame + k];
				log_see(r, f->log_id, f->epoch, s->node, f->append_ms);
			}
	}
	logs_unite(r);
}

bool restore_read(struct restoring *r)
{
	if (!objects_read(r) || !wal_read(r))
		return false;
	if (r->n_sessions > 0)
		qsort(r->session, r->n_sessions, sizeof(*r->session), compare_sessions);
	logs_collect(r);
	if (!restore_cards(r))
		return false;
	logs_add_topics(r);
	logs_name(r);
	return true;
}
