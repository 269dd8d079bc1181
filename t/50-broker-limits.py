#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a Kafka client may send and hold open: each bound of the node is tried at the bound and one over. Behind a refusal the
connection and its neighbours go on, unless the bound is the connection's end."""
import re, socket, time

import kafka_wire, node, tap
from kafka_wire import Client, batch
from tap import same, until

FRAME, MESSAGE, DECOMPRESSED = 4 << 20, 2 << 20, 3 << 20
n = node.Node(f"--max-request-size={FRAME}", f"--max-message-size={MESSAGE}", f"--max-decompressed-size={DECOMPRESSED}",
              "--max-connections=12", "--idle-timeout-ms=1500", "--max-inflight=4", "--max-partitions=6", "--max-groups=3",
              "--max-group-members=2", "--group-min-session-timeout-ms=2000", "--group-max-session-timeout-ms=5000", kafka=True)
TOO_LARGE, INVALID_RECORD = 10, 87


def client():
    return Client(n.kafka_port)


def log_has(text):
    until(lambda: text in n.log(), 30, text)


def of_size(size, make):
    """make(k) with the k that makes it so long."""
    k = size - len(make(size))
    while (over := len(make(size + k)) - size) != 0:
        k -= over
    return make(size + k)


def error(c, *records, **more):
    return c.produce("t", 0, batch(list(records), **more)).error_code


@tap.test("--max-request-size: a frame of it is answered; one byte more closes the connection with one line")
def frames():
    n.start()
    with client() as c:
        same(c.create("t"), [0], "create")
        make = lambda k: kafka_wire.frame("Produce", 9, 1, "t", acks=-1, timeout_ms=30000, topic_data=[
            {"name": "t", "partition_data": [{"index": 0, "records": bytes(k)}]}])
        exact = of_size(FRAME + 4, make)
        c.raw(exact)
        c.open.append(("Produce", 9, 1))
        same(c.receive().responses[0].partition_responses[0].error_code != 0, True, "zeros are no batch")
        same(error(c, (None, b"x")), 0, "and it goes on")
        c.raw(make(len(exact) - len(make(0)) + 1)[:4])
        same(c.socket.recv(1), b"", "closed at its length")
    log_has("reason=too-large")


@tap.test("--max-message-size: a stored batch of it in every codec; one byte more is MESSAGE_TOO_LARGE")
def messages():
    for codec in (0, 2, 3, 4):
        # Computing them takes longer than a connection may be idle.
        pair = [of_size(MESSAGE + more, lambda k: batch([(None, bytes(k))], codec=codec)) for more in (0, 1)]
        with client() as c:
            same([c.produce("t", 0, b).error_code for b in pair], [0, TOO_LARGE], f"codec {codec}")
            same(error(c, (None, b"x")), 0, "and the connection goes on")


@tap.test("--max-decompressed-size: records of it, small when compressed; one byte more is refused")
def decompressed():
    with client() as c:
        body = lambda k: kafka_wire.record(0, None, b"", [(b"h%d" % i, bytes(1 << 19)) for i in range(5)] + [(b"x", bytes(k))])
        for size, codes in ((DECOMPRESSED, {0}), (DECOMPRESSED + 1, {TOO_LARGE, INVALID_RECORD})):
            data = batch([(None, None)], codec=1, body=kafka_wire.pack(1, of_size(size, body)))
            code = c.produce("t", 0, data).error_code
            assert code in codes, (size, code)


@tap.test("a key of 1 MiB, a header's name of 64 KiB, 1,000 headers: one more of each is INVALID_RECORD")
def records():
    with client() as c:
        same([error(c, (b"k" * ((1 << 20) + more), b"v")) for more in (0, 1)], [0, INVALID_RECORD], "key")
        same([error(c, (None, b"v", (("n" * (65536 + more), b""),))) for more in (0, 1)], [0, INVALID_RECORD], "header's name")
        same([error(c, (None, b"v", (("n", b""),) * (1000 + more))) for more in (0, 1)], [0, INVALID_RECORD], "headers")
        same(error(c, (None, b"v")), 0, "the connection goes on")


@tap.test("a topic's name of 249 bytes, --max-partitions: one more is refused, the neighbours of a request are not")
def topics():
    with client() as c:
        same(c.create("n" * 249, "n" * 250), [0, 17], "names")
        same([c.create(f"p{k}", partitions=k) for k in (6, 7)], [[0], [37]], "partitions")


def ask_join(c, group, timeout=3000, member=""):
    c.send("JoinGroup", 5, group_id=group, session_timeout_ms=timeout, rebalance_timeout_ms=timeout, member_id=member,
           protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}])


def join(c, *args):
    ask_join(c, *args)
    return c.receive()


def counted(name):
    return sum(int(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? (\d+)$", n.admin("/metrics").body.decode(), re.M))


@tap.test("session time-outs, --max-groups and --max-group-members: one over has an error of its own")
def groups():
    with client() as c:
        for timeout, code in ((1999, 26), (2000, 79), (5000, 79), (5001, 26)):     # 79: come again with the id that is given
            same(join(c, "sessions", timeout).error_code, code, f"session of {timeout} ms")
        commit = lambda g, text="": c.call("OffsetCommit", 8, group_id=g, generation_id_or_member_epoch=-1, member_id="", topics=[
            {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": text}]}]
                                          ).topics[0].partitions[0].error_code
        same([commit("sessions", "m" * k) for k in (4096, 4097)], [0, 12], "metadata of a commit")
        same([commit(f"g{i}") for i in range(2)], [0, 0], "three groups")
        assert commit("g2") != 0, "a fourth group"
        members = [client() for _ in range(2)]
        ids = [join(m, "g0").member_id for m in members]
        for m, id_ in zip(members, ids):
            ask_join(m, "g0", 3000, id_)
        until(lambda: len(c.call("DescribeGroups", 5, groups=["g0"]).groups[0].members) == 2, 30, "two members")
        same(join(c, "g0").error_code, 81, "a third one")
        for m in members:
            m.__exit__()


@tap.test("--max-inflight: so many produce requests are under way, more wait in their socket and are all answered in order")
def inflight():
    with client() as c:
        same(c.create("order"), [0], "create")
        for i in range(64):
            c.send("Produce", 9, acks=-1, timeout_ms=30000, topic_data=[
                {"name": "order", "partition_data": [{"index": 0, "records": batch([(None, b"%d" % i)])}]}])
        got = [c.receive().responses[0].partition_responses[0] for _ in range(64)]
        same([(p.error_code, p.base_offset) for p in got], [(0, i) for i in range(64)], "answers")


@tap.test("--max-connections: the one over is closed, counted, and there is room when one goes")
def connections():
    alive = lambda c: c.call("ApiVersions", 0).error_code
    refused, open_count = lambda: counted("pico_kafka_refused_total"), lambda: counted("pico_kafka_connections")
    until(lambda: open_count() == 0, 30, "nobody is left")
    before, held = refused(), [client() for _ in range(12)]
    same([alive(c) for c in held], [0] * 12, "at the bound")
    with socket.create_connection(("127.0.0.1", n.kafka_port), timeout=30) as s:
        same(s.recv(1), b"", "one over")
    same(refused() - before, 1, "counted")
    held.pop().__exit__()
    until(lambda: open_count() == 11, 30, "one goes")
    with client() as c:
        same(alive(c), 0, "its place")
    for c in held:
        c.__exit__()


@tap.test("--idle-timeout-ms: who says nothing is closed then and not before; who waits for records is not idle")
def idle():
    with client() as quiet, client() as parked:
        same(quiet.call("ApiVersions", 0).error_code, 0, "begin")
        began = time.monotonic()
        end = parked.fetch("order", 0, 0).high_watermark
        parked.send("Fetch", 12, max_wait_ms=3000, min_bytes=1, max_bytes=1000, topics=[{"topic": "order", "partitions": [
            {"partition": 0, "fetch_offset": end, "partition_max_bytes": 1000}]}])
        same(quiet.socket.recv(1), b"", "closed")
        assert 1.4 < time.monotonic() - began < 15, time.monotonic() - began
        same(parked.receive().error_code, 0, "the parked one is answered")
        assert time.monotonic() - began > 2.9, "at its own time"


tap.run(lambda: n.stop())
