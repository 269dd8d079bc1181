/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a log: what decides appends (producers, stream sequence, epochs, who closed it) from the state entries of its data
 * objects and from the frames that recovery found. Appends that come meanwhile wait here, in order; so do the packer and
 * garbage collection. A store that is away is asked again for as long as somebody waits; damage fails the load, and with
 * it those that wait.
 */
#ifndef STORAGED_ENGINE_LOG_LOAD_H
#define STORAGED_ENGINE_LOG_LOAD_H

#include "storaged/engine/engine_impl.h"

struct load_wait {
	/* error: NULL, or why it cannot be loaded. A log that was removed meanwhile is not. */
	void (*on_loaded)(struct load_wait *w, const struct pico_error *error);
	struct load_wait *next, **prev; /* private; prev is NULL while it does not wait */
};

/* Nothing has to come before an append to it. */
static inline bool log_is_ready(const struct log *log)
{
	return log->is_open && log->open->loaded && log->open->load == NULL;
}

/* The caller has a ref, for as long as it needs the log loaded. true: it is ready now. false: w runs once and later; w may
 * be NULL. */
bool log_load(struct engine *e, struct log *log, struct load_wait *w);
void load_wait_stop(struct load_wait *w);       /* fine when it does not wait */

/* The append waits for its log, which is not ready and was asked for, behind those that do already; append_enter() is next. */
void log_load_append(struct engine_append *a);

/* The appends that wait for a log that is being loaded; for each load, begin with NULL. */
struct append_queue *log_load_appends(const struct log *log);
struct append_queue *log_load_queue(struct log_load *l);
struct log_load *log_load_next(const struct engine *e, const struct log_load *after);

/* Recovery found the log's next frame, which stands in the arena there. */
void log_load_frame(struct engine *e, struct log *log, const struct frame_facts *facts, struct arena_place at,
		    uint32_t length);

void log_load_forget_all(struct engine *e);

#endif
