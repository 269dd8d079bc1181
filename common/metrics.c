/* SPDX-License-Identifier: Apache-2.0
 *
 * Bucket i of a histogram ends at 2 us << i/2 (even i) or 3 us << i/2 (odd i); the last one has no end.
 * Pages of the same kind are added up when they are printed: a kind is one series.
 */
#include "common/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct metrics_page private_page;
struct metrics_page *metrics = &private_page;

void metrics_use(struct metrics_page *page)
{
	metrics = page;
}

static uint64_t bucket_us(unsigned i)
{
	return (uint64_t)(i % 2 == 0 ? 2 : 3) << (i / 2);
}

static unsigned bucket_of(uint64_t ns)
{
	uint64_t us = ns / 1000 + (ns % 1000 != 0);
	if (us <= 2)
		return 0;
	uint64_t x = us - 1;
	unsigned octave = 63u - (unsigned)__builtin_clzll(x);
	unsigned i = 2 * (octave - 1) + ((x >> (octave - 1)) & 1) + 1;
	return i < METRICS_BUCKETS ? i : METRICS_BUCKETS - 1;
}

static void cell_add(uint64_t *cell, uint64_t n)
{
	__atomic_store_n(cell, *cell + n, __ATOMIC_RELAXED);
}

void histogram_observe(enum histogram h, uint64_t ns)
{
	cell_add(&metrics->histogram[h].bucket[bucket_of(ns)], 1);
	cell_add(&metrics->histogram[h].sum_ns, ns);
	cell_add(&metrics->histogram[h].count, 1);
}

static const struct {
	const char *name, *type, *labels, *help;
} metric_rows[] = {
#define COUNTER "counter"
#define GAUGE "gauge"
#define METRIC(id, name, type, labels, help) { name, type, labels, help },
#define HISTOGRAM(id, name, labels, help)
#include "common/metrics.def"
#undef METRIC
#undef HISTOGRAM
}, histogram_rows[] = {
#define METRIC(id, name, type, labels, help)
#define HISTOGRAM(id, name, labels, help) { name, "histogram", labels, help },
#include "common/metrics.def"
#undef METRIC
#undef HISTOGRAM
};

void metrics_reset_gauges(struct metrics_page *page)
{
	for (unsigned m = 0; m < METRIC_N; m++) {
		if (strcmp(metric_rows[m].type, "gauge") == 0)
			__atomic_store_n(&page->value[m], 0, __ATOMIC_RELAXED);
	}
}

/* The pages to print and which of them stand for a kind: the first of each. */
struct pages {
	const struct metrics_page *const *page;
	const char *const *kind;
	size_t n;
};

static bool is_first(const struct pages *p, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (p->page[k] != NULL && strcmp(p->kind[k], p->kind[i]) == 0)
			return false;
	}
	return p->page[i] != NULL;
}

/* The sum over all pages of kind[i] of the cell that stands `offset` bytes into a page. */
static uint64_t sum_at(const struct pages *p, size_t i, size_t offset)
{
	uint64_t sum = 0;
	for (size_t k = i; k < p->n; k++) {
		if (p->page[k] != NULL && strcmp(p->kind[k], p->kind[i]) == 0)
			sum += __atomic_load_n((const uint64_t *)(const void *)((const char *)p->page[k] + offset),
					       __ATOMIC_RELAXED);
	}
	return sum;
}

static void print_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_labels(struct buf *out, const char *kind, const char *labels, const char *more)
{
	buf_printf(out, "{process=\"%s\"%s%s%s} ", kind, labels[0] != '\0' ? "," : "", labels, more);
}

static void print_metric(struct buf *out, const struct pages *p, unsigned m)
{
	for (size_t i = 0; i < p->n; i++) {
		if (!is_first(p, i))
			continue;
		uint64_t value = sum_at(p, i, offsetof(struct metrics_page, value) + m * sizeof(uint64_t));
		buf_put_str(out, metric_rows[m].name);
		print_labels(out, p->kind[i], metric_rows[m].labels, "");
		buf_printf(out, "%" PRIi64 "\n", (int64_t)value);
	}
}

static void print_seconds(struct buf *out, uint64_t ns)
{
	buf_printf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

/* One kind's histogram. _count is the last bucket, so that the lines agree while the process goes on. */
static void print_histogram(struct buf *out, const struct pages *p, size_t i, unsigned h)
{
	size_t base = offsetof(struct metrics_page, histogram) + h * sizeof(metrics->histogram[0]);
	size_t buckets = base + offsetof(__typeof__(metrics->histogram[0]), bucket);
	uint64_t sum_ns = sum_at(p, i, base + offsetof(__typeof__(metrics->histogram[0]), sum_ns));
	const char *name = histogram_rows[h].name, *labels = histogram_rows[h].labels;
	uint64_t total = 0;
	for (unsigned b = 0; b < METRICS_BUCKETS; b++) {
		char le[48] = ",le=\"+Inf\"";
		uint64_t us = bucket_us(b);
		if (b < METRICS_BUCKETS - 1)
			snprintf(le, sizeof(le), ",le=\"%" PRIu64 ".%06" PRIu64 "\"", us / 1000000, us % 1000000);
		total += sum_at(p, i, buckets + b * sizeof(uint64_t));
		buf_printf(out, "%s_bucket", name);
		print_labels(out, p->kind[i], labels, le);
		buf_printf(out, "%" PRIu64 "\n", total);
	}
	buf_printf(out, "%s_sum", name);
	print_labels(out, p->kind[i], labels, "");
	print_seconds(out, sum_ns);
	buf_printf(out, "\n%s_count", name);
	print_labels(out, p->kind[i], labels, "");
	buf_printf(out, "%" PRIu64 "\n", total);
}

void metrics_print(struct buf *out, const struct metrics_page *const *pages, const char *const *kinds, size_t n)
{
	struct pages p = { pages, kinds, n };
	for (unsigned m = 0; m < METRIC_N; m++) {
		if (m == 0 || strcmp(metric_rows[m].name, metric_rows[m - 1].name) != 0)
			print_head(out, metric_rows[m].name, metric_rows[m].type, metric_rows[m].help);
		print_metric(out, &p, m);
	}
	for (unsigned h = 0; h < HISTOGRAM_N; h++) {
		if (h == 0 || strcmp(histogram_rows[h].name, histogram_rows[h - 1].name) != 0)
			print_head(out, histogram_rows[h].name, "histogram", histogram_rows[h].help);
		for (size_t i = 0; i < n; i++) {
			if (is_first(&p, i))
				print_histogram(out, &p, i, h);
		}
	}
}
