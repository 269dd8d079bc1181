#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Kafka clients demand of every broker and compatible ones got wrong, byte by byte: offsets and times, ids and epochs,
what is refused of a batch and how, duplicates, waiting, and what is said of transactions."""
import struct, threading, time

import kafka_wire, node, tap
from kafka_wire import Client, batch
from tap import run, same, test

n = node.Node("--num-partitions=3", kafka=True)
BASE = 1700000000000


def client():
    return Client(n.kafka_port)


def topic(c, name, partitions=1, **more):
    same(c.create(name, partitions=partitions, **more), [0], f"create {name}")
    return name


def one(text=b"v"):
    return batch([(b"k", text)])


def list_offsets(c, name, timestamp, version=8, partition=0, **more):
    """(error, offset, timestamp) of one question."""
    p = {"partition_index": partition, "timestamp": timestamp, **more}
    a = c.call("ListOffsets", version, replica_id=-1, isolation_level=1, topics=[{"name": name, "partitions": [p]}])
    p = a.topics[0].partitions[0]
    return p.error_code, p.offset, p.timestamp


@test("versions just outside: 35 where the answer has a place for it")
def versions():
    with client() as c:
        for version in (0, 1, 2, 3):
            same(c.fetch("x", 0, 0, version=version).error_code, 35, f"Fetch {version}")
        same(c.call("Fetch", 17, topics=[]).error_code, 35, "Fetch 17")
        for version in (0, 9, 10):
            same(list_offsets(c, "x", -1, version)[0], 35, f"ListOffsets {version}")


@test("Fetch: records are empty, never null; the log start and the high watermark are there")
def empty():
    with client() as c:
        name = topic(c, "empty", 2)
        c.produce(name, 0, one())
        for version in range(4, 17):
            key = name if version < 13 else c.topic_id(name)
            for partition, offset, hw in ((0, 1, 1), (1, 0, 0)):
                p = c.fetch(key, partition, offset, version=version)
                same((p.error_code, p.records, p.high_watermark, p.last_stable_offset), (0, b"", hw, hw), f"version {version}")
                same(p.log_start_offset, 0 if version >= 5 else -1, f"version {version}")
                same(p.aborted_transactions in (None, []), True, "no transactions")


@test("topic ids: random, the same over a restart, new after a re-create; an old one is UNKNOWN_TOPIC_ID")
def ids():
    with client() as c:
        name = topic(c, "ids", 2)
        c.produce(name, 0, one(b"first"))
        first = c.topic_id(name)
        same(c.call("Metadata", 10, topics=[{"name": name}]).topics[0].topic_id, first, "Metadata 10")
        by_id = c.call("Metadata", 12, topics=[{"name": None, "topic_id": first}]).topics[0]
        same((by_id.error_code, by_id.name), (0, name), "Metadata by id")
        same([c.fetch(first, p, 0, version=13).error_code for p in (0, 1, 2, -1)], [0, 0, 3, 3], "Fetch by id, and what it lacks")
        assert first not in (bytes(16), c.topic_id(topic(c, "ids2"))), first.hex()
        n.kill("storaged")
        same(c.topic_id(name), first, "after a restart")
        same([t.error_code for t in c.call("DeleteTopics", 6, topics=[{"name": None, "topic_id": first}], timeout_ms=9000).responses],
             [0], "delete by id")
        topic(c, name)
        assert c.topic_id(name) != first, first.hex()
        for version in (13, 16):
            p = c.fetch(first, 0, 0, version=version)
            same((p.error_code, p.records), (100, b""), "Fetch by the old id")
        same(c.call("Metadata", 12, topics=[{"name": None, "topic_id": first}]).topics[0].error_code, 100, "Metadata by the old id")
        same(c.call("DeleteTopics", 6, topics=[{"name": None, "topic_id": first}], timeout_ms=9000).responses[0].error_code, 100)
        same(c.fetch(name, 0, 0).high_watermark, 0, "the new one is empty")


@test("what was deleted is served to nobody, also to who reads through it and whose next fetch was read ahead")
def deleted():
    for version, code in ((11, 3), (13, 100)):
        with client() as reader, client() as c:
            name = topic(c, f"deleted{version}")
            for i in range(8):
                c.produce(name, 0, one(b"%d" % i))
            key = name if version < 13 else c.topic_id(name)
            for i in range(4):
                p = reader.fetch(key, 0, i, version=version, max_bytes=1)
                same([b.base_offset for b in kafka_wire.batches(p.records)], [i], "one batch after the other")
                time.sleep(0.05)        # for what is read ahead to be there, below the time it is kept
            n.http("DELETE", f"/{name}")
            p = reader.fetch(key, 0, 4, version=version, max_bytes=1)
            same((p.error_code, p.records), (code, b""), f"Fetch {version} after the delete")


@test("the controller is one of the brokers; leader epochs are the same everywhere, and checked")
def epochs():
    with client() as c:
        name = topic(c, "epochs", 2)
        m = c.call("Metadata", 12, topics=[{"name": name}], include_topic_authorized_operations=False)
        same([(b.node_id, b.host, b.port, b.rack) for b in m.brokers], [(1, "127.0.0.1", n.kafka_port, None)], "brokers")
        same((m.controller_id, m.cluster_id), (1, "picomq"), "controller, cluster")
        same((m.cluster_authorized_operations, m.topics[0].topic_authorized_operations), (-2 ** 31, -2 ** 31), "not asked for")
        for p in m.topics[0].partitions:
            same((p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes, p.offline_replicas), (1, 0, [1], [1], []), "partition")
        c.produce(name, 0, one())
        same(kafka_wire.batches(c.fetch(name, 0, 0).records)[0].epoch, 0, "in the batch")
        for given, code in ((-1, 0), (0, 0), (1, 75)):
            same(c.fetch(name, 0, 0, current_leader_epoch=given).error_code, code, f"Fetch with epoch {given}")
            same(list_offsets(c, name, -1, current_leader_epoch=given)[0], code, f"ListOffsets with epoch {given}")
        a = c.call("ListOffsets", 8, topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}])
        same(a.topics[0].partitions[0].leader_epoch, 0, "ListOffsets")


@test("ListOffsets: ends, the largest time, times inside a batch in any order, and what is no question")
def offsets():
    with client() as c:
        name = topic(c, "offsets")
        same([list_offsets(c, name, t) for t in (-1, -2, -3, BASE)], [(0, 0, -1), (0, 0, -1), (0, -1, -1), (0, -1, -1)], "empty")
        times = [[5, 1, 9, 9], [2, 3], [7, 20, 4], [6, 6]]
        for i, deltas in enumerate(times):
            sent = batch([(None, b"x")] * len(deltas), codec=i % 5, times=[BASE + d for d in deltas], base_time=BASE + deltas[0])
            same(c.produce(name, 0, sent).error_code, 0, "produce")
        flat = [d for deltas in times for d in deltas]
        for t in range(22):
            want = next(((0, i, BASE + d) for i, d in enumerate(flat) if d >= t), (0, -1, -1))
            for version in (1, 5, 8):
                same(list_offsets(c, name, BASE + t, version), want, f"time {t}, version {version}")
        same(list_offsets(c, name, -1), (0, 11, -1), "latest")
        same(list_offsets(c, name, -2), (0, 0, -1), "earliest")
        same(list_offsets(c, name, -3, 7), (0, 7, BASE + 20), "largest time")
        same(list_offsets(c, name, -4, 8), (0, 0, -1), "earliest local")
        for t, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 8), (-2 ** 63, 8)):
            same(list_offsets(c, name, t, version), (42, -1, -1), f"timestamp {t} in version {version}")
        same(list_offsets(c, name, 0), (0, 0, BASE + 5), "the epoch")
        for start in (3, 5, 8, 10, 11):         # inside of batches, too: what is deleted is found no more
            a = c.call("DeleteRecords", 2, timeout_ms=9000, topics=[{"name": name, "partitions": [{"partition_index": 0, "offset": start}]}])
            same([(p.error_code, p.low_watermark) for p in a.topics[0].partitions], [(0, start)], f"delete to {start}")
            same(list_offsets(c, name, -2), (0, start, -1), "earliest")
            for t in range(22):
                want = next(((0, i, BASE + d) for i, d in enumerate(flat) if i >= start and d >= t), (0, -1, -1))
                same(list_offsets(c, name, BASE + t), want, f"time {t} after deleting to {start}")
        same(list_offsets(c, name, -1, partition=7)[0], 3, "no such partition")
        same(list_offsets(c, "nosuch", -1)[0], 3, "no such topic")


@test("Fetch: whole batches from the middle, the first one over any limit; out of range for one partition only")
def ranges():
    with client() as c:
        name = topic(c, "ranges", 2)
        three = batch([(None, b"a" * 1000), (None, b"b"), (None, b"c")], codec=3)
        for sent in (three, one(b"x" * 500), one(b"y" * 500)):
            c.produce(name, 0, sent)
        for offset in (0, 1, 2):
            got = kafka_wire.batches(c.fetch(name, 0, offset).records)
            same([b.base_offset for b in got], [0, 3, 4], f"from {offset}")
            same(got[0].bytes[16:], three[16:], "the batch")
        for limit in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}, {"partition_max_bytes": 0}):
            got = kafka_wire.batches(c.fetch(name, 0, 1, **limit).records)
            same([b.base_offset for b in got], [0], f"one batch with {limit}")
        got = kafka_wire.batches(c.fetch(name, 0, 0, max_bytes=len(three) + 600).records)
        same([b.base_offset for b in got], [0, 3], "what fits, in whole batches")
        parts = [{"partition": 0, "fetch_offset": 6, "partition_max_bytes": 1000}, {"partition": 1, "fetch_offset": 0},
                 {"partition": 0, "fetch_offset": 3, "partition_max_bytes": 10000}, {"partition": 1, "fetch_offset": 1},
                 {"partition": 0, "fetch_offset": -1}, {"partition": 2, "fetch_offset": 0}]
        began = time.monotonic()
        a = c.call("Fetch", 12, max_wait_ms=20000, min_bytes=1 << 20, topics=[{"topic": name, "partitions": parts}])
        got = a.responses[0].partitions
        same([p.error_code for p in got], [1, 0, 0, 1, 1, 3], "codes")
        same([b.base_offset for b in kafka_wire.batches(got[2].records)], [3, 4], "the good one")
        assert time.monotonic() - began < 5, "an error does not wait"


def waits():
    lines = n.admin("/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("pico_waiters"))


@test("one fetch over many partitions waits once, and a record in any of them ends it")
def parked():
    with client() as c, client() as p:
        names = [topic(c, f"parked{i}", 50) for i in range(10)]
        topics = [{"topic": t, "partitions": [{"partition": i, "fetch_offset": 0, "partition_max_bytes": 1000} for i in range(50)]}
                  for t in names]
        began = time.monotonic()
        a = c.call("Fetch", 12, max_wait_ms=300, min_bytes=1, topics=topics)
        assert 0.28 < time.monotonic() - began < 5, time.monotonic() - began
        same(sum(len(x.partitions) for x in a.responses), 500, "partitions")
        for t, i in ((3, 37), (9, 49)):
            c.send("Fetch", 12, max_wait_ms=20000, min_bytes=1, topics=topics)
            tap.until(lambda: waits() == 500, 20, "it is parked at 500 partitions")
            began = time.monotonic()
            same(p.produce(names[t], i, one(b"wake")).error_code, 0, "produce")
            found = [(x.topic, q.partition_index) for x in c.receive().responses for q in x.partitions if q.records]
            assert (names[t], i) in found and time.monotonic() - began < 5, found
            topics[t]["partitions"][i]["fetch_offset"] = 1


@test("requests of a connection are answered in order, and see what came before them")
def order():
    with client() as c:
        name = topic(c, "order")
        parts = lambda text: [{"name": name, "partition_data": [{"index": 0, "records": one(text)}]}]
        fetch = [{"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100000}]}]
        for i in range(20):
            c.send("Produce", 9, acks=-1, timeout_ms=9000, topic_data=parts(b"%d" % i))
            if i % 5 == 4:
                c.send("Fetch", 12, max_wait_ms=0, max_bytes=100000, topics=fetch)
                c.send("ApiVersions", 3)
        for i in range(20):
            p = c.receive().responses[0].partition_responses[0]
            same((p.error_code, p.base_offset), (0, i), "offset")
            if i % 5 == 4:
                got = kafka_wire.records(c.receive().responses[0].partitions[0].records)
                same([r.value for r in got], [b"%d" % k for k in range(i + 1)], "what came before")
                same(c.receive().error_code, 0, "ApiVersions")


@test("a batch that is wrong is refused by its own code, and the partitions beside it are stored")
def refusals():
    with client() as c:
        name = topic(c, "refusals", 2, configs=[("max.message.bytes", "2000")])
        three = [(None, b"v")] * 3
        plain = batch(three)
        rows = [(batch(three, crc=1), 2), (batch([(None, b"x" * 2000)]), 10), (batch(three, magic=0), 43), (batch(three, magic=1), 43),
                (batch(three, attributes=0x10), 48), (batch(three, codec=5, body=b"x" * 50), 76), (batch(three, codec=7, body=b"x" * 50), 76),
                (batch(three, attributes=0x20), 87), (batch(three, count=2), 87), (batch(three, count=4), 87), (batch(three, count=0), 87),
                (batch(three, last_delta=3), 87), (batch(three, last_delta=1), 87), (batch(three, length=1), 87), (batch(three, length=-1), 87),
                (plain + plain, 87), (plain[:60], 87), (b"", 87), (None, 87)]
        rows += [(batch(three, codec=codec, body=b"\x01\x02\x03" * 20), 87) for codec in (1, 2, 3, 4)]
        rows += [(batch(three, codec=codec, body=kafka_wire.pack(codec, b"\x01\x02\x03" * 20)), 87) for codec in (1, 2, 3, 4)]
        for i, (data, code) in enumerate(rows):
            parts = [{"index": 0, "records": data}, {"index": 1, "records": plain}]
            a = c.call("Produce", 9, acks=1, timeout_ms=9000, topic_data=[{"name": name, "partition_data": parts}])
            got = a.responses[0].partition_responses
            same([(p.error_code, p.base_offset) for p in got], [(code, -1), (0, 3 * i)], f"row {i}")
        same(c.fetch(name, 0, 0).high_watermark, 0, "nothing of them is there")


@test("duplicates have their first offset, five batches back and over a restart; other numbers are refused")
def duplicates():
    with client() as c:
        name = topic(c, "duplicates")
        def send(producer, sequence, epoch=0, count=2):
            p = c.produce(name, 0, batch([(None, b"x")] * count, producer=(producer, epoch, sequence)))
            return p.error_code, p.base_offset
        new = lambda: c.call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000).producer_id
        id = new()
        same([send(id, 2 * i) for i in range(7)], [(0, 2 * i) for i in range(7)], "seven batches")
        same([send(id, 2 * i) for i in range(2, 7)], [(0, 2 * i) for i in range(2, 7)], "the last five again")
        same([send(id, 0), send(id, 2), send(id, 16), send(id, 13), send(id, 12, count=3)], [(45, -1)] * 5, "others")
        n.kill("storaged")
        same([send(id, 2 * i) for i in range(2, 7)], [(0, 2 * i) for i in range(2, 7)], "after a restart")
        same(send(id, 14), (0, 14), "the next one")
        same(send(id, 3, epoch=1), (45, -1), "a new epoch begins at 0")
        same(send(id, 0, epoch=1), (0, 16), "a new epoch")
        same(send(id, 16, epoch=0), (47, -1), "the old epoch")
        other = new()
        same(send(other, 77), (0, 18), "an id without a state begins anywhere")
        same(send(other, 80), (45, -1), "and goes on from there")
        same(c.fetch(name, 0, 0).high_watermark, 20, "nothing twice")


@test("transactions: refused for good, with words, and not offered")
def transactions():
    with client() as c:
        keys = {r.api_key for r in c.call("ApiVersions", 3).api_keys}
        same(keys & {24, 25, 26, 28}, set(), "offered")
        a = c.call("FindCoordinator", 3, key="t", key_type=1)
        same((a.error_code, a.error_message, a.node_id, a.port), (53, "transactions are not supported", -1, -1), "FindCoordinator")
        a = c.call("FindCoordinator", 6, key_type=1, coordinator_keys=["t", "u"])
        same([(x.key, x.error_code, x.error_message) for x in a.coordinators],
             [(k, 53, "transactions are not supported") for k in ("t", "u")], "FindCoordinator 6")
        a = c.call("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])
        same([(x.key, x.error_code, x.node_id, x.host, x.port) for x in a.coordinators], [("g", 0, 1, "127.0.0.1", n.kafka_port)], "a group")
        a = c.call("InitProducerId", 4, transactional_id="t", transaction_timeout_ms=1000)
        same((a.error_code, a.producer_id, a.producer_epoch), (53, -1, -1), "InitProducerId")
        a = c.call("Produce", 9, transactional_id="t", acks=-1, timeout_ms=1000,
                   topic_data=[{"name": "x", "partition_data": [{"index": 0, "records": one()}]}])
        p = a.responses[0].partition_responses[0]
        same((p.error_code, p.error_message), (53, "transactions are not supported"), "Produce")
        for key in (24, 25, 26, 28):
            with client() as other:
                other.raw(struct.pack(">ihhih", 10, key, 0, 1, -1))
                same(other.is_closed(), True, f"API {key}")


@test("CreateTopics: numbers by default, assignments, only validated; each topic alone")
def creates():
    with client() as c:
        def create(version=7, validate_only=False, **row):
            a = c.call("CreateTopics", version, timeout_ms=9000, validate_only=validate_only,
                       topics=[{"num_partitions": -1, "replication_factor": -1, **row}])
            t = a.topics[0]
            return t.error_code, t.num_partitions, t.replication_factor
        assign = lambda *owners: [{"partition_index": i, "broker_ids": [o]} for i, o in enumerate(owners)]
        same(create(name="c.default"), (0, 3, 1), "--num-partitions")
        same(create(name="c.some", num_partitions=5, replication_factor=7), (0, 5, 1), "any replication factor")
        same(create(name="c.assigned", assignments=assign(1, 1)), (0, 2, 1), "owners")
        for only in (False, True):
            same(create(name="c.nobody", assignments=assign(1, 9), validate_only=only)[0], 39, "an owner that is none")
        same(create(name="c.both", num_partitions=2, assignments=assign(1, 1))[0], 42, "both")
        same(create(name="c.hole", assignments=[{"partition_index": 1, "broker_ids": [1]}])[0], 39, "a hole")
        same(create(name="c.only", validate_only=True), (0, 3, 1), "validate_only")
        same(create(name="c.default", validate_only=True)[0], 36, "validate_only sees what is there")
        same(n.http("PUT", "/c.path", Pico_Kafka_Topic="").status, 201, "a path without a Kafka name")
        same([create(name="c.path", validate_only=only)[0] for only in (True, False)], [36, 36], "and what has no Kafka name")
        same(create(name="c.config", configs=[{"name": "no.such", "value": "1"}])[0], 40, "an unknown config")
        same(create(name="c.config", configs=[{"name": "retention.ms", "value": "x"}])[0], 40, "a value that is none")
        same(create(name="c.config", configs=[{"name": "retention.ms", "value": None}])[0], 40, "no value")
        same(create(name="c.config", configs=[{"name": "retention.ms", "value": "1000"}], validate_only=True)[0], 0, "a good one")
        same(create(name="c.config", configs=[{"name": "no.such", "value": "1"}], validate_only=True)[0], 40, "validated, too")
        found = {t.name: t for t in c.call("Metadata", 12, topics=None).topics}
        same(sorted(t for t in found if t.startswith("c.")), ["c.assigned", "c.default", "c.some"], "what was made")
        a = c.call("Metadata", 4, topics=[{"name": "auto.a"}, {"name": "bad name"}, {"name": "auto.b"}], allow_auto_topic_creation=True)
        same([(t.error_code, len(t.partitions)) for t in a.topics], [(0, 3), (17, 0), (0, 3)], "made by being named")
        a = c.call("Metadata", 4, topics=[{"name": "auto.c"}], allow_auto_topic_creation=False)
        same(a.topics[0].error_code, 3, "only when asked for")


@test("configs: nothing is deleted by default; validation by a schema is refused with the reason wherever it is asked for")
def configs():
    with client() as c:
        same(c.create("rule12"), [0], "create")
        def described():
            a = c.call("DescribeConfigs", 4, resources=[{"resource_type": 2, "resource_name": "rule12", "configuration_keys": None}])
            return {k.name: (k.value, k.config_source) for k in a.results[0].configs}
        had = described()
        same([had[k] for k in ("retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas", "pico.schema.validate")],
             [("-1", 5), ("-1", 5), ("delete", 5), ("1", 5), ("false", 5)], "defaults")
        bad = {"name": "pico.schema.validate", "value": "true"}
        resource = {"resource_type": 2, "resource_name": "rule12"}
        answers = [c.call("AlterConfigs", 2, resources=[{**resource, "configs": [bad]}]).responses[0],
                   c.call("IncrementalAlterConfigs", 1, resources=[{**resource, "configs": [{**bad, "config_operation": 0}]}]).responses[0],
                   c.call("CreateTopics", 7, timeout_ms=9000, topics=[{"name": "rule12b", "num_partitions": 1, "replication_factor": 1,
                                                                       "configs": [bad]}]).topics[0]]
        for a in answers:
            same((a.error_code, "no schema registry" in (a.error_message or "")), (40, True), a)
        same(described(), had, "nothing changed")
        same(c.call("IncrementalAlterConfigs", 1, resources=[{**resource, "configs": [
            {"name": "pico.schema.validate", "value": "false", "config_operation": 0},
            {"name": "pico.schema", "value": "orders", "config_operation": 0}]}]).responses[0].error_code, 0, "a name, and false")
        same(described()["pico.schema"], ("orders", 1), "the name is kept")


@test("nothing died of it")
def alive():
    ended = [line for line in n.log().splitlines() if "ended, starting" in line and "signal=9" not in line]
    same((n.log().count("bug:"), ended), (0, []), "deaths")


@test("no sanitizer had anything to say")
def clean():
    same(n.stop(), 0, "exit code")
    same([line for line in n.log().splitlines() if "Sanitizer" in line or "runtime error" in line], [], "lines")


n.start()
run(lambda: n.stop())
