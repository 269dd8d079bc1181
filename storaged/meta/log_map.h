/* SPDX-License-Identifier: Apache-2.0
 *
 * Topics by log id, in 8 bytes a log: pages of pointers, because log ids come from a counter.
 */
#ifndef STORAGED_META_LOG_MAP_H
#define STORAGED_META_LOG_MAP_H

#include <stddef.h>
#include <stdint.h>

struct state_topic;

struct log_page;

struct log_map {
	struct log_page **page;         /* owned; NULL: no log of it is left */
	size_t n_pages;
};

void log_map_done(struct log_map *x);
struct state_topic *log_map_find(const struct log_map *x, uint64_t log_id);
/* The first log with id > after; NULL: none. */
struct state_topic *log_map_next(const struct log_map *x, uint64_t after, uint64_t *ret_log_id);
/* The log has no topic yet; log_id < LOG_ID_MAX. */
void log_map_add(struct log_map *x, uint64_t log_id, struct state_topic *t);
/* The log has one. */
void log_map_remove(struct log_map *x, uint64_t log_id);

/* A bound for what a broken snapshot may say; never reached by counting. */
#define LOG_ID_MAX (UINT64_C(1) << 36)

#endif
