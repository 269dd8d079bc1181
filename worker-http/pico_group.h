/* SPDX-License-Identifier: Apache-2.0
 *
 * Consumer groups over HTTP: what the files of /_groups share. The coordinator is the one that Kafka's clients use
 * (storaged), so is the table of committed offsets. A member here is one of protocol type "pico" whose metadata is its
 * subscription and whose assignment is what assign.h makes of all subscriptions.
 */
#ifndef WORKER_HTTP_PICO_GROUP_H
#define WORKER_HTTP_PICO_GROUP_H

#include "worker-http/request.h"

#define GROUP_PROTOCOL_TYPE "pico"
#define GROUP_PROTOCOL "streams"
#define GROUP_LIST_MAX 10000            /* streams or offsets in one request */

/* Members of a JSON body; bits. */
enum group_field {
	GROUP_MEMBER_ID = 1, GROUP_INSTANCE_ID = 2, GROUP_CLIENT_ID = 4, GROUP_GENERATION = 8, GROUP_SESSION = 16,
	GROUP_REBALANCE = 32, GROUP_SUBSCRIPTION = 64, GROUP_OFFSETS = 128,
};

/* r->state of every request below /_groups. */
struct group_request {
	struct request *request;        /* whose it is */
	struct buf group, member;       /* ids, of the path or the body */
	struct buf instance, client;
	unsigned given;                 /* enum group_field */
	int32_t generation, session_ms, rebalance_ms;
	struct slice subscription, offsets;     /* JSON, in the request's body */
	struct buf names;               /* the subscription as it is kept */
	bool joins;                     /* the answer is a join's */
	bool untold;                    /* a new member whose id its client has not been told */
	struct buf members;             /* JSON, of a join of the leader */
	void *own;                      /* of a handler */
	void (*own_free)(void *own);
};

/* What a path below /_groups is. */
void pico_group(struct request *r);

/* The handlers. */
void group_list(struct request *r);             /* GET /_groups */
void group_describe(struct request *r);         /* GET /_groups/G */
void group_join(struct request *r);             /* POST /_groups/G/members */
void group_sync(struct request *r);             /* GET /_groups/G/members/M */
void group_leave(struct request *r);            /* DELETE /_groups/G/members/M */
void group_heartbeat(struct request *r);        /* POST /_groups/G/members/M/heartbeat */
void group_commit(struct request *r);           /* PUT /_groups/G/offsets */
void group_fetch(struct request *r);            /* GET /_groups/G/offsets */

/* pico_group_member.c: the member that nobody can ask for again leaves. */
void group_forget_untold(struct group_request *g);

/* The body, of these members; those in `needed` have to be there. null counts as absent. False when refused (answered). */
bool group_take_body(struct request *r, unsigned allowed, unsigned needed);
/* ?instanceId= and ?generation=. False when refused (answered). */
bool group_take_query(struct request *r, bool generation);

/* A call of a group is over: was it good? of_answer counts when the call itself was. False: answered. */
bool group_is_good(struct request *r, const struct pico_error *e, Ipc__GroupError of_answer);

ProtobufCBinaryData group_bytes(struct slice s);
struct slice group_slice(ProtobufCBinaryData b);
/* A JSON array that came from a member, or []: nobody's bytes break a document. */
void group_put_array(struct buf *out, ProtobufCBinaryData json);

#endif
