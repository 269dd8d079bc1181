/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/http_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/record_batch.h"

/* ------------------------------------------------------------------ answers of storaged */

Ipc__Topic *topic(struct log *l, size_t n, uint64_t start, uint64_t confirm)
{
	ipc__topic__init(&l->topic);
	l->topic.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)TOPIC_ID, .len = 16 };
	l->topic.name = "/t";
	l->topic.content_type = "text/plain";
	for (size_t i = 0; i < n; i++) {
		ipc__partition__init(&l->partition[i]);
		l->partition[i].start = start;
		l->partition[i].confirm = confirm;
		l->list[i] = &l->partition[i];
	}
	l->topic.n_partitions = n;
	l->topic.partitions = l->list;
	return &l->topic;
}

static void give_created(struct seen *s, bool created)
{
	struct log l;
	Ipc__CreateAnswer a = IPC__CREATE_ANSWER__INIT;
	const Ipc__CreateRequest *m = (const Ipc__CreateRequest *)s->call->request;
	a.topic = topic(&l, m->partitions > 0 ? m->partitions : 1, 0, 0);
	a.topic->closed = m->closed;
	a.topic->content_type = m->content_type;
	a.topic->ttl_seconds = m->ttl_seconds;
	a.topic->expires_at_ms = m->expires_at_ms;
	a.topic->config = m->config;
	a.topic->n_config = m->n_config;
	a.created = created;
	give(s, &a.base);
}

void created(struct seen *s) { give_created(s, true); }
void existed(struct seen *s) { give_created(s, false); }

void appended(struct seen *s)
{
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	const Ipc__AppendRequest *m = (const Ipc__AppendRequest *)s->call->request;
	a.base_offset = 4;
	a.next_offset = 4 + m->record_count;
	a.timestamp_ms = 99;
	a.closed = m->close_after;
	if (m->producer != NULL) {
		a.producer_epoch = m->producer->epoch;
		a.producer_seq = m->producer->seq;
	}
	give(s, &a.base);
}

void duplicate(struct seen *s)
{
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	a.next_offset = 9;
	a.duplicate = true;
	a.producer_epoch = 1;
	a.producer_seq = 6;
	give(s, &a.base);
}

void appended_to_partition(struct seen *s)
{
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	a.next_offset = 1;
	a.partition = 2;
	a.multi_partition = true;
	give(s, &a.base);
}

static void give_topic(struct seen *s, size_t n)
{
	struct log l;
	Ipc__GetAnswer a = IPC__GET_ANSWER__INIT;
	a.topic = topic(&l, n, 3, 8);
	a.topic->kafka_topic = "t";
	give(s, &a.base);
}

void got(struct seen *s) { give_topic(s, 1); }
void got_three(struct seen *s) { give_topic(s, 3); }

void closed(struct seen *s)
{
	struct log l;
	Ipc__CloseAnswer a = IPC__CLOSE_ANSWER__INIT;
	a.topic = topic(&l, 1, 0, 8);
	give(s, &a.base);
}

void deleted(struct seen *s)
{
	Ipc__DeleteAnswer a = IPC__DELETE_ANSWER__INIT;
	a.existed = true;
	give(s, &a.base);
}

void deleted_nothing(struct seen *s)
{
	Ipc__DeleteAnswer a = IPC__DELETE_ANSWER__INIT;
	give(s, &a.base);
}

void listed(struct seen *s)
{
	struct log l, three;
	Ipc__ListAnswer a = IPC__LIST_ANSWER__INIT;
	Ipc__Topic *list[2] = { topic(&l, 1, 1, 2), topic(&three, 3, 0, 0) };
	list[1]->name = "/u";
	list[1]->closed = true;
	a.n_topics = ((const Ipc__ListRequest *)s->call->request)->limit < 2 ? 1 : 2;
	a.has_more = a.n_topics == 1;
	a.topics = list;
	give(s, &a.base);
}

/* The node's segment holds one batch of two records, "a" and "bb" with a key, at offsets 4 and 5. */
static void store_two(void)
{
	struct record_batch_writer writer;
	struct buf batch;
	struct node *n = &w.place.node;
	buf_init(&batch, 1 << 16);
	record_batch_begin(&writer, &batch);
	record_batch_add(&writer, slice_of(NULL, 0), slice_str("a"), NULL, 0);
	record_batch_add(&writer, slice_str("k"), slice_str("bb"), NULL, 0);
	record_batch_end(&writer);
	record_batch_place(buf_head(&batch), 4, 1);
	record_batch_stamp(buf_head(&batch), buf_len(&batch), 99);
	memcpy(n->segment.mem.base, buf_head(&batch), buf_len(&batch));
	n->piece_offset[0] = 0;
	n->piece_length[0] = (uint32_t)buf_len(&batch);
	buf_done(&batch);
}

/* A READ's answer; the batch in the segment when `data`. */
static void give_read(struct seen *s, bool data, uint64_t from, uint64_t confirm, bool is_closed)
{
	struct log l;
	struct node *n = &w.place.node;
	struct call *c = s->call;
	const Ipc__ReadRequest *m = (const Ipc__ReadRequest *)c->request;
	Ipc__ReadAnswer a = IPC__READ_ANSWER__INIT;
	a.topic = topic(&l, 1, 0, confirm);
	a.from = from;
	a.confirm = a.end = confirm;
	a.closed = is_closed;
	a.n_partitions = m->partition_given ? 3 : 1;
	if (data) {
		c->n_pieces = 1;
		c->pieces = must_calloc(1, sizeof(struct piece));
		c->pieces[0] = (struct piece){ .segment = &n->segment, .pin = &n->pin, .length = n->piece_length[0] };
		pin_take(&n->pin);
	}
	give(s, &a.base);
}

void read_two(struct seen *s)
{
	store_two();
	const Ipc__ReadRequest *m = (const Ipc__ReadRequest *)s->call->request;
	give_read(s, true, m->from >= 4 ? (uint64_t)m->from : 4, 6, false);
}

void read_two_closed(struct seen *s)
{
	store_two();
	give_read(s, true, 4, 6, true);
}

void read_none(struct seen *s) { give_read(s, false, 6, 6, false); }
void read_none_closed(struct seen *s) { give_read(s, false, 6, 6, true); }

/* Errors with all their companions. */
#define ERROR(name, k, set)                                                              \
	void name(struct seen *s)                                                 \
	{                                                                                \
		struct pico_error e = { .kind = k };                                     \
		set;                                                                     \
		give_error(s, &e);                                                       \
	}
ERROR(not_found, PICO_NOT_FOUND, )
ERROR(gone, PICO_GONE, )
ERROR(bad_request, PICO_BAD_REQUEST, snprintf(e.message, sizeof(e.message), "because \"so\""))
ERROR(conflict, PICO_CONFLICT, )
ERROR(type_conflict, PICO_CONFLICT, snprintf(e.content_type, sizeof(e.content_type), "text/html");
      e.next_offset = 7; e.has_next_offset = true)
ERROR(is_closed_error, PICO_CLOSED, e.next_offset = 8; e.has_next_offset = true)
ERROR(fenced, PICO_FENCED, e.producer_epoch = 5; e.has_producer_epoch = true)
ERROR(gap, PICO_SEQUENCE_GAP, e.expected_seq = 3; e.received_seq = 9; e.has_gap = true)
ERROR(gap_at_first, PICO_SEQUENCE_GAP, e.expected_seq = 0; e.received_seq = 9; e.has_gap = true)
ERROR(match_failed, PICO_MATCH_FAILED, e.next_offset = 8; e.has_next_offset = true)
ERROR(corrupt, PICO_CORRUPT_BATCH, )
ERROR(too_large, PICO_TOO_LARGE, )
ERROR(schema, PICO_SCHEMA_VIOLATION, )
ERROR(trimmed, PICO_OUT_OF_RANGE, e.start_offset = 6; e.has_start_offset = true)
ERROR(beyond, PICO_OUT_OF_RANGE, e.next_offset = 8; e.has_next_offset = true)
ERROR(not_owner, PICO_NOT_OWNER, )
ERROR(stale, PICO_STALE_TOPIC, )
ERROR(unavailable, PICO_UNAVAILABLE, )
ERROR(throttled, PICO_THROTTLED, )
ERROR(durability, PICO_DURABILITY, )
ERROR(partition_required, PICO_PARTITION_REQUIRED, )

/* ------------------------------------------------------------------ tables */

/* "METHOD target\nheaders\n\nbody" to bytes. */
static void write_request(const char *text, struct buf *out)
{
	const char *end = strchr(text, '\n');
	size_t line = end != NULL ? (size_t)(end - text) : strlen(text);
	buf_put(out, text, line);
	buf_put_str(out, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
	text += line + (end != NULL);
	while (*text != '\0' && *text != '\n') {
		line = strcspn(text, "\n");
		buf_put(out, text, line);
		buf_put_str(out, "\r\n");
		text += line + (text[line] == '\n');
	}
	if (*text == '\n' && text[1] != '\0')
		buf_printf(out, "Content-Length: %zu\r\n\r\n%s", strlen(text + 1), text + 1);
	else
		buf_put_str(out, "\r\n");
}

static void expect_closing(struct client *c, const char *want, const char *what)
{
	client_wait_end(c);
	const char *length = strstr(want, "Content-Length: #");
	char wanted[8192];
	if (length != NULL) /* that of the body as the row has it */
		snprintf(wanted, sizeof(wanted), "%.*sContent-Length: %zu%s", (int)(length - want), want,
			 strlen(strstr(want, "\n\n") + 2), length + 17);
	else
		snprintf(wanted, sizeof(wanted), "%s", want);
	char *got_text = tidy(buf_slice(&c->in)), *at = strstr(got_text, "Connection: close\n");
	if (at != NULL)
		memmove(at, at + 18, strlen(at + 18) + 1);
	if (strcmp(got_text, wanted) != 0)
		fail_msg("%s\n--- got:\n%s\n--- want:\n%s", what, got_text, wanted);
}

void run_row(const struct row *row, uint16_t port)
{
	struct client c;
	struct buf request;
	buf_init(&request, 1 << 20);
	write_request(row->request, &request);
	client_open(&c, port);
	client_send(&c, buf_slice(&request));
	if (row->call != NULL) {
		struct seen *s = next_call();
		const char *call = print_call(s);
		if (strcmp(call, row->call) != 0)
			fail_msg("%s\n--- storaged saw:\n%s\n--- want:\n%s", row->request, call, row->call);
		row->answer(s);
	}
	expect_closing(&c, row->response, row->request);
	assert_null(parked());
	buf_done(&request);
	client_close(&c);
}
