/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch sessions (KIP-227): what a client reads is kept here, so that it names only what changed, and hears only of
 * partitions with news. They live in one worker, whatever connection uses them: a client that comes to another one is told
 * FETCH_SESSION_ID_NOT_FOUND and begins again, as it does when a session had to go.
 *
 * Bounds: --max-fetch-sessions, and FETCH_SESSION_PARTS_MAX partitions in all of them. When there is no room a session goes
 * that was not used for two minutes; else, for a larger one, the smallest of those that are two minutes old; else the new one
 * is not made, and its client names all partitions each time.
 */
#ifndef WORKER_KAFKA_FETCH_SESSION_H
#define WORKER_KAFKA_FETCH_SESSION_H

#include "common/kmsg_gen.h"
#include "worker-kafka/request.h"

#define FETCH_SESSION_PARTS_MAX 200000
#define FETCH_SESSION_KEPT_MS 120000

struct fetch_sessions;

struct fetch_sessions *fetch_sessions_new(struct server *s);
void fetch_sessions_free(struct fetch_sessions *all);

/* What a fetch reads. */
struct fetch_plan {
	struct kmsg_fetch_request_topic *topics;        /* of the request, or of the session, in the request's region */
	uint32_t n_topics;
	bool begins;                    /* a session, when there is room */
	int32_t id, epoch;              /* of the session that goes on, and what it is at; 0: none does */
};

/* Does what the request says of its session: opens, changes, ends it. An error is one of the whole answer. ret_plan is without
 * topics when the region had no room. */
enum kafka_error fetch_session_plan(struct request *r, struct fetch_plan *ret_plan);

/* The answer to that: a session begins, or only what is news stays in it. */
void fetch_session_answer(struct request *r, const struct fetch_plan *plan, struct kmsg_fetch_response *m);

#endif
