/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico bench`: appends for some seconds to streams of its own, reads everything back, deletes them. A run in which
 * one request failed, or whose records are not all there afterwards, has no figures.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench_http.h"
#include "cli/bench_stats.h"
#include "cli/cli.h"
#include "common/must.h"
#include "common/wire.h"

#define REQUEST_BYTES_MAX (64u << 20)
#define READ_BYTES (1u << 20)

struct bench_options {
	uint64_t record_size, duration, in_flight, batch, target_mibps, streams, connections, warmup, interval;
	bool no_read, producer, keep, json;
};

struct bench {
	struct cli *cli;
	struct bench_options o;
	char prefix[64];                /* of the streams' names */
	unsigned made;                  /* streams that exist */
	struct buf body;                /* of every append */
	uint64_t *seq;                  /* next of each (connection, stream), for producers */
	unsigned *turn;                 /* which of its streams a connection takes next */
	uint64_t *position, *acked;     /* of each stream: read up to, and records acknowledged */
	bool *reading, *ended;          /* of each stream */
	uint64_t begun_ns, counted_ns, until_ns, told_ns;
	uint64_t sent_bytes, told_records;
	struct bench_stats write, read;
	int code;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	interrupted = 1;
}

static void put_u32(struct buf *b, uint32_t v)
{
	uint8_t bytes[4];
	put_be32(bytes, v);
	buf_put(b, bytes, sizeof(bytes));
}

/* Binary batch of records that no codec makes smaller. */
static void make_body(struct bench *b)
{
	uint64_t x = 0x9e3779b97f4a7c15u;
	buf_init(&b->body, REQUEST_BYTES_MAX + 1024);
	buf_put_u8(&b->body, 1);
	put_u32(&b->body, (uint32_t)b->o.batch);
	for (uint64_t i = 0; i < b->o.batch; i++) {
		put_u32(&b->body, UINT32_MAX); /* no key, no headers */
		put_u32(&b->body, 0);
		put_u32(&b->body, (uint32_t)b->o.record_size);
		for (uint64_t n = b->o.record_size; n > 0; n -= n < 8 ? n : 8) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			buf_put(&b->body, &x, n < 8 ? n : 8);
		}
	}
	must(!b->body.failed);
}

/* A request that failed ends the run. */
static bool is_good(struct bench *b, const char *what, unsigned stream, const struct bench_answer *a)
{
	if (a->status == 200)
		return true;
	b->code = cli_fail(CLI_FAILED, "%s%u: %s was answered %u; this run has no figures", b->prefix, stream, what, a->status);
	return false;
}

/* --------------------------------------------------------------------- append */

static void tell_progress(struct bench *b, uint64_t now)
{
	double seconds = (double)(now - b->told_ns) / 1e9;
	if (b->o.json || b->o.interval == 0 || seconds < (double)b->o.interval)
		return;
	fprintf(stderr, "%3.0f s  %.0f records/s%s\n", (double)(now - b->begun_ns) / 1e9,
		(double)(b->write.records - b->told_records) / seconds, now < b->counted_ns ? "  (warm-up)" : "");
	b->told_ns = now;
	b->told_records = b->write.records;
}

static enum bench_next next_append(void *arg, unsigned connection, struct buf *out, uint32_t *ret_number)
{
	struct bench *b = arg;
	uint64_t now = bench_now_ns();
	tell_progress(b, now);
	if (now >= b->until_ns || interrupted)
		return BENCH_END;
	double due = (double)b->o.target_mibps * 1048576 * (double)(now - b->begun_ns) / 1e9;
	if (b->o.target_mibps > 0 && (double)b->sent_bytes > due)
		return BENCH_LATER;
	unsigned n = (unsigned)b->o.streams, stream = (connection + b->turn[connection]) % n;
	b->turn[connection] += (unsigned)b->o.connections < n ? (unsigned)b->o.connections : n;
	if (b->turn[connection] >= n)
		b->turn[connection] = 0;
	buf_printf(out, "POST %s%u HTTP/1.1\r\nHost: bench\r\nContent-Type: application/vnd.picomq.batch\r\n"
		   "Content-Length: %zu\r\n", b->prefix, stream, buf_len(&b->body));
	if (b->o.producer)
		buf_printf(out, "Pico-Producer-Id: bench-%u\r\nPico-Producer-Epoch: 0\r\nPico-Producer-Seq: %" PRIu64 "\r\n",
			   connection, b->seq[connection * n + stream]++);
	buf_put_str(out, "\r\n");
	buf_put_slice(out, buf_slice(&b->body));
	b->sent_bytes += b->o.batch * b->o.record_size;
	*ret_number = stream;
	return BENCH_REQUEST;
}

static bool on_appended(void *arg, unsigned connection, uint32_t stream, const struct bench_answer *a)
{
	struct bench *b = arg;
	if (!is_good(b, "an append", stream, a))
		return false;
	b->acked[stream] += b->o.batch;
	if (a->started_ns >= b->counted_ns)
		bench_stats_add(&b->write, a->started_ns, a->took_ns, b->o.batch, b->o.batch * b->o.record_size);
	return true;
}

static int bench_write(struct bench *b, struct bench_load *load)
{
	b->begun_ns = b->told_ns = bench_now_ns();
	b->counted_ns = b->begun_ns + b->o.warmup * 1000000000u;
	b->until_ns = b->counted_ns + b->o.duration * 1000000000u;
	load->depth = (unsigned)((b->o.in_flight + b->o.connections - 1) / b->o.connections);
	load->next = next_append;
	load->on_answer = on_appended;
	int code = bench_run(load);
	return code != CLI_OK ? code : b->code;
}

/* ----------------------------------------------------------------------- read */

static enum bench_next next_read(void *arg, unsigned connection, struct buf *out, uint32_t *ret_number)
{
	struct bench *b = arg;
	bool all_ended = true;
	for (uint32_t s = connection; s < b->o.streams; s += (unsigned)b->o.connections) {
		all_ended &= b->ended[s];
		if (b->ended[s] || b->reading[s])
			continue;
		b->reading[s] = true;
		buf_printf(out, "GET %s%u?seq=%" PRIu64 "&format=raw&bytes=%u HTTP/1.1\r\nHost: bench\r\n\r\n", b->prefix, s,
			   b->position[s], READ_BYTES);
		*ret_number = s;
		return BENCH_REQUEST;
	}
	return all_ended || interrupted ? BENCH_END : BENCH_LATER;
}

static bool on_read(void *arg, unsigned connection, uint32_t stream, const struct bench_answer *a)
{
	struct bench *b = arg;
	if (!is_good(b, "a read", stream, a))
		return false;
	uint64_t records = a->next_seq - b->position[stream];
	if (records * b->o.record_size != a->body_bytes) {
		b->code = cli_fail(CLI_FAILED, "%s%u: %" PRIu64 " records were read in %" PRIu64 " bytes; this run has no figures",
				   b->prefix, stream, records, a->body_bytes);
		return false;
	}
	if (records > 0)
		bench_stats_add(&b->read, a->started_ns, a->took_ns, records, a->body_bytes);
	b->position[stream] = a->next_seq;
	b->reading[stream] = false;
	b->ended[stream] = a->up_to_date;
	return !interrupted;
}

static int bench_read(struct bench *b, struct bench_load *load)
{
	load->depth = (unsigned)((b->o.streams + b->o.connections - 1) / b->o.connections);
	load->next = next_read;
	load->on_answer = on_read;
	int code = bench_run(load);
	for (unsigned s = 0; s < b->o.streams && code == CLI_OK && b->code == CLI_OK && !interrupted; s++) {
		if (b->position[s] != b->acked[s])
			b->code = cli_fail(CLI_FAILED, "%s%u: %" PRIu64 " records were acknowledged and %" PRIu64 " read",
					   b->prefix, s, b->acked[s], b->position[s]);
	}
	return code != CLI_OK ? code : b->code;
}

/* ------------------------------------------------------------- the whole of it */

/* PUT or DELETE of one stream. */
static int stream_request(struct bench *b, const char *method, unsigned stream)
{
	static const char *const headers[] = { "Content-Type: application/octet-stream", NULL };
	struct cli_response r;
	char path[96];
	snprintf(path, sizeof(path), "%s%u", b->prefix, stream);
	cli_request(b->cli, method, path, headers, slice_of(NULL, 0), 0, &r);
	int code = r.status / 100 == 2 ? CLI_OK : cli_response_fail(b->cli, &r, path);
	cli_response_done(&r);
	return code;
}

static void print_result(const struct bench *b)
{
	struct buf out;
	buf_init(&out, 8192);
	if (b->o.json) {
		buf_printf(&out, "{\"protocol\":\"pico\",\"record_size\":%" PRIu64 ",\"batch\":%" PRIu64 ",\"in_flight\":%" PRIu64
			   ",\"streams\":%" PRIu64 ",\"connections\":%" PRIu64 ",\"elapsed_sec\":%.3f,\"write\":",
			   b->o.record_size, b->o.batch, b->o.in_flight, b->o.streams, b->o.connections,
			   bench_stats_seconds(&b->write));
		bench_stats_json(&b->write, &out);
		buf_put_str(&out, ",\"read\":");
		bench_stats_json(&b->read, &out);
		buf_put_str(&out, "}\n");
	} else {
		bench_stats_text(&b->write, "write", &out);
		if (!b->o.no_read)
			bench_stats_text(&b->read, "read ", &out);
	}
	fwrite(buf_head(&out), 1, buf_len(&out), stdout);
	buf_done(&out);
}

static int bench_all(struct bench *b)
{
	struct bench_load load = { .endpoint = b->cli->endpoint, .connections = (unsigned)b->o.connections, .arg = b };
	int code = CLI_OK;
	while (b->made < b->o.streams && code == CLI_OK && !interrupted) {
		code = stream_request(b, "PUT", b->made);
		b->made += code == CLI_OK;
	}
	if (code == CLI_OK)
		code = bench_write(b, &load);
	if (code == CLI_OK && !b->o.no_read)
		code = bench_read(b, &load);
	if (code == CLI_OK && b->write.requests == 0)
		code = cli_fail(CLI_FAILED, "no append was answered in that time");
	if (code == CLI_OK)
		print_result(b);
	for (unsigned s = 0; s < b->made && !b->o.keep; s++) {
		int deleted = stream_request(b, "DELETE", s);
		code = code != CLI_OK ? code : deleted;
	}
	return code;
}

static int bench_start(struct cli *cli, const struct bench_options *o)
{
	struct timespec now;
	struct bench *b = must_calloc(1, sizeof(*b));
	b->cli = cli;
	b->o = *o;
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(b->prefix, sizeof(b->prefix), "/bench/%d-%lld-", (int)getpid(),
		 (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	b->seq = must_calloc(o->connections * o->streams, sizeof(*b->seq));
	b->turn = must_calloc(o->connections, sizeof(*b->turn));
	b->position = must_calloc(o->streams, sizeof(*b->position));
	b->acked = must_calloc(o->streams, sizeof(*b->acked));
	b->reading = must_calloc(o->streams, sizeof(*b->reading));
	b->ended = must_calloc(o->streams, sizeof(*b->ended));
	make_body(b);
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	int code = bench_all(b);
	buf_done(&b->body);
	free(b->seq);
	free(b->turn);
	free(b->position);
	free(b->acked);
	free(b->reading);
	free(b->ended);
	free(b);
	return code;
}

/* -------------------------------------------------------------------- options */

struct bound {
	const char *name, *text;
	uint64_t min, max;
	uint64_t *value;
};

static int take_numbers(const struct bound *bounds)
{
	for (const struct bound *n = bounds; n->name != NULL; n++) {
		int code = cli_number(n->name, n->text, n->value);
		if (code != 0)
			return code;
		if (*n->value < n->min || *n->value > n->max)
			return cli_fail(CLI_USAGE, "%s is %" PRIu64 " to %" PRIu64, n->name, n->min, n->max);
	}
	return 0;
}

static int take_words(struct bench_options *o, const char *protocol, const char *output)
{
	if (strcmp(protocol, "pico") != 0)
		return cli_fail(CLI_USAGE, "--protocol %s: bench speaks pico alone as yet", protocol);
	if (strcmp(output, "text") != 0 && strcmp(output, "json") != 0)
		return cli_fail(CLI_USAGE, "--output is text or json, not \"%s\"", output);
	o->json |= strcmp(output, "json") == 0;
	if (o->record_size * o->batch > REQUEST_BYTES_MAX - o->batch * 12)
		return cli_fail(CLI_USAGE, "--record-size times --batch is at most 64 MiB");
	return 0;
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
	struct bench_options o = { .json = cli->json };
	const char *protocol = "pico", *output = "text";
	struct bound bounds[] = {
		{ "--record-size", "1024", 1, 16u << 20, &o.record_size }, { "--duration", "15", 1, 86400, &o.duration },
		{ "--in-flight", "32", 1, 10000, &o.in_flight }, { "--batch", "1", 1, 100000, &o.batch },
		{ "--target-mibps", "0", 0, 1000000, &o.target_mibps }, { "--streams", "1", 1, 10000, &o.streams },
		{ "--connections", "1", 1, 1000, &o.connections }, { "--warmup", "0", 0, 86400, &o.warmup },
		{ "--interval", "1", 0, 86400, &o.interval }, { 0 }
	};
	const struct cli_option options[] = {
		{ "--record-size", &bounds[0].text, NULL }, { "-b", &bounds[0].text, NULL },
		{ "--duration", &bounds[1].text, NULL }, { "-d", &bounds[1].text, NULL },
		{ "--in-flight", &bounds[2].text, NULL }, { "-w", &bounds[2].text, NULL },
		{ "--batch", &bounds[3].text, NULL }, { "-n", &bounds[3].text, NULL },
		{ "--target-mibps", &bounds[4].text, NULL }, { "-t", &bounds[4].text, NULL },
		{ "--streams", &bounds[5].text, NULL }, { "--connections", &bounds[6].text, NULL },
		{ "--warmup", &bounds[7].text, NULL }, { "--interval", &bounds[8].text, NULL },
		{ "--no-read", NULL, &o.no_read }, { "--producer", NULL, &o.producer }, { "--keep", NULL, &o.keep },
		{ "--protocol", &protocol, NULL }, { "--output", &output, NULL }, { 0 }
	};
	int code = cli_parse(argc, argv, options, NULL);
	if (code == 0)
		code = take_numbers(bounds);
	if (code == 0)
		code = take_words(&o, protocol, output);
	return code != 0 ? code : bench_start(cli, &o);
}
