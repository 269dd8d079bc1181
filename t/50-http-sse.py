#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Server-sent events of the Pico protocol: data and control events, ids, resuming, ends, slow readers."""
import json, socket, threading, time

import tap
from ds import Events
from node import Node

node = Node("--conn-buffer-size", "64K", "--sse-max-duration-ms", "40000", "--max-chunk-size", "1024")
http = node.http


def sse(name, query="", **headers):
    e = Events(node.port, f"{name}?live=sse{query}", **headers)
    tap.same((e.status, e.headers["content-type"], e.headers["cache-control"], e.headers.get("content-length")),
             (200, "text/event-stream", "no-cache", None), name)
    return e


def put(name, **headers):
    tap.same(http("PUT", name, **headers).status, 201, name)


def post(name, body=b"x", **headers):
    a = http("POST", name, body, **headers)
    tap.same(a.status, 200, str(a))


def pair(e):
    """Records and what control says; the ids of both are its next_seq."""
    name, data = e.next()
    first = e.id
    records = None
    if name == "data":
        records = json.loads(data)
        name, data = e.next()
        tap.same(e.id, first, "one id")
    tap.same(name, "control")
    control = json.loads(data)
    tap.same(e.id, str(control["next_seq"]))
    return records, control


@tap.test("what is there comes in chunks, each with its control event; then what is appended")
def _():
    node.start()
    put("/a")
    for i in range(5):
        post("/a", b"%d" % i * 400)
    e = sse("/a")
    seen, steps = [], []
    while len(seen) < 5:
        records, control = pair(e)
        seen += [r["seq"] for r in records]
        steps.append((len(records), control["next_seq"], control["up_to_date"]))
        assert "closed" not in control, control
    tap.same((seen, steps[-1][1:]), ([0, 1, 2, 3, 4], (5, True)))
    assert len(steps) > 1 and not steps[0][2], steps
    for i in range(5, 8):
        post("/a", b"news", Pico_Key="k")
        records, control = pair(e)
        tap.same([(r["seq"], r["key"], r["body"]) for r in records], [(i, "k", "news")])
        tap.same(control, {"next_seq": i + 1, "up_to_date": True})
    e.close()


@tap.test("the bytes of the events")
def _():
    put("/bytes")
    post("/bytes", b"one")
    stamp = http("GET", "/bytes").json()[0]["timestamp"]
    e = sse("/bytes")
    pair(e)
    e.close()
    s = socket.create_connection(("127.0.0.1", node.port), 60)
    s.sendall(b"GET /bytes?live=sse HTTP/1.0\r\nHost: x\r\n\r\n")
    got, want = b"", (b'event: data\ndata:[{"seq":0,"timestamp":%d,"body":"one"}]\nid: 1\n\n'
                      b'event: control\ndata:{"next_seq":1,"up_to_date":true}\nid: 1\n\n' % stamp)
    while len(got.partition(b"\r\n\r\n")[2]) < len(want):
        got += s.recv(4096)
    s.close()
    tap.same(got.partition(b"\r\n\r\n")[2], want)


@tap.test("resuming: Last-Event-ID, which seq overrides; now; an empty stream; count, bytes and format do not count")
def _():
    e = sse("/a", Last_Event_ID="6")
    tap.same([r["seq"] for r in pair(e)[0]], [6, 7])
    e.close()
    e = sse("/a", "&seq=7&count=1&bytes=1&format=raw&cursor=x", Last_Event_ID="2")
    tap.same([r["seq"] for r in pair(e)[0]], [7])
    e.close()
    e = sse("/a", "&seq=now")
    tap.same(pair(e), (None, {"next_seq": 8, "up_to_date": True}))
    e.close()
    put("/empty")
    e = sse("/empty")
    tap.same(pair(e), (None, {"next_seq": 0, "up_to_date": True}))
    post("/empty")
    tap.same([r["seq"] for r in pair(e)[0]], [0])
    e.close()


@tap.test("refusals: no stream has no body; too far is 400, trimmed 410, several partitions want one named")
def _():
    a = http("GET", "/none?live=sse")
    tap.same((a.status, a.body), (404, b""))
    a = http("GET", "/a?live=sse&seq=9")
    tap.same((a.status, a["pico-next-seq"]), (400, "8"))
    post("/a", b"", Pico_Trim_Seq="2")
    a = http("GET", "/a?live=sse&seq=1")
    tap.same((a.status, a["pico-start-seq"]), (410, "2"))
    put("/parts", Pico_Partitions="2")
    tap.same(http("GET", "/parts?live=sse").json()["error"], "partition_required")
    http("POST", "/parts?partition=1", b"p")
    e = sse("/parts", "&partition=1")
    tap.same(pair(e)[0][0]["body"], "p")
    e.close()


@tap.test("ends: closed and read, also while it waits; deleted")
def _():
    e = sse("/empty", "&seq=now")
    pair(e)
    post("/empty", b"last", Pico_Closed="true")
    records, control = pair(e)
    tap.same((records[0]["body"], control, e.next()), ("last", {"next_seq": 2, "up_to_date": True, "closed": True}, None))
    e = sse("/empty", "&seq=now")
    tap.same((pair(e)[1], e.next()), ({"next_seq": 2, "up_to_date": True, "closed": True}, None))
    put("/close")
    e = sse("/close")
    pair(e)
    post("/close", b"", Pico_Closed="true")
    tap.same((pair(e)[1], e.next()), ({"next_seq": 0, "up_to_date": True, "closed": True}, None))
    put("/gone")
    e = sse("/gone")
    pair(e)
    tap.same(http("DELETE", "/gone").status, 204)
    tap.same(e.next(), None)


@tap.test("the time is up: the answer ends whole, within it a comment every 15 s; the next one goes on behind it")
def _():
    put("/late")
    began = time.monotonic()
    e = sse("/late")
    pair(e)
    tap.same(e.next(), None)
    took = time.monotonic() - began
    assert 39 < took < 60, took
    tap.same(e.comments, 2, "after 15 and after 30 s")
    e = sse("/late", Last_Event_ID=e.id or "0")
    post("/late", b"after")
    while (records := pair(e)[0]) is None:
        pass
    tap.same(records[0]["body"], "after")
    e.close()


@tap.test("a reader that stops is bounded: the node's memory does not grow with what it does not take")
def _():
    put("/slow")
    e = sse("/slow", "&seq=now")
    pair(e)

    def rss():
        with open(f"/proc/{node.pid('worker-http')}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    body = b"s" * 500000
    for _ in range(10):
        post("/slow", body)
    before = rss()
    for _ in range(90):
        post("/slow", body)
    grown = rss() - before
    assert grown < 10000, f"{grown} KiB for 45 MB that nobody took"
    seqs = []
    while len(seqs) < 100:
        records, control = pair(e)
        seqs += [r["seq"] for r in records or []]
    tap.same(seqs, list(range(100)), "and it gets every one of them")
    e.close()


@tap.test("readers of one stream all see everything, in order, over a kill of storaged")
def _():
    put("/all")
    results = [[] for _ in range(8)]

    def read(i):
        at = "0"
        while len(results[i]) < 60:
            try:
                e = Events(node.port, "/all?live=sse", Last_Event_ID=at)
                if e.status != 200:
                    continue
                while len(results[i]) < 60 and (event := e.next()) is not None:
                    at = e.id
                    if event[0] == "data":
                        results[i] += [r["body"] for r in json.loads(event[1])]
                e.close()
            except (OSError, AssertionError):
                pass
    threads = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(8)]
    for t in threads:
        t.start()
    for i in range(60):
        if i == 30:
            node.kill("storaged")
        post("/all", b"%d" % i, Pico_Producer_Id="p", Pico_Producer_Epoch="0", Pico_Producer_Seq=i)
    for t in threads:
        t.join(120)
    for got in results:
        tap.same(got, [str(i) for i in range(60)])
    tap.same(node.stop(), 0, "exit code")


tap.run()
