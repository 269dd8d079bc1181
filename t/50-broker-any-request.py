#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests made up from the tables: every API and version that is served, every field with values that make sense, lie at
a bound or are nonsense. Each that is well-formed is answered in its own form; with bytes changed it is answered or its
connection closed; no process dies of any, and what was acknowledged stands where the answer said.

PICO_SEED replays, PICO_ROUNDS (1000) makes it longer."""
import os, random

import kafka_wire, node, tap
from kafka_wire import Client, Closed, Reader
from tap import diag, run, same, test

SEED, ROUNDS = int(os.environ.get("PICO_SEED", "7")), int(os.environ.get("PICO_ROUNDS", "1000"))
APIS = ["Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator", "ApiVersions", "CreateTopics", "DeleteTopics",
        "InitProducerId", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs", "CreatePartitions", "DeleteRecords",
        "OffsetForLeaderEpoch", "DescribeCluster", "DescribeTopicPartitions", "ElectLeaders", "ListPartitionReassignments",
        "DescribeAcls"]
NOT_OF_KEPT = ["DeleteTopics", "DeleteRecords", "AlterConfigs", "IncrementalAlterConfigs"]
KEPT, PARTITIONS, BASE = ["kept0", "kept1"], 3, 1700000000000
NAMES = 3 * KEPT + ["t0", "t1", "a.b", "_schemas", "bad name", "", "x" * 249, "x" * 250, "\u00e4"]
CHOICES = {
    "acks": [-1, -1, -1, 1, 1, 1, 0, 2], "timeout_ms": [0, 1, 9000, 9000, -1], "max_wait_ms": [0, 10, 50, -1], "session_id": [0, 0, 0, 5],
    "session_epoch": [0, -1, -1, 1, -2], "fetch_offset": [0, 1, 2, 10, 50, -1, 1 << 62], "index": [0, 1, 2, 0, 1, 2, 3, -1, (1 << 31) - 1],
    "timestamp": [-1, -2, -3, -4, -5, 0, BASE, BASE + 7, 1 << 62], "num_partitions": [-1, 1, 3, 0, 1024, 1025, -5],
    "resource_type": [2, 2, 2, 4, 0, 99], "config_operation": [0, 0, 1, 2, 3, 9], "count": [4, 5, 0, -1, 1025],
    "offset": [0, 1, 5, -1, -2, 1 << 62], "endpoint_type": [1, 1, 2, 0], "election_type": [0, 1, 2], "leader_epoch": [0, 0, 1, -1],
    "current_leader_epoch": [-1, -1, 0, 1, -7], "transactional_id": [None] * 9 + ["t", ""],
}
CHOICES["partition"] = CHOICES["partition_index"] = CHOICES["index"]
rng = random.Random(SEED)
n = node.Node("--num-partitions", str(PARTITIONS), "--max-partitions", "1024", kafka=True)
ids = [bytes(16), b"\1" * 16]
acked = {}              # (topic, partition, offset): batch
answered, errors = dict.fromkeys(APIS, 0), set()


def records():
    if rng.random() < 0.15:
        return rng.choice([None, b"", rng.randbytes(70)])
    times = [BASE + rng.randrange(20) for _ in range(rng.randrange(1, 20))]
    items = [(rng.choice([None, b"k"]), rng.randbytes(rng.randrange(60))) for _ in times]
    producer = (rng.randrange(4), rng.randrange(2), rng.randrange(20)) if rng.random() < 0.3 else (-1, -1, -1)
    data = bytearray(kafka_wire.batch(items, codec=rng.randrange(5), times=times, producer=producer))
    return changed(data) if rng.random() < 0.15 else bytes(data)


def changed(data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def number(kind):
    bits = int(kind.lstrip("uint"))
    low, high = (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return max(low, rng.choice([0, 1, 2, 100, -1, low, high, rng.randrange(low, high)]))


def one(field, version, of_config):
    if field.of:
        return struct_of(field.of, version)
    if field.name in CHOICES:
        return rng.choice(CHOICES[field.name])
    if field.kind in ("string", "string16"):
        return rng.choice(NAMES if field.name in ("name", "topic", "topic_names", "topic_name", "resource_name") and
                          not of_config else ["", "1", "retention.ms", "cleanup.policy", "100", "delete", "x" * 300])
    if field.kind == "uuid":
        return rng.choice(ids)
    return {"records": records, "bool": lambda: rng.random() < 0.3}.get(field.kind, lambda: number(field.kind))()


def value(field, version, of_config):
    if field.nullable is not None and version >= field.nullable and rng.random() < 0.1:
        return None
    n = rng.choice([0, 1, 1, 2, 5]) if field.is_array else 1
    found = [one(field, version, of_config) for _ in range(n)]
    return found if field.is_array else found[0]


def struct_of(of, version):
    return {f.name: value(f, version, of.symbol.endswith("_config")) for f in of.fields if f.low <= version <= f.high}


def question():
    api = rng.choices(APIS, [8, 2, 2] + [1] * (len(APIS) - 3))[0]
    _, low, high = kafka_wire.served()[api]
    version = rng.randint(low, high)
    values = struct_of(kafka_wire.tables()[0][api + "Request"].top, version)
    if api in NOT_OF_KEPT and any(str(x) in str(values) for x in KEPT + ids[2:4]):
        return question()
    return api, version, values


def note_acked(request, answer):
    for t, ta in zip(request["topic_data"], answer.responses):
        for p, pa in zip(t["partition_data"], ta.partition_responses):
            same((ta.name, pa.index), (t["name"], p["index"]), "in the order of the request")
            errors.add(pa.error_code)
            if pa.error_code == 0 and t["name"] in KEPT and kafka_wire.batches(p["records"])[0].producer_id < 0:
                before = acked.setdefault((t["name"], p["index"], pa.base_offset), p["records"])
                assert before is p["records"], f"a second batch at {pa.base_offset}"


@test(f"each well-formed request is answered in its own form; seed {SEED}, {ROUNDS} requests")
def well_formed():
    with Client(n.kafka_port) as c:
        same(c.create(*KEPT, "t0", "t1", partitions=PARTITIONS), [0] * 4, "create")
        ids.extend(c.topic_id(name) for name in KEPT + ["t0", "t1"])
    c = Client(n.kafka_port)
    for i in range(ROUNDS):
        api, version, values = question()
        if api == "Produce" and values["acks"] == 0:
            continue    # may close without an answer: what follows is on a connection of its own
        try:
            answer = c.call(api, version, **values)
        except Closed as e:
            raise AssertionError(f"round {i}: {api} {version} {values}: {e}")
        answered[api] += 1
        if api == "Produce":
            note_acked(values, answer)
    diag(f"answers {answered}, codes of Produce {sorted(errors)}, {len(acked)} batches acknowledged")
    assert min(answered.values()) > ROUNDS / 100, answered
    assert {0, 2, 3, 45, 53, 87} <= errors and len(acked) > ROUNDS / 50, errors


@test("with bytes changed, cut or without an answer: it is answered or closed, and others are served")
def changed_bytes():
    closed = 0
    with Client(n.kafka_port) as good:
        for i in range(ROUNDS):
            api, version, values = question()
            data = kafka_wire.frame(api, version, **values)
            data = data[:4] + changed(data[4:])
            with Client(n.kafka_port) as c:
                c.raw(data[:rng.randrange(len(data))] if i % 10 == 0 else data)
                if i % 10:
                    c.raw(kafka_wire.frame("ApiVersions", 0, 5))    # what is behind a length that grew
                if i % 4 == 0:
                    continue
                c.socket.settimeout(0.05 if i % 10 == 0 else 30)
                try:
                    Reader(c.receive_frame()).plain(">i")
                except (Closed, ConnectionError, TimeoutError):
                    closed += 1
            if i % 50 == 0:
                same(good.call("ApiVersions", 3).error_code, 0, "another client")
    diag(f"{closed} were closed")
    assert 0 < closed < ROUNDS, closed


@test("what was acknowledged is there, byte for byte")
def kept():
    with Client(n.kafka_port) as c:
        for (topic, partition, offset), sent in acked.items():
            p = c.fetch(topic, partition, offset)
            same(p.error_code, 0, f"{topic} {partition} {offset}")
            first = kafka_wire.batches(p.records)[0]
            same((first.base_offset, first.bytes[16:]), (offset, sent[16:]), f"{topic} {partition}")


@test("nothing died of it, and no sanitizer had anything to say")
def alive():
    same(n.stop(), 0, "exit code")
    bad = [line for line in n.log().splitlines() if "bug:" in line or "ended, starting" in line or "Sanitizer" in line or
           "runtime error" in line]
    same(bad, [], "lines")


n.start()
run(lambda: n.stop())
