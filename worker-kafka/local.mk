# SPDX-License-Identifier: Apache-2.0
# All but main() is a library, so that tests run the parts.
noinst_LIBRARIES += worker-kafka/libworkerkafka.a
worker_kafka_libworkerkafka_a_SOURCES = \
	worker-kafka/alter_configs.c \
	worker-kafka/api.h \
	worker-kafka/api_versions.c \
	worker-kafka/ask_topics.c worker-kafka/ask_topics.h \
	worker-kafka/brokers.c \
	worker-kafka/conn.c worker-kafka/conn.h \
	worker-kafka/create_partitions.c \
	worker-kafka/create_topics.c \
	worker-kafka/delete_groups.c \
	worker-kafka/delete_records.c \
	worker-kafka/delete_topics.c \
	worker-kafka/describe_acls.c \
	worker-kafka/describe_cluster.c \
	worker-kafka/describe_configs.c \
	worker-kafka/describe_groups.c \
	worker-kafka/describe_log_dirs.c \
	worker-kafka/describe_producers.c \
	worker-kafka/describe_topic_partitions.c \
	worker-kafka/elect_leaders.c \
	worker-kafka/error.c \
	worker-kafka/fetch.c \
	worker-kafka/fetch_ahead.c worker-kafka/fetch_ahead.h \
	worker-kafka/fetch_session.c worker-kafka/fetch_session.h \
	worker-kafka/find_coordinator.c \
	worker-kafka/group.c worker-kafka/group.h \
	worker-kafka/heartbeat.c \
	worker-kafka/init_producer_id.c \
	worker-kafka/join_group.c \
	worker-kafka/leave_group.c \
	worker-kafka/list_groups.c \
	worker-kafka/list_offsets.c \
	worker-kafka/list_partition_reassignments.c \
	worker-kafka/metadata.c \
	worker-kafka/offset_commit.c \
	worker-kafka/offset_delete.c \
	worker-kafka/offset_fetch.c \
	worker-kafka/offset_for_leader_epoch.c \
	worker-kafka/produce.c \
	worker-kafka/request.c worker-kafka/request.h \
	worker-kafka/server.c worker-kafka/server.h \
	worker-kafka/sync_group.c \
	worker-kafka/topic_cache.c worker-kafka/topic_cache.h

pkglibexec_PROGRAMS += worker-kafka/worker-kafka
worker_kafka_worker_kafka_SOURCES = worker-kafka/main.c
worker_kafka_worker_kafka_LDADD = worker-kafka/libworkerkafka.a $(COMMON_LIBS)
EXTRA_DIST += worker-kafka/README
