/* SPDX-License-Identifier: Apache-2.0
 *
 * GET: catch-up, long poll, server-sent events. What is asked for, and the headers of the answer; reader.h reads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "worker-http/cursor.h"
#include "worker-http/ds.h"
#include "worker-http/reader.h"
#include "worker-http/server.h"

#define CURSOR_EPOCH_MS 1728432000000ull        /* 2024-10-09T00:00:00Z */
#define CURSOR_SPREAD 180                       /* intervals: up to an hour */
#define CACHED "public, max-age=60, stale-while-revalidate=300"

struct read {
	struct reader reader;           /* first */
	bool from_now;
	struct cursor cursor;
	uint64_t shown;                 /* the highest cursor of this answer */
};

/* ------------------------------------------------------------------ parameters */

bool ds_offset_parse(struct slice s, struct position *ret)
{
	int64_t v = 0;
	*ret = (struct position){ .tail = slice_is(s, "now"), .from = -1 };
	if (ret->tail || slice_is(s, "-1"))
		return true;
	if (s.n == 0 || s.n > 20)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
			v = INT64_MAX;
	}
	ret->from = v;
	return true;
}

/* False when refused (answered). */
static bool take_offset(struct request *r, struct reader *reader, struct buf *value)
{
	unsigned n = query_count(r->query, "offset");
	reader->position = (struct position){ .from = -1 };
	if (n == 0 && reader->live)
		answer_bad_request(r, "a live read names an offset; -1 is the start of the stream, now its end");
	else if (n > 1)
		answer_bad_request(r, "offset is given %u times", n);
	if (n != 1)
		return n == 0 && !reader->live;
	if (query_find(r->query, "offset", value) && ds_offset_parse(buf_slice(value), &reader->position))
		return true;
	answer_bad_request(r, "an offset is -1, now, or one that this server gave");
	return false;
}

static bool take_live(struct request *r, struct reader *reader, struct buf *value)
{
	if (!query_find(r->query, "live", value))
		return true;
	reader->events = slice_is(buf_slice(value), "sse");
	reader->live = reader->events || slice_is(buf_slice(value), "long-poll");
	if (!reader->live)
		answer_bad_request(r, "live is long-poll or sse");
	return reader->live;
}

static bool take_params(struct request *r, struct read *read)
{
	struct buf value;
	buf_init(&value, DS_PARAM_MAX);
	bool good = take_live(r, &read->reader, &value) && take_offset(r, &read->reader, &value);
	read->from_now = read->reader.position.tail;
	read->cursor.given = query_find(r->query, "cursor", &value) && strict_u64(buf_slice(&value), &read->cursor.client);
	buf_done(&value);
	return good;
}

/* ------------------------------------------------------------------ the answer */

static bool is_text(const char *content_type)
{
	return ds_is_json(slice_str(content_type)) || strncasecmp(content_type, "text/", 5) == 0;
}

static void opened(struct request *r)
{
	struct reader *reader = r->state;
	reader->format = ds_is_json(slice_str(reader->content_type)) ? FORMAT_VALUES : FORMAT_RAW;
	reader->base64 = !is_text(reader->content_type);
}

/* Never lower than one that this answer showed before. */
static uint64_t next_cursor(struct request *r)
{
	struct read *read = r->state;
	uint64_t next = cursor_next(r, read->shown == 0 ? &read->cursor : &(struct cursor){ 0 }, CURSOR_EPOCH_MS,
				    CURSOR_SPREAD);
	read->shown = next > read->shown ? next : read->shown;
	return read->shown;
}

static void position_fields(struct request *r)
{
	const struct reader *reader = r->state;
	ds_put_offset(r, reader->range.end);
	if (reader_is_up_to_date(reader))
		answer_field(r, "Stream-Up-To-Date", "true");
	if (reader_is_at_end(reader))
		answer_field(r, "Stream-Closed", "true");
}

static void put_cursor(struct request *r)
{
	answer_field_u64(r, "Stream-Cursor", next_cursor(r));
}

/*
 * What stands at an offset stays there, so it may be cached, but for where `now` is. An empty answer says only that nothing
 * followed yet.
 */
static const char *cache_control(const struct read *read)
{
	const struct reader *reader = &read->reader;
	if (read->from_now)
		return NULL;
	return reader->range.n_records > 0 || reader_is_at_end(reader) ? CACHED : "no-cache";
}

static void answer_records(struct request *r)
{
	const struct read *read = r->state;
	const struct reader *reader = &read->reader;
	if (reader->events) {
		r->answer.cache_control = "no-cache";
		if (reader->base64)
			answer_field(r, "stream-sse-data-encoding", "base64");
		reader_send(r, SSE_TYPE);
		return;
	}
	position_fields(r);
	if (reader->live)
		put_cursor(r);
	r->answer.cache_control = cache_control(read);
	if (read->from_now || !reader_not_modified(r))
		reader_send(r, reader->content_type);
}

static void answer_no_news(struct request *r)
{
	position_fields(r);
	if (!reader_is_at_end(r->state)) /* else nobody comes again */
		put_cursor(r);
	answer_send_empty(r, 204);
}

/* Behind the last one the cursor is left out: nobody comes again. */
static void put_control(struct request *r, struct buf *out)
{
	const struct reader *reader = r->state;
	struct sse_data data;
	char text[160];
	int n = snprintf(text, sizeof(text), "{\"streamNextOffset\":\"%020" PRIu64 "\"", reader->range.end);
	if (!reader_is_at_end(reader))
		n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"streamCursor\":\"%" PRIu64 "\"", next_cursor(r));
	snprintf(text + n, sizeof(text) - (size_t)n, "%s%s}", reader_is_up_to_date(reader) ? ",\"upToDate\":true" : "",
		 reader_is_at_end(reader) ? ",\"streamClosed\":true" : "");
	sse_begin(&data, "control", false, out);
	sse_put(&data, slice_str(text), out);
	sse_end(&data, NULL, out);
}

void ds_read(struct request *r)
{
	static const struct reader_ops ops = {
		.opened = opened, .records = answer_records, .no_news = answer_no_news, .error = ds_answer_error,
		.control = put_control,
	};
	const struct conf *conf = r->server->conf;
	struct read *read = must_calloc(1, sizeof(*read));
	read->reader.ops = &ops;
	r->state = read;
	r->state_free = reader_free;
	reader_limits(r, &read->reader.limits);
	if (!take_params(r, read))
		return;
	read->reader.until_ms = env_now_ms(r->server->env) +
		(read->reader.events ? conf->sse_max_duration_ms : conf->long_poll_timeout_ms);
	reader_start(r);
}
