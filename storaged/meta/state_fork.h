/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks in the state: whose fork a topic is, what forks it has, how much of a log they still show. Below parent_end an
 * offset of a fork is read from its parent log, which may be a fork's, too. A topic that is deleted or expires while forks
 * of it are left becomes SOFT_DELETED: its name, alias and logs stay, and nobody is shown it any more; it goes with
 * the last of its forks.
 */
#ifndef STORAGED_META_STATE_FORK_H
#define STORAGED_META_STATE_FORK_H

#include "storaged/meta/state.h"

#define STATE_FORK_DEPTH_MAX 64         /* sources above a fork */

/* In a proposal that is only to be compared with a fork that exists: nobody looked for it. */
#define STATE_PARENT_END_UNKNOWN UINT64_MAX

struct state_parent {
	uint64_t log_id;                /* 0: none, no offset is read from elsewhere */
	uint64_t end;                   /* offsets below are the parent's */
	uint64_t offset;                /* where it was forked; [end, offset) was copied */
};
struct state_parent state_partition_parent(const struct state_topic *t, uint32_t partition);

/* NULL: t is no fork. It may be SOFT_DELETED. */
const struct state_topic *state_topic_source(const struct state_topic *t);
uint32_t state_topic_n_forks(const struct state_topic *t);
/* The forks of t in no special order: begin with NULL, NULL at the end. `after` is one of them. */
const struct state_topic *state_topic_next_fork(const struct state_topic *t, const struct state_topic *after);

/* Offsets [start, end) of a log are shown by its topic or by forks, or may be between such; start >= end: none, also for a log
 * that is not there. Costs a step a descendant. */
struct state_living {
	uint64_t start, end;            /* end: UINT64_MAX while the topic itself lives */
};
struct state_living state_log_living(const struct state *s, uint64_t log_id);
/* Its start; UINT64_MAX: nothing lives. */
uint64_t state_log_living_start(const struct state *s, uint64_t log_id);

/* The SOFT_DELETED topic of that id, or of that name in any spelling (as state_topic_find()). NULL: none. */
const struct state_topic *state_soft_deleted_by_id(const struct state *s, const uint8_t id[16]);
const struct state_topic *state_soft_deleted_find(const struct state *s, struct slice spelling);
/* As state_topic_next(), SOFT_DELETED ones, too. */
const struct state_topic *state_topic_next_any(const struct state *s, struct slice start_after);

#endif
