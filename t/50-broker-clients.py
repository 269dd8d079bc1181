#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kafka clients of several makes on one topic: each produces with every codec it has, each reads what all produced,
from the start, from a timestamp in the middle of a batch, and what is new. All see the same. Where a client is among them that
cannot read snappy as Java's library frames it, all but that is produced to a second topic, which such a client reads.

PICO_CLIENTS=all (make client-matrix) takes all that t/clients/install knows; else those that are quick."""
import time

import kafka_capture, kafka_clients, kafka_form, kafka_proxy, kafka_wire, node
from kafka_clients import CODECS, PARTITIONS
from tap import run, same, test, until

FIRST_TIME, APART = 1700000000000, 100000
proxy = kafka_proxy.Proxy()
n = node.Node("--kafka-advertise=" + proxy.address, kafka=True)
ALL, UNFRAMED = "all", "unframed"
log = {t: [[] for _ in range(PARTITIONS)] for t in (ALL, UNFRAMED)}     # what stands in a topic, by partition
runs = []                               # (client, codec, its first timestamp)


def place(log, records, window):
    """Appends a recipe to the log as the node has to. window: when it was produced, for those without a timestamp."""
    for r in records:
        log[r.partition].append((r._replace(offset=len(log[r.partition])), window))


def topic_of(client):
    return UNFRAMED if kafka_clients.FRAMED_SNAPPY in client.cannot else ALL


def check(client, got, begin):
    """got is the log from these offsets on, each partition in order."""
    log_ = log[topic_of(client)]
    for p in range(PARTITIONS):
        want, came = log_[p][begin[p]:], [r for r in got if r.partition == p]
        same(len(came), len(want), f"{client.name}: records of partition {p}")
        for r, (expected, window) in zip(came, want):
            if expected.timestamp is None:
                assert window[0] <= r.timestamp <= window[1], (r, window)
                r = r._replace(timestamp=None)
            same(r, kafka_clients.as_read(client, expected), client.name)


def produce_to(topic, client, codec, base):
    began = int(time.time() * 1000)
    records = kafka_clients.recipe(client, len(runs), base)
    proxy.clear()
    kafka_clients.produce(client, proxy.address, topic, codec, records)
    place(log[topic], records, (began, int(time.time() * 1000)))
    batches = kafka_capture.produced(proxy).values()
    same(sum(b.count for b in batches), len(records), "records in the batches that went")
    # librdkafka leaves a batch as it is that a codec makes no smaller.
    same({b.attributes & 7 for b in batches} - {0}, {CODECS.index(codec)} - {0}, "codec of the batches that went")
    idempotent = kafka_clients.IDEMPOTENCE not in client.cannot
    same({b.producer_id >= 0 for b in batches}, {idempotent}, "with a producer id")


def produce(client):
    for codec in CODECS:
        if codec in client.lacks:
            continue
        base = FIRST_TIME + len(runs) * APART
        produce_to(ALL, client, codec, base)
        if UNFRAMED in map(topic_of, clients) and not (codec == "snappy" and client.name in kafka_clients.FRAMES):
            produce_to(UNFRAMED, client, codec, base)
        runs.append((client, codec, base))


def from_start(client):
    check(client, kafka_clients.consume(client, proxy.address, topic_of(client), "start"), [0] * PARTITIONS)


def first_at(topic, timestamp):
    """By partition the offset of the first record that is not earlier."""
    is_late = lambda r: r.timestamp is None or r.timestamp >= timestamp
    return [next((r.offset for r, _ in rows if is_late(r)), len(rows)) for rows in log[topic]]


def from_time(client):
    """The last recipe of each codec whose records have timestamps: one record is before the time and one behind it."""
    topic = topic_of(client)
    for codec in CODECS:
        bases = [base for c, k, base in runs if k == codec and kafka_clients.TIMESTAMPS not in c.cannot
                 and not (topic == UNFRAMED and codec == "snappy" and c.name in kafka_clients.FRAMES)]
        base = max(bases, default=None)
        assert base is not None, "no client gave timestamps"
        proxy.clear()
        begin = first_at(topic, base + 25)
        check(client, kafka_clients.consume(client, proxy.address, topic, base + 25), begin)
        heads = {key[1:] for key, _ in kafka_capture.fetched(proxy)}
        assert all((p, begin[p]) not in heads for p in range(PARTITIONS)), f"{codec}: {begin} is not inside batches"
    to_come = int(time.time() * 1000) + 3600000
    same(kafka_clients.consume(client, proxy.address, topic, to_come), [], "from a time to come")


def from_end(client):
    topic = "end-" + client.name
    with kafka_wire.Client(n.kafka_port) as c:
        same(c.create(topic, partitions=PARTITIONS), [0], "create")
        old = kafka_wire.batch([(b"old", b"old")] * 3)
        for p in range(PARTITIONS):
            same(c.produce(topic, p, old).error_code, 0, "old records")
        proxy.clear()
        consumer = kafka_clients.start(client, "consume", proxy.address, topic, "end", 2 * PARTITIONS)
        fetches = lambda: consumer.poll() is not None or len(kafka_capture.asked(proxy, topic)) == PARTITIONS
        until(fetches, 30, "it fetches from all partitions")
        new = kafka_wire.batch([(b"k", b"1", (("a", b"1"),)), (None, b"2")], base_time=FIRST_TIME)
        for p in range(PARTITIONS):
            same(c.produce(topic, p, new).error_code, 0, "new records")
    got = sorted(kafka_clients.finish(client, consumer))
    want = [kafka_form.Record(p, 3 + i, FIRST_TIME, *rest) for p in range(PARTITIONS)
            for i, rest in enumerate(((b"k", b"1", (("a", b"1"),)), (None, b"2", ())))]
    same(got, want, client.name)


clients = kafka_clients.chosen()
for one in clients:
    cannot = "".join(f"; no {what}" for what in sorted(one.cannot))
    test(f"produces, {kafka_clients.title(one)}{cannot}")(lambda one=one: produce(one))
for one in clients:
    test(f"{one.name} reads from the start what all of them produced")(lambda one=one: from_start(one))
    test(f"{one.name} reads from a timestamp in the middle of a batch")(lambda one=one: from_time(one))
    test(f"{one.name} reads from the end what is new and nothing else")(lambda one=one: from_end(one))
n.start()
proxy.target = n.kafka_port
for name in log:
    n.http("PUT", "/" + name, Content_Type="application/octet-stream", Pico_Partitions=PARTITIONS)
run(lambda: (n.stop(), proxy.close()))
