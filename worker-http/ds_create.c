/* SPDX-License-Identifier: Apache-2.0
 *
 * PUT: create a stream, with its first content when there is a body. Again with the same settings is 200, and the body is not
 * appended again.
 */
#include "worker-http/append.h"
#include "worker-http/ds.h"
#include "worker-http/server.h"

void ds_answer_created(struct request *r, const Ipc__Topic *topic, bool created)
{
	ds_put_topic(r, topic);
	if (created)
		ds_put_location(r);
	answer_send_empty(r, created ? 201 : 200);
}

/* What is kept for its forks is in the way of a PUT. */
void ds_answer_put_error(struct request *r, const struct pico_error *error)
{
	struct pico_error e = *error;
	if (e.kind == PICO_GONE)
		e.kind = PICO_CONFLICT;
	ds_answer_error(r, &e);
}

static void on_created(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__CreateAnswer *a = (const Ipc__CreateAnswer *)m;
	r->call = NULL;
	if (error->kind != PICO_OK)
		ds_answer_put_error(r, error);
	else
		ds_answer_created(r, a->topic, a->created);
}

/* Settings and first content. False when refused (answered). */
static bool take_create(struct request *r, Ipc__CreateRequest *m, struct buf *batch)
{
	char fault[200];
	uint32_t count;
	m->content_type = create_content_type(r, "application/octet-stream");
	if (m->content_type == NULL || !create_take_expiry(r, &ds_expiry_names, m))
		return false;
	bool json = ds_is_json(slice_str(m->content_type));
	if (ds_batch(buf_slice(&r->body), json, batch, &count, fault, sizeof(fault)) < 0) {
		answer_bad_request(r, "%s", fault);
		return false;
	}
	m->name = request_name(r);
	m->partitions = 1;
	m->closed = request_flag(r, "stream-closed");
	m->deadline_ms = request_deadline(r);
	return true;
}

static void create(struct request *r)
{
	Ipc__CreateRequest m = IPC__CREATE_REQUEST__INIT;
	struct pico_error e;
	struct buf batch;
	buf_init(&batch, r->server->conf->max_message_size);
	bool good = take_create(r, &m, &batch);
	if (good && batch.failed) {
		append_too_large(r, &e);
		ds_answer_error(r, &e);
	} else if (good) {
		buf_done(&r->body);
		request_call(r, IPC_CREATE, &m.base, buf_slice(&batch), m.deadline_ms, on_created);
	}
	buf_done(&batch);
}

void ds_create(struct request *r)
{
	if (request_field(r, "stream-forked-from").n > 0)
		ds_fork(r);
	else if (request_field(r, "stream-fork-offset").n > 0 || request_field(r, "stream-fork-sub-offset").n > 0)
		answer_bad_request(r, "Stream-Fork-Offset and Stream-Fork-Sub-Offset go with Stream-Forked-From");
	else
		create(r);
}
