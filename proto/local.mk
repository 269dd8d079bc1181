# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += proto/libproto.a
proto_libproto_a_SOURCES = proto/topics.proto proto/frame.proto proto/meta.proto proto/subscription.proto
nodist_proto_libproto_a_SOURCES = \
	proto/topics.pb-c.c proto/topics.pb-c.h \
	proto/frame.pb-c.c proto/frame.pb-c.h \
	proto/meta.pb-c.c proto/meta.pb-c.h \
	proto/subscription.pb-c.c proto/subscription.pb-c.h
# Generated code: our warnings are not for it.
proto_libproto_a_CFLAGS = $(AM_CFLAGS) -w
BUILT_SOURCES += $(nodist_proto_libproto_a_SOURCES)
CLEANFILES += $(nodist_proto_libproto_a_SOURCES)

proto/%.pb-c.c proto/%.pb-c.h: proto/%.proto
	$(AM_V_GEN)$(MKDIR_P) proto && $(PROTOC_C) --proto_path=$(srcdir)/proto --c_out=proto $<

# Kafka's messages: tables and structs from text, see proto/kafka/README. The tarball has them made.
KMSG_FILES = \
	proto/kafka/00_produce.kmsg \
	proto/kafka/01_fetch.kmsg \
	proto/kafka/02_list_offsets.kmsg \
	proto/kafka/03_metadata.kmsg \
	proto/kafka/08_offset_commit.kmsg \
	proto/kafka/09_offset_fetch.kmsg \
	proto/kafka/10_find_coordinator.kmsg \
	proto/kafka/11_join_group.kmsg \
	proto/kafka/12_heartbeat.kmsg \
	proto/kafka/13_leave_group.kmsg \
	proto/kafka/14_sync_group.kmsg \
	proto/kafka/15_describe_groups.kmsg \
	proto/kafka/16_list_groups.kmsg \
	proto/kafka/18_api_versions.kmsg \
	proto/kafka/19_create_topics.kmsg \
	proto/kafka/20_delete_topics.kmsg \
	proto/kafka/21_delete_records.kmsg \
	proto/kafka/22_init_producer_id.kmsg \
	proto/kafka/23_offset_for_leader_epoch.kmsg \
	proto/kafka/29_describe_acls.kmsg \
	proto/kafka/32_describe_configs.kmsg \
	proto/kafka/33_alter_configs.kmsg \
	proto/kafka/35_describe_log_dirs.kmsg \
	proto/kafka/37_create_partitions.kmsg \
	proto/kafka/42_delete_groups.kmsg \
	proto/kafka/43_elect_leaders.kmsg \
	proto/kafka/44_incremental_alter_configs.kmsg \
	proto/kafka/46_list_partition_reassignments.kmsg \
	proto/kafka/47_offset_delete.kmsg \
	proto/kafka/60_describe_cluster.kmsg \
	proto/kafka/61_describe_producers.kmsg \
	proto/kafka/75_describe_topic_partitions.kmsg \
	proto/kafka/consumer_protocol.kmsg \
	proto/kafka/headers.kmsg
KMSG_GEN = proto/kafka/gen.py
EXTRA_DIST += $(KMSG_FILES) $(KMSG_GEN) proto/kafka/README
BUILT_SOURCES += common/kmsg_gen.c common/kmsg_gen.h
MAINTAINERCLEANFILES = common/kmsg_gen.c common/kmsg_gen.h

common/kmsg_gen.h: common/kmsg_gen.c
	@test -f $@ || { rm -f $< && $(MAKE) $<; }
common/kmsg_gen.c: $(KMSG_FILES) $(KMSG_GEN)
	$(AM_V_GEN)$(MKDIR_P) common && $(PYTHON3) $(srcdir)/$(KMSG_GEN) common/kmsg_gen \
		$(KMSG_FILES:%=$(srcdir)/%)
