/* SPDX-License-Identifier: Apache-2.0
 *
 * What the protocols of `pico bench` share: options, time, figures.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/bench_loop.h"
#include "cli/bench_stats.h"
#include "cli/cli.h"

#define BENCH_REQUEST_MAX (64u << 20)
/* A duration that makes no stall of a slow node: nothing was read for so long. */
#define BENCH_PATIENCE_NS (60u * 1000000000ull)

struct bench_options {
	uint64_t record_size, duration, in_flight, batch, target_mibps, streams, connections, warmup, interval;
	bool no_read, producer, keep, json;
	/* of Kafka alone */
	bool kafka, tail;
	uint64_t partitions, replays;
	const char *bootstrap, *acks, *codec;
	int16_t acks_number;
	unsigned codec_number;
};

/* The time of a run, and what it found. */
struct bench_run {
	const struct bench_options *o;
	uint64_t begun_ns, counted_ns, until_ns, told_ns;
	uint64_t sent_bytes, told_records;
	struct bench_stats write, read;
};

/* SIGINT or SIGTERM came: the run ends early and has its figures. */
bool bench_is_interrupted(void);

/* Producing begins now. */
void bench_begin(struct bench_run *r);
/* Whether a request is due: BENCH_REQUEST, which is counted as sent, BENCH_LATER or BENCH_END. Tells the progress. */
enum bench_next bench_due(struct bench_run *r, uint64_t now_ns);
/* So many connections share --in-flight. */
unsigned bench_depth(const struct bench_options *o);
/* Records that no codec makes smaller: n bytes more, which go on from *seed (not 0). */
void bench_noise(struct buf *b, uint64_t n, uint64_t *seed);
/* CLI_OK after the figures are on stdout, or told that there are none. */
int bench_report(const struct bench_run *r);

/* The protocols: streams are made, used, read back and deleted. An exit code. */
int bench_pico(struct cli *cli, struct bench_run *r);
int bench_kafka(struct bench_run *r);

#endif
