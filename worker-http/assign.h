/* SPDX-License-Identifier: Apache-2.0
 *
 * Who of a consumer group reads which stream, when the group speaks HTTP. No request and no group: a pure function of what
 * the members asked for, so whoever works it out gets the same.
 *
 * A subscription and an assignment are JSON arrays of names. A stream goes whole to one member. Streams are dealt in order
 * of (number of subscribers, name), each to the subscriber that has the fewest so far, among equals to the one with the lowest id.
 */
#ifndef WORKER_HTTP_ASSIGN_H
#define WORKER_HTTP_ASSIGN_H

#include "common/buf.h"

struct assign_member {
	struct slice id;
	struct slice subscription;      /* what is no array of strings is one of nothing */
	struct buf assignment;          /* made here, its names in order; the caller ends it */
};

/* Puts the members in order of id. */
void assign_streams(struct assign_member *members, size_t n);

/* Every name once and in order, as members carry it. False: no JSON array of strings. */
bool assign_normalize(struct slice json, struct buf *out);

#endif
