/* SPDX-License-Identifier: Apache-2.0
 *
 * What is begun with: the newest export that is whole, of the cluster that the store says it belongs to.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/snapshot.h"
#include "storaged/offline/restore_priv.h"

/* ----------------------------------------------------------- the cluster object */

static bool check_uuid(struct restoring *r, struct shelf *shelf, const uint8_t uuid[16])
{
	struct slice bytes;
	int err = shelf_get(shelf, "cluster", 0, 0, &bytes);
	if (err == -ENOENT)
		return restore_fail(r, "%s holds no cluster object: the storage URL is wrong, or nothing ever ran on it",
				    shelf->url);
	if (err != 0)
		return restore_fail(r, "%s", shelf->fault);
	Meta__ClusterObject *o = meta__cluster_object__unpack(NULL, bytes.n, bytes.p);
	free((void *)bytes.p);
	bool ok = o != NULL && o->uuid.len == 16 && memcmp(o->uuid.data, uuid, 16) == 0;
	if (o == NULL)
		restore_fail(r, "%s: the object \"cluster\" is not readable", shelf->url);
	else if (o->format > STATE_FORMAT)
		ok = restore_fail(r, "%s has FORMAT %u, this release reads up to %u: use a newer release", shelf->url, o->format,
				  STATE_FORMAT);
	else if (!ok)
		restore_fail(r, "the export is of another cluster than the object \"cluster\" in %s: they do not belong "
			     "together", shelf->url);
	if (o != NULL)
		meta__cluster_object__free_unpacked(o, NULL);
	return ok;
}

/* -------------------------------------------------------------------- entities */

static bool has_prefix(struct slice key, const char *prefix)
{
	return key.n >= strlen(prefix) && memcmp(key.p, prefix, strlen(prefix)) == 0;
}

#define UNPACK(list, count, kind, bytes) do { \
	if (((count) & ((count) - 1)) == 0) \
		(list) = must_realloc((list), ((count) == 0 ? 1 : 2 * (count)) * sizeof(*(list))); \
	(list)[(count)++] = meta__##kind##_entity__unpack(NULL, (bytes).n, (bytes).p); \
	must((list)[(count) - 1] != NULL); \
} while (0)

static void topic_unpack(struct restoring *r, struct slice bytes)
{
	r->topic = must_realloc(r->topic, (r->n_topics + 1) * sizeof(*r->topic));
	struct r_topic *t = &r->topic[r->n_topics++];
	*t = (struct r_topic){ .e = meta__topic_entity__unpack(NULL, bytes.n, bytes.p) };
	must(t->e != NULL);
}

/* state_load() took them, so they decode. Objects are read from its catalogue. */
static void unpack(struct restoring *r, const struct sql_entity *e)
{
	if (slice_is(e->key, "cluster"))
		r->cluster = meta__cluster_entity__unpack(NULL, e->payload.n, e->payload.p);
	else if (has_prefix(e->key, "node/"))
		UNPACK(r->node, r->n_nodes, node, e->payload);
	else if (has_prefix(e->key, "session/"))
		UNPACK(r->session_entity, r->n_session_entities, session, e->payload);
	else if (has_prefix(e->key, "topic/"))
		topic_unpack(r, e->payload);
	else if (has_prefix(e->key, "kv/"))
		UNPACK(r->kv, r->n_kv, kv, e->payload);
}

static bool take(struct restoring *r, const struct export_header *h, const struct sql_entity *e, size_t n)
{
	if (!check_uuid(r, r->data, h->uuid) || (r->wal != r->data && !check_uuid(r, r->wal, h->uuid)))
		return false;
	r->state = state_new();
	if (state_load(r->state, h->idx, e, n) != 0 || state_cluster_uuid(r->state) == NULL)
		return restore_fail(r, "the export of row %" PRIu64 " is not readable by this release", h->idx);
	for (size_t i = 0; i < n; i++)
		unpack(r, &e[i]);
	r->idx = h->idx;
	if (r->last_idx < h->idx)
		r->last_idx = h->idx;
	restore_say(r, "export of row %" PRIu64 ": %zu topics, %zu data objects, made at %" PRId64 " ms after 1970", h->idx,
		    r->n_topics, catalogue_count(state_catalogue(r->state)), state_clock_ms(r->state));
	return true;
}

/* NULL and taken is set, or why it was not; after a failure for good out->fault says so. */
static const char *try_one(struct restoring *r, struct slice bytes, uint64_t idx, bool *ret_taken)
{
	struct export_header h;
	struct sql_entity *e = NULL;
	size_t n = 0;
	const char *fault = export_decode(bytes, idx, &h, &e, &n);
	if (fault == NULL)
		*ret_taken = take(r, &h, e, n);
	free(e);
	return fault;
}

static bool from_store(struct restoring *r, const struct shelf_keys *keys)
{
	for (size_t i = keys->n; i > 0; i--) {
		struct slice bytes;
		uint64_t idx;
		bool taken = false;
		if (!export_key_parse(keys->key[i - 1].key, &idx))
			continue;
		if (shelf_get(r->data, keys->key[i - 1].key, 0, 0, &bytes) != 0)
			return restore_fail(r, "%s", r->data->fault);
		const char *fault = try_one(r, bytes, idx, &taken);
		free((void *)bytes.p);
		if (fault == NULL)
			return taken;
		restore_say(r, "%s is damaged and was not used: %s", keys->key[i - 1].key, fault);
	}
	return restore_fail(r, "%s holds no export of the metadata that can be read (meta/): nothing says which topics there "
			    "were. If there is a backup, give it with --from", r->data->url);
}

bool restore_export(struct restoring *r, struct slice bytes)
{
	struct shelf_keys keys;
	bool ok = false;
	uint64_t idx;
	if (shelf_list(r->data, "meta/", &keys) != 0)
		return restore_fail(r, "%s", r->data->fault);
	for (size_t i = 0; i < keys.n; i++)
		if (export_key_parse(keys.key[i].key, &idx) && idx > r->last_idx)
			r->last_idx = idx;
	if (bytes.p == NULL) {
		ok = from_store(r, &keys);
	} else {
		const char *fault = bytes.n < EXPORT_HEADER ? "it is shorter than its header" :
			try_one(r, bytes, get_le64(bytes.p + 24), &ok);
		if (fault != NULL)
			restore_fail(r, "the backup cannot be used: %s", fault);
	}
	shelf_keys_done(&keys);
	return ok;
}
