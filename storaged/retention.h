/* SPDX-License-Identifier: Apache-2.0
 *
 * How long topics keep their records: their configs, and the node's options where they have none. The engine asks
 * (engine.h, engine_events); it does the cutting.
 */
#ifndef STORAGED_RETENTION_H
#define STORAGED_RETENTION_H

#include "storaged/op.h"

/* A topic is new here. */
void node_retention_note(struct node *n, const struct state_topic *t);
/* Its settings are others now. */
void node_retention_changed(struct node *n, const struct state_topic *t);

/* Of struct engine_events; arg is the node. */
bool on_engine_retention(void *arg, uint64_t log_id, struct engine_retention *ret_rule);
int64_t on_engine_retention_shortest(void *arg, bool *ret_by_size);
void on_engine_trim(void *arg, const struct engine_trim *trims, size_t n_trims, engine_proposed_cb *done, void *done_arg);

#endif
