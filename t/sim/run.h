/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of the simulator: nodes (each a start of storaged with the same node id) over one bucket and one
 * database, clients that use them as workers do, and a nemesis. What clients see goes into the history.
 *
 *   run.c      the phases: safety, heal, liveness, read-back, audit
 *   nodes.c    starts and deaths of nodes
 *   calls.c    a call on its way to a node and back
 *   load.c     the clients that append; readers.c: those that read, create and delete
 *   audit.c    what stands in logs and bucket at the end
 *   lost.c     the database is lost and built again from the bucket
 *   older.c    a start on an older copy of the database
 *   nemesis.c  what goes wrong besides single operations
 *   aliens.c   objects of nobody
 *   forge.c    WAL objects with frames that their writer did not put
 *   impostor.c rows of another node in the command log
 *   rot.c      objects that are damaged, or missing, for a while
 */
#ifndef T_SIM_RUN_H
#define T_SIM_RUN_H

#include "t/sim/history.h"
#include "t/sim/load.h"
#include "t/sim/sim_check.h"

#define RUN_NODE_ID 1

struct run_options {
	uint64_t seed;
	bool faults;                    /* single-operation faults and the nemesis */
	bool small;                     /* a short load, for crash-at-every-step */
	uint64_t crash_at_step, fail_from_step;
	bool verbose;
};

struct run_result {
	bool good;
	char text[400];                 /* what was found */
	uint64_t hash, steps, events, sim_ms;
	uint64_t safety_steps;          /* I/O steps before the heal: those at which a crash is put */
	uint64_t n_acked, n_read, n_starts;
	uint64_t faults[SIM_FAULT_N];
};

struct run {
	struct run_options options;
	struct run_result *result;
	struct sim sim;
	struct sim_bucket bucket, wal_bucket;
	bool two_buckets;               /* WAL objects have a bucket of their own */
	struct sim_db db, restored, older;
	struct sim_db *database;        /* that nodes start on: db, after it was lost restored */
	struct history history;
	struct sim_node *nodes;         /* newest first */
	struct node_config config;
	struct client clients[RUN_CLIENTS];
	struct run_topic *topics[RUN_TOPICS];
	unsigned n_topics;
	uint64_t next_request;
	uint32_t n_producers;
	bool loading;                   /* clients begin new values */
	bool echoing;                   /* clients send old ones again */
	bool nemesis;
	int64_t ambushed_at;            /* objects removed and merges by then */
	bool healed;
	bool has_impostor;              /* another node writes rows */
	struct {
		uint64_t session, proposal;
		struct object_id last;  /* added and not removed; node 0: none */
	} impostor;
	bool has_aliens;                /* somebody's objects stand beside the node's */
	bool resizes;                   /* each start has another --wal-cache-size */
	bool rots;                      /* objects are damaged for a while */
	bool fat;                       /* large records: the arena gets full */
	bool loses_database;            /* at the end */
	bool rolls_back;                /* an older copy of it is tried */
	bool churn;                     /* packs, merges and deletes all the time */
	bool trims_all;                 /* every topic is trimmed, and often to its end */
	uint64_t ttl_s;                 /* of some temporary topics; 0: of none */
	uint64_t retention_ms;          /* of some topics, whom nobody trims; 0: of none */
	uint64_t newest_session;        /* that ever served */
	bool restart_due;
	bool failed;
};

void run_seed(const struct run_options *o, struct run_result *ret_result);
/* Notes the first fault of the run. */
void run_fault(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Turns until `until` says so or that much time has passed; false then. */
bool run_until(struct run *r, bool (*until)(struct run *r), uint64_t limit_ns);

/* nemesis.c */
void nemesis_begin(struct run *r);
void nemesis_heal(struct run *r);
void nemesis_stop(struct sim_node *n);     /* in order */

/* aliens.c */
void aliens_begin(struct run *r);
bool alien_is(const struct run *r, const char *key);
void aliens_audit(struct run *r);

/* impostor.c */
void impostor_begin(struct run *r);

/* forge.c */
/* One frame more in a WAL object, of another epoch of its log. */
void forge_epoch(struct run *r, struct sim_bucket *b, const char *key);
/* A WAL object's bytes with a frame that cannot be; NULL: it has none that could be changed. The caller's. */
uint8_t *forge_damage(struct sim *s, const struct sim_object *o);

/* rot.c */
void rot_begin(struct run *r);

/* audit.c */
/* Reads every topic and log into the history as the final logs, through the newest node. False: not in time. */
bool audit_read_back(struct run *r, bool final);
void audit_bucket(struct run *r);
struct run_topic;
/* Reads a partition through n, into records of the history. False: not in time. */
bool audit_read_log(struct run *r, struct sim_node *n, const struct run_topic *t, uint32_t partition);

/* older.c: before the read-back. */
void older_database(struct run *r);

/* lost.c: after the final read-back. */
void fsck_buckets(struct run *r);
void lost_database(struct run *r);

#endif
