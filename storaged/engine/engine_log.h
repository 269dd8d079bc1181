/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs that were named to the engine: the part of engine.h that knows where they begin and end. None of it reads the store.
 */
#ifndef STORAGED_ENGINE_ENGINE_LOG_H
#define STORAGED_ENGINE_ENGINE_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct log;                             /* one partition of one topic */

/* The log's topic was deleted: waits end (gone), appends not in the arena are NOT_FOUND, frames go when stored. The
 * pointer is dead for the caller afterwards. */
void engine_log_remove(struct engine *e, struct log *log);
/* The same, but forks read from it: its frames stay until engine_log_remove(). */
void engine_log_hide(struct engine *e, struct log *log);
/* The log begins at start now; a lower one changes nothing. Reads that wait below it are
 * OUT_OF_RANGE. */
void engine_log_trim(struct engine *e, struct log *log, uint64_t start);
/* Its rule of retention is another one now. */
void engine_retention_changed(struct engine *e, uint64_t log_id);
/* The topic is closing or closed: no more appends but closing ones. */
void engine_log_set_closing(struct log *log);

uint64_t log_id(const struct log *log);
uint32_t log_epoch(const struct log *log);
uint64_t log_start(const struct log *log);
uint64_t log_confirm(const struct log *log);
uint64_t log_next(const struct log *log);
int64_t log_last_append_ms(const struct log *log);      /* 0: nothing was appended */
/* Of all batches ever, trimmed ones, too. False: the log is idle, its state would have to be read. */
bool log_appended_bytes(const struct log *log, uint64_t *ret_bytes);
bool log_is_closed(const struct log *log);      /* by a confirmed closing frame, or the metadata */

#endif
