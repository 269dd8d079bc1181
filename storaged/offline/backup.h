/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of the metadata to keep elsewhere: an export (storaged/meta/export_format.h) of the database as it is now.
 */
#ifndef STORAGED_OFFLINE_BACKUP_H
#define STORAGED_OFFLINE_BACKUP_H

#include "storaged/offline/shelf.h"

#define BACKUP_FILE "metadata"

struct backup {
	uint64_t idx, bytes;            /* row that it stands at */
	size_t n_topics, n_objects;
	char fault[1200];
};

/* Reads the database beside a node that runs on it, or not, and writes DIRECTORY/metadata, whole and synced; the
 * directory is made if it is missing. data: its cluster must be the database's. 0, or -1 and a fault. */
int backup(struct shelf *data, const char *database, const char *directory, struct backup *ret);

#endif
