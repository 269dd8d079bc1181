/* SPDX-License-Identifier: Apache-2.0
 *
 * One consumer group: members, generations, assignments. A pure state machine: events and the time go in, answers to
 * parked calls and the next deadline come out. It knows no clock, no log, no offsets.
 *
 * The end of a rebalance is told to nobody before its record is durable (group_past(), group_recorded()), so no
 * generation is used twice, and after a restart it is known for whom to wait.
 *
 *            join                    all joined, or time is up
 *   EMPTY ---------> PREPARING ------------------------------> COMPLETING ---------> STABLE
 *     ^                 |  ^  ^                                    |    leader's sync   |
 *     +-----------------+  |  +------------------------------------+                    |
 *       nobody is left     |    join, leave, a session ends                             |
 *                          +------------------------------------------------------------+
 *
 * Kafka's classic protocol, with KIP-345 (static members), KIP-394 (ids first) and KIP-814 (skipped assignments).
 * A member that waits in a call lives as long as the call; one whose call was lost lives until its session ends, so that
 * it finds its place again.
 *
 * Times are CLOCK_BOOTTIME milliseconds, and never run back from one event to the next. Slices given are copied.
 */
#ifndef STORAGED_GROUP_GROUP_H
#define STORAGED_GROUP_GROUP_H

#include "common/slice.h"
#include "proto/topics.pb-c.h"
#include "storaged/group/group_memory.h"

#define GROUP_MEMBER_ID_MAX 512
#define GROUP_INSTANCE_ID_MAX 255
#define GROUP_WORD_MAX 255              /* protocol types and names, client ids, hosts */
#define GROUP_PROTOCOLS_MAX 32
#define GROUP_BYTES_MAX (5u << 19)        /* ids and metadata of all members ... */
#define GROUP_ASSIGNMENTS_MAX (5u << 18)  /* ... and their assignments: together they fit an answer */

struct group;
struct group_member;

struct group_config {
	uint32_t members_max;
	uint64_t min_session_ms, max_session_ms;
	uint64_t initial_delay_ms;      /* before the first rebalance of an empty group */
	uint64_t rejoin_ms;             /* the same when members of before a restart may come back */
	struct group_memory *memory;    /* of all groups; NULL: no bound */
};

/* What outlives the process: of the last rebalance. */
struct group_past {
	int32_t generation;
	uint32_t n_members;
	struct slice protocol_type;     /* group_past(): in the group's memory */
};

/* Who calls. instance_id.p NULL: not a static member. */
struct group_caller {
	struct slice member_id, instance_id;
	int32_t generation;
};

struct group_protocol {
	struct slice name, metadata;
};

struct group_join {
	struct slice member_id;         /* empty: a new member */
	struct slice instance_id;       /* p NULL: none */
	struct slice client_id, client_host;
	struct slice protocol_type;
	const struct group_protocol *protocol;  /* best first */
	size_t n_protocols;
	int32_t session_ms, rebalance_ms;       /* rebalance_ms <= 0: as session_ms */
	bool needs_member_id, may_skip_assignment;
	const char *new_id;             /* random: what makes a new member's id unique */
	void *waiter;                   /* the call; comes back with its answer */
};

struct group_assignment {
	struct slice member_id, assignment;
};

struct group_sync {
	struct group_caller caller;
	struct slice protocol_type, protocol;   /* p NULL: not checked */
	const struct group_assignment *assignment;
	size_t n_assignments;
	void *waiter;
};

/* The answer to a join or sync. Slices and member are the group's and valid until the next event. */
struct group_answer {
	void *waiter;
	bool of_sync;
	Ipc__GroupError error;
	struct slice member_id;         /* join: with NONE and MEMBER_ID_REQUIRED */
	struct slice leader;            /* join */
	struct slice assignment;        /* sync */
	bool skip_assignment;
	bool is_leader;                 /* join: the answer names the members */
};

/* config is borrowed. past NULL: a new group; else as it was read from the log. */
struct group *group_new(const struct group_config *config, const struct group_past *past);
/* Parked calls are forgotten, not answered. */
void group_free(struct group *g);

/* Each has one answer, now or later. */
void group_join(struct group *g, const struct group_join *join, uint64_t now_ms);
void group_sync(struct group *g, const struct group_sync *sync, uint64_t now_ms);
/* Must be emptied after every event. False: there is none. */
bool group_take_answer(struct group *g, struct group_answer *ret_answer);

Ipc__GroupError group_heartbeat(struct group *g, const struct group_caller *caller, uint64_t now_ms);
/* A static member may be named by its instance id alone. */
Ipc__GroupError group_leave(struct group *g, const struct group_caller *caller, uint64_t now_ms);
/* May that caller commit? Counts as a heartbeat. */
Ipc__GroupError group_may_commit(struct group *g, const struct group_caller *caller, uint64_t now_ms);
/* The call was cancelled: it is not answered any more. */
void group_forget(struct group *g, void *waiter, uint64_t now_ms);
/* Everything is answered UNKNOWN_MEMBER, and the group is DEAD. */
void group_end(struct group *g);

/* To be called at group_deadline() or later; UINT64_MAX: nothing is waited for. May be early. */
void group_tick(struct group *g, uint64_t now_ms);
uint64_t group_deadline(const struct group *g);

Ipc__GroupState group_state(const struct group *g);
int32_t group_generation(const struct group *g);
struct slice group_protocol_type(const struct group *g);        /* empty when nobody ever joined */
struct slice group_protocol(const struct group *g);             /* empty in EMPTY and PREPARING */
/* Changes with every rebalance that ends, and only then: to be made durable. */
struct group_past group_past(const struct group *g);
/* What group_past() says now is durable: joins that wait for it are answered. */
void group_recorded(struct group *g, uint64_t now_ms);
/* A consumer's subscription (protocol type "consumer") names the topic, or cannot be read. */
bool group_is_subscribed(const struct group *g, struct slice topic);

/* In order of joining. NULL: begin, and at the end. */
const struct group_member *group_member_next(const struct group *g, const struct group_member *m);
struct slice member_id(const struct group_member *m);
struct slice member_instance_id(const struct group_member *m);  /* p NULL: none */
struct slice member_client_id(const struct group_member *m);
struct slice member_client_host(const struct group_member *m);
struct slice member_metadata(const struct group *g, const struct group_member *m);      /* of the group's protocol */
struct slice member_assignment(const struct group_member *m);

#endif
