/* SPDX-License-Identifier: Apache-2.0
 *
 * OffsetFetch, versions 1 to 9: one group after the other, each in one call for what is named, or page by page for all.
 * An offset that was never committed is -1, without an error, whether topic, partition and group exist or not.
 *
 *   2 an error of the whole, and null for all topics      3 throttle time      5 leader epochs      6 flexible
 *   7 require_stable, which changes nothing: there are no transactions
 *   8 many groups                                         9 member and its epoch, for another kind of group; ignored
 *
 * Older versions are answered as one group of the newer form and put into theirs at the end.
 */
#include "worker-kafka/group.h"

struct fetch {
	const struct kmsg_offset_fetch_request_group *in;
	struct kmsg_offset_fetch_response_group *out;
	uint32_t n, at;
	struct topic_want *want, *want_at;      /* of the topics of all groups, in order; of the group under way */
};

static void fetch_next(struct request *r);

/* ------------------------------------------------------------------------- end */

static bool to_old_topic(struct request *r, const struct kmsg_offset_fetch_response_group_topic *from,
			 enum kafka_error error, struct kmsg_offset_fetch_response_topic *to)
{
	to->name = from->name;
	to->partitions = KMSG_NEW(&r->region, offset_fetch_response_partition, from->n_partitions);
	if (to->partitions == NULL)
		return false;
	for (uint32_t i = 0; i < from->n_partitions; i++) {
		struct kmsg_offset_fetch_response_partition *p = &to->partitions[to->n_partitions++];
		p->partition_index = from->partitions[i].partition_index;
		p->committed_offset = from->partitions[i].committed_offset;
		p->committed_leader_epoch = from->partitions[i].committed_leader_epoch;
		p->metadata = from->partitions[i].metadata;
		p->error_code = (int16_t)error;
	}
	return true;
}

/* Before version 2 an error has no other place than each partition. */
static bool to_old_form(struct request *r, const struct kmsg_offset_fetch_response_group *from,
			struct kmsg_offset_fetch_response *m)
{
	m->error_code = from->error_code;
	m->topics = KMSG_NEW(&r->region, offset_fetch_response_topic, from->n_topics);
	if (m->topics == NULL)
		return false;
	for (uint32_t i = 0; i < from->n_topics; i++)
		if (!to_old_topic(r, &from->topics[i], r->head.api_version < 2 ? (enum kafka_error)from->error_code : KAFKA_NONE,
				  &m->topics[m->n_topics++]))
			return false;
	return true;
}

static void fetch_end(struct request *r)
{
	struct fetch *d = r->state;
	struct kmsg_offset_fetch_response *m = KMSG_NEW(&r->region, offset_fetch_response, 1);
	if (m == NULL || (r->head.api_version < 8 && !to_old_form(r, d->out, m))) {
		request_close(r, "memory");
		return;
	}
	if (r->head.api_version >= 8) {
		m->groups = d->out;
		m->n_groups = d->n;
	}
	request_answer(r, m);
}

/* ---------------------------------------------------------------------- named ones */

static void fill_partition(struct request *r, const Ipc__GroupOffsetFetchAnswer__Part *a,
			   struct kmsg_offset_fetch_response_group_partition *to)
{
	to->committed_offset = a->offset;
	to->committed_leader_epoch = a->leader_epoch;
	to->metadata = group_copy(r, a->metadata);
}

static bool is_known(const struct topic_want *want, int32_t partition)
{
	return want->info != NULL && partition >= 0;
}

/* Those that storaged was asked about come in order. */
static void on_named(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct fetch *d = r->state;
	struct kmsg_offset_fetch_response_group *out = &d->out[d->at];
	const Ipc__GroupOffsetFetchAnswer *a = (const Ipc__GroupOffsetFetchAnswer *)m;
	size_t next = 0;
	out->error_code = (int16_t)group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	for (uint32_t t = 0; a != NULL && t < out->n_topics; t++)
		for (uint32_t i = 0; i < out->topics[t].n_partitions && next < a->n_part; i++)
			if (is_known(&d->want_at[t], out->topics[t].partitions[i].partition_index))
				fill_partition(r, a->part[next++], &out->topics[t].partitions[i]);
	d->want_at += out->n_topics;
	d->at++;
	fetch_next(r);
}

/* The answer as it is when nothing was ever committed. */
static bool fill_unknown(struct request *r, const struct kmsg_offset_fetch_request_group_topic *from,
			 struct kmsg_offset_fetch_response_group_topic *to)
{
	to->name = from->name;
	to->partitions = KMSG_NEW(&r->region, offset_fetch_response_group_partition, from->n_partition_indexes);
	if (to->partitions == NULL)
		return false;
	for (uint32_t i = 0; i < from->n_partition_indexes; i++) {
		struct kmsg_offset_fetch_response_group_partition *p = &to->partitions[to->n_partitions++];
		p->partition_index = from->partition_indexes[i];
		p->committed_offset = p->committed_leader_epoch = -1;
		p->metadata = slice_str("");
	}
	return true;
}

static void add_part(Ipc__GroupOffsetFetchRequest *m, Ipc__GroupOffsetFetchRequest__Part *part, const struct topic_want *want,
		     int32_t partition)
{
	if (!is_known(want, partition))
		return;
	Ipc__GroupOffsetFetchRequest__Part *p = &part[m->n_part];
	ipc__group_offset_fetch_request__part__init(p);
	p->topic_id = group_bytes(slice_of(want->info->id, sizeof(want->info->id)));
	p->partition = (uint32_t)partition;
	m->part[m->n_part++] = p;
}

static bool fill_named(struct request *r, Ipc__GroupOffsetFetchRequest *m)
{
	struct fetch *d = r->state;
	const struct kmsg_offset_fetch_request_group *in = &d->in[d->at];
	struct kmsg_offset_fetch_response_group *out = &d->out[d->at];
	size_t n = 0;
	for (uint32_t t = 0; t < in->n_topics; t++)
		n += in->topics[t].n_partition_indexes;
	Ipc__GroupOffsetFetchRequest__Part *part = REQUEST_NEW(r, Ipc__GroupOffsetFetchRequest__Part, n);
	m->part = REQUEST_NEW(r, Ipc__GroupOffsetFetchRequest__Part *, n);
	out->topics = KMSG_NEW(&r->region, offset_fetch_response_group_topic, in->n_topics);
	if (part == NULL || m->part == NULL || out->topics == NULL)
		return false;
	for (uint32_t t = 0; t < in->n_topics; t++) {
		if (!fill_unknown(r, &in->topics[t], &out->topics[out->n_topics++]))
			return false;
		for (uint32_t i = 0; i < in->topics[t].n_partition_indexes; i++)
			add_part(m, part, &d->want_at[t], in->topics[t].partition_indexes[i]);
	}
	return true;
}

/* ------------------------------------------------------------------------ all */

static bool take_page(struct request *r, const Ipc__GroupOffsetFetchAnswer *a, struct kmsg_offset_fetch_response_group *out)
{
	struct kmsg_offset_fetch_response_group_partition *p = KMSG_NEW(&r->region, offset_fetch_response_group_partition, a->n_part);
	struct kmsg_offset_fetch_response_group_topic *t =
		KMSG_NEW(&r->region, offset_fetch_response_group_topic, out->n_topics + a->n_part);
	if (p == NULL || t == NULL)
		return false;
	if (out->n_topics > 0)
		memcpy(t, out->topics, out->n_topics * sizeof(*t));
	out->topics = t;
	for (size_t i = 0; i < a->n_part; i++) {
		if (i == 0 || a->part[i]->kafka_topic[0] != '\0') {
			t = &out->topics[out->n_topics++];
			t->name = region_copy(&r->region, slice_str(a->part[i]->kafka_topic));
			t->partitions = &p[i];
		}
		p[i].partition_index = (int32_t)a->part[i]->partition;
		fill_partition(r, a->part[i], &p[i]);
		t->n_partitions++;
	}
	return true;
}

static void ask_all(struct request *r, const Ipc__GroupOffsetFetchAnswer__Part *after);

static void on_all(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct fetch *d = r->state;
	struct kmsg_offset_fetch_response_group *out = &d->out[d->at];
	const Ipc__GroupOffsetFetchAnswer *a = (const Ipc__GroupOffsetFetchAnswer *)m;
	out->error_code = (int16_t)group_error(r, e, a != NULL ? a->error : IPC__GROUP_ERROR__NONE);
	if (a != NULL && !take_page(r, a, out)) {
		request_close(r, "memory");
		return;
	}
	if (a != NULL && a->has_more && a->n_part > 0) {
		ask_all(r, a->part[a->n_part - 1]);
		return;
	}
	d->at++;
	fetch_next(r);
}

static void ask_all(struct request *r, const Ipc__GroupOffsetFetchAnswer__Part *after)
{
	struct fetch *d = r->state;
	Ipc__GroupOffsetFetchRequest m = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	m.group = group_bytes(d->in[d->at].group_id);
	m.all = true;
	if (after != NULL) {
		m.after_topic_id = after->topic_id;
		m.after_partition = after->partition;
	}
	request_call(r, IPC_GROUP_OFFSET_FETCH, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_all);
}

/* --------------------------------------------------------------------- one by one */

/* Whether it is known of each topic that it is there or not. "Never committed" must not be said for "not known". */
static bool topics_are_sure(struct request *r)
{
	struct fetch *d = r->state;
	for (uint32_t t = 0; t < d->in[d->at].n_topics; t++) {
		const struct topic_want *want = &d->want_at[t];
		if (want->info != NULL || want->kind == PICO_NOT_FOUND || want->kind == PICO_GONE)
			continue;
		d->out[d->at].error_code = (int16_t)error_of(r, want->kind, ERROR_OF_GROUPS);
		return false;
	}
	return true;
}

static void fetch_next(struct request *r)
{
	struct fetch *d = r->state;
	Ipc__GroupOffsetFetchRequest m = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	while (d->at < d->n && !topics_are_sure(r)) {
		d->out[d->at].group_id = d->in[d->at].group_id;
		d->want_at += d->in[d->at].n_topics;
		d->at++;
	}
	if (d->at == d->n) {
		fetch_end(r);
		return;
	}
	d->out[d->at].group_id = d->in[d->at].group_id;
	if (d->in[d->at].topics == NULL) {
		ask_all(r, NULL);
		return;
	}
	if (!fill_named(r, &m)) {
		request_close(r, "memory");
		return;
	}
	m.group = group_bytes(d->in[d->at].group_id);
	request_call(r, IPC_GROUP_OFFSET_FETCH, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_named);
}

/* ---------------------------------------------------------------------- begin */

/* The one group of an older request, in the newer form. */
static bool from_old_form(struct request *r, struct kmsg_offset_fetch_request_group *to)
{
	const struct kmsg_offset_fetch_request *q = r->message;
	to->group_id = q->group_id;
	to->topics = NULL;              /* all */
	if (q->topics == NULL)
		return true;
	to->topics = KMSG_NEW(&r->region, offset_fetch_request_group_topic, q->n_topics);
	if (to->topics == NULL)
		return false;
	for (uint32_t i = 0; i < q->n_topics; i++) {
		struct kmsg_offset_fetch_request_group_topic *t = &to->topics[to->n_topics++];
		t->name = q->topics[i].name;
		t->partition_indexes = q->topics[i].partition_indexes;
		t->n_partition_indexes = q->topics[i].n_partition_indexes;
	}
	return true;
}

static bool fetch_begin(struct request *r, size_t *ret_n)
{
	const struct kmsg_offset_fetch_request *q = r->message;
	struct fetch *d = r->state = REQUEST_NEW(r, struct fetch, 1);
	bool many = r->head.api_version >= 8;
	struct kmsg_offset_fetch_request_group *old = KMSG_NEW(&r->region, offset_fetch_request_group, 1);
	if (d == NULL || old == NULL || (!many && !from_old_form(r, old)))
		return false;
	d->in = many ? q->groups : old;
	d->n = many ? q->n_groups : 1;
	d->out = KMSG_NEW(&r->region, offset_fetch_response_group, d->n);
	for (uint32_t i = 0; i < d->n; i++)
		*ret_n += d->in[i].n_topics;
	d->want = d->want_at = REQUEST_NEW(r, struct topic_want, *ret_n);
	if (d->out == NULL || d->want == NULL)
		return false;
	struct topic_want *want = d->want;
	for (uint32_t i = 0; i < d->n; i++)
		for (uint32_t t = 0; t < d->in[i].n_topics; t++)
			(want++)->name = d->in[i].topics[t].name;
	return true;
}

/* Version 0, which is not served, has no place for an error but the partitions. */
static void refuse_version(struct request *r)
{
	struct fetch *d = r->state;
	d->out->error_code = KAFKA_UNSUPPORTED_VERSION;
	d->out->topics = KMSG_NEW(&r->region, offset_fetch_response_group_topic, d->in->n_topics);
	for (uint32_t t = 0; d->out->topics != NULL && t < d->in->n_topics; t++)
		if (!fill_unknown(r, &d->in->topics[t], &d->out->topics[d->out->n_topics++]))
			break;
	fetch_end(r);
}

void offset_fetch_handle(struct request *r)
{
	size_t n = 0;
	if (!fetch_begin(r, &n))
		request_close(r, "memory");
	else if (!kafka_api_serves(r->head.api, r->head.api_version))
		refuse_version(r);
	else
		topic_cache_resolve_anew(r, ((struct fetch *)r->state)->want, n, fetch_next);
}
