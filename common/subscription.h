/* SPDX-License-Identifier: Apache-2.0
 *
 * What may happen to a subscription of Durable Streams (proto/subscription.proto), without any call: who reads and
 * writes it is the caller. Times are of the wall clock.
 */
#ifndef COMMON_SUBSCRIPTION_H
#define COMMON_SUBSCRIPTION_H

#include "common/buf.h"
#include "common/env.h"
#include "proto/subscription.pb-c.h"
#include "proto/topics.pb-c.h"

#define SUB_PREFIX "ds/sub/"
#define SUB_HOOK_KEY "ds/hook/key"
#define SUB_ID_MAX 128
#define SUB_LINKS_MAX 1000
#define SUB_PACKED_MAX (120u << 10)     /* of a small value's 128 KiB */
#define SUB_TOKEN_TEXT 48               /* 32 random bytes as base64url, and an end byte */

/* 1 to SUB_ID_MAX of A-Z a-z 0-9 . _ ~ - */
bool sub_id_is_legal(struct slice id);

/* `*` is any of one segment, `**` any number of segments. */
bool sub_pattern_matches(struct slice pattern, struct slice path);
/* What every path that matches begins with. */
struct slice sub_pattern_prefix(struct slice pattern);

Sub__Link *sub_link_find(const Sub__Subscription *s, struct slice path);
/* NULL when there are SUB_LINKS_MAX. */
Sub__Link *sub_link_add(Sub__Subscription *s, struct slice path, bool named);
void sub_link_remove(Sub__Subscription *s, Sub__Link *link);
/* A topic that the pattern matches and that is not linked yet. */
bool sub_topic_is_new_match(const Sub__Subscription *s, const Ipc__Topic *topic);
/* The links in order, for GET_MANY; sub_refs_free() when it was sent. */
void sub_refs_fill(const Sub__Subscription *s, Ipc__GetManyRequest *m);
void sub_refs_free(Ipc__GetManyRequest *m);
/* Where a link's stream ends now; NULL: it is not there. */
void sub_link_set_tail(Sub__Link *link, const Ipc__Topic *topic);
/* Something in the streams is not worked on; tails are as of now. */
bool sub_is_pending(const Sub__Subscription *s);

/* The memory of strings is the message's: freed by sub__subscription__free_unpacked(). */
void sub_set_string(char **field, struct slice value);
/* 0 or -E2BIG. */
int sub_pack(Sub__Subscription *s, struct buf *out);

/* A new wake: IDLE or WAKING to WAKING. */
void sub_wake(Sub__Subscription *s, struct env *env);
/* A new token for the wake under way. */
void sub_token(Sub__Subscription *s, struct env *env, char ret_token[static SUB_TOKEN_TEXT]);
bool sub_token_is_good(const Sub__Subscription *s, struct slice token);
/* The wake is over. */
void sub_idle(Sub__Subscription *s);
/* What stood there when the wake began was worked on. */
void sub_ack_snapshot(Sub__Subscription *s);

#endif
