# SPDX-License-Identifier: Apache-2.0
# `make bench` prints figures of this machine, each beside its base line.
EXTRA_PROGRAMS += t/bench/bench-net
t_bench_bench_net_SOURCES = t/bench/bench-net.c
t_bench_bench_net_LDADD = $(COMMON_LIBS)
EXTRA_PROGRAMS += t/bench/bench-kmsg
t_bench_bench_kmsg_SOURCES = t/bench/bench-kmsg.c
t_bench_bench_kmsg_LDADD = $(COMMON_LIBS)
EXTRA_PROGRAMS += t/bench/bench-broker
t_bench_bench_broker_SOURCES = t/bench/bench-broker.c
t_bench_bench_broker_LDADD = $(COMMON_LIBS)
EXTRA_PROGRAMS += t/bench/bench-store
t_bench_bench_store_SOURCES = t/bench/bench-store.c
t_bench_bench_store_LDADD = $(STORAGED_LIBS)
bench_targets = t/bench/bench-net t/bench/bench-kmsg t/bench/bench-broker t/bench/bench-store
# Only where librdkafka is.
if HAVE_RDKAFKA
EXTRA_PROGRAMS += t/bench/bench-rdkafka
t_bench_bench_rdkafka_SOURCES = t/bench/bench-rdkafka.c
t_bench_bench_rdkafka_CFLAGS = $(AM_CFLAGS) $(RDKAFKA_CFLAGS)
t_bench_bench_rdkafka_LDADD = $(RDKAFKA_LIBS)
bench_targets += t/bench/bench-rdkafka
endif

.PHONY: bench
bench: all $(bench_targets) t/objstore-tool
	PICO_SRC=$(abs_srcdir) PICO_BUILD=$(abs_builddir) $(srcdir)/t/bench/bench.py $(BENCH)
EXTRA_DIST += t/bench/README t/bench/bench.py t/bench/bench_engine.py t/bench/bench_http.py t/bench/bench_kafka.py t/bench/bench_topics.py
EXTRA_DIST += t/bench/bench_clients.py t/bench/bench_cold.py t/bench/figures.py
