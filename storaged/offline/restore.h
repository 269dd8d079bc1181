/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the metadata of a cluster again from its object store: from the newest export, and from what data and WAL
 * objects say that came after it. Reads only. No node may run on the store.
 *
 * What comes out is a state in which every record that was acknowledged is reachable: in the catalogue's objects or in
 * the WAL behind the watermarks. Logs whose topics nobody knows any more become topics RESTORE_PREFIX<log id>.
 */
#ifndef STORAGED_OFFLINE_RESTORE_H
#define STORAGED_OFFLINE_RESTORE_H

#include "common/buf.h"
#include "storaged/meta/sql_log.h"
#include "storaged/offline/shelf.h"

#define RESTORE_PREFIX "/restored/log-"

struct restored {
	struct sql_entity *entity;      /* each key and payload heap of its own; owned */
	size_t n_entities;
	struct sql_row row;             /* the only row of the new command log; the entities stand at it */
	struct buf report;              /* lines of text: what was found, what cannot be known */
	char fault[1200];               /* after a failure */
};

/* wal: where WAL objects are when that is another store, else NULL. export: the bytes of one to begin with (a backup's),
 * or p == NULL for the newest one in `data`. 0, or -1 and words in ret->fault. Follow with restored_done(). */
int restore(struct shelf *data, struct shelf *wal, struct slice export, struct restored *ret);
void restored_done(struct restored *r);
/* Its entities alone. */
void restored_forget(struct restored *r);

/* Writes it as a new database at path, in one piece: what is there must not exist, or be an empty database. 0 or -1. */
int restored_write(struct restored *r, const char *path);

#endif
