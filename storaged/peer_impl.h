/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to storaged/peer*.c: one connected worker.
 *
 * Life: peer_new() -> Hello -> calls -> doomed (end of stream or a broken rule; nothing is read any more) -> closed at the
 * end of the turn (references released, calls cancelled) -> freed when the last call was answered and the handle is closed.
 * The inbox lives as long: a call's payload may stand in it.
 */
#ifndef STORAGED_PEER_IMPL_H
#define STORAGED_PEER_IMPL_H

#include <stddef.h>
#include <stdint.h>

/* Request ids are the worker's choice: its numbers must not meet in one bucket on purpose. */
uint32_t peer_hash(const void *key, size_t n);
#define HASH_FUNCTION(key, n, hashv) ((hashv) = peer_hash((key), (n)))
#include <uthash.h>
#include <uv.h>

#include "storaged/peer.h"
#include "storaged/peer_inbox.h"

enum peer_magic { PEER_MAGIC = 0x72656570, PEER_CALL_MAGIC = 0x6c6c6163 };

struct peer_call {
	struct call call;
	uint32_t magic;
	struct peer *peer;
	ProtobufCMessage *request;          /* owned */
	uint8_t *inline_payload;            /* owned, NULL when in the inbox */
	uint64_t inbox_offset;
	size_t credit;                      /* payload bytes */
	size_t memory;                      /* of request */
	bool in_inbox;
	UT_hash_handle hh;                  /* peer->calls by call.request_id */
	struct peer_call **list;            /* &peer->waiting, &peer->open, or NULL: being cancelled with the peer */
	struct peer_call *prev, *next;
};
struct peer_ref {
	uint64_t id;
	uint64_t given_ms;
	uint64_t reclaimed_ms;              /* 0: not yet */
	struct piece *pieces;               /* owned, with one count of each pin */
	size_t n_pieces;
	UT_hash_handle hh;                  /* peer->refs by id, in order of given_ms */
};
/* A segment that was announced to a peer. */
struct peer_segment {
	uint32_t id;
	UT_hash_handle hh;
};

struct peer {
	uint32_t magic;
	struct peers *peers;
	struct peer *prev, *next;

	/* edge (peer_sock.c) */
	uv_poll_t *poll;                    /* NULL when closed */
	int sock;
	int pidfd;                          /* -1: none */
	pid_t pid;
	int watching;                       /* uv_poll events */

	struct ipc_reader reader;
	struct ipc_out out;
	struct env_task turn;               /* sends, or closes */
	bool turn_queued;
	bool doomed, closed, killed;
	const char *doom;                   /* NULL: it hung up */

	uint64_t number;                    /* unique in this process; call.peer */
	uint32_t role;
	uint64_t instance;
	struct env_segment inbox;
	struct inbox_ranges ranges;
	size_t credit_used, memory_used;
	struct peer_call *calls;            /* hash: all */
	struct peer_call *waiting;          /* list: for the node to serve; oldest first */
	struct peer_call *open;             /* list: the node has them */
	size_t n_calls;
	struct peer_ref *refs;
	struct peer_segment *segments;
	uint64_t wal_session, wal_seq;      /* as told */
};

struct peers {
	struct env *env;
	struct node *node;
	struct peers_config config;
	struct peers_events events;
	void *arg;
	struct peer *all;
	struct grave *graves;               /* what dropped ones may still look at */
	size_t n_peers;                     /* not closed */
	uv_poll_t *listener;
	uint64_t next_ref, last_number;
	uint64_t wal_session, wal_seq;
	bool serving;
	bool accept_paused;
	struct env_timer tick;              /* old references, WAL position */
};

/* peer.c */
struct peer *peer_new(struct peers *p, int sock);
/* The peer is dropped at the end of this turn; why is a literal, NULL when it hung up. */
void peer_doom(struct peer *peer, const char *why);
/* Something is queued to be sent at the end of this turn. */
void peer_wants_turn(struct peer *peer);
/* Works off the frames that have come. */
void peer_input(struct peer *peer);
/* Closed, no call left, no task queued: frees it. */
void peer_free_if_unused(struct peer *peer);
bool peer_is_full(const struct peer *peer);
void peer_write(struct peer *peer, enum ipc_type type, const ProtobufCMessage *m);
void peer_tell_wal_position(struct peer *peer);
void peers_tick_within(struct peers *p, uint64_t ms);

/* peer_calls.c */
int peer_on_call(struct peer *peer, struct ipc_frame *f);
int peer_on_cancel(struct peer *peer, struct ipc_frame *f);
void peer_serve(struct peer *peer);
/* Every call: forgotten if the node has not got it, else cancelled. */
void peer_cancel_all(struct peer *peer);
/* The node is gone: nothing will be answered. */
void peer_forget_all(struct peer *peer);

/* peer_refs.c */
void pieces_drop(struct piece *pieces, size_t n);
/* Takes the pieces over and announces their segments; 0 and an id, or -ENOBUFS (too many references; released). */
int peer_ref_give(struct peer *peer, struct piece *pieces, size_t n, uint64_t *ret_id);
int peer_ref_release(struct peer *peer, uint64_t id);
int peer_on_release(struct peer *peer, struct ipc_frame *f);
void peer_refs_release_all(struct peer *peer);
void peer_reclaim(struct peer *peer, uint32_t segment);
void peer_segment_gone(struct peer *peer, uint32_t segment);
/* Reclaims what is held too long, dooms and kills who does not give it back. True: references are left. */
bool peer_refs_tick(struct peer *peer, uint64_t now_ms);

/* peer_sock.c */
int peer_sock_open(struct peer *peer);
void peer_sock_close(struct peer *peer);
/* Sends what the socket takes and watches for what it does not. */
void peer_sock_flush(struct peer *peer);
void peer_sock_watch(struct peer *peer);
void peer_sock_kill(struct peer *peer);
void peers_accept_again(struct peers *p);   /* it stopped when descriptors were out */
void peers_unlisten(struct peers *p);
#endif
