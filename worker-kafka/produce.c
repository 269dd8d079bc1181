/* SPDX-License-Identifier: Apache-2.0
 *
 * Produce: the batches of all partitions go to storaged in one call, as they came. What storaged does not look into is
 * checked here: every record is decoded once, in turns with other connections (turns.h). acks=1 and acks=all are the
 * same; acks=0 has no answer, and its errors end the connection. A topic that changed meanwhile is looked up again and its
 * parts are submitted again, unless a later request of the connection would have overtaken them: then the client is told
 * to try again.
 */
#include "worker-kafka/api.h"

#include <errno.h>

#include "worker-kafka/conn.h"

#define TRIES_MAX 3
#define PARTS_MAX 10000
#define MAGIC_AT 16             /* in a batch */
#define CRC_AT 17
#define CODEC_AT 22             /* the lower byte of the attributes */
#define OLD_VERSION_MAX 2

struct part {
	struct kmsg_produce_response_partition *out;
	struct topic_want *want;
	struct slice batch;
	bool open;                      /* not answered yet */
	bool again;                     /* its topic is looked up again */
};

struct produce {
	struct kmsg_produce_response *response;
	struct part *parts;
	size_t n_parts;
	struct topic_want *want;
	size_t n_want;
	size_t *submitted;              /* parts of the call under way */
	size_t n_submitted;
	size_t n_checked;               /* parts, in order */
	uint64_t deadline_ms;           /* of the checks */
	unsigned tries;
};

static void part_fail(struct part *p, enum kafka_error error, struct slice text)
{
	p->open = false;
	p->out->error_code = (int16_t)error;
	p->out->base_offset = -1;
	p->out->error_message = text;
}

/* ------------------------------------------------------------------ checks */

static enum kafka_error records_error(struct server *s, const struct record_batch *b)
{
	int fault = record_decoder_validate_produced(&s->decoder, b, NULL);
	turns_spend(&s->turns, b->bytes.n + buf_len(&s->decoder.scratch));
	switch (fault) {
	case 0: return KAFKA_NONE;
	case -E2BIG: return KAFKA_MESSAGE_TOO_LARGE;
	case -ENOBUFS: return KAFKA_KAFKA_STORAGE_ERROR;
	default: return KAFKA_INVALID_RECORD;
	}
}

/* Of a batch that is as long as it says, by what stands in it. */
static enum kafka_error content_error(struct server *s, struct slice bytes)
{
	struct record_batch b;
	if ((bytes.p[CODEC_AT] & BATCH_CODEC_MASK) > CODEC_ZSTD)
		return KAFKA_UNSUPPORTED_COMPRESSION_TYPE;
	if (record_batch_read(bytes, &b) < 0 || (b.attributes & BATCH_CONTROL))
		return KAFKA_INVALID_RECORD;
	if (b.producer_id >= 0 && (b.producer_epoch < 0 || b.base_sequence < 0))
		return KAFKA_INVALID_RECORD;
	if (b.attributes & BATCH_TRANSACTIONAL)
		return KAFKA_INVALID_TXN_STATE;
	if (b.attributes & BATCH_LOG_APPEND_TIME) /* the node's to say */
		return KAFKA_INVALID_TIMESTAMP;
	return records_error(s, &b);
}

static bool crc_is_good(struct slice bytes)
{
	struct record_batch b = { .bytes = bytes, .crc = get_be32(bytes.p + CRC_AT) };
	return record_batch_crc_is_good(&b);
}

/* A good batch's CRC is storaged's to check. A bad one explains whatever else is wrong: the producer sends it again. */
static enum kafka_error batch_error(struct server *s, struct slice bytes, const struct topic_info *info)
{
	if (bytes.n > MAGIC_AT && bytes.p[MAGIC_AT] < 2)
		return KAFKA_UNSUPPORTED_FOR_MESSAGE_FORMAT;
	if (bytes.n > info->max_message_bytes)
		return KAFKA_MESSAGE_TOO_LARGE;
	if (bytes.n == 0 || record_batch_size(bytes) != (int64_t)bytes.n || bytes.p[MAGIC_AT] > 2)
		return KAFKA_INVALID_RECORD;
	enum kafka_error error = content_error(s, bytes);
	return error != KAFKA_NONE && !crc_is_good(bytes) ? KAFKA_CORRUPT_MESSAGE : error;
}

/* What holds for all of the request. */
static enum kafka_error request_error(const struct request *r)
{
	const struct kmsg_produce_request *q = r->message;
	if (r->head.api_version <= OLD_VERSION_MAX)
		return KAFKA_UNSUPPORTED_VERSION;
	if (q->transactional_id.p != NULL)
		return KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
	if (q->acks < -1 || q->acks > 1)
		return KAFKA_INVALID_REQUIRED_ACKS;
	return KAFKA_NONE;
}

/* A part whose topic is known. */
static void part_check(struct request *r, struct part *p)
{
	const struct topic_info *info = p->want->info;
	enum kafka_error error;
	if (info == NULL)
		error = error_of(r, p->want->kind, ERROR_OF_RECORDS);
	else if (p->out->index < 0 || (uint32_t)p->out->index >= info->n_partitions)
		error = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	else
		error = batch_error(r->server, p->batch, info);
	if (error != KAFKA_NONE)
		part_fail(p, error, slice_of(NULL, 0));
}

/* ------------------------------------------------------------------ end */

static void produce_end(struct request *r)
{
	struct produce *d = r->state;
	const struct kmsg_produce_request *q = r->message;
	if (q->acks != 0) {
		request_answer(r, d->response);
		return;
	}
	for (size_t i = 0; i < d->n_parts; i++) {
		if (d->parts[i].out->error_code == KAFKA_NONE)
			continue;
		request_close(r, kafka_error_name(d->parts[i].out->error_code));
		return;
	}
	request_finish_silent(r);
}

/* ------------------------------------------------------------------ submit */

static void produce_known(struct request *r);

static void look_up_again(struct request *r)
{
	struct produce *d = r->state;
	for (size_t i = 0; i < d->n_parts; i++)
		if (d->parts[i].again)
			topic_cache_drop(r->server->cache, d->parts[i].want->name);
	r->holds = true;
	r->lodged = 0;
	d->tries++;
	topic_cache_resolve(r, d->want, d->n_want, produce_known);
}

/* What is submitted again comes behind what its connection sent later and is not refused for the same reason: under newer
 * settings of the topic, or about to learn of them. */
static bool keeps_order(const struct request *r, const struct topic_want *want)
{
	const struct request *q = r->next;
	if (q == NULL || !q->started)
		return true;
	for (; q != NULL && q->started; q = q->next)
		if (q->holds)
			return false;
	return !topic_cache_has_news(r->server->cache, want->name, want->info);
}

static void take_error(struct request *r, struct part *p, const struct pico_error *e)
{
	struct produce *d = r->state;
	p->again = (e->kind == PICO_STALE_TOPIC || e->kind == PICO_NOT_FOUND || e->kind == PICO_NO_PARTITION) &&
		   d->tries < TRIES_MAX && keeps_order(r, p->want);
	if (p->again)
		return;
	part_fail(p, error_of(r, e->kind, ERROR_OF_RECORDS), region_copy(&r->region, slice_str(e->message)));
}

static void take_answer(struct request *r, struct part *p, const Ipc__SubmitAnswer__Part *a)
{
	struct pico_error e;
	if (a->error != NULL) {
		ipc_error_read(a->error, &e);
		take_error(r, p, &e);
		return;
	}
	p->open = false;
	p->out->base_offset = (int64_t)a->base_offset;
	p->out->log_append_time_ms = a->log_append_time_ms;
	p->out->log_start_offset = (int64_t)a->log_start;
}

static void on_submitted(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
			 struct topics_pieces *pieces)
{
	struct produce *d = r->state;
	const Ipc__SubmitAnswer *a = (const Ipc__SubmitAnswer *)m;
	bool again = false;
	for (size_t i = 0; i < d->n_submitted; i++) {
		struct part *p = &d->parts[d->submitted[i]];
		static const struct pico_error missing = { .kind = PICO_DURABILITY };
		if (a == NULL)
			take_error(r, p, e);
		else if (i < a->n_part)
			take_answer(r, p, a->part[i]);
		else
			take_error(r, p, &missing);
		again |= p->again;
	}
	if (again)
		look_up_again(r);
	else
		produce_end(r);
}

static bool submit_fill(struct request *r, size_t n, Ipc__SubmitRequest *m, struct slice **ret_runs)
{
	struct produce *d = r->state;
	Ipc__SubmitRequest__Part *part = REQUEST_NEW(r, Ipc__SubmitRequest__Part, n);
	Ipc__SubmitRequest__Part **list = REQUEST_NEW(r, Ipc__SubmitRequest__Part *, n);
	struct slice *runs = *ret_runs = REQUEST_NEW(r, struct slice, n);
	size_t bytes = 0;
	d->submitted = REQUEST_NEW(r, size_t, n);
	if (part == NULL || list == NULL || runs == NULL || d->submitted == NULL)
		return false;
	m->part = list;
	for (size_t i = 0; i < d->n_parts; i++) {
		const struct part *p = &d->parts[i];
		if (!p->open)
			continue;
		Ipc__SubmitRequest__Part *to = list[m->n_part] = &part[m->n_part];
		ipc__submit_request__part__init(to);
		to->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)p->want->info->id };
		to->partition = (uint32_t)p->out->index;
		to->length = (uint32_t)p->batch.n;
		to->settings_version = p->want->info->settings_version;
		to->log_append_time = p->want->info->log_append_time;
		runs[m->n_part] = p->batch;
		bytes += p->batch.n;
		d->submitted[m->n_part++] = i;
	}
	d->n_submitted = m->n_part;
	r->lodged = bytes;
	return true;
}

/* All parts are checked. */
static void produce_submit(struct request *r)
{
	struct produce *d = r->state;
	Ipc__SubmitRequest m = IPC__SUBMIT_REQUEST__INIT;
	struct slice *runs;
	size_t n = 0;
	for (size_t i = 0; i < d->n_parts; i++)
		n += d->parts[i].open;
	r->holds = false;
	if (n == 0) {
		produce_end(r);
	} else if (n > PARTS_MAX || !submit_fill(r, n, &m, &runs)) {
		request_close(r, "too many partitions");
	} else {
		const struct kmsg_produce_request *q = r->message;
		request_call(r, IPC_SUBMIT, &m.base, (struct topics_payload){ runs, n },
			     request_deadline(r, q->timeout_ms), on_submitted);
		conn_wake(r->conn);     /* those that it held back */
	}
}

/* Goes on with the checks until the share of the turn is spent, or the time of the request is over. */
static void produce_check(void *arg)
{
	struct request *r = arg;
	struct produce *d = r->state;
	for (; d->n_checked < d->n_parts; d->n_checked++) {
		struct part *p = &d->parts[d->n_checked];
		if (!p->open || (d->tries > 0 && !p->again))
			continue;
		if (turns_wait(&r->server->turns, &r->turn))
			return;
		if (env_now_ms(r->server->env) < d->deadline_ms)
			part_check(r, p);
		else
			part_fail(p, error_of(r, PICO_UNAVAILABLE, ERROR_OF_RECORDS),
				  slice_str("there was no time to check the batch; nothing was written"));
		p->again = false;
	}
	produce_submit(r);
}

/* All topics are known now, or why not. */
static void produce_known(struct request *r)
{
	struct produce *d = r->state;
	const struct kmsg_produce_request *q = r->message;
	d->n_checked = 0;
	d->deadline_ms = request_deadline(r, q->timeout_ms);
	r->turn = (struct turn){ .run = produce_check, .arg = r };
	produce_check(r);
}

/* ------------------------------------------------------------------ begin */

static bool take_topic(struct request *r, const struct kmsg_produce_request_topic *from, struct topic_want *want,
		       struct kmsg_produce_response_topic *to)
{
	struct produce *d = r->state;
	struct kmsg_produce_response_partition *out = KMSG_NEW(&r->region, produce_response_partition, from->n_partition_data);
	if (out == NULL)
		return false;
	to->name = want->name = from->name;
	to->partition_responses = out;
	to->n_partition_responses = from->n_partition_data;
	for (uint32_t i = 0; i < from->n_partition_data; i++) {
		out[i].index = from->partition_data[i].index;
		d->parts[d->n_parts++] = (struct part){ .out = &out[i], .want = want, .open = true,
							.batch = from->partition_data[i].records.bytes };
	}
	return true;
}

static bool produce_begin(struct request *r)
{
	const struct kmsg_produce_request *q = r->message;
	struct produce *d = r->state = REQUEST_NEW(r, struct produce, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topic_data; i++)
		n += q->topic_data[i].n_partition_data;
	if (d == NULL)
		return false;
	d->response = KMSG_NEW(&r->region, produce_response, 1);
	d->parts = REQUEST_NEW(r, struct part, n);
	d->want = REQUEST_NEW(r, struct topic_want, q->n_topic_data);
	struct kmsg_produce_response_topic *topics = KMSG_NEW(&r->region, produce_response_topic, q->n_topic_data);
	if (d->response == NULL || d->parts == NULL || d->want == NULL || topics == NULL)
		return false;
	d->response->responses = topics;
	d->response->n_responses = q->n_topic_data;
	d->n_want = q->n_topic_data;
	for (uint32_t i = 0; i < q->n_topic_data; i++)
		if (!take_topic(r, &q->topic_data[i], &d->want[i], &topics[i]))
			return false;
	return true;
}

void produce_handle(struct request *r)
{
	if (!produce_begin(r)) {
		request_close(r, "memory");
		return;
	}
	struct produce *d = r->state;
	enum kafka_error error = request_error(r);
	if (error != KAFKA_NONE) {
		for (size_t i = 0; i < d->n_parts; i++)
			part_fail(&d->parts[i], error, error != KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED ?
				  slice_of(NULL, 0) : slice_str("transactions are not supported"));
		produce_end(r);
		return;
	}
	r->holds = true;
	topic_cache_resolve(r, d->want, d->n_want, produce_known);
}
