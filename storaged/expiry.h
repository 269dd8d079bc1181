/* SPDX-License-Identifier: Apache-2.0
 *
 * Topics that end by themselves: a TTL after they were last used, or at a fixed time. The owner knows the exact deadline of
 * each in memory; the metadata has one that is not before it, so a crash ends none early.
 *
 *   used      an append, a read, a wait or a close moves the deadline of a TTL; looking at a topic does not
 *   stored    TouchExpiry sets deadline + slack, slack = max(TTL / 10, 1 s), whenever the deadline comes within half of that
 *   over      from its deadline on the topic is not there, for anybody; ExpireTopic makes that so in the metadata, when
 *             somebody asks for it and in any case by a sweep
 *
 * After a start the deadline is the stored one, or that of the last append where that is later.
 */
#ifndef STORAGED_EXPIRY_H
#define STORAGED_EXPIRY_H

#include "storaged/op.h"

struct expiry;

/* At serving, for all there are then; and for each that comes later. */
void expiry_begin(struct node *n);
void expiry_add(struct node *n, const struct state_topic *t);
void expiry_remove(struct node *n, const uint8_t topic_id[16]);
/* The metadata answers no more. */
void expiry_free(struct node *n);

/* It is over: treat it as not there. */
bool expiry_is_over(struct node *n, const struct state_topic *t);
/* It is used now. */
void expiry_touch(struct node *n, const struct state_topic *t);
/* The same by id, for who has no topic at hand. Cheap when no topic expires. */
void expiry_touch_id(struct node *n, const uint8_t topic_id[16]);

#endif
