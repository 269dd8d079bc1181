/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers, one file each, and what they share.
 */
#ifndef WORKER_KAFKA_API_H
#define WORKER_KAFKA_API_H

#include "worker-kafka/request.h"
#include "worker-kafka/topic_cache.h"

void alter_configs_handle(struct request *r);
void api_versions_handle(struct request *r);
void create_partitions_handle(struct request *r);
void create_topics_handle(struct request *r);
void delete_records_handle(struct request *r);
void delete_topics_handle(struct request *r);
void describe_acls_handle(struct request *r);
void describe_cluster_handle(struct request *r);
void describe_configs_handle(struct request *r);
void describe_log_dirs_handle(struct request *r);
void describe_producers_handle(struct request *r);
void describe_topic_partitions_handle(struct request *r);
void elect_leaders_handle(struct request *r);
void fetch_handle(struct request *r);
void fetch_drain(struct request *r);
void find_coordinator_handle(struct request *r);
void incremental_alter_configs_handle(struct request *r);
void init_producer_id_handle(struct request *r);
void list_offsets_handle(struct request *r);
void list_partition_reassignments_handle(struct request *r);
void metadata_handle(struct request *r);
void offset_for_leader_epoch_handle(struct request *r);
void produce_handle(struct request *r);

/* From which kind of request an error came: the protocol has several words for the same. */
enum error_context {
	ERROR_OF_RECORDS,               /* Produce, Fetch, ListOffsets by name */
	ERROR_OF_RECORDS_BY_ID,         /* Fetch by topic id */
	ERROR_OF_TOPICS,                /* CreateTopics, DeleteTopics, InitProducerId */
	ERROR_OF_GROUPS,                /* all of consumer groups */
};

/* error.c: the one function from a kind to the wire. THROTTLED is said with a pause, too: the answer has it, and the
 * connection is not read that long. */
enum kafka_error error_of(struct request *r, enum pico_error_kind kind, enum error_context context);
/* Of a part of a LOOKUP that was refused; current_epoch: the leader's as the client knows it, or -1. */
enum kafka_error lookup_error_of(struct request *r, const Ipc__LookupAnswer__Part *part, int32_t current_epoch);

/* What a topic of that name is created with when a Kafka client asks for it; false when there is no room. */
#define CREATES_MAX 256                 /* topics of one CREATE_MANY */
bool create_fill(struct request *r, struct slice name, uint32_t partitions, Ipc__CreateRequest *ret);
/* A C string in the region; NULL when there is no room. */
char *request_string(struct request *r, struct slice s);
/* Every byte 0: no id. */
bool uuid_is_zero(const struct kmsg_uuid *id);

/* Kinds of resources that have configs, and whether a broker of that name is this one. */
#define KAFKA_RESOURCE_TOPIC 2
#define KAFKA_RESOURCE_BROKER 4
bool resource_is_this_node(struct request *r, struct slice name);

/* Which operations a client may do, a bit each, for who asks (KIP-430): all of them, as long as nobody is asked who they are. */
#define OPERATIONS_OF_TOPIC 0xdf8       /* read, write, create, delete, alter, describe, and both of configs */
#define OPERATIONS_OF_GROUP 0x148       /* read, delete, describe */
#define OPERATIONS_OF_CLUSTER 0x1fa0    /* create, alter, describe, as a broker, configs, produce idempotently */

/* brokers.c: the nodes that clients may go to, this one among them in any case. */
struct broker {
	int32_t id;
	struct slice host;
	int32_t port;
};
struct brokers {
	struct broker *broker;          /* in the region */
	size_t n;
	struct slice cluster_id;
};
bool brokers_take(struct request *r, const Ipc__NodesAnswer *answer, struct brokers *ret);      /* answer may be NULL */
bool brokers_has(const struct brokers *b, uint32_t id);

#endif
