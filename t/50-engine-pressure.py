#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Back-pressure: the store is gone, takes no data objects, or is slow, while more is produced than the arena holds. Producers
wait or are told to come again, no process ends, memory stays within its bounds, and afterwards everything goes on by itself:
each record is there once, in order. PICO_OUTAGE_S: how long the store is away (8)."""
import http.client, os, subprocess, threading, time

import fake_s3, tap
from node import Client, Node
from tap import same, test

OUTAGE = float(os.environ.get("PICO_OUTAGE_S", "8"))
PRODUCERS, BODY = 128, 1 << 20          # one record of each is more than the 96M that may be unpacked
ARENA, CACHES, REST = 128 << 20, 24 << 20, 96 << 20
OPTIONS = ("--wal-cache-size=128M", "--block-cache-size=16M", "--index-cache-size=8M", "--request-timeout-ms=2000",
           "--wal-upload-threshold=16M", "--gc-delay-ms=0")


class Producer(threading.Thread):
    """A stream of its own; each record again and again until it is acknowledged."""

    def __init__(self, node, name, records):
        super().__init__(daemon=True)
        self.node, self.name, self.records = node, name, records
        self.acked, self.told, self.wrong = 0, 0, []

    def body(self, k):
        head = f"{self.name}:{k}:".encode()
        return head + b"r" * (BODY - len(head))

    def run(self):
        client = Client(self.node.port, timeout=60)
        while self.acked < self.records:
            try:
                a = client("POST", f"/p/{self.name}", self.body(self.acked), Pico_Producer_Id=f"p{self.name}",
                           Pico_Producer_Epoch=0, Pico_Producer_Seq=self.acked)
            except (OSError, http.client.HTTPException) as e:
                self.wrong.append(repr(e))
                return
            if a.status in (200, 204):
                self.acked += 1
            elif a.status in (503, 429) and a["retry-after"]:
                self.told += 1
                time.sleep(.2)
            else:
                self.wrong.append(repr(a))
                return
        client.close()


class Watch(threading.Thread):
    """The largest memory of each kind of process."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.over, self.most, self.pids = node, False, {}, node.children()

    def run(self):
        while not self.over:
            for kind, pids in self.pids.items():
                for pid in pids:
                    try:
                        self.most[kind] = max(self.most.get(kind, 0), self.node.rss(pid))
                    except (OSError, TypeError):
                        pass
            time.sleep(.1)


def start(s3, name):
    node = Node(f"--storage={s3.url(name)}", *OPTIONS, env=s3.environment, kafka=True).start()
    client = node.client()
    for i in range(PRODUCERS):
        same(client("PUT", f"/p/{i}", None, Content_Type="application/octet-stream").status, 201, "create")
    client.close()
    return node


def produce(node, records):
    producers = [Producer(node, i, records) for i in range(PRODUCERS)]
    for p in producers:
        p.start()
    return producers


def finish(node, producers, watch, seconds=120):
    end = time.monotonic() + seconds
    for p in producers:
        p.join(max(0, end - time.monotonic()))
    watch.over = True
    wrong = [w for p in producers for w in p.wrong]
    assert not wrong, wrong[:3]
    same([p.acked for p in producers], [p.records for p in producers], "all was acknowledged in the end")
    same(node.children(), watch.pids, "no process was replaced")
    tap.diag(", ".join(f"{kind}: {most >> 20} MiB" for kind, most in sorted(watch.most.items())) +
             f"; told to come again {sum(p.told for p in producers)} times")
    assert watch.most["storaged"] < ARENA + CACHES + REST, watch.most


def check(node, producers):
    client = node.client()
    for p in producers:
        seq, got = 0, b""
        while seq < p.records:
            a = client("GET", f"/p/{p.name}?seq={seq}&format=raw&bytes=4000000")
            same(a.status, 200, "read")
            got, seq = got + a.body, int(a["Pico-Next-Seq"])
        assert got == b"".join(p.body(k) for k in range(p.records)), f"stream {p.name}"
    tap.until(lambda: node.admin("/ready").status == 200, 30, "/ready green by itself")
    same(node.stop(), 0, "stop")


def kafka_waits(node):
    """librdkafka, which retries by itself, beside them."""
    return subprocess.Popen(["kcat", "-b", f"127.0.0.1:{node.kafka_port}", "-P", "-t", "waits", "-X", "enable.idempotence=true",
                             "-X", "message.timeout.ms=900000"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def outage(name, key):
    s3 = fake_s3.FakeS3()
    node = start(s3, name)
    same(node.http("PUT", "/waits", None, Content_Type="application/octet-stream").status, 201, "create")
    s3.fault(key=key, status=503, code="ServiceUnavailable", times=None)
    watch, producers, kcat = Watch(node), produce(node, 2), kafka_waits(node)
    watch.start()
    kcat.stdin.write(b"".join(b"%d\n" % i for i in range(1000)))
    kcat.stdin.close()
    tap.until(lambda: sum(p.told for p in producers) > 0, 60, "producers that are told to come again")
    time.sleep(OUTAGE)
    assert sum(p.acked for p in producers) < 2 * PRODUCERS, "the store was away and all was acknowledged"
    same(node.children(), watch.pids, "no process ended")
    same(node.http("HEAD", "/p/0").status, 200, "what needs no store is answered")
    s3.well()
    finish(node, producers, watch)
    same(kcat.wait(120), 0, "kcat")
    a = node.http("GET", "/waits?format=raw&bytes=4000000")
    same(a.body, b"".join(b"%d" % i for i in range(1000)), "what kcat produced, once and in order")
    check(node, producers)


@test("the store is gone")
def _():
    outage("gone", "wal/")


@test("the store takes no data objects, so the arena fills")
def _():
    outage("full", "data/")


@test("a slow store slows producers down and refuses nobody for good")
def _():
    s3 = fake_s3.FakeS3()
    node = start(s3, "slow")
    s3.fault(delay=.5, times=None)
    watch, producers = Watch(node), produce(node, 1)
    watch.start()
    finish(node, producers, watch)
    s3.well()
    check(node, producers)


tap.run()
