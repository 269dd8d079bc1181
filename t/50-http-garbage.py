#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Garbage on every port: random bytes, a TLS hello, half a request and silence, thousands of open connections. No
process dies, memory and descriptors come back, good clients are served throughout, the log stays short."""
import os, random, resource, socket, threading, time

import kafka_wire, tap
from node import Client, Node

rng = random.Random(7)
node = Node("--header-timeout-ms", "2000", "--body-timeout-ms", "2000", kafka=True)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
CONNECTIONS = min(10000, hard - 512)
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(rng.randrange(256) for _ in range(190))
stop = threading.Event()
served, failures = [0], []


def good_client():
    client, kafka = Client(node.port, timeout=60), kafka_wire.Client(node.kafka_port, timeout=60)
    n = 0
    while not stop.is_set():
        c = kafka.produce("goodk", 0, kafka_wire.batch([(None, b"%d" % n)]))
        a = client("POST", "/good", b"%d" % n)
        b = client("GET", f"/good?seq={n}&format=raw")
        if a.status != 200 or b.status != 200 or b.body != b"%d" % n or (c.error_code, c.base_offset) != (0, n):
            failures.append((a, b, c))
            return
        n += 1
        served[0] = n
        time.sleep(0.005)


def ports():
    return node.port, node.admin_port, node.kafka_port


def throw(port, data, linger):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
            s.sendall(data)
            s.settimeout(linger)
            while s.recv(65536):
                pass
    except OSError:
        pass


def pieces():
    for _ in range(150):
        yield bytes(rng.randrange(256) for _ in range(rng.randrange(1, 3000)))
    for _ in range(20):
        yield TLS_HELLO
    for _ in range(50):
        yield b"GET /t HTTP/1.1\r\nHost: x\r\nX: " + bytes(rng.randrange(256) for _ in range(100)) + b"\r\n\r\n"
    for _ in range(20):
        yield b"POST /good HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nabc"
    for _ in range(20):
        yield b"PUT /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 20000)
    for _ in range(20):
        yield b"\0" * 70000
    for _ in range(50):
        yield bytes([0, 0, rng.randrange(4), rng.randrange(256)]) + bytes(rng.randrange(256) for _ in range(1000))
    for key in range(20):
        yield bytes([0, 0, 0, 90, 0, key, 0, rng.randrange(13)]) + bytes(rng.randrange(4) for _ in range(86))


def pids():
    return {name: list_[0] for name, list_ in node.children().items()}


@tap.test("random bytes, TLS hellos and broken requests on every port")
def _():
    global thread, first, log_before
    node.start()
    tap.same([node.http("PUT", name).status for name in ("/good", "/goodk")], [201, 201], "create")
    first, log_before = pids(), len(node.log().splitlines())
    thread = threading.Thread(target=good_client, daemon=True)
    thread.start()
    for port in ports():
        for data in pieces():
            throw(port, data, 0.01)
    tap.same(pids(), first, "processes")
    tap.same(failures, [], "good client")


@tap.test("half a request and silence is ended by the header time-out")
def _():
    socks = [socket.create_connection(("127.0.0.1", p)) for p in ports() for _ in range(50)]
    for s in socks:
        kafka = s.getpeername()[1] == node.kafka_port
        s.sendall(b"\0\0\0\x20\0\0" if kafka else b"GET /good HTTP/1.1\r\nHost:")
    for s in socks:
        s.settimeout(30)
        data = s.recv(4096)
        assert data == b"" or data.startswith(b"HTTP/1.1 408"), data
        s.close()


@tap.test(f"{CONNECTIONS} open connections: served throughout, memory comes back")
def _():
    time.sleep(0.5)
    before = {name: node.rss(pid) for name, pid in pids().items()}
    descriptors = {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids().items()}
    socks = []
    for i in range(CONNECTIONS):
        try:
            s = socket.create_connection(("127.0.0.1", node.kafka_port if i % 4 > 1 else node.port), timeout=10)
            if i % 2:
                s.sendall(b"\0\0\1\0\0" if i % 4 > 1 else b"GET /good HTTP/1.1\r\n")
            socks.append(s)
        except OSError:
            break
    tap.diag(f"{len(socks)} connections were open")
    n = served[0]
    tap.until(lambda: served[0] > n + 50 or failures, 60, "the good client goes on")
    for s in socks:
        s.close()
    tap.same(failures, [], "good client")
    tap.same(pids(), first, "processes")
    stop.set()  # what it appends is kept in storaged's memory
    thread.join(30)

    def open_now():
        return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids().items()}
    tap.until(lambda: all(now <= descriptors[name] for name, now in open_now().items()), 60,
              f"descriptors as before: {open_now()} {descriptors}")

    def kib():
        return {name: (before[name] >> 10, node.rss(pid) >> 10) for name, pid in pids().items()}
    try:
        tap.until(lambda: all(now <= was * 1.10 + 2048 for was, now in kib().values()), 60, "memory within 10 % (+ 2 MiB)")
    finally:
        tap.diag(f"resident before and after, KiB: {kib()}")


@tap.test("at most 20 lines were logged")
def _():
    lines = node.log().splitlines()[log_before:]
    assert len(lines) <= 20, "\n".join(lines[:40])
    assert served[0] > 100, served
    tap.same(node.stop(), 0, "exit code")


tap.run()
