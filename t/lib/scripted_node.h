/* SPDX-License-Identifier: Apache-2.0
 *
 * A node that does what a test says, behind the real peers: it notes every call, answers or parks it. Implements what
 * storaged/peer*.c uses of storaged/node.h.
 */
#ifndef T_LIB_SCRIPTED_NODE_H
#define T_LIB_SCRIPTED_NODE_H

#include <uv.h>

#include "common/env_uv.h"
#include "common/topics.h"
#include "storaged/peer.h"

struct seen {
	enum ipc_type type;
	uint64_t request_id;
	char name[64];                  /* of the topic, where there is one */
	uint8_t *payload;               /* a copy */
	size_t payload_n;
	struct call *call;              /* parked; NULL when answered */
	bool cancelled;
};

struct node {
	struct env *env;
	bool hold[128];                 /* by type: park */
	uint64_t hold_instance;         /* only calls of this worker; 0: of all */
	bool check_copies;              /* payloads: copy, then read the copy twice */
	size_t n_unstable;              /* copies that differed from themselves */
	struct seen *seen;
	size_t n_seen, seen_capacity;
	uint64_t next_offset;           /* of appends */
	uint64_t wal_session, wal_seq;
	/* READ */
	struct segment segment;
	struct pin pin;
	uint32_t piece_offset[8], piece_length[8];
	size_t n_pieces;
	/* RESUME */
	int (*on_resume)(struct node *n, const Ipc__Resume__Sent *sent, uint64_t *ret_base);
	Ipc__Resume__Sent resumed[64];
	size_t n_resumed;
};

void node_init(struct node *n, struct env *env);
void node_done(struct node *n);
/* Answers a parked call as it would have been. */
void node_answer(struct node *n, struct seen *s);
void node_answer_all(struct node *n);
void node_answer_error(struct seen *s, enum pico_error_kind kind);
size_t node_count(const struct node *n, enum ipc_type type);
struct seen *node_seen(struct node *n, enum ipc_type type, size_t index);
size_t node_parked(const struct node *n);
void node_forget(struct node *n);       /* what was seen and answered */

/* One storaged: loop, listener, peers over a scripted node. */
struct place {
	uv_loop_t loop;
	struct env *env;
	char dir[64], path[96];
	int listener;
	struct node node;
	struct peers *peers;            /* NULL: down */
	uint8_t key[32];
	char dropped[16][96];           /* why */
	bool killed[16];
	unsigned n_dropped;
};
void place_open(struct place *p);
void place_close(struct place *p);
void place_up(struct place *p, uint64_t boot_id);
/* Like kill -9: what was parked is forgotten. */
void place_down(struct place *p);
/* Runs the loop until `done` says so; false after ms. */
bool place_run(struct place *p, bool (*done)(void *arg), void *arg, unsigned ms);
void place_run_ms(struct place *p, unsigned ms);
void place_client_config(struct place *p, uint32_t role, uint64_t instance, struct topics_config *ret_config);

/* Three batches of one record as the pieces of the next read, the second one across two pieces; their sizes. */
void node_put_batches(struct node *n, size_t ret_size[3]);

#endif
