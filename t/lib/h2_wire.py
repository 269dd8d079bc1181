# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 frame by frame (RFC 9113), for what no well-behaved client sends. Header blocks are packed and unpacked by the
system's hpack (python3-h2's), or given as bytes."""
import collections, os, socket, struct, sys

sys.path.append("/usr/lib/python3/dist-packages")
try:
    import hpack
except ImportError:
    hpack = None

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY_FLAG = 1, 1, 4, 8, 32
NO_ERROR, PROTOCOL, INTERNAL, FLOW_CONTROL, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE, REFUSED, CANCEL, COMPRESSION, \
    CONNECT, CALM = range(12)
Frame = collections.namedtuple("Frame", "type flags stream payload")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A field without index, lengths below 127 in one byte: what an honest packer would refuse, too."""
    def text(s):
        s = s.encode("latin-1") if isinstance(s, str) else s
        n = len(s)
        if n < 127:
            return bytes([n]) + s
        rest, n = b"\x7f", n - 127
        while n >= 128:
            rest, n = rest + bytes([n % 128 | 128]), n // 128
        return rest + bytes([n]) + s
    return b"\0" + text(name) + text(value)


def block(fields):
    return b"".join(literal(name, value) for name, value in fields)


def request(method="GET", path="/t", *more, authority="x"):
    return [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority), *more]


class Connection:
    """One client. What comes is kept by stream: heads, bodies, resets."""

    def __init__(self, port, settings=b"", greet=True, timeout=20, window=None):
        self.sock = socket.socket()
        if window is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.sock.connect(("127.0.0.1", port))
        self.sock.settimeout(timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = hpack.Decoder(max_header_list_size=1 << 20)
        self.left, self.ended, self.goaway, self.settings_acks = b"", False, None, 0
        self.status, self.head, self.body, self.reset, self.done = {}, {}, collections.defaultdict(bytes), {}, set()
        self.pings, self.settings, self.windows, self.interim = [], [], collections.Counter(), {}
        if greet:
            self.raw(PREFACE + frame(SETTINGS, 0, 0, settings))

    def raw(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            pass  # what it said before is still to be read

    def send(self, kind, flags, stream, payload=b""):
        self.raw(frame(kind, flags, stream, payload))

    def ask(self, stream, fields=None, end=True, flags=END_HEADERS):
        self.send(HEADERS, flags | (END_STREAM if end else 0), stream, block(fields or request()))

    def open_windows(self, stream, n=1 << 20):
        for s in 0, stream:
            self.send(WINDOW_UPDATE, 0, s, struct.pack(">I", n))

    def read_frame(self):
        """The next frame, noted; None at the end."""
        while len(self.left) < 9 or len(self.left) < 9 + int.from_bytes(self.left[:3], "big"):
            try:
                data = self.sock.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                self.ended = True
                return None
            self.left += data
        n = int.from_bytes(self.left[:3], "big")
        f = Frame(self.left[3], self.left[4], int.from_bytes(self.left[5:9], "big"), self.left[9:9 + n])
        self.left = self.left[9 + n:]
        self.note(f)
        return f

    def note(self, f):
        if f.type == HEADERS:
            assert f.flags & END_HEADERS
            fields = self.decoder.decode(f.payload)
            status = int(fields[0][1])
            if status < 200:
                self.interim[f.stream] = status
            else:
                self.status[f.stream], self.head[f.stream] = status, dict(fields)
        elif f.type == DATA:
            self.body[f.stream] += f.payload
        elif f.type == RST_STREAM:
            self.reset[f.stream] = int.from_bytes(f.payload, "big")
        elif f.type == GOAWAY:
            self.goaway = struct.unpack(">II", f.payload[:8])
        elif f.type == PING and f.flags & ACK:
            self.pings.append(f.payload)
        elif f.type == SETTINGS:
            if f.flags & ACK:
                self.settings_acks += 1
            else:
                self.settings.append(f.payload)
        elif f.type == WINDOW_UPDATE:
            self.windows[f.stream] += int.from_bytes(f.payload, "big")
        if f.type in (HEADERS, DATA) and f.flags & END_STREAM:
            self.done.add(f.stream)

    def read_until(self, condition, what="that"):
        while not condition(self):
            if self.read_frame() is None:
                assert condition(self), f"the connection ended before {what}: {self}"
                return

    def answer(self, stream):
        """The status of a stream's whole answer."""
        self.read_until(lambda c: stream in c.done or stream in c.reset or c.goaway, f"the answer of stream {stream}")
        return self.status.get(stream)

    def ping(self, word=b"12345678"):
        self.send(PING, 0, 0, word)
        self.read_until(lambda c: word in c.pings or c.goaway, "the ping came back")
        return word in self.pings

    def read_end(self):
        self.read_until(lambda c: c.ended, "the end")

    def close(self):
        self.sock.close()

    def __repr__(self):
        return f"<goaway {self.goaway} reset {self.reset} status {self.status} ended {self.ended}>"


def outcome(c, stream=1):
    """What became of it: ('connection', code), ('stream', code), or the status. Reads until one of them is known."""
    c.read_until(lambda c: c.goaway or c.ended or stream in c.reset or stream in c.done, "an outcome")
    if stream in c.done and stream not in c.reset and c.goaway is None:
        return c.status[stream]
    if c.goaway is not None:
        c.read_end()
        return "connection", c.goaway[1]
    assert stream in c.reset, f"closed without a word: {c}"
    return "stream", c.reset[stream]
