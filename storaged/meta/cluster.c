/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. The object is only ever put with if-absent: whoever finds another uuid there stops,
 * so a new database never runs on an old prefix and two clusters never share one.
 */
#include "storaged/meta/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/must.h"
#include "proto/meta.pb-c.h"
#include "storaged/engine/wal_format.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/state.h"
#include "storaged/planted.h"

#define EXPORTS_MAX 1000u               /* two are kept */
#define NEWEST "Put the newest one back, or make one from the storage: `pico admin restore-metadata`"

static void check_store(struct cluster_check *c);

size_t cluster_object_encode(const uint8_t uuid[16], uint8_t ret[64])
{
	Meta__ClusterObject o = META__CLUSTER_OBJECT__INIT;
	o.uuid.data = (uint8_t *)uuid;
	o.uuid.len = 16;
	o.format = STATE_FORMAT;
	must(meta__cluster_object__get_packed_size(&o) <= 64);
	return meta__cluster_object__pack(&o, ret);
}

static void print_uuid(const uint8_t uuid[16], char ret[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02x", uuid[i]);
}

static void refuse(struct cluster_check *c, const char *text)
{
	c->cb(c->arg, CLUSTER_REFUSED, text);
}

static void away(struct cluster_check *c, struct obj_result result)
{
	char text[CLUSTER_TEXT_MAX];
	snprintf(text, sizeof(text), "%s: cluster: %s: %s", c->store[c->at]->url, result.what == NULL ? "" : result.what,
		 strerror(-result.err));
	c->cb(c->arg, CLUSTER_AWAY, text);
}

static void on_session(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct cluster_check *c = arg;
	char text[CLUSTER_TEXT_MAX];
	if (result.outcome != OUTCOME_OK) {
		away(c, result);
		return;
	}
	if (n == 0) {
		c->cb(c->arg, CLUSTER_AGREES, "");
		return;
	}
	snprintf(text, sizeof(text),
		 "database %s knows %" PRIu64 " sessions of node %" PRIu32 ", and storage %s holds %.100s: the database is an older "
		 "copy, and what was acknowledged since would be lost. " NEWEST, c->database, c->next_session - 1, c->node,
		 c->store[c->at]->url, entries[0].key);
	c->cb(c->arg, CLUSTER_OLDER, text);
}

/* A session that was has an open object, or at least seals. */
static void look_at_session(struct cluster_check *c)
{
	char prefix[WAL_KEY_MAX];
	wal_key(prefix, c->node, c->next_session, 0);
	*(strrchr(prefix, '/') + 1) = '\0';
	c->at = c->store[1] != NULL;
	c->store[c->at]->ops->list(c->store[c->at], prefix, NULL, 1, on_session, c);
}

static void on_exports(void *arg, struct obj_result result, const struct obj_entry *entries, size_t n, bool more)
{
	struct cluster_check *c = arg;
	char text[CLUSTER_TEXT_MAX];
	uint64_t newest = 0, idx;
	if (result.outcome != OUTCOME_OK) {
		away(c, result);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (export_key_parse(entries[i].key, &idx) && idx > newest)
			newest = idx;
	if (newest <= c->last_idx) {
		look_at_session(c);
		return;
	}
	snprintf(text, sizeof(text),
		 "database %s ends at row %" PRIu64 ", and storage %s holds an export of row %" PRIu64 ": the database is an older "
		 "copy, and what was acknowledged since would be lost. " NEWEST, c->database, c->last_idx, c->store[0]->url, newest);
	c->cb(c->arg, CLUSTER_OLDER, text);
}

static void next_store(struct cluster_check *c)
{
	c->at++;
	if (c->at < 2 && c->store[c->at] != NULL) {
		check_store(c);
	} else if (c->put || planted(PLANTED_OLD_DATABASE)) {
		c->cb(c->arg, CLUSTER_AGREES, "");      /* no node ever served */
	} else {
		c->at = 0;
		c->store[0]->ops->list(c->store[0], "meta/", NULL, EXPORTS_MAX, on_exports, c);
	}
}

/* A database without any node in it was made a moment ago, at a path where somebody expected the old one. */
static void print_unused(const struct cluster_check *c, const char *theirs, char ret[static CLUSTER_TEXT_MAX])
{
	snprintf(ret, CLUSTER_TEXT_MAX,
		 "database %s is new, but storage %s is in use by cluster %s: they do not belong together. If the database was "
		 "lost, `pico admin restore-metadata` makes it again; if it is elsewhere, correct --meta-url or --data-dir; a new "
		 "cluster needs an empty storage prefix",
		 c->database, c->store[c->at]->url, theirs);
}

static void print_other(const struct cluster_check *c, const char *theirs, char ret[static CLUSTER_TEXT_MAX])
{
	char ours[33];
	print_uuid(c->uuid, ours);
	snprintf(ret, CLUSTER_TEXT_MAX,
		 "database %s is of cluster %s, storage %s of cluster %s: they do not belong together. Start with the "
		 "database and the storage of one cluster, or give a new cluster an empty storage prefix; a database that was "
		 "lost is made again by `pico admin restore-metadata`",
		 c->database, ours, c->store[c->at]->url, theirs);
}

static void compare(struct cluster_check *c, const Meta__ClusterObject *o)
{
	char text[CLUSTER_TEXT_MAX], theirs[33] = "(unreadable)";
	if (o->uuid.len == 16 && memcmp(o->uuid.data, c->uuid, 16) == 0) {
		next_store(c);
		return;
	}
	if (o->uuid.len == 16)
		print_uuid(o->uuid.data, theirs);
	if (c->put)
		print_unused(c, theirs, text);
	else
		print_other(c, theirs, text);
	refuse(c, text);
}

static void on_got(void *arg, struct obj_result result, struct slice data, uint64_t size)
{
	struct cluster_check *c = arg;
	char text[CLUSTER_TEXT_MAX];
	const char *url = c->store[c->at]->url;
	if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -ENOENT && !c->put) {
		snprintf(text, sizeof(text),
			 "database %s has been used, but storage %s holds no cluster object: the storage URL is wrong, or "
			 "the storage was emptied. Give the storage this database belongs to, or begin with a new database",
			 c->database, url);
		refuse(c, text);
		return;
	}
	if (result.outcome != OUTCOME_OK) {
		away(c, result);
		return;
	}
	Meta__ClusterObject *o = meta__cluster_object__unpack(NULL, data.n, data.p);
	if (o == NULL) {
		snprintf(text, sizeof(text), "the object \"cluster\" in storage %s is not readable; database %s", url,
			 c->database);
		refuse(c, text);
		return;
	}
	if (o->format > STATE_FORMAT) {
		snprintf(text, sizeof(text),
			 "storage %s (database %s) has FORMAT %u, this release reads up to %u: start a newer release", url,
			 c->database, o->format, STATE_FORMAT);
		refuse(c, text);
	} else {
		compare(c, o);
	}
	meta__cluster_object__free_unpacked(o, NULL);
}

static void refuse_condition(struct cluster_check *c, struct obj_result result)
{
	char text[1024];
	snprintf(text, sizeof(text), "%.600s: the store does not know If-None-Match: use another store", result.what);
	refuse(c, text);
}

static void on_put(void *arg, struct obj_result result)
{
	struct cluster_check *c = arg;
	if (result.outcome == OUTCOME_OK)
		next_store(c);
	else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -EEXIST)
		objstore_get(c->store[c->at], "cluster", 0, 0, on_got, c);
	else if (result.outcome == OUTCOME_NOT_APPLIED && result.err == -EOPNOTSUPP)
		refuse_condition(c, result);
	else
		away(c, result);
}

static void check_store(struct cluster_check *c)
{
	if (!c->put) {
		objstore_get(c->store[c->at], "cluster", 0, 0, on_got, c);
		return;
	}
	c->object_len = cluster_object_encode(c->uuid, c->object);
	struct iovec iov = { .iov_base = c->object, .iov_len = c->object_len };
	objstore_put(c->store[c->at], "cluster", &iov, 1, true, on_put, c);
}

void cluster_check_start(struct cluster_check *c)
{
	must(c->store[0] != NULL);
	c->at = 0;
	check_store(c);
}
