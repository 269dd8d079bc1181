/* SPDX-License-Identifier: Apache-2.0
 *
 * Things that begin with an id of 16 random bytes, by that id, in 11 to 22 bytes each: an open-addressed table of pointers. Ids
 * are random, so their first bytes are the hash. It owns the table, not the things.
 */
#ifndef STORAGED_DATA_ID_HASH_H
#define STORAGED_DATA_ID_HASH_H

#include <stddef.h>
#include <stdint.h>

struct id_hash {                        /* zero-initialised is empty */
	void **slot;                    /* owned; NULL: free */
	size_t n_slots;                 /* a power of two */
	size_t n;
};

void id_hash_done(struct id_hash *h);
void *id_hash_find(const struct id_hash *h, const uint8_t id[16]);
/* None of that id is in it. */
void id_hash_add(struct id_hash *h, void *item);
/* It is in it. */
void id_hash_remove(struct id_hash *h, const void *item);
/* All of them, in no order: *at begins at 0; NULL at the end. Nothing is added or removed meanwhile. */
void *id_hash_next(const struct id_hash *h, size_t *at);

#endif
