/* SPDX-License-Identifier: Apache-2.0
 *
 * DescribeCluster, versions 0 and 1 (1: which kind of endpoint, KIP-919): the nodes with a Kafka address. Clients are
 * never sent to controllers: each node can do everything.
 */
#include "worker-kafka/api.h"

#define ENDPOINT_BROKERS 1
#define ENDPOINT_CONTROLLERS 2

static bool fill(struct request *r, const Ipc__NodesAnswer *nodes, struct kmsg_describe_cluster_response *m)
{
	const struct kmsg_describe_cluster_request *q = r->message;
	struct brokers brokers;
	if (!brokers_take(r, nodes, &brokers))
		return false;
	m->brokers = KMSG_NEW(&r->region, describe_cluster_response_broker, brokers.n);
	if (m->brokers == NULL)
		return false;
	m->n_brokers = (uint32_t)brokers.n;
	for (size_t i = 0; i < brokers.n; i++) {
		m->brokers[i].broker_id = brokers.broker[i].id;
		m->brokers[i].host = brokers.broker[i].host;
		m->brokers[i].port = brokers.broker[i].port;
		m->brokers[i].rack = slice_of(NULL, 0);
	}
	m->cluster_id = brokers.cluster_id;
	m->controller_id = (int32_t)r->server->conf->node_id;
	if (q->include_cluster_authorized_operations)
		m->cluster_authorized_operations = OPERATIONS_OF_CLUSTER;
	return true;
}

/* Without an answer this node is known, as in Metadata. */
static void on_nodes(struct request *r, const struct pico_error *e, const ProtobufCMessage *answer, struct topics_pieces *pieces)
{
	struct kmsg_describe_cluster_response *m = KMSG_NEW(&r->region, describe_cluster_response, 1);
	if (m != NULL && fill(r, (const Ipc__NodesAnswer *)answer, m))
		request_answer(r, m);
	else
		request_close(r, "memory");
}

static void refuse(struct request *r, enum kafka_error error, const char *text)
{
	struct kmsg_describe_cluster_response *m = KMSG_NEW(&r->region, describe_cluster_response, 1);
	if (m == NULL) {
		request_close(r, "memory");
		return;
	}
	m->error_code = (int16_t)error;
	m->error_message = slice_str(text);
	m->cluster_id = slice_str("");
	request_answer(r, m);
}

void describe_cluster_handle(struct request *r)
{
	const struct kmsg_describe_cluster_request *q = r->message;
	Ipc__NodesRequest m = IPC__NODES_REQUEST__INIT;
	if (q->endpoint_type == ENDPOINT_CONTROLLERS)
		refuse(r, KAFKA_MISMATCHED_ENDPOINT_TYPE, "this is an endpoint of brokers");
	else if (q->endpoint_type != ENDPOINT_BROKERS)
		refuse(r, KAFKA_UNSUPPORTED_ENDPOINT_TYPE, "no such type of endpoint");
	else
		request_call(r, IPC_NODES, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_nodes);
}
