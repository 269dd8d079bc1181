/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of a run of `pico bench`, its records and its report.
 */
#include "cli/bench.h"

#include <inttypes.h>
#include <stdio.h>

void bench_begin(struct bench_run *r)
{
	r->begun_ns = r->told_ns = bench_now_ns();
	r->counted_ns = r->begun_ns + r->o->warmup * 1000000000u;
	r->until_ns = r->counted_ns + r->o->duration * 1000000000u;
}

static void tell_progress(struct bench_run *r, uint64_t now)
{
	double seconds = (double)(now - r->told_ns) / 1e9;
	if (r->o->json || r->o->interval == 0 || seconds < (double)r->o->interval)
		return;
	fprintf(stderr, "%3.0f s  %.0f records/s%s\n", (double)(now - r->begun_ns) / 1e9,
		(double)(r->write.records - r->told_records) / seconds, now < r->counted_ns ? "  (warm-up)" : "");
	r->told_ns = now;
	r->told_records = r->write.records;
}

enum bench_next bench_due(struct bench_run *r, uint64_t now_ns)
{
	tell_progress(r, now_ns);
	if (now_ns >= r->until_ns || bench_is_interrupted())
		return BENCH_END;
	double due = (double)r->o->target_mibps * 1048576 * (double)(now_ns - r->begun_ns) / 1e9;
	if (r->o->target_mibps > 0 && (double)r->sent_bytes > due)
		return BENCH_LATER;
	r->sent_bytes += r->o->batch * r->o->record_size;
	return BENCH_REQUEST;
}

unsigned bench_depth(const struct bench_options *o)
{
	return (unsigned)((o->in_flight + o->connections - 1) / o->connections);
}

void bench_noise(struct buf *b, uint64_t n, uint64_t *seed)
{
	uint64_t x = *seed;
	for (; n > 0; n -= n < 8 ? n : 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		buf_put(b, &x, n < 8 ? n : 8);
	}
	*seed = x;
}

/* --------------------------------------------------------------------- report */

static void put_options(const struct bench_options *o, struct buf *out)
{
	buf_printf(out, "{\"protocol\":\"%s\",\"record_size\":%" PRIu64 ",\"batch\":%" PRIu64 ",\"in_flight\":%" PRIu64
		   ",\"streams\":%" PRIu64 ",\"connections\":%" PRIu64, o->kafka ? "kafka" : "pico", o->record_size,
		   o->batch, o->in_flight, o->streams, o->connections);
	if (o->kafka)
		buf_printf(out, ",\"partitions\":%" PRIu64 ",\"acks\":\"%s\",\"codec\":\"%s\",\"tail\":%s", o->partitions, o->acks,
			   o->codec, o->tail ? "true" : "false");
}

static void put_json(const struct bench_run *r, struct buf *out)
{
	put_options(r->o, out);
	buf_printf(out, ",\"elapsed_sec\":%.3f,\"write\":", bench_stats_seconds(&r->write));
	bench_stats_json(&r->write, out);
	buf_put_str(out, ",\"read\":");
	bench_stats_json(&r->read, out);
	buf_put_str(out, "}\n");
}

static void put_text(const struct bench_run *r, struct buf *out)
{
	bench_stats_text(&r->write, "write", "a request", out);
	if (r->o->tail)
		bench_stats_text(&r->read, "tail ", "a batch, from producer to consumer,", out);
	else if (!r->o->no_read)
		bench_stats_text(&r->read, "read ", "a request", out);
}

int bench_report(const struct bench_run *r)
{
	struct buf out;
	if (r->write.requests == 0)
		return cli_fail(CLI_FAILED, "no append was answered in that time");
	buf_init(&out, 8192);
	if (r->o->json)
		put_json(r, &out);
	else
		put_text(r, &out);
	fwrite(buf_head(&out), 1, buf_len(&out), stdout);
	buf_done(&out);
	return CLI_OK;
}
