/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /name: one raw record, a JSON or binary batch, a close, or both. All records of one request become one
 * batch, so they take consecutive positions and are stored whole or not at all.
 */
#include <errno.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/record_batch.h"
#include "worker-http/append.h"
#include "worker-http/pico.h"
#include "worker-http/server.h"

static const struct producer_names names = { "Pico-Producer", "pico-producer", UINT64_MAX };

/* ------------------------------------------------------------------ answers */

static void on_appended(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
			struct topics_pieces *pieces)
{
	struct request *r = arg;
	if (!pico_is_good(r, error))
		return;
	const Ipc__AppendAnswer *a = (const Ipc__AppendAnswer *)m;
	answer_field_u64(r, "Pico-Next-Seq", a->next_offset);
	if (r->wrote_records && !a->duplicate) { /* clients know a duplicate by their absence */
		answer_field_u64(r, "Pico-Start-Seq", a->base_offset);
		answer_field_u64(r, "Pico-Timestamp", (uint64_t)a->timestamp_ms);
	}
	if (a->closed)
		answer_field(r, "Pico-Closed", "true");
	if (request_field(r, "pico-producer-id").n > 0) {
		answer_field_u64(r, "Pico-Producer-Epoch", a->producer_epoch);
		answer_field_u64(r, "Pico-Producer-Seq", a->producer_seq);
	}
	if (a->multi_partition)
		answer_field_u64(r, "Pico-Partition", a->partition);
	answer_send_empty(r, 200);
}

static void on_closed(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	if (!pico_is_good(r, error))
		return;
	const Ipc__Topic *topic = ((const Ipc__CloseAnswer *)m)->topic;
	if (topic->n_partitions == 1)
		answer_field_u64(r, "Pico-Next-Seq", topic->partitions[0]->confirm);
	answer_field(r, "Pico-Closed", "true");
	answer_send_empty(r, 200);
}

/* ------------------------------------------------------------------ what is asked */

/* Pico-Header: name=value, repeatable. False when refused (answered). `values` keeps the decoded bytes. */
static bool take_headers(struct request *r, struct record_header *headers, uint32_t *ret_n, struct buf *values)
{
	size_t ends[HTTP1_HEADERS_MAX];
	uint32_t n = 0;
	for (struct slice f; (f = request_field_nth(r, "pico-header", n)).p != NULL; n++) {
		const uint8_t *equals = f.n > 0 ? memchr(f.p, '=', f.n) : NULL;
		if (equals == NULL || equals == f.p) {
			answer_bad_request(r, "Pico-Header must be name=value");
			return false;
		}
		headers[n].name = slice_of(f.p, (size_t)(equals - f.p));
		percent_decode(slice_of(equals + 1, f.n - headers[n].name.n - 1), false, values);
		ends[n] = buf_len(values);
	}
	must(!values->failed);
	for (uint32_t i = 0; i < n; i++) {
		size_t begin = i > 0 ? ends[i - 1] : 0;
		headers[i].value = ends[i] > begin ? slice_of(buf_head(values) + begin, ends[i] - begin) : slice_str("");
	}
	*ret_n = n;
	return true;
}

/* The body as one record. False when refused (answered). */
static bool raw_batch(struct request *r, struct append *a)
{
	struct record_header headers[HTTP1_HEADERS_MAX];
	struct record_batch_writer w;
	struct buf values;
	uint32_t n_headers = 0;
	struct slice key = request_field(r, "pico-key");
	buf_init(&values, HTTP1_HEAD_MAX);
	bool good = take_headers(r, headers, &n_headers, &values);
	if (good) {
		record_batch_begin(&w, &a->batch);
		record_batch_add(&w, key.n > 0 ? key : slice_of(NULL, 0), buf_slice(&r->body), headers, n_headers);
		record_batch_end(&w);
		a->message.record_count = 1;
		a->message.partition_key = (ProtobufCBinaryData){ .data = (uint8_t *)key.p, .len = key.n };
		a->message.has_partition_key = key.n > 0;
	}
	buf_done(&values);
	return good;
}

typedef int batch_parser(struct slice body, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size);

/* False when refused (answered). */
static bool parse_batch(struct request *r, struct append *a, batch_parser *parser)
{
	char fault[200];
	if (parser(buf_slice(&r->body), &a->batch, &a->message.record_count, fault, sizeof(fault)) != -EBADMSG)
		return true;
	answer_bad_request(r, "%s", fault);
	return false;
}

/* Encodes the records of the body. False when refused (answered). */
static bool take_records(struct request *r, struct append *a)
{
	bool good;
	if (request_has_type(r, "application/vnd.picomq.batch"))
		good = parse_batch(r, a, pico_binary_batch);
	else if (request_has_type(r, "application/vnd.picomq.batch+json"))
		good = parse_batch(r, a, pico_json_batch);
	else
		good = raw_batch(r, a);
	if (!good)
		return false;
	struct pico_error e;
	if (!a->batch.failed)
		return true;
	append_too_large(r, &e);
	pico_answer_error(r, &e);
	return false;
}

static bool take_conditions(struct request *r, struct append *a)
{
	bool given, match;
	if (!append_take_producer(a, r, &names) || !pico_partition(r, &given, &a->log.partition) ||
	    !pico_u64_field(r, "Pico-Match-Seq", "pico-match-seq", &match, &a->message.match_seq))
		return false;
	a->message.any_partition = !given;
	a->message.has_match_seq = match;
	return true;
}

/* ------------------------------------------------------------------ the handler */

static void close_topic(struct request *r)
{
	Ipc__CloseRequest m = IPC__CLOSE_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = request_name(r);
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_CLOSE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_closed);
}

static void append_start(struct request *r, struct append *a)
{
	bool close = request_flag(r, "pico-closed"), body = buf_len(&r->body) > 0;
	if ((body || close) && (!take_conditions(r, a) || (body && !take_records(r, a))))
		return;
	bool empty = a->message.record_count == 0; /* no body, or a binary batch of no records */
	if (empty && !close) {
		answer_bad_request(r, "empty body");
		return;
	}
	if (empty && a->message.producer == NULL && !a->message.has_match_seq) {
		close_topic(r);
		return;
	}
	a->message.close_after = close;
	r->wrote_records = !empty;
	append_call(a, r, on_appended);
}

void pico_append(struct request *r)
{
	struct append a;
	append_init(&a, r);
	append_start(r, &a);
	append_done(&a);
}
