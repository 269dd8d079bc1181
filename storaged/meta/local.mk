# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/meta/apply.c storaged/meta/apply.h \
	storaged/meta/apply_fork.c \
	storaged/meta/apply_kv.c \
	storaged/meta/apply_objects.c \
	storaged/meta/apply_settings.c \
	storaged/meta/apply_topic.c \
	storaged/meta/apply_trim.c \
	storaged/meta/cluster.c storaged/meta/cluster.h \
	storaged/meta/export_format.c storaged/meta/export_format.h \
	storaged/meta/kv.c storaged/meta/kv.h \
	storaged/meta/meta.c storaged/meta/meta.h storaged/meta/meta_priv.h \
	storaged/meta/meta_export.c \
	storaged/meta/meta_propose.c \
	storaged/meta/meta_snapshot.c \
	storaged/meta/log_card.c storaged/meta/log_card.h \
	storaged/meta/name_index.c storaged/meta/name_index.h \
	storaged/meta/object_message.c storaged/meta/object_message.h \
	storaged/meta/snapshot.c storaged/meta/snapshot.h \
	storaged/meta/snapshot_load.c \
	storaged/meta/sql_log.h \
	storaged/meta/sqlite.c \
	storaged/meta/sqlite_db.c storaged/meta/sqlite_db.h \
	storaged/meta/state.c storaged/meta/state.h storaged/meta/state_priv.h \
	storaged/meta/state_fork.c storaged/meta/state_fork.h \
	storaged/meta/log_map.c storaged/meta/log_map.h
EXTRA_DIST += storaged/meta/README
