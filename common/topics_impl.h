/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to common/topics*.c: the client's parts.
 *
 *   topics_call  what a facade holds: callback, deadline
 *   op           one request on the wire; several calls may listen to it
 *
 * An op is QUEUED (in one of the two queues), SENT (its frame is in this connection's output), or RETURNED (the
 * connection was lost under it; what becomes of it is decided at the next Hello, see topics_conn.c).
 */
#ifndef COMMON_TOPICS_IMPL_H
#define COMMON_TOPICS_IMPL_H

#include <uthash.h>

#include "common/must.h"
#include "common/topics.h"
#include "common/topics_inbox.h"
#include "common/topics_pieces.h"

enum topics_magic { TOPICS_MAGIC = 0x63706f74, OP_MAGIC = 0x706f7074, CALL_MAGIC = 0x6c637074 };
#define TOPICS_OUT_SOFT (1u << 20)          /* unsent: no more is encoded */
#define TOPICS_MESSAGES_MAX (4u << 20)      /* encoded messages outstanding, without payload */
#define TOPICS_PARKED_MAX (24u << 20)       /* the same of GROUP_JOIN and GROUP_SYNC */

enum op_state { OP_QUEUED, OP_SENT, OP_RETURNED };
enum op_queue { QUEUE_READS, QUEUE_CHANGES, QUEUES };

struct op {
	uint32_t magic;
	enum op_state state;
	struct topics *topics;
	const struct ipc_row *row;
	uint64_t id;
	uint64_t deadline_ms;               /* the latest of its calls' */
	uint8_t *message;                   /* encoded, without deadline and payload; also the key of sharing */
	size_t message_len;
	struct slice payload;               /* in `heap` or in `inbox` */
	uint8_t *heap;
	struct topics_inbox *inbox;
	uint64_t inbox_offset;
	size_t credit;                      /* spent on this connection */
	uint64_t out_end;                   /* SENT: stream position behind its frame */
	uint64_t wal_session, wal_seq;      /* last heard when it was sent */
	uint64_t sent_boot;                 /* of the storaged it was sent to */
	int64_t wait_from;                  /* WAIT that is shareable */
	bool producer;                      /* append or submit that may be sent twice */
	bool by_id;                         /* names its topic by id */
	bool in_doubt;                      /* a change that storaged may have got and not answered */
	bool asked;                         /* RETURNED: in the Resume that is on its way */
	bool finishing;
	bool shareable, shared;             /* may be; is, in its table */
	struct topics_call *calls;          /* list; empty: nobody listens any more */
	UT_hash_handle hh;                  /* topics->ops by id, in order of id */
	UT_hash_handle hh_shared;           /* topics->shared_* by message */
	struct op **list;                   /* a queue, &failing, or NULL */
	struct op *prev, *next;
};

struct topics_call {
	uint32_t magic;
	struct topics *topics;
	struct op *op;                      /* NULL: refused, waits for its callback */
	topics_cb *cb;
	void *arg;
	uint64_t deadline_ms;
	bool graced;
	enum pico_error_kind refusal;
	struct env_timer timer;
	struct topics_call *prev, *next;
};

enum conn_state { CONN_NONE, CONN_HELLO, CONN_READY };
struct topics_edge;

struct topics {
	uint32_t magic;
	struct env *env;
	struct topics_config config;
	struct env_task turn;
	bool turn_queued, freed, closing, was_full;
	void (*on_room)(void *arg);
	void *on_room_arg;
	void (*on_reclaim)(void *arg, struct topics_pieces *pieces);
	void *on_reclaim_arg;

	/* connection */
	struct topics_edge *edge;           /* NULL: none */
	enum conn_state conn;
	uint64_t generation;                /* connections so far */
	uint64_t ready_ms;                  /* when Hello was answered */
	struct env_timer retry;
	uint64_t backoff_ms;
	uint64_t stuck_at;                  /* stream position behind the last turn */
	bool lost;                          /* found in a turn: lose it */
	struct ipc_reader reader;
	struct ipc_out out;
	uint64_t boot_id, wal_session, wal_seq;
	uint64_t resume_id;                 /* 0: no Resume on its way */
	struct topics_inbox *inbox;
	uint64_t credit, credit_used;
	size_t n_sent, messages_sent, parked_sent;  /* ops and bytes outstanding */

	/* calls */
	uint64_t next_id;
	struct op *ops, *shared_reads, *shared_waits;
	struct op *queue[QUEUES];
	struct op *failing;                 /* to be answered DURABILITY */
	struct topics_call *refused;
	size_t n_calls;
	size_t payload_bytes;

	/* memory */
	struct topics_segment *segments;
	struct topics_ref *refs;
	struct pieces_box *reclaimed;
	uint64_t *release;                  /* to be told */
	size_t n_release, release_capacity;
};

/* topics.c */
void topics_wants_turn(struct topics *t);
bool op_is_change(const struct op *op);
void op_move(struct op *op, struct op **to);
/* Answers every listener and frees the op. ref may be NULL. */
void op_finish(struct op *op, const struct pico_error *e, const ProtobufCMessage *answer, struct topics_ref *ref);
void op_fail(struct op *op, enum pico_error_kind kind, const char *text);
void op_free(struct op *op);
/* Takes back what the op spent on a connection. */
void op_unsend(struct op *op);

/* topics_send.c */
void topics_pump(struct topics *t);
void op_cancel(struct op *op);
/* Payload into the inbox if that is possible now, else into memory. */
void op_keep_payload(struct op *op, struct topics_payload payload, size_t n, bool is_first);
void op_drop_payload(struct op *op);

/* topics_conn.c */
void topics_conn_start(struct topics *t);
void topics_conn_input(struct topics *t);   /* works off the frames that have come; may set t->lost */
void topics_conn_lost(struct topics *t);

/* topics_uv.c */
int topics_edge_open(struct topics *t);
void topics_edge_close(struct topics *t);
int topics_edge_send(struct topics *t);
void topics_edge_watch(struct topics *t);

#endif
