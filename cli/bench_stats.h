/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations of requests for `pico bench`, in constant memory: buckets that are at most 1/64 wide of what they hold.
 */
#ifndef CLI_BENCH_STATS_H
#define CLI_BENCH_STATS_H

#include "common/buf.h"

#define BENCH_BUCKETS (64 * 59)

struct bench_stats {
	uint64_t requests, records, bytes;
	uint64_t first_ns, last_ns;     /* the first request's start, the last answer */
	uint64_t max_ns;
	uint64_t bucket[BENCH_BUCKETS];
};

void bench_stats_add(struct bench_stats *s, uint64_t started_ns, uint64_t took_ns, uint64_t records, uint64_t bytes);
/* The duration that `per_mille` of all requests did not exceed, in milliseconds; never over the longest. */
double bench_stats_ms(const struct bench_stats *s, unsigned per_mille);
double bench_stats_seconds(const struct bench_stats *s);
/* The object of JSON output; null without a request. */
void bench_stats_json(const struct bench_stats *s, struct buf *out);
/* One line for people; `timed` is what took the time. */
void bench_stats_text(const struct bench_stats *s, const char *what, const char *timed, struct buf *out);

#endif
