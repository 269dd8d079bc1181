#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of storaged, worker-http and the supervisor, 12 times at random moments, under Durable Streams: four producers of
several messages a request, two readers of events that come back where they were, and forks at ends that were acknowledged.
Nothing acknowledged is lost or doubled, a request is there whole, readers see each message once and in order, a fork has
what stood before its point and its first content. PICO_KILL_SEED replays the order of kills."""
import http.client, json, os, random, threading, time

import tap
from ds import Events
from node import Client, Node

SEED = int(os.environ.get("PICO_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
KILLS = int(os.environ.get("PICO_KILLS", "12"))
JSON = "application/json"
GONE = (OSError, http.client.HTTPException, AssertionError)
rng = random.Random(SEED)
node = Node("--wal-upload-threshold=16K", "--wal-upload-interval-ms=300", "--gc-delay-ms=300", "--sse-max-duration-ms", "2000", ds=True)
stop = threading.Event()
acked = []              # offsets behind acknowledged requests


class Producer(threading.Thread):
    """Requests 0, 1, 2, ... of three messages each; one is repeated until it is acknowledged."""

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name, self.n, self.wrong = name, 0, []

    def run(self):
        client = Client(node.ds_port, timeout=60)
        while not stop.is_set():
            body = json.dumps([f"{self.name}:{self.n}:{i}" for i in range(3)]).encode()
            try:
                a = client("POST", "/kill", body, Content_Type=JSON, Producer_Id=self.name, Producer_Epoch=0, Producer_Seq=self.n)
            except GONE:
                time.sleep(0.05)
                continue
            if a.status in (200, 204) and a["producer-seq"] == str(self.n):
                self.n += 1
                acked.append(int(a["stream-next-offset"]))
            elif a.status != 503:
                self.wrong.append(repr(a))
                return


class Reader(threading.Thread):
    """Events from the start to the end of the closed stream, over any number of connections."""

    def __init__(self):
        super().__init__(daemon=True)
        self.got, self.at, self.closed, self.wrong = [], "-1", False, []

    def follow(self):
        e = Events(node.ds_port, f"/kill?offset={self.at}&live=sse")
        if e.status != 200:
            if e.status != 503:
                self.wrong.append(f"{e.status} at {self.at}")
            time.sleep(0.05)
            return
        while (pair := e.pair()) is not None:
            data, control = pair
            self.got += json.loads(data) if data is not None else []
            self.at = control["streamNextOffset"]
            self.closed = control.get("streamClosed", False)

    def run(self):
        while not self.closed and not self.wrong:
            try:
                self.follow()
            except GONE:        # cut in the middle of an event: what is not whole does not count
                time.sleep(0.05)


class Forker(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.made, self.wrong = {}, []

    def run(self):
        while not stop.is_set():
            if not acked:
                continue
            name, at = f"/fork/{len(self.made)}", max(0, acked[-1] - rng.randrange(4))
            try:
                a = node.ds("PUT", name, b'["own"]', Content_Type=JSON, Stream_Forked_From="/kill", Stream_Fork_Offset=at)
                while a.status == 503 and not stop.is_set():
                    a = node.ds("PUT", name, b'["own"]', Content_Type=JSON, Stream_Forked_From="/kill", Stream_Fork_Offset=at)
            except GONE:
                time.sleep(0.05)
                acked.append(at)        # the same again
                continue
            if a.status in (200, 201):
                self.made[name] = at
                time.sleep(0.1)
            elif a.status == 409:       # made at another point by a request whose answer was lost
                self.made[name] = None
            elif a.status != 503:
                self.wrong.append(repr(a))


def kill():
    who = rng.choice(["storaged", "storaged", "worker-http", "supervisor"])
    if who == "supervisor":
        node.kill_all()
        node.start()
    else:
        pid = node.kill(who)
        tap.until(lambda: node.children().get(who, [pid])[0] != pid, 60, f"another {who}")
    before = len(acked)
    tap.until(lambda: len(acked) > before + 4, 60, "appends go on")


def read_all(name):
    got, at = [], "-1"
    while True:
        a = node.ds("GET", f"{name}?offset={at}")
        tap.same(a.status, 200, f"{name} at {at}")
        got, at = got + a.json(), a["stream-next-offset"]
        if a["stream-up-to-date"]:
            return got


@tap.test(f"{KILLS} kills: nothing acknowledged is lost or doubled; seed {SEED}")
def _():
    node.start()
    tap.same(node.ds("PUT", "/kill", Content_Type=JSON).status, 201)
    producers, readers, forker = [Producer(f"p{i}") for i in range(4)], [Reader(), Reader()], Forker()
    for thread in [*producers, *readers, forker]:
        thread.start()
    tap.until(lambda: len(acked) > 10, 60, "appends")
    for _ in range(KILLS):
        time.sleep(rng.random() / 2)
        kill()
    stop.set()
    for thread in [*producers, forker]:
        thread.join(120)
    tap.same([t.wrong for t in [*producers, *readers, forker]], [[]] * 7, "wrong answers")
    tap.until(lambda: node.ds("POST", "/kill", b"", Stream_Closed="true").status == 204, 60, "closed")
    stored = read_all("/kill")
    for p in producers:
        mine = [m for m in stored if m.startswith(p.name + ":")]
        want = [f"{p.name}:{n}:{i}" for n in range(len(mine) // 3) for i in range(3)]
        tap.same(mine == want, True, f"{p.name}: each once, whole, in order")
        assert p.n <= len(mine) // 3 <= p.n + 1, (p.n, len(mine))
    tap.same(all(stored[i].rsplit(":", 1)[0] == stored[i - i % 3].rsplit(":", 1)[0] for i in range(len(stored))), True, "requests are whole")
    for r in readers:
        r.join(60)
        tap.same((r.closed, r.got == stored), (True, True), f"a reader: {len(r.got)} of {len(stored)}")
    whole = {name: at for name, at in forker.made.items() if at is not None}
    for name, at in whole.items():
        tap.same(read_all(name) == stored[:at] + ["own"], True, f"{name} at {at}")
    tap.diag(f"{len(stored)} messages, {len(whole)} forks")
    assert len(whole) > 3, whole


tap.run(node.stop)
