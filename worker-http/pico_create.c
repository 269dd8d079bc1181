/* SPDX-License-Identifier: Apache-2.0
 *
 * PUT /name: create a topic; again with the same settings is 200.
 */
#include <stdlib.h>

#include "common/topic_name.h"
#include "worker-http/pico.h"
#include "worker-http/pico_retention.h"
#include "worker-http/pico_topic.h"
#include "worker-http/server.h"

static void on_created(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct request *r = arg;
	if (!pico_is_good(r, error))
		return;
	const Ipc__CreateAnswer *a = (const Ipc__CreateAnswer *)m;
	pico_topic_fields(r, a->topic);
	if (a->created)
		answer_field_slice(r, "Location", r->path);
	answer_send_empty(r, a->created ? 201 : 200);
}

/* Given and empty: none. False when refused (answered). */
static bool kafka_topic(struct request *r, Ipc__CreateRequest *m)
{
	static char alias[TOPIC_ALIAS_MAX + 1];
	struct slice s = request_field(r, "pico-kafka-topic");
	if (s.p == NULL)
		return true;
	if (s.n > 0 && !topic_alias_is_legal(s)) {
		answer_bad_request(r, "Pico-Kafka-Topic must be 1 to %d of A-Z a-z 0-9 . _ - and none of Kafka's own names, "
				 "or empty", TOPIC_ALIAS_MAX);
		return false;
	}
	memcpy(alias, s.p, s.n);
	alias[s.n] = '\0';
	m->kafka_topic = alias;
	m->has_kafka_topic = true;
	return true;
}

/* Not named: one, or as many as it has. False when refused (answered). */
static bool take_partitions(struct request *r, Ipc__CreateRequest *m)
{
	bool given;
	uint64_t partitions = 0, most = r->server->conf->max_partitions;
	if (!pico_u64_field(r, "Pico-Partitions", "pico-partitions", &given, &partitions))
		return false;
	if (given && (partitions < 1 || partitions > most)) {
		answer_bad_request(r, "Pico-Partitions must be from 1 to %llu", (unsigned long long)most);
		return false;
	}
	m->partitions = (uint32_t)partitions;
	return true;
}

void pico_create(struct request *r)
{
	Ipc__CreateRequest m = IPC__CREATE_REQUEST__INIT;
	struct pico_retention retention = { 0 };
	if (buf_len(&r->body) > 0) {
		answer_bad_request(r, "PUT takes no body: append with POST");
		return;
	}
	if (!take_partitions(r, &m) || !create_take_expiry(r, &pico_expiry_names, &m) ||
	    !pico_take_retention(r, &retention, &m))
		return;
	m.content_type = create_content_type(r, "application/octet-stream");
	if (m.content_type == NULL || !kafka_topic(r, &m))
		return;
	m.name = request_name(r);
	m.closed = request_flag(r, "pico-closed");
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_CREATE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_created);
}
