/* SPDX-License-Identifier: Apache-2.0
 *
 * What a consumer will ask next: read while it takes what it got, so that the way to storaged costs it nothing. For
 * fetches of one partition that left something behind; one at a time a connection, inside of which it lies. What is
 * not asked for within AHEAD_MS is given back; what was asked for before anything was trimmed or deleted is nobody's
 * answer afterwards.
 */
#ifndef WORKER_KAFKA_FETCH_AHEAD_H
#define WORKER_KAFKA_FETCH_AHEAD_H

#include "worker-kafka/request.h"

#define AHEAD_MS 500

struct fetch_ahead {
	unsigned magic;
	struct server *server;
	/* The question: its one part, and the bytes of all. The part's topic id is the one here. */
	Ipc__FetchRequest__Part part;
	uint8_t topic_id[16];
	uint32_t max_bytes;
	uint64_t cuts;                  /* topics_cuts() before it was asked */
	struct topics_call *call;       /* under way, or NULL */
	Ipc__FetchAnswer__Part found;   /* with pieces */
	struct topics_pieces *pieces;   /* of an answer that has come, or NULL */
	struct env_timer timer;
};

void fetch_ahead_init(struct fetch_ahead *a, struct server *s);
/* Forgets question and answer. */
void fetch_ahead_drop(struct fetch_ahead *a);
/* Asks for m, whose one part is the next; nothing is there, but what was forgotten. */
void fetch_ahead_begin(struct fetch_ahead *a, const Ipc__FetchRequest *m);
/* True when m is what was asked for: then r has the call, or cb has run. Else what is there is forgotten. */
bool fetch_ahead_take(struct fetch_ahead *a, struct request *r, const Ipc__FetchRequest *m, request_cb *cb);
/* storaged wants the memory back: true when it was this one's, and is given. */
bool fetch_ahead_reclaim(struct topics_pieces *pieces);

#endif
