/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/server.h"

#define RECORD_OVERHEAD 80              /* of a stored record alone in its batch */
#define OVERHEAD_BYTES (1024 * RECORD_OVERHEAD)
#define GATHER_MAX 32                   /* reads for one answer's end: storaged gives a cold log in small runs */

static const char *const format_names[] = {
	[FORMAT_JSON] = "json", [FORMAT_RAW] = "raw", [FORMAT_BINARY] = "binary", [FORMAT_VALUES] = "values",
};

bool reader_is_up_to_date(const struct reader *reader)
{
	return reader->range.end >= reader->confirm;
}

bool reader_is_at_end(const struct reader *reader)
{
	return reader->closed && reader_is_up_to_date(reader);
}

void reader_limits(const struct request *r, struct encode_limits *ret_limits)
{
	const struct conf *conf = r->server->conf;
	*ret_limits = (struct encode_limits){
		.count = READER_COUNT_MAX, .bytes = conf->max_chunk_size, .decoded = conf->max_decompressed_size,
	};
}

/* ------------------------------------------------------------------ calls */

static void fill_log(struct request *r, Ipc__LogRef *log, Ipc__TopicRef *topic)
{
	static const uint8_t none[16];
	struct reader *reader = r->state;
	*log = (Ipc__LogRef)IPC__LOG_REF__INIT;
	*topic = (Ipc__TopicRef)IPC__TOPIC_REF__INIT;
	topic->name = request_name(r);
	if (memcmp(reader->topic_id, none, 16) != 0)
		topic->topic_id = (ProtobufCBinaryData){ .data = reader->topic_id, .len = 16 };
	log->topic = topic;
	log->partition = reader->partition;
}

/* Enough stored bytes for the records of the limits, most times. */
static uint32_t bytes_wanted(const struct reader *reader)
{
	const struct encode_limits *limits = &reader->limits;
	uint64_t overhead = limits->count > 0 && limits->count < 1024 ? limits->count : 1024;
	uint64_t left = limits->bytes > reader->range.bytes ? limits->bytes - reader->range.bytes : 0;
	return (uint32_t)(left + overhead * RECORD_OVERHEAD);
}

/* Records are encoded before a callback returns, so that one cache serves all requests. */
static struct batch_cache *shared_cache(const struct server *s)
{
	static struct batch_cache cache;
	if (cache.cap != s->conf->max_decompressed_size) {
		batch_cache_done(&cache);
		batch_cache_init(&cache, s->conf->max_decompressed_size);
	}
	return &cache;
}

/* What came with the last READ has been decoded, if need be. */
static void read_over(struct request *r)
{
	struct server *s = r->server;
	uint64_t decoded = shared_cache(s)->decoded, n = decoded - s->decoded;
	s->decoded = decoded;
	if (r->turn.open)
		turns_end(&s->turns, &r->turn, n);
	else
		turns_spend(&s->turns, n);
}

static void read_now(struct request *r)
{
	struct reader *reader = r->state;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	fill_log(r, &log, &topic);
	m.log = &log;
	m.partition_given = reader->partition_given;
	m.from = reader->next.from.from;
	m.from_end = reader->next.from.tail;
	m.max_bytes = reader->next.max_bytes;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_READ, &m.base, slice_of(NULL, 0), m.deadline_ms, reader->next.cb);
}

static void on_turn(void *arg)
{
	struct request *r = arg;
	must(r->magic == REQUEST_MAGIC && r->call == NULL);
	if (!turns_begin(&r->server->turns, &r->turn))
		read_now(r);
}

static void call_read(struct request *r, struct position from, uint32_t max_bytes, topics_cb *cb)
{
	struct reader *reader = r->state;
	read_over(r);
	reader->next.from = from;
	reader->next.max_bytes = max_bytes;
	reader->next.cb = cb;
	read_now(r);
}

/* ------------------------------------------------------------------ the entity tag */

static void format_etag(const struct reader *reader, char etag[160])
{
	char id[33] = "";
	for (size_t i = 0; i < 16; i++)
		snprintf(id + 2 * i, 3, "%02x", reader->topic_id[i]);
	snprintf(etag, 160, "\"%s:%u:%s:%" PRIu64 ":%" PRIu64 "%s\"", id, reader->partition,
		 format_names[reader->format], reader->from, reader->range.end, reader_is_at_end(reader) ? ":c" : "");
}

bool reader_not_modified(struct request *r)
{
	char etag[160];
	format_etag(r->state, etag);
	answer_field(r, "ETag", etag);
	if (!etag_matches(request_field(r, "if-none-match"), slice_str(etag)))
		return false;
	buf_reset(&r->answer.body, 0);
	answer_send_empty(r, 304);
	return true;
}

/* ------------------------------------------------------------------ the body */

static struct encode_source source_of(const struct request *r, const struct topics_pieces *pieces)
{
	static const struct topics_pieces none;
	const struct reader *reader = r->state;
	struct encode_source source = { .pieces = pieces != NULL ? pieces : &none, .cache = shared_cache(r->server) };
	source.log.partition = reader->partition;
	memcpy(source.log.topic_id, reader->topic_id, sizeof(source.log.topic_id));
	return source;
}

/*
 * Batches that must be decompressed, which may make them a hundred times as large, are so in turns with those of others: true
 * when it is not ours. The pieces are given back then, and read again when it has come.
 */
static bool is_put_off(struct request *r, struct topics_pieces *pieces, uint64_t from)
{
	struct encode_source source = source_of(r, pieces);
	if (pieces == NULL || r->turn.open || !turns_is_busy(&r->server->turns) || !encode_must_decompress(&source, from))
		return false;
	topics_pieces_release(pieces);
	r->turn.run = on_turn;
	r->turn.arg = r;
	on_turn(r);
	return true;
}

static struct buf *scratch_buf(void)
{
	static struct buf scratch = { .max = SIZE_MAX / 4 };
	return &scratch;
}

/* What an encoder put is data of an event. The scratch is empty afterwards. */
static void wrap(struct reader *reader, struct buf *out)
{
	sse_put(&reader->data, buf_slice(scratch_buf()), out);
	buf_reset(scratch_buf(), SIZE_MAX);
}

/*
 * Adds what stands in pieces to out, up to a piece of the body. *ret_full: it stopped there, else where the pieces or
 * the records to show end. 0 or negative.
 */
static int encode_more(struct request *r, const struct topics_pieces *pieces, struct buf *out, bool *ret_full)
{
	struct encode_source source = source_of(r, pieces);
	struct reader *reader = r->state;
	struct buf *to = reader->events ? scratch_buf() : out;
	size_t max = request_piece_max(r);
	if (reader->events)
		max = buf_len(out) < max ? (max - buf_len(out)) / SSE_GROWTH : 0;
	int done = encoder_run(&reader->encoder, &source, to, max);
	*ret_full = buf_len(to) >= max;
	if (reader->events)
		wrap(reader, out);
	return done < 0 ? done : 0;
}

static void finish(struct request *r)
{
	struct reader *reader = r->state;
	struct buf *out = &r->answer.body, *end = scratch_buf();
	char id[24];
	encoder_finish(&reader->encoder, reader->events ? end : out);
	if (!reader->events)
		return;
	if (buf_len(end) > 0 && buf_head(end)[buf_len(end) - 1] == '\n') /* would be an empty line of data */
		end->end--;
	wrap(reader, out);
	snprintf(id, sizeof(id), "%" PRIu64, reader->range.end);
	sse_end(&reader->data, reader->event_ids ? id : NULL, out);
	reader->in_event = false;
	reader->ops->control(r, out);
}

/* What is read stands in `ahead` until the socket has taken the piece before. */
static void on_more(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		    struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct reader *reader = r->state;
	const struct encoder before = reader->encoder, *now = &reader->encoder;
	bool full;
	r->call = NULL;
	if (is_put_off(r, pieces, before.offset))
		return;
	reader->is_gone = error->kind != PICO_OK || encode_more(r, pieces, &r->answer.ahead, &full) < 0 ||
		(now->offset == before.offset && now->field == before.field && now->byte == before.byte);
	if (pieces != NULL)
		topics_pieces_release(pieces);
	read_over(r);
	answer_ahead(r);
}

static void send_piece(struct request *r)
{
	struct reader *reader = r->state;
	bool ended = reader->encoder.offset >= reader->range.end;
	if (ended)
		finish(r);
	answer_more(r, ended && !reader->events);
	if (ended && reader->events && reader_is_at_end(reader))
		answer_more(r, true);
	if (!ended && !r->is_head)
		call_read(r, (struct position){ .from = (int64_t)reader->encoder.offset },
			  (uint32_t)request_piece_max(r) + OVERHEAD_BYTES, on_more);
}

static void next_event(struct request *r);

/* The memory of the two pieces changes places, so neither grows again. */
static void produce(struct request *r)
{
	const struct reader *reader = r->state;
	if (reader->is_gone) {
		answer_break(r);
		return;
	}
	if (reader->events && !reader->in_event) {
		next_event(r);
		return;
	}
	struct buf sent = r->answer.body;
	r->answer.body = r->answer.ahead;
	r->answer.ahead = sent;
	buf_reset(&r->answer.ahead, SIZE_MAX);
	send_piece(r);
}

/* Records do not come with it. */
static void send_control(struct request *r)
{
	struct reader *reader = r->state;
	reader->ops->control(r, &r->answer.body);
	answer_more(r, false);
	if (reader_is_at_end(reader))
		answer_more(r, true);
}

void reader_send(struct request *r, const char *content_type)
{
	struct reader *reader = r->state;
	bool has_length = reader->format == FORMAT_RAW && !reader->events;
	answer_field(r, "Content-Type", content_type);
	answer_begin_stream(r, 200, has_length, reader->range.value_bytes);
	r->produce = produce;
	if (reader->in_event || !reader->events) {
		send_piece(r);
		return;
	}
	send_control(r);
}

/* ------------------------------------------------------------------ gathering */

static void answer_unreadable(struct request *r, int fault)
{
	buf_reset(&r->answer.body, 0);
	answer_error(r, 500, "internal", fault == -E2BIG ? "a stored batch is larger than --max-decompressed-size" :
		     "a stored batch cannot be read", NULL);
}

static void answer_gathered(struct request *r)
{
	struct reader *reader = r->state;
	encoder_count(&reader->encoder, &r->answer.body, reader->range.n_records);
	reader->encoder.end = reader->range.end;
	if (r->answer.status == 0)
		reader->ops->records(r);
	else
		send_piece(r);
}

/* Counts and encodes what this answer brought. 0 or negative. */
static int gather(struct request *r, const Ipc__ReadAnswer *a, const struct topics_pieces *pieces)
{
	struct encode_source source = source_of(r, pieces);
	struct reader *reader = r->state;
	bool fits = reader->encoder.offset >= reader->range.end;
	reader->confirm = a->confirm;
	reader->closed = a->closed;
	int fault = encode_measure(&source, a->end, &reader->limits, &reader->range);
	if (fault < 0 || !fits)
		return fault;
	reader->encoder.end = reader->range.end;
	bool full;
	fault = encode_more(r, pieces, &r->answer.body, &full);
	if (!full)
		reader->encoder.offset = reader->range.end; /* offsets without records at the end, if any */
	return fault;
}

static void on_gather(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces);

static void gather_or_answer(struct request *r, const Ipc__ReadAnswer *a, const struct topics_pieces *pieces)
{
	struct reader *reader = r->state;
	uint64_t before = reader->range.end;
	int fault = gather(r, a, pieces);
	bool more = !reader->range.full && reader->range.end > before && !reader_is_up_to_date(reader) &&
		++reader->n_gathers < GATHER_MAX &&
		(reader->limits.count == 0 || reader->range.n_records < reader->limits.count) &&
		reader->range.bytes < reader->limits.bytes;
	if (fault != 0 && r->answer.status == 0)
		answer_unreadable(r, fault);
	else if (fault != 0)
		answer_break(r);
	else if (more)
		call_read(r, (struct position){ .from = (int64_t)reader->range.end }, bytes_wanted(reader), on_gather);
	else
		answer_gathered(r);
}

/* What was gathered before an error is a good answer. */
static void on_gather(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	const struct reader *reader = r->state;
	r->call = NULL;
	if (is_put_off(r, pieces, reader->range.end))
		return;
	if (error->kind == PICO_OK)
		gather_or_answer(r, (const Ipc__ReadAnswer *)m, pieces);
	else
		answer_gathered(r);
	if (pieces != NULL)
		topics_pieces_release(pieces);
	read_over(r);
}

static void gather_begin(struct request *r)
{
	struct reader *reader = r->state;
	encoder_init(&reader->encoder, reader->format, reader->from);
	reader->range = (struct encode_range){ .end = reader->from };
	reader->n_gathers = 0;
	if (reader->events) {
		sse_begin(&reader->data, "data", reader->base64, &r->answer.body);
		reader->in_event = true;
	}
	encoder_begin(&reader->encoder, &r->answer.body);
}

/* ------------------------------------------------------------------ waiting */

static void on_read(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		    struct topics_pieces *pieces);

static bool is_late(const struct request *r)
{
	const struct reader *reader = r->state;
	return r->server->draining || env_now_ms(r->server->env) >= reader->until_ms;
}

static void unpark(struct request *r)
{
	struct reader *reader = r->state;
	r->on_drain = NULL;
	reader->is_parked = false;
	env_timer_stop(r->server->env, &reader->keep_alive);
}

/* Nothing came until the end. */
static void end_of_wait(struct request *r)
{
	struct reader *reader = r->state;
	if (r->answer.status == 0)
		reader->ops->no_news(r);
	else
		answer_more(r, true);
}

static void on_waited(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct reader *reader = r->state;
	r->call = NULL;
	unpark(r);
	bool ready = error->kind == PICO_OK && ((const Ipc__WaitAnswer *)m)->ready;
	bool late = env_now_ms(r->server->env) >= reader->until_ms;
	if (ready)
		call_read(r, reader->position, bytes_wanted(reader), on_read);
	else if (error->kind == PICO_OK || (late && error->kind == PICO_UNAVAILABLE) || r->answer.status != 0)
		end_of_wait(r);
	else
		reader->ops->error(r, error);
}

/* The process is about to end: the wait ends as if its time were up. */
static void on_drain(struct request *r)
{
	topics_abandon(r->call);
	r->call = NULL;
	unpark(r);
	end_of_wait(r);
}

static void keep_alive_later(struct request *r)
{
	struct reader *reader = r->state;
	env_timer_start(r->server->env, &reader->keep_alive, env_now_ms(r->server->env) + SSE_KEEP_ALIVE_MS);
}

static void on_keep_alive(void *arg)
{
	struct request *r = arg;
	must(r->magic == REQUEST_MAGIC);
	if (buf_len(&r->answer.body) == 0) /* who does not read needs none */
		sse_keep_alive(&r->answer.body);
	answer_more(r, false);
	keep_alive_later(r);
}

static void call_wait(struct request *r)
{
	struct reader *reader = r->state;
	Ipc__WaitRequest m = IPC__WAIT_REQUEST__INIT;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	fill_log(r, &log, &topic);
	m.log = &log;
	m.partition_given = reader->partition_given;
	m.from = reader->position.from;
	m.deadline_ms = reader->until_ms;
	r->on_drain = on_drain;
	reader->is_parked = true;
	if (r->answer.status != 0)
		keep_alive_later(r);
	request_call(r, IPC_WAIT, &m.base, slice_of(NULL, 0), m.deadline_ms, on_waited);
}

/* Behind an event, when it has left. */
static void next_event(struct request *r)
{
	struct reader *reader = r->state;
	reader->position = (struct position){ .from = (int64_t)reader->range.end };
	if (is_late(r))
		answer_more(r, true);
	else if (reader_is_up_to_date(reader))
		call_wait(r);
	else
		call_read(r, reader->position, bytes_wanted(reader), on_read);
}

/* Caught up. */
static void wait_or_answer(struct request *r)
{
	struct reader *reader = r->state;
	reader->position = (struct position){ .from = (int64_t)reader->from };
	if (!reader->events && (reader->closed || is_late(r)))
		reader->ops->no_news(r);
	else if (!reader->events)
		call_wait(r);
	else if (r->answer.status == 0)
		reader->ops->records(r);
	else if (reader->closed)
		send_control(r);
	else
		next_event(r);
}

/* ------------------------------------------------------------------ the first read */

static void keep_answer(struct reader *reader, const Ipc__ReadAnswer *a)
{
	if (a->topic->topic_id.len == sizeof(reader->topic_id))
		memcpy(reader->topic_id, a->topic->topic_id.data, sizeof(reader->topic_id));
	snprintf(reader->content_type, sizeof(reader->content_type), "%s", a->topic->content_type);
	reader->n_partitions = a->n_partitions;
	reader->ttl_seconds = a->topic->ttl_seconds;
	reader->expires_at_ms = a->topic->expires_at_ms;
	reader->from = reader->range.end = a->from;
	reader->confirm = a->confirm;
	reader->closed = a->closed;
}

static void on_read(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		    struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct reader *reader = r->state;
	const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)m;
	r->call = NULL;
	if (error->kind != PICO_OK) {
		read_over(r);
		if (r->answer.status == 0)
			reader->ops->error(r, error);
		else
			answer_more(r, true);
		return;
	}
	bool first = r->answer.status == 0;
	keep_answer(reader, a);
	if (is_put_off(r, pieces, a->from))
		return;
	if (first && reader->ops->opened != NULL)
		reader->ops->opened(r);
	if (reader->live && a->from >= a->confirm) {
		wait_or_answer(r);
	} else {
		gather_begin(r);
		gather_or_answer(r, a, pieces);
	}
	if (pieces != NULL)
		topics_pieces_release(pieces);
	read_over(r);
}

void reader_start(struct request *r)
{
	struct reader *reader = r->state;
	must(!reader->events || (reader->live && reader->ops->control != NULL));
	reader->request = r;
	reader->keep_alive = (struct env_timer){ .on_fire = on_keep_alive, .arg = r };
	call_read(r, reader->position, bytes_wanted(reader), on_read);
}

void reader_free(void *state)
{
	struct reader *reader = state;
	if (reader->request != NULL)
		env_timer_stop(reader->request->server->env, &reader->keep_alive);
	free(reader);
}
