/* SPDX-License-Identifier: Apache-2.0
 *
 * Which logs the engine has; moved by what is applied.
 */
#ifndef STORAGED_LOGS_H
#define STORAGED_LOGS_H

#include "storaged/op.h"

/* Names the logs of a topic to the engine; those that a known topic has more than before. */
void node_topic_add(struct node *n, const struct state_topic *t);
void node_topic_grow(struct node *n, const struct state_topic *t);
/* A topic was deleted or expired: its logs go, or are hidden as long as forks show them. */
void node_topic_remove(struct node *n, const uint8_t id[16]);
/* The node ends, after its engine. */
void node_topics_free(struct node *n);
/* Logs were trimmed. */
void node_logs_trim(struct node *n, const Meta__TrimMany *m);

/* Nobody is shown offsets of the log below this; UINT64_MAX: none, for ever. */
uint64_t node_log_living(const struct node *n, uint64_t log_id);

#endif
