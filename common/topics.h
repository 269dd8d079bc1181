/* SPDX-License-Identifier: Apache-2.0
 *
 * The Topics API as a facade sees it: calls over IPC to storaged. Requests and answers are the
 * messages of proto/topics.proto. One struct topics a worker process; it connects, says Hello,
 * reconnects when storaged restarts, and keeps every call's promise:
 *
 *   - a call's callback runs exactly once, from the loop, never from inside topics_call();
 *   - over a restart of storaged: calls not sent yet, reads, fetches, waits, appends with a producer and
 *     submits whose batches all have one are sent again in their first order; an append without producer is asked about (Resume)
 *     and answered STORED, sent again, or DURABILITY; nothing else changes for the caller;
 *   - at its deadline it is answered UNAVAILABLE if nothing can have happened, else DURABILITY;
 *   - waits at the same (log, from) are one wait; equal reads share one answer when the second comes
 *     before the first has left for storaged (later, it might miss what was acknowledged between).
 *
 * Bounds: TOPICS_CALLS_MAX calls; payload bytes by storaged's credit. Where a call does not fit it
 * waits inside; topics_is_full() tells a facade to stop reading its sockets.
 */
#ifndef COMMON_TOPICS_H
#define COMMON_TOPICS_H

#include "common/env.h"
#include "common/ipc.h"

#define TOPICS_CALLS_MAX 65536
#define TOPICS_PAYLOAD_MAX (64u << 20)  /* bytes of payload in open calls; over it: THROTTLED */
#define TOPICS_GRACE_MS 500             /* after its deadline, for an answer that is on the way */

struct topics;
struct topics_call;

struct topics_config {
	const char *socket_path;        /* borrowed for the life of topics; any length */
	uint32_t role;                  /* enum ipc_role */
	uint64_t instance;
	uint8_t proof[32];
};

/* What an answer's pieces are, mapped. Valid until topics_pieces_release(). */
struct topics_pieces {
	struct topics *topics;
	uint64_t ref;
	struct slice *piece;            /* n_pieces runs of bytes that follow each other */
	size_t n_pieces;
	void *impl;                     /* private */
	void *owner;                    /* the receiver's own; NULL at first */
};

/*
 * error.kind is PICO_OK or says why. answer (NULL on error) is valid inside the callback only.
 * pieces (READ and FETCH only, else NULL) stay until released; shared reads each get their own.
 */
typedef void topics_cb(void *arg, const struct pico_error *error, const ProtobufCMessage *answer,
		       struct topics_pieces *pieces);

/* Connects in the background and for ever. 0 or a negative errno. */
int topics_new(struct env *env, const struct topics_config *config, struct topics **ret_topics);
/*
 * Every open call is answered UNAVAILABLE first. Pieces are released before. Not from inside a callback. The loop
 * must run once more to close the handles.
 */
void topics_free(struct topics *t);

/*
 * Starts a call. `request` is copied (encoded) before it returns; `payload` (APPEND, CREATE, FORK, SUBMIT) too: inline
 * under IPC_INLINE_MAX, else into the inbox; the request's Payload message is filled in here.
 * deadline_ms is CLOCK_BOOTTIME. Never fails: trouble comes through the callback.
 */
struct topics_call *topics_call(struct topics *t, enum ipc_type type, ProtobufCMessage *request,
				struct slice payload, uint64_t deadline_ms, topics_cb *cb, void *arg);
/* The same with a payload of several runs, one behind the other: gathered once, where they have to stand. */
struct topics_payload {
	const struct slice *run;
	size_t n_runs;
};
struct topics_call *topics_callv(struct topics *t, enum ipc_type type, ProtobufCMessage *request,
				 struct topics_payload payload, uint64_t deadline_ms, topics_cb *cb, void *arg);

/*
 * The caller is gone: the callback will not run. A wait or a read is cancelled; an append or a change
 * already sent goes on without a listener.
 */
void topics_abandon(struct topics_call *call);

/* From now on the call is another one's: its callback runs instead. */
void topics_hand_over(struct topics_call *call, topics_cb *cb, void *arg);

void topics_pieces_release(struct topics_pieces *pieces);

/*
 * Storaged needs the memory behind these pieces (at the latest 2 s after they were given): release them at once, after
 * copying a bounded part of what is still to be sent, and read the rest again later. A worker that keeps them for
 * 5 s more is killed. on_reclaim may release. Once a piece.
 */
void topics_on_reclaim(struct topics *t, void (*on_reclaim)(void *arg, struct topics_pieces *pieces), void *arg);

/*
 * Batches out of pieces, one contiguous run each: `cursor` copies only a batch that spans pieces.
 * 1 and a batch (valid until the next call), 0 at the end, -EBADMSG.
 */
struct batch_cursor {
	const struct topics_pieces *pieces;
	size_t piece, offset;
	struct buf joined;
};
void batch_cursor_init(struct batch_cursor *c, const struct topics_pieces *pieces);
void batch_cursor_done(struct batch_cursor *c);
int batch_cursor_next(struct batch_cursor *c, struct slice *ret_batch);

/* Credit or calls are used up: stop reading client sockets; on_room is called when that is over. */
bool topics_is_full(const struct topics *t);
void topics_on_room(struct topics *t, void (*on_room)(void *arg), void *arg);

/* While this stays the same, nothing that was read has been trimmed or deleted since. Never what it was before. */
uint64_t topics_cuts(const struct topics *t);

bool topics_is_connected(const struct topics *t);

#endif
