/* SPDX-License-Identifier: Apache-2.0
 *
 * What the APIs of consumer groups share.
 */
#ifndef WORKER_KAFKA_GROUP_H
#define WORKER_KAFKA_GROUP_H

#include "worker-kafka/api.h"

void delete_groups_handle(struct request *r);
void describe_groups_handle(struct request *r);
void heartbeat_handle(struct request *r);
void join_group_handle(struct request *r);
void join_group_drain(struct request *r);
void leave_group_handle(struct request *r);
void list_groups_handle(struct request *r);
void offset_commit_handle(struct request *r);
void offset_delete_handle(struct request *r);
void offset_fetch_handle(struct request *r);
void sync_group_handle(struct request *r);
void sync_group_drain(struct request *r);

/* A join or a sync ends with its rebalance, not by a deadline of its own. */
#define GROUP_PARK_MS 86400000u

/* Of a call that failed, or of the coordinator's answer (e->kind PICO_OK). */
enum kafka_error group_error(struct request *r, const struct pico_error *e, Ipc__GroupError of_answer);

ProtobufCBinaryData group_bytes(struct slice s);
/* A copy in the region; not null. */
struct slice group_copy(struct request *r, ProtobufCBinaryData b);
/* The client's address as it is shown; NULL address bytes never. */
struct slice group_client_host(struct request *r);

/* A parked request that shall not wait any longer: its call is given up, the member keeps its place. */
void group_unpark(struct request *r);

#endif
