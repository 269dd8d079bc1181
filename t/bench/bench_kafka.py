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


def pico_bench(port, *args):
    return json.loads(run(os.path.join(tap.build, "pico"), "bench", "--protocol", "kafka", "--output", "json",
                          "--bootstrap", f"127.0.0.1:{port}", *map(str, args)))


def fresh(*options):
    return Node(f"--wal-cache-size={ARENA}", *options, kafka=True).start()


# --------------------------------------------------------------------- producing


def rdkafka(port, batch, idempotence="true"):
    """Records a second of librdkafka's producer."""
    out = program("bench-rdkafka", f"127.0.0.1:{port}", "rd", min(SECONDS, 3), batch, 1024, idempotence)
    return float(re.search(r"records-per-s got ([\d.]+)", out)[1])


def own(port):
    """The same load from a client that costs less: an idempotent producer with five batches under way."""
    return pico_bench(port, "-d", 2, "-n", 64, "-w", 5, "--no-read")["write"]["records_per_sec"]


def beside_stand_in(name, goal, node, producer):
    """Beside a broker that keeps nothing and answers each batch after the time that a bare put of it takes; and what the
    client reaches when it answers at once."""
    rates = []
    for _ in range(ROUNDS):
        rate = producer(node.kafka_port)
        put_us = round(1000 * disk(node.dir, 100, 66 << 10)["bare-loop-put-p50-ms"])
        with BareServer(put_us, program="bench-broker") as port:
            rates.append((rate, producer(port), put_us))
    figure(name, goal, f"{median(r for r, *_ in rates):.0f}", f"stand-in with a put of {median(p for *_, p in rates)} us",
           f"{median(r / base for r, base, _ in rates):.2f}")
    with BareServer(0, program="bench-broker") as port:
        figure(f"{name}-from-a-stand-in", "-", f"{producer(port):.0f}")


def producers():
    if os.path.exists(os.path.join(bench, "bench-rdkafka")):
        librdkafka_producers()
    else:
        print("skip librdkafka: librdkafka-dev is not installed", flush=True)
    node = fresh()
    beside_stand_in("pico-bench-1KiB-batch-64-per-s", "100000", node, own)
    node.stop()


def librdkafka_producers():
    node = fresh()
    assert node.http("PUT", "/rd").status == 201
    beside_stand_in("librdkafka-1KiB-batch-64-per-s", "100000", node, lambda port: rdkafka(port, 64))
    beside_stand_in("librdkafka-not-idempotent-1KiB-batch-64-per-s", "100000", node, lambda port: rdkafka(port, 64, "false"))
    rates = [(rdkafka(node.kafka_port, 1), disk(node.dir, 200)["store-puts-2-in-flight-per-s"]) for _ in range(ROUNDS)]
    figure("librdkafka-1KiB-batch-1-per-s", "-", f"{median(r for r, _ in rates):.0f}", "WAL objects, 2 in flight",
           f"{median(r / base for r, base in rates):.2f}")
    node.stop()


def burst():
    """16 partitions, as fast as it goes, into an arena that does not fill up."""
    rates, cpus = [], {r: [] for r in ROLES}
    for _ in range(ROUNDS):
        node = fresh()
        pico_bench(node.kafka_port, "-d", 1, "-n", 64, "-t", 50, "--no-read")        # whatever is done once
        base = sequential(node.dir)
        with Used(node, *ROLES) as used:
            # For a second, and no faster than the burst a second: so the bound holds whatever the machine does.
            w = pico_bench(node.kafka_port, "-d", 1, "-n", 256, "-w", 64, "--partitions", 16, "--connections", 4, "-t",
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
    pico_bench(node.kafka_port, "-d", 2, "-n", 64, "-w", 5, "-t", 100, "--no-read", "--keep")
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
    runs = [(pico_bench(node.kafka_port, "-d", 3, "-n", 10, "-t", 5, "--tail")["read"], disk(node.dir, 200)) for _ in range(ROUNDS)]
    for p in (50, 99):
        base = f"bare-loop-put-p{p}-ms"
        figure(f"producer-to-consumer-p{p}-ms", "-", f"{median(r[f'p{p}_ms'] for r, _ in runs):.2f}", f"bench-disk p{p}",
               f"{median(r[f'p{p}_ms'] / d[base] for r, d in runs):.2f}")
    node.stop()


def figures():
    producers()
    burst()
    consumer()
    end_to_end()
