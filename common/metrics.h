/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters in a page of shared memory: the process adds without a lock (one writer), the admin
 * worker reads. The page is made by the supervisor and outlives the process.
 */
#ifndef COMMON_METRICS_H
#define COMMON_METRICS_H

#include "common/buf.h"

#define METRICS_SLOTS 64                /* processes with a page */
#define METRICS_BUCKETS 64              /* of a histogram: 2 an octave from 2 us up */

enum metric {
#define METRIC(id, name, type, labels, help) METRIC_##id,
#define HISTOGRAM(id, name, labels, help)
#include "common/metrics.def"
#undef METRIC
#undef HISTOGRAM
	METRIC_N
};

enum histogram {
#define METRIC(id, name, type, labels, help)
#define HISTOGRAM(id, name, labels, help) HISTOGRAM_##id,
#include "common/metrics.def"
#undef METRIC
#undef HISTOGRAM
	HISTOGRAM_N
};

/* The page's layout. */
struct metrics_page {
	uint64_t magic;
	uint64_t value[METRIC_N];
	struct {
		uint64_t count, sum_ns;
		uint64_t bucket[METRICS_BUCKETS];
	} histogram[HISTOGRAM_N];
};

/* Where this process counts; a private page until metrics_use(). Never NULL. */
extern struct metrics_page *metrics;

void metrics_use(struct metrics_page *page);

static inline void metric_add(enum metric m, int64_t n)
{
	__atomic_store_n(&metrics->value[m], metrics->value[m] + (uint64_t)n, __ATOMIC_RELAXED);
}
static inline void metric_set(enum metric m, uint64_t v)
{
	__atomic_store_n(&metrics->value[m], v, __ATOMIC_RELAXED);
}
void histogram_observe(enum histogram h, uint64_t ns);

/* Sets every gauge of a page to 0: what its process held ended with it. Counters and histograms stay. */
void metrics_reset_gauges(struct metrics_page *page);

/* Prometheus text (format 0.0.4) of n pages, each with its `process="KIND"` label (NULL page: left out); those
 * of one kind are added up. */
void metrics_print(struct buf *out, const struct metrics_page *const *pages, const char *const *kinds, size_t n);

#endif
