/* SPDX-License-Identifier: Apache-2.0
 *
 * Marked objects that this node wrote, on their way out of the store: --gc-delay-ms after their mark, by the thousand,
 * the longest marked first; then a command forgets them. Nothing is kept in memory: what a crash interrupts is
 * marked still, and a key that is not there counts as deleted.
 */
#ifndef STORAGED_ENGINE_GC_DELETE_H
#define STORAGED_ENGINE_GC_DELETE_H

#include "storaged/engine/engine_impl.h"

struct gc_delete;

struct gc_delete *gc_delete_new(struct engine *e);
/* The store is freed already, or has nothing of it outstanding. */
void gc_delete_free(struct gc_delete *d);
/* Begins what is due, or waits for it. Cheap. */
void gc_delete_consider(struct gc_delete *d);

#endif
