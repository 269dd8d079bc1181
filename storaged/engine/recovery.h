/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of recovery: finding the cuts (recovery.c), reading the frames below them
 * (recovery_read.c). Both work on a window of slots, each one object of the session at hand.
 *
 * Invariant: no object is read for its frames before the cut of every session is known. A stale process
 * is then unable to acknowledge anything that is not read.
 */
#ifndef STORAGED_ENGINE_RECOVERY_H
#define STORAGED_ENGINE_RECOVERY_H

#include "storaged/engine/engine_impl.h"

#define RECOVERY_WINDOW WAL_REACH
#define RECOVERY_FAULTS_MAX 8u          /* a body that is wrong so often is damaged */

/* What the window at hand is for; recovery.c. */
enum recovery_step { STEP_LOOK, STEP_PROBE, STEP_RECHECK, STEP_SEAL };

enum slot_found { FOUND_NOTHING_YET, FOUND_MISSING, FOUND_DATA, FOUND_SEAL, FOUND_BROKEN };

struct recovery_slot {
	struct recovery *recovery;
	uint64_t seq;
	enum slot_found found;
	const char *broken;             /* what is wrong with it */
	uint64_t size;                  /* of the object */
	uint8_t *data;                  /* reading: the object; owned */
	uint8_t seal[WAL_HEADER];
	uint32_t backoff_ms, n_faults;
	bool sealing;                   /* put a seal, not only look */
	bool busy;                      /* reading: asked for and not applied */
	struct env_timer timer;
};

struct recovery {
	struct engine *engine;
	struct engine_session *ended;   /* borrowed */
	uint32_t **sizes;               /* by session: sizes of the objects from the watermark to the cut */
	uint64_t *n_sizes;
	size_t n_ended, at;             /* at: session at hand */
	struct recovery_slot slots[RECOVERY_WINDOW];
	uint64_t window;                /* first seq of it */
	unsigned n_window, n_left;
	enum recovery_step step;
	uint64_t missing;               /* probing: the first seq that is not there */
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

/* recovery.c */
void recovery_key(const struct recovery *r, uint64_t seq, char ret_key[WAL_KEY_MAX]);
/* The end: names the object. */
void recovery_fatal(struct recovery *r, uint64_t seq, const char *text);
/* Runs on_fire after a back-off with jitter, which doubles. */
void slot_wait(struct recovery_slot *s, void (*on_fire)(void *arg));
void recovery_set_fault(struct recovery *r, struct obj_result result);

/* recovery_read.c: reads every session from its watermark to its cut. */
void recovery_read(struct recovery *r);

#endif
