#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large bodies that never end, on many connections: the worker's memory had no bound but --max-request-size times
connections. Now together they hold eight bodies, the others are 503, and small appends go on."""
import socket

import tap
from node import Node
from tap import same, test

UPLOADS, MIB = 80, 1 << 20


@test("80 unfinished uploads of 4 MB: at most eight are held, the rest are 503, small appends go on")
def uploads():
    node = Node("--max-request-size=4M", "--max-message-size=2M").start()
    same(node.http("PUT", "/s").status, 201)
    worker = node.pid("worker-http")
    before = node.rss(worker)
    socks, piece, peak = [], b"x" * 1000000, 0
    for _ in range(UPLOADS):
        s = socket.create_connection(("127.0.0.1", node.port), timeout=20)
        s.sendall(b"POST /s HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
        socks.append(s)
    for _ in range(3):
        for s in socks:
            try:
                s.sendall(piece)
            except OSError:
                pass  # refused already
        peak = max(peak, node.rss(worker))
        same(node.http("POST", "/s", b"small").status, 200, "a small append meanwhile")
    assert peak - before < 96 * MIB, f"{(peak - before) >> 20} MiB more"
    refused = 0
    for s in socks:
        s.settimeout(0.05)
        try:
            head = s.recv(4096)
        except OSError:
            continue
        if head:
            assert head.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in head, head
            refused += 1
    assert UPLOADS - 40 <= refused < UPLOADS, f"{refused} refused"
    for s in socks:
        s.close()
    tap.until(lambda: b'pico_http_buffered_bytes{process="worker-http"} 0\n' in node.admin("/metrics").body, 10, "all given back")
    same(node.http("POST", "/s", b"y" * 1500000).status, 200, "a large append afterwards")
    same(node.stop(), 0, "exit code")


tap.run()
