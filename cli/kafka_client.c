/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions are the highest that both sides serve (KIP-35). Everything on the wire is the interpreter's (common/kmsg.h);
 * what comes from the node is bounded by FRAME_MAX before memory is taken for it.
 */
#include "cli/kafka_client.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "cli/bench.h"
#include "common/codec.h"
#include "common/crc32c.h"
#include "common/kafka_error.h"
#include "common/must.h"
#include "common/record_batch.h"

#define FRAME_MAX (128u << 20)
#define READ_BYTES (64u << 10)
#define CLIENT_ID "pico-bench"
#define CALLS_UNDER_WAY 32
#define CALL_MAX (1u << 20)             /* bytes of an answer to ApiVersions, and what is made of it */

/* ------------------------------------------------------------------- the wire */

struct frames {
	struct buf in;
	size_t whole;                   /* bytes at the front that are the answer just told; 0: none */
	size_t missing;                 /* of the answer at the front, as far as that is known */
};

static void frames_init(void *state)
{
	buf_init(&((struct frames *)state)->in, FRAME_MAX + READ_BYTES);
}

static void frames_done(void *state)
{
	buf_done(&((struct frames *)state)->in);
}

static uint8_t *frames_room(void *state, size_t *ret_n)
{
	struct frames *f = state;
	*ret_n = f->missing > READ_BYTES ? f->missing : READ_BYTES;
	return buf_reserve(&f->in, *ret_n);
}

static void frames_put(void *state, size_t n)
{
	buf_commit(&((struct frames *)state)->in, n);
}

static int frames_answer(void *state)
{
	struct frames *f = state;
	const char *why;
	buf_consume(&f->in, f->whole);
	f->whole = f->missing = 0;
	int64_t size = kafka_frame_size(buf_slice(&f->in), FRAME_MAX, &why);
	if (size < 0)
		return -EBADMSG;
	if (size == 0 || (uint64_t)size > buf_len(&f->in)) {
		f->missing = size == 0 ? 0 : (size_t)size - buf_len(&f->in);
		return 0;
	}
	f->whole = (size_t)size;
	return 1;
}

struct slice kafka_wire_frame(const void *state)
{
	const struct frames *f = state;
	return slice_of(buf_head(&f->in) + KAFKA_FRAME_LENGTH, f->whole - KAFKA_FRAME_LENGTH);
}

const struct bench_wire kafka_wire = {
	.name = "Kafka", .size = sizeof(struct frames), .init = frames_init, .done = frames_done, .room = frames_room,
	.put = frames_put, .answer = frames_answer,
};

/* --------------------------------------------------------- requests and answers */

static struct kafka_request head_of(const struct kafka_client *k, int16_t key, int32_t correlation_id)
{
	return (struct kafka_request){ .api = kafka_api_find(key), .api_key = key, .api_version = k->version[key],
				       .correlation_id = correlation_id, .client_id = slice_str(CLIENT_ID) };
}

bool kafka_client_put(const struct kafka_client *k, int16_t key, int32_t correlation_id, const void *request,
		      struct buf *out)
{
	struct kafka_request head = head_of(k, key, correlation_id);
	if (head.api_version < 0)
		return false;
	size_t start = kafka_request_begin(out, &head);
	return kmsg_encode((struct kmsg_form){ head.api->request, head.api_version }, request, out, NULL) == 0 &&
		kafka_frame_end(out, start, 0) == 0;
}

int kafka_client_read(const struct kafka_client *k, const struct kafka_call *call, int32_t correlation_id,
		      struct slice frame)
{
	struct kafka_request head = head_of(k, call->key, correlation_id);
	struct kmsg_form form = { head.api->response, head.api_version };
	struct slice body;
	if (kafka_response_read(frame, &head, &body) != 0 || kmsg_decode(form, body, call->region, call->answer) != 0)
		return -EBADMSG;
	return 0;
}

/* ---------------------------------------------------------------------- calls */

struct calling {
	const struct kafka_client *client;
	struct kafka_call *calls;
	unsigned n, sent;
	int code;
};

int kafka_client_fail(const struct kafka_client *k, const char *what, int16_t error, struct slice text)
{
	return cli_fail(CLI_FAILED, "%s:%s: %s was answered %s%s%.*s", k->bootstrap.host, k->bootstrap.port, what,
			kafka_error_name(error), text.n > 0 ? ": " : "", (int)text.n, text.p != NULL ? (const char *)text.p : "");
}

static enum bench_next next_call(void *arg, unsigned connection, struct buf *out, uint64_t *ret_number)
{
	struct calling *c = arg;
	if (c->sent == c->n)
		return BENCH_END;
	const struct kafka_call *call = &c->calls[c->sent];
	if (!kafka_client_put(c->client, call->key, (int32_t)c->sent, call->request, out)) {
		c->code = cli_fail(CLI_FAILED, "%s:%s does not serve %s", c->client->bootstrap.host, c->client->bootstrap.port,
				   kafka_api_find(call->key)->name);
		return BENCH_END;
	}
	*ret_number = c->sent++;
	return BENCH_REQUEST;
}

/* The connection's memory goes with it: the answer is read from a copy. */
static bool on_called(void *arg, unsigned connection, uint64_t number, void *state, const struct bench_time *t)
{
	struct calling *c = arg;
	const struct kafka_call *call = &c->calls[number];
	struct slice frame = region_copy(call->region, kafka_wire_frame(state));
	if (frame.p != NULL && kafka_client_read(c->client, call, (int32_t)number, frame) == 0)
		return true;
	c->code = cli_fail(CLI_FAILED, "%s:%s: the answer to %s makes no sense", c->client->bootstrap.host,
			   c->client->bootstrap.port, kafka_api_find(call->key)->name);
	return false;
}

int kafka_client_call(const struct kafka_client *k, struct kafka_call *calls, unsigned n)
{
	struct calling c = { .client = k, .calls = calls, .n = n };
	struct bench_load load = { .wire = &kafka_wire, .address = &k->bootstrap, .n_addresses = 1, .connections = 1,
				   .depth = CALLS_UNDER_WAY, .next = next_call, .on_answer = on_called, .arg = &c };
	int code = bench_run(&load);
	return code != CLI_OK ? code : c.code;
}

/* ------------------------------------------------------------------- versions */

static void take_versions(struct kafka_client *k, const struct kmsg_api_versions_response *a)
{
	for (int16_t key = 0; key < KAFKA_CLIENT_KEYS; key++)
		k->version[key] = -1;
	for (uint32_t i = 0; i < a->n_api_keys; i++) {
		const struct kmsg_api_versions_response_api_key *row = &a->api_keys[i];
		const struct kafka_api *api = kafka_api_find(row->api_key);
		if (api == NULL)
			continue;
		int16_t high = api->high < row->max_version ? api->high : row->max_version;
		if (high >= api->low && high >= row->min_version)
			k->version[row->api_key] = high;
	}
}

static int take_address(struct bench_address *ret, const char *text)
{
	char end;
	*ret = (struct bench_address){ 0 };
	if (sscanf(text, "[%255[^]/]]:%7[0-9]%c", ret->host, ret->port, &end) == 2 ||
	    sscanf(text, "%255[^:/[]:%7[0-9]%c", ret->host, ret->port, &end) == 2)
		return CLI_OK;
	return cli_fail(CLI_USAGE, "--bootstrap takes HOST:PORT, not \"%s\"", text);
}

/* Version 0 is what every node answers, and also how it says that it has not heard of ours (KIP-511). */
int kafka_client_open(struct kafka_client *k, const char *bootstrap)
{
	struct kmsg_api_versions_request request = { .client_software_name = slice_str(CLIENT_ID) };
	struct kmsg_api_versions_response answer;
	struct region region;
	struct kafka_call call = { KAFKA_API_VERSIONS, &request, &region, &answer };
	*k = (struct kafka_client){ 0 };
	int code = take_address(&k->bootstrap, bootstrap);
	if (code != CLI_OK)
		return code;
	region_init(&region, CALL_MAX);
	code = kafka_client_call(k, &call, 1);
	if (code == CLI_OK && answer.error_code != 0)
		code = kafka_client_fail(k, "ApiVersions", answer.error_code, slice_of(NULL, 0));
	if (code == CLI_OK)
		take_versions(k, &answer);
	region_done(&region);
	return code;
}

/* ------------------------------------------------------------------- batches */

enum { AT_LENGTH = 8, AT_CRC = 17, AT_ATTRIBUTES = 21, AT_TIMES = 27, AT_PRODUCER = 43, AT_EPOCH = 51, AT_SEQUENCE = 53 };

/* Behind the header stands what the codec makes of the records. */
static bool compress(struct buf *batch, unsigned codec)
{
	struct buf plain = *batch;
	struct slice records = slice_of(buf_head(&plain) + RECORD_BATCH_HEADER, buf_len(&plain) - RECORD_BATCH_HEADER);
	buf_init(batch, plain.max);
	buf_put(batch, buf_head(&plain), RECORD_BATCH_HEADER);
	bool good = codec_compress(codec, records, batch) == 0 && !batch->failed;
	buf_done(&plain);
	return good;
}

int kafka_batch_make(uint64_t n, uint64_t record_size, unsigned codec, struct buf *ret_batch)
{
	struct record_batch_writer w;
	struct buf value;
	uint64_t seed = 1;
	buf_init(ret_batch, 2 * BENCH_REQUEST_MAX + (1u << 20));
	buf_init(&value, record_size);
	record_batch_begin(&w, ret_batch);
	for (uint64_t i = 0; i < n; i++) {
		buf_reset(&value, record_size * 2);
		bench_noise(&value, record_size, &seed);
		record_batch_add(&w, slice_of(NULL, 0), buf_slice(&value), NULL, 0);
	}
	buf_done(&value);
	if (record_batch_end(&w) == 0 || (codec != CODEC_NONE && !compress(ret_batch, codec)))
		return cli_fail(CLI_FAILED, "a batch of %llu records of %llu bytes cannot be made", (unsigned long long)n,
				(unsigned long long)record_size);
	uint8_t *p = buf_head(ret_batch);
	put_be16(p + AT_ATTRIBUTES, (uint16_t)codec);
	put_be32(p + AT_LENGTH, (uint32_t)(buf_len(ret_batch) - AT_LENGTH - 4));
	return CLI_OK;
}

void kafka_batch_number(struct buf *batch, const struct kafka_producer *p, int32_t base_sequence)
{
	uint8_t *b = buf_head(batch);
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	uint64_t ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	put_be64(b + AT_TIMES, ms);
	put_be64(b + AT_TIMES + 8, ms);
	put_be64(b + AT_PRODUCER, (uint64_t)p->id);
	put_be16(b + AT_EPOCH, (uint16_t)p->epoch);
	put_be32(b + AT_SEQUENCE, (uint32_t)base_sequence);
	put_be32(b + AT_CRC, crc32c(b + AT_ATTRIBUTES, buf_len(batch) - AT_ATTRIBUTES));
}
