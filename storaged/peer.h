/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers connected to storaged (doc/ipc.md). A worker counts as taken over by its client: whatever it says is
 * bounded and checked here before the node hears of it; at the first broken rule it is dropped, and all it held is
 * released.
 */
#ifndef STORAGED_PEER_H
#define STORAGED_PEER_H

#include <sys/types.h>

#include "storaged/node.h"

#define PEERS_MAX 256                       /* connections */
#define PEER_CALLS_MAX 65536                /* outstanding, a peer */
#define PEER_CALLS_MEMORY_MAX (128u << 20)  /* decoded requests outstanding, a peer */
#define PEER_REFS_MAX 65536                 /* references held, a peer */
#define PEER_OUT_SOFT (1u << 20)            /* unsent: nothing more is read from the peer */
#define PEER_OUT_MAX (32u << 20)            /* unsent: the peer is dropped */
#define PEER_REF_MS 2000                    /* how long a reference may be held before it is reclaimed */
#define PEER_RECLAIM_MS 5000                /* and after that, before the worker is killed */
#define PEER_WAL_POSITION_MS 1000

struct peers;

struct peers_config {
	uint8_t key[32];                    /* of the proofs */
	uid_t uid;                          /* who may connect */
	uint64_t boot_id;                   /* of this process: random, not 0 */
	uint32_t max_message_size;          /* told to workers */
};

struct peers_events {
	/* A worker broke a rule and was dropped (killed: and killed); one line to log. May be NULL. */
	void (*on_dropped)(void *arg, pid_t pid, bool killed, const char *why);
};

/* env is the real one (common/env_uv.h); node is borrowed and must outlive the calls: node_free() comes first. */
void peers_new(struct env *env, struct node *node, const struct peers_config *config,
	       const struct peers_events *events, void *arg, struct peers **ret_peers);

/* Every peer is closed after one last try to send what is queued; calls without an answer are forgotten. The loop
 * must run once more to close the handles. */
void peers_free(struct peers *p);

/* Sends now what the sockets take, instead of at the end of the turn: before an exit. */
void peers_flush(struct peers *p);

/* Accepts on a listening Unix socket (borrowed, made non-blocking). Workers get their Hello answered at once. */
int peers_listen(struct peers *p, int listener);

/* The node serves: calls that have waited are given to it in order, later ones at once. Before, only NODE_STATUS is. */
void peers_serve(struct peers *p);

/* A connected socket, as if it had been accepted; closed by the peer. -EPERM: the wrong uid; -EMFILE: too many. */
int peers_add(struct peers *p, int sock);

/* What node_events says, to be passed on. */
void peers_on_reclaim(struct peers *p, struct segment *segment);
void peers_on_segment_gone(struct peers *p, struct segment *segment);
void peers_on_cut(struct peers *p);
void peers_on_wal_position(struct peers *p, uint64_t session, uint64_t seq);

struct peers_count {
	size_t peers, calls, refs;
};
struct peers_count peers_count(const struct peers *p);

#endif
