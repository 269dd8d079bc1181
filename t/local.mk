# SPDX-License-Identifier: Apache-2.0
# Unit tests: t/unit/NAME.c is the program t/00-unit-NAME. Scripts stand in t/ by layer; t/run runs all.
TEST_LIBS = $(COMMON_LIBS) $(CMOCKA_LIBS)

if HAVE_CMOCKA
check_PROGRAMS += t/00-unit-acceptor
t_00_unit_acceptor_SOURCES = t/unit/acceptor.c
t_00_unit_acceptor_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-assign
t_00_unit_assign_SOURCES = t/unit/assign.c
t_00_unit_assign_LDADD = worker-http/libworkerhttp.a $(TEST_LIBS)

check_PROGRAMS += t/00-unit-bytes
t_00_unit_bytes_SOURCES = t/unit/bytes.c
t_00_unit_bytes_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-bench-stats
t_00_unit_bench_stats_SOURCES = t/unit/bench_stats.c cli/bench_stats.c cli/bench_stats.h
t_00_unit_bench_stats_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-batch-cache
t_00_unit_batch_cache_SOURCES = t/unit/batch_cache.c
t_00_unit_batch_cache_LDADD = worker-http/libworkerhttp.a $(TEST_LIBS)

check_PROGRAMS += t/00-unit-codec
t_00_unit_codec_SOURCES = t/unit/codec.c
t_00_unit_codec_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-env_uv
t_00_unit_env_uv_SOURCES = t/unit/env_uv.c
t_00_unit_env_uv_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-json-scan
t_00_unit_json_scan_SOURCES = t/unit/json_scan.c
t_00_unit_json_scan_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-record-batch
t_00_unit_record_batch_SOURCES = t/unit/record_batch.c
t_00_unit_record_batch_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-turns
t_00_unit_turns_SOURCES = t/unit/turns.c
t_00_unit_turns_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-record-decode
t_00_unit_record_decode_SOURCES = t/unit/record_decode.c
t_00_unit_record_decode_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-topic-config
t_00_unit_topic_config_SOURCES = t/unit/topic_config.c
t_00_unit_topic_config_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-topic-name
t_00_unit_topic_name_SOURCES = t/unit/topic_name.c
t_00_unit_topic_name_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-conf
t_00_unit_conf_SOURCES = t/unit/conf.c
t_00_unit_conf_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-control
t_00_unit_control_SOURCES = t/unit/control.c
t_00_unit_control_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-log
t_00_unit_log_SOURCES = t/unit/log.c
t_00_unit_log_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-metrics
t_00_unit_metrics_SOURCES = t/unit/metrics.c
t_00_unit_metrics_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-restart
t_00_unit_restart_SOURCES = t/unit/restart.c supervisor/restart.c
t_00_unit_restart_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/00-unit-address
t_00_unit_address_SOURCES = t/unit/address.c supervisor/address.c
t_00_unit_address_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-sock t/00-unit-sock-tls t/00-unit-tls
TLS_PEER = t/lib/tls_peer.c t/lib/tls_peer.h
SOCK_WORLD = t/lib/sock_world.c t/lib/sock_world.h
t_00_unit_sock_SOURCES = t/unit/sock.c $(SOCK_WORLD)
t_00_unit_sock_LDADD = $(TEST_LIBS)
t_00_unit_sock_tls_SOURCES = t/unit/sock_tls.c $(TLS_PEER) $(SOCK_WORLD)
t_00_unit_sock_tls_LDADD = $(TEST_LIBS)
t_00_unit_tls_SOURCES = t/unit/tls.c $(TLS_PEER)
t_00_unit_tls_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-ipc
t_00_unit_ipc_SOURCES = t/unit/ipc.c
t_00_unit_ipc_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-group
t_00_unit_group_SOURCES = t/unit/group.c
t_00_unit_group_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/00-unit-group-offsets
t_00_unit_group_offsets_SOURCES = t/unit/group_offsets.c
t_00_unit_group_offsets_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
EXTRA_DIST += t/golden/group_records.py t/golden/group_records.bin

check_PROGRAMS += t/00-unit-http1
t_00_unit_http1_SOURCES = t/unit/http1.c
t_00_unit_http1_LDADD = worker-http/libworkerhttp.a $(TEST_LIBS)

check_PROGRAMS += t/00-unit-subscription
t_00_unit_subscription_SOURCES = t/unit/subscription.c
t_00_unit_subscription_LDADD = $(WORKER_HOOK_LIBS) $(TEST_LIBS)
check_PROGRAMS += t/00-unit-ds
t_00_unit_ds_SOURCES = t/unit/ds.c
t_00_unit_ds_LDADD = $(WORKER_HTTP_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-pico-query
check_PROGRAMS += t/00-unit-scope
t_00_unit_scope_SOURCES = t/unit/scope.c
t_00_unit_scope_LDADD = worker-http/libworkerhttp.a $(TEST_LIBS)
t_00_unit_pico_query_SOURCES = t/unit/pico_query.c
t_00_unit_pico_query_LDADD = worker-http/libworkerhttp.a $(TEST_LIBS)

check_PROGRAMS += t/00-unit-pico-records
t_00_unit_pico_records_SOURCES = t/unit/pico_records.c
t_00_unit_pico_records_LDADD = worker-http/libworkerhttp.a $(TEST_LIBS)

check_PROGRAMS += t/00-unit-s3
t_00_unit_s3_SOURCES = t/unit/s3.c
t_00_unit_s3_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/00-unit-objstore
t_00_unit_objstore_SOURCES = t/unit/objstore.c
t_00_unit_objstore_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/00-unit-page_cache
t_00_unit_page_cache_SOURCES = t/unit/page_cache.c
t_00_unit_page_cache_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
META_FIXTURE = t/unit/meta_fixture.c t/unit/meta_fixture_objects.c t/unit/meta_fixture.h
check_PROGRAMS += t/00-unit-data-catalogue
t_00_unit_data_catalogue_SOURCES = t/unit/data_catalogue.c
t_00_unit_data_catalogue_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-objects
t_00_unit_meta_objects_SOURCES = t/unit/meta_objects.c $(META_FIXTURE)
t_00_unit_meta_objects_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-forks
t_00_unit_meta_forks_SOURCES = t/unit/meta_forks.c $(META_FIXTURE)
t_00_unit_meta_forks_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-random
t_00_unit_meta_random_SOURCES = t/unit/meta_random.c $(META_FIXTURE)
t_00_unit_meta_random_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-state
t_00_unit_meta_state_SOURCES = t/unit/meta_state.c $(META_FIXTURE)
t_00_unit_meta_state_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-settings
t_00_unit_meta_settings_SOURCES = t/unit/meta_settings.c $(META_FIXTURE)
t_00_unit_meta_settings_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-kv
t_00_unit_meta_kv_SOURCES = t/unit/meta_kv.c $(META_FIXTURE)
t_00_unit_meta_kv_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-snapshot
t_00_unit_meta_snapshot_SOURCES = t/unit/meta_snapshot.c $(META_FIXTURE)
t_00_unit_meta_snapshot_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-export
t_00_unit_meta_export_SOURCES = t/unit/meta_export.c
t_00_unit_meta_export_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-sqlite
t_00_unit_meta_sqlite_SOURCES = t/unit/meta_sqlite.c
t_00_unit_meta_sqlite_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)

check_PROGRAMS += t/00-unit-meta-log
t_00_unit_meta_log_SOURCES = t/unit/meta_log.c t/unit/meta_world.c t/unit/meta_world.h
t_00_unit_meta_log_LDADD = $(STORAGED_LIBS) $(TEST_LIBS)
check_PROGRAMS += t/20-ipc-batches
t_20_ipc_batches_SOURCES = t/20-ipc-batches.c t/lib/scripted_node.c t/lib/scripted_node.h
t_20_ipc_batches_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/40-worker-http t/40-worker-conn t/40-worker-tls
check_PROGRAMS += t/40-worker-http t/40-worker-conn t/40-worker-h2
LOOPBACK = t/lib/loopback.c t/lib/loopback.h t/lib/scripted_node.c t/lib/scripted_node.h
HTTP_WORLD = t/lib/http_world.c t/lib/http_world.h $(LOOPBACK)
HTTP_ROWS = t/lib/http_rows.c t/lib/http_rows.h $(HTTP_WORLD)
t_40_worker_http_SOURCES = t/40-worker-http.c $(HTTP_ROWS)
check_PROGRAMS += t/40-worker-ds
t_40_worker_ds_SOURCES = t/40-worker-ds.c $(HTTP_ROWS)
t_40_worker_ds_LDADD = $(WORKER_HTTP_LIBS) $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_40_worker_conn_SOURCES = t/40-worker-conn.c $(HTTP_WORLD)
t_40_worker_h2_SOURCES = t/40-worker-h2.c $(HTTP_WORLD)
t_40_worker_h2_LDADD = $(WORKER_HTTP_LIBS) $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_40_worker_conn_LDADD = $(WORKER_HTTP_LIBS) $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_40_worker_tls_SOURCES = t/40-worker-tls.c $(HTTP_WORLD) $(TLS_PEER)
t_40_worker_tls_LDADD = $(WORKER_HTTP_LIBS) $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_40_worker_http_LDADD = $(WORKER_HTTP_LIBS) $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/00-unit-fetch-session
t_00_unit_fetch_session_SOURCES = t/unit/fetch_session.c
t_00_unit_fetch_session_LDADD = worker-kafka/libworkerkafka.a $(TEST_LIBS)
check_PROGRAMS += t/40-worker-kafka-produce t/40-worker-kafka-answers t/40-worker-kafka-fetch t/40-worker-kafka-conn \
	t/40-worker-kafka-topics t/40-worker-kafka-ahead t/40-worker-kafka-offsets
KAFKA_WORLD = t/lib/kafka_world.c t/lib/kafka_world.h $(LOOPBACK)
KAFKA_WORLD_LIBS = worker-kafka/libworkerkafka.a $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_40_worker_kafka_produce_SOURCES = t/40-worker-kafka-produce.c $(KAFKA_WORLD)
t_40_worker_kafka_produce_LDADD = $(KAFKA_WORLD_LIBS)
t_40_worker_kafka_answers_SOURCES = t/40-worker-kafka-answers.c $(KAFKA_WORLD)
t_40_worker_kafka_answers_LDADD = $(KAFKA_WORLD_LIBS)
t_40_worker_kafka_fetch_SOURCES = t/40-worker-kafka-fetch.c $(KAFKA_WORLD)
t_40_worker_kafka_fetch_LDADD = $(KAFKA_WORLD_LIBS)
t_40_worker_kafka_ahead_SOURCES = t/40-worker-kafka-ahead.c $(KAFKA_WORLD)
t_40_worker_kafka_ahead_LDADD = $(KAFKA_WORLD_LIBS)
t_40_worker_kafka_offsets_SOURCES = t/40-worker-kafka-offsets.c $(KAFKA_WORLD)
t_40_worker_kafka_offsets_LDADD = $(KAFKA_WORLD_LIBS)
t_40_worker_kafka_topics_SOURCES = t/40-worker-kafka-topics.c $(KAFKA_WORLD)
t_40_worker_kafka_topics_LDADD = $(KAFKA_WORLD_LIBS)
t_40_worker_kafka_conn_SOURCES = t/40-worker-kafka-conn.c $(KAFKA_WORLD)
t_40_worker_kafka_conn_LDADD = $(KAFKA_WORLD_LIBS)

check_PROGRAMS += t/10-kmsg-roundtrip
t_10_kmsg_roundtrip_SOURCES = t/10-kmsg-roundtrip.c t/lib/kmsg_fill.c t/lib/kmsg_fill.h
nodist_t_10_kmsg_roundtrip_SOURCES = t/kmsg_types_gen.c t/kmsg_types_gen.h
t_10_kmsg_roundtrip_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/10-kmsg-vectors
t_10_kmsg_vectors_SOURCES = t/10-kmsg-vectors.c
nodist_t_10_kmsg_vectors_SOURCES = t/kmsg_types_gen.c t/kmsg_types_gen.h
t_10_kmsg_vectors_LDADD = $(TEST_LIBS)

check_PROGRAMS += t/00-unit-region
t_00_unit_region_SOURCES = t/unit/region.c
t_00_unit_region_LDADD = $(TEST_LIBS)
check_PROGRAMS += t/20-ipc-topics
t_20_ipc_topics_SOURCES = t/20-ipc-topics.c t/lib/scripted_node.c t/lib/scripted_node.h
t_20_ipc_topics_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/30-node-topics
check_PROGRAMS += t/30-node-groups t/30-node-groups-store
t_30_node_groups_store_SOURCES = t/unit/node_groups_store.c t/unit/node_world.c t/unit/node_world.h
t_30_node_groups_store_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_30_node_groups_SOURCES = t/unit/node_groups.c t/unit/node_world.c t/unit/node_world.h
t_30_node_groups_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_30_node_topics_SOURCES = t/unit/node_topics.c t/unit/node_world.c t/unit/node_world.h
t_30_node_topics_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-settings
t_30_node_settings_SOURCES = t/unit/node_settings.c t/unit/node_world.c t/unit/node_world.h
t_30_node_settings_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-kv
t_30_node_kv_SOURCES = t/unit/node_kv.c t/unit/node_world.c t/unit/node_world.h
t_30_node_kv_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-retention
t_30_node_retention_SOURCES = t/unit/node_retention.c t/unit/node_world.c t/unit/node_world.h
t_30_node_retention_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-records
t_30_node_records_SOURCES = t/unit/node_records.c t/unit/node_world.c t/unit/node_world.h
t_30_node_records_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-forks
t_30_node_forks_SOURCES = t/unit/node_forks.c t/unit/node_forks_lib.c t/unit/node_forks.h t/unit/node_world.c t/unit/node_world.h
t_30_node_forks_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-kafka
check_PROGRAMS += t/30-node-joins
t_30_node_joins_SOURCES = t/unit/node_joins.c t/unit/node_forks_lib.c t/unit/node_forks.h t/unit/node_world.c t/unit/node_world.h
t_30_node_joins_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += t/30-node-restore
t_30_node_restore_SOURCES = t/unit/node_restore.c t/unit/node_forks_lib.c t/unit/node_forks.h t/unit/node_world.c t/unit/node_world.h
t_30_node_restore_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)

NODE_KAFKA = t/unit/node_kafka.h t/unit/node_kafka_lib.c t/unit/node_world.c t/unit/node_world.h
t_30_node_kafka_SOURCES = t/unit/node_kafka.c $(NODE_KAFKA)
check_PROGRAMS += t/30-node-expiry
t_30_node_expiry_SOURCES = t/unit/node_expiry.c $(NODE_KAFKA)
t_30_node_expiry_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/30-node-fetch
t_30_node_fetch_SOURCES = t/unit/node_fetch.c $(NODE_KAFKA)
t_30_node_fetch_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_30_node_kafka_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-producer
t_00_unit_producer_SOURCES = t/unit/producer.c
t_00_unit_producer_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-kafka-producer
t_00_unit_kafka_producer_SOURCES = t/unit/kafka_producer.c
t_00_unit_kafka_producer_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
ENGINE_TEST = t/unit/engine.h t/unit/engine_lib.c t/unit/engine_world.c t/unit/engine_world.h
check_PROGRAMS += t/00-unit-engine-wal t/00-unit-engine-append t/00-unit-engine-read t/00-unit-engine-recovery
t_00_unit_engine_wal_SOURCES = t/unit/engine_wal.c $(ENGINE_TEST)
t_00_unit_engine_wal_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_00_unit_engine_append_SOURCES = t/unit/engine_append.c $(ENGINE_TEST)
t_00_unit_engine_append_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_00_unit_engine_read_SOURCES = t/unit/engine_read.c $(ENGINE_TEST)
t_00_unit_engine_read_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-pack
t_00_unit_engine_pack_SOURCES = t/unit/engine_pack.c $(ENGINE_TEST)
t_00_unit_engine_pack_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-gc
t_00_unit_engine_gc_SOURCES = t/unit/engine_gc.c $(ENGINE_TEST)
t_00_unit_engine_gc_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-rewrite
t_00_unit_engine_rewrite_SOURCES = t/unit/engine_rewrite.c $(ENGINE_TEST)
t_00_unit_engine_rewrite_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-retention
t_00_unit_engine_retention_SOURCES = t/unit/engine_retention.c $(ENGINE_TEST)
t_00_unit_engine_retention_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_00_unit_engine_recovery_SOURCES = t/unit/engine_recovery.c $(ENGINE_TEST)
t_00_unit_engine_recovery_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-load
t_00_unit_engine_load_SOURCES = t/unit/engine_load.c $(ENGINE_TEST)
t_00_unit_engine_load_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-idle
t_00_unit_engine_idle_SOURCES = t/unit/engine_idle.c $(ENGINE_TEST)
t_00_unit_engine_idle_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-engine-files t/00-unit-wal_format
t_00_unit_engine_files_SOURCES = t/unit/engine_files.c
t_00_unit_engine_files_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_00_unit_wal_format_SOURCES = t/unit/wal_format.c
t_00_unit_wal_format_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
EXTRA_DIST += t/golden/wal_object.py t/golden/wal_object.bin
DATA_TEST = t/unit/data_fixture.c t/unit/data_fixture.h
check_PROGRAMS += t/00-unit-data-format t/00-unit-data-builder t/00-unit-data-state
t_00_unit_data_format_SOURCES = t/unit/data_format.c $(DATA_TEST)
t_00_unit_data_format_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_00_unit_data_builder_SOURCES = t/unit/data_builder.c $(DATA_TEST)
t_00_unit_data_builder_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
t_00_unit_data_state_SOURCES = t/unit/data_state.c
t_00_unit_data_state_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += t/00-unit-log-state
t_00_unit_log_state_SOURCES = t/unit/log_state.c
t_00_unit_log_state_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
EXTRA_DIST += t/golden/data_object.py t/golden/data_object.bin

check_PROGRAMS += t/20-ipc-hostile
t_20_ipc_hostile_SOURCES = t/20-ipc-hostile.c t/lib/scripted_node.c t/lib/scripted_node.h
t_20_ipc_hostile_LDADD = $(STORAGED_LIBS) $(CMOCKA_LIBS)
endif

# Stands for storaged and worker-http in the supervisor's tests.
check_PROGRAMS += t/child-probe
t_child_probe_SOURCES = t/child_probe.c
t_child_probe_LDADD = $(COMMON_LIBS)

# The facade that doc/facades.md quotes, for t/40-worker-echo.py.
check_PROGRAMS += t/worker-echo
t_worker_echo_SOURCES = t/worker_echo.c
t_worker_echo_LDADD = $(COMMON_LIBS)
EXTRA_DIST += t/40-worker-echo.py t/50-cli-bench.py

# The scanner on a pipe, for t/05-json-differential.py.
check_PROGRAMS += t/json-tool
t_json_tool_SOURCES = t/json_tool.c
t_json_tool_LDADD = $(COMMON_LIBS)

# Messages that use what no API uses.
BUILT_SOURCES += t/kmsg_types_gen.c t/kmsg_types_gen.h
CLEANFILES += t/kmsg_types_gen.c t/kmsg_types_gen.h
EXTRA_DIST += t/golden/kmsg_types.kmsg t/10-kmsg-generator.py
t/kmsg_types_gen.h: t/kmsg_types_gen.c
	@test -f $@ || { rm -f $< && $(MAKE) $<; }
t/kmsg_types_gen.c: t/golden/kmsg_types.kmsg $(KMSG_GEN)
	$(AM_V_GEN)$(MKDIR_P) t && $(PYTHON3) $(srcdir)/$(KMSG_GEN) t/kmsg_types_gen $(srcdir)/t/golden/kmsg_types.kmsg

# The Kafka codec on a pipe, for t/10-kmsg-differential.py.
check_PROGRAMS += t/kmsg-tool
t_kmsg_tool_SOURCES = t/kmsg_tool.c t/lib/kmsg_fill.c t/lib/kmsg_fill.h
t_kmsg_tool_LDADD = $(COMMON_LIBS)
EXTRA_DIST += t/10-kmsg-differential.py t/10-kmsg-wire.py t/lib/kafka_wire.py t/golden/kafka_messages.py t/golden/kafka_messages.txt

EXTRA_DIST += t/run t/all-checks t/00-headers.t t/90-layers.t t/90-tidy.t t/lib/tree.py
EXTRA_DIST += t/lib/h2_wire.py t/lib/h2_client.py t/50-http-h2.py t/50-http-h2-floods.py t/50-http-h2-pico.py
EXTRA_DIST += t/50-http-h2-clients.py t/50-http-limits.py
EXTRA_DIST += t/lib/binary_batch.py t/50-http-binary.py t/50-cross-protocol.py t/50-cross-rules.py t/50-http-crash.py
# What the disk gives, for make bench.
noinst_PROGRAMS += t/bench/bench-disk
t_bench_bench_disk_SOURCES = t/bench/bench-disk.c
t_bench_bench_disk_LDADD = $(STORAGED_LIBS)

# An object store on a pipe, for t/30-objstore-*.py.
# Preloaded into nodes whose clock a test sets.
check_clock = t/clock_shim.so
CLEANFILES += t/clock_shim.so
EXTRA_DIST += t/clock_shim.c
t/clock_shim.so: t/clock_shim.c
	$(AM_V_CCLD)$(MKDIR_P) t && $(CC) $(CPPFLAGS) -O2 -fPIC -shared -Wall -Wextra -o $@ $(srcdir)/t/clock_shim.c

check_PROGRAMS += t/objstore-tool
t_objstore_tool_SOURCES = t/objstore_tool.c
t_objstore_tool_LDADD = $(STORAGED_LIBS)
EXTRA_DIST += t/30-objstore-faults.py t/30-objstore-s3.py t/lib/fake_s3.py t/lib/s3_client.py t/50-s3-node.py t/50-restore.py t/50-fsck.py t/50-admin-storage.py t/50-admin-topics.py t/50-s3-storage.py t/s3/matrix t/s3/rgw-start t/s3/rgw-stop

EXTRA_DIST += t/run t/all-checks t/00-headers.t
EXTRA_DIST += t/05-json-differential.py
EXTRA_DIST += t/golden/codec_vectors.py t/golden/kafka_batches.py $(CODEC_GOLDEN) $(KAFKA_GOLDEN)
CODEC_GOLDEN = t/golden/codec_gzip.bin t/golden/codec_gzip_tool.bin t/golden/codec_gzip_members.bin \
	t/golden/codec_snappy_raw.bin t/golden/codec_snappy_xerial.bin t/golden/codec_lz4.bin \
	t/golden/codec_lz4_independent.bin t/golden/codec_lz4_tool.bin t/golden/codec_zstd.bin \
	t/golden/codec_zstd_frames.bin t/golden/codec_zstd_stream.bin t/golden/codec_zstd_window_27.bin \
	t/golden/codec_zstd_tool.bin
KAFKA_GOLDEN = t/golden/kafka_none.bin t/golden/kafka_gzip.bin t/golden/kafka_snappy.bin \
	t/golden/kafka_snappy_raw.bin t/golden/kafka_lz4.bin t/golden/kafka_zstd.bin
EXTRA_DIST += t/golden/record_batch_v2.py t/golden/record_batch_v2.bin

# Campaigns: what takes longer than ./check may. `make fuzz`, `make sim SEEDS=N` and `make bench` stand in their folders.
CHAOS_RUNS = 5
.PHONY: chaos s3-matrix conformance conformance-ds client-matrix all-checks
chaos: all
	for seed in $$(seq $(CHAOS_RUNS)); do \
		PICO_KILL_SEED=$$seed PICO_KILLS=25 $(srcdir)/t/run --build $(builddir) $(srcdir)/t/50-http-kill.py \
			$(srcdir)/t/50-broker-kill.py || exit 1; \
		PICO_KILL_SEED=$$seed PICO_KILLS=100 $(srcdir)/t/run --build $(builddir) $(srcdir)/t/50-http-crash.py || exit 1; \
	done
	PICO_BUCKET_MB=1024 PICO_OUTAGE_S=$${PICO_OUTAGE_S:-600} $(srcdir)/t/run --timeout 1800 --build $(builddir) \
		$(srcdir)/t/50-engine-bucket.py \
		$(srcdir)/t/50-engine-pressure.py
s3-matrix: all
	$(MAKE) t/00-unit-objstore
	$(srcdir)/t/s3/matrix $(abs_builddir)
# What other people's tests say of us: doc/conformance.md.
conformance: all conformance-ds
	$(srcdir)/t/conformance/librdkafka $(abs_builddir)
# The published suite of Durable Streams, three runs in a row; it comes from npm.
conformance-ds: all
	$(srcdir)/t/conformance/durable-streams $(builddir)
EXTRA_DIST += t/conformance/durable-streams t/conformance/suite.conf.mjs t/conformance/suite.run.mjs \
	t/lib/ds.py t/50-http-ds.py t/50-http-ds-json.py t/50-http-ds-live.py t/50-http-ds-fork.py \
	t/50-http-ds-kill.py t/50-http-ds-sub.py t/50-http-cross.py
# Every Kafka client that t/clients/install can get; those that are quick are in ./check.
client-matrix: all
	$(srcdir)/t/clients/install
	PICO_CLIENTS=all $(srcdir)/t/run --build $(builddir) $(srcdir)/t/50-broker-tls.py \
		$(srcdir)/t/50-broker-clients.py $(srcdir)/t/50-broker-bytes.py $(srcdir)/t/50-broker-admin-clients.py \
		$(srcdir)/t/50-broker-members.py
EXTRA_DIST += t/conformance/librdkafka
EXTRA_DIST += t/clients/README t/clients/install t/clients/kcat.py t/clients/kafka_python.py t/clients/confluent.py \
	t/clients/franz/main.go t/clients/franz/go.mod t/clients/franz/go.sum t/clients/java/Client.java \
	t/clients/java/pom.xml t/clients/js/form.js t/clients/js/kafkajs.js t/clients/js/platformatic.js t/clients/js/confluent.js \
	t/clients/js/package.json t/clients/js/package-lock.json
EXTRA_DIST += t/lib/kafka_proxy.py t/lib/kafka_capture.py t/lib/kafka_clients.py t/lib/kafka_form.py \
	t/50-broker-clients.py t/50-broker-bytes.py t/50-broker-members.py t/50-broker-lost-answers.py t/70-regress-producer-ids.py \
	t/70-regress-one-client.py
EXTRA_DIST += t/lib/kafka_proxy.py t/lib/kafka_capture.py t/lib/kafka_clients.py t/lib/kafka_form.py t/lib/certificates.py t/lib/secure_node.py \
	t/50-http-tls.py t/50-broker-sessions.py t/50-broker-describe.py t/50-broker-limits.py t/50-broker-tls.py t/60-supervisor-tls.py \
	t/50-broker-clients.py t/50-broker-bytes.py t/50-broker-members.py t/50-broker-lost-answers.py t/70-regress-producer-ids.py
	t/50-broker-clients.py t/50-broker-bytes.py t/50-broker-members.py t/50-broker-admin-clients.py t/50-broker-lost-answers.py t/70-regress-producer-ids.py
all-checks:
	cd $(srcdir) && t/all-checks

.PHONY: check-programs
check-programs: $(check_PROGRAMS) $(check_clock)

check-local: check-programs
	$(srcdir)/t/run --build $(builddir)

include t/fuzz/local.mk
include t/bench/local.mk
include t/sim/local.mk
EXTRA_DIST += t/golden/meta_row.bin t/golden/meta_row_update.bin t/golden/meta_row_grow.bin t/golden/meta_row_commit.bin t/golden/meta_entity_topic.bin \
	t/golden/meta_entity_object.bin t/golden/meta_row_fork.bin t/golden/meta_entity_fork.bin \
	t/golden/meta_entity_soft_deleted.bin t/golden/cluster.bin t/golden/log_card.bin t/golden/log_card.py t/golden/meta_export.bin t/golden/meta_export.py
EXTRA_DIST += t/golden/ipc_hello.bin t/golden/ipc_append.bin t/golden/ipc_error.bin t/golden/ipc_release.bin
include t/regress/local.mk
