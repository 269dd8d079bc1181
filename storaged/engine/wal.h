/* SPDX-License-Identifier: Apache-2.0
 *
 * The WAL writer of one session: dense objects, each put once under If-None-Match, several in flight,
 * reported as stored strictly in order. What is in an object is the arena's and the engine's business.
 *
 * Invariants: seq n is reported only when 0..n are stored; a seal on any seq, or a foreign put id, ends
 * the process before anything at or above it is reported; an outcome that is not known is asked for again
 * until it is, with the bytes untouched.
 */
#ifndef STORAGED_ENGINE_WAL_H
#define STORAGED_ENGINE_WAL_H

#include "storaged/engine/arena.h"
#include "storaged/engine/wal_format.h"
#include "storaged/objstore/objstore.h"

#define WAL_TOKENS_SAVED 10
#define WAL_SAMPLES 128

/* An object is put only when all that many seqs and more below it are stored. At least the largest max_inflight. */
#define WAL_REACH 64u

struct wal_object;

struct wal_config {
	uint32_t node;
	uint8_t put_id[16];
	uint64_t batch_interval_ms;     /* 0: no limit */
	uint64_t max_bytes;             /* of a body, if it holds more than one frame */
	uint32_t max_inflight;
	bool allow_unfenced;
	/* The open object is stored. */
	void (*on_open)(void *arg);
	/* Every frame with a ticket below ticket_end is stored. */
	void (*on_stored)(void *arg, uint64_t ticket_end);
	void (*on_position)(void *arg, uint64_t seq);
	/* Nothing is sent or reported any more. */
	void (*on_fatal)(void *arg, int code, const char *text);
	/* Planted bugs only: frames [first, end) are answered before their time. */
	void (*on_early)(void *arg, uint64_t ticket_first, uint64_t ticket_end, bool stored);
	void *arg;
};

struct wal {
	struct env *env;
	struct objstore *store;
	struct arena *arena;
	struct wal_config config;
	uint64_t session;
	uint32_t session_index;         /* in the arena */
	uint64_t stored_end;            /* objects below it are stored and reported */
	struct wal_object *oldest, *filling;    /* in seq order */
	uint64_t tickets;               /* frames committed so far: the next frame's ticket */
	unsigned inflight;              /* objects put and not stored */
	bool open, dead, stopping, probing;
	int64_t token_at_ms;            /* tokens saved = (now - this) / interval */
	uint64_t sealed_ms;             /* when the last object was sealed */
	uint64_t turn_ms;               /* when this process was last seen running */
	struct env_timer pump_timer, heartbeat;
	struct env_task pump;
	uint32_t sample_us[WAL_SAMPLES];        /* durations of the last puts */
	uint32_t n_samples;
	uint64_t p95_us;                /* 0: not enough samples */
	char fault[512];                /* "" when puts succeed */
};

void wal_init(struct wal *w, struct env *env, struct objstore *store, struct arena *arena,
	      const struct wal_config *config);
/* The store is freed already, or has nothing of ours outstanding. */
void wal_done(struct wal *w);

/* Stores seq 0, kind open, and proves that the store honours the condition; then on_open. */
/* index: the session's in the arena. */
void wal_open(struct wal *w, uint64_t session, uint32_t index);

/*
 * Takes the frame of `size` bytes that stands at arena_reserve()'s `at`. Returns its ticket; ret_seq and
 * ret_body_position say where it stands. It is sealed at the end of this turn or later.
 */
uint64_t wal_commit(struct wal *w, const uint8_t *at, uint32_t size, uint64_t *ret_seq,
		    uint32_t *ret_body_position);

/* NULL while puts succeed or none is waiting; else what is wrong, with path and errno where there is one. */
const char *wal_fault(const struct wal *w);

/* The object being filled. */
uint64_t wal_seq(const struct wal *w);
/* Everything committed is stored and reported. */
bool wal_is_idle(const struct wal *w);
/* What has gathered is sealed at once from now on. */
void wal_flush(struct wal *w);

/*
 * Every callback of the engine's store begins with this. false: the process was away for more than an hour,
 * or a put is unanswered for a day; no answer may be looked at, on_fatal was called.
 */
bool wal_may_look(struct wal *w);

#endif
