/* SPDX-License-Identifier: Apache-2.0
 *
 * The clients of a run, what they want in the logs, and the topics they know.
 */
#ifndef T_SIM_LOAD_H
#define T_SIM_LOAD_H

#include "t/sim/calls.h"

#define RUN_CLIENTS 16
#define RUN_TOPICS 96
#define RUN_PARTITIONS 3
#define CLIENT_ECHOES 4

struct run_topic {
	uint8_t id[16];
	char name[24];
	uint32_t index;                 /* in the history */
	uint32_t n_partitions;
	uint32_t log[RUN_PARTITIONS];   /* in the history */
	bool ended[RUN_PARTITIONS];     /* closed or deleted, or about to be: little use to write there */
	bool temporary;                 /* may be deleted */
	bool trimmed;                   /* a trim was sent, or what is old is cut */
	bool ages;                      /* the latter */
	bool ends;                      /* by its TTL */
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
	bool once;                      /* a wrong number on purpose: a later value may carry it rightly */
	bool echo;                      /* acknowledged long ago, and sent again */
	uint64_t epoch, seq, match, stream_seq;
	uint32_t producer;
	enum { VALUE_NEW, VALUE_SENT, VALUE_AGAIN, VALUE_ASK, VALUE_DONE } state;   /* ASK: by Resume */
	struct sim_node *sent_to;
	uint64_t request_id, wal_session, wal_seq;  /* of the last attempt, for Resume */
	uint32_t hist;                  /* of the last attempt */
	struct value *next;             /* of one client, in the order of sending */
};

enum client_kind { CLIENT_PLAIN, CLIENT_PRODUCER, CLIENT_MATCH, CLIENT_STREAM, CLIENT_CONSUMER, CLIENT_ADMIN, CLIENT_KAFKA,
		   CLIENT_KINDS };

struct client {
	struct run *run;
	enum client_kind kind;
	uint32_t index;
	uint64_t instance;              /* of its worker */
	uint32_t stream;                /* raised when its connection breaks */
	struct sim_node *node;          /* connected to */
	uint64_t session;               /* newest it has seen; it never goes back to an older one */
	bool doubts;                    /* that is new: its last answer may have been lost on the way */
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
	struct value *echoes[CLIENT_ECHOES];    /* the same of producers that it was before; owned */
	unsigned n_echoes;
	uint32_t probe_hist;            /* of the call under way */
	struct run_topic *forked;       /* by the call under way */
};

void load_begin(struct run *r);
void client_wake(struct client *c, uint64_t delay_ns);
bool load_is_quiet(struct run *r);  /* every value has an end */
/* Every producer that was sends its last acknowledged value once more; until load_is_echoed(). */
void load_echo(struct run *r);
bool load_is_echoed(struct run *r);
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

/* forks.c */
void fork_topic(struct client *c, struct run_topic *t);
/* What an answer says of whose fork a topic is. */
void topic_learn_fork(struct run *r, struct run_topic *t, const Ipc__Topic *m);

void consumer_turn(struct client *c);
void admin_turn(struct client *c);
/* A topic that an answer named; known or made. */
struct run_topic *topic_learn(struct run *r, const Ipc__Topic *t);
struct run_topic *topic_by_id(struct run *r, const ProtobufCBinaryData *id);
void topic_ref(Ipc__TopicRef *ref, const struct run_topic *t);

#endif
