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
 *   nemesis.c  what goes wrong besides single operations
 */
#ifndef T_SIM_RUN_H
#define T_SIM_RUN_H

#include "storaged/node.h"
#include "t/sim/history.h"
#include "t/sim/sim_check.h"
#include "t/sim/sim_sql.h"
#include "t/sim/sim_store.h"

#define RUN_NODE_ID 1
#define RUN_CLIENTS 14
#define RUN_TOPICS 64
#define RUN_PARTITIONS 3

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
	uint64_t session;               /* once it serves */
};

struct run_topic {
	uint8_t id[16];
	char name[24];
	uint32_t index;                 /* in the history */
	uint32_t n_partitions;
	uint32_t log[RUN_PARTITIONS];   /* in the history */
	bool ended[RUN_PARTITIONS];     /* closed or deleted, or about to be: little use to write there */
	bool temporary;                 /* may be deleted */
	bool delete_sent;
};

/* A batch that a client wants in a log. */
struct value {
	uint32_t number;
	struct run_topic *topic;
	uint32_t partition;
	uint32_t n_records, attempts;
	uint8_t *payload;
	size_t size;
	bool has_producer, closes, check_only, has_match, has_stream_seq;
	uint64_t epoch, seq, match, stream_seq;
	uint32_t producer;
	enum { VALUE_NEW, VALUE_SENT, VALUE_AGAIN, VALUE_ASK, VALUE_DONE } state;   /* ASK: by Resume */
	struct sim_node *sent_to;
	uint64_t request_id, wal_session, wal_seq;  /* of the last attempt, for Resume */
	uint32_t hist;                  /* of the last attempt */
	struct value *next;             /* of one client, in the order of sending */
};

enum client_kind { CLIENT_PLAIN, CLIENT_PRODUCER, CLIENT_MATCH, CLIENT_STREAM, CLIENT_CONSUMER, CLIENT_ADMIN, CLIENT_KINDS };

struct client {
	struct run *run;
	enum client_kind kind;
	uint32_t index;
	uint64_t instance;              /* of its worker */
	uint32_t stream;                /* raised when its connection breaks */
	struct sim_node *node;          /* connected to */
	uint64_t session;               /* newest it has seen; it never goes back to an older one */
	struct run_topic *topic;        /* works on */
	uint32_t partition;
	struct value *values;           /* in flight, in order */
	unsigned n_values, pipeline;
	bool busy;                      /* a call that is not a value is under way */
	bool woken;                     /* a turn is due */
	uint64_t epoch, seq;            /* producer */
	uint32_t producer;
	uint64_t next;                  /* match, stream: what it believes; consumer: position */
	bool known;                     /* next is */
	uint64_t n_done;
	struct value *last;             /* last acknowledged, to send again; owned */
	uint32_t probe_hist;            /* of the call under way */
};

struct run {
	struct run_options options;
	struct run_result *result;
	struct sim sim;
	struct sim_bucket bucket, wal_bucket;
	bool two_buckets;               /* WAL objects have a bucket of their own */
	struct sim_db db;
	struct history history;
	struct sim_node *nodes;         /* newest first */
	struct node_config config;
	struct client clients[RUN_CLIENTS];
	struct run_topic *topics[RUN_TOPICS];
	unsigned n_topics;
	uint64_t next_request;
	uint32_t n_producers;
	uint32_t n_names;
	bool loading;                   /* clients begin new values */
	bool nemesis;
	bool healed;
	uint64_t newest_session;        /* that ever served */
	bool restart_due;
	bool failed;
};

void run_seed(const struct run_options *o, struct run_result *ret_result);
/* Notes the first fault of the run. */
void run_fault(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Turns until `until` says so or that much time has passed; false then. */
bool run_until(struct run *r, bool (*until)(struct run *r), uint64_t limit_ns);

/* ---------------------------------------------------------------------- nodes.c */

struct sim_node *node_begin(struct run *r);
/* A start comes by itself when the newest node is dead. */
void nodes_keep_up(struct run *r);
struct sim_node *nodes_serving(struct run *r);      /* has the newest session and serves; NULL */
/* Where clients go: the newest start; once faults have ended the newest session. */
struct sim_node *nodes_best(struct run *r);
/* One serves, and none is on its way that could end its session. */
bool nodes_are_settled(struct run *r);
void nodes_done(struct run *r);

/* ---------------------------------------------------------------------- calls.c */

/* on_result runs once, in the world: error NULL and answer, or error, or lost (neither: nobody knows). */
typedef void call_result_fn(struct sim_call *c, const struct pico_error *error, ProtobufCMessage *answer);

struct sim_call {
	struct call call;
	struct sim_call *next, **prev;  /* node->calls until it is answered */
	struct sim_node *node;
	struct client *client;
	uint32_t hist;
	uint64_t timeout_ms;
	ProtobufCMessage *request;
	uint8_t *payload;
	call_result_fn *on_result;
	struct value *value;
	bool delivered;                 /* the node has it */
	struct sim_event *give_up;
	bool told;                      /* on_result is on its way or has run */
	unsigned refs;                  /* the node's until it answers or dies, the client's until it is told */
	bool refused;
	struct pico_error error;
	ProtobufCMessage *answer;
	uint8_t *bytes;                 /* of a read */
	size_t n_bytes;
};

/* request and payload are copied. hist: the op of the history that it is an attempt of, or HIST_NONE. */
struct sim_call *call_send(struct client *c, struct sim_node *n, enum ipc_type type, ProtobufCMessage *request,
			   struct slice payload, uint64_t timeout_ms, uint32_t hist, call_result_fn *on_result);
/* Whether a call that the node took is not answered. */
bool calls_are_open(const struct sim_node *n);
bool calls_wait(const struct sim_node *n);  /* a wait is not */
/* The node died: its calls are lost. */
void calls_lost(struct sim_node *n);
void held_forget(struct sim_node *n);
void held_check_gone(struct sim_node *n, const struct segment *s);
/* Puts the records of a read's bytes into the history; those below `from` are left out. */
void records_seen(struct run *r, uint32_t hist, struct slice bytes, uint64_t from);

/* ----------------------------------------------------------------------- load.c */

void load_begin(struct run *r);
void client_wake(struct client *c, uint64_t delay_ns);
bool load_is_quiet(struct run *r);  /* every value has an end */
void load_done(struct run *r);
/* A batch of its own number with that many records; not sent, not in any list. */
struct value *value_new(struct client *c, struct run_topic *t, uint32_t partition, uint32_t n_records);
void value_free(struct value *v);
/* An op of the history for one more attempt of v. */
uint32_t value_attempt(struct client *c, struct value *v);
/* A topic and partition that can be written to; false when there is none. */
bool topic_choose(struct client *c, bool writable);
bool client_has_node(struct client *c);
uint64_t client_pause(struct client *c);

/* -------------------------------------------------------------------- readers.c */

void consumer_turn(struct client *c);
void admin_turn(struct client *c);
/* A topic that an answer named; known or made. */
struct run_topic *topic_learn(struct run *r, const Ipc__Topic *t);
struct run_topic *topic_by_id(struct run *r, const ProtobufCBinaryData *id);
void topic_ref(Ipc__TopicRef *ref, const struct run_topic *t);

/* -------------------------------------------------------------------- nemesis.c */

void nemesis_begin(struct run *r);
void nemesis_heal(struct run *r);
void nemesis_stop(struct sim_node *n);     /* in order */

/* ---------------------------------------------------------------------- audit.c */

/* Reads every topic and log into the history as the final logs, through the newest node. False: not in time. */
bool audit_read_back(struct run *r, bool final);
void audit_bucket(struct run *r);

#endif
