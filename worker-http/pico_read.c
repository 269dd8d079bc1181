/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /name: what is asked for, and the headers of the answer. reader.h reads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/cursor.h"
#include "worker-http/pico.h"
#include "worker-http/reader.h"
#include "worker-http/server.h"

#define READ_CAP (4u << 20)
#define CURSOR_SPREAD 60

struct read {
	struct reader reader;           /* first */
	struct cursor cursor;
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
	answer_bad_request(r, "%s must be a number without sign or leading zeros", name);
	return false;
}

static bool take_position(struct request *r, struct reader *reader, struct buf *value)
{
	struct slice text = request_field(r, "last-event-id");
	reader->position = (struct position){ .from = -1 };
	if (param(r, "seq", value)) {
		text = buf_slice(value);
		if (text.n == 0) {
			answer_bad_request(r, "seq is empty; it is a number or now");
			return false;
		}
	}
	if (text.n == 0 || position_parse(text, &reader->position))
		return true;
	answer_bad_request(r, "seq is a number or now, not %.*s", (int)(text.n < 100 ? text.n : 100), (const char *)text.p);
	return false;
}

static bool take_format(struct request *r, struct reader *reader, struct buf *value)
{
	reader->format = FORMAT_JSON;
	if (!param(r, "format", value) || slice_is(buf_slice(value), "json"))
		return true;
	if (slice_is(buf_slice(value), "raw")) {
		reader->format = FORMAT_RAW;
		return true;
	}
	if (slice_is(buf_slice(value), "binary")) {
		reader->format = FORMAT_BINARY;
		return true;
	}
	answer_bad_request(r, "format is json, raw or binary, not %.*s", (int)(buf_len(value) < 100 ? buf_len(value) : 100),
			 (const char *)buf_head(value));
	return false;
}

static bool take_live(struct request *r, struct reader *reader, struct buf *value)
{
	if (!param(r, "live", value))
		return true;
	reader->events = reader->event_ids = slice_is(buf_slice(value), "sse");
	reader->live = reader->events || slice_is(buf_slice(value), "long-poll");
	if (!reader->live)
		answer_bad_request(r, "live is long-poll or sse, not %.*s", (int)(buf_len(value) < 100 ? buf_len(value) : 100),
				 buf_len(value) > 0 ? (const char *)buf_head(value) : "");
	return reader->live;
}

static bool take_limits(struct request *r, struct reader *reader, struct buf *value)
{
	const struct conf *conf = r->server->conf;
	uint64_t cap = conf->max_chunk_size > READ_CAP ? conf->max_chunk_size : READ_CAP;
	if (!take_u64_param(r, "count", value, &reader->limits.count))
		return false;
	if (reader->limits.count == 0 || reader->limits.count > READER_COUNT_MAX)
		reader->limits.count = READER_COUNT_MAX;
	bool given = param(r, "bytes", value) && buf_len(value) > 0;
	if (!take_u64_param(r, "bytes", value, &reader->limits.bytes))
		return false;
	if (!given)
		reader->limits.bytes = conf->max_chunk_size;
	else if (reader->limits.bytes == 0 || reader->limits.bytes > cap)
		reader->limits.bytes = cap;
	return true;
}

/* Events are JSON of the default size, whatever is asked for. */
static bool take_form(struct request *r, struct reader *reader, struct buf *value)
{
	reader_limits(r, &reader->limits);
	return reader->events || (take_format(r, reader, value) && take_limits(r, reader, value));
}

static bool take_params(struct request *r, struct read *read)
{
	struct reader *reader = &read->reader;
	struct buf value;
	buf_init(&value, PICO_PARAM_MAX);
	bool good = take_live(r, reader, &value) && take_position(r, reader, &value) && take_form(r, reader, &value) &&
		pico_partition(r, &reader->partition_given, &reader->partition);
	read->cursor.given = good && param(r, "cursor", &value) && strict_u64(buf_slice(&value), &read->cursor.client);
	buf_done(&value);
	return good;
}

/* ------------------------------------------------------------------ the answer */

static void put_cursor(struct request *r)
{
	const struct read *read = r->state;
	answer_field_u64(r, "Pico-Cursor", cursor_next(r, &read->cursor, 0, CURSOR_SPREAD));
}

static void position_fields(struct request *r)
{
	const struct reader *reader = r->state;
	Ipc__Topic topic = IPC__TOPIC__INIT;
	topic.ttl_seconds = reader->ttl_seconds;
	topic.expires_at_ms = reader->expires_at_ms;
	create_put_expiry(r, &pico_expiry_names, &topic);
	answer_field_u64(r, "Pico-Next-Seq", reader->range.end);
	if (reader_is_up_to_date(reader))
		answer_field(r, "Pico-Up-To-Date", "true");
	if (reader_is_at_end(reader))
		answer_field(r, "Pico-Closed", "true");
	if (reader->n_partitions > 1) {
		answer_field_u64(r, "Pico-Partitions", reader->n_partitions);
		answer_field_u64(r, "Pico-Partition", reader->partition);
	}
}

/*
 * Cache headers and conditional requests of a catch-up read. True when the answer is 304 (sent). A stream that ends by itself is
 * asked for each time: a read out of a cache would not count as its use, and could be after its end.
 */
static bool answer_not_modified(struct request *r)
{
	const struct reader *reader = r->state;
	bool ends = reader->ttl_seconds != 0 || reader->expires_at_ms != 0;
	r->answer.cache_control = ends || (reader_is_up_to_date(reader) && !reader->closed) ? "no-cache" :
		"public, max-age=60, stale-while-revalidate=300";
	return reader_not_modified(r);
}

static const char *content_type(const struct reader *reader)
{
	switch (reader->format) {
	case FORMAT_RAW:
		return reader->content_type;
	case FORMAT_BINARY:
		return "application/vnd.picomq.batch";
	case FORMAT_JSON:
	case FORMAT_VALUES:
		break;
	}
	return "application/json";
}

static void answer_records(struct request *r)
{
	const struct reader *reader = r->state;
	if (reader->events) {
		r->answer.cache_control = "no-cache";
		reader_send(r, SSE_TYPE);
		return;
	}
	position_fields(r);
	if (reader->live)
		put_cursor(r);
	else if (answer_not_modified(r))
		return;
	reader_send(r, content_type(reader));
}

static void answer_no_news(struct request *r)
{
	position_fields(r);
	put_cursor(r);
	answer_send_empty(r, 204);
}

static void put_control(struct request *r, struct buf *out)
{
	const struct reader *reader = r->state;
	struct sse_data data;
	char text[100], id[24];
	snprintf(id, sizeof(id), "%" PRIu64, reader->range.end);
	snprintf(text, sizeof(text), "{\"next_seq\":%s,\"up_to_date\":%s%s}", id, reader_is_up_to_date(reader) ? "true" : "false",
		 reader_is_at_end(reader) ? ",\"closed\":true" : "");
	sse_begin(&data, "control", false, out);
	sse_put(&data, slice_str(text), out);
	sse_end(&data, id, out);
}

static void answer_failed(struct request *r, const struct pico_error *e)
{
	const struct reader *reader = r->state;
	if (reader->events && e->kind == PICO_NOT_FOUND)
		pico_not_found(r);
	else
		pico_answer_error(r, e);
}

void pico_read(struct request *r)
{
	static const struct reader_ops ops = {
		.records = answer_records, .no_news = answer_no_news, .error = answer_failed, .control = put_control,
	};
	const struct conf *conf = r->server->conf;
	struct read *read = must_calloc(1, sizeof(*read));
	read->reader.ops = &ops;
	r->state = read;
	r->state_free = reader_free;
	if (!take_params(r, read))
		return;
	read->reader.until_ms = env_now_ms(r->server->env) +
		(read->reader.events ? conf->sse_max_duration_ms : conf->long_poll_timeout_ms);
	reader_start(r);
}
