#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kafka frames byte by byte: what is refused and how, and the smaller APIs."""
import socket, struct

import node
from tap import run, same, test

n = node.Node(kafka=True)


def request(key, version, body=b"", flexible=False):
    head = struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head + body)) + head + body


def talk(data):
    """The body of the one answer behind its correlation id, or None when the connection was closed instead."""
    with socket.create_connection(("127.0.0.1", n.kafka_port), 10) as s:
        s.sendall(data)
        got = b""
        while len(got) < 4 or len(got) < 4 + struct.unpack(">i", got[:4])[0]:
            piece = s.recv(65536)
            if not piece:
                assert got == b"", got
                return None
            got += piece
    same((len(got), got[4:8]), (4 + struct.unpack(">i", got[:4])[0], struct.pack(">i", 7)), "length, correlation id")
    return got[8:]


def string(s):
    return struct.pack(">h", len(s)) + s


def produce(acks, topic=b"x", transactional_id=None):
    t = struct.pack(">h", -1) if transactional_id is None else string(transactional_id)
    return t + struct.pack(">hii", acks, 1000, 1) + string(topic) + struct.pack(">iii", 1, 0, -1)


def produce_error(answer):
    return struct.unpack(">h", answer[4 + 3 + 4 + 4:][:2])[0]


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
    same(rows, [(0, 0, 11), (1, 4, 16), (2, 1, 8), (3, 0, 12), (10, 0, 6), (18, 0, 4), (19, 0, 7), (20, 0, 6), (22, 0, 5)], "rows")


@test("an unknown API closes; a version not served is answered where that can be framed")
def versions():
    same(talk(request(77, 0)), None, "unknown API")
    same(talk(request(11, 0)), None, "an API that is not served yet")
    same(talk(request(1, 3)), None, "Fetch 3")
    same(talk(request(1, 4, b"zz")), None, "a body that is none")
    same(struct.unpack(">h", talk(request(1, 17, flexible=True))[5:7])[0], 35, "Fetch 17")
    same(produce_error(talk(request(0, 2, produce(1)[2:]))), 35, "Produce 2")


@test("Produce: acks, unknown topics, transactions")
def produces():
    same(produce_error(talk(request(0, 3, produce(5)))), 21, "acks=5")
    same(produce_error(talk(request(0, 3, produce(1)))), 3, "no such topic")
    same(produce_error(talk(request(0, 3, produce(-1, transactional_id=b"t")))), 53, "transactional id")
    same(talk(request(0, 3, produce(0))), None, "acks=0 with an error closes")


@test("CreateTopics and DeleteTopics: each topic has an error of its own")
def topics():
    def create(*names, validate=False):
        body = struct.pack(">i", len(names))
        for name in names:
            body += string(name) + struct.pack(">ihii", 2, 3, 0, 0)
        answer = talk(request(19, 1, body + struct.pack(">i?", 5000, validate)))
        at, codes = 4, []
        for name in names:
            at += 2 + len(name)
            code, text = struct.unpack(">hh", answer[at:at + 4])
            codes.append(code)
            at += 4 + max(text, 0)
        same(at, len(answer), "nothing behind")
        return codes

    def delete(name):
        return struct.unpack(">h", talk(request(20, 1, struct.pack(">i", 1) + string(name) + struct.pack(">i", 5000)))[-2:])[0]

    same(create(b"only.checked", validate=True), [0], "validate_only")
    same(delete(b"only.checked"), 3, "was not made")
    same(create(b"made", b"bad name", b"_schemas"), [0, 17, 0], "codes")
    same(create(b"made", b"other"), [36, 0], "again")
    same(create(b"made", validate=True), [36], "validate_only sees it")
    same(n.http("HEAD", "/made")["pico-partitions"], "2", "seen through HTTP")
    same((delete(b"made"), delete(b"made")), (0, 3), "deleted once")
    same(n.http("HEAD", "/made").status, 404, "gone through HTTP")


@test("FindCoordinator: groups here, transactions nowhere, others unknown")
def coordinator():
    find = lambda kind: struct.unpack(">h", talk(request(10, 1, string(b"g") + bytes([kind])))[4:6])[0]
    same([find(0), find(1), find(2)], [0, 53, 42], "codes")


@test("InitProducerId: a new id each time, a known one with its next epoch, none for transactions")
def producer_ids():
    def init(transactional_id=b"\xff\xff", identity=b""):
        answer = talk(request(22, 0, transactional_id + struct.pack(">i", 1000)))
        return struct.unpack(">hqh", answer[4:16])
    first, second = init(), init()
    same((first[0], first[2], second[0], second[2]), (0, 0, 0, 0), "errors, epochs")
    same(second[1], first[1] + 1, "the next id")
    same(init(string(b"t"))[0], 53, "transactional id")


@test("nothing died of it")
def alive():
    same((n.log().count("bug:"), n.log().count("ended, starting")), (0, 0), "deaths")


n.start()
run(lambda: n.stop())
