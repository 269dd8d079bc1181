/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of fsck: fsck.c walks the keys and looks again, fsck_data.c and fsck_wal.c look at objects.
 */
#ifndef STORAGED_OFFLINE_FSCK_PRIV_H
#define STORAGED_OFFLINE_FSCK_PRIV_H

#include "storaged/engine/wal_format.h"
#include "storaged/meta/state.h"
#include "storaged/offline/fsck.h"
#include "storaged/offline/object_file.h"

struct checking {
	const struct fsck_options *options;
	struct shelf *data, *wal;
	struct fsck *out;
	const struct state *state;
	struct state *owned;            /* what was read; NULL: the caller's is used */
	bool from_export;               /* the state may be older than the store */
	struct shelf_keys data_keys, wal_keys;  /* all keys; wal_keys empty when it is the same store */
	uint64_t all;                   /* bytes to be looked at */
};

/* A finding; `again`: it may be the work of a running node. */
void fsck_say(struct checking *c, enum fsck_severity severity, const char *kind, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void fsck_say_again(struct checking *c, enum fsck_severity severity, const char *kind, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void fsck_count(struct checking *c, uint64_t bytes);

/* fsck_data.c: the object of one key; then those that the catalogue has and the store has not. False: the store is away. */
bool fsck_data_object(struct checking *c, const struct shelf_key *key);
void fsck_data_missing(struct checking *c);
/* Whether what was said of a key still holds in a newer state. */
bool fsck_data_holds(const struct checking *c, const struct fsck_finding *f, const struct state *now);

/* fsck_wal.c: all keys that begin with wal/. */
bool fsck_wal(struct checking *c, const struct shelf_keys *keys);
bool fsck_wal_holds(const struct checking *c, const struct fsck_finding *f, const struct state *now);
bool fsck_wal_key(const char *key, uint32_t *ret_node, uint64_t *ret_session, uint64_t *ret_seq);

#endif
