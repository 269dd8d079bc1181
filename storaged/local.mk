# SPDX-License-Identifier: Apache-2.0
# One library; each subdirectory adds its sources in its own local.mk.
noinst_LIBRARIES += storaged/libstoraged.a
storaged_libstoraged_a_SOURCES = \
	storaged/peer.c storaged/peer.h storaged/peer_impl.h \
	storaged/peer_calls.c \
	storaged/peer_inbox.c storaged/peer_inbox.h \
	storaged/peer_graves.c storaged/peer_graves.h storaged/peer_refs.c \
	storaged/peer_sock.c \
	storaged/bounds.c storaged/bounds.h storaged/planted.c storaged/planted.h
# What a program that links libstoraged.a needs behind it.
STORAGED_LIBS = storaged/libstoraged.a $(COMMON_LIBS) $(SQLITE_LIBS) $(CURL_LIBS) $(EXPAT_LIBS)

include storaged/meta/local.mk

storaged_libstoraged_a_SOURCES += \
	storaged/call.h \
	storaged/expiry.c storaged/expiry.h \
	storaged/coordinator.c storaged/coordinator.h storaged/coordinator_impl.h \
	storaged/coordinator_calls.c \
	storaged/coordinator_expiry.c \
	storaged/coordinator_log.c \
	storaged/create.h \
	storaged/handle.h \
	storaged/handle_admin.c \
	storaged/handle_append.c \
	storaged/handle_close.c \
	storaged/handle_create.c \
	storaged/handle_delete_records.c \
	storaged/handle_fetch.c \
	storaged/handle_group.c \
	storaged/handle_fork.c \
	storaged/handle_kv.c \
	storaged/handle_describe.c \
	storaged/handle_lookup.c \
	storaged/handle_names.c \
	storaged/handle_node.c \
	storaged/handle_offsets.c \
	storaged/handle_producer.c \
	storaged/handle_read.c \
	storaged/handle_submit.c \
	storaged/handle_settings.c \
	storaged/handle_topic.c \
	storaged/handle_trim.c \
	storaged/logs.c storaged/logs.h \
	storaged/node.c storaged/node.h \
	storaged/op.c storaged/op.h \
	storaged/parts.c storaged/parts.h \
	storaged/proposals.c storaged/proposals.h \
	storaged/retention.c storaged/retention.h \
	storaged/segment.h \
	storaged/watch.c storaged/watch.h
include storaged/objstore/local.mk
include storaged/data/local.mk
include storaged/engine/local.mk
include storaged/group/local.mk
include storaged/offline/local.mk

pkglibexec_PROGRAMS += storaged/storaged
storaged_storaged_SOURCES = storaged/main.c
storaged_storaged_LDADD = $(STORAGED_LIBS)
EXTRA_DIST += storaged/README storaged/data/README storaged/group/README
