/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the coordinator: what coordinator*.c share.
 */
#ifndef STORAGED_COORDINATOR_IMPL_H
#define STORAGED_COORDINATOR_IMPL_H

#include "storaged/coordinator.h"
#include "storaged/engine/stamp.h"

#define REJOIN_MS 3000u                 /* members that heartbeat every 3 s, the default of all clients */
#define SWEEP_WAITS_MAX 50u             /* then a pass goes on without that group */

struct coordinator {
	struct node *node;
	struct group_config group;
	struct group_memory memory;     /* of all entries */
	struct group_entry *entries;    /* uthash by group id; owned */
	struct group_entry *dirty;      /* records to be written at the end of the turn */
	struct env_task flush;
	struct env_timer sweep;
	char swept[GROUP_NAME_SIZE];    /* the pass goes on behind it */
	unsigned sweep_waits;
	struct stamp stamp;
	uint64_t groups_max, retention_ms;
	bool stopping;
};

/* coordinator.c */
/* Finds or makes the group and runs the call, or lets it wait. */
void coordinator_enter(struct coordinator *co, struct group_call *gc, struct slice id, bool create);
/* A group that is not in memory, and whose log is here; it may be READY at once. */
struct group_entry *entry_open(struct coordinator *co, struct slice id, const uint8_t topic_id[16]);
void entry_forget(struct group_entry *entry);
void entry_maybe_free(struct group_entry *entry);
void entry_loaded(struct group_entry *entry);
void entry_load_failed(struct group_entry *entry, int error);   /* of offsets_fold() */
void coordinator_wants_flush(struct group_entry *entry);

/* coordinator_calls.c */
void op_refuse(struct op *op, enum pico_error_kind kind, const char *text);
void call_wait(struct group_call *gc, struct group_entry *entry);
/* Each runs once more: with the entry, or without one. Who has to wait again stands behind the others. */
void run_waiting(struct group_entry *entry, struct group_entry *with);
void fail_waiting(struct group_entry *entry, const struct pico_error *e);
void forget_waiting(struct group_entry *entry);
/* They are told to come back, and find it loaded or wait once more. */
void waited_enough(struct group_entry *entry);

/* coordinator_log.c */
void entry_load(struct group_entry *entry);
/* Writes what waits, if nothing is under way. */
void entry_flush(struct group_entry *entry);
/* The topic is gone: what waits to be written is answered. */
void entry_fail_writes(struct group_entry *entry);
void entry_log_done(struct group_entry *entry);
struct log *entry_log(const struct group_entry *entry);         /* NULL: its topic is gone */
bool entry_keeps(void *arg, const struct offset_entry *e);      /* its topic is there */

/* coordinator_expiry.c */
void coordinator_sweep_init(struct coordinator *co);
/* Drops what has outlived its group, and the group when nothing is left. */
void entry_expire(struct group_entry *entry);

#endif
