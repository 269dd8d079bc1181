/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers, one file each, and what they share.
 */
#ifndef WORKER_KAFKA_API_H
#define WORKER_KAFKA_API_H

#include "worker-kafka/request.h"
#include "worker-kafka/topic_cache.h"

void api_versions_handle(struct request *r);
void create_topics_handle(struct request *r);
void delete_topics_handle(struct request *r);
void fetch_handle(struct request *r);
void fetch_drain(struct request *r);
void find_coordinator_handle(struct request *r);
void init_producer_id_handle(struct request *r);
void list_offsets_handle(struct request *r);
void metadata_handle(struct request *r);
void produce_handle(struct request *r);

/* From which kind of request an error came: the protocol has several words for the same. */
enum error_context {
	ERROR_OF_RECORDS,               /* Produce, Fetch, ListOffsets by name */
	ERROR_OF_RECORDS_BY_ID,         /* Fetch by topic id */
	ERROR_OF_TOPICS,                /* CreateTopics, DeleteTopics, InitProducerId */
};

/* error.c: the one function from a kind to the wire. THROTTLED is said with a pause, too: the answer has it, and the
 * connection is not read that long. */
enum kafka_error error_of(struct request *r, enum pico_error_kind kind, enum error_context context);

/* The path and whether it is reserved of a topic that a Kafka client creates; NULL when there is no room. */
const char *topic_path_of(struct request *r, struct slice name, bool *ret_reserved);
/* A C string in the region; NULL when there is no room. */
char *request_string(struct request *r, struct slice s);
/* Every byte 0: no id. */
bool uuid_is_zero(const struct kmsg_uuid *id);

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
