/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /name: records from a position, at once or by long poll.
 *
 *   READ -> nothing there and live -> WAIT -> READ ...
 *        -> gather: the records are counted against the limits and encoded as long as they fit one piece; READ
 *           again while there is more and no limit is reached. Then the end is known and the head goes out
 *        -> each time the socket has taken all: READ again from where the body stands, next piece
 *
 * The mapped records are given back before the callback returns. When they are gone at a later READ
 * (deleted, trimmed) the answer cannot be completed and the connection is cut.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/pico.h"
#include "worker-http/pico_encode.h"
#include "worker-http/server.h"

#define READ_CAP (4u << 20)
#define COUNT_CAP 1000000               /* records of no bytes count, too */
#define CURSOR_INTERVAL_MS 20000
#define CURSOR_SPREAD 60
#define RECORD_OVERHEAD 80              /* of a stored record alone in its batch */
#define OVERHEAD_BYTES (1024 * RECORD_OVERHEAD)
#define GATHER_MAX 32                   /* reads for one answer's end: storaged gives a cold log in small runs */

struct read {
	enum record_format format;
	struct position position;
	struct encode_limits limits;
	bool live;
	bool partition_given;
	uint32_t partition;
	bool has_cursor;
	uint64_t cursor;                /* the client's */
	uint64_t poll_until_ms;

	/* From the answers of storaged. */
	uint8_t topic_id[16];
	char content_type[256];
	uint32_t n_partitions;
	uint64_t from, confirm;
	bool closed;
	struct encode_range range;
	struct encoder encoder;
	unsigned n_gathers;
	bool is_gone;                   /* what was to follow */
};

/* ------------------------------------------------------------------ parameters */

/* True when present; false answered nothing. */
static bool param(struct request *r, const char *name, struct buf *value)
{
	return query_find(r->query, name, value);
}

static bool take_u64_param(struct request *r, const char *name, struct buf *value, uint64_t *ret)
{
	*ret = 0;
	if (!param(r, name, value) || buf_len(value) == 0 || strict_u64(buf_slice(value), ret))
		return true;
	pico_bad_request(r, "%s must be a number without sign or leading zeros", name);
	return false;
}

static bool take_position(struct request *r, struct read *read, struct buf *value)
{
	struct slice text = request_field(r, "last-event-id");
	read->position = (struct position){ .from = -1 };
	if (param(r, "seq", value)) {
		text = buf_slice(value);
		if (text.n == 0) {
			pico_bad_request(r, "seq is empty; it is a number or now");
			return false;
		}
	}
	if (text.n == 0 || position_parse(text, &read->position))
		return true;
	pico_bad_request(r, "seq is a number or now, not %.*s", (int)(text.n < 100 ? text.n : 100), (const char *)text.p);
	return false;
}

static bool take_format(struct request *r, struct read *read, struct buf *value)
{
	read->format = FORMAT_JSON;
	if (!param(r, "format", value) || slice_is(buf_slice(value), "json"))
		return true;
	if (slice_is(buf_slice(value), "raw")) {
		read->format = FORMAT_RAW;
		return true;
	}
	if (slice_is(buf_slice(value), "binary")) {
		read->format = FORMAT_BINARY;
		return true;
	}
	pico_bad_request(r, "format is json, raw or binary, not %.*s", (int)(buf_len(value) < 100 ? buf_len(value) : 100),
			 (const char *)buf_head(value));
	return false;
}

static bool take_live(struct request *r, struct read *read, struct buf *value)
{
	if (!param(r, "live", value))
		return true;
	read->live = slice_is(buf_slice(value), "long-poll");
	if (read->live)
		return true;
	if (slice_is(buf_slice(value), "sse"))
		pico_not_supported(r, "live=sse");
	else
		pico_bad_request(r, "live is long-poll, not %.*s", (int)(buf_len(value) < 100 ? buf_len(value) : 100),
				 buf_len(value) > 0 ? (const char *)buf_head(value) : "");
	return false;
}

static bool take_limits(struct request *r, struct read *read, struct buf *value)
{
	const struct conf *conf = r->server->conf;
	uint64_t cap = conf->max_chunk_size > READ_CAP ? conf->max_chunk_size : READ_CAP;
	if (!take_u64_param(r, "count", value, &read->limits.count))
		return false;
	if (read->limits.count == 0 || read->limits.count > COUNT_CAP)
		read->limits.count = COUNT_CAP;
	read->limits.decoded = conf->max_decompressed_size;
	bool given = param(r, "bytes", value) && buf_len(value) > 0;
	if (!take_u64_param(r, "bytes", value, &read->limits.bytes))
		return false;
	if (!given)
		read->limits.bytes = conf->max_chunk_size;
	else if (read->limits.bytes == 0 || read->limits.bytes > cap)
		read->limits.bytes = cap;
	return true;
}

static bool take_params(struct request *r, struct read *read)
{
	struct buf value;
	buf_init(&value, PICO_PARAM_MAX);
	bool good = take_live(r, read, &value) && take_format(r, read, &value) && take_position(r, read, &value) &&
		take_limits(r, read, &value) && pico_partition(r, &read->partition_given, &read->partition);
	read->has_cursor = good && param(r, "cursor", &value) && strict_u64(buf_slice(&value), &read->cursor);
	buf_done(&value);
	return good;
}

/* ------------------------------------------------------------------ calls */

static void fill_log(struct request *r, Ipc__LogRef *log, Ipc__TopicRef *topic)
{
	static const uint8_t none[16];
	struct read *read = r->state;
	*log = (Ipc__LogRef)IPC__LOG_REF__INIT;
	*topic = (Ipc__TopicRef)IPC__TOPIC_REF__INIT;
	topic->name = pico_name(r);
	if (memcmp(read->topic_id, none, 16) != 0)
		topic->topic_id = (ProtobufCBinaryData){ .data = read->topic_id, .len = 16 };
	log->topic = topic;
	log->partition = read->partition;
}

/* Enough stored bytes for the records of the limits, most times. */
static uint32_t bytes_wanted(const struct read *read)
{
	uint64_t overhead = read->limits.count > 0 && read->limits.count < 1024 ? read->limits.count : 1024;
	uint64_t left = read->limits.bytes > read->range.bytes ? read->limits.bytes - read->range.bytes : 0;
	return (uint32_t)(left + overhead * RECORD_OVERHEAD);
}

static void call_read(struct request *r, struct position from, uint32_t max_bytes, topics_cb *cb)
{
	struct read *read = r->state;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	fill_log(r, &log, &topic);
	m.log = &log;
	m.partition_given = read->partition_given;
	m.from = from.from;
	m.from_end = from.tail;
	m.max_bytes = max_bytes;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_READ, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

/* ------------------------------------------------------------------ headers of the answer */

static bool is_up_to_date(const struct read *read)
{
	return read->range.end >= read->confirm;
}

/* Of topic, partition, format, start, next and closed; never of the name: it may be another topic's tomorrow. */
static void format_etag(const struct read *read, char etag[160])
{
	static const char *const formats[] = {
		[FORMAT_JSON] = "json", [FORMAT_RAW] = "raw", [FORMAT_BINARY] = "binary",
	};
	char id[33] = "";
	for (size_t i = 0; i < 16; i++)
		snprintf(id + 2 * i, 3, "%02x", read->topic_id[i]);
	snprintf(etag, 160, "\"%s:%u:%s:%" PRIu64 ":%" PRIu64 "%s\"", id, read->partition, formats[read->format],
		 read->from, read->range.end, read->closed && is_up_to_date(read) ? ":c" : "");
}

static void put_cursor(struct request *r)
{
	struct read *read = r->state;
	uint64_t interval = (uint64_t)env_wall_ms(r->server->env) / CURSOR_INTERVAL_MS;
	if (read->has_cursor && interval <= read->cursor && read->cursor < UINT64_MAX - CURSOR_SPREAD) {
		uint8_t random;
		env_random(r->server->env, &random, sizeof(random));
		interval = read->cursor + 1 + random % CURSOR_SPREAD;
	}
	answer_field_u64(r, "Pico-Cursor", interval);
}

static void position_fields(struct request *r)
{
	const struct read *read = r->state;
	answer_field_u64(r, "Pico-Next-Seq", read->range.end);
	if (is_up_to_date(read))
		answer_field(r, "Pico-Up-To-Date", "true");
	if (is_up_to_date(read) && read->closed)
		answer_field(r, "Pico-Closed", "true");
	if (read->n_partitions > 1) {
		answer_field_u64(r, "Pico-Partitions", read->n_partitions);
		answer_field_u64(r, "Pico-Partition", read->partition);
	}
}

/* Cache headers and conditional requests of a catch-up read. True when the answer is 304 (sent). */
static bool answer_not_modified(struct request *r)
{
	const struct read *read = r->state;
	char etag[160];
	format_etag(read, etag);
	answer_field(r, "ETag", etag);
	r->answer.cache_control = is_up_to_date(read) && !read->closed ? "no-cache" :
		"public, max-age=60, stale-while-revalidate=300";
	if (!etag_matches(request_field(r, "if-none-match"), slice_str(etag)))
		return false;
	buf_reset(&r->answer.body, 0);
	answer_send_empty(r, 304);
	return true;
}

/* ------------------------------------------------------------------ the body */

/* Records are encoded before a callback returns, so that one cache serves all requests. */
static struct encode_source source_of(const struct request *r, const struct topics_pieces *pieces)
{
	static const struct topics_pieces none;
	static struct batch_cache cache;
	const struct read *read = r->state;
	if (cache.cap != r->server->conf->max_decompressed_size) {
		batch_cache_done(&cache);
		batch_cache_init(&cache, r->server->conf->max_decompressed_size);
	}
	struct encode_source source = { .pieces = pieces != NULL ? pieces : &none, .cache = &cache };
	source.log.partition = read->partition;
	memcpy(source.log.topic_id, read->topic_id, sizeof(source.log.topic_id));
	return source;
}

/* Adds what stands in pieces to the body or what follows it, up to a piece. 0 or negative. */
static int encode_more(struct request *r, const struct topics_pieces *pieces, struct buf *out)
{
	struct encode_source source = source_of(r, pieces);
	struct read *read = r->state;
	int done = encoder_run(&read->encoder, &source, out, request_piece_max(r));
	return done < 0 ? done : 0;
}

/* What is read stands in `ahead` until the socket has taken the piece before. */
static void on_more(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		    struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct read *read = r->state;
	r->call = NULL;
	read->is_gone = error->kind != PICO_OK || encode_more(r, pieces, &r->answer.ahead) < 0 ||
		buf_len(&r->answer.ahead) == 0;
	if (pieces != NULL)
		topics_pieces_release(pieces);
	answer_ahead(r);
}

static void send_piece(struct request *r)
{
	struct read *read = r->state;
	bool ended = read->encoder.offset >= read->range.end;
	if (ended)
		encoder_finish(&read->encoder, &r->answer.body);
	answer_more(r, ended);
	if (!ended && !r->is_head)
		call_read(r, (struct position){ .from = (int64_t)read->encoder.offset },
			  (uint32_t)request_piece_max(r) + OVERHEAD_BYTES, on_more);
}

/* The memory of the two pieces changes places, so neither grows again. */
static void produce(struct request *r)
{
	const struct read *read = r->state;
	if (read->is_gone) {
		answer_break(r);
		return;
	}
	struct buf sent = r->answer.body;
	r->answer.body = r->answer.ahead;
	r->answer.ahead = sent;
	buf_reset(&r->answer.ahead, SIZE_MAX);
	send_piece(r);
}

static const char *content_type(const struct read *read)
{
	switch (read->format) {
	case FORMAT_RAW:
		return read->content_type;
	case FORMAT_BINARY:
		return "application/vnd.picomq.batch";
	case FORMAT_JSON:
		break;
	}
	return "application/json";
}

static void answer_gathered(struct request *r)
{
	struct read *read = r->state;
	position_fields(r);
	if (read->live)
		put_cursor(r);
	else if (answer_not_modified(r))
		return;
	encoder_count(&read->encoder, &r->answer.body, read->range.n_records);
	bool raw = read->format == FORMAT_RAW;
	read->encoder.end = read->range.end;
	r->produce = produce;
	answer_field(r, "Content-Type", content_type(read));
	answer_begin_stream(r, 200, raw, read->range.value_bytes);
	send_piece(r);
}

/* ------------------------------------------------------------------ gathering */

static void answer_unreadable(struct request *r, int fault)
{
	buf_reset(&r->answer.body, 0);
	answer_error(r, 500, "internal", fault == -E2BIG ? "a stored batch is larger than --max-decompressed-size" :
		     "a stored batch cannot be read", NULL);
}

/* Counts and encodes what this answer brought. 0 or negative. */
static int gather(struct request *r, const Ipc__ReadAnswer *a, const struct topics_pieces *pieces)
{
	struct encode_source source = source_of(r, pieces);
	struct read *read = r->state;
	bool fits = read->encoder.offset >= read->range.end;
	read->confirm = a->confirm;
	read->closed = a->closed;
	int fault = encode_measure(&source, a->end, &read->limits, &read->range);
	if (fault < 0 || !fits)
		return fault;
	read->encoder.end = read->range.end;
	fault = encode_more(r, pieces, &r->answer.body);
	if (buf_len(&r->answer.body) < request_piece_max(r))
		read->encoder.offset = read->range.end; /* offsets without records at the end, if any */
	return fault;
}

static void on_gather(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces);

static void gather_or_answer(struct request *r, const Ipc__ReadAnswer *a, const struct topics_pieces *pieces)
{
	struct read *read = r->state;
	uint64_t before = read->range.end;
	int fault = gather(r, a, pieces);
	bool more = !read->range.full && read->range.end > before && !is_up_to_date(read) &&
		++read->n_gathers < GATHER_MAX &&
		(read->limits.count == 0 || read->range.n_records < read->limits.count) &&
		read->range.bytes < read->limits.bytes;
	if (fault != 0)
		answer_unreadable(r, fault);
	else if (more)
		call_read(r, (struct position){ .from = (int64_t)read->range.end }, bytes_wanted(read), on_gather);
	else
		answer_gathered(r);
}

/* What was gathered before an error is a good answer. */
static void on_gather(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind == PICO_OK)
		gather_or_answer(r, (const Ipc__ReadAnswer *)m, pieces);
	else
		answer_gathered(r);
	if (pieces != NULL)
		topics_pieces_release(pieces);
}

/* ------------------------------------------------------------------ long poll */

static void answer_no_news(struct request *r)
{
	position_fields(r);
	put_cursor(r);
	answer_send_empty(r, 204);
}

static void on_read(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		    struct topics_pieces *pieces);

static void on_waited(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct read *read = r->state;
	r->call = NULL;
	r->on_drain = NULL;
	bool ready = error->kind == PICO_OK && ((const Ipc__WaitAnswer *)m)->ready;
	bool late = env_now_ms(r->server->env) >= read->poll_until_ms;
	if (ready)
		call_read(r, read->position, bytes_wanted(read), on_read);
	else if (error->kind == PICO_OK || (late && error->kind == PICO_UNAVAILABLE))
		answer_no_news(r);
	else
		pico_answer_error(r, error);
}

/* The process is about to end: the poll ends as if its time were up. */
static void on_drain(struct request *r)
{
	topics_abandon(r->call);
	r->call = NULL;
	answer_no_news(r);
}

static void call_wait(struct request *r)
{
	struct read *read = r->state;
	Ipc__WaitRequest m = IPC__WAIT_REQUEST__INIT;
	Ipc__LogRef log;
	Ipc__TopicRef topic;
	fill_log(r, &log, &topic);
	m.log = &log;
	m.partition_given = read->partition_given;
	m.from = read->position.from;
	m.deadline_ms = read->poll_until_ms;
	r->on_drain = on_drain;
	request_call(r, IPC_WAIT, &m.base, slice_of(NULL, 0), m.deadline_ms, on_waited);
}

/* Caught up: wait, unless nothing can come or the time is over. */
static void wait_or_answer(struct request *r)
{
	struct read *read = r->state;
	read->position = (struct position){ .from = (int64_t)read->from };
	if (read->closed || r->server->draining || env_now_ms(r->server->env) >= read->poll_until_ms)
		answer_no_news(r);
	else
		call_wait(r);
}

static void keep_answer(struct read *read, const Ipc__ReadAnswer *a)
{
	if (a->topic->topic_id.len == sizeof(read->topic_id))
		memcpy(read->topic_id, a->topic->topic_id.data, sizeof(read->topic_id));
	snprintf(read->content_type, sizeof(read->content_type), "%s", a->topic->content_type);
	read->n_partitions = a->n_partitions;
	read->from = read->range.end = a->from;
	read->confirm = a->confirm;
	read->closed = a->closed;
	encoder_init(&read->encoder, read->format, a->from);
}

static void on_read(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		    struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct read *read = r->state;
	const Ipc__ReadAnswer *a = (const Ipc__ReadAnswer *)m;
	r->call = NULL;
	if (error->kind != PICO_OK) {
		pico_answer_error(r, error);
		return;
	}
	keep_answer(read, a);
	if (read->live && a->from >= a->confirm) {
		wait_or_answer(r);
	} else {
		encoder_begin(&read->encoder, &r->answer.body);
		gather_or_answer(r, a, pieces);
	}
	if (pieces != NULL)
		topics_pieces_release(pieces);
}

void pico_read(struct request *r)
{
	struct read *read = must_calloc(1, sizeof(*read));
	r->state = read;
	r->state_free = free;
	if (!take_params(r, read))
		return;
	read->poll_until_ms = env_now_ms(r->server->env) + r->server->conf->long_poll_timeout_ms;
	call_read(r, read->position, bytes_wanted(read), on_read);
}
