/* SPDX-License-Identifier: Apache-2.0
 *
 * How long reads wait for their first byte, and when a second one beside a slow one is worth its price.
 */
#ifndef STORAGED_OBJSTORE_S3_LATENCY_H
#define STORAGED_OBJSTORE_S3_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define S3_SAMPLES 128

/* Zero-initialised. */
struct s3_latency {
	uint32_t sample_us[S3_SAMPLES];
	uint64_t n;
	uint64_t p95_us;                /* 0: too few samples */
	uint32_t budget;                /* tenths of a second request, at most ten whole ones */
};

void s3_latency_sample(struct s3_latency *l, uint64_t ns);
/* Milliseconds after which a read is slow: four times the 95th percentile, at least 50. 0: not known. */
uint64_t s3_latency_slow_ms(const struct s3_latency *l);
/* Each read earns a tenth of a second one; true spends a whole one. */
void s3_latency_earn(struct s3_latency *l);
bool s3_latency_spend(struct s3_latency *l);

#endif
