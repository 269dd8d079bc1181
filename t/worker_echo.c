/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest facade, built for tests and quoted by doc/facades.md: one line is one record. The first line of a
 * connection says what it is for:
 *
 *   APPEND /name       each further line is a record, answered with its offset when it is stored
 *   READ /name FROM    each record as "OFFSET VALUE"; "end NEXT" whenever all is told; what comes later follows
 *
 * "error WORD" ends a connection. Invariant: at most one call and one write a connection, so answers keep the order
 * of the lines, and its memory is bounded by the lines waiting (64 KiB) and one answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "common/must.h"
#include "common/record_decode.h"
#include "common/worker.h"

#define LINE_BYTES_MAX (64u << 10)
#define ANSWER_BYTES_MAX (8u << 20)
#define CALL_MS 30000

struct conn {
	uv_tcp_t tcp;
	uv_write_t write;
	struct conn *next;
	uint8_t address[16];            /* of the client, as acceptor_gone() wants it */
	enum { MODE_NONE, MODE_APPEND, MODE_READ } mode;
	char name[1025];
	uint64_t from;                  /* MODE_READ: where the next record is looked for */
	struct topics_call *call;       /* the open one */
	struct buf in, out;             /* owned */
	bool waits, writing;            /* waits: all is told, so the next call is a wait */
	bool eof, ending;               /* ending: closes when out has left */
};

static struct {
	struct worker worker;
	struct conn *conns;
	bool draining;
} w;

static void conn_step(struct conn *c);

static void on_closed(uv_handle_t *h)
{
	struct conn *c = h->data;
	buf_done(&c->in);
	buf_done(&c->out);
	free(c);
}

static void conn_close(struct conn *c)
{
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	LL_DELETE(w.conns, c);
	if (c->call != NULL)
		topics_abandon(c->call);
	acceptor_gone(&w.worker.acceptor, c->address);
	uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* The one place that turns an error into this protocol's words. */
static void conn_error(struct conn *c, enum pico_error_kind kind)
{
	bool again = kind == PICO_NOT_OWNER || kind == PICO_STALE_TOPIC || kind == PICO_THROTTLED;
	buf_reset(&c->out, 0);
	buf_printf(&c->out, "error %s\n", pico_error_word(again ? PICO_UNAVAILABLE : kind));
	c->ending = true;
}

/* Every record from c->from on becomes a line; `pieces` begin and end with whole batches. */
static void take_read(struct conn *c, const Ipc__ReadAnswer *a, const struct topics_pieces *pieces)
{
	static const struct topics_pieces none;
	struct batch_cursor cursor;
	struct record_decoder decoder;
	struct record_batch batch;
	struct record record;
	struct slice bytes;
	int r, fault = 0;
	batch_cursor_init(&cursor, pieces != NULL ? pieces : &none);
	record_decoder_init(&decoder, ANSWER_BYTES_MAX);
	while (fault == 0 && (r = batch_cursor_next(&cursor, &bytes)) != 0) {
		fault = r < 0 ? r : record_batch_read(bytes, &batch);
		fault = fault < 0 ? fault : record_decoder_open(&decoder, &batch);
		while (fault == 0 && (r = record_decoder_next(&decoder, &record)) != 0) {
			fault = r < 0 ? r : 0;
			if (r < 0 || record.offset < c->from)
				continue;
			buf_printf(&c->out, "%" PRIu64 " ", record.offset);
			buf_put_slice(&c->out, record.value);
			buf_put_str(&c->out, "\n");
		}
	}
	record_decoder_done(&decoder);
	batch_cursor_done(&cursor);
	c->from = a->end > c->from ? a->end : c->from;
	c->waits = c->from >= a->confirm;
	c->ending = c->waits && a->closed;
	if (c->waits)
		buf_printf(&c->out, "end %" PRIu64 "\n", c->from);
	if (fault < 0 || c->out.failed)
		conn_error(c, fault == -EBADMSG ? PICO_CORRUPT_BATCH : PICO_TOO_LARGE);
}

static void on_answer(void *arg, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct conn *c = arg;
	c->call = NULL;
	if (e->kind != PICO_OK)
		conn_error(c, e->kind);
	else if (c->mode == MODE_APPEND)
		buf_printf(&c->out, "%" PRIu64 "\n", ((const Ipc__AppendAnswer *)m)->base_offset);
	else if (c->waits)
		c->waits = !((const Ipc__WaitAnswer *)m)->ready;
	else
		take_read(c, (const Ipc__ReadAnswer *)m, pieces);
	if (pieces != NULL)
		topics_pieces_release(pieces); /* what is needed was copied: storaged has nothing to reclaim */
	conn_step(c);
}

static void append(struct conn *c, Ipc__LogRef *log, struct slice line)
{
	Ipc__AppendRequest m = IPC__APPEND_REQUEST__INIT;
	struct record_batch_writer writer;
	struct buf batch;
	buf_init(&batch, 2 * LINE_BYTES_MAX);
	record_batch_begin(&writer, &batch);
	record_batch_add(&writer, slice_of(NULL, 0), line, NULL, 0);
	must(record_batch_end(&writer) > 0);
	m.log = log;
	m.record_count = 1;
	c->call = topics_call(w.worker.topics, IPC_APPEND, &m.base, buf_slice(&batch), env_now_ms(w.worker.env) + CALL_MS, on_answer, c);
	buf_done(&batch);
}

static void read_or_wait(struct conn *c, Ipc__LogRef *log)
{
	Ipc__ReadRequest read = IPC__READ_REQUEST__INIT;
	Ipc__WaitRequest wait = IPC__WAIT_REQUEST__INIT;
	read.log = wait.log = log;
	read.partition_given = wait.partition_given = true;
	read.from = wait.from = (int64_t)c->from;
	read.max_bytes = ANSWER_BYTES_MAX / 32; /* of batches, perhaps compressed */
	c->call = topics_call(w.worker.topics, c->waits ? IPC_WAIT : IPC_READ, c->waits ? &wait.base : &read.base,
			      slice_of(NULL, 0), env_now_ms(w.worker.env) + CALL_MS, on_answer, c);
}

/* False when no whole line is there. */
static bool take_line(struct conn *c, Ipc__LogRef *log)
{
	char *line = (char *)buf_head(&c->in), *end = line != NULL ? memchr(line, '\n', buf_len(&c->in)) : NULL;
	char what[8] = "";
	if (end == NULL && buf_len(&c->in) == LINE_BYTES_MAX)
		conn_error(c, PICO_TOO_LARGE);
	if (end == NULL)
		return c->ending;
	*end = '\0';
	if (c->mode == MODE_APPEND) {
		append(c, log, slice_of(line, (size_t)(end - line)));
	} else {
		int n = sscanf(line, "%7s %1024s %" SCNu64, what, c->name, &c->from);
		c->mode = n == 2 && strcmp(what, "APPEND") == 0 ? MODE_APPEND : MODE_READ;
		if (c->mode == MODE_READ && (n < 3 || strcmp(what, "READ") != 0 || c->from > INT64_MAX))
			conn_error(c, PICO_BAD_REQUEST);
	}
	buf_consume(&c->in, (size_t)(end + 1 - line));
	return true;
}

static void on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;
	c->writing = false;
	buf_reset(&c->out, 4096);
	if (status < 0)
		conn_close(c);
	conn_step(c);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	static char bytes[LINE_BYTES_MAX];
	*ret = uv_buf_init(bytes, (unsigned)(LINE_BYTES_MAX - buf_len(&((struct conn *)h->data)->in)));
}

static void on_bytes(uv_stream_t *s, ssize_t n, const uv_buf_t *bytes)
{
	struct conn *c = s->data;
	if (n > 0 && c->mode != MODE_READ)
		buf_put(&c->in, bytes->base, (size_t)n);
	c->eof = n < 0;
	if (n < 0 && (n != UV_EOF || c->mode == MODE_READ))
		conn_close(c);
	conn_step(c);
}

/* What comes next on this connection; called after everything that happens to it. */
static void conn_step(struct conn *c)
{
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	Ipc__LogRef log = IPC__LOG_REF__INIT;
	uv_stream_t *stream = (uv_stream_t *)&c->tcp;
	topic.name = c->name;
	log.topic = &topic;
	for (bool go = true; go && !uv_is_closing((uv_handle_t *)stream) && c->call == NULL && !c->writing; ) {
		uv_buf_t out = uv_buf_init((char *)buf_head(&c->out), (unsigned)buf_len(&c->out));
		if (out.len > 0)
			c->writing = uv_write(&c->write, stream, &out, 1, on_written) == 0 || (conn_close(c), false);
		else if (c->ending || w.draining)
			conn_close(c);
		else if (topics_is_full(w.worker.topics))
			go = false; /* on_room() comes back here */
		else if (c->mode == MODE_READ)
			read_or_wait(c, &log);
		else if (!(go = take_line(c, &log)) && c->eof)
			conn_close(c);
	}
	uv_read_stop(stream);
	if (!uv_is_closing((uv_handle_t *)stream) && !c->eof && buf_len(&c->in) < LINE_BYTES_MAX)
		uv_read_start(stream, on_alloc, on_bytes);
}

static void on_conn(void *arg, int fd, const uint8_t address[16], const struct child_listener *from)
{
	struct conn *c = must_calloc(1, sizeof(*c));
	must(uv_tcp_init(w.worker.loop, &c->tcp) == 0 && uv_tcp_open(&c->tcp, fd) == 0);
	c->tcp.data = c->write.data = c;
	memcpy(c->address, address, sizeof(c->address));
	LL_PREPEND(w.conns, c);
	buf_init(&c->in, LINE_BYTES_MAX);
	buf_init(&c->out, ANSWER_BYTES_MAX);
	conn_step(c);
}

static void on_refused(void *arg, int fd, const struct child_listener *from)
{
	close(fd);
}

static void step_all(void *arg)
{
	struct conn *c, *next;
	LL_FOREACH_SAFE(w.conns, c, next) {
		if (w.draining && c->mode == MODE_READ && c->call != NULL)
			conn_close(c); /* nothing is lost with a read; an append is answered first */
		conn_step(c);
	}
}

static void on_drain(void *arg)
{
	w.draining = true;
	acceptor_stop(&w.worker.acceptor);
	step_all(NULL);
	acceptor_when_empty(&w.worker.acceptor, worker_drained, &w.worker);
}

int main(int argc, char **argv)
{
	static const struct worker_events events = { .on_room = step_all, .on_drain = on_drain };
	worker_init(&w.worker, PROCESS_WORKER_HTTP, argc, argv);
	acceptor_open(&w.worker.acceptor, &(struct acceptor_config){
		.loop = w.worker.loop,
		.child = &w.worker.child,
		.connections = METRIC_HTTP_CONNECTIONS,
		.accepted = METRIC_HTTP_ACCEPTED,
		.refused = METRIC_HTTP_REFUSED,
		.on_conn = on_conn,
		.on_refused = on_refused,
	});
	worker_run(&w.worker, &events, NULL);
}
