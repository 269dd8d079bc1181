#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of storaged, worker-http and the supervisor at random moments, under streams that live whole lives over Pico and Durable
Streams: created, appended to with producers, forked, closed, deleted, made anew under the same name; and streams that end by
themselves. Each stream has one client, which repeats each request until it is answered; so it knows what must be there, and
reads that, to the record, at any time: each append once, a close for good, a delete for good, a fork with its prefix whatever becomes of
its source. `unavailable` has to mean that nothing was done. PICO_KILL_SEED replays the order of kills and the clients' choices;
PICO_KILLS says how many (make chaos: more)."""
import http.client, os, random, threading, time

import kafka_wire, tap
from ds import TEXT, offset
from node import Client, Node
from tap import same, test, until

SEED = int(os.environ.get("PICO_KILL_SEED", "0")) or random.randrange(1, 1 << 30)
KILLS = int(os.environ.get("PICO_KILLS", "15"))
rng = random.Random(SEED)
# Packs, merges and deletes objects all the time, so that kills fall into those, too.
node = Node("--wal-upload-threshold=16K", "--wal-upload-interval-ms=300", "--gc-delay-ms=300", kafka=True, ds=True)
stop = threading.Event()


class Deaths:
    """A worker repeats by itself what storaged's death took the answer of, so a request that met one may find its own first try."""
    n, now = 0, False


class Wrong(Exception):
    pass


def check(fact, words):
    if not fact:
        raise Wrong(words)


class Connection:
    """Repeats a request until it is answered. `maybe` then says whether an earlier try may have done what was asked."""

    def __init__(self, port):
        self.port, self.client, self.maybe = port, Client(port, timeout=60), False

    def __call__(self, method, path, body=None, **headers):
        self.maybe, end = False, time.monotonic() + 40
        while True:
            deaths, met = Deaths.n, Deaths.now
            try:
                self.client.port = self.port()
                a = self.client(method, path, body, **headers)
            except (OSError, http.client.HTTPException):
                self.maybe = True
            else:
                if a.status != 503:
                    self.maybe |= met or Deaths.n != deaths
                    return a
                self.maybe |= method in ("HEAD", "DELETE") or a.json()["error"] != "unavailable"
            check(time.monotonic() < end, f"{method} {path}: no answer in 40 s")
            time.sleep(0.02)

    def expect(self, statuses, again, method, path, body=None, **headers):
        """statuses: of what is done now; again: of what a try before may have done."""
        a = self(method, path, body, **headers)
        allowed = statuses + (again if self.maybe else ())
        check(a.status in allowed, f"{method} {path} {headers}: {a}, expected {allowed}")
        return a


class Pico:
    def __init__(self):
        self.ask = Connection(lambda: node.port)

    def create(self, name):
        self.ask.expect((201,), (200,), "PUT", name, Content_Type=TEXT)

    def append(self, name, id, seq, body, at, closing):
        more = {"Pico_Closed": "true"} if closing else {}
        a = self.ask.expect((200,), (), "POST", name, body, Content_Type=TEXT, Pico_Producer_Id=id, Pico_Producer_Epoch=0, Pico_Producer_Seq=seq,
                            **more)
        start = a["pico-start-seq"]
        check(start == str(at) or start is None and self.ask.maybe, f"{name} {id} {seq}: at {start}, not {at}")

    def close(self, name):
        self.ask.expect((200,), (), "POST", name, b"", Pico_Closed="true")

    def delete(self, name, soft):
        self.ask.expect((204,), (410 if soft else 404,), "DELETE", name)

    def trim(self, name, start):
        a = self.ask.expect((200,), (), "POST", name, b"", Pico_Trim_Seq=start)
        check(a["pico-start-seq"] == str(start), f"{name}: trimmed to {start}: {a}")

    def read(self, name):
        """(status, bytes, whether it is closed)"""
        got, at = b"", -1
        while True:
            a = self.ask("GET", f"{name}?seq={at}&format=raw")
            if a.status != 200:
                return a.status, b"", False
            got, at = got + a.body, a["pico-next-seq"]
            if a["pico-up-to-date"]:
                return 200, got, a["pico-closed"] == "true"

    def refused(self, name, body):
        return self.ask("POST", name, body, Content_Type=TEXT).status


class Streams(Pico):
    def __init__(self):
        self.ask = Connection(lambda: node.ds_port)

    def append(self, name, id, seq, body, at, closing):
        more = {"Stream_Closed": "true"} if closing else {}
        a = self.ask.expect((200,), (204,), "POST", name, body, Content_Type=TEXT, Producer_Id=id, Producer_Epoch=0, Producer_Seq=seq, **more)
        check(int(a["stream-next-offset"]) == at + 1, f"{name} {id} {seq}: {a}, not at {at}")

    def close(self, name):
        self.ask.expect((204,), (), "POST", name, b"", Stream_Closed="true")

    def fork(self, name, source, at):
        self.ask.expect((201,), (200,), "PUT", name, Content_Type=TEXT, Stream_Forked_From=source, Stream_Fork_Offset=offset(at))

    def read(self, name):
        got, at = b"", "-1"
        while True:
            a = self.ask("GET", f"{name}?offset={at}")
            if a.status != 200:
                return a.status, b"", False
            got, at = got + a.body, a["stream-next-offset"]
            if a["stream-up-to-date"]:
                return 200, got, a["stream-closed"] == "true"


class Stream:
    """What its only client knows of a stream."""

    def __init__(self, name, records=(), start=0):
        self.name, self.records, self.start, self.closed, self.status, self.seq = name, list(records), start, False, 200, 0

    def shown(self):
        return self.records[self.start:]

    def is_as(self, protocol):
        found = protocol.read(self.name)
        want = (self.status, b"".join(self.shown()), self.closed) if self.status == 200 else (self.status, b"", False)
        if found != want:
            n = next((i for i, (a, b) in enumerate(zip(found[1], want[1])) if a != b), min(len(found[1]), len(want[1])))
            raise Wrong(f"{self.name} through {type(protocol).__name__}: {found[0]} closed {found[2]} {len(found[1])} bytes, expected "
                        f"{want[0]} closed {want[2]} {len(want[1])} bytes; from {n}: {found[1][n:n + 60]} for {want[1][n:n + 60]}")


class Life(threading.Thread):
    """Streams one after the other under few names, and forks of them, which outlive them by some lives."""
    NAMES, OUTLIVE = 5, 3

    def __init__(self, number, protocol):
        super().__init__(daemon=True)
        self.rng, self.own, self.pico, self.ds = random.Random(SEED * 100 + number), protocol(), Pico(), Streams()
        self.base, self.lives, self.n_forks, self.done, self.wrong = f"/life/{number}", 0, 0, 0, None
        self.stream, self.forks, self.left, self.dead = None, [], [], {}

    def run(self):
        try:
            while not stop.is_set():
                self.live()
        except Exception as error:
            self.wrong = f"{self.base} life {self.lives}: {error!r}"

    def any_reader(self):
        return self.rng.choice((self.pico, self.ds))

    def append(self, stream, closing=False):
        body = b"%s#%d:%d %s\n" % (stream.name.encode(), self.lives, stream.seq, b"." * self.rng.randrange(400))
        self.own.append(stream.name, "p", stream.seq, body, len(stream.records), closing)
        stream.records.append(body)
        stream.seq += 1
        stream.closed = closing
        self.done += 1

    def close(self, stream):
        if self.rng.random() < 0.5:
            self.append(stream, closing=True)
        else:
            self.own.close(stream.name)
            stream.closed = True

    def fork(self):
        at = self.rng.randint(self.stream.start, len(self.stream.records))
        self.n_forks += 1
        fork = Stream(f"{self.base}/fork{self.n_forks}", self.stream.records[:at], self.stream.start)
        self.ds.fork(fork.name, self.stream.name, at)
        self.forks.append(fork)
        self.done += 1

    def trim(self, stream):
        stream.start = self.rng.randint(stream.start, len(stream.records))
        self.pico.trim(stream.name, stream.start)

    def step(self):
        chance = self.rng.random()
        stream = self.rng.choice([self.stream, *self.forks, *[f for _, forks, _ in self.left for f in forks]])
        if chance < 0.15:
            stream.is_as(self.any_reader())
        elif chance < 0.2 and len(self.forks) < 2:
            self.fork()
        elif chance < 0.22:
            self.trim(stream)
        elif chance < 0.24 and not stream.closed:
            self.close(stream)
        elif stream.closed:
            check(self.any_reader().refused(stream.name, b"late") == 409, f"{stream.name} is closed and takes an append")
        else:
            self.append(stream)

    def delete(self, stream, soft=False):
        stream.is_as(self.any_reader())
        self.own.delete(stream.name, soft)
        stream.status = 410 if soft else 404
        stream.is_as(self.any_reader())
        self.dead[stream.name] = stream

    def forget(self, source, forks):
        """With its last fork a source goes, and its name is free."""
        for fork in forks:
            self.delete(fork)
        until(lambda: self.pico.read(source.name)[0] == 404, 60, f"{source.name} is free")
        source.status = 404

    def live(self):
        self.lives += 1
        taken = [source.name for source, _, _ in self.left]
        name = next(n for n in (f"{self.base}/{i}" for i in range(self.NAMES)) if n not in taken)
        self.own.create(name)
        self.dead.pop(name, None)
        self.stream = Stream(name)
        self.stream.is_as(self.any_reader())
        for _ in range(self.rng.randrange(10, 120)):
            self.step()
            if stop.is_set():
                return
        self.delete(self.stream, soft=bool(self.forks))
        if self.forks:
            check(self.any_reader().refused(name, b"late") == 410, f"{name} is gone and takes an append")
            self.left.append((self.stream, self.forks, self.lives + self.OUTLIVE))
        self.forks = []
        while self.left and self.left[0][2] <= self.lives:
            self.forget(*self.left.pop(0)[:2])

    def all(self):
        return [self.stream, *self.forks, *[f for _, forks, _ in self.left for f in forks], *self.dead.values()]


class Ends(threading.Thread):
    """Streams that end by themselves, again and again under one name; and what lives long stays."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ask, self.lives, self.wrong, self.done = Connection(lambda: node.port), 0, None, 0
        self.long, self.streams = Stream("/ends/long", [b"kept"]), Pico()

    def run(self):
        try:
            self.ask.expect((201,), (200,), "PUT", self.long.name, Pico_TTL=3600)
            self.streams.append(self.long.name, "p", 0, b"kept", 0, False)
            while not stop.is_set():
                self.live()
        except Exception as error:
            self.wrong = f"{self.ask.port()} life {self.lives}: {error!r}"

    def live(self):
        self.lives += 1
        began = time.monotonic()
        self.ask.expect((201,), (200, 201), "PUT", "/ends/short", Pico_TTL=1)
        self.streams.ask("POST", "/ends/short", b"%d" % self.lives)
        status, body, _ = self.streams.read("/ends/short")
        read = time.monotonic()
        if status == 200:  # a repeated append without a producer may be there twice
            check(set(body) <= set(b"%d" % self.lives), f"life {self.lives} shows {body}")
        else:
            check(read - began > 1, f"over after {read - began} s")
        until(lambda: self.ask("HEAD", "/ends/short").status == 404 or stop.is_set(), 60, "it is over")
        if not stop.is_set():
            check(self.streams.read("/ends/short")[0] == 404, "it came back")
        self.long.is_as(self.streams)

    def all(self):
        return [self.long]


lives, clients = [], []


def progress():
    return min(c.done for c in lives)


def failed():
    return [c.wrong for c in clients if c.wrong]


def kill(roles):
    """Of those at once; the node is whole again afterwards."""
    if "supervisor" in roles:  # its children end with it, and all connections
        node.kill("supervisor")
        node.process.wait()
        node.spawn()
        until(lambda: "ready" in node.lines or node.process.poll() is not None, 60, "ready again")
        assert node.process.poll() is None, node.log()[-1500:]
        return
    was = {role: node.pid(role) for role in roles}
    Deaths.n, Deaths.now = Deaths.n + 1, True
    for role in roles:
        node.kill(role)
    until(lambda: all(was[r] not in node.children().get(r, [was[r]]) for r in roles), 60, f"new {roles}")
    node.wait_ready()
    Deaths.now = False


@test(f"{KILLS} kills among streams that live and end (seed {SEED})")
def _():
    node.start()
    lives.extend(Life(i, (Pico, Streams)[i % 2]) for i in range(8))
    clients.extend([*lives, Ends()])
    for c in clients:
        c.start()
    kinds = [("storaged",), ("worker-http",), ("storaged", "worker-http"), ("storaged",), ("supervisor",)]
    for i in range(KILLS):
        before = progress()
        until(lambda: progress() > before + 3 or failed(), 90, "every client makes progress")
        time.sleep(rng.uniform(0, 0.3))
        if failed():
            break
        kill(kinds[i % len(kinds)] if i < len(kinds) else rng.choice(kinds))
    before = progress()
    until(lambda: progress() > before + 3 or failed(), 90, "and once more")
    stop.set()
    for c in clients:
        c.join(90)
        assert not c.is_alive(), "a client does not end"
    same(failed(), [], "what clients saw")
    tap.diag(f"{sum(c.lives for c in lives)} lives, {sum(c.n_forks for c in lives)} forks, {sum(c.done for c in lives)} appends and forks; "
             f"{clients[-1].lives} streams ended by themselves")


def all_as_known():
    for c in clients:
        for stream in c.all():
            for protocol in (Pico(), Streams()):
                stream.is_as(protocol)


@test("in the end all is as it was acknowledged, through each protocol")
def _():
    node.wait_ready()
    all_as_known()
    with kafka_wire.Client(node.kafka_port) as c:
        for life in lives:
            for stream in life.all():
                topic = stream.name[1:].replace("/", ".")
                if stream.status == 200:
                    same([r.value for r in c.read_all(topic, start=stream.start)], stream.shown(), topic)
                else:
                    same(c.fetch(topic, 0, 0).error_code, 3, topic)


@test("and after kill -9 of everything")
def _():
    node.kill_all()
    node.start()
    all_as_known()
    until(lambda: node.http("HEAD", "/ends/short").status == 404, 30, "what ends by itself has ended")
    same(node.http("PUT", "/ends/short").status, 201)
    same(node.http("GET", "/ends/short").json(), [], "and is new")
    same(node.stop(), 0, "exit code")


tap.run()
