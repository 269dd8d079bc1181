/* SPDX-License-Identifier: Apache-2.0
 *
 * Data objects that were found damaged or missing by what collects and merges them. They are left alone from then on, so
 * that one keeps nobody else; each is told once, and how many there are stands in the metrics. What is read of them fails
 * by itself, and a start forgets the list and looks again.
 */
#ifndef STORAGED_ENGINE_DAMAGE_H
#define STORAGED_ENGINE_DAMAGE_H

#include "storaged/engine/engine_impl.h"

struct damage *damage_new(struct engine *e);
void damage_free(struct damage *d);

/* missing: the store has no such object. One that the catalogue does not hold unmarked is no damage. */
void damage_note(struct damage *d, struct object_id id, const char *fault, bool missing);
bool damage_has(const struct damage *d, struct object_id id);

#endif
