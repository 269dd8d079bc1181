#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The batches that real clients produced come back byte for byte, but for base offset and partition leader epoch; the
CRC is the client's own. Every codec, with headers, null keys and null values. A proxy keeps what went by.

PICO_CLIENTS=all (make client-matrix) takes all clients; else those that are quick."""
import kafka_capture, kafka_clients, kafka_proxy, kafka_wire, node
from kafka_clients import CODECS, PARTITIONS
from tap import diag, run, same, test

proxy = kafka_proxy.Proxy()
n = node.Node("--kafka-advertise=" + proxy.address, kafka=True)
sent = {}                               # (topic, partition, base offset): batch
clients = kafka_clients.chosen()


def produce(client):
    """Every batch that was acknowledged has an offset of its own, behind those before it."""
    proxy.clear()
    for i, codec in enumerate(c for c in CODECS if c not in client.lacks):
        kafka_clients.produce(client, proxy.address, "all", codec, kafka_clients.recipe(client, i, 1700000000000))
    came = kafka_capture.produced(proxy)
    codecs = {b.attributes & 7 for b in came.values()}
    same(codecs, {CODECS.index(c) for c in CODECS if c not in client.lacks}, "codecs of the batches that went")
    same(sorted(came.keys() & sent.keys()), [], "offsets given twice")
    sent.update(came)
    for p in range(PARTITIONS):
        ends = sorted((key[2], key[2] + b.count) for key, b in sent.items() if key[1] == p)
        same([begin for begin, _ in ends], [0] + [end for _, end in ends[:-1]], f"offsets of partition {p}")
    diag(f"{len(came)} batches in {sorted({e.version for e in proxy.of(kafka_proxy.PRODUCE)})} of Produce")


def check(batches):
    """[((topic, partition, base offset), batch)]: each as it was sent, and none is missing."""
    for key, b in batches:
        assert key in sent, f"nobody produced {key}"
        kafka_capture.unchanged(key, sent[key], b)
    same(sorted({key for key, _ in batches}), sorted(sent), "batches")


def consume(client):
    proxy.clear()
    kafka_clients.consume(client, proxy.address, "all", "start")
    check(kafka_capture.fetched(proxy))
    diag(f"in {sorted({e.version for e in proxy.of(kafka_proxy.FETCH)})} of Fetch")


def restart():
    same(n.stop(), 0, "exit code")
    n.start()
    same(n.kafka_port, proxy.target, "port")
    consume(clients[0])


def from_inside():
    with kafka_wire.Client(n.kafka_port) as c:
        for version, topic in ((4, "all"), (12, "all"), (16, c.topic_id("all"))):
            found = []
            for (_, p, base), b in sent.items():
                answer = c.fetch(topic, p, base + b.count - 1, version=version, partition_max_bytes=1)
                same(answer.error_code, 0, "Fetch")
                first, = kafka_wire.batches(answer.records)
                found.append((("all", p, first.base_offset), first))
            same([key for key, _ in found], list(sent), "the batches around the offsets")
            check(found)


for one in clients:
    test(f"{kafka_clients.title(one)}: its batches are stored behind each other")(lambda one=one: produce(one))
for one in (c for c in clients if kafka_clients.FRAMED_SNAPPY not in c.cannot):
    test(f"what {one.name} fetches is what was produced")(lambda one=one: consume(one))
test("a fetch from the last record of a batch brings the whole batch")(from_inside)
if clients:
    test("and after a restart, when nothing is in memory")(restart)
n.start()
proxy.target = n.kafka_port
n.http("PUT", "/all", Content_Type="application/octet-stream", Pico_Partitions=PARTITIONS)
run(lambda: (n.stop(), proxy.close()))
