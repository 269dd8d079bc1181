/* SPDX-License-Identifier: Apache-2.0
 *
 * The consumer groups of a node: each is a state machine and a table of offsets (storaged/group/) with a log,
 * /_sys/groups/<hex of its id>, a timer and calls around them.
 *
 *   no entry ---> CREATING ---> LOADING ---> READY ---> DELETING ---> no entry
 *                 first join     log is read            topic is being deleted
 *                 or commit          |
 *                                  FAILED: the log says what this release does not understand
 *
 * A call of a group that is not READY waits in its entry, but not for long. What changes a group's log goes through one queue
 * of records; one batch of them is under way at a time, and what it says takes effect when it is durable. Nothing is told
 * of offsets that a crash could take back.
 */
#ifndef STORAGED_COORDINATOR_H
#define STORAGED_COORDINATOR_H

#include "storaged/group/offsets.h"
#include "storaged/op.h"

#define GROUP_ID_MAX 249                /* its hex is part of a path of at most 512 bytes */
#define GROUPS_PREFIX "/_sys/groups/"
#define GROUP_NAME_SIZE (sizeof(GROUPS_PREFIX) + 2 * GROUP_ID_MAX)

enum entry_state { ENTRY_CREATING, ENTRY_LOADING, ENTRY_READY, ENTRY_FAILED, ENTRY_DELETING };

struct group_entry;

/* A call of a group: op->own of its op. */
struct group_call {
	struct op *op;
	struct group_entry *entry;      /* where it waits for READY, or whose group has it parked; NULL: neither */
	bool waits;
	/* entry NULL: there is no such group. Answers, or has it answered later. */
	void (*run)(struct op *op, struct group_entry *entry);
	struct group_call *prev, *next;         /* entry->waiting */
	Ipc__GroupError *part;          /* owned: the errors of a commit's parts */
	size_t n_parts;
};

/* A record on its way into the log. */
struct group_write {
	struct op *op;                  /* answered by done when it is durable; NULL: nobody waits */
	void (*done)(struct op *op, const struct pico_error *error);
	struct slice value;             /* owned */
	struct group_write *next;
};

struct group_entry {
	UT_hash_handle hh;              /* coordinator->entries, by id */
	struct coordinator *coordinator;
	struct slice id;                /* owned */
	enum entry_state state;
	bool gone;                      /* no entry of the coordinator any more: free it when nothing is under way */
	bool creating, deleting;        /* proposals under way */
	uint8_t topic_id[16];
	struct group *group;            /* READY, DELETING */
	struct offsets offsets;
	int64_t empty_since_ms;         /* stamp time; EMPTY only */
	struct group_call *waiting;
	struct env_timer timer;         /* READY: the group's deadline; else: waiting calls are answered */

	struct engine_read read;
	bool reading, read_turns;       /* read_turns: load_go() is on the stack */
	struct env_timer retry;

	struct group_write *queue, **queue_tail;        /* not submitted yet */
	struct group_write *in_flight;
	size_t queue_bytes;
	struct engine_append append;
	struct buf batch;
	bool writing, dirty;            /* dirty: in coordinator->dirty */
	struct group_entry *next_dirty;
	int32_t generation_written;     /* of the last record of a rebalance */
	uint64_t n_records, n_bytes;    /* in the log since the last snapshot began */
	bool snapshotting, snapshot_past, snapshot_begun;       /* past: its record is written */
	bool snapshot_ends;             /* with the batch under way */
	struct offset_key snapshot_after;
	uint64_t snapshot_at;           /* offset of its first batch */
	uint64_t trim_to;               /* 0: nothing to trim */
	uint64_t trim_after_ms;
};

/* handle_group.c */
void handle_group_join(struct node *n, struct call *c);
void handle_group_sync(struct node *n, struct call *c);
void handle_group_heartbeat(struct node *n, struct call *c);
void handle_group_leave(struct node *n, struct call *c);
void handle_group_commit(struct node *n, struct call *c);
void handle_group_offset_fetch(struct node *n, struct call *c);
void handle_group_describe(struct node *n, struct call *c);
void handle_group_list(struct node *n, struct call *c);
void handle_group_delete(struct node *n, struct call *c);
void handle_group_offset_delete(struct node *n, struct call *c);

/* coordinator.c. Made with the node, freed behind the engine. */
struct coordinator *coordinator_new(struct node *n);
void coordinator_free(struct coordinator *co);
/* The node serves; it stops: groups stand still, and what they have parked is not theirs any more. */
void coordinator_start(struct coordinator *co);
void coordinator_stop(struct coordinator *co);
/* A topic is gone, perhaps a group's. */
void coordinator_topic_gone(struct coordinator *co, const uint8_t topic_id[16]);
/* The name of a group's topic. */
void group_name(struct slice id, char ret_name[static GROUP_NAME_SIZE]);
/* In order of ids: the next group's topic behind a topic's name, and the group's id; begin with GROUPS_PREFIX. */
const struct state_topic *coordinator_next(const struct coordinator *co, const char *after, uint8_t ret_id[static GROUP_ID_MAX],
					   size_t *ret_n);
/* NULL: not in memory. */
struct group_entry *coordinator_find(const struct coordinator *co, struct slice id);

/* Runs the call when its group is READY; with `create` a group that is not there is made. The deadline is armed. */
void group_call_start(struct node *n, struct call *c, ProtobufCBinaryData id, bool create,
		      void (*run)(struct op *op, struct group_entry *entry));
/* An answer with that GroupError and nothing else. */
void group_call_refuse(struct op *op, Ipc__GroupError error);
/* After each event of entry->group: answers, the record of a rebalance, the timer. */
void group_entry_after(struct group_entry *entry);
/* Deletes the topic of a group without members. -EAGAIN: too many proposals; else `run` is called, without an entry when
 * the group is gone. */
int group_entry_delete(struct group_entry *entry);
void group_call_await_delete(struct op *op, struct group_entry *entry, void (*run)(struct op *op, struct group_entry *entry));
int64_t group_entry_stamp_ms(const struct group_entry *entry);

/* coordinator_log.c */
/* Takes the value; op (may be NULL) gets a ref until done, which is called when the record is durable or never will be. */
void entry_write(struct group_entry *entry, struct slice value, struct op *op,
		 void (*done)(struct op *op, const struct pico_error *error));
/* False: so much waits to be written that n bytes more must not. */
bool entry_may_write(const struct group_entry *entry, size_t n);
/* The longest value. */
size_t entry_record_max(const struct group_entry *entry);

/* handle_group.c: answers a call that the group had parked. */
void group_call_answer(struct group_entry *entry, const struct group_answer *a);

#endif
