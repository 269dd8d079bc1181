/* SPDX-License-Identifier: Apache-2.0
 *
 * A node in the simulated world, without chance: a regression test says what happens when, and asks calls
 * one by one.
 */
#ifndef T_REGRESS_SCENE_H
#define T_REGRESS_SCENE_H

#include "storaged/node.h"
#include "t/sim/sim_sql.h"
#include "t/sim/sim_store.h"

struct scene {
	struct sim sim;
	struct sim_bucket bucket;
	struct sim_db db;
	struct sim_proc *proc;
	struct objstore *store;
	struct sql_log *sql;
	struct node *node;              /* NULL when dead */
	bool serving;
	uint64_t n_asked;
};

struct asked {
	struct call call;
	bool done;
	struct pico_error error;
	ProtobufCMessage *answer;       /* a copy */
};

void scene_begin(struct scene *s);
void scene_end(struct scene *s);
/* Starts a node and waits until it serves. */
void scene_start(struct scene *s);
void scene_kill(struct scene *s);
void scene_run(struct scene *s, uint64_t ms);

/* request and payload stay the caller's and must live until it is done. */
void scene_ask(struct scene *s, struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload,
	       uint64_t timeout_ms);
/* The same, and waits for the answer. */
void scene_ask_and_wait(struct scene *s, struct asked *a, enum ipc_type type, ProtobufCMessage *request,
			struct slice payload);
void asked_done(struct asked *a);

#endif
