/* SPDX-License-Identifier: Apache-2.0
 *
 * An object store as programs want it that run to their end and have no loop: read-only, one call after the other.
 * shelf_open() stands on the stores that the node uses; the simulator has one over its bucket.
 */
#ifndef STORAGED_OFFLINE_SHELF_H
#define STORAGED_OFFLINE_SHELF_H

#include "common/slice.h"

struct shelf;

struct shelf_key {
	char *key;
	uint64_t size;
};
struct shelf_keys {                     /* sorted bytewise; owned */
	struct shelf_key *key;
	size_t n;
};

struct shelf_ops {
	int (*get)(struct shelf *, const char *key, uint64_t offset, uint64_t length, struct slice *ret_bytes);
	int (*list)(struct shelf *, const char *prefix, struct shelf_keys *ret_keys);
	void (*free)(struct shelf *);
};
struct shelf {
	const struct shelf_ops *ops;
	const char *url;                /* for messages, without secrets */
	char fault[1024];               /* after a call that failed: what the store said */
};

/* A storage URL as --storage takes it. Nothing is made or changed by opening it; a directory that is not there is refused.
 * 0, or a negative errno with words in fault. */
int shelf_open(const char *url, struct shelf **ret_shelf, char *fault, size_t fault_size);
static inline void shelf_free(struct shelf *s)
{
	if (s != NULL)
		s->ops->free(s);
}

/* [offset, offset + length) of an object, length 0: to its end. 0 and bytes to free(); -ENOENT: no such object; else the
 * store does not answer, after some tries. */
static inline int shelf_get(struct shelf *s, const char *key, uint64_t offset, uint64_t length, struct slice *ret_bytes)
{
	return s->ops->get(s, key, offset, length, ret_bytes);
}
/* All keys that begin with prefix. */
static inline int shelf_list(struct shelf *s, const char *prefix, struct shelf_keys *ret_keys)
{
	return s->ops->list(s, prefix, ret_keys);
}
void shelf_keys_add(struct shelf_keys *keys, const char *key, uint64_t size);
void shelf_keys_done(struct shelf_keys *keys);

#endif
