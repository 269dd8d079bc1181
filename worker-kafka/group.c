/* SPDX-License-Identifier: Apache-2.0
 *
 * What the APIs of consumer groups share: errors, words.
 */
#include "worker-kafka/group.h"

#include <arpa/inet.h>

#include "worker-kafka/conn.h"

static enum kafka_error coordinator_error(Ipc__GroupError e)
{
	switch (e) {
	case IPC__GROUP_ERROR__NONE: return KAFKA_NONE;
	case IPC__GROUP_ERROR__LOADING: return KAFKA_COORDINATOR_LOAD_IN_PROGRESS;
	case IPC__GROUP_ERROR__MEMBER_ID_REQUIRED: return KAFKA_MEMBER_ID_REQUIRED;
	case IPC__GROUP_ERROR__UNKNOWN_MEMBER: return KAFKA_UNKNOWN_MEMBER_ID;
	case IPC__GROUP_ERROR__ILLEGAL_GENERATION: return KAFKA_ILLEGAL_GENERATION;
	case IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS: return KAFKA_REBALANCE_IN_PROGRESS;
	case IPC__GROUP_ERROR__INCONSISTENT_PROTOCOL: return KAFKA_INCONSISTENT_GROUP_PROTOCOL;
	case IPC__GROUP_ERROR__INVALID_SESSION_TIMEOUT: return KAFKA_INVALID_SESSION_TIMEOUT;
	case IPC__GROUP_ERROR__FENCED_INSTANCE: return KAFKA_FENCED_INSTANCE_ID;
	case IPC__GROUP_ERROR__GROUP_FULL: return KAFKA_GROUP_MAX_SIZE_REACHED;
	case IPC__GROUP_ERROR__INVALID_GROUP_ID: return KAFKA_INVALID_GROUP_ID;
	case IPC__GROUP_ERROR__GROUP_NOT_FOUND: return KAFKA_GROUP_ID_NOT_FOUND;
	case IPC__GROUP_ERROR__GROUP_NOT_EMPTY: return KAFKA_NON_EMPTY_GROUP;
	case IPC__GROUP_ERROR__GROUP_SUBSCRIBED: return KAFKA_GROUP_SUBSCRIBED_TO_TOPIC;
	case IPC__GROUP_ERROR__METADATA_TOO_LARGE: return KAFKA_OFFSET_METADATA_TOO_LARGE;
	case IPC__GROUP_ERROR__UNKNOWN_TOPIC: return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	case IPC__GROUP_ERROR__INVALID_REQUEST: return KAFKA_INVALID_REQUEST;
	case _IPC__GROUP_ERROR_IS_INT_SIZE: break;
	}
	return KAFKA_UNKNOWN_SERVER_ERROR;
}

enum kafka_error group_error(struct request *r, const struct pico_error *e, Ipc__GroupError of_answer)
{
	return e->kind != PICO_OK ? error_of(r, e->kind, ERROR_OF_GROUPS) : coordinator_error(of_answer);
}

ProtobufCBinaryData group_bytes(struct slice s)
{
	return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)(uintptr_t)s.p };
}

struct slice group_copy(struct request *r, ProtobufCBinaryData b)
{
	return b.len > 0 ? region_copy(&r->region, slice_of(b.data, b.len)) : slice_str("");
}

/* As Kafka shows it: a slash in front. IPv4 without its IPv6 clothes; all that is loopback has no address here. */
struct slice group_client_host(struct request *r)
{
	static const uint8_t none[16], mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *address = conn_address(r->conn);
	char text[INET6_ADDRSTRLEN];
	if (memcmp(address, none, sizeof(none)) == 0)
		return slice_str("/127.0.0.1");
	bool v4 = memcmp(address, mapped, sizeof(mapped)) == 0;
	if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address + sizeof(mapped) : address, text, sizeof(text)) == NULL)
		return slice_str("");
	return region_printf(&r->region, "/%s", text);
}

void group_unpark(struct request *r)
{
	if (r->call != NULL)
		topics_abandon(r->call);
	r->call = NULL;
}
