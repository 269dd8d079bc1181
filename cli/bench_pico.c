/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico bench` over HTTP: appends of binary batches to streams, raw reads of all that was acknowledged. A run in which
 * one request failed, or whose records are not all there afterwards, has no figures.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/bench_http.h"
#include "common/must.h"
#include "common/wire.h"

#define READ_BYTES (1u << 20)

struct bench {
	struct cli *cli;
	struct bench_run *run;
	const struct bench_options *o;
	char prefix[64];                /* of the streams' names */
	unsigned made;                  /* streams that exist */
	struct buf body;                /* of every append */
	uint64_t *seq;                  /* next of each (connection, stream), for producers */
	unsigned *turn;                 /* which of its streams a connection takes next */
	uint64_t *position, *acked;     /* of each stream: read up to, and records acknowledged */
	bool *reading, *ended;          /* of each stream */
	int code;
};

static void put_u32(struct buf *b, uint32_t v)
{
	uint8_t bytes[4];
	put_be32(bytes, v);
	buf_put(b, bytes, sizeof(bytes));
}

static void make_body(struct bench *b)
{
	uint64_t seed = 1;
	buf_init(&b->body, BENCH_REQUEST_MAX + 1024);
	buf_put_u8(&b->body, 1);
	put_u32(&b->body, (uint32_t)b->o->batch);
	for (uint64_t i = 0; i < b->o->batch; i++) {
		put_u32(&b->body, UINT32_MAX); /* no key, no headers */
		put_u32(&b->body, 0);
		put_u32(&b->body, (uint32_t)b->o->record_size);
		bench_noise(&b->body, b->o->record_size, &seed);
	}
	must(!b->body.failed);
}

/* A request that failed ends the run. */
static bool is_good(struct bench *b, const char *what, uint64_t stream, const struct bench_answer *a)
{
	if (a->status == 200)
		return true;
	b->code = cli_fail(CLI_FAILED, "%s%u: %s was answered %u; this run has no figures", b->prefix, (unsigned)stream, what,
			   a->status);
	return false;
}

/* --------------------------------------------------------------------- append */

static enum bench_next next_append(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number)
{
	struct bench *b = arg;
	enum bench_next next = bench_due(b->run, bench_now_ns());
	if (next != BENCH_REQUEST)
		return next;
	unsigned n = (unsigned)b->o->streams, stream = (connection + b->turn[connection]) % n;
	b->turn[connection] += (unsigned)b->o->connections < n ? (unsigned)b->o->connections : n;
	if (b->turn[connection] >= n)
		b->turn[connection] = 0;
	buf_printf(out, "POST %s%u HTTP/1.1\r\nHost: bench\r\nContent-Type: application/vnd.picomq.batch\r\n"
		   "Content-Length: %zu\r\n", b->prefix, stream, buf_len(&b->body));
	if (b->o->producer)
		buf_printf(out, "Pico-Producer-Id: bench-%u\r\nPico-Producer-Epoch: 0\r\nPico-Producer-Seq: %" PRIu64 "\r\n",
			   connection, b->seq[connection * n + stream]++);
	buf_put_str(out, "\r\n");
	buf_put_slice(out, buf_slice(&b->body));
	*ret_number = stream;
	return BENCH_REQUEST;
}

static bool on_appended(void *arg, unsigned connection, uint64_t stream, void *state, const struct bench_time *t)
{
	struct bench *b = arg;
	if (!is_good(b, "an append", stream, bench_http_answer(state)))
		return false;
	b->acked[stream] += b->o->batch;
	if (t->started_ns >= b->run->counted_ns)
		bench_stats_add(&b->run->write, t->started_ns, t->took_ns, b->o->batch, b->o->batch * b->o->record_size);
	return true;
}

static int bench_write(struct bench *b, struct bench_load *load)
{
	bench_begin(b->run);
	load->depth = bench_depth(b->o);
	load->next = next_append;
	load->on_answer = on_appended;
	int code = bench_run(load);
	return code != CLI_OK ? code : b->code;
}

/* ----------------------------------------------------------------------- read */

static enum bench_next next_read(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number)
{
	struct bench *b = arg;
	bool all_ended = true;
	for (unsigned s = connection; s < b->o->streams; s += (unsigned)b->o->connections) {
		all_ended &= b->ended[s];
		if (b->ended[s] || b->reading[s])
			continue;
		b->reading[s] = true;
		buf_printf(out, "GET %s%u?seq=%" PRIu64 "&format=raw&bytes=%u HTTP/1.1\r\nHost: bench\r\n\r\n", b->prefix, s,
			   b->position[s], READ_BYTES);
		*ret_number = s;
		return BENCH_REQUEST;
	}
	return all_ended || bench_is_interrupted() ? BENCH_END : BENCH_LATER;
}

static bool on_read(void *arg, unsigned connection, uint64_t stream, void *state, const struct bench_time *t)
{
	struct bench *b = arg;
	const struct bench_answer *a = bench_http_answer(state);
	if (!is_good(b, "a read", stream, a))
		return false;
	uint64_t records = a->next_seq - b->position[stream];
	if (records * b->o->record_size != a->body_bytes) {
		b->code = cli_fail(CLI_FAILED, "%s%u: %" PRIu64 " records were read in %" PRIu64 " bytes; this run has no figures",
				   b->prefix, (unsigned)stream, records, a->body_bytes);
		return false;
	}
	if (records > 0)
		bench_stats_add(&b->run->read, t->started_ns, t->took_ns, records, a->body_bytes);
	b->position[stream] = a->next_seq;
	b->reading[stream] = false;
	b->ended[stream] = a->up_to_date;
	return !bench_is_interrupted();
}

static int bench_read(struct bench *b, struct bench_load *load)
{
	load->depth = (unsigned)((b->o->streams + b->o->connections - 1) / b->o->connections);
	load->next = next_read;
	load->on_answer = on_read;
	int code = bench_run(load);
	for (unsigned s = 0; s < b->o->streams && code == CLI_OK && b->code == CLI_OK && !bench_is_interrupted(); s++) {
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

static int bench_all(struct bench *b, const struct bench_address *address)
{
	struct bench_load load = { .wire = &bench_http_wire, .address = address, .n_addresses = 1,
				   .connections = (unsigned)b->o->connections, .arg = b };
	int code = CLI_OK;
	while (b->made < b->o->streams && code == CLI_OK && !bench_is_interrupted()) {
		code = stream_request(b, "PUT", b->made);
		b->made += code == CLI_OK;
	}
	if (code == CLI_OK)
		code = bench_write(b, &load);
	if (code == CLI_OK && !b->o->no_read)
		code = bench_read(b, &load);
	if (code == CLI_OK)
		code = bench_report(b->run);
	for (unsigned s = 0; s < b->made && !b->o->keep; s++) {
		int deleted = stream_request(b, "DELETE", s);
		code = code != CLI_OK ? code : deleted;
	}
	return code;
}

int bench_pico(struct cli *cli, struct bench_run *r)
{
	const struct bench_options *o = r->o;
	struct bench b = { .cli = cli, .run = r, .o = o };
	struct bench_address address;
	struct timespec now;
	int code = bench_http_address(cli->endpoint, &address);
	if (code != CLI_OK)
		return code;
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(b.prefix, sizeof(b.prefix), "/bench/%d-%lld-", (int)getpid(),
		 (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	b.seq = must_calloc(o->connections * o->streams, sizeof(*b.seq));
	b.turn = must_calloc(o->connections, sizeof(*b.turn));
	b.position = must_calloc(o->streams, sizeof(*b.position));
	b.acked = must_calloc(o->streams, sizeof(*b.acked));
	b.reading = must_calloc(o->streams, sizeof(*b.reading));
	b.ended = must_calloc(o->streams, sizeof(*b.ended));
	make_body(&b);
	code = bench_all(&b, &address);
	buf_done(&b.body);
	free(b.seq);
	free(b.turn);
	free(b.position);
	free(b.acked);
	free(b.reading);
	free(b.ended);
	return code;
}
