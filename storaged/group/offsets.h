/* SPDX-License-Identifier: Apache-2.0
 *
 * What a group's log says: committed offsets by (topic id, partition), and what is to be known of the last rebalance.
 * Records of the log (doc/disk-format.md, "Group records") fold into it one after the other, and the last one about
 * something wins. So a snapshot is nothing but everything written once more, in as many records as it takes, and what
 * lies before its first record may go.
 *
 * Pure: bytes in, bytes out. Times are stamp time, milliseconds since 1970.
 */
#ifndef STORAGED_GROUP_OFFSETS_H
#define STORAGED_GROUP_OFFSETS_H

#include "common/buf.h"
#include "storaged/data/sorted_index.h"
#include "storaged/group/group.h"

#define OFFSETS_METADATA_MAX 4096
#define OFFSETS_BYTES_MAX (3u << 20)    /* of a group, as they are written: all fit one answer */

struct offset_key {
	uint8_t topic_id[16];
	uint32_t partition;
};

struct offset_entry {
	struct offset_key key;
	int32_t leader_epoch;           /* -1: none */
	int64_t offset;
	int64_t commit_ms;
	int64_t expires_ms;             /* members or not; -1: when the group was empty for so long */
	struct slice metadata;
};

struct offsets {
	struct sorted_index index;      /* of heap entries, by key; owned */
	size_t bytes;                   /* of all entries as they are written */
	struct group_memory *memory;    /* of all groups; NULL: no bound */
	struct group_past past;         /* protocol_type is owned */
	int64_t past_ms;                /* when that rebalance ended; 0: there was none */
};

void offsets_init(struct offsets *o, struct group_memory *memory);
void offsets_done(struct offsets *o);

/* Valid until the next change. NULL: none. */
const struct offset_entry *offsets_find(const struct offsets *o, const struct offset_key *key);
/* In order of keys: the first one behind; after NULL begins. */
const struct offset_entry *offsets_next(const struct offsets *o, const struct offset_key *after);
/* Bytes of an entry in a record. */
size_t offset_entry_size(const struct offset_entry *e);

/* One record's value behind what is in out. At least one entry or key. */
void offsets_write(struct buf *out, const struct offset_entry *entry, size_t n);
void offsets_write_gone(struct buf *out, const struct offset_key *key, size_t n);
void offsets_write_past(struct buf *out, const struct group_past *past, int64_t past_ms);
/*
 * What is still to be written of a snapshot, in one record of about `max` bytes at most (one entry comes in any case): those
 * behind *after for which keep() holds. True: there is more, and *after is where it goes on. Nothing is written where no
 * entry is left.
 */
typedef bool offsets_keep(void *arg, const struct offset_entry *e);
bool offsets_write_some(const struct offsets *o, struct offset_key *after, bool *begun, size_t max, offsets_keep *keep,
			void *arg, struct buf *out);

/* Folds a record's value in. -EBADMSG: it is none; -ENOTSUP: of a newer format. Then nothing has changed. */
int offsets_fold(struct offsets *o, struct slice value);

#endif
