#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an answer to Produce means, byte by byte, on a store whose every PUT takes half a second: acks=1 and acks=all
come together and after the object is there, acks=0 never, a batch sent twice gets its first offset also while the
first copy is under way, and storaged's death in between neither loses nor doubles what has a producer id."""
import os, select, subprocess, time

import kafka_wire, tap
from node import Node
from tap import same, test

DELAY = 0.5
TOGETHER = 0.05         # what two answers of one moment may be apart on a busy machine
node = Node("--num-partitions=4", kafka=True)


class Client(kafka_wire.Client):
    """What it sends is {(topic, partition): batch}, what it receives {(topic, partition): (error code, base offset)}."""

    def send_batches(self, acks, batches, timeout_ms=30000):
        topics = [{"name": t, "partition_data": [{"index": p, "records": data}]} for (t, p), data in batches.items()]
        self.send("Produce", 9, acks=acks, timeout_ms=timeout_ms, topic_data=topics)
        if acks == 0:
            self.open.pop()

    def answer(self):
        return {(t.name, p.index): (p.error_code, p.base_offset) for t in self.receive().responses
                for p in t.partition_responses}

    def produce(self, acks, batches, timeout_ms=30000):
        self.send_batches(acks, batches, timeout_ms)
        return None if acks == 0 else self.answer()

    def producer_id(self):
        a = self.call("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000)
        same((a.error_code, a.producer_epoch), (0, 0), "InitProducerId")
        return a.producer_id


def connect():
    return Client(node.kafka_port)


def batch(values, producer_id=-1, sequence=-1):
    return kafka_wire.batch([(None, v) for v in values], producer=(producer_id, min(producer_id, 0), sequence))


def records(topic, partition=0):
    a = node.http("GET", f"/{topic}?partition={partition}&bytes=4000000")
    same(a.status, 200, topic)
    rows = a.json()
    same([r["seq"] for r in rows], list(range(len(rows))), "offsets")
    return [r["body"] for r in rows]


def objects_with(text):
    """Names of stored objects, temporary ones left out, that hold these bytes."""
    found = []
    for top, dirs, files in os.walk(os.path.join(node.dir, "data", "objects")):
        dirs[:] = [d for d in dirs if d != ".tmp"]
        for name in files:
            try:
                with open(os.path.join(top, name), "rb") as f:
                    if text.encode() in f.read():
                        found.append(name)
            except FileNotFoundError:
                pass
    return found


class SlowPuts:
    """Every PUT of the running storaged takes DELAY longer: strace holds its fdatasync back."""

    def __enter__(self):
        pid = node.pid("storaged")
        self.strace = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e",
                                        f"inject=fdatasync:delay_enter={int(DELAY * 1e6)}", "-p", str(pid)],
                                       stderr=subprocess.DEVNULL)
        tap.until(lambda: self.strace.poll() is not None or all(self.tracers(pid)), 20, "strace is attached")
        if self.strace.poll() is not None:
            raise tap.Skip("strace may not attach here")
        return self

    @staticmethod
    def tracers(pid):
        tasks = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status") as f:
                tasks.append(int(f.read().split("TracerPid:")[1].split()[0]))
        return tasks

    def __exit__(self, *_):
        self.strace.kill()           # asked to end it would wait for threads of a killed storaged
        self.strace.wait()


def answers(*connections):
    """[(time of arrival, answer by partition)] of one answer each, as they come."""
    got, open_sockets = {}, {c.socket: c for c in connections}
    while open_sockets:
        ready, _, _ = select.select(list(open_sockets), [], [], 30)
        assert ready, "no answer within 30 s"
        for s in ready:
            at = time.monotonic()
            got[s] = (at, open_sockets.pop(s).answer())
    return [got[c.socket] for c in connections]


@test("acks=1 and acks=all are answered together, after the PUT, when the object is there")
def together():
    apart, early = [], []
    with connect() as one, connect() as every, SlowPuts():
        for i in range(6):
            pair = [(one, 1, f"acks one {i}."), (every, -1, f"acks all {i}.")]
            began = time.monotonic()
            for c, acks, value in pair if i % 2 else pair[::-1]:
                c.send_batches(acks, {("a", i % 4): batch([value.encode()])})
            ready, _, _ = select.select([one.socket, every.socket], [], [], DELAY / 2)
            same((ready, objects_with(f"acks one {i}."), objects_with(f"acks all {i}.")), ([], [], []), "too early")
            (at_one, answer_one), (at_every, answer_every) = answers(one, every)
            for _, _, value in pair:
                same(len(objects_with(value)), 1, f"the object with {value} at its answer")
            same(sorted([answer_one["a", i % 4][0], answer_every["a", i % 4][0]]), [0, 0], "errors")
            early.append(min(at_one, at_every) - began)
            apart.append(abs(at_one - at_every))
    tap.diag(f"the first answer after {min(early):.3f} s at least; apart {', '.join(f'{1000 * a:.1f}' for a in apart)} ms")
    assert min(early) >= DELAY, early
    assert max(apart) < TOGETHER, apart


@test("acks=0 has no answer, and its records are there in order")
def silent():
    with connect() as c:
        for i in range(100):
            same(c.produce(0, {("zero", i % 4): batch([b"%d" % i])}), None, "answer")
        # The next answer on the connection is the next request's: none came before it.
        c.producer_id()
    tap.until(lambda: sum(len(records("zero", p)) for p in range(4)) == 100, 20, "100 records")
    for p in range(4):
        same(records("zero", p), [str(i) for i in range(p, 100, 4)], f"partition {p}")


@test("acks=0 with an error closes the connection; what was good of the request is there")
def silent_errors():
    broken = bytearray(batch([b"broken"]))
    broken[-1] ^= 1
    for what, batches in (("unknown topic", {("no-such", 0): batch([b"x"])}),
                          ("unknown partition", {("zero", 4): batch([b"x"])}),
                          ("bad CRC", {("zero", 0): bytes(broken)}),
                          ("one good, one bad", {("zero", 0): batch([b"good"]), ("no-such", 0): batch([b"x"])})):
        with connect() as c:
            c.produce(0, batches)
            same(c.is_closed(), True, what)
    tap.until(lambda: records("zero", 0)[-1] == "good", 20, "the good one")
    same(len(records("zero", 0)), 26, "nothing else")


@test("a batch sent again while its first copy is under way: the first offset, and not before the first copy is stored")
def in_flight():
    with connect() as a, connect() as b, SlowPuts():
        producer = a.producer_id()
        same(a.produce(-1, {("f", 0): batch([b"before"])})["f", 0], (0, 0), "a record in front")
        data = {("f", 0): batch([b"one", b"two"], producer, 0)}
        began = time.monotonic()
        a.send_batches(-1, data)
        b.send_batches(1, data)
        again = select.select([a.socket, b.socket], [], [], DELAY / 2)[0]
        same(again, [], "answers before the PUT")
        (_, first), (at, second) = answers(a, b)
        same((first, second), ({("f", 0): (0, 1)},) * 2, "both answers")
        assert at - began >= DELAY, at - began
    same(records("f"), ["before", "one", "two"], "records")


@test("a batch not stored within the request's own limit is REQUEST_TIMED_OUT; sent again it gets its first offset")
def timed_out():
    with connect() as c:
        producer = c.producer_id()
        with SlowPuts():
            began = time.monotonic()
            data = {("t", 0): batch([b"late"], producer, 0)}
            same(c.produce(-1, data, timeout_ms=100)["t", 0], (7, -1), "in 100 ms")
            assert time.monotonic() - began < DELAY, time.monotonic() - began
            same(c.produce(-1, data)["t", 0], (0, 0), "again, the first is under way")
        same(c.produce(-1, data)["t", 0], (0, 0), "again, the first is stored")
        same(c.produce(-1, {("t", 0): batch([b"next"], producer, 1)})["t", 0], (0, 1), "the next")
    same(records("t"), ["late", "next"], "records")


def sequence(c, producer, first, n=2):
    """Sends one batch that begins at that sequence; its answer."""
    return c.produce(-1, {("d", 1): batch([b"%d" % (first + i) for i in range(n)], producer, first)})["d", 1]


@test("the last five batches are known again with their offsets, older ones are out of order; also after storaged's death")
def five():
    with connect() as c:
        producer = c.producer_id()
        first = [sequence(c, producer, 2 * i) for i in range(7)]
        same(first, [(0, 2 * i) for i in range(7)], "seven batches")
        want = [(45, -1)] * 2 + first[2:]
        same([sequence(c, producer, 2 * i) for i in range(7)], want, "again")
        same([sequence(c, producer, 2 * i) for i in (6, 2, 4)], [want[6], want[2], want[4]], "in any order")
        same(sequence(c, producer, 12, 1), (45, -1), "another length is no duplicate")
        same(sequence(c, producer, 15), (45, -1), "a gap")
        old = node.kill("storaged")
        tap.until(lambda: node.children().get("storaged", [old])[0] != old, 30, "a new storaged")
        same([sequence(c, producer, 2 * i) for i in range(7)], want, "after storaged's death")
        same(sequence(c, producer, 14), (0, 14), "the next one")
    node.kill_all()
    node.start()
    with connect() as c:
        same([sequence(c, producer, 2 * i) for i in range(8)], [(45, -1)] * 3 + first[3:] + [(0, 14)], "after all died")
    same(records("d", 1), [str(i) for i in range(16)], "records")


@test("storaged dies with a batch under way: with a producer id it is stored once and answered, without one it may be")
def unknown():
    with connect() as known, connect() as again, connect() as other:
        producer, codes = known.producer_id(), []
        for i in range(3):
            with SlowPuts():
                for c in (known, again):
                    c.send_batches(1, {("u", 0): batch([b"known %d" % i], producer, i)})
                other.send_batches(-1, {("u", 0): batch([b"other %d" % i])})
                same(select.select([known.socket, again.socket, other.socket], [], [], 0.05 + 0.1 * i)[0], [], "answers so far")
                node.kill("storaged")
            (_, a), (_, same_again), (_, b) = answers(known, again, other)
            rows = records("u")
            same((a["u", 0][0], rows[a["u", 0][1]]), (0, f"known {i}"), "with a producer id")
            later = known.produce(1, {("u", 0): batch([b"known %d" % i], producer, i)})
            same((same_again, later), (a, a), "the same batch sent at the same time and later")
            codes.append(b["u", 0][0])
            assert codes[-1] in (0, 7), b
            assert rows.count(f"other {i}") <= 1, rows
            assert codes[-1] == 7 or rows[b["u", 0][1]] == f"other {i}", (b, rows)
    tap.diag(f"error codes without a producer id: {codes}")
    same([r for r in records("u") if r[0] == "k"], [f"known {i}" for i in range(3)], "records")


@test("nothing died but what was killed")
def deaths():
    ended = [x for x in node.log().splitlines() if "bug:" in x or "ended, starting" in x and "signal=9" not in x]
    same((ended, node.stop()), ([], 0), "deaths, exit code")


node.start()
for name in ("a", "zero", "f", "t", "d", "u"):
    same(node.http("PUT", "/" + name, Pico_Partitions=4).status, 201, name)
tap.run()
