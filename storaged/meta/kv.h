/* SPDX-License-Identifier: Apache-2.0
 *
 * Small values that every node keeps: tokens, bindings of schemas, subscriptions, settings. In order of key, and in order of
 * last change. Every change takes the next version, one sequence for all keys, so a version never comes again, whatever
 * is deleted and made anew. The last keys that were deleted are remembered, so that a reader who knows a version can be
 * told what changed since. Not for records, nor for anything of which there may be millions.
 */
#ifndef STORAGED_META_KV_H
#define STORAGED_META_KV_H

#include <stdbool.h>

#include "common/slice.h"

#define KV_KEY_MAX 512u                 /* bytes, of printable ASCII without space */
#define KV_VALUE_MAX (128u << 10)       /* bytes */
#define KV_ENTRIES_MAX 200000u
#define KV_BYTES_MAX (64u << 20)        /* of keys and values together */
#define KV_GONE_MAX 1024u               /* deleted keys that are remembered */

/* One block of memory: value and key, which ends in NUL, stand behind it. */
struct kv_entry {
	uint64_t version;
	uint64_t changed_idx;           /* row of the last change */
	struct slice value;
	struct kv_entry *older, *newer; /* in order of version */
	char key[];
};

struct kv_gone {
	uint64_t version;               /* of the deletion */
	char *key;                      /* owned */
};

struct kv {
	struct kv_entry **sorted;       /* owned, as the entries are; by bytes of the key */
	size_t n, capacity, bytes;
	struct kv_entry *oldest, *newest;
	uint64_t version;               /* the last one given */
	struct kv_gone gone[KV_GONE_MAX];       /* a ring in order of version; n_gone of them from first_gone on */
	size_t first_gone, n_gone;
	uint64_t gone_since;            /* every deletion of a later version stands in the ring */
};

void kv_done(struct kv *kv);

/* NULL: good. */
const char *kv_key_fault(const char *key);

/* NULL when it is not there. */
struct kv_entry *kv_find(const struct kv *kv, struct slice key);
/* In order of key: the first one > after; NULL at the end. Begin with an empty slice. */
const struct kv_entry *kv_next(const struct kv *kv, struct slice after);
/* In order of version: the first one > after; NULL at the end. Linear in what is newer. */
const struct kv_entry *kv_changed_after(const struct kv *kv, uint64_t after);

/* What room a put of that value would leave: false when it is over a bound. */
bool kv_takes(const struct kv *kv, const char *key, size_t value_len);
/* Puts it in place of what may be there, under that version, which no other entry has. */
void kv_put(struct kv *kv, const char *key, struct slice value, uint64_t version, uint64_t idx);
/* The entry goes; version as for a put. */
void kv_delete(struct kv *kv, struct kv_entry *e, uint64_t version);

#endif
