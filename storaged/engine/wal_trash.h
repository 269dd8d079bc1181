/* SPDX-License-Identifier: Apache-2.0
 *
 * WAL objects that are packed, on their way out of the store: ranges of seqs, deleted by the thousand, in order.
 * What a crash leaves behind lies below a watermark, where nothing is ever read.
 */
#ifndef STORAGED_ENGINE_WAL_TRASH_H
#define STORAGED_ENGINE_WAL_TRASH_H

#include "common/env.h"
#include "storaged/objstore/objstore.h"

struct wal_trash;

struct wal_trash *wal_trash_new(struct env *env, struct objstore *wal, uint32_t node);
/* The store is freed already, or has nothing of it outstanding. */
void wal_trash_free(struct wal_trash *t);
/* Objects [from, to) of that session. Tried again until they are gone. */
void wal_trash_add(struct wal_trash *t, uint64_t session, uint64_t from, uint64_t to);

#endif
