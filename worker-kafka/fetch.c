/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetch: one call for any number of partitions, parked in storaged until there is enough or the time is over. The
 * batches are written from storaged's memory. An answer holds at most conn-buffer-size of them but for the first, so
 * that what has to be copied when storaged wants its memory back is bounded. What follows is read ahead
 * (fetch_ahead.c). Of a session only what changed is named and told (fetch_session.c).
 */
#include "worker-kafka/api.h"
#include "worker-kafka/conn.h"
#include "worker-kafka/fetch_ahead.h"
#include "worker-kafka/fetch_session.h"

#define PARTS_MAX 50000
#define WAIT_MAX_MS 120000             /* whatever the client asks for */
#define BYTES_MAX (55u << 20)           /* of batches in an answer, but for the first */
#define NO_WAIT_MS 1000                 /* for an answer that does not park */
#define BY_ID 13

struct part {
	struct kmsg_fetch_response_partition *out;
	const struct kmsg_fetch_request_partition *in;
	struct topic_want *want;        /* NULL: by id */
	const uint8_t *id;
};

struct fetch {
	struct fetch_plan plan;
	struct kmsg_fetch_response *response;
	struct topic_want *want;
	struct part *parts;
	size_t n_parts;
	size_t *asked;                  /* parts of the call */
	size_t n_asked;
	struct external *external;
	size_t n_external;
	uint32_t min_bytes, max_bytes;  /* of the call */
};

static bool is_by_id(const struct request *r)
{
	return r->head.api_version >= BY_ID;
}

static void part_fail(struct part *p, enum kafka_error error)
{
	p->out->error_code = (int16_t)error;
}

/* ------------------------------------------------------------------ answer */

static void fetch_answer(struct request *r, struct topics_pieces *pieces)
{
	struct fetch *d = r->state;
	fetch_session_answer(r, &d->plan, d->response);
	request_answer_pieces(r, d->response, d->n_external, pieces);
}

static enum kafka_error fetch_error(struct request *r, const struct part *p, const struct pico_error *e, int32_t epoch)
{
	int32_t known = p->in->current_leader_epoch;
	if (e->kind == PICO_FENCED)
		return KAFKA_FENCED_LEADER_EPOCH;
	if (e->kind == PICO_UNAVAILABLE && known >= 0 && epoch < known)
		return KAFKA_UNKNOWN_LEADER_EPOCH;
	return error_of(r, e->kind, is_by_id(r) ? ERROR_OF_RECORDS_BY_ID : ERROR_OF_RECORDS);
}

static void take_records(struct fetch *d, struct part *p, const Ipc__FetchAnswer__Part *a,
			 const struct topics_pieces *pieces)
{
	if (a->n_pieces == 0 || pieces == NULL)
		return;
	struct external *e = &d->external[d->n_external++];
	*e = (struct external){ a->first_piece, a->n_pieces };
	uint64_t n = 0;
	for (uint32_t i = 0; i < a->n_pieces; i++)
		n += pieces->piece[a->first_piece + i].n;
	p->out->records = (struct kmsg_records){ .n_external = (uint32_t)n, .external = e };
}

static void take_answer(struct request *r, const Ipc__FetchAnswer__Part *a, const struct topics_pieces *pieces)
{
	struct fetch *d = r->state;
	if (a->index >= d->n_asked)
		return;
	struct part *p = &d->parts[d->asked[a->index]];
	bool knows_log = a->confirm > 0 || a->error == NULL;
	if (knows_log) {
		p->out->high_watermark = p->out->last_stable_offset = (int64_t)a->confirm;
		p->out->log_start_offset = (int64_t)a->start;
	}
	if (a->error != NULL) {
		struct pico_error e;
		ipc_error_read(a->error, &e);
		part_fail(p, fetch_error(r, p, &e, a->leader_epoch));
		return;
	}
	if (d->n_external < d->n_asked)
		take_records(d, p, a, pieces);
}

static void part_ask(const struct part *p, uint64_t offset, Ipc__FetchRequest__Part *to)
{
	ipc__fetch_request__part__init(to);
	to->topic_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *)(uintptr_t)p->id };
	to->partition = (uint32_t)p->in->partition;
	to->offset = offset;
	to->max_bytes = p->in->partition_max_bytes > 0 ? (uint32_t)p->in->partition_max_bytes : 0;
	to->leader_epoch = p->in->current_leader_epoch;
}

/* The next fetch of who reads one partition and has not come to its end. Before the answer: so it leaves first. */
static void ask_ahead(struct request *r, const Ipc__FetchAnswer *a)
{
	const struct fetch *d = r->state;
	Ipc__FetchRequest m = IPC__FETCH_REQUEST__INIT;
	Ipc__FetchRequest__Part part, *list = &part;
	if (a == NULL || a->n_part != 1 || d->n_parts != 1 || d->min_bytes > 1)
		return;
	const Ipc__FetchAnswer__Part *found = a->part[0];
	if (found->end == 0 || found->end >= found->confirm)
		return;
	part_ask(d->parts, found->end, &part);
	m.part = &list;
	m.n_part = 1;
	m.max_bytes = d->max_bytes;
	m.deadline_ms = env_now_ms(r->server->env) + NO_WAIT_MS;
	fetch_ahead_begin(conn_ahead(r->conn), &m);
}

static void on_fetched(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct fetch *d = r->state;
	const Ipc__FetchAnswer *a = (const Ipc__FetchAnswer *)m;
	for (size_t i = 0; a == NULL && i < d->n_asked; i++)
		part_fail(&d->parts[d->asked[i]], fetch_error(r, &d->parts[d->asked[i]], e, INT32_MAX));
	for (size_t i = 0; a != NULL && i < a->n_part; i++)
		take_answer(r, a->part[i], pieces);
	ask_ahead(r, a);
	fetch_answer(r, pieces);
}

/* ------------------------------------------------------------------ ask */

/* What can be said without storaged. */
static enum kafka_error part_error(struct request *r, struct part *p)
{
	if (!kafka_api_serves(r->head.api, r->head.api_version))
		return KAFKA_UNSUPPORTED_VERSION;
	if (p->want != NULL && p->want->info == NULL)
		return error_of(r, p->want->kind, ERROR_OF_RECORDS);
	if (p->in->partition < 0 || (p->want != NULL && (uint32_t)p->in->partition >= p->want->info->n_partitions))
		return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	if (p->in->fetch_offset < 0)
		return KAFKA_OFFSET_OUT_OF_RANGE;
	if (p->want != NULL)
		p->id = p->want->info->id;
	return KAFKA_NONE;
}

static bool fill_parts(struct request *r, Ipc__FetchRequest *m, bool *ret_all_good)
{
	struct fetch *d = r->state;
	Ipc__FetchRequest__Part *part = REQUEST_NEW(r, Ipc__FetchRequest__Part, d->n_parts);
	m->part = REQUEST_NEW(r, Ipc__FetchRequest__Part *, d->n_parts);
	d->asked = REQUEST_NEW(r, size_t, d->n_parts);
	d->external = REQUEST_NEW(r, struct external, d->n_parts);
	if (part == NULL || m->part == NULL || d->asked == NULL || d->external == NULL)
		return false;
	for (size_t i = 0; i < d->n_parts; i++) {
		struct part *p = &d->parts[i];
		enum kafka_error error = part_error(r, p);
		if (error != KAFKA_NONE) {
			*ret_all_good = false;
			part_fail(p, error);
			continue;
		}
		Ipc__FetchRequest__Part *to = m->part[m->n_part] = &part[m->n_part];
		part_ask(p, (uint64_t)p->in->fetch_offset, to);
		d->asked[m->n_part++] = i;
	}
	d->n_asked = m->n_part;
	return true;
}

static void fetch_ask(struct request *r)
{
	const struct kmsg_fetch_request *q = r->message;
	struct fetch *d = r->state;
	Ipc__FetchRequest m = IPC__FETCH_REQUEST__INIT;
	uint64_t most = r->server->conf->conn_buffer_size < BYTES_MAX ? r->server->conf->conn_buffer_size : BYTES_MAX, wait;
	bool parks = q->max_wait_ms > 0 && q->min_bytes > 0 && !r->server->draining;
	if (!fill_parts(r, &m, &parks)) {
		request_close(r, "memory");
		return;
	}
	if (m.n_part == 0) {
		fetch_answer(r, NULL);
		return;
	}
	m.max_bytes = q->max_bytes <= 0 ? 1 : (uint64_t)q->max_bytes < most ? (uint32_t)q->max_bytes : (uint32_t)most;
	m.min_bytes = parks ? (uint32_t)q->min_bytes : 0;
	d->max_bytes = m.max_bytes;
	d->min_bytes = m.min_bytes;
	if (fetch_ahead_take(conn_ahead(r->conn), r, &m, on_fetched))
		return;
	wait = parks && q->max_wait_ms < WAIT_MAX_MS ? (uint64_t)q->max_wait_ms : parks ? WAIT_MAX_MS : NO_WAIT_MS;
	request_call(r, IPC_FETCH, &m.base, NO_PAYLOAD, env_now_ms(r->server->env) + wait, on_fetched);
}

void fetch_drain(struct request *r)
{
	if (r->call == NULL)
		return;
	topics_abandon(r->call);
	r->call = NULL;
	fetch_answer(r, NULL);
}

/* ------------------------------------------------------------------ begin */

static bool take_topic(struct request *r, const struct kmsg_fetch_request_topic *from, struct topic_want *want,
		       struct kmsg_fetch_response_topic *to)
{
	struct fetch *d = r->state;
	struct kmsg_fetch_response_partition *out = KMSG_NEW(&r->region, fetch_response_partition, from->n_partitions);
	if (out == NULL)
		return false;
	to->topic = want->name = from->topic;
	to->topic_id = from->topic_id;
	to->partitions = out;
	to->n_partitions = from->n_partitions;
	for (uint32_t i = 0; i < from->n_partitions; i++) {
		out[i].partition_index = from->partitions[i].partition;
		out[i].high_watermark = out[i].last_stable_offset = out[i].log_start_offset = -1;
		d->parts[d->n_parts++] = (struct part){ .out = &out[i], .in = &from->partitions[i],
							.want = is_by_id(r) ? NULL : want, .id = from->topic_id.bytes };
	}
	return true;
}

static bool fetch_begin(struct request *r, const struct fetch_plan *q)
{
	struct fetch *d = r->state = REQUEST_NEW(r, struct fetch, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partitions;
	if (d == NULL || n > PARTS_MAX)
		return false;
	d->plan = *q;
	d->response = KMSG_NEW(&r->region, fetch_response, 1);
	d->want = REQUEST_NEW(r, struct topic_want, q->n_topics);
	d->parts = REQUEST_NEW(r, struct part, n);
	struct kmsg_fetch_response_topic *topics = KMSG_NEW(&r->region, fetch_response_topic, q->n_topics);
	if (d->response == NULL || d->want == NULL || d->parts == NULL || topics == NULL)
		return false;
	d->response->responses = topics;
	d->response->n_responses = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics; i++)
		if (!take_topic(r, &q->topics[i], &d->want[i], &topics[i]))
			return false;
	return true;
}

static void answer_error(struct request *r, enum kafka_error error)
{
	struct kmsg_fetch_response *m = KMSG_NEW(&r->region, fetch_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)error;
	request_answer(r, m);
}

void fetch_handle(struct request *r)
{
	struct fetch_plan plan;
	enum kafka_error error = fetch_session_plan(r, &plan);
	if (error != KAFKA_NONE) {
		answer_error(r, error);
		return;
	}
	if ((plan.topics == NULL && plan.id != 0) || !fetch_begin(r, &plan)) {
		request_close(r, "too many partitions");
		return;
	}
	struct fetch *d = r->state;
	if (is_by_id(r) || !kafka_api_serves(r->head.api, r->head.api_version))
		fetch_ask(r);
	else
		topic_cache_resolve(r, d->want, plan.n_topics, fetch_ask);
}
