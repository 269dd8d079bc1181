#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kafka frames byte by byte: what is refused and how, and the smaller APIs."""
import struct

import kafka_wire, node
from kafka_wire import Client, Closed
from tap import run, same, test

n = node.Node(kafka=True)


def request(key, version, body=b"", flexible=False):
    head = struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head + body)) + head + body


def talk(data):
    """The body of the one answer behind its correlation id, or None when the connection was closed instead."""
    with Client(n.kafka_port) as c:
        c.raw(data)
        try:
            answer = c.receive_frame()
        except Closed as closed:
            same(str(closed), "after 0 of 4 bytes", "closed")
            return None
    same(answer[:4], struct.pack(">i", 7), "correlation id")
    return answer[4:]


def call(api, version, **values):
    with Client(n.kafka_port) as c:
        return c.call(api, version, **values)


def produce(acks, topic="x", transactional_id=None):
    parts = [{"name": topic, "partition_data": [{"index": 0, "records": None}]}]
    return {"acks": acks, "timeout_ms": 1000, "transactional_id": transactional_id, "topic_data": parts}


def produce_error(answer):
    return answer.responses[0].partition_responses[0].error_code


@test("what is no Kafka frame closes the connection at once, with one line each")
def no_frames():
    for data, why in ((b"GET / HTTP/1.1\r\n\r\n", "http"), (b"\x16\x03\x01\x02\0\1", "tls"), (b"\0\0\0\0", "empty"),
                      (b"\xff\xff\xff\xff", "negative-length"), (b"\x7f\0\0\0", "too-large")):
        before = n.log().count("reason=" + why)
        same(talk(data), None, why)
        same(n.log().count("reason=" + why), before + 1, "lines with " + why)


@test("ApiVersions: an unknown version gets a v0 body, error 35 and its own range")
def api_versions():
    same(talk(request(18, 99, flexible=True)), struct.pack(">hihhh", 35, 1, 18, 0, 4), "refusal")
    answer = talk(request(18, 0))
    rows = [struct.unpack(">hhh", answer[6 + 6 * i:][:6]) for i in range(struct.unpack(">i", answer[2:6])[0])]
    same(rows, [(0, 0, 11), (1, 4, 16), (2, 1, 8), (3, 0, 12), (8, 1, 9), (9, 1, 9), (10, 0, 6), (11, 0, 9), (12, 0, 4), (13, 0, 5),
                (14, 0, 5), (15, 0, 5), (16, 0, 5), (18, 0, 4), (19, 0, 7), (20, 0, 6), (21, 0, 2), (22, 0, 5), (23, 2, 4), (29, 0, 3),
                (32, 0, 4), (33, 0, 2), (35, 1, 4), (37, 0, 3), (42, 0, 2), (43, 0, 2), (44, 0, 1), (46, 0, 0), (47, 0, 0), (60, 0, 1),
                (61, 0, 0), (75, 0, 0)],
         "rows")


@test("an unknown API closes; a version not served is answered where that can be framed")
def versions():
    same(talk(request(77, 0)), None, "unknown API")
    same(talk(request(11, 0)), None, "an API that is not served yet")
    same(talk(request(1, 3)), None, "Fetch 3")
    same(talk(request(1, 4, b"zz")), None, "a body that is none")
    same(struct.unpack(">h", talk(request(1, 17, flexible=True))[5:7])[0], 35, "Fetch 17")
    same(produce_error(call("Produce", 2, **produce(1))), 35, "Produce 2")


@test("bytes behind a request are passed over, as brokers always did: librdkafka 2.15 has some in Metadata for all topics")
def behind():
    with Client(n.kafka_port) as c:
        same(c.create("behind"), [0], "create")
        listed = lambda a: [t.name for t in kafka_wire.decode("MetadataResponse", 12, a[1:]).topics]
        assert "behind" in listed(talk(request(3, 12, bytes(4) + b"\1\0\0", flexible=True))), "null topics in four bytes"
        assert "behind" in listed(talk(request(3, 12, b"\0\0\0\0", flexible=True))), "in one byte"
        for api, version, more in (("ApiVersions", 0, {}), ("ApiVersions", 3, {"client_software_name": "x", "client_software_version": "1"}),
                                   ("FindCoordinator", 3, {"key": "g"}), ("ListGroups", 0, {})):
            frame = kafka_wire.frame(api, version, **more)[4:] + b"\xff" * 9
            c.raw(struct.pack(">i", len(frame)) + frame)
            c.open.append((api, version, 1))
            same(c.receive().error_code, 0, f"{api} {version}")


@test("Produce: acks, unknown topics, transactions")
def produces():
    same(produce_error(call("Produce", 3, **produce(5))), 21, "acks=5")
    same(produce_error(call("Produce", 3, **produce(1))), 3, "no such topic")
    same(produce_error(call("Produce", 3, **produce(-1, transactional_id="t"))), 53, "transactional id")
    with Client(n.kafka_port) as c:
        c.send("Produce", 3, **produce(0))
        same(c.is_closed(), True, "acks=0 with an error closes")


@test("CreateTopics and DeleteTopics: each topic has an error of its own")
def topics():
    def create(*names, validate=False):
        rows = [{"name": name, "num_partitions": 2, "replication_factor": 3} for name in names]
        a = call("CreateTopics", 1, timeout_ms=5000, validate_only=validate, topics=rows)
        same([t.name for t in a.topics], list(names), "names")
        return [t.error_code for t in a.topics]

    def delete(name):
        return call("DeleteTopics", 1, topic_names=[name], timeout_ms=5000).responses[0].error_code

    same(create("only.checked", validate=True), [0], "validate_only")
    same(delete("only.checked"), 3, "was not made")
    same(create("made", "bad name", "_schemas"), [0, 17, 0], "codes")
    same(create("made", "other"), [36, 0], "again")
    same(create("made", validate=True), [36], "validate_only sees it")
    same(n.http("HEAD", "/made")["pico-partitions"], "2", "seen through HTTP")
    same((delete("made"), delete("made")), (0, 3), "deleted once")
    same(n.http("HEAD", "/made").status, 404, "gone through HTTP")


@test("FindCoordinator: groups here, transactions nowhere, others unknown")
def coordinator():
    same([call("FindCoordinator", 1, key="g", key_type=kind).error_code for kind in (0, 1, 2)], [0, 53, 42], "codes")


@test("InitProducerId: a new id each time, whatever id the client names; none for transactions")
def producer_ids():
    def init(transactional_id=None, version=0, **known):
        return call("InitProducerId", version, transactional_id=transactional_id, transaction_timeout_ms=1000, **known)
    first, second = init(), init()
    same((first.error_code, first.producer_epoch, second.error_code, second.producer_epoch), (0, 0, 0, 0), "errors, epochs")
    same(second.producer_id, first.producer_id + 1, "the next id")
    for i, (known, epoch) in enumerate(((first.producer_id, 0), (second.producer_id, 3), (first.producer_id, 32767), (-1, -1))):
        again = init(version=4, producer_id=known, producer_epoch=epoch)
        same((again.error_code, again.producer_id, again.producer_epoch), (0, second.producer_id + 1 + i, 0), "a new id")
    for known, epoch in ((-1, 0), (0, -1)):
        same(init(version=3, producer_id=known, producer_epoch=epoch).error_code, 42, "an id comes with its epoch")
    same(init("t").error_code, 53, "transactional id")


@test("what is produced is what is fetched, but for base offset and leader epoch")
def same_bytes():
    with Client(n.kafka_port) as c:
        same(c.create("bytes"), [0], "create")
        for codec in range(5):
            sent = kafka_wire.batch([(b"k", b"v" * 100, [("h", None)]), (None, b"")], codec=codec)
            p = c.produce("bytes", 0, sent)
            same((p.error_code, p.base_offset, p.log_append_time_ms), (0, 2 * codec, -1), f"codec {codec}")
            got = c.fetch("bytes", 0, 2 * codec + 1)
            same((got.error_code, got.high_watermark, got.log_start_offset), (0, 2 * codec + 2, 0), f"codec {codec}")
            same(got.records[16:], sent[16:], f"codec {codec}")
        same(c.fetch(c.topic_id("bytes"), 0, 9, version=16).records[16:], sent[16:], "by id")


@test("nothing died of it")
def alive():
    same((n.log().count("bug:"), n.log().count("ended, starting")), (0, 0), "deaths")


n.start()
run(lambda: n.stop())
