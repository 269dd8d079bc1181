/* SPDX-License-Identifier: Apache-2.0
 *
 * The card of a log: its topic as it is now (meta.LogCard), for the store to keep beside the log's records. The engine puts it
 * into frames and state entries without looking into it; a restore reads it where an export is older than the topic.
 */
#ifndef STORAGED_META_LOG_CARD_H
#define STORAGED_META_LOG_CARD_H

#include "common/buf.h"
#include "storaged/meta/state.h"

#define LOG_CARD_MAX 4096u              /* bytes, without sources; configs that do not fit are left out */
#define LOG_CARD_PARTITIONS_MAX 16u     /* of a topic whose partitions all stand in each card */

/* Appends it to *ret unless that is NULL. The topic's settings version, which is not 0; 0: no topic has the log. */
uint64_t log_card_encode(const struct state *s, uint64_t log_id, struct buf *ret);

/* NULL: it is none, or one that no topic can have. Free with meta__log_card__free_unpacked(). */
Meta__LogCard *log_card_decode(struct slice bytes, uint64_t log_id);
/* Which log it speaks of, also of one among sources. */
uint64_t log_card_log(const Meta__LogCard *c);

#endif
