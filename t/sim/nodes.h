/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts of storaged in a run: each a process of its own with the same node id.
 */
#ifndef T_SIM_NODES_H
#define T_SIM_NODES_H

#include "storaged/node.h"
#include "t/sim/sim_sql.h"
#include "t/sim/sim_store.h"

struct run;
struct sim_call;

/* One start of storaged. Memory lives until the run ends. */
struct sim_node {
	struct run *run;
	struct sim_node *next;          /* older ones */
	struct sim_proc *proc;
	struct node *node;              /* NULL when dead */
	struct objstore *store, *wal_store;     /* may be the same */
	struct sql_log *sql;
	struct sim_call *calls;         /* not answered */
	struct held *held;              /* pieces of read answers */
	bool serving, stopping;
	bool leaving;                   /* it has said that it cannot go on */
	uint64_t session;               /* once it serves */
};

struct sim_node *node_begin(struct run *r);
/* A start comes by itself when the newest node is dead. */
void nodes_keep_up(struct run *r);
struct sim_node *nodes_serving(struct run *r);      /* has the newest session and serves; NULL */
/* Where clients go: the newest start; once faults have ended the newest session. */
struct sim_node *nodes_best(struct run *r);
/* One serves, and none is on its way that could end its session. */
bool nodes_are_settled(struct run *r);
/* Every process dies now, and is gone when this returns. False: not in time. */
bool nodes_kill_all(struct run *r, const char *why);
void nodes_done(struct run *r);

#endif
