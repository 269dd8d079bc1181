/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading ahead from the store. Who begins a read where one of the same log ended is a stream; of what comes after it two
 * fetches are under way or ready, larger ones the longer it goes on. Many streams share the trial quarter of the page
 * cache, so that what is fetched is read before it goes.
 *
 * Bounds: STREAMS streams, the longest unused goes; half of what all fetches may take. Owned by the engine.
 */
#ifndef STORAGED_ENGINE_AHEAD_H
#define STORAGED_ENGINE_AHEAD_H

#include "storaged/engine/engine_impl.h"

struct ahead *ahead_new(void);
void ahead_free(struct ahead *a);

/* A read gave [from, end) of a log, at least its begin not from the arena. */
void ahead_read(struct engine *e, struct log *log, uint64_t from, uint64_t end);
/* Bytes to fetch for a read that begins there: 0 when it goes on with nothing. */
uint64_t ahead_window(struct engine *e, const struct log *log, uint64_t from);
/* The fetch that was begun at `asked` will bring what lies before `end`; end == asked: nothing. */
void ahead_located(struct engine *e, struct log *log, uint64_t asked, uint64_t end);

#endif
