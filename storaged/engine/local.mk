# SPDX-License-Identifier: Apache-2.0
storaged_libstoraged_a_SOURCES += \
	storaged/engine/ahead.c storaged/engine/ahead.h storaged/engine/append.c storaged/engine/append.h \
	storaged/engine/arena.c storaged/engine/arena.h \
	storaged/engine/backoff.c storaged/engine/backoff.h \
	storaged/engine/batch.c \
	storaged/engine/cut.c \
	storaged/engine/damage.c storaged/engine/damage.h \
	storaged/engine/decide.c \
	storaged/engine/engine.c storaged/engine/engine.h \
	storaged/engine/engine_append.h \
	storaged/engine/engine_events.h \
	storaged/engine/engine_append.h storaged/engine/engine_log.h \
	storaged/engine/engine_impl.h \
	storaged/engine/engine_read.h \
	storaged/engine/fetch.c \
	storaged/engine/frame_facts.c storaged/engine/frame_facts.h \
	storaged/engine/gc.c storaged/engine/gc.h \
	storaged/engine/gc_delete.c storaged/engine/gc_delete.h \
	storaged/engine/index_cache.c storaged/engine/index_cache.h \
	storaged/engine/join.c storaged/engine/join.h \
	storaged/engine/kafka_producer.c storaged/engine/kafka_producer.h \
	storaged/engine/scan.c storaged/engine/scan.h \
	storaged/engine/log.c storaged/engine/log.h storaged/engine/log_table.c storaged/engine/log_table.h \
	storaged/engine/log_load.c storaged/engine/log_load.h \
	storaged/engine/log_state.c storaged/engine/log_state.h \
	storaged/engine/pack.c storaged/engine/pack.h \
	storaged/engine/pack_build.c \
	storaged/engine/pack_store.c storaged/engine/pack_store.h \
	storaged/engine/describe.c storaged/engine/engine_describe.h \
	storaged/engine/lookup.c \
	storaged/engine/merge.c storaged/engine/merge.h \
	storaged/engine/merge_input.c storaged/engine/merge_input.h \
	storaged/engine/page_cache.c storaged/engine/page_cache.h \
	storaged/engine/producer.c storaged/engine/producer.h \
	storaged/engine/read.c storaged/engine/read.h \
	storaged/engine/recovery.c storaged/engine/recovery_cut.c storaged/engine/recovery.h \
	storaged/engine/recovery_read.c \
	storaged/engine/request.c storaged/engine/request.h \
	storaged/engine/retention.c storaged/engine/retention.h \
	storaged/engine/rewrite.c storaged/engine/rewrite.h \
	storaged/engine/stamp.c storaged/engine/stamp.h \
	storaged/engine/wait.c \
	storaged/engine/sweep.c storaged/engine/sweep.h \
	storaged/engine/trim.c \
	storaged/engine/wal.c storaged/engine/wal.h \
	storaged/engine/wal_trash.c storaged/engine/wal_trash.h \
	storaged/engine/wal_format.c storaged/engine/wal_format.h
