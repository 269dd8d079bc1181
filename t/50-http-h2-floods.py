#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 clients that make a node work or keep memory for nothing. Each ends with its connection or holds what a connection
may hold; a good client is served throughout, and the worker's memory stays where it was."""
import struct, threading, time

import tap
from h2_wire import *
from node import Client, Node

node = Node("--stall-timeout-ms", "5000", "--body-timeout-ms", "4000", "--header-timeout-ms", "3000")
stop = threading.Event()
good = {"n": 0, "slowest": 0.0, "fault": None}
SMALL = 6 << 20          # what a worker may grow by the fragments of an afternoon
MUCH = 20000             # frames of a flood


def u32(n):
    return struct.pack(">I", n)


def good_client():
    h1, h2 = Client(node.port, timeout=60), Connection(node.port)
    stream = 1
    while not stop.is_set():
        began = time.monotonic()
        if h1("GET", "/t").status != 200:
            good["fault"] = "HTTP/1.1"
        h2.ask(stream)
        h2.send(WINDOW_UPDATE, 0, 0, u32(1000))
        if h2.answer(stream) != 200:
            good["fault"] = str(h2)
        stream += 2
        good["n"] += 1
        good["slowest"] = max(good["slowest"], time.monotonic() - began)
        time.sleep(0.01)


def rss():
    return node.rss(node.pid("worker-http"))


def flood(words, bound=SMALL):
    """The function gets a connection and floods; memory is measured while it is still open, and again behind it."""
    def add(function):
        @tap.test(words)
        def _():
            before, served, pid = rss(), good["n"], node.pid("worker-http")
            good["slowest"] = 0.0
            connections = function() or []
            during = rss() - before
            for c in connections:
                c.close()
            tap.until(lambda: good["n"] > served + 5, 30, "the good client goes on")
            tap.diag(f"{during >> 10} KiB more while it stood, slowest good request {good['slowest'] * 1000:.0f} ms")
            tap.same((good["fault"], node.pid("worker-http")), (None, pid), "good client and process")
            assert during <= bound, f"grew by {during >> 10} KiB, {bound >> 10} are expected"
            assert good["slowest"] < 5, f"a good request took {good['slowest']} s"
        return function
    return add


def is_ended(c, code=CALM):
    c.read_until(lambda c: c.goaway or c.ended, "the end")
    assert c.goaway is not None and c.goaway[1] == code, c
    c.read_end()
    c.close()


@tap.test("a node, and streams of 10 bytes and of 3 MB")
def _():
    global thread
    node.start()
    for name, size in ("/t", 10), ("/large", 3000000):
        tap.same(node.http("PUT", name).status, 201, "create")
        tap.same(node.http("POST", name, b"x" * size).status, 200, "append")
    thread = threading.Thread(target=good_client, daemon=True)
    thread.start()
    tap.until(lambda: good["n"] > 50, 30, "the good client")


for words, data in (("PING", frame(PING, 0, 0, bytes(8))), ("SETTINGS", frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 9))),
                    ("PRIORITY", frame(PRIORITY, 0, 1, bytes(5))), ("unknown frames", frame(0xbe, 0, 0, b"x")),
                    ("PING, read by nobody", None)):
    @flood(f"{words}: ends")
    def _(data=data, read=data is not None):
        c = Connection(node.port)
        c.raw((data or frame(PING, 0, 0, bytes(8))) * MUCH)
        if read:
            is_ended(c)
        else:
            time.sleep(0.3)
            return [c]


@flood("empty DATA: ends")
def _():
    c = Connection(node.port)
    c.ask(1, request("POST", "/t"), end=False)
    c.raw(frame(DATA, 0, 1) * MUCH)
    is_ended(c)


@flood("CONTINUATION without end: ends at the ninth")
def _():
    c = Connection(node.port)
    c.send(HEADERS, END_STREAM, 1, block(request()))
    c.raw(frame(CONTINUATION, 0, 1, block([("x", "y" * 16000)])) * 500)
    is_ended(c)


@flood("streams begun and reset: ends after 200")
def _():
    c = Connection(node.port)
    poll = block(request("GET", "/t?seq=now&live=long-poll"))
    c.raw(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, s, poll) + frame(RST_STREAM, 0, s, u32(CANCEL))
                   for s in range(1, MUCH, 2)))
    c.read_until(lambda c: c.goaway or c.ended, "the end")
    assert c.goaway is not None and c.goaway[0] < 1000 and c.goaway[1] != NO_ERROR, c
    c.close()


for words, data in (("a window too large", lambda s: frame(WINDOW_UPDATE, 0, s, u32(0x7fffffff))),
                    ("trailers that do not end", lambda s: frame(HEADERS, END_HEADERS, s, block([("x", "y")]))),
                    ("more than its content-length", lambda s: frame(DATA, 0, s, b"xyz"))):
    @flood(f"streams that the server must reset ({words}): ends after 200")
    def _(data=data):
        c = Connection(node.port)
        post = block(request("POST", "/t", ("content-length", "1")))
        try:
            for s in range(1, MUCH, 2):
                c.sock.sendall(frame(HEADERS, END_HEADERS, s, post) + data(s))
        except OSError:
            pass
        c.read_until(lambda c: c.goaway or c.ended, "the end")
        assert c.goaway is None or c.goaway[1] == CALM, c
        assert 100 <= len(c.reset) <= 250, len(c.reset)
        c.close()


def bomb(c, n_fields):
    """Blocks of so many references to one field of 4 KB."""
    c.send(HEADERS, END_HEADERS | END_STREAM, 1, block(request()) + b"\x40" + literal("x", "y" * 3900)[1:])
    for s in range(3, 203, 2):
        c.send(HEADERS, END_HEADERS | END_STREAM, s, block(request()) + b"\xbe" * n_fields)


@flood("header blocks that unpack to 240 KB: 431 each")
def _():
    c = Connection(node.port)
    bomb(c, 60)
    c.read_until(lambda c: len(c.done) == 101, "all answers")
    tap.same(collections.Counter(c.status.values()), collections.Counter({200: 1, 431: 100}), "answers")
    return [c]


@flood("header blocks of 16 KB that unpack to 60 MB: ends at the first")
def _():
    c = Connection(node.port)
    bomb(c, 16000)
    is_ended(c)


@flood("200 answers of 3 MB on each of 5 connections, and no window: two pieces each; reset after the stall time-out",
       bound=5 * 200 * 90000 + SMALL)
def _():
    connections = [Connection(node.port, settings=struct.pack(">HI", 4, 0)) for _ in range(5)]
    for c in connections:
        for s in range(1, 401, 2):
            c.ask(s, request("GET", "/large?format=raw"))
        c.read_until(lambda c: len(c.status) == 200, "all heads")
        assert c.ping()
    grown = rss()
    for c in connections:
        c.read_until(lambda c: len(c.reset) == 200, "all resets")
        tap.same(set(c.reset.values()), {CANCEL}, "resets")
        c.ask(999, request("OPTIONS", "/t"))
        tap.same(c.answer(999), 204, "the connection is in use")
    tap.diag(f"after the resets {(rss() - grown) >> 10} KiB")
    return connections


@flood("200 bodies that stop on each of 5 connections: a window each at most; 408 each", bound=5 * 200 * 80000 + SMALL)
def _():
    connections = [Connection(node.port) for _ in range(5)]
    for c in connections:
        for s in range(1, 401, 2):
            c.ask(s, request("POST", "/t"), end=False)
            c.raw(frame(DATA, 0, s, bytes(16384)) * 3)
    for c in connections:
        c.read_until(lambda c: len(c.status) == 200 or c.goaway, "all answers")
        tap.same(collections.Counter(c.status.values()), collections.Counter({408: 200}), c)
        assert c.ping()
    return connections


@flood("heads of 60 KB that wait: 17 of them are taken, the others refused")
def _():
    c = Connection(node.port)
    for s in range(1, 101, 2):
        head = block(request("GET", "/t?seq=now&live=long-poll", *((f"x{i}", "y" * 4000) for i in range(15))))
        pieces = [head[i:i + 16000] for i in range(0, len(head), 16000)]
        c.raw(frame(HEADERS, END_STREAM, s, pieces[0]) + b"".join(
            frame(CONTINUATION, END_HEADERS if p is pieces[-1] else 0, s, p) for p in pieces[1:]))
    refused = 50 - (1 << 20) // 60100
    c.read_until(lambda c: len(c.reset) == refused, "the refusals")
    assert c.ping()
    tap.same((len(c.reset), set(c.reset.values())), (refused, {REFUSED}), c)
    return [c]


@flood("WINDOW_UPDATE of 1 byte, 200,000 times, while a body is read")
def _():
    c = Connection(node.port)
    c.ask(1, request("GET", "/large?format=raw"))
    for _ in range(100):
        c.raw(frame(WINDOW_UPDATE, 0, 1, u32(1)) * 2000)
    assert c.ping()
    return [c]


@flood("a header block that stops, half a frame, and a beginning that stops: end with the header time-out")
def _():
    block_stops, frame_stops, begins, preface = (Connection(node.port, greet=i < 2) for i in range(4))
    block_stops.send(HEADERS, END_STREAM, 1, block(request()))
    frame_stops.raw(frame(HEADERS, END_HEADERS, 1, block(request()))[:-3])
    begins.raw(PREFACE)
    preface.raw(PREFACE[:10])
    for c in block_stops, frame_stops, begins:
        is_ended(c)
    assert preface.sock.recv(1000).startswith(b"HTTP/1.1 408 ")
    preface.close()


@tap.test("afterwards: the good client was always served, no more than 20 lines were logged, the process is the same")
def _():
    stop.set()
    thread.join(30)
    tap.same(good["fault"], None, "good client")
    lines = [line for line in node.log().splitlines() if " warn " in line or " error " in line]
    assert len(lines) <= 20, "\n".join(lines)
    tap.same(node.stop(), 0, "exit code")


if hpack is None:
    tap._tests.clear()
    tap.skip("HTTP/2 floods", "python3-h2 is not installed")
tap.run()
