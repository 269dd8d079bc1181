/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer is a frame in `out` with runs of bytes between its parts; the runs are storaged's memory and are
 * written from there.
 */
#include "worker-kafka/request.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/metrics.h"
#include "common/must.h"
#include "worker-kafka/conn.h"

#define REQUEST_MAGIC 0x4b524551u
#define REGION_MAX (64u << 20)
#define OUT_MAX (64u << 20)

/* ------------------------------------------------------------------ life */

struct request *request_new(struct conn *c, struct server *s, uint32_t frame_size)
{
	struct request *r = must_calloc(1, sizeof(*r));
	r->magic = REQUEST_MAGIC;
	r->server = s;
	r->conn = c;
	r->frame_size = frame_size;
	buf_init(&r->frame, frame_size);
	buf_init(&r->out, OUT_MAX);
	region_init(&r->region, REGION_MAX);
	return r;
}

void request_free(struct request *r)
{
	must(r->magic == REQUEST_MAGIC);
	if (r->call != NULL)
		topics_abandon(r->call);
	turns_forget(&r->server->turns, &r->turn);
	topics_pieces_release(r->pieces);
	free(r->copy);
	buf_done(&r->frame);
	buf_done(&r->out);
	region_done(&r->region);
	r->magic = 0;
	free(r);
}

void request_drop_frame(struct request *r)
{
	buf_done(&r->frame);
	buf_init(&r->frame, 0);
}

void *request_alloc(struct request *r, size_t n, size_t size)
{
	return region_calloc(&r->region, n > 0 ? n : 1, size);
}

uint64_t request_deadline(const struct request *r, int32_t timeout_ms)
{
	uint64_t ms = r->server->conf->request_timeout_ms;
	if (timeout_ms > 0 && (uint64_t)timeout_ms < ms)
		ms = (uint64_t)timeout_ms;
	return env_now_ms(r->server->env) + ms;
}

/* ------------------------------------------------------------------ start */

/* A field of the answer itself, not of what stands in it; NULL: this version has none of that name. */
static void *answer_field(const struct request *r, void *response, const char *name)
{
	const struct kmsg_struct *of = r->head.api->response->of;
	for (size_t i = 0; i < of->n_plain; i++) {
		const struct kmsg_field *f = &of->fields[i];
		if (strcmp(f->name, name) == 0 && r->head.api_version >= f->low && r->head.api_version <= f->high)
			return (uint8_t *)response + f->at;
	}
	return NULL;
}

/* KIP-511: an answer of version 0 with what is served of ApiVersions. */
static void refuse_api_versions(struct request *r)
{
	struct kmsg_api_versions_response versions;
	r->head.api_version = 0;
	if (kafka_api_versions_refusal(&r->region, &versions) == 0)
		request_answer(r, &versions);
	else
		request_close(r, "memory");
}

/* Of a version that is not served. False: the answer has no place of its own for the error, so the handler's parts
 * have it. */
static bool refuse_version(struct request *r)
{
	const struct kafka_api *api = r->head.api;
	if (api->key == 18) {
		refuse_api_versions(r);
		return true;
	}
	if (!kafka_api_knows(api, r->head.api_version)) {
		request_close(r, "unknown version");
		return true;
	}
	void *response = kmsg_new(&r->region, api->response->of, 1);
	int16_t *error = response != NULL ? answer_field(r, response, "error_code") : NULL;
	if (error == NULL)
		return false;
	*error = KAFKA_UNSUPPORTED_VERSION;
	request_answer(r, response);
	return true;
}

bool request_is_produce(const struct request *r)
{
	struct slice frame = buf_slice(&r->frame);
	return r->handler != NULL ? r->handler->key == 0 : frame.n >= 2 && get_be16(frame.p) == 0;
}

void request_start(struct request *r)
{
	must(!r->started);
	r->started = true;
	r->began_ns = env_now_ns(r->server->env);
	metric_add(METRIC_KAFKA_REQUESTS, 1);
	if (kafka_request_read(buf_slice(&r->frame), &r->head) < 0) {
		request_close(r, "header");
		return;
	}
	const struct kafka_api *api = r->head.api;
	r->handler = handler_find(r->head.api_key);
	if (api == NULL || r->handler == NULL) {
		request_close(r, "unknown api");
		return;
	}
	if (!kafka_api_serves(api, r->head.api_version) && refuse_version(r))
		return;
	struct kmsg_form form = { api->request, r->head.api_version };
	struct slice body = r->head.body;
	r->message = region_alloc(&r->region, api->request->of->size);
	/* Bytes behind the message are nobody's: librdkafka leaves some behind a Metadata request for all topics. */
	if (r->message == NULL || kmsg_decode_prefix(form, &body, &r->region, r->message) != 0) {
		request_close(r, "malformed request");
		return;
	}
	r->handler->handle(r);
}

/* ------------------------------------------------------------------ end */

static void request_done(struct request *r)
{
	must(!r->done);
	r->done = true;
	r->holds = false;
	histogram_observe(HISTOGRAM_KAFKA_SECONDS, env_now_ns(r->server->env) - r->began_ns);
	conn_wake(r->conn);
}

void request_close(struct request *r, const char *why)
{
	if (why != NULL)
		log_warn("%s, closing the connection api_key=%d version=%d", why, r->head.api_key, r->head.api_version);
	r->close = true;
	request_done(r);
}

void request_finish_silent(struct request *r)
{
	r->silent = true;
	request_drop_frame(r);
	request_done(r);
}

/* The gaps of the encoding become runs: the pieces that each stands for. */
static bool place_runs(struct request *r, const struct kmsg_gaps *gaps)
{
	size_t n = 0;
	for (size_t i = 0; i < gaps->n; i++)
		n += ((const struct external *)gaps->gaps[i].records->external)->n_pieces;
	r->runs = REQUEST_NEW(r, struct answer_run, n);
	if (r->runs == NULL)
		return false;
	for (size_t i = 0; i < gaps->n; i++) {
		const struct external *e = gaps->gaps[i].records->external;
		for (uint32_t k = 0; k < e->n_pieces; k++)
			r->runs[r->n_runs++] = (struct answer_run){ gaps->gaps[i].at, r->pieces->piece[e->first_piece + k] };
	}
	return true;
}

static void answer_with_gaps(struct request *r, void *response, struct kmsg_gaps *gaps)
{
	int32_t *throttle = r->throttled ? answer_field(r, response, "throttle_time_ms") : NULL;
	if (throttle != NULL)
		*throttle = THROTTLE_MS;
	if (r->region.failed || kafka_response_write(&r->out, &r->head, response, gaps) != 0 ||
	    (gaps != NULL && !place_runs(r, gaps))) {
		request_close(r, "answer too large");
		return;
	}
	r->size = buf_len(&r->out) + (gaps != NULL ? gaps->bytes : 0);
	request_drop_frame(r);
	request_done(r);
}

void request_answer(struct request *r, void *response)
{
	answer_with_gaps(r, response, NULL);
}

void request_answer_pieces(struct request *r, void *response, size_t n_external, struct topics_pieces *pieces)
{
	struct kmsg_gaps gaps = { .gaps = REQUEST_NEW(r, struct kmsg_gap, n_external), .max = n_external };
	r->pieces = pieces;
	if (pieces != NULL)
		pieces->owner = r;
	answer_with_gaps(r, response, &gaps);
}

/* ------------------------------------------------------------------ calls */

static void on_call(void *arg, const struct pico_error *e, const ProtobufCMessage *answer, struct topics_pieces *pieces)
{
	struct request *r = arg;
	must(r->magic == REQUEST_MAGIC);
	r->call = NULL;
	r->on_call(r, e, answer, pieces);
}

void request_call(struct request *r, enum ipc_type type, ProtobufCMessage *m, struct topics_payload payload,
		  uint64_t deadline_ms, request_cb *cb)
{
	must(r->call == NULL && !r->done);
	r->on_call = cb;
	r->call = topics_callv(r->server->topics, type, m, payload, deadline_ms, on_call, r);
}

void request_take_call(struct request *r, struct topics_call *call, request_cb *cb)
{
	must(r->call == NULL && !r->done);
	r->on_call = cb;
	r->call = call;
	topics_hand_over(call, on_call, r);
}

/* ------------------------------------------------------------------ sending */

struct iov_fill {
	struct slice *to;
	size_t n, max;
	size_t skip;                    /* bytes sent already */
};

static void iov_add(struct iov_fill *f, struct slice s)
{
	size_t skip = f->skip < s.n ? f->skip : s.n;
	f->skip -= skip;
	if (skip < s.n && f->n < f->max)
		f->to[f->n++] = slice_of(s.p + skip, s.n - skip);
}

size_t request_iov(const struct request *r, struct slice *ret, size_t max)
{
	struct iov_fill f = { .to = ret, .max = max, .skip = r->sent };
	struct slice out = buf_slice(&r->out);
	size_t at = 0;
	for (size_t i = 0; i < r->n_runs && f.n < max; i++) {
		iov_add(&f, slice_of(out.p + at, r->runs[i].at - at));
		iov_add(&f, r->runs[i].bytes);
		at = r->runs[i].at;
	}
	iov_add(&f, slice_of(out.p + at, out.n - at));
	return f.n;
}

size_t request_held(const struct request *r)
{
	size_t frame = buf_len(&r->frame);
	return (frame > r->lodged ? frame - r->lodged : 0) + buf_len(&r->out) + r->n_copy + r->region.used;
}

static size_t runs_unsent(const struct request *r)
{
	size_t n = 0, end = 0;
	for (size_t i = 0; i < r->n_runs; i++) {
		size_t begin = r->runs[i].at + end;
		end += r->runs[i].bytes.n;
		if (begin + r->runs[i].bytes.n > r->sent)
			n += r->runs[i].bytes.n;
	}
	return n;
}

void request_reclaim(struct topics_pieces *pieces)
{
	struct request *r = pieces->owner;
	if (r == NULL)
		return;
	must(r->magic == REQUEST_MAGIC && r->pieces == pieces && r->copy == NULL);
	size_t end = 0, n = runs_unsent(r);
	if (!conn_may_hold(r->conn, n)) {
		log_warn("no memory for the answers of slow readers, closing the connection bytes=%zu", n);
		conn_close(r->conn);
		return;
	}
	uint8_t *to = r->copy = must_calloc(1, n + 1);
	r->n_copy = n;
	for (size_t i = 0; i < r->n_runs; i++) {
		struct slice *s = &r->runs[i].bytes;
		size_t begin = r->runs[i].at + end;
		end += s->n;
		if (begin + s->n <= r->sent)
			continue;
		memcpy(to, s->p, s->n);
		s->p = to;
		to += s->n;
	}
	r->pieces = NULL;
	topics_pieces_release(pieces);
	conn_account(r->conn);
}
