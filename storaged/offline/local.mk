# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/offline/backup.c storaged/offline/backup.h \
	storaged/offline/db_read.c storaged/offline/db_read.h \
	storaged/offline/fsck.c storaged/offline/fsck.h storaged/offline/fsck_priv.h \
	storaged/offline/fsck_data.c \
	storaged/offline/fsck_wal.c \
	storaged/offline/object_file.c storaged/offline/object_file.h \
	storaged/offline/restore.c storaged/offline/restore.h storaged/offline/restore_priv.h \
	storaged/offline/restore_types.h \
	storaged/offline/restore_build.c \
	storaged/offline/restore_cards.c \
	storaged/offline/restore_export.c \
	storaged/offline/restore_logs.c \
	storaged/offline/restore_place.c \
	storaged/offline/restore_read.c \
	storaged/offline/shelf.c storaged/offline/shelf.h
EXTRA_DIST += storaged/offline/README
