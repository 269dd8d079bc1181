#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: figures of a node on this machine, each beside its base line in the same run. Prints
'NAME goal G got X (ratio to BASE in this run R)' and exits 0 whatever they are. Arguments are the parts to run: http,
kafka, kafka-clients, topics, cold, engine, codec (all). BENCH_SECONDS a figure (5), the median of BENCH_ROUNDS (3); BENCH_TOPICS
(100000)."""
import sys

import figures
import bench_clients, bench_cold, bench_engine, bench_http, bench_kafka, bench_topics


def codec():
    print(figures.program("bench-kmsg"), end="")


parts = {"http": bench_http.figures, "kafka": bench_kafka.figures, "kafka-clients": bench_clients.figures, "topics": bench_topics.figures, "cold": bench_cold.figures,
         "engine": bench_engine.figures, "codec": codec}
figures.touch_memory()
for part in sys.argv[1:] or parts:
    parts[part]()
