/* SPDX-License-Identifier: Apache-2.0
 *
 * POST: append, close, or both as one step. The stream's owner checks: closed, content type, producer, Stream-Seq. A body that
 * is not JSON is judged behind all of them, so the owner is asked first whether a good one would have been taken.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/append.h"
#include "worker-http/ds.h"
#include "worker-http/server.h"

#define INTEGER_MAX ((1ull << 53) - 1)  /* what a client in JavaScript can count to */

static const struct producer_names names = { "Producer", "producer", INTEGER_MAX };

static bool has_producer(const struct request *r)
{
	return request_field(r, "producer-id").n > 0;
}

static void on_appended(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
			struct topics_pieces *pieces)
{
	struct request *r = arg;
	const char *fault = r->state;
	r->call = NULL;
	if (error->kind != PICO_OK) {
		ds_answer_error(r, error);
		return;
	}
	const Ipc__AppendAnswer *a = (const Ipc__AppendAnswer *)m;
	if (fault != NULL && !a->duplicate) {
		answer_bad_request(r, "%s", fault);
		return;
	}
	ds_put_offset(r, a->next_offset);
	if (a->closed)
		answer_field(r, "Stream-Closed", "true");
	if (has_producer(r)) {
		answer_field_u64(r, "Producer-Epoch", a->producer_epoch);
		answer_field_u64(r, "Producer-Seq", a->producer_seq);
	}
	answer_send_empty(r, has_producer(r) && r->wrote_records && !a->duplicate ? 200 : 204);
}

/* The body. One that is wrong becomes a question. False when refused (answered). */
static bool take_body(struct request *r, struct append *a)
{
	struct slice type = request_field(r, "content-type");
	struct pico_error e;
	char fault[200] = "an array without messages appends nothing";
	if (type.n == 0) {
		answer_bad_request(r, "say with Content-Type what the body is");
		return false;
	}
	a->message.content_type = create_content_type(r, "");
	if (a->message.content_type == NULL)
		return false;
	ds_batch(buf_slice(&r->body), ds_is_json(type), &a->batch, &a->message.record_count, fault, sizeof(fault));
	if (a->batch.failed) {
		append_too_large(r, &e);
		ds_answer_error(r, &e);
		return false;
	}
	if (a->message.record_count == 0) {
		r->state = must_strdup(fault);
		r->state_free = free;
		a->message.check_only = true;
	}
	return true;
}

static void append_start(struct request *r, struct append *a)
{
	bool close = request_flag(r, "stream-closed"), body = buf_len(&r->body) > 0;
	struct slice seq = request_field(r, "stream-seq");
	if (!body && !close) {
		answer_bad_request(r, "an empty body appends nothing; with Stream-Closed: true it closes");
		return;
	}
	if (!append_take_producer(a, r, &names) || (body && !take_body(r, a)))
		return;
	a->message.order = IPC__APPEND_REQUEST__ORDER__CLOSED_FIRST;
	a->message.only_partition = true;
	a->message.close_after = close && !a->message.check_only;
	a->message.stream_seq = (ProtobufCBinaryData){ .data = (uint8_t *)seq.p, .len = seq.n };
	a->message.has_stream_seq = seq.n > 0;
	r->wrote_records = body;
	append_call(a, r, on_appended);
}

void ds_append(struct request *r)
{
	struct append a;
	append_init(&a, r);
	append_start(r, &a);
	append_done(&a);
}
