#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of storaged, worker-http and the supervisor, 25 times at random moments, under 8 HTTP producers with ids
and 8 plain curl loops without. Nothing acknowledged is lost or doubled, a record that was not acknowledged is there at
most once, offsets are dense, no answer contradicts a later read. PICO_KILL_SEED replays the order of kills."""
import http.client, os, random, subprocess, threading, time

import tap
from node import Client, Node

SEED = int(os.environ.get("PICO_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
KILLS = int(os.environ.get("PICO_KILLS", "25"))
rng = random.Random(SEED)
# Packs and deletes all the time, so that kills fall into those, too.
node = Node("--wal-upload-threshold=16K", "--wal-upload-interval-ms=300", "--gc-delay-ms=300")
stop = threading.Event()
outage = threading.Event()  # the supervisor is down: no client expects an answer
STREAM = "/kill"


class Producer(threading.Thread):
    """Sends seq 0, 1, 2, ... and repeats one until it is acknowledged. Keeps its connection."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name, self.acked, self.drops, self.wrong = name, [], 0, []

    def run(self):
        client, seq = Client(node.port, timeout=60), 0
        while not stop.is_set():
            body = f"{self.name}:{seq}".encode()
            try:
                a = client("POST", STREAM, body, Pico_Producer_Id=self.name, Pico_Producer_Epoch=0, Pico_Producer_Seq=seq)
            except (OSError, http.client.HTTPException):
                self.drops += 1
                time.sleep(0.05)
                continue
            if a.status == 200:
                start = a["Pico-Start-Seq"]
                self.acked.append((body, int(start) if start is not None else None))
                seq += 1
            elif a.status == 503:
                time.sleep(0.02)
            else:
                self.wrong.append(repr(a))
                return


class Curl(threading.Thread):
    """Each record is sent once by a curl of its own, whatever becomes of it."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name, self.acked, self.unknown, self.refused, self.wrong = name, {}, set(), set(), []

    def run(self):
        n = 0
        while not stop.is_set():
            body = f"{self.name}:{n}"
            n += 1
            r = subprocess.run(["curl", "-sS", "--max-time", "60", "-o", "-", "-D", "-", "--data-binary", body,
                                node.url + STREAM], capture_output=True, text=True)
            head = r.stdout
            status = int(head.split()[1]) if head.startswith("HTTP/") and r.returncode == 0 else 0
            if status == 200:
                start = [l.split(":")[1] for l in head.splitlines() if l.lower().startswith("pico-start-seq:")]
                self.acked[body] = int(start[0])
            elif status == 503 and '"unavailable"' in head:
                self.refused.add(body)
            elif status in (0, 503):
                self.unknown.add(body)
                if outage.is_set():
                    time.sleep(0.1)
            else:
                self.wrong.append(head)
                return


def read_all():
    records, seq = [], 0
    client = node.client()
    while True:
        a = client("GET", f"{STREAM}?seq={seq}&bytes=4000000")
        tap.same(a.status, 200, "read")
        page = a.json()
        records += [(r["seq"], r["body"]) for r in page]
        seq = int(a["Pico-Next-Seq"])
        if a["Pico-Up-To-Date"] == "true":
            return records


class Watcher(threading.Thread):
    """The end never runs backwards, whatever dies; what was read once is read again the same."""

    def __init__(self):
        super().__init__(daemon=True)
        self.next, self.wrong = 0, []

    def run(self):
        client = Client(node.port, timeout=60)
        while not stop.is_set():
            try:
                a = client("HEAD", STREAM)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            if a.status == 200:
                now = int(a["Pico-Next-Seq"])
                if now < self.next:
                    self.wrong.append(f"end went from {self.next} to {now}")
                self.next = max(self.next, now)
            elif a.status != 503:
                self.wrong.append(repr(a))
            time.sleep(0.01)


def seconds_until(condition):
    began = time.monotonic()
    tap.until(condition, 60, "it is back")
    return time.monotonic() - began


def progress():
    return sum(len(p.acked) for p in producers)


producers, curls, watcher = [], [], None
times = {"storaged": [], "worker-http": [], "supervisor": []}
drops_by_storaged = 0


@tap.test(f"{KILLS} kills under load (seed {SEED})")
def _():
    global producers, curls, watcher, drops_by_storaged
    node.start()
    tap.same(node.http("PUT", STREAM).status, 201, "create")
    producers = [Producer(f"p{i}") for i in range(8)]
    curls = [Curl(f"c{i}") for i in range(8)]
    watcher = Watcher()
    for t in [*producers, *curls, watcher]:
        t.start()
    roles = (["storaged"] * 10 + ["worker-http"] * 9 + ["supervisor"] * 6)[:KILLS]
    rng.shuffle(roles)
    for role in roles:
        before = progress()
        tap.until(lambda: progress() > before + 20 or any(p.wrong for p in producers), 60, "producers make progress")
        time.sleep(rng.uniform(0, 0.3))
        drops = sum(p.drops for p in producers)
        began = time.monotonic()
        if role == "supervisor":
            outage.set()
            node.kill("supervisor")
            node.process.wait()
            node.spawn()
            tap.until(lambda: "ready" in node.lines or node.process.poll() is not None, 60, "ready again")
            assert node.process.poll() is None, node.log()[-1500:]
            outage.clear()
        else:
            old = node.kill(role)
            tap.until(lambda: node.children().get(role, [old])[0] != old, 60, f"a new {role}")
        before = progress()
        tap.until(lambda: progress() > before or any(p.wrong for p in producers), 60, f"appends after {role} died")
        times[role].append(time.monotonic() - began)
        if role == "storaged":
            drops_by_storaged += sum(p.drops for p in producers) - drops
    stop.set()
    for t in [*producers, *curls, watcher]:
        t.join(120)
        assert not t.is_alive(), f"{t.name} does not end"
    for role, list_ in times.items():
        if list_:
            tap.diag(f"{role}: {len(list_)} kills, first append after {min(list_):.2f} to {max(list_):.2f} s")
    tap.diag(f"acknowledged: {progress()} of producers, {sum(len(c.acked) for c in curls)} of curl; "
             f"curl unknown {sum(len(c.unknown) for c in curls)}, refused {sum(len(c.refused) for c in curls)}")


@tap.test("no client saw an answer that it must not see")
def _():
    wrong = [w for t in [*producers, *curls, watcher] for w in t.wrong]
    tap.same(wrong, [], "wrong answers")


@tap.test("connections stay open while storaged restarts")
def _():
    tap.same(drops_by_storaged, 0, "connections closed when storaged was killed")


@tap.test("in the end all of it is packed, and WAL objects with records are gone")
def _():
    def sizes(top):
        return list(node.stored(top + "/").values())
    # A put that was in flight behind the one that a seal took the place of stays: it is above the cut.
    tap.until(lambda: sum(n > 64 for n in sizes("wal")) <= 2 * KILLS, 60, "WAL objects but open and seal are gone")
    assert sum(sizes("data")) > sum(len(body) for p in producers for body, _ in p.acked)
    tap.diag(f"{len(sizes('data'))} data objects, {len(sizes('wal'))} open objects and seals")


@tap.test("offsets are dense, nothing acknowledged is lost or doubled, nothing else is there twice")
def _():
    node.wait_ready()
    records = read_all()
    tap.same([s for s, _ in records], list(range(len(records))), "offsets")
    place = {}
    for seq, body in records:
        assert body not in place, f"{body} stands at {place[body]} and {seq}"
        place[body] = seq
    for p in producers:
        for body, seq in p.acked:
            body = body.decode()
            assert body in place, f"{body} was acknowledged and is lost"
            assert seq is None or place[body] == seq, f"{body} acknowledged at {seq}, stands at {place[body]}"
        mine = [b for _, b in records if b.startswith(p.name + ":")]
        tap.same(mine, [f"{p.name}:{i}" for i in range(len(mine))], f"order of {p.name}")
        assert len(p.acked) <= len(mine) <= len(p.acked) + 1
    for c in curls:
        for body, seq in c.acked.items():
            tap.same(place.get(body), seq, f"{body} acknowledged by curl")
        there = [b for b in c.refused if b in place]
        tap.same(there, [], "answered `unavailable` and yet there")


@tap.test("the same after kill -9 of everything, byte for byte")
def _():
    before = read_all()
    node.kill_all()
    node.start()
    tap.same(read_all() == before, True, "what is read")
    tap.same(node.stop(), 0, "exit code")


tap.run()
