#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits of HTTP on a real node, each at its bound and one beyond, over HTTP/1.1 and HTTP/2; requests that two parsers could
read differently; clients that dawdle; 15,000 idle connections and what each costs."""
import re, resource, socket, time

import tap
from h2_wire import *
from node import Node

BODY = 1 << 20
node = Node("--max-request-size", str(BODY), "--max-message-size", "512K", "--header-timeout-ms", "1500",
            "--body-timeout-ms", "1500", "--stall-timeout-ms", "3000", "--max-connections", "18000",
            "--max-inflight", "8", "--long-poll-timeout-ms", "10000")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
IDLE = min(15000, hard - 1500)
BATCH = "application/vnd.picomq.batch+json"


def connect():
    s = socket.create_connection(("127.0.0.1", node.port), timeout=20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def read_all(s):
    data = b""
    try:
        while piece := s.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    s.close()
    return data


def talk(data):
    """All that is answered to these bytes; the client's end is left open, so the end is the node's."""
    s = connect()
    try:
        s.sendall(data)
    except OSError:
        pass
    return read_all(s)


def statuses(answer):
    return [int(code) for code in re.findall(rb"(?:^|\n)HTTP/1\.1 (\d+) ", answer)]


def h1(method, path, headers=(), body=b"", length=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *(f"{k}: {v}" for k, v in headers)]
    if method == "POST":
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return statuses(talk("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body))[0]


def h2(method, path, headers=(), body=b"", length=None):
    c = Connection(node.port)
    more = [("content-length", str(length))] if length is not None else []
    head = block([*request(method, path), *headers, *more])
    pieces = [head[i:i + 16000] for i in range(0, len(head), 16000)]
    last = END_STREAM if method != "POST" else 0
    for i, piece in enumerate(pieces):
        c.send(CONTINUATION if i else HEADERS, (last if i == 0 else 0) | (END_HEADERS if i == len(pieces) - 1 else 0), 1, piece)
    if method == "POST":
        left = body
        c.read_until(lambda c: c.settings, "settings")
        sent, window = 0, 65535
        while left and 1 not in c.done:
            if sent + 16384 > window + c.windows[1]:
                c.read_frame()
                continue
            c.send(DATA, END_STREAM if len(left) <= 16384 else 0, 1, left[:16384])
            sent, left = sent + 16384, left[16384:]
        if not body:
            c.send(DATA, END_STREAM, 1)
    status = c.answer(1)
    assert c.ping(), c
    c.close()
    return status


VERSIONS = (("HTTP/1.1", h1), ("HTTP/2", h2))


@tap.test("a node")
def _():
    node.start()
    tap.same(node.http("PUT", "/t").status, 201, "create")


for version, ask in VERSIONS:
    @tap.test(f"{version}: a target of 16384 bytes is read, one more is 414")
    def _(ask=ask):
        path = "/t?x=" + "y" * (16384 - 5)
        tap.same((ask("GET", path), ask("GET", path + "y")), (200, 414), "answers")

    @tap.test(f"{version}: 100 headers are read, one more is 431")
    def _(ask=ask):
        own = 2 if ask is h1 else 1         # Host and Connection; :authority, which stands for Host
        many = [(f"x-{i}", "y") for i in range(100 - own)]
        tap.same(ask("GET", "/t", many), 200, "100")
        tap.same(ask("GET", "/t", many + [("x-z", "y")] * (1 if ask is h1 else 2)), 431, "more")

    @tap.test(f"{version}: heads of 64 KiB, cookies counted, are read, beyond is 431")
    def _(ask=ask):
        tap.same(ask("GET", "/t", [("cookie", "a" * 1000)] * 60), 200, "60 cookies of 1,000 bytes")
        tap.same(ask("GET", "/t", [("cookie", "a" * 1000)] * 66), 431, "66 of them")

    @tap.test(f"{version}: a body of --max-request-size is read, one byte more is 413 whether announced or not")
    def _(ask=ask):
        # As a batch whose one record is beyond --max-message-size: 413 by name, so a valid answer shows the body was read.
        wide = b'{"records":[{"body":""}]}'
        wide += b" " * (BODY - len(wide))
        tap.same(ask("POST", "/t", [("content-type", BATCH)], wide), 200, "at the limit")
        tap.same(ask("POST", "/t", [("content-type", BATCH)], wide + b" "), 413, "one more")
        tap.same(ask("POST", "/t", [("content-type", BATCH)], b"", BODY + 1), 413, "announced")

    @tap.test(f"{version}: a record at --max-message-size is stored, a larger one is 413 by name")
    def _(ask=ask):
        tap.same(ask("POST", "/t", (), b"x" * (512 * 1024 - 100)), 200, "below")
        tap.same(ask("POST", "/t", (), b"x" * (512 * 1024)), 413, "beyond, with what a batch adds")


@tap.test("HTTP/1.1: --max-inflight requests are begun, the ninth waits, all are answered in order")
def _():
    answers = talk(b"".join(b"POST /t HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n%s\r\n%d" %
                            (b"Connection: close\r\n" if i == 29 else b"", i % 10) for i in range(30)))
    tap.same(statuses(answers), [200] * 30, "answers")
    seqs = [int(n) for n in re.findall(rb"Pico-Start-Seq: (\d+)", answers)]
    tap.same(seqs, list(range(seqs[0], seqs[0] + 30)), "order")


# ------------------------------------------------------------------ two readings of the same bytes

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
HOST = b"Host: x\r\n"
FORMS = {
    "Content-Length with Transfer-Encoding": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding with Content-Length": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two Content-Lengths": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "the same Content-Length twice": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "a list of Content-Lengths": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\na",
    "Content-Length +1": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na",
    "Content-Length -1": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\na",
    "Content-Length 0x1": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: 0x1\r\n\r\na",
    "Content-Length of 20 digits": b"POST /t HTTP/1.1\r\n" + HOST + b"Content-Length: 18446744073709551617\r\n\r\na",
    "Transfer-Encoding: xchunked": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked, identity": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding: gzip, chunked": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding twice": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding : chunked": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding\\t: chunked": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding in HTTP/1.0": b"POST /t HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded Transfer-Encoding": b"POST /t HTTP/1.1\r\n" + HOST + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a vertical tab before chunked": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "bare LF between headers": b"GET /t HTTP/1.1\n" + HOST + b"\r\n",
    "bare LF at the end of the head": b"GET /t HTTP/1.1\r\n" + HOST + b"\n",
    "bare CR as a separator": b"GET /t HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "CR CR LF": b"GET /t HTTP/1.1\r\nHost: x\r\r\n\r\n",
    "NUL in a value": b"GET /t HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "NUL in a name": b"GET /t HTTP/1.1\r\nHost: x\r\nX\0: b\r\n\r\n",
    "no colon": b"GET /t HTTP/1.1\r\nHost: x\r\nX y\r\n\r\n",
    "an empty name": b"GET /t HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
    "no Host": b"GET /t HTTP/1.1\r\nX: y\r\n\r\n",
    "two Hosts": b"GET /t HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a Host with a comma": b"GET /t HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "two spaces in the request line": b"GET  /t HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tab in the request line": b"GET\t/t HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space in the target": b"GET /t x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment in the target": b"GET /t#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/1.1 in small letters": b"GET /t http/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /t\r\n",
    "a chunk size with a sign": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
    "a chunk size with 0x": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    "a chunk size of 17 digits": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n",
    "a chunk size and a space": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
    "a chunk ended by LF": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
    "a chunk longer than its size": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "chunk extensions without end": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 300 + b"\r\na\r\n0\r\n\r\n",
    "a trailer with a space before its colon": b"POST /t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n",
}

for words, data in FORMS.items():
    @tap.test(f"refused and closed, and what follows is no request: {words}")
    def _(data=data):
        answer = talk(data + SMUGGLED * 2)
        tap.same(statuses(answer), [400], answer)
        assert b"smuggled" not in answer and b"Connection: close\r\n" in answer, answer


# ------------------------------------------------------------------ clients that dawdle

@tap.test("200 heads and 200 bodies a byte at a time: heads end with the header time-out, bodies may go on; others are served")
def _():
    heads, bodies = [connect() for _ in range(200)], [connect() for _ in range(200)]
    for s in bodies:
        s.sendall(b"POST /t HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 8\r\n\r\n")
    began = time.monotonic()
    for i in range(8):
        for s, byte in [(s, b"GET /abcd"[i:i + 1]) for s in heads] + [(s, b"x") for s in bodies]:
            try:
                s.sendall(byte)
            except OSError:
                pass
        assert node.http("GET", "/t?count=1").status == 200
        time.sleep(max(0.0, began + (i + 1) * 0.4 - time.monotonic()))
    tap.same({tuple(statuses(read_all(s))) for s in heads}, {(408,)}, "heads")
    tap.same({tuple(statuses(read_all(s))) for s in bodies}, {(200,)}, "bodies")


@tap.test("a body that stops is 408; a reader that stops is dropped")
def _():
    tap.same(statuses(talk(b"POST /t HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nabc")), [408], "body")
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", node.port))
    s.sendall(b"GET /t?bytes=0&format=raw HTTP/1.1\r\nHost: x\r\n\r\n" * 60)
    worker = node.pid("worker-http")

    def is_dropped():
        s.setblocking(False)
        try:
            s.send(b"\r")
            return False
        except BlockingIOError:
            return False
        except OSError:
            return True
    tap.until(is_dropped, 30, "the reader is dropped")
    tap.same(node.pid("worker-http"), worker, "process")
    s.close()


# ------------------------------------------------------------------ idle connections

def idle(words, greet, bound):
    @tap.test(f"{IDLE} idle connections over {words}: below {bound} bytes each, and others are served")
    def _():
        pid, socks = node.pid("worker-http"), []
        for s in [greet() for _ in range(50)]:
            s.close()
        time.sleep(0.2)
        before = node.rss(pid)
        for _ in range(IDLE):
            socks.append(greet())
        each = (node.rss(pid) - before) / IDLE
        tap.diag(f"{each:.0f} bytes each")
        began = time.monotonic()
        tap.same(node.http("GET", "/t?count=1").status, 200, "another client")
        assert time.monotonic() - began < 5
        for s in socks:
            s.close()
        assert each < bound, f"{each:.0f} bytes each"


def greet_h1():
    s = connect()
    s.sendall(b"OPTIONS /t HTTP/1.1\r\nHost: x\r\n\r\n")
    assert s.recv(4096).startswith(b"HTTP/1.1 204")
    return s


def greet_h2():
    c = Connection(node.port)
    c.ask(1, request("OPTIONS", "/t"))
    tap.same(c.answer(1), 204, "answer")
    return c


idle("HTTP/1.1", greet_h1, 8192)
idle("HTTP/2", greet_h2, 24576)


@tap.test("the node stops")
def _():
    tap.same(node.stop(), 0, "exit code")


if hpack is None:
    tap._tests.clear()
    tap.skip("limits of HTTP", "python3-h2 is not installed")
tap.run()
