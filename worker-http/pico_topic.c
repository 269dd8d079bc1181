/* SPDX-License-Identifier: Apache-2.0
 *
 * HEAD and DELETE of a topic, and how a topic is shown.
 */
#include "worker-http/pico_topic.h"

#include <inttypes.h>

#include "common/json_scan.h"
#include "worker-http/pico.h"
#include "worker-http/pico_retention.h"
#include "worker-http/rfc3339.h"

const struct expiry_names pico_expiry_names = { "Pico-TTL", "pico-ttl", "Pico-Expires-At", "pico-expires-at" };

void pico_topic_fields(struct request *r, const Ipc__Topic *t)
{
	answer_field(r, "Content-Type", t->content_type);
	if (t->n_partitions == 1) {
		answer_field_u64(r, "Pico-Start-Seq", t->partitions[0]->start);
		answer_field_u64(r, "Pico-Next-Seq", t->partitions[0]->confirm);
	} else if (t->n_partitions > 1) {
		answer_field_u64(r, "Pico-Partitions", t->n_partitions);
	}
	create_put_expiry(r, &pico_expiry_names, t);
	pico_retention_fields(r, t);
	if (t->closed)
		answer_field(r, "Pico-Closed", "true");
	if (t->kafka_topic[0] != '\0')
		answer_field(r, "Pico-Kafka-Topic", t->kafka_topic);
}

static void put_text(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "\"%s\":", name);
	/* What is stored is UTF-8; a broken store must not break the list. */
	json_put_string(out, utf8_is_valid(slice_str(text)) ? slice_str(text) : slice_str("?"));
}

static void put_expiry(struct buf *out, const Ipc__Topic *t)
{
	char text[RFC3339_TEXT];
	if (t->ttl_seconds != 0) {
		buf_printf(out, ",\"ttl\":%" PRIu64, t->ttl_seconds);
	} else if (t->expires_at_ms > 0) {
		rfc3339_print(t->expires_at_ms, text);
		buf_printf(out, ",\"expires_at\":\"%s\"", text);
	}
}

void pico_topic_json(struct buf *out, const Ipc__Topic *t)
{
	buf_put_u8(out, '{');
	put_text(out, "name", t->name);
	buf_put_u8(out, ',');
	put_text(out, "content_type", t->content_type);
	if (t->n_partitions == 1)
		buf_printf(out, ",\"start_seq\":%" PRIu64 ",\"next_seq\":%" PRIu64, t->partitions[0]->start,
			   t->partitions[0]->confirm);
	else
		buf_printf(out, ",\"partitions\":%zu", t->n_partitions);
	if (t->kafka_topic[0] != '\0') {
		buf_put_u8(out, ',');
		put_text(out, "kafka_topic", t->kafka_topic);
	}
	put_expiry(out, t);
	pico_retention_json(out, t);
	buf_printf(out, ",\"closed\":%s}", t->closed ? "true" : "false");
}

/* ------------------------------------------------------------------ HEAD */

/* With ?partition=i of a topic with several: that one's positions, too. */
static void answer_head(struct request *r, const Ipc__Topic *t, bool given, uint32_t partition)
{
	if (given && partition >= t->n_partitions) {
		answer_bad_request(r, "the stream has %zu partitions, counted from 0", t->n_partitions);
		return;
	}
	if (given && t->n_partitions > 1) {
		answer_field_u64(r, "Pico-Partition", partition);
		answer_field_u64(r, "Pico-Start-Seq", t->partitions[partition]->start);
		answer_field_u64(r, "Pico-Next-Seq", t->partitions[partition]->confirm);
	}
	pico_topic_fields(r, t);
	answer_send_empty(r, 200);
}

static void on_head(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	bool given;
	uint32_t partition;
	r->call = NULL;
	if (error->kind == PICO_NOT_FOUND)
		pico_not_found(r);
	else if (error->kind != PICO_OK)
		pico_answer_error(r, error);
	else if (pico_partition(r, &given, &partition))
		answer_head(r, ((const Ipc__GetAnswer *)m)->topic, given, partition);
}

void pico_call_get(struct request *r, topics_cb *cb)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = request_name(r);
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

void pico_head(struct request *r)
{
	pico_call_get(r, on_head);
}

/* ------------------------------------------------------------------ DELETE */

static void on_deleted(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		       struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind == PICO_NOT_FOUND || (error->kind == PICO_OK && !((const Ipc__DeleteAnswer *)m)->existed))
		pico_not_found(r);
	else if (error->kind != PICO_OK)
		pico_answer_error(r, error);
	else
		answer_send_empty(r, 204);
}

void pico_delete(struct request *r)
{
	Ipc__DeleteRequest m = IPC__DELETE_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = request_name(r);
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_DELETE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_deleted);
}
