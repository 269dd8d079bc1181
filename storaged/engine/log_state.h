/* SPDX-License-Identifier: Apache-2.0
 *
 * Between what the engine keeps of a log (struct log_state) and the state entry that stands in a data object
 * (frame.State, doc/disk-format.md).
 */
#ifndef STORAGED_ENGINE_LOG_STATE_H
#define STORAGED_ENGINE_LOG_STATE_H

#include "common/buf.h"
#include "proto/frame.pb-c.h"
#include "storaged/engine/log.h"

/*
 * Encodes the packed state as the log's next entry: complete when its producers take at most bounds.state_complete
 * bytes, when DATA_STATE_INCOMPLETE_MAX entries in a row were not, or when it is the first of its epoch; else only with
 * the producers that wrote from offset `since` on, the log's end when the entry before was written. A producer is
 * named with its whole window, and not when it was idle for too long. card: what is told of its topic. Counts the entry.
 */
void log_state_encode(struct log *log, uint64_t since, struct slice card, struct buf *ret_entry);

/* A fresh state from an entry that was decoded and folded: everything in it is durable. epoch: the log's present one. */
void log_state_load(struct log_state *s, const Frame__State *entry, uint32_t epoch);

#endif
