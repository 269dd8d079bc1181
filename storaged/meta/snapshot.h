/* SPDX-License-Identifier: Apache-2.0
 *
 * The state as entities: whole or what changed since a row, encoded in slices between commands, and read back. Entities
 * are what the database, exports and other nodes get to see (doc/disk-format.md, "Metadata").
 */
#ifndef STORAGED_META_SNAPSHOT_H
#define STORAGED_META_SNAPSHOT_H

#include "storaged/meta/state.h"

/*
 * A snapshot in slices: begin fixes the state as it stands now; cb sees the encoded bytes of every entity changed
 * after row `base` (payload p == NULL: deleted), valid in the callback, during begin, step, or an apply that
 * is about to change an entity not yet encoded; a key may come twice with the same bytes. step encodes at most n_max
 * topics and objects and returns false when nothing is left. One at a time; end forgets it at any point.
 */
typedef void state_entity_cb(void *arg, const struct sql_entity *e);
void state_snapshot_begin(struct state *s, uint64_t base, state_entity_cb *cb, void *arg);
bool state_snapshot_step(struct state *s, size_t n_max);
void state_snapshot_end(struct state *s);

/* Rebuilds a state fresh from state_new() from a snapshot. 0 or -EBADMSG; then it can only be freed. */
int state_load(struct state *s, uint64_t idx, const struct sql_entity *entities, size_t n);
/* Forgets deleted keys that a stored snapshot at idx covers. */
void state_covered(struct state *s, uint64_t idx);

#endif
