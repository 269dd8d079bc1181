#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 readers that stop reading in the middle of an answer: appends go on, also when more is appended than storaged keeps in
memory; memory stays under its bounds; and who reads on gets everything, each record in its place."""
import json, socket, time

import tap
from node import Node

READERS, BATCH = 200, 1000
node = Node("--stall-timeout-ms", "600000", "--wal-cache-size", "128M", "--block-cache-size", "16M")
appended = 0


def body(i):
    return b"%08d" % i * 125


def append(client):
    """1 MB."""
    global appended
    records = b",".join(b'{"body":"%s"}' % body(appended + i) for i in range(BATCH))
    a = client("POST", "/t", b'{"records":[' + records + b"]}", Content_Type="application/vnd.picomq.batch+json")
    tap.same((a.status, a["pico-start-seq"]), (200, str(appended)), "append")
    appended += BATCH


def pids():
    return {role: node.pid(role) for role in ("storaged", "worker-http")}


def rest_of(s, first):
    """What a whole answer with Connection: close carries: its fields and its body."""
    data = bytearray(first)
    while piece := s.recv(1 << 16):
        data += piece
    head, _, got = bytes(data).partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if fields.get(b"transfer-encoding") == b"chunked":
        out, at = [], 0
        while at < len(got):
            end = got.index(b"\r\n", at)
            size = int(got[at:end], 16)
            out.append(got[end + 2:end + 2 + size])
            at = end + 4 + size
        tap.same(out[-1], b"", "the last chunk")
        got = b"".join(out)
    return fields, got


def check(kind, fields, got):
    n = int(fields[b"pico-next-seq"])
    assert n > 2000, n
    if kind == "raw":
        tap.same(got == b"".join(body(i) for i in range(n)), True, f"{n} records, raw")
    else:
        rows = [(r["seq"], r["body"].encode()) for r in json.loads(got)]
        tap.same(rows == [(i, body(i)) for i in range(n)], True, f"{n} records, JSON")


@tap.test("200 readers stop in the middle: appends go on, memory is bounded, some read on and get everything")
def _():
    node.start()
    client = node.client()
    tap.same(client("PUT", "/t").status, 201, "create")
    for _ in range(40):
        append(client)
    first = pids()
    before = {role: node.rss(pid) for role, pid in first.items()}
    socks = []
    for i in range(READERS):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", node.port))
        kind = "raw" if i % 2 else "json"
        s.sendall(f"GET /t?seq=0&bytes=4000000&format={kind} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        socks.append((kind, s))
    begun = []
    for _, s in socks:
        s.settimeout(60)
        begun.append(s.recv(100))
        assert begun[-1].startswith(b"HTTP/1.1 200"), "the answer begins"
    slowest = 0
    for _ in range(130):
        began = time.monotonic()
        append(client)
        slowest = max(slowest, time.monotonic() - began)
    tap.same(pids(), first, "processes")
    grown = {role: (node.rss(pid) - before[role]) >> 20 for role, pid in first.items()}
    tap.diag(f"130 MB appended, slowest append {slowest * 1000:.0f} ms; memory grew by {grown} MiB")
    # A worker keeps at most --conn-buffer-size (1 MiB) and a batch a connection; storaged its arena and page cache.
    assert grown["worker-http"] <= READERS * 2 + 64, grown
    assert grown["storaged"] <= 128 + 16 + 32, grown
    for (kind, s), start in list(zip(socks, begun))[::33]:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        check(kind, *rest_of(s, start))
    for _, s in socks:
        s.close()
    tap.same(pids(), first, "processes")


@tap.test("one that pauses longer than storaged's memory may be held gets everything")
def _():
    s = socket.create_connection(("127.0.0.1", node.port))
    s.settimeout(60)
    s.sendall(b"GET /t?seq=0&bytes=4000000&format=raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    time.sleep(3)  # longer than a reference may be held
    check("raw", *rest_of(s, b""))
    tap.same(node.stop(), 0, "exit code")


tap.run()
