/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of recovery: finding the cuts (recovery_cut.c), reading the frames below them
 * (recovery_read.c).
 *
 * Invariant: no object is read for its frames before the cut of every session is known. A stale process
 * is then unable to acknowledge anything that is not read.
 */
#ifndef STORAGED_ENGINE_RECOVERY_H
#define STORAGED_ENGINE_RECOVERY_H

#include "storaged/engine/engine_impl.h"

#define RECOVERY_WINDOW WAL_REACH
#define RECOVERY_SEARCHES 8u            /* sessions whose cuts are looked for side by side */
#define RECOVERY_HANGS_MS 5000u         /* a question about a cut that is unanswered so long is asked again */
#define RECOVERY_FAULTS_MAX 8u          /* a body that is wrong so often is damaged */

struct cut_search;

/* An object that is being read. */
struct recovery_slot {
	struct recovery *recovery;
	uint64_t seq;
	uint64_t size;
	uint8_t *data;                  /* owned */
	uint32_t backoff_ms, n_faults;
	bool busy;                      /* asked for and not applied */
	struct env_timer timer;
};

struct recovery {
	struct engine *engine;
	struct engine_session *ended;   /* borrowed */
	uint32_t **sizes;               /* by session: sizes of the objects from the watermark to the cut */
	uint64_t *n_sizes;
	size_t n_ended;
	struct cut_search *searches[RECOVERY_SEARCHES];
	size_t n_searched, n_cut;       /* sessions whose search has begun, has ended */
	size_t at;                      /* session that is being read */
	struct recovery_slot slots[RECOVERY_WINDOW];
	uint64_t read_next, apply_next; /* seqs */
	uint64_t read_bytes;            /* asked for and not applied */
	uint64_t position;              /* in the body of the object being applied */
	uint8_t *room;                  /* in the arena, for the frame at hand */
	struct env_task task;           /* applies, or reports the end */
	void (*on_read)(struct engine *e);
	struct engine_recovery_stats stats;
	uint64_t began_ms;
	char fault[512];
};

/* recovery.c; at: index of the session */
void recovery_key(const struct recovery *r, size_t at, uint64_t seq, char ret_key[WAL_KEY_MAX]);
/* The end: names the object. */
void recovery_fatal(struct recovery *r, size_t at, uint64_t seq, const char *text);
void recovery_set_fault(struct recovery *r, struct obj_result result);
/* Every cut is known: what is packed comes first, the WAL on top. */
void recovery_scan(struct recovery *r);

/* recovery_cut.c: seals and finds every cut; there is a session at least. */
void recovery_cut(struct recovery *r);
void recovery_cut_free(struct recovery *r);

/* recovery_read.c: reads every session from its watermark to its cut. */
void recovery_read(struct recovery *r);
void recovery_read_free(struct recovery *r);

#endif
