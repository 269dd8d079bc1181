/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside a group: what group.c, group_rebalance.c and group_member.c share.
 */
#ifndef STORAGED_GROUP_GROUP_IMPL_H
#define STORAGED_GROUP_GROUP_IMPL_H

#include <uthash.h>

#include "common/must.h"
#include "storaged/group/group.h"

#define GROUP_MEMBER_OVERHEAD 32        /* bytes of a member in an answer besides what counts by itself */

/* Slices of a member are its own memory. */
struct group_member {
	UT_hash_handle hh;              /* group->members by id; in order of joining */
	UT_hash_handle hh_instance;     /* group->instances, static members only */
	struct slice id, instance_id;   /* instance_id.p NULL: dynamic */
	struct slice client_id, client_host;
	struct group_protocol *protocol;
	size_t n_protocols;
	size_t bytes;                   /* of group->bytes */
	struct slice assignment;
	uint64_t session_ms, rebalance_ms;
	uint64_t expires_ms;            /* while it waits in no call */
	void *join_waiter, *sync_waiter;
	bool joined;                    /* the rebalance under way */
	bool synced;                    /* since the last one, or absent from it */
	bool told;                      /* its id: it can come back */
};

/* An id was given out and has not joined yet. */
struct group_pending {
	UT_hash_handle hh;
	struct slice id;
	uint64_t expires_ms;
};

/* A protocol that members support. */
struct group_vote {
	UT_hash_handle hh;
	struct slice name;
	uint32_t n_members, n_votes;
};

struct group {
	const struct group_config *config;
	Ipc__GroupState state;
	int32_t generation;
	struct slice protocol_type, protocol;   /* owned; empty: none */
	struct group_member *members, *instances;
	struct group_member *leader;    /* NULL: none */
	struct group_pending *pending;
	struct group_vote *votes;
	uint32_t n_members, n_joined, n_unsynced, n_pending;
	size_t bytes, assignment_bytes;
	uint32_t n_former;              /* members of before a restart that may come back; 0 once the first rebalance is over */
	uint32_t n_past;                /* members when the last rebalance ended */
	bool recording;                 /* COMPLETING: joins are answered when group_recorded() */
	bool delaying;                  /* PREPARING: more members may come */
	bool came;                      /* one did since the delay began */
	uint64_t delay_ms, delay_left_ms;       /* one more; in all */
	uint64_t rebalance_at_ms;       /* PREPARING: it ends */
	uint64_t sync_at_ms;            /* who has not synced by then is gone; UINT64_MAX: all have */
	uint64_t expiry_ms;             /* no session ends before */
	struct slice replaced_id;       /* of the static member last replaced; owned */
	struct group_answer *answers;   /* [first, n) are not taken */
	size_t first_answer, n_answers, answers_capacity;
};

/* group_member.c */
struct slice slice_keep(struct slice s);        /* a copy of its own; p NULL stays so */
void slice_drop(struct slice *s);
struct group_member *member_find(const struct group *g, struct slice id);
struct group_member *member_by_instance(const struct group *g, struct slice instance_id);
/* What `join` would count; and whether it fits in place of `old` (NULL: in addition). */
bool member_fits(const struct group *g, const struct group_member *old, const struct group_join *join);
struct group_member *member_add(struct group *g, struct slice id, const struct group_join *join);
/* Takes over what a repeated join says. */
void member_update(struct group *g, struct group_member *m, const struct group_join *join);
/* A static member comes back under a new id. */
void member_rename(struct group *g, struct group_member *m, struct slice id);
void member_free(struct group *g, struct group_member *m);
void member_set_assignment(struct group *g, struct group_member *m, struct slice assignment);
void member_touch(struct group *g, struct group_member *m, uint64_t now_ms);
bool member_matches(const struct group_member *m, const struct group_join *join);
/* Every member but `self` (may be NULL) supports one of them. */
bool protocols_are_common(const struct group *g, const struct group_member *self, const struct group_join *join);
/* What the members choose; there is one. */
struct slice protocol_choose(struct group *g);
struct group_pending *pending_find(const struct group *g, struct slice id);
struct group_pending *pending_add(struct group *g, struct slice id, uint64_t expires_ms);
void pending_free(struct group *g, struct group_pending *p);

/* group_rebalance.c */
void answer_join(struct group *g, struct group_member *m, Ipc__GroupError error);       /* its waiter, if any */
void answer_sync(struct group *g, struct group_member *m, Ipc__GroupError error);
void answer_put(struct group *g, const struct group_answer *a);
/* The answer to a join that finds the group as it is. */
void answer_join_now(struct group *g, struct group_member *m, void *waiter, uint64_t now_ms);
/* From EMPTY, COMPLETING or STABLE. */
void rebalance_begin(struct group *g, uint64_t now_ms);
/* PREPARING: ends it if nobody is waited for. */
void rebalance_check(struct group *g, uint64_t now_ms);
/* The member is in; its waiter is answered when the rebalance ends. */
void member_join(struct group *g, struct group_member *m, void *waiter, uint64_t now_ms);
/* It goes, its waiters are answered UNKNOWN_MEMBER, the rest rebalances. */
void member_remove(struct group *g, struct group_member *m, uint64_t now_ms);

#endif
