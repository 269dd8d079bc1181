/* SPDX-License-Identifier: Apache-2.0
 *
 * <prefix>/cluster: the object that says which database a prefix belongs to. One in the data store and
 * one in the WAL's store where that is another. And what proves that a database is an older copy: <prefix>/meta/<row>, for an
 * export says that its row was applied once, and any WAL object of the session that it would give next.
 */
#ifndef STORAGED_META_CLUSTER_H
#define STORAGED_META_CLUSTER_H

#include "storaged/objstore/objstore.h"

#define CLUSTER_TEXT_MAX 1024

enum cluster_verdict {
	CLUSTER_AGREES,                 /* every store holds the object with our uuid */
	CLUSTER_AWAY,                   /* a store did not answer: try again; text says what it said */
	CLUSTER_OLDER,                  /* the database is an older copy, unless it went on since it was read; text as below */
	CLUSTER_REFUSED,                /* for good; text names both sides and says what to do */
};

typedef void cluster_done_cb(void *arg, enum cluster_verdict verdict, const char *text);

/* Owned by meta.c; one check at a time. */
struct cluster_check {
	struct objstore *store[2];      /* borrowed; the second NULL when there is only one */
	const char *database;           /* URL, borrowed */
	uint8_t uuid[16];
	uint64_t last_idx;              /* row that the database ends at */
	uint32_t node;
	uint64_t next_session;          /* of that node */
	bool put;                       /* the object may be missing: no node ever registered */
	cluster_done_cb *cb;
	void *arg;
	size_t at;                      /* store being looked at */
	uint8_t object[64];
	size_t object_len;
};

/* Store by store: puts the object where `put` says so, reads it where it is there already; then looks for
 * proof of an older copy. cb runs later, once. */
void cluster_check_start(struct cluster_check *c);

/* The object's bytes; at most 64. Returns the length. */
size_t cluster_object_encode(const uint8_t uuid[16], uint8_t ret[64]);

#endif
