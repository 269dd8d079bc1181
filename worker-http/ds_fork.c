/* SPDX-License-Identifier: Apache-2.0
 *
 * PUT with Stream-Forked-From: a stream that shows another one's content below a point, and its own behind it.
 *
 *   GET source -> its type says what a sub-offset counts
 *              -> READ the batch at the offset, unless that is the end: where the point lies inside, its records up to
 *                 the point are copied as the fork's first batch, and the first content of the fork follows in it
 *              -> FORK
 *
 * A sub-offset counts messages of JSON, so it is only another point; of bytes the first ones of the next record, so it is a
 * piece of that one. Both are bounded by the append that holds the next record. When the source is kept for its forks alone,
 * nothing is read: a fork that exists is only compared.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/record_cut.h"
#include "common/topic_name.h"
#include "worker-http/append.h"
#include "worker-http/ds.h"
#include "worker-http/server.h"

#define BEFORE_ALL "0000000000000000_0000000000000000"  /* how other servers write the start */
#define BEYOND_ALL "9999999999999999_9999999999999999"  /* and what no stream reaches */

struct fork {
	struct slice source;            /* name; part of a header */
	uint8_t source_id[16];
	bool by_id;                     /* that is known */
	bool has_offset, from_start;
	bool json;                      /* its content */
	uint64_t offset, sub_offset;
	bool has_parent_end;
	uint64_t parent_end;
	struct buf batch;               /* what is copied, and first content */
};

static void fork_free(void *state)
{
	struct fork *f = state;
	buf_done(&f->batch);
	free(f);
}

/* ------------------------------------------------------------------ what is asked */

static bool take_offset(struct request *r, struct fork *f)
{
	struct slice s = request_field(r, "stream-fork-offset");
	struct position p = { .tail = s.n == 0 };
	bool good = s.n == 0 || ds_offset_parse(s, &p);
	if (slice_is(s, BEFORE_ALL) || slice_is(s, BEYOND_ALL)) {
		p = (struct position){ .from = slice_is(s, BEFORE_ALL) ? -1 : INT64_MAX };
		good = true;
	}
	if (!good) {
		answer_bad_request(r, "Stream-Fork-Offset is -1, now, or an offset that this server gave");
		return false;
	}
	f->has_offset = !p.tail;
	f->from_start = p.from < 0;
	f->offset = p.from < 0 ? 0 : (uint64_t)p.from;
	return true;
}

static bool take_sub_offset(struct request *r, struct fork *f)
{
	struct slice s = request_field(r, "stream-fork-sub-offset");
	if (s.n > 0 && !strict_u64(s, &f->sub_offset)) {
		answer_bad_request(r, "Stream-Fork-Sub-Offset must be a number without sign or leading zeros");
		return false;
	}
	if (f->sub_offset == 0 || f->has_offset)
		return true;
	answer_bad_request(r, "Stream-Fork-Sub-Offset counts from Stream-Fork-Offset: give that, too");
	return false;
}

static bool take_source(struct request *r, struct fork *f)
{
	f->source = ds_name_of(r->server->conf, request_field(r, "stream-forked-from"));
	const char *fault = topic_path_fault(f->source);
	if (fault == NULL && topic_path_is_reserved(f->source))
		fault = "names of that kind are reserved";
	if (fault != NULL)
		answer_bad_request(r, "Stream-Forked-From is the path of a stream of this server: %s", fault);
	return fault == NULL;
}

/* ------------------------------------------------------------------ FORK */

static void on_forked(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__ForkAnswer *a = (const Ipc__ForkAnswer *)m;
	r->call = NULL;
	if (error->kind != PICO_OK)
		ds_answer_put_error(r, error);
	else
		ds_answer_created(r, a->topic, a->created);
}

static void source_fill(struct fork *f, Ipc__TopicRef *source)
{
	static char name[TOPIC_PATH_MAX + 1];
	memcpy(name, f->source.p, f->source.n);
	name[f->source.n] = '\0';
	ipc__topic_ref__init(source);
	source->name = name;
	if (f->by_id)
		source->topic_id = (ProtobufCBinaryData){ .data = f->source_id, .len = sizeof(f->source_id) };
}

static void call_fork(struct request *r)
{
	struct fork *f = r->state;
	Ipc__ForkRequest m = IPC__FORK_REQUEST__INIT;
	Ipc__CreateRequest create = IPC__CREATE_REQUEST__INIT;
	Ipc__TopicRef source;
	struct pico_error e;
	if (f->batch.failed) {
		append_too_large(r, &e);
		ds_answer_error(r, &e);
		return;
	}
	create.content_type = create_content_type(r, "");
	if (create.content_type == NULL || !create_take_expiry(r, &ds_expiry_names, &create))
		return;
	source_fill(f, &source);
	create.name = request_name(r);
	create.closed = request_flag(r, "stream-closed");
	m.create = &create;
	m.source = &source;
	m.has_offset = f->has_offset;
	m.offset = f->offset;
	m.sub_offset = f->sub_offset;
	m.has_parent_end = f->has_parent_end;
	m.parent_end = f->parent_end;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_FORK, &m.base, buf_slice(&f->batch), m.deadline_ms, on_forked);
}

/* ------------------------------------------------------------------ copies */

/* The records of the body behind those that were copied, as of now. */
static void add_content(struct request *r, struct record_batch_writer *w, struct slice content)
{
	struct record_batch b;
	struct record_iter it;
	struct record record;
	if (content.n == 0)
		return;
	must(record_batch_read(content, &b) == 0 && record_iter_init(&it, &b) == 0);
	while (record_iter_next(&it, &record) == 1) {
		record.timestamp_ms = env_wall_ms(r->server->env);
		record_batch_add_record(w, &record);
	}
}

/* The records below the point, a piece of the one at it. 0 or negative: -ERANGE when that one is shorter. */
static int add_copies(const struct fork *f, struct record_decoder *d, struct record_batch_writer *w)
{
	struct record record;
	int rc;
	while ((rc = record_decoder_next(d, &record)) == 1 && record.offset <= f->offset) {
		if (record.offset == f->offset && f->sub_offset == 0)
			return 0;
		if (record.offset == f->offset && record.value.n < f->sub_offset)
			return -ERANGE;
		if (record.offset == f->offset)
			record.value.n = (size_t)f->sub_offset;
		record_batch_add_record(w, &record);
	}
	return rc < 0 ? rc : 0;
}

/* The head of the batch and the content into one batch. 0 or negative. */
static int graft(struct request *r, const struct record_batch *b, struct buf *content)
{
	struct fork *f = r->state;
	struct record_batch_writer w;
	struct record_decoder d;
	struct buf out;
	buf_init(&out, r->server->conf->max_message_size);
	record_decoder_init(&d, r->server->conf->max_decompressed_size);
	int rc;
	if (f->sub_offset == 0 && buf_len(content) == 0) {
		rc = record_cut(&d, b, (uint32_t)(f->offset - b->base_offset), &out);
	} else {
		record_batch_begin(&w, &out);
		rc = record_decoder_open(&d, b);
		if (rc == 0)
			rc = add_copies(f, &d, &w);
		add_content(r, &w, buf_slice(content));
		record_batch_end(&w);
	}
	record_decoder_done(&d);
	buf_done(content);
	*content = out;
	return rc == -ENOBUFS && out.failed ? 0 : rc; /* call_fork() says so */
}

/*
 * Where the point is in the batch that holds the record at it, and what is to be copied. False when answered.
 */
static bool take_batch(struct request *r, const struct record_batch *b)
{
	struct fork *f = r->state;
	uint64_t end = b->base_offset + b->last_offset_delta + 1;
	int rc = 0;
	if (f->json && f->sub_offset > end - f->offset)
		rc = -ERANGE;
	if (f->json && rc == 0) {
		f->offset += f->sub_offset;
		f->sub_offset = 0;
	}
	bool copies = f->sub_offset > 0 || (f->offset > b->base_offset && f->offset < end);
	f->has_parent_end = copies;
	f->parent_end = b->base_offset;
	if (rc == 0 && copies)
		rc = graft(r, b, &f->batch);
	if (rc == -ERANGE)
		answer_bad_request(r, "Stream-Fork-Sub-Offset passes the end of what was appended there");
	else if (rc < 0)
		answer_error(r, 500, "internal", "a stored batch cannot be read", NULL);
	return rc == 0;
}

static void on_batch(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct fork *f = r->state;
	struct batch_cursor cursor;
	struct record_batch b;
	struct slice bytes;
	r->call = NULL;
	if (error->kind != PICO_OK || pieces == NULL) {
		if (error->kind == PICO_OK && f->sub_offset > 0)
			answer_bad_request(r, "Stream-Fork-Sub-Offset passes the end of the stream");
		else
			call_fork(r); /* it says what is wrong, or that the fork exists */
		return;
	}
	batch_cursor_init(&cursor, pieces);
	bool good = batch_cursor_next(&cursor, &bytes) == 1 && record_batch_read(bytes, &b) == 0 &&
		f->offset >= b.base_offset && f->offset <= b.base_offset + b.last_offset_delta;
	if (!good)
		answer_error(r, 500, "internal", "a stored batch cannot be read", NULL);
	else if (take_batch(r, &b))
		call_fork(r);
	batch_cursor_done(&cursor);
	topics_pieces_release(pieces);
}

static void call_read(struct request *r)
{
	struct fork *f = r->state;
	Ipc__ReadRequest m = IPC__READ_REQUEST__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	Ipc__TopicRef source;
	source_fill(f, &source);
	log.topic = &source;
	m.log = &log;
	m.from = (int64_t)f->offset;
	m.max_bytes = 1;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_READ, &m.base, slice_of(NULL, 0), m.deadline_ms, on_batch);
}

/* ------------------------------------------------------------------ the source */

/* What is to be shared is known. False when answered. */
static bool take_topic(struct request *r, const Ipc__Topic *t)
{
	struct fork *f = r->state;
	struct pico_error e;
	char fault[200];
	uint32_t count;
	if (t->n_partitions != 1) {
		ds_answer_partitions(r);
		return false;
	}
	struct slice type = request_field(r, "content-type");
	if (type.n > 0 && !media_type_same(type, slice_str(t->content_type))) {
		pico_error_set(&e, PICO_CONFLICT, "the content type is %.100s", t->content_type);
		ds_answer_error(r, &e);
		return false;
	}
	f->json = ds_is_json(slice_str(t->content_type));
	if (ds_batch(buf_slice(&r->body), f->json, &f->batch, &count, fault, sizeof(fault)) == 0)
		return true;
	answer_bad_request(r, "%s", fault);
	return false;
}

/* The source is kept for its forks: is this one of them? */
static void on_target(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct fork *f = r->state;
	struct pico_error gone;
	r->call = NULL;
	if (error->kind == PICO_NOT_FOUND) {
		pico_error_set(&gone, PICO_CONFLICT, "the stream to fork was deleted; it is kept for forks that there are");
		ds_answer_error(r, &gone);
	} else if (error->kind != PICO_OK) {
		ds_answer_put_error(r, error);
	} else if (take_topic(r, ((const Ipc__GetAnswer *)m)->topic)) {
		buf_reset(&f->batch, 0);
		f->offset += f->json ? f->sub_offset : 0;
		f->sub_offset = f->json ? 0 : f->sub_offset;
		call_fork(r);
	}
}

static void call_get(struct request *r, Ipc__TopicRef *topic, topics_cb *cb)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	m.topic = topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

static void on_source(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct fork *f = r->state;
	Ipc__TopicRef target = IPC__TOPIC_REF__INIT;
	r->call = NULL;
	if (error->kind == PICO_GONE) {
		target.name = request_name(r);
		call_get(r, &target, on_target);
		return;
	}
	if (error->kind != PICO_OK) {
		ds_answer_put_error(r, error);
		return;
	}
	const Ipc__Topic *t = ((const Ipc__GetAnswer *)m)->topic;
	if (!take_topic(r, t))
		return;
	must(t->topic_id.len == sizeof(f->source_id));
	memcpy(f->source_id, t->topic_id.data, sizeof(f->source_id));
	f->by_id = true;
	if (f->from_start)
		f->offset = t->partitions[0]->start;
	if (f->has_offset && (f->offset < t->partitions[0]->confirm || f->sub_offset > 0))
		call_read(r);
	else
		call_fork(r);
}

void ds_fork(struct request *r)
{
	struct fork *f = must_calloc(1, sizeof(*f));
	Ipc__TopicRef source;
	buf_init(&f->batch, r->server->conf->max_message_size);
	r->state = f;
	r->state_free = fork_free;
	if (!take_source(r, f) || !take_offset(r, f) || !take_sub_offset(r, f))
		return;
	source_fill(f, &source);
	call_get(r, &source, on_source);
}
