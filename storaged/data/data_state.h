/* SPDX-License-Identifier: Apache-2.0
 *
 * State entries (frame.State): which is newer, and how several of one log fold into what it is now. Producers follow
 * the bounds of storaged/engine: at most 2,048 string and 65,536 Kafka ones, the longest idle go.
 */
#ifndef STORAGED_DATA_DATA_STATE_H
#define STORAGED_DATA_DATA_STATE_H

#include <stdbool.h>

#include "common/slice.h"
#include "proto/frame.pb-c.h"

#define DATA_STATE_INCOMPLETE_MAX 7u    /* entries in a row */
#define DATA_STATE_EPOCHS_MAX 16u
#define DATA_STATE_STREAM_SEQ_MAX 1024u /* bytes */

/* NULL: does not decode, is of another log, or a field is out of bounds; ret_fault says what. Else free with
 * data_state_free(). */
Frame__State *data_state_decode(struct slice entry, uint64_t log_id, const char **ret_fault);
void data_state_free(Frame__State *s);

/* What a start needs of an entry, read without decoding the rest. false: malformed. */
struct data_state_brief {
	uint32_t epoch;
	uint64_t next;
	int64_t last_append_ms;
	bool closed;
};
bool data_state_peek(struct slice entry, struct data_state_brief *ret_brief);

/* By (epoch, next), then open before closed (a close alone takes no offset), then incomplete before complete:
 * < 0, 0, > 0. */
int data_state_compare(const Frame__State *a, const Frame__State *b);

/*
 * Folds an older entry under a newer one of the same log: *newer gets the producers that it does not name, without
 * those that were idle for too long when the log was last written, and of each the later word. It becomes complete with
 * an older one that is, unless there was an entry between the two: then it is whole, and the third one may come yet
 * (objects that were damaged are left out of merges). Nothing happens when newer is complete. Takes `older`. NULL, or what is wrong: the older one reaches farther; *newer is as it was.
 */
const char *data_state_fold(Frame__State *newer, Frame__State *older) __attribute__((warn_unused_result));

/* All entries of one log, at least one, in any order: what they come to is entries[0] then, also after a fault. Takes the
 * others. */
const char *data_state_fold_all(Frame__State **entries, size_t n) __attribute__((warn_unused_result));

#endif
