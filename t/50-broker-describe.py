#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DescribeLogDirs and DescribeProducers, byte by byte and through Java's Admin: bytes that a partition keeps, and the
idempotent producers that wrote to it, also of logs that a restart left idle."""
import subprocess

import kafka_clients, kafka_wire, node, tap
from kafka_wire import Client, batch
from tap import same

n = node.Node("--open-logs=16", kafka=True)
PARTS = 3
size = {}                               # (topic, partition): bytes of its batches


def topic(c, name, partitions=PARTS):
    same(c.create(name, partitions=partitions), [0], f"create {name}")
    size.update({(name, p): 0 for p in range(partitions)})
    return name


def produce(c, name, partition, count=1, value=b"v" * 100, **more):
    b = batch([(None, value)] * count, **more)
    same(c.produce(name, partition, b).error_code, 0, "produce")
    size[name, partition] += len(b)


def dirs(c, version, topics):
    a = c.call("DescribeLogDirs", version, topics=topics)
    d, = a.results
    same((getattr(a, "error_code", 0), d.error_code), (0, 0), "errors")
    if version >= 4:
        same((d.total_bytes, d.usable_bytes), (-1, -1), "of the disk nothing is known")
    for t in d.topics:
        for p in t.partitions:
            same((p.offset_lag, p.is_future_key), (0, False), "neither behind nor moving")
    return d.log_dir, {(t.name, p.partition_index): p.partition_size for t in d.topics for p in t.partitions}


@tap.test("DescribeLogDirs: the bytes of each partition, in every version; what is not there is left out; null asks for all")
def log_dirs():
    n.start()
    with Client(n.kafka_port) as c:
        one, two = topic(c, "one"), topic(c, "two", 1)
        for i in range(5):
            produce(c, one, i % 2, count=i + 1)
        produce(c, two, 0, value=b"x" * 5000)
        for version in range(1, 5):
            name, got = dirs(c, version, [{"topic": one, "partitions": [0, 1, 2, 3, -1]}, {"topic": "none", "partitions": [0]}])
            same(got, {(one, p): size[one, p] for p in range(PARTS)}, f"version {version}")
            same(name, f"-2@file://{n.dir}/data/objects", "where they stand")
            same(dirs(c, version, None)[1], size, f"all, version {version}")
            same(dirs(c, version, [])[1], {}, f"none, version {version}")


@tap.test("what was deleted counts no more: nothing after all of it, a share of the bytes after a part")
def trimmed():
    with Client(n.kafka_port) as c:
        name = topic(c, "trimmed")
        for _ in range(10):
            produce(c, name, 0)
            produce(c, name, 1)
        delete = lambda p, offset: c.call("DeleteRecords", 2, timeout_ms=30000, topics=[
            {"name": name, "partitions": [{"partition_index": p, "offset": offset}]}])
        same([delete(p, o).topics[0].partitions[0].error_code for p, o in ((0, -1), (1, 4))], [0, 0], "delete")
        each = size[name, 1] // 10
        size[name, 0], size[name, 1] = 0, 6 * each
        same(dirs(c, 4, [{"topic": name, "partitions": [0, 1]}])[1], {(name, 0): 0, (name, 1): 6 * each}, "kept")


def producers(c, *parts):
    a = c.call("DescribeProducers", 0, topics=[{"name": t, "partition_indexes": p} for t, p in parts])
    found = {}
    for t in a.topics:
        for p in t.partitions:
            who = sorted((w.producer_id, w.producer_epoch, w.last_sequence) for w in p.active_producers)
            found[t.name, p.partition_index] = (p.error_code, who)
            for w in p.active_producers:
                assert w.last_timestamp > 1700000000000, w
                same((w.coordinator_epoch, w.current_txn_start_offset), (-1, -1), "no transaction")
    return found


@tap.test("DescribeProducers: ids, epochs and last sequence numbers; errors of partitions that are not there")
def writers():
    with Client(n.kafka_port) as c:
        name = topic(c, "writers")
        produce(c, name, 0)             # of nobody
        for sequence in range(0, 21, 3):
            produce(c, name, 0, count=3, producer=(77, 2, sequence))
        produce(c, name, 0, count=5, producer=(78, 0, 0))
        produce(c, name, 1, producer=(77, 0, 0))
        produce(c, name, 1, producer=(77, 1, 0))
        want = {(name, 0): (0, [(77, 2, 20), (78, 0, 4)]), (name, 1): (0, [(77, 1, 0)]), (name, 2): (0, []),
                (name, 3): (3, []), (name, -1): (3, []), ("none", 0): (3, [])}
        same(producers(c, (name, [0, 1, 2, 3, -1]), ("none", [0])), want, "producers")
        same(producers(c), {}, "nothing asked for")


@tap.test("after a restart of storaged, of logs that are idle, and with 200 of them: the same")
def idle():
    with Client(n.kafka_port) as c:
        many = topic(c, "many", 200)
        for p in range(0, 200, 7):
            produce(c, many, p, producer=(1000 + p, 0, 0))
        before = dirs(c, 4, None)[1], producers(c, ("writers", [0, 1, 2]), (many, list(range(200))))
        same(before[0], size, "sizes")
        same(n.stop(), 0, "exit code")
        n.start()
    with Client(n.kafka_port) as c:
        same((dirs(c, 4, None)[1], producers(c, ("writers", [0, 1, 2]), (many, list(range(200))))), before, "after the restart")


def by_java(client):
    with Client(n.kafka_port) as c:
        name = topic(c, "by-" + client.name)
        produce(c, name, 1, count=4, producer=(5, 3, 0))
    lines = []
    process = kafka_clients.start(client, "describe", f"127.0.0.1:{n.kafka_port}", name)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    lines = sorted(out.decode().splitlines())
    where = f"-2@file://{n.dir}/data/objects"
    same(lines, ["producer 1 5 3 3"] + [f"size {p} {size[name, p]} {where}" for p in range(PARTS)], "Admin")


for one_client in (c for c in kafka_clients.chosen() if c.name.startswith("java")):
    tap.test(f"{kafka_clients.title(one_client)}: describeLogDirs and describeProducers")(lambda client=one_client: by_java(client))
tap.run(lambda: n.stop())
