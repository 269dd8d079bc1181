/* SPDX-License-Identifier: Apache-2.0
 *
 * The one function from an error kind to Kafka's codes, and the table of what is served.
 */
#include "worker-kafka/api.h"

#include <stdlib.h>

#include "common/topic_name.h"
#include "worker-kafka/group.h"

/* Nothing was done; try again. */
static enum kafka_error later_of(enum error_context context)
{
	return context == ERROR_OF_TOPICS ? KAFKA_REQUEST_TIMED_OUT
		: context == ERROR_OF_GROUPS ? KAFKA_COORDINATOR_NOT_AVAILABLE : KAFKA_KAFKA_STORAGE_ERROR;
}

enum kafka_error error_of(struct request *r, enum pico_error_kind kind, enum error_context context)
{
	r->throttled |= kind == PICO_THROTTLED;
	switch (kind) {
	case PICO_OK: return KAFKA_NONE;
	case PICO_NOT_FOUND:
	case PICO_GONE: return context == ERROR_OF_RECORDS_BY_ID ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	case PICO_NO_PARTITION: return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	case PICO_BAD_REQUEST:
	case PICO_PARTITION_REQUIRED: return KAFKA_INVALID_REQUEST;
	case PICO_CONFLICT: return KAFKA_TOPIC_ALREADY_EXISTS;
	case PICO_CLOSED: return KAFKA_POLICY_VIOLATION;
	case PICO_FENCED: return KAFKA_INVALID_PRODUCER_EPOCH;
	case PICO_SEQUENCE_GAP: return KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER;
	case PICO_CORRUPT_BATCH: return KAFKA_CORRUPT_MESSAGE;
	case PICO_TOO_LARGE: return KAFKA_MESSAGE_TOO_LARGE;
	case PICO_SCHEMA_VIOLATION: return KAFKA_INVALID_RECORD;
	case PICO_OUT_OF_RANGE: return KAFKA_OFFSET_OUT_OF_RANGE;
	case PICO_NOT_OWNER:
	case PICO_STALE_TOPIC: return context == ERROR_OF_GROUPS ? KAFKA_NOT_COORDINATOR : KAFKA_NOT_LEADER_OR_FOLLOWER;
	case PICO_UNAVAILABLE:
	case PICO_THROTTLED:
	case PICO_CANCELLED: return later_of(context);
	case PICO_DURABILITY: return KAFKA_REQUEST_TIMED_OUT;
	case PICO_MATCH_FAILED: break;
	}
	return KAFKA_UNKNOWN_SERVER_ERROR;
}

enum kafka_error lookup_error_of(struct request *r, const Ipc__LookupAnswer__Part *part, int32_t current_epoch)
{
	enum pico_error_kind kind = (enum pico_error_kind)part->error->kind;
	if (kind == PICO_FENCED)
		return KAFKA_FENCED_LEADER_EPOCH;
	if (kind == PICO_UNAVAILABLE && current_epoch >= 0 && current_epoch > part->leader_epoch)
		return KAFKA_UNKNOWN_LEADER_EPOCH;
	return error_of(r, kind, ERROR_OF_RECORDS);
}

/* ------------------------------------------------------------------ what is served */

static const struct handler handlers[] = {
	{ 0, produce_handle, NULL },
	{ 1, fetch_handle, fetch_drain },
	{ 2, list_offsets_handle, NULL },
	{ 3, metadata_handle, NULL },
	{ 8, offset_commit_handle, NULL },
	{ 9, offset_fetch_handle, NULL },
	{ 10, find_coordinator_handle, NULL },
	{ 11, join_group_handle, join_group_drain },
	{ 12, heartbeat_handle, NULL },
	{ 13, leave_group_handle, NULL },
	{ 14, sync_group_handle, sync_group_drain },
	{ 15, describe_groups_handle, NULL },
	{ 16, list_groups_handle, NULL },
	{ 18, api_versions_handle, NULL },
	{ 19, create_topics_handle, NULL },
	{ 20, delete_topics_handle, NULL },
	{ 21, delete_records_handle, NULL },
	{ 22, init_producer_id_handle, NULL },
	{ 23, offset_for_leader_epoch_handle, NULL },
	{ 29, describe_acls_handle, NULL },
	{ 32, describe_configs_handle, NULL },
	{ 33, alter_configs_handle, NULL },
	{ 35, describe_log_dirs_handle, NULL },
	{ 37, create_partitions_handle, NULL },
	{ 42, delete_groups_handle, NULL },
	{ 43, elect_leaders_handle, NULL },
	{ 44, incremental_alter_configs_handle, NULL },
	{ 46, list_partition_reassignments_handle, NULL },
	{ 47, offset_delete_handle, NULL },
	{ 60, describe_cluster_handle, NULL },
	{ 61, describe_producers_handle, NULL },
	{ 75, describe_topic_partitions_handle, NULL },
};

const struct handler *handler_find(int16_t key)
{
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].key == key)
			return &handlers[i];
	return NULL;
}

bool handler_is_served(int16_t key)
{
	return handler_find(key) != NULL;
}

/* ------------------------------------------------------------------ strings */

char *request_string(struct request *r, struct slice s)
{
	char *p = region_alloc(&r->region, s.n + 1);
	if (p == NULL)
		return NULL;
	if (s.n > 0)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return p;
}

/* Names that other protocols keep to themselves stand below /_kafka. */
bool create_fill(struct request *r, struct slice name, uint32_t partitions, Ipc__CreateRequest *ret)
{
	ipc__create_request__init(ret);
	struct slice path = region_printf(&r->region, "/%.*s", (int)name.n, (const char *)name.p);
	ret->reserved_allowed = topic_path_is_reserved(path);
	if (ret->reserved_allowed)
		path = region_printf(&r->region, "/_kafka/%.*s", (int)name.n, (const char *)name.p);
	ret->name = request_string(r, path);
	ret->kafka_topic = request_string(r, name);
	ret->has_kafka_topic = true;
	ret->content_type = (char *)(uintptr_t)"application/octet-stream";
	ret->partitions = partitions;
	return !r->region.failed;
}

bool uuid_is_zero(const struct kmsg_uuid *id)
{
	static const struct kmsg_uuid zero;
	return memcmp(id, &zero, sizeof(zero)) == 0;
}
