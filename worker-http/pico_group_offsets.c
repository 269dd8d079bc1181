/* SPDX-License-Identifier: Apache-2.0
 *
 * Committed offsets of a group. They are kept by topic id and partition, so Kafka's clients and these see the same, and a stream
 * of the same name made anew begins without any.
 *
 *   {"offsets":{"/a":{"position":10,"metadata":"m"}, "/b":{"partitions":{"0":{"position":7},"3":{"position":9}}}}}
 *
 * The short form is for a stream of one partition. A commit looks all streams up first and does nothing when one of them is not
 * there or is said in the wrong form.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"
#include "worker-http/pico_group.h"

#define TOPIC_ID 16

/* ------------------------------------------------------------------ what a commit asks for */

struct part {
	size_t stream;
	bool is_short;                  /* partition 0 of a stream that has no other */
	uint32_t partition;
	uint64_t position;
	size_t metadata_at, metadata_n; /* in text */
};

struct stream {
	size_t name_at;                 /* in text; ends with a NUL */
	uint8_t id[TOPIC_ID];
	uint32_t n_partitions;
};

struct commit {
	struct buf text;
	struct stream *stream;
	struct part *part;
	size_t n_streams, n_parts, capacity;
	size_t n_found;                 /* streams that were looked up */
};

static void commit_free(void *own)
{
	struct commit *c = own;
	buf_done(&c->text);
	free(c->stream);
	free(c->part);
	free(c);
}

static char *stream_name(const struct commit *c, size_t stream)
{
	return (char *)(uintptr_t)buf_head(&c->text) + c->stream[stream].name_at;
}

static struct part *part_add(struct commit *c)
{
	if (c->n_parts == c->capacity) {
		c->capacity = c->capacity * 2 + 16;
		c->part = must_realloc(c->part, c->capacity * sizeof(*c->part));
	}
	c->part[c->n_parts] = (struct part){ .stream = c->n_streams - 1 };
	return &c->part[c->n_parts++];
}

/* {"position": N, "metadata": "m"}: one member of it. NULL, or what is wrong. */
static const char *take_member(struct commit *c, struct part *p, struct slice key, struct json_scan *j)
{
	bool position = json_string_is(key, "position"), metadata = json_string_is(key, "metadata");
	enum json_token token = json_skip(j);
	if (position)
		return token == JSON_NUMBER && json_u64(j->span, &p->position) == 0 && p->position <= INT64_MAX ? NULL :
			"position must be a whole number from 0";
	if (!metadata)
		return "an offset has a position and, if you want, metadata";
	if (token == JSON_NULL)
		return NULL;
	p->metadata_at = buf_len(&c->text);
	if (token != JSON_STRING || json_string(j->span, &c->text) < 0)
		return "metadata must be a string";
	p->metadata_n = buf_len(&c->text) - p->metadata_at;
	return NULL;
}

/* The object that j is in the begin of. */
static const char *take_part(struct commit *c, struct part *p, struct json_scan *j)
{
	const char *fault = NULL;
	p->position = UINT64_MAX;
	while (fault == NULL && json_next(j) == JSON_KEY)
		fault = take_member(c, p, j->span, j);
	return fault != NULL || p->position != UINT64_MAX ? fault : "an offset needs a position";
}

static bool partition_of(struct slice key, uint32_t *ret)
{
	uint64_t n;
	/* A key has quotes; digits need no escapes. */
	if (key.n < 3 || !strict_u64(slice_of(key.p + 1, key.n - 2), &n) || n > UINT32_MAX)
		return false;
	*ret = (uint32_t)n;
	return true;
}

/* {"0": {...}, ...} */
static const char *take_partitions(struct commit *c, struct json_scan *j)
{
	const char *fault = json_next(j) == JSON_OBJECT ? NULL : "partitions must be an object";
	while (fault == NULL && json_next(j) == JSON_KEY) {
		if (c->n_parts == GROUP_LIST_MAX)
			return "at most 10000 offsets in a request";
		struct part *p = part_add(c);
		if (!partition_of(j->span, &p->partition))
			return "a partition is a number, as in {\"partitions\":{\"0\":{\"position\":7}}}";
		fault = json_next(j) == JSON_OBJECT ? take_part(c, p, j) : "the value of a partition must be an object";
	}
	return fault;
}

/* The value of one stream: either form. */
static const char *take_stream(struct commit *c, struct slice value)
{
	struct json_scan j, look;
	json_scan_init(&look, value);
	if (json_next(&look) != JSON_OBJECT)
		return "the value of a stream must be an object";
	bool is_long = json_next(&look) == JSON_KEY && json_string_is(look.span, "partitions");
	if (is_long) {
		const char *fault = take_partitions(c, &look);
		return fault != NULL || json_next(&look) == JSON_OBJECT_END ? fault : "partitions stand alone";
	}
	struct part *p = part_add(c);
	p->is_short = true;
	json_scan_init(&j, value);
	json_next(&j);
	return take_part(c, p, &j);
}

static const char *take_name(struct commit *c, struct slice key)
{
	size_t at = buf_len(&c->text);
	if (json_string(key, &c->text) < 0)
		return "the name of a stream is no text";
	const char *fault = topic_path_fault(slice_of(buf_head(&c->text) + at, buf_len(&c->text) - at));
	buf_put_u8(&c->text, '\0');
	c->stream = must_realloc(c->stream, (c->n_streams + 1) * sizeof(*c->stream));
	c->stream[c->n_streams++] = (struct stream){ .name_at = at };
	return fault;
}

static const char *take_offsets(struct commit *c, struct slice offsets)
{
	struct json_scan j;
	const char *fault = NULL;
	json_scan_init(&j, offsets);
	json_next(&j);
	while (fault == NULL && json_next(&j) == JSON_KEY) {
		if (c->n_streams == GROUP_LIST_MAX || c->n_parts >= GROUP_LIST_MAX)
			return "at most 10000 streams and offsets in a request";
		fault = take_name(c, j.span);
		json_skip(&j);
		if (fault == NULL)
			fault = take_stream(c, j.span);
	}
	return fault;
}

/* ------------------------------------------------------------------ commit */

static void on_committed(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__GroupCommitAnswer *a = (const Ipc__GroupCommitAnswer *)m;
	Ipc__GroupError e = a != NULL ? a->error : IPC__GROUP_ERROR__NONE;
	for (size_t i = 0; a != NULL && e == IPC__GROUP_ERROR__NONE && i < a->n_part; i++)
		e = a->part[i];
	if (group_is_good(r, error, e))
		answer_send_empty(r, 204);
}

static void fill_parts(const struct commit *c, Ipc__GroupCommitRequest *m)
{
	Ipc__GroupCommitRequest__Part *p = must_calloc(c->n_parts + 1, sizeof(*p));
	m->part = must_calloc(c->n_parts + 1, sizeof(*m->part));
	m->part[0] = p;
	for (size_t i = 0; i < c->n_parts; i++, p++) {
		const struct part *from = &c->part[i];
		ipc__group_commit_request__part__init(p);
		p->topic_id = (ProtobufCBinaryData){ .len = TOPIC_ID, .data = c->stream[from->stream].id };
		p->partition = from->partition;
		p->offset = (int64_t)from->position;
		p->leader_epoch = -1;
		p->metadata = group_bytes(slice_of(buf_head(&c->text) + from->metadata_at, from->metadata_n));
		m->part[m->n_part++] = p;
	}
}

static void call_commit(struct request *r)
{
	const struct group_request *g = r->state;
	Ipc__GroupCommitRequest m = IPC__GROUP_COMMIT_REQUEST__INIT;
	m.group = group_bytes(buf_slice(&g->group));
	m.member_id = group_bytes(buf_slice(&g->member));
	m.has_instance_id = (g->given & GROUP_INSTANCE_ID) != 0;
	m.instance_id = group_bytes(buf_slice(&g->instance));
	m.generation = g->generation;
	m.retention_ms = -1;
	fill_parts(g->own, &m);
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_COMMIT, &m.base, slice_of(NULL, 0), m.deadline_ms, on_committed);
	free(m.part[0]);
	free(m.part);
}

/* False when refused (answered). */
static bool parts_are_good(struct request *r, const struct commit *c)
{
	for (size_t i = 0; i < c->n_parts; i++) {
		const struct part *p = &c->part[i];
		const struct stream *s = &c->stream[p->stream];
		struct pico_error e;
		if (p->is_short && s->n_partitions > 1)
			pico_error_set(&e, PICO_PARTITION_REQUIRED, "%.100s has %u partitions: {\"partitions\":{\"0\":{\"position\":7}}}",
				       stream_name(c, p->stream), s->n_partitions);
		else if (p->partition >= s->n_partitions)
			pico_error_set(&e, PICO_BAD_REQUEST, "%.100s has %u partitions, counted from 0", stream_name(c, p->stream),
				       s->n_partitions);
		else
			continue;
		pico_answer_error(r, &e);
		return false;
	}
	return true;
}

static void call_find(struct request *r);

/* False: answered. */
static bool take_found(struct request *r, const Ipc__GetManyAnswer *a)
{
	struct commit *c = ((struct group_request *)r->state)->own;
	for (size_t i = 0; i < a->n_one && c->n_found < c->n_streams; i++, c->n_found++) {
		const Ipc__GetManyAnswer__One *one = a->one[i];
		struct pico_error e;
		if (one->topic != NULL && one->topic->topic_id.len == TOPIC_ID) {
			memcpy(c->stream[c->n_found].id, one->topic->topic_id.data, TOPIC_ID);
			c->stream[c->n_found].n_partitions = (uint32_t)one->topic->n_partitions;
			continue;
		}
		enum pico_error_kind kind = one->error != NULL ? (enum pico_error_kind)one->error->kind : PICO_NOT_FOUND;
		if (kind == PICO_THROTTLED && i > 0) /* the answer had no room for it */
			return true;
		pico_error_set(&e, kind, "no such stream: %.150s", stream_name(c, c->n_found));
		pico_answer_error(r, &e);
		return false;
	}
	return true;
}

static void on_found(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const struct commit *c = ((struct group_request *)r->state)->own;
	if (!pico_is_good(r, error) || !take_found(r, (const Ipc__GetManyAnswer *)m))
		return;
	if (c->n_found < c->n_streams)
		call_find(r);
	else if (parts_are_good(r, c))
		call_commit(r);
}

static void call_find(struct request *r)
{
	const struct commit *c = ((struct group_request *)r->state)->own;
	size_t n = c->n_streams - c->n_found;
	Ipc__GetManyRequest m = IPC__GET_MANY_REQUEST__INIT;
	Ipc__TopicRef *ref = must_calloc(n + 1, sizeof(*ref));
	m.topic = must_calloc(n + 1, sizeof(*m.topic));
	for (size_t i = 0; i < n; i++) {
		ipc__topic_ref__init(&ref[i]);
		ref[i].name = stream_name(c, c->n_found + i);
		m.topic[m.n_topic++] = &ref[i];
	}
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET_MANY, &m.base, slice_of(NULL, 0), m.deadline_ms, on_found);
	free(m.topic);
	free(ref);
}

void group_commit(struct request *r)
{
	struct group_request *g = r->state;
	struct commit *c = must_calloc(1, sizeof(*c));
	buf_init(&c->text, SIZE_MAX / 4);
	g->own = c;
	g->own_free = commit_free;
	if (!group_take_body(r, GROUP_OFFSETS | GROUP_MEMBER_ID | GROUP_GENERATION | GROUP_INSTANCE_ID, GROUP_OFFSETS))
		return;
	bool member = (g->given & GROUP_MEMBER_ID) != 0;
	const char *fault = take_offsets(c, g->offsets);
	if (fault != NULL)
		answer_bad_request(r, "%s", fault);
	else if (member != ((g->given & GROUP_GENERATION) != 0))
		answer_bad_request(r, "memberId and generation go together");
	else if (c->n_streams == 0)
		call_commit(r);
	else
		call_find(r);
}

/* ------------------------------------------------------------------ fetch */

struct fetch {
	uint8_t after[TOPIC_ID];
	uint32_t after_partition;
	bool has_after;                 /* the last one that came */
	char *name;                     /* owned: its stream */
	bool shown, is_long;            /* how that is printed */
	bool any;                       /* a stream was printed */
	char **wanted;                  /* owned, in order: the streams asked for; none: all */
	unsigned n_wanted;
};

static void fetch_free(void *own)
{
	struct fetch *f = own;
	for (unsigned i = 0; i < f->n_wanted; i++)
		free(f->wanted[i]);
	free(f->wanted);
	free(f->name);
	free(f);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_wanted(const struct fetch *f, const char *name)
{
	return f->n_wanted == 0 || bsearch(&name, f->wanted, f->n_wanted, sizeof(*f->wanted), by_text) != NULL;
}

/* A name that holds a NUL byte ends there and means no other stream. */
static void take_wanted(const struct request *r, struct fetch *f)
{
	struct buf value;
	unsigned n = query_count(r->query, "stream");
	f->wanted = must_calloc(n + 1, sizeof(*f->wanted));
	buf_init(&value, PICO_PARAM_MAX + 1);
	for (; f->n_wanted < n && query_find_nth(r->query, "stream", f->n_wanted, &value); f->n_wanted++) {
		buf_put_u8(&value, '\0');
		f->wanted[f->n_wanted] = must_strdup(value.failed ? "" : (const char *)buf_head(&value));
	}
	buf_done(&value);
	qsort(f->wanted, f->n_wanted, sizeof(*f->wanted), by_text);
}

static void put_offset(struct buf *out, const Ipc__GroupOffsetFetchAnswer__Part *p)
{
	buf_printf(out, "{\"position\":%" PRId64 ",\"metadata\":", p->offset);
	admin_put_text(out, group_slice(p->metadata));
	buf_put_u8(out, '}');
}

static void end_stream(struct fetch *f, struct buf *out)
{
	if (f->shown && f->is_long)
		buf_put_str(out, "}}");
	f->shown = false;
}

static void begin_stream(struct fetch *f, const Ipc__GroupOffsetFetchAnswer__Part *p, struct buf *out)
{
	end_stream(f, out);
	free(f->name);
	f->name = must_strdup(p->name);
	f->shown = is_wanted(f, f->name);
	f->is_long = p->n_partitions > 1;
	if (!f->shown)
		return;
	buf_put_str(out, f->any ? "," : "");
	f->any = true;
	admin_put_text(out, slice_str(f->name));
	buf_put_str(out, f->is_long ? ":{\"partitions\":{" : ":");
}

static void put_part(struct fetch *f, const Ipc__GroupOffsetFetchAnswer__Part *p, struct buf *out)
{
	bool is_new = !f->has_after || memcmp(f->after, p->topic_id.data, TOPIC_ID) != 0;
	if (is_new)
		begin_stream(f, p, out);
	memcpy(f->after, p->topic_id.data, TOPIC_ID);
	f->after_partition = p->partition;
	f->has_after = true;
	if (!f->shown)
		return;
	if (f->is_long)
		buf_printf(out, "%s\"%u\":", is_new ? "" : ",", p->partition);
	put_offset(out, p);
}

static void fetch_page(struct request *r, const Ipc__GroupOffsetFetchAnswer *a)
{
	struct fetch *f = ((struct group_request *)r->state)->own;
	struct buf *out = &r->answer.body;
	buf_reset(out, SIZE_MAX / 4);
	if (r->answer.status == 0) {
		answer_field(r, "Content-Type", "application/json");
		answer_begin_stream(r, 200, false, 0);
		buf_put_str(out, "{\"offsets\":{");
	}
	for (size_t i = 0; i < a->n_part; i++)
		if (a->part[i]->topic_id.len == TOPIC_ID)
			put_part(f, a->part[i], out);
	bool ended = !a->has_more || a->n_part == 0;
	if (ended) {
		end_stream(f, out);
		buf_put_str(out, "}}\n");
	}
	answer_more(r, ended);
}

static void on_fetched(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__GroupOffsetFetchAnswer *a = (const Ipc__GroupOffsetFetchAnswer *)m;
	r->call = NULL;
	if (r->answer.status != 0 && (error->kind != PICO_OK || a->error != IPC__GROUP_ERROR__NONE))
		answer_break(r);
	else if (group_is_good(r, error, a != NULL ? a->error : IPC__GROUP_ERROR__NONE))
		fetch_page(r, a);
}

static void call_fetch(struct request *r)
{
	struct group_request *g = r->state;
	struct fetch *f = g->own;
	Ipc__GroupOffsetFetchRequest m = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	m.group = group_bytes(buf_slice(&g->group));
	m.all = m.details = true;
	if (f->has_after)
		m.after_topic_id = (ProtobufCBinaryData){ .len = TOPIC_ID, .data = f->after };
	m.after_partition = f->after_partition;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_OFFSET_FETCH, &m.base, slice_of(NULL, 0), m.deadline_ms, on_fetched);
}

void group_fetch(struct request *r)
{
	struct group_request *g = r->state;
	g->own = must_calloc(1, sizeof(struct fetch));
	g->own_free = fetch_free;
	take_wanted(r, g->own);
	r->produce = call_fetch;
	call_fetch(r);
}
