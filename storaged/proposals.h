/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's proposals to the metadata; see engine.h, engine_events.
 */
#ifndef STORAGED_PROPOSALS_H
#define STORAGED_PROPOSALS_H

#include "storaged/op.h"

void node_propose_commit(struct node *n, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg);
/* remove: marked objects that are gone from the store. */
void node_propose_deleted(struct node *n, const struct engine_commit *c, engine_proposed_cb *done, void *done_arg);
void node_propose_trims(struct node *n, const struct engine_trim *trims, size_t n_trims, engine_proposed_cb *done,
			void *done_arg);
void node_propose_recovered(struct node *n, uint64_t session, uint64_t cut, engine_proposed_cb *done, void *done_arg);
/* Before the node is freed and when its metadata answers no more. */
void node_forget_proposals(struct node *n);

#endif
