/* SPDX-License-Identifier: Apache-2.0
 *
 * A duration below 64 ns has a bucket of its own; above, each power of two is cut into 64. A percentile is the upper end of
 * its bucket, so it is never told too small.
 */
#include "cli/bench_stats.h"

#include <inttypes.h>

static unsigned bucket_of(uint64_t ns)
{
	if (ns < 64)
		return (unsigned)ns;
	unsigned shift = 57 - (unsigned)__builtin_clzll(ns); /* ns >> shift is 64..127 */
	return 64 * shift + (unsigned)(ns >> shift);
}

static uint64_t bucket_end(unsigned bucket)
{
	if (bucket < 128)
		return bucket;
	unsigned shift = bucket / 64 - 1;
	return ((uint64_t)(bucket % 64 + 64 + 1) << shift) - 1;
}

void bench_stats_add(struct bench_stats *s, uint64_t started_ns, uint64_t took_ns, uint64_t records, uint64_t bytes)
{
	if (s->requests == 0 || started_ns < s->first_ns)
		s->first_ns = started_ns;
	if (started_ns + took_ns > s->last_ns)
		s->last_ns = started_ns + took_ns;
	if (took_ns > s->max_ns)
		s->max_ns = took_ns;
	s->requests++;
	s->records += records;
	s->bytes += bytes;
	s->bucket[bucket_of(took_ns)]++;
}

double bench_stats_ms(const struct bench_stats *s, unsigned per_mille)
{
	uint64_t seen = 0, rank = (s->requests * per_mille + 999) / 1000;
	for (unsigned i = 0; i < BENCH_BUCKETS; i++) {
		seen += s->bucket[i];
		if (seen >= rank && seen > 0)
			return (double)(bucket_end(i) < s->max_ns ? bucket_end(i) : s->max_ns) / 1e6;
	}
	return 0;
}

double bench_stats_seconds(const struct bench_stats *s)
{
	return s->last_ns > s->first_ns ? (double)(s->last_ns - s->first_ns) / 1e9 : 0;
}

static double per_second(const struct bench_stats *s, double n)
{
	double seconds = bench_stats_seconds(s);
	return seconds > 0 ? n / seconds : 0;
}

void bench_stats_json(const struct bench_stats *s, struct buf *out)
{
	if (s->requests == 0) {
		buf_put_str(out, "null");
		return;
	}
	buf_printf(out, "{\"mib_per_sec\":%.3f,\"records_per_sec\":%.1f,\"bytes\":%" PRIu64 ",\"records\":%" PRIu64
		   ",\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f}",
		   per_second(s, (double)s->bytes) / 1048576, per_second(s, (double)s->records), s->bytes, s->records,
		   bench_stats_ms(s, 500), bench_stats_ms(s, 900), bench_stats_ms(s, 990), bench_stats_ms(s, 999),
		   (double)s->max_ns / 1e6);
}

void bench_stats_text(const struct bench_stats *s, const char *what, const char *timed, struct buf *out)
{
	buf_printf(out, "%s: %.1f MiB/s, %.0f records/s, %" PRIu64 " records in %.2f s; %s took ms: p50 %.2f"
		   "  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f\n", what, per_second(s, (double)s->bytes) / 1048576,
		   per_second(s, (double)s->records), s->records, bench_stats_seconds(s), timed, bench_stats_ms(s, 500),
		   bench_stats_ms(s, 900), bench_stats_ms(s, 990), bench_stats_ms(s, 999), (double)s->max_ns / 1e6);
}
