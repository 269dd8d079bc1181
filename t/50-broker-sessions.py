#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch sessions (KIP-227) of a real node, byte by byte, with two workers, and by clients that use them: franz-go, Java.
(librdkafka uses none.)"""
import re

import kafka_clients, kafka_wire, node, tap
from tap import same, until

n = node.Node("--max-fetch-sessions=5", "--kafka-workers=2", kafka=True)
PARTS = 3


def gauge(name):
    return sum(int(v) for v in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\d+)$", n.admin("/metrics").body.decode(), re.M))


def one(value=b"v"):
    return kafka_wire.batch([(None, value)])


def topic(c, name):
    same(c.create(name, partitions=PARTS), [0], "create")
    return name, c.topic_id(name)


def fetch(c, version, session, epoch, topics=(), forgotten=(), **more):
    """topics: [(name or id, {partition: offset})]; the answer, and {(topic, partition): (error, watermark, values)}."""
    key, place = ("topic_id", "topic_id") if version >= 13 else ("topic", "topic")
    a = c.call("Fetch", version, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=session, session_epoch=epoch,
               topics=[{key: t, "partitions": [{"partition": p, "fetch_offset": o, "partition_max_bytes": 1 << 20}
                                               for p, o in parts.items()]} for t, parts in topics],
               forgotten_topics_data=[{place: t, "partitions": parts} for t, parts in forgotten], **more)
    told = {(getattr(t, key), p.partition_index): (p.error_code, p.high_watermark, len(kafka_wire.batches(p.records)))
            for t in a.responses for p in t.partitions}
    return a, told


@tap.test("a session by name and by id: only news is told; changes and forgotten partitions are honoured; its end")
def session():
    n.start()
    for version in (7, 12, 13, 16):
        with kafka_wire.Client(n.kafka_port) as c:
            name, topic_id = topic(c, f"s{version}")
            key = name if version < 13 else topic_id
            a, told = fetch(c, version, 0, 0, [(key, dict.fromkeys(range(PARTS), 0))])
            id_ = a.session_id
            assert a.error_code == 0 and id_ > 0, a
            same(told, {(key, p): (0, 0, 0) for p in range(PARTS)}, "all")
            a, told = fetch(c, version, id_, 1)
            same((a.error_code, a.session_id, told), (0, id_, {}), "no news")
            c.produce(name, 1, one())
            same(fetch(c, version, id_, 2)[1], {(key, 1): (0, 1, 1)}, "a record")
            same(fetch(c, version, id_, 3)[1], {(key, 1): (0, 1, 1)}, "the same again: the offset stands")
            same(fetch(c, version, id_, 4, [(key, {1: 1})])[1], {}, "taken")
            c.produce(name, 0, one())
            c.produce(name, 2, one())
            same(fetch(c, version, id_, 5, forgotten=[(key, [2])])[1], {(key, 0): (0, 1, 1)}, "2 is forgotten")
            same(fetch(c, version, id_, 6, [(key, {0: 1, 9: 0, 2: 5})])[1], {(key, 9): (3, -1, 0), (key, 2): (1, 1, 0)}, "errors")
            same(fetch(c, version, id_, 7, forgotten=[(key, [9])])[1], {(key, 2): (1, 1, 0)}, "the error lasts")
            same(fetch(c, version, id_, 7)[0].error_code, 71, "an old epoch")
            same(fetch(c, version, id_, 9)[0].error_code, 71, "an epoch to come")
            same(fetch(c, version, id_, 8, [(key, {2: 1})])[1], {(key, 2): (0, 1, 0)}, "the error is over")
            other = 13 if version < 13 else 12
            same(fetch(c, other, id_, 9)[0].error_code, 106, "names and ids do not mix")
            a, told = fetch(c, version, id_, -1, [(key, {0: 0})])
            same((a.session_id, told), (0, {(key, 0): (0, 1, 1)}), "a last one, without session")
            same(fetch(c, version, id_, 9)[0].error_code, 70, "it is gone")


@tap.test("a parked fetch of a session is woken by an append, and tells that alone")
def parked():
    with kafka_wire.Client(n.kafka_port) as c, kafka_wire.Client(n.kafka_port) as d:
        name, _ = topic(c, "parked")
        id_ = fetch(c, 12, 0, 0, [(name, dict.fromkeys(range(PARTS), 0))])[0].session_id
        c.send("Fetch", 12, max_wait_ms=30000, min_bytes=1, max_bytes=1 << 20, session_id=id_, session_epoch=1, topics=[])
        d.produce(name, 2, one())
        a = c.receive()
        same([(t.topic, [p.partition_index for p in t.partitions]) for t in a.responses], [(name, [2])], "told")


@tap.test("many partitions under a bound on bytes: each is read in turn")
def fair():
    with kafka_wire.Client(n.kafka_port) as c:
        name, _ = topic(c, "fair")
        for p in range(PARTS):
            for i in range(4):
                c.produce(name, p, one(b"%d" % i * 1000))
        a = c.call("Fetch", 12, max_bytes=1, session_epoch=0, topics=[{"topic": name, "partitions": [
            {"partition": p, "fetch_offset": 0, "partition_max_bytes": 1} for p in range(PARTS)]}])
        order, id_, changed = [], a.session_id, []
        for epoch in range(1, 9):
            got = [(p.partition_index, kafka_wire.batches(p.records)[0].base_offset) for t in a.responses for p in t.partitions if p.records]
            same(len(got), 1, "one batch at a time")
            order += got
            changed = [{"topic": name, "partitions": [{"partition": got[0][0], "fetch_offset": got[0][1] + 1, "partition_max_bytes": 1}]}]
            a = c.call("Fetch", 12, max_bytes=1, session_id=id_, session_epoch=epoch, topics=changed)
        same(order, [(i % PARTS, i // PARTS) for i in range(8)], "order")


@tap.test("--max-fetch-sessions: beyond it a client gets none, and reads on without; on another worker it is unknown")
def bound():
    with kafka_wire.Client(n.kafka_port) as c:
        name, _ = topic(c, "bound")
        ids = [fetch(c, 12, 0, 0, [(name, {0: 0})])[0].session_id for _ in range(8)]
        assert 0 in ids and ids[-1] == 0, ids
        before = gauge("pico_kafka_fetch_sessions")
        c.produce(name, 0, one())
        same(fetch(c, 12, 0, 0, [(name, {0: 0})])[1], {(name, 0): (0, 1, 1)}, "without one")
        assert 5 <= before <= 10, before
        for id_ in filter(None, ids):
            fetch(c, 12, id_, -1)
    live = []
    with kafka_wire.Client(n.kafka_port) as c:
        id_ = fetch(c, 12, 0, 0, [(name, {0: 0})])[0].session_id

        def is_elsewhere():
            d = kafka_wire.Client(n.kafka_port)
            live.append(d)
            return fetch(d, 12, id_, 2)[0].error_code == 70     # 71 where it lives
        until(is_elsewhere, 30, "a connection to the other worker")
        same(fetch(c, 12, id_, 1)[0].error_code, 0, "where it lives")
        fetch(c, 12, id_, -1)
        for d in live:
            d.__exit__()


def follow(client):
    name = "follow-" + client.name
    with kafka_wire.Client(n.kafka_port) as c:
        topic(c, name)
        before = gauge("pico_kafka_fetch_sessions")
        consumer = kafka_clients.start(client, "consume", f"127.0.0.1:{n.kafka_port}", name, "end", 30)
        until(lambda: gauge("pico_kafka_fetch_sessions") > before or consumer.poll() is not None, 60, "a session")
        for i in range(30):
            c.produce(name, i % PARTS, one(b"%d" % i))
        got = kafka_clients.finish(client, consumer)
        same(sorted(int(r.value) for r in got), list(range(30)), client.name)


for one_client in (c for c in kafka_clients.chosen() if c.name in ("franz-go", "java-3.9", "java-4")):
    tap.test(f"{kafka_clients.title(one_client)}: reads through a session what comes, partition by partition")(
        lambda client=one_client: follow(client))
tap.run(lambda: n.stop())
