/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of the requests whose frames recovery read back: Resume asks by (worker instance, request
 * id). Holds the youngest frames only and is dropped soon after the start; what it cannot know is UNKNOWN.
 *
 * Invariant: ABSENT is said only when every frame that could carry the request was read and noted.
 */
#ifndef STORAGED_ENGINE_REQUEST_H
#define STORAGED_ENGINE_REQUEST_H

#include "storaged/engine/engine.h"

#define REQUEST_YOUNG_MS 600000
#define REQUEST_KEEP_MS 120000u         /* after the start */
#define REQUESTS_MAX (1u << 20)

struct request {
	uint64_t instance, id;
	uint64_t session, seq;          /* its frame's */
	int64_t append_time;
	struct engine_request answer;
};

struct request_table {                  /* zero-initialised: knows nothing */
	struct request *entries;        /* in WAL order */
	uint32_t n, capacity;
	uint32_t *slots;                /* hash of indices + 1; built by request_table_ready() */
	uint32_t n_slots;
	uint64_t first_session;         /* frames from here on are all noted: (session, seq) */
	uint64_t first_seq;
	uint64_t last_session;          /* the newest that was read */
	bool ready;
	struct env_timer timer;         /* drops the table */
};

/* Before the first note: everything from (session, seq) on will be noted. last_session is the newest to be read. */
void request_table_begin(struct request_table *t, uint64_t session, uint64_t seq, uint64_t last_session);
void request_table_note(struct request_table *t, const struct request *r);
/* Forgets what is older than REQUEST_YOUNG_MS at now_ms; questions may come. */
void request_table_ready(struct request_table *t, int64_t now_ms);
void request_table_done(struct request_table *t);

enum engine_request_state request_table_find(const struct request_table *t, uint64_t instance, uint64_t id,
					     uint64_t session, uint64_t seq, struct engine_request *ret);

#endif
