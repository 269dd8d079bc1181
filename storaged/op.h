/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the node: what node.c and the handle_*.c files share. An op is a call in progress; it lives from the
 * handler until both its call was answered and nothing in engine or metadata refers to it any more.
 */
#ifndef STORAGED_OP_H
#define STORAGED_OP_H

#include <uthash.h>

#include "storaged/data/id_hash.h"
#include "storaged/engine/engine.h"
#include "storaged/meta/state_fork.h"
#include "storaged/node.h"

#define OP_MAGIC 0x4f504f50u

/* The logs of one topic, those owned here; others are NULL. A topic that is SOFT_DELETED is hidden: nobody but its forks
 * gets at its logs, and one that shows nothing to any fork is gone. */
struct node_topic {
	uint8_t id[16];                         /* first */
	uint8_t *source;                        /* owned: 16 bytes, the topic it was forked from; NULL: no fork */
	bool hidden;
	uint32_t n_logs;
	struct log *log[];
};

enum node_phase { NODE_NEW, NODE_REGISTERING, NODE_RECOVERING, NODE_REPAIRING, NODE_SERVING, NODE_STOPPING, NODE_STOPPED };

struct node {
	struct env *env;
	struct node_config config;
	struct node_events events;
	void *arg;
	struct meta *meta;
	struct engine *engine;
	struct id_hash topics;                  /* struct node_topic; owned */
	struct op *ops;                         /* every op alive */
	struct engine_proposal *proposals;      /* of the engine, under way */
	enum node_phase phase;
	uint64_t session;
	uint64_t repairs;                       /* proposals that must be applied before it serves */
	uint32_t next_partition;                /* for appends that leave the choice to us */
	struct engine_session *ended;
	struct engine_recovery_stats recovery;
	void (*on_stopped)(void *arg);
	void *stop_arg;
	bool flushed;                           /* engine_stop() is through */
	struct coordinator *coordinator;        /* owned */
	struct producer_ids *producer_ids;      /* owned; NULL: nobody asked yet */
	struct watches *watches;                /* owned; NULL: none yet */
	struct { struct kv_watch *first; unsigned n; } kv_watches;      /* calls that are parked */
	struct expiry *expiry;                  /* owned; NULL: no topic expires */
	struct {
		bool by_time, by_size;          /* some topic has a rule that goes by it */
		int64_t shortest_ms;            /* by_time */
	} retention;
	char reason[256], uuid_hex[33];         /* scratch of node_is_ready() and status */
};

struct op {
	uint32_t magic;
	struct node *node;
	struct call *call;                      /* NULL once answered, or when nobody asked */
	struct op *next, **prev;                /* node->ops */
	struct env_timer timer;                 /* the call's deadline; not for appends: the engine has theirs */
	unsigned refs;                          /* engine requests and proposals under way */
	void (*on_deadline)(struct op *op);
	void (*on_cancel)(struct op *op);       /* NULL: cannot be cancelled */
	void (*on_stop)(struct op *op);         /* NULL: a stop waits for it */

	uint8_t topic_id[16];
	uint32_t partition, n_partitions;
	union {
		struct engine_append append;
		struct engine_read read;
		struct engine_wait wait;
	};
	struct engine_append *closes;           /* CLOSE: one a partition */
	uint32_t n_open;                        /* CLOSE: partitions not closed yet */
	uint8_t *initial;                       /* CREATE, FORK: copy of the first batch */
	size_t initial_len;
	bool initial_as_is;                     /* FORK: it holds copies, and keeps their times */
	void *own;                              /* the handler's, freed with the op by free_own */
	void (*free_own)(struct op *op);
	struct op_many *many;                   /* CREATE_MANY: what this is one of */
	struct op_many *owns_many;              /* CREATE_MANY: the whole */
	uint32_t many_index;
};

#define OP_OF(ptr, member) ((struct op *)((char *)(ptr) - offsetof(struct op, member)))

struct op *op_new(struct node *n, struct call *call);
/* Starts the call's deadline timer. */
void op_arm(struct op *op, void (*on_deadline)(struct op *op));
/* One user less; frees the op when it was the last and the call is answered. */
void op_unref(struct op *op);
void op_answer(struct op *op, ProtobufCMessage *answer);
void op_fail(struct op *op, const struct pico_error *error);
/* A change whose outcome nobody knows at the deadline. */
void op_deadline_unknown(struct op *op);
/* The outcome of the one command that a call proposed, from its callback: unknown, refused, or applied and `answer`. One user
 * less. */
void op_applied(struct op *op, const Meta__Result__One *result, void (*answer)(struct op *op));
void op_free(struct op *op);
void op_many_free(struct op_many *m);

/* Answers without an op. */
void call_answer(struct call *c, ProtobufCMessage *answer);
void call_fail(struct call *c, enum pico_error_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* False while the first records of a create are not durable: a crash would take the topic back, so nobody is
 * told of it. */
bool node_topic_is_born(const struct node *n, const struct state_topic *t);
/* It is born, and it did not end by its TTL. */
bool node_topic_is_there(struct node *n, const struct state_topic *t);
/* Resolves a reference; NULL (and the call is answered) when there is no such topic. */
const struct state_topic *node_find_topic(struct node *n, struct call *c, const Ipc__TopicRef *ref);
/* What to say of a topic that is not there: NOT_FOUND, or GONE while forks of it are left. */
void node_no_topic(const struct node *n, const Ipc__TopicRef *ref, struct pico_error *ret_error);
/* The log of a partition here; NULL (and the call is answered) when it is not ours or does not exist. */
struct log *node_find_log(struct node *n, struct call *c, const struct state_topic *t, uint32_t partition);
/* The same without a call: NULL when there is none. */
struct log *node_log(const struct node *n, const struct state_topic *t, uint32_t partition);

/* A Topic message with its partitions, or only the one named. Free with topic_message_free(). */
struct topic_message {
	Ipc__Topic m;
	Ipc__Partition *partition;
	Ipc__Partition **pointer;
	Ipc__ConfigEntry *config;
	Ipc__ConfigEntry **config_pointer;
};
#define ALL_PARTITIONS UINT32_MAX
void topic_message_fill(const struct node *n, const struct state_topic *t, uint32_t partition, struct topic_message *ret);
void topic_message_free(struct topic_message *t);

/* pico_error of a refused command. */
void result_error(const Meta__Result__One *r, struct pico_error *ret_error);

/* A stop is over when everything was flushed and no op is left. */
void node_maybe_stopped(struct node *n);

/* Proposes CloseTopic for a log whose closing frame is confirmed; cb may be NULL. */
int node_propose_close(struct node *n, const uint8_t topic_id[16], uint32_t partition, bool begin, meta_result_cb *cb,
		       void *arg);
/* Puts the closing frame into every log of a `closing` topic again, after a start. */
void node_resume_closing(struct node *n, const struct state_topic *t);

#endif
