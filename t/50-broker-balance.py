#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers of one kind share their listeners: each takes its part of the connections, whatever the order they come in, and
a worker that dies or hangs takes nobody with it."""
import os, resource, signal, socket, struct, time

import tap
from node import Node, alive

MANY = 1000
MOST = MANY * 60 // 100
node = Node("--kafka-workers", "2", "--http-workers", "2", kafka=True)
QUESTION = {  # and how its answer begins
    "worker-kafka": (struct.pack(">ihhih", 10, 18, 0, 7, -1), struct.pack(">ih", 7, 0)),
    "worker-http": (b"OPTIONS /x HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 204 "),
}
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))


def workers(kind):
    return sorted((p for p in node.admin("/admin/processes").json()["processes"] if p["kind"] == kind), key=lambda p: p["index"])


def shares(kind, total):
    """How many connections each worker has, once they are `total`."""
    return tap.until(lambda: (c := [p["connections"] for p in workers(kind)]) and sum(c) == total and c, 20, f"{total} of {kind}")


def address(kind):
    return "127.0.0.1", node.kafka_port if kind == "worker-kafka" else node.port


def begin(kind):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(address(kind))
    return s


def is_served(s, kind):
    """False when the connection was closed instead."""
    question, answer = QUESTION[kind]
    s.settimeout(20)
    try:
        s.sendall(question)
        got = s.recv(65536)
    except (ConnectionResetError, BrokenPipeError):
        return False
    if got == b"":
        return False
    assert answer in got, got
    return True


def connect(kind):
    s = socket.create_connection(address(kind), 20)
    assert is_served(s, kind)
    return s


def burst(kind, n):
    all_ = [begin(kind) for _ in range(n)]
    assert all(is_served(s, kind) for s in all_)
    return all_


def close(all_, kind):
    for s in all_:
        s.close()
    shares(kind, 0)


@tap.test("a node with two workers of each kind")
def _():
    node.start()
    tap.same([(p["kind"], p["index"], p["connections"]) for k in QUESTION for p in workers(k)],
             [(k, i, 0) for k in QUESTION for i in (0, 1)], "workers")


def even(kind):
    for way, make in (("in a burst", lambda: burst(kind, MANY)), ("one by one", lambda: [connect(kind) for _ in range(MANY)])):
        began = time.monotonic()
        all_ = make()
        got = shares(kind, MANY)
        tap.diag(f"{MANY} {way}: {got}, {time.monotonic() - began:.2f} s")
        assert max(got) <= MOST, f"{way}: {got}"
        close(all_, kind)


def death(kind):
    all_ = burst(kind, MANY)
    before = shares(kind, MANY)
    victim, other = workers(kind)
    os.kill(victim["pid"], signal.SIGKILL)
    tap.until(lambda: not alive(victim["pid"]), 20, "the end of one")
    new = [connect(kind) for _ in range(50)]  # the other takes them meanwhile
    tap.until(lambda: workers(kind)[0]["restarts"] == 1 and workers(kind)[0]["state"] == "ready", 20, "another worker")
    left = [s for s in all_ if is_served(s, kind)]
    tap.same(len(left), before[1], "connections that live on")
    tap.same(workers(kind)[1]["pid"], other["pid"], "the other worker")
    # The other one waits a millisecond for each, in which the new one may not run on a busy machine: it catches up all the
    # same, and faster than by chance.
    got = shares(kind, len(left) + len(new))
    while max(got) > sum(got) * 60 // 100 and len(new) < 1.5 * MANY:
        new += [connect(kind) for _ in range(50)]
        got = shares(kind, len(left) + len(new))
    tap.diag(f"before {before}, after {got}")
    assert max(got) <= sum(got) * 60 // 100, got
    close(all_ + new, kind)


def hang(kind):
    """The one that works is far above the mean and takes them all the same."""
    stopped = workers(kind)[0]
    os.kill(stopped["pid"], signal.SIGSTOP)
    try:
        began = time.monotonic()
        all_ = [connect(kind) for _ in range(200)]
        took = time.monotonic() - began
        tap.same([p["connections"] for p in workers(kind)], [0, 200], "connections")
        assert took < 20, f"{took:.2f} s for 200 connections"
        tap.diag(f"{took / 200 * 1000:.2f} ms each")
    finally:
        os.kill(stopped["pid"], signal.SIGCONT)
    close(all_, kind)


for kind in QUESTION:
    tap.test(f"{kind}: {MANY} connections, neither holds more than 60 %")(lambda kind=kind: even(kind))
    tap.test(f"{kind}: the death of one closes none of the other's, and new ones go on")(lambda kind=kind: death(kind))
    tap.test(f"{kind}: one that hangs holds no new connection up")(lambda kind=kind: hang(kind))

tap.run(node.stop)
