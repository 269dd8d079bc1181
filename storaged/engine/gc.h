/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of data objects that nobody needs. Two rounds, independent of each other:
 *
 *   search    unmarked objects of this node's logs in which nothing lives any more are removed by a commit
 *   delete    marked objects of this node are deleted from the store --gc-delay-ms after their mark, then forgotten by
 *             a command; a crash between the two repeats the first
 *
 * Invariant: what is dead stays dead. Logs are never deleted back, starts never fall, entries that were superseded stay
 * so. Whatever is not known to be dead is kept.
 */
#ifndef STORAGED_ENGINE_GC_H
#define STORAGED_ENGINE_GC_H

#include "storaged/engine/engine_impl.h"

struct gc *gc_new(struct engine *e);
/* The store is freed already, or has nothing of it outstanding. */
void gc_free(struct gc *g);

/* When serving begins; and whenever something may have died: a delete, a trim, a commit. Cheap. */
void gc_consider(struct gc *g);

/* Nobody is shown offsets of the log below this, neither itself nor a fork. */
static inline uint64_t engine_living(const struct engine *e, uint64_t log_id)
{
	return e->events.living(e->arg, log_id);
}

#endif
