/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole node on mem:// and sqlite::memory: in a test, and calls to it as a worker's peer makes them.
 */
#ifndef T_UNIT_NODE_WORLD_H
#define T_UNIT_NODE_WORLD_H

#include "common/buf.h"
#include "storaged/node.h"

extern struct env *env;
extern struct node *node;
extern uint64_t next_request;           /* id of the last call */
extern unsigned n_cuts;                 /* on_cut so far */
extern uint64_t next_peer;              /* the connection of calls */
extern struct node_groups world_groups; /* of the next node_up() */
extern uint32_t world_max_message_size;

/* What all of a test's nodes stand on. */
struct objstore *world_store(void);
/* For cmocka's groups: the node serves. */
int world_set_up(void **state);
int world_tear_down(void **state);
/* What nodes are started with from now on, where it is not the default; NULL: nothing. */
extern void (*world_config)(struct node_config *c);
/* Starts a node on the same stores, after node_down(). */
void node_up(void);
/* Ends the node as a crash would; no call that writes is under way. */
void node_down(void);
/* Between node_down() and node_up(): another database. */
void world_database(const char *path);
/* Turns the loop until it is true; fails after 20 s. */
void run_until(const bool *done);
/* Turns the loop for so long, or until it is true: which it returns. */
bool run_for(const bool *done, uint64_t ms);

/* One call: zero-initialised by ask_start(). */
struct asked {
	struct call call;
	bool done;
	struct pico_error error;
	ProtobufCMessage *answer;       /* a copy */
	struct piece *pieces;
	size_t n_pieces;
};

/* The request stays the caller's until `done`. */
void ask_start(struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload, uint64_t ms);
/* The same, and waits for the answer. Follow with asked_done(). */
void ask(struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload);
void asked_done(struct asked *a);
/* Asks and expects that error, with words. */
void refuse(enum ipc_type type, ProtobufCMessage *request, struct slice payload, enum pico_error_kind kind);

/* A batch of n records with that value; b is initialised here and done by the caller. */
struct slice batch(struct buf *b, unsigned n, const char *word);
/* Creates a text/plain topic; asked_done(a) frees the result. */
Ipc__Topic *create(struct asked *a, const char *name, uint32_t partitions);

struct log_name {
	Ipc__TopicRef topic;
	Ipc__LogRef log;
};
Ipc__LogRef *log_ref(struct log_name *n, const char *name, uint32_t partition);

/* n records to partition 0; r may carry further fields. Returns the base offset. */
uint64_t append_with(Ipc__AppendRequest *r, const char *name, unsigned n);
uint64_t append(const char *name, unsigned n);
/* ret_error may be NULL. */
void append_refused(Ipc__AppendRequest *r, const char *name, unsigned n, enum pico_error_kind kind,
		    struct pico_error *ret_error);
Ipc__OffsetsAnswer offsets(const char *name, uint32_t partition);

#endif
