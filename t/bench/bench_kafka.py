# SPDX-License-Identifier: Apache-2.0
"""Figures over Kafka."""
import json, os, re, tempfile, time

import kafka_wire
from figures import (BareServer, ROUNDS, SECONDS, Used, available, bench, disk, figure, median, program, run,
                     sequential)
import tap
from node import Node

ARENA = min(4 << 30, available() // 4)
BURST = ARENA * 3 // 10                 # below half of the arena, and below what starts the packer
ROLES = ("storaged", "worker-kafka")


def pico_bench(node, *args):
    return json.loads(run(os.path.join(tap.build, "pico"), "bench", "--protocol", "kafka", "--output", "json",
                          "--bootstrap", f"127.0.0.1:{node.kafka_port}", *map(str, args)))


def fresh(*options):
    return Node(f"--wal-cache-size={ARENA}", *options, kafka=True).start()


# --------------------------------------------------------------------- producing


def rdkafka(node, topic, batch):
    """Records a second of librdkafka's idempotent producer."""
    out = program("bench-rdkafka", f"127.0.0.1:{node.kafka_port}", topic, min(SECONDS, 3), batch)
    return float(re.search(r"records-per-s got ([\d.]+)", out)[1])


def librdkafka_producer():
    if not os.path.exists(os.path.join(bench, "bench-rdkafka")):
        print("skip librdkafka-producer: librdkafka-dev is not installed", flush=True)
        return
    node = fresh()
    assert node.http("PUT", "/rd").status == 201
    rates = [(rdkafka(node, "rd", 64), sequential(node.dir)) for _ in range(ROUNDS)]
    figure("librdkafka-1KiB-batch-64-per-s", "100000", f"{median(r for r, _ in rates):.0f}", "sequential write",
           f"{median(r * 1024 / 1e6 / base for r, base in rates):.2f}")
    rates = [(rdkafka(node, "rd", 1), disk(node.dir, 200)["store-puts-2-in-flight-per-s"]) for _ in range(ROUNDS)]
    figure("librdkafka-1KiB-batch-1-per-s", "-", f"{median(r for r, _ in rates):.0f}", "WAL objects, 2 in flight",
           f"{median(r / base for r, base in rates):.2f}")
    node.stop()


def same_shape():
    """The same load from a client that costs less."""
    node, rates = fresh(), []
    for _ in range(ROUNDS):
        w = pico_bench(node, "-d", 2, "-n", 64, "-w", 5, "--no-read")["write"]
        rates.append((w["records_per_sec"], sequential(node.dir)))
    figure("pico-bench-1KiB-batch-64-per-s", "100000", f"{median(r for r, _ in rates):.0f}", "sequential write",
           f"{median(r * 1024 / 1e6 / base for r, base in rates):.2f}")
    node.stop()


def burst():
    """16 partitions, as fast as it goes, into an arena that does not fill up."""
    rates, cpus = [], {r: [] for r in ROLES}
    for _ in range(ROUNDS):
        node = fresh()
        pico_bench(node, "-d", 1, "-n", 64, "-t", 50, "--no-read")        # whatever is done once
        base = sequential(node.dir)
        with Used(node, *ROLES) as used:
            # For a second, and no faster than the burst a second: so the bound holds whatever the machine does.
            w = pico_bench(node, "-d", 1, "-n", 256, "-w", 64, "--partitions", 16, "--connections", 4, "-t",
                           BURST >> 20, "--no-read")["write"]
        rates.append((w["mib_per_sec"] * 1.048576, base))
        for r in ROLES:
            cpus[r].append(used.seconds[r] / (w["bytes"] / (1 << 30)))
        node.stop()
    figure("burst-16-partitions-MBps", f"{0.8 * median(base for _, base in rates):.0f}",
           f"{median(r for r, _ in rates):.0f}", "sequential write", f"{median(r / base for r, base in rates):.2f}")
    for r in ROLES:
        figure(f"cpu-s-per-GiB-produce-{r}", "-", f"{median(cpus[r]):.2f}")


# --------------------------------------------------------------------- consuming


def fetches(node, topic, path):
    """A file of Fetch requests that go through the topic's one partition as a consumer does, 1 MiB each."""
    with kafka_wire.Client(node.kafka_port) as c:
        ask = {"name": topic, "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}
        end = c.call("ListOffsets", 5, replica_id=-1, topics=[ask]).topics[0].partitions[0].offset
        step = sum(b.count for b in kafka_wire.batches(c.fetch(topic, 0, 0, max_bytes=1 << 20).records))
    with open(path, "wb") as f:
        for offset in range(0, end - step, step):
            part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            f.write(kafka_wire.frame("Fetch", 11, max_wait_ms=500, min_bytes=1, max_bytes=50 << 20,
                                     topics=[{"topic": topic, "partitions": [part]}]))


def consumer():
    """One connection that asks for the next MiB when it has the last; beside a server that only writes such answers."""
    node = fresh()
    pico_bench(node, "-d", 2, "-n", 64, "-w", 5, "-t", 100, "--no-read", "--keep")
    topic = node.http("GET", "/?prefix=/bench.").json()["streams"][0]["name"][1:]
    with tempfile.NamedTemporaryFile() as f:
        fetches(node, topic, f.name)
        rounds, gib = [], 0
        size = int(program("bench-net", "frames", node.kafka_port, 0.2, f.name).split()[1])
        with BareServer("serve-frames", size, 67000, 200 << 20) as port, Used(node, *ROLES) as used:
            for _ in range(ROUNDS):
                base = float(program("bench-net", "frames", port, SECONDS, f.name).split()[0])
                began = time.monotonic()
                got = float(program("bench-net", "frames", node.kafka_port, SECONDS, f.name).split()[0])
                gib += got * (time.monotonic() - began) / 1073.7
                rounds.append((got, base))
    figure("fetch-1-connection-MBps", f"{0.8 * median(b for _, b in rounds):.0f}", f"{median(g for g, _ in rounds):.0f}",
           "bare writev", f"{median(g / b for g, b in rounds):.3f}")
    for r in ROLES:
        figure(f"cpu-s-per-GiB-fetch-{r}", "-", f"{used.seconds[r] / gib:.2f}")
    node.stop()


def end_to_end():
    node = fresh()
    runs = [(pico_bench(node, "-d", 3, "-n", 10, "-t", 5, "--tail")["read"], disk(node.dir, 200)) for _ in range(ROUNDS)]
    for p in (50, 99):
        base = f"bare-loop-put-p{p}-ms"
        figure(f"producer-to-consumer-p{p}-ms", "-", f"{median(r[f'p{p}_ms'] for r, _ in runs):.2f}", f"bench-disk p{p}",
               f"{median(r[f'p{p}_ms'] / d[base] for r, d in runs):.2f}")
    node.stop()


def figures():
    librdkafka_producer()
    same_shape()
    burst()
    consumer()
    end_to_end()
