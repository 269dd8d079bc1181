# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += common/libcommon.a
common_libcommon_a_SOURCES = \
	common/acceptor.c common/acceptor.h \
	common/base64.c common/base64.h \
	common/buf.c common/buf.h \
	common/child.c common/child.h \
	common/codec.c common/codec.h \
	common/conf.c common/conf.h common/conf.def \
	common/conf_load.c \
	common/conf_row.h \
	common/conf_text.c \
	common/control.c common/control.h \
	common/crc32c.c common/crc32c.h \
	common/json_scan.c common/json_scan.h common/json_string.c \
	common/kafka_api.c common/kafka_api.h common/kafka_api.def \
	common/kafka_error.c common/kafka_error.h common/kafka_error.def \
	common/kafka_frame.c common/kafka_frame.h \
	common/kmsg.h common/kmsg_decode.c common/kmsg_encode.c common/kmsg_value.c \
	common/kmsg_gen.c common/kmsg_gen.h \
	common/log.c common/log.h \
	common/metrics.c common/metrics.h common/metrics.def \
	common/hook_url.c common/hook_url.h \
	common/ipc.c common/ipc.h common/ipc_msg.def \
	common/ipc_error.c \
	common/ipc_sock.c \
	common/must.c common/must.h \
	common/env.h common/env_uv.c common/env_uv.h \
	common/pico_error.c common/pico_error.h \
	common/program.c common/program.h \
	common/record_batch.c common/record_batch.h \
	common/region.c common/region.h \
	common/record_cut.c common/record_cut.h \
	common/record_decode.c common/record_decode.h \
	common/slice.h \
	common/sock.c common/sock.h \
	common/subscription.c common/subscription.h \
	common/tls.c common/tls.h \
	common/topic_config.c common/topic_config.h common/topic_config.def \
	common/topic_name.c common/topic_name.h \
	common/utf8.c common/utf8.h \
	common/topics.c common/topics.h common/topics_impl.h \
	common/topics_conn.c \
	common/topics_inbox.c common/topics_inbox.h \
	common/topics_pieces.c common/topics_pieces.h \
	common/topics_send.c \
	common/topics_uv.c \
	common/turns.c common/turns.h \
	common/wire.c common/wire.h \
	common/worker.c common/worker.h
# What a program that links libcommon.a needs behind it.
COMMON_LIBS = common/libcommon.a proto/libproto.a $(UV_LIBS) $(PROTOBUFC_LIBS) $(CRYPTO_LIBS) $(ISAL_LIBS) $(CODEC_LIBS) -lm -lpthread
EXTRA_DIST += common/README
