/* SPDX-License-Identifier: Apache-2.0
 *
 * See the headers. First the state is read, then the keys are listed: what the state has in use then and the list has
 * not is missing, unless a newer state has let go of it.
 */
#include "storaged/offline/fsck_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/snapshot.h"
#include "storaged/offline/db_read.h"

/* ------------------------------------------------------------------- findings */

static void finding_add(struct checking *c, const struct fsck_finding *like, const char *key, const char *text)
{
	struct fsck *f = c->out;
	if ((f->n_findings & (f->n_findings - 1)) == 0)
		f->finding = must_realloc(f->finding, (f->n_findings == 0 ? 1 : 2 * f->n_findings) * sizeof(*f->finding));
	struct fsck_finding *x = &f->finding[f->n_findings++];
	*x = *like;
	x->key = must_strdup(key);
	x->text = must_strdup(text);
}

#define SAY(looked_at_again) do { \
	char text[1600]; \
	va_list args; \
	va_start(args, fmt); \
	vsnprintf(text, sizeof(text), fmt, args); \
	va_end(args); \
	finding_add(c, &(struct fsck_finding){ .severity = severity, .kind = kind, .again = (looked_at_again) }, key, text); \
} while (0)

void fsck_say(struct checking *c, enum fsck_severity severity, const char *kind, const char *key, const char *fmt, ...)
{
	SAY(false);
}

void fsck_say_again(struct checking *c, enum fsck_severity severity, const char *kind, const char *key, const char *fmt, ...)
{
	SAY(true);
}

void fsck_count(struct checking *c, uint64_t bytes)
{
	c->out->bytes += bytes;
	if (c->options->on_progress != NULL)
		c->options->on_progress(c->options->arg, c->out->bytes, c->all);
}

static bool away(struct checking *c, const struct shelf *shelf)
{
	snprintf(c->out->fault, sizeof(c->out->fault), "%s", shelf->fault);
	return false;
}

/* ---------------------------------------------------------------------- state */

/* The newest export that is whole. */
static bool export_take(struct checking *c, const char *key)
{
	struct export_header h;
	struct sql_entity *e = NULL;
	struct slice bytes;
	uint64_t idx;
	size_t n = 0;
	if (!export_key_parse(key, &idx) || shelf_get(c->data, key, 0, 0, &bytes) != 0)
		return false;
	struct state *s = state_new();
	bool good = export_decode(bytes, idx, &h, &e, &n) == NULL && state_load(s, idx, e, n) == 0 &&
		    state_cluster_uuid(s) != NULL;
	free(e);
	free((void *)bytes.p);
	if (good)
		c->state = c->owned = s;
	else
		state_free(s);
	return good;
}

static bool state_from_export(struct checking *c, const char *database_fault)
{
	struct shelf_keys keys;
	if (shelf_list(c->data, "meta/", &keys) != 0)
		return away(c, c->data);
	for (size_t i = keys.n; i > 0 && c->state == NULL; i--)
		c->from_export = export_take(c, keys.key[i - 1].key);
	shelf_keys_done(&keys);
	if (c->state != NULL)
		snprintf(c->out->source, sizeof(c->out->source), "export of row %" PRIu64 " (%s)", state_idx(c->state),
			 database_fault);
	else
		snprintf(c->out->fault, sizeof(c->out->fault), "%s, and %s holds no export that can be read", database_fault,
			 c->data->url);
	return c->state != NULL;
}

static bool state_read(struct checking *c)
{
	char fault[900];
	if (c->options->state != NULL) {
		c->state = c->options->state;
		return true;
	}
	int err = db_read(c->options->database, &c->owned, fault, sizeof(fault));
	c->state = c->owned;
	if (err == -EBADMSG)
		fsck_say(c, FSCK_ERROR, "database", "", "%s: a start on it is refused. `pico admin restore-metadata` makes a new "
			 "one", fault);
	if (err != 0)
		return state_from_export(c, fault);
	snprintf(c->out->source, sizeof(c->out->source), "database %s, row %" PRIu64, c->options->database, state_idx(c->state));
	return true;
}

/* ------------------------------------------------------------ cluster, exports */

static bool check_cluster(struct checking *c, struct shelf *shelf)
{
	struct slice bytes;
	int err = shelf_get(shelf, "cluster", 0, 0, &bytes);
	if (err == -ENOENT) {
		fsck_say(c, FSCK_ERROR, "missing", "cluster", "%s holds no cluster object: every start is refused", shelf->url);
		return true;
	}
	if (err != 0)
		return away(c, shelf);
	Meta__ClusterObject *o = meta__cluster_object__unpack(NULL, bytes.n, bytes.p);
	fsck_count(c, bytes.n);
	if (o == NULL || o->uuid.len != 16)
		fsck_say(c, FSCK_ERROR, "damaged", "cluster", "it cannot be read: every start is refused");
	else if (memcmp(o->uuid.data, state_cluster_uuid(c->state), 16) != 0)
		fsck_say(c, FSCK_ERROR, "foreign", "cluster", "%s belongs to another cluster than the %s: every start is refused",
			 shelf->url, c->from_export ? "export" : "database");
	else if (o->format > STATE_FORMAT)
		fsck_say(c, FSCK_ERROR, "newer", "cluster", "FORMAT %u, this release reads up to %u", o->format, STATE_FORMAT);
	if (o != NULL)
		meta__cluster_object__free_unpacked(o, NULL);
	free((void *)bytes.p);
	return true;
}

static const char *export_check(const struct checking *c, struct slice bytes, uint64_t idx)
{
	struct export_header h;
	struct sql_entity *e = NULL;
	size_t n = 0;
	const char *fault = export_decode(bytes, idx, &h, &e, &n);
	struct state *s = state_new();
	if (fault == NULL && state_load(s, idx, e, n) != 0)
		fault = "what it holds does not fit together";
	if (fault == NULL && memcmp(h.uuid, state_cluster_uuid(c->state), 16) != 0)
		fault = "it is of another cluster";
	state_free(s);
	free(e);
	return fault;
}

static bool check_export(struct checking *c, const struct shelf_key *key)
{
	struct slice bytes;
	uint64_t idx;
	if (!export_key_parse(key->key, &idx)) {
		fsck_say(c, FSCK_WARNING, "foreign", key->key, "no export has such a name; nobody reads it");
		return true;
	}
	int err = shelf_get(c->data, key->key, 0, 0, &bytes);
	if (err != 0)
		return err == -ENOENT ? true : away(c, c->data);        /* a newer one came */
	const char *fault = export_check(c, bytes, idx);
	free((void *)bytes.p);
	c->out->n_exports++;
	fsck_count(c, key->size);
	if (fault != NULL)
		fsck_say(c, FSCK_ERROR, "damaged", key->key, "%s: a restore of the metadata cannot begin with it", fault);
	else if (!c->from_export && idx > state_idx(c->state))
		fsck_say_again(c, FSCK_ERROR, "database", key->key, "it is newer than the database, which ends at row %" PRIu64
			       ": the database went back in time, and a start on it is refused", state_idx(c->state));
	return true;
}

/* ------------------------------------------------------------------------ walk */

static bool begins(const char *key, const char *prefix)
{
	return strncmp(key, prefix, strlen(prefix)) == 0;
}

static bool check_key(struct checking *c, const struct shelf_key *key)
{
	if (begins(key->key, "data/"))
		return fsck_data_object(c, key);
	if (begins(key->key, "meta/"))
		return check_export(c, key);
	if (strcmp(key->key, "cluster") != 0 && (!begins(key->key, "wal/") || c->wal != c->data))
		fsck_say(c, FSCK_WARNING, "foreign", key->key, "no release writes an object of this name here; nobody reads or "
			 "deletes it");
	return true;
}

static bool walk(struct checking *c)
{
	if (!check_cluster(c, c->data) || (c->wal != c->data && !check_cluster(c, c->wal)))
		return false;
	for (size_t i = 0; i < c->data_keys.n; i++)
		if (!check_key(c, &c->data_keys.key[i]))
			return away(c, c->data);
	fsck_data_missing(c);
	for (size_t i = 0; i < c->wal_keys.n; i++)
		if (strcmp(c->wal_keys.key[i].key, "cluster") != 0 && !begins(c->wal_keys.key[i].key, "wal/"))
			fsck_say(c, FSCK_WARNING, "foreign", c->wal_keys.key[i].key, "it is no WAL object, and %s holds only such",
				 c->wal->url);
	return fsck_wal(c, c->wal != c->data ? &c->wal_keys : &c->data_keys) || away(c, c->wal);
}

static bool list(struct checking *c)
{
	if (shelf_list(c->data, "", &c->data_keys) != 0)
		return away(c, c->data);
	if (c->wal != c->data && shelf_list(c->wal, "", &c->wal_keys) != 0)
		return away(c, c->wal);
	for (size_t i = 0; i < c->data_keys.n; i++)
		c->all += c->data_keys.key[i].size;
	for (size_t i = 0; i < c->wal_keys.n; i++)
		c->all += c->wal_keys.key[i].size;
	return true;
}

/* ------------------------------------------------------------------ look again */

static bool holds(const struct checking *c, const struct fsck_finding *f, const struct state *now)
{
	uint64_t idx;
	if (!f->again)
		return true;
	if (export_key_parse(f->key, &idx))
		return idx > state_idx(now);
	return begins(f->key, "wal/") ? fsck_wal_holds(c, f, now) : fsck_data_holds(c, f, now);
}

static void look_again(struct checking *c)
{
	struct fsck *out = c->out;
	struct state *now = NULL;
	char fault[900];
	if (c->from_export || c->owned == NULL || db_read(c->options->database, &now, fault, sizeof(fault)) != 0)
		return;
	size_t n = 0;
	for (size_t i = 0; i < out->n_findings; i++) {
		struct fsck_finding *f = &out->finding[i];
		if (holds(c, f, now)) {
			out->finding[n++] = *f;
		} else {
			free(f->key);
			free(f->text);
		}
	}
	out->n_findings = n;
	state_free(now);
}

/* ------------------------------------------------------------------------- all */

static int compare_findings(const void *a, const void *b)
{
	const struct fsck_finding *x = a, *y = b;
	return strcmp(x->key, y->key);
}

int fsck(const struct fsck_options *o, struct fsck *ret)
{
	struct checking c = { .options = o, .data = o->data, .wal = o->wal != NULL ? o->wal : o->data, .out = ret };
	*ret = (struct fsck){ 0 };
	bool ok = state_read(&c) && list(&c) && walk(&c);
	if (ok)
		look_again(&c);
	if (ret->n_findings > 1)
		qsort(ret->finding, ret->n_findings, sizeof(*ret->finding), compare_findings);
	for (size_t i = 0; i < ret->n_findings; i++)
		ret->n_severity[ret->finding[i].severity]++;
	state_free(c.owned);
	shelf_keys_done(&c.data_keys);
	shelf_keys_done(&c.wal_keys);
	return ok ? 0 : -1;
}

void fsck_done(struct fsck *f)
{
	for (size_t i = 0; i < f->n_findings; i++) {
		free(f->finding[i].key);
		free(f->finding[i].text);
	}
	free(f->finding);
	*f = (struct fsck){ 0 };
}
