#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: during --shutdown-drain-ms the node says that it is not ready and serves on; then 100 parked long polls are
each answered, and the node is gone within the drain time + 1 s (asserted with the margin that tests have, 10 x)."""
import socket, time

import tap
from node import Node, alive

node = Node("--shutdown-drain-ms", "300")


def park(n):
    socks = []
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", node.port))
        s.settimeout(60)
        s.sendall(b"GET /t?seq=now&live=long-poll HTTP/1.1\r\nHost: x\r\n\r\n")
        socks.append(s)
    return socks


def waiters():
    for line in node.admin("/metrics").body.decode().splitlines():
        if line.startswith("pico_waiters{") or line.startswith("pico_waiters "):
            value = float(line.split()[-1])
            if value:
                return value
    return 0


def answer(s):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            break
        data += piece
    return data


@tap.test("100 parked long polls are each answered 204 with Connection: close")
def _():
    node.start()
    tap.same(node.http("PUT", "/t").status, 201, "create")
    socks = park(100)
    # Waits at the same place in one worker are one wait in storaged.
    tap.until(lambda: waiters() >= 1, 30, "a parked wait")
    time.sleep(0.5)
    began = time.monotonic()
    pids = [p for ps in node.children().values() for p in ps]
    node.process.terminate()
    answers = [answer(s) for s in socks]
    node.process.wait(60)
    took = time.monotonic() - began
    tap.diag(f"gone after {took:.2f} s (goal 1.3 s)")
    for a in answers:
        assert a.startswith(b"HTTP/1.1 204 "), a
        assert b"connection: close" in a.lower(), a
        assert b"pico-up-to-date: true" in a.lower(), a
    assert took < 13, took
    tap.same(node.process.returncode, 0, "exit code")
    tap.same([p for p in pids if alive(p)], [], "processes left")


@tap.test("a wait that an append ends is answered with the record")
def _():
    node.start()
    socks = park(20)
    tap.until(lambda: waiters() >= 1, 30, "a parked wait")
    tap.same(node.http("POST", "/t", b"hello").status, 200, "append")
    for s in socks:
        a = answer(s)
        assert a.startswith(b"HTTP/1.1 200 "), a
        head, _, body = a.partition(b"\r\n\r\n")
        while b"hello" not in body and (piece := s.recv(65536)):
            body += piece
        assert b"pico-next-seq: 1\r\n" in head.lower() and b"hello" in body, a
    tap.same(node.stop(), 0, "exit code")


@tap.test("before it drains, load balancers have their time: /ready is red, and requests are served")
def _():
    pause = Node("--shutdown-drain-ms", "2000").start()
    tap.same((pause.http("PUT", "/p").status, pause.admin("/ready").status), (201, 200), "create, /ready")
    began = time.monotonic()
    pause.process.terminate()
    tap.until(lambda: pause.admin("/ready").status == 503, 1.5, "/ready is red")
    for i in range(20):
        tap.same(pause.http("POST", "/p", b"%d" % i)["pico-start-seq"], str(i), "append after SIGTERM")
    served = time.monotonic() - began
    tap.same(pause.process.wait(60), 0, "exit code")
    took = time.monotonic() - began
    tap.diag(f"served for {served:.2f} s, gone after {took:.2f} s")
    assert took >= 2, took


tap.run()
