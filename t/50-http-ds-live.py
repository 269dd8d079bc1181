#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Durable Streams, live: long polls and server-sent events."""
import base64, concurrent.futures, json, os, socket, threading, time

import tap
from ds import TEXT, Events, Streams, offset
from node import Node

BYTES = "application/octet-stream"
JSON = "application/json"
EPOCH = 1728432000
node = Node("--conn-buffer-size", "64K", "--long-poll-timeout-ms", "3000", "--sse-max-duration-ms", "40000",
            "--max-request-size", "16M", "--max-message-size", "8M", ds=True)
ds = Streams(node)
pool = concurrent.futures.ThreadPoolExecutor(16)


def sse(name, at="-1", query="", **headers):
    e = Events(node.ds_port, f"{name}?offset={at}&live=sse{query}", **headers)
    tap.same((e.status, e.headers["content-type"], e.headers.get("content-length")), (200, "text/event-stream", None), name)
    return e


def waiters():
    return sum(float(line.split()[-1]) for line in node.admin("/metrics").body.decode().splitlines()
               if line.startswith("pico_waiters{") or line.startswith("pico_waiters "))


def later(name, query="?offset=now&live=long-poll"):
    """A long poll, known to wait."""
    before = waiters()
    future = pool.submit(lambda: node.ds("GET", name + query))
    tap.until(lambda: waiters() > before, 30, "it waits")
    return future


def now_cursor():
    return int((time.time() - EPOCH) / 20)


@tap.test("long poll: needs an offset; what is there comes at once; nothing comes as 204 in time")
def _():
    node.start()
    ds.put("/poll", body=b"a")
    ds.get("/poll?live=long-poll", 400)
    ds.get("/poll?live=x&offset=0", 400)
    ds.get("/poll?live=&offset=0", 400)
    a = ds.get("/poll?offset=-1&live=long-poll")
    tap.same((a.body, a["stream-next-offset"], a["stream-up-to-date"]), (b"a", offset(1), "true"))
    assert now_cursor() - 1 <= int(a["stream-cursor"]) <= now_cursor() + 1, a
    began = time.monotonic()
    a = ds.get("/poll?offset=1&live=long-poll", 204)
    took = time.monotonic() - began
    assert 2.5 < took < 30, took
    tap.same((a["stream-next-offset"], a["stream-up-to-date"], a["cache-control"], a["etag"]), (offset(1), "true", "no-store", None))
    assert a["stream-cursor"].isdigit()


@tap.test("cursor: always above the client's, within an hour of it; nonsense counts as none")
def _():
    ds.put("/cursor", body=b"a")
    for sent in now_cursor(), now_cursor() + 5, 2**40:
        got = int(ds.get(f"/cursor?offset=-1&live=long-poll&cursor={sent}")["stream-cursor"])
        assert sent < got <= sent + 181, (sent, got)
    for sent in "x", "", "-1", "01", "0", str(2**64 - 1), "9" * 30:
        got = int(ds.get(f"/cursor?offset=-1&live=long-poll&cursor={sent}")["stream-cursor"])
        assert abs(got - now_cursor()) <= 1, (sent, got)


@tap.test("long poll: woken by an append, a close, a close with data, a delete")
def _():
    ds.put("/wake")
    f = later("/wake")
    ds.post("/wake", b"news")
    a = f.result(30)
    tap.same((a.status, a.body, a["stream-next-offset"], a["cache-control"]), (200, b"news", offset(1), "no-store"))
    f = later("/wake", "?offset=1&live=long-poll")
    ds.post("/wake", b"last", Stream_Closed="true")
    a = f.result(30)
    tap.same((a.status, a.body, a["stream-closed"]), (200, b"last", "true"))
    for name, what in (("/wake/close", lambda n: ds.close(n)), ("/wake/delete", lambda n: ds.delete(n))):
        ds.put(name)
        f = later(name)
        what(name)
        a = f.result(30)
        tap.same((a.status, a["stream-closed"]), (204, "true") if "close" in name else (404, None))
    began = time.monotonic()
    for at in "now", "2":
        a = ds.get(f"/wake?offset={at}&live=long-poll", 204)
        tap.same((a["stream-closed"], a["stream-up-to-date"], a["stream-next-offset"]), ("true", "true", offset(2)))
    assert time.monotonic() - began < 2.5, "a closed stream never lets wait"


@tap.test("events: data, then control, for what is there and for each append; offsets go on from there")
def _():
    ds.get("/none?offset=-1&live=sse", 404)
    ds.put("/events", body=b"one")
    ds.get("/events?live=sse", 400)
    ds.get("/events?offset=9&live=sse", 400)
    e = sse("/events")
    tap.same((e.headers["cache-control"], "stream-sse-data-encoding" in e.headers), ("no-cache", False))
    data, control = e.pair()
    tap.same((data, control["streamNextOffset"], control["upToDate"]), (b"one", offset(1), True))
    assert abs(int(control["streamCursor"]) - now_cursor()) <= 1
    for i in range(2, 6):
        ds.post("/events", b"%d" % i)
        data, control = e.pair()
        tap.same((data, control["streamNextOffset"], control["upToDate"]), (b"%d" % i, offset(i), True))
    e.close()
    again = sse("/events", control["streamNextOffset"], f"&cursor={int(control['streamCursor']) + 7}")
    data, control = again.pair()
    tap.same((data, control["streamNextOffset"]), (None, offset(5)))
    assert int(control["streamCursor"]) > now_cursor() + 7
    first = int(control["streamCursor"])
    ds.post("/events", b"more")
    data, control = again.pair()
    tap.same((data, int(control["streamCursor"]) >= first), (b"more", True))
    again.close()


@tap.test("events: the bytes on the wire are those that simple readers look for")
def _():
    ds.put("/wire", body=b"a")
    ds.close("/wire")
    e = sse("/wire")
    while not e.ended:
        e._chunk()
    tap.same(e.text, b'event: data\ndata:a\n\nevent: control\ndata:{"streamNextOffset":"%s","upToDate":true,"streamClosed":true}\n\n'
             % offset(1).encode())


@tap.test("events: an empty stream and `now` begin with a control event; a closed one ends behind it")
def _():
    ds.put("/empty")
    for at in "-1", "now", "0":
        e = sse("/empty", at)
        data, control = e.pair()
        tap.same((data, control["streamNextOffset"], control["upToDate"]), (None, offset(0), True))
        e.close()
    e = sse("/empty", "now")
    e.pair()
    ds.post("/empty", b"last", Stream_Closed="true")
    data, control = e.pair()
    tap.same((data, control), (b"last", {"streamNextOffset": offset(1), "streamClosed": True, "upToDate": True}))
    tap.same(e.pair(), None, "the end")
    e = sse("/empty", "now")
    tap.same(e.pair(), (None, {"streamNextOffset": offset(1), "streamClosed": True, "upToDate": True}))
    tap.same(e.pair(), None, "the end")
    ds.put("/empty/close")
    e = sse("/empty/close")
    e.pair()
    ds.close("/empty/close")
    tap.same(e.pair()[1].get("streamClosed"), True)
    tap.same(e.pair(), None, "the end")


@tap.test("events: text of any shape comes back; no record can end an event or make one")
def _():
    texts = [b"a\nb", b"a\r\nb", b"a\rb", b"\n", b"\r\n\r\n", b" leading", b"  two", b"x\n y\n\n z", b":c", b"data:x", b"\xc3\xa9\xe2\x82\xac",
             b"event: control\ndata:{}\n\n", b"a\n\nevent: data\ndata:evil\n\n", b"tail\n", b"tail\r"]
    for i, text in enumerate(texts):
        name = f"/text/{i}"
        ds.put(name, body=text)
        e = sse(name)
        data, control = e.pair()
        e.close()
        want = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        tap.same((data, control["streamNextOffset"]), (want, offset(1)), repr(text))


@tap.test("events: bytes as base64, each event by itself; JSON as arrays that are whole")
def _():
    for kind in BYTES, "image/png", "application/x-protobuf":
        name = f"/b64/{kind}"
        ds.put(name, Content_Type=kind)
        e = sse(name)
        tap.same(e.headers["stream-sse-data-encoding"], "base64")
        e.pair()
        for n in 1, 2, 3, 4, 1000:
            value = os.urandom(n)
            ds.post(name, value, Content_Type=kind)
            data, _ = e.pair()
            tap.same((base64.b64decode(data, validate=True), len(data) % 4), (value, 0))
        e.close()
    ds.put("/sse/json", Content_Type=JSON, body=b'[1, "a\\nb"]')
    e = sse("/sse/json")
    tap.same("stream-sse-data-encoding" in e.headers, False)
    tap.same(e.pair()[0], b'[1,"a\\nb"]')
    ds.post("/sse/json", b'{"a":\n{}}', Content_Type=JSON)
    tap.same(json.loads(e.pair()[0]), [{"a": {}}])
    e.close()


@tap.test("events: records larger than a connection may hold, and long histories")
def _():
    big = os.urandom(5 << 20)
    text = (b"0123456789abcde\n" * (1 << 16)) * 3
    ds.put("/big", Content_Type=BYTES, body=big)
    ds.put("/big/text", body=text)
    ds.put("/big/json", Content_Type=JSON, body=json.dumps(["x" * (3 << 20), 1]).encode())
    e = sse("/big")
    tap.same(base64.b64decode(e.pair()[0], validate=True) == big, True)
    ds.post("/big", big[:100001], Content_Type=BYTES)
    data, control = e.pair()
    tap.same((base64.b64decode(data) == big[:100001], control["upToDate"]), (True, True))
    e.close()
    e = sse("/big/text")
    tap.same(e.pair()[0] == text, True)
    e.close()
    e = sse("/big/json")
    got = []
    while len(got) < 2:
        got += json.loads(e.pair()[0])
    tap.same(got == ["x" * (3 << 20), 1], True)
    e.close()
    ds.put("/history")
    for i in range(60):
        ds.post("/history", b"%03d" % i * 2000)
    e, got, flags = sse("/history"), b"", []
    while not flags or not flags[-1]:
        data, control = e.pair()
        got, flags = got + data, [*flags, control.get("upToDate", False)]
    tap.same((got == b"".join(b"%03d" % i * 2000 for i in range(60)), len(flags) > 3), (True, True), f"{flags}")
    e.close()


@tap.test("events: fifty readers see every append, in order, whichever wrote it")
def _():
    ds.put("/crowd")
    readers = [sse("/crowd", "now") for _ in range(50)]
    for e in readers:
        e.pair()
    for i in range(20):
        if i % 2:
            ds.post("/crowd", b"%d;" % i)
        else:
            tap.same(node.http("POST", "/crowd", b"%d;" % i).status, 200)
    ds.close("/crowd")

    def rest(e):
        got = b""
        while (pair := e.pair()) is not None:
            got += pair[0] or b""
        return got
    want = b"".join(b"%d;" % i for i in range(20))
    tap.same([rest(e) for e in readers], [want] * 50)


@tap.test("events: deleted under a reader, its answer ends; a reader that goes is forgotten")
def _():
    ds.put("/gone")
    e = sse("/gone")
    e.pair()
    ds.delete("/gone")
    tap.same(e.pair(), None, "the end")
    ds.put("/leave")
    tap.until(lambda: waiters() == 0, 60, "nobody waits")
    e = sse("/leave")
    e.pair()
    tap.until(lambda: waiters() == 1, 30, "it waits")
    e.socket.shutdown(socket.SHUT_RDWR)
    e.close()
    tap.until(lambda: waiters() == 0, 30, "nobody waits")


@tap.test("events: a reader that does not read pins no memory and holds up nobody")
def _():
    ds.put("/slow", Content_Type=BYTES)
    slow = []
    for _ in range(50):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", node.ds_port))
        s.sendall(b"GET /slow?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n")
        slow.append(s)
    pid = node.pid("worker-http 0" if "worker-http 0" in node.children() else "worker-http")
    before = node.rss(pid)
    for _ in range(20):
        ds.post("/slow", b"x" * (1 << 20), Content_Type=BYTES)
    e = sse("/slow")
    for _ in range(3):
        e.pair()
    e.close()
    grown = node.rss(pid) - before
    tap.diag(f"{grown >> 10} KiB more for 50 slow readers")
    assert grown < 200 << 20, grown  # 50 times 20 MiB if it were not bounded
    for s in slow:
        s.close()


@tap.test("events: a comment goes out when nothing else does; the answer ends by itself, between events")
def _():
    ds.put("/long")
    began = time.monotonic()
    e = sse("/long")
    e.pair()
    while b":\n\n" not in e.text and not e.ended:
        e._chunk()
    quiet = time.monotonic() - began
    assert 10 < quiet < 35, quiet
    ds.post("/long", b"x")
    tap.same(e.pair()[0], b"x")
    tap.same(e.pair(), None, "the end")
    took = time.monotonic() - began
    assert 35 < took < 400, took
    a = socket.create_connection(("127.0.0.1", node.ds_port))
    a.close()


@tap.test("SIGTERM: each reader's answer ends whole")
def _():
    ds.put("/drain", body=b"x")
    readers = [sse("/drain") for _ in range(20)]
    for e in readers:
        e.pair()
    f = pool.submit(lambda: node.ds("GET", "/drain?offset=1&live=long-poll"))
    time.sleep(0.3)
    began = time.monotonic()
    node.process.terminate()
    for e in readers:
        tap.same(e.pair(), None, "the end")
    a = f.result(30)
    tap.same((a.status, a["stream-next-offset"]), (204, offset(1)))
    tap.same(node.process.wait(60), 0, "exit code")
    assert time.monotonic() - began < 30


tap.run(node.stop)
