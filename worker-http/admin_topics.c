/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /admin/topics: pages of topics in order of name, in one line each. GET /admin/streams/NAME: one of them with its
 * partitions and settings, in any spelling of its name.
 *
 * What is known of a partition without reading anything is shown, and nothing is opened for it: the bytes that were
 * appended are null where the log is idle.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"
#include "worker-http/server.h"

static void put_named(struct buf *out, const char *field, const char *text)
{
	buf_printf(out, ",\"%s\":", field);
	if (text[0] != '\0')
		admin_put_text(out, slice_str(text));
	else
		buf_put_str(out, "null");
}

static void put_number_or_null(struct buf *out, const char *field, bool known, uint64_t value)
{
	if (known)
		buf_printf(out, ",\"%s\":%" PRIu64, field, value);
	else
		buf_printf(out, ",\"%s\":null", field);
}

/* ------------------------------------------------------------------ all of them */

static void print_topic(struct buf *out, const Ipc__Topic *t)
{
	uint64_t records = 0, bytes = 0;
	bool known = true;
	for (size_t i = 0; i < t->n_partitions; i++) {
		records += t->partitions[i]->confirm - t->partitions[i]->start;
		bytes += t->partitions[i]->appended_bytes;
		known &= t->partitions[i]->has_appended_bytes;
	}
	buf_put_str(out, "{\"name\":");
	admin_put_text(out, slice_str(t->name));
	put_named(out, "kafkaTopic", t->kafka_topic);
	buf_printf(out, ",\"partitions\":%zu,\"records\":%" PRIu64, t->n_partitions, records);
	put_number_or_null(out, "appendedBytes", known, bytes);
	buf_printf(out, ",\"configs\":%zu,\"closed\":%s}", t->n_config, t->closed ? "true" : "false");
}

static void on_topics(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__ListAnswer *a = (const Ipc__ListAnswer *)m;
	struct buf *out = &r->answer.body;
	if (!pico_is_good(r, error))
		return;
	buf_put_str(out, "{\"topics\":[");
	for (size_t i = 0; i < a->n_topics; i++) {
		if (i > 0)
			buf_put_u8(out, ',');
		print_topic(out, a->topics[i]);
	}
	buf_printf(out, "],\"hasMore\":%s}\n", a->has_more ? "true" : "false");
	admin_answer(r);
}

void admin_get_topics(struct request *r)
{
	Ipc__ListRequest m = IPC__LIST_REQUEST__INIT;
	char *prefix = NULL, *after = NULL;
	uint64_t limit;
	if (admin_number(r, "limit", &limit) && admin_text(r, "prefix", &prefix) && admin_text(r, "start_after", &after)) {
		m.prefix = prefix;
		m.start_after = after;
		m.limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
		m.deadline_ms = request_deadline(r);
		request_call(r, IPC_LIST, &m.base, slice_of(NULL, 0), m.deadline_ms, on_topics);
	}
	free(prefix);
	free(after);
}

/* ------------------------------------------------------------------ one of them */

/* While nodes are asked and then the topic. */
struct stream {
	char *name;                     /* owned, as all of these */
	uint32_t *node;
	char **address;                 /* of its HTTP listener; empty: none */
	size_t n_nodes;
};

static void stream_free(void *state)
{
	struct stream *s = state;
	for (size_t i = 0; i < s->n_nodes; i++)
		free(s->address[i]);
	free(s->address);
	free(s->node);
	free(s->name);
	free(s);
}

static const char *address_of(const struct stream *s, uint32_t node)
{
	for (size_t i = 0; i < s->n_nodes; i++)
		if (s->node[i] == node)
			return s->address[i];
	return "";
}

static void print_partition(struct buf *out, uint32_t number, const Ipc__Partition *p)
{
	buf_printf(out, "{\"partition\":%u,\"logId\":%" PRIu64 ",\"ownerNodeId\":%u,\"epoch\":%u,\"startOffset\":%" PRIu64
		   ",\"endOffset\":%" PRIu64 ",\"records\":%" PRIu64, number, p->log_id, p->owner, p->epoch, p->start, p->confirm,
		   p->confirm - p->start);
	put_number_or_null(out, "appendedBytes", p->has_appended_bytes, p->appended_bytes);
	buf_put_u8(out, '}');
}

/* What a stream of one partition is by that one; with several they are null here and stand in the list. */
static void print_single(struct buf *out, const struct request *r, const Ipc__Topic *t)
{
	const Ipc__Partition *p = t->partitions[0];
	bool one = t->n_partitions == 1, local = p->owner == r->server->conf->node_id;
	put_number_or_null(out, "streamId", one, p->log_id);
	put_number_or_null(out, "ownerNodeId", one, p->owner);
	put_named(out, "ownerAdvertisedAddress", one ? address_of(r->state, p->owner) : "");
	buf_printf(out, ",\"ownerLocal\":%s,\"state\":\"%s\"", !one ? "null" : local ? "true" : "false",
		   t->closed ? "closed" : "opened");
	put_number_or_null(out, "epoch", one, p->epoch);
	put_number_or_null(out, "nodeId", one, p->owner);
	put_number_or_null(out, "startOffset", one, p->start);
	put_number_or_null(out, "endOffset", one, p->confirm);
	buf_put_str(out, ",\"pendingTransfer\":null");
}

static void print_stream(struct buf *out, const struct request *r, const Ipc__Topic *t)
{
	buf_put_str(out, "{\"name\":");
	admin_put_text(out, slice_str(t->name));
	put_named(out, "kafkaTopic", t->kafka_topic);
	buf_put_str(out, ",\"topicId\":");
	admin_put_hex(out, t->topic_id.data, t->topic_id.len);
	put_named(out, "contentType", t->content_type);
	put_number_or_null(out, "ttlSeconds", t->ttl_seconds != 0, t->ttl_seconds);
	put_number_or_null(out, "expiresAtMs", t->expires_at_ms != 0, (uint64_t)t->expires_at_ms);
	buf_printf(out, ",\"createdMs\":%" PRId64 ",\"closed\":%s", t->created_ms, t->closed ? "true" : "false");
	print_single(out, r, t);
	buf_put_str(out, ",\"configs\":{");
	for (size_t i = 0; i < t->n_config; i++) {
		buf_put_str(out, i > 0 ? "," : "");
		admin_put_text(out, slice_str(t->config[i]->name));
		buf_put_u8(out, ':');
		admin_put_text(out, slice_str(t->config[i]->value));
	}
	buf_put_str(out, "},\"partitions\":[");
	for (size_t i = 0; i < t->n_partitions; i++) {
		buf_put_str(out, i > 0 ? "," : "");
		print_partition(out, (uint32_t)i, t->partitions[i]);
	}
	buf_put_str(out, "]}\n");
}

static void on_stream(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	if (!pico_is_good(r, error))
		return;
	const Ipc__Topic *t = ((const Ipc__GetAnswer *)m)->topic;
	must(t->n_partitions > 0);
	print_stream(&r->answer.body, r, t);
	admin_answer(r);
}

static void stream_ask(struct request *r)
{
	Ipc__GetRequest m = IPC__GET_REQUEST__INIT;
	Ipc__TopicRef topic = IPC__TOPIC_REF__INIT;
	topic.name = ((struct stream *)r->state)->name;
	m.topic = &topic;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, on_stream);
}

static void on_nodes(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__NodesAnswer *a = (const Ipc__NodesAnswer *)m;
	struct stream *s = r->state;
	if (!pico_is_good(r, error))
		return;
	s->n_nodes = a->n_nodes;
	s->node = must_calloc(a->n_nodes + 1, sizeof(*s->node));
	s->address = must_calloc(a->n_nodes + 1, sizeof(*s->address));
	for (size_t i = 0; i < a->n_nodes; i++) {
		const Ipc__NodesAnswer__Node *node = a->nodes[i];
		const char *address = "";
		for (size_t k = 0; k < node->n_addresses; k++)
			if (strcmp(node->addresses[k]->protocol, "http") == 0)
				address = node->addresses[k]->address;
		s->node[i] = node->id;
		s->address[i] = must_strdup(address);
	}
	stream_ask(r);
}

void admin_get_stream(struct request *r)
{
	Ipc__NodesRequest m = IPC__NODES_REQUEST__INIT;
	char *name = admin_rest(r, ADMIN_STREAMS);
	if (name == NULL)
		return;
	struct stream *s = must_calloc(1, sizeof(*s));
	s->name = name;
	r->state = s;
	r->state_free = stream_free;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_NODES, &m.base, slice_of(NULL, 0), m.deadline_ms, on_nodes);
}
