/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/append.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/utf8.h"
#include "worker-http/query.h"
#include "worker-http/server.h"

void append_init(struct append *a, struct request *r)
{
	ipc__append_request__init(&a->message);
	ipc__log_ref__init(&a->log);
	ipc__topic_ref__init(&a->topic);
	ipc__producer__init(&a->producer);
	a->topic.name = request_name(r);
	a->log.topic = &a->topic;
	a->message.log = &a->log;
	buf_init(&a->batch, r->server->conf->max_message_size);
}

void append_done(struct append *a)
{
	buf_done(&a->batch);
}

static struct slice producer_field(const struct request *r, const struct producer_names *names, const char *what)
{
	char name[64];
	snprintf(name, sizeof(name), "%s-%s", names->lower, what);
	return request_field(r, name);
}

static bool number(struct slice s, uint64_t max, uint64_t *ret)
{
	return strict_u64(s, ret) && *ret <= max;
}

bool append_take_producer(struct append *a, struct request *r, const struct producer_names *names)
{
	struct slice id = producer_field(r, names, "id");
	struct slice epoch = producer_field(r, names, "epoch");
	struct slice seq = producer_field(r, names, "seq");
	const char *p = names->prefix;
	if (id.p == NULL && epoch.p == NULL && seq.p == NULL)
		return true;
	if (id.n == 0 || epoch.p == NULL || seq.p == NULL) {
		answer_bad_request(r, "%s-Id, %s-Epoch and %s-Seq go together", p, p, p);
		return false;
	}
	if (!number(epoch, names->max, &a->producer.epoch) || !number(seq, names->max, &a->producer.seq)) {
		answer_bad_request(r, "%s-Epoch and %s-Seq must be numbers from 0 to %" PRIu64, p, p, names->max);
		return false;
	}
	if (id.n > PRODUCER_ID_MAX || !utf8_is_valid(id)) {
		answer_bad_request(r, "%s-Id must be at most %d bytes of UTF-8", p, PRODUCER_ID_MAX);
		return false;
	}
	memcpy(a->producer_id, id.p, id.n);
	a->producer_id[id.n] = '\0';
	a->producer.id = a->producer_id;
	a->message.producer = &a->producer;
	return true;
}

void append_too_large(const struct request *r, struct pico_error *ret_error)
{
	pico_error_set(ret_error, PICO_TOO_LARGE, "the records of one append may take %" PRIu64 " bytes",
		       r->server->conf->max_message_size);
}

void append_call(struct append *a, struct request *r, topics_cb *cb)
{
	a->message.deadline_ms = request_deadline(r);
	buf_done(&r->body);
	request_call(r, IPC_APPEND, &a->message.base, buf_slice(&a->batch), a->message.deadline_ms, cb);
}
