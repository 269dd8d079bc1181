/* SPDX-License-Identifier: Apache-2.0
 *
 * HEAD and DELETE, and how a stream is shown in headers.
 */
#include <inttypes.h>
#include <stdio.h>

#include "worker-http/ds.h"
#include "worker-http/server.h"

const struct expiry_names ds_expiry_names = {
	"Stream-TTL", "stream-ttl", "Stream-Expires-At", "stream-expires-at",
};

void ds_put_offset(struct request *r, uint64_t offset)
{
	char text[24];
	snprintf(text, sizeof(text), "%020" PRIu64, offset);
	answer_field(r, "Stream-Next-Offset", text);
}

void ds_put_topic(struct request *r, const Ipc__Topic *t)
{
	answer_field(r, "Content-Type", t->content_type);
	if (t->n_partitions == 1)
		ds_put_offset(r, t->partitions[0]->confirm);
	create_put_expiry(r, &ds_expiry_names, t);
	if (t->closed)
		answer_field(r, "Stream-Closed", "true");
}

/* ------------------------------------------------------------------ Location */

/* What may stand in a URL as host and port (RFC 3986 section 3.2.2). */
static bool is_authority(struct slice s)
{
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i], letter = c | 0x20;
		if ((c < '0' || c > '9') && (letter < 'a' || letter > 'z') && memchr("-._~:[]%", c, 8) == NULL)
			return false;
	}
	return s.n > 0 && s.n <= 300;
}

/* The address that was configured for that, else the one that the client found us under, else the listener's. */
void ds_put_base(const struct request *r, struct buf *out)
{
	const struct server *s = r->server;
	struct slice host = request_field(r, "host");
	if (s->conf->ds_address[0] == '\0' && is_authority(host)) {
		buf_put_str(out, r->secure ? "https://" : "http://");
		buf_put_slice(out, host);
		return;
	}
	size_t n = strlen(s->child->ds_address);
	while (n > 0 && s->child->ds_address[n - 1] == '/')
		n--;
	buf_put(out, s->child->ds_address, n);
}

void ds_put_location(struct request *r)
{
	struct buf url;
	buf_init(&url, HTTP1_HEAD_MAX);
	ds_put_base(r, &url);
	buf_put_slice(&url, r->path);
	answer_field_slice(r, "Location", buf_slice(&url));
	buf_done(&url);
}

/* ------------------------------------------------------------------ HEAD, DELETE */

static void call_get(struct request *r, topics_cb *cb)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = request_name(r);
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

/* NULL: answered. */
static const Ipc__Topic *take_stream(struct request *r, const struct pico_error *error, const ProtobufCMessage *m)
{
	r->call = NULL;
	if (error->kind != PICO_OK) {
		ds_answer_error(r, error);
		return NULL;
	}
	const Ipc__Topic *t = ((const Ipc__GetAnswer *)m)->topic;
	if (t->n_partitions == 1)
		return t;
	ds_answer_partitions(r);
	return NULL;
}

static void on_head(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__Topic *t = take_stream(r, error, m);
	if (t == NULL)
		return;
	ds_put_topic(r, t);
	answer_send_empty(r, 200);
}

void ds_head(struct request *r)
{
	call_get(r, on_head);
}

static void on_deleted(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct pico_error missing;
	r->call = NULL;
	if (error->kind == PICO_OK && ((const Ipc__DeleteAnswer *)m)->existed) {
		answer_send_empty(r, 204);
		return;
	}
	pico_error_set(&missing, PICO_NOT_FOUND, "no such stream");
	ds_answer_error(r, error->kind == PICO_OK ? &missing : error);
}

/* By its id: what was looked at goes, not what has its name meanwhile. */
static void on_found(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__Topic *t = take_stream(r, error, m);
	if (t == NULL)
		return;
	Ipc__DeleteRequest delete = IPC__DELETE_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.topic_id = t->topic_id;
	delete.topic = &topic;
	delete.deadline_ms = request_deadline(r);
	request_call(r, IPC_DELETE, &delete.base, slice_of(NULL, 0), delete.deadline_ms, on_deleted);
}

void ds_delete(struct request *r)
{
	call_get(r, on_found);
}
