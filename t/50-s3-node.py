#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole node on S3 (t/lib/fake_s3.py): the first steps of a client, kill -9 of storaged under load while the store
fails in every way it can, a store that is away, and what must be refused at the start."""
import http.client, os, random, tempfile, threading, time

import fake_s3, tap
from node import Client, Node
from tap import same, test

s3 = fake_s3.FakeS3()
SEED = int(os.environ.get("PICO_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
rng = random.Random(SEED)


def node_on(server, *options, prefix, env=None, **parameters):
    return Node(f"--storage={server.url(prefix, **parameters)}", *options, env={**server.environment, **(env or {})})


def read_all(client, stream):
    records, seq = [], 0
    while True:
        a = client("GET", f"{stream}?seq={seq}&bytes=4000000")
        same(a.status, 200, "read")
        records += [(r["seq"], r["body"]) for r in a.json()]
        seq = int(a["Pico-Next-Seq"])
        if a["Pico-Up-To-Date"] == "true":
            return records


@test("the first steps: create, append, read; the records are in the bucket; a restart finds them; no secret leaks")
def _():
    node = node_on(s3, prefix="steps").start()
    client = node.client()
    same(client("PUT", "/orders").status, 201)
    for i in range(20):
        same(client("POST", "/orders", b"order-%d" % i)["Pico-Start-Seq"], str(i))
    stored = b"".join(s3.objects[k] for k in s3.keys("steps/wal/"))
    assert all(b"order-%d" % i in stored for i in range(20)) and "steps/cluster" in s3.keys("steps/")
    puts = s3.requests("PUT", "^steps/")
    assert puts and all(r.headers.get("if-none-match") == "*" for r in puts)
    secret = fake_s3.SECRET.encode()
    for name, pids in node.children().items():
        for pid in pids:
            for what in ("environ", "cmdline"):
                with open(f"/proc/{pid}/{what}", "rb") as f:
                    assert secret not in f.read(), (name, what)
    client.close()
    same(node.stop(), 0)
    assert secret.decode() not in node.log()
    node.start()
    same(read_all(node.client(), "/orders"), [(i, f"order-{i}") for i in range(20)])
    same(node.stop(), 0)


# The weather of a store on a bad day. A put's answer is lost after its effect as often as before it.
WEATHER = [dict(status=503, code="SlowDown", chance=.06), dict(status=500, code="InternalError", effect=True, chance=.03),
           dict(method="PUT", status=409, code="ConditionalRequestConflict", chance=.03),
           dict(cut="before", chance=.03), dict(cut="after", chance=.04), dict(method="GET", truncate=True, chance=.04),
           dict(method="GET", cut="body", chance=.03), dict(delay=.3, chance=.03),
           dict(hang=5, effect=True, chance=.01), dict(hang=5, chance=.01)]


class Producer(threading.Thread):
    """Sends seq 0, 1, 2, ... and repeats one until it is acknowledged."""

    def __init__(self, node, name, stop):
        super().__init__(daemon=True)
        self.node, self.name, self.stop = node, name, stop
        self.acked, self.wrong, self.tried = [], [], 0

    def run(self):
        client, seq = Client(self.node.port, timeout=60), 0
        while not self.stop.is_set():
            body = f"{self.name}:{seq}"
            self.tried = seq + 1
            try:
                a = client("POST", "/kill", body.encode(), Pico_Producer_Id=self.name, Pico_Producer_Epoch=0,
                           Pico_Producer_Seq=seq)
            except (OSError, http.client.HTTPException):
                time.sleep(.02)
                continue
            if a.status == 200:
                self.acked.append((body, a["Pico-Start-Seq"]))
                seq += 1
            elif a.status != 503:
                self.wrong.append(repr(a))
                return


@test("kill -9 of storaged under load in bad weather: nothing acknowledged is lost, doubled or reordered")
def _():
    tap.diag(f"PICO_KILL_SEED={SEED}")
    node = node_on(s3, prefix="kill", requestTimeout=1000, batchInterval=10).start()
    same(node.client()("PUT", "/kill").status, 201)
    stop = threading.Event()
    producers = [Producer(node, f"p{i}", stop) for i in range(6)]
    s3.random.seed(SEED)
    for fault in WEATHER:
        s3.fault(key="^kill/", times=None, **fault)
    for p in producers:
        p.start()
    for _ in range(3):
        n = sum(len(p.acked) for p in producers)
        tap.until(lambda: sum(len(p.acked) for p in producers) > n + 60, 60, "acks between kills")
        time.sleep(rng.random() * .3)
        node.kill("storaged")
    n = sum(len(p.acked) for p in producers)
    tap.until(lambda: sum(len(p.acked) for p in producers) > n + 60, 60, "acks after the last kill")
    stop.set()
    s3.well()
    for p in producers:
        p.join(60)
    same([p.wrong for p in producers], [[]] * len(producers))
    node.wait_ready()
    records = read_all(node.client(), "/kill")
    same([seq for seq, _ in records], list(range(len(records))), "offsets are dense")
    at = {}
    for seq, value in records:
        assert value not in at, f"{value} is there twice"
        at[value] = seq
    for p in producers:
        assert len(p.acked) > 10, len(p.acked)
        for body, start in p.acked:
            assert body in at and (start is None or int(start) == at[body]), (body, start, at.get(body))
        mine = [int(v.split(":")[1]) for _, v in records if v.startswith(p.name + ":")]
        same(mine, list(range(len(mine))))
        assert len(p.acked) <= len(mine) <= p.tried
    tap.diag(f"{sum(len(p.acked) for p in producers)} acked, {s3.injected}")
    assert len(s3.injected) >= 7, s3.injected
    same(node.stop(), 0)


@test("the store away: appends wait, /ready says why, everything goes on by itself")
def _():
    node = node_on(s3, prefix="away", batchInterval=5).start()
    client = node.client()
    same(client("PUT", "/a").status, 201)
    same(client("POST", "/a", b"one").status, 200)
    s3.fault(key="^away/", status=503, code="SlowDown", times=None)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(node.http("POST", "/a", b"two")), daemon=True)
    waiting.start()
    red = tap.until(lambda: (a := node.admin("/ready")).status == 503 and a, 30, "/ready is red")
    assert b"503 SlowDown" in red.body and b"s3://bucket/away/wal/" in red.body, red
    same(answers, [])
    same(client("GET", "/a").status, 200)
    s3.well()
    node.wait_ready()
    waiting.join(30)
    same(answers[0].status, 200)
    same(read_all(client, "/a"), [(0, "one"), (1, "two")])
    same(node.stop(), 0)


def refused(server, code, *says, options=(), **more):
    node = node_on(server, *options, prefix=f"refused{time.monotonic_ns()}", **more)
    node.spawn()
    same(node.process.wait(60), code, node.log())
    for words in says:
        assert words in node.log(), node.log()
    assert "ready" not in node.lines
    assert not [p for p in node.children().values()], "somebody is left"


@test("a store that ignores the condition is refused with 1; --allow-unfenced-store takes it, with a warning")
def _():
    loose = fake_s3.FakeS3()
    loose.ignore_condition = True
    refused(loose, 1, "ignores If-None-Match", "--allow-unfenced-store")
    node = node_on(loose, "--allow-unfenced-store", prefix="loose").start()
    assert "can overwrite acknowledged records" in node.log(), node.log()
    same(node.client()("PUT", "/a").status, 201)
    same(node.stop(), 0)
    refused(loose, 1, "--allow-unfenced-store goes with --slots 1 only",
            options=("--allow-unfenced-store", "--slots", "2"))
    loose.close()


@test("a store without the condition, wrong keys, no keys, no such bucket: one line, and the exit code says which")
def _():
    other = fake_s3.FakeS3()
    other.no_condition = True
    refused(other, 1, "does not know If-None-Match: use another store")
    other.no_condition = False
    short = ("--start-timeout-ms", "1500")
    refused(other, 75, "403 SignatureDoesNotMatch", options=short, env={"AWS_SECRET_ACCESS_KEY": "wrong"})
    refused(other, 1, "no credentials for S3", options=short,
            env={"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": tempfile.gettempdir()})
    other.bucket = "renamed"
    url = other.url().replace("//renamed", "//gone")
    node = Node(f"--storage={url}", *short, env=other.environment)
    node.spawn()
    same(node.process.wait(60), 75)
    assert "404 NoSuchBucket" in node.log(), node.log()
    other.close()


tap.run(s3.close)
