/* SPDX-License-Identifier: Apache-2.0
 *
 * One Topics call inside storaged, from the peer that decoded it to the handler and back. Made and
 * owned by the peer (or the simulator); lives until on_answer returns.
 */
#ifndef STORAGED_CALL_H
#define STORAGED_CALL_H

#include "common/ipc.h"
#include "storaged/segment.h"

struct call {
	const struct ipc_row *row;
	const ProtobufCMessage *request;    /* of row->request */
	/* The batch. It may stand in memory that a worker changes under our eyes: copy first, check the copy, and read
	 * no byte of it twice. Valid until the answer. */
	struct slice payload;
	uint64_t worker_instance;
	uint64_t peer;                      /* the connection it came over, unique in this process */
	uint64_t request_id;
	uint64_t deadline_ms;
	bool admin;                         /* the peer's role may call admin rows */

	/* Called once by the handler, at once or later. error is NULL or says why; answer and error are
	 * borrowed. READ, FETCH: pieces/n_pieces are set before; their pins go to the receiver. */
	void (*on_answer)(struct call *call, const struct pico_error *error, ProtobufCMessage *answer);
	void *owner;

	struct piece *pieces;               /* heap; the receiver frees it */
	size_t n_pieces;

	void *handler;                      /* private to the handler: its state while the call is parked */
};

#endif
