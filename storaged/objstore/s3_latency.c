/* SPDX-License-Identifier: Apache-2.0
 *
 * The last first-byte times of reads and their 95th percentile. Second reads are at most a tenth of all, so that a
 * store that is slow as a whole is not asked twice as much.
 */
#include "storaged/objstore/s3_latency.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLES_MIN 20u
#define SLOW_FACTOR 4u
#define SLOW_MIN_MS 50u
#define BUDGET_MAX 100u

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

void s3_latency_sample(struct s3_latency *l, uint64_t ns)
{
	uint64_t us = ns / 1000;
	l->sample_us[l->n++ % S3_SAMPLES] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
	if (l->n < SAMPLES_MIN || l->n % 16 != 0)
		return;
	uint32_t sorted[S3_SAMPLES];
	size_t n = l->n < S3_SAMPLES ? (size_t)l->n : S3_SAMPLES;
	memcpy(sorted, l->sample_us, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare_u32);
	l->p95_us = sorted[n * 95 / 100] + 1u;
}

uint64_t s3_latency_slow_ms(const struct s3_latency *l)
{
	uint64_t ms = l->p95_us * SLOW_FACTOR / 1000;
	if (l->p95_us == 0)
		return 0;
	return ms > SLOW_MIN_MS ? ms : SLOW_MIN_MS;
}

void s3_latency_earn(struct s3_latency *l)
{
	if (l->budget < BUDGET_MAX)
		l->budget++;
}

bool s3_latency_spend(struct s3_latency *l)
{
	if (l->budget < 10)
		return false;
	l->budget -= 10;
	return true;
}
