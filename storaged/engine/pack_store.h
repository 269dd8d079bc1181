/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores one built data object: a put, or an upload in parts when it is large. It is tried again until it is stored:
 * the key is used for these bytes alone, so a second put of them does no harm.
 */
#ifndef STORAGED_ENGINE_PACK_STORE_H
#define STORAGED_ENGINE_PACK_STORE_H

#include "common/env.h"
#include "storaged/data/data_builder.h"
#include "storaged/objstore/objstore.h"

#define PACK_PARTS_OUT 4u

struct pack_store;

/* may_look as in index_cache.h. on_stored once. The builder stays until then. */
struct pack_store *pack_store_begin(struct env *env, struct objstore *store, struct object_id id,
				    const struct data_builder *builder, bool (*may_look)(void *arg),
				    void (*on_stored)(void *arg), void *arg);
/* After on_stored, or when the store is freed already. */
void pack_store_free(struct pack_store *s);
/* NULL, or what keeps it from being stored. */
const char *pack_store_fault(const struct pack_store *s);

#endif
