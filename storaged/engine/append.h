/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends inside the engine: what append.c, decide.c and batch.c give to each other and to the engine's life.
 */
#ifndef STORAGED_ENGINE_APPEND_H
#define STORAGED_ENGINE_APPEND_H

#include "storaged/engine/engine_impl.h"

enum append_state { APPEND_NEW, APPEND_LOAD, APPEND_ROOM, APPEND_ARENA, APPEND_VERDICT, APPEND_DONE };

/* decide.c: what is to become of an append, on the submitted state. Changes nothing but outputs of `a`. */
enum append_decision {
	APPEND_TAKE,                    /* write it (check_only: it would be written) */
	APPEND_ANSWER,                  /* done already: duplicate or was_closed is set */
	APPEND_REFUSE,                  /* a->verdict says why */
};
/* ret_ticket: of the frame the answer rests on. */
enum append_decision append_decide(struct engine_append *a, int64_t now_ms, uint64_t *ret_ticket);

/* batch.c: judges and finishes the copy in the arena, which nobody else can change. */
/* f: payload, base_offset, epoch and append_time are set. Writes offset and epoch into the batch, by a->as_is and
 * a->log_append_time also the times; sets f's record_count and max_timestamp and a's claim. false: a->verdict says
 * why not; the copy is worthless then. */
bool batch_finish(struct engine_append *a, uint8_t *batch, struct frame *f);

/* append.c */
/* Frames below ticket_end are stored: publishes them, wakes and answers some now and the others in later turns. */
void append_confirm(struct engine *e, uint64_t ticket_end);
void append_answer(struct engine *e);
void append_answer_early(struct engine *e, uint64_t first, uint64_t end, bool stored);
void append_room(struct engine *e);
/* Answers those that wait for room or for their log; with a log: its own only. */
void append_fail_waiting(struct engine *e, const struct log *log, enum pico_error_kind kind, const char *text);
/* Those of a queue that waited for their log, in order: they get the error, or go on. */
void append_queue_go(struct engine *e, struct append_queue *q, const struct pico_error *error);
void append_queue_push(struct append_queue *q, struct engine_append *a);
/* Stops their timers. */
void append_queue_forget(struct engine *e, struct append_queue *q);
/* The session is over: everybody gets the answer that is still true. */
void append_fail_all(struct engine *e);
/* Stops the timers of all appends. */
void append_forget_all(struct engine *e);

#endif
