# SPDX-License-Identifier: Apache-2.0
"""Producers and consumers over Kafka, by number and size of records: `make bench BENCH=kafka-clients`. Each producer is
idempotent and has a connection with five batches of about 64 KiB under way; each consumer has a connection and its share of 64
partitions. The base line of producers is the same load against a broker that keeps nothing and answers after the time of a bare
put (bench-broker), that of consumers at the tail a bare put; a replay has none, it is bound by the processor."""
import threading, time

from bench_kafka import ARENA, ROLES, fresh, pico_bench
from figures import ROUNDS, BareServer, Used, cpu, disk, figure, median

BATCH = 64 << 10
PARTITIONS = 64
PERCENTILES = ("p50_ms", "p99_ms", "p999_ms")


def times(name, part):
    for p in PERCENTILES:
        figure(f"{name}-{p.replace('_', '-')}", "-", f"{median(x[p] for x in part):.2f}")


def load(connections, size):
    """Below what starts the packer, whatever the machine does."""
    return ("-d", 2, "-b", size, "-n", max(1, BATCH // size), "-w", 5 * connections, "--connections", connections, "--partitions",
            PARTITIONS, "-t", ARENA // 10 >> 20, "--no-read")


def producers():
    for connections in (1, 16):
        for size in (100, 1024, 16384):
            name, writes, ratios, cpus = f"{connections}-producers-{size}-B", [], [], {r: [] for r in ROLES}
            for _ in range(ROUNDS):
                node = fresh()
                with Used(node, *ROLES) as used:
                    w = pico_bench(node.kafka_port, *load(connections, size))["write"]
                writes.append(w)
                for r in ROLES:
                    cpus[r].append(used.seconds[r] / (w["bytes"] / (1 << 30)))
                put_us = round(1000 * disk(node.dir, 100, 66 << 10)["bare-loop-put-p50-ms"])
                with BareServer(put_us, PARTITIONS, program="bench-broker") as port:
                    ratios.append(w["records_per_sec"] / pico_bench(port, *load(connections, size))["write"]["records_per_sec"])
                node.stop()
            figure(f"{name}-records-per-s", "-", f"{median(w['records_per_sec'] for w in writes):.0f}", "stand-in",
                   f"{median(ratios):.2f}")
            figure(f"{name}-MiBps", "-", f"{median(w['mib_per_sec'] for w in writes):.1f}")
            times(name, writes)
            for r in ROLES:
                figure(f"{name}-cpu-s-per-GiB-{r}", "-", f"{median(cpus[r]):.2f}")


def at_the_tail():
    """From producer to consumer, at 5 MiB a second in all; as many producers as consumers."""
    for consumers in (1, 16, 64):
        reads, puts = [], []
        for _ in range(ROUNDS):
            node = fresh()
            reads.append(pico_bench(node.kafka_port, "-d", 3, "-n", 10, "-t", 5, "-w", 5 * consumers, "--connections", consumers,
                                    "--partitions", PARTITIONS, "--tail")["read"])
            puts.append(disk(node.dir, 200)["bare-loop-put-p50-ms"])
            node.stop()
        name = f"{consumers}-consumers-at-the-tail"
        times(name, reads)
        figure(f"{name}-p50", "-", f"{median(r['p50_ms'] for r in reads):.2f}", "bench-disk p50",
               f"{median(r['p50_ms'] / p for r, p in zip(reads, puts)):.2f}")


class Samples:
    """CPU of a node's processes, every 20 ms: how much the last so many seconds took."""

    def __init__(self, node):
        self.pids, self.rows, self.done = {r: node.pid(r) for r in ROLES}, [], threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.done.wait(0.02):
            self.rows.append((time.monotonic(), {r: cpu(p) for r, p in self.pids.items()}))

    def stop(self):
        self.done.set()
        self.thread.join()

    def last(self, seconds):
        end, last = self.rows[-1]
        first = next(used for at, used in self.rows if at >= end - seconds)
        return {r: last[r] - first[r] for r in ROLES}


def replay():
    """A log in the arena read over and over for some two seconds."""
    for consumers in (1, 16, 64):
        reads, cpus = [], {r: [] for r in ROLES}
        for _ in range(ROUNDS):
            node = fresh()
            samples = Samples(node)
            read = pico_bench(node.kafka_port, "-d", 1, "-n", 64, "-w", 5 * consumers, "-t", 100, "--connections", consumers,
                              "--partitions", PARTITIONS, "--replays", 40, "--keep")["read"]
            samples.stop()
            node.stop()
            reads.append(read)
            used = samples.last(read["bytes"] / (1 << 20) / read["mib_per_sec"])
            for r in ROLES:
                cpus[r].append(used[r] / (read["bytes"] / (1 << 30)))
        name = f"{consumers}-consumers-in-replay"
        figure(f"{name}-MiBps", "-", f"{median(r['mib_per_sec'] for r in reads):.0f}")
        times(f"{name}-fetch", reads)
        for r in ROLES:
            figure(f"{name}-cpu-s-per-GiB-{r}", "-", f"{median(cpus[r]):.3f}")


def figures():
    producers()
    at_the_tail()
    replay()
