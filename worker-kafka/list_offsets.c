/* SPDX-License-Identifier: Apache-2.0
 *
 * ListOffsets: ends of partitions, and where a time is. storaged names the batch, which is read and decoded here, one
 * partition after the other: the first offset whose timestamp is at or after the time, whatever their order. What made
 * storaged choose the batch may lie before the start of the log, or be nowhere but in the batch's header: then a bounded
 * number of bytes behind it is looked through. Each look decompresses a batch, so it takes a share of the loop's turn, a
 * partition is named once, and what the request's time does not suffice for is not looked for.
 */
#include "worker-kafka/api.h"

#include <stdlib.h>

#define READS_MAX 16u
#define READ_BYTES (1u << 20)           /* of a read behind the batch */

enum what { WHAT_LATEST = -1, WHAT_EARLIEST = -2, WHAT_MAX_TIMESTAMP = -3, WHAT_EARLIEST_LOCAL = -4 };

struct part {
	struct kmsg_list_offsets_response_partition *out;
	const struct kmsg_list_offsets_request_partition *in;
	struct topic_want *want;
	bool looking;                   /* into batches */
	uint64_t from;                  /* the first offset that counts in them */
	unsigned n_reads;
};

struct list {
	struct kmsg_list_offsets_response *response;
	struct topic_want *want;
	struct part *parts;
	size_t n_parts;
	size_t *asked;
	size_t n_asked;
	size_t at;                      /* the part that is looked into */
	uint64_t deadline_ms;           /* of all looks together */
	size_t decoded;                 /* bytes, in a look */
};

/* ------------------------------------------------------------------ inside batches */

static void look_next(void *arg);

static bool is_better(const struct part *p, const struct record *record)
{
	if (record->offset < p->from)
		return false;
	if (p->in->timestamp == WHAT_MAX_TIMESTAMP)
		return p->out->offset < 0 || record->timestamp_ms > p->out->timestamp;
	return record->timestamp_ms >= p->in->timestamp;
}

static void find_record(struct request *r, const struct record_batch *b, struct part *p)
{
	struct record_decoder *decoder = &r->server->decoder;
	struct list *d = r->state;
	struct record record;
	if (p->in->timestamp != WHAT_MAX_TIMESTAMP && b->max_timestamp < p->in->timestamp)
		return;
	int fault = record_decoder_open(decoder, b);
	d->decoded += b->bytes.n + buf_len(&decoder->scratch);
	if (fault != 0)
		return;
	while (record_decoder_next(decoder, &record) == 1) {
		if (!is_better(p, &record))
			continue;
		p->out->offset = (int64_t)record.offset;
		p->out->timestamp = record.timestamp_ms;
		p->out->leader_epoch = b->leader_epoch;
		if (p->in->timestamp != WHAT_MAX_TIMESTAMP)
			break;
	}
}

static void look_into(struct request *r, struct part *p, const struct topics_pieces *pieces)
{
	struct batch_cursor cursor;
	struct record_batch b;
	struct slice bytes;
	batch_cursor_init(&cursor, pieces);
	while (p->out->offset < 0 && batch_cursor_next(&cursor, &bytes) == 1 && record_batch_read(bytes, &b) == 0)
		find_record(r, &b, p);
	batch_cursor_done(&cursor);
}

/* Whether p->from is where to look now: behind what was read, or where the log begins since it was trimmed. */
static bool look_on(struct part *p, const struct pico_error *e, const Ipc__ReadAnswer *a)
{
	if (p->n_reads == READS_MAX || p->out->offset >= 0)
		return false;
	bool is_trimmed = e->kind == PICO_OUT_OF_RANGE && e->has_start_offset;
	if (!is_trimmed && (a == NULL || a->end >= a->confirm || a->end <= p->from))
		return false;
	p->from = is_trimmed ? e->start_offset : a->end;
	return true;
}

static void on_batches(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct list *d = r->state;
	struct part *p = &d->parts[d->at];
	const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)m;
	d->decoded = 0;
	if (pieces != NULL)
		look_into(r, p, pieces);
	topics_pieces_release(pieces);
	turns_end(&r->server->turns, &r->turn, d->decoded);
	if (!look_on(p, e, a)) {
		if (a == NULL)
			p->out->error_code = (int16_t)error_of(r, e->kind, ERROR_OF_RECORDS);
		d->at++;
	}
	look_next(r);
}

static void look(struct request *r, struct part *p)
{
	struct list *d = r->state;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)p->want->info->id };
	log.topic = &topic;
	log.partition = (uint32_t)p->in->partition_index;
	m.log = &log;
	m.partition_given = true;
	m.from = (int64_t)p->from;
	m.max_bytes = p->n_reads++ == 0 ? 1 : READ_BYTES;
	request_call(r, IPC_READ, &m.base, NO_PAYLOAD, d->deadline_ms, on_batches);
}

static void look_next(void *arg)
{
	struct request *r = arg;
	struct list *d = r->state;
	bool late = env_now_ms(r->server->env) >= d->deadline_ms;
	for (; d->at < d->n_parts && (late || !d->parts[d->at].looking); d->at++)
		if (d->parts[d->at].looking)
			d->parts[d->at].out->error_code = KAFKA_REQUEST_TIMED_OUT;
	if (d->at == d->n_parts) {
		request_answer(r, d->response);
		return;
	}
	if (!turns_begin(&r->server->turns, &r->turn))
		look(r, &d->parts[d->at]);
}

/* ------------------------------------------------------------------ lookup */

static void take_answer(struct request *r, struct part *p, const Ipc__LookupAnswer__Part *a)
{
	if (a->error != NULL) {
		p->out->error_code = (int16_t)lookup_error_of(r, a, p->in->current_leader_epoch);
		return;
	}
	p->out->leader_epoch = a->leader_epoch;
	if (!a->found)
		return;
	p->looking = p->in->timestamp >= 0 || p->in->timestamp == WHAT_MAX_TIMESTAMP;
	if (p->looking)
		p->from = a->offset;
	else
		p->out->offset = (int64_t)a->offset;
}

static void on_looked_up(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
			 struct topics_pieces *pieces)
{
	struct list *d = r->state;
	const Ipc__LookupAnswer *a = (const Ipc__LookupAnswer *)m;
	for (size_t i = 0; i < d->n_asked; i++) {
		struct part *p = &d->parts[d->asked[i]];
		if (a != NULL && i < a->n_part)
			take_answer(r, p, a->part[i]);
		else
			p->out->error_code = (int16_t)error_of(r, e->kind == PICO_OK ? PICO_UNAVAILABLE : e->kind, ERROR_OF_RECORDS);
	}
	look_next(r);
}

static enum kafka_error part_error(struct request *r, const struct part *p)
{
	int64_t t = p->in->timestamp;
	if (!kafka_api_serves(r->head.api, r->head.api_version))
		return KAFKA_UNSUPPORTED_VERSION;
	if (p->want->info == NULL)
		return error_of(r, p->want->kind, ERROR_OF_RECORDS);
	if (p->in->partition_index < 0 || (uint32_t)p->in->partition_index >= p->want->info->n_partitions)
		return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	if (t < WHAT_EARLIEST_LOCAL || (t == WHAT_EARLIEST_LOCAL && r->head.api_version < 8) ||
	    (t == WHAT_MAX_TIMESTAMP && r->head.api_version < 7))
		return KAFKA_INVALID_REQUEST;
	return KAFKA_NONE;
}

static void fill_part(const struct part *p, Ipc__LookupRequest__Part *to)
{
	ipc__lookup_request__part__init(to);
	to->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)p->want->info->id };
	to->partition = (uint32_t)p->in->partition_index;
	to->leader_epoch = p->in->current_leader_epoch;
	switch (p->in->timestamp) {
	case WHAT_LATEST:
		to->what = IPC__LOOKUP_REQUEST__WHAT__END;
		break;
	case WHAT_EARLIEST:
	case WHAT_EARLIEST_LOCAL:
		to->what = IPC__LOOKUP_REQUEST__WHAT__START;
		break;
	case WHAT_MAX_TIMESTAMP:
		to->what = IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP;
		break;
	default:
		to->what = IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER;
		to->timestamp_ms = p->in->timestamp;
		break;
	}
}

static int by_log(const void *a, const void *b)
{
	const struct part *x = *(const struct part *const *)a, *y = *(const struct part *const *)b;
	int order = memcmp(x->want->info->id, y->want->info->id, sizeof(x->want->info->id));
	return order != 0 ? order : (x->in->partition_index > y->in->partition_index) -
		(x->in->partition_index < y->in->partition_index);
}

/* Each part's error. Which of two questions about one partition is meant, nobody knows. False: no room. */
static bool parts_check(struct request *r)
{
	struct list *d = r->state;
	struct part **good = REQUEST_NEW(r, struct part *, d->n_parts);
	size_t n = 0;
	if (good == NULL)
		return false;
	for (size_t i = 0; i < d->n_parts; i++) {
		d->parts[i].out->error_code = (int16_t)part_error(r, &d->parts[i]);
		if (d->parts[i].out->error_code == KAFKA_NONE)
			good[n++] = &d->parts[i];
	}
	if (n > 1)
		qsort(good, n, sizeof(good[0]), by_log);
	for (size_t i = 1; i < n; i++)
		if (by_log(&good[i - 1], &good[i]) == 0)
			good[i - 1]->out->error_code = good[i]->out->error_code = KAFKA_INVALID_REQUEST;
	return true;
}

static void list_ask(struct request *r)
{
	struct list *d = r->state;
	d->deadline_ms = request_deadline(r, 0);
	r->turn = (struct turn){ .run = look_next, .arg = r };
	Ipc__LookupRequest m = IPC__LOOKUP_REQUEST__INIT;
	Ipc__LookupRequest__Part *part = REQUEST_NEW(r, Ipc__LookupRequest__Part, d->n_parts);
	m.part = REQUEST_NEW(r, Ipc__LookupRequest__Part *, d->n_parts);
	d->asked = REQUEST_NEW(r, size_t, d->n_parts);
	if (part == NULL || m.part == NULL || d->asked == NULL || !parts_check(r)) {
		request_close(r, "memory");
		return;
	}
	for (size_t i = 0; i < d->n_parts; i++) {
		struct part *p = &d->parts[i];
		if (p->out->error_code != KAFKA_NONE)
			continue;
		fill_part(p, &part[m.n_part]);
		m.part[m.n_part] = &part[m.n_part];
		d->asked[m.n_part++] = i;
	}
	d->n_asked = m.n_part;
	if (m.n_part == 0)
		request_answer(r, d->response);
	else
		request_call(r, IPC_LOOKUP, &m.base, NO_PAYLOAD, d->deadline_ms, on_looked_up);
}

/* ------------------------------------------------------------------ begin */

static bool take_topic(struct request *r, const struct kmsg_list_offsets_request_topic *from, struct topic_want *want,
		       struct kmsg_list_offsets_response_topic *to)
{
	struct list *d = r->state;
	struct kmsg_list_offsets_response_partition *out =
		KMSG_NEW(&r->region, list_offsets_response_partition, from->n_partitions);
	if (out == NULL)
		return false;
	to->name = want->name = from->name;
	to->partitions = out;
	to->n_partitions = from->n_partitions;
	for (uint32_t i = 0; i < from->n_partitions; i++) {
		out[i].partition_index = from->partitions[i].partition_index;
		d->parts[d->n_parts++] = (struct part){ .out = &out[i], .in = &from->partitions[i], .want = want };
	}
	return true;
}

static bool list_begin(struct request *r)
{
	const struct kmsg_list_offsets_request *q = r->message;
	struct list *d = r->state = REQUEST_NEW(r, struct list, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partitions;
	if (d == NULL)
		return false;
	d->response = KMSG_NEW(&r->region, list_offsets_response, 1);
	d->want = REQUEST_NEW(r, struct topic_want, q->n_topics);
	d->parts = REQUEST_NEW(r, struct part, n);
	struct kmsg_list_offsets_response_topic *topics = KMSG_NEW(&r->region, list_offsets_response_topic, q->n_topics);
	if (d->response == NULL || d->want == NULL || d->parts == NULL || topics == NULL)
		return false;
	d->response->topics = topics;
	d->response->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics; i++)
		if (!take_topic(r, &q->topics[i], &d->want[i], &topics[i]))
			return false;
	return true;
}

void list_offsets_handle(struct request *r)
{
	const struct kmsg_list_offsets_request *q = r->message;
	if (!list_begin(r)) {
		request_close(r, "memory");
		return;
	}
	if (!kafka_api_serves(r->head.api, r->head.api_version))
		list_ask(r);
	else
		topic_cache_resolve(r, ((struct list *)r->state)->want, q->n_topics, list_ask);
}
