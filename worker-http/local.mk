# SPDX-License-Identifier: Apache-2.0
# All but main() is a library, so that tests run the parts.
noinst_LIBRARIES += worker-http/libworkerhttp.a
worker_http_libworkerhttp_a_SOURCES = \
	worker-http/admin.c worker-http/admin.h \
	worker-http/admin_configs.c \
	worker-http/admin_groups.c \
	worker-http/admin_processes.c \
	worker-http/admin_query.c \
	worker-http/admin_storage.c \
	worker-http/admin_topics.c \
	worker-http/append.c worker-http/append.h \
	worker-http/assign.c worker-http/assign.h \
	worker-http/batch_cache.c worker-http/batch_cache.h \
	worker-http/conn.c worker-http/conn.h worker-http/conn_version.h \
	worker-http/conn_begin.c worker-http/conn_h1.c worker-http/conn_h2.c \
	worker-http/cors.c worker-http/cors.h \
	worker-http/create_fields.c worker-http/create_fields.h \
	worker-http/cursor.c worker-http/cursor.h \
	worker-http/ds.h \
	worker-http/ds_append.c \
	worker-http/ds_batch.c \
	worker-http/ds_create.c \
	worker-http/ds_error.c \
	worker-http/ds_fork.c \
	worker-http/ds_read.c \
	worker-http/ds_route.c \
	worker-http/ds_topic.c \
	worker-http/encode.c worker-http/encode.h \
	worker-http/http1.c worker-http/http1.h \
	worker-http/http2.c worker-http/http2.h \
	worker-http/http_error.c worker-http/http_error.h \
	worker-http/pico.h \
	worker-http/pico_append.c \
	worker-http/pico_binary.c \
	worker-http/pico_create.c \
	worker-http/pico_error.c \
	worker-http/pico_group.c worker-http/pico_group.h \
	worker-http/pico_group_list.c \
	worker-http/pico_group_member.c \
	worker-http/pico_group_offsets.c \
	worker-http/pico_json.c \
	worker-http/pico_list.c \
	worker-http/pico_read.c \
	worker-http/pico_retention.c worker-http/pico_retention.h \
	worker-http/pico_route.c \
	worker-http/pico_settings.c \
	worker-http/pico_topic.c worker-http/pico_topic.h \
	worker-http/pico_trim.c \
	worker-http/query.c worker-http/query.h \
	worker-http/reader.c worker-http/reader.h \
	worker-http/request.c worker-http/request.h \
	worker-http/rfc3339.c worker-http/rfc3339.h \
	worker-http/scope.c worker-http/scope.h \
	worker-http/server.c worker-http/server.h \
	worker-http/sse.c worker-http/sse.h \
	worker-http/sub.c worker-http/sub.h \
	worker-http/sub_body.c \
	worker-http/sub_change.c worker-http/sub_change.h \
	worker-http/sub_lease.c \
	worker-http/token.c worker-http/token.h

pkglibexec_PROGRAMS += worker-http/worker-http
worker_http_worker_http_SOURCES = worker-http/main.c
WORKER_HTTP_LIBS = worker-http/libworkerhttp.a $(NGHTTP2_LIBS)
worker_http_worker_http_LDADD = $(WORKER_HTTP_LIBS) $(COMMON_LIBS)
