/* SPDX-License-Identifier: Apache-2.0
 *
 * OffsetCommit, versions 1 to 9: by name from the client, by topic id to storaged, so that a topic of the same name made
 * anew begins without offsets.
 *
 *   1 generation and member; a time of each commit, which is not kept
 *   2 how long offsets are kept, up to 4         3 throttle time
 *   6 leader epoch of the last record            7 static members        8 flexible
 */
#include "worker-kafka/group.h"

struct part {
	struct kmsg_offset_commit_response_partition *out;
	const struct kmsg_offset_commit_request_partition *in;
	struct topic_want *want;
};

struct commit {
	struct kmsg_offset_commit_response *response;
	struct topic_want *want;
	struct part *parts, *asked;     /* all; those that storaged is asked about */
	size_t n_parts, n_asked;
};

static void on_committed(struct request *r, const struct pico_error *e, const ProtobufCMessage *m,
			 struct topics_pieces *pieces)
{
	struct commit *d = r->state;
	const Ipc__GroupCommitAnswer *a = (const Ipc__GroupCommitAnswer *)m;
	enum kafka_error error = group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	for (size_t i = 0; i < d->n_asked; i++) {
		struct part *p = &d->asked[i];
		bool own = error == KAFKA_NONE && i < a->n_part;
		p->out->error_code = (int16_t)(own ? group_error(r, e, a->part[i]) : error);
		if (own && a->part[i] == IPC__GROUP_ERROR__UNKNOWN_TOPIC)
			topic_cache_drop(r->server->cache, p->want->name);
	}
	request_answer(r, d->response);
}

static enum kafka_error part_error(struct request *r, const struct part *p)
{
	if (!kafka_api_serves(r->head.api, r->head.api_version))
		return KAFKA_UNSUPPORTED_VERSION;
	if (p->want->info == NULL)
		return error_of(r, p->want->kind, ERROR_OF_GROUPS);
	if (p->in->partition_index < 0)
		return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	return KAFKA_NONE;
}

static void fill_part(const struct part *p, Ipc__GroupCommitRequest__Part *to)
{
	ipc__group_commit_request__part__init(to);
	to->topic_id = group_bytes(slice_of(p->want->info->id, sizeof(p->want->info->id)));
	to->partition = (uint32_t)p->in->partition_index;
	to->offset = p->in->committed_offset;
	to->leader_epoch = p->in->committed_leader_epoch;
	to->metadata = group_bytes(p->in->committed_metadata);
}

static bool fill_parts(struct request *r, Ipc__GroupCommitRequest *m)
{
	struct commit *d = r->state;
	Ipc__GroupCommitRequest__Part *part = REQUEST_NEW(r, Ipc__GroupCommitRequest__Part, d->n_parts);
	m->part = REQUEST_NEW(r, Ipc__GroupCommitRequest__Part *, d->n_parts);
	d->asked = REQUEST_NEW(r, struct part, d->n_parts);
	if (part == NULL || m->part == NULL || d->asked == NULL)
		return false;
	for (size_t i = 0; i < d->n_parts; i++) {
		d->parts[i].out->error_code = (int16_t)part_error(r, &d->parts[i]);
		if (d->parts[i].out->error_code != KAFKA_NONE)
			continue;
		d->asked[m->n_part] = d->parts[i];
		fill_part(&d->parts[i], &part[m->n_part]);
		m->part[m->n_part] = &part[m->n_part];
		m->n_part++;
	}
	d->n_asked = m->n_part;
	return true;
}

static void commit_ask(struct request *r)
{
	const struct kmsg_offset_commit_request *q = r->message;
	struct commit *d = r->state;
	Ipc__GroupCommitRequest m = IPC__GROUP_COMMIT_REQUEST__INIT;
	if (!fill_parts(r, &m)) {
		request_close(r, "memory");
		return;
	}
	if (d->n_parts > 0 && m.n_part == 0) {
		request_answer(r, d->response);
		return;
	}
	m.group = group_bytes(q->group_id);
	m.member_id = group_bytes(q->member_id);
	m.has_instance_id = q->group_instance_id.p != NULL;
	m.instance_id = group_bytes(q->group_instance_id);
	m.generation = q->generation_id_or_member_epoch;
	m.retention_ms = q->retention_time_ms;
	request_call(r, IPC_GROUP_COMMIT, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_committed);
}

static bool take_topic(struct request *r, const struct kmsg_offset_commit_request_topic *from, struct topic_want *want,
		       struct kmsg_offset_commit_response_topic *to)
{
	struct commit *d = r->state;
	struct kmsg_offset_commit_response_partition *out =
		KMSG_NEW(&r->region, offset_commit_response_partition, from->n_partitions);
	if (out == NULL)
		return false;
	to->name = want->name = from->name;
	to->partitions = out;
	to->n_partitions = from->n_partitions;
	for (uint32_t i = 0; i < from->n_partitions; i++) {
		out[i].partition_index = from->partitions[i].partition_index;
		d->parts[d->n_parts++] = (struct part){ .out = &out[i], .in = &from->partitions[i], .want = want };
	}
	return true;
}

static bool commit_begin(struct request *r)
{
	const struct kmsg_offset_commit_request *q = r->message;
	struct commit *d = r->state = REQUEST_NEW(r, struct commit, 1);
	size_t n = 0;
	for (uint32_t i = 0; i < q->n_topics; i++)
		n += q->topics[i].n_partitions;
	if (d == NULL)
		return false;
	d->response = KMSG_NEW(&r->region, offset_commit_response, 1);
	d->want = REQUEST_NEW(r, struct topic_want, q->n_topics);
	d->parts = REQUEST_NEW(r, struct part, n);
	struct kmsg_offset_commit_response_topic *topics = KMSG_NEW(&r->region, offset_commit_response_topic, q->n_topics);
	if (d->response == NULL || d->want == NULL || d->parts == NULL || topics == NULL)
		return false;
	d->response->topics = topics;
	d->response->n_topics = q->n_topics;
	for (uint32_t i = 0; i < q->n_topics; i++)
		if (!take_topic(r, &q->topics[i], &d->want[i], &topics[i]))
			return false;
	return true;
}

void offset_commit_handle(struct request *r)
{
	const struct kmsg_offset_commit_request *q = r->message;
	if (!commit_begin(r)) {
		request_close(r, "memory");
		return;
	}
	if (kafka_api_serves(r->head.api, r->head.api_version))
		topic_cache_resolve_anew(r, ((struct commit *)r->state)->want, q->n_topics, commit_ask);
	else if (((struct commit *)r->state)->n_parts > 0)
		commit_ask(r);
	else
		request_answer(r, ((struct commit *)r->state)->response);
}
