# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += pico
pico_SOURCES = \
	cli/admin.h \
	cli/bench.c cli/bench.h \
	cli/bench_http.c cli/bench_http.h \
	cli/bench_kafka.c \
	cli/bench_loop.c cli/bench_loop.h \
	cli/bench_pico.c \
	cli/bench_stats.c cli/bench_stats.h \
	cli/cli.h \
	cli/cmd_admin.c \
	cli/cmd_admin_backup.c \
	cli/cmd_admin_list.c \
	cli/cmd_admin_restore.c \
	cli/cmd_admin_topics.c \
	cli/cmd_append.c \
	cli/cmd_bench.c \
	cli/cmd_fsck.c \
	cli/cmd_read.c \
	cli/cmd_serve.c \
	cli/cmd_stream.c \
	cli/http.c \
	cli/kafka_client.c cli/kafka_client.h \
	cli/kafka_topics.c cli/kafka_topics.h \
	cli/main.c \
	cli/name.c \
	cli/offline.c cli/offline.h
pico_LDADD = $(STORAGED_LIBS) $(CODEC_LIBS)
EXTRA_DIST += cli/README
