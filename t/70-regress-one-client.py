#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One client could have a worker for itself. Thousands of batches of one Produce were decompressed in one turn of its loop,
and one partition named thousands of times in a ListOffsets was looked into as often, also when the client had gone. And who
sent a byte now and then kept the memory that others waited for, for ever. Over HTTP, readers of as many batches had them all
decompressed in one turn, again for each piece of their answers."""
import re, socket, struct, threading, time

import kafka_wire, node, tap
from tap import same, test

BOMB = 64 << 20                                 # bytes in a batch of a few KiB
MIB = 1 << 20
BODY_TIMEOUT_MS = 1500
n = node.Node("--max-request-size", "1M", "--max-message-size", "900K", "--body-timeout-ms", str(BODY_TIMEOUT_MS), kafka=True)


def bomb():
    """One good record of many zeros. An RLE block of zstd takes 4 bytes for 128 KiB."""
    record = kafka_wire.record(0, None, bytes(BOMB))
    head = record[:record.index(bytes(16))]
    zeros, size = len(record) - len(head), 128 << 10
    blocks = struct.pack("<I", len(head) << 3)[:3] + head
    while zeros > 0:
        now = min(zeros, size)
        zeros -= now
        blocks += struct.pack("<I", now << 3 | 1 << 1 | (zeros == 0))[:3] + b"\0"
    body = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(record)) + blocks
    return kafka_wire.batch([(None, b"")], codec=4, body=body)


def produce(c, batches, timeout_ms=30000):
    parts = [{"index": 0, "records": b} for b in batches]
    c.send("Produce", 9, acks=-1, timeout_ms=timeout_ms, topic_data=[{"name": "t", "partition_data": parts}])


class Other(threading.Thread):
    """Another client: how long it waited for each answer, until it is told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.took, self.stop = [], threading.Event()
        self.start()

    def run(self):
        with kafka_wire.Client(n.kafka_port, timeout=120) as c:
            while not self.stop.is_set():
                began = time.monotonic()
                c.call("Metadata", 12, topics=[])
                self.took.append(time.monotonic() - began)

    def longest(self):
        self.stop.set()
        self.join()
        return max(self.took)


def one_bomb_takes():
    with kafka_wire.Client(n.kafka_port) as c:
        same(c.create("t"), [0], "create")
        began = time.monotonic()
        same(c.produce("t", 0, bomb()).error_code, 0, "one that is stored")
        return time.monotonic() - began


@test("a Produce of many batches that unpack to much is checked in turns: others are answered meanwhile")
def _():
    one, many = one_bomb_takes(), 40
    other = Other()
    with kafka_wire.Client(n.kafka_port, timeout=120) as c:
        began = time.monotonic()
        produce(c, [bomb()] * many)
        parts = c.receive().responses[0].partition_responses
        took = time.monotonic() - began
        longest = other.longest()
        stored = [p.base_offset for p in parts if p.error_code == 0]
        same(stored, list(range(1, 1 + len(stored))), "in their order")
        same({p.error_code for p in parts[len(stored):]} - {56}, set(), "those that there was no time for")
        same(c.fetch("t", 0, 0).high_watermark, 1 + len(stored), "high watermark")
    tap.diag(f"one {one:.2f} s, all {took:.2f} s, another client at most {longest:.2f} s, answers {len(other.took)}")
    assert longest < took / 5, f"another client waited {longest} s of {took} s"


@test("what there is no time to check is not written, and is said to be worth a second try")
def _():
    with kafka_wire.Client(n.kafka_port, timeout=120) as c:
        before = c.fetch("t", 0, 0).high_watermark
        produce(c, [bomb()] * 60, timeout_ms=50)
        codes = [p.error_code for p in c.receive().responses[0].partition_responses]
        same(codes[-1], 56, "the last one")
        same(sorted(set(codes)), sorted(set(codes) & {0, 7, 56}), "codes")
        tap.until(lambda: c.fetch("t", 0, 0).high_watermark <= before + len(codes) - codes.count(56), 10, "nothing of those")
        same(c.produce("t", 0, kafka_wire.batch([(None, b"x")])).error_code, 0, "the next one")


@test("ListOffsets: a partition that is named twice is refused, as often as it is named")
def _():
    with kafka_wire.Client(n.kafka_port, timeout=60) as c:
        ask = lambda n_times, other=(): c.call("ListOffsets", 7, topics=[{"name": "t", "partitions": [
            *({"partition_index": 0, "timestamp": 1} for _ in range(n_times)), *other]}]).topics[0].partitions
        same({p.error_code for p in ask(1000)}, {42}, "1,000 times")
        same([(p.error_code, p.offset) for p in ask(1)], [(0, 0)], "once")
        same([p.error_code for p in ask(2, [{"partition_index": 9, "timestamp": 1}])], [42, 42, 3], "twice, and another")


def trickle(sockets, done):
    """A byte on each now and then; those that were cut are taken from the list."""
    while not done.is_set():
        for s in list(sockets):
            try:
                s.sendall(b"\0")
            except OSError:
                sockets.remove(s)
        done.wait(0.3)


def begin(port, data):
    s = socket.create_connection(("127.0.0.1", port), 10)
    s.sendall(data)
    return s


@test("frames that trickle in give their memory back when another client waits for it, and not before")
def _():
    head = struct.pack(">ihhih", MIB - 4, 0, 9, 1, -1)
    sockets, done = [begin(n.kafka_port, head) for _ in range(6)], threading.Event()
    held = lambda: sum(map(int, re.findall(rb"^pico_kafka_buffered_bytes{.*} (\d+)$", n.admin("/metrics").body, re.M)))
    thread = threading.Thread(target=trickle, args=(sockets, done), daemon=True)
    tap.until(lambda: held() > 5 * MIB, 10, "they hold memory")
    began = time.monotonic()
    thread.start()
    tap.until(lambda: time.monotonic() > began + 2 * BODY_TIMEOUT_MS / 1000, 30, "longer than a pause may be")
    same(len(sockets), 6, "those that are there while nobody waits")
    with kafka_wire.Client(n.kafka_port, timeout=60) as c:
        same(c.produce("t", 0, kafka_wire.batch([(None, bytes(500000))])).error_code, 0, "a large one")
    done.set()
    thread.join()


@test("long answers of batches that unpack to much are encoded in turns: another client of HTTP is answered meanwhile")
def _():
    readers = 16
    with kafka_wire.Client(n.kafka_port, timeout=60) as c:
        same(c.create("u"), [0], "create")
        for i in range(readers):
            same(c.produce("u", 0, bomb()).error_code, 0, f"batch {i}")
    ask = n.client(60)
    same(ask("PUT", "/small").status, 201, "create")

    def longest(seconds):
        end, most = time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            began = time.monotonic()
            same(ask("GET", "/small").status, 200, "another client")
            most = max(most, time.monotonic() - began)
        return most

    began = time.monotonic()
    with begin(n.port, b"GET /u?seq=0&count=1&format=raw HTTP/1.1\r\nHost: x\r\n\r\n") as s:
        s.settimeout(60)
        same(s.recv(12), b"HTTP/1.1 200", "one reader")
    one = time.monotonic() - began
    sockets = [begin(n.port, f"GET /u?seq={i}&count=1&format=raw HTTP/1.1\r\nHost: x\r\n\r\n".encode()) for i in range(readers)]
    most = longest(3)
    for s in sockets:
        s.close()
    tap.diag(f"one {one:.2f} s, another client at most {most:.2f} s beside {readers}")
    assert most < readers / 4 * one, f"another client waited {most} s, one answer begins after {one} s"


n.start()
tap.run(lambda: n.stop())
