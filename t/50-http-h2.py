#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a client must not do in HTTP/2 (RFC 9113, sections 3 to 8), one by one on a real node: the right error, for the
stream or for the connection; a stream's error leaves the connection in use."""
import struct

import tap
from h2_wire import *
from node import Node

node = Node("--long-poll-timeout-ms", "20000")
POLL = request("GET", "/t?seq=now&live=long-poll")
CONN, STREAM, ANY = "connection", "stream", "either"


def u32(n):
    return struct.pack(">I", n)


def setting(kind, value):
    return struct.pack(">HI", kind, value)


def post(*more):
    return request("POST", "/t", *more)


def is_as_expected(c, want, stream):
    got = outcome(c, stream)
    if isinstance(want, int):
        tap.same(got, want, f"{c} {c.body}")
    elif want[0] == ANY:
        tap.same(got[1], want[1], c)
    else:
        tap.same(got, want, c)
    if isinstance(want, int) or got[0] == STREAM:
        assert c.ping(), c
        if stream != 99:
            c.ask(99)
            tap.same(outcome(c, 99), 200, f"another stream afterwards: {c}")


def case(section, words, want, stream=1, **kw):
    """A function that sends what is wrong."""
    def add(send):
        @tap.test(f"{section} {words}")
        def _():
            c = Connection(node.port, **kw)
            send(c)
            is_as_expected(c, want, stream)
            c.close()
        return send
    return add


def sends(section, words, want, data, stream=1, before=None):
    """Bytes that are wrong, behind `before`."""
    @case(section, words, want, stream)
    def _(c):
        if before is not None:
            before(c)
        c.raw(data)


def fields(section, words, want, *field, before=()):
    """A request with a field that is wrong, behind those of a good one."""
    @case(section, words, want)
    def _(c):
        c.ask(1, [*before, *request(), *field])


@tap.test("streams to ask for")
def _():
    node.start()
    for name, size in ("/t", 10), ("/large", 100000):
        tap.same(node.http("PUT", name).status, 201, "create")
        tap.same(node.http("POST", name, b"x" * size).status, 200, "append")


@tap.test("3.4 the server begins with SETTINGS: streams 200, header list 65536; and acknowledges the client's")
def _():
    c = Connection(node.port)
    first = c.read_frame()
    tap.same((first.type, first.flags, first.stream), (SETTINGS, 0, 0), "first frame")
    tap.same(first.payload, setting(3, 200) + setting(6, 65536) + setting(9, 1), "settings")
    c.read_until(lambda c: c.settings_acks == 1, "the acknowledgement")
    c.send(SETTINGS, ACK, 0)
    tap.same(c.ping(), True, "ping")
    c.close()


@tap.test("3.4 a preface that goes wrong is no HTTP/2; one byte at a time it is")
def _():
    c = Connection(node.port, greet=False)
    c.raw(PREFACE[:-4] + b"X\r\n\r\n")
    assert c.sock.recv(1000).startswith(b"HTTP/1.1 505 "), c
    c.close()
    c = Connection(node.port, greet=False)
    for byte in PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, 1, block(request())):
        c.raw(bytes([byte]))
    tap.same(c.answer(1), 200, "the answer")
    c.close()


@case("3.4", "the client begins without SETTINGS", (CONN, PROTOCOL), greet=False)
def _(c):
    c.raw(PREFACE + frame(PING, 0, 0, b"12345678"))


# ------------------------------------------------------------------ 4 frames

@case("4.1", "a frame of unknown type is ignored", 200)
def _(c):
    c.send(0xbe, 0xff, 1, b"whatever")
    c.send(0xbe, 0xff, 0, b"whatever")
    c.ask(1)


@case("4.1", "flags without meaning and the reserved bit are ignored", 200)
def _(c):
    c.raw(frame(PING, 0xfe, 0x80000000, b"87654321"))
    c.raw(frame(HEADERS, END_HEADERS | END_STREAM | 0x42, 0x80000001, block(request())))


sends("4.2", "a frame over 16384 bytes that changes the connection", (CONN, FRAME_SIZE),
      frame(HEADERS, END_HEADERS, 1, bytes(16385)))
sends("4.2", "SETTINGS over 16384 bytes", (CONN, FRAME_SIZE), frame(SETTINGS, 0, 0, setting(0xff, 1) * 2731))
sends("4.2", "DATA over 16384 bytes", (ANY, FRAME_SIZE), frame(DATA, 0, 1, bytes(16385)),
      before=lambda c: c.ask(1, post(), end=False))
sends("4.3", "an index that is in no table", (CONN, COMPRESSION), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\x70"))
sends("4.3", "index 0", (CONN, COMPRESSION), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x80"))
sends("4.3", "a block that ends inside a field", (CONN, COMPRESSION),
      frame(HEADERS, END_HEADERS | END_STREAM, 1, block(request())[:-1]))
sends("4.3", "Huffman padding of more than 7 bits", (CONN, COMPRESSION),
      frame(HEADERS, END_HEADERS | END_STREAM, 1, block(request()) + b"\0\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff"))
sends("4.3", "a table larger than we allow", (CONN, COMPRESSION),
      frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xe1\xff\x07" + block(request())))
sends("4.3", "a change of the table behind a field", (CONN, COMPRESSION),
      frame(HEADERS, END_HEADERS | END_STREAM, 1, block(request()) + b"\x20"))

# ------------------------------------------------------------------ 5 streams

for name, data in (("DATA", frame(DATA, END_STREAM, 1, b"x")), ("RST_STREAM", frame(RST_STREAM, 0, 1, u32(CANCEL))),
                   ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 1, u32(1))),
                   ("CONTINUATION", frame(CONTINUATION, END_HEADERS, 1, block(request())))):
    sends("5.1", f"idle: {name}", (CONN, PROTOCOL), data)


def park(c, stream=1):
    c.ask(stream, POLL)
    assert c.ping()


sends("5.1", "half-closed: DATA", (ANY, STREAM_CLOSED), frame(DATA, END_STREAM, 1, b"x"), before=park)
sends("5.1", "half-closed: HEADERS", (ANY, STREAM_CLOSED), frame(HEADERS, END_HEADERS | END_STREAM, 1, block(request())),
      before=park)
for name, data in (("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 1, u32(1))), ("PRIORITY", frame(PRIORITY, 0, 1, bytes(5)))):
    sends("5.1", f"half-closed: {name} is fine", 200, data + frame(HEADERS, END_HEADERS | END_STREAM, 3, block(request())),
          stream=3, before=park)


def ended(c):
    c.ask(1)
    tap.same(c.answer(1), 200, "answer")
    c.status.clear(), c.done.clear()


def given_up(c):
    park(c)
    c.send(RST_STREAM, 0, 1, u32(CANCEL))
    assert c.ping(b"given up")


for when, before in (("ended", ended), ("reset", given_up)):
    sends("5.1", f"{when}: DATA", (CONN, STREAM_CLOSED), frame(DATA, END_STREAM, 1, b"x"), before=before)
    sends("5.1", f"{when}: HEADERS", (CONN, STREAM_CLOSED),
          frame(HEADERS, END_HEADERS | END_STREAM, 1, block(request())), before=before)
sends("5.1", "ended: late WINDOW_UPDATE, RST_STREAM and PRIORITY are fine", 200,
      frame(WINDOW_UPDATE, 0, 1, u32(1)) + frame(RST_STREAM, 0, 1, u32(CANCEL)) + frame(PRIORITY, 0, 1, bytes(5)) +
      frame(HEADERS, END_HEADERS | END_STREAM, 3, block(request())), stream=3, before=ended)


@case("5.1", "reset by the server: DATA that was on its way is ignored", 200, stream=3)
def _(c):
    c.ask(1, post(("connection", "close")), end=False)
    tap.same(outcome(c), (STREAM, PROTOCOL), "reset")
    c.send(DATA, END_STREAM, 1, b"late")
    c.ask(3)


sends("5.1.1", "an even stream", (CONN, PROTOCOL), frame(HEADERS, END_HEADERS | END_STREAM, 2, block(request())))
sends("5.1.1", "a lower stream than before", (CONN, PROTOCOL),
      frame(HEADERS, END_HEADERS | END_STREAM, 3, block(request())), before=lambda c: park(c, 5))


@tap.test("5.1.2 the 201st stream at once is refused, those before are served, and room comes back")
def _():
    c = Connection(node.port)
    end = node.http("HEAD", "/t")["pico-next-seq"]
    for i in range(201):
        c.ask(2 * i + 1, request("GET", f"/t?seq={end}&live=long-poll"))
    tap.same(outcome(c, 401), (STREAM, REFUSED), "the 201st")
    tap.same((c.reset, c.status), ({401: REFUSED}, {}), "all others wait")
    c.send(RST_STREAM, 0, 1, u32(CANCEL))
    c.ask(403)
    tap.same(c.answer(403), 200, "behind one that was given up")
    tap.same(node.http("POST", "/t", b"news").status, 200, "append")
    c.read_until(lambda c: len(c.status) == 200, "all answers")
    tap.same(set(c.status.values()), {200}, "answers")
    c.close()


sends("5.5", "a frame of unknown type inside a header block", (CONN, PROTOCOL),
      frame(HEADERS, END_STREAM, 1, block(request())) + frame(0xbe, 0, 1, b""))

# ------------------------------------------------------------------ 6 frame by frame

sends("6.1", "DATA of stream 0", (CONN, PROTOCOL), frame(DATA, 0, 0, b"x"))
sends("6.1", "DATA with more padding than there is", (CONN, PROTOCOL), frame(DATA, PADDED, 1, b"\5abc"),
      before=lambda c: c.ask(1, post(), end=False))


@case("6.1", "DATA with padding is read without it", 200)
def _(c):
    c.ask(1, post(("content-length", "3")), end=False)
    c.send(DATA, PADDED | END_STREAM, 1, b"\4abc\0\0\0\0")


sends("6.2", "HEADERS of stream 0", (CONN, PROTOCOL), frame(HEADERS, END_HEADERS | END_STREAM, 0, block(request())))
sends("6.2", "HEADERS with more padding than there is", (CONN, PROTOCOL),
      frame(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, b"\xff" + block(request())))
sends("6.2", "HEADERS, then another frame inside the block", (CONN, PROTOCOL),
      frame(HEADERS, END_STREAM, 1, block(request())) + frame(PING, 0, 0, bytes(8)))
sends("6.2", "HEADERS, then those of another stream inside the block", (CONN, PROTOCOL),
      frame(HEADERS, END_STREAM, 1, block(request())) + frame(HEADERS, END_STREAM | END_HEADERS, 3, block(request())))
sends("6.2", "HEADERS too short for its priority", (CONN, FRAME_SIZE),
      frame(HEADERS, END_HEADERS | END_STREAM | PRIORITY_FLAG, 1, b"\0\0\0"))
sends("6.3", "PRIORITY of stream 0", (CONN, PROTOCOL), frame(PRIORITY, 0, 0, bytes(5)))
sends("6.3", "PRIORITY of a length other than 5", (ANY, FRAME_SIZE), frame(PRIORITY, 0, 1, bytes(4)), before=park)
sends("6.4", "RST_STREAM of stream 0", (CONN, PROTOCOL), frame(RST_STREAM, 0, 0, u32(CANCEL)))
sends("6.4", "RST_STREAM of a length other than 4", (CONN, FRAME_SIZE), frame(RST_STREAM, 0, 1, bytes(3)), before=park)
sends("6.5", "SETTINGS of a stream", (CONN, PROTOCOL), frame(SETTINGS, 0, 1, b""))
sends("6.5", "SETTINGS acknowledged with content", (CONN, FRAME_SIZE), frame(SETTINGS, ACK, 0, setting(3, 1)))
sends("6.5", "SETTINGS of a length that is no multiple of 6", (CONN, FRAME_SIZE), frame(SETTINGS, 0, 0, bytes(5)))
sends("6.5.2", "ENABLE_PUSH neither 0 nor 1", (CONN, PROTOCOL), frame(SETTINGS, 0, 0, setting(2, 2)))
sends("6.5.2", "INITIAL_WINDOW_SIZE over 2^31-1", (CONN, FLOW_CONTROL), frame(SETTINGS, 0, 0, setting(4, 1 << 31)))
sends("6.5.2", "MAX_FRAME_SIZE below 16384", (CONN, PROTOCOL), frame(SETTINGS, 0, 0, setting(5, 16383)))
sends("6.5.2", "MAX_FRAME_SIZE over 2^24-1", (CONN, PROTOCOL), frame(SETTINGS, 0, 0, setting(5, 1 << 24)))
sends("6.5.3", "an acknowledgement of nothing", (CONN, PROTOCOL), frame(SETTINGS, ACK, 0) * 2)


@case("6.5.2", "a setting that is not known is ignored", 200)
def _(c):
    c.send(SETTINGS, 0, 0, setting(0xfefe, 7))
    c.ask(1)
    c.read_until(lambda c: c.settings_acks == 2, "both acknowledged")


sends("6.6", "PUSH_PROMISE of a client", (CONN, PROTOCOL), frame(PUSH_PROMISE, END_HEADERS, 1, u32(2) + block(request())),
      before=park)
sends("6.7", "PING of a stream", (CONN, PROTOCOL), frame(PING, 0, 1, bytes(8)))
sends("6.7", "PING of a length other than 8", (CONN, FRAME_SIZE), frame(PING, 0, 0, bytes(7)))


@case("6.7", "PING comes back as it went, its acknowledgement does not", 200)
def _(c):
    c.send(PING, ACK, 0, b"nobody's")
    assert c.ping(b"mine!!!!") and c.pings == [b"mine!!!!"], c.pings
    c.ask(1)


sends("6.8", "GOAWAY of a stream", (CONN, PROTOCOL), frame(GOAWAY, 0, 1, bytes(8)), before=park)
sends("6.8", "GOAWAY shorter than 8", (CONN, FRAME_SIZE), frame(GOAWAY, 0, 0, bytes(7)))


@tap.test("6.8 GOAWAY of the client: what it asked is answered, then the connection ends")
def _():
    c = Connection(node.port)
    c.ask(1, POLL)
    c.send(GOAWAY, 0, 0, bytes(8))
    assert c.ping()
    tap.same(node.http("POST", "/t", b"news").status, 200, "append")
    tap.same(c.answer(1), 200, "answer")
    c.read_end()
    c.close()


sends("6.9", "WINDOW_UPDATE of 0 for a stream", (ANY, PROTOCOL), frame(WINDOW_UPDATE, 0, 1, u32(0)), before=park)
sends("6.9", "WINDOW_UPDATE of 0 for the connection", (CONN, PROTOCOL), frame(WINDOW_UPDATE, 0, 0, u32(0)))
sends("6.9", "WINDOW_UPDATE of a length other than 4", (CONN, FRAME_SIZE), frame(WINDOW_UPDATE, 0, 0, bytes(3)))
sends("6.9.1", "a stream's window over 2^31-1", (STREAM, FLOW_CONTROL), frame(WINDOW_UPDATE, 0, 1, u32(0x7fffffff)),
      before=park)
sends("6.9.1", "the connection's window over 2^31-1", (CONN, FLOW_CONTROL), frame(WINDOW_UPDATE, 0, 0, u32(0x7fffffff)))
# The RFC asks for a connection error; nghttp2 resets the streams it concerns.
sends("6.9.2", "a new initial window takes a stream's over 2^31-1", (ANY, FLOW_CONTROL),
      frame(WINDOW_UPDATE, 0, 1, u32(0x7fffffff - 65535)) + frame(SETTINGS, 0, 0, setting(4, 65536)), before=park)


@case("6.9.1", "more DATA than the stream's window", (ANY, FLOW_CONTROL), stream=3)
def _(c):
    c.ask(1, post(), end=False)     # the oldest body, whose window opens as it comes, is another
    c.ask(3, post(), end=False)
    c.raw(frame(DATA, 0, 3, bytes(16384)) * 200)


@tap.test("6.9 DATA keeps to both windows, to a smaller initial one, and goes on when they open")
def _():
    c = Connection(node.port, settings=setting(4, 10))
    c.ask(1, request("GET", "/large?format=raw"))
    c.read_until(lambda c: len(c.body[1]) == 10, "10 bytes")
    assert c.ping()
    tap.same(len(c.body[1]), 10, "no more than the stream's window")
    c.send(SETTINGS, 0, 0, setting(4, 5))
    c.send(WINDOW_UPDATE, 0, 1, u32(5))
    assert c.ping(b"negative")
    tap.same(len(c.body[1]), 10, "the window is 0 after it was negative")
    c.send(WINDOW_UPDATE, 0, 1, u32(200000))
    c.read_until(lambda c: len(c.body[1]) == 65535, "the connection's window")
    assert c.ping(b"sent all")
    tap.same(len(c.body[1]), 65535, "no more than the connection's window")
    c.send(WINDOW_UPDATE, 0, 0, u32(200000))
    tap.same((c.answer(1), len(c.body[1])), (200, 100000), "all of it")
    c.close()


sends("6.10", "CONTINUATION without HEADERS", (CONN, PROTOCOL), frame(CONTINUATION, END_HEADERS, 1, b""), before=ended)
sends("6.10", "CONTINUATION of stream 0", (CONN, PROTOCOL),
      frame(HEADERS, END_STREAM, 1, block(request())) + frame(CONTINUATION, END_HEADERS, 0))
sends("6.10", "CONTINUATION of another stream", (CONN, PROTOCOL),
      frame(HEADERS, END_STREAM, 1, block(request())) + frame(CONTINUATION, END_HEADERS, 3))
sends("6.10", "CONTINUATION behind END_HEADERS", (CONN, PROTOCOL),
      frame(HEADERS, END_HEADERS, 1, block(post())) + frame(CONTINUATION, END_HEADERS, 1))
for n, want in (8, 200), (9, (CONN, CALM)):
    sends("6.10", f"{n} CONTINUATION frames", want, frame(HEADERS, END_STREAM, 1, block(request())) +
          frame(CONTINUATION, 0, 1) * (n - 1) + frame(CONTINUATION, END_HEADERS, 1))

# ------------------------------------------------------------------ 8 requests

BAD = (STREAM, PROTOCOL)


@case("8.1", "trailers without END_STREAM", BAD)
def _(c):
    c.ask(1, post(), end=False)
    c.ask(1, [("x", "y")], end=False)


@case("8.1", "trailers are dropped", 200)
def _(c):
    c.ask(1, post(), end=False)
    c.send(DATA, 0, 1, b"with trailers")
    c.ask(1, [("x", "y")])


@case("8.1", "trailers with a pseudo-header", BAD)
def _(c):
    c.ask(1, post(), end=False)
    c.ask(1, [(":method", "GET")])


for length, sent in ("4", b"abc"), ("2", b"abc"), ("0", b"abc"):
    @case("8.1.1", f"content-length {length}, and 3 bytes", BAD)
    def _(c, length=length, sent=sent):
        c.ask(1, post(("content-length", length)), end=False)
        c.send(DATA, END_STREAM, 1, sent)


fields("8.1.1", "content-length without a body", BAD, ("content-length", "3"))
fields("8.1.1", "two content-lengths", BAD, ("content-length", "0"), ("content-length", "0"))
fields("8.1.1", "a content-length that is no number", BAD, ("content-length", "x"))
fields("8.2", "a name in capitals", BAD, ("X-Thing", "y"))
for name in "a b", "a:b", "a\r", "a\0", "a\x7f", "\xe9", "":
    fields("8.2.1", f"a name {name!r}", BAD, (name, "y"))
for value in "a\rb", "a\nb", "a\0b":
    fields("8.2.1", f"a value {value!r}", BAD, ("x", value))
for value in " a", "a ", "\ta":
    fields("8.2.1", f"a value {value!r}", BAD, ("x", value))
for name, value in (("connection", "close"), ("keep-alive", "1"), ("proxy-connection", "x"), ("transfer-encoding", "chunked"),
                    ("upgrade", "h2c"), ("te", "gzip")):
    fields("8.2.2", f"{name}: {value}", BAD, (name, value))
fields("8.2.2", "te: trailers is fine", 200, ("te", "trailers"))
fields("8.2.3", "cookies in pieces are fine", 200, ("cookie", "a=1"), ("cookie", "b=2"))
fields("8.3", "a pseudo-header behind a field", BAD, before=[("x", "y")])
fields("8.3", "an unknown pseudo-header", BAD, before=[(":x", "y")])
fields("8.3", "a pseudo-header of answers", BAD, before=[(":status", "200")])
for name in ":method", ":scheme", ":path", ":authority":
    fields("8.3.1", f"two of {name}", BAD, before=[f for f in request() if f[0] == name])
for name in ":method", ":scheme", ":path":
    @case("8.3.1", f"none of {name}", BAD)
    def _(c, name=name):
        c.ask(1, [f for f in request() if f[0] != name])


@case("8.3.1", "neither :authority nor Host", BAD)
def _(c):
    c.ask(1, request()[:3])


@case("8.3.1", "Host instead of :authority is fine", 200)
def _(c):
    c.ask(1, [*request()[:3], ("host", "x")])


for path in "", "t", "http://x/t", "*":
    @case("8.3.1", f":path {path!r}", BAD)
    def _(c, path=path):
        c.ask(1, request("GET", path))


fields("8.3.1", "a Host that is not :authority", 400, ("host", "y"))
fields("8.3.1", "a Host that is :authority", 200, ("host", "x"))
for path in "/a#b", "/a\x80":
    @case("8.3.1", f":path {path!r}", 400)
    def _(c, path=path):
        c.ask(1, request("GET", path))


@case("8.5", "CONNECT with a path", BAD)
def _(c):
    c.ask(1, request("CONNECT"))


@case("8.5", "CONNECT is not done here", 400)
def _(c):
    c.ask(1, [(":method", "CONNECT"), (":authority", "x:1")])


@tap.test("the processes live, and nothing was logged of all that")
def _():
    tap.same([line for line in node.log().splitlines() if " warn " in line or " error " in line], [], "log")
    tap.same(node.stop(), 0, "exit code")


if hpack is None:
    tap._tests.clear()
    tap.skip("HTTP/2 violations", "python3-h2 is not installed")
tap.run()
