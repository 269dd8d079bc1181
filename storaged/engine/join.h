/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of one log alone, level 3, are as small as a pack's share of the log was. Neighbours among them are joined, once: into
 * one that is more than half of what a merge may make, which is never looked at again.
 */
#ifndef STORAGED_ENGINE_JOIN_H
#define STORAGED_ENGINE_JOIN_H

#include "storaged/engine/engine_impl.h"

#define JOIN_MAX 8u                     /* objects that become one: each is read through windows of its own */

/* A walk over the logs that have such objects. */
struct join {
	uint64_t log_id;                /* the next one to look at */
	bool through;
	size_t n_objects;               /* of level 3 when it began, and their bytes */
	uint64_t bytes;
};

/*
 * Looks on, at a number of objects that suits a turn of the loop. Returns how many neighbours are to be joined, in order of
 * offsets; 0: none were found. Begins anew when objects of level 3 came or went since it was through.
 */
size_t join_look(struct join *j, const struct engine *e, struct object_row ret[JOIN_MAX]);
/* What was found was not done: looks at everything again. */
void join_again(struct join *j);

#endif
