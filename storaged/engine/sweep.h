/* SPDX-License-Identifier: Apache-2.0
 *
 * The orphan sweep: what stands in the store and in no catalogue, because a process died between a put and its commit or
 * between a commit and its deletes. It goes by session, never by age: an object may go when its session is ended in
 * the applied state, for then no commit of it can be accepted any more. What stands under the running session may still
 * be committed and stays, unless its writer gave it up; under a session that nobody knows, too (pico_orphans_unknown says how many).
 *
 * Uploads follow the same rule. WAL objects go below their session's watermark, but for the running session's open
 * object, which says that its number is used; of a RECOVERED session all but the seal at its cut: what a killed process still
 * stored above it, and the other seals.
 */
#ifndef STORAGED_ENGINE_SWEEP_H
#define STORAGED_ENGINE_SWEEP_H

#include "storaged/engine/engine_impl.h"

struct sweep;

struct sweep *sweep_new(struct engine *e);
/* The store is freed already, or has nothing of it outstanding. */
void sweep_free(struct sweep *s);
/* Once when every ended session is RECOVERED; from then on by itself, once an hour. */
void sweep_begin(struct sweep *s);
/* An object of the running session that was never proposed, or whose commit was refused in the applied state: whoever
 * wrote it gave it up. */
void sweep_forget(struct sweep *s, struct object_id id);

#endif
