/* SPDX-License-Identifier: Apache-2.0
 *
 * ElectLeaders, versions 0 to 2 (1: the type of election and an error of its own; 2: compact). A partition has one owner,
 * so no election is ever needed; who asks for all partitions is told of those that need one.
 */
#include "worker-kafka/api.h"

#define ELECTION_PREFERRED 0
#define ELECTION_UNCLEAN 1

struct elect {
	struct kmsg_elect_leaders_response *response;
	struct topic_want *want;
};

static bool fill_topic(struct request *r, const struct kmsg_elect_leaders_request_topic_partitions *from,
		       const struct topic_want *want, struct kmsg_elect_leaders_response_topic *to)
{
	struct kmsg_elect_leaders_response_partition *p =
		KMSG_NEW(&r->region, elect_leaders_response_partition, from->n_partitions);
	if (p == NULL)
		return false;
	to->topic = from->topic;
	to->partition_result = p;
	to->n_partition_result = from->n_partitions;
	for (uint32_t i = 0; i < from->n_partitions; i++) {
		bool known = want->info != NULL && from->partitions[i] >= 0 &&
			(uint32_t)from->partitions[i] < want->info->n_partitions;
		enum pico_error_kind kind = want->info != NULL ? PICO_NOT_FOUND : want->kind;
		p[i].partition_id = from->partitions[i];
		p[i].error_code = (int16_t)(known ? KAFKA_ELECTION_NOT_NEEDED : error_of(r, kind, ERROR_OF_TOPICS));
		p[i].error_message = slice_str(known ? "the partition has its owner" : "no such partition");
	}
	return true;
}

static void elect_done(struct request *r)
{
	const struct kmsg_elect_leaders_request *q = r->message;
	const struct elect *d = r->state;
	for (uint32_t i = 0; i < q->n_topic_partitions; i++) {
		if (fill_topic(r, &q->topic_partitions[i], &d->want[i], &d->response->replica_election_results[i]))
			continue;
		request_close(r, "memory");
		return;
	}
	request_answer(r, d->response);
}

void elect_leaders_handle(struct request *r)
{
	const struct kmsg_elect_leaders_request *q = r->message;
	struct elect *d = r->state = REQUEST_NEW(r, struct elect, 1);
	struct kmsg_elect_leaders_response *m = KMSG_NEW(&r->region, elect_leaders_response, 1);
	if (d != NULL)
		d->want = REQUEST_NEW(r, struct topic_want, q->n_topic_partitions);
	if (d == NULL || m == NULL || d->want == NULL ||
	    (m->replica_election_results = KMSG_NEW(&r->region, elect_leaders_response_topic, q->n_topic_partitions)) == NULL) {
		request_close(r, "memory");
		return;
	}
	d->response = m;
	if (q->election_type != ELECTION_PREFERRED && q->election_type != ELECTION_UNCLEAN) {
		m->error_code = KAFKA_INVALID_REQUEST;
		request_answer(r, m);
		return;
	}
	m->n_replica_election_results = q->n_topic_partitions;
	for (uint32_t i = 0; i < q->n_topic_partitions; i++)
		d->want[i].name = q->topic_partitions[i].topic;
	topic_cache_resolve(r, d->want, q->n_topic_partitions, elect_done);
}
