#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 readers that stop reading in the middle of an answer: appends go on, and memory stays under its bounds."""
import socket, time

import tap
from node import Node

READERS = 200
node = Node("--stall-timeout-ms", "600000")
body = b"x" * 1000


def append(client, n):
    records = b",".join([b'{"body":"' + body + b'"}'] * n)
    a = client("POST", "/t", b'{"records":[' + records + b"]}", Content_Type="application/vnd.picomq.batch+json")
    tap.same(a.status, 200, "append")


@tap.test("200 readers stop in the middle, and appends go on")
def _():
    node.start()
    client = node.client()
    tap.same(client("PUT", "/t").status, 201, "create")
    for _ in range(40):
        append(client, 1000)
    before = {role: node.rss(node.pid(role)) for role in ("storaged", "worker-http")}
    socks = []
    for i in range(READERS):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", node.port))
        kind = "raw" if i % 2 else "json"
        s.sendall(f"GET /t?seq=0&bytes=4000000&format={kind} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        socks.append(s)
    for s in socks:
        s.settimeout(60)
        assert s.recv(100).startswith(b"HTTP/1.1 200"), "the answer begins"
    slowest = 0
    for _ in range(200):
        began = time.monotonic()
        append(client, 10)
        slowest = max(slowest, time.monotonic() - began)
    after = {role: node.rss(node.pid(role)) for role in ("storaged", "worker-http")}
    grown = {role: (after[role] - before[role]) >> 20 for role in after}
    tap.diag(f"slowest append {slowest * 1000:.0f} ms; memory grew by {grown} MiB")
    # A worker keeps at most --conn-buffer-size (1 MiB) and a batch a connection; storaged its arena and page cache.
    assert grown["worker-http"] <= READERS * 2 + 64, grown
    assert grown["storaged"] <= 330, grown
    tap.same(len(node.children()["storaged"]), 1, "storaged lives")
    for s in socks:
        s.close()


@tap.test("one of them that goes on reading gets everything")
def _():
    s = socket.create_connection(("127.0.0.1", node.port))
    s.settimeout(60)
    s.sendall(b"GET /t?seq=0&bytes=4000000&format=raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    time.sleep(3)  # longer than a reference may be held
    data = b""
    while piece := s.recv(1 << 16):
        data += piece
    head, _, got = data.partition(b"\r\n\r\n")
    n = int([l for l in head.split(b"\r\n") if l.lower().startswith(b"pico-next-seq:")][0].split(b":")[1])
    if b"chunked" in head.lower():
        out = b""
        while got:
            size, _, got = got.partition(b"\r\n")
            size = int(size, 16)
            out, got = out + got[:size], got[size + 2:]
        got = out
    tap.same(len(got), n * len(body), "bytes")
    tap.same(got == body * n, True, "content")
    tap.same(node.stop(), 0, "exit code")


tap.run()
